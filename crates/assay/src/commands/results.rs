//! The results of a run as JSON for programs: numbers are numbers, and every load has its fields.

use std::collections::BTreeMap;

use assay_manifest::{
    AdapterRequests, Address, AgentxVerdict, BetterDirection, FailedRequests, IntervalKind, MetricSummary, Number, Plan,
    PointSummary, PooledLatency, RunId, ServingWork, Stability, Summary,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Returns the published numbers with their counts of trials as numbers; manifests hold 64-bit counts as texts.
pub(crate) fn published_numbers(numbers: &[Number]) -> Vec<Value> {
    numbers
        .iter()
        .map(|number| {
            let mut json = json!(number);
            json["n"] = json!(number.n.0);
            json
        })
        .collect()
}

/// The results at one point of a case.
#[derive(Debug, Serialize)]
pub(crate) struct PointResult<'a> {
    case: &'a str,
    workload: &'a str,
    target: &'a str,
    /// The model; absent for other workloads than serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    point: &'a str,
    /// The values that define the point, such as `{"concurrency": 16}`.
    load: BTreeMap<&'a str, Scalar<'a>>,
    trials_planned: u32,
    trials_counted: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Requests<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slo_met: Option<bool>,
    /// The judgement by the rules of AgentX: `agentx_rules_met` and the reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    agentx: Option<&'a AgentxVerdict>,
    /// The requests by the LoRA adapter that they asked for; absent without adapters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    adapters: BTreeMap<&'a str, AdapterResult<'a>>,
    metrics: Vec<MetricResult<'a>>,
}

/// The requests that asked for one LoRA adapter, over the counted trials.
#[derive(Debug, Serialize)]
struct AdapterResult<'a> {
    requests: u64,
    /// The latencies of those that succeeded, by the key of the metric; absent if the Summary has none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    latencies: BTreeMap<&'a str, PooledResult>,
}

/// A latency over the requests of all counted trials together.
#[derive(Debug, Serialize)]
struct PooledResult {
    n: u64,
    p50_ms: f64,
    p99_ms: f64,
}

impl<'a> AdapterResult<'a> {
    fn new(found: &'a AdapterRequests) -> Self {
        let pooled = |latency: &PooledLatency| PooledResult { n: latency.n.0, p50_ms: latency.p50_ms, p99_ms: latency.p99_ms };
        let latencies = found.latencies.iter().map(|(metric, latency)| (metric.as_str(), pooled(latency)));
        Self { requests: found.requests.0, latencies: latencies.collect() }
    }
}

/// The requests of the counted trials.
#[derive(Debug, Serialize)]
struct Requests<'a> {
    total: u64,
    ok: u64,
    /// The number of requests of each other outcome.
    failed: BTreeMap<&'a str, u64>,
    /// The number of requests that the client cancelled as the workload plans it; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<u64>,
    /// The failed requests by status code, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<FailureResult<'a>>,
}

/// Failed requests with the same outcome and status code.
#[derive(Debug, Serialize)]
struct FailureResult<'a> {
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    count: u64,
    /// The error of the first of them: the endpoint's message, or the client's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> FailureResult<'a> {
    fn new(failures: &'a FailedRequests) -> Self {
        Self {
            outcome: &failures.outcome,
            http_status: failures.http_status,
            count: failures.count.0,
            message: failures.message.as_deref(),
        }
    }
}

/// A metric across the counted trials.
#[derive(Debug, Serialize)]
struct MetricResult<'a> {
    metric: &'a str,
    unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    better: Option<BetterDirection>,
    median: f64,
    /// The ends of the interval; absent if there are too few trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<[f64; 2]>,
    /// The variation that it holds: `between_trials`, or `within_run` for one trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_kind: Option<IntervalKind>,
    /// The number of sessions that an interval within run rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_sessions: Option<u64>,
    /// The number of trials.
    n: u64,
    /// The coefficient of variation, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    cv: Option<f64>,
    stability: Stability,
    /// The address of the median, for `assay trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

/// A value that is a number if it reads as one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Scalar<'a> {
    Integer(i64),
    Float(f64),
    Text(&'a str),
}

impl<'a> Scalar<'a> {
    fn parse(text: &'a str) -> Self {
        if let Ok(number) = text.parse() {
            return Self::Integer(number);
        }
        // `inf` and `nan` are no numbers in JSON.
        text.parse().ok().filter(|number: &f64| number.is_finite()).map_or(Self::Text(text), Self::Float)
    }
}

/// Returns the results of every point, in the order of the Summary.
pub(crate) fn results<'a>(run_id: &RunId, plan: &'a Plan, summary: &'a Summary) -> Vec<PointResult<'a>> {
    summary.points.iter().map(|point| PointResult::new(run_id, plan, point)).collect()
}

impl<'a> PointResult<'a> {
    fn new(run_id: &RunId, plan: &'a Plan, point: &'a PointSummary) -> Self {
        let [workload, target, _] = point.case_id.names();
        let work = plan.workloads.iter().find(|known| known.name.as_str() == workload);
        let work: Option<&ServingWork> = work.and_then(|known| known.serving.as_ref());
        let requests = point.serving.as_ref().map(|serving| Requests {
            total: serving.requests.0,
            ok: serving.outcomes.get("ok").map_or(0, |count| count.0),
            failed: serving
                .outcomes
                .iter()
                .filter(|(name, _)| !["ok", "cancelled"].contains(&name.as_str()))
                .map(|(name, count)| (name.as_str(), count.0))
                .collect(),
            cancelled: serving.outcomes.get("cancelled").map(|count| count.0),
            failures: serving.failures.iter().map(FailureResult::new).collect(),
        });
        let adapters = point.serving.iter().flat_map(|serving| &serving.adapters);
        Self {
            case: point.case_id.as_str(),
            workload,
            target,
            model: work.map(|work| work.model.as_str()),
            point: point.point_id.as_str(),
            load: point.value.iter().map(|(name, value)| (name.as_str(), Scalar::parse(value))).collect(),
            trials_planned: point.trials_planned,
            trials_counted: point.trials_counted,
            requests,
            slo_met: point.serving.as_ref().and_then(|serving| serving.slo_met),
            agentx: point.serving.as_ref().and_then(|serving| serving.agentx.as_ref()),
            adapters: adapters.map(|(name, found)| (name.as_str(), AdapterResult::new(found))).collect(),
            metrics: point.metrics.iter().map(|metric| MetricResult::new(run_id, metric)).collect(),
        }
    }
}

impl<'a> MetricResult<'a> {
    fn new(run_id: &RunId, metric: &'a MetricSummary) -> Self {
        Self {
            metric: &metric.metric,
            unit: &metric.unit,
            better: metric.better,
            median: metric.median,
            interval: metric.interval.as_ref().map(|interval| [interval.low, interval.high]),
            interval_kind: metric.interval.as_ref().map(|interval| interval.kind),
            interval_sessions: metric.interval.as_ref().and_then(|interval| interval.sessions).map(|sessions| sessions.0),
            n: metric.n.0,
            cv: metric.cv,
            stability: metric.stability,
            address: metric.rows.get("median").map(|row| Address::for_value(run_id, row).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers() {
        let written = |text| serde_json::to_string(&Scalar::parse(text)).expect("JSON");
        assert_eq!(
            ["16", "2.5", "large", "nan", "inf", "1e400"].map(written),
            ["16", "2.5", "\"large\"", "\"nan\"", "\"inf\"", "\"1e400\""]
        );
    }
}
