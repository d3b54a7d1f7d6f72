//! The settings, as flags and as a configuration file. A flag overrides the file, the file overrides the profile.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::config::{Config, DEFAULT_MODEL_LEN, EngineConfig, Profile, UnknownProfile};
use crate::draw::SeedError;
use crate::engine::{MAX_STALLS, Stall};
use crate::fault::FaultError;
use crate::listen::ListenAddress;
use crate::model::{BatchingConfig, CoTenant, Latency};

/// The most bytes of a file of settings that are read.
const MAX_BYTES: u64 = 16 << 20;

/// The maximum of every delay: an hour.
const MAX_DELAY_MS: f64 = 3_600_000.0;

/// The maximum length of prompts and responses, for any setting.
const MAX_TOKENS: u32 = 16_000_000;

/// Declares the settings once: their flags, their keys in the file, and the precedence of the first source.
macro_rules! settings {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)+) => {
        /// The settings, by flag and by file; a key of the file is the flag's name with `_` for `-`. Absent settings come from
        /// the profile.
        #[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $($(#[$meta])* pub $name: Option<$type>,)+
        }

        impl Settings {
            /// Returns their names as options, without the leading hyphens.
            pub fn options() -> Vec<String> {
                let command = <Self as clap::Args>::augment_args(clap::Command::new(""));
                command.get_arguments().filter_map(|option| option.get_long().map(str::to_owned)).collect()
            }

            /// Returns these settings, with the others for those that are absent.
            #[must_use]
            pub fn or(self, others: Self) -> Self {
                Self { $($name: self.$name.or(others.$name),)+ }
            }
        }
    };
}

