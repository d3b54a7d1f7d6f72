//! `assay calibrate` over the real binaries: the signed document, its verification, and the claims of later runs. How much load this machine
//! carries decides no test: ceilings that matter are stated by documents that the key of the calibration signs here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assay_envelope::{ExpectedManifest, Predicate, PublicKey, Signer, Trust, sign, verify};
use assay_manifest::{Body as _, Calibration, CalibrationPace, CalibrationReference, Count, Digest, Fact, Manifest, Role};
use assay_stage::{AcceptedResult, Layout};
use assay_store::Store;
use serde_json::{Value, json};

use crate::pipeline::{CLAIM, DECLARED_CONTROLS, list, text};
use crate::serving::{RETRY_BUDGET, SIMULATOR, workload};
use crate::support::{CommandResult, Fixture, PIPELINE, blob, files_under, write_file};
use crate::tamper::{flip_bit, key_of};

/// A machine that was calibrated in short, with a store of its own.
struct Calibrated {
    fixture: Fixture,
    shown: Value,
}

impl Calibrated {
    fn store(&self) -> PathBuf {
        self.fixture.root().join("calibrated")
    }

    fn digest(&self) -> &str {
        text(&self.shown["calibration"]["manifest"])
    }

    /// Runs `assay` on the store of the calibration.
    fn assay(&self, arguments: &[&str]) -> CommandResult {
        self.fixture.assay(&[arguments, &["--store", &self.store().display().to_string()]].concat())
    }
}

fn calibrated() -> &'static Calibrated {
    static CALIBRATED: OnceLock<Calibrated> = OnceLock::new();
    CALIBRATED.get_or_init(|| {
        let fixture = Fixture::shared();
        let store = fixture.root().join("calibrated").display().to_string();
        let ran = fixture.assay(&["calibrate", "--quick", "--streams", "1,4", "--store", &store, "--json"]).success();
        Calibrated { fixture, shown: ran.json() }
    })
}

/// Returns the signed manifest and predicate of the calibration.
fn signed_calibration() -> (Manifest<Calibration>, Predicate) {
    let calibrated = calibrated();
    let reference = &calibrated.shown["calibration"];
    let [manifest, bundle] =
        ["manifest", "bundle"].map(|part| fs::read(blob(&calibrated.store(), text(&reference[part]))).expect("a blob"));
    let candidates = vec![calibrate_key(&calibrated.fixture)];
    let verified = verify(&manifest, &bundle, &Trust::None { candidates }, &ExpectedManifest::default()).expect("it verifies");
    let manifest = Calibration::from_document(verified.value()).expect("a calibration").clone();
    (manifest, verified.predicate().clone())
}

fn calibrate_key(fixture: &Fixture) -> PublicKey {
    key_of(fixture, Role::Calibrate).public_key()
}

/// Signs a changed calibration with the calibration's own key, and puts it into a store under its machine, load generator and time.
/// Returns the digest of its manifest.
fn plant(fixture: &Fixture, store: &Path, change: impl FnOnce(&mut Calibration)) -> Digest {
    let (mut manifest, mut predicate) = signed_calibration();
    change(&mut manifest.body);
    if let Predicate::Provenance(provenance) = &mut predicate {
        provenance.resolved_dependencies.clear();
    }
    let signed = sign(&manifest, &Signer::new(key_of(fixture, Role::Calibrate)), predicate).expect("it signs");
    let store = Store::open(&store.display().to_string()).expect("a store");
    store.put(&signed.manifest).expect("stored");
    store.put(&signed.bundle).expect("stored");
    let body = &manifest.body;
    let path = Layout::calibration(&body.machine, &body.load_generator, body.pace(), body.calibrated_at);
    let reference = signed.input_ref();
    let accepted = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle };
    store.create(&path, &accepted.to_bytes().expect("bytes")).expect("created");
    reference.manifest
}

#[test]
fn a_calibration_has_figures_of_each_load() {
    let shown = &calibrated().shown;
    let levels = list(&shown["body"]["levels"]);
    let loads: Vec<(&str, f64)> =
        levels.iter().map(|level| (text(&level["unit"]), level["amount"].as_f64().expect("an amount"))).collect();
    assert_eq!(loads, [("concurrency", 1.0), ("concurrency", 4.0), ("requests_per_s", 1000.0)]);
    for level in levels {
        let count = |value: &Value| text(value).parse::<u64>().expect("a count");
        let n = count(&level["requests"]);
        assert_eq!(
            level.get("ttft_error").map_or(0, |error| count(&error["n"])),
            n,
            "each compared request has a TTFT: {level:#}"
        );
        // A response of 8 to 24 tokens has 7 to 23 gaps, and one of a single token none.
        let gaps = if level["unit"] == "concurrency" { n * 7..=n * 23 } else { 0..=0 };
        assert!(gaps.contains(&level.get("itl_error").map_or(0, |error| count(&error["n"]))), "{level:#}");
        let missed = list(&level["missed"]);
        assert!(n > 0 || missed.iter().any(|reason| reason["code"] == "no_requests"), "{level:#}");
    }
    assert_eq!(shown["shares_cpus"], json!(true), "nothing separates client and simulator");
    let (manifest, _) = signed_calibration();
    assert_eq!(json!(manifest.body.ceilings()), shown["ceilings"]);
    assert_eq!(manifest.header.stage, Role::Calibrate);
}

