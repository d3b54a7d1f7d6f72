//! A hundred kills and more, of stages, supervisors, scripts, targets and `assay` itself; each run is resumed to its end: no trial is
//! lost or doubled, no run succeeds with planned work missing, and no process is left running. Runs are of indicators, or of
//! indicators and serving on a simulator and on a process target, in a folder or in a served store.
//!
//! The victims and the moments come from a seed. `ASSAY_TEST_KILLS` sets the number of kills of each test. A moment is an event and not a time ("the reducer runs", "the fourth trial has
//! begun"), plus a short random delay, so that the kills fall everywhere between two events. `ASSAY_TEST_SEED` repeats a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use assay_manifest::{Attempt, AttemptStatus, Body, Collection, ExecutionPart, Plan};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::serving::{self, MODEL, SIMULATOR};
use crate::stores::{Gateway, ServedStore};
use crate::support::{Fixture, PIPELINE, binary, blob, files_under, indicator_output, script};

/// The kills of one of the four tests of indicators, which share the hundred kills so that they run in parallel.
const KILLS_OF_A_TEST: usize = 25;

/// The kills of the test with targets.
const KILLS_WITH_TARGETS: usize = 15;

/// The kills that one run has to survive.
const KILLS_OF_A_RUN: usize = 5;

/// The most times that a run may be started until it is finished: once for every kill, once without, and room for a second failure
/// of a stage whose retries are spent.
const MAX_SESSIONS: usize = 2 * KILLS_OF_A_RUN + 2;

/// The longest time for a killed process and all its descendants to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// The longest time for one `assay`: far more than a dozen trials of milliseconds take on a busy machine.
const SESSION_LIMIT: Duration = Duration::from_mins(10);

/// The interval at which processes are polled while a test waits for a moment.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The seed if `ASSAY_TEST_SEED` is not set.
const SEED: u64 = 0x0a55_a100;

const RUN: &str = "killed";
const TRIALS_OF_A_WORKLOAD: u32 = 4;

/// The trials of a run with targets: two workloads on the machine, and one on each of two targets.
const TRIALS_WITH_TARGETS: usize = 4 * TRIALS_OF_A_WORKLOAD as usize;

#[test]
fn kills_1_to_25_lose_nothing_and_leave_nothing() {
    println!("{}", kills(0, Work::Indicators, KILLS_OF_A_TEST));
}

#[test]
fn kills_26_to_50_lose_nothing_and_leave_nothing() {
    println!("{}", kills(1, Work::Indicators, KILLS_OF_A_TEST));
}

#[test]
fn kills_51_to_75_lose_nothing_and_leave_nothing() {
    println!("{}", kills(2, Work::Indicators, KILLS_OF_A_TEST));
}

#[test]
fn kills_76_to_100_lose_nothing_and_leave_nothing() {
    println!("{}", kills(3, Work::Indicators, KILLS_OF_A_TEST));
}

#[test]
fn kills_of_targets_lose_nothing_and_leave_nothing() {
    println!("{}", kills(4, Work::Targets, KILLS_WITH_TARGETS));
}

/// The work of the runs of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Scripts on this machine.
    Indicators,
    /// Scripts, and serving on a simulator and on a process target.
    Targets,
}

/// Kills in one run after another, until enough kills have hit.
fn kills(quarter: u64, work: Work, enough: usize) -> Tally {
    let enough = std::env::var("ASSAY_TEST_KILLS").map_or(enough, |kills| kills.parse().expect("ASSAY_TEST_KILLS is a number"));
    let seed = std::env::var("ASSAY_TEST_SEED").map_or(SEED, |seed| seed.parse().expect("ASSAY_TEST_SEED is a number"));
    let mut tally = Tally { seed, ..Tally::default() };
    while tally.hits() < enough || (work == Work::Targets && tally.hits_of(Victim::Target) < enough / 4) {
        assert!(tally.runs < 2 * enough as u64, "kills hardly ever hit: {tally}");
        let story = RunLog { seed, quarter, run: tally.runs, lines: Vec::new() };
        one_run(story, work, &mut tally);
        tally.runs += 1;
    }
    tally
}

