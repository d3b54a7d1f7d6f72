use assay_manifest::{Count, Gpu, HostFacts, PlannedTrial};
use serde_json::json;

use super::*;

const ZERO: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Returns a machine with this boot name and this many GPUs.
fn host(boot: &str, gpus: usize) -> Host {
    let gpu = |number: usize| Gpu {
        uuid: format!("GPU-{number}"),
        model: "H200".to_owned(),
        memory_bytes: Count(1),
        driver_version: "580".to_owned(),
        pci_bus_id: format!("{number}"),
        clocks: "not locked".to_owned(),
    };
    let facts = HostFacts {
        boot_id: Fact::observed(boot.to_owned(), "a test"),
        kernel: Fact::observed("6.12".to_owned(), "a test"),
        cpu_model: Fact::observed("Xeon".to_owned(), "a test"),
        usable_cpus: Fact::observed(16, "a test"),
        memory_bytes: Fact::observed(Count(1 << 30), "a test"),
        governor: Fact::observed(vec!["performance".to_owned()], "a test"),
        gpus: Fact::observed((0..gpus).map(gpu).collect(), "a test"),
        ..HostFacts::unknown("a test")
    };
    Host { name: boot.to_owned(), roles: Vec::new(), facts }
}

/// Returns a block in which these targets are up, each on the machine next to it.
fn block(index: u32, up: &[(&str, &Host)]) -> Environment {
    let target = |(id, host): &(&str, &Host)| {
        json!({
            "id": id, "kind": "process", "hosts": [host.name], "models": ["chat"], "probes": [],
            "version": {"source": "observed", "value": "0.11", "how": "a test"},
            "image": {"reference": "engine", "digest": ZERO},
        })
    };
    let environment = json!({
        "plan_digest": ZERO, "block": {"index": index, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [], "software": [], "targets": up.iter().map(target).collect::<Vec<_>>(), "controls": [], "placement": {},
        "readings": [],
    });
    let mut environment: Environment = serde_json::from_value(environment).expect("an environment");
    for (_, host) in up {
        if !environment.hosts.contains(host) {
            environment.hosts.push((*host).clone());
        }
    }
    environment
}

fn comparison(variable: &str) -> Comparison {
    let side = |target: &str| json!({"target": target, "variant": "default"});
    let comparison = json!({"baseline": side("before"), "candidate": side("after"), "variable_under_test": variable});
    serde_json::from_value(comparison).expect("a comparison")
}

/// Returns the confounding that the hardware of the sides in these blocks causes.
fn confounding(blocks: &[Environment]) -> Option<String> {
    find_confounding(&blocks.iter().collect::<Vec<_>>(), &comparison("runtime_version"))
}

#[test]
fn a_side_on_another_machine_is_confounded() {
    let [a, b] = [host("a", 0), host("b", 0)];
    assert_eq!(confounding(&[block(0, &[("before", &a), ("after", &a)])]), None, "one machine");
    insta::assert_snapshot!(
        confounding(&[block(0, &[("before", &a), ("after", &b)])]).expect("confounded"),
        @"the baseline ran on a and the candidate on b"
    );
    let partly =
        [block(0, &[("before", &a)]), block(1, &[("after", &a)]), block(2, &[("before", &a)]), block(3, &[("after", &b)])];
    insta::assert_snapshot!(confounding(&partly).expect("confounded"), @"the baseline ran on a and the candidate on a, b");
}

#[test]
fn machines_that_are_compared_are_not_shared() {
    let [a, b] = [host("a", 0), host("b", 0)];
    let blocks = [block(0, &[("before", &a), ("after", &b)])];
    let blocks: Vec<&Environment> = blocks.iter().collect();
    assert_eq!(find_confounding(&blocks, &comparison("hardware_generation")), None);
    assert!(find_confounding(&[], &comparison("hardware_generation")).is_some(), "which ones they are has to be known");
}

#[test]
fn sides_that_swap_their_machines_between_blocks_share_them() {
    let [a, b] = [host("a", 0), host("b", 0)];
    let swapped = [block(0, &[("before", &a), ("after", &b)]), block(1, &[("before", &b), ("after", &a)])];
    assert_eq!(confounding(&swapped), None);
    assert!(confounding(&swapped[..1]).is_some(), "one block alone does not");
}

#[test]
fn a_machine_that_started_anew_is_another() {
    let before = host("a", 0);
    let mut after = host("later", 0);
    after.name.clone_from(&before.name);
    insta::assert_snapshot!(
        confounding(&[block(0, &[("before", &before)]), block(1, &[("after", &after)])]).expect("confounded"),
        @"the baseline ran on a and the candidate on later"
    );
}

#[test]
fn sides_that_are_up_together_share_a_device_only_where_there_is_one() {
    let together = |gpus: usize| {
        let host = host("a", gpus);
        confounding(&[block(0, &[("before", &host), ("after", &host)])])
    };
    assert_eq!([together(0), together(1)], [None, None]);
    insta::assert_snapshot!(together(2).expect("confounded"), @"both sides were up on `a`, which has 2 GPUs: each may have had its own");
    let host = host("a", 2);
    assert_eq!(
        confounding(&[block(0, &[("before", &host)]), block(1, &[("after", &host)])]),
        None,
        "one side at a time has all of them"
    );
}

#[test]
fn variants_of_one_target_are_on_its_device() {
    let mut comparison = comparison("other");
    comparison.candidate = assay_manifest::Side { variant: "huge-pages".parse().expect("a name"), ..comparison.baseline.clone() };
    let host = host("a", 8);
    assert_eq!(find_confounding(&[&block(0, &[("before", &host)])], &comparison), None);
}

#[test]
fn hardware_that_nobody_knows_is_not_the_same() {
    let unknown = Host { name: "endpoint".to_owned(), roles: Vec::new(), facts: HostFacts::unknown("nobody was asked") };
    let known = host("a", 0);
    let not_known = Some("the hardware of a side is not known".to_owned());
    for [before, after] in [[&unknown, &known], [&known, &unknown], [&unknown, &unknown]] {
        assert_eq!(confounding(&[block(0, &[("before", before), ("after", after)])]), not_known);
    }
    assert_eq!(confounding(&[block(0, &[("before", &known)])]), not_known, "the candidate was never up");
    let later = block(1, &[("before", &unknown), ("after", &known)]);
    assert_eq!(confounding(&[block(0, &[("before", &known), ("after", &known)]), later]), not_known, "known in one block only");
}

/// Returns the named differences, with both values, after `change` has changed the candidate's machine or the candidate itself.
fn differing(variable: &str, change: impl FnOnce(&mut Environment)) -> Vec<String> {
    let same = host("a", 1);
    let mut after = block(1, &[("after", &same)]);
    change(&mut after);
    let environments = [&block(0, &[("before", &same)]), &after];
    in_words(differences(&plan(&[]), &environments, &Schedules::new(), &comparison(variable)))
}

fn in_words(differences: Vec<Difference>) -> Vec<String> {
    differences.into_iter().map(|Difference { what, baseline, candidate }| format!("{what}: {baseline} | {candidate}")).collect()
}

fn facts_of(environment: &mut Environment) -> &mut HostFacts {
    &mut environment.hosts[0].facts
}

fn other<T>(value: T) -> Fact<T> {
    Fact::observed(value, "a test")
}

/// A compared fact: its group, its name with both values, and the change that makes it differ.
type LockedFact = (&'static str, &'static str, fn(&mut Environment));

const LOCKED_FACTS: [LockedFact; 10] = [
    ("hardware", "host.cpu_model: Xeon | Epyc", |after| facts_of(after).cpu_model = other("Epyc".to_owned())),
    ("hardware", "host.usable_cpus: 16 | 8", |after| facts_of(after).usable_cpus = other(8)),
    ("hardware", "host.memory_bytes: 1073741824 | 1", |after| facts_of(after).memory_bytes = other(Count(1))),
    ("hardware", "host.gpus: H200 | H200, H200", |after| facts_of(after).gpus = host("b", 2).facts.gpus),
    ("software", "host.kernel: 6.12 | 6.13", |after| facts_of(after).kernel = other("6.13".to_owned())),
    ("software", "host.governor: performance | powersave", |after| {
        facts_of(after).governor = other(vec!["powersave".to_owned()]);
    }),
    ("software", "host.gpu_driver: 580 | 575", |after| {
        let gpus = facts_of(after).gpus.value.as_mut().expect("GPUs");
        gpus[0].driver_version = "575".to_owned();
    }),
    ("version", "target.version: 0.11 | 0.12", |after| after.targets[0].version = other("0.12".to_owned())),
    ("version", "target.image: sha256:0000000000000000000000000000000000000000000000000000000000000000 | ", |after| {
        after.targets[0].image = None;
    }),
    ("models", "target.models: chat | other", |after| after.targets[0].models = vec!["other".to_owned()]),
];

#[test]
fn every_locked_fact_that_differs_is_told_with_both_values() {
    assert_eq!(differing("scheduler_path", |_| {}), Vec::<String>::new());
    for (_, told, change) in LOCKED_FACTS {
        assert_eq!(differing("scheduler_path", change), [told]);
    }
}

#[test]
fn a_fact_of_which_one_side_knows_nothing_differs() {
    let told = differing("scheduler_path", |after| facts_of(after).kernel = Fact::unknown("not read"));
    assert_eq!(told, ["host.kernel: 6.12 | unknown"]);
}

#[test]
fn only_the_variable_under_test_may_differ() {
    let allowed = |variable: &str| {
        let unnoticed = LOCKED_FACTS.iter().filter(|(_, _, change)| differing(variable, change).is_empty());
        let groups: BTreeSet<&str> = unnoticed.map(|(group, ..)| *group).collect();
        let all_of_them = LOCKED_FACTS.iter().filter(|(group, ..)| groups.contains(group));
        assert!(all_of_them.into_iter().all(|(_, _, change)| differing(variable, change).is_empty()), "a group goes together");
        if groups.is_empty() { "nothing".to_owned() } else { groups.into_iter().collect::<Vec<_>>().join(" and ") }
    };
    let variables = [
        "hardware_generation",
        "runtime_version",
        "driver_stack",
        "kernel_implementation",
        "model",
        "other",
        "scheduler_path",
        "control_plane_path",
        "network_topology",
        "storage_stack",
        "batching_policy",
        "concurrency_model",
    ];
    insta::assert_snapshot!(variables.map(|variable| format!("{variable}: {}", allowed(variable))).join("\n"), @r"
    hardware_generation: hardware and software
    runtime_version: version
    driver_stack: software
    kernel_implementation: software and version
    model: models
    other: hardware and models and software and version
    scheduler_path: nothing
    control_plane_path: nothing
    network_topology: nothing
    storage_stack: nothing
    batching_policy: nothing
    concurrency_model: nothing
    ");
}

#[test]
fn facts_are_those_of_all_blocks_together() {
    let [a, mut b] = [host("a", 0), host("b", 0)];
    b.facts.kernel = other("6.13".to_owned());
    let told = |blocks: &[Environment]| {
        in_words(differences(&plan(&[]), &blocks.iter().collect::<Vec<_>>(), &Schedules::new(), &comparison("runtime_version")))
    };
    let swapped = [block(0, &[("before", &a), ("after", &b)]), block(1, &[("before", &b), ("after", &a)])];
    assert_eq!(told(&swapped), Vec::<String>::new());
    assert_eq!(told(&swapped[..1]), ["host.kernel: 6.12 | 6.13"]);
}

/// Returns a plan of these trials: workload, side and round.
fn plan(trials: &[(&str, &str, u32)]) -> Plan {
    let case = |workload: &str, side: &str| {
        json!({
            "case_id": format!("{workload}.{side}.default"), "workload": workload, "target": side, "variant": "default", "points": [],
        })
    };
    let places: BTreeSet<_> = trials.iter().map(|(workload, side, _)| (*workload, *side)).collect();
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": ZERO},
        "source": {"kind": "git", "dirty": false, "files_digest": ZERO},
        "intent": "exploratory", "controls": [], "workloads": [], "targets": [], "variants": [],
        "cases": places.iter().map(|(workload, side)| case(workload, side)).collect::<Vec<_>>(),
        "trial_policy": {"count": 2, "retry_budget": 0}, "isolation": "none", "placement": "alternate",
        "order": {"seed": "00", "digest": ZERO}, "trials": [], "unpinned": [], "queries": [],
    });
    let mut plan: Plan = serde_json::from_value(plan).expect("a plan");
    let planned = trials.iter().map(|(workload, side, index)| {
        let case_id = format!("{workload}.{side}.default").parse().expect("a case");
        let point_id = "c8".parse().expect("a point");
        PlannedTrial { trial_id: TrialId::from_parts(&case_id, &point_id, *index), case_id, point_id, index: *index, block: 0 }
    });
    plan.trials = planned.collect();
    plan
}

