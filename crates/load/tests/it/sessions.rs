//! Sessions: when their turns are due, in which phase, with which history, and how they end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use assay_load::{
    Arrivals, Cause, Connections, Error, History, MeasuredLimits, NextTurn, PlannedRequest, PlannedTurn, Progress, Requests,
    ResponseText, ServingApi, Sessions, Sink, Trial, TrialSummary, Turns, run_sessions,
};
use assay_record::{Outcome, Phase, Record};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::server::{AfterResponse, Gate, Request, Server, event_stream, good, good_stream, header};
use crate::support::{CLOSED_URL, LONG, MS, RecordingSink, check_records, closed, numbered, open, run_into, trial};

/// Sessions of as many turns each, with the same pause after every turn but the last.
#[derive(Clone, Copy)]
struct Plan {
    sessions: u64,
    turns: u32,
    pause_ns: i64,
    /// The time between the arrivals of two sessions, under open loop.
    gap_ns: Option<i64>,
}

fn plan(sessions: u64, turns: u32, pause_ns: i64) -> Plan {
    Plan { sessions, turns, pause_ns, gap_ns: None }
}

/// The time between two turns in the trace.
const PLANNED_GAP_NS: u64 = 1_234;

impl Plan {
    fn request(&self, session: u64, turn: u32, previous: Option<&ResponseText>) -> PlannedRequest {
        let global_index = session * u64::from(self.turns) + u64::from(turn);
        let previous = previous.map(|previous| (&previous.content, &previous.reasoning));
        PlannedRequest {
            global_index,
            intended_offset_ns: self.gap_ns.filter(|_| turn == 0).map(|gap| gap * session.cast_signed()),
            body: json!({ "session": session, "turn": turn, "previous": previous }).to_string().into_bytes(),
            request_id: u128::from(global_index) + 1,
            turn: Some(PlannedTurn {
                session,
                session_id: u128::from(session) + 0xab00,
                turn,
                turns: self.turns,
                stream: Some(0),
                planned_ns: Some(PLANNED_GAP_NS * u64::from(turn)),
            }),
            next: (turn + 1..self.turns)
                .take(1)
                .map(|turn| NextTurn { turn, pause_ns: self.pause_ns.unsigned_abs(), waits: 1, planned_ns: None })
                .collect(),
            ..PlannedRequest::default()
        }
    }
}

struct FirstTurns {
    plan: Plan,
    next: u64,
}

impl Requests for FirstTurns {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        assert_eq!(phase, Phase::Measured, "sessions are one sequence");
        self.next += 1;
        Ok((self.next <= self.plan.sessions).then(|| self.plan.request(self.next - 1, 0, None)))
    }
}

/// The later turns of a plan. Calls `before` before it returns one.
struct LaterTurns<'a> {
    plan: Plan,
    before: &'a (dyn Fn(u64, u32) -> Result<(), Cause> + Sync),
    previous: Vec<Option<ResponseText>>,
    ended: Vec<u64>,
}

impl Turns for LaterTurns<'_> {
    fn next(&mut self, session: u64, turn: u32, previous: Option<&ResponseText>) -> Result<PlannedRequest, Cause> {
        assert!(!self.ended.contains(&session), "session {session} has ended");
        (self.before)(session, turn)?;
        self.previous.push(previous.cloned());
        Ok(self.plan.request(session, turn, previous))
    }

    fn end(&mut self, session: u64) {
        self.ended.push(session);
    }
}

/// A trial of sessions that has ended.
struct Played {
    finished: TrialSummary,
    /// The records of each session, in the order of its turns.
    sessions: BTreeMap<u64, Vec<Record>>,
    /// The responses that turns were prepared with.
    previous: Vec<Option<ResponseText>>,
}

impl Played {
    fn records(&self) -> impl Iterator<Item = &Record> {
        self.sessions.values().flatten()
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.records().filter(|record| record.outcome == outcome).count()
    }
}

