use super::*;
use crate::load_recipe_digest;
use assay_dataset::{Fields, FileRow, ImportRules, Row, RowContent, RowTime, RowWriter, TextTokens, TimeRules};
use assay_manifest::{
    Artifact, CaptureMode, Dataset, DatasetFormat, PinnedFile, RunId, ServingApi, SharedPrefix, Tokenizer, TrialId,
};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const SEED: Seed = Seed::new([7; 32]);
pub(super) const NONCE: Nonce = Nonce::new(0x0123_4567_89ab_cdef);
const SECOND: u64 = 1_000_000_000;

pub(super) fn synthetic(input: LengthLaw) -> PromptSource {
    PromptSource::Synthetic { input, query: None, prefix: None }
}

pub(super) fn work() -> ServingWork {
    ServingWork {
        api: ServingApi::Chat,
        custom: None,
        model: "model".to_owned(),
        arrival: ArrivalLaw::Poisson,
        prompts: synthetic(LengthLaw::Normal { mean: 480.0, stddev: 240.0 }),
        sessions: None,
        rate_profile: None,
        max_concurrency: None,
        cancel: None,
        over_saturation: None,
        stop_on_errors: None,
        scenario: None,
        connections: assay_manifest::ConnectionPolicy::Pooled,
        session_header: None,
        adapters: Vec::new(),
        output: Some(LengthLaw::TruncatedUniform { low: 1, high: 300, floor: 2 }),
        text: None,
        token_ids: None,
        images: None,
        image_files: None,
        exact_output: true,
        continuous_usage: false,
        batch: 1,
        body: BTreeMap::new(),
        extra_body: serde_json::Map::new(),
        requests: Some(Count(500)),
        duration_ns: Some(Count(20 * SECOND)),
        warmup_ns: Count(5 * SECOND),
        timeout_ns: Count(60 * SECOND),
        time_limit_ns: Count(600 * SECOND),
        cache: CacheMode::ColdSalt,
        streaming: true,
        capture: CaptureMode::None,
        slos: Vec::new(),
        tokenizer: Tokenizer {
            name: "common-words".to_owned(),
            digest: Digest::compute(b"words"),
            file: None,
            pattern: None,
            template: None,
        },
    }
}

pub(super) fn closed(work: ServingWork) -> ServingWork {
    ServingWork { arrival: ArrivalLaw::Closed, ..work }
}

pub(super) const RATE: OfferedLoad = OfferedLoad::Rate { per_s: 40.0 };
pub(super) const USERS: OfferedLoad = OfferedLoad::Concurrency { users: 8 };

pub(super) fn point() -> PointId {
    PointId::new("rate-40").expect("an id")
}

/// Returns the schedule of trial `trial` of that work under a seed and a nonce.
pub(super) fn schedule_of(
    work: &ServingWork,
    offered: OfferedLoad,
    seed: &Seed,
    trial: u32,
    nonce: Nonce,
) -> Result<TrialSchedule, ScheduleError> {
    let (workload, point) = (Digest::compute(b"workload"), point());
    let key = TrialKey { point: PointKey { seed, workload: &workload, point: &point }, trial, nonce };
    TrialSchedule::new(work, offered, &key, None)
}

pub(super) fn schedule(work: &ServingWork, offered: OfferedLoad) -> TrialSchedule {
    schedule_of(work, offered, &SEED, 3, NONCE).expect("a schedule")
}

fn refused(work: &ServingWork, offered: OfferedLoad) -> ScheduleError {
    schedule_of(work, offered, &SEED, 0, NONCE).expect_err("no schedule")
}

#[test]
fn the_format_is_stable() {
    // Derived from the format's description by `tests/golden.py`, not by this code.
    let poisson = schedule(&work(), RATE);
    let first: Vec<_> = poisson.requests(Phase::Measure).take(3).map(golden_line).collect();
    assert_eq!(first, GOLDEN_POISSON);
    assert_eq!(poisson.digest().hex(), GOLDEN_POISSON_DIGEST);
    assert_eq!(poisson.salt(), Some(GOLDEN_SALT));

    let gamma = |smoothness| schedule(&ServingWork { arrival: ArrivalLaw::Gamma { smoothness }, ..work() }, RATE).digest().hex();
    assert_eq!([gamma(0.5), gamma(4.0)], GOLDEN_GAMMA_DIGESTS);

    let lognormal = LengthLaw::Lognormal { mean: 300.0, stddev: 150.0 };
    let uniform = LengthLaw::Uniform { min: 10, max: 19 };
    let constant = ServingWork { arrival: ArrivalLaw::Constant, prompts: synthetic(lognormal), output: Some(uniform), ..work() };
    assert_eq!(schedule(&constant, OfferedLoad::Rate { per_s: 33.3 }).digest().hex(), GOLDEN_CONSTANT_DIGEST);

    let truncated = LengthLaw::TruncatedNormal { mean: 480.0, stddev: 240.0, floor: 1 };
    let open = closed(ServingWork { prompts: synthetic(truncated), output: None, requests: None, ..work() });
    assert_eq!(schedule(&open, USERS).digest().hex(), GOLDEN_CLOSED_DIGEST);
}

fn golden_line(request: ScheduledRequest) -> String {
    format!(
        "{} {} {} {} {:016x} {:032x}",
        request.global_index,
        request.offset_ns.expect("an offset"),
        request.input_tokens,
        request.output_tokens.expect("a length"),
        request.prompt_seed,
        request.request_id
    )
}

