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

/// Returns the fields that tie a file of several trials to its run: name and value.
fn run_origin(run: &ExportedRun) -> [(&'static str, String); 3] {
    [
        ("assay_run_id", run.run_id.clone()),
        ("assay_result_digest", run.result.to_string()),
        ("assay_version", run.version.clone()),
    ]
}

/// Returns the fields that tie a file of one trial to its run: name and value.
pub(crate) fn origin(run: &ExportedRun, load: &ExportedLoad, trial: &ExportedTrial) -> [(&'static str, String); 7] {
    let [id, result, version] = run_origin(run);
    [
        id,
        result,
        version,
        ("assay_case", load.case_id.clone()),
        ("assay_point", load.point_id.clone()),
        ("assay_trial", number(trial).to_string()),
        ("assay_workload_spec_digest", load.workload_spec_digest.to_string()),
    ]
}

/// Returns the fields of one trial as members of an object.
pub(crate) fn origin_members(run: &ExportedRun, load: &ExportedLoad, trial: &ExportedTrial) -> Map<String, Value> {
    members(origin(run, load, trial))
}

/// Returns the fields of several trials as members of an object.
pub(crate) fn run_members(run: &ExportedRun) -> Map<String, Value> {
    members(run_origin(run))
}

fn members(fields: impl IntoIterator<Item = (&'static str, String)>) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect()
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
    // The digits of each group, and the bits behind it.
    let groups = [(8, 96), (4, 80), (4, 64), (4, 48), (12, 0)];
    let group = |(digits, behind): (usize, u32)| format!("{:0digits$x}", (bits >> behind) & ((1 << (4 * digits)) - 1));
    groups.map(group).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_states_its_version_and_follows_from_its_texts() {
        assert_eq!(dashed(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210), "01234567-89ab-cdef-fedc-ba9876543210");
        let (one, other) = (uuid(&["run", "trial"]), uuid(&["run", "other"]));
        assert_eq!((one.len(), one.get(14..15), one == uuid(&["run", "trial"]), one == other), (36, Some("8"), true, false));
        assert!(one.get(19..20).is_some_and(|variant| ["8", "9", "a", "b"].contains(&variant)), "{one}");
    }
}
