//! Definitions of other tools that run as they are: the original is pinned, and its import is checked again.

use std::fs;

use assay_manifest::Digest;
use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::{Forgery, replace_artifact};
use crate::pipeline::{list, text};
use crate::replicas::Replica;
use crate::serving;
use crate::support::{CommandResult, Fixture, blob, files_under};
use crate::tamper::flip_bit;

/// A value that no output and no stored file may contain.
const CANARY: &str = "canary4f2b9c7d1e";

/// Returns a BenchmarkJob against an endpoint, with more members of its `spec`.
pub(crate) fn job(url: &str, more: &str) -> String {
    format!(
        "# Made for another tool.
apiVersion: ome.io/v1beta1
kind: BenchmarkJob
metadata: {{name: llama-chat}}
spec:
  endpoint: {{endpoint: {{url: '{url}/v1/chat/completions', apiFormat: openai, modelName: {}}}}}
  task: text-to-text
  trafficScenarios: ['D(20,10)']
  numConcurrency: [1]
  maxTimePerIteration: 1
  maxRequestsPerIteration: 5
  outputLocation: {{storageUri: 's3://benchmarks/llama'}}
{more}",
        serving::MODEL
    )
}

/// Returns the files below a folder that contain a text.
pub(crate) fn files_with(folder: &std::path::Path, text: &str) -> Vec<String> {
    let has = |path: &std::path::PathBuf| {
        let bytes = fs::read(path).expect("a file");
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    files_under(folder).into_iter().filter(has).map(|path| path.display().to_string()).collect()
}

/// Fails if anything of a run was stored.
#[track_caller]
fn check_nothing_stored(fixture: &Fixture) {
    assert!(!fixture.repo().join(".assay/runs").exists() && !fixture.repo().join(".assay/blobs").exists());
}

/// Checks that `verify` and `trace` name the original of the run `one`, and that a reader in possession of the file finds its digest.
#[track_caller]
fn check_named(fixture: &Fixture, original: &str) -> CommandResult {
    let verified = fixture.verify("one").success();
    let digest = Digest::compute(original.as_bytes());
    let line = format!("  ok  definitions <- `job.yaml` (ome-benchmarkjob), {digest}: an import of it gives the same\n");
    assert!(verified.stdout.contains(&line), "{}", verified.stdout);
    let numbers = fs::read(fixture.published("one").join("numbers.json")).expect("numbers");
    let numbers: Value = serde_json::from_slice(&numbers).expect("a document");
    let address = text(&list(&numbers["numbers"]).first().expect("a number")["address"]).to_owned();
    let traced = fixture.assay(&["trace", &address]).success().stdout;
    assert!(traced.contains(&format!("job.yaml {digest} (ome-benchmarkjob) by Assay ")), "{traced}");
    let traced = fixture.assay(&["trace", &address, "--json"]).success().json();
    assert_eq!(
        (&traced["source"]["import"]["file"], &traced["source"]["import"]["digest"]),
        (&json!("job.yaml"), &json!(digest))
    );
    verified
}

#[test]
fn a_benchmark_job_runs_as_it_is() {
    let (fixture, endpoint) = (Fixture::bare(), Replica::with(&[]));
    let original = job(&endpoint.url, "");
    fixture.write("job.yaml", &original);
    let ran = fixture.assay(&["run", "job.yaml", "--run-id", "one"]).success();
    let table: Vec<&str> = ran.stderr.lines().skip_while(|line| !line.contains("imported in memory")).take(12).collect();
    assert_eq!(table.first(), Some(&"job.yaml: an OME BenchmarkJob, imported in memory"), "{}", ran.stderr);
    let has = |part: &str| table.iter().any(|line| line.contains(part));
    assert!(has("spec.outputLocation.storageUri  approximated") && has("spec.endpoint.endpoint.url"), "{table:#?}");
    assert!(!fixture.repo().join("pipelines").exists() && !fixture.repo().join("workloads").exists(), "nothing is written");
    let source = fixture.manifest("one", "source");
    let paths: Vec<&str> = list(&source["body"]["files"]).iter().map(|file| text(&file["path"])).collect();
    assert_eq!(paths, ["pipelines/llama-chat.yaml", "workloads/llama-chat-d-20-10/workload.yaml", "job.yaml"]);
    assert_eq!(text(&source["body"]["kind"]), "worktree", "it is not committed");
    check_named(&fixture, &original);
    let folder = fixture.published("one").display().to_string();
    let verified = fixture.assay(&["verify", &folder]).success();
    assert!(verified.stdout.contains("definitions <- `job.yaml`"), "the original travels with the published folder");
    let again = fixture.assay(&["run", "job.yaml", "--run-id", "one"]).success();
    assert!(again.stderr.contains("is finished") && !again.stderr.contains("imported in memory"), "{}", again.stderr);
    fixture.write("job.yaml", &job(&endpoint.url, "  resultFolderName: other\n"));
    fixture.assay(&["run", "job.yaml", "--run-id", "one"]).refuses(2, "other_source");
}

#[test]
fn a_committed_job_is_proved_to_be_the_commit_s() {
    let (fixture, endpoint) = (Fixture::bare(), Replica::with(&[]));
    let original = job(&endpoint.url, "");
    fixture.write("job.yaml", &original);
    let commit = fixture.commit("a job");
    fixture.write("job.yaml", "kind: Deployment\n");
    let repo = fixture.repo().display().to_string();
    fixture.assay(&["run", "job.yaml", "--repo", &repo, "--commit", &commit, "--run-id", "one"]).success();
    let source = fixture.manifest("one", "source");
    assert_eq!((text(&source["body"]["kind"]), text(&source["body"]["commit"])), ("git", commit.as_str()));
    let verified = check_named(&fixture, &original);
    assert!(verified.stdout.contains("holds `job.yaml`: a job\n"), "{}", verified.stdout);
    let plain = fixture.assay(&["run", "job.yaml"]).refuses(10, "definition_invalid");
    assert!(!plain.stderr.contains("OME"), "{}", plain.stderr);
}

/// As a run of `assay bench`, it has no repository.
#[test]
fn a_job_outside_of_a_repository_runs_from_no_commit() {
    let (fixture, endpoint) = (Fixture::bare(), Replica::with(&[]));
    let folder = fixture.root().join("elsewhere");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("job.json"), job(&endpoint.url, "")).expect("written");
    let ran = fixture.assay_in(&folder, &["run", "job.json", "--run-id", "one", "--json"]).success().json();
    assert_eq!(ran["pipeline"], "llama-chat");
    let verified = fixture.assay_in(&folder, &["verify", "one", "--json"]).success().json();
    assert!(verified["levels"].as_array().expect("levels").iter().any(|level| level["report"]["imported_again"] == true));
    let planned = fixture.assay_in(&folder, &["plan", "job.json"]).success();
    assert!(planned.stdout.starts_with("llama-chat: 1 case, 1 point, 1 trial") && planned.stderr.contains("imported in memory"));
}

