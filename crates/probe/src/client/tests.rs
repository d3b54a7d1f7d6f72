use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;

use assay_manifest::EnvVar;
use proptest::prelude::*;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use super::*;
use crate::testing::{Reply, Server};

const LONG: Limits = Limits { time: Duration::from_mins(10), bytes: 1000 };
const SHORT: Limits = Limits { time: Duration::from_millis(50), bytes: u64::MAX };

fn client() -> Client {
    Client::new(Headers::default())
}

fn get_reply(reply: Reply, limits: Limits) -> Result<EndpointResponse, String> {
    let server = Server::start(move |_| reply.clone());
    client().get(&server.url(), limits).map_err(|error| error.to_string())
}

#[test]
fn a_response_is_returned_whole_whatever_its_status() {
    let response = get_reply(Reply::with_body("200 OK", &["server: vllm/1.0"], "body"), LONG).expect("a response");
    assert_eq!(response, EndpointResponse { status: 200, server: Some("vllm/1.0".to_owned()), body: b"body".to_vec() });
    assert!(response.is_success());
    let response = get_reply(Reply::with_body("404 Not Found", &[], b"\xff\x00"), LONG).expect("a response as well");
    assert_eq!((response.is_success(), response.status_text()), (false, "404 Not Found".to_owned()));
    assert_eq!(response.body, b"\xff\x00", "bytes that are no text");
}

#[test]
fn a_redirect_is_a_response_and_takes_no_secret_anywhere() {
    let elsewhere = Server::start(|_| Reply::ok("here"));
    let to = format!("location: {}", elsewhere.url());
    let response = get_reply(Reply::with_body("307 Temporary Redirect", &[&to], ""), LONG).expect("a response");
    assert_eq!(response.status, 307);
    assert_eq!(elsewhere.paths(), Vec::<String>::new());
}

#[test]
fn the_headers_of_the_target_are_sent() {
    let server = Server::start(|_| Reply::ok(""));
    let header = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        from_env: None,
        from_file: None,
        scheme: None,
    };
    let headers = Headers::read(&[header("authorization", "Bearer t"), header("x-org", "a")]).expect("readable");
    Client::new(headers).get(&endpoint_url(&server.url(), "/v1/models"), LONG).expect("a response");
    let request = server.requests().pop().expect("one question");
    assert_eq!(request.path, "/v1/models");
    assert_eq!((request.header("authorization"), request.header("x-org")), (Some("Bearer t"), Some("a")));
    assert_eq!(request.header("connection"), Some("close"), "no connection waits for the next question");
}

#[test]
fn a_secret_that_comes_back_is_masked() {
    let server = Server::start(|request| {
        let echo = request.header("authorization").unwrap_or_default().to_owned();
        Reply::with_body("200 OK", &[&format!("server: vllm/{echo}")], format!("{{\"sent\": \"{echo}\"}}"))
    });
    let response = client_with("Bearer hunter22").get(&server.url(), LONG).expect("a response");
    assert_eq!(response.server.as_deref(), Some("vllm/Bearer [secret]"));
    assert_eq!(String::from_utf8_lossy(&response.body), r#"{"sent": "Bearer [secret]"}"#);
}

/// Returns a client that sends the text of a file as `authorization`.
fn client_with(text: &str) -> Client {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let from_file = file.path().to_str().map(str::to_owned);
    let header = EnvVar { name: "authorization".to_owned(), value: None, from_env: None, from_file, scheme: None };
    Client::new(Headers::read(&[header]).expect("readable"))
}

#[test]
fn a_secret_that_comes_back_escaped_is_masked() {
    let head = ["content-type: application/json", "location: /login?key=hunter%2F22%2b&next=/", "server: x/hunter%2f22%2B"];
    let body = r#"{"error":{"message":"no such key: hunter\/22\u002b"}}"#;
    let server = Server::start(move |_| Reply::with_body("302 Found", &head, body));
    let client = client_with("Bearer hunter/22+\n");
    let request = JsonRequest { is_streamed: true, request_id: 1, headers: &[], body: b"{}" };
    let response = client.post_json(&server.url(), &request, LONG.time).expect("a response");
    assert_eq!(response.location.as_deref(), Some("/login?key=[secret]&next=/"));
    let masked = r#"{"error":{"message":"no such key: [secret]"}}"#;
    assert_eq!(String::from_utf8_lossy(&response.body.bytes), masked);
    let response = client.get(&server.url(), LONG).expect("a response");
    assert_eq!((response.server.as_deref(), String::from_utf8_lossy(&response.body).as_ref()), (Some("x/[secret]"), masked));
}

#[test]
fn the_credentials_of_basic_are_secret_decoded_as_well() {
    // The credentials are `me:hunter22`.
    let server = Server::start(|_| Reply::ok("bWU6aHVudGVyMjI= is me:hunter22, and the password is hunter22"));
    let response = client_with("Basic bWU6aHVudGVyMjI=").get(&server.url(), LONG).expect("a response");
    assert_eq!(String::from_utf8_lossy(&response.body), "[secret] is [secret], and the password is [secret]");
}

#[test]
fn a_response_of_exactly_the_limit_is_one_and_a_larger_one_is_not() {
    assert_eq!(get_reply(Reply::ok("x".repeat(1000)), LONG).map(|response| response.body.len()), Ok(1000));
    insta::assert_snapshot!(get_reply(Reply::ok("x".repeat(1001)), LONG).expect_err("too large"), @"the response is larger than the limit of 1000 bytes");
    insta::assert_snapshot!(get_reply(Reply::endless(), LONG).expect_err("endless"), @"the response is larger than the limit of 1000 bytes");
    assert!(get_reply(Reply::endless_head(), LONG).is_err(), "a head has a limit as well");
}

#[test]
fn whoever_hangs_or_drips_is_given_up() {
    for reply in [Reply::hang(), Reply::drip()] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(get_reply(reply, SHORT).expect_err("too slow"), @"no response within 50ms");
        }
    }
}