#[test]
fn a_calibration_is_verified_and_shown_by_its_digest() {
    let calibrated = calibrated();
    let digest = calibrated.digest();
    let verified = calibrated.assay(&["verify", digest, "--strict"]).success();
    assert!(verified.stdout.contains("ok  signed by local-calibrate"), "{}", verified.stdout);
    assert!(verified.stdout.contains("the figures of 3 levels were computed again"), "{}", verified.stdout);
    let shown = calibrated.assay(&["show", &digest[..19]]).success();
    for part in ["LOAD", "4 streams", "1000 requests/s", "shared CPUs", "the limit of open files allows", digest] {
        assert!(shown.stdout.contains(part), "`{part}` is missing:\n{}", shown.stdout);
    }
    assert_eq!(calibrated.assay(&["show", digest, "--json"]).success().json(), calibrated.shown);
    calibrated.assay(&["verify", "sha256:00000000"]).refuses(2, "no_such_document");
    let runs = calibrated.assay(&["runs", "--json"]).success().json();
    // A level that failed was measured in a second run.
    assert!([1, 2].contains(&list(&runs).len()), "it is made of ordinary runs: {runs:#}");
}

fn days_from(instant: assay_manifest::Instant, days: i64) -> assay_manifest::Instant {
    assay_manifest::Instant::from_unix_ns(instant.unix_ns() + days * 24 * 3_600_000_000_000)
}

#[test]
fn a_changed_or_falsified_calibration_is_refused() {
    let calibrated = calibrated();
    let falsified = |change: fn(&mut Calibration)| {
        let store = calibrated.fixture.scratch().join(Digest::compute(format!("{change:p}").as_bytes()).hex());
        crate::support::copy_folder(&calibrated.store(), &store);
        let digest = plant(&calibrated.fixture, &store, |calibration| {
            calibration.calibrated_at = assay_manifest::Instant::from_unix_ns(calibration.calibrated_at.unix_ns() + 1);
            change(calibration);
        });
        let place = store.display().to_string();
        calibrated.fixture.assay(&["verify", &digest.to_string(), "--store", &place]).exits(20)
    };
    let message = |ran: &CommandResult| ran.stderr.lines().next().unwrap_or_default().to_owned();
    let other_machine = falsified(|calibration| calibration.facts.cpu_model = Fact::observed("faster".to_owned(), "a lie"));
    assert!(message(&other_machine).contains("its machine is not the one"), "{}", other_machine.stderr);
    let other_figures = falsified(|calibration| calibration.levels[0].events_per_s += 1.0);
    assert!(message(&other_figures).contains("other figures than its evidence gives"), "{}", other_figures.stderr);
    let other_load = falsified(|calibration| calibration.levels[0].amount = 100_000.0);
    assert!(message(&other_load).contains("is not what its attempt measured"), "{}", other_load.stderr);
    let other_program = falsified(|calibration| calibration.load_generator = Digest::compute(b"faster"));
    assert!(message(&other_program).contains("measured by another program"), "{}", other_program.stderr);
    assert_eq!(other_program.error().as_deref(), Some("calibration"));
    // Two days more or less would make it the newest, or hide it behind an older one.
    for later in [
        falsified(|calibration| calibration.calibrated_at = days_from(calibration.calibrated_at, 2)),
        falsified(|calibration| calibration.calibrated_at = days_from(calibration.calibrated_at, -2)),
    ] {
        assert!(message(&later).contains("was not measured in the hours after the time"), "{}", later.stderr);
    }

    let store = calibrated.fixture.scratch().join("flipped");
    crate::support::copy_folder(&calibrated.store(), &store);
    let truth = text(&calibrated.shown["body"]["levels"][0]["truth"]["digest"]);
    let place = store.display().to_string();
    let verify = |more: &[&str]| calibrated.fixture.assay(&[&["verify", calibrated.digest(), "--store", &place], more].concat());
    let path = blob(&store, truth);
    let bytes = fs::read(&path).expect("the report");
    fs::remove_file(&path).expect("removed");
    let absent = verify(&[]).success();
    assert!(absent.stdout.contains("the figures of 2 levels were computed again"), "{}", absent.stdout);
    verify(&["--strict"]).refuses(20, "artifact_absent");
    write_file(&path, &flip_bit(&bytes));
    verify(&[]).refuses(20, "artifact_corrupt");
}

/// A claim of a closed loop of two streams.
fn claiming() -> Fixture {
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [2], requests: 20", "D(20,10)", "");
    let claim = format!("{CLAIM}{DECLARED_CONTROLS}");
    let text = crate::serving::pipeline(&["chat"], &[SIMULATOR], 3, RETRY_BUDGET, &claim);
    fixture.write(PIPELINE, &text.replace("intent: exploratory", "intent: publication"));
    fixture.commit("a claim with load");
    fixture
}

