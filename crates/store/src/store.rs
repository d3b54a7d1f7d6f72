//! The store as its users see it: blobs by digest, pointers by path.

use std::io::Read;
use std::path::Path as FilePath;
use std::sync::Arc;

use assay_manifest::{Digest, Hasher};
use object_store::path::Path;

use crate::backend::{Backend, Durability, OpenMode, WriteMode};
use crate::{Area, Error, Result, Scratch, ScratchFile, layout};

/// The largest pointer in bytes. Pointers name blobs; anything larger should be a blob.
pub const MAX_POINTER_BYTES: u64 = 1024 * 1024;
/// The most pointers in one listing. A run has one for each attempt of each trial and shard, so a million leaves room.
pub const MAX_LISTED: usize = 1_000_000;

/// A content-addressed store. Cheap to clone; a clone is another handle on the same store.
#[derive(Clone, Debug)]
pub struct Store(Arc<Backend>);

/// The outcome of creating a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// This call created it.
    New,
    /// It already existed, and stays as it is.
    Existing {
        /// The existing bytes.
        existing: Vec<u8>,
    },
}

/// The bytes that the store has under a blob's name.
enum StoredBlob {
    Missing,
    Intact,
    Corrupt(Digest),
}

impl Store {
    /// Opens a store, creating its folder if there is none. A bucket must exist.
    ///
    /// `uri` is `file:///absolute/path`, a plain path (relative to the working folder or absolute), `memory:` for a new store
    /// that lives as long as its handles, or `s3://bucket/prefix?endpoint=..&region=..` for a service that speaks S3, with
    /// credentials from the environment. Fails by name for an object store that this build has no backend for, and for a bucket
    /// that does not honour create-if-absent.
    pub fn open(uri: &str) -> Result<Self> {
        let store = Self(Arc::new(Backend::open(uri, OpenMode::Create)?));
        if store.0.is_untested() {
            // A file system without hard links, or an object store without conditional writes, cannot create-if-absent. This is
            // better reported now than after the first trial.
            store.check_create_if_absent()?;
        }
        Ok(store)
    }

    /// Opens an existing store. Fails if the folder or bucket is missing or holds no blobs.
    pub fn open_existing(uri: &str) -> Result<Self> {
        Backend::open(uri, OpenMode::Existing).map(|backend| Self(Arc::new(backend)))
    }

    /// Opens a store that the parent process has just used. If the service does not respond, it is retried as in the middle of a
    /// run, because its address is known to be right.
    pub fn reopen(uri: &str) -> Result<Self> {
        Backend::open(uri, OpenMode::Reopen).map(|backend| Self(Arc::new(backend)))
    }

    /// Returns the store's full name, by which another process opens it, except for `memory:`.
    pub fn uri(&self) -> &str {
        self.0.uri()
    }

    /// Returns the folder of a local store, absolute and without symbolic links.
    pub fn local_root(&self) -> Option<&FilePath> {
        self.0.folder()
    }

    /// Returns true if a symbolic link is in the place of an object or folder of a local store. What a link leads to is read as if it
    /// were there, so a link that leads to another part of the store makes that appear twice.
    pub fn is_link(&self, path: &str) -> bool {
        let found = self.local_root().and_then(|root| root.join(path).symlink_metadata().ok());
        found.is_some_and(|found| found.is_symlink())
    }

