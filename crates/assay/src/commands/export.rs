//! `assay export`: the rows of a run, or its results in the format of another tool, as files for other programs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use assay_export::{EXPORT_FORMATS, ExportError, ExportFormat, ExportSink, ExportedTrial};
use assay_manifest::{Artifact, Attempt, CuratedFile, ExecutionPart, Summary, ordinal};
use assay_planning::query_failure;
use assay_process::Cancel;
use assay_query::{Limits, Query, open_files, run_query};
use assay_report::counted;
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::{Scratch, Store};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::commands::exported_run::exported_run;
use crate::commands::query::write_new;
use crate::commands::removed::{absent_artifact, resume_hint};
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The largest curated file and the largest file of records that are exported, in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// The most rows of a table that are written as text.
const MAX_ROWS: u64 = 10_000_000;

/// The most files of an export that are listed; the rest are only counted.
const SHOWN: usize = 12;

/// The format of an export.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// Rows.
    Rows(RowFormat),
    /// The files of another tool.
    Tool(&'static ExportFormat),
}

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowFormat {
    Csv,
    Json,
    Parquet,
}

impl RowFormat {
    const ALL: [(&'static str, Self, &'static str); 3] = [
        ("csv", Self::Csv, "Rows as comma-separated values with a header"),
        ("json", Self::Json, "Rows as one JSON object per line"),
        ("parquet", Self::Parquet, "The curated files themselves, byte for byte"),
    ];

    fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

impl Format {
    /// Returns a parser of the names of formats, with the help of each.
    fn parser() -> impl TypedValueParser<Value = Self> {
        let rows = RowFormat::ALL.map(|(name, _, help)| PossibleValue::new(name).help(help));
        let tools = EXPORT_FORMATS.map(|format| PossibleValue::new(format.name).help(format!("Results for {}", format.tool)));
        PossibleValuesParser::new(rows.into_iter().chain(tools)).map(|name| Self::find(&name))
    }

    fn find(name: &str) -> Self {
        let tool = EXPORT_FORMATS.into_iter().find(|format| format.name == name).map(Self::Tool);
        let rows =
            || RowFormat::ALL.into_iter().find(|(known, ..)| *known == name).map_or(RowFormat::Csv, |(_, format, _)| format);
        tool.unwrap_or_else(|| Self::Rows(rows()))
    }
}

/// Write the curated rows of a run, one file per table, or its results as the files of another tool. The run's chain is verified first.
/// docs/exports.md has the formats of other tools, with what each of them leaves out.
#[derive(clap::Args)]
pub(crate) struct Export {
    /// The run's name or published folder
    #[arg(value_name = "RUN|PATH")]
    run: String,
    /// The output format: of rows, or of another tool
    #[arg(long, value_parser = Format::parser(), default_value = "csv", value_name = "FORMAT")]
    format: Format,
    /// Export only this table; of formats of rows
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// The folder to create; `-` writes one table to stdout [default: the run's name and `-export`]
    #[arg(long, value_name = "PATH")]
    to: Option<PathBuf>,
    /// Also copy the raw records of every attempt, one row per request; always as Parquet; of formats of rows
    #[arg(long)]
    records: bool,
    #[command(flatten)]
    place: StoreOptions,
}

impl Export {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.format {
            Format::Rows(format) => self.export_rows(format),
            Format::Tool(format) => self.export_results(format),
        }
    }

    fn export_rows(&self, format: RowFormat) -> Result<Exit, Failure> {
        let opened = self.place.runs().open(&self.run)?;
        let summary = opened.chain.one::<Summary>().ok_or_else(|| {
            Failure::new(ErrorCode::NotPublished, format!("the run `{}` has no rows yet", opened.chain.run_id))
                .hint(resume_hint(&opened))
        })?;
        let files = self.selected_files(&summary.body)?;
        let exported = CuratedExport::open(&opened, &summary.body.files)?;
        if self.is_stdout() {
            let [file] = files.as_slice() else {
                return Err(
                    Failure::new(ErrorCode::SeveralTables, "standard output takes one table").hint("name it with `--table`")
                );
            };
            output::raw(&exported.rows(file, format)?)?;
        } else {
            let folder = self.folder(&opened);
            let written = create_folder(&folder, |partial, cancel| {
                let mut written = write_rows(&files, &exported, format, partial, cancel)?;
                if self.records {
                    written.extend(copy_records(&opened, partial, cancel)?);
                }
                Ok(written)
            })?;
            for WrittenFile { name, size } in written {
                output::line(format!("{}  {size}", folder.join(name).display()));
            }
        }
        Ok(output::established(opened.chain.is_established()))
    }

