//! A store with runs whose rows are known.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use assay_lake::{Lake, Reading, Snapshot, Step, Subjects, commit_run};
use assay_manifest::{Artifact, Count, CuratedFile, Digest, Instant, RunId};
use assay_query::{Limits, Query, ResultTable};
use assay_store::{Scratch, Store};
use assay_warehouse::{
    ARTIFACT_LINEAGE_DIM, ATTEMPT_FACT, BENCHMARK_RUN_FACT, CLUSTER_EVENT_FACT, CLUSTER_POD_FACT, CLUSTER_REGION_DIM,
    HARDWARE_TOPOLOGY_DIM, OUTCOME_FACT, Row, SERVING_OUTCOME_FACT, SOFTWARE_VERSION_DIM, TABLES, TELEMETRY_SLICE_FACT, Table,
    Type, Value, WORKLOAD_DIM, write,
};

/// The number of rows of each run: in tables whose rows all runs share, and in tables whose rows are the run's own.
pub(crate) const SHARED: [(&Table, u64); 4] =
    [(&SOFTWARE_VERSION_DIM, 1), (&HARDWARE_TOPOLOGY_DIM, 1), (&CLUSTER_REGION_DIM, 1), (&WORKLOAD_DIM, 2)];
pub(crate) const OWN: [(&Table, u64); 8] = [
    (&ARTIFACT_LINEAGE_DIM, 2),
    (&OUTCOME_FACT, 40),
    (&SERVING_OUTCOME_FACT, 4),
    (&TELEMETRY_SLICE_FACT, 6),
    (&ATTEMPT_FACT, 3),
    (&CLUSTER_POD_FACT, 2),
    (&CLUSTER_EVENT_FACT, 4),
    (&BENCHMARK_RUN_FACT, 2),
];

/// A store in a folder of its own.
pub(crate) struct TestStore {
    folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) scratch: Scratch,
    pub(crate) lake: Lake,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        let scratch = scratch();
        let lake = Lake::open(&store).expect("a lake");
        Self { folder, store, scratch, lake }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder of a table.
    pub(crate) fn table(&self, table: &Table) -> PathBuf {
        self.root().join("warehouse").join(table.name)
    }

    /// Commits a run without stopping.
    pub(crate) fn commit(&self, index: u64) -> Snapshot {
        let files = run_files(&self.store, index);
        commit_run(&self.lake, &run_id(index), &files, &self.scratch, &mut continue_commit).expect("committed")
    }

    /// Returns the subjects that verified Summaries of these runs would name.
    pub(crate) fn subjects(&self, runs: impl IntoIterator<Item = u64>) -> Subjects {
        let mut subjects = Subjects::new();
        for index in runs {
            subjects.add(&run_id(index), &run_files(&self.store, index));
        }
        subjects
    }

    /// Runs a query over the newest versions, without verification.
    pub(crate) fn ask(&self, sql: &str) -> ResultTable {
        let query = Query::parse(sql).expect("a query");
        let snapshot = self.lake.latest().expect("versions");
        let reading =
            Reading::open_unverified(&self.lake, &snapshot, &Subjects::new(), &query, &self.scratch).expect("a reading");
        reading.run_query(&query, Limits::default()).expect("a result")
    }

    /// Returns the only number of a query's result.
    pub(crate) fn number(&self, sql: &str) -> String {
        self.ask(sql).csv().lines().nth(1).expect("a row").to_owned()
    }
}

pub(crate) fn open(folder: &Path) -> Store {
    Store::open(folder.to_str().expect("UTF-8")).expect("a store")
}

pub(crate) fn scratch() -> Scratch {
    Scratch::new(1 << 30).expect("scratch")
}

pub(crate) fn continue_commit(_: Step) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub(crate) fn run_id(index: u64) -> RunId {
    RunId::new(format!("run-{index}")).expect("a run id")
}

/// Returns the curated files of a run, put into the store. Equal indexes give equal bytes.
pub(crate) fn run_files(store: &Store, index: u64) -> Vec<CuratedFile> {
    let shared = SHARED.iter().map(|(table, rows)| put(store, table, (0..*rows).map(|seed| row(table, 0, seed))));
    let own = OWN.iter().map(|(table, rows)| put(store, table, (0..*rows).map(|seed| row(table, index, seed))));
    shared.chain(own).collect()
}