    /// Puts bytes and returns their digest, which is the blob's name.
    ///
    /// If the blob exists, its bytes are hashed, and repaired if they do not match.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::compute(bytes);
        self.put_if_missing(&digest, |path| self.0.put(path, bytes, WriteMode::Overwrite, Durability::Bytes).map(|_| ()))?;
        Ok(digest)
    }

    /// Puts the bytes of a file as they are when read. Returns their digest and size. See [`Store::put_reader`].
    pub fn put_file(&self, path: &FilePath, scratch: &Scratch) -> Result<(Digest, u64)> {
        let what = format!("`{}`", path.display());
        let mut file = std::fs::File::open(path).map_err(|source| Error::Read { what: what.clone(), source })?;
        self.put_spooled(&mut file, &what, scratch)
    }

    /// Puts all bytes of a reader. Returns their digest and size.
    ///
    /// The bytes go to `scratch` while they are hashed, and from there into the store; memory holds a few MiB of them at a time.
    pub fn put_reader(&self, mut reader: impl Read, scratch: &Scratch) -> Result<(Digest, u64)> {
        self.put_spooled(&mut reader, "the bytes to put", scratch)
    }

    fn put_spooled(&self, reader: &mut dyn Read, what: &str, scratch: &Scratch) -> Result<(Digest, u64)> {
        let (digest, file) = scratch.spool(reader, what)?;
        self.put_if_missing(&digest, |path| self.0.put_scratch(path, &file))?;
        Ok((digest, file.size()))
    }

    fn put_if_missing(&self, digest: &Digest, put: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let path = layout::blob_path(digest);
        match self.find(digest)? {
            StoredBlob::Intact if self.0.renew(&path) => return Ok(()),
            StoredBlob::Corrupt(found) => {
                tracing::warn!(%digest, %found, store = self.uri(), "corrupt blob repaired");
            }
            StoredBlob::Intact | StoredBlob::Missing => {}
        }
        put(&path)
    }

    fn find(&self, digest: &Digest) -> Result<StoredBlob> {
        Ok(match self.0.digest(&layout::blob_path(digest))? {
            None => StoredBlob::Missing,
            Some((found, _)) if found == *digest => StoredBlob::Intact,
            Some((found, _)) => StoredBlob::Corrupt(found),
        })
    }

    /// Returns the bytes of a blob of at most `limit` bytes.
    ///
    /// Fails with [`Error::Absent`], [`Error::Corrupt`] or [`Error::TooLarge`]. For blobs that may be large, use
    /// [`Store::materialise`].
    pub fn get(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>> {
        let bytes = self.read_limited(&layout::blob_path(digest), limit, || format!("blob {digest}"))?;
        let bytes = bytes.ok_or(Error::Absent { digest: *digest })?;
        check_digest(digest, Digest::compute(&bytes)).map(|()| bytes)
    }

    /// Copies a blob into a private scratch file, which is returned only if its bytes match the digest.
    ///
    /// Fails with [`Error::Absent`], [`Error::Corrupt`] or [`Error::ScratchFull`], and then leaves no file.
    pub fn materialise(&self, digest: &Digest, scratch: &Scratch) -> Result<ScratchFile> {
        let found = self.0.materialise(&layout::blob_path(digest), scratch)?;
        let (found, file) = found.ok_or(Error::Absent { digest: *digest })?;
        check_digest(digest, found).map(|()| file)
    }

    /// Hashes a blob in place and returns its size; `None` if there is no such blob.
    ///
    /// Fails with [`Error::Corrupt`] if its bytes do not match.
    pub fn check(&self, digest: &Digest) -> Result<Option<u64>> {
        Ok(self.check_keeping(digest, 0, u64::MAX)?.map(|(size, _)| size))
    }

    /// Hashes a blob in place and returns its size, and its bytes if there are at most `keep`; `None` if there is no such blob.
    ///
    /// Fails with [`Error::Corrupt`] if its bytes do not match, and with [`Error::Oversized`] if there are more than `limit`, of
    /// which the rest is not read.
    pub fn check_keeping(&self, digest: &Digest, keep: u64, limit: u64) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        let (mut hasher, mut size, mut kept) = (Hasher::new(), 0, Some(Vec::new()));
        let there = self.0.read(&layout::blob_path(digest), |chunk| {
            size += chunk.len() as u64;
            if size > limit {
                return Err(Error::Oversized { digest: *digest, limit });
            }
            hasher.update(chunk);
            kept = kept.take().filter(|_| size <= keep);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(chunk);
            }
            Ok(())
        })?;
        if !there {
            return Ok(None);
        }
        check_digest(digest, hasher.finish()).map(|()| Some((size, kept)))
    }

    /// Returns true if there is a blob of that name. Its bytes are not read.
    pub fn contains(&self, digest: &Digest) -> Result<bool> {
        self.0.info(&layout::blob_path(digest)).map(|found| found.is_some())
    }

    /// Creates a pointer if there is none at `path`. Of any number of callers, in any number of processes, exactly one gets
    /// [`CreateOutcome::New`].
    ///
    /// A path consists of ASCII letters, digits and `._-=+@`, separated by single slashes; it must not lead through another
    /// pointer.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<CreateOutcome> {
        let object = layout::pointer_path(path)?;
        if bytes.len() as u64 > MAX_POINTER_BYTES {
            return Err(Error::TooLarge { what: format!("pointer `{path}`"), limit: MAX_POINTER_BYTES });
        }
        if self.0.put(&object, bytes, WriteMode::Create, Durability::BytesAndName)? {
            return Ok(CreateOutcome::New);
        }
        let existing = self.read(path, MAX_POINTER_BYTES)?;
        existing.map(|existing| CreateOutcome::Existing { existing }).ok_or_else(|| self.vanished_error(path))
    }

    fn vanished_error(&self, path: &str) -> Error {
        let source = "it was there when it should be created and gone when it was read; something else removes objects".into();
        Error::Backend { action: "read", path: path.to_owned(), uri: self.uri().to_owned(), source }
    }

    /// Returns the bytes of a pointer of at most `limit` bytes; `None` if there is no such pointer.
    pub fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        self.read_limited(&layout::pointer_path(path)?, limit, || format!("pointer `{path}`"))
    }

    /// Returns the paths of all pointers below `prefix`, in byte order. A prefix consists of whole parts: `runs/a` does not list
    /// `runs/ab`.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.list_limited(prefix, MAX_LISTED)
    }

    /// Returns the names of the folders directly under `prefix`, in byte order. Nothing below them is read. In a local folder, a name
    /// may have no pointers below it any more.
    pub fn list_folders(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = self.0.list_folders(&layout::pointer_path(prefix)?)?;
        names.sort_unstable();
        Ok(names)
    }

    fn list_limited(&self, prefix: &str, limit: usize) -> Result<Vec<String>> {
        let mut paths = self.0.list(&layout::pointer_path(prefix)?, limit)?;
        if paths.len() > limit {
            return Err(Error::TooMany { prefix: prefix.to_owned(), limit });
        }
        paths.sort_unstable();
        Ok(paths)
    }

    fn read_limited(&self, path: &Path, limit: u64, what: impl Fn() -> String) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let there = self.0.read(path, |chunk| {
            if (bytes.len() as u64).saturating_add(chunk.len() as u64) > limit {
                return Err(Error::TooLarge { what: what(), limit });
            }
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(there.then_some(bytes))
    }

    /// Returns the part of the store under `prefix`, for a format with its own layout, such as the warehouse's tables.
    pub fn area(&self, prefix: &str) -> Result<Area> {
        Area::new(self.backend(), prefix)
    }

    /// Tests that the backend refuses to create an object that exists, on which at-most-once acceptance rests.
    ///
    /// Writes two small objects in the store's own space and removes them.
    pub fn check_create_if_absent(&self) -> Result<()> {
        let path = self.0.staging()?;
        let first = self.0.put(&path, b"first", WriteMode::Create, Durability::Bytes)?;
        let second = self.0.put(&path, b"second", WriteMode::Create, Durability::Bytes)?;
        self.0.remove(&path)?;
        if first && !second { Ok(()) } else { Err(Error::NoCreateIfAbsent { uri: self.uri().to_owned() }) }
    }

    /// Fails with [`Error::Vanished`] if the folder of the store is not the one that was opened. A bucket is not asked.
    pub fn check_there(&self) -> Result<()> {
        self.0.check_folder()
    }

    pub(crate) fn backend(&self) -> Arc<Backend> {
        Arc::clone(&self.0)
    }

    /// Puts bytes under a digest that is not theirs, to show that this is detected.
    #[cfg(any(test, feature = "conformance"))]
    pub(crate) fn put_corrupt(&self, digest: &Digest, bytes: &[u8]) -> Result<()> {
        self.0.put(&layout::blob_path(digest), bytes, WriteMode::Overwrite, Durability::Bytes).map(|_| ())
    }
}

