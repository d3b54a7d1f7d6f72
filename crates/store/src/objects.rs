//! Raw access to a store's objects, for a server that offers a store to other machines: by path and range, from any reader.
//!
//! This module checks no digests and protects no pointers: the server decides which client may write an object, and enforces it.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use assay_manifest::Digest;
use object_store::path::Path;

use crate::backend::Backend;
use crate::folder::check_links;
use crate::{Error, MAX_LISTED, Result, Scratch, ScratchFile, Store, layout};

/// The kind and path of an object, parsed from its full path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectPath {
    /// A blob: its digest is known before its bytes are there.
    Blob(Digest),
    /// A part of an object that is not complete yet.
    Staging(String),
    /// Any other object: pointers, and the objects of areas.
    Pointer(String),
}

impl ObjectPath {
    /// Parses the path of an object. Fails with [`Error::BadPath`] for a path that no store has.
    pub fn parse(path: &str) -> Result<Self> {
        let bad = |problem| Error::BadPath { path: path.chars().take(120).collect(), problem };
        if let Some(rest) = path.strip_prefix(layout::BLOBS).and_then(|rest| rest.strip_prefix('/')) {
            let digest = rest.rsplit('/').next().and_then(|hex| Digest::from_hex(hex).ok());
            let blob = digest.filter(|digest| layout::blob_path(digest).as_ref() == path).map(Self::Blob);
            return blob.ok_or_else(|| bad("a blob lies at `blobs/sha256/<first two digits>/<64 digits>`"));
        }
        if let Some(rest) = path.strip_prefix(layout::STAGING).and_then(|rest| rest.strip_prefix('/')) {
            return layout::pointer_path(rest).map(|_| Self::Staging(rest.to_owned())).map_err(|_| bad("it is not plain"));
        }
        layout::pointer_path(path).map(|_| Self::Pointer(path.to_owned()))
    }

    fn path(&self) -> Path {
        match self {
            Self::Blob(digest) => layout::blob_path(digest),
            Self::Staging(rest) => std::iter::once(layout::STAGING).chain(rest.split('/')).collect(),
            Self::Pointer(path) => path.split('/').collect(),
        }
    }
}

impl std::fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path().as_ref())
    }
}

/// An object of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Its path in the store, or below the area that was listed.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// The time of its last write, in milliseconds since 1970, by the backend's clock.
    pub modified_unix_ms: i64,
}

/// The objects of a store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Objects(Arc<Backend>);

impl Objects {
    /// Returns the objects of `store`.
    pub fn new(store: &Store) -> Self {
        Self(store.backend())
    }

    /// Returns an object's size and time; `None` if there is no such object.
    pub fn info(&self, place: &ObjectPath) -> Result<Option<Object>> {
        self.0.info(&place.path())
    }

    /// Feeds a range of an object's bytes to `sink`, a chunk at a time, and gives a blob in a folder a new time. Returns false if
    /// there is no such object.
    pub fn read(&self, place: &ObjectPath, range: Range<u64>, sink: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        if range.is_empty() {
            return self.info(place).map(|found| found.is_some());
        }
        if matches!(place, ObjectPath::Blob(_)) {
            // A client that finds a blob there puts none: as with a put of the same bytes, a removal has to leave it.
            let _ = self.0.renew(&place.path());
        }
        self.0.read_range(&place.path(), Some(range), sink)
    }

