//! A minimal client: blocking, one thread, no reconnecting. If it cannot read a response, the test fails.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use assay_reactor::now_ns;
use assay_simulator::{Config, RunningServer, Server, Settings, Truth};
use serde_json::Value;

/// The timeout of a test, which would otherwise wait forever.
const PATIENCE: Duration = Duration::from_mins(1);

/// Serves the configuration of a file with these keys.
pub(crate) fn serve(settings: &str) -> RunningServer {
    Server::bind(config(settings)).expect("a free port").spawn().expect("a thread")
}

pub(crate) fn config(settings: &str) -> Config {
    let settings: Settings = serde_json::from_str(settings).expect(settings);
    settings.config().expect("a configuration")
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// An event of a stream and the instant at which it was read.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) at_ns: i64,
    /// Its type, if it has one.
    pub(crate) kind: Option<String>,
    pub(crate) data: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) events: Vec<Event>,
    /// True if the body was complete by the rules of HTTP.
    pub(crate) whole: bool,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("written");
    }

    pub(crate) fn finish_sending(&mut self) {
        // The server may have closed before.
        let _ = self.stream.get_mut().shutdown(std::net::Shutdown::Write);
    }

    /// Reads until the server closes.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        bytes
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: simulator\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        self.send_raw(format!("{text}\r\n{body}").as_bytes());
    }

    pub(crate) fn call(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.send(method, path, headers, body);
        self.receive()
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.call("GET", path, &[], "")
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Reply {
        self.call("POST", path, &[], body)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).ok().filter(|_| line.ends_with(b"\r\n"))?;
        line.truncate(line.len() - 2);
        Some(String::from_utf8(line).expect("a line of text"))
    }

    pub(crate) fn receive(&mut self) -> Reply {
        let first = self.line().expect("a status line");
        let mut reply = Reply { status: first[9..12].parse().expect(&first), ..Reply::default() };
        assert!(first.starts_with("HTTP/1.1 "), "{first}");
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").expect(&line);
            reply.headers.push((name.to_owned(), value.to_owned()));
        }
        if reply.status == 100 {
            return self.receive();
        }
        reply.whole = if reply.header("transfer-encoding") == Some("chunked") {
            self.receive_chunks(&mut reply).is_some()
        } else {
            let length: usize = reply.header("content-length").expect("a length").parse().expect("a number");
            reply.body.resize(length, 0);
            self.stream.read_exact(&mut reply.body).is_ok()
        };
        reply
    }

    fn receive_chunks(&mut self, reply: &mut Reply) -> Option<()> {
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).expect("a chunk size");
            let mut chunk = vec![0; size];
            self.stream.read_exact(&mut chunk).ok()?;
            let at_ns = now_ns();
            assert_eq!(self.line()?, "");
            if size == 0 {
                return Some(());
            }
            reply.events.extend(read_events(&chunk, at_ns));
            reply.body.extend(chunk);
        }
    }
}

/// Reads the events of a chunk, none of which is cut.
fn read_events(chunk: &[u8], at_ns: i64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut kind = None;
    for line in chunk.split(|byte| *byte == b'\n') {
        if let Some(value) = line.strip_prefix(b"event: ") {
            kind = Some(String::from_utf8(value.to_vec()).expect("a type"));
        } else if let Some(data) = line.strip_prefix(b"data: ") {
            events.push(Event { at_ns, kind: kind.take(), data: data.to_vec() });
        } else {
            assert!(line.is_empty(), "{line:?}");
        }
    }
    assert!(chunk.ends_with(b"\n\n") && kind.is_none(), "an event is cut");
    events
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Returns the events without `[DONE]`, which has to be the last.
    pub(crate) fn documents(&self) -> Vec<Value> {
        let (done, events) = self.events.split_last().expect("events");
        assert_eq!(done.data, b"[DONE]");
        events.iter().map(|event| serde_json::from_slice(&event.data).expect("JSON")).collect()
    }

    /// Returns the texts of the token events, content and reasoning alike, and the instants at which they were read.
    pub(crate) fn tokens(&self) -> Vec<(i64, String)> {
        let text = |event: &Event| {
            let document: Value = serde_json::from_slice(&event.data).ok()?;
            let choice = document.get("choices")?.get(0)?;
            let texts = [&choice["text"], &choice["delta"]["content"], &choice["delta"]["reasoning_content"]];
            let text = texts.into_iter().find_map(|text| text.as_str().filter(|text| !text.is_empty()))?;
            Some((event.at_ns, text.to_owned()))
        };
        self.events.iter().filter_map(text).collect()
    }
}

/// Returns all lines of the truth.
pub(crate) fn truth(address: SocketAddr) -> Vec<Truth> {
    let reply = Client::new(address).get("/truth");
    let text = String::from_utf8(reply.body).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Returns the truth about requests; none may be missing.
pub(crate) fn requests(address: SocketAddr) -> Vec<assay_simulator::RequestTruth> {
    let mut lines = truth(address);
    match lines.pop() {
        Some(Truth::End(end)) => assert!(end.dropped == 0 && !end.more, "{end:?}"),
        other => panic!("no end: {other:?}"),
    }
    let request = |line| if let Truth::Request(request) = line { request } else { panic!("an end in the middle") };
    lines.into_iter().map(request).collect()
}

/// Requests the metrics until they are as wanted; the test fails at the client's timeout.
pub(crate) fn metrics_until(address: SocketAddr, is_wanted: impl Fn(&str) -> bool) -> String {
    let begun = std::time::Instant::now();
    loop {
        let text = String::from_utf8(Client::new(address).get("/metrics").body).expect("text");
        if is_wanted(&text) {
            return text;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
        std::thread::yield_now();
    }
}

impl Client {
    pub(crate) fn read_exact(&mut self, bytes: &mut [u8]) {
        self.stream.read_exact(bytes).expect("as many bytes");
    }
}
