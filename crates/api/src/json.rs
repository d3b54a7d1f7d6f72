//! A strict JSON scanner that builds no document: it returns the values that the caller reads and validates the rest.
//!
//! It accepts the JSON texts of RFC 8259, in UTF-8, nested down to [`MAX_DEPTH`], and nothing else.

use std::borrow::Cow;

/// The maximum nesting; the responses of endpoints have six levels.
pub(crate) const MAX_DEPTH: u32 = 128;

/// The scanned value, or the reason why the text is not JSON.
pub type Scan<T> = Result<T, &'static str>;

/// The value in the place of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScannedCount {
    /// `null`.
    Absent,
    /// A whole number from 0 to 2^32 - 1.
    Tokens(u32),
    /// Any other value; the number, if it is a whole one of 64 bits.
    Invalid(Option<i64>),
}

/// A scanner at a position of a JSON text.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

impl<'a> Scanner<'a> {
    /// Returns a scanner at the start of a text. Outside of strings JSON is ASCII, so validating all of it as UTF-8 validates its
    /// strings.
    pub(crate) fn new(bytes: &'a [u8]) -> Scan<Self> {
        match std::str::from_utf8(bytes) {
            Ok(_) => Ok(Self { bytes, at: 0, depth: 0 }),
            Err(_) => Err("it is not UTF-8"),
        }
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Scan<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err("it ends too early")
    }

    /// Checks that only white space remains.
    pub(crate) fn end(&mut self) -> Scan<()> {
        if self.peek().is_err() { Ok(()) } else { Err("something follows the document") }
    }

    /// Scans an object: `member` is called with each key and reads, or skips, its value.
    #[inline]
    pub(crate) fn object(&mut self, mut member: impl FnMut(&mut Self, &[u8]) -> Scan<()>) -> Scan<()> {
        self.open(b'{', "an object is missing")?;
        if self.peek()? == b'}' {
            self.close();
            return Ok(());
        }
        loop {
            self.peek()?;
            let key = self.string()?;
            if self.peek()? != b':' {
                return Err("a key has no colon");
            }
            self.at += 1;
            let unescaped;
            let key = if key.escaped {
                unescaped = key.decoded();
                &*unescaped
            } else {
                key.raw
            };
            member(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.close();
                    return Ok(());
                }
                _ => return Err("an object is not closed"),
            }
        }
    }

    /// Scans an array: `element` is called to read, or skip, each element.
    #[inline]
    pub(crate) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Scan<()>) -> Scan<()> {
        self.open(b'[', "an array is missing")?;
        if self.peek()? == b']' {
            self.close();
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.close();
                    return Ok(());
                }
                _ => return Err("an array is not closed"),
            }
        }
    }

    /// Scans a string; its opening quote is the next byte.
    #[inline]
    pub(crate) fn string(&mut self) -> Scan<Text<'a>> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err("a string is missing");
        }
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_run(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    let raw = &self.bytes[start..self.at];
                    self.at += 1;
                    return Ok(Text { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err("a string holds a control character"),
                None => return Err("it ends too early"),
            }
        }
    }

    /// Scans the value in the place of a count.
    pub(crate) fn count(&mut self) -> Scan<ScannedCount> {
        match self.peek()? {
            b'n' => self.word(b"null").map(|()| ScannedCount::Absent),
            b'-' | b'0'..=b'9' => {
                let start = self.at;
                self.number()?;
                let digits = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
                let number: Option<i64> = digits.parse().ok();
                let tokens = number.and_then(|number| u32::try_from(number).ok());
                Ok(tokens.map_or(ScannedCount::Invalid(number), ScannedCount::Tokens))
            }
            _ => self.skip().map(|()| ScannedCount::Invalid(None)),
        }
    }

    /// Consumes a `null` if it comes next, and returns true if it did.
    #[inline]
    pub(crate) fn null(&mut self) -> Scan<bool> {
        if self.peek()? == b'n' { self.word(b"null").map(|()| true) } else { Ok(false) }
    }

    /// Validates a value of any kind and returns its bytes.
    pub(crate) fn raw(&mut self) -> Scan<&'a [u8]> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        Ok(&self.bytes[start..self.at])
    }

    /// Validates a value of any kind.
    #[inline]
    pub(crate) fn skip(&mut self) -> Scan<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(|scanner, _| scanner.skip()),
            b'[' => self.array(Self::skip),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn open(&mut self, bracket: u8, missing: &'static str) -> Scan<()> {
        if self.peek()? != bracket {
            return Err(missing);
        }
        if self.depth == MAX_DEPTH {
            return Err("it is nested too deeply");
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn word(&mut self, word: &'static [u8]) -> Scan<()> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err("it holds what is no value");
        }
        self.at += word.len();
        Ok(())
    }

    /// `-? (0 | [1-9][0-9]*) (\. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    fn number(&mut self) -> Scan<()> {
        if self.next_is(b"-") {
            self.at += 1;
        }
        if self.next_is(b"0") {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.next_is(b".") {
            self.at += 1;
            self.digits()?;
        }
        if self.next_is(b"eE") {
            self.at += 1;
            if self.next_is(b"+-") {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Scan<()> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err("it holds what is no value") } else { Ok(()) }
    }

    fn next_is(&self, any_of: &[u8]) -> bool {
        self.bytes.get(self.at).is_some_and(|byte| any_of.contains(byte))
    }

    /// Scans an escape; its backslash is the next byte.
    fn escape(&mut self) -> Scan<()> {
        self.at += 2;
        match self.bytes.get(self.at - 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') => {
                let digits = self.bytes.get(self.at..self.at + 4).ok_or("it ends too early")?;
                self.at += 4;
                if digits.iter().all(u8::is_ascii_hexdigit) { Ok(()) } else { Err("a string holds a broken escape") }
            }
            Some(_) => Err("a string holds a broken escape"),
            None => Err("it ends too early"),
        }
    }
}

