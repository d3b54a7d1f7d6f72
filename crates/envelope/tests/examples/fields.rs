//! The fields of the schemas that occur in documents.

use std::collections::BTreeSet;

use serde_json::Value;

/// The fields in the schemas of the visited documents, and those that occurred.
#[derive(Default)]
pub(crate) struct Fields {
    known: BTreeSet<String>,
    seen: BTreeSet<String>,
}

impl Fields {
    /// Visits a document together with the schema of its kind.
    pub(crate) fn visit(&mut self, schema: &Value, document: &Value) {
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            self.known.extend(names(name, definition));
        }
        self.known.extend(names("manifest", schema));
        self.walk(schema, "manifest", schema, document);
    }

    /// The fields of the schemas that never occurred, as `Type.field`.
    pub(crate) fn unseen(&self) -> Vec<String> {
        self.known.difference(&self.seen).cloned().collect()
    }

    fn walk(&mut self, root: &Value, name: &str, schema: &Value, value: &Value) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/$defs/").expect("a local reference");
            self.walk(root, name, &root["$defs"][name], value);
        }
        for branch in schema["anyOf"].as_array().into_iter().flatten() {
            self.walk(root, name, branch, value);
        }
        // The branches of a type with a tag: the one whose tag the value has.
        let has_tag = |branch: &&Value| {
            let constants = branch["properties"].as_object().into_iter().flatten();
            let mut tags = constants.filter(|(_, field)| !field["const"].is_null()).peekable();
            tags.peek().is_some() && tags.all(|(tag, field)| value[tag] == field["const"])
        };
        for branch in schema["oneOf"].as_array().into_iter().flatten().filter(has_tag) {
            self.walk(root, name, branch, value);
        }
        for item in value.as_array().into_iter().flatten() {
            self.walk(root, name, &schema["items"], item);
        }
        for (key, member) in value.as_object().into_iter().flatten() {
            let field = &schema["properties"][key];
            if field.is_null() {
                self.walk(root, name, &schema["additionalProperties"], member);
            } else {
                self.seen.insert(format!("{name}.{key}"));
                self.walk(root, name, field, member);
            }
        }
    }
}

fn names(name: &str, schema: &Value) -> Vec<String> {
    schema["properties"].as_object().into_iter().flatten().map(|(field, _)| format!("{name}.{field}")).collect()
}
