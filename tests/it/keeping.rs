//! Living with a store: evidence is removed and explained, what nothing needs goes, and sizes add up.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::pipeline::text;
use crate::stores::ServedStore;
use crate::support::{
    CommandResult, Fixture, PIPELINE, Pointer, blob, copy_folder, files_under, measured_fixture, wait_until, write_file,
};

/// A copy of a store with the finished runs `one` and `two`.
struct KeptStore {
    fixture: &'static Fixture,
    folder: TempDir,
}

impl KeptStore {
    fn new() -> Self {
        let fixture = measured_fixture();
        let folder = tempfile::tempdir_in(fixture.root()).expect("a folder for the store");
        let kept = Self { fixture, folder };
        for part in ["runs", "cases", "warehouse", "blobs"] {
            copy_folder(&fixture.store().join(part), &kept.store().join(part));
        }
        kept
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn assay(&self, arguments: &[&str]) -> CommandResult {
        let store = self.store().display().to_string();
        // Outside of the repository: tests that share it would contend for the locks of its runs.
        self.fixture.assay_in(self.folder.path(), &[arguments, &["--store", &store]].concat())
    }

    fn verify(&self, run: &str, more: &[&str]) -> CommandResult {
        self.assay(&[&["verify", run], more].concat())
    }

    fn remove(&self, run: &str, more: &[&str]) -> CommandResult {
        self.assay(&[&["runs", "rm", run, "--reason", "older than a year", "--yes"], more].concat())
    }

    /// Returns the raw artifacts of a run that no other run has: its outputs hold its own numbers.
    fn raw(&self, run: &str) -> Vec<Value> {
        let part = Pointer::list(&self.store(), run, "execute").into_iter().next().expect("a part").load(&self.store());
        let attempts = part["body"]["attempts"].as_array().expect("attempts").iter();
        attempts.flat_map(|attempt| attempt["evidence"].as_array().expect("evidence").clone()).collect()
    }

    fn path_of(&self, artifact: &Value) -> PathBuf {
        blob(&self.store(), artifact["digest"].as_str().expect("a digest"))
    }

    fn tombstone(&self, run: &str, number: u32) -> PathBuf {
        self.store().join("runs").join(run).join(format!("tombstones/{number:06}"))
    }
}

fn age(path: &Path, time: Duration) {
    let file = fs::File::open(path).expect("the file is there");
    file.set_modified(SystemTime::now() - time).expect("a time can be set");
}

const TWO_DAYS: Duration = Duration::from_hours(48);

fn levels(verified: &CommandResult) -> &str {
    verified.stdout.lines().find(|line| line.starts_with("level ") && line.contains(" of 4 reached")).unwrap_or_default()
}

#[test]
fn without_yes_nothing_is_removed() {
    let kept = KeptStore::new();
    let before = files_under(&kept.store());
    let shown = kept.assay(&["runs", "rm", "one"]).success();
    assert!(shown.stdout.contains("would remove one: ") && shown.stdout.contains("nothing was removed"), "{}", shown.stdout);
    assert!(shown.stdout.contains("then level 1 of 4 remains"), "{}", shown.stdout);
    let shown = kept.assay(&["runs", "rm", "one", "--evidence-only"]).success();
    assert!(shown.stdout.contains("then level 2 of 4 remains"), "{}", shown.stdout);
    kept.assay(&["runs", "rm", "one", "--yes"]).exits(2);
    kept.assay(&["runs", "rm", "one", "--yes", "--reason", " "]).exits(2);
    kept.assay(&["runs", "rm", "none"]).refuses(2, "no_such_run");
    assert_eq!(files_under(&kept.store()), before);
    let untouched = kept.verify("one", &["--strict"]).success();
    assert!(!untouched.stdout.contains("removed") && levels(&untouched).contains("3 (raw bytes)"), "{}", untouched.stdout);
    assert!(!kept.assay(&["runs"]).success().stdout.contains("removed"));
}

#[test]
fn raw_evidence_goes_and_the_numbers_stay() {
    let kept = KeptStore::new();
    let removed = kept.remove("one", &["--evidence-only"]).success();
    assert!(removed.stdout.contains("removing one: ") && !removed.stdout.contains("nothing was removed"), "{}", removed.stdout);
    let verified = kept.verify("one", &[]).success();
    assert!(levels(&verified).contains("2 (rows and queries)"), "{}", verified.stdout);
    for line in ["  removed recordings: `", "12 raw artifacts here; 1 removed", "signed by local-source: older than a year"] {
        assert!(verified.stdout.contains(line), "{line}: {}", verified.stdout);
    }
    assert!(!verified.stdout.contains("removed curated") && !verified.stdout.contains("not here"), "{}", verified.stdout);
    kept.verify("one", &["--strict"]).refuses(21, "evidence_removed");
    let recomputed = kept.verify("one", &["--recompute"]).success();
    assert_eq!(recomputed.stdout, verified.stdout, "a removal that is signed explains why nothing was computed again");
    let json = kept.verify("one", &["--json"]).success().json();
    assert_eq!((&json["level"], json["tombstones"].as_array().map(Vec::len)), (&Value::from(2), Some(1)));
    assert!(kept.assay(&["runs"]).success().stdout.contains("published, evidence removed"));

    let other = kept.verify("two", &["--strict"]).success();
    assert!(levels(&other).contains("3 (raw bytes)") && !other.stdout.contains("removed"), "{}", other.stdout);
    kept.assay(&["show", "one"]).success();

    // A second removal takes what the first one left, under a number of its own.
    kept.remove("one", &[]).success();
    assert!(kept.tombstone("one", 0).is_file() && kept.tombstone("one", 1).is_file() && !kept.tombstone("one", 2).exists());
    let verified = kept.verify("one", &[]).success();
    assert!(levels(&verified).contains("1 (chain)"), "{}", verified.stdout);
    assert!(verified.stdout.matches("removed by ").count() == 2, "{}", verified.stdout);
    let again = kept.remove("one", &[]).success();
    assert!(again.stdout.contains("removing one: 0 blobs"), "{}", again.stdout);
    assert!(!kept.tombstone("one", 2).exists(), "nothing went, so nothing is stated");
}

#[test]
fn results_go_and_the_chain_stays() {
    let kept = KeptStore::new();
    let removed = kept.remove("one", &[]).success();
    assert!(removed.stdout.contains("which other runs or verdicts name"), "the runs share dimensions: {}", removed.stdout);
    let verified = kept.verify("one", &[]).success();
    assert!(levels(&verified).contains("1 (chain)"), "{}", verified.stdout);
    for line in ["  removed curated: `", "  removed reports: `", "  removed recordings: `"] {
        assert!(verified.stdout.contains(line), "{line}: {}", verified.stdout);
    }
    kept.verify("one", &["--strict"]).refuses(21, "evidence_removed");
    assert!(levels(&kept.verify("two", &["--strict"]).success()).contains("3 (raw bytes)"));
    let tombstone = "removed by ";
    assert!(kept.assay(&["show", "one"]).success().stdout.contains(tombstone));
    let shown = kept.assay(&["show", "one", "--all"]).success().stdout;
    assert!(shown.contains(", before a removal"), "{shown}");
    let shown = kept.assay(&["show", "one", "--json"]).success().json();
    let number = text(&shown["results"][0]["metrics"][0]["address"]);
    let refused = kept.assay(&["trace", number]).refuses(21, "evidence_removed");
    assert!(refused.stderr.contains(tombstone) && refused.stderr.contains("older than a year"), "{}", refused.stderr);
    // Rows stay in the warehouse, where the signed Summary vouches for them.
    kept.assay(&["history", "speed"]).success();
    let rows = kept.assay(&["query", "SELECT DISTINCT run_id FROM outcomes ORDER BY run_id"]).success();
    assert!(rows.stdout.contains("one") && rows.stdout.contains("two"), "{}", rows.stdout);
    // A copy takes the tombstone along.
    let copy = kept.folder.path().join("copy").display().to_string();
    kept.assay(&["fetch", "one", "--to", &copy]).success();
    let verified = kept.fixture.assay(&["verify", "one", "--store", &copy]).success();
    assert!(verified.stdout.contains("  removed recordings: `"), "{}", verified.stdout);
}

#[test]
fn what_was_lost_is_no_removal() {
    // Lost before a removal, which does not explain it.
    let kept = KeptStore::new();
    let lost = kept.raw("one").remove(0);
    fs::remove_file(kept.path_of(&lost)).expect("a raw blob");
    kept.verify("one", &[]).success();
    kept.verify("one", &["--strict"]).refuses(20, "artifact_absent");
    let not_recomputed = kept.verify("one", &["--recompute"]).refuses(21, "not_recomputed");
    assert!(levels(&not_recomputed).contains("2 (rows and queries)"), "{}", not_recomputed.stdout);
    assert!(not_recomputed.stdout.contains("level 4 (recomputed) could not be checked"), "{}", not_recomputed.stdout);
    let json = kept.verify("one", &["--recompute", "--json"]).refuses(21, "not_recomputed").json();
    assert_eq!((&json["level"], &json["failed"]["level"], &json["failed"]["refused"]), (&2.into(), &4.into(), &false.into()));
    kept.verify("one", &["--recompute", "--strict"]).refuses(20, "artifact_absent");
    kept.remove("one", &["--evidence-only"]).success();
    kept.verify("one", &["--recompute"]).refuses(21, "not_recomputed");
    let verified = kept.verify("one", &[]).success();
    // The outputs of an indicator are equal bytes in all of its trials, and in both runs.
    assert!(
        verified.stdout.contains(" 2 more are not here") && verified.stdout.contains("  removed recordings: "),
        "{}",
        verified.stdout
    );
    assert!(!verified.stdout.contains("  removed logs"), "{}", verified.stdout);

    // Lost after a removal of something else.
    let kept = KeptStore::new();
    kept.remove("one", &["--evidence-only"]).success();
    let numbers = Pointer::list(&kept.store(), "one", "publish")[0].load(&kept.store())["body"]["numbers"].clone();
    fs::remove_file(kept.path_of(&numbers)).expect("the numbers");
    kept.verify("one", &[]).refuses(20, "artifact_absent");
    let kept = KeptStore::new();
    kept.remove("one", &[]).success();
    let source = Pointer::list(&kept.store(), "one", "source").remove(0);
    fs::remove_file(blob(&kept.store(), &source.bundle)).expect("a bundle");
    kept.verify("one", &[]).refuses(20, "bundle_missing");
}

#[test]
fn a_forged_tombstone_explains_nothing() {
    let refused = |kept: &KeptStore, run: &str| {
        let verified = kept.verify(run, &[]).success();
        assert!(verified.stdout.contains("explains nothing: "), "{}", verified.stdout);
        assert!(verified.stdout.contains("not here") && !verified.stdout.contains("  removed "), "{}", verified.stdout);
        let json = kept.verify(run, &["--json"]).success().json();
        assert_eq!(json["tombstones_refused"].as_array().map(Vec::len), Some(1), "{json}");
        verified.stdout
    };
    // Signed by a key that the reader does not trust.
    let (kept, foreign) = (KeptStore::new(), Fixture::without_keys());
    foreign.assay(&["keys", "init"]).success();
    let store = kept.store().display().to_string();
    let trust = kept.fixture.trust().display().to_string();
    let remove = ["runs", "rm", "one", "--evidence-only", "--reason", "mine", "--yes", "--store", &store, "--trust", &trust];
    foreign.assay(&remove).success();
    assert!(refused(&kept, "one").contains("key"));

    // The tombstone of another run, or in another place.
    let kept = KeptStore::new();
    kept.remove("one", &["--evidence-only"]).success();
    fs::remove_file(kept.path_of(&kept.raw("two").remove(0))).expect("a raw blob");
    write_file(&kept.tombstone("two", 0), &fs::read(kept.tombstone("one", 0)).expect("a tombstone"));
    refused(&kept, "two");
    fs::rename(kept.tombstone("one", 0), kept.tombstone("one", 7)).expect("moved");
    assert!(refused(&kept, "one").contains("is the one of number 0"));

    // Another manifest of the run, no manifest, and a list that is gone.
    let kept = KeptStore::new();
    kept.remove("one", &["--evidence-only"]).success();
    let tombstone = Pointer::read(&kept.tombstone("one", 0));
    let source = Pointer::list(&kept.store(), "one", "source").remove(0);
    let pointer = fs::read(&tombstone.path).expect("a pointer");
    tombstone.redirect(&source.manifest, &source.bundle);
    refused(&kept, "one");
    write_file(&tombstone.path, b"{}");
    refused(&kept, "one");
    write_file(&tombstone.path, &pointer);
    let list = tombstone.load(&kept.store())["body"]["list"].clone();
    let path = kept.path_of(&list);
    let bytes = fs::read(&path).expect("the list");
    fs::remove_file(&path).expect("removed");
    assert!(refused(&kept, "one").contains("has no list"));
    write_file(&path, &bytes);
    assert!(!kept.verify("one", &[]).success().stdout.contains("explains nothing"), "whole again");
}

#[test]
fn a_run_that_others_rest_on_or_that_is_written_stays() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let summary = fixture.pointer("one", "reduce").manifest;
    fixture.assay(&["runs", "rm", "one"]).success();
    let pipeline = fs::read_to_string(fixture.repo().join(PIPELINE)).expect("a pipeline");
    fixture.write(PIPELINE, &format!("# learned from {}\n{pipeline}", summary.trim_start_matches("sha256:")));
    fixture.commit("a file that names a run's Summary");
    fixture.run("two").success();
    let refused = fixture.assay(&["runs", "rm", "one"]).refuses(2, "run_needed");
    assert!(refused.stderr.contains(PIPELINE) && refused.stderr.contains("`two`"), "{}", refused.stderr);
    fixture.assay(&["runs", "rm", "one", "--evidence-only"]).success();
    fixture.assay(&["runs", "rm", "two"]).success();
    // All or none: a refused run among several removes nothing.
    let before = files_under(&fixture.store());
    fixture.assay(&["runs", "rm", "two", "one", "--reason", "x", "--yes"]).refuses(2, "run_needed");
    assert_eq!(files_under(&fixture.store()), before);

