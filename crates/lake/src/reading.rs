//! The input of a query: files that were hashed before any parser reads them.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{CuratedFile, Digest, RunId};
use assay_query::{Limits, OpenedFiles, Query, ResultTable, check_file, open_files, run_query, sort_files};
use assay_store::{Scratch, ScratchFile, Store};
use assay_warehouse::{BENCHMARK_RUN_FACT, Table, foreign_table, table};

use crate::log::{Lake, Snapshot, TableFile, data_path};
use crate::{Error, Result};

/// The files that verified Summaries name: the only files that a trusted reading opens.
#[derive(Clone, Debug, Default)]
pub struct Subjects {
    files: BTreeSet<(String, Digest)>,
    /// The files of runs that are left out. Nothing vouches for this list: a file that a verified Summary names is read all the
    /// same.
    left_out: BTreeSet<(String, Digest)>,
    runs: BTreeMap<RunId, Vec<(String, Digest)>>,
    /// The versions that the Publications of published runs pin.
    published: BTreeMap<RunId, Snapshot>,
}

impl Subjects {
    /// Returns an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the curated files of one run's Summary. The caller must have verified the Summary.
    pub fn add(&mut self, run: &RunId, files: &[CuratedFile]) {
        self.add_names(run, files.iter().map(|file| (file.table.clone(), file.artifact.digest)).collect());
    }

    /// Adds the curated files of one run's Summary by table and digest. The caller must have verified the Summary.
    pub fn add_names(&mut self, run: &RunId, names: Vec<(String, Digest)>) {
        self.files.extend(names.iter().cloned());
        self.runs.insert(run.clone(), names);
    }

    /// Leaves out the files that a run's unverified Summary names, unless a verified one names them too.
    pub fn leave_out(&mut self, files: &[CuratedFile]) {
        self.left_out.extend(files.iter().map(|file| (file.table.clone(), file.artifact.digest)));
    }

    /// Records that a run is published, with the versions of its verified Publication. From those versions on it has to be there.
    pub fn add_published(&mut self, run: &RunId, snapshot: &Snapshot) {
        self.published.insert(run.clone(), snapshot.clone());
    }

    /// Returns true if any run is published, so that there has to be a warehouse.
    pub fn has_published(&self) -> bool {
        !self.published.is_empty()
    }

    /// Removes the runs that were published after a pinned snapshot, which cannot contain them.
    #[must_use]
    pub fn as_of(mut self, snapshot: &Snapshot) -> Self {
        let is_later =
            |published: &Snapshot| version_of(published, BENCHMARK_RUN_FACT.name) > version_of(snapshot, BENCHMARK_RUN_FACT.name);
        self.published.retain(|_, published| !is_later(published));
        self
    }

    /// Returns an error if a table has fewer versions than when one of the runs was published, or does not exist any more.
    fn rollback_error(&self, table: &'static str, snapshot: &Snapshot) -> Option<Error> {
        let found = version_of(snapshot, table);
        let (run, published) = self.published.iter().max_by_key(|(_, published)| version_of(published, table))?;
        let published = version_of(published, table)?;
        (found < Some(published)).then(|| Error::RolledBack { table, run: run.clone(), published, found })
    }

    /// Returns true if a verified Summary names this file of this table.
    pub fn contains(&self, table: &str, digest: &Digest) -> bool {
        self.files.contains(&(table.to_owned(), *digest))
    }

    /// Returns true if a table's file belongs to a run that is left out.
    fn is_left_out(&self, table: &str, file: &TableFile) -> bool {
        let of_run = |digest: &Digest| self.left_out.contains(&(table.to_owned(), *digest)) && !self.contains(table, digest);
        file.foreign.is_none() && file.digest.as_ref().is_some_and(of_run)
    }
}

fn version_of(snapshot: &Snapshot, table: &str) -> Option<u64> {
    snapshot.get(table).map(|version| version.0)
}

/// A file or run that a trusted reading would have refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnverifiedItem {
    /// The reason.
    pub reason: String,
    /// True if its rows are nevertheless part of the reading. If not, the result lacks rows that the tables should have.
    pub read: bool,
}

/// Files of some tables, in private scratch, ready for queries. A table's files are in the order of their digests, independent of
/// the order in which they were committed.
#[derive(Debug)]
pub struct Reading {
    pub(crate) tables: OpenedFiles,
    unverified: Vec<UnverifiedItem>,
    /// The runs of the subjects that are visible at the version; none for readings of a run's own files.
    visible: BTreeSet<RunId>,
}

impl Reading {
    /// Reads the files of a run, or of several, directly from the store's blobs: the reading of publish before the run is
    /// committed.
    ///
    /// The tables are those that `query` reads. Fails if a blob is absent, corrupt or no file of its table.
    pub fn from_files(store: &Store, files: &[CuratedFile], query: &Query, scratch: &Scratch) -> Result<Self> {
        Ok(Self { tables: open_files(store, files, query, scratch)?, unverified: Vec::new(), visible: BTreeSet::new() })
    }

