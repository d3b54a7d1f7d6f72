//! Runs reduce again on the raw evidence, to compare its result with the signed one.

use std::process::Stdio;

use assay_manifest::{Body, Digest, Document, InputRef, MAX_MANIFEST_BYTES, Summary};
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Event, Failure};
use assay_store::Store;
use assay_verify::{
    Blobs, LevelReport, RecomputeOutcome, ReduceResult, StoreBlobs, Tables, compare_results, read_tables, tolerance_text,
};
use serde_json::Value;

use crate::commands::import_again::import_again;
use crate::commands::run::binaries;

/// The largest views, in bytes.
const MAX_VIEWS_BYTES: u64 = assay_manifest::Views::MAX_BYTES;

/// The result of level 4, and how far it was reached.
pub(crate) struct Level4 {
    pub(crate) report: LevelReport,
    /// `None` if nothing could be computed again.
    pub(crate) recomputed: Option<RecomputeOutcome>,
}

/// Checks level 4: reduce gives the same result again, row by row and field by field. The same binary must give the same bytes;
/// another one the same values, within a stated tolerance, and items that only one of the two has are listed.
pub(crate) fn recompute(opened: &VerifiedRun) -> Result<Level4, Failure> {
    let absent = |what: &str| {
        Ok(Level4 { report: LevelReport { absent: vec![what.to_owned()], ..LevelReport::default() }, recomputed: None })
    };
    let Some((_, signed)) = opened.chain.all::<Summary>().next() else { return absent("the run has no summary") };
    let Some(store) = &opened.store else { return absent("the raw evidence: it is in the run's store") };
    let RecomputedResult { body: summary, store: output, _folder } = reduce_again(opened, store, &signed.header.inputs)?;
    let recomputed = compare(opened, &signed.body, &summary, &StoreBlobs::new(output))?;
    let absent = import_again(opened, store)?;
    let report = LevelReport {
        checked: 1 + summary.files.len() as u64,
        bytes: summary.files.iter().map(|file| file.artifact.size.0).sum(),
        absent,
        not_compared: list_differences(&recomputed),
        ..LevelReport::default()
    };
    Ok(Level4 { report, recomputed: Some(recomputed) })
}

/// Describes the items that only one of two results has.
fn list_differences(recomputed: &RecomputeOutcome) -> Vec<String> {
    match recomputed {
        RecomputeOutcome::Reached => Vec::new(),
        RecomputeOutcome::Partial { only_signed, only_recomputed } => {
            let signed = only_signed.iter().map(|what| format!("{what}: only the signed result has it"));
            signed.chain(only_recomputed.iter().map(|what| format!("{what}: only the result computed now has it"))).collect()
        }
    }
}

/// Compares a signed Summary, with all data that it names, with the recomputed one.
pub(crate) fn compare(
    opened: &VerifiedRun,
    signed: &Summary,
    again: &Summary,
    store: &dyn Blobs,
) -> Result<RecomputeOutcome, Failure> {
    if signed.reduce_binary == again.reduce_binary {
        let none = Tables::new();
        let result = |summary| ReduceResult { summary, tables: &none, views: None };
        return Ok(compare_results(&result(signed), &result(again))?);
    }
    crate::output::diagnostic(format!(
        "this reduce binary ({}) is not the one of the run ({}): every row and field is compared, {}",
        again.reduce_binary.short(),
        signed.reduce_binary.short(),
        tolerance_text()
    ));
    let blobs = opened.blobs.as_ref();
    let (signed_tables, again_tables) = (read_tables(blobs, &signed.files)?, read_tables(store, &again.files)?);
    let (signed_views, again_views) = (views(blobs, signed)?, views(store, again)?);
    Ok(compare_results(
        &ReduceResult { summary: signed, tables: &signed_tables, views: signed_views.as_ref() },
        &ReduceResult { summary: again, tables: &again_tables, views: again_views.as_ref() },
    )?)
}

