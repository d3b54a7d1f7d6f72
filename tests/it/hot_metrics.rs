//! Hot metrics: from the pipeline to a real Prometheus, a real Pushgateway and a decoder of OTLP; the shipped dashboards and rules; and receivers
//! that misbehave.

#![expect(clippy::print_stdout, reason = "a test that looks at less says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assay_probe::testing::{Reply, Server};
use assay_probe::{Client, Headers, Limits};
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use crate::pipeline::{list, text};
use crate::server::{self, AfterResponse, complete_stream};
use crate::serving;
use crate::support::{CommandResult, Fixture, PIPELINE, files_under, pipeline, script, steady_script, wait_until};

/// The labels of hot metrics.
const LABELS: [&str; 8] =
    ["run_id", "benchmark_case_id", "cluster", "region", "node_pool", "gpu_model", "scheduler_path", "concurrency_bucket"];

/// Returns a program that a variable names. `None` if it is not requested; if it is requested but absent, the test fails.
fn requested(variable: &str) -> Option<PathBuf> {
    let Some(program) = std::env::var_os(variable).map(PathBuf::from) else {
        println!("{variable} is not set: nothing was pushed to a real receiver");
        return None;
    };
    assert!(program.is_file(), "`{}` is not there", program.display());
    Some(program)
}

/// Returns a folder of `deploy`.
fn deploy(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(folder)
}

/// A server of another project, which is killed when this is dropped.
pub(crate) struct ForeignServer {
    address: SocketAddr,
    server: Child,
    _folder: TempDir,
}

impl ForeignServer {
    /// Starts a program with the options that `options` makes from its address and a folder of its own, and waits until `/-/ready` says so.
    fn start(program: &Path, options: impl FnOnce(SocketAddr, &Path) -> Vec<String>) -> Self {
        Self::start_on("127.0.0.1", program, options)
    }

    /// Like [`ForeignServer::start`], on another address of this machine.
    fn start_on(host: &str, program: &Path, options: impl FnOnce(SocketAddr, &Path) -> Vec<String>) -> Self {
        let folder = tempfile::Builder::new().prefix("assay-it-tsdb-").tempdir().expect("a folder");
        // It cannot report a port that it chose itself, so a port that was free a moment ago has to do.
        let address = TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr()).expect("a free port");
        let mut command = Command::new(program);
        command.args(options(address, folder.path())).env_clear().current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { address, server: command.spawn().expect("the server starts"), _folder: folder };
        wait_until("the server is ready", || get(&server.at("/-/ready")).is_some_and(|(status, _)| status == 200));
        server
    }

    /// Starts the Prometheus of Debian's package with the shipped configuration and rules.
    fn prometheus() -> Option<Self> {
        Self::prometheus_with(&deploy("prometheus").join("prometheus.yml"))
    }

    fn prometheus_with(config: &Path) -> Option<Self> {
        Self::prometheus_on("127.0.0.1", config)
    }

    /// Starts a Prometheus on an address that pods reach, without rules.
    pub(crate) fn prometheus_for_pods(host: &str) -> Option<Self> {
        Self::prometheus_on(host, Path::new("/dev/null"))
    }

    fn prometheus_on(host: &str, config: &Path) -> Option<Self> {
        let program = requested("ASSAY_TEST_PROMETHEUS")?;
        Some(Self::start_on(host, &program, |address, folder| {
            vec![
                format!("--config.file={}", config.display()),
                format!("--storage.tsdb.path={}", folder.join("data").display()),
                format!("--web.listen-address={address}"),
                "--web.enable-remote-write-receiver".to_owned(),
            ]
        }))
    }

    /// Starts the Pushgateway of Debian's package.
    fn pushgateway() -> Option<Self> {
        let program = requested("ASSAY_TEST_PUSHGATEWAY")?;
        Some(Self::start(&program, |address, _| vec![format!("--web.listen-address={address}")]))
    }

    /// Starts the Alertmanager of Debian's package, which sends its alerts nowhere.
    fn alertmanager() -> Option<Self> {
        let program = requested("ASSAY_TEST_ALERTMANAGER")?;
        Some(Self::start(&program, |address, folder| {
            let config = folder.join("alertmanager.yml");
            fs::write(&config, "route: {receiver: none}\nreceivers: [{name: none}]\n").expect("written");
            vec![
                format!("--config.file={}", config.display()),
                format!("--storage.path={}", folder.join("data").display()),
                format!("--web.listen-address={address}"),
                "--cluster.listen-address=".to_owned(),
            ]
        }))
    }

    /// Returns the address of a path.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the result of a query of Prometheus.
    #[track_caller]
    pub(crate) fn query(&self, query: &str) -> Vec<Value> {
        let (_, body) = get(&self.at(&format!("/api/v1/query?query={}", escaped(query)))).expect("a response");
        let document: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(document["status"], "success", "{query}: {document}");
        list(&document["data"]["result"]).clone()
    }
}

