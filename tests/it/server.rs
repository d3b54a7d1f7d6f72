//! A scripted inference endpoint of plain threads: for answers that no real one gives on purpose.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

/// An inference request as it came.
pub(crate) struct Request {
    /// Which of the server's inference requests it is, from 0.
    pub(crate) number: usize,
    /// The first line and the headers.
    pub(crate) head: String,
}

/// What the server does after it has sent what the script says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It reads the next request of the connection.
    KeepAlive,
    /// It closes the connection.
    HangUp,
    /// It closes the connection, and takes no other from now on.
    Leave,
}

/// Gives the bytes that answer an inference request.
type Script = dyn Fn(&Request) -> (Vec<u8>, Then) + Send + Sync;

/// Listens until it is dropped, or leaves. It is healthy and lists one model, whatever it does to inference requests.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    models: String,
    script: Box<Script>,
    asked: AtomicUsize,
    stopping: AtomicBool,
}

impl Server {
    /// Starts a server of `model` on a free port.
    pub(crate) fn start(model: &str, script: impl Fn(&Request) -> (Vec<u8>, Then) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let models = format!(r#"{{"object": "list", "data": [{{"id": "{model}", "object": "model"}}]}}"#);
        let script = Box::new(script);
        let shared = Arc::new(Shared { models, script, asked: AtomicUsize::new(0), stopping: AtomicBool::new(false) });
        let serving = Arc::clone(&shared);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&serving);
                thread::spawn(move || shared.serve(&stream, address));
            }
        });
        Self { address, shared, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many inference requests have come.
    pub(crate) fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    /// The thread that accepts waits for a connection: this is the last one.
    fn stop(&self, address: SocketAddr) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(address);
    }

    fn serve(&self, mut stream: &TcpStream, address: SocketAddr) {
        let mut reader = BufReader::new(stream);
        while let Some(head) = read_request(&mut reader) {
            let (bytes, then) = self.answer(head);
            if then == Then::Leave {
                self.stop(address);
            }
            if stream.write_all(&bytes).is_err() || then != Then::KeepAlive {
                return;
            }
        }
    }

    fn answer(&self, head: String) -> (Vec<u8>, Then) {
        let mut words = head.split(' ');
        match (words.next(), words.next()) {
            (Some("POST"), _) => (self.script)(&Request { number: self.asked.fetch_add(1, Ordering::SeqCst), head }),
            (_, Some("/health")) => (answer("200 OK", "{}"), Then::KeepAlive),
            (_, Some("/v1/models")) => (answer("200 OK", &self.models), Then::KeepAlive),
            _ => (answer("404 Not Found", "{}"), Then::KeepAlive),
        }
    }
}

/// Reads one request and gives its head; none when the connection is over.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    let length = header(&head, "content-length").map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(head)
}

/// A header's value.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// A whole answer with a JSON body.
pub(crate) fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A stream of these events that is not over yet.
pub(crate) fn begun_stream(events: &[&str]) -> Vec<u8> {
    let mut wire = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        wire.extend_from_slice(format!("{:x}\r\ndata: {event}\n\n\r\n", event.len() + 8).as_bytes());
    }
    wire
}

/// A token event of a chat.
pub(crate) const TOKEN: &str = r#"{"choices":[{"index":0,"delta":{"content":"word"}}]}"#;

/// A whole stream of a chat: two token events, and what the endpoint counted.
pub(crate) fn good_stream() -> Vec<u8> {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2,"total_tokens":22}}"#;
    let last = r#"{"choices":[{"index":0,"delta":{"content":" more"},"finish_reason":"stop"}]}"#;
    let mut wire = begun_stream(&[TOKEN, last, usage, "[DONE]"]);
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}
