//! The commit of one run to the tables: dimensions first, outcomes next, `benchmark_run_fact` last.
//!
//! There is no transaction over several tables: the order makes a run visible at one instant, and transaction ids make every step
//! idempotent. The Delta kernel does not refuse an id that it has seen, so each step looks for it first: refresh, look, commit
//! only if it is absent, begin again if another writer took the version.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use assay_manifest::{Count, CuratedFile, Digest, RunId};
use assay_query::check_file;
use assay_store::{Scratch, ScratchFile};
use assay_warehouse::{BENCHMARK_RUN_FACT, TABLES, Table, table};

use crate::log::{Addition, CommitOutcome, Lake, MAX_COMMIT_ATTEMPTS, OpenTable, Snapshot, data_path};
use crate::{Error, Result};

/// The action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A curated file was copied to the table's folder; no version of the table contains it yet.
    Copied,
    /// The file was there already, with the bytes of its name.
    Found,
    /// A version was committed.
    Committed,
    /// The log contains the addition already.
    AlreadyCommitted,
}

/// A finished step of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The table.
    pub table: &'static str,
    /// The action.
    pub action: Action,
}

/// Adds a run's curated files to the tables, and returns the version of every table that has all of the run.
///
/// Blobs come from the lake's store, through `scratch`. The commit is idempotent: called again, after a kill between any two
/// steps or for a run that is there already, it does the remaining steps and adds nothing twice. `watch` is called after each
/// step and may end the work with [`ControlFlow::Break`], which fails with [`Error::Stopped`]; the finished steps stay and are
/// found the next time.
///
/// A dimension's file is added once, by the first run that brings it. The same run id with other files fails with
/// [`Error::OtherFiles`].
pub fn commit_run(
    lake: &Lake,
    run: &RunId,
    files: &[CuratedFile],
    scratch: &Scratch,
    watch: &mut dyn FnMut(Step) -> ControlFlow<()>,
) -> Result<Snapshot> {
    let by_table = by_table(files)?;
    if !by_table.contains_key(BENCHMARK_RUN_FACT.name) {
        return Err(Error::NoRunRows { run: run.clone() });
    }
    // A table of another schema is found before anything is written to the others.
    let mut opened = lake.open_newest(TABLES)?;
    let mut work = RunCommit { lake, run, scratch, watch, steps: 0 };
    let mut snapshot = Snapshot::new();
    for table in TABLES {
        let open = opened.remove(table.name).map_or_else(|| lake.latest_or_new(table), Ok)?;
        let open = match by_table.get(table.name) {
            None => open,
            Some(files) => work.add(table, files, open)?,
        };
        snapshot.insert(table.name.to_owned(), Count(open.version()));
    }
    Ok(snapshot)
}

fn by_table(files: &[CuratedFile]) -> Result<BTreeMap<&'static str, Vec<&CuratedFile>>> {
    let mut tables: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in files {
        let table = table(&file.table).ok_or_else(|| assay_query::Error::NoTable(file.table.chars().take(80).collect()))?;
        tables.entry(table.name).or_default().push(file);
    }
    for files in tables.values_mut() {
        files.sort_unstable_by_key(|file| file.artifact.digest);
        files.dedup_by_key(|file| file.artifact.digest);
    }
    Ok(tables)
}

/// Returns true if a table's rows are shared between runs.
fn is_dimension(table: &Table) -> bool {
    table.name.ends_with("_dim")
}

struct RunCommit<'a> {
    lake: &'a Lake,
    run: &'a RunId,
    scratch: &'a Scratch,
    watch: &'a mut dyn FnMut(Step) -> ControlFlow<()>,
    steps: usize,
}

