//! GPUs as the labels of dcgm-exporter's series describe them: their models, and the version of the driver. The series come from a scrape of the
//! exporter, or from a Prometheus that scrapes it.

use assay_manifest::JoinLabels;

use crate::keys::ObjectKeys;

/// The labels of dcgm-exporter's series that describe a GPU: the model as NVML names it, and the version of the driver.
const MODEL: &str = "modelName";
const DRIVER: &str = "DCGM_FI_DRIVER_VERSION";

/// The metrics whose series are read: exported by default, and of each GPU that is there, shared or not. All series of a GPU have the same labels.
const METRICS: [&str; 2] = ["DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_FB_USED"];

/// The most descriptions of GPUs that are kept of one Prometheus, and of all scrapes: several of each of a thousand GPUs, as they move from pod to pod.
pub const MAX_LABELLED_GPUS: usize = 16_384;

/// The way in which the series of an exporter were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelOrigin {
    /// The recorder scraped the exporter.
    Scrape,
    /// A Prometheus scraped the exporter.
    Prometheus,
}

/// A GPU as the labels of one of its series describe it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The way in which the series was read.
    pub origin: LabelOrigin,
}

impl LabelledGpu {
    /// Returns the GPU of a series of dcgm-exporter, by the values of its labels; `None` if it has no unique id.
    pub(crate) fn describe<'a>(origin: LabelOrigin, joins: &JoinLabels, label: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let ObjectKeys { gpu_uuid, node_name, pod_uid } = ObjectKeys::read(joins, &label);
        let value = |name: &str| label(name).filter(|value| !value.is_empty()).map(str::to_owned);
        Some(Self { uuid: gpu_uuid?, node_name, pod_uid, model: value(MODEL), driver_version: value(DRIVER), origin })
    }
}

/// Returns true if the series of a metric are read for the labels of their GPUs.
pub(crate) fn describes_gpu(metric: &str) -> bool {
    METRICS.contains(&metric)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;

    use assay_manifest::{Block, Digest, Instant, PrometheusSource};
    use serde_json::{Value, json};

    use super::*;
    use crate::prometheus::{AttemptKey, QueryLine, QueryOf, QueryRows, Request};

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
        let windows = BTreeMap::from([(key(0), (Instant::from_unix_ns(0), Instant::from_unix_ns(i64::MAX)))]);
        let source = source();
        let mut rows = QueryRows::open(&"fleet".parse().expect("a name"), &source, &windows, file.as_slice()).expect("a file");
        while rows.next_rows().expect("readable").is_some() {}
        rows.gpus().iter().cloned().collect()
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
            origin: LabelOrigin::Prometheus,
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
