//! Documents whose fields have a table: each field, the commonest mistakes, credentials and limits.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::command::{Flag, Treatment};
use crate::formats::{guidellm_scenario, inference_perf};
use crate::{Import, ImportOptions, Outcome, Source, import, recognise};

const CANARY: &str = "canary-4f2b9c7d1e";

fn document(document: &Value) -> Import {
    text(&document.to_string())
}

fn text(text: &str) -> Import {
    import(&Source::File { name: "job.yaml", bytes: text.as_bytes() }, &ImportOptions::default()).expect("a format")
}

fn command(line: &str) -> Import {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    import(&Source::Command(&words), &ImportOptions::default()).expect("a format")
}

/// Returns the rows of an outcome, a line each.
fn rows(import: &Import, outcome: Outcome) -> String {
    let line = |row: &crate::Row| {
        [Some(&row.field), row.to.as_ref(), row.note.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(" | ")
    };
    import.rows.iter().filter(|row| row.outcome == outcome).map(line).collect::<Vec<_>>().join("\n")
}

fn refused(document_: &Value) -> String {
    rows(&document(document_), Outcome::Refused)
}

fn files(import: &Import) -> String {
    import.files.iter().map(|file| format!("== {}\n{}", file.path, file.text)).collect::<Vec<_>>().concat()
}

/// Sets the field of a path of a table: an item of a list is that with the `kind` in the brackets, or the first.
fn set(node: &mut Value, path: &str, value: Value) {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let Some((name, kind)) = head.strip_suffix(']').and_then(|head| head.split_once('[')) else {
        match rest {
            None => node[head] = value,
            Some(rest) => {
                if !node[head].is_object() {
                    node[head] = json!({});
                }
                set(&mut node[head], rest, value);
            }
        }
        return;
    };
    if !node[name].is_array() {
        node[name] = json!([]);
    }
    let items = node[name].as_array_mut().expect("a list");
    let is_it = |item: &Value| kind.is_empty() || item["kind"] == kind;
    let index = items.iter().position(is_it).unwrap_or_else(|| {
        items.push(if kind.is_empty() { json!({}) } else { json!({"kind": kind}) });
        items.len() - 1
    });
    match rest {
        // The names of `benchmarks` are paths themselves.
        Some(rest) if name == "benchmarks" => items[index][rest] = value,
        Some(rest) => set(&mut items[index], rest, value),
        None => items[index]["member"] = value,
    }
}

/// Returns a scenario of guidellm in which a field has an effect.
fn guidellm_base(path: &str) -> Value {
    let profile = if path.ends_with("profile.streams") {
        json!({"kind": "concurrent", "streams": [1]})
    } else {
        json!({"kind": "constant", "rate": [1]})
    };
    json!({"spec": {
        "backend": {"kind": "openai_http", "target": "https://h:1", "model": "m"},
        "profile": profile,
        "constraints": [{"kind": "max_duration", "seconds": 9}, {"kind": "max_error_rate", "rate": 0.5}],
        "data": [{"kind": "synthetic_text", "prompt_tokens": 9, "prompt_tokens_stdev": 2, "output_tokens": 9, "output_tokens_stdev": 2}],
    }})
}

/// Returns a configuration of inference-perf in which a field has an effect.
fn inference_perf_base(path: &str) -> Value {
    let closed = path.ends_with("[].concurrency_level") || path.ends_with("[].num_requests");
    let (kind, stage) = if closed {
        ("concurrent", json!({"concurrency_level": 1, "num_requests": 9}))
    } else {
        ("constant", json!({"rate": 1, "duration": 9}))
    };
    let lengths = json!({"mean": 100, "std_dev": 10, "min": 50, "max": 150, "type": if path.ends_with("distribution.type") { "normal" } else { "lognormal" }});
    let data = if path.starts_with("data.shared_prefix") {
        json!({"type": "shared_prefix", "shared_prefix": {}})
    } else {
        json!({"type": "random", "input_distribution": lengths, "output_distribution": lengths})
    };
    json!({
        "server": {"base_url": "http://h:1", "model_name": "m"},
        "load": {"type": kind, "stages": [stage], "lora_traffic_split": [{"name": "a", "split": 1}]},
        "data": data,
        "storage": {"simple_storage_service": {"bucket_name": "b"}},
    })
}

/// The fields of a format, and the document in which one of them has an effect.
type Table = (&'static [Flag], fn(&str) -> Value);

/// The tables, with a document for each of their fields.
const TABLES: [Table; 2] = [(guidellm_scenario::TABLE, guidellm_base), (inference_perf::TABLE, inference_perf_base)];

#[test]
fn each_field_of_a_document_has_its_outcome() {
    for (table, base) in TABLES {
        for field in table {
            let path = field.names[0];
            let mut given = base(path);
            set(&mut given, path, serde_json::from_str(field.example).unwrap_or_else(|_| json!(field.example)));
            let imported = document(&given);
            let begins = |row: &&crate::Row| {
                row.field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '[', '.']))
            };
            let found: Vec<Outcome> = imported.rows.iter().filter(begins).map(|row| row.outcome).collect();
            let expected = |outcome: &Outcome| match field.treatment {
                Treatment::Carried(_) => {
                    [Outcome::Mapped, Outcome::Approximated, Outcome::SecretReference, Outcome::Ignored].contains(outcome)
                }
                Treatment::Ignored(_) => *outcome == Outcome::Ignored,
                Treatment::Refused(_) | Treatment::Unless { .. } => *outcome == Outcome::Refused,
            };
            assert!(!found.is_empty() && found.iter().all(expected), "{given}: {:#?}", imported.rows);
        }
    }
}

