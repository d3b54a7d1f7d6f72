use assay_manifest::{Attempt, Block, ControlFact, Environment, Fact, HostFacts, PodPlace, Shard};
use serde_json::{Value, json};

use super::*;

const ZERO: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// The state of a machine `at` seconds after the first, by its counters in seconds.
fn state(at: u32, load: f64, busy: f64, own: f64) -> Value {
    let us = |seconds: f64| format!("{:.0}", seconds * 1e6);
    json!({
        "at": format!("2026-01-01T00:00:{at:02}.000000000Z"), "load_1m": load, "cpu_busy_us": us(busy), "own_cpu_us": us(own),
        "cpu_steal_us": "0", "cpu_pressure_us": "0", "frequencies_khz": ["2000000", "2100000"], "temperatures_millicelsius": {},
    })
}

/// An attempt of ten seconds, with this much CPU time of the machine and of the run's own processes.
fn attempt(number: u32, busy: f64, own: f64) -> Attempt {
    let instant = "2026-01-01T00:00:00.000000000Z";
    let attempt = json!({
        "trial_id": format!("w.t.default.one.t{number}"), "case_id": "w.t.default", "point_id": "one", "attempt": 0,
        "status": "completed", "window": {"start": instant, "end": instant, "duration_ns": "0"},
        "validity": {"valid": true, "reasons": []}, "evidence": [],
        "host_before": state(number * 20, 0.5, 100.0, 1.0), "host_after": state(number * 20 + 10, 0.5, 100.0 + busy, 1.0 + own),
    });
    serde_json::from_value(attempt).expect("an attempt")
}

