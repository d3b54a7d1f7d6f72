//! A mapping inside a document, with its path, and the checks that rules consist of.

use serde_json::{Map, Value};

use crate::problem::Problem;

/// A mapping inside a document. One that is absent, or that is no mapping, has no members.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    path: String,
    members: Option<&'a Map<String, Value>>,
}

impl<'a> Part<'a> {
    pub(crate) fn root(document: &'a Value) -> Self {
        Self { path: String::new(), members: document.as_object() }
    }

    /// Returns a mapping of a list, and reports it if it is none.
    pub(crate) fn item(value: &'a Value, path: String, problems: &mut Vec<Problem>) -> Self {
        if !value.is_object() {
            problems.push(Problem::new(path.clone(), "expected mapping"));
        }
        Self { path, members: value.as_object() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members?.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the path of a member.
    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(crate) fn report(&self, name: &str, message: impl Into<String>, problems: &mut Vec<Problem>) {
        problems.push(Problem::new(self.path_of(name), message));
    }

    /// Returns a mapping, and reports it if it is absent or of another type.
    pub(crate) fn mapping(&self, name: &str, problems: &mut Vec<Problem>) -> Self {
        let members = self.get(name).and_then(Value::as_object);
        if members.is_none() {
            self.report(name, "expected mapping", problems);
        }
        Self { path: self.path_of(name), members }
    }

    /// Returns the items of a list, and reports it if it is absent or of another type.
    pub(crate) fn list(&self, name: &str, problems: &mut Vec<Problem>) -> &'a [Value] {
        let items = self.get(name).and_then(Value::as_array);
        if items.is_none() {
            self.report(name, "expected list", problems);
        }
        items.map(Vec::as_slice).unwrap_or_default()
    }

    /// Reports each of these members that is no text, or an empty one.
    pub(crate) fn expect_texts(&self, names: &[&str], problems: &mut Vec<Problem>) {
        for name in names.iter().filter(|name| self.text(name).is_none_or(str::is_empty)) {
            self.report(name, "expected non-empty string", problems);
        }
    }

    /// Reports each of these members that is not `true`.
    pub(crate) fn expect_true(&self, names: &[&str], message: &str, problems: &mut Vec<Problem>) {
        for name in names.iter().filter(|name| self.get(name) != Some(&Value::Bool(true))) {
            self.report(name, message, problems);
        }
    }

    /// Reports each of these members that is no boolean.
    pub(crate) fn expect_booleans(&self, names: &[&str], problems: &mut Vec<Problem>) {
        for name in names.iter().filter(|name| !self.get(name).is_some_and(Value::is_boolean)) {
            self.report(name, "expected boolean", problems);
        }
    }

    /// Returns a positive whole number, and reports it if it is absent or another value.
    pub(crate) fn positive(&self, name: &str, problems: &mut Vec<Problem>) -> Option<u64> {
        let number = self.get(name).and_then(Value::as_u64).filter(|number| *number > 0);
        if number.is_none() {
            self.report(name, "must be a positive integer", problems);
        }
        number
    }
}

/// Returns those of the required words that a list lacks, sorted; `None` if it has all of them.
pub(crate) fn missing(items: &[Value], required: &[&str]) -> Option<String> {
    let lacks = |word: &&&str| !items.iter().any(|item| item.as_str() == Some(**word));
    let lacking: Vec<&str> = required.iter().filter(lacks).copied().collect();
    (!lacking.is_empty()).then(|| words(&lacking))
}

/// Returns words as the contract's messages list them: `['a', 'b']`, sorted.
pub(crate) fn words(words: &[&str]) -> String {
    let mut sorted = words.to_vec();
    sorted.sort_unstable();
    format!("[{}]", sorted.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", "))
}

/// Returns the value at a path of names that are joined by dots; `None` if it is absent or null.
pub(crate) fn at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(document, |value, name| value.get(name)).filter(|value| !value.is_null())
}
