//! Exporters that a pipeline names (`telemetry: [{name, scrape}]`): any address that serves a text of Prometheus.
//!
//! The recording keeps every response unchanged. Rows are made of two parts of it:
//!
//! - of `node_*`, the series of node_exporter, the metrics of the table [`NODE_METRICS`], and the share of busy CPU time ([`CPU_BUSY`]);
//! - of all other series, each one, except buckets of histograms and the series about the exporter's own process
//!   ([`OWN_PREFIXES`]), up to the limits of a slice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::LazyLock;

use assay_manifest::{Case, Environment, JoinLabels, Plan, TelemetrySource};

use crate::exposition::{Sample, samples};
use crate::gpus::{LabelOrigin, LabelledGpu};
use crate::keys::ObjectKeys;
use crate::metric::{MAX_SERIES, MetricKey, MetricKind, MetricSample, Observed, TextMetrics, labels, unit_by_name};
use crate::recording::ReadingBody;
use crate::source::{Sampled, Sampling, ScrapeAddress, Source, SourceKind};

/// The path that is scraped if an address has none: Prometheus's default.
const DEFAULT_PATH: &str = "/metrics";

/// The prefix of the series of node_exporter.
const NODE_PREFIX: &str = "node_";

/// The prefixes of the series that client libraries add about the exporter's own process (Go, Python, and `promhttp`).
const OWN_PREFIXES: [&str; 4] = ["go_", "process_", "promhttp_", "python_"];

/// The prefix of the series of dcgm-exporter.
const DCGM_PREFIX: &str = "DCGM_FI_";

/// The labels of dcgm-exporter that hold keys, as in `packs/dcgm.yaml`.
static DCGM_JOINS: LazyLock<JoinLabels> = LazyLock::new(|| {
    let label = |name: &str| Some(name.to_owned());
    JoinLabels { gpu_uuid: label("UUID"), node_name: label("Hostname"), pod_uid: label("pod_uid") }
});

/// The counter of CPU time by CPU and mode, in seconds.
const CPU_SECONDS: &str = "node_cpu_seconds_total";

/// The modes in which a CPU does no work for this machine. node_exporter's own dashboards leave out the same three
/// (`instance:node_cpu_utilisation:rate5m` of its mixin).
const NOT_BUSY: [&str; 3] = ["idle", "iowait", "steal"];

/// The share of CPU time that all CPUs were busy: a counter of busy seconds per CPU, whose increase per second is the share.
const CPU_BUSY: &str = "node_cpu_busy_ratio";

/// The prefixes of network devices that carry no traffic of their own: the loopback, and devices that pass on what a physical
/// device carries.
const VIRTUAL_NETWORK: [&str; 15] =
    ["lo", "veth", "br-", "docker", "cni", "cali", "cilium", "flannel", "lxc", "virbr", "tap", "tun", "kube-", "dummy", "ifb"];

/// The prefixes of disks that pass on what other disks do.
const VIRTUAL_DISKS: [&str; 5] = ["dm-", "md", "loop", "ram", "zram"];

/// The way in which the series of one name become metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    /// Every series is a metric.
    Each,
    /// The series of each network device that is not virtual.
    NetworkDevice,
    /// The series of each disk that is not virtual.
    Disk,
    /// The sum over all CPUs, by mode.
    SumByMode,
    /// The largest value.
    Max,
    /// The smallest value.
    Min,
}

