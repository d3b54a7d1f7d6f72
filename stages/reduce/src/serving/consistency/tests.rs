use std::sync::Arc;

use assay_dataset::Index;
use assay_manifest::{Attempt, Block, Digest, Instant, PlannedTrial, Point, Window};
use assay_record::{Record, TokenSource, UsageFault};
use assay_schedule::SessionCursor;
use assay_warehouse::records::RecordWriter;
use serde_json::{Value, json};

use super::*;
use crate::evidence::ShardAttempt;
use crate::fixture::{attempt, collected, digest, plan};
use crate::serving::{planned_measurement, trial_files};

const MS: i64 = 1_000_000;
/// The duration of the attempt.
const ATTEMPT_MS: i64 = 60_000;

/// A load of some shards, its records as an honest client writes them, and the statements of execute about each shard.
struct Load {
    schedule: TrialSchedule,
    work: ServingWork,
    trial: PlannedTrial,
    point: Point,
    shards: Vec<Vec<Record>>,
}

/// A load in which each request takes 20 ms. `users` makes it a closed loop, in which users begin one after the other.
fn load(changes: &Value, users: Option<u64>, shards: u32) -> Load {
    load_of(changes, users, shards, None)
}

/// The same, of a dataset with this index if it has one.
fn load_of(changes: &Value, users: Option<u64>, shards: u32, index: Option<&Arc<Index>>) -> Load {
    let mut work = json!({
        "api": "chat", "model": "m", "arrival": {"law": if users.is_some() { "closed" } else { "poisson" }},
        "prompts": {"from": "synthetic", "input": {"law": "uniform", "min": 4, "max": 64}}, "output": {"law": "uniform", "min": 4, "max": 64}, "exact_output": true,
        "batch": 1, "body": {}, "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "shared", "streaming": true,
        "continuous_usage": true, "capture": "none", "slos": [], "tokenizer": {"name": "common-words", "digest": digest("words")},
    });
    changes.as_object().expect("an object").iter().for_each(|(name, value)| work[name] = value.clone());
    let has_grid = work["arrival"]["law"] == "users";
    let mut plan = serde_json::to_value(plan(1)).expect("json");
    plan["workloads"][0]["serving"] = work;
    plan["workloads"][0]["seed"] = json!("ab".repeat(32));
    let (kind, value) = match users {
        None => ("rate", json!({"rate": "40"})),
        Some(users) if has_grid => ("users", json!({"users": users.to_string(), "rate": "40"})),
        Some(users) => ("concurrency", json!({"concurrency": users.to_string()})),
    };
    plan["cases"][0]["points"][0]["kind"] = json!(kind);
    plan["cases"][0]["points"][0]["value"] = value;
    let plan: assay_manifest::Plan = serde_json::from_value(plan).expect("a plan");
    let (workload, point, trial) = (&plan.workloads[0], plan.cases[0].points[0].clone(), plan.trials[0].clone());
    let run = "nightly".parse().expect("a run id");
    let schedule = TrialSchedule::for_attempt(workload, &point, &trial, &run, 0, index).expect("a schedule");
    let work = workload.serving.clone().expect("serving");
    let stripe = |index| schedule.stripe(Shard { index, count: shards }).expect("a shard");
    let own_users = |index| Stripe::new(index, shards).expect("a shard").share(users.unwrap_or(0));
    let of_stripe = if schedule.has_sessions() { turns } else { requests };
    let of_shard = |index| stripe(index).map_or(Vec::new(), |stripe| of_stripe(&schedule, stripe, own_users(index)));
    let shards = (0..shards).map(of_shard).collect();
    Load { schedule, work, trial, point, shards }
}

/// Returns the records of a client that follows a stripe of the schedule, in the order of the ends. In a closed loop, the first
/// idle user begins the next request.
fn requests(schedule: &TrialSchedule, stripe: Stripe, users: u64) -> Vec<Record> {
    let mut records = Vec::new();
    let mut free = vec![0; usize::try_from(users).expect("few")];
    for (phase, planned) in [(Phase::Warmup, PlannedPhase::WarmUp), (Phase::Measured, PlannedPhase::Measure)] {
        let begins = if phase == Phase::Warmup { 0 } else { i64::try_from(schedule.measure_start_ns()).expect("short") };
        let ends = schedule.phase_end_ns(planned).map_or(i64::MAX, |end| i64::try_from(end).expect("short"));
        for due in schedule.shard_requests(planned, stripe) {
            let user = free.iter_mut().min();
            let at = due.offset_ns.or(user.as_ref().map(|free| begins.max(**free))).expect("due or a user");
            if at + 10 >= ends {
                break;
            }
            let record = record(&due, phase, at);
            if let (Some(free), Some(end)) = (user, record.end_ns) {
                *free = end;
            }
            records.push(record);
        }
    }
    records.sort_by_key(|record| record.end_ns);
    records
}

/// Returns the records of a client that plays the sessions of a stripe, in the order of the ends. Every eleventh turn fails.
fn turns(schedule: &TrialSchedule, stripe: Stripe, users: u64) -> Vec<Record> {
    if schedule.has_grid() {
        return grid_turns(schedule, stripe);
    }
    let mut records = Vec::new();
    let mut free = vec![0; usize::try_from(users).expect("few")];
    let mut scheduled = schedule.shard_requests(PlannedPhase::Measure, stripe);
    while let Some(cursor) = scheduled.next_session() {
        let user = free.iter_mut().min();
        let session = play(schedule, &mut scheduled, cursor, user.as_ref().map(|free| **free));
        match (user, session.records.is_empty()) {
            (Some(_), true) => break,
            (Some(free), false) => *free = if session.is_cut { i64::MAX } else { session.end },
            (None, _) => {}
        }
        records.extend(session.records);
    }
    records.sort_by_key(|record| record.end_ns);
    records
}

