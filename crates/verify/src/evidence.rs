//! The raw evidence of a run: checks that the Collection lists all of it, and that its bytes are present and match.

use std::collections::BTreeSet;

use assay_chain::dataset_outputs;
use assay_envelope::Verified;
use assay_manifest::{Artifact, Collection, Count, Document, Kind};

use crate::blobs::Blobs;
use crate::levels::{LevelReport, check_present};
use crate::tombstones::Removals;
use crate::walk::Chain;
use crate::{Error, EvidenceFault, Result};

/// The largest list of evidence, in bytes.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// Returns the raw artifacts of a run, as its Collection lists them.
pub fn read_evidence_list(blobs: &dyn Blobs, collection: &Collection) -> Result<Option<Vec<Artifact>>> {
    if (collection.evidence.name.as_str(), collection.evidence.media_type.as_str()) != ("evidence.json", "application/json") {
        return Err(Error::EvidenceList(EvidenceFault::OtherDocument));
    }
    let Some(bytes) = blobs.get(&collection.evidence.digest, MAX_LIST_BYTES)? else { return Ok(None) };
    let list: Vec<Artifact> =
        serde_json::from_slice(&bytes).map_err(|error| Error::EvidenceList(EvidenceFault::Malformed(error)))?;
    if list.len() as u64 != collection.evidence_count.0 {
        let stated = collection.evidence_count;
        return Err(Error::EvidenceList(EvidenceFault::Count { found: list.len(), stated }));
    }
    let bytes = Count(list.iter().fold(0, |sum, artifact| sum.saturating_add(artifact.size.0)));
    if bytes != collection.evidence_bytes {
        return Err(Error::EvidenceList(EvidenceFault::Bytes { found: bytes, stated: collection.evidence_bytes }));
    }
    if list.windows(2).any(|pair| matches!(pair, [first, second] if first >= second)) {
        return Err(Error::EvidenceList(EvidenceFault::Order));
    }
    Ok(Some(list))
}

/// Checks that a list of evidence holds every artifact of the run's ExecutionParts, Recordings and Environments: the Collection
/// is not trusted to be complete. The list may hold more, such as responses of a cluster; returns the number of entries that only
/// the list names.
pub fn check_evidence_list(documents: &[Verified<Document>], list: &[Artifact]) -> Result<usize> {
    let is_raw = |kind: Kind| matches!(kind, Kind::ExecutionPart | Kind::Recording | Kind::Environment);
    let raw = documents.iter().map(Verified::value).filter(|document| is_raw(document.kind())).flat_map(Document::artifacts);
    let raw: BTreeSet<&Artifact> = raw.collect();
    let listed: BTreeSet<&Artifact> = list.iter().collect();
    match raw.iter().find(|artifact| !listed.contains(*artifact)) {
        None => Ok(list.iter().filter(|artifact| !raw.contains(artifact)).count()),
        Some(Artifact { name, digest, .. }) => Err(Error::EvidenceIncomplete { name: name.clone(), digest: *digest }),
    }
}

/// Level 3: checks that every raw artifact and every row of a dataset is present and that its bytes match. One that is absent is listed apart if a tombstone
/// explains it.
pub fn verify_evidence(blobs: &dyn Blobs, chain: &Chain, removals: &Removals) -> Result<LevelReport> {
    let mut report = LevelReport::default();
    let Some(collection) = chain.one::<Collection>() else {
        report.absent.push("the run has no collection".to_owned());
        return Ok(report);
    };
    let Some(list) = read_evidence_list(blobs, &collection.body)? else {
        report.absent.push(collection.body.evidence.name.clone());
        return Ok(report);
    };
    report.by_collection_alone = check_evidence_list(&chain.documents, &list)? as u64;
    let datasets = chain.documents.iter().map(Verified::value).flat_map(dataset_outputs);
    for artifact in list.iter().chain(datasets) {
        check_present(blobs, artifact, removals, &mut report)?;
    }
    Ok(report)
}
