//! Counters of the machine, read once a second while a trial runs. All of them count since boot unless they say otherwise.

use serde::{Deserialize, Serialize};

use crate::cpu::CPUS;
use crate::energy::PackageEnergy;
use crate::{Root, cgroup, state, system};

/// The unit of CPU times in `/proc/stat`: `USER_HZ`, which Linux fixes at 100 on all its architectures but Alpha and old IA-64.
const TICKS_PER_SECOND: u64 = 100;
/// The unit of `/proc/diskstats`: sectors of 512 bytes, for every disk (kernel documentation, `block/stat`).
const SECTOR_BYTES: u64 = 512;
/// The file with the time that tasks waited for a CPU. Absent if the kernel was built or started without PSI.
pub(crate) const CPU_PRESSURE: &str = "/proc/pressure/cpu";

macro_rules! reading {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// One reading of the machine's counters. A field is absent if it could not be read.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Reading {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none", default)] pub $field: Option<$type>,)*
        }
    };
}
reading! {
    /// CPU time in user mode over all CPUs, in microseconds.
    cpu_user_us: u64,
    /// CPU time in user mode with low priority, in microseconds.
    cpu_nice_us: u64,
    /// CPU time in system mode, in microseconds.
    cpu_system_us: u64,
    /// Idle CPU time, in microseconds.
    cpu_idle_us: u64,
    /// Idle CPU time with input or output outstanding, in microseconds. The kernel calls it unreliable.
    cpu_iowait_us: u64,
    /// CPU time in interrupts, in microseconds.
    cpu_irq_us: u64,
    /// CPU time in soft interrupts, in microseconds.
    cpu_softirq_us: u64,
    /// CPU time taken by other guests of the hypervisor, in microseconds.
    cpu_steal_us: u64,
    /// CPU time given to guests, contained in user time, in microseconds.
    cpu_guest_us: u64,
    /// Context switches.
    context_switches: u64,
    /// Interrupts served.
    interrupts: u64,
    /// Processes and threads created.
    forks: u64,
    /// Runnable tasks, at this moment.
    tasks_running: u64,
    /// Tasks that waited for input or output, at this moment.
    tasks_blocked: u64,
    /// Runnable tasks averaged over one minute.
    load_1m: f64,
    /// Memory available without swapping, in bytes, at this moment.
    memory_available_bytes: u64,
    /// Free memory in bytes, at this moment.
    memory_free_bytes: u64,
    /// Page cache in bytes, at this moment.
    memory_cached_bytes: u64,
    /// Memory that waits to be written to disk, in bytes, at this moment.
    memory_dirty_bytes: u64,
    /// Free swap in bytes, at this moment.
    swap_free_bytes: u64,
    /// Page faults.
    page_faults: u64,
    /// Page faults that needed input.
    major_page_faults: u64,
    /// Pages swapped in.
    swapped_in_pages: u64,
    /// Pages swapped out.
    swapped_out_pages: u64,
    /// Processes killed for lack of memory.
    out_of_memory_kills: u64,
    /// Reads completed by whole disks.
    disk_reads: u64,
    /// Bytes read from whole disks.
    disk_read_bytes: u64,
    /// Writes completed by whole disks.
    disk_writes: u64,
    /// Bytes written to whole disks.
    disk_written_bytes: u64,
    /// Time for which disks were busy, summed over disks, in milliseconds.
    disk_busy_ms: u64,
    /// Bytes received by all interfaces but the loopback.
    network_received_bytes: u64,
    /// Packets received.
    network_received_packets: u64,
    /// Received packets that were faulty or dropped.
    network_receive_losses: u64,
    /// Bytes sent.
    network_sent_bytes: u64,
    /// Packets sent.
    network_sent_packets: u64,
    /// Packets that could not be sent, or were dropped.
    network_send_losses: u64,
    /// TCP segments sent again, of this network namespace.
    tcp_retransmitted_segments: u64,
    /// TCP segments dropped because their socket had no room for them, or its buffer was full: the reader is too slow.
    tcp_receive_drops: u64,
    /// Connections that were not accepted because a listening socket's queue was full.
    tcp_listen_overflows: u64,
    /// Time for which some task waited for a CPU, in microseconds.
    pressure_cpu_some_us: u64,
    /// Time for which some task waited for memory, in microseconds.
    pressure_memory_some_us: u64,
    /// Time for which all tasks waited for memory, in microseconds.
    pressure_memory_full_us: u64,
    /// Time for which some task waited for input or output, in microseconds.
    pressure_io_some_us: u64,
    /// Time for which all tasks waited for input or output, in microseconds.
    pressure_io_full_us: u64,
    /// Enforcement periods of this control group.
    cgroup_periods: u64,
    /// Enforcement periods in which this control group was throttled.
    cgroup_throttled_periods: u64,
    /// Time for which this control group was throttled, in microseconds.
    cgroup_throttled_us: u64,
    /// Lowest current CPU frequency, in kHz.
    frequency_min_khz: u64,
    /// Mean current CPU frequency, in kHz.
    frequency_mean_khz: u64,
    /// Highest current CPU frequency, in kHz.
    frequency_max_khz: u64,
    /// Highest temperature of any sensor, in thousandths of a degree Celsius.
    temperature_max_millicelsius: i32,
    /// Energy of all CPU packages since this process began to read, in microjoules. Absent if one of them cannot be read.
    cpu_package_energy_uj: u64,
    /// CPU packages whose energy is added up.
    cpu_packages: u64,
    /// CPU time of this process, all of its threads, in microseconds, in steps of 10 ms.
    recorder_cpu_us: u64,
}

