//! The fictional run: a nightly comparison of huge pages on one GPU machine, with an indicator and an inference endpoint. Its
//! preparation failed, so a person cancelled it and rebooted the machine; the resumed run continued in a second incarnation of
//! its only block. One trial took three attempts.

use assay_envelope::{
    Predicate, Provenance, ResourceDescriptor, SignedManifest, TestResult, VerificationResult, VerificationSummary,
    predicate_type, sign,
};
use assay_manifest::{
    Body, Calibration, CalibrationReference, Checkpoint, Collection, Digest, Environment, ExecutionPart, Fact, ForeignEvidence,
    ForeignVerdict, InputRef, Instant, Kind, Manifest, Plan, Publication, Recording, RunEnd, RunId, SearchResult, ShardCount,
    Source, SourceFile, Summary, Tombstone, Verdict,
};
use serde_json::{Value, json};

use crate::keys;

/// A signed manifest and the name of its files.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) signed: SignedManifest,
}

const RUN: &str = "nightly-20261120-0200";
const REPOSITORY: &str = "https://git.example.org/team/benchmarks.git";
/// 2026-11-20T02:00:00Z, the slot of the schedule.
const BEGIN_UNIX_SECONDS: i64 = 1_795_140_000;
const PLACES: [(&str, &str); 2] = [("memory-bandwidth", "node-a"), ("chat-8b", "vllm")];
const VARIANTS: [&str; 2] = ["default", "huge-pages"];
const TRIALS: u32 = 3;

/// All examples, each made from the previous ones.
pub(crate) fn examples() -> Vec<Example> {
    let source = seal(&[], source(), 0);
    let plan_body = plan();
    let plan_digest = plan_body.digest().expect("a digest");
    let plan = seal(&[&source], plan_body, 1);
    let first = seal(&[&plan], environment(plan_digest, 0), 3);
    let prepared = seal(&[&plan, &first], prepared_checkpoint(plan_digest), 5);
    let stack = seal(&[&plan, &first], stack_checkpoint(plan_digest), 6);
    let checkpoint = seal(&[&plan, &first], checkpoint(plan_digest), 9);
    let end = seal(&[&plan, &first], run_end(), 12);
    let environment = seal(&[&plan], environment(plan_digest, 1), 603);
    let part = seal(&[&plan, &environment], execution_part(plan_digest, checkpoint.input_ref()), 650);
    let recording = seal(&[&plan, &environment], recording(plan_digest), 651);
    let evidence = [&plan, &first, &environment, &part, &recording];
    let collection = seal(&evidence, collection(plan_digest, part.manifest_digest), 652);
    let summary_body = summary(plan_digest, collection.manifest_digest);
    let summary = seal(&[&plan, &first, &environment, &collection], summary_body, 654);
    let chain = [&source, &plan, &first, &environment, &part, &recording, &collection, &summary];
    let publication = seal(&chain, publication(plan_digest, summary.manifest_digest), 655);
    let tombstone = seal(&[&publication], tombstone(), 90_000);
    let verdict = sign_verdict(&summary, verdict(summary.input_ref()));
    let calibration = seal(&[&part], calibration(part.manifest_digest), 700);
    let foreign_evidence = seal(&[], foreign_evidence(), 800);
    let search_result = seal(&[&publication], search_result(publication.manifest_digest), 900);
    let foreign_verdict = seal(&[&foreign_evidence], foreign_verdict(foreign_evidence.input_ref()), 950);
    let named = [
        ("source", source),
        ("plan", plan),
        ("environment", environment),
        ("environment-first", first),
        ("checkpoint", checkpoint),
        ("checkpoint-prepared", prepared),
        ("checkpoint-stack", stack),
        ("run_end", end),
        ("execution_part", part),
        ("recording", recording),
        ("collection", collection),
        ("summary", summary),
        ("publication", publication),
        ("verdict", verdict),
        ("tombstone", tombstone),
        ("calibration", calibration),
        ("foreign_evidence", foreign_evidence),
        ("search_result", search_result),
        ("foreign_verdict", foreign_verdict),
    ];
    named.map(|(name, signed)| Example { name, signed }).into()
}

fn run_id() -> RunId {
    RunId::new(RUN).expect("a run id")
}

fn at(milliseconds: u32) -> Instant {
    Instant::from_unix_ns(BEGIN_UNIX_SECONDS * 1_000_000_000 + i64::from(milliseconds) * 1_000_000)
}

/// The digest of bytes that only these examples use.
fn digest(text: &str) -> Digest {
    Digest::compute(text.as_bytes())
}

/// Forty hexadecimal digits, like a Git object id.
fn oid(text: &str) -> String {
    digest(text).hex()[..40].to_owned()
}

fn artifact(name: &str, size: u32, media_type: &str) -> Value {
    json!({"name": name, "digest": digest(name), "size": size.to_string(), "media_type": media_type})
}

fn body<B: Body>(value: Value) -> B {
    serde_json::from_value(value).unwrap_or_else(|error| panic!("the body of the {}: {error}", B::KIND))
}

/// A part of a body.
fn body_part<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_else(|error| panic!("a part of a body: {error}"))
}

/// Signs a body as its stage does, with fixed times: started `second` seconds into the run, finished half a second later.
fn seal<B: Body>(inputs: &[&SignedManifest], body: B, second: u32) -> SignedManifest {
    let inputs: Vec<InputRef> = inputs.iter().map(|signed| signed.input_ref()).collect();
    let manifest = Manifest::new(run_id(), inputs, body);
    sign(&manifest, &keys::signer(B::KIND.signer()), predicate(B::KIND, second)).expect("signed")
}

/// Signs a verdict as the gate does.
fn sign_verdict(summary: &SignedManifest, verdict: Verdict) -> SignedManifest {
    let manifest = Manifest::new(run_id(), vec![summary.input_ref()], verdict);
    let result = TestResult::from_verdict(&manifest.body);
    sign(&manifest, &keys::signer(Kind::Verdict.signer()), result).expect("signed")
}

fn predicate(kind: Kind, second: u32) -> Predicate {
    let role = kind.signer();
    let (started, finished) = (at(second * 1_000), at(second * 1_000 + 500));
    if predicate_type(kind) == assay_envelope::VERIFICATION_SUMMARY {
        return VerificationSummary {
            verifier_binary: digest("assay-publish"),
            verifier_image: None,
            time_verified: finished,
            resource_uri: format!("assay:runs/{RUN}"),
            policy: ("trust.yaml".into(), Digest::compute(keys::trust_yaml().as_bytes())),
            input_attestations: vec![],
            result: VerificationResult::Passed,
            levels: vec!["ASSAY_LEVEL_1".into()],
        }
        .into();
    }
    Provenance {
        role,
        run_id: run_id(),
        external_parameters: json!({"run_id": RUN, "stage": role, "parameters": {"pipeline": "pipelines/nightly.yaml"}}),
        internal_parameters: json!({"shard": {"index": 0, "count": 1}}),
        resolved_dependencies: vec![
            ResourceDescriptor::git_commit(format!("git+{REPOSITORY}"), oid("commit")),
            ResourceDescriptor::from_name("pipelines/nightly.yaml", digest("files/pipelines/nightly.yaml")),
        ],
        builder_binary: digest(&format!("assay-{role}")),
        builder_version: "0.1.0".into(),
        invocation_id: format!("{RUN}/{role}-{second}"),
        started_on: started,
        finished_on: finished,
    }
    .into()
}

fn source_files() -> Vec<SourceFile> {
    let file = |path: &str, size: u32, executable: bool| {
        let artifact = artifact(&format!("files/{path}"), size, "application/octet-stream");
        serde_json::from_value(json!({"path": path, "executable": executable, "artifact": artifact})).expect("a file")
    };
    vec![
        file("pipelines/nightly.yaml", 1_906, false),
        file("workloads/memory-bandwidth/workload.yaml", 1_071, false),
        file("workloads/memory-bandwidth/run.sh", 146, true),
        file("workloads/memory-bandwidth/bandwidth.c", 8_873, false),
        file("workloads/chat-8b/workload.yaml", 902, false),
        file("queries/headline.sql", 411, false),
        file("benchmarks/job.yaml", 733, false),
    ]
}

/// The Source of a run of `benchmarks/job.yaml` as it is.
fn source() -> Source {
    let object = |kind: &str, size: u32| {
        let oid = oid(kind);
        let artifact = artifact(&format!("objects/{oid}"), size, "application/octet-stream");
        json!({"oid": oid, "kind": kind, "artifact": artifact})
    };
    body(json!({
        "kind": "git",
        "repository": REPOSITORY,
        "commit": oid("commit"),
        "ref": "refs/heads/main",
        "dirty": false,
        "objects": [object("commit", 351), object("tree", 363)],
        "pipeline": "pipelines/nightly.yaml",
        "files": source_files(),
        "import": {"file": "benchmarks/job.yaml", "format": "ome-benchmarkjob", "version": "0.1.0"},
        "files_digest": Source::digest_of_files(&source_files()),
    }))
}

