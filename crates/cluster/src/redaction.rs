//! Facts of foreign pods and objects, with their secrets masked.

use assay_manifest::{ContainerFacts, Image, PodFacts};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use serde_json::Value;

use crate::job_state::is_ready;
use crate::serving_role::serving_role;

/// The most containers of a pod, arguments of a command and variables that are kept.
const MAX_ITEMS: usize = 500;
/// The most characters that are kept of an argument.
const MAX_WORD: usize = 4096;
/// The replacement of a secret.
const MASK: &str = "***";
/// Characters that end an address within a text, besides white space.
const ENDS: [char; 5] = ['"', '<', '>', '\\', '`'];

/// Returns the facts of a pod that are kept.
pub fn pod_facts(pod: &Pod) -> PodFacts {
    let spec = pod.spec.as_ref();
    PodFacts {
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        ready: is_ready(pod),
        role: serving_role(pod),
        containers: spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .take(MAX_ITEMS)
            .map(|container| container_facts(pod, container))
            .collect(),
    }
}

fn container_facts(pod: &Pod, container: &Container) -> ContainerFacts {
    let command = container.command.iter().chain(&container.args).flatten().take(MAX_ITEMS).map(|word| cut(word));
    let env = container.env.iter().flatten().take(MAX_ITEMS).map(|variable| cut(&variable.name));
    let limits = container.resources.iter().filter_map(|resources| resources.limits.as_ref()).flatten();
    ContainerFacts {
        name: container.name.clone(),
        image: running_image(pod, container),
        restarts: container_status(pod, container).map_or(0, |status| u32::try_from(status.restart_count).unwrap_or(0)),
        command: mask_command(&command.collect::<Vec<_>>()),
        env: env.collect(),
        limits: limits.take(MAX_ITEMS).map(|(name, quantity)| (cut(name), cut(&quantity.0))).collect(),
    }
}

/// Returns the image that the container's node really runs; the one of the spec if the node does not report it.
fn running_image(pod: &Pod, container: &Container) -> Image {
    let id = container_status(pod, container).map(|status| status.image_id.as_str()).filter(|id| !id.is_empty());
    let reference = id.or(container.image.as_deref()).unwrap_or_default();
    let digest = reference.rsplit_once('@').and_then(|(_, digest)| digest.parse().ok());
    Image { reference: cut(reference), digest }
}

fn container_status<'a>(pod: &'a Pod, container: &Container) -> Option<&'a ContainerStatus> {
    pod.status.as_ref()?.container_statuses.iter().flatten().find(|status| status.name == container.name)
}

fn cut(word: &str) -> String {
    word.chars().take(MAX_WORD).collect()
}

/// Returns an object without what looks like a secret, and without the record of who changed which field.
#[must_use]
pub fn redact_secrets(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        // It repeats the whole object.
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    mask(&mut object);
    object
}

/// Replaces the user, query and fragment of each address in a text by `mask`, because any of them may be a key; removes them if
/// `mask` is empty.
pub(crate) fn redact_addresses(text: &str, mask: &str) -> String {
    let ends = |letter: char| letter.is_whitespace() || ENDS.contains(&letter);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        // The next address begins there at the latest.
        let next = after.find("://").unwrap_or(after.len());
        let (near, _) = after.split_at(next);
        let stop = near.find(|letter: char| ends(letter) || matches!(letter, '/' | '?' | '#')).unwrap_or(next);
        let (authority, path) = near.split_at(stop);
        match authority.rsplit_once('@') {
            Some((_, host)) if mask.is_empty() => out.push_str(host),
            Some((_, host)) => out.extend([mask, "@", host]),
            None => out.push_str(authority),
        }
        let (_, tail) = after.split_at(stop);
        let end = path.find(|letter: char| ends(letter) || matches!(letter, '?' | '#')).unwrap_or(path.len());
        let (path, behind) = tail.split_at(end);
        out.push_str(path);
        rest = behind;
        if behind.starts_with(['?', '#']) {
            let (query, behind) = behind.split_at(behind.find(ends).unwrap_or(behind.len()));
            if !mask.is_empty() {
                out.extend(query.get(..1));
                out.push_str(mask);
            }
            rest = behind;
        }
    }
    out.push_str(rest);
    out
}

/// Removes the values of all variables and headers, and masks secrets in commands and addresses.
fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), &mut *value) {
                    ("env" | "httpHeaders", Value::Array(variables)) => {
                        for variable in variables.iter_mut().filter_map(Value::as_object_mut) {
                            variable.remove("value");
                        }
                    }
                    ("args" | "command", Value::Array(words)) => {
                        let texts: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
                        if let Some(texts) = texts {
                            *words = mask_command(&texts).into_iter().map(Value::String).collect();
                        }
                    }
                    _ => mask(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) if text.contains("://") => *text = redact_addresses(text, MASK),
        _ => {}
    }
}

/// Returns the arguments of a command without values that look like secrets: of `--name=value`, of `--name value`, and within a
/// script.
fn mask_command(words: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| words.get(before));
        let is_value = !word.starts_with('-') && before.is_some_and(|option| is_secret_option(option, word));
        out.push(if is_value { MASK.to_owned() } else { redact_addresses(&mask_word(word), MASK) });
    }
    out
}

fn is_secret_option(option: &str, value: &str) -> bool {
    option.starts_with('-') && !option.contains(['=', ' ']) && assay_spec::looks_secret(&variable(option), value)
}

