//! The import of one file or command line.

use assay_spec::{MAX_OBJECT_BYTES, Problem, parse_documents, validate};
use serde_json::Value;

use crate::command::{Arguments, find_command, map_leading_words};
use crate::definition::{ImportOptions, ImportedFile};
use crate::format::{Format, Reader, Source};
use crate::mapping::Mapping;
use crate::registry::FORMATS;
use crate::results::{find_credential, find_credential_in_text};
use crate::row::{Outcome, Row};
use crate::value::shown_name;

/// The version of the imports: another version may give other definitions.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most definitions of one file.
pub(crate) const MAX_DOCUMENTS: usize = 100;
/// The most words of a command line.
pub(crate) const MAX_WORDS: usize = 2_000;
/// The most lines of a text.
pub(crate) const MAX_LINES: usize = 5_000;
/// The longest word of a command line, in bytes.
pub(crate) const MAX_WORD_BYTES: usize = 64 << 10;

/// An imported definition.
#[derive(Clone, Debug)]
pub struct Import {
    /// The format of the first definition.
    pub format: &'static str,
    /// Its name in a sentence, with the article.
    pub title: &'static str,
    /// The treatment of each field, in the order of the definition.
    pub rows: Vec<Row>,
    /// The workloads and pipelines that can be written. If rows are refused, they are those of the rest.
    pub files: Vec<ImportedFile>,
    /// The pipelines among the files.
    pub pipelines: Vec<ImportedPipeline>,
    /// The commands that run the pipelines.
    pub commands: Vec<String>,
    /// The places of the file whose values may be credentials: fields, and lines with a comment. No output has these values, but the file
    /// does.
    pub credentials: Vec<String>,
}

/// A pipeline of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedPipeline {
    /// The document of the file that it is imported from, from 1; a command line is document 1.
    pub document: usize,
    /// Its path among the files.
    pub path: String,
}

/// The reason why a definition cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is not text in YAML or JSON, or is larger than a definition. No problem quotes the file: it may hold credentials.
    #[error("the file cannot be read as YAML or JSON")]
    Syntax(Vec<Problem>),
    /// No format recognises it.
    #[error("it is none of the formats that can be imported")]
    Unknown,
    /// The definition is larger than any that a person writes.
    #[error("it has more than {0}")]
    TooLarge(String),
}

impl Import {
    /// Returns the number of fields with an outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|row| row.outcome == outcome).count()
    }
}

/// Returns the format of a file or a command line; `None` if it is none that can be imported.
pub fn recognise(source: &Source<'_>) -> Option<&'static Format> {
    match source {
        Source::File { name, bytes } => {
            let of_text = text_of(bytes).and_then(format_of_text);
            of_text.or_else(|| parse_documents(name, bytes).ok()?.iter().find_map(format_of_document))
        }
        Source::Command(words) => format_of_command(words),
    }
}

/// Imports a file or a command line.
pub fn import(source: &Source<'_>, options: &ImportOptions) -> Result<Import, ImportError> {
    match source {
        Source::File { name, bytes } => {
            if let Some((text, format)) = text_of(bytes).and_then(|text| Some((text, format_of_text(text)?))) {
                return import_text(text, format, options);
            }
            let documents = parse_documents(name, bytes).map_err(ImportError::Syntax)?;
            let mut import = import_documents(&documents, options)?;
            import.credentials.extend(find_credentials(&documents, bytes));
            Ok(import)
        }
        Source::Command(words) => import_command(words, options),
    }
}

/// Returns the first field of each document that looks like a credential, and the lines whose comments do.
fn find_credentials(documents: &[Value], bytes: &[u8]) -> Vec<String> {
    let secrets = documents.iter().filter(|document| holds_secret(document)).map(|_| "(Secret)".to_owned());
    let fields = documents.iter().filter_map(find_credential).map(|path| shown_name(&path.replace('/', ".")));
    secrets.chain(fields).chain(comments_with_credentials(&String::from_utf8_lossy(bytes))).collect()
}

/// Returns the first lines of the comments of a text that look like a credential.
fn comments_with_credentials(text: &str) -> Vec<String> {
    let comments = comments(text).into_iter().filter(|(_, comment)| find_in_comment(comment));
    comments.map(|(line, _)| format!("line {line}")).collect()
}

/// Returns true for a Secret of Kubernetes with values.
fn holds_secret(document: &Value) -> bool {
    let has = |member: &str| document.get(member).and_then(Value::as_object).is_some_and(|members| !members.is_empty());
    document.get("kind").and_then(Value::as_str) == Some("Secret") && (has("data") || has("stringData"))
}

/// Returns the comments of a text, those on lines one after the other together, with the number of their first line.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (line, comment) in (1..).zip(text.lines()).filter_map(|(line, text)| Some((line, text.split_once('#')?.1))) {
        match comments.last_mut() {
            Some((_, joined)) if last + 1 == line => {
                joined.push('\n');
                joined.push_str(comment);
            }
            _ => comments.push((line, comment.to_owned())),
        }
        last = line;
    }
    comments
}

/// Returns true if a comment has a credential, as a text or as a part of a definition that was commented out.
fn find_in_comment(comment: &str) -> bool {
    let documents = parse_documents("comment", comment.as_bytes()).unwrap_or_default();
    find_credential_in_text(comment)
        || documents.iter().any(|document| holds_secret(document) || find_credential(document).is_some())
}