/// A value with which a field changes nothing is ignored, however the number is written.
#[test]
fn a_value_that_changes_nothing_is_ignored() {
    for (table, base) in TABLES {
        for field in table {
            let Treatment::Unless { value, .. } = field.treatment else { continue };
            let path = field.names[0];
            let value: Value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            for value in [value.as_f64().map_or(value.clone(), |number| json!(number)), value] {
                let mut given = base(path);
                set(&mut given, path, value);
                let imported = document(&given);
                let row = imported.rows.iter().find(|row| row.field == path).map(|row| row.outcome);
                assert_eq!(row, Some(Outcome::Ignored), "{given}: {:#?}", imported.rows);
            }
        }
    }
}

/// The fields whose texts are copied, if they are plain.
const COPIED: [&str; 8] = [
    "spec.backend.target",
    "spec.backend.model",
    "server.base_url",
    "server.model_name",
    "load.lora_traffic_split[].name",
    "storage.simple_storage_service.bucket_name",
    "storage.simple_storage_service.region_name",
    "storage.simple_storage_service.endpoint_url",
];

/// A credential in any field, known or not, is in no file, row or error.
#[test]
fn no_credential_of_a_document_survives() {
    let secret = format!("sk-{CANARY}sk-{CANARY}");
    let unknown = [
        "spec.nope",
        "spec.backend.nope",
        "spec.data[synthetic_text].nope",
        "nope",
        "server.nope",
        "load.stages[].nope",
        "benchmarks[].nope",
    ];
    for (table, base) in TABLES {
        for path in table.iter().map(|field| field.names[0]).chain(unknown).filter(|path| !COPIED.contains(path)) {
            for value in [
                json!(CANARY),
                json!(secret),
                json!([secret, CANARY]),
                json!({"deep": [CANARY], "Authorization": secret, "note": CANARY}),
            ] {
                let mut given = base(path);
                set(&mut given, path, value);
                let given = given.to_string();
                let imported = import(&Source::File { name: "job.yaml", bytes: given.as_bytes() }, &ImportOptions::default());
                assert!(!format!("{imported:?}").contains(CANARY), "{given}\n{imported:#?}");
            }
        }
    }
    let flat = format!(
        "target: http://h:1\nprofile: constant\ndata: ['{CANARY}']\nrate: ['{CANARY}', 1]\nbackend_args: {{api_key: {CANARY}}}\n{CANARY}: {CANARY}\nother: [{CANARY}]\n"
    );
    let imported = format!("{:?}", text(&flat));
    assert!(!imported.replace(&format!("--{CANARY}"), "").contains(CANARY), "{imported}");
}

/// The file of a run is published as it is, so keys in it are found.
#[test]
fn keys_of_a_document_are_found() {
    for (base, path) in [
        (guidellm_base(""), "spec.backend.api_key"),
        (inference_perf_base(""), "server.api_key"),
        (inference_perf_base(""), "tokenizer.token"),
        (inference_perf_base(""), "api.headers"),
    ] {
        assert_eq!(document(&base).credentials, [""; 0]);
        let mut given = base.clone();
        set(&mut given, path, if path == "api.headers" { json!({"Authorization": "Bearer abc"}) } else { json!("abcdefgh") });
        assert!(!document(&given).credentials.is_empty(), "{given}");
    }
}

#[test]
fn documents_are_recognised_by_what_they_hold() {
    let name = |text: &str| recognise(&Source::File { name: "guidellm.yaml", bytes: text.as_bytes() }).map(|format| format.name);
    for (text, expected) in [
        ("spec: {profile: {kind: sweep}}", Some("guidellm-scenario")),
        ("spec: {data: [{kind: synthetic_text}]}", Some("guidellm-scenario")),
        ("config: {spec: {backend: {kind: openai_http}}}", Some("guidellm-scenario")),
        ("profile: sweep\ndata: x", Some("guidellm-scenario")),
        ("apiVersion: a/v1\nkind: X\nspec: {profile: {kind: sweep}}", None),
        ("spec: {profile: sweep}", None),
        ("config: {}", None),
        ("profile: sweep", None),
        ("load: {type: constant}\nserver: {}", Some("inference-perf")),
        ("load: {sweep: {type: linear}}\ndata: {type: random}", Some("inference-perf")),
        ("load: {type: constant}", None),
        ("load: {}\napi: {}", None),
        ("kind: X\nload: {type: constant}\nserver: {}", None),
    ] {
        assert_eq!(name(text), expected, "{text}");
    }
}

#[test]
fn a_scenario_of_guidellm_becomes_a_workload() {
    let imported = text(include_str!("examples/guidellm_rates.yaml"));
    assert_snapshot!(files(&imported));
}

/// Returns the definitions of an import without their first comments, which name the format.
fn bodies(import: &Import) -> Vec<String> {
    let body = |file: &crate::ImportedFile| file.text.split_once("apiVersion").expect("a definition").1.to_owned();
    import.files.iter().map(body).collect()
}

