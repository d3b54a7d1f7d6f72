//! `assay verify`: the whole chain, and which of the four levels it reached.

use assay_manifest::{EndState, RunEnd};
use assay_stage::{Exit, Failure};
use assay_store::Store;
use assay_verify::{Level, LevelReport, fetched_from, verify_evidence, verify_rows, verify_snapshot};
use serde_json::json;

use crate::commands::opened::{Opened, Where};
use crate::commands::recompute::recompute;
use crate::output;

/// Checks a run, given by its name or by the folder that it was published to.
#[derive(clap::Args)]
pub(crate) struct Verify {
    /// The run's name, or its published folder
    #[arg(value_name = "RUN|PATH")]
    run: String,
    #[command(flatten)]
    place: Where,
    /// Also run reduce again from the raw evidence and compare (level 4)
    #[arg(long)]
    recompute: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// What each level found, in order.
struct Found {
    levels: Vec<(Level, LevelReport)>,
    reached: Level,
    /// Curated files that were found in the warehouse at the pinned versions; none where there is no store to look into.
    in_warehouse: Option<u64>,
    /// The store in whose tables the run is, where it was copied from there.
    fetched_from: Option<String>,
}

impl Verify {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let opened = self.place.open(&self.run)?;
        if !opened.chain.is_complete {
            self.show_chain(&opened);
            return Err(unfinished(&opened));
        }
        let found = self.levels(&opened)?;
        if self.json {
            print_json(&opened, &found)?;
        } else {
            self.show(&opened, &found);
        }
        Ok(if opened.chain.is_established() { Exit::Done } else { Exit::Unestablished })
    }

    fn levels(&self, opened: &Opened) -> Result<Found, Failure> {
        let (in_warehouse, fetched_from) = warehouse(opened)?;
        let mut found = Found { levels: Vec::new(), reached: Level::Chain, in_warehouse, fetched_from };
        let last = if self.recompute { Level::Recomputed } else { Level::Raw };
        for level in [Level::Rows, Level::Raw, Level::Recomputed].into_iter().take_while(|level| *level <= last) {
            let report = check(opened, level)?;
            let is_whole = report.absent.is_empty();
            found.levels.push((level, report));
            if !is_whole {
                break;
            }
            found.reached = level;
        }
        Ok(found)
    }

    fn show_chain(&self, opened: &Opened) {
        if self.json {
            return;
        }
        output::line(format!("run {}", opened.chain.run_id));
        output::line(format!("trust: {}", opened.trusted_by));
        for verified in &opened.chain.documents {
            let signer = verified.signer();
            let time = when(verified);
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
            output::line(format!(
                "  ok  commit {} holds the {} files that were run: {subject}",
                output::short(id),
                source.body.files.len()
            ));
        }
    }

    fn show(&self, opened: &Opened, found: &Found) {
        self.show_chain(opened);
        for (level, report) in &found.levels {
            output::line(level_line(*level, report));
            match (level, found.in_warehouse, &opened.store) {
                (Level::Rows, Some(files), _) => {
                    output::line(format!("  ok  {files} curated files in the warehouse at the pinned versions"));
                }
                (Level::Rows, None, Some(_)) => output::line(match &found.fetched_from {
                    Some(store) => {
                        format!("  --  the warehouse: the run is in the tables of {store}, and was fetched from there")
                    }
                    None => "  --  the warehouse: this store has none".to_owned(),
                }),
                _ => {}
            }
        }
        for stranger in &opened.strangers {
            let stranger = stranger.escape_debug();
            output::line(format!("  !!  `{stranger}` lies in the folder and is not of the run: nothing vouches for it"));
        }
        output::line(format!("level {} of 4 reached", found.reached));
        if !opened.chain.is_established() {
            output::line("internally consistent; signer not established");
            output::talk("\nhint: name whom you trust with `--trust POLICY` or `--trust FINGERPRINT`");
        }
    }
}

