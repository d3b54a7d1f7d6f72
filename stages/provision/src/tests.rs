use assay_manifest::FactSource;
use serde_json::json;

use super::*;

fn target(kind: &str, hardware: &[(&str, &str)]) -> Target {
    let hardware: BTreeMap<_, _> = hardware.iter().copied().collect();
    let target = json!({
        "name": "t", "kind": kind, "url": "http://t:80", "command": ["serve", "--port", "80"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "from_env": "TOKEN"}, {"name": "C", "from_file": "/run/token"}],
        "ready_timeout_ns": "1", "hardware": hardware,
    });
    serde_json::from_value(target).expect("a target")
}

fn fact(control: Control, state: ControlState, evidence: &str) -> ControlFact {
    ControlFact { control, state, evidence: evidence.to_owned() }
}

/// Returns the state of the first control for this declaration and this observation.
fn merge_control(declared: Option<ControlState>, observed: Option<ControlState>) -> String {
    let of = |state: Option<ControlState>, evidence| -> Vec<_> {
        state.map(|state| fact(Control::DedicatedNodes, state, evidence)).into_iter().collect()
    };
    let all = controls(&of(declared, "declared"), &of(observed, "observed"));
    assert_eq!(all.iter().map(|fact| fact.control).collect::<Vec<_>>(), Control::ALL, "each control once");
    format!("{}: {}", all[0].state, all[0].evidence)
}

#[test]
fn a_control_is_as_good_as_the_best_that_is_known_of_it() {
    use ControlState::{Absent, Declared, Proved};
    assert_eq!(merge_control(None, Some(Proved)), "proved: observed");
    assert_eq!(merge_control(Some(Declared), Some(Proved)), "proved: observed");
    assert_eq!(merge_control(Some(Absent), Some(Proved)), "proved: observed");
    assert_eq!(merge_control(Some(Declared), Some(Absent)), "declared: declared");
    assert_eq!(merge_control(Some(Declared), None), "declared: declared");
    assert_eq!(merge_control(Some(Absent), Some(Absent)), "absent: observed", "what was seen says more");
    assert_eq!(merge_control(Some(Absent), None), "absent: declared");
    assert_eq!(merge_control(None, None), "absent: nothing was observed or declared");
}

#[test]
fn what_a_pipeline_calls_proved_is_not_proved_by_that() {
    assert_eq!(merge_control(Some(ControlState::Proved), Some(ControlState::Absent)), "absent: observed");
}

#[test]
fn the_runner_is_told_what_to_hold_and_never_a_secret() {
    let target = target("process", &[]);
    let request =
        hold_request(&target, target.command.clone(), Path::new("/scratch/end"), Path::new("/scratch/pid")).expect("a request");
    let pair = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    assert_eq!(request.command, ["serve", "--port", "80"]);
    assert_eq!((request.env, request.env_from, request.env_files), (pair("A", "1"), pair("B", "TOKEN"), pair("C", "/run/token")));
}

fn names_and_roles(targets: &[&Target]) -> Vec<(String, Vec<HostRole>)> {
    hosts(HostFacts::unknown("a test"), targets).into_iter().map(|host| (host.name, host.roles)).collect()
}

#[test]
fn this_machine_is_a_target_only_where_something_runs_on_it() {
    use HostRole::{Client, Stage, Target};
    let (process, host, endpoint) = (target("process", &[]), target("host", &[]), target("endpoint", &[]));
    let simulator = target("simulator", &[]);
    assert_eq!(names_and_roles(&[&simulator]), [("local".to_owned(), vec![Target, Client, Stage])]);
    assert_eq!(names_and_roles(&[&host]), [("local".to_owned(), vec![Target, Client, Stage])]);
    assert_eq!(names_and_roles(&[&process]), [("local".to_owned(), vec![Target, Client, Stage])]);
    let remote = [("local".to_owned(), vec![Client, Stage]), ("t".to_owned(), vec![Target])];
    assert_eq!(names_and_roles(&[&endpoint]), remote);
}