/// A command line of guidellm 0.7 is a scenario in parts.
#[test]
fn a_command_line_of_guidellm_0_7_says_the_same_as_its_scenario() {
    let line = "guidellm run --backend kind=openai_http,target=http://h:1,model=m --profile kind=constant,rate[0]=1,rate[1]=4 \
                --constraint kind=max_duration,seconds=9 --constraint kind=max_errors,count=3 \
                --data kind=synthetic_text,prompt-tokens=9,output_tokens=9,output_tokens_stdev=2 --seed kind=static,value=42 --disable-console";
    let scenario = json!({"spec": {
        "backend": {"kind": "openai_http", "target": "http://h:1", "model": "m"}, "profile": {"kind": "constant", "rate": [1, 4]},
        "constraints": [{"kind": "max_duration", "seconds": 9}, {"kind": "max_errors", "count": 3}],
        "data": [{"kind": "synthetic_text", "prompt_tokens": 9, "output_tokens": 9, "output_tokens_stdev": 2}],
        "seed": {"kind": "static", "value": 42},
    }});
    let (by_line, by_file) = (command(line), document(&scenario));
    assert_eq!((rows(&by_line, Outcome::Refused).as_str(), bodies(&by_line)), ("", bodies(&by_file)));
    let fields = |import: &Import| {
        let fields: Vec<String> =
            import.rows.iter().map(|row| row.field.clone()).filter(|field| field.starts_with("spec.")).collect();
        fields
    };
    assert_eq!(fields(&by_line), fields(&by_file), "each field has the row that it has in a file");
    let loads = command(&line.replace("kind=constant,rate[0]=1,rate[1]=4", "kind=concurrent --override profile.streams 1,8"));
    assert!(files(&loads).contains("concurrency: [1, 8]"), "{loads:#?}");
    for (given, refusal) in [
        ("--profile constant", "--profile | write `kind=KIND,NAME=VALUE`"),
        ("--override constraint[0].seconds 1,2", "--override | write `profile.rate` or `profile.streams`"),
        ("--config chat.json", "--config | import that file"),
        ("--rate 5", "--rate | this option is not known to Assay"),
        ("--tokenizer kind=huggingface_auto,modle=m", "spec.tokenizer.modle | this is no field of a scenario of guidellm"),
    ] {
        let option = given.split(' ').next().unwrap_or_default();
        let base: String =
            if option == "--profile" { line.replace("--profile kind=constant,rate[0]=1,rate[1]=4", "") } else { line.to_owned() };
        let refused = rows(&command(&format!("{base} {given}")), Outcome::Refused);
        assert!(refused.contains(refusal), "{given}: {refused}");
    }
    let secrets = format!(
        "{} --unknown={CANARY}",
        line.replace("model=m", &format!("model=m,api_key={CANARY},extras.headers.authorization={CANARY},{CANARY}={CANARY}"))
    );
    let imported = command(&secrets);
    assert!(!format!("{imported:?}").replace(&format!("spec.backend.{CANARY}"), "").contains(CANARY), "{imported:#?}");
}

/// guidellm 0.7.3 spells out all its routes in a report.
#[test]
fn the_route_of_the_api_decides() {
    let with = |routes: Value| {
        let mut given = guidellm_base("");
        given["spec"]["backend"]["request_format"] = json!("/v1/completions");
        given["spec"]["backend"]["api_routes"] = routes;
        refused(&given)
    };
    for routes in [
        json!({}),
        json!({"/v1/completions": "v1/completions", "/health": "health"}),
        json!({"/v1/completions": "/v1/completions", "/v1/chat/completions": "elsewhere", "/health": "ready"}),
    ] {
        assert_eq!(with(routes.clone()), "", "{routes}");
    }
    for routes in
        [json!({"/v1/completions": "gateway/v1/completions"}), json!({"/v1/completions": 5}), json!("/v1"), json!(["a", "b"])]
    {
        assert!(with(routes.clone()).contains("spec.backend.api_routes | "), "{routes}: {}", with(routes.clone()));
    }
}

/// The options of a command line and the members of a flat scenario have one mapping.
#[test]
fn a_flat_scenario_is_mapped_as_its_command_line_is() {
    let flat = text(include_str!("examples/guidellm_flat.yaml"));
    let same = command(
        "guidellm benchmark --target http://127.0.0.1:8000 --model llama-3.1-8b --profile constant --rate 1 --rate 4 --max-seconds 30 --data \
         prompt_tokens=256,output_tokens=128 --random-seed 42 --disable-progress",
    );
    let outcomes = |import: &Import| {
        let mut rows: Vec<String> = import.rows.iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        rows
    };
    assert_eq!((outcomes(&flat), bodies(&flat)), (outcomes(&same), bodies(&same)));
}

