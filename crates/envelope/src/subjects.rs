//! The subjects of a bundle: the manifest and all its outputs.

use std::collections::BTreeMap;

use assay_manifest::{Artifact, CanonicalError, Digest, Document, Kind, canonical_json};
use serde::Serialize;

/// The largest number of outputs that are subjects themselves; verifiers of other projects stop at 1,024 subjects.
pub const MAX_OUTPUT_SUBJECTS: usize = 1_000;

/// The name of the one artifact that stands for the outputs if there are more than [`MAX_OUTPUT_SUBJECTS`].
pub const OUTPUTS_INDEX: &str = "outputs.json";

/// Returns the name of a manifest among its subjects, such as `plan.json`.
pub fn manifest_name(kind: Kind) -> String {
    format!("{kind}.json")
}

/// Returns the name of the bundle beside it, such as `plan.sigstore.json`.
pub fn bundle_name(kind: Kind) -> String {
    format!("{kind}.sigstore.json")
}

/// Returns the artifact that lists outputs, as canonical JSON sorted by name. Signer and verifier both derive it from the
/// manifest, so it need not be stored.
pub fn outputs_index(outputs: &[&Artifact]) -> Result<Vec<u8>, CanonicalError> {
    #[derive(Serialize)]
    struct Index<'a> {
        outputs: Vec<&'a Artifact>,
    }
    let mut outputs = outputs.to_vec();
    outputs.sort_unstable();
    canonical_json(&Index { outputs })
}

/// The subject name of the commit that a gate judged.
pub(crate) const COMMIT: &str = "commit";

/// Returns the commit that a gate judged, which is a subject beside the manifest.
pub(crate) fn commit(document: &Document) -> Option<&str> {
    match document {
        Document::Verdict(manifest) => manifest.body.commit(),
        _ => None,
    }
}

/// The error of turning a manifest's outputs into subjects.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// An output has the name of the manifest or of the index.
    #[error("an output of the {kind} is called `{name}`, which is a name of the bundle's own")]
    NameTaken {
        /// The kind of manifest.
        kind: Kind,
        /// The name.
        name: String,
    },
    /// The index of the outputs has no canonical form.
    #[error("the index of the outputs has no canonical form")]
    Index(#[source] CanonicalError),
}

/// Returns the subjects of a document whose bytes have the digest `manifest`, by name.
pub(crate) fn document_subjects(document: &Document, manifest: Digest) -> Result<BTreeMap<String, Digest>, SubjectError> {
    let kind = document.kind();
    let outputs = document.artifacts();
    let mut subjects = output_subjects(kind, &outputs)?;
    match subjects.insert(manifest_name(kind), manifest) {
        None => Ok(subjects),
        Some(_) => Err(SubjectError::NameTaken { kind, name: manifest_name(kind) }),
    }
}

fn output_subjects(kind: Kind, outputs: &[&Artifact]) -> Result<BTreeMap<String, Digest>, SubjectError> {
    if outputs.len() > MAX_OUTPUT_SUBJECTS {
        let own = [manifest_name(kind), OUTPUTS_INDEX.to_owned()];
        if let Some(output) = outputs.iter().find(|output| own.contains(&output.name)) {
            return Err(SubjectError::NameTaken { kind, name: output.name.clone() });
        }
        let index = outputs_index(outputs).map_err(SubjectError::Index)?;
        return Ok(BTreeMap::from([(OUTPUTS_INDEX.to_owned(), Digest::compute(&index))]));
    }
    Ok(outputs.iter().map(|output| (output.name.clone(), output.digest)).collect())
}
