//! The levels of a run: the last attempt of each of its trials, beside the simulator's report.

use assay_manifest::{
    Artifact, Attempt, CalibrationLevel, Count, ExecutionPart, InputRef, LoadUnit, Plan, Point, ServingOutcome,
};
use assay_schedule::OfferedLoad;
use assay_stage::{ErrorCode, Failure};
use assay_store::Store;
use assay_verify::{Blobs, Chain};
use assay_warehouse::records::RecordFile;

use crate::figures::{Figures, LIMITS, MeasuredRequests};
use crate::truth::Truth;

/// The largest file of records and the largest report of a simulator, in bytes.
pub(crate) const MAX_RAW_BYTES: u64 = 4 << 30;

/// The measured levels of one run.
#[derive(Debug)]
pub struct MeasuredLevels {
    /// The levels, in the order of the plan.
    pub levels: Vec<CalibrationLevel>,
    /// The execution parts that hold their attempts.
    pub parts: Vec<InputRef>,
    /// The CPUs that the load generator was allowed to use; empty if they are not known.
    pub allowed_cpus: String,
}

impl MeasuredLevels {
    /// Replaces levels by those of another run at the same loads.
    pub fn replace(&mut self, again: Self) {
        for level in again.levels {
            let same = |known: &&mut CalibrationLevel| known.unit == level.unit && known.amount.total_cmp(&level.amount).is_eq();
            if let Some(known) = self.levels.iter_mut().find(same) {
                *known = level;
            }
        }
        self.parts.extend(again.parts);
        self.parts.retain(|part| self.levels.iter().any(|level| level.part == part.manifest));
    }

    /// Reads the levels of a verified run, and stores the simulator's report of the requests that are compared.
    ///
    /// # Errors
    /// Fails if a load of the plan was not measured at all, and if evidence cannot be read.
    pub fn of_run(chain: &Chain, blobs: &dyn Blobs, truth: &Truth, store: &Store) -> Result<Self, Failure> {
        let lost = || Failure::new(ErrorCode::Internal, "a run of the calibration has no plan");
        let plan = &chain.one::<Plan>().ok_or_else(lost)?.body;
        let mut measured = Self { levels: Vec::new(), parts: Vec::new(), allowed_cpus: String::new() };
        for point in plan.cases.iter().flat_map(|case| &case.points) {
            let (unit, amount) = load_of(point).ok_or_else(lost)?;
            let (part, attempt, outcome) = last_attempt(chain, point).ok_or_else(|| not_measured(chain, point))?;
            let bytes = raw(blobs, &outcome.records)?;
            let requests = read_requests(bytes, outcome)?;
            let Figures { requests: compared, ttft_error, itl_error, events_per_s, missed } =
                requests.figures(attempt, outcome, truth, &LIMITS);
            let lines = truth.lines(requests.ids())?;
            let name = format!("levels/{unit}-{amount}");
            let of_truth = Artifact {
                name: format!("{name}/truth.jsonl"),
                digest: store.put(&lines)?,
                size: Count(lines.len() as u64),
                media_type: "application/jsonl".to_owned(),
            };
            measured.levels.push(CalibrationLevel {
                unit,
                amount,
                run_id: chain.run_id.clone(),
                part: part.manifest,
                trial_id: attempt.trial_id.clone(),
                attempt: attempt.attempt,
                measured_ns: Count(outcome.measured_to_ns.0.saturating_sub(outcome.measured_from_ns.0)),
                requests: Count(compared),
                ttft_error,
                itl_error,
                events_per_s,
                client: outcome.client.clone(),
                missed,
                records: Artifact { name: format!("{name}/records.parquet"), ..outcome.records.clone() },
                truth: of_truth,
            });
            measured.parts.push(part);
            if let Some(cpus) = &attempt.allowed_cpus {
                measured.allowed_cpus.clone_from(cpus);
            }
        }
        Ok(measured)
    }
}

/// Returns the load of a point of a calibration's run.
fn load_of(point: &Point) -> Option<(LoadUnit, f64)> {
    match OfferedLoad::from_point(point).ok()? {
        OfferedLoad::Concurrency { users } => Some((LoadUnit::Concurrency, users as f64)),
        OfferedLoad::Rate { per_s } => Some((LoadUnit::RequestsPerS, per_s)),
        _ => None,
    }
}

/// Returns the last attempt at a point that sent requests, with its execution part.
fn last_attempt<'a>(chain: &'a Chain, point: &Point) -> Option<(InputRef, &'a Attempt, &'a ServingOutcome)> {
    let parts = chain.all::<ExecutionPart>();
    let attempts = parts.flat_map(|(part, manifest)| manifest.body.attempts.iter().map(move |attempt| (part, attempt)));
    let at_point = attempts.filter(|(_, attempt)| attempt.point_id == point.point_id);
    let served = at_point.filter_map(|(part, attempt)| Some((part, attempt, attempt.serving.as_ref()?)));
    served.max_by_key(|(_, attempt, _)| attempt.attempt)
}

fn not_measured(chain: &Chain, point: &Point) -> Failure {
    Failure::new(ErrorCode::NoValidTrial, format!("no attempt at `{}` sent requests", point.point_id))
        .hint(format!("`assay show {}` lists the reasons; repair the cause, then calibrate again", chain.run_id))
}

/// Reads the requests of an attempt from its records.
pub(crate) fn read_requests(bytes: Vec<u8>, outcome: &ServingOutcome) -> Result<MeasuredRequests, Failure> {
    let damaged = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::Calibration, "the records of a level cannot be read").because(error)
    };
    let file = RecordFile::open(bytes).map_err(|error| damaged(&error))?;
    let records = file.records().map_err(|error| damaged(&error))?;
    MeasuredRequests::from_records(records, outcome).map_err(|error| damaged(&error))
}

/// Returns the bytes of a raw artifact.
fn raw(blobs: &dyn Blobs, artifact: &Artifact) -> Result<Vec<u8>, Failure> {
    blobs.get(&artifact.digest, MAX_RAW_BYTES)?.ok_or_else(|| {
        Failure::new(ErrorCode::ArtifactAbsent, format!("`{}` ({}) is absent", artifact.name, artifact.digest.short()))
    })
}
