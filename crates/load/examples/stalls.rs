//! The result of an attempt whose client is stopped or starved: the published 99th percentile of TTFT beside the true one.
//!
//!     cargo build --release -p assay-simulator
//!     cargo run --release -p assay-load --example stalls -- target/release/assay-simulator [SECONDS]
//!
//! Each row is one trial of SECONDS (6) against a simulator. Its client is a separate process, which is stopped (SIGSTOP) and
//! continued with the stated count and length, or runs at `nice 19` beside busy processes. `true` is the time from the arrival of
//! a request at the simulator to the write of its first token, by the simulator's own log. A row must be `invalid`, or the error
//! within the bound of `docs/statistics.md`; the last line counts the rows that are neither. The last rows slow the simulator
//! instead of the client, and must be valid.
//!
//!     stalls client ADDRESS closed|open SECONDS
//!
//! is one such client, which prints its figures as JSON: `ci/bench_validity.py` disturbs it in other ways.
#![allow(clippy::print_stdout, reason = "an example that reports figures")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use assay_load::{
    Arrivals, Capture, Cause, ChunkLists, Connections, Endpoint, Excess, MeasuredLimits, PlannedRequest, Progress, Requests,
    ServingApi, Sink, Trial, TrialSummary, run,
};
use assay_manifest::ValidityLimits;
use assay_reactor::now_ns;
use assay_record::{Outcome, Phase, Record};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SECOND: i64 = 1_000_000_000;
const WARMUP_NS: i64 = SECOND / 2;
const USERS: u32 = 8;
/// Tokens of a response; with the simulator's times it takes 25 + 15 x 5 ms.
const TOKENS: u32 = 16;
/// Requests per second of the open loop: the rate that the closed loop reaches.
const RATE: i64 = 80;

/// The simulator's times: first tokens after 25 ms, with a spread of a few ms.
const MODEL: [&str; 9] = [
    "--profile=instant",
    "--ttft-ms=20",
    "--ttft-jitter-ms=5",
    "--ttft-jitter-sigma=0.3",
    "--itl-ms=5",
    "--model=m",
    "--until-stdin-closes",
    "--listen=127.0.0.1:0",
    "--seed=1",
];

/// The number of stops and the milliseconds of each, spread evenly over the trial.
const STOPS: [(u32, u64); 17] = [
    (1, 50),
    (3, 50),
    (10, 50),
    (1, 100),
    (3, 100),
    (10, 100),
    (1, 200),
    (3, 200),
    (10, 200),
    (1, 500),
    (3, 500),
    (10, 500),
    (1, 900),
    (3, 900),
    (1, 1_000),
    (1, 2_000),
    (2, 2_000),
];

/// Options that slow the simulator, which is not the client's fault.
const SLOW: [&[&str]; 3] =
    [&["--stall=1500:900", "--stall=3000:900", "--stall=4500:900"], &["--stall=2000:2000"], &["--ttft-ms=900"]];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match text.as_slice() {
        ["client", address, mode, seconds] => client(address.parse()?, mode, seconds.parse()?),
        ["spin"] => spin(),
        [simulator, rest @ ..] => all(simulator, rest.first().map_or(Ok(6), |seconds| seconds.parse())?),
        [] => Err("usage: stalls SIMULATOR [SECONDS]".into()),
    }
}

fn all(simulator: &str, seconds: u64) -> Result<()> {
    println!("{:<28} {:>6} {:>9} {:>9} {:>9} {:>8}  verdict", "client", "n", "true p99", "p99", "error", "late %");
    let mut missed = 0;
    for mode in ["closed", "open"] {
        missed += row(simulator, mode, "left alone", seconds, &[], false, |_| Ok(()))?;
        for (count, ms) in STOPS {
            let stop = |pid| stop(pid, count, ms, seconds);
            missed += row(simulator, mode, &format!("{count} x {ms} ms"), seconds, &[], false, stop)?;
        }
        let neighbours = thread::available_parallelism().map_or(2, usize::from);
        let spinning: Vec<_> = (0..neighbours).map(|_| Spinner::start()).collect::<Result<_>>()?;
        missed += row(simulator, mode, "nice 19, busy neighbours", seconds, &[], true, |_| Ok(()))?;
        missed += row(simulator, mode, "busy neighbours", seconds, &[], false, |_| Ok(()))?;
        drop(spinning);
    }
    for slow in SLOW {
        missed += row(simulator, "closed", &slow.join(" "), seconds, slow, false, |_| Ok(()))?;
    }
    println!("{missed} rows are valid beyond the bound, or blame the client for its endpoint");
    Ok(())
}