/// Returns the records of a client that follows the grids of the users of a stripe, in the order of the ends. Every eleventh turn fails.
fn grid_turns(schedule: &TrialSchedule, stripe: Stripe) -> Vec<Record> {
    let from = i64::try_from(schedule.measure_start_ns()).expect("short");
    let mut records = Vec::new();
    let mut scheduled = schedule.shard_requests(PlannedPhase::Measure, stripe);
    while let Some(first) = scheduled.next_session() {
        let (mut next, mut free) = (Some(first), 0);
        while let Some(mut cursor) = next {
            let (mut start, mut pauses, mut done) = (None, 0, 0);
            while let Some(request) = scheduled.next_turn(&mut cursor) {
                let (planned, place) = (request.offset_ns.expect("a time"), request.turn.expect("a turn"));
                let (due, phase) = (planned.max(free), if planned < from { Phase::Warmup } else { Phase::Measured });
                pauses += if start.is_some() { due - free } else { 0 };
                let has_failed = request.global_index % 11 == 10;
                done += u32::from(!has_failed);
                records.push(Record {
                    intended_ns: Some(due),
                    session: Some(place.session),
                    turn: Some(place.turn),
                    session_turns: Some(place.turns),
                    session_start_ns: Some(*start.get_or_insert(due)),
                    session_pauses_ns: Some(pauses),
                    session_done: Some(done),
                    planned_ns: Some(planned),
                    outcome: if has_failed { Outcome::Timeout } else { Outcome::Ok },
                    ..record(&request, phase, due)
                });
                free = records.last().and_then(|record| record.end_ns).expect("an end");
                if has_failed {
                    break;
                }
            }
            next = scheduled.successor(&cursor);
        }
    }
    records.sort_by_key(|record| record.end_ns);
    records
}

/// The records of a session, in the order of the ends.
struct PlayedSession {
    records: Vec<Record>,
    end: i64,
    /// True if a turn of it would have been due after the end of the phase.
    is_cut: bool,
}

/// Plays a session that a user takes up at a time, or that arrives by the schedule.
fn play(schedule: &TrialSchedule, scheduled: &mut Requests, mut cursor: SessionCursor, taken_up: Option<i64>) -> PlayedSession {
    let signed = |ns: u64| i64::try_from(ns).expect("short");
    let from = signed(schedule.measure_start_ns());
    let ends = schedule.phase_end_ns(PlannedPhase::Measure).map_or(i64::MAX, signed);
    let mut session = PlayedSession { records: Vec::new(), end: 0, is_cut: false };
    let beginnings = scheduled.beginnings(&cursor);
    let first = scheduled.next_turn(&mut cursor.at(beginnings[0].turn)).expect("a turn");
    let start = first.offset_ns.or(taken_up).expect("due or a user");
    session.end = start;
    // The turns that are due, and the ends of those that others wait for.
    let mut due: BTreeMap<i64, u32> = beginnings.iter().map(|first| (start + signed(first.after_ns), first.turn)).collect();
    let mut waiting: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    let (mut pauses, mut failed) = (0, i64::MAX);
    while let Some((due_ns, turn)) = due.pop_first() {
        cursor = cursor.at(turn);
        let request = scheduled.next_turn(&mut cursor).expect("a turn");
        let place = request.turn.expect("a turn");
        if due_ns >= ends || due_ns > failed {
            session.is_cut |= due_ns >= ends;
            continue;
        }
        pauses += (due_ns - session.end).max(0);
        let phase = if due_ns < from { Phase::Warmup } else { Phase::Measured };
        let mut record = Record {
            intended_ns: Some(due_ns),
            session: Some(place.session),
            turn: Some(place.turn),
            stream: place.stream,
            session_turns: Some(place.turns),
            session_start_ns: Some(start),
            session_pauses_ns: Some(pauses),
            planned_ns: place.planned_ns.map(|ns| start + signed(ns)),
            ..self::record(&request, phase, due_ns)
        };
        // A user takes a session up when it is due.
        record.dequeued_ns = Some(due_ns);
        let end_ns = record.end_ns.expect("an end");
        session.end = session.end.max(end_ns);
        if request.global_index % 11 == 10 {
            record.outcome = Outcome::Timeout;
            failed = failed.min(end_ns);
        }
        session.records.push(record);
        for next in scheduled.followers(&cursor, turn).into_iter().filter(|_| end_ns < failed) {
            let ended = waiting.entry(next.turn).or_default();
            ended.push(end_ns);
            if ended.len() == next.waits as usize {
                let last = ended.iter().max().expect("one");
                // Turns of the tests are due at different times.
                assert_eq!(due.insert(last + signed(next.pause_ns), next.turn), None);
            }
        }
    }
    session.records.sort_by_key(|record| record.end_ns);
    let (mut done, mut has_failed) = (0, false);
    for record in &mut session.records {
        done += u32::from(record.outcome.is_ok());
        record.session_done = (!has_failed).then_some(done);
        has_failed |= !record.outcome.is_ok();
    }
    session
}

