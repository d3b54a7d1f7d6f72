//! `assay bench` over the real binaries: one command puts load on an endpoint, and its result is a run like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::replicas::Replica;
use crate::server::{AfterResponse, Server, complete_stream, json_response};
use crate::support::{CommandResult, Fixture, Pointer, binary, blob, copy_folder, files_under};

/// The run of [`bench_fixture`].
pub(crate) const RUN: &str = "benched";

/// Trials that take a fraction of a second.
const SHORT: [&str; 4] = ["--requests", "10", "--warmup", "0s"];

/// Runs two closed and two open loads on the simulator, with a JSON report. A busy machine slows its own client, which may cost
/// the open loads some of their trials, but never the closed ones.
pub(crate) fn bench_fixture() -> &'static (Fixture, CommandResult) {
    static BENCHED: OnceLock<(Fixture, CommandResult)> = OnceLock::new();
    BENCHED.get_or_init(|| {
        let fixture = Fixture::shared();
        let load = [
            "bench",
            "--simulator",
            "fast",
            "--concurrency",
            "1,4",
            "--rate",
            "50,100",
            "--scenario",
            "D(100,100)",
            "--trials",
            "3",
        ];
        let ran = fixture.assay(&[&load[..], &SHORT, &["--slo", "ttft=1s", "--run-id", RUN, "--json"]].concat()).success();
        (fixture, ran)
    })
}

/// Runs a bench of two closed loads against a scripted server to its end.
pub(crate) fn run_bench(fixture: &Fixture, server: &Server, run_id: &str) -> CommandResult {
    let url = server.url();
    let load = ["bench", "--url", &url, "--model", MODEL, "--concurrency", "1,2", "--trials", "2", "--run-id", run_id];
    fixture.assay(&[&load[..], &SHORT].concat())
}

/// The model of every scripted server here.
pub(crate) const MODEL: &str = "served";

/// Starts a server that responds to every third inference request with an error, and to the others correctly.
pub(crate) fn failing_server() -> Server {
    Server::start(MODEL, |request| match request.number % 3 {
        2 => (json_response("503 Service Unavailable", "{}"), AfterResponse::KeepAlive),
        _ => (complete_stream(), AfterResponse::KeepAlive),
    })
}

/// Starts a server that is healthy and names its model, but accepts no inference request.
pub(crate) fn refusing_server() -> Server {
    Server::start(MODEL, |_| (json_response("500 Internal Server Error", "{}"), AfterResponse::KeepAlive))
}

fn file(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Returns a document with all numbers as floats: a canonical document writes 0 for 0.0.
fn numbers_as_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(numbers_as_floats).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), numbers_as_floats(value))).collect(),
        other => other.clone(),
    }
}

/// Returns the points of a summary's body, by case and point joined in one word.
fn points(summary: &Value) -> BTreeMap<String, Value> {
    let name = |point: &Value| format!("{} {}", text(&point["case_id"]), text(&point["point_id"]));
    list(&summary["points"]).iter().map(|point| (name(point), point.clone())).collect()
}

#[test]
fn the_json_says_what_was_published() {
    let (fixture, ran) = bench_fixture();
    let shown = ran.json();
    let folder = fixture.published(RUN);
    let published = file(&folder.join("numbers.json"));
    let (numbers, files) = (list(&shown["numbers"]), list(&published["numbers"]));
    assert!(numbers.len() == files.len() && numbers.len() > 100, "{} and {} numbers", numbers.len(), files.len());
    for (number, file) in numbers.iter().zip(files) {
        // A count of trials is a number for programs, and a text in the signed document.
        let mut expected = numbers_as_floats(file);
        expected["n"] = json!(text(&file["n"]).parse::<f64>().expect("a count"));
        assert_eq!(numbers_as_floats(number), expected);
    }
    assert!(
        numbers_as_floats(&shown["summary"]) == numbers_as_floats(&fixture.manifest(RUN, "reduce")["body"]),
        "the summary is another"
    );
    assert_eq!(shown["grade"], json!({"requested": "exploratory", "given": "exploratory", "shortfalls": []}));
    let said = ["run_id", "pipeline", "status", "folder"].map(|name| text(&shown[name]).to_owned());
    let path = folder.canonicalize().expect("the folder is there").display().to_string();
    assert_eq!(said, [RUN, "bench", "succeeded", &path].map(str::to_owned));

    let is_it = |number: &&Value| {
        let of = |name: &str| text(&number[name]).to_owned();
        (of("point_id"), of("metric"), of("statistic")) == ("concurrency-4".into(), "e2e_ms_p50".into(), "median".into())
    };
    let number = numbers.iter().find(is_it).expect("it is published");
    // 100 tokens: the first after 5 ms, each later one 1 ms after the previous one.
    assert!(number["value"].as_f64().is_some_and(|milliseconds| milliseconds >= 104.0), "{number:#}");
    let walked = fixture.assay(&["trace", text(&number["address"]), "--recompute", "--json"]).success().json();
    assert_eq!(walked["value"], number["value"]);
    assert_eq!(walked["source"]["commit"], Value::Null, "nobody committed what was typed");
}

#[test]
fn a_run_is_listed_with_its_model_its_endpoint_and_its_headline() {
    let (fixture, ran) = bench_fixture();
    let listed = |store: &Path| {
        let listed = fixture.assay(&["runs", "--json", "--store", &store.display().to_string()]).success().json();
        list(&listed).iter().find(|run| run["run_id"] == RUN).expect("it is listed").clone()
    };
    let run = listed(&fixture.store());
    let summary = &ran.json()["summary"];
    assert_eq!((list(&run["models"]).len(), &run["endpoints"]), (1, &json!(["simulator"])), "{run:#}");
    let figure = &run["headline"];
    assert_eq!((&figure["metric"], &figure["unit"]), (&json!("ttft_ms_p99"), &json!("ms")), "{run:#}");
    let medians = list(&summary["points"]).iter().flat_map(|point| list(&point["metrics"]));
    let medians: Vec<f64> =
        medians.filter(|metric| metric["metric"] == "ttft_ms_p99").filter_map(|metric| metric["median"].as_f64()).collect();
    assert!(figure["value"].as_f64().is_some_and(|value| medians.contains(&value)), "{figure} of {medians:?}");
    let table = fixture.assay(&["runs"]).success().stdout;
    assert!(table.lines().any(|line| line.starts_with(RUN) && line.contains(" TTFT p99 ") && line.contains(" ms ")), "{table}");
    // From the cache, it is the same.
    assert_eq!(listed(&fixture.store()), run);

    // Without its Summary or its Plan it has no figure, and is listed all the same.
    let copy = fixture.root().join("without-summary");
    copy_folder(&fixture.store(), &copy);
    for (stage, lost) in [("reduce", "headline"), ("plan", "models")] {
        let pointers = Pointer::list(&copy, RUN, stage);
        let [pointer] = &pointers[..] else { panic!("one result of {stage}") };
        fs::remove_file(blob(&copy, &pointer.manifest)).expect("removed");
        let run = listed(&copy);
        assert!(run[lost].is_null() || run[lost] == json!([]), "{run:#}");
        assert_eq!((&run["headline"], &run["state"]), (&Value::Null, &json!("published")));
    }
    let table = fixture.assay(&["runs", "--store", &copy.display().to_string()]).success().stdout;
    let line = table.lines().find(|line| line.starts_with(RUN)).expect("it is listed");
    assert!(line.split_whitespace().filter(|word| *word == "-").count() >= 3, "{line}");
}

