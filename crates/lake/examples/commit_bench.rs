//! The time to commit one run to a warehouse that holds 0, 100 and 1,000 runs, and to query it: `cargo run --release -p
//! assay-lake --example commit_bench [FOLDER]`
//!
//! Each figure is the median of several commits or queries; the rows below each other show the costs that grow with the
//! warehouse.

use std::error::Error;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use assay_lake::{Lake, Reading, Subjects, commit_run};
use assay_manifest::{Artifact, Count, CuratedFile, Digest, Instant as UtcInstant, RunId};
use assay_query::{Limits, Query};
use assay_store::{Scratch, Store};
use assay_warehouse::{OUTCOME_FACT, Row, TABLES, TRAINING_OUTCOME_FACT, Table, Type, Value, write};

/// The number of commits and queries that each figure is the median of.
const REPEATS: usize = 11;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "/tmp/assay-commit-bench".to_owned());
    let mut bench = Bench::new(&folder)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "earlier runs  commit ms  again ms  list one table ms  trusted sum ms")?;
    for earlier in [0, 100, 1_000] {
        while bench.runs < earlier {
            bench.commit(bench.runs)?;
        }
        let commits = (0..REPEATS).map(|_| bench.commit(bench.runs)).collect::<Result<Vec<_>, _>>()?;
        let last = bench.runs - 1;
        let again = (0..REPEATS).map(|_| bench.commit(last)).collect::<Result<Vec<_>, _>>()?;
        let list = (0..REPEATS).map(|_| bench.list()).collect::<Result<Vec<_>, _>>()?;
        let ask = (0..REPEATS).map(|_| bench.ask()).collect::<Result<Vec<_>, _>>()?;
        let [commit, again, list, ask] = [commits, again, list, ask].map(|times| median(times).as_secs_f64() * 1e3);
        writeln!(out, "{earlier:>12}  {commit:>9.1}  {again:>8.1}  {list:>17.1}  {ask:>14.1}")?;
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

struct Bench {
    store: Store,
    lake: Lake,
    scratch: Scratch,
    subjects: Subjects,
    /// Runs that were committed, numbered from 0.
    runs: usize,
}

impl Bench {
    fn new(folder: &str) -> Result<Self, Box<dyn Error>> {
        let store = Store::open(folder)?;
        let lake = Lake::open(&store)?;
        Ok(Self { store, lake, scratch: Scratch::new(8 << 30)?, subjects: Subjects::new(), runs: 0 })
    }

    fn commit(&mut self, run: usize) -> Result<Duration, Box<dyn Error>> {
        let (id, files) = (run_id(run)?, run_files(&self.store, run)?);
        let start = Instant::now();
        commit_run(&self.lake, &id, &files, &self.scratch, &mut |_| ControlFlow::Continue(()))?;
        let taken = start.elapsed();
        self.subjects.add(&id, &files);
        self.runs = self.runs.max(run + 1);
        Ok(taken)
    }

    /// Lists the files of a table at its newest version: the first step of every reader.
    fn list(&self) -> Result<Duration, Box<dyn Error>> {
        let versions = self.lake.latest()?;
        let version = versions.get(OUTCOME_FACT.name).ok_or("no table")?.0;
        let start = Instant::now();
        self.lake.files(&OUTCOME_FACT, version)?;
        Ok(start.elapsed())
    }

    fn ask(&self) -> Result<Duration, Box<dyn Error>> {
        let versions = self.lake.latest()?;
        let start = Instant::now();
        let query = Query::parse("SELECT count(*), sum(value) FROM outcomes")?;
        let reading = Reading::open_trusted(&self.lake, &versions, &self.subjects, &query, &self.scratch)?;
        reading.run_query(&query, Limits::default())?;
        Ok(start.elapsed())
    }
}

fn run_id(run: usize) -> Result<RunId, Box<dyn Error>> {
    Ok(RunId::new(format!("run-{run}"))?)
}

/// Returns a file for every table except the one of training: dimensions that all runs share, and 200 rows of a run's own in each
/// fact.
fn run_files(store: &Store, run: usize) -> Result<Vec<CuratedFile>, Box<dyn Error>> {
    let tables = TABLES.iter().filter(|table| **table != &TRAINING_OUTCOME_FACT);
    tables
        .map(|table| {
            let shared = table.name.ends_with("_dim") && table.name != "artifact_lineage_dim";
            let (run, count) = if shared { (0, 2) } else { (run, 200) };
            let rows = (0..count).map(|seed| row(table, run, seed)).collect::<Result<Vec<_>, _>>()?;
            let mut bytes = Vec::new();
            let written = write(table, rows, &mut bytes)?;
            store.put(&bytes)?;
            let artifact = Artifact {
                name: format!("{}.parquet", table.name),
                digest: written.digest,
                size: Count(written.bytes),
                media_type: "application/vnd.apache.parquet".to_owned(),
            };
            Ok(CuratedFile { table: table.name.to_owned(), rows: Count(written.rows), artifact })
        })
        .collect()
}

fn row(table: &'static Table, run: usize, seed: usize) -> Result<Row, Box<dyn Error>> {
    let number = i64::try_from(run * 1_000 + seed)?;
    let mut row = Row::new(table);
    for column in table.columns() {
        let value = match column.kind {
            _ if column.name == "run_id" => Value::Text(run_id(run)?.to_string()),
            _ if column.name.ends_with("_digest") => Value::from(Digest::compute(&number.to_le_bytes())),
            Type::Bool => Value::Bool(seed.is_multiple_of(2)),
            Type::Int => Value::Int(number),
            Type::Float => Value::Float(number as f64 / 10.0),
            Type::Text => Value::Text(format!("{} {seed}", column.name)),
            Type::Instant => Value::Instant(UtcInstant::from_unix_ns(number)),
        };
        row.set(column.name, value)?;
    }
    Ok(row.seal()?)
}
