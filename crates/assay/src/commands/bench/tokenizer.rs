//! The tokenizer of `assay bench`.

use std::collections::BTreeMap;
use std::path::Path;

use assay_manifest::TiktokenEncoding;
use assay_stage::{ErrorCode, Failure};
use serde_json::{Value, json};

use super::read_source_file;

/// The hint beside an unusable `--tokenizer`.
const HINT: &str =
    "`--tokenizer` takes the model's tokenizer.json, a vocabulary of tiktoken, or the folder of a model with `tokenizer.json`";

/// The name of a tokenizer's file among a model's files.
pub(super) const TOKENIZER_FILE: &str = "tokenizer.json";

/// The folder of a model's files in the Source.
const FOLDER: &str = "tokenizer";

/// The options of a tokenizer.
pub(super) struct TokenizerOptions<'a> {
    pub(super) path: &'a Path,
    pub(super) pattern: Option<&'a str>,
    pub(super) template: Option<&'a str>,
}

impl TokenizerOptions<'_> {
    /// Adds its files to those of the workload in `folder`, within the limit of files of a Source.
    pub(super) fn add_files(&self, folder: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
        if !self.path.is_dir() {
            files.insert(format!("{folder}/{}", file_name(self.path)), read_source_file(self.path, HINT, HINT)?);
            return Ok(());
        }
        let mut names = vec![TOKENIZER_FILE];
        if self.template.is_some() {
            let is_there = |name: &&str| self.path.join(name).is_file();
            let there: Vec<&str> = ["tokenizer_config.json", "chat_template.jinja"].into_iter().filter(is_there).collect();
            if there.is_empty() {
                let message = format!("`{}` has no `chat_template.jinja` and no `tokenizer_config.json`", self.path.display());
                return Err(Failure::new(ErrorCode::Option, message).hint("`--template` needs one of them; leave it out"));
            }
            names.extend(there);
        }
        for name in names {
            files.insert(format!("{folder}/{FOLDER}/{name}"), read_source_file(&self.path.join(name), HINT, HINT)?);
        }
        Ok(())
    }

    /// Returns the name of its file in the workload's folder, and the path that the user gave.
    pub(super) fn copy(&self) -> (String, String) {
        if self.path.is_dir() {
            return (format!("{FOLDER}/{TOKENIZER_FILE}"), self.path.join(TOKENIZER_FILE).display().to_string());
        }
        (file_name(self.path).to_owned(), self.path.display().to_string())
    }

    /// Returns the tokenizer of the workload.
    pub(super) fn written(&self) -> Value {
        let place = if self.path.is_dir() { ("folder", FOLDER) } else { ("path", file_name(self.path)) };
        if self.pattern.is_none() && self.template.is_none() && place.0 == "path" {
            return json!(place.1);
        }
        let mut written = json!({place.0: place.1});
        for (member, value) in [("pattern", self.pattern), ("template", self.template)] {
            super::set(&mut written, member, value.map(Value::from));
        }
        written
    }
}

/// Returns the name of a tokenizer's file in the Source. That of a vocabulary of tiktoken keeps the name of its encoding, which tells
/// the pattern.
fn file_name(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.rsplit_once('.') {
        Some((encoding, "tiktoken")) if encoding.parse::<TiktokenEncoding>().is_ok() => name,
        Some((_, "tiktoken")) => "tokenizer.tiktoken",
        Some((_, "model")) => "tokenizer.model",
        _ => TOKENIZER_FILE,
    }
}
