//! The error of a measured TTFT: the real client against a real simulator on another core.
//!
//!     cargo build --release -p assay-simulator
//!     cargo run --release -p assay-load --example ttft_error -- target/release/assay-simulator [SHARE]
//!
//! The simulator reports when each request had arrived and when its first token was written (`GET /truth`), by the clock of the
//! host, which is the client's too. The *error* is the measured TTFT less the time between those two: the sum of the way there,
//! the way back and the client's own delay. `after the write` is the part of it from the write of the first token to the client's
//! stamp. SHARE (1) is the fraction of the requests that is really sent.
#![allow(clippy::print_stdout, reason = "an example that reports figures")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use assay_load::{
    Arrivals, Capture, Cause, ChunkLists, Connections, Endpoint, MeasuredLimits, PlannedRequest, Progress, Requests, ServingApi,
    Sink, Trial, run,
};
use assay_reactor::now_ns;
use assay_record::{Outcome, Phase, Record};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

const SECOND: i64 = 1_000_000_000;

/// Load before the measurement: all users begin at once, which is not steady load.
const WARMUP_NS: i64 = SECOND;

/// Concurrent streams, and requests in total: enough of each for a 99th percentile, in seconds.
const LOADS: [(u32, u64); 3] = [(1, 100), (64, 4_000), (1_000, 20_000)];

/// The model of the simulator: 50 events a second of each stream, first tokens spread over tens of milliseconds, as users' are,
/// and no queue.
const MODEL: [&str; 10] = [
    "--profile=instant",
    "--ttft-ms=20",
    "--ttft-jitter-ms=20",
    "--ttft-jitter-sigma=0.5",
    "--itl-ms=20",
    "--max-num-seqs=4096",
    "--model=m",
    "--until-stdin-closes",
    "--listen=127.0.0.1:0",
    "--seed=1",
];

/// Tokens of a response.
const TOKENS: u32 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let simulator = arguments.next().ok_or("usage: ttft_error SIMULATOR [SHARE]")?;
    let share: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let [first, last] = two_cores()?;
    println!("client on core {first}, simulator on core {last}; microseconds");
    println!(
        "{:>7} {:>8} {:>8} {:>8} {:>8}   {:>8} {:>8} {:>8}",
        "streams", "requests", "err p50", "err p99", "err max", "wr p50", "wr p99", "wr max"
    );
    for (streams, requests) in LOADS {
        let requests = ((requests as f64 * share) as u64).max(u64::from(streams));
        // A child process inherits the core of its parent.
        pin(last)?;
        let server = Simulator::start(&simulator)?;
        pin(first)?;
        let (measured, start_ns) = measure(server.address, streams, requests)?;
        let truth = truth(server.address)?;
        let (mut errors, mut after) = (Vec::new(), Vec::new());
        for (id, stamps) in measured {
            let told = truth.get(&id).ok_or("a request that the simulator does not know")?;
            errors.push((stamps.first_token_ns - stamps.sent_ns) - (told.written_ns - told.arrived_ns));
            after.push(start_ns + stamps.first_token_ns - told.written_ns);
        }
        println!("{streams:>7} {:>8} {}   {}", errors.len(), spread(&mut errors), spread(&mut after));
    }
    Ok(())
}

/// Returns the first and the last core that this process may use: the same if there is only one.
fn two_cores() -> Result<[usize; 2], Box<dyn Error>> {
    let allowed = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let first = cores.next().ok_or("no core")?;
    Ok([first, cores.next_back().unwrap_or(first)])
}

fn pin(core: usize) -> Result<(), Box<dyn Error>> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Formats the 50th and 99th percentile and the maximum, in microseconds.
fn spread(values: &mut [i64]) -> String {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    let of = |share: f64| values.get((last as f64 * share) as usize).map_or(f64::NAN, |ns| *ns as f64 / 1e3);
    format!("{:>8.1} {:>8.1} {:>8.1}", of(0.5), of(0.99), of(1.0))
}

struct Simulator {
    process: Child,
    address: SocketAddr,
}

impl Simulator {
    fn start(program: &str) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(program).args(MODEL).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
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

/// The client's record of a request, in nanoseconds since the trial's start.
struct Stamps {
    sent_ns: i64,
    first_token_ns: i64,
}

/// Measures this many requests. Returns their stamps by id, and the start of the trial.
fn measure(address: SocketAddr, streams: u32, requests: u64) -> Result<(HashMap<u128, Stamps>, i64), Box<dyn Error>> {
    let start_at_ns = now_ns() + 20_000_000;
    let trial = Trial {
        endpoint: Endpoint::parse(&format!("http://{address}"))?.resolve()?,
        api: ServingApi::Completions,
        custom: None,
        streaming: true,
        arrivals: Arrivals::Closed { users: streams },
        start_at_ns,
        warmup_ns: WARMUP_NS,
        measured: MeasuredLimits::default(),
        late_read_ns: 25_000_000,
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
    let mut kept = StampSink(HashMap::new());
    run(&trial, &mut RepeatedRequest { left: requests, next: 0 }, &mut kept, &AtomicBool::new(false), &Progress::new())?;
    Ok((kept.0, start_at_ns))
}

/// One request, repeated: a fixed number of times in the measured phase, and without end before it.
struct RepeatedRequest {
    left: u64,
    next: u64,
}

impl Requests for RepeatedRequest {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        if phase == Phase::Measured && self.left == 0 {
            return Ok(None);
        }
        self.left -= u64::from(phase == Phase::Measured);
        self.next += 1;
        let body = format!(r#"{{"model":"m","prompt":"a","stream":true,"ignore_eos":true,"max_tokens":{TOKENS}}}"#);
        let request_id = u128::from(self.next);
        Ok(Some(PlannedRequest { global_index: self.next - 1, body: body.into_bytes(), request_id, ..PlannedRequest::default() }))
    }
}

struct StampSink(HashMap<u128, Stamps>);

impl Sink for StampSink {
    fn record(&mut self, record: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
        let (Outcome::Ok, Some(sent_ns), Some(first_token_ns)) = (record.outcome, record.sent_ns, record.first_token_ns) else {
            return Err(format!("a request ended as {}", record.outcome.as_str()).into());
        };
        if record.phase == Phase::Measured {
            self.0.insert(record.request_id, Stamps { sent_ns, first_token_ns });
        }
        Ok(())
    }
}

/// The simulator's report of a request, by the monotonic clock.
struct SimulatorReport {
    arrived_ns: i64,
    written_ns: i64,
}

/// Returns the truth about every request by its id; the simulator returns a bounded part at a time.
fn truth(address: SocketAddr) -> Result<HashMap<u128, SimulatorReport>, Box<dyn Error>> {
    let (mut told, mut since) = (HashMap::new(), 0);
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
            let arrived_ns = line["arrived_ns"].as_i64().ok_or("no arrival")?;
            let written_ns = line["chunks"][0][1].as_i64().ok_or("no first chunk")?;
            told.insert(id, SimulatorReport { arrived_ns, written_ns });
        }
        if !more {
            return Ok(told);
        }
    }
}
