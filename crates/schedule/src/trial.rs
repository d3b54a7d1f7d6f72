//! The requests of one serving trial.
//!
//! A trial has two phases, the warm-up and the measured phase, each with a load of its own that begins at index 0. Every value of a request comes
//! from the generator of its phase and concern at the request's index: `arrivals`, `input`, `query`, `group`, `output`, `cancel`, `adapter` (input and output of pairs
//! have `pair` instead), `prompt` and `request-id` (two values, at `2 i` and `2 i + 1`). So each of N shards computes its own stripe of the same
//! load; only the times of random arrivals are sums, for which each shard walks the gaps of the others too.
//!
//! Requests of a dataset have rows instead of drawn lengths. A trial shuffles all rows once (concern `dataset` of the phase `trial`). Request
//! `i` of the measured phase has row `i` of that order, and request `i` of the warm-up has row `i` from its end, both modulo the number
//! of rows: so no row is sent twice before all were sent, in either phase.
//!
//! A trace is replayed once, in the order of its rows and at their times, divided by the speed: rows that are due before the end of the
//! warm-up are its requests, and the others those of the measured phase, which ends with the last row at the latest. The text of a block
//! is drawn by [`BlockTexts`], the same wherever the block stands. With sessions, a trace's sessions are played instead (see `sessions`): they
//! begin at their times, or when a user is free.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use assay_dataset::Index;
use assay_manifest::{
    Adapter, ArrivalLaw, CacheMode, Cancellation, ConnectionPolicy, Count, DatasetSummary, Digest, FrozenWorkload, History,
    ImageFiles, Images, LengthLaw, Name, PauseLaw, PlannedTrial, Point, PointId, PointKind, PromptSource, RateProfile, RunId,
    ServingWork, Sessions, Shard, SharedPrefix, TokenIds,
};

use crate::adapters::Adapters;
use crate::arrivals::{
    Arrivals, ExactRate, MAX_RATE_PER_S, MAX_SMOOTHNESS, MAX_SPEED, MIN_RATE_PER_S, MIN_SMOOTHNESS, MIN_SPEED, RecordedArrivals,
    Speed,
};
use crate::block_texts::{BlockTexts, split_mix};
use crate::groups::{Groups, MAX_GROUPS, MAX_ZIPF};
use crate::lengths::{self, Lengths, MAX_TOKENS};
use crate::profile::{self, Profile};
use crate::rows::{Rows, first_measured};
use crate::sessions::{Beginning, Follower, Markers, SessionCursor, SessionSource, SessionTurn, SessionWalk, TraceSessions};
use crate::users::UserGrid;
use crate::{Generator, LoadKey, Nonce, Seed, SeedError, digest};

/// The most requests of a phase, as an expected number if arrivals are random. At 10,000 per second they last half a day.
pub const MAX_REQUESTS: u64 = 500_000_000;

/// The longest trial: 30 days, in nanoseconds.
pub const MAX_TRIAL_NS: u64 = 30 * 24 * 3600 * 1_000_000_000;

/// An index that is never reached: random arrivals that are [`MAX_REQUESTS`] on average stay below it, and a closed loop ends at
/// it.
const INDEX_END: u64 = 2 * MAX_REQUESTS;

/// A part of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Load that brings the endpoint into its steady state.
    WarmUp,
    /// Load that is measured.
    Measure,
}

impl Phase {
    /// Both phases, in the order in which they run.
    pub const ALL: [Self; 2] = [Self::WarmUp, Self::Measure];

    /// Returns the word that is part of the key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Measure => "measure",
        }
    }
}

/// The load that a point offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfferedLoad {
    /// Open loop.
    Rate {
        /// Arrivals per second.
        per_s: f64,
    },
    /// Closed loop.
    Concurrency {
        /// Users, each with one request at a time.
        users: u64,
    },
    /// Users, each of whom has a grid of times for its turns.
    Users {
        /// Their number.
        users: u64,
        /// The turns of all of them together, per second.
        per_s: f64,
    },
    /// Open loop at a rate that changes as the workload's rate profile says.
    Profile,
    /// The requests of a trace at their times.
    Replay {
        /// The speed; 1 is the trace's own.
        speed: f64,
    },
}

impl OfferedLoad {
    /// Returns the load of a planned point, from its `rate`, `concurrency`, `users` or `speed`.
    pub fn from_point(point: &Point) -> Result<Self, ScheduleError> {
        let text = point.value.get(point.kind.as_str()).map_or("", String::as_str);
        let offered = match point.kind {
            // The text of a profile is for people: the workload has the profile itself.
            PointKind::Rate if text.contains("..") => Some(Self::Profile),
            PointKind::Rate => text.parse().ok().map(|per_s| Self::Rate { per_s }),
            PointKind::Concurrency => text.parse().ok().map(|users| Self::Concurrency { users }),
            PointKind::Users => {
                let rate = point.value.get("rate").and_then(|rate| rate.parse().ok());
                text.parse().ok().zip(rate).map(|(users, per_s)| Self::Users { users, per_s })
            }
            PointKind::Speed => text.parse().ok().map(|speed| Self::Replay { speed }),
            PointKind::Scale | PointKind::Parameters => None,
        };
        offered.ok_or_else(|| ScheduleError::Point(point.point_id.clone()))
    }
}

/// The key that the loads of a point's trials have in common. Target and variant are absent, so both sides of a pair see the same
/// load.
#[derive(Clone, Copy, Debug)]
pub struct PointKey<'a> {
    /// The seed of the workload.
    pub seed: &'a Seed,
    /// The workload's `workload_spec_digest`.
    pub workload: &'a Digest,
    /// The point.
    pub point: &'a PointId,
}

/// The key of a trial.
#[derive(Clone, Copy, Debug)]
pub struct TrialKey<'a> {
    /// Its point.
    pub point: PointKey<'a>,
    /// Its number within the point, from 0.
    pub trial: u32,
    /// The execution of the trial. Only request ids and salt depend on it.
    pub nonce: Nonce,
}