    fn export_results(&self, format: &ExportFormat) -> Result<Exit, Failure> {
        self.check_options(format)?;
        let opened = self.place.runs().open(&self.run)?;
        let (run, records) = exported_run(&opened, format)?;
        let folder = self.folder(&opened);
        let mut remarks = Vec::new();
        let written = create_folder(&folder, |partial, cancel| {
            let mut sink = FolderSink { folder: partial, cancel, written: Vec::new() };
            let load = |trial: &ExportedTrial| {
                records.load(trial).map_err(|failure| Box::new(failure) as Box<dyn std::error::Error + Send + Sync>)
            };
            remarks = format.write(&run, &load, &mut sink).map_err(|error| export_failure(error, &run.run_id, &folder))?;
            Ok(sink.written)
        })?;
        for WrittenFile { name, size } in written.iter().take(SHOWN) {
            output::line(format!("{}  {size}", folder.join(name).display()));
        }
        if let Some(more) = written.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            output::line(format!("and {}", counted(more as u64, "more file")));
        }
        describe(format, &remarks).into_iter().for_each(output::line);
        Ok(output::established(opened.chain.is_established()))
    }

    /// Fails if an option of rows is given with the format of a tool.
    fn check_options(&self, format: &ExportFormat) -> Result<(), Failure> {
        let given = [("--table", self.table.is_some()), ("--records", self.records), ("--to -", self.is_stdout())];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::new(
                ErrorCode::ExportFormat,
                format!("`{option}` is an option of rows, and the format `{}` has none", format.name),
            )
            .hint("leave it out, or choose the format `csv`, `json` or `parquet`")),
            None => Ok(()),
        }
    }

    fn is_stdout(&self) -> bool {
        self.to.as_deref() == Some(Path::new("-"))
    }

    /// Returns the folder to create.
    fn folder(&self, opened: &VerifiedRun) -> PathBuf {
        self.to.clone().unwrap_or_else(|| PathBuf::from(format!("{}-export", opened.chain.run_id)))
    }

    fn selected_files<'a>(&self, summary: &'a Summary) -> Result<Vec<&'a CuratedFile>, Failure> {
        let Some(table) = &self.table else { return Ok(summary.files.iter().collect()) };
        let files: Vec<_> = summary.files.iter().filter(|file| file.table == *table).collect();
        if files.is_empty() {
            let tables: Vec<_> = summary.files.iter().map(|file| file.table.as_str()).collect();
            return Err(Failure::new(ErrorCode::UnknownTable, format!("the run has no rows in a table `{table}`"))
                .hint(format!("it has {}", tables.join(", "))));
        }
        Ok(files)
    }
}

fn write_rows(
    files: &[&CuratedFile],
    exported: &CuratedExport<'_>,
    format: RowFormat,
    folder: &Path,
    cancel: &Cancel,
) -> Result<Vec<WrittenFile>, Failure> {
    let mut written = Vec::new();
    for file in files {
        go_on(cancel)?;
        let name = format!("{}.{}", file.table, format.extension());
        write_new(&folder.join(&name), &exported.rows(file, format)?)?;
        written.push(WrittenFile { name: name.into(), size: counted(file.rows.0, "row") });
    }
    Ok(written)
}

/// Fails if a signal asked this process to end.
fn go_on(cancel: &Cancel) -> Result<(), Failure> {
    cancel
        .reason()
        .map_or(Ok(()), |reason| Err(Failure::cancelled(format!("the export was stopped ({reason}), and left no file"))))
}

/// A file of an export.
#[derive(Debug)]
struct WrittenFile {
    /// Its path within the folder.
    name: PathBuf,
    /// Its size, as it is printed: in rows or in bytes.
    size: String,
}

/// The folder that gets the files of a format.
struct FolderSink<'a> {
    folder: &'a Path,
    cancel: &'a Cancel,
    written: Vec<WrittenFile>,
}

impl ExportSink for FolderSink<'_> {
    fn write(&mut self, path: &Path, content: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if self.cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let whole = self.folder.join(path);
        std::fs::create_dir_all(whole.parent().unwrap_or(self.folder))?;
        let mut file = BufWriter::new(File::create_new(whole)?);
        content(&mut file)?;
        file.flush()?;
        let size = assay_report::bytes(file.get_ref().metadata()?.len());
        self.written.push(WrittenFile { name: path.to_owned(), size });
        Ok(())
    }
}

