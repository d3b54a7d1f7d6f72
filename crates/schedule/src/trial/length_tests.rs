use super::tests::{RATE, schedule, synthetic, work};
use super::*;
use assay_manifest::{Artifact, ImageFiles, ImageFormat, PinnedFile, TokenIds, WeightedTokens};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn side(values: &[(u32, f64)]) -> LengthLaw {
    let value = |(tokens, weight): &(u32, f64)| WeightedTokens { tokens: *tokens, weight: *weight };
    LengthLaw::Paired { values: values.iter().map(value).collect() }
}

/// Returns work whose requests have these pairs of input and output, by weight.
fn paired(pairs: &[(u32, u32, f64)]) -> ServingWork {
    let of = |take: fn(&(u32, u32, f64)) -> (u32, f64)| side(&pairs.iter().map(take).collect::<Vec<_>>());
    ServingWork { prompts: synthetic(of(|pair| (pair.0, pair.2))), output: Some(of(|pair| (pair.1, pair.2))), ..work() }
}

/// Returns work whose prompts have the lengths of a histogram.
fn binned() -> ServingWork {
    let law = LengthLaw::Histogram { edges: vec![1, 256, 1_024, 4_096], weights: vec![70.0, 25.0, 5.0] };
    ServingWork { prompts: synthetic(law), ..work() }
}

fn refusal(work: &ServingWork) -> String {
    let key = TrialKey {
        point: PointKey {
            seed: &super::tests::SEED,
            workload: &Digest::compute(b"w"),
            point: &PointId::new("p").expect("an id"),
        },
        trial: 0,
        nonce: super::tests::NONCE,
    };
    TrialSchedule::check(work, RATE, &key).expect_err("refused").to_string()
}

#[test]
fn the_format_of_weights_is_stable() {
    // Derived from the format's description by `tests/golden.py`, not by this code.
    let pairs = paired(&[(256, 128, 60.0), (512, 256, 30.0), (4_096, 64, 10.0)]);
    let first = schedule(&pairs, RATE).requests(Phase::Measure).take(6);
    let first: Vec<_> = first.map(|request| (request.input_tokens, request.output_tokens.expect("a length"))).collect();
    assert_eq!(first, [(256, 128), (512, 256), (256, 128), (256, 128), (4_096, 64), (256, 128)]);
    let first: Vec<_> = schedule(&binned(), RATE).requests(Phase::Measure).take(6).map(|request| request.input_tokens).collect();
    assert_eq!(first, [728, 114, 202, 9, 60, 180]);
}

#[test]
fn only_pairs_of_the_list_are_sent() {
    let pairs = paired(&[(10, 20, 1.0), (30, 40, 1.0), (10, 60, 0.0)]);
    for request in schedule(&pairs, RATE).requests(Phase::WarmUp) {
        let pair = (request.input_tokens, request.output_tokens);
        assert!([(10, Some(20)), (30, Some(40))].contains(&pair), "{pair:?}");
    }
}

#[test]
fn sides_that_are_no_pairs_are_refused() {
    let one = ServingWork { output: Some(LengthLaw::Fixed { tokens: 1 }), ..paired(&[(1, 1, 1.0)]) };
    assert_eq!(refusal(&one), "the paired lengths cannot be drawn: only one side is of pairs");
    let other = ServingWork { output: Some(side(&[(1, 2.0)])), ..paired(&[(1, 1, 1.0)]) };
    assert_eq!(refusal(&other), "the paired lengths cannot be drawn: the sides of its pairs have different weights");
    assert_eq!(refusal(&paired(&[(1, 1, 0.0)])), "the input lengths cannot be drawn: its weights have no sum above 0");
}

#[test]
fn images_are_part_of_the_schedule_and_of_the_recipe() {
    let images = Images { width: 512, height: 256, count: 2, format: ImageFormat::Jpeg };
    let with = |images| ServingWork { images, ..work() };
    let digest = |images| schedule(&with(images), RATE).digest();
    let all = [None, Some(images), Some(Images { count: 1, ..images }), Some(Images { format: ImageFormat::Png, ..images })];
    for (place, one) in all.iter().enumerate() {
        assert!(all[..place].iter().all(|other| digest(*other) != digest(*one)), "{one:?}");
    }
    let point = PointId::new("rate-40").expect("an id");
    let key = PointKey { seed: &super::tests::SEED, workload: &Digest::compute(b"w"), point: &point };
    let recipe = |images| crate::load_recipe_digest(&with(images), RATE, &key).expect("a recipe");
    assert_ne!(recipe(None), recipe(Some(images)));
    let natural = ServingWork { text: Some(assay_manifest::SyntheticText::Natural), ..work() };
    assert_ne!(recipe(None), crate::load_recipe_digest(&natural, RATE, &key).expect("a recipe"));
    assert_eq!(
        refusal(&with(Some(Images { width: 0, ..images }))),
        "the images cannot be sent: images of 0 x 256 pixels: each side has 1 to 8192 pixels"
    );
    let embeddings = ServingWork { api: assay_manifest::ServingApi::Embeddings, ..with(Some(images)) };
    assert_eq!(refusal(&embeddings), "the images cannot be sent: requests of the API `embeddings` have none");
}

