//! Writes imported rows and their index, by the rules of a workload.

mod sessions;

use std::fmt::Write as _;
use std::io::Write;

use assay_api::ServingApi;
use assay_manifest::{
    Count, DatasetSummary, MAX_SESSION_TURNS, MessageRole, OverLongPrompt, TemplateUse, TokenRange, UnreadMembers,
};

use serde_json::Value;

use crate::index::{CONTINUES, INDEX_FORMAT, MAX_ROWS, TRACE_SESSIONS_FORMAT, TracePlace};
use crate::row::plain_messages;
use crate::session::HeldSessions;
use crate::trace::{BlockTree, Timeline};
use crate::{Conversation, DatasetError, FileRow, IndexedRow, LeftOut, LeftOutReason, Row, RowContent, TraceSession, Turn};

pub use crate::trace::{MAX_BLOCKS, TimeRules};

/// The number of times that a cut prompt is counted again: a cut may merge tokens otherwise than the whole text.
const CUTS: u32 = 8;

/// Counts and cuts texts by the tokenizer of the workload. Errors are texts for people.
pub trait TextTokens {
    /// Returns the number of tokens of a text.
    fn count(&self, text: &str) -> Result<u64, String>;

    /// Returns the longest beginning of a text with at most this many tokens.
    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String>;

    /// Returns the text that the workload's chat template makes of messages, each with its author and its text, which follow one of `before`
    /// or begin a conversation; `None` if only the texts of messages are counted.
    fn in_template(&self, _before: Option<MessageRole>, _messages: &[(MessageRole, &str)]) -> Option<Result<String, String>> {
        None
    }

    /// Renders the chat template for whole prompts, and returns the place of the first one of which it makes another text than the one that
    /// [`in_template`](Self::in_template) gives.
    fn first_other_in_template(&self, _prompts: Vec<Vec<(MessageRole, String)>>) -> Result<Option<usize>, String> {
        Ok(None)
    }

    /// Returns the text that the chat template puts behind the last message of a prompt.
    #[expect(clippy::unnecessary_literal_bound, reason = "implementations return a text of their own")]
    fn end_of_prompts(&self) -> &str {
        ""
    }
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

/// The factor by which the imported rows may be larger than their file. Text compresses to a tenth, and columns that repeat a long text to less.
const MAX_GROWTH: u64 = 100;

/// The bytes that the rows of any file may have: 4 GiB. It is far more than text compresses to, because prompts that share a long beginning
/// compress further: those of 10,000 requests with 32,000 tokens in common have 1.3 GB, in a file of a few MB.
const LEAST_MAX_BYTES: u64 = 4 << 30;

/// The rules by which rows are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImportRules {
    /// The API that is called.
    pub api: ServingApi,
    /// The most tokens of a prompt.
    pub max_input: Option<u32>,
    /// The treatment of a prompt with more. A conversation with a turn that has more is left out, or ended before that turn.
    pub over: OverLongPrompt,
    /// The use of recorded lengths of responses.
    pub output: RecordedOutput,
    /// The use of times; `None` if the rows are not replayed at them.
    pub times: Option<TimeRules>,
    /// True if rows are whole conversations, or belong to the sessions of a trace, whose turns are sent one after the other.
    pub sessions: bool,
    /// The side that applies a chat template whose tokens are a part of each prompt; `None` if only texts are counted.
    pub template: Option<TemplateUse>,
}

impl ImportRules {
    /// Rules of chats without a limit, which use recorded lengths and no times, and keep every row as a request of its own.
    pub const UNLIMITED: Self = Self {
        api: ServingApi::Chat,
        max_input: None,
        over: OverLongPrompt::Refuse,
        output: RecordedOutput::Used { at_most: None },
        times: None,
        sessions: false,
        template: None,
    };

