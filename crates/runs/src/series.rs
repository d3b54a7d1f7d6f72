//! Metrics from run to run, as the warehouse has them: the data of a history.

use std::collections::{BTreeMap, BTreeSet};

use assay_lake::{Lake, Reading};
use assay_manifest::{BetterDirection, Digest, RunId};
use assay_query::{Cell, Limits, Query};
use assay_runner::Config;
use assay_stage::{Exit, Failure};
use assay_store::Scratch;
use assay_verify::lake_failure;
use assay_warehouse::BENCHMARK_RUN_FACT;
use serde::{Deserialize, Serialize};

use crate::cache::{read_cache, write_cache};
use crate::summaries::{LeftOutRun, cache_part, known_summaries, no_warehouse, signed_summaries};
use crate::verified_run::RunStore;

/// The most bytes on disk of the files that are read, apart from the store.
const MAX_SCRATCH_BYTES: u64 = 64 << 30;

/// A metric at a point of a case of a pipeline, run by run, oldest first. Cases of two pipelines may have the same name and
/// differ in their setup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The case.
    pub case: String,
    /// The point of the case.
    pub point: String,
    /// The name of the metric.
    pub metric: String,
    /// The unit of its values.
    pub unit: String,
    /// The direction that is better, if one is.
    pub better: Option<BetterDirection>,
    /// True if gates judge it by default.
    pub primary: bool,
    /// The runs of the newest workload: others did other work, and their numbers are not comparable.
    pub runs: Vec<RunValue>,
    /// Runs of other workloads, which are left out.
    pub other_work: usize,
}

/// The value of the metric in one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunValue {
    /// The run.
    pub run: String,
    /// The median over the run's trials.
    #[serde(with = "bits")]
    pub value: f64,
    /// The start of its first attempt, in nanoseconds since 1970.
    pub started: i64,
    /// The commit that it measured, if it measured one.
    pub commit: Option<String>,
    /// The digest of its workload.
    pub workload: String,
    /// The digest of its pipeline's file, which defines how targets and variants are set up.
    pub definition: String,
    /// The hardware that it was measured on, by the digest of its row.
    pub hardware: String,
    /// The software that it was measured on, by the digest of its row.
    pub software: String,
    /// The row that holds the value.
    pub row: String,
}

/// The requested series; a field that is `None` selects all.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesFilter<'a> {
    /// The metric.
    pub metric: Option<&'a str>,
    /// The case.
    pub case: Option<&'a str>,
    /// The point.
    pub point: Option<&'a str>,
}

/// The series that were read, and what a reader has to know of the runs behind them.
#[derive(Clone, Debug)]
pub struct SeriesReading {
    /// The series, by case, point and metric.
    pub series: Vec<Series>,
    /// The number of the store's runs that were copied here from other stores, whose tables have their rows.
    pub fetched: usize,
    /// The runs that are left out: their signers are unknown, or their Summary or Publication does not verify.
    pub left_out: Vec<LeftOutRun>,
    /// True if a trust policy names every signer.
    pub is_established: bool,
}

fn failure(error: impl Into<assay_lake::Error>) -> Failure {
    lake_failure(error, Exit::Usage)
}

/// The name of the rows in the cache. The number changes with the format and with what [`sql`] selects.
const CACHE: &str = "history-1";

/// A row of the warehouse: a series, and its value in one run.
#[derive(Clone, Serialize, Deserialize)]
struct SeriesRow {
    head: Series,
    of: RunValue,
}

/// The rows of one run, as this account has read them from files that it hashed.
#[derive(Serialize, Deserialize)]
struct CachedRows {
    /// The digest of the Summary, which names the files.
    summary: Digest,
    rows: Vec<SeriesRow>,
}

