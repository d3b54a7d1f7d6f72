//! Documents of other tools whose fields have a table, and the reader that goes down to these fields.
//!
//! The values of a table of [`Flag`]s are read as texts, as those of the options of a command are; the values of a table of [`Rule`]s are mapped as
//! they are.

use assay_spec::did_you_mean;
use serde_json::Value;

use crate::command::{Arguments, Flag, Takes, Treatment};
use crate::format::FieldDoc;
use crate::mapping::Mapping;
use crate::value::text;

/// The beginning of a value that llm-d-benchmark fills in before it hands a profile to another tool.
pub(crate) const PLACEHOLDER: &str = "REPLACE_";

/// The fields of a document whose values are texts. A field that is unknown is refused, and one that is null or empty is as good as absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// The tool, for a message about a field that is not in the table.
    pub(crate) tool: &'static str,
    pub(crate) table: &'static [Flag],
    /// The field that names the endpoint, which `--url` replaces.
    pub(crate) address: &'static str,
    /// The field that names the model, which `--model` replaces.
    pub(crate) model: &'static str,
    /// The field that names a tokenizer, whose value is not used.
    pub(crate) tokenizer: &'static str,
}

impl Fields {
    /// Reads the fields of a document. Those that are unknown, ignored or refused get their rows here.
    pub(crate) fn read(self, document: &Value, mapping: &mut Mapping<'_>) -> Arguments {
        let paths = Paths { all: self.table.iter().flat_map(|field| field.names).copied().collect(), empty_is_absent: true };
        let mut arguments = Arguments::default();
        for (path, value) in paths.given(document) {
            self.take(&paths, &path, value, &mut arguments, mapping);
        }
        arguments
    }

    fn take(self, paths: &Paths, path: &str, value: &Value, arguments: &mut Arguments, mapping: &mut Mapping<'_>) {
        let Some(field) = self.table.iter().find(|field| field.names.contains(&path)) else {
            return self.refuse_unknown(paths, path, mapping);
        };
        let values = texts(value);
        let is_carried = matches!(field.treatment, Treatment::Carried(_));
        if is_carried && path != self.tokenizer && values.iter().any(|value| value.starts_with(PLACEHOLDER)) {
            return mapping.placeholder(path, path == self.address, path == self.model);
        }
        if is_carried && field.takes == Takes::One && values.len() > 1 {
            return mapping.refused(path, "write one value: Assay has one for all loads of a workload");
        }
        arguments.take(field, values, mapping);
    }

    fn refuse_unknown(self, paths: &Paths, path: &str, mapping: &mut Mapping<'_>) {
        if let Some(list) = path.strip_suffix("[]") {
            return mapping.refused(path, &format!("write the `kind` of each: {}", paths.kinds(list).join(", ")));
        }
        let remedy = format!(
            "this is no field of {} that Assay knows: correct it, or remove it if the load does not depend on it{}",
            self.tool,
            paths.hint(path)
        );
        mapping.refused(path, &remedy);
    }
}

/// A field of a document whose value is mapped as it is.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its path. `*` as its last name stands for any one name.
    pub(crate) path: &'static str,
    /// The treatment, for the reference page.
    pub(crate) becomes: &'static str,
    /// Maps its value.
    apply: fn(&str, &Value, &mut Mapping<'_>),
    /// The paths of the members inside of its value that are read. Any other member gets a row of its own.
    members: &'static [&'static str],
}

/// The members of a value that is copied as it is.
pub(crate) const WHOLE: &[&str] = &["**"];
/// The most such members of a field that are named.
const MAX_UNREAD: usize = 100;

pub(crate) const fn rule(path: &'static str, becomes: &'static str, apply: fn(&str, &Value, &mut Mapping<'_>)) -> Rule {
    Rule { path, becomes, apply, members: &[] }
}

impl Rule {
    /// Names the members inside of the value that are read, such as `[].weight`; [`WHOLE`] for all of them.
    pub(crate) const fn reads(self, members: &'static [&'static str]) -> Self {
        Self { members, ..self }
    }

    /// Returns the members inside of a value that are not read, with their paths behind that of the field.
    fn unread(&self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        if self.members != WHOLE {
            add_unread(value, "", "", self.members, &mut found);
        }
        found
    }
}

