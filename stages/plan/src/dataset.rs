//! The import of datasets: from the pinned file to rows and their index.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Cursor, Write, sink};
use std::path::Path;

use assay_dataset::{
    DatasetError, FileRow, ImportSummary, LeftOut, MAX_ROW_BYTES, MAX_ROW_VALUES, RowWriter, TextTokens, import,
    import_parquet_row, parquet_columns,
};
use assay_manifest::{Artifact, Dataset, DatasetFormat, MessageRole, PinnedFile};
use assay_planning::{DatasetFile, DatasetRequest};
use assay_stage::{ErrorCode, Failure};
use assay_tokens::Tokenizer;
use assay_warehouse::{ObjectError, ObjectLimits, Source, for_each_object};

use crate::artifact_sink::ArtifactSink;
use crate::tokenizer::load_tokenizer;

/// The media type of imported rows.
const ROWS: &str = "application/jsonl";

/// The media type of an index, and of a file of unknown format.
const BYTES: &str = "application/octet-stream";

/// The content of a dataset's file.
enum Content<'a> {
    Bytes(&'a [u8]),
    File(File),
}

/// The reason why a Parquet file cannot be imported.
#[derive(Debug, thiserror::Error)]
enum ParquetImportError {
    #[error(transparent)]
    Rows(#[from] DatasetError),
    #[error(transparent)]
    File(#[from] ObjectError),
}

/// Fails if the import has been cancelled.
type CheckCancelled<'a> = dyn Fn() -> Result<(), Failure> + 'a;

/// Takes a row of the file by its number.
type TakeRow<'a> = dyn FnMut(u64, Result<FileRow, LeftOut>) -> Result<(), DatasetError> + 'a;

fn import_text(content: Content<'_>, request: &DatasetRequest<'_>, take: &mut TakeRow<'_>) -> Result<(), DatasetError> {
    let source: Box<dyn BufRead> = match content {
        Content::Bytes(bytes) => Box::new(Cursor::new(bytes)),
        Content::File(file) => Box::new(BufReader::new(file)),
    };
    import(request.format, request.fields, &request.rules, source, take)
}

fn import_parquet(content: Content<'_>, request: &DatasetRequest<'_>, take: &mut TakeRow<'_>) -> Result<(), ParquetImportError> {
    let source = match content {
        Content::Bytes(bytes) => Source::from(bytes.to_vec()),
        Content::File(file) => Source::from(file),
    };
    let limits = ObjectLimits { bytes: MAX_ROW_BYTES as usize, values: MAX_ROW_VALUES };
    for_each_object(source, &parquet_columns(request.fields), limits, &mut |row, object| {
        Ok(take(row, import_parquet_row(request.fields, &request.rules, row, object)?)?)
    })
}

/// The tokenizer of the workload, and the bytes of text that it was given.
struct WorkloadTokens {
    tokenizer: Tokenizer,
    bytes: Cell<u64>,
}

impl WorkloadTokens {
    fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, bytes: Cell::new(0) }
    }

    /// Returns the tokenizer for a text of this many bytes.
    fn for_bytes(&self, bytes: usize) -> &Tokenizer {
        self.bytes.set(self.bytes.get().saturating_add(bytes as u64));
        &self.tokenizer
    }
}

impl TextTokens for WorkloadTokens {
    fn count(&self, text: &str) -> Result<u64, String> {
        self.for_bytes(text.len()).count(text).map_err(|error| error.to_string())
    }

    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
        self.for_bytes(text.len()).truncate(text, tokens).map_err(|error| error.to_string())
    }

    fn in_template(&self, before: Option<MessageRole>, messages: &[(MessageRole, &str)]) -> Option<Result<String, String>> {
        Some(self.tokenizer.in_template(before, messages)?.map_err(|error| error.to_string()))
    }

    fn first_other_in_template(&self, prompts: Vec<Vec<(MessageRole, String)>>) -> Result<Option<usize>, String> {
        self.tokenizer.first_other_in_template(prompts).map_err(|error| error.to_string())
    }

    fn end_of_prompts(&self) -> &str {
        self.tokenizer.end_of_prompts()
    }
}

