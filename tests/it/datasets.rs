//! Datasets over the real binaries: every request is a row of the file, each row once before any is repeated, and the file is pinned by the
//! Plan, whose results are checked against it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::server::{AfterResponse, Server, complete_stream};
use crate::serving::{self, MODEL, SIMULATOR};
use crate::support::{CommandResult, Fixture, PIPELINE, files_under};

/// Rows of JSON Lines: row `r` has the prompt `row r is here` and more words, and a recorded response of `r + 2` tokens.
fn rows(count: usize) -> String {
    let row = |row: usize| json!({"prompt": prompt(row), "output_tokens": row + 2}).to_string() + "\n";
    (0..count).map(row).collect()
}

fn prompt(row: usize) -> String {
    format!("row {row} is here{}", " again".repeat(row % 5))
}

/// Runs `assay bench` on a dataset against a server that keeps the bodies of its requests, and returns them.
fn bench(fixture: &Fixture, file: &str, run_id: &str, more: &[&str]) -> (CommandResult, Vec<Value>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    let server = Server::start(MODEL, move |request| {
        kept.lock().expect("no panic").push(serde_json::from_slice(&request.body).expect("JSON"));
        (complete_stream(), AfterResponse::KeepAlive)
    });
    let url = server.url();
    let load =
        ["bench", "--url", &url, "--model", MODEL, "--concurrency", "1", "--trials", "1", "--warmup", "0s", "--dataset", file];
    let ran = fixture.assay(&[&load[..], &["--run-id", run_id], more].concat());
    let bodies = bodies.lock().expect("no panic").clone();
    (ran, bodies)
}

/// Returns the serving work of the run's only workload.
fn planned_work(fixture: &Fixture, run_id: &str) -> Value {
    fixture.manifest(run_id, "plan")["body"]["workloads"][0]["serving"].clone()
}

fn message_texts(bodies: &[Value]) -> Vec<String> {
    bodies.iter().map(|body| text(&body["messages"][0]["content"]).to_owned()).collect()
}

#[test]
fn a_trial_sends_rows_in_an_order_of_its_own_and_each_once() {
    let fixture = Fixture::new();
    fixture.write("prompts.jsonl", &rows(20));
    let (ran, bodies) = bench(&fixture, "prompts.jsonl", "rows", &["--requests", "20", "--cache", "shared", "--json"]);
    let ran = ran.success();
    let sent = message_texts(&bodies);
    let all: BTreeSet<String> = (0..20).map(prompt).collect();
    assert_eq!(sent.iter().cloned().collect::<BTreeSet<_>>(), all);
    assert_eq!(sent.len(), 20);
    assert_ne!(sent, (0..20).map(prompt).collect::<Vec<_>>(), "the order is drawn");
    for (prompt, body) in sent.iter().zip(&bodies) {
        let row: u64 = prompt.split(' ').nth(1).and_then(|row| row.parse().ok()).expect("a row");
        assert_eq!((&body["max_tokens"], &body["ignore_eos"]), (&json!(row + 2), &json!(true)));
    }
    let work = planned_work(&fixture, "rows");
    let summary = &work["prompts"]["summary"];
    assert_eq!((text(&summary["rows"]), text(&summary["recorded_outputs"])), ("20", "20"));
    assert_eq!((&summary["input_tokens"]["least"], &summary["input_tokens"]["most"]), (&json!(4), &json!(8)));
    assert_eq!(text(&ran.json()["results"][0]["case"]), "bench.endpoint.default");
    fixture.verify("rows").success();
    fixture.assay(&["verify", "rows", "--recompute"]).success();
    assert_eq!(fixture.assay(&["gc", "--json"]).success().json()["unneeded"]["blobs"]["count"], 0, "the run needs its rows");
    // A prompt may be private: of what is published, only the Source's own file has it.
    let holds_text = |path: &&PathBuf| String::from_utf8_lossy(&fs::read(path).expect("a file")).contains("is here");
    let published = files_under(&fixture.published("rows"));
    let mut with_text: Vec<_> = published.iter().filter(holds_text).cloned().collect();
    with_text.sort();
    let files = ["plan/workloads/bench/files/dataset.jsonl", "source/files/workloads/bench/dataset.jsonl"];
    assert_eq!(with_text, files.map(|path| fixture.published("rows").join(path)));
    let report = fs::read_to_string(fixture.published("rows").join("report.md")).expect("a report");
    assert!(
        report.contains("20 prompts of workloads/bench/dataset.jsonl, tokens 4 to 8 in, 2 to 21 out as recorded"),
        "{report}"
    );
}

