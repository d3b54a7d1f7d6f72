//! The measurement of a ceiling: the load generator of this process against a simulator of its own, level by level, until the
//! client's certificate no longer holds.
//!
//! Generator and simulator share the available CPU, so the figures are a lower bound of what a shard can do against an endpoint
//! on another machine.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_api::{RequestBody, RequestInput, ServingApi};
use assay_load::{
    Arrivals, Capture, Cause, ChunkLists, Connections, Endpoint, Excess, MeasuredLimits, PlannedRequest, Progress, Requests,
    Sink, Trial, TrialSummary,
};
use assay_manifest::ValidityLimits;
use assay_process::{Cancel, Child, Command, Output, Spawner};
use assay_record::{Outcome, Phase, Record};

/// The API of the measured requests. Of all APIs that stream, the events of a chat have the most bytes.
const API: ServingApi = ServingApi::Chat;
/// Events per second of each stream: as of a fast model.
const EVENTS_PER_S: u32 = 50;
/// The time between two events of a stream.
const BETWEEN_NS: i64 = 1_000_000_000 / EVENTS_PER_S as i64;
/// The time for which all requests of a level are in flight.
const HOLD_NS: i64 = 200_000_000;
/// The shortest time in which the requests are sent, and the time for each of many: as if they were requests at a rate that a
/// client carries with ease.
const OPEN_NS: i64 = 100_000_000;
const OPEN_EACH_NS: i64 = 50_000;
/// The time for which requests are sent at a rate.
const SEND_NS: i64 = 150_000_000;
/// The time for requests in flight to end.
const DRAIN_NS: i64 = 50_000_000;
/// The first and the highest level of a ramp.
const CONCURRENCY: (u32, u32) = (64, 15_000);
const REQUESTS_PER_S: (u32, u32) = (500, 128_000);
/// The factor between two levels. Between the last that held and the first that did not, one more is tried.
const RISE: u32 = 4;
/// The most requests in flight at a rate.
const MAX_IN_FLIGHT: u32 = 4_096;
/// A level holds if this share of what was due arrived in time: a backlog of a twentieth of the time for which responses are held open
/// is 10 ms.
const MIN_SHARE: f64 = ValidityLimits::SENT_SHARE;
/// The interval at which a cancellation is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The prompt of each request.
const PROMPT: &str = "a prompt as short as those of a small chat, which costs nothing to make and little to send";

/// The most load that a shard on this machine can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Requests in flight at a time, each with a streamed response.
    pub(crate) concurrency: u32,
    /// Requests per second.
    pub(crate) requests_per_s: u32,
    /// Events per second, over those responses.
    pub(crate) events_per_s: u32,
}

