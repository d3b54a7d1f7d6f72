//! The coverage of attempts' windows by recordings. Recordings are read as a stream: memory grows with the attempts, and never
//! with the readings.

use std::collections::BTreeMap;
use std::io::Read;

use assay_manifest::{Block, Count, Gap, Instant, Recording, Series, Window};
use serde::Deserialize;

use crate::line::each_reading;
use crate::recording::OpenArtifact;
use crate::source::Source;
use crate::{Error, ReadError};

/// The longest reason of a gap in a sentence about several, in characters.
const MAX_REASON: usize = 120;

/// The coverage of every attempt's window by recordings.
pub struct Coverage<'a> {
    recordings: &'a [&'a Recording],
    readings: BTreeMap<Block, Readings>,
}

impl<'a> Coverage<'a> {
    /// Reads every recording once and counts its readings of the host in the windows of its block.
    pub fn read<E>(
        recordings: &'a [&'a Recording],
        windows: impl Iterator<Item = (Block, Window)>,
        open: &OpenArtifact<'_, E>,
    ) -> Result<Self, ReadError<E>> {
        let mut tallies = tallies(windows);
        let host = Source::host().to_string();
        for recording in recordings {
            let Some(tally) = tallies.get_mut(&recording.block) else { continue };
            for series in recording.series.iter().filter(|series| series.source == host) {
                let file = open(&series.artifact).map_err(ReadError::Caller)?;
                read_series(series, file, |at| tally.add(at))?;
            }
        }
        let readings = tallies.into_iter().map(|(block, tally)| (block, tally.into_readings())).collect();
        Ok(Self { recordings, readings })
    }

    /// Returns the coverage of a run without recordings.
    pub fn none() -> Self {
        Self { recordings: &[], readings: BTreeMap::new() }
    }

    /// Returns the number of readings of the host in a window of a block, both ends included.
    pub fn samples(&self, block: Block, window: &Window) -> u64 {
        self.readings.get(&block).map_or(0, |readings| readings.within(window))
    }

    /// Returns the parts of a window without readings of these sources: those without a recorder, and the gaps of recorders.
    pub fn gaps(&self, block: Block, window: &Window, sources: &[Source]) -> Vec<Gap> {
        let recordings: Vec<_> = self.recordings.iter().copied().filter(|recording| recording.block == block).collect();
        sources.iter().flat_map(|source| gaps_of(source, &recordings, window)).collect()
    }
}

fn gaps_of(source: &Source, recordings: &[&Recording], window: &Window) -> Vec<Gap> {
    let name = source.to_string();
    let is_in_all = source.definition().is_in_every_recording();
    let has = |recording: &&&Recording| is_in_all || recording.series.iter().any(|series| series.source == name);
    let mut spans: Vec<_> =
        recordings.iter().filter(has).map(|recording| (recording.window.start, recording.window.end)).collect();
    spans.sort_unstable();
    let all = recordings.iter().flat_map(|recording| &recording.gaps);
    let left = all.filter(|gap| gap.source == name).filter_map(|gap| clip(gap, window));
    uncovered(&name, window, &spans).into_iter().chain(left).collect()
}

/// Describes the gaps in these windows for people, source by source: the time without readings, and the reason of the first gap.
/// Empty if there are none.
pub fn describe_gaps<'a>(windows: impl IntoIterator<Item = (&'a Window, &'a [Gap])>) -> String {
    let mut sources: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let mut total_ns = 0_u64;
    for (window, gaps) in windows {
        total_ns = total_ns.saturating_add(window.duration_ns.0);
        for gap in gaps {
            let (missing_ns, _) = sources.entry(&gap.source).or_insert((0, &gap.reason));
            *missing_ns = missing_ns.saturating_add(gap.window.duration_ns.0);
        }
    }
    let one = |(source, (missing_ns, reason)): (&str, (u64, &str))| {
        let reason: String = reason.chars().take(MAX_REASON).collect();
        format!("`{source}` for {} of {} s ({reason})", seconds(missing_ns), seconds(total_ns))
    };
    sources.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns a time in seconds with one decimal.
