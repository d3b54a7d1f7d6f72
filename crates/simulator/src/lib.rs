//! The reference inference endpoint: it plans the instant of every chunk that it sends, keeps to the plan, and tells the truth
//! about both.
//!
//! A load generator is checked against it: what it measured stands beside what was planned and what was sent, chunk by chunk.
//!
//! - [`Model`] is the engine, pure and in virtual time: arrivals go in, planned events come out. [`PerRequest`] is the first one.
//! - [`Server`] serves a model over HTTP/1.1 as an OpenAI-compatible endpoint and notes the [`Truth`] of every request.
//! - [`simulate`] runs a model with no sockets and no clock, and gives the records that a perfect client would have seen.
//!   `assay-simulator predict` prints what such a client measures.
//!
//! **What is random, and by what.** Every draw is keyed by the seed and by the request itself: its `x-request-id` where it
//! carries one, else its endpoint and prompt and how many equal ones came before it. Within a request a draw is known by what it
//! is for and by its place. So the same requests get the same draws in whatever order they come; what does depend on the
//! order is what should: queueing, load and the prefix cache.

mod config;
mod draw;
mod engine;
mod fault;
mod model;
mod predict;
mod program;
mod server;
mod settings;
mod simulation;
mod truth;
mod words;

pub use config::{Config, Limits, OutputLaw, Profile, UnknownProfile};
pub use draw::{Concern, RequestKey, Seed, SeedError};
pub use engine::{Engine, MAX_STALLS, Stall, TooManyStalls};
pub use fault::{Fault, FaultError};
pub use model::{Arrival, Channel, CoTenant, Event, EventKind, Latency, Model, Occupancy, PerRequest, SlowRequests};
pub use program::main;
pub use server::{RunningServer, ServeError, Server, Stopper};
pub use settings::{Settings, SettingsError};
pub use simulation::{Due, Load, Simulation, simulate};
pub use truth::{ChunkTruth, Ending, RequestTruth, Truth, TruthEnd};
