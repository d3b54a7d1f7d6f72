//! The cost of the load generator, beside a bare loop that reads the same bytes without parsing them.
//!
//! `cargo run --release -p assay-load --example bench`: every client and every server is a process of its own, so that CPU time
//! can be attributed. Costs are marginal: a long run minus a short one. Compare the ratios; the absolute figures depend on the
//! machine.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark that is run by hand")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use assay_load::{
    Arrivals, Capture, Cause, ChunkLists, Connections, Endpoint, Excess, MeasuredLimits, PlannedRequest, Progress, Requests,
    ServingApi, Sink, Trial, TrialSummary, run,
};
use assay_reactor::{Interest, Poller, now_ns};
use assay_record::{Outcome, Phase, Record};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &[u8] = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 116\r\n\r\n{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"ok\"},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":1}}";
const SECOND: i64 = 1_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<u64>().unwrap();
    match arguments.first().map(String::as_str) {
        Some("emit") => emit(number(1) as usize, number(2), number(3)),
        Some("respond") => respond(),
        Some("streams") => report(measure_cpu(|| streams(&arguments[1], number(2), number(3)))),
        Some("bare-streams") => report(measure_cpu(|| bare_streams(&arguments[1], number(2) as usize, number(3)))),
        Some("requests") => report(measure_cpu(|| requests(&arguments[1], number(2)))),
        Some("bare-requests") => report(measure_cpu(|| bare_requests(&arguments[1], number(2)))),
        Some("pace") => pace(&arguments[1], number(2), number(3)),
        Some("timer") => timer(number(1), number(2)),
        Some("parsers") => parsers(),
        // No clocks and no sockets: for `valgrind --tool=callgrind`.
        Some("follow") => println!("{} events", follow(Capture::None, 235, number(1) as u32)),
        _ => all(),
    }
}

fn all() {
    println!("parsers alone (one thread, no I/O):");
    parsers();
    println!("\nstreams: CPU time an event, user + system, marginal");
    println!("{:>8} {:>10} {:>12} {:>12} {:>7} {:>12}", "streams", "events/s", "bare us", "assay us", "ratio", "user us more");
    for (streams, rate) in [(64, 3_200), (64, 32_000), (256, 32_000), (1_000, 90_000)] {
        let cost = |client: &str| marginal(|seconds| stream_run(client, streams, rate, seconds));
        let (bare, assay) = (cost("bare-streams"), cost("streams"));
        println!(
            "{streams:>8} {rate:>10} {:>12.2} {:>12.2} {:>7.2} {:>12.2}",
            bare.total_us(),
            assay.total_us(),
            assay.total_us() / bare.total_us(),
            assay.user_us() - bare.user_us()
        );
    }
    println!("\nrequests that are not streamed, 64 users: CPU time a request, marginal");
    let cost = |client: &str| {
        let short = request_run(client, 20_000);
        let long = request_run(client, 80_000);
        long.less(short)
    };
    let (bare, assay) = (cost("bare-requests"), cost("requests"));
    println!("bare {:.2} us, assay {:.2} us, ratio {:.2}", bare.total_us(), assay.total_us(), assay.total_us() / bare.total_us());
    println!("\nlateness of sending, 5 s at 10,000 arrivals a second");
    println!("a bare timer thread: {}", child(&["timer", "10000", "5"]));
    let server = Server::start(&["respond"]);
    println!("assay:               {}", child(&["pace", &server.address, "10000", "5"]));
}

// --- costs

/// CPU time and the work that it was spent on.
#[derive(Clone, Copy)]
struct Cost {
    things: u64,
    total_ns: i64,
    user_ns: i64,
}

impl Cost {
    fn less(self, other: Self) -> Self {
        Self {
            things: self.things - other.things,
            total_ns: self.total_ns - other.total_ns,
            user_ns: self.user_ns - other.user_ns,
        }
    }

