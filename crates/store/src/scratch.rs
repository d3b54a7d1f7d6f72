//! A private folder for bytes on their way into or out of the store, with a size limit.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use assay_manifest::{Digest, Hasher};

use crate::{Error, Result};

/// The number of bytes moved at a time: large enough that system calls cost nothing compared with the hashing.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// The first part of a scratch folder's name.
pub(crate) const SCRATCH_PREFIX: &str = "assay-scratch-";

/// A private folder (mode 0700) that is removed with everything in it when the last clone and the last file are dropped.
#[derive(Clone, Debug)]
pub struct Scratch(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: tempfile::TempDir,
    limit: u64,
    used: AtomicU64,
    next: AtomicU64,
    /// The folder itself, locked while it is in use: a folder that a killed process left is not. `None` if the file system has no
    /// locks.
    _lock: Option<File>,
}

impl Scratch {
    /// Creates a scratch folder in the system's folder for temporary files that holds at most `limit` bytes.
    pub fn new(limit: u64) -> Result<Self> {
        Self::new_in(&std::env::temp_dir(), limit)
    }

    /// Creates a scratch folder inside `parent`, which must exist, that holds at most `limit` bytes.
    pub fn new_in(parent: &Path, limit: u64) -> Result<Self> {
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(SCRATCH_PREFIX).permissions(private).tempdir_in(parent);
        let folder = folder.map_err(|source| Error::Scratch { path: parent.to_owned(), source })?;
        let lock = File::open(folder.path()).ok().filter(|folder| folder.try_lock_shared().is_ok());
        Ok(Self(Arc::new(Shared { folder, limit, used: AtomicU64::new(0), next: AtomicU64::new(0), _lock: lock })))
    }

    /// Returns the folder. It may hold other files as well; only bytes that go through the store are counted.
    pub fn folder(&self) -> &Path {
        self.0.folder.path()
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Returns the number of bytes that it holds now.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    pub(crate) fn writer(&self) -> Result<ScratchWriter> {
        let name = format!("{:08x}", self.0.next.fetch_add(1, Ordering::Relaxed));
        let path = self.folder().join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|source| Error::Scratch { path: path.clone(), source })?;
        let out = ScratchFile { path, size: 0, shared: Arc::clone(&self.0) };
        Ok(ScratchWriter { file, hasher: Hasher::new(), out })
    }

    /// Writes all bytes of `reader` into a new file while hashing them.
    pub(crate) fn spool(&self, reader: &mut dyn Read, what: &str) -> Result<(Digest, ScratchFile)> {
        let mut writer = self.writer()?;
        read_chunks(reader, u64::MAX, |chunk| writer.append(chunk), |source| Error::Read { what: what.to_owned(), source })?;
        Ok(writer.finish())
    }
}

/// Feeds all bytes of `reader` to `sink`, a chunk at a time, and returns their number. `expected` is the likely number.
pub(crate) fn read_chunks(
    reader: &mut dyn Read,
    expected: u64,
    mut sink: impl FnMut(&[u8]) -> Result<()>,
    unreadable: impl Fn(io::Error) -> Error,
) -> Result<u64> {
    // One byte more than expected shows the end of a small file without a larger buffer.
    let mut buffer =
        vec![0; usize::try_from(expected).map_or(CHUNK_BYTES, |expected| expected.saturating_add(1).min(CHUNK_BYTES))];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                sink(buffer.get(..count).unwrap_or(&buffer))?;
                total += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
}

/// A file of a [`Scratch`] folder, mode 0600. When it is dropped, it is removed and its bytes count as free again.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
    size: u64,
    shared: Arc<Shared>,
}

impl ScratchFile {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads its bytes again and returns their digest.
    pub(crate) fn digest(&self) -> Result<Digest> {
        let mut hasher = Hasher::new();
        let unreadable = |source| Error::Scratch { path: self.path.clone(), source };
        let add = |chunk: &[u8]| {
            hasher.update(chunk);
            Ok(())
        };
        read_chunks(&mut self.open()?, self.size, add, unreadable)?;
        Ok(hasher.finish())
    }

    /// Opens it for reading.
    pub fn open(&self) -> Result<File> {
        File::open(&self.path).map_err(|source| Error::Scratch { path: self.path.clone(), source })
    }

    /// Moves it out of the scratch folder to `target`, which must not exist and must be on the same file system.
    pub fn persist(self, target: &Path) -> Result<()> {
        std::fs::hard_link(&self.path, target).map_err(|source| Error::Scratch { path: target.to_owned(), source })
    }
}

impl AsRef<Path> for ScratchFile {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // If the file cannot be removed, it is removed with its folder.
        let _ = std::fs::remove_file(&self.path);
        self.shared.used.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// A writer of a scratch file that hashes the bytes it writes.
pub(crate) struct ScratchWriter {
    file: File,
    hasher: Hasher,
    out: ScratchFile,
}

impl ScratchWriter {
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.reserve(bytes.len() as u64)?;
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(|source| Error::Scratch { path: self.out.path.clone(), source })
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let Shared { used, limit, .. } = &*self.out.shared;
        let grown = |used: u64| used.checked_add(bytes).filter(|sum| sum <= limit);
        let reserved = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        reserved.map_err(|_| Error::ScratchFull { limit: *limit })?;
        self.out.size += bytes;
        Ok(())
    }

    pub(crate) fn finish(self) -> (Digest, ScratchFile) {
        (self.hasher.finish(), self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(scratch: &Scratch, bytes: &[u8]) -> Result<ScratchFile> {
        scratch.spool(&mut &*bytes, "bytes").map(|(_, file)| file)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    }

    #[test]
    fn scratch_is_private_and_goes_with_its_owner() {
        let scratch = Scratch::new(100).expect("a scratch folder");
        let file = spool(&scratch, b"secret").expect("spooled");
        assert_eq!((mode(scratch.folder()), mode(file.path())), (0o700, 0o600));
        assert_eq!(std::fs::read(&file).expect("readable"), b"secret");
        let folder = scratch.folder().to_owned();
        drop(scratch);
        assert!(file.path().exists(), "a file keeps its folder");
        drop(file);
        assert!(!folder.exists());
    }

    #[test]
    fn the_limit_holds_over_all_files_and_frees_with_them() {
        let scratch = Scratch::new(10).expect("a scratch folder");
        let six = spool(&scratch, b"sixsix").expect("six bytes fit");
        let four = spool(&scratch, b"four").expect("exactly full");
        assert_eq!(scratch.used(), 10);
        let error = spool(&scratch, b"1").expect_err("an eleventh byte");
        insta::assert_snapshot!(error, @"the scratch folder is full: its limit is 10 bytes");
        drop(four);
        assert_eq!(scratch.used(), 6);
        spool(&scratch, b"1234").expect("freed bytes are free");
        drop(six);
        assert_eq!(scratch.used(), 0);
        assert_eq!(std::fs::read_dir(scratch.folder()).expect("its folder").count(), 0, "refused files leave nothing");
    }

    #[test]
    fn a_reader_s_failure_names_what_was_read() {
        struct BrokenReader;
        impl Read for BrokenReader {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("pulled plug"))
            }
        }
        let scratch = Scratch::new(10).expect("a scratch folder");
        let error = scratch.spool(&mut BrokenReader, "the log of trial 1").expect_err("broken");
        insta::assert_snapshot!(error, @"failed to read the log of trial 1");
        assert_eq!(scratch.used(), 0);
    }
}
