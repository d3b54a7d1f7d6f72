//! The pictures of serving: throughput against latency, latency distributions to their tails, and requests over time.

mod distributions;
mod throughput;
mod timelines;
mod workload;

pub(super) use distributions::distribution_figures;
pub(super) use throughput::throughput_figures;
pub(super) use timelines::{has_timelines, timeline_figures};