fn with_history(trial: Trial, history: History) -> Trial {
    Trial { sessions: Some(Sessions { history, most_streams: 1, idle_cap_ns: None }), ..trial }
}

fn recorded(trial: Trial) -> Trial {
    with_history(trial, History::Recorded)
}

fn lasting(trial: Trial, duration_ns: i64) -> Trial {
    Trial { measured: MeasuredLimits { duration_ns: Some(duration_ns), requests: None }, ..trial }
}

fn play(trial: &Trial, plan: Plan) -> Played {
    play_with(trial, plan, &|_, _| Ok(()))
}

fn play_with(trial: &Trial, plan: Plan, before: &(dyn Fn(u64, u32) -> Result<(), Cause> + Sync)) -> Played {
    let mut kept = RecordingSink::default();
    play_into(trial, plan, before, &mut kept, |kept| kept, &AtomicBool::new(false))
}

/// Runs a trial of sessions and checks the invariants of all of them.
fn play_into<S: Sink>(
    trial: &Trial,
    plan: Plan,
    before: &(dyn Fn(u64, u32) -> Result<(), Cause> + Sync),
    sink: &mut S,
    kept: impl Fn(&S) -> &RecordingSink,
    cancel: &AtomicBool,
) -> Played {
    let (mut first, mut later) =
        (FirstTurns { plan, next: 0 }, LaterTurns { plan, before, previous: Vec::new(), ended: Vec::new() });
    let finished = run_sessions(trial, &mut first, &mut later, sink, cancel, &Progress::new()).expect("a trial that runs");
    let kept = kept(sink);
    check_records(&finished, kept);
    let mut sessions: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in &kept.records {
        sessions.entry(record.session.expect("a session")).or_default().push(record.clone());
    }
    let ended: BTreeSet<u64> = later.ended.iter().copied().collect();
    assert_eq!(later.ended.len(), ended.len(), "each session ends once");
    assert!(ended.iter().eq(sessions.keys()), "every session that began ends: {ended:?}");
    for records in sessions.values_mut() {
        records.sort_by_key(|record| record.turn);
        check_session(trial, plan, records, finished.cancelled);
    }
    Played { finished, sessions, previous: later.previous }
}

/// Checks the turns of one session: none is missing, each follows the one before, and its due time decides its phase.
fn check_session(trial: &Trial, plan: Plan, records: &[Record], cancelled: bool) {
    let ends_ns = trial.measured.duration_ns.map_or(i64::MAX, |duration| trial.warmup_ns + duration);
    let is_open = matches!(trial.arrivals, Arrivals::Open { .. });
    for (turn, record) in records.iter().enumerate() {
        assert_eq!(record.turn, Some(turn as u32), "{records:?}");
        let due_ns = record.intended_ns.expect("a due time");
        // Under closed loop a session is due when a user takes it up.
        assert!(is_open || turn > 0 || record.dequeued_ns == Some(due_ns), "{record:?}");
        assert_eq!((record.session_turns, record.session_start_ns), (Some(plan.turns), records[0].intended_ns));
        assert_eq!(record.session_pauses_ns, Some(plan.pause_ns * i64::try_from(turn).expect("few")));
        let planned_ns = records[0].intended_ns.map(|start_ns| start_ns + (PLANNED_GAP_NS * turn as u64).cast_signed());
        assert_eq!(record.planned_ns, planned_ns, "the time of the trace, whatever the responses took");
        assert_eq!(record.phase, if due_ns < trial.warmup_ns { Phase::Warmup } else { Phase::Measured }, "{record:?}");
        assert!(due_ns < ends_ns && record.dequeued_ns >= Some(due_ns), "{record:?}");
        assert!(record.sent_ns.is_none_or(|sent_ns| sent_ns >= due_ns), "{record:?}");
    }
    for pair in records.windows(2) {
        assert_eq!(pair[0].outcome, Outcome::Ok, "nothing follows a failure");
        assert_eq!(pair[1].intended_ns, pair[0].end_ns.map(|end_ns| end_ns + plan.pause_ns));
    }
    let last = records.last().expect("a first turn");
    let next_due_ns = last.end_ns.expect("every turn ends") + plan.pause_ns;
    let is_complete = records.len() == plan.turns as usize || last.outcome != Outcome::Ok || next_due_ns >= ends_ns;
    assert!(cancelled || is_complete, "turn {} was due: {records:?}", records.len());
}

