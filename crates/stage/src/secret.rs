//! Secrets that a definition names and never holds, and masking of secrets in foreign output.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;

use assay_manifest::EnvVar;

/// The largest secret that is read from a file, in bytes: as large as one environment variable may be on Linux.
const MAX_SECRET_BYTES: u64 = 128 << 10;

/// The shortest value that is masked as a secret, in bytes: shorter ones occur in ordinary output by chance.
const MIN_SECRET_BYTES: usize = 6;

/// The replacement of a secret.
const MASK: &[u8] = b"[secret]";

/// The most passes in which escapes are decoded: an error that quotes an error that quotes a third one has as many levels of escapes.
const MAX_NESTING: usize = 6;

/// The deepest indentation of a word that is wrapped, in bytes.
const MAX_INDENTATION: usize = 64;

/// The length of a character that is escaped twice, in bytes: `&amp;#x2F;`.
const MAX_ESCAPE_BYTES: usize = 10;

/// The prefix of all variables that a definition may read if Assay runs in a pod. All other variables there are Assay's own,
/// credentials among them, and a definition is not trusted with them.
pub const ENDPOINT_PREFIX: &str = "ENDPOINT_";

/// The variable that holds the password of private keys, as cosign names it. No stage gets it where a runner passes its key unlocked.
pub const KEY_PASSWORD: &str = "COSIGN_PASSWORD";

/// Returns the password of private keys; empty if none is set.
pub fn key_password() -> OsString {
    std::env::var_os(KEY_PASSWORD).unwrap_or_default()
}

/// Reads the text of a file without the trailing line end that editors add.
pub fn read_secret(path: &str) -> std::io::Result<OsString> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_SECRET_BYTES {
        return Err(std::io::Error::other(format!("it is larger than the limit of {MAX_SECRET_BYTES} bytes")));
    }
    Ok(text.trim_end_matches('\n').into())
}

/// The reason why a variable or header has no value.
#[derive(Debug)]
pub enum MissingValue {
    /// This variable of the environment is not set.
    Env(String),
    /// This file cannot be read.
    File(String, std::io::Error),
    /// Its definition names neither a value nor a source of one.
    Undefined,
}

/// Returns the value of a variable or header: the one in its definition, or the one at the source that the definition names.
pub fn read_value(variable: &EnvVar) -> Result<OsString, MissingValue> {
    let in_pod = std::env::var_os(crate::pod::POD).is_some();
    match (&variable.value, &variable.from_env, &variable.from_file) {
        (Some(value), _, _) => Ok(value.into()),
        (None, Some(name), _) => {
            let asked = if in_pod { format!("{ENDPOINT_PREFIX}{name}") } else { name.clone() };
            std::env::var_os(asked).ok_or_else(|| MissingValue::Env(name.clone()))
        }
        (None, None, Some(path)) if in_pod => {
            let why = "no definition reads a file of a pod: name a member of the Secret `assay-endpoints` with `from_env`";
            Err(MissingValue::File(path.clone(), std::io::Error::other(why)))
        }
        (None, None, Some(path)) => read_secret(path).map_err(|error| MissingValue::File(path.clone(), error)),
        (None, None, None) => Err(MissingValue::Undefined),
    }
}

/// Secrets that were passed to another program, which may repeat them in its output. They are never printed.
///
/// A secret is found as it is; escaped as in JSON, HTML, addresses and messages, in any mixture, also escapes of escapes; with characters in it that show nothing; in base64, alone
/// or within a longer text; in hexadecimal; wrapped over several lines; all in upper or in lower case; with other white space; and after a wrong decoding of its characters. It is not found if the other program
/// changes it in another way: masking protects against programs that repeat what they received, not against those that hide it.
#[derive(Clone, Default)]
pub struct Secrets {
    count: usize,
    forms: Vec<Form>,
    /// The pairs of bytes with which forms begin: a set of bits. Few places of a text have one of them.
    beginnings: Vec<u64>,
}

impl Secrets {
    /// Takes these values without the white space around them, except those that are too short to be distinguished from ordinary output.
    pub fn new<V: Into<Vec<u8>>>(values: impl IntoIterator<Item = V>) -> Self {
        let mut secrets = Self::default();
        for value in values.into_iter().map(Into::into) {
            let value: &[u8] = value.trim_ascii();
            if value.len() >= MIN_SECRET_BYTES {
                secrets.count += 1;
                secrets.forms.extend(forms(value).into_iter().filter(|form| form.bytes.len() >= MIN_SECRET_BYTES));
            }
        }
        for form in &secrets.forms {
            if let [first, second, ..] = form.bytes[..] {
                secrets.beginnings.resize(1 << 10, 0);
                let (word, bit) = beginning(first, second);
                secrets.beginnings.iter_mut().skip(word).take(1).for_each(|bits| *bits |= bit);
            }
        }
        secrets
    }

    /// Returns true if there is no secret to mask.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Returns the number of bytes before a place that may hold the beginning of a secret that goes on there, escaped twice.
    pub fn reach(&self) -> usize {
        self.forms.iter().map(|form| form.bytes.len() * MAX_ESCAPE_BYTES).max().unwrap_or(0)
    }

    /// Returns the bytes with every secret masked; `None` if they contain none.
    pub fn mask(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let found = self.find(bytes, false, MAX_NESTING);
        (!found.is_empty()).then(|| replace(bytes, &found, 0))
    }

