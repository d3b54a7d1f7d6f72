//! Stages as child processes of this machine.
//!
//! Between this process and each stage stands a small supervisor, which ends everything below it when the stage has ended or this
//! process has gone: a killed `assay` leaves nothing running.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use assay_manifest::{Digest, InputRef, Role};
use assay_process::{Cancel, Child, Command, Ended, FdThree, Output, Signal, Spawner, Status, pipe_holding};
use assay_stage::{Event, Exit, Failure, HoldRequest, StageName};

use crate::{KeyRing, Runner, StageCall};

/// How long a stage may take to end after it was told to: longer than it gives to what it measures.
const STAGE_GRACE: Duration = Duration::from_secs(15);

/// How long the supervisor may take: longer than it gives to the stage.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(30);

/// How long the recorder may take to its first reading.
const RECORDER_START: Duration = Duration::from_secs(60);

/// The longest event: a line of a stage's standard output.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// The variable that holds the password of private keys: no stage needs it, because its key comes unlocked.
const PASSWORD_VARIABLE: &str = "COSIGN_PASSWORD";

/// Runs stages as child processes.
pub struct LocalRunner {
    spawner: Spawner,
    binaries: PathBuf,
    store: String,
    trust: Digest,
    keys: KeyRing,
    logs: PathBuf,
    scratch: Option<PathBuf>,
    cancel: Cancel,
    recorder: Mutex<Option<Process>>,
    held: Mutex<Vec<Process>>,
}

impl LocalRunner {
    /// A runner that finds the stages' binaries in `binaries` and writes their logs into `logs`.
    pub fn new(
        binaries: PathBuf,
        store: String,
        trust: Digest,
        keys: KeyRing,
        logs: PathBuf,
        scratch: Option<PathBuf>,
        cancel: Cancel,
    ) -> Result<Self, Failure> {
        let spawner =
            Spawner::start().map_err(|error| Failure::environment("spawner", "cannot start a thread").because(&error))?;
        std::fs::create_dir_all(&logs)
            .map_err(|error| Failure::environment("logs", format!("cannot make `{}`", logs.display())).because(&error))?;
        let (recorder, held) = (Mutex::default(), Mutex::default());
        Ok(Self { spawner, binaries, store, trust, keys, logs, scratch, cancel, recorder, held })
    }

    /// The log of a call.
    pub fn log_of(&self, stage: StageName, label: &str) -> PathBuf {
        let name = if label.is_empty() { stage.to_string() } else { format!("{stage}-{label}") };
        self.logs.join(format!("{name}.log"))
    }

    fn start_stage(&self, call: &StageCall, cancel: Cancel) -> Result<Process, Failure> {
        let mut arguments: Vec<String> = Vec::new();
        if call.stage == StageName::Record {
            arguments.push("record".to_owned());
        }
        arguments.extend(["--store", &self.store, "--run", call.run_id.as_str()].map(str::to_owned));
        arguments.extend(["--trust".to_owned(), self.trust.to_string(), "--key-fd".to_owned(), "3".to_owned()]);
        arguments.extend(["--parameters".to_owned(), call.parameters.to_string()]);
        arguments.extend(["--shard".to_owned(), format!("{}/{}", call.shard.index, call.shard.count)]);
        if let Some(scratch) = &self.scratch {
            arguments.extend(["--scratch".to_owned(), scratch.display().to_string()]);
        }
        for input in &call.inputs {
            arguments.extend(["--input".to_owned(), format!("{},{}", input.manifest, input.bundle)]);
        }
        let binary = self.binary(call.stage.role())?;
        let mut command = self.supervised(&binary, arguments)?.inherit_env();
        command.env.remove(std::ffi::OsStr::new(PASSWORD_VARIABLE));
        let key = pipe_holding(self.keys.unlocked(call.stage.role())?).map_err(|error| process(&error))?;
        command.fd_three = FdThree::Passed(key);
        command.stdout = Output::Pipe;
        let log = self.log_of(call.stage, &call.label);
        command.stderr = Output::File(log.clone());
        Process::start(&self.spawner, command, call.policy.timeout, cancel, Some(log))
    }

