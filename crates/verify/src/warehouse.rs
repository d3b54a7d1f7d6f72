//! The rows of a published run in the warehouse: each curated file with its bytes in its table at the pinned version, and no
//! other rows of the run.

use std::collections::{BTreeMap, BTreeSet};

use assay_envelope::Trust;
use assay_lake::{Lake, TableFile};
use assay_manifest::{Body as _, CuratedFile, Digest, Kind, Publication, RunId, Summary};
use assay_stage::{AcceptedResult, Layout, StageName};
use assay_store::{Scratch, Store};
use assay_warehouse::Table;

use crate::blobs::StoreBlobs;
use crate::walk::{Chain, load};
use crate::{Error, ForeignTie, Result, SnapshotFault, TableNamer};

/// The largest mark, in bytes.
const MAX_MARK_BYTES: u64 = 4096;

/// The largest file of another run that is read, in bytes.
const MAX_OTHER_BYTES: u64 = 4 << 30;

/// Returns the store that a run was copied from, whose tables its Publication refers to; `None` if the run was published to this
/// store.
pub fn fetched_from(store: &Store, run_id: &RunId) -> Result<Option<String>> {
    let mark = store.read(&Layout::for_run(run_id).fetched(), MAX_MARK_BYTES)?;
    Ok(mark.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Checks a published run in the tables of its store, at the versions that its Publication pins, and returns the number of its
/// curated files: each is hashed in place, and no other file of the tables may hold rows of the run. `None` if the run is not
/// published, or was published to another store and copied here ([`fetched_from`]).
///
/// Other files of a table belong to other runs. A signed Summary names each; a file that no Summary of this store names under
/// `trust` may have come with neither the run's commit nor rows of the run.
pub fn verify_snapshot(store: &Store, chain: &Chain, trust: &Trust) -> Result<Option<u64>> {
    let (Some(summary), Some(publication)) = (chain.one::<Summary>(), chain.one::<Publication>()) else { return Ok(None) };
    if fetched_from(store, &chain.run_id)?.is_some() {
        return Ok(None);
    }
    let lake = Lake::open(store)?;
    let found = check_run_files(&lake, &summary.body, &publication.body);
    // Checked only after a failure, because it opens the log of every table.
    if found.is_err() && lake.latest()?.is_empty() {
        return Err(Error::NoWarehouse(store.uri().to_owned()));
    }
    let others = find_unnamed_files(store, &chain.run_id, trust, found?)?;
    check_others(&lake, chain, &summary.body, &publication.body, &others)?;
    Ok(Some(summary.body.files.len() as u64))
}

/// Files of tables that do not belong to the run.
type OtherFiles = BTreeMap<&'static str, Vec<TableFile>>;

/// Checks that the run's files are present, and returns the others.
fn check_run_files(lake: &Lake, summary: &Summary, publication: &Publication) -> Result<OtherFiles> {
    let tables: BTreeSet<_> = summary.files.iter().map(|file| file.table.as_str()).collect();
    // A version is pinned also for tables without rows of the run, and has to exist.
    for name in publication.warehouse_snapshot.keys().map(String::as_str).filter(|name| !tables.contains(name)) {
        let (table, version) = pinned_version(name, publication)?;
        lake.files(table, version)?;
    }
    let mut others = OtherFiles::new();
    for name in tables {
        let (table, version) = pinned_version(name, publication)?;
        let mut there = lake.files(table, version)?;
        for file in summary.files.iter().filter(|file| file.table == name) {
            let digest = file.artifact.digest;
            let absent = || Error::Snapshot(SnapshotFault::Absent { digest, table: name.to_owned(), version });
            let place = there.iter().position(|found| found.digest == Some(digest)).ok_or_else(absent)?;
            if let Some(reason) = there.swap_remove(place).foreign {
                return Err(Error::Snapshot(SnapshotFault::Changed { digest, table: name.to_owned(), reason }));
            }
            lake.check_file(table, &digest)?;
        }
        if !there.is_empty() {
            others.insert(table.name, there);
        }
    }
    Ok(others)
}

fn pinned_version(name: &str, publication: &Publication) -> Result<(&'static Table, u64)> {
    let table = assay_warehouse::table(name).ok_or_else(|| Error::NoTable { namer: TableNamer::Run, table: name.to_owned() })?;
    let version = publication.warehouse_snapshot.get(name);
    let version = version.ok_or_else(|| Error::Snapshot(SnapshotFault::NotPinned(name.to_owned())))?;
    Ok((table, version.0))
}

/// Returns the files that no signed Summary of another run of the store names.
fn find_unnamed_files(store: &Store, own: &RunId, trust: &Trust, mut others: OtherFiles) -> Result<OtherFiles> {
    if others.is_empty() {
        return Ok(others);
    }
    let names = store.list_folders(Layout::RUNS)?;
    for run in names.into_iter().filter_map(|name| name.parse::<RunId>().ok()).filter(|run| run != own) {
        // A run that is damaged, or whose signer is not trusted, names no files.
        let named = read_signed_files(store, &run, trust).unwrap_or_default();
        for (table, files) in &mut others {
            files.retain(|file| file.foreign.is_some() || !file.digest.is_some_and(|digest| named.contains(&(*table, digest))));
        }
        others.retain(|_, files| !files.is_empty());
        if others.is_empty() {
            break;
        }
    }
    Ok(others)
}

/// Returns the files that the signed Summary of a run names.
fn read_signed_files(store: &Store, run: &RunId, trust: &Trust) -> Result<BTreeSet<(&'static str, Digest)>> {
    let Some(accepted) = AcceptedResult::list_stage(store, run, StageName::Reduce)?.next().transpose()? else {
        return Ok(BTreeSet::new());
    };
    let verified = load(&StoreBlobs::new(store.clone()), accepted.as_input(Kind::Summary), None, trust, run)?;
    let files = Summary::from_document(verified.value()).map(|summary| summary.body.files.as_slice()).unwrap_or_default();
    Ok(files.iter().filter_map(|file| Some((assay_warehouse::table(&file.table)?.name, file.artifact.digest))).collect())
}

/// Checks that a file that no signed Summary names came neither with the run's own commit, if that is the pinned one, nor with
/// rows of the run.
fn check_others(lake: &Lake, chain: &Chain, summary: &Summary, publication: &Publication, others: &OtherFiles) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let scratch = Scratch::new(MAX_OTHER_BYTES)?;
    for (name, files) in others {
        let (table, version) = pinned_version(name, publication)?;
        let before = match version.checked_sub(1) {
            Some(before) => lake.files(table, before)?,
            None => Vec::new(),
        };
        let was_there = |file: &&CuratedFile| before.iter().any(|found| found.digest == Some(file.artifact.digest));
        let is_own_commit = !summary.files.iter().filter(|file| file.table == *name).all(|file| was_there(&file));
        for file in files {
            let tie = if is_own_commit && !before.contains(file) {
                ForeignTie::Commit
            } else if lake.has_rows_of(table, file, &chain.run_id, &scratch)? {
                ForeignTie::Rows
            } else {
                continue;
            };
            return Err(Error::ForeignFile { file: file.path.clone(), table: name, tie });
        }
    }
    Ok(())
}
