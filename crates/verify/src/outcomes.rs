//! Checks that the curated rows agree with the Summary: the same quantities are in both, and in several tables. Readers of any of
//! them must be told the same.

mod all_loads;
mod serving;

use std::collections::{BTreeMap, BTreeSet};

use assay_claim::Evidence;
use assay_envelope::Verified;
use assay_manifest::{
    Block, Body, Case, CollectedAttempt, Collection, Count, Document, Environment, Exclusion, ExecutionPart, Intent,
    IntervalKind, MetricSummary, NumberPlace, Plan, PointSummary, Reason, RunId, RunStatus, ServingOutcome, ServingPoint,
    Summary, TrialId, TrialValue, WITHIN_RUN_NS,
};
use assay_metric::MetricName;
use assay_stats::{CONFIDENCE_LEVEL, MIN_CLUSTERS, Method, Samples, median_interval};
use assay_warehouse::{
    ARTIFACT_LINEAGE_DIM, ATTEMPT_FACT, BENCHMARK_RUN_FACT, CLUSTER_REGION_DIM, HARDWARE_TOPOLOGY_DIM, OUTCOME_FACT, ROW_ID, Row,
    SERVING_OUTCOME_FACT, SOFTWARE_VERSION_DIM, Table, Value, WORKLOAD_DIM,
};

use crate::index::{AttemptIndex, PlanIndex, TrialIndex};
use crate::{Error, ExtraRow, Result};
use serving::SignedPoint;

/// The relative tolerance between a statistic and the one computed from the trials' values: the last digits of a double.
pub const TOLERANCE: f64 = 1e-9;

/// The curated rows of a run, by table.
pub type Tables = BTreeMap<&'static str, Vec<Row>>;

/// Checks the curated rows of a run against its Summary, and both against the manifests that they repeat. `documents` are the
/// verified manifests of the run, up to its Summary at least.
pub fn check_outcomes(run_id: &RunId, documents: &[Verified<Document>], tables: &Tables) -> Result<()> {
    let (Some(plan), Some(collection), Some(summary)) =
        (all::<Plan>(documents).next(), all::<Collection>(documents).next(), all::<Summary>(documents).next())
    else {
        return Ok(());
    };
    let parts =
        documents.iter().filter_map(|found| Some((found.manifest_digest(), &ExecutionPart::from_document(found.value())?.body)));
    let mut environments: Vec<_> = all::<Environment>(documents).collect();
    environments.sort_by_key(|environment| environment.block);
    let run = Run {
        id: run_id.as_str(),
        plan,
        planned: PlanIndex::new(plan),
        trials: TrialIndex::new(plan, collection),
        attempts: AttemptIndex::new(parts),
        collection,
        summary,
        environments: &environments,
        tables,
    };
    run.check()
}

fn all<'a, B: Body + 'a>(documents: &'a [Verified<Document>]) -> impl Iterator<Item = &'a B> {
    documents.iter().filter_map(|verified| B::from_document(verified.value())).map(|manifest| &manifest.body)
}

/// A run, for checking its rows.
struct Run<'a> {
    id: &'a str,
    plan: &'a Plan,
    planned: PlanIndex<'a>,
    trials: TrialIndex<'a>,
    attempts: AttemptIndex<'a>,
    collection: &'a Collection,
    summary: &'a Summary,
    environments: &'a [&'a Environment],
    tables: &'a Tables,
}