/// Adds the members that are not read. `path` is that of the value with `[]` for each list, and `shown` has the places in them. Each step has a path
/// with which one of the members begins, so that these limit the depth.
fn add_unread(value: &Value, path: &str, shown: &str, members: &[&str], found: &mut Vec<String>) {
    let has_below =
        |path: &str| members.iter().any(|known| known.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '['])));
    match value {
        Value::Object(given) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let below = format!("{path}.{name}");
                let plain = below.trim_start_matches('.');
                if has_below(&below) || has_below(plain) {
                    add_unread(value, &below, &format!("{shown}.{name}"), members, found);
                } else if !members.contains(&plain) && found.len() < MAX_UNREAD {
                    found.push(format!("{shown}.{name}"));
                }
            }
        }
        Value::Array(items) if has_below(path) => {
            for (index, item) in items.iter().enumerate() {
                add_unread(item, &format!("{path}[]"), &format!("{shown}[{index}]"), members, found);
            }
        }
        _ => {}
    }
}

/// Returns the lines of the reference page about the fields of a table.
pub(crate) fn docs(rules: &[Rule]) -> Vec<FieldDoc> {
    rules.iter().map(|rule| FieldDoc { field: rule.path.to_owned(), treatment: rule.becomes.to_owned() }).collect()
}

/// Maps the fields of a document in the order of the table, and then ignores those that it does not know; `why` is the reason. Fields that
/// are refused already, or a part of which is, are left. A field that is null is as good as absent.
pub(crate) fn map_fields(rules: &'static [Rule], document: &Value, why: &str, mapping: &mut Mapping<'_>) {
    let paths = Paths { all: rules.iter().map(|rule| rule.path).collect(), empty_is_absent: false };
    let mut given = paths.given(document);
    given.retain(|(path, _)| !mapping.has_refused_part(path));
    for (index, rule) in rules.iter().enumerate() {
        for (path, value) in given.iter().filter(|(path, _)| paths.find(path) == Some(index)) {
            (rule.apply)(path, value, mapping);
            mapping.unread.extend(rule.unread(value).into_iter().map(|member| (path.clone(), member)));
        }
    }
    for (path, _) in given.iter().filter(|(path, _)| paths.find(path).is_none()) {
        mapping.ignored(path, &format!("{why}, and its value is not copied{}", paths.hint(path)));
    }
}

/// The paths of the fields of a table.
///
/// A path is names joined by dots, such as `spec.data[synthetic_text].turns`: an item of a list has its `kind` in the brackets, or nothing.
struct Paths {
    all: Vec<&'static str>,
    /// True if a field with an empty text, list or map is as good as absent.
    empty_is_absent: bool,
}

impl Paths {
    /// Returns the fields that a document gives, down to those of the table, in the order of the document.
    fn given<'a>(&self, document: &'a Value) -> Vec<(String, &'a Value)> {
        let mut given = Vec::new();
        self.descend("", document, &mut given);
        given
    }

    /// Goes down to the fields of the table: each step has a path with which one of the table begins, so that these limit the depth.
    fn descend<'a>(&self, path: &str, value: &'a Value, given: &mut Vec<(String, &'a Value)>) {
        match value {
            Value::Null => {}
            value if self.empty_is_absent && is_empty(value) => {}
            Value::Object(members) if path.is_empty() || self.has_below(path, '.') => {
                for (name, value) in members.iter().filter(|(name, _)| !states_kind(path, name)) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.descend(&path, value, given);
                }
            }
            Value::Array(items) if self.has_below(path, '[') => {
                for item in items {
                    self.descend(&self.path_of_item(path, item), item, given);
                }
            }
            _ => given.push((path.to_owned(), value)),
        }
    }

    /// Returns true if the table has fields below a path.
    fn has_below(&self, path: &str, separator: char) -> bool {
        self.all.iter().any(|known| known.strip_prefix(path).is_some_and(|rest| rest.starts_with(separator)))
    }

    fn path_of_item(&self, path: &str, item: &Value) -> String {
        let kind = item.get("kind").and_then(Value::as_str).unwrap_or_default();
        let named = format!("{path}[{kind}]");
        if self.all.iter().any(|known| known.starts_with(&named)) { named } else { format!("{path}[]") }
    }

    /// Returns the kinds of the items of a list that the table has.
    fn kinds(&self, list: &str) -> Vec<&'static str> {
        let kind = |path: &&'static str| path.strip_prefix(list)?.strip_prefix('[')?.split(']').next();
        let mut kinds = Vec::new();
        for kind in self.all.iter().filter_map(kind) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// Returns the place of a field in the table: that of its own path, or that of any name in its place.
    fn find(&self, path: &str) -> Option<usize> {
        let is_any_name = |known: &&str| {
            let name = known.strip_suffix('*').and_then(|parent| path.strip_prefix(parent));
            name.is_some_and(|name| !name.is_empty())
        };
        self.all.iter().position(|known| *known == path).or_else(|| self.all.iter().position(is_any_name))
    }

    /// Returns a suggestion for a field that is not in the table, behind a colon; empty if no name beside it is alike.
    fn hint(&self, path: &str) -> String {
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        let siblings = self.all.iter().filter_map(|known| {
            let rest = if parent.is_empty() { known } else { known.strip_prefix(parent)?.strip_prefix('.')? };
            rest.split(['.', '[']).next().filter(|sibling| *sibling != "*")
        });
        did_you_mean(name, siblings).map(|hint| format!(": {hint}")).unwrap_or_default()
    }
}

