use super::*;

use assay_manifest::LoadKind;
use proptest::prelude::*;

/// An endpoint that serves `limit` requests per second, each in `latency_s`, and whose SLOs are met up to `knee` requests per second.
struct Ideal {
    limit: f64,
    latency_s: f64,
    knee: f64,
}

impl Ideal {
    fn observe(&self, load: Load) -> Observation {
        let requests_per_s = match load {
            Load::Concurrency(clients) => (f64::from(clients) / self.latency_s).min(self.limit),
            Load::Rate(rate) => rate.min(self.limit),
        };
        let good_fraction = if requests_per_s <= self.knee { 1.0 } else { 0.5 };
        let mean_latency_s = match load {
            Load::Concurrency(clients) => f64::from(clients) / requests_per_s,
            Load::Rate(_) => self.latency_s,
        };
        Observation {
            load,
            requests: 100,
            error_rate: 0.0,
            requests_per_s,
            mean_latency_s,
            good_fraction: Some(good_fraction),
            over_saturated: false,
        }
    }

    fn search(&self, rule: &Rule) -> (Step, Vec<Observation>) {
        search(rule, |load| self.observe(load))
    }
}

fn search(rule: &Rule, mut observe: impl FnMut(Load) -> Observation) -> (Step, Vec<Observation>) {
    let mut seen = Vec::new();
    loop {
        match next_step(rule, &seen) {
            Step::Observe(loads) => {
                assert!(!loads.is_empty());
                seen.extend(loads.into_iter().map(&mut observe));
            }
            end => return (end, seen),
        }
    }
}

const SERVER: Ideal = Ideal { limit: 100.0, latency_s: 0.1, knee: 42.0 };

#[test]
fn the_highest_rate_is_bracketed_to_the_precision_and_both_ends_are_seen_three_times() {
    let (end, seen) = SERVER.search(&Rule::new(Goal::MaxRate));
    let Step::Found(bracket) = end else { panic!("{end:?}") };
    let (Load::Rate(meets), Load::Rate(short)) = (bracket.meets, bracket.falls_short) else { panic!("{bracket:?}") };
    assert!(meets <= 42.0 && 42.0 < short && short <= meets * 1.05 + 0.1, "{bracket:?}");
    let times = |load: Load| seen.iter().filter(|seen| seen.load == load).count();
    assert_eq!((times(bracket.meets), times(bracket.falls_short)), (3, 3));
    assert!(seen.len() <= 20, "{}", seen.len());
}

#[test]
fn the_most_requests_in_flight_are_found_to_the_request() {
    // 4.2 in flight are 42 requests per second.
    let (end, _) = SERVER.search(&Rule::new(Goal::MaxConcurrency));
    let Step::Found(bracket) = end else { panic!("{end:?}") };
    assert_eq!((bracket.meets, bracket.falls_short), (Load::Concurrency(4), Load::Concurrency(5)));
    assert_eq!(bracket.grid(), [2, 3, 4, 5, 6].map(Load::Concurrency));
}

#[test]
fn a_sweep_ends_where_more_brings_nothing() {
    let (end, _) = SERVER.search(&Rule::new(Goal::Sweep));
    // Ten in flight are 100 requests per second; 32 bring no more than 16.
    assert_eq!(end, Step::Swept(vec![1, 2, 4, 8, 16, 32]));
    let (end, _) = SERVER.search(&Rule { max_concurrency: 6, ..Rule::new(Goal::Sweep) });
    assert_eq!(end, Step::Swept(vec![1, 2, 4, 6]));
}

