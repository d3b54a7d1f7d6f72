//! Users over the real binaries: their turns come at the points of their grid, the same for any number of shards, one at a time for each user, and a slow
//! endpoint makes them late without moving one.

use std::collections::{BTreeMap, BTreeSet};

use assay_record::{Outcome, Phase, Record};
use serde_json::json;

use crate::pipeline::{list, text};
use crate::serving;
use crate::support::{Fixture, PIPELINE};
use crate::trace_sessions;
use crate::traces::{metric, records};

const MS: i64 = 1_000_000;

/// Writes a workload of three users whose turns add 20 tokens, and commits it with its pipeline.
fn talks(fixture: &Fixture, rate: u32, output: u32, sessions: &str, more: &str) {
    let load = format!("mode: users, users: [3], rate: [{rate}], duration: 1s, warmup: 500ms");
    let fields = format!("  batching_policy: none\n  load: {{{load}}}\n  lengths: D(20,{output})\n  sessions: {{{sessions}}}\n");
    serving::workload_of(fixture, "talks", &fields);
    let target = "{name: sim, kind: simulator, config: {profile: fast}}";
    fixture.write(PIPELINE, &serving::pipeline(&["talks"], &[target], 1, serving::RETRY_BUDGET, more));
    fixture.commit("talks");
}

/// Returns the records of the attempt that counts, by user, in the order of their planned times.
fn turns_of_users(fixture: &Fixture, run_id: &str) -> BTreeMap<u64, Vec<Record>> {
    let mut users: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in records(fixture, run_id).pop().expect("an attempt") {
        users.entry(record.session.expect("a session") % 3).or_default().push(record);
    }
    for turns in users.values_mut() {
        turns.sort_by_key(|turn| turn.planned_ns);
    }
    users
}

/// Checks that the turns of a user follow one another, each at its point of a grid of `rate` turns a second or at the end of the one before.
fn check_user(user: u64, turns: &[Record], rate: i64) {
    let mut free_ns = 0;
    for (step, turn) in (0..).zip(turns) {
        let point = user + 3 * step;
        let planned_ns = (2 * i64::try_from(point).expect("few") * 1_000 * MS + rate) / (2 * rate);
        assert_eq!((turn.global_index, turn.planned_ns), (point, Some(planned_ns)), "{turn:?}");
        assert_eq!(turn.intended_ns, Some(planned_ns.max(free_ns)), "{turn:?}");
        assert!(turn.sent_ns >= turn.intended_ns && turn.outcome == Outcome::Ok, "{turn:?}");
        assert_eq!(turn.phase, if planned_ns < 500 * MS { Phase::Warmup } else { Phase::Measured });
        free_ns = turn.end_ns.expect("an end");
    }
    for pair in turns.windows(2) {
        let next = (pair[1].session.expect("a session"), pair[1].turn.expect("a turn"));
        let (session, turn) = (pair[0].session.expect("a session"), pair[0].turn.expect("a turn"));
        let ends = pair[0].session_turns == Some(turn + 1);
        assert_eq!(next, if ends { (session + 3, 0) } else { (session, turn + 1) });
    }
}

#[test]
fn users_send_a_turn_at_each_point_of_their_grid_in_any_number_of_shards() {
    let fixture = Fixture::bare();
    let mut schedules = BTreeSet::new();
    let mut every_turn_in_time = BTreeMap::new();
    for (run_id, shards) in [("one", ""), ("three", "  shards: 3\n"), ("four", "  shards: 4\n")] {
        talks(&fixture, 30, 4, "turns: {uniform: {min: 2, max: 5}}", shards);
        fixture.run(run_id).success();
        fixture.verify_recomputed(run_id);
        schedules.extend(trace_sessions::schedules(&fixture, run_id));
        let users = turns_of_users(&fixture, run_id);
        for (user, turns) in &users {
            check_user(*user, turns, 30);
        }
        // 30 a second, for 0.5 s and 1 s.
        let all = users.values().flatten();
        let measured = all.clone().filter(|turn| turn.phase == Phase::Measured).count();
        assert_eq!((all.clone().count(), measured), (45, 30), "{run_id}");
        let point = "users-3-rate-30";
        let sent: BTreeSet<i64> =
            all.clone().filter(|turn| turn.phase == Phase::Measured).filter_map(|turn| turn.sent_ns).collect();
        let span_ns = sent.last().expect("turns") - sent.first().expect("turns");
        let offered = 29.0 / (span_ns as f64 / 1e9);
        assert!((metric(&fixture, run_id, point, "offered_rate_per_s") / offered - 1.0).abs() < 1e-9, "{run_id}: {offered}");
        let in_time = all.clone().all(|turn| turn.intended_ns == turn.planned_ns);
        assert!(!in_time || metric(&fixture, run_id, point, "back_pressure_ms_p50").abs() < 1e-9, "{run_id}");
        every_turn_in_time.insert(run_id, in_time);
    }
    assert_eq!(schedules.len(), 1, "{schedules:?}");
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["3 users, 30 req/s", "users: each plays one session after the other, with a gap of users / rate between its turns"]
    {
        assert!(words.contains(part), "`{part}` in {shown}");
    }
    assert!(!every_turn_in_time["one"] || !words.contains("turns were due after the times"), "none was: {shown}");
    let query = "SELECT point_kind, session_concurrency, request_rate_per_s, session_rate_per_s FROM serving_outcome_fact";
    let row = fixture.assay(&["query", query, "--format", "csv"]).success().stdout;
    assert!(row.contains("users,3,30.0,\n"), "{row}");
}

