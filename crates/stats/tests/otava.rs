//! The benchmark's port of Otava's rule finds what Otava 0.8.0 finds.

#[path = "../examples/change_points_bench/otava.rs"]
mod otava;

use otava::{Point, Rule, change_points};

const S1: [f64; 11] = [1.02, 0.95, 0.99, 1.00, 1.12, 0.90, 0.50, 0.51, 0.48, 0.48, 0.55];
const S2: [f64; 11] = [2.02, 2.03, 2.01, 2.04, 1.82, 1.85, 1.79, 1.81, 1.80, 1.76, 1.78];

fn indices(series: &[f64], rule: Rule) -> Vec<usize> {
    change_points(series, rule).iter().map(|point| point.index).collect()
}

fn only_point(series: &[f64]) -> Point {
    change_points(series, Rule::with_max_p(1e-3))[0]
}

#[test]
fn p_values_are_otavas() {
    assert!((only_point(&S1).p / 9.470_438_654_814_028e-8 - 1.0).abs() < 1e-9, "{}", only_point(&S1).p);
    assert!((only_point(&S2).p / 8.237e-8 - 1.0).abs() < 1e-3, "{}", only_point(&S2).p);
}

#[test]
fn indices_are_otavas() {
    assert_eq!(indices(&S1, Rule::with_max_p(1e-3)), [6]);
    assert_eq!(indices(&S2, Rule::with_max_p(1e-3)), [4]);
    let appended: Vec<f64> = S2.iter().copied().chain([1.97, 33.33, 46.46]).collect();
    // Given one point at a time, Otava keeps an earlier 4; given the whole series, it returns this.
    assert_eq!(indices(&appended, Rule::with_max_p(1e-3)), [12]);
    let s3 =
        [1.02, 0.95, 0.99, 1.00, 1.12, 1.00, 1.01, 0.98, 1.01, 0.96, 0.50, 0.51, 0.48, 0.48, 0.55, 0.50, 0.49, 0.51, 0.50, 0.49];
    assert_eq!(indices(&s3, Rule { window: 10, ..Rule::with_max_p(1e-4) }), [10]);
    let zeros = indices(&[0.0, 0.0, 0.0, 1.0, 1.12, 0.9, 0.5, 0.51, 0.48, 0.48, 0.55], Rule::with_max_p(1e-3));
    assert_eq!((zeros.len(), zeros[0]), (2, 3));
}

#[test]
fn a_least_magnitude_drops_the_smaller_change() {
    let of = |series: &[f64]| indices(series, Rule { min_magnitude: 0.2, ..Rule::with_max_p(1e-3) });
    assert_eq!((of(&S1), of(&S2)), (vec![6], vec![]));
}
