//! The load generator: sends requests to one endpoint, closed loop or open loop, and records the outcome of each.
//!
//! It is only an engine: it knows no manifests, stores, specs or file formats. The caller supplies the requests ([`Requests`])
//! and receives the results in its [`Sink`], one [`Record`](assay_record::Record) for each request that was due; [`run`] does the
//! rest and reports the health of the client in [`TrialSummary`].
//!
//! # Design
//!
//! Three threads. The *feeder* prepares requests ahead of time, down to their bytes. The *event loop*, which is the thread that
//! calls [`run`], owns every connection: it waits for sockets and for the next due time, writes, reads, takes one stamp for each
//! read before any parsing, and follows the responses with incremental parsers. The *writer* passes finished records to the sink.
//! Bounded queues connect them; the loop blocks on none of them, and allocates nothing for an event.
//!
//! A trial of [`Sessions`] ([`run_sessions`]) has a fourth: the *turn feeder* prepares the later turns of sessions ([`Turns`]). Its
//! queues hold at most one turn of each session that has begun.
//!
//! # Guarantees
//!
//! - Every request that was due becomes exactly one record, with one outcome. No request is retried or silently deferred: an
//!   open-loop request that is sent late records its lateness, and one that could not be sent is a record of its own.
//! - A turn of a session is due at the end of the response to the turn before, by its stamp, plus the pause. It is never sent
//!   before that, and if it is sent later, for any reason, its record shows the lateness.
//! - Time counts from the intended instant. The schedule is never re-anchored: after a stall of the client the requests that
//!   became due meanwhile are sent at once, late, and record it.
//! - A request that is to be cancelled is [`Cancelled`](assay_record::Outcome::Cancelled) from its time on, counted from its last byte: what is
//!   read later, because the client is late, does not count. What ends before is not cancelled.
//! - A request's stamps are of the read that brought the bytes. Events that came with one read have one stamp, because that is
//!   all that is known of them.
//! - A request is written on another connection only if the server provably has not read it: its kept-alive connection was closed
//!   before the request was written, or the kernel refused the first byte of it. These are counted (`resends`). If the server
//!   closes the connection later, it may have read the request, and so the request has failed (`connection_closed`): otherwise a
//!   worker that crashes would not be visible.

mod address;
mod budget;
mod connection;
mod delay;
mod endpoint;
mod error;
mod feeder;
mod http2;
mod meter;
mod output;
mod progress;
mod requests;
mod response;
mod run;
mod summary;
mod tls;
mod transport;
mod trial;
mod turn_feeder;
mod validity;

pub use address::{EndpointAddress, MAX_SOCKET_PATH_BYTES, split_unix_url};
pub use assay_api::ServingApi;
pub use endpoint::{Endpoint, EndpointPaths, listen_address};
pub use error::{Cause, Error};
pub use http2::is_http2;
pub use output::Sink;
pub use progress::{Progress, ProgressSnapshot};
pub use requests::{Beginning, NextTurn, PlannedRequest, PlannedTurn, Requests, ResponseText, Successor, Turns};
pub use response::{MAX_DOCUMENT_BYTES, sse};
pub use run::{SPARE_FILES, most_connections, most_files, run, run_sessions};
pub use summary::{ClientStats, Counts, Delays, Lateness, TrialSummary};
pub use tls::{ClientCertificate, TlsSettings, client_certificate_problem};
pub use trial::{
    Arrivals, Capture, ChunkLists, Connections, CustomCall, ErrorLimit, Excess, History, MeasuredLimits, OverSaturation,
    RecentErrors, Sessions, Trial,
};
pub use validity::{DELAY_GRAIN, FLOOD_BYTES};

#[doc(hidden)]
pub mod parse {
    //! The parsers alone, for benchmarks and fuzzing: not part of the public API.
    pub use crate::response::{follow, record_of, record_of_pieces};
}