/// Rows as a curated file in the store.
pub(crate) fn put(store: &Store, table: &'static Table, rows: impl IntoIterator<Item = Row>) -> CuratedFile {
    let mut bytes = Vec::new();
    let written = write(table, rows, &mut bytes).expect("a file");
    let digest = store.put(&bytes).expect("put");
    assert_eq!(digest, written.digest);
    let artifact = Artifact {
        name: format!("{}.parquet", table.name),
        digest,
        size: Count(written.bytes),
        media_type: "application/vnd.apache.parquet".to_owned(),
    };
    CuratedFile { table: table.name.to_owned(), rows: Count(written.rows), artifact }
}

/// Returns a sealed row: texts name run and seed, numbers are `run * 1000 + seed`, and floats a tenth of that, which no double
/// holds exactly.
pub(crate) fn row(table: &'static Table, run: u64, seed: u64) -> Row {
    let number = i64::try_from(run * 1_000 + seed).expect("small");
    let mut row = Row::new(table);
    for column in table.columns() {
        let value = match (column.name, column.kind) {
            ("run_id", _) => Value::from(run_id(run).as_str()),
            ("benchmark_case_id", _) => Value::from(format!("case-{}.local.default", seed % 2)),
            // Seeds 0 and 1 of a run's own rows refer to the two workloads.
            ("workload_spec_digest", _) => Value::from(Digest::compute(&(seed % 2).to_le_bytes())),
            ("workload_key", _) => Value::from(Digest::compute(&(seed % 2).to_le_bytes()).hex()),
            ("artifact_manifest_digest", _) => Value::from(Digest::compute(&run.to_le_bytes())),
            ("hardware_topology_key", _) => key_of(&HARDWARE_TOPOLOGY_DIM),
            ("software_version_key", _) => key_of(&SOFTWARE_VERSION_DIM),
            ("cluster_region_key", _) => key_of(&CLUSTER_REGION_DIM),
            ("point_id", _) => Value::from(format!("point-{seed}")),
            (_, Type::Bool) => Value::Bool(seed.is_multiple_of(2)),
            (_, Type::Int) => Value::Int(number),
            (_, Type::Float) if seed % 5 == 4 => {
                if column.nullable {
                    Value::Null
                } else {
                    Value::Float(0.5)
                }
            }
            (_, Type::Float) => Value::Float(number as f64 / 10.0),
            (name, Type::Text) => Value::Text(format!("{name} {seed} ü")),
            (_, Type::Instant) => Value::Instant(Instant::from_unix_ns(1_700_000_000_123_456_789 + number)),
        };
        row.set(column.name, value).expect("of the right type");
    }
    row.seal().expect("complete")
}

fn key_of(table: &'static Table) -> Value {
    Value::from(row(table, 0, 0).text("row_id").expect("an id"))
}

/// Returns the number of rows that every table must have after this many runs.
pub(crate) fn expected_rows(runs: u64) -> Vec<(&'static str, u64)> {
    let count = |table: &Table| {
        let shared = SHARED.iter().find(|(shared, _)| *shared == table).map(|(_, rows)| if runs == 0 { 0 } else { *rows });
        let own = OWN.iter().find(|(own, _)| *own == table).map(|(_, rows)| rows * runs);
        shared.or(own).unwrap_or(0)
    };
    TABLES.iter().map(|table| (table.name, count(table))).collect()
}

/// Returns the number of rows of every table, and checks that no two of them are the same.
pub(crate) fn found_rows(place: &TestStore) -> Vec<(&'static str, u64)> {
    TABLES
        .iter()
        .map(|table| {
            let counts = place.number(&format!("SELECT count(*), count(DISTINCT row_id) FROM {}", table.name));
            let (rows, distinct) = counts.split_once(',').expect("two numbers");
            assert_eq!(rows, distinct, "rows of `{}` are there more than once", table.name);
            (table.name, rows.parse().expect("a number"))
        })
        .collect()
}

/// Checks that every table's log has every version, from 0 on without a gap.
pub(crate) fn check_logs_are_dense(place: &TestStore) {
    for (name, version) in place.lake.latest().expect("versions") {
        let log = place.root().join("warehouse").join(&name).join("_delta_log");
        let mut commits: Vec<_> = std::fs::read_dir(log)
            .expect("a log")
            .filter_map(|entry| entry.expect("an entry").file_name().to_str()?.strip_suffix(".json")?.parse::<u64>().ok())
            .collect();
        commits.sort_unstable();
        assert_eq!(commits, (0..=version.0).collect::<Vec<_>>(), "{name}");
    }
}