/// Starts a run, kills in it, resumes it until it is finished, and checks its results.
fn one_run(mut story: RunLog, work: Work, tally: &mut Tally) {
    let mut dice = Dice::new(story.seed ^ (story.quarter << 32) ^ (story.run << 40));
    let mut fixture = fixture(work);
    let remote = RemoteStore::start(work, story.run, &mut fixture);
    let store = remote.as_ref().map(RemoteStore::uri);
    let mut kills = Kill::draw(&mut dice, work).into_iter();
    let mut failed = 0;
    for started in 0.. {
        assert!(started < MAX_SESSIONS, "the run does not come to its end");
        let (hits, code) = session(&fixture, store.as_deref(), &mut kills, &mut story);
        story.push(format!("`assay run` ended with {code}"));
        check_code(&hits, code);
        for hit in hits {
            tally.count(hit);
        }
        failed += usize::from(code == 30);
        // Half of the resumes start at once, while killed processes may still be exiting.
        if code == 0 || dice.below(2) == 0 {
            assert_nothing_runs(&fixture);
        }
        if code == 0 {
            break;
        }
    }
    if let Some(store) = &store {
        fixture.assay(&["fetch", RUN, "--store", store]).success();
    }
    match work {
        Work::Indicators => check_run(&fixture, failed),
        Work::Targets => check_trials(&fixture, TRIALS_WITH_TARGETS),
    }
    let levels: &[&str] = if story.run == 0 { &["verify", RUN, "--recompute"] } else { &["verify", RUN] };
    let reached = if story.run == 0 { "level 4" } else { "level 3" };
    let verified = fixture.assay(levels).success();
    assert!(verified.stdout.contains(&format!("{reached} ")), "{}", verified.stdout);
}

/// A store that is reached over a network.
enum RemoteStore {
    /// Assay's own server.
    Served(ServedStore),
    /// The S3 server of another project.
    Other(Gateway),
}

impl RemoteStore {
    /// Starts the store of a run, and lets the fixture reach it. Runs with targets are in turn in a folder, in a store that Assay
    /// serves, and on the other server, where there is one.
    fn start(work: Work, run: u64, fixture: &mut Fixture) -> Option<Self> {
        if work == Work::Indicators || run.is_multiple_of(3) {
            return None;
        }
        if run % 3 == 2
            && let Some(gateway) = Gateway::start(true)
        {
            Gateway::set_credentials(fixture);
            return Some(Self::Other(gateway));
        }
        let served = ServedStore::start();
        served.set_credentials(fixture, "run");
        Some(Self::Served(served))
    }

    fn uri(&self) -> String {
        match self {
            Self::Served(served) => served.uri(),
            Self::Other(gateway) => gateway.uri(),
        }
    }
}

/// Runs one `assay` from its start to its end; returns the kills that hit, and its exit code.
fn session(
    fixture: &Fixture,
    store: Option<&str>,
    kills: &mut impl Iterator<Item = Kill>,
    story: &mut RunLog,
) -> (Vec<Kill>, i32) {
    let mut session = Session::start(fixture, store);
    let mut hits = Vec::new();
    while !session.has_ended()
        && let Some(kill) = kills.next()
    {
        let hit = session.strike(&kill);
        story.push(format!("{kill}: {}", if hit { "hit" } else { "came too late" }));
        hits.extend(hit.then_some(kill));
    }
    let code = session.finish();
    if code != 137 {
        // A process that is killed at the very end may have exited by itself.
        hits.retain(|hit| hit.victim != Victim::Assay);
    }
    if code != 0 && code != 137 {
        story.push(session.output.join("\n"));
    }
    (hits, code)
}

/// Checks the exit code of `assay` after these kills: 137 if it was killed itself, 0 if a retry recovers, and 30 otherwise.
#[track_caller]
fn check_code(hits: &[Kill], code: i32) {
    let mends = hits.iter().all(|hit| {
        // The recorder is started once: if it exits before it records, the stage fails; later, there is a gap.
        // A target that dies as often as a block has incarnations ends the run.
        let is_target = hit.victim == Victim::Target;
        hit.victim == Victim::Script
            || !is_target && hit.at != Step::Record && hits.iter().filter(|other| other.at == hit.at).count() == 1
    });
    if hits.iter().any(|hit| hit.victim == Victim::Assay) {
        assert_eq!(code, 137, "`assay` was killed");
    } else if mends {
        assert_eq!(code, 0, "one kill of a stage is mended by its retry");
    } else {
        assert!(code == 0 || code == 30, "a failure that is worth a retry, not {code}");
    }
}

