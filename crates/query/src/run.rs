//! Queries, executed by `assay-sql`: a separate program, so that a query that crashes or hangs affects nothing else.
//!
//! A query may come from a pull request or from any published folder. In a process of its own its memory and its time can be
//! bounded, and neither a panic nor a stack overflow reaches the stage or the command that sent it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use assay_process::{Cancel, ChildExit, Command, Input, Output, Spawner, Status};
use assay_store::ScratchFile;
use assay_warehouse::{Table, foreign_table, table};
use rustix::process::Signal;

use crate::wire::{LimitedResource, Limits, PROGRAM, QueryError, Reply, Request};
use crate::{Error, OpenedFiles, Result, ResultTable, result, wire};

/// The time that the program may take in addition to the query: for its start on a busy machine, and for writing the result.
const OWN_TIME: Duration = Duration::from_secs(30);
/// The number of bytes of the program's stderr that are kept.
const MAX_STDERR_BYTES: u64 = 4 << 10;
/// The longest first line of a reply, in bytes: names of columns, and an error.
const MAX_HEAD_BYTES: usize = 4 << 20;

/// One checked `SELECT`, `WITH` or `EXPLAIN`: it only reads, and its result depends on the rows alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    sql: String,
    tables: BTreeSet<&'static str>,
    foreign: BTreeSet<&'static str>,
    catalog: bool,
}

impl Query {
    /// Checks the text of a query, such as the content of a file in Git.
    ///
    /// Fails with [`QueryError::Refused`] for anything but one reading statement, and with [`QueryError::Invalid`] if it does not
    /// parse or names a table that does not exist. Tables and views are those of the warehouse, and `information_schema`. Fails with
    /// [`Error::Foreign`] if it names a table of foreign evidence.
    pub fn parse(sql: &str) -> Result<Self> {
        let query = Self::parse_with_foreign(sql)?;
        query.foreign_tables().next().map_or(Ok(()), |table| Err(Error::Foreign(table.name)))?;
        Ok(query)
    }

    /// Checks as [`Query::parse`] does a query that may read the tables of foreign evidence, too.
    pub fn parse_with_foreign(sql: &str) -> Result<Self> {
        // The program checks this too, but a longer text need not be sent to it.
        if sql.len() > wire::MAX_SQL_BYTES {
            return Err(QueryError::OverLimit { what: LimitedResource::SqlBytes, limit: wire::MAX_SQL_BYTES as u64 }.into());
        }
        match send_request(&Request::Check { sql: sql.to_owned() })? {
            (Reply::Tables { tables, catalog }, _) => {
                let (foreign, own): (Vec<_>, Vec<_>) = tables.iter().partition(|name| foreign_table(name).is_some());
                let known = own.into_iter().map(|name| table(name).map(|table| table.name));
                let tables = known.collect::<Option<_>>().ok_or_else(|| bad_reply("it names an unknown table"))?;
                let foreign = foreign.into_iter().filter_map(|name| foreign_table(name)).map(|table| table.name).collect();
                Ok(Self { sql: sql.to_owned(), tables, foreign, catalog })
            }
            _ => Err(bad_reply("its reply does not match the request")),
        }
    }

    /// Returns the text as given. The digest of the query is that of this text.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns true if it reads `information_schema`, which describes the tables in no fixed order.
    pub fn reads_catalog(&self) -> bool {
        self.catalog
    }

    /// Returns the tables of the warehouse that it reads, including those behind views, in the order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &'static Table> {
        self.tables.iter().filter_map(|name| table(name))
    }

    /// Returns true if it reads this table of foreign evidence.
    pub fn reads_foreign(&self, table: &Table) -> bool {
        self.foreign.contains(table.name)
    }

    /// Returns the tables of foreign evidence that it reads.
    pub fn foreign_tables(&self) -> impl Iterator<Item = &'static Table> {
        self.foreign.iter().filter_map(|name| foreign_table(name))
    }
}

/// Runs a query over opened files. The result depends on the rows and the query alone: the same bytes from run to run.
pub fn run_query(opened: &OpenedFiles, query: &Query, limits: Limits) -> Result<ResultTable> {
    if let Some(table) = query.tables().chain(query.foreign_tables()).find(|table| !opened.contains_key(table.name)) {
        return Err(Error::NotOpened(table.name.to_owned()));
    }
    let files = |files: &[(_, ScratchFile)]| -> Vec<_> {
        files.iter().map(|(_, file)| wire::File { path: file.path().to_owned(), bytes: file.size() }).collect()
    };
    let tables: BTreeMap<_, _> = opened.iter().map(|(name, opened)| ((*name).to_owned(), files(opened))).collect();
    match send_request(&Request::Run { sql: query.sql.clone(), tables, limits })? {
        (Reply::Result { columns }, rows) => result::from_parquet(columns, rows).map_err(|why| bad_reply(&why)),
        _ => Err(bad_reply("its reply does not match the request")),
    }
}

