//! The curated files that signed Summaries name: those that a query of the warehouse may trust.

use std::collections::{BTreeMap, BTreeSet};

use assay_envelope::Verified;
use assay_lake::{Snapshot, Subjects};
use assay_manifest::{Body as _, CuratedFile, Digest, Document, InputRef, Kind, MAX_MANIFEST_BYTES, Publication, RunId, Summary};
use assay_runner::Config;
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout, StageName, first_names};
use assay_store::{ObjectPath, Store};
use assay_verify::{Head, StoreBlobs, fetched_from, head_of_run, load, map_in_parallel};
use serde::{Deserialize, Serialize};

use crate::cache::{Unchanged, read_cache, write_cache};
use crate::list::run_ids;
use crate::trust::{establish, keys_beside_run};

/// The number of stores that a failure names.
const MAX_NAMED: usize = 3;

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

/// A run whose Summary has been verified, and its Publication if it was published to this store.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KnownRun {
    /// The digest of its Summary.
    pub(crate) summary: Digest,
    /// Its curated files, by table.
    files: Vec<(String, Digest)>,
    /// The versions that its Publication pins.
    published: Option<Snapshot>,
    established: bool,
    trusted_by: String,
    is_fetched: bool,
}

/// A verified run as it is kept: what it was read from, and what it said.
#[derive(Serialize, Deserialize)]
struct CachedRun {
    known: KnownRun,
    read_from: Unchanged,
}

/// A run of a store as far as it verifies.
struct ReadRun {
    known: Result<KnownRun, Failure>,
    /// The files that its Summary names, if the signer of that is unknown: they are left out.
    left_out: Vec<CuratedFile>,
    publication: Option<Failure>,
    /// The paths of what it was read from, if all of it verifies.
    paths: Vec<String>,
}

/// Verifies the Summary of every run of a store that has one.
///
/// Its signature vouches for the curated files; `assay verify` checks the rest of a run's chain.
pub fn signed_summaries(store: &Store, trust: &[String]) -> Result<SignedSummaries, Failure> {
    let mut signed = SignedSummaries::new();
    let config = Config::find()?;
    for (run_id, reading) in read_runs(store, &run_ids(store)?, trust, &config) {
        if let Some(run) = reading? {
            signed.add(run_id, run);
        }
    }
    Ok(signed)
}

/// Verifies as [`signed_summaries`] does, and skips published runs that this account has verified under the same configured root
/// and whose pointers, manifests and bundles have not changed since. Returns the verified runs besides.
pub(crate) fn known_summaries(store: &Store, trust: &[String]) -> Result<(SignedSummaries, BTreeMap<RunId, KnownRun>), Failure> {
    let config = Config::find()?;
    let Some(part) = cache_part("verified-1", trust, &config) else {
        return Ok((signed_summaries(store, trust)?, BTreeMap::new()));
    };
    let ids = run_ids(store)?;
    let mut cached: BTreeMap<RunId, CachedRun> = read_cache(&part, store).unwrap_or_default();
    let count = cached.len();
    let kept = map_in_parallel(&cached.iter().collect::<Vec<_>>(), |(run_id, run)| is_current(store, run_id, run));
    let mut kept = kept.into_iter();
    cached.retain(|_, _| kept.next() == Some(true));
    let missing: Vec<RunId> = ids.iter().filter(|run_id| !cached.contains_key(*run_id)).cloned().collect();
    let (mut signed, mut known, mut fresh) = (SignedSummaries::new(), BTreeMap::new(), false);
    for (run_id, run) in &cached {
        signed.add_known(run_id, &run.known);
        known.insert(run_id.clone(), run.known.clone());
    }
    for (run_id, reading) in read_runs(store, &missing, trust, &config) {
        let Some(run) = reading? else { continue };
        if let (Ok(of), None) = (&run.known, &run.publication) {
            known.insert(run_id.clone(), of.clone());
            let is_kept = of.established && of.published.is_some();
            if let Some(read_from) = is_kept.then(|| Unchanged::new(store, run.paths.clone())).flatten() {
                cached.insert(run_id.clone(), CachedRun { known: of.clone(), read_from });
                fresh = true;
            }
        }
        signed.add(run_id, run);
    }
    if fresh || cached.len() != count {
        write_cache(&part, store, &cached);
    }
    Ok((signed, known))
}

/// Returns the name of a part of the cache that depends on the trust: only the configured root is cached.
pub(crate) fn cache_part(name: &str, trust: &[String], config: &Config) -> Option<String> {
    let root = std::fs::read(config.trust()).ok().filter(|_| trust.is_empty())?;
    let version = concat!(env!("CARGO_PKG_VERSION"), "\n");
    Some(format!("{name}-{}", &Digest::compute(&[version.as_bytes(), &root].concat()).hex()[..16]))
}

fn is_current(store: &Store, run_id: &RunId, run: &CachedRun) -> bool {
    run.read_from.holds(store) && fetched_from(store, run_id).is_ok_and(|from| from.is_some() == run.known.is_fetched)
}

/// Reads runs, in their order. Verification takes most of the time, and each run is verified by itself.
fn read_runs(
    store: &Store,
    ids: &[RunId],
    trust: &[String],
    config: &Config,
) -> impl Iterator<Item = (RunId, Result<Option<ReadRun>, Failure>)> {
    let read = map_in_parallel(ids, |run_id| read_run(store, run_id, trust, config));
    ids.iter().cloned().zip(read)
}

