use super::*;
use proptest::prelude::*;

const SEED: [u8; 32] = [7; 32];

fn points(history: &[f64]) -> Vec<usize> {
    points_on(history, Scale::Raw)
}

fn points_on(history: &[f64], scale: Scale) -> Vec<usize> {
    change_points(history, Rule::new(scale), SEED).expect("searched").iter().map(|point| point.index).collect()
}

/// Deterministic noise: whole numbers from 0 to 6, every one after every other.
fn wobble(place: usize) -> f64 {
    (place * 5 % 7 + place * place % 3) as f64
}

fn levels(levels: &[(usize, f64)]) -> Vec<f64> {
    let level = levels.iter().flat_map(|&(len, level)| std::iter::repeat_n(level, len));
    level.enumerate().map(|(place, level)| level + wobble(place)).collect()
}

const S1: [f64; 11] = [1.02, 0.95, 0.99, 1.00, 1.12, 0.90, 0.50, 0.51, 0.48, 0.48, 0.55];
const S2: [f64; 11] = [2.02, 2.03, 2.01, 2.04, 1.82, 1.85, 1.79, 1.81, 1.80, 1.76, 1.78];
const S3: [f64; 20] =
    [1.02, 0.95, 0.99, 1.00, 1.12, 1.00, 1.01, 0.98, 1.01, 0.96, 0.50, 0.51, 0.48, 0.48, 0.55, 0.50, 0.49, 0.51, 0.50, 0.49];

#[test]
fn finds_what_the_reference_series_are_known_for() {
    for scale in [Scale::Raw, Scale::Log] {
        assert_eq!(points_on(&S1, scale), [6]);
        assert_eq!(points_on(&S3, scale), [10]);
    }
    // The seven later values of this series vary among themselves: eleven values hardly distinguish a step from autocorrelation,
    // and on the log scale do not.
    assert_eq!(points_on(&S2, Scale::Raw), [4]);
}

#[test]
fn describes_the_change() {
    let found = change_points(&S1, Rule::new(Scale::Raw), SEED).expect("searched");
    let point = found.first().expect("a point");
    assert_eq!((point.before.to_bits(), point.after.to_bits()), (0.995_f64.to_bits(), 0.5_f64.to_bits()));
    let (change, interval) = (point.change.expect("a change"), point.interval.expect("an interval"));
    assert!((change - (0.5 / 0.995 - 1.0)).abs() < 1e-12);
    assert!(interval.low < change && change < interval.high && interval.high < -0.3, "{interval:?}");
}

#[test]
fn several_changes_and_long_histories_are_searched_through() {
    assert_eq!(points(&levels(&[(30, 0.0), (30, 20.0), (30, 0.0)])), [30, 60]);
    assert_eq!(points(&levels(&[(130, 0.0), (90, 20.0), (180, 40.0)])), [130, 220]);
    assert_eq!(points(&levels(&[(400, 0.0)])), [0_usize; 0]);
}

#[test]
fn one_wild_night_is_no_change() {
    let mut history = levels(&[(60, 100.0)]);
    history[30] = 1e6;
    assert_eq!(points(&history), [0_usize; 0]);
}

#[test]
fn a_constant_history_has_no_change() {
    assert_eq!(points(&[4.0; 100]), [0_usize; 0]);
    let step: Vec<f64> = (0..20_u32).map(|i| f64::from(u32::from(i >= 8))).collect();
    assert_eq!(points(&step), [8]);
}

#[test]
fn the_bytes_are_what_they_were() {
    let history = levels(&[(40, 100.0), (40, 110.0)]);
    let found = change_points(&history, Rule::new(Scale::Log), SEED).expect("searched");
    let digits: Vec<String> = found
        .iter()
        .map(|point| {
            let interval = point.interval.expect("an interval");
            format!("{} {:?} {:?} {:?} {:?} {:?}", point.index, point.p, point.before, point.after, interval.low, interval.high)
        })
        .collect();
    insta::assert_snapshot!(digits.join("\n"), @"40 0.001 104.0 114.0 0.08046735146341089 0.11206808128950652");
}

