//! Falsified values for the fields of a manifest: every field once, by its class.
//!
//! A class is the path of a field without list indices, such as `body.points[].metrics[].median`. The first field of a class stands for
//! all. The manifest's published schema lists the values that may replace it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use assay_manifest::{Digest, Document};
use regex::Regex;
use serde_json::{Value, json};

use crate::tamper::canonical;

/// One way to falsify a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Falsification {
    /// The smallest change: the next number, one second later, another word of the format, one more character.
    Changed,
    /// A distant value: a thousand times as many, years earlier.
    Far,
    /// The member is missing, or the list lacks its last item.
    Omitted,
}

/// A field that can be falsified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The class of the field.
    pub(crate) class: String,
    /// The JSON pointer of the first field of the class.
    pointer: String,
}

/// Maps whose members differ on another machine or in another workload. The first member stands for all.
const MAPS: [&str; 10] = [
    ".facts",
    ".absent",
    ".schedule_digests",
    ".token_sources",
    ".usage_faults",
    ".host_before",
    ".host_after",
    ".usage",
    ".serving.client",
    ".serving.clock",
];

/// Returns the fields of a manifest, one of each class, in the manifest's order. Its kind and the version of its format are left out,
/// because changing them makes it another kind of document.
pub(crate) fn fields(manifest: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    collect(manifest, &Field { class: String::new(), pointer: String::new() }, &mut BTreeSet::new(), &mut fields);
    fields.retain(|field| !["header.kind", "header.version"].contains(&field.class.as_str()));
    fields
}

fn collect(value: &Value, at: &Field, seen: &mut BTreeSet<String>, found: &mut Vec<Field>) {
    let is_inner = matches!(value, Value::Object(_));
    if !is_inner && seen.insert(at.class.clone()) {
        found.push(at.clone());
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let class = match at.class.as_str() {
                    "" => name.clone(),
                    above if MAPS.iter().any(|map| above.ends_with(map)) => format!("{above}.*"),
                    above => format!("{above}.{name}"),
                };
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, &Field { class, pointer: format!("{}/{name}", at.pointer) }, seen, found);
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                let item_at = Field { class: format!("{}[]", at.class), pointer: format!("{}/{place}", at.pointer) };
                collect(item, &item_at, seen, found);
            }
        }
        _ => {}
    }
}

/// Returns the manifest with a falsified field, or `None` if no falsification of this kind has the form of a manifest.
pub(crate) fn falsify_field(manifest: &Value, field: &Field, how: Falsification) -> Option<Value> {
    candidates(manifest, field, how)
        .into_iter()
        .find(|candidate| candidate != manifest && Document::parse(&canonical(candidate)).is_ok())
}

fn candidates(manifest: &Value, field: &Field, how: Falsification) -> Vec<Value> {
    let honest = manifest.pointer(&field.pointer).expect("a field of this manifest");
    let with = |value: Value| {
        let mut manifest = manifest.clone();
        *manifest.pointer_mut(&field.pointer).expect("the field") = value;
        manifest
    };
    match (how, honest) {
        (Falsification::Omitted, Value::Array(items)) => {
            let mut fewer = items.clone();
            fewer.pop().map(|_| with(Value::Array(fewer))).into_iter().collect()
        }
        (Falsification::Omitted, _) => remove_member(manifest, &field.pointer).into_iter().collect(),
        (_, Value::Array(_)) => Vec::new(),
        (Falsification::Changed, _) => near_values(honest, &schema_words(manifest, field)).into_iter().map(with).collect(),
        (Falsification::Far, _) => far_values(honest).into_iter().map(with).collect(),
    }
}

/// Returns the manifest without a member, or `None` if the pointer names no member.
fn remove_member(manifest: &Value, pointer: &str) -> Option<Value> {
    let (parent, name) = pointer.rsplit_once('/')?;
    let mut manifest = manifest.clone();
    let name = name.replace("~1", "/").replace("~0", "~");
    manifest.pointer_mut(parent)?.as_object_mut()?.remove(&name)?;
    Some(manifest)
}

