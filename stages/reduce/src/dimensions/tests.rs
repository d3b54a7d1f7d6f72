use assay_manifest::{Environment, HostFacts, Kind, Plan};
use assay_warehouse::ROW_ID;
use serde_json::{Value as Json, json};

use super::*;
use crate::fixture::{assert_filled, digest, plan, printed, run};

/// A host of a target with GPUs, all of whose facts are observed.
fn host(name: &str, gpus: usize, model: &str, facts: &Json) -> Json {
    let observed = |value: Json| json!({"source": "observed", "value": value, "how": "a test"});
    let gpu = |number: usize| {
        json!({
            "uuid": format!("GPU-{name}-{number}"), "model": model, "memory_bytes": "141000000000", "driver_version": "570.86",
            "pci_bus_id": format!("0000:{number:02x}"), "clocks": "pinned",
        })
    };
    let mut all = serde_json::to_value(HostFacts::unknown("nobody looked")).expect("json");
    let known = json!({
        "operating_system": "Debian 13", "kernel": "6.12", "architecture": "x86_64", "virtualization": "none",
        "cpu_vendor": "GenuineIntel", "cpu_model": "Xeon", "cpu_signature": "6/143/8", "microcode": "0x2b", "sockets": 2,
        "cores": 96, "logical_cpus": 192, "smt": true, "max_frequency_khz": "3800000", "caches": ["L3 105 MiB x 2"],
        "numa": ["0: 0-95"], "memory_bytes": "2000000000000",
        "network_cards": [{"name": "eth0", "driver": "mlx5_core", "speed_mbps": 400_000, "mtu": 9000}],
    });
    for (name, value) in known.as_object().expect("an object").iter().chain(facts.as_object().expect("an object")) {
        all[name] = observed(value.clone());
    }
    if gpus > 0 {
        all["gpus"] = observed((0..gpus).map(gpu).collect());
    }
    json!({"name": name, "roles": ["target"], "facts": all})
}

/// An Environment in which these targets run on these hosts.
fn environment(targets: &[Json], hosts: &[Json]) -> Environment {
    let software =
        |name: &str, version: &str| json!({"name": name, "version": {"source": "observed", "value": version, "how": "a test"}});
    let environment = json!({
        "plan_digest": digest("plan"), "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": hosts, "software": [software("kernel", "6.12"), software("libc", "glibc 2.41"), software("cc", "cc 14.2"), software("make", "4.4")],
        "targets": targets, "controls": [], "placement": {"cluster": "kubernetes"}, "readings": [],
    });
    serde_json::from_value(environment).expect("an environment")
}

fn provisioned(id: &str, hosts: &[&str], version: Option<&str>) -> Json {
    let version = match version {
        Some(version) => json!({"source": "observed", "value": version, "how": "/version"}),
        None => json!({"source": "unknown", "how": "a test"}),
    };
    json!({"id": id, "kind": "endpoint", "hosts": hosts, "version": version, "models": [], "probes": []})
}

/// The plan of the fixture whose target `t` has these declarations.
fn declared(changes: &Json) -> Plan {
    let mut target = json!({"name": "t", "kind": "endpoint", "command": [], "env": [], "ready_timeout_ns": "1", "hardware": {}});
    for (name, value) in changes.as_object().expect("an object") {
        target[name] = value.clone();
    }
    with_targets(&[target])
}

fn with_targets(targets: &[Json]) -> Plan {
    let mut plan = serde_json::to_value(plan(1)).expect("json");
    plan["targets"] = json!(targets);
    serde_json::from_value(plan).expect("a plan")
}

fn dimensions(plan: &Plan, environments: &[&Environment]) -> Dimensions {
    dimensions_with(plan, environments, &[])
}

fn dimensions_with(plan: &Plan, environments: &[&Environment], labelled: &[LabelledGpu]) -> Dimensions {
    let run = run(&[&[printed(json!({"rate": 1}))]]);
    let signers = vec![(Kind::Plan, digest("key"))];
    let environment_manifests = vec![digest("environment")];
    let context = RowContext { plan, signers, environments, environment_manifests, ..run.context() };
    Dimensions::from_context(&context, labelled).expect("dimensions")
}

/// The software, hardware and place of the fixture's case.
fn keys(plan: &Plan, environments: &[&Environment]) -> [String; 3] {
    let dimensions = dimensions(plan, environments);
    let keys = dimensions.target_keys(plan, &plan.cases[0].case_id).expect("keys");
    [keys.software.clone(), keys.hardware.clone(), keys.cluster.clone()]
}

