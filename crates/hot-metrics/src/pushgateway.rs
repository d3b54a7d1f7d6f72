//! The Pushgateway: the text format of Prometheus in PUT requests, one for each case, whose group is in the path.
//!
//! Source: <https://github.com/prometheus/pushgateway/blob/master/README.md>. A group holds the last push alone, so a case shows its newest
//! run. The gateway takes no time stamps: its metrics have the time of their scrape.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assay_spec::HotLabel;

use crate::batch::{Batch, Gauge, Sample};
use crate::error::Result;
use crate::protocol::{Protocol, Request};

/// The label `job`, which every group of the gateway has.
pub(crate) const JOB: &str = "assay";

const HEADERS: &[(&str, &str)] = &[("content-type", "text/plain; version=0.0.4; charset=utf-8")];

pub(crate) struct Pushgateway;

impl Protocol for Pushgateway {
    fn requests(&self, url: &str, batch: &Batch) -> Result<Vec<Request>> {
        let mut cases: BTreeMap<&str, BTreeMap<&str, (&Gauge, Vec<&Sample>)>> = BTreeMap::new();
        for (name, gauge) in &batch.gauges {
            for sample in &gauge.samples {
                let case = sample.labels.get(&HotLabel::BenchmarkCaseId).map_or("", String::as_str);
                cases.entry(case).or_default().entry(name).or_insert_with(|| (gauge, Vec::new())).1.push(sample);
            }
        }
        let request = |(case, gauges): (&str, BTreeMap<&str, (&Gauge, Vec<&Sample>)>)| Request {
            url: group_url(url, case),
            replaces: true,
            headers: HEADERS,
            series: gauges.values().map(|(_, samples)| samples.len() as u64).sum(),
            body: text(&gauges).into_bytes(),
        };
        Ok(cases.into_iter().map(request).collect())
    }
}

/// Returns the address of a case's group. Names of cases need no escaping in a path.
fn group_url(url: &str, case: &str) -> String {
    format!("{}/metrics/job/{JOB}/{}/{case}", url.trim_end_matches('/'), HotLabel::BenchmarkCaseId)
}

fn text(gauges: &BTreeMap<&str, (&Gauge, Vec<&Sample>)>) -> String {
    let mut text = String::new();
    for (name, (gauge, samples)) in gauges {
        let help = gauge.help.replace('\\', r"\\").replace('\n', r"\n");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for sample in samples {
            let labels: Vec<_> = sample.labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{name}{labels} {:?}", sample.value);
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    use assay_spec::HotLabel::{BenchmarkCaseId, GpuModel, RunId};

    use crate::batch::tests::batch;

    #[test]
    fn each_case_is_a_group() {
        let two = batch(&[
            ("assay_x_seconds", &[(RunId, "one"), (BenchmarkCaseId, "a.b.c"), (GpuModel, "a \"b\" \\ c")], 1.5),
            ("assay_x_seconds", &[(RunId, "one"), (BenchmarkCaseId, "d.e.f")], 2e-9),
            ("assay_y", &[(RunId, "one"), (BenchmarkCaseId, "a.b.c")], 1e300),
        ]);
        let requests = Pushgateway.requests("http://gateway:9091/", &two).expect("encoded");
        let shown: Vec<_> = requests
            .iter()
            .map(|request| format!("PUT {} ({} series)\n{}", request.url, request.series, String::from_utf8_lossy(&request.body)))
            .collect();
        assert!(requests.iter().all(|request| request.replaces));
        insta::assert_snapshot!(shown.join("\n"));
    }
}
