//! The reference inference endpoint: it plans the instant of every chunk that it sends, follows the plan, and reports the truth
//! about both.
//!
//! It is used to check a load generator: the measured times are compared with the planned and the sent ones, chunk by chunk.
//!
//! - [`Model`] is the engine, pure and in virtual time: arrivals go in, planned events come out. With [`PerRequest`] each request has
//!   latencies of its own; with [`Batching`] all requests share the steps of an engine.
//! - [`Server`] serves a model over HTTP/1.1 as an OpenAI-compatible endpoint and records the [`Truth`] of every request.
//! - [`simulate`] runs a model without sockets or a clock, and returns the records that a perfect client would have made.
//!   `assay-simulator predict` prints the measurements of such a client.
//!
//! **Randomness.** Every draw is keyed by the seed and by the request itself: by its `x-request-id` if it has one, else by its
//! endpoint and prompt and the number of equal ones before it. Within a request a draw is identified by its purpose and position.
//! So the same requests get the same draws in any order of arrival; only queueing, load and the prefix cache depend on the order,
//! as they should.

mod config;
mod deployment;
mod draw;
mod engine;
mod fault;
mod listen;
mod metrics;
mod model;
mod predict;
mod program;
mod server;
mod settings;
mod simulation;
mod truth;
mod words;

pub use config::{Config, EngineConfig, LengthDistribution, Limits, Profile, UnknownProfile};
pub use draw::{Concern, RequestKey, Seed, SeedError};
pub use engine::{Engine, MAX_STALLS, Stall, TooManyStalls};
pub use fault::{Fault, FaultError};
pub use listen::ListenAddress;
pub use model::{
    Arrival, Batching, BatchingConfig, Channel, CoTenant, Event, EventKind, Latency, Model, Occupancy, PerRequest, SlowRequests,
    StepTime,
};
pub use program::main;
pub use server::{RunningServer, ServeError, Server, Stopper};
pub use settings::{Settings, SettingsError};
pub use simulation::{LaterTurn, Load, SimulatedRequest, SimulatedTurn, Simulation, simulate};
pub use truth::{ChunkTruth, Ending, RequestTruth, Truth, TruthEnd};
