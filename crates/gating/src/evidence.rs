//! The runs that a gate judges, verified.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use assay_envelope::Verified;
use assay_gate::Run;
use assay_git::{CommitInfo, Oid};
use assay_manifest::{
    Body as _, Digest, EarlierEnd, Environment, ExecutionPart, InputRef, Kind, Plan, RunEnd, RunId, Source, Summary,
};
use assay_runs::{RunStore, VerifiedRun};
use assay_stage::{ErrorCode, Failure, RESUME_HINT};
use assay_verify::Chain;

use crate::rules::{MAX_RULES_BYTES, RuleFile};

/// A run that is judged: opened for it, or borrowed from a caller that has verified it.
pub(crate) struct Evidence<R = VerifiedRun>(R);

/// The documents of a run's chain that a judgement needs.
struct Documents<'a> {
    source: &'a Source,
    plan: &'a Plan,
    summary: (InputRef, &'a Summary),
}

impl Evidence {
    /// Opens a run and verifies its chain. A run of unknown signers is refused unless `unestablished` is set.
    pub(crate) fn open(place: &RunStore, run: &str, unestablished: bool) -> Result<Self, Failure> {
        let name: RunId = run.parse().map_err(|error| no_run(run).because(&error))?;
        let opened = match place.open(run) {
            Err(failure) if failure.code == ErrorCode::UnknownKey && unestablished => place.open_unestablished(&name)?,
            opened => opened?,
        };
        if !opened.chain.is_established() && !unestablished {
            return Err(Failure::new(
                ErrorCode::NoTrust,
                format!("run `{run}` is consistent, and nobody knows who signed it: that is no evidence to judge by"),
            )
            .hint(
                "name whom you trust with `--trust`, or judge it all the same with `--unestablished`, which the verdict says",
            ));
        }
        let evidence = Self(opened);
        evidence.documents()?;
        Ok(evidence)
    }
}

impl<R: Borrow<VerifiedRun>> Evidence<R> {
    /// Takes a run that is verified already.
    pub(crate) fn of(run: R) -> Self {
        Self(run)
    }

    /// Returns the run's name.
    pub(crate) fn run_id(&self) -> &RunId {
        &self.verified_run().chain.run_id
    }

    /// Returns the run.
    pub(crate) fn verified_run(&self) -> &VerifiedRun {
        self.0.borrow()
    }

    /// Returns its Summary, as a verdict names it.
    pub(crate) fn summary(&self) -> Result<InputRef, Failure> {
        Ok(self.documents()?.summary.0)
    }