/// The reason why there is no schedule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// The point has neither a rate nor a concurrency, users nor a speed.
    #[error("point `{0}` has no rate, no concurrency, no users with a rate and no speed: a serving trial needs one of them")]
    Point(PointId),
    /// A closed loop with a request rate, or an open one without.
    #[error("the arrivals are {law}, but the point offers a {offered}")]
    Mismatch {
        /// The arrivals of the workload.
        law: &'static str,
        /// The kind of load of the point.
        offered: &'static str,
    },
    /// A request rate that is too low, too high, or not a number.
    #[error("{0} arrivals a second are not between {MIN_RATE_PER_S} and {MAX_RATE_PER_S}")]
    Rate(f64),
    /// A rate profile that cannot be offered.
    #[error("the rate profile cannot be offered: {0}")]
    Profile(String),
    /// A speed that is too low, too high, or not a number.
    #[error("the speed {0} is not between {MIN_SPEED} and {MAX_SPEED}")]
    Speed(f64),
    /// A replay of something without times.
    #[error("only a trace can be replayed: the workload has none")]
    NoTimes,
    /// No request of the trace is due in the measured phase.
    #[error(
        "at speed {speed} the trace lasts {lasts:.1?}, and no request of it is due in the measured phase, from {from:.1?} on{}",
        to.map(|to| format!(" to {to:.1?}")).unwrap_or_default()
    )]
    NothingToMeasure {
        /// The speed.
        speed: f64,
        /// The time of the trace at that speed.
        lasts: Duration,
        /// The start of the measured phase.
        from: Duration,
        /// Its end by the clock.
        to: Option<Duration>,
    },
    /// The trace lasts longer than a trial may.
    #[error("at speed {speed} the last request is due after {due:.1?}, and `time_limit` is {limit:.1?}")]
    TimeLimit {
        /// The speed.
        speed: f64,
        /// The time at which the last measured request is due.
        due: Duration,
        /// The limit of a trial.
        limit: Duration,
    },
    /// A closed loop, or a grid, without users.
    #[error("a load of users needs at least one")]
    NoUsers,
    /// Users whose turns cannot follow a grid.
    #[error("the turns of users cannot follow a grid: {0}")]
    Users(&'static str),
    /// A smoothness that is no valid shape, or too extreme for its purpose.
    #[error("the smoothness {0} is not between {MIN_SMOOTHNESS} and {MAX_SMOOTHNESS}")]
    Smoothness(f64),
    /// The workload has a dataset, and its index was not given.
    #[error("the requests of a dataset need its index")]
    NoIndex,
    /// The index is not that of the plan's dataset.
    #[error("the index of the dataset has {found} rows, and the plan names {planned}")]
    OtherIndex {
        /// The rows of the index.
        found: u64,
        /// The rows by the plan.
        planned: u64,
    },
    /// A beginning in common that cannot be.
    #[error("the prefix needs 1 to {MAX_TOKENS} tokens, 1 to {MAX_GROUPS} groups, and an exponent from 0 to {MAX_ZIPF}")]
    Prefix,
    /// Lengths that cannot be drawn.
    #[error("the {side} lengths cannot be drawn: {reason}")]
    Lengths {
        /// `input`, `query`, `output`, or `paired` for both.
        side: &'static str,
        /// The reason.
        reason: String,
    },
    /// Prompts that cannot be sent as token ids.
    #[error("prompts cannot be sent as token ids: {0}")]
    TokenIds(String),
    /// Images that no request can have.
    #[error("the images cannot be sent: {0}")]
    Images(String),
    /// Requests that cannot be cancelled.
    #[error("requests cannot be cancelled: {0}")]
    Cancellation(&'static str),
    /// Adapters that requests cannot be dealt to.
    #[error("requests cannot be dealt to the adapters: {0}")]
    Adapters(&'static str),
    /// Sessions that cannot be drawn.
    #[error("the sessions cannot be drawn: {0}")]
    Sessions(String),
    /// Sessions of something that has none.
    #[error("{0} cannot be sent as sessions")]
    NoSessions(&'static str),
    /// Neither a duration nor a number of requests or sessions ends the trial.
    #[error("the trial has no end: give it a number of requests, a duration, or both")]
    Endless,
    /// More than [`MAX_REQUESTS`].
    #[error("the {phase} phase would have {requests} requests, more than {MAX_REQUESTS}", phase = phase.as_str())]
    TooMany {
        /// The phase.
        phase: Phase,
        /// The expected number of requests.
        requests: u64,
    },
    /// Longer than [`MAX_TRIAL_NS`].
    #[error("warm-up and measured phase last longer than 30 days together")]
    TooLong,
    /// A workload that is not serving.
    #[error("the workload `{0}` asks nothing of an endpoint")]
    NotServing(Name),
    /// A text that is not a seed.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// A shard number that is out of range.
    #[error("there is no shard {shard} of {shards}")]
    Shard {
        /// The shard.
        shard: u32,
        /// The number of shards.
        shards: u32,
    },
}

/// One planned request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledRequest {
    /// Its number within the phase over all shards, from 0.
    pub global_index: u64,
    /// Its due time, in nanoseconds since the trial's start; absent in a closed loop.
    pub offset_ns: Option<i64>,
    /// Tokens of its prompt, or of each of its documents. The prompt of a turn of a session begins with all that was said before.
    pub input_tokens: u32,
    /// Tokens of its query; absent if the API takes none.
    pub query_tokens: Option<u32>,
    /// Tokens requested of the response; absent if the API has none, or if the endpoint decides.
    pub output_tokens: Option<u32>,
    /// The seed of its prompt; for a request of a dataset, the row.
    pub prompt_seed: u64,
    /// The row of the dataset; absent if the prompt is synthetic.
    pub row: Option<u64>,
    /// The group of its beginning, from 0; absent if prompts have no beginning in common.
    pub group: Option<u32>,
    /// Its place in its session; absent if it stands for itself.
    pub turn: Option<SessionTurn>,
    /// The time from the end of sending it to its cancellation by the client, in nanoseconds; absent if it is not cancelled.
    pub cancel_after_ns: Option<u64>,
    /// The adapter that it asks for, by its place in the workload's list; absent if it asks for the model.
    pub adapter: Option<u32>,
    /// Its id. Differs between executions of the trial.
    pub request_id: u128,
}

impl ScheduledRequest {
    /// Returns the tokens of a request with this many documents: a model reads each document together with the query.
    pub fn total_input_tokens(&self, documents: u32) -> u32 {
        self.input_tokens.saturating_add(self.query_tokens.unwrap_or(0)).saturating_mul(documents)
    }

    /// Returns the seed of document `number` of the request. The first one's is [`ScheduledRequest::prompt_seed`]; the others
    /// follow by SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): its output
    /// `number`.
    pub fn document_seed(&self, number: u32) -> u64 {
        if number == 0 { self.prompt_seed } else { split_mix(self.prompt_seed, u64::from(number)) }
    }

    /// Returns the seed of image `number` of the request, from 0: output `2^32 + number + 1` of SplitMix64 under the exclusive or of the seed of the
    /// prompt and the salt, if there is one.
    pub fn image_seed(&self, number: u32, salt: Option<u64>) -> u64 {
        split_mix(self.prompt_seed ^ salt.unwrap_or(0), (1 << 32) + u64::from(number) + 1)
    }

    /// Returns the place of image file `number` of the request, from 0, among `files` files: with `h` the high half of the image's seed without a salt,
    /// it is `h x files / 2^32`.
    pub fn image_file(&self, number: u32, files: usize) -> usize {
        (((self.image_seed(number, None) >> 32) * files as u64) >> 32) as usize
    }
}

/// A shard's part of the indices, and of the users of a closed loop: every `shards`-th one, beginning with the shard's own
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    shard: u32,
    shards: NonZeroU32,
}

impl Stripe {
    /// All indices.
    pub const WHOLE: Self = Self { shard: 0, shards: NonZeroU32::MIN };

    /// Creates the stripe of a shard, counted from 0.
    pub fn new(shard: u32, shards: u32) -> Result<Self, ScheduleError> {
        let known = NonZeroU32::new(shards).filter(|shards| shard < shards.get());
        known.map(|shards| Self { shard, shards }).ok_or(ScheduleError::Shard { shard, shards })
    }

    /// Returns the position of an index among the shard's own, from 0; `None` if the index is another shard's.
    pub fn position(self, index: u64) -> Option<u64> {
        let shards = u64::from(self.shards.get());
        let from_first = index.checked_sub(u64::from(self.shard))?;
        from_first.is_multiple_of(shards).then_some(from_first / shards)
    }

    /// Returns the shard's share of `total` things, such as users.
    pub fn share(self, total: u64) -> u64 {
        total.saturating_sub(u64::from(self.shard)).div_ceil(u64::from(self.shards.get()))
    }
}

/// The prompts of a trial.
#[derive(Clone, Debug)]
enum Prompts {
    Synthetic { input: LengthLaw, query: Option<LengthLaw>, prefix: Option<Groups> },
    Rows(Rows),
}

/// The arrivals of an open loop.
#[derive(Clone, Copy, Debug)]
enum OpenLoop {
    /// Drawn, with the arrivals per second.
    Drawn(ArrivalLaw, f64),
    /// Drawn, at the rates of the profile.
    Profiled(ArrivalLaw),
    /// The turns of this many users on their grid, with the turns of all per second.
    Users(u64, f64),
    /// Those of a trace.
    Recorded(Speed),
}

/// The schedule of one trial: all of its requests.
#[derive(Clone, Debug)]
pub struct TrialSchedule {
    seed: Seed,
    workload: Digest,
    point: PointId,
    trial: u32,
    nonce: Nonce,
    /// The arrivals; absent in a closed loop.
    open_loop: Option<OpenLoop>,
    profile: Option<RateProfile>,
    users: Option<u64>,
    prompts: Prompts,
    sessions: Option<Sessions>,
    mean_turns: f64,
    output: Option<LengthLaw>,
    images: Option<Images>,
    /// The image files of each request, by their number and the digests of all.
    image_files: Option<(u32, Vec<Digest>)>,
    cancel: Option<Cancellation>,
    adapters: Vec<Adapter>,
    has_salt: bool,
    warmup_ns: u64,
    duration_ns: Option<u64>,
    requests: Option<u64>,
}

impl TrialSchedule {
    /// Checks that `work` can be offered at this load, without the rows of a dataset.
    pub fn check(work: &ServingWork, offered: OfferedLoad, key: &TrialKey<'_>) -> Result<(), ScheduleError> {
        let prompts = Prompts::Synthetic { input: LengthLaw::Fixed { tokens: 1 }, query: None, prefix: None };
        if matches!(offered, OfferedLoad::Replay { .. }) && !has_times(work) {
            return Err(ScheduleError::NoTimes);
        }
        work.prompts.dataset().map_or(Ok(()), |dataset| check_connections(work.connections, &dataset.summary))?;
        Self::with_prompts(work, offered, key, prompts).map(drop)
    }

    /// Creates the schedule of `key`'s trial, which offers `work` at its point's load. `index` is that of the work's dataset, if it has one.
    pub fn new(
        work: &ServingWork,
        offered: OfferedLoad,
        key: &TrialKey<'_>,
        index: Option<&Arc<Index>>,
    ) -> Result<Self, ScheduleError> {
        let prompts = match &work.prompts {
            PromptSource::Synthetic { input, query, prefix } => {
                Prompts::Synthetic { input: input.clone(), query: query.clone(), prefix: prefix.map(Groups::new) }
            }
            PromptSource::Dataset(dataset) => {
                let index = index.ok_or(ScheduleError::NoIndex)?;
                let planned = dataset.summary.rows.0;
                if index.len() != planned {
                    return Err(ScheduleError::OtherIndex { found: index.len(), planned });
                }
                let digests = [dataset.rows.digest, dataset.index.digest];
                if work.sessions.is_some() && index.has_recorded_pauses() {
                    let speed = match open_loop(work.arrival, offered)? {
                        Some(OpenLoop::Recorded(speed)) => speed,
                        _ => Speed::OWN,
                    };
                    check_streams(work.connections, index.most_streams())?;
                    let rows = Rows::trace_sessions(played_sessions(work, offered, key, index, speed), digests);
                    return Self::with_prompts(work, offered, key, Prompts::Rows(rows));
                }
                if let Some(OpenLoop::Recorded(speed)) = open_loop(work.arrival, offered)? {
                    let rows = Rows::recorded(index, digests, speed, work.warmup_ns.0);
                    return Self::with_prompts(work, offered, key, Prompts::Rows(rows));
                }
                let PointKey { seed, workload, point } = key.point;
                let draws = LoadKey { seed, workload, point, trial: key.trial, phase: "trial", concern: "dataset" }.generator();
                let order = if work.sessions.is_some() { Rows::sessions } else { Rows::shuffled };
                Prompts::Rows(order(index, digests, draws))
            }
        };
        Self::with_prompts(work, offered, key, prompts)
    }

    fn with_prompts(
        work: &ServingWork,
        offered: OfferedLoad,
        key: &TrialKey<'_>,
        prompts: Prompts,
    ) -> Result<Self, ScheduleError> {
        if let PromptSource::Synthetic { input, query, prefix } = &work.prompts {
            check_lengths("input", Some(input))?;
            check_lengths("query", query.as_ref())?;
            check_pairs(input, work.output.as_ref())?;
            prefix.map_or(Ok(()), |prefix| check_prefix(&prefix))?;
        }
        check_lengths("output", work.output.as_ref())?;
        work.sessions.as_ref().map_or(Ok(()), |sessions| check_sessions(work, sessions))?;
        work.token_ids.as_ref().map_or(Ok(()), |ids| check_token_ids(work, *ids))?;
        work.images.as_ref().map_or(Ok(()), |images| check_images(work, images.refusal()))?;
        work.image_files.as_ref().map_or(Ok(()), |images| check_images(work, images.refusal()))?;
        work.cancel.as_ref().map_or(Ok(()), |cancel| check_cancellation(work, cancel))?;
        check_adapters(work)?;
        check_profile(work, offered)?;
        check_users(work)?;
        let schedule = Self {
            seed: *key.point.seed,
            workload: *key.point.workload,
            point: key.point.point.clone(),
            trial: key.trial,
            nonce: key.nonce,
            open_loop: open_loop(work.arrival, offered)?,
            profile: work.rate_profile.clone(),
            users: match offered {
                OfferedLoad::Concurrency { users } | OfferedLoad::Users { users, .. } => Some(users),
                OfferedLoad::Rate { .. } | OfferedLoad::Profile | OfferedLoad::Replay { .. } => None,
            },
            sessions: work.sessions.clone(),
            mean_turns: work.mean_turns(),
            output: work.output.clone(),
            images: work.images,
            image_files: work.image_files.as_ref().map(digests_of),
            cancel: work.cancel,
            adapters: work.adapters.clone(),
            has_salt: work.cache == CacheMode::ColdSalt,
            warmup_ns: work.warmup_ns.0,
            duration_ns: work.duration_ns.map(|Count(duration)| duration),
            requests: match &prompts {
                Prompts::Rows(rows) => request_limit(work, offered, Some(rows.index())),
                Prompts::Synthetic { .. } => request_limit(work, offered, None),
            },
            prompts,
        };
        schedule.check_size()?;
        Ok(schedule)
    }

    /// Returns the schedule of an attempt at a planned trial: its shards follow it, and its records are compared with it.
    pub fn for_attempt(
        workload: &FrozenWorkload,
        point: &Point,
        trial: &PlannedTrial,
        run: &RunId,
        attempt: u32,
        index: Option<&Arc<Index>>,
    ) -> Result<Self, ScheduleError> {
        let work = workload.serving.as_ref().ok_or_else(|| ScheduleError::NotServing(workload.name.clone()))?;
        let seed: Seed = workload.seed.parse()?;
        let key = TrialKey {
            point: PointKey { seed: &seed, workload: &workload.workload_spec_digest, point: &point.point_id },
            trial: trial.index,
            nonce: Nonce::for_attempt(run, &trial.trial_id, attempt),
        };
        Self::new(work, OfferedLoad::from_point(point)?, &key, index)
    }

    /// Returns a shard's part of the load. The requests of a number of users are dealt to the shards that have a user, so that all of
    /// them are sent: a shard without a user has no part.
    pub fn stripe(&self, shard: Shard) -> Result<Option<Stripe>, ScheduleError> {
        let whole = Stripe::new(shard.index, shard.count)?;
        let Some(users) = self.users else { return Ok(Some(whole)) };
        let with_users = shard.count.min(u32::try_from(users).unwrap_or(u32::MAX));
        Ok(Stripe::new(shard.index, with_users).ok())
    }

    /// Returns the users of a closed loop or a grid; `None` for an open loop without users.
    pub fn users(&self) -> Option<u64> {
        self.users
    }

    /// Returns true if each turn of a user has a time on the user's grid.
    pub fn has_grid(&self) -> bool {
        matches!(self.open_loop, Some(OpenLoop::Users(..)))
    }

    /// Returns the grid of the users.
    fn grid(&self) -> Option<UserGrid> {
        let Some(OpenLoop::Users(users, per_s)) = self.open_loop else { return None };
        Some(UserGrid {
            users: NonZeroU64::new(users)?,
            rate: ExactRate::new(per_s)?,
            ends_ns: self.phase_end_ns(Phase::Measure)?,
            age: self.key("trial", "age").generator().at(0),
        })
    }

    /// Returns the start of the measured phase, in nanoseconds since the trial's start.
    pub fn measure_start_ns(&self) -> u64 {
        self.warmup_ns
    }

    /// Returns the end of a phase by the clock, in nanoseconds since the trial's start: nothing is due, or sent, at or after it.
    /// `None` if only a number of requests ends the measured phase.
    pub fn phase_end_ns(&self, phase: Phase) -> Option<u64> {
        match phase {
            Phase::WarmUp => Some(self.warmup_ns),
            Phase::Measure => self.duration_ns.map(|duration| self.warmup_ns.saturating_add(duration)),
        }
    }

    /// Returns true if the clock alone ends the phase of a closed loop, so that its number of requests is not known beforehand.
    pub fn has_open_length(&self, phase: Phase) -> bool {
        let counted = self.request_count(phase).is_some() || self.session_count().is_some();
        self.open_loop.is_none() && !counted
    }

    /// Returns true if requests are turns of sessions. They are one sequence, that of the measured phase: the clock decides to which phase
    /// each of them belongs.
    pub fn has_sessions(&self) -> bool {
        self.sessions.is_some()
    }

    /// Returns the most turns of a session that can be in flight at a time: the streams of a trace's session that forks most.
    pub fn most_streams(&self) -> u32 {
        self.trace_sessions().map_or(1, |trace| trace.index.most_streams().max(1))
    }

    /// Returns the requests of a phase in order. Those of an open length go on for as long as the caller iterates.
    pub fn requests(&self, phase: Phase) -> Requests {
        self.shard_requests(phase, Stripe::WHOLE)
    }

    /// Returns the requests of a phase that belong to a shard.
    ///
    /// If arrivals are random, a shard walks the gaps of all shards to know its own times: a few dozen nanoseconds for every
    /// request of the trial (`examples/cost.rs`). Everything else is drawn for the shard's own requests only.
    pub fn shard_requests(&self, phase: Phase, stripe: Stripe) -> Requests {
        let prompts = match &self.prompts {
            Prompts::Synthetic { input, query, prefix } => DrawnPrompts::Synthetic(Box::new(SyntheticPrompts {
                input: self.lengths(phase, input, "input"),
                query: query.as_ref().map(|law| self.lengths(phase, law, "query")),
                seeds: self.generator(phase, "prompt"),
                groups: prefix.clone().map(|groups| (groups, self.generator(phase, "group"))),
            })),
            Prompts::Rows(rows) => DrawnPrompts::Rows(rows.clone()),
        };
        Requests {
            phase,
            next: u64::from(stripe.shard),
            step: u64::from(stripe.shards.get()),
            begins_ns: self.phase_start_ns(phase),
            ends_ns: self.phase_end_ns(phase),
            end: self.request_count(phase).unwrap_or(INDEX_END),
            arrivals: self.arrivals(phase),
            prompts,
            sessions: self.sessions.as_ref().map(|sessions| {
                let source = self.session_source(sessions, phase);
                Box::new(SessionWalk::new(sessions, stripe, source, self.generator(phase, "pause"), self.grid()))
            }),
            output: self.output.as_ref().map(|law| self.lengths(phase, law, "output")),
            cancellations: self.cancel.map(|cancel| (cancel, self.generator(phase, "cancel"))),
            adapters: Adapters::new(&self.adapters, self.generator(phase, "adapter")),
            ids: self.key(phase.as_str(), "request-id").generator_with_nonce(self.nonce),
        }
    }

    /// Returns the token counts of one side. Both sides of pairs draw from the same values.
    fn lengths(&self, phase: Phase, law: &LengthLaw, side: &str) -> Lengths {
        let concern = if matches!(law, LengthLaw::Paired { .. }) { "pair" } else { side };
        Lengths::new(law.clone(), self.generator(phase, concern))
    }

    /// Returns the sessions of the trace, if its requests are played as turns of them.
    fn trace_sessions(&self) -> Option<&TraceSessions> {
        match &self.prompts {
            Prompts::Rows(rows) => rows.of_trace(),
            Prompts::Synthetic { .. } => None,
        }
    }

    fn session_source(&self, sessions: &Sessions, phase: Phase) -> SessionSource {
        if let Some(trace) = self.trace_sessions() {
            return SessionSource::Trace(trace.clone());
        }
        let recorded = match &self.prompts {
            Prompts::Rows(rows) => rows.session_order(),
            Prompts::Synthetic { .. } => None,
        };
        if let Some(order) = recorded {
            return SessionSource::Recorded(Arc::clone(order));
        }
        let law = sessions.turns.clone().unwrap_or(LengthLaw::Fixed { tokens: 1 });
        SessionSource::Drawn(Box::new(Lengths::new(law, self.generator(phase, "turns"))))
    }

    fn arrivals(&self, phase: Phase) -> Option<Arrivals> {
        match (self.open_loop?, &self.prompts) {
            (OpenLoop::Drawn(law, per_s), _) => Arrivals::new(law, per_s, self.generator(phase, "arrivals")),
            (OpenLoop::Profiled(law), _) => self.profiled_arrivals(phase, law),
            (OpenLoop::Recorded(_), _) if self.sessions.is_some() => self.trace_sessions().cloned().map(Arrivals::Sessions),
            (OpenLoop::Recorded(speed), Prompts::Rows(rows)) => Some(Arrivals::Recorded(RecordedArrivals {
                index: Arc::clone(rows.index()),
                speed,
                first_row: rows.row(phase, 0),
                begins_ns: self.phase_start_ns(phase),
            })),
            // The times of users are those of their grid.
            (OpenLoop::Users(..), _) | (OpenLoop::Recorded(_), Prompts::Synthetic { .. }) => None,
        }
    }

    /// Returns arrivals by the profile. Its first rate holds in the warm-up, which has arrivals of its own unless requests are turns of
    /// sessions.
    fn profiled_arrivals(&self, phase: Phase, law: ArrivalLaw) -> Option<Arrivals> {
        let (profile, values) = (self.profile.as_ref()?, self.generator(phase, "arrivals"));
        if phase == Phase::WarmUp && self.sessions.is_none() {
            return Arrivals::new(law, profile.first_per_s(), values);
        }
        let lead_ns = if self.sessions.is_some() { self.warmup_ns } else { 0 };
        Arrivals::profiled(law, Profile::new(profile, lead_ns, self.duration_ns?), values)
    }

    fn phase_start_ns(&self, phase: Phase) -> u64 {
        if phase == Phase::WarmUp || self.sessions.is_some() { 0 } else { self.warmup_ns }
    }

    /// Returns one request; `None` past the end of the phase. If arrivals are random, it walks all gaps before that request: for
    /// single lookups, not for loops.
    pub fn request(&self, phase: Phase, index: u64) -> Option<ScheduledRequest> {
        let mut requests = self.requests(phase);
        if self.sessions.is_some() {
            return requests.find(|request| request.global_index == index);
        }
        requests.next = index;
        requests.next()
    }

    /// Returns the seed of the words that begin this execution's prompts; `None` unless a salt keeps the cache cold.
    ///
    /// All prompts of the execution share it. It depends on the nonce, because the prompts of a trial are the same in every run
    /// and every attempt: without it, the second execution would find the prompts of the first in the cache.
    pub fn salt(&self) -> Option<u64> {
        self.has_salt.then(|| self.key("trial", "salt").generator_with_nonce(self.nonce).at(0))
    }

    /// Returns the seeds of the texts of blocks.
    pub fn block_texts(&self) -> BlockTexts {
        let key = LoadKey { trial: 0, ..self.key("trial", "blocks") };
        let scope =
            if self.has_salt { self.key("trial", "blocks").generator_with_nonce(self.nonce) } else { key.generator() }.at(0);
        BlockTexts::new(scope)
    }

    /// Returns the markers of sessions; `None` if they have none. They depend on the nonce, so that no two executions have one in common.
    pub fn markers(&self) -> Option<Markers> {
        let has_markers = self.sessions.as_ref().is_some_and(|sessions| sessions.play.marker);
        has_markers.then(|| Markers::new(self.key("trial", "marker").generator_with_nonce(self.nonce).at(0)))
    }

    /// Returns the digests of the rows of the dataset and of their index; none if prompts are synthetic.
    pub(crate) fn dataset_digests(&self) -> &[Digest] {
        match &self.prompts {
            Prompts::Rows(rows) => rows.digests(),
            Prompts::Synthetic { .. } => &[],
        }
    }

    /// Returns the requests that the client cancels; `None` if it cancels none.
    pub(crate) fn cancellation(&self) -> Option<&Cancellation> {
        self.cancel.as_ref()
    }

    /// Returns the number of image files of each request, and the digests of those that they are drawn from; `None` if requests have none.
    pub(crate) fn image_files(&self) -> Option<(u32, &[Digest])> {
        self.image_files.as_ref().map(|(count, files)| (*count, files.as_slice()))
    }

    /// Returns the adapters of the requests; empty if they have none.
    pub(crate) fn adapters(&self) -> &[Adapter] {
        &self.adapters
    }

    /// Returns the images of each request; `None` if requests have none.
    pub(crate) fn images(&self) -> Option<&Images> {
        self.images.as_ref()
    }

    /// Returns the digest over the whole trial, the same for every shard and for both sides of a pair: see
    /// [`DIGEST_FORMAT`](crate::DIGEST_FORMAT).
    pub fn digest(&self) -> Digest {
        digest::schedule_digest(self)
    }

    fn key<'a>(&'a self, phase: &'a str, concern: &'a str) -> LoadKey<'a> {
        LoadKey { seed: &self.seed, workload: &self.workload, point: &self.point, trial: self.trial, phase, concern }
    }

    fn generator(&self, phase: Phase, concern: &str) -> Generator {
        self.key(phase.as_str(), concern).generator()
    }

    /// Returns the number of requests that ends a phase; `None` if only the clock does.
    fn request_count(&self, phase: Phase) -> Option<u64> {
        match (phase, &self.prompts) {
            (Phase::WarmUp, _) if self.warmup_ns == 0 || self.sessions.is_some() => Some(0),
            (Phase::WarmUp, Prompts::Rows(rows)) => rows.warmup_count(),
            (Phase::WarmUp, Prompts::Synthetic { .. }) => None,
            (Phase::Measure, _) => self.requests,
        }
    }

    /// Returns the number of sessions that ends the trial; `None` if only the clock does, or without sessions.
    fn session_count(&self) -> Option<Count> {
        self.sessions.as_ref().and_then(|sessions| sessions.count)
    }

    /// Returns the number of requests that ends the measured phase; `None` if only the clock does.
    pub fn request_limit(&self) -> Option<u64> {
        self.requests
    }

    fn check_profile_size(&self) -> Result<(), ScheduleError> {
        let (Some(profile), Some(duration_ns)) = (&self.profile, self.duration_ns) else { return Err(ScheduleError::Endless) };
        if self.warmup_ns.saturating_add(duration_ns) > MAX_TRIAL_NS {
            return Err(ScheduleError::TooLong);
        }
        let in_warmup = profile.first_per_s() * self.warmup_ns as f64 / 1e9;
        check_request_count(Phase::WarmUp, (in_warmup * self.mean_turns) as u64)?;
        let measured = Profile::new(profile, 0, duration_ns).expected();
        check_request_count(Phase::Measure, (measured * self.mean_turns) as u64)
    }

    fn check_size(&self) -> Result<(), ScheduleError> {
        let rate = match self.open_loop {
            // A trace ends with its last row, and has no more rows than an index may have.
            Some(OpenLoop::Recorded(_)) => return Ok(()),
            Some(OpenLoop::Drawn(_, rate)) => Some(rate * self.mean_turns),
            Some(OpenLoop::Users(_, rate)) => Some(rate),
            Some(OpenLoop::Profiled(_)) => return self.check_profile_size(),
            None => None,
        };
        let sessions = self.session_count();
        if self.requests.is_none() && self.duration_ns.is_none() && sessions.is_none() {
            return Err(ScheduleError::Endless);
        }
        if self.phase_end_ns(Phase::Measure).unwrap_or(self.warmup_ns) > MAX_TRIAL_NS {
            return Err(ScheduleError::TooLong);
        }
        let by_clock = |duration_ns: u64| rate.map_or(u64::MAX, |rate| (rate * duration_ns as f64 / 1e9) as u64);
        let of_sessions = sessions.map(|Count(count)| (count as f64 * self.mean_turns) as u64);
        let by_count = self.requests.or(of_sessions).unwrap_or(u64::MAX);
        if rate.is_some() {
            check_request_count(Phase::WarmUp, by_clock(self.warmup_ns))?;
        }
        if !self.has_open_length(Phase::Measure) {
            check_request_count(Phase::Measure, by_clock(self.duration_ns.unwrap_or(u64::MAX)).min(by_count))?;
        }
        let seconds = rate.zip(self.requests.or(of_sessions)).map_or(0.0, |(rate, requests)| requests as f64 / rate);
        if self.duration_ns.is_none() && seconds > (MAX_TRIAL_NS - self.warmup_ns) as f64 / 1e9 {
            return Err(ScheduleError::TooLong);
        }
        Ok(())
    }
}

