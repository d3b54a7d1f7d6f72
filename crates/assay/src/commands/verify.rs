//! `assay verify`: verifies the whole chain, and reports which of the four levels it reached.

use std::path::{Path, PathBuf};

use assay_manifest::{Digest, EndState, Role, RunEnd, RunId};
use assay_report::shell_word;
use assay_runner::{default_store, is_run_locked};
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Exit, Failure, file_digest, first_names};
use assay_store::Store;
use assay_verify::{
    Head, Level, LevelReport, MissingKind, RecomputeOutcome, VerifiedTombstone, fetched_from, group_missing, verify_evidence,
    verify_removed_rows, verify_rows, verify_snapshot,
};
use serde_json::json;

use crate::commands::calibrate;
use crate::commands::documents::{self, Located};
use crate::commands::foreign_evidence;
use crate::commands::foreign_verdict;
use crate::commands::recompute::{Level4, recompute};
use crate::commands::removed::resume_hint;
use crate::commands::run::binaries;
use crate::commands::search_result;
use crate::commands::store_options::StoreOptions;
use crate::output;

/// Verify a run, given by its name or by its published folder.
#[derive(clap::Args)]
pub(crate) struct Verify {
    /// The run's name or published folder, or the digest of a calibration, of a search result, of foreign evidence or of a
    /// verdict over foreign evidence
    #[arg(value_name = "RUN|PATH|sha256:HEX")]
    run: String,
    #[command(flatten)]
    place: StoreOptions,
    /// Also run reduce again from the raw evidence and compare (level 4); fails if bytes that it needs are missing without a signed removal
    #[arg(long)]
    recompute: bool,
    /// Of a folder: fail if it contains a file that is not of the run. Of a run in a store: fail if evidence was removed or is missing
    #[arg(long)]
    strict: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// The result of each level, in order.
struct LevelResults {
    levels: Vec<(Level, LevelReport)>,
    reached: Level,
    /// The outcome of the comparison with the recomputed result, if there was one.
    recomputed: Option<RecomputeOutcome>,
    /// The number of curated files that were found in the warehouse at the pinned versions; `None` if there is no store to check.
    in_warehouse: Option<u64>,
    /// The store in whose tables the run is, if it was copied from there.
    fetched_from: Option<String>,
    /// The level that failed or could not be checked, with the reason.
    failed: Option<(Level, Failure)>,
}

impl Verify {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if calibrate::is_digest(&self.run) {
            let place = self.place.runs();
            return match documents::locate(&place, &self.run)? {
                Some(Located::SearchResult(located)) => search_result::verify(&place, located, self.json),
                Some(Located::ForeignEvidence(located)) => foreign_evidence::verify(&place, located, self.strict, self.json),
                Some(Located::ForeignVerdict(reference)) => foreign_verdict::verify(&place, reference, self.strict, self.json),
                None => calibrate::verify(&place, &self.run, self.strict, self.json),
            };
        }
        let opened = self.place.open(&self.run).inspect_err(|failure| self.show_no_chain(failure))?;
        if !opened.chain.is_complete {
            self.show_chain(&opened);
            let failure = unfinished_failure(&opened);
            self.show_unfinished(&failure);
            return Err(failure);
        }
        let found = self.levels(&opened);
        if self.json {
            print_json(&opened, &found)?;
        } else {
            self.show(&opened, &found);
        }
        let failure = found.failed.as_ref().map(|(_, failure)| failure);
        if let Some(failure) = failure.filter(|failure| failure.code != ErrorCode::NotRecomputed) {
            return Err(failure.clone());
        }
        if self.strict {
            check_strangers(&opened.strangers)?;
            check_removed(&opened, &found)?;
            check_absent(&opened, &found)?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.clone()))?;
        Ok(if opened.chain.is_established() { Exit::Done } else { Exit::Unestablished })
    }

    fn levels(&self, opened: &VerifiedRun) -> LevelResults {
        let mut found = LevelResults {
            levels: Vec::new(),
            reached: Level::Chain,
            recomputed: None,
            in_warehouse: None,
            fetched_from: None,
            failed: None,
        };
        let (blobs, chain) = (opened.blobs.as_ref(), &opened.chain);
        // The three checks are independent. A failure of the warehouse is reported first.
        let (warehouse, rows, raw) = std::thread::scope(|scope| {
            let rows = assay_verify::start_thread(scope, || check_rows(opened));
            let raw = assay_verify::start_thread(scope, || verify_evidence(blobs, chain, &opened.removals));
            (check_warehouse(opened), assay_verify::join_thread(rows), assay_verify::join_thread(raw))
        });
        let (rows, raw) = (rows.map_err(Failure::from), raw.map_err(Failure::from));
        let rows = warehouse.and_then(|warehouse| {
            (found.in_warehouse, found.fetched_from) = warehouse;
            rows
        });
        let is_removed = rows.as_ref().is_ok_and(|rows| !rows.removed.is_empty());
        let is_rows = found.add(Level::Rows, rows, None);
        // Where results were removed, so was the raw evidence, and both are listed.
        let is_raw = (is_rows || is_removed) && found.add(Level::Raw, raw, None);
        if is_raw && self.recompute {
            match recompute(opened) {
                Ok(Level4 { report, recomputed }) => found.add(Level::Recomputed, Ok(report), recomputed),
                Err(failure) => found.add(Level::Recomputed, Err(failure), None),
            };
        }
        if self.recompute && found.failed.is_none() {
            found.failed = not_recomputed(opened, &found).map(|failure| (Level::Recomputed, failure));
        }
        found
    }

    /// Prints that even the first level failed.
    fn show_no_chain(&self, failure: &Failure) {
        if failure.exit != Exit::Verification {
            return;
        }
        if self.json {
            print_no_chain(failure);
        } else {
            output::line(format!("no level of 4 reached; {}", describe_failure(Level::Chain, failure)));
        }
    }

    /// Prints that a run without a result reaches no level, although all of it may be valid.
    fn show_unfinished(&self, failure: &Failure) {
        if self.json {
            print_no_chain(failure);
        } else {
            output::line("no level of 4 reached; the run has no result");
        }
    }

    fn show_chain(&self, opened: &VerifiedRun) {
        if self.json {
            return;
        }
        output::line(format!("run {}", opened.chain.run_id));
        output::line(format!("trust: {}", opened.trusted_by));
        for verified in &opened.chain.documents {
            let signer = verified.signer();
            let time = describe_time(verified);
            output::line(format!(
                "  ok  {:<22} {}  signed by {}{time}",
                assay_stage::chain_name(verified.value()),
                verified.manifest_digest().short(),
                signer.name,
            ));
        }
        if let (Some(commit), Some(source)) = (&opened.chain.commit, opened.chain.one::<assay_manifest::Source>()) {
            let id = source.body.commit.as_deref().unwrap_or_default();
            let subject = commit.message.lines().next().unwrap_or_default();
            let files = match &source.body.import {
                Some(import) => format!("`{}`", import.file),
                None => format!("the {} files that the source names", source.body.files.len()),
            };
            output::line(format!("  ok  commit {} holds {files}: {subject}", assay_report::short_commit(id)));
        }
    }

    fn show(&self, opened: &VerifiedRun, found: &LevelResults) {
        self.show_chain(opened);
        for (level, report) in &found.levels {
            output::line(level_line(*level, report, place_name(opened)));
            if *level == Level::Rows && report.absent.is_empty() && report.removed.is_empty() {
                show_original(opened, report);
            }
            for group in group_missing(&opened.chain.documents, &report.removed) {
                output::line(removed_line(&group));
            }
            for line in &report.not_compared {
                output::line(format!("  --  {}", line.escape_debug()));
            }
            match (level, found.in_warehouse, &opened.store) {
                (Level::Rows, Some(files), _) => {
                    output::line(format!("  ok  {files} curated files in the warehouse at the pinned versions"));
                }
                (Level::Rows, None, _) => output::line(match &found.fetched_from {
                    Some(store) => {
                        format!(
                            "  --  warehouse not checked: the run is marked as fetched from {store}, whose tables have its rows"
                        )
                    }
                    None => "  --  warehouse not checked: a published folder has none".to_owned(),
                }),
                _ => {}
            }
        }
        show_removals(opened, found);
        if let Some(name) = opened.folder.as_deref().and_then(|folder| other_run_name(folder, &opened.chain.run_id)) {
            output::line(format!(
                "  --  the folder has the name of another run, `{name}`: it holds run `{}`",
                opened.chain.run_id
            ));
        }
        for stranger in &opened.strangers {
            let stranger = stranger.escape_debug();
            output::line(format!("  !!  `{stranger}` lies in the folder and is not of the run: nothing vouches for it"));
        }
        if let Some(folder) = exported_folder(opened) {
            let (strict, folder) = (if self.strict { "--strict " } else { "" }, folder.display().to_string());
            let command = format!("assay verify {strict}{}", shell_word(&folder));
            output::line(format!("  --  the exported folder is not checked, only the store is: `{command}` checks it"));
        }
        if opened.folder.is_some() {
            output::line("  --  a published folder holds no raw bytes: level 2 is the highest level that it reaches");
        }
        let rest = match (&found.failed, &found.recomputed) {
            (Some((level, failure)), _) => format!("; {}", describe_failure(*level, failure)),
            (None, Some(RecomputeOutcome::Partial { .. })) => "; level 4 partial".to_owned(),
            (None, _) => String::new(),
        };
        output::line(format!("level {} of 4 reached{rest}", found.reached));
        if !opened.chain.is_established() {
            output::line("internally consistent; signer not established");
            output::diagnostic(output::TRUST_HINT);
        }
    }
}

