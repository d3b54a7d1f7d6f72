//! The fields of a document, each mapped by the rule of a table.

use assay_spec::did_you_mean;
use serde_json::Value;

use crate::format::FieldDoc;
use crate::mapping::Mapping;

/// The deepest member that is looked at.
const MAX_DEPTH: usize = 8;

/// A field of a document.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its path. `*` stands for any one name.
    pub(crate) path: &'static str,
    /// The treatment, for the reference page.
    pub(crate) becomes: &'static str,
    /// Maps its value.
    apply: fn(&str, &Value, &mut Mapping<'_>),
}

pub(crate) const fn rule(path: &'static str, becomes: &'static str, apply: fn(&str, &Value, &mut Mapping<'_>)) -> Rule {
    Rule { path, becomes, apply }
}

/// Returns the lines of the reference page about the fields of a table.
pub(crate) fn docs(rules: &[Rule]) -> Vec<FieldDoc> {
    rules.iter().map(|rule| FieldDoc { field: rule.path.to_owned(), treatment: rule.becomes.to_owned() }).collect()
}

/// Maps the fields of a document in the order of the table, and then ignores those that it does not know; `why` is the reason. Fields that
/// are refused already, or a part of which is, are left.
pub(crate) fn map_fields(rules: &'static [Rule], document: &Value, why: &str, mapping: &mut Mapping<'_>) {
    let mut found = Vec::new();
    collect(rules, "", document, &mut found, 0);
    found.retain(|(path, _)| !mapping.has_refused_part(path));
    for rule in rules {
        let is_of_rule = |path: &str| rule_of(rules, path).is_some_and(|known| std::ptr::eq(known, rule));
        for (path, value) in found.iter().filter(|(path, _)| is_of_rule(path)) {
            (rule.apply)(path, value, mapping);
        }
    }
    for (path, _) in found.iter().filter(|(path, _)| rule_of(rules, path).is_none()) {
        ignore_unknown(rules, path, why, mapping);
    }
}

/// Collects the fields that are given, down to those that a rule names. Fields that are null are as good as absent.
fn collect<'a>(rules: &[Rule], path: &str, value: &'a Value, found: &mut Vec<(String, &'a Value)>, depth: usize) {
    let is_open = path.is_empty() || begins_rule(rules, path);
    match value {
        Value::Null => {}
        Value::Object(members) if is_open && depth < MAX_DEPTH => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(rules, &path, value, found, depth + 1);
            }
        }
        _ => found.push((path.to_owned(), value)),
    }
}

/// Returns true if fields below a path have rules of their own.
fn begins_rule(rules: &[Rule], path: &str) -> bool {
    rules.iter().any(|rule| rule.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the rule of a field: that of its own path, or that of any name in its place.
fn rule_of<'a>(rules: &'a [Rule], path: &str) -> Option<&'a Rule> {
    let exact = rules.iter().find(|rule| rule.path == path);
    exact.or_else(|| {
        rules.iter().find(|rule| {
            let parent = rule.path.strip_suffix(".*");
            parent.is_some_and(|parent| {
                path.strip_prefix(parent).and_then(|rest| rest.strip_prefix('.')).is_some_and(|name| !name.is_empty())
            })
        })
    })
}

fn ignore_unknown(rules: &[Rule], path: &str, why: &str, mapping: &mut Mapping<'_>) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let siblings = rules.iter().filter_map(|rule| {
        let rest = if parent.is_empty() { rule.path } else { rule.path.strip_prefix(parent)?.strip_prefix('.')? };
        rest.split('.').next().filter(|sibling| *sibling != "*")
    });
    let hint = did_you_mean(name, siblings).map(|hint| format!(": {hint}")).unwrap_or_default();
    mapping.ignored(path, &format!("{why}, and its value is not copied{hint}"));
}
