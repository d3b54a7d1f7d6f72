//! The driver: takes a run from its Source to its Publication, stage by stage, wherever the stages run.
//!
//! Every step is called again when a run is resumed. A stage whose result has been accepted returns it at once, so the driver
//! keeps no state of its own: the store is the state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use assay_envelope::{ExpectedManifest, MAX_BUNDLE_BYTES, Trust, verify};
use assay_failure::Failure;
use assay_manifest::{
    Block, Body, Document, Environment, ExecutionPart, InputRef, Kind, MAX_MANIFEST_BYTES, MAX_SHARDS, Manifest, Plan, Recording,
    RunId, Shard, TrialId,
};
use assay_spec::Shards;
use assay_stage::parameters::{
    CollectParameters, ExecuteParameters, PlanParameters, ProvisionParameters, PublishParameters, RecordParameters,
    ReduceParameters, StageParameters,
};
use assay_stage::{AcceptedResult, Event, Layout, ShardOutcome, StageName, counted_attempt, load_trust};
use assay_store::{CreateOutcome, Store};
use serde_json::Value;

use crate::times::{self, DriverClock, DriverTimes};
use crate::{Defect, Error, Result, StageCall, StagePolicies};

/// The most incarnations of a block, one after the other, in which its target is lost before a trial has finished.
const MAX_FRUITLESS_INCARNATIONS: u32 = 3;

/// Runs stages, on this machine or in a cluster.
pub trait Runner: Sync {
    /// Refuses a plan that it cannot run, before anything is started for it.
    fn check(&self, plan: &Plan) -> Result<()>;

    /// Runs a stage to its end, on all of its shards at once, and returns the accepted result of each. A failure that a retry may
    /// fix is retried, as often as its policy allows.
    fn run(&self, calls: &[StageCall], observe: &mut dyn FnMut(&StageCall, &Event)) -> Vec<Result<InputRef, Failure>>;

    /// Starts the recorder. A call of execute measures nothing before it records.
    fn start_recorder(&self, call: &StageCall) -> Result<()>;

    /// Stops the recorder, whose recording is then accepted. A recorder that has gone is a gap, not a failure.
    fn stop_recorder(&self) -> Option<Error>;

    /// Stops a recorder that an earlier driver started and abandoned, if a recorder can outlive its driver.
    fn stop_abandoned_recorder(&self, call: &StageCall) -> Option<Error>;

    /// Releases every target that is held. It may end later.
    fn release(&self);

    /// Waits until no released target is up.
    fn wait_until_released(&self);
}

/// Observes a run.
pub trait Observer {
    /// A stage begins.
    fn stage_started(&mut self, call: &StageCall);
    /// A stage reports an event.
    fn event(&mut self, call: &StageCall, event: &Event);
    /// A stage has its result, or has failed.
    fn stage_finished(&mut self, call: &StageCall, result: Result<InputRef, &Failure>);
    /// The driver has ended, and its time went there.
    fn driver_ended(&mut self, times: &DriverTimes);
}

/// The results of a run that has reached its end.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// The plan.
    pub plan: InputRef,
    /// The Summary.
    pub summary: InputRef,
    /// The Publication.
    pub publication: InputRef,
}

/// Takes a run from its Source to its Publication.
pub fn drive(
    run_id: &RunId,
    source: InputRef,
    store: &Store,
    policies: &StagePolicies,
    plan_parameters: PlanParameters,
    runner: &dyn Runner,
    observer: &mut dyn Observer,
) -> Result<FinishedRun> {
    let shards = if let Shards::Count(count) = policies.shards { count } else { 1 };
    let mut driver = Driver { run_id, store, policies, runner, observer, shards, clock: DriverClock::start() };
    let outcome = driver.drive(source, plan_parameters);
    runner.release();
    runner.wait_until_released();
    let Driver { clock, observer, .. } = driver;
    let times = clock.finish();
    times::keep(&times, store, run_id);
    observer.driver_ended(&times);
    outcome
}

struct Driver<'a> {
    run_id: &'a RunId,
    store: &'a Store,
    policies: &'a StagePolicies,
    runner: &'a dyn Runner,
    observer: &'a mut dyn Observer,
    /// The number of processes of each trial: the pipeline's, or that of the first block's Environment.
    shards: u32,
    /// Notes where the time goes.
    clock: DriverClock,
}

/// The results of a run's blocks.
#[derive(Default)]
struct BlockResults {
    environments: Vec<InputRef>,
    parts: Vec<InputRef>,
}

