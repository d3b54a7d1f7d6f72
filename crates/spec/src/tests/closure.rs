//! The closure of a pipeline, and validation of many files.

use std::cell::RefCell;
use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::{COMPARING, INDICATOR, PIPELINE, SERVING, replace_part};
use crate::{Closure, ClosureError, MAX_FILE_BYTES, read_closure, render, validate};

/// Returns a repository in memory.
fn repository(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

fn whole() -> BTreeMap<String, Vec<u8>> {
    repository(&[
        ("pipelines/nightly.yaml", &replace_part(PIPELINE, "  targets:", "  publish: {queries: [queries/q.sql]}\n  targets:")),
        ("workloads/stream/workload.yaml", INDICATOR),
        ("workloads/stream/run.sh", "#!/bin/sh"),
        ("workloads/stream/stream.c", "int main;"),
        ("workloads/stream/README.md", "# Stream"),
        ("workloads/stream/unnamed.txt", "not part of it"),
        ("queries/q.sql", "select 1"),
    ])
}

fn close(path: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<Closure, ClosureError<String>> {
    read_closure(path, &mut |path| Ok(files.get(path).cloned()))
}

fn refusal(path: &str, files: &BTreeMap<String, Vec<u8>>) -> String {
    match close(path, files) {
        Err(ClosureError::Problems(problems)) => render(&problems),
        Err(error) => error.to_string(),
        Ok(_) => "no problem".to_owned(),
    }
}

#[test]
fn the_closure_is_what_is_named_and_no_more() {
    let closed = close("./pipelines/nightly.yaml", &whole()).expect("a closure");
    let paths: Vec<_> = closed.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "pipelines/nightly.yaml",
            "workloads/stream/workload.yaml",
            "workloads/stream/run.sh",
            "workloads/stream/stream.c",
            "workloads/stream/README.md",
            "queries/q.sql"
        ]
    );
    let frozen = closed.workloads[0].freeze(&closed.workload_pins(&closed.workloads[0])).expect("frozen");
    assert!(frozen.unpinned.is_empty());
    assert_eq!(closed.files[2].size, 9);
}

#[test]
fn each_path_is_asked_for_once() {
    let mut files = whole();
    let twice = replace_part(INDICATOR, "files: [stream.c]", "files: [stream.c, README.md, workload.yaml]");
    files.insert("workloads/stream/workload.yaml".to_owned(), twice.into_bytes());
    let asked = RefCell::new(Vec::new());
    let closed = read_closure("pipelines/nightly.yaml", &mut |path| {
        asked.borrow_mut().push(path.to_owned());
        Ok::<_, String>(files.get(path).cloned())
    });
    let closed = closed.unwrap_or_else(|_| panic!("a closure"));
    let mut once = asked.into_inner();
    assert_eq!(once.len(), closed.files.len());
    once.dedup();
    assert_eq!(once.len(), closed.files.len());
}

#[test]
fn lock_files_of_variants_belong_to_the_closure_and_have_to_lock() {
    let mut files = whole();
    let variants = "  variants: [{name: new, python: {lock: stacks/new.txt}}, {name: same, python: {lock: stacks/new.txt}}]\n";
    let pipeline = replace_part(PIPELINE, "  targets:", &format!("{variants}  targets:"));
    files.insert("pipelines/nightly.yaml".to_owned(), pipeline.into_bytes());
    let missing = refusal("pipelines/nightly.yaml", &files);
    assert!(missing.contains("there is no file `stacks/new.txt`"), "{missing}");
    files.insert("stacks/new.txt".to_owned(), b"six==1.16\n".to_vec());
    let open = refusal("pipelines/nightly.yaml", &files);
    assert!(open.contains("line 1: `six` has no digest `--hash=sha256:...`, so its bytes are not locked"), "{open}");
    let locked = format!("six==1.16 --hash=sha256:{}\n", "0".repeat(64));
    files.insert("stacks/new.txt".to_owned(), locked.into_bytes());
    let closure = close("pipelines/nightly.yaml", &files).expect("a closure");
    assert_eq!(closure.files.iter().filter(|file| file.path == "stacks/new.txt").count(), 1);
}

