//! InferenceServices and LLMInferenceServices that another party has brought up: readiness, address, and the reported model and engine.

use std::collections::BTreeMap;

use assay_manifest::InferenceApi;
use serde_json::Value;

use crate::redaction::redact_addresses;

/// The most characters that are kept of one text.
const MAX_TEXT: usize = 500;

/// The state of an InferenceService that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyService {
    /// The URL at which it is reached.
    pub address: String,
    /// The model and engine that it reports, by name of the setting.
    pub settings: BTreeMap<String, String>,
}

/// Returns the kind with the group of its API, because two APIs have a kind of this name.
pub fn inference_kind(api: InferenceApi) -> &'static str {
    match api {
        InferenceApi::Kserve => KSERVE,
        InferenceApi::KserveLlm => KSERVE_LLM,
        InferenceApi::Ome => OME,
    }
}

pub(crate) const KSERVE: &str = "InferenceService.serving.kserve.io";
pub(crate) const KSERVE_LLM: &str = "LLMInferenceService.serving.kserve.io";
pub(crate) const OME: &str = "InferenceService.ome.io";

/// Returns the group and version of the API.
pub fn inference_api(api: InferenceApi) -> &'static str {
    match api {
        InferenceApi::Kserve => "serving.kserve.io/v1beta1",
        InferenceApi::KserveLlm => "serving.kserve.io/v1alpha1",
        InferenceApi::Ome => "ome.io/v1beta1",
    }
}

/// Returns the label selector of the pods of a service. Those of an LLMInferenceService include its scheduler, which decides where
/// requests go.
pub fn inference_pods(api: InferenceApi, name: &str) -> String {
    match api {
        InferenceApi::Kserve => format!("serving.kserve.io/inferenceservice={name}"),
        InferenceApi::KserveLlm => format!("app.kubernetes.io/part-of=llminferenceservice,app.kubernetes.io/name={name}"),
        InferenceApi::Ome => format!("ome.io/inferenceservice={name}"),
    }
}

/// The recorded settings of model and engine, each with its path; of several paths of one setting the first that exists counts.
const SETTINGS: [(&str, &str); 11] = [
    ("model", "/spec/model/name"),
    ("model", "/spec/predictor/model/baseModel"),
    ("storage_uri", "/spec/predictor/model/storageUri"),
    ("storage_uri", "/spec/predictor/model/storage/path"),
    ("storage_uri", "/spec/model/uri"),
    ("model_format", "/spec/predictor/model/modelFormat/name"),
    ("model_format_version", "/spec/predictor/model/modelFormat/version"),
    ("protocol_version", "/spec/predictor/model/protocolVersion"),
    ("runtime", "/spec/runtime/name"),
    ("runtime", "/spec/predictor/model/runtime"),
    ("deployment_mode", "/status/deploymentMode"),
];

/// Reads a service, or says why it is not ready.
pub fn read_service(service: &Value) -> Result<ReadyService, String> {
    let status = &service["status"];
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(ready) = conditions.iter().find(|condition| condition["type"] == "Ready") else {
        return Err("it has no condition `Ready` yet".to_owned());
    };
    if ready["status"] != "True" {
        let part = |name: &str| redacted_text(&ready[name]).filter(|text| !text.is_empty());
        let why = [part("reason"), part("message")].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let state = text(&ready["status"]).unwrap_or_else(|| "unknown".to_owned());
        return Err(format!("its condition `Ready` is {state}{}{why}", if why.is_empty() { "" } else { ": " }));
    }
    let (seen, generation) = (status["observedGeneration"].as_i64(), service["metadata"]["generation"].as_i64());
    if let (Some(seen), Some(generation)) = (seen, generation)
        && seen < generation
    {
        return Err("its controller has not seen its last change yet".to_owned());
    }
    let address = text(&status["address"]["url"]).or_else(|| text(&status["url"]));
    let address = address.or_else(|| text(&status["addresses"][0]["url"]));
    let address = address
        .filter(|url| is_address(url))
        .ok_or("it is ready, but gives no address in `status.address.url`, `status.url` or `status.addresses`")?;
    let mut settings = BTreeMap::new();
    for (name, path) in SETTINGS {
        if let Some(value) = service.pointer(path).and_then(redacted_text) {
            settings.entry(name.to_owned()).or_insert(value);
        }
    }
    Ok(ReadyService { address: address.trim_end_matches('/').to_owned(), settings })
}

/// Returns a text of a foreign object in the form in which a message or report may show it.
fn text(value: &Value) -> Option<String> {
    value.as_str().map(printable_text)
}

/// Returns the same text without those parts of its addresses that may be a key.
fn redacted_text(value: &Value) -> Option<String> {
    value.as_str().map(|text| printable_text(&redact_addresses(text, "")))
}

