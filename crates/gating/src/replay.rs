//! Repeats the decision of a verdict, from the evidence that it names.

use std::collections::BTreeSet;
use std::path::Path;

use assay_envelope::{MAX_BUNDLE_BYTES, Trust};
use assay_gate::{CONTRACT, GateInput};
use assay_manifest::{Digest, InputRef, Kind, MAX_MANIFEST_BYTES, Verdict};
use assay_runner::{Config, gate_signers};
use assay_runs::{RunStore, establish, read_regular_file};
use assay_stage::{ErrorCode, Failure};
use assay_store::Store;
use assay_verify::{Blobs as _, StoreBlobs};

use crate::decide::{candidate_definition_changes, make_manifest, policy_changes};
use crate::evidence::Evidence;
use crate::rules::{RuleFile, Rules, TRUST};
use crate::sequence::{VerifiedVerdict, find_verdict, trust_own_gate, verify_verdict};

/// The largest file that a pipeline names, in bytes.
const MAX_DEFINITION_BYTES: u64 = assay_spec::MAX_FILE_BYTES as u64;

/// Decides a verdict again and compares every byte. `name` is its digest, or its file with the bundle beside it.
pub fn replay(name: &str, place: &RunStore) -> Result<VerifiedVerdict, Failure> {
    let blobs = StoreBlobs::new(place.open_store()?);
    let trust = trust(place, &blobs)?;
    let known = find(name, blobs.store(), &trust)?;
    let verdict = known.verdict();
    if verdict.contract != CONTRACT {
        return Err(Failure::new(
            ErrorCode::OtherContract,
            format!("the verdict was made by {}, and this is {CONTRACT}", verdict.contract),
        )
        .hint("the method may have changed: replay it with the version of assay that made it"));
    }
    let unestablished = verdict.runs.iter().any(|run| !run.established);
    let mut evidence = Vec::new();
    for judged in &verdict.runs {
        let opened = Evidence::open(place, judged.run_id.as_str(), unestablished)?;
        if opened.summary()? != judged.summary {
            let message = format!("the Summary of run `{}` is not the one that was judged", judged.run_id);
            return Err(Failure::new(ErrorCode::OtherSummary, message));
        }
        evidence.push(opened);
    }
    check_sequence(verdict, blobs.store(), &trust)?;
    let again = decide_again(verdict, &known, &evidence, &blobs)?;
    let (before, now) = (bytes(&known.manifest)?, bytes(&again)?);
    if before != now {
        return Err(Failure::new(
            ErrorCode::ReplayDiffers,
            format!("deciding again gives {} instead of {}", Digest::compute(&now), Digest::compute(&before)),
        )
        .hint("whoever signed this verdict did not decide by what it names"));
    }
    Ok(known)
}

/// Checks that the earlier verdicts exist, and that this one follows them.
fn check_sequence(verdict: &Verdict, store: &Store, trust: &Trust) -> Result<(), Failure> {
    let before = verdict.sequence.earlier.iter().map(|digest| Ok((*digest, find_verdict(store, *digest, trust)?)));
    let before = before.collect::<Result<Vec<_>, Failure>>()?;
    let before: Vec<_> = before.iter().map(|(digest, known)| (*digest, known.verdict())).collect();
    check_follows(verdict, &before)
}

/// Returns an error unless a verdict has the same subject as those before it, is the look after the last of them or decides that
/// one again, and rests on all the evidence of that one: evidence that was drawn once is never replaced.
fn check_follows(verdict: &Verdict, before: &[(Digest, &Verdict)]) -> Result<(), Failure> {
    let about = |verdict: &Verdict| {
        let tree = verdict.runs.last().map(|run| run.tree.clone());
        (verdict.sequence.name.clone(), verdict.gate.clone(), verdict.policy.digest, tree)
    };
    if let Some((digest, _)) = before.iter().find(|(_, earlier)| about(earlier) != about(verdict)) {
        return Err(Failure::new(ErrorCode::OtherSequence, format!("the earlier verdict {digest} is about something else")));
    }
    let last = before.last().map(|(_, last)| *last);
    let (look, last_look) = (verdict.sequence.look, last.map_or(0, |last| last.sequence.look));
    let is_again = look == last_look && last.is_some();
    if !is_again && look != last_look + 1 {
        return Err(Failure::new(
            ErrorCode::OtherLook,
            format!("the verdict calls itself look {look}, and the one before it was look {last_look}"),
        ));
    }
    let runs = |verdict: &Verdict| -> Vec<_> { verdict.runs.iter().map(|run| (run.run_id.clone(), run.summary)).collect() };
    let (now, then) = (runs(verdict), last.map(runs).unwrap_or_default());
    if !now.starts_with(&then) || now.len() - then.len() != usize::from(!is_again) {
        return Err(Failure::new(ErrorCode::OtherEvidence, "the verdict does not rest on the runs of the one before it")
            .hint("a look adds one run to those that were judged: whoever signed this verdict left some out, or took others"));
    }
    Ok(())
}