/// Asserts that no process of the fixture is running after a short wait.
#[track_caller]
fn assert_nothing_runs(fixture: &Fixture) {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        match fixture.leftovers() {
            left if left.is_empty() => return,
            left => assert!(Instant::now() < deadline, "still running after {GONE_WITHIN:?}:\n{}", left.join("\n")),
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Creates three workloads of a dozen trials together. Each script writes its attempt to a file outside of all folders that Assay
/// keeps.
fn fixture(work: Work) -> Fixture {
    let fixture = Fixture::bare();
    let log = fixture.root().join("invocations");
    let says = format!(r#"echo "${{HOME##*/trial-}}" >> '{}'"#, log.display());
    let says_result = |name: &str| format!("echo '{}'", indicator_output(name, "[1.5, 2.5]"));
    let workloads = [
        ("plain", String::new()),
        ("waits", "sleep 0.02".to_owned()),
        ("leaves", "sleep 1000 > /dev/null 2>&1 &\nsleep 0.02".to_owned()),
    ];
    for (name, body) in &workloads {
        fixture.indicator(name, &script(&[says.as_str(), body, &says_result(name)].join("\n")), "");
    }
    let names = workloads.map(|(name, _)| name).join(", ");
    if work == Work::Targets {
        // The port is free again once the listener is dropped; among thousands, another process hardly takes this one meanwhile.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let process = format!(
            "{{name: own, kind: process, url: 'http://127.0.0.1:{port}', ready: {{http: /health, timeout: 60s}}, \
             command: ['{}', --listen, '127.0.0.1:{port}', --model, {MODEL}, --profile, fast]}}",
            binary("assay-simulator").display()
        );
        serving::workload(&fixture, "chat", "mode: closed, concurrency: [2], requests: 20", "D(20,10)", "");
        let targets = ["{name: local, kind: host}", SIMULATOR, &process];
        let work = ["plain", "waits", "chat"];
        fixture.write(PIPELINE, &serving::pipeline(&work, &targets, TRIALS_OF_A_WORKLOAD, 100, ""));
        fixture.commit("a dozen trials and more");
        return fixture;
    }
    fixture.write(
        PIPELINE,
        &format!(
            "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: fixture}}
spec:
  intent: exploratory
  workloads: [{names}]
  targets:
    - {{name: local, kind: host}}
  trials: {{count: {TRIALS_OF_A_WORKLOAD}, retry_budget: 100}}
"
        ),
    );
    fixture.commit("a dozen trials");
    fixture
}

/// Checks that every planned trial counts once, and that the records of its attempts are true.
#[track_caller]
fn check_run(fixture: &Fixture, failed: usize) {
    let [part, collection] = ["execute", "collect"].map(|stage| fixture.manifest(RUN, stage));
    let (part, collection): (ExecutionPart, Collection) = (body(&part), body(&collection));
    for stage in ["provision", "reduce", "publish"] {
        // A stage whose inputs never changed has one result; `pointer` asserts that.
        fixture.pointer(RUN, stage);
    }
    assert_eq!(fixture.pointers(RUN, "ends").len(), failed, "a run that ends before its time says so, once each time");

    check_trials(fixture, 12);
    for trial in &collection.trials {
        let numbers: Vec<_> = trial.attempts.iter().map(|attempt| attempt.attempt).collect();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>(), "the attempts of {}", trial.trial_id);
    }
    check_attempts(fixture, &part);
    assert_eq!(part.attempts.len(), collection.trials.iter().map(|trial| trial.attempts.len()).sum::<usize>());
}

/// Checks that every planned trial is collected once and counts once, and that no result is without it.
#[track_caller]
fn check_trials(fixture: &Fixture, expected: usize) {
    let [plan, collection] = ["plan", "collect"].map(|stage| fixture.manifest(RUN, stage));
    let (plan, collection): (Plan, Collection) = (body(&plan), body(&collection));
    let planned: Vec<_> = plan.trials.iter().map(|trial| &trial.trial_id).collect();
    let collected: Vec<_> = collection.trials.iter().map(|trial| &trial.trial_id).collect();
    assert_eq!(planned.len(), expected);
    assert_eq!(planned, collected, "every planned trial is collected once");
    for trial in &collection.trials {
        assert!(trial.counted, "{} counts", trial.trial_id);
        let counted = trial.attempts.iter().filter(|attempt| attempt.counted).count();
        assert_eq!(counted, 1, "one attempt of {} counts", trial.trial_id);
    }
    assert_eq!(fixture.manifest(RUN, "reduce")["body"]["status"], "succeeded");
}

fn body<B: Body>(manifest: &Value) -> B {
    serde_json::from_value(manifest["body"].clone()).expect("a body of its kind")
}

/// Checks the attempts of the execution part: they are those that were begun; those with a checkpoint are finished, and the others
/// interrupted.
#[track_caller]
fn check_attempts(fixture: &Fixture, part: &ExecutionPart) {
    let attempts: BTreeMap<_, _> = part.attempts.iter().map(|attempt| (name_of(attempt), attempt)).collect();
    assert_eq!(attempts.len(), part.attempts.len(), "no attempt is listed twice");
    let StoredAttempts { begun, finished } = StoredAttempts::read(&fixture.store());
    assert_eq!(attempts.keys().cloned().collect::<BTreeSet<_>>(), begun, "what was begun is listed, and nothing else");

    let invocations = fs::read_to_string(fixture.root().join("invocations")).expect("scripts have run");
    let mut invoked = BTreeMap::new();
    for line in invocations.lines() {
        *invoked.entry(line.to_owned()).or_insert(0) += 1;
    }
    for (name, attempt) in &attempts {
        let times = invoked.get(name).copied().unwrap_or(0);
        if attempt.status == AttemptStatus::Interrupted {
            assert!(!finished.contains(name), "{name} is finished, and not interrupted");
            assert!(!attempt.validity.valid && times <= 1, "{name} was interrupted and ran {times} times");
        } else {
            assert!(finished.contains(name), "{name} has a checkpoint");
            // A script that is killed before its first line writes nothing.
            assert!(times == 1 || times == 0 && !attempt.validity.valid, "{name} ran {times} times");
            for evidence in &attempt.evidence {
                assert!(blob(&fixture.store(), &evidence.digest.to_string()).is_file(), "{name} lost its {}", evidence.name);
            }
        }
    }
    assert!(invoked.keys().all(|name| begun.contains(name)), "no script ran for an attempt that was not begun: {invoked:?}");
}

fn name_of(attempt: &Attempt) -> String {
    format!("{}-{}", attempt.trial_id, attempt.attempt)
}

/// The state that execute's processes left in the store: the attempts that were begun, and those that were finished.
#[derive(Default)]
struct StoredAttempts {
    begun: BTreeSet<String>,
    finished: BTreeSet<String>,
}

impl StoredAttempts {
    fn read(store: &Path) -> Self {
        let mut left = Self::default();
        let folder = store.join("runs").join(RUN).join("execute");
        for path in files_under(&folder) {
            let parts: Vec<_> = path.strip_prefix(&folder).expect("below it").iter().filter_map(|part| part.to_str()).collect();
            // <input digest>/trials/<trial>/<attempt>/<shard>, with `.started` if it is the mark of the start
            let [_, "trials", trial, attempt, shard] = parts[..] else { continue };
            let name = format!("{trial}-{}", attempt.parse::<u32>().expect("a number"));
            let set = if shard.ends_with(".started") { &mut left.begun } else { &mut left.finished };
            assert!(set.insert(name), "{} is there twice", path.display());
        }
        left
    }
}

/// A step of a run in which a kill can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Before the first stage: the Source is read, keys are unlocked.
    Opening,
    Plan,
    Provision,
    Execute,
    Record,
    Collect,
    Reduce,
    Publish,
    /// After the last stage: the published folder is written.
    Export,
}

