//! The events that a driver reports about its run, one JSON document per line, so that a remote client sees the same as a local
//! one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use assay_manifest::{InputRef, RunId, Shard};
use assay_runner::{DriverTimes, Observer, StageCall, StagePolicy};
use assay_stage::parameters::StageParameters;
use assay_stage::{Event, Failure, StageName};
use serde::{Deserialize, Serialize};

use crate::output;

/// The interval at which the load of one shard is reported to a remote client.
const LOAD_EVERY: Duration = Duration::from_secs(1);

/// An event that a driver reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub(crate) enum RunEvent {
    /// A stage begins.
    StageStarted(StageCallRef),
    /// A stage reports an event.
    Said {
        /// The call of the stage.
        of: StageCallRef,
        /// The event.
        event: Event,
    },
    /// A stage has its result.
    StageFinished {
        /// The call of the stage.
        of: StageCallRef,
        /// The result.
        result: InputRef,
    },
    /// A stage has failed.
    StageFailed {
        /// The call of the stage.
        of: StageCallRef,
        /// The failure.
        failure: Failure,
    },
    /// The time of the driver went there.
    Timed {
        /// The times.
        times: DriverTimes,
    },
    /// The run has ended, and its driver with it.
    Ended {
        /// The failure, if the run ended early.
        failure: Option<Failure>,
        /// True if the driver goes on to remove namespaces, and may still fail to.
        removes: bool,
    },
}

/// The call of a stage that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageCallRef {
    stage: StageName,
    label: String,
    shard: Shard,
}

impl StageCallRef {
    fn from_call(call: &StageCall) -> Self {
        Self { stage: call.stage, label: call.label.clone(), shard: call.shard }
    }

    /// Returns the call, with the fields that an event carries.
    fn stage_call(&self, run_id: &RunId) -> StageCall {
        StageCall {
            stage: self.stage,
            run_id: run_id.clone(),
            inputs: Vec::new(),
            parameters: StageParameters::default_for(self.stage),
            shard: self.shard,
            policy: StagePolicy { timeout: None, retries: 0 },
            label: self.label.clone(),
        }
    }
}

/// An observer that writes all events to stdout.
#[derive(Default)]
pub(crate) struct RunEventWriter {
    loads: BTreeMap<u32, Instant>,
}

/// Writes an event to stdout.
pub(crate) fn write_event(told: &RunEvent) {
    if let Err(failure) = output::json_line(told) {
        tracing::warn!(%failure, "something cannot be told");
    }
}

impl Observer for RunEventWriter {
    fn stage_started(&mut self, call: &StageCall) {
        write_event(&RunEvent::StageStarted(StageCallRef::from_call(call)));
    }

    fn event(&mut self, call: &StageCall, event: &Event) {
        if matches!(event, Event::Load { .. }) {
            let last = self.loads.get(&call.shard.index);
            if last.is_some_and(|last| last.elapsed() < LOAD_EVERY) {
                return;
            }
            self.loads.insert(call.shard.index, Instant::now());
        }
        write_event(&RunEvent::Said { of: StageCallRef::from_call(call), event: event.clone() });
    }

    fn stage_finished(&mut self, call: &StageCall, result: Result<InputRef, &Failure>) {
        let of = StageCallRef::from_call(call);
        write_event(&match result {
            Ok(result) => RunEvent::StageFinished { of, result },
            Err(failure) => RunEvent::StageFailed { of, failure: failure.clone() },
        });
    }

    fn driver_ended(&mut self, times: &DriverTimes) {
        write_event(&RunEvent::Timed { times: times.clone() });
    }
}

/// The outcome of a run, as its driver reports it.
#[derive(Clone, Debug)]
pub(crate) struct RunOutcome {
    pub(crate) result: Result<(), Failure>,
    removes: bool,
}

impl RunOutcome {
    /// Returns true if the run is finished and nothing of its driver is left to wait for. The driver's Job takes a moment more to
    /// end. A driver that failed is waited for, so that the next one may be started.
    pub(crate) fn is_complete(&self) -> bool {
        self.result.is_ok() && !self.removes
    }
}

/// Passes the event of a driver's line to the observer; a line that is no event is not shown. Returns the outcome of the run if
/// it is the last event.
pub(crate) fn dispatch_event(line: &str, run_id: &RunId, observer: &mut dyn Observer) -> Option<RunOutcome> {
    match serde_json::from_str(line) {
        Ok(RunEvent::StageStarted(of)) => observer.stage_started(&of.stage_call(run_id)),
        Ok(RunEvent::Said { of, event }) => observer.event(&of.stage_call(run_id), &event),
        Ok(RunEvent::StageFinished { of, result }) => observer.stage_finished(&of.stage_call(run_id), Ok(result)),
        Ok(RunEvent::StageFailed { of, failure }) => observer.stage_finished(&of.stage_call(run_id), Err(&failure)),
        Ok(RunEvent::Timed { times }) => observer.driver_ended(&times),
        Ok(RunEvent::Ended { failure, removes }) => return Some(RunOutcome { result: failure.map_or(Ok(()), Err), removes }),
        Err(error) => tracing::debug!(%error, line, "the driver said something else"),
    }
    None
}

#[cfg(test)]
mod tests {
    use assay_stage::ErrorCode;

    use super::*;

    #[test]
    fn only_a_finished_run_whose_driver_has_nothing_left_to_do_is_complete() {
        let outcome = |failure: Option<Failure>, removes| RunOutcome { result: failure.map_or(Ok(()), Err), removes };
        assert!(outcome(None, false).is_complete());
        assert!(!outcome(None, true).is_complete(), "the removal may fail");
        assert!(!outcome(Some(Failure::new(ErrorCode::Drift, "another boot")), false).is_complete());
    }

    #[test]
    fn what_is_told_is_heard() {
        let of = StageCallRef { stage: StageName::Execute, label: "0-0-1".to_owned(), shard: Shard { index: 1, count: 3 } };
        let all = [
            RunEvent::StageStarted(of.clone()),
            RunEvent::Said { of: of.clone(), event: Event::Recording },
            RunEvent::StageFailed { of, failure: Failure::new(ErrorCode::Drift, "another boot") },
            RunEvent::Timed { times: DriverTimes { stages: Vec::new(), total_ns: u64::MAX } },
        ];
        for told in all {
            let line = serde_json::to_string(&told).expect("JSON");
            assert_eq!(serde_json::from_str::<RunEvent>(&line).expect("it reads"), told);
        }
    }
}
