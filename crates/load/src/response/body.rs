//! Removes the framing of a response's body: a length, chunks, or all bytes until the connection closes.

use super::head::Framing;

/// The maximum bytes of a chunk's size line, with its extensions.
const MAX_SIZE_LINE: usize = 1 << 10;
/// The maximum bytes of the trailer after the last chunk.
const MAX_TRAILER: usize = 16 << 10;

/// A decoder that removes the framing of a body, incrementally.
#[derive(Debug)]
pub(crate) struct Body {
    state: FramingState,
    /// Remaining bytes of the current chunk or body.
    remaining: u64,
    /// Bytes of the size line, or of the trailer, so far.
    line: usize,
}

/// The position of the next byte in the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramingState {
    /// In a body of a given length.
    Length,
    /// In a body that ends with the connection.
    Close,
    /// In the digits of a chunk's size.
    Size,
    /// After the digits of the size, before the line feed.
    Extension,
    /// In a chunk.
    Chunk,
    /// Before the carriage return that follows a chunk.
    ChunkReturn,
    /// Between that carriage return and its line feed.
    ChunkFeed,
    /// At the start of a line of the trailer.
    Trailer,
    /// In a line of the trailer.
    TrailerLine,
    /// After the carriage return of a blank line of the trailer.
    TrailerEnd,
    /// After the body.
    Done,
}

/// The result of one decoding step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// Bytes of the body; may be empty.
    pub(crate) body: &'a [u8],
    /// The bytes that were not read yet.
    pub(crate) rest: &'a [u8],
}

impl Body {
    /// Returns a decoder at the start of a body.
    pub(crate) fn new(framing: Framing) -> Self {
        let (place, left) = match framing {
            Framing::Length(0) => (FramingState::Done, 0),
            Framing::Length(length) => (FramingState::Length, length),
            Framing::Chunked => (FramingState::Size, 0),
            Framing::Close => (FramingState::Close, 0),
        };
        Self { state: place, remaining: left, line: 0 }
    }

    /// Returns true if all of the body has come.
    pub(crate) fn is_over(&self) -> bool {
        self.state == FramingState::Done
    }

