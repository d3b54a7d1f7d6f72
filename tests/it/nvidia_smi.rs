//! GPUs by `nvidia-smi`: from the pipeline over the recorder and the curated rows to `assay sources` and `assay explain`.
//!
//! The program is a script that speaks the CSV of `nvidia-smi --query-gpu`, because tests run where there is no GPU.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::exporters::{count, float, issue, rows};
use crate::pipeline::{list, text};
use crate::support::{Fixture, PIPELINE, indicator_output, pipeline, script};

/// A driver of two GPUs that does not know the reasons of low clocks by their present spelling, nor the temperature of the memory. The
/// clock of the multiprocessors is low while there is a file `HOME/low`.
const TWO_GPUS: &str = r#"
IFS=,
case $query in
  *clocks_event_reasons*) echo 'Field "clocks_event_reasons.gpu_idle" is not a valid field to query.'; exit 2;;
  *temperature.memory*) echo 'Field "temperature.memory" is not a valid field to query.'; exit 2;;
esac
print_gpu() {
  shown=
  for field in $query; do
    case $field in
      timestamp) value='2026/11/20 12:00:00.123';;
      index) value=$1;;
      uuid) value=GPU-$1;;
      name) value='a scripted GPU';;
      clocks.current.sm) value=$clock;;
      power.draw) value=301.52;;
      ecc.*) value='[N/A]';;
      *sw_power_cap) value=Active;;
      clocks_throttle_reasons.*) value='Not Active';;
      *) value=7;;
    esac
    shown="${shown:+$shown, }$value"
  done
  echo "$shown"
}
loop=0
while :; do
  clock=$((1900 + loop * 7 % 11))
  loop=$((loop + 1))
  [ -e "HOME/low" ] && clock=$((clock - 700))
  print_gpu 0
  print_gpu 1
  [ "$loops" ] || exit 0
  sleep 1
done
"#;

/// Returns a repository whose pipeline records the GPUs, with a program `nvidia-smi` of these commands first in PATH.
fn fixture(program: &str, commands: &str) -> Fixture {
    let telemetry = "  telemetry: [{name: gpus, nvidia_smi: true}]\n";
    let body = format!("{commands}\necho '{}'", indicator_output("only", "[100.25, 101.5, 99.75]"));
    let mut fixture = Fixture::with_pipeline(&script(&body), &pipeline("exploratory", &["only"], 1, telemetry));
    install(&mut fixture, program);
    fixture
}

/// Installs a program `nvidia-smi` of these commands first in PATH. `query` holds the queried fields.
pub(crate) fn install(fixture: &mut Fixture, program: &str) {
    let folder = fixture.root().join("gpu");
    fs::create_dir_all(&folder).expect("a folder");
    let head = "#!/bin/sh\nfor argument; do case $argument in --query-gpu=*) query=${argument#--query-gpu=};; --loop-ms=*) loops=yes;; esac; done\n";
    fs::write(folder.join("nvidia-smi"), format!("{head}{program}")).expect("written");
    fs::set_permissions(folder.join("nvidia-smi"), fs::Permissions::from_mode(0o755)).expect("executable");
    let path = std::env::var("PATH").expect("a PATH");
    fixture.set("PATH", format!("{}:{path}", folder.display()));
}

