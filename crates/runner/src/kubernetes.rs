//! Stages as Jobs of a Kubernetes cluster.
//!
//! The result of a Job is in the store: neither logs nor status carry a result. They only report how far a stage is, and why it
//! failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use assay_cluster::{
    Cluster, Event as ClusterEvent, Installation, Job, JobState, LoadPod, LogLine, ObjectPath, PULLED, Pod, RUN, Resources,
    RunObjects, RunRoot, RunWatch, StageJob, TARGET_KINDS, Trouble, Waker, are_scheduled, has_begun, job_name, job_state,
    longest_pull, phase, stage_job,
};
use assay_failure::{ErrorCode, Failure};
use assay_manifest::{Digest, Environment, InputRef, Intent, Kind, Manifest, Plan, Role, RunId};
use assay_process::Cancel;
use assay_spec::PodOverride;
use assay_stage::parameters::StageParameters;
use assay_stage::{AcceptedResult, BrokenMark, Event, Layout, StageName, input_digest};
use assay_store::{MAX_POINTER_BYTES, Store};

use crate::driver::{load, parameters_json};
use crate::error::Defect;
use crate::{CancelledWork, Error, Result, Runner, StageCall};

mod image;
mod shards;

use image::block_images;
use shards::Shards;

/// The interval at which a Job is checked if no change is reported.
const LOOK: Duration = Duration::from_millis(250);
/// The interval at which the cluster is asked why a Job has no pods.
const ASK_EVENTS: Duration = Duration::from_secs(3);
/// The time limit for the rest of a pod's log after its stage has ended.
const LOG_REST: Duration = Duration::from_secs(2);
/// The time limit for pods to end after they are told to: longer than their grace period.
const END_LIMIT: Duration = Duration::from_secs(90);
/// The time limit for the recorder's first reading: its pod has to start first.
const RECORDER_START: Duration = Duration::from_mins(5);
/// Log lines that may wait to be read.
const WAITING_LINES: usize = 4096;

/// A pipeline's settings for a stage's pods.
#[derive(Clone, Debug, Default)]
pub struct PodSettings {
    /// CPUs and memory.
    pub resources: Resources,
    /// Labels that its node must carry.
    pub node_selector: BTreeMap<String, String>,
    /// Another image that it runs in, by digest.
    pub image: Option<String>,
    /// Further fields of its pods.
    pub pod: PodOverride,
}

/// The parameters for running a run's stages as Jobs.
pub struct ClusterParameters {
    /// The cluster.
    pub cluster: Cluster,
    /// The installation in it.
    pub installation: Installation,
    /// The root of the run.
    pub root: RunRoot,
    /// The Kueue queue of targets and load, if there are queues.
    pub queue: Option<String>,
    /// The time limit for a pod that cannot start.
    pub start_limit: Duration,
}

/// Runs stages as Jobs.
pub struct KubernetesRunner {
    parameters: ClusterParameters,
    run_id: RunId,
    store: Store,
    trust: Digest,
    intent: Intent,
    asked: BTreeMap<Role, PodSettings>,
    cancel: Cancel,
    watched: RunWatch,
    recorder: Mutex<Option<Recorder>>,
    /// True if targets were released that may still be up.
    is_releasing: AtomicBool,
}

/// A recorder whose Job exists.
#[derive(Clone)]
struct Recorder {
    job: String,
    pointer: String,
    is_recording: bool,
}

impl KubernetesRunner {
    /// Makes a runner for one run, which watches all objects of the run in the cluster.
    pub fn new(
        at: ClusterParameters,
        run_id: &RunId,
        store: &Store,
        trust: Digest,
        intent: Intent,
        asked: BTreeMap<Role, PodSettings>,
        cancel: &Cancel,
    ) -> Self {
        let watched = at.cluster.watch(&at.installation.namespace, &format!("{RUN}={run_id}"));
        let (run_id, store, cancel) = (run_id.clone(), store.clone(), cancel.clone());
        Self {
            parameters: at,
            run_id,
            store,
            trust,
            intent,
            asked,
            cancel,
            watched,
            recorder: Mutex::default(),
            is_releasing: AtomicBool::new(false),
        }
    }

