//! `assay calibrate`: measures what one load generator process of this machine can do, against a simulator whose true times are known,
//! and signs it. `assay show` and `assay verify` open the document by its digest.

use assay_calibration::{
    LIMITS, Ladder, LoadStep, MeasuredLevels, Pace, RunningSimulator, VerifiedCalibration, definitions, find, machine_facts,
    sign, verify_calibration,
};
use assay_claim::describe_ceiling;
use assay_load::{SPARE_FILES, most_connections, most_files};
use assay_manifest::{
    Artifact, Calibration, CalibrationLevel, CalibrationPace, Count, Digest, InputRef, LoadUnit, MAX_MANIFEST_BYTES,
    MeasurementError, Role, RunId,
};
use assay_process::Cancel;
use assay_report::{shell_word, significant};
use assay_runner::{Config, KeyRing, LocalKeys, SourceSpec};
use assay_runs::{RunStore, establish, store_option};
use assay_stage::parameters::PlanParameters;
use assay_stage::{Clock, ErrorCode, Exit, Failure, file_digest, key_password};
use assay_store::Store;
use assay_verify::{Blobs as _, StoreBlobs};
use serde_json::json;

use crate::commands::run::{RunRequest, binaries, handle_signals, make_missing_keys};
use crate::output;
use crate::progress::Detail;

/// The program that makes the load of every run.
const LOAD_GENERATOR: &str = "assay-execute";

/// The program of the simulator.
const SIMULATOR: &str = "assay-simulator";

/// The largest public key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// Calibrate the load generator of this machine: the load that one client makes, and how exactly it measures. Takes about a minute.
#[derive(clap::Args)]
pub(crate) struct Calibrate {
    /// The numbers of streams that are measured first; then the largest is doubled until a level fails, as are request rates
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 64, 512], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    streams: Vec<u32>,
    /// Measure these streams and one request rate for a second each, and no higher loads
    #[arg(long)]
    quick: bool,
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// Print the calibration as one JSON document
    #[arg(long)]
    json: bool,
}

/// The measured levels of all steps.
#[derive(Default)]
struct Measured {
    levels: Vec<CalibrationLevel>,
    parts: Vec<InputRef>,
    allowed_cpus: String,
    /// The first run, whose name the document has.
    run_id: Option<RunId>,
}

