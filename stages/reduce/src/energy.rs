//! The energy of each attempt of a serving workload for its work: joules by the meters of a source, over the requests that succeeded and their
//! output tokens.
//!
//! Both sides are of the same time: that which the readings of all objects cover, the warm-up included. No published number comes from it.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Artifact, Block, CaseId, Count, EnergyBoundary, EnergyMethod, Instant, Name, Plan, PlannedTrial, PointEnergy, PointId,
    PointSummary, Reason,
};
use assay_record::Outcome;
use assay_stage::Failure;
use assay_stats::Samples;
use assay_telemetry::prometheus::AttemptKey;
use assay_telemetry::{EnergyFault, EnergyUse, MeteredEnergy};
use assay_warehouse::records::{RecordColumn, RecordError, RecordFile};
use assay_warehouse::{Row, TELEMETRY_SLICE_FACT, Value};

use crate::dimensions::Dimensions;
use crate::evidence::ShardAttempt;
use crate::rows::{RowContext, fact};
use crate::telemetry::point_of;
use crate::{row_failure, unreadable_records};

/// The object of rows of energy of all objects that a source observes.
const ALL_OBJECTS: &str = "all";

/// An attempt, and the source by whose meters its energy is known.
type AttemptSource = (AttemptKey, String);

/// The meters of all attempts of serving workloads.
#[derive(Default)]
pub(crate) struct AttemptMeters {
    found: BTreeMap<AttemptSource, Vec<MeteredEnergy>>,
    /// The machine that a source is, by attempt; for all others it is the source's objects together.
    machines: BTreeMap<AttemptSource, String>,
}

/// The rows of energy, their numbers by point, and the attempts without any.
pub(crate) struct ReducedEnergy {
    pub(crate) rows: Vec<Row>,
    pub(crate) points: Vec<PointEnergy>,
    pub(crate) issues: Vec<Reason>,
}

/// Opens the records behind an artifact.
type OpenRecords<'a> = dyn Fn(&Artifact) -> Result<RecordFile, Failure> + 'a;

impl AttemptMeters {
    /// Adds the energy by the meters of a source. `machine` is the one that the source is of, if it is of one alone.
    pub(crate) fn add(
        &mut self,
        attempt: AttemptKey,
        source: &str,
        machine: Option<&str>,
        energy: impl IntoIterator<Item = MeteredEnergy>,
    ) {
        let place = (attempt, source.to_owned());
        let mut energy = energy.into_iter().peekable();
        if energy.peek().is_some() {
            self.machines.extend(machine.map(|machine| (place.clone(), machine.to_owned())));
            self.found.entry(place).or_default().extend(energy);
        }
    }

    /// Divides the energy of every attempt by its work.
    pub(crate) fn reduce(
        &self,
        context: &RowContext<'_>,
        dimensions: &Dimensions,
        points: &[PointSummary],
        open: &OpenRecords<'_>,
    ) -> Result<ReducedEnergy, Failure> {
        let (mut rows, mut values, mut faults) = (Vec::new(), PointValues::default(), Faults::default());
        // Most machines have no meter.
        let served = if self.found.is_empty() { BTreeMap::new() } else { served_attempts(context) };
        for (source, boundary) in self.attempts_without(&served) {
            faults.add(source, boundary, EnergyFault::ObjectMissing);
        }
        let objects = self.objects_of_blocks();
        for (place, energy) in self.found.iter().flat_map(|(place, found)| chosen(found).map(move |energy| (place, energy))) {
            let (attempt, source) = place;
            let Some(ServedAttempt { trial, shards, .. }) = served.get(attempt) else { continue };
            let all = objects.get(&(attempt.block, source, energy.boundary, energy.method));
            let is_whole = all.is_none_or(|all| all.len() == energy.objects.len());
            let known = energy.used.clone().and_then(|used| if is_whole { Ok(used) } else { Err(EnergyFault::ObjectMissing) });
            let known = match known {
                Ok(used) => work(shards, &used, open)?.map(|work| (used, work)).ok_or(EnergyFault::NoRequest),
                Err(fault) => Err(fault),
            };
            match known {
                Err(fault) => faults.add(source, energy.boundary, fault),
                Ok((used, work)) => {
                    let found = AttemptEnergy { attempt, source, scope_id: self.scope_id(place), energy, used: &used, work };
                    rows.extend(found.rows(context, dimensions, point_of(points, trial)?).map_err(|error| row_failure(&error))?);
                    if shards.iter().all(|shard| shard.collected.counted) {
                        values.add(trial, &found);
                    }
                }
            }
        }
        Ok(ReducedEnergy { rows, points: values.into_points(), issues: faults.into_issues() })
    }