impl Step {
    /// Execute is drawn more often than the others, because trials can be lost.
    const DRAWN: [Self; 20] = [
        Self::Opening,
        Self::Plan,
        Self::Plan,
        Self::Provision,
        Self::Provision,
        Self::Record,
        Self::Record,
        Self::Execute,
        Self::Execute,
        Self::Execute,
        Self::Execute,
        Self::Execute,
        Self::Execute,
        Self::Collect,
        Self::Collect,
        Self::Reduce,
        Self::Reduce,
        Self::Publish,
        Self::Publish,
        Self::Export,
    ];

    /// Returns the step that a stage binary with this command line carries out.
    fn from_command_line(line: &[String]) -> Option<Self> {
        let program = Path::new(line.first()?).file_name()?.to_str()?;
        Some(match program.strip_prefix("assay-")? {
            "plan" => Self::Plan,
            "provision" => Self::Provision,
            "execute" => Self::Execute,
            "collect" if line.get(1).is_some_and(|word| word == "record") => Self::Record,
            "collect" => Self::Collect,
            "reduce" => Self::Reduce,
            "publish" => Self::Publish,
            _ => return None,
        })
    }

    fn victims(self) -> &'static [Victim] {
        match self {
            Self::Opening | Self::Export => &[Victim::Assay],
            Self::Execute => &[Victim::Assay, Victim::Supervisor, Victim::Stage, Victim::Script],
            _ => &[Victim::Assay, Victim::Supervisor, Victim::Stage],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// The command itself.
    Assay,
    /// The process between it and the stage.
    Supervisor,
    /// The stage's binary.
    Stage,
    /// The process group of the measured script.
    Script,
    /// A simulator, or the program of a process target.
    Target,
}

/// The victim and the moment of a kill.
#[derive(Clone, Copy, Debug)]
struct Kill {
    victim: Victim,
    at: Step,
    /// The number of trials that have begun or ended since the last kill or the start.
    after_trial_events: u64,
    /// The delay after the victim was first seen.
    delay: Duration,
}

impl Kill {
    /// Draws the kills of a run, in the order of its steps, because a past step does not come again.
    fn draw(dice: &mut Dice, work: Work) -> Vec<Self> {
        let mut kills: Vec<_> = (0..KILLS_OF_A_RUN).map(|_| Self::draw_one(dice, work)).collect();
        kills.sort_by_key(|kill| if kill.at == Step::Record { Step::Execute } else { kill.at });
        kills
    }

