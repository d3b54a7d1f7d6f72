//! Software stacks of Python packages: variants with lock files, installed from a local folder of wheels, measured, traced and ranked.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use assay_manifest::Digest;
use rustix::process::Signal;
use serde_json::Value;

use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, PIPELINE, binary, pipeline, script, wait_until};

/// Writes a wheel of the package `pace`, whose module has a constant, and prints its digest: arguments are folder, version and constant.
const WHEEL: &str = "
import base64, hashlib, sys, zipfile
folder, version, speed = sys.argv[1:]
info = f'pace-{version}.dist-info'
files = {
    'pace.py': f'SPEED = {speed}\\n',
    f'{info}/METADATA': f'Metadata-Version: 2.1\\nName: pace\\nVersion: {version}\\n',
    f'{info}/WHEEL': 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
}
digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data.encode()).digest()).rstrip(b'=').decode()
record = ''.join(f'{name},sha256={digest(data)},{len(data)}\\n' for name, data in files.items())
files[f'{info}/RECORD'] = record + f'{info}/RECORD,,\\n'
with zipfile.ZipFile(f'{folder}/pace-{version}-py3-none-any.whl', 'w') as wheel:
    for name, data in files.items():
        wheel.writestr(zipfile.ZipInfo(name), data)
";

/// Reports the speed of the installed package with an error of one part in a thousand, whose sign the number of runs of that version decides. So versions differ
/// by no chance: the errors of two that are equally fast are opposite each time, and cancel out over an even number of rounds.
const SCRIPT: &str = "#!/usr/bin/env python3
import json, time
from importlib.metadata import version
import pace
found = version('pace')
with open(f'RUNS/{found}', 'a+b') as runs:
    runs.write(b'.')
    number = runs.tell()
