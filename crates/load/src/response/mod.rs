//! Follows one response from its first byte to its end and fills its record. No I/O: the caller passes bytes with the stamp of
//! the read that brought them.

mod body;
mod head;
pub mod sse;

use std::ops::ControlFlow;
use std::sync::Arc;

use assay_api::{InputParts, InvalidCount, ParsedResponse, ServingApi, TextSink, member_names};
use assay_record::{Chunk, Outcome, Record, TokenSource, UsageFault, exceeds_limit, is_abort};
use sha2::{Digest as _, Sha256};

use self::body::Body;
use self::head::{Content, Framing, Head};
use self::sse::{Event, StopReason, Stream};
use crate::budget::{Budget, Charge, MAX_HELD_BYTES};
use crate::output::Row;
use crate::turn_feeder::KeptText;
use crate::{Capture, CustomCall, Trial};

/// The maximum bytes of a response that is not streamed: a batch of embeddings is the largest.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// The maximum bytes of a streamed response, heads and comments included: 1 KiB for each token event that is listed. An endpoint that sends
/// without end would keep the client busy until the request's timeout.
pub(crate) const MAX_RESPONSE_BYTES: usize = MAX_CHUNKS << 10;
/// An incomplete head is parsed at every read up to this size, so that bytes that are not HTTP are detected early.
const EAGER_HEAD_BYTES: usize = 1 << 10;
/// The bytes of an error's body that are kept for its message.
const ERROR_BYTES: usize = 16 << 10;
/// The maximum bytes that are read of an error's body; beyond it the connection is closed.
const MAX_ERROR_BYTES: u64 = 1 << 20;
/// The maximum bytes of a reason in a record.
const MAX_REASON_BYTES: usize = 200;
/// The maximum bytes of a finish reason in a record.
const MAX_FINISH_BYTES: usize = 32;
/// The maximum token events listed for one request; further ones are only counted.
const MAX_CHUNKS: usize = 1 << 20;
/// The maximum bytes of text kept of one response.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// The kind of response that the request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedKind {
    Events,
    Document,
}

/// The end of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResponseEnd {
    pub(crate) outcome: Outcome,
    /// The reason for an outcome other than `Ok`; for people.
    pub(crate) reason: Option<String>,
    /// The time of the end, in nanoseconds since the trial's start.
    pub(crate) at_ns: i64,
    /// True if the connection may carry another request.
    pub(crate) reusable: bool,
}

/// The failure of a response: its outcome and its reason.
type Fault = (Outcome, String);

/// The part of the response that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Events,
    Document,
    /// The body of an error response.
    Error,
    /// The body of a successful response with another content type than requested: it may be an error message of the endpoint.
    Unexpected,
}

/// Follows the responses of one connection, one after the other.
#[derive(Debug)]
pub(crate) struct Reader {
    expects: ExpectedKind,
    stage: Stage,
    /// The received part of the head or of the document.
    buffered: Vec<u8>,
    body: Body,
    keep_alive: bool,
    refusal_bytes: u64,
    stream: Stream,
    response: ResponseState,
    /// The memory that this response is charged.
    charge: Charge,
}

/// The parsed state of a response so far.
#[derive(Debug)]
struct ResponseState {
    api: ServingApi,
    custom: Option<Arc<CustomCall>>,
    capture: Capture,
    hasher: Sha256,
    /// Content and reasoning, if the session's next turn needs them.
    kept: Option<KeptText>,
    /// True if the token events are listed.
    lists: bool,
    /// True if the response is a stream, whose token events have stamps.
    streamed: bool,
    /// The time of `[DONE]`, or of the event of the API that ends a stream.
    done_ns: Option<i64>,
    /// True if a finish reason came.
    finished: bool,
    /// The reason why the endpoint aborted the request, if it did.
    aborted: Option<String>,
    /// Tokens up to and including the last token event, counted by the endpoint; none if that event had no count.
    tokens_through: Option<u32>,
    /// True if every token event had such a count.
    counted_all: bool,
    /// The endpoint's latest count of completion tokens.
    completion: Option<u32>,
    /// The endpoint's latest invalid count of completion tokens, if it is a whole number.
    claimed: Option<i64>,
    /// A count of the endpoint that is none.
    invalid: Option<InvalidCount>,
    /// The most tokens that the request allows.
    output_limit: Option<u64>,
    /// The endpoint's latest count of each part of the input, if it counts it in parts.
    input_parts: InputParts,
    has_text: bool,
    /// The description of a complete response that was not streamed and has no text and no results.
    empty: Option<String>,
    events: u64,
}