    fn draw_one(dice: &mut Dice, work: Work) -> Self {
        let is_of_target = work == Work::Targets && dice.below(2) == 0;
        let at = if is_of_target { Step::Execute } else { dice.pick(&Step::DRAWN) };
        let is_measuring = matches!(at, Step::Execute | Step::Record);
        Self {
            victim: if is_of_target { Victim::Target } else { dice.pick(at.victims()) },
            at,
            after_trial_events: if is_measuring { dice.below(8) } else { 0 },
            delay: Duration::from_micros(dice.below(if at == Step::Opening { 400_000 } else { 40_000 })),
        }
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { victim, at, after_trial_events, delay: and_then } = self;
        write!(f, "{victim:?} during {at:?}, {after_trial_events} trial events and {and_then:?} later")
    }
}

/// A running `assay run` and its events.
struct Session {
    child: Child,
    events: Receiver<String>,
    trial_events: u64,
    published: bool,
    output: Vec<String>,
    deadline: Instant,
}

impl Session {
    fn start(fixture: &Fixture, store: Option<&str>) -> Self {
        let mut command = fixture.command(&binary("assay"));
        command.args(["run", PIPELINE, "--run-id", RUN, "--json"]);
        command.args(store.into_iter().flat_map(|store| ["--store", store]));
        command.stdout(File::create(fixture.root().join("result.json")).expect("a file")).stderr(Stdio::piped());
        let mut child = command.spawn().expect("assay starts");
        let (heard, events) = channel();
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| heard.send(line).unwrap_or_default()));
        let deadline = Instant::now() + SESSION_LIMIT;
        Self { child, events, trial_events: 0, published: false, output: Vec::new(), deadline }
    }

    fn has_ended(&mut self) -> bool {
        assert!(Instant::now() < self.deadline, "`assay run` takes longer than {SESSION_LIMIT:?}:\n{}", self.output.join("\n"));
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits at most this long for an event.
    fn listen(&mut self, at_most: Duration) {
        match self.events.recv_timeout(at_most) {
            Ok(line) => {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                self.trial_events += u64::from(event["trial"].is_string());
                self.published |= event["event"] == "accepted" && event["result"]["kind"] == "publication";
                self.output.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(at_most),
        }
    }

    /// Waits for the moment of a kill and kills; returns true if that hit a live process before the session ended.
    fn strike(&mut self, kill: &Kill) -> bool {
        let from = self.trial_events + kill.after_trial_events;
        while !self.has_ended() {
            if self.trial_events >= from && self.find(kill).is_some() {
                let then = Instant::now() + kill.delay;
                while let Some(left) = then.checked_duration_since(Instant::now()) {
                    self.listen(left);
                }
                if self.find(kill).is_some_and(|victim| kill_alive(victim, kill.victim)) {
                    return true;
                }
            }
            self.listen(POLL_INTERVAL);
        }
        false
    }

    /// Returns the victim, if its moment has come.
    fn find(&self, kill: &Kill) -> Option<Pid> {
        let assay = pid(self.child.id());
        match (kill.victim, kill.at) {
            (Victim::Assay, Step::Opening) => Some(assay),
            (Victim::Assay, Step::Export) => self.published.then_some(assay),
            (Victim::Assay, step) => descendants(assay).iter().any(|process| process.is_stage(step)).then_some(assay),
            (Victim::Supervisor, step) => pid_of(assay, |process| process.is_supervisor(step)),
            (Victim::Stage, step) => pid_of(assay, |process| process.is_stage(step)),
            (Victim::Script, _) => pid_of(assay, Process::is_script),
            (Victim::Target, _) => pid_of(assay, Process::is_target),
        }
    }

    fn finish(&mut self) -> i32 {
        while !self.has_ended() {
            self.listen(POLL_INTERVAL);
        }
        let status = self.child.wait().expect("it has ended");
        while let Ok(line) = self.events.recv_timeout(GONE_WITHIN) {
            self.output.push(line);
        }
        status.code().or_else(|| status.signal().map(|signal| 128 + signal)).expect("a code or a signal")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A failing test leaves no process running either.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills a process, or a script with its group; returns true if it was alive.
fn kill_alive(victim: Pid, how: Victim) -> bool {
    // The descriptor refers to this very process, even if its id is reused.
    let Ok(process) = pidfd_open(victim, PidfdFlags::empty()) else { return false };
    is_alive(victim)
        && match how {
            Victim::Script => kill_process_group(victim, Signal::KILL).is_ok(),
            _ => pidfd_send_signal(process, Signal::KILL).is_ok(),
        }
}

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// A process with its command line.
struct Process {
    pid: Pid,
    line: Vec<String>,
}

impl Process {
    fn read(pid: Pid) -> Self {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Self { pid, line: line.split_terminator('\0').map(str::to_owned).collect() }
    }

    fn is_stage(&self, step: Step) -> bool {
        Step::from_command_line(&self.line) == Some(step)
    }

    fn is_supervisor(&self, step: Step) -> bool {
        let program = self.line.iter().position(|word| word == "--").map(|at| &self.line[at + 1..]);
        self.line.get(1).is_some_and(|word| word == "supervise") && program.and_then(Step::from_command_line) == Some(step)
    }

    fn is_target(&self) -> bool {
        self.line.first().is_some_and(|program| program.ends_with("/assay-simulator"))
    }

    fn is_script(&self) -> bool {
        self.line.iter().any(|word| word.ends_with("/script"))
    }
}

fn pid_of(root: Pid, is: impl Fn(&Process) -> bool) -> Option<Pid> {
    descendants(root).iter().find(|process| is(process)).map(|process| process.pid)
}

/// Returns all descendants of a process. Those that start or exit meanwhile may be missing.
fn descendants(root: Pid) -> Vec<Process> {
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(parent) = pending.pop() {
        for task in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).map(pid) {
                found.push(Process::read(child));
                pending.push(child);
            }
        }
    }
    found
}

fn pid(number: u32) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process id")
}

