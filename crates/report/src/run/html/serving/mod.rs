//! The pictures of serving: throughput against latency, latency distributions to their tails, and trials and requests over time.

mod distributions;
mod pareto;
mod throughput;
mod time_slices;
mod timelines;
mod workload;

pub(super) use distributions::distribution_figures;
pub(super) use throughput::throughput_figures;
pub(super) use time_slices::{has_time_slices, time_slice_figures};
pub(super) use timelines::{has_timelines, timeline_figures};
