//! The errors of this crate, and their conversion into failures.

use std::fmt;
use std::io;
use std::path::PathBuf;

use assay_chain::BrokenLink;
use assay_envelope::VerifyError;
use assay_failure::{ErrorCode, Exit, Failure};
use assay_manifest::{
    Block, CaseId, Count, Digest, DocumentError, Intent, Kind, Name, RunId, Shard, TargetKind, TrialId, ordinal,
};

use crate::queries::lake_failure;

/// An error of another library.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a run does not verify, or cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A failure that a caller, the stage contract or the derivation of a Plan has stated.
    #[error("{}", .0.message)]
    Stated(Failure),
    /// A manifest or bundle is refused.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// The manifests of the run do not belong together.
    #[error(transparent)]
    Link(#[from] BrokenLink),
    /// A call of the store failed.
    #[error(transparent)]
    Store(#[from] assay_store::Error),
    /// The warehouse cannot be read, or contradicts itself.
    #[error(transparent)]
    Warehouse(#[from] assay_lake::Error),
    /// A curated file cannot be read.
    #[error(transparent)]
    Rows(#[from] assay_warehouse::Error),
    /// A manifest of the run cannot be loaded or does not verify.
    #[error("the {kind} does not verify: {source}")]
    Unverified {
        /// Its kind.
        kind: Kind,
        /// The reason.
        source: Box<Error>,
    },
    /// A query that worked when the run was published does not work now.
    #[error("{0}")]
    Requery(Box<Error>),
    /// The published trust policy does not parse.
    #[error("{}", .0.message)]
    PublishedPolicy(Failure),
    /// A file or folder cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A folder holds more files than a published run.
    #[error("`{}` holds more than {limit} files", folder.display())]
    TooManyFiles {
        /// The folder.
        folder: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The files of a folder are larger than a published run.
    #[error("the files of `{}` have more than {limit} bytes", folder.display())]
    FolderTooLarge {
        /// The folder.
        folder: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A folder holds folders that are nested deeper than those of a published run.
    #[error("`{}` holds folders that are nested more than {limit} deep", folder.display())]
    FolderTooDeep {
        /// The folder.
        folder: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// A file is larger than the caller allows.
    #[error("`{}` has {size} bytes, more than the limit of {limit}", path.display())]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file changed after it was hashed.
    #[error("`{}` changed while it was read: it was {before} and is {now}", path.display())]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// Its digest before.
        before: Digest,
        /// Its digest now.
        now: Digest,
    },
    /// A file of a published folder has other bytes than its manifest says.
    #[error("`{path}` is not the published file: its bytes are {found}, not {expected}")]
    OtherFile {
        /// Its path in the folder.
        path: String,
        /// The digest of its bytes.
        found: Digest,
        /// The digest in the manifest.
        expected: Digest,
    },
    /// A file of a published folder is absent.
    #[error("the published file `{path}` ({digest}) is missing")]
    NoFile {
        /// Its path in the folder.
        path: String,
        /// The digest in the manifest.
        digest: Digest,
    },
    /// A link, or another entry that is no plain file, is in the place of a published file.
    #[error("the published file `{path}` is a link or another entry that is no plain file")]
    SpecialFile {
        /// Its path in the folder.
        path: String,
    },
    /// An artifact is absent that travels with the run.
    #[error("the {holder} `{name}` ({digest}) is missing")]
    NoArtifact {
        /// The holder of the artifact.
        holder: ArtifactHolder,
        /// Its name.
        name: String,
        /// Its digest.
        digest: Digest,
    },
    /// An artifact has another size than its signed manifest says.
    #[error("`{name}` has {found} bytes, and the signed manifest says {stated}")]
    SizeDiffers {
        /// The artifact.
        name: String,
        /// Its size in bytes.
        found: u64,
        /// The size in the manifest.
        stated: Count,
    },
    /// The store has no run of that name.
    #[error("the store `{store}` has no run `{run_id}`")]
    NoRun {
        /// The URI of the store.
        store: String,
        /// The run.
        run_id: RunId,
    },
    /// A folder is not that of a published run.
    #[error("the folder holds no `{0}`")]
    NoPublishedRun(&'static str),
    /// The Publication of a folder does not parse.
    #[error("`chain/publication.json` is not a manifest")]
    Publication(#[source] DocumentError),
    /// A manifest of the chain, or its bundle, is absent.
    #[error(
        "the {part} {digest} of the {kind}{} is missing",
        named_by.map(|kind| format!(", which the {kind} was made from,")).unwrap_or_default()
    )]
    NoManifest {
        /// The part that is absent.
        part: ManifestPart,
        /// Its digest.
        digest: Digest,
        /// The kind of the manifest.
        kind: Kind,
        /// The manifest that names it.
        named_by: Option<Kind>,
    },
    /// The chain lacks a manifest of a kind.
    #[error("the chain has no {0}")]
    NoDocument(Kind),
    /// The Source does not prove that its files are those of its commit.
    #[error(transparent)]
    Commit(Cause),
    /// The Source is of a commit and does not name it.
    #[error("the source is of a commit, but does not name it")]
    CommitNotNamed,
    /// A pointer of the store leads elsewhere than its path says.
    #[error("the pointer `{path}` leads to {target}")]
    Pointer {
        /// The pointer.
        path: String,
        /// The object that it leads to.
        target: PointerTarget,
        /// The reason why the target is not a manifest.
        #[source]
        source: Option<DocumentError>,
    },
    /// A signed statement contradicts the manifest that it is about.
    #[error("the statement about the {manifest} names {difference} than the manifests do")]
    Statement {
        /// The name of the manifest.
        manifest: String,
        /// The fact that differs, such as `another run`.
        difference: &'static str,
    },
    /// An event is before another one on which it rests.
    #[error("{later} at {later_at}, which is before {earlier} at {earlier_at}")]
    TimeOrder {
        /// The event.
        later: String,
        /// Its time, in seconds.
        later_at: String,
        /// The event on which it rests.
        earlier: String,
        /// Its time, in seconds.
        earlier_at: String,
    },
    /// A duration contradicts its start and end.
    #[error("{window} lasted {lasted_ns} ns by its own clock, and {between_ns} ns lie between its start and its end")]
    Duration {
        /// The window.
        window: String,
        /// Its duration in nanoseconds.
        lasted_ns: i64,
        /// The time between its start and end, in nanoseconds.
        between_ns: i64,
    },
    /// The list of evidence is malformed, or contradicts the Collection.
    #[error("{0}")]
    EvidenceList(EvidenceFault),
    /// The list of evidence leaves out a raw file.
    #[error("the collection's list of evidence leaves out `{name}` ({digest}), which a signed manifest of the run names")]
    EvidenceIncomplete {
        /// The file.
        name: String,
        /// Its digest.
        digest: Digest,
    },
    /// An attempt contradicts the Plan or itself.
    #[error("attempt {} of trial `{trial}` {difference}", ordinal(*.attempt))]
    Attempt {
        /// The attempt.
        attempt: u32,
        /// The trial.
        trial: TrialId,
        /// The contradiction, as a predicate.
        difference: String,
    },
    /// The Collection names another place of an attempt than its execution part.
    #[error("the collection places attempt {} of trial `{trial}` in another block or shard than its execution part", ordinal(*.attempt))]
    AttemptPlace {
        /// The attempt.
        attempt: u32,
        /// The trial.
        trial: TrialId,
    },
    /// An execution part is of a shard that there is not.
    #[error("an execution part is of shard {}, and there are {} shards, numbered from 0", .0.index, .0.count)]
    NoShard(Shard),
    /// The Collection names other differences between blocks than the Environments have.
    #[error("the collection names {stated} differences between blocks, and its environments have {found}")]
    Drift {
        /// The number of differences in the Collection.
        stated: usize,
        /// The number of differences between the Environments.
        found: usize,
    },
    /// An Environment has a target that the Plan does not have.
    #[error("the environment has a target `{target}` ({kind}), which the plan does not have")]
    OtherTarget {
        /// The target.
        target: Name,
        /// Its kind.
        kind: TargetKind,
    },
    /// An Environment describes a target twice.
    #[error("the environment describes the target `{0}` twice")]
    TargetTwice(Name),
    /// The servers behind a target's address are neither the listed ones nor pods of the target.
    #[error(
        "the environment has servers of the target `{0}` that are neither those that the plan lists nor in pods of the target"
    )]
    OtherReplicas(Name),
    /// A manifest is of another block than its Environment.
    #[error(
        "the {kind} says that it is of block {}.{}, and was made from the environment of block {}.{}",
        stated.index, stated.incarnation, environment.index, environment.incarnation
    )]
    OtherBlock {
        /// The kind of the manifest.
        kind: Kind,
        /// Its block.
        stated: Block,
        /// The block of the Environment.
        environment: Block,
    },
    /// A table that this version does not define is named.
    #[error("the {namer} names a table `{table}`{}", if *namer == TableNamer::Run { ", which does not exist" } else { "" })]
    NoTable {
        /// The place of the name.
        namer: TableNamer,
        /// The table.
        table: String,
    },
    /// The Summary names two files of one table.
    #[error("the summary names two files of the table `{0}`")]
    TableTwice(&'static str),
    /// A curated file has another number of rows than the Summary says.
    #[error("`{file}` has {found} rows, and the summary says {stated}")]
    RowCount {
        /// The file.
        file: String,
        /// The number of its rows.
        found: usize,
        /// The number in the Summary.
        stated: Count,
    },
    /// A row has a value in a reserved column.
    #[error("a row of `{table}` has a value in `{column}`, which nothing fills yet")]
    ReservedColumn {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// A table holds a row twice.
    #[error("`{file}` holds the row `{row}` twice")]
    RowTwice {
        /// The row.
        row: String,
        /// The curated file.
        file: String,
    },
    /// A row contradicts the manifests of its run.
    #[error("the row `{row}` of `{table}` does not say what the run's manifests say: {difference} differs")]
    Row {
        /// The row.
        row: String,
        /// The table.
        table: &'static str,
        /// The part that differs.
        difference: String,
    },
    /// A table has another number of rows than the run gives, or a row that it does not give.
    #[error("{0}")]
    ExtraRow(ExtraRow),
    /// No row holds a statistic of the Summary.
    #[error("no row holds the {statistic} of `{metric}` of {case} at `{point}`, which the summary has")]
    NoRow {
        /// The statistic.
        statistic: String,
        /// The metric.
        metric: String,
        /// The case.
        case: CaseId,
        /// The point.
        point: String,
    },
    /// The points of the Summary are not those of the Plan.
    #[error("the summary's points are not those of the plan, in its order")]
    Points,
    /// A point of the Summary contradicts the evidence.
    #[error("the summary's {case} at `{point}` contradicts the evidence: {difference} differs")]
    Point {
        /// The case.
        case: CaseId,
        /// The point.
        point: String,
        /// The part that differs.
        difference: String,
    },
    /// The Summary names no file or row for one of its numbers.
    #[error("the summary names no {part} for `{metric}` of {case} at `{point}`")]
    NumberWithoutRow {
        /// The part that is missing: `file` or `row`.
        part: &'static str,
        /// The metric.
        metric: String,
        /// The case.
        case: CaseId,
        /// The point.
        point: String,
    },
    /// A published number differs from its row.
    #[error("the number `{address}` is not the one in its row: {difference} differs")]
    Number {
        /// The address of the number.
        address: String,
        /// The part that differs.
        difference: &'static str,
    },
    /// The published numbers do not parse.
    #[error("the published numbers cannot be read")]
    Numbers(#[source] serde_json::Error),
    /// The published numbers are not those of the Summary and the queries.
    #[error("the published `{name}` does not hold exactly the {count} numbers of the summary and its queries")]
    OtherNumbers {
        /// The published file.
        name: String,
        /// The number of numbers that follow from the run.
        count: usize,
    },
    /// The published numbers belong to something else than their Publication.
    #[error("the published numbers are of another {0} than their publication")]
    NumbersOfOther(&'static str),
    /// A published number is not published as the queries select it.
    #[error("the number `{0}` is not published as the queries select it")]
    NumberNotInQuery(String),
    /// The published queries are not those of the Plan.
    #[error("the published queries are not those that the plan pins")]
    Queries,
    /// A query gives another result than the published one.
    #[error("the query `{0}` gives another result than the published one")]
    QueryResult(String),
    /// A row of a query's result is not a row of the run, or changes one.
    #[error("`{query}`: {fault}")]
    QueryRow {
        /// The file of the query.
        query: String,
        /// The fault of the row.
        fault: QueryRowFault,
    },
    /// The grade is not the one that the evidence earns.
    #[error("the run is published as `{published}` grade, but its evidence earns `{earned}`")]
    Grade {
        /// The published grade.
        published: Intent,
        /// The earned grade.
        earned: Intent,
    },
    /// The Publication lists its own run falsely.
    #[error("the publication does not list its own run exactly once, with its cases and its outcome")]
    OwnRun,
    /// The published keys or the published trust policy are false.
    #[error("{0}")]
    Keys(KeysFault),
    /// The published reports are false.
    #[error("{0}")]
    Reports(ReportsFault),
    /// The views of the Summary do not parse.
    #[error("the summary's views are damaged")]
    Views(#[source] serde_json::Error),
    /// A frozen workload does not parse.
    #[error("the frozen workload `{workload}` is damaged")]
    Workload {
        /// The workload.
        workload: Name,
        /// The error of its JSON.
        #[source]
        source: serde_json::Error,
    },
    /// The store has no warehouse, to which the run was published.
    #[error("the run was published to the warehouse of its store, and `{0}` has no warehouse")]
    NoWarehouse(String),
    /// A file of the run is not in its table, or not as it was added.
    #[error("{0}")]
    Snapshot(SnapshotFault),
    /// A file of a table came with the run and is named by no signed Summary.
    #[error("the file `{file}` of the warehouse's table `{table}` {tie}, and no signed summary names it")]
    ForeignFile {
        /// The file.
        file: String,
        /// The table.
        table: &'static str,
        /// Its tie to the run.
        tie: ForeignTie,
    },
    /// A tombstone of the run explains nothing.
    #[error("the tombstone `{path}` {fault}")]
    Tombstone {
        /// The path of its pointer.
        path: String,
        /// Its fault.
        fault: TombstoneFault,
    },
    /// The calibration that an Environment names is not the one of its block.
    #[error("the calibration of block {}: {fault}", .block.index)]
    Calibration {
        /// The block.
        block: Block,
        /// Its fault.
        fault: CalibrationFault,
    },
    /// The search result that a workload of the Plan names is not what it has to be.
    #[error("the search result of workload `{workload}`: {fault}")]
    Search {
        /// The workload.
        workload: Name,
        /// Its fault.
        fault: SearchFault,
    },
    /// The same program gives another result when it reduces the evidence again.
    #[error("reduce, run again, gives a different {0}")]
    Recomputed(String),
    /// Another version gives another result when it reduces the evidence again.
    #[error("reduce, run again, gives a different result: {0} differs")]
    RecomputedByOther(String),
    /// A value has no JSON form, which is a defect of this program.
    #[error("{value} {}", value.form())]
    Unwritable {
        /// The value.
        value: Unwritable,
        /// The error of the writer.
        #[source]
        source: Cause,
    },
}

/// The holder of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactHolder {
    /// The Source.
    Source,
    /// The published folder.
    Published,
}

impl fmt::Display for ArtifactHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source's",
            Self::Published => "published",
        })
    }
}

/// A part of a signed manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestPart {
    /// The manifest itself.
    Manifest,
    /// Its bundle.
    Bundle,
}

