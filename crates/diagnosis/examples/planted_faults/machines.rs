//! The counters of machines, scripted: as the recorder reads them of its host, and as node_exporter serves them of a node.
//!
//! Both are one series of readings in two spellings. Nothing of a real machine is in them: means come from the conditions, and values of a
//! second differ from them by noise.

use std::fmt::Write as _;

use assay_host::Reading;

use crate::conditions::Machine;
use crate::random::Draws;
use crate::trial::Second;

/// The size of a TCP segment.
const SEGMENT_BYTES: f64 = 1_448.0;

/// A machine whose counters grow.
pub(crate) struct MachineSeries<'a> {
    machine: &'a Machine,
    draws: Draws,
    counters: [f64; COUNTERS],
    load: f64,
    throttled_s: f64,
}

const COUNTERS: usize = 32;

impl<'a> MachineSeries<'a> {
    pub(crate) fn new(machine: &'a Machine, mut draws: Draws) -> Self {
        let counters = std::array::from_fn(|_| draws.between(1e6, 1e9).floor());
        let load = f64::from(machine.cores) * machine.busy;
        Self { machine, draws, counters, load, throttled_s: 0.0 }
    }

    fn add(&mut self, counter: usize, increase: f64) -> u64 {
        self.counters[counter] += increase.max(0.0);
        self.counters[counter] as u64
    }

    fn noisy(&mut self, counter: usize, mean: f64, sigma: f64) -> u64 {
        let increase = mean * self.draws.lognormal(sigma);
        self.add(counter, increase)
    }

    fn counted(&mut self, counter: usize, mean: f64) -> u64 {
        let increase = self.draws.poisson(mean) as f64;
        self.add(counter, increase)
    }

    /// Grows the counter of a share of time, in microseconds.
    fn time(&mut self, counter: usize, share: f64) -> u64 {
        let share = (share * self.draws.lognormal(0.3)).min(1.0);
        self.add(counter, 1e6 * share)
    }