impl Reader {
    /// Returns a reader for the trial's responses, whose memory is charged to a budget.
    pub(crate) fn new(trial: &Trial, budget: Budget) -> Self {
        let is_streamed = trial.streaming && trial.api.capabilities().streams;
        let expects = if is_streamed { ExpectedKind::Events } else { ExpectedKind::Document };
        Self {
            expects,
            stage: Stage::Head,
            buffered: Vec::new(),
            body: Body::new(Framing::Close),
            keep_alive: false,
            refusal_bytes: 0,
            stream: Stream::default(),
            response: ResponseState::new(trial.api, trial.custom.clone(), trial.capture, is_streamed, true, None),
            charge: Charge::new(budget),
        }
    }

    /// Prepares for the next response, whose token events are listed or not, whose text is kept for the next turn or not, and which may have
    /// at most this many tokens.
    pub(crate) fn reset(&mut self, lists: bool, keeps_text: bool, output_limit: Option<u64>) {
        self.stage = Stage::Head;
        self.refusal_bytes = 0;
        self.free_buffers();
        let ResponseState { api, capture, streamed, .. } = self.response;
        let custom = self.response.custom.take();
        let kept = keeps_text.then(|| KeptText::new(self.charge.new_sibling()));
        self.response = ResponseState { output_limit, ..ResponseState::new(api, custom, capture, streamed, lists, kept) };
    }

    /// Takes the text that was kept of a response that is over.
    pub(crate) fn take_text(&mut self) -> Option<KeptText> {
        let mut kept = self.response.kept.take()?;
        kept.cover();
        Some(kept)
    }

    /// Returns the number of events of the stream so far.
    pub(crate) fn events(&self) -> u64 {
        self.response.events
    }

