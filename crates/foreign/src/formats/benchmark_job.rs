//! OME's BenchmarkJob, `ome.io/v1beta1`.

use serde_json::{Value, json};

use crate::document::{Rule, WHOLE, docs, map_fields, rule};
use crate::draft::{Member, member};
use crate::format::{Example, ExampleInput, FieldDoc, Format, Reader};
use crate::genai::{GenaiFields, GenaiLoad};
use crate::load::plain_label;
use crate::mapping::{Mapping, NAMED_BY_OPTION};
use crate::value::{at, is_credential, shown_name, slug, text, whole};
use crate::yaml::{Comments, Node, write};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "ome-benchmarkjob",
    title: "an OME BenchmarkJob",
    versions: "of OME's charts up to v0.1.5",
    recognised_by: "`apiVersion: ome.io/v1beta1`, `kind: BenchmarkJob`",
    examples: &[
        Example { name: "service", input: ExampleInput::File(include_str!("examples/service.yaml")), options: "" },
        Example { name: "endpoint", input: ExampleInput::File(include_str!("examples/endpoint.yaml")), options: "" },
        Example { name: "embeddings", input: ExampleInput::File(include_str!("examples/embeddings.yaml")), options: "" },
    ],
    fields,
    reader: Reader::Document { recognises, map },
};

const FIELDS: GenaiFields = GenaiFields {
    task: "spec.task",
    scenarios: "spec.trafficScenarios",
    concurrency: "spec.numConcurrency",
    batch: None,
    minutes: "spec.maxTimePerIteration",
    requests: "spec.maxRequestsPerIteration",
};