    /// Returns the reading after one more second, in which `sent_again` segments were lost of those that this machine sent.
    pub(crate) fn next_second(&mut self, second: &Second, sent_again: u64) -> Reading {
        let machine = *self.machine;
        let capacity = f64::from(machine.cores) * 1e6;
        let busy = (machine.busy * self.draws.lognormal(0.08)).min(1.0 - machine.steal - machine.iowait);
        let (iowait, steal) = (machine.iowait * self.draws.lognormal(0.3), machine.steal * self.draws.lognormal(0.2));
        let idle = (1.0 - busy - iowait - steal).max(0.0);
        let running = f64::from(machine.cores) * busy + machine.cpu_pressure * f64::from(machine.cores);
        self.load += (running - self.load) / 60.0;
        let disk_bytes = machine.disk_bytes_per_s * self.draws.lognormal(0.5);
        let network = machine.network_bytes_per_s * self.draws.lognormal(0.3);
        let (received, sent) = (network + second.bytes_down, network + second.bytes_up);
        let quota = machine.quota;
        let throttled = quota.map_or(0, |quota| (0..10).filter(|_| self.draws.chance(quota.throttled)).count());
        let throttled_s = quota.map_or(0.0, |quota| throttled as f64 * quota.throttled_s * self.draws.lognormal(0.1));
        self.throttled_s += throttled_s;
        let available = machine.memory_bytes * machine.available * self.draws.lognormal(0.01);
        let clock = machine.clock_khz * self.draws.lognormal(0.005);
        let swap = machine.swapped_pages_per_s;
        Reading {
            cpu_user_us: Some(self.add(0, capacity * busy * 0.78)),
            cpu_nice_us: Some(self.add(1, 0.0)),
            cpu_system_us: Some(self.add(2, capacity * busy * 0.19)),
            cpu_idle_us: Some(self.add(3, capacity * idle)),
            cpu_iowait_us: Some(self.add(4, capacity * iowait)),
            cpu_irq_us: Some(self.add(5, 0.0)),
            cpu_softirq_us: Some(self.add(6, capacity * busy * 0.03)),
            cpu_steal_us: Some(self.add(7, capacity * steal)),
            cpu_guest_us: Some(0),
            context_switches: Some(self.noisy(8, machine.switches_per_s, 0.15)),
            interrupts: Some(self.noisy(9, 0.7 * machine.switches_per_s, 0.15)),
            forks: Some(self.counted(10, 3.0)),
            tasks_running: Some(1 + self.draws.poisson(running)),
            tasks_blocked: Some(self.draws.poisson(4.0 * machine.io_pressure[0])),
            load_1m: Some(self.load),
            memory_available_bytes: Some(available as u64),
            memory_free_bytes: Some((0.4 * available) as u64),
            memory_cached_bytes: Some((0.6 * available) as u64),
            memory_dirty_bytes: Some((4e6 + 2.0 * disk_bytes) as u64),
            swap_free_bytes: Some(if swap > 0.0 { 1 << 30 } else { 4 << 30 }),
            page_faults: Some(self.noisy(11, 2_000.0 + 20.0 * machine.major_faults_per_s, 0.2)),
            major_page_faults: Some(self.counted(12, machine.major_faults_per_s)),
            swapped_in_pages: Some(self.counted(13, swap)),
            swapped_out_pages: Some(self.counted(14, 0.8 * swap)),
            out_of_memory_kills: Some(0),
            disk_reads: Some(self.counted(15, disk_bytes / 80_000.0)),
            disk_read_bytes: Some(self.add(16, 0.4 * disk_bytes)),
            disk_writes: Some(self.counted(17, disk_bytes / 80_000.0)),
            disk_written_bytes: Some(self.add(18, 0.6 * disk_bytes)),
            disk_busy_ms: Some(self.time(19, machine.disk_busy) / 1_000),
            network_received_bytes: Some(self.add(20, received)),
            network_received_packets: Some(self.add(21, received / SEGMENT_BYTES + second.bytes_down / 300.0)),
            network_receive_losses: Some(0),
            network_sent_bytes: Some(self.add(22, sent)),
            network_sent_packets: Some(self.add(23, sent / SEGMENT_BYTES)),
            network_send_losses: Some(0),
            tcp_retransmitted_segments: Some({
                let others = self.draws.poisson(machine.retransmits_per_s);
                self.add(24, (others + sent_again) as f64)
            }),
            tcp_receive_drops: Some(0),
            tcp_listen_overflows: Some(0),
            pressure_cpu_some_us: Some(self.time(25, machine.cpu_pressure)),
            pressure_memory_some_us: Some(self.time(26, machine.memory_pressure[0])),
            pressure_memory_full_us: Some(self.time(27, machine.memory_pressure[1])),
            pressure_io_some_us: Some(self.time(28, machine.io_pressure[0])),
            pressure_io_full_us: Some(self.time(29, machine.io_pressure[1])),
            // `cpu.stat` has these lines with and without a quota.
            cgroup_periods: Some(self.add(30, if quota.is_some() { 10.0 } else { 0.0 })),
            cgroup_throttled_periods: Some(self.add(31, throttled as f64)),
            cgroup_throttled_us: Some((1e6 * self.throttled_s) as u64),
            frequency_min_khz: Some((0.97 * clock) as u64),
            frequency_mean_khz: Some(clock as u64),
            frequency_max_khz: Some((1.02 * clock) as u64),
            temperature_max_millicelsius: Some((1_000.0 * (machine.celsius + self.draws.normal())) as i32),
            // Most virtual machines have no RAPL, and no rule asks for the recorder.
            ..Reading::default()
        }
    }
}