    // A run that was left unfinished goes after a day.
    for stage in ["publish", "reduce", "collect"] {
        fs::remove_dir_all(fixture.store().join("runs/two").join(stage)).expect("a stage");
    }
    fixture.assay(&["runs", "rm", "two", "--evidence-only"]).refuses(2, "run_unfinished");
    for path in files_under(&fixture.store().join("runs/two")) {
        age(&path, TWO_DAYS);
    }
    let locked = fs::File::create(fixture.store().join("locks/two.lock")).expect("the lock of the run");
    locked.lock().expect("locked");
    fixture.assay(&["runs", "rm", "two", "--evidence-only"]).refuses(30, "run_locked");
    drop(locked);
    // Its blobs are young, so they stay for now.
    let shown = fixture.assay(&["runs", "rm", "two", "--evidence-only"]).success();
    assert!(shown.stdout.contains("used again within a day"), "{}", shown.stdout);
    for path in files_under(&fixture.store().join("blobs")) {
        age(&path, TWO_DAYS);
    }
    let removed = fixture.assay(&["runs", "rm", "two", "--evidence-only", "--reason", "broken", "--yes"]).success();
    assert!(!removed.stdout.contains("used again") && !removed.stdout.contains("level"), "{}", removed.stdout);
    fixture.run("two").refuses(2, "run_removed");
    fixture.verify("two").refuses(21, "run_incomplete");
}