/// All fields, in the order in which they are mapped.
pub(crate) static RULES: &[Rule] = &[
    rule("apiVersion", "recognises the format", |_, _, _| {}),
    rule("kind", "recognises the format", |_, _, _| {}),
    rule("metadata.name", "pipeline `metadata.name`, and the beginning of the workloads' names", |field, value, mapping| {
        match text(value) {
            Some(name) if !is_credential("", &name) => mapping.name(field, &name),
            _ => mapping.refused(field, "write a name"),
        }
    }),
    rule("metadata.namespace", "ignored: a run is in the namespace of the installation", |field, _, mapping| {
        mapping.ignored(field, "a run is in the namespace of Assay's installation");
    }),
    rule("metadata.labels.*", "ignored, by name", |field, _, mapping| {
        mapping.ignored(field, "its value is not copied: write it into `metadata.labels` of the pipeline if readers need it");
    }),
    rule("metadata.*", "ignored: the cluster's own", |field, _, mapping| {
        mapping.ignored(field, "it belongs to the object in its cluster");
    }),
    rule("status", "ignored: the state of an earlier run", |field, _, mapping| {
        mapping.ignored(field, "the state of an earlier run of OME");
    }),
    rule("spec.endpoint.inferenceService.name", "pipeline `spec.targets[].inference_service.name`", inference_service),
    rule("spec.endpoint.inferenceService.namespace", "pipeline `spec.targets[].inference_service.namespace`", |_, _, _| {}),
    rule(
        "spec.endpoint.endpoint.url",
        "pipeline `spec.targets[].url`; the path of the API is left out",
        |field, value, mapping| match text(value).filter(|url| url.starts_with("http://") || url.starts_with("https://")) {
            Some(url) => mapping.endpoint(field, &url),
            None => mapping.refused(field, "an endpoint has an address that begins with `http://` or `https://`"),
        },
    ),
    rule("spec.endpoint.endpoint.apiFormat", "`openai` is `spec.api`; any other is refused", |field, value, mapping| {
        match value.as_str() {
            Some("openai") => mapping.mapped(field, "workload spec.api"),
            _ => mapping.refused(
                field,
                "Assay sends OpenAI's requests: name an address of the server that accepts them and write `openai`, or describe the API as \
                 `api: custom`",
            ),
        }
    }),
    rule("spec.endpoint.endpoint.modelName", "workload `spec.model`", |field, value, mapping| {
        mapping.model(field, &text(value).unwrap_or_default());
    }),
    rule("spec.serviceMetadata.engine", "workload `spec.stack`, in lower case", |field, value, mapping| {
        mapping.stack(field, &text(value).unwrap_or_default());
    }),
    rule(
        "spec.serviceMetadata.version",
        "pipeline `spec.targets[].software.server`; an observed version takes precedence",
        |field, value, mapping| {
            declare(mapping, field, "software", "server", label(value).map(Value::from));
        },
    ),
    rule(
        "spec.serviceMetadata.gpuType",
        "pipeline `spec.targets[].hardware.gpu_model`; `A100` does not state its memory",
        gpu_type,
    ),
    rule("spec.serviceMetadata.gpuCount", "pipeline `spec.targets[].hardware.gpu_count`", |field, value, mapping| {
        let count = whole(value).filter(|count| (1..=100_000).contains(count));
        declare(mapping, field, "hardware", "gpu_count", count.map(Value::from));
    }),
    rule("spec.task", "workload `spec.api`", |_, _, _| {}),
    rule(
        "spec.trafficScenarios",
        "a workload for each, as its `spec.lengths`; absent: those of genai-bench for the task",
        |_, _, _| {},
    ),
    rule(
        "spec.numConcurrency",
        "workload `spec.load.concurrency`; absent: 1 to 256, doubling; ignored for embeddings",
        |_, _, _| {},
    ),
    rule("spec.maxTimePerIteration", "workload `spec.load.duration`, in minutes", |_, _, _| {}),
    rule("spec.maxRequestsPerIteration", "workload `spec.load.requests`", |_, _, _| {}),
    rule("spec.additionalRequestParams.*", "workload `spec.body`; `ignore_eos` is ignored", |field, value, mapping| {
        let name = field.strip_prefix("spec.additionalRequestParams.").unwrap_or_default().to_owned();
        mapping.genai_body_member(field, &name, value, true);
    })
    .reads(WHOLE),
    rule("spec.dataset", "ignored: OME hands it to no benchmark", |field, _, mapping| {
        mapping.ignored(
            field,
            "OME's controller hands it to no benchmark: to use it, put the file beside a workload and write `dataset: {path: FILE}` instead of `lengths`",
        );
    }),
    rule("spec.huggingFaceSecretReference.name", "`HF_TOKEN` of the execute stage, from that Secret", hugging_face),
    rule("spec.outputLocation.storageUri", "`--store` for a bucket, `spec.publish` for GitHub; others are refused", |_, _, _| {}),
    rule("spec.outputLocation.parameters.*", "credentials become references; the region is a part of `--store`", parameter),
    rule("spec.outputLocation.*", "ignored: OME does not use it for results", |field, _, mapping| {
        mapping.ignored(field, "OME does not use it for results");
    }),
    rule("spec.resultFolderName", "ignored: each run has its own id", |field, _, mapping| {
        mapping.ignored(field, "each run has an id of its own: `assay run --run-id NAME` sets it");
    }),
    rule("spec.podOverride.image", "ignored: the image of another program", |field, _, mapping| {
        mapping.ignored(field, "it is the image of genai-bench; Assay's stages run in Assay's own");
    }),
    rule("spec.podOverride.resources", "`resources` of the execute stage", resources).reads(&[
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ]),
    rule("spec.podOverride.nodeSelector", "`placement.node_selector` of the execute stage", |field, value, mapping| {
        let placement = member("placement", json!({"node_selector": value}));
        keep(mapping, field, placement, false, "pipeline spec.stages[2].placement");
    })
    .reads(WHOLE),
    rule("spec.podOverride.tolerations", "`pod.tolerations` of the execute stage", pod).reads(WHOLE),
    rule("spec.podOverride.affinity", "`pod.affinity` of the execute stage", pod).reads(WHOLE),
    rule("spec.podOverride.volumes", "`pod.volumes` of the execute stage", pod).reads(WHOLE),
    rule("spec.podOverride.volumeMounts", "`pod.volumeMounts` of the execute stage", pod).reads(WHOLE),
    rule("spec.podOverride.envFrom", "`pod.envFrom` of the execute stage", pod).reads(WHOLE),
    rule(
        "spec.podOverride.env",
        "references and credentials become `pod.env` of the execute stage; other values are ignored, by name",
        environment,
    )
    .reads(&["[].name", "[].value", "[].valueFrom"]),
    rule("spec.endpoints", "refused: no field of OME's API", |field, _, mapping| {
        mapping.refused(field, "a BenchmarkJob has one `endpoint`: write one job for each, or several `targets` in a pipeline");
    }),
    rule("spec.endpoint.external", "refused: no field of OME's API", |field, _, mapping| {
        mapping.refused(
            field,
            "OME's API has no such field: write `endpoint: {endpoint: {url: ADDRESS, apiFormat: openai, modelName: NAME}}`",
        );
    }),
    rule("spec.comparisonMetrics", "ignored: no field of OME's API", |field, _, mapping| {
        mapping.ignored(field, "OME's API has no such field: `comparison` and `gates` of a pipeline say what is compared");
    }),
    rule("spec.customMetrics", "ignored: no field of OME's API", |field, _, mapping| {
        mapping.ignored(field, "OME's API has no such field: Assay reports all metrics of serving");
    }),
    rule("spec.serviceMetadata.modelSize", "ignored: no field of OME's API", no_metadata),
    rule("spec.serviceMetadata.deployment", "ignored: no field of OME's API", no_metadata),
    rule("spec.serviceMetadata.model", "ignored: no field of OME's API", no_metadata),
    rule("spec.serviceMetadata.provider", "ignored: no field of OME's API", no_metadata),
];