fn controls() -> Value {
    json!([
        {"control": "dedicated_nodes", "state": "declared", "evidence": "the node is drained before the slot"},
        {"control": "fixed_topology", "state": "proved", "evidence": "one host, the same GPU in every trial"},
        {"control": "locked_clocks", "state": "absent", "evidence": "CPU governor schedutil"},
        {"control": "stable_background", "state": "declared", "evidence": "no other jobs on the node"},
    ])
}

fn pricing() -> Value {
    json!({"gpu_hour": 2.49, "currency": "EUR", "source": "https://prices.example.org/gpu", "as_of": "2026-11-01"})
}

fn image() -> Value {
    json!({"reference": "registry.example.org/team/vllm:0.11", "digest": digest("image")})
}

fn pinned(path: &str, origin: &str, size: u32, executable: bool) -> Value {
    let artifact = artifact(&format!("workloads/{origin}"), size, "application/octet-stream");
    json!({"path": path, "origin": origin, "executable": executable, "artifact": artifact})
}

fn workloads() -> Value {
    let spec = |name: &str, size: u32| artifact(&format!("workloads/{name}/spec.json"), size, "application/json");
    json!([
        {
            "name": "memory-bandwidth",
            "owner": "performance",
            "labels": {"layer": "micro"},
            "workload_type": "indicator",
            "workload_spec_digest": spec("memory-bandwidth", 762)["digest"],
            "spec": spec("memory-bandwidth", 762),
            "seed": digest("seed of memory-bandwidth").hex(),
            "metrics": [
                {"path": "triad_mb_per_s", "unit": "MB/s", "better": "higher", "primary": true},
                {"path": "copy_mb_per_s", "unit": "MB/s", "better": "higher", "primary": false},
            ],
            "indicator": {
                "output": "google-benchmark",
                "script": pinned("run.sh", "memory-bandwidth/run.sh", 146, true),
                "files": [pinned("bandwidth.c", "memory-bandwidth/bandwidth.c", 8_873, false)],
                "parameters": {"REPS": "7", "SIZE_MIB": "64"},
                "prepare": {
                    "command": ["cc", "-O3", "-pthread", "-o", "bandwidth", "bandwidth.c"],
                    "outputs": ["bandwidth"],
                    "time_limit_ns": "60000000000",
                },
                "time_limit_ns": "60000000000",
            },
        },
        {
            "name": "chat-8b",
            "workload_type": "serving",
            "workload_spec_digest": spec("chat-8b", 640)["digest"],
            "spec": spec("chat-8b", 640),
            "seed": digest("seed of chat-8b").hex(),
            "metrics": [{"path": "ttft_ms_p99", "unit": "ms", "better": "lower", "primary": true}],
            "dimensions": {
                "model": "chat-8b", "precision": "fp8", "protocol": "openai_compatible_http", "deployment_model": "deployment_per_gpu",
                "batching_policy": "continuous", "stack": "vllm",
            },
            "image": image(),
            "serving": serving_work(),
        },
        {
            "name": "count-words",
            "workload_type": "indicator",
            "workload_spec_digest": spec("count-words", 118)["digest"],
            "spec": spec("count-words", 118),
            "seed": digest("seed of count-words").hex(),
            "metrics": [{"path": "cpu_time_ms", "unit": "ms", "better": "lower", "primary": true}],
            "indicator": {
                "command": {"run": ["./words", "4000"], "times": 3, "warmup": 1, "instructions": "cachegrind"},
                "files": [],
                "parameters": {},
                "time_limit_ns": "60000000000",
            },
        },
        {
            "name": "chat-8b-asked",
            "workload_type": "serving",
            "workload_spec_digest": spec("chat-8b-asked", 530)["digest"],
            "spec": spec("chat-8b-asked", 530),
            "seed": digest("seed of chat-8b-asked").hex(),
            "metrics": [],
            "serving": dataset_work(),
            "search": {
                "manifest": artifact("workloads/chat-8b-asked/search_result.json", 9_411, "application/json"),
                "bundle": artifact("workloads/chat-8b-asked/search_result.sigstore.json", 3_204, "application/json"),
            },
        },
    ])
}

/// Returns the counts of the turns of a trace.
fn turns_of_a_trace() -> Value {
    json!({
        "think_time": {"turns": "1204", "sum_ns": "15652000000000", "cut": "9", "cut_ns": "880000000000"},
        "tool_time": {"turns": "480", "sum_ns": "960000000000", "cut": "2", "cut_ns": "31000000000"},
        "without_end": "12", "overlapping": "4", "branches": "7", "subagents": "16", "subagent_requests": "88",
        "roles": {"messages": "5120", "system_tokens": "9830400", "user_tokens": "6220800", "assistant_tokens": "2457600", "cut": "12"},
        "forks": {"subagents": "31", "turns": "204", "joined": "27", "duplicates": "1", "most_streams": 5, "times": "session"},
        "beyond_blocks": "901", "whole_blocks": "200", "partial_blocks": "882",
    })
}

/// The work of `chat-8b` with the prompts of a dataset.
fn dataset_work() -> Value {
    let mut work = serving_work();
    let of = |name: &str, bytes: u32, media_type: &str| {
        artifact(&format!("workloads/chat-8b-asked/dataset/{name}"), bytes, media_type)
    };
    work["prompts"] = json!({
        "from": "dataset", "file": pinned("prompts.jsonl", "chat-8b-asked/prompts.jsonl", 1_204_551, false), "format": "jsonl",
        "rows": of("rows.jsonl", 1_190_210, "application/jsonl"), "index": of("rows.index", 39_907, "application/octet-stream"),
        "summary": {
            "read": "2000", "rows": "1994", "sessions": "310", "without_prompt": "2", "too_long": "4", "truncated": "0", "whole_bodies": "1",
            "input_tokens": {"least": 4, "most": 4096, "sum": "412118"}, "recorded_outputs": "1990",
            "output_tokens": {"least": 1, "most": 1024, "sum": "391002"}, "without_response": "0", "too_many_turns": "3",
            "times": {
                "span_ns": "3599000000000", "busiest_second": "12", "outside_window": "0", "not_sampled": "0", "gaps_cut": "3",
                "cut_ns": "41000000000", "turns": turns_of_a_trace(),
            },
            "blocks": {"tokens": 512, "distinct": "1310", "rows_without": "11", "reused_tokens": "206848"},
            "unread": {"rows": "3", "names": ["hash_id"]},
        },
        "max_output_tokens": 1024,
    });
    work["tokenizer"] = json!({"name": "common-words", "digest": digest("common-words")});
    for member in ["output", "image_files"] {
        work.as_object_mut().expect("an object").remove(member);
    }
    work
}

/// The work of `chat-8b`. The length of a query is there for its form, as are times and blocks of the dataset above: only APIs that rerank documents have one.
fn serving_work() -> Value {
    json!({
        "api": "chat", "model": "chat-8b", "arrival": {"law": "closed"},
        "prompts": {"from": "synthetic", "input": {"law": "lognormal", "mean": 480.0, "stddev": 240.0}, "query": {"law": "paired", "values": [{"tokens": 32, "weight": 3.0}, {"tokens": 64, "weight": 1.0}]},
            "prefix": {"system": 1000, "groups": 64, "group": 200, "zipf": 1.0}},
        "sessions": {"turns": {"law": "uniform", "min": 2, "max": 8}, "think_time": {"law": "exponential", "mean_ns": "2000000000"},
            "history": "recorded", "reasoning": "drop", "count": "100",
            "play": {"recycle": true, "start": {"from": 0.25, "to": 0.75}, "warm_history": true, "idle_cap_ns": "10000000000", "marker": true}}, "session_header": "x-session-id", "adapters": [{"name": "sql", "weight": 3.0}, {"name": "chat", "weight": 1.0}], "scenario": "agentx", "output": {"law": "fixed", "tokens": 128},
        "rate_profile": {"profile": "series", "segments": [{"duration_ns": "30000000000", "per_s": 4.0}, {"duration_ns": "30000000000", "per_s": 8.5}]},
        "max_concurrency": "64", "over_saturation": {"in_flight": "512", "for_ns": "2000000000"}, "stop_on_errors": {"count": "100", "recent": {"share": 0.5, "of_last": "20"}}, "cancel": {"share": 0.1, "after_ns": "500000000"}, "connections": "sticky", "text": "natural", "token_ids": {"from": "range", "least": 1000, "most": 31999}, "images": {"width": 512, "height": 256, "count": 2, "format": "jpeg"}, "image_files": {"files": [pinned("images/cat.jpg", "chat-8b/images/cat.jpg", 48_211, false)], "count": 1},
        "custom": {"path": "/generate", "body": {"inputs": "${prompt}", "max_new_tokens": "${output_tokens}"}, "text": "generated.0.text",
            "input_tokens": "usage.in", "output_tokens": "usage.out", "finish": "generated.0.reason"},
        "exact_output": true, "continuous_usage": true, "batch": 1, "body": {"temperature": "0"}, "extra_body": {"top_k": 20}, "requests": "500",
        "duration_ns": "60000000000", "warmup_ns": "5000000000", "timeout_ns": "120000000000", "time_limit_ns": "1800000000000",
        "cache": "cold_salt", "streaming": true, "capture": "digest", "slos": [{"metric": "ttft", "at_most_ns": "500000000"}],
        "tokenizer": {
            "name": "tokenizer.json", "digest": digest("workloads/chat-8b/tokenizer.json"),
            "file": pinned("tokenizer.json", "chat-8b/tokenizer.json", 9_085_657, false), "pattern": "o200k_base",
            "template": {
                "usage": "count", "config": pinned("tokenizer_config.json", "chat-8b/tokenizer_config.json", 55_351, false),
                "file": pinned("chat_template.jinja", "chat-8b/chat_template.jinja", 4_614, false), "tokens": 36,
            },
        },
    })
}