#[test]
fn a_slow_endpoint_makes_the_turns_of_users_late_and_moves_none() {
    let fixture = Fixture::bare();
    for history in ["recorded", "live"] {
        // A user has a turn every 30 ms, and a response takes 5 ms and 49 times 1 ms.
        talks(&fixture, 100, 50, &format!("turns: 4, history: {history}"), "");
        fixture.run(history).success();
        fixture.verify(history).success();
        let users = turns_of_users(&fixture, history);
        for (user, turns) in &users {
            check_user(*user, turns, 100);
        }
        assert_eq!(users.values().flatten().count(), 150, "each point has its turn, however late");
        let late: Vec<i64> = users[&0].iter().map(|turn| turn.intended_ns.unwrap() - turn.planned_ns.unwrap()).collect();
        assert!(late.is_sorted() && late[49] >= 49 * 24 * MS, "{late:?}");
        assert!(metric(&fixture, history, "users-3-rate-100", "back_pressure_ms_p50") >= 300.0);
        assert!(metric(&fixture, history, "users-3-rate-100", "send_lateness_ms_p50") < 20.0);
        let shown = fixture.assay(&["show", history, "--all"]).success().stdout;
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("turns were due after the times that their users had planned"), "{shown}");
    }
}

#[test]
fn one_line_measures_users() {
    let fixture = Fixture::bare();
    let bench = |more: &[&str]| {
        let line =
            ["bench", "--simulator", "fast", "--output-tokens", "4", "--trials", "1", "--warmup", "100ms", "--duration", "400ms"];
        fixture.assay(&[&line[..], more].concat())
    };
    let ran = bench(&["--users", "2,4", "--rate", "40", "--sessions", "turns=3", "--run-id", "users", "--json"]).success().json();
    let numbers = list(&ran["numbers"]);
    for point in ["users-2-rate-40", "users-4-rate-40"] {
        let number = numbers.iter().find(|number| number["point_id"] == point && number["metric"] == "ttft_ms_p50");
        let address = text(&number.expect("it is measured")["address"]).to_owned();
        let traced = fixture.assay(&["trace", &address, "--json"]).success().json();
        assert_eq!(traced["value"], number.expect("it is measured")["value"]);
    }
    let printed = bench(&["--users", "15", "--rate", "1", "--sessions", "turns=20", "--print"]).success().stdout;
    assert!(printed.contains("\"mode\": \"users\"") && !printed.contains("\"mode\": \"open\""), "{printed}");
    for (line, said) in [
        (&["--users", "2"][..], "--rate"),
        (&["--users", "2", "--rate", "5"][..], "`--users` needs `--sessions`, whose turns its users send"),
        (&["--users", "0", "--rate", "5", "--sessions", "turns=3"][..], "`--users` must be from 1"),
        (
            &["--users", "2", "--rate", "5", "--sessions", "turns=3,think_time=1s"][..],
            "`--sessions think_time=` has no place with `--users`: the gap of a user is its number of users over the rate",
        ),
        (
            &["--users", "2", "--rate", "5", "--sessions", "turns=3,count=9"][..],
            "`--sessions count=` cannot end a trial of `--users`: all of its users play up to the end",
        ),
        (&["--users", "2", "--rate", "5", "--sessions", "turns=3", "--max-concurrency", "7"][..], "cannot be used with"),
        (
            &["--users", "2", "--rate", "5", "--sessions", "turns=3", "--requests", "7"][..],
            "`--requests 7` contradicts `--users`: all users play until the time of a trial is over",
        ),
        (&["--users", "2", "--ramp", "1..5", "--sessions", "turns=3"][..], "cannot be used with"),
        (
            &["--users", "2", "--rate", "5", "--sessions", "turns=3", "--cancel", "0.1:1s"][..],
            "`--cancel` cancels single requests",
        ),
    ] {
        let refused = bench(line).exits(2);
        assert!(refused.stderr.contains(said), "`{said}` in {}", refused.stderr);
    }
    let kept = json!(ran["summary"]["points"]).to_string();
    assert!(kept.contains("\"users\":\"2\"") && kept.contains("\"rate\":\"40\""), "{kept}");
}