    /// Runs a call's Job to its end. If a result was accepted before, no Job is needed.
    fn run_job(&self, calls: &[StageCall], observe: &mut dyn FnMut(&StageCall, &Event)) -> Result<Vec<InputRef>> {
        let Some(call) = calls.first() else { return Ok(Vec::new()) };
        let input = self.call_digest(call)?;
        if let Some(done) = self.accepted(calls, input)? {
            return Ok(done);
        }
        if let Err(error) = self.check_targets(call) {
            // An earlier driver's Job may still measure a target that has gone: it ends before anything else is started.
            self.end(&job_name(&self.run_id, call.stage, &input))?;
            return match self.accepted(calls, input)? {
                Some(done) => Ok(done),
                None => Err(error),
            };
        }
        let job = self.start_beside_recorder(call, input, calls.len(), observe)?;
        let mut told = PodEventReader::new(self, &job);
        let outcome = self.wait(&job, calls, input, &mut told, observe);
        if outcome.is_err() && !self.has_failed(&job) {
            self.end(&job)?;
        }
        outcome
    }

    /// Starts the Job of a call, and returns once the recorder, if there is one, is recording. The pods of both start at the same
    /// time; those of the call wait for a mark before they begin.
    fn start_beside_recorder(
        &self,
        call: &StageCall,
        input: Digest,
        shards: usize,
        observe: &mut dyn FnMut(&StageCall, &Event),
    ) -> Result<String> {
        let starting = self.recorder().clone().filter(|recorder| !recorder.is_recording);
        let Some(recorder) = starting else {
            return self.start(call, input, shards, None);
        };
        let may_begin = Layout::for_run(&self.run_id).may_begin(call.stage, input);
        // Under an earlier driver, a recorder that has ended since was recording.
        if self.store.read(&may_begin, MAX_POINTER_BYTES)?.is_some() {
            self.await_recorder(&recorder, &mut |_| {})?;
            return self.start(call, input, shards, None);
        }
        let job = self.start(call, input, shards, Some(&may_begin))?;
        let mut is_scheduled = false;
        let begun = self.await_recorder(&recorder, &mut |seen| {
            if !is_scheduled && are_scheduled(&seen.job_pods(&job), u32::try_from(shards).unwrap_or(u32::MAX)) {
                is_scheduled = true;
                observe(call, &Event::Scheduled);
            }
        });
        let begun = begun.and_then(|()| Ok(self.store.create(&may_begin, b"{}").map(drop)?));
        if let Err(error) = begun {
            // Its pods would wait for the mark in vain.
            self.end(&job)?;
            return Err(error);
        }
        Ok(job)
    }

    /// Waits until the recorder records, and passes on each state of the cluster that is seen meanwhile.
    fn await_recorder(&self, recorder: &Recorder, look: &mut dyn FnMut(&RunObjects)) -> Result<()> {
        match self.wait_until_recording(&recorder.job, look) {
            Ok(is_recording) => {
                *self.recorder() = is_recording.then(|| Recorder { is_recording, ..recorder.clone() });
                Ok(())
            }
            Err(error) => {
                *self.recorder() = None;
                self.end(&recorder.job)?;
                Err(error)
            }
        }
    }

    fn call_digest(&self, call: &StageCall) -> Result<Digest> {
        Ok(input_digest(call.stage, &call.inputs, &parameters_json(&call.parameters)?, self.trust)?)
    }

    /// Returns the accepted results of all shards, if every shard has one, even from an earlier driver; the stage that takes them
    /// verifies them.
    fn accepted(&self, calls: &[StageCall], input: Digest) -> Result<Option<Vec<InputRef>>> {
        let layout = Layout::for_run(&self.run_id);
        let read = |call: &StageCall| {
            let found = AcceptedResult::read(&self.store, &layout.accepted(call.stage, input, call.shard))?;
            Ok(found.map(|accepted| accepted.as_input(call.stage.output_kind())))
        };
        calls.iter().map(read).collect()
    }

