//! A content-addressed store for all outputs of a run.
//!
//! Evidence is a *blob*: immutable bytes whose only name is their digest. *Pointers* bind blobs to runs: they are small objects
//! under readable paths, each created exactly once. Only
//! [`Removal`] deletes, and only blobs of a store in a folder and what killed writers left.
//!
//! ```text
//! blobs/sha256/<first two digits>/<64 digits>   blobs
//! runs/<run id>/<stage>/..                      pointers; any path outside `blobs` and `staging` may be one
//! warehouse/<table>/..                          an area: objects that a table's own log binds together, see [`Area`]
//! staging/<random>                              half-written objects, never read
//! ```
//!
//! The calls block, because stages are blocking code. Each call hashes the bytes that it reads and trusts no name: bytes that do
//! not match their digest are never returned, and the next `put` of the true bytes repairs them with a warning.
//!
//! # Durability
//!
//! A crash of the process leaves no half object under a final name, on any backend: objects are written elsewhere and named when
//! complete. Unfinished objects are left under `staging/` of a local folder and may be removed when nothing runs.
//!
//! A power cut or a crash of the system:
//!
//! * In a **local folder**, bytes are synced to disk (`fdatasync`) before they get their name, and a pointer's folders are synced
//!   after it was named. So a pointer survives whole once [`Store::create`] has returned. On file systems with one ordered
//!   journal (ext4, XFS) so does every blob put before it; elsewhere the newest blobs may be missing, which `get` reports by name
//!   and a repeated `put` repairs. Disks and virtual machines that ignore flushes void this.
//! * A **bucket** keeps each write that its service has acknowledged, with the durability that the service documents. Pointers
//!   are created by conditional writes (`If-None-Match: *`), large files of an area by the conditional completion of a multipart
//!   copy. A service without these is refused by name when a run starts. A writer that is killed leaves unfinished uploads and
//!   objects under `staging/`, which a lifecycle rule may remove after a day.
//! * **Memory** survives nothing, not even its process.

mod area;
mod backend;
mod bucket;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod folder;
mod layout;
mod objects;
mod removal;
mod scratch;
mod store;
mod uri;

pub use area::Area;
pub use error::Error;
pub use folder::check_links;
pub use layout::MAX_PATH_BYTES;
pub use objects::{Object, ObjectPath, Objects};
pub use removal::{GRACE, OldScratch, Removal};
pub use scratch::{Scratch, ScratchFile};
pub use store::{CreateOutcome, MAX_LISTED, MAX_POINTER_BYTES, Store};

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