const GOLDEN_POISSON: [&str; 3] = [
    "0 5004600816 828 154 f89a731248b35e59 d036d041608597a6fb031db10d693f80",
    "1 5011217048 550 23 cf7acf53a4532bc1 f8b497cf6f6b2013ebae8cc540dc602b",
    "2 5047524776 293 124 0cafc93a30a97a4f d11f827e5ef2aafbf870e64a3b84f25a",
];
const GOLDEN_POISSON_DIGEST: &str = "0ecd2b61297cc2e834a968945420cc76fdee74313b447dce1a93213d54ba3896";
const GOLDEN_SALT: u64 = 9_276_117_085_292_424_283;
const GOLDEN_GAMMA_DIGESTS: [&str; 2] = [
    "223643e2fe1a479960151743b97bdc87eeb42aa78a3920d70f87c7102d93b906",
    "297b88c0753377d4b2e9e5b041e19cbb743b864cfc2bfa60763b87560aea4202",
];
const GOLDEN_CONSTANT_DIGEST: &str = "56be117b41ddeb47448b6f91aad758a6261b00fdc936869a76fd2910aa90eda4";
const GOLDEN_CLOSED_DIGEST: &str = "a2b5abcd0a1bdf3deccd1bdab977577dc214e874946ae26dbdaebecadaeaff3d";
const GOLDEN_RECIPE_DIGESTS: [&str; 2] = [
    "ffae55c3bcf4f7dd1f74c768e11b39c6a622c8982b5f1e1fb2a19f663e7a22c6",
    "870a1d7dfb8922b6b5dac6bf3dbf30bd8ef835b9caf259c8dccd8ae402bc867b",
];
const GOLDEN_NONCE: &str = "chat.vllm.default.rate-40.t3 2b9edb5211c8c8bb115e72cd7990c289";
const GOLDEN_DOCUMENT_SEEDS: [u64; 3] = [10_451_216_379_200_822_465, 13_757_245_211_066_428_519, 1_730_809_958_814_666_141];

#[test]
fn the_recipe_of_a_load_is_stable() {
    let (workload, point) = (Digest::compute(b"workload"), point());
    let key = PointKey { seed: &SEED, workload: &workload, point: &point };
    let recipe = |work: &ServingWork, offered| load_recipe_digest(work, offered, &key).expect("a digest").hex();
    let open = closed(ServingWork { output: None, requests: None, ..work() });
    assert_eq!([recipe(&work(), RATE), recipe(&open, USERS)], GOLDEN_RECIPE_DIGESTS);
}

#[test]
fn what_does_not_shape_the_load_is_not_in_its_recipe() {
    let (workload, point) = (Digest::compute(b"workload"), point());
    let key = PointKey { seed: &SEED, workload: &workload, point: &point };
    let recipe = |work: &ServingWork| load_recipe_digest(work, RATE, &key).expect("a digest");
    let over_saturation = Some(assay_manifest::OverSaturation { in_flight: Count(9), for_ns: Count(9) });
    let stop_on_errors = Some(assay_manifest::ErrorLimit { count: Some(Count(9)), recent: None });
    let timeout_ns = Count(1);
    let same =
        ServingWork { streaming: false, timeout_ns, capture: CaptureMode::Full, over_saturation, stop_on_errors, ..work() };
    assert_eq!(recipe(&same), recipe(&work()));
    let others = vec![
        ServingWork { arrival: ArrivalLaw::Constant, ..work() },
        ServingWork { prompts: synthetic(LengthLaw::Fixed { tokens: 480 }), ..work() },
        ServingWork { output: None, ..work() },
        ServingWork { batch: 2, ..work() },
        ServingWork { requests: None, ..work() },
        ServingWork { duration_ns: None, ..work() },
        ServingWork { warmup_ns: Count(0), ..work() },
        ServingWork { cache: CacheMode::Warm, ..work() },
        ServingWork { cancel: Some(Cancellation { share: 0.1, after_ns: Count(5) }), ..work() },
        ServingWork { adapters: vec![Adapter { name: "a".to_owned(), weight: 1.0 }], ..work() },
        ServingWork { cancel: Some(Cancellation { share: 0.2, after_ns: Count(5) }), ..work() },
        ServingWork { tokenizer: Tokenizer { digest: Digest::compute(b"other"), ..work().tokenizer }, ..work() },
    ];
    let recipes: BTreeSet<Digest> = others.iter().map(recipe).chain([recipe(&work())]).collect();
    assert_eq!(recipes.len(), others.len() + 1);
}

#[test]
fn the_seed_decides_which_requests_are_cancelled_for_any_number_of_shards() {
    let cancelling = |share, after_ns| ServingWork { cancel: Some(Cancellation { share, after_ns: Count(after_ns) }), ..work() };
    let of = |work: &ServingWork| schedule(work, RATE);
    let whole = of(&cancelling(0.25, 7));
    let all: Vec<_> = whole.requests(Phase::Measure).collect();
    let cancelled = all.iter().filter(|request| request.cancel_after_ns.is_some()).count();
    // 500 draws with probability 1/4: 125 on average, and the standard deviation is 9.7.
    assert!((85..165).contains(&cancelled), "{cancelled} of {}", all.len());
    assert!(all.iter().all(|request| request.cancel_after_ns.is_none_or(|after_ns| after_ns == 7)));
    let mut sharded: Vec<_> =
        (0..3).flat_map(|shard| whole.shard_requests(Phase::Measure, Stripe::new(shard, 3).expect("a shard"))).collect();
    sharded.sort_by_key(|request| request.global_index);
    assert_eq!(sharded, all);
    // What is cancelled changes nothing else, and a larger share cancels the same requests and more.
    let plain: Vec<_> = of(&work()).requests(Phase::Measure).collect();
    let more: Vec<_> = of(&cancelling(0.5, 7)).requests(Phase::Measure).collect();
    for ((request, plain), more) in all.iter().zip(&plain).zip(&more) {
        assert_eq!(ScheduledRequest { cancel_after_ns: None, ..*request }, *plain);
        assert!(request.cancel_after_ns.is_none() || more.cancel_after_ns.is_some());
    }
    assert!(of(&cancelling(1.0, 7)).requests(Phase::WarmUp).all(|request| request.cancel_after_ns.is_some()));
    let digests: BTreeSet<Digest> =
        [work(), cancelling(0.25, 7), cancelling(0.25, 8), cancelling(0.5, 7)].iter().map(|work| of(work).digest()).collect();
    assert_eq!(digests.len(), 4);
    for share in [0.0, 1.5, f64::NAN] {
        assert!(matches!(refused(&cancelling(share, 7), RATE), ScheduleError::Cancellation(_)));
    }
}