    /// Creates the Job of a call, or finds the one that an earlier driver created. A failed Job is replaced for a retry.
    fn start(&self, call: &StageCall, input: Digest, shards: usize, begin_after: Option<&str>) -> Result<String> {
        let name = job_name(&self.run_id, call.stage, &input);
        let place = ObjectPath::named("Job", &self.parameters.installation.namespace, &name);
        let nothing = PodSettings::default();
        let asked = self.asked.get(&call.stage.role()).unwrap_or(&nothing);
        let image = self.image(call, asked)?;
        let avoid = self.serving_nodes(call)?;
        let measures_shards = matches!(&call.parameters, StageParameters::Provision(provision) if provision.shards);
        let load = measures_shards.then(|| self.load_pod());
        let object = stage_job(&StageJob {
            installation: &self.parameters.installation,
            root: &self.parameters.root,
            run_id: &self.run_id,
            input,
            inputs: &call.inputs,
            parameters: &call.parameters,
            trust: self.trust,
            shards: u32::try_from(shards).unwrap_or(u32::MAX),
            timeout: call.policy.timeout,
            retries: call.policy.retries,
            resources: &asked.resources,
            node_selector: &asked.node_selector,
            avoid: &avoid,
            must_avoid: self.intent != Intent::Exploratory,
            image: image.as_deref(),
            overrides: &asked.pod,
            queue: self.parameters.queue.as_deref(),
            start_limit: self.parameters.start_limit,
            load: load.as_ref(),
            begin_after,
        })
        .map_err(|error| Error::Internal(Defect::ParametersNotJson(error.to_string())))?;
        if !self.parameters.cluster.create(&object)? {
            let there: Option<Job> = self.parameters.cluster.get(&place)?;
            let has_failed = matches!(job_state(there.as_ref(), &[], &[], 1), JobState::Failed(_));
            let is_ending = there.as_ref().is_some_and(|job| job.metadata.deletion_timestamp.is_some());
            if has_failed || is_ending || there.is_none() {
                self.end(&name)?;
                if !self.parameters.cluster.create(&object)? {
                    return Err(Error::JobStays(name));
                }
            }
        }
        Ok(name)
    }

    /// Returns the image of a call if it is not the installed one. It has been reviewed, because it is given the stage's key.
    fn image(&self, call: &StageCall, asked: &PodSettings) -> Result<Option<String>> {
        let plan = call.inputs.iter().find(|input| input.kind == Kind::Plan);
        let image = match (&call.parameters, plan) {
            (StageParameters::Execute(execute), Some(input)) => {
                let plan: Manifest<Plan> = load(&self.store, *input)?;
                block_images(&plan.body, asked.image.as_deref())?.remove(&execute.block)
            }
            _ => asked.image.as_deref().map(assay_cluster::named_by_digest),
        };
        image.iter().try_for_each(|image| self.parameters.installation.check_stage_image(image))?;
        Ok(image)
    }

    /// Returns the placement and the limits of a shard of load.
    fn load_pod(&self) -> LoadPod {
        let nothing = PodSettings::default();
        let asked = self.asked.get(&Role::Execute).unwrap_or(&nothing);
        LoadPod::new(&asked.resources, &asked.node_selector, &asked.pod, self.intent != Intent::Exploratory)
    }

    /// Returns the nodes that the block's targets run on, as its Environment states.
    fn serving_nodes(&self, call: &StageCall) -> Result<Vec<String>> {
        if call.stage != StageName::Execute {
            return Ok(Vec::new());
        }
        let nodes: BTreeSet<String> = self.read_placement(call, "node/")?.into_values().collect();
        Ok(nodes.into_iter().collect())
    }

    /// Returns each target's placement under this key, from the Environments of a call.
    fn read_placement(&self, call: &StageCall, key: &str) -> Result<BTreeMap<String, String>> {
        let mut placed = BTreeMap::new();
        for input in call.inputs.iter().filter(|input| input.kind == Kind::Environment) {
            let environment: Manifest<Environment> = load(&self.store, *input)?;
            let of_key = |(name, value): (String, String)| Some((name.strip_prefix(key)?.to_owned(), value));
            placed.extend(environment.body.placement.into_iter().filter_map(of_key));
        }
        Ok(placed)
    }