    /// Returns, for each attempt without a meter of a source that another attempt at the same target in its block has, the source and the boundary.
    fn attempts_without(&self, served: &BTreeMap<AttemptKey, ServedAttempt<'_>>) -> Vec<(&str, EnergyBoundary)> {
        let mut known = BTreeSet::new();
        for ((attempt, source), found) in &self.found {
            let Some(ServedAttempt { target, .. }) = served.get(attempt) else { continue };
            known.extend(found.iter().map(|energy| (attempt.block, *target, source.as_str(), energy.boundary)));
        }
        let has = |attempt: &AttemptKey, source: &str, boundary: EnergyBoundary| {
            let found = self.found.get(&(attempt.clone(), source.to_owned()));
            found.is_some_and(|found| found.iter().any(|energy| energy.boundary == boundary))
        };
        let mut without = Vec::new();
        for (block, target, source, boundary) in known {
            let of_place = served.iter().filter(|(attempt, of)| attempt.block == block && of.target == target);
            without.extend(of_place.filter(|(attempt, _)| !has(attempt, source, boundary)).map(|_| (source, boundary)));
        }
        without
    }

    /// Returns the objects that a source had in any attempt of a block: one that an attempt lacks was missing.
    fn objects_of_blocks(&self) -> BTreeMap<(Block, &str, EnergyBoundary, EnergyMethod), BTreeSet<&str>> {
        let mut all: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for ((attempt, source), found) in &self.found {
            for energy in found {
                let objects = all.entry((attempt.block, source.as_str(), energy.boundary, energy.method)).or_default();
                objects.extend(energy.objects.iter().map(String::as_str));
            }
        }
        all
    }

    fn scope_id(&self, place: &AttemptSource) -> &str {
        self.machines.get(place).map_or(ALL_OBJECTS, String::as_str)
    }
}

/// An attempt of a serving workload.
struct ServedAttempt<'a> {
    trial: &'a PlannedTrial,
    target: &'a Name,
    shards: Vec<&'a ShardAttempt>,
}

/// Returns the attempts of serving workloads.
fn served_attempts<'a>(context: &RowContext<'a>) -> BTreeMap<AttemptKey, ServedAttempt<'a>> {
    let mut all: BTreeMap<AttemptKey, ServedAttempt<'a>> = BTreeMap::new();
    for (trial, shards) in &context.attempts.0 {
        let Some(target) = serving_target(context.plan, &trial.case_id) else { continue };
        for shard in shards {
            let key =
                AttemptKey { block: shard.collected.block, trial_id: trial.trial_id.clone(), attempt: shard.attempt.attempt };
            all.entry(key).or_insert_with(|| ServedAttempt { trial, target, shards: Vec::new() }).shards.push(shard);
        }
    }
    all
}

/// Returns the target of a case of a serving workload; `None` for other work.
fn serving_target<'a>(plan: &'a Plan, case: &CaseId) -> Option<&'a Name> {
    let case = plan.case(case)?;
    plan.workload(&case.workload)?.serving.as_ref().map(|_| &case.target)
}

/// Returns the energy of each boundary: by counters, or if there are none, by samples of power.
fn chosen(found: &[MeteredEnergy]) -> impl Iterator<Item = &MeteredEnergy> {
    let by = move |boundary: EnergyBoundary| {
        EnergyMethod::ALL.iter().find_map(|method| found.iter().find(|one| (one.boundary, one.method) == (boundary, *method)))
    };
    EnergyBoundary::ALL.iter().filter_map(move |boundary| by(*boundary))
}

/// The work that was done in a time.
#[derive(Clone, Copy)]
struct Work {
    /// Requests that succeeded.
    requests: u64,
    /// Their output tokens; `None` if a request has no count.
    output_tokens: Option<u64>,
}

/// Returns the requests of all shards that ended with success in a time, whatever their phase; `None` if there are none.
fn work(shards: &[&ShardAttempt], used: &EnergyUse, open: &OpenRecords<'_>) -> Result<Option<Work>, Failure> {
    let mut work = Work { requests: 0, output_tokens: Some(0) };
    for outcome in shards.iter().filter_map(|shard| shard.attempt.serving.as_ref()) {
        let unreadable = |error: RecordError| unreadable_records(&outcome.records, &error);
        let file = open(&outcome.records)?;
        let columns = [RecordColumn::Outcome, RecordColumn::End, RecordColumn::OutputTokens];
        for batch in file.batches(&columns, 0..file.row_groups()).map_err(unreadable)? {
            let batch = batch.map_err(unreadable)?;
            let outcomes: Vec<Outcome> = batch.words(RecordColumn::Outcome).map_err(unreadable)?;
            let (ends, tokens) = (batch.ints(RecordColumn::End), batch.ints(RecordColumn::OutputTokens));
            let (ends, tokens) = (ends.map_err(unreadable)?, tokens.map_err(unreadable)?);
            for (row, _) in outcomes.iter().enumerate().filter(|(_, outcome)| **outcome == Outcome::Ok) {
                let ended = ends.get(row).map(|end_ns| Instant::from_unix_ns(outcome.start.unix_ns().saturating_add(end_ns)));
                if ended.is_some_and(|ended| used.start < ended && ended <= used.end) {
                    work.requests += 1;
                    let count = tokens.get(row).and_then(|count| u64::try_from(count).ok());
                    work.output_tokens = work.output_tokens.zip(count).map(|(sum, count)| sum.saturating_add(count));
                }
            }
        }
    }
    Ok((work.requests > 0).then_some(work))
}

