//! Scrapes sources while execute runs.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use assay_manifest::Instant;
use assay_probe::{Client, CredentialError, EndpointResponse, Headers, Limits, RequestError, endpoint_url, read_tls};
use assay_stage::{ErrorCode, Failure, Stopwatch};
use assay_telemetry::{Sampled, Sampling, ScrapeAddress, ScrapeLine, Source};

use crate::reading_file::{Reading, ReadingFile};
use crate::record::{RecordedSource, time_to_next};
use crate::source_threads::{Messages, SourceThreads};

/// The limits of one request: it is over before the next one is due.
const LIMITS: Limits = Limits { time: Duration::from_millis(900), bytes: 16 << 20 };

/// Starts a thread for a source that is scraped; does nothing for others.
pub(crate) fn start(threads: &mut SourceThreads, sampled: &Sampled, path: &Path, watch: Stopwatch) -> Result<(), Failure> {
    let source = &sampled.source;
    let Sampling::Scrape { address, headers, insecure_skip_tls_verify, tls } = &sampled.sampling else { return Ok(()) };
    let unusable = |error| credential_failure(source, &error);
    let headers = Headers::read(headers).map_err(|error| unusable(error.into()))?;
    let client = Client::with_tls(headers, read_tls(tls.as_deref(), *insecure_skip_tls_verify).map_err(unusable)?);
    let scraper = Scraper::new(client, source, address, path, watch)?;
    let (stop, stopped) = channel::<()>();
    threads.start(source.to_string(), move || drop(stop), move |messages| run(scraper, &stopped, messages))
}

fn credential_failure(source: &Source, error: &CredentialError) -> Failure {
    Failure::new(ErrorCode::SecretAbsent, error.headline(&source.description())).because(error).hint_if(error.hint())
}

/// Scrapes at every whole interval until it is stopped, and then once more.
fn run(mut scraper: Scraper, stopped: &Receiver<()>, messages: &Messages) -> Result<RecordedSource, Failure> {
    let mut first = true;
    loop {
        let step = scraper.scrape()?;
        if let Step::Over(note) = &step {
            messages.note(note.clone());
        }
        if std::mem::take(&mut first) {
            messages.first();
        }
        if matches!(step, Step::Over(_)) {
            let _ = stopped.recv();
            break;
        }
        if stopped.recv_timeout(time_to_next(scraper.file.now().ns)) != Err(RecvTimeoutError::Timeout) {
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
    /// The address as messages show it.
    display_address: String,
    url: String,
    file: ReadingFile,
    has_responded: bool,
}

impl Scraper {
    fn new(client: Client, source: &Source, address: &ScrapeAddress, path: &Path, watch: Stopwatch) -> Result<Self, Failure> {
        let url = match address {
            ScrapeAddress::Endpoint { address, path } => endpoint_url(address, path),
            ScrapeAddress::Url(url) => url.clone(),
        };
        let file = ReadingFile::create(source, Reading::REQUEST, path, watch)?;
        Ok(Self { client, limits: LIMITS, display_address: address.to_string(), url, file, has_responded: false })
    }

    /// Sends one request.
    fn scrape(&mut self) -> Result<Step, Failure> {
        let requested = self.file.now();
        let response = self.client.get(&self.url, self.limits);
        let took_ns = self.file.now().ns.saturating_sub(requested.ns);
        let line = to_line(self.file.source(), requested.at, took_ns, response);
        self.file.write(requested, &line)?;
        self.has_responded |= line.body.is_some();
        let over = if !self.has_responded && line.status.is_some_and(is_absence) {
            let status = line.error.as_deref().unwrap_or_default();
            let (source, shown) = (self.file.source().description(), &self.display_address);
            Some(format!("{source} has no `{shown}` ({status}): its own counters are not recorded"))
        } else {
            self.file.reason_if_full()
        };
        Ok(over.map_or(Step::Next, Step::Over))
    }

    fn finish(self) -> Result<RecordedSource, Failure> {
        self.file.finish()
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

#[cfg(test)]
mod tests;
