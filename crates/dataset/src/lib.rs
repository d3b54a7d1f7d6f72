//! Datasets: files of prompts and traces of requests, in the formats that the field uses, imported into one form.
//!
//! The plan stage imports a dataset once. [`import`] reads a format of text row by row ([`import_parquet_row`] a row that the warehouse's reader has
//! made an object of), [`RowWriter`] applies the rules of the workload (which
//! prompts are too long, and what becomes of them), counts tokens, and writes two artifacts: the rows as JSON Lines, and an
//! [index](Index) of fixed size per row with its place, its time and its token counts. Everything after the plan knows these two and no format:
//! the schedule draws rows from the index, and the load generator reads single rows from the other with a [`RowReader`].
//!
//! A row is one request, or one turn of a [`Conversation`]: if the workload sends whole conversations, each becomes a run of rows, of which the
//! index marks all but the first. So does a session of a trace, whose turns have times and pauses as well.
//!
//! Files are hostile until they are imported: every row has a size limit, no more than one row of the file is in memory, and an error names the row and
//! never quotes its text, which may be private.

mod body;
mod conversation;
mod error;
mod forks;
mod import;
mod index;
mod reader;
mod roles;
mod row;
mod session;
mod trace;
mod writer;

pub use assay_manifest::MessageRole;
pub use conversation::{Conversation, Turn};
pub use error::DatasetError;
pub use import::{Fields, MAX_ROW_BYTES, MAX_ROW_VALUES, import, import_parquet_row, parquet_columns};
pub use index::{
    INDEX_FORMAT, Index, IndexError, IndexedRow, IndexedSession, MAX_ROWS, MAX_TRACE_TURNS, RecordedPause, TRACE_SESSIONS_FORMAT,
    TurnLink,
};
pub use reader::{RowError, RowReader};
pub use roles::BlockMessage;
pub use row::{
    FileRow, LeftOut, LeftOutReason, Row, RowContent, RowTime, TokenBlocks, TraceSession, TraceStream, TurnCourse, message_texts,
    plain_messages,
};
pub use writer::{ImportRules, ImportSummary, MAX_BLOCKS, RecordedOutput, RowWriter, TextTokens, TimeRules};