fn export_failure(error: ExportError, run: &str, folder: &Path) -> Failure {
    match error {
        ExportError::Write { file, error } => Failure::unwritable(ErrorCode::Unwritable, &folder.join(file), &error),
        ExportError::Requests(error) => match error.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(error) => Failure::new(ErrorCode::Records, "the records of a trial cannot be read").because(&*error),
        },
        other => {
            let failure = Failure::new(ErrorCode::ExportFormat, format!("the run `{run}` cannot be exported")).because(&other);
            if matches!(other, ExportError::NoTrial) {
                failure.hint(format!("`assay show {run}` has the reasons"))
            } else {
                failure
            }
        }
    }
}

/// Creates a folder with what `write` writes into it. An export that fails or is stopped leaves nothing, and one that is killed no folder that looks
/// whole.
fn create_folder(
    folder: &Path,
    write: impl FnOnce(&Path, &Cancel) -> Result<Vec<WrittenFile>, Failure>,
) -> Result<Vec<WrittenFile>, Failure> {
    let unwritable = |error: std::io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "make the folder that it is to lie in first, or name another one with `--to`",
            io::ErrorKind::AlreadyExists => "name a folder that is not there yet with `--to`",
            _ => "name a folder where you may write with `--to`",
        };
        Failure::new(ErrorCode::Unwritable, format!("cannot make the folder `{}`", folder.display())).because(&error).hint(hint)
    };
    let partial = partial_of(folder);
    if std::fs::symlink_metadata(folder).is_ok() {
        return Err(unwritable(std::io::Error::from(std::io::ErrorKind::AlreadyExists)));
    }
    // A signal ends the writing between two files, so that what was written can be removed.
    let cancel = assay_process::cancel_on_signals(&assay_process::END_SIGNALS)
        .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))?;
    std::fs::create_dir(&partial).map_err(unwritable)?;
    let written = write(&partial, &cancel).map_err(|failure| go_on(&cancel).err().unwrap_or(failure));
    let renamed = written.and_then(|written| std::fs::rename(&partial, folder).map_err(unwritable).map(|()| written));
    if renamed.is_err() {
        let _ = std::fs::remove_dir_all(&partial);
    }
    renamed
}

/// Returns what the files of a format differ in and lack: the remarks about this run, then the fields of the format.
fn describe(format: &ExportFormat, remarks: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = remarks.iter().map(|remark| format!("note: {remark}")).collect();
    let differing: Vec<_> = format.differing().collect();
    let empty: Vec<_> = format.empty().collect();
    let left_out: Vec<_> = format.left_out().collect();
    let groups = [
        ("written with a difference to the tool", differing),
        ("left empty, as the tool demands the field", empty),
        ("left out", left_out),
    ];
    for (title, fields) in groups {
        if fields.is_empty() {
            continue;
        }
        let width = fields.iter().map(|(field, _)| field.chars().count()).max().unwrap_or(0);
        lines.push(format!("{title}: {}", counted(fields.len() as u64, "field")));
        lines.extend(fields.into_iter().map(|(field, why)| format!("  {field:width$}  {why}")));
    }
    lines.push(format!("all fields of {}: docs/reference/exports.md#{}", format.tool, format.name));
    lines
}

/// Returns the name of the folder while it is written, beside it.
fn partial_of(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.partial-{}", std::process::id()))
}

/// The curated files of a run, in a store for queries.
struct CuratedExport<'a> {
    opened: &'a VerifiedRun,
    store: Store,
    scratch: Scratch,
    files: &'a [CuratedFile],
}

impl<'a> CuratedExport<'a> {
    fn open(opened: &'a VerifiedRun, files: &'a [CuratedFile]) -> Result<Self, Failure> {
        Ok(Self { opened, store: Store::open("memory:")?, scratch: Scratch::new(MAX_BYTES)?, files })
    }

    fn bytes(&self, file: &CuratedFile) -> Result<Vec<u8>, Failure> {
        let (name, digest) = (&file.artifact.name, file.artifact.digest);
        let absent = || absent_artifact(&self.opened.removals, &format!("the curated file `{name}`"), &file.artifact);
        self.opened.blobs.get(&digest, MAX_BYTES)?.ok_or_else(absent)
    }

    fn rows(&self, file: &CuratedFile, format: RowFormat) -> Result<Vec<u8>, Failure> {
        let bytes = self.bytes(file)?;
        if format == RowFormat::Parquet {
            return Ok(bytes);
        }
        let failed = |error: assay_query::Error| query_failure(error, Exit::Unexpected);
        self.store.put(&bytes)?;
        let query = Query::parse(&format!("SELECT * FROM {} ORDER BY row_id", file.table)).map_err(failed)?;
        let of_table: Vec<_> = self.files.iter().filter(|other| other.artifact.digest == file.artifact.digest).cloned().collect();
        let opened = open_files(&self.store, &of_table, &query, &self.scratch).map_err(failed)?;
        let table = run_query(&opened, &query, Limits { rows: MAX_ROWS, ..Limits::default() }).map_err(failed)?;
        Ok(if format == RowFormat::Csv { table.csv() } else { table.json_lines() }.into_bytes())
    }
}