impl fmt::Display for ManifestPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Manifest => "manifest",
            Self::Bundle => "bundle",
        })
    }
}

/// The object that a pointer leads to instead of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointerTarget {
    /// Bytes that are not a manifest.
    NoManifest,
    /// Another Source than the one of the chain.
    OtherSource,
    /// A manifest of another run.
    OtherRun(RunId),
    /// A manifest of another kind.
    OtherKind {
        /// Its kind.
        found: Kind,
        /// The kind that the path states.
        expected: Kind,
    },
    /// The checkpoint of another step.
    OtherStep,
    /// A manifest of this kind that has another number.
    OtherNumber(Kind),
}

impl fmt::Display for PointerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoManifest => f.write_str("bytes that are not a manifest"),
            Self::OtherSource => f.write_str("another source than the one that the run rests on"),
            Self::OtherRun(run_id) => write!(f, "a manifest of run `{run_id}`"),
            Self::OtherKind { found, expected } => write!(f, "a {found} instead of a {expected}"),
            Self::OtherStep => f.write_str("the checkpoint of another step"),
            Self::OtherNumber(kind) => write!(f, "a {kind} of another number"),
        }
    }
}

/// The reason why a tombstone explains nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TombstoneFault {
    /// Its pointer leads to no tombstone.
    NoPointer,
    /// It was made from manifests that are not of the run.
    OtherRun,
    /// It is the one of another number.
    Moved(u32),
    /// Its list of artifacts is missing.
    NoList,
    /// Its list has other totals than it states.
    OtherList,
}