/// Returns the session and the turn of a request.
fn place(request: &Request) -> (u64, u64) {
    let body: Value = serde_json::from_slice(&request.body).expect("a body");
    (body["session"].as_u64().expect("a session"), body["turn"].as_u64().expect("a turn"))
}

fn respond_with_status(status: u16, stream: &mut dyn Write) -> AfterResponse {
    let _ = stream.write_all(format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n").as_bytes());
    AfterResponse::KeepAlive
}

#[test]
fn users_play_sessions_to_their_ends() {
    const USERS: usize = 3;
    let all = Barrier::new(USERS);
    let server = Server::start(move |request, stream| {
        if request.number < USERS {
            // No request gets a response before all users have begun a session.
            all.wait();
        }
        good(request, stream)
    });
    let played = play(&recorded(closed(&server.url(), USERS as u32)), plan(12, 3, 2 * MS));
    assert_eq!((played.sessions.len(), played.count(Outcome::Ok)), (12, 36));
    assert_eq!(played.finished.client.most_in_flight, USERS as u64);
    let span = |records: &Vec<Record>| (records[0].dequeued_ns, records[2].end_ns);
    let spans: Vec<_> = played.sessions.values().map(span).collect();
    for (begun, _) in &spans {
        let under_way = spans.iter().filter(|(from, to)| from <= begun && begun < to).count();
        assert!(under_way <= USERS, "{under_way} sessions at a time");
    }
    let firsts: Vec<_> = played.sessions.values().map(|records| records[0].dequeued_ns).collect();
    assert!(firsts.is_sorted(), "sessions begin in their order");
}

#[test]
fn recorded_history_prepares_a_turn_while_the_one_before_is_under_way() {
    let prepared = Gate::default();
    let opener = prepared.clone();
    let server = Server::start(move |request, stream| {
        if place(request).1 == 0 {
            prepared.pass();
        }
        good(request, stream)
    });
    let played = play_with(&recorded(trial(&server.url())), plan(1, 3, 0), &|_, _| {
        opener.open();
        Ok(())
    });
    assert_eq!(played.count(Outcome::Ok), 3);
    assert_eq!(played.previous, [None, None]);
}

/// Responds with the place of the request, and with reasoning and a tool call.
fn name_place(request: &Request, stream: &mut dyn Write) -> AfterResponse {
    let (session, turn) = place(request);
    let tool = json!([{ "index": 0, "function": { "name": "f", "arguments": "{}" } }]);
    let wire = if request.head.contains("text/event-stream") {
        event_stream(&[
            &json!({ "choices": [{ "delta": { "reasoning_content": "why " } }] }).to_string(),
            &json!({ "choices": [{ "delta": { "reasoning_content": session.to_string() } }] }).to_string(),
            &json!({ "choices": [{ "delta": { "content": "said \u{e9} " } }] }).to_string(),
            &json!({ "choices": [{ "delta": { "content": turn.to_string(), "tool_calls": tool } }] }).to_string(),
            &json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }).to_string(),
            "[DONE]",
        ])
    } else {
        let (reasoning, content) = (format!("why {session}"), format!("said \u{e9} {turn}"));
        let message = json!({ "reasoning": reasoning, "content": content, "tool_calls": tool });
        let body = json!({ "choices": [{ "message": message, "finish_reason": "stop" }] }).to_string();
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let _ = stream.write_all(&wire);
    AfterResponse::KeepAlive
}

