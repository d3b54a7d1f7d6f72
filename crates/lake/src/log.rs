//! The tables and their logs: created at first use, read at a version, extended one commit at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, MapArray, RecordBatch, StringArray, StructArray, new_null_array};

use arrow_schema::{DataType as ArrowType, Fields, Schema};
use assay_manifest::{Count, Digest, RunId};
use assay_query::panic_text;
use assay_store::{Area, Scratch, Store};
use assay_warehouse::{TABLES, Table, Type};
use delta_kernel::arrow::buffer::OffsetBuffer;
use delta_kernel::committer::FileSystemCommitter;
use delta_kernel::engine::arrow_conversion::TryIntoArrow as _;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::scan::state::ScanFile;
use delta_kernel::schema::{DataType, MetadataValue, StructField, StructType};
use delta_kernel::snapshot::SnapshotRef;
use delta_kernel::transaction::{CommitResult, UpdateTableOperation};
use delta_kernel::{KernelError, KernelResult, Snapshot as LogSnapshot};
use serde_json::json;

use crate::engine::{AreaEngine, table_url};
use crate::error::READ;
use crate::{Error, Result};

/// The folder of the tables in a store.
pub const PREFIX: &str = "warehouse";
/// The number of times that other writers may come first before a commit gives up: each time, one of them finished its commit.
pub const MAX_COMMIT_ATTEMPTS: usize = 1_000;
/// The number of commits of a table after which its log is condensed into a checkpoint: a reader opens one file and fewer commits
/// than that.
pub const CHECKPOINT_INTERVAL: u64 = 20;
/// The name of the writer in the logs.
const ENGINE: &str = "assay";

/// A version of each table: the source of a number.
pub type Snapshot = BTreeMap<String, Count>;

/// A data file as a table's log names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableFile {
    /// Its path below the table.
    pub path: String,
    /// The digest in its name, if the name is one of Assay's: `<64 digits>.parquet`.
    pub digest: Option<Digest>,
    /// The reason why its rows are not the table's rows as they stand in it, independent of its name; `None` if they are.
    pub foreign: Option<&'static str>,
}

/// The warehouse of a store: thirteen Delta tables under `warehouse/`. Cheap to clone.
#[derive(Clone)]
pub struct Lake {
    store: Store,
    area: Area,
    engine: Arc<AreaEngine>,
}

impl std::fmt::Debug for Lake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lake").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Data files and the transaction ids under which they are added.
pub(crate) struct Addition<'a> {
    pub(crate) files: Vec<(&'a Digest, u64, u64)>,
    pub(crate) transactions: Vec<(String, i64)>,
}

/// The outcome of a commit.
pub(crate) enum CommitOutcome {
    /// It is in the log.
    Done(OpenTable),
    /// Another writer took the version.
    Conflict,
}

impl Lake {
    /// Opens the warehouse of `store`. Nothing is read or written yet.
    pub fn open(store: &Store) -> Result<Self> {
        let area = store.area(PREFIX)?;
        let engine = Arc::new(AreaEngine::new(area.clone()));
        Ok(Self { store: store.clone(), area, engine })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn area(&self) -> &Area {
        &self.area
    }

    /// Creates the tables that are not there yet. If several processes do so at a time, each table is created once.
    pub fn create_tables(&self) -> Result<()> {
        TABLES.into_iter().try_for_each(|table| self.latest_or_new(table).map(|_| ()))
    }

    /// Returns the newest version of every table that is there.
    pub fn latest(&self) -> Result<Snapshot> {
        self.latest_of(TABLES)
    }

    /// Returns the newest version of those of these tables that are there: each costs a reading of its log.
    pub fn latest_of(&self, tables: impl IntoIterator<Item = &'static Table>) -> Result<Snapshot> {
        let opened = self.open_newest(tables)?;
        Ok(opened.into_iter().map(|(name, open)| (name.to_owned(), Count(open.version()))).collect())
    }

    /// Opens the newest version of those of these tables that are there, by name.
    pub(crate) fn open_newest(
        &self,
        tables: impl IntoIterator<Item = &'static Table>,
    ) -> Result<BTreeMap<&'static str, OpenTable>> {
        let mut opened = BTreeMap::new();
        for table in tables {
            if let Some(open) = self.open_latest(table)? {
                opened.insert(table.name, open);
            }
        }
        Ok(opened)
    }

    /// Returns the data files of a table at a version, in the order of their paths.
    pub fn files(&self, table: &'static Table, version: u64) -> Result<Vec<TableFile>> {
        self.open_at(table, version)?.files(self)
    }