/// The fields whose absence matters.
const REQUIRED_NAMESPACE: &str = "spec.endpoint.inferenceService.namespace";
const GPU_TYPES: [&str; 10] = ["H100", "A100", "A100-80G", "A100-40G", "MI300", "A10", "H200", "B200", "RTX-PRO-6000", "L40S"];

fn fields() -> Vec<FieldDoc> {
    docs(RULES)
}

/// Returns true for a BenchmarkJob of any version of OME's group.
fn recognises(document: &Value) -> bool {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    text("kind") == "BenchmarkJob" && text("apiVersion").starts_with("ome.io/")
}

/// Maps a BenchmarkJob.
fn map(document: &Value, mapping: &mut Mapping<'_>) {
    if document.get("apiVersion").and_then(Value::as_str) != Some("ome.io/v1beta1") {
        mapping.refused("apiVersion", "`ome.io/v1beta1` is the version whose fields are known");
    }
    map_fields(RULES, document, "OME's API has no such field", mapping);
    if mapping.draft.target.is_empty() && !mapping.rows.iter().any(|row| row.field.starts_with("spec.endpoint")) {
        mapping
            .no_endpoint("spec.endpoint", "write `endpoint` with `inferenceService` or `endpoint`, or name it with `--url URL`");
    }
    both_endpoints(document, mapping);
    mapping.genai_load(&load_of(document), FIELDS);
    // OME's controller names no backend but that of OpenAI's API.
    mapping.genai_exact_output(true);
    storage(document, mapping);
    if is_service(document) { service_model(document, mapping) } else { mapping.settle_model("spec.endpoint.endpoint.modelName") }
}

fn is_service(document: &Value) -> bool {
    at(document, "spec.endpoint.inferenceService").is_some()
}

fn both_endpoints(document: &Value, mapping: &mut Mapping<'_>) {
    if is_service(document) && at(document, "spec.endpoint.endpoint").is_some() {
        mapping.refused("spec.endpoint", "keep one of `inferenceService` and `endpoint`");
        mapping.draft.target.clear();
    }
    let Some(service) = at(document, "spec.endpoint.inferenceService") else { return };
    if mapping.options.url.is_some() {
        return mapping.ignored(REQUIRED_NAMESPACE, NAMED_BY_OPTION);
    }
    let Some(namespace) = service.get("namespace").and_then(Value::as_str).filter(|text| is_object_name(text)) else {
        mapping.draft.target.clear();
        return mapping.refused(REQUIRED_NAMESPACE, "write the namespace of the InferenceService");
    };
    if let Some((_, Node::Map(members))) = mapping.draft.target.iter_mut().find(|(key, _)| key == "inference_service") {
        members.push(member("namespace", namespace));
    }
    mapping.mapped(REQUIRED_NAMESPACE, "pipeline spec.targets[0].inference_service.namespace");
}