    /// Consumes the bytes of one read, whose stamp is `at_ns`. An ending is final for the request.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8], at_ns: i64, row: &mut Row) -> Option<ResponseEnd> {
        row.record.response_bytes += bytes.len() as u64;
        row.record.first_byte_ns.get_or_insert(at_ns);
        if row.record.response_bytes > MAX_RESPONSE_BYTES as u64 {
            return Some(self.end(Err(too_large("the response", MAX_RESPONSE_BYTES)), at_ns, false, row));
        }
        match self.follow(bytes, at_ns, row) {
            Ok(None) if self.charge.cover(self.held_bytes(row)) => None,
            Ok(None) => {
                let reason = format!(
                    "the unfinished responses of this client hold more than its limit of {} bytes together",
                    self.charge.limit()
                );
                Some(self.end(Err((Outcome::EventTooLarge, reason)), at_ns, false, row))
            }
            Ok(Some(reusable)) => Some(self.finish_body(at_ns, reusable, row)),
            Err(fault) => Some(self.end(Err(fault), at_ns, false, row)),
        }
    }

    /// Returns the bytes that the response holds in memory.
    #[inline]
    fn held_bytes(&self, row: &Row) -> u64 {
        let listed = row.record.chunks.len() * size_of::<Chunk>();
        let kept = self.response.kept.as_ref().map_or(0, KeptText::held_bytes);
        (self.buffered.capacity() + self.stream.held_bytes() + row.text.len() + listed + kept) as u64
    }

    /// Empties the buffers; large ones are freed, and what was charged for them is returned.
    fn free_buffers(&mut self) {
        self.buffered = sse::clear_for_reuse(&mut self.buffered);
        self.stream.reset();
        self.charge.release();
    }

    /// Ends the response because the endpoint closed the connection, or because it broke (`why`).
    pub(crate) fn close(&mut self, why: Option<&std::io::Error>, at_ns: i64, row: &mut Row) -> ResponseEnd {
        let how = || why.map_or_else(|| "closed".to_owned(), |error| format!("lost ({error})"));
        if row.record.first_byte_ns.is_none() {
            return self.end(
                Err((Outcome::ConnectionClosed, format!("the connection was {} before a response began", how()))),
                at_ns,
                false,
                row,
            );
        }
        if self.stage == Stage::Head {
            let cut = || (Outcome::Truncated, format!("the connection was {} in the head of the response", how()));
            return self.end(Err(self.head_fault().unwrap_or_else(cut)), at_ns, false, row);
        }
        if matches!(self.stage, Stage::Error | Stage::Unexpected)
            || self.response.done_ns.is_some()
            || (self.body.ends_with_connection() && why.is_none())
        {
            return self.finish_body(at_ns, false, row);
        }
        self.end(
            Err((Outcome::Truncated, format!("the connection was {} before the response was complete", how()))),
            at_ns,
            false,
            row,
        )
    }

    /// Ends the response because the client gives up. A response that had sent `[DONE]` was complete: only its connection was
    /// still open.
    pub(crate) fn give_up(&mut self, outcome: Outcome, reason: &str, at_ns: i64, row: &mut Row) -> ResponseEnd {
        if let Some(done_ns) = self.response.done_ns {
            return self.finish_body(done_ns, false, row);
        }
        let fault = self.head_fault().unwrap_or_else(|| (outcome, reason.to_owned()));
        self.end(Err(fault), at_ns, false, row)
    }

    /// Returns the fault of the received part of a head. Reads that end no line of a long head do not parse it, so it is found at the
    /// latest when the response ends.
    fn head_fault(&self) -> Option<Fault> {
        let received = (self.stage == Stage::Head).then_some(self.buffered.as_slice())?;
        head::read(received).err().map(malformed)
    }

    /// Consumes bytes. Returns none if the response goes on, else true if its connection may be reused.
    fn follow(&mut self, mut bytes: &[u8], at_ns: i64, row: &mut Row) -> Result<Option<bool>, Fault> {
        if self.stage == Stage::Head {
            let Some(rest) = self.parse_head(bytes, row)? else { return Ok(None) };
            bytes = rest;
            self.buffered.clear();
        }
        while !bytes.is_empty() && !self.body.is_over() {
            let piece = self.body.next(bytes).map_err(malformed)?;
            bytes = piece.rest;
            if !piece.body.is_empty() {
                self.body_piece(piece.body, at_ns, row)?;
            }
        }
        Ok(self.body.is_over().then_some(self.keep_alive && bytes.is_empty()))
    }

    /// Parses the head and returns the bytes after it; none if it is incomplete. Informational heads (1xx) are skipped.
    fn parse_head<'a>(&mut self, bytes: &'a [u8], row: &mut Row) -> Result<Option<&'a [u8]>, Fault> {
        // An incomplete head is kept, new bytes are appended, and it is parsed from its start again.
        let before = self.buffered.len();
        if before > 0 {
            self.buffered.extend_from_slice(bytes);
            // A head that drips in is not parsed again for each drop: only at the end of a line, and while it is short.
            if self.buffered.len() > EAGER_HEAD_BYTES && self.buffered.len() < head::MAX_HEAD_BYTES && !bytes.contains(&b'\n') {
                return Ok(None);
            }
        }
        let mut from = 0;
        loop {
            let whole = if before > 0 { &self.buffered } else { bytes };
            match head::read(&whole[from..]).map_err(malformed)? {
                None => {
                    if before > 0 {
                        self.buffered.drain(..from);
                    } else {
                        self.buffered.extend_from_slice(&bytes[from..]);
                    }
                    return Ok(None);
                }
                Some((head, length)) => {
                    from += length;
                    if !(100..200).contains(&head.status) {
                        self.begin(head, row)?;
                        // The head is longer than its kept part, or it would have been complete before.
                        return Ok(Some(bytes.get(from.saturating_sub(before)..).unwrap_or_default()));
                    }
                    if head.status == 101 {
                        return Err(malformed("the response switches protocols"));
                    }
                }
            }
        }
    }

    fn begin(&mut self, head: Head, row: &mut Row) -> Result<(), Fault> {
        row.record.http_status = Some(head.status);
        self.body = Body::new(head.framing);
        self.keep_alive = head.keep_alive;
        if !(200..300).contains(&head.status) {
            self.stage = Stage::Error;
            return Ok(());
        }
        if head.encoded {
            return Err(malformed("the response is compressed, which was not requested"));
        }
        self.stage = match (self.expects, head.content) {
            (ExpectedKind::Events, Content::Events | Content::Absent) => Stage::Events,
            (ExpectedKind::Document, Content::Json | Content::Absent) => Stage::Document,
            _ => Stage::Unexpected,
        };
        Ok(())
    }

    #[inline]
    fn body_piece(&mut self, piece: &[u8], at_ns: i64, row: &mut Row) -> Result<(), Fault> {
        match self.stage {
            Stage::Events => {
                let heard = &mut self.response;
                let taken = self.stream.take(piece, |event| heard.event(event, at_ns, row));
                taken.map_err(|stop| match stop {
                    StopReason::TooLong => too_large("an event of the stream", sse::MAX_EVENT_BYTES),
                    StopReason::Callback(fault) => fault,
                })
            }
            Stage::Document if self.buffered.is_empty() && self.body.is_over() => self.response.document(piece, at_ns, row),
            Stage::Document => {
                if self.buffered.len() + piece.len() > MAX_DOCUMENT_BYTES {
                    return Err(too_large("the response", MAX_DOCUMENT_BYTES));
                }
                self.buffered.extend_from_slice(piece);
                Ok(())
            }
            Stage::Error | Stage::Unexpected => {
                let room = ERROR_BYTES.saturating_sub(self.buffered.len());
                self.buffered.extend_from_slice(&piece[..piece.len().min(room)]);
                self.refusal_bytes += piece.len() as u64;
                if self.refusal_bytes > MAX_ERROR_BYTES { Err(self.error_fault()) } else { Ok(()) }
            }
            Stage::Head => Ok(()),
        }
    }

    /// Ends a response whose body is complete, and decides its outcome.
    fn finish_body(&mut self, at_ns: i64, reusable: bool, row: &mut Row) -> ResponseEnd {
        let result = match self.stage {
            Stage::Error | Stage::Unexpected => Err(self.error_fault()),
            Stage::Document => self.finish_document(at_ns, row),
            Stage::Head | Stage::Events => self.response.finish_stream(&row.record),
        };
        self.end(result, at_ns, reusable, row)
    }

    fn finish_document(&mut self, at_ns: i64, row: &mut Row) -> Result<Outcome, Fault> {
        if row.record.last_token_ns.is_none() {
            let kept = std::mem::take(&mut self.buffered);
            self.response.document(&kept, at_ns, row)?;
            self.buffered = kept;
        }
        self.response.check_not_aborted()?;
        self.response.empty.take().map_or(Ok(Outcome::Ok), |why| Err((Outcome::Empty, why)))
    }

    /// Returns the failure of an error body, in the endpoint's words.
    fn error_fault(&self) -> Fault {
        let error = self.response.api.error_message(&self.buffered);
        if self.stage == Stage::Error {
            return (Outcome::HttpError, error.unwrap_or_else(|| lossy_text(&self.buffered)));
        }
        let expected = if self.expects == ExpectedKind::Events { "text/event-stream" } else { "application/json" };
        match error {
            Some(error) => (Outcome::StreamError, error),
            None => (Outcome::Malformed, format!("the response's content type is not {expected}{}", excerpt(&self.buffered))),
        }
    }

    fn end(&mut self, result: Result<Outcome, Fault>, at_ns: i64, reusable: bool, row: &mut Row) -> ResponseEnd {
        self.response.record_totals(row);
        // A connection that is kept alive or closed keeps no large buffer.
        self.free_buffers();
        match result {
            Ok(outcome) => ResponseEnd { outcome, reason: None, at_ns, reusable },
            Err((outcome, reason)) => ResponseEnd { outcome, reason: Some(shorten(&reason, MAX_REASON_BYTES)), at_ns, reusable },
        }
    }
}