impl LevelResults {
    /// Adds the result of one more level. Returns false if the check failed, if something that it needs is absent, or if the level
    /// was reached in part only.
    fn add(&mut self, level: Level, report: Result<LevelReport, Failure>, recomputed: Option<RecomputeOutcome>) -> bool {
        let report = match report {
            Ok(report) => report,
            Err(failure) => {
                self.failed = Some((level, failure));
                return false;
            }
        };
        let is_here = report.absent.is_empty() && report.removed.is_empty();
        let is_whole = is_here && !matches!(recomputed, Some(RecomputeOutcome::Partial { .. }));
        let is_next = self.levels.iter().all(|(_, below)| below.removed.is_empty());
        if is_whole && is_next {
            self.reached = level;
        }
        self.levels.push((level, report));
        self.recomputed = recomputed;
        is_whole && is_next
    }
}

/// Prints the failure of the first level. If printing fails, the failure still has to be reported.
fn print_no_chain(failure: &Failure) {
    let _ = output::json(&json!({"level": 0, "failed": failed_as_json(Level::Chain, failure)}));
}

/// Returns the end of the last line if a level fails.
fn describe_failure(level: Level, failure: &Failure) -> String {
    match failure.exit {
        Exit::Verification => format!("refused at level {level}"),
        _ => format!("level {level} could not be checked"),
    }
}

