//! `assay verify-bundle`: checks a Sigstore bundle of any signer over one file, with a key.
//!
//! The arguments are those of the client of Sigstore's conformance suite, so that the suite can be run against it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use assay_envelope::{ForeignBundleError, MAX_BUNDLE_BYTES, MAX_KEY_BYTES, PublicKey, check_bundle};
use assay_manifest::{Digest, Hasher};
use assay_stage::{ErrorCode, Exit, Failure};

use crate::output;

/// Verify a Sigstore bundle over a file, with a public key. Certificates and transparency logs are not supported.
#[derive(clap::Args)]
pub(crate) struct VerifyBundle {
    /// Use Sigstore's staging instance; no effect with a key
    #[arg(long)]
    staging: bool,
    /// The bundle
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    /// The public key: PEM text, ECDSA P-256
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The identity of a certificate: not supported
    #[arg(long, value_name = "IDENTITY", conflicts_with = "key")]
    certificate_identity: Option<String>,
    /// The issuer of that identity: not supported
    #[arg(long, value_name = "URL", conflicts_with = "key")]
    certificate_oidc_issuer: Option<String>,
    /// Trusted keys of logs and timestamp authorities; not used
    #[arg(long, value_name = "FILE")]
    trusted_root: Option<PathBuf>,
    /// The signed file, or its digest
    #[arg(value_name = "FILE|sha256:HEX")]
    file: String,
}

impl VerifyBundle {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let Some(key) = &self.key else {
            return Err(self.without_key());
        };
        let key = read_key(key)?;
        let file = digest_of(&self.file)?;
        let bundle = read(&self.bundle, MAX_BUNDLE_BYTES)?;
        let checked = check_bundle(&bundle, &key, file).map_err(|error| refusal(&error))?;
        let what = match &checked.predicate_type {
            Some(predicate) => format!("a statement of type {predicate} about"),
            None => "the file with".to_owned(),
        };
        output::line(format!("ok  {} signed {what} {file}", key.fingerprint()));
        for (count, evidence) in [(checked.log_entries, "log entries"), (checked.timestamps, "timestamps")] {
            if count > 0 {
                output::line(format!("--  {evidence}: {count} present, not checked"));
            }
        }
        if self.staging || self.trusted_root.is_some() {
            output::line("--  trusted root: not used, because no log and no authority is checked");
        }
        Ok(Exit::Done)
    }

    fn without_key(&self) -> Failure {
        let failure = if self.certificate_identity.is_some() || self.certificate_oidc_issuer.is_some() {
            let message = "certificates need a certificate authority and a log to check against, which this build does not have";
            Failure::new(ErrorCode::KeylessBundle, message)
        } else {
            Failure::new(ErrorCode::NoKey, "nothing says by which key the bundle should be signed")
        };
        failure.hint("give the signer's public key with `--key FILE`")
    }
}

fn refusal(error: &ForeignBundleError) -> Failure {
    let failure = Failure::from_error(error.code(), error);
    match error {
        ForeignBundleError::Keyless => failure.hint("verify it with cosign"),
        ForeignBundleError::BadSignature(_) => {
            failure.hint("is `--key` the signer's? If it is, the bundle was changed: fetch it again")
        }
        _ => failure,
    }
}

fn read_key(path: &Path) -> Result<PublicKey, Failure> {
    let bytes = read(path, MAX_KEY_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    PublicKey::from_pem(&text).map_err(|error| {
        Failure::new(ErrorCode::PublicKey, format!("`{}` cannot be used as a key", path.display())).because(&error)
    })
}

/// Returns the digest of the file, or the digest that is named: the latter only if it is complete and no file has that name.
fn digest_of(name: &str) -> Result<Digest, Failure> {
    let path = Path::new(name);
    match name.parse::<Digest>() {
        Ok(digest) if !path.exists() => Ok(digest),
        _ => hash(path).map_err(|error| unreadable(path, &error)),
    }
}

fn hash(path: &Path) -> std::io::Result<Digest> {
    let mut file = std::fs::File::open(path)?;
    let (mut hasher, mut buffer) = (Hasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

/// Reads at most one byte more than the limit, so that the check of the size refuses a longer file.
fn read(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", path.display())).because(error)
}