#[test]
fn objects_of_targets_belong_to_the_closure_and_have_to_read() {
    let targets =
        "  targets:\n    - {name: vllm, kind: objects, objects: [targets/a.yaml, targets/b.yaml], url: 'http://vllm:8000'}";
    let pipeline = replace_part(PIPELINE, "[stream]", "[chat]");
    let mut files = repository(&[
        ("pipelines/nightly.yaml", &replace_part(&pipeline, "  targets:\n    - {name: here, kind: host}", targets)),
        ("workloads/chat/workload.yaml", SERVING),
        ("targets/a.yaml", "kind: Service\n---\nkind: Deployment\n"),
        ("targets/b.yaml", "kind: ConfigMap\n"),
    ]);
    let closed = close("pipelines/nightly.yaml", &files).expect("a closure");
    let paths: Vec<_> = closed.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths[2..], ["targets/a.yaml", "targets/b.yaml"]);
    files.insert("targets/a.yaml".to_owned(), b"kind: [\n".to_vec());
    files.remove("targets/b.yaml");
    assert_snapshot!(refusal("pipelines/nightly.yaml", &files), @r"
    error: this is not YAML: while parsing a node, did not find expected node content
     --> targets/a.yaml:2:1
      |
    2 |
      | ^

    error: there is no file `targets/b.yaml`
     --> pipelines/nightly.yaml:7:61
      |
    7 |     - {name: vllm, kind: objects, objects: [targets/a.yaml, targets/b.yaml], url: 'http://vllm:8000'}
      |                                                             ^^^^^^^^^^^^^^
    hint: paths of objects are relative to the repository's root
    ");
}