fn record(due: &ScheduledRequest, phase: Phase, at: i64) -> Record {
    let output = due.output_tokens.expect("chat");
    // Every seventh takes longer than those after it.
    let took = if due.global_index.is_multiple_of(7) { 200 * MS } else { 20 * MS };
    Record {
        global_index: due.global_index,
        phase,
        request_id: due.request_id,
        intended_ns: due.offset_ns,
        dequeued_ns: Some(at + 10),
        sent_ns: Some(at + 20),
        first_byte_ns: Some(at + 5 * MS),
        first_token_ns: Some(at + 5 * MS),
        first_content_ns: Some(at + 6 * MS),
        last_token_ns: Some(at + took),
        end_ns: Some(at + took),
        outcome: Outcome::Ok,
        http_status: Some(200),
        input_tokens_requested: Some(due.input_tokens),
        input_tokens: due.input_tokens,
        output_tokens_requested: Some(output),
        output_tokens: Some(output),
        output_source: TokenSource::Usage,
        token_events: output,
        ..Record::default()
    }
}

/// Returns the sums that execute signs for these records.
fn outcome(load: &Load, records: &[Record]) -> ServingOutcome {
    let count = |phase: Phase| {
        let mut outcomes: BTreeMap<String, Count> = BTreeMap::new();
        for record in records.iter().filter(|record| record.phase == phase) {
            outcomes.entry(record.outcome.to_string()).or_default().0 += 1;
        }
        outcomes
    };
    let sent = records.iter().filter(|record| record.phase == Phase::Measured && record.sent_ns.is_some());
    let input: u64 = sent.map(|record| u64::from(record.input_tokens)).sum();
    let output: u64 = records.iter().filter_map(|record| record.output_tokens).map(u64::from).sum();
    let events: u64 = records.iter().map(|record| u64::from(record.token_events)).sum();
    serde_json::from_value(json!({
        "schedule_digest": load.schedule.digest(), "start": "2026-01-01T00:00:00.000000000Z", "measured_from_ns": "0",
        "measured_to_ns": "1", "outcomes": count(Phase::Measured), "warmup_outcomes": count(Phase::Warmup),
        "input_tokens": input.to_string(), "output_tokens": output.to_string(), "chunk_lists": "all",
        "client": {"loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0", "cpu_system_us": "0", "full_reads": "0",
            "starved": "0", "sent_rate_per_s": 1.0, "connections": "0", "events": events.to_string()},
        "clock": {"source": "same_host"},
        "records": {"name": "records", "digest": digest("records"), "size": "1", "media_type": "application/vnd.apache.parquet"},
    }))
    .expect("an outcome")
}

impl Load {
    fn check(&self) -> Result<(), String> {
        self.check_changed(|_| {})
    }

    /// Checks a changed statement of execute.
    fn check_changed(&self, change: impl Fn(&mut ServingOutcome)) -> Result<(), String> {
        let count = u32::try_from(self.shards.len()).expect("few");
        let found = (0..count).zip(&self.shards).map(|(index, records)| {
            let mut serving = outcome(self, records);
            change(&mut serving);
            let (start, length) = (Instant::from_unix_ns(0), Count((ATTEMPT_MS * MS).unsigned_abs()));
            let window = Window { start, end: Instant::from_unix_ns(ATTEMPT_MS * MS), duration_ns: length };
            let mut collected = collected(0, true);
            (collected.shard, collected.block) = (Shard { index, count }, Block { index: 0, incarnation: 0 });
            ShardAttempt { collected, attempt: Attempt { serving: Some(serving), window, ..attempt(&self.trial, 0, true) } }
        });
        let found: Vec<ShardAttempt> = found.collect();
        let attempt = AttemptShards { shards: found.iter().collect() };
        let next = std::cell::Cell::new(0);
        let open = |_: &assay_manifest::Artifact| {
            let shard = next.replace(next.get() + 1);
            Ok(RecordFile::open(file(&self.shards[shard], u32::try_from(shard).expect("few"))).expect("a file"))
        };
        let files = trial_files(&attempt, planned_measurement(&self.work, &self.point, None), &open).expect("files");
        check(&self.schedule, &self.work, &attempt, &files, 2).map_err(|error| error.to_string())
    }
}

fn file(records: &[Record], shard: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, 0, shard).expect("a writer");
    for record in records {
        writer.write(record).expect("a record");
    }
    writer.finish().expect("a file");
    bytes
}

fn open_loop() -> Load {
    load(&json!({"duration_ns": "2000000000", "warmup_ns": "500000000"}), None, 1)
}

fn closed_loop() -> Load {
    load(&json!({"requests": "40"}), Some(2), 1)
}

#[test]
fn what_an_honest_client_writes_is_taken() {
    let by_clock = json!({"duration_ns": "2000000000", "warmup_ns": "500000000"});
    let by_either = json!({"duration_ns": "300000000", "requests": "100000"});
    let cases = [
        ("open by the clock", load(&by_clock, None, 1)),
        ("open by count", load(&json!({"requests": "40"}), None, 3)),
        ("closed by count", load(&json!({"requests": "40"}), Some(2), 1)),
        ("closed by the clock", load(&by_clock, Some(4), 2)),
        ("closed by either", load(&by_either, Some(4), 2)),
        ("more shards than users", load(&json!({"requests": "9"}), Some(2), 3)),
        ("nothing was due", load(&json!({"duration_ns": "1"}), None, 1)),
    ];
    for (what, load) in cases {
        assert!(what == "nothing was due" || !load.shards[0].is_empty(), "{what}");
        assert_eq!(load.check(), Ok(()), "{what}");
    }
}

