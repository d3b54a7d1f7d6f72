//! Inspection specifications of Amun: imported, run as they are and refused; and scripts to the protocol of Thoth's performance indicators.

use std::fs;
use std::path::Path;

use assay_manifest::Digest;
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::support::{Fixture, blob, files_under};

/// A value that no output and no written file may contain.
const CANARY: &str = "canary4f2b9c7d1e";

/// A script to the protocol. A traceback on stderr is no failure, and Python prints NaN as a number.
const SCRIPT: &str = r#"#!/bin/sh
set -eu
echo 'Traceback (most recent call last): no build information' >&2
[ "$(cat data/sizes)" = 512 ]
printf '{"name": "PiEcho", "component": "shell", "framework": "shell", "tensorflow_buildinfo": null,
 "@parameters": {"title": "%s"}, "@result": {"elapsed": 1.5, "spread": NaN}}' "$TITLE"
"#;
const TITLE: &str = "two  words and $HOME, it's 'all' of it";

/// Returns a specification with these members. Nothing listens at the registry of its base, so a plan leaves it unpinned.
fn specification(members: &Value) -> String {
    let mut document = json!({
        "base": "127.0.0.1:9/base:1",
        "identifier": "echo",
        "batch_size": 2,
        "environment": [{"name": "TITLE", "value": TITLE}],
        "files": [{"path": "/home/amun/data/sizes", "content": "512\n"}],
        "script": SCRIPT,
    });
    for (name, value) in members.as_object().expect("members") {
        document[name] = value.clone();
    }
    document.to_string()
}

/// Returns the attempts of a run.
pub(crate) fn attempts(fixture: &Fixture, run: &str) -> Vec<Value> {
    list(&fixture.manifest(run, "execute")["body"]["attempts"]).clone()
}

/// Returns the stdout of an attempt.
pub(crate) fn stdout(fixture: &Fixture, attempt: &Value) -> String {
    let is_stdout = |artifact: &&Value| text(&artifact["name"]).ends_with("/stdout");
    let artifact = list(&attempt["evidence"]).iter().find(is_stdout).expect("it is kept");
    fs::read_to_string(blob(&fixture.store(), text(&artifact["digest"]))).expect("text")
}

/// Checks that each trial ran the script of the specification, with its environment and its files.
#[track_caller]
fn check_ran(fixture: &Fixture, run: &str) {
    fixture.verify_recomputed(run);
    let attempts = attempts(fixture, run);
    assert_eq!(attempts.len(), 2, "one for each item of the batch");
    for attempt in &attempts {
        assert!(stdout(fixture, attempt).contains(TITLE), "{}", stdout(fixture, attempt));
        let outcome = &attempt["indicator"];
        assert_eq!((text(&outcome["name"]), text(&outcome["component"])), ("PiEcho", "shell"));
        assert_eq!(text(&outcome["script_sha256"]), Digest::compute(SCRIPT.as_bytes()).to_string());
        assert_eq!(attempt["validity"]["valid"], true, "{attempt:#}");
    }
}

#[test]
fn a_specification_is_imported_and_its_pipeline_runs() {
    let fixture = Fixture::bare();
    fixture.write("amun.json", &specification(&json!({"@created": CANARY, "unknown": CANARY})));
    let imported = fixture.assay(&["import", "amun.json"]).success();
    assert!(imported.stdout.starts_with("amun.json: an Amun inspection specification\n"), "{}", imported.stdout);
    for row in ["@created", "unknown", "batch_size", "run.requests.cpu(absent)", "base"] {
        assert!(imported.stdout.lines().any(|line| line.starts_with(&format!("  {row} "))), "{row}: {}", imported.stdout);
    }
    assert!(!imported.stdout.contains(CANARY), "{}", imported.stdout);
    fixture.assay(&["validate"]).success();
    fixture.commit("the definitions");
    fixture.assay(&["run", "pipelines/echo.yaml", "--run-id", "one"]).success();
    check_ran(&fixture, "one");
    let summary = fixture.manifest("one", "reduce");
    let issues = list(&summary["body"]["issues"]);
    let spread = issues.iter().find(|issue| issue["code"] == "not_finite").expect("NaN is stated");
    assert!(text(&spread["detail"]).ends_with("in no row: `spread`"), "{spread}");
    fixture.write("workloads/echo/script", &SCRIPT.replace("1.5", "2.5"));
    let changed = fixture.assay(&["run", "pipelines/echo.yaml", "--run-id", "two"]);
    assert!(changed.code != 0 && changed.stderr.contains("sha256"), "the script is that of the digest: {}", changed.stderr);
}

