//! The blobs that the runs and verdicts of a store name: what a removal must leave, and what a list of sizes adds up.

use std::collections::{BTreeMap, BTreeSet};

use assay_envelope::{MAX_OUTPUT_SUBJECTS, outputs_index};
use assay_manifest::{Artifact, BlobKind, Digest, Document, Kind, MAX_MANIFEST_BYTES, RunId, Sequence};
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout};
use assay_store::{MAX_POINTER_BYTES, Store};
use assay_verify::{
    StoreBlobs, blob_kind, check_pointer_target, map_in_parallel, raw_kind, read_evidence_list, removable_artifacts,
};

use crate::list::run_ids;

/// The part of a run that needs a blob, the strongest need last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Raw evidence: level 3.
    Evidence,
    /// Rows, numbers and reports, and the evidence that is published with them: level 2.
    Results,
    /// The signed chain and the definitions that it rests on: level 1.
    Chain,
}

/// A blob that a run names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBlob {
    /// Its kind, by the first manifest that names it.
    pub kind: BlobKind,
    /// The strongest need of the run for it.
    pub need: Need,
    /// Its name, and the size and media type that the run states; `None` for manifests and bundles.
    pub artifact: Option<Artifact>,
}

/// The blobs that one run names, by digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReferences {
    /// The run.
    pub run_id: RunId,
    /// The blobs.
    pub blobs: BTreeMap<Digest, NamedBlob>,
    /// The kinds of manifest that its pointers lead to.
    pub kinds: BTreeSet<Kind>,
    /// Pointers, and the list of evidence, that its manifests name and the store lacks: the run may need more blobs than these.
    pub gaps: BTreeSet<String>,
    /// The reasons why pointers lead to manifests that do not belong there: what they led to before is not known.
    pub misplaced: BTreeSet<String>,
}

/// Reads the blobs that a run names: everything below its pointers.
///
/// # Errors
/// Fails if a pointer or manifest cannot be read: then it is not known what the run needs.
pub fn run_references(store: &Store, run_id: &RunId) -> Result<RunReferences, Failure> {
    let in_run = |failure: Failure| {
        let message = format!("what run `{run_id}` needs is not known: {}", failure.message);
        Failure { message, ..failure }
    };
    let mut references = RunReferences {
        run_id: run_id.clone(),
        blobs: BTreeMap::new(),
        kinds: BTreeSet::new(),
        gaps: BTreeSet::new(),
        misplaced: BTreeSet::new(),
    };
    let mut pending = Vec::new();
    let mut pointers: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    for path in store.list(&Layout::for_run(run_id).run())? {
        let Some(bytes) = store.read(&path, MAX_POINTER_BYTES)? else { continue };
        match AcceptedResult::parse(&path, &bytes) {
            Ok(accepted) => {
                pending.push((accepted.manifest, accepted.bundle));
                pointers.entry(accepted.manifest).or_default().push(path);
            }
            Err(damaged) if is_pointer(&path) => {
                return Err(in_run(damaged).hint("restore the pointer from a copy of the store"));
            }
            // Marks between shards are no references.
            Err(_) => {}
        }
    }
    let mut seen = BTreeSet::new();
    while let Some((manifest, bundle)) = pending.pop() {
        if seen.insert(manifest) {
            let document = read_document(store, manifest).map_err(in_run)?;
            // A run may be made from manifests of another one, which has pointers of its own.
            if let Some(paths) = pointers.get(&manifest) {
                references.kinds.insert(document.kind());
                let misplaced = paths.iter().filter_map(|path| check_pointer_target(run_id, path, &document).err());
                references.misplaced.extend(misplaced.map(|error| error.to_string()));
            } else if document.header().run_id == *run_id {
                references.gaps.insert(format!("no pointer leads to its {}", document.kind()));
            }
            pending.extend(document.header().inputs.iter().map(|input| (input.manifest, input.bundle)));
            references.add_manifest(manifest);
            references.add_document(store, &document).map_err(in_run)?;
        }
        references.add_manifest(bundle);
    }
    Ok(references)
}

/// Returns true for the path of a pointer, and false for that of a mark, which leads to no manifest.
fn is_pointer(path: &str) -> bool {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    match path.split('/').skip(2).collect::<Vec<_>>().as_slice() {
        ["source"] | ["ends" | "tombstones", _] | [_, _, "accepted", _] => true,
        ["execute", _, "trials", _, _, last] | ["execute", _, "prepared" | "stacks", _, last] => is_number(last),
        _ => false,
    }
}

/// Reads the blobs that every run of a store names, in the order of the runs' names.
pub fn all_references(store: &Store) -> Result<Vec<RunReferences>, Failure> {
    map_in_parallel(&run_ids(store)?, |run| run_references(store, run)).into_iter().collect()
}