#[test]
fn garbage_goes_while_a_run_is_written() {
    let fixture = Fixture::with_script("");
    let gate = fixture.root().join("gate");
    let speed = crate::support::indicator_output("only", "1$(date +%N)");
    let waiting = format!("touch {0}.begun; while [ ! -e {0} ]; do sleep 0.02; done\ncat <<E\n{speed}\nE", gate.display());
    fixture.indicator("only", &crate::support::script(&waiting), "");
    fixture.commit("waits");
    write_file(&gate, b"");
    fixture.run("one").success();
    let raw: Vec<Value> =
        fixture.manifest("one", "execute")["body"]["attempts"][0]["evidence"].as_array().expect("evidence").clone();
    let raw = blob(&fixture.store(), raw[0]["digest"].as_str().expect("a digest"));
    for path in files_under(&fixture.store().join("blobs")) {
        age(&path, TWO_DAYS);
    }
    // Pointers that are absent, as on a volume that is not mounted, are no reason to remove what they named.
    let away = fixture.root().join("away");
    fs::rename(fixture.store().join("runs"), &away).expect("moved");
    fixture.assay(&["gc", "--yes"]).refuses(30, "store_incomplete");
    fs::rename(&away, fixture.store().join("runs")).expect("moved back");
    fixture.verify("one").success();
    // Without pointers and manifests, nothing names what the run left, and all of it is old.
    for folder in ["runs", "cases", "warehouse", "ceilings", "times"] {
        let _ = fs::remove_dir_all(fixture.store().join(folder));
    }
    for path in files_under(&fixture.store().join("blobs")) {
        if fs::read(&path).expect("a blob").starts_with(b"{\"body\":{") {
            fs::remove_file(&path).expect("removed");
        }
    }
    let store = fixture.store();
    let (young, old) = (store.join("staging/00"), store.join("staging/01"));
    for path in [&young, &old] {
        write_file(path, b"half");
    }
    age(&old, TWO_DAYS);
    let unnamed = blob(&store, "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7");
    write_file(&unnamed, b"data");
    let scratch = [("assay-scratch-old", TWO_DAYS), ("assay-scratch-new", Duration::ZERO)].map(|(name, time)| {
        write_file(&fixture.scratch().join(name).join("0"), b"copy");
        age(&fixture.scratch().join(name).join("0"), time);
        age(&fixture.scratch().join(name), time);
        fixture.scratch().join(name)
    });

    let left = store.join("scratch/killed");
    write_file(&left.join("0"), b"left");
    for path in [&left.join("0"), &left] {
        age(path, TWO_DAYS);
    }

    // The next run needs the same definitions, which are there already, and are old.
    fs::remove_file(&gate).expect("shut");
    let _ = fs::remove_file(gate.with_extension("begun"));
    let running = fixture.spawn(&["run", PIPELINE, "--run-id", "two"]);
    wait_until("the first trial begins", || gate.with_extension("begun").exists());
    let shown = fixture.assay(&["gc"]).success();
    assert!(shown.stdout.contains("unnamed") && shown.stdout.contains("nothing was removed"), "{}", shown.stdout);
    assert!(shown.stdout.contains("2 folders") && shown.stdout.contains("1 object"), "{}", shown.stdout);
    assert!(raw.exists() && old.exists() && scratch[0].exists() && left.exists());
    let removed = fixture.assay(&["gc", "--yes"]).success();
    assert!(removed.stdout.contains("removed ") && !removed.stdout.contains("nothing was removed"), "{}", removed.stdout);
    assert!(removed.stdout.contains("younger than one day"), "{}", removed.stdout);
    assert!(!raw.exists() && !old.exists() && !scratch[0].exists() && !left.exists());
    assert!(young.exists() && unnamed.exists() && scratch[1].exists());
    write_file(&gate, b"");
    running.finish().success();
    assert!(levels(&fixture.verify("two").success()).contains("3 (raw bytes)"));
    fs::remove_file(&unnamed).expect("removed");
    let clean = fixture.assay(&["gc"]).success();
    assert!(clean.stdout.contains("nothing to remove") && !clean.stdout.contains("unnamed"), "{}", clean.stdout);
    assert_eq!(fixture.assay(&["gc", "--json"]).success().json()["unneeded"]["blobs"]["count"], 0);

    // A run that cannot be read may need anything.
    let source = fixture.pointer("two", "source");
    fs::remove_file(blob(&store, &source.manifest)).expect("removed");
    let refused = fixture.assay(&["gc", "--yes"]).refuses(20, "artifact_absent");
    assert!(refused.stderr.contains("what run `two` needs is not known"), "{}", refused.stderr);
}

