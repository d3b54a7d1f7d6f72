//! Definitions that the options of a command make: the files of a Source that no file of the user states.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assay_stage::{ErrorCode, Failure};
use serde_json::Value;

use crate::output;

/// Returns the bytes of a definition: JSON, which is YAML.
pub(crate) fn written(document: &Value) -> Vec<u8> {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    output::escape_json(&text).into_bytes()
}

/// Prints the definitions among the files of a Source, each below its path.
pub(crate) fn print(files: &BTreeMap<String, Vec<u8>>) {
    for (path, bytes) in files.iter().filter(|(path, _)| path.rsplit('.').next() == Some("yaml")) {
        output::line("---");
        output::line(format!("# {path}"));
        output::lines(String::from_utf8_lossy(bytes));
    }
}

/// Writes a file, and makes the folders that it lies in.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| {
        Failure::new(ErrorCode::Output, format!("cannot write `{}`", path.display())).because(&error).lasting()
    };
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(unwritable)?;
    std::fs::write(path, bytes).map_err(unwritable)
}

/// Refuses files of which one is there with other content, and would be lost; `hint` says what to do.
pub(crate) fn refuse_others<'a>(files: impl IntoIterator<Item = (PathBuf, &'a [u8])>, hint: &str) -> Result<(), Failure> {
    let differs =
        |(path, bytes): &(PathBuf, &[u8])| path.symlink_metadata().is_ok() && std::fs::read(path).ok().as_deref() != Some(*bytes);
    let Some((path, _)) = files.into_iter().find(differs) else { return Ok(()) };
    let message = format!("`{}` is there and differs, so nothing was written", path.display());
    Err(Failure::new(ErrorCode::FileDiffers, message).hint(hint))
}
