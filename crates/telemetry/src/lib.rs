//! Telemetry sources: the host of the load, the targets' endpoints, exporters, Prometheus servers and GPUs that a pipeline names, and
//! the objects of the cluster.
//!
//! Each source is one module. It states how the source is sampled, the names and lines of its files, its metrics with their units,
//! and its rule of coverage. The recorder samples what [`sampled`] lists, collect states the coverage of each attempt by the
//! sources that [`observing`] lists ([`Coverage`]), and reduce turns the recordings into one [`Slice`] for each attempt and source
//! ([`Slices`]); none of them names a source.
//!
//! Nothing here does I/O: requests are described as [`Sampling`], and files are read through what the caller opens.

pub mod cluster;
mod coverage;
mod endpoint;
mod energy;
mod error;
mod exporter;
mod exposition;
mod gpus;
mod host;
mod keys;
mod line;
mod metric;
pub mod nvidia_smi;
pub mod prometheus;
mod recording;
mod slice;
mod source;
mod sweep;
mod text;
pub mod traces;

pub use coverage::{Coverage, describe_gaps, span};
pub use endpoint::QueueDelays;
pub use endpoint::counters::{CountedQuantity, Counter, Counters, Growth, Scrape, counters, growth};
pub use energy::{EnergyFault, EnergyUse, MeteredEnergy};
pub use error::{Error, ReadError};
pub use exporter::with_default_path;
pub use gpus::{LabelOrigin, LabelledGpu, MAX_LABELLED_GPUS};
pub use keys::ObjectKeys;
pub use line::{CounterLine, LineFormat, ScrapeLine, each_reading};
pub use metric::{MetricKind, unit_by_name};
pub use recording::{BlockSource, MAX_RECORDINGS, OpenArtifact};
pub use slice::{AttemptWindow, MAX_METRICS, MAX_NAME_BYTES, Slice, Statistics, ValueStatistics};
pub use source::{Sampled, Sampling, Scope, ScrapeAddress, Source, observing, sampled};
pub use sweep::Slices;
