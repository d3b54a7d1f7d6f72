//! Made-up histories for tests: one whose newest runs show a change, one that moved twice and once with other hardware, one that did
//! not move, and one that is too short to be searched.

use assay_manifest::{Address, BetterDirection, Digest, Instant};

use crate::history::{AmbiguousStretch, Change, Inputs, Report, Run, Series, Subject};

/// A day in nanoseconds.
const DAY: i64 = 86_400_000_000_000;

/// The start of the first run.
const FIRST: &str = "2026-10-01T02:00:00.000000000Z";

pub(crate) fn report(series: &[Series]) -> Report {
    Report::build(&Inputs { series, level: 0.05, store: Some("s3://results"), origin: None })
}

/// Returns the report of a foreign history.
pub(crate) fn foreign_report() -> Report {
    let origin = "foreign: measured by vllm bench serve 0.11.0 and 0.12.0, not by Assay";
    Report::build(&Inputs { series: &[foreign()], level: 0.05, store: None, origin: Some(origin) })
}

/// Returns a history of these values, without changes.
pub(crate) fn series(metric: &str, unit: &str, values: &[f64]) -> Series {
    let first: Instant = FIRST.parse().expect("an instant");
    let run = |(place, value): (u32, &f64)| {
        let id = format!("nightly-{}", place + 1);
        let address = Address::for_value(&id.parse().expect("a run"), &Digest::compute(format!("{metric} {id}").as_bytes()));
        Run {
            value: *value,
            started: Some(Instant::from_unix_ns(first.unix_ns() + i64::from(place) * DAY)),
            commit: Some(Digest::compute(id.as_bytes()).hex().chars().take(40).collect()),
            hardware_changed: false,
            software_changed: false,
            pipeline_changed: false,
            tool_changed: false,
            address: Some(address),
            evidence: None,
            id,
        }
    };
    Series {
        subject: Subject::Point { pipeline: "nightly".to_owned(), case: "chat.vllm.default".to_owned(), point: "c64".to_owned() },
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        better: Some(BetterDirection::Lower),
        runs: (0..).zip(values).map(run).collect(),
        changes: Ok(Vec::new()),
        ambiguous: Vec::new(),
        newest_change: None,
        other_work: 0,
    }
}

/// Returns `count` values around a level that changes at each of `steps`, with a ripple of half a percent.
pub(crate) fn stepped(count: usize, first: f64, steps: &[(usize, f64)]) -> Vec<f64> {
    let level = |place: usize| steps.iter().rev().find(|(from, _)| place >= *from).map_or(first, |(_, level)| *level);
    (0..count).map(|place| level(place) * (1.0 + 0.005 * ((place * 7 % 5) as f64 - 2.0))).collect()
}

/// Returns a change from one level to another, with an interval of one percent in either direction.
pub(crate) fn change(index: usize, before: f64, after: f64) -> Change {
    let share = after / before - 1.0;
    Change { index, before, after, change: Some(share), interval: Some((share - 0.01, share + 0.009)), p: 0.001 }
}

/// Returns a history whose newest runs show a change.
pub(crate) fn newly_changed() -> Series {
    let found = change(40, 412.0, 446.0);
    Series {
        changes: Ok(vec![found]),
        newest_change: Some(found),
        ..series("ttft_ms_p99", "ms", &stepped(45, 412.0, &[(40, 446.0)]))
    }
}

/// Returns a history that moved twice, the first time with other hardware, and has slow waves since.
pub(crate) fn moved_twice() -> Series {
    let values = stepped(60, 1_840.0, &[(18, 1_610.0), (39, 1_655.0)]);
    let found = vec![change(18, 1_840.0, 1_610.0), change(39, 1_610.0, 1_655.0)];
    let untold = vec![AmbiguousStretch { from: 39, to: 60, autocorrelation: 0.83 }];
    let mut series = Series { changes: Ok(found), ambiguous: untold, other_work: 3, ..series("e2e_ms_p99", "ms", &values) };
    for (place, run) in series.runs.iter_mut().enumerate() {
        (run.hardware_changed, run.software_changed) = (place == 18, place == 18 || place == 30);
    }
    series
}

/// Returns a history that did not move.
pub(crate) fn steady() -> Series {
    let mut series = series("output_tokens_per_s", "tok/s", &stepped(45, 2_410.0, &[]));
    series.better = Some(BetterDirection::Higher);
    series
}

/// Returns a history that is too short to be searched.
pub(crate) fn short() -> Series {
    let why = "a change point needs a history of 6 values, and this one has 3";
    Series { changes: Err(why.to_owned()), ..series("itl_ms_p99", "ms", &[31.7, 31.9, 31.4]) }
}

/// Returns a history of another tool's results, which moved with a new version of it.
pub(crate) fn foreign() -> Series {
    let labels = [("concurrency", "8"), ("model", "llama-3.1-8b")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let subject = Subject::Foreign {
        tool: "vllm bench serve".to_owned(),
        statistic: "p99".to_owned(),
        labels: labels.into_iter().collect(),
    };
    let values = stepped(24, 412.0, &[(12, 446.0)]);
    let mut series = Series { subject, changes: Ok(vec![change(12, 412.0, 446.0)]), ..series("vllm.ttft", "ms", &values) };
    for (place, run) in series.runs.iter_mut().enumerate() {
        (run.commit, run.address, run.tool_changed) = (None, None, place == 12);
        run.evidence = Some(Digest::compute(run.id.as_bytes()));
    }
    series
}

/// Returns all of them, in the order of the store.
pub(crate) fn all() -> Vec<Series> {
    vec![moved_twice(), short(), steady(), newly_changed()]
}

/// Returns a history of `count` runs with some outliers.
pub(crate) fn long(count: usize) -> Series {
    let mut values = stepped(count, 100.0, &[(count / 2, 110.0)]);
    values.iter_mut().step_by(997).for_each(|value| *value *= 1.5);
    Series { changes: Ok(vec![change(count / 2, 100.0, 110.0)]), ..series("p50_us", "us", &values) }
}