/// Returns the sessions of a trace as the work plays them.
fn played_sessions(
    work: &ServingWork,
    offered: OfferedLoad,
    key: &TrialKey<'_>,
    index: &Arc<Index>,
    speed: Speed,
) -> TraceSessions {
    let (play, trace) = (work.session_play(), TraceSessions::new(index, speed));
    let trace = if play.recycle { trace.recycled() } else { trace };
    let (Some(start), OfferedLoad::Concurrency { users }) = (play.start, offered) else { return trace };
    let count = work.sessions.as_ref().and_then(|sessions| sessions.count).map_or(u64::MAX, |count| count.0);
    let PointKey { seed, workload, point } = key.point;
    let draws = LoadKey { seed, workload, point, trial: key.trial, phase: "trial", concern: "start" }.generator();
    trace.starting(start, users.min(count), draws)
}

/// Checks that a rate profile is offered if, and only if, the workload has one, and that it fits the trial.
fn check_profile(work: &ServingWork, offered: OfferedLoad) -> Result<(), ScheduleError> {
    let refuse = |why: &str| Err(ScheduleError::Profile(why.to_owned()));
    match (&work.rate_profile, offered) {
        (None, OfferedLoad::Profile) => refuse("the workload has none"),
        (None, _) => Ok(()),
        (Some(_), OfferedLoad::Profile)
            if work.requests.is_some() || work.sessions.as_ref().is_some_and(|sessions| sessions.count.is_some()) =>
        {
            refuse("a number of requests or sessions would cut it")
        }
        (Some(profile), OfferedLoad::Profile) => {
            profile::refusal(profile, work.duration_ns.map(|duration| duration.0)).map_or(Ok(()), |why| refuse(&why))
        }
        (Some(_), _) => refuse("the point offers another load"),
    }
}

