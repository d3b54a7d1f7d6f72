//! The recordings among the raw evidence, read back as streams of readings in the order of time.

use std::collections::BTreeMap;
use std::io::Read;

use assay_manifest::{Artifact, Block, Instant};

use crate::line::{CounterLine, LineFormat, Lines, ScrapeLine};
use crate::source::Source;
use crate::{Error, ReadError};

/// The maximum number of recordings of one source in one block that are read: each is open while the block is read.
pub const MAX_RECORDINGS: usize = 64;

/// A source in a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockSource {
    /// The block.
    pub block: Block,
    /// The source.
    pub source: Source,
}

/// One file of readings; a recorder that was restarted writes another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordingFile<'a> {
    sequence: u32,
    artifact: &'a Artifact,
}

/// Returns the recordings of each place, in the order in which they were made, independent of the list's order.
pub(crate) fn by_place(evidence: &[Artifact]) -> BTreeMap<BlockSource, Vec<RecordingFile<'_>>> {
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
    let source = Source::parse_file_name(file)?;
    numbers.next().is_none().then_some((BlockSource { block: Block { index, incarnation }, source }, sequence))
}

/// One reading, not yet parsed.
pub(crate) struct Reading {
    /// The time of the request: the time of its samples.
    pub(crate) requested_at: Instant,
    /// The time of the response.
    pub(crate) received_at: Instant,
    pub(crate) body: ReadingBody,
}

/// The content of a reading, as its source gave it.
pub(crate) enum ReadingBody {
    /// Counters by name.
    Counters(BTreeMap<String, f64>),
    /// A text of Prometheus.
    Text(String),
}

impl From<CounterLine<BTreeMap<String, f64>>> for Reading {
    fn from(CounterLine { at, values }: CounterLine<BTreeMap<String, f64>>) -> Self {
        Self { requested_at: at, received_at: at, body: ReadingBody::Counters(values) }
    }
}

impl Reading {
    /// Returns the reading on a line; `None` if there was no successful response.
    fn from_scrape(line: ScrapeLine) -> Option<Self> {
        let (requested_at, received_at) = (line.at, line.received_at());
        Some(Self { requested_at, received_at, body: ReadingBody::Text(line.body?) })
    }
}

/// Opens an artifact and returns its bytes.
pub type OpenArtifact<'a, E> = dyn Fn(&Artifact) -> Result<Box<dyn Read>, E> + 'a;

/// The readings of all recordings of one place, in the order of time.
pub(crate) struct MergedReadings {
    recordings: Vec<(Readings, Option<Reading>)>,
    /// The number of recordings beyond the limit.
    pub(crate) left_out: u64,
}

impl MergedReadings {
    pub(crate) fn open<E>(
        source: &Source,
        recorded: &[RecordingFile<'_>],
        open: &OpenArtifact<'_, E>,
    ) -> Result<Self, ReadError<E>> {
        let begun = |recorded: &RecordingFile<'_>| {
            let file = open(recorded.artifact).map_err(ReadError::Caller)?;
            let mut readings = Readings::open(source.format(), &recorded.artifact.name, file)?;
            let first = readings.next()?;
            Ok((readings, first))
        };
        let recordings = recorded.iter().take(MAX_RECORDINGS).map(begun).collect::<Result<_, ReadError<E>>>()?;
        Ok(Self { recordings, left_out: recorded.len().saturating_sub(MAX_RECORDINGS) as u64 })
    }

    /// Returns the earliest of the next readings; of equal ones, that of the earlier recording.
    pub(crate) fn next(&mut self) -> Result<Option<Reading>, Error> {
        let heads = self.recordings.iter_mut().filter(|(_, head)| head.is_some());
        let Some((readings, head)) = heads.min_by_key(|(_, head)| head.as_ref().map(|head| head.requested_at)) else {
            return Ok(None);
        };
        let next = readings.next()?;
        Ok(std::mem::replace(head, next))
    }
}

/// The readings in one file.
enum Readings {
    Counters(Lines<'static, CounterLine<BTreeMap<String, f64>>>),
    Scrapes(Lines<'static, ScrapeLine>),
}

impl Readings {
    fn open(format: LineFormat, name: &str, file: Box<dyn Read>) -> Result<Self, Error> {
        Ok(match format {
            LineFormat::Counters => Self::Counters(Lines::open(name, format, file)?),
            LineFormat::Scrapes => Self::Scrapes(Lines::open(name, format, file)?),
        })
    }

    /// Returns the next reading that has values.
    fn next(&mut self) -> Result<Option<Reading>, Error> {
        match self {
            Self::Counters(lines) => Ok(lines.next()?.map(Reading::from)),
            Self::Scrapes(lines) => {
                while let Some(line) = lines.next()? {
                    if let Some(reading) = Reading::from_scrape(line) {
                        return Ok(Some(reading));
                    }
                }
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Count, Digest};

    use super::*;

    #[test]
    fn only_recordings_are_taken_for_recordings() {
        let named = |name: &str| {
            let digest = Digest::compute(b"x");
            let artifact = Artifact { name: name.to_owned(), digest, size: Count(0), media_type: "x".to_owned() };
            by_place(&[artifact])
                .into_keys()
                .next()
                .map(|place| format!("{} {} {}", place.block.index, place.block.incarnation, place.source))
        };
        assert_eq!(named("recordings/1-2-3/host.jsonl").as_deref(), Some("1 2 host"));
        assert_eq!(named("recordings/1-2-3/endpoint-my-target.jsonl.zst").as_deref(), Some("1 2 endpoint/my-target"));
        assert_eq!(named("recordings/1-2-3/exporter-node-1.jsonl.zst").as_deref(), Some("1 2 exporter/node-1"));
        for other in [
            "recordings/1-2/host.jsonl",
            "recordings/1-2-3-4/host.jsonl",
            "attempts/1-2-3/host.jsonl",
            "recordings/1-2-3/x",
            "recordings/1-2-3/host-a.jsonl",
            "recordings/1-2-3/exporter.jsonl.zst",
            "recordings/1-2-3/exporter-.jsonl.zst",
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
