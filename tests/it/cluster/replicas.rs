//! The pods behind a Service, each read and flushed at its own address.

use assay_record::Record;
use serde_json::{Value, json};

use super::{ClusterUser, Installation, restricted, shared_installation, wait_until};
use crate::pipeline::{list, text};
use crate::replicas::trace;
use crate::serving;
use crate::support::PIPELINE;
use crate::traces::{metric, records};

const NAMES: [&str; 4] = ["four-0", "four-1", "four-2", "four-3"];

const SERVER: [&str; 7] = ["/assay/assay-simulator", "--listen", "0.0.0.0:8000", "--profile", "fast", "--model", serving::MODEL];

/// Creates four simulators and the Service before them in a namespace of their owner, and waits until all are ready.
fn bring_up(at: &Installation, namespace: &str) {
    at.lab.kubectl(&["create", "namespace", namespace]).success();
    let labels = json!({"app": "four"});
    let mut spec = restricted(&at.lab.image, &SERVER);
    spec["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8000}]);
    spec["containers"][0]["readinessProbe"] = json!({"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1});
    let pods = NAMES.map(|name| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec})
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "four", "namespace": namespace},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]},
    });
    for object in pods.iter().chain([&service]) {
        // A new namespace accepts no pod until it has a service account.
        wait_until("the object is taken", || {
            let ran = at.lab.kubectl_with(&["apply", "--server-side", "--filename", "-"], &object.to_string());
            (ran.code == 0).then_some(())
        });
    }
    at.lab.kubectl(&["--namespace", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout", "180s"]).success();
}

/// Gives the installation the rights that an administrator renders for a namespace of servers.
fn grant(at: &Installation, person: &ClusterUser<'_>, namespace: &str) {
    let render =
        ["render", "kubernetes", "--namespace", &at.namespace, "--image", &at.lab.image, "--serving-namespace", namespace];
    let objects = person.fixture.assay(&render).success().stdout;
    let rights: Vec<_> = objects.split("---\n").filter(|object| object.contains(&format!("namespace: {namespace}\n"))).collect();
    at.lab.kubectl_with(&["apply", "--server-side", "--filename", "-"], &rights.join("---\n")).success();
}

/// Writes a replay on an address, with a connection for each request, so that the Service spreads them.
fn write(person: &ClusterUser<'_>, address: &str) {
    let load = "mode: closed, concurrency: [1], requests: 1";
    person.pipeline_on(&format!("{{name: four, kind: endpoint, url: '{address}', ready: {{http: /health, timeout: 3m}}}}"), load);
    person.fixture.write("workloads/chat/trace.jsonl", &trace());
    let fields = "  batching_policy: none
  cache: cold_flush
  load: {mode: replay, speed: [1], connections: never}
  trace: {path: trace.jsonl, format: mooncake}
";
    serving::workload_of(&person.fixture, "chat", fields);
    let pipeline = std::fs::read_to_string(person.fixture.repo().join(PIPELINE)).expect("a pipeline");
    let pipeline = pipeline.replace("trials: {count: 1,", "trials: {count: 2,").replace("cpu: 100m", "cpu: 500m");
    person.fixture.write(PIPELINE, &pipeline);
    person.fixture.commit("a trace");
}

/// Returns the inference requests that a pod was sent, as it tells them itself.
fn requests_of(at: &Installation, namespace: &str, pod: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:8000/proxy/truth");
    let truth = at.lab.kubectl(&["get", "--raw", &path]).success().stdout;
    let lines = truth.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    lines.filter(|line| line["kind"] == "request").collect()
}

/// Four pods behind a Service, each of which counts by itself: together they count what the client counts, requests, lengths and cached tokens.
#[test]
fn the_pods_behind_a_service_are_found_and_their_counts_add_up() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    let namespace = format!("{}-four", at.namespace);
    bring_up(at, &namespace);
    write(&person, &format!("http://four.{namespace}.svc"));

    // Without the right to read the pods behind it, the Service is one server.
    let unread = person.run("unread", &["--trust", &person.trust()]).success();
    assert!(unread.stderr.contains("`--serving-namespace"), "{}", unread.stderr);
    assert!(person.fixture.manifest("unread", "provision")["body"]["targets"][0].get("replicas").is_none());
    let before: Vec<usize> = NAMES.iter().map(|pod| requests_of(at, &namespace, pod).len()).collect();

    grant(at, &person, &namespace);
    person.run("four", &["--trust", &person.trust()]).success();
    let verified = person.fixture.assay(&["verify", "four", "--trust", &person.trust(), "--recompute"]).success();
    assert!(verified.stdout.contains("level 4 (recomputed) of 4 reached"), "{}", verified.stdout);

    let environment = &person.fixture.manifest("four", "provision")["body"];
    let replicas = list(&environment["targets"][0]["replicas"]);
    assert_eq!(replicas.iter().map(|replica| text(&replica["pod"])).collect::<Vec<_>>(), NAMES);
    for replica in replicas {
        let pod = at.lab.get(&namespace, &["pod", text(&replica["pod"])]);
        assert_eq!(replica["address"], format!("http://{}:8000", text(&pod["status"]["podIP"])));
    }
    let checks = list(&person.fixture.manifest("four", "collect")["body"]["cross_checks"]).clone();
    for what in ["requests", "output_tokens"] {
        let of_kind: Vec<&Value> = checks.iter().filter(|check| check["what"] == what).collect();
        assert!(!of_kind.is_empty() && of_kind.iter().all(|check| check["outcome"] == "agrees"), "{checks:#?}");
        assert!(of_kind.iter().all(|check| check["client"] == check["endpoint"]), "{checks:#?}");
    }
    for recording in person.fixture.pointers("four", "record").into_iter().map(|found| found.load(&person.fixture.store())) {
        let sources = list(&recording["body"]["series"]).iter().map(|series| text(&series["source"]).to_owned());
        let of_servers: Vec<String> = sources.filter(|source| source.starts_with("endpoint/")).collect();
        assert_eq!(of_servers, ["endpoint/four.1", "endpoint/four.2", "endpoint/four.3", "endpoint/four.4"]);
    }

    let sent: Vec<Record> = records(&person.fixture, "four").into_iter().flatten().collect();
    let of_pods = NAMES.iter().zip(before).map(|(pod, before)| requests_of(at, &namespace, pod).split_off(before));
    let of_pods: Vec<Vec<Value>> = of_pods.collect();
    assert!(of_pods.iter().all(|requests| requests.len() > 1), "the Service gave each of them some");
    let served: Vec<&Value> = of_pods.iter().flatten().collect();
    assert_eq!(served.len(), sent.len() + 1, "and the test request of provision");
    let number = |request: &Value, name: &str| request[name].as_u64().expect("a number");
    let mut lengths: Vec<u64> = sent.iter().map(|record| u64::from(record.input_tokens)).collect();
    let mut received: Vec<u64> = served.iter().map(|request| number(request, "prompt_tokens")).collect();
    lengths.sort_unstable();
    received.sort_unstable();
    assert_eq!(lengths, received[1..], "the test request is the shortest");
    let cached: u64 = sent.iter().map(|record| u64::from(record.cached_tokens.expect("the simulator tells"))).sum();
    assert!(cached > 0);
    assert_eq!(cached, served.iter().map(|request| number(request, "cached_tokens")).sum::<u64>());
    // Each attempt began with four empty caches: the first of the prompts with a beginning found nothing at its server.
    assert!(metric(&person.fixture, "four", "speed-1", "cached_share") < 0.95);
    person.assert_nothing_left("four");
    at.lab.kubectl(&["delete", "namespace", &namespace, "--wait=false"]).success();
}
