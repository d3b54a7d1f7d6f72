//! The quotes of CSV, followed beside the parser, which takes the end of a file for the end of a quoted cell.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// A reader of CSV that remembers a quote which is still open at the end.
pub(super) struct Quotes<R> {
    source: R,
    scan: Scan,
    unclosed: Rc<Cell<Option<OpenQuote>>>,
}

/// A quote that no other quote closes before the file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenQuote {
    /// Its place, in bytes from the beginning.
    pub(super) offset: u64,
    /// Its line, from 1.
    pub(super) line: u64,
}

/// The part of a cell that the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first byte, or what follows the end of a cell.
    Start,
    /// A cell without quotes, or what follows its quoted part.
    Plain,
    Quoted,
    /// A quote within quotes: it closes them, unless another one follows.
    Closing,
}

/// The parser's rules for quotes: one opens at the beginning of a cell only, and two within quotes are one of the text.
#[derive(Clone, Copy)]
struct Scan {
    part: Part,
    offset: u64,
    line: u64,
    opened: OpenQuote,
}

impl Scan {
    fn take(&mut self, byte: u8) {
        self.part = match (self.part, byte) {
            (Part::Start, b'"') => {
                self.opened = OpenQuote { offset: self.offset, line: self.line };
                Part::Quoted
            }
            (Part::Quoted, b'"') => Part::Closing,
            (Part::Closing, b'"') | (Part::Quoted, _) => Part::Quoted,
            (_, b',' | b'\n' | b'\r') => Part::Start,
            _ => Part::Plain,
        };
        self.offset += 1;
        self.line += u64::from(byte == b'\n');
    }
}

impl<R> Quotes<R> {
    pub(super) fn new(source: R) -> Self {
        let opened = OpenQuote { offset: 0, line: 1 };
        Self { source, scan: Scan { part: Part::Start, offset: 0, line: 1, opened }, unclosed: Rc::default() }
    }

    /// Returns the place in which the open quote will be, once the file is read to its end.
    pub(super) fn unclosed(&self) -> Rc<Cell<Option<OpenQuote>>> {
        self.unclosed.clone()
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        buffer.iter().take(read).for_each(|byte| self.scan.take(*byte));
        if read == 0 && !buffer.is_empty() && self.scan.part == Part::Quoted {
            self.unclosed.set(Some(self.scan.opened));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unclosed(text: &str) -> Option<(u64, u64)> {
        let mut quotes = Quotes::new(text.as_bytes());
        let found = quotes.unclosed();
        io::copy(&mut quotes, &mut io::sink()).expect("read");
        found.get().map(|OpenQuote { offset, line }| (offset, line))
    }

    #[test]
    fn a_quote_is_open_until_a_single_one_follows() {
        assert_eq!(unclosed("a\n\"b"), Some((2, 2)));
        assert_eq!(unclosed("a\n\"b\"\n\"c\n\nd\"\"\n"), Some((6, 3)));
        assert_eq!(unclosed("a,\""), Some((2, 1)));
        assert_eq!(unclosed("\"\"\""), Some((0, 1)), "two quotes within quotes are one of the text");
        for closed in ["", "a", "a \"b", "\"a\"", "\"a\"\n", "\"a\"\"\"", "\"a\" \"b", "\"\""] {
            assert_eq!(unclosed(closed), None, "{closed}");
        }
    }

    proptest! {
        /// A closed quote does not change what follows: a file ends within quotes if a row that is put after it becomes a part of its last cell.
        #[test]
        fn it_agrees_with_the_parser(text in "[a\",\n]{0,30}") {
            let cells = |text: &str| {
                let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
                reader.records().map(|record| record.expect("a record").len()).sum::<usize>()
            };
            // If the quotes are closed, the appended line has the two cells that it has by itself.
            let is_closed = cells(&format!("{text}\nx,y")) == cells(&format!("{text}\n")) + 2;
            prop_assert_eq!(unclosed(&text).is_none(), is_closed, "{}", text);
        }
    }
}
