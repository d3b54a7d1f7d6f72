//! The engine behind the endpoint: a state machine in virtual time that plans the absolute instant of each of its actions.

mod batching;
mod per_request;
mod prefix_cache;
mod slowness;

pub use batching::{Batching, BatchingConfig, StepTime};
pub use per_request::{Latency, PerRequest};
pub use slowness::{CoTenant, SlowRequests};

use serde::{Deserialize, Serialize};

use crate::draw::RequestKey;

/// An inference engine in virtual time, in nanoseconds from any origin.
///
/// The caller reports arrivals and cancellations to a model and advances its time; the model returns events, each with its
/// planned instant. It reads no clock and its only randomness is a request's key, so the same calls give the same events. A late
/// call changes nothing: an event keeps its planned instant, and its consequences (the start of a queued request, for example)
/// are planned from there.
///
/// A model may plan each event as late as its own steps need: only [`Model::next_ns`] has to be known ahead. So the requests of
/// [`Batching`] share the steps of a batch, and [`PerRequest`] serves each one by itself.
pub trait Model: Send {
    /// Starts the engine, before any other call: its episodes count from here. An engine without this call has started at 0.
    fn start(&mut self, at_ns: i64);

    /// Reports the arrival of a request. Time never goes backwards: an instant before the latest one that the model knows counts
    /// as that one. Events that are due until then come first.
    fn arrive(&mut self, at_ns: i64, arrival: Arrival);

    /// Reports that the client of a request has left. Events that are not planned yet never come; an unknown request is ignored.
    fn cancel(&mut self, at_ns: i64, request: u64);

    /// Returns the time of the next event, if there is one without further arrivals. It may be too early (no event comes then),
    /// never too late.
    fn next_ns(&self) -> Option<i64>;

    /// Appends every event that is due until `to_ns`, inclusive, in the order of their instants.
    fn advance(&mut self, to_ns: i64, events: &mut Vec<Event>);

    /// Returns the load of the engine.
    fn occupancy(&self) -> Occupancy;

    /// Clears the prefix cache.
    fn reset_prefix_cache(&mut self);
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn start(&mut self, at_ns: i64) {
        (**self).start(at_ns);
    }

    fn arrive(&mut self, at_ns: i64, arrival: Arrival) {
        (**self).arrive(at_ns, arrival);
    }

    fn cancel(&mut self, at_ns: i64, request: u64) {
        (**self).cancel(at_ns, request);
    }

    fn next_ns(&self) -> Option<i64> {
        (**self).next_ns()
    }

    fn advance(&mut self, to_ns: i64, events: &mut Vec<Event>) {
        (**self).advance(to_ns, events);
    }

    fn occupancy(&self) -> Occupancy {
        (**self).occupancy()
    }

    fn reset_prefix_cache(&mut self) {
        (**self).reset_prefix_cache();
    }
}

/// A request as a model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The id of the request in events; never reused.
    pub request: u64,
    /// The key of its draws.
    pub key: RequestKey,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its response; 0 if only the prompt is processed, as for an embedding.
    pub output_tokens: u32,
    /// The number of its first tokens that are reasoning.
    pub reasoning_tokens: u32,
    /// A hash of every full block of its prompt, each including all tokens before it.
    pub prefix_blocks: Vec<u64>,
}

/// An action of an engine at a planned instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The planned instant.
    pub at_ns: i64,
    /// The request.
    pub request: u64,
    /// The action.
    pub kind: EventKind,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The request leaves the queue for the first time and begins to run.
    Admitted {
        /// Tokens of its prompt that were found in the prefix cache and need no work.
        cached_tokens: u32,
        /// Tokens after them that had been in the prefix cache and were evicted: a cache without limit would have found these, too.
        evicted_tokens: u32,
        /// Blocks that were evicted from the prefix cache to make room for its prompt.
        evictions: u32,
    },
    /// The request goes back to the head of the queue, and all that was computed for it is computed again. No token is sent again.
    Preempted,
    /// Tokens are sent together.
    Chunk {
        /// Their number; at least one.
        tokens: u32,
        /// Their channel.
        channel: Channel,
    },
    /// The request is done; it follows the last chunk at the same instant.
    Finished,
}

/// The part of a response that tokens belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The content.
    Content,
    /// The reasoning before it.
    Reasoning,
}

/// The load of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Running requests.
    pub running: u32,
    /// Queued requests.
    pub waiting: u32,
    /// The share of its KV cache that running requests hold, from 0 to 1.
    pub kv_usage: f64,
    /// Preemptions so far.
    pub preemptions: u64,
    /// Blocks in the prefix cache.
    pub cached_blocks: u64,
    /// Blocks that were evicted from the prefix cache so far.
    pub evictions: u64,
    /// Those of them that there was no room to remember: that they are missed later is not recognised.
    pub forgotten_evictions: u64,
}
