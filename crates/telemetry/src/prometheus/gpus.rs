//! The GPUs that a Prometheus knows, by the labels of dcgm-exporter's series: their models, and the version of the driver.

use std::collections::BTreeSet;
use std::io::Read;

use assay_manifest::{Name, PackQuery, PrometheusSource};

use super::line::{QueryLine, Request};
use super::response::{SampledSeries, parse_series};
use super::rows::AttemptKey;
use crate::Error;
use crate::keys::ObjectKeys;
use crate::line::{LineFormat, Lines};

/// The labels of dcgm-exporter's series that describe a GPU: the model as NVML names it, and the version of the driver.
const MODEL: &str = "modelName";
const DRIVER: &str = "DCGM_FI_DRIVER_VERSION";

/// The metrics whose series are read: exported by default, and of each GPU that is there, shared or not. All series of a GPU have the same labels.
const METRICS: [&str; 2] = ["DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_FB_USED"];

/// The most descriptions of GPUs that are kept: several of each of a thousand GPUs, as they move from pod to pod.
const MAX_GPUS: usize = 16_384;

/// A GPU as the labels of one of its series describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelledGpu {
    /// The vendor's unique id.
    pub uuid: String,
    /// The node.
    pub node_name: Option<String>,
    /// The UID of the pod that had it.
    pub pod_uid: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The version of the driver.
    pub driver_version: Option<String>,
}

/// Reads the GPUs that have samples in the attempts of a run, each description once.
pub fn labelled_gpus(
    name: &Name,
    source: &PrometheusSource,
    attempts: &BTreeSet<AttemptKey>,
    file: impl Read,
) -> Result<BTreeSet<LabelledGpu>, Error> {
    let queries: Vec<&PackQuery> = source.queries().map(|(_, query)| query).collect();
    let mut lines: Lines<'_, QueryLine> = Lines::open(&super::file_name(name), LineFormat::Scrapes, file)?;
    let mut found = BTreeSet::new();
    while let Some(line) = lines.next()? {
        let Some(of) = line.of.filter(|_| line.request == Request::Samples) else { continue };
        let query = queries.get(of.query as usize).copied().filter(|query| is_read(query));
        let attempt = AttemptKey { block: of.block, trial_id: of.trial_id, attempt: of.attempt };
        let (Some(query), Some(body)) = (query.filter(|_| attempts.contains(&attempt)), line.body) else { continue };
        // A response that cannot be read is reported with the rows.
        let series = parse_series(&body).map(|response| response.series).unwrap_or_default();
        let gpus = series.iter().filter(|series| !series.samples.is_empty()).filter_map(|series| describe(query, series));
        found.extend(gpus.take(MAX_GPUS.saturating_sub(found.len())));
    }
    Ok(found)
}

fn is_read(query: &PackQuery) -> bool {
    let metric = query.query.split('{').next().unwrap_or_default();
    METRICS.contains(&metric) && query.joins.gpu_uuid.is_some()
}

/// Returns the GPU of a series; `None` if it has no unique id.
fn describe(query: &PackQuery, series: &SampledSeries) -> Option<LabelledGpu> {
    let label = |name: &str| series.labels.get(name).filter(|value| !value.is_empty());
    let ObjectKeys { gpu_uuid, node_name, pod_uid } = ObjectKeys::read(&query.joins, |name| label(name).map(String::as_str));
    Some(LabelledGpu {
        uuid: gpu_uuid?,
        node_name,
        pod_uid,
        model: label(MODEL).cloned(),
        driver_version: label(DRIVER).cloned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use assay_manifest::{Block, Digest, Instant};
    use serde_json::{Value, json};

    use super::super::line::QueryOf;
    use super::*;

    fn source() -> PrometheusSource {
        let query = |name: &str, joins: Value| {
            json!({
                "name": name, "query": format!("{name}{{cluster=\"a\"}}"), "kind": "gauge", "unit": "MHz", "scope_kind": "gpu",
                "scope_labels": ["UUID"], "joins": joins, "missing": "off",
            })
        };
        let joins = json!({"gpu_uuid": "UUID", "node_name": "Hostname", "pod_uid": "pod_uid"});
        let queries = [
            query(METRICS[0], joins.clone()),
            query("DCGM_FI_DEV_GPU_TEMP", joins),
            query(METRICS[1], json!({"node_name": "node"})),
        ];
        serde_json::from_value(json!({
            "url": "http://prometheus:9090",
            "packs": [{"name": "own", "digest": Digest::compute(b""), "exporter": "e", "resolution_ns": "1", "queries": queries}],
        }))
        .expect("a source")
    }

    fn key(attempt: u32) -> AttemptKey {
        let trial_id = "only.local.default.once.t0".parse().expect("an id");
        AttemptKey { block: Block { index: 0, incarnation: 0 }, trial_id, attempt }
    }

    fn line(attempt: u32, query: u32, labels: &Value) -> QueryLine {
        let AttemptKey { block, trial_id, attempt } = key(attempt);
        let result = [json!({"metric": labels, "values": [[1_700_000_000, "1980"]]})];
        QueryLine {
            request: Request::Samples,
            of: Some(QueryOf { block, trial_id, attempt, query }),
            promql: None,
            time: None,
            at: Instant::from_unix_ns(0),
            took_ns: 1,
            status: Some(200),
            body: Some(json!({"status": "success", "data": {"resultType": "matrix", "result": result}}).to_string()),
            error: None,
        }
    }

    fn read(lines: &[QueryLine]) -> Vec<LabelledGpu> {
        let mut packed = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        for line in lines {
            serde_json::to_writer(&mut packed, line).expect("written");
            packed.write_all(b"\n").expect("written");
        }
        let file = packed.finish().expect("packed");
        let found = labelled_gpus(&"fleet".parse().expect("a name"), &source(), &BTreeSet::from([key(0)]), file.as_slice());
        found.expect("read").into_iter().collect()
    }

    /// The labels are those of published expositions of dcgm-exporter 4.
    #[test]
    fn a_gpu_is_read_once_with_its_model_and_driver() {
        let labels = json!({
            "__name__": "DCGM_FI_DEV_SM_CLOCK", "gpu": "0", "UUID": "GPU-1", "pci_bus_id": "00000000:00:1E.0", "device": "nvidia0",
            "modelName": "Tesla T4", "Hostname": "node-7", "DCGM_FI_DRIVER_VERSION": "535.183.06", "pod": "",
        });
        let text = |text: &str| Some(text.to_owned());
        let gpu = LabelledGpu {
            uuid: "GPU-1".to_owned(),
            node_name: text("node-7"),
            pod_uid: None,
            model: text("Tesla T4"),
            driver_version: text("535.183.06"),
        };
        assert_eq!(read(&[line(0, 0, &labels), line(0, 0, &labels)]), [gpu]);
    }

    #[test]
    fn series_without_an_id_and_of_another_attempt_or_query_describe_no_gpu() {
        let gpu = json!({"UUID": "GPU-1", "modelName": "m"});
        let others =
            [line(1, 0, &gpu), line(0, 1, &gpu), line(0, 2, &gpu), line(0, 9, &gpu), line(0, 0, &json!({"modelName": "m"}))];
        assert_eq!(read(&others), []);
        let mut failed = line(0, 0, &gpu);
        failed.body = Some("no JSON".to_owned());
        assert_eq!(read(&[failed]), []);
    }
}
