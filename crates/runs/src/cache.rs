//! The user's cache: what this account has read before, which saves time and proves nothing. It lies outside of every store, so who can
//! write to a store cannot write to it; it may be removed at any time. What it holds of a run is used only if the files that it was read
//! from are unchanged ([`Unchanged`]).

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use assay_manifest::{Digest, Hasher};
use assay_store::Store;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The largest file of the cache that is read, in bytes.
const MAX_CACHE_BYTES: u64 = 256 << 20;

/// The age from which a file is settled: a change within one tick of the file system's clock has no new time.
const SETTLED_S: i64 = 2;

/// The files and folders of a store that something was read from, and their state at that time: inode and time of change, which the
/// kernel keeps and no program can set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unchanged {
    paths: Vec<String>,
    state: Digest,
}

impl Unchanged {
    /// Returns the present state of these files; `None` if one is missing or has just changed, or if the store is no folder.
    pub(crate) fn new(store: &Store, paths: Vec<String>) -> Option<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let (state, latest) = read_state(store, &paths)?;
        (latest < i64::try_from(now).ok()? - SETTLED_S).then_some(Self { paths, state })
    }

    /// Returns true if the files are as they were.
    pub(crate) fn holds(&self, store: &Store) -> bool {
        read_state(store, &self.paths).is_some_and(|(state, _)| state == self.state)
    }
}

/// Returns a digest of the state of files, and the time of the latest change in seconds since 1970.
fn read_state(store: &Store, paths: &[String]) -> Option<(Digest, i64)> {
    let root = store.local_root()?;
    let (mut hasher, mut latest) = (Hasher::new(), i64::MIN);
    for path in paths {
        let found = fs::symlink_metadata(root.join(path)).ok()?;
        latest = latest.max(found.ctime());
        hasher.update(format!("{path}\n{} {} {}\n", found.ino(), found.ctime(), found.ctime_nsec()).as_bytes());
    }
    Some((hasher.finish(), latest))
}

/// Reads a part of the cache about a store; `None` if there is none, or none that can be read.
pub(crate) fn read_cache<T: DeserializeOwned>(part: &str, store: &Store) -> Option<T> {
    let mut bytes = Vec::new();
    fs::File::open(path(part, store)?).ok()?.take(MAX_CACHE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_CACHE_BYTES {
        return None;
    }
    serde_json::from_slice(&bytes).ok()
}

/// Replaces a part of the cache about a store. A cache that cannot be written only costs time.
pub(crate) fn write_cache<T: Serialize>(part: &str, store: &Store, content: &T) {
    let Some(path) = path(part, store) else { return };
    if let Err(error) = replace(&path, content) {
        tracing::debug!(path = %path.display(), %error, "the cache was not written");
    }
}

fn replace<T: Serialize>(path: &Path, content: &T) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    serde_json::to_writer(std::io::BufWriter::new(file), content)?;
    fs::rename(&unfinished, path)
}

/// Returns the path of a part of the cache; `None` for a store that is no folder, and if the user has no folder for caches.
fn path(part: &str, store: &Store) -> Option<PathBuf> {
    store.local_root()?;
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")))?;
    let name = Digest::compute(store.uri().as_bytes()).hex();
    Some(folder.join("assay").join(format!("{part}-{}.json", &name[..16])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        store.create("runs/a/source", b"first").expect("created");
        let paths = vec!["runs/a".to_owned(), "runs/a/source".to_owned()];
        assert_eq!(Unchanged::new(&store, paths.clone()), None, "it has just changed");
        let unchanged = Unchanged { state: read_state(&store, &paths).expect("there").0, paths };
        assert!(unchanged.holds(&store));
        let file = folder.path().join("runs/a/source");
        let before = fs::metadata(&file).expect("a file").modified().expect("a time");
        fs::write(&file, "other").expect("written");
        fs::File::open(&file).expect("a file").set_modified(before).expect("a time");
        assert!(!unchanged.holds(&store), "the time of change is the kernel's");
        fs::remove_file(file).expect("removed");
        assert!(!unchanged.holds(&store));
    }
}
