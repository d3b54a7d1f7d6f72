//! The protocol between a client that runs a query and `assay-sql`, the program that executes it.
//!
//! The request is one JSON document on the program's stdin. The reply is one JSON document on a line of its own on its stdout,
//! and after [`Reply::Result`] the rows as a Parquet file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ResultColumn;

/// The program's name. It lies beside the program that starts it.
pub const PROGRAM: &str = "assay-sql";
/// The longest query, in bytes.
pub const MAX_SQL_BYTES: usize = 64 * 1024;
/// The most tokens of a query. Planning recurses as deep as an expression is nested, and this bounds the depth.
pub const MAX_SQL_TOKENS: usize = 2_000;
/// The address space of the program beside that of a query: its own code and the stack of the thread that plans.
const OWN_ROOM_BYTES: u64 = 2 << 30;

/// The limits of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory for sorting, joining and grouping, and for the result, in bytes each. Nothing is spilled to disk.
    pub memory_bytes: u64,
    /// Rows of the result. More are an error, never cut off.
    pub rows: u64,
    /// Time from start to end.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 512 << 20, rows: 100_000, time: Duration::from_mins(1) }
    }
}

impl Limits {
    /// Returns the address space that the whole program gets, in bytes. It bounds allocations outside of the engine's own
    /// accounting, such as one huge text.
    pub fn address_space_bytes(&self) -> u64 {
        self.memory_bytes.saturating_mul(3).saturating_add(OWN_ROOM_BYTES)
    }
}

/// A request to the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// Check that a text is an allowed query, and find the tables that it reads.
    Check {
        /// The text.
        sql: String,
    },
    /// Run a query.
    Run {
        /// The query.
        sql: String,
        /// The files of every table that it may read, in the order in which they are read.
        tables: BTreeMap<String, Vec<File>>,
        /// Its limits.
        limits: Limits,
    },
}

impl Request {
    /// Returns the limits of the request.
    pub fn limits(&self) -> Limits {
        match self {
            Self::Check { .. } => Limits::default(),
            Self::Run { limits, .. } => *limits,
        }
    }
}

/// A file that was hashed and checked, and stays in place until the reply has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A reply of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "reply")]
pub enum Reply {
    /// The query is allowed.
    Tables {
        /// The tables that it reads, including those behind views.
        tables: BTreeSet<String>,
        /// True if it reads `information_schema`.
        catalog: bool,
    },
    /// The query was executed: a Parquet file with a column for each of these follows. The column names inside the file are ignored.
    Result {
        /// The columns.
        columns: Vec<ResultColumn>,
    },
    /// The request failed.
    Failure {
        /// The error.
        failure: QueryError,
    },
}

/// The reason why a query was not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum QueryError {
    /// The text is not an allowed query.
    #[error("the query is refused: {why}")]
    Refused {
        /// The operation that is not allowed.
        why: String,
    },
    /// The query does not parse, or names something that does not exist.
    #[error("the query is invalid: {why}")]
    Invalid {
        /// The problem.
        why: String,
    },
    /// The query needs more than its limit.
    #[error("the query goes over its limit of {}", what.describe(*limit))]
    OverLimit {
        /// The limited resource.
        what: LimitedResource,
        /// The limit.
        limit: u64,
    },
    /// The query failed while it ran.
    #[error("the query failed: {why}")]
    Failed {
        /// The problem.
        why: String,
    },
    /// The system refuses a thread.
    #[error("cannot start a thread for the query: {why}")]
    NoThread {
        /// The reason that the system gives.
        why: String,
    },
    /// The query engine failed, for example by a panic, which malformed files can cause.
    #[error("the query engine failed: {why}")]
    EngineFailed {
        /// The problem, or the message of the panic.
        why: String,
    },
}

/// A limited resource of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedResource {
    /// Its text.
    SqlBytes,
    /// The tokens of its text.
    SqlTokens,
    /// Memory.
    Memory,
    /// The rows of its result.
    Rows,
    /// Time.
    Milliseconds,
}

impl LimitedResource {
    /// Returns an amount of the resource, for people.
    fn describe(self, limit: u64) -> String {
        match self {
            Self::SqlBytes => format!("{limit} bytes of SQL"),
            Self::SqlTokens => format!("{limit} SQL tokens"),
            Self::Memory => format!("{} MiB of memory", limit >> 20),
            Self::Rows if limit == 1 => "1 row".to_owned(),
            Self::Rows => format!("{limit} rows"),
            Self::Milliseconds if limit >= 1000 => format!("{} s", limit / 1000),
            Self::Milliseconds => format!("{limit} ms"),
        }
    }
}

impl QueryError {
    /// A query that is not allowed.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused { why: why.into() }
    }

    /// A query that does not parse or plan.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid { why: why.into() }
    }

    /// A query that failed while it ran.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed { why: why.into() }
    }

    /// An engine that failed.
    pub fn engine_failed(why: impl Into<String>) -> Self {
        Self::EngineFailed { why: why.into() }
    }

    /// A query that exceeded its time.
    pub fn over_time(limits: Limits) -> Self {
        let limit = u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX);
        Self::OverLimit { what: LimitedResource::Milliseconds, limit }
    }

    /// Returns advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OverLimit { .. } => Some("select fewer rows or simplify the query"),
            Self::Refused { .. } => Some("a query is one `SELECT`, `WITH` or `EXPLAIN` that depends on the rows alone"),
            _ => None,
        }
    }
}
