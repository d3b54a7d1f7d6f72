//! The environment of a specification: parameters of the script, and references in the place of credentials.

use serde_json::{Value, json};

use super::accepts;
use crate::draft::{IndicatorDraft, Member, member};
use crate::mapping::Mapping;
use crate::results::find_credential;
use crate::value::{is_credential, shown_name, text};
use crate::yaml::Node;

/// The most variables of a specification.
const MAX_VARIABLES: usize = 100;

/// A variable of the script that is no credential.
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
}

/// Maps the environment. Returns the variables that are no credentials.
pub(super) fn map(document: &Value, work: &mut IndicatorDraft, mapping: &mut Mapping<'_>) -> Vec<Variable> {
    const FIELD: &str = "environment";
    let Some(given) = document.get(FIELD).filter(|given| !given.is_null()) else { return Vec::new() };
    let Some(items) = given.as_array().filter(|items| items.len() <= MAX_VARIABLES) else {
        mapping.refused(FIELD, "write a list of at most 100 variables, each with `name` and `value`");
        return Vec::new();
    };
    let mut variables = Vec::new();
    let mut references: Vec<Member> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
        let field = format!("{FIELD}[{index}]({})", shown_name(name));
        let is_replaced = items.iter().skip(index + 1).any(|later| later.get("name") == item.get("name"));
        let Some(value) = item.get("value").and_then(text).filter(|_| accepts(&parameter(name, "1"))) else {
            mapping.refused(&field, "write a `name` of letters, digits and `_`, and a `value` that is a text");
            continue;
        };
        if is_secret(name, &value) {
            mapping.has_credential(&field, &value);
            if !is_replaced {
                references.push(member(name, json!({"from_env": name})));
                let place =
                    format!("the pipeline takes it from the variable `{name}` of the environment in which `assay run` runs");
                mapping.secret(&field, "pipeline spec.targets[0].env", &place);
                continue;
            }
        }
        if is_replaced {
            mapping.ignored(&field, "a later variable of the same name replaces it");
        } else if value.chars().any(char::is_control) || !accepts(&parameter(name, &value)) {
            mapping.refused(&field, "a value is a text of one line: shorten it, or put it into one of the `files`");
        } else {
            state(&field, name, &value, mapping);
            variables.push(Variable { name: name.to_owned(), value });
        }
    }
    if !references.is_empty() {
        mapping.draft.target.push(("env".to_owned(), Node::Map(references)));
    }
    if !variables.is_empty() {
        let members = variables.iter().map(|variable| member(&variable.name, variable.value.clone())).collect();
        work.members.push(("parameters".to_owned(), Node::Map(members)));
    }
    variables
}

fn parameter(name: &str, value: &str) -> Member {
    ("parameters".to_owned(), Node::Map(vec![member(name, value)]))
}

/// Returns true if a variable may be a credential, by the rules for definitions and by those for files of other tools.
fn is_secret(name: &str, value: &str) -> bool {
    is_credential(name, value) || find_credential(&json!({"name": name, "value": value})).is_some()
}

/// States a difference to Amun, which wrote the variables into the recipe of an image without quotes.
fn state(field: &str, name: &str, value: &str, mapping: &mut Mapping<'_>) {
    let to = format!("workload spec.parameters.{name}");
    if value.contains(['$', '\\', '"', '\'']) || value.contains(char::is_whitespace) {
        let how = "the script gets the text as it is; Amun wrote it without quotes, so that spaces, quotes and `$` changed it";
        mapping.approximated(field, &to, how);
    } else {
        mapping.mapped(field, &to);
    }
}
