//! Telemetry from a real Prometheus: from the pipeline over the samples of each attempt to rows, `assay sources` and `assay explain`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assay_probe::testing::{Reply, Server};
use assay_probe::{Client, Headers, Limits};
use serde_json::Value;

use crate::exporters::{NodeExporter, count, float, issue, rows};
use crate::pipeline::{list, text};
use crate::support::{Fixture, PIPELINE, files_under, indicator_output, pipeline, script, wait_until};

const LIMITS: Limits = Limits { time: Duration::from_secs(5), bytes: 1 << 20 };

/// The server of Debian's package `prometheus`, which `ASSAY_TEST_PROMETHEUS` names, with targets of a test.
pub(crate) struct Prometheus {
    address: SocketAddr,
    server: Child,
    _folder: tempfile::TempDir,
}

/// A target: its job, the interval at which it is scraped, its address and its path.
pub(crate) type Target<'a> = (&'a str, &'a str, String, &'a str);

impl Prometheus {
    /// Returns `None` if no Prometheus is requested; if it is requested but absent, the test fails.
    #[expect(clippy::print_stdout, reason = "a test that looks at less says so")]
    pub(crate) fn start(targets: &[Target<'_>]) -> Option<Self> {
        let Some(program) = std::env::var_os("ASSAY_TEST_PROMETHEUS").map(PathBuf::from) else {
            println!("ASSAY_TEST_PROMETHEUS is not set: no real Prometheus was asked");
            return None;
        };
        assert!(program.is_file(), "`{}` is not there", program.display());
        let folder = tempfile::tempdir().expect("a folder");
        let job = |(job, interval, address, path): &Target<'_>| {
            format!(
                "  - {{job_name: {job}, scrape_interval: {interval}, scrape_timeout: 900ms, metrics_path: {path}, static_configs: [{{targets: ['{address}']}}]}}\n"
            )
        };
        let config = format!("scrape_configs:\n{}", targets.iter().map(job).collect::<String>());
        let path = folder.path().join("prometheus.yml");
        fs::write(&path, config).expect("written");
        // It cannot report a port that it chose itself, so a port that was free a moment ago has to do.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let mut command = Command::new(&program);
        command.arg(format!("--config.file={}", path.display())).arg(format!("--web.listen-address={address}"));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display())).arg("--log.level=error");
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { address, server: command.spawn().expect("it starts"), _folder: folder };
        let client = Client::new(Headers::default());
        wait_until("Prometheus is ready", || {
            client.get(&server.at("/-/ready"), LIMITS).is_ok_and(|response| response.is_success())
        });
        for (job, ..) in targets {
            wait_until("every target was scraped", || server.has(&format!("up%7Bjob%3D%22{job}%22%7D%20%3D%3D%201")));
        }
        Some(server)
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns true if a query has a result.
    fn has(&self, escaped: &str) -> bool {
        let response = Client::new(Headers::default()).get(&self.at(&format!("/api/v1/query?query={escaped}")), LIMITS);
        let found = response.ok().and_then(|response| serde_json::from_slice::<Value>(&response.body).ok());
        found.is_some_and(|found| found["data"]["result"].as_array().is_some_and(|result| !result.is_empty()))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A scripted exporter of four GPUs: their clock is low while the flag file exists.
fn gpus(flag: &Path) -> Server {
    let (flag, reads) = (flag.to_owned(), AtomicU64::new(0));
    Server::start(move |request| {
        let read = reads.fetch_add(1, Ordering::Relaxed);
        let mut text = String::new();
        for gpu in 0..4_u64 {
            let labels = format!("{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",Hostname=\"node-a\",modelName=\"a scripted GPU\"}}");
            let clock = if flag.exists() { 1200 } else { 1900 } + (read * 7 + gpu * 3) % 11;
            if request.path == "/slow" {
                let _ = writeln!(text, "DCGM_FI_DEV_MEMORY_TEMP{labels} 61");
                continue;
            }
            // The energy counts from 0 again at every tenth reading, as after a reload of the driver.
            let energy = (read % 10) * 1000;
            let _ = writeln!(
                text,
                "DCGM_FI_DEV_SM_CLOCK{labels} {clock}\nDCGM_FI_DEV_GPU_UTIL{labels} 97\nDCGM_FI_DEV_GPU_TEMP{labels} NaN\n\
                 DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels} {energy}"
            );
        }
        Reply::ok(text)
    })
}

fn telemetry(server: &str, more: &str) -> String {
    format!("  telemetry:\n    - {{name: fleet, prometheus: '{server}', {more}}}\n")
}

#[test]
fn samples_of_a_prometheus_are_rows_of_their_attempts() {
    let node = NodeExporter::start();
    let exporter = gpus(Path::new("/nonexistent"));
    let mut targets = vec![("gpus", "1s", exporter.authority(), "/gpus"), ("slow", "10s", exporter.authority(), "/slow")];
    targets.extend(node.as_ref().map(|node| ("node", "1s", node.address.to_string(), "/metrics")));
    let Some(prometheus) = Prometheus::start(&targets) else { return };
    let body = format!("sleep 4\necho '{}'", indicator_output("only", "[100.25, 101.5, 99.75]"));
    let with =
        telemetry(&prometheus.at("/"), "pack: [dcgm, node], queries: [telemetry/own.yaml], match: {job: [gpus, slow, node]}");
    let fixture = Fixture::with_pipeline(&script(&body), &pipeline("exploratory", &["only"], 2, &with));
    fixture.write(
        "telemetry/own.yaml",
        "pack: own\nexporter: the scrapes\nresolution: 1s\nmissing: nothing was scraped\nqueries:\n  - {query: 'up{job=\"gpus\"}', kind: \
         gauge, unit: up, scope: {kind: node, id: [instance]}}\n",
    );
    fixture.commit("own queries");
    fixture.run("one").success();

    let rows = rows(&fixture, "one");
    let of_fleet: Vec<_> = rows.iter().filter(|row| row.text("source") == Some("prometheus/fleet")).collect();
    let clocks: Vec<_> = of_fleet
        .iter()
        .filter(|row| row.text("metric").is_some_and(|metric| metric.starts_with("DCGM_FI_DEV_SM_CLOCK")))
        .collect();
    assert_eq!(clocks.len(), 8, "four GPUs in two attempts: {clocks:#?}");
    let names: BTreeSet<_> = clocks.iter().filter_map(|row| row.text("metric")).collect();
    assert!(names.contains("DCGM_FI_DEV_SM_CLOCK{Hostname=\"node-a\",gpu=\"2\"}"), "{names:?}");
    let scopes: BTreeSet<_> = clocks.iter().map(|row| (row.text("scope_kind"), row.text("scope_id"))).collect();
    assert_eq!(scopes.first(), Some(&(Some("gpu"), Some("GPU-0"))));
    for row in &clocks {
        assert!((2..=5).contains(&count(row, "n")), "one a second in four: {row:?}");
        assert!(float(row, "min") >= 1900.0 && float(row, "max") <= 1911.0, "{row:?}");
        assert_eq!((row.text("unit"), row.text("node_name"), row.text("pod_uid")), (Some("MHz"), Some("node-a"), None));
        assert_eq!(row.text("gpu_uuid"), row.text("scope_id"));
        assert_eq!(count(row, "gap_ns"), 0);
    }
    let own = of_fleet.iter().find(|row| row.text("metric") == Some("up")).expect("of the own pack");
    assert_eq!((own.text("scope_kind"), float(own, "mean")), (Some("node"), 1.0));
    if node.is_some() {
        let busy = of_fleet.iter().find(|row| row.text("metric") == Some("node_cpu_busy_ratio")).expect("of node_exporter");
        assert!((0.0..=1.0).contains(&float(busy, "mean")), "{busy:?}");
        assert!(of_fleet.iter().any(|row| row.text("metric") == Some("node_cpu_seconds_total{mode=\"idle\"}")));
    }

    // What is too coarse, absent, reset or no number is named, and is no value.
    let coarse = issue(&fixture, "one", "telemetry_too_coarse");
    assert!(coarse.contains("`prometheus/fleet`: ") && coarse.contains("8 of `DCGM_FI_DEV_MEMORY_TEMP`"), "{coarse}");
    let temperatures = of_fleet.iter().filter(|row| row.text("metric").is_some_and(|name| name.contains("MEMORY_TEMP")));
    assert!(temperatures.clone().all(|row| row.get("mean").is_none_or(|mean| *mean == assay_warehouse::Value::Null)));
    let absent = issue(&fixture, "one", "telemetry_absent");
    assert!(absent.contains("off by default in dcgm-exporter; add it to the exporter's CSV file of counters"), "{absent}");
    assert!(issue(&fixture, "one", "telemetry_left_out").contains("of `DCGM_FI_DEV_GPU_TEMP`"), "NaN is no temperature");

    // The responses are evidence, from which the same rows are made again; the plan holds the queries.
    fixture.assay(&["verify", "one", "--recompute"]).success();
    let plan = fixture.manifest("one", "plan");
    let packs = list(&plan["body"]["telemetry"][0]["prometheus"]["packs"]);
    let pinned: Vec<_> = packs.iter().map(|pack| (text(&pack["name"]), pack.get("file").is_some())).collect();
    assert_eq!(pinned, [("dcgm", false), ("node", false), ("own", true)]);
    assert!(packs.iter().all(|pack| text(&pack["digest"]).starts_with("sha256:")));

    // What the pipeline would record is shown before it runs.
    let shown = fixture.assay(&["sources", PIPELINE]).success().stdout;
    for part in [
        "host",
        "prometheus/fleet at http://",
        "responds: its clock ",
        "dcgm: series of 5 of 47 queries",
        "4 rows of 4 gpus, a sample every 1",
        "dcgm-exporter reads its values every 30 s by default",
        "absent (off by default in dcgm-exporter",
        "DCGM_FI_DEV_THERMAL_VIOLATION",
    ] {
        assert!(shown.contains(part), "`{part}` in {shown}");
    }
    let json = fixture.assay(&["sources", PIPELINE, "--json"]).success().json();
    let queries = list(&json[0]["sources"][1]["queries"]);
    let slow = queries.iter().find(|query| query["metric"] == "DCGM_FI_DEV_MEMORY_TEMP").expect("it is asked for");
    assert_eq!((&slow["scopes"], &slow["series"]), (&Value::from(4), &Value::from(4)));
    let absent = queries.iter().find(|query| query["metric"] == "DCGM_FI_PROF_SM_ACTIVE").expect("it is asked for");
    assert!(text(&absent["absent"]).starts_with("off by default"), "{absent}");
}

/// A scripted Triton with two models, in the format of its documentation: ten requests come from one reading to the next, and each waits for 40 ms in the queue of
/// the second model.
fn triton() -> Server {
    let reads = AtomicU64::new(0);
    Server::start(move |_| {
        let requests = 10 * reads.fetch_add(1, Ordering::Relaxed);
        let mut text = String::new();
        for (name, kind, values) in [
            ("nv_inference_request_success", "counter", [requests, requests]),
            ("nv_inference_queue_duration_us", "counter", [0, 40_000 * requests]),
            ("nv_inference_compute_infer_duration_us", "counter", [1000 * requests, 90_000 * requests]),
            ("nv_inference_request_duration_us", "counter", [1100 * requests, 130_000 * requests]),
            ("nv_inference_pending_request_count", "gauge", [0, 4]),
        ] {
            let _ = writeln!(text, "# HELP {name} Of all batch sizes\n# TYPE {name} {kind}");
            for (model, value) in ["preprocessing", "llm"].iter().zip(values) {
                let _ = writeln!(text, "{name}{{model=\"{model}\",version=\"1\"}} {value}");
            }
        }
        Reply::ok(text)
    })
}

#[test]
fn counters_of_triton_are_rows_of_its_models() {
    let server = triton();
    let Some(prometheus) = Prometheus::start(&[("triton", "1s", server.authority(), "/metrics")]) else { return };
    let body = format!("sleep 4\necho '{}'", indicator_output("only", "[100.25, 101.5, 99.75]"));
    let with = telemetry(&prometheus.at(""), "pack: triton");
    let fixture = Fixture::with_pipeline(&script(&body), &pipeline("exploratory", &["only"], 1, &with));
    fixture.run("one").success();
    let rows = rows(&fixture, "one");
    let row = |name: &str, model: &str| {
        let metric = format!("{name}{{model=\"{model}\",version=\"1\"}}");
        rows.iter().find(|row| row.text("metric") == Some(metric.as_str())).unwrap_or_else(|| panic!("no {metric}"))
    };
    let queue = row("nv_inference_queue_duration_us", "llm");
    let authority = server.authority();
    assert_eq!((queue.text("scope_kind"), queue.text("scope_id")), (Some("endpoint"), Some(authority.as_str())));
    assert_eq!((queue.text("unit"), queue.text("metric_kind")), (Some("us/s"), Some("counter")));
    let per_request =
        |name: &str, model: &str| float(row(name, model), "mean") / float(row("nv_inference_request_success", model), "mean");
    for (name, model, expected) in [
        ("nv_inference_queue_duration_us", "preprocessing", 0.0),
        ("nv_inference_queue_duration_us", "llm", 40_000.0),
        ("nv_inference_compute_infer_duration_us", "llm", 90_000.0),
        ("nv_inference_request_duration_us", "llm", 130_000.0),
    ] {
        let found = per_request(name, model);
        assert!((found - expected).abs() < 1e-3, "{name} of {model}: {found}");
    }
    assert!((float(row("nv_inference_pending_request_count", "llm"), "mean") - 4.0).abs() < 1e-9);
}

/// The clock of the GPUs is low while the candidate runs, which only the Prometheus has seen.
#[test]
fn a_finding_rests_on_samples_of_a_prometheus() {
    let folder = tempfile::tempdir().expect("a folder");
    let flag = folder.path().join("low");
    let exporter = gpus(&flag);
    let Some(prometheus) = Prometheus::start(&[("gpus", "1s", exporter.authority(), "/gpus")]) else { return };
    let output = indicator_output("speed", "['$speed'.25, '$speed'.5, '$speed'.75]");
    let body = format!(
        "if [ \"$SIDE\" = after ]; then touch '{flag}'; speed=1000; else rm -f '{flag}'; speed=2000; fi\nsleep 4\nspeed=$((speed + $$ % 50))\necho '{output}'",
        flag = flag.display()
    );
    let fixture = Fixture::bare();
    fixture.indicator("speed", &script(&body), "");
    let sides = format!(
        "{}  variants: [{{name: before, env: {{SIDE: before}}}}, {{name: after, env: {{SIDE: after}}}}]
  comparison: {{baseline: {{target: local, variant: before}}, candidate: {{target: local, variant: after}}, variable_under_test: runtime_version}}
",
        telemetry(&prometheus.at(""), "pack: dcgm")
    );
    fixture.write(PIPELINE, &pipeline("exploratory", &["speed"], 4, &sides));
    fixture.commit("two sides");
    fixture.run("one").success();

    let explained = fixture.assay(&["explain", "one", "--json"]).success().json();
    let findings = list(&explained["explanation"]["findings"]);
    let clock = findings.iter().find(|finding| finding["rule"] == "gpu-clock");
    let clock = clock.unwrap_or_else(|| panic!("the low clock is not found: {explained:#}"));
    assert!(list(&clock["places"]).iter().any(|place| text(place).starts_with("prometheus/fleet")), "{clock:#}");
    let shown = fixture.assay(&["explain", "one"]).success().stdout;
    assert!(shown.contains("The GPUs ran at a lower clock"), "{shown}");
}

#[test]
fn a_prometheus_that_fails_fails_no_run() {
    let nan = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}"#;
    let replies = [
        (
            "page",
            Reply::with_body("200 OK", &["content-type: text/html"], "<html>sign in</html>"),
            "the response is none of Prometheus",
        ),
        ("endless", Reply::endless(), "the response is larger than 33554432 bytes"),
        ("moved", Reply::with_body("302 Found", &["location: http://127.0.0.1:1/"], ""), "302 Found"),
        ("refused", Reply::with_body("401 Unauthorized", &[], "no"), "401 Unauthorized"),
        ("time", Reply::ok(nan), "the server's time is no time"),
    ];
    let servers: Vec<_> =
        replies.into_iter().map(|(name, reply, why)| (name, Server::start(move |_| reply.clone()), why)).collect();
    // Twenty thousand series in each response, without the label of their object.
    let many = Server::start(|request| {
        let Some(time) = request.path.split("time=").nth(1) else { return Reply::ok("{}") };
        let time: f64 = time.parse().expect("a time");
        let samples = format!("[[{},\"1\"],[{},\"2\"]]", time - 0.9, time - 0.5);
        let series: Vec<_> = (0..20_000).map(|pod| format!(r#"{{"metric":{{"pod":"{pod}"}},"values":{samples}}}"#)).collect();
        Reply::ok(format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{}]}}}}"#, series.join(",")))
    });
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let secret = tempfile::NamedTempFile::new().expect("a file");
    fs::write(secret.path(), "hunter2-hunter2\n").expect("written");
    let key = format!("headers: {{authorization: {{from_file: '{}', scheme: Bearer}}}}", secret.path().display());
    let mut lines = String::from("  telemetry:\n");
    for (name, server, _) in &servers {
        let _ = writeln!(lines, "    - {{name: {name}, prometheus: '{}', pack: ping, {key}}}", server.url());
    }
    let _ = writeln!(lines, "    - {{name: many, prometheus: '{}', pack: ping}}", many.url());
    let _ = writeln!(lines, "    - {{name: gone, prometheus: 'http://{closed}', pack: ping}}");
    let body = format!("sleep 1\necho '{}'", indicator_output("only", "[100.25, 101.5, 99.75]"));
    let fixture = Fixture::with_pipeline(&script(&body), &pipeline("exploratory", &["only"], 1, &lines));
    fixture.run("one").success();

    let summary = fixture.manifest("one", "reduce");
    let issues = list(&summary["body"]["issues"]);
    let failed = |name: &str| {
        let of = format!("`prometheus/{name}`: ");
        let found = issues.iter().find(|issue| issue["code"] == "prometheus_failed" && text(&issue["detail"]).starts_with(&of));
        text(&found.unwrap_or_else(|| panic!("no failure of `{name}`: {issues:#?}"))["detail"]).to_owned()
    };
    for (name, server, why) in &servers {
        assert!(failed(name).contains(why), "{name}: {}", failed(name));
        assert!(server.requests()[0].header("authorization").is_some_and(|sent| sent == "Bearer hunter2-hunter2"));
    }
    let lacking = issue(&fixture, "one", "telemetry_ambiguous");
    assert!(lacking.contains("`prometheus/many`: 120000 series lack a label of their object"), "{lacking}");
    assert!(failed("gone").contains("Connection refused"), "{}", failed("gone"));
    assert!(failed("gone").contains("it was asked no further"), "{}", failed("gone"));
    assert!(rows(&fixture, "one").iter().all(|row| !row.text("source").is_some_and(|source| source.starts_with("prometheus/"))));
    fixture.assay(&["verify", "one", "--recompute"]).success();
    for file in files_under(&fixture.store()) {
        let bytes = fs::read(&file).expect("a file of the store");
        assert!(!bytes.windows(15).any(|part| part == b"hunter2-hunter2"), "{}", file.display());
    }

    let refused = fixture.assay(&["sources", PIPELINE]).refuses(30, "telemetry_unreachable");
    assert!(refused.stderr.contains("`prometheus/gone`"), "{}", refused.stderr);
    assert!(refused.stdout.contains("cannot be asked now: 401 Unauthorized"), "{}", refused.stdout);
}