impl fmt::Display for TombstoneFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPointer => f.write_str("is none"),
            Self::OtherRun => f.write_str("was made from manifests that are not of this run"),
            Self::Moved(sequence) => write!(f, "is the one of number {sequence}"),
            Self::NoList => f.write_str("has no list of what was removed"),
            Self::OtherList => f.write_str("lists other artifacts than it states"),
        }
    }
}

/// The fault of a calibration that an Environment names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibrationFault {
    /// Its manifest or bundle is not among the readings.
    NoReading,
    /// It has another time or other ceilings than the Environment states.
    OtherCeilings,
    /// It is of another machine than that of the load.
    OtherMachine,
    /// It is of another program than the one that made the load.
    OtherProgram,
}

impl fmt::Display for CalibrationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoReading => "its manifest or bundle is not among the readings of the environment",
            Self::OtherCeilings => "it has another time or other ceilings than the environment states",
            Self::OtherMachine => "it is of another machine than that of the load",
            Self::OtherProgram => "it is of another program than the one that made the load",
        })
    }
}

/// The fault of a search result that a workload names.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchFault {
    /// Its manifest or bundle is absent.
    Absent,
    /// It does not lead to its loads and its end again.
    Replay(assay_search::ReplayFault),
    /// The workload is not what the search was for.
    Workload(assay_search::WorkloadMismatch),
}

