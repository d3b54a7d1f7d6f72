//! Where bytes are found by digest: a store, or a published folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use assay_manifest::{Digest, Hasher};
use assay_stage::{Exit, Failure};
use assay_store::{Error, Store};

/// The most files of a published folder.
const MAX_FILES: usize = 100_000;

/// Bytes by digest. Whatever is given has been hashed: its digest is the one that was asked for.
pub trait Blobs {
    /// The bytes of a digest, or nothing where they are not there. Bytes that are there and do not match are a failure.
    fn get(&self, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>, Failure>;

    /// Hashes what is there under a digest without keeping it, and gives its size. Nothing where it is not there.
    fn check(&self, digest: &Digest) -> Result<Option<u64>, Failure>;
}

/// The blobs of a store.
pub struct StoreBlobs(pub Store);

impl Blobs for StoreBlobs {
    fn get(&self, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
        match self.0.get(digest, limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::Absent { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self, digest: &Digest) -> Result<Option<u64>, Failure> {
        Ok(self.0.check(digest)?)
    }
}

/// The files of a published folder, found by what they contain: their names do not matter.
pub struct FolderBlobs(BTreeMap<Digest, PathBuf>);

impl FolderBlobs {
    /// Hashes every file of a folder.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let mut files = BTreeMap::new();
        let mut pending = vec![folder.to_owned()];
        while let Some(folder) = pending.pop() {
            let entries = std::fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))?;
            for entry in entries {
                let entry = entry.map_err(|error| unreadable(&folder, &error))?;
                let kind = entry.file_type().map_err(|error| unreadable(&entry.path(), &error))?;
                // A link could point anywhere; what it points to is not part of the folder.
                if kind.is_dir() {
                    pending.push(entry.path());
                } else if kind.is_file() {
                    files.insert(digest_of(&entry.path(), &mut std::io::sink())?, entry.path());
                }
                if files.len() + pending.len() > MAX_FILES {
                    let message = format!("`{}` holds more than {MAX_FILES} files", folder.display());
                    return Err(Failure::usage("too_many_files", message));
                }
            }
        }
        Ok(Self(files))
    }

    /// The digests of all files, with their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &PathBuf)> {
        self.0.iter()
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, "unreadable", format!("cannot read `{}`", path.display())).because(error)
}

fn digest_of(path: &Path, copy: &mut dyn std::io::Write) -> Result<Digest, Failure> {
    let mut file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer).map_err(|error| unreadable(path, &error))?;
        if read == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..read]);
        copy.write_all(&buffer[..read]).map_err(|error| unreadable(path, &error))?;
    }
}

impl Blobs for FolderBlobs {
    fn get(&self, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
        let Some(path) = self.0.get(digest) else { return Ok(None) };
        let size = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?.len();
        if size > limit {
            let message = format!("`{}` has {size} bytes, more than the limit of {limit}", path.display());
            return Err(Failure::verification("artifact_too_large", message));
        }
        let mut bytes = Vec::new();
        let found = digest_of(path, &mut bytes)?;
        if found != *digest {
            let message = format!("`{}` changed while it was read: it was {digest} and is {found}", path.display());
            return Err(Failure::verification("artifact_corrupt", message));
        }
        Ok(Some(bytes))
    }

    fn check(&self, digest: &Digest) -> Result<Option<u64>, Failure> {
        let Some(path) = self.0.get(digest) else { return Ok(None) };
        Ok(Some(std::fs::metadata(path).map_err(|error| unreadable(path, &error))?.len()))
    }
}
