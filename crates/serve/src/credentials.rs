//! Secrets of identities: a folder with one file for each, which is the form of a mounted Kubernetes Secret.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use assay_failure::{ErrorCode, Failure};
use assay_manifest::Digest;
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

use crate::identity::Identity;

/// The fewest characters of a secret: a shorter one can be guessed.
const MIN_SECRET: usize = 16;
/// The largest file of a secret that is read.
const MAX_SECRET_BYTES: u64 = 4 << 10;
/// The number of random bytes of which a generated secret is the digest.
const MADE_BYTES: usize = 32;

/// The folder of secrets. A secret is read for each request, so a change takes effect at once.
#[derive(Clone, Debug)]
pub(crate) struct Credentials(PathBuf);

impl Credentials {
    /// Opens the folder at `path`, which must hold a secret of at least one identity. Returns the identities that have one.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Identity>), Failure> {
        let folder = Self(path.to_owned());
        let mut known = Vec::new();
        for identity in Identity::all() {
            if folder.secret(identity)?.is_some() {
                known.push(identity);
            }
        }
        if known.is_empty() {
            let names: Vec<_> = Identity::all().map(|identity| identity.to_string()).collect();
            let none = format!("`{}` has no secret of any identity", path.display());
            return Err(Failure::new(ErrorCode::Credentials, none).hint(format!(
                "it is a folder with a file for each identity that may ask ({}); --make-credentials makes them",
                names.join(", ")
            )));
        }
        Ok((folder, known))
    }

    /// Creates the folder, and a secret for each identity that has none. Existing secrets stay.
    pub(crate) fn make(path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| unusable(path, &error);
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
        made.map_err(failed)?;
        for identity in Identity::all() {
            let mut secret = [0; MADE_BYTES];
            getrandom::fill(&mut secret).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
            let text = Digest::compute(&secret).hex();
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(identity.to_string())) {
                Ok(mut file) => file.write_all(text.as_bytes()).map_err(failed)?,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn secret(&self, identity: Identity) -> Result<Option<SecretKey>, Failure> {
        let path = self.0.join(identity.to_string());
        let mut text = String::new();
        match File::open(&path).and_then(|file| file.take(MAX_SECRET_BYTES).read_to_string(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&path, &error)),
        }
        let secret = text.trim();
        if secret.len() < MIN_SECRET {
            let short = format!("the secret in `{}` has fewer than {MIN_SECRET} characters", path.display());
            return Err(Failure::new(ErrorCode::Credentials, short)
                .hint("a secret that can be guessed is none; 32 random characters are well"));
        }
        Ok(Some(SecretKey::from(secret)))
    }
}

#[async_trait::async_trait]
impl S3Auth for Credentials {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        // The name comes from the client: it is compared with the known identities, and never becomes a path itself.
        let identity: Identity = access_key.parse().map_err(|()| s3_error!(InvalidAccessKeyId, "no identity has this name"))?;
        match self.secret(identity) {
            Ok(Some(secret)) => Ok(secret),
            Ok(None) => Err(s3_error!(InvalidAccessKeyId, "this identity has no secret here")),
            Err(failure) => {
                tracing::error!(%failure, "a secret cannot be read");
                Err(s3_error!(InternalError, "the secret cannot be read"))
            }
        }
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::CredentialsFile, format!("cannot use `{}`", path.display())).because(error)
}