impl Drop for ForeignServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn get(url: &str) -> Option<(u16, Vec<u8>)> {
    let limits = Limits { time: Duration::from_secs(30), bytes: 64 << 20 };
    let response = Client::new(Headers::default()).get(url, limits).ok()?;
    Some((response.status, response.body))
}

fn escaped(query: &str) -> String {
    query.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"))
}

/// Returns the lines of a pipeline that push to these receivers.
pub(crate) fn publish(receivers: &[String], more: &str) -> String {
    let receivers = receivers.iter().fold(String::new(), |lines, receiver| lines + "        - " + receiver + "\n");
    format!("  publish:\n    hot_metrics:\n{more}      receivers:\n{receivers}")
}

/// The line of a pipeline whose exploratory runs are pushed.
pub(crate) const EXPLORATORY: &str = "      exploratory: true\n";

/// Returns a repository with one indicator whose runs are pushed to these receivers.
fn indicator(receivers: &[String], more: &str) -> Fixture {
    Fixture::with_pipeline(&steady_script("only"), &pipeline("exploratory", &["only"], 3, &publish(receivers, more)))
}

/// Returns the receipts of a run's pushes in the store.
fn receipts(fixture: &Fixture, run: &str) -> Vec<Value> {
    let files = files_under(&fixture.store().join("hot-metrics").join(run));
    files.iter().map(|file| serde_json::from_slice(&fs::read(file).expect("a receipt")).expect("JSON")).collect()
}

/// Returns the names of the labels of a series, without that of the metric.
fn labels(series: &Value) -> BTreeSet<&str> {
    let labels = series["metric"].as_object().expect("labels").keys().map(String::as_str);
    labels.filter(|label| *label != "__name__").collect()
}

#[test]
fn a_run_becomes_series_that_the_shipped_dashboards_and_rules_find() {
    let Some(prometheus) = ForeignServer::prometheus() else { return };
    let fixture = Fixture::bare();
    serving::workload(&fixture, "chat", "mode: closed, concurrency: [1, 3, 4], requests: 20", "D(20,10)", "");
    fixture.indicator("only", &steady_script("only"), "");
    let receiver = format!(
        "{{name: fleet, remote_write: '{}', query: '{}'}}",
        prometheus.at("/api/v1/write"),
        prometheus.at("/api/v1/query")
    );
    let place = "{name: local, kind: host, hardware: {gpu_model: 'A \"B\" C'}, place: {region: eu-1, node_pool: gpus}}";
    let more = publish(&[receiver], EXPLORATORY);
    fixture.write(PIPELINE, &serving::pipeline(&["chat", "only"], &[serving::SIMULATOR, place], 5, serving::RETRY_BUDGET, &more));
    fixture.commit("a chat and an indicator");
    let ran = fixture.run("one").success();

    let series = prometheus.query("last_over_time({__name__=~\"assay_.+\"}[1d])");
    let [receipt] = <[Value; 1]>::try_from(receipts(&fixture, "one")).expect("one receipt");
    assert_eq!((receipt["outcome"].as_str(), receipt["points_left_out"].as_u64()), (Some("accepted"), Some(1)), "{receipt}");
    assert_eq!(
        (receipt["series"].as_u64(), receipt["accepted"].as_u64()),
        (Some(series.len() as u64), Some(series.len() as u64))
    );
    let line = format!("metrics   {} series to fleet (remote_write), 1 point left out", series.len());
    assert!(ran.stdout.contains(&line), "{}", ran.stdout);
    for one in &series {
        assert!(labels(one).iter().all(|label| LABELS.contains(label)), "{one}");
        assert_eq!(one["metric"]["run_id"], "one");
    }
    check_values(&fixture, &prometheus);
    check_dashboards(&prometheus, &series);
    check_rules(&prometheus);

    // The run is shown again without a push, and a push by hand changes nothing: the same samples at the same time.
    fixture.run("one").success();
    assert_eq!(receipts(&fixture, "one").len(), 1);
    let again = fixture.assay(&["push", "one", "--hot-metrics", "--json"]).success().json();
    assert_eq!(again["hot_metrics"][0]["accepted"], receipt["series"]);
    assert_eq!((receipts(&fixture, "one").len(), &receipts(&fixture, "one")[1]["series_digest"]), (2, &receipt["series_digest"]));
    for name in ["assay_run_end_timestamp_seconds", "assay_ttft_p99_seconds", "assay_indicator_speed_bytes_per_second"] {
        let samples = prometheus.query(&format!("max(count_over_time({name}[1d]))"));
        assert_eq!(samples[0]["value"][1], "1", "{samples:?}");
    }
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    assert_eq!(shown.matches(" series to fleet (remote_write)").count(), 2, "{shown}");
    let published = fixture.published("one");
    let by_folder = fixture.assay(&["push", published.to_str().expect("text"), "--hot-metrics"]).success();
    assert!(by_folder.stderr.contains("no receipt was kept, because a published folder is no store"), "{}", by_folder.stderr);
    assert_eq!(prometheus.query("last_over_time({__name__=~\"assay_.+\"}[1d])").len(), series.len());
    check_active_series(&prometheus, series.len());
    fixture.verify("one").success();
}

