//! Parses HTTP/1.1 requests: pure, bounded, and ignoring all that the endpoint does not use.

/// The maximum header fields of a request.
const MAX_FIELDS: usize = 100;

/// The maximum bytes of a chunk's size line in a request's body, with its extensions.
const MAX_SIZE_LINE: usize = 1_024;

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// The path, without its query.
    pub(crate) path: String,
    /// The part after `?`; empty if there is none.
    pub(crate) query: String,
    /// True if the connection serves another request after this one.
    pub(crate) keep_alive: bool,
    pub(crate) length: Length,
    /// True if the client waits for permission to send the body.
    pub(crate) expects_continue: bool,
    /// `x-request-id`, if it is printable and not too long.
    pub(crate) request_id: Option<String>,
    /// `x-assay-fault`, unparsed.
    pub(crate) fault: Option<String>,
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Known(usize),
    Chunked,
}

/// The rejection of invalid bytes: the status and the reason. The connection closes after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRequest {
    pub(crate) status: u16,
    pub(crate) message: String,
}

fn bad_request(status: u16, message: &str) -> BadRequest {
    BadRequest { status, message: message.to_owned() }
}

/// Parses the head at the beginning of `input` and returns it with its length; none if it is incomplete.
pub(crate) fn read_head(input: &[u8], max_bytes: usize) -> Result<Option<(Head, usize)>, BadRequest> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(&input[..input.len().min(max_bytes)]) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() >= max_bytes => {
            return Err(bad_request(431, &format!("the head of the request has more than {max_bytes} bytes")));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(bad_request(431, &format!("the request has more than {MAX_FIELDS} header fields")));
        }
        Err(error) => return Err(bad_request(400, &format!("not HTTP/1.1: {error}"))),
    };
    Ok(Some((head(&request)?, length)))
}

fn head(request: &httparse::Request<'_, '_>) -> Result<Head, BadRequest> {
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        keep_alive: request.version == Some(1),
        length: Length::Known(0),
        expects_continue: false,
        request_id: None,
        fault: None,
    };
    let mut lengths = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().map(|field| content_length(field.value)).transpose()?;
    if lengths.next().is_some() {
        return Err(bad_request(400, "more than one `content-length`"));
    }
    head.length = Length::Known(length.unwrap_or(0));
    for field in &*request.headers {
        read_field(&mut head, field, length.is_some())?;
    }
    Ok(head)
}

fn read_field(head: &mut Head, field: &httparse::Header<'_>, has_length: bool) -> Result<(), BadRequest> {
    let is = |name: &str| field.name.eq_ignore_ascii_case(name);
    let text = std::str::from_utf8(field.value).unwrap_or_default().trim();
    if is("transfer-encoding") {
        // Two ways to determine the end of a body allow request smuggling.
        if has_length || !text.eq_ignore_ascii_case("chunked") {
            return Err(bad_request(
                501,
                "a body comes with `content-length` or as `transfer-encoding: chunked`, and with nothing else",
            ));
        }
        head.length = Length::Chunked;
    } else if is("connection") {
        let says = |word: &str| text.split(',').any(|option| option.trim().eq_ignore_ascii_case(word));
        head.keep_alive = !says("close") && (head.keep_alive || says("keep-alive"));
    } else if is("expect") {
        head.expects_continue = text.eq_ignore_ascii_case("100-continue");
    } else if is("x-request-id") {
        let fits = (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        head.request_id = fits.then(|| text.to_owned());
    } else if is("x-assay-fault") {
        head.fault = Some(text.to_owned());
    }
    Ok(())
}

fn content_length(value: &[u8]) -> Result<usize, BadRequest> {
    let digits =
        std::str::from_utf8(value).ok().filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).ok_or_else(|| bad_request(400, "`content-length` is not a number of bytes"))
}

/// Collects the body of one request.
pub(crate) struct Body {
    length: Length,
    max_bytes: usize,
    bytes: Vec<u8>,
    /// Remaining bytes of the current chunk, under chunked encoding.
    remaining: usize,
    state: ChunkState,
}

/// The position in a chunked body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    Size,
    Data,
    /// After a chunk's data, before its line break.
    Break,
    /// After the last chunk.
    Trailer,
}

