//! The recipe of a point's load, known before any of the load is made.

use assay_manifest::{
    Adapter, ArrivalLaw, CacheMode, Cancellation, CanonicalError, Count, Digest, Images, LengthLaw, PointId, PromptSource,
    RateProfile, ServingWork, Sessions, SharedPrefix, SyntheticText, TokenIds, Tokenizer, canonical_json,
};
use serde::Serialize;

use crate::{DIGEST_FORMAT, GENERATOR_FORMAT, OfferedLoad, PointKey};

/// All values that decide the requests of a point's trials. Written as canonical JSON.
#[derive(Serialize)]
struct Recipe<'a> {
    /// The formats that turn the rest into a load.
    generator: &'static str,
    schedule: &'static str,
    seed: String,
    workload_spec_digest: &'a Digest,
    point_id: &'a PointId,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_profile: Option<&'a RateProfile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<f64>,
    arrival: &'a ArrivalLaw,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a LengthLaw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a LengthLaw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a SharedPrefix>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<&'a Sessions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a LengthLaw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<SyntheticText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a TokenIds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    images: Option<&'a Images>,
    /// The images of each request, and the digests of the files that they are drawn from.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_files: Option<(u32, Vec<&'a Digest>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<&'a Cancellation>,
    #[serde(skip_serializing_if = "<[Adapter]>::is_empty")]
    adapters: &'a [Adapter],
    batch: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<Count>,
    warmup_ns: Count,
    cache: CacheMode,
    tokenizer: &'a Digest,
    /// The rows of the dataset; absent if prompts are words of the tokenizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset: Option<&'a Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset_index: Option<&'a Digest>,
}

/// Returns the digest of a point's recipe: versions of the formats, seed, parameters of the load, and the digests of tokenizer
/// and dataset.
///
/// SHA-256 over canonical JSON. A plan carries it, so that a load that was made by other rules can be told from this one.
/// [`TrialSchedule::new`](crate::TrialSchedule::new) decides if a load can be made at all.
pub fn load_recipe_digest(work: &ServingWork, offered: OfferedLoad, key: &PointKey<'_>) -> Result<Digest, CanonicalError> {
    let Tokenizer { digest: tokenizer, .. } = &work.tokenizer;
    let (rate_per_s, concurrency, users, speed) = match offered {
        OfferedLoad::Rate { per_s } => (Some(per_s), None, None, None),
        OfferedLoad::Profile => (None, None, None, None),
        OfferedLoad::Concurrency { users } => (None, Some(Count(users)), None, None),
        OfferedLoad::Users { users, per_s } => (Some(per_s), None, Some(Count(users)), None),
        OfferedLoad::Replay { speed } => (None, None, None, Some(speed)),
    };
    let (input, query, prefix, dataset) = match &work.prompts {
        PromptSource::Synthetic { input, query, prefix } => (Some(input), query.as_ref(), prefix.as_ref(), None),
        PromptSource::Dataset(dataset) => (None, None, None, Some(dataset)),
    };
    let recipe = Recipe {
        generator: GENERATOR_FORMAT,
        schedule: DIGEST_FORMAT,
        seed: key.seed.to_string(),
        workload_spec_digest: key.workload,
        point_id: key.point,
        rate_per_s,
        rate_profile: work.rate_profile.as_ref(),
        concurrency,
        users,
        speed,
        arrival: &work.arrival,
        input,
        query,
        prefix,
        sessions: work.sessions.as_ref(),
        output: work.output.as_ref(),
        text: work.text,
        token_ids: work.token_ids.as_ref(),
        images: work.images.as_ref(),
        image_files: work
            .image_files
            .as_ref()
            .map(|images| (images.count, images.files.iter().map(|file| &file.artifact.digest).collect())),
        cancel: work.cancel.as_ref(),
        adapters: &work.adapters,
        batch: work.batch,
        requests: work.requests,
        duration_ns: work.duration_ns,
        warmup_ns: work.warmup_ns,
        cache: work.cache,
        tokenizer,
        dataset: dataset.map(|dataset| &dataset.rows.digest),
        dataset_index: dataset.map(|dataset| &dataset.index.digest),
    };
    Ok(Digest::compute(&canonical_json(&recipe)?))
}
