//! Execute: runs the trials of one block in order, and records the outcome and the validity of every attempt.
//!
//! A failure of the measured system is a result: the stage finishes, and the verdict is in its execution part.

mod attempt;
mod capture;
mod instructions;
mod journal;
mod judge;
mod python_stack;
mod serving;
mod target_pods;
mod times;
mod verdict;
mod workspace;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use assay_host::FileDigests;
use assay_manifest::{
    Attempt, AttemptStatus, Block, CaseId, CpuList, Environment, ExecutionPart, Fact, FrozenWorkload, HostFacts, HostRole,
    LastingReason, Name, Plan, PlannedTrial, PointId, ProvisionedReplica, ProvisionedTarget, Reason, Target, TargetKind, TrialId,
    Validity, Window,
};
use assay_probe::{Client, Identity};
use assay_stage::parameters::ExecuteParameters;
use assay_stage::{Context, ErrorCode, Event, Failure, Inputs, Stage, StageName, StartMark};

use crate::attempt::Runner;
use crate::journal::{CheckpointContext, Journal, JournalParts};
use crate::python_stack::VirtualEnvironment;
use crate::serving::{Barrier, PromptSources, ServingTrial, unusable_credential};
use crate::target_pods::{PodWatch, TargetPods};
use crate::verdict::ShardVerdict;
use crate::workspace::Workspace;

/// The maximum interruptions of a run's trials from outside before the stage gives up: a machine that is lost this often measures
/// nothing.
const MAX_INTERRUPTIONS: usize = 64;

/// The reason of an attempt whose target became another one while it ran.
const TARGET_CHANGED: &str = "target_changed";

/// The reason code of an attempt that never ran because a preparation or a warm-up run failed.
const NOT_PREPARED: &str = "not_prepared";

/// The reason code of an attempt that does not count because nothing listened at its target's address any more when it ended.
const TARGET_GONE: &str = "target_gone";

/// The identity that responds at the address of a target.
struct FoundTarget<'a> {
    name: &'a Name,
    identity: Identity,
    /// The difference to the provisioned target, if there is one.
    change: Option<String>,
}

/// The execute stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Execute;

impl Stage for Execute {
    type Parameters = ExecuteParameters;
    type Output = ExecutionPart;
    const NAME: StageName = StageName::Execute;

    fn run(&self, inputs: &Inputs, parameters: &ExecuteParameters, ctx: &Context) -> Result<ExecutionPart, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let environment = &inputs.one::<Environment>()?.body;
        let block = Block { index: parameters.block, incarnation: parameters.incarnation };
        check_block(environment, block)?;
        check_runnable(plan)?;
        let of = CheckpointContext { plan: plan_digest, block };
        let mut block = BlockRun {
            here: OnceCell::new(),
            plan,
            environment,
            of,
            ctx,
            journal: Journal::default(),
            workspaces: BTreeMap::new(),
            environments: BTreeMap::new(),
            warmed_up: BTreeMap::new(),
            prompt_sources: PromptSources::default(),
            hashes: FileDigests::default(),
            target_pods: TargetPods::default(),
        };
        block.resume(parameters)?;
        if !parameters.close {
            pin_load(ctx, plan)?;
            check_drift(environment, &block.host_facts().boot_id)?;
            block.agree_on_earlier()?;
            block.run_trials(parameters)?;
        }
        Ok(block.finish())
    }
}

fn check_block(environment: &Environment, block: Block) -> Result<(), Failure> {
    if environment.block == block {
        return Ok(());
    }
    let (found, index, incarnation) = (environment.block, block.index, block.incarnation);
    Err(Failure::new(
        ErrorCode::OtherBlock,
        format!("the environment is of block {}.{}, not of {index}.{incarnation}", found.index, found.incarnation),
    ))
}

/// Refuses, by name, all that this stage cannot run.
fn check_runnable(plan: &Plan) -> Result<(), Failure> {
    match plan.workloads.iter().find(|workload| workload.indicator.is_none() && workload.serving.is_none()) {
        None => Ok(()),
        Some(FrozenWorkload { name, workload_type, .. }) => Err(Failure::new(
            ErrorCode::WorkloadType,
            format!("execute cannot run workload `{name}`: its type `{workload_type}` is not one that this version runs"),
        )
        .hint("this version runs workloads of type `serving` and `indicator`")),
    }
}