#[test]
fn each_concurrency_and_each_rate_is_a_point() {
    let (fixture, ran) = bench_fixture();
    let points = points(&ran.json()["summary"]);
    let expected = [
        ("bench.simulator.default concurrency-1", json!({"concurrency": "1"}), "sent"),
        ("bench.simulator.default concurrency-4", json!({"concurrency": "4"}), "sent"),
        ("bench-open.simulator.default rate-100", json!({"rate": "100"}), "intended"),
        ("bench-open.simulator.default rate-50", json!({"rate": "50"}), "intended"),
    ];
    let names: BTreeSet<_> = points.keys().map(String::as_str).collect();
    assert_eq!(names, expected.each_ref().map(|(name, ..)| *name).into());
    for (name, value, from) in expected {
        let point = &points[name];
        assert_eq!((&point["value"], &point["trials_planned"]), (&value, &json!(3)), "{name}");
        if point["trials_counted"] != 0 {
            assert_eq!(text(&point["serving"]["latency_from"]), from, "{name}");
        }
    }
    for closed in ["concurrency-1", "concurrency-4"] {
        let point = &points[&format!("bench.simulator.default {closed}")];
        assert_eq!(point["serving"]["outcomes"], json!({"ok": "30"}), "three trials of ten: {closed}");
    }
    assert_eq!(fixture.leftovers(), [""; 0], "the simulator has ended");
}

#[test]
fn a_scenario_gives_the_lengths() {
    let points = points(&bench_fixture().1.json()["summary"]);
    for closed in ["concurrency-1", "concurrency-4"] {
        let metrics = list(&points[&format!("bench.simulator.default {closed}")]["metrics"]);
        for name in ["isl_tokens_mean", "osl_tokens_mean"] {
            let metric = metrics.iter().find(|metric| metric["metric"] == name).expect("lengths are measured");
            assert_eq!((metric["min"].as_f64(), metric["max"].as_f64()), (Some(100.0), Some(100.0)), "{closed}: {name}");
        }
    }
}

#[test]
fn outside_of_any_repository_the_store_is_the_users() {
    let mut fixture = Fixture::bare();
    let (elsewhere, data) = (fixture.root().join("elsewhere"), fixture.root().join("data"));
    fs::create_dir(&elsewhere).expect("a folder outside of the repository");
    fixture.set("XDG_DATA_HOME", &data);
    let load =
        ["bench", "--simulator", "fast", "--concurrency", "1", "--trials", "1", "--output-tokens", "10", "--run-id", "away"];
    let ran = fixture.assay_in(&elsewhere, &[&load[..], &SHORT].concat()).success();

    let store = data.join("assay");
    let summary = Pointer::list(&store, "away", "reduce")[0].load(&store);
    assert_eq!(list(&summary["body"]["points"])[0]["serving"]["outcomes"], json!({"ok": "10"}));
    assert!(store.join("published/away/report.html").is_file());
    assert!(files_under(&elsewhere).is_empty(), "nothing is left where it was started");
    assert!(!fixture.store().exists(), "nor in a repository that it was not started in");

    // A named store has the report beside it, wherever the bench is started.
    let named = fixture.root().join("named");
    let (name, of_store) = (named.display().to_string(), ["--store", &named.display().to_string()].map(str::to_owned));
    let kept = fixture.assay(&[&load[..], &SHORT, &of_store.each_ref().map(String::as_str)].concat()).success();
    assert!(kept.stdout.contains(&format!("report    {name}/published/away/report.html")), "{}", kept.stdout);
    assert!(named.join("published/away/report.html").is_file() && !fixture.store().exists());

    // The printed commands work in the folder where the bench was started.
    for word in ["verify ", "prove "] {
        let line = ran.stdout.lines().find(|line| line.starts_with(word)).expect("the command is printed");
        let command: Vec<_> = line.split_whitespace().skip(2).collect();
        fixture.assay_in(&elsewhere, &command).success();
    }
}

#[test]
fn what_is_printed_runs_as_a_pipeline() {
    let fixture = Fixture::bare();
    let load =
        ["bench", "--url", "http://127.0.0.1:9", "--model", "m", "--concurrency", "2", "--rate", "5", "--slo", "tpot=20ms"];
    let printed = fixture.assay(&[&load[..], &["--print"]].concat()).success().stdout;
    assert!(!fixture.store().exists(), "nothing was run");
    for document in printed.split("---\n# ").skip(1) {
        let (path, yaml) = document.split_once('\n').expect("a path, then the document");
        fixture.write(path, yaml);
    }
    fixture.commit("what was printed");
    let plan = fixture.assay(&["plan", "pipelines/bench.yaml", "--json"]).success().json();
    let points = list(&plan["cases"]).iter().flat_map(|case| list(&case["points"]));
    let points: Vec<_> = points.map(|point| text(&point["point_id"])).collect();
    assert_eq!(points, ["concurrency-2", "rate-5"]);
}

#[test]
fn what_is_typed_wrong_is_said_before_anything_runs() {
    let fixture = Fixture::bare();
    let wrong: [(&[&str], &str); 13] = [
        (&[], "--concurrency <N,..>"),
        (&["--concurrency", "1"], "--url <URL>"),
        (&["--url", "http://127.0.0.1:9", "--concurrency", "1"], "--model <NAME>"),
        (&["--url", "http://127.0.0.1:9", "--simulator", "fast", "--concurrency", "1"], "cannot be used with"),
        (&["--simulator", "fast"], "no load is given"),
        (&["--simulator", "fast", "--concurrency", "some"], "invalid value 'some' for '--concurrency <N,..>'"),
        (&["--simulator", "fast", "--rate", "fast"], "invalid value 'fast' for '--rate <PER_S,..>'"),
        (
            &["--simulator", "fast", "--concurrency", "1", "--api", "speech"],
            "[possible values: chat, completions, embeddings, rerank, rerank_tei, responses, messages, custom]",
        ),
        (&["--simulator", "fast", "--concurrency", "1", "--scenario", "D(1,1)", "--output-tokens", "5"], "cannot be used with"),
        (
            &["--simulator", "fast", "--concurrency", "1", "--api", "rerank", "--output-tokens", "5"],
            "`--output-tokens` means nothing with `--api rerank`",
        ),
        (&["--simulator", "fast", "--concurrency", "1", "--run-id", "A_B"], "lower-case letters, digits and inner hyphens"),
        (
            &["--simulator", "fast", "--concurrency", "1", "--header", "name"],
            "`--header name` is not of the form NAME=VARIABLE or `NAME: VALUE`",
        ),
        (&["--simulator", "fast", "--concurrency", "1", "--tokenizer", "/absent"], "cannot read `/absent`"),
    ];
    for (arguments, says) in wrong {
        let ran = fixture.assay(&[&["bench"], arguments].concat()).exits(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(says), "{arguments:?}:\n{}", ran.stderr);
    }
    assert!(!fixture.store().exists(), "nothing was run");
}