#[test]
fn a_status_is_there_before_the_body_is() {
    for reply in [Reply::endless(), Reply::drip(), Reply::ok("x")] {
        let server = Server::start(move |_| reply.clone());
        assert_eq!(client().get_status(&server.url(), LONG.time).expect("a status"), 200);
    }
    let server = Server::start(|_| Reply::hang());
    assert!(matches!(client().get_status(&server.url(), SHORT.time), Err(RequestError::Timeout(_))));
}

#[test]
fn what_is_no_http_is_no_response() {
    for reply in
        ["", "\n", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"]
    {
        assert!(get_reply(Reply::raw(reply), LONG).is_err(), "{reply:?}");
    }
}

/// The first bytes from a server of HTTP/2: its settings, and, because a request of HTTP/1.1 is not HTTP/2, GOAWAY.
const FRAMES: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

#[test]
fn a_server_of_http_2_is_named() {
    let error_of = |bytes: &'static [u8]| {
        let server = Server::start(move |_| Reply::raw(bytes));
        client().get(&server.url(), LONG).expect_err("no HTTP/1.1")
    };
    for reply in [FRAMES, &FRAMES[9..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let error = error_of(reply);
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"the server speaks HTTP/2 and not HTTP/1.1: it responded to a request of HTTP/1.1 with HTTP/2");
        }
        assert!(!error.is_unreachable());
    }
    // A frame of another kind is no beginning of HTTP/2, and neither is a part of one.
    for reply in [&[0, 0, 0, 1, 0, 0, 0, 0, 0], &FRAMES[..8]] {
        let error = error_of(reply);
        assert!(!matches!(error, RequestError::Http2(_)), "{error}");
    }
}

#[test]
fn a_server_that_refuses_http_1_in_the_handshake_is_named() {
    let (url, _, server) = tls_server_of(&[b"h2"], None);
    let error = accepting_any_certificate().get(&url, LONG).expect_err("no HTTP/1.1");
    insta::assert_snapshot!(error, @"the server speaks HTTP/2 and not HTTP/1.1: it refused HTTP/1.1 in the TLS handshake (ALPN)");
    server.join().expect("no panic");
    // A server that speaks both is asked by HTTP/1.1.
    let (url, _, server) = tls_server_of(&[b"h2", b"http/1.1"], None);
    assert_eq!(accepting_any_certificate().get(&url, LONG).expect("a response").body, b"hidden");
    server.join().expect("no panic");
}

#[test]
fn an_absent_server_is_silence_and_a_bad_response_is_not() {
    // Port 1 is never assigned by the system: a port that was released may be another test's already.
    let error = client().get("http://127.0.0.1:1/", LONG).expect_err("nobody");
    assert!(error.is_unreachable());
    insta::assert_snapshot!(error, @"Connection refused (os error 111)");
    let server = Server::start(|_| Reply::raw("SSH-2.0-OpenSSH\r\n\r\n"));
    assert!(!client().get(&server.url(), LONG).expect_err("no HTTP").is_unreachable());
}