#[test]
fn exporters_and_endpoints_are_asked_as_a_run_asks_them() {
    let server = Server::with_replies(vec![
        ("/metrics", Reply::ok("a 1\nb{c=\"1\"} 2\nb{c=\"2\"} 3\ngo_threads 9\n")),
        ("/page", Reply::ok("<html>an exporter</html>")),
    ]);
    let fixture = Fixture::bare();
    let more = format!(
        "  telemetry: [{{name: one, scrape: '{0}'}}, {{name: page, scrape: '{0}/page'}}, {{name: none, scrape: '{0}/none'}}]\n",
        server.url()
    );
    fixture.indicator("only", &script("true"), "");
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 1, &more));
    fixture.commit("exporters");
    let asked = fixture.assay(&["sources", "--json"]).refuses(30, "telemetry_unreachable");
    let found: Value = serde_json::from_str(&asked.stdout).expect("JSON");
    let of = |index: usize| &found[0]["sources"][index];
    assert_eq!((&of(1)["source"], &of(1)["metrics"]), (&Value::from("exporter/one"), &Value::from(3)));
    assert_eq!((&of(2)["error"], &of(2)["unreachable"]), (&Value::from("the response has no metrics"), &Value::from(true)));
    assert_eq!((&of(3)["error"], &of(3)["unreachable"]), (&Value::from("404 Not Found"), &Value::from(false)));
    fixture.assay(&["sources", "pipelines/absent.yaml"]).refuses(2, "unreadable");
}