#[test]
fn benchmarks_of_a_scenario_state_the_loads() {
    let mut given = guidellm_base("");
    given["benchmarks"] = json!([{"profile.rate": 10}, {"profile.rate": [20, 30]}]);
    let imported = document(&given);
    assert!(files(&imported).contains("rate: [10, 20, 30]"), "{imported:#?}");
    given["benchmarks"] = json!([null, {"profile.rate": 20}]);
    assert!(refused(&given).contains("benchmarks | write a load for each of them"), "{}", refused(&given));
    // One without a rate has that of the profile, and is not left out in silence.
    given["benchmarks"] = json!([{"profile.rate": 1}, {}, {"profile.rate": 3}]);
    assert!(refused(&given).contains("benchmarks | write a load for each of them"), "{}", refused(&given));
    given["benchmarks"] = json!([{"profile": {"rate": 10}}, {"profile": {"rate": 30}}]);
    assert!(files(&document(&given)).contains("rate: [10, 30]"), "{:#?}", document(&given));
    given["benchmarks"] = json!([{"profile.rate": 1, "constraints[0].seconds": 5}]);
    assert!(refused(&given).contains("benchmarks[].constraints[0].seconds | this is no field"), "{}", refused(&given));
    given["benchmarks"] = json!([null]);
    assert!(refused(&given).is_empty() && files(&document(&given)).contains("rate: [1]"));
}

#[test]
fn throughput_keeps_a_number_of_requests_in_flight() {
    let mut given = guidellm_base("");
    given["spec"]["profile"] = json!({"kind": "throughput", "max_concurrency": 64});
    assert!(files(&document(&given)).contains("mode: closed\n    concurrency: [64]"), "{}", files(&document(&given)));
    given["spec"]["profile"] = json!({"kind": "throughput"});
    assert!(refused(&given).contains("spec.profile.kind | write the loads out"));
}

#[test]
fn each_format_of_requests_is_an_api_or_refused() {
    for (format, api) in [("/v1/chat/completions", "chat"), ("/v1/completions", "completions"), ("/v1/responses", "responses")] {
        let mut given = guidellm_base("");
        given["spec"]["backend"]["request_format"] = json!(format);
        assert!(files(&document(&given)).contains(&format!("  api: {api}\n")), "{format}");
    }
    let mut given = guidellm_base("");
    given["spec"]["backend"]["request_format"] = json!("/pooling");
    assert!(refused(&given).contains("spec.backend.request_format | write `/v1/chat/completions`"), "{}", refused(&given));
}

#[test]
fn certificates_that_guidellm_does_not_check_are_stated() {
    let mut given = guidellm_base("");
    assert!(rows(&document(&given), Outcome::Approximated).contains("spec.backend.verify(absent)"));
    given["spec"]["backend"]["verify"] = json!(false);
    assert!(files(&document(&given)).contains("insecure_skip_tls_verify: true"));
    given["spec"]["backend"]["target"] = json!("http://h:1");
    let imported = document(&given);
    assert!(!files(&imported).contains("insecure_skip") && rows(&imported, Outcome::Ignored).contains("spec.backend.verify"));
}

#[test]
fn a_configuration_of_inference_perf_becomes_a_workload_for_each_length_of_a_stage() {
    let imported = text(include_str!("examples/inference_perf_stages.yml"));
    assert_snapshot!(files(&imported));
    assert_eq!(imported.commands, ["assay run pipelines/inference-perf.yaml --store 's3://results?region=eu-west-1'"]);
    assert_snapshot!(files(&text(include_str!("examples/inference_perf_prefixes.yml"))));
}

/// inference-perf ends with `Unsupported API type` for these, so there is nothing that an import could repeat.
#[test]
fn a_stage_without_its_rate_or_duration_gets_none_of_its_neighbour() {
    let mut given = inference_perf_base("");
    given["load"]["stages"] = json!([{"rate": 1, "duration": 30}, {"rate": 2}, {"duration": 60}]);
    assert!(
        refused(&given).contains("load.stages | write 1 to 200 stages, and `rate` and `duration` into each"),
        "{}",
        refused(&given)
    );
}

#[test]
fn an_api_that_inference_perf_refuses_with_the_data_is_refused() {
    let with = |api: &str, data: &str, server: &str| {
        let mut given = inference_perf_base(if data == "shared_prefix" { "data.shared_prefix" } else { "" });
        (given["api"], given["data"]["type"], given["server"]["type"]) = (json!({"type": api}), json!(data), json!(server));
        refused(&given)
    };
    for (api, data, server) in [
        ("completion", "random", "vllm"),
        ("completion", "synthetic", "sglang"),
        ("completion", "shared_prefix", "tgi"),
        ("chat", "shared_prefix", "vllm"),
    ] {
        assert_eq!(with(api, data, server), "", "{api} {data} {server}");
    }
    for (api, data) in
        [("chat", "random"), ("chat", "synthetic"), ("anthropic_messages", "random"), ("anthropic_messages", "shared_prefix")]
    {
        let expected = format!("api.type | inference-perf refuses it with `data.type: {data}`: write `completion`");
        assert!(with(api, data, "vllm").starts_with(&expected), "{api} {data}: {}", with(api, data, "vllm"));
    }
    let by_server = with("anthropic_messages", "shareGPT", "tgi");
    assert!(by_server.contains("inference-perf refuses it with `server.type: tgi`: write `completion` or `chat`"), "{by_server}");
}