/// An open loop with two places: 40 requests per second, each of which takes 100 ms, so that most of them wait.
fn capped_loop() -> Load {
    let mut load = load(&json!({"duration_ns": "2000000000", "warmup_ns": "500000000", "max_concurrency": "2"}), None, 1);
    let mut due: Vec<Record> = std::mem::take(&mut load.shards[0]);
    due.sort_by_key(|record| record.intended_ns);
    let mut free = [i64::MIN; 2];
    let wait = |mut record: Record| {
        let place = free.iter_mut().min().expect("two");
        let intended = record.intended_ns.expect("an open loop");
        let ready = intended.max(*place);
        let later = |at: Option<i64>| at.map(|at| at - intended + ready);
        record.ready_ns = Some(ready);
        record.dequeued_ns = later(record.dequeued_ns);
        record.sent_ns = later(record.sent_ns);
        record.first_byte_ns = later(record.first_byte_ns);
        record.first_token_ns = later(record.first_token_ns);
        record.first_content_ns = later(record.first_content_ns);
        (record.last_token_ns, record.end_ns) = (Some(ready + 100 * MS), Some(ready + 100 * MS));
        *place = ready + 100 * MS;
        record
    };
    load.shards[0] = due.into_iter().map(wait).collect();
    load.shards[0].sort_by_key(|record| record.end_ns);
    load
}

#[test]
fn a_cap_holds_and_a_request_waits_for_the_end_of_another() {
    let honest = capped_loop();
    assert_eq!(honest.check(), Ok(()));
    assert!(honest.shards[0].iter().filter(|record| record.ready_ns > record.intended_ns).count() > 50);
    // One that still waited at the end was never in flight.
    let mut dropped = capped_loop();
    let last = dropped.shards[0].len() - 1;
    let kept = &dropped.shards[0][last];
    dropped.shards[0][last] = Record {
        outcome: Outcome::Dropped,
        ready_ns: None,
        sent_ns: None,
        first_byte_ns: None,
        first_token_ns: None,
        first_content_ns: None,
        last_token_ns: None,
        http_status: None,
        output_tokens: None,
        token_events: 0,
        ..kept.clone()
    };
    assert_eq!(dropped.check(), Ok(()));
    let lies: [RecordChange; 6] = [
        ("one more in flight", |all| all[30].end_ns = all[36].end_ns, "more than 2 requests of shard 0 are under way"),
        ("another wait", |all| all[30].ready_ns = all[30].ready_ns.map(|at| at - 1), "when no other one ended"),
        ("no wait", |all| all[30].ready_ns = None, "lacks one"),
        ("a place before it was due", |all| all[0].ready_ns = all[0].ready_ns.map(|at| at - 1), "before it was due"),
        ("a place after it was begun", |all| all[30].ready_ns = all[30].sent_ns.map(|at| at + 1), "after it was begun"),
        ("dropped with a place", |all| all[30].outcome = Outcome::Dropped, ""),
    ];
    for (what, lie, said) in lies {
        let mut load = capped_loop();
        lie(&mut load.shards[0]);
        let found = load.check().expect_err(what);
        assert!(found.contains(said), "{what}: {found}");
    }
    let mut open = open_loop();
    open.shards[0][9].ready_ns = open.shards[0][9].intended_ns;
    assert!(open.check().expect_err("no cap").contains("states a time at which there was a place"));
}

#[test]
fn a_connection_for_each_request_is_opened_after_it_was_taken_up() {
    let connecting = || {
        let mut load = load(&json!({"requests": "40", "connections": "never"}), Some(2), 1);
        for record in &mut load.shards[0] {
            let begun = record.dequeued_ns.expect("begun");
            (record.intended_ns, record.connect_start_ns, record.connect_end_ns) =
                (Some(begun), Some(begun + 2), Some(begun + 7));
        }
        load
    };
    assert_eq!(connecting().check(), Ok(()));
    let lies: [RecordChange; 5] = [
        ("a connection of before", |all| all[9].connect_start_ns = None, "on a connection that was open before"),
        ("connected before it was asked for", |all| all[9].connect_end_ns = all[9].dequeued_ns, "do not follow one another"),
        (
            "sent before it was connected",
            |all| all[9].connect_end_ns = all[9].sent_ns.map(|at| at + 1),
            "do not follow one another",
        ),
        ("due later", |all| all[9].intended_ns = all[9].intended_ns.map(|at| at + 1), "another time than by its schedule"),
        ("never due", |all| all[9].intended_ns = None, "another time than by its schedule"),
    ];
    for (what, lie, said) in lies {
        let mut load = connecting();
        lie(&mut load.shards[0]);
        let found = load.check().expect_err(what);
        assert!(found.contains(said), "{what}: {found}");
    }
}

