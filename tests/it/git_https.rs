//! An https remote: git's own `git http-backend` behind TLS, for clients that have the password.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use base64::Engine as _;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::header;

/// A server of the bare repositories of a folder, which runs until it is dropped.
pub(crate) struct GitServer {
    address: SocketAddr,
    /// The self-signed certificate.
    pub(crate) certificate: PathBuf,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    folder: PathBuf,
    authorization: String,
    tls: Arc<ServerConfig>,
}

type Tls = StreamOwned<ServerConnection, TcpStream>;

impl GitServer {
    /// Starts a server on a free port. `login` is a user, a colon and a password. The certificate is written into the folder.
    pub(crate) fn start(folder: &Path, login: &str) -> Self {
        Self::start_with_name("127.0.0.1", "localhost", folder, login)
    }

    /// Like [`GitServer::start`], at an address that other machines reach.
    pub(crate) fn start_on(host: &str, folder: &Path, login: &str) -> Self {
        Self::start_with_name(host, host, folder, login)
    }

    fn start_with_name(host: &str, called: &str, folder: &Path, login: &str) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let pair = rcgen::generate_simple_self_signed(vec![called.to_owned()]).expect("a certificate");
        let certificate = folder.join("certificate.pem");
        std::fs::write(&certificate, pair.cert.pem()).expect("written");
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).expect("a key");
        let tls = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![pair.cert.der().clone()], key);
        let authorization = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
        let shared = Shared { folder: folder.to_owned(), authorization, tls: Arc::new(tls.expect("a pair")) };
        let (shared, stopping) = (Arc::new(shared), Arc::new(AtomicBool::new(false)));
        let listener = TcpListener::bind((host, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = Arc::clone(&stopping);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, certificate, stopping, accepting: Some(accepting) }
    }

    /// Returns the server's address, as other machines reach it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's host and port.
    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.address.port())
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    /// Serves one request. A client that does not trust the certificate hangs up during the handshake.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let connection = ServerConnection::new(Arc::clone(&self.tls)).expect("a session");
        let mut reader = BufReader::new(StreamOwned::new(connection, stream));
        let head = read_head(&mut reader)?;
        let length = header(&head, "content-length").map_or(0, |length| length.parse().expect("a length"));
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let response = if let Some(bytes) = self.file(&head) {
            let start = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", bytes.len());
            [start.as_bytes(), &bytes].concat()
        } else if header(&head, "authorization") == Some(&self.authorization) {
            self.backend(&head, body)
        } else {
            b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"git\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                .to_vec()
        };
        let tls = reader.get_mut();
        tls.write_all(&response).ok()?;
        tls.conn.send_close_notify();
        tls.flush().ok()
    }

    /// Returns a file of `files` in the folder, which needs no password.
    fn file(&self, head: &str) -> Option<Vec<u8>> {
        let path = head.split(' ').nth(1)?.strip_prefix("/files/")?;
        std::fs::read(self.folder.join("files").join(path)).ok()
    }

    /// Runs `git http-backend`, which is a CGI program (RFC 3875): the request in its environment, the response on its stdout.
    fn backend(&self, head: &str, body: Vec<u8>) -> Vec<u8> {
        let mut words = head.split(' ');
        let (method, target) = (words.next().expect("a method"), words.next().expect("a path"));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut git = Command::new("git");
        git.arg("http-backend").env_clear().env("PATH", std::env::var_os("PATH").expect("PATH is set"));
        git.env("GIT_PROJECT_ROOT", &self.folder).env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", "tester");
        git.envs([("REQUEST_METHOD", method), ("PATH_INFO", path), ("QUERY_STRING", query)]);
        git.env("CONTENT_LENGTH", body.len().to_string());
        let passed =
            [("content-type", "CONTENT_TYPE"), ("content-encoding", "HTTP_CONTENT_ENCODING"), ("git-protocol", "GIT_PROTOCOL")];
        git.envs(passed.iter().filter_map(|(name, variable)| Some((variable, header(head, name)?))));
        let mut child = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let writing = thread::spawn(move || stdin.write_all(&body));
        let output = child.wait_with_output().expect("git ends");
        let _ = writing.join();
        let end = output.stdout.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        let (fields, content) = output.stdout.split_at(end);
        let fields = std::str::from_utf8(fields).expect("text");
        let status = header(fields, "status").unwrap_or("200 OK");
        let start = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n", content.len());
        [start.as_bytes(), fields.as_bytes(), content].concat()
    }
}

fn read_head(reader: &mut BufReader<Tls>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    Some(head)
}
