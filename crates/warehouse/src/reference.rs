//! The reference page of the tables, generated from the same descriptions as their schemas.

use std::fmt::Write as _;

use crate::schema::{Column, Table};
use crate::{FOREIGN_TABLES, TABLES};

/// Returns the text of the reference page, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Curated tables\n\nWritten from the tables' descriptions in `crates/warehouse`; do not edit. Durations are whole \
         nanoseconds, instants are UTC. A row's id is the digest of its key columns (marked *key*), except in `workload_dim`, \
         where it is the `workload_spec_digest`. A reserved column is always null until the source that it names fills it.\n",
    );
    page.push_str("\n| table | contents |\n| --- | --- |\n");
    for table in TABLES {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} |", table.name, first_sentence(table.doc));
    }
    for table in TABLES {
        add_table(&mut page, table);
    }
    page.push_str(
        "\n## Tables of foreign evidence\n\nOnly `assay query --foreign` reads these. No file of the warehouse holds their rows: they are \
         made from the signed documents of the store when a query reads them.\n",
    );
    for table in FOREIGN_TABLES {
        add_table(&mut page, table);
    }
    page
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

// Writing to a String cannot fail.
fn add_table(page: &mut String, table: &Table) {
    let reserved = table.reserved.map(|source| format!(" Reserved for {source}: nothing writes it yet.")).unwrap_or_default();
    let _ = write!(page, "\n## {}\n\n{} One row per {}.{reserved}\n\n", table.name, table.doc, table.grain);
    page.push_str("| column | type | unit | null | meaning |\n| --- | --- | --- | --- | --- |\n");
    for column in table.columns() {
        add_column(page, column);
    }
}

fn add_column(page: &mut String, column: &Column) {
    let Column { name, kind, doc, reserved, .. } = column;
    let key = if column.key { " *key*" } else { "" };
    let null = if column.nullable { "yes" } else { "no" };
    let reserved = reserved.map(|source| format!(" *Reserved for {source}.*")).unwrap_or_default();
    let _ = writeln!(page, "| `{name}`{key} | {kind} | {} | {null} | {doc}{reserved} |", column.unit.unwrap_or(""));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_on_the_page() {
        let page = reference();
        let all = || TABLES.iter().chain(&FOREIGN_TABLES);
        assert_eq!(page.matches("\n## ").count(), all().count() + 1);
        assert_eq!(page.matches("\n| [`").count(), TABLES.len());
        assert_eq!(page.matches("\n| `").count(), all().map(|table| table.columns().count()).sum::<usize>());
        assert!(!page.contains("| |  |"), "no empty cells that break the table");
    }

    #[test]
    fn a_table_s_section_reads_well() {
        let mut section = String::new();
        add_table(&mut section, &crate::CLUSTER_REGION_DIM);
        insta::assert_snapshot!(section, @r#"

        ## cluster_region_dim

        The place of a target, and of the run's own pods. Null if it is not known; `local` runs have a cluster of that name. One row per slice of a scheduler.

        | column | type | unit | null | meaning |
        | --- | --- | --- | --- | --- |
        | `cluster` *key* | text |  | no | The cluster; `local` without one. |
        | `region` *key* | text |  | yes | The region. |
        | `availability_zone` *key* | text |  | yes | The availability zone. |
        | `node_pool` *key* | text |  | yes | The node pool. |
        | `queue` *key* | text |  | yes | The queue. |
        | `scheduler_path` *key* | text |  | yes | The scheduling path, such as `local`. |
        | `resource_flavor` *key* | text |  | yes | The resource flavor. |
        | `tenant_mode` *key* | text |  | yes | `dedicated` or `shared`. |
        | `row_id` | text |  | no | The digest of the key columns, 64 hexadecimal digits; part of a number's address. |
        "#);
    }
}