#[test]
fn a_connection_that_is_kept_is_opened_before_its_first_request_is_written() {
    /// A load whose request 9 opened a connection, at these times after it was begun.
    fn connecting(start: Option<i64>, end: Option<i64>) -> Load {
        let mut load = closed_loop();
        let record = &mut load.shards[0][9];
        let after = |by: Option<i64>| record.dequeued_ns.zip(by).map(|(begun, by)| begun + by);
        (record.connect_start_ns, record.connect_end_ns) = (after(start), after(end));
        record.write_done_ns = record.sent_ns.map(|sent| sent + 5);
        load
    }
    assert_eq!(connecting(Some(1), Some(9)).check(), Ok(()));
    // Written again after its first connection was found closed, it keeps the time of its first write, which is 10 ns after it was begun.
    assert_eq!(connecting(Some(11), Some(14)).check(), Ok(()));
    let long = 30_000 * MS;
    for (what, start, end, said) in [
        ("connected before it began to", Some(9), Some(1), "times of its connection that do not follow one another"),
        ("began to connect before it was taken up", Some(-1), Some(1), "times of its connection that do not follow one another"),
        ("connected after it was written", Some(1), Some(16), "times of its connection that do not follow one another"),
        ("connected after the response", Some(long), Some(long + 1), "do not follow one another"),
        ("connected without a start", None, Some(1), "did not begin to"),
        ("never connected", Some(1), None, "never established"),
    ] {
        let mut load = connecting(start, end);
        if end == Some(long + 1) {
            load.shards[0][9].write_done_ns = None;
        }
        let found = load.check().expect_err(what);
        assert!(found.contains(said), "{what}: {found}");
    }
    let mut failed = connecting(Some(1), None);
    failed.shards[0][9].outcome = Outcome::ConnectError;
    assert_eq!(failed.check(), Ok(()));
}

#[test]
fn a_request_that_the_endpoint_aborted_did_not_succeed() {
    for (reason, outcome, is_taken) in [
        ("stop", Outcome::Ok, true),
        ("error", Outcome::StreamError, true),
        ("error", Outcome::Ok, false),
        ("abort", Outcome::Ok, false),
    ] {
        let mut load = closed_loop();
        (load.shards[0][9].finish_reason, load.shards[0][9].outcome) = (Some(reason.to_owned()), outcome);
        let found = load.check();
        assert_eq!(found.is_ok(), is_taken, "{reason}, {outcome}: {found:?}");
        assert!(is_taken || found.is_err_and(|found| found.contains("by which the endpoint aborts")), "{reason}");
    }
}

/// An open loop whose client cancels every request that its schedule names 10 ms after it was sent, before its response is complete.
fn cancelling_loop() -> Load {
    let mut load = load(&json!({"duration_ns": "2000000000", "cancel": {"share": 0.25, "after_ns": "10000000"}}), None, 1);
    let named = load.schedule.requests(PlannedPhase::Measure).filter(|due| due.cancel_after_ns.is_some());
    let named: Vec<u64> = named.map(|due| due.global_index).collect();
    for record in &mut load.shards[0] {
        record.write_done_ns = record.sent_ns;
        if named.contains(&record.global_index) {
            record.outcome = Outcome::Cancelled;
            record.end_ns = record.write_done_ns.map(|done| done + 10 * MS);
        }
    }
    load.shards[0].sort_by_key(|record| record.end_ns);
    load
}

#[test]
fn a_request_is_cancelled_if_its_schedule_says_so_and_at_its_time() {
    let honest = cancelling_loop();
    assert_eq!(honest.check(), Ok(()));
    let place_of =
        |load: &Load, is: fn(Outcome) -> bool| load.shards[0].iter().position(|record| is(record.outcome)).expect("a record");
    let (cancelled, ok) =
        (place_of(&honest, |outcome| outcome == Outcome::Cancelled), place_of(&honest, |outcome| outcome == Outcome::Ok));
    // One that was complete before its time, or failed, is not cancelled.
    for outcome in [Outcome::Ok, Outcome::Truncated] {
        let mut load = cancelling_loop();
        let record = &mut load.shards[0][cancelled];
        (record.outcome, record.end_ns) = (outcome, record.write_done_ns.map(|done| done + 9 * MS));
        (record.first_token_ns, record.first_content_ns, record.last_token_ns) = (record.end_ns, record.end_ns, record.end_ns);
        load.shards[0].sort_by_key(|record| record.end_ns);
        assert_eq!(load.check(), Ok(()), "{outcome}");
    }
    let lie = |place: usize, change: &dyn Fn(&mut Record)| {
        let mut load = cancelling_loop();
        change(&mut load.shards[0][place]);
        load.check().expect_err("a lie")
    };
    let early = lie(cancelled, &|record| record.end_ns = record.write_done_ns);
    assert!(early.contains("was cancelled before its time"), "{early}");
    let unsent = lie(cancelled, &|record| record.write_done_ns = None);
    assert!(unsent.contains("allow no cancellation"), "{unsent}");
    let unplanned = lie(ok, &|record| record.outcome = Outcome::Cancelled);
    assert!(unplanned.contains("allow no cancellation"), "{unplanned}");
    let late = lie(cancelled, &|record| {
        (record.outcome, record.end_ns) = (Outcome::Ok, record.write_done_ns.map(|done| done + 11 * MS));
    });
    assert!(late.contains("succeeded after the time of its cancellation"), "{late}");
}

#[test]
fn requests_that_failed_need_no_response() {
    let mut load = closed_loop();
    for (place, outcome) in [(3, Outcome::Timeout), (4, Outcome::ConnectError), (5, Outcome::HttpError)] {
        let record = &mut load.shards[0][place];
        *record = Record {
            outcome,
            http_status: (outcome == Outcome::HttpError).then_some(500),
            first_token_ns: None,
            first_content_ns: None,
            last_token_ns: None,
            output_tokens: None,
            token_events: 0,
            ..record.clone()
        };
    }
    assert_eq!(load.check(), Ok(()));
}

/// A change to the records of the first shard, and a part of the resulting error.
type RecordChange = (&'static str, fn(&mut Vec<Record>), &'static str);

