use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use assay_failure::{Exit, Failure};

use super::*;

const PIPELINE: &str = "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {name: p, description: A test, owner: test}
spec:
  intent: INTENT
  workloads: [w]
  targets:
    - {name: local, kind: host}
";

const WORKLOAD: &str = "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: w, description: A test, owner: test}
spec:
  type: indicator
  script: {path: run.sh}
";

/// A folder with a pipeline over one workload.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(intent: &str) -> Self {
        let tree = Self(tempfile::tempdir().expect("a folder"));
        tree.write("pipelines/p.yaml", &PIPELINE.replace("INTENT", intent));
        tree.write("workloads/w/workload.yaml", WORKLOAD);
        tree.write("workloads/w/run.sh", "#!/bin/sh\n");
        let script = tree.0.path().join("workloads/w/run.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("executable");
        tree
    }

    /// Makes the same folder, committed.
    fn committed(intent: &str) -> Self {
        let tree = Self::new(intent);
        tree.git(&["init", "--quiet", "--initial-branch=main"]);
        tree.commit();
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message=m"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command.current_dir(self.0.path()).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    fn read(&self, commit: Option<&str>) -> Result<LoadedSource> {
        let pipeline = self.0.path().join("pipelines/p.yaml").display().to_string();
        read_at(&SourceSpec { pipeline, repo: None, commit: commit.map(str::to_owned), ..SourceSpec::default() })
    }
}

fn read_at(spec: &SourceSpec) -> Result<LoadedSource> {
    let scratch = tempfile::tempdir().expect("a folder");
    let spawner = Spawner::start().expect("a thread");
    let cancel = Cancel::new().expect("an eventfd");
    read_source(spec, scratch.path(), &spawner, &cancel)
}

fn stored(read: &LoadedSource) -> Source {
    read.store(&Store::open("memory:").expect("a store")).expect("stored")
}

fn refusal(read: Result<LoadedSource>) -> Failure {
    read.err().expect("refused").into()
}

const FILES: [&str; 3] = ["pipelines/p.yaml", "workloads/w/run.sh", "workloads/w/workload.yaml"];