/// Returns the number of bytes before the first quote, backslash or control character.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut run = 0;
    for word in words {
        let stop = stops(u64::from_le_bytes(*word));
        if stop != 0 {
            return run + (stop.trailing_zeros() / 8) as usize;
        }
        run += 8;
    }
    run + rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count()
}

/// Marks the high bit of the lowest byte that ends a plain run, for eight bytes at once. Higher bytes may be marked in error,
/// because a subtraction borrows, but never the lowest ("Bit Twiddling Hacks", determine if a word has a byte less than n).
#[inline]
const fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20);
    ((quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash) | (control & !word)) & HIGH
}

/// The content of a string whose escapes are valid.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Wraps the bytes of a value that is not a string, without decoding.
    pub(crate) fn verbatim(raw: &'a [u8]) -> Self {
        Self { raw, escaped: false }
    }

    /// Returns true if there is no text.
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// Returns the bytes of the decoded text, in UTF-8.
    #[inline]
    pub fn len(self) -> usize {
        if !self.escaped {
            return self.raw.len();
        }
        let mut len = 0;
        self.pieces(|piece| len += piece.len());
        len
    }

    /// Returns the decoded text; borrowed if it has no escapes.
    #[inline]
    pub fn decoded(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut text = Vec::with_capacity(self.raw.len());
        self.pieces(|piece| text.extend_from_slice(piece));
        Cow::Owned(text)
    }

    /// Passes the decoded text on, piece by piece. Half of a surrogate pair is not a character and decodes to U+FFFD.
    #[inline]
    pub fn pieces(self, mut take: impl FnMut(&[u8])) {
        let mut rest = self.raw;
        while let Some(escape) = rest.iter().position(|byte| self.escaped && *byte == b'\\') {
            let (plain, tail) = rest.split_at(escape);
            if !plain.is_empty() {
                take(plain);
            }
            let (character, length) = unescape(tail);
            take(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = tail.get(length..).unwrap_or_default();
        }
        if !rest.is_empty() {
            take(rest);
        }
    }
}