#[test]
fn records_that_contradict_schedule_attempt_or_themselves_are_refused() {
    fn times(record: &mut Record, change: impl Fn(i64) -> i64) {
        let Record { dequeued_ns, sent_ns, first_byte_ns, first_token_ns, first_content_ns, last_token_ns, end_ns, .. } = record;
        for time in [dequeued_ns, sent_ns, first_byte_ns, first_token_ns, first_content_ns, last_token_ns, end_ns] {
            *time = time.map(&change);
        }
    }
    let of_both: [RecordChange; 21] = [
        ("an hour later", |all| all.iter_mut().for_each(|one| times(one, |at| at + 3_600_000 * MS)), "outside of"),
        ("an hour earlier", |all| all.iter_mut().for_each(|one| times(one, |at| at - 3_600_000 * MS)), "was begun"),
        ("ended before it was sent", |all| all[9].end_ns = all[9].dequeued_ns, "do not follow one another"),
        ("last token before the first", |all| all[9].last_token_ns = all[9].sent_ns, "do not follow one another"),
        ("first token before sending", |all| all[9].first_token_ns = all[9].dequeued_ns, "do not follow one another"),
        ("content after the last token", |all| all[9].first_content_ns = Some(ATTEMPT_MS * MS), "do not follow one another"),
        ("never sent", |all| all[9].sent_ns = None, "succeeded without having been sent"),
        ("no end", |all| all[9].end_ns = None, "has no end"),
        ("never begun", |all| all[9].dequeued_ns = None, "was never begun"),
        ("a status of failure", |all| all[9].http_status = Some(500), "status of failure"),
        ("no token event", |all| all[9].token_events = 0, "without a token event"),
        ("no first token", |all| all[9].first_token_ns = None, "without a token event"),
        ("dropped and sent", |all| all[9].outcome = Outcome::Dropped, "was dropped, and was sent"),
        ("twice", |all| all.push(all[9].clone()), "is there twice"),
        ("left out", |all| drop(all.remove(9)), ""),
        ("another request's", |all| all[9].request_id = all[10].request_id, "another id"),
        ("more input", |all| all[9].input_tokens_requested = Some(9_999), "another length of prompt"),
        ("more output", |all| all[9].output_tokens_requested = Some(9_999), "another length than"),
        ("beyond the schedule", |all| all[9].global_index = 1 << 40, "requests before it are missing"),
        ("another phase's", |all| all[30].phase = Phase::Warmup, ""),
        ("half of them in the warm-up", |all| all.iter_mut().step_by(2).for_each(|one| one.phase = Phase::Warmup), ""),
    ];
    for (what, lie, said) in of_both {
        for (loop_, mut load) in [("open", open_loop()), ("closed", closed_loop())] {
            lie(&mut load.shards[0]);
            let found = load.check().expect_err(what);
            assert!(found.contains(said), "{what}, {loop_}: {found}");
        }
    }
    let of_open: [RecordChange; 4] = [
        ("due later", |all| all[9].intended_ns = all[9].intended_ns.map(|at| at + 1), "another time than by its schedule"),
        ("begun before it was due", |all| all[9].dequeued_ns = all[9].intended_ns.map(|at| at - 1), "before it was due"),
        ("the last left out", |all| drop(all.pop()), "has no record"),
        ("nothing left", Vec::clear, "has no record"),
    ];
    for (what, lie, said) in of_open {
        let mut load = open_loop();
        lie(&mut load.shards[0]);
        let found = load.check().expect_err(what);
        assert!(found.contains(said), "{what}: {found}");
    }
}

#[test]
fn a_count_of_output_tokens_is_used_only_if_its_request_allows_it() {
    /// Makes a record that of a request whose endpoint states more tokens than were requested.
    fn refuse(record: &mut Record) {
        record.output_tokens_claimed = Some(4_000_000_000);
        (record.output_tokens, record.output_source) = (Some(record.token_events), TokenSource::Chunks);
        record.usage_fault = UsageFault::OutputExceedsLimit;
    }
    let mut honest = open_loop();
    refuse(&mut honest.shards[0][9]);
    let one_more = honest.shards[0][10].output_tokens.map(|tokens| tokens + 1);
    honest.shards[0][10].output_tokens = one_more;
    assert_eq!(honest.check(), Ok(()));
    let lies: [RecordChange; 7] = [
        ("no source", |all| all[9].output_source = TokenSource::Unknown, "without a source"),
        ("an absurd count", |all| all[9].output_tokens = Some(4_000_000_000), "exceeds its limit"),
        ("two more", |all| all[9].output_tokens = all[9].output_tokens.map(|tokens| tokens + 2), "exceeds its limit"),
        (
            "used all the same",
            |all| (all[9].output_source, all[9].usage_fault) = (TokenSource::Usage, UsageFault::OutputIsZero),
            "states not to use",
        ),
        ("a claim without a reason", |all| all[9].output_tokens_claimed = Some(1), "and no reason"),
        (
            "a count that was within its limit",
            |all| {
                refuse(&mut all[9]);
                all[9].output_tokens_claimed = Some(1);
            },
            "within its limit",
        ),
        (
            "other events",
            |all| {
                refuse(&mut all[9]);
                all[9].output_tokens = all[9].output_tokens.map(|tokens| tokens + 1);
            },
            "in another number",
        ),
    ];
    for (what, lie, said) in lies {
        let mut load = open_loop();
        lie(&mut load.shards[0]);
        let found = load.check().expect_err(what);
        assert!(found.contains(said), "{what}: {found}");
    }
}

