//! `assay export`: the rows of a run as files for other programs.

use std::path::{Path, PathBuf};

use assay_manifest::{CuratedFile, ExecutionPart, Summary, ordinal};
use assay_planning::query_failure;
use assay_query::{Limits, Query, open_files, run_query};
use assay_report::counted;
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::{Scratch, Store};

use crate::commands::query::write_new;
use crate::commands::removed::{absent_artifact, resume_hint};
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The largest curated file and the largest file of records that are exported, in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// The most rows of a table that are written as text.
const MAX_ROWS: u64 = 10_000_000;

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Json,
    /// The curated files themselves, byte for byte
    Parquet,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

/// Write the curated rows of a run, one file per table. The run's chain is verified first.
#[derive(clap::Args)]
pub(crate) struct Export {
    /// The run's name or published folder
    #[arg(value_name = "RUN|PATH")]
    run: String,
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Export only this table
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// The folder to create; `-` writes one table to stdout [default: the run's name and `-export`]
    #[arg(long, value_name = "PATH")]
    to: Option<PathBuf>,
    /// Also copy the raw records of every attempt, one row per request; always as Parquet
    #[arg(long)]
    records: bool,
    #[command(flatten)]
    place: StoreOptions,
}

impl Export {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let opened = self.place.runs().open(&self.run)?;
        let summary = opened.chain.one::<Summary>().ok_or_else(|| {
            Failure::new(ErrorCode::NotPublished, format!("the run `{}` has no rows yet", opened.chain.run_id))
                .hint(resume_hint(&opened))
        })?;
        let files = self.selected_files(&summary.body)?;
        let exported = CuratedExport::open(&opened, &summary.body.files)?;
        if self.to.as_deref() == Some(Path::new("-")) {
            let [file] = files.as_slice() else {
                return Err(
                    Failure::new(ErrorCode::SeveralTables, "standard output takes one table").hint("name it with `--table`")
                );
            };
            output::raw(&exported.rows(file, self.format)?)?;
        } else {
            self.write_folder(&opened, &files, &exported)?;
        }
        Ok(output::established(opened.chain.is_established()))
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

    fn write_folder(&self, opened: &VerifiedRun, files: &[&CuratedFile], exported: &CuratedExport<'_>) -> Result<(), Failure> {
        let folder = self.to.clone().unwrap_or_else(|| PathBuf::from(format!("{}-export", opened.chain.run_id)));
        let unwritable = |error: std::io::Error| {
            Failure::new(ErrorCode::Unwritable, format!("cannot make the folder `{}`", folder.display()))
                .because(&error)
                .hint("name a folder that is not there yet with `--to`")
        };
        // An export that fails or is killed leaves no folder that looks whole.
        let partial = partial_of(&folder);
        if std::fs::symlink_metadata(&folder).is_ok() {
            return Err(unwritable(std::io::Error::from(std::io::ErrorKind::AlreadyExists)));
        }
        std::fs::create_dir(&partial).map_err(unwritable)?;
        let written = self.write_files(opened, files, exported, &partial);
        let renamed = written.and_then(|written| std::fs::rename(&partial, &folder).map_err(unwritable).map(|()| written));
        if renamed.is_err() {
            let _ = std::fs::remove_dir_all(&partial);
        }
        for WrittenFile { name, size } in renamed? {
            output::line(format!("{}  {size}", folder.join(name).display()));
        }
        Ok(())
    }

    fn write_files(
        &self,
        opened: &VerifiedRun,
        files: &[&CuratedFile],
        exported: &CuratedExport<'_>,
        folder: &Path,
    ) -> Result<Vec<WrittenFile>, Failure> {
        let mut written = Vec::new();
        for file in files {
            let name = format!("{}.{}", file.table, self.format.extension());
            write_new(&folder.join(&name), &exported.rows(file, self.format)?)?;
            written.push(WrittenFile { name: name.into(), size: counted(file.rows.0, "row") });
        }
        if self.records {
            written.extend(copy_records(opened, folder)?);
        }
        Ok(written)
    }
}

/// A file of an export.
struct WrittenFile {
    /// Its path within the folder.
    name: PathBuf,
    /// Its size, as it is printed: in rows or in bytes.
    size: String,
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

    fn rows(&self, file: &CuratedFile, format: Format) -> Result<Vec<u8>, Failure> {
        let bytes = self.bytes(file)?;
        if format == Format::Parquet {
            return Ok(bytes);
        }
        let failed = |error: assay_query::Error| query_failure(error, Exit::Unexpected);
        self.store.put(&bytes)?;
        let query = Query::parse(&format!("SELECT * FROM {} ORDER BY row_id", file.table)).map_err(failed)?;
        let of_table: Vec<_> = self.files.iter().filter(|other| other.artifact.digest == file.artifact.digest).cloned().collect();
        let opened = open_files(&self.store, &of_table, &query, &self.scratch).map_err(failed)?;
        let table = run_query(&opened, &query, Limits { rows: MAX_ROWS, ..Limits::default() }).map_err(failed)?;
        Ok(if format == Format::Csv { table.csv() } else { table.json_lines() }.into_bytes())
    }
}

/// Copies the records of every attempt of every shard: `records/<trial>-<attempt>-<shard>.parquet`.
fn copy_records(opened: &VerifiedRun, folder: &Path) -> Result<Vec<WrittenFile>, Failure> {
    let (records, mut written) = (folder.join("records"), Vec::new());
    std::fs::create_dir(&records)
        .map_err(|error| Failure::new(ErrorCode::Unwritable, format!("cannot make `{}`", records.display())).because(&error))?;
    for (_, part) in opened.chain.all::<ExecutionPart>() {
        for attempt in &part.body.attempts {
            let Some(artifact) = attempt.evidence.iter().find(|artifact| artifact.name.ends_with("/records.parquet")) else {
                continue;
            };
            let bytes = opened.blobs.get(&artifact.digest, MAX_BYTES)?.ok_or_else(|| match opened.store {
                Some(_) => absent_artifact(&opened.removals, &format!("the raw file `{}`", artifact.name), artifact),
                None => {
                    Failure::new(ErrorCode::NoEvidence, "raw records stay in the store: a published folder does not hold them")
                        .hint("name the run and its store with `--store` instead of a folder")
                }
            })?;
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
