//! The reference page of formats, made from their tables.

use std::fmt::Write as _;

use crate::registry::FORMATS;

/// Returns the page.
pub fn reference_page() -> String {
    let mut page = "# Formats of `assay import`\n\nWritten from the tables in `crates/foreign`; do not edit. How to import: [Import](../import.md).\n\n\
                    | format | versions | recognised by |\n| --- | --- | --- |\n"
        .to_owned();
    for format in FORMATS {
        let _ = writeln!(page, "| [{0}](#{0}) | {1} | {2} |", format.name, format.versions, format.recognised_by);
    }
    for format in FORMATS {
        let _ = write!(page, "\n## {}\n\nThis is {}.\n\n| field | treatment |\n| --- | --- |\n", format.name, format.title);
        for field in (format.fields)() {
            let _ = writeln!(page, "| `{}` | {} |", field.field, field.treatment);
        }
    }
    page
}