impl Body {
    pub(crate) fn new(length: Length, max_bytes: usize) -> Result<Self, BadRequest> {
        if matches!(length, Length::Known(length) if length > max_bytes) {
            return Err(too_large(max_bytes));
        }
        Ok(Self { length, max_bytes, bytes: Vec::new(), remaining: 0, state: ChunkState::Size })
    }

    /// Removes the bytes of the body from the beginning of `input`; returns the body once it is complete.
    pub(crate) fn read(&mut self, input: &mut Vec<u8>) -> Result<Option<Vec<u8>>, BadRequest> {
        let whole = match self.length {
            Length::Known(length) => {
                let count = input.len().min(length - self.bytes.len());
                self.bytes.extend(input.drain(..count));
                self.bytes.len() == length
            }
            Length::Chunked => self.read_chunks(input)?,
        };
        Ok(whole.then(|| std::mem::take(&mut self.bytes)))
    }

    fn read_chunks(&mut self, input: &mut Vec<u8>) -> Result<bool, BadRequest> {
        let mut used = 0;
        let result = self.step_through(input, &mut used);
        input.drain(..used);
        result
    }

    fn step_through(&mut self, input: &[u8], used: &mut usize) -> Result<bool, BadRequest> {
        loop {
            let rest = &input[*used..];
            match self.state {
                ChunkState::Size => {
                    let Some(line) = line(rest)? else { return Ok(false) };
                    *used += line.len() + 2;
                    self.remaining = chunk_size(line)?;
                    self.state = if self.remaining == 0 { ChunkState::Trailer } else { ChunkState::Data };
                    if self.remaining > self.max_bytes - self.bytes.len() {
                        return Err(too_large(self.max_bytes));
                    }
                }
                ChunkState::Data => {
                    let count = rest.len().min(self.remaining);
                    self.bytes.extend_from_slice(&rest[..count]);
                    *used += count;
                    self.remaining -= count;
                    if self.remaining > 0 {
                        return Ok(false);
                    }
                    self.state = ChunkState::Break;
                }
                ChunkState::Break => {
                    let Some(line) = line(rest)? else { return Ok(false) };
                    if !line.is_empty() {
                        return Err(bad_request(400, "a chunk of the body is longer than it says"));
                    }
                    *used += 2;
                    self.state = ChunkState::Size;
                }
                ChunkState::Trailer => {
                    let Some(line) = line(rest)? else { return Ok(false) };
                    *used += line.len() + 2;
                    if line.is_empty() {
                        return Ok(true);
                    }
                }
            }
        }
    }
}

fn too_large(max_bytes: usize) -> BadRequest {
    bad_request(413, &format!("the body of the request has more than {max_bytes} bytes"))
}

/// Returns the line at the beginning of `input`, without its end.
fn line(input: &[u8]) -> Result<Option<&[u8]>, BadRequest> {
    let searched = &input[..input.len().min(MAX_SIZE_LINE)];
    match searched.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => Ok(Some(&searched[..end])),
        None if searched.len() == MAX_SIZE_LINE => Err(bad_request(400, "a line of the chunked body is too long")),
        None => Ok(None),
    }
}

