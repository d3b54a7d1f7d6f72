//! Writes imported rows and their index, by the rules of a workload.

use std::fmt::Write as _;
use std::io::Write;

use assay_api::ServingApi;
use assay_manifest::{Count, DatasetSummary, OverLongPrompt, TokenRange};

use crate::index::{CONTINUES, INDEX_FORMAT, MAX_ROWS};
use crate::trace::{BlockTree, Timeline};
use crate::{DatasetError, IndexedRow, LeftOut, LeftOutReason, Row, RowContent};

pub use crate::trace::{MAX_BLOCKS, TimeRules};

/// The number of times that a cut prompt is counted again: a cut may merge tokens otherwise than the whole text.
const CUTS: u32 = 8;

/// Counts and cuts texts by the tokenizer of the workload. Errors are texts for people.
pub trait TextTokens {
    /// Returns the number of tokens of a text.
    fn count(&self, text: &str) -> Result<u64, String>;

    /// Returns the longest beginning of a text with at most this many tokens.
    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String>;
}

/// The use of the recorded lengths of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedOutput {
    /// Requests ask for the recorded length, where a row has one, and for at most this many tokens.
    Used {
        /// The limit.
        at_most: Option<u32>,
    },
    /// Recorded lengths are left out of the index.
    Unused,
}

/// The rules by which rows are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImportRules {
    /// The API that is called.
    pub api: ServingApi,
    /// The most tokens of a prompt.
    pub max_input: Option<u32>,
    /// The treatment of a prompt with more.
    pub over: OverLongPrompt,
    /// The use of recorded lengths of responses.
    pub output: RecordedOutput,
    /// The use of times; `None` if the rows are not replayed at them.
    pub times: Option<TimeRules>,
}

/// The numbers of an import.
pub type ImportSummary = DatasetSummary;

/// A writer of imported rows and their index.
pub struct RowWriter<'a, R, I> {
    rules: ImportRules,
    tokens: &'a dyn TextTokens,
    rows: R,
    index: I,
    offset: u64,
    timeline: Option<Timeline>,
    blocks: BlockTree,
    summary: ImportSummary,
}

impl<'a, R: Write, I: Write> RowWriter<'a, R, I> {
    /// Creates a writer of rows to `rows` and of their index to `index`.
    pub fn new(rules: ImportRules, tokens: &'a dyn TextTokens, rows: R, mut index: I) -> Result<Self, DatasetError> {
        index.write_all(format!("{INDEX_FORMAT}\n").as_bytes()).map_err(DatasetError::Write)?;
        let (timeline, blocks) = (rules.times.map(Timeline::new), BlockTree::default());
        Ok(Self { rules, tokens, rows, index, offset: 0, timeline, blocks, summary: ImportSummary::default() })
    }

    /// Writes a row of the dataset, counted from 1, or counts the reason why a row of the file is no request. A row that the rules leave
    /// out is counted.
    pub fn write(&mut self, number: u64, row: Result<Row, LeftOut>) -> Result<(), DatasetError> {
        self.summary.read.0 += 1;
        let time = match &row {
            Ok(row) => row.time,
            Err(left_out) => left_out.time,
        };
        let admitted_ns = match &mut self.timeline {
            None => 0,
            Some(timeline) => match timeline.admit(number, time)? {
                Some(admitted_ns) => admitted_ns,
                None => return Ok(()),
            },
        };
        let mut row = match row {
            Ok(row) => row,
            Err(LeftOut { reason: LeftOutReason::NoPrompt, .. }) => {
                self.summary.without_prompt.0 += 1;
                return Ok(());
            }
            Err(LeftOut { reason: LeftOutReason::NoResponse, .. }) => {
                self.summary.without_response.get_or_insert_default().0 += 1;
                return Ok(());
            }
        };
        if !row.content.fits(self.rules.api) {
            return Err(DatasetError::Api { row: number, content: row.content.kind(), api: self.rules.api.as_str() });
        }
        let mut input = self.input_tokens(number, &row.content)?;
        if let Some(max) = self.rules.max_input.filter(|max| input > u64::from(*max)) {
            match self.rules.over {
                OverLongPrompt::Refuse => return Err(DatasetError::TooLong { row: number, tokens: input, max }),
                OverLongPrompt::Skip => {
                    self.summary.too_long.0 += 1;
                    return Ok(());
                }
                OverLongPrompt::Truncate => {
                    input = self.cut(number, &mut row.content, input, max)?;
                    self.summary.truncated.0 += 1;
                }
            }
        }
        let output_tokens = self.output_tokens(number, &row)?;
        self.append(number, &row.content, admitted_ns, input, output_tokens)
    }

    /// Ends the files, and returns the writers with the numbers of the import.
    pub fn finish(mut self) -> Result<(R, I, ImportSummary), DatasetError> {
        if self.summary.rows.0 == 0 {
            return Err(DatasetError::Empty(self.left_out()));
        }
        self.summary.times = self.timeline.map(Timeline::finish);
        self.summary.blocks = self.blocks.finish();
        self.rows.flush().and_then(|()| self.index.flush()).map_err(DatasetError::Write)?;
        Ok((self.rows, self.index, self.summary))
    }

