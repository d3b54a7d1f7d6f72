//! TLS: which certificates are accepted, and the configuration of the connections of a trial.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

use crate::Error;

/// The one protocol that the client offers in the handshake.
const ALPN: &[u8] = b"http/1.1";

/// The certificates that a client accepts.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// Certificate authorities that are trusted besides the system's.
    pub roots: Vec<CertificateDer<'static>>,
    /// True if any certificate is accepted, also one that no authority has signed: anyone on the way could then be the endpoint.
    pub accepts_any_certificate: bool,
}

impl TlsSettings {
    /// Returns the configuration of a client that offers HTTP/1.1 only.
    ///
    /// # Errors
    /// If the certificate authorities of the system cannot be used.
    pub fn client_config(&self) -> Result<ClientConfig, Error> {
        let refuse = |error: &dyn std::fmt::Display| Error::Tls { reason: error.to_string() };
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
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
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
        let name = ServerName::try_from(host.to_owned()).map_err(|error| Error::Tls { reason: error.to_string() })?;
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
