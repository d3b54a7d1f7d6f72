//! The cost of asking a Prometheus for one attempt, and of making its rows: `fleet_bench URL START END PACK FILE`, with the times in
//! seconds since 1970. `ci/bench fleet` runs it against a Prometheus with the blocks of a scripted fleet.

#![expect(clippy::print_stdout, reason = "an example that reports figures")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Instant as Moment;

use assay_collect::{AttemptToAsk, ask_prometheus};
use assay_manifest::{Block, Instant, PrometheusSource};
use assay_telemetry::prometheus::{AttemptKey, QueryRows};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, start, end, pack, file] = arguments.as_slice() else {
        return Err("usage: fleet_bench URL START END PACK FILE".into());
    };
    let second = |text: &String| Ok::<_, Box<dyn Error>>(Instant::from_unix_ns(text.parse::<i64>()? * 1_000_000_000));
    let attempt = AttemptToAsk {
        block: Block { index: 0, incarnation: 0 },
        trial_id: "fleet.local.default.once.t0".parse()?,
        attempt: 0,
        start: second(start)?,
        end: second(end)?,
    };
    let source = PrometheusSource {
        url: url.clone(),
        headers: Vec::new(),
        insecure_skip_tls_verify: false,
        tls: None,
        matchers: BTreeMap::new(),
        packs: vec![assay_planning::built_in_pack(pack).ok_or("there is no such pack")?],
    };
    let path = Path::new(file);
    let began = Moment::now();
    ask_prometheus(&source, std::slice::from_ref(&attempt), path, || Ok(())).map_err(|failure| failure.message)?;
    report("asked", began, &format!("{} MiB of evidence", std::fs::metadata(path)?.len() >> 20))?;

    let began = Moment::now();
    let key = AttemptKey { block: attempt.block, trial_id: attempt.trial_id, attempt: 0 };
    let windows = BTreeMap::from([(key, (attempt.start, attempt.end))]);
    let name = "fleet".parse()?;
    let mut found = QueryRows::open(&name, &source, &windows, File::open(path)?)?;
    let (mut rows, mut samples, mut scopes) = (0_u64, 0_u64, BTreeSet::new());
    while let Some(of_query) = found.next_rows()? {
        for row in of_query.rows {
            rows += 1;
            samples += row.statistics.n;
            scopes.insert(row.scope_id);
        }
    }
    report("reduced", began, &format!("{rows} rows of {} objects, from {samples} samples", scopes.len()))?;
    for reason in found.findings() {
        println!("{}: {}", reason.code, reason.detail.chars().take(200).collect::<String>());
    }
    Ok(())
}

/// Prints the time of a step, and the largest memory of the process so far.
fn report(step: &str, began: Moment, what: &str) -> Result<(), Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    println!("{step} in {:.1} s, at most {peak} in memory: {what}", began.elapsed().as_secs_f64());
    Ok(())
}