    /// Hashes a data file in place, and returns its size in bytes. Fails with [`Error::Missing`] and [`Error::Changed`].
    pub fn check_file(&self, table: &'static Table, digest: &Digest) -> Result<u64> {
        match self.area.digest(&data_path(table, digest))? {
            None => Err(Error::Missing { table: table.name, digest: *digest }),
            Some((found, _)) if found != *digest => Err(Error::Changed { table: table.name, expected: *digest, found }),
            Some((_, size)) => Ok(size),
        }
    }

    /// Returns true if a data file holds a row of a run. Fails if it cannot be read as a file of its table.
    pub fn has_rows_of(&self, table: &'static Table, file: &TableFile, run: &RunId, scratch: &Scratch) -> Result<bool> {
        let unreadable = |problem: String| Error::Unreadable { table: table.name, file: file.path.clone(), problem };
        let found = self.area.materialise(&format!("{}/{}", table.name, file.path), scratch)?;
        let (_, copy) = found.ok_or_else(|| unreadable("it is missing".to_owned()))?;
        let mut has_rows = false;
        assay_warehouse::for_each_row(table, copy.open()?, |row| {
            has_rows |= row.text("run_id") == Some(run.as_str());
            Ok(())
        })
        .map_err(|error| unreadable(error.to_string()))?;
        Ok(has_rows)
    }

    /// Runs a piece of the kernel's work, and turns its failures and panics into this crate's errors.
    fn kernel<T>(
        &self,
        table: &'static Table,
        action: &'static str,
        work: impl FnOnce(&AreaEngine) -> KernelResult<T>,
    ) -> Result<T> {
        let done = catch_unwind(AssertUnwindSafe(|| work(&self.engine)));
        let done = done.map_err(|panic| Error::Panicked(panic_text(&*panic)))?;
        done.map_err(|source| failed(action, table, source))
    }

    pub(crate) fn open_at(&self, table: &'static Table, version: u64) -> Result<OpenTable> {
        let url = table_url(table.name);
        let opened = self.kernel(table, READ, |engine| LogSnapshot::builder_for(url).at_version(version).build(engine));
        let failed = match opened {
            Ok(snapshot) => return OpenTable::from_snapshot(table, snapshot),
            Err(error) => error,
        };
        // Checked only after a failure: later commits, valid or not, do not affect a pinned version.
        match self.open_latest(table)? {
            Some(newest) if newest.version() >= version => Err(failed),
            _ => Err(Error::NoVersion { table: table.name, version }),
        }
    }

    /// Returns the newest version of a table; `None` if there is no table.
    ///
    /// A listing is no snapshot: of names that appear while it is made it may have a later one without an earlier one, and a
    /// table that was absent a moment ago may exist now. Therefore a failure counts only if nothing was added to the log
    /// meanwhile.
    fn open_latest(&self, table: &'static Table) -> Result<Option<OpenTable>> {
        let log = format!("{}/_delta_log", table.name);
        let mut seen = None;
        for _ in 0..MAX_COMMIT_ATTEMPTS {
            let url = table_url(table.name);
            let error = match self.kernel(table, READ, |engine| LogSnapshot::builder_for(url).build(engine)) {
                Ok(snapshot) => return OpenTable::from_snapshot(table, snapshot).map(Some),
                Err(error) => error,
            };
            // The kernel has several errors for a missing table; an empty log has one meaning.
            let found = self.area.list(&log, None)?;
            if found.is_empty() {
                return Ok(None);
            }
            if seen.as_ref() == Some(&found) {
                return Err(error);
            }
            seen = Some(found);
        }
        Err(Error::Contended { table: table.name, attempts: MAX_COMMIT_ATTEMPTS })
    }

    pub(crate) fn latest_or_new(&self, table: &'static Table) -> Result<OpenTable> {
        if let Some(open) = self.open_latest(table)? {
            return Ok(open);
        }
        // A second creator finds the same bytes there, so it does not matter who was first.
        self.area.create(&format!("{}/_delta_log/{:020}.json", table.name, 0), first_commit(table).as_bytes())?;
        self.open_latest(table)?.ok_or_else(|| assay_query::Error::NoTable(table.name.to_owned()).into())
    }

    /// Returns the version with which a transaction id was committed, if it was.
    pub(crate) fn transaction(&self, open: &OpenTable, id: &str) -> Result<Option<i64>> {
        self.kernel(open.table, READ, |engine| open.snapshot.get_app_id_version(id, engine))
    }