fn chunk_size(line: &[u8]) -> Result<usize, BadRequest> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    text.and_then(|text| usize::from_str_radix(text, 16).ok()).ok_or_else(|| bad_request(400, "a chunk of the body has no size"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole_head(text: &str) -> Head {
        read_head(text.as_bytes(), 4_096).expect(text).expect("a whole head").0
    }

    fn refused(text: &str) -> u16 {
        read_head(text.as_bytes(), 4_096).expect_err(text).status
    }

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = "POST /v1/x?since=3 HTTP/1.1\r\nContent-Length: 5\r\nX-Request-Id: abc\r\nx-assay-fault: hang\r\n\r\nhello";
        let (head, length) = read_head(text.as_bytes(), 4_096).expect("a head").expect("whole");
        assert_eq!(&text[length..], "hello");
        assert_eq!((head.method.as_str(), head.path.as_str(), head.query.as_str()), ("POST", "/v1/x", "since=3"));
        assert_eq!((head.length, head.keep_alive), (Length::Known(5), true));
        assert_eq!((head.request_id.as_deref(), head.fault.as_deref()), (Some("abc"), Some("hang")));
        for end in 0..length {
            assert_eq!(read_head(&text.as_bytes()[..end], 4_096), Ok(None));
        }
    }

    #[test]
    fn a_connection_is_kept_as_the_client_wants_it() {
        assert!(!whole_head("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(whole_head("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
        assert!(!whole_head("GET / HTTP/1.1\r\nConnection: te, close\r\n\r\n").keep_alive);
    }

    #[test]
    fn an_unfit_request_id_is_ignored() {
        assert_eq!(whole_head("GET / HTTP/1.1\r\nX-Request-Id: a b\r\n\r\n").request_id, None);
        assert_eq!(whole_head(&format!("GET / HTTP/1.1\r\nX-Request-Id: {}\r\n\r\n", "a".repeat(129))).request_id, None);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(refused("\x01\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nContent-Length: +5\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"), 501);
        assert_eq!(refused("GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), 501);
        assert_eq!(refused(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(5_000))), 431);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101))), 431);
    }

    fn parse_body(length: Length, max_bytes: usize, parts: &[&[u8]]) -> Result<(Option<Vec<u8>>, Vec<u8>), BadRequest> {
        let mut body = Body::new(length, max_bytes)?;
        let mut input = Vec::new();
        for part in parts {
            input.extend_from_slice(part);
            if let Some(whole) = body.read(&mut input)? {
                return Ok((Some(whole), input));
            }
        }
        Ok((None, input))
    }

    #[test]
    fn a_body_ends_where_it_says_and_leaves_what_follows() {
        let (body, rest) = parse_body(Length::Known(5), 10, &[b"he", b"llo", b"GET"]).expect("a body");
        assert_eq!((body.as_deref(), rest.as_slice()), (Some(&b"hello"[..]), &b""[..]));
        let chunked: &[u8] = b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\nGET";
        let (body, rest) = parse_body(Length::Chunked, 10, &[chunked]).expect("a body");
        assert_eq!((body.as_deref(), rest.as_slice()), (Some(&b"hello"[..]), &b"GET"[..]));
        let bytes: Vec<&[u8]> = chunked.chunks(1).collect();
        let (body, _) = parse_body(Length::Chunked, 10, &bytes).expect("a body");
        assert_eq!(body.as_deref(), Some(&b"hello"[..]));
    }

    #[test]
    fn a_body_beyond_the_limit_or_its_own_word_is_refused() {
        let status = |length, parts: &[&[u8]]| parse_body(length, 10, parts).expect_err("refused").status;
        assert_eq!(status(Length::Known(11), &[]), 413);
        assert_eq!(status(Length::Chunked, &[b"6\r\n123456\r\n5\r\n"]), 413);
        assert_eq!(status(Length::Chunked, &[b"ffffffffffffffff\r\n"]), 413);
        assert_eq!(status(Length::Chunked, &[b"fffffffffffffffff\r\n"]), 400);
        assert_eq!(status(Length::Chunked, &[b"x\r\n"]), 400);
        assert_eq!(status(Length::Chunked, &[b"1\r\nab\r\n"]), 400);
        assert_eq!(status(Length::Chunked, &[&[b'1'; 2_000]]), 400);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(Some((_, length))) = read_head(&bytes, 512) {
                prop_assert!(length <= bytes.len().min(512));
            }
            let mut input = bytes;
            if let Ok(mut body) = Body::new(Length::Chunked, 64)
                && let Ok(Some(whole)) = body.read(&mut input)
            {
                prop_assert!(whole.len() <= 64);
            }
        }

        #[test]
        fn a_chunked_body_is_the_same_however_it_is_cut(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..8),
            cut in 1_usize..9,
        ) {
            let mut wire: Vec<u8> = Vec::new();
            for part in &parts {
                wire.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                wire.extend_from_slice(part);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let pieces: Vec<&[u8]> = wire.chunks(cut).collect();
            let (body, _) = parse_body(Length::Chunked, 1_000, &pieces).expect("a body");
            prop_assert_eq!(body, Some(parts.concat()));
        }
    }
}
