//! Users: each point of their grid has one turn, the same for any number of shards.

use std::collections::BTreeMap;

use assay_manifest::{History, PauseLaw, ReasoningHistory};

use super::tests::{NONCE, SEED, conversations, schedule, schedule_of, synthetic, work};
use super::*;

const SECOND: u64 = 1_000_000_000;

fn users(users: u64, per_s: f64) -> OfferedLoad {
    OfferedLoad::Users { users, per_s }
}

fn sessions(turns: Option<LengthLaw>) -> Sessions {
    Sessions {
        turns,
        think_time: PauseLaw::Fixed { ns: Count(0) },
        history: History::Recorded,
        reasoning: ReasoningHistory::Drop,
        count: None,
        play: assay_manifest::SessionPlay::default(),
    }
}

/// Returns sessions of that many turns, for 5 s of warm-up and 20 s after it.
fn talk(turns: LengthLaw) -> ServingWork {
    let (input, output) = (LengthLaw::Uniform { min: 10, max: 20 }, LengthLaw::Uniform { min: 3, max: 9 });
    ServingWork {
        arrival: ArrivalLaw::Users,
        prompts: synthetic(input),
        output: Some(output),
        sessions: Some(sessions(Some(turns))),
        requests: None,
        ..work()
    }
}

fn place(request: &ScheduledRequest) -> SessionTurn {
    request.turn.expect("a turn")
}

#[test]
fn three_users_at_one_and_a_half_turns_a_second() {
    let work = ServingWork { warmup_ns: Count(0), duration_ns: Some(Count(7 * SECOND)), ..talk(LengthLaw::Fixed { tokens: 3 }) };
    let line = |request: ScheduledRequest| {
        let at = place(&request);
        let ms = request.offset_ns.expect("a time") / 1_000_000;
        (request.global_index, ms, request.global_index % 3, at.session, format!("{}/{}", at.turn, at.turns))
    };
    let found: Vec<_> = schedule(&work, users(3, 1.5)).requests(Phase::Measure).map(line).collect();
    // Every 2/3 s a turn, and every 2 s one of each user. The seed leaves the users 1, 3 and 2 turns of their first sessions.
    let expected = [
        (0, 0, 0, 0, "0/1"),
        (1, 666, 1, 1, "0/3"),
        (2, 1_333, 2, 2, "0/2"),
        (3, 2_000, 0, 3, "0/3"),
        (4, 2_666, 1, 1, "1/3"),
        (5, 3_333, 2, 2, "1/2"),
        (6, 4_000, 0, 3, "1/3"),
        (7, 4_666, 1, 1, "2/3"),
        (8, 5_333, 2, 5, "0/3"),
        (9, 6_000, 0, 3, "2/3"),
        (10, 6_666, 1, 4, "0/3"),
    ];
    assert_eq!(found, expected.map(|(index, ms, user, session, turn)| (index, ms, user, session, turn.to_owned())));
}

#[test]
fn the_offered_rate_is_the_rate() {
    for (count, per_s) in [(1, 4.0), (7, 3.0), (15, 12.4), (400, 10.0)] {
        let all: Vec<i64> = schedule(&talk(LengthLaw::Uniform { min: 1, max: 9 }), users(count, per_s))
            .requests(Phase::Measure)
            .filter_map(|request| request.offset_ns)
            .collect();
        assert!(all.is_sorted());
        let measured = all.iter().filter(|at_ns| (5..25).contains(&(**at_ns / 1_000_000_000))).count();
        // 5 s and 20 s hold a whole number of gaps at these rates, so that their ends make no difference.
        assert_eq!((all.len(), measured), ((25.0 * per_s) as usize, (20.0 * per_s) as usize), "{count} users, {per_s}/s");
    }
}

#[test]
fn turns_of_a_session_follow_one_another_and_sessions_of_a_user_too() {
    let schedule = schedule(&talk(LengthLaw::Uniform { min: 1, max: 5 }), users(4, 20.0));
    let mut by_session: BTreeMap<u64, (u32, u32, u32)> = BTreeMap::new();
    let mut by_user: BTreeMap<u64, Vec<SessionTurn>> = BTreeMap::new();
    for (index, request) in (0..).zip(schedule.requests(Phase::Measure)) {
        let at = place(&request);
        assert_eq!((request.global_index, at.session % 4, at.pause_ns, at.planned_ns), (index, index % 4, 0, None));
        let (turn, said, sent) = by_session.get(&at.session).copied().unwrap_or_default();
        assert_eq!((at.turn, request.input_tokens, at.sent_before), (turn, said + at.own_tokens, sent));
        let said = request.input_tokens + request.output_tokens.expect("a length");
        by_session.insert(at.session, (turn + 1, said, request.input_tokens));
        by_user.entry(index % 4).or_default().push(at);
    }
    for (user, turns) in by_user {
        let firsts: Vec<u64> = turns.iter().filter(|at| at.turn == 0).map(|at| at.session).collect();
        assert!(firsts.iter().copied().eq((0..firsts.len() as u64).map(|played| user + 4 * played)), "{firsts:?}");
        for pair in turns.windows(2) {
            assert_eq!(pair[1].turn == 0, pair[0].turn + 1 == pair[0].turns, "{pair:?}");
        }
    }
}

