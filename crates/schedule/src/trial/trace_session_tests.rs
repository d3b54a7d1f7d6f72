//! The sessions of a trace: whole in every shard, in the order in which they began, with the pauses and the times that the trace records.

use std::collections::BTreeSet;

use assay_dataset::{
    FileRow, ImportRules, Row, RowContent, RowTime, RowWriter, TimeRules, TokenBlocks, TraceSession, TraceStream, TurnCourse,
};
use assay_manifest::{History, PauseLaw, ReasoningHistory, SessionPlay, SessionStart};
use proptest::prelude::*;

use super::tests::{Letters, NONCE, SEED, finish_import, point};
use super::*;

const MS: u64 = 1_000_000;

/// A turn of the trace: its session, its time and the time to the end of its response, both in milliseconds.
type TraceTurn = (u64, i64, Option<u64>);

/// Returns work that plays the sessions of a trace, and its index. Turn `n` of the file, from 0, has `n + 1` tokens.
fn trace(turns: &[TraceTurn], arrival: ArrivalLaw, count: Option<u64>) -> (ServingWork, Arc<Index>) {
    let rows = (1_u32..).zip(turns).map(|(number, turn)| FileRow::Request(row(number, turn)));
    trace_of(rows, arrival, count)
}

/// Returns the turn of a row, which has as many tokens as its number says.
fn row(number: u32, (session, at_ms, service_ms): &TraceTurn) -> Row {
    let blocks = TokenBlocks { tokens: number, size: 1_000, ids: Vec::new(), scope: None, messages: Vec::new() };
    Row {
        output_tokens: Some(7),
        time: Some(RowTime { at_ns: *at_ms * 1_000_000, session: Some(*session) }),
        course: TurnCourse { service_ns: service_ms.map(|ms| ms * MS), ..TurnCourse::default() },
        ..Row::new(RowContent::Blocks(blocks))
    }
}

fn trace_of(rows: impl Iterator<Item = FileRow>, arrival: ArrivalLaw, count: Option<u64>) -> (ServingWork, Arc<Index>) {
    let rules = ImportRules { times: Some(TimeRules::default()), sessions: true, ..ImportRules::UNLIMITED };
    let mut writer = RowWriter::new(rules, &Letters, Vec::new(), Vec::new()).expect("a writer");
    for (number, row) in (1..).zip(rows) {
        writer.write(number, Ok(row)).expect("a row");
    }
    let (work, index) = finish_import(writer);
    let sessions = Sessions {
        turns: None,
        think_time: PauseLaw::Recorded,
        history: History::Recorded,
        reasoning: ReasoningHistory::Drop,
        count: count.map(Count),
        play: assay_manifest::SessionPlay::default(),
    };
    let work = ServingWork { arrival, sessions: Some(sessions), requests: None, duration_ns: None, warmup_ns: Count(0), ..work };
    (work, index)
}

fn of(work: &ServingWork, offered: OfferedLoad, index: &Arc<Index>) -> Result<TrialSchedule, ScheduleError> {
    let (workload, point) = (Digest::compute(b"workload"), point());
    let key = TrialKey { point: PointKey { seed: &SEED, workload: &workload, point: &point }, trial: 0, nonce: NONCE };
    TrialSchedule::new(work, offered, &key, Some(index))
}

fn replay(turns: &[TraceTurn], speed: f64) -> TrialSchedule {
    let (work, index) = trace(turns, ArrivalLaw::Recorded, None);
    of(&work, OfferedLoad::Replay { speed }, &index).expect("a schedule")
}

/// Session 7 begins first in the file, and session 5 before it in time. The pauses of session 7 are 200 - 0 - 50 = 150 ms, and 0 because the
/// third turn overlaps the second.
const TURNS: [TraceTurn; 5] = [(7, 100, Some(50)), (5, 20, None), (7, 300, Some(400)), (5, 90, None), (7, 500, Some(1))];

/// Session, turn, arrival, pause and planned time, in milliseconds, and tokens.
type Listed = (u64, u32, Option<i64>, u64, Option<u64>, u32);