#[test]
fn gpus_are_recorded_while_trials_run() {
    let fixture = fixture(TWO_GPUS, "sleep 4");
    fixture.run("one").success();

    let rows = rows(&fixture, "one");
    let of_gpus: Vec<_> = rows.iter().filter(|row| row.text("source") == Some("nvidia-smi/gpus")).collect();
    let scopes: BTreeSet<_> = of_gpus.iter().map(|row| (row.text("scope_kind"), row.text("scope_id"))).collect();
    assert_eq!(scopes, [(Some("gpu"), Some("GPU-0")), (Some("gpu"), Some("GPU-1"))].into());
    let row = |metric: &str| {
        let found = of_gpus.iter().find(|row| row.text("metric") == Some(metric));
        found.unwrap_or_else(|| panic!("no `{metric}`"))
    };
    let clock = row("clocks.current.sm{gpu=\"1\"}");
    assert!(count(clock, "n") >= 2 && (1900.0..=1910.0).contains(&float(clock, "mean")), "{clock:?}");
    assert_eq!((clock.text("unit"), clock.text("metric_kind"), count(clock, "gap_ns")), (Some("MHz"), Some("gauge"), 0));
    let is = |metric: &str, column: &str, value: f64| (float(row(metric), column) - value).abs() < 1e-9;
    assert!(is("power.draw{gpu=\"0\"}", "max", 301.52), "{:?}", row("power.draw{gpu=\"0\"}"));
    // The older spelling of the driver is in no row.
    assert!(is("clocks_event_reasons.sw_power_cap{gpu=\"0\"}", "mean", 1.0));
    assert!(is("clocks_event_reasons.hw_slowdown{gpu=\"0\"}", "mean", 0.0));
    let left_out = issue(&fixture, "one", "telemetry_left_out");
    let expected = "quantities that a GPU states without a value (`ecc.errors.corrected.volatile.total`, \
                    `ecc.errors.uncorrected.volatile.total`, `temperature.memory`)";
    assert!(left_out.contains(expected), "{left_out}");
    fixture.assay(&["verify", "one", "--recompute"]).success();

    let shown = fixture.assay(&["sources", PIPELINE]).success().stdout;
    for part in [
        "nvidia-smi/gpus",
        "responds: 44 rows of an attempt",
        "absent (the GPUs state no value): ecc.errors",
        "cluster\n  off on this machine",
    ] {
        assert!(shown.contains(part), "`{part}` in {shown}");
    }
}

#[test]
fn a_program_that_fails_is_an_issue_of_the_run() {
    let fixture = fixture("echo 'NVIDIA-SMI has failed'; exit 9\n", "sleep 1");
    fixture.run("one").success();
    let gaps = issue(&fixture, "one", "recording_gaps");
    assert!(gaps.contains("`nvidia-smi/gpus` for ") && gaps.contains("it printed `NVIDIA-SMI has failed`"), "{gaps}");
    assert!(rows(&fixture, "one").iter().all(|row| row.text("source") != Some("nvidia-smi/gpus")));
    fixture.assay(&["verify", "one", "--recompute"]).success();
    let refused = fixture.assay(&["sources", PIPELINE]).refuses(30, "telemetry_unreachable");
    assert!(refused.stdout.contains("cannot be asked now: it ended with exit code 9"), "{}", refused.stdout);
}

/// The clock of both GPUs is low while the candidate runs.
#[test]
fn a_finding_rests_on_nvidia_smi() {
    let output = indicator_output("speed", "['$speed'.25, '$speed'.5, '$speed'.75]");
    let mut fixture = Fixture::bare();
    let home = fixture.home();
    let flag = home.join("low");
    let body = format!(
        "if [ \"$SIDE\" = after ]; then touch '{flag}'; speed=1000; else rm -f '{flag}'; speed=2000; fi\nsleep 4\nspeed=$((speed + $$ % 50))\necho '{output}'",
        flag = flag.display()
    );
    install(&mut fixture, &TWO_GPUS.replace("HOME", &home.display().to_string()));
    fixture.indicator("speed", &script(&body), "");
    let sides = "  telemetry: [{name: gpus, nvidia_smi: true}]
  variants: [{name: before, env: {SIDE: before}}, {name: after, env: {SIDE: after}}]
  comparison: {baseline: {target: local, variant: before}, candidate: {target: local, variant: after}, variable_under_test: runtime_version}
";
    fixture.write(PIPELINE, &pipeline("exploratory", &["speed"], 4, sides));
    fixture.commit("two sides");
    fixture.run("one").success();

    let explained: Value = fixture.assay(&["explain", "one", "--json"]).success().json();
    let findings = list(&explained["explanation"]["findings"]);
    let clock = findings.iter().find(|finding| finding["rule"] == "gpu-clock");
    let clock = clock.unwrap_or_else(|| panic!("the low clock is not found: {explained:#}"));
    assert!(list(&clock["places"]).iter().any(|place| text(place).starts_with("nvidia-smi/gpus")), "{clock:#}");
}