#[test]
fn the_seed_deals_requests_to_adapters_for_any_number_of_shards() {
    let adapter = |(name, weight): (&str, f64)| Adapter { name: name.to_owned(), weight };
    let with = |adapters: &[(&str, f64)]| ServingWork { adapters: adapters.iter().copied().map(adapter).collect(), ..work() };
    let of = |work: &ServingWork| schedule(work, RATE);
    let whole = of(&with(&[("sql", 3.0), ("unused", 0.0), ("chat", 1.0)]));
    let all: Vec<_> = whole.requests(Phase::Measure).collect();
    let number = |place| all.iter().filter(|request| request.adapter == Some(place)).count();
    // 500 draws with probability 3/4: 375 on average, and the standard deviation is 9.7.
    assert!((335..415).contains(&number(0)) && number(1) == 0 && number(0) + number(2) == all.len(), "{}", number(0));
    for shards in [3, 4] {
        let of_shard = |shard| whole.shard_requests(Phase::Measure, Stripe::new(shard, shards).expect("a shard"));
        let mut sharded: Vec<_> = (0..shards).flat_map(of_shard).collect();
        sharded.sort_by_key(|request| request.global_index);
        assert_eq!(sharded, all);
    }
    // Nothing else changes, and the digest depends on names and draws alone.
    for (request, plain) in all.iter().zip(of(&work()).requests(Phase::Measure)) {
        assert_eq!(ScheduledRequest { adapter: None, ..*request }, plain);
    }
    let digest = |adapters: &[(&str, f64)]| of(&with(adapters)).digest();
    let digests = [
        digest(&[]),
        digest(&[("sql", 1.0)]),
        digest(&[("chat", 1.0)]),
        digest(&[("chat", 1.0), ("sql", 1.0)]),
        digest(&[("sql", 1.0), ("chat", 1.0)]),
        digest(&[("sql", 9.0), ("chat", 1.0)]),
    ];
    assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), 6);
    assert_eq!(digest(&[]), of(&work()).digest());
    assert_eq!(digest(&[("sql", 2.0), ("chat", 2.0)]), digests[4]);
    for wrong in [&[("a", -1.0)][..], &[("a", f64::NAN)], &[("a", 0.0)], &[("a", 1.0), ("a", 1.0)]] {
        assert!(matches!(refused(&with(wrong), RATE), ScheduleError::Adapters(_)), "{wrong:?}");
    }
    let nameless = ServingWork { api: ServingApi::RerankTei, ..with(&[("a", 1.0)]) };
    assert_eq!(refused(&nameless, RATE), ScheduleError::Adapters("its requests name no model"));
}

#[test]
fn the_nonce_of_an_attempt_is_stable() {
    let case = assay_manifest::CaseId::from_names(&name("chat"), &name("vllm"), &name("default"));
    let trial = TrialId::from_parts(&case, &point(), 3);
    let nonce = |attempt| Nonce::for_attempt(&RunId::new("run-1").expect("an id"), &trial, attempt);
    assert_eq!(format!("{trial} {}", nonce(0)), GOLDEN_NONCE);
    assert_ne!(nonce(0), nonce(1));
}

fn name(text: &str) -> assay_manifest::Name {
    assay_manifest::Name::new(text).expect("a name")
}

#[test]
fn every_document_of_a_request_has_a_seed_of_its_own() {
    let request = schedule(&work(), RATE).request(Phase::Measure, 0).expect("a request");
    assert_eq!(request.document_seed(0), request.prompt_seed);
    let known = ScheduledRequest { prompt_seed: 1, ..request };
    assert_eq!([1, 2, 127].map(|number| known.document_seed(number)), GOLDEN_DOCUMENT_SEEDS);
}

#[test]
fn the_measured_phase_begins_where_the_warm_up_ends() {
    let schedule = schedule(&ServingWork { requests: None, ..work() }, RATE);
    let offsets = |phase| schedule.requests(phase).filter_map(|request| request.offset_ns).collect::<Vec<_>>();
    let (warm_up, measured) = (offsets(Phase::WarmUp), offsets(Phase::Measure));
    assert!(warm_up.iter().all(|offset| (0..5_000_000_000).contains(offset)));
    assert!(measured.iter().all(|offset| (5_000_000_000..25_000_000_000).contains(offset)));
    // 200 and 800 are expected; four standard deviations of a Poisson count are 57 and 113.
    assert!(warm_up.len().abs_diff(200) < 57 && measured.len().abs_diff(800) < 113, "{} {}", warm_up.len(), measured.len());
    // Neither phase continues or copies the other.
    let gap = |offsets: &[i64], begins: i64| offsets[0] - begins;
    assert_ne!(gap(&warm_up, 0), gap(&measured, 5_000_000_000));
}

#[test]
fn equal_gaps_fill_the_phase_exactly() {
    let work = ServingWork { arrival: ArrivalLaw::Constant, requests: None, ..work() };
    let schedule = schedule(&work, RATE);
    assert_eq!((schedule.requests(Phase::WarmUp).count(), schedule.requests(Phase::Measure).count()), (200, 800));
    assert_eq!(schedule.request(Phase::Measure, 0).and_then(|request| request.offset_ns), Some(5_000_000_000));
    assert_eq!(schedule.request(Phase::Measure, 799).and_then(|request| request.offset_ns), Some(24_975_000_000));
    assert_eq!(schedule.request(Phase::Measure, 800), None);
}