#[test]
fn a_specification_runs_as_it_is() {
    let fixture = Fixture::bare();
    let original = specification(&json!({}));
    fixture.write("amun.json", &original);
    let ran = fixture.assay(&["run", "amun.json", "--run-id", "one"]).success();
    assert!(ran.stderr.contains("amun.json: an Amun inspection specification, imported in memory\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing of the image is there"), "{}", ran.stderr);
    check_ran(&fixture, "one");
    let verified = fixture.verify("one").success();
    let line = format!("definitions <- `amun.json` (amun), {}: an import", Digest::compute(original.as_bytes()));
    assert!(verified.stdout.contains(&line), "{}", verified.stdout);
    assert!(!fixture.repo().join("workloads").exists(), "nothing is written");
}

#[test]
fn a_specification_that_needs_an_image_first_does_not_run_as_it_is() {
    let fixture = Fixture::bare();
    let check = |members: Value, error: &str, parts: &[&str]| {
        fixture.write("amun.json", &specification(&members));
        let refused = fixture.assay(&["run", "amun.json"]).refuses(10, error);
        assert!(parts.iter().all(|part| refused.stderr.contains(part)), "{}", refused.stderr);
        assert!(!fixture.repo().join(".assay/runs").exists(), "nothing is stored");
    };
    check(
        json!({"packages": ["gcc"]}),
        "import_refused",
        &["`packages`: it is a step of an image", "assay import", "--build-image REPOSITORY"],
    );
    check(json!({"script": null}), "import_refused", &["only builds an image"]);
    let secret = json!({"environment": [{"name": "HF_TOKEN", "value": CANARY}, {"name": "TITLE", "value": TITLE}]});
    check(secret, "foreign_credential", &["environment"]);
    fixture.write("amun.json", &specification(&json!({"packages": ["gcc"]})));
    fixture.assay(&["import", "amun.json"]).success();
    let recipe = fs::read_to_string(fixture.repo().join("workloads/echo/Containerfile")).expect("the recipe");
    assert!(recipe.contains("\nFROM 127.0.0.1:9/base:1\n") && recipe.contains("'gcc'"), "{recipe}");
}

#[test]
fn a_credential_of_the_environment_reaches_the_script_from_outside_only() {
    let mut fixture = Fixture::bare();
    let script = SCRIPT.replace("set -eu\n", "set -eu\n[ ${#HF_TOKEN} = 14 ]\n");
    let environment = json!([{"name": "HF_TOKEN", "value": CANARY}, {"name": "TITLE", "value": TITLE}]);
    fixture.write("given/amun.json", &specification(&json!({"environment": environment, "script": script, "batch_size": 1})));
    let imported = fixture.assay(&["import", "given/amun.json"]).success();
    assert!(imported.stdout.contains("moved to a Secret reference"), "{}", imported.stdout);
    for path in ["workloads", "pipelines"].iter().flat_map(|folder| files_under(&fixture.repo().join(folder))) {
        assert!(!fs::read_to_string(&path).expect("text").contains(CANARY), "{}", path.display());
    }
    fixture.commit("the definitions");
    fixture.set("HF_TOKEN", "from-outside-1");
    fixture.assay(&["run", "pipelines/echo.yaml", "--run-id", "one"]).success();
    fixture.set("HF_TOKEN", "other");
    fixture.assay(&["run", "pipelines/echo.yaml", "--run-id", "two"]).exits(30);
}

