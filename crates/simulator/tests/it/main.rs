//! The endpoint as its clients see it, and the plan that only a simulation can see.

mod apis;
mod batching;
mod client;
mod fault;
mod plan;
mod predict;
mod program;
mod protocol;
mod truth;
mod unix;
