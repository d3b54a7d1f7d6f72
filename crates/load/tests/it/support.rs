//! Trials of the tests' size.

use std::sync::atomic::AtomicBool;

use assay_load::{
    Arrivals, Capture, Cause, ChunkLists, Connections, Endpoint, Error, Excess, MeasuredLimits, PlannedRequest, Progress,
    Requests, ServingApi, Sink, Trial, TrialSummary, run,
};
use assay_record::{Outcome, Phase, Record};

/// An address without a listener: a port that was free a moment ago may be another test's by now, but no test gets one of the
/// first thousand.
pub(crate) const CLOSED_URL: &str = "http://127.0.0.1:1";
pub(crate) const MS: i64 = 1_000_000;
/// A limit longer than any test, which is not reached.
pub(crate) const LONG: i64 = 60_000 * MS;

/// This many requests of each phase, one every `gap_ns` if there is a schedule.
pub(crate) struct NumberedRequests {
    pub(crate) warmup: u64,
    pub(crate) measured: u64,
    pub(crate) gap_ns: Option<i64>,
    pub(crate) from_ns: i64,
    next: [u64; 2],
}

pub(crate) fn numbered(measured: u64) -> NumberedRequests {
    NumberedRequests { warmup: 0, measured, gap_ns: None, from_ns: 0, next: [0; 2] }
}

pub(crate) fn every(gap_ns: i64, measured: u64) -> NumberedRequests {
    NumberedRequests { gap_ns: Some(gap_ns), ..numbered(measured) }
}

impl Requests for NumberedRequests {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        let last = if phase == Phase::Warmup { self.warmup } else { self.measured };
        let index = &mut self.next[phase as usize];
        if *index == last {
            return Ok(None);
        }
        let global_index = *index;
        *index += 1;
        Ok(Some(PlannedRequest {
            global_index,
            intended_offset_ns: self.gap_ns.map(|gap| self.from_ns + gap * global_index.cast_signed()),
            body: format!("{{\"index\":{global_index}}}").into_bytes(),
            input_tokens_requested: Some(3),
            input_tokens: 3,
            output_tokens_requested: Some(2),
            request_id: u128::from(global_index) + 0xabc0,
            ..PlannedRequest::default()
        }))
    }
}

/// Keeps every record and its text.
#[derive(Default)]
pub(crate) struct RecordingSink {
    pub(crate) records: Vec<Record>,
    pub(crate) responses: Vec<Option<String>>,
}

impl Sink for RecordingSink {
    fn record(&mut self, record: &Record, response: Option<&[u8]>) -> Result<(), Cause> {
        self.records.push(record.clone());
        self.responses.push(response.map(|response| String::from_utf8(response.to_vec()).expect("UTF-8")));
        Ok(())
    }
}

/// Returns a streamed trial with one user that starts now and ends with its requests.
pub(crate) fn trial(url: &str) -> Trial {
    Trial {
        endpoint: Endpoint::parse(url).and_then(Endpoint::resolve).expect("an endpoint"),
        api: ServingApi::Chat,
        custom: None,
        streaming: true,
        arrivals: Arrivals::Closed { users: 1 },
        start_at_ns: assay_reactor::now_ns(),
        warmup_ns: 0,
        measured: MeasuredLimits::default(),
        late_read_ns: 25_000_000,
        over_saturation: None,
        stop_on_errors: None,
        sessions: None,
        connections: Connections::Pooled,
        timeout_ns: LONG,
        drain_ns: LONG,
        chunk_lists: ChunkLists::All,
        capture: Capture::Full,
        user_agent: "assay-test".to_owned(),
    }
}

pub(crate) fn closed(url: &str, users: u32) -> Trial {
    Trial { arrivals: Arrivals::Closed { users }, ..trial(url) }
}

pub(crate) fn open(url: &str, max_in_flight: u32) -> Trial {
    Trial { arrivals: Arrivals::Open { max_in_flight, excess: Excess::Drop }, ..trial(url) }
}

/// Returns an open loop in which due requests wait for one of `places` places.
pub(crate) fn capped(url: &str, places: u32) -> Trial {
    Trial { arrivals: Arrivals::Open { max_in_flight: places, excess: Excess::Wait }, ..trial(url) }
}

/// Runs a trial and checks its records.
pub(crate) fn run_trial(trial: &Trial, requests: &mut dyn Requests) -> (TrialSummary, RecordingSink) {
    let mut kept = RecordingSink::default();
    let finished = run_into(trial, requests, &mut kept).expect("a trial that runs");
    check_records(&finished, &kept);
    (finished, kept)
}

/// Checks the invariants of every trial: one record each, counted once.
pub(crate) fn check_records(finished: &TrialSummary, kept: &RecordingSink) {
    for phase in Phase::ALL {
        for outcome in Outcome::ALL {
            let records = kept.records.iter().filter(|record| record.phase == *phase && record.outcome == *outcome);
            assert_eq!(finished.counts.count(*phase, *outcome), records.count() as u64, "{phase} {outcome}");
        }
    }
    for record in &kept.records {
        assert!(record.end_ns.is_some() && record.dequeued_ns <= record.end_ns, "{record:?}");
        assert_eq!(record.error.is_none(), record.outcome == Outcome::Ok, "{record:?}");
    }
}

pub(crate) fn run_into(trial: &Trial, requests: &mut dyn Requests, sink: &mut dyn Sink) -> Result<TrialSummary, Error> {
    run(trial, requests, sink, &AtomicBool::new(false), &Progress::new())
}

/// Returns the indices of the records with an outcome, in order.
pub(crate) fn indices(kept: &RecordingSink, outcome: Outcome) -> Vec<u64> {
    let mut indices: Vec<u64> =
        kept.records.iter().filter(|record| record.outcome == outcome).map(|record| record.global_index).collect();
    indices.sort_unstable();
    indices
}
