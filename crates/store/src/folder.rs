//! The folder of a local store: its identity, the rights on it, and the links in it, which are never followed to write or to remove.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, openat, unlinkat};

use crate::{Error, Result, layout};

/// The largest file with the names of users that is read, in bytes.
const MAX_PASSWD_BYTES: u64 = 1 << 20;
/// The bits of a folder whose new files belong to its group: set-group-id and the group's right to write.
const SHARED_BITS: u32 = 0o2020;
/// The depth to which folders are checked: `warehouse/<table>/_delta_log` and `blobs/sha256/<two digits>`.
const CHECKED_DEPTH: usize = 2;

/// The folders directly in a store's folder that Assay makes: those of the store, and those that lie beside it in the same folder. A
/// store may come with a repository of another author, so one of them that is a link leads anywhere.
const OWN_FOLDERS: [&str; 17] = [
    layout::BLOBS,
    layout::STAGING,
    "runs",
    "calibrations",
    "cases",
    "ceilings",
    "fetched",
    "foreign",
    "foreign-verdicts",
    "gates",
    "searches",
    "times",
    "warehouse",
    "locks",
    "logs",
    "published",
    "scratch",
];

/// Fails with [`Error::Link`] if a folder that Assay makes directly in the folder `root` is a symbolic link. `root` itself may be one.
pub fn check_links(root: &Path) -> Result<()> {
    OWN_FOLDERS.iter().try_for_each(|name| check_link(&root.join(name)))
}

fn check_link(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Err(Error::Link { path: path.to_owned() }),
        _ => Ok(()),
    }
}

/// The folder of a store, as it was when it was opened.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    inode: u64,
    /// True if the folder belongs to a group, all of whose members may add to the store.
    is_shared: bool,
    /// True once the folder has had blobs: from then on, one without any is another folder.
    has_blobs: AtomicBool,
    /// The folders whose own names are on disk, with those above them.
    named: Mutex<BTreeSet<PathBuf>>,
}

impl Folder {
    /// Remembers the folder at a path, which must be canonical.
    pub(crate) fn open(root: PathBuf) -> io::Result<Self> {
        let found = std::fs::metadata(&root)?;
        let has_blobs = AtomicBool::new(root.join(layout::BLOBS).is_dir());
        let is_shared = found.mode() & SHARED_BITS == SHARED_BITS;
        Ok(Self { inode: found.ino(), is_shared, has_blobs, root, named: Mutex::default() })
    }

    /// Returns its path.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns true if the folder that was opened is still at its path. A file system that was unmounted leaves another folder
    /// there, and a folder that was made anew may have the number of the old one, but no blobs.
    pub(crate) fn is_there(&self) -> bool {
        let is_same = std::fs::metadata(&self.root).is_ok_and(|found| found.is_dir() && found.ino() == self.inode);
        if is_same && self.root.join(layout::BLOBS).is_dir() {
            self.has_blobs.store(true, Ordering::Relaxed);
            return true;
        }
        is_same && !self.has_blobs.load(Ordering::Relaxed)
    }

    /// Removes a file and the folders around it that are empty then, as far as possible.
    pub(crate) fn remove_litter(&self, path: &str) {
        let _ = std::fs::remove_file(self.root.join(path));
        for folder in Path::new(path).ancestors().skip(1).take_while(|folder| !folder.as_os_str().is_empty()) {
            // Fails if it holds anything.
            let _ = std::fs::remove_dir(self.root.join(folder));
        }
    }

