//! The prompts of serving workloads: synthetic ones, and those of datasets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Artifact, Count, LengthLaw, PinnedFile};

/// The largest number of tokens that a row of a dataset may record for its response.
pub const MAX_DATASET_TOKENS: u32 = 16_000_000;

words!(
    /// The format of a dataset.
    DatasetFormat, "format of a dataset",
    /// JSON Lines, or a JSON array: objects, or texts.
    Jsonl = "jsonl",
    /// ShareGPT: conversations, of which the first turn is the request.
    Sharegpt = "sharegpt",
    /// A batch file of OpenAI's API: a whole body in each line.
    OpenaiBatch = "openai_batch",
    /// Comma-separated values with a line of column names.
    Csv = "csv",
    /// One prompt in each line.
    Text = "text",
);

words!(
    /// The treatment of a prompt that is longer than allowed.
    OverLongPrompt, "treatment of long prompts",
    /// The dataset is refused.
    Refuse = "refuse",
    /// The end of the prompt is cut off, and the prompt is counted as truncated.
    Truncate = "truncate",
    /// The row is left out, and counted.
    Skip = "skip",
);

/// The range of token counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRange {
    /// The least.
    pub least: u32,
    /// The most.
    pub most: u32,
    /// The sum.
    pub sum: Count,
}

/// The numbers of an import of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetSummary {
    /// Rows of the file.
    pub read: Count,
    /// Rows that were kept.
    pub rows: Count,
    /// Rows that were left out because they have no prompt.
    pub without_prompt: Count,
    /// Rows that were left out because their prompt is too long.
    pub too_long: Count,
    /// Kept rows whose prompt was cut.
    pub truncated: Count,
    /// Tokens of the kept prompts, by the workload's tokenizer.
    pub input_tokens: TokenRange,
    /// Kept rows with a recorded length of the response that requests ask for.
    pub recorded_outputs: Count,
    /// These lengths, in tokens; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output_tokens: Option<TokenRange>,
}

impl DatasetSummary {
    /// Returns the mean of the recorded lengths of responses, in tokens; `None` if there are none.
    pub fn mean_output_tokens(&self) -> Option<f64> {
        let recorded = self.output_tokens.as_ref()?;
        Some(recorded.sum.0 as f64 / self.recorded_outputs.0 as f64)
    }
}

/// A dataset: the prompts of requests, pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// The file as it was published.
    pub file: PinnedFile,
    /// Its format.
    pub format: DatasetFormat,
    /// The imported rows: JSON Lines, one content of a request in each.
    pub rows: Artifact,
    /// The place and the token counts of each row.
    pub index: Artifact,
    /// The numbers of the import.
    pub summary: DatasetSummary,
    /// The most tokens that a response may have if neither the row nor a distribution says how many; absent if the endpoint decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_output_tokens: Option<u32>,
}

/// The source of prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
pub enum PromptSource {
    /// Words that are drawn by a seed.
    Synthetic {
        /// Tokens of the prompt, or of each document.
        input: LengthLaw,
        /// Tokens of the query; absent if the API takes none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        query: Option<LengthLaw>,
    },
    /// The rows of a dataset, in random order, each once before any is repeated.
    Dataset(Box<Dataset>),
}

impl PromptSource {
    /// Returns the dataset, if prompts come from one.
    pub fn dataset(&self) -> Option<&Dataset> {
        match self {
            Self::Dataset(dataset) => Some(dataset),
            Self::Synthetic { .. } => None,
        }
    }
}
