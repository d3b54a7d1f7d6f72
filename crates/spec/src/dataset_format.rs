//! The format of a dataset or trace, as it is written or as a name tells it.

use assay_manifest::DatasetFormat;

use crate::checked_value::CheckedValue;

/// Returns the format of a dataset or trace: as written, or as the name of its file tells it.
pub(crate) fn format_of(file: &CheckedValue) -> Option<DatasetFormat> {
    let written = file.text_of("format").and_then(|format| format.parse::<DatasetFormat>().ok());
    written.or_else(|| format_by_name(file.text_of("path").or(file.text_of("url"))?))
}

/// Returns the format that the ending of a file's name tells; `None` for one that several formats have, such as `.json`.
pub(crate) fn format_by_name(name: &str) -> Option<DatasetFormat> {
    let name = name.split(['?', '#']).next().unwrap_or_default();
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "jsonl" | "ndjson" => DatasetFormat::Jsonl,
        "csv" => DatasetFormat::Csv,
        "parquet" => DatasetFormat::Parquet,
        "txt" => DatasetFormat::Text,
        _ => return None,
    })
}
