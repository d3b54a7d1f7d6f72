//! Reads the GPUs of this machine by `nvidia-smi`, which runs as long as the recorder.
//!
//! A program that is absent, ends, hangs or prints something else fails no run: the time without readings is a gap, with its reason.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use assay_process::{Cancel, Child, ChildExit, Command, Error, Output, Spawner};
use assay_stage::{Clock, ErrorCode, Failure, Stopwatch, with_causes};
use assay_telemetry::nvidia_smi::{MAX_GPUS, MAX_LINE_BYTES, PROGRAM, Query, refused_field};
use assay_telemetry::{ScrapeLine, Source};

use crate::reading_file::{ClockReading, Reading, ReadingFile};
use crate::record::{INTERVAL, RecordedSource};
use crate::source_threads::{Messages, SourceThreads};

/// The readings of the program.
const READING: Reading = Reading { nouns: ("reading", "readings"), late: Some("it printed nothing") };

/// The most lines in one interval: a line for each of [`MAX_GPUS`], with room for lines that come late and together.
const MAX_LINES: u64 = 16 * MAX_GPUS as u64;

/// The most lines that are no values and are kept.
const MAX_ODD_LINES: u64 = 100;

/// The longest part of an odd line that is kept, in characters.
const MAX_ODD_CHARS: usize = 200;

/// The lines that wait to be read: a few readings.
const MAX_WAITING: usize = 1024;

/// The time in which a program that has closed its output is expected to have ended.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// The grace period between SIGTERM and SIGKILL: the program has nothing to finish.
const GRACE: Duration = Duration::from_millis(200);

/// Starts a thread that reads the GPUs until the recorder ends.
pub(crate) fn start(threads: &mut SourceThreads, source: &Source, path: &Path, watch: Stopwatch) -> Result<(), Failure> {
    let unstarted = |error: std::io::Error| Failure::new(ErrorCode::Threads, "cannot start a thread").because(&error);
    let stopped = Cancel::new().map_err(unstarted)?;
    let reader = GpuReader {
        file: ReadingFile::create(source, READING, path, watch)?,
        watch,
        program: PROGRAM.to_owned(),
        spawner: Spawner::start().map_err(unstarted)?,
        stopped: stopped.clone(),
        max_lines: MAX_LINES,
        has_values: false,
    };
    threads.start(source.to_string(), move || stopped.cancel("the recorder ends"), |messages| reader.run(messages))
}

/// Runs the program and keeps what it prints.
struct GpuReader {
    file: ReadingFile,
    watch: Stopwatch,
    program: String,
    spawner: Spawner,
    stopped: Cancel,
    /// The most lines in one interval.
    max_lines: u64,
    /// True once a line of values was read.
    has_values: bool,
}

/// A message about a running program.
enum Printed {
    /// A line, and the time at which it was read.
    Line(ClockReading, Vec<u8>),
    /// The program has closed its output, or a line is too long; the reason if it is the latter.
    NoMore(Option<&'static str>),
    /// The program has ended, or cannot be waited for.
    Ended(Result<ChildExit, Error>),
}

/// The reason why a program is read no further.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The recorder ends.
    Stopped,
    /// The program does not know a field.
    Refused(String),
    /// No further reading is to be expected; the reason, for people.
    Over(String),
}

impl GpuReader {
    fn run(mut self, messages: &Messages) -> Result<RecordedSource, Failure> {
        let mut query = Query::default();
        loop {
            match self.read(&query, messages)? {
                End::Stopped => break,
                End::Refused(field) => {
                    if let Some(fewer) = query.without(&field) {
                        query = fewer;
                    } else {
                        self.give_up(&format!("it refuses the field `{field}`"), messages)?;
                        break;
                    }
                }
                End::Over(why) => {
                    self.give_up(&why, messages)?;
                    break;
                }
            }
        }
        let now = self.file.now();
        self.file.gaps.note_if_late(now);
        self.file.finish()
    }

    /// Keeps the reason why there are no further readings, and waits for the end of the recorder.
    fn give_up(&mut self, why: &str, messages: &Messages) -> Result<(), Failure> {
        self.keep_failure(why)?;
        messages.note(format!("{} is recorded no further: {why}", self.file.source().description()));
        messages.first();
        while !self.stopped.wait_timeout(Duration::from_hours(1)) {}
        Ok(())
    }

