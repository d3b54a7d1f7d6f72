//! A server that sends several tokens in one event, under a workload that does not name its server.

use serde_json::json;

use crate::pipeline::list;
use crate::support::{Fixture, PIPELINE};

#[test]
fn a_server_that_packs_tokens_is_recognised_and_asked_to_count_them() {
    let fixture = Fixture::bare();
    let workload = "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: chat}
spec:
  type: serving
  model: m
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  batching_policy: continuous
  stack: unknown
  load: {mode: closed, concurrency: [1], requests: 5, timeout: 60s}
  lengths: D(20,16)
";
    fixture.write("workloads/chat/workload.yaml", workload);
    let pipeline = "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {name: fixture}
spec:
  intent: exploratory
  workloads: [chat]
  targets:
    - {name: simulator, kind: simulator, config: {profile: instant, model: m, itl_ms: 4, tokens_per_chunk: 4}}
  trials: {count: 1, retry_budget: 50}
";
    fixture.write(PIPELINE, pipeline);
    fixture.commit("a chat");
    fixture.run("one").success();

    let environment = fixture.manifest("one", "provision");
    assert_eq!(environment["body"]["targets"][0]["server"]["value"], json!("assay-simulator"));
    let summary = fixture.manifest("one", "reduce");
    let point = &list(&summary["body"]["points"])[0];
    assert_eq!(point["serving"]["token_sources"], json!({"continuous_usage": "5"}), "{point:#}");
    assert!(list(&point["metrics"]).iter().any(|metric| metric["metric"] == "itl_ms_mean"), "{point:#}");
}
