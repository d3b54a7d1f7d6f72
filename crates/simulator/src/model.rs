//! The engine behind the endpoint: a state machine in virtual time that plans the absolute instant of everything that it does.

mod per_request;
mod prefix_cache;
mod slowness;

pub use per_request::{Latency, PerRequest};
pub use slowness::{CoTenant, SlowRequests};

use serde::{Deserialize, Serialize};

use crate::draw::RequestKey;

/// An inference engine in virtual time, in nanoseconds from any origin.
///
/// A model is told of arrivals and cancellations and asked how far time has come; it answers with events, each at the instant
/// that it planned for it. It reads no clock and draws nothing but what a request's key gives, so the same calls
/// give the same events. Being asked late changes nothing: an event keeps its planned instant, and what follows from it (a waiting
/// request's turn, say) is planned from there.
///
/// A model may plan each event as late as its own steps need: only [`Model::next_ns`] has to be known ahead. So a model whose
/// requests share the steps of a batch fits as well as one that serves each request by itself.
pub trait Model: Send {
    /// The engine starts, before all else: what it counts from its start counts from here. An engine that is told of no start has
    /// started at 0.
    fn start(&mut self, at_ns: i64);

    /// A request arrives. Time never goes backwards: an instant before the latest one that the model knows counts as that one.
    /// Whatever is due until then comes first.
    fn arrive(&mut self, at_ns: i64, arrival: Arrival);

    /// The client of a request has left. What is not planned yet never comes; an unknown request is ignored.
    fn cancel(&mut self, at_ns: i64, request: u64);

    /// When the next event is due, if any is to come without further arrivals. It may be too early (nothing comes then), never
    /// too late.
    fn next_ns(&self) -> Option<i64>;

    /// Appends every event that is due until `to_ns`, itself included, in the order of their instants.
    fn advance(&mut self, to_ns: i64, events: &mut Vec<Event>);

    /// How full the engine is.
    fn occupancy(&self) -> Occupancy;

    /// Forgets all cached prefixes.
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
    /// Names the request in events; never used twice.
    pub request: u64,
    /// What its draws are keyed by.
    pub key: RequestKey,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its answer; none where only the prompt is worked through, as for an embedding.
    pub output_tokens: u32,
    /// The first so many of them are reasoning.
    pub reasoning_tokens: u32,
    /// A hash of every full block of its prompt, each of them over all that is before it as well.
    pub prefix_blocks: Vec<u64>,
}

/// Something that an engine does at a planned instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the plan.
    pub at_ns: i64,
    /// For which request.
    pub request: u64,
    /// What.
    pub kind: EventKind,
}

/// What an engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The request leaves the queue and begins to run.
    Admitted {
        /// Tokens of its prompt that need no work, because they were found in the prefix cache.
        cached_tokens: u32,
    },
    /// Tokens go out together.
    Chunk {
        /// How many; at least one.
        tokens: u32,
        /// On which channel.
        channel: Channel,
    },
    /// The request is done; it follows the last chunk at the same instant.
    Finished,
}

/// The part of an answer that tokens belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The answer itself.
    Content,
    /// What is thought before it.
    Reasoning,
}

/// How full an engine is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Requests that run.
    pub running: u32,
    /// Requests that wait for their turn.
    pub waiting: u32,
    /// The share of its cache memory that running requests hold, from 0 to 1.
    pub kv_usage: f64,
}