impl Driver<'_> {
    fn drive(&mut self, source: InputRef, plan_parameters: PlanParameters) -> Result<FinishedRun> {
        let plan_ref = self.run_stage(vec![source], StageParameters::Plan(plan_parameters), "")?;
        let plan: Manifest<Plan> = load(self.store, plan_ref)?;
        self.runner.check(&plan.body)?;
        self.announce(&plan.body)?;

        let mut blocks = BlockResults::default();
        for index in 0..plan.body.block_count() {
            self.run_block(plan_ref, index, &mut blocks)?;
        }
        let recordings = self.recordings_of(&blocks)?;
        let evidence = || blocks.environments.iter().chain(&blocks.parts).chain(&recordings).copied();

        let collect_inputs = std::iter::once(plan_ref).chain(evidence()).collect();
        let collection = self.run_stage(collect_inputs, StageParameters::Collect(CollectParameters {}), "")?;
        self.runner.release();
        let mut reduce_inputs = vec![plan_ref, collection];
        reduce_inputs.extend(&blocks.environments);
        let summary = self.run_stage(reduce_inputs, StageParameters::Reduce(ReduceParameters {}), "")?;
        let publish_inputs = [source, plan_ref, collection, summary].into_iter().chain(evidence()).collect();
        let publication = self.run_stage(publish_inputs, StageParameters::Publish(PublishParameters {}), "")?;
        Ok(FinishedRun { plan: plan_ref, summary, publication })
    }

    /// Marks the run under each of its cases before anything is measured, so that no run of a case can be left out later.
    fn announce(&self, plan: &Plan) -> Result<()> {
        for case in &plan.cases {
            self.store.create(&Layout::for_run(self.run_id).case(&case.case_id), b"{}")?;
        }
        Ok(())
    }

    /// Provisions and executes one block; repeats both as a new incarnation if its target is lost. Each loss of a target costs the
    /// trial that it interrupts, so a block ends: with all of its trials, or because its target does not live long enough for one.
    fn run_block(&mut self, plan: InputRef, index: u32, blocks: &mut BlockResults) -> Result<()> {
        let (mut finished, mut fruitless) = (BTreeSet::new(), 0);
        for incarnation in 0.. {
            let label = format!("{index}-{incarnation}");
            let block = Block { index, incarnation };
            // The new target may need the resources of the last one, and no two of them are up at once.
            self.runner.wait_until_released();
            let counts = self.policies.shards == Shards::Auto && (index, incarnation) == (0, 0);
            let provision = StageParameters::Provision(ProvisionParameters { block: index, incarnation, shards: counts });
            let environment = self.run_stage(vec![plan], provision.clone(), &label)?;
            if counts {
                self.take_shards(environment, provision, &label)?;
            }
            blocks.environments.push(environment);
            let inputs = [plan, environment];
            // An earlier driver has closed it, if the target was lost under that one.
            let closed = execute_parameters(block, true, &finished);
            let parts = if let Some(parts) = self.accepted_parts(&inputs, &closed, block, &label)? {
                parts
            } else {
                let executed = self.execute(&inputs, block, &finished, &label);
                self.runner.release();
                match executed {
                    Ok(parts) => {
                        blocks.parts.extend(parts);
                        return Ok(());
                    }
                    Err(error) if error.is_target_lost() => fruitless += 1,
                    Err(error) => return Err(error),
                }
                self.run_execute_shards(inputs.to_vec(), closed, &label)?
            };
            let known = finished.len();
            finished.extend(self.valid_trials(&parts)?);
            blocks.parts.extend(parts);
            if finished.len() > known {
                fruitless = 0;
            }
            if fruitless == MAX_FRUITLESS_INCARNATIONS {
                break;
            }
        }
        Err(Error::TargetLostTooOften { block: index, times: MAX_FRUITLESS_INCARNATIONS })
    }

    fn execute(&mut self, inputs: &[InputRef], block: Block, finished: &BTreeSet<TrialId>, label: &str) -> Result<Vec<InputRef>> {
        let parameters = execute_parameters(block, false, finished);
        if let Some(parts) = self.accepted_parts(inputs, &parameters, block, label)? {
            return Ok(parts);
        }
        let recorder = self.recorder_call(inputs, block, label)?;
        let begun = Instant::now();
        self.runner.start_recorder(&recorder)?;
        self.clock.recorder_started(&recorder, begun.elapsed());
        let executed = self.run_execute_shards(inputs.to_vec(), parameters, label);
        let begun = Instant::now();
        let ended = self.runner.stop_recorder();
        self.clock.recorder_ended(begun.elapsed());
        self.report_gap(&recorder, ended);
        executed
    }

    /// Returns the results of an execute stage that ended while no driver ran, or under an earlier one; `None` if there are none.
    fn accepted_parts(
        &mut self,
        inputs: &[InputRef],
        parameters: &StageParameters,
        block: Block,
        label: &str,
    ) -> Result<Option<Vec<InputRef>>> {
        let accepted = self.shards().map(|shard| self.accepted(shard, inputs, parameters));
        let Some(parts) = accepted.collect::<Result<Option<Vec<_>>, _>>()? else { return Ok(None) };
        // No driver has stopped its recorder.
        let recorder = self.recorder_call(inputs, block, label)?;
        let ended = self.runner.stop_abandoned_recorder(&recorder);
        self.report_gap(&recorder, ended);
        Ok(Some(parts))
    }

    fn report_gap(&mut self, recorder: &StageCall, error: Option<Error>) {
        if let Some(error) = error {
            let message = format!("the recorder ended early, which leaves a gap: {}", Failure::from(error).message);
            self.observer.event(recorder, &Event::Note { message });
        }
    }

    /// Returns the trials that have an attempt which is valid in every shard.
    fn valid_trials(&self, parts: &[InputRef]) -> Result<Vec<TrialId>> {
        let mut tries: BTreeMap<TrialId, Vec<ShardOutcome>> = BTreeMap::new();
        for part in parts {
            let part: Manifest<ExecutionPart> = load(self.store, *part)?;
            let ExecutionPart { block, shard, attempts, .. } = part.body;
            for attempt in attempts {
                let tried = ShardOutcome { block, attempt: attempt.attempt, shard, valid: attempt.validity.valid };
                tries.entry(attempt.trial_id).or_default().push(tried);
            }
        }
        Ok(tries.into_iter().filter_map(|(trial, tries)| counted_attempt(tries).map(|_| trial)).collect())
    }

    /// Takes the number of shards from the Environment of the run's first block, for all of its blocks. It decides how many
    /// processes are started, so it is verified here as any stage verifies its inputs.
    fn take_shards(&mut self, environment: InputRef, parameters: StageParameters, label: &str) -> Result<()> {
        let (policy, _) = load_trust(self.store, &self.policies.trust.to_string())?;
        let manifest = self.store.get(&environment.manifest, MAX_MANIFEST_BYTES)?;
        let bundle = self.store.get(&environment.bundle, MAX_BUNDLE_BYTES as u64)?;
        let expected = ExpectedManifest {
            run_id: Some(self.run_id),
            kind: Some(Kind::Environment),
            stage: Some(StageName::Provision.role()),
            input: Some(&environment),
        };
        let verified = verify(&manifest, &bundle, &Trust::Policy(policy), &expected)?;
        let document: &Document = verified.value();
        let Some(count) = Environment::from_document(document).and_then(|environment| environment.body.shards.clone()) else {
            return Ok(());
        };
        if !(1..=MAX_SHARDS).contains(&count.shards) {
            return Err(Error::ShardCount(count.shards));
        }
        self.shards = count.shards;
        // If nothing had to be measured, there is nothing to report.
        if count.ceiling.is_some() {
            let call = self.call(Shard::ONLY, Vec::new(), parameters, label);
            self.observer.event(&call, &Event::Note { message: count.formula });
        }
        Ok(())
    }

    fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        let count = self.shards.max(1);
        (0..count).map(move |index| Shard { index, count })
    }

    /// Returns the call of a recorder for a block that has not been recorded yet: each recorder of the run has a sequence number.
    fn recorder_call(&self, inputs: &[InputRef], block: Block, label: &str) -> Result<StageCall> {
        let sequence = self.recordings()?.len();
        let parameters = StageParameters::Record(RecordParameters {
            block: block.index,
            incarnation: block.incarnation,
            sequence: u32::try_from(sequence).unwrap_or(u32::MAX),
        });
        Ok(self.call(Shard::ONLY, inputs.to_vec(), parameters, &format!("{label}-{sequence}")))
    }

    /// Returns every accepted recording of the run.
    fn recordings(&self) -> Result<Vec<InputRef>> {
        let pointers = self.store.list(&Layout::for_run(self.run_id).stage(StageName::Record))?;
        let accepted = pointers.iter().filter(|path| path.contains("/accepted/"));
        accepted.map(|path| self.read_pointer(path, Kind::Recording)).collect()
    }

    /// Returns the recordings of these blocks. The recording of a block that was provisioned again, under other keys for example,
    /// belongs to no counted block.
    fn recordings_of(&self, blocks: &BlockResults) -> Result<Vec<InputRef>> {
        let mut of_blocks = Vec::new();
        for reference in self.recordings()? {
            let recording: Manifest<Recording> = load(self.store, reference)?;
            if recording.header.inputs.iter().any(|input| blocks.environments.contains(input)) {
                of_blocks.push(reference);
            }
        }
        Ok(of_blocks)
    }

    fn read_pointer(&self, path: &str, kind: Kind) -> Result<InputRef> {
        let bytes = self.store.read(path, AcceptedResult::MAX_BYTES)?;
        let bytes = bytes.ok_or_else(|| Error::PointerMissing(path.to_owned()))?;
        let AcceptedResult { manifest, bundle } = AcceptedResult::parse(path, &bytes)?;
        Ok(InputRef { kind, manifest, bundle })
    }

    /// Returns the accepted result of a call, if there is one; the stage that takes it verifies it.
    fn accepted(&self, shard: Shard, inputs: &[InputRef], parameters: &StageParameters) -> Result<Option<InputRef>> {
        let stage = parameters.stage();
        let digest = assay_stage::input_digest(stage, inputs, &parameters_json(parameters)?, self.policies.trust)?;
        let path = Layout::for_run(self.run_id).accepted(stage, digest, shard);
        match self.store.read(&path, AcceptedResult::MAX_BYTES)? {
            Some(_) => self.read_pointer(&path, stage.output_kind()).map(Some),
            None => Ok(None),
        }
    }

    /// Calls a stage that is one process.
    fn run_stage(&mut self, inputs: Vec<InputRef>, parameters: StageParameters, label: &str) -> Result<InputRef> {
        let stage = parameters.stage();
        let call = self.call(Shard::ONLY, inputs, parameters, label);
        let results = self.run_calls(std::slice::from_ref(&call))?;
        results.into_iter().next().ok_or(Error::Internal(Defect::NoResult(stage)))
    }

    /// Calls execute once for each shard, all at once, and returns their parts in order.
    fn run_execute_shards(&mut self, inputs: Vec<InputRef>, parameters: StageParameters, label: &str) -> Result<Vec<InputRef>> {
        let shards: Vec<Shard> = self.shards().collect();
        let label = |shard: &Shard| if shards.len() == 1 { label.to_owned() } else { format!("{label}-{}", shard.index) };
        let calls: Vec<_> =
            shards.iter().map(|shard| self.call(*shard, inputs.clone(), parameters.clone(), &label(shard))).collect();
        self.run_calls(&calls)
    }

    /// Runs calls at once. The first failure is that of the stage.
    fn run_calls(&mut self, calls: &[StageCall]) -> Result<Vec<InputRef>> {
        for call in calls {
            self.observer.stage_started(call);
        }
        let (observer, clock) = (&mut *self.observer, &mut self.clock);
        calls.iter().take(1).for_each(|call| clock.begin(call));
        let results = self.runner.run(calls, &mut |call, event| {
            clock.note(call, event);
            observer.event(call, event);
        });
        clock.end();
        for (call, result) in calls.iter().zip(&results) {
            self.observer.stage_finished(call, result.as_ref().copied());
        }
        let stage = calls.first().map_or(StageName::Plan, |call| call.stage);
        results.into_iter().map(|result| result.map_err(|failure| Error::Stage { stage, failure })).collect()
    }

    fn call(&self, shard: Shard, inputs: Vec<InputRef>, parameters: StageParameters, label: &str) -> StageCall {
        let stage = parameters.stage();
        let (run_id, policy) = (self.run_id.clone(), self.policies.for_stage(stage));
        StageCall { stage, run_id, inputs, parameters, shard, policy, label: label.to_owned() }
    }
}

