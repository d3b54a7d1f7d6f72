//! The faults that are planted: the rule that names each, the rules that name a true consequence of it, and the change of the conditions.
//!
//! The lists of consequences were written before any result was seen, and without the rules: by what a fault does to the other parts. One rule was named later:
//! `other-clients`, which was written because the queue that other clients fill was often found as slower decoding.

use assay_simulator::EngineConfig;

use crate::conditions::{Conditions, Deployment, Quota, Stalls};
use crate::random::Draws;
use crate::recording::{Setup, engine_limit};
use crate::telemetry::Exporters;
use crate::trial::{Arrivals, Work};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    CpuQuota,
    ContainerQuota,
    Neighbours,
    Steal,
    CpuClock,
    Memory,
    Disk,
    PacketLoss,
    PathDelay,
    PathBandwidth,
    OtherTraffic,
    BatchLimit,
    KvCache,
    PrefixCache,
    SlowPrefill,
    SlowDecode,
    LongerResponses,
    LongerPrompts,
    GpuClocks,
    StragglingGpu,
    FabricErrors,
    FailedRequests,
    LateClient,
    AdmissionWaits,
}

/// The rules that name a server whose steps take longer: its requests wait longer for their turn, too.
const SLOWER_SERVER: [&str; 3] = ["server-prefill", "server-decode", "server-queue"];

/// The description of a fault.
pub(crate) struct Description {
    pub(crate) name: &'static str,
    /// The change, with the range that its strength is drawn from.
    pub(crate) change: &'static str,
    /// The rule that names the cause.
    pub(crate) rule: &'static str,
    /// Rules that name a true consequence, beside those of a slower server.
    pub(crate) consequences: &'static [&'static str],
    /// True if the steps of the server take longer, so that [`SLOWER_SERVER`] names consequences, too.
    pub(crate) slows_server: bool,
}

impl Description {
    /// Returns true if a rule names the cause: as the matter of the load's machine, or of a node that node_exporter watches.
    pub(crate) fn has_cause(&self, rule: &str) -> bool {
        rule.strip_prefix("node-").unwrap_or(rule) == self.rule
    }

    /// Returns true if a rule names a true consequence.
    pub(crate) fn has_consequence(&self, rule: &str) -> bool {
        !self.has_cause(rule) && (self.consequences.contains(&rule) || self.slows_server && SLOWER_SERVER.contains(&rule))
    }
}

impl Fault {
    pub(crate) const ALL: [Self; 24] = [
        Self::CpuQuota,
        Self::ContainerQuota,
        Self::Neighbours,
        Self::Steal,
        Self::CpuClock,
        Self::Memory,
        Self::Disk,
        Self::PacketLoss,
        Self::PathDelay,
        Self::PathBandwidth,
        Self::OtherTraffic,
        Self::BatchLimit,
        Self::KvCache,
        Self::PrefixCache,
        Self::SlowPrefill,
        Self::SlowDecode,
        Self::LongerResponses,
        Self::LongerPrompts,
        Self::GpuClocks,
        Self::StragglingGpu,
        Self::FabricErrors,
        Self::FailedRequests,
        Self::LateClient,
        Self::AdmissionWaits,
    ];