#[test]
fn a_value_that_no_workload_may_have_is_named() {
    let fixture = Fixture::bare();
    let wrong: [(&[&str], &str); 8] = [
        (
            &["--concurrency", "1", "--api", "embeddings", "--documents", "4096", "--input-tokens", "1000000"],
            "error[option]: `--documents` of 4096 makes requests of 4096000000 tokens, more than 16000000",
        ),
        (&["--concurrency", "0"], "error[option]: `--concurrency` must be from 1"),
        (&["--rate", "0"], "error[option]: `--rate` must be at least 0.0001"),
        (&["--rate", "-1"], "error[option]: `--rate` must be at least 0.0001"),
        (&["--concurrency", "1", "--model", ""], "error[option]: `--model` "),
        (&["--concurrency", "1", "--scenario", "X(1)"], "hint: expected `D(in,out)`"),
        (&["--concurrency", "1", "--slo", "speed=1s"], "hint: it takes `ttft`, `ttfo`, `tpot`, `e2e`"),
        (&["--concurrency", "1", "--duration", "5"], "error[option]: `--duration` is not a duration: `5`"),
    ];
    for (arguments, says) in wrong {
        let ran = fixture.assay(&[&["bench", "--simulator", "fast"], arguments].concat()).refuses(2, "option");
        assert!(ran.stderr.contains(says), "{arguments:?}:\n{}", ran.stderr);
    }
}

#[test]
fn an_address_or_a_profile_that_cannot_be_is_refused_by_its_option() {
    let fixture = Fixture::bare();
    let key = "sk-proj-pass-word0123456789abcdef";
    let in_path = format!("http://h/{key}/v1");
    let wrong: [(&[&str], &str); 12] = [
        (&["--url", &in_path], "error[option]: `--url` carries a key or token"),
        (&["--url", "http://h/;token=pass-word/v1"], "error[option]: `--url` carries a key or token"),
        (&["--url", "http://h/v1?%74oken=pass-word"], "error[option]: `--url` carries a key or token"),
        (&["--url", "http://h/v1?access%5Ftoken=pass-word"], "error[option]: `--url` carries a key or token"),
        (&["--url", "http://h/v1?x=%73k-proj-pass-word"], "error[option]: `--url` carries a key or token"),
        (&["--url", "http://me:pass-word@h:1"], "error[option]: `--url` carries a user or password"),
        (&["--url", "me:pass-word@h:1"], "error[option]: `--url` carries a user or password"),
        (&["--url", "http://me:pass/word@h"], "error[option]: `--url` carries a user or password"),
        (&["--url", "http://h/v1?api_key=pass-word"], "error[option]: `--url` carries a key or token"),
        (&["--url", "ftp://h"], "hint: its scheme has to be `http` or `https`, and is `ftp`"),
        (&["--simulator", "fasst"], "error[option]: `--simulator` is no profile of the simulator: `fasst`"),
        (&["--simulator", "fasst"], "hint: did you mean `fast`? the profiles are `instant`, `fast`, `h100-8b`"),
    ];
    for (arguments, says) in wrong {
        for last in [&[][..], &["--print"]] {
            let ran = fixture.assay(&[&["bench", "--model", "m", "--concurrency", "1"], arguments, last].concat());
            let ran = ran.refuses(2, "option");
            assert!(ran.stdout.is_empty() && ran.stderr.contains(says), "{arguments:?}:\n{}", ran.stderr);
            assert!(!ran.stderr.contains("pass-word") && !ran.stderr.contains("pass/word"), "{}", ran.stderr);
            assert!(!says.contains("carries") || ran.stderr.contains("hint: remove it; `--header NAME=VARIABLE` sends"));
        }
    }
    assert!(!fixture.store().exists(), "nothing was run");
}

#[test]
fn an_endpoint_that_refuses_everything_has_a_summary_and_no_number() {
    let server = refusing_server();
    let fixture = Fixture::bare();
    let ran = run_bench(&fixture, &server, "refused").refuses(30, "no_valid_trial");
    let why = "none of 4 trials counts\n  because: all_failed, none of 10 requests succeeded: 10 http_error";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert!(ran.stdout.contains("absent, no trial counts"), "{}", ran.stdout);
    let screen = ran.stdout.replace("\n  ", " ");
    assert!(screen.contains("(all_failed: none of 10 requests succeeded: 10 http_error"), "{}", ran.stdout);
    let summary = &fixture.manifest("refused", "reduce")["body"];
    assert_eq!(text(&summary["status"]), "failed");
    for (name, point) in points(summary) {
        assert_eq!((&point["trials_counted"], &point["trials_planned"]), (&json!(0), &json!(2)), "{name}");
        // Each trial has two more attempts.
        assert_eq!(list(&point["excluded"]).len(), 6, "{name}");
    }
    let published = fixture.published("refused");
    assert!(published.join("report.html").is_file());
    assert_eq!(file(&published.join("numbers.json"))["numbers"], json!([]));
    fixture.assay(&["verify", "refused", "--recompute"]).success();
    let listed = fixture.assay(&["runs", "--json"]).success().json();
    assert_eq!(text(&listed[0]["state"]), "published, no trial counts");
    assert_eq!(listed[0]["commit"], Value::Null, "it was started outside of a repository");
    let compared = fixture.assay(&["compare", "refused", "refused"]).refuses(2, "nothing_compared");
    assert!(compared.stderr.contains("the first run has `bench.endpoint.default`"), "{}", compared.stderr);
}

