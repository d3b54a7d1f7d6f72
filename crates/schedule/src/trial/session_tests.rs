//! Sessions: the same ones for any number of shards, whole, and with what was said before in their lengths.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{History, PauseLaw, ReasoningHistory};

use super::tests::{NONCE, RATE, SEED, USERS, closed, conversations, dataset_schedule, schedule, schedule_of, synthetic, work};
use super::*;
use crate::MAX_PAUSE_NS;

const SECOND: u64 = 1_000_000_000;

fn sessions() -> Sessions {
    Sessions {
        turns: Some(LengthLaw::Uniform { min: 1, max: 5 }),
        think_time: PauseLaw::Exponential { mean_ns: Count(2 * SECOND) },
        history: History::Recorded,
        reasoning: ReasoningHistory::Drop,
        count: None,
        play: assay_manifest::SessionPlay::default(),
    }
}

fn talk(sessions: Sessions) -> ServingWork {
    let (input, output) = (LengthLaw::Uniform { min: 10, max: 20 }, LengthLaw::Uniform { min: 3, max: 9 });
    ServingWork { prompts: synthetic(input), output: Some(output), sessions: Some(sessions), requests: None, ..work() }
}

fn place(request: &ScheduledRequest) -> SessionTurn {
    request.turn.expect("a turn")
}

#[test]
fn a_turn_is_as_long_as_all_that_was_said_before_and_itself() {
    let counted = talk(Sessions { count: Some(Count(50)), ..sessions() });
    let schedule = schedule(&closed(ServingWork { duration_ns: None, warmup_ns: Count(0), ..counted }), USERS);
    assert!(schedule.requests(Phase::WarmUp).next().is_none(), "sessions are one sequence");
    let mut said: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    for (index, request) in (0..).zip(schedule.requests(Phase::Measure)) {
        let at = place(&request);
        assert_eq!((request.global_index, request.offset_ns), (index, None));
        let (turn, before) = said.get(&at.session).copied().unwrap_or_default();
        assert_eq!((at.turn, request.input_tokens), (turn, before + at.own_tokens));
        assert!((10..=20).contains(&at.own_tokens), "{at:?}");
        assert_eq!(at.pause_ns == 0, turn == 0, "{at:?}");
        said.insert(at.session, (turn + 1, request.input_tokens + request.output_tokens.expect("a length")));
    }
    assert!(said.keys().copied().eq(0..50), "{said:?}");
    assert_eq!(said.values().map(|(turns, _)| *turns).collect::<BTreeSet<_>>(), (1..=5).collect());
}

#[test]
fn shards_play_together_what_one_plays_and_split_no_session() {
    let open = talk(sessions());
    let closed = closed(talk(sessions()));
    for (work, offered) in [(&open, RATE), (&closed, USERS)] {
        let schedule = schedule(work, offered);
        let whole: Vec<ScheduledRequest> = schedule.requests(Phase::Measure).take(500).collect();
        let end = whole.last().map_or(0, |last| place(last).session);
        let whole: Vec<_> = whole.into_iter().filter(|request| place(request).session < end).collect();
        assert!(whole.len() > 300, "{}", whole.len());
        for shards in [3, 4] {
            let mut together = Vec::new();
            for shard in 0..shards {
                let stripe = Stripe::new(shard, shards).expect("a stripe");
                let own = schedule.shard_requests(Phase::Measure, stripe).take_while(|request| place(request).session < end);
                let own: Vec<ScheduledRequest> = own.collect();
                assert!(own.iter().all(|request| place(request).session % u64::from(shards) == u64::from(shard)));
                together.extend(own);
            }
            together.sort_by_key(|request| request.global_index);
            assert_eq!(together, whole);
        }
    }
}