    /// Masks bytes that were cut at some length: at their end, the beginning of a secret is masked too, also if a closing mark follows.
    pub fn mask_cut(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let found = self.find(without_cut_marks(bytes), true, MAX_NESTING);
        (!found.is_empty()).then(|| replace(bytes, &found, 0))
    }

    /// Masks a text like [`mask_cut`](Self::mask_cut).
    pub fn mask_truncated(&self, text: &str) -> Option<String> {
        self.mask_cut(text.as_bytes()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Masks a text like [`mask_truncated`](Self::mask_truncated) in which line ends have become blanks: a word may go on behind one.
    pub fn mask_shortened(&self, text: &str) -> Option<String> {
        let lines = without_cut_marks(text.as_bytes());
        let mut wrapped = lines.to_vec();
        let mut before = 0;
        for byte in &mut wrapped {
            let is_first = *byte == b' ' && before != b' ';
            before = *byte;
            *byte = if is_first { b'\n' } else { *byte };
        }
        // Both have the same length, so a place of one is that of the other.
        let found = merge([lines, &wrapped].into_iter().flat_map(|text| self.find(text, true, MAX_NESTING)).collect());
        (!found.is_empty()).then(|| String::from_utf8_lossy(&replace(text.as_bytes(), &found, 0)).into_owned())
    }

    /// Returns the bytes from `from` on, masked like [`mask_cut`](Self::mask_cut). The bytes before are searched as well: a secret that
    /// goes on at `from` is masked.
    pub fn mask_from(&self, bytes: &[u8], from: usize) -> Vec<u8> {
        replace(bytes, &self.find(without_cut_marks(bytes), true, MAX_NESTING), from)
    }

    /// Returns the ranges of a text that hold secrets, in order and without overlaps. In a text that `is_cut`, the beginning of a secret
    /// at the end is one too. Escapes are decoded in passes over the whole text, at most `nesting` of them: however hostile a text is, the
    /// time grows with its length only.
    fn find(&self, text: &[u8], is_cut: bool, nesting: usize) -> Vec<Range<usize>> {
        if self.is_empty() || text.len() < MIN_SECRET_BYTES {
            return Vec::new();
        }
        let mut found = self.find_plain(text, is_cut);
        if nesting > 0
            && let Some(view) = decode(text, is_cut)
        {
            let within = self.find(&view, is_cut, nesting - 1);
            let ends_there = is_cut && within.last().is_some_and(|last| last.end == view.len());
            found.extend(source_ranges(text, is_cut, &within));
            // The escape that was cut at the end belongs to the secret.
            found.last_mut().filter(|_| ends_there).into_iter().for_each(|last| last.end = text.len());
        }
        merge(found)
    }

    /// Returns the ranges of a text that hold forms of secrets as they are.
    fn find_plain(&self, text: &[u8], is_cut: bool) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (at, pair) in text.windows(2).enumerate() {
            let &[first, second] = pair else { continue };
            let (word, bit) = beginning(first, second);
            if self.beginnings.get(word).is_some_and(|bits| bits & bit != 0) {
                let rest = text.get(at..).unwrap_or_default();
                let forms = self.forms.iter().filter(|form| rest.starts_with(&form.bytes));
                found.extend(forms.map(|form| form.with_partial(text, at..at + form.bytes.len())));
            }
        }
        if is_cut {
            let begun = |form: &Form| Some(form.with_partial(text, text.len() - form.begun_at_end(text)?..text.len()));
            found.extend(self.forms.iter().filter_map(begun));
        }
        found
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.count)
    }
}

/// Returns the place of a pair of bytes in a set of bits.
fn beginning(first: u8, second: u8) -> (usize, u64) {
    let pair = u16::from_be_bytes([first, second]);
    (usize::from(pair >> 6), 1 << (pair & 63))
}

/// One form in which other programs write a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Form {
    bytes: Vec<u8>,
    /// True for base64 whose bytes stand behind a character that holds some bits of the secret beside others.
    is_begun_before: bool,
    /// True for base64 whose bytes stand before such a character.
    is_ended_after: bool,
}

impl Form {
    /// Returns a range that holds these bytes with the characters around it that hold bits of the secret, too.
    fn with_partial(&self, text: &[u8], range: Range<usize>) -> Range<usize> {
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        let before = self.is_begun_before && range.start.checked_sub(1).and_then(|at| text.get(at)).is_some_and(is_base64);
        let after = self.is_ended_after && text.get(range.end).is_some_and(is_base64);
        range.start - usize::from(before)..range.end + usize::from(after)
    }

    /// Returns the number of bytes at the end of a text that are the beginning of this form, but not all of it.
    fn begun_at_end(&self, text: &[u8]) -> Option<usize> {
        let last = text.last();
        let lengths = MIN_SECRET_BYTES..self.bytes.len().min(text.len() + 1);
        lengths.rev().find(|length| {
            let part = self.bytes.get(..*length).unwrap_or_default();
            part.last() == last && text.ends_with(part)
        })
    }
}