#[test]
fn live_history_has_the_responses_of_the_endpoint() {
    for streaming in [true, false] {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let seen = bodies.clone();
        let server = Server::start(move |request, stream| {
            seen.lock().expect("a lock").push(serde_json::from_slice::<Value>(&request.body).expect("a body"));
            name_place(request, stream)
        });
        let trial = Trial { streaming, ..with_history(closed(&server.url(), 2), History::Live) };
        let played = play(&trial, plan(5, 3, MS));
        assert_eq!(played.count(Outcome::Ok), 15);
        assert_eq!(played.previous.len(), 10);
        let bodies = bodies.lock().expect("a lock");
        assert_eq!(bodies.len(), 15);
        for body in &*bodies {
            let (session, turn) = (&body["session"], body["turn"].as_u64().expect("a turn"));
            let expected = match turn.checked_sub(1) {
                None => Value::Null,
                Some(before) => json!([format!("said \u{e9} {before}"), format!("why {session}")]),
            };
            assert_eq!(body["previous"], expected, "streamed: {streaming}");
        }
    }
}

#[test]
fn a_session_has_a_connection_of_its_own() {
    let server = Server::start(good);
    let trial = Trial { connections: Connections::Sticky, ..recorded(closed(&server.url(), 2)) };
    let played = play(&trial, plan(6, 3, 2 * MS));
    assert_eq!((played.count(Outcome::Ok), server.connections.load(Ordering::SeqCst)), (18, 6));
    for record in played.records() {
        assert_eq!(record.connect_start_ns.is_some(), record.turn == Some(0), "{record:?}");
    }
    assert_eq!((played.finished.client.connections_opened, played.finished.client.resends), (6, 0));
}

#[test]
fn a_session_whose_connection_the_endpoint_closes_opens_another_one() {
    let server = Server::start(|request, stream| match place(request) {
        (1, 0) => {
            let _ = good(request, stream);
            AfterResponse::Close
        }
        _ => good(request, stream),
    });
    let trial = Trial { connections: Connections::Sticky, ..recorded(closed(&server.url(), 1)) };
    let played = play(&trial, plan(3, 3, 20 * MS));
    assert_eq!((played.count(Outcome::Ok), server.connections.load(Ordering::SeqCst)), (9, 4));
    let connected: Vec<_> = played.sessions[&1].iter().map(|record| record.connect_start_ns.is_some()).collect();
    assert_eq!(connected, [true, true, false]);
}

#[test]
fn every_request_of_a_session_names_it_in_the_header() {
    let heads = Arc::new(Mutex::new(BTreeMap::<u64, Vec<String>>::new()));
    let seen = heads.clone();
    let server = Server::start(move |request, stream| {
        let name = header(&request.head, "x-session-id").expect("the header").to_owned();
        seen.lock().expect("a lock").entry(place(request).0).or_default().push(name);
        good(request, stream)
    });
    let trial = recorded(closed(&server.url(), 2));
    let endpoint = trial.endpoint.clone().with_session_header("x-session-id").expect("a name");
    let played = play(&Trial { endpoint, ..trial.clone() }, plan(3, 3, 0));
    assert_eq!(played.count(Outcome::Ok), 9);
    for (session, names) in heads.lock().expect("a lock").iter() {
        assert_eq!(names, &vec![format!("{:032x}", session + 0xab00); 3]);
    }
    for name in ["x-request-id", "Host", "a b", ""] {
        assert!(trial.endpoint.clone().with_session_header(name).is_err(), "{name}");
    }
    let twice = trial.endpoint.with_header("X-Session-Id", "1").and_then(|endpoint| endpoint.with_session_header("x-session-id"));
    assert!(twice.is_err());
}