/// A file of pyarrow: two chats in two row groups, with columns that no prompt has.
const PYARROW: &[u8] = include_bytes!("../../crates/warehouse/tests/data/pyarrow.parquet");

#[test]
fn a_parquet_file_is_read_as_lines_of_json_are() {
    let fixture = Fixture::new();
    // Its first bytes tell its format, and not its name.
    for (name, run_id) in [("chats.parquet", "named"), ("chats", "recognised")] {
        fs::write(fixture.repo().join(name), PYARROW).expect("written");
        let (ran, bodies) = bench(&fixture, name, run_id, &["--requests", "2", "--cache", "shared"]);
        ran.success();
        let sent: BTreeSet<String> =
            bodies.iter().map(|body| json!([body["messages"], body["max_tokens"]]).to_string()).collect();
        let system = json!({"role": "system", "content": "be brief"});
        let user = |text: &str| json!({"role": "user", "content": text});
        let expected = [json!([[system, user("hello there")], 7]), json!([[user("again")], null])];
        assert_eq!(sent, expected.map(|body| body.to_string()).into());
        fixture.verify(run_id).success();
    }
    let gzip = include_bytes!("../../crates/warehouse/tests/data/pyarrow-gzip.parquet");
    fs::write(fixture.repo().join("gzip.parquet"), gzip).expect("written");
    let (ran, bodies) = bench(&fixture, "gzip.parquet", "gzip", &["--requests", "2"]);
    assert!(bodies.is_empty());
    assert!(ran.stderr.contains("the file is compressed by GZIP"), "{}", ran.stderr);
}

#[test]
fn a_salt_stands_in_front_of_each_row() {
    let fixture = Fixture::new();
    fixture.write("prompts.txt", "one\ntwo words\n");
    let (ran, bodies) = bench(&fixture, "prompts.txt", "salted", &["--requests", "4"]);
    ran.success();
    let sent = message_texts(&bodies);
    let parts: Vec<_> = sent.iter().map(|text| text.split_once('\n').expect("a line of its own")).collect();
    let markers: BTreeSet<&str> = parts.iter().map(|(marker, _)| *marker).collect();
    assert_eq!((markers.len(), markers.iter().next().map(|marker| marker.split(' ').count())), (1, Some(4)), "{sent:?}");
    let count = |row: &str| parts.iter().filter(|(_, text)| *text == row).count();
    assert_eq!((count("one"), count("two words")), (2, 2), "each once before any is repeated");
    assert!(
        bodies.iter().all(|body| body.get("max_tokens").is_none() && body.get("ignore_eos").is_none()),
        "no length is recorded"
    );
}