/// Returns the forms of a secret.
fn forms(secret: &[u8]) -> Vec<Form> {
    let words: Vec<_> = secret.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let mut plain = vec![secret.to_vec(), words.join(&b' ')];
    if !secret.is_ascii() {
        // As another program decodes it: as Latin-1, or as UTF-8 with replacements.
        plain.push(secret.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes());
        plain.push(String::from_utf8_lossy(secret).into_owned().into_bytes());
    }
    // As programs change it that compare without case, and that print bytes.
    plain.extend([secret.to_ascii_lowercase(), secret.to_ascii_uppercase()]);
    let [lower, upper] = [b"0123456789abcdef", b"0123456789ABCDEF"].map(|digits| hexadecimal(secret, digits));
    plain.extend([lower, upper]);
    // In the query of an address, a blank is a plus sign.
    let blanks = |form: &Vec<u8>| form.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect();
    plain.extend(plain.iter().map(blanks).collect::<Vec<_>>());
    // What looks like an escape in a secret is decoded with those of the text.
    let decoded = |form: &Vec<u8>| std::iter::successors(decode(form, false), |form| decode(form, false)).take(MAX_NESTING);
    plain.extend(plain.iter().flat_map(decoded).collect::<Vec<_>>());
    let mut forms: Vec<_> = plain.into_iter().map(|bytes| Form { bytes, ..Form::default() }).collect();
    for digit in [base64_digit, base64url_digit] {
        forms.extend((0..3).map(|before| base64(secret, before, digit)));
    }
    let mut distinct = Vec::new();
    for form in forms {
        if !distinct.contains(&form) {
            distinct.push(form);
        }
    }
    distinct
}

/// Returns the bytes of a secret as two digits each.
fn hexadecimal(secret: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let digit = |nibble: u8| digits.get(usize::from(nibble)).copied().unwrap_or(b'0');
    secret.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns the base64 of a secret that stands behind this many other bytes: the characters that depend on nothing else.
fn base64(secret: &[u8], before: usize, digit: fn(u8) -> u8) -> Form {
    let byte = |at: usize| at.checked_sub(before).and_then(|at| secret.get(at)).copied().unwrap_or(0);
    let sextet = |index: usize| {
        let (at, shift) = (6 * index / 8, 6 * index % 8);
        ((u16::from_be_bytes([byte(at), byte(at + 1)]) << shift) >> 10) as u8
    };
    let (first_bit, end_bit) = (8 * before, 8 * (before + secret.len()));
    Form {
        bytes: (first_bit.div_ceil(6)..end_bit / 6).map(|index| digit(sextet(index))).collect(),
        is_begun_before: first_bit % 6 != 0,
        is_ended_after: end_bit % 6 != 0,
    }
}

fn base64_digit(sextet: u8) -> u8 {
    match sextet {
        0..26 => b'A' + sextet,
        26..52 => b'a' + (sextet - 26),
        52..62 => b'0' + (sextet - 52),
        62 => b'+',
        _ => b'/',
    }
}

fn base64url_digit(sextet: u8) -> u8 {
    match sextet {
        62 => b'-',
        63.. => b'_',
        _ => base64_digit(sextet),
    }
}

/// Returns a text without the characters that are put behind one that was cut.
fn without_cut_marks(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = ["`", "…", "\u{fffd}"].iter().find_map(|mark| text.strip_suffix(mark.as_bytes())) {
        text = rest;
    }
    text
}

/// Sorts ranges, and merges those that overlap.
fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let is_overlapping = next.start < last.end;
        last.end = if is_overlapping { last.end.max(next.end) } else { last.end };
        is_overlapping
    });
    ranges
}

/// Returns a text from `from` on, with these ranges of it masked.
fn replace(text: &[u8], ranges: &[Range<usize>], from: usize) -> Vec<u8> {
    let (mut masked, mut at) = (Vec::new(), from);
    for range in ranges.iter().filter(|range| range.end > from) {
        masked.extend_from_slice(text.get(at..range.start).unwrap_or_default());
        masked.extend_from_slice(MASK);
        at = range.end;
    }
    masked.extend_from_slice(text.get(at..).unwrap_or_default());
    masked
}

/// The escapes of a text, in order.
struct Escapes<'a> {
    text: &'a [u8],
    at: usize,
    is_cut: bool,
    /// True if the last escape is one of a percent sign, which begins an escape itself.
    is_percent: bool,
}

/// An escape: its range of the text, and what it is decoded to.
struct Escape {
    range: Range<usize>,
    decoded: Decoded,
}

enum Decoded {
    /// Nothing: the escape was cut.
    Nothing,
    Byte(u8),
    Char(char),
}

impl Decoded {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Byte(_) => 1,
            Self::Char(character) => character.len_utf8(),
        }
    }

    fn push_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Nothing => {}
            Self::Byte(byte) => bytes.push(*byte),
            Self::Char(character) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

impl Iterator for Escapes<'_> {
    type Item = Escape;

    fn next(&mut self) -> Option<Escape> {
        loop {
            let rest = self.text.get(self.at..)?;
            let start = self.at
                + rest
                    .iter()
                    .position(|byte| matches!(byte, b'\\' | b'%' | b'&' | b'\r' | b'\n' | b' ' | b':' | b'<' | 0xc2..))?;
            let rest = self.text.get(start..)?;
            let unread = wrap_length(self.text, start, self.is_cut)
                .or_else(|| separator_length(self.text.get(self.at..)?, start - self.at, self.is_percent))
                .or_else(|| invisible_length(rest));
            if let Some(length) = unread {
                self.at = start + length;
                self.is_percent = false;
                return Some(Escape { range: start..self.at, decoded: Decoded::Nothing });
            }
            if self.is_cut && is_cut_escape(rest) {
                self.at = self.text.len();
                return Some(Escape { range: start..self.at, decoded: Decoded::Nothing });
            }
            if let Some((decoded, length)) = parse_escape(rest) {
                self.at = start + length;
                self.is_percent = matches!(decoded, Decoded::Byte(b'%') | Decoded::Char('%'));
                return Some(Escape { range: start..self.at, decoded });
            }
            self.at = start + 1;
            self.is_percent = false;
        }
    }
}

