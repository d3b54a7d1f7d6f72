//! The accounting of the Slurm job that the run is in: `sacct --json`, read once after the trials, or a file of its output.
//!
//! No failure of it fails the stage: the reason is kept in the place of the document.

use std::io::Read as _;
use std::path::Path;

use assay_host::NoOutput;
use assay_manifest::{Artifact, Plan};
use assay_stage::{Context, Failure};
use assay_telemetry::cluster::{UNKNOWN, kept_fields, sacct_file_name};
use serde_json::{Value, json};

/// The variable that Slurm sets in every job.
const JOB_ID: &str = "SLURM_JOB_ID";

/// The word in the place of a path that stands for the program.
const COMMAND: &str = "command";

/// The largest document that is kept, in bytes: a job with thousands of steps.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the accounting that each source of the plan names, and stores it.
pub(crate) fn read_accounting(ctx: &Context, plan: &Plan) -> Result<Vec<Artifact>, Failure> {
    let sources = plan.telemetry.iter().filter_map(|source| Some((&source.name, source.sacct.as_deref()?)));
    let stored = sources.map(|(name, from)| {
        let document = if from == COMMAND { run_sacct(std::env::var(JOB_ID).ok()) } else { read_file(Path::new(from)) };
        let bytes = document.unwrap_or_else(|why| json!({UNKNOWN: why}).to_string().into_bytes());
        ctx.put(sacct_file_name(name), "application/json", &bytes)
    });
    stored.collect()
}

fn run_sacct(job: Option<String>) -> Result<Vec<u8>, String> {
    let job = job.ok_or_else(|| format!("the run is in no Slurm job: `{JOB_ID}` is not set"))?;
    if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return Err(format!("`{JOB_ID}` is no id of a job"));
    }
    let printed = assay_host::sacct(&job).map_err(|NoOutput { why, .. }| format!("cannot ask `sacct`: {why}"))?;
    check(printed.into_bytes())
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let unread = |error: std::io::Error| format!("cannot read `{}`: {error}", path.display());
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unread)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unread)?;
    check(bytes)
}

/// Returns the fields of a document that are read: others hold command lines, names of users and folders. Refuses one that is too large or
/// no accounting.
fn check(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("the accounting is larger than {MAX_BYTES} bytes"));
    }
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(document) if document["jobs"].is_array() => Ok(kept_fields(&document).to_string().into_bytes()),
        Ok(_) => Err("the accounting has no `jobs`: it is no output of `sacct --json`".to_owned()),
        Err(error) => Err(format!("the accounting is no JSON: {error}; `sacct --json` needs Slurm 21.08 or later")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_accounting_is_a_reason() {
        let refused = |bytes: &[u8]| check(bytes.to_vec()).expect_err("refused");
        insta::assert_snapshot!(refused(b"{}"), @"the accounting has no `jobs`: it is no output of `sacct --json`");
        assert!(refused(b"JobID|State").starts_with("the accounting is no JSON: "));
        let kept = check(br#"{"jobs": [{"job_id": 1, "submit_line": "sbatch --secret"}], "meta": {}}"#.to_vec());
        assert_eq!(kept, Ok(br#"{"jobs":[{"job_id":1,"steps":[]}]}"#.to_vec()));
        insta::assert_snapshot!(run_sacct(None).expect_err("no job"), @"the run is in no Slurm job: `SLURM_JOB_ID` is not set");
        insta::assert_snapshot!(run_sacct(Some("1; rm".to_owned())).expect_err("no id"), @"`SLURM_JOB_ID` is no id of a job");
        assert!(read_file(Path::new("/nonexistent")).expect_err("absent").starts_with("cannot read `/nonexistent`"));
    }
}