    /// Returns true if requests can have this content: messages, too, if the client makes them one text.
    fn take(&self, content: &RowContent) -> bool {
        content.fits(self.api) || self.take_messages() && matches!(content, RowContent::Messages(_) | RowContent::Turn(_))
    }

    /// Returns true if requests can have messages, or the text that the client makes of them.
    fn take_messages(&self) -> bool {
        self.api.takes_messages() || self.template == Some(TemplateUse::Apply)
    }

    /// Returns the use of times if the sessions of a trace are played.
    pub(crate) fn trace_sessions(&self) -> Option<TimeRules> {
        self.times.filter(|_| self.sessions)
    }
}

/// The numbers of an import.
pub type ImportSummary = DatasetSummary;

/// The tokens of a row to write.
struct RowTokens {
    /// Of the whole prompt.
    input: u64,
    /// Of the response, if requests ask for a recorded length.
    output: Option<u32>,
    /// The leading tokens of the prompt that an earlier row has as well.
    reused: u64,
}

/// The bytes of prompts for which the chat template is rendered at a time.
const RENDERED_BYTES: usize = 1 << 20;

/// A message: its author and its text.
type Message = (MessageRole, String);

/// Prompts for which the chat template is rendered together, each with its row.
#[derive(Default)]
struct Unrendered {
    prompts: Vec<(u64, Vec<Message>)>,
    bytes: usize,
}

/// The part of a conversation up to a turn, within the chat template.
#[derive(Default)]
struct Said {
    tokens: u64,
    /// The messages that are counted.
    messages: Vec<Message>,
    /// The response behind it.
    response: Vec<Value>,
}

/// The turns of a conversation before the first one that is too long.
#[derive(Default)]
struct FittingTurns {
    turns: Vec<RowTokens>,
    /// The prompt of each turn in the chat template: so many messages of `messages`, from the first one on. Empty without a template.
    prompts: Vec<usize>,
    messages: Vec<Message>,
}

/// The place of a row in time.
#[derive(Clone, Copy, Default)]
struct RowPlace {
    /// In nanoseconds since the start of the trace.
    at_ns: u64,
    /// Its place in its session, if that is one of a trace.
    in_session: Option<TracePlace>,
}

/// A writer of imported rows and their index.
pub struct RowWriter<'a, R, I> {
    rules: ImportRules,
    tokens: &'a dyn TextTokens,
    rows: R,
    index: I,
    offset: u64,
    /// The most bytes of all rows together.
    max_bytes: u64,
    timeline: Option<Timeline>,
    blocks: BlockTree,
    /// The prompts for which the chat template has not been rendered yet.
    unrendered: Unrendered,
    /// The turns of a trace's sessions that are not written yet.
    held: HeldSessions,
    summary: ImportSummary,
}

impl<'a, R: Write, I: Write> RowWriter<'a, R, I> {
    /// Creates a writer of rows to `rows` and of their index to `index`.
    pub fn new(rules: ImportRules, tokens: &'a dyn TextTokens, rows: R, mut index: I) -> Result<Self, DatasetError> {
        let format = if rules.trace_sessions().is_some() { TRACE_SESSIONS_FORMAT } else { INDEX_FORMAT };
        index.write_all(format!("{format}\n").as_bytes()).map_err(DatasetError::Write)?;
        let (timeline, blocks) = (rules.times.map(Timeline::new), BlockTree::default());
        let (held, summary) = (HeldSessions::default(), ImportSummary::default());
        let unrendered = Unrendered::default();
        Ok(Self { rules, tokens, rows, index, offset: 0, max_bytes: u64::MAX, timeline, blocks, unrendered, held, summary })
    }

    /// Limits all rows together to what a file of this many bytes may become: compressed columns and dictionaries of values repeat a text for next to
    /// nothing, and a small file must not fill a disk.
    #[must_use]
    pub fn of_file(self, bytes: u64) -> Self {
        Self { max_bytes: bytes.saturating_mul(MAX_GROWTH).max(LEAST_MAX_BYTES), ..self }
    }