/// Pins all threads of this process to the CPUs that the pipeline assigns to the load generator.
fn pin_load(ctx: &Context, plan: &Plan) -> Result<(), Failure> {
    let is_load = ctx.pod_place().is_none() && plan.workloads.iter().any(|workload| workload.serving.is_some());
    let Some(text) = plan.load_cpus.as_ref().filter(|_| is_load) else { return Ok(()) };
    let cpus = text.parse::<CpuList>().map_err(|error| Failure::from_error(ErrorCode::Plan, &error))?;
    assay_process::pin_to_cpus(cpus.numbers()).map_err(|error| {
        Failure::from_error(ErrorCode::Cpus, &error).hint(format!("does this machine have the CPUs {cpus}?")).lasting()
    })
}

/// Refuses a block that spans two boots, because its numbers would be of two machines.
fn check_drift(environment: &Environment, here: &Fact<String>) -> Result<(), Failure> {
    let Some(client) = environment.hosts_with(HostRole::Client).next() else {
        return Err(Failure::new(ErrorCode::NoClientHost, "the environment names no host of role `client`"));
    };
    match (&client.facts.boot_id, here) {
        (Fact { value: Some(then), .. }, Fact { value: Some(now), .. }) if then != now => Err(Failure::new(
            ErrorCode::Drift,
            format!("the block was provisioned under boot id {then}, but this machine runs under {now}"),
        )
        .hint("the block has to be provisioned anew; `assay run` with the same run id does so")
        .lasting()),
        _ => Ok(()),
    }
}

/// The state of a running block.
struct BlockRun<'a> {
    plan: &'a Plan,
    environment: &'a Environment,
    of: CheckpointContext,
    ctx: &'a Context,
    journal: Journal,
    workspaces: BTreeMap<String, Rc<Workspace>>,
    /// The virtual environments by variant.
    environments: BTreeMap<Name, Rc<VirtualEnvironment>>,
    /// The points whose warm-up runs are over, each with the reason why one failed.
    warmed_up: BTreeMap<(CaseId, PointId), Option<String>>,
    prompt_sources: PromptSources,
    /// Digests of executables, each file read once.
    hashes: FileDigests,
    target_pods: TargetPods,
    /// Facts of this machine, read once.
    here: OnceCell<HostFacts>,
}

/// Describes a process that listens at the address of a target which the run has started on this machine, and that the run did not start.
fn other_listener(found: &ProvisionedTarget, address: &str) -> Option<String> {
    let is_held = matches!(found.kind, TargetKind::Process | TargetKind::Simulator) && found.pods.is_empty();
    let at = is_held.then(|| assay_load::listen_address(address)).flatten()?;
    let other = assay_host::other_listener(&at)?;
    Some(format!("{other}, which the run did not start, listens at its address"))
}

impl<'a> BlockRun<'a> {
    /// Loads the finished work of an earlier process of this same stage. A call that only closes the block loads that of the call
    /// that ran it.
    fn resume(&mut self, parameters: &ExecuteParameters) -> Result<(), Failure> {
        let running = ExecuteParameters { close: false, ..parameters.clone() };
        self.journal = Journal::load(self.ctx, self.ctx.input_digest_with(&running)?)?;
        for (trial, attempt, StartMark { at, place }) in self.journal.cut_short() {
            let planned = self.planned(&trial)?.clone();
            let reason = Reason::new("interrupted", "the stage or its machine went away in the middle of the attempt");
            let window = Window { start: at, end: at, duration_ns: 0.into() };
            let interrupted = Attempt::new(&planned, attempt, window, AttemptStatus::Interrupted, vec![reason]);
            self.journal.add_cut_short(Attempt { place, ..interrupted });
            Barrier::new(self.ctx, &planned, attempt).abort(self.ctx)?;
        }
        self.check_interruptions()
    }

    fn check_interruptions(&self) -> Result<(), Failure> {
        match self.journal.count_interruptions() {
            count if count > MAX_INTERRUPTIONS => Err(Failure::new(
                ErrorCode::InterruptedTooOften,
                format!("{count} attempts of this block were cut short, more than the limit of {MAX_INTERRUPTIONS}"),
            )
            .hint("find out what ends the processes of this machine, then start a new run")),
            _ => Ok(()),
        }
    }