/// Prints what the protocol does not allow: two names of one component that differ.
#[test]
fn a_component_and_a_framework_that_differ_are_no_result() {
    let fixture = Fixture::bare();
    let script = SCRIPT.replace("\"framework\": \"shell\"", "\"framework\": \"other\"");
    fixture.write("amun.json", &specification(&json!({"script": script, "batch_size": 1})));
    fixture.assay(&["run", "amun.json", "--run-id", "one"]).exits(30);
    let malformed = attempts(&fixture, "one").iter().map(|attempt| text(&attempt["indicator"]["malformed"]).to_owned()).next();
    assert!(malformed.is_some_and(|why| why.contains("two names of one thing")));
}

/// Returns the JSON document of a file of an export.
fn document(folder: &Path, path: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(path)).expect(path)).expect("JSON")
}

#[test]
fn a_run_is_exported_as_the_documents_of_an_inspection() {
    let fixture = Fixture::bare();
    let script = SCRIPT.replace("NaN", "0.5");
    fixture.write("amun.json", &specification(&json!({"script": script})));
    fixture.assay(&["run", "amun.json", "--run-id", "one"]).success();
    let issues = fixture.manifest("one", "reduce")["body"]["issues"].to_string();
    assert!(!issues.contains("not_finite"), "{issues}");
    let to = fixture.root().join("inspections");
    let folder = to.display().to_string();
    let printed = fixture.assay(&["export", "one", "--format", "amun", "--to", &folder]).success().stdout;
    assert!(printed.contains("  result.hostname ") && printed.contains("written with a difference to the tool"), "{printed}");
    let inspections: Vec<_> = fs::read_dir(&to).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    let [inspection] = inspections.as_slice() else { panic!("{inspections:?}") };
    let found: Vec<String> =
        files_under(inspection).iter().map(|path| path.strip_prefix(inspection).expect("below").display().to_string()).collect();
    let results = [0, 1].map(|number| ["hwinfo", "log", "result"].map(|name| format!("results/{number}/{name}")));
    let build = ["Dockerfile", "log", "specification"].map(|name| format!("build/{name}"));
    assert_eq!(found, build.into_iter().chain(results.into_iter().flatten()).collect::<Vec<_>>());
    let specification = document(inspection, "build/specification");
    assert_eq!(specification["environment"], json!([{"name": "TITLE", "value": TITLE}]));
    assert_eq!((&specification["script"], &specification["batch_size"]), (&json!(script), &json!(2)));
    assert_eq!(fs::read_to_string(inspection.join("build/Dockerfile")).expect("text"), "FROM 127.0.0.1:9/base:1\n");
    let result = document(inspection, "results/1/result");
    assert_eq!(result["stdout"]["@result"], json!({"elapsed": 1.5, "spread": 0.5}));
    assert_eq!(result["stdout"]["@parameters"]["title"], TITLE);
    assert!(text(&result["stderr"]).starts_with("Traceback") && result["exit_code"] == 0, "{result}");
    assert_eq!(text(&result["script_sha256"]), Digest::compute(script.as_bytes()).hex());
    assert_eq!(result["usage"].as_object().expect("an object").len(), 16);
    assert_eq!((text(&result["start_datetime"]).len(), &result["hostname"]), (26, &Value::Null));
    assert_eq!(result["hwinfo"], document(inspection, "results/1/hwinfo"));
    assert_eq!(result["assay"]["assay_run_id"], "one");
    let published = format!("{}/", fixture.published("one").display());
    let other = fixture.root().join("of-folder").display().to_string();
    fixture.assay(&["export", &published, "--format", "amun", "--to", &other]).refuses(2, "no_evidence");
}
