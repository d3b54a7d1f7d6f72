//! One attempt at an indicator's trial: one invocation of its script, or all invocations of its command.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_foreign::harness;
use assay_host::{FileDigests, Root};
use assay_indicator::OutputError;
use assay_manifest::{
    Attempt, AttemptStatus, EnvVar, Executable, FrozenWorkload, HostChange, HostState, IndicatorOutcome, IndicatorWork,
    InstructionCounter, MeasuredCommand, Plan, PlannedTrial, Reason, ResourceUsage, ValidityLimits, Variant,
};
use assay_process::{ChildExit, Command, Status, Usage};
use assay_stage::{Context, ErrorCode, Failure, MissingValue, Secrets, read_value};

use crate::capture::{Capture, Excerpt, MAX_STDERR_BYTES, last_lines};
use crate::judge::{JudgeInput, judge};
use crate::workspace::{SCRIPT, Workspace, base_environment, remove_folder};
use crate::{instructions, times};

/// The reason code of an attempt that does not count because its kept output held a secret.
pub(crate) const SECRET_IN_OUTPUT: &str = "secret_in_output";

/// The reason code of an attempt that does not count because its instructions could not be counted.
const NOT_COUNTED: &str = "instructions_not_counted";

/// The reason code of an attempt that does not count because its executable was replaced meanwhile.
const EXECUTABLE_CHANGED: &str = "executable_changed";

/// The reason code of an attempt that does not count because a signal stopped the stage meanwhile.
const STAGE_STOPPED: &str = "stage_stopped";

/// One trial with the parts of the plan that its attempts need.
pub(crate) struct Runner<'a> {
    trial: &'a PlannedTrial,
    workload: &'a FrozenWorkload,
    work: &'a IndicatorWork,
    parameters: BTreeMap<String, String>,
    env: Vec<&'a EnvVar>,
    artifacts: &'a [String],
    /// The folder of the build that this trial uses.
    build: PathBuf,
    /// The limits within which an attempt counts.
    limits: ValidityLimits,
    /// The command that is measured on this target.
    command: Option<MeasuredCommand>,
    /// The folder in which it runs; `None` for a new one.
    working_directory: Option<&'a Path>,
    /// The folder of the virtual environment that it runs in.
    virtual_environment: Option<PathBuf>,
}

impl<'a> Runner<'a> {
    /// Finds all objects of the plan that the trial names.
    pub(crate) fn new(plan: &'a Plan, trial: &'a PlannedTrial) -> Result<(&'a FrozenWorkload, Self), Failure> {
        let lost = |what: &str| Failure::new(ErrorCode::Plan, format!("the plan has no {what} for trial `{}`", trial.trial_id));
        let case = plan.case(&trial.case_id).ok_or_else(|| lost("case"))?;
        let point = case.points.iter().find(|point| point.point_id == trial.point_id).ok_or_else(|| lost("point"))?;
        let workload = plan.workload(&case.workload).ok_or_else(|| lost("workload"))?;
        let work = workload.indicator.as_ref().ok_or_else(|| lost("script"))?;
        let target = plan.target(&case.target).ok_or_else(|| lost("target"))?;
        let variant: &Variant =
            plan.variants.iter().find(|variant| variant.name == case.variant).ok_or_else(|| lost("variant"))?;
        let env = target.env.iter().chain(&variant.env).collect();
        let parameters = work.parameters.iter().chain(&point.value).map(|(name, value)| (name.clone(), value.clone())).collect();
        let build = build_folder(target.folder.as_deref(), plan.trial_policy.rebuilds, trial.index);
        let command = work.command.as_ref().map(|command| command.on(target));
        let working_directory = target.working_directory.as_deref().map(Path::new);
        let artifacts = &target.artifacts;
        let limits = plan.trial_policy.limits();
        let virtual_environment = None;
        let runner = Self {
            trial,
            workload,
            work,
            parameters,
            env,
            artifacts,
            build,
            limits,
            command,
            working_directory,
            virtual_environment,
        };
        Ok((workload, runner))
    }

    /// Runs the programs in this virtual environment.
    pub(crate) fn in_environment(self, folder: Option<PathBuf>) -> Self {
        Self { virtual_environment: folder, ..self }
    }

    /// Returns an attempt that never ran, because the workload's preparation, the installation of packages or a warm-up run failed.
    pub(crate) fn not_prepared(&self, ctx: &Context, attempt: u32, failure: Reason) -> Attempt {
        let window = ctx.clock().start().window();
        Attempt::new(self.trial, attempt, window, AttemptStatus::NotPrepared, vec![failure])
    }