#[test]
fn sizes_add_up_to_the_bytes_on_disk() {
    let kept = KeptStore::new();
    // Stages put some files that turn out to be empty and that they do not name.
    let unnamed = kept.assay(&["du", "--json"]).success().json()["unnamed"]["bytes"].as_u64().expect("a number");
    write_file(&kept.store().join("staging/00"), b"half");
    write_file(&kept.store().join("logs/one/plan.log"), b"a line");
    write_file(&blob(&kept.store(), "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"), b"data");
    let on_disk = || files_under(&kept.store()).iter().map(|path| fs::metadata(path).expect("a file").len()).sum::<u64>();
    let check = || {
        let usage = kept.assay(&["du", "--json"]).success().json();
        let bytes = |value: &Value| value.as_u64().expect("a number");
        let parts = ["shared", "verdicts", "unnamed", "warehouse", "staging", "pointers", "beside"];
        let parts: u64 = parts.iter().map(|part| bytes(&usage[part]["bytes"])).sum();
        let runs = usage["runs"].as_array().expect("runs");
        let own: u64 = runs.iter().map(|run| bytes(&run["bytes"])).sum();
        for run in runs {
            let kinds: u64 = run["kinds"].as_array().expect("kinds").iter().map(|kind| bytes(&kind["bytes"])).sum();
            assert_eq!(kinds, bytes(&run["bytes"]), "{run}");
            assert!(bytes(&run["shared_bytes"]) <= bytes(&usage["shared"]["bytes"]));
        }
        assert_eq!((bytes(&usage["bytes"]), parts + own), (on_disk(), on_disk()), "{usage}");
        usage
    };
    let usage = check();
    let parts = [&usage["unnamed"]["bytes"], &usage["staging"]["bytes"], &usage["beside"]["bytes"]];
    assert_eq!(parts.map(Value::as_u64), [unnamed + 4, 4, 6].map(Some));
    assert!(usage["shared"]["count"].as_u64() > Some(0), "both runs are of one commit: {usage}");
    let text = kept.assay(&["du"]).success().stdout;
    assert!(text.contains("shared by several runs, counted once") && text.contains("named by nothing (`assay gc`)"), "{text}");
    assert!(text.contains("  reports ") && text.contains("  manifests ") && !text.contains("more"), "{text}");
    assert!(kept.assay(&["du", "--runs", "1"]).success().stdout.contains("1 run more"));

    kept.remove("one", &[]).success();
    check();
}

