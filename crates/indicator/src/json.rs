//! A strict reader of JSON (RFC 8259). It refuses duplicate keys, which general readers hide, and accepts and marks Python's
//! `NaN`, `Infinity` and `-Infinity`.

use std::collections::HashSet;

use crate::output_error::{OutputError, Position, quoted};

/// The largest output in bytes. Real indicators print a few kilobytes, a whole pyperformance document a few megabytes.
pub const MAX_BYTES: usize = 16 << 20;
/// The deepest nesting of arrays and objects. Real documents have six levels; the reader's stack is safe far beyond this.
pub const MAX_DEPTH: usize = 64;
/// The most values of a document, including arrays and objects. It bounds the memory of the tree to some 100 MB.
pub const MAX_VALUES: usize = 1_000_000;
/// The most samples in one array. They determine a quantile to four nines; more of them belong in a file.
pub const MAX_SAMPLES: usize = 100_000;

/// A JSON value as it was written.
#[derive(Debug)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// A finite number.
    Number(f64),
    /// `NaN`, `Infinity`, `-Infinity`, or a number too large for a double.
    NotFinite,
    Text(String),
    Array(Vec<Node>),
    /// The members in the order of the document, without duplicate keys.
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Returns the kind of the value with its article, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) | Self::NotFinite => "a number",
            Self::Text(_) => "a text",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::NotFinite)
    }
}

/// Parses `bytes` as exactly one document.
pub(crate) fn read(bytes: &[u8]) -> Result<Node, OutputError> {
    if bytes.len() > MAX_BYTES {
        return Err(OutputError::TooLarge);
    }
    let mut reader = Reader { text: utf8(bytes)?, at: 0, depth: 0, values: 0 };
    reader.skip_space();
    if reader.peek().is_none() {
        return Err(OutputError::Empty);
    }
    let document = reader.value()?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(document),
        Some(_) => Err(OutputError::TrailingBytes(reader.position())),
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, OutputError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        OutputError::NotJson { place: position_after(valid), problem: "this is not UTF-8" }
    })
}

/// Returns the place that follows `read`.
fn position_after(read: &[u8]) -> Position {
    let line = read.split(|byte| *byte == b'\n').count();
    let start = read.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    // All bytes of a character except its first begin with the bits 10.
    let column = 1 + read.iter().skip(start).filter(|byte| **byte >> 6 != 0b10).count();
    Position { line, column }
}

