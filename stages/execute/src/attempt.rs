//! One attempt at an indicator's trial: one invocation of its script.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use assay_host::{Hashes, Root};
use assay_indicator::Malformed;
use assay_manifest::{
    Attempt, AttemptStatus, EnvVar, Executable, FrozenWorkload, HostState, IndicatorOutcome, IndicatorWork, Plan, PlannedTrial,
    Reason, ResourceUsage, Variant,
};
use assay_process::{Command, Ended, Status, Usage};
use assay_stage::{Absent, Context, Failure, Secrets, value_of};

use crate::capture::Capture;
use crate::judge::{Left, judge};
use crate::workspace::{SCRIPT, Workspace, base_environment, spawner, system};

/// Why an attempt does not count that held a secret in what is kept of it.
pub(crate) const SECRET_IN_OUTPUT: &str = "secret_in_output";

/// Why an attempt does not count during which what it executes was replaced.
const EXECUTABLE_CHANGED: &str = "executable_changed";

/// One trial and all that its attempts need from the plan.
pub(crate) struct Runner<'a> {
    trial: &'a PlannedTrial,
    workload: &'a FrozenWorkload,
    work: &'a IndicatorWork,
    parameters: BTreeMap<String, String>,
    env: Vec<&'a EnvVar>,
    artifacts: &'a [String],
}

impl<'a> Runner<'a> {
    /// Finds everything that the trial names.
    pub(crate) fn new(plan: &'a Plan, trial: &'a PlannedTrial) -> Result<(&'a FrozenWorkload, Self), Failure> {
        let lost = |what: &str| Failure::verification("plan", format!("the plan has no {what} for trial `{}`", trial.trial_id));
        let case = plan.case(&trial.case_id).ok_or_else(|| lost("case"))?;
        let point = case.points.iter().find(|point| point.point_id == trial.point_id).ok_or_else(|| lost("point"))?;
        let workload = plan.workload(&case.workload).ok_or_else(|| lost("workload"))?;
        let work = workload.indicator.as_ref().ok_or_else(|| lost("script"))?;
        let target = plan.target(&case.target).ok_or_else(|| lost("target"))?;
        let variant: &Variant =
            plan.variants.iter().find(|variant| variant.name == case.variant).ok_or_else(|| lost("variant"))?;
        let env = target.env.iter().chain(&variant.env).collect();
        let parameters = work.parameters.iter().chain(&point.value).map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok((workload, Self { trial, workload, work, parameters, env, artifacts: &target.artifacts }))
    }

    /// An attempt that never ran, because the workload's preparation failed.
    pub(crate) fn not_prepared(&self, ctx: &Context, attempt: u32, failure: &str) -> Attempt {
        let window = ctx.clock().start().window();
        let reasons = vec![Reason::new("not_prepared", failure)];
        Attempt::new(self.trial, attempt, window, AttemptStatus::NotPrepared, reasons)
    }

    /// Runs the script once in a fresh folder.
    pub(crate) fn run(
        &self,
        ctx: &Context,
        attempt: u32,
        workspace: &Workspace,
        hashes: &mut Hashes,
    ) -> Result<Attempt, Failure> {
        let folder = workspace.attempt_folder(ctx, &format!("trial-{}-{attempt}", self.trial.trial_id))?;
        let (stdout, stderr) = (Capture::new(ctx)?, Capture::new(ctx)?);
        let (command, secrets) = self.command(&folder, &stdout, &stderr)?;
        let script = folder.join(SCRIPT);
        let executables = self.executables(&script, hashes);
        let limit = Duration::from_nanos(self.work.time_limit_ns.0);

        let before = host_state(ctx);
        let watch = ctx.clock().start();
        let child = spawner()?.spawn(command).map_err(|error| system(&error))?;
        let ended = child.wait(Some(limit), ctx.cancel()).map_err(|error| system(&error))?;
        let window = watch.window();
        let after = host_state(ctx);

        let changed = assay_host::changed(&executables, &script, hashes).map(|executable| {
            let detail = format!("the {} `{}` is not what it was before the attempt", executable.role, executable.path);
            Reason::new(EXECUTABLE_CHANGED, detail)
        });
        let name = |output: &str| format!("trials/{}/{attempt}/{output}", self.trial.trial_id);
        // One byte more than the parser takes, so that it sees that there is too much and says so.
        let stdout = stdout.keep(ctx, name("stdout"), &secrets, assay_indicator::MAX_BYTES as u64 + 1)?;
        let stderr = stderr.keep(ctx, name("stderr"), &secrets, 0)?;
        let output = assay_indicator::parse(&stdout.head);
        if let Err(error) = fs::remove_dir_all(&folder) {
            // What a script has made unremovable stays until the scratch folder goes; no later attempt uses this folder.
            tracing::warn!(folder = %folder.display(), %error, "the folder of an attempt was not removed");
        }
        let (status, mut reasons) =
            judge(&Left { ended: &ended, output: &output, metrics: &self.workload.metrics, before: &before, after: &after });
        reasons.extend(changed);
        if stdout.held_secret || stderr.held_secret {
            reasons.push(Reason::new(SECRET_IN_OUTPUT, "the script printed a secret of its environment, which was masked"));
        }
        Ok(Attempt {
            indicator: Some(IndicatorOutcome { executables, ..self.outcome(&ended, &output) }),
            host_before: Some(before),
            host_after: Some(after),
            evidence: vec![stdout.artifact, stderr.artifact],
            ..Attempt::new(self.trial, attempt, window, status, reasons)
        })
    }