    fn keep_failure(&mut self, why: &str) -> Result<(), Failure> {
        let now = self.file.now();
        self.file.write(now, &ScrapeLine { at: now.at, took_ns: 0, status: None, body: None, error: Some(why.to_owned()) })
    }

    /// Runs the program once, until it or the recorder ends.
    fn read(&mut self, query: &Query, messages: &Messages) -> Result<End, Failure> {
        if self.stopped.is_cancelled() {
            return Ok(End::Stopped);
        }
        let printed = match self.start(query) {
            Ok(printed) => printed,
            Err(error) => return Ok(End::Over(self.unstarted(&error))),
        };
        let mut reading = OpenReading::new(query);
        let end = self.read_lines(query, &printed, &mut reading, messages)?;
        // The receiver is dropped: the thread that reads ends, and with its pipe a program that goes on printing.
        drop(printed);
        self.keep(&mut reading)?;
        Ok(end)
    }

    /// Starts the program with a thread that reads its output and one that waits for its end. Neither is joined: a program that hangs in
    /// its driver cannot even be killed, and would keep the recorder from ending.
    fn start(&self, query: &Query) -> Result<Receiver<Printed>, Error> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
        let interval_ms = u64::try_from(INTERVAL.as_millis()).unwrap_or(u64::MAX);
        let command = Command::new(&self.program).args(query.arguments(Some(interval_ms))).env("PATH", path).env("LC_ALL", "C");
        let mut child = self.spawner.spawn(Command { stdout: Output::Pipe, grace: GRACE, ..command })?;
        let thread_error = |source| Error::System { what: "start a thread", source };
        let (sender, printed) = sync_channel(MAX_WAITING);
        let (output, watch, lines) = (child.take_stdout(), self.watch, sender.clone());
        let read = move || send_lines(output, watch, &lines);
        std::thread::Builder::new().name(PROGRAM.to_owned()).spawn(read).map_err(thread_error)?;
        let stopped = self.stopped.clone();
        let wait = move || drop(sender.send(Printed::Ended(Child::wait(child, None, &stopped))));
        std::thread::Builder::new().name(PROGRAM.to_owned()).spawn(wait).map_err(thread_error)?;
        Ok(printed)
    }

    fn unstarted(&self, error: &Error) -> String {
        match error {
            Error::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                format!("there is no program `{}` in PATH", self.program)
            }
            error => with_causes(error),
        }
    }

    fn read_lines(
        &mut self,
        query: &Query,
        printed: &Receiver<Printed>,
        reading: &mut OpenReading,
        messages: &Messages,
    ) -> Result<End, Failure> {
        let mut seen = SeenLines { budget: LineBudget::new(self.max_lines), odd: 0, last_odd: String::new(), refused: None };
        let (mut exit, mut is_closed) = (None, false);
        loop {
            // What it printed before its end may come after it, and a process that it has left behind may hold its output open.
            let is_ending = is_closed || exit.is_some();
            let next = if is_ending { printed.recv_timeout(EXIT_LIMIT).ok() } else { printed.recv().ok() };
            let is_over = next.is_none();
            match next {
                Some(Printed::Line(at, line)) => {
                    let line = String::from_utf8_lossy(&line);
                    if let Some(end) = self.take_line(query, at, line.trim(), &mut seen, reading)? {
                        return Ok(end);
                    }
                    if reading.first.is_some() && !std::mem::replace(&mut self.has_values, true) {
                        messages.first();
                    }
                }
                Some(Printed::NoMore(Some(why))) => return Ok(End::Over(why.to_owned())),
                Some(Printed::NoMore(None)) => is_closed = true,
                Some(Printed::Ended(ended)) => exit = Some(ended),
                None => {}
            }
            match exit.take() {
                Some(ended) if is_over || is_closed => return Ok(seen.end(ended)),
                None if is_over => return Ok(End::Over("it closed its output".to_owned())),
                kept => exit = kept,
            }
        }
    }

    /// Keeps a line; returns the reason if no further one is read.
    fn take_line(
        &mut self,
        query: &Query,
        at: ClockReading,
        line: &str,
        seen: &mut SeenLines,
        reading: &mut OpenReading,
    ) -> Result<Option<End>, Failure> {
        if let Some(why) = seen.budget.take(at.ns).or_else(|| self.file.reason_if_full()) {
            return Ok(Some(End::Over(why)));
        }
        if let Some(gpu) = query.gpu_of(line) {
            if reading.is_over(gpu) {
                self.keep(reading)?;
            }
            reading.add(at, gpu, line);
        } else if let Some(field) = refused_field(line) {
            seen.refused = Some(field.to_owned());
        } else if !line.is_empty() {
            seen.odd += 1;
            if seen.odd > MAX_ODD_LINES {
                return Ok(Some(End::Over(format!("it printed more than {MAX_ODD_LINES} lines that are no values"))));
            }
            seen.last_odd = line.chars().take(MAX_ODD_CHARS).collect();
            self.keep_failure(&format!("it printed `{}`", seen.last_odd))?;
        }
        Ok(None)
    }

    /// Writes a reading, if it has any line.
    fn keep(&mut self, reading: &mut OpenReading) -> Result<(), Failure> {
        let Some((first, line)) = reading.take() else { return Ok(()) };
        self.file.write(first, &line)
    }
}

