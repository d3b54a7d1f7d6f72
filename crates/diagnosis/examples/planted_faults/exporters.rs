//! The pages of dcgm-exporter, cAdvisor and Kueue, scripted in their formats.

use std::fmt::Write as _;

use crate::conditions::{Container, Gpu};
use crate::random::Draws;
use crate::trial::Second;

/// The node of the server, as exporters name it.
pub(crate) const NODE: &str = "node-7";

/// The GPUs of a node.
pub(crate) struct GpuSeries<'a> {
    gpus: &'a [Gpu],
    draws: Draws,
    states: Vec<GpuState>,
    /// True if the counters are served that dcgm-exporter leaves out by default.
    has_all: bool,
    gpu_share: f64,
}

#[derive(Clone, Copy)]
struct GpuState {
    /// Slow deviations of clock and temperature.
    clock: f64,
    celsius: f64,
    millijoules: f64,
    link_replays: u64,
    thermal_us: f64,
    power_us: f64,
}

impl<'a> GpuSeries<'a> {
    pub(crate) fn new(gpus: &'a [Gpu], has_all: bool, gpu_share: f64, mut draws: Draws) -> Self {
        let state = |_: &Gpu| GpuState {
            clock: 0.0,
            celsius: draws.normal(),
            millijoules: draws.between(1e9, 1e12),
            link_replays: u64::from(draws.below(50)),
            thermal_us: 0.0,
            power_us: 0.0,
        };
        let states = gpus.iter().map(state).collect();
        Self { gpus, draws, states, has_all, gpu_share }
    }

    /// Returns the page after one more second.
    pub(crate) fn next_second(&mut self, second: &Second) -> String {
        let draws = &mut self.draws;
        let busy = second.engaged * self.gpu_share;
        let mut rows: Vec<(&str, &str, Vec<f64>)> = METRICS.iter().map(|(name, kind)| (*name, *kind, Vec::new())).collect();
        for (gpu, state) in self.gpus.iter().zip(&mut self.states) {
            state.clock = 0.9 * state.clock + 0.1 * draws.normal();
            state.celsius = 0.95 * state.celsius + 0.4 * draws.normal();
            let used = (busy * gpu.use_factor * draws.lognormal(0.05)).clamp(0.0, 1.0);
            let celsius = gpu.celsius + 20.0 * used + state.celsius;
            // A GPU steps its clock by 15 MHz.
            let clock = 15.0 * libm::round(gpu.sm_mhz * (1.0 + 0.004 * state.clock) / 15.0);
            let watts = gpu.idle_watts + (gpu.busy_watts - gpu.idle_watts) * used * draws.lognormal(0.03);
            state.millijoules += 1e3 * watts;
            state.link_replays += draws.poisson(gpu.link_replays_per_s);
            state.thermal_us += 1e6 * (gpu.thermal * draws.lognormal(0.1)).min(1.0);
            state.power_us += 1e6 * (gpu.powercap * draws.lognormal(0.1)).min(1.0);
            let values = [
                clock,
                gpu.memory_mhz,
                libm::round(celsius),
                watts,
                state.millijoules.floor(),
                0.0,
                libm::round(100.0 * used),
                libm::round(45.0 * used * draws.lognormal(0.1)),
                used,
                0.35 * used * draws.lognormal(0.1),
                0.5 * used * draws.lognormal(0.1),
                1e6 * (2_000.0 * used * draws.lognormal(0.1)),
                state.thermal_us,
                state.power_us,
                state.link_replays as f64,
                0.0,
                0.9 * used,
            ];
            rows.iter_mut().zip(values).for_each(|(row, value)| row.2.push(value));
        }
        let shown = if self.has_all { METRICS.len() } else { BY_DEFAULT };
        let mut page = String::with_capacity(16 << 10);
        // Writing to a string cannot fail.
        for (name, kind, values) in rows.into_iter().take(shown) {
            let _ = writeln!(page, "# TYPE {name} {kind}");
            for (gpu, value) in values.into_iter().enumerate() {
                let _ = writeln!(
                    page,
                    "{name}{{gpu=\"{gpu}\",UUID=\"GPU-{gpu:04x}\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"{NODE}\"}} {value}"
                );
            }
        }
        page
    }
}

/// The metrics that dcgm-exporter serves by default, of those that its list of counters holds.
const BY_DEFAULT: usize = 12;

/// The metrics of a GPU with their types: first those by default.
const METRICS: [(&str, &str); 17] = [
    ("DCGM_FI_DEV_SM_CLOCK", "gauge"),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge"),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter"),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge"),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter"),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter"),
    ("DCGM_FI_DEV_POWER_VIOLATION", "counter"),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter"),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter"),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge"),
];

