//! Removal from a store in a folder: blobs that nothing needs any more, and what killed writers left.
//!
//! A writer puts a blob first and names it in a manifest later, so a blob that no manifest names may be a new one. Every put of
//! existing bytes gives the blob a new time ([`Store::put`]), so the time of a blob is that of its last put. A removal names the
//! latest time that a removed object may have, and looks at the object again immediately before it goes.

use std::fs::File;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assay_manifest::Digest;

use crate::backend::Backend;
use crate::folder::check_links;
use crate::scratch::SCRATCH_PREFIX;
use crate::{Error, Object, Objects, Result, Store, layout};

/// The age from which an object that nothing names belongs to no writer any more: one day. No stage holds a blob for so long
/// before it names it.
pub const GRACE: Duration = Duration::from_hours(24);

/// The right to remove objects of a store in a folder.
#[derive(Clone, Debug)]
pub struct Removal {
    backend: Arc<Backend>,
    objects: Objects,
    root: PathBuf,
}

/// A scratch folder of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldScratch {
    /// The folder.
    pub path: PathBuf,
    /// The size of its files in bytes.
    pub bytes: u64,
}

impl Removal {
    /// Returns the removal of `store`; fails by name for a store that is no folder of this machine, and if one of its folders is a link.
    pub fn open(store: &Store) -> Result<Self> {
        let root = store.local_root().ok_or_else(|| Error::NoRemoval { uri: store.uri().to_owned() })?;
        check_links(root)?;
        Ok(Self { backend: store.backend(), objects: Objects::new(store), root: root.to_owned() })
    }

    /// Removes a blob that was last put before `before_unix_ms`. Returns its size in bytes; `None` if it is absent or younger.
    pub fn remove_blob(&self, digest: &Digest, before_unix_ms: i64) -> Result<Option<u64>> {
        let path = layout::blob_path(digest);
        match self.backend.info(&path)? {
            Some(blob) if blob.modified_unix_ms < before_unix_ms => self.backend.remove(&path).map(|()| Some(blob.size)),
            _ => Ok(None),
        }
    }

    /// Returns the objects under `staging/` that were last written before `before_unix_ms`: no writer will complete them.
    pub fn list_stale(&self, before_unix_ms: i64) -> Result<Vec<Object>> {
        self.objects.list_stale(before_unix_ms)
    }

    /// Fails unless everything below `prefix` is a plain file or a folder that can be listed: a link may lead to a disk that is not
    /// mounted, and then what it should lead to would count as absent. A prefix that is absent has nothing below it.
    pub fn check_plain(&self, prefix: &str) -> Result<()> {
        let mut pending = vec![PathBuf::from(prefix)];
        while let Some(path) = pending.pop() {
            let full = self.root.join(&path);
            let failed = |source: std::io::Error| Error::Backend {
                action: "list",
                path: path.display().to_string(),
                uri: self.backend.uri().to_owned(),
                source: Box::new(source),
            };
            match full.symlink_metadata() {
                Ok(found) if found.is_symlink() => return Err(Error::Link { path: full }),
                Ok(found) if found.is_dir() && path.to_str().is_some() => {}
                Ok(found) if found.is_file() && path.to_str().is_some() && path != FilePath::new(prefix) => continue,
                Ok(_) => {
                    return Err(Error::NotPlain { path: path.display().to_string(), uri: self.backend.uri().to_owned() });
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            }
            for entry in std::fs::read_dir(&full).map_err(failed)? {
                pending.push(path.join(entry.map_err(failed)?.file_name()));
            }
        }
        Ok(())
    }

    /// Removes the objects under `staging/` that are older than `older_than`, and the folders that are left empty.
    pub fn remove_stale(&self, older_than: Duration) -> Result<()> {
        self.objects.remove_stale(older_than)
    }

    /// Returns the folder of the store.
    pub fn root(&self) -> &FilePath {
        &self.root
    }
}

impl OldScratch {
    /// Returns the scratch folders in the system's folder for temporary files that were last changed before `before_unix_ms`, that
    /// no process uses, and that this user may read. A folder that cannot be looked into is left out.
    pub fn list(before_unix_ms: i64) -> Vec<Self> {
        Self::list_in(&std::env::temp_dir(), before_unix_ms)
    }

