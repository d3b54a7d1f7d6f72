//! The content of a reading: metrics with their names, kinds and units.

use std::collections::BTreeMap;

use assay_probe::Sample;

use super::recording::Source;

/// The interpretation of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// A state at the moment of the reading.
    Gauge,
    /// A count since some beginning, of which only the increase is meaningful.
    Counter,
}

/// The identity of a metric: its name, and its labels to distinguish several of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MetricKey {
    pub(super) name: String,
    /// `{name="value",...}`, sorted; empty without labels.
    pub(super) labels: String,
}

/// One sample of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricSample {
    pub(super) key: MetricKey,
    pub(super) kind: MetricKind,
    pub(super) value: f64,
}

/// The metrics that the recorder reads of a host: a name, its kind, and the unit of its rows. A counter's rows hold its increase
/// per second.
pub(super) const HOST: [(&str, MetricKind, &str); 48] = {
    use MetricKind::{Counter, Gauge};
    [
        ("cpu_user_us", Counter, "us/s"),
        ("cpu_nice_us", Counter, "us/s"),
        ("cpu_system_us", Counter, "us/s"),
        ("cpu_idle_us", Counter, "us/s"),
        ("cpu_iowait_us", Counter, "us/s"),
        ("cpu_irq_us", Counter, "us/s"),
        ("cpu_softirq_us", Counter, "us/s"),
        ("cpu_steal_us", Counter, "us/s"),
        ("cpu_guest_us", Counter, "us/s"),
        ("context_switches", Counter, "1/s"),
        ("interrupts", Counter, "1/s"),
        ("forks", Counter, "1/s"),
        ("tasks_running", Gauge, "tasks"),
        ("tasks_blocked", Gauge, "tasks"),
        ("load_1m", Gauge, "tasks"),
        ("memory_available_bytes", Gauge, "bytes"),
        ("memory_free_bytes", Gauge, "bytes"),
        ("memory_cached_bytes", Gauge, "bytes"),
        ("memory_dirty_bytes", Gauge, "bytes"),
        ("swap_free_bytes", Gauge, "bytes"),
        ("page_faults", Counter, "1/s"),
        ("major_page_faults", Counter, "1/s"),
        ("swapped_in_pages", Counter, "pages/s"),
        ("swapped_out_pages", Counter, "pages/s"),
        ("out_of_memory_kills", Counter, "1/s"),
        ("disk_reads", Counter, "1/s"),
        ("disk_read_bytes", Counter, "bytes/s"),
        ("disk_writes", Counter, "1/s"),
        ("disk_written_bytes", Counter, "bytes/s"),
        ("disk_busy_ms", Counter, "ms/s"),
        ("network_received_bytes", Counter, "bytes/s"),
        ("network_received_packets", Counter, "packets/s"),
        ("network_receive_losses", Counter, "packets/s"),
        ("network_sent_bytes", Counter, "bytes/s"),
        ("network_sent_packets", Counter, "packets/s"),
        ("network_send_losses", Counter, "packets/s"),
        ("pressure_cpu_some_us", Counter, "us/s"),
        ("pressure_memory_some_us", Counter, "us/s"),
        ("pressure_memory_full_us", Counter, "us/s"),
        ("pressure_io_some_us", Counter, "us/s"),
        ("pressure_io_full_us", Counter, "us/s"),
        ("cgroup_periods", Counter, "1/s"),
        ("cgroup_throttled_periods", Counter, "1/s"),
        ("cgroup_throttled_us", Counter, "us/s"),
        ("frequency_min_khz", Gauge, "kHz"),
        ("frequency_mean_khz", Gauge, "kHz"),
        ("frequency_max_khz", Gauge, "kHz"),
        ("temperature_max_millicelsius", Gauge, "millicelsius"),
    ]
};

/// The unit of a metric whose unit is not known.
const UNKNOWN: &str = "unknown";

