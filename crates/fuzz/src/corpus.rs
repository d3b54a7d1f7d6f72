//! The kept inputs of a target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The inputs that are kept of a target, each once, in the order of their lengths and then of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corpus(BTreeSet<(usize, Vec<u8>)>);

/// A corpus that cannot be read.
#[derive(Debug)]
pub struct CorpusError {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub reason: String,
}

impl Corpus {
    /// Reads a corpus: a JSON string of base64 on each line.
    pub fn parse(text: &str) -> Result<Self, CorpusError> {
        let lines = text.lines().enumerate().map(|(index, line)| {
            let wrong = |reason: String| CorpusError { line: index + 1, reason };
            let encoded: String = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            let bytes = STANDARD.decode(encoded).map_err(|error| wrong(error.to_string()))?;
            Ok((bytes.len(), bytes))
        });
        lines.collect::<Result<_, _>>().map(Self)
    }

    /// Adds an input.
    pub fn insert(&mut self, input: Vec<u8>) {
        self.0.insert((input.len(), input));
    }

    /// Returns the inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|(_, input)| input.as_slice())
    }

    /// Returns the form that [`Corpus::parse`] reads.
    pub fn to_text(&self) -> String {
        let lines: Vec<_> = self.inputs().map(|input| format!("\"{}\"\n", STANDARD.encode(input))).collect();
        lines.concat()
    }

    /// Returns the file of a target's corpus.
    pub fn path(target: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.jsonl"))
    }
}
