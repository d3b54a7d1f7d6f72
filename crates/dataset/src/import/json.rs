//! JSON values one after the other: JSON Lines, or the items of one array.

use std::io::{BufRead, Read as _};

use serde_json::Value;

use super::limited::Limited;
use super::unique;
use crate::DatasetError;

/// The most values of one row: objects, lists and what they hold.
pub const MAX_ROW_VALUES: usize = 200_000;

/// Takes a value with the number of its line, or its place in the array.
type TakeValue<'a> = dyn FnMut(u64, Value) -> Result<(), DatasetError> + 'a;

/// Passes each value to `take`. The first byte decides whether the file is an array.
pub(super) fn values(source: Limited<impl BufRead>, take: &mut TakeValue<'_>) -> Result<(), DatasetError> {
    values_within(source, MAX_ROW_VALUES, take)
}

/// Passes each value to `take`, if it has at most so many values within it.
pub(super) fn values_within(
    mut source: Limited<impl BufRead>,
    most: usize,
    take: &mut TakeValue<'_>,
) -> Result<(), DatasetError> {
    let starts_array =
        source.fill_buf().map_err(DatasetError::Read)?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if starts_array { items(source, most, take) } else { lines(source, most, take) }
}

fn lines(source: Limited<impl BufRead>, most: usize, take: &mut TakeValue<'_>) -> Result<(), DatasetError> {
    source.lines(&mut |number, line| {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        take(number, parse(number, line, most)?)
    })
}

/// Parses the text of a row. One of so many values that they would take a hundred times the memory of the text is refused.
fn parse(row: u64, text: &[u8], most: usize) -> Result<Value, DatasetError> {
    let mut scan = Scan::default();
    let values = text.iter().filter(|byte| scan.is_structure(**byte) && matches!(byte, b',' | b'{' | b'[')).count();
    if values > most {
        return Err(DatasetError::TooManyValues { row, most });
    }
    unique::parse(text).map_err(|error| DatasetError::row(row, describe(text, &error)))
}

/// Describes a text that is not JSON. Lines of the parser are not those of the file, so that only the column of a text of one line is named.
fn describe(text: &[u8], error: &serde_json::Error) -> String {
    if text.contains(&0) || std::str::from_utf8(text).is_err() {
        return "is not JSON in UTF-8: is the file in UTF-16, or binary?".to_owned();
    }
    let problem = error.to_string().replace(" at line 1 column ", " at column ");
    format!("is not JSON: {problem}")
}

/// Tells the structure of JSON from the insides of its texts, byte by byte.
#[derive(Default)]
struct Scan {
    in_text: bool,
    is_escaped: bool,
    /// Open objects and lists.
    depth: u32,
}

impl Scan {
    /// Returns true if the next byte is not within a text.
    fn is_structure(&mut self, byte: u8) -> bool {
        if self.in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        true
    }
}

/// Reads an array item by item, so that only one is in memory.
fn items(source: Limited<impl BufRead>, most: usize, take: &mut TakeValue<'_>) -> Result<(), DatasetError> {
    let budget = source.budget();
    let (mut scan, mut item, mut number) = (Scan::default(), Vec::new(), 0);
    let mut is_open = true;
    for byte in source.bytes() {
        let byte =
            byte.map_err(|error| if budget.is_spent() { budget.too_large(number + 1) } else { DatasetError::Read(error) })?;
        let depth = scan.depth;
        let is_structure = scan.is_structure(byte);
        let closes = is_structure && depth == 1 && byte == b']';
        match byte {
            _ if !is_open && !byte.is_ascii_whitespace() => return Err(after(number, "more follows the end of the array")),
            b'[' if depth == 0 => {}
            _ if closes && number == 0 && item.iter().all(u8::is_ascii_whitespace) => is_open = false,
            b',' | b']' if is_structure && depth == 1 => {
                number += 1;
                budget.reset();
                take(number, parse(number, &item, most)?)?;
                item.clear();
                is_open = !closes;
            }
            _ => item.push(byte),
        }
    }
    if is_open { Err(after(number, "the array has no end")) } else { Ok(()) }
}

fn after(number: u64, what: &str) -> DatasetError {
    DatasetError::Format { expected: "a JSON array", reason: format!("after its item {number}: {what}") }
}