#[test]
fn a_store_elsewhere_is_left_as_it_is() {
    let mut fixture = Fixture::new();
    fixture.run("one").success();
    let served = ServedStore::start();
    served.set_credentials(&mut fixture, "run");
    let uri = served.uri();
    fixture.assay(&["fetch", "one", "--to", &uri]).success();
    let before = fixture.assay(&["du", "--store", &uri, "--json"]).success().json()["bytes"].clone();
    for arguments in [&["runs", "rm", "one"][..], &["runs", "rm", "one", "--reason", "x", "--yes"], &["gc"], &["gc", "--yes"]] {
        fixture.assay(&[arguments, &["--store", &uri]].concat()).refuses(2, "no_removal");
    }
    assert_eq!(fixture.assay(&["du", "--store", &uri, "--json"]).success().json()["bytes"], before);
}

#[test]
fn what_was_read_before_is_believed_only_while_nothing_changes() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    fixture.run("two").success();
    let cache = || files_under(&fixture.home().join(".cache/assay")).len();
    let history = |more: &[&str]| fixture.assay(&[&["history", "speed", "--json"], more].concat());
    let runs = || fixture.assay(&["runs"]).success().stdout;
    // What has just changed is not kept.
    std::thread::sleep(Duration::from_secs(4));
    let (listed, first) = (runs(), history(&[]).success().stdout);
    assert_eq!(cache(), 3, "the list, the verified runs, and the rows");
    assert_eq!((runs(), history(&[]).success().stdout), (listed.clone(), first.clone()));
    assert_eq!(history(&["--no-cache"]).success().stdout, first);
    // Another filter has rows of its own.
    assert_eq!(fixture.assay(&["history", "--json"]).success().stdout, first);
    assert_eq!(cache(), 4);

    // A new run is read besides.
    fixture.run("three").success();
    assert!(runs().contains("three"));
    let values = |printed: &str| serde_json::from_str::<Value>(printed).expect("JSON")[0]["runs"].as_array().map(Vec::len);
    assert_eq!(values(&history(&[]).success().stdout), Some(3));
    assert_eq!(history(&[]).success().stdout, history(&["--no-cache"]).success().stdout);

    // A signed file that changes is read again, and refused.
    let summary = fixture.pointer("one", "reduce");
    let path = blob(&fixture.store(), &summary.manifest);
    let bytes = fs::read(&path).expect("a Summary");
    let time = fs::metadata(&path).expect("a file").modified().expect("a time");
    write_file(&path, &crate::tamper::flip_bit(&bytes));
    fs::File::open(&path).expect("a file").set_modified(time).expect("a time can be set");
    history(&[]).exits(20);
    write_file(&path, &bytes);
    assert_eq!(history(&[]).success().stdout, history(&["--no-cache"]).success().stdout);
    // So is a run's Source for the list.
    let source = blob(&fixture.store(), &fixture.pointer("one", "source").manifest);
    let bytes = fs::read(&source).expect("a Source");
    write_file(&source, b"{}");
    assert!(fixture.assay(&["runs"]).exits(20).stdout.contains("unreadable"));
    write_file(&source, &bytes);
    assert!(!runs().contains("unreadable"));

    // A table's log is always read: rows that disappear from it are missed, and a foreign file is refused.
    let log = fixture.store().join("warehouse/benchmark_run_fact/_delta_log");
    let last = files_under(&log).into_iter().next_back().expect("a commit");
    let commit = fs::read(&last).expect("a commit");
    fs::remove_file(&last).expect("removed");
    history(&[]).exits(20);
    write_file(&last, &commit);
    // The cache is no evidence: whatever it says, `verify` reads the files, and a damaged cache costs time only.
    for file in files_under(&fixture.home().join(".cache/assay")) {
        write_file(&file, b"{\"one\": 1");
    }
    assert_eq!(history(&[]).success().stdout, history(&["--no-cache"]).success().stdout);
    assert!(runs().contains("three"));
}