settings! {
    /// Address to listen on; port 0 selects a free port, and unix:PATH is a Unix socket [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS")]
    listen: ListenAddress,
    /// Profile of the engine: instant, fast, h100-8b, h100-8b-prefill, h100-70b-tp8, in which each request has latencies of its own;
    /// fast-batching, h100-8b-batching, h100-70b-tp8-batching, in which all requests share the steps of a batch [default: instant]
    #[arg(long, value_name = "NAME")]
    profile: String,
    /// Name of the served model [default: assay-simulator]
    #[arg(long, value_name = "NAME")]
    model: String,
    /// Names of LoRA adapters of the model that are served too, with commas between them
    #[arg(long, value_name = "NAME,..")]
    adapters: String,
    /// Seed of every draw: 1 to 64 hexadecimal digits [default: 0]
    #[arg(long, value_name = "HEX")]
    seed: String,
    /// Text to mix into the seed, such as the name of a trial: each text gives another seed
    #[arg(long, value_name = "TEXT")]
    seed_from: String,
    /// Time to first token of an idle engine
    #[arg(long, value_name = "MS", help_heading = "Latency")]
    ttft_ms: f64,
    /// Time added to the TTFT for every prompt token that is not cached
    #[arg(long, value_name = "US", help_heading = "Latency")]
    prefill_per_token_us: f64,
    /// Median of the lognormal jitter that is added to the TTFT
    #[arg(long, value_name = "MS", help_heading = "Latency")]
    ttft_jitter_ms: f64,
    /// Sigma of the TTFT jitter
    #[arg(long, value_name = "SIGMA", help_heading = "Latency")]
    ttft_jitter_sigma: f64,
    /// Time between tokens of an idle engine
    #[arg(long, value_name = "MS", help_heading = "Latency")]
    itl_ms: f64,
    /// Standard deviation of the jitter of the time between tokens
    #[arg(long, value_name = "MS", help_heading = "Latency")]
    itl_jitter_ms: f64,
    /// Factor of both times in a full engine; at least 1
    #[arg(long, value_name = "FACTOR", help_heading = "Latency")]
    load_factor: f64,
    /// Maximum running requests; others wait
    #[arg(long, value_name = "N", help_heading = "Engine")]
    max_num_seqs: u32,
    /// Tokens of the first chunk
    #[arg(long, value_name = "N", help_heading = "Latency")]
    first_chunk_tokens: u32,
    /// Tokens of each later chunk
    #[arg(long, value_name = "N", help_heading = "Latency")]
    tokens_per_chunk: u32,
    /// Vary later chunks from 1 to 2N - 1 tokens instead
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Latency")]
    vary_chunks: bool,
    /// Cache prefixes of prompts
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Engine")]
    prefix_cache: bool,
    /// Tokens per block of the KV cache
    #[arg(long, value_name = "N", help_heading = "Engine")]
    block_tokens: u32,
    /// Blocks of the KV cache: those of cached prefixes and, with batching, as many of running requests
    #[arg(long, value_name = "N", help_heading = "Engine")]
    kv_blocks: u32,
    /// Time of a step by itself, such as for reading the weights
    #[arg(long, value_name = "MS", help_heading = "Batching")]
    step_base_ms: f64,
    /// Time added to a step for every token of a prompt that it computes
    #[arg(long, value_name = "US", help_heading = "Batching")]
    step_prefill_us: f64,
    /// Time added to a step for every sequence that decodes, and for every draft
    #[arg(long, value_name = "US", help_heading = "Batching")]
    step_decode_us: f64,
    /// Time added to a step for every token of context that it reads
    #[arg(long, value_name = "US", help_heading = "Batching")]
    step_context_us: f64,
    /// Sigma of the lognormal factor of a step, whose median is 1
    #[arg(long, value_name = "SIGMA", help_heading = "Batching")]
    step_jitter_sigma: f64,
    /// Maximum tokens that a step computes
    #[arg(long, value_name = "N", help_heading = "Batching")]
    max_num_batched_tokens: u32,
    /// Compute prompts in chunks, with what sequences that decode leave of a step
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Batching")]
    chunked_prefill: bool,
    /// Drafts of speculative decoding that each step verifies for a sequence
    #[arg(long, value_name = "N", help_heading = "Batching")]
    speculative_tokens: u32,
    /// Probability that a draft is accepted if those before it are
    #[arg(long, value_name = "P", help_heading = "Batching")]
    speculative_acceptance: f64,
    /// Factor of all times of slow requests, or of all steps; at least 1 [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = "Slowness")]
    slow_factor: f64,
    /// Share of slow requests, from 0 to 1: a small share slows only the tail [default: 1]
    #[arg(long, value_name = "SHARE", help_heading = "Slowness")]
    slow_share: f64,
    /// Factor of all times while a co-tenant uses a part of the machine; at least 1 [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = "Slowness")]
    cotenant_factor: f64,
    /// Share of episodes with the co-tenant, from 0 to 1, drawn by the seed [default: 0.5]
    #[arg(long, value_name = "SHARE", help_heading = "Slowness")]
    cotenant_share: f64,
    /// Length of an episode; the first begins at the endpoint's start [default: 10000]
    #[arg(long, value_name = "MS", help_heading = "Slowness")]
    cotenant_episode_ms: f64,
    /// Median length of responses that end by themselves [default: 128]
    #[arg(long, value_name = "TOKENS", help_heading = "Responses")]
    output_median: u32,
    /// Sigma of their lognormal distribution [default: 0.6]
    #[arg(long, value_name = "SIGMA", help_heading = "Responses")]
    output_sigma: f64,
    /// Their maximum length [default: 2048]
    #[arg(long, value_name = "TOKENS", help_heading = "Responses")]
    output_max: u32,
    /// Maximum tokens of a prompt and its response together [default: 131072, or what fits into the cache of a batch]
    #[arg(long, value_name = "TOKENS", help_heading = "Responses")]
    max_model_len: u32,
    /// Share of a chat response that is reasoning, from 0 to 1 [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = "Responses")]
    reasoning_share: f64,
    /// Field of reasoning text: reasoning_content or reasoning [default: reasoning_content]
    #[arg(long, value_name = "NAME", help_heading = "Responses")]
    reasoning_field: String,
    /// Dimensions of an embedding [default: 384]
    #[arg(long, value_name = "N", help_heading = "Responses")]
    embedding_dimensions: u32,
    /// Fault to inject, as in the header `x-assay-fault`; repeatable
    #[arg(long = "fault", value_name = "FAULT", help_heading = "Faults")]
    #[serde(rename = "fault")]
    faults: Vec<String>,
    /// Share of faulty requests, from 0 to 1 [default: 1 if there are faults]
    #[arg(long, value_name = "SHARE", help_heading = "Faults")]
    fault_rate: f64,
    /// Stall of the whole endpoint: time after its start, and duration; repeatable
    #[arg(long = "stall", value_name = "AT_MS:FOR_MS", help_heading = "Faults")]
    #[serde(rename = "stall")]
    stalls: Vec<String>,
    /// Time after the start in which it is not ready (status 503) [default: 0]
    #[arg(long, value_name = "MS", help_heading = "Faults")]
    ready_after_ms: f64,
    /// File to write the truth about every request to, one JSON document per line
    #[arg(long, value_name = "FILE", help_heading = "Truth")]
    truth: PathBuf,
    /// Maximum requests whose truth is kept for `GET /truth` [default: 200000]
    #[arg(long, value_name = "N", help_heading = "Truth")]
    truth_requests: u32,
    /// Maximum chunks of all of them [default: 4000000]
    #[arg(long, value_name = "N", help_heading = "Truth")]
    truth_chunks: u32,
    /// Time before a chunk in which it spins instead of sleeping [default: 0]
    #[arg(long, value_name = "US", help_heading = "Truth")]
    spin_us: f64,
    /// Maximum bytes of a request's body [default: 16777216]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    max_body: u32,
    /// Maximum bytes of a request's head [default: 32768]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    max_head: u32,
    /// Maximum concurrent connections; others are closed at once [default: 100000]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_connections: u32,
    /// Maximum queued requests, at least 1; others get status 429 [default: 100000]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_waiting: u32,
    /// Idle timeout of a connection between responses, in seconds [default: 600]
    #[arg(long, value_name = "S", help_heading = "Limits")]
    idle_s: u32,
}