/// The metrics that are made of the series of node_exporter: the series, the way in which several of its name become one, and the
/// unit of the rows. A counter's rows hold its increase per second.
const NODE_METRICS: [(&str, Fold, MetricKind, &str); 47] = {
    use Fold::{Disk, Each, Max, Min, NetworkDevice, SumByMode};
    use MetricKind::{Counter, Gauge};
    [
        (CPU_SECONDS, SumByMode, Counter, "s/s"),
        ("node_context_switches_total", Each, Counter, "1/s"),
        ("node_intr_total", Each, Counter, "1/s"),
        ("node_forks_total", Each, Counter, "1/s"),
        ("node_procs_running", Each, Gauge, "tasks"),
        ("node_procs_blocked", Each, Gauge, "tasks"),
        ("node_load1", Each, Gauge, "tasks"),
        ("node_load5", Each, Gauge, "tasks"),
        ("node_memory_MemTotal_bytes", Each, Gauge, "bytes"),
        ("node_memory_MemAvailable_bytes", Each, Gauge, "bytes"),
        ("node_memory_MemFree_bytes", Each, Gauge, "bytes"),
        ("node_memory_Cached_bytes", Each, Gauge, "bytes"),
        ("node_memory_Dirty_bytes", Each, Gauge, "bytes"),
        ("node_memory_SwapFree_bytes", Each, Gauge, "bytes"),
        ("node_memory_HugePages_Free", Each, Gauge, "pages"),
        ("node_vmstat_pgfault", Each, Counter, "1/s"),
        ("node_vmstat_pgmajfault", Each, Counter, "1/s"),
        ("node_vmstat_pswpin", Each, Counter, "pages/s"),
        ("node_vmstat_pswpout", Each, Counter, "pages/s"),
        ("node_vmstat_oom_kill", Each, Counter, "1/s"),
        ("node_disk_reads_completed_total", Disk, Counter, "1/s"),
        ("node_disk_read_bytes_total", Disk, Counter, "bytes/s"),
        ("node_disk_writes_completed_total", Disk, Counter, "1/s"),
        ("node_disk_written_bytes_total", Disk, Counter, "bytes/s"),
        ("node_disk_io_time_seconds_total", Disk, Counter, "s/s"),
        ("node_network_receive_bytes_total", NetworkDevice, Counter, "bytes/s"),
        ("node_network_receive_packets_total", NetworkDevice, Counter, "packets/s"),
        ("node_network_receive_errs_total", NetworkDevice, Counter, "packets/s"),
        ("node_network_receive_drop_total", NetworkDevice, Counter, "packets/s"),
        ("node_network_transmit_bytes_total", NetworkDevice, Counter, "bytes/s"),
        ("node_network_transmit_packets_total", NetworkDevice, Counter, "packets/s"),
        ("node_network_transmit_errs_total", NetworkDevice, Counter, "packets/s"),
        ("node_network_transmit_drop_total", NetworkDevice, Counter, "packets/s"),
        ("node_netstat_Tcp_RetransSegs", Each, Counter, "packets/s"),
        ("node_infiniband_port_data_received_bytes_total", Each, Counter, "bytes/s"),
        ("node_infiniband_port_data_transmitted_bytes_total", Each, Counter, "bytes/s"),
        ("node_pressure_cpu_waiting_seconds_total", Each, Counter, "s/s"),
        ("node_pressure_memory_waiting_seconds_total", Each, Counter, "s/s"),
        ("node_pressure_memory_stalled_seconds_total", Each, Counter, "s/s"),
        ("node_pressure_io_waiting_seconds_total", Each, Counter, "s/s"),
        ("node_pressure_io_stalled_seconds_total", Each, Counter, "s/s"),
        ("node_cpu_scaling_frequency_hertz", Min, Gauge, "Hz"),
        ("node_cpu_scaling_frequency_hertz", Max, Gauge, "Hz"),
        ("node_hwmon_temp_celsius", Max, Gauge, "celsius"),
        ("node_thermal_zone_temp", Max, Gauge, "celsius"),
        ("node_rapl_package_joules_total", Each, Counter, "J/s"),
        ("node_rapl_dram_joules_total", Each, Counter, "J/s"),
    ]
};

/// The counters of exporters that the pipeline names.
pub(crate) struct Exporter;

