//! The normal form of a checked value: the JSON that is digested.

use serde_json::Value as Json;

use crate::check::default_value;
use crate::checked_value::{CheckedValue, Value};
use crate::field::{Need, Table, Type};

/// Returns a value of this type as JSON, without parts that equal a default.
pub(crate) fn normal_json(value: &CheckedValue, kind: &Type) -> Json {
    match (&value.value, kind) {
        (Value::Map(_), Type::Object(table)) => normal_object(value, table),
        (Value::Map(_), Type::Shapes { map: Some(kind), .. }) | (Value::List(_), Type::Shapes { list: Some(kind), .. }) => {
            normal_json(value, kind)
        }
        (Value::Map(members), Type::Map { value: kind, .. }) => {
            members.iter().map(|(key, value)| (key.clone(), normal_json(value, kind))).collect()
        }
        (Value::List(items), Type::List { item, .. }) => items.iter().map(|value| normal_json(value, item)).collect(),
        _ => value.plain_json(),
    }
}

fn normal_object(object: &CheckedValue, table: &Table) -> Json {
    let fields = table.fields.iter().filter_map(|field| {
        let value = object.member(field.name)?;
        let is_default = matches!(field.need, Need::Default(json) if default_value(field, json).as_ref() == Some(value));
        (!is_default).then(|| (field.name.to_owned(), normal_json(value, field.kind)))
    });
    fields.collect()
}