/// Returns for each of the three keys whether it differs: software, hardware, place.
fn changed(before: &[String; 3], after: &[String; 3]) -> [bool; 3] {
    std::array::from_fn(|place| before[place] != after[place])
}

const SOFTWARE: [bool; 3] = [true, false, false];
const HARDWARE: [bool; 3] = [false, true, false];
const PLACE: [bool; 3] = [false, false, true];

#[test]
fn what_is_declared_tells_targets_apart() {
    let of = |changes: Json| keys(&declared(&changes), &[]);
    let plain = of(json!({}));
    let h200 = of(json!({"hardware": {"gpu_model": "H200", "gpu_count": "8"}}));
    let a100 = of(json!({"hardware": {"gpu_model": "A100", "gpu_count": "2"}}));
    assert_eq!((changed(&plain, &h200), changed(&h200, &a100)), (HARDWARE, HARDWARE));
    for fact in ["gpu_memory_bytes", "interconnect"] {
        assert_eq!(changed(&plain, &of(json!({"hardware": {fact: "5"}}))), HARDWARE, "{fact}");
    }
    for name in ["server", "framework", "driver", "cuda", "nccl", "runtime", "compiler", "anything"] {
        let [old, new] = ["1.0", "1.1"].map(|version| of(json!({"software": {name: version}})));
        assert_eq!((changed(&plain, &old), changed(&old, &new)), (SOFTWARE, SOFTWARE), "{name}");
    }
    for name in ["region", "availability_zone", "node_pool", "queue", "resource_flavor", "tenant_mode"] {
        let [one, other] = ["a", "b"].map(|place| of(json!({"place": {name: place}})));
        assert_eq!((changed(&plain, &one), changed(&one, &other)), (PLACE, PLACE), "{name}");
    }
    let image = |byte: &str| of(json!({"image": {"reference": "r", "digest": digest(byte)}}));
    assert_eq!(changed(&image("a"), &image("b")), SOFTWARE);
}

#[test]
fn what_is_observed_tells_targets_apart() {
    let plan = declared(&json!({}));
    let of = |target: Json, hosts: &[Json]| keys(&plan, &[&environment(&[target], hosts)]);
    let on = |names: &[&str]| provisioned("t", names, Some("0.31.0"));
    let eight = of(on(&["n1"]), &[host("n1", 8, "H200", &json!({}))]);
    let two = of(on(&["n1"]), &[host("n1", 2, "H200", &json!({}))]);
    let others = of(on(&["n1"]), &[host("n1", 8, "A100", &json!({}))]);
    assert_eq!((changed(&eight, &two), changed(&eight, &others)), (HARDWARE, HARDWARE));

    let renamed = of(on(&["n9"]), &[host("n9", 8, "H200", &json!({}))]);
    assert_eq!(changed(&eight, &renamed), [false; 3], "another machine of the same kind");

    let newer = of(provisioned("t", &["n1"], Some("0.33.0")), &[host("n1", 8, "H200", &json!({}))]);
    assert_eq!(changed(&eight, &newer), SOFTWARE);

    let pair = |second: &str| {
        of(on(&["n1", "n2"]), &[host("n1", 8, "H200", &json!({})), host("n2", 8, "H200", &json!({"cpu_model": second}))])
    };
    assert_eq!(changed(&eight, &pair("Xeon")), HARDWARE, "two hosts are not one");
    assert_eq!(changed(&pair("Xeon"), &pair("EPYC")), HARDWARE, "the second host is looked at too");
}

#[test]
fn the_gpus_of_pods_are_those_that_they_may_use() {
    let plan = declared(&json!({"hardware": {"gpu_model": "H200", "gpu_count": "8"}}));
    let of = |limit: &str| {
        let mut target = provisioned("t", &["n1"], None);
        let container = json!({"name": "server", "image": {"reference": "r"}, "command": ["serve", "--tensor-parallel-size=4"], "env": [], "restarts": 0, "limits": {"nvidia.com/gpu": limit}});
        target["pods"] = json!([{"name": "p", "uid": "u", "node": "n1", "ready": true, "containers": [container]}]);
        environment(&[target], &[host("n1", 0, "", &json!({}))])
    };
    let (four, two) = (of("4"), of("2"));
    assert_eq!(changed(&keys(&plan, &[&four]), &keys(&plan, &[&two])), HARDWARE);
    let run = run(&[]);
    let context = RowContext { plan: &plan, environments: &[&four], ..run.context() };
    assert_eq!(tensor_parallel(&context, &plan.cases[0].case_id), Some(4));
}