impl SourceKind for Exporter {
    fn word(&self) -> &'static str {
        "exporter"
    }

    fn noun(&self) -> &'static str {
        "exporter"
    }

    /// Returns every exporter of the plan.
    fn sampled(&self, plan: &Plan, _: &Environment) -> Vec<Sampled> {
        let sampled = |exporter: &TelemetrySource| {
            let address = ScrapeAddress::Url(with_default_path(exporter.scrape.as_ref()?));
            Some(Sampled {
                source: Source::exporter(&exporter.name),
                sampling: Sampling::Scrape { address, headers: Vec::new(), insecure_skip_tls_verify: false, tls: None },
            })
        };
        plan.telemetry.iter().filter_map(sampled).collect()
    }

    /// Returns every exporter of the plan: each observes all attempts.
    fn observing(&self, plan: &Plan, _: Option<&Environment>, _: Option<&Case>) -> Vec<Source> {
        let exporters = plan.telemetry.iter().filter(|source| source.scrape.is_some());
        exporters.map(|exporter| Source::exporter(&exporter.name)).collect()
    }

    fn scope_kind(&self) -> &'static str {
        "exporter"
    }

    /// Refuses a page without any sample, such as the start page of an exporter.
    fn check_response(&self, text: &str) -> Result<(), &'static str> {
        samples(text).flatten().next().map(drop).ok_or("the response has no metrics")
    }

    fn observed(&self, body: &ReadingBody) -> Observed {
        let ReadingBody::Text(text) = body else { return Observed::default() };
        let (mut node, mut others) = (NodeMetrics::default(), TextMetrics::new(text));
        for sample in samples(text).flatten() {
            if sample.name.starts_with(NODE_PREFIX) {
                node.add(&sample);
            } else if !OWN_PREFIXES.iter().any(|prefix| sample.name.starts_with(prefix)) {
                others.add(sample);
            }
        }
        let Observed { mut samples, left_out, .. } = node.observed();
        samples.extend(others.observed.samples);
        Observed { samples, left_out: left_out + others.observed.left_out, ..Observed::default() }
    }

    /// Returns the keys of a GPU of dcgm-exporter.
    fn keys(&self, metric: &str, labels: &str) -> Option<ObjectKeys> {
        if !metric.starts_with(DCGM_PREFIX) {
            return None;
        }
        let line = sample_line(metric, labels);
        let sample = samples(&line).flatten().next()?;
        Some(ObjectKeys::read(&DCGM_JOINS, |name| label(&sample, name)))
    }

    /// Returns the GPU of a series of dcgm-exporter.
    fn gpu(&self, metric: &str, labels: &str) -> Option<LabelledGpu> {
        let line = sample_line(metric, labels);
        let sample = samples(&line).flatten().next()?;
        LabelledGpu::describe(LabelOrigin::Scrape, &DCGM_JOINS, |name| label(&sample, name))
    }

    fn unit(&self, metric: &str, kind: MetricKind) -> String {
        let of_node = NODE_METRICS.iter().find(|(series, fold, ..)| metric.strip_suffix(fold.suffix()) == Some(*series));
        of_node.map_or_else(|| unit_by_name(metric, kind), |(.., unit)| (*unit).to_owned())
    }
}

/// Returns the URL of an exporter's counters, with Prometheus's default path if it has none.
pub fn with_default_path(url: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, String::new()), |(address, query)| (address, format!("?{query}")));
    let host_at = address.find("://").map_or(0, |scheme| scheme + "://".len());
    let has_path = address.get(host_at..).is_some_and(|rest| rest.contains('/'));
    format!("{address}{}{query}", if has_path { "" } else { DEFAULT_PATH })
}

