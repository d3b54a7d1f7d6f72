//! `assay-plan check-import`: imports the dataset or trace of a workload as the stage does, before there is a run, and keeps nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use assay_git::read_folder;
use assay_manifest::{Artifact, Count, Digest, Name, OriginKind, Source, SourceFile};
use assay_planning::{
    CheckedImport, ImportReply, MAX_COUNTED_TEXT, SourceFiles, check_imported_connections, with_dataset_request,
};
use assay_spec::{PinnableFile, Prompts, Serving, Work, Workload, WorkloadTemplate};
use assay_stage::{ErrorCode, Exit, Failure};

use crate::dataset::{ImportedRows, check_rows};

/// Checks the file of the workload that the arguments name, after the folder of the repository, and prints the reply.
pub fn check_import_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let checked = match arguments.as_slice() {
        [root, workload] => check_import(Path::new(root), &workload.to_string_lossy(), MAX_COUNTED_TEXT),
        _ => {
            Err(Failure::new(ErrorCode::Parameters, "`check-import` takes the folder of a repository and the name of a workload"))
        }
    };
    let reply = checked.map_or_else(ImportReply::Refused, |import| ImportReply::Imported(Box::new(import)));
    let written = serde_json::to_vec(&reply).map_err(std::io::Error::from).and_then(|bytes| std::io::stdout().write_all(&bytes));
    written.map_or_else(|_| Exit::Unexpected.into(), |()| ExitCode::SUCCESS)
}

/// Imports the file of a workload's dataset or trace. Once the tokens of `most_text` bytes are counted, rows are parsed only.
fn check_import(root: &Path, workload: &str, most_text: u64) -> Result<CheckedImport, Failure> {
    let name: Name = workload.parse().map_err(|error| Failure::from_error(ErrorCode::Parameters, &error))?;
    let workload = read_workload(root, &name)?;
    let Work::Serving(serving) = &workload.spec.work else { return Err(without_dataset(&name)) };
    let mut files = FolderFiles::default();
    let mut serving = serving.as_ref().clone();
    let missing_tokenizer = files.add_tokenizer(root, &name, &serving)?;
    if missing_tokenizer.is_some() {
        ignore_tokens(&mut serving);
    }
    let Prompts::Dataset(dataset) = &serving.prompts else { return Err(without_dataset(&name)) };
    if let PinnableFile::Path { path, .. } = &dataset.file
        && !files.add(root, &name, path)?
    {
        let message = format!("there is no file `{}/{path}`", Workload::folder_of(&name));
        return Err(Failure::new(ErrorCode::FileMissing, message).hint("paths are relative to the workload's folder"));
    }
    let source = files.source();
    let files = SourceFiles::load(&source, |artifact| Ok(files.bytes.remove(&artifact.name).unwrap_or_default()))?;
    let checked = with_dataset_request(&files, &name, &serving, |request| check_rows(request, most_text))?;
    let ImportedRows { summary, parsed_only } = checked.ok_or_else(|| without_dataset(&name))?;
    check_imported_connections(&serving, &summary)?;
    Ok(CheckedImport { summary, parsed_only: Count(parsed_only), missing_tokenizer })
}

fn without_dataset(workload: &Name) -> Failure {
    Failure::new(ErrorCode::Parameters, format!("the workload `{workload}` has neither a dataset nor a trace"))
}

fn read_workload(root: &Path, name: &Name) -> Result<Workload, Failure> {
    for path in Workload::paths_of(name) {
        if let Some(bytes) = read(root, &path)? {
            return Workload::parse(&path, &bytes).map_err(|problems| Failure::invalid(&problems));
        }
    }
    Err(Failure::new(ErrorCode::FileMissing, format!("there is no file `{}`", Workload::path_of(name))))
}

