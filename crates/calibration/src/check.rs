//! Verification of a calibration: its signature, the attempts that it is made from, and its figures, which are computed again.

use assay_envelope::{Trust, Verified};
use assay_manifest::{
    Artifact, Attempt, Body as _, Calibration, CalibrationLevel, Document, ExecutionPart, InputRef, Kind, Manifest,
    ServingOutcome,
};
use assay_stage::{ErrorCode, Failure};
use assay_verify::{Blobs, load_alone};

use crate::figures::Figures;
use crate::level::{MAX_RAW_BYTES, read_requests};
use crate::truth::Truth;

/// The longest time that a calibration takes, from its stated time to the start of its last level: a day.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A calibration that verifies.
#[derive(Clone, Debug)]
pub struct VerifiedCalibration {
    /// Its reference.
    pub reference: InputRef,
    /// Its manifest.
    pub manifest: Manifest<Calibration>,
    /// The name of its signer.
    pub signer: String,
    /// True if a trust policy names its signer and those of the attempts.
    pub established: bool,
    /// The names of raw artifacts that are absent: the figures of their levels were not computed again.
    pub absent: Vec<String>,
}

impl VerifiedCalibration {
    /// Returns the calibration.
    pub fn body(&self) -> &Calibration {
        &self.manifest.body
    }
}

/// Verifies a calibration: signature and signer under `trust`, the machine's digest, and for each level that its execution part holds
/// the attempt with these records and this health of the client, made by the load generator that the calibration names. The figures of
/// a level are computed again from its records and the simulator's report, if both are present.
///
/// # Errors
/// Fails with the code of the signature's fault, or with `calibration` if the document contradicts its evidence.
pub fn verify_calibration(blobs: &dyn Blobs, reference: InputRef, trust: &Trust) -> Result<VerifiedCalibration, Failure> {
    let verified = load(blobs, reference, trust)?;
    let wrong_kind = || contradiction("the document is no calibration");
    let manifest = Calibration::from_document(verified.value()).ok_or_else(wrong_kind)?.clone();
    let body = &manifest.body;
    let machine =
        body.facts.machine_digest().map_err(|error| contradiction("its facts have no canonical form").because(&error))?;
    if machine != body.machine {
        return Err(contradiction("its machine is not the one that its facts describe"));
    }
    let parts = manifest.header.inputs.iter().map(|input| load(blobs, *input, trust)).collect::<Result<Vec<_>, _>>()?;
    let mut absent = Vec::new();
    for level in &body.levels {
        absent.extend(check_level(blobs, body, level, &parts)?);
    }
    let established = parts.iter().chain([&verified]).all(|document| document.signer().established);
    Ok(VerifiedCalibration { reference, signer: verified.signer().name.clone(), established, absent, manifest })
}

fn contradiction(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Calibration, what)
}

/// Loads a signed document by its digests and verifies it.
fn load(blobs: &dyn Blobs, reference: InputRef, trust: &Trust) -> Result<Verified<Document>, Failure> {
    load_alone(blobs, reference, trust, reference.kind.as_str())
}

/// Checks one level. Returns the names of its raw artifacts that are absent.
fn check_level(
    blobs: &dyn Blobs,
    body: &Calibration,
    level: &CalibrationLevel,
    parts: &[Verified<Document>],
) -> Result<Vec<String>, Failure> {
    let name = format!("{} {}", level.unit, level.amount);
    let wrong = |what: &str| contradiction(format!("the level at {name} {what}"));
    let part = parts.iter().find(|part| part.input_ref().kind == Kind::ExecutionPart && part.manifest_digest() == level.part);
    let part = part.ok_or_else(|| wrong("is of an execution part that is no input"))?;
    if part.predicate().binary() != Some(body.load_generator) {
        return Err(wrong("was measured by another program than the calibration names"));
    }
    let (attempt, outcome) = find_attempt(part.value(), level).ok_or_else(|| wrong("is of an attempt that was not made"))?;
    let measured_ns = outcome.measured_to_ns.0.saturating_sub(outcome.measured_from_ns.0);
    let is_same = outcome.client == level.client
        && outcome.records.digest == level.records.digest
        && attempt.allowed_cpus.as_deref().unwrap_or_default() == body.allowed_cpus
        && measured_ns == level.measured_ns.0
        && is_load_of(attempt, level);
    if !is_same {
        return Err(wrong("is not what its attempt measured"));
    }
    // The newest calibration is the one that counts, so its time has to be that of its evidence.
    let begun = attempt.window.start;
    if begun < body.calibrated_at || begun.ns_since(body.calibrated_at) > LONGEST_NS {
        return Err(wrong("was not measured in the hours after the time that the calibration states"));
    }
    let read = |artifact: &Artifact| blobs.get(&artifact.digest, MAX_RAW_BYTES);
    let (records, truth) = (read(&level.records)?, read(&level.truth)?);
    if let (Some(records), Some(truth)) = (&records, &truth) {
        let requests = read_requests(records.clone(), outcome)?;
        let figures = requests.figures(attempt, outcome, &Truth::parse(truth)?, &body.limits);
        return if has_figures(level, &figures) {
            Ok(Vec::new())
        } else {
            Err(wrong("has other figures than its evidence gives"))
        };
    }
    let absent = [(&level.records, records.is_none()), (&level.truth, truth.is_none())];
    Ok(absent.into_iter().filter(|(_, is_absent)| *is_absent).map(|(artifact, _)| artifact.name.clone()).collect())
}

fn find_attempt<'a>(part: &'a Document, level: &CalibrationLevel) -> Option<(&'a Attempt, &'a ServingOutcome)> {
    let part = ExecutionPart::from_document(part).filter(|part| part.header.run_id == level.run_id)?;
    let attempt =
        part.body.attempts.iter().find(|attempt| attempt.trial_id == level.trial_id && attempt.attempt == level.attempt)?;
    Some((attempt, attempt.serving.as_ref()?))
}

/// Returns true if the name of the attempt's point is that of the load.
fn is_load_of(attempt: &Attempt, level: &CalibrationLevel) -> bool {
    let kind = match level.unit {
        assay_manifest::LoadUnit::Concurrency => "concurrency",
        assay_manifest::LoadUnit::RequestsPerS => "rate",
        assay_manifest::LoadUnit::EventsPerS => return false,
    };
    attempt.point_id.as_str() == format!("{kind}-{}", level.amount)
}

fn has_figures(level: &CalibrationLevel, figures: &Figures) -> bool {
    let Figures { requests, ttft_error, itl_error, events_per_s, missed } = figures;
    level.requests.0 == *requests
        && level.ttft_error == *ttft_error
        && level.itl_error == *itl_error
        && level.events_per_s.to_bits() == events_per_s.to_bits()
        && level.missed == *missed
}