struct Reader<'a> {
    text: &'a str,
    /// The offset of the next byte. On the first byte of a character whenever `text` is sliced there.
    at: usize,
    depth: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Node, OutputError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(OutputError::TooManyValues(self.position()));
        }
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Node::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    /// Reads an array or an object, whose opening bracket is next, one level deeper.
    fn nested(&mut self, read: fn(&mut Self) -> Result<Node, OutputError>) -> Result<Node, OutputError> {
        if self.depth == MAX_DEPTH {
            return Err(OutputError::TooDeep(self.position()));
        }
        self.at += 1;
        self.depth += 1;
        self.skip_space();
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn array(&mut self) -> Result<Node, OutputError> {
        let mut items = Vec::new();
        if !self.take(b']') {
            loop {
                items.push(self.value()?);
                if self.read_list_end(b']', "expected `,` or `]`")? {
                    break;
                }
            }
        }
        if items.len() > MAX_SAMPLES && items.iter().all(Node::is_number) {
            return Err(OutputError::TooManySamples(self.position()));
        }
        Ok(Node::Array(items))
    }

    fn object(&mut self) -> Result<Node, OutputError> {
        let mut members = Vec::new();
        let mut seen = HashSet::new();
        if !self.take(b'}') {
            loop {
                let key = self.read_new_key(&mut seen)?;
                self.skip_space();
                self.expect(b':', "expected `:`")?;
                self.skip_space();
                members.push((key, self.value()?));
                if self.read_list_end(b'}', "expected `,` or `}`")? {
                    break;
                }
            }
        }
        Ok(Node::Object(members))
    }

    /// Reads a key. Fails if its object has that key already.
    fn read_new_key(&mut self, seen: &mut HashSet<String>) -> Result<String, OutputError> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.not_json("expected a key in double quotes"));
        }
        let key = self.string()?;
        if !seen.insert(key.clone()) {
            return Err(OutputError::DuplicateKey { place: self.position_at(start), key: quoted(&key) });
        }
        Ok(key)
    }

    /// Returns true if `close` ends the list here; otherwise reads the comma that must lead to the next item.
    fn read_list_end(&mut self, close: u8, problem: &'static str) -> Result<bool, OutputError> {
        self.skip_space();
        if self.take(close) {
            return Ok(true);
        }
        self.expect(b',', problem)?;
        self.skip_space();
        Ok(false)
    }

    fn word(&mut self) -> Result<Node, OutputError> {
        let words = [
            ("null", Node::Null),
            ("true", Node::Bool(true)),
            ("false", Node::Bool(false)),
            ("NaN", Node::NotFinite),
            ("Infinity", Node::NotFinite),
        ];
        words.into_iter().find_map(|(word, node)| self.take_word(word).then_some(node)).ok_or_else(|| match self.peek() {
            None => self.not_json("it ends where a value is expected"),
            Some(_) => self.not_json("expected a value"),
        })
    }

    /// Reads a number by RFC 8259 section 6: an optional minus, an integer without leading zeros, an optional fraction, an
    /// optional exponent.
    fn number(&mut self) -> Result<Node, OutputError> {
        let start = self.at;
        self.take(b'-');
        if self.take_word("Infinity") {
            return Ok(Node::NotFinite);
        }
        if !self.take(b'0') {
            self.digits("expected a digit")?;
        }
        if self.take(b'.') {
            self.digits("expected a digit after the decimal point")?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits("expected a digit in the exponent")?;
        }
        let number = self.text.get(start..self.at).and_then(|digits| digits.parse::<f64>().ok());
        Ok(number.filter(|number| number.is_finite()).map_or(Node::NotFinite, Node::Number))
    }

    fn digits(&mut self, problem: &'static str) -> Result<(), OutputError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.not_json(problem)) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<String, OutputError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            text.push_str(self.read_plain_run());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.not_json("a control character in a text must be escaped")),
                None => return Err(self.not_json("it ends within a text")),
            }
        }
        self.at += 1;
        Ok(text)
    }

    /// Reads the characters up to the next quote, backslash or control character.
    fn read_plain_run(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_special = |byte: u8| matches!(byte, b'"' | b'\\' | 0..0x20);
        let length = rest.bytes().position(is_special).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn escape(&mut self) -> Result<char, OutputError> {
        let start = self.at;
        self.at += 1;
        let escaped = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            _ => return Err(self.not_json_at(start, "no such escape")),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// Reads `uXXXX`, or the two of them that UTF-16 needs beyond U+FFFF. The backslash is at `start`.
    fn unicode_escape(&mut self, start: usize) -> Result<char, OutputError> {
        let mut units = [self.code_unit(start)?, 0];
        let is_half = (0xD800..0xDC00).contains(&units[0]);
        if is_half && self.take(b'\\') {
            units[1] = self.code_unit(start)?;
        }
        let decoded = char::decode_utf16(units).next().and_then(Result::ok);
        decoded.ok_or_else(|| self.not_json_at(start, "half of a surrogate pair is not a character"))
    }

    fn code_unit(&mut self, start: usize) -> Result<u16, OutputError> {
        let digits = self.text.get(self.at + 1..self.at + 5).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.filter(|_| self.peek() == Some(b'u')).and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.not_json_at(start, "expected `\\u` and four hexadecimal digits"))?;
        self.at += 5;
        Ok(unit)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_there = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn expect(&mut self, byte: u8, problem: &'static str) -> Result<(), OutputError> {
        if self.take(byte) { Ok(()) } else { Err(self.not_json(problem)) }
    }

    fn not_json(&self, problem: &'static str) -> OutputError {
        self.not_json_at(self.at, problem)
    }

    fn not_json_at(&self, at: usize, problem: &'static str) -> OutputError {
        OutputError::NotJson { place: self.position_at(at), problem }
    }

    fn position(&self) -> Position {
        self.position_at(self.at)
    }

    fn position_at(&self, at: usize) -> Position {
        position_after(self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes()))
    }
}