impl fmt::Display for SearchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("its manifest or bundle is absent"),
            Self::Replay(fault) => write!(f, "{fault}"),
            Self::Workload(mismatch) => write!(f, "it was for another workload: {mismatch}"),
        }
    }
}

/// The fault of a list of evidence.
#[derive(Debug)]
pub enum EvidenceFault {
    /// It is not the JSON document that every Collection names.
    OtherDocument,
    /// It does not parse.
    Malformed(serde_json::Error),
    /// It has another number of entries than the Collection says.
    Count {
        /// The number of entries.
        found: usize,
        /// The number in the Collection.
        stated: Count,
    },
    /// It names another number of bytes than the Collection says.
    Bytes {
        /// The bytes of its entries.
        found: Count,
        /// The bytes in the Collection.
        stated: Count,
    },
    /// It is not sorted, or names a file twice.
    Order,
}

impl fmt::Display for EvidenceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherDocument => f.write_str("the collection's list of evidence is not its JSON document `evidence.json`"),
            Self::Malformed(_) => f.write_str("the list of evidence cannot be read"),
            Self::Count { found, stated } => {
                write!(f, "the list of evidence has {found} entries, and the collection says {stated}")
            }
            Self::Bytes { found, stated } => {
                write!(f, "the list of evidence names {found} bytes, and the collection says {stated}")
            }
            Self::Order => f.write_str("the list of evidence is not in order, or names something twice"),
        }
    }
}