    /// The command that runs `program` under a supervisor.
    fn supervised(&self, program: &Path, arguments: Vec<String>) -> Result<Command, Failure> {
        let this = std::env::current_exe()
            .map_err(|error| Failure::environment("binaries", "cannot find the running program").because(&error))?;
        let supervisor = this.parent().map(|folder| folder.join("assay")).filter(|path| path.is_file()).unwrap_or(this);
        let mut command = Command::new(supervisor).args([
            "supervise".to_owned(),
            "--parent".to_owned(),
            std::process::id().to_string(),
            "--grace-seconds".to_owned(),
            STAGE_GRACE.as_secs().to_string(),
            "--".to_owned(),
            program.display().to_string(),
        ]);
        command = command.args(arguments);
        command.grace = SUPERVISOR_GRACE;
        command.death_signal = Signal::TERM;
        Ok(command)
    }

    fn binary(&self, role: Role) -> Result<PathBuf, Failure> {
        let path = self.binaries.join(format!("assay-{role}"));
        if path.is_file() {
            return Ok(path);
        }
        Err(Failure::environment("binary_missing", format!("the stage's binary `{}` is not there", path.display()))
            .hint("the six stage binaries lie beside `assay`; build them all with `cargo build`"))
    }

    fn hold(&self, request: &HoldRequest) -> Result<(), Failure> {
        let Some((program, arguments)) = request.command.split_first() else {
            return Err(Failure::definition("target_command", format!("target `{}` has an empty command", request.target)));
        };
        let mut command = self.supervised(Path::new(program), arguments.to_vec())?;
        for (name, value) in held_environment(request)? {
            command = command.env(name, value);
        }
        let log = self.logs.join(format!("target-{}.log", request.target));
        command.stdout = Output::File(log.clone());
        command.stderr = Output::File(log.clone());
        let cancel = new_cancel()?;
        let process = Process::start(&self.spawner, command, None, cancel, Some(log))?;
        lock(&self.held).push(process);
        Ok(())
    }
}

/// What a held target sees: a short list of harmless variables, and what its definition names.
fn held_environment(request: &HoldRequest) -> Result<BTreeMap<String, std::ffi::OsString>, Failure> {
    let passed = ["PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"];
    let mut env: BTreeMap<_, _> = passed.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?))).collect();
    env.extend(request.env.iter().map(|(name, value)| (name.clone(), value.into())));
    for (name, from) in &request.env_from {
        let value = std::env::var_os(from).ok_or_else(|| absent(request, name, &format!("the environment variable `{from}`")))?;
        env.insert(name.clone(), value);
    }
    for (name, path) in &request.env_files {
        let value = std::fs::read_to_string(path)
            .map_err(|error| absent(request, name, &format!("the file `{path}`")).because(&error))?;
        env.insert(name.clone(), value.trim_end_matches('\n').into());
    }
    Ok(env)
}

fn absent(request: &HoldRequest, name: &str, what: &str) -> Failure {
    Failure::environment(
        "secret_absent",
        format!("`{name}` of target `{}` comes from {what}, which cannot be read", request.target),
    )
}

impl Runner for LocalRunner {
    fn run(&self, call: &StageCall, observe: &mut dyn FnMut(&Event)) -> Result<InputRef, Failure> {
        let process = self.start_stage(call, self.cancel.clone())?;
        let mut held = Ok(());
        let outcome = process.finish(&mut |event| {
            if let (Event::Hold(request), Ok(())) = (event, &held) {
                held = self.hold(request);
            }
            observe(event);
        });
        held?;
        outcome
    }

    fn start_recorder(&self, call: &StageCall) -> Result<(), Failure> {
        let process = self.start_stage(call, new_cancel()?)?;
        match process.events.recv_timeout(RECORDER_START) {
            Ok(Event::Failed(failure)) => Err(failure),
            Ok(_) => {
                *lock(&self.recorder) = Some(process);
                Ok(())
            }
            Err(_) => Err(process.finish(&mut |_| {}).err().unwrap_or_else(|| {
                Failure::environment("recorder", format!("the recorder did not start within {RECORDER_START:?}"))
            })),
        }
    }

    fn stop_recorder(&self) -> Option<Failure> {
        let recorder = lock(&self.recorder).take()?;
        recorder.cancel.cancel("the stage that it records has ended");
        recorder.finish(&mut |_| {}).err()
    }

    fn release(&self) {
        for target in lock(&self.held).drain(..) {
            target.cancel.cancel("the run needs the target no longer");
            if let Err(failure) = target.join() {
                tracing::warn!(%failure, "a target did not end in order");
            }
        }
    }
}