fn seconds(ns: u64) -> String {
    let tenths = ns / 100_000_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn tallies(windows: impl Iterator<Item = (Block, Window)>) -> BTreeMap<Block, Tally> {
    let mut of_block: BTreeMap<Block, Vec<Window>> = BTreeMap::new();
    for (block, window) in windows {
        of_block.entry(block).or_default().push(window);
    }
    of_block.into_iter().map(|(block, windows)| (block, Tally::new(&windows))).collect()
}

/// The part of a line that holds its time.
#[derive(Deserialize)]
struct Line {
    at: Instant,
}

/// Calls `visit` with the instant of every reading of the host in a series, a line at a time.
fn read_series(series: &Series, file: impl Read, mut visit: impl FnMut(Instant)) -> Result<(), Error> {
    each_reading(series, Source::host().format(), file, |Line { at }| {
        visit(at);
        Ok(())
    })
}

/// Counts instants by the number of windows that had begun and the number that were over.
struct Tally {
    /// The starts of all windows, sorted.
    starts: Vec<Instant>,
    /// Their ends, sorted.
    ends: Vec<Instant>,
    /// At `n`: the instants at which `n` windows had begun.
    begun: Vec<u64>,
    /// At `n`: the instants at which `n` windows were over.
    over: Vec<u64>,
}

impl Tally {
    fn new(windows: &[Window]) -> Self {
        let mut starts: Vec<_> = windows.iter().map(|window| window.start).collect();
        let mut ends: Vec<_> = windows.iter().map(|window| window.end).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let none = vec![0; windows.len() + 1];
        Self { starts, ends, begun: none.clone(), over: none }
    }

    fn add(&mut self, at: Instant) {
        let begun = self.starts.partition_point(|start| *start <= at);
        let over = self.ends.partition_point(|end| *end < at);
        for (counts, index) in [(&mut self.begun, begun), (&mut self.over, over)] {
            if let Some(count) = counts.get_mut(index) {
                *count += 1;
            }
        }
    }

    fn into_readings(self) -> Readings {
        let from = |counts: Vec<u64>| {
            let sums = counts.into_iter().rev().scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            });
            let mut sums: Vec<u64> = sums.collect();
            sums.reverse();
            sums
        };
        Readings { begun: from(self.begun), over: from(self.over), starts: self.starts, ends: self.ends }
    }
}

/// The numbers of readings at or after each start, and after each end.
struct Readings {
    starts: Vec<Instant>,
    ends: Vec<Instant>,
    /// At `n`: the readings at which at least `n` windows had begun.
    begun: Vec<u64>,
    /// At `n`: the readings at which at least `n` windows were over.
    over: Vec<u64>,
}

impl Readings {
    /// Returns the number of readings within one of the windows that were counted: those from its start on, minus those after its
    /// end.
    fn within(&self, window: &Window) -> u64 {
        let begun = self.starts.partition_point(|start| *start < window.start) + 1;
        let over = self.ends.partition_point(|end| *end < window.end) + 1;
        let at = |counts: &[u64], index: usize| counts.get(index).copied().unwrap_or(0);
        at(&self.begun, begun).saturating_sub(at(&self.over, over))
    }
}

/// Returns the part of a gap that lies in a window.
fn clip(gap: &Gap, window: &Window) -> Option<Gap> {
    let (start, end) = (gap.window.start.max(window.start), gap.window.end.min(window.end));
    (start < end).then(|| Gap { source: gap.source.clone(), window: span(start, end), reason: gap.reason.clone() })
}

/// Returns the parts of `window` outside of all `spans`, which are sorted.
fn uncovered(source: &str, window: &Window, spans: &[(Instant, Instant)]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut covered_to = window.start;
    for (start, end) in spans {
        if *start > covered_to && covered_to < window.end {
            gaps.push(not_recorded(source, covered_to, (*start).min(window.end)));
        }
        covered_to = covered_to.max(*end);
    }
    if covered_to < window.end {
        gaps.push(not_recorded(source, covered_to, window.end));
    }
    gaps
}

fn not_recorded(source: &str, start: Instant, end: Instant) -> Gap {
    Gap { source: source.to_owned(), window: span(start, end), reason: "no recorder was running".to_owned() }
}

