//! The field tables as a page for people.

use std::fmt::Write as _;

use crate::define::DefinitionKind;
use crate::field::{Choice, Field, Need, Rule, Table, Type};
use crate::format::{Format, TEXT};
use crate::tables::{HEADER_SOURCE, REFERENCE};

/// Returns the reference page of a kind of definition, in Markdown.
pub fn reference_page(kind: DefinitionKind) -> String {
    let sections = sections(kind.table());
    let mut page = format!("# {kind}\n\nWritten from the field tables in `crates/spec`; do not edit.\n");
    for section in &sections {
        add_section(&mut page, section, &sections);
    }
    page
}

/// A table and the paths at which it may occur.
struct Section {
    paths: Vec<String>,
    table: &'static Table,
}

impl Section {
    /// Returns the heading; empty for the root, because the page's title is its heading.
    fn heading(&self) -> String {
        self.paths.join(", ")
    }

    /// Returns the anchor that forges make of the heading, for links: lower case, without punctuation, spaces as hyphens.
    fn anchor(&self) -> String {
        let kept = |letter: char| letter.is_ascii_alphanumeric() || "_- ".contains(letter);
        self.heading().to_ascii_lowercase().replace(|letter| !kept(letter), "").replace(' ', "-")
    }
}

/// Returns the tables under `root`, nearest first. A table that occurs at several paths has one section.
fn sections(root: &'static Table) -> Vec<Section> {
    let mut places: Vec<(String, &'static Table)> = vec![(String::new(), root)];
    let mut sections: Vec<Section> = Vec::new();
    let mut next = 0;
    while let Some((path, table)) = places.get(next).cloned() {
        next += 1;
        places.extend(table.fields.iter().flat_map(|field| nested(&join(&path, field.name), field.kind)));
        match sections.iter_mut().find(|section| std::ptr::eq(section.table, table)) {
            Some(section) => section.paths.push(path),
            None => sections.push(Section { paths: vec![path], table }),
        }
    }
    sections
}

// Writing to a String cannot fail.
fn add_section(page: &mut String, section: &Section, sections: &[Section]) {
    let table = section.table;
    if !section.heading().is_empty() {
        let _ = write!(page, "\n## {}\n", section.heading());
    }
    let _ = write!(page, "\n{}\n", table.doc);
    table.rules.iter().for_each(|rule| page.push_str(&rule_text(rule)));
    page.push_str("\n| field | value | default | meaning |\n| --- | --- | --- | --- |\n");
    table.fields.iter().for_each(|field| page.push_str(&row(table, field, sections)));
    table.fields.iter().for_each(|field| page.push_str(&choices(field)));
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn rule_text(rule: &Rule) -> String {
    let (number, condition) = match rule {
        Rule::ExactlyOne(_) => ("Exactly", String::new()),
        Rule::ExactlyOneFor(choice, _) => ("Exactly", format!(" for `{choice}`")),
        Rule::AtLeastOne(_) => ("At least", String::new()),
        Rule::AtLeastOneFor(choices, _) => ("At least", format!(" for {}", words(choices))),
    };
    let names: Vec<_> = rule.names().iter().map(|name| format!("`{name}`")).collect();
    format!("\n{number} one of {} is given{condition}.\n", names.join(", "))
}

fn row(table: &Table, field: &Field, sections: &[Section]) -> String {
    let need = match field.need {
        Need::Required => "required".to_owned(),
        Need::RequiredFor(choices) => format!("required for {}", words(choices)),
        Need::Optional => "none".to_owned(),
        // The one default that is too long for a cell.
        Need::Default(json) if json.len() > 60 => "all of them".to_owned(),
        Need::Default(json) => format!("`{}`", json.trim_matches('"')),
    };
    let only = match (table.selector, field.only) {
        (Some(by), [_, ..]) => format!(" Only for `{by}`: {}.", words(field.only)),
        _ => String::new(),
    };
    // An example in the field's own doc is better than that of its format.
    let value = ValueDescriber { sections, example: !field.doc.contains("such as") }.describe(field.kind);
    format!("| `{}` | {value} | {need} | {}{only} |\n", field.name, field.doc)
}

fn words(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The style in which values are described: with links to the sections, and with or without an example.
struct ValueDescriber<'a> {
    sections: &'a [Section],
    example: bool,
}

impl ValueDescriber<'_> {
    fn describe(&self, kind: &Type) -> String {
        match kind {
            Type::Text(format) => self.text(format),
            Type::Choice([only]) => format!("`{}`", only.word),
            Type::Choice(_) => "one of the words below".to_owned(),
            Type::Bool => "`true` or `false`".to_owned(),
            Type::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Type::IntegerOr { word, min, max } => format!("`{word}`, or a whole number from {min} to {max}"),
            Type::Number { min, above_min: true, max } => format!("a number above {min}, at most {max}"),
            Type::Number { min, above_min: false, max } => format!("a number from {min} to {max}"),
            Type::Scalar => "a text, number or boolean, kept as written".to_owned(),
            Type::List { item, max, .. } => format!("a list of at most {max}: {}", self.describe(item)),
            Type::Map { key, value, max, .. } => format!("a map of at most {max}: {} to {}", key.what, self.describe(value)),
            Type::Object(table) => self.object(table),
            Type::Reference => format!("`from_env` or `from_file`: a {}", REFERENCE.name),
            Type::HeaderSource => self.object(&HEADER_SOURCE),
            Type::Shapes { scalar, list, map } => {
                [scalar, list, map].into_iter().flatten().map(|kind| self.describe(kind)).collect::<Vec<_>>().join("; or ")
            }
        }
    }

    fn text(&self, format: &Format) -> String {
        if !self.example || format.what == TEXT.what || format.example.contains('\n') {
            return format.what.to_owned();
        }
        format!("{}, such as `{}`", format.what, format.example)
    }

    fn object(&self, table: &Table) -> String {
        match self.sections.iter().find(|section| std::ptr::eq(section.table, table)) {
            Some(section) => format!("a map: [{}](#{})", table.name, section.anchor()),
            None => format!("a map: {}", table.name),
        }
    }
}

/// Returns the tables inside a value, each under its path.
fn nested(path: &str, kind: &'static Type) -> Vec<(String, &'static Table)> {
    match kind {
        Type::Object(table) => vec![(path.to_owned(), table)],
        Type::HeaderSource => vec![(path.to_owned(), &HEADER_SOURCE)],
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
