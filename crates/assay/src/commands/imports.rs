//! Imports the datasets and traces of workloads as their plan will, before there is a run: `assay-plan` does it, and keeps nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assay_manifest::Name;
use assay_planning::{CHECK_IMPORT, CheckedImport, ImportReply, MAX_COUNTED_TEXT};
use assay_process::{Cancel, Command, Output, Spawner};
use assay_report::{counted, describe_rows};
use assay_spec::{PinnableFile, Problem, Workload};
use assay_stage::{ErrorCode, Failure};
use serde_json::{Value, json};

use crate::commands::run::binaries;

/// The time for all imports of one command. A tokenizer's work is bounded by the text that is counted; this bounds what a file may cost otherwise.
const TIME_LIMIT: Duration = Duration::from_mins(2);

/// Checks the files of workloads, in the time of one command.
pub(crate) struct ImportChecker {
    spawner: Spawner,
    /// The folder for replies.
    scratch: tempfile::TempDir,
    /// `assay-plan`, which imports a file and prints the reply.
    program: PathBuf,
    deadline: Instant,
}

/// The check of the dataset or trace of one workload.
pub(crate) struct ImportCheck {
    workload: Name,
    /// Its path from the root of the repository, or its address.
    file: String,
    outcome: ImportOutcome,
}

enum ImportOutcome {
    Imported(Box<CheckedImport>),
    /// The plan would refuse it: the problem is at the field that names the file.
    Refused(Problem),
    /// It was not checked, for this reason.
    NotChecked(String),
}

impl ImportChecker {
    pub(crate) fn new() -> Result<Self, Failure> {
        let system = |error: std::io::Error| Failure::new(ErrorCode::System, "cannot check datasets and traces").because(&error);
        Ok(Self {
            spawner: Spawner::start().map_err(system)?,
            scratch: tempfile::tempdir().map_err(system)?,
            program: binaries()?.join("assay-plan"),
            deadline: Instant::now() + TIME_LIMIT,
        })
    }

    /// Checks the file of a workload of the repository at `root`; `None` if the workload has neither a dataset nor a trace.
    pub(crate) fn check(&self, root: &Path, workload: &Workload) -> Result<Option<ImportCheck>, Failure> {
        let Some(dataset) = workload.dataset() else { return Ok(None) };
        let (file, outcome) = match &dataset.file {
            PinnableFile::Url { url, .. } => {
                (url.clone(), ImportOutcome::NotChecked("it is not fetched before a run is planned".to_owned()))
            }
            PinnableFile::Path { path, .. } => {
                let file = format!("{}/{path}", Workload::folder_of(&workload.name));
                (file, self.import(root, workload)?)
            }
        };
        Ok(Some(ImportCheck { workload: workload.name.clone(), file, outcome }))
    }

    fn import(&self, root: &Path, workload: &Workload) -> Result<ImportOutcome, Failure> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let over = || {
            let limit_s = TIME_LIMIT.as_secs();
            ImportOutcome::NotChecked(format!(
                "the {limit_s} s for all checks are over; the plan of a run imports it all the same, so check it alone with `assay validate FILE`"
            ))
        };
        if left.is_zero() {
            return Ok(over());
        }
        let program = &self.program;
        let reply = self.scratch.path().join("reply");
        let command = Command { stdout: Output::File(reply.clone()), grace: Duration::ZERO, ..Command::new(program) };
        let command = command.args([OsStr::new(CHECK_IMPORT), root.as_os_str(), OsStr::new(workload.name.as_str())]);
        let cancel =
            Cancel::new().map_err(|error| Failure::new(ErrorCode::Descriptors, "no file descriptor is left").because(&error))?;
        let exit = match self.spawner.spawn(command).and_then(|child| child.wait(Some(left), &cancel)) {
            Ok(exit) => exit,
            Err(error) => return Ok(ImportOutcome::NotChecked(format!("`{}` cannot be run: {error}", program.display()))),
        };
        if exit.timed_out {
            return Ok(over());
        }
        let read = std::fs::read(&reply).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(match read {
            Some(ImportReply::Imported(import)) => ImportOutcome::Imported(import),
            Some(ImportReply::Refused(failure)) => match problem(workload, failure) {
                Some(problem) => ImportOutcome::Refused(problem),
                None => ImportOutcome::NotChecked("it is no file".to_owned()),
            },
            None => ImportOutcome::NotChecked(format!("`assay-plan` ended without a reply ({})", exit.status)),
        })
    }
}

/// Returns the problem of a file that the plan would refuse, with all that the failure says.
fn problem(workload: &Workload, failure: Failure) -> Option<Problem> {
    let failure = failure.or_remedy();
    let message = failure.causes.iter().fold(failure.message, |text, cause| text + ": " + cause);
    let problem = workload.dataset_problem(message)?;
    Some(match failure.hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    })
}