    pub(crate) fn description(self) -> Description {
        let (name, change, rule, slows_server, consequences): (_, _, _, _, &'static [&'static str]) = match self {
            Self::CpuQuota => (
                "CPU quota of the measured programs",
                "50 to 100 % of periods of 100 ms end with 3 to 50 ms without a processor",
                "cpu-quota",
                true,
                &["low-gpu-utilization", "network-path", "client-late"],
            ),
            Self::ContainerQuota => (
                "CPU quota of the server's container",
                "the same, of the server alone",
                "container-quota",
                true,
                &["low-gpu-utilization", "network-path"],
            ),
            Self::Neighbours => (
                "busy neighbours",
                "work of processors takes 1.15 to 4 times as long",
                "cpu-contention",
                true,
                &["low-gpu-utilization", "network-path", "client-late"],
            ),
            Self::Steal => (
                "hypervisor steal",
                "9 to 67 % of processor time is stolen",
                "cpu-steal",
                true,
                &["low-gpu-utilization", "network-path", "client-late"],
            ),
            Self::CpuClock => (
                "lower CPU clock",
                "35 to 93 % of the clock",
                "cpu-clock",
                true,
                &["low-gpu-utilization", "network-path", "client-late"],
            ),
            Self::Memory => (
                "memory pressure",
                "3 to 40 % of time in stalls of 20 to 80 ms, with swap",
                "memory-pressure",
                true,
                &["low-gpu-utilization", "network-path", "storage"],
            ),
            Self::Disk => (
                "slow disk",
                "3 to 40 % of time in stalls of 20 to 200 ms",
                "storage",
                true,
                &["low-gpu-utilization", "network-path"],
            ),
            Self::PacketLoss => {
                ("packet loss", "0.2 to 4 % of packets", "packet-loss", false, &["network-path", "low-gpu-utilization"])
            }
            Self::PathDelay => {
                ("delay on the path", "2 to 60 ms in each direction", "network-path", false, &["low-gpu-utilization"])
            }
            Self::PathBandwidth => (
                "less bandwidth on the path",
                "1 to 3 times the mean need of the load",
                "network-path",
                false,
                &["low-gpu-utilization"],
            ),
            Self::OtherTraffic => {
                ("queue filled by other clients", "0.3 to 2 requests of others for each own", "other-clients", true, &[])
            }
            Self::BatchLimit => (
                "smaller batch limit",
                "40 to 95 % of the requests in flight",
                "batch-limit",
                false,
                &["server-queue", "low-gpu-utilization"],
            ),
            Self::KvCache => (
                "KV cache too small",
                "30 to 90 % of the blocks of the requests in flight",
                "kv-cache-full",
                true,
                &["prefix-cache"],
            ),
            Self::PrefixCache => {
                ("prefix cache off or smaller", "off, or 20 to 80 % of the shared blocks", "prefix-cache", true, &[])
            }
            Self::SlowPrefill => ("slower prefill", "1.2 to 4 times as long", "server-prefill", true, &[]),
            Self::SlowDecode => ("slower decode", "1.1 to 2.5 times as long", "server-decode", true, &[]),
            Self::LongerResponses => ("longer responses", "1.08 to 2.5 times the tokens", "longer-responses", true, &[]),
            Self::LongerPrompts => (
                "longer prompts, by the server's template",
                "1.15 to 4 times the tokens",
                "longer-prompts",
                true,
                &["prefix-cache"],
            ),
            Self::GpuClocks => ("lower clocks of all GPUs", "50 to 93 % of the clock", "gpu-clock", true, &[]),
            Self::StragglingGpu => ("one straggling GPU", "40 to 92 % of the clock of one", "gpu-straggler", true, &[]),
            Self::FabricErrors => (
                "NVLink errors",
                "5 to 5,000 replays/s on 1 to all GPUs, transfers 1.1 to 2 times as long",
                "gpu-fabric",
                true,
                &[],
            ),
            Self::FailedRequests => {
                ("failed requests", "1 to 40 % get status 500", "failed-requests", false, &["low-gpu-utilization"])
            }
            Self::LateClient => (
                "late client",
                "requests 3 to 80 ms late, chunks stamped 1 to 20 ms late",
                "client-late",
                false,
                &["network-path", "low-gpu-utilization"],
            ),
            Self::AdmissionWaits => ("admission waits of jobs", "1.3 to 20 times as long", "scheduler-wait", false, &[]),
        };
        Description { name, change, rule, consequences, slows_server }
    }

    /// Returns true if the client's records show the fault, without any telemetry.
    pub(crate) fn is_in_records(self) -> bool {
        matches!(self, Self::LongerResponses | Self::LongerPrompts | Self::PrefixCache)
    }

    /// Returns the beginning of the source that sees the fault, as findings name it; `None` if only the client's records show it, or several
    /// sources together.
    pub(crate) fn place(self, deployment: Deployment) -> Option<&'static str> {
        Some(match self {
            Self::CpuQuota => "host",
            Self::Neighbours | Self::Steal | Self::CpuClock | Self::Memory | Self::Disk => match deployment {
                Deployment::OneMachine => "host",
                Deployment::Cluster => "exporter/node",
            },
            Self::ContainerQuota => "exporter/cadvisor",
            Self::GpuClocks | Self::StragglingGpu | Self::FabricErrors => "exporter/dcgm",
            Self::AdmissionWaits => "exporter/kueue",
            Self::PacketLoss | Self::PathDelay | Self::PathBandwidth | Self::LateClient | Self::FailedRequests => return None,
            _ => "endpoint/",
        })
    }

    /// Restricts what is drawn for a recording to what the fault needs; returns false if another fault forbids it.
    pub(crate) fn restrict(self, setup: &mut Restrictions) -> bool {
        let needs = match self {
            Self::CpuQuota => {
                Restrictions { deployment: Some(Deployment::OneMachine), two_runs: true, ..Restrictions::default() }
            }
            Self::ContainerQuota => Restrictions {
                deployment: Some(Deployment::Cluster),
                two_runs: true,
                exporters: Exporters { containers: true, ..Exporters::default() },
                ..Restrictions::default()
            },
            Self::Neighbours | Self::Steal | Self::CpuClock | Self::Memory | Self::Disk => Restrictions {
                two_runs: true,
                exporters: Exporters { node: true, ..Exporters::default() },
                ..Restrictions::default()
            },
            Self::PacketLoss => Restrictions {
                deployment: Some(Deployment::Cluster),
                two_runs: true,
                exporters: Exporters { node: true, ..Exporters::default() },
                ..Restrictions::default()
            },
            Self::PathDelay => Restrictions { deployment: Some(Deployment::Cluster), two_runs: true, ..Restrictions::default() },
            Self::PathBandwidth => {
                Restrictions { deployment: Some(Deployment::Cluster), two_runs: true, open: true, ..Restrictions::default() }
            }
            Self::OtherTraffic => Restrictions { open: true, ..Restrictions::default() },
            Self::KvCache => Restrictions { batching: true, ..Restrictions::default() },
            Self::PrefixCache => Restrictions { prefix_cache: true, ..Restrictions::default() },
            Self::GpuClocks | Self::StragglingGpu | Self::FabricErrors => Restrictions {
                two_runs: true,
                exporters: Exporters { gpus: true, all_gpu_counters: self == Self::FabricErrors, ..Exporters::default() },
                ..Restrictions::default()
            },
            Self::LateClient => Restrictions { open: true, two_runs: true, ..Restrictions::default() },
            Self::AdmissionWaits => Restrictions {
                deployment: Some(Deployment::Cluster),
                two_runs: true,
                jobs: true,
                exporters: Exporters { kueue: true, ..Exporters::default() },
                ..Restrictions::default()
            },
            Self::BatchLimit
            | Self::SlowPrefill
            | Self::SlowDecode
            | Self::LongerResponses
            | Self::LongerPrompts
            | Self::FailedRequests => Restrictions::default(),
        };
        setup.add(needs)
    }

    /// Prepares both sides of a recording, so that the fault has something to act on.
    pub(crate) fn prepare(self, setup: &mut Setup, draws: &mut Draws) {
        if self == Self::OtherTraffic {
            // A limit that the own load stays below and both loads together do not.
            let limit = libm::ceil(f64::from(setup.in_flight) * draws.between(1.3, 2.0)) as u32 + 1;
            *engine_limit(&mut setup.healthy.engine) = limit;
        }
        if self == Self::CpuQuota && draws.chance(0.5) {
            setup.healthy.client_machine.quota = Some(Quota { throttled: draws.between(0.0, 0.01), throttled_s: 0.005 });
        }
        if self == Self::ContainerQuota && draws.chance(0.7) {
            setup.healthy.container.quota = Some(Quota { throttled: draws.between(0.0, 0.02), throttled_s: 0.005 });
        }
    }

    /// Plants the fault in the conditions of a trial.
    pub(crate) fn plant(self, conditions: &mut Conditions, setup: &Setup, work: &Work, draws: &mut Draws) {
        let shared_machine = conditions.deployment == Deployment::OneMachine;
        let in_flight = f64::from(work.in_flight);
        match self {
            Self::CpuQuota | Self::ContainerQuota => {
                let (periods, share) = (draws.between(0.5, 1.0), draws.log_between(0.03, 0.5));
                let stops_client = self == Self::CpuQuota;
                conditions.stalls.push(Stalls::Quota { periods, share, stops_client });
                let processors = draws.between(1.0, 4.0);
                let quota = Some(Quota { throttled: periods, throttled_s: 0.1 * share * processors });
                if stops_client {
                    conditions.client_machine.quota = quota;
                } else {
                    conditions.container.quota = quota;
                }
            }
            Self::Neighbours => {
                let factor = draws.log_between(1.15, 4.0);
                conditions.slowdown.cpu *= factor;
                let taken = draws.between(0.6, 1.0);
                let machine = conditions.server_machine_mut();
                machine.busy += (0.98 - machine.busy).max(0.0) * taken;
                machine.cpu_pressure = (machine.cpu_pressure + 1.0 - 1.0 / factor).min(0.99);
                machine.switches_per_s *= 1.0 + draws.between(0.2, 2.0);
                delay_client(conditions, shared_machine, (factor - 1.0) * draws.between(0.2, 2.0));
            }
            Self::Steal => {
                let factor = draws.log_between(1.1, 3.0);
                conditions.slowdown.cpu *= factor;
                let machine = conditions.server_machine_mut();
                machine.steal = (1.0 - 1.0 / factor).min(0.9 - machine.iowait);
                machine.busy = machine.busy.min(0.95 - machine.steal - machine.iowait);
                delay_client(conditions, shared_machine, (factor - 1.0) * draws.between(0.1, 1.0));
            }
            Self::CpuClock => {
                let share = draws.between(0.35, 0.93);
                conditions.slowdown.cpu /= share;
                let machine = conditions.server_machine_mut();
                machine.clock_khz *= share;
                machine.busy = (machine.busy / share).min(0.97);
                delay_client(conditions, shared_machine, (1.0 / share - 1.0) * draws.between(0.05, 0.3));
            }
            Self::Memory => {
                let share = draws.log_between(0.03, 0.4);
                conditions.stalls.push(Stalls::Bursts { share, mean_ms: draws.between(20.0, 80.0) });
                let machine = conditions.server_machine_mut();
                let some = (share * draws.between(1.0, 1.5)).min(0.95);
                machine.memory_pressure = [some, some * draws.between(0.4, 0.9)];
                machine.io_pressure = machine.io_pressure.map(|io| io + 0.5 * share);
                machine.available = draws.between(0.01, 0.06);
                machine.major_faults_per_s += draws.log_between(100.0, 3_000.0);
                machine.swapped_pages_per_s += draws.log_between(200.0, 20_000.0);
                machine.disk_busy = (machine.disk_busy + share).min(1.0);
                machine.disk_bytes_per_s += 4_096.0 * machine.swapped_pages_per_s;
            }
            Self::Disk => {
                let share = draws.log_between(0.03, 0.4);
                conditions.stalls.push(Stalls::Bursts { share, mean_ms: draws.between(20.0, 200.0) });
                let machine = conditions.server_machine_mut();
                let some = (share * draws.between(1.0, 1.6)).min(0.95);
                machine.io_pressure = [machine.io_pressure[0] + some, machine.io_pressure[1] + some * draws.between(0.4, 0.9)];
                machine.iowait = (machine.iowait + share * draws.between(1.0, 4.0) / f64::from(machine.cores)).min(0.5);
                machine.disk_busy = (machine.disk_busy + share * draws.between(1.0, 3.0)).min(1.0);
            }
            Self::PacketLoss => conditions.path.loss = draws.log_between(0.002, 0.04),
            Self::PathDelay => conditions.path.one_way_ms += draws.log_between(2.0, 60.0),
            Self::PathBandwidth => {
                let Arrivals::Open(rate) = work.arrivals else { return };
                let [up, down] = [5.0 * (work.prompt_tokens + f64::from(work.shared_tokens)), 300.0 * work.response_tokens];
                conditions.path.bytes_per_s = Some(rate * up.max(down) * draws.log_between(1.0, 3.0));
            }
            Self::OtherTraffic => conditions.other_traffic = draws.log_between(0.3, 2.0),
            Self::BatchLimit => {
                *engine_limit(&mut conditions.engine) = ((in_flight * draws.between(0.4, 0.95)) as u32).max(1);
            }
            Self::KvCache => {
                if let EngineConfig::Batching(batching) = &mut conditions.engine {
                    let tokens = work.prompt_tokens + f64::from(work.shared_tokens) + work.response_tokens;
                    let blocks = in_flight * tokens / f64::from(batching.block_tokens);
                    batching.kv_blocks = (blocks * draws.between(0.3, 0.9)) as u32 + 1;
                }
            }
            Self::PrefixCache => {
                let kept = draws.between(0.2, 0.8);
                let is_smaller = draws.chance(0.5);
                match &mut conditions.engine {
                    EngineConfig::PerRequest(latency) if is_smaller => {
                        let shared = work.groups * (work.shared_tokens / latency.block_tokens.max(1));
                        latency.kv_blocks = (f64::from(shared) * kept) as u32 + 1;
                    }
                    EngineConfig::PerRequest(latency) => latency.prefix_cache = false,
                    EngineConfig::Batching(batching) => batching.prefix_cache = false,
                }
            }
            Self::SlowPrefill => conditions.slowdown.prefill *= draws.log_between(1.2, 4.0),
            Self::SlowDecode => {
                let factor = draws.log_between(1.1, 2.5);
                conditions.slowdown.decode *= factor;
                if let EngineConfig::Batching(batching) = &mut conditions.engine {
                    // A step of decoding has most of its time in common with all tokens.
                    batching.step.base_ns *= factor;
                }
            }
            Self::LongerResponses => conditions.response_factor *= draws.log_between(1.08, 2.5),
            Self::LongerPrompts => conditions.prompt_factor *= draws.log_between(1.15, 4.0),
            Self::GpuClocks => {
                let (share, by_heat) = (draws.between(0.5, 0.93), draws.chance(0.5));
                slow_gpus(conditions, share);
                conditions.gpus.iter_mut().for_each(|gpu| hold_down(gpu, share, by_heat, draws));
            }
            Self::StragglingGpu => {
                let (share, by_heat) = (draws.between(0.4, 0.92), draws.chance(0.5));
                // Each step ends when the slowest GPU is done.
                slow_gpus(conditions, share);
                let place = setup.straggler as usize % conditions.gpus.len();
                hold_down(&mut conditions.gpus[place], share, by_heat, draws);
            }
            Self::FabricErrors => {
                conditions.slowdown.memory *= draws.log_between(1.1, 2.0);
                let (replays, first) = (draws.log_between(5.0, 5_000.0), draws.below(conditions.gpus.len() as u32) as usize);
                let everywhere = draws.chance(0.5);
                for (place, gpu) in conditions.gpus.iter_mut().enumerate() {
                    if everywhere || place == first {
                        gpu.link_replays_per_s += replays * draws.between(0.5, 1.5);
                    }
                }
            }
            Self::FailedRequests => conditions.failing = draws.log_between(0.01, 0.4),
            Self::LateClient => {
                conditions.client.late_ms += draws.log_between(3.0, 80.0);
                conditions.client.receive_ms += draws.log_between(1.0, 20.0);
            }
            Self::AdmissionWaits => conditions.admission.wait_s *= draws.log_between(1.3, 20.0),
        }
    }
}