/// Checks that users have what their grid needs: sessions that are drawn or a dataset's, without pauses, and an end by the clock.
fn check_users(work: &ServingWork) -> Result<(), ScheduleError> {
    if work.arrival != ArrivalLaw::Users {
        return Ok(());
    }
    let refuse = |why: &'static str| Err(ScheduleError::Users(why));
    match &work.sessions {
        None => refuse("their requests are not turns of sessions"),
        Some(_) if has_times(work) => refuse("the turns of a trace have times of their own"),
        Some(Sessions { count: Some(_), .. }) => refuse("a number of sessions would end them one by one"),
        Some(Sessions { think_time, .. }) if *think_time != (PauseLaw::Fixed { ns: Count(0) }) => {
            refuse("it takes the place of a think time")
        }
        Some(_) => Ok(()),
    }
}

fn check_sessions(work: &ServingWork, sessions: &Sessions) -> Result<(), ScheduleError> {
    let problem = match &work.prompts {
        PromptSource::Dataset(dataset) if plays_trace(work) => {
            let is_played = sessions.think_time == PauseLaw::Recorded && sessions.history == History::Recorded;
            (dataset.summary.sessions.is_none() || !is_played)
                .then_some("the requests of a trace, unless by its own sessions and pauses,")
        }
        PromptSource::Dataset(dataset) if dataset.summary.sessions.is_none() => Some("requests that were imported one by one"),
        PromptSource::Synthetic { query: Some(_), .. } => Some("requests with a query"),
        PromptSource::Dataset(_) | PromptSource::Synthetic { .. } => None,
    };
    if let Some(what) = problem {
        return Err(ScheduleError::NoSessions(what));
    }
    if sessions.turns.is_some() == work.prompts.dataset().is_some() {
        let what = "drawn sessions need a number of turns, and those of a dataset have their own";
        return Err(ScheduleError::Sessions(what.to_owned()));
    }
    let refuse = |what: &str| Err(ScheduleError::Sessions(what.to_owned()));
    if sessions.think_time == PauseLaw::Recorded && !plays_trace(work) {
        return refuse("only a trace has recorded pauses");
    }
    if plays_trace(work) && work.arrival == ArrivalLaw::Closed && sessions.count.is_none() && !sessions.play.recycle {
        return refuse(
            "a number of sessions ends a trial that plays those of a trace at a concurrency, unless they are recycled",
        );
    }
    check_session_play(work, sessions)?;
    let of_dataset = work.prompts.dataset().and_then(|dataset| dataset.summary.sessions).filter(|_| plays_trace(work));
    of_dataset.map_or(Ok(()), |Count(of_trace)| check_trace_count(sessions, of_trace))?;
    if work.requests.is_some() || (sessions.count.is_some() && work.duration_ns.is_some()) {
        return refuse("either a duration or a number of sessions ends a trial of them");
    }
    if sessions.count.is_some() && work.warmup_ns.0 > 0 {
        return refuse("a number of sessions leaves no time for a warm-up");
    }
    if said_on_average(work) > f64::from(MAX_TOKENS) {
        return refuse("all that is said in a session of the mean length is more than a prompt may have");
    }
    crate::sessions::refusal(sessions).map_or(Ok(()), |reason| Err(ScheduleError::Sessions(reason)))
}