impl ResponseState {
    fn new(
        api: ServingApi,
        custom: Option<Arc<CustomCall>>,
        capture: Capture,
        streamed: bool,
        lists: bool,
        kept: Option<KeptText>,
    ) -> Self {
        Self {
            api,
            custom,
            capture,
            hasher: Sha256::new(),
            kept,
            lists,
            streamed,
            done_ns: None,
            finished: false,
            aborted: None,
            tokens_through: Some(0),
            counted_all: true,
            completion: None,
            claimed: None,
            invalid: None,
            output_limit: None,
            input_parts: InputParts::default(),
            has_text: false,
            empty: None,
            events: 0,
        }
    }

    #[inline]
    fn event(&mut self, event: Event<'_>, at_ns: i64, row: &mut Row) -> ControlFlow<Fault> {
        self.events += 1;
        if self.done_ns.is_some() || event.data.is_empty() {
            return ControlFlow::Continue(());
        }
        if event.data.trim_ascii() == b"[DONE]" {
            self.done_ns = Some(at_ns);
            return ControlFlow::Continue(());
        }
        if event.is_error {
            let message = self.api.error_message(event.data).unwrap_or_else(|| lossy_text(event.data));
            return ControlFlow::Break((Outcome::StreamError, message));
        }
        match self.parse_document(event.data, row) {
            Err(fault) => ControlFlow::Break(fault),
            Ok(said) => {
                if said.bytes() > 0 {
                    self.record_token_event(&said, at_ns, &mut row.record);
                }
                self.done_ns = said.is_last.then_some(at_ns);
                ControlFlow::Continue(())
            }
        }
    }

