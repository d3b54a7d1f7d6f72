//! The counters that the targets' endpoints expose at `/metrics`, as a text of Prometheus.

pub(crate) mod counters;

use std::collections::BTreeMap;

use assay_manifest::{Case, CaseId, Environment, Plan, PointId};

use crate::line::LineFormat;
use crate::metric::{MetricKind, Observed, parse_text, unit_by_name};
use crate::recording::ReadingBody;
use crate::slice::Slice;
use crate::source::{Kind, Sampled, Sampling, ScrapeAddress, Source, SourceKind};

/// The path of an endpoint's counters.
const PATH: &str = "/metrics";

/// The histograms in which serving programs count the time that requests spent in their queues, in seconds: vLLM, SGLang, TGI.
const QUEUE_HISTOGRAMS: [&str; 3] =
    ["vllm:request_queue_time_seconds", "sglang:queue_time_seconds", "tgi_request_queue_duration"];

/// The counters of the endpoints under test.
pub(crate) struct Endpoint;

impl SourceKind for Endpoint {
    fn word(&self) -> &'static str {
        "endpoint"
    }

    fn noun(&self) -> &'static str {
        "target"
    }

    fn is_named(&self) -> bool {
        true
    }

    /// Returns every target of the block that has an address.
    fn sampled(&self, plan: &Plan, environment: &Environment) -> Vec<Sampled> {
        let with_address = |target: &assay_manifest::ProvisionedTarget| {
            let address = ScrapeAddress::Endpoint { address: target.address.clone()?, path: PATH };
            let planned = plan.target(&target.id);
            let headers = planned.map_or_else(Vec::new, |planned| planned.headers.clone());
            let insecure_skip_tls_verify = planned.is_some_and(|planned| planned.insecure_skip_tls_verify);
            let sampling = Sampling::Scrape { address, headers, insecure_skip_tls_verify };
            Some(Sampled { source: Source::endpoint(&target.id), sampling })
        };
        environment.targets.iter().filter_map(with_address).collect()
    }

    /// Returns the target of the case, if the target is an endpoint.
    fn observing(&self, plan: &Plan, case: Option<&Case>) -> Vec<Source> {
        let is_serving = |case: &&Case| plan.workload(&case.workload).is_some_and(|workload| workload.serving.is_some());
        case.filter(is_serving).map(|case| Source::endpoint(&case.target)).into_iter().collect()
    }

    fn format(&self) -> LineFormat {
        LineFormat::Scrapes
    }

    fn is_in_every_recording(&self) -> bool {
        false
    }

    fn scope_kind(&self) -> &'static str {
        "endpoint"
    }

    fn observed(&self, body: &ReadingBody) -> Observed {
        let ReadingBody::Text(text) = body else { return Observed::default() };
        parse_text(text, |_| true)
    }

    fn unit(&self, metric: &str, kind: MetricKind) -> String {
        unit_by_name(metric, kind)
    }
}

/// Seconds in the server's queue and the requests that left it, by case and point, over the attempts that count.
#[derive(Default)]
pub struct QueueDelays(BTreeMap<(CaseId, PointId), (f64, f64)>);

impl QueueDelays {
    /// Adds the requests of a slice, if it is of an endpoint that counts the time in its queue.
    pub fn add(&mut self, source: &Source, slice: &Slice<'_>) {
        if source.kind != Kind::Endpoint || !slice.window.counts {
            return;
        }
        let sum_and_count = |name: &str| slice.increase(&format!("{name}_sum")).zip(slice.increase(&format!("{name}_count")));
        let Some((seconds, requests)) = QUEUE_HISTOGRAMS.into_iter().find_map(sum_and_count) else { return };
        let trial = slice.window.trial;
        let total = self.0.entry((trial.case_id.clone(), trial.point_id.clone())).or_default();
        *total = (total.0 + seconds, total.1 + requests);
    }

    /// Returns the mean time in the queue in nanoseconds; `None` if no request left the queue while it was observed.
    pub fn mean_ns(&self, case: &str, point: &str) -> Option<i64> {
        let of_point = self.0.iter().find(|((of_case, of_point), _)| of_case.as_str() == case && of_point.as_str() == point);
        let (_, (seconds, requests)) = of_point?;
        (*requests > 0.0).then(|| (seconds / requests * 1e9).round() as i64)
    }
}

#[cfg(test)]
mod tests;