/// Returns true for the `kind` of an item that its path names.
fn states_kind(path: &str, name: &str) -> bool {
    name == "kind" && path.ends_with(']') && !path.ends_with("[]")
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns a scalar or each scalar of a list as a text; anything else as JSON.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(|item| text(item).unwrap_or_else(|| item.to_string())).collect(),
        value => vec![text(value).unwrap_or_else(|| value.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATHS: [&str; 6] = ["name", "labels.*", "data[text].turns", "data[].seed", "load", "load.rate"];

    fn given(document: &Value, empty_is_absent: bool) -> Vec<String> {
        let paths = Paths { all: PATHS.to_vec(), empty_is_absent };
        let line = |(path, value): (String, &Value)| format!("{path}={value}");
        paths.given(document).into_iter().map(line).collect()
    }

    #[test]
    fn the_reader_stops_at_the_fields_of_the_table() {
        let document = json!({
            "name": {"deep": {"deeper": 1}}, "labels": {"a": {"b": 1}}, "load": {"rate": 1},
            "data": [{"kind": "text", "turns": 2}, {"kind": "other", "seed": 3}, 4], "none": null,
        });
        let expected = [
            "data[].kind=\"other\"",
            "data[].seed=3",
            "data[]=4",
            "data[text].turns=2",
            "labels.a={\"b\":1}",
            "load.rate=1",
            "name={\"deep\":{\"deeper\":1}}",
        ];
        let mut found = given(&document, true);
        found.sort();
        assert_eq!(found, expected);
        assert_eq!(given(&json!({"load": 5}), true), ["load=5"], "a field may be a scalar in place of its members");
    }

    #[test]
    fn a_member_that_no_rule_reads_is_named() {
        let unread = |members: &'static [&'static str], value: Value| rule("f", "", |_, _, _| {}).reads(members).unread(&value);
        let list = json!([{"name": "a", "value": 1, "more": 2}, {"name": "b", "from": {"key": 1}}, 4]);
        assert_eq!(unread(&["[].name", "[].value", "[].from"], list.clone()), ["[0].more"]);
        assert_eq!(unread(&["[].name", "[].from.ref"], list.clone()), ["[0].more", "[0].value", "[1].from.key"]);
        assert_eq!(unread(WHOLE, list), [""; 0]);
        assert_eq!(unread(&[], json!({"a": {"b": 1}, "none": null})), [".a"]);
        assert_eq!(unread(&["a.b"], json!({"a": {"b": 1, "c": 2}})), [".a.c"]);
        assert_eq!(unread(&[], json!(["a", 1])), [""; 0], "scalars have no members");
    }

    #[test]
    fn an_empty_field_is_absent_in_the_tables_that_say_so() {
        let document = json!({"name": "", "load": {}, "data": [], "other": []});
        assert_eq!(given(&document, true), [""; 0]);
        assert_eq!(given(&document, false), ["name=\"\"", "other=[]"]);
    }

    /// Names with dots and empty names give no more steps than the table has.
    #[test]
    fn the_table_limits_the_depth() {
        let deep = (0..1_000).fold(json!(1), |inner, _| json!({"": inner, "load": 1}));
        assert!(given(&json!({"load": deep.clone(), "labels": deep.clone(), "name": deep}), false).len() < 10);
    }

    #[test]
    fn a_name_is_found_by_its_path_or_by_any_name() {
        let paths = Paths { all: PATHS.to_vec(), empty_is_absent: true };
        assert_eq!((paths.find("name"), paths.find("labels.x.y"), paths.find("labels.")), (Some(0), Some(1), None));
        assert_eq!(
            (paths.hint("nmae"), paths.hint("data[text].turn")),
            (": did you mean `name`?".to_owned(), ": did you mean `turns`?".to_owned())
        );
        assert_eq!((paths.hint("labels.label"), paths.hint("zzz")), (String::new(), String::new()));
        assert_eq!(paths.kinds("data"), ["text", ""]);
    }
}