    /// Returns the commit that it measured; `None` for a work tree, whatever is checked out there.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.verified_run().chain.commit.as_ref()?;
        self.verified_run().chain.one::<Source>()?.body.commit.as_deref()
    }

    /// Returns the tree that it measured: the commit's or, without a commit, the digest of its definitions' files.
    pub(crate) fn tree(&self) -> Result<String, Failure> {
        let source = self.documents()?.source;
        Ok(match &self.verified_run().chain.commit {
            Some(commit) => commit.tree.to_string(),
            None => source.files_digest.to_string(),
        })
    }

    /// Returns the pipeline of the run's own Source.
    pub(crate) fn own_pipeline(&self) -> Result<RuleFile, Failure> {
        let source = self.documents()?.source;
        self.own_file(&source.pipeline)?.ok_or_else(|| missing_file(&source.pipeline))
    }

    /// Returns a file of the run's own Source; `None` if it has none of that path.
    pub(crate) fn own_file(&self, path: &str) -> Result<Option<RuleFile>, Failure> {
        let Some(file) = self.documents()?.source.file(path) else { return Ok(None) };
        let bytes = self.verified_run().blobs.get(&file.artifact.digest, MAX_RULES_BYTES)?.ok_or_else(|| missing_file(path))?;
        Ok(Some(RuleFile { path: path.to_owned(), bytes }))
    }

    /// Returns the digests of the files that it was made from, by path.
    pub(crate) fn files(&self) -> BTreeMap<String, Digest> {
        let source = self.verified_run().chain.one::<Source>();
        let files = source.into_iter().flat_map(|source| &source.body.files);
        files.map(|file| (file.path.clone(), file.artifact.digest)).collect()
    }

    /// Returns true if it measured this commit, or a merge of it with another. A commit that merely follows it may undo it.
    pub(crate) fn has_measured(&self, head: &str) -> bool {
        let is_merge = |info: &CommitInfo| info.parents.len() > 1 && info.parents.iter().any(|parent| parent.to_string() == head);
        self.commit() == Some(head) || self.verified_run().chain.commit.as_ref().is_some_and(is_merge)
    }

    /// Returns the commits that it measured `head` merged with; none if it measured `head` itself.
    pub(crate) fn merged_with(&self, head: &str) -> Vec<Oid> {
        let merge = self.verified_run().chain.commit.as_ref().filter(|_| self.commit() != Some(head));
        merge.into_iter().flat_map(|info| &info.parents).filter(|parent| parent.to_string() != head).copied().collect()
    }

    /// Returns the run as the rule reads it.
    pub(crate) fn as_run(&self) -> Result<Run<'_>, Failure> {
        let Documents { source, plan, summary } = self.documents()?;
        let chain = &self.verified_run().chain;
        let mut environments: Vec<&Environment> = chain.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        environments.sort_by_key(|environment| environment.block);
        let mut parts: Vec<&ExecutionPart> = chain.all::<ExecutionPart>().map(|(_, manifest)| &manifest.body).collect();
        parts.sort_by_key(|part| (part.block, part.shard.index));
        let signers: BTreeSet<_> = chain.documents.iter().map(|verified| verified.signer().name.clone()).collect();
        Ok(Run {
            run_id: &chain.run_id,
            source,
            plan,
            environments,
            parts,
            summary,
            tree: self.tree()?,
            signers: signers.into_iter().collect(),
            established: chain.is_established(),
            earlier_ends: earlier_ends(chain),
        })
    }

    fn documents(&self) -> Result<Documents<'_>, Failure> {
        let chain = &self.verified_run().chain;
        // The evidence of a run without a result verifies: it is incomplete, and not false.
        let has_ended = chain.all::<RunEnd>().next().is_some();
        let code = if has_ended { ErrorCode::EndedEarly } else { ErrorCode::RunIncomplete };
        let missing = |kind: Kind| {
            Failure::new(code, format!("run `{}` has no {kind} yet, so it cannot be judged", chain.run_id)).hint(RESUME_HINT)
        };
        let summary = chain.all::<Summary>().next().ok_or_else(|| missing(Summary::KIND))?;
        Ok(Documents {
            source: &chain.one::<Source>().ok_or_else(|| missing(Source::KIND))?.body,
            plan: &chain.one::<Plan>().ok_or_else(|| missing(Plan::KIND))?.body,
            summary: (summary.0, &summary.1.body),
        })
    }
}

/// Returns the ends that were signed before the Summary: later ones say nothing about the measurement.
fn earlier_ends(chain: &Chain) -> Vec<EarlierEnd> {
    let signed_at = |reference: InputRef| {
        chain.documents.iter().find(|verified| verified.input_ref() == reference).and_then(Verified::asserted_time)
    };
    let summary = chain.all::<Summary>().next().and_then(|(reference, _)| signed_at(reference));
    let mut ends: Vec<&RunEnd> = chain
        .all::<RunEnd>()
        .filter(|(reference, _)| signed_at(*reference).zip(summary).is_none_or(|(end, summary)| end <= summary))
        .map(|(_, manifest)| &manifest.body)
        .collect();
    ends.sort_by_key(|end| end.sequence);
    let earlier = |end: &RunEnd| EarlierEnd { state: end.state, stage: end.stage, code: end.reason.code.clone() };
    ends.into_iter().map(earlier).collect()
}

fn missing_file(path: &str) -> Failure {
    Failure::new(ErrorCode::ArtifactAbsent, format!("the run's `{path}` is missing"))
}

fn no_run(run: &str) -> Failure {
    Failure::new(ErrorCode::NoSuchRun, format!("`{run}` is not the name of a run"))
}