/// The place that names a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableNamer {
    /// The Summary.
    Summary,
    /// The Summary or the Publication.
    Run,
}

impl fmt::Display for TableNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Summary => "summary",
            Self::Run => "run",
        })
    }
}

/// Rows that the manifests of the run do not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtraRow {
    /// A row of `outcome_fact` holds a statistic that the Summary does not have.
    Statistic(String),
    /// `serving_outcome_fact` has another number of rows than the Summary has serving points.
    Serving {
        /// The number of rows.
        rows: usize,
        /// The number of serving points.
        points: usize,
    },
    /// `benchmark_run_fact` has another number of rows than the Plan has cases.
    Cases {
        /// The number of rows.
        rows: usize,
        /// The number of cases.
        cases: usize,
    },
    /// `attempt_fact` has another number of rows than the run has attempts.
    Attempts {
        /// The number of rows.
        rows: usize,
        /// The number of attempts.
        attempts: usize,
    },
}

impl fmt::Display for ExtraRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statistic(row) => {
                write!(f, "the row `{row}` of `outcome_fact` holds a statistic that the summary does not have")
            }
            Self::Serving { rows, points } => {
                write!(f, "`serving_outcome_fact` has {rows} rows, and the summary has {points} serving points")
            }
            Self::Cases { rows, cases } => write!(f, "`benchmark_run_fact` has {rows} rows, and the plan has {cases} cases"),
            Self::Attempts { rows, attempts } => write!(f, "`attempt_fact` has {rows} rows, and the run has {attempts} attempts"),
        }
    }
}