    /// Waits until the store has accepted the results of a Job, and reports the events of its pods meanwhile. A result is complete
    /// before its pod has ended and before the cluster reports that end, so the run goes on at once.
    fn wait(
        &self,
        job: &str,
        calls: &[StageCall],
        input: Digest,
        told: &mut PodEventReader<'_>,
        observe: &mut dyn FnMut(&StageCall, &Event),
    ) -> Result<Vec<InputRef>> {
        let shards = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let mut waits = StartupWait::default();
        let mut measuring = Shards::default();
        let mut is_scheduled = false;
        loop {
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled(CancelledWork::Stage(self.cancel.reason().unwrap_or("stopped").to_owned())));
            }
            let seen = self.watched.next(LOOK);
            let pods = seen.job_pods(job);
            told.follow(&pods);
            if let Some(call) = calls.first().filter(|_| !is_scheduled && are_scheduled(&pods, shards)) {
                is_scheduled = true;
                observe(call, &Event::Scheduled);
            }
            told.drain(&mut |shard, event| forward_event(calls, shard, event, observe));
            if told.take_accepted(shards) {
                // A log carries no result: it only says when to look for one.
                if let Some(done) = self.accepted(calls, input)? {
                    self.report_pull(&pods, calls, observe);
                    return Ok(done);
                }
            }
            if seen.is_whole && shards > 1 {
                self.break_off(&measuring.take_lost(&pods), calls);
            }
            if seen.is_whole && !seen.jobs.contains_key(job) && waits.should_ask() {
                self.check_job_exists(job)?;
            }
            if let Some(silent) = find_stalled_object(job, &pods).filter(|_| waits.should_ask()) {
                self.ask_obstacles(&mut waits, &silent, seen.jobs.get(job))?;
            }
            match job_state(seen.jobs.get(job), &pods, &waits.events, shards) {
                JobState::Succeeded => {
                    told.finish(LOG_REST, &mut |shard, event| forward_event(calls, shard, event, observe));
                    self.report_pull(&pods, calls, observe);
                    let namespace = self.parameters.installation.namespace.clone();
                    return self.accepted(calls, input)?.ok_or_else(|| Error::NoJobResult { namespace, job: job.to_owned() });
                }
                JobState::Failed(failure) => {
                    told.finish(LOG_REST, &mut |shard, event| forward_event(calls, shard, event, observe));
                    return Err(Error::Job(Box::new(failure)));
                }
                JobState::Running => waits = StartupWait::default(),
                JobState::Waiting(trouble) => {
                    let note = waits.check_obstacle(trouble, self.parameters.start_limit)?;
                    if let (Some(message), Some(call)) = (note, calls.first()) {
                        observe(call, &Event::Note { message });
                    }
                }
            }
        }
    }

    /// Reports how long the images of the slowest pod took, if the cluster states it.
    fn report_pull(&self, pods: &[&Pod], calls: &[StageCall], observe: &mut dyn FnMut(&StageCall, &Event)) {
        let events = self.parameters.cluster.without_retries().pod_events(&self.parameters.installation.namespace, PULLED);
        let pull = events.ok().and_then(|events| longest_pull(pods, &events));
        if let (Some(pull), Some(call)) = (pull, calls.first()) {
            observe(call, &Event::Pulled { duration_ns: u64::try_from(pull.as_nanos()).unwrap_or(u64::MAX) });
        }
    }

    /// Tells the other shards at once that the attempt of a lost shard is over. If that fails, the replacement pod does so once
    /// it has started.
    fn break_off(&self, lost: &[u32], calls: &[StageCall]) {
        let layout = Layout::for_run(&self.run_id);
        for call in calls.iter().filter(|call| call.stage == StageName::Execute && lost.contains(&call.shard.index)) {
            let shard = call.shard.index;
            let broken = self.call_digest(call).map_err(Failure::from);
            let broken = broken.and_then(|input| BrokenMark::write_all(&self.store, &layout, input, call.shard));
            match broken {
                Ok(broken) => {
                    for (trial, attempt) in broken {
                        tracing::info!(%trial, attempt, shard, "broken off: its pod has gone");
                    }
                }
                Err(failure) => tracing::warn!(%failure, shard, "the others cannot be told that its pod has gone"),
            }
        }
    }

    /// Asks the cluster what keeps a Job's pods from starting.
    fn ask_obstacles(&self, waits: &mut StartupWait, silent: &str, job: Option<&Job>) -> Result<()> {
        let (cluster, namespace) = (&self.parameters.cluster, self.parameters.installation.namespace.as_str());
        waits.events = cluster.events(namespace, silent)?;
        // A namespace may have a default queue, so that Jobs without a queue of ours wait too.
        let suspended = job.filter(|job| job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true)));
        waits.queue = suspended.and_then(|job| cluster.queue_message(namespace, job.metadata.uid.as_deref()?));
        Ok(())
    }

    /// Ends a Job with its pods, each of which has its grace period to end in order.
    fn end(&self, job: &str) -> Result<()> {
        self.end_unless(job, || Ok(false))
    }

    /// Ends a Job with its pods, but does not wait for them any more once `is_done`.
    fn end_unless(&self, job: &str, is_done: impl Fn() -> Result<bool>) -> Result<()> {
        let place = ObjectPath::named("Job", &self.parameters.installation.namespace, job);
        // A Job of the same name that another driver creates meanwhile is not deleted.
        if let Some(there) = self.parameters.cluster.get::<Job>(&place)? {
            self.parameters.cluster.delete(&place, there.metadata.uid.as_deref())?;
        }
        let begun = Instant::now();
        // Before the first complete list, the state of the cluster is unknown.
        while self.watched.inspect(|seen| !seen.is_whole || seen.jobs.contains_key(job) || !seen.job_pods(job).is_empty()) {
            if is_done()? {
                return Ok(());
            }
            if begun.elapsed() > END_LIMIT {
                return Err(Error::PodsStay(job.to_owned()));
            }
            self.watched.next(LOOK);
        }
        Ok(())
    }

    /// Checks that a Job still exists while it is waited for: it may have been deleted.
    fn check_job_exists(&self, job: &str) -> Result<()> {
        match self.parameters.cluster.get::<Job>(&ObjectPath::named("Job", &self.parameters.installation.namespace, job))? {
            Some(_) => Ok(()),
            None => Err(Error::JobGone(job.to_owned())),
        }
    }

    /// Checks that the targets that execute's Environment describes are still up: those of an earlier try may have been released
    /// since.
    fn check_targets(&self, call: &StageCall) -> Result<()> {
        let measures = matches!(&call.parameters, StageParameters::Execute(execute) if !execute.close);
        if !measures {
            return Ok(());
        }
        let placed = self.read_placement(call, "pod/")?;
        if placed.is_empty() {
            return Ok(());
        }
        let selector = format!("{RUN}={}", self.run_id);
        let there: Vec<Pod> = self.parameters.cluster.list("Pod", &self.parameters.installation.targets_namespace, &selector)?;
        match find_lost_pod(&placed, &there) {
            None => Ok(()),
            Some((target, pod)) => Err(Error::TargetPodLost { target: target.to_owned(), pod: pod.to_owned() }),
        }
    }

    /// Returns true if a Job has failed and none of its pods run. It is kept with its logs until a retry.
    fn has_failed(&self, job: &str) -> bool {
        let begun = Instant::now();
        // Kubernetes decides that a Job has failed before its last pods have ended.
        while begun.elapsed() < END_LIMIT {
            let (fails, runs) = self.watched.inspect(|seen| {
                let fails = matches!(job_state(seen.jobs.get(job), &[], &[], 1), JobState::Failed(_));
                (fails, seen.job_pods(job).iter().any(|pod| is_live(pod)))
            });
            if !fails || !runs {
                return fails;
            }
            self.watched.next(LOOK);
        }
        false
    }

    fn wait_until_recording(&self, job: &str, look: &mut dyn FnMut(&RunObjects)) -> Result<bool> {
        let (begun, mut waits, mut told) = (Instant::now(), StartupWait::default(), PodEventReader::new(self, job));
        loop {
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled(CancelledWork::Stage(self.cancel.reason().unwrap_or("stopped").to_owned())));
            }
            let seen = self.watched.next(LOOK);
            look(&seen);
            let pods = seen.job_pods(job);
            told.follow(&pods);
            let mut records = false;
            told.drain(&mut |_, event| records |= *event == Event::Recording);
            if records {
                return Ok(true);
            }
            if let Some(silent) = find_stalled_object(job, &pods).filter(|_| waits.should_ask()) {
                self.ask_obstacles(&mut waits, &silent, seen.jobs.get(job))?;
            }
            match job_state(seen.jobs.get(job), &pods, &waits.events, 1) {
                // An earlier process has made this very recording.
                JobState::Succeeded => return Ok(false),
                JobState::Failed(failure) => return Err(Error::Job(Box::new(failure))),
                JobState::Waiting(trouble) => {
                    waits.check_obstacle(trouble, self.parameters.start_limit)?;
                }
                JobState::Running => {}
            }
            if begun.elapsed() > RECORDER_START {
                return Err(Error::RecorderNotStarted(RECORDER_START));
            }
        }
    }
}

