//! Raw records: one Parquet file for each shard of an attempt, one row for each request that was due.
//!
//! [`RecordWriter`] streams with bounded memory; [`RecordFile`] returns rows to tools, and batches of a few columns to code that
//! computes statistics. Integers are delta-encoded and compressed, so that a chunk of a stream costs a few bytes. Equal records
//! in equal order give equal bytes.

mod column;
mod error;
mod positioned;
mod read;
mod write;

pub use column::{RecordColumn, RecordKind, record_schema};
pub use error::RecordError;
pub use read::{Batch, Batches, ChunkLists, Ints, RecordFile, Records};
pub use write::RecordWriter;

/// The most token events of one record: a response of a million tokens.
pub const MAX_CHUNKS: usize = 1 << 20;
/// The longest finish reason of the endpoint, in bytes; a longer one is cut.
pub const MAX_FINISH_REASON_BYTES: usize = 32;
/// The longest text of an error, in bytes; a longer one is cut.
pub const MAX_ERROR_BYTES: usize = 200;
/// The most rows of a row group, and so a bound of the memory of a writer.
const ROW_GROUP_ROWS: usize = 128 * 1024;
/// The number of chunks of a row group beyond which a new one begins: the other bound, some 30 MiB encoded.
const ROW_GROUP_CHUNKS: usize = 4 << 20;

/// A result with this module's error.
type Result<T, E = RecordError> = std::result::Result<T, E>;