impl Run<'_> {
    fn check(&self) -> Result<()> {
        self.check_points()?;
        for rows in self.tables.values() {
            self.check_identity(rows)?;
        }
        self.check_lineage()?;
        self.check_outcome_rows()?;
        self.check_serving_rows()?;
        self.check_run_rows()?;
        self.check_attempt_rows()
    }

    fn rows(&self, table: &Table) -> &[Row] {
        self.tables.get(table.name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Checks that the Summary has the Plan's points, and that its statistics are those of its trials.
    fn check_points(&self) -> Result<()> {
        let planned = self.plan.cases.iter().flat_map(|case| case.points.iter().map(move |point| (case, point)));
        let said = self.summary.points.iter().map(|point| (&point.case_id, &point.point_id));
        if !planned.clone().map(|(case, point)| (&case.case_id, &point.point_id)).eq(said) {
            return Err(Error::Points);
        }
        for ((case, planned), point) in planned.zip(&self.summary.points) {
            let workload =
                self.plan.workload(&case.workload).map(|workload| (workload.workload_type, workload.workload_spec_digest));
            let is_planned = workload == Some((point.workload_type, point.workload_spec_digest)) && point.value == planned.value;
            if !is_planned {
                return Err(point_differs(point, "its workload or its values"));
            }
            self.check_trials(point)?;
            self.check_serving(case, point)?;
            point.metrics.iter().try_for_each(|metric| check_statistics(point, metric))?;
        }
        all_loads::check(self.plan, self.summary)
    }

    /// Checks that the counted and the excluded trials of a point are those of the Collection.
    fn check_trials(&self, point: &PointSummary) -> Result<()> {
        let of_point = self.trials.of_point(&point.case_id, &point.point_id);
        let planned = of_point.map_or(0, |trials| trials.planned);
        let collected = || of_point.into_iter().flat_map(|trials| trials.collected.iter().copied());
        // Shards of the same attempt are one attempt.
        let attempts = |counted: bool| -> BTreeSet<_> {
            let all = collected().flat_map(|trial| trial.attempts.iter().map(move |attempt| (trial, attempt)));
            let all = all.filter(|(_, attempt)| attempt.counted == counted);
            all.map(|(trial, attempt)| (&trial.trial_id, attempt.block, attempt.attempt)).collect()
        };
        let (counted, excluded) = (attempts(true), attempts(false));
        let said: BTreeSet<_> = point.excluded.iter().map(|excluded| (&excluded.trial_id, excluded.attempt)).collect();
        let comparisons = [
            ("its planned trials", point.trials_planned as usize == planned),
            ("its counted trials", point.trials_counted as usize == collected().filter(|trial| trial.counted).count()),
            ("its attempts", point.attempts as usize == counted.len() + excluded.len()),
            ("its excluded attempts", point.excluded.len() == excluded.len()),
            ("its excluded attempts", said == excluded.iter().map(|(trial, _, attempt)| (*trial, *attempt)).collect()),
            (
                "the reasons of its excluded attempts",
                point.excluded.iter().all(|excluded| self.has_same_reasons(point, excluded)),
            ),
            (
                "its trials' values",
                Self::has_all_values(point, &counted.iter().map(|(trial, _, attempt)| (*trial, *attempt)).collect()),
            ),
        ];
        comparisons.into_iter().find(|(_, is_same)| !is_same).map_or(Ok(()), |(what, _)| Err(point_differs(point, what)))
    }

    /// Checks the serving numbers of a point, which only the points of serving have.
    fn check_serving(&self, case: &Case, point: &PointSummary) -> Result<()> {
        let workload = self.plan.workload(&case.workload);
        let work = workload.and_then(|workload| Some((workload, workload.serving.as_ref()?)));
        let difference = match (work, &point.serving) {
            (None, None) => None,
            (Some((workload, work)), Some(serving)) => {
                let (counted, excluded) = self.serving_attempts(point);
                SignedPoint { workload, work, loads: case.points.len(), counted, excluded }.find_difference(serving)
            }
            _ => Some("`serving`"),
        };
        difference.map_or(Ok(()), |what| Err(point_differs(point, what)))
    }

    /// Returns what the execution parts state about the attempts of a point: the counted attempt of each trial, by its shards, and the shards of
    /// attempts that do not count.
    fn serving_attempts(&self, point: &PointSummary) -> (Vec<Vec<&ServingOutcome>>, Vec<&ServingOutcome>) {
        let (mut counted, mut excluded) = (Vec::new(), Vec::new());
        let of_point = self.trials.of_point(&point.case_id, &point.point_id);
        for trial in of_point.into_iter().flat_map(|trials| &trials.collected) {
            let mut attempts: BTreeMap<(Block, u32), Vec<&CollectedAttempt>> = BTreeMap::new();
            for shard in &trial.attempts {
                attempts.entry((shard.block, shard.attempt)).or_default().push(shard);
            }
            for shards in attempts.values() {
                let outcomes = shards.iter().filter_map(|shard| self.attempts.find(&trial.trial_id, shard)?.serving.as_ref());
                if shards.iter().all(|shard| shard.counted) {
                    counted.push(outcomes.collect());
                } else {
                    excluded.extend(outcomes);
                }
            }
        }
        (counted, excluded)
    }

    /// Returns true if an attempt's reasons are those of its execution parts.
    fn has_same_reasons(&self, point: &PointSummary, excluded: &Exclusion) -> bool {
        let of_attempt = self.attempts.numbered(&excluded.trial_id, excluded.attempt);
        let given: BTreeSet<&Reason> = of_attempt.flat_map(|found| &found.validity.reasons).collect();
        // Two incarnations of a block may each have such an attempt.
        let same = |other: &&Exclusion| other.trial_id == excluded.trial_id && other.attempt == excluded.attempt;
        given == point.excluded.iter().filter(same).flat_map(|excluded| &excluded.reasons).collect()
    }

    /// Returns true if every value of a metric belongs to a counted attempt, each once.
    fn has_all_values(point: &PointSummary, counted: &BTreeSet<(&TrialId, u32)>) -> bool {
        point.metrics.iter().all(|metric| {
            let distinct: BTreeSet<_> = metric.trials.iter().map(|trial| &trial.trial_id).collect();
            let counts = metric.trials.iter().all(|trial| counted.contains(&(&trial.trial_id, trial.attempt)));
            counts && distinct.len() == metric.trials.len()
        })
    }

    /// Checks the columns that say to which run a row belongs, which every row has.
    fn check_identity(&self, rows: &[Row]) -> Result<()> {
        let keys = [
            ("software_version_key", &SOFTWARE_VERSION_DIM),
            ("hardware_topology_key", &HARDWARE_TOPOLOGY_DIM),
            ("cluster_region_key", &CLUSTER_REGION_DIM),
            ("workload_key", &WORKLOAD_DIM),
            ("artifact_lineage_key", &ARTIFACT_LINEAGE_DIM),
        ];
        let ids = keys
            .map(|(column, table)| (column, self.rows(table).iter().filter_map(|row| row.text(ROW_ID)).collect::<BTreeSet<_>>()));
        let mut distinct = BTreeSet::new();
        for row in rows {
            if !distinct.insert(row.text(ROW_ID)) {
                return Err(differs(row, "its id, which another row has as well,"));
            }
            check_column(row, "run_id", self.id)?;
            check_column(row, "artifact_manifest_digest", self.summary.artifact_manifest_digest)?;
            if let Some(id) = row.text("benchmark_case_id") {
                let digest = self.planned.workload_of(id).map(|work| work.workload_spec_digest);
                let digest = digest.ok_or_else(|| differs(row, "`benchmark_case_id`"))?;
                check_column(row, "workload_spec_digest", digest)?;
                check_column(row, "workload_key", digest.hex())?;
            }
            for (column, ids) in &ids {
                if row.get(column).is_some() && !row.text(column).is_some_and(|key| ids.contains(key)) {
                    return Err(differs(row, &format!("`{column}`")));
                }
            }
        }
        Ok(())
    }

    fn check_lineage(&self) -> Result<()> {
        for row in self.rows(&ARTIFACT_LINEAGE_DIM) {
            check_column(row, "plan_digest", self.summary.plan_digest)?;
            check_column(row, "reduce_binary_digest", self.summary.reduce_binary)?;
            check_column(row, "raw_bytes", Value::from_count(self.collection.evidence_bytes.0))?;
            check_column(row, "raw_artifacts", Value::from_count(self.collection.evidence_count.0))?;
        }
        for row in self.rows(&WORKLOAD_DIM) {
            let digest = row.text("workload_spec_digest").unwrap_or_default();
            let workload = self.plan.workloads.iter().find(|workload| workload.workload_spec_digest.to_string() == digest);
            let workload = workload.ok_or_else(|| differs(row, "`workload_spec_digest`"))?;
            check_column(row, "workload_type", workload.workload_type.as_str())?;
            check_column(row, "seed", workload.seed.as_str())?;
        }
        Ok(())
    }

    /// Checks that every statistic of the Summary is a row, and that every counted row is a statistic of the Summary.
    fn check_outcome_rows(&self) -> Result<()> {
        let mut expected: BTreeMap<String, Outcome<'_>> = BTreeMap::new();
        for point in &self.summary.points {
            for metric in &point.metrics {
                expected.extend(outcomes_of_point(point, metric)?);
            }
        }
        for loads in &self.summary.all_loads {
            for metric in &loads.metrics {
                expected.extend(outcomes(loads.into(), metric, "value", |_| None)?);
            }
        }
        let rows = self.rows(&OUTCOME_FACT);
        for row in rows {
            match expected.remove(row.text(ROW_ID).unwrap_or_default()) {
                Some(outcome) => outcome.check(row)?,
                None => self.check_other(row)?,
            }
        }
        match expected.values().next() {
            None => Ok(()),
            Some(Outcome { place, metric, statistic, .. }) => Err(Error::NoRow {
                statistic: (*statistic).to_owned(),
                metric: metric.metric.clone(),
                case: place.case_id.clone(),
                point: place.point_id.to_string(),
            }),
        }
    }

    /// Checks a row that the Summary does not name: a further statistic of one attempt, marked as counted if that attempt is.
    fn check_other(&self, row: &Row) -> Result<()> {
        let unnamed = || {
            let id = row.text(ROW_ID).unwrap_or_default();
            Err(Error::ExtraRow(ExtraRow::Statistic(id.to_owned())))
        };
        let (Some(trial), Some(Value::Int(attempt))) = (row.text("trial_id"), row.get("attempt")) else { return unnamed() };
        let tried: Vec<_> = self.trials.attempts_of(trial).filter(|found| i64::from(found.attempt) == *attempt).collect();
        if tried.is_empty() {
            return unnamed();
        }
        check_column(row, "valid", tried.iter().any(|found| found.counted))
    }

    fn check_serving_rows(&self) -> Result<()> {
        let rows = self.rows(&SERVING_OUTCOME_FACT);
        let serving = self.summary.points.iter().filter(|point| point.serving.is_some()).count();
        if rows.len() != serving {
            return Err(Error::ExtraRow(ExtraRow::Serving { rows: rows.len(), points: serving }));
        }
        for row in rows {
            let (case, id) = (row.text("benchmark_case_id"), row.text("point_id"));
            let is_it = |point: &&PointSummary| {
                (Some(point.case_id.as_str()), Some(point.point_id.as_str())) == (case, id) && point.serving.is_some()
            };
            let point = self.summary.points.iter().find(is_it).ok_or_else(|| differs(row, "`point_id`"))?;
            check_wide(row, point)?;
        }
        Ok(())
    }

    /// Checks that each case has one row, with the sums over the points of the case.
    fn check_run_rows(&self) -> Result<()> {
        let (plan, rows) = (self.plan, self.rows(&BENCHMARK_RUN_FACT));
        if rows.len() != plan.cases.len() {
            return Err(Error::ExtraRow(ExtraRow::Cases { rows: rows.len(), cases: plan.cases.len() }));
        }
        let evidence = Evidence::from_summary(plan, self.environments, self.collection, self.summary);
        let publication_safe = assay_claim::shortfalls(Intent::Publication, &evidence).is_empty();
        let mut points: BTreeMap<&str, Vec<&PointSummary>> = BTreeMap::new();
        for point in &self.summary.points {
            points.entry(point.case_id.as_str()).or_default().push(point);
        }
        for row in rows {
            let case = row.text("benchmark_case_id").unwrap_or_default();
            let of_case = points.get(case).map(Vec::as_slice).unwrap_or_default();
            let sum = |of: fn(&PointSummary) -> u32| of_case.iter().map(|point| of(point)).sum::<u32>();
            let (planned, counted) = (sum(|point| point.trials_planned), sum(|point| point.trials_counted));
            let windows = || self.attempts.of_case(case).iter().map(|found| found.window);
            let status = match counted {
                0 => RunStatus::Failed,
                counted if counted < planned => RunStatus::Partial,
                _ => RunStatus::Succeeded,
            };
            check_column(row, "trials_planned", planned)?;
            check_column(row, "trials_counted", counted)?;
            check_column(row, "attempts", sum(|point| point.attempts))?;
            check_column(row, "status", status.as_str())?;
            check_column(row, "success", planned == counted)?;
            check_column(row, "issues", Value::from_reasons(&self.summary.issues))?;
            check_column(row, "publication_safe", publication_safe)?;
            check_column(row, "started_unix_ns", windows().map(|window| window.start).min())?;
            check_column(row, "finished_unix_ns", windows().map(|window| window.end).max())?;
            check_column(row, "benchmark_class", plan.intent.as_str())?;
            check_column(row, "pipeline", plan.pipeline.name.as_str())?;
            check_column(row, "pipeline_digest", plan.pipeline.digest)?;
            check_column(row, "plan_digest", self.summary.plan_digest)?;
            check_column(row, "source_kind", plan.source.kind.as_str())?;
            check_column(row, "git_repository", plan.source.repository.as_deref())?;
            check_column(row, "git_commit", plan.source.commit.as_deref())?;
            check_column(row, "git_dirty", plan.source.dirty)?;
            check_column(row, "isolation", plan.isolation.as_str())?;
            check_column(row, "placement", plan.placement.as_str())?;
        }
        Ok(())
    }

    /// Checks that every attempt of the execution parts is a row that agrees with the part and the Collection.
    fn check_attempt_rows(&self) -> Result<()> {
        let mut expected = BTreeMap::new();
        for trial in &self.collection.trials {
            for collected in &trial.attempts {
                let Some(attempt) = self.attempts.find(&trial.trial_id, collected) else { continue };
                let (block, shard) = (collected.block, collected.shard);
                let key = [block.index, block.incarnation, attempt.attempt, shard.index].map(i64::from);
                expected.insert((trial.trial_id.as_str(), key), (collected, attempt));
            }
        }
        let rows = self.rows(&ATTEMPT_FACT);
        if rows.len() != expected.len() {
            return Err(Error::ExtraRow(ExtraRow::Attempts { rows: rows.len(), attempts: expected.len() }));
        }
        for row in rows {
            let number = |column: &str| match row.get(column) {
                Some(Value::Int(number)) => *number,
                _ => -1,
            };
            let key = ["block", "incarnation", "attempt", "shard"].map(number);
            let found = expected.remove(&(row.text("trial_id").unwrap_or_default(), key));
            let (collected, attempt) = found.ok_or_else(|| differs(row, "`trial_id`"))?;
            check_column(row, "point_id", attempt.point_id.as_str())?;
            check_column(row, "shards", collected.shard.count)?;
            check_column(row, "attempt_status", attempt.status.as_str())?;
            check_column(row, "valid", attempt.validity.valid)?;
            check_column(row, "counted", collected.counted)?;
            check_column(row, "reasons", Value::from_reasons(&attempt.validity.reasons))?;
            check_column(row, "window_start_unix_ns", attempt.window.start)?;
            check_column(row, "window_end_unix_ns", attempt.window.end)?;
            check_column(row, "duration_ns", Value::from_count(attempt.window.duration_ns.0))?;
        }
        Ok(())
    }
}

/// A statistic of the Summary, as a row of the long table holds it.
struct Outcome<'a> {
    place: NumberPlace<'a>,
    metric: &'a MetricSummary,
    /// Trial and attempt; `None` for a statistic across trials. A trial of all loads has no attempt.
    trial: Option<(&'a TrialId, Option<u32>)>,
    statistic: &'static str,
    value: f64,
    n: u64,
}

impl Outcome<'_> {
    fn check(&self, row: &Row) -> Result<()> {
        let unit = if self.trial.is_none() && self.statistic == "cv" { "ratio" } else { &self.metric.unit };
        check_column(row, "benchmark_case_id", self.place.case_id.as_str())?;
        check_column(row, "point_id", self.place.point_id.as_str())?;
        check_column(row, "trial_id", self.trial.map(|(trial, _)| trial.as_str()))?;
        check_column(row, "attempt", self.trial.and_then(|(_, attempt)| attempt))?;
        check_column(row, "metric", self.metric.metric.as_str())?;
        check_column(row, "statistic", self.statistic)?;
        check_column(row, "value", self.value)?;
        check_column(row, "unit", unit)?;
        check_column(row, "n", Value::from_count(self.n))?;
        check_column(row, "valid", true)?;
        check_column(row, "better", self.metric.better.map(assay_manifest::BetterDirection::as_str))?;
        check_column(row, "primary", self.metric.primary)?;
        let interval = self.metric.interval_kind_of(self.statistic).filter(|_| self.trial.is_none());
        check_column(row, "interval_kind", interval.map(IntervalKind::as_str))
    }
}