impl Runner for KubernetesRunner {
    fn check(&self, plan: &Plan) -> Result<()> {
        // The pods have no index of packages, and most images no interpreter: each trial would fail, one after the other.
        if let Some(variant) = plan.variants.iter().find(|variant| variant.python.is_some()) {
            return Err(Error::StackInCluster(variant.name.to_string()));
        }
        let of_stage = self.asked.get(&Role::Execute).and_then(|asked| asked.image.as_deref());
        let of_blocks: BTreeSet<String> = block_images(plan, of_stage)?.into_values().collect();
        // A refusal that only the last stage would give comes before the measurement.
        let images = self.asked.values().filter_map(|asked| asked.image.as_ref()).chain(&of_blocks);
        Ok(images.into_iter().try_for_each(|image| self.parameters.installation.check_stage_image(image))?)
    }

    fn run(&self, calls: &[StageCall], observe: &mut dyn FnMut(&StageCall, &Event)) -> Vec<Result<InputRef, Failure>> {
        match self.run_job(calls, observe).map_err(Failure::from) {
            Ok(results) => results.into_iter().map(Ok).collect(),
            Err(failure) => calls.iter().map(|_| Err(failure.clone())).collect(),
        }
    }

    fn start_recorder(&self, call: &StageCall) -> Result<()> {
        let input = self.call_digest(call)?;
        let job = self.start(call, input, 1, None)?;
        let pointer = Layout::for_run(&self.run_id).accepted(call.stage, input, call.shard);
        *self.recorder() = Some(Recorder { job, pointer, is_recording: false });
        Ok(())
    }

