//! Users: when the turns on their grid are due, that none is lost, and that a user has one in flight at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use assay_load::{
    Arrivals, Cause, Connections, Error, History, MeasuredLimits, NextTurn, PlannedRequest, PlannedTurn, Progress, Requests,
    ResponseText, Sessions, Successor, Trial, TrialSummary, Turns, run, run_sessions,
};
use assay_record::{Outcome, Phase, Record};
use serde_json::{Value, json};

use crate::server::{AfterResponse, Gate, Request, Server, good};
use crate::support::{CLOSED_URL, MS, RecordingSink, check_records, numbered, trial};

/// Users with sessions of as many turns each, every turn at its point of their grid.
#[derive(Clone, Copy)]
struct Grid {
    users: u64,
    gap_ns: i64,
    turns: u32,
    ends_ns: i64,
}

impl Grid {
    /// Returns the time of a turn; none at the end of the trial or after it.
    fn planned_ns(&self, session: u64, turn: u64) -> Option<i64> {
        let (user, played) = (session % self.users, session / self.users);
        let step = (played * u64::from(self.turns) + turn).cast_signed();
        let at_ns = user.cast_signed() * self.gap_ns / self.users.cast_signed() + step * self.gap_ns;
        (at_ns < self.ends_ns).then_some(at_ns)
    }

    /// Returns the number of turns that are planned.
    fn points(&self) -> usize {
        let of_user = |user| (0..1_000).take_while(|turn| self.planned_ns(user, *turn).is_some()).count();
        (0..self.users).map(of_user).sum()
    }

    fn request(&self, session: u64, turn: u32) -> Option<PlannedRequest> {
        let planned_ns = self.planned_ns(session, turn.into())?;
        let next = (turn + 1 < self.turns).then_some(turn + 1);
        let next = next.and_then(|turn| Some((turn, self.planned_ns(session, turn.into())?)));
        let after = self.planned_ns(session, self.turns.into());
        Some(PlannedRequest {
            global_index: session * u64::from(self.turns) + u64::from(turn),
            intended_offset_ns: Some(planned_ns),
            body: json!({"session": session, "turn": turn}).to_string().into_bytes(),
            request_id: u128::from(session) * 1_000 + u128::from(turn) + 1,
            turn: Some(PlannedTurn {
                session,
                session_id: session.into(),
                turn,
                turns: self.turns,
                stream: None,
                planned_ns: None,
            }),
            next: next
                .map(|(turn, at_ns)| NextTurn { turn, pause_ns: 0, waits: 1, planned_ns: Some(at_ns) })
                .into_iter()
                .collect(),
            successor: after.map(|planned_ns| Successor { session: session + self.users, planned_ns }),
            ..PlannedRequest::default()
        })
    }
}

struct FirstTurns(Grid, u64);

impl Requests for FirstTurns {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        assert_eq!(phase, Phase::Measured);
        let session = self.1;
        self.1 += 1;
        Ok(if session < self.0.users { self.0.request(session, 0) } else { None })
    }
}

struct LaterTurns {
    grid: Grid,
    history: History,
    prepared: BTreeSet<(u64, u32)>,
    ended: Vec<u64>,
}

impl Turns for LaterTurns {
    fn next(&mut self, session: u64, turn: u32, previous: Option<&ResponseText>) -> Result<PlannedRequest, Cause> {
        assert!(self.prepared.insert((session, turn)), "turn {turn} of session {session} is requested once");
        assert!(!self.ended.contains(&session), "session {session} has ended");
        assert_eq!(previous.is_some(), turn > 0 && self.history == History::Live, "a session begins without history");
        Ok(self.grid.request(session, turn).expect("a planned turn"))
    }

    fn end(&mut self, session: u64) {
        self.ended.push(session);
    }
}

fn users(url: &str, grid: Grid, history: History) -> Trial {
    Trial {
        arrivals: Arrivals::Users { users: u32::try_from(grid.users).expect("few") },
        sessions: Some(Sessions { history, most_streams: 1, idle_cap_ns: None }),
        measured: MeasuredLimits { duration_ns: Some(grid.ends_ns), requests: None },
        ..trial(url)
    }
}

