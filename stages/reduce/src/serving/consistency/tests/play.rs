//! Sessions that are recycled, that begin in their middle, and whose idle time is cut.

use super::forks::forked_and_played;
use super::*;

/// Sessions of seven turns that are recycled for two seconds. Those with which users begin do so between a tenth and a half of their length.
fn from_middle(users: u64, shards: u32) -> Load {
    let play = json!({"recycle": true, "start": {"from": 0.1, "to": 0.5}, "warm_history": true});
    forked_and_played(4, users, shards, &json!({"duration_ns": "2000000000", "sessions": {"play": play}}))
}

/// Returns the number of turns that shards send before the trial, and those of each shard.
fn warmed(load: &Load, users: u64) -> Vec<u64> {
    let shards = u32::try_from(load.shards.len()).expect("few");
    let of_shard = |index| {
        let stripe = Stripe::new(index, shards).expect("a shard");
        let mut requests = load.schedule.shard_requests(PlannedPhase::Measure, stripe);
        let sessions: Vec<SessionCursor> = (0..stripe.share(users)).map_while(|_| requests.next_session()).collect();
        sessions.iter().map(|session| requests.history_turns(session).len() as u64).sum()
    };
    (0..shards).map(of_shard).collect()
}

/// Checks records of shards of which each states its turns before the trial.
fn check_warmed(load: &Load, users: u64) -> Result<(), String> {
    let next = std::cell::Cell::new(0);
    let warmed = warmed(load, users);
    load.check_changed(|serving| serving.warmed_turns = Some(Count(warmed[next.replace(next.get() + 1)])))
}

#[test]
fn sessions_that_begin_in_their_middle_and_come_again_are_taken() {
    for (users, shards) in [(1, 1), (3, 1), (3, 3), (4, 3)] {
        let load = from_middle(users, shards);
        let all: Vec<&Record> = load.shards.iter().flatten().collect();
        let first = all.iter().filter(|one| one.session < Some(users));
        assert!(first.clone().all(|one| one.turn > Some(0)), "a later turn is the first");
        assert!(all.iter().any(|one| one.session >= Some(4) && one.turn == Some(0)), "all sessions came again, from their start");
        assert!(warmed(&load, users).iter().sum::<u64>() >= users);
        assert_eq!(check_warmed(&load, users), Ok(()), "{users} users, {shards} shards");
    }
}

#[test]
fn other_starts_and_other_turns_before_the_trial_are_refused() {
    let lies: [RecordChange; 4] = [
        (
            "a turn before the start",
            |all| {
                let first = all.iter_mut().find(|one| one.session == Some(0)).expect("a turn");
                (first.turn, first.global_index) = (Some(0), 0);
            },
            "turns before it are missing",
        ),
        ("a start of its own", |all| all[0].session_start_ns = all[0].session_start_ns.map(|at| at + 1), "another start"),
        ("due later", |all| all[0].intended_ns = all[0].intended_ns.map(|at| at + 1), "another time than"),
        ("one session less", |all| all.retain(|one| one.session != Some(0)), "turn"),
    ];
    for (what, lie, found_text) in lies {
        let mut load = from_middle(2, 1);
        lie(&mut load.shards[0]);
        let found = check_warmed(&load, 2).expect_err(what);
        assert!(found.contains(found_text), "{what}: {found}");
    }
    let load = from_middle(2, 1);
    let more = load.check_changed(|serving| serving.warmed_turns = Some(Count(99))).expect_err("more turns");
    assert!(more.contains("execute states 99 turns before the trial"), "{more}");
    assert!(load.check().expect_err("no turns").contains("execute states no turns before the trial"));
}

/// The idle cap of the tests.
const CAP_MS: i64 = 60;