fn read(root: &Path, path: &str) -> Result<Option<Vec<u8>>, Failure> {
    let read = read_folder(root, path).map_err(|error| {
        let failure = Failure::from_error(ErrorCode::Unreadable, &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    });
    Ok(read?.map(|file| file.bytes))
}

/// Leaves out what only the tokenizer of the workload could decide.
fn ignore_tokens(serving: &mut Serving) {
    serving.tokenizer = None;
    serving.token_ids = None;
    if let Prompts::Dataset(dataset) = &mut serving.prompts {
        dataset.max_input = None;
    }
}

/// The files of a folder that an import needs.
#[derive(Default)]
struct FolderFiles {
    files: Vec<SourceFile>,
    bytes: BTreeMap<String, Vec<u8>>,
}

impl FolderFiles {
    /// Reads a file of a workload's folder. Returns false if there is none.
    fn add(&mut self, root: &Path, workload: &Name, path: &str) -> Result<bool, Failure> {
        let path = format!("{}/{path}", Workload::folder_of(workload));
        let Some(bytes) = read(root, &path)? else { return Ok(false) };
        let artifact = Artifact {
            name: path.clone(),
            digest: Digest::compute(&bytes),
            size: Count(bytes.len() as u64),
            media_type: "application/octet-stream".to_owned(),
        };
        self.bytes.insert(path.clone(), bytes);
        self.files.push(SourceFile { path, executable: false, artifact });
        Ok(true)
    }

    /// Reads the files of the workload's tokenizer. Returns the path of one that is missing and without which nothing can be counted.
    fn add_tokenizer(&mut self, root: &Path, workload: &Name, serving: &Serving) -> Result<Option<String>, Failure> {
        let Some(tokenizer) = &serving.tokenizer else { return Ok(None) };
        if !self.add(root, workload, &tokenizer.path)? {
            return Ok(Some(tokenizer.path.clone()));
        }
        let Some(WorkloadTemplate { config, file, .. }) = &tokenizer.template else { return Ok(None) };
        let has_config = self.add(root, workload, config)?;
        let has_file = self.add(root, workload, file)?;
        Ok((!has_config && !has_file).then(|| file.clone()))
    }

    fn source(&self) -> Source {
        Source {
            kind: OriginKind::Worktree,
            repository: None,
            commit: None,
            reference: None,
            dirty: true,
            objects: Vec::new(),
            pipeline: String::new(),
            import: None,
            files_digest: Source::digest_of_files(&self.files),
            files: self.files.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with one workload over a dataset.
    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new(dataset: &str, rows: &str) -> Self {
            let repository = Self(tempfile::tempdir().expect("a folder"));
            let yaml = format!(
                "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: asked}}
spec:
  type: serving
  model: m
  precision: fp8
  protocol: openai_compatible_http
  deployment_model: unknown
  batching_policy: unknown
  stack: unknown
  load: {{mode: closed, concurrency: [1], requests: 1, warmup: 0s}}
  dataset: {{{dataset}}}
"
            );
            repository.write("workload.yaml", &yaml);
            repository.write("rows.jsonl", rows);
            repository
        }

        fn write(&self, file: &str, text: &str) {
            let folder = self.0.path().join("workloads/asked");
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(file), text).expect("written");
        }

        fn check(&self, most_text: u64) -> Result<CheckedImport, Failure> {
            check_import(self.0.path(), "asked", most_text)
        }
    }

    const ROWS: &str = "{\"prompt\": \"one two\"}\n{\"prompt\": \"one two three\"}\n{\"prompt\": \"one\"}\n";

    #[test]
    fn rows_are_kept_and_left_out_by_the_rules_of_the_workload() {
        let checked = Repository::new("path: rows.jsonl, max_input: 2, over: skip", ROWS).check(u64::MAX).expect("imported");
        let CheckedImport { summary, parsed_only, missing_tokenizer } = checked;
        assert_eq!((summary.read, summary.rows, summary.too_long), (Count(3), Count(2), Count(1)));
        assert_eq!((parsed_only, missing_tokenizer), (Count(0), None));
        let refused = Repository::new("path: rows.jsonl, max_input: 2", ROWS).check(u64::MAX).expect_err("refused");
        assert_eq!(refused.code, ErrorCode::Dataset);
        assert!(refused.to_string().contains("the prompt of row 2 has 3 tokens"), "{refused}");
    }

    #[test]
    fn rows_beyond_the_limit_are_parsed_and_not_counted() {
        let checked = Repository::new("path: rows.jsonl, max_input: 2, over: skip", ROWS).check(7).expect("imported");
        assert_eq!((checked.summary.read, checked.parsed_only), (Count(1), Count(2)));
        let broken = format!("{ROWS}{{\"question\": 1}}\n");
        let refused = Repository::new("path: rows.jsonl", &broken).check(7).expect_err("refused");
        assert!(refused.to_string().contains("row 4 has neither `prompt` nor `messages`"), "{refused}");
        let long =
            Repository::new("path: rows.jsonl, max_input: 1, over: skip", "{\"prompt\": \"one two\"}\n{\"prompt\": \"one\"}\n");
        assert_eq!(long.check(7).map(|checked| checked.parsed_only), Ok(Count(1)), "the rest may be kept");
    }

    #[test]
    fn a_tokenizer_that_is_missing_is_named_and_the_format_is_checked_all_the_same() {
        let written = "path: rows.jsonl, max_input: 2}\n  tokenizer: {path: tokenizer.json";
        let checked = Repository::new(written, ROWS).check(u64::MAX).expect("imported");
        assert_eq!((checked.summary.rows, checked.missing_tokenizer.as_deref()), (Count(3), Some("tokenizer.json")));
        let repository = Repository::new(written, ROWS);
        repository.write("tokenizer.json", "{}");
        assert_eq!(repository.check(u64::MAX).expect_err("no tokenizer").code, ErrorCode::Tokenizer);
        Repository::new(written, "{}\n").check(u64::MAX).expect_err("a row without a prompt");
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let refused = Repository::new("path: other.jsonl", ROWS).check(u64::MAX).expect_err("missing");
        insta::assert_snapshot!(refused, @r"
        error[file_missing]: there is no file `workloads/asked/other.jsonl`

        hint: paths are relative to the workload's folder
        ");
    }
}
