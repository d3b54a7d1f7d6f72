//! The field tables as JSON Schema (draft 2020-12), for editors and other programs.
//!
//! The schema covers single values; relations between values (unknown targets, order of stages) are checked in this crate only.

use serde_json::{Map, Value as Json, json};

use crate::define::DefinitionKind;
use crate::field::{Field, Need, Rule, Table, Type, Uniqueness};
use crate::format::Format;
use crate::tables::{API_VERSION, HEADER_SOURCE, REFERENCE};

/// Returns the JSON Schema of a kind of definition. Every object is closed.
pub fn json_schema(kind: DefinitionKind) -> Json {
    let mut schema = object(kind.table());
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("$id".to_owned(), json!(format!("https://{API_VERSION}/{kind}.schema.json")));
    schema.insert("title".to_owned(), json!(kind.as_str()));
    Json::Object(schema)
}

fn object(table: &'static Table) -> Map<String, Json> {
    let properties: Map<_, _> = table.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let required: Vec<_> = table.fields.iter().filter(|field| field.required_for(None)).map(|field| field.name).collect();
    let mut schema = members(json!({
        "type": "object", "description": table.doc, "properties": properties, "additionalProperties": false,
    }));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let conditions: Vec<_> = choices_of(table)
        .iter()
        .filter_map(|choice| condition(table, choice))
        .chain(table.rules.iter().map(|found| rule(table, found)))
        .collect();
    if !conditions.is_empty() {
        schema.insert("allOf".to_owned(), json!(conditions));
    }
    schema
}

fn members(value: Json) -> Map<String, Json> {
    if let Json::Object(members) = value { members } else { Map::new() }
}

fn property(field: &Field) -> Json {
    let mut schema = members(value(field.kind));
    schema.insert("description".to_owned(), json!(field.doc));
    if let Need::Default(default) = field.need {
        schema.insert("default".to_owned(), serde_json::from_str(default).unwrap_or_default());
    }
    Json::Object(schema)
}

fn choices_of(table: &'static Table) -> Vec<&'static str> {
    let field = table.selector.and_then(|by| table.field(by));
    match field.map(|field| field.kind) {
        Some(Type::Choice(choices)) => choices.iter().map(|choice| choice.word).collect(),
        _ => Vec::new(),
    }
}

/// Returns the fields that a choice of the deciding field requires and forbids.
fn condition(table: &Table, choice: &str) -> Option<Json> {
    let by = table.selector?;
    let always = |field: &&Field| !field.required_for(None);
    let required: Vec<_> =
        table.fields.iter().filter(always).filter(|field| field.required_for(Some(choice))).map(|field| field.name).collect();
    let foreign: Map<_, _> = table
        .fields
        .iter()
        .filter(|field| !field.belongs_to(Some(choice)))
        .map(|field| (field.name.to_owned(), Json::Bool(false)))
        .collect();
    if required.is_empty() && foreign.is_empty() {
        return None;
    }
    Some(json!({
        "if": {"properties": {by: {"const": choice}}, "required": [by]},
        "then": {"required": required, "properties": foreign},
    }))
}

fn rule(table: &Table, rule: &Rule) -> Json {
    let each = |names: &[&str]| names.iter().map(|name| json!({"required": [name]})).collect::<Vec<_>>();
    match rule {
        Rule::ExactlyOne(names) => json!({"oneOf": each(names)}),
        Rule::ExactlyOneFor(choice, names) => {
            let by = table.selector.unwrap_or_default();
            json!({"if": {"properties": {by: {"const": choice}}, "required": [by]}, "then": {"oneOf": each(names)}})
        }
        Rule::AtLeastOne(names) => json!({"anyOf": each(names)}),
        Rule::AtLeastOneFor(choices, names) => {
            let by = table.selector.unwrap_or_default();
            json!({"if": {"properties": {by: {"enum": choices}}, "required": [by]}, "then": {"anyOf": each(names)}})
        }
    }
}

fn value(kind: &'static Type) -> Json {
    match kind {
        Type::Text(format) => text(format),
        Type::Choice(choices) => {
            let words: Vec<_> = choices.iter().flat_map(|choice| [Some(choice.word), choice.alias]).flatten().collect();
            json!({"enum": words})
        }
        Type::Bool => json!({"type": "boolean"}),
        Type::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Type::IntegerOr { word, min, max } => json!({
            "oneOf": [{"const": word}, {"type": "integer", "minimum": min, "maximum": max}],
        }),
        Type::Number { min, above_min: true, max } => json!({"type": "number", "exclusiveMinimum": min, "maximum": max}),
        Type::Number { min, above_min: false, max } => json!({"type": "number", "minimum": min, "maximum": max}),
        Type::Scalar => json!({"type": ["string", "number", "boolean"]}),
        Type::List { item, min, max, unique } => {
            let unique = matches!(unique, Uniqueness::Item);
            json!({"type": "array", "items": value(item), "minItems": min, "maxItems": max, "uniqueItems": unique})
        }
        Type::Map { key, value: kind, min, max } => json!({
            "type": "object", "propertyNames": text(key), "additionalProperties": value(kind), "minProperties": min, "maxProperties": max,
        }),
        Type::Object(table) => Json::Object(object(table)),
        Type::Reference => Json::Object(object(&REFERENCE)),
        Type::HeaderSource => Json::Object(object(&HEADER_SOURCE)),
        Type::Shapes { scalar, list, map } => {
            let shapes: Vec<_> = [scalar, list, map].into_iter().flatten().map(|kind| value(kind)).collect();
            json!({"anyOf": shapes})
        }
    }
}

fn text(format: &Format) -> Json {
    let mut schema = members(json!({"type": "string", "minLength": 1, "maxLength": format.max, "examples": [format.example]}));
    if !format.pattern.is_empty() {
        schema.insert("pattern".to_owned(), json!(format.pattern));
    }
    Json::Object(schema)
}