    /// Reads the tables of `query` at a pinned version, all of whose files must be subjects of verified Summaries, apart from those
    /// of runs that are left out ([`Subjects::leave_out`]).
    ///
    /// Fails with a named error ([`Error::fails_verification`]) if a file is no subject, if its bytes are not those of its name,
    /// if it is gone, if a run that is visible at that version lacks one of its files in a table that is read, or if a run that
    /// was published with an earlier version is not visible any more.
    pub fn open_trusted(lake: &Lake, snapshot: &Snapshot, subjects: &Subjects, query: &Query, scratch: &Scratch) -> Result<Self> {
        Self::open_trusted_without(lake, snapshot, subjects, &BTreeSet::new(), query, scratch)
    }

    /// Reads as [`Reading::open_trusted`] does and with the same checks, without the files that only the runs in `known` name: their
    /// rows are known to the caller. Their bytes are not hashed. Other rows are complete only for the other runs.
    pub fn open_trusted_without(
        lake: &Lake,
        snapshot: &Snapshot,
        subjects: &Subjects,
        known: &BTreeSet<RunId>,
        query: &Query,
        scratch: &Scratch,
    ) -> Result<Self> {
        let mut reading = Self::empty(query);
        reading.rollback_errors(snapshot, subjects).next().map_or(Ok(()), Err)?;
        let needed: BTreeSet<&(String, Digest)> =
            subjects.runs.iter().filter(|(run, _)| !known.contains(*run)).flat_map(|(_, files)| files).collect();
        let mut there = BTreeSet::new();
        for (name, opened) in &mut reading.tables {
            let (table, version) = pinned_table(name, snapshot)?;
            for file in lake.files(table, version)?.into_iter().filter(|file| !subjects.is_left_out(table.name, file)) {
                let digest = verified_digest(table, version, &file, subjects)?;
                there.insert((table.name, digest));
                if known.is_empty() || needed.contains(&(table.name.to_owned(), digest)) {
                    opened.push((digest, fetch_checked(lake, table, &digest, scratch)?));
                }
            }
        }
        sort_files(&mut reading.tables);
        let (visible, absent) = reading.find_incomplete(&there, lake, snapshot, subjects)?;
        reading.visible = visible;
        absent.into_iter().next().map_or(Ok(reading), Err)
    }

    /// Returns the runs of the subjects whose rows are visible at the version of a trusted reading.
    pub fn visible_runs(&self) -> &BTreeSet<RunId> {
        &self.visible
    }

    /// Reads the tables of `query` at a version, without trust in the writers of their files. [`Reading::unverified`] names every
    /// file that a trusted reading would refuse. Files whose bytes or columns differ from their name or table are left out.
    pub fn open_unverified(
        lake: &Lake,
        snapshot: &Snapshot,
        subjects: &Subjects,
        query: &Query,
        scratch: &Scratch,
    ) -> Result<Self> {
        let mut reading = Self::empty(query);
        let mut named = BTreeSet::new();
        for (name, opened) in &mut reading.tables {
            // A warehouse without published runs has no tables yet.
            let Some(version) = snapshot.get(*name) else { continue };
            let (table, _) = pinned_table(name, snapshot)?;
            for file in lake.files(table, version.0)? {
                named.extend(file.digest.map(|digest| (table.name, digest)));
                let problem = verified_digest(table, version.0, &file, subjects).err();
                let (fetched, failure) = match fetch_any(lake, table, &file, scratch) {
                    Ok(fetched) => (Some(fetched), None),
                    Err(error) => (None, Some(error)),
                };
                if let Some(reason) = failure.as_ref().or(problem.as_ref()) {
                    reading.unverified.push(UnverifiedItem { reason: reason.to_string(), read: fetched.is_some() });
                }
                opened.extend(fetched);
            }
        }
        sort_files(&mut reading.tables);
        let mut absent: Vec<_> = reading.rollback_errors(snapshot, subjects).collect();
        if snapshot.contains_key(BENCHMARK_RUN_FACT.name) {
            absent.extend(reading.find_incomplete(&named, lake, snapshot, subjects)?.1);
        }
        reading.unverified.extend(absent.iter().map(|error| UnverifiedItem { reason: error.to_string(), read: false }));
        Ok(reading)
    }

