//! Exporters that a pipeline names: from the pipeline over the recorder and the curated rows to what a reader is shown.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use assay_probe::testing::{Reply, Server};
use assay_warehouse::{Row, TELEMETRY_SLICE_FACT, Value as Cell};
use serde_json::Value;

use crate::pipeline::{list, text};
use crate::support::{Fixture, blob, indicator_output, pipeline, script, wait_until};

/// The exporter of Debian's package `prometheus-node-exporter`, which `ASSAY_TEST_NODE_EXPORTER` names.
pub(crate) struct NodeExporter {
    pub(crate) address: SocketAddr,
    server: Child,
}

impl NodeExporter {
    /// Returns `None` if no exporter is requested; if it is requested but absent, the test fails.
    #[expect(clippy::print_stdout, reason = "a test that looks at less says so")]
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("ASSAY_TEST_NODE_EXPORTER").map(PathBuf::from) else {
            println!("ASSAY_TEST_NODE_EXPORTER is not set: no real node_exporter was scraped");
            return None;
        };
        assert!(program.is_file(), "`{}` is not there", program.display());
        // It cannot report a port that it chose itself, so a port that was free a moment ago has to do.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let mut command = Command::new(&program);
        command.arg(format!("--web.listen-address={address}")).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let exporter = Self { address, server: command.spawn().expect("the exporter starts") };
        wait_until("the exporter listens", || TcpStream::connect(address).is_ok());
        Some(exporter)
    }
}