/// Returns the calibration that a run's Environment states, and the shortfalls of the rule.
fn claimed(fixture: &Fixture, run: &str) -> (Value, Vec<String>) {
    fixture.run(run).success();
    let stated = fixture.manifest(run, "provision")["body"]["calibration"].clone();
    let grade = fixture.manifest(run, "publish")["body"]["grade"].clone();
    let of_rule = list(&grade["shortfalls"]).iter().filter(|shortfall| shortfall["rule"] == "calibration");
    (stated, of_rule.map(|shortfall| text(&shortfall["found"]).to_owned()).collect())
}

#[test]
fn a_claim_needs_a_calibration_of_its_machine_and_load_generator_for_twice_its_load() {
    let fixture = claiming();
    // The keys of all fixtures are the same, so the calibration of the other one is signed by a key that this policy names.
    assert_eq!(calibrate_key(&fixture).fingerprint(), calibrate_key(&calibrated().fixture).fingerprint());
    let why = |(stated, shortfalls): (Value, Vec<String>)| {
        let how = text(&stated["how"]).to_owned();
        assert_eq!((stated.get("value"), shortfalls.len()), (None, 1), "{stated:#} {shortfalls:?}");
        assert!(shortfalls[0].contains(&how) && shortfalls[0].contains("`assay calibrate`"), "{shortfalls:?}");
        how
    };
    assert_eq!(why(claimed(&fixture, "none")), "the store has no calibration");

    let plant = |change: &dyn Fn(&mut Calibration), later: i64| {
        plant(&fixture, &fixture.store(), |calibration| {
            calibration.calibrated_at = assay_manifest::Instant::from_unix_ns(calibration.calibrated_at.unix_ns() + later);
            change(calibration);
        })
    };
    let another = |text: &str| Fact::observed(text.to_owned(), "a test");
    plant(
        &|calibration| {
            calibration.facts.cpu_model = another("another");
            calibration.machine = calibration.facts.machine_digest().expect("a digest");
        },
        0,
    );
    assert_eq!(why(claimed(&fixture, "elsewhere")), "the calibrations of the store are of other machines");
    plant(&|calibration| calibration.load_generator = Digest::compute(b"another build"), 0);
    assert_eq!(why(claimed(&fixture, "rebuilt")), "the calibrations of this machine are of other builds of the load generator");

    let with_amounts = |amount: f64| {
        move |calibration: &mut Calibration| {
            for level in &mut calibration.levels {
                (level.amount, level.events_per_s) = (amount, amount);
                level.missed.clear();
            }
        }
    };
    plant(&with_amounts(3.0), 1);
    let (stated, low) = claimed(&fixture, "low");
    assert!(stated["value"].is_object() && low.len() == 3, "{stated:#} {low:?}");
    let streams = "the load generator had to make 2 requests in flight, and was calibrated for at least 3 requests in flight, less than 2 times as many";
    assert!(low.iter().any(|found| found.starts_with(streams)), "{low:?}");

    let ample = plant(&with_amounts(1e9), 2);
    let (stated, shortfalls) = claimed(&fixture, "ample");
    assert_eq!((text(&stated["value"]["manifest"]), shortfalls), (ample.to_string().as_str(), Vec::new()));
    let report = fixture.assay(&["show", "ample", "--all"]).success().stdout;
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("process had to make at most 2 requests in flight"), "{report}");
    assert!(report.contains("at least 1000000000 requests in flight"), "{report}");
    fixture.verify("ample").success();
    let folder = fixture.published("ample");
    let is_published = |name: &str| files_under(&folder).iter().any(|file| file.ends_with(name));
    assert!(is_published(CalibrationReference::MANIFEST) && is_published(CalibrationReference::BUNDLE));
    fixture.assay(&["verify", "--strict", &folder.display().to_string()]).success();

    // A document that another role signed is no calibration.
    let (manifest, _) = signed_calibration();
    let at = assay_manifest::Instant::from_unix_ns(manifest.body.calibrated_at.unix_ns() + 3);
    let path = Layout::calibration(&manifest.body.machine, &manifest.body.load_generator, manifest.body.pace(), at);
    let plan = fixture.pointer("ample", "plan");
    let accepted = AcceptedResult { manifest: digest(&plan.manifest), bundle: digest(&plan.bundle) };
    let store = Store::open(&fixture.store().display().to_string()).expect("a store");
    store.create(&path, &accepted.to_bytes().expect("bytes")).expect("created");
    let refused = why(claimed(&fixture, "misled"));
    assert!(refused.starts_with("the newest calibration, `calibrations/") && refused.contains("is not used"), "{refused}");

    // Quick calibrations count only where there is no full one, however old that is.
    let measured_for = |ns: u64| {
        move |calibration: &mut Calibration| calibration.levels.iter_mut().for_each(|level| level.measured_ns = Count(ns))
    };
    let full = plant(&measured_for(CalibrationPace::FULL_NS), 0);
    plant(&measured_for(CalibrationPace::FULL_NS - 1), 4);
    let (stated, _) = claimed(&fixture, "full");
    assert_eq!(text(&stated["value"]["manifest"]), full.to_string());
}

fn digest(text: &str) -> Digest {
    text.parse().expect("a digest")
}