/// The fetched bytes of an address.
pub(crate) struct FetchedDataset<'a> {
    pub(crate) url: &'a str,
    pub(crate) path: &'a Path,
}

/// Imports a dataset of the Source, or one that was fetched, and keeps the rows and their index; a fetched file too. `scratch` is an empty folder.
pub(crate) fn import_dataset(
    keep: &dyn ArtifactSink,
    request: &DatasetRequest<'_>,
    fetched: Option<&FetchedDataset<'_>>,
    scratch: &Path,
) -> Result<Dataset, Failure> {
    let name = |file: &str| format!("workloads/{}/dataset/{file}", request.workload);
    let unreadable = |path: &Path, error: &std::io::Error| {
        Failure::new(ErrorCode::Scratch, format!("cannot use `{}`", path.display())).because(error)
    };
    let (file, content) = match (request.file, fetched) {
        (DatasetFile::InSource { file, bytes }, _) => (file.clone(), Content::Bytes(bytes)),
        (DatasetFile::Url(_), Some(fetched)) => {
            let artifact = keep.keep_file(name("file"), BYTES, fetched.path)?;
            let opened = File::open(fetched.path).map_err(|error| unreadable(fetched.path, &error))?;
            let file = PinnedFile { path: "dataset".to_owned(), origin: fetched.url.to_owned(), executable: false, artifact };
            (file, Content::File(opened))
        }
        (DatasetFile::Url(url), None) => {
            return Err(Failure::new(ErrorCode::Internal, format!("`{url}` was not fetched")));
        }
    };
    let create = |name: &str| {
        let path = scratch.join(name);
        File::create(&path).map(|file| (BufWriter::new(file), path.clone())).map_err(|error| unreadable(&path, &error))
    };
    let ((rows, rows_path), (index, index_path)) = (create("rows.jsonl")?, create("rows.index")?);
    let ImportedRows { summary, .. } = import_rows(request, content, &file, (rows, index), u64::MAX, &|| keep.check_cancelled())?;
    let rows: Artifact = keep.keep_file(name("rows.jsonl"), ROWS, &rows_path)?;
    let index = keep.keep_file(name("rows.index"), BYTES, &index_path)?;
    Ok(Dataset { file, format: request.format, rows, index, summary, max_output_tokens: request.max_output_tokens })
}

/// The rows of a file.
pub(crate) struct ImportedRows {
    /// The rows that were written, and those that were left out.
    pub(crate) summary: ImportSummary,
    /// Rows beyond the limit, which were parsed and not written.
    pub(crate) parsed_only: u64,
}

/// Checks that the plan stage can import a file of the Source, without keeping its rows. Once the tokens of `most_text` bytes are counted, rows are parsed only.
pub(crate) fn check_rows(request: &DatasetRequest<'_>, most_text: u64) -> Result<ImportedRows, Failure> {
    match request.file {
        DatasetFile::InSource { file, bytes } => {
            // A signal ends the program that checks: it leaves nothing behind.
            import_rows(request, Content::Bytes(bytes), file, (sink(), sink()), most_text, &|| Ok(()))
        }
        DatasetFile::Url(url) => Err(Failure::new(ErrorCode::Internal, format!("`{url}` was not fetched"))),
    }
}

