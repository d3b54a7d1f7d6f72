//! `assay query`: SQL over the warehouse, with the verification state of the files that it read.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use assay_lake::{Error, Lake, Reading, Snapshot, Subjects};
use assay_manifest::{Publication, RunId};
use assay_query::{Limits, Query as Sql, ResultTable};
use assay_report::counted;
use assay_runs::{LeftOutRun, SignedSummaries, no_warehouse, signed_summaries};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::{Scratch, Store};
use assay_verify::lake_failure;
use serde_json::{Value, json};

use crate::commands::foreign_tables::ForeignTables;
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The most bytes on disk of the files that a query reads, apart from the store.
const MAX_SCRATCH_BYTES: u64 = 64 << 30;

/// The format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Aligned columns
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Json,
    /// A Parquet file
    Parquet,
}

/// Query the warehouse with SQL. Every file that is read must be named by a signed Summary, unless `--unverified` is given.
///
/// Tables and views: `runs`, `outcomes`, `serving`, and all that docs/tables.md lists. Instead of `SHOW`, query
/// `information_schema.columns`. Numbers of other tools are in tables of their own, which `--foreign` reads.
#[derive(clap::Args)]
pub(crate) struct Query {
    /// One `SELECT`; `-` reads it from stdin
    #[arg(value_name = "SQL", required_unless_present = "file", conflicts_with = "file", allow_hyphen_values = true)]
    sql: Option<String>,
    /// The file with the query
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Query the tables as of the publication of this run
    #[arg(long, value_name = "RUN")]
    at: Option<RunId>,
    /// Also read files that no signed Summary names, and list them
    #[arg(long)]
    unverified: bool,
    /// Fail if a run, or foreign evidence, has to be left out because its signer is unknown, or if samples of foreign evidence are absent
    #[arg(long, conflicts_with = "unverified")]
    strict: bool,
    /// Also read the tables of foreign evidence: `foreign_evidence_dim`, `foreign_outcome_fact`, `foreign_sample_fact`
    #[arg(long, conflicts_with = "at")]
    foreign: bool,
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the result to this file
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The row limit; more rows are an error, never truncated
    #[arg(long, value_name = "ROWS", default_value_t = Limits::default().rows)]
    max_rows: u64,
    #[command(flatten)]
    place: StoreOptions,
}

impl Query {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if self.format() == Format::Parquet && self.output.is_none() && std::io::stdout().is_terminal() {
            return Err(
                Failure::new(ErrorCode::BinaryOutput, "Parquet is nothing for a terminal").hint("name a file with `--output`")
            );
        }
        let text = self.text()?;
        let query = if self.foreign { Sql::parse_with_foreign(&text) } else { Sql::parse(&text) }.map_err(failure)?;
        let store = self.place.runs().open_store()?;
        let scratch = Scratch::new(MAX_SCRATCH_BYTES)?;
        let foreign = match query.foreign_tables().next() {
            Some(_) => Some(ForeignTables::open(&store, &self.place.trust, &query, self.strict, &scratch)?),
            None => None,
        };
        match foreign {
            Some(foreign) if query.tables().next().is_none() => self.run_foreign(&query, foreign),
            foreign => self.run_own(&store, &query, &scratch, foreign),
        }
    }

    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Runs a query of foreign evidence alone, which needs no warehouse.
    fn run_foreign(&self, query: &Sql, mut foreign: ForeignTables) -> Result<Exit, Failure> {
        let reading = Reading::of_no_table().with_foreign(foreign.take_files());
        self.write(&self.result(&reading, query)?, &[])?;
        Ok(foreign.report())
    }

    fn result(&self, reading: &Reading, query: &Sql) -> Result<ResultTable, Failure> {
        reading.run_query(query, Limits { rows: self.max_rows, ..Limits::default() }).map_err(failure)
    }

    fn run_own(
        &self,
        store: &Store,
        query: &Sql,
        scratch: &Scratch,
        mut foreign: Option<ForeignTables>,
    ) -> Result<Exit, Failure> {
        let lake = Lake::open(store).map_err(failure)?;
        // The signed Summaries are read first: a run that is published meanwhile is in the tables that are read afterwards.
        let mut signed = signed_summaries(store, &self.place.trust)?;
        if let Some(first) = signed.left_out.first().filter(|_| self.strict) {
            return Err(first.refusal().hint("without `--strict`, the run is left out by name"));
        }
        if self.unverified {
            // Their rows are read all the same.
            let unknown = std::mem::take(&mut signed.left_out);
            signed.refused.extend(unknown.into_iter().map(|LeftOutRun { run, failure }| (run, failure)));
        }
        // The rows of such a run are in the tables, and no Summary that can be read vouches for them.
        if let Some((run, old)) =
            signed.refused.iter().find(|(_, failure)| failure.code == ErrorCode::OldFormat && !self.unverified)
        {
            return Err(Failure { message: format!("run `{run}`: {}", old.message), ..old.clone() });
        }
        let snapshot = self.snapshot(&lake)?;
        if self.at.is_some() {
            signed.subjects = signed.subjects.as_of(&snapshot);
        }
        if snapshot.is_empty() && !signed.subjects.has_published() {
            return Err(no_warehouse(store, signed.fetched)?);
        }
        let mut reading = self.read(&lake, &snapshot, &signed.subjects, query, scratch)?;
        if let Some(foreign) = &mut foreign {
            reading = reading.with_foreign(foreign.take_files());
        }
        self.write(&self.result(&reading, query)?, &signed.left_out)?;
        let of_foreign = foreign.map_or(Exit::Done, |foreign| foreign.report());
        Ok(match report_verification(&reading, &signed) {
            Exit::Done => of_foreign,
            exit => exit,
        })
    }

    fn text(&self) -> Result<String, Failure> {
        let unreadable = |what: String| {
            move |error: std::io::Error| Failure::new(ErrorCode::Unreadable, format!("cannot read {what}")).because(&error)
        };
        // One byte more than a query may have, so that a longer one is refused and not cut.
        let limit = assay_query::MAX_SQL_BYTES as u64 + 1;
        let mut text = String::new();
        match (&self.file, self.sql.as_deref()) {
            (Some(path), _) => {
                let what = format!("the query `{}`", path.display());
                let file = std::fs::File::open(path).map_err(unreadable(what.clone()))?;
                file.take(limit).read_to_string(&mut text).map_err(unreadable(what))?;
            }
            (None, Some("-")) => {
                let what = "the query from standard input".to_owned();
                std::io::stdin().take(limit).read_to_string(&mut text).map_err(unreadable(what))?;
            }
            (None, sql) => sql.unwrap_or_default().clone_into(&mut text),
        }
        Ok(text)
    }

    /// Returns the newest versions, or those that a run's Publication pins.
    fn snapshot(&self, lake: &Lake) -> Result<Snapshot, Failure> {
        let Some(run) = &self.at else { return lake.latest().map_err(failure) };
        let opened = self.place.runs().open(run.as_str())?;
        let publication = opened.chain.one::<Publication>().ok_or_else(|| {
            Failure::new(
                ErrorCode::NotPublished,
                format!("the run `{run}` is not published, so it pins no versions of the warehouse"),
            )
        })?;
        Ok(publication.body.warehouse_snapshot.clone())
    }

    fn read(
        &self,
        lake: &Lake,
        snapshot: &Snapshot,
        subjects: &Subjects,
        query: &Sql,
        scratch: &Scratch,
    ) -> Result<Reading, Failure> {
        if self.unverified {
            return Reading::open_unverified(lake, snapshot, subjects, query, scratch).map_err(failure);
        }
        Reading::open_trusted(lake, snapshot, subjects, query, scratch).map_err(|error| match error {
            error @ Error::Unlisted { .. } => {
                failure(error).hint("`--unverified` reads such files all the same, and says which they are")
            }
            error => failure(error),
        })
    }

    /// Writes the result. In JSON, a last line lists the runs that are left out, if there are any.
    fn write(&self, result: &ResultTable, left_out: &[LeftOutRun]) -> Result<(), Failure> {
        let bytes = match self.format() {
            Format::Table => result.text().into_bytes(),
            Format::Csv => result.csv().into_bytes(),
            Format::Json if left_out.is_empty() => result.json_lines().into_bytes(),
            Format::Json => format!("{}{}\n", result.json_lines(), json!({"left_out": left_out_document(left_out)})).into_bytes(),
            Format::Parquet => result.parquet().map_err(failure)?,
        };
        match &self.output {
            Some(path) => write_new(path, &bytes),
            None => output::raw(&bytes),
        }
    }
}

