//! The curated files that signed Summaries name: those that a query of the warehouse may trust.

use assay_envelope::Verified;
use assay_lake::Subjects;
use assay_manifest::{Body as _, CuratedFile, Document, InputRef, Kind, MAX_MANIFEST_BYTES, Publication, RunId, Summary};
use assay_runner::Config;
use assay_stage::{AcceptedResult, ErrorCode, Failure, StageName};
use assay_store::Store;
use assay_verify::{Head, StoreBlobs, fetched_from, head_of_run, load};

use crate::list::run_ids;
use crate::trust::{establish, keys_beside_run};

/// The Summaries of a store.
pub struct SignedSummaries {
    /// The curated files that they name.
    pub subjects: Subjects,
    /// The number of runs with a Summary that verifies.
    pub runs: usize,
    /// The number of those that were copied here from other stores, whose tables hold them.
    pub fetched: usize,
    /// Runs whose Summary or Publication does not verify, with the reason.
    pub refused: Vec<(RunId, Failure)>,
    /// Runs that are left out, because their signers are unknown. Those of [`SignedSummaries::refused`] stay in the tables.
    pub left_out: Vec<LeftOutRun>,
    /// True if a trust policy names every signer.
    pub is_established: bool,
    /// The source of the trust.
    pub trusted_by: String,
}

/// A run that is no part of a reading of many runs.
#[derive(Clone, Debug)]
pub struct LeftOutRun {
    /// The run.
    pub run: RunId,
    /// The reason.
    pub failure: Failure,
}

impl LeftOutRun {
    /// Returns the failure of a command that leaves out no run.
    pub fn refusal(&self) -> Failure {
        let message = format!("run `{}`: {}", self.run, self.failure.message);
        Failure { message, ..self.failure.clone() }
    }
}

/// Verifies the Summary of every run of a store that has one.
///
/// Its signature vouches for the curated files; `assay verify` checks the rest of a run's chain.
pub fn signed_summaries(store: &Store, trust: &[String]) -> Result<SignedSummaries, Failure> {
    let config = Config::find()?;
    let mut signed = SignedSummaries {
        subjects: Subjects::new(),
        runs: 0,
        fetched: 0,
        refused: Vec::new(),
        left_out: Vec::new(),
        is_established: true,
        trusted_by: "none".to_owned(),
    };
    for run_id in run_ids(store)? {
        let Some(summary) = AcceptedResult::list_stage(store, &run_id, StageName::Reduce)?.next().transpose()? else { continue };
        let reference = summary.as_input(Kind::Summary);
        let blobs = StoreBlobs::new(store.clone());
        let head = head_of_run(store, &run_id)?;
        match verified(&blobs, &head, reference, trust, &config) {
            Ok((summary, from)) => {
                signed.is_established &= summary.signer().established;
                signed.trusted_by = from;
                if let Some(summary) = Summary::from_document(summary.value()) {
                    signed.subjects.add(&run_id, &summary.body.files);
                    signed.runs += 1;
                }
                // A run that was published elsewhere is in the tables of that store, and not in these.
                match fetched_from(store, &run_id)? {
                    Some(_) => signed.fetched += 1,
                    None => signed.add_publication(store, &blobs, &head, trust, &config)?,
                }
            }
            // The store is shared with somebody whose key this reader does not know. Their rows are left out, and the others stay.
            Err(failure) if failure.code == ErrorCode::UnknownKey => {
                signed.subjects.leave_out(&unverified_files(store, &reference)?);
                signed.left_out.push(LeftOutRun { run: run_id, failure });
            }
            Err(failure) => signed.refused.push((run_id, failure)),
        }
    }
    Ok(signed)
}

impl SignedSummaries {
    /// Records the versions with which a run was published, if it was: from those on, the tables have to show it.
    fn add_publication(
        &mut self,
        store: &Store,
        blobs: &StoreBlobs,
        head: &Head,
        trust: &[String],
        config: &Config,
    ) -> Result<(), Failure> {
        let Some(accepted) = AcceptedResult::list_stage(store, &head.run_id, StageName::Publish)?.next().transpose()? else {
            return Ok(());
        };
        match verified(blobs, head, accepted.as_input(Kind::Publication), trust, config) {
            Ok((publication, _)) => {
                if let Some(publication) = Publication::from_document(publication.value()) {
                    self.subjects.add_published(&head.run_id, &publication.body.warehouse_snapshot);
                }
            }
            Err(failure) => self.refused.push((head.run_id.clone(), failure)),
        }
        Ok(())
    }
}

/// Returns the curated files that a Summary names, without verifying its signature.
fn unverified_files(store: &Store, reference: &InputRef) -> Result<Vec<CuratedFile>, Failure> {
    let bytes = store.get(&reference.manifest, MAX_MANIFEST_BYTES)?;
    let document = Document::parse(&bytes).map_err(|error| Failure::from_error(ErrorCode::Manifest, &error))?;
    Ok(Summary::from_document(&document).map(|summary| summary.body.files.clone()).unwrap_or_default())
}

fn verified(
    blobs: &StoreBlobs,
    head: &Head,
    reference: InputRef,
    trust: &[String],
    config: &Config,
) -> Result<(Verified<Document>, String), Failure> {
    let established = establish(trust, config, blobs, &keys_beside_run(blobs, head)?)?;
    let verified = load(blobs, reference, None, &established.trust, &head.run_id)?;
    Ok((verified, established.source))
}