impl Calibrate {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let place = RunStore { store: self.store.clone(), trust: Vec::new() };
        let open_streams = u64::from(most_connections());
        self.check_streams(open_streams)?;
        let cancel = handle_signals()?;
        let keys = calibrate_key()?;
        let programs = binaries()?;
        let load_generator = program_digest(&programs.join(LOAD_GENERATOR))?;
        let calibrated_at = Clock.now();
        let facts = machine_facts();
        let machine = facts.machine_digest().map_err(|error| {
            Failure::new(ErrorCode::Internal, "the facts of this machine have no canonical form").because(&error)
        })?;
        let mut simulator = RunningSimulator::start(&programs.join(SIMULATOR))?;
        let store = Store::open(&place.store_uri()?)?;
        let measured = self.measure(&mut simulator, &store, open_streams, &cancel)?;
        let run_id = measured.run_id.ok_or_else(|| Failure::new(ErrorCode::Internal, "a calibration has no run"))?;
        let calibration = Calibration {
            calibrated_at,
            machine,
            facts,
            load_generator,
            allowed_cpus: measured.allowed_cpus,
            simulator: simulator.describe(),
            open_streams: Count(open_streams),
            limits: LIMITS,
            levels: measured.levels,
            key: put_key(&store, &keys)?,
        };
        let reference = sign(&store, &keys, &run_id, measured.parts, calibration)?;
        show(&place, &reference.manifest.to_string(), self.json)
    }

    fn check_streams(&self, open_streams: u64) -> Result<(), Failure> {
        let most = self.streams.iter().copied().max().unwrap_or_default();
        if u64::from(most) <= open_streams {
            return Ok(());
        }
        let message = format!(
            "`--streams {most}` is more than the {open_streams} that the limit of open files allows: {} files, of which {SPARE_FILES} are for others than streams",
            most_files()
        );
        Err(Failure::new(ErrorCode::Option, message).hint("raise it, such as with `ulimit -n`, or name fewer streams"))
    }

    fn measure(
        &self,
        simulator: &mut RunningSimulator,
        store: &Store,
        open_streams: u64,
        cancel: &Cancel,
    ) -> Result<Measured, Failure> {
        let pace = if self.quick { Pace::QUICK } else { Pace::FULL };
        let mut ladder = Ladder::new(self.streams.clone(), open_streams, pace);
        let mut measured = Measured::default();
        while let Some(step) = ladder.next(&measured.levels) {
            let mut levels = self.measure_step(&step, simulator, store, pace, cancel)?;
            // Other users of the machine may disturb a level once.
            if let Some(again) = LoadStep::failed(&levels.levels) {
                levels.replace(self.measure_step(&again, simulator, store, pace, cancel)?);
            }
            for level in &levels.levels {
                self.say(level);
                measured.run_id.get_or_insert_with(|| level.run_id.clone());
            }
            measured.levels.extend(levels.levels);
            measured.parts.extend(levels.parts);
            measured.allowed_cpus = levels.allowed_cpus;
        }
        Ok(measured)
    }

    fn measure_step(
        &self,
        step: &LoadStep,
        simulator: &mut RunningSimulator,
        store: &Store,
        pace: Pace,
        cancel: &Cancel,
    ) -> Result<MeasuredLevels, Failure> {
        let (pipeline, adhoc) = definitions(step, &simulator.url(), pace);
        let request = RunRequest {
            source: SourceSpec { pipeline, adhoc, ..SourceSpec::default() },
            store: self.store.clone(),
            name: None,
            plan: PlanParameters { fetch: false, ..PlanParameters::default() },
            json: self.json,
            command: "assay calibrate",
            search: None,
            comparison: None,
        };
        let finished = request.drive(false, Detail::Exclusions(Vec::new()), cancel)?;
        let truth = simulator.take_truth()?;
        MeasuredLevels::of_run(&finished.opened.chain, finished.opened.blobs.as_ref(), &truth, store)
    }

    fn say(&self, level: &CalibrationLevel) {
        if !self.json {
            let outcome = if level.holds() { "held" } else { "failed" };
            output::diagnostic(format!("calibration: {} {outcome}", load_name(level)));
        }
    }
}

/// Returns the unlocked key of the role `calibrate`, which is made at first use.
fn calibrate_key() -> Result<KeyRing, Failure> {
    let (config, password) = (Config::find()?, key_password());
    let password = password.as_encoded_bytes();
    make_missing_keys(&config, password)?;
    Ok(LocalKeys::new(&config).unlock(&[Role::Calibrate], password)?)
}

fn program_digest(path: &std::path::Path) -> Result<Digest, Failure> {
    file_digest(path).map_err(|error| {
        Failure::new(ErrorCode::BinaryMissing, format!("the load generator's binary `{}` cannot be read", path.display()))
            .because(&error)
    })
}

/// Stores the public key of the signer.
fn put_key(store: &Store, keys: &KeyRing) -> Result<Artifact, Failure> {
    let pem = keys.public(Role::Calibrate)?.to_pem();
    Ok(Artifact {
        name: Calibration::KEY.to_owned(),
        digest: store.put(pem.as_bytes())?,
        size: Count(pem.len() as u64),
        media_type: "application/x-pem-file".to_owned(),
    })
}

/// Returns true if an argument names a calibration: it is a digest, and no run has such a name.
pub(crate) fn is_digest(name: &str) -> bool {
    name.starts_with("sha256:")
}

/// A calibration with the source of the trust that it was verified under.
struct Opened {
    calibration: VerifiedCalibration,
    trusted_by: String,
    store_uri: String,
}

