//! The loads of a calibration: numbers of streams, and two ladders that double until a level fails. Pure.

use std::collections::BTreeMap;

use assay_manifest::{CalibrationLevel, LoadUnit};
use serde_json::{Value, json};

/// The path of the pipeline in the Source of a calibration's run.
pub(crate) const PIPELINE: &str = "pipelines/calibrate.yaml";

/// The request rate of the first step.
const FIRST_RATE: u32 = 1_000;

/// The fewest and the most tokens of a streamed response: each is one event. Lengths differ, so that streams which begin together do
/// not stay together.
const STREAM_TOKENS: (u32, u32) = (8, 24);

/// The length of the levels, and the number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time before the measured phase, as a pipeline writes it.
    pub warmup: &'static str,
    /// The measured phase of a level, as a pipeline writes it.
    pub duration: &'static str,
    /// The most steps of a ladder.
    pub steps: u32,
}

impl Pace {
    /// About a minute.
    pub const FULL: Self = Self { warmup: "1s", duration: "3s", steps: 5 };

    /// Some seconds: the first step alone, of short levels.
    pub const QUICK: Self = Self { warmup: "100ms", duration: "1s", steps: 1 };
}

/// The loads that one run measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadStep {
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Request rates, per second.
    pub rates: Vec<u32>,
}

impl LoadStep {
    /// Returns the loads of the levels that failed; `None` if all held.
    pub fn failed(levels: &[CalibrationLevel]) -> Option<Self> {
        let of = |unit: LoadUnit| {
            let failed = levels.iter().filter(|level| level.unit == unit && !level.holds());
            failed.map(|level| level.amount as u32).collect::<Vec<_>>()
        };
        let step = Self { streams: of(LoadUnit::Concurrency), rates: of(LoadUnit::RequestsPerS) };
        (step != Self::default()).then_some(step)
    }
}

/// A calibration's loads, step by step.
#[derive(Clone, Debug)]
pub struct Ladder {
    streams: Vec<u32>,
    open_streams: u64,
    steps: u32,
    taken: u32,
}

impl Ladder {
    /// Begins with these numbers of streams, in ascending order, of at most `open_streams`.
    pub fn new(mut streams: Vec<u32>, open_streams: u64, pace: Pace) -> Self {
        streams.sort_unstable();
        streams.dedup();
        Self { streams, open_streams, steps: pace.steps, taken: 0 }
    }

    /// Returns the next step, after these levels; `None` at the end. A ladder of which a level has failed goes no further.
    pub fn next(&mut self, measured: &[CalibrationLevel]) -> Option<LoadStep> {
        if self.taken == self.steps {
            return None;
        }
        let fails = |unit: LoadUnit| measured.iter().any(|level| level.unit == unit && !level.holds());
        let factor = 1_u32.checked_shl(self.taken)?;
        let streams = match self.taken {
            0 => self.streams.clone(),
            _ => self.streams.last().and_then(|last| last.checked_mul(factor)).into_iter().collect(),
        };
        let streams = streams.into_iter().filter(|streams| u64::from(*streams) <= self.open_streams);
        let step = LoadStep {
            streams: streams.filter(|_| !fails(LoadUnit::Concurrency)).collect(),
            rates: FIRST_RATE.checked_mul(factor).filter(|_| !fails(LoadUnit::RequestsPerS)).into_iter().collect(),
        };
        self.taken += 1;
        (step != LoadStep::default()).then_some(step)
    }
}

/// Returns the files of the Source of a step's run: a pipeline, and a workload for each kind of load. They are JSON, which is YAML.
pub fn definitions(step: &LoadStep, address: &str, pace: Pace) -> (String, BTreeMap<String, Vec<u8>>) {
    let streamed = json!({"uniform": {"min": STREAM_TOKENS.0, "max": STREAM_TOKENS.1}});
    let loads = [
        ("streams", json!({"mode": "closed", "concurrency": step.streams}), streamed, step.streams.is_empty()),
        ("rates", json!({"mode": "open", "rate": step.rates, "arrival": "constant"}), json!({"fixed": 1}), step.rates.is_empty()),
    ];
    let loads: Vec<_> = loads.into_iter().filter(|(.., is_empty)| !is_empty).collect();
    let names: Vec<&str> = loads.iter().map(|(name, ..)| *name).collect();
    let mut files = BTreeMap::from([(PIPELINE.to_owned(), written(&pipeline(&names, address)))]);
    for (name, load, tokens, _) in loads {
        files.insert(format!("workloads/{name}/workload.yaml"), written(&workload(name, load, tokens, pace)));
    }
    (PIPELINE.to_owned(), files)
}