impl Fold {
    /// Returns the end that the metric's name has after that of the series.
    fn suffix(self) -> &'static str {
        match self {
            Self::Each | Self::NetworkDevice | Self::Disk | Self::SumByMode => "",
            Self::Max => "_max",
            Self::Min => "_min",
        }
    }

    /// Returns the labels of the metric that a series belongs to; `None` if it is left out.
    fn labels(self, sample: &Sample<'_>) -> Option<String> {
        let is_virtual = |prefixes: &[&str]| {
            let device = label(sample, "device").unwrap_or_default();
            prefixes.iter().any(|prefix| device.starts_with(prefix))
        };
        match self {
            Self::Each => Some(labels(&sample.labels)),
            Self::NetworkDevice => (!is_virtual(&VIRTUAL_NETWORK)).then(|| labels(&sample.labels)),
            Self::Disk => (!is_virtual(&VIRTUAL_DISKS)).then(|| labels(&sample.labels)),
            Self::SumByMode => Some(labels(&[("mode", label(sample, "mode")?)])),
            Self::Max | Self::Min => Some(String::new()),
        }
    }

    /// Adds the value of one more series to a metric.
    fn add(self, metric: &mut MetricSample, value: f64) {
        metric.value = match self {
            // A series that is listed twice keeps its first value.
            Self::Each | Self::NetworkDevice | Self::Disk => return,
            Self::SumByMode => metric.value + value,
            Self::Max => metric.value.max(value),
            Self::Min => metric.value.min(value),
        };
        metric.series += 1;
    }
}

/// The metrics of [`NODE_METRICS`], and the share of busy CPU time.
#[derive(Default)]
struct NodeMetrics {
    metrics: BTreeMap<MetricKey, MetricSample>,
    busy: BusyTime,
    left_out: u64,
}

impl NodeMetrics {
    /// Adds a series of node_exporter.
    fn add(&mut self, sample: &Sample<'_>) {
        self.busy.add(sample);
        for (series, fold, kind, _) in NODE_METRICS.iter().filter(|(series, ..)| *series == sample.name) {
            let Some(labels) = fold.labels(sample) else { continue };
            let key = MetricKey::new(format!("{series}{}", fold.suffix()), labels);
            let is_full = self.metrics.len() == MAX_SERIES;
            match self.metrics.entry(key.clone()) {
                Entry::Occupied(mut metric) => fold.add(metric.get_mut(), sample.value),
                Entry::Vacant(_) if is_full => self.left_out += 1,
                Entry::Vacant(place) => {
                    place.insert(MetricSample { key, kind: *kind, value: sample.value, series: 1 });
                }
            }
        }
    }

    fn observed(self) -> Observed {
        let samples = self.busy.share().into_iter().chain(self.metrics.into_values()).collect();
        Observed { samples, left_out: self.left_out, ..Observed::default() }
    }
}

/// The CPU time in which CPUs worked, and the number of CPUs.
#[derive(Default)]
struct BusyTime {
    seconds: f64,
    cpus: usize,
}

impl BusyTime {
    fn add(&mut self, sample: &Sample<'_>) {
        if sample.name != CPU_SECONDS {
            return;
        }
        match label(sample, "mode") {
            Some("idle") => self.cpus += 1,
            Some(mode) if !NOT_BUSY.contains(&mode) => self.seconds += sample.value,
            _ => {}
        }
    }

    /// Returns the counter of busy seconds per CPU; `None` if there are no CPUs.
    fn share(self) -> Option<MetricSample> {
        let key = MetricKey::new(CPU_BUSY, String::new());
        let value = self.seconds / self.cpus as f64;
        (self.cpus > 0).then_some(MetricSample { key, kind: MetricKind::Share, value, series: self.cpus })
    }
}

/// Returns a sample of a metric as a line of a text, whose labels are written as in the text that they came from.
fn sample_line(metric: &str, labels: &str) -> String {
    format!("{metric}{labels} 0")
}

/// Returns the value of a label.
fn label<'a>(sample: &'a Sample<'_>, name: &str) -> Option<&'a str> {
    sample.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_ref())
}

#[cfg(test)]
mod tests;