/// Checks the way in which users play sessions.
fn check_session_play(work: &ServingWork, sessions: &Sessions) -> Result<(), ScheduleError> {
    let play = sessions.play;
    let problem = if play.is_plain() {
        None
    } else if !plays_trace(work) || work.arrival != ArrivalLaw::Closed {
        Some("only those of a trace at a concurrency are recycled, or begin in their middle, or have an idle cap or markers")
    } else if play.recycle && (sessions.count.is_some() || work.duration_ns.is_none()) {
        Some("a duration, and no number of sessions, ends a trial that recycles them")
    } else if play.start.is_some_and(|start| !start.is_valid()) {
        Some("they begin between two shares of their length from 0 to 1, the lower one first")
    } else if play.warm_history && play.start.is_none() {
        Some("sessions that begin with their first turn have no history to warm")
    } else if play.idle_cap_ns == Some(Count(0)) {
        Some("an idle cap of 0 leaves no time between turns")
    } else if play.marker && work.token_ids.is_some() {
        Some("a marker is a text, and prompts are token ids")
    } else {
        None
    };
    problem.map_or(Ok(()), |what| Err(ScheduleError::Sessions(what.to_owned())))
}

/// Returns the mean number of tokens of all turns and responses of a drawn session; 0 for those of a dataset.
fn said_on_average(work: &ServingWork) -> f64 {
    let PromptSource::Synthetic { input, .. } = &work.prompts else { return 0.0 };
    work.mean_turns() * (input.mean() + work.output.as_ref().map_or(0.0, LengthLaw::mean))
}

