//! The published folder: everything that a reader needs to verify a run up to its rows, as plain files with plain names.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use assay_chain::published_files;
use assay_manifest::{Digest, Document, Hasher, InputRef, MAX_MANIFEST_BYTES, RunId};
use assay_store::{Scratch, Store};

use crate::{Error, FileRole, Result};

/// The path of the Publication in a published folder.
const PUBLICATION: &str = "chain/publication.json";

/// The most bytes that may pass through scratch files while a folder is written.
const SCRATCH_BYTES: u64 = 16 << 30;

/// The most names that are tried for one published folder.
const MAX_NAMES: u32 = 100;

/// A folder for a run's files.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    /// Nothing is there, or an empty folder.
    Free,
    /// The run's own folder, perhaps with files that a user has added. These files of the run are missing.
    Own(Vec<&'a (String, Digest)>),
    /// Anything else.
    Taken,
}

/// Writes a run's published folder to `folder/<run>` and returns its path. A new folder appears whole; in one that holds the run already,
/// missing files are added, and nothing is replaced or removed. If `folder/<run>` holds anything else, such as another run of that name
/// from another store, a file of the run with other bytes, or files of a user, it is left as it is: the start of the publication's digest
/// is appended to the name, and then a number. `folder` must not be a link.
///
/// Raw evidence stays in the store; its digests are in the folder.
pub fn export(store: &Store, run_id: &RunId, publication: InputRef, folder: &Path) -> Result<PathBuf> {
    let unwritable = |path: &Path, error: std::io::Error| FileRole::Export.error(path)(error);
    if folder.is_symlink() {
        return Err(assay_store::Error::Link { path: folder.to_owned() }.into());
    }
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    // Named after the run, so that the next export removes the remains of a killed process.
    let staged = folder.join(format!(".staged-{run_id}"));
    remove_folder(&staged).map_err(|error| unwritable(&staged, error))?;
    let files = contents(store, publication)?;
    let (target, place) = find_place(folder, run_id, &publication, &files)?;
    let missing: Vec<_> = match &place {
        Place::Own(missing) => missing.clone(),
        Place::Free | Place::Taken => files.iter().collect(),
    };
    if missing.is_empty() {
        return Ok(target);
    }
    fs::create_dir_all(&staged).map_err(|error| unwritable(&staged, error))?;
    let scratch = Scratch::new_in(&staged, SCRATCH_BYTES)?;
    let whole = staged.join("run");
    for (name, digest) in &missing {
        let path = whole.join(name);
        create_parent(&path).map_err(|error| unwritable(&path, error))?;
        store.materialise(digest, &scratch)?.persist(&path)?;
        make_readable(&path).map_err(|error| unwritable(&path, error))?;
    }
    if place == Place::Free {
        fs::rename(&whole, &target).map_err(|error| unwritable(&target, error))?;
    } else {
        for (name, _) in &missing {
            let path = target.join(name);
            let named = create_parent(&path).and_then(|()| fs::rename(whole.join(name), &path));
            named.map_err(|error| unwritable(&path, error))?;
        }
    }
    drop(scratch);
    remove_folder(&staged).map_err(|error| unwritable(&staged, error))?;
    Ok(target)
}

/// Removes a folder with its files, if it is there. A link is removed itself.
fn remove_folder(path: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn create_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Returns the first folder that is free or the run's own.
fn find_place<'a>(
    folder: &Path,
    run_id: &RunId,
    publication: &InputRef,
    files: &'a [(String, Digest)],
) -> Result<(PathBuf, Place<'a>)> {
    for number in 0..MAX_NAMES {
        let target = folder.join(match number {
            0 => run_id.to_string(),
            1 => format!("{run_id}-{}", publication.manifest.short()),
            number => format!("{run_id}-{}-{number}", publication.manifest.short()),
        });
        match examine(&target, publication, files).map_err(FileRole::Export.error(&target))? {
            Place::Taken => {}
            place => return Ok((target, place)),
        }
    }
    let taken = std::io::Error::new(ErrorKind::AlreadyExists, format!("{MAX_NAMES} folders of that name hold other files"));
    Err(FileRole::Export.error(&folder.join(run_id.as_str()))(taken))
}

fn examine<'a>(target: &Path, publication: &InputRef, files: &'a [(String, Digest)]) -> std::io::Result<Place<'a>> {
    match target.symlink_metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Ok(Place::Taken),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Place::Free),
        Err(error) => return Err(error),
    }
    if fs::read_dir(target)?.next().is_none() {
        return Ok(Place::Free);
    }
    if hash_file(target, PUBLICATION)? != FoundFile::Plain(publication.manifest) {
        return Ok(Place::Taken);
    }
    let mut missing = Vec::new();
    for file in files {
        let (name, digest) = file;
        match hash_file(target, name)? {
            FoundFile::Plain(found) if found == *digest => {}
            FoundFile::Absent => missing.push(file),
            FoundFile::Plain(_) | FoundFile::Other => return Ok(Place::Taken),
        }
    }
    Ok(Place::Own(missing))
}

/// The object at the path of a published file.
#[derive(Debug, PartialEq, Eq)]
enum FoundFile {
    /// A plain file, with the digest of its bytes.
    Plain(Digest),
    /// Nothing, in folders that are folders.
    Absent,
    /// A link, a folder, or a file in the place of a folder above it.
    Other,
}

fn hash_file(root: &Path, name: &str) -> std::io::Result<FoundFile> {
    let mut path = root.to_owned();
    let mut parts = name.split('/').peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let is_last = parts.peek().is_none();
        match path.symlink_metadata() {
            Ok(found) if is_last && found.is_file() || !is_last && found.is_dir() => {}
            Ok(_) => return Ok(FoundFile::Other),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FoundFile::Absent),
            Err(error) => return Err(error),
        }
    }
    let (mut hasher, mut file) = (Hasher::new(), fs::File::open(&path)?);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(FoundFile::Plain(hasher.finish())),
            count => hasher.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

