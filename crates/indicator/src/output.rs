//! The checked result of an indicator, flattened to paths.

use std::collections::{BTreeSet, HashSet};

use crate::json::{self, Node};
use crate::output_error::{OutputError, quoted};

/// The most paths of `@parameters` and `@result` together. A whole pyperformance document has some twenty thousand.
pub const MAX_PATHS: usize = 100_000;
/// The longest path, in bytes. A long key above many others is repeated in each of their paths; this limit keeps all of them
/// below 50 MB.
pub const MAX_PATH_BYTES: usize = 500;

const PARAMETERS: &str = "@parameters";
const RESULT: &str = "@result";
const NAME: &str = "name";
const FRAMEWORK: &str = "framework";
const COMPONENT: &str = "component";

/// The output of an indicator.
///
/// Objects and arrays are flattened: the members of an object and the items of an array (by their number, from 0) add a part to
/// the path, and parts are joined by dots. An array of numbers is not flattened: it is one value, its [`Value::Samples`]. An
/// empty object or array adds no value.
///
/// A key may itself contain dots, as long as no two values then have the same path. Every path occurs once: in `parameters`, in
/// `result` or, if the value is no finite number, in `not_finite`.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The name of the indicator. With the component, the script's digest and the parameters, it is the indicator's identity.
    pub name: String,
    /// The component that the indicator exercises; `framework` is another spelling of `component`. Absent if neither key is
    /// there, or if it is null.
    pub component: Option<String>,
    /// The values of `@parameters` by path, in the order of the document.
    pub parameters: Vec<(String, Value)>,
    /// The values of `@result` by path, in the order of the document.
    pub result: Vec<(String, Value)>,
    /// The paths with a number that is NaN, infinite or too large for a double, in the order of the document. For an array of
    /// numbers it is the path of the array: one such sample spoils them all, because the rest would be a chosen few.
    pub not_finite: Vec<String>,
    /// Top-level keys that have no meaning here, in the order of the document.
    pub extra: Vec<String>,
}

/// The value at a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One finite number: one sample. Integers beyond 2^53 are rounded to a double.
    Number(f64),
    /// The finite numbers of an array that is not empty: the samples of one trial.
    Samples(Vec<f64>),
    /// A text.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// Null.
    Null,
}

/// Parses the stdout of a script. Its exit code and stderr are not judged here.
pub fn parse(stdout: &[u8]) -> Result<Output, OutputError> {
    let mut document = match json::read(stdout)? {
        Node::Object(members) => Document(members),
        other => return Err(OutputError::NotAnObject(other.kind())),
    };
    let parameters = document.object(PARAMETERS)?;
    let result = document.object(RESULT)?;
    let name = document.text(NAME)?.ok_or(OutputError::Missing(NAME))?;
    let component = document.component()?;
    refuse_shared_keys(&parameters, &result)?;

    let mut flattener = Flattener::default();
    Ok(Output {
        name,
        component,
        parameters: flattener.flatten(parameters)?,
        result: flattener.flatten(result)?,
        not_finite: flattener.not_finite,
        extra: document.0.into_iter().map(|(key, _)| key).collect(),
    })
}

/// The top-level members that have not been taken yet.
struct Document(Vec<(String, Node)>);

impl Document {
    fn take(&mut self, key: &str) -> Option<Node> {
        let index = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(index).1)
    }

    fn object(&mut self, key: &'static str) -> Result<Vec<(String, Node)>, OutputError> {
        match self.take(key) {
            Some(Node::Object(members)) => Ok(members),
            Some(other) => Err(OutputError::WrongKind { key, found: other.kind(), expected: "an object" }),
            None => Err(OutputError::Missing(key)),
        }
    }

    fn text(&mut self, key: &'static str) -> Result<Option<String>, OutputError> {
        match self.take(key) {
            Some(Node::Text(text)) => Ok(Some(text)),
            Some(other) => Err(OutputError::WrongKind { key, found: other.kind(), expected: "a text" }),
            None => Ok(None),
        }
    }

    fn text_or_null(&mut self, key: &'static str) -> Result<Option<String>, OutputError> {
        let is_null = |(name, node): &(String, Node)| name == key && matches!(node, Node::Null);
        if self.0.iter().any(is_null) {
            self.take(key);
            return Ok(None);
        }
        self.text(key)
    }

    /// Returns the value of `component` or `framework`, which are two names of one thing. Fails if they differ.
    fn component(&mut self) -> Result<Option<String>, OutputError> {
        match (self.text_or_null(FRAMEWORK)?, self.text_or_null(COMPONENT)?) {
            (Some(framework), Some(component)) if framework != component => {
                Err(OutputError::Disagreement { framework: quoted(&framework), component: quoted(&component) })
            }
            (framework, component) => Ok(component.or(framework)),
        }
    }
}

/// Fails if parameters and result share a key: readers of indicators see both as one row per attempt, with one set of keys.
fn refuse_shared_keys(parameters: &[(String, Node)], result: &[(String, Node)]) -> Result<(), OutputError> {
    let known: HashSet<&str> = parameters.iter().map(|(key, _)| key.as_str()).collect();
    match result.iter().find(|(key, _)| known.contains(key.as_str())) {
        Some((key, _)) => Err(OutputError::CollidingKeys(quoted(key))),
        None => Ok(()),
    }
}

/// Turns nodes into values by path, and refuses a path that occurs twice.
#[derive(Default)]
struct Flattener {
    known: BTreeSet<String>,
    not_finite: Vec<String>,
}

impl Flattener {
    fn flatten(&mut self, members: Vec<(String, Node)>) -> Result<Vec<(String, Value)>, OutputError> {
        let mut values = Vec::new();
        for (key, node) in members {
            self.add(key, node, &mut values)?;
        }
        Ok(values)
    }

    fn add(&mut self, path: String, node: Node, values: &mut Vec<(String, Value)>) -> Result<(), OutputError> {
        check_length(&path)?;
        let value = match node {
            Node::Object(members) => {
                return members.into_iter().try_for_each(|(key, node)| self.add(format!("{path}.{key}"), node, values));
            }
            Node::Array(items) if !items.is_empty() && items.iter().all(Node::is_number) => samples(&items).map(Value::Samples),
            Node::Array(items) => {
                let mut items = items.into_iter().enumerate();
                return items.try_for_each(|(index, node)| self.add(format!("{path}.{index}"), node, values));
            }
            Node::NotFinite => None,
            Node::Number(number) => Some(Value::Number(number)),
            Node::Text(text) => Some(Value::Text(text)),
            Node::Bool(truth) => Some(Value::Bool(truth)),
            Node::Null => Some(Value::Null),
        };
        self.claim(&path)?;
        match value {
            Some(value) => values.push((path, value)),
            None => self.not_finite.push(path),
        }
        Ok(())
    }

    fn claim(&mut self, path: &str) -> Result<(), OutputError> {
        if self.known.len() == MAX_PATHS {
            return Err(OutputError::TooManyPaths);
        }
        if !self.known.insert(path.to_owned()) {
            return Err(OutputError::CollidingPaths(quoted(path)));
        }
        Ok(())
    }
}

fn check_length(path: &str) -> Result<(), OutputError> {
    if path.len() > MAX_PATH_BYTES { Err(OutputError::PathTooLong(quoted(path))) } else { Ok(()) }
}

/// Returns the numbers of an array, or `None` if one of them is not finite.
fn samples(items: &[Node]) -> Option<Vec<f64>> {
    let finite = |item: &Node| if let Node::Number(number) = item { Some(*number) } else { None };
    items.iter().map(finite).collect()
}