    fn total_us(self) -> f64 {
        self.total_ns as f64 / 1e3 / self.things as f64
    }

    fn user_us(self) -> f64 {
        self.user_ns as f64 / 1e3 / self.things as f64
    }
}

fn marginal(run: impl Fn(u64) -> Cost) -> Cost {
    let short = run(1);
    run(5).less(short)
}

fn stream_run(client: &str, streams: u64, rate: u64, seconds: u64) -> Cost {
    let events = rate * seconds / streams;
    let server = Server::start(&["emit", &streams.to_string(), &rate.to_string(), &events.to_string()]);
    parse(&child(&[client, &server.address, &streams.to_string(), &events.to_string()]))
}

fn request_run(client: &str, count: u64) -> Cost {
    let server = Server::start(&["respond"]);
    parse(&child(&[client, &server.address, &count.to_string()]))
}

fn parse(line: &str) -> Cost {
    let fields: Vec<i64> = line.split_whitespace().map(|field| field.parse().unwrap()).collect();
    Cost { things: fields[0] as u64, total_ns: fields[1], user_ns: fields[2] }
}

/// Returns the amount of work done, and the process's CPU time for it: in total, and in user mode.
fn measure_cpu(work: impl FnOnce() -> u64) -> (u64, i64, i64) {
    let things = work();
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let user_ticks: i64 = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(11).unwrap().parse().unwrap();
    (things, clock.tv_sec * SECOND + clock.tv_nsec, user_ticks * 10_000_000)
}

fn report((things, total_ns, user_ns): (u64, i64, i64)) {
    println!("{things} {total_ns} {user_ns}");
}

// --- processes

fn child(arguments: &[&str]) -> String {
    let output = Command::new(std::env::current_exe().unwrap()).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

struct Server {
    process: std::process::Child,
    address: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap()).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = [0; 22];
        process.stdout.as_mut().unwrap().read_exact(&mut address).unwrap();
        Self { process, address: String::from_utf8(address.to_vec()).unwrap().trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn listen() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    print!("{:<22}", listener.local_addr().unwrap().to_string());
    std::io::stdout().flush().unwrap();
    listener
}

// --- servers

fn event(text: &str) -> Vec<u8> {
    let data = format!(
        r#"data: {{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null,"finish_reason":null}}]}}"#
    );
    format!("{:x}\r\n{data}\n\n\r\n", data.len() + 2).into_bytes()
}

/// Waits for as many requests as there are streams, then sends the streams' events in turns at one even rate.
fn emit(streams: usize, rate: u64, events: u64) {
    let listener = listen();
    let mut sockets: Vec<TcpStream> = (0..streams).map(|_| begun(&listener)).collect();
    let event = event(" token");
    let start = now_ns() + 20_000_000;
    let mut number: i64 = 0;
    for _ in 0..events {
        for socket in &mut sockets {
            let left = start + number * SECOND / rate.cast_signed() - now_ns();
            if left > 0 {
                std::thread::sleep(Duration::from_nanos(left as u64));
            }
            if socket.write_all(&event).is_err() {
                return;
            }
            number += 1;
        }
    }
    for socket in &mut sockets {
        let _ = socket.write_all(END);
    }
    std::thread::sleep(Duration::from_secs(100));
}

fn begun(listener: &TcpListener) -> TcpStream {
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_nodelay(true).unwrap();
    let _ = socket.read(&mut [0; 4096]).unwrap();
    socket.write_all(HEAD).unwrap();
    socket
}

/// Discards every request and sends a short response.
fn respond() {
    let listener = listen();
    listener.set_nonblocking(true).unwrap();
    let mut poller = Poller::new(256).unwrap();
    poller.add(&listener, u64::MAX, Interest::Read).unwrap();
    let mut sockets: Vec<TcpStream> = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let ready: Vec<_> = poller.wait(None).unwrap().collect();
        for ready in ready {
            if ready.token == u64::MAX {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true).unwrap();
                    socket.set_nodelay(true).unwrap();
                    poller.add(&socket, sockets.len() as u64, Interest::Read).unwrap();
                    sockets.push(socket);
                }
                continue;
            }
            let socket = &mut sockets[ready.token as usize];
            match socket.read(&mut buffer) {
                Ok(count) if count > 0 => drop(socket.write_all(RESPONSE)),
                _ => drop(poller.remove(&*socket)),
            }
        }
    }
}