    fn list_in(parent: &FilePath, before_unix_ms: i64) -> Vec<Self> {
        Self::list_named(parent, before_unix_ms, |name| name.starts_with(SCRATCH_PREFIX))
    }

    /// Returns the folders inside `parent` that were last changed before `before_unix_ms`, that no process uses, and whose names
    /// `is_one` accepts.
    pub fn list_named(parent: &FilePath, before_unix_ms: i64, is_one: impl Fn(&str) -> bool) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
        let named = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(&is_one));
        let folders = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
        let mut old: Vec<Self> = folders.filter_map(|path| Self::examine(path, before_unix_ms)).collect();
        old.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        old
    }

    fn examine(path: PathBuf, before_unix_ms: i64) -> Option<Self> {
        let newest = newest_change(&path).ok()?;
        let _unused = lock_unused(&path)?;
        (newest.latest_unix_ms < before_unix_ms).then_some(Self { path, bytes: newest.bytes })
    }

    /// Removes the folder with its files. Returns false if a process uses it again, or if it cannot be removed.
    pub fn remove(&self) -> bool {
        lock_unused(&self.path).is_some_and(|_unused| std::fs::remove_dir_all(&self.path).is_ok())
    }
}

/// Returns the lock of a scratch folder that no process uses; `None` if one does, or if that cannot be known.
fn lock_unused(path: &FilePath) -> Option<File> {
    File::open(path).ok().filter(|folder| folder.try_lock().is_ok())
}

struct FolderUse {
    latest_unix_ms: i64,
    bytes: u64,
}

/// Returns the latest change in a folder, and the size of its files.
fn newest_change(folder: &FilePath) -> std::io::Result<FolderUse> {
    let mut newest = FolderUse { latest_unix_ms: unix_ms(&std::fs::symlink_metadata(folder)?), bytes: 0 };
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let inner = if metadata.is_dir() {
            newest_change(&entry.path())?
        } else {
            FolderUse { latest_unix_ms: unix_ms(&metadata), bytes: metadata.len() }
        };
        newest.latest_unix_ms = newest.latest_unix_ms.max(inner.latest_unix_ms);
        newest.bytes += inner.bytes;
    }
    Ok(newest)
}

