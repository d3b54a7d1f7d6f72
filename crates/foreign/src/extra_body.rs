//! A JSON object that another tool adds to the body of each request last, so that its members take precedence over other options.

use serde_json::{Map, Value};

use crate::command::Arguments;
use crate::mapping::Mapping;

/// The members of such an object.
#[derive(Debug, Default)]
pub(crate) struct ExtraBody {
    /// The option or field that states it.
    option: &'static str,
    members: Map<String, Value>,
}

impl ExtraBody {
    /// Maps the object of an option; without the option, it is empty.
    pub(crate) fn map(arguments: &Arguments, option: &'static str, mapping: &mut Mapping<'_>) -> Self {
        let members = mapping.json_members(arguments, option).unwrap_or_default();
        mapping.body(option, &members);
        Self { option, members }
    }

    /// Maps an option that is a member of the body, or what the tool sends without one.
    pub(crate) fn map_member(&self, field: &str, name: &str, value: &Value, mapping: &mut Mapping<'_>) {
        if !self.replaces(field, name, mapping) {
            mapping.body_member(field, name, value);
        }
    }

    /// Maps an option that states `ignore_eos`, or what the tool sends without one.
    pub(crate) fn map_ignore_eos(&self, field: &str, ignores: bool, mapping: &mut Mapping<'_>) {
        if !self.replaces(field, "ignore_eos", mapping) {
            mapping.exact_output(field, ignores);
        }
    }

    /// Returns true if the object states a member, and so replaces that of a field. A field that is given gets its row.
    fn replaces(&self, field: &str, name: &str, mapping: &mut Mapping<'_>) -> bool {
        let replaces = self.members.contains_key(name);
        if replaces && !field.ends_with("(absent)") && !field.ends_with("(implied)") {
            mapping.ignored(field, &format!("`{}` states `{name}`, and takes precedence", self.option));
        }
        replaces
    }
}