#[test]
fn token_ids_are_part_of_the_recipe_and_need_an_api_and_enough_of_them() {
    let with = |token_ids| ServingWork { api: assay_manifest::ServingApi::Completions, token_ids, ..work() };
    let range = |least, most| Some(TokenIds::Range { least, most });
    let point = PointId::new("rate-40").expect("an id");
    let key = PointKey { seed: &super::tests::SEED, workload: &Digest::compute(b"w"), point: &point };
    let recipe = |ids| crate::load_recipe_digest(&with(ids), RATE, &key).expect("a recipe");
    let all: BTreeSet<_> = [None, Some(TokenIds::Tokenizer), range(0, 99), range(0, 100)].map(recipe).into();
    assert_eq!(all.len(), 4);
    let digest = |ids| schedule(&with(ids), RATE).digest();
    assert_eq!(digest(None), digest(range(0, 99)), "lengths and times are the same");
    assert_eq!(refusal(&with(range(1, 63))), "prompts cannot be sent as token ids: 63 ids are fewer than 64");
    let chat = ServingWork { api: assay_manifest::ServingApi::Chat, ..with(range(0, 99)) };
    assert_eq!(refusal(&chat), "prompts cannot be sent as token ids: the API `chat` takes none");
}

fn image_files(count: u32, contents: &[&[u8]]) -> ImageFiles {
    let file = |bytes: &&[u8]| {
        let artifact = Artifact {
            name: "x".to_owned(),
            digest: Digest::compute(bytes),
            size: Count(bytes.len() as u64),
            media_type: "application/octet-stream".to_owned(),
        };
        PinnedFile { path: "x.png".to_owned(), origin: "x.png".to_owned(), executable: false, artifact }
    };
    ImageFiles { files: contents.iter().map(file).collect(), count }
}

#[test]
fn image_files_are_part_of_the_schedule_and_of_the_recipe() {
    let with = |files| ServingWork { image_files: files, ..work() };
    let point = PointId::new("rate-40").expect("an id");
    let key = PointKey { seed: &super::tests::SEED, workload: &Digest::compute(b"w"), point: &point };
    let all = [
        None,
        Some(image_files(1, &[b"a"])),
        Some(image_files(2, &[b"a"])),
        Some(image_files(1, &[b"a", b"b"])),
        Some(image_files(1, &[b"b", b"a"])),
    ];
    let digests: BTreeSet<_> = all.iter().map(|files| schedule(&with(files.clone()), RATE).digest()).collect();
    let recipe = |files: &Option<ImageFiles>| crate::load_recipe_digest(&with(files.clone()), RATE, &key).expect("a recipe");
    assert_eq!((digests.len(), all.iter().map(recipe).collect::<BTreeSet<_>>().len()), (5, 5));
    assert_eq!(refusal(&with(Some(image_files(1, &[])))), "the images cannot be sent: 0 image files: there are 1 to 500");
    assert_eq!(refusal(&with(Some(image_files(101, &[b"a"])))), "the images cannot be sent: 101 images: a request has 1 to 100");
    let images = Some(Images { width: 8, height: 8, count: 1, format: ImageFormat::Png });
    let both = ServingWork { images, ..with(Some(image_files(1, &[b"a"]))) };
    assert_eq!(refusal(&both), "the images cannot be sent: they are either synthetic or files");
}

#[test]
fn a_file_is_drawn_by_the_seed_of_its_image() {
    let request = schedule(&work(), RATE).requests(Phase::Measure).next().expect("a request");
    // Of the golden image seeds below under 0, the high halves are 0x46093cf9 and 0xe7ff814e: of 10 files 2 and 9, as 0.27 and 0.91 of them.
    let request = ScheduledRequest { prompt_seed: 0, ..request };
    assert_eq!([0, 1].map(|number| request.image_file(number, 10)), [2, 9]);
    assert_eq!((0..200).map(|number| request.image_file(number, 10)).collect::<BTreeSet<_>>(), (0..10).collect());
    assert_eq!(request.image_file(0, 1), 0);
}

#[test]
fn every_image_of_every_execution_has_a_seed_of_its_own() {
    let request = schedule(&work(), RATE).requests(Phase::Measure).next().expect("a request");
    let of = |salt| (0..50).map(|number| request.image_seed(number, salt)).collect::<BTreeSet<_>>();
    let documents: BTreeSet<_> = (0..50).map(|number| request.document_seed(number)).collect();
    let all: Vec<_> = [of(None), of(Some(1)), of(Some(2)), documents].into_iter().flatten().collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (200, 200));
    // Outputs 2^32 + 1 and 2^32 + 2 of SplitMix64 under 0, by `tests/golden.py`.
    let request = ScheduledRequest { prompt_seed: 5, ..request };
    assert_eq!([0, 1].map(|number| request.image_seed(number, Some(5))), GOLDEN_IMAGE_SEEDS);
}

const GOLDEN_IMAGE_SEEDS: [u64; 2] = [5_046_631_899_840_037_604, 16_717_222_514_326_610_955];

proptest! {
    #[test]
    fn shards_draw_the_same_tables(
        pairs in prop::collection::vec((1..9_000_u32, 1..9_000_u32, 1e-3..1e3_f64), 1..12),
        shards in prop::sample::select(vec![1_u32, 3, 4]),
    ) {
        for work in [paired(&pairs), binned()] {
            let schedule = schedule(&work, RATE);
            let whole: Vec<ScheduledRequest> = schedule.requests(Phase::Measure).collect();
            let stripe = |shard| schedule.shard_requests(Phase::Measure, Stripe::new(shard, shards).expect("a stripe"));
            let mut together: Vec<ScheduledRequest> = (0..shards).flat_map(stripe).collect();
            together.sort_by_key(|request| request.global_index);
            prop_assert_eq!(&together, &whole);
            prop_assert_eq!(schedule.digest(), super::tests::schedule(&work, RATE).digest());
        }
    }
}
