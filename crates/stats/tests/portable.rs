//! The same bits on every machine: the functions by which a gate decides are computed here in every build that has tests, with
//! the C library or with musl, and have to give the recorded bits.

use assay_stats::change_point::{Rule, Scale};
use assay_stats::{
    Alternative, Averages, Curve, Differences, Limits, Noise, Samples, Side, Spikes, benjamini_hochberg, change_points,
    dependence, family_order_p, mann_whitney, normal, order_p, signed_rank, student, welch,
};

/// A series with noise of a hundredth, from a counter.
fn series(seed: u64, n: u64) -> Vec<f64> {
    let uniform = |place: u64| {
        let mut z = (seed * 1_000 + place).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    (0..n).map(|place| libm::exp(0.01 * normal::quantile(uniform(place)))).collect()
}

/// FNV-1a over the bits of all values (Fowler, Noll and Vo).
fn fold(values: &[f64]) -> u64 {
    let bytes = values.iter().flat_map(|value| value.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn a_gate_s_numbers_have_the_same_bits_in_every_build() {
    let mut found = Vec::new();
    let mut p = Vec::new();
    for (seed, n) in [(1, 11), (2, 14), (3, 20), (4, 60)] {
        let (one, other) = (series(seed, n), series(seed + 100, n));
        let logs: Vec<f64> = one.iter().zip(&other).map(|(one, other)| libm::log(*other) - libm::log(*one)).collect();
        let differences = Differences::new(&logs).expect("differences");
        let averages = Averages::new(&differences);
        let noise = Noise::from_groups(&[&logs]).expect("noise");
        found.extend([averages.shift(), averages.lower(0.025).expect("a bound"), averages.upper(0.025).expect("a bound")]);
        found.extend([noise.sd, noise.freedom, noise.upper(), student::quantile(0.999, n as f64 - 1.0)]);
        p.push(signed_rank(&differences, Side::Above).p);
        let [one, other] = [one, other].map(|values| Samples::new(&values).expect("samples"));
        found.push(mann_whitney(&one, &other, Alternative::TwoSided).expect("a test").p);
        found.push(welch(&one, &other, Alternative::Greater).expect("a test").p);
        let curve = Curve::new(n as usize, 0.0, 5e-4, 0.025).expect("a curve");
        found.push(curve.detectable(noise.sd, &Limits { floor: 0.01, budget: 0.05 }));
        let remembered = dependence(&[&logs, &series(seed + 200, n)]).expect("numbers").expect("they vary");
        found.extend([remembered.autocorrelation, remembered.p]);
        let by_place = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        found.push(order_p(&[by_place(&logs)], &[]));
        found.push(family_order_p(&[by_place(&logs), by_place(&series(seed + 300, n)), by_place(&series(seed + 400, n))], &[]));
        found.push(Spikes { seen: 2, among: n as u32 }.upper());
    }
    let spiked = Curve::new(20, 0.03, 5e-4, 0.025).expect("a curve");
    found.push(spiked.detectable(0.02, &Limits { floor: 0.01, budget: 0.05 }));
    found.extend(benjamini_hochberg(&p));
    let mut stepped = series(9, 120);
    stepped.iter_mut().skip(70).for_each(|value| *value *= 1.05);
    for change in change_points(&stepped, Rule::new(Scale::Log), [7; 32]).expect("searched") {
        found.extend([change.index as f64, change.p, change.before, change.after]);
    }
    assert_eq!(format!("{:016x}", fold(&found)), "9d4bae35392e1db2", "{found:?}");
}