/// Returns a text with its escapes decoded once; `None` if it has none. An escape that is cut at the end of a text that `is_cut` is left
/// out.
fn decode(text: &[u8], is_cut: bool) -> Option<Vec<u8>> {
    let mut escapes = Escapes { text, at: 0, is_cut, is_percent: false }.peekable();
    escapes.peek()?;
    let (mut decoded, mut at) = (Vec::with_capacity(text.len()), 0);
    for escape in escapes {
        decoded.extend_from_slice(text.get(at..escape.range.start).unwrap_or_default());
        escape.decoded.push_to(&mut decoded);
        at = escape.range.end;
    }
    decoded.extend_from_slice(text.get(at..).unwrap_or_default());
    Some(decoded)
}

/// Returns the ranges of a text whose decoded form has these ranges, which are in order and neither empty nor overlapping.
fn source_ranges(text: &[u8], is_cut: bool, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut escapes = Escapes { text, at: 0, is_cut, is_percent: false }.peekable();
    // The end of the last escape before a place, in the text and decoded.
    let (mut in_text, mut in_decoded) = (0, 0);
    // Returns the range of a decoded byte. Places must not decrease.
    let mut range_of = |place: usize| {
        while let Some(escape) = escapes.peek() {
            let start = in_decoded + (escape.range.start - in_text);
            let end = start + escape.decoded.len();
            if place < start {
                break;
            }
            if place < end {
                return escape.range.clone();
            }
            (in_text, in_decoded) = (escape.range.end, end);
            escapes.next();
        }
        let at = in_text + (place - in_decoded);
        at..at + 1
    };
    ranges.iter().map(|range| range_of(range.start).start..range_of(range.end - 1).end).collect()
}

/// Parses the escape at the start of a text. Returns what it is decoded to, which is shorter, and its length.
fn parse_escape(text: &[u8]) -> Option<(Decoded, usize)> {
    let character = |code: u32| char::from_u32(code).map(Decoded::Char);
    match text {
        [b'%', digits @ ..] => Some((Decoded::Byte(parse_hex(digits, 2)? as u8), 3)),
        [b'\\', b'u', b'{', digits @ ..] => {
            let count = digits.iter().take(7).position(|byte| *byte == b'}')?;
            Some((character(parse_hex(digits, count)?)?, count + 4))
        }
        [b'\\', b'u', digits @ ..] => match parse_hex(digits, 4)? {
            high @ 0xd800..0xdc00 => {
                let low = parse_hex(digits.get(4..)?.strip_prefix(b"\\u")?, 4).filter(|low| (0xdc00..0xe000).contains(low))?;
                Some((character(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))?, 12))
            }
            code => Some((character(code)?, 6)),
        },
        [b'\\', b'U', digits @ ..] => Some((character(parse_hex(digits, 8)?)?, 10)),
        [b'\\', b'x', digits @ ..] => Some((Decoded::Byte(parse_hex(digits, 2)? as u8), 4)),
        [b'\\', letter, ..] => {
            let byte = match letter {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                _ if letter.is_ascii_alphanumeric() || !letter.is_ascii() => return None,
                _ => *letter,
            };
            Some((Decoded::Byte(byte), 2))
        }
        [b'&', b'#', b'x' | b'X', digits @ ..] => {
            parse_number(digits, 16).and_then(|(code, length)| Some((character(code)?, length + 3)))
        }
        [b'&', b'#', digits @ ..] => parse_number(digits, 10).and_then(|(code, length)| Some((character(code)?, length + 2))),
        [b'&', name @ ..] => {
            let length = name.iter().take(MAX_ENTITY_BYTES).position(|byte| *byte == b';')?;
            let name = name.get(..length)?;
            let (_, byte) = ENTITIES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))?;
            Some((Decoded::Byte(*byte), length + 2))
        }
        _ => None,
    }
}

/// Returns the length of a line end between the digits of base64 or hexadecimal, with the indentation of the next line: programs wrap long words so.
/// The end of a text that was cut may be in the middle of a word.
fn wrap_length(text: &[u8], start: usize, is_cut: bool) -> Option<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let rest = text.get(start..)?;
    let next_line = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"))?;
    let indentation = next_line.iter().take(MAX_INDENTATION).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let goes_on = next_line.get(indentation).map_or(is_cut, is_digit);
    let is_within = text.get(..start)?.last().is_some_and(is_digit) && goes_on;
    is_within.then(|| rest.len() - next_line.len() + indentation)
}

/// Returns the length of a blank or colon between two groups of two or four hexadecimal digits: programs print bytes so. The text begins
/// behind the escape before, which may be that of a percent sign. Digits of an escape, or of one that is escaped itself, are no group.
fn separator_length(text: &[u8], start: usize, is_percent: bool) -> Option<usize> {
    text.get(start).filter(|byte| matches!(byte, b' ' | b':'))?;
    let digits = |bytes: &mut dyn Iterator<Item = &u8>| bytes.take(5).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let before = digits(&mut text.get(..start)?.iter().rev());
    let after = digits(&mut text.get(start + 1..)?.iter());
    let is_escape = match start.checked_sub(before + 1) {
        Some(at) => text.get(at).is_some_and(|byte| b"%uUx".contains(byte)),
        None => is_percent,
    };
    (!is_escape && [before, after].iter().all(|count| matches!(count, 2 | 4))).then_some(1)
}