#[test]
fn another_trust_root_verifies_anew() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    std::thread::sleep(Duration::from_secs(4));
    fixture.assay(&["history", "speed"]).success();
    let root = fs::read_to_string(fixture.trust()).expect("a root");
    let stranger = Fixture::without_keys();
    stranger.assay(&["keys", "init"]).success();
    write_file(&fixture.trust(), &fs::read(stranger.trust()).expect("a root"));
    fixture.assay(&["history", "speed", "--strict"]).refuses(20, "unknown_key");
    let without = fixture.assay(&["history", "speed"]).refuses(2, "no_history");
    assert!(without.stderr.starts_with("left out: run `one`: "), "{}", without.stderr);
    write_file(&fixture.trust(), root.as_bytes());
    fixture.assay(&["history", "speed"]).success();
}

/// The pointers of the Publications of both runs.
fn publications(kept: &KeptStore) -> [Pointer; 2] {
    ["one", "two"].map(|run| Pointer::list(&kept.store(), run, "publish").remove(0))
}

#[test]
fn a_pointer_that_leads_elsewhere_keeps_every_blob() {
    let kept = KeptStore::new();
    for path in files_under(&kept.store().join("blobs")) {
        age(&path, TWO_DAYS);
    }
    kept.assay(&["gc"]).success();
    let [one, two] = publications(&kept);
    let bytes = fs::read(&one.path).expect("a pointer");
    write_file(&one.path, &fs::read(&two.path).expect("a pointer"));
    let before = files_under(&kept.store());
    let refused = kept.assay(&["gc", "--yes"]).refuses(20, "pointer_elsewhere");
    assert!(refused.stderr.contains("leads to a manifest of run `two`"), "{}", refused.stderr);
    kept.assay(&["runs", "rm", "two"]).refuses(20, "pointer_elsewhere");
    write_file(&one.path, &bytes);
    kept.verify("one", &["--strict"]).success();

    // The folder of a run, replaced by that of another one.
    let away = kept.folder.path().join("away");
    fs::rename(kept.store().join("runs/one"), &away).expect("moved");
    copy_folder(&kept.store().join("runs/two"), &kept.store().join("runs/one"));
    kept.assay(&["gc", "--yes"]).refuses(20, "pointer_elsewhere");
    fs::remove_dir_all(kept.store().join("runs/one")).expect("removed");
    fs::rename(&away, kept.store().join("runs/one")).expect("moved back");
    assert_eq!(files_under(&kept.store()), before);
    kept.verify("one", &["--strict"]).success();
}

