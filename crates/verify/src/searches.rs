//! The search results that the workloads of a Plan name: each is signed by a key that the run's trust policy names for it, leads to its loads
//! again, and was for these loads, SLOs and this model. The runs of its rounds are not read.

use assay_envelope::{ExpectedManifest, MAX_BUNDLE_BYTES, Trust, TrustPolicy, verify};
use assay_manifest::{Artifact, Body as _, FrozenWorkload, InputRef, Kind, MAX_MANIFEST_BYTES, PinnedSearch, Plan, SearchResult};
use assay_search::{check_workload, replay};

use crate::blobs::Blobs;
use crate::walk::Chain;
use crate::{Error, Result, SearchFault};

/// Checks the search result of each workload under the trust policy of the run.
pub(crate) fn check_searches(blobs: &dyn Blobs, chain: &Chain, policy: &TrustPolicy) -> Result<()> {
    let Some(plan) = chain.one::<Plan>() else { return Ok(()) };
    for workload in &plan.body.workloads {
        let Some(pinned) = &workload.search else { continue };
        check_search(blobs, &plan.body, workload, pinned, policy)?;
    }
    Ok(())
}

fn check_search(
    blobs: &dyn Blobs,
    plan: &Plan,
    workload: &FrozenWorkload,
    pinned: &PinnedSearch,
    policy: &TrustPolicy,
) -> Result<()> {
    let refuse = |fault| Error::Search { workload: workload.name.clone(), fault };
    let read = |artifact: &Artifact, limit| blobs.get(&artifact.digest, limit)?.ok_or_else(|| refuse(SearchFault::Absent));
    let manifest = read(&pinned.manifest, MAX_MANIFEST_BYTES)?;
    let bundle = read(&pinned.bundle, MAX_BUNDLE_BYTES as u64)?;
    let kind = Kind::SearchResult;
    let input = InputRef { kind, manifest: pinned.manifest.digest, bundle: pinned.bundle.digest };
    let expect =
        ExpectedManifest { kind: Some(kind), stage: Some(kind.signer()), input: Some(&input), ..ExpectedManifest::default() };
    let verified = verify(&manifest, &bundle, &Trust::Policy(policy.clone()), &expect)
        .map_err(|error| Error::Unverified { kind, source: Box::new(error.into()) })?;
    let result = SearchResult::from_document(verified.value()).ok_or_else(|| refuse(SearchFault::Absent))?;
    replay(&result.body).map_err(|fault| refuse(SearchFault::Replay(fault)))?;
    let work = workload.serving.as_ref().map(|work| (work.slos.as_slice(), work.model.as_str()));
    check_workload(&result.body, &workload.name, &plan.cases, work).map_err(|mismatch| refuse(SearchFault::Workload(mismatch)))
}
