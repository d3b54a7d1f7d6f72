//! Verdicts over foreign evidence: `assay gate --foreign` makes them, and `assay show` and `assay verify` find them by their digest.

use std::path::Path;

use assay_gating::{Caller, ForeignGateRequest, VerifiedForeignVerdict, verify_foreign_verdict};
use assay_manifest::{ForeignVerdict, InputRef, MAX_MANIFEST_BYTES, Outcome};
use assay_report::{ForeignReport, counted};
use assay_runs::{RunStore, named_store};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::Store;
use serde_json::{Value, json};

use crate::commands::foreign_evidence::put_back;
use crate::commands::gate::exit_for;
use crate::output;

/// The longest comment, in bytes: the forge's limit, less the text that the posting program adds.
const MAX_COMMENT_BYTES: usize = 65_000;

/// Judges foreign evidence, shows the verdict and writes it into a folder if one is named.
pub(crate) fn judge(
    request: &ForeignGateRequest,
    caller: &dyn Caller,
    to: Option<&Path>,
    as_json: bool,
) -> Result<Exit, Failure> {
    let known = request.judge(caller)?;
    let uri = request.store.store_uri()?;
    if let Some(folder) = to {
        let folder = folder.join(known.verdict().gate.as_str());
        write(&folder, &known, &uri)?;
        output::diagnostic(format!("wrote the verdict and its reports to {}", folder.display()));
    }
    print(&known, &uri, as_json)?;
    Ok(exit(known.verdict()))
}

/// Returns the exit code: that of the outcome if the rules let foreign evidence decide, or else 0.
fn exit(verdict: &ForeignVerdict) -> Exit {
    if verdict.advisory { Exit::Done } else { exit_for(verdict.outcome) }
}

fn report<'a>(known: &'a VerifiedForeignVerdict, store: Option<&'a str>) -> ForeignReport<'a> {
    ForeignReport { verdict: known.verdict(), digest: known.reference.manifest, store }
}

fn print(known: &VerifiedForeignVerdict, uri: &str, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::json(&document(known));
    }
    report(known, named_store(uri)).lines().iter().for_each(output::line);
    Ok(())
}

/// Returns the verdict as a document. Its first member states that it is over foreign evidence.
fn document(known: &VerifiedForeignVerdict) -> Value {
    json!({
        "about": ForeignVerdict::ABOUT,
        "absent": known.absent,
        "established": known.established,
        "grade": "foreign",
        "reference": known.reference,
        "signer": known.signer,
        "verdict": known.verdict(),
    })
}

fn write(folder: &Path, known: &VerifiedForeignVerdict, uri: &str) -> Result<(), Failure> {
    let unwritable = |error: &std::io::Error| {
        Failure::new(ErrorCode::Output, format!("cannot write to `{}`", folder.display())).because(error).lasting()
    };
    std::fs::create_dir_all(folder).map_err(|error| unwritable(&error))?;
    let file = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).map_err(|error| unwritable(&error));
    let store = Store::open_existing(uri)?;
    file("verdict.json", &store.get(&known.reference.manifest, MAX_MANIFEST_BYTES)?)?;
    file("verdict.sigstore.json", &store.get(&known.reference.bundle, MAX_MANIFEST_BYTES)?)?;
    let report = report(known, named_store(uri));
    file("report.html", report.html().as_bytes())?;
    file("comment.md", report.markdown(MAX_COMMENT_BYTES).as_bytes())?;
    file("junit.xml", report.junit().as_bytes())?;
    let check = serde_json::to_vec_pretty(&report.check_run())
        .map_err(|error| Failure::new(ErrorCode::Internal, "the check has no JSON form").because(&error))?;
    file("check.json", &check)
}

/// Shows a verdict over foreign evidence, verified before it is shown.
pub(crate) fn show(place: &RunStore, reference: InputRef, as_json: bool) -> Result<Exit, Failure> {
    let known = verify_foreign_verdict(place, reference)?;
    print(&known, &place.store_uri()?, as_json)?;
    Ok(output::established(known.established))
}

/// Verifies a verdict over foreign evidence, and reports what was checked.
pub(crate) fn verify(place: &RunStore, reference: InputRef, strict: bool, as_json: bool) -> Result<Exit, Failure> {
    let known = verify_foreign_verdict(place, reference)?;
    if let Some(name) = known.absent.first().filter(|_| strict) {
        let message = format!("a file of the foreign evidence `{name}` is absent, so its numbers were not read again");
        return Err(Failure::new(ErrorCode::ArtifactAbsent, message).hint(put_back(name)));
    }
    if as_json {
        output::json(&document(&known))?;
    } else {
        verified_lines(&known).iter().for_each(output::line);
    }
    Ok(output::established(known.established))
}

fn verified_lines(known: &VerifiedForeignVerdict) -> Vec<String> {
    let verdict = known.verdict();
    let pieces = verdict.pieces().count();
    let mut lines = vec![
        ForeignVerdict::ABOUT.to_owned(),
        format!("verdict {}", known.reference.manifest),
        format!("  ok  signed by {} for the role `gate`", known.signer),
        format!("  ok  {} of foreign evidence, each with the signature of its importer", counted(pieces as u64, "piece")),
    ];
    match known.absent.len() {
        0 => lines.push("  ok  all files read again, and every number equal".to_owned()),
        absent => lines
            .push(format!("  --  files of {} are absent: their numbers were not read again", counted(absent as u64, "piece"))),
    }
    lines.push(format!("  ok  decided again, with the same bytes: {}", outcome(verdict)));
    lines
}

fn outcome(verdict: &ForeignVerdict) -> String {
    match (verdict.outcome, verdict.advisory) {
        (Outcome::Regressed | Outcome::Inconclusive, true) => format!("{}, advisory", verdict.outcome),
        (outcome, _) => outcome.to_string(),
    }
}
