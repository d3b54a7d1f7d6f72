//! The recordings among the raw evidence, read back as streams of readings in the order of time.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use assay_manifest::{Artifact, Block, Instant, Name};
use assay_stage::{ErrorCode, Failure};
use serde::Deserialize;

use super::metric::{MetricSample, parse_endpoint, parse_host};

/// The maximum number of recordings of one source in one block that are read: each is open while the block is read.
pub(super) const MAX_RECORDINGS: usize = 64;

/// The longest reading of a host: that of a very large machine.
const MAX_HOST_LINE_BYTES: u64 = 1 << 20;

/// The longest reading of an endpoint: the largest response that the recorder keeps, escaped.
const MAX_ENDPOINT_LINE_BYTES: u64 = 128 << 20;

/// The source of a reading.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// The counters of the host that the recorder runs on.
    Host,
    /// The `/metrics` of a target.
    Endpoint(Name),
}

/// Displays a source by its name in a Recording.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Endpoint(target) => write!(f, "endpoint/{target}"),
        }
    }
}

/// A source in a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockSource {
    pub(super) block: Block,
    pub(super) source: Source,
}

/// One file of readings; a recorder that was restarted writes another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordingFile<'a> {
    sequence: u32,
    artifact: &'a Artifact,
}

/// Returns the recordings of each place, in the order in which they were made, independent of the list's order.
pub(super) fn by_place(evidence: &[Artifact]) -> BTreeMap<BlockSource, Vec<RecordingFile<'_>>> {
    let mut all: BTreeMap<BlockSource, Vec<RecordingFile<'_>>> = BTreeMap::new();
    for artifact in evidence {
        if let Some((place, sequence)) = parse_name(&artifact.name) {
            all.entry(place).or_default().push(RecordingFile { sequence, artifact });
        }
    }
    for recorded in all.values_mut() {
        recorded.sort_unstable();
        recorded.dedup();
    }
    all
}

/// Parses the place and the sequence of a recording from its name: `recordings/<block>-<incarnation>-<sequence>/<file>`.
fn parse_name(name: &str) -> Option<(BlockSource, u32)> {
    let (folder, file) = name.strip_prefix("recordings/")?.split_once('/')?;
    let mut numbers = folder.split('-').map(|number| number.parse().ok());
    let (index, incarnation, sequence) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let source = match file {
        "host.jsonl" => Source::Host,
        file => Source::Endpoint(Name::new(file.strip_prefix("endpoint-")?.strip_suffix(".jsonl.zst")?).ok()?),
    };
    numbers.next().is_none().then_some((BlockSource { block: Block { index, incarnation }, source }, sequence))
}

/// One reading, not yet parsed.
pub(super) struct Reading {
    /// The time of the request: the time of its samples.
    pub(super) asked: Instant,
    /// The time of the response.
    pub(super) answered: Instant,
    said: ReadingBody,
}

enum ReadingBody {
    Host(BTreeMap<String, f64>),
    Endpoint(String),
}

impl Reading {
    /// Parses the metrics of the reading.
    pub(super) fn observed(&self) -> Vec<MetricSample> {
        match &self.said {
            ReadingBody::Host(values) => parse_host(values),
            ReadingBody::Endpoint(body) => parse_endpoint(body),
        }
    }
}

/// Opens an artifact and returns its bytes.
pub(super) type OpenArtifact<'a> = dyn Fn(&Artifact) -> Result<Box<dyn Read>, Failure> + 'a;

/// The readings of all recordings of one place, in the order of time.
pub(super) struct MergedReadings {
    recordings: Vec<(Lines, Option<Reading>)>,
    /// The number of recordings beyond the limit.
    pub(super) left_out: u64,
}