    /// Returns the tables that have fewer versions than published runs pin, of those that are read and the one that makes runs
    /// visible.
    fn rollback_errors<'a>(&'a self, snapshot: &'a Snapshot, subjects: &'a Subjects) -> impl Iterator<Item = Error> + 'a {
        let tables: BTreeSet<_> = self.tables.keys().copied().chain([BENCHMARK_RUN_FACT.name]).collect();
        tables.into_iter().filter_map(|table| subjects.rollback_error(table, snapshot))
    }

    /// Returns the visible runs, and missing files and runs. A run whose row is there has all of its files there, and a published run is visible:
    /// otherwise, a log that lost some of them would give incomplete numbers without a sign.
    fn find_incomplete(
        &self,
        there: &BTreeSet<(&'static str, Digest)>,
        lake: &Lake,
        snapshot: &Snapshot,
        subjects: &Subjects,
    ) -> Result<(BTreeSet<RunId>, Vec<Error>)> {
        let (table, version) = pinned_table(BENCHMARK_RUN_FACT.name, snapshot)?;
        let mut visible_runs = BTreeSet::new();
        let visible: BTreeSet<_> = lake.files(table, version)?.into_iter().filter_map(|file| file.digest).collect();
        let mut absent = Vec::new();
        for (run, files) in &subjects.runs {
            if !files.iter().any(|(name, digest)| name == table.name && visible.contains(digest)) {
                let published = subjects.published.get(run).and_then(|published| version_of(published, table.name));
                absent.extend(published.map(|published| Error::Hidden { run: run.clone(), published, version }));
                continue;
            }
            visible_runs.insert(run.clone());
            let of_tables = files.iter().filter(|(name, _)| self.tables.contains_key(name.as_str()));
            absent.extend(
                of_tables
                    .filter(|(name, digest)| !there.contains(&(name.as_str(), *digest)))
                    .map(|(name, digest)| Error::Incomplete { run: run.clone(), table: name.clone(), digest: *digest }),
            );
        }
        Ok((visible_runs, absent))
    }

    fn empty(query: &Query) -> Self {
        Self {
            tables: query.tables().map(|table| (table.name, Vec::new())).collect(),
            unverified: Vec::new(),
            visible: BTreeSet::new(),
        }
    }

    /// Makes a reading of no table of the warehouse, for a query of foreign evidence alone.
    pub fn of_no_table() -> Self {
        Self { tables: OpenedFiles::new(), unverified: Vec::new(), visible: BTreeSet::new() }
    }

    /// Adds the files of tables of foreign evidence, whose rows the caller has made from verified documents. They are no files of the
    /// warehouse, and not among [`Reading::files`].
    #[must_use]
    pub fn with_foreign(mut self, foreign: OpenedFiles) -> Self {
        self.tables.extend(foreign);
        self
    }

    /// Returns the files that no verified Summary names. Empty for trusted readings.
    pub fn unverified(&self) -> &[UnverifiedItem] {
        &self.unverified
    }

    /// Returns the digests of the files that are read, by table: with the query, they determine the result.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, Digest)> {
        let own = self.tables.iter().filter(|(table, _)| foreign_table(table).is_none());
        own.flat_map(|(table, files)| files.iter().map(|(digest, _)| (*table, *digest)))
    }

    /// Runs the query. The result depends on the rows and the query alone: the same bytes from run to run.
    pub fn run_query(&self, query: &Query, limits: Limits) -> Result<ResultTable> {
        Ok(run_query(&self.tables, query, limits)?)
    }
}

fn pinned_table(name: &str, snapshot: &Snapshot) -> Result<(&'static Table, u64)> {
    let no_table = || assay_query::Error::NoTable(name.to_owned());
    let version = snapshot.get(name).ok_or_else(no_table)?;
    Ok((table(name).ok_or_else(no_table)?, version.0))
}

/// Returns the digest of a file that a verified Summary names.
fn verified_digest(table: &'static Table, version: u64, file: &TableFile, subjects: &Subjects) -> Result<Digest> {
    if let Some(why) = file.foreign {
        return Err(Error::Foreign { table: table.name, file: file.path.clone(), version, why });
    }
    let known = file.digest.filter(|digest| subjects.contains(table.name, digest));
    known.ok_or_else(|| Error::Unlisted { table: table.name, file: file.path.clone(), version })
}

/// Copies a table's file to private scratch, hashes it on its way, and then checks it: its signer may have made it too large to
/// be read.
fn fetch_checked(lake: &Lake, table: &'static Table, digest: &Digest, scratch: &Scratch) -> Result<ScratchFile> {
    let file = fetch(lake, table, digest, scratch)?;
    let bad = |problem| assay_query::Error::BadFile { table: table.name.to_owned(), digest: *digest, problem };
    check_file(table, &file).map_err(bad)?;
    Ok(file)
}

/// Copies a table's file to private scratch, hashed on its way.
fn fetch(lake: &Lake, table: &'static Table, digest: &Digest, scratch: &Scratch) -> Result<ScratchFile> {
    match lake.area().materialise(&data_path(table, digest), scratch)? {
        None => Err(Error::Missing { table: table.name, digest: *digest }),
        Some((found, _)) if found != *digest => Err(Error::Changed { table: table.name, expected: *digest, found }),
        Some((_, file)) => Ok(file),
    }
}

fn fetch_any(lake: &Lake, table: &'static Table, file: &TableFile, scratch: &Scratch) -> Result<(Digest, ScratchFile)> {
    let unreadable =
        |problem: &str| Error::Unreadable { table: table.name, file: file.path.clone(), problem: problem.to_owned() };
    if let Some(why) = file.foreign {
        return Err(unreadable(why));
    }
    let (digest, fetched) = if let Some(digest) = &file.digest {
        (*digest, fetch(lake, table, digest, scratch)?)
    } else {
        let found = lake.area().materialise(&format!("{}/{}", table.name, file.path), scratch)?;
        found.ok_or_else(|| unreadable("it is missing"))?
    };
    check_file(table, &fetched).map_err(|problem| unreadable(&problem))?;
    Ok((digest, fetched))
}
