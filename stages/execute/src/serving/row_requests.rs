//! The requests of single rows of a dataset or trace, each with all that it sends.

use std::cell::OnceCell;
use std::sync::Arc;

use assay_api::{RequestInput, add_images};
use assay_dataset::{MessageRole, RowContent, RowReader, TokenBlocks, Turn};
use assay_load::{Cause, PlannedRequest};
use assay_manifest::{CacheMode, CaptureMode, SALT_WORDS, ServingWork, TemplateUse};
use assay_schedule::{BlockTexts, Markers, ScheduledRequest, TrialSchedule, seed_of_pass};
use assay_tokens::{Prompt, Tokenizer};
use serde_json::json;

use super::images::{SentImage, SentImages, files_of, images_of};

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
    markers: Option<Markers>,
    image_files: Option<Arc<[Arc<SentImage>]>>,
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
        let (block_texts, markers) = (schedule.block_texts(), schedule.markers());
        Self { tokenizer, rows, work, salt, block_texts, markers, image_files: None, marker: OnceCell::new() }
    }

    /// Returns the generator of requests with images among these files.
    pub(super) fn with_image_files(self, image_files: Option<Arc<[Arc<SentImage>]>>) -> Self {
        Self { image_files, ..self }
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
        let row = if let RequestInput::Body(row) = input { Some(row) } else { None };
        PlannedRequest {
            global_index: scheduled.global_index,
            intended_offset_ns: scheduled.offset_ns,
            body: self.work.request_body(self.work.model_of(scheduled.adapter), input, output_tokens),
            input_tokens_requested: Some(scheduled.total_input_tokens(self.work.documents())),
            input_tokens,
            output_tokens_requested: output_tokens,
            output_limit: self.work.output_limit(row, output_tokens),
            request_id: scheduled.request_id,
            prompt_sha256: (self.work.capture != CaptureMode::None).then(|| digest_prompts(texts)),
            turn: None,
            next: Vec::new(),
            successor: None,
            after_ns: 0,
            beside: Vec::new(),
            cancel_after_ns: scheduled.cancel_after_ns,
        }
    }

    /// Returns the line that stands in front of each row; `None` without a salt.
    pub(super) fn marker(&self) -> Result<Option<&Prompt>, Cause> {
        let Some(salt) = self.salt else { return Ok(None) };
        if self.marker.get().is_none() {
            let made = self.line(salt)?;
            return Ok(Some(self.marker.get_or_init(|| made)));
        }
        Ok(self.marker.get())
    }

    /// Returns the words of a line in front of a prompt, with the tokens of the line: its end may be one, too.
    fn line(&self, seed: u64) -> Result<Prompt, Cause> {
        let words = self.tokenizer.unframed(seed, SALT_WORDS)?;
        let tokens = self.tokenizer.count(&format!("{}\n", words.text))?;
        Ok(Prompt { tokens: u32::try_from(tokens).unwrap_or(u32::MAX), ..words })
    }

    /// Returns the pass over the sessions of the trace whose words a request has: with a shared cache all passes have the same.
    fn pass_of(&self, request: &ScheduledRequest) -> u32 {
        request.turn.filter(|_| self.work.cache != CacheMode::Shared).map_or(0, |turn| turn.pass)
    }

    /// Returns the line that stands in front of a row in a pass over the sessions of a trace; `None` without a salt.
    fn marker_of_pass(&self, pass: u32) -> Result<Option<Prompt>, Cause> {
        if pass == 0 {
            return Ok(self.marker()?.cloned());
        }
        let salt = self.salt.map(|salt| seed_of_pass(salt, pass));
        salt.map(|salt| self.line(salt)).transpose()
    }

    /// Returns the words that no other session has; `None` if sessions have none.
    fn marker_of_session(&self, request: &ScheduledRequest) -> Result<Option<Prompt>, Cause> {
        let seed = self.markers.zip(request.turn).map(|(markers, turn)| markers.seed(turn.session));
        seed.map(|seed| self.line(seed)).transpose()
    }

    /// Returns the pieces of a length with blocks. A salt changes all of their words and no length, or blocks would not begin where they do.
    fn pieces_of(&self, row: u64, blocks: &TokenBlocks, pass: u32) -> Vec<(u64, u32)> {
        let block = self.block_pieces(blocks, pass);
        let rest = (self.block_texts.of_pass(pass).rest_seed(row), blocks.rest());
        blocks.blocks().map(block).chain([rest]).collect()
    }

    /// Returns the piece of a block of these.
    fn block_pieces(&self, blocks: &TokenBlocks, pass: u32) -> impl Fn((u64, u32)) -> (u64, u32) + use<> {
        let texts = self.block_texts.of_pass(pass);
        let texts = blocks.scope.map_or(texts, |scope| texts.within(scope));
        move |(id, tokens)| (texts.block_seed(id), tokens)
    }

    /// Returns the prompt of a length with blocks, as one text or as the messages of a trace that has them, and its tokens.
    fn of_blocks(&self, row: u64, blocks: &TokenBlocks, pass: u32) -> Result<(RowContent, u32), Cause> {
        if blocks.messages.is_empty() {
            let prompt = self.tokenizer.pieces(&self.pieces_of(row, blocks, pass))?;
            return Ok((RowContent::Prompt(prompt.text), prompt.tokens));
        }
        let rest = (self.block_texts.of_pass(pass).rest_seed(row), blocks.rest());
        self.of_messages(blocks.messages(), self.block_pieces(blocks, pass), rest)
    }

    /// Returns messages of blocks, of which the last ends with `rest`, and their tokens.
    fn of_messages(
        &self,
        messages: Vec<(MessageRole, Vec<(u64, u32)>)>,
        block: impl Fn((u64, u32)) -> (u64, u32),
        rest: (u64, u32),
    ) -> Result<(RowContent, u32), Cause> {
        // The last piece of a text is its own, and blocks are not.
        const NOTHING: (u64, u32) = (0, 0);
        let (count, mut tokens) = (messages.len(), 0_u32);
        let mut made = Vec::with_capacity(count);
        for (number, (role, blocks)) in (1..).zip(messages) {
            let own = if number == count { rest } else { NOTHING };
            let pieces: Vec<(u64, u32)> = blocks.into_iter().map(&block).chain([own]).collect();
            let text = self.tokenizer.pieces(&pieces)?;
            tokens = tokens.saturating_add(text.tokens);
            made.push(json!({"role": role.as_str(), "content": text.text}));
        }
        Ok((RowContent::Messages(made), tokens))
    }

    /// Returns the request of a prompt of token ids. Its digest is over the list as it is sent.
    pub(super) fn of_token_ids(&self, scheduled: &ScheduledRequest, ids: &[u32], output_tokens: Option<u32>) -> PlannedRequest {
        let list = json!(ids).to_string();
        let tokens = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.request(scheduled, RequestInput::TokenIds(ids), std::iter::once(list.as_str()), tokens, output_tokens)
    }

    /// Returns the images of a request; `None` if requests have none.
    pub(super) fn images(&self, request: &ScheduledRequest) -> Option<SentImages> {
        if let (Some(images), Some(files)) = (&self.work.image_files, &self.image_files) {
            return Some(files_of(request, images.count, files));
        }
        self.work.images.as_ref().map(|images| images_of(request, images, self.salt))
    }

    /// Returns the request of a prompt with images. Its digest is over the prompt and the digest of each image, one a line.
    pub(super) fn illustrated(
        &self,
        scheduled: &ScheduledRequest,
        text: &str,
        images: &SentImages,
        input_tokens: u32,
        output_tokens: Option<u32>,
    ) -> PlannedRequest {
        let input = RequestInput::Illustrated { text, images: &images.urls };
        let texts = std::iter::once(text).chain(images.digests.iter().map(String::as_str));
        self.request(scheduled, input, texts, input_tokens, output_tokens)
    }

    /// Returns the request of a row of the dataset. A salt stands in front of a text as a line of its own: rows are the same in every trial. So does the
    /// marker of a session, in front of the first message of the user.
    pub(super) fn of_row(
        &self,
        request: &ScheduledRequest,
        row: u64,
        output_tokens: Option<u32>,
    ) -> Result<PlannedRequest, Cause> {
        let mut content = self.rows().ok_or(NO_DATASET)?.read(row)?;
        let (mut input_tokens, pass) = (request.input_tokens, self.pass_of(request));
        if let RowContent::Blocks(blocks) = &content {
            if self.work.token_ids.is_some()
                && let Some(ids) = self.tokenizer.id_pieces(&self.pieces_of(row, blocks, pass))?
            {
                return Ok(self.of_token_ids(request, &ids, output_tokens));
            }
            (content, input_tokens) = self.of_blocks(row, blocks, pass)?;
        } else if let Some(marker) = self.marker_of_pass(pass)? {
            content = content.with_marker(&marker.text);
            input_tokens = input_tokens.saturating_add(marker.tokens);
        }
        if let Some(marker) = self.marker_of_session(request)? {
            content = content.with_user_marker(&marker.text);
            input_tokens = input_tokens.saturating_add(marker.tokens);
        }
        if let Some(text) = applied(self.work, &self.tokenizer, || content.messages())? {
            content = RowContent::Prompt(text);
        }
        let mut texts = content.texts().into_iter().map(str::to_owned).collect::<Vec<_>>();
        if let Some(images) = self.images(request) {
            if let RowContent::Prompt(text) = &content {
                return Ok(self.illustrated(request, text, &images, input_tokens, output_tokens));
            }
            // A row without a message of a person has none.
            if let RowContent::Messages(messages) = &mut content
                && add_images(messages, &images.urls)
            {
                texts.extend(images.digests);
            }
        }
        let input = match &content {
            RowContent::Prompt(_) | RowContent::Blocks(_) => RequestInput::Texts { query: None, inputs: &texts },
            RowContent::Messages(messages) | RowContent::Turn(Turn { messages, .. }) => RequestInput::Messages(messages),
            RowContent::Body(body) => RequestInput::Body(body),
        };
        Ok(self.request(request, input, texts.iter().map(String::as_str), input_tokens, output_tokens))
    }
}

/// Returns the text that the client's chat template makes of messages; `None` if the client applies none.
pub(super) fn applied<'m>(
    work: &ServingWork,
    tokenizer: &Tokenizer,
    messages: impl FnOnce() -> Result<Vec<(MessageRole, &'m str)>, String>,
) -> Result<Option<String>, Cause> {
    let is_applied = work.tokenizer.template.as_ref().is_some_and(|template| template.usage == TemplateUse::Apply);
    if !is_applied {
        return Ok(None);
    }
    let messages = messages().map_err(|why| format!("a prompt {why}"))?;
    Ok(tokenizer.applied(&messages).transpose()?)
}

/// Returns the SHA-256 of the query and the prompts, one a line.
pub(super) fn digest_prompts<'a>(prompts: impl Iterator<Item = &'a str>) -> [u8; 32] {
    let lines: Vec<&str> = prompts.collect();
    *assay_manifest::Digest::compute(lines.join("\n").as_bytes()).as_bytes()
}
