use std::fs::File;
use std::io::Read as _;

use assay_manifest::Digest;
use assay_probe::testing::{Reply, Server};
use assay_stage::ErrorCode;
use serde_json::json;

use super::*;

const START: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn source(url: &str, queries: usize) -> PrometheusSource {
    let query = |number: usize| {
        json!({
            "name": format!("m{number}"), "query": format!("m{number}"), "kind": "gauge", "unit": "W", "scope_kind": "gpu",
            "scope_labels": ["UUID"], "missing": "off",
        })
    };
    let pack = json!({
        "name": "own", "digest": Digest::compute(b""), "exporter": "an exporter", "resolution_ns": "1000000000",
        "queries": (0..queries).map(query).collect::<Vec<_>>(),
    });
    serde_json::from_value(json!({"url": url, "match": {"cluster": ["a"]}, "packs": [pack]})).expect("a source")
}

fn attempt(number: u32, seconds: i64) -> AttemptToAsk {
    let start = START + i64::from(number) * 100 * SECOND;
    AttemptToAsk {
        block: Block { index: 0, incarnation: 0 },
        trial_id: format!("only.local.default.once.t{number}").parse().expect("an id"),
        attempt: 0,
        start: Instant::from_unix_ns(start),
        end: Instant::from_unix_ns(start + seconds * SECOND),
    }
}

fn lines(source: &PrometheusSource, attempts: &[AttemptToAsk]) -> Vec<QueryLine> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines");
    ask_prometheus(source, attempts, &path, || Ok(())).expect("whatever it does");
    let mut text = String::new();
    zstd::Decoder::new(File::open(&path).expect("a file")).and_then(|mut file| file.read_to_string(&mut text)).expect("packed");
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

/// Describes lines as `request of-query promql-or-error`.
fn described(lines: &[QueryLine]) -> Vec<String> {
    let one = |line: &QueryLine| {
        let of = line.of.as_ref().map_or_else(String::new, |of| {
            let trial = of.trial_id.as_str().rsplit('.').next().unwrap_or_default();
            format!(" {trial}/{}", of.query)
        });
        let told = line.error.clone().or_else(|| line.promql.clone()).unwrap_or_default();
        format!("{:?}{of} {told}", line.request)
    };
    lines.iter().map(one).collect()
}

fn series() -> String {
    let result = json!([{"metric": {"UUID": "GPU-1"}, "values": [[1_700_000_001, "1"], [1_700_000_002, "2"]]}]);
    json!({"status": "success", "data": {"resultType": "matrix", "result": result}}).to_string()
}

fn empty() -> String {
    json!({"status": "success", "data": {"resultType": "vector", "result": []}}).to_string()
}

#[test]
fn every_query_of_every_attempt_is_asked_with_the_labels_of_the_pipeline() {
    let server = Server::start(|request| Reply::ok(if request.path.contains("m1") { empty() } else { series() }));
    let found = lines(&source(&server.at(""), 2), &[attempt(0, 3), attempt(1, 3)]);
    assert_eq!(
        described(&found),
        [
            "Clock ",
            "Samples t0/0 m0{cluster=\"a\"}[3002ms]",
            "Samples t0/1 m1{cluster=\"a\"}[3002ms]",
            "Presence t0/1 count(count_over_time(m1{cluster=\"a\"}[1h]))",
            "Samples t1/0 m0{cluster=\"a\"}[3002ms]",
            "Samples t1/1 m1{cluster=\"a\"}[3002ms]",
            "Presence t1/1 count(count_over_time(m1{cluster=\"a\"}[1h]))",
            "Clock ",
        ]
    );
    assert_eq!(found[1].body.as_deref(), Some(series().as_str()), "the body is kept as it came");
    let paths: Vec<_> = server.requests().into_iter().map(|request| request.path).collect();
    assert!(paths[1].ends_with("&time=1700000003.001"), "{paths:?}");
}

#[test]
fn a_response_that_is_too_large_is_asked_for_in_halves() {
    let server = Server::start(|request| {
        let range: String =
            request.path.split("%5B").nth(1).unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
        let too_long = range.parse::<u64>().is_ok_and(|ms| ms > 6_000);
        let refusal =
            r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}"#;
        if too_long { Reply::with_body("422 Unprocessable Entity", &[], refusal) } else { Reply::ok(series()) }
    });
    let found = lines(&source(&server.at(""), 1), &[attempt(0, 20), attempt(1, 5)]);
    let asked: Vec<_> = described(&found);
    assert_eq!(asked.iter().filter(|line| line.starts_with("Samples t0/0")).count(), 4, "{asked:?}");
    assert_eq!(asked.iter().filter(|line| line.contains("[5002ms]")).count(), 5, "{asked:?}");
}

