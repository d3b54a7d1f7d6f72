//! The certificates of connections to a target: a definition names them, and this is the one place that reads them.

use assay_load::{ClientCertificate, TlsSettings};
use assay_manifest::{EnvVar, Target, TargetTls};

use crate::HeaderError;
use crate::headers::missing_place;

/// A header or a certificate of a target that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A header cannot be sent.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A text in PEM cannot be read.
    #[error("`tls` names {place}")]
    Absent {
        /// The place, and what is wrong with it.
        place: String,
        /// The error of the place, if it adds anything.
        source: Option<std::io::Error>,
    },
    /// A text is no certificate or key, or the two do not belong together.
    #[error("{0}")]
    Pem(assay_load::Error),
}

impl CredentialError {
    /// Returns the message of a failure of `owner`, such as a target, whose cause is this error.
    pub fn headline(&self, owner: &str) -> String {
        match self {
            Self::Header(_) => format!("the headers of {owner} cannot be sent"),
            Self::Absent { .. } | Self::Pem(_) => format!("the certificates of {owner} cannot be used"),
        }
    }

    /// Returns what to do about a value that is there and cannot be used; `None` if the value is missing.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Header(HeaderError::Value(_)) => Some(
                "a header can hold visible ASCII characters, spaces and tabs: correct the value at the place that the definition names",
            ),
            Self::Header(HeaderError::Name(_)) => Some("correct the name of the header in the definition"),
            Self::Pem(_) => Some("correct the text in PEM at the place that the definition names"),
            Self::Header(HeaderError::Absent { .. }) | Self::Absent { .. } => None,
        }
    }
}

/// Reads the certificates of connections to a target of a plan.
///
/// # Errors
/// If a text cannot be read, has no certificate or key, or has a key that is not the certificate's.
pub fn target_tls(target: &Target) -> Result<TlsSettings, CredentialError> {
    read_tls(target.tls.as_ref(), target.insecure_skip_tls_verify)
}

/// Reads certificates from their sources. If any certificate of the server is accepted, its authorities do not matter.
///
/// # Errors
/// As of [`target_tls`].
pub fn read_tls(tls: Option<&TargetTls>, accepts_any_certificate: bool) -> Result<TlsSettings, CredentialError> {
    let mut settings = TlsSettings { accepts_any_certificate, ..TlsSettings::default() };
    let Some(tls) = tls else { return Ok(settings) };
    if let Some(ca) = &tls.ca {
        settings = settings.with_roots_pem(&read_pem(ca)?).map_err(CredentialError::Pem)?;
    }
    if let Some(client) = &tls.client {
        let (cert, key) = (read_pem(&client.cert)?, read_pem(&client.key)?);
        settings.client = Some(ClientCertificate::from_pem(&cert, &key).map_err(CredentialError::Pem)?);
    }
    Ok(settings)
}

fn read_pem(source: &EnvVar) -> Result<Vec<u8>, CredentialError> {
    use std::os::unix::ffi::OsStringExt;

    let absent = |(place, source)| CredentialError::Absent { place, source };
    assay_stage::read_value(source).map(OsStringExt::into_vec).map_err(|why| absent(missing_place(why)))
}
