//! Names of files, and the fields that tie a file to its run.

use assay_manifest::Digest;
use serde_json::{Map, Value};

use crate::run::{ExportedLoad, ExportedRun, ExportedTrial};

/// Returns the name of a load: the point, after the case if the run has several.
pub(crate) fn load_name(run: &ExportedRun, load: &ExportedLoad) -> String {
    let has_one_case = run.loads.iter().all(|other| other.case_id == load.case_id);
    if has_one_case { load.point_id.clone() } else { format!("{}-{}", load.case_id, load.point_id) }
}

/// Returns the name of a trial's file without its extension: `LOAD-trial-N`, from 1.
pub(crate) fn trial_name(run: &ExportedRun, load: &ExportedLoad, trial: &ExportedTrial) -> String {
    format!("{}-trial-{}", load_name(run, load), number(trial))
}

/// Returns the number of a trial for people, from 1.
pub(crate) fn number(trial: &ExportedTrial) -> u32 {
    trial.index.saturating_add(1)
}

/// Returns the fields that tie a file of one trial to its run: name and value.
pub(crate) fn origin(run: &ExportedRun, load: &ExportedLoad, trial: &ExportedTrial) -> [(&'static str, String); 7] {
    [
        ("assay_run_id", run.run_id.clone()),
        ("assay_result_digest", run.result.to_string()),
        ("assay_version", run.version.clone()),
        ("assay_case", load.case_id.clone()),
        ("assay_point", load.point_id.clone()),
        ("assay_trial", number(trial).to_string()),
        ("assay_workload_spec_digest", load.workload_spec_digest.to_string()),
    ]
}

/// Returns these fields as members of an object.
pub(crate) fn origin_members(run: &ExportedRun, load: &ExportedLoad, trial: &ExportedTrial) -> Map<String, Value> {
    origin(run, load, trial).into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect()
}

/// Returns the fields that tie a file of several trials to its run, as members of an object.
pub(crate) fn run_members(run: &ExportedRun) -> Map<String, Value> {
    let members = [
        ("assay_run_id", run.run_id.clone()),
        ("assay_result_digest", run.result.to_string()),
        ("assay_version", run.version.clone()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect()
}

/// Returns the program that made a file, as formats name the version of their tool.
pub(crate) fn writer(run: &ExportedRun) -> String {
    format!("assay-{}", run.version)
}

/// Returns 32 hexadecimal digits that follow from these texts.
pub(crate) fn hex_id(parts: &[&str]) -> String {
    Digest::compute(parts.join("\n").as_bytes()).hex().chars().take(32).collect()
}

/// Returns a UUID (version 8, of a name) that follows from these texts.
pub(crate) fn uuid(parts: &[&str]) -> String {
    let hex = hex_id(parts);
    let digits = u128::from_str_radix(&hex, 16).unwrap_or_default();
    let versioned = (digits & !(0xf << 76) & !(0b11 << 62)) | (0x8 << 76) | (0b10 << 62);
    dashed(versioned)
}

/// Returns 128 bits in the form of a UUID.
pub(crate) fn dashed(bits: u128) -> String {
    let [a, b, c, d, e] =
        [(96, 32), (80, 16), (64, 16), (48, 16), (0, 48)].map(|(shift, width)| (bits >> shift) & ((1 << width) - 1));
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}
