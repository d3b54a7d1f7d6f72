//! Stages as child processes of this machine.
//!
//! A small supervisor between this process and each stage ends everything below it when the stage has ended or this process has
//! gone: a killed `assay` leaves nothing running.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use assay_failure::{ErrorCode, Failure};
use assay_manifest::{Digest, InputRef, Plan, Role};
use assay_process::{Cancel, Child, ChildExit, Command, FdThree, Orphans, Output, Signal, Spawner, Status, pipe_with_bytes};
use assay_stage::{Event, HoldRequest, KEY_PASSWORD, Secrets, StageName, read_secret};

use crate::driver::parameters_json;
use crate::{Defect, Error, FileRole, KeyRing, LogEnd, Resource, Result, Runner, SecretOrigin, StageCall, StageEnd};

mod retry;

/// The time limit for a stage to end after it was told to: longer than the stage gives to what it measures.
const STAGE_GRACE: Duration = Duration::from_secs(15);

/// The interval at which it is looked whether a signal has stopped a stage, which then does nothing and says nothing.
const STOPPED_INTERVAL: Duration = Duration::from_secs(5);

/// The time limit for what listens at the address of a target to end: the target of a run that was killed has its supervisor's time to end.
const FREE_LIMIT: Duration = Duration::from_secs(35);

/// The interval at which it is looked whether it has ended.
const FREE_PAUSE: Duration = Duration::from_millis(100);

/// The time limit of a connection to it.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The time limit for the supervisor: longer than it gives to the stage.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(30);

/// The time limit for the recorder's first reading.
const RECORDER_START: Duration = Duration::from_mins(1);

/// The number of lines of a held process's log that are shown if it ends too early.
const TAIL_LINES: usize = 10;

/// Events that may wait for the observer; a stage that reports more is blocked until the observer has caught up.
const WAITING_EVENTS: usize = 1024;

/// The longest event, in bytes: a line of a stage's stdout.
const MAX_EVENT_BYTES: u64 = 1 << 20;

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
    held: Mutex<Vec<(String, Process)>>,
}

impl LocalRunner {
    /// Makes a runner that finds the stages' binaries in `binaries` and writes their logs into `logs`, which is the folder of the run in
    /// the folder of all logs.
    pub fn new(
        binaries: PathBuf,
        store: String,
        trust: Digest,
        keys: KeyRing,
        logs: PathBuf,
        scratch: Option<PathBuf>,
        cancel: Cancel,
    ) -> Result<Self> {
        let spawner = Spawner::start().map_err(|error| Resource::Spawner.error(error))?;
        make_logs_folder(&logs)?;
        let (recorder, held) = (Mutex::default(), Mutex::default());
        Ok(Self { spawner, binaries, store, trust, keys, logs, scratch, cancel, recorder, held })
    }

    /// Returns the log of a call.
    pub fn log_path(&self, stage: StageName, label: &str) -> PathBuf {
        let name = if label.is_empty() { stage.to_string() } else { format!("{stage}-{label}") };
        self.logs.join(format!("{name}.log"))
    }

    fn start_stage(&self, call: &StageCall, cancel: Cancel) -> Result<Process> {
        let arguments = stage_arguments(call, &self.store, self.trust, self.scratch.as_deref())?;
        let binary = self.binary(call.stage.role())?;
        let mut command = supervisor_command(binary.as_os_str(), arguments)?.inherit_env();
        // No stage needs it, because its key is passed unlocked.
        command.env.remove(OsStr::new(KEY_PASSWORD));
        let key = pipe_with_bytes(self.keys.unlocked(call.stage.role())?)?;
        command.fd_three = FdThree::Passed(key);
        command.stdout = Output::Pipe;
        let log = self.log_path(call.stage, &call.label);
        command.stderr = Output::Log(log.clone());
        Process::start(&self.spawner, command, call.policy.timeout, cancel, Some(log))
    }

    fn binary(&self, role: Role) -> Result<PathBuf> {
        let path = self.binaries.join(format!("assay-{role}"));
        if path.is_file() {
            return Ok(path);
        }
        Err(Error::BinaryMissing(path))
    }

