//! The rows that hold the published numbers.

use assay_manifest::Summary;
use assay_stage::{Context, Exit, Failure};
use assay_verify::NumberRows;

/// The largest curated file of one run that is read back.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The rows of the run that hold numbers: a number is published only if it is the one in its row.
pub(crate) fn rows(ctx: &Context, summary: &Summary) -> Result<NumberRows, Failure> {
    let mut rows = NumberRows::default();
    for file in &summary.files {
        let table = assay_warehouse::table(&file.table)
            .ok_or_else(|| Failure::verification("unknown_table", format!("the summary names a table `{}`", file.table)))?;
        if !NumberRows::are_of(table) {
            continue;
        }
        let bytes = ctx.get(&file.artifact, MAX_FILE_BYTES)?;
        let read = assay_warehouse::read(table, bytes).map_err(|error| Failure::of(Exit::Verification, error.code(), &error))?;
        rows.add(file, read)?;
    }
    Ok(rows)
}
