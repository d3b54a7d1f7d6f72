//! Foreign evidence: the results of another tool, frozen by digest, with the numbers that were read from them. Only its importer vouches
//! for it: Assay measured none of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::body;
use crate::{Artifact, Count, Digest, Instant};

/// A file of another tool, as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignFile {
    /// Its path in the folder that was imported, or its name.
    pub path: String,
    /// The part of the format that it is, such as `summary`.
    pub part: String,
    /// Its bytes.
    pub artifact: Artifact,
}

/// A number that a file of another tool states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignRow {
    /// The metric. A name with the prefix of the tool, such as `vllm.ttft`, is defined by that tool; one without is defined by Assay.
    pub metric: String,
    /// The statistic, such as `mean` or `p99`; `value` for a number that is none.
    pub statistic: String,
    /// The unit.
    pub unit: String,
    /// The number, as the file states it.
    pub value: f64,
    /// The circumstances that tell it apart from other rows, such as the load.
    pub labels: BTreeMap<String, String>,
}

/// Fields or files that were not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotRead {
    /// The field's path, with `[]` for each element of a list, or the file's path.
    pub field: String,
    /// The reason.
    pub why: String,
    /// The number of values.
    pub count: Count,
}

/// The program that read the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Importer {
    /// The version of Assay.
    pub version: String,
    /// The digest of the program.
    pub program: Digest,
}

/// The rows of single requests or iterations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignSamples {
    /// The number of rows.
    pub rows: Count,
    /// The unit of each metric.
    pub units: BTreeMap<String, String>,
    /// The rows: one JSON document a line, with `labels` and `values` by metric.
    pub artifact: Artifact,
}

/// Results of another tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignEvidence {
    /// The time of the import.
    pub imported_at: Instant,
    /// The format, such as `aiperf`.
    pub format: String,
    /// The version of the format; absent if the format is that of one tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub format_version: Option<String>,
    /// The tool that measured, as a file names it; absent if the format is that of one tool, or if no file names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The version of the tool; absent if no file states it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_version: Option<String>,
    /// The program that read the files.
    pub importer: Importer,
    /// The files.
    pub files: Vec<ForeignFile>,
    /// The numbers.
    pub rows: Vec<ForeignRow>,
    /// The rows of single requests or iterations; absent if the files have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub samples: Option<ForeignSamples>,
    /// The fields of these files that were not read.
    pub not_read: Vec<NotRead>,
    /// The other files of the folder, and its links, which were neither read nor frozen.
    pub left_out: Vec<NotRead>,
    /// The remarks on these files, in words: figures that do not agree, where nothing tells which is right, and a version whose files are not known.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub remarks: Vec<String>,
    /// The public key of the importer.
    pub key: Artifact,
}
body!(ForeignEvidence, |body| {
    body.files
        .iter()
        .map(|file| &file.artifact)
        .chain(body.samples.as_ref().map(|samples| &samples.artifact))
        .chain([&body.key])
        .collect()
});

impl ForeignEvidence {
    /// Returns the tool that measured with its version, and the format if it is one of several tools: `AIPerf 0.13.0`, `Benchmark Report 0.2 (made by
    /// vllm 0.3.0)`. `format` is the name of the format for people.
    pub fn origin(&self, format: &str) -> String {
        describe_origin(format, [&self.format_version, &self.tool, &self.tool_version].map(Option::as_deref))
    }

    /// The name of the importer's public key among the outputs.
    pub const KEY: &'static str = "keys/import.pub";

    /// The name of the rows of single requests or iterations among the outputs.
    pub const SAMPLES: &'static str = "samples.jsonl";

    /// The statistics of which one stands for its metric if none is named, the most preferred first.
    pub const PREFERRED_STATISTICS: [&'static str; 3] = ["mean", "value", "p50"];
}

/// Returns a format with its version, and the tool with its version, in words.
pub(crate) fn describe_origin(format: &str, [format_version, tool, tool_version]: [Option<&str>; 3]) -> String {
    match (format_version, tool, tool_version) {
        (None, None, Some(version)) => format!("{format} {version}"),
        (None, None, None) => format!("{format} of a version that its files do not state"),
        (format_version, tool, tool_version) => {
            let format = format_version.map_or_else(|| format.to_owned(), |version| format!("{format} {version}"));
            let made_by = match (tool, tool_version) {
                (Some(tool), Some(version)) => format!("{tool} {version}"),
                (Some(tool), None) => format!("{tool}, of a version that its files do not state"),
                (None, Some(version)) => format!("version {version} of a tool that its files do not name"),
                (None, None) => "a tool that its files do not name".to_owned(),
            };
            format!("{format} (made by {made_by})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::describe_origin;

    #[test]
    fn the_version_of_a_format_is_not_taken_for_that_of_a_tool() {
        let of = |stated: [Option<&str>; 3]| describe_origin("Report", stated);
        assert_eq!(of([None, None, Some("0.13.0")]), "Report 0.13.0");
        assert_eq!(of([None; 3]), "Report of a version that its files do not state");
        assert_eq!(of([Some("0.2"), Some("vllm"), Some("0.3.0")]), "Report 0.2 (made by vllm 0.3.0)");
        assert_eq!(of([Some("0.2"), Some("vllm"), None]), "Report 0.2 (made by vllm, of a version that its files do not state)");
        assert_eq!(
            of([Some("0.2"), None, Some("0.3.0")]),
            "Report 0.2 (made by version 0.3.0 of a tool that its files do not name)"
        );
    }
}
