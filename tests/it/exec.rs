//! `assay exec` over the real binaries: a command line is measured without any file, and its result is a run like any other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::as_is::files_with;
use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, binary, blob, wait_until};

/// A program that measures its own CPU time and uses as much as its argument says, independent of the machine's speed. It has more memory than
/// the process that starts it.
const WORK: &str = "#!/usr/bin/python3
import os, sys
memory = b'x' * (48 << 20)
wanted = float(sys.argv[1])
while True:
    used = os.times()
    if used.user + used.system >= wanted: break
print(os.getcwd(), sys.argv[2:], sys.stdin.read())
";

/// Writes an executable file of the work tree.
fn write_program(fixture: &Fixture, path: &str, program: &str) {
    fixture.write(path, program);
    fs::set_permissions(fixture.repo().join(path), fs::Permissions::from_mode(0o755)).expect("executable");
}

fn exec(fixture: &Fixture, arguments: &[&str]) -> CommandResult {
    fixture.assay(&[&["exec"], arguments].concat())
}

fn attempts(fixture: &Fixture, run: &str) -> Vec<Value> {
    list(&fixture.manifest(run, "execute")["body"]["attempts"]).clone()
}

fn stdout_of(fixture: &Fixture, attempt: &Value) -> String {
    let found =
        list(&attempt["evidence"]).iter().find(|artifact| text(&artifact["name"]).ends_with("/stdout")).expect("it is kept");
    fs::read_to_string(blob(&fixture.store(), text(&found["digest"]))).expect("text")
}

/// Returns the address of the median of a metric on a target.
fn address(shown: &Value, target: &str, metric: &str) -> String {
    let is_it = |number: &&Value| {
        let case = text(&number["benchmark_case_id"]).split('.').nth(1) == Some(target);
        case && number["metric"] == metric && number["statistic"] == "median"
    };
    text(&list(&shown["numbers"]).iter().find(is_it).expect("it is published")["address"]).to_owned()
}

#[test]
fn a_command_is_a_run_that_is_verified_and_traced() {
    let fixture = Fixture::bare();
    write_program(&fixture, "sub/work", WORK);
    let folder = fixture.repo().join("sub");
    let arguments = ["exec", "--runs", "6", "--warmup", "2", "--run-id", "one", "--", "./work", "0.01", "${x} a"];
    let ran = fixture.assay_in(&folder, &arguments).success();
    assert!(!fixture.assay(&["runs"]).success().stdout.contains("candidate"), "it compares nothing");
    for metric in ["wall_time_ms", "cpu_time_ms", "max_rss_kib"] {
        let row = ran
            .stdout
            .lines()
            .find(|line| line.contains(&format!("work on local: {metric} ")))
            .unwrap_or_else(|| panic!("{}", ran.stdout));
        assert!(row.contains(" [") && row.contains("6/6 trials"), "a value with its interval: {row}");
    }
    assert!(ran.stdout.contains("Exploratory grade, as intended"), "{}", ran.stdout);
    assert!(ran.stdout.lines().any(|line| line.contains("max_rss_kib") && line.contains(" MiB ")), "{}", ran.stdout);
    assert!(!ran.stdout.contains("than the baseline") && !ran.stderr.contains("stdin"), "{ran:?}");
    let attempts = attempts(&fixture, "one");
    assert_eq!(attempts.len(), 6, "warm-up runs are no attempts");
    let printed = format!("{} ['${{x}} a'] \n", folder.canonicalize().expect("a folder").display());
    for attempt in &attempts {
        assert_eq!(stdout_of(&fixture, attempt), printed, "it runs in this folder, without a shell, with an empty stdin");
        let programs: Vec<&str> = list(&attempt["indicator"]["executables"]).iter().map(|found| text(&found["path"])).collect();
        assert!(programs.iter().any(|path| path.ends_with("/sub/work")), "it is pinned by its digest: {programs:?}");
    }
    fixture.verify_recomputed("one");
    // The same command line shows the finished run again.
    let again = fixture.assay_in(&folder, &[&arguments[..1], &["--json"], &arguments[1..]].concat()).success();
    let walked = fixture.assay(&["trace", &address(&again.json(), "local", "wall_time_ms")]).success().stdout;
    assert!(walked.contains("/sub/work 0.01 '$${x} a'") && walked.contains("in        "), "{walked}");
}