/// A block whose one target is of that kind, on a machine with two CPUs.
fn environment(index: u32, kind: &str) -> Environment {
    let environment = json!({
        "plan_digest": ZERO, "block": {"index": index, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [{"name": "local", "roles": ["target", "client", "stage"], "facts": HostFacts::unknown("a test")}],
        "software": [], "controls": [], "placement": {}, "readings": [],
        "targets": [{
            "id": "t", "kind": kind, "hosts": ["local"], "version": {"source": "unknown", "how": "x"}, "models": [], "probes": [],
        }],
    });
    let mut environment: Environment = serde_json::from_value(environment).expect("an environment");
    environment.hosts[0].facts.logical_cpus = Fact::observed(2, "a test");
    let fact = |control: &Control| ControlFact { control: *control, state: ControlState::Declared, evidence: "said".to_owned() };
    environment.controls = Control::ALL.iter().map(fact).collect();
    environment
}

/// Every contradiction, one per line.
fn found(attempts: &[Attempt], environments: &[Environment]) -> String {
    let block = Block { index: 0, incarnation: 0 };
    let counted = attempts.iter().map(|attempt| CountedAttempt { block, shard: Shard::ONLY, attempt });
    let environments: Vec<_> = environments.iter().collect();
    find_contradicted_controls(counted, &environments).iter().map(|reason| reason.detail.clone()).collect::<Vec<_>>().join("\n")
}

/// The contradictions of two attempts on an idle machine after a change of the last one.
fn contradictions_after(change: impl FnOnce(&mut Attempt)) -> String {
    let mut last = attempt(1, 10.0, 9.9);
    change(&mut last);
    found(&[attempt(0, 10.0, 9.9), last], &[environment(0, "host")])
}

fn after(attempt: &mut Attempt) -> &mut HostState {
    attempt.host_after.as_mut().expect("a state")
}

#[test]
fn a_calm_machine_contradicts_nothing() {
    assert_eq!(contradictions_after(|_| ()), "");
}

#[test]
fn neighbours_contradict_a_dedicated_node_and_a_stable_background() {
    insta::assert_snapshot!(contradictions_after(|last| after(last).cpu_busy_us = Some(Count(119_000_000))), @r"
    `dedicated_nodes` is declared, but processes that are not the run's took 45.5 % of the machine's CPU time during trial `w.t.default.one.t1` (limit 5.0 %)
    `stable_background` is declared, but processes that are not the run's took 45.5 % of the machine's CPU time during trial `w.t.default.one.t1` (limit 10.0 %)
    ");
    // 5 % of 20 CPU seconds are accepted, slightly more is not.
    assert_eq!(contradictions_after(|last| after(last).own_cpu_us = Some(Count(10_000_000))), "");
    insta::assert_snapshot!(contradictions_after(|last| after(last).own_cpu_us = Some(Count(9_900_000))), @"`dedicated_nodes` is declared, but processes that are not the run's took 5.5 % of the machine's CPU time during trial `w.t.default.one.t1` (limit 5.0 %)");
}

#[test]
fn an_overloaded_machine_has_no_stable_background() {
    let mut first = attempt(0, 10.0, 9.9);
    first.host_before.as_mut().expect("a state").load_1m = Some(21.0);
    insta::assert_snapshot!(found(&[first], &[environment(0, "host")]), @"`stable_background` is declared, but the load average was 21.0 on 2 CPUs before the first trial (limit 3.0)");
    let by_itself = |last: &mut Attempt| last.host_before.as_mut().expect("a state").load_1m = Some(21.0);
    assert_eq!(contradictions_after(by_itself), "", "later the load is that of the run itself");
}

#[test]
fn a_background_that_moves_is_not_stable() {
    let quiet = contradictions_after(|last| after(last).own_cpu_us = Some(Count(9_950_000)));
    assert!(!quiet.contains("stable_background"), "{quiet}");
    insta::assert_snapshot!(contradictions_after(|last| after(last).own_cpu_us = Some(Count(9_700_000 - 700_000))).lines().last().unwrap_or_default(), @"`stable_background` is declared, but the CPU time of other processes went from 0.5 % to 10.0 % between attempts (limit 5.0 % apart)");
}

#[test]
fn waiting_for_a_cpu_counts_only_beside_others() {
    let pressed = |last: &mut Attempt| after(last).cpu_pressure_us = Some(Count(6_000_000));
    assert_eq!(contradictions_after(pressed), "", "what is measured may wait for itself");
    let both = contradictions_after(|last| {
        pressed(last);
        after(last).own_cpu_us = Some(Count(10_500_000));
        after(last).cpu_busy_us = Some(Count(110_100_000));
    });
    insta::assert_snapshot!(both, @"`stable_background` is declared, but tasks waited for a CPU during 60.0 % of trial `w.t.default.one.t1` beside other processes (limit 25.0 %)");
}

#[test]
fn steal_contradicts_both() {
    insta::assert_snapshot!(contradictions_after(|last| after(last).cpu_steal_us = Some(Count(1_000_000))), @r"
    `dedicated_nodes` is declared, but the hypervisor gave 5.0 % of the machine's CPU time to other guests during trial `w.t.default.one.t1` (limit 1.0 %)
    `stable_background` is declared, but the hypervisor gave 5.0 % of the machine's CPU time to other guests during trial `w.t.default.one.t1` (limit 1.0 %)
    ");
}

#[test]
fn clocks_that_move_are_not_locked() {
    insta::assert_snapshot!(contradictions_after(|last| after(last).frequencies_khz = vec![Count(3_000_000)]), @"`locked_clocks` is declared, but the highest CPU frequency went from 2100 to 3000 MHz between readings (limit 5.0 %)");
    let mut governed = environment(0, "host");
    governed.hosts[0].facts.governor = Fact::observed(vec!["schedutil".to_owned()], "a test");
    insta::assert_snapshot!(found(&[], &[governed]), @"`locked_clocks` is declared, but the CPU frequency governor was `schedutil` (limit `performance` or `userspace`)");
}

#[test]
fn devices_that_differ_between_blocks_are_no_fixed_topology() {
    let with = |index: u32, model: &str| {
        let mut environment = environment(index, "host");
        environment.hosts[0].facts.cpu_model = Fact::observed(model.to_owned(), "a test");
        environment
    };
    assert_eq!(found(&[], &[with(0, "EPYC"), with(1, "EPYC")]), "");
    insta::assert_snapshot!(found(&[], &[with(0, "EPYC"), with(1, "Xeon")]), @"`fixed_topology` is declared, but the CPU models of the target `t` differ between blocks: EPYC against Xeon (limit: none may)");
}

#[test]
fn what_is_not_declared_is_not_contradicted() {
    let mut environment = environment(0, "host");
    for fact in &mut environment.controls {
        fact.state = ControlState::Absent;
    }
    assert_eq!(found(&[attempt(0, 20.0, 0.0)], &[environment]), "");
}

#[test]
fn only_the_machine_of_the_target_is_judged() {
    let busy = || attempt(0, 20.0, 0.0);
    assert_eq!(found(&[busy()], &[environment(0, "endpoint")]), "", "an endpoint's own CPU time is no neighbour's");
    let place = PodPlace { node: "b".to_owned(), pod: "p".to_owned(), pod_uid: "u".to_owned(), job_uid: "j".to_owned() };
    assert_eq!(found(&[Attempt { place: Some(place), ..busy() }], &[environment(0, "host")]), "", "load of another node");
    let unknown = |change: fn(&mut HostState)| {
        let mut attempt = busy();
        change(attempt.host_after.as_mut().expect("a state"));
        found(&[attempt], &[environment(0, "host")])
    };
    assert_eq!(unknown(|state| state.own_cpu_us = None), "", "what cannot be read is not held against it");
    assert_eq!(unknown(|state| state.cpu_busy_us = Some(Count(0))), "", "nor is a counter that was set back");
}

#[test]
fn a_window_too_short_for_the_kernel_s_counters_is_judged_with_the_others() {
    let short = |number: u32| {
        let mut attempt = attempt(number, 0.1, 0.0);
        let before = attempt.host_before.as_ref().expect("a state").at.unix_ns();
        after(&mut attempt).at = assay_manifest::Instant::from_unix_ns(before + 50_000_000);
        attempt
    };
    assert_eq!(found(&[short(0)], &[environment(0, "host")]), "", "a twentieth of a second says nothing");
    let many: Vec<_> = (0..2).map(short).cycle().take(20).collect();
    assert!(found(&many, &[environment(0, "host")]).contains("100.0 % of the machine's CPU time during the counted attempts"));
}
