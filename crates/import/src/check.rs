//! Verification of foreign evidence: its signature, the digests of its files, and its numbers, which are read again.

use std::collections::BTreeSet;

use assay_envelope::Trust;
use assay_failure::first_names;
use assay_foreign::{FilePart, MAX_RESULT_BYTES, MAX_RESULT_FILES, ResultFile, Results, read_results};
use assay_manifest::{Body as _, Document, ForeignEvidence, InputRef, MAX_MANIFEST_BYTES, Manifest};
use assay_stage::{ErrorCode, Failure};
use assay_verify::{Blobs, load_alone};

use crate::freeze::samples_of;

/// The largest public key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// Foreign evidence that verifies.
#[derive(Clone, Debug)]
pub struct VerifiedForeignEvidence {
    /// Its reference.
    pub reference: InputRef,
    /// Its manifest.
    pub manifest: Manifest<ForeignEvidence>,
    /// The name of its signer.
    pub signer: String,
    /// True if a trust policy names its signer.
    pub established: bool,
    /// The result of reading the files again.
    pub reading: Reading,
}

/// Foreign evidence whose signature verifies.
#[derive(Clone, Debug)]
pub struct SignedForeignEvidence {
    /// Its manifest.
    pub manifest: Manifest<ForeignEvidence>,
    /// The name of its signer.
    pub signer: String,
    /// True if a trust policy names its signer.
    pub established: bool,
}

/// The result of reading frozen files again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All files are present, and state the same numbers.
    Equal,
    /// Files are absent, so nothing was read again: their paths.
    Absent(Vec<String>),
}

impl VerifiedForeignEvidence {
    /// Returns the document.
    pub fn body(&self) -> &ForeignEvidence {
        &self.manifest.body
    }
}

/// Verifies foreign evidence: signature and signer under `trust`, and the bytes of each file under its digest. If all files are present, they are
/// read again, and every number has to be the same.
///
/// # Errors
/// Fails with the code of the signature's fault, with `artifact_corrupt` for a changed file, and with `foreign_evidence` if the document
/// contradicts its files.
pub fn verify_foreign_evidence(
    blobs: &dyn Blobs,
    reference: InputRef,
    trust: &Trust,
) -> Result<VerifiedForeignEvidence, Failure> {
    let SignedForeignEvidence { manifest, signer, established } = signed_foreign_evidence(blobs, reference, trust)?;
    let reading = read_again(blobs, &manifest.body)?;
    Ok(VerifiedForeignEvidence { reference, manifest, signer, established, reading })
}

/// Verifies the signature of foreign evidence and its signer under `trust`. Its files are not read again.
///
/// # Errors
/// Fails with the code of the signature's fault, and with `foreign_evidence` if the document is of another kind.
pub fn signed_foreign_evidence(blobs: &dyn Blobs, reference: InputRef, trust: &Trust) -> Result<SignedForeignEvidence, Failure> {
    let verified = load_alone(blobs, reference, trust, "foreign evidence")?;
    let manifest = ForeignEvidence::from_document(verified.value())
        .ok_or_else(|| contradiction("the document is no foreign evidence"))?
        .clone();
    let signer = verified.signer();
    Ok(SignedForeignEvidence { manifest, signer: signer.name.clone(), established: signer.established })
}

/// Returns the public key that foreign evidence names, unverified: it is a candidate only.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn public_key_beside(blobs: &dyn Blobs, reference: &InputRef) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(bytes) = blobs.get(&reference.manifest, MAX_MANIFEST_BYTES)? else { return Ok(Vec::new()) };
    let Ok(Document::ForeignEvidence(evidence)) = Document::parse(&bytes) else { return Ok(Vec::new()) };
    Ok(blobs.get(&evidence.body.key.digest, MAX_KEY_BYTES)?.into_iter().collect())
}

fn contradiction(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::ForeignEvidence, what)
}

fn read_again(blobs: &dyn Blobs, evidence: &ForeignEvidence) -> Result<Reading, Failure> {
    check_limits(evidence)?;
    let mut files = Vec::new();
    let mut absent = Vec::new();
    for file in &evidence.files {
        match blobs.get(&file.artifact.digest, MAX_RESULT_BYTES)? {
            Some(bytes) if bytes.len() as u64 != file.artifact.size.0 => {
                return Err(contradiction(format!("its file `{}` has another size than it states", file.path.escape_debug())));
            }
            Some(bytes) => files.push((file.path.as_str(), bytes)),
            None => absent.push(file.path.clone()),
        }
    }
    if let Some(samples) = &evidence.samples
        && blobs.check(&samples.artifact.digest, samples.artifact.size.0)?.is_none()
    {
        absent.push(samples.artifact.name.clone());
    }
    if !absent.is_empty() {
        return Ok(Reading::Absent(absent));
    }
    let given: Vec<ResultFile<'_>> = files.iter().map(|(path, bytes)| ResultFile { path, bytes }).collect();
    let found = read_results(&given).map_err(|error| contradiction("its files cannot be read again").because(&error))?;
    match difference(evidence, &found) {
        None => Ok(Reading::Equal),
        Some(what) => Err(contradiction(format!("its {what} not what its files state{}", further_labels(evidence, &found)))
            .hint(format!(
                "version {} of Assay read the files, and version {} read them again: if another program imported them, import them again under \
                 another name, with `assay import results PATH --name NAME`",
                evidence.importer.version,
                env!("CARGO_PKG_VERSION")
            ))),
    }
}