/// The fault of a row of a query's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryRowFault {
    /// The row has no `row_id`.
    NoRowId,
    /// The `row_id` is of no row of the run that holds numbers.
    UnknownRow(String),
    /// The row holds another value than the query gives.
    OtherValue {
        /// The row.
        row: String,
        /// The column.
        column: String,
    },
}

impl fmt::Display for QueryRowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRowId => f.write_str("a row has no `row_id`"),
            Self::UnknownRow(row) => write!(f, "`row_id` {row} is no row of this run that holds numbers"),
            Self::OtherValue { row, column } => write!(f, "the row {row} holds another `{column}` than the query gives"),
        }
    }
}

impl QueryRowFault {
    fn hint(&self) -> &'static str {
        match self {
            Self::NoRowId => "an outer join may have made it; select rows that are there",
            Self::UnknownRow(_) => {
                "published rows are those of `outcome_fact`, `serving_outcome_fact` and `training_outcome_fact`"
            }
            Self::OtherValue { .. } => "give a column that you compute a name of its own: statistics are not made by queries",
        }
    }
}

/// The fault of published keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysFault {
    /// The published trust policy is not that of the Publication.
    Policy,
    /// The published keys are not those of the published trust policy.
    Keys,
}

impl fmt::Display for KeysFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "the published `trust.yaml` is not the trust policy of the publication",
            Self::Keys => "the published keys are not those of the published trust policy",
        })
    }
}

/// The fault of published reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportsFault {
    /// The program that made a report gives another one now.
    Content,
    /// The reports have other names than those of every run.
    Names,
}

impl fmt::Display for ReportsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Content => "a published report is not the one that the verified run gives",
            Self::Names => "the published reports are not `report.md` and `report.html`",
        })
    }
}

/// The fault of a warehouse snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotFault {
    /// A file of the run is not in its table.
    Absent {
        /// The file.
        digest: Digest,
        /// The table.
        table: String,
        /// The pinned version of the table.
        version: u64,
    },
    /// The rows of a file of the run are not the table's rows.
    Changed {
        /// The file.
        digest: Digest,
        /// The table.
        table: String,
        /// The reason.
        reason: &'static str,
    },
    /// The Publication pins no version of a table.
    NotPinned(String),
}