#[test]
fn conversations_and_batches_keep_what_they_say() {
    let fixture = Fixture::new();
    let turn = |from: &str, value: &str| json!({"from": from, "value": value});
    let shared = json!([
        {"conversations": [turn("system", "be brief"), turn("human", "hello there"), turn("gpt", "a b c")]},
        {"conversations": [turn("gpt", "not a question")]},
    ]);
    fixture.write("shared.json", &shared.to_string());
    let more = ["--dataset-format", "sharegpt", "--requests", "1", "--cache", "shared"];
    let (ran, bodies) = bench(&fixture, "shared.json", "shared", &more);
    ran.success();
    let messages = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello there"}]);
    assert_eq!((&bodies[0]["messages"], &bodies[0]["max_tokens"]), (&messages, &json!(3)));
    assert_eq!(text(&planned_work(&fixture, "shared")["prompts"]["summary"]["without_prompt"]), "1");

    let body = json!({"model": "theirs", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 5, "stream": false,
        "temperature": 0.5, "tools": []});
    fixture.write(
        "batch.jsonl",
        &json!({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string(),
    );
    let more = ["--dataset-format", "openai_batch", "--requests", "1", "--cache", "shared"];
    let (ran, bodies) = bench(&fixture, "batch.jsonl", "batch", &more);
    ran.success();
    let expected = json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 5, "stream": true,
        "stream_options": {"include_usage": true}, "temperature": 0.5, "tools": []});
    assert_eq!(bodies[0], expected);

    let body = json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5});
    fixture.write(
        "bare.jsonl",
        &json!({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string(),
    );
    let (ran, bodies) = bench(&fixture, "bare.jsonl", "bare", &more);
    ran.success();
    assert_eq!(bodies[0].get("temperature"), None, "a row is sent as it is");

    let (ran, bodies) = bench(&fixture, "bare.jsonl", "limited", &[&more[..], &["--max-output", "4"]].concat());
    ran.success();
    assert_eq!(bodies[0]["max_tokens"], json!(4), "a higher limit is lowered");
    let report = fs::read_to_string(fixture.published("limited").join("report.md")).expect("a report");
    assert!(report.contains("out as the endpoint decides, but at most 4"), "{report}");
}

#[test]
fn an_endpoint_that_refuses_members_that_no_request_has_is_measured() {
    let fixture = Fixture::new();
    let line = json!({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}});
    fixture.write("batch.jsonl", &line.to_string());
    fixture.write("rows.jsonl", "{\"prompt\": \"hi\", \"output_tokens\": 5}\n{\"prompt\": \"hi\"}\n");
    let server = Server::start_with_test_requests(MODEL, |request| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        match body.get("ignore_eos").or(body.get("min_tokens")) {
            Some(_) => (refusal(), AfterResponse::KeepAlive),
            None => (complete_stream(), AfterResponse::KeepAlive),
        }
    });
    let url = server.url();
    let bench = |file: &str, run_id: &str, more: &[&str]| {
        let load = [
            "bench",
            "--url",
            &url,
            "--model",
            MODEL,
            "--concurrency",
            "1",
            "--trials",
            "1",
            "--warmup",
            "0s",
            "--requests",
            "1",
        ];
        fixture.assay(&[&load[..], &["--dataset", file, "--run-id", run_id], more].concat())
    };
    bench("batch.jsonl", "bodies", &["--dataset-format", "openai_batch"]).success();
    // One of its rows has a length, so that a request of the run is refused, too.
    bench("rows.jsonl", "rows", &[]).refuses(30, "endpoint_rejects");
}

