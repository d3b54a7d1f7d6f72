use proptest::prelude::*;

use super::*;

/// Responses of `prometheus-node-exporter` 1.5.0 on a machine of two CPUs, in short.
const NODE: &str = r#"
# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 5807.5
node_cpu_seconds_total{cpu="0",mode="iowait"} 275.5
node_cpu_seconds_total{cpu="0",mode="steal"} 15.25
node_cpu_seconds_total{cpu="0",mode="system"} 4160.5
node_cpu_seconds_total{cpu="0",mode="user"} 15961
node_cpu_seconds_total{cpu="1",mode="idle"} 5186
node_cpu_seconds_total{cpu="1",mode="iowait"} 564.5
node_cpu_seconds_total{cpu="1",mode="steal"} 14.25
node_cpu_seconds_total{cpu="1",mode="system"} 3976.5
node_cpu_seconds_total{cpu="1",mode="user"} 14661
node_cpu_guest_seconds_total{cpu="0",mode="user"} 3
node_cpu_scaling_frequency_hertz{cpu="0"} 2.1e+09
node_cpu_scaling_frequency_hertz{cpu="1"} 3.4e+09
# TYPE node_disk_read_bytes_total counter
node_disk_read_bytes_total{device="vda"} 9.3604467712e+10
node_disk_read_bytes_total{device="dm-0"} 9.3604467712e+10
node_disk_read_bytes_total{device="zram0"} 0
# TYPE node_load1 gauge
node_load1 2.23
node_memory_MemAvailable_bytes 1.2e+10
node_memory_Active_bytes 1.1e+10
# TYPE node_netstat_Tcp_RetransSegs untyped
node_netstat_Tcp_RetransSegs 13749
node_network_receive_bytes_total{device="eth0"} 1.269562831e+09
node_network_receive_bytes_total{device="lo"} 7
node_network_receive_bytes_total{device="veth12ab"} 8
node_uname_info{sysname="Linux"} 1
go_goroutines 8
process_cpu_seconds_total 1.5
promhttp_metric_handler_requests_total{code="200"} 3
"#;

/// Returns every metric in a line: name with labels, kind, value, number of series, unit.
fn shown(text: &str) -> String {
    let observed = Exporter.observed(&ReadingBody::Text(text.to_owned()));
    assert_eq!(observed.left_out, 0);
    let line = |sample: &MetricSample| {
        let MetricSample { key, kind, value, series } = sample;
        let unit = Exporter.unit(&key.name, *kind);
        format!("{}{} {kind:?} {value} of {series} {unit}", key.name, key.labels)
    };
    observed.samples.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_node_exporter_has_the_metrics_of_the_table() {
    insta::assert_snapshot!(shown(NODE), @r#"
    node_cpu_busy_ratio Share 19379.5 of 2 ratio
    node_cpu_scaling_frequency_hertz_max Gauge 3400000000 of 2 Hz
    node_cpu_scaling_frequency_hertz_min Gauge 2100000000 of 2 Hz
    node_cpu_seconds_total{mode="idle"} Counter 10993.5 of 2 s/s
    node_cpu_seconds_total{mode="iowait"} Counter 840 of 2 s/s
    node_cpu_seconds_total{mode="steal"} Counter 29.5 of 2 s/s
    node_cpu_seconds_total{mode="system"} Counter 8137 of 2 s/s
    node_cpu_seconds_total{mode="user"} Counter 30622 of 2 s/s
    node_disk_read_bytes_total{device="vda"} Counter 93604467712 of 1 bytes/s
    node_load1 Gauge 2.23 of 1 tasks
    node_memory_MemAvailable_bytes Gauge 12000000000 of 1 bytes
    node_netstat_Tcp_RetransSegs Counter 13749 of 1 packets/s
    node_network_receive_bytes_total{device="eth0"} Counter 1269562831 of 1 bytes/s
    "#);
}

#[test]
fn other_exporters_have_all_their_series_but_buckets_and_their_own_process() {
    let text = concat!(
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n",
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\"} 97\n",
        "# TYPE http_requests counter\n",
        "http_requests_total 5\n",
        "latency_seconds_bucket{le=\"1\"} 4\n",
        "latency_seconds_sum 2.5\n",
        "latency_seconds_count 5\n",
        "python_gc_objects_collected_total 5\n",
        "not a sample\n",
    );
    insta::assert_snapshot!(shown(text), @r#"
    DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0"} Gauge 97 of 1 unknown
    http_requests_total Counter 5 of 1 requests/s
    latency_seconds_sum Counter 2.5 of 1 s/s
    latency_seconds_count Counter 5 of 1 1/s
    "#);
    assert_eq!(Exporter.check_response(text), Ok(()));
    let page = "<html><head><title>Node Exporter</title></head></html>\n";
    assert_eq!((shown(page).as_str(), Exporter.check_response(page)), ("", Err("the response has no metrics")));
    assert_eq!(Exporter.check_response("# TYPE up gauge\n"), Err("the response has no metrics"));
}

#[test]
fn the_keys_of_a_gpu_are_labels_of_dcgm_exporter() {
    let keys = |metric: &str, labels: &str| {
        let found = Exporter.keys(metric, labels)?;
        Some([found.gpu_uuid, found.node_name, found.pod_uid].map(|key| key.unwrap_or_else(|| "-".to_owned())).join(" "))
    };
    let labels = r#"{Hostname="node-7",UUID="GPU-\"1",gpu="0",pod="a",pod_uid="u"}"#;
    assert_eq!(keys("DCGM_FI_DEV_GPU_UTIL", labels).as_deref(), Some("GPU-\"1 node-7 u"));
    assert_eq!(
        keys("DCGM_FI_DEV_GPU_UTIL", r#"{gpu="0",pod="a"}"#).as_deref(),
        Some("- - -"),
        "no name of a pod, no number of a GPU"
    );
    assert_eq!(keys("node_load1", labels), None, "labels of this name mean something else there");
}

#[test]
fn an_address_without_a_path_has_the_default_one() {
    for (url, expected) in [
        ("http://node:9100", "http://node:9100/metrics"),
        ("http://node:9100/metrics", "http://node:9100/metrics"),
        ("http://node:9100/", "http://node:9100/"),
        ("https://[::1]:9100?collect[]=cpu", "https://[::1]:9100/metrics?collect[]=cpu"),
        ("http://node/probe?target=a/b", "http://node/probe?target=a/b"),
    ] {
        assert_eq!(with_default_path(url), expected);
    }
}

#[test]
fn series_beyond_the_limit_are_counted() {
    let lines: Vec<_> = (0..MAX_SERIES + 2).map(|index| format!("node_load1{{x=\"{index}\"}} 1\n")).collect();
    let observed = Exporter.observed(&ReadingBody::Text(lines.concat()));
    assert_eq!((observed.samples.len(), observed.left_out), (MAX_SERIES, 2));
}

proptest! {
    #[test]
    fn whatever_an_exporter_says_is_taken_or_left(
        text in "(node_cpu_seconds_total|node_load1|[a-z_]{1,8}|\\{mode=\"|\\{device=\"|\\}|=|\"|,|1|-|e|NaN|[+]Inf| |\n){0,60}"
    ) {
        let observed = Exporter.observed(&ReadingBody::Text(text));
        prop_assert!(observed.samples.iter().all(|sample| sample.series > 0));
    }
}
