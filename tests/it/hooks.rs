//! `assay render kubernetes FILE --hook PHASE`: the objects of a hook of Argo CD.

use assay_manifest::Digest;
use serde_json::Value;

use crate::as_is::job;
use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, PIPELINE};

const IMAGE: &str = "assay.test/assay@sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn render(fixture: &Fixture, more: &[&str]) -> CommandResult {
    fixture.assay(&[&["render", "kubernetes", "--image", IMAGE][..], more].concat())
}

/// Parses the printed objects.
fn objects(ran: &CommandResult) -> Vec<Value> {
    assay_spec::parse_documents("objects.yaml", ran.stdout.as_bytes()).expect("YAML")
}

fn command(job: &Value) -> Vec<&str> {
    list(&job["spec"]["template"]["spec"]["containers"][0]["command"]).iter().map(text).collect()
}

#[test]
fn a_pipeline_becomes_one_job() {
    let fixture = Fixture::new();
    let repo = "https://git.example.org/team/benchmarks.git";
    let rendered = render(&fixture, &[PIPELINE, "--hook", "PostSync", "--repo", repo, "--branch", "release"]).success();
    assert_eq!(
        rendered.stdout,
        render(&fixture, &[PIPELINE, "--hook", "PostSync", "--repo", repo, "--branch", "release"]).stdout
    );
    let [job] = objects(&rendered).try_into().expect("one object");
    assert_eq!((text(&job["kind"]), text(&job["metadata"]["name"])), ("Job", "fixture"));
    let annotations = job["metadata"]["annotations"].as_object().expect("annotations");
    assert_eq!(text(&annotations["argocd.argoproj.io/hook"]), "PostSync");
    assert_eq!(text(&annotations["argocd.argoproj.io/hook-delete-policy"]), "BeforeHookCreation");
    assert_eq!(annotations.len(), 2, "no wave: {annotations:?}");
    assert_eq!(job["spec"]["backoffLimit"], 0);
    let words = ["--pipeline", PIPELINE, "--repo", repo, "--commit", "release"];
    assert_eq!(command(&job)[..4], ["/assay/assay", "drive", "--hook-job", "$(ASSAY_JOB)/$(ASSAY_JOB_UID)"]);
    assert_eq!(command(&job)[4..], words);
    // Six trials of 30 minutes, each twice, and the time limits of plan, provision, collect, reduce and publish.
    assert_eq!(job["spec"]["activeDeadlineSeconds"], (2 * 6 * 30 + 10 + 30 + 30 + 30 + 10) * 60, "{job:#}");
    let waved = objects(&render(&fixture, &[PIPELINE, "--hook", "Sync", "--hook-wave", "-3", "--repo", repo]).success());
    assert_eq!(text(&waved[0]["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]), "-3");
}

#[test]
fn a_job_of_another_tool_travels_in_a_config_map() {
    let fixture = Fixture::bare();
    let original = job("http://llama.serving:8080", "");
    fixture.write("jobs/llama.yaml", &original);
    let rendered = render(&fixture, &["jobs/llama.yaml", "--hook", "PostSync"]).success();
    assert!(rendered.stderr.contains("jobs/llama.yaml: an OME BenchmarkJob, imported in memory"), "{}", rendered.stderr);
    let [map, job] = objects(&rendered).try_into().expect("two objects");
    assert_eq!((text(&map["kind"]), text(&map["data"]["llama.yaml"])), ("ConfigMap", original.as_str()));
    let digest = Digest::compute(original.as_bytes()).to_string();
    assert_eq!(command(&job)[4..], ["--definition", "/definition/llama.yaml", "--definition-digest", &digest]);
    fixture.write("jobs/llama.yaml", &original.replace("s3://", "gs://"));
    let refused = render(&fixture, &["jobs/llama.yaml", "--hook", "PostSync"]).refuses(10, "import_refused");
    assert_eq!(refused.stdout, "");
}

/// Only an installation with a right for its namespace can read an InferenceService.
#[test]
fn a_hook_for_an_inference_service_names_the_right_that_it_needs() {
    let fixture = Fixture::bare();
    let endpoint = "{inferenceService: {name: llama, namespace: serving}}";
    let direct = job("http://h:1", "");
    let original = direct.lines().map(|line| match line.strip_prefix("  endpoint: ") {
        Some(_) => format!("  endpoint: {endpoint}\n"),
        None => format!("{line}\n"),
    });
    fixture.write("job.yaml", &original.collect::<String>());
    let without = render(&fixture, &["job.yaml", "--hook", "PostSync"]).success();
    let note = "note: the run reads the InferenceService `llama` in `serving`: install with `--serving-namespace serving`";
    assert!(without.stderr.contains(note), "{}", without.stderr);
    let with = render(&fixture, &["job.yaml", "--hook", "PostSync", "--serving-namespace", "serving"]).success();
    assert!(!with.stderr.contains("note:") && with.stdout == without.stdout, "{}", with.stderr);
}

#[test]
fn a_hook_that_cannot_run_is_refused_by_name() {
    let fixture = Fixture::new();
    let unknown = render(&fixture, &[PIPELINE, "--hook", "AfterSync"]).exits(2);
    assert!(unknown.stderr.contains("the phases are PreSync, Sync, PostSync, SyncFail, PostDelete"), "{}", unknown.stderr);
    render(&fixture, &["--hook", "PostSync"]).exits(2);
    let two = render(&fixture, &[PIPELINE, PIPELINE, "--hook", "PostSync"]).refuses(2, "option");
    assert!(two.stderr.contains("a hook runs one pipeline, and 2 are named"), "{}", two.stderr);
    let nowhere = render(&fixture, &[PIPELINE, "--hook", "PostSync"]).refuses(2, "no_repository");
    assert!(nowhere.stderr.contains("`--repo`"), "{}", nowhere.stderr);
    let password = ["--repo", "https://robot:hunter2@git.example.org/a.git"];
    render(&fixture, &[&[PIPELINE, "--hook", "PostSync"][..], &password].concat()).refuses(2, "repository_password");
    let padding = "# a long comment\n".repeat(60_000);
    fixture.write("job.yaml", &(job("http://h:1", "") + &padding));
    render(&fixture, &["job.yaml", "--hook", "PostSync"]).refuses(10, "foreign_format");
    fixture.write("job.yaml", &job("http://h:1", ""));
    let schedule = render(&fixture, &["job.yaml", "--only-schedules"]).refuses(10, "no_schedule");
    assert!(schedule.stderr.contains("`--hook PHASE` runs the file as it is"), "{}", schedule.stderr);
}