#[test]
fn a_changed_byte_of_the_original_or_of_a_definition_is_refused() {
    let (fixture, endpoint) = (Fixture::bare(), Replica::with(&[]));
    fixture.write("job.yaml", &job(&endpoint.url, ""));
    fixture.assay(&["run", "job.yaml", "--run-id", "one"]).success();
    let source = fixture.manifest("one", "source");
    for file in list(&source["body"]["files"]) {
        let path = blob(&fixture.store(), text(&file["artifact"]["digest"]));
        let bytes = fs::read(&path).expect("a file");
        fs::write(&path, flip_bit(&bytes)).expect("written");
        fixture.verify("one").refuses(20, "artifact_corrupt");
        fs::write(&path, bytes).expect("written");
    }
    fixture.verify("one").success();
}

/// Returns the fixture of a finished run `one` of a committed job.
pub(crate) fn imported_fixture() -> &'static Fixture {
    static FIXTURE: std::sync::OnceLock<Fixture> = std::sync::OnceLock::new();
    FIXTURE.get_or_init(|| {
        let (fixture, endpoint) = (Fixture::shared(), Replica::with(&[]));
        fixture.write("job.yaml", &job(&endpoint.url, ""));
        fixture.commit("a job");
        fixture.assay(&["run", "job.yaml", "--run-id", "one"]).success();
        fixture
    })
}