/// When a manifest was signed, and on whose word; and what its bundle holds that was not checked.
fn when(verified: &assay_envelope::Verified<assay_manifest::Document>) -> String {
    let time = match (verified.timestamp(), verified.asserted_time()) {
        (Some(timestamp), _) => format!(", {} (timestamp by {})", timestamp.time.to_seconds(), timestamp.authority),
        (None, Some(time)) => format!(", {} (asserted)", time.to_seconds()),
        (None, None) => String::new(),
    };
    let unchecked = verified.unchecked().iter().map(|what| format!("; {what} present, not checked"));
    std::iter::once(time).chain(unchecked).collect()
}

fn warehouse(opened: &Opened) -> Result<(Option<u64>, Option<String>), Failure> {
    let Some(uri) = &opened.store else { return Ok((None, None)) };
    let store = Store::open_existing(uri)?;
    Ok((verify_snapshot(&store, &opened.chain)?, fetched_from(&store, &opened.chain.run_id)?))
}

fn check(opened: &Opened, level: Level) -> Result<LevelReport, Failure> {
    match level {
        // The chain was checked when the run was opened.
        Level::Chain => Ok(LevelReport { checked: opened.chain.documents.len() as u64, bytes: 0, absent: Vec::new() }),
        Level::Rows => verify_rows(opened.blobs.as_ref(), &opened.chain),
        Level::Raw => verify_evidence(opened.blobs.as_ref(), &opened.chain),
        Level::Recomputed => recompute(opened),
    }
}

fn print_json(opened: &Opened, found: &Found) -> Result<(), Failure> {
    let manifest = |verified: &assay_envelope::Verified<assay_manifest::Document>| {
        json!({
            "name": assay_stage::chain_name(verified.value()),
            "input": verified.as_input(),
            "signer": verified.signer().name,
            "fingerprint": verified.signer().fingerprint,
            "established": verified.signer().established,
            "time_asserted": verified.asserted_time(),
            "timestamp": verified.timestamp().map(|timestamp| json!({"time": timestamp.time, "authority": timestamp.authority})),
            "unchecked": verified.unchecked(),
        })
    };
    output::json(&json!({
        "run_id": opened.chain.run_id,
        "trust": opened.trusted_by,
        "established": opened.chain.is_established(),
        "level": found.reached.number(),
        "strangers": opened.strangers,
        "in_warehouse": found.in_warehouse,
        "fetched_from": found.fetched_from,
        "manifests": opened.chain.documents.iter().map(manifest).collect::<Vec<_>>(),
        "levels": found.levels.iter().map(|(level, report)| json!({"level": level.number(), "report": report})).collect::<Vec<_>>(),
    }))
}

fn level_line(level: Level, report: &LevelReport) -> String {
    let what = match level {
        Level::Chain => "manifests",
        Level::Rows => "published files",
        Level::Raw => "raw artifacts",
        Level::Recomputed => "manifests and curated files computed again",
    };
    match report.absent.as_slice() {
        [] => format!("  ok  {} {what}, {}", report.checked, assay_report::bytes(report.bytes)),
        [only] => format!("  --  {what}: `{only}` is not here"),
        [first, rest @ ..] => format!("  --  {what}: `{first}` and {} more are not here", rest.len()),
    }
}

/// A run without a Publication does not verify, and says why it has none.
fn unfinished(opened: &Opened) -> Failure {
    let ends: Vec<_> = opened.chain.all::<RunEnd>().collect();
    let last = ends.iter().max_by_key(|(_, end)| end.body.sequence);
    let have: Vec<_> = opened.head.references.iter().map(|reference| reference.kind.to_string()).collect();
    let failure = match last {
        Some((_, end)) => {
            let how = if end.body.state == EndState::Cancelled { "was cancelled" } else { "failed" };
            let (stage, reason) = (end.body.stage, &end.body.reason);
            Failure::verification("missing_stage", format!("the run {how} in {stage}: {}", reason.detail))
        }
        None => Failure::verification("missing_stage", format!("the run has not come further than its {}", have.join(", "))),
    };
    failure.hint("what it has is consistent; `assay run` with the same run id resumes it")
}