fn check_request_count(phase: Phase, requests: u64) -> Result<(), ScheduleError> {
    if requests > MAX_REQUESTS { Err(ScheduleError::TooMany { phase, requests }) } else { Ok(()) }
}

fn check_lengths(side: &'static str, law: Option<&LengthLaw>) -> Result<(), ScheduleError> {
    law.and_then(lengths::refusal).map_or(Ok(()), |reason| Err(ScheduleError::Lengths { side, reason }))
}

fn digests_of(images: &ImageFiles) -> (u32, Vec<Digest>) {
    (images.count, images.files.iter().map(|file| file.artifact.digest).collect())
}

/// Checks that requests can have images, of which `refusal` is the problem if they have one of their own.
fn check_images(work: &ServingWork, refusal: Option<String>) -> Result<(), ScheduleError> {
    let misplaced = if !work.api.takes_images() {
        Some(format!("requests of the API `{}` have none", work.api))
    } else if work.prompts.dataset().is_some_and(|dataset| dataset.summary.whole_bodies.is_some()) {
        Some("rows that are whole bodies are sent as they are".to_owned())
    } else if work.images.is_some() && work.image_files.is_some() {
        Some("they are either synthetic or files".to_owned())
    } else {
        None
    };
    misplaced.or(refusal).map_or(Ok(()), |reason| Err(ScheduleError::Images(reason)))
}

fn check_token_ids(work: &ServingWork, ids: TokenIds) -> Result<(), ScheduleError> {
    let has_texts = work.prompts.dataset().is_some_and(|dataset| dataset.format.has_texts());
    let misplaced = if !work.api.takes_token_ids() {
        Some(format!("the API `{}` takes none", work.api))
    } else if has_texts {
        Some("the rows of its file are texts".to_owned())
    } else {
        None
    };
    misplaced.or_else(|| ids.refusal()).map_or(Ok(()), |reason| Err(ScheduleError::TokenIds(reason)))
}

fn check_cancellation(work: &ServingWork, cancel: &Cancellation) -> Result<(), ScheduleError> {
    let misplaced = work.sessions.is_some().then_some("a turn that is cancelled would end its session");
    misplaced.or_else(|| cancel.refusal()).map_or(Ok(()), |reason| Err(ScheduleError::Cancellation(reason)))
}

fn check_adapters(work: &ServingWork) -> Result<(), ScheduleError> {
    let is_nameless = !work.adapters.is_empty() && !work.names_model();
    let misplaced = is_nameless.then_some("its requests name no model");
    misplaced.or_else(|| Adapter::refusal(&work.adapters)).map_or(Ok(()), |reason| Err(ScheduleError::Adapters(reason)))
}

fn check_pairs(input: &LengthLaw, output: Option<&LengthLaw>) -> Result<(), ScheduleError> {
    let refused = lengths::pairs_refusal(input, output);
    refused.map_or(Ok(()), |reason| Err(ScheduleError::Lengths { side: "paired", reason }))
}

fn check_prefix(prefix: &SharedPrefix) -> Result<(), ScheduleError> {
    let is_valid = (1..=MAX_GROUPS).contains(&prefix.groups)
        && (0.0..=MAX_ZIPF).contains(&prefix.zipf)
        && (1..=MAX_TOKENS).contains(&prefix.tokens());
    if is_valid { Ok(()) } else { Err(ScheduleError::Prefix) }
}

/// Returns the number of requests that ends the measured phase of a trial; `None` if only the clock does. A trace has no more requests than
/// rows; `index` is that of the work's dataset.
pub fn request_limit(work: &ServingWork, offered: OfferedLoad, index: Option<&Index>) -> Option<u64> {
    let limit = work.requests.map(|Count(requests)| requests);
    let OfferedLoad::Replay { speed } = offered else { return limit };
    if work.sessions.is_some() {
        return limit;
    }
    let rows = index.zip(Speed::new(speed)).map(|(index, speed)| index.len() - first_measured(index, speed, work.warmup_ns.0));
    limit.into_iter().chain(rows).min()
}

/// Returns true if the sessions of a trace are played.
fn plays_trace(work: &ServingWork) -> bool {
    work.sessions.is_some() && has_times(work)
}

/// A trace's sessions are played once: their prompts would be in the cache when they came again.
fn check_trace_count(sessions: &Sessions, of_trace: u64) -> Result<(), ScheduleError> {
    match sessions.count {
        Some(Count(count)) if count > of_trace => Err(ScheduleError::Sessions(format!(
            "the trace has {of_trace}, which are played once each, and the trial asks for {count}"
        ))),
        _ => Ok(()),
    }
}

fn has_times(work: &ServingWork) -> bool {
    work.prompts.dataset().is_some_and(|dataset| dataset.summary.times.is_some())
}