impl MergedReadings {
    pub(super) fn open(source: &Source, recorded: &[RecordingFile<'_>], open: &OpenArtifact<'_>) -> Result<Self, Failure> {
        let begun = |recorded: &RecordingFile<'_>| {
            let mut lines = Lines::new(source, recorded.artifact, open(recorded.artifact)?)?;
            let first = lines.next()?;
            Ok((lines, first))
        };
        let recordings = recorded.iter().take(MAX_RECORDINGS).map(begun).collect::<Result<_, Failure>>()?;
        Ok(Self { recordings, left_out: recorded.len().saturating_sub(MAX_RECORDINGS) as u64 })
    }

    /// Returns the earliest of the next readings; of equal ones, that of the earlier recording.
    pub(super) fn next(&mut self) -> Result<Option<Reading>, Failure> {
        let heads = self.recordings.iter_mut().filter(|(_, head)| head.is_some());
        let Some((lines, head)) = heads.min_by_key(|(_, head)| head.as_ref().map(|head| head.asked)) else { return Ok(None) };
        let next = lines.next()?;
        Ok(std::mem::replace(head, next))
    }
}

/// The readings in one file, one JSON document a line.
struct Lines {
    name: String,
    file: Box<dyn BufRead>,
    is_host: bool,
    count: u64,
}

/// A line of the host's recording.
#[derive(Deserialize)]
struct HostLine {
    at: Instant,
    #[serde(flatten)]
    values: BTreeMap<String, f64>,
}

/// A line of an endpoint's recording; without a body if there was no successful response.
#[derive(Deserialize)]
struct EndpointLine {
    at: Instant,
    took_ns: u64,
    body: Option<String>,
}

impl Lines {
    fn new(source: &Source, artifact: &Artifact, file: Box<dyn Read>) -> Result<Self, Failure> {
        let is_host = *source == Source::Host;
        let unpacked =
            |error| Failure::new(ErrorCode::Zstd, format!("cannot unpack the recording `{}`", artifact.name)).because(&error);
        let file: Box<dyn BufRead> = if is_host {
            Box::new(BufReader::new(file))
        } else {
            Box::new(BufReader::new(zstd::Decoder::new(file).map_err(unpacked)?))
        };
        Ok(Self { name: artifact.name.clone(), file, is_host, count: 0 })
    }

    /// Returns the next reading that has values.
    fn next(&mut self) -> Result<Option<Reading>, Failure> {
        while let Some(line) = self.line()? {
            if self.is_host {
                let HostLine { at, values } = self.parse(&line)?;
                return Ok(Some(Reading { asked: at, answered: at, said: ReadingBody::Host(values) }));
            }
            let EndpointLine { at, took_ns, body } = self.parse(&line)?;
            if let Some(body) = body {
                let answered = at.unix_ns().saturating_add(i64::try_from(took_ns).unwrap_or(i64::MAX));
                let answered = Instant::from_unix_ns(answered);
                return Ok(Some(Reading { asked: at, answered, said: ReadingBody::Endpoint(body) }));
            }
        }
        Ok(None)
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let limit = if self.is_host { MAX_HOST_LINE_BYTES } else { MAX_ENDPOINT_LINE_BYTES };
        let mut line = Vec::new();
        let read = self.file.by_ref().take(limit).read_until(b'\n', &mut line).map_err(|error| {
            Failure::new(ErrorCode::Scratch, format!("cannot read back the recording `{}`", self.name)).because(&error)
        })?;
        self.count += 1;
        if read as u64 == limit && line.last() != Some(&b'\n') {
            return Err(self.damaged(format!("is longer than the limit of {limit} bytes")));
        }
        Ok((read > 0).then_some(line))
    }

    fn parse<'a, T: Deserialize<'a>>(&self, line: &'a [u8]) -> Result<T, Failure> {
        serde_json::from_slice(line).map_err(|error| self.damaged("is no reading".to_owned()).because(&error))
    }

    fn damaged(&self, what: String) -> Failure {
        Failure::new(ErrorCode::Recording, format!("line {} of `{}` {what}", self.count, self.name))
    }
}
