//! Execution parts and checkpoints: the work of one shard, attempt by attempt.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{
    Artifact, Block, CaseId, Count, Digest, Executable, InputRef, InstalledStack, Instant, Name, PlannedTrial, PointId, Reason,
    ServingOutcome, Shard, TrialId, Validity, Window,
};

words!(
    /// The status of an attempt.
    AttemptStatus, "status of an attempt",
    /// It ran to its end and gave a result.
    Completed = "completed",
    /// The measured program ended with a failure.
    Failed = "failed",
    /// The output of the measured program is not a result.
    Malformed = "malformed",
    /// It reached its time limit and was stopped.
    TimedOut = "timed_out",
    /// Its preparation failed, so it never ran.
    NotPrepared = "not_prepared",
    /// The stage or its machine disappeared during the attempt.
    Interrupted = "interrupted",
    /// A person stopped the run during the attempt.
    Cancelled = "cancelled",
);

/// CPU time, memory and waits of a tree of processes: the sixteen fields of `getrusage`, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceUsage {
    /// User CPU time in microseconds.
    pub utime_us: Count,
    /// System CPU time in microseconds.
    pub stime_us: Count,
    /// Largest resident set of any one process, in KiB.
    pub maxrss_kib: Count,
    /// Shared text memory; 0 on Linux.
    pub ixrss: Count,
    /// Unshared data memory; 0 on Linux.
    pub idrss: Count,
    /// Unshared stack memory; 0 on Linux.
    pub isrss: Count,
    /// Page faults without input.
    pub minflt: Count,
    /// Page faults with input.
    pub majflt: Count,
    /// Swaps; 0 on Linux.
    pub nswap: Count,
    /// Block input operations.
    pub inblock: Count,
    /// Block output operations.
    pub oublock: Count,
    /// Messages sent; 0 on Linux.
    pub msgsnd: Count,
    /// Messages received; 0 on Linux.
    pub msgrcv: Count,
    /// Signals received; 0 on Linux.
    pub nsignals: Count,
    /// Voluntary context switches.
    pub nvcsw: Count,
    /// Involuntary context switches.
    pub nivcsw: Count,
}

/// The state of a host at one instant, for finding disturbances of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostState {
    /// The time of the readings.
    pub at: Instant,
    /// Runnable tasks averaged over one minute; absent if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load_1m: Option<f64>,
    /// Available memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_available_bytes: Option<Count>,
    /// CPU time of all CPUs in user, nice and system mode since boot, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_busy_us: Option<Count>,
    /// CPU time of the run's own processes in user and system mode, in microseconds: Assay's stages, the targets that it holds
    /// and their child processes. Absent if the processes of the machine cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own_cpu_us: Option<Count>,
    /// CPU time taken by other guests of the hypervisor since boot, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_steal_us: Option<Count>,
    /// CPU time in soft interrupts of all CPUs since boot, such as the handling of received packets, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_softirq_us: Option<Count>,
    /// CPU time of all CPUs since boot, idle or not, in microseconds: the whole that a share of CPU time is of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_total_us: Option<Count>,
    /// Time that this control group was throttled, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cgroup_throttled_us: Option<Count>,
    /// Time since boot during which some task of the machine waited for a CPU (PSI `some`), in microseconds; absent if the kernel
    /// does not count it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_pressure_us: Option<Count>,
    /// The same of this control group alone; absent if the kernel does not count it for groups.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cgroup_pressure_us: Option<Count>,
    /// TCP segments sent since boot, of this network namespace, without those sent again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp_sent_segments: Option<Count>,
    /// TCP segments sent again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp_retransmitted_segments: Option<Count>,
    /// TCP segments dropped because their socket had no room for them: the reader is too slow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp_receive_drops: Option<Count>,
    /// Current frequency of each CPU in kHz.
    pub frequencies_khz: Vec<Count>,
    /// Temperatures in thousandths of a degree Celsius, by sensor.
    pub temperatures_millicelsius: BTreeMap<String, i32>,
}

impl HostState {
    /// Creates a state of which nothing could be read.
    pub fn at(at: Instant) -> Self {
        Self {
            at,
            load_1m: None,
            memory_available_bytes: None,
            cpu_busy_us: None,
            own_cpu_us: None,
            cpu_steal_us: None,
            cpu_softirq_us: None,
            cpu_total_us: None,
            cgroup_throttled_us: None,
            cpu_pressure_us: None,
            cgroup_pressure_us: None,
            tcp_sent_segments: None,
            tcp_retransmitted_segments: None,
            tcp_receive_drops: None,
            frequencies_khz: Vec::new(),
            temperatures_millicelsius: BTreeMap::new(),
        }
    }
}

/// The result of one attempt of an indicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndicatorOutcome {
    /// The digest of the executed script; absent for a command, whose program is among the executables.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub script_sha256: Option<Digest>,
    /// The files that it executes, as far as its first lines and its variables name them: the script, the interpreters of its
    /// `#!` lines, and executable files that plain variables name. Programs that a script starts by itself are not observed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub executables: Vec<Executable>,
    /// The exit code; absent if a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal: Option<i32>,
    /// The resource usage of its process tree.
    pub usage: ResourceUsage,
    /// Processes that it left running and that Assay ended.
    pub leftovers: u32,
    /// Parameters that it was given.
    pub parameters: BTreeMap<String, String>,
    /// The name in its document; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The component (also spelled `framework`) in its document.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub component: Option<String>,
    /// The reason why its output is not a result.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub malformed: Option<String>,
}

