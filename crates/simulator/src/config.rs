//! The configuration of a simulator: its engine, its responses and its limits.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use crate::deployment::{LLAMA_3_1_8B, LLAMA_3_1_70B_TP8};
use crate::draw::{Concern, RequestKey, Seed};
use crate::engine::Stall;
use crate::fault::Fault;
use crate::listen::ListenAddress;
use crate::model::{Batching, BatchingConfig, Latency, Model, PerRequest, StepTime};

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// The context length of Llama 3.1.
pub(crate) const DEFAULT_MODEL_LEN: u32 = 131_072;

/// The complete configuration of a simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The address to listen on; port 0 selects a free one.
    pub listen: ListenAddress,
    /// The name of the only model that it serves.
    pub model: String,
    /// The names of LoRA adapters of the model. They are as fast as the model itself, and each has prompts of its own in the cache.
    pub adapters: Vec<String>,
    /// The seed of every draw.
    pub seed: Seed,
    /// The engine.
    pub engine: EngineConfig,
    /// The lengths of responses whose length the request leaves open.
    pub output: LengthDistribution,
    /// The maximum tokens of a prompt and its response together.
    pub max_model_len: u32,
    /// The share of a chat response that is reasoning, from 0 to 1, rounded down to whole tokens.
    pub reasoning_share: f64,
    /// The field of reasoning text: `reasoning_content` or `reasoning`.
    pub reasoning_field: String,
    /// The dimensions of an embedding.
    pub embedding_dimensions: u32,
    /// Faults to inject; one of them is drawn for each faulty request.
    pub faults: Vec<Fault>,
    /// The share of faulty requests, from 0 to 1.
    pub fault_rate: f64,
    /// Stalls, in nanoseconds since the start.
    pub stalls: Vec<Stall>,
    /// The time after the start for which it reports not ready, in nanoseconds.
    pub ready_after_ns: i64,
    /// The last nanoseconds before an instant, in which it spins instead of sleeping.
    pub spin_ns: i64,
    /// The file that the truth is written to as it becomes known.
    pub truth: Option<PathBuf>,
    /// The limits of the server.
    pub limits: Limits,
}

/// The model of an engine, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineConfig {
    /// Each request has latencies of its own.
    PerRequest(Latency),
    /// All requests share the steps of the engine.
    Batching(BatchingConfig),
}

impl EngineConfig {
    /// Returns an idle engine.
    pub fn model(&self, seed: &Seed) -> Box<dyn Model> {
        match self {
            Self::PerRequest(latency) => Box::new(PerRequest::new(latency.clone(), seed)),
            Self::Batching(batching) => Box::new(Batching::new(batching.clone(), seed)),
        }
    }

    pub(crate) fn has_prefix_cache(&self) -> bool {
        match self {
            Self::PerRequest(latency) => latency.prefix_cache,
            Self::Batching(batching) => batching.prefix_cache,
        }
    }

    pub(crate) fn block_tokens(&self) -> u32 {
        match self {
            Self::PerRequest(latency) => latency.block_tokens,
            Self::Batching(batching) => batching.block_tokens,
        }
    }

    pub(crate) fn kv_blocks(&self) -> u32 {
        match self {
            Self::PerRequest(latency) => latency.kv_blocks,
            Self::Batching(batching) => batching.kv_blocks,
        }
    }

    /// Returns true if running requests may have to make room for others.
    pub(crate) fn preempts(&self) -> bool {
        matches!(self, Self::Batching(_))
    }
}

/// The limits of everything that can grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Concurrent connections; further ones are closed at once.
    pub connections: usize,
    /// Queued requests; further ones get status 429.
    pub waiting: u32,
    /// Bytes of a response that its client has not read yet; beyond it the connection is closed.
    pub backlog_bytes: usize,
    /// Seconds that a connection may be idle while no response is in progress.
    pub idle_s: u32,
    /// Requests whose truth is kept for `GET /truth`.
    pub truth_requests: usize,
    /// Chunks of all of them.
    pub truth_chunks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 32 << 10,
            body_bytes: 16 << 20,
            connections: 100_000,
            waiting: 100_000,
            backlog_bytes: 32 << 20,
            idle_s: 600,
            truth_requests: 200_000,
            truth_chunks: 4_000_000,
        }
    }
}

