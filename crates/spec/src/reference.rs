//! The field tables as a page for people.

use std::fmt::Write as _;

use crate::definition::DefinitionKind;
use crate::field::{Choice, Field, Need, Rule, Table, Type};
use crate::format::TEXT;
use crate::tables::REFERENCE;

/// The reference page of a kind of definition, in Markdown.
pub fn reference(kind: DefinitionKind) -> String {
    let mut tables: Vec<(String, &'static Table)> = vec![(String::new(), kind.table())];
    let mut page = format!("# {kind}\n\n{}\n", kind.table().doc);
    let mut next = 0;
    while let Some((path, table)) = tables.get(next).cloned() {
        next += 1;
        if !path.is_empty() {
            let _ = write!(page, "\n## {path}\n\n{}\n", table.doc);
        }
        table.rules.iter().for_each(|rule| page.push_str(&rule_text(rule)));
        page.push_str("\n| field | value | default | meaning |\n| --- | --- | --- | --- |\n");
        for field in table.fields {
            page.push_str(&row(table, field));
            tables.extend(nested(&join(&path, field.name), field.kind));
        }
        table.fields.iter().for_each(|field| page.push_str(&choices(field)));
    }
    page
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn rule_text(rule: &Rule) -> String {
    let (number, names) = match rule {
        Rule::ExactlyOne(names) => ("Exactly", names),
        Rule::AtLeastOne(names) => ("At least", names),
    };
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("\n{number} one of {} is given.\n", names.join(", "))
}

fn row(table: &Table, field: &Field) -> String {
    let need = match field.need {
        Need::Required => "required".to_owned(),
        Need::RequiredFor(choices) => format!("required for {}", words(choices)),
        Need::Optional => "none".to_owned(),
        Need::Default(json) => format!("`{}`", if json.len() > 60 { "all six" } else { json.trim_matches('"') }),
    };
    let only = match (table.by, field.only) {
        (Some(by), [_, ..]) => format!(" Only for `{by}`: {}.", words(field.only)),
        _ => String::new(),
    };
    format!("| `{}` | {} | {need} | {}{only} |\n", field.name, value(field.kind), field.doc)
}

fn words(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn value(kind: &Type) -> String {
    match kind {
        Type::Text(format) if format.what == TEXT.what || format.example.contains('\n') => format.what.to_owned(),
        Type::Text(format) => format!("{}, such as `{}`", format.what, format.example),
        Type::Choice([only]) => format!("`{}`", only.word),
        Type::Choice(_) => "one of the words below".to_owned(),
        Type::Bool => "`true` or `false`".to_owned(),
        Type::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Type::Number { min, above_min, max } => {
            format!("a number {} {min}, at most {max}", if *above_min { "above" } else { "from" })
        }
        Type::Scalar => "a text, number or boolean, kept as written".to_owned(),
        Type::List { item, max, .. } => format!("a list of at most {max}: {}", value(item)),
        Type::Map { key, value: kind, max, .. } => format!("a map of at most {max}: {} to {}", key.what, value(kind)),
        Type::Object(table) => format!("a map: {}", table.name),
        Type::Reference => format!("`from_env` or `from_file`: a {}", REFERENCE.name),
        Type::Shapes { scalar, list, map } => {
            [scalar, list, map].into_iter().flatten().map(|kind| value(kind)).collect::<Vec<_>>().join("; or ")
        }
    }
}

/// The tables inside a value, each under its path.
fn nested(path: &str, kind: &'static Type) -> Vec<(String, &'static Table)> {
    match kind {
        Type::Object(table) => vec![(path.to_owned(), table)],
        Type::List { item, .. } => nested(&format!("{path}[]"), item),
        Type::Map { value, .. } => nested(&format!("{path}.*"), value),
        Type::Shapes { scalar, list, map } => {
            [scalar, list, map].into_iter().flatten().flat_map(|kind| nested(path, kind)).collect()
        }
        _ => Vec::new(),
    }
}

fn choices(field: &Field) -> String {
    let Some(choices) = words_of(field.kind).filter(|choices| choices.len() > 1) else { return String::new() };
    let lines: Vec<_> = choices.iter().map(|choice| format!("- `{}`: {}\n", choice.word, choice.doc)).collect();
    format!("\n`{}`:\n\n{}", field.name, lines.concat())
}

fn words_of(kind: &'static Type) -> Option<&'static [Choice]> {
    match kind {
        Type::Choice(choices) => Some(choices),
        Type::List { item, .. } => words_of(item),
        _ => None,
    }
}