/// Returns these of each request.
fn listed(schedule: &TrialSchedule) -> Vec<Listed> {
    let line = |request: ScheduledRequest| {
        let at = request.turn.expect("a turn");
        let arrival = request.offset_ns.map(|ns| ns / 1_000_000);
        (at.session, at.turn, arrival, at.pause_ns / MS, at.planned_ns.map(|ns| ns / MS), request.input_tokens)
    };
    schedule.requests(Phase::Measure).map(line).collect()
}

#[test]
fn sessions_come_as_they_began_with_their_pauses_and_times() {
    let expected = [
        (0, 0, Some(0), 0, Some(0), 2),
        (0, 1, None, 70, Some(70), 4),
        (1, 0, Some(80), 0, Some(0), 1),
        (1, 1, None, 150, Some(200), 3),
        (1, 2, None, 0, Some(400), 5),
    ];
    assert_eq!(listed(&replay(&TURNS, 1.0)), expected);
    // The speed divides arrivals, pauses and planned times.
    let faster = expected.map(|(session, turn, at, pause, planned, tokens)| {
        (session, turn, at.map(|at| at / 2), pause / 2, planned.map(|at| at / 2), tokens)
    });
    assert_eq!(listed(&replay(&TURNS, 2.0)), faster);
    assert_ne!(replay(&TURNS, 1.0).digest(), replay(&TURNS, 2.0).digest());
}

/// Two equal sessions of four turns: the first spawns a subagent of one turn, which the last joins, and one in the background.
fn forked() -> impl Iterator<Item = FileRow> {
    let stream = |parent, is_background, turns: &[(u32, i64)]| {
        let turns = turns.iter().map(|(number, at_ms)| row(*number, &(1, *at_ms, Some(10)))).collect();
        TraceStream { parent, is_background, turns, left_out: 0 }
    };
    let streams =
        vec![stream(None, false, &[(1, 0), (4, 100)]), stream(Some(0), false, &[(2, 20)]), stream(Some(0), true, &[(3, 40)])];
    (0..2).map(move |session| FileRow::Session(TraceSession { session, streams: streams.clone(), ..TraceSession::default() }))
}

#[test]
fn the_turns_of_subagents_are_streams_of_one_session_which_no_shard_splits() {
    let (work, index) = trace_of(forked(), ArrivalLaw::Closed, Some(2));
    let schedule = of(&work, OfferedLoad::Concurrency { users: 4 }, &index).expect("a schedule");
    assert_eq!(schedule.most_streams(), 3);
    let whole: Vec<ScheduledRequest> = schedule.requests(Phase::Measure).collect();
    let places: Vec<_> = whole[..4].iter().map(|request| request.turn.map(|at| (at.stream, at.pause_ns / MS))).collect();
    assert_eq!(places, [Some((Some(0), 0)), Some((Some(1), 10)), Some((Some(2), 30)), Some((Some(0), 70))]);
    let mut requests = schedule.requests(Phase::Measure);
    let session = requests.next_session().expect("a session");
    let mut followers = |turn| {
        let mut found: Vec<_> =
            requests.followers(&session, turn).iter().map(|next| (next.turn, next.pause_ns / MS, next.waits)).collect();
        found.sort_unstable();
        found
    };
    assert_eq!([0, 1, 2, 3].map(&mut followers), [vec![(1, 10, 1), (2, 30, 1), (3, 70, 2)], vec![(3, 70, 2)], vec![], vec![]]);
    // Turns may be drawn in any order.
    let at = |requests: &mut Requests, turn| {
        requests.next_turn(&mut session.at(turn)).map(|request| (request.global_index, request.row))
    };
    assert_eq!([3, 1].map(|turn| at(&mut requests, turn)), [Some((3, Some(3))), Some((1, Some(1)))]);
    for shards in [1, 3, 4] {
        let striped = |shard| schedule.shard_requests(Phase::Measure, Stripe::new(shard, shards).expect("a stripe"));
        let mut together: Vec<ScheduledRequest> = (0..shards).flat_map(striped).collect();
        together.sort_by_key(|request| request.global_index);
        assert_eq!(together, whole);
    }
    let sticky = ServingWork { connections: ConnectionPolicy::Sticky, ..work };
    let refused = of(&sticky, OfferedLoad::Concurrency { users: 4 }, &index).map(|_| ()).expect_err("refused").to_string();
    insta::assert_snapshot!(refused, @"the sessions cannot be drawn: sessions with subagents have several turns in flight, which cannot share one connection: `connections: pooled`");
}

