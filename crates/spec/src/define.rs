//! Parsing of files into definitions: determines the kind, checks the file and reads its values. Each kind implements [`Define`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::check::check;
use crate::checked_value::CheckedValue;
use crate::field::Table;
use crate::problem::{Problem, Problems, Source, Span, did_you_mean, quote};
use crate::tables::{ACKNOWLEDGEMENT, API_VERSION, FOREIGN_GATE, NOISE, PIPELINE, TRUST_POLICY, WORKLOAD};
use crate::yaml::{Node, Value, parse};

/// The kinds of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A chain of stages over workloads.
    Pipeline,
    /// A description of work.
    Workload,
    /// The keys that may sign, with their roles.
    TrustPolicy,
    /// A regression that is accepted.
    Acknowledgement,
    /// The learned noise of a comparison.
    Noise,
    /// The rules by which foreign evidence is judged.
    ForeignGate,
}

impl DefinitionKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Pipeline, Self::Workload, Self::TrustPolicy, Self::Acknowledgement, Self::Noise, Self::ForeignGate];

    /// Returns the word in a file's `kind`.
    pub fn as_str(self) -> &'static str {
        self.table().name
    }

    pub(crate) fn table(self) -> &'static Table {
        match self {
            Self::Pipeline => &PIPELINE,
            Self::Workload => &WORKLOAD,
            Self::TrustPolicy => &TRUST_POLICY,
            Self::Acknowledgement => &ACKNOWLEDGEMENT,
            Self::Noise => &NOISE,
            Self::ForeignGate => &FOREIGN_GATE,
        }
    }
}

impl std::fmt::Display for DefinitionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for DefinitionKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        kind.ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            format!("{} is not a kind of definition: expected one of {known}", quote(text))
        })
    }
}

/// A kind of definition: its table, the checks that a table cannot express, and its reader.
pub(crate) trait Define: Sized {
    const KIND: DefinitionKind;

    /// Checks the relations between fields. Invalid parts are absent.
    fn cross_check(checked: &CheckedValue, problems: &mut Problems<'_>);

    /// Reads a checked definition; `None` if table and reader disagree.
    fn read(checked: &CheckedValue, places: SourcePlaces) -> Option<Self>;
}

/// Parses a file that must be of one kind.
pub(crate) fn parse_as<T: Define>(file: &str, bytes: &[u8]) -> Result<T, Vec<Problem>> {
    let text = decode_text(file, bytes)?;
    let source = Source::new(file, text);
    let mut problems = Problems::new(&source);
    let Some((node, kind)) = parse_tree_and_kind(&mut problems) else { return Err(problems.finish()) };
    if kind != T::KIND {
        let span = member(&node, "kind").map_or(node.span, |node| node.span);
        problems.add(span, format!("a {} is expected here, not a {kind}", T::KIND));
        return Err(problems.finish());
    }
    read(&node, problems)
}

/// Checks a parsed file and reads its values.
pub(crate) fn read<T: Define>(node: &Node, mut problems: Problems<'_>) -> Result<T, Vec<Problem>> {
    let checked = check(T::KIND.table(), node, &mut problems);
    if let Some(checked) = &checked {
        T::cross_check(checked, &mut problems);
    }
    if !problems.is_empty() {
        return Err(problems.finish());
    }
    let source = problems.source();
    let definition = checked.and_then(|checked| {
        let places = SourcePlaces { source: source.clone(), spans: Arc::new(checked.places()) };
        T::read(&checked, places)
    });
    definition.ok_or_else(|| {
        let problem = Problem::for_file(source.file(), format!("this {} is valid and was not understood", T::KIND));
        vec![problem.with_hint("this is a defect of Assay; please report it with the file")]
    })
}

/// Returns the text of a file, without a byte order mark.
pub(crate) fn decode_text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Vec<Problem>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.split(|byte| *byte == b'\n').count();
        vec![Problem::for_file(file, format!("the file is not UTF-8 text: line {line} holds other bytes"))]
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Parses the tree and finds the kind; `None` if there is a problem.
pub(crate) fn parse_tree_and_kind(problems: &mut Problems<'_>) -> Option<(Node, DefinitionKind)> {
    let node = parse(problems)?;
    let Value::Map(members) = &node.value else {
        let hint = format!("a definition begins with `apiVersion: {API_VERSION}` and `kind:`");
        problems.add_hinted(node.span, "a definition must be a map of fields", hint);
        return None;
    };
    let scalar = |name: &str| {
        let found = members.iter().find(|(key, _)| key.text == name);
        found.map(|(_, node)| (if let Value::Scalar(scalar) = &node.value { scalar.text.as_str() } else { "" }, node.span))
    };
    // For a file of another version, every further problem would be a false one.
    if let Some((version, span)) = scalar("apiVersion").filter(|(version, _)| *version != API_VERSION) {
        let message = format!("{} is not a version that this Assay reads", quote(version));
        problems.add_hinted(span, message, format!("write `apiVersion: {API_VERSION}`"));
        return None;
    }
    let Some((word, span)) = scalar("kind") else {
        let hint = format!("write `kind:` with one of {}", DefinitionKind::ALL.map(DefinitionKind::as_str).join(", "));
        problems.add_hinted(problems.source().span(0, 0), "the file does not say what it defines", hint);
        return None;
    };
    let kind = word.parse::<DefinitionKind>().map_err(|error| {
        problems.add_maybe_hinted(span, error, did_you_mean(word, DefinitionKind::ALL.map(DefinitionKind::as_str)));
    });
    kind.ok().map(|kind| (node, kind))
}

pub(crate) fn member<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Value::Map(members) = &node.value else { return None };
    members.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
}

/// The places of a definition's parts in its file, for problems that only show in comparison with other files.
#[derive(Clone, Debug)]
pub(crate) struct SourcePlaces {
    source: Source,
    spans: Arc<BTreeMap<String, Span>>,
}

impl SourcePlaces {
    /// Returns a problem at a path such as `spec.workloads[0]`.
    pub(crate) fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        let span = self.spans.get(path).copied().unwrap_or_else(|| self.source.span(0, 0));
        self.source.problem(span, message)
    }

    pub(crate) fn file(&self) -> &str {
        self.source.file()
    }
}