#[test]
fn every_address_of_a_name_is_tried() {
    // On most machines `localhost` is ::1 first, on which this server does not listen.
    let server = Server::start(|_| Reply::ok("here"));
    let url = server.url().replace("127.0.0.1", "localhost");
    assert_eq!(client().get(&url, LONG).expect("reached").body, b"here");
}

fn accepting_any_certificate() -> Client {
    Client::with_tls(Headers::default(), TlsSettings { accepts_any_certificate: true, ..TlsSettings::default() })
}

/// Starts a server over TLS for one connection; returns its address and its self-signed certificate.
fn tls_server() -> (String, CertificateDer<'static>, std::thread::JoinHandle<()>) {
    tls_server_of(&[], None)
}

/// Starts one that speaks these protocols by ALPN, and demands a certificate of this authority.
fn tls_server_of(
    protocols: &[&[u8]],
    client: Option<CertificateDer<'static>>,
) -> (String, CertificateDer<'static>, std::thread::JoinHandle<()>) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let pair = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let certificate = pair.cert.der().clone();
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).expect("a key");
    let builder = rustls::ServerConfig::builder();
    let builder = match client {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(authority).expect("an authority");
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().expect("a verifier"))
        }
    };
    let mut config = builder.with_single_cert(vec![certificate.clone()], key).expect("a pair");
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let connection = rustls::ServerConnection::new(config).expect("a session");
        let mut tls = rustls::StreamOwned::new(connection, stream);
        // A client that does not trust the certificate aborts the handshake.
        if tls.read(&mut [0; 1024]).is_ok() {
            tls.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhidden").expect("sent");
        }
    });
    (url, certificate, thread)
}

#[test]
fn an_endpoint_over_tls_is_asked_like_another_and_a_stranger_is_not() {
    let (url, certificate, server) = tls_server();
    let trusting = Client::with_tls(Headers::default(), TlsSettings { roots: vec![certificate], ..TlsSettings::default() });
    assert_eq!(trusting.get(&url, LONG).expect("trusted").body, b"hidden");
    server.join().expect("no panic");

    let (url, _, server) = tls_server();
    let error = client().get(&url, LONG).expect_err("nobody vouches for it");
    assert!(error.to_string().contains("certificate"), "{error}");
    server.join().expect("no panic");
}

#[test]
fn a_server_that_demands_a_client_certificate_is_named_and_gets_one() {
    let authority = rcgen::generate_simple_self_signed(vec!["client.example".to_owned()]).expect("a certificate");
    let stranger = rcgen::generate_simple_self_signed(vec!["stranger.example".to_owned()]).expect("a certificate");
    let show = |pair: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        Some(assay_load::ClientCertificate::from_pem(certificate.as_bytes(), key.as_bytes()).expect("a pair"))
    };
    // Each connection has a server of its own.
    let ask = |client| {
        let (url, certificate, server) = tls_server_of(&[], Some(authority.cert.der().clone()));
        let tls = TlsSettings { roots: vec![certificate], client, ..TlsSettings::default() };
        let response = Client::with_tls(Headers::default(), tls).get(&url, LONG);
        server.join().expect("no panic");
        response
    };
    assert_eq!(ask(show(&authority)).expect("a response").body, b"hidden");
    let error = ask(None).expect_err("no certificate");
    insta::assert_snapshot!(error, @"TLS: it demands a client certificate");
    assert!(!error.is_unreachable());
    let error = ask(show(&stranger)).expect_err("another certificate");
    assert!(matches!(error, RequestError::ClientCertificate(_)), "{error:?}");
}

#[test]
fn certificates_come_from_the_places_that_a_target_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = rcgen::generate_simple_self_signed(vec!["client.example".to_owned()]).expect("a certificate");
    let place = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        serde_json::json!({"name": name, "from_file": path})
    };
    let cert = place("cert", &pair.cert.pem());
    let key = place("key", &pair.signing_key.serialize_pem());
    let read = |tls: serde_json::Value| {
        let target = serde_json::json!({
            "name": "t", "kind": "endpoint", "command": [], "env": [], "ready_timeout_ns": "1", "hardware": {}, "tls": tls,
        });
        target_tls(&serde_json::from_value(target).expect("a target"))
    };
    let settings = read(serde_json::json!({"ca": cert, "client": {"cert": cert, "key": key}})).expect("readable");
    assert_eq!((settings.roots.len(), settings.client.is_some(), settings.accepts_any_certificate), (1, true, false));
    let absent = serde_json::json!({"name": "key", "from_env": "ASSAY_TEST_NO_SUCH_VARIABLE"});
    let error = read(serde_json::json!({"client": {"cert": cert, "key": absent}})).expect_err("no key");
    insta::assert_snapshot!(error, @"`tls` names the environment variable `ASSAY_TEST_NO_SUCH_VARIABLE`, which is not set");
    assert_eq!(error.headline("target `t`"), "the certificates of target `t` cannot be used");
    assert!(read(serde_json::json!({"client": {"cert": key, "key": key}})).is_err());
}