/// The results of one shard in an attempt of `chat-8b`.
fn serving_outcome(id: &str, number: u32, begin: u32) -> Value {
    json!({
        "schedule_digest": digest(&format!("schedule of {id}")), "start": at(begin), "measured_from_ns": "5000000000",
        "measured_to_ns": "65000000000", "outcomes": {"ok": "498", "timeout": "2"}, "warmup_outcomes": {"ok": "40"},
        "input_tokens": "239311", "output_tokens": "68864", "chunk_lists": "all",
        "client": {
            "lateness_p50_ns": "21000", "lateness_p99_ns": "140000", "lateness_max_ns": "910000", "loop_busy_p99_ns": "80000",
            "loop_stall_max_ns": "1200000", "loop_late_ns": "31000000", "judged_ns": "60000000000", "late_reads": "2", "judged_token_events": "61440", "ttft_p99_ns": "48000000", "e2e_p99_ns": "912000000", "late_requests": "4", "late_request_share": 0.008,
            "ttft_p99_delay_ns": "90000", "e2e_p99_delay_ns": "120000", "run_delay_ns": "21000000", "interruptions": "1", "resends": "2", "cpu_user_us": "310000", "cpu_system_us": "540000", "cgroup_throttled_us": "0",
            "cpu_pressure_us": "650000", "cpu_pressure": 0.01, "full_reads": "3", "starved": "0", "requested_rate_per_s": 8.3,
            "sent_rate_per_s": 8.3, "connections": "8", "events": "68900",
        },
        "cache_flushed": "/reset_prefix_cache", "warmed_turns": "8", "idle_cut_ns": "1500000000",
        "clock": {"source": "kernel", "offset_ns": "0", "uncertainty_ns": "0", "no_exchange": "shard 0 was not reached"},
        "records": artifact(&format!("trials/{id}/{number}/0/records.parquet"), 611_204, "application/vnd.apache.parquet"),
    })
}

/// The cross-checks of the attempts: each two attempts lie between the same two readings.
fn cross_checks(attempts: &[Value]) -> Value {
    let served: Vec<_> = attempts.iter().filter(|attempt| !attempt["serving"].is_null()).collect();
    let named = |attempts: &[&Value]| -> Vec<Value> {
        attempts.iter().map(|found| json!({"trial_id": found["trial_id"], "attempt": found["attempt"]})).collect()
    };
    let mut checks: Vec<_> = served
        .chunks(2)
        .map(|pair| {
            let client = 538 * pair.len();
            json!({
                "block": block(1), "attempts": named(pair), "what": "requests", "counter": "vllm:request_success_total",
                "client": client.to_string(), "endpoint": (client + 1).to_string(), "outcome": "agrees",
                "detail": format!("{client} requests succeeded and 4 others may have been counted; the counter grew by {}", client + 1),
            })
        })
        .collect();
    let reason = "the endpoint's chat template may add tokens";
    checks.push(json!({
        "block": block(1), "attempts": named(&served), "what": "input_tokens", "client": "275456", "outcome": "not_compared",
        "reason": reason, "detail": format!("not compared, because {reason}"),
    }));
    json!(checks)
}

fn serving_point() -> Value {
    json!({
        "requests": "1500", "outcomes": {"ok": "1494", "http_error": "4", "timeout": "2"},
        "failures": [
            {"outcome": "http_error", "http_status": 503, "message": "the engine is overloaded", "count": "4"},
            {"outcome": "timeout", "message": "the request's timeout", "count": "2"},
        ],
        "excluded_outcomes": {"ok": "480", "timeout": "20"},
        "adapters": {"sql": {"requests": "1125", "latencies": {"ttft": {"n": "1120", "p50_ms": 48.25, "p99_ms": 95.5}}}, "chat": {"requests": "375"}}, "sessions": {"begun": "300", "complete": "291", "failed": "2"}, "warmed_turns": "24", "idle_cut_ns": "4500000000",
        "agentx": {"agentx_rules_met": false, "reasons": [{"code": "seed", "detail": "the seed is not 42, which the recipe of InferenceX draws by"}]},
        "duration_ns": "180000000000", "slo_met": true,
        "token_sources": {"continuous_usage": "1494", "unknown": "6"}, "usage_faults": {"output_exceeds_limit": "6"}, "tpot_assumed": "0",
        "cost_absent": "the number of GPUs is unknown",
        "absent": {"e2e_ms_p99_with_failures": "the rank falls on a failed request"}, "latency_from": "sent",
    })
}

fn targets() -> Value {
    json!([
        {
            "name": "node-a", "kind": "host", "command": [], "env": [], "ready_timeout_ns": "0",
            "hardware": {"memory": "12 x 64 GiB DDR5-5600"},
            "folder": "builds/candidate", "working_directory": "/srv/words",
        },
        {
            "name": "vllm",
            "kind": "process",
            "url": "http://127.0.0.1:8000",
            "command": ["vllm", "serve", "chat-8b", "--port", "8000"],
            "env": [
                {"name": "VLLM_LOGGING_LEVEL", "value": "WARNING"},
                {"name": "HF_TOKEN", "from_env": "HF_TOKEN"},
                {"name": "VLLM_API_KEY", "from_file": "/run/secrets/vllm-api-key"},
            ],
            "headers": [{"name": "authorization", "from_env": "VLLM_AUTHORIZATION", "scheme": "Bearer"}],
            "insecure_skip_tls_verify": true,
            "tls": {
                "ca": {"name": "ca", "from_file": "/etc/certs/ca.pem"},
                "client": {"cert": {"name": "cert", "from_env": "CLIENT_CERT"}, "key": {"name": "key", "from_env": "CLIENT_KEY"}},
            },
            "replicas": ["http://10.0.0.1:8000", "http://10.0.0.2:8000"],
            "config": {"profile": "h100-8b"},
            "ready_http": "/health",
            "ready_timeout_ns": "300000000000",
            "image": image(),
            "hardware": {},
            "software": {"cuda": "13.0"},
            "place": {"region": "eu-north", "node_pool": "h200"},
            "cpus": "0-47",
            "artifacts": ["models/chat-8b"],
        },
        {
            "name": "pair",
            "kind": "objects",
            "url": "http://pair:8000",
            "command": [],
            "env": [],
            "objects": [{
                "path": "targets/pair.yaml", "origin": "targets/pair.yaml", "executable": false,
                "artifact": artifact("targets/pair/targets/pair.yaml", 1_204, "application/octet-stream"),
            }],
            "ready_timeout_ns": "300000000000",
            "hardware": {},
        },
        {
            "name": "served",
            "kind": "inference_service",
            "command": [],
            "env": [],
            "inference_service": {"api": "kserve", "name": "chat-8b", "namespace": "serving", "path": "/openai"},
            "ready_timeout_ns": "300000000000",
            "hardware": {},
        },
    ])
}

/// The names of each case: workload, target, variant, and its point.
fn cases() -> impl Iterator<Item = (String, &'static str)> {
    PLACES.into_iter().flat_map(|(workload, target)| {
        let point = if workload == "chat-8b" { "c8" } else { "t8" };
        VARIANTS.into_iter().map(move |variant| (format!("{workload}.{target}.{variant}"), point))
    })
}

fn case(id: &str, point: &str) -> Value {
    let names: Vec<_> = id.split('.').collect();
    let point = match point {
        "c8" => json!({
            "point_id": point, "kind": "concurrency", "value": {"concurrency": "8"}, "load_recipe_digest": digest("load recipe"),
        }),
        _ => json!({"point_id": point, "kind": "parameters", "value": {"THREADS": "8"}}),
    };
    json!({"case_id": id, "workload": names[0], "target": names[1], "variant": names[2], "points": [point]})
}

/// Every planned trial in order: id, case, point, index.
fn trials() -> Vec<(String, String, &'static str, u32)> {
    let trial = |index| move |(case, point)| (format!("{case}.{point}.t{index}"), case, point, index);
    (0..TRIALS).flat_map(|index| cases().map(trial(index))).collect()
}