fn decide_again(
    verdict: &Verdict,
    known: &VerifiedVerdict,
    evidence: &[Evidence],
    blobs: &StoreBlobs,
) -> Result<assay_manifest::Manifest<Verdict>, Failure> {
    let rules = read_rules(verdict, blobs)?;
    let gate = rules.gates()?.into_iter().find(|gate| gate.name == verdict.gate);
    let gate = gate.ok_or_else(|| Failure::new(ErrorCode::GateMissing, "the rules that the verdict names have no such gate"))?;
    let mut runs = evidence.iter().map(Evidence::as_run).collect::<Result<Vec<_>, _>>()?;
    // The names of signers are in the trust policy of the machine that judged.
    for (run, judged) in runs.iter_mut().zip(&verdict.runs) {
        run.signers.clone_from(&judged.signers);
        run.established = judged.established;
    }
    let candidate = evidence.last().ok_or_else(|| Failure::new(ErrorCode::Verdict, "the verdict names no run"))?;
    let applied = |path: &str| verdict.acknowledgements.iter().any(|known| known.path == path && known.applies);
    let input = GateInput {
        gate: &verdict.gate,
        policy: rules.policy(&gate),
        runs,
        sequence: verdict.sequence.clone(),
        acknowledgements: rules.acknowledgements(&|path, _| applied(path))?,
        judged_on: verdict.judged_on,
        learned: rules.history()?,
        both_ways: false,
        policy_changes: policy_changes(&rules, &gate, candidate)?,
        definition_changes: candidate_definition_changes(&rules, candidate)?,
        files: rules.files().map(RuleFile::artifact).collect(),
    };
    let earlier: Vec<InputRef> =
        known.manifest.header.inputs.iter().filter(|input| input.kind == Kind::Verdict).copied().collect();
    let [named, listed] =
        [earlier.iter().map(|input| input.manifest).collect(), verdict.sequence.earlier.iter().copied().collect()]
            .map(|digests: BTreeSet<Digest>| digests);
    if named != listed {
        return Err(Failure::new(ErrorCode::OtherSequence, "the verdict was made from others than those that it lists"));
    }
    make_manifest(&input, earlier)
}

/// Returns the files that the verdict names, from the store.
fn read_rules(verdict: &Verdict, blobs: &StoreBlobs) -> Result<Rules, Failure> {
    let file = |path: &str| -> Result<Option<RuleFile>, Failure> {
        let name = format!("rules/{path}");
        let Some(artifact) = verdict.files.iter().find(|artifact| artifact.name == name) else { return Ok(None) };
        let absent = || Failure::new(ErrorCode::ArtifactAbsent, format!("`{path}`, by which was judged, is not in the store"));
        let bytes = blobs.get(&artifact.digest, MAX_DEFINITION_BYTES)?.ok_or_else(absent)?;
        Ok(Some(RuleFile { path: path.to_owned(), bytes }))
    };
    let unnamed = |path: &str| Failure::new(ErrorCode::ArtifactAbsent, format!("the verdict does not name `{path}`"));
    let acknowledgements = verdict.acknowledgements.iter().map(|known| file(&known.path)?.ok_or_else(|| unnamed(&known.path)));
    let learned = verdict.files.iter().find(|file| Some(file.digest) == verdict.learned);
    let learned = learned.and_then(|file| file.name.strip_prefix("rules/"));
    let is_rule = |path: &str| {
        path == verdict.policy.path
            || path == TRUST
            || Some(path) == learned
            || verdict.acknowledgements.iter().any(|known| known.path == path)
    };
    let others = verdict.files.iter().filter_map(|file| file.name.strip_prefix("rules/")).filter(|path| !is_rule(path));
    let definitions = others.map(|path| file(path)?.ok_or_else(|| unnamed(path)));
    Ok(Rules {
        pipeline: file(&verdict.policy.path)?.ok_or_else(|| unnamed(&verdict.policy.path))?,
        acknowledgements: acknowledgements.collect::<Result<_, _>>()?,
        trust: file(TRUST)?,
        noise: learned.map(file).transpose()?.flatten(),
        definitions: definitions.collect::<Result<_, _>>()?,
        commit: verdict.policy.commit.clone(),
    })
}

/// Returns the trust: the named or configured policy, and this machine's own gate if it has one.
fn trust(place: &RunStore, blobs: &StoreBlobs) -> Result<Trust, Failure> {
    let config = Config::find()?;
    let trust = establish(&place.trust, &config, blobs, &[])?.trust;
    Ok(match gate_signers(&config) {
        Ok(own) => trust_own_gate(&trust, &own),
        Err(_) => trust,
    })
}