    /// Fails if the target of a case is not the provisioned one, so that its block is provisioned anew.
    fn check_target(&self, case: &CaseId) -> Result<(), Failure> {
        let found = self.found_target(case)?;
        match found.and_then(|found| Some((found.name, found.change?))) {
            None => Ok(()),
            Some((target, change)) => {
                Err(Failure::new(ErrorCode::Drift, format!("the target `{target}` is not the one provisioned: {change}"))
                    .hint("the block has to be provisioned anew; `assay run` with the same run id does so")
                    .lasting())
            }
        }
    }

    /// Returns the attempt; if its target is not the provisioned one any more, as cut short, which spends no retry. One after which nothing
    /// listens at the target's address does not count: a part of it had no target.
    fn check_target_after(&self, attempt: Attempt) -> Result<Attempt, Failure> {
        let Some(found) = self.found_target(&attempt.case_id)? else { return Ok(attempt) };
        let mut reasons = attempt.validity.reasons.clone();
        let name = found.name;
        let status = if let Some(change) = found.change {
            reasons.push(Reason::new(TARGET_CHANGED, format!("the target `{name}`: {change}")));
            AttemptStatus::Interrupted
        } else if let Some(why) = found.identity.refusal() {
            let detail = format!("nothing listened at the address of the target `{name}` after the attempt ({why})");
            reasons.push(Reason::new(TARGET_GONE, detail));
            attempt.status
        } else {
            return Ok(attempt);
        };
        Ok(Attempt { status, validity: Validity::from_reasons(reasons), ..attempt })
    }