    /// Parses a complete response that was not streamed. It has no first token: all of it came at once.
    fn document(&mut self, document: &[u8], at_ns: i64, row: &mut Row) -> Result<(), Fault> {
        let said = self.parse_document(document, row)?;
        self.has_text |= said.bytes() > 0 || said.results > 0;
        self.empty = (!self.has_text).then(|| describe_empty(self.api, document));
        row.record.last_token_ns = Some(at_ns);
        Ok(())
    }

    /// Parses a document and records all that does not depend on its time.
    #[inline]
    fn parse_document<'a>(&mut self, document: &'a [u8], row: &mut Row) -> Result<ParsedResponse<'a>, Fault> {
        let mut all = match self.capture {
            Capture::None => TextSink::Discard,
            Capture::Digest => TextSink::Digest(&mut self.hasher),
            Capture::Full => TextSink::Text(&mut row.text),
        };
        let mut keep = match &mut self.kept {
            Some(KeptText { content, reasoning, .. }) => TextSink::Apart { content, reasoning, all: &mut all },
            None => all,
        };
        let parsed = match &self.custom {
            Some(custom) => custom.responses.parse_response(document, &mut keep),
            None => self.api.parse_response(document, &mut keep),
        };
        let said = parsed.map_err(|problem| {
            (Outcome::Malformed, format!("the response is not in the API's format: {problem}{}", excerpt(document)))
        })?;
        if row.text.len().max(self.kept.as_ref().map_or(0, KeptText::len)) > MAX_TEXT_BYTES {
            return Err(too_large("the text of the response", MAX_TEXT_BYTES));
        }
        if let Some(error) = said.error {
            return Err((Outcome::StreamError, error));
        }
        let record = &mut row.record;
        if let Some(reason) = said.finish {
            self.finished = true;
            let reason = shorten(&String::from_utf8_lossy(&reason.decoded()), MAX_FINISH_BYTES);
            if is_abort(&reason) {
                let why = said.finish_message.map_or_else(String::new, |text| format!(": {}", lossy_text(&text.decoded())));
                self.aborted = Some(format!("the endpoint ended the response with finish_reason `{reason}`{why}"));
            }
            record.finish_reason = Some(reason);
        }
        let usage = &said.usage;
        self.completion = later_count("completion", self.completion, usage.completion)?;
        self.claimed = usage.claimed.or(self.claimed);
        self.invalid = InvalidCount::first(self.invalid, usage.invalid);
        self.input_parts = self.input_parts.updated(usage.parts);
        let prompt = usage.prompt.or_else(|| self.input_parts.total());
        record.input_tokens_endpoint = later_count("prompt", record.input_tokens_endpoint, prompt)?;
        record.cached_tokens = later_count("cached", record.cached_tokens, usage.cached)?;
        record.reasoning_tokens = later_count("reasoning", record.reasoning_tokens, usage.reasoning)?;
        record.accepted_prediction_tokens =
            later_count("accepted prediction", record.accepted_prediction_tokens, usage.accepted)?;
        Ok(said)
    }

    #[inline]
    fn record_token_event(&mut self, said: &ParsedResponse<'_>, at_ns: i64, record: &mut Record) {
        let through = said.usage.completion;
        let tokens = through.zip(self.tokens_through).and_then(|(through, before)| through.checked_sub(before));
        self.tokens_through = through;
        self.counted_all &= tokens.is_some();
        self.has_text = true;
        if record.token_events == 0 {
            record.first_token_ns = Some(at_ns);
            record.first_event_tokens = tokens;
        }
        if said.content > 0 {
            record.first_content_ns.get_or_insert(at_ns);
        }
        record.last_token_ns = Some(at_ns);
        record.token_events += 1;
        if self.lists && record.chunks.len() < MAX_CHUNKS {
            record.chunks.push(Chunk { at_ns, bytes: u32::try_from(said.bytes()).unwrap_or(u32::MAX), tokens });
        }
    }

    fn finish_stream(&mut self, record: &Record) -> Result<Outcome, Fault> {
        self.check_not_aborted()?;
        // A response without a finish reason of its own ends when all of it has come.
        let states_end = self.custom.as_ref().is_none_or(|custom| custom.responses.has_finish());
        if self.done_ns.is_none() && !self.finished && states_end {
            let last = self.api.rules().last_event;
            return Err((Outcome::Truncated, format!("the stream ended without `{last}` and without a finish reason")));
        }
        match record.token_events {
            0 => Err((Outcome::Empty, "the stream ended without text".to_owned())),
            _ => Ok(Outcome::Ok),
        }
    }

    fn check_not_aborted(&mut self) -> Result<(), Fault> {
        self.aborted.take().map_or(Ok(()), |why| Err((Outcome::StreamError, why)))
    }

    /// Returns the reason why a count of the endpoint is not used.
    fn usage_fault(&self, record: &Record) -> UsageFault {
        let claimed = self.claimed.or(self.completion.map(i64::from));
        let exceeds = |limit| claimed.is_some_and(|claimed| exceeds_limit(claimed, limit, record.token_events));
        if self.output_limit.is_some_and(exceeds) {
            return UsageFault::OutputExceedsLimit;
        }
        if self.completion == Some(0) && self.has_text && self.api.capabilities().has_output_tokens {
            return UsageFault::OutputIsZero;
        }
        match self.invalid {
            Some(InvalidCount::Output) => UsageFault::OutputNotACount,
            Some(InvalidCount::Usage) => UsageFault::NotAnObject,
            Some(InvalidCount::Input) => UsageFault::InputNotACount,
            _ if cached_exceeds_input(record) => UsageFault::CachedExceedsInput,
            _ if self.reasoning_exceeds_output(record) => UsageFault::ReasoningExceedsOutput,
            Some(InvalidCount::Part) => UsageFault::PartNotACount,
            None => UsageFault::None,
        }
    }

    fn reasoning_exceeds_output(&self, record: &Record) -> bool {
        self.completion.is_some() && record.reasoning_tokens > self.completion
    }

    /// Records the token counts with their source, and the digest of the text.
    fn record_totals(&mut self, row: &mut Row) {
        let record = &mut row.record;
        record.usage_fault = self.usage_fault(record);
        let is_unusable = record.usage_fault.is_of_output();
        if is_unusable {
            record.output_tokens_claimed = self.claimed.or(self.completion.map(i64::from));
            record.first_event_tokens = None;
            record.chunks.iter_mut().for_each(|chunk| chunk.tokens = None);
        }
        record.cached_tokens = record.cached_tokens.filter(|_| !cached_exceeds_input(record));
        record.reasoning_tokens = record.reasoning_tokens.filter(|_| !self.reasoning_exceeds_output(record));
        let used = self.completion.filter(|_| !is_unusable);
        (record.output_tokens, record.output_source) = match used {
            Some(tokens) if record.token_events > 0 && self.counted_all => (Some(tokens), TokenSource::ContinuousUsage),
            Some(tokens) => (Some(tokens), TokenSource::Usage),
            None if record.token_events > 0 => (Some(record.token_events), TokenSource::Chunks),
            None => (None, TokenSource::Unknown),
        };
        if self.has_text && self.capture == Capture::Digest {
            record.response_sha256 = Some(std::mem::take(&mut self.hasher).finalize().into());
        }
    }
}