/// Verifies the Summary of a run and, if it was published to this store, its Publication; `None` if it has no Summary.
fn read_run(store: &Store, run_id: &RunId, trust: &[String], config: &Config) -> Result<Option<ReadRun>, Failure> {
    let layout = Layout::for_run(run_id);
    let mut paths = vec![layout.run(), layout.stage(StageName::Reduce)];
    let Some(summary) = first_accepted(store, &layout, StageName::Reduce, &mut paths)? else { return Ok(None) };
    let blobs = StoreBlobs::new(store.clone());
    let head = head_of_run(store, run_id)?;
    let reference = summary.as_input(Kind::Summary);
    let (summary, trusted_by) = match verified(&blobs, &head, reference, trust, config) {
        Ok(verified) => verified,
        Err(failure) => {
            // The store is shared with a signer whose key this reader does not know: those rows are left out, the others stay.
            let is_unknown = failure.code == ErrorCode::UnknownKey;
            let left_out = if is_unknown { unverified_files(store, &reference)? } else { Vec::new() };
            return Ok(Some(ReadRun { known: Err(failure), left_out, publication: None, paths }));
        }
    };
    let files = Summary::from_document(summary.value()).map(|summary| summary.body.files.as_slice()).unwrap_or_default();
    let mut known = KnownRun {
        summary: summary.manifest_digest(),
        files: files.iter().map(|file| (file.table.clone(), file.artifact.digest)).collect(),
        published: None,
        established: summary.signer().established,
        trusted_by,
        // A run that was published elsewhere is in the tables of that store, and not in these.
        is_fetched: fetched_from(store, run_id)?.is_some(),
    };
    let mut publication = None;
    if !known.is_fetched
        && let Some(accepted) = first_accepted(store, &layout, StageName::Publish, &mut paths)?
    {
        match verified(&blobs, &head, accepted.as_input(Kind::Publication), trust, config) {
            Ok((verified, _)) => {
                known.established &= verified.signer().established;
                let versions = Publication::from_document(verified.value());
                known.published = versions.map(|publication| publication.body.warehouse_snapshot.clone());
            }
            Err(failure) => publication = Some(failure),
        }
    }
    Ok(Some(ReadRun { known: Ok(known), left_out: Vec::new(), publication, paths }))
}

/// Returns the failure of a store whose tables do not exist yet. Fetched runs have their rows in the tables of the store that they
/// came from, which is named if it is known.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn no_warehouse(store: &Store, fetched: usize) -> Result<Failure, Failure> {
    let failure = Failure::new(ErrorCode::NoWarehouse, format!("the store `{}` has no warehouse yet", store.uri()));
    if fetched == 0 {
        return Ok(failure.hint("the first published run makes it"));
    }
    let mut origins = BTreeSet::new();
    for run_id in run_ids(store)? {
        origins.extend(fetched_from(store, &run_id)?.map(|origin| format!("`{}`", origin.escape_debug())));
    }
    let origins = first_names(&origins.into_iter().collect::<Vec<_>>(), MAX_NAMED);
    Ok(failure.hint(format!("fetched runs have their rows in the tables of the store that they came from: {origins}")))
}

/// Returns the first accepted result of a stage, and adds what it is read from to `paths`.
fn first_accepted(
    store: &Store,
    layout: &Layout,
    stage: StageName,
    paths: &mut Vec<String>,
) -> Result<Option<AcceptedResult>, Failure> {
    let listed = store.list(&layout.stage(stage))?;
    let Some(path) = listed.into_iter().find(|path| path.contains("/accepted/")) else { return Ok(None) };
    let accepted = AcceptedResult::read(store, &path)?;
    if let Some(AcceptedResult { manifest, bundle }) = accepted {
        paths.push(path);
        paths.extend([manifest, bundle].map(|digest| ObjectPath::Blob(digest).to_string()));
    }
    Ok(accepted)
}

impl SignedSummaries {
    fn new() -> Self {
        Self {
            subjects: Subjects::new(),
            runs: 0,
            fetched: 0,
            refused: Vec::new(),
            left_out: Vec::new(),
            is_established: true,
            trusted_by: "none".to_owned(),
        }
    }

    fn add(&mut self, run_id: RunId, run: ReadRun) {
        match run.known {
            Ok(known) => self.add_known(&run_id, &known),
            Err(failure) if failure.code == ErrorCode::UnknownKey => {
                self.subjects.leave_out(&run.left_out);
                return self.left_out.push(LeftOutRun { run: run_id, failure });
            }
            Err(failure) => return self.refused.push((run_id, failure)),
        }
        self.refused.extend(run.publication.map(|failure| (run_id, failure)));
    }

    fn add_known(&mut self, run_id: &RunId, known: &KnownRun) {
        self.is_established &= known.established;
        self.trusted_by.clone_from(&known.trusted_by);
        self.subjects.add_names(run_id, known.files.clone());
        self.runs += 1;
        self.fetched += usize::from(known.is_fetched);
        // From the versions on with which a run was published, the tables have to show it.
        if let Some(snapshot) = &known.published {
            self.subjects.add_published(run_id, snapshot);
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