    fn hold(&self, request: &HoldRequest, observe: &mut dyn FnMut(&Event)) -> Result<()> {
        let Some((program, arguments)) = request.command.split_first() else {
            return Err(Error::EmptyCommand(request.target.clone()));
        };
        let arguments = arguments.iter().map(OsString::from).collect();
        let mut command = supervisor_command_on(request.cpus.as_deref(), OsStr::new(program), arguments)?;
        let env = held_environment(request)?;
        let secrets = read_secrets(request, &env);
        for (name, value) in env {
            command = command.env(name, value);
        }
        self.release_target(&request.target);
        self.wait_until_free(request, observe)?;
        let log = self.logs.join(format!("target-{}.log", request.target));
        command.stdout = Output::Log(log.clone());
        command.stderr = Output::Log(log.clone());
        let cancel = new_cancel()?;
        let (end_file, released, log_file) = (PathBuf::from(&request.end_file), cancel.clone(), log.clone());
        let (runs, has_ended) = sync_channel::<()>(0);
        let limited = log.clone();
        std::thread::Builder::new()
            .spawn(move || crate::log::limit_size(&limited, &has_ended))
            .map_err(|error| Resource::Spawner.error(error))?;
        let on_end = move |ended: &ChildExit| {
            drop(runs);
            if !released.is_cancelled() {
                notify_stage(&end_file, &describe_end(ended, &log_file, &secrets));
            }
        };
        let process = Process::start_then(&self.spawner, command, None, cancel, Some(log), on_end)?;
        notify_stage(Path::new(&request.pid_file), &process.pid.to_string());
        lock(&self.held).push((request.target.clone(), process));
        Ok(())
    }

    /// Waits until nothing listens at the address of a target. A server that is there before would be measured in its place.
    fn wait_until_free(&self, request: &HoldRequest, observe: &mut dyn FnMut(&Event)) -> Result<()> {
        let Some(address) = &request.address else { return Ok(()) };
        let begun = Instant::now();
        let mut is_told = false;
        while is_taken(address) {
            if begun.elapsed() >= FREE_LIMIT {
                return Err(Error::Stated(address_taken(&request.target, address)));
            }
            if !is_told {
                let seconds = FREE_LIMIT.as_secs();
                let message = format!("another process listens at {address}: waiting up to {seconds} s until it has ended");
                observe(&Event::Note { message });
                is_told = true;
            }
            if self.cancel.wait_timeout(FREE_PAUSE) {
                return Err(Error::Stated(Failure::cancelled(self.cancel.reason().unwrap_or("stopped"))));
            }
        }
        Ok(())
    }

    /// Ends the held processes of a target. A retried stage requests its target again, which needs the port of the first.
    fn release_target(&self, target: &str) {
        let earlier: Vec<_> = lock(&self.held).extract_if(.., |(name, _)| name == target).collect();
        for (_, process) in earlier {
            end(process, "its target is started again");
        }
    }
}

/// Returns true if a process accepts a connection at an address: `HOST:PORT`, or the path of a Unix socket.
fn is_taken(address: &str) -> bool {
    if address.starts_with('/') {
        return UnixStream::connect(address).is_ok();
    }
    let mut addresses = address.to_socket_addrs().into_iter().flatten();
    addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_ok())
}

fn address_taken(target: &str, address: &str) -> Failure {
    let message =
        format!("target `{target}` was not started: another process listens at {address} and would be measured in its place");
    Failure::new(ErrorCode::TargetAddressTaken, message)
        .hint("stop that process or choose another address; a server that runs already is a target of `kind: endpoint`")
}

/// Makes the folder of a run's logs. Fails if it or the folder of all logs is a link: another writer of the store, or the repository that
/// holds it, may have put one there to have files written elsewhere.
fn make_logs_folder(logs: &Path) -> Result<()> {
    for folder in [logs.parent().unwrap_or(logs), logs] {
        let made = std::fs::create_dir_all(folder);
        let is_other = std::fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir());
        let link = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is a link; remove it");
        if is_other { Err(link()) } else { made }.map_err(FileRole::Logs.error(folder))?;
    }
    Ok(())
}