/// Returns the window between two instants; of no length if the second is not after the first.
pub fn span(start: Instant, end: Instant) -> Window {
    Window { start, end, duration_ns: Count(end.ns_since(start)) }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Artifact, Digest};
    use proptest::prelude::*;

    use super::*;

    fn at(ns: i64) -> Instant {
        Instant::from_unix_ns(ns)
    }

    fn window(start: i64, end: i64) -> Window {
        span(at(start), at(end))
    }

    fn spans(gaps: &[Gap]) -> Vec<(i64, i64)> {
        gaps.iter().map(|gap| (gap.window.start.unix_ns(), gap.window.end.unix_ns())).collect()
    }

    fn uncovered_by(recorded: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let recorded: Vec<_> = recorded.iter().map(|(start, end)| (at(*start), at(*end))).collect();
        spans(&uncovered("host", &window(10, 20), &recorded))
    }

    #[test]
    fn what_no_recorder_covers_is_a_gap() {
        assert_eq!(uncovered_by(&[]), [(10, 20)]);
        assert_eq!(uncovered_by(&[(10, 20)]), []);
        assert_eq!(uncovered_by(&[(0, 30)]), []);
        assert_eq!(uncovered_by(&[(0, 5)]), [(10, 20)]);
        assert_eq!(uncovered_by(&[(25, 30)]), [(10, 20)]);
        assert_eq!(uncovered_by(&[(12, 15)]), [(10, 12), (15, 20)]);
        assert_eq!(uncovered_by(&[(0, 12), (15, 30)]), [(12, 15)]);
        assert_eq!(uncovered_by(&[(0, 15), (5, 12), (15, 30)]), [], "recordings may overlap");
        assert_eq!(uncovered_by(&[(12, 13), (14, 15), (40, 50)]), [(10, 12), (13, 14), (15, 20)]);
    }

    #[test]
    fn a_window_without_length_has_no_gap() {
        assert_eq!(uncovered("host", &window(10, 10), &[]), []);
    }

    #[test]
    fn of_a_gap_only_what_lies_in_the_window_counts() {
        let gap = |start, end| Gap { source: "host".to_owned(), window: window(start, end), reason: "r".to_owned() };
        let within = |start, end| clip(&gap(start, end), &window(10, 20)).map(|gap| spans(&[gap]));
        assert_eq!(within(12, 15), Some(vec![(12, 15)]));
        assert_eq!(within(0, 15), Some(vec![(10, 15)]));
        assert_eq!(within(15, 99), Some(vec![(15, 20)]));
        assert_eq!(within(0, 10), None);
        assert_eq!(within(20, 99), None);
    }

    fn recording(window_of: Window, sources: &[&str], gaps: Vec<Gap>) -> Recording {
        let of = |source: &&str| Series { source: (*source).to_owned(), ..series(0) };
        Recording {
            plan_digest: Digest::compute(b""),
            block: Block { index: 0, incarnation: 0 },
            sequence: 0,
            place: None,
            window: window_of,
            interval_ns: Count(1),
            series: sources.iter().map(of).collect(),
            gaps,
        }
    }

    #[test]
    fn an_attempt_has_the_gaps_of_the_host_and_of_its_own_endpoint() {
        let gap =
            |source: &str, start, end| Gap { source: source.to_owned(), window: window(start, end), reason: "r".to_owned() };
        let left = vec![gap("host", 11, 12), gap("endpoint/a", 12, 13), gap("endpoint/b", 13, 14)];
        let first = recording(window(0, 16), &["host", "endpoint/a", "endpoint/b"], left);
        let second = recording(window(16, 30), &["host", "endpoint/a"], vec![]);
        let coverage = Coverage { recordings: &[&first, &second], readings: BTreeMap::new() };
        let of = |endpoint: Option<&str>| {
            let endpoint = endpoint.map(|name| Source::endpoint(&name.parse().expect("a name")));
            let sources: Vec<_> = std::iter::once(Source::host()).chain(endpoint).collect();
            let gaps = coverage.gaps(first.block, &window(10, 20), &sources);
            let one = |gap: &Gap| format!("{} {}..{}", gap.source, gap.window.start.unix_ns(), gap.window.end.unix_ns());
            gaps.iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(of(None), ["host 11..12"]);
        assert_eq!(of(Some("a")), ["host 11..12", "endpoint/a 12..13"]);
        assert_eq!(of(Some("b")), ["host 11..12", "endpoint/b 16..20", "endpoint/b 13..14"], "the second did not ask it");
        assert_eq!(of(Some("c")), ["host 11..12", "endpoint/c 10..20"]);
    }

    #[test]
    fn gaps_are_described_source_by_source() {
        let second = |start: i64, end: i64| window(start * 1_000_000_000, end * 1_000_000_000);
        let gap = |source: &str, start, end, reason: &str| Gap {
            source: source.to_owned(),
            window: second(start, end),
            reason: reason.to_owned(),
        };
        let gaps = [
            gap("exporter/node", 0, 10, "10 requests failed, the first one: refused"),
            gap("exporter/node", 12, 13, "late"),
            gap("host", 0, 1, "late"),
        ];
        let windows = [second(0, 10), second(11, 22)];
        let described = describe_gaps([(&windows[0], &gaps[..1]), (&windows[1], &gaps[1..])]);
        assert_eq!(
            described,
            "`exporter/node` for 11.0 of 21.0 s (10 requests failed, the first one: refused), `host` for 1.0 of 21.0 s (late)"
        );
        assert_eq!(describe_gaps([(&windows[0], &[][..])]), "");
    }

    fn series(samples: u64) -> Series {
        let artifact = Artifact {
            name: "host.jsonl".to_owned(),
            digest: Digest::compute(b""),
            size: Count(0),
            media_type: "application/jsonl".to_owned(),
        };
        Series { source: "host".to_owned(), samples: Count(samples), artifact }
    }

    fn instants(samples: u64, text: &[u8]) -> Result<usize, String> {
        let mut seen = 0;
        read_series(&series(samples), text, |_| seen += 1).map(|()| seen).map_err(|error| error.to_string())
    }

    #[test]
    fn a_series_is_read_line_by_line() {
        let line = r#"{"at":"2026-01-01T00:00:00.000000000Z","load":1}"#;
        assert_eq!(instants(0, b""), Ok(0));
        assert_eq!(instants(2, format!("{line}\n{line}\n").as_bytes()), Ok(2));
        assert_eq!(instants(1, line.as_bytes()), Ok(1));
        insta::assert_snapshot!(instants(3, format!("{line}\n").as_bytes()).expect_err("too few"), @"`host.jsonl` has 1 readings, and its recording says 3");
        insta::assert_snapshot!(instants(1, b"{}\n").expect_err("no instant"), @"line 1 of `host.jsonl` is no reading");
        insta::assert_snapshot!(instants(2, format!("{line}\n\n").as_bytes()).expect_err("an empty line"), @"line 2 of `host.jsonl` is no reading");
        insta::assert_snapshot!(instants(1, format!("{line}\n{line}\n{line}\n").as_bytes()).expect_err("too many"), @"`host.jsonl` has more readings, and its recording says 1");
        insta::assert_snapshot!(instants(1, &vec![b' '; 2 << 20]).expect_err("an endless line"), @"line 1 of `host.jsonl` is longer than the limit of 1048576 bytes");
    }

    proptest! {
        #[test]
        fn whatever_a_recording_holds_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = instants(1, &bytes);
        }

        #[test]
        fn readings_are_counted_in_the_windows_that_they_fall_into(
            windows in prop::collection::vec((0_i64..50, 0_i64..20), 1..12),
            readings in prop::collection::vec(0_i64..80, 0..60),
        ) {
            let windows: Vec<_> = windows.iter().map(|(start, length)| window(*start, start + length)).collect();
            let mut tally = Tally::new(&windows);
            for ns in &readings {
                tally.add(at(*ns));
            }
            let counted = tally.into_readings();
            for window in &windows {
                let plainly = readings.iter().filter(|ns| (window.start..=window.end).contains(&at(**ns))).count() as u64;
                prop_assert_eq!(counted.within(window), plainly);
            }
        }

        #[test]
        fn gaps_and_recordings_fill_a_window(recorded in prop::collection::vec((0_i64..40, 0_i64..10), 0..8)) {
            let mut recorded: Vec<_> = recorded.iter().map(|(start, length)| (at(*start), at(start + length))).collect();
            recorded.sort_unstable();
            let gaps = uncovered("host", &window(10, 30), &recorded);
            for ns in 10..30 {
                // Nothing changes between two whole nanoseconds, so its start stands for each.
                let is_recorded = recorded.iter().any(|(start, end)| *start <= at(ns) && at(ns) < *end);
                let is_gap = gaps.iter().any(|gap| gap.window.start <= at(ns) && at(ns) < gap.window.end);
                prop_assert_eq!(is_recorded, !is_gap, "at {}", ns);
            }
        }
    }
}