impl Drop for NodeExporter {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Returns a repository whose pipeline names these exporters and runs one trial of these commands.
fn fixture(exporters: &[(&str, &str)], commands: &str) -> Fixture {
    let lines: Vec<_> = exporters.iter().map(|(name, url)| format!("    - {{name: {name}, scrape: '{url}'}}\n")).collect();
    let telemetry = format!("  telemetry:\n{}", lines.concat());
    let body = format!("{commands}\necho '{}'", indicator_output("only", "[100.25, 101.5, 99.75]"));
    Fixture::with_pipeline(&script(&body), &pipeline("exploratory", &["only"], 1, &telemetry))
}

/// Returns the telemetry rows of a run.
pub(crate) fn rows(fixture: &Fixture, run: &str) -> Vec<Row> {
    let summary = fixture.manifest(run, "reduce");
    let is_it = |file: &&Value| file["table"] == TELEMETRY_SLICE_FACT.name;
    let file = list(&summary["body"]["files"]).iter().find(is_it).expect("the table is among the files");
    let bytes = fs::read(blob(&fixture.store(), text(&file["artifact"]["digest"]))).expect("it is in the store");
    assay_warehouse::read(&TELEMETRY_SLICE_FACT, bytes).expect("a curated file")
}

/// Returns the detail of an issue of a run's Summary.
pub(crate) fn issue(fixture: &Fixture, run: &str, code: &str) -> String {
    let summary = fixture.manifest(run, "reduce");
    let issues = list(&summary["body"]["issues"]);
    let found = issues.iter().find(|issue| issue["code"] == code);
    text(&found.unwrap_or_else(|| panic!("no issue `{code}` in {issues:#?}"))["detail"]).to_owned()
}

pub(crate) fn float(row: &Row, column: &str) -> f64 {
    match row.get(column) {
        Some(Cell::Float(value)) => *value,
        other => panic!("`{column}` is {other:?}"),
    }
}

pub(crate) fn count(row: &Row, column: &str) -> i64 {
    match row.get(column) {
        Some(Cell::Int(value)) => *value,
        other => panic!("`{column}` is {other:?}"),
    }
}

#[test]
fn a_node_exporter_is_recorded_while_trials_run() {
    let Some(exporter) = NodeExporter::start() else { return };
    // Three seconds, in which one CPU is busy.
    let commands = "timeout 3 sh -c 'while :; do :; done' || true";
    let fixture = fixture(&[("node", &format!("http://{}", exporter.address))], commands);
    fixture.run("one").success();

    let rows = rows(&fixture, "one");
    let of_node: Vec<_> = rows.iter().filter(|row| row.text("source") == Some("exporter/node")).collect();
    let row = |metric: &str| {
        let found = of_node.iter().find(|row| row.text("metric") == Some(metric));
        found.unwrap_or_else(|| panic!("no `{metric}`"))
    };
    let scopes: BTreeSet<_> = of_node.iter().map(|row| (row.text("scope_kind"), row.text("scope_id"))).collect();
    assert_eq!(scopes, [(Some("exporter"), Some("node"))].into());
    let busy = row("node_cpu_busy_ratio");
    assert!(count(busy, "n") >= 2 && float(busy, "max") > 0.0 && float(busy, "max") < 1.5, "{busy:?}");
    assert_eq!((busy.text("unit"), busy.text("metric_kind")), (Some("ratio"), Some("counter")));
    let available = row("node_memory_MemAvailable_bytes");
    assert!(float(available, "min") > 0.0, "{available:?}");
    assert_eq!(row("node_load1").text("unit"), Some("tasks"));
    assert!(float(row("node_context_switches_total"), "mean") > 0.0);
    assert!(float(row("node_cpu_seconds_total{mode=\"idle\"}"), "mean") >= 0.0);
    let names: BTreeSet<_> = of_node.iter().filter_map(|row| row.text("metric")).collect();
    let is_left_out = |name: &&&str| name.starts_with("go_") || name.starts_with("node_scrape_") || name.contains("\"lo\"");
    assert_eq!(names.iter().find(is_left_out), None);
    assert!(of_node.iter().all(|row| count(row, "gap_ns") == 0), "it was recorded throughout");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn an_exporter_that_dies_leaves_a_gap_to_the_end() {
    let Some(exporter) = NodeExporter::start() else { return };
    let commands = format!("sleep 2.5\nkill {}\nsleep 2", exporter.server.id());
    let fixture = fixture(&[("node", &format!("http://{}/metrics", exporter.address))], &commands);
    fixture.run("one").success();

    let rows = rows(&fixture, "one");
    let load = rows.iter().find(|row| row.text("metric") == Some("node_load1")).expect("readings before its end");
    let gap_s = count(load, "gap_ns") as f64 / 1e9;
    assert!(count(load, "n") >= 1 && (1.9..4.5).contains(&gap_s), "{load:?}");
    let host = rows.iter().find(|row| row.text("metric") == Some("load_1m")).expect("the host is recorded on");
    assert_eq!(count(host, "gap_ns"), 0);
    let gaps = issue(&fixture, "one", "recording_gaps");
    assert!(gaps.contains("`exporter/node` for ") && gaps.contains("Connection refused"), "{gaps}");
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    assert!(shown.contains("exporter/node"), "{shown}");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn exporters_without_usable_responses_fail_nothing_and_are_reported() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let many: Vec<_> = (0..1500).map(|index| format!("m{index:04}{{label=\"{}\"}} 1\n", "x".repeat(20))).collect();
    let long = format!("long{{label=\"{}\"}} 1\nshort 1\n", "x".repeat(5000));
    let server = Server::with_replies(vec![
        ("/page", Reply::ok("<html><body>an exporter</body></html>")),
        ("/bytes", Reply::ok(b"up 1\n\xff\xfe")),
        ("/endless", Reply::endless()),
        ("/hangs", Reply::hang()),
        ("/many", Reply::ok(many.concat())),
        ("/long", Reply::ok(long)),
    ]);
    let names = ["page", "bytes", "endless", "hangs", "many", "long", "missing"];
    let urls: Vec<_> = names.iter().map(|name| (*name, server.at(&format!("/{name}")))).collect();
    let gone = format!("http://{closed}/metrics");
    let exporters: Vec<_> = urls.iter().map(|(name, url)| (*name, url.as_str())).chain([("gone", gone.as_str())]).collect();
    let fixture = fixture(&exporters, "sleep 3");
    fixture.run("one").success();

    let rows = rows(&fixture, "one");
    let sources: BTreeSet<_> = rows.iter().filter_map(|row| row.text("source")).collect();
    assert_eq!(sources, ["exporter/long", "exporter/many", "host"].into(), "the others have no rows");
    let of = |source: &str| rows.iter().filter(|row| row.text("source") == Some(source)).count();
    assert_eq!((of("exporter/many"), of("exporter/long")), (1000, 1));
    let left_out = issue(&fixture, "one", "telemetry_left_out");
    assert!(left_out.starts_with("no rows have 501 metrics beyond 1000 of one source in one attempt"), "{left_out}");

    let gaps = issue(&fixture, "one", "recording_gaps");
    let reasons = [
        ("page", "the response has no metrics"),
        ("bytes", "the response is not UTF-8"),
        ("missing", "404 Not Found"),
        ("gone", "Connection refused"),
        ("hangs", "no response within 900ms"),
        ("endless", ""),
    ];
    for (name, reason) in reasons {
        let part = gaps.split(", `").find(|part| part.contains(&format!("exporter/{name}`"))).unwrap_or_default();
        assert!(!part.is_empty() && part.contains(reason), "{name}: {gaps}");
    }
    let attempt = &fixture.manifest("one", "collect")["body"]["trials"][0]["attempts"][0];
    let with_gaps: BTreeSet<_> = list(&attempt["gaps"]).iter().map(|gap| text(&gap["source"])).collect();
    let expected = reasons.map(|(name, _)| format!("exporter/{name}"));
    assert_eq!(with_gaps, expected.iter().map(String::as_str).collect());
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    assert!(shown.contains("exporter/gone"), "{shown}");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}
