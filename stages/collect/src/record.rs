//! The recorder: samples every source of the block at a fixed interval until it is stopped, then signs the recording. It reads
//! the counters of its machine itself; other sources have a thread each.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use assay_host::{Counters, Root};
use assay_manifest::{Block, Count, Environment, Gap, Instant, Recording, Series, Window};
use assay_stage::parameters::RecordParameters;
use assay_stage::{Clock, Context, ErrorCode, Event, Failure, Inputs, Stage, StageName, Stopwatch};
use assay_telemetry::{CounterLine, Sampled, Sampling, Source};

use crate::line_file::unwritable;
use crate::reading_file::{ClockReading, Gaps, Reading};
use crate::source_threads::SourceThreads;
use crate::{nvidia_smi, scrape, traces};

/// The interval between readings.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// A reading that comes this many intervals after the previous one leaves a gap.
pub(crate) const GAP_INTERVALS: u64 = 3;

/// The longest recording: a day of readings. A longer run makes several.
const MAX_SAMPLES: u64 = 86_400;

/// The recorder. It ends when it is stopped (SIGTERM), and that is its success.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record;

impl Stage for Record {
    type Parameters = RecordParameters;
    type Output = Recording;
    const NAME: StageName = StageName::Record;
    const ENDS_BY_SIGNAL: bool = true;

    fn run(&self, inputs: &Inputs, parameters: &RecordParameters, ctx: &Context) -> Result<Recording, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let environment = &inputs.one::<Environment>()?.body;
        let block = Block { index: parameters.block, incarnation: parameters.incarnation };
        if environment.block != block {
            return Err(Failure::new(ErrorCode::OtherBlock, "the environment is not of the block that is to be recorded"));
        }
        let watch = ctx.clock().start();
        let sampled = assay_telemetry::sampled(plan, environment);
        let threads = start_threads(ctx, &sampled, watch)?;
        let counters = CounterRecording::record(ctx, counter_source(&sampled)?, watch, &threads)?;
        let recorded = std::iter::once(counters.recorded).chain(threads.stop()?);

        let folder = format!("recordings/{}-{}-{}", block.index, block.incarnation, parameters.sequence);
        let (mut series, mut gaps) = (Vec::new(), Vec::new());
        for RecordedSource { source, path, samples, gaps: left } in recorded {
            let artifact = ctx.put_file(format!("{folder}/{}", source.file_name()), source.format().media_type(), &path)?;
            series.push(Series { source: source.to_string(), samples: Count(samples), artifact });
            gaps.extend(left);
        }
        let interval_ns = Count(INTERVAL.as_nanos() as u64);
        Ok(Recording {
            plan_digest,
            block,
            sequence: parameters.sequence,
            place: ctx.pod_place().cloned(),
            window: counters.window,
            interval_ns,
            series,
            gaps,
        })
    }
}

/// Starts a thread for each source that the recorder does not read itself.
fn start_threads(ctx: &Context, sampled: &[Sampled], watch: Stopwatch) -> Result<SourceThreads, Failure> {
    let mut threads = SourceThreads::default();
    for found in sampled {
        let path = ctx.scratch().join(found.source.file_name());
        match &found.sampling {
            Sampling::Counters => {}
            Sampling::Scrape { .. } => scrape::start(&mut threads, found, &path, watch)?,
            Sampling::NvidiaSmi => nvidia_smi::start(&mut threads, &found.source, &path, watch)?,
            Sampling::Otlp { address } => traces::start(&mut threads, &found.source, address, &path, watch)?,
        }
    }
    Ok(threads)
}

/// The readings of one source.
pub(crate) struct RecordedSource {
    pub(crate) source: Source,
    /// The file of the readings, in the source's format.
    pub(crate) path: PathBuf,
    /// The number of lines in the file.
    pub(crate) samples: u64,
    pub(crate) gaps: Vec<Gap>,
}

/// Returns the source whose counters the recorder reads itself.
fn counter_source(sampled: &[Sampled]) -> Result<&Source, Failure> {
    let found = sampled.iter().find(|sampled| sampled.sampling == Sampling::Counters).map(|sampled| &sampled.source);
    found.ok_or_else(|| Failure::new(ErrorCode::Internal, "no source has counters that the recorder reads itself"))
}

/// The readings of the counters of this machine, written as they come.
struct CounterRecording {
    recorded: RecordedSource,
    window: Window,
}