#[test]
fn a_closed_loop_counts_what_was_begun_in_its_phase() {
    let by_clock = || load(&json!({"duration_ns": "2000000000", "warmup_ns": "500000000"}), Some(2), 1);
    let cases: [RecordChange; 3] = [
        ("more at a time than users", |all| all[9].dequeued_ns = all[5].dequeued_ns, "under way"),
        (
            "begun in the warm-up",
            |all| {
                let first = all.iter_mut().find(|one| one.phase == Phase::Measured).expect("one");
                first.dequeued_ns = Some(0);
            },
            "was begun outside of its phase",
        ),
        ("slow ones left out", |all| all.retain(|one| one.end_ns < one.sent_ns.map(|at| at + 100 * MS)), "missing"),
    ];
    for (what, lie, said) in cases {
        let mut load = by_clock();
        lie(&mut load.shards[0]);
        let found = load.check().expect_err(what);
        assert!(found.contains(said) || found.contains("has no record"), "{what}: {found}");
    }
}

#[test]
fn prompts_of_token_ids_have_exactly_their_number() {
    let ids = json!({"api": "completions", "token_ids": {"from": "range", "least": 1_000, "most": 31_999}, "requests": "40"});
    let texts = json!({"requests": "40"});
    for (changes, said) in [(&ids, Some("has another number of token ids than was asked for")), (&texts, None)] {
        let mut load = load(changes, None, 1);
        assert_eq!(load.check(), Ok(()));
        // A tokenizer may miss a length, and ids cannot.
        load.shards[0][9].input_tokens += 1;
        assert_eq!(load.check().err().map(|found| said.is_some_and(|said| found.contains(said))), said.map(|_| true));
    }
}

#[test]
fn a_shard_has_its_own_requests() {
    let mut load = load(&json!({"requests": "40"}), None, 2);
    load.shards.swap(0, 1);
    let found = load.check().expect_err("of each other");
    assert!(found.contains("is none of its schedule"), "{found}");
}