/// The lines of a program that are no values.
struct SeenLines {
    budget: LineBudget,
    odd: u64,
    last_odd: String,
    /// The field that it does not know.
    refused: Option<String>,
}

impl SeenLines {
    /// Returns the reason why a program that has ended is read no further.
    fn end(self, exit: Result<ChildExit, Error>) -> End {
        match (exit, self.refused) {
            (Ok(exit), _) if exit.cancelled => End::Stopped,
            (Err(error), _) => End::Over(with_causes(&error)),
            (Ok(_), Some(field)) => End::Refused(field),
            (Ok(exit), None) if self.last_odd.is_empty() => End::Over(format!("it ended with {}", exit.status)),
            (Ok(exit), None) => End::Over(format!("it ended with {} and printed `{}`", exit.status, self.last_odd)),
        }
    }
}

/// Sends the lines of an output until its end, or until no line is received any more.
fn send_lines(output: Option<File>, watch: Stopwatch, lines: &SyncSender<Printed>) {
    let Some(output) = output else { return };
    let mut output = BufReader::new(output);
    let end = loop {
        let mut line = Vec::new();
        // Output that cannot be read is like its end.
        let read = output.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line).unwrap_or(0);
        if read == 0 {
            break None;
        }
        if read == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            break Some("it printed a line that is too long");
        }
        let at = ClockReading { at: Clock.now(), ns: watch.elapsed_ns() };
        if lines.send(Printed::Line(at, line)).is_err() {
            return;
        }
    };
    let _ = lines.send(Printed::NoMore(end));
}

/// The lines of a reading so far: those of each GPU once.
struct OpenReading {
    header: String,
    first: Option<ClockReading>,
    last_ns: u64,
    gpus: BTreeSet<String>,
    text: String,
}

impl OpenReading {
    fn new(query: &Query) -> Self {
        Self { header: query.header(), first: None, last_ns: 0, gpus: BTreeSet::new(), text: String::new() }
    }

    /// Returns true if a line of this GPU is of the next reading.
    fn is_over(&self, gpu: &str) -> bool {
        self.gpus.contains(gpu) || self.gpus.len() >= MAX_GPUS
    }

    fn add(&mut self, at: ClockReading, gpu: &str, line: &str) {
        self.first.get_or_insert(at);
        self.last_ns = at.ns;
        self.gpus.insert(gpu.to_owned());
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Returns the reading with the time of its first line, and begins the next one.
    fn take(&mut self) -> Option<(ClockReading, ScrapeLine)> {
        let first = self.first.take()?;
        let body = format!("{}\n{}", self.header, std::mem::take(&mut self.text));
        self.gpus.clear();
        let took_ns = self.last_ns.saturating_sub(first.ns);
        Some((first, ScrapeLine { at: first.at, took_ns, status: None, body: Some(body), error: None }))
    }
}

/// The lines that a program may print in an interval.
struct LineBudget {
    max: u64,
    since_ns: u64,
    lines: u64,
}

impl LineBudget {
    fn new(max: u64) -> Self {
        Self { max, since_ns: 0, lines: 0 }
    }

    /// Counts a line that was read at a time; returns the reason why no further one is, if it is one too many.
    fn take(&mut self, now_ns: u64) -> Option<String> {
        if now_ns.saturating_sub(self.since_ns) >= INTERVAL.as_nanos() as u64 {
            (self.since_ns, self.lines) = (now_ns, 0);
        }
        self.lines += 1;
        (self.lines > self.max).then(|| format!("it printed more than {} lines within a second", self.max))
    }
}

#[cfg(test)]
mod tests;