#[test]
fn both_sides_of_a_pair_are_offered_the_same_load() {
    let plan = plan(&[
        ("chat", "before", 0),
        ("chat", "after", 0),
        ("chat", "before", 1),
        ("chat", "after", 1),
        ("code", "before", 0),
        ("code", "after", 0),
    ]);
    let told = |loads: [Option<&str>; 6]| {
        let offered =
            plan.trials.iter().zip(loads).filter_map(|(trial, load)| Some((&trial.trial_id, Digest::compute(load?.as_bytes()))));
        let differing = differences(&plan, &[], &offered.collect(), &comparison("runtime_version"));
        differing.into_iter().map(|difference| difference.what).collect::<Vec<_>>()
    };
    // Every round of every workload has its own load.
    let [one, two, three] = [Some("one"), Some("two"), Some("three")];
    assert_eq!(told([one, one, two, two, three, three]), Vec::<String>::new());
    assert_eq!(told([one, two, two, two, three, three]), ["schedule of chat.before.default.c8.t0"]);
    assert_eq!(
        told([one, one, two, one, three, two]),
        ["schedule of chat.before.default.c8.t1", "schedule of code.before.default.c8.t0"]
    );
    assert_eq!(told([one, None, None, two, three, three]), Vec::<String>::new(), "a trial that never came about is no pair");
}

#[test]
fn two_runs_are_told_apart_by_what_their_targets_were() {
    let (then, mut now) = (host("boot-1", 0), host("boot-1", 0));
    now.facts.kernel = Fact::observed("6.18".to_owned(), "a test");
    let (before, after) = (block(0, &[("before", &then), ("after", &then)]), block(0, &[("before", &now)]));
    let target: Name = "before".parse().expect("a name");
    assert_eq!(differences_between_runs(&[&before], &[&before], &target), []);
    let told = differences_between_runs(&[&before], &[&after], &target);
    assert_eq!(
        told.iter().map(|it| [&*it.what, &*it.baseline, &*it.candidate]).collect::<Vec<_>>(),
        [["host.kernel", "6.12", "6.18"]]
    );
}