fn printable_text(text: &str) -> String {
    text.chars().take(MAX_TEXT).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Returns true if the URL has no credentials and fits into a request line.
fn is_address(url: &str) -> bool {
    let is_http = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    is_http && url.bytes().all(|byte| byte.is_ascii_graphic()) && !url.contains(['@', '?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(status: &Value) -> Value {
        json!({
            "metadata": {"name": "llama", "generation": 2},
            "spec": {"predictor": {"model": {
                "modelFormat": {"name": "huggingface"}, "storageUri": "hf://meta/llama", "runtime": "kserve-vllm", "args": ["--x"],
            }}},
            "status": status,
        })
    }

    fn ready(more: Value) -> Value {
        let mut status =
            json!({"conditions": [{"type": "PredictorReady", "status": "True"}, {"type": "Ready", "status": "True"}]});
        for (name, value) in more.as_object().cloned().unwrap_or_default() {
            status[name] = value;
        }
        status
    }

    #[test]
    fn one_that_is_ready_says_where_it_is_and_what_it_serves() {
        let found = read_service(&service(&ready(json!({
            "address": {"url": "http://llama-predictor.serving.svc.cluster.local/"}, "url": "http://llama.example.org",
            "observedGeneration": 2,
        }))));
        let found = found.expect("ready");
        assert_eq!(found.address, "http://llama-predictor.serving.svc.cluster.local");
        insta::assert_snapshot!(format!("{:?}", found.settings), @r#"{"model_format": "huggingface", "runtime": "kserve-vllm", "storage_uri": "hf://meta/llama"}"#);
        let only_url = read_service(&service(&ready(json!({"url": "https://llama.example.org"})))).expect("ready");
        assert_eq!(only_url.address, "https://llama.example.org");
        let ome = json!({"spec": {"model": {"name": "llama-3"}, "runtime": {"name": "srt"}}, "status": ready(json!({"url": "http://a"}))});
        insta::assert_snapshot!(format!("{:?}", read_service(&ome).expect("ready").settings), @r#"{"model": "llama-3", "runtime": "srt"}"#);
    }

    #[test]
    fn an_llm_inference_service_is_read_likewise() {
        let llm = json!({
            "spec": {"model": {"uri": "hf://meta/llama", "name": "meta/llama"}, "replicas": 2},
            "status": ready(json!({"addresses": [{"url": "https://gateway.example.org/serving/llama"}]})),
        });
        let found = read_service(&llm).expect("ready");
        assert_eq!(found.address, "https://gateway.example.org/serving/llama");
        insta::assert_snapshot!(format!("{:?}", found.settings), @r#"{"model": "meta/llama", "storage_uri": "hf://meta/llama"}"#);
    }

    #[test]
    fn no_key_of_an_address_is_kept() {
        for (uri, expected) in [
            ("https://u:p@a.blob/models/m?sv=1&sig=hunter2", "https://a.blob/models/m"),
            ("hf://meta/llama:main", "hf://meta/llama:main"),
        ] {
            let mut found = service(&ready(json!({"url": "http://a"})));
            found["spec"]["predictor"]["model"]["storageUri"] = json!(uri);
            assert_eq!(read_service(&found).expect("ready").settings["storage_uri"], expected);
        }
        let long = format!("https://u:{}@h/m", "p".repeat(MAX_TEXT));
        assert_eq!(redacted_text(&json!(long)).as_deref(), Some("https://h/m"));
    }

    #[test]
    fn one_that_is_not_ready_says_why() {
        let why = |status: Value| read_service(&service(&status)).expect_err("not ready");
        insta::assert_snapshot!(why(json!({})), @"it has no condition `Ready` yet");
        let waits =
            json!({"conditions": [{"type": "Ready", "status": "False", "reason": "PredictorNotReady", "message": "no\nGPU"}]});
        insta::assert_snapshot!(why(waits), @"its condition `Ready` is False: PredictorNotReady: no GPU");
        insta::assert_snapshot!(why(json!({"conditions": [{"type": "Ready", "status": "Unknown"}]})), @"its condition `Ready` is Unknown");
        insta::assert_snapshot!(why(ready(json!({"url": "http://a", "observedGeneration": 1}))), @"its controller has not seen its last change yet");
        insta::assert_snapshot!(why(ready(json!({}))), @"it is ready, but gives no address in `status.address.url`, `status.url` or `status.addresses`");
        for bad in ["ftp://a", "http://u:p@a", "http://a b", "http://a/?k=v", "a", ""] {
            assert!(read_service(&service(&ready(json!({"url": bad})))).is_err(), "{bad}");
        }
        for odd in [json!(null), json!(1), json!({"conditions": {}}), json!({"conditions": [1, {"type": 2}]})] {
            assert!(read_service(&service(&odd)).is_err(), "{odd}");
        }
    }
}