/// Runs a trial of users. Returns the records of each user in the order of their planned times.
fn play(trial: &Trial, grid: Grid) -> (TrialSummary, BTreeMap<u64, Vec<Record>>) {
    let history = trial.sessions.expect("sessions").history;
    let (mut first, mut later) =
        (FirstTurns(grid, 0), LaterTurns { grid, history, prepared: BTreeSet::new(), ended: Vec::new() });
    let (mut kept, cancel) = (RecordingSink::default(), AtomicBool::new(false));
    let finished = run_sessions(trial, &mut first, &mut later, &mut kept, &cancel, &Progress::new()).expect("a trial that runs");
    check_records(&finished, &kept);
    let mut users: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in kept.records {
        let session = record.session.expect("a session");
        assert!(later.ended.contains(&session), "session {session} never ended");
        users.entry(session % grid.users).or_default().push(record);
    }
    for records in users.values_mut() {
        records.sort_by_key(|record| record.planned_ns);
        check_user(trial, grid, records);
    }
    assert!(finished.client.most_in_flight <= grid.users);
    (finished, users)
}

/// Checks the turns of one user: each is due at its time or at the end of the turn before it, and its time decides its phase.
fn check_user(trial: &Trial, grid: Grid, records: &[Record]) {
    let mut free_ns = 0;
    for record in records {
        let (session, turn) = (record.session.expect("a session"), record.turn.expect("a turn"));
        let planned_ns = grid.planned_ns(session, turn.into()).expect("a planned turn");
        assert_eq!(record.planned_ns, Some(planned_ns), "nothing moves a point of the grid: {record:?}");
        assert_eq!(record.intended_ns, Some(planned_ns.max(free_ns)), "{record:?}");
        assert!(record.dequeued_ns >= record.intended_ns, "{record:?}");
        assert_eq!(record.phase, if planned_ns < trial.warmup_ns { Phase::Warmup } else { Phase::Measured }, "{record:?}");
        free_ns = record.end_ns.expect("every turn ends");
    }
    for pair in records.windows(2) {
        let follows = pair[1].session == pair[0].session && pair[1].turn == pair[0].turn.map(|turn| turn + 1);
        let begins = pair[1].session == pair[0].session.map(|session| session + grid.users) && pair[1].turn == Some(0);
        let has_ended = pair[0].outcome != Outcome::Ok || pair[0].turn == Some(grid.turns - 1);
        assert!(if has_ended { begins } else { follows }, "{pair:?}");
    }
}

fn count(users: &BTreeMap<u64, Vec<Record>>, outcome: Outcome) -> usize {
    users.values().flatten().filter(|record| record.outcome == outcome).count()
}

fn place(request: &Request) -> (u64, u64) {
    let body: Value = serde_json::from_slice(&request.body).expect("a body");
    (body["session"].as_u64().expect("a session"), body["turn"].as_u64().expect("a turn"))
}

#[test]
fn each_point_of_the_grid_has_one_turn() {
    let server = Server::start(good);
    for history in [History::Recorded, History::Live] {
        for connections in [Connections::Pooled, Connections::Sticky, Connections::Never] {
            let grid = Grid { users: 3, gap_ns: 30 * MS, turns: 2, ends_ns: 200 * MS };
            let trial = Trial { connections, warmup_ns: 50 * MS, ..users(&server.url(), grid, history) };
            let trial = Trial { measured: MeasuredLimits { duration_ns: Some(150 * MS), requests: None }, ..trial };
            let (finished, users) = play(&trial, grid);
            // 200 ms hold 7 turns of the users at 0 and 10 ms, and 6 of the one at 20 ms.
            assert_eq!(users.values().map(Vec::len).collect::<Vec<_>>(), [7, 7, 6]);
            assert_eq!((count(&users, Outcome::Ok), grid.points()), (20, 20));
            // 15 of them in the 150 ms that are measured: those from 50 ms on.
            assert_eq!(finished.client.requested_per_s, Some(100.0));
        }
    }
}