fn failed_as_json(level: Level, failure: &Failure) -> serde_json::Value {
    json!({"level": level.number(), "refused": failure.exit == Exit::Verification, "error": failure})
}

fn check_strangers(strangers: &[String]) -> Result<(), Failure> {
    if strangers.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = strangers.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    let message = format!("{} in the folder: not of the run, and nothing vouches for it", first_names(&names, 1));
    Err(Failure::new(ErrorCode::Strangers, message)
        .hint("a published folder holds the files that its manifests name, and no others"))
}

/// Checks level 2. Where a tombstone explains missing outputs, the others are hashed, and nothing can be computed again.
fn check_rows(opened: &VerifiedRun) -> Result<LevelReport, assay_verify::Error> {
    let (blobs, chain) = (opened.blobs.as_ref(), &opened.chain);
    if !opened.removals.tombstones.is_empty()
        && chain.is_complete
        && let Some(report) = verify_removed_rows(blobs, chain, &opened.removals)?
    {
        return Ok(report);
    }
    verify_rows(blobs, chain, &publish_binary)
}

/// Prints the original of imported definitions, and whether an import of it gives them.
fn show_original(opened: &VerifiedRun, report: &LevelReport) {
    let Some(source) = opened.chain.one::<assay_manifest::Source>().map(|source| &source.body) else { return };
    let Some((import, original)) = source.original() else { return };
    let named = format!("`{}` ({}), {}", import.file, import.format, original.artifact.digest);
    if report.imported_again {
        output::line(format!("  ok  definitions <- {named}: an import of it gives the same"));
    } else {
        output::line(format!("  --  definitions <- {named}: an import of it gives others now"));
    }
}