#[test]
fn any_copy_draws_the_turns_of_a_session() {
    let schedule = schedule(&closed(talk(sessions())), USERS);
    let expected: Vec<_> = schedule.requests(Phase::Measure).take(40).collect();
    let (mut first, mut later) = (schedule.requests(Phase::Measure), schedule.requests(Phase::Measure));
    let mut found = Vec::new();
    while found.len() < 40 {
        let mut cursor = first.next_session().expect("a session");
        found.extend(first.next_turn(&mut cursor));
        found.extend(std::iter::from_fn(|| later.next_turn(&mut cursor)));
        assert_eq!(cursor.next_turn(), cursor.turns());
    }
    found.truncate(40);
    assert_eq!(found, expected);
    assert_eq!(schedule.request(Phase::Measure, 17), Some(expected[17]));
}

#[test]
fn sessions_arrive_from_the_start_of_the_trial_to_its_end() {
    let schedule = schedule(&talk(sessions()), RATE);
    let first: Vec<i64> = schedule.requests(Phase::Measure).filter_map(|request| request.offset_ns).collect();
    assert!(first.is_sorted() && first[0] < i64::try_from(SECOND).expect("small"), "{}", first[0]);
    // 40 sessions a second for 5 s of warm-up and 20 s: 1,000, whose standard deviation is 31.6.
    assert!((first.len() as f64 - 1_000.0).abs() < 130.0, "{}", first.len());
    assert!(first.last().is_some_and(|last| *last < 25 * i64::try_from(SECOND).expect("small")));
}

#[test]
fn pauses_have_the_means_of_their_laws() {
    let mean_of = |think_time, turns: usize| {
        let work = closed(talk(Sessions { turns: Some(LengthLaw::Fixed { tokens: 1_000 }), think_time, ..sessions() }));
        let requests = schedule(&work, USERS).requests(Phase::Measure).take(turns);
        let later = requests.filter(|request| place(request).turn > 0);
        let pauses: Vec<u64> = later.map(|request| place(&request).pause_ns).collect();
        pauses.iter().map(|pause| *pause as f64 / 1e9).sum::<f64>() / pauses.len() as f64
    };
    let [ns, min_ns, max_ns] = [Count(SECOND), Count(SECOND), Count(3 * SECOND)];
    assert!((mean_of(PauseLaw::Fixed { ns }, 100) - 1.0).abs() < 1e-12);
    // Four standard errors of 20,000 pauses: 2 s / sqrt(12), 1 s and 2 s, each / sqrt(20,000).
    assert!((mean_of(PauseLaw::Uniform { min_ns, max_ns }, 20_000) - 2.0).abs() < 0.017);
    assert!((mean_of(PauseLaw::Exponential { mean_ns: ns }, 20_000) - 1.0).abs() < 0.029);
    let spread = PauseLaw::Lognormal { mean_ns: ns, stddev_ns: Count(2 * SECOND) };
    assert!((mean_of(spread, 20_000) - 1.0).abs() < 0.057);
}

#[test]
fn history_pauses_and_turns_are_part_of_the_schedule() {
    let digest = |sessions: Sessions| schedule(&closed(talk(sessions)), USERS).digest();
    let base = digest(sessions());
    assert_eq!(base, digest(sessions()));
    let other_pauses = Sessions { think_time: PauseLaw::Exponential { mean_ns: Count(SECOND) }, ..sessions() };
    let other_turns = Sessions { turns: Some(LengthLaw::Uniform { min: 1, max: 6 }), ..sessions() };
    assert!([other_pauses, other_turns].into_iter().all(|other| digest(other) != base));
}