#[test]
fn a_declaration_fills_in_what_was_not_observed_and_no_more() {
    let declared = target("endpoint", &[("cpu_model", "EPYC"), ("memory_bytes", "1024"), ("architecture", "riscv64")]);
    let observed = HostFacts { architecture: Fact::observed("x86_64".to_owned(), "uname"), ..HostFacts::unknown("a test") };
    let mut facts = observed;
    declare(&mut facts, &declared);
    assert_eq!((facts.cpu_model.source, facts.cpu_model.value.as_deref()), (FactSource::Declared, Some("EPYC")));
    assert_eq!(facts.memory_bytes.value, Some(Count(1024)));
    assert_eq!(facts.architecture.value.as_deref(), Some("x86_64"), "what was observed stands");
    let mut facts = HostFacts::unknown("a test");
    declare(&mut facts, &target("endpoint", &[("memory_bytes", "much")]));
    assert_eq!(facts.memory_bytes.value, None);
}

#[test]
fn an_endpoint_s_hardware_is_unknown_until_somebody_says_it() {
    let endpoint = target("endpoint", &[]);
    let hosts = hosts(HostFacts::unknown("a test"), &[&endpoint]);
    insta::assert_snapshot!(hosts[1].facts.cpu_model.how, @"the machine behind an endpoint was neither probed nor declared");
}

#[test]
fn everything_declared_is_kept_under_its_target() {
    let target = target("endpoint", &[("rack", "7")]);
    let placement = placement(&[&target], None, &[]);
    assert_eq!(placement.get("declared/t/rack").map(String::as_str), Some("7"));
    assert_eq!(placement.get("cluster").map(String::as_str), Some("local"));
}

fn plan() -> Plan {
    let digest = assay_manifest::Digest::compute(b"");
    let case = |target: &str| json!({"case_id": format!("w.{target}.default"), "workload": "w", "target": target, "variant": "default", "points": []});
    let trial = |target: &str, block: u32| {
        json!({
            "trial_id": format!("w.{target}.default.one.t{block}"), "case_id": format!("w.{target}.default"), "point_id": "one",
            "index": block, "block": block,
        })
    };
    let named = |name: &str| Target { name: name.parse().expect("a name"), ..target("host", &[]) };
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": digest},
        "source": {"kind": "adhoc", "dirty": true, "files_digest": digest},
        "intent": "exploratory", "controls": [], "workloads": [], "targets": [], "variants": [], "cases": [case("a"), case("b")],
        "trial_policy": {"count": 1, "retry_budget": 0}, "isolation": "none", "placement": "alternate",
        "order": {"seed": "00", "digest": digest}, "trials": [trial("b", 0), trial("a", 1), trial("a", 1)], "unpinned": [],
        "queries": [],
    });
    Plan { targets: vec![named("a"), named("b")], ..serde_json::from_value(plan).expect("a plan") }
}

#[test]
fn a_block_has_the_targets_of_its_trials() {
    let plan = plan();
    let of =
        |block| block_targets(&plan, block).map(|found| found.iter().map(|target| target.name.to_string()).collect::<Vec<_>>());
    assert_eq!(of(0), Ok(vec!["b".to_owned()]));
    assert_eq!(of(1), Ok(vec!["a".to_owned()]), "each once");
    insta::assert_snapshot!(of(2).expect_err("no such block"), @"error[no_such_block]: the plan has no trial in block 2");
    let lost = Plan { targets: Vec::new(), ..plan.clone() };
    insta::assert_snapshot!(block_targets(&lost, 0).expect_err("the plan lost it"), @"error[plan]: the plan has no target `b`");
}