/// Returns the line for missing artifacts that a tombstone explains.
fn removed_line(group: &MissingKind) -> String {
    let first = group.first.escape_debug();
    let more = if group.count > 1 { format!(" and {} more", group.count - 1) } else { String::new() };
    format!("  removed {}: `{first}`{more}, {}", group.kind, assay_report::bytes(group.bytes))
}

/// Prints the tombstones of what is missing, and those that explain nothing.
fn show_removals(opened: &VerifiedRun, found: &LevelResults) {
    let missing = || found.levels.iter().flat_map(|(_, report)| &report.removed);
    for tombstone in &opened.removals.tombstones {
        if missing().any(|artifact| tombstone.list.iter().any(|listed| listed.digest == artifact.digest)) {
            output::line(format!("  {}", tombstone.describe()));
        }
    }
    for (path, error) in &opened.removals.refused {
        output::line(format!("  !!  `{path}` is no tombstone of this run and explains nothing: {error}"));
    }
}

/// Refuses a run whose evidence was removed.
fn check_removed(opened: &VerifiedRun, found: &LevelResults) -> Result<(), Failure> {
    let removed = found.levels.iter().flat_map(|(_, report)| &report.removed);
    let removed = assay_report::counted(removed.count() as u64, "artifact");
    if found.levels.iter().all(|(_, report)| report.removed.is_empty()) {
        return Ok(());
    }
    let message = format!("{removed} of run `{}` were removed: level {} remains", opened.chain.run_id, found.reached);
    Err(Failure::new(ErrorCode::EvidenceRemoved, message).hint("without `--strict`, a removal that is signed is no failure"))
}

/// Refuses a run in a store that lacks artifacts which no tombstone explains. A published folder never holds raw bytes.
fn check_absent(opened: &VerifiedRun, found: &LevelResults) -> Result<(), Failure> {
    let absent: usize = found.levels.iter().map(|(_, report)| report.absent.len()).sum();
    if opened.store.is_none() || absent == 0 {
        return Ok(());
    }
    let absent = assay_report::counted(absent as u64, "artifact");
    let message = format!("{absent} of run `{}` are missing, and no tombstone explains it", opened.chain.run_id);
    Err(Failure::new(ErrorCode::ArtifactAbsent, message).hint("without `--strict`, the run is verified without its raw bytes"))
}

/// Returns the failure to compute the result again because of missing bytes. If a tombstone explains all that is missing, the run was found as
/// its signer left it.
fn not_recomputed(opened: &VerifiedRun, found: &LevelResults) -> Option<Failure> {
    let absent: usize = found.levels.iter().map(|(_, report)| report.absent.len()).sum();
    if absent == 0 {
        return None;
    }
    let absent = assay_report::counted(absent as u64, "artifact");
    let place = if opened.store.is_none() { " from the published folder, which holds no raw bytes" } else { "" };
    let message =
        format!("{absent} of run `{}` are missing{place}, so that its result was not computed again", opened.chain.run_id);
    let hint = "verify the run in a store that has its raw bytes, or leave out `--recompute`";
    Some(Failure::new(ErrorCode::NotRecomputed, message).hint(hint))
}