static INSTANT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{4})(-\d\d-\d\dT\d\d:\d\d:)(\d\d)(\.\d+Z)$").expect("a regular expression"));

/// Returns the instant with another second, and the instant in another year.
fn other_instants(text: &str) -> Option<(String, String)> {
    let found = INSTANT.captures(text)?;
    let second: u32 = found[3].parse().ok()?;
    let near = format!("{}{}{:02}{}", &found[1], &found[2], (second + 1) % 60, &found[4]);
    Some((near, format!("2020{}{}{}", &found[2], &found[3], &found[4])))
}

/// Returns replacements for a value, the smallest change first. `words` are those of the format.
fn near_values(honest: &Value, words: &[Value]) -> Vec<Value> {
    let mut others: Vec<Value> = words.iter().filter(|word| *word != honest).cloned().collect();
    match honest {
        Value::Bool(value) => others.push(json!(!value)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => others.extend([json!(whole + 1), json!(whole - 1), json!(0)]),
            None => others.extend(number.as_f64().map(|value| json!(value * 1.01))),
        },
        Value::String(text) => {
            if let Ok(count) = text.parse::<u64>() {
                others.extend([json!((count + 1).to_string()), json!(count.saturating_sub(1).to_string())]);
            }
            others.extend(other_instants(text).map(|(near, _)| json!(near)));
            // The id of a commit or another Git object.
            if text.len() == 40 && text.chars().all(|c| c.is_ascii_hexdigit()) {
                others.push(json!(text.chars().map(|c| if c == 'a' { 'b' } else { 'a' }).collect::<String>()));
            }
            others.extend([json!(format!("{text}x")), json!(Digest::compute(text.as_bytes())), json!("another")]);
        }
        _ => {}
    }
    // Replacements for an unknown value.
    let some = ["another", "7", "2020-01-01T00:00:00.000000000Z"].map(|text| json!(text));
    others.extend(some);
    others.extend([json!(Digest::compute(b"another")), json!(1), json!(1.5), json!(true)]);
    others
}

fn far_values(honest: &Value) -> Vec<Value> {
    match honest {
        Value::Number(number) => match number.as_i64() {
            Some(whole) => vec![json!(whole * 1000 + 1000), json!(0)],
            None => number.as_f64().map(|value| json!(value * 1000.0)).into_iter().collect(),
        },
        Value::String(text) => match (text.parse::<u64>(), other_instants(text)) {
            (Ok(count), _) => vec![json!((count.saturating_mul(1000) + 1000).to_string())],
            (_, Some((_, far))) => vec![json!(far)],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Returns the words that a field's schema lists.
fn schema_words(manifest: &Value, field: &Field) -> Vec<Value> {
    let kind = manifest["header"]["kind"].as_str().expect("manifests name their kind");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/schema").join(format!("{kind}.json"));
    let schema: Value = serde_json::from_slice(&fs::read(path).expect("the kind's schema")).expect("JSON");
    let mut nodes = expanded(&schema, vec![&schema]);
    for step in field.pointer.split('/').skip(1) {
        let below = nodes.iter().flat_map(|node| {
            let named = node["properties"].get(step).or_else(|| node.get("additionalProperties"));
            [named, node.get("items")].into_iter().flatten().filter(|child| child.is_object())
        });
        nodes = expanded(&schema, below.collect());
    }
    let words = nodes.iter().flat_map(|node| {
        let listed = node["enum"].as_array().cloned().unwrap_or_default();
        listed.into_iter().chain(node.get("const").cloned())
    });
    words.collect()
}

/// Returns the nodes of a schema, with all nodes that they refer to or choose between.
fn expanded<'a>(schema: &'a Value, nodes: Vec<&'a Value>) -> Vec<&'a Value> {
    let mut all = Vec::new();
    let mut open = nodes;
    while let Some(node) = open.pop() {
        all.push(node);
        open.extend(node["$ref"].as_str().and_then(|reference| schema.pointer(reference.trim_start_matches('#'))));
        open.extend(["oneOf", "anyOf", "allOf"].iter().filter_map(|choice| node[*choice].as_array()).flatten());
    }
    all
}