    fn stop_abandoned_recorder(&self, call: &StageCall) -> Option<Error> {
        let input = match self.call_digest(call) {
            Ok(input) => input,
            Err(error) => return Some(error),
        };
        let job = job_name(&self.run_id, call.stage, &input);
        let pointer = Layout::for_run(&self.run_id).accepted(call.stage, input, call.shard);
        match self.parameters.cluster.get::<Job>(&ObjectPath::named("Job", &self.parameters.installation.namespace, &job)) {
            Ok(None) => None,
            Ok(Some(_)) => {
                *self.recorder() = Some(Recorder { job, pointer, is_recording: true });
                self.stop_recorder()
            }
            Err(error) => Some(error.into()),
        }
    }

    fn stop_recorder(&self) -> Option<Error> {
        let Recorder { job, pointer, is_recording } = self.recorder().take()?;
        if !is_recording {
            return self.end(&job).err();
        }
        // Its last act is that its recording is accepted.
        let is_accepted = || Ok(self.store.read(&pointer, AcceptedResult::MAX_BYTES)?.is_some());
        let ended = self.end_unless(&job, is_accepted).err();
        match self.store.read(&pointer, AcceptedResult::MAX_BYTES) {
            Ok(Some(_)) => None,
            Ok(None) => Some(ended.unwrap_or(Error::NoRecording)),
            Err(error) => Some(error.into()),
        }
    }

    fn release(&self) {
        let (namespace, selector) = (&self.parameters.installation.targets_namespace, format!("{RUN}={}", self.run_id));
        self.is_releasing.store(true, Ordering::Relaxed);
        for kind in TARGET_KINDS {
            if let Err(error) = self.parameters.cluster.delete_all(kind, namespace, &selector) {
                tracing::warn!(failure = %Failure::from(error), kind, "targets of the run stay behind");
            }
        }
    }

    fn wait_until_released(&self) {
        // Targets that an earlier driver holds for this one stay up.
        if !self.is_releasing.swap(false, Ordering::Relaxed) {
            return;
        }
        let (namespace, selector) = (&self.parameters.installation.targets_namespace, format!("{RUN}={}", self.run_id));
        let begun = Instant::now();
        // The next block or run may need the resources that they hold.
        while begun.elapsed() < END_LIMIT {
            match self.parameters.cluster.list::<Pod>("Pod", namespace, &selector) {
                Ok(pods) if !pods.is_empty() => std::thread::sleep(LOOK),
                Ok(_) => return,
                Err(error) => {
                    return tracing::warn!(failure = %Failure::from(error), "whether targets of the run stay behind is not known");
                }
            }
        }
        tracing::warn!("targets of the run do not terminate");
    }
}

impl KubernetesRunner {
    /// A poisoned lock only means that another thread panicked while it held a value that is still valid.
    fn recorder(&self) -> std::sync::MutexGuard<'_, Option<Recorder>> {
        self.recorder.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for KubernetesRunner {
    fn drop(&mut self) {
        if let Some(error) = self.stop_recorder() {
            tracing::debug!(failure = %Failure::from(error), "the recorder did not end in order");
        }
    }
}

/// Returns true if a pod runs or is about to.
fn is_live(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && pod.metadata.deletion_timestamp.is_none()
}

/// Returns a target and a pod of it that is no longer up. The placement's keys are `TARGET` or `TARGET/NUMBER`, its values the
/// pod's name and UID.
fn find_lost_pod<'a>(placed: &'a BTreeMap<String, String>, there: &[Pod]) -> Option<(&'a str, &'a str)> {
    let is_up = |uid: &str| there.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid) && is_live(pod));
    placed.iter().find_map(|(target, pod)| {
        let (name, uid) = pod.split_once('/')?;
        (!is_up(uid)).then(|| (target.split('/').next().unwrap_or(target), name))
    })
}