/// The marks of HTML for a place where a long word may be wrapped.
const WRAP_MARKS: [&[u8]; 4] = [b"<wbr>", b"<wbr/>", b"<wbr />", b"&shy;"];

/// Returns the length of a character or mark at the start of a text that shows nothing, within a word: pages put them where a long word
/// may be wrapped.
fn invisible_length(text: &[u8]) -> Option<usize> {
    if let Some(mark) = WRAP_MARKS.iter().find(|mark| text.starts_with(mark)) {
        return Some(mark.len());
    }
    match text {
        // U+00AD, the soft hyphen, and U+034F.
        [0xc2, 0xad, ..] | [0xcd, 0x8f, ..] => Some(2),
        // U+180E; U+200B to U+200F; U+2028 to U+202E; U+2060 to U+206F; U+FE00 to U+FE0F; U+FEFF.
        [0xe1, 0xa0, 0x8e, ..]
        | [0xe2, 0x80, 0x8b..=0x8f | 0xa8..=0xae, ..]
        | [0xe2, 0x81, 0xa0..=0xaf, ..]
        | [0xef, 0xb8, 0x80..=0x8f, ..]
        | [0xef, 0xbb, 0xbf, ..] => Some(3),
        _ => None,
    }
}

/// Parses exactly `count` hexadecimal digits at the start of a text.
fn parse_hex(text: &[u8], count: usize) -> Option<u32> {
    let digits = text.get(..count).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Parses the digits of an entity at the start of a text, which a semicolon ends, or any other character. Returns the number, and the
/// length with the semicolon.
fn parse_number(text: &[u8], radix: u32) -> Option<(u32, usize)> {
    let length = text.iter().take(MAX_ENTITY_BYTES).take_while(|byte| char::from(**byte).is_digit(radix)).count();
    let number = u32::from_str_radix(std::str::from_utf8(text.get(..length)?).ok()?, radix).ok()?;
    Some((number, length + usize::from(text.get(length) == Some(&b';'))))
}

/// Returns true if a text that was cut is the beginning of an escape.
fn is_cut_escape(text: &[u8]) -> bool {
    let are_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match text {
        [b'%' | b'\\'] => true,
        [b'%', digit] => digit.is_ascii_hexdigit(),
        [b'\\', b'x', digits @ ..] => digits.len() < 2 && are_hex(digits),
        [b'\\', b'U', digits @ ..] => digits.len() < 8 && are_hex(digits),
        [b'\\', b'u', b'{', digits @ ..] => digits.len() < 7 && are_hex(digits),
        [b'\\', b'u', digits @ ..] => {
            let is_high = parse_hex(digits, 4).is_some_and(|code| (0xd800..0xdc00).contains(&code));
            (digits.len() < 4 && are_hex(digits)) || (digits.len() < 10 && is_high)
        }
        [b'&', name @ ..] => {
            name.len() < MAX_ENTITY_BYTES && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#')
        }
        _ => false,
    }
}

/// The longest name or number of an entity, in bytes.
const MAX_ENTITY_BYTES: usize = 10;

/// The entities of HTML for ASCII characters.
const ENTITIES: [(&str, u8); 41] = [
    ("amp", b'&'),
    ("quot", b'"'),
    ("apos", b'\''),
    ("lt", b'<'),
    ("gt", b'>'),
    ("sol", b'/'),
    ("plus", b'+'),
    ("equals", b'='),
    ("lowbar", b'_'),
    ("period", b'.'),
    ("comma", b','),
    ("colon", b':'),
    ("semi", b';'),
    ("excl", b'!'),
    ("quest", b'?'),
    ("num", b'#'),
    ("dollar", b'$'),
    ("percnt", b'%'),
    ("commat", b'@'),
    ("ast", b'*'),
    ("midast", b'*'),
    ("lpar", b'('),
    ("rpar", b')'),
    ("lsqb", b'['),
    ("lbrack", b'['),
    ("rsqb", b']'),
    ("rbrack", b']'),
    ("lcub", b'{'),
    ("lbrace", b'{'),
    ("rcub", b'}'),
    ("rbrace", b'}'),
    ("bsol", b'\\'),
    ("hat", b'^'),
    ("grave", b'`'),
    ("verbar", b'|'),
    ("vert", b'|'),
    ("verticalline", b'|'),
    ("underbar", b'_'),
    ("tab", b'\t'),
    ("newline", b'\n'),
    ("nbsp", b' '),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> std::io::Result<OsString> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        read_secret(file.path().to_str().expect("UTF-8"))
    }

    /// The header of a token is that of all tokens of its kind, and so is the first line of a key.
    #[test]
    fn the_beginning_of_a_secret_is_none_within_a_text() {
        let header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
        let secrets = Secrets::new([format!("{header}.eyJzdWIiOiJhIn0.c2lnbmF0dXJl")]);
        assert_eq!(secrets.mask(format!("another token: {header}.eyJ9.eA").as_bytes()), None);
        assert_eq!(secrets.mask_cut(format!("cut: {header}").as_bytes()).as_deref(), Some(&b"cut: [secret]"[..]));
    }

    #[test]
    fn a_secret_is_what_stands_in_the_file_without_the_line_end() {
        assert_eq!(read(b"token").expect("read"), "token");
        assert_eq!(read(b" to ken \n\n").expect("read"), " to ken ");
        assert_eq!(read(b"").expect("read"), "");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert!(read(b"\xff").is_err(), "no text");
        let limit = usize::try_from(MAX_SECRET_BYTES).expect("it fits");
        assert!(read(&vec![b'x'; limit]).is_ok());
        assert!(read(&vec![b'x'; limit + 1]).is_err());
        assert!(read_secret("/nonexistent/token").is_err());
    }

    #[test]
    fn characters_that_show_nothing_hide_no_secret() {
        let marks = [
            "\u{ad}",
            "\u{200b}",
            "\u{200d}",
            "\u{2060}",
            "\u{feff}",
            "\u{fe0f}",
            "\u{202e}",
            "<wbr>",
            "<wbr/>",
            "&shy;",
            "&#8203;",
            "\\u200b",
            "\\u{200b}",
            "%E2%80%8B",
        ];
        for mark in marks {
            let text = format!("m sk-secret{mark}key-123 z");
            assert_eq!(masked(&text, &["sk-secretkey-123"]), "m [secret] z", "{mark:?}");
        }
        let spread: String = "sk-secretkey-123".chars().flat_map(|one| [one, '\u{200b}']).collect();
        assert!(masked(&spread, &["sk-secretkey-123"]).starts_with("[secret]"));
        assert_eq!(masked("sk-secret\u{e9}key-123", &["sk-secretkey-123"]), "-", "a letter is another text");
        assert_eq!(masked("sk-secret<b>key-123", &["sk-secretkey-123"]), "-", "so is another mark");
    }

    /// Returns the text with these secrets masked; `-` if it contains none.
    fn masked(text: &str, secrets: &[&str]) -> String {
        let masked = Secrets::new(secrets.iter().copied()).mask(text.as_bytes());
        masked.map_or_else(|| "-".to_owned(), |bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        assert_eq!(masked("token hunter22!", &["hunter22"]), "token [secret]!");
        assert_eq!(masked("hunter22hunter22", &["hunter22"]), "[secret][secret]");
        assert_eq!(masked("abcdefgh", &["abcdef", "abcdefgh"]), "[secret]", "the longest wins");
        assert_eq!(masked("nothing here", &["hunter22"]), "-");
        assert_eq!(masked("yes yes", &["yes"]), "-", "short values stand in ordinary output");
        assert_eq!(masked("", &["hunter22"]), "-");
        assert_eq!(masked("a hunter2", &["hunter22"]), "-", "a part of it is not it");
    }

    #[test]
    fn a_cut_text_may_end_in_the_middle_of_a_secret() {
        let masked = |text| Secrets::new(["hunter22"]).mask_truncated(text).unwrap_or_else(|| "-".to_owned());
        assert_eq!(masked("it is hunter2"), "it is [secret]");
        assert_eq!(masked("hunter22 is hunter"), "[secret] is [secret]");
        assert_eq!(masked("it is hunte"), "-", "too little of it");
        assert_eq!(masked("hunter2 it is"), "-", "not at the end");
        assert_eq!(masked("müde hunter22"), "müde [secret]");
    }

    /// A key with the characters that encoders escape.
    const KEY: &str = "SK/ret+t&n=\"42\"";

    #[test]
    fn a_secret_is_masked_however_it_is_escaped() {
        for escaped in [
            r#"SK\/ret+t&n=\"42\""#,
            r"\u0053K\u002Fret\u002bt\u0026n=\u002242\u0022",
            r"\x53K\x2fret\x2Bt&n=\u{22}42\U00000022",
            "SK%2Fret%2Bt%26n%3D%2242%22",
            "SK%2fret%2bt%26n%3d%2242%22",
            "SK&#x2F;ret&#43;t&amp;n&equals;&quot;42&#34;",
            "SK&sol;ret&plus;t&#38n=&#x22;42&QUOT;",
            // Escapes of escapes: an error that quotes another one.
            r#"SK\\\/ret+t&n=\\\"42\\\""#,
            "SK%252Fret%25252Bt%2526n=%2522%34%32\"",
            r"SK\u0026#x2F;ret+t\u0026amp;n=\u0026quot;42\u0026quot;",
            r"\\\\u0053K/ret+t&n=%5C%2242%5C%22",
        ] {
            assert_eq!(masked(&format!("{{\"key\": \"{escaped}\"}}"), &[KEY]), "{\"key\": \"[secret]\"}", "{escaped}");
        }
        assert_eq!(masked(r"\\SK\/ret+t&n=%2242%22\n", &[KEY]), r"\\[secret]\n", "what is around it stays");
        assert_eq!(masked(r"SK\/ret+t&n=%2242", &[KEY]), "-", "a part of it is not it");
        assert_eq!(masked(r"\ud83d\ude00-müde-\u00fC%c3%bc", &["\u{1f600}-müde-üü"]), "[secret]");
    }

    #[test]
    fn a_secret_may_look_like_an_escape() {
        for text in [r"a%41b\n\/c", r"a%41b\\n\\\/c", r"a%2541b%5Cn%5C%2Fc", r"a%41b&#92;n&bsol;\/c", r"\u0061%41b\\n\\\/c"] {
            assert_eq!(masked(text, &[r"a%41b\n\/c"]), "[secret]", "{text}");
        }
    }

    #[test]
    fn a_secret_is_masked_without_the_white_space_around_it_and_with_that_within_it_changed() {
        let secret = " tra  iling77\t";
        for text in ["tra  iling77", "tra iling77", "tra++iling77", "tra%20%20iling77", "tra+iling77", r"tra  iling7\u0037"] {
            assert_eq!(masked(&format!("<{text} >"), &[secret]), "<[secret] >", "{text}");
        }
        assert_eq!(masked("a      b", &["      "]), "-", "white space is no secret");
    }

    #[test]
    fn a_secret_is_masked_in_base64_wherever_it_begins_there() {
        // `hunter22>>>?` alone, behind one, two and three bytes, and in the alphabet of addresses.
        for (text, expected) in [
            ("<aHVudGVyMjI+Pj4/>", "<[secret]>"),
            ("<aHVudGVyMjI-Pj4_>", "<[secret]>"),
            ("<Omh1bnRlcjIyPj4+Pw==>", "<O[secret]==>"),
            ("<dTpodW50ZXIyMj4+Pj9Y>", "<dT[secret]Y>"),
            ("<dXM6aHVudGVyMjI+Pj4/>", "<dXM6[secret]>"),
            (r"<dXM6aHVudGVyMjI%2BPj4\/>", "<dXM6[secret]>"),
        ] {
            assert_eq!(masked(text, &["hunter22>>>?"]), expected, "{text}");
        }
    }

    #[test]
    fn a_secret_is_masked_in_hexadecimal_and_in_another_case() {
        for (text, expected) in [
            ("<736b2d53652f7265743d>", "<[secret]>"),
            ("<736B2D53652F7265743D>", "<[secret]>"),
            ("<sk-se/ret=>", "<[secret]>"),
            ("<SK-SE/RET=>", "<[secret]>"),
            ("<sk-se%2Fret=>", "<[secret]>"),
            ("<736b2d53>", "-"),
            ("bytes 73 6b 2d 53 65 2f 72 65 74 3d end", "bytes [secret] end"),
            ("73:6B:2D:53:65:2F:72:65:74:3D", "[secret]"),
            (" 736b 2d53 652f 7265 743d", " [secret]"),
            (" 73 6b 2d 53 65\n 2f 72 65 74 3d\n", " [secret]\n"),
            ("73 6b 2d 53", "-"),
        ] {
            assert_eq!(masked(text, &["sk-Se/ret="]), expected, "{text}");
        }
        for text in [r"hunter\u005c:00", r"hunter\\u005c:00", "hunter%5c:00", "hunter%255c:00", r"hunter\x5c:00"] {
            assert_eq!(masked(text, &[r"hunter\:00"]), "[secret]", "the digits of an escape are no byte before a colon: {text}");
        }
        assert_eq!(masked("%2068:75:6e:74:65:72", &["hunter"]), "%20[secret]", "bytes behind an escape");
        assert_eq!(Secrets::new(["sk-Se/ret="]).mask_truncated("no 736b2d53").as_deref(), Some("no [secret]"), "cut");
    }

    #[test]
    fn a_secret_is_masked_over_the_ends_of_lines() {
        for (text, expected) in [
            ("key: aHVudGVy\nMjI+Pj4/\n", "key: [secret]\n"),
            ("key: |\n    aHVudGVy\r\n    MjI+Pj4/ end", "key: |\n    [secret] end"),
            (r#"{"key": "aHVudGVy\nMjI+Pj4/\n"}"#, r#"{"key": "[secret]\n"}"#),
            ("68756e7465\n7232323e3e3e3f\n", "[secret]\n"),
            ("hunter\n22>>>?\nhunter22>>>?", "[secret]\n[secret]"),
            ("aHVudGVy\n\nMjI+Pj4/", "-"),
            ("aHVudGVy.\nMjI+Pj4/", "-"),
        ] {
            assert_eq!(masked(text, &["hunter22>>>?"]), expected, "{text}");
        }
        for (text, expected) in [
            ("key: aHVudGVy MjI+Pj4/ end", "key: [secret] end"),
            ("hunter  22>>>? and", "[secret] and"),
            ("hunter and 22>>>?", "hunter and 22>>>?"),
        ] {
            let shortened = Secrets::new(["hunter22>>>?"]).mask_shortened(text);
            assert_eq!(shortened.as_deref().unwrap_or(text), expected, "line ends have become blanks");
        }
        assert_eq!(masked("one\ntwo\nthree\n", &["onet"]), "-", "too short");
        assert_eq!(masked("BEGIN22\nBODY22\nEND22", &["BEGIN22\nBODY22\nEND22\n"]), "[secret]", "a secret of several lines");
        let cut = |text: &str| Secrets::new(["hunter22>>>?"]).mask_truncated(text).unwrap_or_else(|| "-".to_owned());
        assert_eq!(cut("key: aHVudG\nVy"), "key: [secret]");
        assert_eq!(cut("key: aHVudGVy\n"), "key: [secret]");
        assert_eq!(cut("nothing\n"), "-");
    }

    #[test]
    fn a_secret_is_masked_as_latin_1() {
        assert_eq!(masked("m\u{c3}\u{bc}de22", &["müde22"]), "[secret]", "each byte as a character");
        let latin = Secrets::new([b"m\xfcde22".to_vec()]);
        assert_eq!(latin.mask(b"<m\xfcde22>").as_deref(), Some(b"<[secret]>".as_slice()));
        assert_eq!(latin.mask("<m\u{fffd}de22>".as_bytes()).as_deref(), Some(b"<[secret]>".as_slice()), "decoded as UTF-8");
        assert_eq!(latin.mask("<müde22>".as_bytes()).as_deref(), Some(b"<[secret]>".as_slice()), "decoded as Latin-1");
    }

    #[test]
    fn a_cut_may_be_within_an_escape_and_before_a_closing_mark() {
        let masked = |text: &str| Secrets::new([KEY]).mask_truncated(text).unwrap_or_else(|| "-".to_owned());
        for cut in [
            r"SK\/ret",
            r"SK\/ret\u00",
            r"SK\/ret\",
            "SK%2Fret%2",
            "SK%2Fret%",
            "SK&#x2F;ret&#4",
            "SK&#x2F;ret&am",
            r"SK\\\/ret\\u",
        ] {
            assert_eq!(masked(&format!("no {cut}")), "no [secret]", "{cut}");
        }
        assert_eq!(masked("no JSON: `SK/ret+`"), "no JSON: `[secret]`");
        assert_eq!(masked("no JSON: `SK/ret+\u{fffd}`"), "no JSON: `[secret]\u{fffd}`");
        assert_eq!(masked("SK/ret+…"), "[secret]…");
        assert_eq!(masked("100%"), "-");
        assert_eq!(masked("U0svcmV0K"), "[secret]", "base64");
    }

    /// Escapes a character in one of the ways of other programs.
    fn escape(character: char, way: u8) -> String {
        let utf8 =
            |prefix: &str| character.to_string().bytes().fold(String::new(), |text, byte| text + &format!("{prefix}{byte:02X}"));
        match way {
            0 if !character.is_ascii_alphanumeric() && character.is_ascii() => format!("\\{character}"),
            1 => character.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |text, unit| text + &format!("\\u{unit:04x}")),
            2 => utf8("%"),
            3 => utf8("\\x"),
            4 => format!("&#x{:x};", u32::from(character)),
            5 => format!("&#{};", u32::from(character)),
            6 => character.escape_unicode().to_string(),
            // A plain character that begins an escape is not plain beside others.
            _ if matches!(character, '\\' | '%' | '&') => format!("%{:02x}", u32::from(character)),
            _ => character.to_string(),
        }
    }

    proptest! {
        #[test]
        fn any_mixture_of_escapes_is_masked(
            secret in "[!-~äß😀]{6,30}",
            ways in prop::collection::vec(prop::collection::vec(0u8..12, 300), 1..4),
            before in "[ -Z^-~]{0,20}[ ]",
            after in "[ ][ -~]{0,20}",
        ) {
            let mut text = secret.clone();
            for ways in &ways {
                text = text.chars().zip(ways.iter().cycle()).map(|(character, way)| escape(character, *way)).collect();
            }
            let masked = masked(&format!("{before}{text}{after}"), &[&secret]);
            prop_assert_eq!(masked, format!("{before}[secret]{after}"), "{}", text);
        }

        #[test]
        fn whatever_a_text_holds_it_is_searched(
            text in prop::collection::vec(prop_oneof![
                Just("\\u"), Just("\\"), Just("%"), Just("%2"), Just("&#"), Just("&"), Just(";"), Just("x"), Just("2f"), Just("d83d"),
                Just("{"), Just("}"), Just("hunter/22"), Just("hunter"), Just("/22"), Just("`"), Just("é"), Just("😀"),
            ], 0..40),
            from in 0usize..100,
            length in 0usize..200,
        ) {
            let text = text.concat().into_bytes();
            let text = &text[..length.min(text.len())];
            let secrets = Secrets::new(["hunter/22", "é%2f\\u002f😀"]);
            let contains = |text: &[u8]| text.windows(9).any(|part| part == b"hunter/22");
            for masked in [secrets.mask(text), secrets.mask_cut(text), Some(secrets.mask_from(text, from))].into_iter().flatten() {
                let once = decode(&masked, false).unwrap_or_else(|| masked.clone());
                prop_assert!(!contains(&masked) && !contains(&once), "{:?}", String::from_utf8_lossy(&masked));
            }
            prop_assert!(secrets.mask(text).is_some() || !contains(text));
        }
    }

    #[test]
    fn a_hostile_text_costs_no_more_than_its_length() {
        let secrets = Secrets::new(["hunter/22", "hunter22hunter22"]);
        let began = std::time::Instant::now();
        for piece in ["\\", "%25", "&amp;", "%252525", "\\u005c", "hunter", "hunter%2f22", "&#x26;#x26;"] {
            let text = piece.repeat((1 << 20) / piece.len());
            assert_eq!(secrets.mask(text.as_bytes()).is_some(), piece == "hunter%2f22", "{piece}");
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    }

    #[test]
    fn a_secret_that_goes_on_where_a_text_begins_is_masked() {
        let secrets = Secrets::new(["hunter22"]);
        let from = |text: &str, from| String::from_utf8(secrets.mask_from(text.as_bytes(), from)).expect("text");
        assert_eq!(from("hunter22 and hunter22", 3), "[secret] and [secret]");
        assert_eq!(from("hunter22 and", 8), " and");
        assert_eq!(from(r"hunter2\u0032 and hunter", 9), "[secret] and [secret]");
        assert_eq!(from("nothing", 3), "hing");
        assert_eq!(from("nothing", 30), "");
        assert!(secrets.reach() >= r"\\u0068\\u0075\\u006e\\u0074\\u0065\\u0072\\u0032\\u0032".len());
        assert_eq!(Secrets::default().reach(), 0);
    }

    #[test]
    fn nothing_prints_a_secret() {
        assert_eq!(format!("{:?}", Secrets::new(["hunter22", "short"])), "1 secrets");
    }
}
