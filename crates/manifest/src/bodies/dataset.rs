//! The prompts of serving workloads: synthetic ones, and those of datasets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Artifact, Count, LengthLaw, PinnedFile};

/// The largest number of tokens that a row of a dataset may record for its response.
pub const MAX_DATASET_TOKENS: u32 = 16_000_000;

/// The most turns of a session, drawn or of a dataset.
pub const MAX_SESSION_TURNS: u32 = 1_000;

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
    /// Parquet: columns as the members of JSON Lines, or conversations of ShareGPT.
    Parquet = "parquet",
    /// One prompt in each line.
    Text = "text",
    /// Mooncake's traces: times, lengths and the blocks of each prompt.
    Mooncake = "mooncake",
    /// The traces of Alibaba Cloud's Bailian: like Mooncake's, with chats.
    Bailian = "bailian",
    /// Azure's traces of LLM inference: times and lengths.
    Azure = "azure",
    /// BurstGPT: times and lengths.
    Burstgpt = "burstgpt",
    /// JSON Lines of requests with times.
    TimedJsonl = "timed_jsonl",
    /// Weka's traces of coding agents: one session in each line, with times, lengths and blocks.
    Weka = "weka",
    /// TraceLab: one round of a session in each line, with times, lengths and what a cache had.
    Tracelab = "tracelab",
);

/// The bytes that a Parquet file begins with.
const PARQUET: &[u8] = b"PAR1";

impl DatasetFormat {
    /// Returns the format that the first bytes of a file tell: of those whose files begin with bytes of their own.
    pub fn by_first_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.starts_with(PARQUET).then_some(Self::Parquet)
    }

    /// Returns true if the rows of the format have times, so that they can be replayed.
    pub fn has_times(self) -> bool {
        match self {
            Self::Mooncake | Self::Bailian | Self::Azure | Self::Burstgpt | Self::TimedJsonl | Self::Weka | Self::Tracelab => {
                true
            }
            Self::Jsonl | Self::Sharegpt | Self::OpenaiBatch | Self::Csv | Self::Parquet | Self::Text => false,
        }
    }

    /// Returns true if the rows of the format can be whole conversations, whose turns are sent one after the other.
    pub fn has_conversations(self) -> bool {
        matches!(self, Self::Jsonl | Self::Sharegpt | Self::Parquet)
    }

    /// Returns true if the rows of a trace of the format may name their sessions, so that these can be played turn by turn.
    pub fn has_trace_sessions(self) -> bool {
        self.has_times() && self != Self::Azure
    }

    /// Returns true if a trace of the format consists of sessions, and its requests mean nothing outside of them.
    pub fn needs_sessions(self) -> bool {
        matches!(self, Self::Weka | Self::Tracelab)
    }

    /// Returns true if a trace of the format records when its sessions began, so that they can be played at these times.
    pub fn has_session_starts(self) -> bool {
        self.has_trace_sessions() && self != Self::Weka
    }

    /// Returns true if the rows of the format have texts, and not lengths from which texts are made.
    pub fn has_texts(self) -> bool {
        match self {
            Self::Jsonl | Self::Sharegpt | Self::OpenaiBatch | Self::Csv | Self::Parquet | Self::Text | Self::TimedJsonl => true,
            Self::Mooncake | Self::Bailian | Self::Azure | Self::Burstgpt | Self::Weka | Self::Tracelab => false,
        }
    }

    /// Returns true if the members or columns of the format have names that a workload may choose.
    pub fn has_fields(self) -> bool {
        matches!(self, Self::Jsonl | Self::Csv | Self::Parquet | Self::TimedJsonl)
    }
}

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
    /// Rows of the file; if they are whole conversations, each is one.
    pub read: Count,
    /// Rows that were kept; of conversations, each turn is one.
    pub rows: Count,
    /// Conversations that were kept; absent if rows are not turns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sessions: Option<Count>,
    /// Rows or conversations that were left out because they have no prompt.
    pub without_prompt: Count,
    /// Rows of a trace that were left out because they record no token of a response: failed requests.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub without_response: Option<Count>,
    /// Conversations that were left out because they have more turns than a session may have; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub too_many_turns: Option<Count>,
    /// Rows that were left out because their prompt is too long, or conversations because a turn's prompt is.
    pub too_long: Count,
    /// Kept rows whose prompt was cut, or conversations that were ended before their first turn that is too long.
    pub truncated: Count,
    /// Kept rows that are whole bodies of requests; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub whole_bodies: Option<Count>,
    /// Tokens of the kept prompts, by the workload's tokenizer. The prompt of a turn is all that was said before, and what the turn adds.
    pub input_tokens: TokenRange,
    /// Kept rows with a recorded length of the response that requests ask for.
    pub recorded_outputs: Count,
    /// These lengths, in tokens; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output_tokens: Option<TokenRange>,
    /// The times of a trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub times: Option<TraceTimes>,
    /// The blocks of prompts; absent if no row has any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocks: Option<BlockSummary>,
    /// The members of rows that the format of a trace does not have; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unread: Option<UnreadMembers>,
}

/// Members, or columns, of the rows of a trace that its format does not have. They are not read; one may be a misspelt optional one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnreadMembers {
    /// Rows with such a member.
    pub rows: Count,
    /// The names, in alphabetical order: the first eight, without those that look like texts.
    pub names: Vec<String>,
}

impl UnreadMembers {
    /// The most names.
    pub const MAX_NAMES: usize = 8;
}

