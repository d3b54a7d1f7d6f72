//! `assay contracts`, and BenchmarkRuns that run as they are.

use std::fs;
use std::path::Path;

use assay_manifest::Digest;
use serde_json::json;

use crate::docs::{Reader, blocks};
use crate::pipeline::{list, text};
use crate::replicas::Replica;
use crate::serving;
use crate::support::{CommandResult, Fixture, binary};

/// Returns a small BenchmarkRun of a class against an endpoint.
fn benchmark_run(fixture: &Fixture, class: &str, url: &str) -> String {
    let model = serving::MODEL;
    let rendered =
        fixture.assay(&["contracts", "render", "--name", "chat", "--benchmark-class", class, "--model", model]).success().stdout;
    let annotations = format!("  annotations:\n    assay.dev/endpoint: {url}/v1\n    assay.dev/requests: \"10\"\nspec:\n");
    let small = [
        ("spec:\n", annotations.as_str()),
        ("inputTokens: 512, outputTokens: 128", "inputTokens: 20, outputTokens: 10"),
        ("inputTokens: 1024, outputTokens: 256", "inputTokens: 30, outputTokens: 12"),
        ("[{512/128@0.7},{1024/256@0.3}]", "[{20/10@0.7},{30/12@0.3}]"),
        ("minReplicates: 5", "minReplicates: 3"),
    ];
    small.iter().fold(rendered, |text, (from, to)| {
        assert!(text.contains(from), "{from}\n{text}");
        text.replacen(from, to, 1)
    })
}

/// Runs a line of a shell in which `$0` is `assay`.
fn shell(fixture: &Fixture, line: &str) -> CommandResult {
    let mut command = fixture.command(Path::new("sh"));
    command.args(["-c", line]).arg(binary("assay"));
    CommandResult::from_output(command.output().expect("sh runs"))
}

#[test]
fn a_benchmark_run_runs_as_it_is() {
    let (fixture, endpoint) = (Fixture::bare(), Replica::with(&[]));
    let original = benchmark_run(&fixture, "realism_grade", &endpoint.url);
    fixture.write("run.yaml", &original);
    fixture.assay(&["contracts", "validate", "run.yaml"]).success();
    fixture.commit("a run");
    let ran = fixture.assay(&["run", "run.yaml", "--run-id", "one"]).success();
    assert!(ran.stderr.contains("run.yaml: a BenchmarkRun, imported in memory"), "{}", ran.stderr);
    let verified = fixture.verify("one").success();
    let line = format!("`run.yaml` (benchmarkrun), {}: an import of it gives the same\n", Digest::compute(original.as_bytes()));
    assert!(verified.stdout.contains(&line), "{}", verified.stdout);
    let plan = fixture.manifest("one", "plan");
    assert_eq!((&plan["body"]["intent"], list(&plan["body"]["trials"]).len()), (&json!("exploratory"), 3), "{plan}");
    assert!(endpoint.requests().len() >= 30, "three trials of ten requests");
}

/// Nothing of this machine is proved, so the run is not published at the grade that the document demands.
#[test]
fn a_publication_run_without_proofs_earns_a_lower_grade_with_its_reasons() {
    let (fixture, endpoint) = (Fixture::bare(), Replica::with(&[]));
    fixture.write("run.yaml", &benchmark_run(&fixture, "publication_grade", &endpoint.url));
    fixture.assay(&["import", "run.yaml"]).success();
    fixture.commit("a run");
    fixture.assay(&["run", "pipelines/chat.yaml", "--run-id", "one"]).success();
    let grade = fixture.manifest("one", "publish")["body"]["grade"].clone();
    assert_eq!(grade["requested"], "publication", "{grade}");
    assert_ne!(grade["given"], "publication", "{grade}");
    let rules: Vec<&str> = list(&grade["shortfalls"]).iter().map(|shortfall| text(&shortfall["rule"])).collect();
    assert!(rules.contains(&"controls"), "{grade}");
}

