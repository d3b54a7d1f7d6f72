//! Scrapes sources while execute runs: each in a thread of its own, so that one that hangs delays no other.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Moment};

use assay_manifest::{Count, Gap, Instant, Window};
use assay_probe::{Client, CredentialError, EndpointResponse, Headers, Limits, RequestError, endpoint_url, read_tls};
use assay_stage::{Clock, Context, ErrorCode, Event, Failure, Stopwatch};
use assay_telemetry::{Sampled, Sampling, ScrapeAddress, ScrapeLine, Source};

use crate::record::{GAP_INTERVALS, INTERVAL, RecordedSource, time_to_next};

/// The limits of one request: it is over before the next one is due.
const LIMITS: Limits = Limits { time: Duration::from_millis(900), bytes: 16 << 20 };

/// The time that the recorder waits for the first response of every source before it reports that it records.
const FIRST_LIMIT: Duration = Duration::from_secs(2);

/// The largest file of one source's responses, packed: a day of them is far smaller.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The most gaps of one source that are listed one by one.
const MAX_GAPS: usize = 1000;

/// The scraping threads, one for each source.
pub(crate) struct Scrapers(Vec<ScraperThread>);

struct ScraperThread {
    messages: Receiver<ScraperMessage>,
    /// Dropped to stop the thread.
    stop: Sender<()>,
    thread: JoinHandle<Result<RecordedSource, Failure>>,
}

/// A message of a thread to the recorder.
enum ScraperMessage {
    /// The first request is over, whatever its outcome.
    First,
    /// A note for people.
    Note(String),
}

impl Scrapers {
    /// Starts a thread for each source that is scraped.
    pub(crate) fn start(ctx: &Context, sampled: &[Sampled], watch: Stopwatch) -> Result<Self, Failure> {
        let scraped = sampled.iter().filter_map(|Sampled { source, sampling }| match sampling {
            Sampling::Counters => None,
            Sampling::Scrape { address, headers, insecure_skip_tls_verify, tls } => {
                Some((source, address, headers, (tls.as_deref(), *insecure_skip_tls_verify)))
            }
        });
        let started = scraped.map(|(source, address, headers, (tls, is_insecure))| {
            let unusable = |error| credential_failure(source, &error);
            let headers = Headers::read(headers).map_err(|error| unusable(error.into()))?;
            let client = Client::with_tls(headers, read_tls(tls, is_insecure).map_err(unusable)?);
            let path = ctx.scratch().join(source.file_name());
            ScraperThread::start(Scraper::new(client, source, address, path, watch)?)
        });
        Ok(Self(started.collect::<Result<_, _>>()?))
    }

    /// Waits, up to a limit, until every source was scraped once: a response then precedes each measurement.
    pub(crate) fn wait_for_first(&self, ctx: &Context) {
        let deadline = Moment::now() + FIRST_LIMIT;
        for running in &self.0 {
            while let Ok(message) = running.messages.recv_timeout(deadline.saturating_duration_since(Moment::now())) {
                match message {
                    ScraperMessage::First => break,
                    ScraperMessage::Note(message) => ctx.emit(Event::Note { message }),
                }
            }
        }
    }

    /// Passes on the threads' notes.
    pub(crate) fn pass_notes(&self, ctx: &Context) {
        let messages = self.0.iter().flat_map(|running| running.messages.try_iter());
        for message in messages {
            if let ScraperMessage::Note(message) = message {
                ctx.emit(Event::Note { message });
            }
        }
    }

    /// Scrapes every source once more, and returns the responses.
    pub(crate) fn stop(self) -> Result<Vec<RecordedSource>, Failure> {
        // All threads are stopped before one is joined: the last requests run together.
        let threads: Vec<_> = self.0.into_iter().map(|ScraperThread { stop, thread, .. }| (drop(stop), thread)).collect();
        let panicked = |_| Failure::new(ErrorCode::Internal, "a thread that scrapes a source panicked");
        threads.into_iter().map(|((), thread)| thread.join().map_err(panicked)?).collect()
    }
}

