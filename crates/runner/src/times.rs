//! The times of a run, stage by stage, as its driver saw them.
//!
//! This is the word of the driver by its own clock, and no evidence: it is not signed, and nothing that is published rests on it.
//! The times that a stage states of itself are signed with its result.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use assay_manifest::RunId;
use assay_stage::{Event, Layout, StageName};
use assay_store::{CreateOutcome, Store};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, StageCall};

/// The most drivers of one run whose times are kept.
const MAX_DRIVERS: u32 = 1000;
/// The largest document of times, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The times of one driver: a run that was resumed has several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverTimes {
    /// The stages that it ran, in their order.
    pub stages: Vec<StageTimes>,
    /// The time from its beginning to its end, in nanoseconds.
    pub total_ns: u64,
}

/// The parts of the time of one stage, in nanoseconds, one after the other. If it has several shards, each part ends when the last
/// of them has come to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTimes {
    /// The stage.
    pub stage: StageName,
    /// The call of the stage, such as `0-1` for block 0, incarnation 1.
    pub label: String,
    /// The number of processes.
    pub shards: u32,
    /// From the request for its pods until all of them have a node; absent on one machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_ns: Option<u64>,
    /// The pull of the images of the slowest pod; absent on one machine, and if the cluster does not state it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pulling_ns: Option<u64>,
    /// From then until its inputs are verified and its work begins: network, volumes and container of its pods, start of the program,
    /// verification.
    pub starting_ns: u64,
    /// Its work, until its result is signed and accepted. Zero for the recorder, which works while execute does.
    pub working_ns: u64,
    /// From then until the driver goes on. For the recorder: from the request to end.
    pub ending_ns: u64,
}

impl StageTimes {
    /// Returns the sum of its parts, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        let before = self.waiting_ns.unwrap_or(0).saturating_add(self.pulling_ns.unwrap_or(0));
        [self.starting_ns, self.working_ns, self.ending_ns].into_iter().fold(before, u64::saturating_add)
    }
}

impl DriverTimes {
    /// Returns the time in which no stage was called, in nanoseconds: targets are released, for example.
    pub fn between_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.stages.iter().map(StageTimes::total_ns).fold(0, u64::saturating_add))
    }

    /// Keeps the times in the store, beside those of the run's earlier drivers.
    pub(crate) fn store(&self, store: &Store, run_id: &RunId) -> Result<()> {
        let bytes =
            serde_json::to_vec(self).map_err(|error| Error::Internal(crate::Defect::ParametersNotJson(error.to_string())))?;
        for sequence in 0..MAX_DRIVERS {
            match store.create(&Layout::for_run(run_id).driver_times(sequence), &bytes)? {
                CreateOutcome::New => return Ok(()),
                CreateOutcome::Existing { existing } if existing == bytes => return Ok(()),
                CreateOutcome::Existing { .. } => {}
            }
        }
        Ok(())
    }

    /// Reads the times of all drivers of a run. Times that cannot be read are left out, because nothing rests on them.
    pub fn read_all(store: &Store, run_id: &RunId) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for path in store.list(&Layout::for_run(run_id).times())? {
            let bytes = store.read(&path, MAX_BYTES)?.unwrap_or_default();
            match serde_json::from_slice(&bytes) {
                Ok(times) => all.push(times),
                Err(error) => tracing::debug!(%error, path, "times of a driver cannot be read"),
            }
        }
        Ok(all)
    }
}

/// The instants of one call of a stage that its driver has seen so far, each since the call began.
#[derive(Debug, Default)]
struct CallTimes {
    scheduled: Option<Duration>,
    pull: Option<Duration>,
    started: Option<Duration>,
    accepted: Option<Duration>,
    started_shards: BTreeSet<u32>,
}

impl CallTimes {
    /// Notes an event of a shard. The first start of each shard counts, and its last result.
    fn note(&mut self, at: Duration, shard: u32, event: &Event) {
        match event {
            Event::Scheduled => self.scheduled = self.scheduled.or(Some(at)),
            Event::Pulled { duration_ns } => self.pull = Some(Duration::from_nanos(*duration_ns)),
            Event::Started { .. } if self.started_shards.insert(shard) => self.started = Some(at),
            Event::Accepted { .. } => self.accepted = Some(at),
            _ => {}
        }
    }