fn paths(source: &Source) -> Vec<&str> {
    let mut paths: Vec<_> = source.files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn a_folder_outside_of_git_is_good_for_exploring() {
    let tree = Tree::new("exploratory");
    let read = tree.read(None).expect("a folder");
    assert_eq!(read.pipeline, "pipelines/p.yaml");
    let source = stored(&read);
    assert_eq!(paths(&source), FILES);
    assert!(source.dirty && source.commit.is_none() && source.kind != OriginKind::Git);
    assert!(source.file("workloads/w/run.sh").expect("the script").executable);
    assert!(!source.file("pipelines/p.yaml").expect("the pipeline").executable);
}

#[test]
fn a_folder_outside_of_git_makes_no_claim() {
    let failure = refusal(Tree::new("realism").read(None));
    assert_eq!((failure.exit, failure.code.as_str()), (Exit::Definition, "dirty_worktree"));
    insta::assert_snapshot!(failure.message, @"a run of intent `realism` starts from a commit, but the work tree differs from it; nothing is committed yet");
}

#[test]
fn a_clean_work_tree_is_its_commit() {
    let tree = Tree::committed("realism");
    let source = stored(&tree.read(None).expect("clean"));
    assert_eq!((source.kind, source.dirty, source.commit), (OriginKind::Git, false, Some(tree.git(&["rev-parse", "HEAD"]))));
    assert!(!source.objects.is_empty(), "a reader checks commit, trees and files offline");
}

#[test]
fn what_the_pipeline_does_not_name_makes_no_work_tree_dirty() {
    let tree = Tree::committed("realism");
    tree.write("notes.txt", "mine");
    assert_eq!(stored(&tree.read(None).expect("clean where it matters")).kind, OriginKind::Git);
}

#[test]
fn a_dirty_work_tree_is_read_as_it_is_for_exploring_only() {
    let tree = Tree::committed("exploratory");
    tree.write("workloads/w/run.sh", "#!/bin/sh\necho changed\n");
    let read = tree.read(None).expect("exploratory");
    assert_eq!(read.files["workloads/w/run.sh"].bytes, b"#!/bin/sh\necho changed\n");
    let source = stored(&read);
    let head = Some(tree.git(&["rev-parse", "HEAD"]));
    assert_eq!((source.kind, source.dirty, source.commit), (OriginKind::Worktree, true, head));
    assert!(source.objects.is_empty());

    let tree = Tree::committed("realism");
    tree.write("workloads/w/run.sh", "#!/bin/sh\necho changed\n");
    let failure = refusal(tree.read(None));
    insta::assert_snapshot!(failure, @r"
    error[dirty_worktree]: a run of intent `realism` starts from a commit, but the work tree differs from it; changed: workloads/w/run.sh

    hint: commit first, name a commit with `--commit`, or set `intent: exploratory`
    ");
}

#[test]
fn a_commit_is_read_whatever_the_work_tree_holds() {
    let tree = Tree::committed("realism");
    let first = tree.git(&["rev-parse", "HEAD"]);
    tree.write("workloads/w/run.sh", "#!/bin/sh\necho second\n");
    tree.commit();
    fs::remove_dir_all(tree.0.path().join("workloads")).expect("gone");
    let read = tree.read(Some(&first)).expect("the first commit");
    assert_eq!(read.files["workloads/w/run.sh"].bytes, b"#!/bin/sh\n");
    assert_eq!(stored(&read).commit, Some(first));
}

#[test]
fn equal_files_give_an_equal_source() {
    let tree = Tree::committed("realism");
    let first = stored(&tree.read(None).expect("clean"));
    assert_eq!(stored(&tree.read(None).expect("clean")), first);
    assert_eq!(stored(&tree.read(Some("HEAD")).expect("the commit")), first, "named or found");
}

#[test]
fn what_cannot_be_read_is_named() {
    let tree = Tree::committed("realism");
    let failure = refusal(tree.read(Some("no-such-branch")));
    assert!(failure.message.contains("no-such-branch"), "{failure}");
    let nowhere = SourceSpec { pipeline: "/nonexistent/p.yaml".to_owned(), ..SourceSpec::default() };
    assert!(refusal(read_at(&nowhere)).to_string().contains("/nonexistent"));
    let outside = SourceSpec {
        pipeline: "/etc/hostname".to_owned(),
        repo: Some(tree.0.path().display().to_string()),
        ..SourceSpec::default()
    };
    let failure = refusal(read_at(&outside));
    assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, "pipeline_path"));
}

#[test]
fn every_problem_of_the_definitions_is_shown() {
    let tree = Tree::new("exploratory");
    tree.write("workloads/w/workload.yaml", &WORKLOAD.replace("type: indicator", "type: indicater"));
    let failure = refusal(tree.read(None));
    assert_eq!((failure.exit, failure.code.as_str()), (Exit::Definition, "definition_invalid"));
    assert!(failure.message.contains("workloads/w/workload.yaml"), "{failure}");
}

#[test]
fn an_address_is_told_from_a_path() {
    for address in ["https://example.org/a.git", "ssh://git@example.org/a", "git@example.org:a/b.git", "host:path"] {
        assert!(is_address(address), "{address}");
    }
    for path in [".", "/a/b", "a/b", "a/b:c", "../a"] {
        assert!(!is_address(path), "{path}");
    }
}

