//! The pointers of a run in a store: each leads to a manifest of that run, of the kind that its path states.
//!
//! The target of a pointer is not signed, so anyone who can write to a store can turn a pointer to another run. A run's chain is
//! found through a few pointers and pins the rest by digest; the others are those that a resumed run, a listing or an estimate
//! would follow.

use std::collections::BTreeSet;

use assay_manifest::{Body as _, Checkpoint, Digest, Document, Kind, MAX_MANIFEST_BYTES, RunId, Shard};
use assay_stage::{AcceptedResult, Layout, StageName};
use assay_store::Store;

use crate::walk::Chain;
use crate::{Error, PointerTarget, Result};

/// Checks every pointer of a run. A manifest of its chain has been verified; for any other, run, kind and path are compared.
pub fn check_pointers(store: &Store, chain: &Chain) -> Result<()> {
    let run = &chain.run_id;
    let layout = Layout::for_run(run);
    let known: BTreeSet<Digest> = chain.documents.iter().map(assay_envelope::Verified::manifest_digest).collect();
    for path in store.list(&layout.run())? {
        let Some(kind) = pointer_kind(&layout, &path) else { continue };
        let Some(accepted) = AcceptedResult::read(store, &path)? else { continue };
        // There is one Source, and every manifest of the chain rests on it.
        let is_known = known.contains(&accepted.manifest);
        if kind == Kind::Source && !is_known && chain.one::<assay_manifest::Source>().is_some() {
            return Err(misplaced_pointer(&path, PointerTarget::OtherSource));
        }
        if !is_known || kind == Kind::Checkpoint {
            check_manifest(store, run, &path, kind, accepted.manifest)?;
        }
    }
    Ok(())
}

/// Returns the kind of manifest that a pointer leads to; `None` for a mark, which leads to none.
fn pointer_kind(layout: &Layout, path: &str) -> Option<Kind> {
    let parts: Vec<&str> = path.strip_prefix(&layout.run())?.split('/').skip(1).collect();
    let stage = |name: &str| StageName::ALL.into_iter().find(|stage| stage.as_str() == name);
    match parts.as_slice() {
        ["source"] => Some(Kind::Source),
        ["ends", _] => Some(Kind::RunEnd),
        [name, _, "accepted", _] => stage(name).map(StageName::output_kind),
        ["execute", _, "trials", _, _, last] | ["execute", _, "prepared" | "stacks", _, last] => {
            last.bytes().all(|byte| byte.is_ascii_digit()).then_some(Kind::Checkpoint)
        }
        _ => None,
    }
}

fn check_manifest(store: &Store, run: &RunId, path: &str, kind: Kind, manifest: Digest) -> Result<()> {
    let document = Document::parse(&store.get(&manifest, MAX_MANIFEST_BYTES)?).map_err(|error| Error::Pointer {
        path: path.to_owned(),
        target: PointerTarget::NoManifest,
        source: Some(error),
    })?;
    check_document(run, path, kind, &document)
}

/// Checks that a manifest belongs to the pointer of a run that leads to it: run, kind, the step of a checkpoint, and the number of
/// an end or a tombstone. A mark leads to no manifest, so any other path passes.
///
/// # Errors
/// Fails with `pointer_elsewhere` if the manifest does not belong there.
pub fn check_pointer_target(run: &RunId, path: &str, document: &Document) -> Result<()> {
    let layout = Layout::for_run(run);
    let kind = match path.strip_prefix(&layout.tombstones()) {
        Some(_) => Some(Kind::Tombstone),
        None => pointer_kind(&layout, path),
    };
    kind.map_or(Ok(()), |kind| check_document(run, path, kind, document))?;
    let numbered = match document {
        Document::RunEnd(end) => layout.end(end.body.sequence),
        Document::Tombstone(tombstone) => layout.tombstone(tombstone.body.sequence),
        _ => return Ok(()),
    };
    if kind.is_some() && numbered != path {
        return Err(misplaced_pointer(path, PointerTarget::OtherNumber(document.kind())));
    }
    Ok(())
}

fn check_document(run: &RunId, path: &str, kind: Kind, document: &Document) -> Result<()> {
    if document.header().run_id != *run {
        return Err(misplaced_pointer(path, PointerTarget::OtherRun(document.header().run_id.clone())));
    }
    if document.kind() != kind {
        return Err(misplaced_pointer(path, PointerTarget::OtherKind { found: document.kind(), expected: kind }));
    }
    match Checkpoint::from_document(document).filter(|checkpoint| checkpoint_path(run, &checkpoint.body).as_deref() != Some(path))
    {
        Some(_) => Err(misplaced_pointer(path, PointerTarget::OtherStep)),
        None => Ok(()),
    }
}

/// Returns the path of the pointer that names a checkpoint.
fn checkpoint_path(run: &RunId, checkpoint: &Checkpoint) -> Option<String> {
    let (layout, input, shard): (_, _, Shard) = (Layout::for_run(run), checkpoint.input_digest, checkpoint.shard);
    match (&checkpoint.attempt, &checkpoint.prepared, &checkpoint.stack) {
        (Some(attempt), None, None) => Some(layout.attempt(input, &attempt.trial_id, attempt.attempt, shard)),
        (None, Some(prepared), None) => Some(layout.prepared(input, prepared.workload.as_str(), shard)),
        (None, None, Some(stack)) => Some(layout.stack(input, stack.variant.as_str(), shard)),
        _ => None,
    }
}

fn misplaced_pointer(path: &str, target: PointerTarget) -> Error {
    Error::Pointer { path: path.to_owned(), target, source: None }
}