#[test]
fn a_prometheus_without_anything_to_ask_is_refused_before_anything_runs() {
    for (more, why) in [
        ("pack: dgcm", "Assay has no query pack `dgcm`"),
        ("match: {a: b}", "asks its Prometheus for nothing"),
        ("queries: [absent.yaml]", "there is no file `absent.yaml`"),
        (
            "pack: dcgm, queries: [telemetry/again.yaml]",
            "the query packs `dcgm` and `again` both have a metric `DCGM_FI_DEV_GPU_UTIL`",
        ),
        ("queries: [telemetry/rate.yaml]", "the query is no selector of series"),
        ("pack: ping, headers: {authorization: {value: 'Bearer abcdef0123456789'}}", "looks like a secret"),
    ] {
        let with = telemetry("http://prometheus:9090", more);
        let fixture = Fixture::with_pipeline(&script("true"), &pipeline("exploratory", &["only"], 1, &with));
        let pack = |name: &str, query: &str| {
            let head = format!("pack: {name}\nexporter: e\nresolution: 1s\nmissing: m\nqueries:\n");
            let text = format!("{head}  - {{query: '{query}', kind: gauge, unit: W, scope: {{kind: gpu, id: [UUID]}}}}\n");
            fixture.write(&format!("telemetry/{name}.yaml"), &text);
        };
        pack("again", "DCGM_FI_DEV_GPU_UTIL");
        pack("rate", "rate(DCGM_FI_DEV_GPU_UTIL[5m])");
        fixture.commit("packs");
        let refused = fixture.run("one").exits(10);
        assert!(refused.stderr.contains(why), "{more}: {}", refused.stderr);
    }
}