/// Writes a file that does not exist yet.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let unwritable = |error: &std::io::Error| Failure::unwritable(ErrorCode::Unwritable, path, error);
    let mut file = std::fs::File::create_new(path).map_err(|error| unwritable(&error))?;
    std::io::Write::write_all(&mut file, bytes).map_err(|error| {
        // A part of a table looks like a whole one.
        let _ = std::fs::remove_file(path);
        unwritable(&error)
    })
}

/// Reports on stderr which runs are left out, and why.
pub(crate) fn report_left_out(left_out: &[LeftOutRun]) {
    for LeftOutRun { run, failure } in left_out {
        let hint = match failure.code {
            ErrorCode::UnknownKey => "`--trust` names a policy that knows its signer".to_owned(),
            _ => format!("`assay verify {run}` checks all of it"),
        };
        output::diagnostic(format!("left out: run `{run}`: {}; {hint}", failure.message));
    }
}

/// Returns the runs that are left out, as JSON documents show them.
pub(crate) fn left_out_document(left_out: &[LeftOutRun]) -> Value {
    let all = left_out.iter().map(|left| json!({"run": left.run, "code": left.failure.code, "message": left.failure.message}));
    all.collect()
}

/// Reports on stderr how many runs are not in the tables.
pub(crate) fn report_fetched(runs: usize) {
    if runs > 0 {
        let runs = counted(runs as u64, "run");
        output::diagnostic(format!(
            "{runs} of this store fetched from elsewhere: the tables of that store have their rows, and not these"
        ));
    }
}

/// Reports on stderr how far the files that were read are verified.
fn report_verification(reading: &Reading, signed: &SignedSummaries) -> Exit {
    report_left_out(&signed.left_out);
    for (run, failure) in &signed.refused {
        output::diagnostic(format!("unverified: run `{run}`: {}", failure.message));
    }
    for found in reading.unverified() {
        let read = if found.read { "" } else { "; not read" };
        output::diagnostic(format!("unverified: {}{read}", found.reason));
    }
    let (strange, absent): (Vec<_>, Vec<_>) = reading.unverified().iter().partition(|found| found.read);
    let read = reading.files().count();
    let (verified, files) = (read.saturating_sub(strange.len()), read + absent.len());
    let runs = counted(signed.runs as u64, "run");
    let trust = &signed.trusted_by;
    output::diagnostic(format!("verified: {verified} of {files} files are named by signed Summaries ({runs}; trust: {trust})"));
    report_fetched(signed.fetched);
    if !absent.is_empty() {
        let many = if absent.len() == 1 { "1 of them is" } else { &format!("{} of them are", absent.len()) };
        output::diagnostic(format!("the result says less than the tables should: {many} not in it"));
        return Exit::Verification;
    }
    output::established(signed.is_established)
}

fn failure(error: impl Into<Error>) -> Failure {
    lake_failure(error, Exit::Usage)
}