impl RunCommit<'_> {
    fn finish_step(&mut self, table: &'static Table, action: Action) -> Result<()> {
        self.steps += 1;
        match (self.watch)(Step { table: table.name, action }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped { steps: self.steps }),
        }
    }

    fn add(&mut self, table: &'static Table, files: &[&CuratedFile], mut open: OpenTable) -> Result<OpenTable> {
        for _ in 0..MAX_COMMIT_ATTEMPTS {
            let addition = self.find_missing(table, files, &open)?;
            if addition.transactions.is_empty() {
                self.finish_step(table, Action::AlreadyCommitted)?;
                return Ok(open);
            }
            for file in files.iter().filter(|file| addition.files.iter().any(|(digest, ..)| **digest == file.artifact.digest)) {
                let action = self.copy_file(table, file)?;
                self.finish_step(table, action)?;
            }
            if let CommitOutcome::Done(open) = self.lake.commit(&open, &addition)? {
                self.lake.checkpoint_if_due(&open);
                self.finish_step(table, Action::Committed)?;
                return Ok(open);
            }
            open = self.lake.latest_or_new(table)?;
        }
        Err(Error::Contended { table: table.name, attempts: MAX_COMMIT_ATTEMPTS })
    }

    /// Returns the files of the run that the table's log does not have, with the transaction ids that record them.
    fn find_missing<'a>(&self, table: &'static Table, files: &[&'a CuratedFile], open: &OpenTable) -> Result<Addition<'a>> {
        let mut addition = Addition { files: Vec::new(), transactions: Vec::new() };
        let part = |file: &'a CuratedFile| (&file.artifact.digest, file.artifact.size.0, file.rows.0);
        if is_dimension(table) {
            for file in files {
                let id = format!("file/{}", file.artifact.digest.hex());
                if self.lake.transaction(open, &id)?.is_none() {
                    addition.files.push(part(file));
                    addition.transactions.push((id, 0));
                }
            }
            return Ok(addition);
        }
        let (id, version) = (format!("run/{}/{}", self.run, table.name), fingerprint(files));
        match self.lake.transaction(open, &id)? {
            Some(found) if found == version => Ok(addition),
            Some(_) => Err(Error::OtherFiles { run: self.run.clone(), table: table.name }),
            None => {
                addition.files = files.iter().copied().map(part).collect();
                addition.transactions = vec![(id, version)];
                Ok(addition)
            }
        }
    }

    /// Copies a curated file to its table's folder, unless it is there.
    fn copy_file(&self, table: &'static Table, file: &CuratedFile) -> Result<Action> {
        let digest = file.artifact.digest;
        let path = data_path(table, &digest);
        let area = self.lake.area();
        match area.digest(&path)? {
            Some((found, _)) if found == digest => return Ok(Action::Found),
            Some((found, _)) => return Err(Error::Changed { table: table.name, expected: digest, found }),
            None => {}
        }
        let blob = self.check_blob(table, file)?;
        let created = area.create_file(&path, &blob)?;
        Ok(if created { Action::Copied } else { Action::Found })
    }

    /// Returns the file's bytes after checking them against the Summary: a file that no query can read is not added.
    fn check_blob(&self, table: &'static Table, file: &CuratedFile) -> Result<ScratchFile> {
        let blob = self.lake.store().materialise(&file.artifact.digest, self.scratch)?;
        let wrong = |problem: String| {
            let digest = file.artifact.digest;
            Error::from(assay_query::Error::BadFile { table: table.name.to_owned(), digest, problem })
        };
        if blob.size() != file.artifact.size.0 {
            return Err(wrong(format!("it has {} bytes and not {}", blob.size(), file.artifact.size)));
        }
        let rows = check_file(table, &blob).map_err(wrong)?;
        if rows != file.rows.0 {
            return Err(wrong(format!("it has {rows} rows and not {}", file.rows)));
        }
        Ok(blob)
    }
}

/// Returns the number that the log stores with a run's transaction id, so that the same id with other files is detected: 63 bits
/// of the digest of their digests.
fn fingerprint(files: &[&CuratedFile]) -> i64 {
    let digests: String = files.iter().map(|file| file.artifact.digest.hex()).collect();
    let digest = Digest::compute(digests.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(digest.as_bytes().split_at(8).0);
    i64::from_be_bytes(first) & i64::MAX
}