    /// Returns what is at the address of the target of a case now: another process may have its port, and other pods its name. `None` if the
    /// target has no address.
    fn found_target(&self, case: &CaseId) -> Result<Option<FoundTarget<'a>>, Failure> {
        let Some((target, found)) = self.target(case) else { return Ok(None) };
        let Some(address) = &found.address else { return Ok(None) };
        let client = Client::for_target(target).map_err(|error| unusable_credential(&error))?;
        let identity = Identity::query(&client, address).with_pods(self.target_pods.query(found)?);
        let provisioned = self.environment.observed_at;
        let changed = |replica: &ProvisionedReplica| Identity::query(&client, &replica.address).change_of_replica(replica);
        let of_replica = || found.replicas.iter().find_map(changed);
        let change = other_listener(found, address).or_else(|| identity.change_since(found, provisioned)).or_else(of_replica);
        Ok(Some(FoundTarget { name: &target.name, identity, change }))
    }

    /// Returns the target of a case, as planned and as provisioned.
    fn target(&self, case: &CaseId) -> Option<(&'a Target, &'a ProvisionedTarget)> {
        let target = self.plan.target(&self.plan.case(case)?.target)?;
        Some((target, self.environment.targets.iter().find(|found| found.id == target.name)?))
    }

    /// Returns a watch over the pods of the target of a case while its load runs. One shard watches for all.
    fn pod_watch(&self, case: &CaseId) -> Result<Option<PodWatch<'a>>, Failure> {
        match self.target(case) {
            Some((_, found)) if self.ctx.shard().index == 0 => self.target_pods.watch(found),
            _ => Ok(None),
        }
    }

    /// Counts the attempts of an earlier process only if they are valid in every shard.
    fn agree_on_earlier(&mut self) -> Result<(), Failure> {
        for (trial, attempt, verdict) in self.journal.finished() {
            let agreed = Barrier::new(self.ctx, self.planned(&trial)?, attempt).agree_on_verdict(self.ctx, verdict)?;
            self.journal.set_agreed(&trial, attempt, agreed);
        }
        Ok(())
    }

    fn host_facts(&self) -> &HostFacts {
        self.here.get_or_init(|| assay_host::facts(&assay_host::Root::host()))
    }

    fn planned(&self, trial: &TrialId) -> Result<&PlannedTrial, Failure> {
        let found = self.plan.trials.iter().find(|planned| planned.trial_id == *trial);
        found.ok_or_else(|| {
            Failure::new(ErrorCode::UnplannedTrial, format!("a checkpoint is of trial `{trial}`, which the plan does not have"))
        })
    }

    fn run_trials(&mut self, parameters: &ExecuteParameters) -> Result<(), Failure> {
        let plan = self.plan;
        let trials: Vec<_> = plan.trials.iter().filter(|trial| trial.block == self.of.block.index).collect();
        let of = trials.len() as u32;
        for trial in trials.iter().filter(|trial| !parameters.except.contains(&trial.trial_id)) {
            self.check_program(trial)?;
        }
        for (number, trial) in (1..).zip(trials) {
            if !parameters.except.contains(&trial.trial_id) {
                self.run_trial(trial, number, of)?;
            }
        }
        Ok(())
    }

    /// Fails if the program of a command does not exist.
    fn check_program(&self, trial: &PlannedTrial) -> Result<(), Failure> {
        let workload = self.plan.case(&trial.case_id).and_then(|case| self.plan.workload(&case.workload));
        let work = workload.and_then(|workload| workload.indicator.as_ref());
        // A program of a virtual environment is there when its packages are installed.
        let is_installed = self.plan.python_stack(&trial.case_id).is_some();
        if work.is_some_and(|work| work.command.is_some()) && !is_installed {
            Runner::new(self.plan, trial)?.1.check_program(self.ctx)?;
        }
        Ok(())
    }

    /// Tries a trial until an attempt is valid, the retry budget is spent, or a lasting reason is met again.
    fn run_trial(&mut self, trial: &PlannedTrial, number: u32, of: u32) -> Result<(), Failure> {
        while self.journal.needs_attempt(&trial.trial_id, self.plan.trial_policy.retry_budget) {
            self.ctx.check_cancelled()?;
            let attempt = self.journal.next_attempt(&trial.trial_id);
            self.ctx.emit(Event::TrialStarted { trial: trial.trial_id.clone(), attempt, number, of });
            let done = Attempt { place: self.ctx.pod_place().cloned(), ..self.attempt(trial, attempt)? };
            self.ctx.emit(Event::TrialFinished {
                trial: trial.trial_id.clone(),
                attempt,
                status: done.status,
                valid: done.validity.valid,
                duration_ns: done.window.duration_ns.0,
                reasons: done.validity.reasons.clone(),
            });
            let verdict = ShardVerdict::new(&done.validity);
            self.journal.save_attempt(self.ctx, self.of, done)?;
            let barrier = Barrier::new(self.ctx, trial, attempt).waiting_longer(self.rest_of_others(trial, verdict));
            let agreed = barrier.agree_on_verdict(self.ctx, verdict)?;
            self.journal.set_agreed(&trial.trial_id, attempt, agreed);
            self.check_interruptions()?;
        }
        self.report_end(trial);
        Ok(())
    }

    /// Returns the time that other shards may take longer than this one, which ended its load early: their parts of it may be served.
    fn rest_of_others(&self, trial: &PlannedTrial, verdict: ShardVerdict) -> Duration {
        if verdict != ShardVerdict::Lasting(LastingReason::OverSaturated) {
            return Duration::ZERO;
        }
        let workload = self.plan.case(&trial.case_id).and_then(|case| self.plan.workload(&case.workload));
        let work = workload.and_then(|workload| workload.serving.as_ref());
        work.map_or(Duration::ZERO, |work| Duration::from_nanos(work.time_limit_ns.0))
    }

    /// Reports that a trial is not tried again although its retry budget is not spent. One shard does so for all.
    fn report_end(&self, trial: &PlannedTrial) {
        let Some(reason) = self.journal.reason_to_stop(&trial.trial_id, self.plan.trial_policy.retry_budget) else { return };
        if self.ctx.shard().index == 0 {
            let message = format!("{}: not tried again, because another attempt meets `{reason}` again", trial.trial_id);
            self.ctx.emit(Event::Note { message });
        }
    }

    fn attempt(&mut self, trial: &PlannedTrial, attempt: u32) -> Result<Attempt, Failure> {
        if let Some(serving) = ServingTrial::new(self.ctx, self.plan, self.environment, trial, &mut self.prompt_sources)? {
            self.check_target(&trial.case_id)?;
            self.ctx.mark_attempt(&trial.trial_id, attempt)?;
            let watch = self.ctx.clock().start();
            let allowed = || assay_host::own_allowed_cpus().map(|cpus| cpus.to_string());
            let interrupted = |reason| Attempt::new(trial, attempt, watch.window(), AttemptStatus::Interrupted, vec![reason]);
            let serving = serving.watching(self.pod_watch(&trial.case_id)?);
            return match serving.run(self.ctx, self.host_facts(), attempt) {
                Ok(done) => self.check_target_after(Attempt { allowed_cpus: allowed(), ..done }),
                Err(lost) if lost.code == ErrorCode::ShardLost => Ok(interrupted(Reason::new(lost.code.as_str(), lost.message))),
                Err(drift) if drift.code == ErrorCode::Drift => {
                    Barrier::new(self.ctx, trial, attempt).abort(self.ctx)?;
                    Ok(interrupted(Reason::new(TARGET_CHANGED, drift.message)))
                }
                Err(failure) => Err(failure),
            };
        }
        let (workload, runner) = Runner::new(self.plan, trial)?;
        let workspace = self.workspace(workload)?;
        self.ctx.mark_attempt(&trial.trial_id, attempt)?;
        let environment = self.virtual_environment(&trial.case_id)?;
        let runner = runner.in_environment(environment.as_ref().map(|ready| ready.folder.clone()));
        let failed = |failure: &String| Reason::new(NOT_PREPARED, failure);
        let failure = match (&workspace.failure, &environment) {
            (Some(failure), _) => Some(failed(failure)),
            (None, Some(ready)) if ready.failure.is_some() => ready.failure.clone(),
            (None, Some(_)) if let Some(other) = workspace.fixed_interpreter() => Some(other),
            (None, _) => self.warm_up(trial, &runner, &workspace)?.as_ref().map(failed),
        };
        match failure {
            Some(failure) => Ok(runner.not_prepared(self.ctx, attempt, failure)),
            None => runner.run(self.ctx, attempt, &workspace, &mut self.hashes),
        }
    }

    /// Warms up the point of a trial, once in this process. Returns the reason why that failed.
    fn warm_up(&mut self, trial: &PlannedTrial, runner: &Runner<'_>, workspace: &Workspace) -> Result<Option<String>, Failure> {
        let point = (trial.case_id.clone(), trial.point_id.clone());
        if let Some(failure) = self.warmed_up.get(&point) {
            return Ok(failure.clone());
        }
        let failure = runner.warm_up(self.ctx, workspace)?.err();
        self.warmed_up.insert(point, failure.clone());
        Ok(failure)
    }

    /// Returns the virtual environment of a case whose variant states packages. They are installed once; a resumed stage installs the same again.
    fn virtual_environment(&mut self, case: &CaseId) -> Result<Option<Rc<VirtualEnvironment>>, Failure> {
        let Some((variant, stack)) = self.plan.python_stack(case) else { return Ok(None) };
        if let Some(ready) = self.environments.get(variant) {
            return Ok(Some(Rc::clone(ready)));
        }
        let ready = if let Some(recorded) = self.journal.stack(variant) {
            VirtualEnvironment::restore(self.ctx, stack, recorded)?
        } else {
            let (ready, installed) = VirtualEnvironment::install(self.ctx, variant, stack)?;
            self.journal.save_stack(self.ctx, self.of, installed)?;
            ready
        };
        let ready = Rc::new(ready);
        self.environments.insert(variant.clone(), Rc::clone(&ready));
        Ok(Some(ready))
    }

    /// Returns the workload's files, with those that its preparation makes.
    fn workspace(&mut self, workload: &FrozenWorkload) -> Result<Rc<Workspace>, Failure> {
        if let Some(ready) = self.workspaces.get(workload.name.as_str()) {
            return Ok(Rc::clone(ready));
        }
        let made = Rc::new(self.make_workspace(workload)?);
        self.workspaces.insert(workload.name.to_string(), Rc::clone(&made));
        Ok(made)
    }

    /// Builds the workspace. A preparation runs once; a resumed stage reuses its outputs.
    fn make_workspace(&mut self, workload: &FrozenWorkload) -> Result<Workspace, Failure> {
        if let Some(prepared) = self.journal.prepared(workload.name.as_str()) {
            return Workspace::restore(self.ctx, workload, prepared);
        }
        let (workspace, prepared) = Workspace::prepare(self.ctx, workload)?;
        if let Some(prepared) = prepared {
            self.journal.save_prepared(self.ctx, self.of, prepared)?;
        }
        Ok(workspace)
    }

    fn finish(self) -> ExecutionPart {
        let JournalParts { prepared, stacks, attempts, resumed } = self.journal.into_parts();
        // Attempts of one trial share their schedule but for request ids, which are not in its digest.
        let schedules =
            attempts.iter().filter_map(|attempt| Some((attempt.trial_id.clone(), attempt.serving.as_ref()?.schedule_digest)));
        ExecutionPart {
            schedule_digests: schedules.collect(),
            plan_digest: self.of.plan,
            block: self.of.block,
            shard: self.ctx.shard(),
            prepared,
            stacks,
            attempts,
            resumed,
        }
    }
}

#[cfg(test)]
mod tests;