/// Decodes the escape at the start of a text: its character and the length of the escape.
fn unescape(text: &[u8]) -> (char, usize) {
    match text.get(1) {
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'n') => ('\n', 2),
        Some(b'r') => ('\r', 2),
        Some(b't') => ('\t', 2),
        Some(b'u') => unescape_hex(text),
        Some(other) => (char::from(*other), 2),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn unescape_hex(text: &[u8]) -> (char, usize) {
    let Some(unit) = unit(text) else { return (char::REPLACEMENT_CHARACTER, 6) };
    if let Some(character) = char::from_u32(unit) {
        return (character, 6);
    }
    let low = text.get(6..).and_then(self::unit).filter(|low| (0xdc00..0xe000).contains(low));
    match low {
        Some(low) if unit < 0xdc00 => {
            let scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}

/// Parses the `\uXXXX` at the start of a text.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns true if all of the bytes are one JSON text.
    fn accepts(bytes: &[u8]) -> bool {
        Scanner::new(bytes).and_then(|mut scanner| scanner.skip().and_then(|()| scanner.end())).is_ok()
    }

    /// Returns the verdict of serde_json on the grammar; it validates UTF-8 only if it builds strings.
    fn is_json(bytes: &[u8]) -> bool {
        std::str::from_utf8(bytes).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
    }

    #[test]
    fn what_is_json_is_accepted() {
        for text in [
            "{}",
            "[]",
            " [ 1 , 2 ] ",
            "{\"a\":{\"b\":[null,true,false,-0.5e+10]}}",
            "\"\\u00e9\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
            "0",
            "-1",
            "\"\\ud800\"",
            "\"\u{e9}\u{1f600}\u{7f}\"",
        ] {
            assert!(accepts(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "{'a':1}",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "-",
            "nul",
            "True",
            "NaN",
            "\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u12",
            "\"\n\"",
            "[1 2]",
            "{} {}",
            "[1}",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
        ] {
            assert!(!accepts(text.as_bytes()), "{text}");
        }
        assert!(!accepts(b"\"\xff\""));
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(accepts(&nested(MAX_DEPTH as usize)));
        assert!(!accepts(&nested(MAX_DEPTH as usize + 1)));
        assert!(!accepts(&vec![b'['; 1_000_000]));
    }

    #[test]
    fn escapes_become_characters() {
        let decoded = |text: &str| {
            let text = Scanner::new(text.as_bytes()).and_then(|mut scanner| scanner.string()).expect("a string");
            assert_eq!(text.len(), text.decoded().len());
            String::from_utf8(text.decoded().into_owned()).expect("UTF-8")
        };
        assert_eq!(decoded(r#""a\u0062\n\/\"""#), "ab\n/\"");
        assert_eq!(decoded(r#""\ud83d\ude00!""#), "\u{1f600}!");
        assert_eq!(decoded(r#""\ud83d!\ude00\ud83d\ud83d\ude00""#), "\u{fffd}!\u{fffd}\u{fffd}\u{1f600}");
    }

    #[test]
    fn counts_are_whole_numbers_that_fit() {
        let count = |text: &str| Scanner::new(text.as_bytes()).and_then(|mut scanner| scanner.count());
        assert_eq!(count("17"), Ok(ScannedCount::Tokens(17)));
        assert_eq!(count("null"), Ok(ScannedCount::Absent));
        assert_eq!(count("-1"), Ok(ScannedCount::Invalid(Some(-1))));
        assert_eq!(count("4294967296"), Ok(ScannedCount::Invalid(Some(4_294_967_296))));
        for invalid in ["1.5", "9223372036854775808", "\"17\"", "true", "[17]", "{\"a\":{}}"] {
            assert_eq!(count(invalid), Ok(ScannedCount::Invalid(None)), "{invalid}");
        }
        assert!(count("\"17").is_err() && count("nul").is_err());
    }

    proptest! {
        #[test]
        fn a_plain_run_is_what_a_loop_over_bytes_finds(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x1e_u8..0x24, 0x5b_u8..0x5e], 0..40)) {
            let naive = bytes.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count();
            prop_assert_eq!(plain_run(&bytes), naive);
        }

        #[test]
        fn it_agrees_with_another_parser(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:\\u0123e.-+ntrfalse \xc3\xa9\x01".to_vec()), 0..24)) {
            prop_assert_eq!(accepts(&bytes), is_json(&bytes), "{}", String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn it_agrees_with_another_parser_on_broken_documents(at in 0_usize..90, byte in any::<u8>()) {
            let mut bytes = br#"{"a":[1,-2.5e3,{"b":"x\u00e9\"y"},null],"c":{"d":true,"e":[]},"f":"\ud83d\ude00 text","g":0}"#.to_vec();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            prop_assert_eq!(accepts(&bytes), is_json(&bytes), "{}", String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn strings_decode_as_elsewhere(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("JSON");
            let read = Scanner::new(json.as_bytes()).and_then(|mut scanner| scanner.string()).expect("a string").decoded().into_owned();
            prop_assert_eq!(read, text.into_bytes());
        }
    }
}