/// Checks that the active series of other runs count against the budget of a run.
fn check_active_series(prometheus: &ForeignServer, active: usize) {
    let receiver = format!(
        "{{name: fleet, remote_write: '{}', query: '{}'}}",
        prometheus.at("/api/v1/write"),
        prometheus.at("/api/v1/query")
    );
    let fixture = indicator(&[receiver], &format!("{EXPLORATORY}      max_active_series: {active}\n"));
    let refused = fixture.run("two").refuses(30, "series_budget");
    let message = format!("series and the receiver {active} active ones of other runs, and at most {active} may be active");
    assert!(refused.stderr.contains(&message), "{}", refused.stderr);
    assert_eq!(prometheus.query("last_over_time({run_id=\"two\"}[1d])").len(), 0, "nothing was pushed");
}

/// Checks that values and labels in Prometheus are those of the signed Summary.
#[expect(clippy::float_cmp, reason = "what is pushed is the same number")]
fn check_values(fixture: &Fixture, prometheus: &ForeignServer) {
    let value = |query: &str| {
        let [found] = <[Value; 1]>::try_from(prometheus.query(&format!("last_over_time({query}[1d])"))).expect("one series");
        (found["metric"].clone(), text(&found["value"][1]).parse::<f64>().expect("a number"))
    };
    let of_summary = |point: &Value, metric: &str| {
        let metric = serving::metric(point, metric).unwrap_or_else(|| panic!("no {metric}"));
        (metric["median"].as_f64().expect("a median"), metric["interval"]["low"].as_f64().expect("an interval"))
    };
    let summary = fixture.manifest("one", "reduce");
    let point =
        |id: &str| list(&summary["body"]["points"]).iter().find(|point| point["point_id"] == id).expect("a point").clone();
    let (median, low) = of_summary(&point("concurrency-4"), "ttft_ms_p99");
    assert_eq!(value("assay_ttft_p99_seconds{concurrency_bucket=\"4\"}").1, median / 1e3, "4 stands for 3 and 4");
    assert_eq!(value("assay_ttft_p99_seconds_ci_low{concurrency_bucket=\"4\"}").1, low / 1e3);
    let (median, _) = of_summary(&point("concurrency-1"), "output_tokens_per_s");
    assert_eq!(value("assay_output_tokens_per_second{concurrency_bucket=\"1\"}").1, median);
    assert_eq!(prometheus.query("last_over_time(assay_ttft_p99_seconds[1d])").len(), 2);

    let (of_indicator, speed) = value("assay_indicator_speed_bytes_per_second");
    assert_eq!(speed, 100.25e6, "MB/s become bytes per second");
    let expected = [
        ("run_id", "one"),
        ("benchmark_case_id", "only.local.default"),
        ("cluster", "local"),
        ("scheduler_path", "local"),
        ("region", "eu-1"),
        ("node_pool", "gpus"),
        ("gpu_model", "A \"B\" C"),
    ];
    for (label, value) in expected {
        assert_eq!(of_indicator[label], value, "{of_indicator}");
    }
    assert_eq!(of_indicator.get("concurrency_bucket"), None, "a label without a value is left out");
    let ends = prometheus.query("assay_run_end_timestamp_seconds[1d]");
    let ends = ends.iter().flat_map(|series| list(&series["values"]));
    let ends: Vec<(f64, f64)> =
        ends.map(|pair| (pair[0].as_f64().expect("a time"), text(&pair[1]).parse().expect("an end"))).collect();
    let last = ends.iter().map(|(_, end)| *end).fold(0.0, f64::max);
    assert!(
        ends.len() == 2 && ends.iter().all(|(at, _)| (at - last).abs() < 0.001),
        "samples have the end of the measurement: {ends:?}"
    );
    assert_eq!(value("assay_run_succeeded{benchmark_case_id=\"only.local.default\"}").1, 1.0);
    assert_eq!(value("assay_run_trials_planned{benchmark_case_id=\"only.local.default\"}").1, 5.0);
    assert_eq!(value("assay_run_points_left_out{benchmark_case_id=\"chat.simulator.default\"}").1, 1.0);
}

