//! Gates over the user's own program: Assay measures the time of builds that are in one folder per side.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::{Forgery, replace_artifact};
use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, PIPELINE};

/// A program that measures its own CPU time and uses a fixed amount of it, independent of the machine's speed. It prints a line each time
/// that it runs.
const PROGRAM: &str = "#!/usr/bin/python3
import os, sys
wanted = float(sys.argv[1]) * FACTOR
while True:
    used = os.times()
    if used.user + used.system >= wanted: break
print('ran', open('input.txt').read().strip())
";

/// Writes a command over a file of the workload, on two sides.
fn write_comparison(fixture: &Fixture, command: &str, trials: &str) {
    fixture.write(
        "workloads/words/workload.yaml",
        &format!(
            "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: words}}
spec:
  type: indicator
  command: {{{command}}}
  files: [input.txt]
"
        ),
    );
    fixture.write("workloads/words/input.txt", "of the workload\n");
    fixture.write(
        PIPELINE,
        &format!(
            "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: fixture}}
spec:
  intent: exploratory
  workloads: [words]
  targets: [{{name: before, kind: host, folder: sut/before}}, {{name: after, kind: host, folder: sut/after}}]
  comparison: {{baseline: {{target: before}}, candidate: {{target: after}}, variable_under_test: other, other: the commit}}
  trials: {{{trials}, retry_budget: 0}}
  gates: [{{name: speed}}]
"
        ),
    );
    fixture.write(".gitignore", "sut/\n");
}

