use assay_manifest::{Count, FactSource, TargetKind};
use proptest::prelude::*;

use super::*;
use crate::Headers;
use crate::testing::{Reply, Server};

fn query_server(replies: Vec<(&'static str, Reply)>) -> (Identity, Vec<String>) {
    let server = Server::with_replies(replies);
    let identity = Identity::query(&Client::new(Headers::default()), &server.url());
    (identity, server.paths())
}

fn version(replies: Vec<(&'static str, Reply)>) -> String {
    let fact = query_server(replies).0.version;
    format!("{:?} {}", fact.value, fact.how)
}

fn listed(reply: Reply) -> Result<Vec<String>, String> {
    let server = Server::with_replies(vec![("/v1/models", reply)]);
    let listed = Identity::query(&Client::new(Headers::default()), &server.url()).models;
    listed.map_err(|why| why.replace(&server.url(), ""))
}

#[test]
fn a_list_that_is_not_there_is_named_by_the_url_that_was_requested() {
    let server = Server::with_replies(vec![]);
    let url = server.url();
    let why = |own: &str| {
        let identity = Identity::query(&Client::new(Headers::default()), &format!("{url}{own}"));
        identity.models.expect_err("no list").replace(&url, "http://host")
    };
    assert_eq!(why(""), "GET http://host/v1/models: 404 Not Found");
    assert_eq!(why("/v2"), "GET http://host/v2/models: 404 Not Found");
    assert_eq!(why("/openai/v1"), "GET http://host/openai/v1/models: 404 Not Found");
}

#[test]
fn vllm_says_its_version_and_its_models() {
    let models = Reply::ok(r#"{"object":"list","data":[{"id":"qwen","root":"/models"},{"id":"llama"},{"id":"qwen"}]}"#);
    let (identity, paths) = query_server(vec![("/v1/models", models), ("/version", Reply::ok(r#"{"version":"0.11.0"}"#))]);
    assert_eq!(identity.version, Fact::observed("0.11.0".to_owned(), "GET /version"));
    assert_eq!(identity.models, Ok(vec!["llama".to_owned(), "qwen".to_owned()]), "sorted, each once");
    assert_eq!(paths, ["/v1/models", "/version", "/metrics"], "no question more than it takes");
}

#[test]
fn a_key_that_a_server_repeats_is_in_no_identity() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "hunter/22+ ").expect("written");
    let from_file = file.path().to_str().map(str::to_owned);
    let key = assay_manifest::EnvVar { name: "x-key".to_owned(), value: None, from_env: None, from_file, scheme: None };
    let server = Server::with_replies(vec![
        ("/v1/models", Reply::ok(r#"{"data":[{"id":"\u0068unter\/22\u002B"},{"id":"a-hunter/22+"},{"id":"b"}]}"#)),
        ("/version", Reply::ok(r#"{"version":"1-hunter\/22+"}"#)),
    ]);
    let client = Client::new(Headers::read(&[key]).expect("readable"));
    let identity = Identity::query(&client, &server.url());
    assert_eq!(identity.version.value.as_deref(), Some("1-[secret]"));
    assert_eq!(identity.models, Ok(vec!["[secret]".to_owned(), "a-[secret]".to_owned(), "b".to_owned()]));
}

#[test]
fn other_servers_say_it_elsewhere() {
    insta::assert_snapshot!(version(vec![("/get_server_info", Reply::ok(r#"{"model_path":"m","version":"0.5.2"}"#))]), @r#"Some("0.5.2") GET /get_server_info"#);
    insta::assert_snapshot!(version(vec![("/info", Reply::ok(r#"{"model_id":"m","version":"3.3.6"}"#))]), @r#"Some("3.3.6") GET /info"#);
    let models = |server: &str| Reply::with_body("200 OK", &[&format!("server: {server}")], r#"{"data":[]}"#);
    insta::assert_snapshot!(version(vec![("/v1/models", models("llama.cpp/b4000"))]), @"None GET /version: 404 Not Found; GET /get_server_info: 404 Not Found; GET /info: 404 Not Found; the `Server` header names no version");
    insta::assert_snapshot!(version(vec![("/v1/models", models("TensorRT/1.2"))]), @r#"Some("TensorRT/1.2") `Server` header of GET /v1/models"#);
    insta::assert_snapshot!(version(vec![]), @"None GET /version: 404 Not Found; GET /get_server_info: 404 Not Found; GET /info: 404 Not Found; no `Server` header");
}

#[test]
fn the_server_is_known_by_the_owner_of_its_models_or_by_where_it_has_a_version() {
    let server = |replies| {
        let fact = query_server(replies).0.server;
        format!("{} {}", fact.value.as_deref().unwrap_or("-"), fact.how)
    };
    let models = |list: &'static str| ("/v1/models", Reply::ok(list));
    let vllm = r#"{"data":[{"id":"a","owned_by":"vllm"},{"id":"lora","owned_by":"vllm"}]}"#;
    assert_eq!(server(vec![models(vllm)]), "vllm `owned_by` of GET /v1/models");
    assert_eq!(server(vec![models(r#"{"data":[{"id":"a","owned_by":"sglang"}]}"#)]), "sglang `owned_by` of GET /v1/models");
    let info = ("/get_server_info", Reply::ok(r#"{"version":"0.5.2"}"#));
    assert_eq!(server(vec![models(r#"{"data":[{"id":"a"}]}"#), info]), "sglang GET /get_server_info");
    assert_eq!(server(vec![("/info", Reply::ok(r#"{"version":"3.3.6"}"#))]), "tgi GET /info");
    // A version alone identifies no server, and neither do an unknown owner or two owners.
    let version = ("/version", Reply::ok(r#"{"version":"0.11.0"}"#));
    let unknown = "- the models have no owner that tells a server, and no version was at a path that does";
    assert_eq!(server(vec![models(r#"{"data":[{"id":"a","owned_by":"me"}]}"#), version]), unknown);
    assert_eq!(server(vec![models(r#"{"data":[{"id":"a","owned_by":"vllm"},{"id":"b","owned_by":"sglang"}]}"#)]), unknown);
    assert_eq!(server(vec![models(r#"{"data":[]}"#)]), unknown);
}

#[test]
fn a_version_is_a_short_text_in_json() {
    let said = |body: &str| version(vec![("/version", Reply::ok(body))]).split(';').next().unwrap_or_default().to_owned();
    insta::assert_snapshot!(said("0.11.0"), @"None GET /version: the response is not JSON");
    insta::assert_snapshot!(said("11"), @"None GET /version: the response has no text `version`");
    insta::assert_snapshot!(said(r#"{"version":7}"#), @"None GET /version: the response has no text `version`");
    insta::assert_snapshot!(said(r#"{"version":"a\u001b[31mb"}"#), @"None GET /version: the `version` in the response is empty, too long or not printable");
    insta::assert_snapshot!(said(&format!(r#"{{"version":"{}"}}"#, "1".repeat(301))), @"None GET /version: the `version` in the response is empty, too long or not printable");
}

#[test]
fn what_is_no_list_of_models_is_none() {
    let why = |reply| listed(reply).expect_err("no list");
    insta::assert_snapshot!(why(Reply::status("401 Unauthorized")), @"GET /v1/models: 401 Unauthorized");
    insta::assert_snapshot!(why(Reply::ok("<html>")), @"GET /v1/models: the response is not JSON");
    insta::assert_snapshot!(why(Reply::ok(b"\xff\xfe")), @"GET /v1/models: the response is not JSON");
    insta::assert_snapshot!(why(Reply::ok("{}")), @"GET /v1/models: the response has no list `data`");
    insta::assert_snapshot!(why(Reply::ok(r#"{"data":[{"id":"a"},{"name":"b"}]}"#)), @"GET /v1/models: a model in the list has no usable `id`");
    insta::assert_snapshot!(why(Reply::endless()), @"GET /v1/models: the response is larger than the limit of 1048576 bytes");
    let many = vec![r#"{"id":"a"}"#; MAX_MODELS + 1].join(",");
    insta::assert_snapshot!(why(Reply::ok(format!(r#"{{"data":[{many}]}}"#))), @"GET /v1/models: the list has 1001 models, more than 1000");
    assert_eq!(listed(Reply::ok(r#"{"data":[]}"#)), Ok(vec![]), "an empty list is a list");
}

#[test]
fn who_is_not_there_is_not_asked_again() {
    let url = Server::with_replies(vec![]).url();
    let identity = Identity::query(&Client::new(Headers::default()), &url);
    assert_eq!(identity.version.source, FactSource::Unknown);
    insta::assert_snapshot!(identity.version.how, @"GET /v1/models: Connection refused (os error 111)");
    insta::assert_snapshot!(identity.models.expect_err("no list").replace(&url, ""), @"GET /v1/models: Connection refused (os error 111)");
}

fn recorded(version: Option<&str>, models: &[&str]) -> ProvisionedTarget {
    ProvisionedTarget {
        id: "t".parse().expect("a name"),
        kind: TargetKind::Endpoint,
        hosts: vec![],
        address: None,
        version: version.map_or_else(|| Fact::unknown("404"), |version| Fact::observed(version.to_owned(), "GET /version")),
        server: None,
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        process_start_s: None,
        cache_block_tokens: None,
        replicas: Vec::new(),
        image: None,
        pods: vec![],
        pod_selector: None,
        settings: std::collections::BTreeMap::new(),
        executables: Vec::new(),
        allowed_cpus: None,
        core_cpus: None,
        probes: vec![],
    }
}

#[test]
fn a_process_that_started_after_provisioning_is_a_restart() {
    let provisioned = Instant::from_unix_ns(1_000_000_000_000);
    let target = |start| ProvisionedTarget { process_start_s: start, ..recorded(None, &[]) };
    let now = |start| Identity {
        missing: MissingFacts::default(),
        presence: Presence::Responded,
        version: Fact::unknown("x"),
        server: Fact::unknown("x"),
        models: Err("none".to_owned()),
        process_start_s: start,
        cache_block_tokens: None,
        pods: None,
    };
    let restart = now(Some(1_001)).restart_since(&target(Some(Count(900))), provisioned).expect("a restart");
    insta::assert_snapshot!(restart, @"its process started at 1970-01-01T00:16:41Z, when it was provisioned at 1970-01-01T00:15:00Z");
    assert_eq!(now(Some(950)).restart_since(&target(Some(Count(900))), provisioned), None, "another server behind the address");
    assert_eq!(now(Some(900)).restart_since(&target(Some(Count(900))), provisioned), None);
    assert_eq!(now(None).restart_since(&target(Some(Count(900))), provisioned), None);
    assert_eq!(now(Some(1_001)).restart_since(&target(None), provisioned), None);
}

#[test]
fn the_start_of_a_process_is_read_from_its_metrics() {
    let metrics = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7641e+09\nother 1\n";
    assert_eq!(parse_process_start(metrics), Some(1_764_100_000));
    assert_eq!(parse_process_start(&metrics.replace("1.7641e+09", "1764100000.25")), Some(1_764_100_000));
    assert_eq!(parse_process_start(&format!("{metrics}process_start_time_seconds 5\n")), None, "several processes");
    for text in ["", "process_start_time_seconds", "process_start_time_seconds NaN", "process_start_time_seconds -1"] {
        assert_eq!(parse_process_start(text), None, "{text}");
    }
}

#[test]
fn another_version_or_another_list_is_another_endpoint() {
    let now = Identity {
        missing: MissingFacts::default(),
        presence: Presence::Responded,
        version: Fact::observed("1".to_owned(), "GET /info"),
        server: Fact::unknown("x"),
        models: Ok(vec!["a".to_owned()]),
        process_start_s: None,
        cache_block_tokens: None,
        pods: None,
    };
    assert_eq!(now.differs_from(&recorded(Some("1"), &["a"])), None, "where it was read is no difference");
    insta::assert_snapshot!(now.differs_from(&recorded(Some("2"), &["a"])).expect("another"), @"version 2 when it was provisioned, 1 now");
    insta::assert_snapshot!(now.differs_from(&recorded(None, &["a"])).expect("another"), @"version unknown (404) when it was provisioned, 1 now");
    insta::assert_snapshot!(now.differs_from(&recorded(Some("1"), &[])).expect("another"), @"models [] when it was provisioned, [a] now");
    let silent = Identity {
        missing: MissingFacts::default(),
        presence: Presence::Responded,
        version: Fact::unknown("x"),
        server: Fact::unknown("x"),
        models: Err("GET /v1/models: gone".to_owned()),
        process_start_s: None,
        cache_block_tokens: None,
        pods: None,
    };
    assert_eq!(silent.differs_from(&recorded(None, &[])), None, "it never said anything");
    insta::assert_snapshot!(silent.differs_from(&recorded(None, &["a"])).expect("another"), @"models [a] when it was provisioned, none (GET /v1/models: gone) now");
    assert!(!silent.contradicts(&recorded(Some("1"), &["a"])), "it reports nothing");
    assert!(now.contradicts(&recorded(Some("2"), &["a"])) && now.contradicts(&recorded(Some("1"), &["b"])));
    assert!(!now.contradicts(&recorded(Some("1"), &["a"])));
    // Overload makes a server silent; what it never had a place for, no load takes away.
    let other = |version, models| Identity { missing: MissingFacts { version, models }, ..silent.clone() };
    assert!(other(true, false).contradicts(&recorded(Some("1"), &[])) && other(false, true).contradicts(&recorded(None, &["a"])));
    assert!(!other(true, true).contradicts(&recorded(None, &[])), "it had none then");
    assert!(
        !other(false, true).contradicts(&recorded(Some("1"), &[])) && !other(true, false).contradicts(&recorded(None, &["a"]))
    );
    let gone = Identity { presence: Presence::Gone("connection refused".to_owned()), ..silent };
    insta::assert_snapshot!(gone.differs_from(&recorded(None, &[])).expect("another"), @"it responded when it was provisioned, and does not now (connection refused)");
}

#[test]
fn other_pods_are_another_target_whatever_the_endpoint_reports() {
    let pod = |uid: &str| PodFacts {
        name: "p".to_owned(),
        uid: uid.to_owned(),
        node: "n".to_owned(),
        ready: true,
        role: None,
        containers: Vec::new(),
    };
    let now = |presence: Presence, pods: Option<Vec<PodFacts>>| Identity {
        missing: MissingFacts::default(),
        presence,
        version: Fact::unknown("x"),
        server: Fact::unknown("x"),
        models: Err("none".to_owned()),
        process_start_s: None,
        cache_block_tokens: None,
        pods,
    };
    let then = ProvisionedTarget { kind: TargetKind::Objects, pods: vec![pod("1")], ..recorded(Some("1"), &["a"]) };
    let change = |presence, pods| now(presence, pods).change_since(&then, Instant::from_unix_ns(0));
    assert_eq!(change(Presence::Silent, Some(vec![pod("1")])), None, "it may be busy");
    assert_eq!(change(Presence::Silent, None), None, "no cluster was asked");
    let gone = || Presence::Gone("connection reset".to_owned());
    let refused = || Presence::Refused("connection refused".to_owned());
    for presence in [gone(), refused()] {
        assert_eq!(change(presence, Some(vec![pod("1")])), None, "the end of a server that Assay did not start is measured");
    }
    assert_eq!(now(refused(), None).refusal(), Some("connection refused"));
    assert_eq!(now(gone(), None).refusal(), None, "a server may break connections");
    for presence in [Presence::Responded, Presence::Silent, gone(), refused()] {
        let change = change(presence, Some(vec![pod("2")])).expect("another");
        insta::allow_duplicates! { insta::assert_snapshot!(change, @"its pods changed since it was provisioned (gone: `p`; new: `p`)"); }
    }
}

#[test]
fn only_a_few_of_many_pods_are_named() {
    let pods: Vec<PodFacts> = (0..9)
        .map(|number| PodFacts {
            name: format!("p{number}"),
            uid: number.to_string(),
            node: "n".to_owned(),
            ready: true,
            role: None,
            containers: Vec::new(),
        })
        .collect();
    insta::assert_snapshot!(describe_pod_change(&pods, &[]).expect("all have gone"), @"its pods changed since it was provisioned (gone: `p0`, `p1`, `p2` and 6 more)");
}

#[test]
fn a_held_target_that_is_gone_or_another_has_changed() {
    let held = ProvisionedTarget { kind: TargetKind::Process, ..recorded(None, &[]) };
    let endpoint = recorded(None, &[]);
    let gone = Identity {
        missing: MissingFacts::default(),
        presence: Presence::Gone("connection refused".to_owned()),
        version: Fact::unknown("x"),
        server: Fact::unknown("x"),
        models: Err("none".to_owned()),
        process_start_s: None,
        cache_block_tokens: None,
        pods: None,
    };
    let at = Instant::from_unix_ns(0);
    assert!(gone.change_since(&held, at).is_some());
    assert_eq!(gone.change_since(&endpoint, at), None, "this is measured");
    let busy = Identity { presence: Presence::Silent, ..gone };
    assert_eq!(busy.change_since(&held, at), None, "it may be busy");
}

proptest! {
    #[test]
    fn every_response_is_understood_or_explained(bytes in prop::collection::vec(any::<u8>(), 0..200), status in 100_u16..1000) {
        let response = EndpointResponse { status, server: None, body: bytes };
        let _ = (models(&response), text_at(&response, "version"));
    }

    #[test]
    fn a_list_holds_printable_names_only(ids in prop::collection::vec(".{0,10}", 0..10)) {
        let data: Vec<_> = ids.iter().map(|id| serde_json::json!({"id": id})).collect();
        let body = serde_json::to_vec(&serde_json::json!({"data": data})).expect("JSON");
        if let Ok(models) = models(&EndpointResponse { status: 200, server: None, body }) {
            prop_assert!(models.is_sorted() && models.iter().all(|model| is_name(model)));
        }
    }
}

#[test]
fn a_replica_that_is_gone_or_another_has_changed() {
    let now = |presence: Presence, version: &str, start: Option<u64>| Identity {
        missing: MissingFacts::default(),
        presence,
        version: Fact::observed(version.to_owned(), "GET /version"),
        server: Fact::unknown("x"),
        models: Ok(vec!["a".to_owned()]),
        process_start_s: start,
        cache_block_tokens: None,
        pods: None,
    };
    let recorded = now(Presence::Responded, "1", Some(900)).to_replica("http://one");
    let change = |presence, version, start| now(presence, version, start).change_of_replica(&recorded);
    assert_eq!(change(Presence::Responded, "1", Some(900)), None);
    assert_eq!(change(Presence::Responded, "1", None), None, "its metrics may be missing for once");
    assert_eq!(change(Presence::Silent, "2", Some(950)), None, "it is busy, and reports nothing");
    let gone = Presence::Gone("connection refused".to_owned());
    let changes = [change(gone, "1", None), change(Presence::Responded, "2", None), change(Presence::Responded, "1", Some(901))];
    insta::assert_snapshot!(changes.map(|change| change.expect("a change")).join("\n"), @r"
    the replica http://one does not respond any more (connection refused)
    the replica http://one reports another version than when it was provisioned
    the replica http://one started again since it was provisioned
    ");
}