#[test]
fn a_slow_endpoint_makes_turns_late_and_moves_none() {
    let server = Server::start(|request, stream| {
        thread::sleep(Duration::from_millis(25));
        good(request, stream)
    });
    for history in [History::Recorded, History::Live] {
        let grid = Grid { users: 2, gap_ns: 10 * MS, turns: 3, ends_ns: 100 * MS };
        let (_, users) = play(&users(&server.url(), grid, history), grid);
        assert_eq!((count(&users, Outcome::Ok), grid.points()), (20, 20), "the late turns are sent after the end");
        for records in users.values() {
            let late: Vec<i64> = records.iter().map(|record| record.intended_ns.unwrap() - record.planned_ns.unwrap()).collect();
            // Each response takes 15 ms longer than the gap.
            assert!(late.is_sorted() && late[0] == 0 && late[9] >= 9 * 15 * MS, "{late:?}");
            assert!(records.windows(2).all(|pair| pair[1].sent_ns > pair[0].end_ns), "a user has one turn in flight");
        }
    }
}

#[test]
fn a_turn_that_fails_leaves_the_points_of_its_session_empty() {
    let server = Server::start(|request, stream| match place(request) {
        (1, 1) => {
            let _ = stream.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
            AfterResponse::KeepAlive
        }
        _ => good(request, stream),
    });
    for history in [History::Recorded, History::Live] {
        let grid = Grid { users: 2, gap_ns: 10 * MS, turns: 4, ends_ns: 80 * MS };
        let (_, users) = play(&users(&server.url(), grid, history), grid);
        assert_eq!((count(&users, Outcome::Ok), count(&users, Outcome::HttpError), grid.points()), (13, 1, 16));
        let places: Vec<_> = users[&1].iter().map(|record| (record.session.unwrap(), record.turn.unwrap())).collect();
        // Turns 2 and 3 of session 1 are never sent; session 3 begins at its own time.
        assert_eq!(places, [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2), (3, 3)]);
        assert_eq!(users[&1][2].planned_ns, Some(45 * MS));
    }
}

#[test]
fn turns_that_could_not_be_sent_in_time_are_dropped() {
    let over = Gate::default();
    let held = over.clone();
    let server = Server::start(move |request, stream| {
        if place(request) == (0, 1) {
            held.pass();
        }
        good(request, stream)
    });
    let grid = Grid { users: 2, gap_ns: 10 * MS, turns: 3, ends_ns: 90 * MS };
    let trial = Trial { drain_ns: 20 * MS, ..users(&server.url(), grid, History::Recorded) };
    let (_, users) = play(&trial, grid);
    over.open();
    let outcomes: Vec<_> =
        users[&0].iter().map(|record| (record.session.unwrap(), record.turn.unwrap(), record.outcome)).collect();
    let dropped = |session| (session, 0, Outcome::Dropped);
    assert_eq!(outcomes, [(0, 0, Outcome::Ok), (0, 1, Outcome::CancelledAtEnd), dropped(2), dropped(4)]);
    assert!(users[&0][2..].iter().all(|record| record.session_done == Some(0) && record.sent_ns.is_none()));
    assert_eq!(users[&1].iter().filter(|record| record.outcome == Outcome::Ok).count(), 9, "the other user goes on");
}

#[test]
fn users_without_an_endpoint_begin_each_of_their_sessions() {
    let grid = Grid { users: 3, gap_ns: 6 * MS, turns: 2, ends_ns: 36 * MS };
    let (_, users) = play(&users(CLOSED_URL, grid, History::Recorded), grid);
    assert_eq!((count(&users, Outcome::ConnectError), grid.points()), (9, 18));
}

#[test]
fn users_need_sessions_and_an_end() {
    let grid = Grid { users: 3, gap_ns: 6 * MS, turns: 2, ends_ns: 36 * MS };
    let valid = users(CLOSED_URL, grid, History::Recorded);
    let problem = "its users play sessions until a time has passed; give it both";
    for invalid in [Trial { sessions: None, ..valid.clone() }, Trial { measured: MeasuredLimits::default(), ..valid }] {
        let mut kept = RecordingSink::default();
        let (cancel, progress) = (AtomicBool::new(false), Progress::new());
        let mut later = LaterTurns { grid, history: History::Recorded, prepared: BTreeSet::new(), ended: Vec::new() };
        let refused = if invalid.sessions.is_some() {
            run_sessions(&invalid, &mut FirstTurns(grid, 0), &mut later, &mut kept, &cancel, &progress)
        } else {
            run(&invalid, &mut numbered(1), &mut kept, &cancel, &progress)
        };
        assert!(matches!(refused, Err(Error::Trial { problem: found }) if found == problem), "{refused:?}");
    }
}
