//! `assay runs rm`: removes the evidence of runs, and leaves signed tombstones.

use assay_manifest::{Artifact, Count, Digest, RemovalScope, Role, RunId, Tombstone, canonical_json};
use assay_report::counted;
use assay_runner::{Config, LocalKeys, lock_run, sign_tombstone};
use assay_runs::{BlobSum, References, RunRemoval, VerifiedRun};
use assay_stage::{Clock, ErrorCode, Exit, Failure, key_password};
use assay_store::{Removal, Store};
use serde_json::json;

use crate::commands::run::make_missing_keys;
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The note on what no removal takes.
const REMAINS: &str = "; the runs stay listed under their names, with their manifests";

/// The longest reason, in bytes.
const MAX_REASON_BYTES: usize = 1_000;

/// Remove the evidence of runs from a store in a folder, and leave a signed tombstone that says what was removed and why. The
/// manifests of a run always stay, and so do its rows in the warehouse. Without `--yes`, nothing is removed: what would go is
/// printed.
#[derive(clap::Args)]
pub(crate) struct Remove {
    /// The runs
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<RunId>,
    /// Remove only raw evidence: numbers, rows and reports stay, and verify up to level 2
    #[arg(long)]
    evidence_only: bool,
    /// The reason, which the tombstone states
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// Remove what is printed
    #[arg(long, requires = "reason")]
    yes: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StoreOptions,
}

fn parse_reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        reason if reason.len() > MAX_REASON_BYTES => Err(format!("it has {} bytes, more than {MAX_REASON_BYTES}", reason.len())),
        reason => Ok(reason.to_owned()),
    }
}

/// A run with what its removal takes.
struct PlannedRemoval {
    run: VerifiedRun,
    removal: RunRemoval,
}

impl Remove {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let place = self.place.runs();
        let store = place.open_store()?;
        let remover = Removal::open(&store)?;
        let scope = if self.evidence_only { RemovalScope::Evidence } else { RemovalScope::Results };
        let locks = self.runs.iter().map(|run| lock_run(&store, run)).collect::<Result<Vec<_>, _>>()?;
        let runs = self.runs.iter().map(|run| place.open_or_unestablished(run)).collect::<Result<Vec<_>, _>>()?;
        let all = References::read(&store)?;
        // All of them are judged before the first is removed.
        let mut planned = Vec::new();
        for run in runs {
            let removal = RunRemoval::plan(&store, &run, scope, &all)?;
            planned.push(PlannedRemoval { run, removal });
        }
        if !self.json {
            for removal in &planned {
                self.show(removal);
            }
        }
        let mut removed = Vec::new();
        if self.yes {
            let keys = source_key()?;
            for PlannedRemoval { run, removal } in &planned {
                let sum = if removal.list.is_empty() {
                    BlobSum::default()
                } else {
                    let tombstone = self.tombstone(&store, removal)?;
                    let mut inputs = run.head.references.clone();
                    inputs.extend(&run.head.ends);
                    sign_tombstone(&store, &keys, &removal.run_id, &inputs, &tombstone)?;
                    removal.apply(&remover)?
                };
                removed.push(sum);
            }
        }
        drop(locks);
        self.finish(&planned, &removed)
    }

    fn tombstone(&self, store: &Store, removal: &RunRemoval) -> Result<Tombstone, Failure> {
        let bytes = canonical_json(&removal.list).map_err(|error| {
            Failure::new(ErrorCode::Internal, "the list of removed artifacts has no canonical form").because(&error)
        })?;
        let digest: Digest = store.put(&bytes)?;
        let list = Artifact {
            name: Tombstone::LIST.to_owned(),
            digest,
            size: Count(bytes.len() as u64),
            media_type: "application/json".to_owned(),
        };
        Ok(Tombstone {
            sequence: 0,
            scope: removal.scope,
            reason: self.reason.clone().unwrap_or_default(),
            by: account(),
            removed_at: Clock.now(),
            kinds: removal.kinds.clone(),
            list,
        })
    }

    fn show(&self, PlannedRemoval { run, removal }: &PlannedRemoval) {
        let sum = removal.sum();
        let verb = if self.yes { "removing" } else { "would remove" };
        output::line(format!("{verb} {}: {}, {}", removal.run_id, counted(sum.count, "blob"), assay_report::bytes(sum.bytes)));
        for kind in &removal.kinds {
            output::line(format!("  {:<12} {:>8}  {}", kind.kind, kind.count, assay_report::bytes(kind.bytes.0)));
        }
        if removal.shared.count > 0 {
            let (blobs, bytes) = (counted(removal.shared.count, "blob"), assay_report::bytes(removal.shared.bytes));
            output::line(format!("  kept: {blobs}, {bytes}, which other runs or verdicts name"));
        }
        if removal.renewed.count > 0 {
            let (blobs, bytes) = (counted(removal.renewed.count, "blob"), assay_report::bytes(removal.renewed.bytes));
            output::line(format!("  kept: {blobs}, {bytes}, used again within a day, after the run had ended"));
        }
        if run.chain.is_complete && sum.count > 0 {
            output::line(match removal.scope {
                RemovalScope::Evidence => "  then level 2 of 4 remains at most: rows, numbers and reports",
                RemovalScope::Results => "  then level 1 of 4 remains: the signed chain",
            });
        }
    }

    fn finish(&self, planned: &[PlannedRemoval], removed: &[BlobSum]) -> Result<Exit, Failure> {
        if self.json {
            let runs: Vec<_> = planned
                .iter()
                .enumerate()
                .map(|(place, PlannedRemoval { removal, .. })| {
                    json!({
                        "run_id": removal.run_id, "scope": removal.scope, "kinds": removal.kinds, "sum": removal.sum(),
                        "shared": removal.shared, "renewed": removal.renewed, "removed": removed.get(place),
                    })
                })
                .collect();
            output::json(&json!({"runs": runs, "is_dry_run": !self.yes}))?;
        } else if self.yes {
            let (count, bytes) = removed.iter().fold((0, 0), |sum, one| (sum.0 + one.count, sum.1 + one.bytes));
            output::line(format!("removed {}, {}{REMAINS}", counted(count, "blob"), assay_report::bytes(bytes)));
        } else {
            output::line("nothing was removed: add `--reason TEXT --yes` to remove it");
        }
        Ok(Exit::Done)
    }
}

/// Returns the unlocked key of the role `source`, which signs tombstones; it is made at first use.
fn source_key() -> Result<assay_runner::KeyRing, Failure> {
    let (config, password) = (Config::find()?, key_password());
    let keys = LocalKeys::new(&config);
    if keys.missing().contains(&Role::Source) {
        make_missing_keys(&config, password.as_encoded_bytes())?;
    }
    Ok(keys.unlock(&[Role::Source], password.as_encoded_bytes())?)
}

/// Returns the name of the account, as the system's environment states it. It is asserted, like the time.
fn account() -> String {
    let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.map_or_else(|| format!("user {}", rustix::process::getuid().as_raw()), |name| name.chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_something() {
        assert_eq!(parse_reason(" old \n"), Ok("old".to_owned()));
        assert!(parse_reason("  ").is_err() && parse_reason(&"x".repeat(1_001)).is_err());
    }
}
