use super::*;

const COUNTER: &str = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION";
const POWER: &str = "DCGM_FI_DEV_POWER_USAGE";

fn at(seconds: f64) -> Instant {
    Instant::from_unix_ns((seconds * 1e9).round() as i64)
}

fn object(name: &str, readings: Vec<(f64, f64)>) -> MeteredObject {
    MeteredObject {
        object: name.to_owned(),
        readings: readings.into_iter().map(|(seconds, value)| (at(seconds), value)).collect(),
    }
}

/// An object that uses 100 W, read once a second from `from` to `to`: its counter in mJ.
fn steady(name: &str, from: f64, to: f64) -> MeteredObject {
    let count = (to - from) as u32;
    object(name, (0..=count).map(|second| (from + f64::from(second), 5e6 + 100e3 * f64::from(second))).collect())
}

/// Returns the energy in a window from 0 to 30 s.
fn used(metric: &str, objects: Vec<MeteredObject>) -> Result<EnergyUse, EnergyFault> {
    energy(meter(metric).expect("a meter"), (at(0.0), at(30.0)), objects).used
}

#[test]
fn a_counter_s_increase_is_the_energy_from_its_first_change_to_its_last() {
    let found = used(COUNTER, vec![steady("a", 0.0, 30.0)]).expect("energy");
    assert_eq!((found.start, found.end, found.readings), (at(1.0), at(30.0), 30));
    assert!((found.joules - 2900.0).abs() < 1e-6, "{found:?}");
}

#[test]
fn objects_are_added_up_over_the_time_that_all_of_them_cover() {
    let found =
        energy(meter(COUNTER).expect("a meter"), (at(0.0), at(30.0)), vec![steady("a", 0.0, 30.0), steady("b", 0.5, 29.5)]);
    let used = found.used.expect("energy");
    assert_eq!((found.objects.len(), used.start, used.end), (2, at(1.5), at(29.5)));
    assert!((used.joules - 2.0 * 2800.0).abs() < 1e-6, "{used:?}");
    assert_eq!((found.boundary, found.method), (EnergyBoundary::Gpu, EnergyMethod::Counter));
}

/// An exporter that reads its devices every two seconds and is scraped every half second.
#[test]
fn a_repeated_value_is_no_reading() {
    let readings = (0..=60).map(|half| (f64::from(half) / 2.0, 5e6 + 200e3 * f64::from((half + 3) / 4))).collect();
    let found = used(COUNTER, vec![object("a", readings)]).expect("energy");
    assert_eq!((found.start, found.end, found.readings), (at(0.5), at(28.5), 15));
    assert!((found.joules - 2800.0).abs() < 1e-6, "100 W for 28 s: {found:?}");
}

#[test]
fn sampled_power_is_its_mean_times_the_time() {
    let readings = (0..=30).map(|second| (f64::from(second), if second % 2 == 0 { 90.0 } else { 110.0 })).collect();
    let found = energy(meter(POWER).expect("a meter"), (at(0.0), at(30.0)), vec![object("a", readings)]);
    assert_eq!(found.method, EnergyMethod::Approximated);
    let joules = found.used.expect("energy").joules;
    assert!((joules - 30.0 * (16.0 * 90.0 + 15.0 * 110.0) / 31.0).abs() < 1e-6, "{joules}");
    let constant = (0..=30).map(|second| (f64::from(second), 70.0)).collect();
    assert!((used(POWER, vec![object("a", constant)]).expect("energy").joules - 2100.0).abs() < 1e-6);
}

#[test]
fn what_is_missing_gives_no_value() {
    let fell = (0..=30).map(|second| (f64::from(second), 100e3 * f64::from(if second < 20 { second } else { second - 20 })));
    assert_eq!(used(COUNTER, vec![object("a", fell.collect())]), Err(EnergyFault::Reset));
    let gap = (0..=30).filter(|second| !(12..=15).contains(second)).map(|second| (f64::from(second), 100e3 * f64::from(second)));
    assert_eq!(used(COUNTER, vec![object("a", gap.clone().collect())]), Err(EnergyFault::Gap));
    assert_eq!(used(POWER, vec![object("a", gap.collect())]), Err(EnergyFault::Gap));
    assert_eq!(
        used(COUNTER, vec![steady("a", 0.0, 30.0), steady("b", 0.0, 20.0)]),
        Err(EnergyFault::ObjectMissing),
        "it went away"
    );
    assert_eq!(used(COUNTER, vec![steady("a", 10.0, 30.0)]), Err(EnergyFault::ObjectMissing), "it came later");
    assert_eq!(used(COUNTER, Vec::new()), Err(EnergyFault::ObjectMissing));
    let coarse = (0..=3).map(|place| (10.0 * f64::from(place), 1e6 * f64::from(place)));
    assert_eq!(used(COUNTER, vec![object("a", coarse.collect())]), Err(EnergyFault::TooCoarse));
    // Scraped once a second, and read every ten seconds.
    let stale = (0..=30).map(|second| (f64::from(second), 80.0 + f64::from(second / 10)));
    assert_eq!(used(POWER, vec![object("a", stale.collect())]), Err(EnergyFault::TooCoarse));
    let frozen = (0..=30).map(|second| (f64::from(second), 7e6));
    assert_eq!(used(COUNTER, vec![object("a", frozen.collect())]), Err(EnergyFault::TooCoarse), "a counter that never moved");
    assert_eq!(used(COUNTER, vec![steady("a", 0.0, 30.0), steady("a", 0.0, 30.0)]), Err(EnergyFault::Ambiguous));
    assert!(used(COUNTER, vec![steady("a", 0.0, 12.0), steady("a", 13.0, 30.0)]).is_err(), "the second series counts from anew");
}

#[test]
fn a_gpu_that_another_pod_got_goes_on() {
    let all = steady("a", 0.0, 30.0);
    let (before, after) = all.readings.split_at(15);
    let part = |readings: &[(Instant, f64)]| MeteredObject { object: "a".to_owned(), readings: readings.to_vec() };
    let found = used(COUNTER, vec![part(after), part(before)]).expect("energy");
    assert!((found.joules - 2900.0).abs() < 1e-6);
}

proptest::proptest! {
    #[test]
    fn any_readings_have_an_energy_that_is_not_negative_or_none(
        readings in proptest::collection::vec(proptest::collection::vec((0_u32..300, 0_u32..50), 0..40), 0..4),
        metric in proptest::sample::select(vec![COUNTER, POWER]),
    ) {
        let objects = readings.into_iter().enumerate().map(|(number, readings)| {
            object(&number.to_string(), readings.into_iter().map(|(tenths, value)| (f64::from(tenths) / 10.0, f64::from(value))).collect())
        });
        if let Ok(found) = used(metric, objects.collect()) {
            proptest::prop_assert!(found.joules >= 0.0 && found.start < found.end);
        }
    }
}
