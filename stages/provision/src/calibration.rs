//! The calibration of the load generator on this machine: the newest of the store, if it is of this machine and of this program. A quick
//! one counts only where there is no full one, so that a quick look never replaces what was measured better.

use assay_envelope::Verified;
use assay_manifest::{
    Artifact, Body as _, Calibration, CalibrationPace, CalibrationReference, Digest, Document, Fact, HostFacts,
    MAX_MANIFEST_BYTES, Manifest, Plan,
};
use assay_stage::{AcceptedResult, Context, ErrorCode, Failure, Layout, file_digest};

/// The program of the load generator, beside this stage's.
const LOAD_GENERATOR: &str = "assay-execute";

/// The largest bundle and the largest key, in bytes.
const MAX_SMALL_BYTES: u64 = 1 << 20;

/// The calibration as the Environment states it, and the files that show it.
pub(crate) struct FoundCalibration {
    pub(crate) fact: Fact<CalibrationReference>,
    pub(crate) readings: Vec<Artifact>,
}

impl FoundCalibration {
    fn none(why: impl Into<String>) -> Self {
        Self { fact: Fact::unknown(why), readings: Vec::new() }
    }
}

/// Returns the newest calibration of the load generator on this machine, or the reason why none is used; `None` if the plan offers no
/// load.
///
/// # Errors
/// Fails if the store cannot be read.
pub(crate) fn find(ctx: &Context, plan: &Plan, facts: &HostFacts, is_in_pods: bool) -> Result<Option<FoundCalibration>, Failure> {
    if assay_schedule::requested_load(plan).is_empty() {
        return Ok(None);
    }
    if is_in_pods {
        return Ok(Some(FoundCalibration::none(
            "load runs in pods of a cluster, and calibrations are of the machine that makes them",
        )));
    }
    let program = match load_generator() {
        Ok(program) => program,
        Err(error) => {
            return Ok(Some(FoundCalibration::none(format!("the program `{LOAD_GENERATOR}` cannot be read: {error}"))));
        }
    };
    let machine = facts
        .machine_digest()
        .map_err(|error| Failure::new(ErrorCode::Internal, "the facts of this machine have no canonical form").because(&error))?;
    newest(ctx, &machine, &program).map(Some)
}

/// Returns the digest of the program that will make the load.
fn load_generator() -> std::io::Result<Digest> {
    file_digest(&std::env::current_exe()?.with_file_name(LOAD_GENERATOR))
}

fn newest(ctx: &Context, machine: &Digest, program: &Digest) -> Result<FoundCalibration, Failure> {
    let newest_of = |pace| ctx.store().list(&Layout::calibrations(machine, program, pace)).map(|mut paths| paths.pop());
    let found = match newest_of(CalibrationPace::Full)? {
        Some(path) => Some(path),
        None => newest_of(CalibrationPace::Quick)?,
    };
    let Some(path) = found else { return Ok(FoundCalibration::none(explain_absence(ctx, machine)?)) };
    let refused = |why: String| FoundCalibration::none(format!("the newest calibration, `{path}`, is not used: {why}"));
    match read(ctx, &path, machine, program) {
        Ok(found) => Ok(found),
        // A calibration that cannot be trusted is none; a store that cannot be read is a failure of the stage.
        Err(failure) if failure.is_worth_a_retry() => Err(failure),
        Err(failure) => Ok(refused(failure.message)),
    }
}

/// Says why the store has no calibration for this machine and program.
fn explain_absence(ctx: &Context, machine: &Digest) -> Result<&'static str, Failure> {
    if !ctx.store().list(&Layout::calibrations_of_machine(machine))?.is_empty() {
        return Ok("the calibrations of this machine are of other builds of the load generator");
    }
    if ctx.store().list(Layout::CALIBRATIONS)?.is_empty() {
        return Ok("the store has no calibration");
    }
    Ok("the calibrations of the store are of other machines")
}

fn read(ctx: &Context, path: &str, machine: &Digest, program: &Digest) -> Result<FoundCalibration, Failure> {
    let accepted = AcceptedResult::read(ctx.store(), path)?
        .ok_or_else(|| Failure::new(ErrorCode::Pointer, format!("the pointer `{path}` no longer exists")))?;
    let verified = ctx.load_verified(accepted)?;
    let calibration = check(&verified, path, machine, program)?;
    let reference = CalibrationReference::new(accepted.manifest, accepted.bundle, &calibration.body);
    let bytes = |digest: &Digest, limit| ctx.store().get(digest, limit);
    let readings = vec![
        ctx.put(CalibrationReference::MANIFEST, "application/json", &bytes(&accepted.manifest, MAX_MANIFEST_BYTES)?)?,
        ctx.put(CalibrationReference::BUNDLE, "application/json", &bytes(&accepted.bundle, MAX_SMALL_BYTES)?)?,
    ];
    let how = match calibration.body.pace() {
        CalibrationPace::Full => "the newest calibration of the store",
        CalibrationPace::Quick => "the newest calibration of the store, which has none but quick ones",
    };
    Ok(FoundCalibration { fact: Fact::observed(reference, how), readings })
}

/// Checks that a verified document is the calibration of this machine and program that its path says. A pointer is not signed.
fn check<'a>(
    verified: &'a Verified<Document>,
    path: &str,
    machine: &Digest,
    program: &Digest,
) -> Result<&'a Manifest<Calibration>, Failure> {
    let other =
        || Failure::new(ErrorCode::Pointer, "it is not the calibration of this machine and load generator that its path says");
    let calibration = Calibration::from_document(verified.value()).ok_or_else(other)?;
    let body = &calibration.body;
    let is_of_machine = body.machine == *machine && body.facts.machine_digest().is_ok_and(|digest| digest == *machine);
    let is_of_path = Layout::calibration(machine, program, body.pace(), body.calibrated_at) == path;
    if is_of_machine && body.load_generator == *program && is_of_path { Ok(calibration) } else { Err(other()) }
}