/// Imports the rows of a file and writes them with their index.
fn import_rows<R: Write, I: Write>(
    request: &DatasetRequest<'_>,
    content: Content<'_>,
    file: &PinnedFile,
    (rows, index): (R, I),
    most_text: u64,
    check_cancelled: &CheckCancelled<'_>,
) -> Result<ImportedRows, Failure> {
    let tokens = WorkloadTokens::new(match &request.tokenizer {
        None => Tokenizer::built_in(),
        Some(tokenizer) => load_tokenizer(tokenizer)?,
    });
    let refused = |error: &(dyn std::error::Error + 'static)| {
        let kind = if request.rules.times.is_some() { "trace" } else { "dataset" };
        let what = format!("the {kind} `{}` of workload `{}` cannot be used", file.origin, request.workload);
        Failure::new(ErrorCode::Dataset, what).because(error)
    };
    let writer = RowWriter::new(request.rules, &tokens, rows, index).map_err(|error| refused(&error))?;
    let (mut writer, mut parsed_only) = (writer.of_file(file.artifact.size.0), 0);
    let mut cancelled = None;
    let mut take = |row: u64, content: Result<FileRow, LeftOut>| {
        // Before each row: a small file may have rows for minutes.
        if let Err(failure) = check_cancelled() {
            cancelled = Some(failure);
            return Err(DatasetError::Stopped(row));
        }
        if tokens.bytes.get() >= most_text {
            parsed_only += 1;
            return Ok(());
        }
        writer.write(row, content)
    };
    let imported = match request.format {
        DatasetFormat::Parquet => import_parquet(content, request, &mut take).map_err(|error| refused(&error)),
        _ => import_text(content, request, &mut take).map_err(|error| refused(&error)),
    };
    imported.map_err(|failure| cancelled.unwrap_or(failure))?;
    let summary = match writer.finish() {
        Ok((_, _, summary)) => summary,
        // Rows that were not written may be kept.
        Err(DatasetError::Empty(_) | DatasetError::EmptyTrace(_)) if parsed_only > 0 => ImportSummary::default(),
        Err(error) => return Err(refused(&error)),
    };
    Ok(ImportedRows { summary, parsed_only })
}

#[cfg(test)]
mod tests {
    use assay_dataset::{Fields, ImportRules};
    use assay_manifest::{Count, Digest, Name};
    use assay_stage::Exit;

    use super::*;

    /// The sink of a stage that is cancelled once it has asked for so many times if it was.
    struct CancelledSink(Cell<u32>);

    impl ArtifactSink for CancelledSink {
        fn keep(&self, _: String, _: &str, _: &[u8]) -> Result<Artifact, Failure> {
            unreachable!("nothing is kept of a cancelled import")
        }

        fn keep_file(&self, _: String, _: &str, _: &Path) -> Result<Artifact, Failure> {
            unreachable!("nothing is kept of a cancelled import")
        }

        fn write_held(&self, _: &Digest, _: &Path) -> Result<(), Failure> {
            unreachable!("the file is of the source")
        }

        fn folder(&self) -> &Path {
            unreachable!("the folder is given")
        }

        fn check_cancelled(&self) -> Result<(), Failure> {
            match self.0.get().checked_sub(1) {
                Some(left) => {
                    self.0.set(left);
                    Ok(())
                }
                None => Err(Failure::cancelled("SIGTERM")),
            }
        }
    }

    #[test]
    fn an_import_ends_at_the_next_row_when_the_stage_is_cancelled() {
        let bytes = "{\"prompt\": \"a\"}\n".repeat(3) + "this is no row, and is not reached";
        let artifact = Artifact {
            name: "rows.jsonl".to_owned(),
            digest: Digest::compute(bytes.as_bytes()),
            size: Count(bytes.len() as u64),
            media_type: BYTES.to_owned(),
        };
        let file = PinnedFile { path: "rows.jsonl".to_owned(), origin: "rows.jsonl".to_owned(), executable: false, artifact };
        let (workload, fields): (Name, _) = ("w".parse().expect("a name"), Fields::default());
        let request = DatasetRequest {
            workload: &workload,
            file: DatasetFile::InSource { file: &file, bytes: bytes.as_bytes() },
            format: DatasetFormat::Jsonl,
            fields: &fields,
            rules: ImportRules::UNLIMITED,
            tokenizer: None,
            max_output_tokens: None,
        };
        let scratch = tempfile::tempdir().expect("a folder");
        let import =
            |rows| import_dataset(&CancelledSink(Cell::new(rows)), &request, None, scratch.path()).expect_err("no dataset");
        assert_eq!(import(2).exit, Exit::Cancelled);
        assert_eq!(import(3).code, ErrorCode::Dataset, "the last line is no row");
    }
}
