//! A scripted HTTP server for tests: real bytes over real local connections, as malformed as the test needs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most bytes of a body that are kept.
const MAX_KEPT_BODY: u64 = 1 << 20;

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path with its query.
    pub path: String,
    /// The number of requests before it.
    pub number: usize,
    /// The method, such as `PUT`.
    pub method: String,
    /// The body, up to 1 MiB of it.
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Request {
    /// Returns the value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A scripted response; the connection is closed after it.
#[derive(Clone, Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    then: AfterBytes,
}

/// The behaviour after the bytes.
#[derive(Clone, Debug)]
enum AfterBytes {
    Close,
    /// Sends these bytes repeatedly, as fast as the client reads.
    Forever(Vec<u8>),
    /// Sends a byte now and then, until the client disconnects.
    Drip,
    /// Sends nothing more and keeps the connection open.
    Hang,
}

impl Reply {
    /// Returns a response of exactly these bytes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: AfterBytes::Close }
    }

    /// Returns a response with a status, such as `404 Not Found`, more lines of the head, and a body.
    pub fn with_body(status: &str, head: &[&str], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
        for line in head {
            text.extend([*line, "\r\n"]);
        }
        text.push_str("\r\n");
        Self::raw([text.as_bytes(), body].concat())
    }

    /// Returns a response with status 200.
    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::with_body("200 OK", &[], body)
    }

    /// Returns a response without a body.
    pub fn status(status: &str) -> Self {
        Self::with_body(status, &[], "")
    }

    /// Returns a head, and a body that never ends.
    pub fn endless() -> Self {
        Self { bytes: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), then: AfterBytes::Forever(vec![b'a'; 1 << 16]) }
    }

    /// Returns a head that never ends.
    pub fn endless_head() -> Self {
        Self { bytes: b"HTTP/1.1 200 OK\r\n".to_vec(), then: AfterBytes::Forever(b"x-more: of the same\r\n".repeat(1000)) }
    }

    /// Returns a head, and a body that comes one byte now and then.
    pub fn drip() -> Self {
        Self { bytes: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), then: AfterBytes::Drip }
    }

    /// Returns the same response, with the connection open after it.
    #[must_use]
    pub fn and_hang(self) -> Self {
        Self { then: AfterBytes::Hang, ..self }
    }

    /// Returns nothing at all, with the connection open.
    pub fn hang() -> Self {
        Self { bytes: Vec::new(), then: AfterBytes::Hang }
    }

    fn send(&self, mut to: TcpStream) -> std::io::Result<()> {
        to.write_all(&self.bytes)?;
        match &self.then {
            AfterBytes::Close => {}
            AfterBytes::Forever(bytes) => loop {
                to.write_all(bytes)?;
            },
            AfterBytes::Drip => loop {
                to.write_all(b"a")?;
                std::thread::sleep(Duration::from_millis(2));
            },
            // The read ends when the client has disconnected.
            AfterBytes::Hang => drop(to.read(&mut [0; 64])),
        }
        Ok(())
    }
}

type Script = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// A server that handles each connection in a thread of its own, until it is dropped.
pub struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server that responds to each request with the result of `script`.
    ///
    /// # Panics
    /// If this machine has no free port.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stop, questions) = (Arc::clone(&over), Arc::clone(&asked));
        let script: Arc<Script> = Arc::new(Box::new(script));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (script, questions) = (Arc::clone(&script), Arc::clone(&questions));
                std::thread::spawn(move || serve_connection(stream, &script, &questions));
            }
        });
        Self { address, over, asked, thread: Some(thread) }
    }

    /// Starts a server that responds by path; every other path is not found.
    pub fn with_replies(replies: Vec<(&'static str, Reply)>) -> Self {
        Self::start(move |request| {
            let found = replies.iter().find(|(path, _)| *path == request.path);
            found.map_or_else(|| Reply::status("404 Not Found"), |(_, reply)| reply.clone())
        })
    }

    /// Returns its URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the URL of a path on it.
    pub fn at(&self, path: &str) -> String {
        self.url() + path
    }

    /// Returns its host and port, in the form of an image reference.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.asked.lock().map(|asked| asked.clone()).unwrap_or_default()
    }

    /// Returns the paths of all requests so far.
    pub fn paths(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.path).collect()
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

fn serve_connection(stream: TcpStream, script: &Script, asked: &Mutex<Vec<Request>>) {
    let Some(mut request) = read(&stream) else { return };
    if let Ok(mut asked) = asked.lock() {
        request.number = asked.len();
        asked.push(request.clone());
    }
    // A client that has read enough closes the connection.
    let _ = script(&request).send(stream);
}

/// Reads a request with its body: a connection that is closed with unread bytes is reset, and a reply on its way is lost.
fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let header = |line: String| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(header).collect();
    let mut request = Request { path, number: 0, method, body: Vec::new(), headers };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = reader.take(length);
    body.by_ref().take(MAX_KEPT_BODY).read_to_end(&mut request.body).ok()?;
    std::io::copy(&mut body, &mut std::io::sink()).ok()?;
    Some(request)
}
