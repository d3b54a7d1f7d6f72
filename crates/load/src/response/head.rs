//! Parses the head of an HTTP/1.1 response: its status and the framing of its body.

use crate::http2;

/// The maximum bytes of a head.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// The maximum header lines of a head.
const MAX_HEADERS: usize = 128;

/// The framing of a body, which says where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The body ends after this many bytes.
    Length(u64),
    /// The body ends with the last chunk.
    Chunked,
    /// The body ends when the connection closes.
    Close,
}

/// The content type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// `text/event-stream`
    Events,
    /// `application/json`, or a type with `+json`.
    Json,
    /// Any other type.
    Other,
    /// The head names no content type.
    Absent,
}

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    pub(crate) content: Content,
    /// True if the body is compressed, which the client did not request.
    pub(crate) encoded: bool,
    /// True if the connection may be reused.
    pub(crate) keep_alive: bool,
}

/// Parses a head and returns it with its length in bytes; none if it is incomplete. Bytes that are not an HTTP head are an error.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Head, usize)>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let window = &bytes[..bytes.len().min(MAX_HEAD_BYTES)];
    match response.parse(window) {
        Ok(httparse::Status::Complete(length)) => Ok(Some((head(&response)?, length))),
        Ok(httparse::Status::Partial) if bytes.len() >= MAX_HEAD_BYTES => Err("the head of the response is too long"),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err("the head of the response has too many lines"),
        Err(_) => match http2::recognize(bytes) {
            None => Ok(None),
            Some(true) => Err(http2::FRAMES),
            Some(false) => Err("the response is not HTTP"),
        },
    }
}

fn head(response: &httparse::Response<'_, '_>) -> Result<Head, &'static str> {
    let newer = response.version == Some(1);
    let status = response.code.unwrap_or_default();
    let mut head = Head { status, framing: Framing::Close, content: Content::Absent, encoded: false, keep_alive: newer };
    let mut length = None;
    let mut chunked = false;
    for header in response.headers.iter() {
        let value = header.value.trim_ascii();
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let found = self::length(value)?;
            if length.replace(found).is_some_and(|before| before != found) {
                return Err("the response has two lengths");
            }
        } else if is("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") || chunked {
                return Err("the response has a transfer encoding other than chunked");
            }
            chunked = true;
        } else if is("content-type") {
            head.content = content(value);
        } else if is("content-encoding") {
            head.encoded = !value.is_empty() && !value.eq_ignore_ascii_case(b"identity");
        } else if is("connection") {
            let says = |word: &[u8]| value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(word));
            head.keep_alive = !says(b"close") && (newer || says(b"keep-alive"));
        }
    }
    head.framing = framing(status, length, chunked);
    // If both are present, an intermediary may have read another body (RFC 9112, 6.3): the connection is not reused.
    head.keep_alive &= head.framing != Framing::Close && !(chunked && length.is_some());
    Ok(head)
}

/// Applies RFC 9112, 6.3.
fn framing(status: u16, length: Option<u64>, chunked: bool) -> Framing {
    match (status, length) {
        (100..=199 | 204 | 304, _) => Framing::Length(0),
        _ if chunked => Framing::Chunked,
        (_, Some(length)) => Framing::Length(length),
        (_, None) => Framing::Close,
    }
}

fn length(value: &[u8]) -> Result<u64, &'static str> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or("the response's length is not a number")
}

fn content(value: &[u8]) -> Content {
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let ends_with = |suffix: &[u8]| kind.len() > suffix.len() && kind[kind.len() - suffix.len()..].eq_ignore_ascii_case(suffix);
    if kind.eq_ignore_ascii_case(b"text/event-stream") {
        Content::Events
    } else if kind.eq_ignore_ascii_case(b"application/json") || ends_with(b"+json") {
        Content::Json
    } else {
        Content::Other
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Result<Head, &'static str> {
        let (head, length) = read(text.as_bytes())?.expect("a whole head");
        assert_eq!(length, text.len());
        Ok(head)
    }

    #[test]
    fn a_head_says_how_its_body_ends() {
        let framing = |lines: &str| whole(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).map(|head| (head.framing, head.keep_alive));
        assert_eq!(framing("Content-Length: 12\r\n"), Ok((Framing::Length(12), true)));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok((Framing::Chunked, true)));
        assert_eq!(framing("Transfer-Encoding: chunked\r\nContent-Length: 12\r\n"), Ok((Framing::Chunked, false)));
        assert_eq!(framing(""), Ok((Framing::Close, false)));
        assert_eq!(framing("content-length: 0\r\nconnection: x, Close\r\n"), Ok((Framing::Length(0), false)));
        assert_eq!(framing("content-length: 1\r\ncontent-length: 1\r\n"), Ok((Framing::Length(1), true)));
        assert!(framing("content-length: 1\r\ncontent-length: 2\r\n").is_err());
        assert!(framing("content-length: -1\r\n").is_err());
        assert!(framing("content-length: 99999999999999999999\r\n").is_err());
        assert!(framing("transfer-encoding: gzip, chunked\r\n").is_err());
    }

    #[test]
    fn older_servers_keep_alive_only_if_they_say_so() {
        assert_eq!(whole("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n").map(|head| head.keep_alive), Ok(false));
        assert_eq!(
            whole("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n").map(|head| head.keep_alive),
            Ok(true)
        );
    }

    #[test]
    fn a_body_says_what_it_is() {
        let content = |value: &str| whole(&format!("HTTP/1.1 200 OK\r\ncontent-type: {value}\r\n\r\n")).map(|head| head.content);
        assert_eq!(content("text/event-stream; charset=utf-8"), Ok(Content::Events));
        assert_eq!(content("Application/JSON"), Ok(Content::Json));
        assert_eq!(content("application/problem+json"), Ok(Content::Json));
        assert_eq!(content("text/html"), Ok(Content::Other));
        assert_eq!(whole("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").map(|head| head.encoded), Ok(true));
    }

    #[test]
    fn what_is_no_head_is_refused_and_a_head_has_limits() {
        assert!(read(b"SSH-2.0-OpenSSH_9.6\r\n").is_err());
        assert!(read(b"\x15\x03\x01\x00\x02\x02").is_err());
        assert_eq!(read(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]), Err(http2::FRAMES));
        assert_eq!(read(&[0, 0, 6, 4, 0, 0, 0]), Ok(None), "what is found does not depend on the pieces");
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nconte"), Ok(None));
        assert_eq!(read(b""), Ok(None));
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MAX_HEAD_BYTES));
        assert_eq!(read(long.as_bytes()), Err("the head of the response is too long"));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(read(many.as_bytes()), Err("the head of the response has too many lines"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = read(&[b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes, b"\r\n\r\n"].concat());
        }
    }
}