/// Describes when a manifest was signed, on whose word, and which contents of its bundle were not checked.
fn describe_time(verified: &assay_envelope::Verified<assay_manifest::Document>) -> String {
    let time = match (verified.timestamp(), verified.asserted_time()) {
        (Some(timestamp), _) => format!(", {} (timestamp by {})", timestamp.time.to_seconds(), timestamp.authority),
        (None, Some(time)) => format!(", {} (asserted)", time.to_seconds()),
        (None, None) => String::new(),
    };
    let unchecked = verified.unchecked().iter().map(|what| format!("; {what} present, not checked"));
    std::iter::once(time).chain(unchecked).collect()
}

fn check_warehouse(opened: &VerifiedRun) -> Result<(Option<u64>, Option<String>), Failure> {
    let Some(uri) = &opened.store else { return Ok((None, None)) };
    let store = Store::open_existing(uri)?;
    Ok((verify_snapshot(&store, &opened.chain, &opened.trust)?, fetched_from(&store, &opened.chain.run_id)?))
}

/// Returns the digest of this installation's publish program, which made the reports of the runs that it published.
pub(crate) fn publish_binary() -> Option<Digest> {
    file_digest(&binaries().ok()?.join("assay-publish")).ok()
}

fn print_json(opened: &VerifiedRun, found: &LevelResults) -> Result<(), Failure> {
    let manifest = |verified: &assay_envelope::Verified<assay_manifest::Document>| {
        json!({
            "name": assay_stage::chain_name(verified.value()),
            "input": verified.input_ref(),
            "signer": verified.signer().name,
            "fingerprint": verified.signer().fingerprint,
            "established": verified.signer().established,
            "time_asserted": verified.asserted_time(),
            "timestamp": verified.timestamp().map(|timestamp| json!({"time": timestamp.time, "authority": timestamp.authority})),
            "unchecked": verified.unchecked(),
        })
    };
    let tombstone = |VerifiedTombstone { body, signer, established, .. }: &VerifiedTombstone| json!({"signer": signer, "established": established, "tombstone": body});
    let refused = |(path, error): &(String, assay_verify::Error)| json!({"path": path, "reason": error.to_string()});
    output::json(&json!({
        "run_id": opened.chain.run_id,
        "trust": opened.trusted_by,
        "established": opened.chain.is_established(),
        "level": found.reached.number(),
        "strangers": opened.strangers,
        "tombstones": opened.removals.tombstones.iter().map(tombstone).collect::<Vec<_>>(),
        "tombstones_refused": opened.removals.refused.iter().map(refused).collect::<Vec<_>>(),
        "failed": found.failed.as_ref().map(|(level, failure)| failed_as_json(*level, failure)),
        "recomputed": found.recomputed,
        "in_warehouse": found.in_warehouse,
        "fetched_from": found.fetched_from,
        "unchecked_folder": exported_folder(opened),
        "manifests": opened.chain.documents.iter().map(manifest).collect::<Vec<_>>(),
        "levels": found.levels.iter().map(|(level, report)| json!({"level": level.number(), "report": report})).collect::<Vec<_>>(),
    }))
}

/// Returns the place whose files were checked.
fn place_name(opened: &VerifiedRun) -> &'static str {
    if opened.store.is_some() { "store" } else { "folder" }
}

/// Returns the folder to which a run of a store was exported, if it is there. Its files are copies, and not those that are checked.
fn exported_folder(opened: &VerifiedRun) -> Option<PathBuf> {
    let store = Store::open_existing(opened.store.as_deref()?).ok()?;
    // A store that is no folder has the exported folders of its runs where the default store is.
    let home = store.local_root().map(Path::to_owned).or_else(|| default_store().ok().map(PathBuf::from))?;
    let folder = home.join("published").join(opened.chain.run_id.as_str());
    folder.is_dir().then_some(folder)
}