fn credential_failure(source: &Source, error: &CredentialError) -> Failure {
    Failure::new(ErrorCode::SecretAbsent, error.headline(&source.description())).because(error).hint_if(error.hint())
}

impl ScraperThread {
    fn start(scraper: Scraper) -> Result<Self, Failure> {
        let (stop, stopped) = channel();
        let (sender, messages) = channel();
        let thread = std::thread::Builder::new().name(scraper.gaps.source.clone()).spawn(move || run(scraper, &stopped, &sender));
        let thread = thread.map_err(|error| Failure::new(ErrorCode::Threads, "cannot start a thread").because(&error))?;
        Ok(Self { messages, stop, thread })
    }
}

/// Scrapes at every whole interval until it is stopped, and then once more.
fn run(mut scraper: Scraper, stopped: &Receiver<()>, sender: &Sender<ScraperMessage>) -> Result<RecordedSource, Failure> {
    let mut first = true;
    loop {
        let step = scraper.scrape()?;
        // The receiver may be gone: the recorder ends, and stops this thread.
        if let Step::Over(note) = &step {
            let _ = sender.send(ScraperMessage::Note(note.clone()));
        }
        if std::mem::take(&mut first) {
            let _ = sender.send(ScraperMessage::First);
        }
        if matches!(step, Step::Over(_)) {
            let _ = stopped.recv();
            break;
        }
        if stopped.recv_timeout(time_to_next(scraper.watch.elapsed_ns())) != Err(RecvTimeoutError::Timeout) {
            scraper.scrape()?;
            break;
        }
    }
    scraper.finish()
}

/// The next step of a scraper.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Next,
    /// No further request is useful; the reason, for people.
    Over(String),
}

/// Requests one source's counters and keeps the responses, packed.
struct Scraper {
    client: Client,
    limits: Limits,
    source: Source,
    /// The address as messages show it.
    display_address: String,
    url: String,
    path: PathBuf,
    out: zstd::Encoder<'static, CountingWriter<BufWriter<File>>>,
    watch: Stopwatch,
    samples: u64,
    has_responded: bool,
    gaps: Gaps,
}

impl Scraper {
    fn new(client: Client, source: &Source, address: &ScrapeAddress, path: PathBuf, watch: Stopwatch) -> Result<Self, Failure> {
        let file = File::create(&path).map_err(|error| unwritable(&path, &error))?;
        let out = CountingWriter::new(BufWriter::new(file));
        let out = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(|error| unwritable(&path, &error))?;
        let gaps = Gaps::new(source.to_string(), ClockReading { at: watch.started_at(), ns: 0 });
        let url = match address {
            ScrapeAddress::Endpoint { address, path } => endpoint_url(address, path),
            ScrapeAddress::Url(url) => url.clone(),
        };
        let (source, display_address, limits) = (source.clone(), address.to_string(), LIMITS);
        Ok(Self { client, limits, source, display_address, url, path, out, watch, samples: 0, has_responded: false, gaps })
    }

    /// Sends one request.
    fn scrape(&mut self) -> Result<Step, Failure> {
        let requested = ClockReading { at: Clock.now(), ns: self.watch.elapsed_ns() };
        let response = self.client.get(&self.url, self.limits);
        let took_ns = self.watch.elapsed_ns().saturating_sub(requested.ns);
        let line = to_line(&self.source, requested.at, took_ns, response);
        self.write(&line)?;
        if line.body.is_some() {
            self.has_responded = true;
            self.gaps.record_success(requested);
        } else {
            self.gaps.record_failure(line.error.as_deref().unwrap_or_default());
        }
        let over = if !self.has_responded && line.status.is_some_and(is_absence) {
            let status = line.error.as_deref().unwrap_or_default();
            let (source, shown) = (self.source.description(), &self.display_address);
            Some(format!("{source} has no `{shown}` ({status}): its own counters are not recorded"))
        } else if self.out.get_ref().written() >= MAX_FILE_BYTES {
            let full = format!("the recording of {} has reached its limit of {MAX_FILE_BYTES} bytes", self.source.description());
            self.gaps.record_failure(&full);
            Some(full)
        } else {
            None
        };
        Ok(over.map_or(Step::Next, Step::Over))
    }