#[test]
fn a_command_that_does_more_work_is_slower() {
    let fixture = Fixture::bare();
    write_program(&fixture, "work", WORK);
    let compare = |more: &[&str], id: &str| {
        let common = ["--baseline", "./work 0.04 'of the baseline'", "--runs", "12", "--run-id", id];
        exec(&fixture, &[&common, more, &["--", "./work", "0.4"]].concat())
    };
    // Times are as noisy as the machine is busy: where pairs resemble those before them, nothing is concluded, and said.
    let resembles = |text: &str| text.contains("its pairs resemble those before them");
    let slower = compare(&[], "shown").success();
    let says = |part: &str| slower.stdout.lines().any(|line| line.starts_with(part));
    assert!(slower.stdout.contains(" than the baseline: `") || resembles(&slower.stdout), "{}", slower.stdout);
    let is_more = says("  cpu_time_ms   more CPU time ") || says("  cpu_time_ms   inconclusive") && resembles(&slower.stdout);
    assert!(says("  wall_time_ms  ") && is_more, "{}", slower.stdout);
    let sides: Vec<String> = attempts(&fixture, "shown").iter().map(|attempt| text(&attempt["case_id"]).to_owned()).collect();
    assert_eq!(sides.len(), 24);
    assert!(sides.chunks(2).all(|pair| pair[0] != pair[1]), "the sides of each pair are adjacent: {sides:?}");
    let blocked = compare(&["--max-regression", "50%", "--json"], "blocked");
    let outcome = if blocked.code == 41 && resembles(&blocked.stdout) { "inconclusive" } else { "regressed" };
    let blocked = blocked.exits(if outcome == "regressed" { 40 } else { 41 }).json();
    assert_eq!(
        (text(&blocked["comparison"]["outcome"]), &blocked["comparison"]["verdict"]["policy"]["budget"]),
        (outcome, &json!(0.5))
    );
    let listed = fixture.assay(&["runs"]).success().stdout;
    assert!(listed.lines().any(|line| line.starts_with("blocked ") && line.contains(" ms, candidate ")), "{listed}");
    fixture.verify_recomputed("blocked");
    let walked = |target| fixture.assay(&["trace", &address(&blocked, target, "cpu_time_ms")]).success().stdout;
    assert!(walked("baseline").contains("/work 0.04 'of the baseline'"), "{}", walked("baseline"));
    assert!(walked("candidate").contains("/work 0.4\n"), "{}", walked("candidate"));
    // The other way round, nothing got worse.
    let faster = exec(&fixture, &["--baseline", "./work 0.4", "--runs", "12", "--max-regression", "5", "--", "./work", "0.04"]);
    let is_less = faster.stdout.contains("  cpu_time_ms   less CPU time ") || resembles(&faster.stdout);
    assert!([0, 41].contains(&faster.code) && is_less, "{}", faster.stdout);
}

#[test]
fn a_command_is_neither_slower_nor_faster_than_itself() {
    let fixture = Fixture::bare();
    let ran = exec(&fixture, &["--baseline", "sh -c 'exit 0'", "--times", "3", "--", "sh", "-c", "exit 0"]).success();
    let said = |start: &str| ran.stdout.lines().any(|line| line.starts_with(start));
    assert!(said("No difference found beyond 5 %") || said("Inconclusive: "), "{}", ran.stdout);
    assert!(!ran.stdout.contains("than the baseline"), "{}", ran.stdout);
}

#[test]
fn a_command_that_cannot_be_measured_is_run_once_and_named() {
    let fixture = Fixture::bare();
    let absent = exec(&fixture, &["--", "no-such-program"]).refuses(30, "program_absent");
    assert!(absent.stderr.contains("`no-such-program`") && absent.stderr.contains("not in PATH"), "{}", absent.stderr);
    assert!(absent.stderr.contains("hint: check its name") && absent.stderr.contains("sh -c 'LINE'"), "{}", absent.stderr);
    exec(&fixture, &["--", "./absent"]).refuses(30, "program_absent");
    let empty = exec(&fixture, &["--", "printf", ""]).refuses(2, "option");
    assert!(
        empty.stderr.contains("`COMMAND[1]` must not be empty") && empty.stderr.contains("hint: a word of the command"),
        "{}",
        empty.stderr
    );

    let count = fixture.root().join("count");
    let failing = format!("echo >>{}; echo broken >&2; exit 3", count.display());
    let failed = exec(&fixture, &["--", "sh", "-c", &failing]).refuses(30, "no_valid_trial");
    assert!(failed.stderr.contains("warm-up run 1 of 1 ended with exit code 3; last on stderr: broken"), "{}", failed.stderr);
    assert!(failed.stderr.contains("does the command succeed by itself?"), "{}", failed.stderr);
    assert_eq!(fs::read_to_string(&count).expect("it ran").lines().count(), 1, "it is not run again and again");

    let killed = exec(&fixture, &["--", "sh", "-c", "kill -KILL $$"]).refuses(30, "no_valid_trial");
    assert!(killed.stderr.contains("ended with signal 9 (SIGKILL)"), "{}", killed.stderr);
    let endless = exec(&fixture, &["--timeout", "500ms", "--", "tail", "-f", "/dev/null"]).refuses(30, "no_valid_trial");
    assert!(endless.stderr.contains("ran into its time limit and was stopped"), "{}", endless.stderr);
    let printing = exec(&fixture, &["--", "yes"]).refuses(30, "no_valid_trial");
    assert!(printing.stderr.contains("printed more than 64 MiB"), "{}", printing.stderr);
    let left = exec(&fixture, &["--", "sh", "-c", "tail -f /dev/null & exit 0"]).refuses(30, "no_valid_trial");
    assert!(left.stderr.contains("left 1 of its processes running"), "{}", left.stderr);
    assert_eq!(fixture.leftovers(), [""; 0]);
    // Without a warm-up run, each measured run fails by itself.
    let measured = exec(&fixture, &["--warmup", "0", "--runs", "2", "--", "false"]).refuses(30, "no_valid_trial");
    assert!(
        measured.stderr.contains("the program ended with exit code 1") && !measured.stderr.contains("warm-up"),
        "{}",
        measured.stderr
    );
}