/// The energy of one attempt by one source, with its work.
struct AttemptEnergy<'a> {
    attempt: &'a AttemptKey,
    source: &'a str,
    scope_id: &'a str,
    energy: &'a MeteredEnergy,
    used: &'a EnergyUse,
    work: Work,
}

impl AttemptEnergy<'_> {
    fn objects(&self) -> u64 {
        self.energy.added_up.unwrap_or(self.energy.objects.len() as u64)
    }

    fn per_request(&self) -> f64 {
        self.used.joules / self.work.requests as f64
    }

    fn per_output_token(&self) -> Option<f64> {
        let tokens = self.work.output_tokens.filter(|tokens| *tokens > 0)?;
        Some(self.used.joules / tokens as f64)
    }

    fn rows(&self, context: &RowContext<'_>, dimensions: &Dimensions, point: &PointSummary) -> assay_warehouse::Result<Vec<Row>> {
        let values = [
            Some(("energy", "J", self.used.joules)),
            self.per_output_token().map(|value| ("energy_per_output_token", "J/token", value)),
            Some(("energy_per_request", "J/request", self.per_request())),
        ];
        values.into_iter().flatten().map(|value| self.row(context, dimensions, point, value)).collect()
    }

    fn row(
        &self,
        context: &RowContext<'_>,
        dimensions: &Dimensions,
        point: &PointSummary,
        (metric, unit, value): (&str, &str, f64),
    ) -> assay_warehouse::Result<Row> {
        fact(&TELEMETRY_SLICE_FACT, context, dimensions, point)?
            .with("trial_id", self.attempt.trial_id.as_str())?
            .with("attempt", self.attempt.attempt)?
            .with("window_start_unix_ns", self.used.start)?
            .with("window_end_unix_ns", self.used.end)?
            .with("scope_kind", self.energy.boundary.as_str())?
            .with("scope_id", self.scope_id)?
            .with("source", self.source)?
            .with("metric", metric)?
            .with("unit", unit)?
            .with("metric_kind", "derived")?
            .with("method", self.energy.method.as_str())?
            .with("objects", Value::from_count(self.objects()))?
            .with("n", Value::from_count(self.used.readings))?
            .with("mean", value)?
            .with("gap_ns", Value::from_count(0))?
            .seal()
    }
}

/// The place of an energy: attempts of one place are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EnergyPlace {
    case_id: CaseId,
    point_id: PointId,
    source: String,
    boundary: EnergyBoundary,
    method: EnergyMethod,
    objects: u64,
}

/// The joules of one attempt for its work.
struct JoulesPer {
    request: f64,
    output_token: Option<f64>,
}

/// The values of counted attempts.
#[derive(Default)]
struct PointValues(BTreeMap<EnergyPlace, Vec<JoulesPer>>);

impl PointValues {
    fn add(&mut self, trial: &PlannedTrial, found: &AttemptEnergy<'_>) {
        let place = EnergyPlace {
            case_id: trial.case_id.clone(),
            point_id: trial.point_id.clone(),
            source: found.source.to_owned(),
            boundary: found.energy.boundary,
            method: found.energy.method,
            objects: found.objects(),
        };
        let joules = JoulesPer { request: found.per_request(), output_token: found.per_output_token() };
        self.0.entry(place).or_default().push(joules);
    }

    fn into_points(self) -> Vec<PointEnergy> {
        let median = |values: Vec<f64>| Samples::new(&values).ok().map(|samples| samples.median());
        let point = |(place, values): (EnergyPlace, Vec<JoulesPer>)| {
            let EnergyPlace { case_id, point_id, source, boundary, method, objects } = place;
            Some(PointEnergy {
                case_id,
                point_id,
                source,
                boundary,
                method,
                objects: Count(objects),
                attempts: Count(values.len() as u64),
                joules_per_output_token: values.iter().map(|joules| joules.output_token).collect::<Option<_>>().and_then(median),
                joules_per_request: median(values.iter().map(|joules| joules.request).collect())?,
            })
        };
        self.0.into_iter().filter_map(point).collect()
    }
}

/// The attempts whose energy is not known, by source and boundary, with the reasons.
#[derive(Default)]
struct Faults(BTreeMap<(String, EnergyBoundary), BTreeMap<EnergyFault, u64>>);

impl Faults {
    fn add(&mut self, source: &str, boundary: EnergyBoundary, fault: EnergyFault) {
        *self.0.entry((source.to_owned(), boundary)).or_default().entry(fault).or_default() += 1;
    }

    fn into_issues(self) -> Vec<Reason> {
        let issue = |((source, boundary), faults): ((String, EnergyBoundary), BTreeMap<EnergyFault, u64>)| {
            let count: u64 = faults.values().sum();
            let attempts = assay_metric::quantity(count, "attempt");
            let why: Vec<String> = faults.into_iter().map(|(fault, count)| format!("{count} {}", fault.words())).collect();
            Reason::new(
                "energy_unknown",
                format!("`{source}`: the {boundary} energy of {attempts} is not known: {}", why.join(", ")),
            )
        };
        self.0.into_iter().map(issue).collect()
    }
}

#[cfg(test)]
mod tests;