/// Returns the series of a store's warehouse, by case, point and metric. Every file that is read is named by a signed Summary.
///
/// If `cached` is true, a published run that this account has verified and read before, and whose signed files have not changed, is
/// not read again: its rows are those of that time. The tables' logs are always read and compared with what the Summaries name.
pub fn read_series(place: &RunStore, asked: &SeriesFilter<'_>, cached: bool) -> Result<SeriesReading, Failure> {
    let store = place.open_store()?;
    let lake = Lake::open(&store).map_err(failure)?;
    let query = Query::parse(&sql(asked)).map_err(failure)?;
    let (signed, known) =
        if cached { known_summaries(&store, &place.trust)? } else { (signed_summaries(&store, &place.trust)?, BTreeMap::new()) };
    let tables: BTreeSet<_> = query.tables().map(|table| table.name).chain([BENCHMARK_RUN_FACT.name]).collect();
    let snapshot = lake.latest_of(tables.into_iter().filter_map(assay_warehouse::table)).map_err(failure)?;
    if snapshot.is_empty() {
        return Err(no_warehouse(&store, signed.fetched)?);
    }
    let part =
        cache_part(&format!("{CACHE}-{}", &Digest::compute(sql(asked).as_bytes()).hex()[..16]), &place.trust, &Config::find()?);
    let part = part.filter(|_| cached);
    let mut kept: BTreeMap<RunId, CachedRows> = part.as_deref().and_then(|part| read_cache(part, &store)).unwrap_or_default();
    let count = kept.len();
    kept.retain(|run_id, rows| known.get(run_id).is_some_and(|known| known.summary == rows.summary));
    let scratch = Scratch::new(MAX_SCRATCH_BYTES)?;
    let read: BTreeSet<RunId> = kept.keys().cloned().collect();
    let reading = Reading::open_trusted_without(&lake, &snapshot, &signed.subjects, &read, &query, &scratch).map_err(failure)?;
    let is_new = |run_id: &&RunId| !read.contains(*run_id);
    let mut fresh: BTreeMap<String, Vec<SeriesRow>> = BTreeMap::new();
    if reading.visible_runs().iter().any(|run_id| is_new(&run_id)) {
        let result = reading.run_query(&query, Limits::default()).map_err(failure)?;
        for row in result.rows.iter().filter_map(|row| parse_row(row)) {
            fresh.entry(row.of.run.clone()).or_default().push(row);
        }
    }
    for run_id in reading.visible_runs().iter().filter(is_new) {
        let rows = fresh.remove(run_id.as_str()).unwrap_or_default();
        let summary = known.get(run_id).map_or_else(|| Digest::compute(b""), |known| known.summary);
        kept.insert(run_id.clone(), CachedRows { summary, rows });
    }
    if let Some(part) = part.filter(|_| kept.len() != count || !read.is_superset(reading.visible_runs())) {
        write_cache(&part, &store, &kept);
    }
    let visible = kept.into_iter().filter(|(run_id, _)| reading.visible_runs().contains(run_id));
    let rows = visible.flat_map(|(_, kept)| kept.rows).chain(fresh.into_values().flatten());
    let refused: BTreeSet<String> = signed.refused.iter().map(|(run_id, _)| run_id.to_string()).collect();
    let series = collect_series(rows.filter(|row| !refused.contains(&row.of.run)).collect());
    let refused = signed.refused.into_iter().map(|(run, failure)| LeftOutRun { run, failure });
    let left_out = signed.left_out.into_iter().chain(refused).collect();
    Ok(SeriesReading { series, fetched: signed.fetched, left_out, is_established: signed.is_established })
}

/// Returns the series of rows, each with its runs in the order of their starts.
fn collect_series(mut rows: Vec<SeriesRow>) -> Vec<Series> {
    rows.sort_by(|one, other| {
        (one.head.key(), one.of.started, &one.of.run).cmp(&(other.head.key(), other.of.started, &other.of.run))
    });
    let mut all: Vec<Series> = Vec::new();
    for SeriesRow { head, of } in rows {
        match all.last_mut().filter(|last| last.key() == head.key()) {
            Some(series) => series.runs.push(of),
            None => all.push(Series { runs: vec![of], ..head }),
        }
    }
    for series in &mut all {
        let newest = series.runs.last().map(|of| of.workload.clone()).unwrap_or_default();
        let before = series.runs.len();
        series.runs.retain(|of| of.workload == newest);
        series.other_work = before - series.runs.len();
    }
    all
}

fn sql(asked: &SeriesFilter<'_>) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let conditions = [("metric", asked.metric), ("benchmark_case_id", asked.case), ("point_id", asked.point)];
    let conditions: String =
        conditions.iter().filter_map(|(column, text)| Some(format!(" AND {column} = {}", quoted((*text)?)))).collect();
    format!(
        "SELECT benchmark_case_id, point_id, metric, unit, better, primary, run_id, value, started_unix_ns, git_commit, \
         workload_spec_digest, hardware_topology_key, software_version_key, row_id, pipeline, pipeline_digest FROM outcomes \
         WHERE statistic = 'median' AND trial_id IS NULL AND value IS NOT NULL AND valid{conditions} \
         ORDER BY benchmark_case_id, point_id, metric, pipeline, started_unix_ns, run_id"
    )
}

/// Parses a row; `None` if the row has other columns.
fn parse_row(row: &[Cell]) -> Option<SeriesRow> {
    let text = |place: usize| if let Some(Cell::Text(text)) = row.get(place) { Some(text.clone()) } else { None };
    let (Some(Cell::Bool(primary)), Some(Cell::Float(value))) = (row.get(5), row.get(7)) else { return None };
    let started = if let Some(Cell::Int(started)) = row.get(8) { *started } else { 0 };
    let head = Series {
        pipeline: text(14)?,
        case: text(0)?,
        point: text(1)?,
        metric: text(2)?,
        unit: text(3)?,
        better: text(4).and_then(|better| better.parse().ok()),
        primary: *primary,
        runs: Vec::new(),
        other_work: 0,
    };
    let of = RunValue {
        run: text(6)?,
        value: *value,
        started,
        commit: text(9),
        workload: text(10)?,
        hardware: text(11)?,
        software: text(12)?,
        row: text(13)?,
        definition: text(15)?,
    };
    Some(SeriesRow { head, of })
}

/// Doubles by their bits: a decimal text may be read with another last digit.
mod bits {
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

impl Series {
    /// Returns the fields that identify the series.
    fn key(&self) -> [&str; 4] {
        [&self.case, &self.point, &self.metric, &self.pipeline]
    }

    /// Returns the values, oldest first.
    pub fn values(&self) -> Vec<f64> {
        self.runs.iter().map(|of| of.value).collect()
    }
}