#[test]
fn missing_files_are_named_where_they_are_asked_for() {
    let mut files = whole();
    for path in ["workloads/stream/run.sh", "workloads/stream/stream.c", "workloads/stream/README.md", "queries/q.sql"] {
        files.remove(path);
    }
    assert_snapshot!(refusal("pipelines/nightly.yaml", &files), @r"
    error: there is no file `workloads/stream/run.sh`
     --> workloads/stream/workload.yaml:8:18
      |
    8 |   script: {path: run.sh}
      |                  ^^^^^^
    hint: paths are relative to the workload's folder

    error: there is no file `workloads/stream/stream.c`
     --> workloads/stream/workload.yaml:9:11
      |
    9 |   files: [stream.c]
      |           ^^^^^^^^
    hint: paths are relative to the workload's folder

    error: there is no file `queries/q.sql`
     --> pipelines/nightly.yaml:6:23
      |
    6 |   publish: {queries: [queries/q.sql]}
      |                       ^^^^^^^^^^^^^
    hint: paths of queries are relative to the repository's root
    ");
}

#[test]
fn a_missing_workload_is_named_where_it_is_asked_for() {
    let mut files = whole();
    files.remove("workloads/stream/workload.yaml");
    assert_snapshot!(refusal("pipelines/nightly.yaml", &files), @r"
    error: there is no workload `stream`
     --> pipelines/nightly.yaml:5:15
      |
    5 |   workloads: [stream]
      |               ^^^^^^
    hint: it would be defined in workloads/stream/workload.yaml
    ");
}

#[test]
fn a_missing_workload_is_named_beside_other_problems_of_the_pipeline() {
    let mut files = whole();
    let broken = replace_part(PIPELINE, "  targets:", "  trails: {count: 5}\n  targets:");
    files.insert("pipelines/nightly.yaml".to_owned(), broken.clone().into_bytes());
    let only = refusal("pipelines/nightly.yaml", &files);
    assert!(only.contains("`trails`") && !only.contains("there is no workload"), "{only}");
    files.remove("workloads/stream/workload.yaml");
    let both = refusal("pipelines/nightly.yaml", &files);
    assert!(both.contains("`trails`") && both.contains("there is no workload `stream`"), "{both}");
    assert!(both.contains("hint: it would be defined in workloads/stream/workload.yaml"), "{both}");
    let invalid = INDICATOR.replace("kind: Workload", "kind: Workload\nnope: 1");
    files.insert("workloads/stream/workload.yaml".to_owned(), invalid.into_bytes());
    let all = refusal("pipelines/nightly.yaml", &files);
    assert!(all.contains("`trails`") && all.contains("`nope`") && !all.contains("there is no workload"), "{all}");
}

#[test]
fn a_missing_pipeline_is_named() {
    assert_snapshot!(refusal("pipelines/none.yaml", &whole()), @r"
    error: there is no such pipeline
     --> pipelines/none.yaml
    ");
    assert_snapshot!(refusal("../nightly.yaml", &whole()), @r"
    error: `../nightly.yaml` is not a path in the repository: must not lead out of its folder with `..`
     --> ../nightly.yaml
    ");
}

#[test]
fn problems_of_all_files_come_together() {
    let mut files = whole();
    let pipeline = replace_part(PIPELINE, "[stream]", "[stream, chat]");
    files.insert("pipelines/nightly.yaml".to_owned(), pipeline.into_bytes());
    files.insert("workloads/stream/workload.yaml".to_owned(), replace_part(INDICATOR, "type: indicator", "type: x").into_bytes());
    files.insert("workloads/chat/workload.yaml".to_owned(), replace_part(SERVING, "mode: open", "mode: x").into_bytes());
    let shown = refusal("pipelines/nightly.yaml", &files);
    assert!(
        shown.contains("workloads/stream/workload.yaml:7:9") && shown.contains("workloads/chat/workload.yaml:13:11"),
        "{shown}"
    );
}

#[test]
fn a_failure_to_read_is_passed_on() {
    let mut read = |_: &str| Err::<Option<Vec<u8>>, _>(std::io::Error::other("the disk is gone"));
    let error = read_closure("pipelines/nightly.yaml", &mut read).expect_err("no closure");
    assert_eq!(error.to_string(), "failed to read `pipelines/nightly.yaml`");
    assert_eq!(std::error::Error::source(&error).map(ToString::to_string), Some("the disk is gone".to_owned()));
}

#[test]
fn files_have_a_size_limit() {
    let mut files = whole();
    files.insert("workloads/stream/stream.c".to_owned(), vec![b' '; MAX_FILE_BYTES + 1]);
    assert_snapshot!(refusal("pipelines/nightly.yaml", &files), @r"
    error: the file has 67108865 bytes; at most 67108864 are allowed
     --> workloads/stream/stream.c
    ");
}

fn validated(files: &[(&str, &str)]) -> String {
    render(&validate(files.iter().map(|(path, text)| (*path, text.as_bytes()))))
}

#[test]
fn valid_files_have_no_problems() {
    let files =
        [("p.yaml", PIPELINE), ("workloads/stream/workload.yaml", INDICATOR), ("q.yaml", COMPARING), ("t.yaml", super::TRUST)];
    assert_eq!(validated(&files), "");
}

#[test]
fn a_pipeline_and_its_workloads_are_validated_together() {
    let endpoint = replace_part(PIPELINE, "kind: host", "kind: endpoint, url: http://localhost");
    assert_eq!(validated(&[("p.yaml", &endpoint)]), "");
    assert_snapshot!(validated(&[("p.yaml", &endpoint), ("workloads/stream/workload.yaml", INDICATOR)]), @r"
    error: no target can run the indicator workload `stream`
     --> p.yaml:5:15
      |
    5 |   workloads: [stream]
      |               ^^^^^^
    hint: add a target that is a `host`

    error: no workload of this pipeline runs on the target `here` of `kind: endpoint`
     --> p.yaml:7:7
      |
    7 |     - {name: here, kind: endpoint, url: http://localhost}
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: remove the target, or name a workload for it
    ");
}

#[test]
fn two_workloads_of_one_name_are_a_problem() {
    assert_snapshot!(validated(&[("a.yaml", INDICATOR), ("b.yaml", INDICATOR)]), @r"
    error: the workload `stream` is also defined in a.yaml
     --> b.yaml:4:9
      |
    4 |   name: stream
      |         ^^^^^^
    hint: give one of them another name
    ");
}

#[test]
fn an_acknowledgement_is_about_something_that_is_compared() {
    let about = |case: &str, metric: &str| {
        let text = format!(
            "apiVersion: assay.dev/v1alpha1
kind: Acknowledgement
metadata: {{name: slower}}
spec:
  case: {case}
  metric: {metric}
  accepts_pct: 12
  pull_request: 17
  reason: wanted
  approver: owner
  expires: \"2100-01-01T00:00:00Z\"
"
        );
        validated(&[("pipelines/q.yaml", COMPARING), ("workloads/chat/workload.yaml", SERVING), ("pipelines/acks/a.yaml", &text)])
    };
    assert_eq!(about("chat.new.fast", "ttft_ms_p99"), "");
    assert_snapshot!(about("chat.old.default", "ttft_ms_p99"), @r"
    error: no pipeline here has the candidate `chat.old.default`
     --> pipelines/acks/a.yaml:5:9
      |
    5 |   case: chat.old.default
      |         ^^^^^^^^^^^^^^^^
    hint: a candidate is workload.target.variant: chat.new.fast
    ");
    assert_snapshot!(about("chat.new.fast", "ttft_ms_p98"), @r"
    error: the workload `chat` reports no metric `ttft_ms_p98` that gates judge
     --> pipelines/acks/a.yaml:6:11
      |
    6 |   metric: ttft_ms_p98
      |           ^^^^^^^^^^^
    hint: did you mean `ttft_ms_p90`?
    ");
}

#[test]
fn the_folder_is_checked_in_validation_too() {
    assert!(validated(&[("x/workloads/chat/workload.yaml", INDICATOR)]).contains("lies in the folder `chat`"));
}

#[test]
fn a_problem_that_two_pipelines_find_is_shown_once() {
    let remote = replace_part(INDICATOR, "{path: run.sh}", "{url: https://evil.example/run.sh}");
    let strict = replace_part(PIPELINE, "  targets:", "  fetch: {allow: [good.example]}\n  targets:");
    let shown = validated(&[("p.yaml", &strict), ("p.yaml", &strict), ("w.yaml", &remote)]);
    assert_eq!(shown.matches("error: ").count(), 1, "{shown}");
}