/// Finds a calibration in a store and verifies it.
fn open(place: &RunStore, name: &str) -> Result<Opened, Failure> {
    let (store, store_uri) = (place.open_store()?, place.store_uri()?);
    let reference = find(&store, name)?;
    let blobs = StoreBlobs::new(store);
    let trust = establish(&place.trust, &Config::find()?, &blobs, &keys_beside(&blobs, &reference)?)?;
    let calibration = verify_calibration(&blobs, reference, &trust.trust)?;
    Ok(Opened { calibration, trusted_by: trust.source, store_uri })
}

/// Returns the public key that a calibration names, unverified: it is a candidate only.
fn keys_beside(blobs: &StoreBlobs, reference: &InputRef) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(bytes) = blobs.get(&reference.manifest, MAX_MANIFEST_BYTES)? else { return Ok(Vec::new()) };
    let Ok(assay_manifest::Document::Calibration(calibration)) = assay_manifest::Document::parse(&bytes) else {
        return Ok(Vec::new());
    };
    Ok(blobs.get(&calibration.body.key.digest, MAX_KEY_BYTES)?.into_iter().collect())
}

/// Shows a calibration of a store, verified before it is shown.
pub(crate) fn show(place: &RunStore, name: &str, as_json: bool) -> Result<Exit, Failure> {
    let opened = open(place, name)?;
    if as_json {
        print_json(&opened)?;
    } else {
        lines(&opened).into_iter().for_each(output::line);
    }
    Ok(exit(&opened))
}

/// Verifies a calibration of a store, and reports what was checked.
pub(crate) fn verify(place: &RunStore, name: &str, strict: bool, as_json: bool) -> Result<Exit, Failure> {
    let opened = open(place, name)?;
    let VerifiedCalibration { reference, signer, absent, .. } = &opened.calibration;
    let levels = &opened.calibration.body().levels;
    if as_json {
        print_json(&opened)?;
    } else {
        output::line(format!("calibration {}", reference.manifest));
        output::line(format!("trust: {}", opened.trusted_by));
        output::line(format!("  ok  signed by {signer}; its machine is the one that its facts describe"));
        output::line(format!("  ok  {} levels are attempts of signed execution parts of the same load generator", levels.len()));
        let computed = levels.iter().filter(|level| !is_absent(level, absent)).count();
        output::line(format!(
            "  ok  the figures of {computed} levels were computed again from records and the simulator's report"
        ));
        for name in absent {
            output::line(format!("  --  `{}` is absent: its level was not computed again", name.escape_debug()));
        }
    }
    match absent.first().filter(|_| strict) {
        Some(name) => Err(Failure::new(ErrorCode::ArtifactAbsent, format!("`{name}` of the calibration is absent"))),
        None => Ok(exit(&opened)),
    }
}

fn is_absent(level: &CalibrationLevel, absent: &[String]) -> bool {
    [&level.records, &level.truth].iter().any(|artifact| absent.contains(&artifact.name))
}

fn exit(opened: &Opened) -> Exit {
    if opened.calibration.established { Exit::Done } else { Exit::Unestablished }
}

fn print_json(opened: &Opened) -> Result<(), Failure> {
    let VerifiedCalibration { reference, manifest, signer, established, absent } = &opened.calibration;
    let body = &manifest.body;
    output::json(&json!({
        "calibration": reference,
        "runs": runs(body),
        "signer": signer,
        "established": established,
        "absent": absent,
        "ceilings": body.ceilings(),
        "shares_cpus": body.shares_cpus(),
        "body": body,
    }))
}

/// Returns the runs of a calibration, each once.
fn runs(body: &Calibration) -> Vec<&RunId> {
    let mut runs: Vec<&RunId> = Vec::new();
    for level in &body.levels {
        // A level that failed was measured once more, by a run in the place of its first one.
        if !runs.contains(&&level.run_id) {
            runs.push(&level.run_id);
        }
    }
    runs
}