impl Drop for LocalRunner {
    fn drop(&mut self) {
        if let Some(failure) = self.stop_recorder() {
            tracing::debug!(%failure, "the recorder did not end in order");
        }
        self.release();
    }
}

/// A poisoned lock only says that another thread panicked while it held the list, which is still a list.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn new_cancel() -> Result<Cancel, Failure> {
    Cancel::new().map_err(|error| Failure::environment("descriptors", "no file descriptor is left").because(&error))
}

fn process(error: &assay_process::Error) -> Failure {
    Failure::of(Exit::Environment, "process", error)
}

/// A supervised child, its events, and the thread that waits for it.
struct Process {
    events: Receiver<Event>,
    cancel: Cancel,
    waiter: JoinHandle<Result<Ended, assay_process::Error>>,
    log: Option<PathBuf>,
}

impl Process {
    fn start(
        spawner: &Spawner,
        command: Command,
        limit: Option<Duration>,
        cancel: Cancel,
        log: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let mut child = spawner.spawn(command).map_err(|error| process(&error))?;
        let events = read_events(&mut child);
        let waiting = cancel.clone();
        let waiter = std::thread::spawn(move || child.wait(limit, &waiting));
        Ok(Self { events, cancel, waiter, log })
    }

    fn join(self) -> Result<Ended, Failure> {
        let ended =
            self.waiter.join().map_err(|_| Failure::unexpected("waiter", "the thread that waits for a child panicked"))?;
        ended.map_err(|error| process(&error))
    }

    /// Watches the stage to its end, and gives the result that it had accepted.
    fn finish(self, observe: &mut dyn FnMut(&Event)) -> Result<InputRef, Failure> {
        let (mut accepted, mut failed) = (None, None);
        for event in &self.events {
            observe(&event);
            match event {
                Event::Accepted { result, .. } => accepted = Some(result),
                Event::Failed(failure) => failed = Some(failure),
                _ => {}
            }
        }
        let (log, stopped) = (self.log.clone(), self.cancel.clone());
        let ended = self.join()?;
        match (accepted, failed) {
            (Some(result), _) if ended.status.is_success() => Ok(result),
            (_, Some(failure)) => Err(failure),
            _ => Err(without_a_word(&ended, &stopped, log.as_deref())),
        }
    }
}

/// The failure of a process that could not say itself what went wrong.
fn without_a_word(ended: &Ended, stopped: &Cancel, log: Option<&Path>) -> Failure {
    let failure = match ended {
        Ended { timed_out: true, .. } => {
            Failure::environment("stage_timeout", "the stage ran into its time limit and was stopped")
        }
        _ if stopped.is_cancelled() => Failure::cancelled(stopped.reason().unwrap_or("stopped").to_owned()),
        Ended { status: Status::Exited(code), .. } if *code > 128 => {
            Failure::environment("stage_killed", format!("the stage was ended by signal {}", code - 128))
        }
        Ended { status: Status::Signaled(signal), .. } => {
            Failure::environment("stage_killed", format!("the stage's supervisor was ended by signal {signal}"))
        }
        Ended { status: Status::Exited(code), .. } => {
            Failure::new(Exit::from_code(*code), "stage_failed", format!("the stage ended with exit code {code} and no result"))
        }
    };
    match log.map(|log| (log, crate::log::tail(log, 5))) {
        Some((log, tail)) if !tail.is_empty() => failure.hint(format!("the end of its log, `{}`:\n{tail}", log.display())),
        Some((log, _)) => failure.hint(format!("its log, `{}`, is empty", log.display())),
        None => failure,
    }
}

/// Reads a child's events in a thread of its own, so that its standard output never blocks it.
fn read_events(child: &mut Child) -> Receiver<Event> {
    let (sender, events) = channel();
    if let Some(stdout) = child.take_stdout() {
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout);
            let mut line = Vec::new();
            while next_line(&mut lines, &mut line).is_some() {
                match serde_json::from_slice(&line) {
                    Ok(event) => {
                        if sender.send(event).is_err() {
                            break;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "a stage printed something that is no event"),
                }
            }
        });
    }
    events
}

/// The next line without its end; a line beyond the limit is cut.
fn next_line(lines: &mut impl std::io::BufRead, line: &mut Vec<u8>) -> Option<()> {
    line.clear();
    let mut limited = std::io::Read::take(&mut *lines, MAX_EVENT_BYTES as u64);
    let read = limited.read_until(b'\n', line).ok()?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    (read > 0).then_some(())
}
