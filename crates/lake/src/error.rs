//! The errors of the warehouse, grouped by what the reader of the message can do about them.

use assay_manifest::{Digest, RunId};

/// The action of reading a log.
pub(crate) const READ: &str = "read";

/// Another library's error.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason why an operation of the warehouse failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] assay_store::Error),
    /// The table in the store is not the table that this program knows.
    #[error("the warehouse's table `{table}` has another schema: {problem}")]
    OtherSchema {
        /// The table.
        table: &'static str,
        /// The column, and its difference.
        problem: String,
    },
    /// The table's log cannot be read or added to.
    #[error("failed to {action} the log of the warehouse's table `{table}`")]
    Log {
        /// The action, as a verb.
        action: &'static str,
        /// The table.
        table: &'static str,
        /// The library's error.
        #[source]
        source: Cause,
    },
    /// Other writers were faster, many times in a row.
    #[error("failed to commit to the warehouse's table `{table}`: other writers came first {attempts} times in a row")]
    Contended {
        /// The table.
        table: &'static str,
        /// The number of attempts.
        attempts: usize,
    },
    /// The run has no rows of its own, and would stay invisible for ever.
    #[error("run `{run}` has no curated file of `benchmark_run_fact`, which makes a run visible")]
    NoRunRows {
        /// The run.
        run: RunId,
    },
    /// The log contains the run, with other files.
    #[error("the warehouse holds other files of run `{run}` in table `{table}` than those of this Summary")]
    OtherFiles {
        /// The run.
        run: RunId,
        /// The table.
        table: &'static str,
    },
    /// The caller asked to stop.
    #[error("stopped after {steps} steps of the commit; the rest is done by committing the run again")]
    Stopped {
        /// The number of finished steps.
        steps: usize,
    },
    /// The version is not in the table's log.
    #[error("the warehouse's table `{table}` has no version {version}")]
    NoVersion {
        /// The table.
        table: &'static str,
        /// The requested version.
        version: u64,
    },
    /// A table contains, at the pinned version, a file that no verified Summary names.
    #[error("file `{file}` of the warehouse's table `{table}` at version {version} is no subject of a verified Summary")]
    Unlisted {
        /// The table.
        table: &'static str,
        /// Its path in the table.
        file: String,
        /// The version.
        version: u64,
    },
    /// The log restricts or changes a file's rows, which no commit of Assay does.
    #[error("file `{file}` of the warehouse's table `{table}` at version {version} is not as it was added: {why}")]
    Foreign {
        /// The table.
        table: &'static str,
        /// Its path in the table.
        file: String,
        /// The version.
        version: u64,
        /// The change, by the log.
        why: &'static str,
    },
    /// A file's bytes are not those of its name.
    #[error("file {expected} of the warehouse's table `{table}` was changed: its bytes are {found}")]
    Changed {
        /// The table.
        table: &'static str,
        /// The digest in its name.
        expected: Digest,
        /// The digest of its bytes.
        found: Digest,
    },
    /// A file that the table's log names does not exist.
    #[error("file {digest} of the warehouse's table `{table}` is missing")]
    Missing {
        /// The table.
        table: &'static str,
        /// The file.
        digest: Digest,
    },
    /// A run is visible, but a part of it is not in the tables.
    #[error("run `{run}` is in the warehouse without its file {digest} of table `{table}`")]
    Incomplete {
        /// The run.
        run: RunId,
        /// The table that lacks a file.
        table: String,
        /// The file.
        digest: Digest,
    },
    /// A run is published, and the tables do not contain it.
    #[error(
        "run `{run}` was published with version {published} of the warehouse's table `benchmark_run_fact`, and version {version} does \
         not hold it"
    )]
    Hidden {
        /// The run.
        run: RunId,
        /// The version that its Publication pins.
        published: u64,
        /// The version that was read.
        version: u64,
    },
    /// A table has fewer versions than it had when a run was published.
    #[error("run `{run}` was published with version {published} of the warehouse's table `{table}`, {}", newest(*found))]
    RolledBack {
        /// The table.
        table: &'static str,
        /// The run.
        run: RunId,
        /// The version that its Publication pins.
        published: u64,
        /// The newest version; `None` if there is no such table.
        found: Option<u64>,
    },
    /// A file, a table or a query is refused, or the query failed.
    #[error(transparent)]
    Query(#[from] assay_query::Error),
    /// A file of a table cannot be read, independent of who vouches for it.
    #[error("file `{file}` of the warehouse's table `{table}` cannot be read: {problem}")]
    Unreadable {
        /// The table.
        table: &'static str,
        /// Its path in the table.
        file: String,
        /// The problem.
        problem: String,
    },
    /// A library panicked, which malformed files can cause.
    #[error("a library panicked while it worked on the warehouse: {0}")]
    Panicked(String),
}

impl Error {
    /// Returns true if the warehouse holds data that the chain of trust does not cover: exit 20.
    pub fn fails_verification(&self) -> bool {
        matches!(
            self,
            Self::Unlisted { .. }
                | Self::Foreign { .. }
                | Self::Hidden { .. }
                | Self::RolledBack { .. }
                | Self::Changed { .. }
                | Self::Missing { .. }
                | Self::Incomplete { .. }
                | Self::OtherFiles { .. }
                | Self::Store(
                    assay_store::Error::Absent { .. } | assay_store::Error::Corrupt { .. } | assay_store::Error::NotPlain { .. }
                )
        ) || matches!(self, Self::Query(error) if error.fails_verification())
            || self.is_damaged_log()
    }

    /// Returns true if a log exists and is not valid; writers of Delta tables do not leave such logs behind.
    fn is_damaged_log(&self) -> bool {
        let Self::Log { action: READ, source, .. } = self else { return false };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**source);
        while let Some(error) = cause {
            if error.is::<assay_store::Error>() {
                return false;
            }
            cause = error.source();
        }
        true
    }

    /// Returns advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => error.hint(),
            Self::OtherSchema { .. } => Some(
                "nothing was changed: the Assay that made the table reads it; give this one a store, or a `warehouse/` folder, of its own",
            ),
            Self::Contended { .. } => Some("publish again: what was committed is found and not added twice"),
            Self::Stopped { .. } => Some("publish again: it goes on where it stopped"),
            Self::Changed { .. } | Self::Missing { .. } => {
                Some("the blob of the same digest may still be whole: copy it to where the file should be")
            }
            Self::Unlisted { .. } => Some("`assay query` reads such files and says that they are unverified"),
            Self::Hidden { .. } | Self::RolledBack { .. } => {
                Some("the table's log was rolled back or made anew; `assay verify` of the run says more")
            }
            Self::Foreign { .. } | Self::Log { action: READ, .. } => Some(
                "another program changed the table's log; the Summaries and curated files of the runs are whole all the same",
            ),
            Self::Query(error) => error.hint(),
            _ => None,
        }
    }
}

fn newest(found: Option<u64>) -> String {
    found.map_or_else(|| "and there is no such table".to_owned(), |found| format!("and its newest version is {found}"))
}
