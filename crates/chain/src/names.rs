//! What the manifests of a run and their outputs are called beside each other.

use assay_manifest::{Digest, Document, InputRef};

/// What a manifest is called in a published folder: its kind, and where a run has several, what tells them apart.
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

/// Where the outputs of a manifest lie in a published folder. Raw evidence is not published: it stays in the store.
pub fn published_prefix(document: &Document) -> Option<String> {
    match document {
        Document::Source(_) => Some("source/".to_owned()),
        Document::Plan(_) => Some("plan/".to_owned()),
        Document::Environment(_) => Some(format!("{}/", chain_name(document))),
        Document::Collection(_) => Some("evidence/".to_owned()),
        Document::Summary(_) | Document::Publication(_) => Some(String::new()),
        Document::ExecutionPart(_)
        | Document::Recording(_)
        | Document::RunEnd(_)
        | Document::Checkpoint(_)
        | Document::Verdict(_) => None,
    }
}

/// The files of a published folder that come from one manifest: itself, its bundle, and the outputs that are published. Path and
/// digest; a folder holds exactly these, each at its path.
pub fn published_files(document: &Document, reference: InputRef) -> Vec<(String, Digest)> {
    let name = chain_name(document);
    let mut files =
        vec![(format!("chain/{name}.json"), reference.manifest), (format!("chain/{name}.sigstore.json"), reference.bundle)];
    if let Some(prefix) = published_prefix(document) {
        files.extend(document.artifacts().into_iter().map(|output| (format!("{prefix}{}", output.name), output.digest)));
    }
    files
}