#[test]
fn the_first_end_ends_a_trial() {
    let count = |work: ServingWork, offered| schedule(&work, offered).requests(Phase::Measure).count();
    let constant = || ServingWork { arrival: ArrivalLaw::Constant, ..work() };
    assert_eq!(count(constant(), RATE), 500);
    assert_eq!(count(ServingWork { requests: Some(Count(5_000)), ..constant() }, RATE), 800);
    assert_eq!(count(ServingWork { duration_ns: None, ..constant() }, RATE), 500);
    assert_eq!(count(closed(work()), USERS), 500);
}

#[test]
fn a_closed_loop_has_no_intended_times_and_may_go_on() {
    let schedule = schedule(&closed(ServingWork { requests: None, ..work() }), USERS);
    assert_eq!([Phase::WarmUp, Phase::Measure].map(|phase| schedule.has_open_length(phase)), [true, true]);
    assert_eq!((schedule.users(), schedule.phase_end_ns(Phase::Measure)), (Some(8), Some(25 * SECOND)));
    let late = schedule.request(Phase::Measure, 1_000_000).expect("a request");
    assert_eq!((late.global_index, late.offset_ns), (1_000_000, None));
}

#[test]
fn without_warm_up_there_are_no_requests_in_it() {
    let work = ServingWork { warmup_ns: Count(0), ..work() };
    assert_eq!(schedule(&work, RATE).requests(Phase::WarmUp).count(), 0);
    let closed = schedule(&closed(work), USERS);
    assert!(!closed.has_open_length(Phase::WarmUp) && closed.requests(Phase::WarmUp).next().is_none());
}

#[test]
fn the_digest_of_an_open_length_stands_on_its_first_indices() {
    let open = closed(ServingWork { requests: None, warmup_ns: Count(0), ..work() });
    let fixed = |requests| closed(ServingWork { requests: Some(Count(requests)), warmup_ns: Count(0), ..work() });
    assert_eq!(schedule(&open, USERS).digest(), schedule(&fixed(4_096), USERS).digest());
    assert_ne!(schedule(&open, USERS).digest(), schedule(&fixed(4_097), USERS).digest());
}

#[test]
fn trials_and_seeds_differ_and_executions_do_not() {
    let digest = |seed: Seed, trial, nonce| schedule_of(&work(), RATE, &seed, trial, nonce).expect("a schedule").digest();
    let one = digest(SEED, 0, NONCE);
    assert_eq!(one, digest(SEED, 0, Nonce::new(1)));
    assert_ne!(one, digest(SEED, 1, NONCE));
    assert_ne!(one, digest(Seed::new([8; 32]), 0, NONCE));
}

#[test]
fn executions_differ_in_request_ids_and_salt_alone() {
    let with = |nonce| schedule_of(&work(), RATE, &SEED, 0, Nonce::new(nonce)).expect("a schedule");
    let (one, other) = (with(1), with(2));
    assert_ne!(one.salt(), other.salt());
    for (one, other) in one.requests(Phase::Measure).zip(other.requests(Phase::Measure)) {
        assert_ne!(one.request_id, other.request_id);
        assert_eq!(ScheduledRequest { request_id: other.request_id, ..one }, other);
    }
}

#[test]
fn only_a_salted_cache_has_a_salt() {
    for cache in [CacheMode::ColdFlush, CacheMode::Warm, CacheMode::Shared] {
        assert_eq!(schedule(&ServingWork { cache, ..work() }, RATE).salt(), None);
    }
    let salts = |trial| schedule_of(&work(), RATE, &SEED, trial, NONCE).expect("a schedule").salt();
    assert!(salts(0).is_some() && salts(0) != salts(1));
}

