use assay_manifest::{JoinLabels, ScopeKind};
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1000;

fn query(kind: QueryKind, fold: Option<SeriesFold>, per: Option<&str>) -> PackQuery {
    PackQuery {
        name: "m".to_owned(),
        query: "m".to_owned(),
        kind,
        unit: "s".to_owned(),
        fold,
        per: per.map(str::to_owned),
        scope_kind: ScopeKind::Gpu,
        scope_labels: vec!["UUID".to_owned()],
        labels: vec!["gpu".to_owned()],
        joins: JoinLabels {
            gpu_uuid: Some("UUID".to_owned()),
            node_name: Some("Hostname".to_owned()),
            pod_uid: Some("pod_uid".to_owned()),
        },
        missing: "off".to_owned(),
    }
}

fn gauge() -> PackQuery {
    query(QueryKind::Gauge, None, None)
}

fn series(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> SampledSeries {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    SampledSeries { labels, samples: samples.to_vec(), has_histograms: false }
}

/// A window from 0 to 10 s.
fn window() -> (Instant, Instant) {
    (instant(0), instant(10 * SECOND))
}

/// Samples of these values, one a second from 0 on.
fn each_second(values: &[f64]) -> Vec<(i64, f64)> {
    (0..).map(|index| index * SECOND).zip(values.iter().copied()).collect()
}

fn one_row(query: &PackQuery, all: Vec<SampledSeries>) -> QueryRow {
    let mut found = evaluate(query, window(), all);
    assert_eq!(found.rows.len(), 1, "{found:?}");
    found.rows.remove(0)
}

fn values(row: &QueryRow) -> Option<(f64, f64, f64)> {
    row.statistics.values.map(|values| (values.min, values.mean, values.max))
}

#[test]
fn a_gauge_has_the_statistics_of_its_samples_in_the_window() {
    let samples = [each_second(&[1.0, 2.0, 3.0]), vec![(11 * SECOND, 99.0), (-SECOND, 99.0)]].concat();
    let row = one_row(&gauge(), vec![series(&[("UUID", "GPU-1"), ("gpu", "0"), ("pod", "p")], &samples)]);
    assert_eq!((row.scope_kind, row.scope_id.as_str(), row.statistics.metric.as_str()), ("gpu", "GPU-1", "m{gpu=\"0\"}"));
    assert_eq!((row.statistics.n, values(&row)), (3, Some((1.0, 2.0, 3.0))), "the others lie outside");
    assert_eq!(row.interval_ns, Some(1_000_000_000));
    assert_eq!(row.gap_ns, 8_000_000_000, "from the last sample to the end");
}

#[test]
fn a_metric_with_one_sample_has_no_value_and_is_counted() {
    let found = evaluate(&gauge(), window(), vec![series(&[("UUID", "GPU-1")], &[(SECOND, 7.0)])]);
    assert_eq!((found.too_coarse, found.series), (1, 1));
    let row = &found.rows[0];
    assert_eq!((row.statistics.n, values(row), row.interval_ns), (1, None, None));
    assert_eq!(row.gap_ns, 10_000_000_000, "one sample says nothing of the window");
    assert!(evaluate(&gauge(), window(), vec![series(&[("UUID", "GPU-1")], &[(99 * SECOND, 7.0)])]).rows.is_empty());
}

#[test]
fn a_counter_has_increases_per_second_over_resets() {
    let counter = query(QueryKind::Counter, None, None);
    let samples = [(0, 100.0), (2 * SECOND, 104.0), (4 * SECOND, 6.0), (6 * SECOND, 6.0)];
    let found = evaluate(&counter, window(), vec![series(&[("UUID", "GPU-1")], &samples)]);
    assert_eq!(found.resets, 1);
    assert_eq!(values(&found.rows[0]), Some((0.0, 5.0 / 3.0, 3.0)), "4, 6 and 0 in two seconds each");
    assert_eq!(found.rows[0].statistics.n, 4);
}

#[test]
fn a_row_has_the_keys_that_all_its_series_have() {
    let of_pod = |pod: &str, from: i64| {
        let samples = [(from, 1.0), (from + SECOND, 2.0)];
        series(&[("UUID", "GPU-1"), ("Hostname", "node-7"), ("pod_uid", pod), ("pod", "p")], &samples)
    };
    let keys = |all: Vec<SampledSeries>| {
        let mut found = evaluate(&gauge(), window(), all);
        let keys = found.rows.remove(0).statistics.keys.expect("keys");
        (keys.gpu_uuid, keys.node_name, keys.pod_uid, found.conflicts.by_column().map(|(_, count)| count))
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(keys(vec![of_pod("a", 0)]), (text("GPU-1"), text("node-7"), text("a"), [0, 0, 0]));
    assert_eq!(keys(vec![of_pod("a", 0), of_pod("b", 5 * SECOND)]), (text("GPU-1"), text("node-7"), None, [0, 0, 1]));
    assert_eq!(keys(vec![of_pod("", 0)]).2, None, "the exporter does not state it");
    let long = of_pod(&"x".repeat(MAX_NAME_BYTES + 1), 0);
    let found = evaluate(&gauge(), window(), vec![long]);
    assert_eq!((found.rows.len(), found.long_names), (0, 1));
}

#[test]
fn what_is_no_number_is_counted_and_no_value() {
    let samples = each_second(&[1.0, f64::NAN, f64::INFINITY, 3.0]);
    let found = evaluate(&gauge(), window(), vec![series(&[("UUID", "GPU-1")], &samples)]);
    assert_eq!((found.not_numbers, values(&found.rows[0])), (2, Some((1.0, 2.0, 3.0))));
    let counter = query(QueryKind::Counter, None, None);
    let found = evaluate(&counter, window(), vec![series(&[("UUID", "GPU-1")], &each_second(&[1.0, -5.0, 3.0]))]);
    assert_eq!((found.not_numbers, values(&found.rows[0])), (1, Some((1.0, 1.0, 1.0))), "a count is not negative");
}

#[test]
fn series_of_one_object_follow_each_other_or_are_ambiguous() {
    let before = series(&[("UUID", "GPU-1"), ("pod", "a")], &[(0, 1.0), (SECOND, 2.0)]);
    let after = series(&[("UUID", "GPU-1"), ("pod", "b")], &[(2 * SECOND, 9.0), (3 * SECOND, 10.0)]);
    let row = one_row(&gauge(), vec![after.clone(), before.clone()]);
    assert_eq!((row.statistics.n, values(&row)), (4, Some((1.0, 5.5, 10.0))), "the pod changed, and the GPU did not");
    let counter = query(QueryKind::Counter, None, None);
    let row = one_row(&counter, vec![before.clone(), after]);
    assert_eq!(values(&row), Some((1.0, 1.0, 1.0)), "nothing is known of the increase from one counter to the next");
    let replica = series(&[("UUID", "GPU-1"), ("replica", "2")], &[(500, 1.0), (1500, 2.0)]);
    let found = evaluate(&gauge(), window(), vec![before, replica]);
    assert_eq!((found.rows.len(), found.ambiguous), (0, 2));
    // A series that is read less often than another one has a single sample, before or after those of the other by chance.
    let fast = series(&[("UUID", "GPU-1"), ("instance", "a")], &[(0, 1000.0), (SECOND, 1000.0), (2 * SECOND, 1000.0)]);
    let slow = series(&[("UUID", "GPU-1"), ("instance", "b")], &[(3 * SECOND, 5e6)]);
    let found = evaluate(&gauge(), window(), vec![fast, slow]);
    assert_eq!((found.rows.len(), found.ambiguous, found.too_coarse), (0, 2, 0));
}

#[test]
fn series_that_two_servers_read_at_different_times_are_not_folded_and_not_too_coarse() {
    let busy = query(QueryKind::Share, Some(SeriesFold::Sum), Some("cpu"));
    let read_at = |offset: i64, replica: &str| {
        let samples: Vec<_> = (0..3).map(|index| (offset + index * SECOND, 0.1 * index as f64)).collect();
        series(&[("UUID", "n"), ("cpu", "0"), ("replica", replica)], &samples)
    };
    let found = evaluate(&busy, window(), vec![read_at(0, "a"), read_at(300, "b")]);
    assert_eq!((found.rows.len(), found.ambiguous, found.too_coarse), (0, 2, 0));
}

#[test]
fn series_are_folded_at_the_times_that_all_of_them_have() {
    let cpu = |number: &str, values: &[f64]| series(&[("UUID", "n"), ("cpu", number)], &each_second(values));
    let busy = query(QueryKind::Share, Some(SeriesFold::Sum), Some("cpu"));
    let row = one_row(&busy, vec![cpu("0", &[0.0, 0.5, 1.0]), cpu("1", &[0.0, 1.2, 2.4])]);
    assert_eq!((row.statistics.n, values(&row)), (3, Some((0.85, 0.85, 0.85))));
    let row = one_row(&busy, vec![cpu("0", &[0.0, 1.4]), cpu("1", &[0.0, 1.4])]);
    assert_eq!(values(&row), Some((1.0, 1.0, 1.0)), "more than all of the time is the jitter of the scrapes");
    let hottest = query(QueryKind::Gauge, Some(SeriesFold::Max), None);
    let row = one_row(&hottest, vec![cpu("0", &[50.0, 70.0, 60.0]), cpu("1", &[55.0, 65.0])]);
    assert_eq!((row.statistics.n, values(&row)), (2, Some((55.0, 62.5, 70.0))), "at the third time one is missing");
    let summed = query(QueryKind::Counter, Some(SeriesFold::Sum), None);
    let row = one_row(&summed, vec![cpu("0", &[5.0, 6.0]), cpu("1", &[50.0, 1.0])]);
    assert_eq!(values(&row), Some((2.0, 2.0, 2.0)), "the reset of one counter is none of the sum");
}

#[test]
fn what_does_not_name_its_object_has_no_row() {
    let long = "x".repeat(2000);
    let all = vec![
        series(&[("gpu", "0")], &each_second(&[1.0, 2.0])),
        series(&[("UUID", ""), ("gpu", "0")], &each_second(&[1.0, 2.0])),
        series(&[("UUID", &long)], &each_second(&[1.0, 2.0])),
    ];
    let found = evaluate(&gauge(), window(), all);
    assert_eq!((found.rows.len(), found.without_scope, found.long_names), (0, 2, 1));
}

#[test]
fn gaps_are_longer_than_three_intervals() {
    let gap = |seconds: &[i64]| gap_ns(&seconds.iter().map(|at| at * SECOND).collect::<Vec<_>>(), SECOND, window().0, window().1);
    assert_eq!(gap(&[0, 1, 2, 3, 6, 9, 10]), 0, "three intervals are none");
    assert_eq!(gap(&[0, 1, 2, 6, 7, 8]), 4_000_000_000);
    assert_eq!(gap(&[4, 5, 6]), 8_000_000_000, "at both ends");
}

proptest! {
    #[test]
    fn whatever_the_samples_are_a_row_has_numbers(
        samples in prop::collection::vec((-2_000_i64..13_000, prop_oneof![Just(f64::NAN), Just(1e300), -5.0..5.0_f64]), 0..40),
        split in 0_usize..40,
        kind in prop::sample::select(QueryKind::ALL.to_vec()),
        fold in prop::option::of(prop::sample::select(SeriesFold::ALL.to_vec())),
    ) {
        let (first, second) = samples.split_at(split.min(samples.len()));
        let all = vec![series(&[("UUID", "a")], first), series(&[("UUID", "a"), ("x", "1")], second)];
        let found = evaluate(&query(kind, fold, Some("x")), window(), all);
        for row in &found.rows {
            prop_assert!(row.gap_ns <= 10_000_000_000);
            prop_assert!(row.statistics.n <= samples.len() as u64);
            prop_assert!(row.statistics.values.is_none() || row.statistics.n >= 2);
        }
    }
}
