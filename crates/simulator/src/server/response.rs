//! The framing of responses: heads, events and error objects. `assay_api` writes what is inside.

use std::io::Write as _;

use serde_json::json;

/// The content type of a stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

/// The content type of all other responses.
pub(crate) const JSON: &str = "application/json";

/// The end of a body in chunked encoding.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Returns the reason phrase, which is for people who read the raw bytes.
const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Fault",
    }
}

/// The head of a response.
#[derive(Clone, Copy)]
pub(crate) struct ResponseHead<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'a str,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) allow: Option<&'a str>,
    pub(crate) keep_alive: bool,
}

impl ResponseHead<'_> {
    /// Appends the head; `length` is that of the body, or none for chunked encoding.
    pub(crate) fn push(&self, length: Option<usize>, wire: &mut Vec<u8>) {
        push(wire, format_args!("HTTP/1.1 {} {}\r\nserver: assay-simulator\r\n", self.status, reason(self.status)));
        push(wire, format_args!("content-type: {}\r\n", self.content_type));
        if let Some(request_id) = self.request_id {
            push(wire, format_args!("x-request-id: {request_id}\r\n"));
        }
        if let Some(allow) = self.allow {
            push(wire, format_args!("allow: {allow}\r\n"));
        }
        if !self.keep_alive {
            wire.extend_from_slice(b"connection: close\r\n");
        }
        match length {
            Some(length) => push(wire, format_args!("content-length: {length}\r\n\r\n")),
            None => wire.extend_from_slice(b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"),
        }
    }
}

/// Builds the error object that OpenAI's clients expect.
pub(crate) fn error_body(status: u16, message: &str) -> Vec<u8> {
    let kind = match status {
        404 => "NotFoundError",
        429 => "RateLimitError",
        400..=499 => "BadRequestError",
        503 => "ServiceUnavailableError",
        _ => "InternalServerError",
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": status } }).to_string().into_bytes()
}

/// Frames events as one chunk of a chunked body.
pub(crate) fn push_events(events: &[u8], wire: &mut Vec<u8>) {
    push(wire, format_args!("{:x}\r\n", events.len()));
    wire.extend_from_slice(events);
    wire.extend_from_slice(b"\r\n");
}

fn push(wire: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = wire.write_fmt(text);
}
