//! The verdicts about one pull request or tree: stored in one order, none of them ever replaced.

use std::collections::BTreeSet;

use assay_envelope::{ExpectedManifest, MAX_BUNDLE_BYTES, PublicKey, Trust, TrustedSigner, verify};
use assay_manifest::{Body as _, Digest, InputRef, Kind, MAX_MANIFEST_BYTES, Manifest, Name, Outcome, Role, Verdict};
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout};
use assay_store::{CreateOutcome, Store};

/// A verdict that was found and verified.
#[derive(Clone, Debug)]
pub struct VerifiedVerdict {
    /// Its number in the order of its subject, from 1.
    pub number: u32,
    /// The reference of its manifest and bundle.
    pub reference: InputRef,
    /// Its manifest.
    pub manifest: Manifest<Verdict>,
    /// The name of its signer.
    pub signer: String,
    /// The fingerprint of the signer's key.
    pub fingerprint: Digest,
}

impl VerifiedVerdict {
    /// Returns the verdict.
    pub fn verdict(&self) -> &Verdict {
        &self.manifest.body
    }
}

/// Adds this machine's own gate, with its present and former keys, to the trust for verdicts. If the policy itself names one of
/// these keys, the policy's window applies. Keys that lie beside a run vouch for no verdict: otherwise the machine that measures
/// could plant one that counts.
pub(crate) fn trust_own_gate(trust: &Trust, own: &[TrustedSigner]) -> Trust {
    match trust.clone() {
        Trust::Policy(mut policy) => {
            let is_named =
                |key: &PublicKey| policy.signers.iter().any(|signer| signer.key == *key && signer.signs.contains(&Role::Gate));
            let unnamed: Vec<_> = own.iter().filter(|signer| !is_named(&signer.key)).cloned().collect();
            policy.signers.extend(unnamed);
            Trust::Policy(policy)
        }
        Trust::None { .. } => Trust::None { candidates: own.iter().map(|signer| signer.key.clone()).collect() },
    }
}

/// Returns the verdicts about a subject, oldest first.
pub(crate) fn read_verdicts(store: &Store, subject: &Name, trust: &Trust) -> Result<Vec<VerifiedVerdict>, Failure> {
    let paths = store.list(&Layout::verdicts(subject))?;
    let known = (1_u32..).zip(paths).map(|(number, path)| {
        if path != Layout::verdict(subject, number) {
            return Err(Failure::new(ErrorCode::VerdictMissing, format!("verdict {number} about `{subject}` is missing"))
                .hint("a sequence of verdicts only grows: one was removed, and what it spent is not known any more"));
        }
        let accepted = AcceptedResult::read(store, &path)?.ok_or_else(|| absent(&path))?;
        load(store, accepted.as_input(Kind::Verdict), number, trust)
    });
    let known: Vec<VerifiedVerdict> = known.collect::<Result<_, _>>()?;
    check_order(&known, subject)?;
    Ok(known)
}

/// Checks that each verdict is about the subject, occurs once, and comes after those that it rests on: the target of a pointer is
/// not signed, so moving a verdict would restore looks that were used.
fn check_order(known: &[VerifiedVerdict], subject: &Name) -> Result<(), Failure> {
    let mut before = BTreeSet::new();
    for one in known {
        let sequence = &one.verdict().sequence;
        let follows = sequence.earlier.iter().all(|earlier| before.contains(earlier));
        if sequence.name != *subject || !follows || !before.insert(one.reference.manifest) {
            let message = format!("verdict {} about `{subject}` does not belong there", one.number);
            return Err(Failure::new(ErrorCode::VerdictMisplaced, message)
                .hint("a sequence of verdicts only grows: somebody has put another in its place, or has changed their order"));
        }
    }
    Ok(())
}

/// The runs of a store in which a gate has found a regression.
#[derive(Default)]
pub(crate) struct RegressedRuns {
    /// The digests of their Summaries.
    pub(crate) summaries: BTreeSet<Digest>,
    /// The number of unusable verdicts: damaged, or signed by no trusted gate.
    pub(crate) unread: usize,
}