fn views(blobs: &dyn Blobs, summary: &Summary) -> Result<Option<Value>, Failure> {
    let Some(artifact) = &summary.views else { return Ok(None) };
    let lost =
        || Failure::new(ErrorCode::ArtifactAbsent, format!("the summary's `{}` ({}) is missing", artifact.name, artifact.digest));
    let bytes = blobs.get(&artifact.digest, MAX_VIEWS_BYTES)?.ok_or_else(lost)?;
    let damaged = |error| Failure::new(ErrorCode::Views, "the summary's views are damaged").because(&error);
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

/// The recomputed result of a stage, in a temporary store.
pub(crate) struct RecomputedResult<B> {
    pub(crate) body: B,
    pub(crate) store: Store,
    pub(crate) _folder: tempfile::TempDir,
}

/// Runs the reduce binary on the inputs of a signed Summary, unsigned, into a store of its own.
pub(crate) fn reduce_again(opened: &VerifiedRun, store: &str, inputs: &[InputRef]) -> Result<RecomputedResult<Summary>, Failure> {
    run_again(opened, store, "reduce", inputs, "{}")
}

/// Runs the binary of a stage on the inputs of its signed result, unsigned, into a store of its own.
pub(crate) fn run_again<B: Body + Clone>(
    opened: &VerifiedRun,
    store: &str,
    stage: &str,
    inputs: &[InputRef],
    parameters: &str,
) -> Result<RecomputedResult<B>, Failure> {
    let folder =
        tempfile::tempdir().map_err(|error| Failure::new(ErrorCode::Scratch, "cannot make a scratch folder").because(&error))?;
    let policy = folder.path().join("trust.yaml");
    let assay_envelope::Trust::Policy(trust) = &opened.trust else {
        return Err(Failure::new(
            ErrorCode::NoTrust,
            "nothing is computed again from evidence whose signers are not established",
        )
        .hint("name whom you trust with `--trust`"));
    };
    std::fs::write(&policy, trust.to_yaml())
        .map_err(|error| Failure::new(ErrorCode::Scratch, "cannot write a scratch file").because(&error))?;
    let binary = binaries()?.join(format!("assay-{stage}"));
    let output = folder.path().join("store");
    let mut command = std::process::Command::new(&binary);
    command.args(["--store", store, "--run", opened.chain.run_id.as_str()]).arg("--trust").arg(&policy);
    command.arg("--recompute").arg(&output).args(["--parameters", parameters]);
    for input in inputs {
        command.arg("--input").arg(format!("{},{}", input.manifest, input.bundle));
    }
    let ran = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::new(ErrorCode::Binaries, format!("cannot run `{}`", binary.display())).because(&error))?;
    let events: Vec<Event> =
        ran.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let manifest = events.iter().find_map(|event| match event {
        Event::Recomputed { manifest } => Some(Ok(*manifest)),
        Event::Failed(failure) => Some(Err(failure.clone())),
        _ => None,
    });
    let manifest = manifest.unwrap_or_else(|| {
        Err(Failure::new(ErrorCode::StageFailed, format!("{stage} ended without a result"))
            .hint(String::from_utf8_lossy(&ran.stderr).into_owned()))
    })?;
    let store = Store::open_existing(&output.display().to_string())?;
    Ok(RecomputedResult { body: read_result(&store, stage, manifest)?, store, _folder: folder })
}

fn read_result<B: Body + Clone>(store: &Store, stage: &str, manifest: Digest) -> Result<B, Failure> {
    let bytes = store.get(&manifest, MAX_MANIFEST_BYTES)?;
    let document = Document::parse(&bytes).map_err(|error| Failure::from_error(ErrorCode::Internal, &error))?;
    let result = B::from_document(&document)
        .ok_or_else(|| Failure::new(ErrorCode::StageFailed, format!("{stage} gave a manifest of another kind")))?;
    Ok(result.body.clone())
}