#[test]
fn what_an_endpoint_fails_is_beside_its_numbers() {
    let server = failing_server();
    let fixture = Fixture::bare();
    let ran = run_bench(&fixture, &server, "failing").success();
    let screen = ran.stdout.replace("\n  ", " ");
    for said in ["requests failed (http_error 503 × ", "; with failures as slowest, ", "the first http_error 503: `{}`"] {
        assert!(screen.contains(said), "{said}: {}", ran.stdout);
    }
    let results = fixture.assay(&["show", "failing", "--json"]).success().json();
    for result in list(&results["results"]) {
        let requests = &result["requests"];
        let failures =
            json!([{"outcome": "http_error", "http_status": 503, "count": requests["failed"]["http_error"], "message": "{}"}]);
        assert_eq!(requests["failures"], failures);
    }
    for (name, point) in points(&fixture.manifest("failing", "reduce")["body"]) {
        let outcomes = &point["serving"]["outcomes"];
        let of = |outcome: &str| text(&outcomes[outcome]).parse::<u32>().expect("a count");
        assert_eq!(of("ok") + of("http_error"), 20, "two trials of ten: {name}");
        // The trials before a trial decide which of its requests are a third one of the server's.
        assert!((6..=8).contains(&of("http_error")), "{name}: {outcomes}");
    }
}

/// Runs a bench of one load against a server whose script gets the test request, with these further arguments.
fn bench_endpoint(fixture: &Fixture, server: &Server, run_id: &str, more: &[&str]) -> CommandResult {
    let url = server.url();
    let load = ["bench", "--url", &url, "--model", MODEL, "--concurrency", "1", "--trials", "1", "--run-id", run_id];
    fixture.assay(&[&load[..], &SHORT, more].concat())
}

