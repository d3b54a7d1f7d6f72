//! The document of foreign evidence: made from results that were read, and signed.

use std::collections::BTreeSet;

use assay_foreign::{ResultFile, Results, ResultsError, read_results};
use assay_manifest::{
    Artifact, Count, Digest, Document, ForeignEvidence, ForeignFile, ForeignSamples, Importer, InputRef, Instant, Kind,
    MAX_MANIFEST_BYTES, NotRead, Role, RunId, Shard,
};
use assay_runner::KeyRing;
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout, Seal, binary_digest, seal};
use assay_store::{CreateOutcome, Store};
use assay_verify::{Blobs as _, StoreBlobs};
use serde_json::json;

/// The reason for which a file is left out.
const NO_FORMAT: &str = "the file is of no format that is read";

/// A file that was found.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Its path, relative to the folder that is imported.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Reads the results that files state, without a store. Returns their description, which names no key yet, and the rows of single requests or
/// iterations.
///
/// # Errors
/// Fails with `foreign_credential` or `foreign_results` if the files are not imported; the message names the file and the field.
pub fn describe_results(files: &[FoundFile], at: Instant) -> Result<(ForeignEvidence, Vec<u8>), Failure> {
    let given: Vec<ResultFile<'_>> = files.iter().map(|file| ResultFile { path: &file.path, bytes: &file.bytes }).collect();
    let results = read_results(&given).map_err(failure)?;
    let samples = (results.sample_rows > 0).then(|| samples_of(&results));
    let evidence = ForeignEvidence {
        imported_at: at,
        format: results.format.name.to_owned(),
        format_version: results.format_version.clone(),
        tool: results.tool.clone(),
        tool_version: results.version.clone(),
        importer: Importer { version: env!("CARGO_PKG_VERSION").to_owned(), program: binary_digest()? },
        files: frozen_files(&results, files),
        left_out: left_out(&results, files),
        samples,
        rows: results.rows,
        not_read: results.not_read,
        remarks: results.remarks,
        key: key_artifact(""),
    };
    Ok((evidence, results.samples))
}

/// Returns the public key of the importer, in PEM, as an output of the evidence.
pub fn key_artifact(pem: &str) -> Artifact {
    artifact(ForeignEvidence::KEY.to_owned(), pem.as_bytes(), "application/x-pem-file")
}

pub(crate) fn samples_of(results: &Results) -> ForeignSamples {
    ForeignSamples {
        rows: Count(results.sample_rows),
        units: results.units.clone(),
        artifact: artifact(ForeignEvidence::SAMPLES.to_owned(), &results.samples, "application/jsonl"),
    }
}

fn frozen_files(results: &Results, files: &[FoundFile]) -> Vec<ForeignFile> {
    let frozen = |(number, part): (usize, &assay_foreign::FilePart)| {
        let file = files.get(part.file)?;
        // The names of outputs have few characters; the path of a file of another tool may have any.
        let artifact = artifact(format!("files/{number:04}"), &file.bytes, "application/octet-stream");
        Some(ForeignFile { path: file.path.clone(), part: part.part.to_owned(), artifact })
    };
    results.files.iter().enumerate().filter_map(frozen).collect()
}

fn left_out(results: &Results, files: &[FoundFile]) -> Vec<NotRead> {
    let is_left_out = |index: &usize| results.files.iter().all(|part| part.file != *index);
    let left_out = files.iter().enumerate().filter(|(index, _)| is_left_out(index));
    left_out.map(|(_, file)| NotRead { field: file.path.clone(), why: NO_FORMAT.to_owned(), count: Count(1) }).collect()
}

fn artifact(name: String, bytes: &[u8], media_type: &str) -> Artifact {
    Artifact { name, digest: Digest::compute(bytes), size: Count(bytes.len() as u64), media_type: media_type.to_owned() }
}

fn failure(error: ResultsError) -> Failure {
    if matches!(error, ResultsError::Credential { .. }) {
        return Failure::new(ErrorCode::ForeignCredential, format!("{error}, so nothing was stored"))
            .hint("files are frozen as they are: replace the value by `REDACTED` in the file, and import it again");
    }
    let failure = Failure::new(ErrorCode::ForeignResults, error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Stores the frozen files, the samples and the key.
///
/// # Errors
/// Fails if the store refuses a write.
pub fn freeze(store: &Store, files: &[FoundFile], evidence: &ForeignEvidence, samples: &[u8], key: &str) -> Result<(), Failure> {
    freeze_files(store, files, evidence, samples)?;
    store.put(key.as_bytes())?;
    Ok(())
}

/// Stores the frozen files and the samples again, if the store has foreign evidence of this name and of the same bytes. A second document about them would
/// count them twice. Returns the evidence of the store, which is not verified; `None` if the name is free.
///
/// # Errors
/// Fails with `file_differs` if the name is that of other evidence, and if the store refuses a write.
pub fn restore(
    store: &Store,
    name: &RunId,
    files: &[FoundFile],
    evidence: &ForeignEvidence,
    samples: &[u8],
) -> Result<Option<(InputRef, ForeignEvidence)>, Failure> {
    let Some(accepted) = AcceptedResult::read(store, &Layout::foreign_evidence(name))? else { return Ok(None) };
    let reference = accepted.as_input(Kind::ForeignEvidence);
    let bytes = StoreBlobs::new(store.clone()).get(&reference.manifest, MAX_MANIFEST_BYTES)?;
    let known = match bytes.map(|bytes| Document::parse(&bytes)) {
        Some(Ok(Document::ForeignEvidence(known))) if digests(&known.body) == digests(evidence) => known.body,
        _ => return Err(crate::find::taken(store, name)),
    };
    freeze_files(store, files, evidence, samples)?;
    Ok(Some((reference, known)))
}

/// Returns the digests of the files and the samples of foreign evidence.
fn digests(evidence: &ForeignEvidence) -> BTreeSet<Digest> {
    let files = evidence.files.iter().map(|file| file.artifact.digest);
    files.chain(evidence.samples.iter().map(|samples| samples.artifact.digest)).collect()
}

fn freeze_files(store: &Store, files: &[FoundFile], evidence: &ForeignEvidence, samples: &[u8]) -> Result<(), Failure> {
    for frozen in &evidence.files {
        if let Some(file) = files.iter().find(|file| file.path == frozen.path) {
            store.put(&file.bytes)?;
        }
    }
    if evidence.samples.is_some() {
        store.put(samples)?;
    }
    Ok(())
}

/// Signs foreign evidence with the key of the role `import`, and stores it under its name.
///
/// # Errors
/// Fails if the key is not unlocked, if the store refuses a write, and if the name is taken.
pub fn sign(store: &Store, keys: &KeyRing, name: &RunId, evidence: ForeignEvidence) -> Result<InputRef, Failure> {
    let seal_with = Seal {
        signer: keys.signer(Role::Import)?,
        binary: binary_digest()?,
        invocation_id: format!("{name}-import-{}", std::process::id()),
        started: evidence.imported_at,
        parameters: json!({"format": evidence.format}),
        stage: None,
        shard: Shard::ONLY,
        trust_policy: None,
        dependencies: Vec::new(),
    };
    let reference = seal(&seal_with, store, name, Vec::new(), evidence)?.reference;
    let bytes = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle }.to_bytes()?;
    match store.create(&Layout::foreign_evidence(name), &bytes)? {
        CreateOutcome::New => Ok(reference),
        CreateOutcome::Existing { .. } => Err(crate::find::taken(store, name)),
    }
}