/// The counters of a machine, read one time after the other.
#[derive(Debug)]
pub struct Counters {
    root: Root,
    energy: PackageEnergy,
}

impl Counters {
    /// Returns the counters of a machine, of which nothing has been read.
    pub fn new(root: Root) -> Self {
        Self { root, energy: PackageEnergy::default() }
    }

    /// Reads the counters. It takes well under a millisecond on a machine with few CPUs, and some on one with hundreds, whose
    /// frequencies are one file each.
    pub fn read(&mut self) -> Reading {
        let mut reading = counters(&self.root);
        let energy = self.energy.read(&self.root);
        reading.cpu_package_energy_uj = energy.map(|energy| energy.total_uj);
        reading.cpu_packages = energy.map(|energy| energy.packages);
        reading
    }
}

/// Reads the counters that need no earlier reading.
fn counters(root: &Root) -> Reading {
    let mut reading = Reading::default();
    let text = |path: &str| root.text(path).unwrap_or_default();
    reading.add_stat(&text("/proc/stat"));
    reading.add_memory(&text("/proc/meminfo"));
    reading.add_paging(&text("/proc/vmstat"));
    reading.add_disks(&text("/proc/diskstats"), |disk| root.exists(&format!("/sys/block/{disk}")));
    reading.add_network(&text("/proc/net/dev"));
    reading.add_tcp(&text("/proc/net/snmp"), &text("/proc/net/netstat"));
    reading.add_pressure(&text(CPU_PRESSURE), &text("/proc/pressure/memory"), &text("/proc/pressure/io"));
    reading.add_throttling(cgroup::throttling(root));
    reading.add_frequencies(&frequencies_khz(root));
    reading.load_1m = state::load(&text("/proc/loadavg"), 0);
    reading.temperature_max_millicelsius = state::temperatures(root).into_values().max();
    reading.recorder_cpu_us = process_cpu_us(&text("/proc/self/stat"));
    reading
}

/// Returns the CPU time of a process in user and system mode, of all of its threads, by its `stat`. Its name, in parentheses, may hold
/// any character.
fn process_cpu_us(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    // The fields 14 and 15, of which the third is the first one behind the name (proc_pid_stat(5)).
    let mut fields = after_name.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    let (user, system) = (fields.next()?, fields.next()?);
    Some(ticks_to_us(user.saturating_add(system)))
}

/// Converts a CPU time of `/proc/stat` to microseconds.
pub(crate) fn ticks_to_us(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000 / TICKS_PER_SECOND)
}

/// CPU time over all CPUs by mode, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    pub(crate) user: u64,
    pub(crate) nice: u64,
    pub(crate) system: u64,
    idle: u64,
    iowait: u64,
    irq: u64,
    pub(crate) softirq: u64,
    pub(crate) steal: u64,
    guest: u64,
}

impl CpuTimes {
    /// Parses the first line of `/proc/stat`.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times = numbers(line);
        let [user, nice, system, idle, iowait, irq, softirq, steal, guest, ..] = times[..] else { return None };
        Some(Self { user, nice, system, idle, iowait, irq, softirq, steal, guest })
    }

    /// Returns the time of all CPUs, idle or not. That of guests is contained in user time.
    pub(crate) fn total(&self) -> u64 {
        let each = [self.user, self.nice, self.system, self.idle, self.iowait, self.irq, self.softirq, self.steal];
        each.into_iter().fold(0, u64::saturating_add)
    }
}