// --- clients

/// The bytes of a request, for the bare loops.
const REQUEST: &[u8] = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{}";

fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address.parse::<SocketAddr>().unwrap()).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Opens the streams and reads until each has ended.
fn bare_streams(address: &str, streams: usize, events: u64) -> u64 {
    let expected = HEAD.len() + END.len() + event(" token").len() * events as usize;
    let mut poller = Poller::new(512).unwrap();
    let mut sockets: Vec<(TcpStream, usize)> = (0..streams)
        .map(|token| {
            let mut socket = connect(address);
            socket.write_all(REQUEST).unwrap();
            socket.set_nonblocking(true).unwrap();
            poller.add(&socket, token as u64, Interest::Read).unwrap();
            (socket, expected)
        })
        .collect();
    let mut buffer = vec![0; 256 << 10];
    let mut open = streams;
    while open > 0 {
        for ready in poller.wait(None).unwrap() {
            let (socket, left) = &mut sockets[ready.token as usize];
            *left -= socket.read(&mut buffer).unwrap();
            open -= usize::from(*left == 0);
        }
    }
    events * streams as u64
}

fn bare_requests(address: &str, count: u64) -> u64 {
    let mut poller = Poller::new(512).unwrap();
    let mut sockets: Vec<TcpStream> = (0..64)
        .map(|token| {
            let mut socket = connect(address);
            socket.write_all(REQUEST).unwrap();
            socket.set_nonblocking(true).unwrap();
            poller.add(&socket, token, Interest::Read).unwrap();
            socket
        })
        .collect();
    let mut buffer = vec![0; 256 << 10];
    let (mut sent, mut done) = (64, 0);
    while done < count {
        for ready in poller.wait(None).unwrap() {
            let socket = &mut sockets[ready.token as usize];
            assert_eq!(socket.read(&mut buffer).unwrap(), RESPONSE.len());
            done += 1;
            if sent < count {
                socket.write_all(REQUEST).unwrap();
                sent += 1;
            }
        }
    }
    done
}

struct RepeatedRequest {
    left: u64,
    next: u64,
    gap_ns: Option<i64>,
}

impl Requests for RepeatedRequest {
    fn next(&mut self, _: Phase) -> Result<Option<PlannedRequest>, Cause> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.next += 1;
        let intended_offset_ns = self.gap_ns.map(|gap| gap * (self.next - 1).cast_signed());
        Ok(Some(PlannedRequest {
            global_index: self.next - 1,
            intended_offset_ns,
            body: b"{}".to_vec(),
            request_id: 1,
            ..PlannedRequest::default()
        }))
    }
}

struct Discard;

impl Sink for Discard {
    fn record(&mut self, _: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
        Ok(())
    }
}

fn trial(address: &str, streaming: bool, arrivals: Arrivals) -> Trial {
    Trial {
        endpoint: Endpoint::parse(&format!("http://{address}")).unwrap().resolve().unwrap(),
        api: ServingApi::Chat,
        custom: None,
        streaming,
        arrivals,
        start_at_ns: 0,
        warmup_ns: 0,
        measured: MeasuredLimits::default(),
        late_read_ns: 25_000_000,
        over_saturation: None,
        stop_on_errors: None,
        sessions: None,
        connections: Connections::Pooled,
        timeout_ns: 600 * SECOND,
        drain_ns: 600 * SECOND,
        chunk_lists: ChunkLists::All,
        capture: Capture::Digest,
        user_agent: "assay".to_owned(),
    }
}