/// Lets the key of source sign another content of a file, and the digest over all files that goes with it.
pub(crate) fn forge_file(name: &str, edit: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Forgery {
    let change = |bench: &Bench, manifest: &mut Value| {
        replace_artifact(bench, manifest, name, edit);
        let line = |file: &Value| format!("{} - {}\n", text(&file["artifact"]["digest"]), text(&file["path"]));
        let lines: String = list(&manifest["body"]["files"]).iter().map(line).collect();
        manifest["body"]["files_digest"] = json!(Digest::compute(lines.as_bytes()));
    };
    Forgery::forge_in(Bench::with_runs_of(imported_fixture()), "source", change, |_| {})
}

/// A person who holds the key of source cannot pass off definitions as those of a job.
#[test]
fn definitions_that_are_not_those_of_their_original_are_refused_by_name() {
    let replace = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("a text");
            assert!(text.contains(from), "{text}");
            text.replace(from, to).into_bytes()
        }
    };
    for file in ["files/pipelines/llama-chat.yaml", "files/workloads/llama-chat-d-20-10/workload.yaml"] {
        let forged = forge_file(file, |bytes| [bytes, b"# \n".to_vec()].concat());
        assert_eq!(forged.refused_by(), Some(("plan", "definitions_differ".to_owned())), "{file}");
    }
    // The commit has another original.
    let forged = forge_file("files/job.yaml", replace("D(20,10)", "D(20,11)"));
    assert_eq!(forged.refused_by(), Some(("plan", "commit".to_owned())));
}

#[test]
fn a_refused_field_measures_and_stores_nothing() {
    let fixture = Fixture::bare();
    fixture.write("job.yaml", &job("http://127.0.0.1:9", "").replace("s3://", "gs://"));
    for command in ["run", "plan"] {
        let refused = fixture.assay(&[command, "job.yaml"]).refuses(10, "import_refused");
        let parts = [
            "`job.yaml` is an OME BenchmarkJob, and 1 field of it is refused, so it cannot be run",
            "`spec.outputLocation.storageUri`: Assay has no store on Google Cloud Storage",
            "`assay import job.yaml --partial`",
        ];
        assert!(parts.iter().all(|part| refused.stderr.contains(part)), "{}", refused.stderr);
    }
    check_nothing_stored(&fixture);
    fixture.write("job.yaml", &job("http://127.0.0.1:9", "").replace("modelName", "modelname"));
    let refused = fixture.assay(&["run", "job.yaml"]).refuses(10, "import_refused");
    assert!(!refused.stderr.contains("--partial"), "without a model there are no definitions: {}", refused.stderr);
}

#[test]
fn a_job_that_may_hold_a_credential_is_not_pinned() {
    let fixture = Fixture::bare();
    let stored = "  outputLocation: {storageUri: 's3://benchmarks/llama', parameters: {aws_secret_access_key: CANARY}}\n";
    let cases = [
        (stored.to_owned(), "`spec.outputLocation.parameters.aws_secret_access_key`"),
        ("  podOverride: {env: [{name: HF_TOKEN, value: CANARY}]}\n".to_owned(), "`spec.podOverride.env[0](HF_TOKEN)`"),
        ("  api_key: CANARY\n".to_owned(), "`spec.api_key`"),
        ("# export AWS_SECRET_ACCESS_KEY=CANARY\n".to_owned(), "`line 13`"),
    ];
    for (more, place) in cases {
        let text = job("http://127.0.0.1:9", &more.replace("CANARY", CANARY));
        // A key may be written only once.
        let text =
            if more == stored { text.replace("  outputLocation: {storageUri: 's3://benchmarks/llama'}\n", "") } else { text };
        fixture.write("job.yaml", &text);
        let refused = fixture.assay(&["run", "job.yaml"]).refuses(10, "foreign_credential");
        assert!(refused.stderr.contains(place) && refused.stderr.contains("write `REDACTED` in its place"), "{}", refused.stderr);
        assert!(!refused.stderr.contains(CANARY) && !refused.stdout.contains(CANARY), "{}", refused.stderr);
    }
    check_nothing_stored(&fixture);
    assert_eq!(files_with(&fixture.repo().join(".assay"), CANARY), [""; 0]);
}