/// Segments of TCP since boot, of this network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpCounters {
    pub(crate) sent_segments: Option<u64>,
    pub(crate) retransmitted_segments: Option<u64>,
    /// Segments dropped because their socket had no room for them, or its buffer was full.
    pub(crate) receive_drops: Option<u64>,
}

impl TcpCounters {
    pub(crate) fn read(root: &Root) -> Self {
        let text = |path: &str| root.text(path).unwrap_or_default();
        Self::parse(&text("/proc/net/snmp"), &text("/proc/net/netstat"))
    }

    fn parse(snmp: &str, netstat: &str) -> Self {
        let mut receive_drops = None;
        for dropped in ["PruneCalled", "RcvPruned", "TCPBacklogDrop", "TCPRcvQDrop"] {
            if let Some(count) = table_counter(netstat, "TcpExt", dropped) {
                add(&mut receive_drops, count);
            }
        }
        let of = |name: &str| table_counter(snmp, "Tcp", name);
        Self { sent_segments: of("OutSegs"), retransmitted_segments: of("RetransSegs"), receive_drops }
    }
}

/// Returns the leading whole numbers of a line.
fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

/// Returns the first number of the line that begins with the word `key`.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the current frequency of each CPU that reports one, in kHz.
pub(crate) fn frequencies_khz(root: &Root) -> Vec<u64> {
    let read = |cpu: String| root.number(&format!("{CPUS}/{cpu}/cpufreq/scaling_cur_freq")).ok();
    root.numbered(CPUS, "cpu").into_iter().filter_map(read).collect()
}

impl Reading {
    fn add_stat(&mut self, stat: &str) {
        if let Some(times) = CpuTimes::parse(stat) {
            let us = |ticks| Some(ticks_to_us(ticks));
            self.cpu_user_us = us(times.user);
            self.cpu_nice_us = us(times.nice);
            self.cpu_system_us = us(times.system);
            self.cpu_idle_us = us(times.idle);
            self.cpu_iowait_us = us(times.iowait);
            self.cpu_irq_us = us(times.irq);
            self.cpu_softirq_us = us(times.softirq);
            self.cpu_steal_us = us(times.steal);
            self.cpu_guest_us = us(times.guest);
        }
        self.context_switches = field(stat, "ctxt");
        self.interrupts = field(stat, "intr");
        self.forks = field(stat, "processes");
        self.tasks_running = field(stat, "procs_running");
        self.tasks_blocked = field(stat, "procs_blocked");
    }

    fn add_memory(&mut self, meminfo: &str) {
        let bytes = |name: &str| system::memory_field(meminfo, name).ok();
        self.memory_available_bytes = bytes("MemAvailable");
        self.memory_free_bytes = bytes("MemFree");
        self.memory_cached_bytes = bytes("Cached");
        self.memory_dirty_bytes = bytes("Dirty");
        self.swap_free_bytes = bytes("SwapFree");
    }

    fn add_paging(&mut self, vmstat: &str) {
        self.page_faults = field(vmstat, "pgfault");
        self.major_page_faults = field(vmstat, "pgmajfault");
        self.swapped_in_pages = field(vmstat, "pswpin");
        self.swapped_out_pages = field(vmstat, "pswpout");
        self.out_of_memory_kills = field(vmstat, "oom_kill");
    }

    /// Sums whole disks. Partitions count the same bytes again and have no folder of their own in `/sys/block`; loop and memory
    /// disks pass their bytes on to others.
    fn add_disks(&mut self, diskstats: &str, is_whole: impl Fn(&str) -> bool) {
        for line in diskstats.lines() {
            let mut words = line.split_whitespace().skip(2);
            let Some(name) = words.next() else { continue };
            let counts: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let [reads, _, read_sectors, _, writes, _, written_sectors, _, _, busy_ms, ..] = counts[..] else { continue };
            if is_whole(name) && !["loop", "ram", "zram", "dm-", "md"].iter().any(|prefix| name.starts_with(prefix)) {
                add(&mut self.disk_reads, reads);
                add(&mut self.disk_read_bytes, read_sectors.saturating_mul(SECTOR_BYTES));
                add(&mut self.disk_writes, writes);
                add(&mut self.disk_written_bytes, written_sectors.saturating_mul(SECTOR_BYTES));
                add(&mut self.disk_busy_ms, busy_ms);
            }
        }
    }

