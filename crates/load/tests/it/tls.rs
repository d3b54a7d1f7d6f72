//! The same with TLS, with an authority of the test's own. The key signs for no one else; the files were made with `openssl`.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use assay_load::{ClientCertificate, Connections, TlsSettings, Trial};
use assay_record::Outcome;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::server::{Server, good};
use crate::support::{RecordingSink, closed, indices, numbered, run_trial, trial};

const AUTHORITY: &[u8] = include_bytes!("tls/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key");

fn server() -> Server {
    server_noting(Arc::default())
}

/// Starts a server that notes the kind of each handshake.
fn server_noting(kinds: Arc<Mutex<Vec<Option<HandshakeKind>>>>) -> Server {
    server_of(&[], kinds, None)
}

/// A client certificate that is its own authority, and its key, both in PEM.
fn client_pem() -> (String, String) {
    let pair = rcgen::generate_simple_self_signed(vec!["client.example".to_owned()]).expect("a certificate");
    (pair.cert.pem(), pair.signing_key.serialize_pem())
}

/// Returns the verifier of a server that demands this certificate.
fn demanding(certificate: &str) -> Arc<dyn ClientCertVerifier> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier")
}

/// Returns settings that trust the authority of the test, and show this certificate.
fn showing(certificate: &str, key: &str) -> TlsSettings {
    let client = ClientCertificate::from_pem(certificate.as_bytes(), key.as_bytes()).expect("a pair");
    TlsSettings { client: Some(client), ..trusting() }
}

/// Starts one that speaks these protocols by ALPN, and demands a client certificate if there is a verifier of it.
fn server_of(
    protocols: &[&[u8]],
    kinds: Arc<Mutex<Vec<Option<HandshakeKind>>>>,
    client: Option<Arc<dyn ClientCertVerifier>>,
) -> Server {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let builder = match client {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let mut config = builder.with_single_cert(vec![certificate], key).expect("a key that fits");
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let config = Arc::new(config);
    Server::with(good, move |stream: TcpStream| {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).expect("a connection"), stream);
        // A client that does not trust the server ends the handshake.
        let shaken: io::Result<_> = stream.conn.complete_io(&mut stream.sock);
        kinds.lock().expect("a lock").push(stream.conn.handshake_kind());
        shaken.ok().map(|_| stream)
    })
}

/// Returns settings that trust the authority of the test.
fn trusting() -> TlsSettings {
    TlsSettings::default().with_roots_pem(AUTHORITY).expect("an authority")
}

fn url(server: &Server) -> String {
    format!("https://localhost:{}", server.address.port())
}

#[test]
fn requests_go_over_tls_to_a_server_that_is_trusted() {
    let server = server();
    let mut trial = closed(&url(&server), 2);
    trial.endpoint = trial.endpoint.with_tls(trusting());
    let (finished, kept) = run_trial(&trial, &mut numbered(30));
    assert_eq!(indices(&kept, Outcome::Ok), (0..30).collect::<Vec<_>>(), "{:?}", kept.records[0].error);
    assert_eq!(kept.responses[7], Some("ab".to_owned()));
    assert!(finished.client.connections_opened <= 4);
    assert!(kept.records[0].connect_end_ns > kept.records[0].connect_start_ns);
}

#[test]
fn a_new_connection_for_each_request_has_a_full_handshake() {
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let server = server_noting(kinds.clone());
    let trial = closed(&url(&server), 1);
    let endpoint = trial.endpoint.clone().with_tls(trusting());
    let trial = Trial { endpoint, connections: Connections::Never, ..trial };
    let (_, kept) = run_trial(&trial, &mut numbered(5));
    assert_eq!(indices(&kept, Outcome::Ok), (0..5).collect::<Vec<_>>(), "{:?}", kept.records[0].error);
    assert_eq!(kinds.lock().expect("a lock").as_slice(), [Some(HandshakeKind::Full); 5]);
    for record in &kept.records {
        assert!(record.connect_end_ns > record.connect_start_ns && record.sent_ns >= record.connect_end_ns);
        assert!(record.ttft_ns() > record.connect_end_ns.map(|end| end - record.connect_start_ns.expect("a start")));
    }
}

