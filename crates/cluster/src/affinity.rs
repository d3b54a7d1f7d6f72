//! Node affinity of a pod: Assay's own terms joined with those of the pipeline; both must hold.

use serde_json::{Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Returns the affinity that keeps load off the nodes that serve: load that shares a node with its target measures itself as
/// well.
pub(crate) fn avoid_nodes(nodes: &[String], must: bool) -> Option<Value> {
    if nodes.is_empty() {
        return None;
    }
    let is_other = |node: &String| json!({"key": "metadata.name", "operator": "NotIn", "values": [node]});
    let term = json!({"matchFields": nodes.iter().map(is_other).collect::<Vec<_>>()});
    Some(json!({"nodeAffinity": if must {
        json!({REQUIRED: {"nodeSelectorTerms": [term]}})
    } else {
        json!({PREFERRED: [{"weight": 100, "preference": term}]})
    }}))
}

/// Joins two affinities into one that asks for both. `asked` has no fields of nodes, and none of its terms is empty. Only one of
/// several terms has to hold, so each is joined with ours.
pub(crate) fn join_affinities(own: Option<Value>, asked: Option<&Value>) -> Option<Value> {
    let (Some(own), Some(asked)) = (&own, asked) else { return own.or_else(|| asked.cloned()) };
    let mut joined = asked.clone();
    let (ours, theirs) = (&own["nodeAffinity"], &asked["nodeAffinity"]);
    let terms = |of: &Value| of[REQUIRED]["nodeSelectorTerms"].as_array().cloned().unwrap_or_default();
    let joined_terms = match (terms(ours), terms(theirs)) {
        (ours, theirs) if ours.is_empty() => theirs,
        (ours, theirs) if theirs.is_empty() => ours,
        (ours, theirs) => theirs.iter().flat_map(|theirs| ours.iter().map(|ours| joined_term(ours, theirs))).collect(),
    };
    if !joined_terms.is_empty() {
        joined["nodeAffinity"][REQUIRED] = json!({"nodeSelectorTerms": joined_terms});
    }
    let preferred: Vec<_> = [theirs, ours].iter().filter_map(|of| of[PREFERRED].as_array()).flatten().collect();
    if !preferred.is_empty() {
        joined["nodeAffinity"][PREFERRED] = json!(preferred);
    }
    Some(joined)
}

/// Joins two terms into one that holds if both hold.
fn joined_term(ours: &Value, theirs: &Value) -> Value {
    let mut term = theirs.clone();
    term["matchFields"] = ours["matchFields"].clone();
    term
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined_text(must: bool, asked: &Value) -> String {
        join_affinities(avoid_nodes(&["gpu-1".to_owned()], must), Some(asked)).expect("an affinity").to_string()
    }

    #[test]
    fn what_a_pipeline_asks_for_and_keeping_off_the_target_both_hold() {
        let expression = |key: &str| json!({"key": key, "operator": "Exists"});
        let required = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [expression("a")]}, {"matchExpressions": [expression("b")]},
        ]}}});
        insta::assert_snapshot!(joined_text(true, &required), @r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}],"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["gpu-1"]}]},{"matchExpressions":[{"key":"b","operator":"Exists"}],"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["gpu-1"]}]}]}}}"#);
        insta::assert_snapshot!(joined_text(false, &required), @r#"{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["gpu-1"]}]},"weight":100}],"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}}"#);
        let preferred =
            json!({"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [expression("a")]}}]}});
        insta::assert_snapshot!(joined_text(true, &preferred), @r#"{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{"matchExpressions":[{"key":"a","operator":"Exists"}]},"weight":1}],"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["gpu-1"]}]}]}}}"#);
        insta::assert_snapshot!(joined_text(false, &preferred), @r#"{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{"matchExpressions":[{"key":"a","operator":"Exists"}]},"weight":1},{"preference":{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["gpu-1"]}]},"weight":100}]}}"#);
        let pods = json!({"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}});
        insta::assert_snapshot!(joined_text(true, &pods), @r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["gpu-1"]}]}]}},"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}}"#);
        assert_eq!(join_affinities(None, Some(&pods)), Some(pods));
        assert_eq!(join_affinities(avoid_nodes(&["gpu-1".to_owned()], true), None), avoid_nodes(&["gpu-1".to_owned()], true));
        assert_eq!(join_affinities(None, None), None);
    }
}