impl Config {
    /// Returns the name that is served for an adapter, by its place; without one, the model's.
    pub fn name_of(&self, adapter: Option<usize>) -> &str {
        adapter.and_then(|place| self.adapters.get(place)).unwrap_or(&self.model)
    }

    /// Returns the configuration of a profile, with defaults for the rest.
    pub fn from_profile(profile: Profile) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
            model: "assay-simulator".to_owned(),
            adapters: Vec::new(),
            seed: Seed::default(),
            engine: profile.engine(),
            output: LengthDistribution { median_tokens: 128, sigma: 0.6, max_tokens: 2_048 },
            max_model_len: DEFAULT_MODEL_LEN,
            reasoning_share: 0.0,
            reasoning_field: "reasoning_content".to_owned(),
            embedding_dimensions: 384,
            faults: Vec::new(),
            fault_rate: 0.0,
            stalls: Vec::new(),
            ready_after_ns: 0,
            spin_ns: 0,
            truth: None,
            limits: Limits::default(),
        }
    }

    /// Draws the fault of a request, if it is faulty.
    pub(crate) fn draw_fault(&self, key: RequestKey) -> Option<Fault> {
        if self.faults.is_empty() || key.unit(Concern::Fault, 0) >= self.fault_rate {
            return None;
        }
        self.faults.get(key.below(Concern::Fault, 1, self.faults.len() as u32) as usize).copied()
    }
}

/// The lognormal distribution of the length of responses that end by themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthDistribution {
    /// The median.
    pub median_tokens: u32,
    /// The standard deviation of the logarithm.
    pub sigma: f64,
    /// The maximum.
    pub max_tokens: u32,
}

impl LengthDistribution {
    /// Draws the length of one response, at least 1.
    pub fn draw(&self, key: RequestKey) -> u32 {
        let tokens = f64::from(self.median_tokens) * libm::exp(self.sigma * key.normal(Concern::Length, 0));
        (libm::round(tokens) as u32).min(self.max_tokens).max(1)
    }
}

/// A named engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As fast as possible: everything is due at once.
    Instant,
    /// For tests: first token after 5 ms, then one a millisecond; no jitter, no load, no queue.
    Fast,
    /// An 8B model on one H100: 100 ± 20 ms to the first token, 12 ± 2 ms between tokens, twice that when full.
    H100x8b,
    /// The same, with a prefill that takes 30 ms and 250 us a token.
    H100x8bPrefill,
    /// A 70B model on eight H100, tuned for throughput: 200 ± 40 ms, 25 ± 4 ms, three times that when full.
    H100x70b,
    /// For tests: steps of 1 ms, and 10 us more for each of the at most 512 tokens that they compute.
    FastBatching,
    /// Llama 3.1 8B on one H100, by a roofline.
    H100x8bBatching,
    /// Llama 3.1 70B on eight H100, by a roofline.
    H100x70bBatching,
}

/// The error for a name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{name}` is no profile; one of {}", Profile::NAMES.map(|(name, _)| name).join(", "))]
pub struct UnknownProfile {
    name: String,
}