#[test]
fn a_turn_that_fails_ends_its_session() {
    let server = Server::start(|request, stream| match place(request) {
        (session, 1) if session % 2 == 1 => respond_with_status(500, stream),
        _ => good(request, stream),
    });
    for history in [History::Recorded, History::Live] {
        let played = play(&with_history(closed(&server.url(), 2), history), plan(10, 3, 0));
        let turns: Vec<usize> = played.sessions.values().map(Vec::len).collect();
        assert_eq!(turns, [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]);
        assert_eq!(played.count(Outcome::HttpError), 5);
    }
}

#[test]
fn sessions_without_an_endpoint_end_with_their_first_turn() {
    let played = play(&recorded(closed(CLOSED_URL, 4)), plan(8, 3, 0));
    assert_eq!((played.sessions.len(), played.count(Outcome::ConnectError)), (8, 8));
}

#[test]
fn sessions_arrive_by_their_schedule() {
    let server = Server::start(good);
    let played = play(&recorded(open(&server.url(), 64)), Plan { gap_ns: Some(3 * MS), ..plan(10, 3, MS) });
    assert_eq!(played.count(Outcome::Ok), 30);
    for (session, records) in &played.sessions {
        assert_eq!(records[0].intended_ns, Some(3 * MS * session.cast_signed()));
    }
    assert_eq!(played.finished.client.lateness.map(|lateness| lateness.n), Some(30));
    // By the window, although the schedule has ended: later turns have no place in it.
    let window_ns = played.finished.measured_to_ns - played.finished.measured_from_ns;
    assert_eq!(played.finished.client.requested_per_s, Some(30.0 * 1e9 / window_ns as f64));
}

/// Keeps the records, and raises `cancel` when one is found.
struct CancellingSink<'a, F> {
    kept: RecordingSink,
    cancel: &'a AtomicBool,
    cancels: F,
}

impl<F: FnMut(&Record) -> bool + Send> Sink for CancellingSink<'_, F> {
    fn record(&mut self, record: &Record, response: Option<&[u8]>) -> Result<(), Cause> {
        if (self.cancels)(record) {
            self.cancel.store(true, Ordering::SeqCst);
        }
        self.kept.record(record, response)
    }
}

/// One request fits. Session 0 leaves room after its first turn, and its second is prepared when another session has taken it.
#[test]
fn a_later_turn_without_room_is_dropped_and_ends_its_session() {
    let (taken, over) = (Gate::default(), Gate::default());
    let (opener, held) = (taken.clone(), over.clone());
    let server = Server::start(move |request, stream| {
        if place(request).0 > 0 {
            opener.open();
            held.pass();
        }
        good(request, stream)
    });
    let cancel = AtomicBool::new(false);
    let is_dropped = |record: &Record| record.turn == Some(1) && record.outcome == Outcome::Dropped;
    let mut sink = CancellingSink { kept: RecordingSink::default(), cancel: &cancel, cancels: is_dropped };
    let plan = Plan { gap_ns: Some(5 * MS), ..plan(10_000, 3, 0) };
    let before = |_, _| {
        taken.pass();
        Ok(())
    };
    let played = play_into(&recorded(open(&server.url(), 1)), plan, &before, &mut sink, |sink| &sink.kept, &cancel);
    let outcomes: Vec<_> = played.sessions[&0].iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Dropped]);
    over.open();
}

/// The second turn is prepared once the record of the first is out, which is long after it was due.
#[test]
fn a_turn_that_is_prepared_late_is_sent_late() {
    struct OpeningSink(RecordingSink, Gate);
    impl Sink for OpeningSink {
        fn record(&mut self, record: &Record, response: Option<&[u8]>) -> Result<(), Cause> {
            self.1.open();
            self.0.record(record, response)
        }
    }
    let server = Server::start(good);
    let gate = Gate::default();
    let mut sink = OpeningSink(RecordingSink::default(), gate.clone());
    let before = |_, _| {
        gate.pass();
        Ok(())
    };
    let trial = Trial { warmup_ns: LONG, ..recorded(trial(&server.url())) };
    let played = play_into(&trial, plan(1, 2, 0), &before, &mut sink, |sink| &sink.0, &AtomicBool::new(false));
    assert_eq!(played.count(Outcome::Ok), 2);
    // On a slow machine the first turn may be one of them.
    assert!(played.finished.client.starved >= 1);
    assert!(played.sessions[&0][1].lateness_ns() > Some(0));
}