/// Sessions with an idle cap, and the idle time that was cut. To cut idle time is to leave it out of the time of all.
fn capped(users: u64) -> (Load, i64) {
    let play = json!({"idle_cap_ns": (CAP_MS * MS).to_string()});
    let mut load = forked_and_played(6, users, 1, &json!({"sessions": {"count": "6", "play": play}}));
    let all = &mut load.shards[0];
    all.sort_by_key(|one| one.intended_ns);
    let (mut cuts, mut latest): (Vec<(i64, i64)>, i64) = (Vec::new(), 0);
    for one in all.iter() {
        let idle = one.intended_ns.expect("due") - latest;
        if idle > CAP_MS * MS {
            cuts.push((latest, idle - CAP_MS * MS));
        }
        latest = latest.max(one.end_ns.expect("an end"));
    }
    let before = |at: i64| cuts.iter().filter(|(cut_at, _)| *cut_at < at).map(|(_, cut)| cut).sum::<i64>();
    for one in all.iter_mut() {
        let (due, start) = (one.intended_ns.expect("due"), one.session_start_ns.expect("a start"));
        let [cut, cut_at_start] = [before(due), before(start)];
        bring_forward(one, cut);
        one.session_start_ns = Some(start - cut_at_start);
        one.session_pauses_ns = one.session_pauses_ns.map(|pauses| pauses - (cut - cut_at_start));
    }
    all.sort_by_key(|one| one.end_ns);
    let total = cuts.iter().map(|(_, cut)| cut).sum();
    (load, total)
}

/// Lets a turn be due, sent and responded to earlier.
fn bring_forward(one: &mut Record, by_ns: i64) {
    let times = [
        &mut one.intended_ns,
        &mut one.dequeued_ns,
        &mut one.sent_ns,
        &mut one.first_byte_ns,
        &mut one.first_token_ns,
        &mut one.first_content_ns,
        &mut one.last_token_ns,
        &mut one.end_ns,
        &mut one.planned_ns,
    ];
    times.into_iter().flatten().for_each(|at| *at -= by_ns);
}

fn check_capped((load, cut): &(Load, i64)) -> Result<(), String> {
    load.check_changed(|serving| serving.idle_cut_ns = Some(Count(cut.unsigned_abs())))
}

#[test]
fn idle_time_is_cut_to_the_cap_for_all_sessions_alike() {
    for users in [1, 2] {
        let honest = capped(users);
        assert!(honest.1 > 0, "there was idle time");
        assert_eq!(check_capped(&honest), Ok(()), "{users} users");
    }
    // Without a cap the same records contradict their schedule, and with it those without cuts.
    let (mut load, _) = capped(1);
    let sum = load.check_changed(|serving| serving.idle_cut_ns = Some(Count(1))).expect_err("another sum");
    assert!(sum.contains("execute states 1 nanoseconds of idle time that was cut"), "{sum}");
    load.work.sessions.as_mut().expect("sessions").play.idle_cap_ns = None;
    assert!(load.check().expect_err("no cap").contains("another planned time"));
    let uncut =
        forked_and_played(6, 1, 1, &json!({"sessions": {"count": "6", "play": {"idle_cap_ns": (CAP_MS * MS).to_string()}}}));
    let found = check_capped(&(uncut, 0)).expect_err("idle for too long");
    assert!(found.contains("longer than the idle cap"), "{found}");
}

#[test]
fn idle_time_that_is_cut_where_there_is_none_is_refused() {
    // All turns of the last session from one on which no other session is in flight come earlier.
    let (mut load, cut) = capped(1);
    let last = load.shards[0].iter().filter_map(|one| one.session).max();
    let moved = |one: &&mut Record| one.session == last && one.turn > Some(0);
    for one in load.shards[0].iter_mut().filter(moved) {
        bring_forward(one, MS);
        one.session_pauses_ns = one.session_pauses_ns.map(|pauses| pauses - MS);
    }
    let found = check_capped(&(load, cut)).expect_err("cut without idle time");
    assert!(found.contains("states that waiting turns had come earlier by"), "{found}");
}