    /// Returns the first `count` bytes of an object, or all of a shorter one; `None` if there is no such object. They are not compared
    /// with a digest, and a blob keeps its time.
    pub fn peek(&self, place: &ObjectPath, count: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        if self.info(place)?.is_some_and(|found| found.size == 0) || count == 0 {
            return Ok(Some(bytes));
        }
        let there = self.0.read_range(&place.path(), Some(0..count), |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(there.then_some(bytes))
    }

    /// Copies an object into a private scratch file; `None` if there is no such object.
    pub fn materialise(&self, place: &ObjectPath, scratch: &Scratch) -> Result<Option<(Digest, ScratchFile)>> {
        self.0.materialise(&place.path(), scratch)
    }

    /// Writes all bytes of `reader` to a private scratch file while hashing them. `what` names the reader in an error.
    pub fn spool(reader: &mut dyn Read, what: &str, scratch: &Scratch) -> Result<(Digest, ScratchFile)> {
        scratch.spool(reader, what)
    }

    /// Creates an object from a scratch file. Returns false if it already exists; it then stays as it is.
    pub fn create(&self, place: &ObjectPath, file: &ScratchFile) -> Result<bool> {
        self.0.create_scratch(&place.path(), file)
    }

    /// Writes a whole object, replacing any existing one.
    pub fn replace(&self, place: &ObjectPath, file: &ScratchFile) -> Result<()> {
        self.0.put_scratch(&place.path(), file)
    }

    /// Removes an object of the store's own staging: `staged` is the text of a [`ObjectPath::Staging`]. No other object is ever
    /// removed.
    pub fn remove_staged(&self, staged: &str) -> Result<()> {
        match ObjectPath::parse(&format!("{}/{staged}", layout::STAGING))? {
            place @ ObjectPath::Staging(_) if self.info(&place)?.is_some() => self.0.remove(&place.path()),
            _ => Ok(()),
        }
    }

    /// Removes staged objects older than `older_than`, which no writer will complete any more, and the folders that are left
    /// empty.
    pub fn remove_stale(&self, older_than: Duration) -> Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = i64::try_from(now.saturating_sub(older_than).as_millis()).unwrap_or(0);
        for object in self.list_stale(since)? {
            self.0.remove(&object.path.split('/').collect())?;
        }
        if let Some(root) = self.0.folder() {
            remove_empty(&root.join(layout::STAGING));
        }
        Ok(())
    }

    /// Returns the staged objects that were last written before `before_unix_ms`. Links are left out; if the place of all staged
    /// objects is one, this fails.
    pub(crate) fn list_stale(&self, before_unix_ms: i64) -> Result<Vec<Object>> {
        if let Some(root) = self.0.folder() {
            check_links(root)?;
        }
        let mut stale = Vec::new();
        self.0.for_each(Some(&Path::from(layout::STAGING)), |object| {
            if object.modified_unix_ms < before_unix_ms {
                stale.push(object);
            }
        })?;
        stale.sort_unstable();
        Ok(stale)
    }

    /// Feeds every object to `sink`, in no particular order. In a folder, that includes files that are not of the store, and leaves out
    /// links.
    pub fn for_each(&self, sink: impl FnMut(Object)) -> Result<()> {
        self.0.for_each(None, sink)
    }

    /// Returns all objects whose paths begin with `prefix` and sort after `after`, in byte order of their paths.
    pub fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Object>> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let listed = self.0.list_after(&folder.split('/').filter(|part| !part.is_empty()).collect(), None, MAX_LISTED)?;
        if listed.len() > MAX_LISTED {
            return Err(Error::TooMany { prefix: prefix.to_owned(), limit: MAX_LISTED });
        }
        let wanted = |path: &str| path.starts_with(prefix) && after.is_none_or(|after| path > after);
        let mut objects: Vec<_> = listed.into_iter().filter(|object| wanted(&object.path)).collect();
        objects.sort_unstable();
        Ok(objects)
    }
}