/// Checks that the rows of a trace leave something to measure at this speed, and that a trial has the time for it.
pub fn check_replay(work: &ServingWork, speed: f64, index: &Index) -> Result<(), ScheduleError> {
    let exact = Speed::new(speed).ok_or(ScheduleError::Speed(speed))?;
    let due_ns = |row: u64| index.row(row).map_or(u64::MAX, |row| exact.replayed_ns(row.at_ns));
    let from_ns = work.warmup_ns.0;
    let to_ns = work.duration_ns.map(|duration| from_ns.saturating_add(duration.0));
    if plays_trace(work) {
        return check_session_replay(work, speed, index, &due_ns);
    }
    let first = first_measured(index, exact, from_ns);
    let end = to_ns.map_or(index.len(), |to_ns| index.rows_until(|at_ns| exact.replayed_ns(at_ns) >= to_ns));
    let end = end.min(work.requests.map_or(u64::MAX, |requests| first.saturating_add(requests.0)));
    let ns = Duration::from_nanos;
    if end <= first {
        let lasts = ns(due_ns(index.len() - 1));
        return Err(ScheduleError::NothingToMeasure { speed, lasts, from: ns(from_ns), to: to_ns.map(ns) });
    }
    let last_ns = due_ns(end - 1);
    if last_ns >= work.time_limit_ns.0 {
        return Err(ScheduleError::TimeLimit { speed, due: ns(last_ns), limit: ns(work.time_limit_ns.0) });
    }
    Ok(())
}

/// Refuses one connection for each session of an imported trace if a session has several turns in flight at a time.
pub fn check_connections(connections: ConnectionPolicy, summary: &DatasetSummary) -> Result<(), ScheduleError> {
    let forks = summary.times.as_ref().and_then(|times| times.turns.as_ref()?.forks.as_ref());
    check_streams(connections, forks.map_or(1, |forks| forks.most_streams))
}

fn check_streams(connections: ConnectionPolicy, most_streams: u32) -> Result<(), ScheduleError> {
    if connections == ConnectionPolicy::Sticky && most_streams > 1 {
        let what =
            "sessions with subagents have several turns in flight, which cannot share one connection: `connections: pooled`";
        return Err(ScheduleError::Sessions(what.to_owned()));
    }
    Ok(())
}

/// Checks that the turns of a trace's sessions leave something to measure, by their planned times: no turn is due before what it waits for.
fn check_session_replay(work: &ServingWork, speed: f64, index: &Index, due_ns: &dyn Fn(u64) -> u64) -> Result<(), ScheduleError> {
    let ns = Duration::from_nanos;
    let from_ns = work.warmup_ns.0;
    let count = work.sessions.as_ref().and_then(|sessions| sessions.count).map_or(u64::MAX, |count| count.0);
    let rows = index.sessions().take(usize::try_from(count).unwrap_or(usize::MAX)).map(|session| u64::from(session.turns)).sum();
    let last_ns = (0..rows).map(due_ns).max().unwrap_or(0);
    if last_ns < from_ns {
        let to = work.duration_ns.map(|duration| ns(from_ns.saturating_add(duration.0)));
        return Err(ScheduleError::NothingToMeasure { speed, lasts: ns(last_ns), from: ns(from_ns), to });
    }
    let by_clock_ns = work.duration_ns.map_or(u64::MAX, |duration| from_ns.saturating_add(duration.0));
    let end_ns = last_ns.min(by_clock_ns);
    if end_ns >= work.time_limit_ns.0 {
        return Err(ScheduleError::TimeLimit { speed, due: ns(end_ns), limit: ns(work.time_limit_ns.0) });
    }
    Ok(())
}

fn open_loop(law: ArrivalLaw, offered: OfferedLoad) -> Result<Option<OpenLoop>, ScheduleError> {
    let mismatch = |law, offered| Err(ScheduleError::Mismatch { law, offered });
    match (law, offered) {
        (ArrivalLaw::Closed, OfferedLoad::Concurrency { users: 0 })
        | (ArrivalLaw::Users, OfferedLoad::Users { users: 0, .. }) => Err(ScheduleError::NoUsers),
        (ArrivalLaw::Closed, OfferedLoad::Concurrency { .. }) => Ok(None),
        (ArrivalLaw::Users, OfferedLoad::Users { per_s, .. }) if !(MIN_RATE_PER_S..=MAX_RATE_PER_S).contains(&per_s) => {
            Err(ScheduleError::Rate(per_s))
        }
        (ArrivalLaw::Users, OfferedLoad::Users { users, per_s }) => Ok(Some(OpenLoop::Users(users, per_s))),
        (ArrivalLaw::Users, _) => mismatch("those of users with a grid", "load without users"),
        (_, OfferedLoad::Users { .. }) => mismatch("not those of users", "number of users"),
        (ArrivalLaw::Closed, OfferedLoad::Rate { .. } | OfferedLoad::Profile) => mismatch("those of a closed loop", "rate"),
        (ArrivalLaw::Closed, OfferedLoad::Replay { .. }) => mismatch("those of a closed loop", "speed"),
        (ArrivalLaw::Recorded, OfferedLoad::Replay { speed }) => {
            Speed::new(speed).map(|speed| Some(OpenLoop::Recorded(speed))).ok_or(ScheduleError::Speed(speed))
        }
        (ArrivalLaw::Recorded, OfferedLoad::Rate { .. } | OfferedLoad::Profile) => mismatch("those of a trace", "rate"),
        (ArrivalLaw::Recorded, OfferedLoad::Concurrency { .. }) => mismatch("those of a trace", "concurrency"),
        (_, OfferedLoad::Concurrency { .. }) => mismatch("those of an open loop", "concurrency"),
        (_, OfferedLoad::Replay { .. }) => mismatch("drawn", "speed"),
        (_, OfferedLoad::Rate { per_s }) if !(MIN_RATE_PER_S..=MAX_RATE_PER_S).contains(&per_s) => {
            Err(ScheduleError::Rate(per_s))
        }
        (ArrivalLaw::Gamma { smoothness }, _) if !(MIN_SMOOTHNESS..=MAX_SMOOTHNESS).contains(&smoothness) => {
            Err(ScheduleError::Smoothness(smoothness))
        }
        (law, OfferedLoad::Rate { per_s }) => Ok(Some(OpenLoop::Drawn(law, per_s))),
        (law, OfferedLoad::Profile) => Ok(Some(OpenLoop::Profiled(law))),
    }
}

/// The requests of a phase, or a shard's stripe of them, one after the other.
#[derive(Clone)]
pub struct Requests {
    phase: Phase,
    next: u64,
    step: u64,
    /// Start and end of the phase by the clock, in nanoseconds since the trial's start.
    begins_ns: u64,
    ends_ns: Option<u64>,
    /// The first index that is not sent.
    end: u64,
    arrivals: Option<Arrivals>,
    prompts: DrawnPrompts,
    sessions: Option<Box<SessionWalk>>,
    output: Option<Lengths>,
    cancellations: Option<(Cancellation, Generator)>,
    adapters: Option<Adapters>,
    ids: Generator,
}

/// The prompts of a phase, by index.
#[derive(Clone)]
enum DrawnPrompts {
    Synthetic(Box<SyntheticPrompts>),
    Rows(Rows),
}

/// The lengths and the seeds of synthetic prompts, by index.
#[derive(Clone)]
struct SyntheticPrompts {
    input: Lengths,
    query: Option<Lengths>,
    seeds: Generator,
    groups: Option<(Groups, Generator)>,
}

/// The prompt of one request.
struct DrawnPrompt {
    input_tokens: u32,
    query_tokens: Option<u32>,
    recorded_output: Option<u32>,
    /// Tokens of the prompt that were said before, if it is a recorded turn.
    said_before: u32,
    seed: u64,
    row: Option<u64>,
    group: Option<u32>,
}