/// Checks every panel of every shipped dashboard: its queries have results, and no label but the allowed ones.
fn check_dashboards(prometheus: &ForeignServer, series: &[Value]) {
    let known: BTreeSet<&str> = series.iter().map(|series| text(&series["metric"]["__name__"])).collect();
    let files = files_under(&deploy("grafana"));
    let mut uids = BTreeSet::new();
    let mut queries = 0;
    let label_values = Regex::new(r"^label_values\((.+), ([a-z_]+)\)$").expect("a pattern");
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let dashboard: Value = serde_json::from_slice(&fs::read(file).expect("a dashboard")).expect("JSON");
        assert!(uids.insert(text(&dashboard["uid"]).to_owned()), "{} has the uid of another", file.display());
        assert_eq!(dashboard["time"]["from"], "now-30d");
        let mut ids = BTreeSet::new();
        for panel in list(&dashboard["panels"]) {
            let title = text(&panel["title"]);
            assert!(ids.insert(panel["id"].as_u64()), "{title}");
            for target in list(&panel["targets"]) {
                let query = text(&target["expr"]);
                check_labels(query);
                check_labels(text(&target["legendFormat"]));
                let unknown = names(query).into_iter().find(|name| !known.contains(name.as_str()));
                assert_eq!(unknown, None, "{}: {title}", file.display());
                let results = prometheus.query(&with_values(query));
                assert!(!results.is_empty(), "{}: {title}: {query}", file.display());
                queries += 1;
            }
            let links = panel["fieldConfig"]["defaults"]["links"].as_array();
            if panel["type"] == "table" {
                let url = text(&links.expect("a table has links")[0]["url"]);
                assert_eq!(url, "${site}/${__data.fields.run_id}/report.html");
            }
        }
        let variables: BTreeMap<_, _> =
            list(&dashboard["templating"]["list"]).iter().map(|variable| (text(&variable["name"]), variable)).collect();
        assert_eq!(variables["site"]["type"], "textbox");
        for variable in variables.values().filter(|variable| variable["type"] == "query") {
            let query = text(&variable["query"]["query"]);
            let values = label_values.captures(query).unwrap_or_else(|| panic!("{query}"));
            assert!(LABELS.contains(&&values[2]), "{query}");
            let found = prometheus.query(&format!("last_over_time({}[30d])", with_values(&values[1])));
            assert!(found.iter().any(|series| series["metric"].get(&values[2]).is_some()), "{query}");
        }
    }
    assert!(uids.len() >= 3 && queries >= 20, "{} dashboards, {queries} queries", uids.len());
}

/// Fills in the variables of a dashboard, as Grafana does for the choice of all cases and loads.
fn with_values(query: &str) -> String {
    query.replace("$case", ".+").replace("$load", ".*").replace("$__interval", "30d")
}

/// Returns the names of gauges in a query.
fn names(query: &str) -> BTreeSet<String> {
    let name = Regex::new(r"\bassay_[a-z0-9_]+").expect("a pattern");
    let found = name.find_iter(query).map(|found| found.as_str().to_owned());
    // A prefix of several names ends in an underscore.
    found.filter(|name| !name.ends_with('_')).collect()
}