impl CounterRecording {
    fn record(ctx: &Context, source: &Source, watch: Stopwatch, threads: &SourceThreads) -> Result<Self, Failure> {
        let path = ctx.scratch().join(source.file_name());
        let mut counters = Counters::new(Root::host());
        let out = BufWriter::new(File::create(&path).map_err(|error| unwritable(&path, &error))?);
        let mut readings = Readings::new(source, out, watch.started_at());
        let mut read = |readings: &mut Readings<_>| {
            let now = ClockReading { ns: watch.elapsed_ns(), at: Clock.now() };
            readings.add(now, counters.read()).map_err(|error| unwritable(&path, &error))
        };
        loop {
            read(&mut readings)?;
            if readings.samples == 1 {
                // The runner starts execute only once the first readings are on the tape.
                threads.wait_for_first(ctx);
                ctx.emit(Event::Recording);
            }
            threads.pass_notes(ctx);
            if readings.samples >= MAX_SAMPLES || ctx.cancel().wait_timeout(time_to_next(watch.elapsed_ns())) {
                break;
            }
        }
        // One more reading at the very end, so that the last trial's window is covered. It may be late as well: a recorder that was not scheduled
        // until its end has no reading after the gap.
        read(&mut readings)?;
        let Readings { mut out, samples, gaps } = readings;
        out.flush().map_err(|error| unwritable(&path, &error))?;
        let end = ClockReading { ns: watch.elapsed_ns(), at: Clock.now() };
        let recorded = RecordedSource { source: source.clone(), path, samples, gaps: gaps.finish(end) };
        Ok(Self { recorded, window: watch.window() })
    }
}

/// The readings of counters so far: how many are written, and the gaps between them.
struct Readings<W> {
    out: W,
    samples: u64,
    gaps: Gaps,
}

impl<W: std::io::Write> Readings<W> {
    fn new(source: &Source, out: W, start: Instant) -> Self {
        Self { out, samples: 0, gaps: Gaps::new(source.to_string(), Reading::REQUEST, ClockReading { at: start, ns: 0 }) }
    }

    /// Writes a reading, and notes a gap if it is late.
    fn add(&mut self, now: ClockReading, values: assay_host::Reading) -> std::io::Result<()> {
        self.gaps.record_success(now);
        self.samples += 1;
        write_line(&mut self.out, &CounterLine { at: now.at, values })
    }
}

/// Returns the time to the next whole interval, so that readings do not drift with the time that they take.
pub(crate) fn time_to_next(elapsed_ns: u64) -> Duration {
    let interval = INTERVAL.as_nanos() as u64;
    Duration::from_nanos(interval - elapsed_ns % interval)
}

fn write_line(out: &mut impl std::io::Write, line: &CounterLine<assay_host::Reading>) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(ns: u64) -> ClockReading {
        ClockReading { ns, at: Instant::from_unix_ns(i64::try_from(ns).expect("it fits")) }
    }

    /// Returns the time of each gap of readings at these times since the start of the recording.
    fn gaps(readings_at: &[u64]) -> Vec<u64> {
        let mut readings = Readings::new(&Source::host(), Vec::new(), at(0).at);
        for ns in readings_at {
            readings.add(at(*ns), assay_host::Reading::default()).expect("written");
        }
        let lines = readings.out.split(|byte| *byte == b'\n').count() - 1;
        assert_eq!((readings.samples, lines), (readings_at.len() as u64, readings_at.len()));
        // The recording ends much later: what the readings say does not depend on it.
        let found = readings.gaps.finish(at(1000 * SECOND));
        assert!(found.iter().all(|gap| gap.reason == "the recorder was not scheduled" && gap.source == "host"), "{found:?}");
        found.iter().map(|gap| gap.window.duration_ns.0).collect()
    }

    #[test]
    fn a_late_reading_leaves_a_gap_and_the_first_and_the_last_may_be_late() {
        assert_eq!(gaps(&[0, SECOND, 22 * SECOND]), [21 * SECOND]);
        assert_eq!(gaps(&[21 * SECOND, 22 * SECOND]), [21 * SECOND]);
        assert_eq!(gaps(&[0, SECOND, 2 * SECOND]), [0_u64; 0]);
        assert_eq!(gaps(&[0, 3 * SECOND]), [0_u64; 0], "the limit itself is no gap");
        assert_eq!(gaps(&[0, 3 * SECOND + 1]), [3 * SECOND + 1]);
        assert_eq!(gaps(&[2 * SECOND, SECOND]), [0_u64; 0], "the monotonic clock does not fall, but if it did");
    }

    proptest! {
        #[test]
        fn readings_keep_to_whole_intervals(elapsed_ns in 0_u64..1_000_000 * SECOND) {
            let next = elapsed_ns + u64::try_from(time_to_next(elapsed_ns).as_nanos()).expect("it fits");
            prop_assert_eq!(next % SECOND, 0);
            prop_assert!(next > elapsed_ns && next - elapsed_ns <= SECOND);
        }
    }
}