#[test]
fn an_endpoint_that_refuses_a_test_request_is_not_measured() {
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 34\r\n\r\n<!DOCTYPE html>\n<p>Welcome</p>\n...";
    let redirect = "HTTP/1.1 308 Permanent Redirect\r\nlocation: https://elsewhere.example/v1\r\ncontent-length: 0\r\n\r\n";
    let unauthorized = r#"{"error": {"message": "Incorrect API key provided"}}"#;
    let unknown = r#"{"error": {"message": "Unrecognized request argument supplied: ignore_eos"}}"#;
    let scripts: [(&str, Vec<u8>, &str, &[&str]); 7] = [
        (
            "wrong-key",
            json_response("401 Unauthorized", unauthorized),
            "endpoint_unauthorized",
            &["`401 Unauthorized`: Incorrect API key provided", "--api-key", "--header NAME=VARIABLE"],
        ),
        ("no-right", json_response("403 Forbidden", "{}"), "endpoint_unauthorized", &["`403 Forbidden`", "--api-key"]),
        ("unknown-field", json_response("400 Bad Request", unknown), "endpoint_rejects", &["ignore_eos", "--no-exact-output"]),
        (
            "other-field",
            json_response("422 Unprocessable Entity", r#"{"error": "no"}"#),
            "endpoint_rejects",
            &["`422 Unprocessable Entity`"],
        ),
        (
            "no-path",
            json_response("404 Not Found", r#"{"detail": "Not Found"}"#),
            "endpoint_path",
            &["/v1/chat/completions returned `404 Not Found`", "it lists `served`", "--api"],
        ),
        ("page", html.into(), "endpoint_protocol", &["no event stream: <!DOCTYPE html>"]),
        ("elsewhere", redirect.into(), "endpoint_redirects", &["to `https://elsewhere.example/v1`", "--url"]),
    ];
    let fixture = Fixture::bare();
    for (name, bytes, code, says) in scripts {
        let server = Server::start_with_test_requests(MODEL, move |_| (bytes.clone(), AfterResponse::KeepAlive));
        let ran = bench_endpoint(&fixture, &server, name, &[]).refuses(30, code);
        for part in says {
            assert!(ran.stderr.contains(part), "{name}: {part}:\n{}", ran.stderr);
        }
        assert_eq!(server.request_count(), 1, "{name}: nothing is measured");
        assert!(!fixture.published(name).exists(), "{name}: nothing is published");
        assert!(!ran.stderr.contains("retry"), "{name}: it is not tried again: {}", ran.stderr);
    }
}

#[test]
fn an_endpoint_that_fails_a_test_request_is_measured() {
    // Busy twice, then well.
    let server = Server::start_with_test_requests(MODEL, |request| match request.number {
        0 | 1 => (json_response("429 Too Many Requests", "{}"), AfterResponse::KeepAlive),
        _ => (complete_stream(), AfterResponse::KeepAlive),
    });
    let fixture = Fixture::bare();
    let ran = bench_endpoint(&fixture, &server, "busy", &[]).success();
    assert!(!ran.stderr.contains("fails a test request"), "{}", ran.stderr);
    // A busy machine may delay the client, whose attempt is then repeated.
    let load = server.request_count().checked_sub(3).expect("three test requests");
    assert!(load >= 10 && load.is_multiple_of(10), "three test requests, and the load: {load}");
    let probes = fixture.manifest("busy", "provision")["body"]["targets"][0]["probes"].clone();
    let last = list(&probes).last().expect("a probe").clone();
    assert_eq!((&last["ready"], &last["response"]), (&json!(true), &json!("200 OK, an event stream")));
    assert_eq!(text(&last["request"]), format!("POST {}/v1/chat/completions (test request)", server.url()));

    // Broken for each test request, and for a part of the load.
    let server = Server::start_with_test_requests(MODEL, |request| match request.number {
        0..3 | 5 => (json_response("503 Service Unavailable", "warming up"), AfterResponse::KeepAlive),
        _ => (complete_stream(), AfterResponse::KeepAlive),
    });
    let ran = bench_endpoint(&fixture, &server, "broken", &[]).success();
    let warning = "fails a test request, and is measured all the same: POST";
    assert!(ran.stderr.contains(warning) && ran.stderr.contains("`503 Service Unavailable`: warming up"), "{}", ran.stderr);
    let outcomes =
        points(&fixture.manifest("broken", "reduce")["body"])["bench.endpoint.default concurrency-1"]["serving"]["outcomes"]
            .clone();
    assert_eq!(outcomes, json!({"http_error": "1", "ok": "9"}));
    fixture.assay(&["verify", "broken", "--recompute"]).success();
}

#[test]
fn a_key_is_sent_and_stands_nowhere() {
    const KEY: &str = "sk-a-key-of-this-test";
    let heads = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&heads);
    let server = Server::start_with_test_requests(MODEL, move |request| {
        seen.lock().expect("a lock").push(request.head.clone());
        let is_known = crate::server::header(&request.head, "authorization") == Some(&format!("Bearer {KEY}"));
        let refusal = json_response("401 Unauthorized", "{}");
        (if is_known { complete_stream() } else { refusal }, AfterResponse::KeepAlive)
    });
    let mut fixture = Fixture::bare();
    let ran = bench_endpoint(&fixture, &server, "unset", &["--api-key"]).refuses(2, "option");
    assert!(ran.stderr.contains("`--api-key` names `OPENAI_API_KEY`, which is not set"), "{}", ran.stderr);
    fixture.set("OPENAI_API_KEY", KEY);
    let ran = bench_endpoint(&fixture, &server, "unnamed", &[]).refuses(30, "endpoint_unauthorized");
    assert!(ran.stderr.contains("`--api-key` sends the key in `OPENAI_API_KEY`"), "{}", ran.stderr);
    bench_endpoint(&fixture, &server, "by-variable", &["--api-key", "--header", "X-Org: acme"]).success();
    let file = fixture.root().join("key");
    fs::write(&file, format!("{KEY}\n")).expect("written");
    bench_endpoint(&fixture, &server, "by-file", &["--api-key", &file.display().to_string()]).success();
    fs::remove_file(&file).expect("removed");
    let heads = heads.lock().expect("a lock");
    assert!(heads.iter().any(|head| crate::server::header(head, "x-org") == Some("acme")));
    for path in files_under(&fixture.root()) {
        let bytes = fs::read(&path).expect("a file of the fixture");
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{} holds the key", path.display());
    }
}

#[test]
fn a_secret_on_the_command_line_is_refused_and_not_shown() {
    let fixture = Fixture::bare();
    let load = ["bench", "--url", "http://127.0.0.1:9", "--model", "m", "--concurrency", "1"];
    for secret in [
        ["--header", "Authorization: Bearer hunter22"],
        ["--header", "X-Api-Key: hunter22"],
        ["--header", "authorization=sk-hunter22"],
        ["--header", "authorization=hunter22"],
        ["--api-key", "sk-hunter22"],
        ["--api-key", "hunter22"],
    ] {
        for last in [&[][..], &["--json"]] {
            let ran = fixture.assay(&[&load[..], &secret, last].concat()).refuses(2, "option");
            let shown = [&ran.stdout[..], &ran.stderr].concat();
            assert!(
                !shown.contains("hunter22") && shown.contains("VARIABLE") || shown.contains("set a variable"),
                "{secret:?}: {shown}"
            );
            assert!(!shown.contains("hunter22"), "{shown}");
        }
    }
    assert!(!fixture.store().exists(), "nothing was run");
}

#[test]
fn a_range_a_small_seed_and_extra_members_are_part_of_the_workload() {
    let fixture = Fixture::bare();
    let load = ["bench", "--url", "http://127.0.0.1:9", "--model", "m", "--concurrency", "1..8,3", "--seed", "42", "--print"];
    let extra = r#"{"chat_template_kwargs": {"enable_thinking": false}}"#;
    let printed = fixture.assay(&[&load[..], &["--extra-body", extra]].concat()).success().stdout;
    let workload: Value =
        serde_json::from_str(printed.rsplit("# workloads/bench/workload.yaml").next().expect("a workload")).expect("JSON");
    assert_eq!(workload["spec"]["load"]["concurrency"], json!([1, 2, 4, 8, 3]));
    assert_eq!(workload["spec"]["seed"], json!(format!("{:0>64}", "2a")));
    assert_eq!(workload["spec"]["extra_body"], json!(extra));
    let pipeline = printed.split("---\n# ").find_map(|part| part.strip_prefix("pipelines/bench.yaml\n")).expect("a pipeline");
    let pipeline: Value = serde_json::from_str(pipeline).expect("JSON");
    assert_eq!(pipeline["spec"]["trials"]["count"], json!(5), "as many as an interval needs");

    let refused = |body: &str| fixture.assay(&[&load[..], &["--extra-body", body]].concat()).refuses(2, "option").stderr;
    assert!(refused(r#"{"stream": false}"#).contains("`--extra-body` has the member `stream`, which Assay writes itself"));
    assert!(refused("[1]").contains("it has to be an object"));

    let bodies = Server::start(MODEL, |_| (complete_stream(), AfterResponse::KeepAlive));
    bench_endpoint(&fixture, &bodies, "extra", &["--extra-body", extra]).success();
    let plan = fixture.manifest("extra", "plan");
    let found = &plan["body"]["workloads"][0]["serving"]["extra_body"];
    assert_eq!(*found, json!({"chat_template_kwargs": {"enable_thinking": false}}));
}

#[test]
fn an_untrusted_certificate_is_named_and_accepted_only_if_told_so() {
    let server = Server::start_over_tls(MODEL, |_| (complete_stream(), AfterResponse::KeepAlive));
    let fixture = Fixture::bare();
    let ran = bench_endpoint(&fixture, &server, "untrusted", &[]).refuses(30, "endpoint_protocol");
    assert!(ran.stderr.contains("over TLS") && ran.stderr.contains("`--insecure`"), "{}", ran.stderr);
    let ran = bench_endpoint(&fixture, &server, "accepted", &["--insecure"]).success();
    assert!(ran.stderr.contains("the TLS certificate of the target `endpoint` is not verified"), "{}", ran.stderr);
    let report = fs::read_to_string(fixture.published("accepted").join("report.md")).expect("a report");
    assert!(report.contains("the TLS certificate of `endpoint` was not verified"), "{report}");
    let issues = fixture.manifest("accepted", "reduce")["body"]["issues"].clone();
    assert!(list(&issues).iter().any(|issue| issue["code"] == "tls_not_verified"), "{issues:#}");
    assert_eq!(fixture.manifest("accepted", "plan")["body"]["targets"][0]["insecure_skip_tls_verify"], json!(true));
    fixture.assay(&["verify", "accepted", "--recompute"]).success();
}

#[test]
fn a_client_certificate_is_shown_to_an_endpoint_that_demands_one() {
    let pair = rcgen::generate_simple_self_signed(vec!["client.example".to_owned()]).expect("a certificate");
    let script = |_: &crate::server::Request| (complete_stream(), AfterResponse::KeepAlive);
    let (server, authority) = Server::start_demanding(MODEL, pair.cert.der().clone(), script);
    let fixture = Fixture::bare();
    let place = |name: &str, text: &str| {
        let path = fixture.root().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let key_text = pair.signing_key.serialize_pem();
    let (ca, cert, key) = (place("ca.pem", &authority), place("client.pem", &pair.cert.pem()), place("client.key", &key_text));

    let ran = bench_endpoint(&fixture, &server, "without", &["--cacert", &ca]).refuses(30, "endpoint_unauthorized");
    assert!(ran.stderr.contains("it demands a client certificate") && ran.stderr.contains("`--cert`"), "{}", ran.stderr);
    let other = rcgen::generate_simple_self_signed(vec!["other.example".to_owned()]).expect("a certificate");
    let of_other = place("other.pem", &(other.cert.pem() + &other.signing_key.serialize_pem()));
    let ran =
        bench_endpoint(&fixture, &server, "other", &["--cacert", &ca, "--cert", &of_other]).refuses(30, "endpoint_unauthorized");
    assert!(ran.stderr.contains("client certificate"), "{}", ran.stderr);
    assert_eq!(server.request_count(), 0, "nothing is measured");
    let mixed = ["--cacert", &ca, "--cert", &cert, "--key", &of_other];
    let ran = bench_endpoint(&fixture, &server, "mixed", &mixed).refuses(30, "secret_absent");
    assert!(ran.stderr.contains("the certificates of target `endpoint` cannot be used"), "{}", ran.stderr);

    let shown = ["--cacert", &ca, "--cert", &cert, "--key", &key];
    let ran = bench_endpoint(&fixture, &server, "shown", &shown).success();
    assert!(!ran.stderr.contains("is not verified"), "{}", ran.stderr);
    assert!(server.request_count() > 0);
    let target = fixture.manifest("shown", "plan")["body"]["targets"][0].clone();
    assert_eq!(target["tls"]["client"]["key"], json!({"name": "key", "from_file": key}));
    fixture.assay(&["verify", "shown", "--recompute"]).success();
    // The places are in the plan; no file of the store holds the texts, in whatever lines.
    let line = key_text.lines().nth(1).expect("a line of the key");
    let holds_key = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(line.len()).any(|window| window == line.as_bytes())
    };
    let kept: Vec<PathBuf> = files_under(&fixture.root()).into_iter().filter(holds_key).collect();
    assert_eq!(kept, [fixture.root().join("client.key")]);
}

#[test]
fn a_terminal_has_a_panel_and_a_pipe_has_lines() {
    // Python runs the command on a pseudo-terminal, and copies what is written there.
    const ON_A_TERMINAL: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    const SECONDS: usize = 3;
    let fixture = Fixture::bare();
    let duration = format!("{SECONDS}s");
    let load = ["bench", "--simulator", "fast", "--concurrency", "2", "--trials", "1", "--warmup", "0s", "--duration", &duration];
    let mut command = fixture.command(std::path::Path::new("python3"));
    command.args(["-c", ON_A_TERMINAL]).arg(binary("assay")).args(load).args(["--run-id", "seen"]);
    command.env("TERM", "xterm-256color").stdin(std::process::Stdio::null());
    let started = std::time::Instant::now();
    let output = command.output().expect("python3 runs");
    let took = started.elapsed();
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{screen}");
    for part in [
        "trial 1 of 1: bench.simulator.default.concurrency-2.t0",
        "  phase     measured, ",
        "2 in flight, 0 failed",
        " req/s",
        " tok/s",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert!(screen.contains("TTFT p50 5.") && screen.contains("TPOT p50 "), "{screen}");
    let redraws = screen.matches("  requests  ").count();
    // The display allows a short burst beyond four redraws a second, when a line is printed above it.
    let most = 4.0 * took.as_secs_f64() + 20.0;
    assert!(redraws >= SECONDS && redraws as f64 <= most, "{redraws} redraws of the panel in {took:?}");

    let ran = fixture.assay(&[&load[..], &["--run-id", "piped"]].concat()).success();
    assert!(!ran.stderr.contains("req/s") && !ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    assert!(ran.stderr.contains("  execute 0-0"), "{}", ran.stderr);
}

/// The loads that a search observed, as numbers of requests in flight.
fn observed_concurrencies(search: &Value) -> Vec<u64> {
    list(&search["observed"]).iter().map(|seen| seen["load"]["concurrency"].as_u64().expect("a concurrency")).collect()
}

#[test]
fn the_most_requests_in_flight_are_found_and_measured_apart() {
    // Four places of about 100 ms: a fifth request waits for 25 ms on average, and four never do.
    let fixture = Fixture::shared();
    let simulator = Replica::with(&["--itl-ms", "5", "--max-num-seqs", "4"]);
    let model = crate::serving::MODEL;
    let load =
        ["bench", "--url", &simulator.url, "--model", model, "--output-tokens", "20", "--requests", "100", "--warmup", "0s"];
    let asked = ["--find-max", "concurrency", "--slo", "ttft=15ms,e2e=10s", "--trials", "2", "--json"];
    let ran = fixture.assay(&[&load[..], &asked].concat());
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let search = &found["search"];
    let observed = observed_concurrencies(search);
    assert_eq!(observed[..4], [1, 2, 4, 8], "{search:#}");
    assert!(observed.len() <= 60, "{observed:?}");
    if found["run_id"].is_null() {
        // A machine so busy that even one request at a time is too slow: that is reported, and not taken for a result.
        assert_eq!((ran.code, search["found"].is_null()), (41, true), "{ran:?}");
        assert!(text(&search["why"]).starts_with("no most load with 99 of 100 requests within every SLO"), "{search:#}");
        return;
    }
    // Every round is a run that verifies, and none of them is the measured one.
    let rounds = list(&search["runs"]);
    assert!(!rounds.is_empty() && !rounds.contains(&found["run_id"]), "{search:#}");
    fixture.assay(&["verify", text(&rounds[0])]).success();
    // A list of runs tells the rounds from what was measured.
    let runs = fixture.assay(&["runs", "--json"]).success().json();
    let searched = |run: &Value| run["pipeline"] == "pipelines/search.yaml";
    assert!(list(&runs).iter().all(|run| searched(run) == rounds.contains(&run["run_id"])), "{runs:#}");
    // What is printed follows from the measured trials: the same again by hand.
    let loads: BTreeSet<u64> =
        list(&found["results"]).iter().map(|point| point["load"]["concurrency"].as_u64().expect("a number")).collect();
    let Some(median) = search["max_load"]["median"].as_f64() else {
        // Without a crossing in every trial there is no result, and the reason is stated.
        assert_eq!(ran.code, 41, "{ran:?}");
        assert!(ran.stderr.contains("no most load within the SLOs: "), "{ran:?}");
        return;
    };
    assert_eq!(ran.code, 0, "{ran:?}");
    let (low, high) = (*loads.first().expect("a load") as f64, *loads.last().expect("a load") as f64);
    // Each trial's is a whole number, and the median of two may lie between them.
    assert!(low <= median && median <= high && (median * 2.0).fract() == 0.0, "{median} within {loads:?}");
    // It is a published number, which is traced to the trials of every load.
    let address = text(&search["max_load"]["address"]);
    assert!(list(&found["numbers"]).iter().any(|number| number["address"] == address), "{address}");
    let traced = fixture.assay(&["trace", address, "--json"]).success().json();
    assert_eq!(
        (&traced["metric"], &traced["point_id"], &traced["value"]),
        (&json!("max_load"), &json!("all-loads"), &json!(median))
    );
    let behind = list(&traced["trials"]);
    assert_eq!(behind.len() as u64, loads.len() as u64 * search["max_load"]["n"].as_u64().expect("a number"), "{traced:#}");
    assert!(behind.iter().all(|trial| trial["metric"] == "good_fraction"), "{traced:#}");
    let traced = fixture.assay(&["trace", address, "--recompute"]).success().stdout;
    assert!(traced.contains("computed again from the raw evidence, and equal"), "{traced}");
    // It is a statement on the run, in whatever shows the run.
    let trials = if search["max_load"]["n"] == 1 { "1 trial" } else { "2 trials" };
    let said = format!("the most within the SLOs is concurrency {median} (no interval), {trials}");
    let shown = fixture.assay(&["show", text(&found["run_id"])]).success().stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&said), "{said}: {shown}");
    let report = fs::read_to_string(Path::new(text(&found["folder"])).join("report.html")).expect("a page");
    assert!(report.contains(&said), "{said}");
}

/// An engine of one place serves some 70 requests a second; the search tries a higher rate, which it need not measure to its end.
/// Returns true if a search ended because the machine was so busy that the client was late in every attempt of a load. It says at which.
fn was_too_busy(ran: &CommandResult) -> bool {
    let is_late = ran.code == 30 && ran.stderr.contains("error[no_valid_trial]: the search has no valid trial at");
    is_late && ran.stderr.contains("\"code\":\"client_") && ran.stdout.is_empty()
}

#[test]
fn a_search_does_not_go_on_with_a_rate_that_saturates_the_endpoint() {
    let fixture = Fixture::shared();
    let simulator = Replica::with(&["--ttft-ms", "5", "--itl-ms", "1", "--max-num-seqs", "1"]);
    let model = crate::serving::MODEL;
    let load =
        ["bench", "--url", &simulator.url, "--model", model, "--output-tokens", "10", "--duration", "6s", "--warmup", "0s"];
    let asked = ["--find-max", "rate", "--slo", "ttft=50ms", "--trials", "1", "--up-to", "4", "--json"];
    let ran = fixture.assay(&[&load[..], &asked].concat());
    if was_too_busy(&ran) {
        return;
    }
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let observed = list(&found["search"]["observed"]);
    let (early, whole): (Vec<&Value>, Vec<&Value>) = observed.iter().partition(|seen| seen["over_saturated"] == true);
    let rate = |seen: &Value| seen["load"]["rate"].as_f64();
    // Only rates end early, and none that was served.
    assert!(early.iter().all(|seen| rate(seen).is_some_and(|rate| rate > 60.0) && seen["good_fraction"] == 0.0), "{observed:#?}");
    assert!(whole.iter().any(|seen| rate(seen).is_some_and(|rate| rate < 71.0)), "{observed:#?}");
    if let Some(seen) = early.first() {
        // The run of that round kept the attempt with its reason, and has no number of it.
        let runs = list(&found["search"]["runs"]);
        let said = runs.iter().any(|run| {
            let shown = fixture.assay(&["show", text(run), "--all"]).stdout;
            let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            shown.contains("they arrive faster than the endpoint serves them, so the load was ended early")
        });
        assert!(said, "{seen}");
    }
}

#[test]
fn a_search_without_an_end_says_so_and_ends_with_41() {
    let fixture = Fixture::shared();
    let base = ["bench", "--simulator", "fast", "--output-tokens", "5", "--requests", "100", "--warmup", "0s", "--json"];
    // No first token comes after 1 us: nothing is measured.
    let ran = fixture.assay(&[&base[..], &["--find-max", "rate", "--slo", "ttft=1us"]].concat());
    assert_eq!(ran.code, 41, "{ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        found["search"]["why"],
        "no most load with 99 of 100 requests within every SLO: concurrency 1 already falls short, and a higher load does not count as better"
    );
    assert_eq!((observed_concurrencies(&found["search"]), found.get("run_id")), (vec![1, 2, 4, 8], None));
    // A minute is enough for each; more in flight than are allowed are not tried.
    let limited = ["--find-max", "concurrency", "--slo", "ttft=60s", "--up-to", "2"];
    let ran = fixture.assay(&[&base[..], &limited].concat());
    assert_eq!(ran.code, 41, "{ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        found["search"]["why"],
        "every concurrency that was tried has 99 of 100 requests within every SLO, up to 2; a larger `--up-to` tries more"
    );
}

#[test]
fn a_sweep_measures_what_it_searched_and_names_its_landmarks() {
    let fixture = Fixture::shared();
    // No more are in flight than a trial has requests.
    let base = ["bench", "--simulator", "fast", "--output-tokens", "5", "--requests", "4", "--warmup", "0s", "--trials", "1"];
    let ran = fixture.assay(&[&base[..], &["--sweep", "--json"]].concat()).success();
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let loads: Vec<u64> =
        list(&found["results"]).iter().map(|point| point["load"]["concurrency"].as_u64().expect("a number")).collect();
    assert_eq!(loads, [1, 2, 4]);
    // Four in flight bring about twice what two do, so no limit is named, unless this machine is one.
    let landmarks = &found["search"]["landmarks"];
    let shown = fixture.assay(&["show", text(&found["run_id"])]).success().stdout;
    assert_eq!(landmarks.is_null(), !shown.contains("the knee is at"), "{landmarks:#} {shown}");
    if !landmarks.is_null() {
        assert_eq!(landmarks["idle"]["load"], json!({"concurrency": 1}));
    }
}

#[test]
fn a_load_at_which_every_request_fails_falls_short() {
    // From the fourth request in flight on, there is nothing but errors.
    let in_flight = AtomicUsize::new(0);
    let server = Server::start(MODEL, move |_| {
        let others = in_flight.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(20));
        in_flight.fetch_sub(1, Ordering::SeqCst);
        let response = if others < 3 { complete_stream() } else { json_response("503 Service Unavailable", "{}") };
        (response, AfterResponse::KeepAlive)
    });
    let fixture = Fixture::shared();
    let url = server.url();
    let load =
        ["bench", "--url", &url, "--model", MODEL, "--no-exact-output", "--requests", "100", "--warmup", "0s", "--trials", "1"];
    let ran = fixture.assay(&[&load[..], &["--find-max", "concurrency", "--slo", "e2e=60s", "--up-to", "16", "--json"]].concat());
    if was_too_busy(&ran) {
        return;
    }
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let seen = list(&found["search"]["observed"]);
    assert!(seen.iter().any(|seen| seen["good_fraction"].as_f64().is_some_and(|good| good < 0.99)), "{seen:#?}");
}

#[test]
fn the_name_of_a_run_is_no_name_for_a_search() {
    let (fixture, _) = bench_fixture();
    let asked = ["bench", "--simulator", "fast", "--sweep", "--run-id", RUN];
    let ran = fixture.assay(&asked).refuses(2, "other_source");
    assert!(ran.stderr.contains(&format!("write `--run-id {RUN}-2`")) && !ran.stderr.contains("search: "), "{}", ran.stderr);
}

#[test]
fn options_that_a_search_has_no_use_for_are_refused() {
    let fixture = Fixture::shared();
    let refused = [
        (&["--sweep", "--concurrency", "4"][..], "`--concurrency` contradicts `--sweep`"),
        (&["--find-max", "rate", "--slo", "ttft=1s", "--rate", "4"], "`--rate` contradicts `--find-max`"),
        (&["--sweep", "--print"], "`--print` contradicts `--sweep`"),
        (&["--find-max", "rate"], "--slo"),
        (&["--find-max", "speed", "--slo", "ttft=1s"], "invalid value 'speed'"),
        (&["--concurrency", "1", "--up-to", "4"], "`--up-to` limits a search, and none is requested"),
        (&["--find-max", "rate", "--slo", "ttft=1s", "--sessions", "turns=2"], "write `--find-max concurrency`"),
        (&["--find-max", "concurrency", "--slo", "ttft=1s", "--arrival", "poisson"], "`--arrival` is of an open loop"),
        (&["--sweep", "--max-concurrency", "4"], "`--max-concurrency` is of an open loop"),
        (&["--find-max", "rate", "--slo", "ttft=1s", "--requests", "99"], "write at least `--requests 100`"),
    ];
    for (options, why) in refused {
        let ran = fixture.assay(&[&["bench", "--simulator", "fast"], options].concat());
        assert_eq!(ran.code, 2, "{options:?}: {ran:?}");
        assert!(ran.stderr.contains(why), "{options:?}: {}", ran.stderr);
    }
}

#[test]
fn gpu_hours_beyond_a_limit_are_refused_before_anything_is_measured() {
    let fixture = Fixture::bare();
    // Nothing listens there: a run would fail otherwise.
    let base =
        ["bench", "--url", "http://127.0.0.1:9", "--model", MODEL, "--concurrency", "4", "--duration", "60s", "--trials", "2"];
    let asked = |more: &[&str]| fixture.assay(&[&base[..], more].concat());
    let unknown = asked(&["--max-gpu-hours", "1"]).refuses(2, "gpu_hours");
    assert!(unknown.stderr.contains("target `endpoint`") && unknown.stderr.contains("`--gpus 8`"), "{}", unknown.stderr);
    // Two trials of 1 s of warm-up, 60 s, and 30 s for the last responses: 182 s of eight GPUs are 0.404 hours.
    let beyond = asked(&["--gpus", "8", "--max-gpu-hours", "0.4"]).refuses(2, "gpu_hours");
    assert!(beyond.stderr.contains("the trials may take 0.41 GPU-hours; `--max-gpu-hours` allows 0.4"), "{}", beyond.stderr);
    let printed = asked(&["--gpus", "8", "--max-gpu-hours", "0.41", "--print"]).success();
    assert!(printed.stderr.contains("about 0.27, at most 0.41 GPU-hours, by the declared GPUs"), "{}", printed.stderr);
    assert!(!asked(&["--print"]).success().stderr.contains("GPU-hours"), "of GPUs that are not known, nothing is said");
    let found = fixture
        .assay(&[&["bench", "--simulator", "fast", "--concurrency", "4", "--print"][..], &["--max-gpu-hours", "0.1"]].concat());
    assert!(!found.success().stderr.contains("GPU-hours"), "a simulator uses none");
}

#[test]
fn a_key_that_stands_in_the_definitions_too_is_refused_before_it_is_published() {
    const KEY: &str = "plainwordkey7731";
    let fixture = Fixture::bare();
    let rows = fixture.root().join("rows.jsonl");
    fs::write(&rows, format!("{{\"prompt\":\"say {KEY}\"}}\n")).expect("written");
    let base = ["bench", "--url", "http://127.0.0.1:9", "--model", MODEL, "--concurrency", "1", "--api-key", "SERVER_KEY"];
    let others = ["--dataset", rows.to_str().expect("UTF-8")];
    let user = format!("user={KEY}");
    for options in [&["--body", &user][..], &["--header", &format!("X-Org: {KEY}")], &others] {
        let mut command = fixture.command(&binary("assay"));
        let output = command.args(base).args(options).env("SERVER_KEY", KEY).output().expect("assay runs");
        let ran = CommandResult::from_output(output).refuses(2, "secret_in_file");
        assert!(ran.stderr.contains("the value of `authorization` stands in"), "{options:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains(KEY) && !ran.stdout.contains(KEY), "{options:?}: {ran:?}");
    }
}

/// A server that serves one request at a time. If it ever has several, it responds to none of them, until it has none any more.
fn start_crowded(respond_crowded: fn() -> Option<Vec<u8>>) -> Server {
    let (in_flight, is_crowded) = (AtomicUsize::new(0), AtomicBool::new(false));
    Server::start(MODEL, move |_| {
        in_flight.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(20));
        if in_flight.load(Ordering::SeqCst) > 1 {
            is_crowded.store(true, Ordering::SeqCst);
        }
        let refused = is_crowded.load(Ordering::SeqCst).then(respond_crowded);
        if refused.as_ref().is_some_and(Option::is_none) {
            std::thread::sleep(std::time::Duration::from_millis(700));
        }
        if in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            is_crowded.store(false, Ordering::SeqCst);
        }
        (refused.flatten().unwrap_or_else(complete_stream), AfterResponse::KeepAlive)
    })
}

#[test]
fn a_load_whose_requests_all_hang_falls_short() {
    let server = start_crowded(|| None);
    let fixture = Fixture::shared();
    let url = server.url();
    let load = [
        "bench",
        "--url",
        &url,
        "--model",
        MODEL,
        "--no-exact-output",
        "--duration",
        "200ms",
        "--warmup",
        "100ms",
        "--trials",
        "1",
    ];
    let ran = fixture.assay(&[&load[..], &["--sweep", "--up-to", "2", "--timeout", "400ms", "--json"]].concat());
    if was_too_busy(&ran) {
        return;
    }
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let observed = list(&found["search"]["observed"]);
    assert_eq!(observed.len(), 2, "the search goes on: {found:#}");
    let two = observed.iter().find(|seen| seen["load"]["concurrency"] == 2).expect("two in flight");
    assert_eq!(two["error_rate"], 1.0, "{found:#}");
}

#[test]
fn requests_that_fail_in_the_warm_up_of_attempts_that_do_not_count_are_stated() {
    let server = start_crowded(|| Some(json_response("503 Service Unavailable", "{}")));
    let fixture = Fixture::shared();
    let url = server.url();
    let load = ["bench", "--url", &url, "--model", MODEL, "--no-exact-output", "--trials", "1", "--run-id", "ended-in-warm-up"];
    let ended = ["--concurrency", "1,4", "--duration", "300ms", "--warmup", "300ms", "--max-errors", "3"];
    let ran = fixture.assay(&[&load[..], &ended].concat());
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("counted requests succeeded;") && said.contains("cancelled in attempts that do not count"), "{ran:?}");
    let summary = fixture.manifest("ended-in-warm-up", "reduce");
    let four = list(&summary["body"]["points"]).iter().find(|point| point["point_id"] == "concurrency-4").expect("the point");
    let failed: u32 = text(&four["serving"]["excluded_outcomes"]["http_error"]).parse().expect("a count");
    assert!(failed >= 3, "{four:#}");
}
