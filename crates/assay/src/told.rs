//! What a driver tells of its run, one JSON document a line, so that whoever watches from afar sees what it would have seen beside it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use assay_manifest::{InputRef, RunId, Shard};
use assay_runner::{Observer, StageCall, StagePolicy};
use assay_stage::{Event, Failure, StageName};
use serde::{Deserialize, Serialize};

use crate::output;

/// How often the load of one shard is told from afar.
const LOAD_EVERY: Duration = Duration::from_secs(1);

/// Something that a driver tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub(crate) enum Told {
    /// A stage begins.
    StageStarted(Of),
    /// A stage says something.
    Said {
        /// Which.
        of: Of,
        /// What.
        event: Event,
    },
    /// A stage has its result.
    StageFinished {
        /// Which.
        of: Of,
        /// The result.
        result: InputRef,
    },
    /// A stage could not go on.
    StageFailed {
        /// Which.
        of: Of,
        /// Why.
        failure: Failure,
    },
    /// The run is over, and its driver with it.
    Ended {
        /// Why before its time.
        failure: Option<Failure>,
    },
}

/// Of which call something is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Of {
    stage: StageName,
    label: String,
    shard: Shard,
}

impl Of {
    fn call(call: &StageCall) -> Self {
        Self { stage: call.stage, label: call.label.clone(), shard: call.shard }
    }

    /// The call as far as it is told.
    fn stage_call(&self, run_id: &RunId) -> StageCall {
        StageCall {
            stage: self.stage,
            run_id: run_id.clone(),
            inputs: Vec::new(),
            parameters: serde_json::Value::Null,
            shard: self.shard,
            policy: StagePolicy { timeout: None, retries: 0 },
            label: self.label.clone(),
        }
    }
}

/// Tells all that it sees on standard output.
#[derive(Default)]
pub(crate) struct Teller {
    loads: BTreeMap<u32, Instant>,
}

/// Tells something on standard output.
pub(crate) fn tell(told: &Told) {
    if let Err(failure) = output::json_line(told) {
        tracing::warn!(%failure, "something cannot be told");
    }
}

impl Observer for Teller {
    fn stage_started(&mut self, call: &StageCall) {
        tell(&Told::StageStarted(Of::call(call)));
    }

    fn event(&mut self, call: &StageCall, event: &Event) {
        if matches!(event, Event::Load { .. }) {
            let last = self.loads.get(&call.shard.index);
            if last.is_some_and(|last| last.elapsed() < LOAD_EVERY) {
                return;
            }
            self.loads.insert(call.shard.index, Instant::now());
        }
        tell(&Told::Said { of: Of::call(call), event: event.clone() });
    }

    fn stage_finished(&mut self, call: &StageCall, result: Result<InputRef, &Failure>) {
        let of = Of::call(call);
        tell(&match result {
            Ok(result) => Told::StageFinished { of, result },
            Err(failure) => Told::StageFailed { of, failure: failure.clone() },
        });
    }
}

/// Shows a line that a driver told; what is none is not shown. Where it is the last one, how the run ended.
pub(crate) fn hear(line: &str, run_id: &RunId, observer: &mut dyn Observer) -> Option<Result<(), Failure>> {
    match serde_json::from_str(line) {
        Ok(Told::StageStarted(of)) => observer.stage_started(&of.stage_call(run_id)),
        Ok(Told::Said { of, event }) => observer.event(&of.stage_call(run_id), &event),
        Ok(Told::StageFinished { of, result }) => observer.stage_finished(&of.stage_call(run_id), Ok(result)),
        Ok(Told::StageFailed { of, failure }) => observer.stage_finished(&of.stage_call(run_id), Err(&failure)),
        Ok(Told::Ended { failure }) => return Some(failure.map_or(Ok(()), Err)),
        Err(error) => tracing::debug!(%error, line, "the driver said something else"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard() {
        let of = Of { stage: StageName::Execute, label: "0-0-1".to_owned(), shard: Shard { index: 1, count: 3 } };
        let all = [
            Told::StageStarted(of.clone()),
            Told::Said { of: of.clone(), event: Event::Recording },
            Told::StageFailed { of, failure: Failure::environment("drift", "another boot") },
        ];
        for told in all {
            let line = serde_json::to_string(&told).expect("JSON");
            assert_eq!(serde_json::from_str::<Told>(&line).expect("it reads"), told);
        }
    }
}
