//! Which curated files signed Summaries name: what a query of the warehouse may believe.

use std::collections::BTreeSet;

use assay_envelope::{Expect, MAX_BUNDLE_BYTES, Verified, verify};
use assay_lake::Subjects;
use assay_manifest::{Body as _, Document, InputRef, Kind, MAX_MANIFEST_BYTES, RunId, Summary};
use assay_runner::Config;
use assay_stage::{Accepted, Failure, Layout, StageName};
use assay_store::Store;
use assay_verify::{Blobs as _, Head, StoreBlobs, head_of_run};

use crate::trust::{establish, keys_beside_run};

/// The Summaries of a store.
pub(crate) struct Signed {
    pub(crate) subjects: Subjects,
    /// How many runs have a Summary that verifies.
    pub(crate) runs: usize,
    /// Runs whose Summary does not verify, and why: their files are nobody's.
    pub(crate) refused: Vec<(RunId, Failure)>,
    /// Whether a trust policy says of every signer who it is.
    pub(crate) is_established: bool,
    pub(crate) trusted_by: String,
}

/// Verifies the Summary of every run of a store that has one.
///
/// Its signature is what vouches for the curated files; that the rest of a run's chain holds is what `assay verify` is for.
pub(crate) fn signed_summaries(store: &Store, trust: &[String]) -> Result<Signed, Failure> {
    let config = Config::find()?;
    let mut signed =
        Signed { subjects: Subjects::new(), runs: 0, refused: Vec::new(), is_established: true, trusted_by: "nobody".to_owned() };
    let names: BTreeSet<String> =
        store.list(Layout::RUNS)?.iter().filter_map(|path| path.split('/').nth(1).map(str::to_owned)).collect();
    for run_id in names.iter().filter_map(|name| name.parse::<RunId>().ok()) {
        let Some(reference) = summary_of(store, &run_id)? else { continue };
        let blobs = StoreBlobs(store.clone());
        let head = head_of_run(store, &run_id)?;
        match verified(&blobs, &head, reference, trust, &config) {
            Ok((summary, from)) => {
                signed.is_established &= summary.signer().established;
                signed.trusted_by = from;
                if let Some(summary) = Summary::of(summary.value()) {
                    signed.subjects.add(&run_id, &summary.body.files);
                    signed.runs += 1;
                }
            }
            Err(failure) => signed.refused.push((run_id, failure)),
        }
    }
    Ok(signed)
}

/// The Summary that was accepted for a run.
fn summary_of(store: &Store, run_id: &RunId) -> Result<Option<InputRef>, Failure> {
    let accepted = store.list(&Layout::of(run_id).stage(StageName::Reduce))?;
    let Some(path) = accepted.iter().find(|path| path.contains("/accepted/")) else { return Ok(None) };
    let Some(bytes) = store.read(path, Accepted::MAX_BYTES)? else { return Ok(None) };
    let Accepted { manifest, bundle } = Accepted::parse(path, &bytes)?;
    Ok(Some(InputRef { kind: Kind::Summary, manifest, bundle }))
}

fn verified(
    blobs: &StoreBlobs,
    head: &Head,
    reference: InputRef,
    trust: &[String],
    config: &Config,
) -> Result<(Verified<Document>, String), Failure> {
    let established = establish(trust, config, blobs, &keys_beside_run(blobs, head)?)?;
    let absent = |what: &str| Failure::verification("manifest_missing", format!("its {what} is not there"));
    let manifest = blobs.get(&reference.manifest, MAX_MANIFEST_BYTES)?.ok_or_else(|| absent("manifest"))?;
    let bundle = blobs.get(&reference.bundle, MAX_BUNDLE_BYTES as u64)?.ok_or_else(|| absent("bundle"))?;
    let stage = Some(Kind::Summary.signer());
    let expect = Expect { run_id: Some(&head.run_id), kind: Some(Kind::Summary), stage, input: Some(&reference) };
    let verified = verify(&manifest, &bundle, &established.trust, &expect)?;
    Ok((verified, established.from))
}
