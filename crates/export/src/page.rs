//! The reference page of the formats, made from their tables.

use std::fmt::Write as _;

use crate::format::{Content, ExportFormat, Needs};
use crate::registry::EXPORT_FORMATS;

/// Returns the page.
pub fn exports_page() -> String {
    let mut page = "# Formats of `assay export`\n\nWritten from the tables in `crates/export`; do not edit. How to export: \
                    [Exports](../exports.md).\n\nA field is written if Assay has it by the definition of the tool. The column *difference* says how a field that is written differs from \
                    what the tool writes, or why it is empty; a field that is left out has a reason.\n\n| format | tool | version | loads | needs |\n| --- | --- | --- | --- | --- |\n"
        .to_owned();
    for format in EXPORT_FORMATS {
        let needs = match format.needs {
            Needs::Manifests => "a store or a published folder",
            Needs::Records => "the store, which has the records of requests",
            Needs::Outputs => "the store, which has the outputs of scripts",
        };
        let _ =
            writeln!(page, "| [{0}](#{0}) | {1} | {2} | {3} | {needs} |", format.name, format.tool, format.version, format.loads);
    }
    for format in EXPORT_FORMATS {
        add_format(&mut page, format);
    }
    page
}

fn add_format(page: &mut String, format: &ExportFormat) {
    let _ = write!(
        page,
        "\n## {}\n\nFiles: {}.\n\n| field | content | difference |\n| --- | --- | --- |\n",
        format.name, format.files
    );
    for field in format.fields {
        let (content, difference) = match field.content {
            Content::Same(from) => (from, ""),
            Content::Differs(from, how) | Content::Empty(from, how) => (from, how),
            Content::LeftOut(_) => continue,
        };
        let _ = writeln!(page, "| `{}` | {content} | {difference} |", field.field);
    }
    page.push_str("\n| left out | reason |\n| --- | --- |\n");
    for (field, why) in format.left_out() {
        let _ = writeln!(page, "| `{field}` | {why} |");
    }
}