fn plan() -> Plan {
    let trials: Vec<_> = trials()
        .into_iter()
        .map(|(id, case, point, index)| json!({"trial_id": id, "case_id": case, "point_id": point, "index": index, "block": 0}))
        .collect();
    body(json!({
        "pipeline": {
            "name": "nightly", "path": "pipelines/nightly.yaml", "digest": digest("files/pipelines/nightly.yaml"),
            "owner": "performance", "labels": {"cadence": "nightly"},
        },
        "source": {
            "kind": "git", "repository": REPOSITORY, "commit": oid("commit"), "dirty": false,
            "files_digest": Source::digest_of_files(&source_files()),
        },
        "intent": "publication",
        "claim": {
            "methodology": "Three interleaved trials of each side on one drained node.",
            "representative": false,
            "statement": "Stands for this node model and this kernel; not for other memory configurations.",
        },
        "controls": controls(),
        "pricing": pricing(),
        "workloads": workloads(),
        "targets": targets(),
        "variants": [
            {"name": "default", "env": []},
            {
                "name": "huge-pages",
                "env": [{"name": "GLIBC_TUNABLES", "value": "glibc.malloc.hugetlb=1"}],
                "python": {
                    "lock": pinned("stacks/numpy.txt", "stacks/numpy.txt", 812, false),
                    "packages": [
                        {"name": "numpy", "version": "2.1.0"},
                        {"name": "colorama", "version": "0.4.6", "marker": "sys_platform == 'win32'"},
                    ],
                    "installer": "pip",
                    "interpreter": "python3",
                },
            },
        ],
        "telemetry": [
            {"name": "node-a", "scrape": "http://node-a:9100/metrics"},
            {"name": "gpus", "nvidia_smi": true},
            {"name": "spans", "otlp": "127.0.0.1:4318"},
            {"name": "job", "sacct": "command"},
            {"name": "fleet", "prometheus": {
                "url": "https://prometheus:9090",
                "headers": [{"name": "authorization", "from_env": "PROMETHEUS_TOKEN", "scheme": "Bearer"}],
                "insecure_skip_tls_verify": true,
                "tls": {"ca": {"name": "ca", "from_file": "/etc/assay/ca.pem"}},
                "match": {"cluster": ["a"]},
                "packs": [{
                    "name": "fabric",
                    "digest": digest("telemetry/fabric.yaml"),
                    "file": pinned("telemetry/fabric.yaml", "telemetry/fabric.yaml", 410, false),
                    "exporter": "the exporter of the switches",
                    "resolution_ns": "5000000000",
                    "queries": [{
                        "name": "switch_port_errors_total",
                        "query": "switch_port_errors_total{tier=\"leaf\"}",
                        "kind": "counter",
                        "unit": "1/s",
                        "fold": "sum",
                        "per": "lane",
                        "scope_kind": "node",
                        "scope_labels": ["switch"],
                        "labels": ["port"],
                        "joins": {"gpu_uuid": "gpu", "node_name": "host", "pod_uid": "pod_uid"},
                        "missing": "this Prometheus does not scrape the switches",
                    }],
                }],
            }},
        ],
        "cases": cases().map(|(id, point)| case(&id, point)).collect::<Vec<_>>(),
        "trial_policy": {
            "count": TRIALS, "retry_budget": 2, "rebuilds": 3, "validity": {
                "lateness_p99_ns": "10000000", "stall_ns": "200000000", "delay_share": 0.05, "sent_share": 0.98, "throttled_share": 0.01,
                "steal_share": 0.01, "softirq_share": 0.1, "pressure_share": 0.3, "retransmit_share": 0.001,
                "reason": "TTFT is below 40 ms, of which a delay of 25 ms would be most",
            },
        },
        "isolation": "none",
        "placement": "coexist",
        "comparison": {
            "baseline": {"target": "node-a", "variant": "default"},
            "candidate": {"target": "node-a", "variant": "huge-pages"},
            "variable_under_test": "other",
            "other": "huge pages for malloc",
        },
        "load_cpus": "48-95",
        "order": {"seed": digest("order").hex(), "digest": digest("ordered trials")},
        "trials": trials,
        "unpinned": [{"what": "the model `chat-8b`", "reason": "the endpoint does not report the digest of its weights"}],
        "queries": [pinned("headline.sql", "queries/headline.sql", 411, false)],
    }))
}

fn observed(value: impl Into<Value>, how: &str) -> Value {
    json!({"source": "observed", "value": value.into(), "how": how})
}