#[test]
fn a_rendered_run_is_valid_and_byte_stable() {
    let fixture = Fixture::bare();
    let piped = shell(&fixture, "\"$0\" contracts render --workload-type mixed | \"$0\" contracts validate -").success();
    assert!(
        piped.stdout.starts_with("BenchmarkRun valid: -\n") && piped.stdout.contains("\"workload_type\": \"mixed\""),
        "{}",
        piped.stdout
    );
    let render = ["contracts", "render", "--precision", "fp8", "--json", "--generated-at", "2026-11-29T12:00:00Z"];
    let (first, second) = (fixture.assay(&render).success(), fixture.assay(&render).success());
    assert_eq!(first.stdout, second.stdout);
    let result = first.json();
    assert_eq!(
        (&result["generated_at_utc"], &result["applied_values"]["precision"]),
        (&json!("2026-11-29T12:00:00Z"), &json!("fp8"))
    );
    let plain = fixture.assay(&["contracts", "render", "--precision", "fp8"]).success().stdout;
    assert_eq!(text(&result["rendered_yaml"]).trim_end(), plain.trim_end());
    fixture.assay(&["contracts", "render", "--cadence", "weekly"]).exits(2);
    fixture.assay(&["contracts", "render", "--name", "a\nb"]).exits(2);
    fixture.assay(&["contracts", "render", "--generated-at", "today"]).exits(2);
}

/// The exit codes are 0 and 1, those of the project that defined the contract.
#[test]
fn broken_rules_are_printed_with_exit_code_1() {
    let fixture = Fixture::bare();
    let valid = fixture.assay(&["contracts", "render"]).success().stdout;
    let broken = valid.replace("minReplicates: 5", "minReplicates: 2").replace("coldDays: 730", "coldDays: 7");
    fixture.write("valid.yaml", &valid);
    fixture.write("broken.yaml", &broken);
    let errors = [
        "spec.trials.minReplicates: must be an integer >= 3",
        "spec.sinks.curatedWarehouse.retention: must satisfy hotDays <= warmDays <= coldDays",
    ];
    let ran = fixture.assay(&["contracts", "validate", "broken.yaml"]).exits(1);
    assert_eq!(ran.stdout, format!("BenchmarkRun invalid: broken.yaml\n- {}\n- {}\n", errors[0], errors[1]));
    let document = fixture.assay(&["contracts", "validate", "broken.yaml", "--json"]).exits(1).json();
    assert_eq!(document, json!({"valid": false, "file": "broken.yaml", "errors": errors, "summary": {}}));
    let document = fixture.assay(&["contracts", "validate", "valid.yaml", "--json"]).success().json();
    assert_eq!((&document["valid"], &document["errors"]), (&json!(true), &json!([])));
    let summary = &document["summary"];
    assert_eq!(
        (&summary["enabled_layers"], &summary["ci_schedule"]["nightly"]),
        (&json!(["end_to_end"]), &json!(true)),
        "{summary}"
    );
    fixture.write("syntax.yaml", "a: [1\nb: canary-7e1\n");
    let syntax = fixture.assay(&["contracts", "validate", "syntax.yaml"]).exits(1);
    assert!(syntax.stdout.contains("- document: line ") && !syntax.stdout.contains("canary-7e1"), "{}", syntax.stdout);
    fixture.write("several.yaml", &format!("{valid}---\n{valid}"));
    let several = fixture.assay(&["contracts", "validate", "several.yaml"]).exits(1);
    assert!(several.stdout.contains("- document: expected one YAML document\n"), "{}", several.stdout);
    fixture.write("empty.yaml", "");
    let empty = fixture.assay(&["contracts", "validate", "empty.yaml"]).exits(1);
    assert!(empty.stdout.contains("- document: expected YAML mapping\n"), "{}", empty.stdout);
    fixture.assay(&["contracts", "validate", "absent.yaml"]).refuses(2, "unreadable");
    let refused = fixture.assay(&["run", "broken.yaml"]).refuses(10, "import_refused");
    assert!(refused.stderr.contains("`spec.trials.minReplicates`: must be an integer >= 3"), "{}", refused.stderr);
}

