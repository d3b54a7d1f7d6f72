//! The verified inputs of a stage.

use std::collections::BTreeSet;

use assay_chain::{Arity, Member, StageName, check_links};
use assay_envelope::{Trust, Verified};
use assay_manifest::{Body, Digest, Document, InputRef, Kind, Manifest, Plan, RunId};

use crate::{ErrorCode, Failure};

/// Manifests whose signatures, digests and links have been checked, in the number of each kind that the stage takes.
#[derive(Debug)]
pub struct Inputs(Vec<Verified<Document>>);

impl Inputs {
    /// Checks that verified manifests are those that `stage` takes, belong together, and come from a run of the origin that
    /// `trust` requires of their signers and of the stage itself.
    pub fn check(stage: StageName, run_id: &RunId, documents: Vec<Verified<Document>>, trust: &Trust) -> Result<Self, Failure> {
        for (kind, arity) in stage.input_kinds() {
            check_arity(stage, *kind, *arity, documents.iter().filter(|input| input.value().kind() == *kind).count())?;
        }
        if let Some(extra) = documents.iter().map(|input| input.value().kind()).find(|kind| !accepts_kind(stage, *kind)) {
            return Err(Failure::new(ErrorCode::InputNotTaken, format!("{stage} does not take a {extra}")));
        }
        let members: Vec<_> = documents.iter().map(member).collect();
        check_links(run_id, &members)?;
        for document in &documents {
            let roles = documents.iter().map(|input| input.value().kind().signer()).chain([stage.role()]);
            roles.collect::<BTreeSet<_>>().into_iter().try_for_each(|role| trust.check_origin(role, document.value()))?;
        }
        Ok(Self(documents))
    }

    /// Returns the only manifest of a kind; the contract guarantees that there is one.
    pub fn one<'a, B: Body + 'a>(&'a self) -> Result<&'a Manifest<B>, Failure> {
        let mut all = self.all::<B>();
        match (all.next(), all.next()) {
            (Some((_, manifest)), None) => Ok(manifest),
            _ => {
                Err(Failure::new(ErrorCode::Internal, format!("the stage's contract does not say that it takes one {}", B::KIND)))
            }
        }
    }

    /// Returns the plan that the stage follows, and the digest by which its result names it.
    pub fn plan(&self) -> Result<(&Plan, Digest), Failure> {
        let plan = &self.one::<Plan>()?.body;
        let unnamed = |error| Failure::new(ErrorCode::Internal, "the plan has no digest").because(&error);
        Ok((plan, plan.digest().map_err(unnamed)?))
    }

    /// Returns all manifests of a kind, with the digests that name them.
    pub fn all<'a, B: Body + 'a>(&'a self) -> impl Iterator<Item = (InputRef, &'a Manifest<B>)> {
        self.0.iter().filter_map(|input| Some((input.input_ref(), B::from_document(input.value())?)))
    }

    /// Returns the digests that name the only manifest of a kind.
    pub fn reference(&self, kind: Kind) -> Option<InputRef> {
        self.0.iter().map(Verified::input_ref).find(|input| input.kind == kind)
    }

    /// Returns all manifests, with their signers.
    pub fn verified(&self) -> &[Verified<Document>] {
        &self.0
    }

    /// Returns the digests that name all manifests.
    pub fn references(&self) -> Vec<InputRef> {
        self.0.iter().map(Verified::input_ref).collect()
    }
}

fn member(input: &Verified<Document>) -> Member<'_> {
    Member { document: input.value(), reference: input.input_ref() }
}

fn accepts_kind(stage: StageName, kind: Kind) -> bool {
    stage.input_kinds().iter().any(|(taken, _)| *taken == kind)
}

fn check_arity(stage: StageName, kind: Kind, arity: Arity, count: usize) -> Result<(), Failure> {
    if arity.admits(count) {
        return Ok(());
    }
    let failure = Failure::new(ErrorCode::InputCount, format!("{stage} takes {arity} {kind}, but was given {count}"));
    Err(failure.hint(format!("name it with `--input MANIFEST,BUNDLE`, the digests of the {kind} and of its bundle")))
}
