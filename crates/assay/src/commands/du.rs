//! `assay du`: the bytes of a store, by run and by kind.

use assay_report::counted;
use assay_runs::{BlobSum, StoreUsage, open_store};
use assay_stage::{Exit, Failure};

use crate::output;

/// Show the bytes of a store by run and by kind. Every object is counted once: a blob that several runs name is counted as shared,
/// and not as any run's. Sizes are those of the objects, not of the blocks that a file system gives them.
#[derive(clap::Args)]
pub(crate) struct Du {
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// The number of runs to print, the largest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    runs: usize,
    /// Print the result as one JSON document, with all runs
    #[arg(long)]
    json: bool,
}

impl Du {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let store = open_store(self.store.as_deref())?;
        let usage = StoreUsage::read(&store)?;
        if self.json {
            output::json(&usage)?;
        } else {
            show(&usage, self.runs, store.local_root().is_some());
        }
        Ok(Exit::Done)
    }
}

/// Shows the usage of a store. Only a folder of this machine can be collected.
fn show(usage: &StoreUsage, most: usize, is_local: bool) {
    let bytes = assay_report::bytes;
    for run in usage.runs.iter().take(most) {
        let shared = if run.shared_bytes > 0 { format!(", and {} shared", bytes(run.shared_bytes)) } else { String::new() };
        output::line(format!("{:<40} {:>10}{shared}", run.run_id, bytes(run.bytes)));
        for kind in &run.kinds {
            output::line(format!("  {:<12} {:>8}  {:>10}", kind.kind, kind.sum.count, bytes(kind.sum.bytes)));
        }
    }
    if let Some(rest) = usage.runs.get(most..).filter(|rest| !rest.is_empty()) {
        let sum = rest.iter().map(|run| run.bytes).sum();
        output::line(format!("{:<40} {:>10}", format!("{} more", counted(rest.len() as u64, "run")), bytes(sum)));
    }
    let row = |what: &str, sum: BlobSum| {
        if sum.count > 0 {
            output::line(format!("{what:<40} {:>10}  {}", bytes(sum.bytes), counted(sum.count, "object")));
        }
    };
    row("shared by several runs, counted once", usage.shared);
    row("verdicts, and documents of no run", usage.verdicts);
    row("warehouse", usage.warehouse);
    row("pointers of no run", usage.pointers);
    row(unnamed_label(is_local), usage.unnamed);
    row("staging", usage.staging);
    row("beside the store: logs, reports, locks", usage.beside);
    output::line(format!("{:<40} {:>10}", "all", bytes(usage.bytes)));
}

/// Returns the label of blobs that nothing names, with the command that removes them where it can.
fn unnamed_label(is_local: bool) -> &'static str {
    if is_local { "named by nothing (`assay gc`)" } else { "named by nothing" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_only_where_it_works() {
        assert_eq!([true, false].map(|is_local| unnamed_label(is_local).contains("assay gc")), [true, false]);
    }
}
