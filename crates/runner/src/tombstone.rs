//! Tombstones: the signed statements that evidence of a run was removed, and why.

use std::path::{Path, PathBuf};

use assay_manifest::{InputRef, Role, RunId, Shard, Tombstone};
use assay_stage::{AcceptedResult, Clock, Layout, Seal, binary_digest, seal};
use assay_store::Store;
use serde_json::json;

use crate::driver::create_or_read;
use crate::{Error, KeyRing, Result, RunLock, default_store};

/// The limit on removals of one run.
const MAX_TOMBSTONES: u32 = 10_000;

/// Signs a tombstone of a run with the key of the role `source`, and creates it under the next free number, which replaces the one
/// in `tombstone`. `inputs` are manifests of the run's chain: they tie the tombstone to this run and no other of its name.
pub fn sign_tombstone(
    store: &Store,
    keys: &KeyRing,
    run_id: &RunId,
    inputs: &[InputRef],
    tombstone: &Tombstone,
) -> Result<Tombstone> {
    let layout = Layout::for_run(run_id);
    for sequence in 0..MAX_TOMBSTONES {
        let path = layout.tombstone(sequence);
        if store.read(&path, AcceptedResult::MAX_BYTES)?.is_some() {
            continue;
        }
        let body = Tombstone { sequence, ..tombstone.clone() };
        let seal_with = Seal {
            signer: keys.signer(Role::Source)?,
            binary: binary_digest()?,
            invocation_id: format!("{run_id}-removal-{}", std::process::id()),
            started: Clock.now(),
            parameters: json!({"scope": body.scope, "reason": body.reason}),
            stage: None,
            shard: Shard::ONLY,
            trust_policy: None,
            dependencies: Vec::new(),
        };
        let sealed = seal(&seal_with, store, run_id, inputs.to_vec(), body.clone())?.reference;
        let accepted = AcceptedResult { manifest: sealed.manifest, bundle: sealed.bundle };
        if create_or_read(store, &path, &accepted.to_bytes()?)?.is_none() {
            return Ok(body);
        }
    }
    Err(Error::TooManyEnds(MAX_TOMBSTONES))
}

/// Takes the locks under which a process of this machine would drive a run in this store, so that none begins meanwhile. Fails if
/// one does.
pub fn lock_run(store: &Store, run_id: &RunId) -> Result<Vec<RunLock>> {
    lock_folders(store).iter().map(|folder| RunLock::take_patiently(folder, run_id)).collect()
}

/// Returns true if a process of this machine drives a run in this store now.
pub fn is_run_locked(store: &Store, run_id: &RunId) -> bool {
    lock_folders(store).iter().any(|folder| RunLock::is_taken(folder, run_id))
}

/// Returns the folders in which a process of this machine that drives a run in this store would have its lock.
fn lock_folders(store: &Store) -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = store.local_root().map(Path::to_path_buf).into_iter().collect();
    homes.extend(default_store().ok().map(PathBuf::from));
    homes.dedup();
    homes.into_iter().map(|home| home.join("locks")).filter(|folder| folder.is_dir()).collect()
}