/// Runs one trial and prints its row. Returns 1 if the published value is neither within the bound nor invalid, or if a slow
/// simulator makes it invalid.
fn row(
    simulator: &str,
    mode: &str,
    what: &str,
    seconds: u64,
    more: &[&str],
    nice: bool,
    disturb: impl Fn(Pid) -> Result<()>,
) -> Result<u32> {
    let server = Simulator::start(simulator, more)?;
    let own = std::env::current_exe()?;
    let mut command = if nice { Command::new("nice") } else { Command::new(&own) };
    if nice {
        command.args(["-n", "19"]).arg(&own);
    }
    let child =
        command.args(["client", &server.address.to_string(), mode, &seconds.to_string()]).stdout(Stdio::piped()).spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id())?).ok_or("no process")?;
    disturb(pid)?;
    let output = child.wait_with_output()?;
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let ms = |name: &str| found[name].as_i64().unwrap_or_default() as f64 / 1e6;
    let (truth, measured) = (ms("true_p99_ns"), ms("p99_ns"));
    let verdict = found["verdict"].as_str();
    println!(
        "{mode:<6} {what:<21} {:>6} {truth:>9.1} {measured:>9.1} {:>9.1} {:>8.1}  {}",
        found["n"],
        measured - truth,
        found["late_share"].as_f64().unwrap_or_default() * 100.0,
        verdict.unwrap_or("valid")
    );
    let limits = ValidityLimits::default();
    let bound = (limits.lateness_p99_ns.0 as f64 / 1e6).max(measured * limits.delay_share);
    // A millisecond for the round trip.
    let is_missed = if more.is_empty() { verdict.is_none() && measured - truth > bound + 1.0 } else { verdict.is_some() };
    Ok(u32::from(is_missed))
}

/// Stops and continues a process this many times.
fn stop(pid: Pid, count: u32, ms: u64, seconds: u64) -> Result<()> {
    let between = Duration::from_secs(seconds) / (count + 1);
    let pause = between.saturating_sub(Duration::from_millis(ms)).max(Duration::from_millis(20));
    thread::sleep(Duration::from_millis(600));
    for _ in 0..count {
        thread::sleep(pause);
        kill_process(pid, Signal::STOP)?;
        thread::sleep(Duration::from_millis(ms));
        kill_process(pid, Signal::CONT)?;
    }
    Ok(())
}

fn spin() -> Result<()> {
    let mut closed = [0; 1];
    thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    while std::io::stdin().read(&mut closed)? > 0 {}
    Ok(())
}

/// A process that is busy until it is dropped.
struct Spinner(Child);