fn is_object_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn inference_service(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    if mapping.options.url.is_some() {
        return mapping.ignored(field, NAMED_BY_OPTION);
    }
    let Some(name) = value.as_str().filter(|text| is_object_name(text)) else {
        return mapping.refused(field, "write the name of the InferenceService: lower-case letters, digits and hyphens");
    };
    let service = Node::Map(vec![member("api", "ome"), member("name", name)]);
    mapping.draft.target = vec![member("kind", "inference_service"), ("inference_service".to_owned(), service)];
    mapping.mapped(field, "pipeline spec.targets[0].inference_service.name");
}

/// Names the model of an InferenceService, which its object does not state.
fn service_model(document: &Value, mapping: &mut Mapping<'_>) {
    let name = at(document, "spec.endpoint.inferenceService.name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if mapping.options.model.is_some() || name.is_empty() {
        return mapping.settle_model("spec.endpoint.inferenceService.name");
    }
    mapping.draft.model = Some(name);
    let how = "a BenchmarkJob does not state the model that a service serves: the name of the service stands for it, and `--model NAME` states another";
    mapping.approximated("model(absent)", "workload spec.model", how);
}

/// Returns a short text of a known field, such as a version.
fn label(value: &Value) -> Option<String> {
    plain_label(&text(value)?)
}

/// Declares a fact about the target.
fn declare(mapping: &mut Mapping<'_>, field: &str, list: &str, name: &str, value: Option<Value>) {
    let Some(value) = value else {
        return mapping.refused(field, "its value is not one that can be kept: correct it, or remove the field");
    };
    match mapping.draft.facts.iter_mut().find(|(key, _)| key == list) {
        Some((_, Node::Map(members))) => members.push(member(name, value)),
        _ => mapping.draft.facts.push((list.to_owned(), Node::Map(vec![member(name, value)]))),
    }
    mapping.mapped(field, &format!("pipeline spec.targets[0].{list}.{name}"));
}

fn gpu_type(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    let Some(gpu) = label(value) else { return mapping.refused(field, "write the GPU, such as `H100`") };
    declare(mapping, field, "hardware", "gpu_model", Some(Value::from(gpu.clone())));
    let note = match gpu.as_str() {
        "A100" => "an A100 has 40 or 80 GB, and the field does not state which: write `A100-40G` or `A100-80G`",
        known if GPU_TYPES.contains(&known) => return,
        _ => "OME does not know this GPU; it is kept as it is written",
    };
    mapping.rows.pop();
    mapping.approximated(field, "pipeline spec.targets[0].hardware.gpu_model", note);
}

fn no_metadata(field: &str, _: &Value, mapping: &mut Mapping<'_>) {
    mapping.ignored(field, "OME's API has no such field: write `metadata.labels` of the pipeline if readers need it");
}

fn load_of(document: &Value) -> GenaiLoad {
    let numbers = |path: &str| at(document, path).map(|value| list(value).map(whole).collect::<Vec<_>>());
    GenaiLoad {
        task: at(document, FIELDS.task).map(|value| value.as_str().unwrap_or_default().to_owned()),
        scenarios: at(document, FIELDS.scenarios)
            .map(|value| list(value).map(|scenario| scenario.as_str().unwrap_or_default().to_owned()).collect()),
        concurrency: numbers(FIELDS.concurrency),
        batch: None,
        minutes: at(document, FIELDS.minutes).cloned(),
        requests: at(document, FIELDS.requests).cloned(),
    }
}

/// Returns the items of a list, or a single value as the only one.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Array(items) => items.iter(),
        other => std::slice::from_ref(other).iter(),
    }
}

fn hugging_face(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    let Some(name) = value.as_str().filter(|text| is_object_name(text) && !is_credential("", text)) else {
        return mapping.refused(field, "write the name of the Secret");
    };
    let key = "HUGGINGFACE_API_KEY";
    let variable = json!({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}});
    if !accepts(mapping, &member("env", json!([variable])), true) {
        return mapping.refused(field, "Secrets named `assay` or `assay-*` are Assay's own: rename it");
    }
    push_env(mapping, variable);
    mapping.secret(
        field,
        "pipeline spec.stages[2].pod.env",
        "`HF_TOKEN` is the member `HUGGINGFACE_API_KEY` of the Secret, which has to be in the namespace of Assay's stages",
    );
}

