//! Removals of a run's evidence: the signed tombstones that explain why artifacts are missing.
//!
//! A tombstone explains what `assay runs rm` removes and nothing else: raw evidence, and what was made from it. Manifests, the files
//! of the commit and the frozen definitions are never removed, so their absence is a failure whatever a tombstone lists.

use std::collections::{BTreeMap, BTreeSet};

use assay_chain::{dataset_outputs, published_outputs};
use assay_envelope::{Trust, Verified};
use assay_manifest::{Artifact, BlobKind, Body as _, Count, Digest, Document, InputRef, Kind, RemovedKind, Summary, Tombstone};
use assay_stage::{AcceptedResult, Layout};
use serde::Serialize;

use crate::blobs::{Blobs, StoreBlobs};
use crate::levels::{LevelReport, check_present};
use crate::walk::{Chain, load};
use crate::{Error, Result, TombstoneFault};

/// The largest list of removed artifacts, in bytes.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// A tombstone that verifies.
#[derive(Clone, Debug)]
pub struct VerifiedTombstone {
    /// The tombstone.
    pub body: Tombstone,
    /// The name of its signer.
    pub signer: String,
    /// True if a trust policy names the signer.
    pub established: bool,
    /// The artifacts that it lists.
    pub list: Vec<Artifact>,
}

impl VerifiedTombstone {
    /// Returns the removal in one line: `removed by ACCOUNT, TIME (asserted), signed by SIGNER: REASON`. Texts of the tombstone are
    /// escaped.
    pub fn describe(&self) -> String {
        let Tombstone { by, removed_at, reason, .. } = &self.body;
        let (by, at, reason) = (by.escape_debug(), removed_at.to_seconds(), reason.escape_debug());
        format!("removed by {by}, {at} (asserted), signed by {}: {reason}", self.signer)
    }
}

/// The removals of a run.
#[derive(Debug, Default)]
pub struct Removals {
    /// The tombstones that verify, in the order of their numbers.
    pub tombstones: Vec<VerifiedTombstone>,
    /// The pointers to tombstones that do not, with the reason. They explain nothing.
    pub refused: Vec<(String, Error)>,
    digests: BTreeSet<Digest>,
}

/// Artifacts of one kind that are missing, and that a tombstone lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingKind {
    /// The kind.
    pub kind: BlobKind,
    /// The name of the first.
    pub first: String,
    /// Their number.
    pub count: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Removals {
    /// Returns the first tombstone that verifies and lists the artifact.
    pub fn tombstone(&self, artifact: &Artifact) -> Option<&VerifiedTombstone> {
        let lists = |tombstone: &&VerifiedTombstone| tombstone.list.iter().any(|listed| listed.digest == artifact.digest);
        self.tombstones.iter().find(lists)
    }

    /// Returns true if a tombstone that verifies lists the artifact.
    pub fn explains(&self, artifact: &Artifact) -> bool {
        self.digests.contains(&artifact.digest)
    }
}

/// Reads the tombstones of a run in a store. One counts if it verifies under `trust`, was made from manifests of this chain, and
/// its list has the totals that it states.
pub fn read_removals(blobs: &StoreBlobs, chain: &Chain, trust: &Trust) -> Result<Removals> {
    let mut removals = Removals::default();
    for path in blobs.store().list(&Layout::for_run(&chain.run_id).tombstones())? {
        match read_tombstone(blobs, &path, chain, trust) {
            Ok(tombstone) => {
                removals.digests.extend(tombstone.list.iter().map(|artifact| artifact.digest));
                removals.tombstones.push(tombstone);
            }
            Err(error) => removals.refused.push((path, error)),
        }
    }
    Ok(removals)
}

