//! The published folder: everything that a reader needs to verify a run up to its rows, as plain files with plain names.

use std::fs;
use std::path::{Path, PathBuf};

use assay_chain::published_files;
use assay_manifest::{Digest, Document, InputRef, MAX_MANIFEST_BYTES, RunId};
use assay_store::{Scratch, Store};

use crate::{Error, FileRole, Result};

/// The path of the Publication in a published folder.
const PUBLICATION: &str = "chain/publication.json";

/// The most bytes that may pass through scratch files while a folder is written.
const SCRATCH_BYTES: u64 = 16 << 30;

/// Writes a run's published folder to `folder/<run>` and returns its path. It appears whole: an earlier one is replaced at the
/// end. If `folder/<run>` holds another run of that name, from another store, it is left as it is: the start of the publication's
/// digest is appended to the name.
///
/// Raw evidence stays in the store; its digests are in the folder.
pub fn export(store: &Store, run_id: &RunId, publication: InputRef, folder: &Path) -> Result<PathBuf> {
    let unwritable = |path: &Path, error: std::io::Error| FileRole::Export.error(path)(error);
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    // Named after the run, so that the next export removes the remains of a killed process.
    let staged = folder.join(format!(".staged-{run_id}"));
    if staged.exists() {
        fs::remove_dir_all(&staged).map_err(|error| unwritable(&staged, error))?;
    }
    fs::create_dir_all(&staged).map_err(|error| unwritable(&staged, error))?;
    let scratch = Scratch::new_in(&staged, SCRATCH_BYTES)?;
    let whole = staged.join("run");
    for (name, digest) in contents(store, publication)? {
        let path = whole.join(&name);
        let parent = path.parent().unwrap_or(&whole);
        fs::create_dir_all(parent).map_err(|error| unwritable(parent, error))?;
        store.materialise(&digest, &scratch)?.persist(&path)?;
        make_readable(&path).map_err(|error| unwritable(&path, error))?;
    }
    let target = folder.join(folder_name(folder, run_id, &publication));
    if target.exists() {
        fs::remove_dir_all(&target).map_err(|error| unwritable(&target, error))?;
    }
    fs::rename(&whole, &target).map_err(|error| unwritable(&target, error))?;
    drop(scratch);
    fs::remove_dir_all(&staged).map_err(|error| unwritable(&staged, error))?;
    Ok(target)
}

fn folder_name(folder: &Path, run_id: &RunId, publication: &InputRef) -> String {
    let there = fs::read(folder.join(run_id.as_str()).join(PUBLICATION));
    let is_other = there.is_ok_and(|bytes| Digest::compute(&bytes) != publication.manifest);
    if is_other { format!("{run_id}-{}", publication.manifest.short()) } else { run_id.to_string() }
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