/// Returns the statistics of a metric of a point by the ids of the rows that the Summary names for them.
fn outcomes_of_point<'a>(point: &'a PointSummary, metric: &'a MetricSummary) -> Result<Vec<(String, Outcome<'a>)>> {
    // A serving metric has one value per trial; an indicator's is the median of the trial's samples.
    let statistic = if point.serving.is_some() { "value" } else { "median" };
    outcomes(point.into(), metric, statistic, |trial| Some(trial.attempt))
}

/// Returns the statistics of a metric by the ids of the rows that the Summary names for them. `statistic` is that of a trial's value.
fn outcomes<'a>(
    place: NumberPlace<'a>,
    metric: &'a MetricSummary,
    statistic: &'static str,
    attempt: fn(&TrialValue) -> Option<u32>,
) -> Result<Vec<(String, Outcome<'a>)>> {
    let statistics = metric.statistics();
    if !metric.rows.keys().eq(statistics.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>()) {
        return Err(place_differs(place, &format!("the rows of `{}`", metric.metric)));
    }
    let across = statistics.into_iter().filter_map(|(statistic, value)| {
        let id = metric.rows.get(statistic)?.hex();
        Some((id, Outcome { place, metric, trial: None, statistic, value, n: metric.n.0 }))
    });
    let trials = metric.trials.iter().map(|trial| {
        let of = Some((&trial.trial_id, attempt(trial)));
        (trial.row_id.hex(), Outcome { place, metric, trial: of, statistic, value: trial.value, n: trial.n.0 })
    });
    Ok(across.chain(trials).collect())
}

