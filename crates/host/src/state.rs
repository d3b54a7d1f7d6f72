//! The machine at one instant, to find what disturbed a trial. Cheap: a dozen small files, far below 5 ms.

use std::collections::BTreeMap;

use assay_manifest::{Count, HostState, Instant};

use crate::counters::{CPU_PRESSURE, CpuTimes, TcpCounters, frequencies_khz, pressure_us, ticks_to_us};
use crate::{Root, cgroup, system};

/// The kernel's folder of thermal sensors, by zone.
const ZONES: &str = "/sys/class/thermal";

/// Reads the current state of the machine. What cannot be read is absent.
pub fn state(root: &Root, now: Instant) -> HostState {
    let cpu = root.text("/proc/stat").ok().and_then(|stat| CpuTimes::parse(&stat));
    let memory = root.text("/proc/meminfo").ok();
    let tcp = TcpCounters::read(root);
    let group = cgroup::group(root, "cpu").ok();
    let group = group.as_ref();
    HostState {
        load_1m: root.text("/proc/loadavg").ok().and_then(|text| load(&text, 0)),
        memory_available_bytes: memory.and_then(|text| system::memory_field(&text, "MemAvailable").ok()).map(Count),
        cpu_busy_us: cpu.map(|cpu| Count(ticks_to_us(cpu.user.saturating_add(cpu.nice).saturating_add(cpu.system)))),
        own_cpu_us: crate::own_processes::cpu_us(root).map(Count),
        cpu_steal_us: cpu.map(|cpu| Count(ticks_to_us(cpu.steal))),
        cpu_softirq_us: cpu.map(|cpu| Count(ticks_to_us(cpu.softirq))),
        cpu_total_us: cpu.map(|cpu| Count(ticks_to_us(cpu.total()))),
        cgroup_throttled_us: group.and_then(|group| group.throttling(root).throttled_us).map(Count),
        cpu_pressure_us: root.text(CPU_PRESSURE).ok().and_then(|text| pressure_us(&text, "some")).map(Count),
        cgroup_pressure_us: group.and_then(|group| pressure_us(&group.cpu_pressure(root)?, "some")).map(Count),
        tcp_sent_segments: tcp.sent_segments.map(Count),
        tcp_retransmitted_segments: tcp.retransmitted_segments.map(Count),
        tcp_receive_drops: tcp.receive_drops.map(Count),
        frequencies_khz: frequencies_khz(root).into_iter().map(Count).collect(),
        temperatures_millicelsius: temperatures(root),
        ..HostState::at(now)
    }
}

/// Returns a figure of `/proc/loadavg`: 0 for one minute, 1 for five, 2 for fifteen.
pub(crate) fn load(text: &str, index: usize) -> Option<f64> {
    text.split_whitespace().nth(index)?.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 0.0)
}

/// Returns the temperatures in thousandths of a degree Celsius, by sensor: `zone 0 x86_pkg_temp`.
pub(crate) fn temperatures(root: &Root) -> BTreeMap<String, i32> {
    let read = |zone: String| {
        let value = root.number(&format!("{ZONES}/{zone}/temp")).ok()?;
        let kind = root.word(&format!("{ZONES}/{zone}/type")).unwrap_or_default();
        Some((format!("zone {} {kind}", zone.trim_start_matches("thermal_zone")).trim_end().to_owned(), value))
    };
    root.numbered(ZONES, "thermal_zone").into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn shown(tree: &Tree) -> String {
        serde_json::to_string_pretty(&state(&tree.root(), Instant::from_unix_ns(0))).expect("JSON")
    }

    #[test]
    fn a_state_is_read() {
        let tree = Tree::new(&[
            ("proc/stat", "cpu  100 20 30 400 5 0 7 40 0 0\n"),
            ("proc/net/snmp", "Tcp: InSegs OutSegs RetransSegs\nTcp: 1 90 2\n"),
            ("proc/net/netstat", "TcpExt: PruneCalled TCPBacklogDrop\nTcpExt: 3 4\n"),
            ("proc/self/cgroup", "0::/job\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/job/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=321\n"),
            ("proc/loadavg", "0.52 1.20 0.90 2/345 6789\n"),
            (
                "proc/pressure/cpu",
                "some avg10=1.00 avg60=2.00 avg300=3.00 total=5698\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
            ),
            ("proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 4 kB\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2100000\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "<unknown>\n"),
            ("sys/class/thermal/thermal_zone0/temp", "45000\n"),
            ("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n"),
            ("sys/class/thermal/thermal_zone1/temp", "-1000\n"),
        ]);
        insta::assert_snapshot!(shown(&tree), @r#"
        {
          "at": "1970-01-01T00:00:00.000000000Z",
          "load_1m": 0.52,
          "memory_available_bytes": "4096",
          "cpu_busy_us": "1500000",
          "cpu_steal_us": "400000",
          "cpu_softirq_us": "70000",
          "cpu_total_us": "6020000",
          "cpu_pressure_us": "5698",
          "cgroup_pressure_us": "321",
          "tcp_sent_segments": "90",
          "tcp_retransmitted_segments": "2",
          "tcp_receive_drops": "7",
          "frequencies_khz": [
            "2100000"
          ],
          "temperatures_millicelsius": {
            "zone 0 x86_pkg_temp": 45000,
            "zone 1": -1000
          }
        }
        "#);
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        insta::assert_snapshot!(shown(&Tree::new(&[])), @r#"
        {
          "at": "1970-01-01T00:00:00.000000000Z",
          "frequencies_khz": [],
          "temperatures_millicelsius": {}
        }
        "#);
    }

    #[test]
    fn odd_loads_are_absent() {
        for odd in ["", "x 1 1", "NaN 1 1", "-1 1 1", "inf"] {
            assert_eq!(load(odd, 0), None, "{odd}");
        }
    }
}