    /// Tries to add files as the version after the open one.
    pub(crate) fn commit(&self, open: &OpenTable, addition: &Addition<'_>) -> Result<CommitOutcome> {
        let result = self.kernel(open.table, "add to", |engine| {
            let snapshot = Arc::clone(&open.snapshot);
            let builder = snapshot.update_table(UpdateTableOperation::Write, ENGINE, true);
            let mut transaction = builder.build(engine, Box::new(FileSystemCommitter::new()))?;
            for (id, version) in &addition.transactions {
                transaction = transaction.with_transaction_id(id.clone(), *version);
            }
            let schema = transaction.add_files_schema();
            transaction.add_files(Box::new(ArrowEngineData::new(add_actions(schema, &addition.files)?)));
            transaction.commit(engine)
        })?;
        match result {
            CommitResult::Committed(committed) => {
                let snapshot = match committed.post_commit_snapshot() {
                    Some(snapshot) => Arc::clone(snapshot),
                    None => self.kernel(open.table, READ, |engine| {
                        LogSnapshot::builder_for(table_url(open.table.name)).at_version(committed.commit_version()).build(engine)
                    })?,
                };
                Ok(CommitOutcome::Done(OpenTable { table: open.table, snapshot }))
            }
            CommitResult::Conflicted(_) => Ok(CommitOutcome::Conflict),
            CommitResult::Retryable(retryable) => Err(failed("add to", open.table, retryable.error)),
        }
    }

    /// Writes a checkpoint if one is due. The commit stands whether this succeeds or not.
    pub(crate) fn checkpoint_if_due(&self, open: &OpenTable) {
        if !open.version().is_multiple_of(CHECKPOINT_INTERVAL) {
            return;
        }
        let written = self.kernel(open.table, "sum up", |engine| open.snapshot.checkpoint(engine, None));
        if let Err(error) = written {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(table = open.table.name, version = open.version(), %error, cause, "no checkpoint of a warehouse table");
        }
    }
}

/// Wraps a failure of the kernel, without the backtrace that it may carry: that is for the kernel's authors.
fn failed(action: &'static str, table: &'static Table, error: KernelError) -> Error {
    let mut error = error;
    while let KernelError::Backtraced { source, .. } = error {
        error = *source;
    }
    Error::Log { action, table: table.name, source: Box::new(error) }
}

/// A table at a version, whose schema is the table's.
#[derive(Clone)]
pub(crate) struct OpenTable {
    table: &'static Table,
    snapshot: SnapshotRef,
}

impl OpenTable {
    fn from_snapshot(table: &'static Table, snapshot: SnapshotRef) -> Result<Self> {
        match difference(&schema(table), &snapshot.schema()) {
            None => Ok(Self { table, snapshot }),
            Some(problem) => Err(Error::OtherSchema { table: table.name, problem }),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.snapshot.version()
    }

    pub(crate) fn files(&self, lake: &Lake) -> Result<Vec<TableFile>> {
        let found = lake.kernel(self.table, READ, |engine| {
            let scan = Arc::clone(&self.snapshot).scan_builder().build()?;
            let mut files = BTreeSet::new();
            for batch in scan.scan_metadata(engine)? {
                files = batch?.visit_scan_files(files, |files, file| {
                    files.insert(table_file(&file));
                })?;
            }
            Ok(files)
        })?;
        Ok(found.into_iter().collect())
    }
}

fn table_file(file: &ScanFile) -> TableFile {
    let digest = file.path.strip_suffix(".parquet").and_then(|hex| Digest::from_hex(hex).ok());
    let foreign = if file.dv_info.has_vector() {
        Some("rows of it are marked as deleted")
    } else if !file.partition_values.is_empty() {
        Some("it belongs to a partition")
    } else {
        None
    };
    TableFile { path: file.path.chars().take(200).collect(), digest, foreign }
}

/// Returns the path of a data file below the area.
pub(crate) fn data_path(table: &Table, digest: &Digest) -> String {
    format!("{}/{}.parquet", table.name, digest.hex())
}

fn field(column: &assay_warehouse::Column) -> StructField {
    let kind = match column.kind {
        Type::Bool => DataType::BOOLEAN,
        Type::Int | Type::Instant => DataType::LONG,
        Type::Float => DataType::DOUBLE,
        Type::Text => DataType::STRING,
    };
    let mut notes = HashMap::from([("comment", MetadataValue::String(column.doc.to_owned()))]);
    if let Some(unit) = column.unit {
        notes.insert("unit", MetadataValue::String(unit.to_owned()));
    }
    StructField::new(column.name, kind, column.nullable).with_metadata(notes)
}

/// Returns the Delta schema of a table, with each column's meaning as its comment.
fn schema(table: &Table) -> Vec<StructField> {
    table.columns().map(field).collect()
}

/// Returns the difference in the schema of a table that was found. Comments may differ: they are for people. A nullable column
/// may be missing, because it may have been added to this program later.
fn difference(expected: &[StructField], found: &StructType) -> Option<String> {
    let mut found = found.fields().peekable();
    for expected in expected {
        let Some(field) = found.next_if(|field| field.name() == expected.name()) else {
            if expected.is_nullable() {
                continue;
            }
            return Some(match found.peek() {
                Some(other) => {
                    let name: String = other.name().chars().take(80).collect();
                    format!("column `{name}` stands where `{}` should", expected.name())
                }
                None => format!("column `{}` is missing", expected.name()),
            });
        };
        let name: String = field.name().chars().take(80).collect();
        if field.data_type() != expected.data_type() || field.is_nullable() != expected.is_nullable() {
            let null = if field.is_nullable() { "nullable" } else { "not null" };
            return Some(format!("column `{name}` is {} and {null}", field.data_type()));
        }
    }
    found.next().map(|field| format!("column `{}` is one too many", field.name().chars().take(80).collect::<String>()))
}

/// Returns the first commit of a table, the same bytes from every writer: no clock and no random id, unlike the kernel's own.
///
/// Protocol 1 and 2 are the oldest that support append-only tables, so that every reader of Delta tables reads these. Logs are
/// kept: a pinned version must stay readable after another program writes a checkpoint and cleans up.
fn first_commit(table: &Table) -> String {
    let columns: Vec<_> = schema(table)
        .iter()
        .zip(table.columns())
        .map(|(field, column)| {
            let mut notes = json!({ "comment": column.doc });
            if let Some(unit) = column.unit {
                notes["unit"] = unit.into();
            }
            json!({ "name": column.name, "type": field.data_type().to_string(), "nullable": column.nullable, "metadata": notes })
        })
        .collect();
    let schema = json!({ "type": "struct", "fields": columns }).to_string();
    let hex = Digest::compute(format!("assay table {}\n{schema}", table.name).as_bytes()).hex();
    let id = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]].join("-");
    let configuration = json!({
        "delta.appendOnly": "true",
        "delta.checkpointInterval": CHECKPOINT_INTERVAL.to_string(),
        "delta.logRetentionDuration": "interval 36500 days",
    });
    let actions = [
        json!({ "commitInfo": { "timestamp": 0, "operation": "CREATE TABLE", "operationParameters": {}, "engineInfo": ENGINE } }),
        json!({ "protocol": { "minReaderVersion": 1, "minWriterVersion": 2 } }),
        json!({ "metaData": {
            "id": id,
            "name": table.name,
            "description": table.doc,
            "format": { "provider": "parquet", "options": {} },
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": configuration,
            "createdTime": 0,
        } }),
    ];
    actions.iter().flat_map(|action| [action.to_string(), "\n".to_owned()]).collect()
}