impl Spinner {
    fn start() -> Result<Self> {
        Ok(Self(Command::new(std::env::current_exe()?).arg("spin").stdin(Stdio::piped()).spawn()?))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Simulator {
    process: Child,
    address: SocketAddr,
}

impl Simulator {
    fn start(program: &str, more: &[&str]) -> Result<Self> {
        // The last occurrence of an option overrides the model's own times.
        let own = MODEL.iter().filter(|option| !more.iter().any(|more| option.split('=').next() == more.split('=').next()));
        let mut process = Command::new(program).args(own).args(more).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().rsplit('/').next().ok_or("no address")?.parse()?;
        Ok(Self { process, address })
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

// --- the client

fn client(address: SocketAddr, mode: &str, seconds: i64) -> Result<()> {
    let is_open = mode == "open";
    let trial = Trial {
        endpoint: Endpoint::parse(&format!("http://{address}"))?.resolve()?,
        api: ServingApi::Completions,
        custom: None,
        streaming: true,
        arrivals: if is_open {
            Arrivals::Open { max_in_flight: 1_000, excess: Excess::Drop }
        } else {
            Arrivals::Closed { users: USERS }
        },
        start_at_ns: now_ns() + 20_000_000,
        warmup_ns: WARMUP_NS,
        measured: MeasuredLimits { duration_ns: Some(seconds * SECOND), requests: None },
        late_read_ns: ValidityLimits::default().lateness_p99_ns.0.cast_signed(),
        over_saturation: None,
        stop_on_errors: None,
        sessions: None,
        connections: Connections::Pooled,
        timeout_ns: 60 * SECOND,
        drain_ns: 60 * SECOND,
        chunk_lists: ChunkLists::All,
        capture: Capture::Digest,
        user_agent: "assay".to_owned(),
    };
    let mut kept = LatencySink::default();
    let mut requests = RepeatedRequest { is_open, next: [0; 2], id: 0 };
    let finished = run(&trial, &mut requests, &mut kept, &AtomicBool::new(false), &Progress::new())?;
    let truth = truth(address)?;
    let (mut true_ns, mut true_itl_ns) = (Vec::new(), Vec::new());
    for (id, _) in &kept.ttft_ns {
        let written = truth.get(id).ok_or("an unknown request")?;
        true_ns.push(written.ttft_ns);
        true_itl_ns.extend(&written.itl_ns);
    }
    let mut ttft_ns: Vec<i64> = kept.ttft_ns.iter().map(|(_, ns)| *ns).collect();
    let delays = &finished.client.delays;
    let found = json!({
        "n": ttft_ns.len(),
        "p99_ns": p99(&mut ttft_ns),
        "true_p99_ns": p99(&mut true_ns),
        "itl_n": kept.itl_ns.len(),
        "true_itl_n": true_itl_ns.len(),
        "itl_p99_ns": p99(&mut kept.itl_ns),
        "true_itl_p99_ns": p99(&mut true_itl_ns),
        "late_share": delays.late_ns as f64 / delays.judged_ns.max(1) as f64,
        "verdict": verdict(&finished),
    });
    println!("{found}");
    Ok(())
}

/// Returns the reason why the attempt is invalid, as execute judges it.
fn verdict(finished: &TrialSummary) -> Option<String> {
    let health = finished.health(finished.client.lateness.is_some());
    let reasons = ValidityLimits::default().client_reasons(&health, false);
    reasons.first().map(|reason| format!("{}: {}", reason.code, reason.detail))
}

fn p99(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * 0.99).ceil() as usize).copied().unwrap_or_default()
}

struct RepeatedRequest {
    is_open: bool,
    next: [i64; 2],
    id: u128,
}

impl Requests for RepeatedRequest {
    fn next(&mut self, phase: Phase) -> std::result::Result<Option<PlannedRequest>, Cause> {
        let index = self.next[phase as usize];
        self.next[phase as usize] += 1;
        self.id += 1;
        let from_ns = if phase == Phase::Measured { WARMUP_NS } else { 0 };
        let body = format!(r#"{{"model":"m","prompt":"a","stream":true,"ignore_eos":true,"max_tokens":{TOKENS}}}"#);
        Ok(Some(PlannedRequest {
            global_index: index.unsigned_abs(),
            intended_offset_ns: self.is_open.then(|| from_ns + index * SECOND / RATE),
            body: body.into_bytes(),
            request_id: self.id,
            ..PlannedRequest::default()
        }))
    }
}

/// Latencies of the measured requests: TTFT by the request's id, and the times between neighbouring token events of all.
#[derive(Default)]
struct LatencySink {
    ttft_ns: Vec<(u128, i64)>,
    itl_ns: Vec<i64>,
}

impl Sink for LatencySink {
    fn record(&mut self, record: &Record, _: Option<&[u8]>) -> std::result::Result<(), Cause> {
        if let (Phase::Measured, Outcome::Ok, Some(ttft_ns)) = (record.phase, record.outcome, record.ttft_ns()) {
            self.ttft_ns.push((record.request_id, ttft_ns));
            let stamps: Vec<i64> = record.chunks.iter().map(|chunk| chunk.at_ns).collect();
            self.itl_ns.extend(gaps(&stamps));
        }
        Ok(())
    }
}

fn gaps(stamps: &[i64]) -> impl Iterator<Item = i64> {
    stamps.windows(2).map(|pair| pair[1] - pair[0])
}

/// The true latencies of a request.
struct TrueLatencies {
    ttft_ns: i64,
    itl_ns: Vec<i64>,
}

/// Returns the true latencies of every request by its id, from the simulator's log.
fn truth(address: SocketAddr) -> Result<HashMap<u128, TrueLatencies>> {
    let (mut truth, mut since) = (HashMap::new(), 0);
    loop {
        let mut socket = TcpStream::connect(address)?;
        write!(socket, "GET /truth?since={since} HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        socket.read_to_string(&mut text)?;
        let (_, lines) = text.split_once("\r\n\r\n").ok_or("no response")?;
        let mut more = false;
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line)?;
            if line["kind"] == "end" {
                since = line["last"].as_u64().ok_or("no number")?;
                more = line["more"] == true;
                continue;
            }
            let id = u128::from_str_radix(line["request_id"].as_str().ok_or("no id")?, 16)?;
            let chunks = line["chunks"].as_array().map(Vec::as_slice).unwrap_or_default();
            let written: Vec<i64> = chunks.iter().filter_map(|chunk| chunk[1].as_i64()).collect();
            if let (Some(arrived_ns), Some(first_ns)) = (line["arrived_ns"].as_i64(), written.first()) {
                truth.insert(id, TrueLatencies { ttft_ns: first_ns - arrived_ns, itl_ns: gaps(&written).collect() });
            }
        }
        if !more {
            return Ok(truth);
        }
    }
}