fn level_line(level: Level, report: &LevelReport, place: &str) -> String {
    let is_whole = report.not_compared.is_empty();
    let what = match level {
        Level::Chain => "manifests".to_owned(),
        Level::Rows if is_whole => {
            format!("published files in the {place}: rows, numbers and reports follow from the summary")
        }
        Level::Rows => format!("published files in the {place}: rows and numbers follow from the summary"),
        Level::Raw => "raw artifacts".to_owned(),
        Level::Recomputed if is_whole => "manifests and curated files computed again: every row and field is the same".to_owned(),
        Level::Recomputed => "manifests and curated files computed again: what both results have is the same".to_owned(),
    };
    if report.absent.is_empty() && !report.removed.is_empty() {
        return format!("  --  {} {} here; {} removed", report.checked, level_noun(level), report.removed.len());
    }
    match report.absent.as_slice() {
        [] => {
            let alone = report.by_collection_alone;
            let alone = if alone > 0 { format!("; {alone} of them nobody names but the collection") } else { String::new() };
            format!("  ok  {} {what}, {}{alone}", report.checked, assay_report::bytes(report.bytes))
        }
        [only] => format!("  --  {what}: `{only}` is not here"),
        [first, rest @ ..] => format!("  --  {what}: `{first}` and {} more are not here", rest.len()),
    }
}

/// Returns the things that a level checks, whether or not all of them are there.
fn level_noun(level: Level) -> &'static str {
    match level {
        Level::Chain => "manifests",
        Level::Rows => "published files",
        Level::Raw => "raw artifacts",
        Level::Recomputed => "manifests and curated files",
    }
}

/// Returns the failure of a run without a Publication, which does not verify, with the reason why it has none.
fn unfinished_failure(opened: &VerifiedRun) -> Failure {
    let ends: Vec<_> = opened.chain.all::<RunEnd>().collect();
    let last = ends.iter().max_by_key(|(_, end)| end.body.sequence);
    let failure = match last {
        Some((_, end)) => {
            let how = if end.body.state == EndState::Cancelled { "was cancelled" } else { "failed" };
            let (stage, reason) = (end.body.stage, &end.body.reason);
            Failure::new(ErrorCode::EndedEarly, format!("the run {how} in {stage}: {}", reason.detail))
        }
        None if is_driven(opened) => {
            let message = format!("the run is in progress, and {}", progress(&opened.head));
            return Failure::new(ErrorCode::RunIncomplete, message)
                .hint("what it has is consistent; another `assay` is driving it now, so verify it again when it has ended");
        }
        None => {
            let message = format!("the run is incomplete: {}", progress(&opened.head));
            Failure::new(ErrorCode::RunIncomplete, message)
        }
    };
    failure.hint(format!("what it has is consistent; {}", resume_hint(opened)))
}

/// States the last stage that has finished, as `assay runs` does.
fn progress(head: &Head) -> String {
    match head.references.first().map(|reference| reference.kind.signer()) {
        None | Some(Role::Source) => "no stage of it has finished".to_owned(),
        Some(stage) => format!("its last finished stage is {stage}"),
    }
}

/// Returns the name of a published folder that lies among others and has the name of another run than it holds: published folders are named
/// like their runs.
fn other_run_name(folder: &str, run_id: &RunId) -> Option<String> {
    let folder = Path::new(folder).canonicalize().ok()?;
    let is_among_others = folder.parent().is_some_and(|parent| parent.ends_with("published"));
    let name = folder.file_name()?.to_str()?.parse::<RunId>().ok()?;
    (is_among_others && name != *run_id).then(|| name.to_string())
}

/// Returns true if a process of this machine drives the run now. A run in a cluster has its driver there, and no lock here.
fn is_driven(opened: &VerifiedRun) -> bool {
    let store = opened.store.as_deref().and_then(|uri| Store::open_existing(uri).ok());
    store.is_some_and(|store| is_run_locked(&store, &opened.chain.run_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_folder_with_the_name_of_another_run_is_remarked() {
        let root = tempfile::tempdir().expect("a folder");
        let run_id: RunId = "b".parse().expect("a run id");
        let other_name = |path: &str| {
            let folder = root.path().join(path);
            std::fs::create_dir_all(&folder).expect("made");
            other_run_name(&folder.display().to_string(), &run_id)
        };
        assert_eq!(other_name("published/a"), Some("a".to_owned()));
        assert_eq!((other_name("published/b"), other_name("copies/a"), other_name("published/No Run")), (None, None, None));
    }
}
