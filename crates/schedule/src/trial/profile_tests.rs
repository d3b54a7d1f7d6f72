//! Loads whose rate changes during the trial.

use super::tests::{NONCE, RATE, SEED, schedule, schedule_of, work};
use super::*;
use crate::load_recipe_digest;
use assay_manifest::{History, PauseLaw, RateSegment, ReasoningHistory};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// A warm-up of 5 s, and 20 s in which the rate follows a profile.
fn profiled(arrival: ArrivalLaw, profile: RateProfile) -> ServingWork {
    ServingWork { arrival, rate_profile: Some(profile), requests: None, ..work() }
}

fn linear(from_per_s: f64, to_per_s: f64) -> RateProfile {
    RateProfile::Linear { from_per_s, to_per_s }
}

fn offsets(schedule: &TrialSchedule, phase: Phase) -> Vec<u64> {
    schedule.requests(phase).map(|request| request.offset_ns.expect("an open loop").unsigned_abs()).collect()
}

#[test]
fn a_ramp_begins_with_the_measured_phase_and_its_warm_up_has_the_first_rate() {
    let schedule = schedule(&profiled(ArrivalLaw::Constant, linear(10.0, 30.0)), OfferedLoad::Profile);
    let (warmup, measured) = (offsets(&schedule, Phase::WarmUp), offsets(&schedule, Phase::Measure));
    assert_eq!(warmup, (0..50).map(|index| index * SECOND / 10).collect::<Vec<_>>());
    // 10 t + t^2 / 2 over 20 s: 400 arrivals, of which the 150th comes after 10 s and the 200th after sqrt(500) - 10 s.
    assert_eq!((measured.len(), measured[0], measured[150], measured[200]), (400, 5 * SECOND, 15 * SECOND, 17_360_679_775));
    assert!(measured.is_sorted() && measured.last() < Some(&(25 * SECOND)));
    assert!(!schedule.has_open_length(Phase::Measure));
}

#[test]
fn random_gaps_are_stretched_by_the_rate() {
    for law in [ArrivalLaw::Poisson, ArrivalLaw::Gamma { smoothness: 1.0 }] {
        let schedule = schedule(&profiled(law, linear(10.0, 190.0)), OfferedLoad::Profile);
        let measured = offsets(&schedule, Phase::Measure);
        // 10 t + 4.5 t^2: 550 arrivals in the first half, and 1,450 in the second. Four standard deviations are 94 and 152.
        let first = measured.iter().filter(|offset| **offset < 15 * SECOND).count();
        assert!(
            first.abs_diff(550) < 94 && (measured.len() - first).abs_diff(1_450) < 152,
            "{law:?}: {first} of {}",
            measured.len()
        );
    }
}

#[test]
fn a_series_of_one_rate_is_that_rate() {
    let segments = [7, 13].map(|seconds| RateSegment { duration_ns: Count(seconds * SECOND), per_s: 40.0 }).to_vec();
    for law in [ArrivalLaw::Constant, ArrivalLaw::Poisson, ArrivalLaw::Gamma { smoothness: 0.5 }] {
        let series = schedule(&profiled(law, RateProfile::Series { segments: segments.clone() }), OfferedLoad::Profile);
        let plain = schedule(&ServingWork { arrival: law, requests: None, ..work() }, RATE);
        assert_eq!(offsets(&series, Phase::WarmUp), offsets(&plain, Phase::WarmUp));
        let (series, plain) = (offsets(&series, Phase::Measure), offsets(&plain, Phase::Measure));
        assert_eq!(series.len(), plain.len(), "{law:?}");
        // Gaps at a rate of 1 are rounded to a picosecond, as those at 40 are.
        assert!(series.iter().zip(&plain).all(|(one, other)| one.abs_diff(*other) <= 1), "{law:?}");
    }
}

/// Sessions that arrive at a rate.
fn sessions() -> Sessions {
    Sessions {
        turns: Some(LengthLaw::Uniform { min: 1, max: 3 }),
        think_time: PauseLaw::Fixed { ns: Count(0) },
        history: History::Recorded,
        reasoning: ReasoningHistory::Drop,
        count: None,
        play: assay_manifest::SessionPlay::default(),
    }
}

#[test]
fn sessions_arrive_at_the_first_rate_before_the_measured_phase() {
    let work = ServingWork { sessions: Some(sessions()), ..profiled(ArrivalLaw::Constant, linear(10.0, 30.0)) };
    let schedule = schedule(&work, OfferedLoad::Profile);
    let firsts: Vec<u64> =
        schedule.requests(Phase::Measure).filter_map(|request| Some(request.offset_ns?.unsigned_abs())).collect();
    // 50 in the warm-up of 5 s, then as single requests do.
    assert_eq!((firsts.len(), firsts[0], firsts[49], firsts[50], firsts[200]), (450, 0, 4_900_000_000, 5 * SECOND, 15 * SECOND));
}

