//! The files of a recording: one JSON document a line, read as a stream.

use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;

use assay_manifest::{Instant, Series};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest reading of counters: that of a very large machine.
const MAX_COUNTER_LINE_BYTES: u64 = 1 << 20;

/// The longest line of a scrape: the largest response that the recorder keeps, escaped.
const MAX_SCRAPE_LINE_BYTES: u64 = 128 << 20;

/// The format of the lines of a file, which decides how the file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// Lines of [`CounterLine`], plain.
    Counters,
    /// Lines of [`ScrapeLine`], packed with zstd.
    Scrapes,
}

impl LineFormat {
    /// Returns the end of the file's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Counters => ".jsonl",
            Self::Scrapes => ".jsonl.zst",
        }
    }

    /// Returns the media type of the file.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Counters => "application/jsonl",
            Self::Scrapes => "application/jsonl+zstd",
        }
    }

    /// Returns the length of the longest line that is read, in bytes.
    fn max_line_bytes(self) -> u64 {
        match self {
            Self::Counters => MAX_COUNTER_LINE_BYTES,
            Self::Scrapes => MAX_SCRAPE_LINE_BYTES,
        }
    }

    /// Returns the plain bytes of a file in this format.
    fn unpack<'a>(self, name: &str, file: impl Read + 'a) -> Result<Box<dyn BufRead + 'a>, Error> {
        match self {
            Self::Counters => Ok(Box::new(BufReader::new(file))),
            Self::Scrapes => {
                let unpacked = zstd::Decoder::new(file);
                let unpacked = unpacked.map_err(|source| Error::Unpack { name: name.to_owned(), source })?;
                Ok(Box::new(BufReader::new(unpacked)))
            }
        }
    }
}

/// One reading of a machine's counters, as a line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CounterLine<V> {
    /// The time of the reading.
    pub at: Instant,
    /// The counters by name.
    #[serde(flatten)]
    pub values: V,
}

/// One response with a text of Prometheus, as a line of the recording: either the body as received, or the reason why there is
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrapeLine {
    /// The time of the request.
    pub at: Instant,
    /// The duration until the response, in nanoseconds.
    pub took_ns: u64,
    /// The status of the response, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The body of a successful response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub body: Option<String>,
    /// The reason why there is no body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

impl ScrapeLine {
    /// Returns the time of the response.
    pub fn received_at(&self) -> Instant {
        Instant::from_unix_ns(self.at.unix_ns().saturating_add(i64::try_from(self.took_ns).unwrap_or(i64::MAX)))
    }
}

/// The lines of one file, each parsed as `T`.
pub(crate) struct Lines<'a, T> {
    name: String,
    file: Box<dyn BufRead + 'a>,
    max_line_bytes: u64,
    line: Vec<u8>,
    count: u64,
    parsed: PhantomData<T>,
}

impl<'a, T: DeserializeOwned> Lines<'a, T> {
    /// Opens the bytes of the recording `name`.
    pub(crate) fn open(name: &str, format: LineFormat, file: impl Read + 'a) -> Result<Self, Error> {
        Ok(Self {
            name: name.to_owned(),
            file: format.unpack(name, file)?,
            max_line_bytes: format.max_line_bytes(),
            line: Vec::new(),
            count: 0,
            parsed: PhantomData,
        })
    }

    /// Returns the next line; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<T>, Error> {
        let Self { name, file, max_line_bytes: limit, line, count, .. } = self;
        line.clear();
        let read = file.by_ref().take(*limit).read_until(b'\n', line);
        let read = read.map_err(|source| Error::Read { name: name.clone(), source })?;
        if read == 0 {
            return Ok(None);
        }
        *count += 1;
        if read as u64 == *limit && line.last() != Some(&b'\n') {
            return Err(Error::LongLine { name: name.clone(), line: *count, limit: *limit });
        }
        let parsed = serde_json::from_slice(line);
        parsed.map(Some).map_err(|source| Error::NoReading { name: name.clone(), line: *count, source })
    }
}

/// Calls `visit` with every line of a series. A line that is too long, is no `T`, or is one more or less than the recording states
/// is a damaged recording.
pub fn each_reading<T: DeserializeOwned, E: From<Error>>(
    series: &Series,
    format: LineFormat,
    file: impl Read,
    mut visit: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let (name, stated) = (&series.artifact.name, series.samples.0);
    let mut lines = Lines::open(name, format, file)?;
    // One line more than declared is enough to know that there are too many.
    while lines.count <= stated {
        let Some(line) = lines.next()? else { break };
        visit(line)?;
    }
    if lines.count == stated {
        return Ok(());
    }
    let found = if lines.count > stated { "more".to_owned() } else { lines.count.to_string() };
    Err(Error::ReadingCount { name: name.clone(), found, stated }.into())
}