    fn add_network(&mut self, dev: &str) {
        for (name, counts) in dev.lines().filter_map(|line| line.split_once(':')) {
            let counts = numbers(counts);
            let [bytes_in, packets_in, errors_in, drops_in, _, _, _, _, bytes_out, packets_out, errors_out, drops_out, ..] =
                counts[..]
            else {
                continue;
            };
            if name.trim() != "lo" {
                add(&mut self.network_received_bytes, bytes_in);
                add(&mut self.network_received_packets, packets_in);
                add(&mut self.network_receive_losses, errors_in.saturating_add(drops_in));
                add(&mut self.network_sent_bytes, bytes_out);
                add(&mut self.network_sent_packets, packets_out);
                add(&mut self.network_send_losses, errors_out.saturating_add(drops_out));
            }
        }
    }

    /// Reads TCP's own counters (RFC 1213, and Linux's in `netstat`).
    fn add_tcp(&mut self, snmp: &str, netstat: &str) {
        let counters = TcpCounters::parse(snmp, netstat);
        self.tcp_retransmitted_segments = counters.retransmitted_segments;
        self.tcp_receive_drops = counters.receive_drops;
        self.tcp_listen_overflows = table_counter(netstat, "TcpExt", "ListenOverflows");
    }

    fn add_pressure(&mut self, cpu: &str, memory: &str, io: &str) {
        self.pressure_cpu_some_us = pressure_us(cpu, "some");
        self.pressure_memory_some_us = pressure_us(memory, "some");
        self.pressure_memory_full_us = pressure_us(memory, "full");
        self.pressure_io_some_us = pressure_us(io, "some");
        self.pressure_io_full_us = pressure_us(io, "full");
    }

    fn add_throttling(&mut self, throttling: cgroup::Throttling) {
        self.cgroup_periods = throttling.periods;
        self.cgroup_throttled_periods = throttling.throttled_periods;
        self.cgroup_throttled_us = throttling.throttled_us;
    }

    fn add_frequencies(&mut self, khz: &[u64]) {
        self.frequency_min_khz = khz.iter().copied().min();
        self.frequency_max_khz = khz.iter().copied().max();
        let sum = khz.iter().fold(0_u64, |sum, khz| sum.saturating_add(*khz));
        self.frequency_mean_khz = sum.checked_div(khz.len() as u64);
    }
}