/// The times of an imported trace, at its own speed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceTimes {
    /// From the first kept row, or the start of the window, to the last kept row, in nanoseconds.
    pub span_ns: Count,
    /// The most kept rows within one second, wherever it begins.
    pub busiest_second: Count,
    /// Rows that were left out because they lie outside of the window.
    pub outside_window: Count,
    /// Rows that were left out by the sample.
    pub not_sampled: Count,
    /// Gaps that were cut to the longest allowed one, the time from the start of the window to the first kept row included.
    pub gaps_cut: Count,
    /// The time that was taken out of these gaps, in nanoseconds.
    pub cut_ns: Count,
    /// The turns of its sessions, if they are played turn by turn. Times are then those after longer pauses were cut, and no other gaps are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turns: Option<TraceTurns>,
}

/// The kept turns of the sessions of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceTurns {
    /// The pauses before later turns, unless the response before them called a tool.
    pub think_time: TracePauses,
    /// The pauses after responses that called a tool; none if the format does not record tool calls.
    pub tool_time: TracePauses,
    /// Later turns whose pause includes the service time of the turn before, because the trace records no end of its response.
    pub without_end: Count,
    /// Later turns that began before the recorded end of the response before: they are sent at its end.
    pub overlapping: Count,
    /// Turns that continue an earlier turn of their session than the one before. They are sent in the order of their times.
    pub branches: Count,
    /// Subagents that were left out: duplicates, those without a request, and those that began before any turn that could have spawned them.
    pub subagents: Count,
    /// The requests of these subagents.
    pub subagent_requests: Count,
    /// The subagents that are played as streams of their own; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub forks: Option<TraceForks>,
    /// Prompts that are longer than their blocks together: what follows the blocks is like no other prompt.
    pub beyond_blocks: Count,
    /// Prompts that end with a whole block.
    pub whole_blocks: Count,
    /// Prompts whose last block is partial.
    pub partial_blocks: Count,
    /// The messages that the blocks of prompts belong to; absent if the trace or the API has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub roles: Option<TraceRoles>,
}

/// The messages of the prompts of a trace, which follow from the lengths of the system prompt and of responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceRoles {
    /// The messages of all prompts. A chat template adds its marks to each of them.
    pub messages: Count,
    /// The tokens of their system messages.
    pub system_tokens: Count,
    /// The tokens of their messages of the user.
    pub user_tokens: Count,
    /// The tokens of their messages of the model.
    pub assistant_tokens: Count,
    /// Prompts that do not begin with all whole blocks of the prompt before, so that messages were dropped or replaced.
    pub cut: Count,
}

/// The subagents of a trace, each of which is a stream of turns beside that of the turn that spawned it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceForks {
    /// Subagents, each with at least one turn.
    pub subagents: Count,
    /// Their turns.
    pub turns: Count,
    /// Subagents that a turn of the stream that spawned them waits for.
    pub joined: Count,
    /// Subagents that were left out because the trace has them twice.
    pub duplicates: Count,
    /// The streams of the session that has most of them, its own included.
    pub most_streams: u32,
    /// The origin of the times of their requests; absent if the trace is the same by both.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub times: Option<SubagentTimes>,
}

/// The origin of the times of the requests of subagents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubagentTimes {
    /// The start of the session, as of all other requests.
    Session,
    /// The start of the subagent.
    Subagent,
}

/// The pauses of one kind before later turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TracePauses {
    /// Turns with such a pause before them.
    pub turns: Count,
    /// The sum of the pauses, without what was cut, in nanoseconds.
    pub sum_ns: Count,
    /// Pauses that were cut to the longest allowed one.
    pub cut: Count,
    /// The time that was taken out of them, in nanoseconds.
    pub cut_ns: Count,
}

/// The blocks of the prompts of an imported trace: equal ids are equal tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockSummary {
    /// Tokens of a block, of which the last one of a prompt may have fewer; 0 if sessions have blocks of different sizes.
    pub tokens: u32,
    /// Different blocks of the kept rows.
    pub distinct: Count,
    /// Kept rows without any block.
    pub rows_without: Count,
    /// The sum over the kept rows of their leading tokens that an earlier kept row has as its leading tokens: what a prefix cache
    /// without limits would hold, if it worked in these blocks.
    pub reused_tokens: Count,
}

impl Dataset {
    /// States what rows of a trace lack although its format has it, and what they have although it has not.
    pub fn field_notes(&self) -> Vec<String> {
        let DatasetSummary { rows, blocks, unread, .. } = &self.summary;
        let has_blocks = matches!(self.format, DatasetFormat::Mooncake | DatasetFormat::Bailian | DatasetFormat::Weka);
        let no_blocks = (has_blocks && blocks.is_none() && rows.0 > 0)
            .then(|| "no row has `hash_ids`, so that no prompts begin alike".to_owned());
        let unread = unread.as_ref().map(|UnreadMembers { rows, names }| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let names = if names.is_empty() { "names that look like texts".to_owned() } else { names.join(", ") };
            format!("{rows} of its rows have members that are not read: {names}")
        });
        no_blocks.into_iter().chain(unread).collect()
    }
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

/// The beginnings that synthetic prompts have in common: all of them the first tokens, and those of a group the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedPrefix {
    /// Tokens that all prompts begin with, like a system prompt.
    pub system: u32,
    /// The number of groups.
    pub groups: u32,
    /// Tokens that the prompts of a group have next.
    pub group: u32,
    /// The exponent `s` of Zipf's law: a request belongs to group `k`, from 1, with a probability in proportion to `1 / k^s`. 0 makes groups
    /// equally likely.
    pub zipf: f64,
}

impl SharedPrefix {
    /// Returns the tokens of the whole beginning.
    pub fn tokens(&self) -> u32 {
        self.system.saturating_add(self.group)
    }
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
        /// The beginnings that prompts have in common, before `input`; absent if they have none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        prefix: Option<SharedPrefix>,
    },
    /// The rows of a dataset: in random order, each once before any is repeated, or of a trace, in its order and once.
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