fn mask_word(word: &str) -> String {
    if word.contains(char::is_whitespace) {
        let parts: Vec<String> = word.split_whitespace().map(str::to_owned).collect();
        let safe = mask_command(&parts);
        return if safe == parts { word.to_owned() } else { safe.join(" ") };
    }
    match word.split_once('=') {
        Some((name, value)) if assay_spec::looks_secret(&variable(name), value) => format!("{name}={MASK}"),
        None if assay_spec::looks_secret("", word) => MASK.to_owned(),
        _ => word.to_owned(),
    }
}

/// Returns the name of an option in the style of a variable.
fn variable(option: &str) -> String {
    option.trim_start_matches('-').to_uppercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mask_text(words: &[&str]) -> String {
        mask_command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).join("|")
    }

    #[test]
    fn secrets_in_commands_are_masked() {
        assert_eq!(mask_text(&["serve", "--api-key", "hunter2", "--port", "80"]), "serve|--api-key|***|--port|80");
        assert_eq!(
            mask_text(&["--api-key=hunter2", "--max-token=8", "--token", "--port"]),
            "--api-key=***|--max-token=8|--token|--port"
        );
        assert_eq!(
            mask_text(&["sh", "-c", "HF_TOKEN=x  exec vllm serve --api-key y hf_abc"]),
            "sh|-c|HF_TOKEN=*** exec vllm serve --api-key *** ***"
        );
        assert_eq!(mask_text(&["sh", "-c", "a  b"]), "sh|-c|a  b", "what holds none stays as it is");
    }

    #[test]
    fn an_object_loses_the_values_of_variables_and_what_repeats_them() {
        let object = json!({
            "metadata": {"name": "a", "managedFields": [1], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "b": "c"}},
            "spec": {"containers": [{"env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {}}], "args": ["--token", "x"]}]},
        });
        assert_eq!(
            redact_secrets(object),
            json!({
                "metadata": {"name": "a", "annotations": {"b": "c"}},
                "spec": {"containers": [{"env": [{"name": "A"}, {"name": "B", "valueFrom": {}}], "args": ["--token", "***"]}]},
            })
        );
        for odd in [json!(null), json!([1]), json!({"metadata": 1, "env": 2, "args": [3]})] {
            assert_eq!(redact_secrets(odd.clone()), odd);
        }
    }

    #[test]
    fn addresses_lose_what_may_be_a_key() {
        for (text, masked, bare) in [
            ("https://a.blob/m?sv=1&sig=x", "https://a.blob/m?***", "https://a.blob/m"),
            ("hf://u:t@h:1/a@b#k", "hf://***@h:1/a@b#***", "hf://h:1/a@b"),
            (
                "see \"https://u:p@h?k\", s3://b/c d?e",
                "see \"https://***@h?***\", s3://b/c d?e",
                "see \"https://h\", s3://b/c d?e",
            ),
            ("a://b,https://u:p@c", "a://b,https://***@c", "a://b,https://c"),
            ("s3://b/http://u@h/?x=y://z", "s3://b/http://***@h/?***", "s3://b/http://h/"),
            ("meta/llama?", "meta/llama?", "meta/llama?"),
            ("://", "://", "://"),
        ] {
            assert_eq!((redact_addresses(text, MASK).as_str(), redact_addresses(text, "").as_str()), (masked, bare), "{text}");
        }
        assert_eq!(mask_text(&["serve", "--model", "https://u:p@h/m?sig=x"]), "serve|--model|https://***@h/m?***");
        let object = json!({
            "spec": {"model": {"storageUri": "https://h/m?sig=x"}},
            "probe": {"httpHeaders": [{"name": "Authorization", "value": "Bearer x"}]},
        });
        let kept = json!({
            "spec": {"model": {"storageUri": "https://h/m?***"}}, "probe": {"httpHeaders": [{"name": "Authorization"}]},
        });
        assert_eq!(redact_secrets(object), kept);
    }

    #[test]
    fn a_pod_is_told_by_what_really_runs() {
        let digest = "0".repeat(64);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "vllm-1", "uid": "u"},
            "spec": {"nodeName": "gpu-1", "containers": [
                {"name": "vllm", "image": "r/vllm:1", "command": ["vllm"], "args": ["serve"], "env": [{"name": "A", "value": "b"}],
                 "resources": {"limits": {"nvidia.com/gpu": "2"}}},
                {"name": "side", "image": "r/side"},
            ]},
            "status": {"containerStatuses": [
                {"name": "vllm", "image": "r/vllm:1", "imageID": format!("r/vllm@sha256:{digest}"), "ready": true, "restartCount": 3},
            ], "conditions": [{"type": "Initialized", "status": "False"}, {"type": "Ready", "status": "True"}]},
        }))
        .expect("a pod");
        let facts = pod_facts(&pod);
        assert_eq!((facts.name.as_str(), facts.uid.as_str(), facts.node.as_str()), ("vllm-1", "u", "gpu-1"));
        let [vllm, side] = &facts.containers[..] else { panic!("two containers") };
        assert_eq!(vllm.image.digest.map(|digest| digest.hex()), Some(digest));
        assert_eq!((vllm.command.join(" "), vllm.env.join(" ")), ("vllm serve".to_owned(), "A".to_owned()));
        assert_eq!(vllm.limits["nvidia.com/gpu"], "2");
        assert_eq!((side.image.reference.as_str(), side.image.digest), ("r/side", None));
        assert_eq!((facts.ready, vllm.restarts, side.restarts), (true, 3, 0));
    }
}
