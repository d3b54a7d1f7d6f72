//! Documents of other tools whose fields have a table: the same reader as that of the options of a command.

use assay_spec::did_you_mean;
use serde_json::Value;

use crate::command::{Arguments, Flag, Takes, Treatment};
use crate::mapping::Mapping;
use crate::value::text;

/// The beginning of a value that llm-d-benchmark fills in before it hands a profile to another tool.
const PLACEHOLDER: &str = "REPLACE_";

/// The fields of a document.
///
/// The first name of each is its path, such as `spec.data[synthetic_text].turns`: an item of a list has its `kind` in the brackets, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// The tool, for a message about a field that is not in the table.
    pub(crate) tool: &'static str,
    pub(crate) table: &'static [Flag],
}

impl Fields {
    /// Reads the fields of a document. Those that are unknown, ignored or refused get their rows here. A field that is null or empty is as good
    /// as absent.
    pub(crate) fn read(self, document: &Value, mapping: &mut Mapping<'_>) -> Arguments {
        let mut arguments = Arguments::default();
        self.collect("", document, &mut arguments, mapping);
        arguments
    }

    /// Goes down to the fields of the table: the depth is that of its paths.
    fn collect(self, path: &str, value: &Value, arguments: &mut Arguments, mapping: &mut Mapping<'_>) {
        match value {
            Value::Null => {}
            Value::Object(members) if members.is_empty() => {}
            Value::Array(items) if items.is_empty() => {}
            Value::String(text) if text.is_empty() => {}
            Value::Object(members) if path.is_empty() || self.has_below(path, '.') => {
                for (name, value) in members.iter().filter(|(name, _)| !states_kind(path, name)) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.collect(&path, value, arguments, mapping);
                }
            }
            Value::Array(items) if self.has_below(path, '[') => {
                for item in items {
                    self.collect(&self.path_of_item(path, item), item, arguments, mapping);
                }
            }
            _ => self.take(path, value, arguments, mapping),
        }
    }

    /// Returns true if the table has fields below a path.
    fn has_below(self, path: &str, separator: char) -> bool {
        self.names().any(|name| name.strip_prefix(path).is_some_and(|rest| rest.starts_with(separator)))
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        self.table.iter().flat_map(|field| field.names).copied()
    }

    fn path_of_item(self, path: &str, item: &Value) -> String {
        let kind = item.get("kind").and_then(Value::as_str).unwrap_or_default();
        let named = format!("{path}[{kind}]");
        if self.names().any(|name| name.starts_with(&named)) { named } else { format!("{path}[]") }
    }

    /// Returns the kinds of the items of a list that the table has.
    fn kinds(self, list: &str) -> Vec<&'static str> {
        let kind = |name: &'static str| name.strip_prefix(list)?.strip_prefix('[')?.split(']').next();
        let mut kinds = Vec::new();
        for kind in self.names().filter_map(kind) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    fn take(self, path: &str, value: &Value, arguments: &mut Arguments, mapping: &mut Mapping<'_>) {
        let Some(field) = self.table.iter().find(|field| field.names.contains(&path)) else {
            return self.refuse_unknown(path, mapping);
        };
        let values = texts(value);
        if values.iter().any(|value| value.starts_with(PLACEHOLDER)) {
            return mapping.refused(path, "`REPLACE_...` stands for a value that llm-d-benchmark fills in: write the value");
        }
        let is_carried = matches!(field.treatment, Treatment::Carried(_));
        if is_carried && field.takes == Takes::One && values.len() > 1 {
            return mapping.refused(path, "write one value: Assay has one for all loads of a workload");
        }
        arguments.take(field, values, mapping);
    }

    fn refuse_unknown(self, path: &str, mapping: &mut Mapping<'_>) {
        if let Some(list) = path.strip_suffix("[]") {
            return mapping.refused(path, &format!("write the `kind` of each: {}", self.kinds(list).join(", ")));
        }
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        let siblings = self.names().filter_map(|known| {
            let rest = if parent.is_empty() { known } else { known.strip_prefix(parent)?.strip_prefix('.')? };
            rest.split(['.', '[']).next()
        });
        let hint = did_you_mean(name, siblings).map(|hint| format!(": {hint}")).unwrap_or_default();
        let remedy = format!(
            "this is no field of {} that Assay knows: correct it, or remove it if the load does not depend on it{hint}",
            self.tool
        );
        mapping.refused(path, &remedy);
    }
}

/// Returns true for the `kind` of an item that its path names.
fn states_kind(path: &str, name: &str) -> bool {
    name == "kind" && path.ends_with(']') && !path.ends_with("[]")
}

/// Returns a scalar or each scalar of a list as a text; anything else as JSON.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(|item| text(item).unwrap_or_else(|| item.to_string())).collect(),
        value => vec![text(value).unwrap_or_else(|| value.to_string())],
    }
}