    /// Returns the parts of a call that has ended.
    fn into_stage_times(self, call: &StageCall, ended: Duration) -> StageTimes {
        let scheduled = self.scheduled.unwrap_or_default().min(ended);
        // A call that never began spent its time on the way there; one whose result was there already did not work.
        let accepted = self.accepted.unwrap_or(ended).clamp(scheduled, ended);
        let started = self.started.unwrap_or(accepted).clamp(scheduled, accepted);
        let pull = self.pull.map(|pull| pull.min(started.saturating_sub(scheduled)));
        StageTimes {
            stage: call.stage,
            label: call.label.clone(),
            shards: call.shard.count,
            waiting_ns: self.scheduled.map(|_| ns(scheduled)),
            pulling_ns: pull.map(ns),
            starting_ns: ns(started.saturating_sub(scheduled).saturating_sub(pull.unwrap_or_default())),
            working_ns: ns(accepted.saturating_sub(started)),
            ending_ns: ns(ended.saturating_sub(accepted)),
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The clock of a driver: it notes what the run's calls go through.
pub(crate) struct DriverClock {
    begun: Instant,
    call: Option<(StageCall, Instant, CallTimes)>,
    recorder: Option<usize>,
    times: DriverTimes,
}

impl DriverClock {
    pub(crate) fn start() -> Self {
        Self { begun: Instant::now(), call: None, recorder: None, times: DriverTimes::default() }
    }

    /// Notes that a call begins, on all of its shards.
    pub(crate) fn begin(&mut self, call: &StageCall) {
        self.call = Some((call.clone(), Instant::now(), CallTimes::default()));
    }

    /// Notes an event of the call.
    pub(crate) fn note(&mut self, call: &StageCall, event: &Event) {
        if let Some((_, begun, times)) = &mut self.call {
            times.note(begun.elapsed(), call.shard.index, event);
        }
    }

    /// Notes that the call has ended.
    pub(crate) fn end(&mut self) {
        if let Some((call, begun, times)) = self.call.take() {
            self.times.stages.push(times.into_stage_times(&call, begun.elapsed()));
        }
    }

    /// Notes that a recorder has begun to record, which took so long.
    pub(crate) fn recorder_started(&mut self, call: &StageCall, took: Duration) {
        self.recorder = Some(self.times.stages.len());
        let times = StageTimes {
            stage: call.stage,
            label: call.label.clone(),
            shards: 1,
            waiting_ns: None,
            pulling_ns: None,
            starting_ns: ns(took),
            working_ns: 0,
            ending_ns: 0,
        };
        self.times.stages.push(times);
    }

    /// Notes that the recorder has ended, for which the driver has waited so long.
    pub(crate) fn recorder_ended(&mut self, took: Duration) {
        if let Some(times) = self.recorder.take().and_then(|index| self.times.stages.get_mut(index)) {
            times.ending_ns = ns(took);
        }
    }

    /// Returns the times of the driver, which ends.
    pub(crate) fn finish(self) -> DriverTimes {
        DriverTimes { total_ns: ns(self.begun.elapsed()), ..self.times }
    }
}

/// Keeps the times of a driver in the store. A failure is logged: nothing rests on them.
pub(crate) fn keep(times: &DriverTimes, store: &Store, run_id: &RunId) {
    if let Err(error) = times.store(store, run_id) {
        tracing::warn!(failure = %assay_failure::Failure::from(error), "where the time went is not kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StagePolicy;
    use assay_manifest::{Digest, InputRef, Kind, Shard};
    use assay_stage::parameters::StageParameters;

    fn call(shard: Shard) -> StageCall {
        StageCall {
            stage: StageName::Execute,
            run_id: "nightly".parse().expect("a run id"),
            inputs: Vec::new(),
            parameters: StageParameters::default_for(StageName::Execute),
            shard,
            policy: StagePolicy { timeout: None, retries: 0 },
            label: "0-0".to_owned(),
        }
    }

    fn accepted() -> Event {
        let digest = Digest::compute(b"");
        Event::Accepted { result: InputRef { kind: Kind::ExecutionPart, manifest: digest, bundle: digest }, earlier: false }
    }

    /// Returns the parts of a call of two shards in milliseconds: waiting, pulling, starting, working, ending.
    fn parts(events: &[(u64, u32, Event)], ended_ms: u64) -> [Option<u64>; 5] {
        let mut seen = CallTimes::default();
        for (at_ms, shard, event) in events {
            seen.note(Duration::from_millis(*at_ms), *shard, event);
        }
        let times = seen.into_stage_times(&call(Shard { index: 0, count: 2 }), Duration::from_millis(ended_ms));
        assert_eq!(times.total_ns(), ended_ms * 1_000_000, "the parts add up to the whole: {times:?}");
        let all = [times.waiting_ns, times.pulling_ns, Some(times.starting_ns), Some(times.working_ns), Some(times.ending_ns)];
        all.map(|part| part.map(|ns| ns / 1_000_000))
    }

    const STARTED: Event = Event::Started { stage: StageName::Execute };
    const PULLED: Event = Event::Pulled { duration_ns: 400_000_000 };

    #[test]
    fn each_part_ends_with_the_last_shard() {
        let events = [
            (100, 0, Event::Scheduled),
            (700, 0, PULLED),
            (900, 1, STARTED),
            (1000, 0, STARTED),
            (5000, 0, accepted()),
            (6000, 1, accepted()),
        ];
        assert_eq!(parts(&events, 6500), [Some(100), Some(400), Some(500), Some(5000), Some(500)]);
    }

    #[test]
    fn on_one_machine_nothing_is_scheduled_or_pulled() {
        assert_eq!(parts(&[(20, 0, STARTED), (90, 0, accepted())], 100), [None, None, Some(20), Some(70), Some(10)]);
    }

    #[test]
    fn a_call_that_does_not_get_far_has_its_time_where_it_was_spent() {
        assert_eq!(parts(&[], 300), [None, None, Some(300), Some(0), Some(0)], "it never began");
        assert_eq!(parts(&[(100, 0, Event::Scheduled)], 300), [Some(100), None, Some(200), Some(0), Some(0)]);
        assert_eq!(parts(&[(50, 0, STARTED)], 300), [None, None, Some(50), Some(250), Some(0)], "it failed at work");
        assert_eq!(parts(&[(50, 0, accepted())], 60), [None, None, Some(50), Some(0), Some(10)], "it had its result already");
    }

    #[test]
    fn a_replaced_shard_works_on_and_a_pull_fits_into_its_place() {
        let again = [(10, 0, STARTED), (20, 1, STARTED), (500, 1, STARTED), (900, 0, accepted()), (950, 1, accepted())];
        assert_eq!(parts(&again, 1000), [None, None, Some(20), Some(930), Some(50)]);
        let longer = [(100, 0, Event::Scheduled), (150, 0, STARTED), (160, 0, PULLED), (300, 0, accepted())];
        assert_eq!(parts(&longer, 300), [Some(100), Some(50), Some(0), Some(150), Some(0)]);
    }

    #[test]
    fn the_times_of_each_driver_are_kept_and_damaged_ones_left_out() {
        let store = Store::open("memory:").expect("a store");
        let run_id = "nightly".parse().expect("a run id");
        let mut clock = DriverClock::start();
        let call = call(Shard::ONLY);
        clock.recorder_started(&call, Duration::from_millis(3));
        clock.begin(&call);
        clock.note(&call, &STARTED);
        clock.end();
        clock.recorder_ended(Duration::from_millis(5));
        let first = clock.finish();
        assert_eq!((first.stages.len(), first.stages[0].starting_ns, first.stages[0].ending_ns), (2, 3_000_000, 5_000_000));
        let second = DriverTimes { stages: Vec::new(), total_ns: 9 };
        for times in [&first, &second, &second] {
            times.store(&store, &run_id).expect("kept");
        }
        store.create(&Layout::for_run(&run_id).driver_times(7), b"{}").expect("created");
        assert_eq!(DriverTimes::read_all(&store, &run_id).expect("read"), [first, second]);
    }
}
