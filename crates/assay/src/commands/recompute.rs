//! Running reduce again from the raw evidence, to compare its result with the signed one.

use std::process::Stdio;

use assay_manifest::{
    Body as _, CuratedFile, Digest, Document, InputRef, MAX_MANIFEST_BYTES, MetricSummary, PointSummary, Summary,
};
use assay_stage::{Event, Exit, Failure};
use assay_store::Store;
use assay_verify::LevelReport;

use crate::commands::opened::Opened;
use crate::commands::run::binaries;

/// How far two versions of reduce may differ in a statistic, relative to it: the last digits of a double, and nothing that a reader
/// would see.
const TOLERANCE: f64 = 1e-9;

/// Level 4: reduce gives the same result again. The same binary must give the same bytes; another one the same numbers, within a
/// stated tolerance.
pub(crate) fn recompute(opened: &Opened) -> Result<LevelReport, Failure> {
    let signed = opened.chain.all::<Summary>().next();
    let Some((_, signed)) = signed else {
        return Ok(LevelReport { checked: 0, bytes: 0, absent: vec!["the run has no summary".to_owned()] });
    };
    let Some(store) = &opened.store else {
        return Ok(LevelReport { checked: 0, bytes: 0, absent: vec!["the raw evidence: it is in the run's store".to_owned()] });
    };
    let again = reduce_again(opened, store, &signed.header.inputs)?.summary;
    compare(&signed.body, &again)?;
    Ok(LevelReport {
        checked: 1 + again.files.len() as u64,
        bytes: again.files.iter().map(|file| file.artifact.size.0).sum(),
        absent: Vec::new(),
    })
}

/// What reduce gives now, in a store that goes away with it.
pub(crate) struct Again {
    pub(crate) summary: Summary,
    pub(crate) store: Store,
    _folder: tempfile::TempDir,
}

/// Runs the reduce binary on the inputs of a signed Summary, unsigned, into a store of its own.
pub(crate) fn reduce_again(opened: &Opened, store: &str, inputs: &[InputRef]) -> Result<Again, Failure> {
    let folder =
        tempfile::tempdir().map_err(|error| Failure::environment("scratch", "cannot make a scratch folder").because(&error))?;
    let policy = folder.path().join("trust.yaml");
    let assay_envelope::Trust::Policy(trust) = &opened.trust else {
        return Err(Failure::new(
            Exit::Unestablished,
            "no_trust",
            "nothing is computed again from evidence whose signers are not established",
        )
        .hint("name whom you trust with `--trust`"));
    };
    std::fs::write(&policy, trust.to_yaml())
        .map_err(|error| Failure::environment("scratch", "cannot write a scratch file").because(&error))?;
    let binary = binaries()?.join("assay-reduce");
    let output = folder.path().join("store");
    let mut command = std::process::Command::new(&binary);
    command.args(["--store", store, "--run", opened.chain.run_id.as_str()]).arg("--trust").arg(&policy);
    command.arg("--recompute").arg(&output);
    for input in inputs {
        command.arg("--input").arg(format!("{},{}", input.manifest, input.bundle));
    }
    let ran = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::environment("binary_missing", format!("cannot run `{}`", binary.display())).because(&error))?;
    let events: Vec<Event> =
        ran.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let manifest = events.iter().find_map(|event| match event {
        Event::Recomputed { manifest } => Some(Ok(*manifest)),
        Event::Failed(failure) => Some(Err(failure.clone())),
        _ => None,
    });
    let manifest = manifest.unwrap_or_else(|| {
        Err(Failure::unexpected("recompute", "reduce ended without a result")
            .hint(String::from_utf8_lossy(&ran.stderr).into_owned()))
    })?;
    let store = Store::open_existing(&output.display().to_string())?;
    Ok(Again { summary: read_result(&store, manifest)?, store, _folder: folder })
}

fn read_result(store: &Store, manifest: Digest) -> Result<Summary, Failure> {
    let bytes = store.get(&manifest, MAX_MANIFEST_BYTES)?;
    let document = Document::parse(&bytes).map_err(|error| Failure::of(Exit::Unexpected, "manifest", &error))?;
    let summary =
        Summary::of(&document).ok_or_else(|| Failure::unexpected("recompute", "reduce gave something else than a summary"))?;
    Ok(summary.body.clone())
}

fn compare(signed: &Summary, again: &Summary) -> Result<(), Failure> {
    let same_binary = signed.reduce_binary == again.reduce_binary;
    let differs = |what: String| Err(Failure::verification("recompute_differs", format!("reduce gives another {what} now")));
    if same_binary {
        return match first_difference(&signed.files, &again.files) {
            Some(table) => differs(format!("file for `{table}`")),
            None if signed == again => Ok(()),
            None => differs("summary".to_owned()),
        };
    }
    crate::output::talk(format!(
        "this reduce binary ({}) is not the one of the run ({}): compared within a relative tolerance of {TOLERANCE:e}",
        again.reduce_binary.short(),
        signed.reduce_binary.short()
    ));
    match signed.points.iter().zip(&again.points).find(|(before, now)| !agree(before, now)) {
        Some((point, _)) => differs(format!("statistic for {} at `{}`", point.case_id, point.point_id)),
        None if signed.points.len() != again.points.len() => differs("number of points".to_owned()),
        None => Ok(()),
    }
}

fn first_difference<'a>(signed: &'a [CuratedFile], again: &[CuratedFile]) -> Option<&'a str> {
    signed.iter().find(|file| !again.contains(file)).map(|file| file.table.as_str())
}

fn agree(before: &PointSummary, now: &PointSummary) -> bool {
    before.case_id == now.case_id
        && before.point_id == now.point_id
        && before.metrics.len() == now.metrics.len()
        && before.metrics.iter().zip(&now.metrics).all(|(before, now)| metrics_agree(before, now))
}

fn metrics_agree(before: &MetricSummary, now: &MetricSummary) -> bool {
    before.metric == now.metric
        && before.n == now.n
        && close(before.median, now.median)
        && close(before.mean, now.mean)
        && match (&before.interval, &now.interval) {
            (Some(before), Some(now)) => close(before.low, now.low) && close(before.high, now.high),
            (None, None) => true,
            _ => false,
        }
}

fn close(before: f64, now: f64) -> bool {
    (before - now).abs() <= TOLERANCE * before.abs().max(now.abs())
}