fn format_of_document(document: &Value) -> Option<&'static Format> {
    let recognises =
        |format: &&&'static Format| matches!(format.reader, Reader::Document { recognises, .. } if recognises(document));
    FORMATS.iter().find(recognises).copied()
}

/// Returns the text of a file; `None` if it is none, or larger than a definition.
fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_OBJECT_BYTES)
}

fn format_of_text(text: &str) -> Option<&'static Format> {
    let recognises = |format: &&&'static Format| matches!(format.reader, Reader::Text { recognises, .. } if recognises(text));
    FORMATS.iter().find(recognises).copied()
}

fn format_of_command(words: &[String]) -> Option<&'static Format> {
    let recognises = |format: &&&'static Format| matches!(format.reader, Reader::Command { commands, .. } if find_command(words, commands).is_some());
    FORMATS.iter().find(recognises).copied()
}

fn import_documents(documents: &[Value], options: &ImportOptions) -> Result<Import, ImportError> {
    if documents.len() > MAX_DOCUMENTS {
        return Err(ImportError::TooLarge(format!("{MAX_DOCUMENTS} documents")));
    }
    let first = documents.iter().find_map(format_of_document).ok_or(ImportError::Unknown)?;
    let mut import = empty_import(first);
    for (index, document) in documents.iter().enumerate() {
        let mut mapping = Mapping::new(options, index + 1);
        let format = format_of_document(document);
        if let Some((format, Reader::Document { map, .. })) = format.map(|format| (format, &format.reader)) {
            map(document, &mut mapping);
            finish(format, mapping, &mut import);
        } else {
            let kind = document.get("kind").and_then(Value::as_str).map_or_else(|| "document".to_owned(), shown_name);
            mapping.ignored(&format!("({kind})"), "this document is no definition of a benchmark, and is not imported");
            import.rows.append(&mut mapping.rows);
        }
    }
    Ok(import)
}

fn import_text(text: &str, format: &'static Format, options: &ImportOptions) -> Result<Import, ImportError> {
    if text.lines().count() > MAX_LINES {
        return Err(ImportError::TooLarge(format!("{MAX_LINES} lines")));
    }
    let mut import = empty_import(format);
    let mut mapping = Mapping::new(options, 1);
    if let Reader::Text { map, .. } = format.reader {
        map(text, &mut mapping);
    }
    finish(format, mapping, &mut import);
    let lines = (1..).zip(text.lines()).filter(|(_, line)| find_credential_in_text(line));
    import.credentials.extend(lines.map(|(line, _)| format!("line {line}")));
    import.credentials.extend(comments_with_credentials(text));
    Ok(import)
}

fn import_command(words: &[String], options: &ImportOptions) -> Result<Import, ImportError> {
    if words.len() > MAX_WORDS || words.iter().any(|word| word.len() > MAX_WORD_BYTES) {
        return Err(ImportError::TooLarge(format!("{MAX_WORDS} words, or {MAX_WORD_BYTES} bytes in a word")));
    }
    let format = format_of_command(words).ok_or(ImportError::Unknown)?;
    let mut import = empty_import(format);
    let mut mapping = Mapping::new(options, 1);
    if let Reader::Command { commands, flags, map } = format.reader
        && let Some(place) = find_command(words, commands)
    {
        map_leading_words(words.get(..place.start).unwrap_or_default(), &mut mapping);
        let arguments = Arguments::read(words.get(place.end..).unwrap_or_default(), flags, &mut mapping);
        map(&arguments, &mut mapping);
        arguments.settle(&mut mapping);
    }
    finish(format, mapping, &mut import);
    Ok(import)
}

fn empty_import(format: &'static Format) -> Import {
    Import {
        format: format.name,
        title: format.title,
        rows: Vec::new(),
        files: Vec::new(),
        pipelines: Vec::new(),
        commands: Vec::new(),
        credentials: Vec::new(),
    }
}

/// Adds the files of a mapping, if they are complete and valid.
fn finish(format: &Format, mut mapping: Mapping<'_>, import: &mut Import) {
    mapping.settle_options();
    if mapping.draft.is_complete() {
        let files = mapping.draft.files(format.title, &mut mapping.comments);
        let definitions = files.iter().filter(|file| file.is_definition());
        let problems = validate(definitions.map(|file| (file.path.as_str(), file.text.as_bytes())));
        match problems.first() {
            None => {
                let store = mapping.draft.store.as_ref().map(|store| format!(" --store '{store}'")).unwrap_or_default();
                import.commands.push(format!("assay run {}{store}", mapping.draft.pipeline_path()));
                import.pipelines.push(ImportedPipeline { document: mapping.document, path: mapping.draft.pipeline_path() });
                import.files.extend(files);
            }
            // What is refused already is the reason.
            Some(_) if mapping.rows.iter().any(|row| row.outcome == Outcome::Refused) => {}
            // The message alone: an excerpt could hold a value that was not meant to be shown.
            Some(problem) => {
                let remedy = format!("the definitions would not be valid: {}", problem.message);
                mapping.refused("(result)", &remedy);
            }
        }
    }
    import.rows.append(&mut mapping.rows);
    import.credentials.append(&mut mapping.credentials);
}