sign = {'1.0.0': (-1) ** (number // 2), '1.1.0': (-1) ** number, '2.0.0': -(-1) ** number}[found]
speed = pace.SPEED * (1 + sign / 1000)
print(json.dumps({'name': 'pace', 'component': 'fixture', '@parameters': {}, '@result': {'speed': speed}}))
";

/// The speeds of the versions of the package.
const SPEEDS: [(&str, &str); 3] = [("1.0.0", "100.0"), ("1.1.0", "130.0"), ("2.0.0", "130.0")];

/// A repository with an indicator of the package, and a folder of wheels that installers take it from.
fn fixture() -> Fixture {
    let mut fixture = Fixture::bare();
    let wheels = wheels(&fixture);
    fs::create_dir_all(&wheels).expect("a folder");
    for (version, speed) in SPEEDS {
        write_wheel(&fixture, version, speed);
    }
    for (name, value) in [("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", wheels.to_str().expect("a path"))] {
        fixture.set(name, value);
    }
    fs::create_dir_all(runs(&fixture)).expect("a folder");
    let reports = program(&fixture, "");
    fixture.indicator("pace", &reports, "");
    fixture
}

fn wheels(fixture: &Fixture) -> PathBuf {
    fixture.root().join("wheels")
}

/// Returns the folder with a file for each version, as long as its number of runs.
fn runs(fixture: &Fixture) -> PathBuf {
    fixture.root().join("runs-of-a-version")
}

/// Returns the program of the indicator, which does something before it reports the speed.
fn program(fixture: &Fixture, before: &str) -> String {
    let runs = runs(fixture);
    SCRIPT.replace("RUNS", runs.to_str().expect("a path")).replace("speed =", &format!("{before}speed ="))
}

fn write_wheel(fixture: &Fixture, version: &str, speed: &str) {
    let folder = wheels(fixture);
    let mut python = fixture.command(std::path::Path::new("python3"));
    let arguments = ["-c", WHEEL, folder.to_str().expect("a path"), version, speed];
    CommandResult::from_output(python.args(arguments).output().expect("python3 runs")).success();
}

/// Returns the lock file of one version.
fn lock(fixture: &Fixture, version: &str) -> String {
    let wheel = fs::read(wheels(fixture).join(format!("pace-{version}-py3-none-any.whl"))).expect("a wheel");
    format!("pace=={version} \\\n    --hash=sha256:{}\n", Digest::compute(&wheel).hex())
}

/// Writes a pipeline with a variant for each version, whose lock file is this one.
fn with_locks(fixture: &Fixture, locks: &[(&str, String)], trials: u32) {
    let variants: Vec<String> = locks
        .iter()
        .map(|(name, lock)| {
            fixture.write(&format!("stacks/{name}.txt"), lock);
            format!("{{name: {name}, python: {{lock: stacks/{name}.txt}}}}")
        })
        .collect();
    fixture.write(PIPELINE, &pipeline("exploratory", &["pace"], trials, &format!("  variants: [{}]\n", variants.join(", "))));
    fixture.commit("stacks");
}

fn variant(attempt: &Value) -> String {
    text(&attempt["case_id"]).rsplit('.').next().expect("a case ends with its variant").to_owned()
}

#[test]
fn variants_run_with_the_packages_of_their_lock_files() {
    let fixture = fixture();
    let locks = [("old", "1.0.0"), ("new", "1.1.0"), ("newer", "2.0.0")].map(|(name, version)| (name, lock(&fixture, version)));
    with_locks(&fixture, &locks, 6);
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--json"]).success().json();
    let part = fixture.manifest("one", "execute");
    let stacks: BTreeMap<&str, &Value> =
        list(&part["body"]["stacks"]).iter().map(|stack| (text(&stack["variant"]), stack)).collect();
    assert_eq!(stacks.keys().copied().collect::<Vec<_>>(), ["new", "newer", "old"]);
    assert_eq!(stacks["old"]["packages"], serde_json::json!([{"name": "pace", "version": "1.0.0"}]));
    assert!(
        text(&stacks["old"]["installer"]).starts_with("pip ") && text(&stacks["old"]["python"]).contains("Python "),
        "{stacks:?}"
    );
    assert_eq!(text(&stacks["old"]["lock"]), Digest::compute(lock(&fixture, "1.0.0").as_bytes()).to_string());
    let order: Vec<String> = list(&part["body"]["attempts"]).iter().map(variant).collect();
    assert!(
        order.chunks(3).all(|round| round.iter().collect::<std::collections::BTreeSet<_>>().len() == 3),
        "interleaved: {order:?}"
    );
    fixture.verify_recomputed("one");

    let number = list(&ran["numbers"])
        .iter()
        .find(|number| text(&number["benchmark_case_id"]) == "pace.local.old" && number["statistic"] == "median");
    let address = text(&number.expect("a number")["address"]);
    let traced = fixture.assay(&["trace", address]).success().stdout;
    let of_lock = format!("packages  {} from stacks/old.txt, of the variant old", text(&stacks["old"]["lock"]));
    assert!(traced.contains(&of_lock) && traced.contains("          pace 1.0.0; installed by pip "), "{traced}");
    let document = fixture.assay(&["trace", address, "--json"]).success().json();
    assert_eq!(
        (&document["packages"]["lock"], &document["packages"]["installed"]),
        (&stacks["old"]["lock"], &stacks["old"]["packages"])
    );

    let ranked = fixture.assay(&["rank", "one"]).success().stdout;
    let first = ranked.lines().next().expect("a line");
    assert!(first.contains("is 1.30 times as fast as `old` (") && first.contains(" cannot be told apart from it"), "{ranked}");
    assert!(!first.contains("fastest"), "two are equally fast: {ranked}");
    let page = fs::read_to_string(fixture.published("one").join("report.html")).expect("a report");
    let lock = text(&stacks["old"]["lock"]);
    let plain = page.replace("<code>", "`").replace("</code>", "`");
    assert!(page.contains(lock) && page.contains("stacks/old.txt"), "the report names the lock file");
    assert!(plain.contains(first), "the report has the ranking of `assay rank`: {first}");
    let document = fixture.assay(&["rank", "one", "--metric", "speed", "--json"]).success().json();
    let ranking = &document["rankings"][0];
    assert_eq!(text(&ranking["variants"][2]["variant"]), "old");
    assert_eq!(ranking["variants"][2]["lock"], stacks["old"]["lock"]);
    assert_eq!(list(&ranking["pairs"]).iter().filter(|pair| pair["told_apart"] == true).count(), 2);
    fixture.assay(&["rank", "one", "--metric", "nonsense"]).refuses(2, "nothing_ranked");

    let itself = fixture.assay(&["compare", "one", "one"]).success().stdout;
    assert_eq!(itself.lines().next(), Some("A and B are the same run `one`: each number is compared with itself"), "{itself}");
    assert_eq!(fixture.assay(&["compare", "one", "one", "--json"]).success().json()["same_run"], true);
    fixture.assay(&["compare", "one", "one", "--to", "pages"]).refuses(2, "nothing_compared");
}

/// A run that is killed between two trials is resumed: its virtual environments are built again, and hold the same packages.
#[test]
fn a_killed_run_of_stacks_is_resumed_with_the_same_packages() {
    let fixture = fixture();
    let [begun, open] = ["begun", "open"].map(|name| fixture.root().join(name));
    let waits = program(
        &fixture,
        &format!(
            "import os, pathlib\nbegun = pathlib.Path('{}')\nbegun.write_text(begun.read_text() + 'x' if begun.exists() else 'x')\n\
             while len(begun.read_text()) > 2 and not os.path.exists('{}'):\n    time.sleep(0.01)\n",
            begun.display(),
            open.display()
        ),
    );
    fixture.indicator("pace", &waits, "");
    let locks = [("old", "1.0.0"), ("new", "1.1.0")].map(|(name, version)| (name, lock(&fixture, version)));
    with_locks(&fixture, &locks, 3);
    let mut command = fixture.command(&binary("assay"));
    command.args(["run", PIPELINE, "--run-id", "one"]);
    let running = Fixture::spawn_command(command);
    wait_until("the third trial has begun", || fs::read_to_string(&begun).is_ok_and(|marks| marks.len() == 3));
    running.signal(Signal::KILL);
    running.finish();
    wait_until("nothing is left running", || fixture.leftovers().is_empty());
    fs::write(&open, b"").expect("the gate opens");
    let resumed = fixture.run("one").success();
    assert!(resumed.stdout.contains("pace"), "{}", resumed.stdout);
    let part = fixture.manifest("one", "execute");
    let attempts = list(&part["body"]["attempts"]);
    let status = |attempt: &Value| text(&attempt["status"]).to_owned();
    assert_eq!(attempts.iter().map(status).filter(|status| status == "completed").count(), 6, "{attempts:?}");
    let cut_short = attempts.iter().map(status).filter(|status| status == "cancelled" || status == "interrupted").count();
    assert_eq!((cut_short, attempts.len()), (1, 7), "{attempts:?}");
    let stacks: BTreeMap<&str, &Value> =
        list(&part["body"]["stacks"]).iter().map(|stack| (text(&stack["variant"]), &stack["packages"])).collect();
    let package = |version: &str| serde_json::json!([{"name": "pace", "version": version}]);
    assert_eq!((stacks["old"], stacks["new"], stacks.len()), (&package("1.0.0"), &package("1.1.0"), 2));
    fixture.verify_recomputed("one");
    let ranked = fixture.assay(&["rank", "one"]).success().stdout;
    assert!(ranked.contains("`new`") || ranked.contains(" new "), "{ranked}");
}

/// The packages of a variant are gone while its run stands still: the resumed run does not measure it with others.
#[test]
fn a_resumed_run_does_not_measure_a_stack_that_can_no_longer_be_installed() {
    let fixture = fixture();
    let [begun, open] = ["begun", "open"].map(|name| fixture.root().join(name));
    let waits = program(
        &fixture,
        &format!(
            "import os, pathlib\npathlib.Path('{}').write_text('x')\nwhile not os.path.exists('{}'):\n    time.sleep(0.01)\n",
            begun.display(),
            open.display()
        ),
    );
    fixture.indicator("pace", &waits, "");
    with_locks(&fixture, &[("old", lock(&fixture, "1.0.0"))], 2);
    let mut command = fixture.command(&binary("assay"));
    command.args(["run", PIPELINE, "--run-id", "one"]);
    let running = Fixture::spawn_command(command);
    wait_until("the first trial has begun", || begun.exists());
    running.signal(Signal::KILL);
    running.finish();
    fs::write(&open, b"").expect("the gate opens");
    write_wheel(&fixture, "1.0.0", "999.0");
    let resumed = fixture.assay(&["run", PIPELINE, "--run-id", "one"]).refuses(30, "stack_not_installed");
    assert!(resumed.stderr.contains("cannot be installed again"), "{}", resumed.stderr);
    assert!(
        resumed.stderr.contains("make the packages of the lock file available again, and resume the run"),
        "{}",
        resumed.stderr
    );
}

#[test]
fn a_stack_that_cannot_be_installed_is_not_measured_and_the_others_are() {
    let fixture = fixture();
    let absent = format!("pace==3.0.0 --hash=sha256:{}\n", "0".repeat(64));
    let other_bytes = format!("pace==1.1.0 --hash=sha256:{}\n", "0".repeat(64));
    with_locks(&fixture, &[("good", lock(&fixture, "1.0.0")), ("absent", absent), ("changed", other_bytes)], 3);
    fixture.assay(&["run", PIPELINE, "--run-id", "one"]).exits(30);
    let part = fixture.manifest("one", "execute");
    let attempts = list(&part["body"]["attempts"]);
    for attempt in attempts {
        let reasons: Vec<&str> = list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"])).collect();
        let expected: &[&str] = if variant(attempt) == "good" { &[] } else { &["stack_not_installed"] };
        assert_eq!(reasons, expected, "{attempt}");
    }
    let details: Vec<&str> =
        attempts.iter().flat_map(|attempt| list(&attempt["validity"]["reasons"])).map(|reason| text(&reason["detail"])).collect();
    assert!(details.iter().any(|detail| detail.contains("No matching distribution")), "{details:?}");
    assert!(details.iter().any(|detail| detail.contains("HASHES") || detail.contains("hash")), "{details:?}");
    fixture.verify_recomputed("one");
    let ranked = fixture.assay(&["rank", "one"]).success().stdout;
    assert!(ranked.starts_with("Only `good` has enough counted trials, so nothing is ranked\n"), "{ranked}");
    assert!(ranked.contains("  `absent` is not ranked: ") && ranked.contains("  `changed` is not ranked: "), "{ranked}");
}

#[test]
fn a_script_that_names_its_interpreter_by_a_path_is_not_measured() {
    let fixture = fixture();
    fixture.indicator("pace", &SCRIPT.replace("#!/usr/bin/env python3", "#!/usr/bin/python3"), "");
    with_locks(&fixture, &[("old", lock(&fixture, "1.0.0"))], 3);
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one"]).exits(30);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("other_interpreter") || said.contains("would not run with the packages of its variant"), "{said}");
}

#[test]
fn a_file_that_locks_nothing_is_refused_before_anything_runs() {
    let fixture = fixture();
    with_locks(&fixture, &[("open", "pace>=1\n".to_owned())], 3);
    let refused = fixture.assay(&["run", PIPELINE]).exits(10);
    assert!(refused.stderr.contains("`pace>=1` has no exact version `NAME==VERSION`"), "{}", refused.stderr);
}

#[test]
fn a_run_of_one_variant_is_not_ranked() {
    let fixture = Fixture::new();
    fixture.indicator("first", &script("echo '{\"name\": \"x\", \"@parameters\": {}, \"@result\": {\"speed\": 1.0}}'"), "");
    fixture.commit("one variant");
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--json"]).success().json();
    fixture.assay(&["rank", "one"]).refuses(2, "nothing_ranked");
    let traced = fixture.assay(&["trace", text(&ran["numbers"][0]["address"])]).success().stdout;
    assert!(!traced.contains("packages"), "a variant without packages has none: {traced}");
}

/// Writes an empty requirements file and names the workload.
fn stacks(fixture: &Fixture, arguments: &[&str]) -> CommandResult {
    fixture.assay(&[&["stacks", "--workload", "pace"], arguments].concat())
}

#[test]
fn recorded_lock_files_become_a_pipeline_that_is_measured_and_ranked() {
    let fixture = fixture();
    for (name, version) in [("old", "1.0.0"), ("new", "1.1.0"), ("again", "1.0.0")] {
        fixture.write(&format!("recorded/{name}.txt"), &format!("# from {name}\n{}", lock(&fixture, version)));
    }
    fixture.write("recorded/open.txt", "pace\n");
    let dry = stacks(&fixture, &["--locks", "recorded", "--dry-run"]).success().stdout;
    assert!(
        dry.contains("nothing was written: a dry run") && !fixture.repo().join("pipelines/pace-stacks.yaml").exists(),
        "{dry}"
    );
    assert!(!dry.contains("written   ") && !dry.contains("seed"), "{dry}");
    let made = stacks(&fixture, &["--locks", "recorded", "--trials", "3"]).success().stdout;
    assert!(made.contains("2 stacks, 1 lock file of a stack that was there, 1 skipped\n"), "{made}");
    assert!(made.contains("skipped   open: line 1: `pace` has no exact version"), "{made}");
    assert!(!made.contains("dry run") && !made.contains("seed"), "{made}");
    let report: Value =
        serde_json::from_slice(&fs::read(fixture.repo().join("stacks/pace-stacks/report.json")).expect("a report"))
            .expect("JSON");
    assert_eq!(
        (&report["method"], &report["made"], &report["duplicates"], &report["seed"]),
        (&"locks".into(), &2.into(), &1.into(), &Value::Null)
    );
    fixture.commit("stacks");
    fixture.assay(&["run", "pipelines/pace-stacks.yaml", "--run-id", "one"]).success();
    let ranked = fixture.assay(&["rank", "one"]).success().stdout;
    assert!(ranked.contains("  new ") && ranked.contains("  again "), "{ranked}");
    fixture.write("stacks/pace-stacks/new.txt", "changed");
    stacks(&fixture, &["--locks", "recorded", "--trials", "3"]).refuses(2, "file_differs");
    stacks(&fixture, &["--locks", "recorded", "--trials", "3", "--force"]).success();
}

#[test]
fn what_gives_no_stack_is_refused_by_name() {
    let mut fixture = fixture();
    fixture.write("recorded/open.txt", "pace\n");
    stacks(&fixture, &["--locks", "recorded"]).refuses(2, "no_stack");
    fixture.assay(&["stacks", "--workload", "absent", "--locks", "recorded"]).refuses(10, "file_missing");
    fixture.write("requirements.in", "pace\n");
    fixture.set("PATH", "/nonexistent");
    let absent = stacks(&fixture, &["requirements.in"]).refuses(30, "resolver_absent");
    assert!(absent.stderr.contains("pip install uv"), "{}", absent.stderr);
}

/// A program in the place of uv, which resolves `pace` to what the constraints say, and to 2.0.0 without one. 1.1.0 is refused.
const UV: &str = "#!/usr/bin/env python3
import hashlib, os, pathlib, sys
words = sys.argv[1:]
if words == ['--version']:
    print('uv 9.9.9 (stand-in)')
    sys.exit()
after = lambda option: words[words.index(option) + 1]
pins = dict(line.split('==') for line in pathlib.Path(after('--constraints')).read_text().split())
version = pins.get('pace', '2.0.0')
if version == '1.1.0':
    sys.exit('error: something before\\n\\n  x No solution found:\\n  Because pace 1.1.0 was withdrawn, it is unsatisfiable')
wheel = pathlib.Path(os.environ['PIP_FIND_LINKS'], f'pace-{version}-py3-none-any.whl').read_bytes()
pathlib.Path(after('--output-file')).write_text(f'pace=={version} --hash=sha256:{hashlib.sha256(wheel).hexdigest()}\\n')
";

#[test]
fn stacks_of_a_resolver_are_written_with_a_report_of_all_that_was_tried() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut fixture = fixture();
    let bin = fixture.root().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    fs::write(bin.join("uv"), UV).expect("written");
    fs::set_permissions(bin.join("uv"), fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH"));
    fixture.set("PATH", path);
    fixture.write("requirements.in", "pace\n");
    let made = stacks(&fixture, &["requirements.in", "--count", "3", "--seed", "5", "--json"]).success().json();
    let names: Vec<&str> = list(&made["stacks"]).iter().map(|stack| text(&stack["name"])).collect();
    assert_eq!(names, ["latest", "pace-1-0-0"], "one version does not resolve: {made}");
    assert_eq!(
        (&made["seed"], &made["resolver"], &made["requested"], &made["made"]),
        (&5.into(), &"uv 9.9.9".into(), &3.into(), &2.into())
    );
    let skipped = list(&made["skipped"]);
    assert!(!skipped.is_empty() && skipped.iter().all(|skipped| skipped["change"] == "pace 1.1.0"), "{skipped:?}");
    assert!(text(&skipped[0]["reason"]).contains("pace 1.1.0 was withdrawn"), "{skipped:?}");
    let again = stacks(&fixture, &["requirements.in", "--count", "3", "--seed", "5", "--json", "--dry-run"]).success().json();
    assert_eq!(again, made, "the same seed and the same packages");
    let combined =
        ["requirements.in", "--method", "combinations", "--package", "pace==1.0.*,2.0.0", "--name", "both", "--dry-run"];
    let combined = stacks(&fixture, &combined).success().stdout;
    assert!(
        combined.contains("pace-2-0-0") && combined.contains("pace-1-0-0") && combined.contains("2 stacks; seed "),
        "{combined}"
    );
    assert!(!combined.contains("skipped"), "{combined}");
    let validated = fixture.assay(&["validate"]).success();
    assert!(validated.stderr.is_empty() || !validated.stderr.contains("error"), "{}", validated.stderr);
}