#[test]
fn a_secret_of_a_target_that_stands_in_a_file_is_refused_before_it_is_published() {
    let tree = Tree::new("exploratory");
    let key = tree.0.path().join("key");
    let dimensions =
        "model: m, precision: fp8, protocol: openai_compatible_http, deployment_model: unknown, batching_policy: unknown";
    let load = "load: {mode: closed, concurrency: [1], requests: 1, warmup: 0s}, lengths: 'D(1,1)'";
    let workload = WORKLOAD.split_once("spec:").expect("a spec").0;
    tree.write(
        "workloads/w/workload.yaml",
        &format!("{workload}spec: {{type: serving, {dimensions}, stack: unknown, {load}}}\n"),
    );
    let run_id: RunId = "bench-plainwordkey9931".parse().expect("a name");
    let of_target = |part: &str| {
        let target = format!("{{name: local, kind: process, command: [./serve], url: 'http://127.0.0.1:9', {part}}}");
        tree.write("pipelines/p.yaml", &PIPELINE.replace("INTENT", "exploratory").replace("{name: local, kind: host}", &target));
        tree.read(None).expect("a folder").check_no_secret(Some(&run_id)).err().map(Failure::from)
    };
    let place = key.display();
    let header = format!("headers: {{authorization: {{from_file: '{place}'}}}}");
    let variable = format!("env: {{HF_TOKEN: {{from_file: '{place}'}}}}");
    tree.write("workloads/w/README.md", "Asks with plainwordkey7731.\n");
    for (part, name) in [(&header, "authorization"), (&variable, "HF_TOKEN")] {
        tree.write("key", "Bearer plainwordkey7731\n");
        let refused = of_target(part).expect("refused");
        assert_eq!((refused.exit, refused.code.as_str()), (Exit::Usage, "secret_in_file"));
        let said = format!("the value of `{name}` stands in `workloads/w/README.md` too, which is published with the run");
        assert_eq!(refused.message, said);
        tree.write("key", "Bearer another-key\n");
        assert!(of_target(part).is_none(), "another secret");
    }
    // What receivers of hot metrics are sent is a secret as well, and what a Prometheus is asked with.
    tree.write("key", "Bearer plainwordkey7731\n");
    for more in [
        format!("  publish: {{hot_metrics: {{receivers: [{{name: gateway, pushgateway: 'http://127.0.0.1:9', {header}}}]}}}}\n"),
        format!("  telemetry: [{{name: fleet, prometheus: 'http://127.0.0.1:9', pack: node, {header}}}]\n"),
    ] {
        let target = "{name: local, kind: process, command: [./serve], url: 'http://127.0.0.1:9'}";
        let pipeline = PIPELINE.replace("INTENT", "exploratory").replace("{name: local, kind: host}", target);
        tree.write("pipelines/p.yaml", &(pipeline + &more));
        let refused = tree.read(None).expect("a folder").check_no_secret(None).map_err(Failure::from).expect_err(&more);
        assert_eq!(refused.code.as_str(), "secret_in_file");
    }
    tree.write("key", "plainwordkey9931\n");
    let in_name = of_target(&header).expect("refused");
    assert_eq!((in_name.exit, in_name.code.as_str()), (Exit::Usage, "secret_in_file"));
    tree.write("key", "Asks\n");
    assert!(of_target(&header).is_none(), "too short to be found by chance alone");
    let word = format!("env: {{GREETING: {{from_file: '{place}'}}}}");
    tree.write("key", "plainwordkey7731\n");
    assert!(of_target(&word).is_none(), "a variable that is no secret by its name may be any word");
    fs::remove_file(&key).expect("removed");
    assert!(of_target(&header).is_none(), "what is not here cannot be searched for");
}

const JOB: &str = "apiVersion: ome.io/v1beta1
kind: BenchmarkJob
metadata: {name: p}
spec:
  endpoint: {endpoint: {url: 'http://h:1', apiFormat: openai, modelName: m}}
  task: text-to-text
  trafficScenarios: ['D(1,2)']
  numConcurrency: [1]
  maxTimePerIteration: 1
  maxRequestsPerIteration: 1
  outputLocation: {storageUri: 's3://b/p'}
";

fn read_job(tree: &Tree, commit: Option<&str>) -> Result<LoadedSource> {
    let pipeline = tree.0.path().join("jobs/job.yaml").display().to_string();
    read_at(&SourceSpec { pipeline, commit: commit.map(str::to_owned), ..SourceSpec::default() })
}

