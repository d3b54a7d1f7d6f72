//! The physical state of everything that takes part in a trial. Natural variation and faults change it; client and telemetry follow from it.

use assay_simulator::EngineConfig;

/// The machines of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// Client and server share the machine that the recorder runs on.
    OneMachine,
    /// The server has a node of its own, with GPUs, that exporters observe.
    Cluster,
}

/// The state of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) deployment: Deployment,
    /// The engine before the factors below.
    pub(crate) engine: EngineConfig,
    /// The share of a step, or of a request's fixed time, that the processor takes and not the GPUs.
    pub(crate) cpu_share: f64,
    pub(crate) slowdown: Slowdown,
    pub(crate) stalls: Vec<Stalls>,
    /// The factor of prompts as the server counts them, such as by a longer template.
    pub(crate) prompt_factor: f64,
    /// The factor of the lengths of responses.
    pub(crate) response_factor: f64,
    /// The share of requests that fail at once.
    pub(crate) failing: f64,
    /// The requests of other clients for each one of this client.
    pub(crate) other_traffic: f64,
    pub(crate) path: Path,
    pub(crate) client: Client,
    /// The machine of the client, and in [`Deployment::OneMachine`] of the server.
    pub(crate) client_machine: Machine,
    /// The node of the server.
    pub(crate) server_machine: Machine,
    pub(crate) container: Container,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) admission: Admission,
}

impl Conditions {
    /// Returns the machine that the server runs on.
    pub(crate) fn server_machine_mut(&mut self) -> &mut Machine {
        match self.deployment {
            Deployment::OneMachine => &mut self.client_machine,
            Deployment::Cluster => &mut self.server_machine,
        }
    }

    /// Returns the engine as it runs.
    pub(crate) fn effective_engine(&self) -> EngineConfig {
        let Slowdown { cpu, compute, memory, prefill, decode, all } = self.slowdown;
        let fixed = self.cpu_share * cpu;
        let (of_memory, of_compute) = (fixed + (1.0 - self.cpu_share) * memory, fixed + (1.0 - self.cpu_share) * compute);
        let mut engine = self.engine.clone();
        match &mut engine {
            EngineConfig::Batching(batching) => {
                let step = &mut batching.step;
                step.base_ns *= of_memory * all;
                step.prefill_token_ns *= compute * prefill * all;
                step.decode_token_ns *= 0.5 * (compute + memory) * decode * all;
            }
            EngineConfig::PerRequest(latency) => {
                let scaled = |ns: i64, factor: f64| libm::round(ns as f64 * factor) as i64;
                latency.ttft_ns = scaled(latency.ttft_ns, of_compute * prefill * all);
                latency.ttft_jitter_ns = scaled(latency.ttft_jitter_ns, of_compute * prefill * all);
                latency.prefill_per_token_ns = scaled(latency.prefill_per_token_ns, compute * prefill * all);
                latency.itl_ns = scaled(latency.itl_ns, of_memory * decode * all);
                latency.itl_jitter_ns = scaled(latency.itl_jitter_ns, of_memory * decode * all);
            }
        }
        engine
    }

    /// Returns the share of time for which the GPUs compute while the engine has requests.
    pub(crate) fn gpu_share(&self) -> f64 {
        let gpu = (1.0 - self.cpu_share) * f64::midpoint(self.slowdown.compute, self.slowdown.memory);
        let stalled: f64 = self.stalls.iter().map(Stalls::share).sum();
        gpu / (gpu + self.cpu_share * self.slowdown.cpu) * (1.0 - stalled).max(0.05)
    }
}

/// The factors of the parts of an engine's times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowdown {
    /// Work of the processor.
    pub(crate) cpu: f64,
    /// Work that the clock of the GPUs bounds.
    pub(crate) compute: f64,
    /// Work that the memory of the GPUs, and what connects them, bounds.
    pub(crate) memory: f64,
    /// The computation of prompts, by the server's program.
    pub(crate) prefill: f64,
    /// The computation of later tokens, by the server's program.
    pub(crate) decode: f64,
    /// Everything.
    pub(crate) all: f64,
}