#[test]
fn a_specification_is_validated_with_its_digest() {
    let fixture = Fixture::bare();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/contracts/templates/benchmark_workload_spec.yaml");
    let specification = fs::read_to_string(path).expect("the template");
    fixture.write("spec.yaml", &specification);
    let ran = fixture.assay(&["contracts", "validate", "spec.yaml"]).success();
    assert!(ran.stdout.starts_with("workload specification valid: spec.yaml\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\"workload_spec_digest\": \"sha256:"), "{}", ran.stdout);
    fixture.write("spec.yaml", &specification.replace("benchmark_grade: realism", "benchmark_grade: publication"));
    let unpinned = fixture.assay(&["contracts", "validate", "spec.yaml"]).exits(1);
    let message = "- execution.image: publication grade needs an image with its digest, and no placeholder\n";
    assert!(unpinned.stdout.contains(message), "{}", unpinned.stdout);
}

#[test]
fn the_summary_names_what_this_program_serves() {
    let fixture = Fixture::bare();
    let summary = fixture.assay(&["contracts", "--generated-at", "2026-11-29T12:00:00Z"]).success().json();
    assert_eq!((&summary["schema_version"], &summary["surface_count"]), (&json!("2026-03-13"), &json!(7)));
    assert_eq!(summary["interfaces"], json!({"cli": "assay contracts"}));
    assert_eq!(summary["generated_at_utc"], "2026-11-29T12:00:00Z");
    let now = fixture.assay(&["contracts"]).success().json();
    let time = text(&now["generated_at_utc"]);
    assert!(time.ends_with('Z') && time > "2026-11-29", "{time}");
    // An entry point of the summary is a command that runs.
    for entry in list(&summary["generator"]["render_interface_entries"]) {
        let words: Vec<&str> = text(&entry["entrypoint"]).split(' ').skip(1).collect();
        let rendered = fixture.assay(&words).success().stdout;
        assert_eq!(Some(rendered.trim_end()), summary["generator"]["preview_yaml"].as_str().map(str::trim_end));
    }
}

/// A credential in an annotation, a label or an unknown member is in no output and in no file of an import.
#[test]
fn no_credential_of_a_benchmark_run_is_printed_or_written() {
    const CANARY: &str = "canary4f2b9c7d1e";
    let fixture = Fixture::bare();
    let run = benchmark_run(&fixture, "realism_grade", &format!("http://robot:{CANARY}@127.0.0.1:9"));
    let run = run.replace("    assay.dev/requests", &format!("    team.dev/api-key: {CANARY}\n    assay.dev/requests"))
        + &format!("  unknown: {CANARY}\n");
    fixture.write("run.yaml", &run);
    for option in ["--dry-run", "--json", "--force"] {
        let ran = fixture.assay(&["import", "run.yaml", option]).success();
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(CANARY), "{}", ran.stdout);
    }
    for folder in ["pipelines", "workloads"] {
        for path in crate::support::files_under(&fixture.repo().join(folder)) {
            assert!(!fs::read_to_string(&path).expect("a file").contains(CANARY), "{}", path.display());
        }
    }
    let refused = fixture.assay(&["run", "run.yaml"]).refuses(10, "foreign_credential");
    assert!(!refused.stderr.contains(CANARY) && refused.stderr.contains("REDACTED"), "{}", refused.stderr);
}

/// The page is followed word by word.
#[test]
fn contracts_are_followed_to_their_end() {
    let fixture = Fixture::bare();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/contracts.md"));
    assert_eq!(blocks.iter().filter(|block| block.purpose == "run").count(), 2, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
    assert!(reader.folder.join("my-contracts/chat.yaml").is_file());
}