#[test]
fn the_due_time_of_a_turn_decides_its_phase() {
    let server = Server::start(good);
    let trial = Trial { warmup_ns: 100 * MS, ..recorded(closed(&server.url(), 2)) };
    let played = play(&trial, plan(2, 3, 100 * MS));
    assert_eq!(played.count(Outcome::Ok), 6);
    let later = played.sessions.values().flat_map(|records| &records[1..]);
    assert!(later.clone().all(|record| record.phase == Phase::Measured), "the pause is as long as the warm-up");
    assert_eq!(played.finished.client.lateness.map(|lateness| lateness.n), Some(later.count() as u64));
    // Under open loop the planned time counts, however late the session begins.
    let trial = Trial { warmup_ns: 10 * MS, ..recorded(open(&server.url(), 64)) };
    let played = play(&trial, Plan { gap_ns: Some(MS), ..plan(20, 2, MS) });
    assert_eq!(played.count(Outcome::Ok), 40);
    let warm = played.sessions.values().filter(|records| records[0].phase == Phase::Warmup).count();
    assert_eq!(warm, 10);
}

#[test]
fn nothing_is_due_at_the_end_or_after_it() {
    let server = Server::start(good);
    let load = [
        (recorded(closed(&server.url(), 4)), plan(u64::MAX, 4, 3 * MS)),
        (with_history(closed(&server.url(), 4), History::Live), plan(u64::MAX, 4, 0)),
        (recorded(open(&server.url(), 64)), Plan { gap_ns: Some(MS), ..plan(u64::from(u32::MAX), 4, 3 * MS) }),
    ];
    for (trial, plan) in load {
        let trial = lasting(Trial { warmup_ns: 10 * MS, start_at_ns: assay_reactor::now_ns(), ..trial }, 40 * MS);
        let played = play(&trial, plan);
        assert_eq!((played.finished.measured_from_ns, played.finished.measured_to_ns), (10 * MS, 50 * MS));
        let due = played.finished.counts.due(Phase::Measured);
        assert_eq!(played.finished.client.requested_per_s, Some(due as f64 * 25.0));
    }
}

#[test]
fn a_user_whose_next_turn_is_after_the_end_begins_no_other_session() {
    let server = Server::start(good);
    let played = play(&lasting(recorded(closed(&server.url(), 2)), 30 * MS), plan(100, 2, 30 * MS));
    assert!(played.sessions.len() <= 2 && played.records().all(|record| record.turn == Some(0)));
    assert_eq!(played.finished.measured_to_ns, 30 * MS);
}

#[test]
fn a_drain_that_is_over_cancels_turns_and_ends_their_sessions() {
    let hung = Gate::default();
    let gate = hung.clone();
    let server = Server::start(move |request, stream| {
        gate.pass();
        good(request, stream)
    });
    let trial = Trial { drain_ns: MS, ..lasting(recorded(closed(&server.url(), 3)), 20 * MS) };
    let played = play(&trial, plan(100, 3, 0));
    assert_eq!(played.count(Outcome::CancelledAtEnd), played.sessions.len());
    hung.open();
}

#[test]
fn a_cancelled_trial_waits_for_no_pause() {
    let server = Server::start(good);
    let cancel = AtomicBool::new(false);
    let mut sink = CancellingSink { kept: RecordingSink::default(), cancel: &cancel, cancels: |_: &Record| true };
    let trial = recorded(closed(&server.url(), 2));
    let played = play_into(&trial, plan(2, 2, LONG), &|_, _| Ok(()), &mut sink, |sink| &sink.kept, &cancel);
    assert!(played.finished.cancelled && played.finished.ended_ns < LONG);
    assert!(played.records().all(|record| record.turn == Some(0)));
}