/// A verdict about a run or about foreign evidence, a calibration, foreign evidence or a search result of a store, as a removal sees it: it is not verified, because it rests on its runs, whichever signer it has.
#[derive(Clone, Debug)]
pub struct VerdictReferences {
    /// The path of its pointer, such as `gates/pr-17/000001`.
    pub path: String,
    /// The digest of its manifest.
    pub manifest: Digest,
    /// The sequence that it belongs to; `None` if it is no verdict.
    pub sequence: Option<Sequence>,
    /// The kind of its manifest.
    pub kind: Kind,
    /// The Summaries that it judged; only a verdict judges some.
    pub summaries: BTreeSet<Digest>,
    /// The blobs that it names.
    pub blobs: BTreeSet<Digest>,
    /// The files that it was decided by, or its raw evidence.
    pub files: Vec<Artifact>,
}

/// Reads the blobs that the verdicts, calibrations, foreign evidence and search results of a store name. The runs of a search have pointers of
/// their own, and what a search result is verified by stays when their evidence is removed: manifests and definitions.
pub fn verdict_references(store: &Store) -> Result<Vec<VerdictReferences>, Failure> {
    let mut verdicts = Vec::new();
    let folders = [Layout::VERDICTS, Layout::CALIBRATIONS, Layout::FOREIGN, Layout::FOREIGN_VERDICTS, Layout::SEARCHES];
    for path in folders.map(|folder| store.list(folder)).into_iter().collect::<Result<Vec<_>, _>>()?.concat() {
        let Some(AcceptedResult { manifest, bundle }) = AcceptedResult::read(store, &path)? else { continue };
        let document = read_document(store, manifest).map_err(|failure| {
            let message = format!("what `{path}` needs is not known: {}", failure.message);
            Failure { message, ..failure }
        })?;
        let artifacts: Vec<Artifact> = document.artifacts().into_iter().cloned().collect();
        let (sequence, summaries) = match &document {
            Document::Verdict(verdict) => {
                (Some(verdict.body.sequence.clone()), verdict.body.runs.iter().map(|run| run.summary.manifest).collect())
            }
            _ => (None, BTreeSet::new()),
        };
        let blobs = artifacts.iter().map(|artifact| artifact.digest).chain([manifest, bundle]).collect();
        let kind = document.kind();
        verdicts.push(VerdictReferences { path, manifest, sequence, kind, summaries, blobs, files: artifacts });
    }
    Ok(verdicts)
}

fn read_document(store: &Store, manifest: Digest) -> Result<Document, Failure> {
    let bytes = store.get(&manifest, MAX_MANIFEST_BYTES)?;
    Document::parse(&bytes)
        .map_err(|error| Failure::new(ErrorCode::Manifest, format!("{manifest} is not a manifest")).because(&error))
}

impl RunReferences {
    fn add(&mut self, digest: Digest, blob: NamedBlob) {
        let known = self.blobs.entry(digest).or_insert_with(|| blob.clone());
        known.need = known.need.max(blob.need);
    }

    /// Adds a manifest, a bundle, or a list that they name.
    fn add_manifest(&mut self, digest: Digest) {
        self.add(digest, NamedBlob { kind: BlobKind::Manifests, need: Need::Chain, artifact: None });
    }

    fn add_document(&mut self, store: &Store, document: &Document) -> Result<(), Failure> {
        let artifacts = document.artifacts();
        if artifacts.len() > MAX_OUTPUT_SUBJECTS {
            let index = outputs_index(&artifacts)
                .map_err(|error| Failure::new(ErrorCode::Internal, "a list of outputs has no canonical form").because(&error))?;
            self.add_manifest(Digest::compute(&index));
        }
        let removable: BTreeSet<&Artifact> = removable_artifacts(document).into_iter().collect();
        for artifact in artifacts {
            let need = match document {
                _ if !removable.contains(artifact) => Need::Chain,
                Document::Environment(_) | Document::Summary(_) | Document::Publication(_) => Need::Results,
                _ => Need::Evidence,
            };
            let kind = blob_kind(document, artifact);
            self.add(artifact.digest, NamedBlob { kind, need, artifact: Some(artifact.clone()) });
        }
        match document {
            Document::Collection(collection) => {
                let list = read_evidence_list(&StoreBlobs::new(store.clone()), &collection.body)?;
                // No removal takes the list itself.
                if list.is_none() {
                    self.gaps.insert("its list of evidence is absent".to_owned());
                }
                for artifact in list.unwrap_or_default() {
                    let kind = raw_kind(&artifact);
                    self.add(artifact.digest, NamedBlob { kind, need: Need::Evidence, artifact: Some(artifact) });
                }
            }
            Document::Publication(publication) => {
                let blob = NamedBlob { kind: BlobKind::Definitions, need: Need::Chain, artifact: None };
                self.add(publication.body.trust_policy, blob);
            }
            _ => {}
        }
        Ok(())
    }
}