impl Profile {
    /// All profiles by name.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("instant", Self::Instant),
        ("fast", Self::Fast),
        ("h100-8b", Self::H100x8b),
        ("h100-8b-prefill", Self::H100x8bPrefill),
        ("h100-70b-tp8", Self::H100x70b),
        ("fast-batching", Self::FastBatching),
        ("h100-8b-batching", Self::H100x8bBatching),
        ("h100-70b-tp8-batching", Self::H100x70bBatching),
    ];

    /// Returns its engine.
    pub fn engine(self) -> EngineConfig {
        // A lognormal jitter of median m and sigma 0.8 has mean 1.377 m and standard deviation 1.304 m. Below, that gives the
        // stated deviation of the profile and, with the base, its stated mean.
        let server = Latency { ttft_jitter_sigma: 0.8, max_num_seqs: 256, ..Latency::none() };
        EngineConfig::PerRequest(match self {
            Self::Instant => Latency::none(),
            Self::Fast => Latency { ttft_ns: 5 * MS, itl_ns: MS, ..Latency::none() },
            Self::H100x8b => Latency {
                ttft_ns: 78_900_000,
                ttft_jitter_ns: 15_330_000,
                itl_ns: 12 * MS,
                itl_jitter_ns: 2 * MS,
                load_factor: 2.0,
                ..server
            },
            Self::H100x8bPrefill => Latency {
                ttft_ns: 30 * MS,
                prefill_per_token_ns: 250_000,
                ttft_jitter_ns: 2 * MS,
                itl_ns: 12 * MS,
                itl_jitter_ns: 2 * MS,
                load_factor: 2.0,
                ..server
            },
            Self::H100x70b => Latency {
                ttft_ns: 157_800_000,
                ttft_jitter_ns: 30_670_000,
                itl_ns: 25 * MS,
                itl_jitter_ns: 4 * MS,
                load_factor: 3.0,
                ..server
            },
            Self::FastBatching => return EngineConfig::Batching(fast_batching()),
            Self::H100x8bBatching => return EngineConfig::Batching(LLAMA_3_1_8B.batching()),
            Self::H100x70bBatching => return EngineConfig::Batching(LLAMA_3_1_70B_TP8.batching()),
        })
    }
}

fn fast_batching() -> BatchingConfig {
    let token_ns = 10_000.0;
    let step = StepTime {
        base_ns: MS as f64,
        prefill_token_ns: token_ns,
        decode_token_ns: token_ns,
        context_token_ns: 0.0,
        jitter_sigma: 0.0,
    };
    BatchingConfig { step, max_num_batched_tokens: 512, max_num_seqs: 64, kv_blocks: 65_536, ..LLAMA_3_1_8B.batching() }
}

impl std::str::FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, profile)| *profile).ok_or_else(|| UnknownProfile { name: name.chars().take(40).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(request: u32) -> RequestKey {
        RequestKey::from_id(&Seed::default(), &request.to_string())
    }

    #[test]
    fn half_of_the_responses_are_shorter_than_the_median_and_none_longer_than_the_most() {
        let law = LengthDistribution { median_tokens: 100, sigma: 1.0, max_tokens: 300 };
        let lengths: Vec<u32> = (0..4_000).map(|request| law.draw(key(request))).collect();
        let shorter = lengths.iter().filter(|length| **length < 100).count();
        // Four standard errors of a share of one half: 4 x sqrt(4,000) / 2 = 126.
        assert!((1_874..=2_126).contains(&shorter), "{shorter}");
        assert_eq!(lengths.iter().max(), Some(&300));
        assert_eq!(LengthDistribution { median_tokens: 0, sigma: 0.0, max_tokens: 0 }.draw(key(0)), 1);
    }

    #[test]
    fn as_many_requests_meet_a_fault_as_the_rate_says() {
        let faults = vec![Fault::Hang, Fault::Refuse];
        let config = Config { faults, fault_rate: 0.25, ..Config::from_profile(Profile::Instant) };
        let drawn: Vec<Fault> = (0..4_000).filter_map(|request| config.draw_fault(key(request))).collect();
        // Four standard errors: 4 x sqrt(4,000 x 0.25 x 0.75) = 110.
        assert!((890..=1_110).contains(&drawn.len()), "{}", drawn.len());
        assert!(drawn.contains(&Fault::Hang) && drawn.contains(&Fault::Refuse));
        let never = Config { fault_rate: 0.0, ..config.clone() };
        assert!((0..1_000).all(|request| never.draw_fault(key(request)).is_none()));
        let always = Config { fault_rate: 1.0, ..config };
        assert!((0..1_000).all(|request| always.draw_fault(key(request)).is_some()));
    }

    #[test]
    fn a_profile_is_found_by_its_name_alone() {
        assert_eq!("fast".parse(), Ok(Profile::Fast));
        let error = "FAST".parse::<Profile>().expect_err("no such name").to_string();
        assert_eq!(
            error,
            "`FAST` is no profile; one of instant, fast, h100-8b, h100-8b-prefill, h100-70b-tp8, fast-batching, h100-8b-batching, h100-70b-tp8-batching"
        );
    }
}