/// An invalid setting.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the configuration file `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a valid configuration.
    #[error("`{}` is no configuration of a simulator", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The position and the cause.
        source: serde_json::Error,
    },
    /// A value is out of range.
    #[error("`{name}` is {value}, and has to be {range}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The allowed range.
        range: String,
    },
    /// The engine of the profile has nothing that the setting would change.
    #[error("`{name}` has no effect with the profile `{profile}`, {engine}")]
    WithoutEffect {
        /// The setting.
        name: &'static str,
        /// The profile.
        profile: String,
        /// The kind of its engine.
        engine: &'static str,
    },
    /// The profile does not exist.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    /// The seed is invalid.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The fault is invalid.
    #[error(transparent)]
    Fault(#[from] FaultError),
}

impl Settings {
    /// Reads the settings of a JSON file, of which at most 16 MiB are read. Devices and pipes are refused: they may have no end.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let read = || {
            if !std::fs::metadata(path)?.is_file() {
                return Err(std::io::Error::other("it is not a plain file"));
            }
            let mut text = Vec::new();
            std::fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
            Ok(text)
        };
        let text: Vec<u8> = read().map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
        serde_json::from_slice(&text).map_err(|source| SettingsError::Malformed { path: path.to_owned(), source })
    }

    /// Applies these settings to their profile.
    pub fn config(self) -> Result<Config, SettingsError> {
        let profile = self.profile.as_deref().unwrap_or("instant");
        let mut config = Config::from_profile(profile.parse::<Profile>()?);
        self.refuse_without_effect(profile, &config.engine)?;
        match &mut config.engine {
            EngineConfig::PerRequest(latency) => self.set_latency(latency)?,
            EngineConfig::Batching(batching) => self.set_batching(batching)?,
        }
        self.set_responses(&mut config)?;
        self.set_faults(&mut config)?;
        self.set_limits(&mut config)?;
        set(&mut config.listen, self.listen);
        set(&mut config.model, self.model);
        if let Some(names) = self.adapters {
            config.adapters = parse_adapters(&names)?;
        }
        if let Some(seed) = self.seed {
            config.seed = seed.parse()?;
        }
        if let Some(text) = self.seed_from {
            config.seed = config.seed.mixed_with(&text);
        }
        config.truth = self.truth;
        Ok(config)
    }

    fn set_latency(&self, latency: &mut Latency) -> Result<(), SettingsError> {
        refuse_alone("slow_share", self.slow_share, "slow_factor", self.slow_factor)?;
        set(&mut latency.ttft_ns, delay_ms("ttft_ms", self.ttft_ms)?);
        set(&mut latency.prefill_per_token_ns, delay_us("prefill_per_token_us", self.prefill_per_token_us)?);
        set(&mut latency.ttft_jitter_ns, delay_ms("ttft_jitter_ms", self.ttft_jitter_ms)?);
        set(&mut latency.ttft_jitter_sigma, within("ttft_jitter_sigma", self.ttft_jitter_sigma, 0.0, 5.0)?);
        set(&mut latency.itl_ns, delay_ms("itl_ms", self.itl_ms)?);
        set(&mut latency.itl_jitter_ns, delay_ms("itl_jitter_ms", self.itl_jitter_ms)?);
        set(&mut latency.load_factor, within("load_factor", self.load_factor, 1.0, 1_000.0)?);
        set(&mut latency.max_num_seqs, within("max_num_seqs", self.max_num_seqs, 1, 10_000_000)?);
        set(&mut latency.first_chunk_tokens, within("first_chunk_tokens", self.first_chunk_tokens, 1, 10_000)?);
        set(&mut latency.tokens_per_chunk, within("tokens_per_chunk", self.tokens_per_chunk, 1, 10_000)?);
        set(&mut latency.vary_chunks, self.vary_chunks);
        set(&mut latency.prefix_cache, self.prefix_cache);
        set(&mut latency.block_tokens, within("block_tokens", self.block_tokens, 1, 10_000)?);
        set(&mut latency.kv_blocks, within("kv_blocks", self.kv_blocks, 1, 10_000_000)?);
        set(&mut latency.slow.factor, within("slow_factor", self.slow_factor, 1.0, 1_000.0)?);
        set(&mut latency.slow.share, within("slow_share", self.slow_share, 0.0, 1.0)?);
        self.set_cotenant(&mut latency.cotenant)
    }

    fn set_batching(&self, batching: &mut BatchingConfig) -> Result<(), SettingsError> {
        let (drafts, acceptance) = (self.speculative_tokens, self.speculative_acceptance);
        refuse_alone("speculative_tokens", drafts, "speculative_acceptance", acceptance)?;
        refuse_alone("speculative_acceptance", acceptance, "speculative_tokens", drafts)?;
        let step = &mut batching.step;
        let in_ns = |name, us| Ok::<_, SettingsError>(within(name, us, 0.0, MAX_DELAY_MS * 1e3)?.map(|us| us * 1e3));
        set(&mut step.base_ns, within("step_base_ms", self.step_base_ms, 0.0, MAX_DELAY_MS)?.map(|ms| ms * 1e6));
        set(&mut step.prefill_token_ns, in_ns("step_prefill_us", self.step_prefill_us)?);
        set(&mut step.decode_token_ns, in_ns("step_decode_us", self.step_decode_us)?);
        set(&mut step.context_token_ns, in_ns("step_context_us", self.step_context_us)?);
        set(&mut step.jitter_sigma, within("step_jitter_sigma", self.step_jitter_sigma, 0.0, 5.0)?);
        set(&mut batching.speculative_tokens, within("speculative_tokens", drafts, 0, 100)?);
        set(&mut batching.speculative_acceptance, within("speculative_acceptance", acceptance, 0.0, 1.0)?);
        set(&mut batching.max_num_seqs, within("max_num_seqs", self.max_num_seqs, 1, 1_000_000)?);
        set(&mut batching.chunked_prefill, self.chunked_prefill);
        set(&mut batching.prefix_cache, self.prefix_cache);
        set(&mut batching.block_tokens, within("block_tokens", self.block_tokens, 1, 10_000)?);
        set(&mut batching.kv_blocks, within("kv_blocks", self.kv_blocks, 1, 10_000_000)?);
        set(&mut batching.slow_factor, within("slow_factor", self.slow_factor, 1.0, 1_000.0)?);
        set(&mut batching.max_num_batched_tokens, within("max_num_batched_tokens", self.max_num_batched_tokens, 1, MAX_TOKENS)?);
        let decodes = batching.max_num_seqs.saturating_mul(batching.speculative_tokens + 1);
        if batching.max_num_batched_tokens < decodes {
            let range = format!("at least {decodes}, the tokens of `max_num_seqs` sequences that decode");
            return Err(out_of_range("max_num_batched_tokens", &batching.max_num_batched_tokens.to_string(), &range));
        }
        self.set_cotenant(&mut batching.cotenant)
    }

    fn set_cotenant(&self, cotenant: &mut CoTenant) -> Result<(), SettingsError> {
        refuse_alone("cotenant_share", self.cotenant_share, "cotenant_factor", self.cotenant_factor)?;
        refuse_alone("cotenant_episode_ms", self.cotenant_episode_ms, "cotenant_factor", self.cotenant_factor)?;
        set(&mut cotenant.factor, within("cotenant_factor", self.cotenant_factor, 1.0, 1_000.0)?);
        set(&mut cotenant.share, within("cotenant_share", self.cotenant_share, 0.0, 1.0)?);
        let episode_ms = within("cotenant_episode_ms", self.cotenant_episode_ms, 1.0, MAX_DELAY_MS)?;
        set(&mut cotenant.episode_ns, delay_ms("cotenant_episode_ms", episode_ms)?);
        Ok(())
    }

    /// Refuses the settings that only engines of the other kind have.
    fn refuse_without_effect(&self, profile: &str, engine: &EngineConfig) -> Result<(), SettingsError> {
        let of_requests = [
            ("ttft_ms", self.ttft_ms.is_some()),
            ("prefill_per_token_us", self.prefill_per_token_us.is_some()),
            ("ttft_jitter_ms", self.ttft_jitter_ms.is_some()),
            ("ttft_jitter_sigma", self.ttft_jitter_sigma.is_some()),
            ("itl_ms", self.itl_ms.is_some()),
            ("itl_jitter_ms", self.itl_jitter_ms.is_some()),
            ("load_factor", self.load_factor.is_some()),
            ("first_chunk_tokens", self.first_chunk_tokens.is_some()),
            ("tokens_per_chunk", self.tokens_per_chunk.is_some()),
            ("vary_chunks", self.vary_chunks.is_some()),
            ("slow_share", self.slow_share.is_some()),
        ];
        let of_batches = [
            ("step_base_ms", self.step_base_ms.is_some()),
            ("step_prefill_us", self.step_prefill_us.is_some()),
            ("step_decode_us", self.step_decode_us.is_some()),
            ("step_context_us", self.step_context_us.is_some()),
            ("step_jitter_sigma", self.step_jitter_sigma.is_some()),
            ("max_num_batched_tokens", self.max_num_batched_tokens.is_some()),
            ("chunked_prefill", self.chunked_prefill.is_some()),
            ("speculative_tokens", self.speculative_tokens.is_some()),
            ("speculative_acceptance", self.speculative_acceptance.is_some()),
        ];
        let (others, engine) = match engine {
            EngineConfig::PerRequest(_) => (&of_batches[..], "in which each request has latencies of its own"),
            EngineConfig::Batching(_) => (&of_requests[..], "in which all requests share the steps of a batch"),
        };
        match others.iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => Err(SettingsError::WithoutEffect { name, profile: profile.to_owned(), engine }),
            None => Ok(()),
        }
    }

    fn set_responses(&self, config: &mut Config) -> Result<(), SettingsError> {
        set(&mut config.output.median_tokens, within("output_median", self.output_median, 1, MAX_TOKENS)?);
        set(&mut config.output.sigma, within("output_sigma", self.output_sigma, 0.0, 5.0)?);
        set(&mut config.output.max_tokens, within("output_max", self.output_max, 1, MAX_TOKENS)?);
        config.max_model_len = self.max_model_len(&config.engine)?;
        set(&mut config.reasoning_share, within("reasoning_share", self.reasoning_share, 0.0, 1.0)?);
        set(&mut config.embedding_dimensions, within("embedding_dimensions", self.embedding_dimensions, 1, 100_000)?);
        if let Some(field) = &self.reasoning_field {
            if field != "reasoning" && field != "reasoning_content" {
                return Err(out_of_range("reasoning_field", field, "`reasoning_content` or `reasoning`"));
            }
            config.reasoning_field.clone_from(field);
        }
        Ok(())
    }

    /// Returns the maximum length, by default as much as the cache of the engine can hold. A longer request could never run.
    fn max_model_len(&self, engine: &EngineConfig) -> Result<u32, SettingsError> {
        let most = match engine {
            EngineConfig::PerRequest(_) => MAX_TOKENS,
            EngineConfig::Batching(batching) => batching.max_request_tokens().min(MAX_TOKENS),
        };
        if most < 2 {
            return Err(out_of_range(
                "kv_blocks",
                &engine.kv_blocks().to_string(),
                "enough for a request of 2 tokens and its drafts",
            ));
        }
        Ok(within("max_model_len", self.max_model_len, 2, most)?.unwrap_or(DEFAULT_MODEL_LEN.min(most)))
    }

    fn set_faults(&self, config: &mut Config) -> Result<(), SettingsError> {
        let faults = self.faults.iter().flatten();
        config.faults = faults.map(|text| text.parse()).collect::<Result<_, FaultError>>()?;
        config.fault_rate = within("fault_rate", self.fault_rate, 0.0, 1.0)?.unwrap_or(1.0);
        let stalls = self.stalls.iter().flatten();
        config.stalls = stalls.map(|text| read_stall(text)).collect::<Result<_, _>>()?;
        config.stalls.sort_unstable_by_key(|stall| stall.at_ns);
        if config.stalls.len() > MAX_STALLS {
            return Err(out_of_range("stall", &format!("given {} times", config.stalls.len()), "given at most 10,000 times"));
        }
        set(&mut config.ready_after_ns, delay_ms("ready_after_ms", self.ready_after_ms)?);
        Ok(())
    }

    fn set_limits(&self, config: &mut Config) -> Result<(), SettingsError> {
        let limits = &mut config.limits;
        set(&mut limits.body_bytes, count("max_body", self.max_body, 1, 1 << 30)?);
        set(&mut limits.head_bytes, count("max_head", self.max_head, 256, 1 << 20)?);
        set(&mut limits.connections, count("max_connections", self.max_connections, 1, 10_000_000)?);
        set(&mut limits.waiting, within("max_waiting", self.max_waiting, 1, 10_000_000)?);
        set(&mut limits.idle_s, within("idle_s", self.idle_s, 1, 1_000_000)?);
        set(&mut limits.truth_requests, count("truth_requests", self.truth_requests, 1, 100_000_000)?);
        set(&mut limits.truth_chunks, count("truth_chunks", self.truth_chunks, 1, 1_000_000_000)?);
        set(&mut config.spin_ns, delay_us("spin_us", self.spin_us)?);
        Ok(())
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Refuses a value without another one that gives it its effect, such as a share without its factor: that cannot be intended.
fn refuse_alone<T: std::fmt::Display>(
    name: &'static str,
    value: Option<T>,
    other_name: &'static str,
    other: Option<impl Sized>,
) -> Result<(), SettingsError> {
    match (value, other) {
        (Some(value), None) => Err(out_of_range(name, &value.to_string(), &format!("set together with `{other_name}`"))),
        _ => Ok(()),
    }
}

fn delay_ms(name: &'static str, value: Option<f64>) -> Result<Option<i64>, SettingsError> {
    Ok(within(name, value, 0.0, MAX_DELAY_MS)?.map(|ms| (ms * 1e6).round() as i64))
}

fn delay_us(name: &'static str, value: Option<f64>) -> Result<Option<i64>, SettingsError> {
    Ok(within(name, value, 0.0, MAX_DELAY_MS * 1e3)?.map(|us| (us * 1e3).round() as i64))
}

fn count(name: &'static str, value: Option<u32>, least: u32, most: u32) -> Result<Option<usize>, SettingsError> {
    Ok(within(name, value, least, most)?.map(|value| value as usize))
}

pub(crate) fn within<T: PartialOrd + std::fmt::Display>(
    name: &'static str,
    value: Option<T>,
    least: T,
    most: T,
) -> Result<Option<T>, SettingsError> {
    match value {
        // The condition also refuses NaN.
        Some(value) if !(value >= least && value <= most) => {
            Err(out_of_range(name, &value.to_string(), &format!("from {least} to {most}")))
        }
        value => Ok(value),
    }
}

pub(crate) fn out_of_range(name: &'static str, value: &str, range: &str) -> SettingsError {
    SettingsError::OutOfRange { name, value: value.chars().take(60).collect(), range: range.to_owned() }
}

/// The most adapters of a simulator.
const MAX_ADAPTERS: usize = 1000;

fn parse_adapters(text: &str) -> Result<Vec<String>, SettingsError> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if names.len() > MAX_ADAPTERS || distinct.len() < names.len() || names.iter().any(String::is_empty) {
        return Err(out_of_range("adapters", text, "up to 1000 different names with commas between them"));
    }
    Ok(names)
}