    /// Writes a row of the file, counted from 1, or counts the reason why it has no prompt. A row that the rules leave out is counted. A
    /// conversation becomes as many rows as it has turns. The turns of a trace's sessions are written once all sessions are known, unless a
    /// row has a whole one.
    pub fn write(&mut self, number: u64, row: Result<FileRow, LeftOut>) -> Result<(), DatasetError> {
        self.summary.read.0 += 1;
        if let Ok(
            FileRow::Request(Row { unread: Some(names), .. }) | FileRow::Session(TraceSession { unread: Some(names), .. }),
        ) = &row
        {
            self.count_unread(names);
        }
        if let Some(rules) = self.rules.trace_sessions() {
            return self.take_turns(number, row, rules);
        }
        let time = match &row {
            Ok(FileRow::Request(row)) => row.time,
            Ok(FileRow::Conversation(_) | FileRow::Session(_)) => None,
            Err(left_out) => left_out.time,
        };
        let admitted_ns = match &mut self.timeline {
            None => 0,
            Some(timeline) => match timeline.admit(number, time)? {
                Some(admitted_ns) => admitted_ns,
                None => return Ok(()),
            },
        };
        match row {
            Ok(FileRow::Request(row)) => self.write_request(number, row, admitted_ns),
            Ok(FileRow::Conversation(conversation)) => self.write_conversation(number, conversation, admitted_ns),
            Ok(FileRow::Session(_)) => Err(DatasetError::row(number, "is a session, and sessions are not played")),
            Err(left_out) => {
                self.count_left_out(left_out.reason);
                Ok(())
            }
        }
    }

    fn count_unread(&mut self, names: &[String]) {
        let unread = self.summary.unread.get_or_insert_default();
        unread.rows.0 += 1;
        if names.iter().any(|name| !unread.names.contains(name)) {
            unread.names.extend_from_slice(names);
            unread.names.sort_unstable();
            unread.names.dedup();
            unread.names.truncate(UnreadMembers::MAX_NAMES);
        }
    }

    fn count_left_out(&mut self, reason: LeftOutReason) {
        match reason {
            LeftOutReason::NoPrompt => self.summary.without_prompt.0 += 1,
            LeftOutReason::NoResponse => self.summary.without_response.get_or_insert_default().0 += 1,
            LeftOutReason::TooManyTurns => self.summary.too_many_turns.get_or_insert_default().0 += 1,
        }
    }