fn read_tombstone(blobs: &StoreBlobs, path: &str, chain: &Chain, trust: &Trust) -> Result<VerifiedTombstone> {
    let refuse = |fault| Error::Tombstone { path: path.to_owned(), fault };
    let accepted = AcceptedResult::read(blobs.store(), path)?.ok_or_else(|| refuse(TombstoneFault::NoPointer))?;
    let verified = load(blobs, accepted.as_input(Kind::Tombstone), None, trust, &chain.run_id)?;
    let manifest = Tombstone::from_document(verified.value()).ok_or_else(|| refuse(TombstoneFault::NoPointer))?;
    let known: BTreeSet<InputRef> = chain.documents.iter().map(Verified::input_ref).collect();
    if manifest.header.inputs.is_empty() || !manifest.header.inputs.iter().all(|input| known.contains(input)) {
        return Err(refuse(TombstoneFault::OtherRun));
    }
    let body = manifest.body.clone();
    if Layout::for_run(&chain.run_id).tombstone(body.sequence) != path {
        return Err(refuse(TombstoneFault::Moved(body.sequence)));
    }
    let bytes = blobs.get(&body.list.digest, MAX_LIST_BYTES)?.ok_or_else(|| refuse(TombstoneFault::NoList))?;
    let list: Vec<Artifact> = serde_json::from_slice(&bytes).map_err(|_| refuse(TombstoneFault::OtherList))?;
    if sum_kinds(&chain.documents, &list) != body.kinds {
        return Err(refuse(TombstoneFault::OtherList));
    }
    Ok(VerifiedTombstone { body, signer: verified.signer().name.clone(), established: verified.signer().established, list })
}

/// Returns the number and size of artifacts by kind, in the order of the kinds.
pub fn sum_kinds<'a>(documents: &[Verified<Document>], list: impl IntoIterator<Item = &'a Artifact>) -> Vec<RemovedKind> {
    let kinds = KindsByDigest::of(documents.iter().map(Verified::value));
    let mut sums: BTreeMap<BlobKind, (u64, u64)> = BTreeMap::new();
    for artifact in list {
        let sum = sums.entry(kinds.kind(artifact)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(artifact.size.0));
    }
    sums.into_iter().map(|(kind, (count, bytes))| RemovedKind { kind, count: Count(count), bytes: Count(bytes) }).collect()
}

/// The kinds of a run's artifacts, by digest.
struct KindsByDigest(BTreeMap<Digest, BlobKind>);

impl KindsByDigest {
    fn of<'a>(documents: impl Iterator<Item = &'a Document>) -> Self {
        let kinds = documents.flat_map(|document| {
            document.artifacts().into_iter().map(|artifact| (artifact.digest, blob_kind(document, artifact)))
        });
        let mut by_digest = BTreeMap::new();
        // The first kind counts where two artifacts have the same bytes, so that every reader has the same sums.
        kinds.for_each(|(digest, kind)| {
            by_digest.entry(digest).or_insert(kind);
        });
        Self(by_digest)
    }

    /// Returns the kind of an artifact; one that only the Collection lists is raw evidence.
    fn kind(&self, artifact: &Artifact) -> BlobKind {
        self.0.get(&artifact.digest).copied().unwrap_or_else(|| raw_kind(artifact))
    }
}

/// Returns the kind of an artifact of a document.
pub fn blob_kind(document: &Document, artifact: &Artifact) -> BlobKind {
    match document {
        Document::Plan(_) if dataset_outputs(document).contains(&artifact) => BlobKind::Evidence,
        Document::Source(_) | Document::Plan(_) | Document::Verdict(_) | Document::ForeignVerdict(_) | Document::RunEnd(_) => {
            BlobKind::Definitions
        }
        Document::Collection(_) | Document::Tombstone(_) => BlobKind::Manifests,
        Document::Recording(_) => BlobKind::Recordings,
        Document::Environment(_)
        | Document::ExecutionPart(_)
        | Document::Checkpoint(_)
        | Document::Calibration(_)
        | Document::ForeignEvidence(_)
        | Document::SearchResult(_) => raw_kind(artifact),
        Document::Summary(summary) if is_curated(&summary.body, artifact) => BlobKind::Curated,
        Document::Publication(publication) if publication.body.keys.contains(artifact) => BlobKind::Definitions,
        Document::Summary(_) | Document::Publication(_) => BlobKind::Reports,
    }
}

fn is_curated(summary: &Summary, artifact: &Artifact) -> bool {
    summary.files.iter().any(|file| file.artifact.digest == artifact.digest)
}

/// Returns the kind of a raw artifact.
pub fn raw_kind(artifact: &Artifact) -> BlobKind {
    let file = artifact.name.rsplit('/').next().unwrap_or_default();
    if artifact.media_type == "application/vnd.apache.parquet" {
        BlobKind::Records
    } else if matches!(file, "stdout" | "stderr") || file.contains(".log") || artifact.media_type.starts_with("text/") {
        BlobKind::Logs
    } else if artifact.name.starts_with("recordings/") {
        BlobKind::Recordings
    } else {
        BlobKind::Evidence
    }
}

