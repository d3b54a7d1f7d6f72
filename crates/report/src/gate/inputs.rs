//! The inputs of a verdict's report: the verdict, its signature, earlier verdicts, and the Summaries of the judged runs.

use std::collections::BTreeMap;

use assay_manifest::{Digest, Instant, Name, RunId, Summary, Verdict};

use crate::evidence::ChainSignature;

/// All data that a report of a verdict shows. The caller has verified it: a report renders and does not judge.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// The digest of the bytes of the verdict's manifest; `None` if it was not sealed.
    pub verdict_digest: Option<Digest>,
    /// The signature over that manifest; `None` if it is not signed.
    pub signed_by: Option<&'a ChainSignature>,
    /// Name and digest of the trust policy that the signatures were verified against; `None` if the signers are not established.
    pub trust_policy: Option<(String, Digest)>,
    /// Judged runs whose signers are not established, besides those that the verdict itself names.
    pub unestablished: &'a [RunId],
    /// The earlier verdicts of the same pull request, oldest first.
    pub earlier: &'a [EarlierVerdict],
    /// The available Summaries of the judged runs, by the digests of their manifests: they name the row of each value.
    pub summaries: &'a BTreeMap<Digest, Summary>,
    /// The explanation of a regression by what was recorded meanwhile; `None` for another outcome.
    pub why: Option<Why>,
    /// The URI of the store that holds verdict and runs; `None` if `assay` finds the store by itself.
    pub store: Option<&'a str>,
}

/// The best explanation of a regression, or the reason why there is none. It is no part of the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// One sentence.
    pub headline: String,
    /// The signals that moved, the experiment that would confirm it, and the command that shows all of it.
    pub details: Vec<String>,
}

/// An earlier verdict of the same pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierVerdict {
    /// Its number among the pull request's verdicts, from 1.
    pub number: u32,
    /// The digest of its manifest's bytes.
    pub digest: Digest,
    /// Its gate.
    pub gate: Name,
    /// Its outcome, in one word.
    pub outcome: &'static str,
    /// The number of its look, from 1.
    pub look: u32,
    /// The commit that was judged; `None` if unknown.
    pub commit: Option<String>,
    /// The time at which it was judged.
    pub judged_on: Instant,
}
