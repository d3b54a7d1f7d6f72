//! A server on a Unix socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use assay_simulator::{ListenAddress, ServeError, Server};

use crate::client::config;

#[test]
fn a_unix_socket_is_served_and_removed_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server.sock");
    let settings = format!(r#"{{"listen": "unix:{}"}}"#, path.display());
    let server = Server::bind(config(&settings)).expect("a socket");
    assert_eq!(server.listen_address(), &ListenAddress::Unix(path.clone()));
    assert_eq!(server.listen_address().url(), format!("unix:{}", path.display()));
    // Another one cannot take it, and leaves it alone.
    assert!(matches!(Server::bind(config(&settings)), Err(ServeError::Listen { .. })));
    let running = server.spawn().expect("a thread");
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    running.stop().expect("it ends");
    assert!(!path.exists());
}