/// Returns a counter of a file of two lines for each table, `Tcp: NAME ...` and `Tcp: NUMBER ...`.
fn table_counter(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|found| found == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

fn add(total: &mut Option<u64>, count: u64) {
    *total = Some(total.unwrap_or(0).saturating_add(count));
}

/// Returns the total of a line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, in microseconds.
pub(crate) fn pressure_us(text: &str, line: &str) -> Option<u64> {
    let line = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use proptest::prelude::*;

    #[test]
    fn all_counters_are_read() {
        let tree = Tree::new(&[
            (
                "proc/stat",
                "cpu  100811 7 9516 295341 585 3 142 38 5 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 683750 0 1 2\nctxt 877760\nbtime 1\nprocesses 26747\nprocs_running 4\nprocs_blocked 1\n",
            ),
            (
                "proc/meminfo",
                "MemTotal: 100 kB\nMemFree: 40 kB\nMemAvailable: 60 kB\nCached: 20 kB\nSwapCached: 0 kB\nDirty: 1 kB\nSwapFree: 2 kB\n",
            ),
            ("proc/vmstat", "pswpin 1\npswpout 2\npgfault 25910048\npgmajfault 4393\noom_kill 0\n"),
            (
                "proc/diskstats",
                "   7 0 loop0 9 9 9 9 9 9 9 9 9 9 9\n 254 0 vda 10 0 100 5 20 0 200 6 0 30 11 0 0 0 0\n 254 1 vda1 10 0 100 5 20 0 200 6 0 30 11\n",
            ),
            ("sys/block/vda/size", "1"),
            ("sys/block/loop0/size", "1"),
            (
                "proc/net/dev",
                "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0\n  eth0: 359172133   12089    1    2    0     0          0         0   812590    7619    3    4    0     0       0          0\n  eth1:10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n",
            ),
            (
                "proc/pressure/cpu",
                "some avg10=45.81 avg60=25.12 avg300=22.16 total=246964462\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            ),
            (
                "proc/pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
            ),
            (
                "proc/pressure/io",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=13\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=14\n",
            ),
            ("proc/loadavg", "0.50 0.40 0.30 1/2 3\n"),
            ("proc/net/snmp", "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm InSegs RetransSegs\nTcp: 1 900 17\n"),
            (
                "proc/net/netstat",
                "TcpExt: SyncookiesSent PruneCalled RcvPruned ListenOverflows TCPBacklogDrop TCPRcvQDrop\nTcpExt: 9 1 2 5 3 4\nIpExt: InNoRoutes\nIpExt: 0\n",
            ),
            ("proc/self/stat", "17 (assay) collect) S 1 17 17 0 -1 4194560 900 0 0 0 31 12 5 6 20 0 3 0 9000 1 2\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "123456\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 1\nnr_periods 5\nnr_throttled 4\nthrottled_usec 300\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1000\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2001\n"),
            ("sys/class/thermal/thermal_zone0/temp", "45000\n"),
            ("sys/class/thermal/thermal_zone3/temp", "51000\n"),
        ]);
        let reading = Counters::new(tree.root()).read();
        insta::assert_snapshot!(serde_json::to_string_pretty(&reading).expect("JSON"), @r#"
        {
          "cpu_user_us": 1008110000,
          "cpu_nice_us": 70000,
          "cpu_system_us": 95160000,
          "cpu_idle_us": 2953410000,
          "cpu_iowait_us": 5850000,
          "cpu_irq_us": 30000,
          "cpu_softirq_us": 1420000,
          "cpu_steal_us": 380000,
          "cpu_guest_us": 50000,
          "context_switches": 877760,
          "interrupts": 683750,
          "forks": 26747,
          "tasks_running": 4,
          "tasks_blocked": 1,
          "load_1m": 0.5,
          "memory_available_bytes": 61440,
          "memory_free_bytes": 40960,
          "memory_cached_bytes": 20480,
          "memory_dirty_bytes": 1024,
          "swap_free_bytes": 2048,
          "page_faults": 25910048,
          "major_page_faults": 4393,
          "swapped_in_pages": 1,
          "swapped_out_pages": 2,
          "out_of_memory_kills": 0,
          "disk_reads": 10,
          "disk_read_bytes": 51200,
          "disk_writes": 20,
          "disk_written_bytes": 102400,
          "disk_busy_ms": 30,
          "network_received_bytes": 359172143,
          "network_received_packets": 12090,
          "network_receive_losses": 3,
          "network_sent_bytes": 812610,
          "network_sent_packets": 7621,
          "network_send_losses": 7,
          "tcp_retransmitted_segments": 17,
          "tcp_receive_drops": 10,
          "tcp_listen_overflows": 5,
          "pressure_cpu_some_us": 246964462,
          "pressure_memory_some_us": 11,
          "pressure_memory_full_us": 12,
          "pressure_io_some_us": 13,
          "pressure_io_full_us": 14,
          "cgroup_periods": 5,
          "cgroup_throttled_periods": 4,
          "cgroup_throttled_us": 300,
          "frequency_min_khz": 1000,
          "frequency_mean_khz": 1500,
          "frequency_max_khz": 2001,
          "temperature_max_millicelsius": 51000,
          "cpu_package_energy_uj": 0,
          "cpu_packages": 1,
          "recorder_cpu_us": 430000
        }
        "#);
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        let reading = Counters::new(Tree::new(&[]).root()).read();
        assert_eq!(reading, Reading::default());
        assert_eq!(serde_json::to_string(&reading).expect("JSON"), "{}");
        assert_eq!(serde_json::from_str::<Reading>("{}").expect("read back"), reading);
    }

    #[test]
    fn this_machine_counts() {
        let mut machine = Counters::new(Root::host());
        let (before, after) = (machine.read(), machine.read());
        assert!(before.context_switches.is_some() && before.context_switches <= after.context_switches);
        assert!(before.cpu_user_us.is_some() && before.cpu_user_us <= after.cpu_user_us);
        assert!(before.recorder_cpu_us.is_some() && before.recorder_cpu_us <= after.recorder_cpu_us);
    }

    proptest! {
        #[test]
        fn odd_files_never_make_it_panic(text in "(cpu|ctxt|some|lo:|vda|MemFree:| |[0-9]{1,20}|\n|total=|-){0,60}") {
            let mut reading = Reading::default();
            let _ = process_cpu_us(&text);
            reading.add_stat(&text);
            reading.add_memory(&text);
            reading.add_tcp(&text, &text);
            reading.add_paging(&text);
            reading.add_disks(&text, |_| true);
            reading.add_network(&text);
            reading.add_pressure(&text, &text, &text);
            reading.add_frequencies(&[u64::MAX, 1]);
        }
    }
}