/// Checks that a query, or a legend, has no label but the allowed ones.
#[track_caller]
fn check_labels(query: &str) {
    let lists = Regex::new(r"(?:by|on|without|ignoring|group_left|group_right) ?\(([a-z_, ]*)\)").expect("a pattern");
    let matchers = Regex::new(r"([a-zA-Z_]+) ?(?:=~|!~|!=|=)\s*\x22").expect("a pattern");
    let legends = Regex::new(r"\{\{([a-zA-Z_]+)\}\}|\$labels\.([a-zA-Z_]+)").expect("a pattern");
    let listed =
        lists.captures_iter(query).flat_map(|found| found[1].split(',').map(|label| label.trim().to_owned()).collect::<Vec<_>>());
    let matched = matchers.captures_iter(query).map(|found| found[1].to_owned());
    let shown = legends.captures_iter(query).map(|found| found.get(1).or(found.get(2)).expect("a label").as_str().to_owned());
    for label in listed.chain(matched).chain(shown).filter(|label| !label.is_empty() && label != "__name__") {
        assert!(LABELS.contains(&label.as_str()), "`{label}` in {query}");
    }
}

#[test]
fn a_label_that_is_not_allowed_is_found_in_a_query() {
    check_labels("max by (run_id, cluster) (x{__name__=~\"a\"}) on (region) {{gpu_model}} $labels.node_pool");
    for bad in [
        "sum by (run_id, pod) (x)",
        "x{request_id=\"1\"}",
        "{{trace_id}}",
        "x == on (prompt_hash) group_left () y",
        "$labels.user",
    ] {
        assert!(std::panic::catch_unwind(|| check_labels(bad)).is_err(), "{bad}");
    }
}

/// Checks that Prometheus has loaded the shipped rules, and that each of them can be evaluated over the run's series.
fn check_rules(prometheus: &ForeignServer) {
    let (_, body) = get(&prometheus.at("/api/v1/rules")).expect("a response");
    let rules: Value = serde_json::from_slice(&body).expect("JSON");
    let rules: Vec<_> = list(&rules["data"]["groups"]).iter().flat_map(|group| list(&group["rules"])).collect();
    let alerts = rules.iter().filter(|rule| rule["type"] == "alerting").count();
    assert!(rules.len() > alerts && alerts >= 5, "{} rules, {alerts} alerts", rules.len());
    for rule in rules {
        let query = text(&rule["query"]);
        check_labels(query);
        prometheus.query(query);
        for text in rule["annotations"].as_object().into_iter().flatten().filter_map(|(_, text)| text.as_str()) {
            check_labels(text);
        }
    }
    let newest = "last_over_time(assay_run_end_timestamp_seconds[30d]) == on (benchmark_case_id) group_left () \
        max by (benchmark_case_id) (last_over_time(assay_run_end_timestamp_seconds[30d]))";
    assert_eq!(prometheus.query(newest).len(), 2, "each case has a newest run");
}

#[test]
fn the_shipped_rules_pass_their_tests() {
    let Some(prometheus) = requested("ASSAY_TEST_PROMETHEUS") else { return };
    let promtool = prometheus.with_file_name("promtool");
    let check = |arguments: &[&str]| {
        let output = Command::new(&promtool).args(arguments).current_dir(deploy("prometheus")).output().expect("promtool runs");
        CommandResult::from_output(output)
    };
    check(&["check", "config", "prometheus.yml"]).success();
    check(&["check", "rules", "assay.rules.yml"]).success();
    check(&["test", "rules", "assay.rules.test.yml"]).success();

    // Every alert is tested, and its test can fail.
    let rules = fs::read_to_string(deploy("prometheus").join("assay.rules.yml")).expect("the rules");
    let tests = fs::read_to_string(deploy("prometheus").join("assay.rules.test.yml")).expect("their tests");
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {alert}")), "{alert}");
    }
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("assay.rules.yml"), rules.replace("> 0.01", "> 0.5")).expect("written");
    fs::write(folder.path().join("assay.rules.test.yml"), tests).expect("written");
    let output = Command::new(&promtool).args(["test", "rules", "assay.rules.test.yml"]).current_dir(folder.path()).output();
    assert_ne!(CommandResult::from_output(output.expect("promtool runs")).code, 0, "a wrong threshold is found");
}