#[test]
fn a_command_is_stopped_by_ctrl_c() {
    let fixture = Fixture::bare();
    let started = fixture.root().join("started");
    let script = format!("touch {}; exec tail -f /dev/null", started.display());
    let running = fixture.spawn(&["exec", "--run-id", "one", "--", "sh", "-c", &script]);
    wait_until("the command runs", || started.exists());
    running.signal(Signal::INT);
    running.finish().refuses(50, "cancelled");
    assert_eq!(fixture.leftovers(), [""; 0]);
}

#[test]
fn a_stage_that_a_signal_stops_is_said_and_continues() {
    let fixture = Fixture::bare();
    let said = fixture.root().join("stderr");
    let mut command = fixture.command(&binary("assay"));
    // The measured program stops the stage that started it, once.
    let script = format!("test -e {0} || {{ touch {0}; kill -STOP $PPID; }}", fixture.root().join("stopped").display());
    command.args(["exec", "--warmup", "0", "--runs", "1", "--run-id", "one", "--", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&said).expect("a file"));
    let mut running = command.spawn().expect("it runs");
    let note = || fs::read_to_string(&said).expect("text");
    wait_until("the stop is said", || note().contains("a signal has stopped execute"));
    let hint = note();
    let pid = hint.split("`kill -CONT ").nth(1).and_then(|rest| rest.split('`').next()?.parse().ok()).and_then(Pid::from_raw);
    kill_process(pid.expect("the hint names a process"), Signal::CONT).expect("it is still there");
    assert!(running.wait().expect("it ends").success(), "{}", note());
    assert_eq!(note().matches("a signal has stopped").count(), 1, "{}", note());
    // The stage saw the end of that program when it was continued, so the attempt does not count.
    let reasons: Vec<Vec<String>> = attempts(&fixture, "one")
        .iter()
        .map(|attempt| list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"]).to_owned()).collect())
        .collect();
    assert_eq!(reasons, [vec!["stage_stopped".to_owned()], Vec::new()]);
    let other = exec(&fixture, &["--runs", "1", "--run-id", "two", "--", "true"]).success();
    assert!(!other.stderr.contains("stopped"), "{}", other.stderr);
}

#[test]
fn stdin_that_is_not_passed_on_is_said() {
    let fixture = Fixture::bare();
    fixture.write("input", "some text\n");
    let mut command = fixture.command(&binary("assay"));
    let input = fs::File::open(fixture.repo().join("input")).expect("a file");
    command.args(["exec", "--runs", "1", "--run-id", "one", "--", "cat"]).stdin(Stdio::from(input));
    let ran = CommandResult::from_output(command.output().expect("it runs")).success();
    assert!(ran.stderr.contains("stdin is not passed on"), "{}", ran.stderr);
    assert_eq!(stdout_of(&fixture, &attempts(&fixture, "one")[0]), "");
}

#[test]
fn the_environment_is_what_is_named() {
    let mut fixture = Fixture::bare();
    fixture.set("TEST_PASSED", "through");
    fixture.set("TEST_TOKEN", "a-secret-value");
    let script = "echo $TEST_PASSED $SET ${TEST_OTHER-none}";
    let env = ["--env", "TEST_PASSED", "--env", "SET=b=c"];
    exec(&fixture, &[&["--runs", "1", "--run-id", "one"], &env[..], &["--", "sh", "-c", script]].concat()).success();
    assert_eq!(stdout_of(&fixture, &attempts(&fixture, "one")[0]), "through b=c none\n");
    exec(&fixture, &["--runs", "1", "--run-id", "two", "--env", "TEST_TOKEN", "--", "sh", "-c", "test -n \"$TEST_TOKEN\""])
        .success();
    let plan = fixture.manifest("two", "plan").to_string();
    assert!(plan.contains("TEST_TOKEN") && !plan.contains("a-secret-value"), "{plan}");
    exec(&fixture, &["--env", "ABSENT", "--", "true"]).refuses(2, "option");
}

#[test]
fn a_credential_in_a_command_is_never_written() {
    let fixture = Fixture::bare();
    for words in [
        &["echo", "--password", "canary-4f2b"][..],
        &["curl", "-H", "Authorization: Bearer canary-4f2b"],
        &["echo", "API_KEY=canary-4f2b"],
        &["echo", "--auth-header", "canary-4f2b"],
        &["echo", "--session-id", "canary-4f2b"],
        &["docker", "login", "-u", "me", "-p", "canary-4f2b"],
        &["echo", "--login", "a:canary-4f2b"],
        &["sh", "-c", "docker login -p canary-4f2b; echo --session-id=canary-4f2b"],
    ] {
        let text = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        for arguments in [
            [&["--"], words].concat(),
            [&["--print", "--"], words].concat(),
            [&["--json", "--"], words].concat(),
            vec!["--baseline", text.as_str(), "--", "echo"],
        ] {
            let refused = exec(&fixture, &arguments).refuses(2, "option");
            let said = &refused.stderr;
            assert!(said.contains("looks like a credential") && said.contains("--env NAME"), "{said}");
            assert!(!refused.stderr.contains("canary") && !refused.stdout.contains("canary"), "{refused:?}");
        }
    }
    assert!(!fixture.store().join("runs").exists(), "nothing ran");
    assert_eq!(files_with(&fixture.root(), "canary"), [""; 0]);
}

/// A variable is how a credential is passed: the program has its value, and no file that is written.
#[test]
fn a_credential_in_a_variable_is_in_no_file() {
    let mut fixture = Fixture::bare();
    for name in ["API_TOKEN", "SESSION_ID", "PLACE"] {
        fixture.set(name, "Bearer canary-4f2b");
    }
    let script = "test -n \"$API_TOKEN\" && test -n \"$SESSION_ID\" && test -n \"$PLACE\"";
    let env = ["--env", "API_TOKEN", "--env", "SESSION_ID", "--env", "PLACE"];
    exec(&fixture, &[&["--runs", "2", "--run-id", "one"], &env[..], &["--", "sh", "-c", script]].concat()).success();
    assert!(!files_with(&fixture.root(), "SESSION_ID").is_empty(), "its name is recorded");
    assert_eq!(files_with(&fixture.root(), "canary-4f2b"), [""; 0]);
}

/// Options that look alike, and hold no credential.
#[test]
fn ordinary_options_are_no_credentials() {
    let fixture = Fixture::bare();
    for words in [
        &["echo", "-p", "8080"][..],
        &["mkdir", "-p", "x"],
        &["cp", "-p", "a", "b"],
        &["nc", "-p", "80", "h"],
        &["python3", "-c", "print(1)"],
        &["docker", "run", "-p", "8080:80", "-u", "1000:1000", "image"],
        &["rsync", "-a", "host:folder", "."],
        &["echo", "--auth-type", "basic", "--session-timeout", "5s", "--login", "me"],
    ] {
        exec(&fixture, &[&["--print", "--"], words].concat()).success();
    }
}

/// The printed definitions are what is run: a repository with them gives the same cases.
#[test]
fn the_definitions_are_printed() {
    let fixture = Fixture::bare();
    let printed = exec(&fixture, &["--baseline", "sh -c true", "--print", "--", "sh", "-c", "exit 0"]).success().stdout;
    let mut files = Vec::new();
    for part in printed.split("---\n# ").skip(1) {
        let (path, content) = part.split_once('\n').expect("a path and a content");
        fixture.write(path, content);
        files.push(path.to_owned());
    }
    assert_eq!(files, ["pipelines/exec.yaml", "workloads/sh/workload.yaml"]);
    let planned = fixture.assay(&["plan", "pipelines/exec.yaml"]).success().stdout;
    assert!(planned.contains("sh.baseline.default") || planned.contains("baseline"), "{planned}");
    assert!(!fixture.store().join("runs").exists(), "nothing ran");
}