/// Checks that the statistics of a metric are those of its trials' values. The interval of many trials is resampled with a seed
/// and not computed again here: level 4 compares it.
fn check_statistics(point: &PointSummary, metric: &MetricSummary) -> Result<()> {
    check_statistics_at(point.into(), metric, |interval| find_wrong_kind(point, interval))
}

/// Checks the same at any place of numbers. `find_wrong_kind` returns the field of an interval that contradicts its kind.
fn check_statistics_at(
    place: NumberPlace<'_>,
    metric: &MetricSummary,
    find_wrong_kind: impl Fn(&assay_manifest::Interval) -> Option<&'static str>,
) -> Result<()> {
    let values: Vec<f64> = metric.trials.iter().map(|trial| trial.value).collect();
    let refuse = |what: &str| Err(place_differs(place, &format!("the {what} of `{}`", metric.metric)));
    if metric.n.0 != values.len() as u64 {
        return refuse("number of trials");
    }
    if let Some(wrong) = metric.interval.as_ref().and_then(find_wrong_kind) {
        return refuse(wrong);
    }
    let is_within_run = metric.interval.as_ref().is_some_and(|interval| interval.kind == IntervalKind::WithinRun);
    let Ok(samples) = Samples::new(&values) else { return refuse("trials' values") };
    let close = |said: Option<f64>, given: Option<f64>| match (said, given) {
        (Some(said), Some(given)) => is_close(said, given),
        (None, None) => true,
        _ => false,
    };
    let is_resampled = samples.len() >= assay_stats::bootstrap::MIN_SAMPLES;
    let given = median_interval(&samples, CONFIDENCE_LEVEL).ok();
    let said = metric.interval.as_ref();
    // The ends of an interval within a run follow from the records, which only level 4 reads.
    let has_ends = |said: fn(&assay_manifest::Interval) -> f64, given_end: Option<f64>| {
        is_resampled || is_within_run || close(metric.interval.as_ref().map(said), given_end)
    };
    let has_level = |said: &assay_manifest::Interval| !is_within_run || is_close(said.level, CONFIDENCE_LEVEL);
    let holds_median = |said: &assay_manifest::Interval| {
        let within_trials = is_within_run || (samples.min() <= said.low && said.high <= samples.max());
        within_trials && [said.low, samples.median(), said.high].is_sorted()
    };
    let comparisons = [
        ("median", is_close(metric.median, samples.median())),
        ("mean", is_close(metric.mean, samples.mean())),
        ("min", is_close(metric.min, samples.min())),
        ("max", is_close(metric.max, samples.max())),
        ("sd", close(metric.sd, samples.sd())),
        ("cv", close(metric.cv, samples.cv())),
        // The interval of many trials is resampled, which only level 4 repeats. It contains the median all the same, and lies
        // within the trials.
        ("interval", said.is_none_or(holds_median)),
        ("interval", said.is_none_or(has_level)),
        ("interval", has_ends(|said| said.low, given.map(|given| given.low))),
        ("interval", has_ends(|said| said.high, given.map(|given| given.high))),
        ("interval", has_ends(|said| said.level, given.map(|given| given.level))),
        ("missing interval", metric.interval.is_some() != metric.interval_absent.is_some()),
    ];
    comparisons.into_iter().find(|(_, is_same)| !is_same).map_or(Ok(()), |(what, _)| refuse(what))
}

