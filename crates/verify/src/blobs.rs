//! Bytes by digest, from a store or a published folder.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assay_manifest::{Count, Digest, Hasher};
use assay_store::Store;

use crate::{Error, Result};

/// The largest file of a published folder, in bytes: a curated file. A larger file belongs to no run and is not worth hashing.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// The most files of a published folder.
const MAX_FILES: usize = 100_000;

/// The most bytes of a published folder: a larger one belongs to no run, and hashing it would take minutes.
const MAX_FOLDER_BYTES: u64 = 64 << 30;

/// The deepest folder of a published folder. A run's own files are a few folders deep, and those of its Source as deep as in its
/// repository; the paths of deeper ones are longer than the system can open.
const MAX_DEPTH: usize = 64;

/// The largest blob of a store that is cached in memory, and the most bytes of all cached blobs.
const MAX_CACHED_BLOB_BYTES: u64 = 1 << 20;
const MAX_CACHE_BYTES: u64 = 64 << 20;

/// Bytes by digest. Returned bytes have been hashed: their digest is the requested one.
pub trait Blobs: Sync {
    /// Returns the bytes of a digest, or `None` if they are absent. Bytes that are present and do not match are a failure.
    fn get(&self, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>>;

    /// Returns the size in bytes of the blob with this digest, whose bytes have been hashed; `None` if it is absent. Of a blob of
    /// more than `limit` bytes the rest is not read: it is corrupt.
    fn check(&self, digest: &Digest, limit: u64) -> Result<Option<u64>>;

    /// Returns the digest of the file at a path of a published folder; `None` if there is none, and for the blobs of a store.
    fn digest_at_path(&self, _path: &str) -> Option<Digest> {
        None
    }
}

/// The blobs of a store. A verification needs most of them several times, so small ones are read and hashed once, and kept.
pub struct StoreBlobs {
    store: Store,
    cache: Mutex<BlobCache>,
}

#[derive(Default)]
struct BlobCache {
    by_digest: HashMap<Digest, Arc<[u8]>>,
    bytes: u64,
}

impl StoreBlobs {
    /// Creates the blobs of `store`.
    pub fn new(store: Store) -> Self {
        Self { store, cache: Mutex::default() }
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn cached(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.lock().by_digest.get(digest).cloned()
    }

    /// Keeps bytes that have been hashed, if there is room.
    fn keep(&self, digest: &Digest, bytes: &[u8]) {
        let (mut cache, size) = (self.lock(), bytes.len() as u64);
        if size <= MAX_CACHED_BLOB_BYTES && cache.bytes.saturating_add(size) <= MAX_CACHE_BYTES {
            let before = cache.by_digest.insert(*digest, bytes.into());
            cache.bytes = cache.bytes.saturating_add(size).saturating_sub(before.map_or(0, |before| before.len() as u64));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BlobCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blobs for StoreBlobs {
    fn get(&self, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = self.cached(digest).filter(|bytes| bytes.len() as u64 <= limit) {
            return Ok(Some(bytes.to_vec()));
        }
        match self.store.get(digest, limit) {
            Ok(bytes) => {
                self.keep(digest, &bytes);
                Ok(Some(bytes))
            }
            Err(assay_store::Error::Absent { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self, digest: &Digest, limit: u64) -> Result<Option<u64>> {
        if let Some(bytes) = self.cached(digest) {
            return Ok(Some(bytes.len() as u64));
        }
        let Some((size, bytes)) = self.store.check_keeping(digest, MAX_CACHED_BLOB_BYTES, limit)? else { return Ok(None) };
        if let Some(bytes) = bytes {
            self.keep(digest, &bytes);
        }
        Ok(Some(size))
    }
}

/// The files of a published folder: by path, because each has a fixed path, and by digest, because manifests name them that way.
pub struct FolderBlobs {
    folder: PathBuf,
    by_path: BTreeMap<String, Digest>,
    by_digest: BTreeMap<Digest, PathBuf>,
    irregular: BTreeMap<String, Irregular>,
}

/// An entry of a folder that belongs to no run.
#[derive(Clone, Copy)]
enum Irregular {
    /// A link, or another entry that is no regular file.
    Special,
    /// A file of this many bytes, which is more than a file of a run has.
    TooLarge(u64),
}

impl FolderBlobs {
    /// Lists a folder and hashes every file of it, unless there are too many.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut found =
            Self { folder: folder.to_owned(), by_path: BTreeMap::new(), by_digest: BTreeMap::new(), irregular: BTreeMap::new() };
        let (mut pending, mut files, mut bytes) = (vec![(folder.to_owned(), 0)], Vec::new(), 0_u64);
        while let Some((inner, depth)) = pending.pop() {
            if depth > MAX_DEPTH {
                return Err(Error::FolderTooDeep { folder: folder.to_owned(), limit: MAX_DEPTH });
            }
            let entries = std::fs::read_dir(&inner).map_err(|error| unreadable(&inner, error))?;
            for entry in entries {
                let entry = entry.map_err(|error| unreadable(&inner, error))?;
                let kind = entry.file_type().map_err(|error| unreadable(&entry.path(), error))?;
                // A link could point anywhere; its target is not part of the folder.
                if kind.is_dir() {
                    pending.push((entry.path(), depth + 1));
                } else if !kind.is_file() {
                    found.irregular.insert(found.relative_path(&entry.path()), Irregular::Special);
                } else {
                    match size_of(&entry)? {
                        size if size > MAX_FILE_BYTES => {
                            found.irregular.insert(found.relative_path(&entry.path()), Irregular::TooLarge(size));
                        }
                        size => {
                            bytes = bytes.saturating_add(size);
                            files.push(entry.path());
                        }
                    }
                }
                if files.len() + found.irregular.len() + pending.len() > MAX_FILES {
                    return Err(Error::TooManyFiles { folder: folder.to_owned(), limit: MAX_FILES });
                }
                if bytes > MAX_FOLDER_BYTES {
                    return Err(Error::FolderTooLarge { folder: folder.to_owned(), limit: MAX_FOLDER_BYTES });
                }
            }
        }
        files.into_iter().try_for_each(|path| found.add(path))?;
        Ok(found)
    }

    fn add(&mut self, path: PathBuf) -> Result<()> {
        let digest = digest_of(&path, &mut std::io::sink())?;
        self.by_path.insert(self.relative_path(&path), digest);
        self.by_digest.insert(digest, path);
        Ok(())
    }

    fn relative_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Returns the digest of the file at a path of the folder.
    pub fn digest_at(&self, path: &str) -> Option<Digest> {
        self.by_path.get(path).copied()
    }

    /// Iterates over the files with their digests, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Digest)> {
        self.by_path.iter().map(|(path, digest)| (path.as_str(), digest))
    }

    /// Checks that every file of a run is at its path and has its bytes, and returns the files that do not belong to the run.
    /// `sizes` are the recorded sizes in bytes, for messages.
    pub fn check_files(&self, expected: &BTreeMap<String, Digest>, sizes: &BTreeMap<Digest, Count>) -> Result<Vec<String>> {
        for (path, digest) in expected {
            match self.by_path.get(path) {
                Some(found) if found == digest => {}
                Some(found) => return Err(Error::OtherFile { path: path.clone(), found: *found, expected: *digest }),
                None => return Err(self.absence(path, *digest, sizes.get(digest))),
            }
        }
        let strangers = self.by_path.keys().filter(|path| !expected.contains_key(*path));
        Ok(strangers.chain(self.irregular.keys()).cloned().collect())
    }

    /// Returns the error for a published file that is not among the hashed ones: it is absent, no regular file, or too large.
    fn absence(&self, path: &str, digest: Digest, recorded: Option<&Count>) -> Error {
        match (self.irregular.get(path), recorded) {
            (Some(Irregular::TooLarge(found)), Some(stated)) => {
                Error::SizeDiffers { name: path.to_owned(), found: *found, stated: *stated }
            }
            (Some(irregular), _) => self.irregular_file(path, *irregular),
            (None, _) => Error::NoFile { path: path.to_owned(), digest },
        }
    }

    fn irregular_file(&self, path: &str, irregular: Irregular) -> Error {
        match irregular {
            Irregular::Special => Error::SpecialFile { path: path.to_owned() },
            Irregular::TooLarge(size) => Error::FileTooLarge { path: self.folder.join(path), size, limit: MAX_FILE_BYTES },
        }
    }

    /// Returns the digest of the file that a published folder has at a path; an error if it is absent, no regular file, or too large.
    pub fn file_at(&self, path: &'static str) -> Result<Digest> {
        match self.irregular.get(path) {
            Some(irregular) => Err(self.irregular_file(path, *irregular)),
            None => self.digest_at(path).ok_or(Error::NoPublishedRun(path)),
        }
    }
}

fn size_of(entry: &std::fs::DirEntry) -> Result<u64> {
    Ok(entry.metadata().map_err(|error| unreadable(&entry.path(), error))?.len())
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Unreadable { path: path.to_owned(), source }
}

fn digest_of(path: &Path, copy: &mut dyn std::io::Write) -> Result<Digest> {
    let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer).map_err(|error| unreadable(path, error))?;
        if read == 0 {
            return Ok(hasher.finish());
        }
        let chunk = buffer.get(..read).unwrap_or_default();
        hasher.update(chunk);
        copy.write_all(chunk).map_err(|error| unreadable(path, error))?;
    }
}

impl Blobs for FolderBlobs {
    fn get(&self, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.by_digest.get(digest) else { return Ok(None) };
        let size = std::fs::metadata(path).map_err(|error| unreadable(path, error))?.len();
        if size > limit {
            return Err(Error::FileTooLarge { path: path.clone(), size, limit });
        }
        let mut bytes = Vec::new();
        let found = digest_of(path, &mut bytes)?;
        if found != *digest {
            return Err(Error::FileChanged { path: path.clone(), before: *digest, now: found });
        }
        Ok(Some(bytes))
    }

    fn digest_at_path(&self, path: &str) -> Option<Digest> {
        self.digest_at(path)
    }

    fn check(&self, digest: &Digest, _: u64) -> Result<Option<u64>> {
        let Some(path) = self.by_digest.get(digest) else { return Ok(None) };
        Ok(Some(std::fs::metadata(path).map_err(|error| unreadable(path, error))?.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, FolderBlobs) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("chain")).expect("made");
        std::fs::write(folder.path().join("chain/plan.json"), "plan").expect("written");
        std::fs::write(folder.path().join("report.md"), "report").expect("written");
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).expect("a link");
        let blobs = FolderBlobs::open(folder.path()).expect("it reads");
        (folder, blobs)
    }

    #[test]
    fn files_are_found_by_what_they_contain() {
        let (_folder, blobs) = folder();
        assert_eq!(blobs.get(&Digest::compute(b"plan"), 4).expect("read"), Some(b"plan".to_vec()));
        assert_eq!(blobs.check(&Digest::compute(b"report"), 6).expect("read"), Some(6));
        assert_eq!(blobs.get(&Digest::compute(b"other"), 4).expect("read"), None);
        assert_eq!(blobs.iter().count(), 2, "a link is no file of the folder");
    }

    #[test]
    fn a_file_that_changes_under_the_reader_is_refused() {
        let (folder, blobs) = folder();
        std::fs::write(folder.path().join("chain/plan.json"), "nalp").expect("written");
        assert_eq!(blobs.get(&Digest::compute(b"plan"), 4).expect_err("changed").code().as_str(), "artifact_corrupt");
        std::fs::remove_file(folder.path().join("report.md")).expect("removed");
        assert_eq!(blobs.get(&Digest::compute(b"report"), 9).expect_err("gone").code().as_str(), "unreadable");
    }

    #[test]
    fn a_file_that_cannot_be_the_published_one_is_not_called_missing() {
        let (folder, _) = folder();
        let large = std::fs::File::create(folder.path().join("report.md")).expect("made");
        large.set_len(MAX_FILE_BYTES + 1).expect("a file without blocks");
        let blobs = FolderBlobs::open(folder.path()).expect("it reads");
        let digest = Digest::compute(b"report");
        let refused = |path: &str, sizes: &[(Digest, Count)]| {
            let expected = [(path.to_owned(), digest)].into();
            let error = blobs.check_files(&expected, &sizes.iter().copied().collect()).expect_err("refused");
            (error.code().as_str(), error.to_string().replace(&folder.path().display().to_string(), "DIR"))
        };
        let of = |code: &'static str, message: &str| (code, message.to_owned());
        assert_eq!(
            refused("report.md", &[(digest, Count(6))]),
            of("size_differs", "`report.md` has 4294967297 bytes, and the signed manifest says 6")
        );
        assert_eq!(
            refused("report.md", &[]),
            of("artifact_too_large", "`DIR/report.md` has 4294967297 bytes, more than the limit of 4294967296")
        );
        assert_eq!(
            refused("link", &[]),
            of("not_plain", "the published file `link` is a link or another entry that is no plain file")
        );
        assert_eq!(refused("none", &[]).0, "artifact_absent");
        assert_eq!(blobs.file_at("link").expect_err("refused").code().as_str(), "not_plain");
    }

    #[test]
    fn a_folder_that_is_too_deep_for_any_run_is_named_as_such() {
        let (folder, _) = folder();
        let nested = |depth: usize| (0..depth).fold(folder.path().to_owned(), |path, _| path.join("d"));
        std::fs::create_dir_all(nested(MAX_DEPTH)).expect("made");
        assert!(FolderBlobs::open(folder.path()).is_ok());
        std::fs::create_dir(nested(MAX_DEPTH + 1)).expect("made");
        let error = FolderBlobs::open(folder.path()).err().expect("refused");
        assert_eq!((error.code().as_str(), error.code().exit()), ("folder_too_deep", assay_failure::Exit::Verification));
        assert_eq!(error.to_string(), format!("`{}` holds folders that are nested more than 64 deep", folder.path().display()));
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        let (_folder, blobs) = folder();
        assert_eq!(blobs.get(&Digest::compute(b"plan"), 3).expect_err("four bytes").code().as_str(), "artifact_too_large");
    }

    #[test]
    fn a_store_s_blobs_are_found_by_digest() {
        let store = Store::open("memory:").expect("a store");
        let digest = store.put(b"plan").expect("put");
        let blobs = StoreBlobs::new(store);
        assert_eq!(blobs.get(&digest, 4).expect("read"), Some(b"plan".to_vec()));
        assert_eq!(blobs.check(&digest, 4).expect("read"), Some(4));
        assert_eq!(blobs.get(&Digest::compute(b"other"), 4).expect("read"), None);
        assert_eq!(blobs.get(&digest, 3).expect_err("four bytes").code().as_str(), "artifact_too_large");
    }

    #[test]
    fn a_blob_that_was_read_is_the_one_that_was_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        let (small, large) = (b"plan".to_vec(), vec![7; 2 << 20]);
        let digests = [&small, &large].map(|bytes| store.put(bytes).expect("put"));
        let blobs = StoreBlobs::new(store);
        assert_eq!(digests.map(|digest| blobs.check(&digest, 2 << 20).expect("read")), [Some(4), Some(2 << 20)]);
        std::fs::remove_dir_all(folder.path().join("blobs")).expect("removed");
        std::fs::create_dir(folder.path().join("blobs")).expect("the store itself is still there");
        assert_eq!(blobs.get(&digests[0], 9).expect("kept"), Some(small), "its bytes were kept");
        assert_eq!(blobs.get(&digests[1], 9 << 20).expect("read"), None, "a large one is read again");
    }
}