/// A container of a probe sees no GPUs if only pods that request them get them, and the labels of the node's operator describe them.
#[test]
fn labels_of_nodes_are_facts_about_their_gpus_and_their_place() {
    let plan = declared(
        &json!({"hardware": {"gpu_model": "a guess", "gpu_count": "2"}, "place": {"region": "a guess", "queue": "gpu"}}),
    );
    let labels = [
        ("nvidia.com/gpu.product", "NVIDIA-H200"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "143771"),
        ("nvidia.com/cuda.driver-version.full", "570.86.15"),
        ("topology.kubernetes.io/region", "us-east-2"),
        ("topology.kubernetes.io/zone", "us-east-2a"),
        ("eks.amazonaws.com/nodegroup", "h200"),
    ];
    let labelled = |nodes: &[&str]| {
        let hosts: Vec<_> = ["n1", "n2"].iter().map(|name| host(name, 0, "", &json!({}))).collect();
        let mut found = environment(&[provisioned("t", &["n1", "n2"], None)], &hosts);
        for node in nodes {
            let facts = labels.iter().map(|(label, value)| (assay_manifest::node_label_key(node, label), (*value).to_owned()));
            found.placement.extend(facts);
        }
        found
    };
    let columns = |environment: &Environment| {
        let rows = dimensions(&plan, &[environment]).into_files().into_iter().flat_map(|(_, rows)| rows).collect::<Vec<_>>();
        let of = |column: &str| rows.iter().find_map(|row| row.text(column).map(str::to_owned));
        ["gpu_model", "facts_source", "driver_version", "region", "availability_zone", "queue", "node_pool"].map(of)
    };
    let some = |texts: [&str; 7]| texts.map(|text| Some(text.to_owned()));
    let both = labelled(&["n1", "n2"]);
    assert_eq!(columns(&both), some(["NVIDIA-H200", "observed", "570.86.15", "us-east-2", "us-east-2a", "gpu", "h200"]));
    let [model, source, driver, region, zone, queue, pool] = columns(&labelled(&["n1"]));
    assert_eq!([model, source, region, queue], ["a guess", "declared", "a guess", "gpu"].map(|text| Some(text.to_owned())));
    assert_eq!((driver, zone, pool), (None, None, None), "the nodes are not alike");
    assert_eq!(changed(&keys(&plan, &[&both]), &keys(&plan, &[&labelled(&["n1"])])), [true; 3], "software, hardware, place");
    let seen = environment(&[provisioned("t", &["n1"], None)], &[host("n1", 8, "H200", &json!({}))]);
    let mut seen_and_labelled = seen.clone();
    seen_and_labelled.placement.extend(both.placement.clone());
    assert_eq!(columns(&seen_and_labelled)[0].as_deref(), Some("H200"), "what a host sees comes first");
}

#[test]
fn the_server_s_command_says_how_many_devices_a_replica_has() {
    let of = |command: &[&str]| {
        find_option(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &TENSOR_PARALLEL_OPTIONS)
    };
    assert_eq!(of(&["vllm", "serve", "m", "--tensor-parallel-size", "8"]), Some(8));
    assert_eq!(of(&["sh", "-c", "exec vllm serve m -tp 2"]), Some(2));
    assert_eq!(of(&["sglang", "--tp-size=4"]), Some(4));
    assert_eq!((of(&["serve", "--tp"]), of(&["serve", "--tp", "many"]), of(&["serve"])), (None, None, None));
}