    fn write_request(&mut self, number: u64, mut row: Row, admitted_ns: u64) -> Result<(), DatasetError> {
        if !self.rules.take(&row.content) {
            return Err(self.api_error(number, row.content.kind()));
        }
        let mut input = self.input_tokens(number, &row.content)?;
        if let Some(max) = self.max_below(input) {
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
        let output = self.output_tokens(number, &row)?;
        let reused = match &row.content {
            RowContent::Blocks(blocks) => self.blocks.add(number, blocks)?,
            RowContent::Prompt(_) | RowContent::Messages(_) | RowContent::Body(_) | RowContent::Turn(_) => 0,
        };
        let tokens = RowTokens { input, output, reused: u64::from(reused) };
        self.render_later(number, &row.content)?;
        let place = self.place(admitted_ns);
        self.append(number, &row.content, place, tokens, false)
    }

    /// Returns the place of an admitted row.
    fn place(&mut self, admitted_ns: u64) -> RowPlace {
        RowPlace { at_ns: self.timeline.as_mut().map_or(0, |timeline| timeline.place(admitted_ns)), in_session: None }
    }

    /// Writes the turns of a conversation, up to the first one that is too long if the rules say so.
    fn write_conversation(&mut self, number: u64, conversation: Conversation, admitted_ns: u64) -> Result<(), DatasetError> {
        if !self.rules.take_messages() {
            return Err(self.api_error(number, "a conversation"));
        }
        let fitting = self.count_turns(number, &conversation)?;
        let is_too_long = fitting.turns.len() < conversation.turns().len();
        if fitting.turns.is_empty() || is_too_long && self.rules.over == OverLongPrompt::Skip {
            self.summary.too_long.0 += 1;
            return Ok(());
        }
        self.summary.truncated.0 += u64::from(is_too_long);
        self.summary.sessions.get_or_insert_default().0 += 1;
        for messages in fitting.prompts {
            self.render_prompt_later(number, fitting.messages.iter().take(messages).cloned().collect())?;
        }
        for (place, (turn, tokens)) in conversation.into_turns().into_iter().zip(fitting.turns).enumerate() {
            let at = self.place(admitted_ns);
            self.append(number, &RowContent::Turn(turn), at, tokens, place > 0)?;
        }
        Ok(())
    }

    /// Returns the turns before the first one that is too long. Each text is counted once, because a prompt is the one before it, the response
    /// to that, and the messages of its own turn.
    fn count_turns(&self, number: u64, conversation: &Conversation) -> Result<FittingTurns, DatasetError> {
        let (mut fitting, mut reused, mut said) = (FittingTurns::default(), 0_u64, Said::default());
        for (place, turn) in conversation.turns().iter().enumerate() {
            let input = match self.rules.template {
                None => reused.saturating_add(self.count_all(number, turn.texts())?),
                Some(_) => self.prompt_of_turn(number, &mut said, turn)?,
            };
            if let Some(max) = self.max_below(input) {
                if self.rules.over == OverLongPrompt::Refuse {
                    return Err(DatasetError::TurnTooLong { row: number, turn: place as u64 + 1, tokens: input, max });
                }
                break;
            }
            let response = self.count_all(number, turn.response_texts())?;
            let counted = u32::try_from(response).unwrap_or(u32::MAX);
            let recorded = conversation.output_tokens(place).or(Some(counted));
            fitting.turns.push(RowTokens { input, output: self.requested_tokens(recorded), reused });
            fitting.prompts.extend(self.rules.template.map(|_| said.messages.len()));
            reused = input.saturating_add(response);
        }
        Ok(FittingTurns { messages: said.messages, ..fitting })
    }

    /// Returns the tokens of the prompt of a turn within the chat template, and adds the turn to what was said.
    fn prompt_of_turn(&self, row: u64, said: &mut Said, turn: &Turn) -> Result<u64, DatasetError> {
        let messages = [said.response.as_slice(), &turn.messages].concat();
        let texts = plain_messages(&messages, said.messages.len()).map_err(|why| DatasetError::row(row, why))?;
        check_last(row, &texts)?;
        let added = self.in_template(row, said.messages.last().map(|(role, _)| *role), &texts)?;
        said.tokens = said.tokens.saturating_add(self.count(row, &added)?);
        said.messages.extend(texts.iter().map(|(role, text)| (*role, (*text).to_owned())));
        said.response = turn.response.iter().cloned().collect();
        Ok(said.tokens.saturating_add(self.count(row, self.tokens.end_of_prompts())?))
    }

    fn in_template(
        &self,
        row: u64,
        before: Option<MessageRole>,
        messages: &[(MessageRole, &str)],
    ) -> Result<String, DatasetError> {
        let made = self.tokens.in_template(before, messages).unwrap_or_else(|| Err("there is no chat template".to_owned()));
        made.map_err(|reason| DatasetError::Tokens { row, reason })
    }

    fn api_error(&self, row: u64, content: &'static str) -> DatasetError {
        DatasetError::Api { row, content, api: self.rules.api.as_str() }
    }

    /// Returns the limit of prompts if this many tokens are more.
    fn max_below(&self, tokens: u64) -> Option<u32> {
        self.rules.max_input.filter(|max| tokens > u64::from(*max))
    }

    /// Ends the files, and returns the writers with the numbers of the import.
    pub fn finish(mut self) -> Result<(R, I, ImportSummary), DatasetError> {
        if let Some(rules) = self.rules.trace_sessions() {
            self.write_held(rules)?;
        }
        self.render()?;
        if self.summary.rows.0 == 0 {
            let times = self.rules.times;
            let left_out = self.left_out();
            return Err(match times {
                Some(_) => DatasetError::EmptyTrace(left_out),
                None => DatasetError::Empty(left_out),
            });
        }
        self.summary.times = self.timeline.map(Timeline::finish);
        self.summary.blocks = self.blocks.finish();
        self.rows.flush().and_then(|()| self.index.flush()).map_err(DatasetError::Write)?;
        Ok((self.rows, self.index, self.summary))
    }

    /// Returns the reasons why no row is left, with their numbers.
    fn left_out(self) -> String {
        let ImportSummary { read, without_prompt, too_long, without_response, too_many_turns, .. } = self.summary;
        if read.0 == 0 {
            return "the file has no row".to_owned();
        }
        let mut text = format!("of {} rows, {} have no prompt and {} are too long", read.0, without_prompt.0, too_long.0);
        if let Some(failed) = without_response {
            let _ = write!(text, ", {} record no response", failed.0);
        }
        if let Some(conversations) = too_many_turns {
            let _ = write!(text, ", {} have more than {MAX_SESSION_TURNS} turns", conversations.0);
        }
        if let Some(times) = self.timeline.map(Timeline::finish) {
            let (outside, not_sampled) = (times.outside_window.0, times.not_sampled.0);
            let _ = write!(text, ", {outside} lie outside of the window and {not_sampled} are not in the sample");
        }
        text
    }

    /// Writes one row. `continues` is true for a turn that continues the session of the row before it.
    fn append(
        &mut self,
        number: u64,
        content: &RowContent,
        place: RowPlace,
        tokens: RowTokens,
        continues: bool,
    ) -> Result<(), DatasetError> {
        if self.summary.rows.0 == MAX_ROWS {
            return Err(DatasetError::TooManyRows);
        }
        let too_large = || DatasetError::RowTooLarge(number);
        let mut line = serde_json::to_vec(content).map_err(|error| DatasetError::Write(error.into()))?;
        let bytes = u32::try_from(line.len()).ok().filter(|bytes| *bytes < CONTINUES).ok_or_else(too_large)?;
        let narrow = |tokens: u64| u32::try_from(tokens).map_err(|_| too_large());
        let (input_tokens, reused_tokens) = (narrow(tokens.input)?, narrow(tokens.reused)?);
        line.push(b'\n');
        let (at_ns, output_tokens) = (place.at_ns, tokens.output);
        let row = IndexedRow { offset: self.offset, at_ns, bytes, input_tokens, output_tokens, reused_tokens, continues };
        if row.end() > self.max_bytes {
            return Err(DatasetError::TooMuchText { row: number, most: self.max_bytes });
        }
        self.rows.write_all(&line).and_then(|()| self.index.write_all(&row.to_bytes())).map_err(DatasetError::Write)?;
        if let Some(in_session) = place.in_session {
            self.index.write_all(&in_session.to_bytes()).map_err(DatasetError::Write)?;
        }
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

    /// Returns the tokens of a prompt: the sum over its texts, or those of the whole within the workload's chat template. Without one, what the
    /// endpoint's template adds is in the endpoint's count only.
    fn input_tokens(&self, row: u64, content: &RowContent) -> Result<u64, DatasetError> {
        if let RowContent::Blocks(blocks) = content {
            return Ok(u64::from(blocks.tokens));
        }
        if self.rules.template.is_none() {
            return self.count_all(row, content.texts());
        }
        let messages = content.messages().map_err(|why| DatasetError::row(row, why))?;
        check_last(row, &messages)?;
        let text = self.in_template(row, None, &messages)? + self.tokens.end_of_prompts();
        self.count(row, &text)
    }

    /// Has the workload's chat template, if it has one, rendered for a prompt that is written.
    fn render_later(&mut self, row: u64, content: &RowContent) -> Result<(), DatasetError> {
        if self.rules.template.is_none() {
            return Ok(());
        }
        let messages = content.messages().map_err(|why| DatasetError::row(row, why))?;
        self.render_prompt_later(row, messages.iter().map(|(role, text)| (*role, (*text).to_owned())).collect())
    }

    /// Has the chat template rendered for a prompt, once there are many.
    fn render_prompt_later(&mut self, row: u64, prompt: Vec<Message>) -> Result<(), DatasetError> {
        let unrendered = &mut self.unrendered;
        unrendered.bytes += prompt.iter().map(|(_, text)| text.len()).sum::<usize>();
        unrendered.prompts.push((row, prompt));
        if unrendered.bytes < RENDERED_BYTES && unrendered.prompts.len() < MAX_SESSION_TURNS as usize {
            return Ok(());
        }
        self.render()
    }

    /// Refuses a prompt of which the chat template makes another text than is put together: it looks at what messages say, or how many there are.
    fn render(&mut self) -> Result<(), DatasetError> {
        let unrendered = std::mem::take(&mut self.unrendered);
        let (rows, prompts): (Vec<u64>, Vec<Vec<Message>>) = unrendered.prompts.into_iter().unzip();
        let first = rows.first().copied().unwrap_or(0);
        let other = self.tokens.first_other_in_template(prompts).map_err(|reason| DatasetError::Tokens { row: first, reason })?;
        match other.map(|place| rows.get(place).copied().unwrap_or(first)) {
            Some(row) => Err(DatasetError::row(
                row,
                "has a prompt of which the chat template makes another text than of others: it looks at what messages say, or how many there are",
            )),
            None => Ok(()),
        }
    }

    fn output_tokens(&self, number: u64, row: &Row) -> Result<Option<u32>, DatasetError> {
        if self.rules.output == RecordedOutput::Unused {
            return Ok(None);
        }
        let counted = match (&row.output_tokens, &row.output) {
            (Some(tokens), _) => Some(*tokens),
            (None, Some(text)) => Some(u32::try_from(self.count(number, text)?).unwrap_or(u32::MAX)),
            (None, None) => None,
        };
        Ok(self.requested_tokens(counted))
    }

    /// Returns the tokens of a response that a request asks for, from the recorded ones.
    fn requested_tokens(&self, recorded: Option<u32>) -> Option<u32> {
        let RecordedOutput::Used { at_most } = self.rules.output else { return None };
        // A response of no token cannot be asked for.
        recorded.filter(|tokens| *tokens > 0).map(|tokens| tokens.min(at_most.unwrap_or(u32::MAX - 1)))
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

    fn count_all(&self, row: u64, texts: Vec<&str>) -> Result<u64, DatasetError> {
        texts.into_iter().try_fold(0_u64, |sum, text| Ok(sum.saturating_add(self.count(row, text)?)))
    }

    fn count(&self, row: u64, text: &str) -> Result<u64, DatasetError> {
        self.tokens.count(text).map_err(|reason| DatasetError::Tokens { row, reason })
    }
}

/// Refuses a prompt whose last message is not of the user: a chat template would begin a response to nothing.
fn check_last(row: u64, messages: &[(MessageRole, &str)]) -> Result<(), DatasetError> {
    match messages.last() {
        Some((MessageRole::User, _)) => Ok(()),
        _ => Err(DatasetError::row(
            row,
            "has a prompt that does not end with a message of `user`, and a chat template begins a response there",
        )),
    }
}

fn add(range: &mut TokenRange, tokens: u32, is_first: bool) {
    range.least = if is_first { tokens } else { range.least.min(tokens) };
    range.most = range.most.max(tokens);
    range.sum = Count(range.sum.0.saturating_add(u64::from(tokens)));
}

#[cfg(test)]
mod tests;
