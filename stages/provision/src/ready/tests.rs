use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::thread::JoinHandle;

use assay_stage::Exit;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn target(url: &str, path: Option<&str>, timeout: Duration) -> Target {
    let target = json!({
        "name": "vllm", "kind": "endpoint", "url": url, "command": [], "env": [],
        "ready_timeout_ns": timeout.as_nanos().to_string(), "hardware": {},
    });
    let mut target: Target = serde_json::from_value(target).expect("a target");
    target.ready_http = path.map(str::to_owned);
    target
}

fn wait_for(target: &Target) -> Result<Vec<Probe>, Failure> {
    wait(Clock, &Cancel::new().expect("an eventfd"), target)
}

/// Answers each connection with the next of some answers, then is gone. Gives the requests' first lines.
fn server(answers: Vec<&'static str>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let thread = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a clone")).lines().map_while(Result::ok);
            asked.extend(lines.next());
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(answer.as_bytes()).expect("sent");
        }
        asked
    });
    (url, thread)
}

const LONG: Duration = Duration::from_secs(600);
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\n\r\n";

#[test]
fn a_target_is_asked_until_it_is_ready() {
    let (url, server) = server(vec![BUSY, "", "nonsense 200\r\n", OK]);
    let probes = wait_for(&target(&url, Some("/health"), LONG)).expect("ready in the end");
    let [probe] = probes.as_slice() else { panic!("one probe") };
    assert_eq!((probe.question.clone(), probe.ready), (format!("GET {url}/health"), true));
    assert_eq!(probe.answer, "HTTP/1.1 200 OK");
    assert_eq!(server.join().expect("no panic"), ["GET /health HTTP/1.1"; 4]);
}

#[test]
fn an_open_port_is_enough_where_no_path_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let probes = wait_for(&target(&format!("http://{address}"), None, LONG)).expect("it listens");
    assert_eq!((probes[0].question.clone(), probes[0].answer.as_str()), (format!("connect to {address}"), "connected"));
}

#[test]
fn over_tls_only_the_connection_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let probes = wait_for(&target(&format!("https://{address}/v1"), Some("/health"), LONG)).expect("it listens");
    assert_eq!(probes[0].question, format!("connect to {address}"));
}

#[test]
fn a_name_with_several_addresses_is_asked_at_each() {
    // On most machines `localhost` is ::1 first, where nobody listens here.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    assert!(wait_for(&target(&format!("http://localhost:{port}"), None, LONG)).is_ok());
}

#[test]
fn a_server_that_keeps_the_connection_open_is_ready_all_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(OK.as_bytes()).expect("sent");
        stream
    });
    assert!(wait_for(&target(&url, Some("/health"), LONG)).is_ok());
    drop(server.join().expect("no panic"));
}

#[test]
fn a_target_that_never_is_ready_is_named_with_what_it_said_last() {
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let failure = wait_for(&target(&format!("http://{free}"), None, Duration::ZERO)).expect_err("nobody listens");
    assert_eq!((failure.exit, failure.code.as_str()), (Exit::Environment, "target_not_ready"));
    insta::assert_snapshot!(failure, @r"
    error[target_not_ready]: target `vllm` was not ready after 0ns: Connection refused (os error 111)

    hint: look into its log beside the stage's, or give it more time with `ready.timeout`
    ");

    let (url, server) = server(vec![BUSY]);
    let failure = wait_for(&target(&url, Some("/health"), Duration::ZERO)).expect_err("busy");
    server.join().expect("no panic");
    insta::assert_snapshot!(failure.message, @"target `vllm` was not ready after 0ns: `/health` answered `HTTP/1.1 503 Service Unavailable`");
}

#[test]
fn whoever_stops_the_run_stops_the_waiting() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let cancel = Cancel::new().expect("an eventfd");
    cancel.cancel("SIGINT");
    let failure = wait(Clock, &cancel, &target(&format!("http://{free}"), None, LONG)).expect_err("stopped");
    assert_eq!((failure.exit, failure.message.as_str()), (Exit::Cancelled, "SIGINT"));
}

#[test]
fn what_cannot_be_asked_is_a_mistake_of_the_definition() {
    let refused = |url, path| wait_for(&target(url, path, LONG)).expect_err("no question").message;
    insta::assert_snapshot!(refused("vllm:8000", None), @"target `vllm` is at `vllm:8000`, which is not an address");
    insta::assert_snapshot!(refused("http://vllm", Some("health")), @"target `vllm` is to be asked for `health`, which is not a path");
    insta::assert_snapshot!(refused("http://vllm", Some("/ HTTP/1.1\r\nevil: 1")), @r"target `vllm` is to be asked for `/ HTTP/1.1\r\nevil: 1`, which is not a path");
    let mut nowhere = target("", None, LONG);
    nowhere.url = None;
    insta::assert_snapshot!(wait_for(&nowhere).expect_err("no address").message, @"target `vllm` has no address at which it could be asked");
}

#[test]
fn an_address_is_read_as_everybody_reads_it() {
    let place = |url| place_of(url).map(|(host, port, is_tls)| format!("{host} {port} {is_tls}"));
    assert_eq!(place("http://a").as_deref(), Some("a 80 false"));
    assert_eq!(place("https://a/b:c").as_deref(), Some("a 443 true"));
    assert_eq!(place("http://a:8000?x=1").as_deref(), Some("a 8000 false"));
    assert_eq!(place("http://[::1]:8000/v1").as_deref(), Some("::1 8000 false"));
    assert_eq!(place("http://[::1]").as_deref(), Some("::1 80 false"));
    for bad in ["", "a", "a:80", "ftp://a", "http://", "http://:80", "http://a:99999", "http://a:", "http://a b", "http:///x"] {
        assert_eq!(place(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn whatever_an_address_is_it_is_read_or_refused(url in "(https?://)?\\PC{0,40}") {
        if let Some((host, ..)) = place_of(&url) {
            prop_assert!(!host.is_empty() && !host.contains([' ', '/']), "{}", host);
        }
    }

    #[test]
    fn whatever_is_answered_has_a_first_line(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(!first_line(&bytes).contains(['\r', '\n']));
    }
}