#[test]
fn what_is_not_there_is_not_found() {
    let never = Ideal { knee: 1.0, ..SERVER };
    assert_eq!(never.search(&Rule::new(Goal::MaxRate)).0, Step::NoneMet(Load::Concurrency(1)));
    assert_eq!(never.search(&Rule::new(Goal::MaxConcurrency)).0, Step::NoneMet(Load::Concurrency(1)));
    let always = Ideal { knee: f64::INFINITY, ..SERVER };
    assert!(matches!(always.search(&Rule::new(Goal::MaxRate)).0, Step::AllMet(Load::Rate(rate)) if rate <= 400.0));
    assert_eq!(always.search(&Rule::new(Goal::MaxConcurrency)).0, Step::AllMet(Load::Concurrency(1_024)));
}

#[test]
fn more_load_is_never_put_on_an_endpoint_that_fails() {
    let failing = |load| Observation { error_rate: if load == Load::Concurrency(8) { 0.2 } else { 0.0 }, ..SERVER.observe(load) };
    let (end, _) = search(&Rule::new(Goal::Sweep), failing);
    assert_eq!(end, Step::Swept(vec![1, 2, 4, 8]));
}

#[test]
fn an_end_that_was_chance_moves_the_bracket() {
    // The first look at rates from 38 up falls short, as it would after a cold start; later ones are true.
    let mut unlucky = 1;
    let (end, _) = search(&Rule::new(Goal::MaxRate), |load| {
        let seen = SERVER.observe(load);
        match load {
            Load::Rate(rate) if (38.0..42.0).contains(&rate) && unlucky > 0 => {
                unlucky -= 1;
                Observation { good_fraction: Some(0.985), ..seen }
            }
            _ => seen,
        }
    });
    let Step::Found(bracket) = end else { panic!("{end:?}") };
    assert!((39.0..44.0).contains(&bracket.crossing), "{bracket:?}");
}

/// Without a second look at eight in flight, the search would end at four times the throughput of eight: at rate 31.
#[test]
fn a_closed_loop_that_fell_short_by_chance_goes_on() {
    let server = Ideal { limit: 500.0, latency_s: 1.0, knee: 420.0 };
    let mut unlucky = 1;
    let (end, seen) = search(&Rule::new(Goal::MaxRate), |load| match load {
        Load::Concurrency(8) if unlucky > 0 => {
            unlucky -= 1;
            Observation { good_fraction: Some(0.9875), ..server.observe(load) }
        }
        _ => server.observe(load),
    });
    let Step::Found(bracket) = end else { panic!("{end:?}") };
    assert!(bracket.meets.amount() <= 420.0 && 420.0 < bracket.falls_short.amount(), "{bracket:?}");
    assert_eq!(seen.iter().filter(|seen| seen.load == Load::Concurrency(8)).count(), 2);
}

#[test]
fn the_end_of_the_closed_loop_has_its_reason() {
    let always = Ideal { knee: f64::INFINITY, ..SERVER };
    let rule = Rule::new(Goal::MaxRate);
    let short = |load| match load {
        Load::Concurrency(8) => Observation { good_fraction: Some(0.9), ..always.observe(load) },
        _ => always.observe(load),
    };
    let (end, seen) = search(&rule, short);
    assert!(matches!(end, Step::AllMet(Load::Rate(_))), "{end:?}");
    assert_eq!(closed_loop_end(&rule, &seen), ClosedLoopEnd::FellShort(Load::Concurrency(8)));
    assert_eq!(seen.iter().filter(|seen| seen.load == Load::Concurrency(8)).count(), 3, "it is confirmed");
    let (_, seen) = always.search(&rule);
    assert_eq!(closed_loop_end(&rule, &seen), ClosedLoopEnd::Saturated([16, 32].map(Load::Concurrency)));
    let narrow = Rule { max_concurrency: 4, ..rule };
    let (_, seen) = always.search(&narrow);
    assert_eq!(closed_loop_end(&narrow, &seen), ClosedLoopEnd::Most);
}

#[test]
fn the_grid_of_the_most_requests_in_flight_of_all_does_not_overflow() {
    let bracket = Bracket { meets: Load::Concurrency(1), falls_short: Load::Concurrency(u32::MAX), crossing: 1.0 };
    assert!(bracket.grid().iter().all(|load| load.amount() >= 1.0));
}