#[test]
fn a_pushgateway_shows_the_newest_run_of_a_case() {
    let Some(gateway) = ForeignServer::pushgateway() else { return };
    let fixture = indicator(&[format!("{{name: gateway, pushgateway: '{}'}}", gateway.at(""))], EXPLORATORY);
    let metrics = || String::from_utf8(get(&gateway.at("/metrics")).expect("a response").1).expect("text");
    fixture.run("one").success();
    let shown = metrics();
    let line = shown.lines().find(|line| line.starts_with("assay_indicator_speed_bytes_per_second{")).expect("the gauge");
    for label in
        ["benchmark_case_id=\"only.local.default\"", "job=\"assay\"", "run_id=\"one\"", "cluster=\"local\"", "} 1.0025e+08"]
    {
        assert!(line.contains(label), "{line}");
    }
    assert!(shown.contains("# TYPE assay_run_succeeded gauge"), "{shown}");
    fixture.run("two").success();
    let shown = metrics();
    assert!(shown.contains("run_id=\"two\"") && !shown.contains("run_id=\"one\""), "{shown}");
    fixture.assay(&["push", "two", "--hot-metrics"]).success();
    assert_eq!(without_push_times(&metrics()), without_push_times(&shown), "to push again changes nothing");
}

/// Removes the times at which the gateway was pushed to, and what it tells of itself.
fn without_push_times(metrics: &str) -> String {
    metrics.lines().filter(|line| line.starts_with("assay_")).collect::<Vec<_>>().join("\n")
}

/// Decodes an export request with OpenTelemetry's own messages, and prints each data point as a line of JSON.
const DECODE: &str = r"
import json, sys
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
request = ExportMetricsServiceRequest()
request.ParseFromString(open(sys.argv[1], 'rb').read())
for resource in request.resource_metrics:
    assert not resource.resource.attributes
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            assert metric.WhichOneof('data') == 'gauge'
            for point in metric.gauge.data_points:
                attributes = {attribute.key: attribute.value.string_value for attribute in point.attributes}
                print(json.dumps({'scope': scope.scope.name, 'name': metric.name, 'unit': metric.unit, 'at': point.time_unix_nano,
                                  'kind': point.WhichOneof('value'), 'value': point.as_double, 'attributes': attributes}))
";

#[test]
fn an_otlp_receiver_gets_gauges_that_opentelemetry_decodes() {
    let server = Server::start(|_| Reply::ok(""));
    let fixture = indicator(&[format!("{{name: collector, otlp: '{}'}}", server.at("/v1/metrics"))], EXPLORATORY);
    fixture.run("one").success();
    let requests = server.requests();
    let [request] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/metrics"));
    assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    let Some(folder) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: no message was decoded by OpenTelemetry's own code");
        return;
    };
    let file = fixture.root().join("request");
    fs::write(&file, &request.body).expect("written");
    let mut python = Command::new(folder.join("venv/bin/python"));
    let decoded = CommandResult::from_output(python.args(["-c", DECODE]).arg(&file).output().expect("python runs")).success();
    let points: Vec<Value> = decoded.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let receipt = &receipts(&fixture, "one")[0];
    assert_eq!(receipt["series"].as_u64(), Some(points.len() as u64));
    let speed = points.iter().find(|point| point["name"] == "assay_indicator_speed_bytes_per_second").expect("the gauge");
    assert_eq!((&speed["scope"], &speed["unit"], &speed["kind"]), (&"assay".into(), &"".into(), &"as_double".into()));
    assert_eq!(speed["value"].as_f64(), Some(100.25e6));
    assert_eq!(speed["attributes"]["benchmark_case_id"], "only.local.default");
    let zero = points.iter().find(|point| point["name"] == "assay_run_attempts_excluded").expect("the gauge");
    assert_eq!((zero["kind"].as_str(), zero["value"].as_f64()), (Some("as_double"), Some(0.0)), "a value of 0 is a value");
    for point in &points {
        assert!(point["attributes"].as_object().expect("attributes").keys().all(|key| LABELS.contains(&key.as_str())), "{point}");
        assert!(point["at"].as_u64() > Some(1_600_000_000_000_000_000), "{point}");
    }
}

