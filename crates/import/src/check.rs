//! Verification of foreign evidence: its signature, the digests of its files, and its numbers, which are read again.

use assay_envelope::Trust;
use assay_foreign::{FilePart, ResultFile, Results, read_results};
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
    let verified = load_alone(blobs, reference, trust, "foreign evidence")?;
    let manifest = ForeignEvidence::from_document(verified.value())
        .ok_or_else(|| contradiction("the document is no foreign evidence"))?
        .clone();
    let reading = read_again(blobs, &manifest.body)?;
    let signer = verified.signer();
    Ok(VerifiedForeignEvidence { reference, signer: signer.name.clone(), established: signer.established, reading, manifest })
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
    let mut files = Vec::new();
    let mut absent = Vec::new();
    for file in &evidence.files {
        match blobs.get(&file.artifact.digest, assay_foreign::MAX_RESULT_BYTES)? {
            Some(bytes) => files.push((file.path.as_str(), bytes)),
            None => absent.push(file.path.clone()),
        }
    }
    if let Some(samples) = &evidence.samples
        && blobs.check(&samples.artifact.digest, u64::MAX)?.is_none()
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
        Some(what) => Err(contradiction(format!("its {what} not what its files state")).hint(format!(
            "version {} of Assay read the files, and version {} read them again",
            evidence.importer.version,
            env!("CARGO_PKG_VERSION")
        ))),
    }
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
        (evidence.tool_version == found.version, "version of the tool is"),
        (has_parts, "parts are"),
        (has_equal_rows(evidence, found), "numbers are"),
        (evidence.samples == samples, "rows of single requests are"),
        (evidence.not_read == found.not_read, "fields that were not read are"),
    ];
    checks.into_iter().find(|(is_equal, _)| !is_equal).map(|(_, what)| what)
}

/// Compares to the last bit.
fn has_equal_rows(evidence: &ForeignEvidence, found: &Results) -> bool {
    let is_equal = |(stated, found): (&assay_manifest::ForeignRow, &assay_manifest::ForeignRow)| {
        stated == found && stated.value.to_bits() == found.value.to_bits()
    };
    evidence.rows.len() == found.rows.len() && evidence.rows.iter().zip(&found.rows).all(is_equal)
}
