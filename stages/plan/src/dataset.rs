//! The import of datasets: from the pinned file to rows and their index.

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read};
use std::path::Path;

use assay_dataset::{DatasetError, RowWriter, TextTokens, import};
use assay_manifest::{Artifact, Dataset, PinnedFile};
use assay_planning::{DatasetFile, DatasetRequest};
use assay_stage::{ErrorCode, Failure};
use assay_tokens::Tokenizer;

use crate::artifact_sink::ArtifactSink;
use crate::tokenizer::load_tokenizer;

/// The media type of imported rows.
const ROWS: &str = "application/jsonl";

/// The media type of an index, and of a file of unknown format.
const BYTES: &str = "application/octet-stream";

/// The tokenizer of the workload.
struct WorkloadTokens(Tokenizer);

impl TextTokens for WorkloadTokens {
    fn count(&self, text: &str) -> Result<u64, String> {
        self.0.count(text).map_err(|error| error.to_string())
    }

    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
        self.0.truncate(text, tokens).map_err(|error| error.to_string())
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
    let (file, source): (PinnedFile, Box<dyn Read>) = match (request.file, fetched) {
        (DatasetFile::InSource { file, bytes }, _) => (file.clone(), Box::new(Cursor::new(bytes))),
        (DatasetFile::Url(_), Some(fetched)) => {
            let artifact = keep.keep_file(name("file"), BYTES, fetched.path)?;
            let opened = File::open(fetched.path).map_err(|error| unreadable(fetched.path, &error))?;
            let file = PinnedFile { path: "dataset".to_owned(), origin: fetched.url.to_owned(), executable: false, artifact };
            (file, Box::new(opened))
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
    let refused = |error: &DatasetError| {
        let what = format!("the dataset `{}` of workload `{}` cannot be used", file.origin, request.workload);
        Failure::new(ErrorCode::Dataset, what).because(error)
    };
    let mut writer = RowWriter::new(request.rules, &tokens, rows, index).map_err(|error| refused(&error))?;
    import(request.format, request.fields, &request.rules, BufReader::new(source), &mut |row, content| {
        writer.write(row, content)
    })
    .map_err(|error| refused(&error))?;
    let (_, _, summary) = writer.finish().map_err(|error| refused(&error))?;
    let rows: Artifact = keep.keep_file(name("rows.jsonl"), ROWS, &rows_path)?;
    let index = keep.keep_file(name("rows.index"), BYTES, &index_path)?;
    Ok(Dataset { file, format: request.format, rows, index, summary, max_output_tokens: request.max_output_tokens })
}