/// Returns the name of the object to ask the cluster about if a Job makes no progress: the Job if it has no pod, or a pod that is
/// not set up.
fn find_stalled_object(job: &str, pods: &[&Pod]) -> Option<String> {
    match pods {
        [] => Some(job.to_owned()),
        pods => pods.iter().find(|pod| phase(pod) == "Pending").and_then(|pod| pod.metadata.name.clone()),
    }
}

/// Passes an event of a shard to the observer.
fn forward_event(calls: &[StageCall], shard: usize, event: &Event, observe: &mut dyn FnMut(&StageCall, &Event)) {
    if let Some(call) = calls.get(shard) {
        observe(call, event);
    }
}

/// The cause that keeps pods from starting, and since when.
#[derive(Default)]
struct StartupWait {
    since: Option<Instant>,
    told: Option<String>,
    asked: Option<Instant>,
    code: Option<ErrorCode>,
    events: Vec<ClusterEvent>,
    /// The reason for which its queue does not admit the Job, in the queue's words.
    queue: Option<String>,
}

impl StartupWait {
    /// Returns true if it is time to ask the cluster for the reason: not at once, because everything takes a moment.
    fn should_ask(&mut self) -> bool {
        let since = *self.asked.get_or_insert_with(Instant::now);
        let asks = since.elapsed() > ASK_EVENTS;
        if asks {
            self.asked = Some(Instant::now());
        }
        asks
    }

    /// Returns the message about an obstacle, once; a failure if the obstacle lasts too long.
    fn check_obstacle(&mut self, trouble: Option<Trouble>, limit: Duration) -> Result<Option<String>> {
        let Some(trouble) = trouble.map(|trouble| trouble.with_queue_message(self.queue.as_deref())) else {
            self.since = None;
            return Ok(None);
        };
        // Successive different obstacles do not count as one that lasts.
        if self.code != Some(trouble.obstacle.code()) {
            self.since = None;
            self.code = Some(trouble.obstacle.code());
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if trouble.lasts || since.elapsed() > limit {
            return Err(Error::NotStarted { obstacle: Box::new(trouble.obstacle), waited: since.elapsed() });
        }
        let message = format!("waiting: {}", trouble.obstacle);
        if self.told.as_ref() == Some(&message) {
            return Ok(None);
        }
        self.told = Some(message.clone());
        Ok(Some(message))
    }
}

/// Reads the events of a Job's pods from their logs.
struct PodEventReader<'a> {
    parameters: &'a ClusterParameters,
    job: String,
    wakes: Waker,
    /// The shards whose results were accepted, as they say.
    accepted: BTreeSet<usize>,
    followed: BTreeMap<String, usize>,
    sender: Option<SyncSender<LogLine>>,
    lines: Receiver<LogLine>,
}

impl<'a> PodEventReader<'a> {
    fn new(runner: &'a KubernetesRunner, job: &str) -> Self {
        let (sender, lines) = sync_channel(WAITING_LINES);
        Self {
            parameters: &runner.parameters,
            job: job.to_owned(),
            wakes: runner.watched.waker(),
            accepted: BTreeSet::new(),
            followed: BTreeMap::new(),
            sender: Some(sender),
            lines,
        }
    }

    /// Returns true once, when so many shards have said that their results were accepted.
    fn take_accepted(&mut self, shards: u32) -> bool {
        let are_all = self.accepted.len() >= shards as usize;
        if are_all {
            self.accepted.clear();
        }
        are_all
    }

    /// Follows the log of every pod that has begun to write one.
    fn follow(&mut self, pods: &[&Pod]) {
        for pod in pods {
            let Some(name) = pod.metadata.name.as_deref() else { continue };
            if !has_begun(pod) || self.followed.contains_key(name) {
                continue;
            }
            let shard = shards::shard_index(pod).unwrap_or(0) as usize;
            if let Some(sender) = &self.sender {
                self.parameters.cluster.follow(&self.parameters.installation.namespace, name, sender.clone(), self.wakes.clone());
                self.followed.insert(name.to_owned(), shard);
            }
        }
    }