/// Returns the endpoint's count of tokens of this kind after another event. Counts are of the whole response up to an event, so one that
/// falls contradicts an earlier one, and neither is evidence.
#[inline]
fn later_count(kind: &str, before: Option<u32>, now: Option<u32>) -> Result<Option<u32>, Fault> {
    match (before, now) {
        (Some(before), Some(now)) if now < before => Err((
            Outcome::Malformed,
            format!("the endpoint's count of {kind} tokens falls from {before} to {now} within the stream"),
        )),
        _ => Ok(now.or(before)),
    }
}

fn cached_exceeds_input(record: &Record) -> bool {
    record.input_tokens_endpoint.is_some() && record.cached_tokens > record.input_tokens_endpoint
}

/// Returns the failure of a response that exceeds a limit of the client, and names that limit.
fn too_large(what: &str, limit: usize) -> Fault {
    (Outcome::EventTooLarge, format!("{what} is larger than this client's limit of {limit} bytes"))
}

fn malformed(problem: &'static str) -> Fault {
    (Outcome::Malformed, problem.to_owned())
}

/// Decodes text of an endpoint; invalid UTF-8 is replaced.
fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the beginning of a body that is not a response. The beginning of a JSON document is not shown, because it may hold
/// text of the model.
fn excerpt(bytes: &[u8]) -> String {
    let text = shorten(&lossy_text(bytes.get(..MAX_REASON_BYTES).unwrap_or(bytes)), MAX_REASON_BYTES);
    if text.is_empty() || text.starts_with(['{', '[', '"']) { String::new() } else { format!(": `{text}`") }
}