/// Checks the number of files and the sum of their sizes before any of them is loaded: all are in memory together.
fn check_limits(evidence: &ForeignEvidence) -> Result<(), Failure> {
    let size = evidence.files.iter().map(|file| file.artifact.size.0).fold(0, u64::saturating_add);
    if evidence.files.len() <= MAX_RESULT_FILES && size <= MAX_RESULT_BYTES {
        return Ok(());
    }
    let (files, mebibytes) = (evidence.files.len(), size >> 20);
    let most = MAX_RESULT_BYTES >> 20;
    Err(contradiction(format!(
        "it names {files} files of {mebibytes} MiB together, and an import has at most {MAX_RESULT_FILES} files and {most} MiB"
    )))
}

/// Returns the first part of foreign evidence that its files do not state, with the verb.
fn difference(evidence: &ForeignEvidence, found: &Results) -> Option<&'static str> {
    let is_part = |(index, part): (usize, &FilePart)| {
        let stated = evidence.files.get(index);
        part.file == index && stated.is_some_and(|stated| stated.part == part.part)
    };
    let has_parts = found.files.len() == evidence.files.len() && found.files.iter().enumerate().all(is_part);
    let samples = (found.sample_rows > 0).then(|| samples_of(found));
    let checks = [
        (evidence.format == found.format.name, "format is"),
        (evidence.format_version == found.format_version, "version of the format is"),
        (evidence.tool == found.tool, "tool is"),
        (evidence.tool_version == found.version, "version of the tool is"),
        (has_parts, "parts are"),
        (has_equal_rows(evidence, found), "numbers are"),
        (evidence.samples == samples, "rows of single requests are"),
        (evidence.not_read == found.not_read, "fields that were not read are"),
        (evidence.remarks == found.remarks, "remarks are"),
    ];
    checks.into_iter().find(|(is_equal, _)| !is_equal).map(|(_, what)| what)
}

/// The most labels that are named.
const SHOWN_LABELS: usize = 6;

/// Returns the labels that the numbers have in the files and not in the evidence, in words: those that an earlier version of Assay did not read.
fn further_labels(evidence: &ForeignEvidence, found: &Results) -> String {
    let names = |rows: &'_ [assay_manifest::ForeignRow]| -> BTreeSet<String> {
        rows.iter().flat_map(|row| row.labels.keys().map(|name| format!("`{name}`"))).collect()
    };
    let further: Vec<String> = names(&found.rows).difference(&names(&evidence.rows)).cloned().collect();
    if further.is_empty() { String::new() } else { format!(": it lacks the labels {}", first_names(&further, SHOWN_LABELS)) }
}

/// Compares to the last bit.
fn has_equal_rows(evidence: &ForeignEvidence, found: &Results) -> bool {
    let is_equal = |(stated, found): (&assay_manifest::ForeignRow, &assay_manifest::ForeignRow)| {
        stated == found && stated.value.to_bits() == found.value.to_bits()
    };
    evidence.rows.len() == found.rows.len() && evidence.rows.iter().zip(&found.rows).all(is_equal)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use assay_manifest::Digest;
    use serde_json::json;

    use super::*;

    /// Blobs of which each is empty. It counts how many were loaded.
    #[derive(Default)]
    struct Empty(AtomicUsize);

    impl Blobs for Empty {
        fn get(&self, _: &Digest, _: u64) -> assay_verify::Result<Option<Vec<u8>>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Some(Vec::new()))
        }

        fn check(&self, _: &Digest, _: u64) -> assay_verify::Result<Option<u64>> {
            Ok(Some(0))
        }
    }

    /// Returns evidence with files of these sizes.
    fn evidence(sizes: &[u64]) -> ForeignEvidence {
        let digest = Digest::compute(b"").to_string();
        let artifact =
            |size: u64| json!({"name": "files/0000", "digest": digest, "size": size.to_string(), "media_type": "text/plain"});
        let files: Vec<_> = sizes.iter().map(|size| json!({"path": "f", "part": "p", "artifact": artifact(*size)})).collect();
        serde_json::from_value(json!({
            "imported_at": "2026-01-01T00:00:00.000000000Z", "format": "vllm", "importer": {"version": "1", "program": digest},
            "files": files, "rows": [], "not_read": [], "left_out": [], "key": artifact(0),
        }))
        .expect("foreign evidence")
    }

    #[test]
    fn files_above_a_limit_are_not_loaded() {
        for (sizes, what) in [
            (vec![MAX_RESULT_BYTES, 1 << 20], "it names 2 files of 513 MiB together"),
            (vec![u64::MAX, u64::MAX], "it names 2 files of"),
            (vec![0; MAX_RESULT_FILES + 1], "it names 1001 files of 0 MiB together"),
        ] {
            let blobs = Empty::default();
            let refused = read_again(&blobs, &evidence(&sizes)).expect_err("refused");
            assert!(refused.message.starts_with(what), "{}", refused.message);
            assert_eq!(blobs.0.load(Ordering::Relaxed), 0);
        }
        for (size, what) in [(0, "its files cannot be read again"), (5, "its file `f` has another size than it states")] {
            let blobs = Empty::default();
            let refused = read_again(&blobs, &evidence(&[size])).expect_err("an empty file is of no format");
            assert_eq!((refused.message.as_str(), blobs.0.load(Ordering::Relaxed)), (what, 1));
        }
    }
}