/// The place of a process in a cluster, as passed to its pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodPlace {
    /// The node.
    pub node: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The UID of the Job that made the pod.
    pub job_uid: String,
}

/// One attempt at a trial. Finished attempts are kept, valid or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The trial.
    pub trial_id: TrialId,
    /// The case.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// The number of the attempt, from 0.
    pub attempt: u32,
    /// The time in which it ran.
    pub window: Window,
    /// In a cluster: the place where it ran.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<PodPlace>,
    /// Its status.
    pub status: AttemptStatus,
    /// Its validity, with every reason against it.
    pub validity: Validity,
    /// For indicators: its result.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub indicator: Option<IndicatorOutcome>,
    /// For serving: the results of this shard.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub serving: Option<ServingOutcome>,
    /// For serving: the CPUs that the load generator's threads were allowed to use, as the kernel reports them
    /// (`Cpus_allowed_list`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allowed_cpus: Option<String>,
    /// The state of the host before it; absent if the attempt was interrupted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host_before: Option<HostState>,
    /// The state of the host after it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host_after: Option<HostState>,
    /// Its raw outputs, kept byte for byte.
    pub evidence: Vec<Artifact>,
}

impl Attempt {
    /// The name, within the attempt's evidence, of the document with a command's times.
    pub const MEASURED: &str = "measured";

    /// Returns the times of its command, if it ran one.
    pub fn command_times(&self) -> Option<&Artifact> {
        self.named(Self::MEASURED)
    }

    /// Returns the raw output that an indicator's values were read from: the output of its script, or the measurements of its
    /// command.
    pub fn result(&self) -> Option<&Artifact> {
        self.command_times().or_else(|| self.named("stdout"))
    }

    /// Returns the raw records of the requests of a serving attempt.
    pub fn records(&self) -> Option<&Artifact> {
        self.named("records.parquet")
    }

    /// Returns what its script printed to `stdout` or `stderr`.
    pub fn output(&self, name: &str) -> Option<&Artifact> {
        self.named(name)
    }

    fn named(&self, name: &str) -> Option<&Artifact> {
        self.evidence.iter().find(|artifact| artifact.name.rsplit('/').next() == Some(name))
    }

    /// Creates an attempt with nothing but its window, status and reasons.
    pub fn new(trial: &PlannedTrial, attempt: u32, window: Window, status: AttemptStatus, reasons: Vec<Reason>) -> Self {
        Self {
            trial_id: trial.trial_id.clone(),
            case_id: trial.case_id.clone(),
            point_id: trial.point_id.clone(),
            attempt,
            window,
            place: None,
            status,
            validity: Validity::from_reasons(reasons),
            indicator: None,
            serving: None,
            allowed_cpus: None,
            host_before: None,
            host_after: None,
            evidence: Vec::new(),
        }
    }
}

impl ExecutionPart {
    /// Returns an attempt of the part by its trial and its number. The numbers of another incarnation of the block begin anew.
    pub fn find_attempt(&self, trial: &TrialId, number: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.trial_id == *trial && attempt.attempt == number)
    }
}

/// The result of a workload's preparation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreparationResult {
    /// The workload.
    pub workload: Name,
    /// True if all of it succeeded.
    pub succeeded: bool,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// The exit code; absent if a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// The files that it made, with their digests, and its output.
    pub outputs: Vec<Artifact>,
}

/// A finished step of execute (an attempt, a preparation or an installation), signed separately so that a resumed stage can trust it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The block.
    pub block: Block,
    /// The shard.
    pub shard: Shard,
    /// The input digest of the stage that made it.
    pub input_digest: Digest,
    /// The preparation, if the step is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prepared: Option<PreparationResult>,
    /// The installed packages of a variant, if the step is their installation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stack: Option<InstalledStack>,
    /// The attempt, if the step is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempt: Option<Attempt>,
}

body!(Checkpoint, |checkpoint| {
    let prepared = checkpoint.prepared.iter().flat_map(|prepared| &prepared.outputs);
    let installed = checkpoint.stack.iter().flat_map(|stack| &stack.outputs);
    prepared.chain(installed).chain(checkpoint.attempt.iter().flat_map(|attempt| &attempt.evidence)).collect()
});

/// The work of one shard in one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionPart {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The block.
    pub block: Block,
    /// The shard.
    pub shard: Shard,
    /// For serving: the digest over the whole schedule of each trial, by trial.
    pub schedule_digests: BTreeMap<TrialId, Digest>,
    /// The results of the preparations.
    pub prepared: Vec<PreparationResult>,
    /// The installed packages of each variant that states some.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stacks: Vec<InstalledStack>,
    /// The attempts, in the order in which they ran.
    pub attempts: Vec<Attempt>,
    /// The checkpoints of an earlier process of this stage that attempts were taken from.
    pub resumed: Vec<InputRef>,
}

body!(ExecutionPart, |part| {
    let prepared = part.prepared.iter().flat_map(|prepared| &prepared.outputs);
    let installed = part.stacks.iter().flat_map(|stack| &stack.outputs);
    prepared.chain(installed).chain(part.attempts.iter().flat_map(|attempt| &attempt.evidence)).collect()
});