/// A change to the statement of execute, and a part of the resulting error.
type OutcomeChange = (fn(&mut ServingOutcome), &'static str);

#[test]
fn what_execute_signs_are_the_sums_of_its_records() {
    let load = open_loop();
    let cases: [OutcomeChange; 5] = [
        (|said| said.input_tokens.0 += 1, "input tokens"),
        (|said| said.output_tokens.0 += 1, "output tokens"),
        (|said| said.client.events.0 += 1, "token events"),
        (|said| said.warmup_outcomes.clear(), "requests in its warm-up"),
        (|said| said.schedule_digest = Digest::compute(b"another"), "states the schedule"),
    ];
    for (change, said) in cases {
        let found = load.check_changed(change).expect_err(said);
        assert!(found.contains(said), "{said}: {found}");
    }
}

fn sessions(changes: &Value, users: Option<u64>, shards: u32) -> Load {
    let mut all = json!({"sessions": {
        "turns": {"law": "uniform", "min": 1, "max": 4}, "think_time": {"law": "uniform", "min_ns": "1000000", "max_ns": "90000000"},
        "history": "recorded", "reasoning": "drop",
    }});
    for (name, value) in changes.as_object().expect("an object") {
        if name == "count" { all["sessions"]["count"] = value.clone() } else { all[name] = value.clone() }
    }
    load(&all, users, shards)
}

#[test]
fn the_turns_that_an_honest_client_writes_are_taken() {
    let by_clock = json!({"duration_ns": "2000000000", "warmup_ns": "500000000"});
    let by_count = json!({"count": "30"});
    let cases = [
        ("closed by the clock", sessions(&by_clock, Some(4), 1)),
        ("closed by the clock, in shards", sessions(&by_clock, Some(5), 3)),
        ("closed by count", sessions(&by_count, Some(3), 2)),
        ("more shards than users", sessions(&by_count, Some(2), 3)),
        ("open by the clock", sessions(&by_clock, None, 1)),
        ("open by the clock, in shards", sessions(&by_clock, None, 3)),
        ("open by count", sessions(&by_count, None, 2)),
    ];
    for (what, load) in cases {
        let all = || load.shards.iter().flatten();
        assert_eq!(all().any(|one| one.phase == Phase::Warmup), what.contains("clock"), "{what}");
        assert!(all().any(|one| one.turn > Some(1)), "{what}");
        assert_eq!(load.check(), Ok(()), "{what}");
    }
}

#[test]
fn turns_that_contradict_their_session_are_refused() {
    fn later(all: &mut [Record]) -> &mut Record {
        all.iter_mut().find(|one| one.turn == Some(1) && one.outcome.is_ok()).expect("a later turn")
    }
    fn first(all: &mut [Record]) -> &mut Record {
        all.iter_mut().find(|one| one.turn == Some(0)).expect("a first turn")
    }
    let of_both: [RecordChange; 18] = [
        (
            "a shorter pause",
            |all| later(all).intended_ns = later(all).intended_ns.map(|at| at - 1),
            "another time than its pause",
        ),
        ("a longer pause", |all| later(all).intended_ns = later(all).intended_ns.map(|at| at + 1), ""),
        ("begun before it was due", |all| later(all).dequeued_ns = later(all).intended_ns.map(|at| at - 1), "before it was due"),
        ("another turn", |all| later(all).turn = Some(2), "turns before it are missing"),
        ("another session", |all| later(all).session = Some(1 << 40), "sessions before it are missing"),
        ("no session", |all| later(all).session = None, "belongs to no session"),
        ("more turns", |all| later(all).session_turns = Some(9), "another number of turns"),
        ("another stream", |all| later(all).stream = Some(1), "another stream"),
        ("more turns that succeeded", |all| later(all).session_done = Some(3), "another number of turns of its session"),
        ("another start", |all| later(all).session_start_ns = Some(-1), "another start"),
        ("no start", |all| first(all).session_start_ns = None, "another start"),
        ("other pauses", |all| later(all).session_pauses_ns = Some(0), "other pauses"),
        ("a time in a trace", |all| later(all).planned_ns = Some(0), "another planned time"),
        ("another index", |all| later(all).global_index += 1, "is none of its schedule"),
        ("another's id", |all| later(all).request_id ^= 1, "another id"),
        ("another phase", |all| all.iter_mut().for_each(|one| one.phase = Phase::Warmup), "outside of its phase"),
        (
            "a turn after a failure",
            |all| {
                let session = later(all).session;
                all.iter_mut()
                    .filter(|one| one.session == session && one.turn == Some(0))
                    .for_each(|one| *one = Record { outcome: Outcome::Timeout, session_done: Some(0), ..one.clone() });
            },
            "of a session that had ended",
        ),
        (
            "left out",
            |all| {
                let place = all.iter().rposition(|one| one.turn.map(|turn| turn + 1) == one.session_turns && one.turn > Some(0));
                all.remove(place.expect("a last turn"));
            },
            "has no record",
        ),
    ];
    let by_clock = json!({"duration_ns": "2000000000", "warmup_ns": "500000000"});
    for (what, lie, said) in of_both {
        for (loop_, mut load) in [("open", sessions(&by_clock, None, 1)), ("closed", sessions(&by_clock, Some(4), 1))] {
            lie(&mut load.shards[0]);
            let found = load.check().expect_err(what);
            assert!(found.contains(said), "{what}, {loop_}: {found}");
        }
    }
}

/// Returns a load of users at 40 turns a second.
fn users(count: u64, shards: u32) -> Load {
    let sessions = json!({
        "turns": {"law": "uniform", "min": 1, "max": 4}, "think_time": {"law": "fixed", "ns": "0"}, "history": "recorded", "reasoning": "drop",
    });
    let changes =
        json!({"arrival": {"law": "users"}, "sessions": sessions, "duration_ns": "2000000000", "warmup_ns": "500000000"});
    load(&changes, Some(count), shards)
}

#[test]
fn the_turns_of_an_honest_client_of_users_are_taken() {
    for (count, shards) in [(4, 1), (5, 3), (2, 3)] {
        let load = users(count, shards);
        let all = || load.shards.iter().flatten();
        assert!(all().any(|one| one.intended_ns > one.planned_ns), "some turns are late");
        assert!(all().any(|one| one.turn == Some(0) && one.session >= Some(count)));
        assert_eq!(load.check(), Ok(()), "{count} users, {shards} shards");
    }
}

#[test]
fn turns_that_contradict_the_grid_of_their_user_are_refused() {
    fn late(all: &mut [Record], is_first: bool) -> &mut Record {
        let is_late = |one: &&mut Record| one.intended_ns > one.planned_ns && (one.turn == Some(0)) == is_first;
        all.iter_mut().find(is_late).expect("a late turn")
    }
    let cases: [RecordChange; 7] = [
        ("a late turn in time", |all| late(all, false).intended_ns = late(all, false).planned_ns, "was due at another time"),
        ("a late first turn in time", |all| late(all, true).intended_ns = late(all, true).planned_ns, "its user's grid"),
        ("another point", |all| late(all, false).planned_ns = late(all, false).intended_ns, "another planned time"),
        ("no point", |all| late(all, true).planned_ns = None, "another planned time"),
        ("a session of another user", |all| late(all, true).session = Some(1 << 40), "of a session that had ended"),
        ("another phase", |all| all.iter_mut().for_each(|one| one.phase = Phase::Warmup), "outside of its phase"),
        (
            "a last session left out",
            |all| {
                let last = all.iter().filter_map(|one| one.session).max();
                all.retain(|one| one.session != last);
            },
            "has no record",
        ),
    ];
    for (what, lie, said) in cases {
        let mut load = users(4, 1);
        lie(&mut load.shards[0]);
        let found = load.check().expect_err(what);
        assert!(found.contains(said), "{what}: {found}");
    }
}

#[test]
fn a_user_plays_one_session_at_a_time_and_every_session_that_arrives_is_played() {
    let by_clock = json!({"duration_ns": "2000000000", "warmup_ns": "500000000"});
    let mut closed = sessions(&by_clock, Some(4), 1);
    // The same records as those of half the users.
    closed.point.value.insert("concurrency".to_owned(), "2".to_owned());
    let found = closed.check().expect_err("two sessions too many");
    assert!(found.contains("sessions of shard 0 are under way"), "{found}");
    let mut open = sessions(&by_clock, None, 1);
    let last = open.shards[0].iter().filter_map(|one| one.session).max();
    open.shards[0].retain(|one| one.session != last);
    let found = open.check().expect_err("a session that arrived and was not played");
    assert!(found.contains("has no record"), "{found}");
}

#[test]
fn a_request_that_stands_for_itself_belongs_to_no_session() {
    let mut load = open_loop();
    load.shards[0][9].session = Some(0);
    let found = load.check().expect_err("there are no sessions");
    assert!(found.contains("belongs to a session, and its trial has none"), "{found}");
}

mod forks;
mod play;