    /// Fails if this user may not write to a folder of the store, so that it is known before anything is measured.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let of_store = [layout::STAGING, layout::BLOBS, "runs", "warehouse"].map(|name| (self.root.join(name), CHECKED_DEPTH));
        let mut pending: Vec<_> = of_store.into_iter().filter(|(folder, _)| folder.is_dir()).collect();
        pending.push((self.root.clone(), 0));
        while let Some((folder, depth)) = pending.pop() {
            let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
            if let Err(error) = accessat(CWD, &folder, rights, AtFlags::EACCESS)
                && is_denied(&io::Error::from(error))
            {
                return Err(denied_error(&folder, &self.root));
            }
            // A folder that vanishes meanwhile was a staged one.
            let entries = if depth > 0 { std::fs::read_dir(&folder).ok() } else { None };
            let folders =
                entries.into_iter().flatten().flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            pending.extend(folders.map(|entry| (entry.path(), depth - 1)));
        }
        Ok(())
    }

    /// Fails if a folder between that of the store and an object is a link.
    pub(crate) fn check_parents(&self, path: &str) -> Result<()> {
        let parents = path.rsplit_once('/').map_or("", |(parents, _)| parents);
        let mut folder = self.root.clone();
        parents.split('/').filter(|part| !part.is_empty()).try_for_each(|part| {
            folder.push(part);
            check_link(&folder)
        })
    }

    /// Removes a file below the folder, which may be gone already. No link is followed, even if it appears meanwhile.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |folder: OwnedFd, part: &str| openat(&folder, part, flags, Mode::empty());
        let removed = openat(CWD, &self.root, flags, Mode::empty())
            .and_then(|root| parents.split('/').filter(|part| !part.is_empty()).try_fold(root, open))
            .and_then(|parent| unlinkat(&parent, name, AtFlags::empty()));
        match removed {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the folders above an object. In a store that a group shares, its members may write to them, whatever the umask is.
    pub(crate) fn create_parent(&self, path: &str) -> io::Result<()> {
        let object = self.root.join(path);
        let Some(parent) = object.parent() else { return Ok(()) };
        let mut missing: Vec<_> = parent.ancestors().take_while(|folder| !folder.is_dir()).collect();
        if !missing.is_empty() {
            self.named().retain(|folder| !missing.contains(&folder.as_path()));
        }
        if !self.is_shared {
            return Ok(());
        }
        while let Some(folder) = missing.pop() {
            match std::fs::create_dir(folder) {
                Ok(()) => add_rights(folder, &std::fs::metadata(folder)?, 0o2070)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Syncs an object's name to disk, so that the name survives and not only the bytes: the entry in its folder, and those of the folders
    /// above it, unless they were synced before.
    pub(crate) fn sync_name(&self, path: &str) -> io::Result<()> {
        let object = self.root.join(path);
        let mut synced = Vec::new();
        for folder in object.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root)) {
            File::open(folder)?.sync_all()?;
            if self.named().contains(folder) {
                break;
            }
            synced.push(folder.to_owned());
        }
        self.named().extend(synced);
        Ok(())
    }

    fn named(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the members of the group read a file of a store that they share.
    pub(crate) fn share_file(&self, file: &File) -> io::Result<()> {
        if !self.is_shared {
            return Ok(());
        }
        let mode = file.metadata()?.mode();
        file.set_permissions(Permissions::from_mode(mode & 0o7777 | 0o040))
    }
}

fn add_rights(path: &Path, found: &Metadata, bits: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7777 | bits))
}