/// Returns the artifacts of a document that a removal may take: none of what level 1 rests on, and none of the files that a reader
/// needs to establish signers.
pub fn removable_artifacts(document: &Document) -> Vec<&Artifact> {
    match document {
        Document::ExecutionPart(_)
        | Document::Recording(_)
        | Document::Checkpoint(_)
        | Document::Environment(_)
        | Document::Summary(_) => document.artifacts(),
        Document::Publication(publication) => {
            document.artifacts().into_iter().filter(|artifact| !publication.body.keys.contains(artifact)).collect()
        }
        Document::Plan(_) => dataset_outputs(document),
        _ => Vec::new(),
    }
}

/// Level 2 of a run whose published outputs were removed: `None` if none of them is missing. The present ones are hashed.
///
/// # Errors
/// Fails if an output is missing that no tombstone explains, or whose bytes do not match.
pub fn verify_removed_rows(blobs: &dyn Blobs, chain: &Chain, removals: &Removals) -> Result<Option<LevelReport>> {
    let mut report = LevelReport::default();
    for document in chain.documents.iter().map(Verified::value) {
        let removable: BTreeSet<Digest> = removable_artifacts(document).iter().map(|artifact| artifact.digest).collect();
        for artifact in published_outputs(document) {
            let none = Removals::default();
            let explained = if removable.contains(&artifact.digest) { removals } else { &none };
            check_present(blobs, artifact, explained, &mut report)?;
            if !report.absent.is_empty() {
                return Err(crate::levels::absent(artifact));
            }
        }
    }
    Ok(Some(report).filter(|report| !report.removed.is_empty()))
}

/// Returns missing artifacts by kind, in the order of the kinds.
pub fn group_missing(documents: &[Verified<Document>], missing: &[Artifact]) -> Vec<MissingKind> {
    let kinds = KindsByDigest::of(documents.iter().map(Verified::value));
    let mut groups: BTreeMap<BlobKind, MissingKind> = BTreeMap::new();
    for artifact in missing {
        let kind = kinds.kind(artifact);
        let group = groups.entry(kind).or_insert_with(|| MissingKind { kind, first: artifact.name.clone(), count: 0, bytes: 0 });
        group.count += 1;
        group.bytes = group.bytes.saturating_add(artifact.size.0);
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_artifacts_have_a_kind_by_name_and_type() {
        let kind = |name: &str, media_type: &str| {
            let (name, media_type) = (name.to_owned(), media_type.to_owned());
            raw_kind(&Artifact { name, digest: Digest::compute(b""), size: Count(0), media_type }).as_str()
        };
        assert_eq!(kind("trials/t0/0/stdout", "application/octet-stream"), "logs");
        assert_eq!(kind("logs/server.log.1", "application/octet-stream"), "logs");
        assert_eq!(kind("trials/t0/0/requests", "application/vnd.apache.parquet"), "records");
        assert_eq!(kind("recordings/0-0-0/host.jsonl", "application/jsonl"), "recordings");
        assert_eq!(kind("cluster/pods.json", "application/json"), "evidence");
    }

    #[test]
    fn only_what_is_listed_is_explained() {
        let artifact = |text: &str| Artifact {
            name: text.to_owned(),
            digest: Digest::compute(text.as_bytes()),
            size: Count(1),
            media_type: "text/plain".to_owned(),
        };
        let removals = Removals { digests: [artifact("listed").digest].into(), ..Removals::default() };
        assert!(removals.explains(&artifact("listed")) && !removals.explains(&artifact("other")));
        assert!(!Removals::default().explains(&artifact("listed")));
    }

    #[test]
    fn missing_artifacts_are_grouped_by_kind() {
        let artifact = |name: &str, size| Artifact {
            name: name.to_owned(),
            digest: Digest::compute(name.as_bytes()),
            size: Count(size),
            media_type: "application/octet-stream".to_owned(),
        };
        let missing = [artifact("a/stdout", 3), artifact("b", 5), artifact("c/stderr", 4)];
        let groups = group_missing(&[], &missing);
        let shown: Vec<_> =
            groups.iter().map(|group| (group.kind.as_str(), group.first.as_str(), group.count, group.bytes)).collect();
        assert_eq!(shown, [("logs", "a/stdout", 2, 7), ("evidence", "b", 1, 5)]);
    }
}