fn read_stall(text: &str) -> Result<Stall, SettingsError> {
    let wrong = || out_of_range("stall", text, "AT_MS:FOR_MS, such as `2000:500`");
    let (at_ms, for_ms) = text.split_once(':').ok_or_else(wrong)?;
    let ns = |ms: &str| delay_ms("stall", Some(ms.parse::<f64>().map_err(|_| wrong())?));
    match (ns(at_ms)?, ns(for_ms)?) {
        (Some(at_ns), Some(for_ns)) => Ok(Stall { at_ns, for_ns }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    fn settings(json: &str) -> Settings {
        serde_json::from_str(json).expect(json)
    }

    fn refusal(json: &str) -> String {
        settings(json).config().expect_err(json).to_string()
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_profile() {
        let file = settings(r#"{"profile": "fast", "ttft_ms": 7, "itl_ms": 3}"#);
        let flags = Settings { itl_ms: Some(2.5), ..Settings::default() };
        let config = flags.or(file).config().expect("a configuration");
        let times = |config: Config| match config.engine {
            EngineConfig::PerRequest(latency) => (latency.ttft_ns, latency.itl_ns),
            EngineConfig::Batching(_) => panic!("a batch"),
        };
        assert_eq!(times(config), (7_000_000, 2_500_000));
        let fast = settings(r#"{"profile": "fast"}"#).config().expect("a configuration");
        assert_eq!(times(fast), (5_000_000, 1_000_000));
    }

    #[test]
    fn faults_and_stalls_are_read() {
        let text = r#"{"fault": ["hang", "close:3"], "fault_rate": 0.5, "stall": ["2000:500", "1.5:1"], "seed": "ff"}"#;
        let config = settings(text).config().expect("a configuration");
        assert_eq!(config.faults, [Fault::Hang, Fault::Close(3)]);
        let stalls = [Stall { at_ns: 1_500_000, for_ns: 1_000_000 }, Stall { at_ns: 2_000_000_000, for_ns: 500_000_000 }];
        assert_eq!(config.stalls, stalls);
        assert!(config.seed.to_string().ends_with("00ff"));
    }

    #[test]
    fn a_text_makes_another_seed_of_the_seed() {
        let seed = |json: &str| settings(json).config().expect(json).seed;
        assert_ne!(seed(r#"{"seed_from": "trial 1"}"#), seed("{}"));
        assert_ne!(seed(r#"{"seed_from": "trial 1"}"#), seed(r#"{"seed_from": "trial 2"}"#));
        assert_ne!(seed(r#"{"seed_from": "trial 1"}"#), seed(r#"{"seed": "1", "seed_from": "trial 1"}"#));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        assert_eq!(refusal(r#"{"ttft_ms": -1}"#), "`ttft_ms` is -1, and has to be from 0 to 3600000");
        assert_eq!(refusal(r#"{"load_factor": 0.5}"#), "`load_factor` is 0.5, and has to be from 1 to 1000");
        assert_eq!(refusal(r#"{"max_num_seqs": 0}"#), "`max_num_seqs` is 0, and has to be from 1 to 10000000");
        assert_eq!(refusal(r#"{"slow_factor": 0.9}"#), "`slow_factor` is 0.9, and has to be from 1 to 1000");
        assert_eq!(refusal(r#"{"slow_factor": 2, "slow_share": 2}"#), "`slow_share` is 2, and has to be from 0 to 1");
        assert_eq!(refusal(r#"{"slow_share": 0.02}"#), "`slow_share` is 0.02, and has to be set together with `slow_factor`");
        assert_eq!(refusal(r#"{"cotenant_factor": 1e9}"#), "`cotenant_factor` is 1000000000, and has to be from 1 to 1000");
        let no_time = r#"{"cotenant_factor": 2, "cotenant_episode_ms": 0}"#;
        assert_eq!(refusal(no_time), "`cotenant_episode_ms` is 0, and has to be from 1 to 3600000");
        assert!(refusal(r#"{"cotenant_share": 0.5}"#).ends_with("set together with `cotenant_factor`"));
        assert!(refusal(r#"{"cotenant_episode_ms": 5}"#).ends_with("set together with `cotenant_factor`"));
        assert_eq!(refusal(r#"{"stall": ["5"]}"#), "`stall` is 5, and has to be AT_MS:FOR_MS, such as `2000:500`");
        assert_eq!(refusal(r#"{"seed": "0x1"}"#), "a seed is 1 to 64 hexadecimal digits, such as `2a`");
        assert!(refusal(r#"{"profile": "h200"}"#).starts_with("`h200` is no profile; one of instant, "));
        assert!(refusal(r#"{"fault": ["boom"]}"#).starts_with("`boom` is no fault; one of "));
        assert!(serde_json::from_str::<Settings>(r#"{"ttft": 1}"#).is_err());
    }

    #[test]
    fn a_setting_without_effect_is_refused() {
        let requests = "has no effect with the profile `fast`, in which each request has latencies of its own";
        for setting in [
            r#""step_base_ms": 1"#,
            r#""step_prefill_us": 1"#,
            r#""step_decode_us": 1"#,
            r#""step_context_us": 1"#,
            r#""step_jitter_sigma": 1"#,
            r#""max_num_batched_tokens": 100"#,
            r#""chunked_prefill": true"#,
            r#""speculative_tokens": 1, "speculative_acceptance": 1"#,
        ] {
            let name = setting.split('"').nth(1).expect("a name");
            assert_eq!(refusal(&format!(r#"{{"profile": "fast", {setting}}}"#)), format!("`{name}` {requests}"));
            settings(&format!(r#"{{"profile": "fast-batching", {setting}}}"#)).config().expect(setting);
        }
        let batch = "has no effect with the profile `fast-batching`, in which all requests share the steps of a batch";
        for setting in [
            r#""ttft_ms": 1"#,
            r#""prefill_per_token_us": 1"#,
            r#""ttft_jitter_ms": 1"#,
            r#""ttft_jitter_sigma": 1"#,
            r#""itl_ms": 1"#,
            r#""itl_jitter_ms": 1"#,
            r#""load_factor": 1"#,
            r#""first_chunk_tokens": 1"#,
            r#""tokens_per_chunk": 1"#,
            r#""vary_chunks": true"#,
            r#""slow_factor": 2, "slow_share": 0.5"#,
        ] {
            let name = if setting.contains("share") { "slow_share" } else { setting.split('"').nth(1).expect("a name") };
            assert_eq!(refusal(&format!(r#"{{"profile": "fast-batching", {setting}}}"#)), format!("`{name}` {batch}"));
            settings(&format!(r#"{{"profile": "fast", {setting}}}"#)).config().expect(setting);
        }
    }

    #[test]
    fn a_batch_that_could_not_run_its_requests_is_refused() {
        let batch = |fields: &str| format!(r#"{{"profile": "fast-batching", {fields}}}"#);
        let model_len = |fields: &str| settings(&batch(fields)).config().expect(fields).max_model_len;
        assert_eq!(
            refusal(&batch(r#""kv_blocks": 10, "max_model_len": 161"#)),
            "`max_model_len` is 161, and has to be from 2 to 160"
        );
        assert_eq!(model_len(r#""kv_blocks": 10"#), 160);
        assert_eq!(
            model_len(r#""kv_blocks": 10, "speculative_tokens": 3, "speculative_acceptance": 0.5"#),
            157,
            "drafts take room"
        );
        assert_eq!(model_len(r#""kv_blocks": 65536"#), 131_072);
        assert!(refusal(&batch(r#""kv_blocks": 1, "block_tokens": 1"#)).starts_with("`kv_blocks` is 1, and has to be enough"));
        let decodes = "has to be at least 128, the tokens of `max_num_seqs` sequences that decode";
        let few = batch(r#""max_num_batched_tokens": 127, "speculative_tokens": 1, "speculative_acceptance": 0.5"#);
        assert_eq!(refusal(&few), format!("`max_num_batched_tokens` is 127, and {decodes}"));
        for (name, other) in [("speculative_tokens", "speculative_acceptance"), ("speculative_acceptance", "speculative_tokens")]
        {
            let alone = batch(&format!(r#""{name}": 1"#));
            assert_eq!(refusal(&alone), format!("`{name}` is 1, and has to be set together with `{other}`"));
        }
    }
}