#[test]
fn targets_of_one_run_have_rows_of_their_own() {
    let target = |name: &str, model: &str| json!({"name": name, "kind": "endpoint", "command": [], "env": [], "ready_timeout_ns": "1", "hardware": {"gpu_model": model}});
    let mut plan = serde_json::to_value(with_targets(&[target("t", "H200"), target("u", "A100")])).expect("json");
    let mut case = plan["cases"][0].clone();
    (case["case_id"], case["target"]) = (json!("w.u.default"), json!("u"));
    plan["cases"].as_array_mut().expect("a list").push(case);
    let plan: Plan = serde_json::from_value(plan).expect("a plan");
    let found = dimensions(&plan, &[]);
    let hardware = [0, 1].map(|case| found.target_keys(&plan, &plan.cases[case].case_id).expect("keys").hardware.clone());
    assert_ne!(hardware[0], hardware[1]);
    let files = found.into_files();
    let rows = |table: &'static Table| files.iter().find(|(of, _)| *of == table).map(|(_, rows)| rows).expect("a file");
    let ids: Vec<_> = rows(&HARDWARE_TOPOLOGY_DIM).iter().filter_map(|row| row.text(ROW_ID)).collect();
    assert!(ids.len() == 2 && hardware.iter().all(|id| ids.contains(&id.as_str())));
    assert_eq!(rows(&SOFTWARE_VERSION_DIM).len(), 1, "equal rows are one");
}

#[test]
fn the_software_of_this_machine_is_not_that_of_a_remote_endpoint() {
    let plan = declared(&json!({}));
    let unknown = json!({"name": "t", "roles": ["target"], "facts": HostFacts::unknown("nobody looked")});
    let environment = environment(&[provisioned("t", &["t"], None)], &[unknown]);
    let found = dimensions(&plan, &[&environment]);
    let files = found.into_files();
    let row = &files[0].1[0];
    assert_eq!(
        (row.get("runtime_version"), row.get("compiler_version"), row.get("other_versions")),
        (Some(&Value::Null), Some(&Value::Null), Some(&Value::Null))
    );
}

#[test]
fn every_column_of_a_dimension_has_a_writer() {
    let mut plan = serde_json::to_value(declared(&json!({
        "image": {"reference": "r", "digest": digest("image")}, "hardware": {"interconnect": "IB"},
        "software": {"framework": "PyTorch 2.9", "cuda": "13.0", "nccl": "2.28"},
        "place": {"region": "eu", "availability_zone": "eu-1", "node_pool": "gpu", "queue": "load", "resource_flavor": "h200", "tenant_mode": "shared"},
    })))
    .expect("json");
    plan["queries"] = json!([{"path": "q.sql", "origin": "q.sql", "executable": false, "artifact": {"name": "q", "digest": digest("q"), "size": "1", "media_type": "x"}}]);
    let workload = &mut plan["workloads"][0];
    workload["dimensions"] = json!({
        "model": "m", "precision": "fp8", "protocol": "openai", "deployment_model": "disaggregated", "stack": "vllm", "batching_policy": "continuous",
    });
    workload["indicator"] = json!({
        "script": {"path": "run.sh", "origin": "w/run.sh", "executable": true, "artifact": {"name": "s", "digest": digest("s"), "size": "1", "media_type": "x"}},
        "files": [], "parameters": {"SIZE": "1"}, "time_limit_ns": "1",
    });
    let artifact = |name: &str| json!({"name": name, "digest": digest(name), "size": "1", "media_type": "x"});
    let prompts = json!({
        "from": "dataset", "format": "jsonl", "file": {"path": "p", "origin": "p", "executable": false, "artifact": artifact("p")},
        "rows": artifact("rows"), "index": artifact("index"),
        "summary": {
            "read": "1", "rows": "1", "without_prompt": "0", "too_long": "0", "truncated": "0", "recorded_outputs": "0",
            "input_tokens": {"least": 1, "most": 1, "sum": "1"},
        },
    });
    workload["serving"] = json!({
        "api": "chat", "model": "m", "arrival": {"law": "poisson"}, "prompts": prompts,
        "output": {"law": "fixed", "tokens": 5}, "exact_output": true, "continuous_usage": false, "batch": 1, "body": {}, "requests": "4",
        "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt", "streaming": true, "capture": "none", "slos": [],
        "tokenizer": {"name": "common-words", "digest": digest("words")},
    });
    let plan: Plan = serde_json::from_value(plan).expect("a plan");
    let hosts = [host("n1", 8, "H200", &json!({})), host("n2", 8, "H200", &json!({"cpu_model": "EPYC"}))];
    let environment = environment(&[provisioned("t", &["n1", "n2"], Some("0.31.0"))], &hosts);
    for (table, rows) in dimensions(&plan, &[&environment]).into_files() {
        assert_filled(table, &rows, &[]);
    }
}