/// Writes a reading as node_exporter serves it.
pub(crate) fn node_exporter(reading: &Reading, machine: &Machine) -> String {
    let mut page = String::with_capacity(8 << 10);
    let seconds = |us: Option<u64>| us.unwrap_or(0) as f64 / 1e6;
    let cores = machine.cores.max(1);
    page.push_str("# TYPE node_cpu_seconds_total counter\n");
    let modes = [
        ("idle", reading.cpu_idle_us),
        ("iowait", reading.cpu_iowait_us),
        ("irq", reading.cpu_irq_us),
        ("nice", reading.cpu_nice_us),
        ("softirq", reading.cpu_softirq_us),
        ("steal", reading.cpu_steal_us),
        ("system", reading.cpu_system_us),
        ("user", reading.cpu_user_us),
    ];
    // Writing to a string cannot fail.
    for (cpu, (mode, us)) in (0..cores).flat_map(|cpu| modes.map(|mode| (cpu, mode))) {
        let _ = writeln!(page, "node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}} {}", seconds(us) / f64::from(cores));
    }
    let mut plain = |kind: &str, name: &str, labels: &str, value: f64| {
        let _ = writeln!(page, "# TYPE {name} {kind}\n{name}{labels} {value}");
    };
    let whole = |value: Option<u64>| value.unwrap_or(0) as f64;
    let (disk, network) = ("{device=\"nvme0n1\"}", "{device=\"eth0\"}");
    for (name, labels, value) in [
        ("node_context_switches_total", "", whole(reading.context_switches)),
        ("node_intr_total", "", whole(reading.interrupts)),
        ("node_forks_total", "", whole(reading.forks)),
        ("node_disk_reads_completed_total", disk, whole(reading.disk_reads)),
        ("node_disk_read_bytes_total", disk, whole(reading.disk_read_bytes)),
        ("node_disk_writes_completed_total", disk, whole(reading.disk_writes)),
        ("node_disk_written_bytes_total", disk, whole(reading.disk_written_bytes)),
        ("node_disk_io_time_seconds_total", disk, whole(reading.disk_busy_ms) / 1e3),
        ("node_network_receive_bytes_total", network, whole(reading.network_received_bytes)),
        ("node_network_receive_packets_total", network, whole(reading.network_received_packets)),
        ("node_network_receive_errs_total", network, 0.0),
        ("node_network_receive_drop_total", network, whole(reading.network_receive_losses)),
        ("node_network_transmit_bytes_total", network, whole(reading.network_sent_bytes)),
        ("node_network_transmit_packets_total", network, whole(reading.network_sent_packets)),
        ("node_network_transmit_errs_total", network, 0.0),
        ("node_network_transmit_drop_total", network, whole(reading.network_send_losses)),
        ("node_pressure_cpu_waiting_seconds_total", "", seconds(reading.pressure_cpu_some_us)),
        ("node_pressure_memory_waiting_seconds_total", "", seconds(reading.pressure_memory_some_us)),
        ("node_pressure_memory_stalled_seconds_total", "", seconds(reading.pressure_memory_full_us)),
        ("node_pressure_io_waiting_seconds_total", "", seconds(reading.pressure_io_some_us)),
        ("node_pressure_io_stalled_seconds_total", "", seconds(reading.pressure_io_full_us)),
    ] {
        plain("counter", name, labels, value);
    }
    // node_exporter states no other type for what it reads of `/proc/vmstat` and `/proc/net/snmp`.
    for (name, value) in [
        ("node_vmstat_pgfault", reading.page_faults),
        ("node_vmstat_pgmajfault", reading.major_page_faults),
        ("node_vmstat_pswpin", reading.swapped_in_pages),
        ("node_vmstat_pswpout", reading.swapped_out_pages),
        ("node_vmstat_oom_kill", reading.out_of_memory_kills),
        ("node_netstat_Tcp_RetransSegs", reading.tcp_retransmitted_segments),
    ] {
        plain("untyped", name, "", whole(value));
    }
    for (name, value) in [
        ("node_procs_running", whole(reading.tasks_running)),
        ("node_procs_blocked", whole(reading.tasks_blocked)),
        ("node_load1", reading.load_1m.unwrap_or(0.0)),
        ("node_memory_MemTotal_bytes", machine.memory_bytes),
        ("node_memory_MemAvailable_bytes", whole(reading.memory_available_bytes)),
        ("node_memory_MemFree_bytes", whole(reading.memory_free_bytes)),
        ("node_memory_Cached_bytes", whole(reading.memory_cached_bytes)),
        ("node_memory_Dirty_bytes", whole(reading.memory_dirty_bytes)),
        ("node_memory_SwapFree_bytes", whole(reading.swap_free_bytes)),
    ] {
        plain("gauge", name, "", value);
    }
    page.push_str("# TYPE node_cpu_scaling_frequency_hertz gauge\n");
    let (low, high) = (whole(reading.frequency_min_khz), whole(reading.frequency_max_khz));
    for cpu in 0..cores {
        let khz = low + (high - low) * f64::from(cpu) / f64::from(cores.max(2) - 1);
        let _ = writeln!(page, "node_cpu_scaling_frequency_hertz{{cpu=\"{cpu}\"}} {}", 1e3 * khz);
    }
    let celsius = f64::from(reading.temperature_max_millicelsius.unwrap_or(0)) / 1e3;
    let _ =
        writeln!(page, "# TYPE node_hwmon_temp_celsius gauge\nnode_hwmon_temp_celsius{{chip=\"a\",sensor=\"temp1\"}} {celsius}");
    page
}