fn push_env(mapping: &mut Mapping<'_>, variable: Value) {
    match mapping.draft.pod.iter_mut().find(|(key, _)| key == "env") {
        Some((_, Node::Value(Value::Array(items)))) => items.push(variable),
        _ => mapping.draft.pod.push(member("env", json!([variable]))),
    }
}

/// Returns true if a pipeline may have this member of its execute stage, or of the stage's pods beside what they have already: a mount
/// names a volume.
pub(super) fn accepts(mapping: &Mapping<'_>, found: &Member, is_pod: bool) -> bool {
    let others = mapping.draft.pod.iter().filter(|(name, _)| *name != found.0).cloned();
    let execute = if is_pod { member("pod", Node::Map(others.chain([found.clone()]).collect())) } else { found.clone() };
    let stage =
        |name: &str| Node::Map([member("name", name)].into_iter().chain((name == "execute").then(|| execute.clone())).collect());
    let stages = ["plan", "provision", "execute", "collect", "reduce", "publish"].map(stage);
    let target = Node::Map(vec![member("name", "a"), member("kind", "simulator")]);
    let spec = vec![
        member("workloads", json!(["a"])),
        member("targets", Node::List(vec![target])),
        member("stages", Node::List(stages.into())),
    ];
    let members = [
        member("apiVersion", assay_spec::API_VERSION),
        member("kind", "Pipeline"),
        member("metadata", json!({"name": "a"})),
        member("spec", Node::Map(spec)),
    ];
    let text = write("pipeline", &members, &mut Comments::default());
    assay_spec::validate([("pipelines/a.yaml", text.as_bytes())]).is_empty()
}

/// Keeps an override of the execute stage, if a pipeline can have it.
fn keep(mapping: &mut Mapping<'_>, field: &str, found: Member, is_pod: bool, to: &str) {
    if !accepts(mapping, &found, is_pod) {
        let page = "a stage of a pipeline cannot have this value, which is not shown: `docs/reference/pipeline.md` states what `spec.stages[]` takes";
        return mapping.refused(field, page);
    }
    if is_pod {
        mapping.draft.pod.push(found);
    } else {
        mapping.draft.execute.push(found);
    }
    mapping.mapped(field, to);
}

fn pod(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    let name = field.rsplit('.').next().unwrap_or_default().to_owned();
    let to = format!("pipeline spec.stages[2].pod.{name}");
    keep(mapping, field, member(&name, value.clone()), true, &to);
}

fn resources(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    let amounts = value.get("limits").or_else(|| value.get("requests"));
    let kept: serde_json::Map<String, Value> = ["cpu", "memory"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), Value::from(text(amounts?.get(*name)?)?))))
        .collect();
    if kept.is_empty() {
        return mapping.refused(field, "write `limits` with `cpu` and `memory`");
    }
    let before = mapping.rows.len();
    keep(mapping, field, member("resources", Value::Object(kept)), false, "pipeline spec.stages[2].resources");
    if mapping.rows.get(before).is_some_and(|row| row.to.is_some()) {
        mapping.rows.truncate(before);
        let how = "CPU and memory of the limits, or else of the requests: a stage requests what it is limited to";
        mapping.approximated(field, "pipeline spec.stages[2].resources", how);
    }
}

fn environment(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    for (index, variable) in list(value).enumerate() {
        let name = variable.get("name").and_then(Value::as_str).unwrap_or_default();
        let field = format!("{field}[{index}]({})", shown_name(name));
        let to = "pipeline spec.stages[2].pod.env";
        if variable.get("valueFrom").is_some() {
            if accepts(mapping, &member("env", json!([variable])), true) {
                push_env(mapping, variable.clone());
                mapping.mapped(&field, to);
            } else {
                mapping.refused(
                    &field,
                    "a stage cannot have this reference: take the variable from a Secret or a ConfigMap that is not Assay's own",
                );
            }
            continue;
        }
        let value = variable.get("value").and_then(text).unwrap_or_default();
        let key = slug(name, 50);
        let reference = json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "benchmark-secrets", "key": key}}});
        if !is_credential(name, &value) {
            mapping.ignored(&field, "a variable of genai-bench; its value is not copied");
        } else if accepts(mapping, &member("env", json!([reference])), true) {
            push_env(mapping, reference);
            mapping.has_credential(&field, &value);
            let place =
                format!("make the Secret `benchmark-secrets` in the namespace of Assay's stages, with the member `{key}`");
            mapping.secret(&field, to, &place);
        } else {
            mapping.has_credential(&field, &value);
            mapping.refused(&field, "its value is a credential, and a stage cannot have a variable of this name: rename it");
        }
    }
}