/// Returns the runs in which a verdict of the store has found a regressed metric, accepted or not. A verdict that does not verify
/// is ignored, and counted.
pub(crate) fn regressed_runs(store: &Store, trust: &Trust) -> Result<RegressedRuns, Failure> {
    let mut regressed = RegressedRuns::default();
    for path in store.list(Layout::VERDICTS)? {
        let Some(accepted) = AcceptedResult::read(store, &path)? else { continue };
        let Ok(known) = load(store, accepted.as_input(Kind::Verdict), 0, trust) else {
            regressed.unread += 1;
            continue;
        };
        let verdict = known.verdict();
        if verdict.metrics.iter().any(|metric| metric.primary && metric.outcome == Outcome::Regressed) {
            regressed.summaries.extend(verdict.runs.iter().map(|run| run.summary.manifest));
        }
    }
    Ok(regressed)
}

/// Returns a verdict by the digest of its manifest, wherever in the store it is.
pub(crate) fn find_verdict(store: &Store, manifest: Digest, trust: &Trust) -> Result<VerifiedVerdict, Failure> {
    for path in store.list(Layout::VERDICTS)? {
        let Some(accepted) = AcceptedResult::read(store, &path)?.filter(|accepted| accepted.manifest == manifest) else {
            continue;
        };
        let number = path.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or_default();
        return load(store, accepted.as_input(Kind::Verdict), number, trust);
    }
    Err(Failure::new(ErrorCode::NoSuchVerdict, format!("the store `{}` has no verdict {manifest}", store.uri())))
}

/// Verifies a verdict from bytes of any source.
pub(crate) fn verify_verdict(manifest: &[u8], bundle: &[u8], number: u32, trust: &Trust) -> Result<VerifiedVerdict, Failure> {
    let expect = ExpectedManifest { kind: Some(Kind::Verdict), stage: Some(Role::Gate), ..ExpectedManifest::default() };
    let verified = verify(manifest, bundle, trust, &expect).map_err(|error| {
        let failure = Failure::from(error);
        Failure { message: format!("the verdict does not verify: {}", failure.message), ..failure }
    })?;
    let found = Verdict::from_document(verified.value()).ok_or_else(|| Failure::new(ErrorCode::Internal, "a verdict is none"))?;
    Ok(VerifiedVerdict {
        number,
        reference: verified.input_ref(),
        manifest: found.clone(),
        signer: verified.signer().name.clone(),
        fingerprint: verified.signer().fingerprint,
    })
}

/// Appends a verdict to its subject's sequence. Returns false if another gate appended first: then it has to be judged again,
/// after that one.
pub(crate) fn append(store: &Store, subject: &Name, number: u32, reference: InputRef) -> Result<bool, Failure> {
    let accepted = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle };
    Ok(matches!(store.create(&Layout::verdict(subject, number), &accepted.to_bytes()?)?, CreateOutcome::New))
}

fn load(store: &Store, reference: InputRef, number: u32, trust: &Trust) -> Result<VerifiedVerdict, Failure> {
    let manifest = store.get(&reference.manifest, MAX_MANIFEST_BYTES)?;
    let bundle = store.get(&reference.bundle, MAX_BUNDLE_BYTES as u64)?;
    verify_verdict(&manifest, &bundle, number, trust)
}

fn absent(path: &str) -> Failure {
    Failure::new(ErrorCode::VerdictMissing, format!("the pointer `{path}` no longer exists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_that_do_not_verify_are_counted() {
        let store = Store::open("memory:").expect("a store");
        let trust = Trust::None { candidates: Vec::new() };
        let regressed = |store: &Store| regressed_runs(store, &trust).expect("looked at");
        assert_eq!(regressed(&store).unread, 0);
        let [manifest, bundle] = ["no manifest", "no bundle"].map(|text| store.put(text.as_bytes()).expect("stored"));
        let subject: Name = "pr-17".parse().expect("a name");
        assert!(append(&store, &subject, 1, InputRef { kind: Kind::Verdict, manifest, bundle }).expect("appended"));
        let found = regressed(&store);
        assert_eq!((found.unread, found.summaries.len()), (1, 0));
    }
}
