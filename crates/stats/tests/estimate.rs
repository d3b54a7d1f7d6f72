//! The guarantees of an estimate for all samples: order, scale, its own interval, its own bytes.

use assay_stats::{Estimate, NoInterval, SampleError, Samples, bootstrap, estimate, stability};
use proptest::prelude::*;

const SEED: [u8; 32] = [42; 32];

fn estimate_values(values: &[f64]) -> Estimate {
    estimate(values, SEED).expect("an estimate")
}

fn scaled(values: &[f64], by: f64) -> Vec<f64> {
    values.iter().map(|value| value * by).collect()
}

/// Twenty-five latencies in no particular order, one of them wild.
fn latencies() -> Vec<f64> {
    (0..25).map(|i| if i == 13 { 250.0 } else { 100.0 + f64::from(i * 7 % 25) * 0.3 }).collect()
}

#[test]
fn an_estimate_carries_what_must_stand_beside_a_number() {
    insta::assert_debug_snapshot!(estimate_values(&[103.1, 99.7, 101.2, 100.4, 98.9]), @r"
    Estimate {
        n: 5,
        median: 100.4,
        mean: 100.66,
        sd: Some(
            1.6071714283174607,
        ),
        cv: Some(
            0.015966336462521963,
        ),
        min: 98.9,
        max: 103.1,
        iqr: 1.5,
        mad: 0.7999999999999972,
        interval: Ok(
            Interval {
                low: 98.9,
                high: 103.1,
                level: 0.9375,
                method: OrderStatistic,
            },
        ),
        flagged: [],
    }
    ");
}

#[test]
fn from_twenty_samples_on_the_bootstrap_gives_the_interval() {
    let methods = [5, 19, 20, bootstrap::MAX_SAMPLES + 1].map(|n| {
        let ramp: Vec<f64> = (1..=n).map(|i| i as f64).collect();
        estimate_values(&ramp).ci_method()
    });
    assert_eq!(methods, ["order_statistic", "order_statistic", "bootstrap_percentile", "order_statistic"].map(Some));
}

#[test]
fn the_bytes_of_a_bootstrap_interval_are_pinned() {
    let found = estimate_values(&latencies());
    let bits = [found.ci_low(), found.ci_high(), Some(found.mean), found.sd].map(|end| end.expect("present").to_bits());
    insta::assert_debug_snapshot!(bits.map(|bits| format!("{bits:016x}")), @r#"
    [
        "4059866666666666",
        "405a59999999999a",
        "405b5a1cac083127",
        "403d5f3ddd3d10d1",
    ]
    "#);
    assert_eq!(found.flagged, [13]);
}

#[test]
fn too_few_samples_have_a_reason_in_place_of_an_interval() {
    for n in 1..5 {
        let found = estimate_values(&vec![2.0; n]);
        assert!(matches!(found.interval, Err(NoInterval::TooFewForMedian { needed: 5, .. })), "{n}");
        assert_eq!((found.ci_low(), found.ci_high(), found.ci_level(), found.ci_method()), (None, None, None, None));
    }
}

#[test]
fn what_is_no_number_is_refused_by_name() {
    assert_eq!(estimate(&[], SEED), Err(SampleError::Empty));
    assert!(matches!(estimate(&[1.0, f64::NAN], SEED), Err(SampleError::NotFinite { index: 1, .. })));
    assert!(matches!(estimate(&[f64::INFINITY], SEED), Err(SampleError::NotFinite { index: 0, .. })));
}

fn measured() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![4 => 1e-3_f64..1e6, 1 => Just(500.0), 1 => -1e3_f64..1e3], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_samples_changes_no_bit((values, shuffled) in measured().prop_flat_map(|v| (Just(v.clone()), Just(v).prop_shuffle()))) {
        let (mut a, mut b) = (estimate_values(&values), estimate_values(&shuffled));
        prop_assert_eq!(a.flagged.len(), b.flagged.len());
        (a.flagged, b.flagged) = (vec![], vec![]);
        prop_assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }

    #[test]
    fn the_interval_holds_its_estimate_within_the_range(values in measured()) {
        let found = estimate_values(&values);
        prop_assert!(found.min <= found.median && found.median <= found.max);
        prop_assert!(found.min <= found.mean && found.mean <= found.max);
        if let Ok(interval) = found.interval {
            prop_assert!(interval.contains(found.median));
            prop_assert!(found.min <= interval.low && interval.high <= found.max);
        }
    }

    /// Scales by powers of two, which change no digit of a double.
    #[test]
    fn a_change_of_unit_scales_everything(values in measured(), exponent in -20_i32..20) {
        let by = 2.0_f64.powi(exponent);
        let (plain, changed) = (estimate_values(&values), estimate_values(&scaled(&values, by)));
        prop_assert_eq!(Some(changed.median), Some(plain.median * by));
        prop_assert_eq!(Some(changed.mean), Some(plain.mean * by));
        prop_assert_eq!(changed.sd, plain.sd.map(|sd| sd * by));
        prop_assert_eq!(changed.cv, plain.cv);
        prop_assert_eq!(Some(changed.mad), Some(plain.mad * by));
        prop_assert_eq!((changed.ci_low(), changed.ci_high()), (plain.ci_low().map(|x| x * by), plain.ci_high().map(|x| x * by)));
        prop_assert_eq!(changed.flagged, plain.flagged);
    }

    #[test]
    fn stability_does_not_depend_on_the_unit(values in prop::collection::vec(90.0_f64..110.0, 1..30), limit in 0.01_f64..0.2) {
        let judge = |values: &[f64]| stability(&Samples::new(values).expect("samples"), limit);
        let (plain, changed) = (judge(&values), judge(&scaled(&values, 1024.0)));
        prop_assert_eq!(plain.verdict, changed.verdict);
        prop_assert_eq!(plain.reason(), changed.reason());
    }
}
