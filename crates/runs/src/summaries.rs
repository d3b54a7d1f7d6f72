//! The curated files that signed Summaries name: those that a query of the warehouse may trust.

use assay_envelope::Verified;
use assay_lake::Subjects;
use assay_manifest::{Body as _, CuratedFile, Document, InputRef, Kind, MAX_MANIFEST_BYTES, Publication, RunId, Summary};
use assay_runner::Config;
use assay_stage::{AcceptedResult, ErrorCode, Failure, StageName};
use assay_store::Store;
use assay_verify::{Head, StoreBlobs, fetched_from, head_of_run, load, map_in_parallel};

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
    // Verification takes most of the time, and each run is verified by itself.
    for reading in map_in_parallel(&run_ids(store)?, |run_id| read_run(store, run_id, trust, &config)) {
        if let Some(run) = reading? {
            signed.add(run);
        }
    }
    Ok(signed)
}

/// The Summary and the Publication of one run, as far as they verify.
struct SignedRun {
    run_id: RunId,
    summary: SummaryReading,
    publication: Option<Result<Verified<Document>, Failure>>,
    is_fetched: bool,
}

/// The outcome of the verification of a Summary.
enum SummaryReading {
    /// It verifies; with the source of the trust.
    Verified(Verified<Document>, String),
    /// Its signer is unknown: the files that it names are left out.
    LeftOut(Failure, Vec<CuratedFile>),
    /// It does not verify.
    Refused(Failure),
}

/// Verifies the Summary of a run and, if it was published to this store, its Publication; `None` if it has no Summary.
fn read_run(store: &Store, run_id: &RunId, trust: &[String], config: &Config) -> Result<Option<SignedRun>, Failure> {
    let Some(accepted) = AcceptedResult::list_stage(store, run_id, StageName::Reduce)?.next().transpose()? else {
        return Ok(None);
    };
    let reference = accepted.as_input(Kind::Summary);
    let blobs = StoreBlobs::new(store.clone());
    let head = head_of_run(store, run_id)?;
    let summary = match verified(&blobs, &head, reference, trust, config) {
        Ok((summary, from)) => SummaryReading::Verified(summary, from),
        // The store is shared with somebody whose key this reader does not know. Their rows are left out, and the others stay.
        Err(failure) if failure.code == ErrorCode::UnknownKey => {
            SummaryReading::LeftOut(failure, unverified_files(store, &reference)?)
        }
        Err(failure) => SummaryReading::Refused(failure),
    };
    // A run that was published elsewhere is in the tables of that store, and not in these.
    let is_fetched = fetched_from(store, run_id)?.is_some();
    let accepted = match AcceptedResult::list_stage(store, run_id, StageName::Publish)?.next().transpose()? {
        Some(accepted) if matches!(summary, SummaryReading::Verified(..)) && !is_fetched => Some(accepted.as_input(Kind::Publication)),
        _ => None,
    };
    let publication = accepted.map(|reference| Ok(verified(&blobs, &head, reference, trust, config)?.0));
    Ok(Some(SignedRun { run_id: run_id.clone(), summary, publication, is_fetched }))
}

impl SignedSummaries {
    fn add(&mut self, run: SignedRun) {
        let SignedRun { run_id, summary, publication, is_fetched } = run;
        let (summary, from) = match summary {
            SummaryReading::Verified(summary, from) => (summary, from),
            SummaryReading::LeftOut(failure, files) => {
                self.subjects.leave_out(&files);
                return self.left_out.push(LeftOutRun { run: run_id, failure });
            }
            SummaryReading::Refused(failure) => return self.refused.push((run_id, failure)),
        };
        self.is_established &= summary.signer().established;
        self.trusted_by = from;
        if let Some(summary) = Summary::from_document(summary.value()) {
            self.subjects.add(&run_id, &summary.body.files);
            self.runs += 1;
        }
        self.fetched += usize::from(is_fetched);
        // From the versions on with which a run was published, the tables have to show it.
        match publication {
            Some(Ok(publication)) => {
                if let Some(publication) = Publication::from_document(publication.value()) {
                    self.subjects.add_published(&run_id, &publication.body.warehouse_snapshot);
                }
            }
            Some(Err(failure)) => self.refused.push((run_id, failure)),
            None => {}
        }
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