#[test]
fn a_secret_that_is_not_there_is_named() {
    let mut target = target("endpoint", &[]);
    target.headers = vec![EnvVar {
        name: "authorization".to_owned(),
        value: None,
        from_env: Some("ASSAY_TEST_NO_SUCH_VARIABLE".to_owned()),
        from_file: None,
        scheme: None,
    }];
    insta::assert_snapshot!(target_client(&target).expect_err("absent"), @r"
    error[secret_absent]: the headers of target `t` cannot be sent
      because: the header `authorization` comes from the environment variable `ASSAY_TEST_NO_SUCH_VARIABLE`, which is not set
    ");
    let key = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(key.path(), "schl\u{fc}ssel").expect("written");
    (target.headers[0].from_env, target.headers[0].from_file) = (None, Some(key.path().display().to_string()));
    insta::assert_snapshot!(target_client(&target).expect_err("unusable").or_remedy(), @r"
    error[secret_absent]: the headers of target `t` cannot be sent
      because: the value of the header `authorization` holds characters that no header may hold, such as a line end

    hint: a header can hold visible ASCII characters, spaces and tabs: correct the value at the place that the definition names
    ");
    target.url = None;
    insta::assert_snapshot!(target_address(&target).expect_err("nowhere").message, @"target `t` has no address at which it could be asked");
}

#[test]
fn what_only_a_cluster_has_is_refused_on_one_machine() {
    insta::assert_snapshot!(only_in_a_cluster(&target("objects", &[])), @r"
    error[target_kind]: target `t` of `kind: objects` is there in a cluster only

    hint: run the pipeline with `--on kubernetes`
    ");
}

/// Returns a target that was found on these nodes.
fn found_target(nodes: &[&str]) -> ProvisionedTarget {
    let pod = |node: &&str| json!({"name": format!("on-{node}"), "uid": "u", "node": node, "ready": true, "containers": []});
    let found = json!({
        "id": "t", "kind": "objects", "hosts": nodes, "version": {"source": "unknown", "how": "a test"}, "models": [], "probes": [],
        "pods": nodes.iter().map(pod).collect::<Vec<_>>(),
    });
    serde_json::from_value(found).expect("a target")
}

#[test]
fn a_node_is_known_by_this_stage_or_by_a_probe_or_not_at_all() {
    let objects = target("objects", &[("cpu_vendor", "AMD")]);
    let seen = |model: &str| HostFacts { cpu_model: Fact::observed(model.to_owned(), "a test"), ..HostFacts::unknown("a test") };
    let probed = ProbeResults::from([
        ("b".to_owned(), Ok(hardware::NodeFacts { facts: seen("EPYC"), software: Vec::new() })),
        ("c".to_owned(), Err("no node takes the pod".to_owned())),
    ]);
    let hosts = hosts_of_cluster(seen("Xeon"), "a", &[found_target(&["a", "b", "c", "d"])], &[&objects], probed);
    let told = |host: &Host| {
        let model = &host.facts.cpu_model;
        let vendor = host.facts.cpu_vendor.value.as_deref().unwrap_or("?");
        format!("{} {}: {} {vendor}", host.name, host.roles[0], model.value.as_deref().unwrap_or(&model.how))
    };
    insta::assert_snapshot!(hosts.iter().map(told).collect::<Vec<_>>().join("\n"), @r"
    a target: Xeon AMD
    b target: EPYC AMD
    c target: no node takes the pod AMD
    d target: another node than the one that asked was neither probed nor declared AMD
    load client: load pods are placed when execute starts ?
    ");
}

#[test]
fn every_node_of_a_target_is_placed() {
    let here = |name: &str| Some(name.to_lowercase());
    let here = PodEnvironment::from_env(here).expect("a pod");
    let of = |nodes: &[&str]| {
        let placement = placement(&[], Some(&here), &[found_target(nodes)]);
        placement
            .into_iter()
            .filter(|(key, _)| key.starts_with("node/"))
            .map(|(key, node)| format!("{key}={node}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&["a"]), ["node/t=a"]);
    assert_eq!(of(&["a", "b"]), ["node/t/0=a", "node/t/1=b"]);
    assert_eq!(of(&[]), [""; 0], "of what nobody brought up as pods nothing is known");
}

#[test]
fn a_unix_socket_is_refused_in_a_pod() {
    let at = |url: &str| Target { url: Some(url.to_owned()), ..target("endpoint", &[]) };
    assert!(check_socket(&at("unix:/run/server.sock"), false).is_ok() && check_socket(&at("http://t:80"), true).is_ok());
    let refused = check_socket(&at("unix:/run/server.sock"), true).expect_err("a pod");
    insta::assert_snapshot!(refused.message, @"target `t` is at the Unix socket `unix:/run/server.sock`, which the pods of this run cannot reach");
}