#[test]
fn rates_have_three_digits() {
    let rates = [0.012_345, 1.0, 9.996, 123.456, 98_765.0, 0.0, f64::NAN].map(rounded);
    assert_eq!(rates.map(|rate| rate.to_string()), ["0.0123", "1", "10", "123", "98800", "0", "0"]);
}

#[test]
fn neighbours_of_a_grid_are_near_enough_for_a_number_between_them() {
    let is_near = |grid: &[Load]| {
        grid.windows(2).all(|pair| {
            let [low, high] = [pair[0], pair[1]].map(Load::amount);
            let good = [(low, 1.0), (high, 0.0)];
            let crossings: Vec<_> = crate::crossing(&good, 0.99).into_iter().collect();
            let kind = if matches!(pair[0], Load::Rate(_)) { LoadKind::Rate } else { LoadKind::Concurrency };
            matches!(crate::max_load(&crossings, kind), Some(crate::MaxLoad::Within(_)))
        })
    };
    for meets in 1..2_000_u32 {
        let crossing = f64::from(meets) + 0.4;
        let falls_short = Load::Concurrency(meets + 1 + meets / 20);
        let grid = Bracket { meets: Load::Concurrency(meets), falls_short, crossing }.grid();
        assert!(is_near(&grid), "{grid:?}");
        let [meets, falls_short] = [crossing / 7.0, crossing / 6.0].map(Load::Rate);
        let grid = Bracket { meets, falls_short, crossing: crossing / 6.5 }.grid();
        assert!(is_near(&grid), "{grid:?}");
    }
}

#[test]
fn a_grid_is_around_the_crossing_and_written_as_it_is() {
    let grid = Bracket { meets: Load::Rate(40.0), falls_short: Load::Rate(42.0), crossing: 41.0 }.grid();
    assert_eq!(grid, [23.0, 27.1, 31.6, 36.1, 38.9, 41.0, 43.1, 47.2].map(Load::Rate));
}

fn observation() -> impl Strategy<Value = (f64, f64, f64)> {
    (0.0..=1.0, 0.0..1e9, 0.0..=1.0)
}

proptest! {
    #[test]
    fn every_search_ends_whatever_it_sees(
        goal in prop::sample::select(vec![Goal::MaxRate, Goal::MaxConcurrency, Goal::Sweep]),
        most in 1_u32..100_000,
        values in prop::collection::vec(observation(), 1..80),
    ) {
        let mut values = values.into_iter().cycle();
        let (_, seen) = search(&Rule { max_concurrency: most, ..Rule::new(goal) }, |load| {
            let (good, requests_per_s, error_rate) = values.next().expect("endless");
            Observation { load, requests: 10, error_rate, requests_per_s, mean_latency_s: 1.0, good_fraction: Some(good), over_saturated: false }
        });
        prop_assert!(seen.len() <= MAX_ROUNDS + 4);
        for seen in &seen {
            match seen.load {
                Load::Concurrency(clients) => prop_assert!((1..=most).contains(&clients)),
                Load::Rate(rate) => prop_assert!(rate.is_finite()),
            }
        }
    }

    #[test]
    fn any_knee_is_bracketed(knee in 0.5_f64..90.0, latency_s in 0.01_f64..2.0) {
        let server = Ideal { limit: 100.0, latency_s, knee };
        match server.search(&Rule::new(Goal::MaxRate)).0 {
            Step::Found(bracket) => {
                let (meets, short) = (bracket.meets.amount(), bracket.falls_short.amount());
                prop_assert!(meets <= knee && knee < short, "{:?}", bracket);
                prop_assert!(short <= meets * 1.06, "{:?}", bracket);
            }
            // One request at a time is more than the SLOs allow.
            end => prop_assert!(end == Step::NoneMet(Load::Concurrency(1)) && 1.0 / latency_s > knee, "{:?}", end),
        }
    }
}