#[test]
fn each_distribution_is_mapped_or_approximated() {
    let imported = |lengths: Value| {
        let mut given = inference_perf_base("");
        given["data"]["input_distribution"] = lengths;
        document(&given)
    };
    for (lengths, written, note) in [
        (
            json!({"mean": 100, "std_dev": 10, "min": 50, "max": 130}),
            "normal: {mean: 100, stddev: 10}",
            "not clipped at 50 and 130, 5.0 and 3.0 standard deviations",
        ),
        (
            json!({"mean": 100, "variance": 25}),
            "normal: {mean: 100, stddev: 5}",
            "not clipped at 10 and 1024, 18.0 and 184.8 standard",
        ),
        (json!({"mean": 100, "std_dev": 0, "min": 100, "max": 100}), "fixed: 100", ""),
        (json!({"type": "fixed", "mean": 64}), "fixed: 64", ""),
        (json!({"type": "uniform", "min": 5, "max": 9}), "uniform: {max: 9, min: 5}", ""),
        (
            json!({"type": "lognormal", "mean": 100, "std_dev": 10}),
            "lognormal: {mean: 100, stddev: 10}",
            "shifts the distribution to begin at 10",
        ),
        (
            json!({"type": "poisson", "mean": 100}),
            "normal: {mean: 100, stddev: 10.0}",
            "the mean and the spread of the Poisson distribution",
        ),
    ] {
        let imported = imported(lengths.clone());
        assert!(files(&imported).contains(written), "{lengths}: {}", files(&imported));
        let rows = rows(&imported, Outcome::Approximated);
        let notes: Vec<&str> = rows.lines().filter(|row| row.starts_with("data.input_distribution")).collect();
        assert!(
            if note.is_empty() { notes.is_empty() } else { notes.iter().any(|row| row.contains(note)) },
            "{lengths}: {notes:?}"
        );
    }
    for (lengths, field) in [
        (json!({"type": "skew_normal", "mean": 100}), "type"),
        (json!({"type": "zipf", "mean": 100}), "type"),
        (json!({"min": 9, "max": 5}), "mean"),
        (json!({"mean": "many"}), "mean"),
    ] {
        let rows = rows(&imported(lengths.clone()), Outcome::Refused);
        assert!(rows.contains(&format!("data.input_distribution.{field} | ")), "{lengths}: {rows}");
    }
}

#[test]
fn the_commonest_mistakes_in_documents_have_a_remedy() {
    let mut rates = guidellm_base("");
    rates["spec"]["profile"] = json!({"kind": "concurrent", "streams": [1.5]});
    rates["spec"]["constraints"] = json!([{"kind": "max_duration", "seconds": [1, 2]}, {"kind": "max_time", "seconds": 1}]);
    let sweep = json!({"spec": {"profile": {"kind": "sweep"}, "backend": {"kind": "vllm_python", "modle": "m"}, "data": [{"kind": "huggingface", "source": "a/b"}]}});
    assert_snapshot!(
        [refused(&rates), refused(&sweep), rows(&text("profile: sweep\ndata: some/dataset\n"), Outcome::Refused)].join("\n\n")
    );
    let mut stages = inference_perf_base("");
    stages["load"]["stages"] = json!([{"rate": 1, "duration": 9}, {"rate": 2}]);
    let mut fields = inference_perf_base("");
    fields["load"] = json!({"type": "concurent", "stages": [{"rate": 0, "duration": 9}]});
    fields["data"] = json!({"type": "shareGPT", "path": "/data/sharegpt.json"});
    fields["server"] = json!({"base_ulr": "http://h:1"});
    let sweep = json!({"load": {"type": "poisson", "sweep": {"type": "linear"}}, "data": {"type": "shared_prefix", "shared_prefix": {"question_len": {"mean": 9}}}, "server": {"base_url": "h"}});
    assert_snapshot!([refused(&stages), refused(&fields), refused(&sweep)].join("\n\n"));
}

#[test]
fn stages_have_a_limit_and_may_repeat_a_rate() {
    let given = |rates: &mut dyn Iterator<Item = usize>| {
        let mut given = inference_perf_base("");
        given["load"]["stages"] = rates.map(|rate| json!({"rate": rate, "duration": 9})).collect();
        given
    };
    assert_eq!(refused(&given(&mut (1..=200))), "");
    assert!(refused(&given(&mut (1..=201))).contains("write 1 to 200 stages"));
    let repeated = document(&given(&mut [1, 5, 1].into_iter()));
    assert_eq!((rows(&repeated, Outcome::Refused).as_str(), repeated.files.len()), ("", 4));
}

/// A profile of llm-d-benchmark is a configuration of inference-perf or guidellm whose values are not filled in yet.
#[test]
fn placeholders_are_refused_by_what_they_are() {
    for (base, path) in [(guidellm_base as fn(&str) -> Value, "spec.backend.model"), (inference_perf_base, "server.base_url")] {
        let mut given = base(path);
        set(&mut given, path, json!("REPLACE_ENV_LLMDBENCH_NAME"));
        let expected = format!("{path} | `REPLACE_...` stands for a value that llm-d-benchmark fills in: write the value");
        assert!(refused(&given).contains(&expected), "{}", refused(&given));
        set(&mut given, path, json!("REPLACEMENT"));
        assert!(!refused(&given).contains("llm-d-benchmark"), "{}", refused(&given));
    }
}