#[test]
fn a_job_of_another_tool_is_its_own_source() {
    let tree = Tree::committed("realism");
    tree.write("jobs/job.yaml", JOB);
    let commit = tree.commit();
    // What the imported definitions are called does not matter: those of the repository are others.
    tree.write("pipelines/p.yaml", "changed");
    let source = stored(&read_job(&tree, None).expect("a job"));
    assert_eq!(source.kind, OriginKind::Git, "only the job has to be the commit's");
    assert_eq!(
        (source.pipeline.as_str(), source.files.last().expect("a file").path.as_str()),
        ("pipelines/p.yaml", "jobs/job.yaml")
    );
    let import = source.import.as_ref().expect("an import");
    assert_eq!((import.file.as_str(), import.format.as_str()), ("jobs/job.yaml", "ome-benchmarkjob"));
    assert_eq!(source.files_of_commit().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["jobs/job.yaml"]);
    tree.write("jobs/job.yaml", &JOB.replace("D(1,2)", "D(1,3)"));
    let changed = stored(&read_job(&tree, None).expect("a changed job"));
    assert_eq!((changed.kind, changed.dirty), (OriginKind::Worktree, true));
    let of_commit = stored(&read_job(&tree, Some(&commit)).expect("the job of the commit"));
    assert_eq!(of_commit, Source { reference: None, ..source });
}

#[test]
fn a_job_without_a_repository_is_ad_hoc() {
    let tree = Tree::new("exploratory");
    tree.write("jobs/job.yaml", JOB);
    let source = stored(&read_job(&tree, None).expect("a job"));
    assert_eq!((source.kind, source.dirty), (OriginKind::Adhoc, false));
    let paths: Vec<&str> = source.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["pipelines/p.yaml", "workloads/p-d-1-2/workload.yaml", "job.yaml"]);
}

/// A driver in a cluster reads the definitions from the store, and imports nothing.
#[test]
fn the_imported_definitions_of_a_job_are_read_from_its_source() {
    let tree = Tree::new("exploratory");
    tree.write("jobs/job.yaml", JOB);
    let (read, store) = (read_job(&tree, None).expect("a job"), Store::open("memory:").expect("a store"));
    let source = read.store(&store).expect("stored");
    let closure = read_stored_closure(&store, &source).expect("a closure");
    assert_eq!((closure.pipeline.name.as_str(), closure.workloads.len()), ("p", 1));
}

#[test]
fn a_job_that_cannot_run_as_it_is_says_why() {
    let tree = Tree::new("exploratory");
    let refusal = |text: &str| {
        tree.write("jobs/job.yaml", text);
        refusal(read_job(&tree, None))
    };
    insta::assert_snapshot!(refusal(&JOB.replace("s3://b/p", "hf://x")), @r"
    error[import_refused]: `job.yaml` is an OME BenchmarkJob, and 1 field of it is refused, so it cannot be run
      because: `spec.outputLocation.storageUri`: OME's controller cannot write results there, and neither can Assay: name a bucket, such as `s3://bucket/prefix`

    hint: `assay import job.yaml --dry-run` shows all fields; `assay import job.yaml --partial` writes definitions without those that are refused
    ");
    insta::assert_snapshot!(refusal(&JOB.replace("http://h:1", "http://robot@h:1")), @r"
    error[foreign_credential]: `job.yaml` is an OME BenchmarkJob, and `spec.endpoint.endpoint.url` may be a credential: a run pins the file as it is, and publishes it

    hint: write `REDACTED` in its place: Assay takes credentials from variables and Secrets. `assay import job.yaml` writes definitions without it
    ");
    insta::assert_snapshot!(refusal(&format!("{JOB}---\n{}", JOB.replace("name: p", "name: q"))), @r"
    error[several_pipelines]: `job.yaml` is an OME BenchmarkJob, and its documents make 2 pipelines, where a run has one: document 1 makes `pipelines/p.yaml`, document 2 makes `pipelines/q.yaml`

    hint: write each document into a file of its own, or write the pipelines with `assay import job.yaml`
    ");
    let too_many = format!("{JOB}{}", "---\n{}\n".repeat(100));
    insta::assert_snapshot!(refusal(&too_many), @"error[foreign_format]: `job.yaml` is an OME BenchmarkJob, and it has more than 100 documents");
}
