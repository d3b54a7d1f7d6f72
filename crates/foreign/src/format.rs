//! A format: how it is recognised, and how its fields are mapped.

use serde_json::Value;

use crate::command::{Arguments, Flag, Treatment};
use crate::mapping::Mapping;

/// The definition of another tool, as it is given.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A file: its name, which is shown and decides nothing, and its bytes.
    File {
        /// The name.
        name: &'a str,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A command line, word by word.
    Command(&'a [String]),
}

/// A format of definitions that can be imported.
#[derive(Debug)]
pub struct Format {
    /// Its short name, such as `ome-benchmarkjob`.
    pub name: &'static str,
    /// Its name in a sentence, with the article: `an OME BenchmarkJob`.
    pub title: &'static str,
    /// The versions whose fields are known.
    pub versions: &'static str,
    /// The properties by which it is recognised, for people.
    pub recognised_by: &'static str,
    /// Examples, each of which can be imported.
    pub examples: &'static [Example],
    /// Its fields with the treatment of each, for the reference page.
    pub(crate) fields: fn() -> Vec<FieldDoc>,
    pub(crate) reader: Reader,
}

/// The functions that read a format.
#[derive(Debug)]
pub(crate) enum Reader {
    /// A document of a file.
    Document { recognises: fn(&Value) -> bool, map: fn(&Value, &mut Mapping<'_>) },
    /// A text of lines, which is neither YAML nor JSON.
    Text { recognises: fn(&str) -> bool, map: fn(&str, &mut Mapping<'_>) },
    /// A command line that begins with the words of one of these commands. Each option gets a row by `map` or by the table.
    Command { commands: &'static [&'static [&'static str]], flags: &'static [Flag], map: fn(&Arguments, &mut Mapping<'_>) },
}

/// A line of the reference page about a field.
#[derive(Clone, Debug)]
pub(crate) struct FieldDoc {
    pub(crate) field: String,
    pub(crate) treatment: String,
}

/// Returns the lines of the reference page about options.
pub(crate) fn docs(flags: &[Flag]) -> Vec<FieldDoc> {
    let doc = |flag: &Flag| FieldDoc {
        field: flag.names.join("`, `"),
        treatment: match flag.treatment {
            Treatment::Carried(to) => format!("becomes {to}"),
            Treatment::Ignored(why) => format!("ignored: {why}"),
            Treatment::Refused(remedy) => format!("refused: {remedy}"),
            Treatment::Unless { value, remedy } => format!("ignored if it is `{value}`, else refused: {remedy}"),
        },
    };
    flags.iter().map(doc).collect()
}

/// A definition that can be imported.
#[derive(Debug)]
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// The definition.
    pub input: ExampleInput,
    /// The options of `assay import` that it needs, separated by spaces.
    pub options: &'static str,
}

/// The form of an example.
#[derive(Debug)]
pub enum ExampleInput {
    /// The text of a file.
    File(&'static str),
    /// The words of a command line, separated by spaces.
    Command(&'static str),
}

impl Example {
    /// Returns its options.
    #[cfg(test)]
    pub(crate) fn import_options(&self) -> crate::ImportOptions {
        let mut options = crate::ImportOptions::default();
        let mut words = self.options.split_whitespace();
        while let (Some(name), value) = (words.next(), words.next().map(str::to_owned)) {
            match name {
                "--model" => options.model = value,
                "--url" => options.url = value,
                "--lengths" => options.lengths = value,
                "--only" => options.only = value,
                other => panic!("{other} is no option of an example"),
            }
        }
        options
    }
}

impl ExampleInput {
    /// Returns the words of a command line; empty for a file.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Command(line) => line.split_whitespace().map(str::to_owned).collect(),
        }
    }
}

impl Format {
    /// Returns true if it is a format of command lines.
    pub fn is_command(&self) -> bool {
        matches!(self.reader, Reader::Command { .. })
    }
}