    /// Runs the script or the command in a fresh folder.
    pub(crate) fn run(
        &self,
        ctx: &Context,
        attempt: u32,
        workspace: &Workspace,
        hashes: &mut FileDigests,
    ) -> Result<Attempt, Failure> {
        let place = format!("trial-{}-{attempt}", self.trial.trial_id);
        let folder = workspace.attempt_folder(ctx, &place)?;
        let (stdout, stderr) = (Capture::new(ctx)?, Capture::new(ctx)?);
        let (env, secrets) = self.environment(&folder)?;
        let program = self.program(&folder, search_path(&env))?;
        let executables = self.executables(&program, search_path(&env), hashes);
        let limit = Duration::from_nanos(self.work.time_limit_ns.0);
        // Files that an invocation leaves in its folder must not help the next one.
        let next = |number: u32| {
            let folder = if number == 0 { folder.clone() } else { workspace.renew_folder(ctx, &place)? };
            Ok(self.invocation(&program, &env, &folder, [&stdout, &stderr]))
        };

        let before = host_state(ctx);
        // Forgotten: a stop before the attempt is of no concern.
        let _ = assay_process::was_stopped();
        let watch = ctx.clock().start();
        let taken = times::run_timed(ctx, &next, program.times, limit, [&stdout, &stderr])?;
        let window = watch.window();
        let after = host_state(ctx);
        let is_exceeded = [&stdout, &stderr].iter().any(|output| output.is_exceeded());
        let counted = match program.counter.filter(|_| taken.ended.status.is_success()) {
            Some(counter) => {
                Some(instructions::count(ctx, counter, next(program.times)?, &format!("counts-{place}"), limit, &secrets)?)
            }
            None => None,
        };

        let changed = assay_host::find_changed(&executables, &program.path, hashes).map(|executable| {
            let detail = format!("the {} `{}` is not what it was before the attempt", executable.role, executable.path);
            Reason::new(EXECUTABLE_CHANGED, detail)
        });
        let name = |output: &str| format!("trials/{}/{attempt}/{output}", self.trial.trial_id);
        // One byte more than the parser accepts, so that it detects and reports an output that is too large.
        let stdout = stdout.keep(ctx, name("stdout"), &secrets, Excerpt::First(assay_indicator::MAX_BYTES as u64 + 1))?;
        let stderr = stderr.keep(ctx, name("stderr"), &secrets, Excerpt::Last(MAX_STDERR_BYTES))?;
        let mut evidence = vec![stdout.artifact, stderr.artifact];
        let output = if program.is_measured {
            let instructions = counted.as_ref().and_then(|counted| counted.as_ref().ok().copied());
            let document = times::document(self.workload.name.as_str(), &self.parameters, &taken.times, instructions);
            evidence.push(ctx.put(name(Attempt::MEASURED), "application/json", &document)?);
            assay_indicator::parse(&document)
        } else {
            harness::parse(self.work.output, self.workload.name.as_str(), &self.workload.metrics, &stdout.excerpt)
        };
        if let Err(error) = remove_folder(&folder) {
            // Files that a script has made unremovable stay until the scratch folder goes; no later attempt uses this folder.
            tracing::warn!(folder = %folder.display(), %error, "the folder of an attempt was not removed");
        }
        let (status, mut reasons) = judge(&JudgeInput {
            what: &program.describe(taken.times.len()),
            last_words: last_lines(&stderr.excerpt),
            is_measured: program.is_measured,
            ended: &taken.ended,
            is_exceeded,
            output: &output,
            metrics: &self.workload.metrics,
            machine: HostChange { before: &before, after: &after, window_ns: window.duration_ns.0 },
            limits: &self.limits,
        });
        // The reason for a missing count comes before the metric that is absent because of it.
        reasons.splice(..0, counted.and_then(Result::err).map(|why| Reason::new(NOT_COUNTED, why)));
        reasons.extend(changed);
        if assay_process::was_stopped() {
            let detail =
                "a signal had stopped the stage in the middle of the attempt, so that it saw the end of the program too late";
            reasons.push(Reason::new(STAGE_STOPPED, detail));
        }
        if stdout.held_secret || stderr.held_secret {
            reasons.push(Reason::new(SECRET_IN_OUTPUT, "it printed a secret of its environment, which was masked"));
        }
        Ok(Attempt {
            indicator: Some(IndicatorOutcome { executables, ..self.outcome(&taken.ended, &output) }),
            host_before: Some(before),
            host_after: Some(after),
            evidence,
            ..Attempt::new(self.trial, attempt, window, status, reasons)
        })
    }