/// Returns the add actions of files, `(digest, bytes, rows)`, in the columns that the kernel requires.
fn add_actions(schema: &StructType, files: &[(&Digest, u64, u64)]) -> KernelResult<RecordBatch> {
    let schema: Schema = schema.try_into_arrow()?;
    let whole = |number: u64| i64::try_from(number).map_err(KernelError::generic_err);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let now = i64::try_from(now).map_err(KernelError::generic_err)?;
    let sizes = files.iter().map(|(_, bytes, _)| whole(*bytes)).collect::<KernelResult<Int64Array>>()?;
    let rows = files.iter().map(|(_, _, rows)| whole(*rows)).collect::<KernelResult<Int64Array>>()?;
    let columns = schema.fields().iter().map(|field| -> KernelResult<ArrayRef> {
        Ok(match field.name().as_str() {
            "path" => {
                Arc::new(files.iter().map(|(digest, ..)| Some(format!("{}.parquet", digest.hex()))).collect::<StringArray>())
            }
            "partitionValues" => no_partitions(field.data_type(), files.len())?,
            "size" => Arc::new(sizes.clone()),
            "modificationTime" => Arc::new(Int64Array::from_value(now, files.len())),
            "stats" => stats(field.data_type(), &rows)?,
            _ => new_null_array(field.data_type(), files.len()),
        })
    });
    let columns = columns.collect::<KernelResult<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

fn no_partitions(kind: &ArrowType, count: usize) -> KernelResult<ArrayRef> {
    let ArrowType::Map(entries, sorted) = kind else { return Err(KernelError::generic("partition values are a map")) };
    let ArrowType::Struct(fields) = entries.data_type() else { return Err(KernelError::generic("a map has entries")) };
    let none = StructArray::new_null(fields.clone(), 0);
    let offsets = OffsetBuffer::new_zeroed(count);
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, none, None, *sorted)?))
}

/// Returns the statistics of files in the log: their numbers of rows. Their ranges are in the files themselves.
fn stats(kind: &ArrowType, rows: &Int64Array) -> KernelResult<ArrayRef> {
    let ArrowType::Struct(fields) = kind else { return Err(KernelError::generic("statistics are a struct")) };
    let fields: &Fields = fields;
    let arrays = fields.iter().map(|field| match field.name().as_str() {
        "numRecords" => Arc::new(rows.clone()) as ArrayRef,
        _ => new_null_array(field.data_type(), rows.len()),
    });
    Ok(Arc::new(StructArray::try_new(fields.clone(), arrays.collect(), None)?))
}