#[test]
fn users_play_as_many_sessions_as_asked_for_and_none_twice() {
    let closed = |count| {
        let (work, index) = trace(&TURNS, ArrivalLaw::Closed, count);
        of(&work, OfferedLoad::Concurrency { users: 2 }, &index)
    };
    let one = closed(Some(1)).expect("a schedule");
    assert_eq!(listed(&one), [(0, 0, None, 0, Some(0), 2), (0, 1, None, 70, Some(70), 4)]);
    assert!(!one.has_open_length(Phase::Measure));
    assert_eq!(closed(Some(2)).expect("a schedule").requests(Phase::Measure).count(), 5);
    let refused = |count| closed(count).map(|_| ()).expect_err("refused").to_string();
    insta::assert_snapshot!(refused(Some(3)), @"the sessions cannot be drawn: the trace has 2, which are played once each, and the trial asks for 3");
    insta::assert_snapshot!(refused(None), @"the sessions cannot be drawn: a number of sessions ends a trial that plays those of a trace at a concurrency, unless they are recycled");
}

/// Returns the work as users play its sessions, for a second if they are recycled.
fn played(work: ServingWork, play: SessionPlay) -> ServingWork {
    let duration_ns = play.recycle.then_some(Count(1_000 * MS));
    let sessions = work.sessions.map(|sessions| Sessions { play, ..sessions });
    ServingWork { sessions, duration_ns, ..work }
}

const RECYCLED: SessionPlay = SessionPlay { recycle: true, start: None, warm_history: false, idle_cap_ns: None, marker: false };