/// Returns the field of an interval that contradicts its kind: one within a run is of the only trial that was planned, which was measured long
/// enough and had that many sessions, and by a method for clusters.
fn find_wrong_kind(point: &PointSummary, interval: &assay_manifest::Interval) -> Option<&'static str> {
    let by_clusters = [Method::ClusterRatio, Method::ClusterQuantile].iter().any(|method| method.name() == interval.method);
    let is_possible = match interval.kind {
        IntervalKind::BetweenTrials => return (by_clusters || interval.sessions.is_some()).then_some("kind of the interval"),
        IntervalKind::WithinRun => by_clusters && (point.trials_planned, point.trials_counted) == (1, 1),
    };
    let serving = point.serving.as_ref();
    let is_long = serving.is_some_and(|serving| serving.duration_ns.0 >= WITHIN_RUN_NS);
    if !is_possible || !is_long {
        return Some("kind of the interval");
    }
    let begun = serving.and_then(|serving| serving.sessions.as_ref()).map_or(0, |sessions| sessions.begun.0);
    let is_number = |sessions: Count| sessions.0 >= MIN_CLUSTERS as u64 && sessions.0 <= begun;
    (!interval.sessions.is_some_and(is_number)).then_some("sessions of the interval")
}

/// Returns true if two doubles are equal except for their last digits.
pub fn is_close(before: f64, now: f64) -> bool {
    before.to_bits() == now.to_bits() || (before - now).abs() <= TOLERANCE * before.abs().max(now.abs())
}