#[test]
fn a_body_of_lists_and_maps_is_the_text_of_an_object() {
    let body = r#"{"stop":["x"],"chat_template_kwargs":{"enable_thinking":false},"n":null,"top_k":5}"#;
    let line = format!("vllm bench serve --model m --base-url http://h:1 --request-rate 10 --num-prompts 5 --extra-body {body}");
    let imported = command(&line);
    assert_eq!(rows(&imported, Outcome::Refused), "");
    let written = files(&imported);
    let extra = r#"  extra_body: "{\"chat_template_kwargs\":{\"enable_thinking\":false},\"n\":null,\"stop\":[\"x\"],\"temperature\":null}""#;
    assert!(written.contains(extra) && written.contains("top_k: 5"), "{written}");
}

#[test]
fn a_mean_outside_of_its_bounds_is_refused() {
    let lengths = |input: &str| {
        format!(
            "load: {{type: constant, stages: [{{rate: 1, duration: 30}}]}}\nserver: {{base_url: 'http://h:1', model_name: m}}\n\
             data: {{type: random, input_distribution: {input}, output_distribution: {{mean: 50, std_dev: 5, min: 1, max: 99}}}}\n"
        )
    };
    let refused = |input: &str| rows(&text(&lengths(input)), Outcome::Refused);
    for input in ["{min: 20, max: 30}", "{mean: 5000, std_dev: 5, min: 40, max: 60}"] {
        assert!(
            refused(input).contains("data.input_distribution.mean | write a mean from 1 that lies between"),
            "{}",
            refused(input)
        );
    }
    assert_eq!(refused("{mean: 50, std_dev: 5, min: 40, max: 60}"), "");
    assert_eq!(refused("{type: uniform, mean: 5000, min: 40, max: 60}"), "", "it is not drawn around its mean");
}

/// Returns the row of a field: its outcome, and its note behind a bar.
fn row_of(imported: &Import, field: &str) -> String {
    let found = imported.rows.iter().find(|row| row.field == field).map(|row| (row.outcome, row.note.clone()));
    found.map_or_else(String::new, |(outcome, note)| format!("{outcome} | {}", note.unwrap_or_default()))
}

const VLLM: &str = "vllm bench serve --model m --base-url http://h:1 --request-rate 10";
const AIPERF: &str = "aiperf profile -m m -u http://h:1 --concurrency 2 --isl 9 --osl 150";
const GENAI: &str = "genai-bench benchmark --api-base http://h:1 --api-model-name m --task text-to-text --traffic-scenario D(9,150) --num-concurrency 1 \
                     --max-time-per-run 1 --max-requests-per-run 1";
const GUIDELLM: &str = "guidellm run --backend kind=openai_http,target=http://h:1,model=m,timeout=30 --profile kind=constant,rate=1 \
                        --constraint kind=max_duration,seconds=9 --data kind=synthetic_text,prompt_tokens=2,output_tokens=3";

/// vLLM sets `ignore_eos` for `random` data, whether or not the option is given (`vllm/benchmarks/serve.py`).
#[test]
fn random_data_of_vllm_has_an_exact_output() {
    for (options, field, exact) in [
        ("", "ignore_eos(implied)", true),
        ("--dataset-name random --backend openai-chat", "ignore_eos(implied)", true),
        ("--ignore-eos", "--ignore-eos", true),
        ("--extra-body {\"ignore_eos\":false}", "--extra-body.ignore_eos", false),
    ] {
        let imported = command(&format!("{VLLM} {options}"));
        assert!(row_of(&imported, field).starts_with("mapped"), "{options}: {:#?}", imported.rows);
        assert!(files(&imported).contains(&format!("exact_output: {exact}")), "{options}");
    }
}

/// vLLM merges its options for sampling and then those of each request under the members of `--extra-body` (`{**sampling_params, **extra_body}` and
/// `payload.update(extra_body)`).
#[test]
fn an_option_that_the_extra_body_of_vllm_replaces_is_ignored() {
    for (option, name, value) in [
        ("--temperature 0.5", "temperature", "0.25"),
        ("--temperature 0.5", "temperature", "null"),
        ("--top-p 0.5", "top_p", "0.25"),
        ("--top-k 5", "top_k", "7"),
        ("--min-p 0.5", "min_p", "0.25"),
        ("--frequency-penalty 0.5", "frequency_penalty", "0.25"),
        ("--presence-penalty 0.5", "presence_penalty", "0.25"),
        ("--repetition-penalty 1.5", "repetition_penalty", "1.25"),
        ("--logprobs 2", "logprobs", "3"),
        ("--ignore-eos", "ignore_eos", "false"),
    ] {
        let imported = command(&format!("{VLLM} {option} --extra-body {{\"{name}\":{value}}}"));
        let flag = option.split(' ').next().unwrap_or_default();
        assert_eq!(row_of(&imported, flag), format!("ignored | `--extra-body` states `{name}`, and takes precedence"));
        assert!(row_of(&imported, &format!("--extra-body.{name}")).starts_with("mapped"), "{:#?}", imported.rows);
        let alone = command(&format!("{VLLM} --extra-body {{\"{name}\":{value}}}"));
        let requests = |imported: &Import| imported.files.first().map(|file| file.text.clone());
        assert_eq!(requests(&imported), requests(&alone), "the option changes nothing that is sent");
        let implied = alone.rows.iter().filter(|row| row.field == format!("{name}(implied)")).count();
        assert_eq!(implied, 0, "{:#?}", alone.rows);
    }
}

