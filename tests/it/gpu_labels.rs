//! Facts about GPUs from the labels of dcgm-exporter's series: from a scripted exporter, over a scrape or a real Prometheus, to the dimension rows in the
//! warehouse.

use std::fmt::Write as _;

use assay_probe::testing::{Reply, Server};
use serde_json::{Value, json};

use crate::exporters::issue;
use crate::nvidia_smi;
use crate::pipeline::list;
use crate::sources::Prometheus;
use crate::support::{Fixture, indicator_output, pipeline, script};

/// Two versions of the driver.
const DRIVER: &str = "570.86.15";
const OTHER_DRIVER: &str = "580.65.06";

/// A scripted dcgm-exporter of two GPUs of the machine that a run without a cluster has, which is called `local`. The version of the driver is the path that is
/// requested.
fn exporter() -> Server {
    Server::start(|request| {
        let mut text = "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n".to_owned();
        let driver = request.path.trim_start_matches('/');
        for gpu in 0..2 {
            let labels = format!(
                "{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",device=\"nvidia{gpu}\",modelName=\"NVIDIA H200\",Hostname=\"local\",\
                 DCGM_FI_DRIVER_VERSION=\"{driver}\"}}"
            );
            let _ = writeln!(text, "DCGM_FI_DEV_SM_CLOCK{labels} 1980\nDCGM_FI_DEV_GPU_TEMP{labels} 41");
        }
        Reply::ok(text)
    })
}

/// A run with these telemetry sources on a machine whose `nvidia-smi` is a script.
fn run(driver: &str, sources: &[String]) -> Fixture {
    let telemetry = format!("  telemetry: [{}]\n", sources.join(", "));
    let body = format!("sleep 4\necho '{}'", indicator_output("only", "[100.25, 101.5, 99.75]"));
    let mut fixture = Fixture::with_pipeline(&script(&body), &pipeline("exploratory", &["only"], 1, &telemetry));
    nvidia_smi::install(&mut fixture, driver);
    fixture.run("one").success();
    fixture.assay(&["verify", "one", "--recompute"]).success();
    fixture
}

/// A driver that cannot be asked.
const NO_DRIVER: &str = "exit 9\n";

fn scrape(name: &str, exporter: &Server, driver: &str) -> String {
    format!("{{name: {name}, scrape: '{}'}}", exporter.at(&format!("/{driver}")))
}

fn prometheus(server: &Prometheus) -> String {
    format!("{{name: fleet, prometheus: '{}', pack: dcgm}}", server.at("/"))
}

/// The GPUs and the driver that the numbers of a run name, with their origins: model, count, origin, driver, origin.
fn dimensions(fixture: &Fixture) -> [Value; 5] {
    let sql = "SELECT DISTINCT h.gpu_model, h.gpu_count, h.gpu_source, s.driver_version, s.driver_source FROM outcome_fact o
        JOIN hardware_topology_dim h ON h.row_id = o.hardware_topology_key
        JOIN software_version_dim s ON s.row_id = o.software_version_key WHERE o.run_id = 'one'";
    let rows = fixture.assay(&["query", "--format", "json", sql]).success().stdout;
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    let [row] = rows.as_slice() else { panic!("the numbers of one target name one row of each dimension: {rows:#?}") };
    ["gpu_model", "gpu_count", "gpu_source", "driver_version", "driver_source"].map(|column| row[column].clone())
}

/// The codes of the issues of a run that are about its GPUs.
fn gpu_issues(fixture: &Fixture) -> Vec<Value> {
    let summary = fixture.manifest("one", "reduce");
    let codes = list(&summary["body"]["issues"]).iter().map(|issue| issue["code"].clone());
    codes.filter(|code| code.as_str().is_some_and(|code| code.starts_with("gpu_"))).collect()
}

#[test]
fn labels_of_a_scrape_are_the_gpus_of_a_run() {
    let exporter = exporter();
    let fixture = run(NO_DRIVER, &[scrape("gpus", &exporter, DRIVER)]);
    let expected = json!(["NVIDIA H200", 2, "scrape_labels", DRIVER, "scrape_labels"]);
    assert_eq!((json!(dimensions(&fixture)), gpu_issues(&fixture)), (expected, Vec::new()));
}

#[test]
fn scrapes_that_contradict_each_other_leave_the_fact_open() {
    let exporter = exporter();
    let fixture = run(NO_DRIVER, &[scrape("old", &exporter, DRIVER), scrape("new", &exporter, OTHER_DRIVER)]);
    assert_eq!(json!(dimensions(&fixture)), json!(["NVIDIA H200", 2, "scrape_labels", null, null]));
    let differ = issue(&fixture, "one", "gpu_facts_differ");
    for gpu in ["GPU-0", "GPU-1"] {
        let expected = format!(
            "the GPU `{gpu}` has several versions of the driver in labels: `{DRIVER}` in those of a scrape, `{OTHER_DRIVER}` in those of a scrape"
        );
        assert!(differ.contains(&expected), "{differ}");
    }
}

#[test]
fn the_driver_of_the_machine_stands_against_labels() {
    let exporter = exporter();
    let driver = "case $query in uuid,*) for gpu in 0 1; do \
                  echo \"GPU-$gpu, NVIDIA H200, 143771, 575.57.08, 00000000:19:00.$gpu, 1980, 1980, 1980, 345\"; done;; *) exit 9;; esac\n";
    let fixture = run(driver, &[scrape("gpus", &exporter, DRIVER)]);
    assert_eq!(json!(dimensions(&fixture)), json!(["NVIDIA H200", 2, "host", "575.57.08", "host"]));
    let differ = issue(&fixture, "one", "gpu_facts_differ");
    let expected = format!("the driver of the GPU `GPU-0` is `575.57.08` by the driver on its host, and `{DRIVER}` in labels");
    assert!(differ.contains(&expected), "{differ}");
}

#[test]
fn labels_of_a_prometheus_are_the_gpus_of_a_run_and_contradict_those_of_a_scrape() {
    let exporter = exporter();
    let path = format!("/{DRIVER}");
    let Some(server) = Prometheus::start(&[("gpus", "1s", exporter.authority(), &path)]) else { return };
    let fixture = run(NO_DRIVER, &[prometheus(&server)]);
    let expected = json!(["NVIDIA H200", 2, "exporter_labels", DRIVER, "exporter_labels"]);
    assert_eq!((json!(dimensions(&fixture)), gpu_issues(&fixture)), (expected, Vec::new()));

    // The scrape has every GPU, and is nearer to it.
    let both = run(NO_DRIVER, &[prometheus(&server), scrape("gpus", &exporter, DRIVER)]);
    let expected = json!(["NVIDIA H200", 2, "scrape_labels", DRIVER, "scrape_labels"]);
    assert_eq!((json!(dimensions(&both)), gpu_issues(&both)), (expected, Vec::new()));

    let contradicted = run(NO_DRIVER, &[prometheus(&server), scrape("gpus", &exporter, OTHER_DRIVER)]);
    assert_eq!(json!(dimensions(&contradicted)), json!(["NVIDIA H200", 2, "scrape_labels", null, null]));
    let differ = issue(&contradicted, "one", "gpu_facts_differ");
    let expected = format!("in labels: `{DRIVER}` in those of a Prometheus, `{OTHER_DRIVER}` in those of a scrape");
    assert!(differ.contains(&expected), "{differ}");
}