impl ImportCheck {
    /// Returns the problem of a file that the plan would refuse.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match &self.outcome {
            ImportOutcome::Refused(problem) => Some(problem),
            ImportOutcome::Imported(_) | ImportOutcome::NotChecked(_) => None,
        }
    }

    /// Describes what the plan would keep of the file, and what was not checked; `None` if there is a problem instead.
    pub(crate) fn describe(&self) -> Option<String> {
        let found = match &self.outcome {
            ImportOutcome::Imported(import) => describe_import(&self.file, import),
            ImportOutcome::NotChecked(why) => format!("{} was not checked: {why}", self.file),
            ImportOutcome::Refused(_) => return None,
        };
        Some(format!("`{}`: {found}", self.workload))
    }

    /// Returns the path of the file, if it is one of the repository that was imported.
    pub(crate) fn imported_path(&self) -> Option<&str> {
        matches!(self.outcome, ImportOutcome::Imported(_)).then_some(self.file.as_str())
    }

    pub(crate) fn workload(&self) -> &Name {
        &self.workload
    }

    /// Returns the time of the last request of a trace that is replayed request by request; `None` if not all of its rows were imported.
    pub(crate) fn replayed_span(&self) -> Option<Duration> {
        let ImportOutcome::Imported(import) = &self.outcome else { return None };
        let times = import.summary.times.as_ref().filter(|times| import.parsed_only.0 == 0 && times.turns.is_none())?;
        Some(Duration::from_nanos(times.span_ns.0))
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut check = json!({"workload": self.workload, "file": self.file, "description": self.describe()});
        if let ImportOutcome::Imported(import) = &self.outcome {
            check["read"] = json!(import.summary.read.0);
            check["rows"] = json!(import.summary.rows.0);
            check["parsed_only"] = json!(import.parsed_only.0);
        }
        check
    }
}

/// Returns notes on the imported files that differ from the commit of a work tree, or are not in it.
pub(crate) fn uncommitted(root: &Path, checks: &[ImportCheck]) -> Vec<String> {
    let paths: Vec<&str> = checks.iter().filter_map(ImportCheck::imported_path).collect();
    let Ok(repository) = assay_git::Repository::discover(root) else { return Vec::new() };
    let is_root = |worktree: &Path| worktree.canonicalize().ok() == root.canonicalize().ok();
    if paths.is_empty() || !repository.worktree().is_some_and(is_root) {
        return Vec::new();
    }
    let note = |path: String| {
        format!("note: `{path}` is not committed as it is here: commit it, or runs of a commit do not have these rows")
    };
    repository.status(&paths).unwrap_or_default().into_iter().map(note).collect()
}

fn describe_import(file: &str, import: &CheckedImport) -> String {
    let CheckedImport { summary, parsed_only, missing_tokenizer } = import;
    let (least, most) = (summary.input_tokens.least, summary.input_tokens.most);
    let tokens = match missing_tokenizer {
        None if least == most => format!(", tokens {least} in"),
        None => format!(", tokens {least} to {most} in"),
        Some(tokenizer) => format!("; without `{tokenizer}`, neither their tokens nor `max_input` were checked"),
    };
    let rest = (parsed_only.0 > 0).then(|| {
        let rows = counted(parsed_only.0, "row");
        format!("; {rows} after the first {} MiB of text were parsed only", MAX_COUNTED_TEXT >> 20)
    });
    format!("{}{tokens}{}", describe_rows(file, summary), rest.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use assay_manifest::{Count, DatasetSummary, TokenRange};

    use super::*;

    #[test]
    fn what_was_not_checked_is_stated() {
        let input_tokens = TokenRange { least: 2, most: 9, ..TokenRange::default() };
        let summary =
            DatasetSummary { read: Count(3), rows: Count(2), too_long: Count(1), input_tokens, ..DatasetSummary::default() };
        let mut import = CheckedImport { summary, ..CheckedImport::default() };
        let kept = "2 prompts of p.jsonl (1 of 3 rows left out: 1 longer than `max_input`)";
        assert_eq!(describe_import("p.jsonl", &import), format!("{kept}, tokens 2 to 9 in"));
        import.parsed_only = Count(1);
        let parsed = "1 row after the first 16 MiB of text were parsed only";
        assert_eq!(describe_import("p.jsonl", &import), format!("{kept}, tokens 2 to 9 in; {parsed}"));
        import.missing_tokenizer = Some("t.json".to_owned());
        let uncounted = "; without `t.json`, neither their tokens nor `max_input` were checked";
        assert_eq!(describe_import("p.jsonl", &import), format!("{kept}{uncounted}; {parsed}"));
    }

    #[test]
    fn a_file_for_which_there_is_no_time_or_no_program_is_named() {
        let yaml = "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: asked}
spec:
  type: serving
  model: m
  precision: fp8
  protocol: openai_compatible_http
  deployment_model: unknown
  batching_policy: unknown
  stack: unknown
  load: {mode: closed, concurrency: [1], requests: 1, warmup: 0s}
  dataset: {path: rows.jsonl}
";
        let workload = Workload::parse("workloads/asked/workload.yaml", yaml.as_bytes()).expect("a workload");
        let checker = ImportChecker::new().expect("a checker");
        let checked = |checker: &ImportChecker| {
            let check = checker.check(Path::new("/nonexistent"), &workload).expect("no failure").expect("it has a dataset");
            check.describe().expect("no problem")
        };
        let program = checked(&checker);
        assert!(program.starts_with("`asked`: workloads/asked/rows.jsonl was not checked: `"), "{program}");
        assert!(program.contains("/assay-plan` cannot be run: "), "no stage is beside this test: {program}");
        let over = " was not checked: the 120 s for all checks are over; the plan of a run imports it all the same";
        let late = ImportChecker { deadline: Instant::now(), ..checker };
        assert!(checked(&late).contains(over), "{}", checked(&late));
        // A program that never ends is killed once the time is over: without that, the check would not return.
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("assay-plan");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 1000000\n").expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let hanging = ImportChecker { program, deadline: Instant::now() + Duration::from_millis(200), ..late };
        let text = checked(&hanging);
        assert!(text.contains(over) && text.contains("`assay validate FILE`"), "{text}");
    }
}