/// Loads a manifest that a stage has returned; the store checks its digest, the stage that takes it its signature.
pub(crate) fn load<B: Body>(store: &Store, reference: InputRef) -> Result<Manifest<B>> {
    let bytes = store.get(&reference.manifest, MAX_MANIFEST_BYTES)?;
    let document = Document::parse(&bytes).map_err(Error::Manifest)?;
    let other = Error::OtherKind { manifest: reference.manifest, found: document.kind(), expected: B::KIND };
    B::from_document(&document).cloned().ok_or(other)
}

/// Returns the parameters as they are on a stage's command line and in its input digest.
pub(crate) fn parameters_json(parameters: &StageParameters) -> Result<Value> {
    parameters.to_json().map_err(|error| Error::Internal(Defect::ParametersNotJson(error.to_string())))
}

fn execute_parameters(block: Block, close: bool, except: &BTreeSet<TrialId>) -> StageParameters {
    let Block { index, incarnation } = block;
    StageParameters::Execute(ExecuteParameters { block: index, incarnation, close, except: except.clone() })
}

/// Creates a pointer, or returns the bytes that it already holds.
pub(crate) fn create_or_read(store: &Store, path: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(match store.create(path, bytes)? {
        CreateOutcome::New => None,
        CreateOutcome::Existing { existing } => Some(existing),
    })
}
