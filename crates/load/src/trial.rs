//! What a trial is, for the load generator.

use crate::{Api, Endpoint, Error};

/// One trial of one shard: where to, how much, for how long, and what to keep.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Where the requests go.
    pub endpoint: Endpoint,
    /// Which of its interfaces they use.
    pub api: Api,
    /// Whether the bodies ask for streamed answers.
    pub streaming: bool,
    /// What makes a request due.
    pub arrivals: Arrivals,
    /// The instant of [`assay_reactor::now_ns`] at which the trial starts; every time of its records counts from it.
    pub start_at_ns: i64,
    /// How long the warm-up lasts, in nanoseconds. Its requests are not waited for: they flow over into the measured phase.
    pub warmup_ns: i64,
    /// When the measured phase ends.
    pub measured: Measured,
    /// How long one request may take, in nanoseconds, from when the client turned to it.
    pub timeout_ns: i64,
    /// How long requests may take to end after the measured phase, in nanoseconds.
    pub drain_ns: i64,
    /// Whose token events are listed one by one.
    pub chunk_lists: ChunkLists,
    /// What is kept of the answers' text.
    pub capture: Capture,
    /// Sent as `user-agent`.
    pub user_agent: String,
}

/// What makes a request due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// A fixed number of users, each of whom sends when its last request has ended. A user whose connection could not be made, or
    /// was closed without a response, waits 10 ms before the next, so that an endpoint that refuses is not hammered.
    Closed {
        /// How many, of this shard.
        users: u32,
    },
    /// The schedule: [`Planned::intended_offset_ns`](crate::Planned::intended_offset_ns).
    Open {
        /// Requests under way at once, at most; one that falls due beyond them is dropped, and is a record.
        max_in_flight: u32,
    },
}

/// When the measured phase ends: at whichever comes first, or when there are no more requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// After this long, in nanoseconds.
    pub duration_ns: Option<i64>,
    /// When this many measured requests, of this shard, have fallen due.
    pub requests: Option<u64>,
}

/// Whose token events are listed one by one. First and last stamps and counts are kept for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkLists {
    /// Every request's.
    #[default]
    All,
    /// Those of requests whose global index is a multiple of this.
    SampledEvery(u64),
}

/// What is kept of the answers' text: reasoning, content and tool text, in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// Nothing.
    None,
    /// Its SHA-256, in the record.
    #[default]
    Digest,
    /// Its SHA-256, and the text, which the sink is given.
    Full,
}

impl ChunkLists {
    /// Whether this request's token events are listed.
    pub(crate) fn lists(self, global_index: u64) -> bool {
        match self {
            Self::All => true,
            Self::SampledEvery(every) => every != 0 && global_index.is_multiple_of(every),
        }
    }
}

impl Trial {
    /// Requests that may be under way at once.
    pub(crate) fn max_in_flight(&self) -> u32 {
        match self.arrivals {
            Arrivals::Closed { users } => users,
            Arrivals::Open { max_in_flight } => max_in_flight,
        }
    }

    /// Refuses what makes no sense.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let problem = |problem| Err(Error::Trial { problem });
        if self.max_in_flight() == 0 {
            return problem("it may have no request under way; give it users, or a limit above 0");
        }
        if self.warmup_ns < 0 || self.drain_ns < 0 || self.measured.duration_ns.is_some_and(|duration| duration < 0) {
            return problem("a duration is negative");
        }
        if self.timeout_ns <= 0 {
            return problem("the time limit of a request is not above 0");
        }
        if self.api == Api::Embeddings && self.streaming {
            return problem("embeddings are not streamed");
        }
        Ok(())
    }
}
