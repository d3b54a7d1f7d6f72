//! `assay-sql`: runs one query over files that its caller has opened, and exits.
//!
//! It is a separate program because a query must not use more memory or time than its limits, or take down the process that sent
//! it. [`assay_query::wire`] defines requests and replies; people use `assay query`.

mod cells;
mod check;
mod checked_arithmetic;
mod origin;
mod session;

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use assay_query::wire::{Reply, Request};
use assay_query::{Limits, QueryError, ResultTable};
use check::QueryTables;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The longest request, in bytes: a query, and the paths of all files of a large warehouse.
const MAX_REQUEST_BYTES: u64 = 256 << 20;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let said = "it is started by `assay` and its stages; people use `assay query`";
            // If stderr cannot be written, nothing is left to do.
            let _ = writeln!(std::io::stderr(), "assay-sql: {error} ({said})");
            ExitCode::from(2)
        }
    }
}

fn serve() -> std::io::Result<()> {
    let mut request_bytes = Vec::new();
    std::io::stdin().take(MAX_REQUEST_BYTES).read_to_end(&mut request_bytes)?;
    let request: Request = serde_json::from_slice(&request_bytes)?;
    set_limits(request.limits())?;
    let (reply, rows) = handle_request(request);
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &reply)?;
    out.write_all(b"\n")?;
    out.write_all(&rows)?;
    out.flush()
}

/// Limits this process to the resources that its query may use. Exceeding a limit ends the process, which the caller recognises.
fn set_limits(limits: Limits) -> std::io::Result<()> {
    lower_limit(Resource::As, limits.address_space_bytes())?;
    // A core dump would expose the rows in memory.
    lower_limit(Resource::Core, 0)
}

/// Lowers a limit of this process for good. A limit that is lower already stays.
fn lower_limit(resource: Resource, bytes: u64) -> std::io::Result<()> {
    let bytes = getrlimit(resource).maximum.map_or(bytes, |there| there.min(bytes));
    Ok(setrlimit(resource, Rlimit { current: Some(bytes), maximum: Some(bytes) })?)
}

fn handle_request(request: Request) -> (Reply, Vec<u8>) {
    let outcome = match request {
        Request::Check { sql } => {
            check::check_query(&sql).map(|QueryTables { tables, catalog, .. }| (Reply::Tables { tables, catalog }, Vec::new()))
        }
        Request::Run { sql, tables, limits } => session::run_query(sql, tables, limits).and_then(encode_result),
    };
    outcome.unwrap_or_else(|failure| (Reply::Failure { failure }, Vec::new()))
}

fn encode_result(result: ResultTable) -> Result<(Reply, Vec<u8>), QueryError> {
    let rows = result.parquet().map_err(|error| QueryError::engine_failed(error.to_string()))?;
    Ok((Reply::Result { columns: result.columns }, rows))
}

fn thread_error(error: std::io::Error) -> QueryError {
    QueryError::NoThread { why: error.to_string() }
}