/// Writes a program to the path of a side's build.
fn write_build(fixture: &Fixture, path: &str, text: &str) {
    fixture.write(path, text);
    let path = fixture.repo().join(path);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Writes two sides; the candidate uses `factor` times the CPU time of the baseline.
fn write_builds(fixture: &Fixture, factor: f64) {
    write_build(fixture, "sut/before/words", &PROGRAM.replace("FACTOR", "1"));
    write_build(fixture, "sut/after/words", &PROGRAM.replace("FACTOR", &factor.to_string()));
}

fn attempts(fixture: &Fixture, run: &str) -> Vec<Value> {
    list(&fixture.manifest(run, "execute")["body"]["attempts"]).clone()
}

/// Reads the measurements of an attempt from its evidence.
fn read_measurement(fixture: &Fixture, attempt: &Value) -> Value {
    evidence(fixture, attempt, "measured").map(|bytes| serde_json::from_slice(&bytes).expect("JSON")).expect("it is kept")
}

fn evidence(fixture: &Fixture, attempt: &Value, name: &str) -> Option<Vec<u8>> {
    let found = list(&attempt["evidence"]).iter().find(|artifact| text(&artifact["name"]).ends_with(&format!("/{name}")))?;
    Some(fs::read(crate::support::blob(&fixture.store(), text(&found["digest"]))).expect("the evidence"))
}

#[test]
fn a_program_that_uses_more_cpu_time_is_regressed() {
    let fixture = Fixture::new();
    write_comparison(&fixture, "run: [./words, '0.05']", "count: 12");
    // A difference so large that no other process of the machine hides it.
    write_builds(&fixture, 8.0);
    fixture.commit("a gate of a program");
    fixture.run("slower").success();
    for attempt in attempts(&fixture, "slower") {
        let document = read_measurement(&fixture, &attempt);
        let result = &document["@result"];
        let [cpu, wall] = ["cpu_time_ms", "wall_time_ms"].map(|metric| result[metric][0].as_f64().expect("a number"));
        let used =
            ["utime_us", "stime_us"].map(|name| text(&attempt["indicator"]["usage"][name]).parse::<f64>().expect("a count"));
        assert!((used[0] + used[1] - cpu * 1000.0).abs() < 1.0, "the time is what the kernel says: {attempt}");
        let factor = if text(&attempt["case_id"]).contains("after") { 8.0 } else { 1.0 };
        assert!(cpu >= 50.0 * factor && wall > 0.0, "{document}");
        assert_eq!(evidence(&fixture, &attempt, "stdout").expect("kept"), b"ran of the workload\n");
        assert!(attempt["indicator"].get("script_sha256").is_none(), "there is no script");
    }
    // The gate names the differing programs by their bytes.
    let gate = fixture.assay(&["gate", "slower", "--baseline", "main", "--to", "verdicts"]).exits(40);
    assert!(gate.stdout.starts_with("Regressed, and it blocks: `cpu_time_ms` of words at default"), "{}", gate.stdout);
    let verdict = fs::read_to_string(fixture.repo().join("verdicts/speed/verdict.json")).expect("a verdict");
    assert!(verdict.contains("the sides differ in program `words` ("), "{verdict}");
    let verified = fixture.assay(&["verify", "slower", "--recompute"]).success();
    assert!(verified.stdout.contains("level 4 (recomputed) of 4 reached"), "{}", verified.stdout);
    let run = fixture.assay(&["run", PIPELINE, "--run-id", "slower", "--json"]).success().json();
    let traced = fixture.assay(&["trace", text(&run["numbers"][0]["address"])]).success().stdout;
    assert!(traced.contains("command   ./words 0.05") && traced.contains("samples "), "{traced}");
    assert!(traced.contains("    program sut/before/words sha256:"), "{traced}");
    assert!(verified.stdout.contains("files that the source names"), "the program is in no commit: {}", verified.stdout);
}

#[test]
fn each_build_has_its_turn_on_both_sides() {
    let fixture = Fixture::new();
    write_comparison(&fixture, "run: [bin/words], times: 3", "count: 4, rebuilds: 2");
    for (side, number) in [("before", 1), ("before", 2), ("after", 1), ("after", 2)] {
        write_build(&fixture, &format!("sut/{side}/{number}/bin/words"), &format!("#!/bin/sh\necho {side} {number}\n"));
    }
    fixture.commit("two builds of each side");
    fixture.run("builds").success();
    for attempt in attempts(&fixture, "builds") {
        let trial = text(&attempt["trial_id"]);
        let index: u32 = trial.rsplit(".t").next().and_then(|number| number.parse().ok()).expect("its number");
        let side = if text(&attempt["case_id"]).contains("after") { "after" } else { "before" };
        let said = evidence(&fixture, &attempt, "stdout").expect("kept");
        assert_eq!(String::from_utf8_lossy(&said), format!("{side} {}\n", index % 2 + 1), "{trial}");
        assert_eq!(list(&read_measurement(&fixture, &attempt)["@result"]["wall_time_ms"]).len(), 3, "three times in each trial");
    }
}

#[test]
fn a_program_that_is_absent_or_fails_is_named() {
    let fixture = Fixture::new();
    write_comparison(&fixture, "run: [./words, '0.01']", "count: 2");
    fixture.commit("nothing is built");
    // Only one side exists: it is not measured, because the other one is missing.
    let mark = fixture.root().join("measured");
    write_build(&fixture, "sut/before/words", &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let absent = fixture.run("absent").refuses(30, "program_absent");
    assert!(absent.stderr.contains("is not an executable file at `sut/after/words`"), "{}", absent.stderr);
    assert!(absent.stderr.contains("build it before the run") && !mark.exists(), "{}", absent.stderr);

    write_build(&fixture, "sut/before/words", "#!/bin/sh\nexit 0\n");
    write_build(&fixture, "sut/after/words", "#!/bin/sh\necho broken >&2\nexit 3\n");
    // No trial of the candidate counts: the rest is published, and the run says which trials are missing.
    let failed = fixture.run("failed");
    let failing: Vec<Value> = attempts(&fixture, "failed").into_iter().filter(|attempt| attempt["status"] == "failed").collect();
    assert_eq!(failing.len(), 2, "{failed:?}");
    for attempt in failing {
        let reasons = list(&attempt["validity"]["reasons"]);
        assert_eq!(
            (reasons.len(), &reasons[0]["detail"]),
            (1, &json!("the program ended with exit code 3; last on stderr: broken"))
        );
        assert_eq!(read_measurement(&fixture, &attempt)["@result"]["cpu_time_ms"], json!([]), "no time of what failed");
    }
}

#[test]
fn instructions_are_counted_where_there_is_a_counter() {
    let fixture = Fixture::new();
    let count = |counter: &str, run: &str| -> CommandResult {
        write_comparison(&fixture, &format!("run: [./words], instructions: {counter}"), "count: 2");
        for (side, loops) in [("before", 1000), ("after", 2000)] {
            let program = format!("#!/bin/sh\ni=0\nwhile [ $i -lt {loops} ]; do i=$((i + 1)); done\n");
            write_build(&fixture, &format!("sut/{side}/words"), &program);
        }
        fixture.commit(counter);
        fixture.run(run)
    };
    let has = |program: &str| Path::new("/usr/bin").join(program).exists();
    if has("valgrind") {
        count("cachegrind", "counted").success();
        let of = |side: &str| {
            let attempts = attempts(&fixture, "counted");
            let attempt = attempts.iter().find(|attempt| text(&attempt["case_id"]).contains(side)).expect("an attempt");
            read_measurement(&fixture, attempt)["@result"]["instructions"].as_f64().expect("a count")
        };
        let (before, after) = (of("before"), of("after"));
        assert!(before > 100_000.0 && after > 1.2 * before, "{before} {after}");
    } else {
        count("cachegrind", "counted").refuses(30, "counter_absent");
    }
    if !has("perf") {
        count("perf", "by-perf").refuses(30, "counter_absent");
        return;
    }
    // With a hardware counter there is a number; without one no attempt counts, and the first attempt says why.
    let ran = count("perf", "by-perf");
    for attempt in attempts(&fixture, "by-perf") {
        let counted = read_measurement(&fixture, &attempt)["@result"]["instructions"].as_f64();
        assert_eq!(attempt["validity"]["valid"].as_bool(), Some(counted.is_some()), "{ran:?}");
        if counted.is_none() {
            assert_eq!(attempt["validity"]["reasons"][0]["code"], "instructions_not_counted");
        }
    }
}

/// The files that one invocation leaves do not help the next one; a program that leaves its work to other processes has no time; and a
/// resident set smaller than that of the measuring process is unknown.
#[test]
fn work_that_was_not_measured_is_no_number() {
    let fixture = Fixture::new();
    write_comparison(&fixture, "run: [./words], times: 3", "count: 1");
    write_build(&fixture, "sut/before/words", "#!/bin/sh\n[ ! -e left ] || exit 9\ntouch left\n");
    write_build(&fixture, "sut/after/words", "#!/bin/sh\nsleep 60 &\n");
    fixture.commit("shortcuts");
    let _ = fixture.run("shortcuts");
    for attempt in attempts(&fixture, "shortcuts") {
        let result = &read_measurement(&fixture, &attempt)["@result"];
        assert!(result.get("max_rss_kib").is_none(), "a shell is smaller: {result}");
        if text(&attempt["case_id"]).contains("before") {
            assert_eq!(attempt["validity"]["valid"], true, "{attempt}");
        } else {
            assert_eq!(attempt["validity"]["reasons"][0]["code"], "processes_left", "{attempt}");
        }
    }
}

/// The gate reports the executed programs: the same on both sides, or differing from trial to trial.
#[test]
fn what_was_executed_is_judged_too() {
    let fixture = Fixture::new();
    write_comparison(&fixture, "run: [./words]", "count: 6");
    write_build(&fixture, "sut/before/words", "#!/bin/sh\n");
    write_build(&fixture, "sut/after/words", "#!/bin/sh\n");
    fixture.commit("nothing differs");
    fixture.run("alike").success();
    let alike = fixture.assay(&["gate", "alike", "--baseline", "main"]);
    let said: String = alike.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("! Executed both sides executed the same file ("), "{}", alike.stdout);

    // The baseline's third invocation replaces the candidate's program, between two of the candidate's attempts.
    let [count, after] =
        [fixture.root().join("count"), fixture.repo().join("sut/after/words")].map(|path| path.display().to_string());
    let replacing = format!(
        "#!/bin/sh
echo >>{count}
[ \"$(wc -l <{count})\" -eq 3 ] || exit 0
printf '#!/bin/sh\\n# another\\n' >{after}.new
chmod +x {after}.new
mv {after}.new {after}
"
    );
    write_build(&fixture, "sut/before/words", &replacing);
    fixture.write("changed", "another tree");
    fixture.commit("another tree");
    fixture.run("replaced").success();
    let replaced = fixture.assay(&["gate", "replaced", "--baseline", "main"]).exits(41);
    let said: String = replaced.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("`sut/after/words` was 2 different files in turn"), "{}", replaced.stdout);
}

/// Returns a run `one` of a command.
fn honest_fixture() -> &'static Fixture {
    static HONEST: OnceLock<Fixture> = OnceLock::new();
    HONEST.get_or_init(|| {
        let fixture = Fixture::shared();
        write_comparison(&fixture, "run: [./words, '0.01']", "count: 2");
        write_builds(&fixture, 1.0);
        fixture.commit("a command");
        fixture.run("one").success();
        fixture
    })
}