/// The credentials of storage, by the parameter's name, with the variable or place that replaces each.
const CREDENTIALS: [(&str, &str); 8] = [
    ("aws_access_key_id", "the variable `AWS_ACCESS_KEY_ID`"),
    ("aws_secret_access_key", "the variable `AWS_SECRET_ACCESS_KEY`"),
    ("aws_session_token", "the variable `AWS_SESSION_TOKEN`"),
    ("security_token", "the variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, with a customer secret key of OCI"),
    ("account_key", "none: its store is refused"),
    ("connection_string", "none: its store is refused"),
    ("sas_token", "none: its store is refused"),
    ("token", "git's own credentials for the remote"),
];

fn parameter(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    let name = field.rsplit('.').next().unwrap_or_default();
    if let Some((_, place)) = CREDENTIALS.iter().find(|(known, _)| *known == name) {
        mapping.has_credential(field, &text(value).unwrap_or_default());
        let in_cluster = "in a cluster, a member of the Secrets `assay-store-ROLE`";
        return mapping.secret(field, "store credentials", &format!("{place}; {in_cluster}"));
    }
    match name {
        "region" | "aws_region" if label(value).is_some() => mapping.mapped(field, "--store"),
        "auth" | "config_file" | "profile" | "aws_profile" | "gcp_project_id" | "gcp_credentials_path" | "account_name" => {
            mapping.ignored(field, "Assay takes credentials of a store from the variables of S3, or from the workload identity");
        }
        _ => mapping.ignored(field, "its value is not copied"),
    }
}

/// Maps the place of results.
fn storage(document: &Value, mapping: &mut Mapping<'_>) {
    const FIELD: &str = "spec.outputLocation.storageUri";
    let Some(uri) = at(document, FIELD) else {
        return mapping.refused("spec.outputLocation.storageUri(absent)", "OME needs it: add it, such as `s3://bucket/prefix`");
    };
    let uri = uri.as_str().unwrap_or_default();
    let region =
        ["aws_region", "region"].iter().find_map(|name| label(at(document, "spec.outputLocation.parameters")?.get(name)?));
    match store_of(uri, region.as_deref()) {
        Ok(Place::Store(store, how)) => {
            let how = if how.is_empty() { String::new() } else { format!("; {how}") };
            let place = format!("results go to a store that the command names: `--store '{store}'`{how}");
            mapping.draft.store = Some(store);
            mapping.approximated(FIELD, "--store", &place);
        }
        Ok(Place::Branch(remote, how)) => {
            mapping.draft.pipeline.push(member("publish", json!({"branch": "benchmark-numbers", "remote": remote})));
            mapping.approximated(FIELD, "pipeline spec.publish", how);
        }
        Err(remedy) => mapping.refused(FIELD, remedy),
    }
}

