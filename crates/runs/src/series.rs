//! Metrics from run to run, as the warehouse has them: the data of a history.

use assay_lake::{Lake, Reading};
use assay_manifest::BetterDirection;
use assay_query::{Cell, Limits, Query};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::{Scratch, Store};
use assay_verify::lake_failure;

use crate::summaries::{LeftOutRun, signed_summaries};
use crate::verified_run::RunStore;

/// The most bytes on disk of the files that are read, apart from the store.
const MAX_SCRATCH_BYTES: u64 = 64 << 30;

/// A metric at a point of a case of a pipeline, run by run, oldest first. Cases of two pipelines may have the same name and
/// differ in their setup.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct RunValue {
    /// The run.
    pub run: String,
    /// The median over the run's trials.
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
    /// The runs that are left out, because their signers are unknown.
    pub left_out: Vec<LeftOutRun>,
    /// True if a trust policy names every signer.
    pub is_established: bool,
}

fn failure(error: impl Into<assay_lake::Error>) -> Failure {
    lake_failure(error, Exit::Usage)
}

/// Returns the series of a store's warehouse, by case, point and metric. Every file that is read is named by a signed Summary.
pub fn read_series(place: &RunStore, asked: &SeriesFilter<'_>) -> Result<SeriesReading, Failure> {
    let store = Store::open_existing(&place.store_uri()?)?;
    let lake = Lake::open(&store).map_err(failure)?;
    let signed = signed_summaries(&store, &place.trust)?;
    let snapshot = lake.latest().map_err(failure)?;
    if snapshot.is_empty() {
        return Err(Failure::new(ErrorCode::NoWarehouse, format!("the store `{}` has no warehouse yet", store.uri()))
            .hint("the first published run makes it"));
    }
    let query = Query::parse(&sql(asked)).map_err(failure)?;
    let scratch = Scratch::new(MAX_SCRATCH_BYTES)?;
    let reading = Reading::open_trusted(&lake, &snapshot, &signed.subjects, &query, &scratch).map_err(failure)?;
    let result = reading.run_query(&query, Limits::default()).map_err(failure)?;
    let mut all: Vec<Series> = Vec::new();
    for row in &result.rows {
        let Some((head, of)) = parse_row(row) else { continue };
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
    Ok(SeriesReading { series: all, fetched: signed.fetched, left_out: signed.left_out, is_established: signed.is_established })
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

/// Parses a row into a series of its own and its run; `None` if the row has other columns.
fn parse_row(row: &[Cell]) -> Option<(Series, RunValue)> {
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
    Some((head, of))
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