/// A log of the events of a run, printed if the test fails.
struct RunLog {
    seed: u64,
    quarter: u64,
    run: u64,
    lines: Vec<String>,
}

impl RunLog {
    fn push(&mut self, line: String) {
        self.lines.push(line);
    }
}

impl Drop for RunLog {
    #[expect(clippy::print_stderr, reason = "a failing test tells what led to it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, quarter, run, lines } = self;
            eprintln!("ASSAY_TEST_SEED={seed} (test {quarter}, run {run}):\n{}", lines.join("\n"));
        }
    }
}

/// The kills that hit, by victim and step.
#[derive(Default)]
struct Tally {
    seed: u64,
    runs: u64,
    hits: BTreeMap<(Victim, Step), usize>,
}

impl Tally {
    fn count(&mut self, kill: Kill) {
        *self.hits.entry((kill.victim, kill.at)).or_insert(0) += 1;
    }

    fn hits(&self) -> usize {
        self.hits.values().sum()
    }

    fn hits_of(&self, victim: Victim) -> usize {
        self.hits.iter().filter(|((of, _), _)| *of == victim).map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {} kills hit in {} runs", self.seed, self.hits(), self.runs)?;
        self.hits.iter().try_for_each(|((victim, step), count)| write!(f, "\n{count:>4}  {victim:?} during {step:?}"))
    }
}

/// A generator of numbers from a seed: SplitMix64, by Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
/// (2014).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