#[test]
fn turns_that_are_prepared_after_the_trial_have_records() {
    let server = Server::start(good);
    let trial = Trial { drain_ns: MS, ..lasting(recorded(closed(&server.url(), 2)), 20 * MS) };
    let until_ns = trial.start_at_ns + 100 * MS;
    let played = play_with(&trial, plan(2, 2, 0), &|_, _| {
        while assay_reactor::now_ns() < until_ns {
            std::thread::yield_now();
        }
        Ok(())
    });
    // They are dropped; a client that was kept from running until they were prepared sends them late.
    let later = played.records().filter(|record| record.turn == Some(1));
    for record in later {
        let is_late = record.sent_ns >= Some(100 * MS);
        assert!(record.outcome == Outcome::Dropped || is_late, "{record:?}");
    }
}

/// The server says that the response is complete, but does not end it: the client knows only at the request's timeout, after the
/// trial's end, that another turn was due.
#[test]
fn a_turn_that_turns_out_to_have_been_due_is_dropped() {
    let over = Gate::default();
    let gate = over.clone();
    let server = Server::start(move |_, stream| {
        let wire = good_stream();
        let _ = stream.write_all(&wire[..wire.len() - 5]);
        let _ = stream.flush();
        gate.pass();
        AfterResponse::Close
    });
    let trial = Trial { timeout_ns: 120 * MS, ..lasting(recorded(closed(&server.url(), 1)), 60 * MS) };
    let played = play(&trial, plan(1, 2, 0));
    assert_eq!(played.count(Outcome::Dropped), played.records().filter(|record| record.turn == Some(1)).count());
    over.open();
}