/// The name suffixes that have units in Prometheus (Prometheus documentation, "Metric and label naming", base units), and some
/// that serving programs use. `perc` is not among them: vLLM calls a share from 0 to 1 so.
const UNITS: [(&str, &str); 18] = [
    ("seconds", "s"),
    ("milliseconds", "ms"),
    ("microseconds", "us"),
    ("nanoseconds", "ns"),
    ("bytes", "bytes"),
    ("ratio", "ratio"),
    ("percent", "%"),
    ("tokens", "tokens"),
    ("requests", "requests"),
    ("celsius", "celsius"),
    ("volts", "V"),
    ("amperes", "A"),
    ("watts", "W"),
    ("joules", "J"),
    ("meters", "m"),
    ("grams", "g"),
    ("hertz", "Hz"),
    ("blocks", "blocks"),
];

/// Returns the unit of a metric's rows.
pub(super) fn unit(source: &Source, name: &str, kind: MetricKind) -> String {
    if *source == Source::Host {
        return HOST.iter().find(|(known, ..)| *known == name).map_or(UNKNOWN, |(.., unit)| unit).to_owned();
    }
    let of_word = |name: &str| {
        let word = name.rsplit(['_', ':']).next().unwrap_or(name);
        UNITS.iter().find(|(suffix, _)| *suffix == word).map(|(_, unit)| *unit)
    };
    match kind {
        MetricKind::Gauge => of_word(name).unwrap_or(UNKNOWN).to_owned(),
        // A histogram's `_count` counts observations, whatever their unit.
        MetricKind::Counter if name.ends_with("_count") => "1/s".to_owned(),
        MetricKind::Counter => {
            let (stem, is_total) = name.strip_suffix("_total").map_or((name, false), |stem| (stem, true));
            let found = of_word(stem.strip_suffix("_sum").unwrap_or(stem));
            found.map_or_else(|| if is_total { "1/s" } else { UNKNOWN }.to_owned(), |unit| format!("{unit}/s"))
        }
    }
}

/// Returns the metrics in a reading of the host. The recorder reads nothing else.
pub(super) fn parse_host(values: &BTreeMap<String, f64>) -> Vec<MetricSample> {
    let observed = |(name, kind, _): &(&str, MetricKind, &str)| {
        let key = MetricKey { name: (*name).to_owned(), labels: String::new() };
        Some(MetricSample { key, kind: *kind, value: *values.get(*name)? })
    };
    HOST.iter().filter_map(observed).collect()
}

/// Parses the metrics in an endpoint's response, in its order. Leaves out buckets of histograms, and lines that cannot be read.
pub(super) fn parse_endpoint(body: &str) -> Vec<MetricSample> {
    let types = types(body);
    let observed = |sample: Sample<'_>| {
        let kind = kind(&sample, &types)?;
        let key = MetricKey { labels: labels(&sample.labels), name: sample.name.into_owned() };
        Some(MetricSample { key, kind, value: sample.value })
    };
    assay_probe::samples(body).flatten().filter_map(observed).collect()
}

/// Returns the types of the metrics in a response.
fn types(body: &str) -> BTreeMap<&str, &str> {
    let lines = body.lines().filter_map(|line| line.trim().strip_prefix("# TYPE "));
    let typed = lines.filter_map(|line| line.trim().rsplit_once([' ', '\t']));
    typed.map(|(name, kind)| (name.trim().trim_matches('"'), kind)).collect()
}

/// Returns the kind of a metric by its type, otherwise by its name's suffix; `None` if it is left out.
fn kind(sample: &Sample<'_>, types: &BTreeMap<&str, &str>) -> Option<MetricKind> {
    let name = sample.name.as_ref();
    match types.get(name) {
        Some(&"counter") => return Some(MetricKind::Counter),
        Some(&("gauge" | "info" | "stateset")) => return Some(MetricKind::Gauge),
        _ => {}
    }
    // Without the label, it is another metric with the same suffix.
    if name.ends_with("_bucket") && sample.labels.iter().any(|(label, _)| label == "le") {
        return None;
    }
    let counts = ["_total", "_sum", "_count"].iter().any(|suffix| name.ends_with(suffix));
    Some(if counts { MetricKind::Counter } else { MetricKind::Gauge })
}

/// Returns labels as they appear in the name of a metric: sorted, and escaped as in the text that they came from.
fn labels(labels: &[(impl AsRef<str>, impl AsRef<str>)]) -> String {
    let escaped = |text: &str| text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
    let mut all: Vec<_> =
        labels.iter().map(|(label, value)| format!("{}=\"{}\"", label.as_ref(), escaped(value.as_ref()))).collect();
    all.sort_unstable();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}
