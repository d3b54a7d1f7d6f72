//! The rows of a published run in the warehouse: each curated file with its bytes in its table at the pinned version, and no
//! other rows of the run.

use std::collections::{BTreeMap, BTreeSet};

use assay_envelope::Trust;
use assay_lake::{Lake, TableFile};
use assay_manifest::{Body as _, CuratedFile, Digest, Kind, Publication, RunId, Summary};
use assay_stage::{AcceptedResult, ErrorCode, Exit, Failure, Layout, StageName};
use assay_store::{Scratch, Store};
use assay_warehouse::Table;

use crate::blobs::StoreBlobs;
use crate::queries::lake_failure;
use crate::walk::{Chain, load};

/// The largest mark, in bytes.
const MAX_MARK_BYTES: u64 = 4096;

/// The largest file of another run that is read, in bytes.
const MAX_OTHER_BYTES: u64 = 4 << 30;

/// Returns the store that a run was copied from, whose tables its Publication refers to; `None` if the run was published to this
/// store.
pub fn fetched_from(store: &Store, run_id: &RunId) -> Result<Option<String>, Failure> {
    let mark = store.read(&Layout::for_run(run_id).fetched(), MAX_MARK_BYTES)?;
    Ok(mark.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Checks a published run in the tables of its store, at the versions that its Publication pins, and returns the number of its
/// curated files: each is hashed in place, and no other file of the tables may hold rows of the run. `None` if the run is not
/// published, or was published to another store and copied here ([`fetched_from`]).
///
/// Other files of a table belong to other runs. A signed Summary names each; a file that no Summary of this store names under
/// `trust` may have come with neither the run's commit nor rows of the run.
pub fn verify_snapshot(store: &Store, chain: &Chain, trust: &Trust) -> Result<Option<u64>, Failure> {
    let (Some(summary), Some(publication)) = (chain.one::<Summary>(), chain.one::<Publication>()) else { return Ok(None) };
    if fetched_from(store, &chain.run_id)?.is_some() {
        return Ok(None);
    }
    let lake = Lake::open(store).map_err(failure)?;
    let found = check_run_files(&lake, &summary.body, &publication.body);
    // Checked only after a failure, because it opens the log of every table.
    if found.is_err() && lake.latest().map_err(failure)?.is_empty() {
        let message = format!("the run was published to the warehouse of its store, and `{}` has no warehouse", store.uri());
        return Err(Failure::new(ErrorCode::WarehouseAbsent, message)
            .hint("a run is copied to another store with `assay fetch`; a published folder is verified without a warehouse"));
    }
    let others = find_unnamed_files(store, &chain.run_id, trust, found?)?;
    check_others(&lake, chain, &summary.body, &publication.body, &others)?;
    Ok(Some(summary.body.files.len() as u64))
}

/// Files of tables that do not belong to the run.
type OtherFiles = BTreeMap<&'static str, Vec<TableFile>>;

/// Checks that the run's files are present, and returns the others.
fn check_run_files(lake: &Lake, summary: &Summary, publication: &Publication) -> Result<OtherFiles, Failure> {
    let tables: BTreeSet<_> = summary.files.iter().map(|file| file.table.as_str()).collect();
    // A version is pinned also for tables without rows of the run, and has to exist.
    for name in publication.warehouse_snapshot.keys().map(String::as_str).filter(|name| !tables.contains(name)) {
        let (table, version) = pinned_version(name, publication)?;
        lake.files(table, version).map_err(failure)?;
    }
    let mut others = OtherFiles::new();
    for name in tables {
        let (table, version) = pinned_version(name, publication)?;
        let mut there = lake.files(table, version).map_err(failure)?;
        for file in summary.files.iter().filter(|file| file.table == name) {
            let digest = file.artifact.digest;
            let place = there.iter().position(|found| found.digest == Some(digest)).ok_or_else(|| {
                let message =
                    format!("the file {digest} of the run is not in the warehouse's table `{name}` at version {version}");
                Failure::new(ErrorCode::NotInSnapshot, message)
                    .hint("the table was made anew or its log was changed; its other rows are not to be trusted either")
            })?;
            if let Some(why) = there.swap_remove(place).foreign {
                let message =
                    format!("the file {digest} of the run is not in the warehouse's table `{name}` as it was added: {why}");
                return Err(Failure::new(ErrorCode::NotInSnapshot, message));
            }
            lake.check_file(table, &digest).map_err(failure)?;
        }
        if !there.is_empty() {
            others.insert(table.name, there);
        }
    }
    Ok(others)
}

fn pinned_version(name: &str, publication: &Publication) -> Result<(&'static Table, u64), Failure> {
    let table = assay_warehouse::table(name)
        .ok_or_else(|| Failure::new(ErrorCode::UndefinedTable, format!("the run names a table `{name}`, which there is not")))?;
    let version = publication.warehouse_snapshot.get(name).ok_or_else(|| {
        Failure::new(ErrorCode::NotInSnapshot, format!("the publication pins no version of the warehouse's table `{name}`"))
    })?;
    Ok((table, version.0))
}

/// Returns the files that no signed Summary of another run of the store names.
fn find_unnamed_files(store: &Store, own: &RunId, trust: &Trust, mut others: OtherFiles) -> Result<OtherFiles, Failure> {
    if others.is_empty() {
        return Ok(others);
    }
    let paths = store.list(Layout::RUNS)?;
    let names: BTreeSet<&str> = paths.iter().filter_map(|path| path.split('/').nth(1)).collect();
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
fn read_signed_files(store: &Store, run: &RunId, trust: &Trust) -> Result<BTreeSet<(&'static str, Digest)>, Failure> {
    let Some(accepted) = AcceptedResult::list_stage(store, run, StageName::Reduce)?.next().transpose()? else {
        return Ok(BTreeSet::new());
    };
    let verified = load(&StoreBlobs::new(store.clone()), accepted.as_input(Kind::Summary), None, trust, run)?;
    let files = Summary::from_document(verified.value()).map(|summary| summary.body.files.as_slice()).unwrap_or_default();
    Ok(files.iter().filter_map(|file| Some((assay_warehouse::table(&file.table)?.name, file.artifact.digest))).collect())
}

/// Checks that a file that no signed Summary names came neither with the run's own commit, if that is the pinned one, nor with
/// rows of the run.
fn check_others(
    lake: &Lake,
    chain: &Chain,
    summary: &Summary,
    publication: &Publication,
    others: &OtherFiles,
) -> Result<(), Failure> {
    if others.is_empty() {
        return Ok(());
    }
    let scratch = Scratch::new(MAX_OTHER_BYTES)?;
    for (name, files) in others {
        let (table, version) = pinned_version(name, publication)?;
        let before = match version.checked_sub(1) {
            Some(before) => lake.files(table, before).map_err(failure)?,
            None => Vec::new(),
        };
        let was_there = |file: &&CuratedFile| before.iter().any(|found| found.digest == Some(file.artifact.digest));
        let is_own_commit = !summary.files.iter().filter(|file| file.table == *name).all(|file| was_there(&file));
        for file in files {
            let how = if is_own_commit && !before.contains(file) {
                "came with the commit that the run's publication pins"
            } else if lake.has_rows_of(table, file, &chain.run_id, &scratch).map_err(failure)? {
                "holds rows of the run"
            } else {
                continue;
            };
            let message =
                format!("the file `{}` of the warehouse's table `{name}` {how}, and no signed summary names it", file.path);
            return Err(Failure::new(ErrorCode::ForeignFile, message)
                .hint("another program wrote to the table: what it shows of the run was not measured"));
        }
    }
    Ok(())
}

fn failure(error: assay_lake::Error) -> Failure {
    lake_failure(error, Exit::Unexpected)
}