impl DrawnPrompts {
    /// Returns the prompt of a request. One that continues a session has no beginning in common with others of its own.
    fn at(&mut self, phase: Phase, index: u64, continues: bool) -> DrawnPrompt {
        match self {
            Self::Synthetic(drawn) => {
                let groups = drawn.groups.as_mut().filter(|_| !continues);
                let group = groups.map(|(groups, draws)| (groups.group(draws.unit_f64(index)), groups.tokens()));
                // The whole prompt has the limit that a length has.
                let own = drawn.input.tokens(index).min(MAX_TOKENS - group.map_or(0, |(_, tokens)| tokens));
                DrawnPrompt {
                    input_tokens: own.saturating_add(group.map_or(0, |(_, tokens)| tokens)),
                    query_tokens: drawn.query.as_mut().map(|lengths| lengths.tokens(index)),
                    recorded_output: None,
                    said_before: 0,
                    seed: drawn.seeds.at(index),
                    row: None,
                    group: group.map(|(group, _)| group),
                }
            }
            Self::Rows(rows) => row_prompt(rows, rows.row(phase, index)),
        }
    }
}

fn row_prompt(rows: &Rows, row: u64) -> DrawnPrompt {
    let indexed = rows.index().row(row);
    DrawnPrompt {
        input_tokens: indexed.map_or(0, |row| row.input_tokens),
        query_tokens: None,
        recorded_output: indexed.and_then(|row| row.output_tokens),
        said_before: indexed.filter(|row| row.continues).map_or(0, |row| row.reused_tokens),
        seed: row,
        row: Some(row),
        group: None,
    }
}

impl Iterator for Requests {
    type Item = ScheduledRequest;

    fn next(&mut self) -> Option<ScheduledRequest> {
        if self.sessions.is_some() {
            return self.next_of_sessions();
        }
        let index = self.next;
        if index >= self.end {
            return None;
        }
        let offset_ns = self.arrivals.as_mut().map(|arrivals| arrivals.offset_ns(index).saturating_add_unsigned(self.begins_ns));
        if offset_ns.zip(self.ends_ns).is_some_and(|(offset, end)| offset.unsigned_abs() >= end) {
            self.end = index;
            return None;
        }
        self.next = index.saturating_add(self.step);
        let prompt = self.prompts.at(self.phase, index, false);
        Some(self.request_of(index, offset_ns, &prompt))
    }
}

impl Requests {
    /// Returns the request with this prompt at an index.
    fn request_of(&mut self, index: u64, offset_ns: Option<i64>, prompt: &DrawnPrompt) -> ScheduledRequest {
        ScheduledRequest {
            global_index: index,
            offset_ns,
            input_tokens: prompt.input_tokens,
            query_tokens: prompt.query_tokens,
            output_tokens: self.output.as_mut().map(|lengths| lengths.tokens(index)).or(prompt.recorded_output),
            prompt_seed: prompt.seed,
            row: prompt.row,
            group: prompt.group,
            turn: None,
            cancel_after_ns: self.cancel_after_ns(index),
            adapter: self.adapters.as_mut().map(|adapters| adapters.at(index)),
            request_id: u128::from(self.ids.at(2 * index)) << 64 | u128::from(self.ids.at(2 * index + 1)),
        }
    }

    /// Returns the time to the cancellation of a request, which its value of the concern `cancel` decides: it is cancelled below the share.
    fn cancel_after_ns(&mut self, index: u64) -> Option<u64> {
        let (cancel, draws) = self.cancellations.as_mut()?;
        (draws.unit_f64(index) < cancel.share).then_some(cancel.after_ns.0)
    }

    fn next_of_sessions(&mut self) -> Option<ScheduledRequest> {
        let Self { sessions, arrivals, phase, end, ends_ns, .. } = self;
        if *phase == Phase::WarmUp && *end == 0 {
            return None;
        }
        let mut cursor = sessions.as_mut()?.take_current(arrivals.as_mut(), *ends_ns)?;
        let request = self.next_turn(&mut cursor);
        self.sessions.as_mut()?.keep_current(cursor);
        request
    }

    /// Returns the next session of the shard, before its first turn; `None` if there are no more, or if requests are no turns of sessions. Of users,
    /// these are their first sessions, each of which has a [`successor`](Self::successor).
    pub fn next_session(&mut self) -> Option<SessionCursor> {
        let Self { sessions, arrivals, phase, end, ends_ns, .. } = self;
        if *phase == Phase::WarmUp && *end == 0 {
            return None;
        }
        sessions.as_mut()?.next(arrivals.as_mut(), *ends_ns)
    }

    /// Returns the next turn of a session that is sent; `None` after its last one. Turns may be drawn by any copy of these requests.
    pub fn next_turn(&mut self, cursor: &mut SessionCursor) -> Option<ScheduledRequest> {
        let walk = self.sessions.as_mut()?;
        let turn = (cursor.next_turn..cursor.turns).find(|turn| walk.is_sent(cursor, *turn))?;
        cursor.next_turn = turn;
        if walk.is_past_end(cursor, turn) {
            return None;
        }
        let (index, offset_ns) = (walk.index_of(cursor, turn), walk.offset_ns(cursor, turn));
        let (pause_ns, stream, planned_ns) = (walk.pause_ns(cursor, turn), walk.stream(cursor, turn), walk.planned_ns(cursor));
        let prompt = match (cursor.first_row, &self.prompts) {
            (Some(first), DrawnPrompts::Rows(rows)) => row_prompt(rows, first.saturating_add(u64::from(turn))),
            _ => self.prompts.at(self.phase, index, turn > 0),
        };
        let mut request = self.request_of(index, offset_ns, &prompt);
        request.adapter = self.adapters.as_mut().map(|adapters| adapters.at(cursor.session));
        let own_tokens = prompt.input_tokens.saturating_sub(prompt.said_before);
        if prompt.row.is_none() {
            request.input_tokens = cursor.history_tokens.saturating_add(own_tokens);
        }
        request.turn = Some(SessionTurn {
            session: cursor.session,
            turn,
            turns: cursor.sent,
            pass: cursor.pass,
            stream,
            pause_ns,
            planned_ns,
            own_tokens,
            sent_before: cursor.sent_tokens,
        });
        cursor.next_turn += 1;
        cursor.sent_tokens = request.input_tokens;
        cursor.history_tokens = request.input_tokens.saturating_add(request.output_tokens.unwrap_or(0));
        Some(request)
    }

    /// Returns the session that a user plays after this one, before its first turn; `None` if that would begin at the end of the trial, and unless
    /// sessions are those of users.
    pub fn successor(&mut self, session: &SessionCursor) -> Option<SessionCursor> {
        self.sessions.as_mut()?.successor(session)
    }

    /// Returns the time at which the next turn of a session is planned, in nanoseconds since the trial's start; `None` if the schedule has none.
    pub fn planned_ns(&self, session: &SessionCursor) -> Option<i64> {
        self.sessions.as_ref()?.offset_ns(session, session.next_turn)
    }

    /// Returns the turns with which a session begins, in the order in which they are due; none unless requests are turns of sessions. It is the
    /// first turn, unless the session begins in its middle.
    pub fn beginnings(&mut self, session: &SessionCursor) -> Vec<Beginning> {
        self.sessions.as_mut().map_or_else(Vec::new, |walk| walk.beginnings(session))
    }

    /// Returns the turns that bring the history of a session into a cache: the last one before its start of each stream that has begun by then
    /// and goes on after it. None if the session begins with its first turn.
    pub fn history_turns(&self, session: &SessionCursor) -> Vec<u32> {
        self.sessions.as_ref().map_or_else(Vec::new, |walk| walk.history_turns(session))
    }

    /// Returns a turn of a session, sent or not.
    pub fn turn(&mut self, session: &SessionCursor, turn: u32) -> Option<ScheduledRequest> {
        self.next_turn(&mut SessionCursor { begins_ns: 0, ..session.at(turn) })
    }

    /// Returns the turns of a session that wait for the end of one of its turns; none unless requests are turns of sessions.
    pub fn followers(&mut self, session: &SessionCursor, turn: u32) -> Vec<Follower> {
        self.sessions.as_mut().map_or_else(Vec::new, |walk| walk.followers(session, turn))
    }
}

#[cfg(test)]
mod length_tests;
#[cfg(test)]
mod profile_tests;
#[cfg(test)]
mod reuse_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace_session_tests;
#[cfg(test)]
mod users_tests;