#[test]
fn a_server_that_fails_is_asked_no_further() {
    for (reply, why) in [
        (Reply::ok("<html>sign in</html>"), ""),
        (Reply::with_body("401 Unauthorized", &[], "no"), "401 Unauthorized"),
        (Reply::with_body("302 Found", &["location: http://elsewhere/"], ""), "302 Found"),
        (
            Reply::with_body("503 Service Unavailable", &[], r#"{"status":"error","error":"starting"}"#),
            "503 Service Unavailable: starting",
        ),
        (Reply::ok(b"\xff\xfe"), "the response is not UTF-8"),
        (Reply::ok(b"\x01\x01"), "the response has control characters"),
    ] {
        let server = Server::start(move |_| reply.clone());
        let found = lines(&source(&server.at(""), 3), &(0..50).map(|number| attempt(number, 3)).collect::<Vec<_>>());
        let last = described(&found).pop().expect("a line");
        assert_eq!(last, "Stopped 5 requests failed one after the other", "{why}");
        assert!(found.len() <= 8, "{found:?}");
        assert!(why.is_empty() || described(&found)[1].ends_with(why), "{:?}", described(&found));
        assert_eq!(server.requests().len(), found.len() - 1, "no redirect is followed");
    }
}

#[test]
fn limits_and_cancellation_hold_within_a_query() {
    let server = Server::start(|_| Reply::ok(series()));
    let source = source(&server.at(""), 1);
    // Seven parts of ten minutes.
    let long = attempt(0, 4_000);
    let folder = tempfile::tempdir().expect("a folder");
    let requests = std::cell::Cell::new(0);
    let check = || {
        requests.set(requests.get() + 1);
        if requests.get() > 3 { Err(Failure::new(ErrorCode::Cancelled, "cancelled")) } else { Ok(()) }
    };
    let failed =
        ask_prometheus(&source, std::slice::from_ref(&long), &folder.path().join("lines"), check).expect_err("cancelled");
    assert_eq!(failed.code, ErrorCode::Cancelled);
    assert_eq!(server.requests().len(), 4, "the clock and three parts");

    let path = folder.path().join("stopped");
    let mut lines = LineFile::create(&path).expect("a file");
    let began = Moment::now().checked_sub(MAX_TIME + Duration::from_secs(1)).expect("a machine that runs for ten minutes");
    let queries: Vec<&PackQuery> = source.queries().map(|(_, query)| query).collect();
    let client = client(&source).expect("a client");
    let mut asking =
        Asking { client, source: &source, queries, parts_ns: vec![MAX_PART_NS], lines: &mut lines, began, failures: 0 };
    let stopped = asking.ask_query(&long, 0, &|| Ok(())).expect("no failure");
    assert_eq!(stopped.as_deref(), Some("its responses took more than 600 s"));
    assert_eq!(server.requests().len(), 4, "nothing more was asked");
}

#[test]
fn a_body_without_an_end_is_cut_and_counted() {
    let server = Server::start(|_| Reply::endless());
    let found = lines(&source(&server.at(""), 9), &[attempt(0, 1)]);
    let last = described(&found).pop().expect("a line");
    assert_eq!(last, "Stopped 5 requests failed one after the other");
    assert!(found.iter().all(|line| line.body.is_none()));
}

#[test]
fn a_secret_that_is_missing_is_a_line_and_no_failure() {
    let mut source = source("http://127.0.0.1:1", 1);
    source.headers =
        serde_json::from_value(json!([{"name": "authorization", "from_env": "ASSAY_TEST_NO_SUCH_TOKEN", "scheme": "Bearer"}]))
            .expect("a header");
    assert_eq!(
        described(&lines(&source, &[attempt(0, 1)])),
        ["Stopped the header `authorization` comes from the environment variable `ASSAY_TEST_NO_SUCH_TOKEN`, which is not set"]
    );
}

#[test]
fn a_secret_that_the_server_repeats_is_masked() {
    let server = Server::start(|request| Reply::ok(request.header("authorization").unwrap_or_default()));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "hunter2-hunter2\n").expect("written");
    let mut source = source(&server.at(""), 1);
    let header = json!([{"name": "authorization", "from_file": file.path(), "scheme": "Bearer"}]);
    source.headers = serde_json::from_value(header).expect("a header");
    let found = lines(&source, &[attempt(0, 1)]);
    assert!(server.requests()[0].header("authorization").is_some_and(|sent| sent == "Bearer hunter2-hunter2"));
    assert_eq!(found[0].body.as_deref(), Some("Bearer [secret]"));
}