/// The fixture's target runs as a pod on a node whose driver was not asked; dcgm-exporter labels its GPUs.
fn on_node(hosts: &[Json]) -> Environment {
    let mut target = provisioned("t", &["node-1"], None);
    target["pods"] = json!([{"name": "p", "uid": "p-uid", "node": "node-1", "ready": true, "containers": []}]);
    environment(&[target], hosts)
}

fn labelled(uuid: &str, pod: Option<&str>, model: &str, driver: &str) -> LabelledGpu {
    LabelledGpu {
        uuid: uuid.to_owned(),
        node_name: Some("node-1".to_owned()),
        pod_uid: pod.map(str::to_owned),
        model: Some(model.to_owned()),
        driver_version: Some(driver.to_owned()),
        origin: LabelOrigin::Prometheus,
    }
}

/// The model, the number and the driver of the fixture's GPUs with their origins, and the issues.
fn gpu_facts(plan: &Plan, environment: &Environment, labels: &[LabelledGpu]) -> String {
    let dimensions = dimensions_with(plan, &[environment], labels);
    let issues: Vec<String> = dimensions.issues.iter().map(|issue| format!("{}: {}", issue.code, issue.detail)).collect();
    let files = dimensions.into_files();
    let of = |table: &Table, column: &str| {
        let rows = files.iter().find(|(other, _)| other.name == table.name).map(|(_, rows)| rows).expect("rows");
        match rows[0].get(column) {
            Some(Value::Int(count)) => count.to_string(),
            _ => rows[0].text(column).unwrap_or("-").to_owned(),
        }
    };
    let hardware = ["gpu_model", "gpu_count", "gpu_source"].map(|column| of(&HARDWARE_TOPOLOGY_DIM, column));
    let software = ["driver_version", "driver_source"].map(|column| of(&SOFTWARE_VERSION_DIM, column));
    [hardware.join(", "), software.join(", ")].into_iter().chain(issues).collect::<Vec<_>>().join("; ")
}

#[test]
fn labels_of_an_exporter_state_what_the_hosts_do_not() {
    let unseen = on_node(&[host("node-1", 0, "", &json!({}))]);
    let labels = [labelled("a", Some("p-uid"), "NVIDIA H200", "570"), labelled("b", Some("of-others"), "Tesla T4", "570")];
    let declared = declared(&json!({"hardware": {"gpu_model": "a guess", "gpu_count": "8"}, "software": {"driver": "a guess"}}));
    insta::assert_snapshot!(gpu_facts(&declared, &unseen, &labels), @"NVIDIA H200, 1, exporter_labels; 570, exporter_labels");
    let scraped = labels.clone().map(|gpu| LabelledGpu { origin: LabelOrigin::Scrape, ..gpu });
    insta::assert_snapshot!(gpu_facts(&declared, &unseen, &scraped), @"NVIDIA H200, 1, scrape_labels; 570, scrape_labels");
    insta::assert_snapshot!(gpu_facts(&declared, &unseen, &[]), @"a guess, 8, declared; a guess, declared");
    insta::assert_snapshot!(
        gpu_facts(&plan(1), &unseen, &[labelled("a", None, "NVIDIA H200", "570"), labelled("b", None, "Tesla T4", "570")]),
        @"-, -, -; 570, exporter_labels; gpu_labels_unjoined: target `t`: its nodes have GPUs of several models, and no series has the UID of one of its pods"
    );
}

#[test]
fn the_driver_of_the_host_stands_and_labels_that_contradict_it_are_named() {
    let seen = on_node(&[host("node-1", 1, "NVIDIA H200", &json!({}))]);
    let same = labelled("GPU-node-1-0", Some("p-uid"), "NVIDIA H200", "570.86");
    insta::assert_snapshot!(gpu_facts(&plan(1), &seen, &[same]), @"NVIDIA H200, 1, host; 570.86, host");
    let other = labelled("GPU-node-1-0", Some("p-uid"), "NVIDIA H100", "580");
    insta::assert_snapshot!(
        gpu_facts(&plan(1), &seen, &[other]),
        @"NVIDIA H200, 1, host; 570.86, host; gpu_facts_differ: target `t`: the driver of the GPU `GPU-node-1-0` is `570.86` by the driver on its host, and `580` in labels; the model of the GPU `GPU-node-1-0` is `NVIDIA H200` by the driver on its host, and `NVIDIA H100` in labels"
    );
}
