//! The load generator: offers requests to one endpoint, closed loop or open loop, and writes down what became of each.
//!
//! It is an engine and nothing else: it knows of no manifests, stores, specs or file formats. What is sent is the caller's
//! ([`Requests`]); what became of it goes to the caller's [`Sink`], one [`Record`](assay_record::Record) for each request that
//! was due; [`run`] does the rest and says in [`Finished`] how well it did it.
//!
//! # How it is built
//!
//! Three threads. The *feeder* prepares requests ahead of their time, bytes and all. The *loop*, which is the thread that calls
//! [`run`], holds every connection: it waits for sockets and for the next due time, writes, reads, takes one stamp for each read
//! before anything is parsed, and follows the answers with parsers that take bytes as they come. The *writer* hands finished
//! records to the sink. Between them stand bounded queues; the loop blocks on none of them, and allocates nothing for an event.
//!
//! # What it promises
//!
//! - Every request that was due ends as exactly one record, with one outcome. Nothing is retried and nothing is deferred in
//!   silence: an open-loop request that is sent late says how late, one that could not be sent is a record of its own.
//! - Time counts from the intended instant. The schedule is never re-anchored: after a stall of the client the requests that
//!   fell due meanwhile go out at once, late, and say so.
//! - A request's stamps are of the read that brought the bytes. Events that came with one read have one stamp, which is the
//!   truth about them.
//! - A request is written on another connection only if the server provably has not read it: its kept-alive connection was closed
//!   before the request was written, or the kernel refused the first byte of it. These are counted (`resends`). If the server closes
//!   the connection later, it may have read the request, and so the request has failed (`connection_closed`): else a worker that
//!   crashes would show nowhere.

mod answer;
mod connection;
mod delay;
mod endpoint;
mod error;
mod feed;
mod finished;
mod meter;
mod output;
mod progress;
mod requests;
mod run;
mod transport;
mod trial;
mod validity;

pub use endpoint::{Api, Base, Endpoint};
pub use error::{Cause, Error};
pub use finished::{Client, Counts, Delays, Finished, Lateness};
pub use output::Sink;
pub use progress::{Progress, Reading};
pub use requests::{Planned, Requests};
pub use run::run;
pub use trial::{Arrivals, Capture, ChunkLists, Measured, Trial};
pub use validity::{DELAY_GRAIN, MAX_DELAY_SHARE, MAX_LATENESS_P99, MAX_STALL, MIN_SENT_SHARE};

#[doc(hidden)]
pub mod parse {
    //! The parsers alone, for benchmarks: not part of the interface.
    pub use crate::answer::follow;
}