/// guidellm sets `ignore_eos` for synthetic data, and then adds the members of `extras.body` (`model_combine`).
#[test]
fn the_extra_body_of_guidellm_states_ignore_eos_in_its_only_row() {
    for (extras, field, exact) in [
        ("", "ignore_eos(implied)", true),
        (r#","extras":{"body":{"ignore_eos":false}}"#, "spec.backend.extras.body.ignore_eos", false),
        (r#","extras":{"body":{"ignore_eos":true}}"#, "spec.backend.extras.body.ignore_eos", true),
    ] {
        let backend = format!(r#"{{"kind":"openai_http","target":"http://h:1","model":"m"{extras}}}"#);
        let line = "--profile kind=constant,rate=1 --constraint kind=max_duration,seconds=9 --data kind=synthetic_text,prompt_tokens=2,output_tokens=3";
        let imported = command(&format!("guidellm run --backend {backend} {line}"));
        let stated: Vec<&str> =
            imported.rows.iter().map(|row| row.field.as_str()).filter(|field| field.contains("ignore_eos")).collect();
        assert_eq!(stated, [field]);
        assert!(row_of(&imported, field).starts_with("mapped") && files(&imported).contains(&format!("exact_output: {exact}")));
    }
}

/// Each client sends its own temperature and has its own limit of a request, which are written out where Assay's differ.
#[test]
fn what_a_client_does_without_a_field_is_written_out() {
    let inference_perf = files(&document(&inference_perf_base("")));
    let sglang = "python -m sglang.bench_serving --model m --dataset-name random --request-rate 2";
    let of_server = r#"extra_body: "{\"temperature\":null}""#;
    for (written, has_temperature_of_server, timeout) in [
        (files(&command(VLLM)), true, "timeout: 6h"),
        (files(&command(AIPERF)), true, "timeout: 6h"),
        (files(&command(sglang)), false, "timeout: 6h"),
        (inference_perf, true, "timeout: 5m"),
        (files(&command(GUIDELLM)), true, "timeout: 30000ms"),
        (files(&command(&GUIDELLM.replace(",timeout=30", ""))), true, "guidellm has no limit for a request"),
        (files(&command(&format!("{GENAI} --api-backend vllm"))), false, "genai-bench has no limit for a request"),
    ] {
        assert_eq!(written.contains(of_server), has_temperature_of_server, "{written}");
        assert!(written.contains(timeout), "{timeout}\n{written}");
    }
    let stated = command(&format!("{VLLM} --temperature 0.5"));
    assert!(files(&stated).contains("temperature: 0.5") && !files(&stated).contains(of_server));
    let shorter = command(&format!("{AIPERF} --request-timeout-seconds 9"));
    assert!(files(&shorter).contains("timeout: 9000ms") && row_of(&shorter, "timeout(implied)").is_empty());
    let read = row_of(&command(GUIDELLM), "spec.backend.timeout");
    assert_eq!(
        read,
        "approximated | guidellm limits the time between two parts of a response, and Assay that of the whole request"
    );
}

#[test]
fn a_least_output_is_the_exact_one_or_refused_by_its_field() {
    let exact = command(&format!("{AIPERF} --extra-inputs ignore_eos:true --extra-inputs min_tokens:150"));
    assert_eq!((rows(&exact, Outcome::Refused).as_str(), exact.files.len()), ("", 2));
    assert!(files(&exact).contains("exact_output: true") && !files(&exact).contains("min_tokens"));
    let alone = command(&format!("{AIPERF} --extra-inputs min_tokens:150"));
    assert!(files(&alone).contains("exact_output: true"), "a least and a most number that are equal are exact");
    let lower = command(&format!("{VLLM} --extra-body {{\"min_tokens\":5}}"));
    assert!(row_of(&lower, "--extra-body.min_tokens").starts_with("mapped"), "it changes nothing of an exact output");
    let of_cells = command(&format!("{GENAI} --api-backend vllm --additional-request-params {{\"min_tokens\":150}}"));
    assert!(row_of(&of_cells, "--additional-request-params.min_tokens").starts_with("mapped"), "{:#?}", of_cells.rows);
    for (line, field) in [
        (format!("{AIPERF} --extra-inputs min_tokens:5"), "--extra-inputs.min_tokens"),
        (format!("{AIPERF} --osl-stddev 9 --extra-inputs min_tokens:150"), "--extra-inputs.min_tokens"),
        (format!("{AIPERF} --extra-inputs max_tokens:5"), "--extra-inputs.max_tokens"),
        (format!("{VLLM} --extra-body {{\"stream\":false}}"), "--extra-body.stream"),
    ] {
        let imported = command(&line);
        let refused: Vec<&str> =
            imported.rows.iter().filter(|row| row.outcome == Outcome::Refused).map(|row| row.field.as_str()).collect();
        assert_eq!(refused, [field], "{line}: the field is refused, and not the result");
    }
}

#[test]
fn bounds_that_change_a_distribution_are_refused_and_distant_ones_are_approximated() {
    let guidellm = |data: &str| {
        let line = "guidellm benchmark --target http://h:1 --model m --profile constant --rate 1 --max-seconds 9 --data";
        command(&format!("{line} {data}"))
    };
    let near = guidellm("prompt_tokens=100,prompt_tokens_stdev=200,prompt_tokens_min=90,prompt_tokens_max=110,output_tokens=9");
    assert!(row_of(&near, "--data").contains("a bound within two of them changes the mean"), "{:#?}", near.rows);
    assert_eq!(near.rows.iter().filter(|row| row.outcome == Outcome::Refused).count(), 1);
    let far = guidellm("prompt_tokens=100,prompt_tokens_stdev=10,prompt_tokens_min=50,prompt_tokens_max=150,output_tokens=9");
    assert!(row_of(&far, "--data").contains("5.0 and 5.0 standard deviations from the mean"), "{:#?}", far.rows);
}

#[test]
fn the_extra_body_of_sglang_states_ignore_eos_and_belongs_to_its_api() {
    let sglang = |backend: &str, more: &str| {
        command(&format!(
            "python -m sglang.bench_serving --backend {backend} --model m --dataset-name random --request-rate 2 {more}"
        ))
    };
    let off = sglang("sglang-oai", "--extra-request-body {\"ignore_eos\":false}");
    assert!(files(&off).contains("exact_output: false"), "{}", files(&off));
    assert!(!off.rows.iter().any(|row| row.field.starts_with("--disable-ignore-eos")), "{:#?}", off.rows);
    let on = sglang("sglang-oai", "--disable-ignore-eos --extra-request-body {\"ignore_eos\":true}");
    assert!(files(&on).contains("exact_output: true"), "{}", files(&on));
    let replaced = "ignored | `--extra-request-body` states `ignore_eos`, and takes precedence";
    assert_eq!(row_of(&on, "--disable-ignore-eos"), replaced);
    let native = sglang("sglang", "--extra-request-body {\"sampling_params\":{\"temperature\":0.7}}");
    assert_eq!(rows(&native, Outcome::Refused).lines().count(), 1, "{:#?}", native.rows);
    assert!(row_of(&native, "--extra-request-body").starts_with("refused | its members are those of `/generate`"));
}

#[test]
fn genai_bench_drops_ignore_eos_for_the_api_of_openai() {
    let params = "--additional-request-params {\"ignore_eos\":true}";
    let dropped = command(&format!("{GENAI} --api-backend openai {params}"));
    assert!(row_of(&dropped, "--additional-request-params.ignore_eos").starts_with("ignored | genai-bench drops it"));
    assert!(files(&dropped).contains("exact_output: false"));
    let sent = command(&format!("{GENAI} --api-backend vllm {params}"));
    assert!(row_of(&sent, "--additional-request-params.ignore_eos").starts_with("mapped"));
    assert!(files(&sent).contains("exact_output: true"));
}

#[test]
fn a_spread_that_is_absent_has_its_default() {
    let mut given = inference_perf_base("");
    given["data"] = json!({"type": "random", "input_distribution": {"mean": 512}, "output_distribution": {"variance": 100}});
    let imported = document(&given);
    let absent = |name: &str| row_of(&imported, &format!("data.{name}(absent)"));
    assert!(absent("input_distribution.std_dev").starts_with("mapped | the default"), "{:#?}", imported.rows);
    assert_eq!((absent("output_distribution.std_dev"), absent("input_distribution.mean")), (String::new(), String::new()));
    assert!(absent("output_distribution.mean").starts_with("mapped"));
}

#[test]
fn numbers_of_users_of_aiperf_may_be_a_list() {
    let line = "aiperf profile -m m -u http://h:1 --isl 9 --osl 9";
    let points = command(&format!("{line} --concurrency 10,20,30"));
    assert!(
        files(&points).contains("concurrency: [10, 20, 30]") && files(&points).contains("requests: 60"),
        "{}",
        files(&points)
    );
    assert!(row_of(&points, "--request-count(absent)").starts_with("approximated"));
    let limits = command(&format!("{line} --concurrency 10,20 --request-rate 5"));
    assert!(rows(&limits, Outcome::Refused).starts_with("--concurrency | write one limit"), "{:#?}", limits.rows);
    for refused in ["10,", "x", "10;20"] {
        assert!(
            row_of(&command(&format!("{line} --concurrency {refused}")), "--concurrency").starts_with("refused"),
            "{refused}"
        );
    }
}

#[test]
fn options_of_sampling_are_members_of_the_body() {
    let imported =
        command(&format!("{VLLM} --frequency-penalty 0.5 --presence-penalty 0.25 --repetition-penalty 1.5 --logprobs 2"));
    assert_eq!(rows(&imported, Outcome::Refused), "");
    for member in ["frequency_penalty: 0.5", "presence_penalty: 0.25", "repetition_penalty: 1.5", "logprobs: 2"] {
        assert!(files(&imported).contains(member), "{member}\n{}", files(&imported));
    }
    assert!(files(&command(VLLM)).contains("repetition_penalty: 1"), "vLLM sends 1 with completions");
    let chat = command(&format!("{VLLM} --backend openai-chat --logprobs 2"));
    assert!(!files(&chat).contains("repetition_penalty") && row_of(&chat, "--logprobs").starts_with("ignored"));
    let shortened = "python -m sglang.bench_serving --model m --dataset-name random --random-input 7 --random-output 8";
    assert!(files(&command(shortened)).contains("tokens: 7") && files(&command(shortened)).contains("tokens: 8"));
}
