//! Shows a verdict to people and machines: on the terminal, and as a folder of reports.

use std::collections::BTreeMap;
use std::path::Path;

use assay_gating::{GateDecision, VerifiedVerdict};
use assay_manifest::{Body as _, Digest, Document, MAX_MANIFEST_BYTES, Role, RunId, Summary, Verdict};
use assay_report::ChainSignature;
use assay_report::gate::{EarlierVerdict, Inputs, Report, Why};
use assay_runs::{RunStore, named_store};
use assay_stage::{ErrorCode, Failure};
use assay_store::Store;
use assay_verify::{Blobs as _, StoreBlobs};
use serde_json::json;

use crate::commands::explain;
use crate::output;

/// The longest comment of all gates together, in bytes: the forge's limit, less the text that the posting program adds.
const MAX_COMMENT_BYTES: usize = 65_000;

/// Shows the decision, and writes it into a folder if one is named.
pub(super) fn show(decided: &[GateDecision], to: Option<&Path>, as_json: bool, place: &RunStore) -> Result<(), Failure> {
    let uri = place.store_uri()?;
    let blobs = StoreBlobs::new(Store::open_existing(&uri)?);
    let many = decided.len().max(1);
    let of = |decided: &GateDecision| {
        let verdict = decided.verdict.verdict();
        Ok(report(decided, &uri, &summaries(verdict, &blobs)?, explain::why(verdict, place)))
    };
    let reports = decided.iter().map(of).collect::<Result<Vec<_>, Failure>>()?;
    let mut written = Vec::new();
    for (decided, report) in decided.iter().zip(&reports).filter(|_| to.is_some()) {
        let folder = to.unwrap_or(Path::new("")).join(decided.verdict.verdict().gate.as_str());
        write(&folder, &decided.verdict, report, blobs.store(), MAX_COMMENT_BYTES / many)?;
        written.push(format!("wrote the verdict and its reports to {}", folder.display()));
    }
    if as_json {
        output::json(&decided.iter().map(document).collect::<Vec<_>>())?;
    } else {
        for report in &reports {
            output::report(report.terminal(output::width(), output::has_color()));
        }
    }
    written.iter().for_each(output::diagnostic);
    Ok(())
}

fn document(decided: &GateDecision) -> serde_json::Value {
    let VerifiedVerdict { number, reference, manifest, signer, .. } = &decided.verdict;
    json!({"number": number, "reference": reference, "signer": signer, "verdict": manifest.body})
}

/// Returns the Summaries of the judged runs, which name the row of each value. A verdict names them by digest, and their bytes
/// are checked against it; a Summary that no longer exists is left out, and the report says so.
fn summaries(verdict: &Verdict, blobs: &StoreBlobs) -> Result<BTreeMap<Digest, Summary>, Failure> {
    let mut found = BTreeMap::new();
    for judged in &verdict.runs {
        let digest = judged.summary.manifest;
        let Some(bytes) = blobs.get(&digest, MAX_MANIFEST_BYTES)? else { continue };
        let document = Document::parse(&bytes).map_err(|error| Failure::from_error(ErrorCode::Malformed, &error))?;
        found.extend(Summary::from_document(&document).map(|manifest| (digest, manifest.body.clone())));
    }
    Ok(found)
}

fn report(decided: &GateDecision, store: &str, summaries: &BTreeMap<Digest, Summary>, why: Option<Why>) -> Report {
    let known = &decided.verdict;
    let verdict = known.verdict();
    let earlier: Vec<EarlierVerdict> = decided.all.iter().filter(|other| other.number < known.number).map(earlier).collect();
    let unestablished: Vec<RunId> = verdict.runs.iter().filter(|run| !run.established).map(|run| run.run_id.clone()).collect();
    let signed = ChainSignature {
        stage: Role::Gate,
        name: "verdict".to_owned(),
        signer: known.signer.clone(),
        key_fingerprint: known.fingerprint.to_string(),
        manifest: known.reference.manifest,
        bundle: known.reference.bundle,
    };
    Report::build(&Inputs {
        verdict,
        verdict_digest: Some(known.reference.manifest),
        signed_by: Some(&signed),
        trust_policy: decided.trust_policy.clone(),
        unestablished: &unestablished,
        earlier: &earlier,
        summaries,
        why,
        store: named_store(store),
    })
}

fn earlier(known: &VerifiedVerdict) -> EarlierVerdict {
    let verdict = known.verdict();
    EarlierVerdict {
        number: known.number,
        digest: known.reference.manifest,
        gate: verdict.gate.clone(),
        outcome: verdict.outcome_label(),
        look: verdict.sequence.look,
        commit: verdict.commit().map(ToOwned::to_owned),
        judged_on: verdict.judged_on,
    }
}

fn write(folder: &Path, known: &VerifiedVerdict, report: &Report, store: &Store, comment: usize) -> Result<(), Failure> {
    let unwritable = |error: &std::io::Error| {
        Failure::new(ErrorCode::Output, format!("cannot write to `{}`", folder.display())).because(error).lasting()
    };
    std::fs::create_dir_all(folder).map_err(|error| unwritable(&error))?;
    let file = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).map_err(|error| unwritable(&error));
    let [manifest, bundle] = [known.reference.manifest, known.reference.bundle]
        .map(|digest| store.get(&digest, MAX_MANIFEST_BYTES).map_err(Failure::from));
    file("verdict.json", &manifest?)?;
    file("verdict.sigstore.json", &bundle?)?;
    file("report.html", report.html().as_bytes())?;
    file("comment.md", report.markdown(comment).as_bytes())?;
    file("junit.xml", report.junit().as_bytes())?;
    let check = serde_json::to_vec_pretty(&report.check_run())
        .map_err(|error| Failure::new(ErrorCode::Internal, "the check has no JSON form").because(&error))?;
    file("check.json", &check)
}
