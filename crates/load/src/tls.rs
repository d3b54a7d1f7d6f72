//! TLS: which certificates are accepted, which one the client shows, and the configuration of the connections of a trial.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{AlertDescription, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

use crate::Error;

/// The one protocol that the client offers in the handshake.
const ALPN: &[u8] = b"http/1.1";

/// The most certificates of one PEM text.
const MAX_CERTIFICATES: usize = 1000;

/// The certificates that a client accepts, and the one that it shows.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// Certificate authorities that are trusted besides the system's.
    pub roots: Vec<CertificateDer<'static>>,
    /// True if any certificate is accepted, also one that no authority has signed: anyone on the way could then be the endpoint.
    pub accepts_any_certificate: bool,
    /// The certificate that is shown to a server that demands one (mutual TLS).
    pub client: Option<ClientCertificate>,
}

/// A certificate of a client, with the certificates that lead to its authority, and its private key. The key is never printed.
#[derive(Clone)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl ClientCertificate {
    /// Parses certificates, the client's own first, and a private key (PKCS #8, PKCS #1 or SEC 1), both in PEM. Both may stand in one
    /// text.
    ///
    /// # Errors
    /// If there is no certificate or no key, as in one that is encrypted, or if the key is not that of the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, Error> {
        let chain = parse_certificates(certificates).map_err(|reason| refuse(&format!("the client certificate {reason}")))?;
        let no_key = "the key of the client certificate is no private key in PEM; one that is encrypted cannot be used";
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| refuse(&no_key))?;
        let parsed = Self { chain, key: Arc::new(key) };
        TlsSettings { client: Some(parsed.clone()), accepts_any_certificate: true, ..TlsSettings::default() }.client_config()?;
        Ok(parsed)
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// Parses all certificates of a text in PEM, of which there has to be one.
///
/// # Errors
/// A phrase that follows the name of the text.
fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let parsed = CertificateDer::pem_slice_iter(pem).take(MAX_CERTIFICATES + 1).collect::<Result<Vec<_>, _>>();
    let certificates = parsed.map_err(|error| format!("is no PEM: {error}"))?;
    match certificates.len() {
        0 => Err("has no certificate in PEM".to_owned()),
        1..=MAX_CERTIFICATES => Ok(certificates),
        _ => Err(format!("has more than {MAX_CERTIFICATES} certificates")),
    }
}

/// Returns what is wrong with the certificate that a client showed, or did not show, if the server ended the connection for that
/// (RFC 8446, section 6.2). In TLS 1.3 the alert may come after the handshake. Servers of TLS 1.2 without an alert of their own for a
/// missing certificate send `handshake_failure`, which has other reasons too.
pub fn client_certificate_problem(error: &rustls::Error) -> Option<&'static str> {
    let rustls::Error::AlertReceived(alert) = error else { return None };
    Some(match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => "it demands a client certificate",
        AlertDescription::UnknownCA => "it does not know the authority of the client certificate",
        AlertDescription::DecryptError => "it cannot verify the client certificate, or the signature made with its key",
        AlertDescription::CertificateExpired => "the client certificate has expired, or is not yet valid",
        AlertDescription::CertificateRevoked => "the client certificate is revoked",
        AlertDescription::BadCertificate | AlertDescription::UnsupportedCertificate | AlertDescription::CertificateUnknown => {
            "it does not accept the client certificate"
        }
        _ => return None,
    })
}

fn refuse(error: &dyn fmt::Display) -> Error {
    Error::Tls { reason: error.to_string() }
}

impl TlsSettings {
    /// Trusts the certificate authorities of a text in PEM besides the system's.
    ///
    /// # Errors
    /// If the text has no certificate, or is no PEM.
    pub fn with_roots_pem(mut self, pem: &[u8]) -> Result<Self, Error> {
        let roots = parse_certificates(pem).map_err(|reason| refuse(&format!("the certificate authority {reason}")))?;
        self.roots.extend(roots);
        Ok(self)
    }

    /// Returns the configuration of a client that offers HTTP/1.1 only.
    ///
    /// # Errors
    /// If the certificate authorities of the system cannot be used, or if the key of the client is not that of its certificate.
    pub fn client_config(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = if self.accepts_any_certificate {
            Arc::new(AnyCertificate(provider.signature_verification_algorithms))
        } else {
            let roots = self.roots.iter().cloned();
            Arc::new(Verifier::new_with_extra_roots(roots, provider.clone()).map_err(|error| refuse(&error))?)
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(&error))?;
        // The builder calls every custom verifier "dangerous", the platform's own included.
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some(client) => builder
                .with_client_auth_cert(client.chain.clone(), client.key.clone_key())
                .map_err(|error| refuse(&format!("the client certificate and its key cannot be used: {error}")))?,
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }
}

/// The TLS configuration of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// Configures TLS for a host. Unless it `resumes` sessions, every connection has a full handshake.
    pub(crate) fn new(settings: &TlsSettings, host: &str, resumes: bool) -> Result<Self, Error> {
        let mut config = settings.client_config()?;
        if !resumes {
            config.resumption = Resumption::disabled();
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| refuse(&error))?;
        Ok(Self { config: Arc::new(config), name })
    }
}

/// A verifier that accepts any certificate. The server still proves that it has the certificate's key.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
