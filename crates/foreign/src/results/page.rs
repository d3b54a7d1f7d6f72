//! The reference page of the formats of results, made from their tables.

use std::fmt::Write as _;

use super::direction::describe_direction;
use super::format::{Label, Part, Place, Relation, ResultFormat, ScopeKind};
use super::registry::RESULT_FORMATS;

/// Returns the page.
pub fn results_page() -> String {
    let mut page = "# Formats of `assay import results`\n\nWritten from the tables in `crates/foreign`; do not edit. How to import: \
                    [Foreign evidence](../foreign.md).\n\nA metric without a prefix is defined as [Assay defines it](metrics.md). Any other has the prefix of its \
                    tool, and the column *beside Assay* states the difference. A gate judges a metric \
                    only if the column *better* states a direction.\n\n| format | tool | versions | recognised by |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for format in RESULT_FORMATS {
        let _ =
            writeln!(page, "| [{0}](#{0}) | {1} | {2} | {3} |", format.name, format.tool, format.versions, format.recognised_by);
    }
    for format in RESULT_FORMATS {
        add_format(&mut page, format);
    }
    page
}

/// Returns the labels of a part with their places.
fn labels(part: &Part) -> Vec<(String, String)> {
    let place = |label: &Label| match label.place {
        Place::At(path) => (label.name.to_owned(), format!("`{}`", path.replace('/', "."))),
        Place::Members { at, but } => {
            let but = if but.is_empty() { String::new() } else { format!(", but `{}`", but.join("` and `")) };
            (format!("{}.NAME", label.name), format!("each value in `{}` that is no other label{but}", at.replace('/', ".")))
        }
        Place::Whole(path) => (label.name.to_owned(), format!("all of `{}`", path.replace('/', "."))),
        Place::Folder => (label.name.to_owned(), "the folder of the file".to_owned()),
    };
    let mut labels: Vec<(String, String)> = Vec::new();
    for found in part.scopes.iter().flat_map(|scope| scope.labels).map(place) {
        if !labels.contains(&found) {
            labels.push(found);
        }
    }
    labels
}

fn add_format(page: &mut String, format: &ResultFormat) {
    let _ = write!(page, "\n## {}\n\n", format.name);
    for example in format.examples {
        let _ = writeln!(page, "Example `{}`: {}.", example.name, example.origin);
    }
    let is_first = |(place, part): &(usize, &Part)| format.parts.iter().take(*place).all(|earlier| earlier.name != part.name);
    for (_, part) in format.parts.iter().enumerate().filter(is_first) {
        let _ = write!(page, "\n### {}: {}\n", format.name, part.name);
        let fields: Vec<_> = part.scopes.iter().flat_map(|scope| scope.fields.iter().map(move |field| (scope, field))).collect();
        if !fields.is_empty() {
            page.push_str("\n| field | metric | unit | statistic | better | definition of the tool | beside Assay |\n| --- | --- | --- | --- | --- | --- | --- |\n");
        }
        for (scope, field) in fields {
            let path = super::path::join(&super::path::without_conditions(scope.at), field.field).replace('/', ".");
            let relation = match field.relation {
                Relation::Equal => "equal".to_owned(),
                Relation::Differs(ours, how) => format!("`{ours}`: {how}"),
                Relation::Unlike => "no such metric".to_owned(),
            };
            let better = describe_direction(field.metric);
            let (unit, statistic) = (field.unit.describe(), field.shape.describe(field.field));
            let path = if path.is_empty() { "(each element)".to_owned() } else { path };
            let _ = writeln!(
                page,
                "| `{path}` | `{}` | {unit} | {statistic} | {better} | {} | {relation} |",
                field.metric, field.definition
            );
        }
        let labels = labels(part);
        if part.scopes.iter().any(|scope| scope.kind == ScopeKind::Beside) {
            page.push_str("\nIts labels are those of the numbers of the other files of its folder.\n");
        }
        if !labels.is_empty() {
            page.push_str("\n| label | place |\n| --- | --- |\n");
        }
        for (name, place) in labels {
            let _ = writeln!(page, "| `{name}` | {place} |");
        }
        if !part.not_read.is_empty() {
            page.push_str("\n| not read | reason |\n| --- | --- |\n");
        }
        for (field, why) in part.not_read {
            let _ = writeln!(page, "| `{}` | {why} |", field.replace('/', "."));
        }
    }
}
