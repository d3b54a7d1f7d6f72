use assay_manifest::{Adapter, Digest, Fact};
use assay_probe::Presence;
use assay_stage::Exit;
use serde_json::json;

use super::*;

fn target(name: &str) -> Target {
    let target = json!({
        "name": name, "kind": "endpoint", "command": [], "env": [], "ready_timeout_ns": "1", "hardware": {},
    });
    serde_json::from_value(target).expect("a target")
}

fn listing(models: Result<Vec<&str>, &str>) -> Identity {
    let models = models.map(|models| models.into_iter().map(str::to_owned).collect()).map_err(str::to_owned);
    Identity {
        missing: assay_probe::MissingFacts::default(),
        presence: Presence::Responded,
        version: Fact::unknown("a test"),
        process_start_s: None,
        cache_block_tokens: None,
        pods: None,
        server: Fact::unknown("a test"),
        models,
    }
}

fn refused(asked: &[&str], listed: Vec<&str>) -> Failure {
    check(&target("vllm"), &asked.iter().copied().collect(), &listing(Ok(listed))).expect_err("refused")
}

#[test]
fn every_model_is_on_the_list_where_there_is_one() {
    let check = |asked: &[&str], listed| check(&target("vllm"), &asked.iter().copied().collect(), &listing(listed));
    assert_eq!(check(&["llama"], Ok(vec!["llama", "qwen"])), Ok(()));
    assert_eq!(check(&["llama"], Err("404")), Ok(()), "without a list nothing can be said");
    assert_eq!(check(&[], Ok(vec![])), Ok(()));
}

#[test]
fn a_model_that_is_not_served_is_named_with_those_that_are() {
    let failure = refused(&["llama", "qwen"], vec!["Llama", "qwen"]);
    assert_eq!(failure.exit, Exit::Environment);
    insta::assert_snapshot!(failure, @r"
    error[model_not_served]: target `vllm` does not serve the model `llama`: it lists `Llama`, `qwen`

    hint: write one of the listed names as the workload's `model` or adapter, or start the endpoint with that name (vLLM: `--served-model-name`, `--lora-modules`)
    ");
    insta::assert_snapshot!(refused(&["llama"], vec![]).message, @"target `vllm` does not serve the model `llama`: it lists no model");
    insta::assert_snapshot!(refused(&["llama"], vec!["m"; 12]).message, @"target `vllm` does not serve the model `llama`: it lists `m`, `m`, `m`, `m`, `m`, `m`, `m`, `m`, `m`, `m` and 2 more");
}

#[test]
fn a_target_is_asked_for_the_models_of_its_own_cases() {
    let digest = Digest::compute(b"");
    let artifact = json!({"name": "w", "digest": digest, "size": "0", "media_type": "application/json"});
    let workload = |name: &str, model: Option<&str>| {
        let serving = model.map(|model| json!({
            "api": "chat", "model": model, "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}},
            "exact_output": true, "batch": 1, "body": {}, "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1",
            "cache": "cold_salt", "streaming": true, "continuous_usage": true, "capture": "none", "slos": [], "tokenizer": {"name": "t", "digest": digest},
        }));
        let mut workload = json!({
            "name": name, "workload_type": "serving", "workload_spec_digest": digest, "spec": artifact, "seed": "00", "metrics": [],
        });
        if let Some(serving) = serving {
            workload["serving"] = serving;
        }
        workload
    };
    let case = |workload: &str, target: &str| {
        json!({
            "case_id": format!("{workload}.{target}.default"), "workload": workload, "target": target, "variant": "default",
            "points": [],
        })
    };
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": digest},
        "source": {"kind": "adhoc", "dirty": true, "files_digest": digest},
        "intent": "exploratory", "controls": [], "targets": [], "variants": [],
        "workloads": [workload("chat", Some("llama")), workload("embed", Some("bge")), workload("memory", None)],
        "cases": [case("chat", "a"), case("embed", "b"), case("memory", "a"), case("chat", "b")],
        "trial_policy": {"count": 1, "retry_budget": 0}, "isolation": "none", "placement": "coexist",
        "order": {"seed": "00", "digest": digest}, "trials": [], "unpinned": [], "queries": [],
    });
    let plan: Plan = serde_json::from_value(plan).expect("a plan");
    let of = |name| requested_models(&plan, &target(name)).into_iter().collect::<Vec<_>>();
    assert_eq!(of("a"), ["llama"]);
    assert_eq!(of("b"), ["bge", "llama"]);
    assert_eq!(of("c"), Vec::<&str>::new());

    // Requests with adapters name these, of which the model may be one.
    let mut plan = plan;
    let chat = plan.workloads[0].serving.as_mut().expect("it serves");
    chat.adapters = ["llama", "sql"].map(|name| Adapter { name: name.to_owned(), weight: 1.0 }).into();
    let of = |models: BTreeSet<&str>| models.into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(of(requested_models(&plan, &target("b"))), ["bge", "llama", "sql"]);
    assert_eq!(of(base_models(&plan, &target("b"))), ["bge", "llama"]);
    assert_eq!(of(requested_adapters(&plan, &target("b"))), ["sql"]);
    plan.workloads[0].serving.as_mut().expect("it serves").adapters.remove(0);
    assert_eq!(of(requested_models(&plan, &target("a"))), ["sql"], "no request names the model");
    assert_eq!(of(base_models(&plan, &target("a"))), ["llama"]);
}
