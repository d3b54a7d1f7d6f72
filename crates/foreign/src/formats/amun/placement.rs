//! The resources and the node that a specification demands.

use serde_json::{Map, Value, json};

use crate::draft::member;
use crate::formats::benchmark_job::accepts;
use crate::mapping::Mapping;
use crate::value::{at, text};

/// The requests of a run, with the values that Amun fills in.
const RESOURCES: [(&str, &str); 2] = [("cpu", "500m"), ("memory", "256Mi")];
/// The demands on hardware, with the label of a node that each is compared with.
const LABELS: [(&str, &str); 4] =
    [("cpu_family", "CPU_FAMILY"), ("cpu_model", "CPU_MODEL"), ("physical_cpus", "PHYSICAL_CPUS"), ("processor", "processor")];

pub(super) fn map(document: &Value, mapping: &mut Mapping<'_>) {
    resources(document, mapping);
    hardware(document, mapping);
}

fn resources(document: &Value, mapping: &mut Mapping<'_>) {
    let mut kept = Map::new();
    for (name, default) in RESOURCES {
        let path = format!("run.requests.{name}");
        let (field, value) = match at(document, &path).map(text) {
            Some(given) => (path, given.unwrap_or_default()),
            None => (format!("{path}(absent)"), default.to_owned()),
        };
        let to = format!("pipeline spec.stages[2].resources.{name}");
        if accepts(mapping, &member("resources", json!({name: value})), false) {
            kept.insert(name.to_owned(), Value::from(value));
            mapping.mapped(&field, &to);
        } else {
            kept.insert(name.to_owned(), Value::from(default));
            mapping.refused(&field, "write a quantity, such as `500m` or `256Mi`");
            mapping.stands_in(&field, &to, "the default of the other tool stands in its place");
        }
    }
    mapping.draft.execute.push(member("resources", Value::Object(kept)));
    let how =
        "they are requests and limits of the pod that runs the script, in a cluster; on one machine nothing limits the script";
    mapping.approximated("run.requests(implied)", "pipeline spec.stages[2].resources", how);
}

fn hardware(document: &Value, mapping: &mut Mapping<'_>) {
    let expressions: Vec<Value> = LABELS.iter().filter_map(|(name, label)| expression(document, name, label, mapping)).collect();
    if expressions.is_empty() {
        return;
    }
    mapping.draft.pod.push(member("affinity", affinity(&expressions)));
    let how = "in a cluster, the script runs on a node with these labels, and without one its pod stays Pending, with the reason; on one machine they are \
               not checked. Amun named the labels, and passed on none of them";
    mapping.approximated("hardware(implied)", "pipeline spec.stages[2].pod.affinity", how);
}

fn affinity(expressions: &[Value]) -> Value {
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
}

/// Returns the demand on a label, which `run`, `build` or both state.
fn expression(document: &Value, name: &str, label: &str, mapping: &mut Mapping<'_>) -> Option<Value> {
    let mut demand: Option<(String, Value)> = None;
    for part in ["run", "build"] {
        let field = format!("{part}.requests.hardware.{name}");
        let Some(given) = at(document, &field) else { continue };
        let value = text(given).unwrap_or_default();
        let found = json!({"key": label, "operator": "In", "values": [value]});
        match &demand {
            Some((known, _)) if *known != value => mapping.refused(&field, "`run` demands another value: write the same in both"),
            _ if value.is_empty() || !accepts(mapping, &member("affinity", affinity(std::slice::from_ref(&found))), true) => {
                mapping.refused(
                    &field,
                    "the value of a label has letters, digits, `-`, `_` and `.`, at most 63: write one, or remove the field",
                );
            }
            _ => {
                mapping.mapped(&field, &format!("pipeline spec.stages[2].pod.affinity ({label})"));
                demand = Some((value, found));
            }
        }
    }
    demand.map(|(_, found)| found)
}