#[test]
fn connect_and_handshake_share_one_time() {
    // The system accepts the connection, and no program ever responds to the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let began = std::time::Instant::now();
    let error = client().get(&url, LONG).expect_err("no handshake");
    insta::assert_snapshot!(error, @"no connection within 4s, TLS handshake included");
    assert!(error.is_unreachable());
    assert!(began.elapsed() < 2 * CONNECT_TIME, "{:?}", began.elapsed());
    let request = JsonRequest { is_streamed: true, request_id: 1, headers: &[], body: b"{}" };
    let error = client().post_json(&url, &request, SHORT.time).expect_err("no handshake");
    insta::assert_snapshot!(error, @"no response within 50ms");
}

#[test]
fn a_path_goes_below_the_address() {
    assert_eq!(endpoint_url("http://a:1", "/v1/models"), "http://a:1/v1/models");
    assert_eq!(endpoint_url("http://a:1/", "/health"), "http://a:1/health");
    assert_eq!(endpoint_url("https://a/llama/?key=1", "/metrics"), "https://a/llama/metrics?key=1");
}

#[test]
fn a_version_at_the_end_of_an_address_is_not_doubled() {
    assert_eq!(endpoint_url("http://a:1/v1", "/v1/models"), "http://a:1/v1/models");
    assert_eq!(
        endpoint_url("http://a:1/v1/", "/metrics"),
        "http://a:1/metrics",
        "what is no interface stands beside the version"
    );
    assert_eq!(endpoint_url("https://a/openai/v1?key=1", "/v1/models"), "https://a/openai/v1/models?key=1");
}

#[test]
fn a_server_at_a_unix_socket_is_asked_like_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server.sock");
    let url = endpoint_url(&format!("unix:{}:/v1", path.display()), "/v1/models");
    assert_eq!(url, format!("unix:{}:/v1/models", path.display()));
    let error = client().get(&url, LONG).expect_err("nobody");
    assert!(error.is_unreachable(), "{error}");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut head = String::new();
        let mut byte = [0];
        while !head.ends_with("\r\n\r\n") && stream.read(&mut byte).expect("a byte") == 1 {
            head.push(char::from(byte[0]));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere").expect("sent");
        drop(stream);
        // The next one gets no response until it leaves.
        let (mut silent, _) = listener.accept().expect("a connection");
        let _ = silent.read_to_end(&mut Vec::new());
        head
    });
    assert_eq!(client().get(&url, LONG).expect("a response").body, b"here");
    let error = client().get(&url, SHORT).expect_err("no response");
    insta::assert_snapshot!(error, @"no response within 50ms");
    let head = server.join().expect("no panic");
    assert!(head.starts_with("GET /v1/models HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("\r\nhost: localhost\r\n"), "{head}");
    for bad in ["unix:", "unix:a", "unix:/a:v1", "unix:/a:/v 1"] {
        assert!(matches!(client().get(bad, LONG), Err(RequestError::Address(_))), "{bad}");
    }
}

#[test]
fn only_an_address_is_asked() {
    for bad in ["", "a", "/health", "ftp://a/", "http://", "http://u:p@a/", "http://a b/", "file:///etc/passwd"] {
        assert!(matches!(client().get(bad, LONG), Err(RequestError::Address(_))), "{bad}");
    }
    assert!(client().get(&format!("http://{}", "a".repeat(100_000)), SHORT).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_sent_is_a_response_or_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..300), head in any::<bool>()) {
        let bytes = if head { [b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes].concat() } else { bytes };
        let _ = get_reply(Reply::raw(bytes), LONG);
    }

    #[test]
    fn whatever_an_address_is_it_is_read_or_refused(url in "(https?://)?\\PC{0,60}", path in "/[!-~]{0,20}") {
        let _ = check_url(&endpoint_url(&url, &path));
    }
}
