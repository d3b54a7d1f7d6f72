//! A small HTTP server for tests: real bytes over a real connection on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// What was asked.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) port: u16,
    headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What is answered.
pub(crate) struct Answer {
    status: String,
    headers: Vec<String>,
    body: Vec<u8>,
    /// The length that is announced, where it is not the body's.
    length: Option<u64>,
    zeros: u64,
}

impl Answer {
    pub(crate) fn ok(body: &str) -> Self {
        Self { body: body.as_bytes().to_vec(), ..Self::status("200 OK") }
    }

    pub(crate) fn status(status: &str) -> Self {
        Self { status: status.to_owned(), headers: Vec::new(), body: Vec::new(), length: None, zeros: 0 }
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::status("307 Temporary Redirect").header("location", to)
    }

    /// As many zeros, made as they are sent.
    pub(crate) fn zeros(count: u64) -> Self {
        Self { zeros: count, length: Some(count), ..Self::status("200 OK") }
    }

    /// A body that ends before its announced length.
    pub(crate) fn cut_short(body: &str) -> Self {
        Self { length: Some(1000), ..Self::ok(body) }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push(format!("{name}: {value}"));
        self
    }

    fn send(&self, mut to: TcpStream) -> std::io::Result<()> {
        let length = self.length.unwrap_or(self.body.len() as u64);
        write!(to, "HTTP/1.1 {}\r\ncontent-length: {length}\r\nconnection: close\r\n", self.status)?;
        for header in &self.headers {
            write!(to, "{header}\r\n")?;
        }
        write!(to, "\r\n")?;
        to.write_all(&self.body)?;
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), self.zeros), &mut to)?;
        to.flush()
    }
}

/// Answers until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (asked, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stop) = (Arc::clone(&asked), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let Some(request) = read(&stream, address.port()) else { continue };
                count.fetch_add(1, Ordering::SeqCst);
                // Whoever has read enough closes the connection.
                let _ = answer(&request).send(stream);
            }
        });
        Self { address, asked, over, thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Host and port, as an image reference has them.
    pub(crate) fn authority(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // The thread waits for a connection: this is the last one.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read(stream: &TcpStream, port: u16) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let header = |line: String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(header).collect();
    Some(Request { path, port, headers })
}