#[test]
fn a_profile_that_does_not_fit_is_refused() {
    let refused = |work: &ServingWork, offered| schedule_of(work, offered, &SEED, 0, NONCE).expect_err("refused").to_string();
    let ramp = || profiled(ArrivalLaw::Poisson, linear(1.0, 2.0));
    let profile = OfferedLoad::Profile;
    insta::assert_snapshot!(refused(&ServingWork { duration_ns: None, ..ramp() }, profile), @"the rate profile cannot be offered: a rate that changes needs a `duration`, over which it does");
    insta::assert_snapshot!(refused(&ServingWork { requests: Some(Count(5)), ..ramp() }, profile), @"the rate profile cannot be offered: a number of requests or sessions would cut it");
    insta::assert_snapshot!(refused(&ramp(), RATE), @"the rate profile cannot be offered: the point offers another load");
    insta::assert_snapshot!(refused(&ServingWork { rate_profile: None, ..ramp() }, profile), @"the rate profile cannot be offered: the workload has none");
    insta::assert_snapshot!(refused(&ServingWork { arrival: ArrivalLaw::Closed, ..ramp() }, profile), @"the arrivals are those of a closed loop, but the point offers a rate");
    let segments = vec![RateSegment { duration_ns: Count(SECOND), per_s: 1.0 }];
    insta::assert_snapshot!(refused(&profiled(ArrivalLaw::Poisson, RateProfile::Series { segments }), profile), @"the rate profile cannot be offered: its segments have to be as long as the measured phase together, and none may be empty");
    let hour = ServingWork { duration_ns: Some(Count(3600 * SECOND)), ..profiled(ArrivalLaw::Poisson, linear(1e6, 1e5)) };
    assert_eq!(
        schedule_of(&hour, profile, &SEED, 0, NONCE).expect_err("too many"),
        ScheduleError::TooMany { phase: Phase::Measure, requests: 1_980_000_000 }
    );
    let month = ServingWork { duration_ns: Some(Count(MAX_TRIAL_NS)), ..ramp() };
    assert_eq!(schedule_of(&month, profile, &SEED, 0, NONCE).expect_err("too long"), ScheduleError::TooLong);
}

#[test]
fn the_profile_is_in_the_recipe_and_in_the_digest() {
    let (workload, point) = (Digest::compute(b"workload"), PointId::new("rate-40").expect("an id"));
    let key = PointKey { seed: &SEED, workload: &workload, point: &point };
    let digests = |profile| {
        let work = profiled(ArrivalLaw::Poisson, profile);
        let recipe = load_recipe_digest(&work, OfferedLoad::Profile, &key).expect("a recipe");
        (recipe, schedule(&work, OfferedLoad::Profile).digest())
    };
    let (one, other) = (digests(linear(10.0, 30.0)), digests(RateProfile::Exponential { from_per_s: 10.0, to_per_s: 30.0 }));
    assert!(one.0 != other.0 && one.1 != other.1);
    let of = |text: &str| {
        let value = [("rate".to_owned(), text.to_owned())].into();
        OfferedLoad::from_point(&Point { point_id: point.clone(), kind: PointKind::Rate, value, load_recipe_digest: None })
    };
    assert_eq!(of("1..50 linear"), Ok(OfferedLoad::Profile));
    assert_eq!(of("1.5"), Ok(OfferedLoad::Rate { per_s: 1.5 }));
}

fn profiles() -> impl Strategy<Value = RateProfile> {
    let rate = || 0.5_f64..60.0;
    let segments = prop::collection::vec((1_u64..10_000, rate()), 1..6).prop_map(|parts| {
        let total: u64 = parts.iter().map(|(part, _)| part).sum();
        let mut left = 20 * SECOND;
        let mut segments: Vec<RateSegment> = Vec::new();
        for (place, (part, per_s)) in parts.iter().enumerate() {
            let length = if place + 1 == parts.len() { left } else { 20 * SECOND / total * part };
            left -= length;
            segments.push(RateSegment { duration_ns: Count(length), per_s: *per_s });
        }
        RateProfile::Series { segments }
    });
    prop_oneof![
        (rate(), rate()).prop_map(|(from, to)| linear(from, to)),
        (rate(), rate()).prop_map(|(from_per_s, to_per_s)| RateProfile::Exponential { from_per_s, to_per_s }),
        (rate(), rate(), 2_u32..9).prop_map(|(from_per_s, to_per_s, steps)| RateProfile::Steps { from_per_s, to_per_s, steps }),
        segments,
    ]
}

proptest! {
    #[test]
    fn shards_share_the_arrivals_of_a_profile(
        profile in profiles(),
        law in prop_oneof![Just(ArrivalLaw::Constant), Just(ArrivalLaw::Poisson), Just(ArrivalLaw::Gamma { smoothness: 0.5 })],
        has_sessions: bool,
    ) {
        let work = ServingWork { sessions: has_sessions.then(sessions), ..profiled(law, profile) };
        let whole = schedule(&work, OfferedLoad::Profile);
        for phase in Phase::ALL {
            let together: Vec<ScheduledRequest> = whole.requests(phase).collect();
            for shards in [1, 3, 4] {
                let stripe = |shard| whole.shard_requests(phase, Stripe::new(shard, shards).expect("a stripe"));
                let mut all: Vec<ScheduledRequest> = (0..shards).flat_map(stripe).collect();
                all.sort_by_key(|request| request.global_index);
                prop_assert_eq!(&all, &together);
            }
        }
        prop_assert_eq!(whole.digest(), schedule(&work, OfferedLoad::Profile).digest());
    }
}
