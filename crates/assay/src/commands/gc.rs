//! `assay gc`: removes what nothing in a store needs any more.

use assay_report::counted;
use assay_runs::{BlobSum, Garbage, open_store};
use assay_stage::{Exit, Failure};
use serde_json::json;

use crate::output;

/// Remove what nothing needs any more: blobs that no run and no verdict names, objects that were never completed, and scratch
/// folders of processes that have ended. Only what is older than one day goes, so runs that are being written lose nothing. The
/// store is a folder of this machine. Without `--yes`, nothing is removed: what would go is printed.
#[derive(clap::Args)]
pub(crate) struct Gc {
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// Remove what is printed
    #[arg(long)]
    yes: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

impl Gc {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let store = open_store(self.store.as_deref())?;
        let garbage = Garbage::find(&store)?;
        let removed = if self.yes { Some(garbage.remove(&store)?) } else { None };
        if self.json {
            let (blobs, staged, scratch) = sums(&garbage);
            let found = json!({"blobs": blobs, "staging": staged, "scratch": scratch, "young": garbage.young});
            output::json(&json!({"unneeded": found, "removed_blobs": removed, "is_dry_run": !self.yes}))?;
        } else {
            show(&garbage, removed);
        }
        Ok(Exit::Done)
    }
}

/// Returns the sums of blobs, staged objects and scratch folders.
fn sums(garbage: &Garbage) -> (BlobSum, BlobSum, BlobSum) {
    let sum = |sizes: &mut dyn Iterator<Item = u64>| {
        let mut sum = BlobSum::default();
        sizes.for_each(|bytes| sum.add(bytes));
        sum
    };
    (
        sum(&mut garbage.blobs.iter().map(|(_, bytes)| *bytes)),
        sum(&mut garbage.staged.iter().map(|object| object.size)),
        sum(&mut garbage.scratch.iter().map(|folder| folder.bytes)),
    )
}

fn show(garbage: &Garbage, removed: Option<BlobSum>) {
    let (blobs, staged, scratch) = sums(garbage);
    let row = |what: &str, sum: BlobSum, noun: &str| {
        if sum.count > 0 {
            output::line(format!("{what:<10} {:>12}  {}", counted(sum.count, noun), assay_report::bytes(sum.bytes)));
        }
    };
    row("unnamed", blobs, "blob");
    row("staging", staged, "object");
    row("scratch", scratch, "folder");
    if garbage.young.count > 0 {
        let (young, bytes) = (counted(garbage.young.count, "blob"), assay_report::bytes(garbage.young.bytes));
        output::line(format!("kept: {young}, {bytes}, that no run names yet and that are younger than one day"));
    }
    if blobs.count + staged.count + scratch.count == 0 {
        output::line("nothing to remove");
        return;
    }
    match removed {
        None => output::line("nothing was removed: add `--yes` to remove it"),
        Some(removed) => {
            let others = counted(staged.count + scratch.count, "leftover");
            output::line(format!(
                "removed {}, {}, and {others}",
                counted(removed.count, "blob"),
                assay_report::bytes(removed.bytes)
            ));
        }
    }
}
