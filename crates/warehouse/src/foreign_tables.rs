//! The tables of foreign evidence. They are apart from the curated tables: no file of a warehouse holds their rows, which are made from signed
//! documents when a query reads them.

use crate::schema::{Column, ColumnPlaces, ROW_ID, Table};

/// The tables of foreign evidence. Only a query that asks for them reads them.
pub const FOREIGN_TABLES: [&Table; 3] = [&FOREIGN_EVIDENCE_DIM, &FOREIGN_OUTCOME_FACT, &FOREIGN_SAMPLE_FACT];

/// Returns the table of foreign evidence of this name.
pub fn foreign_table(name: &str) -> Option<&'static Table> {
    FOREIGN_TABLES.into_iter().find(|table| table.name == name)
}

const fn int(name: &'static str, doc: &'static str) -> Column {
    Column::int(name, doc).required()
}
const fn text(name: &'static str, doc: &'static str) -> Column {
    Column::text(name, doc).required()
}

const ID: &[Column] = &[text(ROW_ID, "The digest of the key columns, 64 hexadecimal digits.")];

const EVIDENCE: &[Column] = &[text("evidence_id", "The digest of the signed document: the id of the evidence.").key()];

/// A number's circumstances, and what it is.
const METRIC: &[Column] = &[
    text("labels", "The circumstances, such as the load: a canonical JSON object.").key(),
    text("metric", "The metric: with the prefix of the tool if that tool defines it, else defined by Assay.").key(),
    text("unit", "The unit."),
];

const GRADE: &[Column] = &[text("grade", "Always `foreign`: only the importer vouches for the number.")];

/// One row for each piece of foreign evidence.
pub static FOREIGN_EVIDENCE_DIM: Table = Table {
    name: "foreign_evidence_dim",
    grain: "piece of foreign evidence",
    doc: "Results of other tools that were imported.",
    reserved: None,
    groups: &[
        EVIDENCE,
        &[
            text("name", "The name that the importer gave it."),
            text("format", "The format of its files, such as `aiperf`."),
            Column::text("format_version", "The version of the format, if it is one of several tools."),
            Column::text("tool", "The tool that measured, if the format is one of several tools and a file names it."),
            Column::text("tool_version", "The version of the tool, if a file states it."),
            Column::instant("imported_at_ns", "The time of the import.").required(),
            text("importer_version", "The version of Assay that read the files."),
            text("signer", "The name of the importer's key in the trust policy, or else its fingerprint."),
            int("files", "The number of files."),
            int("numbers", "The number of rows of `foreign_outcome_fact`."),
            int("samples", "The number of rows of single requests or iterations."),
            int("not_read", "The number of values that were not read."),
            int("remarks", "The number of remarks on its files: figures that do not agree, and a version that is not known."),
        ],
        GRADE,
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each number.
pub static FOREIGN_OUTCOME_FACT: Table = Table {
    name: "foreign_outcome_fact",
    grain: "evidence x labels x metric x statistic",
    doc: "The numbers that files of other tools state.",
    reserved: None,
    groups: &[
        EVIDENCE,
        METRIC,
        &[
            text("statistic", "The statistic, such as `mean` or `p99`; `value` for a number that is none.").key(),
            Column::float("value", "The number, as the file states it.").required(),
        ],
        GRADE,
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each value of a single request or iteration.
pub static FOREIGN_SAMPLE_FACT: Table = Table {
    name: "foreign_sample_fact",
    grain: "evidence x sample x metric x place",
    doc: "The values of single requests or iterations, as files of other tools state them.",
    reserved: None,
    groups: &[
        EVIDENCE,
        &[int("sample", "The number of the request or iteration, from 0.").key()],
        METRIC,
        &[
            int("place", "The place of the value in a list, such as the gaps of one response, from 0.").key(),
            Column::float("value", "The value.").required(),
        ],
        GRADE,
        ID,
    ],
    places: ColumnPlaces::new(),
};
