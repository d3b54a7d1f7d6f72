//! The counters of the host that the recorder runs on: on one machine that of the load, in a cluster the recorder's node.

use assay_manifest::{Case, Environment, Plan};

use crate::energy::HOST_PACKAGES;
use crate::line::LineFormat;
use crate::metric::{MetricKey, MetricKind, MetricSample, Observed, UNKNOWN_UNIT};
use crate::recording::ReadingBody;
use crate::source::{Sampled, Sampling, Source, SourceKind};

/// The counters of the recorder's host.
pub(crate) struct Host;

/// The metrics that the recorder reads of a host: a name, its kind, and the unit of its rows. A counter's rows hold its increase
/// per second.
const METRICS: [(&str, MetricKind, &str); 54] = {
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
        ("tcp_retransmitted_segments", Counter, "1/s"),
        ("tcp_receive_drops", Counter, "1/s"),
        ("tcp_listen_overflows", Counter, "1/s"),
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
        ("cpu_package_energy_uj", Counter, "uJ/s"),
        (HOST_PACKAGES, Gauge, "packages"),
        ("recorder_cpu_us", Counter, "us/s"),
    ]
};

impl SourceKind for Host {
    fn word(&self) -> &'static str {
        "host"
    }

    fn noun(&self) -> &'static str {
        "host"
    }

    fn is_named(&self) -> bool {
        false
    }

    fn sampled(&self, _: &Plan, _: &Environment) -> Vec<Sampled> {
        vec![Sampled { source: Source::host(), sampling: Sampling::Counters }]
    }

    fn observing(&self, _: &Plan, _: Option<&Environment>, _: Option<&Case>) -> Vec<Source> {
        vec![Source::host()]
    }

    fn format(&self) -> LineFormat {
        LineFormat::Counters
    }

    fn is_in_every_recording(&self) -> bool {
        true
    }

    fn scope_kind(&self) -> &'static str {
        "host"
    }

    /// Returns the metrics of the table. The recorder reads nothing else.
    fn observed(&self, body: &ReadingBody) -> Observed {
        let ReadingBody::Counters(values) = body else { return Observed::default() };
        let observed = |(name, kind, _): &(&str, MetricKind, &str)| {
            let key = MetricKey::new(*name, String::new());
            Some(MetricSample { key, kind: *kind, value: *values.get(*name)?, series: 1 })
        };
        Observed { samples: METRICS.iter().filter_map(observed).collect(), ..Observed::default() }
    }

    fn unit(&self, metric: &str, _: MetricKind) -> String {
        METRICS.iter().find(|(known, ..)| *known == metric).map_or(UNKNOWN_UNIT, |(.., unit)| unit).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_counter_of_a_host_has_a_kind_and_a_unit() {
        let shown = format!("{:?}", assay_host::Reading::default());
        let read: BTreeSet<_> = shown.split([' ', '{', '}']).filter_map(|word| word.strip_suffix(':')).collect();
        let known: BTreeSet<_> = METRICS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(read, known);
    }
}