    /// Runs the command as often as its point is to be warmed up, unmeasured. The error is the reason why a run of it failed.
    pub(crate) fn warm_up(&self, ctx: &Context, workspace: &Workspace) -> Result<Result<(), String>, Failure> {
        let runs = self.command.as_ref().map_or(0, |command| command.warmup);
        for number in 1..=runs {
            if let Err(failure) = self.run_unmeasured(ctx, workspace, &format!("warm-up run {number} of {runs}"))? {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(()))
    }

    /// Runs the command once, within the time limit of a trial; `what` names the run in the reason why it failed.
    fn run_unmeasured(&self, ctx: &Context, workspace: &Workspace, what: &str) -> Result<Result<(), String>, Failure> {
        let place = format!("warmup-{}", self.trial.trial_id);
        let folder = workspace.renew_folder(ctx, &place)?;
        let (stdout, stderr) = (Capture::new(ctx)?, Capture::new(ctx)?);
        let (env, secrets) = self.environment(&folder)?;
        let program = self.program(&folder, search_path(&env))?;
        let outputs = [&stdout, &stderr];
        let next = |_| Ok(self.invocation(&program, &env, &folder, outputs));
        let state = host_state(ctx);
        let taken = times::run_timed(ctx, &next, 1, Duration::from_nanos(self.work.time_limit_ns.0), outputs)?;
        ctx.check_cancelled()?;
        let is_exceeded = outputs.iter().any(|output| output.is_exceeded());
        let (_, reasons) = judge(&JudgeInput {
            what,
            last_words: last_lines(&stderr.excerpt(&secrets, Excerpt::Last(MAX_STDERR_BYTES))?),
            is_measured: true,
            ended: &taken.ended,
            is_exceeded,
            output: &assay_indicator::parse(&times::document(self.workload.name.as_str(), &self.parameters, &[], None)),
            metrics: &[],
            machine: HostChange { before: &state, after: &state, window_ns: taken.ended.wall_ns },
            limits: &self.limits,
        });
        if let Err(error) = remove_folder(&folder) {
            tracing::warn!(folder = %folder.display(), %error, "the folder of a warm-up run was not removed");
        }
        Ok(reasons.into_iter().next().map_or(Ok(()), |reason| Err(reason.detail)))
    }

    /// Returns one invocation of the program, with a folder of its own for temporary files.
    fn invocation(
        &self,
        program: &Program,
        env: &BTreeMap<OsString, OsString>,
        folder: &Path,
        [stdout, stderr]: [&Capture; 2],
    ) -> Command {
        Command {
            env: env.clone(),
            cwd: Some(self.working_directory.unwrap_or(folder).to_owned()),
            stdout: stdout.output(),
            stderr: stderr.output(),
            ..Command::new(&program.path).args(&program.arguments)
        }
    }

    /// Fails if the program or its working directory does not exist, so that the error comes before any measurement.
    pub(crate) fn check_program(&self, ctx: &Context) -> Result<(), Failure> {
        if let Some(folder) = self.working_directory.filter(|folder| !folder.is_dir()) {
            let message =
                format!("the working directory `{}` of the workload `{}` does not exist", folder.display(), self.workload.name);
            return Err(Failure::new(ErrorCode::WorkingDirectory, message));
        }
        let (env, _) = self.environment(ctx.scratch())?;
        self.program(ctx.scratch(), search_path(&env)).map(|_| ())
    }

    /// Resolves the program and the number of its invocations.
    fn program(&self, folder: &Path, search: &str) -> Result<Program, Failure> {
        let Some(command) = &self.command else {
            let path = folder.join(SCRIPT);
            let shown = SCRIPT.to_owned();
            return Ok(Program { path, display_name: shown, arguments: Vec::new(), times: 1, counter: None, is_measured: false });
        };
        let mut words = command.words(&self.parameters).into_iter();
        let Some(program) = words.next().filter(|program| !program.is_empty()) else {
            return Err(Failure::new(ErrorCode::Command, format!("the command of `{}` names no program", self.workload.name)));
        };
        let (path, shown) = self.find(&program, search)?;
        let (times, counter) = (command.times, command.instructions);
        Ok(Program { path, display_name: shown, arguments: words.collect(), times, counter, is_measured: true })
    }

    /// Finds the file of a command's program, and its name in evidence.
    fn find(&self, program: &str, search: &str) -> Result<(PathBuf, String), Failure> {
        let absent = |place: String| {
            let message = format!("`{program}`, which the workload `{}` runs, is not {place}", self.workload.name);
            let hint = "build it before the run; a program with a `/` lies in the target's `folder`, another one in PATH";
            Failure::new(ErrorCode::ProgramAbsent, message).hint(hint)
        };
        if !program.contains('/') {
            let found = assay_host::find_in_path(program, search).ok_or_else(|| absent("in PATH".to_owned()))?;
            let shown = found.display().to_string();
            return Ok((found, shown));
        }
        let path: PathBuf = self.build.join(program).components().collect();
        let whole = std::path::absolute(&path).map_err(|error| absent("to be found".to_owned()).because(&error))?;
        if !assay_host::is_program(&whole) {
            return Err(absent(format!("an executable file at `{}`", path.display())));
        }
        Ok((whole, path.display().to_string()))
    }

    /// Lists the executables, as far as they can be known beforehand. The values of secrets are not read.
    fn executables(&self, program: &Program, search: &str, hashes: &mut FileDigests) -> Vec<Executable> {
        let plain = self.env.iter().filter_map(|variable| variable.value.as_deref());
        let values = plain.chain(self.parameters.values().map(String::as_str));
        let mut found = assay_host::script_executables(&program.path, &program.display_name, search, values, hashes);
        found.extend(self.artifacts.iter().map(|path| assay_host::hash_artifact(path, hashes)));
        found
    }

    /// Returns the program's environment variables, and the secrets among them.
    fn environment(&self, folder: &Path) -> Result<(BTreeMap<OsString, OsString>, Secrets), Failure> {
        let mut secrets = Vec::new();
        let mut env: BTreeMap<OsString, OsString> =
            base_environment(folder).into_iter().map(|(name, value)| (name.into(), value)).collect();
        for variable in &self.env {
            let value = resolve(variable)?;
            if variable.value.is_none() {
                secrets.push(value.clone().into_vec());
            }
            env.insert((&variable.name).into(), value);
        }
        if let Some(folder) = &self.virtual_environment {
            activate(&mut env, folder);
        }
        env.extend(self.parameters.iter().map(|(name, value)| (name.into(), value.into())));
        Ok((env, Secrets::new(secrets)))
    }

    fn outcome(&self, ended: &ChildExit, output: &Result<assay_indicator::Output, OutputError>) -> IndicatorOutcome {
        let (exit_code, signal) = match ended.status {
            Status::Exited(code) => (Some(code), None),
            Status::Signaled(signal) => (None, Some(signal)),
        };
        IndicatorOutcome {
            script_sha256: self.work.script.as_ref().map(|script| script.artifact.digest),
            executables: Vec::new(),
            exit_code,
            signal,
            usage: usage(&ended.usage),
            leftovers: ended.leftovers,
            parameters: self.parameters.clone(),
            name: output.as_ref().ok().map(|output| output.name.clone()),
            component: output.as_ref().ok().and_then(|output| output.component.clone()),
            malformed: output.as_ref().err().map(ToString::to_string),
        }
    }
}

/// Puts the programs of a virtual environment before all others.
fn activate(env: &mut BTreeMap<OsString, OsString>, folder: &Path) {
    let mut path = folder.join("bin").into_os_string();
    if let Some(others) = env.get(OsStr::new("PATH")) {
        path.push(":");
        path.push(others);
    }
    env.insert("PATH".into(), path);
    env.insert("VIRTUAL_ENV".into(), folder.into());
}

/// The program of an attempt.
struct Program {
    path: PathBuf,
    /// Its name in evidence: for a build, its path below the repository's root.
    display_name: String,
    arguments: Vec<String>,
    /// The number of timed invocations.
    times: u32,
    /// The counter of its instructions, which are counted after those.
    counter: Option<InstructionCounter>,
    /// True if the result is its time, and not its output.
    is_measured: bool,
}

impl Program {
    /// Names the program in a failure, after this many successful invocations.
    fn describe(&self, ended_well: usize) -> String {
        match (self.is_measured, self.times) {
            (false, _) => "script".to_owned(),
            (true, 1) => "program".to_owned(),
            (true, times) => format!("program's invocation {} of {times}", ended_well + 1),
        }
    }
}

/// Returns the PATH of the program's own environment, in which programs are looked up.
fn search_path(env: &BTreeMap<OsString, OsString>) -> &str {
    env.get(OsStr::new("PATH")).and_then(|path| path.to_str()).unwrap_or_default()
}

/// Returns the folder of the build for trial number `index` of a point: builds take turns, and both sides of a pair have the same
/// number.
fn build_folder(folder: Option<&str>, rebuilds: u32, index: u32) -> PathBuf {
    let folder = PathBuf::from(folder.unwrap_or_default());
    if rebuilds > 1 { folder.join((index % rebuilds + 1).to_string()) } else { folder }
}

/// Reads the current state of the host.
pub(crate) fn host_state(ctx: &Context) -> HostState {
    assay_host::state(&Root::host(), ctx.clock().now())
}

/// Returns the value of a variable; a secret is read from its reference and passed only to the program.
fn resolve(variable: &EnvVar) -> Result<OsString, Failure> {
    let absent = |what: String| {
        let message = format!("the variable `{}` comes from {what}", variable.name);
        Failure::new(ErrorCode::SecretAbsent, message)
    };
    read_value(variable).map_err(|why| match why {
        MissingValue::Env(name) => absent(format!("the environment variable `{name}`, which is not set")),
        MissingValue::File(path, error) => absent(format!("the file `{path}`, which cannot be read")).because(&error),
        MissingValue::Undefined => Failure::new(ErrorCode::Env, format!("the variable `{}` has no value", variable.name)),
    })
}

fn usage(usage: &Usage) -> ResourceUsage {
    ResourceUsage {
        utime_us: (usage.ru_utime_ns / 1000).into(),
        stime_us: (usage.ru_stime_ns / 1000).into(),
        maxrss_kib: usage.ru_maxrss_kib.into(),
        ixrss: usage.ru_ixrss.into(),
        idrss: usage.ru_idrss.into(),
        isrss: usage.ru_isrss.into(),
        minflt: usage.ru_minflt.into(),
        majflt: usage.ru_majflt.into(),
        nswap: usage.ru_nswap.into(),
        inblock: usage.ru_inblock.into(),
        oublock: usage.ru_oublock.into(),
        msgsnd: usage.ru_msgsnd.into(),
        msgrcv: usage.ru_msgrcv.into(),
        nsignals: usage.ru_nsignals.into(),
        nvcsw: usage.ru_nvcsw.into(),
        nivcsw: usage.ru_nivcsw.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(value: Option<&str>, from_env: Option<&str>, from_file: Option<&str>) -> EnvVar {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (value, from_env, from_file) = (owned(value), owned(from_env), owned(from_file));
        EnvVar { name: "TOKEN".to_owned(), value, from_env, from_file, scheme: None }
    }

    #[test]
    fn builds_take_turns() {
        let folders =
            |rebuilds| [0, 1, 2, 3].map(|index| build_folder(Some("sut/before"), rebuilds, index).display().to_string());
        assert_eq!(folders(1), ["sut/before"; 4]);
        assert_eq!(folders(3), ["sut/before/1", "sut/before/2", "sut/before/3", "sut/before/1"]);
        assert_eq!(build_folder(None, 1, 0).join("bin/x"), Path::new("bin/x"), "the root of the repository");
    }

    #[test]
    fn a_virtual_environment_comes_first_in_path() {
        let mut env = BTreeMap::from([("PATH".into(), "/usr/bin".into())]);
        activate(&mut env, Path::new("/tmp/venv"));
        assert_eq!(search_path(&env), "/tmp/venv/bin:/usr/bin");
        assert_eq!(env.get(OsStr::new("VIRTUAL_ENV")).and_then(|folder| folder.to_str()), Some("/tmp/venv"));
    }

    fn refused(variable: &EnvVar) -> String {
        resolve(variable).expect_err("refused").to_string()
    }

    #[test]
    fn a_variable_has_its_value_from_where_it_says() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "secret\n").expect("written");
        let path = file.path().display().to_string();
        assert_eq!(resolve(&variable(Some("plain"), None, None)), Ok("plain".into()));
        assert_eq!(resolve(&variable(None, Some("PATH"), None)), Ok(std::env::var_os("PATH").expect("a PATH")));
        assert_eq!(resolve(&variable(None, None, Some(&path))), Ok("secret".into()));
    }

    #[test]
    fn a_secret_that_is_not_there_is_named_and_not_shown() {
        insta::assert_snapshot!(refused(&variable(None, Some("ASSAY_TEST_NO_SUCH_VARIABLE"), None)), @"error[secret_absent]: the variable `TOKEN` comes from the environment variable `ASSAY_TEST_NO_SUCH_VARIABLE`, which is not set");
        insta::assert_snapshot!(refused(&variable(None, None, Some("/nonexistent/token"))), @r"
        error[secret_absent]: the variable `TOKEN` comes from the file `/nonexistent/token`, which cannot be read
          because: No such file or directory (os error 2)
        ");
        insta::assert_snapshot!(refused(&variable(None, None, Some("/dev/zero"))), @r"
        error[secret_absent]: the variable `TOKEN` comes from the file `/dev/zero`, which cannot be read
          because: it is larger than the limit of 131072 bytes
        ");
        insta::assert_snapshot!(refused(&variable(None, None, None)), @"error[env]: the variable `TOKEN` has no value");
    }
}