    /// What the script executes as far as it can be known beforehand. The values of secrets are not looked at.
    fn executables(&self, script: &Path, hashes: &mut Hashes) -> Vec<Executable> {
        let search = std::env::var("PATH").unwrap_or_default();
        let plain = self.env.iter().filter_map(|variable| variable.value.as_deref());
        let values = plain.chain(self.parameters.values().map(String::as_str));
        let mut found = assay_host::of_script(script, &search, values, hashes);
        found.extend(self.artifacts.iter().map(|path| assay_host::artifact(path, hashes)));
        found
    }

    /// The command, and the secrets among its variables.
    fn command(&self, folder: &Path, stdout: &Capture, stderr: &Capture) -> Result<(Command, Secrets), Failure> {
        let mut secrets = Vec::new();
        let mut command = Command::new(folder.join(SCRIPT));
        command.env = base_environment(folder).into_iter().map(|(name, value)| (name.into(), value)).collect();
        for variable in &self.env {
            let value = resolve(variable)?;
            if variable.value.is_none() {
                secrets.push(value.clone().into_vec());
            }
            command = command.env(&variable.name, value);
        }
        for (name, value) in &self.parameters {
            command = command.env(name, value);
        }
        command.cwd = Some(folder.to_owned());
        command.stdout = stdout.output();
        command.stderr = stderr.output();
        Ok((command, Secrets::new(secrets)))
    }

    fn outcome(&self, ended: &Ended, output: &Result<assay_indicator::Output, Malformed>) -> IndicatorOutcome {
        let (exit_code, signal) = match ended.status {
            Status::Exited(code) => (Some(code), None),
            Status::Signaled(signal) => (None, Some(signal)),
        };
        IndicatorOutcome {
            script_sha256: self.work.script.artifact.digest,
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

/// The host as it is now.
pub(crate) fn host_state(ctx: &Context) -> HostState {
    assay_host::state(&Root::host(), ctx.clock().now())
}

/// The value of a variable; a secret is read where the reference says, and goes to the program alone.
fn resolve(variable: &EnvVar) -> Result<OsString, Failure> {
    let absent = |what: String| {
        let message = format!("the variable `{}` comes from {what}, which cannot be read", variable.name);
        Failure::environment("secret_absent", message).lasting()
    };
    value_of(variable).map_err(|why| match why {
        Absent::Env(name) => absent(format!("the environment variable `{name}`")),
        Absent::File(path, error) => absent(format!("the file `{path}`")).because(&error),
        Absent::Undefined => Failure::definition("env", format!("the variable `{}` has no value", variable.name)),
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
        EnvVar { name: "TOKEN".to_owned(), value, from_env, from_file }
    }

    fn refused(variable: &EnvVar) -> String {
        resolve(variable).expect_err("refused").to_string()
    }

    #[test]
    fn a_variable_has_its_value_from_where_it_says() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "secret\n").expect("written");
        let path = file.path().display().to_string();
        assert_eq!(resolve(&variable(Some("plain"), None, None)), Ok("plain".into()));
        assert_eq!(resolve(&variable(None, Some("PATH"), None)), Ok(std::env::var_os("PATH").expect("a PATH")));
        assert_eq!(resolve(&variable(None, None, Some(&path))), Ok("secret".into()));
    }

    #[test]
    fn a_secret_that_is_not_there_is_named_and_not_shown() {
        insta::assert_snapshot!(refused(&variable(None, Some("ASSAY_TEST_NO_SUCH_VARIABLE"), None)), @"error[secret_absent]: the variable `TOKEN` comes from the environment variable `ASSAY_TEST_NO_SUCH_VARIABLE`, which cannot be read");
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