    fn write(&mut self, line: &ScrapeLine) -> Result<(), Failure> {
        let written =
            serde_json::to_writer(&mut self.out, line).map_err(io::Error::from).and_then(|()| self.out.write_all(b"\n"));
        written.map_err(|error| unwritable(&self.path, &error))?;
        self.samples += 1;
        Ok(())
    }

    fn finish(self) -> Result<RecordedSource, Failure> {
        let Self { source, path, out, watch, samples, gaps, .. } = self;
        let gaps = gaps.finish(ClockReading { at: Clock.now(), ns: watch.elapsed_ns() });
        out.finish().and_then(|mut out| out.flush()).map_err(|error| unwritable(&path, &error))?;
        Ok(RecordedSource { source, path, samples, gaps })
    }
}

/// Returns the line of a response: its body if it is successful and text, otherwise the reason.
fn to_line(source: &Source, at: Instant, took_ns: u64, response: Result<EndpointResponse, RequestError>) -> ScrapeLine {
    let status = response.as_ref().ok().map(|response| response.status);
    let body = response.map_err(|error| error.to_string()).and_then(|response| {
        if !response.is_success() {
            return Err(response.status_text());
        }
        let text = String::from_utf8(response.body).map_err(|_| "the response is not UTF-8".to_owned())?;
        source.check_response(&text).map(|()| text).map_err(str::to_owned)
    });
    let (body, error) = match body {
        Ok(body) => (Some(body), None),
        Err(why) => (None, Some(why)),
    };
    ScrapeLine { at, took_ns, status, body, error }
}

/// Returns true if a status means that the address has no counters, now or later.
fn is_absence(status: u16) -> bool {
    matches!(status, 404 | 405 | 410 | 501)
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(ErrorCode::Scratch, format!("cannot write `{}`", path.display())).because(error)
}

/// An instant by both clocks; the monotonic one counts from the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockReading {
    at: Instant,
    ns: u64,
}

/// The times without a successful response.
struct Gaps {
    source: String,
    list: Vec<Gap>,
    /// The last successful response, or the start of the recording.
    last_success: ClockReading,
    /// The reason of the first failed request since then, and the number of failed requests.
    failed: Option<(String, u64)>,
}

impl Gaps {
    fn new(source: String, begin: ClockReading) -> Self {
        Self { source, list: Vec::new(), last_success: begin, failed: None }
    }

    fn record_failure(&mut self, why: &str) {
        let (_, count) = self.failed.get_or_insert_with(|| (why.to_owned(), 0));
        *count += 1;
    }

    /// Records a successful response. It ends the gap of failed requests; without failures, a gap is recorded if the response is late.
    fn record_success(&mut self, requested: ClockReading) {
        let late_ns = GAP_INTERVALS * INTERVAL.as_nanos() as u64;
        if self.failed.is_some() {
            self.close(requested);
        } else if requested.ns.saturating_sub(self.last_success.ns) > late_ns {
            self.failed = Some(("the recorder was not scheduled".to_owned(), 0));
            self.close(requested);
        }
        self.last_success = requested;
    }

    fn close(&mut self, end: ClockReading) {
        let Some((why, count)) = self.failed.take() else { return };
        let reason = match count {
            0 => why,
            1 => format!("a request failed: {why}"),
            count => format!("{count} requests failed, the first one: {why}"),
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

    fn finish(mut self, end: ClockReading) -> Vec<Gap> {
        self.close(end);
        self.list
    }
}

/// Counts the bytes that are written through it.
pub(crate) struct CountingWriter<W> {
    inner: W,
    written: u64,
}

impl<W> CountingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, written: 0 }
    }

    /// Returns the number of bytes so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