fn run_all(trial: &Trial, count: u64, gap_ns: Option<i64>) -> TrialSummary {
    let mut requests = RepeatedRequest { left: count, next: 0, gap_ns };
    let trial = Trial { start_at_ns: now_ns() + 5_000_000, ..trial.clone() };
    let finished = run(&trial, &mut requests, &mut Discard, &AtomicBool::new(false), &Progress::new()).unwrap();
    let ok = finished.counts.count(Phase::Measured, Outcome::Ok);
    // An open loop finds no free slot only if the machine is short of CPU.
    assert_eq!(ok + finished.counts.count(Phase::Measured, Outcome::Dropped), count, "{finished:?}");
    finished
}

fn streams(address: &str, streams: u64, events: u64) -> u64 {
    let trial = trial(address, true, Arrivals::Closed { users: streams as u32 });
    let finished = run_all(&trial, streams, None);
    assert_eq!(finished.client.token_events, streams * events);
    streams * events
}

fn requests(address: &str, count: u64) -> u64 {
    run_all(&trial(address, false, Arrivals::Closed { users: 64 }), count, None);
    count
}

fn pace(address: &str, rate: u64, seconds: u64) {
    let trial = trial(address, false, Arrivals::Open { max_in_flight: 1_000, excess: Excess::Drop });
    let finished = run_all(&trial, rate * seconds, Some(SECOND / rate.cast_signed()));
    let (lateness, client) = (finished.client.lateness.unwrap(), &finished.client);
    println!(
        "p50 {:.1} us, p99 {:.1} us, max {:.1} us; loop CPU {:.0} %, longest stall {:.1} us, {} dropped",
        lateness.ns_p50 as f64 / 1e3,
        lateness.ns_p99 as f64 / 1e3,
        lateness.ns_max as f64 / 1e3,
        client.loop_cpu_ns as f64 / finished.ended_ns as f64 * 100.0,
        client.longest_stall_ns as f64 / 1e3,
        finished.counts.count(Phase::Measured, Outcome::Dropped)
    );
}

/// Waits for one due time after the other, and does nothing else.
fn timer(rate: u64, seconds: u64) {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut poller = Poller::new(1).unwrap();
    let start = now_ns() + 5_000_000;
    let mut late: Vec<i64> = (0..rate * seconds)
        .map(|number| {
            let due = start + number.cast_signed() * SECOND / rate.cast_signed();
            let _ = poller.wait(Some(due)).unwrap().count();
            now_ns() - due
        })
        .collect();
    late.sort_unstable();
    let of = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!("p50 {:.1} us, p99 {:.1} us, max {:.1} us", of(0.5), of(0.99), of(1.0));
}

fn thread_cpu_ns() -> i64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    clock.tv_sec * SECOND + clock.tv_nsec
}

/// Follows a stream of 1,000 events in pieces of this size, repeatedly. Returns the number of events.
fn follow(capture: Capture, piece: usize, times: u32) -> u64 {
    let mut wire = HEAD.to_vec();
    for _ in 0..1_000 {
        wire.extend_from_slice(&event(" token"));
    }
    wire.extend_from_slice(END);
    let trial = Trial { capture, ..trial("127.0.0.1:1", true, Arrivals::Closed { users: 1 }) };
    assay_load::parse::follow(&trial, &wire, piece, times)
}

fn parsers() {
    let size = event(" token").len();
    for (capture, name) in [(Capture::None, "nothing kept"), (Capture::Digest, "digest"), (Capture::Full, "text kept")] {
        for (piece, how) in [(size, "an event a read"), (16 << 10, "16 KiB a read"), (size / 2, "cut in two")] {
            let started = thread_cpu_ns();
            let events = follow(capture, piece, 200);
            println!("  {name}, {how}: {:.0} ns an event of {size} bytes", (thread_cpu_ns() - started) as f64 / events as f64);
        }
    }
}