fn bad_reply(what: &str) -> Error {
    QueryError::engine_failed(format!("`{PROGRAM}` is not of this version: {what}")).into()
}

/// Returns the program's reply: its first line, and the bytes after it.
fn send_request(request: &Request) -> Result<(Reply, Vec<u8>)> {
    let limits = request.limits();
    let request_bytes = serde_json::to_vec(request).map_err(|error| bad_reply(&error.to_string()))?;
    let output = run(request_bytes, limits)?;
    if output.exit.timed_out {
        return Err(QueryError::over_time(limits).into());
    }
    if !output.exit.status.is_success() {
        return Err(exit_error(output.exit.status, &output.stderr, limits).into());
    }
    let end = output.stdout.iter().take(MAX_HEAD_BYTES).position(|byte| *byte == b'\n');
    let (head, rest) = output.stdout.split_at(end.ok_or_else(|| bad_reply("its reply has no first line"))?);
    match serde_json::from_slice(head) {
        Ok(Reply::Failure { failure }) => Err(failure.into()),
        Ok(reply) => Ok((reply, rest.get(1..).unwrap_or_default().to_vec())),
        Err(error) => Err(bad_reply(&error.to_string())),
    }
}

/// Returns the error for a program that ended by itself. It has no other way to report that it ran out of memory.
fn exit_error(status: Status, stderr: &str, limits: Limits) -> QueryError {
    if stderr.contains("memory allocation of") {
        return QueryError::OverLimit { what: LimitedResource::Memory, limit: limits.address_space_bytes() };
    }
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output on stderr");
    QueryError::engine_failed(format!("it ended with {status}: {last}"))
}

/// The exit of `assay-sql` and its output.
struct ProgramOutput {
    exit: ChildExit,
    stdout: Vec<u8>,
    stderr: String,
}

fn run(request: Vec<u8>, limits: Limits) -> Result<ProgramOutput> {
    let path = program()?;
    let command = Command {
        stdin: Input::Bytes(request),
        stdout: Output::Pipe,
        stderr: Output::Pipe,
        // The program has nothing to clean up.
        grace: Duration::ZERO,
        death_signal: Signal::KILL,
        ..Command::new(path)
    };
    let cancel = Cancel::new().map_err(Error::Start)?;
    let mut child = Spawner::start().map_err(Error::Start)?.spawn(command).map_err(Error::Program)?;
    let (stdout, stderr) = (child.take_stdout(), child.take_stderr());
    // The result, its columns and its encoding are at most this large: a program that writes more is not Assay's.
    let most = limits.memory_bytes.saturating_mul(2).saturating_add(MAX_HEAD_BYTES as u64);
    thread::scope(|scope| {
        // If a thread cannot be started, the program is dropped, and so is ended.
        let stdout = thread::Builder::new().spawn_scoped(scope, || read(stdout, most)).map_err(Error::Start)?;
        let stderr = thread::Builder::new().spawn_scoped(scope, || read(stderr, MAX_STDERR_BYTES)).map_err(Error::Start)?;
        let exit = child.wait(Some(limits.time.saturating_add(OWN_TIME)), &cancel).map_err(Error::Program)?;
        let stdout = stdout.join().unwrap_or_default();
        let stderr = stderr.join().unwrap_or_default();
        Ok(ProgramOutput { exit, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    })
}

/// Reads the first bytes of a pipe. Bytes that cannot be read are missing, which the parser of the reply detects.
fn read(pipe: Option<File>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(most).read_to_end(&mut bytes);
    }
    bytes
}

/// Returns the path of the program, which is beside the running one.
fn program() -> Result<PathBuf> {
    let this = std::env::current_exe().map_err(Error::Start)?;
    let folder = this.parent();
    // Tests and examples lie one folder below the programs that cargo builds.
    let is_below = |folder: &&Path| folder.ends_with("deps") || folder.ends_with("examples");
    let above = folder.filter(is_below).and_then(Path::parent);
    let mut places = [folder, above].into_iter().flatten().map(|folder| folder.join(PROGRAM));
    places.find(|path| path.is_file()).ok_or_else(|| Error::NoProgram(this.with_file_name(PROGRAM)))
}