/// Delays a client that shares the machine with the server.
fn delay_client(conditions: &mut Conditions, shared_machine: bool, late_ms: f64) {
    if shared_machine {
        conditions.client.late_ms += late_ms;
        conditions.client.receive_ms += 0.5 * late_ms;
    }
}

/// Slows the work that the clock of the GPUs bounds, and by less what their memory bounds.
fn slow_gpus(conditions: &mut Conditions, share: f64) {
    conditions.slowdown.compute /= share;
    conditions.slowdown.memory *= 1.0 + 0.4 * (1.0 / share - 1.0);
}

/// Lowers the clock of a GPU, by its heat or by a limit of its power.
fn hold_down(gpu: &mut crate::conditions::Gpu, share: f64, by_heat: bool, draws: &mut Draws) {
    gpu.sm_mhz *= share;
    if by_heat {
        gpu.celsius += draws.between(8.0, 20.0);
        gpu.thermal = draws.between(0.3, 0.95);
    } else {
        gpu.powercap = draws.between(0.3, 0.95);
    }
    gpu.busy_watts = gpu.idle_watts + (gpu.busy_watts - gpu.idle_watts) * share;
}

/// The limits of what is drawn for a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Restrictions {
    pub(crate) deployment: Option<Deployment>,
    pub(crate) open: bool,
    pub(crate) batching: bool,
    pub(crate) prefix_cache: bool,
    pub(crate) two_runs: bool,
    /// True if the work is jobs that a queue admits.
    pub(crate) jobs: bool,
    /// The exporters that have to be there.
    pub(crate) exporters: Exporters,
}

impl Restrictions {
    fn add(&mut self, other: Self) -> bool {
        let agrees = self.deployment.is_none() || other.deployment.is_none() || self.deployment == other.deployment;
        self.deployment = self.deployment.or(other.deployment);
        self.open |= other.open;
        self.batching |= other.batching;
        self.prefix_cache |= other.prefix_cache;
        self.two_runs |= other.two_runs;
        self.jobs |= other.jobs;
        let (mine, theirs) = (&mut self.exporters, other.exporters);
        mine.node |= theirs.node;
        mine.gpus |= theirs.gpus;
        mine.all_gpu_counters |= theirs.all_gpu_counters;
        mine.containers |= theirs.containers;
        mine.kueue |= theirs.kueue;
        agrees
    }
}
