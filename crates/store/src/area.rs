//! A part of the store whose layout belongs to a format of its own: the warehouse's tables, each with its log.

use std::sync::Arc;

use assay_manifest::Digest;

use crate::backend::{Backend, Durability, WriteMode};
use crate::{Error, MAX_LISTED, Object, Result, Scratch, ScratchFile, layout};

/// The objects under one prefix of a store. Cheap to clone.
///
/// Paths are relative to the prefix and follow the rules of pointers. Like a pointer, an object is created once and is on disk
/// when the call returns; unlike a pointer, it may be of any size, and a few objects may be replaced ([`Area::replace`]).
#[derive(Clone, Debug)]
pub struct Area {
    backend: Arc<Backend>,
    prefix: String,
}

impl Area {
    pub(crate) fn new(backend: Arc<Backend>, prefix: &str) -> Result<Self> {
        layout::pointer_path(prefix)?;
        Ok(Self { backend, prefix: prefix.to_owned() })
    }

    /// Returns the store's full name, for messages.
    pub fn uri(&self) -> &str {
        self.backend.uri()
    }

    fn path(&self, path: &str) -> Result<object_store::path::Path> {
        layout::pointer_path(&format!("{}/{path}", self.prefix))
    }

    /// Creates an object. Returns false if it already exists; it then stays as it is.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        self.backend.put(&self.path(path)?, bytes, WriteMode::Create, Durability::BytesAndName)
    }

    /// Creates an object from a scratch file, a part at a time. Returns false if it already exists; it then stays as it is.
    pub fn create_file(&self, path: &str, file: &ScratchFile) -> Result<bool> {
        self.backend.create_scratch(&self.path(path)?, file)
    }

    /// Writes a whole object, replacing any existing one. For objects that only save work and can be made again, such as a
    /// checkpoint.
    pub fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.backend.put(&self.path(path)?, bytes, WriteMode::Overwrite, Durability::BytesAndName).map(|_| ())
    }

    /// Returns the bytes of an object of at most `limit` bytes; `None` if there is no such object. Fails with
    /// [`Error::TooLarge`].
    pub fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let there = self.backend.read(&self.path(path)?, |chunk| {
            if (bytes.len() as u64).saturating_add(chunk.len() as u64) > limit {
                return Err(Error::TooLarge { what: format!("`{}/{path}`", self.prefix), limit });
            }
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(there.then_some(bytes))
    }

    /// Returns the digest and size in bytes of an object, hashed in place; `None` if there is no such object.
    pub fn digest(&self, path: &str) -> Result<Option<(Digest, u64)>> {
        self.backend.digest(&self.path(path)?)
    }

    /// Copies an object into a private scratch file while hashing it. Returns the digest of the bytes that were read, which the
    /// caller has to judge, and the file; `None` if there is no such object.
    pub fn materialise(&self, path: &str, scratch: &Scratch) -> Result<Option<(Digest, ScratchFile)>> {
        self.backend.materialise(&self.path(path)?, scratch)
    }

    /// Returns all objects below `prefix` whose paths sort after `after`, in byte order of their paths, which are relative to the
    /// area.
    pub fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Object>> {
        let after = after.map(|after| self.path(after)).transpose()?;
        let objects = self.backend.list_after(&self.path(prefix)?, after.as_ref(), MAX_LISTED)?;
        if objects.len() > MAX_LISTED {
            return Err(Error::TooMany { prefix: format!("{}/{prefix}", self.prefix), limit: MAX_LISTED });
        }
        let own = |path: &str| path.strip_prefix(&self.prefix).and_then(|path| path.strip_prefix('/')).map(str::to_owned);
        let mut listed: Vec<_> =
            objects.into_iter().filter_map(|object| Some(Object { path: own(&object.path)?, ..object })).collect();
        listed.sort_unstable();
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    fn check(store: &Store) {
        let area = store.area("warehouse").expect("an area");
        let scratch = Scratch::new(1 << 20).expect("scratch");
        assert!(area.create("t/_delta_log/0.json", b"first").expect("created"));
        assert!(!area.create("t/_delta_log/0.json", b"second").expect("refused"));
        assert_eq!(area.read("t/_delta_log/0.json", 5).expect("read").as_deref(), Some(&b"first"[..]));
        assert!(matches!(area.read("t/_delta_log/0.json", 4), Err(Error::TooLarge { limit: 4, .. })));
        assert_eq!(area.read("t/absent", 4).expect("read"), None);

        let digest = store.put(b"rows").expect("put");
        let file = store.materialise(&digest, &scratch).expect("a file");
        assert!(area.create_file("t/a.parquet", &file).expect("created"));
        let other = store.materialise(&store.put(b"other").expect("put"), &scratch).expect("a file");
        assert!(!area.create_file("t/a.parquet", &other).expect("refused"));
        assert_eq!(area.digest("t/a.parquet").expect("hashed"), Some((digest, 4)));
        let (found, copy) = area.materialise("t/a.parquet", &scratch).expect("read").expect("there");
        assert_eq!((found, copy.size()), (digest, 4));

        area.replace("t/_delta_log/_last", b"1").expect("written");
        area.replace("t/_delta_log/_last", b"2").expect("written");
        assert_eq!(area.read("t/_delta_log/_last", 9).expect("read").as_deref(), Some(&b"2"[..]));
        let paths =
            |prefix, after| area.list(prefix, after).expect("listed").into_iter().map(|object| object.path).collect::<Vec<_>>();
        assert_eq!(paths("t", None), ["t/_delta_log/0.json", "t/_delta_log/_last", "t/a.parquet"]);
        assert_eq!(paths("t", Some("t/_delta_log/0.json")), ["t/_delta_log/_last", "t/a.parquet"]);
        assert_eq!(paths("u", None), [""; 0]);
        assert!(matches!(area.create("../x", b""), Err(Error::BadPath { .. })));
        assert!(store.area("blobs").is_err());
    }

    #[test]
    fn objects_of_an_area_are_created_once_and_listed_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        check(&Store::open(folder.path().to_str().expect("UTF-8")).expect("a store"));
        assert_eq!(std::fs::read_dir(folder.path().join("staging")).expect("staging").count(), 0, "nothing is left behind");
        check(&Store::open("memory:").expect("a store"));
    }
}
