//! The endpoint as its clients see it, and the plan as nobody but a simulation can.

mod client;
mod fault;
mod plan;
mod predict;
mod program;
mod protocol;
mod truth;