#[test]
fn a_nightly_reports_a_change_once() {
    let history = levels(&[(60, 100.0), (20, 130.0)]);
    let ask =
        |nights: usize, known| find_new_change(&history[..nights], known, Scale::Raw, Budget::default(), SEED).expect("asked");
    assert_eq!(ask(60, None), None);
    assert_eq!(ask(61, None), None);
    let point = ask(70, None).expect("a change");
    assert_eq!((point.index, point.before.to_bits()), (60, 104.0_f64.to_bits()));
    assert_eq!(ask(71, Some(point.index)), None);
    assert_eq!(ask(80, Some(point.index)), None);
}

#[test]
fn only_recent_values_are_asked_about() {
    let history = levels(&[(50, 100.0), (100, 130.0)]);
    let ask = |known| find_new_change(&history, known, Scale::Raw, Budget::default(), SEED).expect("asked");
    assert_eq!(ask(None), None);
    assert_eq!(ask(Some(148)), None);
    assert_eq!(ask(Some(150)), None);
}

/// A series without a change and with this lag-1 correlation.
fn autocorrelated(number: u64, n: usize, correlation: f64) -> Vec<f64> {
    use rand_core::{RngCore, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(number);
    let mut normal = || normal::quantile((f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0);
    let mut last = normal();
    let mut next = || {
        last = correlation * last + (1.0 - correlation * correlation).sqrt() * normal();
        100.0 + last
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn slow_waves_are_refused_and_seldom_taken_for_changes() {
    let searched: Vec<_> =
        (0..60).map(|number| change_points(&autocorrelated(number, 100, 0.9), Rule::new(Scale::Raw), SEED)).collect();
    let raised = searched.iter().filter(|found| found.as_ref().is_ok_and(|points| !points.is_empty())).count();
    let refused = searched.iter().filter(|found| matches!(found, Err(ChangePointError::Autocorrelated { .. }))).count();
    // Without the test for waves, 16 of 60 are expected to raise a point.
    assert!(raised <= 8 && refused >= 6, "{raised} raised, {refused} refused");
    let refused = searched.into_iter().find_map(Result::err).expect("one that is refused").to_string();
    assert!(refused.starts_with("cannot tell whether the level moved"), "{refused}");
}

#[test]
fn what_cannot_be_told_in_one_part_hides_no_change_in_another() {
    let wave: Vec<f64> = (0..100_u32).map(|place| 20.0 * libm::sin(f64::from(place) / 16.0) + wobble(place as usize)).collect();
    assert!(matches!(change_points(&wave, Rule::new(Scale::Raw), SEED), Err(ChangePointError::Autocorrelated { .. })));
    let history: Vec<f64> = levels(&[(60, 0.0), (90, 200.0)]).into_iter().chain(wave.iter().map(|value| value + 200.0)).collect();
    let found = search(&history, Rule::new(Scale::Raw), SEED).expect("searched");
    assert_eq!(found.points.first().map(|point| point.index), Some(60), "{found:?}");
    assert!(
        found.ambiguous.iter().all(|untold| untold.part.end > 100 && untold.memory > 0.8) && !found.ambiguous.is_empty(),
        "{found:?}"
    );
}

fn refusal(history: &[f64], rule: Rule) -> String {
    change_points(history, rule, SEED).expect_err("refused").to_string()
}

#[test]
fn refuses_what_it_cannot_search() {
    let (raw, log) = (Rule::new(Scale::Raw), Rule::new(Scale::Log));
    for n in 0..4 {
        assert_eq!(change_points(&vec![1.0; n], raw, SEED), Err(ChangePointError::TooShort { n }));
        assert!(find_new_change(&vec![1.0; n], None, Scale::Raw, Budget::default(), SEED).is_err());
    }
    insta::assert_snapshot!(refusal(&[1.0; 5], raw), @"a change point needs a history of 6 values, and this one has 5");
    insta::assert_snapshot!(refusal(&vec![1.0; 20_001], raw), @"a history of 20001 values is too long to be searched; pass the last 20000");
    insta::assert_snapshot!(refusal(&[1.0, 1.0, f64::NAN, 1.0, 1.0, 1.0], raw), @"sample 2 is NaN, not a finite number");
    insta::assert_snapshot!(refusal(&[1.0, 1.0, 0.0, 1.0, 1.0, 1.0], log), @"value 2 is 0, which has no logarithm; compare this metric on the raw scale");
    insta::assert_snapshot!(refusal(&[1.0; 10], Rule { level: 1.0, ..raw }), @"the level 1 is not between 0 and 1");
    insta::assert_snapshot!(refusal(&[1.0; 10], Rule { level: 1e-6, ..raw }), @"a test at level 1e-6 needs more than 100000 permutations; raise the level or shorten the history");
    let known = find_new_change(&[1.0; 10], Some(11), Scale::Raw, Budget::default(), SEED).expect_err("refused").to_string();
    insta::assert_snapshot!(known, @"the last known change point is at 11, but the history has 10 values");
}

#[test]
fn extreme_numbers_do_no_harm() {
    let huge: Vec<f64> = (0..40_usize).map(|i| if i < 20 { 1e149 } else { -1e149 } - 1e139 * wobble(i)).collect();
    assert_eq!(points(&huge), [20]);
    let tiny: Vec<f64> = (0..40_usize).map(|i| if i < 20 { 5e-324 } else { 1e-323 }).collect();
    assert_eq!(points(&tiny), [20]);
}

/// Whole numbers with one clear step, so that shifts are exact.
fn clear_step() -> impl Strategy<Value = (Vec<f64>, usize)> {
    let noise = prop::collection::vec(-3_i32..=3, 30..70);
    (noise, 0.3_f64..0.7).prop_map(|(noise, share)| {
        let at = (noise.len() as f64 * share) as usize;
        let value = |(place, noise): (usize, i32)| f64::from(noise + if place < at { 0 } else { 40 });
        (noise.into_iter().enumerate().map(value).collect(), at)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn units_do_not_matter((history, _) in clear_step(), shift in -1_000_i32..1_000, power in -8_i32..8) {
        let moved: Vec<f64> = history.iter().map(|x| (x + f64::from(shift)) * f64::from(power).exp2()).collect();
        prop_assert_eq!(points(&moved), points(&history));
    }

    #[test]
    fn a_clear_step_is_found_where_it_is_and_from_behind_too((history, at) in clear_step()) {
        let mirrored: Vec<f64> = history.iter().rev().copied().collect();
        prop_assert!(points(&history).contains(&at));
        prop_assert!(points(&mirrored).contains(&(history.len() - at)));
    }

    #[test]
    fn more_of_the_same_moves_nothing((history, at) in clear_step(), more in 1_usize..20) {
        let last = history[at..].to_vec();
        let longer: Vec<f64> = history.iter().chain(last.iter().cycle().take(more)).copied().collect();
        let found = points(&longer);
        // Repeated values are not independent noise: the change is located as well as the noise around it allows.
        prop_assert!(found.iter().any(|found| found.abs_diff(at) <= 5), "{found:?} {at}");
    }

    #[test]
    fn any_finite_numbers_are_searched(history in prop::collection::vec(-1e150_f64..1e150, 6..130)) {
        let SearchResult { points, ambiguous } = search(&history, Rule::new(Scale::Raw), SEED).expect("searched");
        prop_assert!(points.is_sorted_by_key(|point| point.index));
        for point in &points {
            prop_assert!((MIN_SIDE..=history.len() - MIN_SIDE).contains(&point.index));
            prop_assert!(point.p > 0.0 && point.p <= DEFAULT_LEVEL);
        }
        // Of a few thousand random series one looks like a slow wave: that is a result, too.
        for part in &ambiguous {
            prop_assert!(part.part.end <= history.len() && part.memory > 0.0 && part.memory <= 1.0);
        }
        let untold = points.is_empty() && !ambiguous.is_empty();
        prop_assert_eq!(change_points(&history, Rule::new(Scale::Raw), SEED).is_err(), untold);
    }
}