/// Checks the columns of a wide row that repeat the Summary's values of its point. A metric that the Summary does not have is null.
fn check_wide(row: &Row, point: &PointSummary) -> Result<()> {
    if let Some(serving) = &point.serving {
        check_counts(row, point, serving)?;
    }
    for name in MetricName::all() {
        let metric = point.metrics.iter().find(|metric| metric.metric == name.text);
        check_column(row, name.column, metric.map(|metric| name.to_column(metric.median)))?;
        if name.has_spread {
            check_spread(row, name, metric)?;
        }
    }
    check_column(row, "interval_kind", point.interval_kind().map(IntervalKind::as_str))
}

fn check_spread(row: &Row, name: &MetricName, metric: Option<&MetricSummary>) -> Result<()> {
    let interval = metric.and_then(|metric| metric.interval.as_ref());
    let end = |value: f64| name.definition().unit.to_column_unit(value);
    check_column(row, name.spread.cv_pct[0], metric.and_then(|metric| metric.cv).map(|cv| cv * 100.0))?;
    check_column(row, name.spread.ci_low[0], interval.map(|interval| end(interval.low)))?;
    check_column(row, name.spread.ci_high[0], interval.map(|interval| end(interval.high)))
}

fn check_counts(row: &Row, point: &PointSummary, serving: &ServingPoint) -> Result<()> {
    let count = |word: &str| serving.outcomes.get(word).map_or(0, |count| count.0);
    let (requests, completed, dropped) = (serving.requests.0, count("ok"), count("dropped"));
    let uncancelled = requests.saturating_sub(count("cancelled"));
    check_column(row, "trials_counted", point.trials_counted)?;
    check_column(row, "requests", Value::from_count(requests))?;
    check_column(row, "completed", Value::from_count(completed))?;
    check_column(row, "dropped", Value::from_count(dropped))?;
    check_column(row, "failed", Value::from_count(uncancelled.saturating_sub(completed.saturating_add(dropped))))?;
    check_column(row, "cancelled", Value::from_count(count("cancelled")))?;
    let unanswered = uncancelled.saturating_sub(completed);
    check_column(row, "error_rate", (uncancelled > 0).then(|| unanswered as f64 / uncancelled as f64))?;
    check_column(row, "duration_ns", Value::from_count(serving.duration_ns.0))?;
    check_column(row, "slo_met", serving.slo_met)?;
    check_column(row, "cost_absent_reason", serving.cost_absent.as_deref())
}

/// Refuses a row whose column holds another value. A column that the table does not have is ignored.
fn check_column(row: &Row, column: &str, expected: impl Into<Value>) -> Result<()> {
    match row.get(column) {
        Some(found) if !is_same(found, &expected.into()) => Err(differs(row, &format!("`{column}`"))),
        _ => Ok(()),
    }
}

/// Returns true if two values are bitwise equal.
pub(crate) fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => left.to_bits() == right.to_bits(),
        (left, right) => left == right,
    }
}

fn differs(row: &Row, what: &str) -> Error {
    let row_id = row.text(ROW_ID).unwrap_or_default().to_owned();
    Error::Row { row: row_id, table: row.table().name, difference: what.to_owned() }
}

fn point_differs(point: &PointSummary, what: &str) -> Error {
    place_differs(point.into(), what)
}

fn place_differs(place: NumberPlace<'_>, what: &str) -> Error {
    let (case, point) = (place.case_id.clone(), place.point_id.to_string());
    Error::Point { case, point, difference: what.to_owned() }
}

#[cfg(test)]
mod tests;