/// Describes how a held process ended, with the end of its log: for people.
fn describe_end(ended: &ChildExit, log: &Path, secrets: &Secrets) -> String {
    // Its supervisor reports a signal as a shell does.
    let status = match ended.status {
        Status::Exited(code) if code > 128 => Status::Signaled(code - 128),
        status => status,
    };
    let tail = crate::log::masked_tail(log, TAIL_LINES, secrets);
    match tail.trim_end() {
        "" => format!("{status}; its log is empty"),
        tail => format!("{status}; the end of its log:\n{tail}"),
    }
}

/// Writes a file for the stage that waits for it. If no stage waits, the file's folder has gone.
fn notify_stage(file: &Path, text: &str) {
    let begun = file.with_extension("begun");
    if let Err(error) = std::fs::write(&begun, text).and_then(|()| std::fs::rename(&begun, file)) {
        tracing::debug!(file = %file.display(), %error, "nobody waits for the target");
    }
}

/// Returns the secrets among the variables of a held process.
fn read_secrets(request: &HoldRequest, env: &BTreeMap<String, OsString>) -> Secrets {
    let names = request.env_from.keys().chain(request.env_files.keys());
    Secrets::new(names.filter_map(|name| env.get(name)).map(|value| value.as_encoded_bytes()))
}

fn end(held: Process, why: &str) {
    held.cancel.cancel(why);
    if let Err(error) = held.join() {
        tracing::warn!(failure = %Failure::from(error), "a target did not end in order");
    }
}

/// Returns the command line of a stage's binary. Its key comes on descriptor 3.
fn stage_arguments(call: &StageCall, store: &str, trust: Digest, scratch: Option<&Path>) -> Result<Vec<OsString>> {
    let recorder = (call.stage == StageName::Record).then(|| OsString::from("record"));
    let mut named: Vec<(&str, OsString)> = vec![
        ("--store", store.into()),
        ("--run", call.run_id.as_str().into()),
        ("--trust", trust.to_string().into()),
        ("--key-fd", "3".into()),
        ("--parameters", parameters_json(&call.parameters)?.to_string().into()),
        ("--shard", format!("{}/{}", call.shard.index, call.shard.count).into()),
    ];
    named.extend(scratch.map(|scratch| ("--scratch", scratch.into())));
    named.extend(call.inputs.iter().map(|input| ("--input", format!("{},{}", input.manifest, input.bundle).into())));
    Ok(recorder.into_iter().chain(named.into_iter().flat_map(|(name, value)| [name.into(), value])).collect())
}

/// Returns the command that runs `program` under a supervisor.
fn supervisor_command(program: &OsStr, arguments: Vec<OsString>) -> Result<Command> {
    supervisor_command_on(None, program, arguments)
}

/// Returns the same command, restricted to those CPUs.
fn supervisor_command_on(cpus: Option<&str>, program: &OsStr, arguments: Vec<OsString>) -> Result<Command> {
    let this = std::env::current_exe().map_err(|error| Resource::OwnProgram.error(error))?;
    let supervisor = this.parent().map(|folder| folder.join("assay")).filter(|path| path.is_file()).unwrap_or(this);
    let mut own: Vec<OsString> = vec![
        "supervise".into(),
        "--parent".into(),
        std::process::id().to_string().into(),
        "--grace-seconds".into(),
        STAGE_GRACE.as_secs().to_string().into(),
    ];
    own.extend(cpus.into_iter().flat_map(|cpus| [OsString::from("--cpus"), cpus.into()]));
    own.push("--".into());
    let mut command = Command::new(supervisor).args(own).args([program]).args(arguments);
    command.grace = SUPERVISOR_GRACE;
    command.death_signal = Signal::TERM;
    command.orphans = Orphans::AdoptedByChild;
    Ok(command)
}

/// Returns the environment of a held target: a short list of harmless variables, and those that its definition names.
fn held_environment(request: &HoldRequest) -> Result<BTreeMap<String, OsString>> {
    let passed = ["PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"];
    let mut env: BTreeMap<_, _> = passed.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?))).collect();
    env.extend(request.env.iter().map(|(name, value)| (name.clone(), value.into())));
    for (name, from) in &request.env_from {
        let value = std::env::var_os(from).ok_or_else(|| absent(request, name, SecretOrigin::Variable(from.clone()), None))?;
        env.insert(name.clone(), value);
    }
    for (name, path) in &request.env_files {
        let value = read_secret(path).map_err(|error| absent(request, name, SecretOrigin::File(path.clone()), Some(error)))?;
        env.insert(name.clone(), value);
    }
    Ok(env)
}