/// Describes a response without what the API returns, by the members that it has instead.
fn describe_empty(api: ServingApi, document: &[u8]) -> String {
    let capabilities = api.capabilities();
    let lacked = if capabilities.has_output_tokens { "text" } else { capabilities.responses };
    let members: Vec<_> = member_names(document).into_iter().map(|name| format!("`{name}`")).collect();
    let members = if members.is_empty() { String::new() } else { format!("; its members are {}", members.join(", ")) };
    format!("the response has no {lacked}{members}")
}

/// Shortens a text to at most this many bytes, on one line: it came from outside and is shown to people.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    let mut short = String::new();
    for character in text.trim().chars() {
        let character = if character.is_control() { ' ' } else { character };
        if short.len() + character.len_utf8() > limit {
            break;
        }
        short.push(character);
    }
    short
}

/// Follows a streamed response in pieces of this size, up to its end, repeatedly, and returns the total number of its token events.
/// For benchmarks.
pub fn follow(trial: &Trial, wire: &[u8], piece: usize, times: u32) -> u64 {
    let mut reader = Reader::new(trial, Budget::new(MAX_HELD_BYTES));
    let mut row = Row::default();
    let mut events = 0;
    for _ in 0..times {
        reader.reset(true, false, None);
        row.record.token_events = 0;
        row.record.chunks.clear();
        row.text.clear();
        // An ending is final, as it is for the connection: the bytes after it belong to no response.
        let _ = wire.chunks(piece.max(1)).find_map(|piece| reader.take(piece, 0, &mut row));
        events += u64::from(row.record.token_events);
    }
    events
}

/// Follows one response in pieces of this size, up to its end or else to the close of its connection, and returns its record and its
/// text. For fuzzing.
pub fn record_of(trial: &Trial, wire: &[u8], piece: usize) -> (Record, Vec<u8>) {
    record_of_pieces(trial, wire.chunks(piece.max(1)))
}

/// As [`record_of`], of a response in these pieces.
pub fn record_of_pieces<'a>(trial: &Trial, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Record, Vec<u8>) {
    let mut reader = Reader::new(trial, Budget::new(MAX_HELD_BYTES));
    reader.reset(true, false, None);
    let mut row = Row::default();
    let ending = pieces.into_iter().find_map(|piece| reader.take(piece, 0, &mut row));
    let ending = ending.unwrap_or_else(|| reader.close(None, 0, &mut row));
    // The bytes that a read brings beyond the end depend on the pieces alone.
    let record = Record { outcome: ending.outcome, error: ending.reason, response_bytes: 0, ..row.record };
    (record, row.text)
}

#[cfg(test)]
mod tests;