/// Copies the records of every attempt of every shard: `records/<trial>-<attempt>-<shard>.parquet`.
fn copy_records(opened: &VerifiedRun, folder: &Path, cancel: &Cancel) -> Result<Vec<WrittenFile>, Failure> {
    let (records, mut written) = (folder.join("records"), Vec::new());
    std::fs::create_dir(&records)
        .map_err(|error| Failure::new(ErrorCode::Unwritable, format!("cannot make `{}`", records.display())).because(&error))?;
    for (_, part) in opened.chain.all::<ExecutionPart>() {
        for attempt in &part.body.attempts {
            go_on(cancel)?;
            let Some((_, bytes)) = raw_records(opened, attempt)? else { continue };
            // Attempts have numbers within their block.
            let block = format!("{}-{}", part.body.block.index, part.body.block.incarnation);
            let number = ordinal(attempt.attempt);
            let name = format!("{}-{block}-{number}-{}.parquet", attempt.trial_id, part.body.shard.index);
            write_new(&records.join(&name), &bytes)?;
            let size = assay_report::bytes(bytes.len() as u64);
            written.push(WrittenFile { name: Path::new("records").join(name), size });
        }
    }
    Ok(written)
}

/// Returns the raw records of an attempt, with their name; `None` if it has none.
///
/// # Errors
/// Fails if they are not in the store, or if the run is a published folder.
pub(crate) fn raw_records<'a>(opened: &VerifiedRun, attempt: &'a Attempt) -> Result<Option<(&'a str, Vec<u8>)>, Failure> {
    let Some(artifact) = attempt.records() else { return Ok(None) };
    Ok(Some((&artifact.name, raw_file(opened, artifact)?)))
}

/// Returns a raw file of a run: records, or what a script printed.
///
/// # Errors
/// Fails if it is not in the store, or if the run is a published folder without it.
pub(crate) fn raw_file(opened: &VerifiedRun, artifact: &Artifact) -> Result<Vec<u8>, Failure> {
    opened.blobs.get(&artifact.digest, MAX_BYTES)?.ok_or_else(|| match opened.store {
        Some(_) => absent_artifact(&opened.removals, &format!("the raw file `{}`", artifact.name), artifact),
        None => Failure::new(
            ErrorCode::NoEvidence,
            "raw records and outputs stay in the store: a published folder does not hold them",
        )
        .hint("name the run and its store with `--store` instead of a folder"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_format() {
        for format in EXPORT_FORMATS {
            assert!(matches!(Format::find(format.name), Format::Tool(found) if found.name == format.name));
            assert!(RowFormat::ALL.iter().all(|(name, ..)| *name != format.name));
        }
        for (name, format, _) in RowFormat::ALL {
            assert!(matches!(Format::find(name), Format::Rows(found) if found == format));
        }
    }

    #[test]
    fn what_is_left_out_is_said_with_the_reason() {
        let vllm = EXPORT_FORMATS.into_iter().find(|format| format.name == "vllm").expect("a format");
        let lines = describe(vllm, &["`a` has no times".to_owned()]);
        assert_eq!(lines.first().map(String::as_str), Some("note: `a` has no times"));
        let text = lines.join("\n");
        assert!(text.contains("\n  generated_texts          ") && text.contains("responses are not kept"), "{text}");
        assert!(text.ends_with("all fields of vllm bench serve: docs/reference/exports.md#vllm"));
        assert!(!describe(vllm, &[]).join("\n").contains("note: "));
        let lineage = EXPORT_FORMATS.into_iter().find(|format| format.name == "openlineage").expect("a format");
        assert!(!describe(lineage, &[]).join("\n").contains("written with a difference"), "it has no such field");
    }

    #[test]
    fn an_export_that_is_stopped_leaves_nothing() {
        let place = tempfile::tempdir().expect("a folder");
        let stopped = create_folder(&place.path().join("out"), |partial, cancel| {
            std::fs::write(partial.join("a"), "1").expect("written");
            cancel.cancel("SIGTERM");
            go_on(cancel).map(|()| Vec::new())
        });
        let failure = stopped.expect_err("stopped");
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (ErrorCode::Cancelled, "the export was stopped (SIGTERM), and left no file")
        );
        assert_eq!(std::fs::read_dir(place.path()).expect("a folder").count(), 0);
    }
}