fn absent(request: &HoldRequest, name: &str, origin: SecretOrigin, source: Option<std::io::Error>) -> Error {
    Error::SecretAbsent { variable: name.to_owned(), target: request.target.clone(), origin, source }
}

impl LocalRunner {
    fn run_once(&self, call: &StageCall, observe: &mut dyn FnMut(&Event)) -> Result<InputRef> {
        let process = self.start_stage(call, self.cancel.clone())?;
        let mut held = Ok(());
        let outcome = process.finish(&mut |event| {
            if let (Event::Hold(request), Ok(())) = (event, &held) {
                held = self.hold(request, observe);
                // The stage must not wait for a process that was never started; the failure is the runner's.
                if let Err(error) = &held {
                    notify_stage(Path::new(&request.end_file), &format!("it was not started: {error}"));
                }
            }
            observe(event);
        });
        held?;
        outcome
    }
}

impl Runner for LocalRunner {
    fn check(&self, _: &Plan) -> Result<()> {
        // On one machine, a workload runs with the machine's programs, whatever image it names.
        Ok(())
    }

    fn run(&self, calls: &[StageCall], observe: &mut dyn FnMut(&StageCall, &Event)) -> Vec<Result<InputRef, Failure>> {
        retry::run_concurrently(calls, observe, |call, observe| Ok(self.run_once(call, observe)?))
    }

    fn start_recorder(&self, call: &StageCall) -> Result<()> {
        let process = self.start_stage(call, new_cancel()?)?;
        let deadline = Instant::now() + RECORDER_START;
        loop {
            match process.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Recording) => {
                    *lock(&self.recorder) = Some(process);
                    return Ok(());
                }
                Ok(Event::Failed(failure)) => return Err(failure.into()),
                // An earlier process has made this very recording.
                Ok(Event::Accepted { .. }) => return Ok(()),
                Ok(_) => {}
                Err(why) => return Err(start_error(process, why)),
            }
        }
    }

    fn stop_recorder(&self) -> Option<Error> {
        let recorder = lock(&self.recorder).take()?;
        recorder.cancel.cancel("the stage that it records has ended");
        recorder.finish(&mut |_| {}).err()
    }

    fn stop_abandoned_recorder(&self, _: &StageCall) -> Option<Error> {
        // A recorder of this machine ends with its driver.
        None
    }

    fn release(&self) {
        for (_, target) in lock(&self.held).drain(..) {
            end(target, "the run needs the target no longer");
        }
    }

    fn wait_until_released(&self) {
        // They have ended when they are released.
    }
}

impl Drop for LocalRunner {
    fn drop(&mut self) {
        if let Some(error) = self.stop_recorder() {
            tracing::debug!(failure = %Failure::from(error), "the recorder did not end in order");
        }
        self.release();
    }
}

/// Returns the reason for which a recorder does not record: it has ended and its failure says why, or it hangs and is stopped.
fn start_error(recorder: Process, why: RecvTimeoutError) -> Error {
    let hangs = why == RecvTimeoutError::Timeout;
    if hangs {
        recorder.cancel.cancel("the recorder did not start in time");
    }
    // The failure of a recorder that was stopped would only say that it was stopped, which helps no user.
    let error = recorder.finish(&mut |_| {}).err().filter(|_| !hangs);
    error.unwrap_or(Error::RecorderNotStarted(RECORDER_START))
}

/// A poisoned lock only means that another thread panicked while it held the list, which is still valid.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn new_cancel() -> Result<Cancel> {
    Cancel::new().map_err(|error| Resource::Descriptor.error(error))
}

/// A supervised child, its events, and the thread that waits for it.
struct Process {
    events: Receiver<Event>,
    cancel: Cancel,
    waiter: JoinHandle<Result<ChildExit, assay_process::Error>>,
    log: Option<PathBuf>,
    pid: i32,
}