/// Returns true if an error is, or is caused by, a right that this user does not have.
pub(crate) fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Returns the error for a path that this user may not use: it names the nearest part that exists, and its owner.
pub(crate) fn denied_error(path: &Path, root: &Path) -> Error {
    let is_usable = |path: &Path| accessat(CWD, path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    let mut parts = path.ancestors().take_while(|part| part.starts_with(root));
    let found = parts.find(|part| part.symlink_metadata().is_ok() && !is_usable(part)).unwrap_or(root);
    let owner = found.symlink_metadata().map_or_else(|_| "an unknown user".to_owned(), |found| user_name(found.uid()));
    Error::OtherOwner {
        path: found.to_owned(),
        owner,
        user: user_name(rustix::process::geteuid().as_raw()),
        root: root.to_owned(),
    }
}

/// Returns the name of a user, or its number if it has none.
fn user_name(id: u32) -> String {
    use std::io::Read as _;
    let mut users = String::new();
    let read = File::open("/etc/passwd").and_then(|file| file.take(MAX_PASSWD_BYTES).read_to_string(&mut users));
    let named = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    };
    read.ok().and_then(|_| users.lines().find_map(named)).unwrap_or_else(|| format!("user {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_folder_at_the_same_path_is_not_the_one_that_was_opened() {
        let parent = tempfile::tempdir().expect("a folder");
        let root = parent.path().join("store");
        std::fs::create_dir_all(root.join("blobs")).expect("created");
        let folder = Folder::open(root.clone()).expect("opened");
        assert!(folder.is_there());
        std::fs::rename(&root, parent.path().join("away")).expect("moved");
        assert!(!folder.is_there());
        std::fs::create_dir_all(&root).expect("created");
        assert!(!folder.is_there(), "an empty folder has taken its place");
    }

    #[test]
    fn a_file_is_removed_and_a_link_is_not_followed() {
        let parent = tempfile::tempdir().expect("a folder");
        let (root, other) = (parent.path().join("store"), parent.path().join("other"));
        std::fs::create_dir_all(root.join("a/b")).expect("created");
        std::fs::create_dir_all(other.join("b")).expect("created");
        for file in [root.join("a/b/file"), other.join("b/file")] {
            std::fs::write(file, "").expect("written");
        }
        std::os::unix::fs::symlink(&other, root.join("link")).expect("a link");
        std::os::unix::fs::symlink(other.join("b/file"), root.join("file")).expect("a link");
        let folder = Folder::open(root.clone()).expect("opened");
        assert!(matches!(folder.check_parents("link/b/file"), Err(Error::Link { path }) if path == root.join("link")));
        assert!(folder.remove("link/b/file").is_err());
        for path in ["a/b/file", "a/b/file", "file", "none/file"] {
            folder.check_parents(path).expect("no link leads there");
            folder.remove(path).expect("removed, or gone");
        }
        assert!(!root.join("a/b/file").exists() && root.join("file").symlink_metadata().is_err());
        assert!(other.join("b/file").exists(), "it is not of the store");
    }

    #[test]
    fn the_name_of_a_folder_is_synced_once_and_again_if_it_was_made_anew() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(root.path().to_owned()).expect("opened");
        let below = |path: &str| root.path().join(path);
        std::fs::create_dir_all(below("a/b")).expect("created");
        let named = || folder.named().iter().cloned().collect::<Vec<_>>();
        folder.sync_name("a/b/file").expect("synced");
        assert_eq!(named(), [root.path().to_owned(), below("a"), below("a/b")]);
        std::fs::remove_dir(below("a/b")).expect("removed");
        assert!(folder.sync_name("a/b/file").is_err(), "a folder that is not there has no names");
        folder.create_parent("a/b/file").expect("nothing to do");
        assert_eq!(named(), [root.path().to_owned(), below("a")]);
        std::fs::create_dir(below("a/b")).expect("created");
        folder.sync_name("a/b/other").expect("synced");
        assert_eq!(named(), [root.path().to_owned(), below("a"), below("a/b")]);
    }

    #[test]
    fn users_have_names() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_000), "user 4000000000");
    }

    #[test]
    fn a_group_s_store_gives_its_folders_to_the_group() {
        let root = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o2070;
        let open = || Folder::open(root.path().to_owned()).expect("opened");
        open().create_parent("a/b/c").expect("nothing to do");
        assert!(!root.path().join("a").exists(), "a store of one user is left to the umask");
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o2770)).expect("a mode");
        open().create_parent("a/b/c").expect("created");
        assert_eq!([mode(&root.path().join("a")), mode(&root.path().join("a/b"))], [0o2070; 2]);
    }
}