/// A file that only refers to a Secret, or that has a placeholder, runs.
/// A file that cannot be parsed is not quoted, and it is not told to become one of Assay.
#[test]
fn a_job_with_an_error_of_syntax_is_refused_and_not_quoted() {
    let fixture = Fixture::bare();
    for broken in [
        format!("apiVersion: ome.io/v1beta1\nkind: BenchmarkJob\nspec:\n\tapiKey: {CANARY}\n"),
        format!("apiVersion: ome.io/v1beta1\nkind: BenchmarkJob\napiKey: '{CANARY}\n"),
        format!("kind: BenchmarkJob\napiKey: {CANARY}\napiKey: {CANARY}\n"),
        format!("kind: BenchmarkJob\nspec: &c {{apiKey: {CANARY}}}\n"),
    ] {
        fixture.write("job.yaml", &broken);
        for command in ["run", "plan"] {
            let refused = fixture.assay(&[command, "job.yaml"]).refuses(10, "foreign_format");
            assert!(!format!("{refused:?}").contains(CANARY) && !refused.stderr.contains("assay.dev"), "{}", refused.stderr);
        }
    }
    check_nothing_stored(&fixture);
}

#[test]
fn a_job_whose_path_no_manifest_can_name_is_refused_before_anything_is_stored() {
    let fixture = Fixture::bare();
    for path in ["my job.yaml", "job (1).yaml", "j\u{f6}b.yaml"] {
        fixture.write(path, &job("http://127.0.0.1:9", ""));
        for command in ["run", "plan"] {
            fixture.assay(&[command, path]).refuses(10, "import_path");
        }
    }
    check_nothing_stored(&fixture);
}

#[test]
fn references_to_secrets_are_kept_and_shown() {
    let fixture = Fixture::bare();
    let more = "  huggingFaceSecretReference: {name: huggingface}\n  podOverride: {env: [{name: TEAM, valueFrom: {secretKeyRef: {name: team, key: \
                team}}}]}\n";
    let text = job("http://127.0.0.1:9", more);
    let text = text.replace("llama'}", "llama', parameters: {aws_access_key_id: REDACTED}}");
    fixture.write("job.yaml", &text);
    let planned = fixture.assay(&["plan", "job.yaml"]).success();
    for field in ["spec.huggingFaceSecretReference.name", "spec.outputLocation.parameters.aws_access_key_id"] {
        let line = planned.stderr.lines().find(|line| line.contains(field)).unwrap_or_default();
        assert!(line.contains("moved to a Secret reference"), "{}", planned.stderr);
    }
    let rest = "; all fields: assay import job.yaml --dry-run";
    assert!(planned.stderr.contains(rest) && !planned.stderr.contains("metadata.name"), "{}", planned.stderr);
}

#[test]
fn a_file_of_several_jobs_names_its_documents() {
    let fixture = Fixture::bare();
    let first = job("http://127.0.0.1:9", "");
    fixture.write("jobs.yaml", &format!("{first}---\n{}", first.replace("llama-chat", "other")));
    let refused = fixture.assay(&["run", "jobs.yaml"]).refuses(10, "several_pipelines");
    let named = "document 1 makes `pipelines/llama-chat.yaml`, document 2 makes `pipelines/other.yaml`";
    assert!(refused.stderr.contains(named) && refused.stderr.contains("`assay import jobs.yaml`"), "{}", refused.stderr);
    // An own definition is never taken for that of another tool.
    fixture.write("mixed.yaml", &format!("apiVersion: assay.dev/v1alpha1\nkind: Pipeline\n---\n{first}"));
    let mixed = fixture.assay(&["run", "mixed.yaml"]).refuses(10, "definition_invalid");
    assert!(!mixed.stderr.contains("OME"), "{}", mixed.stderr);
    fixture.write("pipelines/llama-chat.yaml", &first);
    let taken = fixture.assay(&["run", "pipelines/llama-chat.yaml"]).refuses(10, "import_path");
    assert!(taken.stderr.contains("rename the file"), "{}", taken.stderr);
    check_nothing_stored(&fixture);
}

#[test]
fn a_service_of_the_cluster_is_refused_on_this_machine() {
    let fixture = Fixture::bare();
    let endpoint =
        format!("{{endpoint: {{url: 'http://h:1/v1/chat/completions', apiFormat: openai, modelName: {}}}}}", serving::MODEL);
    let text = job("http://h:1", "").replace(&endpoint, "{inferenceService: {name: llama, namespace: serving}}");
    assert!(text.contains("inferenceService"), "{text}");
    fixture.write("job.yaml", &text);
    let refused = fixture.assay(&["run", "job.yaml"]).refuses(10, "target_kind");
    assert!(refused.stderr.contains("`--on kubernetes`"), "{}", refused.stderr);
}