    /// Passes on the events that have arrived so far.
    fn drain(&mut self, observe: &mut dyn FnMut(usize, &Event)) {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.pass_on(&line, observe),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Passes on the remaining events that arrive within `limit`.
    fn finish(&mut self, limit: Duration, observe: &mut dyn FnMut(usize, &Event)) {
        self.sender = None;
        let begun = Instant::now();
        while let Ok(line) = self.lines.recv_timeout(limit.saturating_sub(begun.elapsed())) {
            self.pass_on(&line, observe);
        }
    }

    /// Passes on the event of a line. A line that is no event was written for people, who find it in the pod's log.
    fn pass_on(&mut self, line: &LogLine, observe: &mut dyn FnMut(usize, &Event)) {
        let Ok(event) = serde_json::from_str::<Event>(&line.text) else {
            return tracing::debug!(job = self.job, pod = line.pod, "{}", line.text);
        };
        let shard = self.followed.get(&line.pod).copied().unwrap_or(0);
        if matches!(event, Event::Accepted { .. }) {
            self.accepted.insert(shard);
        }
        observe(shard, &event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_cluster::Obstacle;

    fn trouble(message: &str, lasts: bool) -> Trouble {
        Trouble { obstacle: Obstacle::Unschedulable { pod: "p".to_owned(), detail: message.to_owned() }, lasts }
    }

    #[test]
    fn every_pod_of_a_target_has_to_be_up() {
        let pod = |uid: &str, phase: &str| -> Pod {
            serde_json::from_value(serde_json::json!({"metadata": {"uid": uid}, "status": {"phase": phase}})).expect("a pod")
        };
        let placed = [("one", "a/1"), ("two/0", "b/2"), ("two/1", "c/3")];
        let placed: BTreeMap<_, _> = placed.into_iter().map(|(key, pod)| (key.to_owned(), pod.to_owned())).collect();
        let all = [pod("1", "Running"), pod("2", "Running"), pod("3", "Running"), pod("4", "Failed")];
        assert_eq!(find_lost_pod(&placed, &all), None);
        assert_eq!(find_lost_pod(&placed, &all[1..]), Some(("one", "a")));
        assert_eq!(find_lost_pod(&placed, &[pod("1", "Running"), pod("2", "Running"), pod("3", "Failed")]), Some(("two", "c")));
        assert_eq!(find_lost_pod(&placed, &[]), Some(("one", "a")), "one of the same name would be another");
    }

    #[test]
    fn load_that_its_queue_does_not_admit_is_given_up() {
        let queue = || Some(Trouble { obstacle: Obstacle::Queue { pod: None, message: None }, lasts: false });
        let mut waits = StartupWait::default();
        assert!(waits.check_obstacle(queue(), Duration::from_mins(5)).expect("time is left").is_some());
        assert_eq!(waits.check_obstacle(queue(), Duration::ZERO).expect_err("not admitted in time").code().as_str(), "queue");
    }

    #[test]
    fn what_stands_in_the_way_is_told_once_and_not_waited_for_for_ever() {
        let (mut waits, limit) = (StartupWait::default(), Duration::from_mins(5));
        assert_eq!(waits.check_obstacle(None, limit).expect("no obstacle"), None);
        assert_eq!(
            waits.check_obstacle(Some(trouble("no CPU", false)), limit).expect("time is left"),
            Some("waiting: no node takes the pod `p`: no CPU".to_owned())
        );
        assert_eq!(waits.check_obstacle(Some(trouble("no CPU", false)), limit).expect("time is left"), None);
        assert_eq!(
            waits.check_obstacle(Some(trouble("no memory", false)), limit).expect("time is left"),
            Some("waiting: no node takes the pod `p`: no memory".to_owned())
        );
        assert_eq!(
            waits.check_obstacle(Some(trouble("no CPU", false)), Duration::ZERO).expect_err("for too long").code(),
            ErrorCode::Unschedulable
        );
        assert_eq!(waits.check_obstacle(None, Duration::ZERO).expect("no obstacle"), None, "it has gone");
        assert_eq!(
            StartupWait::default().check_obstacle(Some(trouble("never", true)), limit).expect_err("no use").to_string(),
            "no node takes the pod `p`: never"
        );
    }
}
