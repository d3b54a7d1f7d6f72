//! Whether the warehouse still holds what a run was published with.

use std::collections::BTreeSet;

use assay_lake::Lake;
use assay_manifest::{CuratedFile, Publication, RunId, Summary};
use assay_stage::{Exit, Failure, Layout};
use assay_store::Store;

use crate::queries::lake_failure;
use crate::walk::Chain;

/// The largest mark.
const MAX_MARK_BYTES: u64 = 4096;

/// The store that a run was copied from, whose tables its Publication means; none for a run of this store's.
pub fn fetched_from(store: &Store, run_id: &RunId) -> Result<Option<String>, Failure> {
    let mark = store.read(&Layout::of(run_id).fetched(), MAX_MARK_BYTES)?;
    Ok(mark.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Checks that every curated file of the run is in its table at the version that the Publication pins, and gives how many there are.
/// Nothing where the run is not published, where it was published elsewhere and copied here ([`fetched_from`]), or where the store has no
/// warehouse at all: evidence may be copied without it.
pub fn verify_snapshot(store: &Store, chain: &Chain) -> Result<Option<u64>, Failure> {
    let (Some(summary), Some(publication)) = (chain.one::<Summary>(), chain.one::<Publication>()) else { return Ok(None) };
    if fetched_from(store, &chain.run_id)?.is_some() {
        return Ok(None);
    }
    let lake = Lake::open(store).map_err(failure)?;
    let found = in_snapshot(&lake, &summary.body, &publication.body);
    // Only asked when it failed, since it opens the log of every table.
    if found.is_err() && lake.latest().map_err(failure)?.is_empty() {
        return Ok(None);
    }
    found.map(Some)
}

fn in_snapshot(lake: &Lake, summary: &Summary, publication: &Publication) -> Result<u64, Failure> {
    let tables: BTreeSet<_> = summary.files.iter().map(|file| file.table.as_str()).collect();
    for name in tables {
        let table = assay_warehouse::table(name)
            .ok_or_else(|| Failure::verification("unknown_table", format!("the summary names a table `{name}`")))?;
        let version = publication.warehouse_snapshot.get(name).ok_or_else(|| {
            Failure::verification("not_in_snapshot", format!("the publication pins no version of the warehouse's table `{name}`"))
        })?;
        let there: BTreeSet<_> =
            lake.files(table, version.0).map_err(failure)?.into_iter().filter_map(|file| file.digest).collect();
        let of_table = |file: &&CuratedFile| file.table == name;
        if let Some(absent) = summary.files.iter().filter(of_table).find(|file| !there.contains(&file.artifact.digest)) {
            let (digest, name) = (absent.artifact.digest, &absent.table);
            let message = format!("the file {digest} of the run is not in the warehouse's table `{name}` at version {version}");
            return Err(Failure::verification("not_in_snapshot", message)
                .hint("the table was made anew or its log was changed; its other rows are not to be trusted either"));
        }
    }
    Ok(summary.files.len() as u64)
}

fn failure(error: assay_lake::Error) -> Failure {
    lake_failure(error, Exit::Unexpected)
}