/// The reason why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeasureError {
    #[error("the simulator `{}` could not be started", .0.display())]
    Start(PathBuf, #[source] assay_process::Error),
    #[error("a thread could not be started")]
    Thread(#[source] std::io::Error),
    #[error("the simulator did not say where it listens")]
    Silent,
    #[error("the load generator could not run")]
    Load(#[from] assay_load::Error),
    #[error("the measurement was stopped")]
    Stopped,
    #[error("not even {level} {what} were carried: {why}")]
    NotEven { level: u32, what: &'static str, why: String },
}

/// Measures how much load a shard on this machine can make under the limits of this process. Takes three to five seconds.
pub(crate) fn measure(simulator: &Path, cancel: &Cancel) -> Result<Figures, MeasureError> {
    let simulator = Simulator::start(simulator)?;
    let concurrency = climb(CONCURRENCY.0, CONCURRENCY.1.min(assay_load::most_connections()), "concurrent requests", |level| {
        try_concurrency(&simulator, level, cancel)
    })?;
    let requests_per_s =
        climb(REQUESTS_PER_S.0, REQUESTS_PER_S.1, "requests/s", |level| try_requests(&simulator, level, cancel))?;
    Ok(Figures { concurrency, requests_per_s, events_per_s: concurrency * EVENTS_PER_S })
}

/// The reason why a level did not hold; `None` if it held.
type LevelOutcome = Result<Option<String>, MeasureError>;

/// Returns the highest level that held: levels rise until one fails, then one between is tried. A level fails only if it fails
/// twice, because other users of the machine may disturb it once.
fn climb(first: u32, most: u32, what: &'static str, mut at: impl FnMut(u32) -> LevelOutcome) -> Result<u32, MeasureError> {
    let mut fails = |level| match at(level)? {
        None => Ok(None),
        Some(_) => at(level),
    };
    let mut held = None;
    let mut level = first.min(most);
    loop {
        match (fails(level)?, held) {
            (None, _) if level >= most => return Ok(level),
            (None, _) => held = Some(level),
            (Some(why), None) => return Err(MeasureError::NotEven { level, what, why }),
            (Some(_), Some(held)) => {
                let between = held * 2;
                return Ok(if between < level && fails(between)?.is_none() { between } else { held });
            }
        }
        level = level.saturating_mul(RISE).min(most);
    }
}

/// Sends this many requests, evenly, and counts the events that arrive while all of them are in flight.
fn try_concurrency(simulator: &Simulator, concurrency: u32, cancel: &Cancel) -> LevelOutcome {
    let open_ns = OPEN_NS.max(i64::from(concurrency) * OPEN_EACH_NS);
    let tokens = (open_ns + HOLD_NS + DRAIN_NS) / BETWEEN_NS + i64::from(EVENTS_PER_S);
    let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
    let mut requests =
        EvenRequests { count: concurrency, sent: 0, gap_ns: open_ns as f64 / f64::from(concurrency), body: body(tokens) };
    let mut sink = EventsWithin { from_ns: open_ns, to_ns: open_ns + HOLD_NS, events: 0 };
    let trial = simulator.trial(concurrency, open_ns, HOLD_NS + DRAIN_NS);
    let finished = run(&trial, &mut requests, &mut sink, cancel)?;
    let due = i64::from(concurrency) * HOLD_NS / BETWEEN_NS;
    let came = format!("{} of {due} events came in their time", sink.events);
    Ok(certificate_flaw(&finished).or_else(|| ((sink.events as f64) < MIN_SHARE * due as f64).then_some(came)))
}

/// Sends this many requests per second, each with a response of one event.
fn try_requests(simulator: &Simulator, per_s: u32, cancel: &Cancel) -> LevelOutcome {
    let gap_ns = 1e9 / f64::from(per_s);
    let count = (SEND_NS as f64 / gap_ns) as u32;
    let mut requests = EvenRequests { count, sent: 0, gap_ns, body: body(1) };
    let mut sink = EventsWithin { from_ns: 0, to_ns: i64::MAX, events: 0 };
    let trial = simulator.trial(MAX_IN_FLIGHT.min(assay_load::most_connections()), SEND_NS, DRAIN_NS);
    let finished = run(&trial, &mut requests, &mut sink, cancel)?;
    let successful = finished.counts.count(Phase::Measured, Outcome::Ok);
    let told = format!("{successful} of {count} requests succeeded in time");
    Ok(certificate_flaw(&finished).or_else(|| ((successful as f64) < MIN_SHARE * f64::from(count)).then_some(told)))
}

/// Returns why the client's own certificate does not hold, by the limits of an attempt.
fn certificate_flaw(finished: &TrialSummary) -> Option<String> {
    let reasons = ValidityLimits::default().client_reasons(&finished.health(true), false);
    reasons.into_iter().next().map(|reason| reason.detail)
}

/// Runs the load generator once; it ends early if the measurement is cancelled.
fn run(
    trial: &Trial,
    requests: &mut EvenRequests,
    sink: &mut EventsWithin,
    cancel: &Cancel,
) -> Result<TrialSummary, MeasureError> {
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let finished = std::thread::scope(|scope| {
        let watch = || {
            while !done.load(Ordering::Acquire) {
                if cancel.wait_timeout(LOOK_EVERY) {
                    return stop.store(true, Ordering::Release);
                }
            }
        };
        std::thread::Builder::new().spawn_scoped(scope, watch).map_err(MeasureError::Thread)?;
        let finished = assay_load::run(trial, requests, sink, &stop, &Progress::new());
        done.store(true, Ordering::Release);
        finished.map_err(MeasureError::from)
    })?;
    if finished.cancelled { Err(MeasureError::Stopped) } else { Ok(finished) }
}

/// A simulator that exists for the measurement alone.
struct Simulator {
    endpoint: Endpoint,
    /// Killed when it is dropped.
    _child: Child,
}

impl Simulator {
    fn start(program: &Path) -> Result<Self, MeasureError> {
        let between = format!("--itl-ms={}", BETWEEN_NS / 1_000_000);
        // The simulator's own record of these requests is not used.
        let options = ["--listen=127.0.0.1:0", "--profile=instant", &between, "--truth-requests=1", "--truth-chunks=1"];
        let command = Command { stdout: Output::Pipe, ..Command::new(program).args(options) };
        let spawner = Spawner::start().map_err(MeasureError::Thread)?;
        let mut child = spawner.spawn(command).map_err(|error| MeasureError::Start(program.to_owned(), error))?;
        let mut said = String::new();
        let output = child.take_stdout().ok_or(MeasureError::Silent)?;
        BufReader::new(output).read_line(&mut said).map_err(|_| MeasureError::Silent)?;
        let address = said.trim_end().strip_prefix("listening on ").ok_or(MeasureError::Silent)?;
        Ok(Self { endpoint: Endpoint::parse(address)?.resolve()?, _child: child })
    }

    fn trial(&self, max_in_flight: u32, send_ns: i64, drain_ns: i64) -> Trial {
        Trial {
            endpoint: self.endpoint.clone(),
            api: API,
            custom: None,
            streaming: true,
            arrivals: Arrivals::Open { max_in_flight, excess: Excess::Drop },
            start_at_ns: assay_reactor::now_ns(),
            warmup_ns: 0,
            measured: MeasuredLimits { duration_ns: Some(send_ns), requests: None },
            late_read_ns: ValidityLimits::default().lateness_p99_ns.0.cast_signed(),
            over_saturation: None,
            stop_on_errors: None,
            sessions: None,
            connections: Connections::Pooled,
            timeout_ns: send_ns + drain_ns,
            drain_ns,
            chunk_lists: ChunkLists::All,
            capture: Capture::None,
            user_agent: concat!("assay/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Returns the body of a request for this many tokens.
fn body(tokens: u32) -> Vec<u8> {
    API.request_body(&RequestBody {
        model: "assay-simulator",
        input: RequestInput::Texts { query: None, inputs: &[PROMPT.to_owned()] },
        output_tokens: Some(tokens),
        max_output_tokens: None,
        exact_output: true,
        streamed: true,
        continuous_usage: false,
        extra_body: &BTreeMap::new(),
        extra_members: &serde_json::Map::new(),
    })
}

/// Equal requests at equal intervals.
struct EvenRequests {
    count: u32,
    sent: u32,
    gap_ns: f64,
    body: Vec<u8>,
}

impl Requests for EvenRequests {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        if phase == Phase::Warmup || self.sent == self.count {
            return Ok(None);
        }
        let index = self.sent;
        self.sent += 1;
        Ok(Some(PlannedRequest {
            global_index: u64::from(index),
            intended_offset_ns: Some((f64::from(index) * self.gap_ns) as i64),
            body: self.body.clone(),
            request_id: u128::from(index),
            ..PlannedRequest::default()
        }))
    }
}

/// A sink that counts the events within a time span.
struct EventsWithin {
    from_ns: i64,
    to_ns: i64,
    events: usize,
}

impl Sink for EventsWithin {
    fn record(&mut self, record: &Record, _response: Option<&[u8]>) -> Result<(), Cause> {
        self.events += record.chunks.iter().filter(|chunk| (self.from_ns..self.to_ns).contains(&chunk.at_ns)).count();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_simulator::{Config, EngineConfig, Profile, Server};

    /// Returns the level that is found for a machine that carries this much, and the levels that were tried.
    fn climb_until(carries: u32) -> (Option<u32>, Vec<u32>) {
        let mut tried = Vec::new();
        let at = |level| {
            tried.push(level);
            Ok((level > carries).then(|| "too much".to_owned()))
        };
        (climb(64, 15_000, "concurrent requests", at).ok(), tried)
    }

    #[test]
    fn the_highest_level_that_holds_is_found_and_never_one_that_does_not() {
        assert_eq!(climb_until(900), (Some(512), vec![64, 256, 1024, 1024, 512]));
        assert_eq!(climb_until(500), (Some(256), vec![64, 256, 1024, 1024, 512, 512]));
        assert_eq!(climb_until(20_000), (Some(15_000), vec![64, 256, 1024, 4096, 15_000]));
        assert_eq!(climb_until(12_000), (Some(8_192), vec![64, 256, 1024, 4096, 15_000, 15_000, 8_192]));
        assert_eq!(climb_until(10).0, None);
    }

    #[test]
    fn a_machine_that_looks_away_once_has_not_failed() {
        let mut calls = 0;
        let at = |_| {
            calls += 1;
            Ok((calls == 1).then(|| "a hiccup".to_owned()))
        };
        assert_eq!(climb(64, 256, "concurrent requests", at).expect("a level"), 256);
        let refused = climb(64, 256, "concurrent requests", |_| Ok(Some("events were lost".to_owned()))).expect_err("no level");
        assert_eq!(refused.to_string(), "not even 64 concurrent requests were carried: events were lost");
    }

    /// One level of each ramp, against a simulator in this process: tests the counting, not the speed of this machine.
    #[test]
    fn a_level_counts_what_came_while_all_streams_were_open() {
        let latency = assay_simulator::Latency { itl_ns: BETWEEN_NS, ..assay_simulator::Latency::none() };
        let server = Server::bind(Config { engine: EngineConfig::PerRequest(latency), ..Config::from_profile(Profile::Instant) })
            .expect("a server")
            .spawn()
            .expect("it serves");
        let endpoint = Endpoint::parse(&format!("http://{}", server.address())).and_then(Endpoint::resolve).expect("an endpoint");
        let spawner = Spawner::start().expect("a spawner");
        let stands_in = spawner.spawn(Command::new("/bin/sleep").args(["60"])).expect("a child");
        let simulator = Simulator { endpoint, _child: stands_in };
        let mut sink = EventsWithin { from_ns: 0, to_ns: i64::MAX, events: 0 };
        let mut requests = EvenRequests { count: 4, sent: 0, gap_ns: 1e6, body: body(3) };
        let trial = Trial { timeout_ns: 60_000_000_000, ..simulator.trial(4, SEND_NS, 60_000_000_000) };
        let cancel = Cancel::new().expect("a cancel");
        let finished = run(&trial, &mut requests, &mut sink, &cancel).expect("it ran");
        assert_eq!((finished.counts.count(Phase::Measured, Outcome::Ok), sink.events), (4, 12));
        cancel.cancel("a test");
        let stopped = try_concurrency(&simulator, 2, &cancel).expect_err("it was stopped");
        assert_eq!(stopped.to_string(), "the measurement was stopped");
        server.stop().expect("stopped");
    }

    #[test]
    fn a_certificate_has_the_limits_of_an_attempt_s() {
        let of = |client| certificate_flaw(&TrialSummary { client, ..TrialSummary::default() });
        let late = |ns_p99| Some(assay_load::Lateness { n: 1, ns_p50: 0, ns_p99, ns_max: ns_p99 });
        assert_eq!(of(assay_load::ClientStats { lateness: late(25_000_000), ..Default::default() }), None);
        let flawed = [
            assay_load::ClientStats { lateness: late(26_000_000), ..Default::default() },
            assay_load::ClientStats { longest_stall_ns: 1_500_000_000, ..Default::default() },
            assay_load::ClientStats { requested_per_s: Some(100.0), sent_per_s: Some(90.0), ..Default::default() },
        ];
        insta::assert_snapshot!(flawed.map(|client| of(client).expect("a flaw")).join("\n"), @r"
        1 % of the requests were sent more than 26 ms later than intended
        the client did not look at its sockets for 1500 ms
        only 90.0 of 100.0 requests a second could be sent
        ");
    }
}
