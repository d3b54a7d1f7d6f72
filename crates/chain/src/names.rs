//! The names of a run's manifests and outputs in a published folder.

use assay_manifest::{Artifact, Digest, Document, InputRef};

/// Returns the name of a manifest in a published folder: its kind and, if a run has several, what distinguishes them.
pub fn chain_name(document: &Document) -> String {
    let kind = document.kind();
    match document {
        Document::Environment(manifest) => {
            let block = manifest.body.block;
            format!("{kind}-{}-{}", block.index, block.incarnation)
        }
        Document::ExecutionPart(manifest) => {
            let (block, shard) = (manifest.body.block, manifest.body.shard);
            format!("{kind}-{}-{}-{}", block.index, block.incarnation, shard.index)
        }
        Document::Recording(manifest) => {
            let block = manifest.body.block;
            format!("{kind}-{}-{}-{}", block.index, block.incarnation, manifest.body.sequence)
        }
        _ => kind.to_string(),
    }
}

/// The folder of a published folder for the files of the Source.
pub const SOURCE_FOLDER: &str = "source/";

/// Returns the folder for the outputs of a manifest in a published folder. Raw evidence is not published: it stays in the store.
pub fn published_prefix(document: &Document) -> Option<String> {
    match document {
        Document::Source(_) => Some(SOURCE_FOLDER.to_owned()),
        Document::Plan(_) => Some("plan/".to_owned()),
        Document::Environment(_) => Some(format!("{}/", chain_name(document))),
        Document::Collection(_) => Some("evidence/".to_owned()),
        Document::Summary(_) | Document::Publication(_) => Some(String::new()),
        Document::ExecutionPart(_)
        | Document::Recording(_)
        | Document::RunEnd(_)
        | Document::Checkpoint(_)
        | Document::Verdict(_)
        | Document::Tombstone(_)
        | Document::Calibration(_)
        | Document::ForeignEvidence(_)
        | Document::SearchResult(_)
        | Document::ForeignVerdict(_) => None,
    }
}

/// Returns the files, as path and digest, that one manifest adds to a published folder: itself, its bundle, and its published
/// outputs. A folder holds exactly these, each at its path.
pub fn published_files(document: &Document, reference: InputRef) -> Vec<(String, Digest)> {
    let name = chain_name(document);
    let mut files =
        vec![(format!("chain/{name}.json"), reference.manifest), (format!("chain/{name}.sigstore.json"), reference.bundle)];
    if let Some(prefix) = published_prefix(document) {
        files.extend(published_outputs(document).into_iter().map(|output| (format!("{prefix}{}", output.name), output.digest)));
    }
    files
}

/// Returns the outputs of a manifest that are in a published folder.
pub fn published_outputs(document: &Document) -> Vec<&Artifact> {
    if published_prefix(document).is_none() {
        return Vec::new();
    }
    document.artifacts().into_iter().filter(|output| !is_dataset(document, &output.name)).collect()
}

/// Returns the outputs of a Plan that are raw data: those of its datasets, which stay in the store like raw evidence.
pub fn dataset_outputs(document: &Document) -> Vec<&Artifact> {
    document.artifacts().into_iter().filter(|output| is_dataset(document, &output.name)).collect()
}

/// Returns true if an output is of a dataset: a fetched file, its rows or their index. They may be large, and are raw data: they stay in the
/// store.
fn is_dataset(document: &Document, output: &str) -> bool {
    let of_workload = output.strip_prefix("workloads/").and_then(|output| output.split_once('/'));
    matches!(document, Document::Plan(_)) && of_workload.is_some_and(|(_, file)| file.starts_with("dataset/"))
}