/// Scratch files are private; published files are for everyone.
fn make_readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

/// Returns the files of the folder: path and digest.
fn contents(store: &Store, publication: InputRef) -> Result<Vec<(String, Digest)>> {
    let published = load(store, publication)?;
    let mut files = published_files(&published, publication);
    for input in &published.header().inputs {
        files.extend(published_files(&load(store, *input)?, *input));
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

fn load(store: &Store, reference: InputRef) -> Result<Document> {
    let bytes = store.get(&reference.manifest, MAX_MANIFEST_BYTES)?;
    Document::parse(&bytes).map_err(Error::Manifest)
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Kind, canonical_json};
    use serde_json::{Value, json};

    use super::*;

    /// Gives every artifact of a manifest the digest of its name, and puts that name.
    fn put_artifacts(json: &mut Value, store: &Store) {
        match json {
            Value::Array(items) => items.iter_mut().for_each(|item| put_artifacts(item, store)),
            Value::Object(fields) => {
                if let (Some(Value::String(name)), true) = (fields.get("name"), fields.contains_key("media_type")) {
                    let digest = store.put(name.as_bytes()).expect("put");
                    fields.insert("digest".to_owned(), json!(digest));
                }
                fields.values_mut().for_each(|value| put_artifacts(value, store));
            }
            _ => {}
        }
    }

    /// The Publication of a run that was made from nothing.
    struct Published {
        folder: tempfile::TempDir,
        store: Store,
        publication: InputRef,
    }

    impl Published {
        fn new() -> Self {
            let store = Store::open("memory:").expect("a store");
            let bytes = include_bytes!("../../../manifests/examples/v1alpha1/publication.json");
            let mut json: Value = serde_json::from_slice(bytes).expect("JSON");
            json["header"]["inputs"] = json!([]);
            put_artifacts(&mut json, &store);
            let manifest = store.put(&canonical_json(&json).expect("canonical")).expect("put");
            let bundle = store.put(b"bundle").expect("put");
            let publication = InputRef { kind: Kind::Publication, manifest, bundle };
            Self { folder: tempfile::tempdir().expect("a folder"), store, publication }
        }

        fn folder(&self) -> PathBuf {
            self.folder.path().join("published")
        }

        fn export(&self) -> PathBuf {
            let run_id = "mine".parse().expect("a run id");
            let target = export(&self.store, &run_id, self.publication, &self.folder()).expect("exported");
            for (name, digest) in contents(&self.store, self.publication).expect("files") {
                assert_eq!(hash_file(&target, &name).expect("a file"), FoundFile::Plain(digest), "{name}");
            }
            assert!(!self.folder().join(".staged-mine").exists());
            target.strip_prefix(self.folder()).expect("inside").to_owned()
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.folder().join(path);
            create_parent(&path).expect("a folder");
            fs::write(path, text).expect("written");
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.folder().join(path)).expect("a file")
        }

        /// The name of the folder beside one that holds something else.
        fn beside(&self) -> String {
            format!("mine-{}", self.publication.manifest.short())
        }
    }

    #[test]
    fn a_folder_of_the_same_run_keeps_what_a_user_has_added() {
        let run = Published::new();
        assert_eq!(run.export(), Path::new("mine"));
        run.write("mine/note.txt", "a note");
        run.write("mine/chain/note.txt", "another note");
        fs::remove_file(run.folder().join("mine").join("numbers.json")).expect("removed");
        assert_eq!(run.export(), Path::new("mine"), "what is missing is written again");
        assert_eq!([run.read("mine/note.txt"), run.read("mine/chain/note.txt")], ["a note", "another note"]);
    }

    #[test]
    fn a_folder_that_assay_did_not_write_is_left_alone() {
        let run = Published::new();
        run.write("mine/data/results.csv", "precious");
        let beside = run.beside();
        assert_eq!(run.export(), Path::new(&beside));
        assert_eq!(run.export(), Path::new(&beside), "the same folder again");
        run.write(&format!("{beside}/numbers.json"), "changed");
        assert_eq!(run.export(), Path::new(&format!("{beside}-2")));
        assert_eq!([run.read("mine/data/results.csv"), run.read(&format!("{beside}/numbers.json"))], ["precious", "changed"]);
        assert_eq!(fs::read_dir(run.folder()).expect("a folder").count(), 3);
    }

    #[test]
    fn an_empty_folder_is_free_and_a_link_is_not() {
        let run = Published::new();
        fs::create_dir_all(run.folder().join("mine")).expect("created");
        assert_eq!(run.export(), Path::new("mine"));
        let elsewhere = tempfile::tempdir().expect("a folder");
        for (place, target) in [("mine", "whole"), ("mine/chain", "chain")] {
            let (place, target) = (run.folder().join(place), elsewhere.path().join(target));
            fs::rename(&place, &target).expect("moved");
            std::os::unix::fs::symlink(&target, &place).expect("a link");
            assert_eq!(run.export(), Path::new(&run.beside()));
            fs::remove_file(&place).expect("removed");
            fs::rename(&target, &place).expect("moved");
            fs::remove_dir_all(run.folder().join(run.beside())).expect("removed");
        }
        fs::rename(run.folder(), elsewhere.path().join("published")).expect("moved");
        std::os::unix::fs::symlink(elsewhere.path().join("published"), run.folder()).expect("a link");
        let refused = export(&run.store, &"mine".parse().expect("a run id"), run.publication, &run.folder()).expect_err("a link");
        assert!(refused.to_string().contains("is a symbolic link"), "{refused}");
    }
}
