//! Requests to a Unix socket.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;

use assay_record::Outcome;

use crate::server::{AfterResponse, Request, good, header, serve};
use crate::support::{closed, indices, numbered, run_trial, trial};

/// Returns a path for a socket of this process.
fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("assay-load-{}-{name}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn requests_go_to_a_unix_socket_as_to_a_port() {
    let path = socket("served");
    let listener = UnixListener::bind(&path).expect("a socket");
    let heads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = heads.clone();
    thread::spawn(move || {
        let numbers = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming() {
            let (stream, numbers, seen) = (stream.expect("a connection"), numbers.clone(), seen.clone());
            thread::spawn(move || {
                serve(stream, &numbers, &move |request: &Request, stream: &mut dyn std::io::Write| -> AfterResponse {
                    seen.lock().expect("a lock").push(request.head.clone());
                    good(request, stream)
                });
            });
        }
    });
    let (finished, kept) = run_trial(&closed(&format!("unix:{}:/openai/v1", path.display()), 2), &mut numbered(30));
    assert_eq!(indices(&kept, Outcome::Ok), (0..30).collect::<Vec<_>>(), "{:?}", kept.records[0].error);
    assert!(finished.client.connections_opened <= 2);
    let heads = heads.lock().expect("a lock");
    assert!(heads.len() == 30 && heads.iter().all(|head| header(head, "host") == Some("localhost")), "{:?}", heads[0]);
    assert!(heads[0].starts_with("POST /openai/v1/chat/completions HTTP/1.1\r\n"), "{}", heads[0]);
    let _ = std::fs::remove_file(&path);
}

#[test]
fn a_socket_without_a_server_is_a_connect_error() {
    let path = socket("absent");
    let (_, kept) = run_trial(&trial(&format!("unix:{}", path.display())), &mut numbered(1));
    assert_eq!(indices(&kept, Outcome::ConnectError), [0]);
    // The file outlives its server.
    drop(UnixListener::bind(&path).expect("a socket"));
    let (_, kept) = run_trial(&trial(&format!("unix:{}", path.display())), &mut numbered(1));
    assert_eq!(indices(&kept, Outcome::ConnectError), [0]);
    let _ = std::fs::remove_file(&path);
}