    /// Returns the reasons why no row is left, with their numbers.
    fn left_out(self) -> String {
        let ImportSummary { read, without_prompt, too_long, without_response, .. } = self.summary;
        let mut text = format!("of {} rows, {} have no prompt and {} are too long", read.0, without_prompt.0, too_long.0);
        if let Some(failed) = without_response {
            let _ = write!(text, ", {} record no response", failed.0);
        }
        if let Some(times) = self.timeline.map(Timeline::finish) {
            let (outside, not_sampled) = (times.outside_window.0, times.not_sampled.0);
            let _ = write!(text, ", {outside} lie outside of the window and {not_sampled} are not in the sample");
        }
        text
    }

    fn append(
        &mut self,
        number: u64,
        content: &RowContent,
        admitted_ns: u64,
        input: u64,
        output_tokens: Option<u32>,
    ) -> Result<(), DatasetError> {
        if self.summary.rows.0 == MAX_ROWS {
            return Err(DatasetError::TooManyRows);
        }
        let mut line = serde_json::to_vec(content).map_err(|error| DatasetError::Write(error.into()))?;
        let bytes = u32::try_from(line.len()).ok().filter(|bytes| *bytes < CONTINUES);
        let bytes = bytes.ok_or(DatasetError::RowTooLarge(number))?;
        let input_tokens = u32::try_from(input).map_err(|_| DatasetError::RowTooLarge(number))?;
        line.push(b'\n');
        let reused_tokens = match content {
            RowContent::Blocks(blocks) => self.blocks.add(number, blocks)?,
            RowContent::Prompt(_) | RowContent::Messages(_) | RowContent::Body(_) => 0,
        };
        let at_ns = self.timeline.as_mut().map_or(0, |timeline| timeline.place(admitted_ns));
        let row = IndexedRow { offset: self.offset, at_ns, bytes, input_tokens, output_tokens, reused_tokens, continues: false };
        self.rows.write_all(&line).and_then(|()| self.index.write_all(&row.to_bytes())).map_err(DatasetError::Write)?;
        self.offset = row.end();
        self.summary.rows.0 += 1;
        if matches!(content, RowContent::Body(_)) {
            self.summary.whole_bodies.get_or_insert_default().0 += 1;
        }
        add(&mut self.summary.input_tokens, input_tokens, self.summary.rows.0 == 1);
        if let Some(tokens) = output_tokens {
            self.summary.recorded_outputs.0 += 1;
            let is_first = self.summary.recorded_outputs.0 == 1;
            add(self.summary.output_tokens.get_or_insert_default(), tokens, is_first);
        }
        Ok(())
    }

    /// Returns the tokens of a prompt: the sum over its texts. What a chat template adds is in the endpoint's count only.
    fn input_tokens(&self, row: u64, content: &RowContent) -> Result<u64, DatasetError> {
        if let RowContent::Blocks(blocks) = content {
            return Ok(u64::from(blocks.tokens));
        }
        content.texts().into_iter().try_fold(0_u64, |sum, text| Ok(sum.saturating_add(self.count(row, text)?)))
    }

    fn output_tokens(&self, number: u64, row: &Row) -> Result<Option<u32>, DatasetError> {
        let RecordedOutput::Used { at_most } = self.rules.output else { return Ok(None) };
        let counted = match (&row.output_tokens, &row.output) {
            (Some(tokens), _) => Some(*tokens),
            (None, Some(text)) => Some(u32::try_from(self.count(number, text)?).unwrap_or(u32::MAX)),
            (None, None) => None,
        };
        // A response of no token cannot be asked for.
        Ok(counted.filter(|tokens| *tokens > 0).map(|tokens| tokens.min(at_most.unwrap_or(u32::MAX - 1))))
    }

    /// Cuts the end of a prompt so that it has at most `max` tokens, and returns its tokens.
    fn cut(&self, row: u64, content: &mut RowContent, tokens: u64, max: u32) -> Result<u64, DatasetError> {
        if let RowContent::Blocks(blocks) = content {
            blocks.truncate(max);
            return Ok(u64::from(max));
        }
        let mut now = tokens;
        for _ in 0..CUTS {
            let over = now - u64::from(max);
            let Some(last) = content.last_text() else { break };
            let of_last = self.count(row, last)?;
            let Some(kept) = of_last.checked_sub(over).filter(|kept| *kept > 0) else {
                let problem = format!(
                    "has a prompt of {tokens} tokens, and its last message alone cannot be cut to the {max} tokens of `max_input`"
                );
                return Err(DatasetError::row(row, problem));
            };
            let cut = self.tokens.truncate(last, u32::try_from(kept).unwrap_or(u32::MAX));
            let length = cut.map_err(|reason| DatasetError::Tokens { row, reason })?.len();
            last.truncate(length);
            now = self.input_tokens(row, content)?;
            if now <= u64::from(max) && now > 0 {
                return Ok(now);
            }
        }
        Err(DatasetError::row(row, format!("has a prompt of {tokens} tokens that cannot be cut to {max}")))
    }

    fn count(&self, row: u64, text: &str) -> Result<u64, DatasetError> {
        self.tokens.count(text).map_err(|reason| DatasetError::Tokens { row, reason })
    }
}

fn add(range: &mut TokenRange, tokens: u32, is_first: bool) {
    range.least = if is_first { tokens } else { range.least.min(tokens) };
    range.most = range.most.max(tokens);
    range.sum = Count(range.sum.0.saturating_add(u64::from(tokens)));
}

#[cfg(test)]
mod tests;
