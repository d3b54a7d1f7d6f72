//! Hot metrics: the headline numbers of a run as gauges of a time-series store, for dashboards and alerts.
//!
//! - [`Batch::of_run`] makes the series of a published run: names from one registry, and no label but the eight of [`HotLabel`].
//! - [`check_budget`] counts them before anything is sent.
//! - A protocol is one module that encodes a batch into requests: remote write, Pushgateway, OTLP.
//! - [`push`] sends them, and returns a receipt for each receiver.
//!
//! A sample has the time of the end of the measurement, so to push a run again changes nothing. All of it except [`push`] does no I/O.

mod active;
mod batch;
mod budget;
mod error;
mod name;
mod otlp;
mod place;
mod protocol;
mod push;
mod pushgateway;
mod receipt;
mod reference;
mod remote_write;

pub use active::ACTIVE_WINDOW_HOURS;
pub use assay_spec::HotLabel;
pub use batch::{Batch, Gauge, PublishedRun, Sample};
pub use budget::check_budget;
pub use error::Error;
pub use place::{CasePlace, case_places};
pub use push::{Pause, Pushed, check_headers, push};
pub use receipt::{Outcome, Receipt};
pub use reference::reference_page;