impl Slowdown {
    pub(crate) const NONE: Self = Self { cpu: 1.0, compute: 1.0, memory: 1.0, prefill: 1.0, decode: 1.0, all: 1.0 };
}

/// Times in which the server does nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stalls {
    /// The end of enforcement periods of 100 ms, as a quota of processor time causes.
    Quota {
        /// The share of periods that end in a stall.
        periods: f64,
        /// The share of such a period for which it lasts.
        share: f64,
        /// True if the client is in the same control group.
        stops_client: bool,
    },
    /// Stalls at random times.
    Bursts {
        /// The share of time that is stalled.
        share: f64,
        /// The mean length, in milliseconds.
        mean_ms: f64,
    },
}

impl Stalls {
    /// Returns the share of time that is stalled.
    pub(crate) fn share(&self) -> f64 {
        match self {
            Self::Quota { periods, share, .. } => periods * share,
            Self::Bursts { share, .. } => *share,
        }
    }
}

/// The network between client and server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The delay of a packet in one direction, in milliseconds.
    pub(crate) one_way_ms: f64,
    /// The sigma of its factor.
    pub(crate) jitter_sigma: f64,
    /// The share of packets that are lost.
    pub(crate) loss: f64,
    /// The bandwidth of each direction; `None` if it is no limit.
    pub(crate) bytes_per_s: Option<f64>,
}

/// The client's own delays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// The median delay of a request, in milliseconds.
    pub(crate) late_ms: f64,
    /// The sigma of its factor.
    pub(crate) late_sigma: f64,
    /// The median delay until the client stamps a chunk, in milliseconds.
    pub(crate) receive_ms: f64,
}

/// A machine, as its counters show it: means over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) cores: u32,
    /// The share of all processors' time that programs use.
    pub(crate) busy: f64,
    pub(crate) iowait: f64,
    pub(crate) steal: f64,
    /// The shares of time in which some task, or all tasks, waited for a processor, for memory, and for a disk.
    pub(crate) cpu_pressure: f64,
    pub(crate) memory_pressure: [f64; 2],
    pub(crate) io_pressure: [f64; 2],
    pub(crate) switches_per_s: f64,
    pub(crate) memory_bytes: f64,
    /// The share of memory that is available.
    pub(crate) available: f64,
    pub(crate) major_faults_per_s: f64,
    pub(crate) swapped_pages_per_s: f64,
    /// The share of time for which the disk is busy.
    pub(crate) disk_busy: f64,
    pub(crate) disk_bytes_per_s: f64,
    pub(crate) network_bytes_per_s: f64,
    /// TCP segments sent again for reasons that are not planted.
    pub(crate) retransmits_per_s: f64,
    pub(crate) clock_khz: f64,
    pub(crate) celsius: f64,
    /// The quota of the control group of the measured programs; `None` if it has none.
    pub(crate) quota: Option<Quota>,
}

/// The enforcement of a quota of processor time, in periods of 100 ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    /// The share of periods in which the group was throttled.
    pub(crate) throttled: f64,
    /// The throttled time of such a period, summed over processors, in seconds.
    pub(crate) throttled_s: f64,
}

/// The server's container, as cAdvisor shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    pub(crate) quota: Option<Quota>,
    pub(crate) cpus_used: f64,
    pub(crate) memory_bytes: f64,
}

/// A GPU, as dcgm-exporter shows it: means over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gpu {
    pub(crate) sm_mhz: f64,
    pub(crate) memory_mhz: f64,
    pub(crate) celsius: f64,
    pub(crate) idle_watts: f64,
    pub(crate) busy_watts: f64,
    /// The factor of its utilisation: another share of the model, another placement.
    pub(crate) use_factor: f64,
    /// NVLink packets sent again.
    pub(crate) link_replays_per_s: f64,
    /// The share of time for which heat or the limit of power holds its clock down.
    pub(crate) thermal: f64,
    pub(crate) powercap: f64,
}

/// The queue of a cluster that jobs wait in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// The mean wait of a job, in seconds.
    pub(crate) wait_s: f64,
    /// The sigma of its factor.
    pub(crate) wait_sigma: f64,
    /// The work of a job, in seconds.
    pub(crate) work_s: f64,
}
