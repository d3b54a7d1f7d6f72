//! The inputs of a report: verified manifests, and their signers.

use std::collections::BTreeMap;

use assay_manifest::{
    Collection, Count, Digest, Environment, Grade, ListedRun, Name, Plan, PublishedQuery, RunId, Summary, Views,
};

use crate::evidence::ChainSignature;
use crate::explanation::WhyWorse;

/// The level to which the chain was verified before the report was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The level, such as `2 (rows and queries)`.
    pub level: String,
    /// The verifier, such as `assay show`.
    pub verifier: String,
}

/// All data that a report shows. The caller has verified it: a report renders and does not judge.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// The plan.
    pub plan: &'a Plan,
    /// The environments, one for each block, in the order of the blocks.
    pub environments: &'a [&'a Environment],
    /// The frozen evidence.
    pub collection: &'a Collection,
    /// The statistics.
    pub summary: &'a Summary,
    /// The data of the serving pictures; `None` if there is no serving, or if it was not fetched.
    pub views: Option<&'a Views>,
    /// The level to which the chain was verified before this report was made; `None` if it was not verified.
    pub verified: Option<Verification>,
    /// The requested grade and the given grade.
    pub grade: &'a Grade,
    /// All runs of the published cases.
    pub runs: &'a [ListedRun],
    /// The signatures, in the order of the chain.
    pub signers: &'a [ChainSignature],
    /// Name and digest of the trust policy that the chain was verified against; `None` if the signers are not established.
    pub trust_policy: Option<(String, Digest)>,
    /// The frozen `spec` of each workload, as indented JSON.
    pub workload_specs: BTreeMap<Name, String>,
    /// The pinned queries and their results.
    pub queries: &'a [PublishedQuery],
    /// The text of each query, by its path.
    pub query_texts: BTreeMap<String, String>,
    /// Why the candidate is worse; `None` if the run compares nothing, or if no outcome is or may be worse.
    pub why_worse: Option<WhyWorse>,
    /// The versions of the warehouse's tables that hold the rows.
    pub warehouse_snapshot: &'a BTreeMap<String, Count>,
}