#[test]
fn what_cannot_be_sessions_is_refused() {
    let refused =
        |work: ServingWork| schedule_of(&work, USERS, &SEED, 0, NONCE).map(|_| ()).expect_err("no schedule").to_string();
    let with = |sessions: Sessions| closed(talk(sessions));
    let no_turn = with(Sessions { turns: Some(LengthLaw::Fixed { tokens: 0 }), ..sessions() });
    assert_eq!(refused(no_turn), "the sessions cannot be drawn: a session needs at least one turn");
    let many = with(Sessions { turns: Some(LengthLaw::Uniform { min: 1, max: 1_001 }), ..sessions() });
    assert_eq!(refused(many), "the sessions cannot be drawn: 1001 turns are more than 1000");
    let long = with(Sessions { think_time: PauseLaw::Fixed { ns: Count(MAX_PAUSE_NS + 1) }, ..sessions() });
    assert_eq!(refused(long), "the sessions cannot be drawn: a pause of 86400000000001 ns is longer than a day");
    let crossed = PauseLaw::Uniform { min_ns: Count(2), max_ns: Count(1) };
    let crossed = with(Sessions { think_time: crossed, ..sessions() });
    assert_eq!(
        refused(crossed),
        "the sessions cannot be drawn: the upper bound of a pause, 1 ns, lies below its lower bound, 2 ns"
    );
    let long_talk = LengthLaw::Fixed { tokens: 20_000 };
    let long_talk = ServingWork {
        prompts: synthetic(long_talk),
        ..with(Sessions { turns: Some(LengthLaw::Fixed { tokens: 1_000 }), ..sessions() })
    };
    assert_eq!(
        refused(long_talk),
        "the sessions cannot be drawn: all that is said in a session of the mean length is more than a prompt may have"
    );
    let warm = ServingWork { duration_ns: None, ..with(Sessions { count: Some(Count(3)), ..sessions() }) };
    assert_eq!(refused(warm), "the sessions cannot be drawn: a number of sessions leaves no time for a warm-up");
    let both = "the sessions cannot be drawn: either a duration or a number of sessions ends a trial of them";
    assert_eq!(refused(with(Sessions { count: Some(Count(3)), ..sessions() })), both);
    assert_eq!(refused(ServingWork { requests: Some(Count(3)), ..with(sessions()) }), both);
}

#[test]
fn conversations_are_whole_in_every_shard_and_each_is_played_before_any_is_repeated() {
    let (work, index) = conversations(40);
    assert!((work.mean_turns() - 2.5).abs() < 1e-12);
    let recorded = Sessions { turns: None, ..sessions() };
    let work = ServingWork { sessions: Some(recorded), requests: None, ..work };
    let schedule = dataset_schedule(&work, 0, Some(&index)).expect("a schedule");
    let all: Vec<ScheduledRequest> = schedule.requests(Phase::Measure).collect();
    let mut played: BTreeMap<u64, Vec<ScheduledRequest>> = BTreeMap::new();
    for request in &all {
        played.entry(place(request).session).or_default().push(*request);
    }
    for turns in played.values() {
        let first = turns[0].row.expect("a row");
        for (turn, request) in (0_u32..).zip(turns) {
            let at = place(request);
            // The person's message, and before it as many messages and responses as there were turns.
            let expected = (at.turn, at.own_tokens, request.input_tokens, request.output_tokens, request.row);
            assert_eq!(expected, (turn, 10, 10 + 13 * turn, Some(3), Some(first + u64::from(turn))));
        }
        assert_eq!(turns.len(), place(&turns[0]).turns as usize);
    }
    assert!(played.len() > 80, "{}", played.len());
    let firsts = |from: u64| (from..from + 40).map(|session| played[&session][0].row).collect::<BTreeSet<_>>();
    assert!(firsts(0).len() == 40 && firsts(0) == firsts(40), "each once, and then again");
    let other = dataset_schedule(&work, 1, Some(&index)).expect("a schedule").requests(Phase::Measure).next().expect("a turn");
    assert_ne!((other.row, other.offset_ns), (all[0].row, all[0].offset_ns), "each trial has an order of its own");
    for shards in [3, 4] {
        let shard = |shard| schedule.shard_requests(Phase::Measure, Stripe::new(shard, shards).expect("a stripe"));
        let mut together: Vec<ScheduledRequest> = (0..shards).flat_map(shard).collect();
        together.sort_by_key(|request| request.global_index);
        assert_eq!(together, all);
    }
    let one_by_one = dataset_schedule(&ServingWork { sessions: Some(sessions()), ..work }, 0, Some(&index))
        .map(|_| ())
        .expect_err("two numbers");
    assert_eq!(
        one_by_one.to_string(),
        "the sessions cannot be drawn: drawn sessions need a number of turns, and those of a dataset have their own"
    );
}