/// Returns the lines that show a calibration.
fn lines(opened: &Opened) -> Vec<String> {
    let body = opened.calibration.body();
    let mut lines = vec![
        format!("calibration {}", opened.calibration.reference.manifest),
        format!(
            "begun {}, load generator {}, machine {}",
            body.calibrated_at.to_seconds(),
            body.load_generator.short(),
            body.machine.short()
        ),
        describe_cpus(body),
        String::new(),
    ];
    lines.extend(table(&body.levels));
    for level in body.levels.iter().filter(|level| !level.holds()) {
        let why: Vec<&str> = level.missed.iter().map(|reason| reason.detail.as_str()).collect();
        lines.push(format!("{} failed: {}", load_name(level), why.join("; ").escape_debug()));
    }
    lines.push(String::new());
    let ceilings: Vec<String> = body.ceilings().iter().map(describe_ceiling).collect();
    lines.push(if ceilings.is_empty() {
        "no load held, so nothing can be claimed with this client: calibrate again on an idle machine".to_owned()
    } else {
        format!("one client carries {}", ceilings.join(", "))
    });
    lines.push(format!("the limit of open files allows one client {} open streams", body.open_streams));
    if body.pace() == CalibrationPace::Quick {
        lines.push("a quick calibration: runs refer to it only while the store has no full one of this program".to_owned());
    }
    let name = shell_word(&opened.calibration.reference.manifest.to_string());
    lines.push(format!("verify    assay verify {name}{}", store_option(&opened.store_uri)));
    lines
}

/// States if client and simulator took CPU time from each other.
fn describe_cpus(body: &Calibration) -> String {
    let or_unknown = |cpus: &str| if cpus.is_empty() { "unknown".to_owned() } else { cpus.escape_debug().to_string() };
    let (client, simulator) = (or_unknown(&body.allowed_cpus), or_unknown(&body.simulator.allowed_cpus));
    if body.shares_cpus() {
        format!("client (CPUs {client}) and simulator (CPUs {simulator}) shared CPUs: a client alone carries no less")
    } else {
        format!("client (CPUs {client}) and simulator (CPUs {simulator}) had CPUs of their own")
    }
}

fn table(levels: &[CalibrationLevel]) -> Vec<String> {
    let header =
        ["LOAD", "REQUESTS", "TTFT ERROR P50", "P99", "ITL ERROR P50", "P99", "LATENESS P99", "EVENTS/S", "CPU/EVENT", "HELD"];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(levels.iter().map(cells));
    let width = |place: usize| rows.iter().map(|row| row[place].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |row: &[String; 10]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn cells(level: &CalibrationLevel) -> [String; 10] {
    let of = |error: Option<MeasurementError>, pick: fn(&MeasurementError) -> Count| {
        error.as_ref().map_or_else(|| "-".to_owned(), |error| micros(pick(error).0 as f64))
    };
    [
        load_name(level),
        level.requests.to_string(),
        of(level.ttft_error, |error| error.p50_ns),
        of(level.ttft_error, |error| error.p99_ns),
        of(level.itl_error, |error| error.p50_ns),
        of(level.itl_error, |error| error.p99_ns),
        level.client.lateness_p99_ns.map_or_else(|| "-".to_owned(), |lateness| micros(lateness.0 as f64)),
        significant(level.events_per_s, None),
        level.cpu_per_event_ns().map_or_else(|| "-".to_owned(), micros),
        if level.holds() { "yes" } else { "no" }.to_owned(),
    ]
}

/// Writes nanoseconds in microseconds.
fn micros(ns: f64) -> String {
    format!("{:.1} us", ns / 1e3)
}

fn load_name(level: &CalibrationLevel) -> String {
    match level.unit {
        LoadUnit::Concurrency if level.amount <= 1.0 => "1 stream".to_owned(),
        LoadUnit::Concurrency => format!("{} streams", level.amount),
        LoadUnit::RequestsPerS => format!("{} requests/s", level.amount),
        LoadUnit::EventsPerS => format!("{} events/s", level.amount),
    }
}
