//! The counters that the targets' endpoints expose at `/metrics`, as a text of Prometheus.

pub(crate) mod counters;

use std::collections::BTreeMap;

use assay_manifest::{Case, CaseId, Environment, Plan, PointId, ProvisionedTarget};

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

    /// Returns every target of the block that has an address; of one with replicas, each of them, because its own address may be
    /// that of a router.
    fn sampled(&self, plan: &Plan, environment: &Environment) -> Vec<Sampled> {
        let with_address = |target: &ProvisionedTarget| {
            let planned = plan.target(&target.id);
            let headers = planned.map_or_else(Vec::new, |planned| planned.headers.clone());
            let insecure_skip_tls_verify = planned.is_some_and(|planned| planned.insecure_skip_tls_verify);
            let tls = planned.and_then(|planned| planned.tls.clone()).map(Box::new);
            let sampled = move |source, address: &String| {
                let address = ScrapeAddress::Endpoint { address: address.clone(), path: PATH };
                let (headers, tls) = (headers.clone(), tls.clone());
                Sampled { source, sampling: Sampling::Scrape { address, headers, insecure_skip_tls_verify, tls } }
            };
            let own = target.address.as_slice();
            let addresses = if target.replicas.is_empty() { own.iter().collect() } else { replica_addresses(target) };
            Source::servers(target)
                .into_iter()
                .zip(addresses)
                .map(|(source, address)| sampled(source, address))
                .collect::<Vec<_>>()
        };
        environment.targets.iter().flat_map(with_address).collect()
    }

    /// Returns the target of the case, if the target is an endpoint; its replicas, if it has any.
    fn observing(&self, plan: &Plan, environment: Option<&Environment>, case: Option<&Case>) -> Vec<Source> {
        let is_serving = |case: &&Case| plan.workload(&case.workload).is_some_and(|workload| workload.serving.is_some());
        let Some(case) = case.filter(is_serving) else { return Vec::new() };
        let found = environment.and_then(|environment| environment.targets.iter().find(|found| found.id == case.target));
        found.map_or_else(|| vec![Source::endpoint(&case.target)], Source::servers)
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

fn replica_addresses(target: &ProvisionedTarget) -> Vec<&String> {
    target.replicas.iter().map(|replica| &replica.address).collect()
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
