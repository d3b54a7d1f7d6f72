//! The events that a driver reports about its run, one JSON document per line, so that a remote client sees the same as a local
//! one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use assay_manifest::{InputRef, RunId, Shard};
use assay_runner::{Observer, StageCall, StagePolicy};
use assay_stage::{Event, Failure, StageName};
use serde::{Deserialize, Serialize};

use crate::output;

/// The interval at which the load of one shard is reported to a remote client.
const LOAD_EVERY: Duration = Duration::from_secs(1);

/// An event that a driver reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub(crate) enum Told {
    /// A stage begins.
    StageStarted(Of),
    /// A stage reports an event.
    Said {
        /// The call of the stage.
        of: Of,
        /// The event.
        event: Event,
    },
    /// A stage has its result.
    StageFinished {
        /// The call of the stage.
        of: Of,
        /// The result.
        result: InputRef,
    },
    /// A stage has failed.
    StageFailed {
        /// The call of the stage.
        of: Of,
        /// The failure.
        failure: Failure,
    },
    /// The run has ended, and its driver with it.
    Ended {
        /// The failure, if the run ended early.
        failure: Option<Failure>,
    },
}

/// The call of a stage that an event is about.
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

    /// Returns the call, with the fields that an event carries.
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

/// An observer that writes all events to stdout.
#[derive(Default)]
pub(crate) struct Teller {
    loads: BTreeMap<u32, Instant>,
}

/// Writes an event to stdout.
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

/// Passes the event of a driver's line to the observer; a line that is no event is not shown. Returns the outcome of the run if
/// it is the last event.
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