#[test]
fn a_server_that_is_not_trusted_is_a_connect_error() {
    let server = server();
    let (_, kept): (_, RecordingSink) = run_trial(&trial(&url(&server)), &mut numbered(2));
    assert_eq!(indices(&kept, Outcome::ConnectError), [0, 1]);
    let reason = kept.records[0].error.as_deref().unwrap_or_default();
    assert!(reason.contains("certificate"), "{reason}");
}

#[test]
fn a_server_that_refuses_http_1_by_alpn_is_a_connect_error_that_says_so() {
    let server = server_of(&[b"h2"], Arc::default(), None);
    let mut trial = trial(&url(&server));
    trial.endpoint = trial.endpoint.with_tls(trusting());
    let (_, kept) = run_trial(&trial, &mut numbered(1));
    assert_eq!(indices(&kept, Outcome::ConnectError), [0]);
    let reason = kept.records[0].error.as_deref().unwrap_or_default();
    assert!(reason.contains("the server does not speak HTTP/1.1 over TLS"), "{reason}");
}

#[test]
fn a_server_that_demands_a_client_certificate_gets_it_on_every_connection() {
    let (certificate, key) = client_pem();
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let server = server_of(&[], kinds.clone(), Some(demanding(&certificate)));
    let trial = closed(&url(&server), 1);
    let endpoint = trial.endpoint.clone().with_tls(showing(&certificate, &key));
    let trial = Trial { endpoint, connections: Connections::Never, ..trial };
    let (_, kept) = run_trial(&trial, &mut numbered(3));
    assert_eq!(indices(&kept, Outcome::Ok), [0, 1, 2], "{:?}", kept.records[0].error);
    assert_eq!(kinds.lock().expect("a lock").as_slice(), [Some(HandshakeKind::Full); 3]);
}

#[test]
fn without_the_demanded_client_certificate_no_request_succeeds() {
    let (certificate, _) = client_pem();
    let (other, other_key) = client_pem();
    let server = server_of(&[], Arc::default(), Some(demanding(&certificate)));
    for settings in [trusting(), showing(&other, &other_key)] {
        let mut trial = trial(&url(&server));
        trial.endpoint = trial.endpoint.with_tls(settings);
        let (_, kept) = run_trial(&trial, &mut numbered(2));
        assert_eq!(indices(&kept, Outcome::Ok), [0; 0]);
        assert_eq!(kept.records.len(), 2);
    }
}

#[test]
fn a_client_certificate_needs_its_own_key() {
    let (certificate, key) = client_pem();
    let (_, other_key) = client_pem();
    let parsed = |certificate: &str, key: &str| ClientCertificate::from_pem(certificate.as_bytes(), key.as_bytes());
    let error = |certificate: &str, key: &str| parsed(certificate, key).expect_err("refused").to_string();
    assert!(error(&certificate, &other_key).contains("the client certificate and its key cannot be used"));
    assert!(error("", &key).contains("the client certificate has no certificate in PEM"));
    assert!(error(&key, &key).contains("the client certificate has no certificate in PEM"));
    assert!(error(&certificate, "").contains("no private key in PEM"));
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert!(error(&certificate, &encrypted).contains("encrypted"));
    let both = format!("{certificate}{key}");
    let shown = format!("{:?}", parsed(&both, &both).expect("both are in one text"));
    assert_eq!(shown, "ClientCertificate { certificates: 1, .. }");
    assert!(TlsSettings::default().with_roots_pem(b"").is_err() && TlsSettings::default().with_roots_pem(AUTHORITY).is_ok());
}

#[test]
fn a_plain_server_under_an_https_address_is_a_connect_error() {
    let server = Server::with(good, |mut stream: TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        None::<TcpStream>
    });
    let (_, kept) = run_trial(&trial(&url(&server)), &mut numbered(1));
    assert_eq!(indices(&kept, Outcome::ConnectError), [0], "{:?}", kept.records[0]);
}
