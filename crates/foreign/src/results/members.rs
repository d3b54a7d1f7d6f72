//! Labels of an object whose members no table lists: each value in it, whatever its depth, is one.

use serde_json::Value;

use super::format::{Label, Place};
use super::path::join;
use super::rows::{Labels, MAX_NAME_BYTES, shortened, shortened_value};

/// The members of an object that become labels.
pub(crate) struct Members<'a> {
    /// The path of the object.
    pub(crate) at: &'a str,
    /// The names of members that are no labels.
    pub(crate) but: &'a [&'a str],
    /// The labels of the table. The values that they name are none again.
    pub(crate) table: &'a [Label],
    /// The most labels.
    pub(crate) room: usize,
}

impl Members<'_> {
    /// Returns the labels of the values of an object or a list: `NAME.MEMBER.INNER=value`. The elements of a list have their member `name`, or else
    /// their place from 0, in the label. An object with more values than there is room for is one label.
    pub(crate) fn labels(&self, name: &str, object: &Value) -> Labels {
        let mut found = Labels::new();
        if self.add(self.at, name, object, &mut found) {
            return found;
        }
        Labels::from([(name.to_owned(), shortened_value(object.to_string()))])
    }

    /// Adds the labels of a value; returns false if there are too many.
    fn add(&self, path: &str, name: &str, value: &Value, found: &mut Labels) -> bool {
        match value {
            Value::Object(members) => members
                .iter()
                .filter(|(member, _)| !self.but.contains(&member.as_str()))
                .all(|(member, value)| self.add(&join(path, member), &format!("{name}.{member}"), value, found)),
            Value::Array(items) => items.iter().enumerate().all(|(place, item)| match own_name(items, item) {
                Some(own) => self.add(&format!("{path}[name={own}]"), &format!("{name}.{own}"), item, found),
                None => self.add(&format!("{path}[{place}]"), &format!("{name}.{place}"), item, found),
            }),
            _ => {
                let text = crate::value::label(value).filter(|_| !self.is_listed(path));
                found.extend(text.map(|text| (shortened(name.to_owned(), MAX_NAME_BYTES), shortened_value(text))));
                found.len() <= self.room
            }
        }
    }

    fn is_listed(&self, path: &str) -> bool {
        self.table.iter().any(|label| matches!(label.place, Place::At(listed) if listed == path))
    }
}

/// The most elements of a list that are told apart by their names.
const MAX_NAMED: usize = 16;

/// Returns the member `name` of an element, if no other element of the list has it.
fn own_name<'a>(items: &[Value], item: &'a Value) -> Option<&'a str> {
    let name = |item: &'a Value| item.get("name").and_then(Value::as_str);
    let own = name(item).filter(|own| !own.is_empty() && items.len() <= MAX_NAMED)?;
    (items.iter().filter(|other| other.get("name").and_then(Value::as_str) == Some(own)).count() == 1).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::format::label;
    use serde_json::json;

    const TABLE: &[Label] = &[label("entries", "data[name=main]/entries")];

    fn labels(object: &Value, room: usize) -> Vec<String> {
        let members = Members { at: "data", but: &["seed"], table: TABLE, room };
        members.labels("data", object).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn each_value_is_a_label_whatever_its_depth() {
        let data = json!([
            {"name": "main", "entries": 8, "seed": 7, "prompts": {"isl": {"mean": 50, "none": null}, "mix": [1, {"p": 2}]}},
            {"name": "other", "entries": 9.0, "streams": true},
        ]);
        let expected = [
            "data.main.name=main",
            "data.main.prompts.isl.mean=50",
            "data.main.prompts.mix.0=1",
            "data.main.prompts.mix.1.p=2",
            "data.other.entries=9",
            "data.other.name=other",
            "data.other.streams=true",
        ];
        assert_eq!(labels(&data, 7), expected);
        let equal = json!([{"name": "main", "a": 1}, {"name": "main", "a": 2}]);
        assert_eq!(labels(&equal, 9), ["data.0.a=1", "data.0.name=main", "data.1.a=2", "data.1.name=main"]);
        assert_eq!(labels(&json!("plain"), 9), ["data=plain"]);
        assert_eq!(labels(&Value::Null, 9), [""; 0]);
    }

    #[test]
    fn what_has_more_values_than_there_is_room_for_is_one_label() {
        let many = |last: u64| json!({"rows": (0..1_000).chain([last]).collect::<Vec<u64>>()});
        let [one, other] = [labels(&many(1), 64), labels(&many(2), 64)];
        assert_eq!((one.len(), other.len()), (1, 1));
        assert!(one[0].len() <= 1_010 && one[0].contains("... sha256:") && one != other, "{one:?}");
    }
}
