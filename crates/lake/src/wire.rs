//! What is said between whoever asks a query and `assay-sql`, the program that answers it.
//!
//! The request is one JSON document on the program's standard input. The reply is one JSON document on a line of its own on its
//! standard output, and after [`Reply::Gives`] the rows as a Parquet file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ResultColumn;

/// The program's name. It lies beside whoever starts it.
pub const PROGRAM: &str = "assay-sql";
/// The longest query, in bytes.
pub const MAX_SQL_BYTES: usize = 64 * 1024;
/// The most words and signs of a query. Planning goes as deep as an expression is nested, and this bounds how deep that can be.
pub const MAX_SQL_TOKENS: usize = 2_000;
/// What the program may take of its address space beside what a query may: its own code and the stack of the thread that plans.
const OWN_ROOM_BYTES: u64 = 2 << 30;

/// What a query may use.
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
    /// The address space that the whole program gets, in bytes. What a query makes outside of the engine's own accounts, such as one
    /// huge text, ends there.
    pub fn address_space_bytes(&self) -> u64 {
        self.memory_bytes.saturating_mul(3).saturating_add(OWN_ROOM_BYTES)
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// Whether a text is a query that may be asked, and which tables it reads.
    Check {
        /// The text.
        sql: String,
    },
    /// What a query gives.
    Ask {
        /// The query.
        sql: String,
        /// The files of every table that it may read, in the order in which they are read.
        tables: BTreeMap<String, Vec<File>>,
        /// What it may use.
        limits: Limits,
    },
}

impl Request {
    /// What answering may use.
    pub fn limits(&self) -> Limits {
        match self {
            Self::Check { .. } => Limits::default(),
            Self::Ask { limits, .. } => *limits,
        }
    }
}

/// A file that was hashed and checked, and stays where it is until the answer is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where it lies.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "answer")]
pub enum Reply {
    /// The query may be asked.
    Reads {
        /// The tables that it reads, those behind views included.
        tables: BTreeSet<String>,
        /// Whether it reads `information_schema`.
        catalog: bool,
    },
    /// The query was answered: a Parquet file with a column for each of these follows. Its own names do not count.
    Gives {
        /// The columns.
        columns: Vec<ResultColumn>,
    },
    /// It was not.
    Fails {
        /// Why.
        failure: QueryError,
    },
}

/// Why a query was not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum QueryError {
    /// The text is not a query that may be asked here.
    #[error("the query is refused: {why}")]
    Refused {
        /// What it does that a query may not.
        why: String,
    },
    /// The query does not parse, or names what is not there.
    #[error("the query is wrong: {why}")]
    Wrong {
        /// What is wrong.
        why: String,
    },
    /// The query needs more than it may have.
    #[error("the query goes over its limit of {}", what.of(*limit))]
    OverLimit {
        /// What there was too much of.
        what: Limited,
        /// The limit.
        limit: u64,
    },
    /// The query failed while it ran.
    #[error("the query failed: {why}")]
    Failed {
        /// What failed.
        why: String,
    },
    /// The query engine gave up in the middle, which malformed files can make it do.
    #[error("the query engine gave up: {why}")]
    GaveUp {
        /// What it said.
        why: String,
    },
}

/// What a query can have too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limited {
    /// Its text.
    SqlBytes,
    /// The words and signs of its text.
    SqlTokens,
    /// Memory.
    Memory,
    /// The rows that it gives.
    Rows,
    /// Time.
    Milliseconds,
}

impl Limited {
    /// So much of it, for people.
    fn of(self, limit: u64) -> String {
        match self {
            Self::SqlBytes => format!("{limit} bytes of SQL"),
            Self::SqlTokens => format!("{limit} words and signs of SQL"),
            Self::Memory => format!("{} MiB of memory", limit >> 20),
            Self::Rows if limit == 1 => "1 row".to_owned(),
            Self::Rows => format!("{limit} rows"),
            Self::Milliseconds if limit >= 1000 => format!("{} s", limit / 1000),
            Self::Milliseconds => format!("{limit} ms"),
        }
    }
}

impl QueryError {
    /// A query that may not be asked.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused { why: why.into() }
    }

    /// A query that does not parse or plan.
    pub fn wrong(why: impl Into<String>) -> Self {
        Self::Wrong { why: why.into() }
    }

    /// A query that failed while it ran.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed { why: why.into() }
    }

    /// An engine that gave up.
    pub fn gave_up(why: impl Into<String>) -> Self {
        Self::GaveUp { why: why.into() }
    }

    /// A query over its time.
    pub fn over_time(limits: Limits) -> Self {
        let limit = u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX);
        Self::OverLimit { what: Limited::Milliseconds, limit }
    }

    /// What a person can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OverLimit { .. } => Some("ask for less"),
            Self::Refused { .. } => Some("a query is one `SELECT`, `WITH` or `EXPLAIN` that depends on the rows alone"),
            _ => None,
        }
    }
}
