//! Energy for each token: from a scripted exporter of GPUs over the recorder to rows, the Summary and what a reader is shown.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use assay_probe::testing::{Reply, Server};

use crate::exporters::{count, float, issue, rows};
use crate::pipeline::list;
use crate::serving::{RETRY_BUDGET, SIMULATOR, pipeline, workload};
use crate::support::{Fixture, PIPELINE};

/// The energy of each of two scripted GPUs from one reading to the next, in millijoules.
const STEP_MJ: u64 = 100_000;

/// Two scripted GPUs, each of which has used [`STEP_MJ`] more at every reading, and starts anew at every reading of `resets`.
fn gpus(resets: u64) -> Server {
    let reads = AtomicU64::new(0);
    Server::start(move |_| {
        let read = reads.fetch_add(1, Ordering::Relaxed) % resets;
        let mut text = "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n".to_owned();
        for gpu in 0..2 {
            let labels = format!("{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",Hostname=\"node-a\"}}");
            let _ = writeln!(text, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels} {}", read * STEP_MJ);
        }
        Reply::ok(text)
    })
}

#[test]
fn a_token_has_the_energy_of_the_gpus_while_it_was_made() {
    let (steady, falling) = (gpus(u64::MAX), gpus(3));
    let exporters =
        format!("  telemetry: [{{name: gpus, scrape: '{}'}}, {{name: falling, scrape: '{}'}}]\n", steady.url(), falling.url());
    let fixture = Fixture::bare();
    // Sixteen seconds, each of which the recorder samples: a value needs ten intervals.
    workload(&fixture, "slow", "mode: open, rate: [10], arrival: constant, requests: 160", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["slow"], &[SIMULATOR], 1, RETRY_BUDGET, &exporters));
    fixture.commit("two GPUs");
    fixture.run("one").success();

    let rows = rows(&fixture, "one");
    let derived: Vec<_> = rows.iter().filter(|row| row.text("metric_kind") == Some("derived")).collect();
    assert!(derived.iter().all(|row| row.text("source") == Some("exporter/gpus")), "{derived:#?}");
    let faults = issue(&fixture, "one", "energy_unknown");
    assert!(faults.contains("`exporter/falling`: the gpu energy of ") && faults.contains("in which a counter fell"), "{faults}");
    let summary = fixture.manifest("one", "reduce");
    let issues = list(&summary["body"]["issues"]);
    let is_unknown = issues.iter().any(|issue| issue["code"] == "energy_unknown" && issue.to_string().contains("exporter/gpus"));
    fixture.assay(&["verify", "one", "--recompute"]).success();
    // A terminal's lines are broken between words.
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let energy = list(&summary["body"]["energy"]);
    if derived.is_empty() || energy.is_empty() {
        // A machine that was busy for seconds has left a gap, which is said instead.
        assert!(is_unknown && !shown.contains("J per request"), "{issues:#?}");
        return;
    }
    for row in &derived {
        assert_eq!(
            (row.text("scope_kind"), row.text("scope_id"), row.text("method")),
            (Some("gpu"), Some("all"), Some("counter"))
        );
        assert_eq!((count(row, "objects"), row.text("node_name")), (2, None));
    }
    let of =
        |metric: &str| derived.iter().find(|row| row.text("metric") == Some(metric)).unwrap_or_else(|| panic!("no `{metric}`"));
    let joules = float(of("energy"), "mean");
    // A scrape whose response came too late has been counted by the exporter.
    assert!(joules >= (2 * STEP_MJ / 1000) as f64 * (count(of("energy"), "n") - 1) as f64, "{joules}");
    let requests = joules / float(of("energy_per_request"), "mean");
    assert!((requests - requests.round()).abs() < 1e-6 && (1.0..=160.0).contains(&requests), "{requests}");
    let tokens = joules / float(of("energy_per_output_token"), "mean");
    assert!((tokens / requests - 10.0).abs() < 1e-6, "every response has ten tokens: {tokens}");
    assert!(shown.contains("J per output token and ") && shown.contains("2 objects of `exporter/gpus`"), "{shown}");
}
