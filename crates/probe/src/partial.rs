//! A response that is read only as far as its kind needs, within the limits of the load generator.

use std::io::{ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use assay_load::MAX_DOCUMENT_BYTES;
use assay_load::sse::{MAX_EVENT_BYTES, StopReason, Stream};
use assay_stage::Secrets;

use crate::error::{RequestError, to_request_error};

/// The bytes that are kept of a body that is neither an event nor a document: enough for the message of an error.
const BEGINNING_BYTES: usize = 64 << 10;

/// The bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The head of a response, and as much of its body as its kind needs: an event stream up to its first event with data, a document
/// to its end, and the beginning of anything else. Events are parsed as the load generator parses them.
#[derive(Debug)]
pub struct PartialResponse {
    /// The status code.
    pub status: u16,
    /// The content type without its parameters, in lower case; absent if the head has none.
    pub content_type: Option<String>,
    /// The content encoding, which was not requested; absent if there is none. Such a body is not read.
    pub content_encoding: Option<String>,
    /// The target of a redirect.
    pub location: Option<String>,
    /// The seconds after which the endpoint invites another try.
    pub retry_after_s: Option<u64>,
    /// The body.
    pub body: PartialBody,
}

/// The part of a body that was read.
#[derive(Debug, Default)]
pub struct PartialBody {
    /// The document, or the beginning of a stream or another body.
    pub bytes: Vec<u8>,
    /// The number of bytes that came.
    pub received: u64,
    /// The first event with data, if the body is an event stream that has one.
    pub event: Option<FirstEvent>,
    /// The reason why the body was not read as far as needed: it broke off, was too slow, or exceeds a limit.
    pub cut: Option<RequestError>,
}

/// The first event with data of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstEvent {
    /// Its data.
    pub data: Vec<u8>,
    /// True if its type is `error`.
    pub is_error: bool,
}

/// The part of a body that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeededPart {
    /// Nothing.
    None,
    /// The first event with data.
    FirstEvent,
    /// All of a document.
    Document,
    /// The beginning.
    Beginning,
}

impl NeededPart {
    /// Returns the part that is needed of a response with this head: the load generator reads its responses by the same rule.
    pub(crate) fn of(status: u16, content_type: Option<&str>, is_encoded: bool, is_streamed: bool) -> Self {
        let is_json = |kind: &str| kind == "application/json" || kind.ends_with("+json");
        match content_type {
            _ if is_encoded => Self::None,
            _ if !(200..300).contains(&status) => Self::Beginning,
            None | Some("text/event-stream") if is_streamed => Self::FirstEvent,
            None => Self::Document,
            // A document in place of a stream may hold an error.
            Some(kind) if is_json(kind) => Self::Document,
            Some(_) => Self::Beginning,
        }
    }
}

impl PartialBody {
    /// Reads the needed part from `source`, for at most `time`: a server may send comments, or a byte now and then, forever.
    pub(crate) fn read(mut source: impl Read, needed: NeededPart, time: Duration) -> Self {
        let (began, mut body, mut stream) = (Instant::now(), Self::default(), Stream::default());
        let mut buffer = vec![0; READ_BYTES];
        while !body.is_enough(needed) {
            let piece = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    body.cut = Some(to_request_error(error.into(), time));
                    break;
                }
            };
            body.keep(piece, needed);
            if needed == NeededPart::FirstEvent {
                body.find_event(&mut stream, piece);
            }
            if body.cut.is_none() && began.elapsed() > time {
                body.cut = Some(RequestError::Timeout(time));
            }
        }
        body
    }

    fn is_enough(&self, needed: NeededPart) -> bool {
        let is_over = self.event.is_some() || self.cut.is_some();
        is_over || needed == NeededPart::None || (needed == NeededPart::Beginning && self.bytes.len() == BEGINNING_BYTES)
    }

    fn keep(&mut self, piece: &[u8], needed: NeededPart) {
        let limit = if needed == NeededPart::Document { MAX_DOCUMENT_BYTES } else { BEGINNING_BYTES };
        let room = limit.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
        self.received += piece.len() as u64;
        if needed == NeededPart::Document && piece.len() > room {
            self.cut = Some(RequestError::TooLarge(MAX_DOCUMENT_BYTES as u64));
        }
    }

    fn find_event(&mut self, stream: &mut Stream, piece: &[u8]) {
        let found = stream.take(piece, |event| match event.data {
            [] => ControlFlow::Continue(()),
            data => ControlFlow::Break(FirstEvent { data: data.to_vec(), is_error: event.is_error }),
        });
        match found {
            Ok(()) => {}
            Err(StopReason::Callback(event)) => self.event = Some(event),
            Err(StopReason::TooLong) => self.cut = Some(RequestError::EventTooLarge(MAX_EVENT_BYTES as u64)),
        }
    }

    /// Masks the secrets that the endpoint received and repeats. The bytes may end in the middle of one: they were cut, or broke off.
    pub(crate) fn masked(mut self, secrets: &Secrets) -> Self {
        for bytes in std::iter::once(&mut self.bytes).chain(self.event.as_mut().map(|event| &mut event.data)) {
            if let Some(masked) = secrets.mask_cut(bytes) {
                *bytes = masked;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