#[test]
fn a_receiver_that_fails_leaves_the_run_published_and_the_push_is_repeated_by_hand() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let server = Server::start(|request| {
        if request.number == 0 {
            Reply::with_body("400 Bad Request", &[], "out of bounds")
        } else {
            Reply::status("204 No Content")
        }
    });
    let receivers = [
        format!("{{name: gone, otlp: 'http://{closed}/v1/metrics'}}"),
        format!("{{name: picky, remote_write: '{}'}}", server.at("/w")),
    ];
    let fixture = indicator(&receivers, EXPLORATORY);
    let refused = fixture.run("one").refuses(30, "hot_metrics");
    let message = "the hot metrics of the run `one` were not accepted by 2 of 2 receivers: `gone`: Connection refused";
    assert!(
        refused.stderr.contains(message) && refused.stderr.contains("`picky`: it responded with 400 Bad Request: out of bounds"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("to push again: assay push one --hot-metrics"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: Prometheus takes no samples older than an hour"), "{}", refused.stderr);
    assert!(refused.stdout.contains("report    "), "the result is shown: {}", refused.stdout);
    fixture.verify("one").success();
    let outcomes = |receipts: &[Value]| {
        receipts.iter().map(|receipt| format!("{} {}", text(&receipt["receiver"]), text(&receipt["outcome"]))).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(&receipts(&fixture, "one")), ["gone failed", "picky failed"]);

    let again = fixture.assay(&["push", "one", "--hot-metrics"]).refuses(30, "hot_metrics");
    assert!(again.stderr.contains("1 of 2 receivers: `gone`"), "{}", again.stderr);
    assert_eq!(outcomes(&receipts(&fixture, "one")), ["gone failed", "picky failed", "gone failed", "picky accepted"]);
}

#[test]
fn a_certificate_that_no_machine_trusts_gets_no_series() {
    let server = server::Server::start_over_tls("any", |_| (complete_stream(), AfterResponse::KeepAlive));
    let fixture = indicator(&[format!("{{name: one, remote_write: '{}/w'}}", server.url())], EXPLORATORY);
    let refused = fixture.run("one").refuses(30, "hot_metrics");
    assert!(refused.stderr.contains("`one`: TLS: "), "{}", refused.stderr);
    assert_eq!(server.request_count(), 0);
}

#[test]
fn a_run_over_its_budget_is_pushed_nowhere() {
    let server = Server::start(|_| Reply::status("204 No Content"));
    let receivers = [
        format!("{{name: one, remote_write: '{}'}}", server.at("/w")),
        format!("{{name: two, otlp: '{}'}}", server.at("/v1/metrics")),
    ];
    let fixture = indicator(&receivers, &format!("{EXPLORATORY}      max_active_series: 3\n"));
    let refused = fixture.run("one").refuses(30, "series_budget");
    assert!(
        refused.stderr.contains("series, and at most 3 may be active; the label `run_id` makes the most of them, with 1 values"),
        "{}",
        refused.stderr
    );
    assert_eq!(server.requests().len(), 0);
    fixture.verify("one").success();
}

#[test]
fn a_run_without_a_valid_trial_is_pushed_as_one() {
    let server = Server::start(|_| Reply::ok(""));
    let receiver = format!("{{name: gateway, pushgateway: '{}'}}", server.url());
    let fixture =
        Fixture::with_pipeline(&script("exit 1"), &pipeline("exploratory", &["only"], 1, &publish(&[receiver], EXPLORATORY)));
    fixture.run("one").refuses(30, "no_valid_trial");
    let requests = server.requests();
    let [request] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    let pushed = String::from_utf8_lossy(&request.body);
    for (gauge, value) in
        [("assay_run_succeeded", "0.0"), ("assay_run_trials_planned", "1.0"), ("assay_run_trials_counted", "0.0")]
    {
        let line = pushed.lines().find(|line| line.starts_with(&format!("{gauge}{{")));
        assert!(line.is_some_and(|line| line.ends_with(&format!("}} {value}"))), "{gauge}: {pushed}");
    }
    assert!(pushed.lines().filter(|line| line.starts_with("assay_")).all(|line| line.starts_with("assay_run_")), "{pushed}");
}

#[test]
fn the_shipped_alert_on_a_failed_run_reaches_an_alertmanager() {
    let Some(manager) = ForeignServer::alertmanager() else { return };
    // The shipped files, evaluated more often, and with the address of the Alertmanager.
    let folder = TempDir::new().expect("a folder");
    let shipped = |file: &str| fs::read_to_string(deploy("prometheus").join(file)).expect("a shipped file");
    let rules = shipped("assay.rules.yml").replace("interval: 5m", "interval: 1s");
    fs::write(folder.path().join("assay.rules.yml"), rules).expect("written");
    let alerting = format!("\nalerting: {{alertmanagers: [{{static_configs: [{{targets: ['{}']}}]}}]}}\n", manager.address);
    let config = shipped("prometheus.yml").replace("evaluation_interval: 1m", "evaluation_interval: 1s") + &alerting;
    fs::write(folder.path().join("prometheus.yml"), config).expect("written");
    let Some(prometheus) = ForeignServer::prometheus_with(&folder.path().join("prometheus.yml")) else { return };

    let receiver = format!("{{name: fleet, remote_write: '{}'}}", prometheus.at("/api/v1/write"));
    let more = publish(&[receiver], EXPLORATORY);
    let fixture = Fixture::with_pipeline(&steady_script("only"), &pipeline("exploratory", &["only"], 1, &more));
    let alerts = || {
        let (_, body) = get(&manager.at("/api/v2/alerts")).expect("a response");
        list(&serde_json::from_slice::<Value>(&body).expect("JSON")).clone()
    };
    fixture.run("good").success();
    wait_until("the rules have seen the good run", || {
        prometheus.query("assay:run_succeeded:newest").iter().any(|series| series["metric"]["run_id"] == "good")
    });
    assert_eq!(alerts(), Vec::<Value>::new());

    fixture.indicator("only", &script("exit 1"), "");
    fixture.commit("a script that fails");
    fixture.run("bad").refuses(30, "no_valid_trial");
    let failed = || alerts().into_iter().find(|alert| alert["labels"]["alertname"] == "AssayRunFailed");
    wait_until("the alert is there", || failed().is_some());
    let alert = failed().expect("the alert");
    assert_eq!(text(&alert["labels"]["run_id"]), "bad");
    assert_eq!(text(&alert["annotations"]["description"]), "The reasons are in the run's report: assay show bad --all");
}

#[test]
fn an_exploratory_run_is_pushed_by_hand_only() {
    let server = Server::start(|_| Reply::status("204 No Content"));
    let fixture = indicator(&[format!("{{name: one, remote_write: '{}'}}", server.at("/w"))], "");
    let ran = fixture.run("one").success();
    let note = "hot metrics were not pushed, because the pipeline is exploratory and does not state `exploratory: true`; by hand: assay push one --hot-metrics";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 0);
    fixture.assay(&["push", "one", "--hot-metrics"]).success();
    assert_eq!(server.requests().len(), 1);

    let without = Fixture::new();
    without.run("one").success();
    without.assay(&["push", "one", "--hot-metrics"]).refuses(2, "no_hot_metrics");
}

#[test]
fn what_is_no_commits_and_what_is_not_to_be_pushed_is_not_pushed() {
    let server = Server::start(|_| Reply::status("204 No Content"));
    let fixture = indicator(&[format!("{{name: one, remote_write: '{}'}}", server.at("/w"))], EXPLORATORY);
    fixture.assay(&["run", PIPELINE, "--run-id", "silent", "--no-push"]).success();
    fixture.write("workloads/only/run.sh", &steady_script("changed"));
    let ran = fixture.run("changed").success();
    assert!(ran.stderr.contains("hot metrics were not pushed, because what ran is no commit's"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_credential_reaches_the_receiver_and_nothing_else() {
    const CANARY: &str = "canary-of-the-receiver-7f3a";
    // It repeats what it got, as no receiver should.
    let server = Server::start(|request| {
        let got = request.header("authorization").unwrap_or_default();
        Reply::with_body("400 Bad Request", &[&format!("x-echo: {got}")], format!("no: {got}"))
    });
    let header = "headers: {Authorization: {from_env: RECEIVER_TOKEN, scheme: Bearer}}";
    let mut fixture = indicator(&[format!("{{name: one, remote_write: '{}', {header}}}", server.at("/w"))], EXPLORATORY);
    let refused = fixture.run("one").refuses(30, "secret_absent");
    assert!(refused.stderr.contains("`RECEIVER_TOKEN`"), "{}", refused.stderr);
    assert_eq!(receipts(&fixture, "one").len(), 0, "it is noticed before anything is measured");
    fixture.set("RECEIVER_TOKEN", CANARY);
    fixture.set("ASSAY_LOG", "debug");
    let refused = fixture.run("two").refuses(30, "hot_metrics");
    assert_eq!(server.requests()[0].header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
    let by_hand = fixture.assay(&["push", "two", "--hot-metrics", "--json"]).refuses(30, "hot_metrics");
    for shown in [&refused.stdout, &refused.stderr, &by_hand.stdout, &by_hand.stderr] {
        assert!(!shown.contains(CANARY), "{shown}");
    }
    assert!(refused.stderr.contains("no: Bearer [secret]"), "{}", refused.stderr);
    let files = files_under(&fixture.root());
    assert!(files.iter().any(|path| path.ends_with("report.html")) && files.len() > 80, "{} files", files.len());
    for path in files {
        let bytes = fs::read(&path).expect("a file of the fixture");
        assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()), "{} holds it", path.display());
    }
}