#[test]
fn any_copy_draws_the_turns_of_a_user() {
    let schedule = schedule(&talk(LengthLaw::Uniform { min: 1, max: 5 }), users(4, 20.0));
    let expected: Vec<_> = schedule.requests(Phase::Measure).collect();
    let (mut first, mut later) = (schedule.requests(Phase::Measure), schedule.requests(Phase::Measure));
    let mut found = Vec::new();
    let begun = std::iter::from_fn(|| first.next_session()).collect::<Vec<_>>();
    assert_eq!(begun.iter().map(SessionCursor::session).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for cursor in begun {
        let mut next = Some(cursor);
        while let Some(mut cursor) = next {
            assert_eq!(later.planned_ns(&cursor), expected.get(found.len()).and(later.planned_ns(&cursor)));
            let mut turn = 0;
            while let Some(request) = later.next_turn(&mut cursor) {
                let followers = later.followers(&cursor, turn);
                let planned = later.planned_ns(&cursor).filter(|_| cursor.next_turn() < cursor.turns());
                let expected = planned.map(|at_ns| Follower { turn: turn + 1, pause_ns: 0, waits: 1, planned_ns: Some(at_ns) });
                assert_eq!(followers, expected.into_iter().collect::<Vec<_>>());
                found.push(request);
                turn += 1;
            }
            next = later.successor(&cursor);
        }
    }
    found.sort_by_key(|request| request.global_index);
    assert_eq!(found, expected);
}

proptest::proptest! {
    #[test]
    fn a_shard_more_changes_nothing(count in 1_u64..12, shards in 1_u32..6, most in 1_u32..7) {
        let schedule = schedule(&talk(LengthLaw::Uniform { min: 1, max: most }), users(count, 9.0));
        let whole: Vec<_> = schedule.requests(Phase::Measure).collect();
        let mut together = Vec::new();
        for index in 0..shards {
            let stripe = schedule.stripe(Shard { index, count: shards }).expect("a stripe");
            let own = stripe.map(|stripe| schedule.shard_requests(Phase::Measure, stripe).collect::<Vec<_>>()).unwrap_or_default();
            let is_own = |request: &ScheduledRequest| {
                request.global_index % count % u64::from(shards.min(u32::try_from(count).expect("few"))) == u64::from(index)
            };
            proptest::prop_assert!(own.iter().all(is_own));
            together.extend(own);
        }
        together.sort_by_key(|request| request.global_index);
        proptest::prop_assert_eq!(together, whole);
    }
}

#[test]
fn the_digest_is_that_of_the_users_and_the_rate() {
    let digest = |offered| schedule(&talk(LengthLaw::Fixed { tokens: 4 }), offered).digest();
    let base = digest(users(6, 2.0));
    assert_eq!(base, digest(users(6, 2.0)));
    assert_ne!(base, digest(users(5, 2.0)));
    assert_ne!(base, digest(users(6, 2.5)));
    let other = schedule_of(&talk(LengthLaw::Fixed { tokens: 4 }), users(6, 2.0), &Seed::new([8; 32]), 3, NONCE);
    assert_ne!(base, other.expect("a schedule").digest(), "the seed decides what is left of first sessions");
}

#[test]
fn users_play_the_conversations_of_a_dataset() {
    let (work, index) = conversations(40);
    let work = ServingWork { arrival: ArrivalLaw::Users, sessions: Some(sessions(None)), requests: None, ..work };
    let workload = Digest::compute(b"workload");
    let point = super::tests::point();
    let key = TrialKey { point: PointKey { seed: &SEED, workload: &workload, point: &point }, trial: 0, nonce: NONCE };
    let schedule = TrialSchedule::new(&work, users(5, 8.0), &key, Some(&index)).expect("a schedule");
    let mut first_rows: BTreeMap<u64, u64> = BTreeMap::new();
    let mut count = 0;
    for request in schedule.requests(Phase::Measure) {
        let at = place(&request);
        let row = request.row.expect("a row");
        let first = *first_rows.entry(at.session).or_insert(row);
        assert_eq!(row, first + u64::from(at.turn));
        count += 1;
    }
    assert_eq!(count, 200, "25 s at 8 a second");
}

#[test]
fn what_users_cannot_do_is_refused() {
    let refused =
        |work: &ServingWork, offered| schedule_of(work, offered, &SEED, 0, NONCE).map(drop).expect_err("none").to_string();
    let of = |change: fn(&mut ServingWork)| {
        let mut work = talk(LengthLaw::Fixed { tokens: 4 });
        change(&mut work);
        refused(&work, users(3, 1.0))
    };
    let why = |why: &str| format!("the turns of users cannot follow a grid: {why}");
    assert_eq!(of(|work| work.sessions = None), why("their requests are not turns of sessions"));
    let paused = of(|work| {
        work.sessions =
            Some(Sessions { think_time: PauseLaw::Fixed { ns: Count(1) }, ..sessions(Some(LengthLaw::Fixed { tokens: 4 })) });
    });
    assert_eq!(paused, why("it takes the place of a think time"));
    let counted = of(|work| {
        let counted = Sessions { count: Some(Count(3)), ..sessions(Some(LengthLaw::Fixed { tokens: 4 })) };
        *work = ServingWork { sessions: Some(counted), duration_ns: None, warmup_ns: Count(0), ..work.clone() };
    });
    assert_eq!(counted, why("a number of sessions would end them one by one"));
    assert_eq!(of(|work| work.duration_ns = None), "the trial has no end: give it a number of requests, a duration, or both");
    let work = talk(LengthLaw::Fixed { tokens: 4 });
    assert_eq!(refused(&work, users(0, 1.0)), "a load of users needs at least one");
    assert_eq!(refused(&work, users(3, 0.0)), "0 arrivals a second are not between 0.0001 and 10000000");
    let rate = OfferedLoad::Rate { per_s: 1.0 };
    assert_eq!(refused(&work, rate), "the arrivals are those of users with a grid, but the point offers a load without users");
    let open = ServingWork { arrival: ArrivalLaw::Poisson, ..work };
    assert_eq!(refused(&open, users(3, 1.0)), "the arrivals are not those of users, but the point offers a number of users");
}