fn workload(name: &str, mut load: Value, tokens: Value, pace: Pace) -> Value {
    load["duration"] = json!(pace.duration);
    load["warmup"] = json!(pace.warmup);
    load["timeout"] = json!("10s");
    json!({
        "apiVersion": "assay.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "type": "serving",
            "model": "assay-simulator",
            "precision": "unknown",
            "protocol": "openai_compatible_http",
            "deployment_model": "unknown",
            "batching_policy": "unknown",
            "stack": "assay-simulator",
            "api": "completions",
            "load": load,
            "lengths": {"input": {"fixed": 16}, "output": tokens},
            "exact_output": true,
            "streaming": true,
            "cache": "shared",
        },
    })
}

/// A level that a disturbance of the machine made invalid is measured once more.
fn pipeline(workloads: &[&str], address: &str) -> Value {
    json!({
        "apiVersion": "assay.dev/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": "calibrate"},
        "spec": {
            "intent": "exploratory",
            "workloads": workloads,
            "targets": [{"name": "simulator", "kind": "endpoint", "url": address, "ready": {"timeout": "10s"}}],
            "trials": {"count": 1, "retry_budget": 1},
            "shards": 1,
        },
    })
}

fn written(document: &Value) -> Vec<u8> {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Artifact, ClientHealth, Count, Digest, Reason};

    use super::*;

    fn level(unit: LoadUnit, amount: f64, holds: bool) -> CalibrationLevel {
        let artifact =
            || Artifact { name: "a".to_owned(), digest: Digest::compute(b""), size: Count(0), media_type: String::new() };
        CalibrationLevel {
            unit,
            amount,
            run_id: "r".parse().expect("a run id"),
            part: Digest::compute(b""),
            trial_id: "w.t.default.p.t0".parse().expect("a trial id"),
            attempt: 0,
            measured_ns: Count(1),
            requests: Count(1),
            ttft_error: None,
            itl_error: None,
            events_per_s: 0.0,
            client: ClientHealth::default(),
            missed: if holds { Vec::new() } else { vec![Reason::new("lateness", "too late")] },
            records: artifact(),
            truth: artifact(),
        }
    }

    /// Returns all steps for a machine that holds fewer streams and requests per second than these.
    fn steps(streams: &[u32], open_streams: u64, pace: Pace, fails: (f64, f64)) -> Vec<LoadStep> {
        let mut ladder = Ladder::new(streams.to_vec(), open_streams, pace);
        let (mut measured, mut steps) = (Vec::new(), Vec::new());
        while let Some(step) = ladder.next(&measured) {
            let of = |unit, amounts: &[u32], fails| {
                amounts
                    .iter()
                    .map(|amount| f64::from(*amount))
                    .map(|amount| level(unit, amount, amount < fails))
                    .collect::<Vec<_>>()
            };
            measured.extend(of(LoadUnit::Concurrency, &step.streams, fails.0));
            measured.extend(of(LoadUnit::RequestsPerS, &step.rates, fails.1));
            steps.push(step);
        }
        steps
    }

    fn step(streams: &[u32], rates: &[u32]) -> LoadStep {
        LoadStep { streams: streams.to_vec(), rates: rates.to_vec() }
    }

    #[test]
    fn each_ladder_doubles_until_it_fails() {
        let all = f64::INFINITY;
        assert_eq!(steps(&[64, 1], 10_000, Pace::QUICK, (all, all)), [step(&[1, 64], &[1_000])]);
        assert_eq!(
            steps(&[64, 1, 64], 10_000, Pace { steps: 3, ..Pace::FULL }, (all, all)),
            [step(&[1, 64], &[1_000]), step(&[128], &[2_000]), step(&[256], &[4_000])]
        );
        assert_eq!(
            steps(&[64], 10_000, Pace::FULL, (200.0, 1_500.0)),
            [step(&[64], &[1_000]), step(&[128], &[2_000]), step(&[256], &[])]
        );
        assert_eq!(steps(&[64], 10_000, Pace::FULL, (1.0, 1.0)).len(), 1, "neither held");
    }

    #[test]
    fn the_levels_that_failed_are_a_step_of_their_own() {
        let levels = [
            level(LoadUnit::Concurrency, 64.0, true),
            level(LoadUnit::Concurrency, 512.0, false),
            level(LoadUnit::RequestsPerS, 1_000.0, false),
        ];
        assert_eq!(LoadStep::failed(&levels), Some(step(&[512], &[1_000])));
        assert_eq!(LoadStep::failed(&levels[..1]), None);
    }

    #[test]
    fn no_level_has_more_streams_than_files_may_be_open() {
        let found = steps(&[64], 100, Pace { steps: 3, ..Pace::FULL }, (f64::INFINITY, f64::INFINITY));
        assert_eq!(found, [step(&[64], &[1_000]), step(&[], &[2_000]), step(&[], &[4_000])]);
    }

    #[test]
    fn a_step_without_one_of_the_loads_has_no_workload_of_it() {
        let (path, files) = definitions(&step(&[], &[1_000]), "http://127.0.0.1:1", Pace::QUICK);
        assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), [path.as_str(), "workloads/rates/workload.yaml"]);
        assert_eq!(definitions(&step(&[1], &[1_000]), "http://127.0.0.1:1", Pace::QUICK).1.len(), 3);
    }
}