#[test]
fn recycled_sessions_come_again_with_other_words_until_the_clock_ends_the_trial() {
    let (work, index) = trace(&TURNS, ArrivalLaw::Closed, None);
    let work = played(work, RECYCLED);
    let schedule = of(&work, OfferedLoad::Concurrency { users: 2 }, &index).expect("a schedule");
    assert!(schedule.has_open_length(Phase::Measure));
    let played: Vec<_> = schedule.requests(Phase::Measure).take(12).collect();
    let rows: Vec<_> = played.iter().map(|request| request.row.expect("a row")).collect();
    assert_eq!(rows, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
    let places: Vec<_> = played.iter().map(|request| request.turn.map(|at| (at.session, at.turn, at.pass))).collect();
    assert_eq!(places[4..8], [Some((1, 2, 0)), Some((2, 0, 1)), Some((2, 1, 1)), Some((3, 0, 1))]);
    let ids: BTreeSet<_> = played.iter().map(|request| (request.request_id, request.global_index)).collect();
    assert_eq!(ids.len(), 12, "each play is another request");
    let texts = schedule.block_texts();
    assert_ne!(texts.of_pass(0).block_seed(7), texts.of_pass(1).block_seed(7));
    let refused = |change: fn(&mut ServingWork)| {
        let mut work = work.clone();
        change(&mut work);
        of(&work, OfferedLoad::Concurrency { users: 2 }, &index).map(|_| ()).expect_err("refused").to_string()
    };
    insta::assert_snapshot!(refused(|work| work.duration_ns = None), @"the sessions cannot be drawn: a duration, and no number of sessions, ends a trial that recycles them");
    insta::assert_snapshot!(refused(|work| work.sessions.as_mut().expect("sessions").play.warm_history = true), @"the sessions cannot be drawn: sessions that begin with their first turn have no history to warm");
    let start = |from, to| Some(SessionStart { from, to });
    assert!([start(0.5, 0.4), start(-0.1, 0.4), start(0.1, 1.1), start(f64::NAN, 1.0)].into_iter().all(|start| {
        let work = played_from(&work, start);
        of(&work, OfferedLoad::Concurrency { users: 2 }, &index).is_err()
    }));
}

fn played_from(work: &ServingWork, start: Option<SessionStart>) -> ServingWork {
    played(work.clone(), SessionPlay { start, ..RECYCLED })
}

/// Three sessions: that of [`forked`], one of three turns at 0, 100 and 300 ms, and one of a turn.
fn three() -> impl Iterator<Item = FileRow> {
    let stream = |turns: &[(u32, i64)]| {
        let turns = turns.iter().map(|(number, at_ms)| row(*number, &(1, *at_ms, Some(10)))).collect();
        TraceStream { parent: None, is_background: false, turns, left_out: 0 }
    };
    let single = |session, turns: &[(u32, i64)]| {
        FileRow::Session(TraceSession { session, streams: vec![stream(turns)], ..TraceSession::default() })
    };
    forked().take(1).chain([single(7, &[(5, 0), (6, 100), (7, 300)]), single(8, &[(8, 0)])])
}

#[test]
fn users_begin_in_the_middle_of_their_first_sessions() {
    let (work, index) = trace_of(three(), ArrivalLaw::Closed, None);
    // A start at 15 % is at 15 ms of 100, and at 45 ms of 300. From there the next turns are 5 and 55 ms away, of which 5 are left out.
    let work = played_from(&work, Some(SessionStart { from: 0.15, to: 0.15 }));
    let schedule = of(&work, OfferedLoad::Concurrency { users: 2 }, &index).expect("a schedule");
    let mut requests = schedule.requests(Phase::Measure);
    let begins = |requests: &mut Requests| {
        let session = requests.next_session().expect("a session");
        let beginnings = requests.beginnings(&session);
        (session, beginnings.iter().map(|first| (first.turn, first.after_ns / MS)).collect::<Vec<_>>())
    };
    // The first subagent and the one in the background begin after the start. The last turn joins the first subagent, and the turn before it was before.
    let (forked, first) = begins(&mut requests);
    assert_eq!(first, [(1, 0), (2, 20)]);
    let followers = |requests: &mut Requests, session: &SessionCursor, turn| {
        requests.followers(session, turn).iter().map(|next| (next.turn, next.pause_ns / MS, next.waits)).collect::<Vec<_>>()
    };
    assert_eq!([1, 2, 3].map(|turn| followers(&mut requests, &forked, turn)), [vec![(3, 70, 1)], vec![], vec![]]);
    assert_eq!(requests.history_turns(&forked), [0], "the subagents have no history");
    let (single, first) = begins(&mut requests);
    assert_eq!((first, followers(&mut requests, &single, 1)), (vec![(1, 50)], vec![(2, 190, 1)]));
    assert_eq!(requests.history_turns(&single), [0]);
    // The third and all recycled ones begin with their first turns.
    for _ in 2..9 {
        let (session, first) = begins(&mut requests);
        assert_eq!((first, requests.history_turns(&session)), (vec![(0, 0)], vec![]));
    }
    // Session, turn, turns, pause and planned time.
    let listed = |request: ScheduledRequest| {
        let at = request.turn.expect("a turn");
        (at.session, at.turn, at.turns, at.pause_ns / MS, at.planned_ns.expect("a time") / MS)
    };
    let played: Vec<_> = schedule.requests(Phase::Measure).take(7).map(listed).collect();
    let expected = [
        (0, 1, 3, 0, 0),
        (0, 2, 3, 0, 20),
        (0, 3, 3, 70, 80),
        (1, 1, 2, 0, 50),
        (1, 2, 2, 190, 250),
        (2, 0, 1, 0, 0),
        (3, 0, 4, 0, 0),
    ];
    assert_eq!(played, expected);
    let other = played_from(&work, Some(SessionStart { from: 0.16, to: 0.16 }));
    let other = of(&other, OfferedLoad::Concurrency { users: 2 }, &index).expect("a schedule");
    assert_ne!(schedule.digest(), other.digest());
}

#[test]
fn shards_have_the_digest_of_one_however_sessions_are_played() {
    let (work, index) = trace_of(three(), ArrivalLaw::Closed, None);
    let work = played_from(&work, Some(SessionStart { from: 0.1, to: 0.9 }));
    let digest = || of(&work, OfferedLoad::Concurrency { users: 5 }, &index).expect("a schedule").digest();
    let whole = digest();
    assert!([1, 3, 4].into_iter().flat_map(|shards| 0..shards).all(|_| digest() == whole));
}

#[test]
fn a_subagent_that_is_live_at_the_start_goes_on_and_is_warmed() {
    // The subagent has turns at 20 and 60 ms, and the session joins it at 100 ms.
    let stream = |parent, turns: &[(u32, i64)]| {
        let turns = turns.iter().map(|(number, at_ms)| row(*number, &(1, *at_ms, Some(10)))).collect();
        TraceStream { parent, is_background: false, turns, left_out: 0 }
    };
    let streams = vec![stream(None, &[(1, 0), (4, 100), (5, 140)]), stream(Some(0), &[(2, 20), (3, 60)])];
    let rows = std::iter::once(FileRow::Session(TraceSession { session: 1, streams, ..TraceSession::default() }));
    let (work, index) = trace_of(rows, ArrivalLaw::Closed, Some(1));
    let sessions = work.sessions.clone().map(|sessions| Sessions {
        play: SessionPlay { start: Some(SessionStart { from: 0.25, to: 0.25 }), warm_history: true, ..SessionPlay::default() },
        ..sessions
    });
    let work = ServingWork { sessions, ..work };
    let schedule = of(&work, OfferedLoad::Concurrency { users: 4 }, &index).expect("a schedule");
    let mut requests = schedule.requests(Phase::Measure);
    let session = requests.next_session().expect("a session");
    // The start is at 35 ms: only the subagent's second turn waits for nothing, and all after it for that.
    assert_eq!(requests.beginnings(&session), [Beginning { turn: 2, after_ns: 0 }]);
    let followers: Vec<_> = requests.followers(&session, 2).iter().map(|next| (next.turn, next.waits)).collect();
    assert_eq!(followers, [(3, 1)]);
    assert_eq!(requests.history_turns(&session), [0, 1], "of the session and of the subagent");
    let warmed = requests.turn(&session, 1).expect("a turn");
    assert_eq!((warmed.row, warmed.input_tokens, warmed.global_index), (Some(1), 2, 1));
    assert_eq!(
        schedule.requests(Phase::Measure).filter_map(|request| request.turn).map(|at| at.turn).collect::<Vec<_>>(),
        [2, 3, 4]
    );
    assert_eq!(schedule.markers(), None);
    let mut marked = work.clone();
    marked.sessions.as_mut().expect("sessions").play.marker = true;
    let marked = of(&marked, OfferedLoad::Concurrency { users: 4 }, &index).expect("a schedule");
    let markers = marked.markers().expect("markers");
    assert_ne!(markers.seed(0), markers.seed(1));
    assert_eq!(marked.digest(), schedule.digest(), "a marker changes words, and no request");
}

#[test]
fn only_recorded_pauses_and_whole_prompts_are_played() {
    let refused = |change: fn(&mut Sessions)| {
        let (work, index) = trace(&TURNS, ArrivalLaw::Recorded, None);
        let mut sessions = work.sessions.expect("sessions");
        change(&mut sessions);
        let work = ServingWork { sessions: Some(sessions), ..work };
        of(&work, OfferedLoad::Replay { speed: 1.0 }, &index).map(|_| ()).expect_err("refused").to_string()
    };
    let drawn = refused(|sessions| sessions.think_time = PauseLaw::Fixed { ns: Count(1) });
    insta::assert_snapshot!(drawn, @"the requests of a trace, unless by its own sessions and pauses, cannot be sent as sessions");
    assert_eq!(refused(|sessions| sessions.history = History::Live), drawn);
}

#[test]
fn a_replay_of_sessions_has_something_to_measure_within_its_time() {
    let check = |warmup_ms: u64, limit_ms: u64| {
        let (work, index) = trace(&TURNS, ArrivalLaw::Recorded, None);
        let work = ServingWork { warmup_ns: Count(warmup_ms * MS), time_limit_ns: Count(limit_ms * MS), ..work };
        check_replay(&work, 1.0, &index).map_err(|error| error.to_string())
    };
    // The last turn is planned 400 ms after the start of its session at 80 ms.
    assert_eq!(check(480, 481), Ok(()));
    insta::assert_snapshot!(check(481, 1_000).expect_err("nothing"), @"at speed 1 the trace lasts 480.0ms, and no request of it is due in the measured phase, from 481.0ms on");
    insta::assert_snapshot!(check(0, 480).expect_err("too long"), @"at speed 1 the last request is due after 480.0ms, and `time_limit` is 480.0ms");
}

fn turns() -> impl Strategy<Value = Vec<TraceTurn>> {
    let turn = (0..6_u64, 0..50_i64, prop::option::of(0..40_u64));
    prop::collection::vec(turn, 1..40).prop_map(|turns| {
        // Turns of one time are told apart by their lengths.
        let mut at_ms = 0;
        turns
            .into_iter()
            .map(|(session, gap_ms, service_ms)| {
                at_ms += gap_ms;
                (session, at_ms, service_ms)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn shards_play_together_what_one_plays_and_split_no_session(turns in turns(), speed in prop::sample::select(vec![0.5, 1.0, 3.0])) {
        let schedule = replay(&turns, speed);
        let whole: Vec<ScheduledRequest> = schedule.requests(Phase::Measure).collect();
        prop_assert_eq!(whole.len(), turns.len());
        for shards in [1, 3, 4] {
            let mut together = Vec::new();
            for shard in 0..shards {
                let of_another = replay(&turns, speed);
                prop_assert_eq!(of_another.digest(), schedule.digest());
                let stripe = Stripe::new(shard, shards).expect("a stripe");
                let own: Vec<ScheduledRequest> = of_another.shard_requests(Phase::Measure, stripe).collect();
                prop_assert!(own.iter().all(|request| request.turn.is_some_and(|at| at.session % u64::from(shards) == u64::from(shard))));
                together.extend(own);
            }
            together.sort_by_key(|request| request.global_index);
            prop_assert_eq!(&together, &whole);
        }
        let rows: BTreeSet<_> = whole.iter().map(|request| request.row).collect();
        prop_assert_eq!(rows.len(), turns.len(), "each row once");
        let arrivals: Vec<i64> = whole.iter().filter_map(|request| request.offset_ns).collect();
        prop_assert!(arrivals.is_sorted());
    }

    #[test]
    fn shards_recycle_together_what_one_recycles_from_the_same_starts(turns in turns(), users in 1..6_u64, from in 0.0..1.0_f64) {
        const SESSIONS: u64 = 20;
        let (work, index) = trace(&turns, ArrivalLaw::Closed, None);
        let work = played_from(&work, Some(SessionStart { from, to: 1.0 }));
        let make = || of(&work, OfferedLoad::Concurrency { users }, &index).expect("a schedule");
        let schedule = make();
        let is_early = |request: &ScheduledRequest| request.turn.is_some_and(|at| at.session < SESSIONS);
        let whole: Vec<ScheduledRequest> = schedule.requests(Phase::Measure).take_while(is_early).collect();
        for shards in [1, 3, 4] {
            let mut together = Vec::new();
            for shard in 0..shards {
                let stripe = Stripe::new(shard, shards).expect("a stripe");
                together.extend(make().shard_requests(Phase::Measure, stripe).take_while(is_early));
            }
            together.sort_by_key(|request| request.global_index);
            prop_assert_eq!(&together, &whole);
        }
        let mut requests = schedule.requests(Phase::Measure);
        let mut first_ns = u64::MAX;
        for number in 0..SESSIONS {
            let session = requests.next_session().expect("a session");
            let beginnings = requests.beginnings(&session);
            prop_assert!(!beginnings.is_empty(), "something is sent of each session");
            if number < users {
                first_ns = first_ns.min(beginnings[0].after_ns);
            } else {
                prop_assert_eq!(beginnings, vec![Beginning { turn: 0, after_ns: 0 }]);
            }
        }
        prop_assert_eq!(first_ns, 0, "one user begins at once");
    }
}