impl fmt::Display for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { digest, table, version } => {
                write!(f, "the file {digest} of the run is not in the warehouse's table `{table}` at version {version}")
            }
            Self::Changed { digest, table, reason } => {
                write!(f, "the file {digest} of the run is not in the warehouse's table `{table}` as it was added: {reason}")
            }
            Self::NotPinned(table) => write!(f, "the publication pins no version of the warehouse's table `{table}`"),
        }
    }
}

/// The tie of a foreign file to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignTie {
    /// It came with the pinned commit.
    Commit,
    /// It holds rows of the run.
    Rows,
}

impl fmt::Display for ForeignTie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commit => "came with the commit that the run's publication pins",
            Self::Rows => "holds rows of the run",
        })
    }
}

/// A value that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// A frozen workload, as text.
    Workload,
    /// The published numbers, in canonical form.
    Numbers,
    /// A Summary, as JSON.
    Summary,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workload => "a frozen workload",
            Self::Numbers => "the numbers",
            Self::Summary => "a summary",
        })
    }
}

impl Unwritable {
    fn form(self) -> &'static str {
        match self {
            Self::Workload => "cannot be written",
            Self::Numbers => "have no canonical form",
            Self::Summary => "has no JSON form",
        }
    }
}

impl Error {
    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stated(failure) | Self::PublishedPolicy(failure) => failure.code,
            Self::Signature(error) => error.code(),
            Self::Link(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Warehouse(_) => ErrorCode::Warehouse,
            Self::Rows(error) => error.code(),
            Self::Unverified { source, .. } | Self::Requery(source) => source.code(),
            Self::Unreadable { .. } => ErrorCode::Unreadable,
            Self::TooManyFiles { .. } => ErrorCode::TooManyFiles,
            Self::FolderTooLarge { .. } => ErrorCode::FolderTooLarge,
            Self::FolderTooDeep { .. } => ErrorCode::FolderTooDeep,
            Self::SpecialFile { .. } => ErrorCode::NotPlain,
            Self::FileTooLarge { .. } => ErrorCode::ArtifactTooLarge,
            Self::FileChanged { .. } | Self::OtherFile { .. } => ErrorCode::ArtifactCorrupt,
            Self::NoFile { .. } | Self::NoArtifact { .. } => ErrorCode::ArtifactAbsent,
            Self::SizeDiffers { .. } => ErrorCode::SizeDiffers,
            Self::NoRun { .. } => ErrorCode::NoSuchRun,
            Self::NoPublishedRun(_) | Self::NoDocument(_) => ErrorCode::MissingStage,
            Self::Publication(_) => ErrorCode::Manifest,
            Self::NoManifest { part: ManifestPart::Manifest, .. } => ErrorCode::ManifestMissing,
            Self::NoManifest { part: ManifestPart::Bundle, .. } => ErrorCode::BundleMissing,
            Self::Commit(_) | Self::CommitNotNamed => ErrorCode::Commit,
            Self::Pointer { .. } => ErrorCode::PointerElsewhere,
            Self::Statement { .. } => ErrorCode::StatementDiffers,
            Self::TimeOrder { .. } | Self::Duration { .. } => ErrorCode::TimeOrder,
            Self::EvidenceList(_) => ErrorCode::Evidence,
            Self::EvidenceIncomplete { .. } => ErrorCode::EvidenceIncomplete,
            Self::Attempt { .. } | Self::AttemptPlace { .. } | Self::NoShard(_) => ErrorCode::AttemptDiffers,
            Self::Drift { .. } => ErrorCode::DriftDiffers,
            Self::OtherTarget { .. } | Self::OtherReplicas(_) => ErrorCode::OtherTarget,
            Self::TargetTwice(_) => ErrorCode::EnvironmentTwice,
            Self::OtherBlock { .. } => ErrorCode::OtherBlock,
            Self::NoTable { .. } => ErrorCode::UndefinedTable,
            Self::TableTwice(_) => ErrorCode::TableTwice,
            Self::RowCount { .. } => ErrorCode::RowCount,
            Self::ReservedColumn { .. } => ErrorCode::ReservedColumn,
            Self::RowTwice { .. } => ErrorCode::RowTwice,
            Self::Row { .. } => ErrorCode::RowDiffers,
            Self::ExtraRow(_) => ErrorCode::RowWithoutSummary,
            Self::NoRow { .. } => ErrorCode::SummaryWithoutRow,
            Self::Points => ErrorCode::PointsDiffer,
            Self::Point { .. } => ErrorCode::SummaryContradictsItself,
            Self::NumberWithoutRow { .. } => ErrorCode::NumberWithoutRow,
            Self::Number { .. } => ErrorCode::NumberNotInRow,
            Self::Numbers(_) => ErrorCode::Numbers,
            Self::OtherNumbers { .. } => ErrorCode::NumbersDiffer,
            Self::NumbersOfOther(_) => ErrorCode::OtherNumbers,
            Self::NumberNotInQuery(_) => ErrorCode::NumberNotInQuery,
            Self::Queries => ErrorCode::OtherQueries,
            Self::QueryResult(_) => ErrorCode::QueryDiffers,
            Self::QueryRow { .. } => ErrorCode::QueryChangesRows,
            Self::Grade { .. } => ErrorCode::OtherGrade,
            Self::OwnRun => ErrorCode::OwnRunListedOtherwise,
            Self::Keys(_) => ErrorCode::KeysDiffer,
            Self::Reports(_) => ErrorCode::ReportDiffers,
            Self::Views(_) => ErrorCode::Views,
            Self::Workload { .. } => ErrorCode::Spec,
            Self::NoWarehouse(_) => ErrorCode::WarehouseAbsent,
            Self::Snapshot(_) => ErrorCode::NotInSnapshot,
            Self::ForeignFile { .. } => ErrorCode::ForeignFile,
            Self::Tombstone { .. } => ErrorCode::Tombstone,
            Self::Calibration { .. } => ErrorCode::Calibration,
            Self::Search { .. } => ErrorCode::SearchResult,
            Self::Recomputed(_) | Self::RecomputedByOther(_) => ErrorCode::RecomputeDiffers,
            Self::Unwritable { .. } => ErrorCode::Internal,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoRun { .. } => "`assay runs` lists the runs of a store",
            Self::NoPublishedRun(_) => "name the folder of one published run",
            Self::NoManifest { .. } => "it was removed, or other bytes were put in its place",
            Self::Pointer { .. } => "a pointer is not signed: a client with write access to the store has changed it",
            Self::Statement { .. } => "the signer stated other facts in the statement than in the manifest",
            Self::QueryResult(_) => {
                "the rows themselves have been checked: what was published over them is false, or another version of assay writes \
                 results differently"
            }
            Self::QueryRow { fault, .. } => fault.hint(),
            Self::Grade { .. } => {
                "an `assay` of another version may have other rules; the grade's reasons are in the publication"
            }
            Self::NoWarehouse(_) => {
                "a run is copied to another store with `assay fetch`; a published folder is verified without a warehouse"
            }
            Self::Snapshot(SnapshotFault::Absent { .. }) => {
                "the table was made anew or its log was changed; its other rows are not to be trusted either"
            }
            Self::ForeignFile { .. } => "another program wrote to the table: what it shows of the run was not measured",
            Self::RecomputedByOther(_) => "the run was reduced by another version, and is compared with what this one gives",
            _ => return None,
        })
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Stated(failure)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Stated(failure) => failure,
            Error::Signature(error) => error.into(),
            Error::Link(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Warehouse(error) => lake_failure(error, Exit::Unexpected),
            Error::Unverified { source, .. } => Self { message, ..Self::from(*source) },
            // A query that this machine cannot execute is evidence neither for nor against the run.
            Error::Requery(error) => match Self::from(*error) {
                failure if failure.exit == Exit::Definition => failure.with_exit(Exit::Verification),
                failure => failure,
            },
            Error::PublishedPolicy(failure) => failure.with_exit(Exit::Verification),
            Error::EvidenceList(EvidenceFault::Malformed(source)) => Self::new(ErrorCode::Evidence, message).because(&source),
            error => Self::from_error(error.code(), &error).hint_if(error.hint()),
        }
    }
}