/// Finds a verdict by its digest, or by its file, with the bundle beside it.
fn find(name: &str, store: &Store, trust: &Trust) -> Result<VerifiedVerdict, Failure> {
    if let Ok(digest) = name.parse::<Digest>().or_else(|_| format!("sha256:{name}").parse()) {
        return find_verdict(store, digest, trust);
    }
    // The folder of a gate that `--to` wrote holds it under this name.
    let named = Path::new(name);
    let path = if named.is_dir() { named.join("verdict.json") } else { named.to_owned() };
    let manifest = read(&path, MAX_MANIFEST_BYTES)?;
    let bundle = read(&path.with_extension("sigstore.json"), MAX_BUNDLE_BYTES as u64)?;
    verify_verdict(&manifest, &bundle, 0, trust)
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: &std::io::Error| {
        Failure::new(ErrorCode::NoSuchVerdict, format!("cannot read `{}`", path.display()))
            .because(error)
            .hint("name a verdict by its digest, or by its file with the bundle beside it")
    };
    let bytes = read_regular_file(path, limit).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > limit {
        return Err(Failure::new(ErrorCode::NoSuchVerdict, format!("`{}` is too large for a verdict", path.display())));
    }
    Ok(bytes)
}

fn bytes(manifest: &assay_manifest::Manifest<Verdict>) -> Result<Vec<u8>, Failure> {
    manifest.to_bytes().map_err(|error| Failure::new(ErrorCode::Internal, "a verdict has no canonical form").because(&error))
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Body, Document};

    use super::*;

    /// Returns the example's verdict as this look, of runs with these Summaries.
    fn verdict(look: u32, summaries: &[&str]) -> Verdict {
        let bytes = include_bytes!("../../../manifests/examples/v1alpha1/verdict.json");
        let document = Document::parse(bytes).expect("a manifest");
        let mut verdict = Verdict::from_document(&document).expect("a verdict").body.clone();
        let like = verdict.runs.first().expect("a run").clone();
        let run = |(place, text): (usize, &&str)| assay_manifest::JudgedRun {
            run_id: format!("run-{place}").parse().expect("a name"),
            summary: InputRef { manifest: Digest::compute(text.as_bytes()), ..like.summary },
            ..like.clone()
        };
        verdict.runs = summaries.iter().enumerate().map(run).collect();
        verdict.sequence.look = look;
        verdict
    }

    fn code(verdict: &Verdict, before: &[&Verdict]) -> String {
        let before: Vec<_> = before.iter().map(|before| (Digest::compute(b"earlier"), *before)).collect();
        check_follows(verdict, &before).map_or_else(|failure| failure.code.to_string(), |()| "follows".to_owned())
    }

    #[test]
    fn a_look_adds_a_run_and_replaces_none() {
        let (first, second) = (verdict(1, &["a"]), verdict(2, &["a", "b"]));
        assert_eq!(code(&first, &[]), "follows");
        assert_eq!(code(&second, &[&first]), "follows");
        assert_eq!(code(&second, &[&first, &second]), "follows", "the same look is decided again with what people accept now");
        assert_eq!(code(&verdict(2, &["b", "a"]), &[&first]), "other_evidence");
        assert_eq!(code(&verdict(2, &["b"]), &[&first]), "other_evidence", "the lucky run alone");
        assert_eq!(code(&verdict(2, &["a", "b", "c"]), &[&first]), "other_evidence", "two runs in one look");
        assert_eq!(code(&verdict(1, &["b"]), &[&first]), "other_evidence", "the first look anew");
        assert_eq!(code(&verdict(3, &["a", "b", "c"]), &[&first]), "other_look");
        assert_eq!(code(&second, &[]), "other_look");
    }

    #[test]
    fn verdicts_about_something_else_are_not_before_it() {
        let first = verdict(1, &["a"]);
        let other = |change: fn(&mut Verdict)| {
            let mut changed = verdict(2, &["a", "b"]);
            change(&mut changed);
            code(&changed, &[&first])
        };
        assert_eq!(other(|verdict| verdict.gate = "other".parse().expect("a name")), "other_sequence");
        assert_eq!(other(|verdict| verdict.sequence.name = "pr-9999".parse().expect("a name")), "other_sequence");
        assert_eq!(other(|verdict| verdict.policy.digest = Digest::compute(b"other rules")), "other_sequence");
        assert_eq!(other(|verdict| verdict.runs.iter_mut().for_each(|run| run.tree = "0".repeat(40))), "other_sequence");
    }
}
