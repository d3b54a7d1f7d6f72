//! The import of datasets: from the pinned file to rows and their index.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Cursor, Write};
use std::path::Path;

use assay_dataset::{
    DatasetError, MAX_ROW_BYTES, MAX_ROW_VALUES, RowWriter, TextTokens, import, import_parquet_row, parquet_columns,
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

fn import_text<R: Write, I: Write>(
    content: Content<'_>,
    request: &DatasetRequest<'_>,
    writer: &mut RowWriter<'_, R, I>,
) -> Result<(), DatasetError> {
    let source: Box<dyn BufRead> = match content {
        Content::Bytes(bytes) => Box::new(Cursor::new(bytes)),
        Content::File(file) => Box::new(BufReader::new(file)),
    };
    import(request.format, request.fields, &request.rules, source, &mut |row, content| writer.write(row, content))
}

fn import_parquet<R: Write, I: Write>(
    content: Content<'_>,
    request: &DatasetRequest<'_>,
    writer: &mut RowWriter<'_, R, I>,
) -> Result<(), ParquetImportError> {
    let source = match content {
        Content::Bytes(bytes) => Source::from(bytes.to_vec()),
        Content::File(file) => Source::from(file),
    };
    let limits = ObjectLimits { bytes: MAX_ROW_BYTES as usize, values: MAX_ROW_VALUES };
    for_each_object(source, &parquet_columns(request.fields), limits, &mut |row, object| {
        Ok(writer.write(row, import_parquet_row(request.fields, &request.rules, row, object)?)?)
    })
}

/// The tokenizer of the workload.
struct WorkloadTokens(Tokenizer);

impl TextTokens for WorkloadTokens {
    fn count(&self, text: &str) -> Result<u64, String> {
        self.0.count(text).map_err(|error| error.to_string())
    }

    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
        self.0.truncate(text, tokens).map_err(|error| error.to_string())
    }

    fn in_template(&self, before: Option<MessageRole>, messages: &[(MessageRole, &str)]) -> Option<Result<String, String>> {
        Some(self.0.in_template(before, messages)?.map_err(|error| error.to_string()))
    }

    fn first_other_in_template(&self, prompts: Vec<Vec<(MessageRole, String)>>) -> Result<Option<usize>, String> {
        self.0.first_other_in_template(prompts).map_err(|error| error.to_string())
    }

    fn end_of_prompts(&self) -> &str {
        self.0.end_of_prompts()
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
    let tokenizer = match request.tokenizer {
        None => Tokenizer::built_in(),
        Some(tokenizer) => load_tokenizer(&tokenizer)?,
    };
    let create = |name: &str| {
        let path = scratch.join(name);
        File::create(&path).map(|file| (BufWriter::new(file), path.clone())).map_err(|error| unreadable(&path, &error))
    };
    let ((rows, rows_path), (index, index_path)) = (create("rows.jsonl")?, create("rows.index")?);
    let tokens = WorkloadTokens(tokenizer);
    let refused = |error: &(dyn std::error::Error + 'static)| {
        let kind = if request.rules.times.is_some() { "trace" } else { "dataset" };
        let what = format!("the {kind} `{}` of workload `{}` cannot be used", file.origin, request.workload);
        Failure::new(ErrorCode::Dataset, what).because(error)
    };
    let size = file.artifact.size.0;
    let mut writer = RowWriter::new(request.rules, &tokens, rows, index).map_err(|error| refused(&error))?.of_file(size);
    match request.format {
        DatasetFormat::Parquet => import_parquet(content, request, &mut writer).map_err(|error| refused(&error))?,
        _ => import_text(content, request, &mut writer).map_err(|error| refused(&error))?,
    }
    let (_, _, summary) = writer.finish().map_err(|error| refused(&error))?;
    let rows: Artifact = keep.keep_file(name("rows.jsonl"), ROWS, &rows_path)?;
    let index = keep.keep_file(name("rows.index"), BYTES, &index_path)?;
    Ok(Dataset { file, format: request.format, rows, index, summary, max_output_tokens: request.max_output_tokens })
}