fn host_facts(boot_id: &str) -> Value {
    json!({
        "boot_id": observed(boot_id, "/proc/sys/kernel/random/boot_id"),
        "operating_system": observed("Debian GNU/Linux 13 (trixie)", "/etc/os-release"),
        "kernel": observed("6.12.48+deb13-amd64", "/proc/sys/kernel/osrelease"),
        "architecture": observed("x86_64", "/proc/sys/kernel/arch"),
        "virtualization": observed("none", "the processor's flags, firmware and container marks"),
        "cpu_vendor": observed("GenuineIntel", "/proc/cpuinfo"),
        "cpu_model": observed("Intel(R) Xeon(R) Platinum 8568Y+", "/proc/cpuinfo"),
        "cpu_signature": observed("6/207/2", "/proc/cpuinfo"),
        "microcode": observed("0x21000291", "/proc/cpuinfo"),
        "cpu_flags": observed(json!(["amx_bf16", "avx512f", "constant_tsc", "sha_ni"]), "/proc/cpuinfo"),
        "sockets": observed(2, "/sys/devices/system/cpu"),
        "cores": observed(96, "/sys/devices/system/cpu"),
        "logical_cpus": observed(192, "/sys/devices/system/cpu/online"),
        "usable_cpus": observed(16, "Cpus_allowed_list of /proc/self/status"),
        "smt": observed(true, "/sys/devices/system/cpu"),
        "governor": observed(json!(["schedutil"]), "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
        "max_frequency_khz": observed("4000000", "/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq"),
        "boost": observed(true, "/sys/devices/system/cpu/cpufreq/boost"),
        "caches": observed(json!(["L1d 48 KiB x 96", "L2 2 MiB x 96", "L3 300 MiB x 2"]), "cache/index* of every CPU"),
        "numa": observed(json!(["0: 0-47,96-143", "1: 48-95,144-191"]), "/sys/devices/system/node"),
        "memory_bytes": {"source": "declared", "value": "824633720832", "how": "`hardware` of the target `node-a`"},
        "swap_bytes": observed("0", "/proc/meminfo"),
        "huge_pages": observed("madvise", "/sys/kernel/mm/transparent_hugepage/enabled"),
        "cgroup_cpu_millis": observed("16000", "/sys/fs/cgroup/cpu.max"),
        "cgroup_memory_bytes": {"source": "unknown", "how": "no memory limit is set in `/sys/fs/cgroup` or above it"},
        "clock_source": observed("tsc", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "clock_synchronised": observed(true, "timedatectl"),
        "gpus": observed(json!([{
            "uuid": "GPU-5c3f1f3e-1c2d-4e5f-8a9b-0c1d2e3f4a5b", "model": "NVIDIA H200", "memory_bytes": "150754820096",
            "driver_version": "580.95.05", "pci_bus_id": "00000000:1A:00.0", "clocks": "not locked",
        }]), "nvidia-smi"),
        "network_cards": observed(json!([{"name": "eth0", "driver": "mlx5_core", "speed_mbps": 100_000, "mtu": 9_000}]),
            "/sys/class/net"),
    })
}

fn block(incarnation: u32) -> Value {
    json!({"index": 0, "incarnation": incarnation})
}

/// The first block's Environment holds the shard count of the run.
fn environment(plan: Digest, incarnation: u32) -> Environment {
    let shards = (incarnation == 0).then(shards);
    let calibration = (incarnation == 0).then(calibration_reference);
    Environment { shards, calibration, ..environment_of_any_block(plan, incarnation) }
}

fn calibration_reference() -> Fact<CalibrationReference> {
    body_part(json!({
        "source": "observed",
        "how": "the newest calibration of the store",
        "value": {
            "manifest": digest("calibration.json"), "bundle": digest("calibration.sigstore.json"), "calibrated_at": at(0),
            "ceilings": [{"unit": "concurrency", "amount": 4096, "at_least": true}],
        },
    }))
}

/// The attempt that it names is one of an endpoint of this run: the documents of a calibration's own runs have the same form.
fn calibration(part: Digest) -> Calibration {
    let facts: Value = host_facts("3f0c9f0a-6f0e-4a55-9d43-0f6c1f9f7a11");
    let of_machine: assay_manifest::HostFacts = body_part(facts.clone());
    let error = |p50: &str, p99: &str| json!({"n": "480", "p50_ns": p50, "p99_ns": p99, "max_ns": "2100000"});
    let level = |unit: &str, amount: u32, missed: Value| {
        let served = attempts().into_iter().find_map(|attempt| attempt["serving"].as_object().cloned());
        json!({
            "unit": unit, "amount": amount, "run_id": RUN, "part": part, "trial_id": "chat-8b.vllm.default.c8.t0", "attempt": 0,
            "measured_ns": "3000000000", "requests": "480", "ttft_error": error("41000", "310000"),
            "itl_error": error("9000", "120000"), "events_per_s": 2560.5, "client": served.expect("served")["client"], "missed": missed,
            "records": artifact(&format!("levels/{unit}-{amount}/records.parquet"), 48_000, "application/vnd.apache.parquet"),
            "truth": artifact(&format!("levels/{unit}-{amount}/truth.jsonl"), 96_000, "application/jsonl"),
        })
    };
    let late = json!([{"code": "lateness", "detail": "the p99 of lateness was 12.00 ms (limit 10 ms)"}]);
    body(json!({
        "calibrated_at": at(690_000),
        "machine": of_machine.machine_digest().expect("a digest"),
        "facts": facts,
        "load_generator": digest("assay-execute"),
        "allowed_cpus": "0-47",
        "simulator": {"program": digest("assay-simulator"), "settings": ["--profile=instant", "--itl-ms=20"], "allowed_cpus": "0-47"},
        "open_streams": "19488",
        "limits": {"ttft_error_p99_ns": "10000000", "itl_error_p99_ns": "10000000", "lateness_p99_ns": "10000000"},
        "levels": [level("concurrency", 64, json!([])), level("requests_per_s", 1000, late)],
        "key": artifact("keys/calibrate.pub", 178, "application/x-pem-file"),
    }))
}

fn foreign_evidence() -> ForeignEvidence {
    let row = |metric: &str, statistic: &str, unit: &str, value: f64| json!({"metric": metric, "statistic": statistic, "unit": unit, "value": value, "labels": {"concurrency": "2"}});
    body(json!({
        "imported_at": at(800_000),
        "format": "benchmark-report",
        "format_version": "0.2",
        "tool": "vllm",
        "tool_version": "0.13.0",
        "importer": {"version": "0.1.0", "program": digest("assay")},
        "files": [{
            "path": "report.json", "part": "report", "artifact": artifact("files/0000", 20_948, "application/octet-stream"),
        }],
        "rows": [row("icl_ms", "p99", "ms", 4.2), row("benchmark-report.ttft", "count", "1", 8.0)],
        "samples": {
            "rows": "8", "units": {"benchmark-report.ttft": "ms"}, "artifact": artifact("samples.jsonl", 4_011, "application/jsonl"),
        },
        "not_read": [{"field": "input_config", "why": "the configuration, which is no result", "count": "31"}],
        "left_out": [{"field": "inputs.json", "why": "the file is of no format that is read", "count": "1"}],
        "remarks": ["`report.json`: of `icl_ms`, its p50 is 4.3 ms, and its p99 is 4.2 ms"],
        "key": artifact("keys/import.pub", 178, "application/x-pem-file"),
    }))
}

/// Its candidate is another import of the same form as the one of these examples.
fn foreign_verdict(evidence: InputRef) -> ForeignVerdict {
    let piece = |name: &str, evidence: InputRef| {
        json!({
            "name": name, "evidence": evidence, "format": "benchmark-report", "format_version": "0.2", "tool": "vllm", "tool_version": "0.13.0", "imported_at": at(800_000),
            "signer": "local-import", "established": true,
        })
    };
    let other = InputRef { manifest: digest("foreign evidence of the candidate"), bundle: digest("its bundle"), ..evidence };
    let number = |metric: &str, statistic: &str, unit: &str| json!({"metric": metric, "labels": {"concurrency": "2"}, "statistic": statistic, "unit": unit});
    body(json!({
        "about": ForeignVerdict::ABOUT,
        "advisory": true,
        "contract": "assay-foreign-gate/2",
        "gate": "peers",
        "outcome": "inconclusive",
        "blocks": false,
        "reasons": [{"code": "inconclusive", "detail": "`icl_ms` (p99) of concurrency=2: there is 1 pair of pieces, and the rules need at least 6"}],
        "rules": {
            "path": "peers.yaml", "digest": digest("rules/peers.yaml"), "q": 0.05, "budget": 0.05, "metrics": ["icl_ms_p99"],
            "block_on_inconclusive": false, "allow_foreign": false,
        },
        "baseline": [piece("before-1", evidence)],
        "candidate": [piece("after-1", other)],
        "pairing": "names",
        "judged_on": at(950_000),
        "differences": [{"what": "tool_version", "baseline": "0.13.0", "candidate": "0.14.0"}],
        "remarks": ["no trust policy names the importer of after-1"],
        "metrics": [{
            "number": number("icl_ms", "p99", "ms"), "better": "lower", "primary": true, "outcome": "inconclusive",
            "reason": {"code": "too_few_pieces", "detail": "there is 1 pair of pieces, and the rules need at least 6"},
            "baseline": [4.2], "candidate": [4.5], "missing": 0,
            "change": {
                "ratio": 1.0714, "level": 0.95, "baseline_median": 4.2, "candidate_median": 4.5, "p_worse": 0.5, "p_better": 1.0,
                "p_unpaired": 1.0,
            },
            "p_worse_adjusted": 1.0, "p_better_adjusted": 1.0, "floor": {"share": 0.02, "source": "unlearned"}, "noise": 0.01,
            "detectable": 0.4, "more_pieces": 5,
        }],
        "not_judged": [{
            "number": number("benchmark-report.ttft", "count", "1"), "baseline_median": 8.0, "candidate_median": 8.0,
            "why": "its statistic is no level of the metric",
        }],
        "not_judged_count": "1",
        "files": [artifact("rules/peers.yaml", 210, "application/yaml")],
    }))
}

/// The round that it names is a run of this example: those of a search have the same form.
fn search_result(publication: Digest) -> SearchResult {
    let load = |amount: f64| json!({"kind": "concurrency", "amount": amount});
    let seen = |amount: f64, good: f64, over_saturated: bool| {
        json!({
            "load": load(amount), "requests": "480", "error_rate": 0.0, "requests_per_s": 12.5, "mean_latency_s": 0.64,
            "good_fraction": good, "over_saturated": over_saturated,
        })
    };
    body(json!({
        "ended_at": at(900_000),
        "question": {
            "goal": "max_concurrency", "slos": [{"metric": "ttft", "at_most_ns": "200000000"}], "share": 0.99, "precision": 0.05,
            "max_concurrency": 1024,
        },
        "work": {
            "model": "chat-8b", "spec": digest("spec without load"), "target": digest("target"), "endpoint": "http://chat-8b.example.org",
        },
        "rounds": [{"run_id": RUN, "publication": publication, "observations": [seen(8.0, 1.0, false), seen(9.0, 0.5, true)]}],
        "end": {
            "outcome": "found", "bracket": {"meets": load(8.0), "falls_short": load(9.0), "crossing": 8.02}, "load": load(8.0),
        },
        "grid": [load(8.0), load(9.0)],
        "landmarks": {"idle": load(1.0), "knee": load(8.0), "limit": load(9.0)},
        "key": artifact("keys/source.pub", 178, "application/x-pem-file"),
    }))
}

fn shards() -> ShardCount {
    let asked = cases()
        .find(|(_, point)| *point == "c8")
        .map(|(case, point)| json!({"case_id": case, "point_id": point, "unit": "concurrency", "amount": 8}));
    body_part(json!({
        "shards": 1,
        "formula": "shards: 1 = ceil(concurrency 8 / (0.5 * 2048))",
        "requested": [asked],
        "ceiling": {
            "source": "observed",
            "how": "measured on such a machine before",
            "value": {
                "concurrency": 2048, "requests_per_s": 16_000, "events_per_s": 102_400, "cached": true, "measured_at": at(0),
                "fingerprint": digest("fingerprint"), "program": digest("program"), "cpu_millis": "500", "node": "node-b",
            },
        },
    }))
}

fn environment_of_any_block(plan: Digest, incarnation: u32) -> Environment {
    let boot_id = ["3f0c9f0a-6f0e-4a55-9d43-0f6c1f9f7a11", "b1d5a4f2-3c77-4bb8-8a53-6f3a5d1f2e90"][incarnation as usize];
    body(json!({
        "plan_digest": plan,
        "block": block(incarnation),
        "observed_at": at(3_200 + incarnation * 600_000),
        "hosts": [{"name": "node-a", "roles": ["target", "client", "stage"], "facts": host_facts(boot_id)}],
        "software": [
            {"name": "cc", "version": observed("cc (Debian 14.2.0-19) 14.2.0", "cc --version")},
            {"name": "nccl", "version": {"source": "unknown", "how": "not installed"}},
        ],
        "targets": [
            {
                "id": "node-a", "kind": "host", "hosts": ["node-a"], "models": [], "probes": [],
                "version": {"source": "unknown", "how": "a target of kind `host` gives no version"},
            },
            {
                "id": "vllm",
                "kind": "process",
                "hosts": ["node-a"],
                "address": "http://127.0.0.1:8000",
                "version": observed("0.11.0", "GET /version"),
                "server": observed("vllm", "GET /v1/models"),
                "executables": [
                    {"role": "program", "path": "/usr/bin/python3.13", "digest": digest("python3.13")},
                    {"role": "artifact", "path": "models/chat-8b", "unpinned": "it is larger than what is hashed"},
                ],
                "allowed_cpus": "0-47",
                "core_cpus": "0-47",
                "models": ["chat-8b"],
                "image": image(),
                "probes": [{"request": "GET /health", "ready": true, "response": "200", "waited_ns": "41250000000"}],
            },
            {
                "id": "served",
                "kind": "inference_service",
                "hosts": ["node-a"],
                "address": "http://chat-8b-predictor.serving.svc.cluster.local/openai",
                "version": {"source": "unknown", "how": "GET /version: 404 Not Found"},
                "models": ["chat-8b"],
                "process_start_s": "1763596800",
                "cache_block_tokens": 16,
                "replicas": [{
                    "address": "http://10.0.0.1:8000", "pod": "chat-8b-predictor-5d9c7b6f4-x2k8p",
                    "version": observed("0.11.0", "GET /version"), "models": ["chat-8b"],
                    "process_start_s": "1763596790",
                }],
                "pods": [{
                    "name": "chat-8b-predictor-5d9c7b6f4-x2k8p", "uid": "0f6b1f0e-7d0a-4f57-9a63-2f1d5c8e9b10", "node": "node-a",
                    "ready": true, "role": "decode", "containers": [{
                        "name": "kserve-container", "image": image(), "command": ["--model_name=chat-8b", "--api-key", "***"],
                        "env": ["HF_TOKEN"], "limits": {"nvidia.com/gpu": "1"}, "restarts": 0,
                    }],
                }],
                "pod_selector": {"namespace": "serving", "labels": "serving.kserve.io/inferenceservice=chat-8b"},
                "settings": {"model_format": "huggingface", "storage_uri": "hf://team/chat-8b"},
                "probes": [],
            },
        ],
        "controls": controls(),
        "placement": {"cluster": "kubernetes"},
        "readings": [artifact("readings/nvidia-smi.xml", 18_204, "application/xml")],
    }))
}

fn host_state(milliseconds: u32) -> Value {
    json!({
        "at": at(milliseconds),
        "load_1m": 1.25,
        "memory_available_bytes": "790273982464",
        "cpu_busy_us": (80_000_000 + u64::from(milliseconds) * 8_000).to_string(),
        "cpu_steal_us": "0",
        "cpu_softirq_us": (200_000 + u64::from(milliseconds) * 20).to_string(),
        "cpu_total_us": (900_000_000 + u64::from(milliseconds) * 48_000).to_string(),
        "own_cpu_us": (70_000_000 + u64::from(milliseconds) * 7_900).to_string(),
        "cgroup_throttled_us": "0",
        "cpu_pressure_us": (1_500_000 + u64::from(milliseconds) * 10).to_string(),
        "cgroup_pressure_us": (500_000 + u64::from(milliseconds) * 4).to_string(),
        "tcp_sent_segments": (40_000 + u64::from(milliseconds)).to_string(),
        "tcp_retransmitted_segments": "3",
        "tcp_receive_drops": "0",
        "frequencies_khz": ["3800000", "3799000"],
        "temperatures_millicelsius": {"coretemp/Package id 0": 51_000},
    })
}

fn usage() -> Value {
    let mut usage = json!({
        "utime_us": "1402512", "stime_us": "75758", "maxrss_kib": "198148", "minflt": "49319", "majflt": "1", "inblock": "248",
        "oublock": "8", "nvcsw": "3", "nivcsw": "8",
    });
    for unused in ["ixrss", "idrss", "isrss", "nswap", "msgsnd", "msgrcv", "nsignals"] {
        usage[unused] = json!("0");
    }
    usage
}

fn window(begin: u32, milliseconds: u32) -> Value {
    json!({
        "start": at(begin),
        "end": at(begin + milliseconds),
        "duration_ns": (u64::from(milliseconds) * 1_000_000 + 137).to_string(),
    })
}

/// The start of an attempt, in milliseconds of the run: two seconds after the previous one.
fn begin(place: usize) -> u32 {
    610_000 + u32::try_from(place).expect("few") * 2_000
}

/// The place of a pod on node-a.
fn place(pod: &str) -> Value {
    json!({
        "node": "node-a", "pod": pod, "pod_uid": "0d0f7c2e-7a43-4a39-9b62-64c6a5f4f2b1",
        "job_uid": "9c1b6d7e-2f0a-4c58-8a55-1f6c3d2e4b90",
    })
}

/// An attempt with a result.
fn attempt(trial: usize, number: u32, begin: u32) -> Value {
    let (id, case, point, _) = trials().swap_remove(trial);
    let file = |name: &str, size| artifact(&format!("trials/{id}/{number}/{name}"), size, "application/octet-stream");
    let mut attempt = json!({
        "trial_id": id,
        "case_id": case,
        "point_id": point,
        "attempt": number,
        "window": window(begin, 1_480),
        "place": place("nightly-execute-3f0c9f0a-0-x7k2p"),
        "status": "completed",
        "validity": {"valid": true, "reasons": []},
        "host_before": host_state(begin - 10),
        "host_after": host_state(begin + 1_490),
        "evidence": [file("stdout", 569), file("stderr", 0)],
    });
    if point == "t8" {
        attempt["indicator"] = json!({
            "script_sha256": digest("workloads/memory-bandwidth/run.sh"),
            "exit_code": 0,
            "usage": usage(),
            "leftovers": 0,
            "parameters": {"REPS": "7", "SIZE_MIB": "64", "THREADS": "8"},
            "name": "memory-bandwidth",
            "component": "assay-indicators",
            "executables": [{"role": "interpreter", "path": "/usr/bin/dash", "digest": digest("dash")}],
        });
    } else {
        attempt["serving"] = serving_outcome(&id, number, begin);
        attempt["allowed_cpus"] = json!("48-95");
    }
    attempt
}

fn invalidated(mut attempt: Value, status: &str, code: &str, detail: &str) -> Value {
    attempt["status"] = json!(status);
    attempt["validity"] = json!({"valid": false, "reasons": [{"code": code, "detail": detail}]});
    attempt
}

/// The very first attempt, in the first incarnation: it never ran.
fn not_prepared() -> Value {
    let why = "`cc` ended with exit code 1: no space left on device";
    let mut attempt = invalidated(attempt(0, 0, NOT_PREPARED_BEGIN), "not_prepared", "not_prepared", why);
    for absent in ["indicator", "serving", "host_before", "host_after"] {
        attempt.as_object_mut().expect("an object").remove(absent);
    }
    attempt["window"] = window(NOT_PREPARED_BEGIN, 0);
    attempt["evidence"] = json!([]);
    attempt
}

/// A trial of the indicator that was stopped at its time limit, then gave no result, then a good one.
fn troubled_attempts(trial: usize) -> [Value; 3] {
    let mut stopped = invalidated(attempt(trial, 0, begin(20)), "timed_out", "time_limit", "stopped after 60 s");
    let outcome = stopped["indicator"].as_object_mut().expect("an indicator");
    outcome.remove("exit_code");
    outcome.insert("signal".into(), json!(9));
    outcome.insert("leftovers".into(), json!(1));
    let mut malformed = invalidated(attempt(trial, 1, begin(21)), "malformed", "malformed", "stdout is not one JSON document");
    malformed["indicator"]["malformed"] = json!("expected `{` at line 1, column 1");
    [stopped, malformed, attempt(trial, 2, begin(22))]
}

const NOT_PREPARED_BEGIN: u32 = 8_000;
/// Trial 1 of `memory-bandwidth.node-a.default`.
const TROUBLED: usize = 4;

fn attempts() -> Vec<Value> {
    let of = |trial: usize| match trial {
        0 => vec![not_prepared(), attempt(0, 1, begin(0))],
        TROUBLED => troubled_attempts(trial).to_vec(),
        _ => vec![attempt(trial, 0, begin(trial))],
    };
    (0..trials().len()).flat_map(of).collect()
}

fn prepared() -> Value {
    let file = |name: &str, size| artifact(&format!("prepared/memory-bandwidth/{name}"), size, "application/octet-stream");
    json!({
        "workload": "memory-bandwidth", "succeeded": true, "exit_code": 0,
        "outputs": [file("stdout", 0), file("stderr", 0), file("files/bandwidth", 17_200)],
    })
}

fn failed_preparation() -> Value {
    let file = |name: &str, size| artifact(&format!("prepared/memory-bandwidth/{name}"), size, "text/plain");
    json!({
        "workload": "memory-bandwidth", "succeeded": false, "exit_code": 1,
        "failure": "`cc` ended with exit code 1", "outputs": [file("stdout", 0), file("stderr", 88)],
    })
}

fn checkpoint_of(plan: Digest, step: &str, what: Value) -> Checkpoint {
    let mut checkpoint = json!({
        "plan_digest": plan, "block": block(0), "shard": {"index": 0, "count": 1}, "input_digest": digest("input of execute"),
    });
    checkpoint[step] = what;
    body(checkpoint)
}

fn checkpoint(plan: Digest) -> Checkpoint {
    checkpoint_of(plan, "attempt", not_prepared())
}

fn prepared_checkpoint(plan: Digest) -> Checkpoint {
    checkpoint_of(plan, "prepared", failed_preparation())
}

/// Returns the packages of the variant `huge-pages`, with this further member.
fn installed_stack(name: &str, value: Value) -> Value {
    let file = |name: &str, size| artifact(&format!("stacks/huge-pages/{name}"), size, "application/octet-stream");
    let lock = pinned("stacks/numpy.txt", "stacks/numpy.txt", 812, false)["artifact"]["digest"].clone();
    let mut stack = json!({
        "variant": "huge-pages", "lock": lock, "packages": [], "installer": "pip 23.2.1", "python": "CPython 3.11.7",
        "outputs": [file("install/stdout", 311), file("install/stderr", 0)],
    });
    stack[name] = value;
    stack
}

fn stack_checkpoint(plan: Digest) -> Checkpoint {
    let failure =
        json!({"code": "stack_not_installed", "detail": "`python3 -m pip install` of the installation ended with exit code 1"});
    checkpoint_of(plan, "stack", installed_stack("failure", failure))
}

fn run_end() -> RunEnd {
    body(json!({
        "state": "cancelled", "stage": "execute", "reason": {"code": "interrupt", "detail": "SIGINT"},
        "exit_code": 50, "sequence": 0, "input_digest": digest("input of execute"),
    }))
}

fn tombstone() -> Tombstone {
    body(json!({
        "sequence": 0, "scope": "evidence", "reason": "older than a year", "by": "operator", "removed_at": at(90_000_000),
        "kinds": [
            {"kind": "records", "count": "6", "bytes": "48213"}, {"kind": "logs", "count": "4", "bytes": "1207"},
            {"kind": "recordings", "count": "2", "bytes": "464312"},
        ],
        "list": artifact("removed.json", 2_718, "application/json"),
    }))
}

fn execution_part(plan: Digest, resumed: InputRef) -> ExecutionPart {
    let serving = trials().into_iter().filter(|(_, _, point, _)| *point == "c8");
    let schedules = serving.map(|(id, ..)| {
        let schedule = digest(&format!("schedule of {id}"));
        (id, json!(schedule))
    });
    body(json!({
        "plan_digest": plan,
        "block": block(1),
        "shard": {"index": 0, "count": 1},
        "schedule_digests": schedules.collect::<serde_json::Map<_, _>>(),
        "prepared": [prepared()],
        "stacks": [installed_stack("packages", json!([{"name": "numpy", "version": "2.1.0"}]))],
        "attempts": attempts(),
        "resumed": [resumed],
    }))
}

fn gap() -> Value {
    json!({"source": "vllm", "window": window(617_000, 2_000), "reason": "`/metrics` did not respond within 1 s"})
}

fn recording(plan: Digest) -> Recording {
    let series = |source: &str, samples: &str, size| {
        let artifact = artifact(&format!("recordings/0-1-0/{source}.jsonl"), size, "application/jsonl");
        json!({"source": source, "samples": samples, "artifact": artifact})
    };
    body(json!({
        "plan_digest": plan,
        "block": block(1),
        "sequence": 0,
        "place": place("nightly-record-b1d5a4f2-q9d4z"),
        "window": window(604_000, 46_000),
        "interval_ns": "1000000000",
        "series": [series("host", "47", 53_980), series("vllm", "45", 410_332)],
        "gaps": [gap()],
    }))
}

fn collection(plan: Digest, part: Digest) -> Collection {
    let attempts = attempts();
    let collected = |attempt: &Value| {
        let late = attempt["window"]["start"] == json!(at(begin(3)));
        let incarnation = u32::from(attempt["status"] != "not_prepared");
        json!({
            "attempt": attempt["attempt"], "block": block(incarnation), "shard": {"index": 0, "count": 1}, "part": part,
            "counted": attempt["validity"]["valid"], "samples": "2", "gaps": if late { json!([gap()]) } else { json!([]) },
        })
    };
    let trial = |id: &str| {
        let own: Vec<_> = attempts.iter().filter(|attempt| attempt["trial_id"] == id).map(collected).collect();
        json!({"trial_id": id, "counted": own.iter().any(|attempt| attempt["counted"] == true), "attempts": own})
    };
    body(json!({
        "plan_digest": plan,
        "trials": trials().iter().map(|(id, ..)| trial(id)).collect::<Vec<_>>(),
        "cross_checks": cross_checks(&attempts),
        "drift": [{
            "what": "boot_id", "before": block(0), "after": block(1),
            "detail": "`node-a` had 3f0c9f0a-6f0e-4a55-9d43-0f6c1f9f7a11, then b1d5a4f2-3c77-4bb8-8a53-6f3a5d1f2e90",
        }],
        "evidence": artifact("evidence.json", 7_310, "application/json"),
        "evidence_count": "33",
        "evidence_bytes": "489122",
    }))
}

const TROUBLED_CASE: &str = "memory-bandwidth.node-a.default";

/// The number of the attempt that counts for a trial.
fn counted(case: &str, index: u32) -> u32 {
    match (case, index) {
        (TROUBLED_CASE, 0) => 1,
        (TROUBLED_CASE, 1) => 2,
        _ => 0,
    }
}

/// A metric over the three trials of a case, whose values are `step` apart around `median`.
fn metric(case: &str, point: &str, (name, unit, better): (&str, &str, Option<&str>), median: f64, step: f64) -> Value {
    let row = |what: &str| digest(&format!("row {case} {point} {name} {what}"));
    let trials = (0..TRIALS).map(|index| {
        json!({
            "trial_id": format!("{case}.{point}.t{index}"), "attempt": counted(case, index), "n": "7", "flagged": false,
            "value": median + step * (f64::from(index) - 1.0), "row_id": row(&format!("t{index}")),
        })
    });
    let rows: serde_json::Map<_, _> = ["median", "mean", "sd", "cv", "min", "max"]
        .map(|statistic| (statistic.to_owned(), json!(row(statistic))))
        .into_iter()
        .collect();
    let mut metric = json!({
        "metric": name, "unit": unit, "primary": better.is_some(), "n": TRIALS.to_string(), "median": median, "mean": median,
        "sd": step, "cv": step / median, "min": median - step, "max": median + step, "stability": "stable",
        "stability_reason": "the trials differ by less than 5 % of their median", "rows": rows, "trials": trials.collect::<Vec<_>>(),
    });
    match better {
        Some(better) => {
            metric["better"] = json!(better);
            // The example of a load has an interval within run, so that every field is in one.
            let (method, kind) =
                if name == "ttft_ms" { ("cluster_ratio", "within_run") } else { ("order_statistic", "between_trials") };
            metric["interval"] =
                json!({"low": median - step, "high": median + step, "level": 0.75, "method": method, "kind": kind});
            if name == "ttft_ms" {
                metric["interval"]["sessions"] = json!("60");
            }
        }
        None => metric["interval_absent"] = json!("the metric is not declared, so it is shown without a judgement"),
    }
    metric
}

fn point(case: &str, point: &str) -> Value {
    let indicator = point == "t8";
    let workload = if indicator { "memory-bandwidth" } else { "chat-8b" };
    let metrics = if indicator {
        vec![
            metric(case, point, ("triad_mb_per_s", "MB/s", Some("higher")), 212_400.0, 850.0),
            metric(case, point, ("threads", "unknown", None), 8.0, 0.0),
        ]
    } else {
        vec![metric(case, point, ("ttft_ms", "ms", Some("lower")), 84.5, 1.25)]
    };
    let excluded = |trial: u32, attempt: u32, code: &str, detail: &str| {
        let reasons = json!([{"code": code, "detail": detail}]);
        json!({"trial_id": format!("{case}.{point}.t{trial}"), "attempt": attempt, "reasons": reasons})
    };
    let excluded = [
        excluded(0, 0, "not_prepared", "`cc` ended with exit code 1: no space left on device"),
        excluded(1, 0, "time_limit", "stopped after 60 s"),
        excluded(1, 1, "malformed", "stdout is not one JSON document"),
    ];
    let excluded = if case == TROUBLED_CASE { excluded.to_vec() } else { vec![] };
    let mut summary = json!({
        "case_id": case,
        "point_id": point,
        "workload_type": if indicator { "indicator" } else { "serving" },
        "workload_spec_digest": digest(&format!("workloads/{workload}/spec.json")),
        "value": if indicator { json!({"THREADS": "8"}) } else { json!({"concurrency": "8"}) },
        "trials_planned": TRIALS,
        "trials_counted": TRIALS,
        "attempts": TRIALS as usize + excluded.len(),
        "excluded": excluded,
        "metrics": metrics,
    });
    if !indicator {
        summary["serving"] = serving_point();
    }
    summary
}

/// All loads of a case, as if it had more than one: a number and a bracket, so that every field is in one, though a Summary has one of them.
fn all_loads(case: &str) -> Value {
    let crossings = (0..TRIALS).map(|index| json!({"index": index, "place": "within", "load": 7.0 + f64::from(index)}));
    let mut metric = metric(case, "all-loads", ("max_load", "sessions", Some("higher")), 8.0, 1.0);
    metric["primary"] = json!(false);
    for trial in metric["trials"].as_array_mut().into_iter().flatten() {
        (trial["attempt"], trial["n"]) = (json!(0), json!("300"));
    }
    json!({
        "case_id": case,
        "point_id": "all-loads",
        "workload_spec_digest": digest("workloads/chat-8b/spec.json"),
        "load": "concurrency",
        "unit": "sessions",
        "crossings": crossings.collect::<Vec<_>>(),
        "bracket": {"meets": 4.0, "falls_short": 16.0},
        "metrics": [metric],
    })
}

fn summary(plan: Digest, collection: Digest) -> Summary {
    let file = |table: &str, rows: &str, size| {
        let artifact = artifact(&format!("rows/{table}.parquet"), size, "application/vnd.apache.parquet");
        json!({"table": table, "rows": rows, "artifact": artifact})
    };
    body(json!({
        "plan_digest": plan,
        "artifact_manifest_digest": collection,
        "reduce_binary": digest("assay-reduce"),
        "status": "succeeded",
        "issues": [{"code": "drift", "detail": "boot_id of `node-a` differs between incarnations 0 and 1 of block 0"}],
        "points": cases().map(|(case, name)| point(&case, name)).collect::<Vec<_>>(),
        "all_loads": cases().filter(|(_, name)| *name == "c8").map(|(case, _)| all_loads(&case)).collect::<Vec<_>>(),
        "energy": cases().filter(|(_, name)| *name == "c8").map(|(case, point)| json!({
            "case_id": case, "point_id": point, "source": "prometheus/fleet", "boundary": "gpu", "method": "counter", "objects": "8",
            "attempts": "5", "joules_per_output_token": 0.75, "joules_per_request": 96.5,
        })).collect::<Vec<_>>(),
        "files": [
            file("software_version_dim", "1", 6_263),
            file("hardware_topology_dim", "1", 12_339),
            file("cluster_region_dim", "1", 4_254),
            file("workload_dim", "2", 9_539),
            file("artifact_lineage_dim", "2", 10_663),
            file("outcome_fact", "60", 22_752),
            file("benchmark_run_fact", "4", 24_101),
        ],
        "views": artifact("views.json", 61_004, "application/json"),
    }))
}

fn publication(plan: Digest, summary: Digest) -> Publication {
    let cases: Vec<_> = cases().map(|(case, _)| case).collect();
    let trust_policy = Digest::compute(keys::trust_yaml().as_bytes());
    body(json!({
        "plan_digest": plan,
        "summary": summary,
        "trust_policy": trust_policy,
        "published_at": at(655_200),
        "grade": {
            "requested": "publication",
            "given": "realism",
            "shortfalls": [{"rule": "pinned", "found": "the model `chat-8b` is not pinned"}],
            "declared": ["stable_background"],
        },
        "runs": [
            {"run_id": RUN, "cases": cases, "outcome": "this"},
            {"run_id": "nightly-20261119-0200", "cases": cases, "outcome": "cancelled", "evidence": digest("another run_end.json")},
        ],
        "warehouse_snapshot": {"benchmark_run_fact": "41", "outcome_fact": "41"},
        "queries": [{
            "path": "queries/latency.sql",
            "digest": digest("queries/latency.sql"),
            "rows": "6",
            "result": artifact("results/queries/latency.csv", 1_204, "text/csv"),
        }],
        "numbers": artifact("numbers.json", 18_926, "application/json"),
        "reports": [artifact("report.md", 11_049, "text/markdown"), artifact("report.html", 82_210, "text/html")],
        "keys": [
            {"name": "trust.yaml", "digest": trust_policy, "size": keys::trust_yaml().len().to_string(), "media_type": "application/yaml"},
        ],
    }))
}

/// The candidate has a tenth less bandwidth, which a person accepted; the latency of the endpoint is inconclusive.
fn verdict(summary: InputRef) -> Verdict {
    let rules = |path: &str, size: u32| artifact(&format!("rules/{path}"), size, "application/yaml");
    let (pipeline, accepted) = (rules("pipelines/nightly.yaml", 1_906), rules("pipelines/acks/huge-pages.yaml", 412));
    body(json!({
        "contract": "assay-gate/11",
        "gate": "bandwidth",
        "outcome": "inconclusive",
        "blocks": false,
        "reasons": [{"code": "inconclusive", "detail": "so few pairs could not have found a change of this metric alone, of any size"}],
        "policy": {
            "path": "pipelines/nightly.yaml",
            "digest": pipeline["digest"],
            "commit": oid("main"),
            "q": 0.05,
            "looks": [0.5, 0.5],
            "budget": 0.05,
            "metrics": [],
            "block_on_inconclusive": false,
            "slo": true,
            "provenance": true,
            "max_error_rate": 0.01,
            "max_output_drift": 0.05,
        },
        "comparison": {
            "baseline": {"target": "node-a", "variant": "default"},
            "candidate": {"target": "node-a", "variant": "huge-pages"},
            "variable_under_test": "other",
            "other": "huge pages",
        },
        "placement": "coexist",
        "isolation": "none",
        "unit": "launch",
        "runs": [{
            "run_id": RUN,
            "summary": summary,
            "plan_digest": digest("plan"),
            "commit": oid("commit"),
            "tree": oid("tree"),
            "signers": ["collect", "execute", "plan"],
            "established": true,
            "earlier_ends": [{"state": "failed", "stage": "provision", "code": "not_ready"}],
        }],
        "learned": digest("pipelines/noise/bandwidth.json"),
        "sequence": {"name": "pr-17", "look": 2, "earlier": [digest("the first look")]},
        "judged_on": at(700_000),
        "acknowledgements": [{
            "path": "pipelines/acks/huge-pages.yaml",
            "digest": accepted["digest"],
            "case": "memory-bandwidth.node-a.huge-pages",
            "point": "t8",
            "metric": "triad_mb_per_s",
            "accepts": 0.15,
            "of": "pull request 17",
            "applies": true,
            "reason": "the allocator was replaced",
            "approver": "owner",
            "expires": at(86_400_000),
        }],
        "policy_changes": [{"what": "budget_pct", "baseline": "5", "candidate": "20"}],
        "definition_changes": [{"what": "trials", "baseline": "5 of each", "candidate": "2 of each"}],
        "differences": [{"what": "host.governor", "baseline": "performance", "candidate": "powersave"}],
        "checks": [{
            "name": "validity",
            "scope": format!("run {RUN}"),
            "passed": false,
            "blocks": false,
            "detail": "some planned trials have no valid attempt",
        }, {
            "name": "slo",
            "scope": "chat-8b.vllm.huge-pages at c8",
            "passed": false,
            "blocks": true,
            "detail": "the candidate missed its SLOs, and the baseline kept them; `pipelines/acks/slower.yaml` accepts it",
            "acknowledged": "pipelines/acks/slower.yaml",
        }],
        "metrics": [accepted_metric(), undecided_metric()],
        "files": [pipeline, accepted],
    }))
}

fn pairs(values: [[f64; 2]; 2]) -> Vec<Value> {
    let pair = |(index, [baseline, candidate]): (usize, [f64; 2])| json!({"run": 0, "index": index, "baseline": baseline, "candidate": candidate});
    values.into_iter().enumerate().map(pair).collect()
}

fn accepted_metric() -> Value {
    json!({
        "workload": "memory-bandwidth",
        "point_id": "t8",
        "metric": "triad_mb_per_s",
        "unit": "MB/s",
        "better": "higher",
        "primary": true,
        "outcome": "regressed",
        "reason": {"code": "acknowledged", "detail": "`pipelines/acks/huge-pages.yaml` accepts it: the allocator was replaced"},
        "pairs": pairs([[200_000.0, 180_000.0], [201_000.0, 181_000.0]]),
        "missing": 1,
        "change": {
            "ratio": 0.9,
            "low": 0.89,
            "high": 0.91,
            "level": 0.95,
            "baseline_median": 200_500.0,
            "candidate_median": 180_500.0,
            "p_worse": 0.0002,
            "p_better": 0.9999,
            "p_unpaired": 0.0004,
        },
        "p_worse_adjusted": 0.0004,
        "p_better_adjusted": 1.0,
        "floor": {"share": 0.0, "source": "unlearned"},
        "noise": 0.01,
        "detectable": 0.08,
        "acknowledged": "pipelines/acks/huge-pages.yaml",
    })
}

fn undecided_metric() -> Value {
    json!({
        "workload": "chat-8b",
        "point_id": "c8",
        "metric": "ttft_ms_p99",
        "unit": "ms",
        "better": "lower",
        "primary": true,
        "outcome": "inconclusive",
        "reason": {"code": "underpowered", "detail": "so few pairs could not have found a change of this metric alone, of any size"},
        "pairs": pairs([[410.0, 431.5], [402.25, 398.0]]),
        "missing": 1,
        "p_worse_adjusted": 1.0,
        "p_better_adjusted": 1.0,
        "more_pairs": 9,
    })
}