/// The holder of execute's key states the times twice, in two places that have to agree: the time of each invocation, and the use of the
/// attempt.
#[test]
fn times_that_the_attempt_does_not_know_are_refused() {
    let attempt = attempts(honest_fixture(), "one").remove(0);
    let mut names = list(&attempt["evidence"]).iter().map(|artifact| text(&artifact["name"]));
    let name = names.find(|name| name.ends_with("/measured")).expect("it is kept");
    let falsified = |edit: &dyn Fn(&mut Value)| {
        let edit = |bytes: Vec<u8>| {
            let mut document: Value = serde_json::from_slice(&bytes).expect("JSON");
            edit(&mut document["@result"]);
            document.to_string().into_bytes()
        };
        let replace = |bench: &Bench, manifest: &mut Value| replace_artifact(bench, manifest, name, edit);
        Forgery::forge_in(Bench::with_runs_of(honest_fixture()), "execute", replace, |_| {}).describe_detection(4)
    };
    assert_eq!(falsified(&|result| result["cpu_time_ms"][0] = json!(1.5)), "reduce: measured_differs");
    assert_eq!(falsified(&|result| result["max_rss_kib"] = json!([1])), "reduce: measured_differs");
    // If the program had printed it, no check would compare it with the measured use.
    let printed = |_: &Bench, manifest: &mut Value| {
        for attempt in manifest["body"]["attempts"].as_array_mut().expect("attempts") {
            let evidence = attempt["evidence"].as_array_mut().expect("evidence");
            evidence.retain(|artifact| !text(&artifact["name"]).ends_with("/stdout"));
            for artifact in evidence.iter_mut().filter(|artifact| text(&artifact["name"]).ends_with("/measured")) {
                artifact["name"] = json!(text(&artifact["name"]).replace("/measured", "/stdout"));
            }
        }
    };
    let caught = Forgery::forge_in(Bench::with_runs_of(honest_fixture()), "execute", printed, |_| {}).describe_detection(4);
    assert!(caught.ends_with("attempt_differs"), "{caught}");
}
