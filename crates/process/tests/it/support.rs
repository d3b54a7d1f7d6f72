//! Helpers that run every test alone in a process of its own, because parents, open descriptors and signal handlers belong to a
//! process and not to a thread.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::time::Duration;

use assay_process::{Cancel, Child, ChildExit, Command, Output, Spawner, become_reaper};

/// The variable that names the test that this process runs alone.
const ALONE: &str = "ASSAY_TEST_ALONE";
/// The variable that marks every process of a test, so that leftovers can be found.
const MARK: &str = "ASSAY_TEST_MARK";
/// The time limit of a test, longer than any takes: a test that hangs fails after it.
const LIMIT: Duration = Duration::from_mins(1);

/// Runs `body` in a process that runs nothing else and is a reaper, and then checks that no process is left.
pub(crate) fn run_alone(test: &str, body: impl FnOnce()) {
    run_alone_without_reaper(test, || {
        become_reaper().expect("a reaper");
        body();
    });
}

/// Runs `body` in a process that is no reaper, in which a killed orphan may still be ending: for bodies that await its end.
pub(crate) fn run_alone_without_reaper(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some_and(|name| name == test) {
        return body();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mark = format!("{test}-{}", std::process::id());
    let command = this_test(test).env(ALONE, test).env(MARK, &mark);
    let command = Command { stdout: Output::File(log.clone()), stderr: Output::File(log.clone()), ..command };
    let ended = spawner().spawn(command).expect("this program starts").wait(Some(LIMIT), &never_cancelled()).expect("it ends");
    let log = fs::read_to_string(log).expect("a log");
    assert!(ended.status.is_success(), "{ended:?}\n{log}");
    assert!(log.contains("1 passed"), "the test did not run:\n{log}");
    assert_eq!(count_marked(&mark), 0, "processes are left");
}

/// Returns the command that runs this test program with one test.
pub(crate) fn this_test(test: &str) -> Command {
    // Tests may have been started under `nohup`, which would let them ignore the signals that they are about.
    let program = std::env::current_exe().expect("a path").display().to_string();
    let arguments = [&program, test, "--exact", "--nocapture", "--test-threads=1"];
    Command::new("/usr/bin/env").args(["--default-signal=HUP,INT"]).args(arguments).inherit_env()
}

pub(crate) fn spawner() -> Spawner {
    Spawner::start().expect("a thread")
}

pub(crate) fn never_cancelled() -> Cancel {
    Cancel::new().expect("an eventfd")
}

/// Returns a shell script, marked, with its output on a pipe.
pub(crate) fn sh(script: &str) -> Command {
    let command = Command::new("/bin/sh").args(["-c", script]).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let mark = std::env::var_os(MARK).expect("the test runs alone");
    Command { stdout: Output::Pipe, ..command.env(MARK, mark) }
}

/// Starts a child and waits until it prints `ready`; returns the child, and the rest of its output.
pub(crate) fn start_until_ready(command: Command) -> (Child, BufReader<File>) {
    let mut child = spawner().spawn(command).expect("it starts");
    let mut output = BufReader::new(child.take_stdout().expect("a pipe"));
    let mut line = String::new();
    // The test harness of a role may have written the beginning of the line.
    while !line.ends_with("ready\n") {
        line.clear();
        assert!(output.read_line(&mut line).expect("a pipe reads") > 0, "the child ended before it was ready");
    }
    (child, output)
}

/// Reads to the end: until no process holds the other end of the pipe.
pub(crate) fn read_rest(mut output: impl std::io::Read) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).expect("a pipe reads");
    text
}

/// Runs a script to its end; returns its output and its exit.
pub(crate) fn run(command: Command) -> (String, ChildExit) {
    let mut child = spawner().spawn(command).expect("it starts");
    let output = child.take_stdout().map(read_rest).unwrap_or_default();
    (output, child.wait(None, &never_cancelled()).expect("it ends"))
}

/// Returns the number of running processes with this test's mark, without this one.
pub(crate) fn count_others() -> usize {
    count_marked(&std::env::var(MARK).expect("the test runs alone")) - 1
}

fn count_marked(mark: &str) -> usize {
    let mark = format!("{MARK}={mark}");
    // By number only: `self` and `thread-self` would count this process again.
    let by_number = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().is_ok();
    let processes = fs::read_dir("/proc").expect("a /proc").flatten().filter(by_number);
    let environments = processes.filter_map(|process| fs::read(process.path().join("environ")).ok());
    environments.filter(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())).count()
}

/// Returns the number of open descriptors of this process.
pub(crate) fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("a /proc").count()
}

/// Returns the text of a file.
pub(crate) fn contents(path: &std::path::Path) -> String {
    let mut text = String::new();
    File::open(path).expect("the file is there").read_to_string(&mut text).expect("it reads");
    text
}