fn check_digest(expected: &Digest, found: Digest) -> Result<()> {
    if found == *expected { Ok(()) } else { Err(Error::Corrupt { expected: *expected, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    /// Creates a separate folder for each test.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn open(folder: &tempfile::TempDir) -> Store {
        Store::open(folder.path().to_str().expect("UTF-8")).expect("a local store")
    }

    fn files(root: &FilePath, below: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(root.join(below)) else { return Vec::new() };
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_after_which_the_folder_is_gone_is_refused_and_leaves_nothing_in_its_place() {
        let around = folder();
        let [place, away] = ["store", "away"].map(|name| around.path().join(name));
        let store = Store::open(place.to_str().expect("UTF-8")).expect("a store");
        let first = store.put(b"first").expect("written");
        std::fs::rename(&place, &away).expect("moved");
        // As if the folder was moved between the check before a write and the write.
        let written = store.0.write_unchecked(&layout::blob_path(&Digest::compute(b"second")), b"second");
        assert!(matches!(written, Err(Error::Vanished { .. })), "{written:?}");
        let left: Vec<_> = std::fs::read_dir(&place).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        std::fs::rename(&away, &place).expect("it takes the place of an empty folder");
        assert!(store.contains(&first).expect("readable") && store.put(b"second").is_ok());
    }

    #[test]
    fn memory_conforms() {
        let store = Store::open("memory:").expect("a store in memory");
        conformance::check_conformance(&|| store.clone());
    }

    #[test]
    fn a_link_is_told_from_what_it_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        store.create("runs/a/source", b"pointer").expect("created");
        for (link, to) in [("b", "a"), ("c", "/nonexistent")] {
            std::os::unix::fs::symlink(to, folder.path().join("runs").join(link)).expect("a link");
        }
        assert_eq!(["runs/a", "runs/b", "runs/c", "runs/d"].map(|path| store.is_link(path)), [false, true, true, false]);
        assert!(!Store::open("memory:").expect("a store").is_link("runs/b"));
    }

    #[test]
    fn a_link_or_a_folder_in_the_place_of_an_object_is_refused() {
        let folder = folder();
        let store = open(&folder);
        let digest = store.put(b"bytes").expect("put");
        let blob = folder.path().join(layout::blob_path(&digest).as_ref());
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&blob, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &blob).expect("a link");
        assert!(matches!(store.get(&digest, 100), Err(Error::NotPlain { .. })));
        std::fs::remove_file(&blob).expect("removed");
        std::fs::create_dir(&blob).expect("a folder");
        assert!(matches!(store.check(&digest), Err(Error::NotPlain { .. })));
    }

    #[test]
    fn a_local_folder_conforms() {
        let folder = folder();
        conformance::check_conformance(&|| open(&folder));
        assert_eq!(files(folder.path(), "staging"), Vec::<String>::new(), "nothing stays in staging");
    }

    #[test]
    fn a_store_is_found_again_by_its_uri() {
        let folder = folder();
        let place = folder.path().join("a b%");
        let store = Store::open(place.to_str().expect("UTF-8")).expect("a new store");
        let digest = store.put(b"bytes").expect("put");
        let again = Store::open_existing(store.uri()).expect("the same store");
        assert_eq!(again.get(&digest, 5).expect("there"), b"bytes");
        assert_eq!(again.local_root(), place.canonicalize().ok().as_deref());
        assert!(store.uri().starts_with("file:///") && store.uri().ends_with("a%20b%25"));
    }

    #[test]
    fn opening_to_read_creates_nothing() {
        let folder = folder();
        let place = folder.path().join("none");
        let error = Store::open_existing(place.to_str().expect("UTF-8")).expect_err("no store there");
        assert!(matches!(error, Error::NoStore { .. }) && error.hint().is_some());
        assert!(!place.exists());
    }

    #[test]
    fn a_file_is_no_store() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let place = file.path().to_str().expect("UTF-8");
        let below = format!("{place}/store");
        for open in [Store::open, Store::open_existing] {
            for uri in [place, &below] {
                let error = open(uri).expect_err("a file");
                assert_eq!(error.to_string(), format!("`{place}` is no folder, and the store `{uri}` needs one there"));
                assert_eq!((error.code(), error.hint().is_some()), (assay_failure::ErrorCode::StoreUri, true));
            }
        }
    }

    #[test]
    fn objects_lie_where_the_layout_says() {
        let folder = folder();
        let store = open(&folder);
        store.put(b"").expect("put");
        store.create("runs/r/plan/accepted", b"{}").expect("created");
        assert_eq!(files(folder.path(), "."), ["blobs", "runs", "staging"]);
        assert_eq!(files(folder.path(), "blobs/sha256/e3").len(), 1);
        assert_eq!(std::fs::read(folder.path().join("runs/r/plan/accepted")).expect("a file"), b"{}");
    }

    #[test]
    fn a_file_cut_short_on_disk_is_found() {
        let folder = folder();
        let store = open(&folder);
        let digest = store.put(b"some bytes").expect("put");
        let file = folder.path().join(layout::blob_path(&digest).as_ref());
        std::fs::OpenOptions::new().write(true).open(file).expect("the file").set_len(4).expect("cut");
        let error = store.get(&digest, 100).expect_err("cut short");
        assert!(matches!(error, Error::Corrupt { found, .. } if found == Digest::compute(b"some")), "{error}");
        store.put(b"some bytes").expect("repaired");
        assert_eq!(store.get(&digest, 100).expect("whole again"), b"some bytes");
    }

    #[test]
    fn what_a_killed_process_leaves_in_staging_is_no_object() {
        let folder = folder();
        let store = open(&folder);
        std::fs::create_dir_all(folder.path().join("runs/r")).expect("a folder");
        std::fs::write(folder.path().join("runs/r/accepted#1"), b"half").expect("a leftover of the backend's own");
        assert_eq!(store.list("runs").expect("listed"), Vec::<String>::new());
        assert!(store.read("staging/0", 10).is_err());
    }

    #[test]
    fn a_store_works_inside_another_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let bytes = runtime.block_on(async {
            let store = Store::open("memory:").expect("a store");
            let digest = store.put(b"bytes").expect("put");
            store.get(&digest, 5).expect("there")
        });
        assert_eq!(bytes, b"bytes");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let store = Store::open("memory:").expect("a store");
        let scratch = Scratch::new(10).expect("scratch");
        let error = store.put_file(FilePath::new("/nonexistent/log"), &scratch).expect_err("no such file");
        insta::assert_snapshot!(error, @"failed to read `/nonexistent/log`");
    }

    #[test]
    fn a_listing_has_a_limit() {
        let store = Store::open("memory:").expect("a store");
        for index in 0..3 {
            store.create(&format!("many/{index}"), b"").expect("created");
        }
        assert_eq!(store.list_limited("many", 3).expect("three").len(), 3);
        let error = store.list_limited("many", 2).expect_err("one too many");
        insta::assert_snapshot!(error, @"more than 2 pointers lie under `many`");
    }
}