/// A place of results.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A store, as `--store` takes it, and a note.
    Store(String, &'static str),
    /// The remote of a branch, and a note.
    Branch(String, &'static str),
}

/// Returns the place of a storage URI, or the remedy.
pub(super) fn store_of(uri: &str, region: Option<&str>) -> Result<Place, &'static str> {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let is_plain = |text: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        text.bytes().all(is_part) && !text.split('/').any(|part| is_credential("", part))
    };
    let parts: Vec<&str> = rest.split('/').collect();
    let malformed = "this is no address of that scheme";
    match scheme {
        "s3" => {
            let (bucket, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let (bucket, stated) = bucket.split_once('@').map_or((bucket, None), |(bucket, region)| (bucket, Some(region)));
            if bucket.is_empty() || ![bucket, tail, stated.unwrap_or_default()].iter().all(|part| is_plain(part)) {
                return Err(malformed);
            }
            let region = region.or(stated).map(|region| format!("?region={region}")).unwrap_or_default();
            Ok(Place::Store(format!("s3://{bucket}{}{region}", tail.trim_end_matches('/')), ""))
        }
        "oci" => {
            let ["n", namespace, "b", bucket, "o", ..] = parts.as_slice() else { return Err(malformed) };
            let region = region.ok_or(
                "Assay writes to OCI by its S3 Compatibility API, whose address has the region: add `parameters.region`",
            )?;
            let prefix = parts.get(5..).unwrap_or_default().join("/");
            if namespace.is_empty() || bucket.is_empty() || !is_plain(rest) {
                return Err(malformed);
            }
            let prefix = if prefix.is_empty() { String::new() } else { format!("/{}", prefix.trim_end_matches('/')) };
            let endpoint = format!("https://{namespace}.compat.objectstorage.{region}.oraclecloud.com");
            let note = "this is the S3 Compatibility API of OCI, and `assay run` checks before it measures that the bucket honours create-if-absent";
            Ok(Place::Store(format!("s3://{bucket}{prefix}?endpoint={endpoint}"), note))
        }
        "github" => {
            let (repository, _) = rest.split_once('@').unwrap_or((rest, ""));
            let parts: Vec<&str> = repository.split('/').collect();
            if parts.len() != 2 || parts.iter().any(|part| part.is_empty()) || !is_plain(repository) {
                return Err(malformed);
            }
            let note = "published folders are commits of a branch instead of files of a release; evidence stays in the store";
            Ok(Place::Branch(format!("https://github.com/{repository}.git"), note))
        }
        "az" => Err(
            "Assay has no store on Azure Blob Storage: name a bucket of a service that speaks S3, or serve a folder with `assay serve`",
        ),
        "gs" => Err(
            "Assay has no store on Google Cloud Storage: name a bucket of a service that speaks S3, or serve a folder with `assay serve`",
        ),
        "pvc" => Err(
            "the stages of a cluster share a store over S3, and no claim: `assay bootstrap` makes one that is served from a claim; name it with `--store`",
        ),
        "hf" | "vendor" | "local" => {
            Err("OME's controller cannot write results there, and neither can Assay: name a bucket, such as `s3://bucket/prefix`")
        }
        _ => Err("the schemes are oci, s3, az, gs, github and pvc"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_of_storage_is_a_store_a_branch_or_refused_by_name() {
        let store = |uri: &str| store_of(uri, Some("eu"));
        assert_eq!(store_of("s3://b@us-1/p/q", None), Ok(Place::Store("s3://b/p/q?region=us-1".to_owned(), "")));
        assert_eq!(store("s3://b@us-1"), Ok(Place::Store("s3://b?region=eu".to_owned(), "")), "the parameter takes precedence");
        let Ok(Place::Store(oci, note)) = store("oci://n/ns/b/bucket/o/a/b") else { panic!("a store") };
        assert_eq!(oci, "s3://bucket/a/b?endpoint=https://ns.compat.objectstorage.eu.oraclecloud.com");
        assert!(note.contains("create-if-absent"));
        let remedy = |uri: &str| store_of(uri, None).expect_err(uri);
        assert!(remedy("oci://n/ns/b/bucket/o/").contains("region") && remedy("oci://n/ns/b/bucket").contains("no address"));
        assert!(
            remedy("az://a/c").contains("Azure")
                && remedy("gs://b/p").contains("Google")
                && remedy("pvc://c/p").contains("claim")
        );
        assert!(matches!(store("github://o/r@v1"), Ok(Place::Branch(remote, _)) if remote == "https://github.com/o/r.git"));
        for refused in [
            "github://o",
            "s3://",
            "s3://b/a b",
            "s3://b/sk-abcdefghijklmnopqrstuvwxyz123456",
            "hf://a",
            "local://x",
            "ftp://x",
            "x",
        ] {
            assert!(store(refused).is_err(), "{refused}");
        }
    }
}