#[test]
fn request_ids_do_not_repeat() {
    let schedule = schedule(&work(), RATE);
    let ids: Vec<u128> =
        Phase::ALL.iter().flat_map(|phase| schedule.requests(*phase)).map(|request| request.request_id).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn what_makes_no_schedule_is_refused() {
    let rate = |per_s| OfferedLoad::Rate { per_s };
    assert_eq!(refused(&work(), USERS), ScheduleError::Mismatch { law: "those of an open loop", offered: "concurrency" });
    assert_eq!(refused(&closed(work()), RATE), ScheduleError::Mismatch { law: "those of a closed loop", offered: "rate" });
    assert_eq!(refused(&closed(work()), OfferedLoad::Concurrency { users: 0 }), ScheduleError::NoUsers);
    for bad in [0.0, -1.0, 1e-5, 1e8, f64::INFINITY] {
        assert_eq!(refused(&work(), rate(bad)), ScheduleError::Rate(bad));
    }
    assert!(matches!(refused(&work(), rate(f64::NAN)), ScheduleError::Rate(_)));
    let gamma = |smoothness| ServingWork { arrival: ArrivalLaw::Gamma { smoothness }, ..work() };
    assert_eq!(refused(&gamma(0.0), RATE), ScheduleError::Smoothness(0.0));
    let bounds = LengthLaw::Uniform { min: 2, max: 1 };
    let error = refused(&ServingWork { output: Some(bounds), ..work() }, RATE);
    assert_eq!(error.to_string(), "the output lengths cannot be drawn: its upper bound 1 lies below its lower bound 2");
    assert_eq!(refused(&ServingWork { requests: None, duration_ns: None, ..work() }, RATE), ScheduleError::Endless);
    let month = ServingWork { duration_ns: Some(Count(MAX_TRIAL_NS)), ..work() };
    assert_eq!(refused(&month, RATE), ScheduleError::TooLong);
    let slow = ServingWork { duration_ns: None, requests: Some(Count(1_000)), ..work() };
    assert_eq!(refused(&slow, rate(1e-4)), ScheduleError::TooLong);
    let hour = ServingWork { duration_ns: Some(Count(3600 * SECOND)), requests: None, ..work() };
    assert_eq!(refused(&hour, rate(1e6)), ScheduleError::TooMany { phase: Phase::Measure, requests: 3_600_000_000 });
    let many = closed(ServingWork { requests: Some(Count(MAX_REQUESTS + 1)), ..work() });
    assert_eq!(refused(&many, USERS), ScheduleError::TooMany { phase: Phase::Measure, requests: MAX_REQUESTS + 1 });
}

#[test]
fn a_point_says_what_it_offers() {
    let point = |kind: PointKind, value: &str| Point {
        point_id: point(),
        kind,
        value: BTreeMap::from([(kind.as_str().to_owned(), value.to_owned())]),
        load_recipe_digest: None,
    };
    assert_eq!(OfferedLoad::from_point(&point(PointKind::Rate, "12.5")), Ok(OfferedLoad::Rate { per_s: 12.5 }));
    assert_eq!(OfferedLoad::from_point(&point(PointKind::Concurrency, "8")), Ok(USERS));
    assert_eq!(OfferedLoad::from_point(&point(PointKind::Speed, "0.5")), Ok(OfferedLoad::Replay { speed: 0.5 }));
    for bad in [point(PointKind::Concurrency, "8.5"), point(PointKind::Rate, "fast"), point(PointKind::Scale, "2")] {
        assert!(OfferedLoad::from_point(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn users_are_dealt_like_cards() {
    let shares: Vec<u64> = (0..3).filter_map(|shard| Stripe::new(shard, 3).ok()).map(|stripe| stripe.share(8)).collect();
    assert_eq!(shares, [3, 3, 2]);
    assert_eq!(Stripe::WHOLE.share(8), 8);
    assert_eq!(Stripe::new(5, 7).map(|stripe| stripe.share(3)), Ok(0));
    assert_eq!(Stripe::new(3, 3), Err(ScheduleError::Shard { shard: 3, shards: 3 }));
    assert_eq!(Stripe::new(0, 0), Err(ScheduleError::Shard { shard: 0, shards: 0 }));
}

fn works() -> impl Strategy<Value = (ServingWork, OfferedLoad)> {
    let laws = prop_oneof![
        Just(ArrivalLaw::Closed),
        Just(ArrivalLaw::Constant),
        Just(ArrivalLaw::Poisson),
        (0.05..20.0).prop_map(|smoothness| ArrivalLaw::Gamma { smoothness }),
    ];
    (laws, 0..3_u64, 1..400_u64, prop::option::of(1..4_u64)).prop_map(|(arrival, warm_up, requests, duration)| {
        let duration_ns = duration.map(|seconds| Count(seconds * SECOND));
        let work =
            ServingWork { arrival, warmup_ns: Count(warm_up * SECOND), requests: Some(Count(requests)), duration_ns, ..work() };
        (work, if arrival == ArrivalLaw::Closed { USERS } else { RATE })
    })
}

proptest! {
    #[test]
    fn the_shards_together_are_the_whole((work, offered) in works(), shards in 1..9_u32) {
        let schedule = schedule(&work, offered);
        for phase in Phase::ALL {
            let whole: Vec<ScheduledRequest> = schedule.requests(phase).take(1_000).collect();
            let end = whole.len() as u64;
            let mut together: Vec<ScheduledRequest> = (0..shards)
                .map(|shard| Stripe::new(shard, shards).expect("a shard"))
                .flat_map(|stripe| schedule.shard_requests(phase, stripe).take_while(|request| request.global_index < end).collect::<Vec<_>>())
                .collect();
            together.sort_by_key(|request| request.global_index);
            prop_assert_eq!(together, whole);
        }
    }

    #[test]
    fn an_index_says_what_the_sequence_says((work, offered) in works(), index in 0..300_usize) {
        let schedule = schedule(&work, offered);
        for phase in Phase::ALL {
            prop_assert_eq!(schedule.request(phase, index as u64), schedule.requests(phase).nth(index));
        }
    }

    #[test]
    fn shares_add_up(total in 0..1_000_u64, shards in 1..50_u32) {
        let sum: u64 = (0..shards).filter_map(|shard| Stripe::new(shard, shards).ok()).map(|stripe| stripe.share(total)).sum();
        prop_assert_eq!(sum, total);
    }
}

#[test]
fn a_stripe_knows_its_own_indices() {
    let stripe = Stripe::new(2, 5).expect("a stripe");
    assert_eq!([2, 7, 12].map(|index| stripe.position(index)), [Some(0), Some(1), Some(2)]);
    assert_eq!([0, 1, 3, 8, u64::MAX].map(|index| stripe.position(index)), [None; 5]);
}

#[test]
fn a_shard_without_a_user_has_no_part() {
    let part = |work: &ServingWork, offered, index, count| schedule(work, offered).stripe(Shard { index, count });
    let closed = closed(work());
    let two = OfferedLoad::Concurrency { users: 2 };
    assert_eq!(part(&closed, two, 1, 3), Ok(Stripe::new(1, 2).ok()));
    assert_eq!(part(&closed, two, 2, 3), Ok(None));
    assert_eq!(part(&work(), RATE, 2, 3), Ok(Stripe::new(2, 3).ok()));
    assert_eq!(part(&work(), RATE, 3, 3), Err(ScheduleError::Shard { shard: 3, shards: 3 }));
}

/// A token is a letter.
pub(super) struct Letters;

impl TextTokens for Letters {
    fn count(&self, text: &str) -> Result<u64, String> {
        Ok(text.len() as u64)
    }

    fn truncate<'a>(&self, text: &'a str, _: u32) -> Result<&'a str, String> {
        Ok(text)
    }
}

/// Returns work with a dataset of `rows` rows, and its index. Row `r` has `r + 1` tokens, and every second one a recorded response of 7.
fn dataset_work(rows: u32) -> (ServingWork, Arc<Index>) {
    imported((0..rows).map(|_| None), None)
}

/// Returns work that replays rows at these times, in nanoseconds, and their index.
fn trace_work(times_ns: &[i64]) -> (ServingWork, Arc<Index>) {
    let (work, index) =
        imported(times_ns.iter().map(|at_ns| Some(RowTime { at_ns: *at_ns, session: None })), Some(TimeRules::default()));
    (ServingWork { arrival: ArrivalLaw::Recorded, requests: None, duration_ns: None, ..work }, index)
}

fn imported(times: impl Iterator<Item = Option<RowTime>>, rules: Option<TimeRules>) -> (ServingWork, Arc<Index>) {
    let rules = ImportRules { times: rules, ..ImportRules::UNLIMITED };
    let mut writer = RowWriter::new(rules, &Letters, Vec::new(), Vec::new()).expect("a writer");
    for (row, time) in (0_u32..).zip(times) {
        let content = RowContent::Prompt("x".repeat(row as usize + 1));
        let output_tokens = row.is_multiple_of(2).then_some(7);
        writer.write(u64::from(row) + 1, Ok(FileRow::Request(Row { output_tokens, time, ..Row::new(content) }))).expect("a row");
    }
    finish_import(writer)
}

/// Returns work with a dataset of conversations of 1 to 4 turns: each person's message has 10 tokens, and each response 3.
pub(super) fn conversations(count: u32) -> (ServingWork, Arc<Index>) {
    let rules = ImportRules { sessions: true, ..ImportRules::UNLIMITED };
    let mut writer = RowWriter::new(rules, &Letters, Vec::new(), Vec::new()).expect("a writer");
    let said = |turns: u32| {
        let turn = [json!({"role": "user", "content": "x".repeat(10)}), json!({"role": "assistant", "content": "yyy"})];
        json!({"messages": (0..turns).flat_map(|_| turn.clone()).collect::<Vec<_>>()})
    };
    let lines: Vec<String> = (0..count).map(|number| said(number % 4 + 1).to_string()).collect();
    let text = lines.join("\n");
    assay_dataset::import(DatasetFormat::Jsonl, &Fields::default(), &rules, text.as_bytes(), &mut |row, content| {
        writer.write(row, content)
    })
    .expect("conversations");
    finish_import(writer)
}

pub(super) fn finish_import(writer: RowWriter<'_, Vec<u8>, Vec<u8>>) -> (ServingWork, Arc<Index>) {
    let (rows, index, summary) = writer.finish().expect("rows");
    let artifact = |bytes: &[u8]| Artifact {
        name: "x".to_owned(),
        digest: Digest::compute(bytes),
        size: Count(bytes.len() as u64),
        media_type: "x".to_owned(),
    };
    let file = PinnedFile { path: "a".to_owned(), origin: "a".to_owned(), executable: false, artifact: artifact(b"") };
    let dataset = Dataset {
        file,
        format: DatasetFormat::Jsonl,
        rows: artifact(&rows),
        index: artifact(&index),
        summary,
        max_output_tokens: None,
    };
    let work = ServingWork { prompts: PromptSource::Dataset(Box::new(dataset)), output: None, ..work() };
    (work, Arc::new(Index::parse(&index).expect("an index")))
}

pub(super) fn dataset_schedule(
    work: &ServingWork,
    trial: u32,
    index: Option<&Arc<Index>>,
) -> Result<TrialSchedule, ScheduleError> {
    let (workload, point) = (Digest::compute(b"workload"), point());
    let key = TrialKey { point: PointKey { seed: &SEED, workload: &workload, point: &point }, trial, nonce: NONCE };
    let offered = if work.arrival == ArrivalLaw::Recorded { OfferedLoad::Replay { speed: 1.0 } } else { RATE };
    TrialSchedule::new(work, offered, &key, index)
}

#[test]
fn a_beginning_in_common_is_part_of_the_length_and_of_the_schedule() {
    let prefix = SharedPrefix { system: 1_000, groups: 8, group: 200, zipf: 1.0 };
    let own = LengthLaw::Uniform { min: 10, max: 20 };
    let grouped =
        ServingWork { prompts: PromptSource::Synthetic { input: own.clone(), query: None, prefix: Some(prefix) }, ..work() };
    let requests: Vec<_> = schedule(&grouped, RATE).requests(Phase::Measure).collect();
    assert!(requests.iter().all(|request| (1_210..=1_220).contains(&request.input_tokens)));
    let of_group = |group| requests.iter().filter(|request| request.group == Some(group)).count() as f64;
    // The first of eight has 1 / (1 + 1/2 + ... + 1/8) = 0.368 of all; four standard errors of 500 are 0.086.
    assert!((of_group(0) / requests.len() as f64 - 0.368).abs() < 0.086, "{}", of_group(0));
    assert!(of_group(7) < of_group(0) && requests.iter().all(|request| request.group < Some(8)));
    let plain = ServingWork { prompts: synthetic(own.clone()), ..work() };
    assert_ne!(schedule(&grouped, RATE).digest(), schedule(&plain, RATE).digest());
    let other = SharedPrefix { zipf: 0.0, ..prefix };
    let other =
        ServingWork { prompts: PromptSource::Synthetic { input: own.clone(), query: None, prefix: Some(other) }, ..work() };
    assert_ne!(schedule(&grouped, RATE).digest(), schedule(&other, RATE).digest());
    for bad in [SharedPrefix { groups: 0, ..prefix }, SharedPrefix { zipf: f64::NAN, ..prefix }] {
        let work =
            ServingWork { prompts: PromptSource::Synthetic { input: own.clone(), query: None, prefix: Some(bad) }, ..work() };
        assert_eq!(refused(&work, RATE), ScheduleError::Prefix);
    }
}

/// Returns the schedule of a replay in the work's first trial.
fn replay(work: &ServingWork, index: &Arc<Index>, speed: f64) -> Result<TrialSchedule, ScheduleError> {
    let (workload, point) = (Digest::compute(b"workload"), point());
    let key = TrialKey { point: PointKey { seed: &SEED, workload: &workload, point: &point }, trial: 0, nonce: NONCE };
    let offered = OfferedLoad::Replay { speed };
    TrialSchedule::check(work, offered, &key)?;
    check_replay(work, speed, index)?;
    TrialSchedule::new(work, offered, &key, Some(index))
}

/// Returns row and time of each request of a phase.
fn replayed(schedule: &TrialSchedule, phase: Phase) -> Vec<(u64, i64)> {
    let of = |request: ScheduledRequest| (request.row.expect("a row"), request.offset_ns.expect("a time"));
    schedule.requests(phase).map(of).collect()
}

const SECOND_NS: i64 = SECOND.cast_signed();

#[test]
fn a_trace_is_replayed_once_in_its_order_and_at_its_times() {
    let (work, index) = trace_work(&[7, 7, 1_000_000_007, 12_000_000_007]);
    let work = ServingWork { warmup_ns: Count(0), ..work };
    let schedule = replay(&work, &index, 1.0).expect("a schedule");
    assert_eq!(replayed(&schedule, Phase::WarmUp), []);
    assert_eq!(replayed(&schedule, Phase::Measure), [(0, 0), (1, 0), (2, SECOND_NS), (3, 12 * SECOND_NS)]);
    let faster = replay(&work, &index, 4.0).expect("a schedule");
    assert_eq!(replayed(&faster, Phase::Measure), [(0, 0), (1, 0), (2, SECOND_NS / 4), (3, 3 * SECOND_NS)]);
    assert!(!schedule.has_open_length(Phase::Measure));
    assert_eq!(schedule.phase_end_ns(Phase::Measure), None);
}

#[test]
fn what_is_due_within_the_warm_up_is_not_measured() {
    let (work, index) = trace_work(&[0, 4 * SECOND_NS, 5 * SECOND_NS, 9 * SECOND_NS]);
    let schedule = replay(&work, &index, 1.0).expect("a schedule");
    assert_eq!(replayed(&schedule, Phase::WarmUp), [(0, 0), (1, 4 * SECOND_NS)]);
    assert_eq!(replayed(&schedule, Phase::Measure), [(2, 5 * SECOND_NS), (3, 9 * SECOND_NS)]);
    let indices = |phase| schedule.requests(phase).map(|request| request.global_index).collect::<Vec<_>>();
    assert_eq!([Phase::WarmUp, Phase::Measure].map(indices), [[0, 1], [0, 1]]);
    // At twice the speed the row at 9 s is due at 4.5 s, within the warm-up.
    let error = replay(&work, &index, 2.0).expect_err("nothing is left").to_string();
    insta::assert_snapshot!(error, @"at speed 2 the trace lasts 4.5s, and no request of it is due in the measured phase, from 5.0s on");
    let short = ServingWork { duration_ns: Some(Count(4 * SECOND)), ..work.clone() };
    assert_eq!(replayed(&replay(&short, &index, 1.0).expect("a schedule"), Phase::Measure), [(2, 5 * SECOND_NS)]);
    let few = ServingWork { requests: Some(Count(1)), ..work };
    assert_eq!(replayed(&replay(&few, &index, 1.0).expect("a schedule"), Phase::Measure), [(2, 5 * SECOND_NS)]);
}

#[test]
fn a_replay_that_cannot_be_is_refused_before_it_is_planned() {
    let (work, index) = trace_work(&[0, 700 * SECOND_NS]);
    let error = replay(&work, &index, 1.0).expect_err("the time limit is 600 s").to_string();
    insta::assert_snapshot!(error, @"at speed 1 the last request is due after 700.0s, and `time_limit` is 600.0s");
    assert!(replay(&work, &index, 1.5).is_ok());
    let error = replay(&ServingWork { duration_ns: Some(Count(10 * SECOND)), ..work.clone() }, &index, 1.0)
        .expect_err("a gap")
        .to_string();
    insta::assert_snapshot!(error, @"at speed 1 the trace lasts 700.0s, and no request of it is due in the measured phase, from 5.0s on to 15.0s");
    let many = ServingWork { requests: Some(Count(9)), ..work.clone() };
    assert!(replay(&many, &index, 1.0).is_err(), "a number of requests that is never reached does not end the trial");
    assert_eq!(replay(&work, &index, 0.0).err(), Some(ScheduleError::Speed(0.0)));
    let untimed = ServingWork { arrival: ArrivalLaw::Recorded, ..dataset_work(3).0 };
    assert_eq!(replay(&untimed, &index, 1.0).err(), Some(ScheduleError::NoTimes));
    let drawn = ServingWork { arrival: ArrivalLaw::Poisson, ..work };
    assert_eq!(replay(&drawn, &index, 1.5).err(), Some(ScheduleError::Mismatch { law: "drawn", offered: "speed" }));
}

#[test]
fn the_texts_of_blocks_change_with_a_salt_only() {
    let (work, index) = trace_work(&[0, 1]);
    let (workload, point) = (Digest::compute(b"workload"), point());
    let texts = |cache, trial, nonce| {
        let work = ServingWork { cache, warmup_ns: Count(0), ..work.clone() };
        let key =
            TrialKey { point: PointKey { seed: &SEED, workload: &workload, point: &point }, trial, nonce: Nonce::new(nonce) };
        TrialSchedule::new(&work, OfferedLoad::Replay { speed: 1.0 }, &key, Some(&index)).expect("a schedule").block_texts()
    };
    assert_ne!(texts(CacheMode::ColdSalt, 0, 1), texts(CacheMode::ColdSalt, 0, 2));
    assert_eq!(texts(CacheMode::ColdFlush, 0, 1), texts(CacheMode::ColdFlush, 3, 2));
    let seeds = texts(CacheMode::Shared, 0, 0);
    let distinct: BTreeSet<u64> = (0..100).flat_map(|id| [seeds.block_seed(id), seeds.rest_seed(id)]).collect();
    assert_eq!(distinct.len(), 200);
}

proptest! {
    #[test]
    fn shards_of_a_replay_share_its_rows(times in prop::collection::vec(0..90 * SECOND_NS, 1..60), speed in 0.5..4.0_f64, warm in 0..20_u64) {
        let mut times = times;
        times.sort_unstable();
        let (work, index) = trace_work(&times);
        let Ok(whole) = replay(&ServingWork { warmup_ns: Count(warm * SECOND), ..work }, &index, speed) else { return Ok(()) };
        let (warmup, measured) = (replayed(&whole, Phase::WarmUp), replayed(&whole, Phase::Measure));
        prop_assert_eq!(warmup.len() + measured.len(), times.len());
        prop_assert!(warmup.iter().all(|(_, at)| *at < (warm * SECOND).cast_signed()));
        prop_assert!(measured.iter().all(|(_, at)| *at >= (warm * SECOND).cast_signed()));
        for shards in [1, 3, 4] {
            for (phase, together) in [(Phase::WarmUp, &warmup), (Phase::Measure, &measured)] {
                let stripe = |shard| whole.shard_requests(phase, Stripe::new(shard, shards).expect("a stripe"));
                let mut all: Vec<_> = (0..shards).flat_map(stripe).collect();
                all.sort_by_key(|request| request.global_index);
                let all: Vec<_> = all.into_iter().map(|request| (request.row.expect("a row"), request.offset_ns.expect("a time"))).collect();
                prop_assert_eq!(&all, together);
            }
        }
    }
}

#[test]
fn a_row_is_sent_once_before_any_is_repeated() {
    let (work, index) = dataset_work(800);
    let schedule = dataset_schedule(&work, 0, Some(&index)).expect("a schedule");
    let rows = |phase| schedule.requests(phase).map(|request| request.row.expect("a row")).collect::<Vec<_>>();
    let (warmup, measured) = (rows(Phase::WarmUp), rows(Phase::Measure));
    assert!(warmup.len() + measured.len() <= 800 && warmup.len() > 150 && measured.len() > 400, "{}", warmup.len());
    let distinct: BTreeSet<u64> = warmup.iter().chain(&measured).copied().collect();
    assert_eq!(distinct.len(), warmup.len() + measured.len());
    assert!(!measured.is_sorted(), "the order of the file is not that of the trial");
    for request in schedule.requests(Phase::Measure) {
        let row = request.row.expect("a row");
        let recorded = row.is_multiple_of(2).then_some(7);
        assert_eq!((u64::from(request.input_tokens), request.output_tokens, request.prompt_seed), (row + 1, recorded, row));
    }
    let (work, index) = dataset_work(60);
    let schedule = dataset_schedule(&work, 0, Some(&index)).expect("a schedule");
    let measured: Vec<_> = schedule.requests(Phase::Measure).map(|request| request.row).collect();
    assert_eq!(measured[..60], measured[60..120]);
}

#[test]
fn each_trial_has_an_order_of_its_own_and_shards_share_it() {
    let (work, index) = dataset_work(700);
    let rows = |trial| {
        let schedule = dataset_schedule(&work, trial, Some(&index)).expect("a schedule");
        schedule.requests(Phase::Measure).filter_map(|request| request.row).collect::<Vec<_>>()
    };
    assert_ne!(rows(0)[..100], rows(1)[..100]);
    let schedule = dataset_schedule(&work, 0, Some(&index)).expect("a schedule");
    for shards in [1, 3, 4] {
        let mut all: Vec<_> = (0..shards)
            .flat_map(|shard| schedule.shard_requests(Phase::Measure, Stripe::new(shard, shards).expect("a stripe")))
            .collect();
        all.sort_by_key(|request| request.global_index);
        assert_eq!(all, schedule.requests(Phase::Measure).collect::<Vec<_>>());
    }
}

#[test]
fn a_drawn_length_replaces_a_recorded_one() {
    let (work, index) = dataset_work(700);
    let work = ServingWork { output: Some(LengthLaw::Fixed { tokens: 3 }), ..work };
    let schedule = dataset_schedule(&work, 0, Some(&index)).expect("a schedule");
    assert!(schedule.requests(Phase::Measure).all(|request| request.output_tokens == Some(3)));
}

#[test]
fn a_dataset_needs_its_own_index() {
    let (work, _) = dataset_work(3);
    let (_, other) = dataset_work(4);
    assert_eq!(dataset_schedule(&work, 0, None).err(), Some(ScheduleError::NoIndex));
    assert_eq!(dataset_schedule(&work, 0, Some(&other)).err(), Some(ScheduleError::OtherIndex { found: 4, planned: 3 }));
}

#[test]
fn another_row_is_another_schedule_and_another_recipe() {
    let (workload, point) = (Digest::compute(b"workload"), point());
    let key = PointKey { seed: &SEED, workload: &workload, point: &point };
    let digests = |rows| {
        let (work, index) = dataset_work(rows);
        let schedule = dataset_schedule(&work, 0, Some(&index)).expect("a schedule");
        (schedule.digest(), load_recipe_digest(&work, RATE, &key).expect("a recipe"))
    };
    let (one, other) = (digests(700), digests(701));
    assert!(one.0 != other.0 && one.1 != other.1);
    assert_eq!(one, digests(700));
}
