//! Expansion: cases, points and their limits.

use std::collections::BTreeSet;

use assay_manifest::{Case, PointKind};
use insta::assert_snapshot;
use proptest::prelude::*;

use super::{COMPARING, INDICATOR, PIPELINE, SERVING, pipeline, replace_part, workload};
use crate::{MAX_POINTS, expand, render};

fn cases(pipeline_text: &str, workloads: &[&str]) -> Vec<Case> {
    let workloads: Vec<_> = workloads.iter().map(|text| workload(text)).collect();
    expand(&pipeline(pipeline_text), &workloads).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}

fn refusal(pipeline_text: &str, workloads: &[&str]) -> String {
    let workloads: Vec<_> = workloads.iter().map(|text| workload(text)).collect();
    expand(&pipeline(pipeline_text), &workloads).map_or_else(|problems| render(&problems), |_| "no problem".to_owned())
}

fn show(cases: &[Case]) -> String {
    let points = |case: &Case| {
        case.points
            .iter()
            .map(|point| format!("\n  {} {} {:?}", point.kind, point.point_id, point.value))
            .collect::<Vec<_>>()
            .concat()
    };
    cases.iter().map(|case| format!("{}{}\n", case.case_id, points(case))).collect::<Vec<_>>().concat()
}

#[test]
fn parameters_multiply() {
    assert_snapshot!(show(&cases(PIPELINE, &[INDICATOR])), @r#"
    stream.here.default
      parameters array-mib-64-threads-1 {"ARRAY_MIB": "64", "THREADS": "1"}
      parameters array-mib-64-threads-2 {"ARRAY_MIB": "64", "THREADS": "2"}
      parameters array-mib-64-threads-4 {"ARRAY_MIB": "64", "THREADS": "4"}
      parameters array-mib-256-threads-1 {"ARRAY_MIB": "256", "THREADS": "1"}
      parameters array-mib-256-threads-2 {"ARRAY_MIB": "256", "THREADS": "2"}
      parameters array-mib-256-threads-4 {"ARRAY_MIB": "256", "THREADS": "4"}
    "#);
}

#[test]
fn a_workload_without_axes_has_one_point() {
    let text = replace_part(INDICATOR, "    ARRAY_MIB: [64, 256]\n    THREADS: [1, 2, 4]\n", "");
    assert_snapshot!(show(&cases(PIPELINE, &[&text])), @r"
    stream.here.default
      parameters default {}
    ");
}

/// A workload with a command, and a parameter of it.
const COMMAND: &str = "\
apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: stream}
spec:
  type: indicator
  command: {run: [./old], warmup: 2}
  parameters: {SIZE: 1}
";

#[test]
fn the_command_of_a_host_replaces_a_command_and_names_its_parameters() {
    let with = |command: &str| replace_part(PIPELINE, "kind: host}", &format!("kind: host, command: {command}}}"));
    assert_eq!(refusal(&with("[./new, '${SIZE}', '$${SIZ}']"), &[COMMAND]), "no problem");
    assert_snapshot!(refusal(&with("[./new, '${SIZ}']"), &[COMMAND]), @r"
    error: the command of the target `here` names `${SIZ}`, which is no parameter of `stream`
     --> pipeline.yaml:7:32
      |
    7 |     - {name: here, kind: host, command: [./new, '${SIZ}']}
      |                                ^^^^^^^
    hint: write `$${` for what is no parameter
    ");
    assert_snapshot!(refusal(&with("[./new]"), &[INDICATOR]), @r"
    error: the command of the target `here` replaces none: `stream` runs a script
     --> pipeline.yaml:7:32
      |
    7 |     - {name: here, kind: host, command: [./new]}
      |                                ^^^^^^^
    hint: remove it, or give the workload a `command` instead of a `script`
    ");
}

#[test]
fn each_rate_or_concurrency_is_a_point() {
    assert_snapshot!(show(&cases(COMPARING, &[SERVING])), @r#"
    chat.old.default
      rate rate-1 {"rate": "1"}
      rate rate-2-5 {"rate": "2.5"}
      rate rate-10 {"rate": "10"}
    chat.old.fast
      rate rate-1 {"rate": "1"}
      rate rate-2-5 {"rate": "2.5"}
      rate rate-10 {"rate": "10"}
    chat.new.default
      rate rate-1 {"rate": "1"}
      rate rate-2-5 {"rate": "2.5"}
      rate rate-10 {"rate": "10"}
    chat.new.fast
      rate rate-1 {"rate": "1"}
      rate rate-2-5 {"rate": "2.5"}
      rate rate-10 {"rate": "10"}
    "#);
    let closed = replace_part(
        SERVING,
        "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n",
        "    mode: closed\n    concurrency: [1, 64]\n",
    );
    let cases = cases(COMPARING, &[&closed]);
    assert_eq!(
        cases[0].points.iter().map(|point| (point.kind, point.point_id.as_str())).collect::<Vec<_>>(),
        [(PointKind::Concurrency, "concurrency-1"), (PointKind::Concurrency, "concurrency-64")]
    );
}

#[test]
fn each_number_of_users_is_a_point_at_each_rate() {
    let open = "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n";
    let users = replace_part(SERVING, open, "    mode: users\n    users: [15, 30]\n    rate: [1, 2.5]\n");
    let users = replace_part(&users, "lengths: N(480,240)/(300,150)", "lengths: D(9,9)\n  sessions: {turns: 20}");
    let points = cases(COMPARING, &[&users])[0].points.clone();
    assert!(points.iter().all(|point| point.kind == PointKind::Users), "{points:?}");
    let shown = points.iter().map(|point| format!("{} {}/{}", point.point_id, point.value["users"], point.value["rate"]));
    assert_snapshot!(shown.collect::<Vec<_>>().join(", "), @"users-15-rate-1 15/1, users-15-rate-2-5 15/2.5, users-30-rate-1 30/1, users-30-rate-2-5 30/2.5");
    let list = |count: u32| (1..=count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let many =
        replace_part(&users, "users: [15, 30]\n    rate: [1, 2.5]", &format!("users: [{}]\n    rate: [{}]", list(40), list(30)));
    let refused = refusal(COMPARING, &[&many]);
    assert!(refused.contains("the users and rates of `chat` make 1200 points; at most 1000 are allowed"), "{refused}");
}

#[test]
fn a_rate_that_changes_is_one_point() {
    let point = |rate: &str| {
        let open = "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n";
        let text = replace_part(SERVING, open, &format!("    mode: open\n    rate: {rate}\n"));
        let points = cases(COMPARING, &[&text])[0].points.clone();
        points.iter().map(|point| format!("{} {}", point.point_id, point.value["rate"])).collect::<Vec<_>>().join(", ")
    };
    assert_snapshot!(point("{ramp: {shape: linear, from: 1, to: 50}}"), @"rate-1-50-linear-510bf93837df 1..50 linear");
    assert_snapshot!(point("{ramp: {shape: exponential, from: 50, to: 0.5}}"), @"rate-50-0-5-exponential-f5fe67b1cc7c 50..0.5 exponential");
    assert_snapshot!(point("{ramp: {shape: steps, from: 1, to: 50, steps: 5}}"), @"rate-1-50-in-5-steps-12dd85963551 1..50 in 5 steps");
    assert_snapshot!(point("{series: [{duration: 59s, rate: 5}, {duration: 1s, rate: 0.5}]}"), @"rate-0-5-5-in-2-segments-c79ab1977cbe 0.5..5 in 2 segments");
}

#[test]
fn workloads_meet_the_targets_that_can_run_them() {
    let text = replace_part(PIPELINE, "[stream]", "[stream, chat]");
    let text = replace_part(&text, "kind: host}\n", "kind: host}\n    - {name: sim, kind: simulator}\n");
    let ids: Vec<_> = cases(&text, &[SERVING, INDICATOR]).into_iter().map(|case| case.case_id.to_string()).collect();
    assert_eq!(ids, ["stream.here.default", "chat.sim.default"]);
}

#[test]
fn blurred_long_and_odd_values_end_in_a_digest() {
    let text = replace_part(INDICATOR, "ARRAY_MIB: [64, 256]", "KIND: [fp8, FP8, a-b, a_b, -1, 0.5, '', a b, ü]");
    let text = replace_part(&text, "THREADS: [1, 2, 4]", &format!("LONG: [{}]", "x".repeat(50)));
    let ids = show(&cases(PIPELINE, &[&text]));
    assert_snapshot!(ids, @r#"
    stream.here.default
      parameters kind-fp8-long-xxxxxxxxxxxxx-fda5e23a0025 {"KIND": "fp8", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-fp8-long-xxxxxxxxxxxxx-5b5b6c52405e {"KIND": "FP8", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-a-b-long-xxxxxxxxxxxxx-f6bd453fa801 {"KIND": "a-b", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-a-b-long-xxxxxxxxxxxxx-2085359117d0 {"KIND": "a_b", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-1-long-xxxxxxxxxxxxxxx-7674dba5ca97 {"KIND": "-1", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-0-5-long-xxxxxxxxxxxxx-53def4cab079 {"KIND": "0.5", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-long-xxxxxxxxxxxxxxxxx-1f83cee720ce {"KIND": "", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-a-b-long-xxxxxxxxxxxxx-d8e6cfdeb532 {"KIND": "a b", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      parameters kind-long-xxxxxxxxxxxxxxxxx-f41660f1a093 {"KIND": "ü", "LONG": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
    "#);
}

#[test]
fn a_cap_over_all_requests_needs_one_shard() {
    let capped = replace_part(SERVING, "    mode: open\n", "    mode: open\n    max_concurrency: 8\n");
    let sharded = |shards: &str| replace_part(COMPARING, "  shards: 2\n", &format!("  shards: {shards}\n"));
    for accepted in ["1", "auto"] {
        assert_eq!(refusal(&sharded(accepted), &[&capped]), "no problem");
    }
    assert_snapshot!(refusal(&sharded("2"), &[&capped]), @r"
    error: `spec.shards` is 2, and `spec.load.max_concurrency` of the workload `chat` holds for all requests together, which only one shard can count
      --> pipeline.yaml:35:11
       |
    35 |   shards: 2
       |           ^
    hint: write `shards: 1`, or remove `spec.load.max_concurrency`
    ");
}

#[test]
fn a_program_is_run_by_one_shard() {
    let sharded = |shards: &str| format!("{PIPELINE}  shards: {shards}\n");
    for accepted in ["1", "auto"] {
        assert_eq!(refusal(&sharded(accepted), &[INDICATOR]), "no problem");
    }
    let refused = refusal(&sharded("2"), &[INDICATOR]);
    assert!(
        refused.contains("`spec.shards` is 2, and the workload `stream` is a program, which only one shard can run"),
        "{refused}"
    );
    assert!(refused.contains("hint: write `shards: 1`, or put the serving workloads into a pipeline of their own"), "{refused}");
}

#[test]
fn an_unknown_workload_is_named() {
    assert_snapshot!(refusal(&replace_part(PIPELINE, "[stream]", "[stream, strem]"), &[INDICATOR]), @r"
    error: there is no workload `strem`
     --> pipeline.yaml:5:23
      |
    5 |   workloads: [stream, strem]
      |                       ^^^^^
    hint: did you mean `stream`?
    ");
    assert_snapshot!(refusal(&replace_part(PIPELINE, "[stream]", "[nothing-like-it]"), &[INDICATOR]), @r"
    error: there is no workload `nothing-like-it`
     --> pipeline.yaml:5:15
      |
    5 |   workloads: [nothing-like-it]
      |               ^^^^^^^^^^^^^^^
    hint: it would be defined in workloads/nothing-like-it/workload.yaml
    ");
}

#[test]
fn nothing_is_left_without_a_partner() {
    assert_snapshot!(refusal(&replace_part(PIPELINE, "[stream]", "[chat]"), &[SERVING]), @r"
    error: no target can run the serving workload `chat`
     --> pipeline.yaml:5:15
      |
    5 |   workloads: [chat]
      |               ^^^^
    hint: add a target that is an `endpoint`, a `process`, a `simulator`, `objects` or an `inference_service`

    error: no workload of this pipeline runs on the target `here` of `kind: host`
     --> pipeline.yaml:7:7
      |
    7 |     - {name: here, kind: host}
      |       ^^^^^^^^^^^^^^^^^^^^^^^
    hint: remove the target, or name a workload for it
    ");
    assert_snapshot!(refusal(&replace_part(PIPELINE, "kind: host}\n", "kind: host}\n    - {name: sim, kind: simulator}\n"), &[INDICATOR]), @r"
    error: no workload of this pipeline runs on the target `sim` of `kind: simulator`
     --> pipeline.yaml:8:7
      |
    8 |     - {name: sim, kind: simulator}
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: remove the target, or name a workload for it
    ");
}

#[test]
fn the_sides_of_a_comparison_have_work_in_common() {
    let text = replace_part(PIPELINE, "[stream]", "[stream, chat]");
    let text = replace_part(
        &text,
        "kind: host}\n",
        "kind: host}\n    - {name: sim, kind: simulator}\n  comparison: {baseline: {target: here}, candidate: {target: sim}, variable_under_test: model}\n",
    );
    assert_snapshot!(refusal(&text, &[SERVING, INDICATOR]), @r"
    error: no workload of this pipeline runs on both `here` and `sim`
     --> pipeline.yaml:9:3
      |
    9 |   comparison: {baseline: {target: here}, candidate: {target: sim}, variable_under_test: model}
      |   ^^^^^^^^^^
    hint: one is a `host`, the other a `simulator`
    ");
}

#[test]
fn gates_judge_declared_metrics() {
    let text = replace_part(
        PIPELINE,
        "  targets:",
        "  comparison: {baseline: {target: here}, candidate: {target: here, variant: fast}, variable_under_test: model}\n  variants: [{name: default}, {name: fast}]\n  placement: alternate\n  gates: [{name: g, metrics: [copy.rat, copy.rate]}]\n  targets:",
    );
    assert_snapshot!(refusal(&text, &[INDICATOR]), @r"
    error: no workload of this pipeline reports the metric `copy.rat`
     --> pipeline.yaml:9:31
      |
    9 |   gates: [{name: g, metrics: [copy.rat, copy.rate]}]
      |                               ^^^^^^^^
    hint: did you mean `copy.rate`?
    ");
    let serving = replace_part(&replace_part(PIPELINE, "kind: host}\n", "kind: simulator}\n"), "[stream]", "[chat]");
    let serving = replace_part(
        &serving,
        "  targets:",
        "  comparison: {baseline: {target: here}, candidate: {target: here, variant: fast}, variable_under_test: model}\n  variants: [{name: default}, {name: fast}]\n  placement: alternate\n  gates: [{name: g, metrics: [ttft_ms_p99, ttft_ms_p55]}]\n  targets:",
    );
    assert_snapshot!(refusal(&serving, &[SERVING]), @r"
    error: no workload of this pipeline reports the metric `ttft_ms_p55`
     --> pipeline.yaml:9:44
      |
    9 |   gates: [{name: g, metrics: [ttft_ms_p99, ttft_ms_p55]}]
      |                                            ^^^^^^^^^^^
    hint: did you mean `ttft_ms_p50`?
    ");
}

#[test]
fn gates_judge_what_a_workload_measures() {
    let pipeline = |gate: &str| {
        let text = replace_part(&replace_part(PIPELINE, "kind: host}\n", "kind: simulator}\n"), "[stream]", "[chat]");
        let gate = format!(
            "  comparison: {{baseline: {{target: here}}, candidate: {{target: here, variant: fast}}, variable_under_test: model}}\n  variants: [{{name: default}}, {{name: fast}}]\n  placement: alternate\n  gates: [{{name: g, {gate}}}]\n  targets:",
        );
        replace_part(&text, "  targets:", &gate)
    };
    assert_snapshot!(refusal(&pipeline("metrics: [e2e_ms_p50, isl_tokens_mean, steady_fraction]"), &[SERVING]), @r"
    error: gates do not judge `isl_tokens_mean`
     --> pipeline.yaml:9:43
      |
    9 |   gates: [{name: g, metrics: [e2e_ms_p50, isl_tokens_mean, steady_fraction]}]
      |                                           ^^^^^^^^^^^^^^^
    hint: neither direction of it is better: it describes the load or the requests

    error: no workload of this pipeline measures `steady_fraction`
     --> pipeline.yaml:9:60
      |
    9 |   gates: [{name: g, metrics: [e2e_ms_p50, isl_tokens_mean, steady_fraction]}]
      |                                                            ^^^^^^^^^^^^^^^
    hint: it needs closed loop
    ");
    let embeddings = replace_part(
        &replace_part(SERVING, "  lengths: N(480,240)/(300,150)\n  slos: {ttft: 2s, tpot: 200ms}\n", "  lengths: E(64)\n"),
        "  load:\n",
        "  api: embeddings\n  load:\n",
    );
    assert_snapshot!(refusal(&pipeline("max_output_drift_pct: 5, metrics: [ttft_ms_p99, documents_per_s]"), &[&embeddings]), @r"
    error: no workload of this pipeline measures `ttft_ms_p99`
     --> pipeline.yaml:9:56
      |
    9 |   gates: [{name: g, max_output_drift_pct: 5, metrics: [ttft_ms_p99, documents_per_s]}]
      |                                                        ^^^^^^^^^^^
    hint: it needs streamed responses

    error: no workload of this pipeline has responses with output tokens, whose number this limits
     --> pipeline.yaml:9:43
      |
    9 |   gates: [{name: g, max_output_drift_pct: 5, metrics: [ttft_ms_p99, documents_per_s]}]
      |                                           ^
    hint: remove it
    ");
    assert_eq!(refusal(&pipeline("max_output_drift_pct: 5, metrics: [ttft_ms_p99]"), &[SERVING]), "no problem");
}

#[test]
fn a_gate_judges_the_most_load_of_loads_with_slos() {
    let text = replace_part(&replace_part(PIPELINE, "kind: host}\n", "kind: simulator}\n"), "[stream]", "[chat]");
    let gate = "  comparison: {baseline: {target: here}, candidate: {target: here, variant: fast}, variable_under_test: model}\n  variants: [{name: default}, {name: fast}]\n  placement: alternate\n  gates: [{name: g, metrics: [max_load]}]\n  targets:";
    let text = replace_part(&text, "  targets:", gate);
    assert_eq!(refusal(&text, &[SERVING]), "no problem");
    let refused = |workload: &str| refusal(&text, &[workload]);
    assert_snapshot!(refused(&replace_part(SERVING, "rate: [1, 2.5, 10]", "rate: [10]")), @r"
    error: no workload of this pipeline measures `max_load`
     --> pipeline.yaml:9:31
      |
    9 |   gates: [{name: g, metrics: [max_load]}]
      |                               ^^^^^^^^
    hint: it needs `slos`, and two or more loads of one kind, such as `rate: [8, 9, 10]`
    ");
    assert!(refused(&replace_part(SERVING, "  slos: {ttft: 2s, tpot: 200ms}\n", "")).contains("it needs `slos`"));
    // Both sides have the loads of their workload, so that no pipeline compares different ones.
    let cases = expand(&pipeline(&text), &[workload(SERVING)]).expect("cases");
    assert_eq!(cases.len(), 2);
    assert_eq!(cases[0].points, cases[1].points);
}

#[test]
fn scripts_are_fetched_from_allowed_hosts() {
    let remote = replace_part(INDICATOR, "{path: run.sh}", "{url: https://evil.example/run.sh}");
    assert_eq!(refusal(PIPELINE, &[&remote]), "no problem");
    assert_snapshot!(refusal(&replace_part(PIPELINE, "  targets:", "  fetch: {allow: [good.example]}\n  targets:"), &[&remote]), @r"
    error: the script's host `evil.example` is not among those that the pipeline `nightly` allows
     --> workload.yaml:8:17
      |
    8 |   script: {url: https://evil.example/run.sh}
      |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: add it to `spec.fetch.allow` in pipeline.yaml
    ");
    assert_eq!(
        refusal(&replace_part(PIPELINE, "  targets:", "  fetch: {allow: [evil.example]}\n  targets:"), &[&remote]),
        "no problem"
    );
}

fn axis(name: &str, length: usize) -> String {
    format!("{name}: [{}]", (0..length).map(|value| value.to_string()).collect::<Vec<_>>().join(", "))
}

#[test]
fn points_have_a_limit() {
    let sweep = |a, b| {
        replace_part(
            &replace_part(INDICATOR, "ARRAY_MIB: [64, 256]", &axis("ARRAY_MIB", a)),
            "THREADS: [1, 2, 4]",
            &axis("THREADS", b),
        )
    };
    assert_eq!(cases(PIPELINE, &[&sweep(MAX_POINTS / 10, 10)])[0].points.len(), MAX_POINTS);
    assert_snapshot!(refusal(PIPELINE, &[&sweep(MAX_POINTS / 10, 11)]), @r"
    error: the parameters of `stream` make 1100 points; at most 1000 are allowed
      --> workload.yaml:13:3
       |
    13 |   parameters:
       |   ^^^^^^^^^^
    hint: every list multiplies the points by its length
    ");
}

fn many(workloads: usize, targets: usize, variants: usize) -> (String, Vec<String>) {
    let list = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let text = replace_part(PIPELINE, "[stream]", &format!("[{}]", list(workloads, &|i| format!("w{i}"))));
    let text = replace_part(
        &text,
        "\n    - {name: here, kind: host}",
        &format!(" [{}]", list(targets, &|i| format!("{{name: t{i}, kind: host}}"))),
    );
    let text = replace_part(
        &text,
        "  targets:",
        &format!("  variants: [{}]\n  targets:", list(variants, &|i| format!("{{name: v{i}}}"))),
    );
    (text, (0..workloads).map(|i| replace_part(INDICATOR, "name: stream", &format!("name: w{i}"))).collect())
}

#[test]
fn cases_and_trials_have_a_limit() {
    let refuse =
        |(text, workloads): (String, Vec<String>)| refusal(&text, &workloads.iter().map(String::as_str).collect::<Vec<_>>());
    assert_snapshot!(refuse(many(2, 101, 50)), @r"
    error: the pipeline has 10100 cases; at most 10000 are allowed
     --> pipeline.yaml:4:1
      |
    4 | spec:
      | ^^^^
    hint: a case is workload x target x variant
    ");
    assert_snapshot!(refuse(many(2, 50, 50)), @r"
    error: the pipeline has 150000 trials; at most 100000 are allowed
     --> pipeline.yaml:4:1
      |
    4 | spec:
      | ^^^^
    hint: 30000 points are measured 5 times each
    ");
}

#[test]
fn a_thousand_cases_expand() {
    let (text, workloads) = many(10, 10, 10);
    let (pipeline, workloads) = (pipeline(&text), workloads.iter().map(|text| workload(text)).collect::<Vec<_>>());
    let cases = expand(&pipeline, &workloads).expect("cases");
    assert_eq!(cases.len(), 1000);
}

proptest! {
    #[test]
    fn the_count_is_the_product_of_the_axes_and_ids_are_unique(
        workloads in 1usize..4, targets in 1usize..4, variants in 1usize..4,
        // No value begins like the secrets of well-known services: those are refused.
        axes in prop::collection::vec(prop::collection::btree_set("[v0-9. ][a-zA-Z0-9._ -]{0,5}", 1..5), 0..3),
    ) {
        let (text, files) = many(workloads, targets, variants);
        let quoted = |values: &BTreeSet<String>| values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ");
        let parameters: String = axes.iter().enumerate().map(|(i, values)| format!("    A{i}: [{}]\n", quoted(values))).collect::<Vec<_>>().concat();
        let files: Vec<String> =
            files.iter().map(|file| replace_part(file, "    ARRAY_MIB: [64, 256]\n    THREADS: [1, 2, 4]\n", &parameters)).collect();
        let cases = cases(&text, &files.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(cases.len(), workloads * targets * variants);
        let points = axes.iter().map(BTreeSet::len).product::<usize>();
        for case in &cases {
            prop_assert_eq!(case.points.len(), points);
            let ids: BTreeSet<_> = case.points.iter().map(|point| &point.point_id).collect();
            prop_assert_eq!(ids.len(), points);
        }
        let ids: BTreeSet<_> = cases.iter().map(|case| &case.case_id).collect();
        prop_assert_eq!(ids.len(), cases.len());
    }
}

#[test]
fn the_header_of_sessions_is_set_by_no_target() {
    let sessions = "lengths: N(480,240)/(300,150)\n  sessions: {turns: 2, header: x-session-id}\n";
    let talks = replace_part(SERVING, "lengths: N(480,240)/(300,150)\n", sessions);
    let on = |header: &str| {
        let target = format!("{{name: sim, kind: endpoint, url: \"http://127.0.0.1:1\", headers: {{{header}: {{value: a}}}}}}");
        replace_part(&replace_part(PIPELINE, "[stream]", "[chat]"), "{name: here, kind: host}", &target)
    };
    assert_snapshot!(refusal(&on("X-Session-Id"), &[&talks]), @r#"
    error: the header `x-session-id` names the session of each request of the workload `chat`
     --> pipeline.yaml:7:72
      |
    7 |     - {name: sim, kind: endpoint, url: "http://127.0.0.1:1", headers: {X-Session-Id: {value: a}}}
      |                                                                        ^^^^^^^^^^^^
    hint: remove it here, or take another name for `sessions.header`
    "#);
    assert_eq!(refusal(&on("X-Session"), &[&talks]), "no problem");
}

#[test]
fn several_replicas_are_not_warmed() {
    let warm = replace_part(SERVING, "  slos:", "  cache: warm\n  slos:");
    let on = |replicas: &str| {
        let target = format!("{{name: sim, kind: endpoint, url: \"http://127.0.0.1:1\", replicas: [{replicas}]}}");
        replace_part(&replace_part(PIPELINE, "[stream]", "[chat]"), "{name: here, kind: host}", &target)
    };
    let several = on("http://127.0.0.1:2, http://127.0.0.1:3");
    assert!(refusal(&several, &[&warm]).contains("`cache: warm` of the workload `chat` would warm one of several replicas"));
    assert_eq!(refusal(&several, &[SERVING]), "no problem");
    assert_eq!(refusal(&on("http://127.0.0.1:2"), &[&warm]), "no problem");
}

/// The problems of a realism claim that rests on this many trials of a workload with this load and these sessions.
fn realism(count: u32, load: &str, sessions: &str) -> String {
    let of_load = SERVING.find("  load:").zip(SERVING.find("  lengths:")).map_or("", |(from, to)| &SERVING[from..to]);
    let serving = replace_part(SERVING, of_load, &format!("  load: {{{load}}}\n{sessions}"));
    let text = replace_part(COMPARING, "intent: publication_grade", "intent: realism");
    let text = replace_part(&text, "trials: {count: 7, retry_budget: 0}", &format!("trials: {{count: {count}}}"));
    refusal(&text, &[&serving])
}

#[test]
fn one_trial_is_enough_for_realism_only_if_it_can_have_intervals_within_its_run() {
    let sessions = "  sessions: {turns: 3, think_time: 1s}\n";
    let long = "mode: open, rate: [10], duration: 900s";
    assert_eq!(realism(1, long, sessions), "no problem");
    assert_eq!(realism(1, "mode: closed, concurrency: [4], duration: 15m", sessions), "no problem");
    assert_eq!(realism(3, "mode: open, rate: [10], duration: 10s", ""), "no problem");
    let is_refused = |load: &str, sessions: &str, why: &str| {
        let found = realism(1, load, sessions);
        let message = format!("or one that has intervals within its run: of the workload `chat`, {why}");
        assert!(
            found.contains(&message) && found.contains("trials: {count: 1}") && found.contains("hint: write `count: 3` or more"),
            "{found}"
        );
    };
    is_refused(long, "", "requests are not turns of sessions");
    is_refused("mode: open, rate: [10], duration: 899s", sessions, "a trial is not planned to be measured for 900 s");
    // 45 turns, and 9 arrivals.
    is_refused(
        "mode: users, users: [2], rate: [0.05, 1], duration: 900s",
        "  sessions: {turns: 3}\n",
        "a trial has 15 sessions, and 50 are needed",
    );
    is_refused("mode: open, rate: [0.01], duration: 900s", sessions, "a trial has 9 sessions, and 50 are needed");
    // A trial that a number of sessions ends lasts as long as it lasts.
    is_refused("mode: closed, concurrency: [4], sessions: 60", sessions, "a trial is not planned to be measured for 900 s");
}