/// Removes the empty folders below a folder. A folder that is being written to is not empty, and a writer creates its folder anew
/// if it was just removed.
fn remove_empty(folder: &std::path::Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // A link is not followed: its target does not belong to the store.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_says_what_an_object_is() {
        let digest = Digest::compute(b"x");
        let blob = layout::blob_path(&digest).to_string();
        assert_eq!(ObjectPath::parse(&blob).expect("a blob"), ObjectPath::Blob(digest));
        assert_eq!(ObjectPath::parse("staging/00ff").expect("staging"), ObjectPath::Staging("00ff".to_owned()));
        assert_eq!(ObjectPath::parse("runs/a/source").expect("a pointer"), ObjectPath::Pointer("runs/a/source".to_owned()));
        let elsewhere = blob.replace("sha256/", "sha256/00/");
        for path in [
            "",
            "blobs",
            "blobs/x",
            "blobs/sha256/00/ff",
            &elsewhere,
            "staging",
            "staging/",
            "staging/../runs/a",
            "a//b",
            "/a",
            "a b",
        ] {
            assert!(matches!(ObjectPath::parse(path), Err(Error::BadPath { .. })), "{path}");
        }
    }

    #[test]
    fn objects_are_read_by_range_and_listed_by_prefix() {
        let (folder, scratch) = (tempfile::tempdir().expect("a folder"), Scratch::new(1 << 20).expect("scratch"));
        for uri in [folder.path().to_str().expect("UTF-8"), "memory:"] {
            let store = Store::open(uri).expect("a store");
            let objects = Objects::new(&store);
            store.create("runs/a/source", b"0123456789").expect("created");
            store.create("runs/ab/source", b"").expect("created");
            let place = ObjectPath::parse("runs/a/source").expect("a place");
            let read = |range| {
                let mut bytes = Vec::new();
                let there = objects.read(&place, range, |chunk| {
                    bytes.extend_from_slice(chunk);
                    Ok(())
                });
                (there.expect("read"), String::from_utf8(bytes).expect("UTF-8"))
            };
            assert_eq!(read(0..10), (true, "0123456789".to_owned()));
            assert_eq!(read(3..5), (true, "34".to_owned()));
            assert_eq!(objects.info(&place).expect("asked").map(|object| object.size), Some(10));
            let peek = |path, count| objects.peek(&ObjectPath::parse(path).expect("a place"), count).expect("read");
            assert_eq!(
                [peek("runs/a/source", 3), peek("runs/a/source", 99)].map(Option::unwrap),
                [b"012".to_vec(), b"0123456789".to_vec()]
            );
            assert_eq!([peek("runs/ab/source", 3), peek("runs/none", 3)], [Some(Vec::new()), None]);
            let paths = |prefix, after| -> Vec<_> {
                objects.list(prefix, after).expect("listed").into_iter().map(|object| object.path).collect()
            };
            assert_eq!(paths("runs/a", None), ["runs/a/source", "runs/ab/source"]);
            assert_eq!(paths("runs/a/", None), ["runs/a/source"]);
            assert_eq!(paths("", Some("runs/a/source")), ["runs/ab/source"]);

            let (_, file) = Objects::spool(&mut &b"staged"[..], "a text", &scratch).expect("spooled");
            let staged = ObjectPath::parse("staging/uploads/1/00001").expect("a place");
            assert!(objects.create(&staged, &file).expect("created"));
            assert!(!objects.create(&staged, &file).expect("refused"));
            objects.remove_staged("uploads/1/00001").expect("removed");
            objects.remove_staged("uploads/1/00001").expect("nothing is there");
            assert_eq!(objects.info(&staged).expect("asked"), None);

            assert!(objects.create(&staged, &file).expect("created"));
            objects.remove_stale(Duration::from_hours(1)).expect("tidied");
            assert!(objects.info(&staged).expect("asked").is_some(), "somebody may be at it");
            std::thread::sleep(Duration::from_millis(5));
            objects.remove_stale(Duration::from_millis(1)).expect("tidied");
            assert_eq!(objects.info(&staged).expect("asked"), None);
            assert!(!folder.path().join("staging/uploads").exists());
        }
    }

    #[test]
    fn what_a_link_in_staging_leads_to_stays() {
        let (folder, victim) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        let (objects, staging) = (Objects::new(&store), folder.path().join("staging"));
        let age = |path: &std::path::Path| {
            std::fs::File::open(path).expect("a file").set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        };
        let precious = victim.path().join("precious");
        for file in [&precious, &staging.join("old")] {
            std::fs::write(file, "bytes").expect("written");
            age(file);
        }
        std::os::unix::fs::symlink(victim.path(), staging.join("folder")).expect("a link");
        std::os::unix::fs::symlink(&precious, staging.join("file")).expect("a link");
        objects.remove_stale(Duration::from_hours(1)).expect("tidied");
        assert!(precious.exists() && !staging.join("old").exists());

        // The server tidies at intervals: a link may take the place of the folder at any time.
        std::fs::remove_dir_all(&staging).expect("removed");
        std::os::unix::fs::symlink(victim.path(), &staging).expect("a link");
        let refused = objects.remove_stale(Duration::from_hours(1)).expect_err("a link");
        assert!(matches!(&refused, Error::Link { path } if path.ends_with("staging")), "{refused}");
        assert!(precious.exists());
    }

    proptest! {
        #[test]
        fn no_path_makes_the_reader_panic(path in "(blobs/|staging/|runs/)?[^\0]{0,80}") {
            if let Ok(place) = ObjectPath::parse(&path) {
                prop_assert_eq!(place.to_string(), path);
            }
        }
    }
}