/// Returns the response of an endpoint that knows no `ignore_eos`.
fn refusal() -> Vec<u8> {
    let body = r#"{"error":{"message":"unknown field `ignore_eos`"}}"#;
    format!("HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

#[test]
fn a_dataset_that_cannot_be_used_names_its_row_before_anything_is_sent() {
    let fixture = Fixture::new();
    fixture.write("a.jsonl", "{\"prompt\": \"fine\"}\n{\"question\": \"sk-hunter22\"}\n");
    let (ran, bodies) = bench(&fixture, "a.jsonl", "refused", &["--requests", "1"]);
    let ran = ran.refuses(10, "dataset");
    assert!(ran.stderr.contains("row 2 has neither `prompt` nor `messages`; it has `question`"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter22") && bodies.is_empty());
    let hints = [
        "hint: correct the row; `--field prompt=NAME` reads another member",
        "a run is bound to its options and files: once they are corrected, write `--run-id refused-2`, or leave",
    ];
    assert!(hints.iter().all(|hint| ran.stderr.contains(hint)), "{}", ran.stderr);
    fixture.write("b.csv", "question,n\na b c d,3\n");
    let long = ["--field", "prompt=question", "--field", "output_tokens=n", "--max-input", "3", "--requests", "1"];
    let (ran, _) = bench(&fixture, "b.csv", "long", &long);
    assert!(ran.refuses(10, "dataset").stderr.contains("the prompt of row 1 has 4 tokens, more than `--max-input`, which is 3"));
    let (ran, _) = bench(&fixture, "b.csv", "unnamed", &["--requests", "1"]);
    let ran = ran.refuses(10, "dataset");
    let named = ["the dataset `b.csv` cannot be used", "name the one with the prompt: `--field prompt=NAME`"];
    assert!(named.iter().all(|text| ran.stderr.contains(text)), "{}", ran.stderr);
    let (ran, bodies) = bench(&fixture, "b.csv", "cut", &[&long[..], &["--over", "truncate", "--cache", "shared"]].concat());
    ran.success();
    assert_eq!(message_texts(&bodies), ["a b c"]);
    let many = ["--field", "messages=chat", "--max-input", "3", "--requests", "1", "--over", "truncate"];
    let chat = json!([{"role": "system", "content": "a b c d e"}, {"role": "user", "content": "f"}]);
    fixture.write("chat.jsonl", &(json!({"chat": chat}).to_string() + "\n"));
    let (ran, _) = bench(&fixture, "chat.jsonl", "short", &many);
    let ran = ran.refuses(10, "dataset");
    assert!(ran.stderr.contains("cannot be cut to the 3 tokens of `--max-input`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`--over skip`") && !ran.stderr.contains("--over truncate"), "{}", ran.stderr);
    let (ran, _) = bench(&fixture, "c.json", "absent", &["--requests", "1"]);
    ran.exits(2);
}

#[test]
fn a_limit_of_recorded_lengths_is_an_option() {
    let fixture = Fixture::new();
    fixture.write("prompts.jsonl", &rows(6));
    let options = ["--requests", "6", "--cache", "shared", "--max-output", "4"];
    let (ran, bodies) = bench(&fixture, "prompts.jsonl", "limited", &options);
    ran.success();
    // Row `r` records `r + 2` tokens.
    let mut asked: Vec<u64> = bodies.iter().filter_map(|body| body["max_tokens"].as_u64()).collect();
    asked.sort_unstable();
    assert_eq!(asked, [2, 3, 4, 4, 4, 4]);
    fixture.verify("limited").success();
    let refused =
        fixture.assay(&["bench", "--simulator", "fast", "--max-output", "4", "--requests", "1"]).exits(2).stderr.clone();
    assert!(refused.contains("required") && refused.contains("--dataset <FILE|URL>"), "{refused}");
}

#[test]
fn a_dataset_of_a_commit_is_measured_by_shards_and_judged_by_its_index() {
    let fixture = Fixture::bare();
    fixture.write("workloads/asked/prompts.jsonl", &rows(30));
    let load = "mode: closed, concurrency: [3], requests: 30, warmup: 0s";
    serving::workload(&fixture, "asked", load, "N(1,1)/(1,1)", "  cache: shared\n");
    let path = fixture.repo().join("workloads/asked/workload.yaml");
    let yaml = fs::read_to_string(&path).expect("a workload").replace("lengths: N(1,1)/(1,1)", "dataset: {path: prompts.jsonl}");
    fs::write(&path, yaml).expect("written");
    fixture.write(PIPELINE, &serving::pipeline(&["asked"], &[SIMULATOR], 2, serving::RETRY_BUDGET, "  shards: 3\n"));
    fixture.commit("a dataset");
    fixture.run("sharded").success();
    fixture.verify("sharded").success();
    let parts: Vec<Value> = fixture.pointers("sharded", "execute").iter().map(|pointer| pointer.load(&fixture.store())).collect();
    assert_eq!(parts.len(), 3);
    let digests: BTreeSet<String> = parts
        .iter()
        .flat_map(|part| list(&part["body"]["attempts"]))
        .map(|attempt| text(&attempt["serving"]["schedule_digest"]).to_owned())
        .collect();
    assert_eq!(digests.len(), 2, "one schedule for each trial, the same for all shards");
}

/// Writes a workload over this dataset, and a pipeline over the workload.
fn write_asked(fixture: &Fixture, dataset: &str) {
    serving::workload(
        fixture,
        "asked",
        "mode: closed, concurrency: [1], requests: 2, warmup: 0s",
        "N(1,1)/(1,1)",
        "  cache: shared\n",
    );
    let path = fixture.repo().join("workloads/asked/workload.yaml");
    let yaml =
        fs::read_to_string(&path).expect("a workload").replace("lengths: N(1,1)/(1,1)", &format!("dataset: {{{dataset}}}"));
    fs::write(&path, yaml).expect("written");
    fixture.write(PIPELINE, &serving::pipeline(&["asked"], &[SIMULATOR], 1, serving::RETRY_BUDGET, ""));
}

const PROMPTS: &str = "workloads/asked/prompts.jsonl";

/// A row without a prompt, whose value is not shown.
const BROKEN: &str = "{\"question\": \"sk-hunter22\"}\n";

#[test]
fn a_dataset_is_imported_before_a_run_by_the_rules_of_its_plan() {
    let fixture = Fixture::bare();
    fixture.write(PROMPTS, &rows(30));
    write_asked(&fixture, "path: prompts.jsonl, max_input: 5, over: skip");
    fixture.commit("a dataset");
    // Prompts have 4 to 8 words.
    let kept = format!("`asked`: 12 prompts of {PROMPTS} (18 of 30 rows left out: 18 longer than `max_input`), tokens 4 to 5 in");
    for paths in [&[][..], &["workloads"], &[PIPELINE]] {
        let valid = fixture.assay(&[&["validate"], paths].concat()).success();
        assert!(valid.stdout.contains(&kept) && !valid.stdout.contains("note:"), "{}", valid.stdout);
    }
    let planned = fixture.assay(&["plan", PIPELINE]).success().stdout;
    assert!(planned.contains(&format!("import    {kept}")), "{planned}");
    let planned = fixture.assay(&["plan", PIPELINE, "--json"]).success().json();
    assert_eq!([&planned["imports"][0]["read"], &planned["imports"][0]["rows"]], [&json!(30), &json!(12)]);

    fixture.write(PROMPTS, &(rows(30) + BROKEN));
    let refused = fixture.assay(&["validate"]).exits(10);
    let planned = fixture.assay(&["plan", PIPELINE]).refuses(10, "definition_invalid");
    for shown in [&refused.stderr, &planned.stderr] {
        let problem = format!(
            "the dataset `{PROMPTS}` of workload `asked` cannot be used: row 31 has neither `prompt` nor `messages`; it has `question`"
        );
        assert!(shown.contains(&problem) && shown.contains("--> workloads/asked/workload.yaml:"), "{shown}");
        assert!(shown.contains("hint: ") && !shown.contains("hunter22"), "{shown}");
    }
    fixture.assay(&["plan", PIPELINE, "--commit", "HEAD"]).success();
    fixture.write(PROMPTS, &rows(31));
    let changed = fixture.assay(&["validate"]).success();
    assert!(changed.stdout.contains(&format!("note: `{PROMPTS}` is not committed as it is here")), "{}", changed.stdout);

    write_asked(&fixture, "path: promts.jsonl");
    let misspelt = fixture.assay(&["validate"]).exits(10);
    assert!(misspelt.stderr.contains("there is no file `workloads/asked/promts.jsonl`"), "{}", misspelt.stderr);
    assert!(misspelt.stderr.contains("1 problem in 1 file"), "{}", misspelt.stderr);
    fixture.assay(&["validate", "workloads"]).exits(10);
    // A file that is missing is reported together with whatever else is wrong.
    let yaml = fs::read_to_string(fixture.repo().join("workloads/asked/workload.yaml")).expect("a workload");
    fixture.write("workloads/asked/workload.yaml", &yaml.replace("concurrency:", "concurency:"));
    for paths in [&[][..], &["workloads"]] {
        let several = fixture.assay(&[&["validate"], paths].concat()).exits(10).stderr;
        for problem in ["there is no file `workloads/asked/promts.jsonl`", "has no field `concurency`"] {
            assert!(several.contains(problem), "{several}");
        }
    }
    write_asked(&fixture, "url: 'http://127.0.0.1:9/prompts.jsonl'");
    let elsewhere = fixture.assay(&["validate"]).success();
    let unchecked = "`asked`: http://127.0.0.1:9/prompts.jsonl was not checked: it is not fetched before a run is planned";
    assert!(elsewhere.stdout.contains(unchecked), "{}", elsewhere.stdout);
    assert!(!fixture.store().exists(), "nothing was run");
}

#[test]
fn a_run_whose_dataset_is_refused_says_by_which_name_the_corrected_one_runs() {
    let fixture = Fixture::bare();
    fixture.write(PROMPTS, BROKEN);
    write_asked(&fixture, "path: prompts.jsonl");
    fixture.commit("a broken dataset");
    let named = "write `--run-id first-2`, or leave `--run-id` out";
    for _ in 0..2 {
        let refused = fixture.run("first").refuses(10, "dataset");
        let hint = format!(
            "hint: correct the row that the message names, or the dataset's `format` and `fields` in the workload\na run is bound to its files: once they are corrected, {named}"
        );
        assert!(refused.stderr.contains(&hint), "{}", refused.stderr);
    }
    let unnamed = fixture.assay(&["run", PIPELINE]).refuses(10, "dataset");
    assert!(!unnamed.stderr.contains("--run-id"), "the next run has another name: {}", unnamed.stderr);
    fixture.write(PROMPTS, &rows(2));
    fixture.commit("the corrected dataset");
    let bound = fixture.run("first").refuses(2, "other_source");
    assert!(bound.stderr.contains(&format!("to start a new run, {named}")), "{}", bound.stderr);
    fixture.run("first-2").success();
}

/// A format of one kind beside a file of the other is refused with the options that are right, and these are accepted.
#[test]
fn a_format_of_the_other_kind_is_refused_with_the_options_to_write() {
    let fixture = Fixture::bare();
    fixture.write("rows.jsonl", "{\"prompt\": \"a\"}\n");
    let bench = |options: &[&str]| fixture.assay(&[&["bench", "--simulator", "fast"], options].concat());
    let load = ["--concurrency", "1"];
    let wrong: [(&[&str], &str); 10] = [
        (
            &["--dataset", "rows.jsonl", "--dataset-format", "weka"],
            "write `--trace FILE --trace-format weka --sessions count=100 --concurrency 8`",
        ),
        (
            &["--dataset", "rows.jsonl", "--dataset-format", "tracelab"],
            "write `--trace FILE --trace-format tracelab --sessions history=recorded`",
        ),
        (&["--dataset-format", "weka"], "write `--trace FILE --trace-format weka"),
        (&["--trace", "rows.jsonl", "--dataset-format", "weka"], "write `--trace-format weka`"),
        (
            &["--trace", "rows.jsonl", "--dataset-format", "sharegpt"],
            "write `--dataset FILE --dataset-format sharegpt`, and a load such as",
        ),
        (
            &["--trace", "rows.jsonl", "--trace-format", "sharegpt"],
            "write `--dataset FILE --dataset-format sharegpt`, and a load such as",
        ),
        (
            &["--dataset", "rows.jsonl", "--trace-format", "mooncake"],
            "write `--trace FILE --trace-format mooncake`, which replays its requests at their times, or `--dataset-format mooncake`",
        ),
        (&["--dataset", "rows.jsonl", "--trace-format", "csv"], "write `--dataset-format csv`"),
        (&["--dataset-format", "csv"], "add `--dataset FILE`"),
        (&["--trace-format", "weka"], "add `--trace FILE`"),
    ];
    for (options, hint) in wrong {
        let refused = bench(&[options, &load].concat()).refuses(2, "option");
        assert!(refused.stderr.contains(&format!("hint: {hint}")), "{options:?}: {}", refused.stderr);
    }
    bench(&["--trace", "rows.jsonl", "--trace-format", "weka", "--sessions", "count=100", "--concurrency", "8", "--print"])
        .success();
    bench(&["--trace", "rows.jsonl", "--trace-format", "tracelab", "--sessions", "history=recorded", "--print"]).success();
    bench(&["--trace", "rows.jsonl", "--trace-format", "mooncake", "--print"]).success();
    bench(&["--dataset", "rows.jsonl", "--dataset-format", "mooncake", "--concurrency", "1", "--print"]).success();
    // Each remedy works by itself.
    let times = "the requests of a trace have times of their own";
    for (format, hint) in [
        ("mooncake", "leave out `--concurrency`, or write `--dataset FILE` and `--requests N` instead of `--trace FILE`"),
        ("azure", "leave out `--concurrency`, or write `--dataset FILE` and `--requests N` instead of `--trace FILE`"),
        ("weka", "add `--sessions count=N`, the number of sessions that are played"),
    ] {
        let trace = ["--trace", "rows.jsonl", "--trace-format", format, "--concurrency", "4"];
        let refused = bench(&trace).refuses(2, "option").stderr;
        assert!(refused.contains(times) && refused.contains(&format!("hint: {hint}")), "{refused}");
    }
    let lacks = bench(&["--trace", "rows.jsonl"]).refuses(2, "option");
    assert!(lacks.stderr.contains("`--trace` lacks `--trace-format`"), "{}", lacks.stderr);
}