    /// Returns true if the body properly ends with the connection.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.state == FramingState::Close
    }

    /// Decodes the next piece. Call it until no bytes remain or the body is over.
    #[inline]
    pub(crate) fn next<'a>(&mut self, mut bytes: &'a [u8]) -> Result<Piece<'a>, &'static str> {
        while let [byte, tail @ ..] = bytes {
            match self.state {
                FramingState::Done => break,
                FramingState::Close => return Ok(Piece { body: bytes, rest: &[] }),
                FramingState::Length | FramingState::Chunk => return Ok(self.piece(bytes)),
                _ => {
                    self.framing_byte(*byte)?;
                    bytes = tail;
                }
            }
        }
        Ok(Piece { body: &[], rest: bytes })
    }

    fn piece<'a>(&mut self, bytes: &'a [u8]) -> Piece<'a> {
        let length = usize::try_from(self.remaining).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (body, rest) = bytes.split_at(length);
        self.remaining -= length as u64;
        if self.remaining == 0 {
            self.state = if self.state == FramingState::Length { FramingState::Done } else { FramingState::ChunkReturn };
        }
        Piece { body, rest }
    }

    fn framing_byte(&mut self, byte: u8) -> Result<(), &'static str> {
        self.state = match (self.state, byte) {
            (FramingState::Size, _) => return self.size_byte(byte),
            (FramingState::Extension, b'\n') => self.after_size_line(),
            (FramingState::Extension, _) => self.advance_within(MAX_SIZE_LINE, FramingState::Extension)?,
            (FramingState::ChunkReturn, b'\r') => FramingState::ChunkFeed,
            (FramingState::ChunkFeed, b'\n') => {
                self.line = 0;
                FramingState::Size
            }
            (FramingState::Trailer, b'\r') => self.advance_within(MAX_TRAILER, FramingState::TrailerEnd)?,
            (FramingState::Trailer | FramingState::TrailerEnd, b'\n') => FramingState::Done,
            (FramingState::TrailerLine, b'\n') => self.advance_within(MAX_TRAILER, FramingState::Trailer)?,
            (FramingState::Trailer | FramingState::TrailerLine, _) => {
                self.advance_within(MAX_TRAILER, FramingState::TrailerLine)?
            }
            _ => return Err("the chunks of the response are out of order"),
        };
        Ok(())
    }

    fn size_byte(&mut self, byte: u8) -> Result<(), &'static str> {
        let digit = char::from(byte).to_digit(16);
        match (digit, byte) {
            (Some(digit), _) => {
                self.remaining = self.remaining.checked_mul(16).ok_or("a chunk of the response is too large")? | u64::from(digit);
                self.advance_within(MAX_SIZE_LINE, FramingState::Size)?;
            }
            // A size needs at least one digit.
            (None, _) if self.line == 0 => return Err("a chunk of the response has no size"),
            (None, b'\n') => self.state = self.after_size_line(),
            (None, b'\r' | b';' | b' ' | b'\t') => self.state = FramingState::Extension,
            (None, _) => return Err("a chunk of the response has no size"),
        }
        Ok(())
    }

    /// Returns the position after a size line.
    fn after_size_line(&mut self) -> FramingState {
        self.line = 0;
        if self.remaining == 0 { FramingState::Trailer } else { FramingState::Chunk }
    }

    fn advance_within(&mut self, limit: usize, place: FramingState) -> Result<FramingState, &'static str> {
        self.line += 1;
        if self.line > limit { Err("the framing of the response is too long") } else { Ok(place) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a body that comes in these pieces: its text, and the number of bytes after it (none if the body is not over).
    fn decode<'a>(framing: Framing, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(String, Option<usize>), &'static str> {
        let mut body = Body::new(framing);
        let (mut text, mut behind) = (Vec::new(), 0);
        for mut rest in pieces {
            while !rest.is_empty() && !body.is_over() {
                let piece = body.next(rest)?;
                text.extend_from_slice(piece.body);
                rest = piece.rest;
            }
            behind += rest.len();
        }
        Ok((String::from_utf8_lossy(&text).into_owned(), body.is_over().then_some(behind)))
    }

    fn chunked(text: &str) -> Result<(String, Option<usize>), &'static str> {
        let whole = decode(Framing::Chunked, [text.as_bytes()]);
        assert_eq!(decode(Framing::Chunked, text.as_bytes().chunks(1)), whole);
        whole
    }

    #[test]
    fn chunks_are_joined() {
        assert_eq!(chunked("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"), Ok(("abc0123456789".into(), Some(0))));
        assert_eq!(chunked("3\nabc\r\n0\n\nnext"), Ok(("abc".into(), Some(4))));
        assert_eq!(chunked("0\r\nx: y\r\nz: w\r\n\r\nnext"), Ok((String::new(), Some(4))));
        assert_eq!(chunked("3\r\nab"), Ok(("ab".into(), None)));
        assert_eq!(chunked("0\r\n"), Ok((String::new(), None)));
    }

    #[test]
    fn broken_chunks_are_refused() {
        for text in ["x\r\n", "\r\n", ";x\r\n", "3\r\nabcd\r\n", "3\r\nabc\n", "-3\r\n", "11111111111111111\r\n", "3x\r\n"] {
            assert!(chunked(text).is_err(), "{text}");
        }
        assert!(chunked(&format!("3;{}", "x".repeat(MAX_SIZE_LINE))).is_err());
        assert!(chunked(&format!("0\r\n{}", "x: y\r\n".repeat(MAX_TRAILER / 6 + 1))).is_err());
        assert!(chunked(&"0".repeat(MAX_SIZE_LINE + 1)).is_err());
    }

    #[test]
    fn a_length_is_kept_to() {
        assert_eq!(decode(Framing::Length(3), [b"ab".as_slice(), b"cd"]), Ok(("abc".into(), Some(1))));
        assert_eq!(decode(Framing::Length(3), [b"ab".as_slice()]), Ok(("ab".into(), None)));
        assert_eq!(decode(Framing::Length(0), [b"x".as_slice()]), Ok((String::new(), Some(1))));
        assert_eq!(decode(Framing::Close, [b"ab".as_slice(), b"cd"]), Ok(("abcd".into(), None)));
    }

    proptest! {
        #[test]
        fn any_chunks_come_back_whole(chunks in proptest::collection::vec("[a-z]{1,20}", 0..6), cut in 0_usize..200) {
            let mut wire = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect::<Vec<_>>().concat();
            wire.push_str("0\r\n\r\n");
            let (head, tail) = wire.as_bytes().split_at(cut.min(wire.len()));
            prop_assert_eq!(decode(Framing::Chunked, [head, tail]), Ok((chunks.concat(), Some(0))));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::sample::select(b"0123fF\r\n;x".to_vec()), 0..60)) {
            let _ = decode(Framing::Chunked, [bytes.as_slice()]);
        }
    }
}