impl Process {
    fn start(spawner: &Spawner, command: Command, limit: Option<Duration>, cancel: Cancel, log: Option<PathBuf>) -> Result<Self> {
        Self::start_then(spawner, command, limit, cancel, log, |_| ())
    }

    /// Starts it, and calls `then` once it has ended.
    fn start_then(
        spawner: &Spawner,
        command: Command,
        limit: Option<Duration>,
        cancel: Cancel,
        log: Option<PathBuf>,
        then: impl FnOnce(&ChildExit) + Send + 'static,
    ) -> Result<Self> {
        let mut child = spawner.spawn(command)?;
        let (sender, events) = sync_channel(WAITING_EVENTS);
        read_events(&mut child, sender.clone())?;
        let (waiting, pid) = (cancel.clone(), child.pid());
        // The sender is dropped with the closure: the events end when the child has ended and its stdout is read.
        let tell_stop = move |process| drop(sender.try_send(Event::Stopped { process }));
        let wait = move || child.wait_and_tell_stops(limit, &waiting, STOPPED_INTERVAL, tell_stop).inspect(then);
        let waiter = std::thread::Builder::new().name("waiter".to_owned()).spawn(wait);
        // A child that no thread waits for was dropped, and so was ended.
        let waiter = waiter.map_err(|error| Resource::Spawner.error(error))?;
        Ok(Self { events, cancel, waiter, log, pid })
    }

    fn join(self) -> Result<ChildExit> {
        let ended = self.waiter.join().map_err(|_| Error::Internal(Defect::WaitPanicked))?;
        Ok(ended?)
    }

    /// Watches the stage to its end, and returns its accepted result.
    fn finish(self, observe: &mut dyn FnMut(&Event)) -> Result<InputRef> {
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
            (_, Some(failure)) => Err(failure.into()),
            _ => Err(unreported_end(&ended, &stopped, log.as_deref())),
        }
    }
}

/// Returns the error of a process that ended without stating a failure.
fn unreported_end(ended: &ChildExit, stopped: &Cancel, log: Option<&Path>) -> Error {
    let end = match ended {
        ChildExit { timed_out: true, .. } => StageEnd::TimeLimit,
        _ if stopped.is_cancelled() => StageEnd::Cancelled(stopped.reason().unwrap_or("stopped").to_owned()),
        ChildExit { status: Status::Exited(0), .. } => StageEnd::NoResult,
        ChildExit { status: Status::Exited(code), .. } if *code > 128 => StageEnd::Signal(code - 128),
        ChildExit { status: Status::Signaled(signal), .. } => StageEnd::SupervisorSignal(*signal),
        ChildExit { status: Status::Exited(code), .. } => StageEnd::ExitCode(*code),
    };
    let log = log.map(|log| LogEnd { path: log.to_owned(), tail: crate::log::tail(log, 5) });
    Error::StageEnd { end, log }
}

/// Reads a child's events in a thread of its own, so that its stdout pipe never fills.
fn read_events(child: &mut Child, sender: SyncSender<Event>) -> Result<()> {
    if let Some(stdout) = child.take_stdout() {
        let read = move || {
            let mut lines = BufReader::new(stdout);
            while let Some(line) = next_line(&mut lines) {
                match serde_json::from_slice(&line) {
                    // The receiver may have gone; reading on keeps the stage from blocking on a full pipe.
                    Ok(event) => drop(sender.send(event)),
                    Err(error) => tracing::warn!(%error, "a stage printed something that is no event"),
                }
            }
        };
        std::thread::Builder::new().name("events".to_owned()).spawn(read).map_err(|error| Resource::Spawner.error(error))?;
    }
    Ok(())
}

/// Returns the next line without its end, or `None` if there is no other. Bytes of a line beyond the limit are read and dropped.
fn next_line(lines: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    lines.by_ref().take(MAX_EVENT_BYTES).read_until(b'\n', &mut line).ok()?;
    let ended = line.pop_if(|last| *last == b'\n').is_some();
    if line.is_empty() && !ended {
        return None;
    }
    if !ended {
        lines.skip_until(b'\n').ok()?;
    }
    Some(line)
}

#[cfg(test)]
mod tests;