#[test]
fn an_export_of_what_was_removed_says_so_and_leaves_no_folder() {
    let kept = KeptStore::new();
    let entries = || {
        let listed = fs::read_dir(kept.folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        listed.collect::<std::collections::BTreeSet<_>>()
    };
    let before = entries();
    let export = |more: &[&str]| kept.assay(&[&["export", "one"], more].concat());
    kept.remove("one", &["--evidence-only"]).success();
    let exported = export(&["--to", "whole"]).success();
    assert!(exported.stdout.contains("whole/outcome_fact.csv  "), "{}", exported.stdout);
    export(&["--to", "whole"]).refuses(2, "unwritable");
    fs::remove_dir_all(kept.folder.path().join("whole")).expect("removed");

    kept.remove("one", &[]).success();
    let refused = export(&[]).refuses(21, "evidence_removed");
    assert!(refused.stderr.contains("removed by ") && refused.stderr.contains("older than a year"), "{}", refused.stderr);
    assert!(refused.stdout.is_empty(), "{}", refused.stdout);
    assert_eq!(entries(), before);
    let pushed = kept
        .assay(&["push", "one", "--remote", "file:///nonexistent/remote.git", "--branch", "results"])
        .refuses(21, "evidence_removed");
    assert!(!pushed.stderr.contains("--run-id"), "{}", pushed.stderr);
    assert_eq!(entries(), before);

    // What was lost is not called removed.
    let kept = KeptStore::new();
    fs::remove_file(kept.path_of(&kept.raw("one").remove(0))).expect("a raw blob");
    let summary = Pointer::list(&kept.store(), "one", "reduce")[0].load(&kept.store());
    let files = summary["body"]["files"].as_array().expect("files");
    let outcomes = files.iter().find(|file| file["table"] == "outcome_fact").expect("a table");
    fs::remove_file(kept.path_of(&outcomes["artifact"])).expect("a curated file");
    kept.assay(&["export", "one"]).refuses(20, "artifact_absent");
}

#[test]
fn a_removed_run_is_not_resumed_by_advice() {
    let kept = KeptStore::new();
    for stage in ["publish", "reduce"] {
        fs::remove_dir_all(kept.store().join("runs/one").join(stage)).expect("a stage");
    }
    for path in files_under(&kept.store()) {
        age(&path, TWO_DAYS);
    }
    let advice = |command: &str, code: &str| kept.assay(&[command, "one"]).refuses(2, code).stderr;
    for (command, code) in [("export", "not_published"), ("show", "not_published")] {
        assert!(advice(command, code).contains("with its `--run-id`"), "{command}");
    }
    kept.remove("one", &["--evidence-only"]).success();
    for (command, code) in [("export", "not_published"), ("show", "not_published")] {
        let printed = advice(command, code);
        assert!(!printed.contains("--run-id") && printed.contains("so it cannot be resumed"), "{command}: {printed}");
    }
}

#[test]
fn a_row_without_a_point_is_not_traced() {
    let kept = KeptStore::new();
    for table in ["benchmark_run_fact", "workload_dim", "hardware_topology_dim"] {
        let refused = kept.assay(&["trace", &format!("one/{table}/0123456789ab/attempts")]).refuses(2, "address");
        assert!(refused.stderr.contains("the tables of this run that can be traced: "), "{}", refused.stderr);
        let named = refused.stderr.split("can be traced: ").nth(1).expect("tables");
        assert!(named.contains("outcome_fact") && !named.contains("_dim") && !named.contains("run_fact"), "{named}");
    }
    kept.assay(&["trace", "one/nowhere/0123456789ab/value"]).refuses(2, "unknown_table");
}

#[test]
fn history_leaves_out_a_run_that_does_not_verify() {
    let kept = KeptStore::new();
    let whole = kept.assay(&["history", "speed", "--strict"]).success();
    assert!(!whole.stderr.contains("left out"), "{}", whole.stderr);
    let [one, two] = publications(&kept);
    write_file(&one.path, &fs::read(&two.path).expect("a pointer"));
    let left = kept.assay(&["history", "speed", "--json", "--no-cache"]).success();
    assert!(left.stderr.contains("left out: run `one`: ") && !left.stderr.contains("--trust"), "{}", left.stderr);
    let series = &left.json()[0];
    let runs: Vec<&str> = series["runs"].as_array().expect("runs").iter().map(|run| text(&run["run"])).collect();
    assert!(!runs.contains(&"one") && runs.contains(&"two"), "{series}");
    assert_eq!(text(&series["left_out"][0]["run"]), "one");
    let refused = kept.assay(&["history", "speed", "--strict"]).exits(20);
    assert!(refused.stderr.contains("run `one`"), "{}", refused.stderr);
}

#[test]
fn a_copy_without_tables_names_the_store_that_has_them() {
    let kept = KeptStore::new();
    let copy = kept.folder.path().join("copy").display().to_string();
    kept.assay(&["fetch", "one", "--to", &copy]).success();
    for command in [["query", "SELECT 1"], ["history", "speed"]] {
        let refused = kept.fixture.assay(&[&command[..], &["--store", &copy]].concat()).refuses(2, "no_warehouse");
        let named = format!("in the tables of the store that they came from: `{}`", kept.store().display());
        assert!(refused.stderr.replace("file://", "").contains(&named), "{}", refused.stderr);
        assert!(!refused.stderr.contains("first published run"), "{}", refused.stderr);
    }
}
