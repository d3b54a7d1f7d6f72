//! The requests of single rows of a dataset or trace, each with all that it sends.

use std::cell::OnceCell;
use std::sync::Arc;

use assay_api::RequestInput;
use assay_dataset::{MessageRole, RowContent, RowReader, TokenBlocks, Turn};
use assay_load::{Cause, PlannedRequest};
use assay_manifest::{CacheMode, CaptureMode, ServingWork};
use assay_schedule::{BlockTexts, ScheduledRequest, TrialSchedule};
use assay_tokens::{Prompt, SALT_WORDS, Tokenizer};
use serde_json::json;

/// The plan's dataset was not opened.
pub(super) const NO_DATASET: &str = "the rows of the dataset are not at hand";

/// A generator of the requests of rows. Copies make the same requests.
#[derive(Clone)]
pub(crate) struct RowRequests<'a> {
    tokenizer: Arc<Tokenizer>,
    rows: Option<Arc<RowReader>>,
    work: &'a ServingWork,
    salt: Option<u64>,
    block_texts: BlockTexts,
    /// The salt as the first line of each row of a dataset, made once.
    marker: OnceCell<Prompt>,
}

impl<'a> RowRequests<'a> {
    pub(super) fn new(
        schedule: &TrialSchedule,
        tokenizer: Arc<Tokenizer>,
        rows: Option<Arc<RowReader>>,
        work: &'a ServingWork,
    ) -> Self {
        let salt = schedule.salt().filter(|_| work.cache == CacheMode::ColdSalt);
        Self { tokenizer, rows, work, salt, block_texts: schedule.block_texts(), marker: OnceCell::new() }
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(super) fn rows(&self) -> Option<&RowReader> {
        self.rows.as_deref()
    }

    /// Returns the seed of the words that begin the prompts of this execution; `None` without a salt.
    pub(super) fn salt(&self) -> Option<u64> {
        self.salt
    }

    pub(super) fn block_texts(&self) -> BlockTexts {
        self.block_texts
    }

    /// Returns the request with this input, whose texts have `input_tokens` tokens.
    pub(super) fn request<'t>(
        &self,
        scheduled: &ScheduledRequest,
        input: RequestInput<'_>,
        texts: impl Iterator<Item = &'t str>,
        input_tokens: u32,
        output_tokens: Option<u32>,
    ) -> PlannedRequest {
        PlannedRequest {
            global_index: scheduled.global_index,
            intended_offset_ns: scheduled.offset_ns,
            body: self.work.request_body(input, output_tokens),
            input_tokens_requested: Some(scheduled.total_input_tokens(self.work.documents())),
            input_tokens,
            output_tokens_requested: output_tokens,
            request_id: scheduled.request_id,
            prompt_sha256: (self.work.capture != CaptureMode::None).then(|| digest_prompts(texts)),
            turn: None,
            next: Vec::new(),
            cancel_after_ns: scheduled.cancel_after_ns,
        }
    }

    /// Returns the line that stands in front of each row; `None` without a salt.
    pub(super) fn marker(&self) -> Result<Option<&Prompt>, Cause> {
        let Some(salt) = self.salt else { return Ok(None) };
        if self.marker.get().is_none() {
            let made = self.tokenizer.prompt(salt, None, SALT_WORDS)?;
            return Ok(Some(self.marker.get_or_init(|| made)));
        }
        Ok(self.marker.get())
    }

    /// Returns the prompt of a length with blocks, as one text or as the messages of a trace that has them, and its tokens. A salt changes all of
    /// its words and no length, or blocks would not begin where they do.
    fn of_blocks(&self, row: u64, blocks: &TokenBlocks) -> Result<(RowContent, u32), Cause> {
        let texts = blocks.scope.map_or(self.block_texts, |scope| self.block_texts.within(scope));
        let block = |(id, tokens)| (texts.block_seed(id), tokens);
        let rest = (self.block_texts.rest_seed(row), blocks.rest());
        if !blocks.messages.is_empty() {
            return self.of_messages(blocks.messages(), block, rest);
        }
        let pieces: Vec<(u64, u32)> = blocks.blocks().map(block).chain([rest]).collect();
        let prompt = self.tokenizer.pieces(&pieces)?;
        Ok((RowContent::Prompt(prompt.text), prompt.tokens))
    }

    /// Returns messages of blocks, of which the last ends with `rest`, and their tokens.
    fn of_messages(
        &self,
        messages: Vec<(MessageRole, Vec<(u64, u32)>)>,
        block: impl Fn((u64, u32)) -> (u64, u32),
        rest: (u64, u32),
    ) -> Result<(RowContent, u32), Cause> {
        let (count, mut tokens) = (messages.len(), 0_u32);
        let mut made = Vec::with_capacity(count);
        for (number, (role, blocks)) in (1..).zip(messages) {
            let rest = (number == count).then_some(rest);
            let pieces: Vec<(u64, u32)> = blocks.into_iter().map(&block).chain(rest).collect();
            let text = self.tokenizer.pieces(&pieces)?;
            tokens = tokens.saturating_add(text.tokens);
            made.push(json!({"role": role.as_str(), "content": text.text}));
        }
        Ok((RowContent::Messages(made), tokens))
    }

    /// Returns the request of a row of the dataset. A salt stands in front of a text as a line of its own: rows are the same in every trial.
    pub(super) fn of_row(
        &self,
        request: &ScheduledRequest,
        row: u64,
        output_tokens: Option<u32>,
    ) -> Result<PlannedRequest, Cause> {
        let mut content = self.rows().ok_or(NO_DATASET)?.read(row)?;
        let mut input_tokens = request.input_tokens;
        if let RowContent::Blocks(blocks) = &content {
            (content, input_tokens) = self.of_blocks(row, blocks)?;
        } else if let Some(marker) = self.marker()? {
            content = content.with_marker(&marker.text);
            input_tokens = input_tokens.saturating_add(marker.tokens);
        }
        let texts = content.texts().into_iter().map(str::to_owned).collect::<Vec<_>>();
        let input = match &content {
            RowContent::Prompt(_) | RowContent::Blocks(_) => RequestInput::Texts { query: None, inputs: &texts },
            RowContent::Messages(messages) | RowContent::Turn(Turn { messages, .. }) => RequestInput::Messages(messages),
            RowContent::Body(body) => RequestInput::Body(body),
        };
        Ok(self.request(request, input, texts.iter().map(String::as_str), input_tokens, output_tokens))
    }
}

/// Returns the SHA-256 of the query and the prompts, one a line.
pub(super) fn digest_prompts<'a>(prompts: impl Iterator<Item = &'a str>) -> [u8; 32] {
    let lines: Vec<&str> = prompts.collect();
    *assay_manifest::Digest::compute(lines.join("\n").as_bytes()).as_bytes()
}
