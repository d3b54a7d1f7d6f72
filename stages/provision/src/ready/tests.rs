use std::net::TcpListener;

use assay_probe::Headers;
use assay_probe::testing::{Reply, Server};
use assay_stage::Exit;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn target(timeout: Duration) -> Target {
    let target = json!({
        "name": "vllm", "kind": "endpoint", "command": [], "env": [],
        "ready_timeout_ns": timeout.as_nanos().to_string(), "hardware": {},
    });
    serde_json::from_value(target).expect("a target")
}

fn wait_for(url: &str, path: Option<&str>, timeout: Duration) -> Result<Probe, Failure> {
    wait(Clock, &Cancel::new().expect("an eventfd"), &Client::new(Headers::default()), &target(timeout), url, path, None)
}

/// Returns an address on which no server listens any more.
fn closed_address() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address"))
}

const LONG: Duration = Duration::from_mins(10);

#[test]
fn a_target_is_asked_until_it_is_ready() {
    let server = Server::start(|request| match request.number {
        0 => Reply::status("503 Service Unavailable"),
        1 => Reply::raw(""),
        2 => Reply::raw("nonsense 200\r\n"),
        3 => Reply::status("307 Temporary Redirect"),
        _ => Reply::ok(""),
    });
    let probe = wait_for(&server.url(), Some("/health"), LONG).expect("ready in the end");
    assert_eq!((probe.request, probe.ready), (format!("GET {}/health", server.url()), true));
    assert_eq!(probe.response, "200 OK");
    assert_eq!(server.paths(), ["/health"; 5]);
}

#[test]
fn an_open_port_is_enough_where_no_path_is_named() {
    for scheme in ["http", "https"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let probe = wait_for(&format!("{scheme}://{address}/v1"), None, LONG).expect("it listens");
        assert_eq!((probe.request, probe.response.as_str()), (format!("connect to {address}"), "connected"));
    }
}

#[test]
fn over_tls_it_is_asked_as_well() {
    // A plain-text response is not ready over TLS, even a good one.
    let server = Server::start(|_| Reply::ok(""));
    let url = server.url().replace("http://", "https://");
    let failure = wait_for(&url, Some("/health"), Duration::ZERO).expect_err("no TLS");
    assert_eq!(failure.code.as_str(), "target_not_ready");
}

#[test]
fn a_name_with_several_addresses_is_asked_at_each() {
    // On most machines `localhost` is ::1 first, on which this server does not listen.
    let server = Server::start(|_| Reply::ok(""));
    let url = server.url().replace("127.0.0.1", "localhost");
    assert!(wait_for(&url, None, LONG).is_ok());
    assert!(wait_for(&url, Some("/health"), LONG).is_ok());
}

#[test]
fn a_response_that_does_not_end_is_good_enough() {
    for reply in [Reply::endless(), Reply::drip()] {
        let server = Server::start(move |_| reply.clone());
        assert!(wait_for(&server.url(), Some("/health"), LONG).is_ok());
    }
}

#[test]
fn a_target_that_never_is_ready_is_named_with_what_it_said_last() {
    let url = closed_address();
    let failure = wait_for(&url, None, Duration::ZERO).expect_err("nobody listens");
    assert_eq!((failure.exit, failure.code.as_str()), (Exit::Environment, "target_not_ready"));
    let address = url.trim_start_matches("http://");
    insta::assert_snapshot!(failure.to_string().replace(address, "[ADDRESS]"), @r"
    error[target_not_ready]: target `vllm` was not ready after 0ns: Connection refused (os error 111)

    hint: is a server up at `http://[ADDRESS]`? Assay tried `connect to [ADDRESS]` until then; `ready.timeout` gives the server more time
    ");
    let held = Target { kind: TargetKind::Process, ..target(Duration::ZERO) };
    let (cancel, client) = (Cancel::new().expect("an eventfd"), Client::new(Headers::default()));
    let failure = wait(Clock, &cancel, &client, &held, &url, None, None).expect_err("nobody listens");
    insta::assert_snapshot!(failure.hint.expect("a hint"), @"look into its log beside the stage's, or give it more time with `ready.timeout`");
    let server = Server::start(|_| Reply::status("503 Service Unavailable"));
    let failure = wait_for(&server.url(), Some("/health"), Duration::ZERO).expect_err("busy");
    insta::assert_snapshot!(failure.message, @"target `vllm` was not ready after 0ns: `/health` returned `503 Service Unavailable`");
    assert!(failure.hint.expect("a hint").contains(&format!("Assay tried `GET {}/health`", server.url())));
}

#[test]
fn a_target_that_has_ended_is_not_taken_for_another_server_in_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let end = TargetEnd::from_file("vllm", &folder.path().join("end"));
    std::fs::write(folder.path().join("end"), "signal 9 (SIGKILL)").expect("written");
    let (cancel, client) = (Cancel::new().expect("an eventfd"), Client::new(Headers::default()));
    let server = Server::start(|_| Reply::ok(""));
    for url in [server.url(), closed_address()] {
        let failure = wait(Clock, &cancel, &client, &target(LONG), &url, Some("/health"), Some(&end)).expect_err("it ended");
        assert_eq!(failure.message, "target `vllm` ended before it was ready: signal 9 (SIGKILL)");
    }
}

#[test]
fn whoever_stops_the_run_stops_the_waiting() {
    let cancel = Cancel::new().expect("an eventfd");
    cancel.cancel("SIGINT");
    let client = Client::new(Headers::default());
    let failure = wait(Clock, &cancel, &client, &target(LONG), &closed_address(), None, None).expect_err("stopped");
    assert_eq!((failure.exit, failure.message.as_str()), (Exit::Cancelled, "SIGINT"));
}

#[test]
fn what_cannot_be_asked_is_a_mistake_of_the_definition() {
    let refused = |url, path| wait_for(url, path, LONG).expect_err("no request").message;
    insta::assert_snapshot!(refused("vllm:8000", None), @"target `vllm` is at `vllm:8000`, which is not an address");
    insta::assert_snapshot!(refused("http://vllm", Some("health")), @"target `vllm` is to be asked for `health`, which is not a path");
    insta::assert_snapshot!(refused("http://vllm", Some("/ HTTP/1.1\r\nevil: 1")), @r"target `vllm` is to be asked for `/ HTTP/1.1\r\nevil: 1`, which is not a path");
}

#[test]
fn an_address_is_read_as_everybody_reads_it() {
    let place = |url| parse_address(url).map(|HostPort { host, port, is_tls }| format!("{host} {port} {is_tls}"));
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
        if let Some(HostPort { host, .. }) = parse_address(&url) {
            prop_assert!(!host.is_empty() && !host.contains([' ', '/']), "{}", host);
        }
    }
}