/// The metrics of containers with their types.
const CONTAINER_METRICS: [(&str, &str); 5] = [
    ("container_cpu_cfs_periods_total", "counter"),
    ("container_cpu_cfs_throttled_periods_total", "counter"),
    ("container_cpu_cfs_throttled_seconds_total", "counter"),
    ("container_cpu_usage_seconds_total", "counter"),
    ("container_memory_working_set_bytes", "gauge"),
];

/// The containers of a node.
pub(crate) struct ContainerSeries<'a> {
    server: &'a Container,
    draws: Draws,
    /// For the server and for a container beside it: periods, throttled periods, throttled seconds, seconds of processors.
    counters: [[f64; 4]; 2],
}

impl<'a> ContainerSeries<'a> {
    pub(crate) fn new(server: &'a Container, mut draws: Draws) -> Self {
        let counters = std::array::from_fn(|_| std::array::from_fn(|_| draws.between(1e3, 1e6).floor()));
        Self { server, draws, counters }
    }

    /// Returns the page after one more second.
    pub(crate) fn next_second(&mut self) -> String {
        let beside = Container { quota: None, cpus_used: 0.05, memory_bytes: 6e7 };
        let mut rows: [Vec<String>; 5] = Default::default();
        let server = *self.server;
        let containers = [("server", "server-0", server), ("log-shipper", "log-shipper-x2x9w", beside)];
        for (counters, (container, pod, state)) in self.counters.iter_mut().zip(containers) {
            let draws = &mut self.draws;
            let labels = format!(
                "{{container=\"{container}\",image=\"registry.example/{container}:1\",namespace=\"bench\",pod=\"{pod}\"}}"
            );
            if let Some(quota) = state.quota {
                let throttled = (0..10).filter(|_| draws.chance(quota.throttled)).count() as f64;
                counters[0] += 10.0;
                counters[1] += throttled;
                counters[2] += throttled * quota.throttled_s * draws.lognormal(0.1);
                for (row, value) in rows.iter_mut().zip(&counters[..3]) {
                    row.push(format!("{labels} {value}"));
                }
            }
            counters[3] += state.cpus_used * draws.lognormal(0.1);
            rows[3].push(format!("{labels} {}", counters[3]));
            rows[4].push(format!("{labels} {}", (state.memory_bytes * draws.lognormal(0.01)).floor()));
        }
        page(CONTAINER_METRICS.iter().zip(&rows).map(|((name, kind), rows)| (*name, *kind, rows.as_slice())))
    }
}

/// Writes the rows of metrics, each its labels and value.
fn page<'a>(metrics: impl Iterator<Item = (&'a str, &'a str, &'a [String])>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (name, kind, rows) in metrics.filter(|(.., rows)| !rows.is_empty()) {
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for row in rows {
            let _ = writeln!(text, "{name}{row}");
        }
    }
    text
}

/// A job that a queue admits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmittedJob {
    pub(crate) admitted_s: f64,
    pub(crate) wait_s: f64,
}

/// Writes the page of Kueue at a time of a trial, at which `pending` jobs of it wait.
pub(crate) fn kueue(jobs: &[AdmittedJob], at_s: f64, pending: u32, before: (u64, f64)) -> String {
    const BOUNDS: [f64; 10] = [1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0];
    let admitted: Vec<f64> = jobs.iter().filter(|job| job.admitted_s <= at_s).map(|job| job.wait_s).collect();
    let (count, sum) = (before.0 + admitted.len() as u64, before.1 + admitted.iter().sum::<f64>());
    let queue = "cluster_queue=\"bench\"";
    let mut text = String::new();
    // Writing to a string cannot fail.
    for name in ["kueue_admission_wait_time_seconds", "kueue_quota_reserved_wait_time_seconds"] {
        let _ = writeln!(text, "# TYPE {name} histogram");
        for bound in BOUNDS {
            let within = before.0 / 2 + admitted.iter().filter(|wait| **wait <= bound).count() as u64;
            let _ = writeln!(text, "{name}_bucket{{{queue},le=\"{bound}\"}} {within}");
        }
        let _ = writeln!(
            text,
            "{name}_bucket{{{queue},le=\"+Inf\"}} {count}\n{name}_sum{{{queue}}} {sum}\n{name}_count{{{queue}}} {count}"
        );
    }
    let _ = writeln!(
        text,
        "# TYPE kueue_pending_workloads gauge\nkueue_pending_workloads{{{queue},status=\"active\"}} {pending}\n\
         kueue_pending_workloads{{{queue},status=\"inadmissible\"}} 0\n\
         # TYPE kueue_admitted_workloads_total counter\nkueue_admitted_workloads_total{{{queue}}} {count}\n\
         # TYPE kueue_admitted_active_workloads gauge\nkueue_admitted_active_workloads{{{queue}}} 1"
    );
    text
}
