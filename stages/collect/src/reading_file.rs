//! The file of one source's readings and its gaps, written as they come.

use std::path::Path;

use assay_manifest::{Count, Gap, Instant, Window};
use assay_stage::{Clock, Failure, Stopwatch};
use assay_telemetry::{ScrapeLine, Source};

use crate::line_file::LineFile;
use crate::record::{GAP_INTERVALS, INTERVAL, RecordedSource};

/// The largest file of one source's responses, packed: a day of them is far smaller.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The most gaps of one source that are listed one by one.
pub(crate) const MAX_GAPS: usize = 1000;

/// A file of [`ScrapeLine`], packed, with the gaps between the readings.
pub(crate) struct ReadingFile {
    source: Source,
    lines: LineFile,
    watch: Stopwatch,
    samples: u64,
    pub(crate) gaps: Gaps,
}

impl ReadingFile {
    /// Creates the file of a source. Its gaps are of `reading`: the noun for one of its readings, such as `request`.
    pub(crate) fn create(source: &Source, reading: Reading, path: &Path, watch: Stopwatch) -> Result<Self, Failure> {
        let gaps = Gaps::new(source.to_string(), reading, ClockReading { at: watch.started_at(), ns: 0 });
        Ok(Self { source: source.clone(), lines: LineFile::create(path)?, watch, samples: 0, gaps })
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the present time by both clocks.
    pub(crate) fn now(&self) -> ClockReading {
        ClockReading { at: Clock.now(), ns: self.watch.elapsed_ns() }
    }

    /// Writes the line of a reading that was requested at a time, and notes its success or failure.
    pub(crate) fn write(&mut self, requested: ClockReading, line: &ScrapeLine) -> Result<(), Failure> {
        self.lines.write(line)?;
        self.samples += 1;
        if line.body.is_some() {
            self.gaps.record_success(requested);
        } else {
            self.gaps.record_failure(line.error.as_deref().unwrap_or_default());
        }
        Ok(())
    }

    /// Returns the reason why nothing more is written, if the file has reached its limit.
    pub(crate) fn reason_if_full(&mut self) -> Option<String> {
        (self.lines.written() >= MAX_FILE_BYTES).then(|| {
            let full = format!("the recording of {} has reached its limit of {MAX_FILE_BYTES} bytes", self.source.description());
            self.gaps.record_failure(&full);
            full
        })
    }

    pub(crate) fn finish(self) -> Result<RecordedSource, Failure> {
        let end = self.now();
        let Self { source, lines, samples, gaps, .. } = self;
        Ok(RecordedSource { source, path: lines.finish()?, samples, gaps: gaps.finish(end) })
    }
}

/// An instant by both clocks; the monotonic one counts from the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) at: Instant,
    pub(crate) ns: u64,
}

/// The nouns for the readings of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// One reading, and several.
    pub(crate) nouns: (&'static str, &'static str),
    /// The reason for a late reading before which none has failed; `None` if a reading may come at any time.
    pub(crate) late: Option<&'static str>,
}

impl Reading {
    /// The response to a request.
    pub(crate) const REQUEST: Self = Self { nouns: ("request", "requests"), late: Some("the recorder was not scheduled") };
}

/// The times without a successful response.
pub(crate) struct Gaps {
    source: String,
    reading: Reading,
    list: Vec<Gap>,
    /// The last successful response, or the start of the recording.
    last_success: ClockReading,
    /// The reason of the first failed request since then, and the number of failed requests.
    failed: Option<(String, u64)>,
}

impl Gaps {
    pub(crate) fn new(source: String, reading: Reading, begin: ClockReading) -> Self {
        Self { source, reading, list: Vec::new(), last_success: begin, failed: None }
    }

    pub(crate) fn record_failure(&mut self, why: &str) {
        let (_, count) = self.failed.get_or_insert_with(|| (why.to_owned(), 0));
        *count += 1;
    }

    /// Records a successful response. It ends the gap of failed requests; without failures, a gap is recorded if the response is late.
    pub(crate) fn record_success(&mut self, requested: ClockReading) {
        self.note_if_late(requested);
        self.close(requested);
        self.last_success = requested;
    }

    /// Notes that readings are late, if none has failed.
    pub(crate) fn note_if_late(&mut self, now: ClockReading) {
        let late_ns = GAP_INTERVALS * INTERVAL.as_nanos() as u64;
        let late = self.reading.late.filter(|_| now.ns.saturating_sub(self.last_success.ns) > late_ns);
        if let (None, Some(late)) = (&self.failed, late) {
            self.failed = Some((late.to_owned(), 0));
        }
    }

    fn close(&mut self, end: ClockReading) {
        let Some((why, count)) = self.failed.take() else { return };
        let reason = match count {
            0 => why,
            1 => format!("a {} failed: {why}", self.reading.nouns.0),
            count => format!("{count} {} failed, the first one: {why}", self.reading.nouns.1),
        };
        let is_full = self.list.len() == MAX_GAPS;
        match self.list.last_mut() {
            Some(last) if is_full => {
                last.window.end = end.at;
                last.window.duration_ns = Count(end.at.ns_since(last.window.start));
                last.reason = format!(
                    "there are more gaps than {MAX_GAPS}; this one holds all others, with the successful responses between them"
                );
            }
            _ => {
                let span = Count(end.ns.saturating_sub(self.last_success.ns));
                let window = Window { start: self.last_success.at, end: end.at, duration_ns: span };
                self.list.push(Gap { source: self.source.clone(), window, reason });
            }
        }
    }

    pub(crate) fn finish(mut self, end: ClockReading) -> Vec<Gap> {
        self.close(end);
        self.list
    }
}