fn unix_ms(metadata: &std::fs::Metadata) -> i64 {
    let modified = metadata.modified().unwrap_or_else(|_| SystemTime::now());
    i64::try_from(modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    const LATER: i64 = i64::MAX;

    fn folder_store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        (folder, store)
    }

    fn age(store: &Store, digest: &Digest) {
        let path = store.local_root().expect("a folder").join(layout::blob_path(digest).as_ref());
        File::open(path).expect("a blob").set_modified(UNIX_EPOCH).expect("a time");
    }

    #[test]
    fn a_blob_goes_if_it_is_old_enough() {
        let (_folder, store) = folder_store();
        let digest = store.put(b"bytes").expect("put");
        let removal = Removal::open(&store).expect("a folder");
        assert_eq!(removal.remove_blob(&digest, 1).expect("young"), None);
        assert!(store.contains(&digest).expect("there"));
        assert_eq!(removal.remove_blob(&digest, LATER).expect("old"), Some(5));
        assert_eq!(removal.remove_blob(&digest, LATER).expect("gone"), None);
        assert!(!store.contains(&digest).expect("gone"));
    }

    #[test]
    fn a_blob_that_is_put_again_is_young() {
        let (_folder, store) = folder_store();
        let (digest, scratch) = (store.put(b"bytes").expect("put"), Scratch::new(9).expect("scratch"));
        let removal = Removal::open(&store).expect("a folder");
        for put in [&|| store.put(b"bytes").map(drop), &|| store.put_reader(&b"bytes"[..], &scratch).map(drop)]
            as [&dyn Fn() -> Result<()>; 2]
        {
            age(&store, &digest);
            put().expect("put again");
            assert_eq!(removal.remove_blob(&digest, 1_000).expect("young"), None);
        }
        age(&store, &digest);
        assert_eq!(removal.remove_blob(&digest, 1_000).expect("old"), Some(5));
    }

    #[test]
    fn nothing_is_removed_through_a_link() {
        let victim = tempfile::tempdir().expect("a folder");
        for name in ["staging", "scratch", "blobs", "runs", "published", "locks", "logs"] {
            let (folder, store) = folder_store();
            let digest = store.put(b"bytes").expect("put");
            let removal = Removal::open(&store).expect("no link");
            let (place, away) = (folder.path().join(name), victim.path().join(name));
            match std::fs::rename(&place, &away) {
                Ok(()) => {}
                Err(_) => std::fs::create_dir(&away).expect("created"),
            }
            std::os::unix::fs::symlink(&away, &place).expect("a link");
            let refused = Removal::open(&store).expect_err(name);
            assert!(matches!(&refused, Error::Link { path } if path.ends_with(name)), "{refused}");
            assert_eq!((refused.code().as_str(), refused.hint().is_some()), ("not_plain", true));
            for open in [Store::open, Store::open_existing] {
                assert!(matches!(open(folder.path().to_str().expect("UTF-8")), Err(Error::Link { .. })), "{name}");
            }
            if name == "blobs" {
                assert!(matches!(removal.remove_blob(&digest, LATER), Err(Error::Link { .. })));
                assert!(matches!(store.put(b"others"), Err(Error::Link { .. })), "nor is anything written");
            }
        }
        let link = victim.path().join("link");
        let (folder, _store) = folder_store();
        std::os::unix::fs::symlink(folder.path(), &link).expect("a link");
        Store::open(link.to_str().expect("UTF-8")).expect("the store as a whole may be one");
    }

    #[test]
    fn whatever_is_no_plain_file_below_a_prefix_is_named() {
        let (folder, store) = folder_store();
        let removal = Removal::open(&store).expect("a folder");
        removal.check_plain("runs").expect("absent");
        store.create("runs/r/source", b"").expect("created");
        removal.check_plain("runs").expect("plain");
        let place = folder.path().join("runs/r/plan");
        std::os::unix::fs::symlink("/nonexistent", &place).expect("a link");
        let refused = removal.check_plain("runs").expect_err("a link");
        assert!(matches!(&refused, Error::Link { path } if path.ends_with("runs/r/plan")), "{refused}");
        std::fs::remove_file(&place).expect("removed");
        let _pipe = std::os::unix::net::UnixListener::bind(&place).expect("a socket");
        assert!(matches!(removal.check_plain("runs"), Err(Error::NotPlain { path, .. }) if path == "runs/r/plan"));
        std::fs::remove_dir_all(folder.path().join("runs")).expect("removed");
        std::fs::write(folder.path().join("runs"), "").expect("written");
        assert!(matches!(removal.check_plain("runs"), Err(Error::NotPlain { path, .. }) if path == "runs"));
    }

    #[test]
    fn nothing_is_removed_from_memory() {
        let error = Removal::open(&Store::open("memory:").expect("a store")).expect_err("no folder");
        assert_eq!((error.code().as_str(), error.hint().is_some()), ("no_removal", true));
    }

    #[test]
    fn a_scratch_folder_goes_if_nobody_uses_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let used = Scratch::new_in(parent.path(), 9).expect("scratch");
        let left = parent.path().join("assay-scratch-left");
        std::fs::create_dir(&left).expect("made");
        std::fs::write(left.join("0"), "seven b").expect("written");
        std::fs::create_dir(parent.path().join("of-another-program")).expect("made");
        assert_eq!(OldScratch::list_in(parent.path(), 1), [], "all of them are young");
        let old = OldScratch::list_in(parent.path(), LATER);
        assert_eq!(old, [OldScratch { path: left.clone(), bytes: 7 }]);
        assert!(old.iter().all(OldScratch::remove) && !left.exists());
        assert!(used.folder().exists() && parent.path().join("of-another-program").exists());
    }
}
