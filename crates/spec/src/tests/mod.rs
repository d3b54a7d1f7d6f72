//! Tests over whole definitions: the values that are read, and every problem as a person sees it.

mod agentx;
mod closure;
mod custom_api;
mod expand;
mod freeze;
mod hot_metrics;
mod lengths;
mod pipeline;
mod pod;
mod session_play;
mod tables;
mod token_ids;
mod tokenizer;
mod trust;
mod workload;

use crate::{Definition, Pipeline, Workload, render};

pub(crate) const INDICATOR: &str = "\
apiVersion: assay.dev/v1alpha1
kind: Workload
metadata:
  name: stream
  owner: performance
spec:
  type: indicator
  script: {path: run.sh}
  files: [stream.c]
  prepare:
    command: [cc, -O3, -o, stream, stream.c]
    outputs: [stream]
  parameters:
    ARRAY_MIB: [64, 256]
    THREADS: [1, 2, 4]
    REPS: 20
  metrics:
    - {path: copy.rate, unit: GB/s, better: higher}
    - {path: copy.elapsed, unit: ms, better: lower, primary: false}
  time_limit: 2m
";

pub(crate) const SERVING: &str = "\
apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: chat}
spec:
  type: serving
  model: llama-3.1-8b
  precision: fp8
  protocol: openai_compatible_http
  deployment_model: deployment_per_gpu
  batching_policy: continuous
  stack: vllm
  load:
    mode: open
    rate: [1, 2.5, 10]
    arrival: gamma
    smoothness: 0.5
    duration: 60s
    warmup: 10s
  lengths: N(480,240)/(300,150)
  slos: {ttft: 2s, tpot: 200ms}
";

/// A workload that plays the sessions of a trace at a concurrency.
pub(crate) const TRACE_SESSIONS: &str = "\
apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: agents}
spec:
  type: serving
  model: m
  precision: fp8
  protocol: openai_compatible_http
  deployment_model: unknown
  batching_policy: unknown
  stack: unknown
  api: chat
  load: {mode: closed, concurrency: [8], sessions: 100}
  trace: {path: trace.jsonl, format: weka}
  sessions: {}
";

pub(crate) const PIPELINE: &str = "\
apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {name: nightly}
spec:
  workloads: [stream]
  targets:
    - {name: here, kind: host}
";

pub(crate) const COMPARING: &str = "\
apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata:
  name: release
  description: Compares two versions of the server.
  labels: {team: serving}
spec:
  intent: publication_grade
  workloads: [chat]
  targets:
    - name: old
      kind: process
      command: [vllm, serve]
      url: http://127.0.0.1:8000
      env:
        HF_TOKEN: {from_env: HF_TOKEN}
        WORKERS: 2
      headers:
        Authorization: {from_file: /run/secrets/key}
      ready: {http: /health, timeout: 10m}
      image: registry.example.org/vllm:1.0
      hardware: {gpu_model: H200, gpu_count: 8}
    - name: new
      kind: endpoint
      url: https://example.org/v1
  variants:
    - {name: default}
    - {name: fast, description: With the new kernels.}
  trials: {count: 7, retry_budget: 0}
  placement: alternate
  comparison:
    baseline: {target: old}
    candidate: {target: new, variant: fast}
    variable_under_test: runtime_version
  shards: 2
  pricing: {gpu_hour: 2.5, currency: USD, source: price list, as_of: 2026-11-01}
  claim:
    methodology: As in docs/method.md.
    representative: false
    statement: One machine only.
  controls:
    dedicated_nodes: {declare: The node is reserved.}
    locked_clocks: {require: true}
    fixed_topology: {require: false}
  # The rules.
  gates:
    - {name: latency, metrics: [ttft_ms_p99], budget_pct: 2.5}
  stages:
    - {name: plan}
    - {name: provision, timeout: 1h}
    - name: execute
      image: registry.example.org/assay:1
      resources: {cpu: 500m, memory: 2Gi}
      placement: {node_selector: {kubernetes.io/arch: amd64}}
      retries: 0
    - {name: collect}
    - {name: reduce}
    - {name: publish}
  schedule: {cron: 0 2 * * *, timezone: Europe/Berlin}
  publish: {queries: [queries/latency.sql], branch: numbers, folder: release}
  fetch: {allow: [example.org]}
  time_limit: 12h
";

pub(crate) const TRUST: &str = "\
apiVersion: assay.dev/v1alpha1
kind: TrustPolicy
metadata: {name: ours}
spec:
  signers:
    - name: ci
      key: |
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
        -----END PUBLIC KEY-----
      signs: [source, plan]
      not_before: 2026-01-01T00:00:00Z
      not_after: 2027-01-01T00:00:00Z
";

/// Replaces one part of a text; the part must be there.
pub(crate) fn replace_part(text: &str, part: &str, replacement: &str) -> String {
    assert!(text.contains(part), "{part:?} is in the text");
    text.replacen(part, replacement, 1)
}

/// Returns the problems of a file as a person sees them.
pub(crate) fn problems(text: &str) -> String {
    Definition::parse("a.yaml", text.as_bytes()).map_or_else(|problems| render(&problems), |_| "no problem".to_owned())
}

pub(crate) fn workload(text: &str) -> Workload {
    Workload::parse("workload.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}

pub(crate) fn pipeline(text: &str) -> Pipeline {
    Pipeline::parse("pipeline.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}