#[test]
fn turns_that_cannot_be_prepared_end_the_trial() {
    /// Fails, panics, or returns another turn than requested, and counts the sessions that end.
    struct FailingTurns(Option<Result<PlannedRequest, &'static str>>, usize);
    impl Turns for FailingTurns {
        fn next(&mut self, _: u64, _: u32, _: Option<&ResponseText>) -> Result<PlannedRequest, Cause> {
            let returned = self.0.take().expect("a turn");
            returned.map_err(Into::into)
        }
        fn end(&mut self, _: u64) {
            self.1 += 1;
        }
    }
    let server = Server::start(good);
    let trial = recorded(trial(&server.url()));
    let run = |returned| {
        let (mut first, mut later) = (FirstTurns { plan: plan(9, 2, LONG), next: 0 }, FailingTurns(returned, 0));
        let mut kept = RecordingSink::default();
        let failed = run_sessions(&trial, &mut first, &mut later, &mut kept, &AtomicBool::new(false), &Progress::new());
        (failed.expect_err("a failure"), later.1)
    };
    let (error, ended) = run(Some(Err("no rows")));
    assert!(matches!(&error, Error::Requests(cause) if cause.to_string() == "no rows"), "{error:?}");
    assert_eq!(ended, 1);
    let (error, ended) = run(Some(Ok(plan(9, 2, 0).request(0, 0, None))));
    let reason = "turn 1 of session 0 was requested, and another request was returned";
    assert!(matches!(&error, Error::Requests(cause) if cause.to_string() == reason), "{error:?}");
    assert_eq!(ended, 1);
    let (error, _) = run(None);
    assert!(matches!(error, Error::Thread { which: "turn feeder" }), "{error:?}");
}

#[test]
fn trials_of_sessions_that_make_no_sense_are_refused() {
    let refusal = |trial: &Trial| {
        let (mut first, mut later) = (FirstTurns { plan: plan(1, 2, 0), next: 0 }, NoLaterTurns);
        let mut kept = RecordingSink::default();
        let ran = run_sessions(trial, &mut first, &mut later, &mut kept, &AtomicBool::new(false), &Progress::new());
        ran.expect_err("refused").to_string()
    };
    let requests = MeasuredLimits { duration_ns: None, requests: Some(7) };
    assert_eq!(
        refusal(&Trial { measured: requests, ..recorded(trial(CLOSED_URL)) }),
        "this trial cannot be run: a number of requests cannot end sessions; limit its time, or the number of its sessions"
    );
    let embeddings = Trial { api: ServingApi::Embeddings, streaming: false, ..with_history(trial(CLOSED_URL), History::Live) };
    assert_eq!(
        refusal(&embeddings),
        "this trial cannot be run: the responses of its API have no text, which live history consists of"
    );
    let mut kept = RecordingSink::default();
    let without_turns = run_into(&recorded(trial(CLOSED_URL)), &mut numbered(1), &mut kept).expect_err("refused");
    assert_eq!(
        without_turns.to_string(),
        "this trial cannot be run: its sessions have later turns, and there is no generator of these"
    );
    let without_session = run_sessions(
        &recorded(trial(CLOSED_URL)),
        &mut numbered(1),
        &mut NoLaterTurns,
        &mut kept,
        &AtomicBool::new(false),
        &Progress::new(),
    );
    assert!(
        matches!(&without_session, Err(Error::Requests(cause)) if cause.to_string() == "request 0 is no turn of a session"),
        "{without_session:?}"
    );
}

/// A trial without sessions uses no turns.
struct NoLaterTurns;

impl Turns for NoLaterTurns {
    fn next(&mut self, _: u64, _: u32, _: Option<&ResponseText>) -> Result<PlannedRequest, Cause> {
        unreachable!("there are no later turns")
    }

    fn end(&mut self, _: u64) {
        unreachable!("there are no sessions")
    }
}

#[test]
fn a_trial_without_sessions_runs_with_turns_as_without_them() {
    let server = Server::start(good);
    let mut kept = RecordingSink::default();
    let finished = run_sessions(
        &closed(&server.url(), 2),
        &mut numbered(20),
        &mut NoLaterTurns,
        &mut kept,
        &AtomicBool::new(false),
        &Progress::new(),
    )
    .expect("a trial that runs");
    check_records(&finished, &kept);
    assert!(kept.records.iter().all(|record| (record.outcome, record.session, record.turn) == (Outcome::Ok, None, None)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every third request of some trials fails.
    #[test]
    fn any_sessions_keep_the_invariants(
        (sessions, turns, pause_us) in (0_u64..12, 1_u32..5, 0_i64..2_000),
        places in 1_u32..5,
        gap_us in prop::option::of(0_i64..3_000),
        (warmup_ms, duration_ms) in (0_i64..10, prop::option::of(0_i64..20)),
        is_live in any::<bool>(),
        fails in any::<bool>(),
    ) {
        let seen = AtomicUsize::new(0);
        let server = Server::start(move |request, stream| {
            let third = seen.fetch_add(1, Ordering::SeqCst) % 3 == 2;
            if fails && third { respond_with_status(503, stream) } else { good(request, stream) }
        });
        let base = if gap_us.is_some() { open(&server.url(), places) } else { closed(&server.url(), places) };
        let history = if is_live { History::Live } else { History::Recorded };
        let trial = Trial {
            warmup_ns: warmup_ms * MS,
            measured: MeasuredLimits { duration_ns: duration_ms.map(|ms| ms * MS), requests: None },
            ..with_history(base, history)
        };
        let plan = Plan { gap_ns: gap_us.map(|us| us * 1_000), ..plan(sessions, turns, pause_us * 1_000) };
        let played = play(&trial, plan);
        if duration_ms.is_none() {
            prop_assert_eq!(played.sessions.len() as u64, sessions);
        }
    }
}
