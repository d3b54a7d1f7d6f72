//! The lateness of chunks (sent minus planned) while a client drains this many streams of 50 events a second.
//!
//! Streams are spread over time, as those of users are, or all in step, which is the worst case for a server.
//!
//!     cargo run --release -p assay-simulator --example capacity [-- SECONDS [SPIN_US]]

use std::error::Error;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use assay_reactor::{Interest, Poller, now_ns};
use assay_simulator::{Config, EngineConfig, Latency, Profile, Server, Truth, TruthEnd};

const EVENTS_PER_S: u32 = 50;
const BETWEEN_NS: i64 = 1_000_000_000 / EVENTS_PER_S as i64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let spin_us: i64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let mut out = io::stdout();
    writeln!(out, "streams phases   events/s    chunks  p50_us  p99_us  p999_us   max_us")?;
    for streams in [1, 64, 1_000] {
        for is_spread in [true, false] {
            writeln!(out, "{}", measure(streams, is_spread, seconds, spin_us * 1_000)?)?;
        }
    }
    Ok(())
}

fn measure(streams: usize, is_spread: bool, seconds: u32, spin_ns: i64) -> Result<String, Box<dyn Error>> {
    // A jitter of many times the period makes every phase equally likely.
    let jitter_ns = if is_spread { 5 * BETWEEN_NS } else { 0 };
    let latency = Latency {
        ttft_ns: 500_000_000,
        ttft_jitter_ns: jitter_ns,
        ttft_jitter_sigma: 0.5,
        itl_ns: BETWEEN_NS,
        ..Latency::none()
    };
    let server =
        Server::bind(Config { engine: EngineConfig::PerRequest(latency), spin_ns, ..Config::from_profile(Profile::Instant) })?
            .spawn()?;
    let address = server.address();
    let client = std::thread::spawn(move || drain(address, streams, seconds * EVENTS_PER_S));
    client.join().map_err(|_| "the client has panicked")??;
    let (mut late_ns, first_ns, last_ns) = lateness(address)?;
    server.stop()?;
    late_ns.sort_unstable();
    let at = |share: f64| late_ns.get(((late_ns.len() as f64 * share) as usize).min(late_ns.len() - 1)).copied().unwrap_or(0);
    let us = |share: f64| at(share) as f64 / 1e3;
    let rate = late_ns.len() as f64 / ((last_ns - first_ns) as f64 / 1e9);
    let phases = if is_spread { "spread" } else { "in step" };
    let (p50, p99, p999, max) = (us(0.5), us(0.99), us(0.999), us(1.0));
    Ok(format!("{streams:7} {phases:7} {rate:9.0} {:9} {p50:7.1} {p99:7.1} {p999:8.1} {max:8.1}", late_ns.len()))
}

/// Opens the streams and discards their data, until the server has closed each.
fn drain(address: SocketAddr, streams: usize, tokens: u32) -> io::Result<()> {
    let mut poller = Poller::new(256)?;
    let body =
        format!(r#"{{"model": "assay-simulator", "prompt": "a", "stream": true, "ignore_eos": true, "max_tokens": {tokens}}}"#);
    let mut sockets = Vec::with_capacity(streams);
    for token in 0..streams {
        let mut socket = TcpStream::connect(address)?;
        write!(
            socket,
            "POST /v1/completions HTTP/1.1\r\nconnection: close\r\nx-request-id: {token}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        socket.set_nonblocking(true)?;
        poller.add(&socket, token as u64, Interest::Read)?;
        sockets.push(Some(socket));
    }
    let mut open = streams;
    let mut buffer = vec![0; 64 << 10];
    let mut ready = Vec::new();
    while open > 0 {
        ready.extend(poller.wait(Some(now_ns() + 1_000_000_000))?.map(|ready| ready.token as usize));
        for place in ready.drain(..) {
            let Some(socket) = &mut sockets[place] else { continue };
            match socket.read(&mut buffer) {
                Ok(0) => {
                    sockets[place] = None;
                    open -= 1;
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Returns sent minus planned of every chunk, and the planned instants of the first and the last.
fn lateness(address: SocketAddr) -> Result<(Vec<i64>, i64, i64), Box<dyn Error>> {
    let (mut late_ns, mut first_ns, mut last_ns, mut since) = (Vec::new(), i64::MAX, i64::MIN, 0);
    loop {
        let end = tell(address, since, |planned_ns, actual_ns| {
            late_ns.push(actual_ns - planned_ns);
            (first_ns, last_ns) = (first_ns.min(planned_ns), last_ns.max(planned_ns));
        })?;
        if end.dropped > 0 || late_ns.is_empty() {
            return Err("the truth is not whole".into());
        }
        if !end.more {
            return Ok((late_ns, first_ns, last_ns));
        }
        since = end.last;
    }
}

fn tell(address: SocketAddr, since: u64, mut chunk_of: impl FnMut(i64, i64)) -> Result<TruthEnd, Box<dyn Error>> {
    let mut socket = TcpStream::connect(address)?;
    write!(socket, "GET /truth?since={since} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    let (_, lines) = text.split_once("\r\n\r\n").ok_or("no response")?;
    for line in lines.lines() {
        match serde_json::from_str(line)? {
            Truth::Request(request) => {
                for chunk in request.chunks {
                    chunk_of(chunk.planned_ns, chunk.actual_ns.ok_or("a chunk was not sent")?);
                }
            }
            Truth::End(end) => return Ok(end),
        }
    }
    Err("no end".into())
}
