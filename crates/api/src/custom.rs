//! Any other API that takes a prompt and responds with JSON over HTTP: its path, the body of its requests, and the places of what its
//! responses say, as the workload states them.
//!
//! The parts that differ from API to API are data here ([`CustomApi`]). The simulator serves the API `custom` at `/custom`, as completions.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::api_format::{ApiFormat, Capabilities};
use crate::completions::Completions;
use crate::json::{Scan, Scanner, Text};
use crate::received::{InputCounts, InputReader, ReceivedRequest};
use crate::request::{RequestBody, RequestInput};
use crate::response::{self, InvalidCount, ParsedResponse, TextKind, TextSink};
use crate::simulated::{Content, ContentFault, SimulatedResponse, TokenRun};

/// The most steps of a path.
const MAX_STEPS: usize = 16;

/// An API that a workload describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomApi {
    /// The path of requests, such as `/generate`. One that begins with `/v1` is below the version of an endpoint's URL, any other is beside it.
    pub path: String,
    /// The body of each request, with placeholders: `${prompt}`, `${messages}`, `${model}`, `${output_tokens}` and `${stream}`.
    pub body: Map<String, Value>,
    /// The place of each text in the documents of a response, such as `choices.0.text`.
    pub text: String,
    /// The place of the endpoint's count of input tokens; absent if it reports none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input_tokens: Option<String>,
    /// The place of its count of output tokens; absent if it reports none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output_tokens: Option<String>,
    /// The place of the finish reason; absent if it states none, and then a stream ends with its response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finish: Option<String>,
}

/// A value that a place of a request's body is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    /// The text of the prompt.
    Prompt,
    /// A list with one message of the user, which is the prompt.
    Messages,
    /// The name of the model.
    Model,
    /// The requested number of output tokens. Its member is left out if the endpoint decides it.
    OutputTokens,
    /// True if the response is streamed.
    Stream,
}

impl Placeholder {
    const ALL: [Self; 5] = [Self::Prompt, Self::Messages, Self::Model, Self::OutputTokens, Self::Stream];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "${prompt}",
            Self::Messages => "${messages}",
            Self::Model => "${model}",
            Self::OutputTokens => "${output_tokens}",
            Self::Stream => "${stream}",
        }
    }

    /// Returns true if it may be a part of a longer text.
    const fn is_text(self) -> bool {
        matches!(self, Self::Prompt | Self::Model)
    }
}

/// The reason why the description of an API cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomApiError {
    /// No place of the body is for the prompt.
    #[error("the body has neither `${{prompt}}` nor `${{messages}}`")]
    NoPrompt,
    /// Several places are for the prompt, so that its length would be a multiple of what was drawn.
    #[error("the body has {0} places for the prompt, not one")]
    Prompts(usize),
    /// A placeholder has no meaning.
    #[error(
        "the body has the placeholder `{0}`, which is none of `${{prompt}}`, `${{messages}}`, `${{model}}`, `${{output_tokens}}` and `${{stream}}`"
    )]
    Unknown(String),
    /// A placeholder for a value that is no text is a part of a longer text.
    #[error("`{0}` is a value of its own, and the body has it within a text")]
    WithinText(&'static str),
    /// The requested number of output tokens is not the value of a member, which can be left out.
    #[error("`${{output_tokens}}` is not the value of a member of an object")]
    NotMember,
    /// A path is none.
    #[error("`{0}` is no path of names and places of lists that are joined by dots, such as `choices.0.text`")]
    Path(String),
    /// Two values would be at one place.
    #[error("`{one}` and `{other}` cannot both be read: one is the place of the other, or contains it")]
    Places {
        /// A path.
        one: String,
        /// The other one.
        other: String,
    },
}

impl CustomApi {
    /// Checks that the body has one place for the prompt and only known placeholders, and that the paths can be read. Returns the paths.
    pub fn check(&self) -> Result<ResponsePaths, CustomApiError> {
        let mut prompts = 0;
        self.body.values().try_for_each(|value| check_value(value, true, &mut prompts))?;
        match prompts {
            0 => Err(CustomApiError::NoPrompt),
            1 => ResponsePaths::parse(self),
            several => Err(CustomApiError::Prompts(several)),
        }
    }

    /// Returns true if a document has a text, maybe an empty one, at the place of texts.
    pub fn has_text(&self, document: &[u8]) -> bool {
        let Ok(document) = serde_json::from_slice::<Value>(document) else { return false };
        let step = |value: &'_ Value, step: &str| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?).cloned(),
            value => value.get(step).cloned(),
        };
        let found = self.text.split('.').try_fold(document, |value, name| step(&value, name));
        found.is_some_and(|value| value.is_string())
    }

    /// Returns true if requests can ask for a number of output tokens.
    pub fn takes_output_tokens(&self) -> bool {
        self.body.values().any(|value| has_placeholder(value, Placeholder::OutputTokens))
    }

    /// Returns true if requests name the model.
    pub fn names_model(&self) -> bool {
        // It may be a part of a text.
        self.body.values().any(|value| value.to_string().contains("${model}"))
    }

    /// Builds the body of a request. Of its inputs, the first text is the prompt.
    pub(crate) fn fill(&self, request: &RequestBody<'_>) -> Map<String, Value> {
        let prompt = match request.input {
            RequestInput::Texts { inputs, .. } => inputs.first().map_or("", String::as_str),
            RequestInput::Illustrated { text, .. } => text,
            RequestInput::TokenIds(_) | RequestInput::Messages(_) | RequestInput::Body(_) => "",
        };
        fill_object(&self.body, &Filling { prompt, request })
    }
}

/// The values that placeholders stand for.
struct Filling<'a> {
    prompt: &'a str,
    request: &'a RequestBody<'a>,
}

impl Filling<'_> {
    fn value(&self, placeholder: Placeholder) -> Option<Value> {
        Some(match placeholder {
            Placeholder::Prompt => json!(self.prompt),
            Placeholder::Messages => json!([{"role": "user", "content": self.prompt}]),
            Placeholder::Model => json!(self.request.model),
            Placeholder::OutputTokens => json!(self.request.output_tokens.or(self.request.max_output_tokens)?),
            Placeholder::Stream => json!(self.request.streamed),
        })
    }

    fn text(&self, placeholder: Placeholder) -> &str {
        if placeholder == Placeholder::Model { self.request.model } else { self.prompt }
    }
}

fn fill_object(object: &Map<String, Value>, filling: &Filling<'_>) -> Map<String, Value> {
    object.iter().filter_map(|(name, value)| Some((name.clone(), fill_value(value, filling)?))).collect()
}

/// Returns the value with its placeholders filled; `None` for one that the endpoint decides.
fn fill_value(value: &Value, filling: &Filling<'_>) -> Option<Value> {
    Some(match value {
        Value::String(text) => match whole(text) {
            Some(placeholder) => filling.value(placeholder)?,
            None => Value::String(fill_text(text, filling)),
        },
        Value::Array(items) => items.iter().filter_map(|item| fill_value(item, filling)).collect(),
        Value::Object(object) => Value::Object(fill_object(object, filling)),
        other => other.clone(),
    })
}

/// Fills the placeholders of a text from left to right, so that what they stand for is not filled in turn.
fn fill_text(text: &str, filling: &Filling<'_>) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((at, placeholder)) = next_placeholder(rest) {
        filled.push_str(rest.get(..at).unwrap_or_default());
        filled.push_str(filling.text(placeholder));
        rest = rest.get(at + placeholder.as_str().len()..).unwrap_or_default();
    }
    filled + rest
}

/// Returns the place of the first placeholder of a text.
fn next_placeholder(text: &str) -> Option<(usize, Placeholder)> {
    let found = Placeholder::ALL.into_iter().filter_map(|placeholder| Some((text.find(placeholder.as_str())?, placeholder)));
    found.min_by_key(|(at, _)| *at)
}

/// Returns the placeholder that is all of a text.
fn whole(text: &str) -> Option<Placeholder> {
    Placeholder::ALL.into_iter().find(|placeholder| placeholder.as_str() == text)
}

fn has_placeholder(value: &Value, wanted: Placeholder) -> bool {
    match value {
        Value::String(text) => whole(text) == Some(wanted),
        Value::Array(items) => items.iter().any(|item| has_placeholder(item, wanted)),
        Value::Object(object) => object.values().any(|value| has_placeholder(value, wanted)),
        _ => false,
    }
}

/// Checks the placeholders of a value, and counts those for the prompt.
fn check_value(value: &Value, is_member: bool, prompts: &mut usize) -> Result<(), CustomApiError> {
    match value {
        Value::String(text) => check_text(text, is_member, prompts),
        Value::Array(items) => items.iter().try_for_each(|item| check_value(item, false, prompts)),
        Value::Object(object) => object.values().try_for_each(|value| check_value(value, true, prompts)),
        _ => Ok(()),
    }
}

fn check_text(text: &str, is_member: bool, prompts: &mut usize) -> Result<(), CustomApiError> {
    if whole(text) == Some(Placeholder::OutputTokens) && !is_member {
        return Err(CustomApiError::NotMember);
    }
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let here = rest.get(at..).unwrap_or_default();
        let Some(placeholder) = Placeholder::ALL.into_iter().find(|placeholder| here.starts_with(placeholder.as_str())) else {
            let end = here.find('}').map_or(here.len(), |end| end + 1);
            let unknown = here.get(..end).unwrap_or_default();
            return Err(CustomApiError::Unknown(unknown.chars().flat_map(char::escape_debug).take(40).collect()));
        };
        if !placeholder.is_text() && whole(text).is_none() {
            return Err(CustomApiError::WithinText(placeholder.as_str()));
        }
        *prompts += usize::from(matches!(placeholder, Placeholder::Prompt | Placeholder::Messages));
        rest = here.get(placeholder.as_str().len()..).unwrap_or_default();
    }
    Ok(())
}

/// The places of what the documents of a response say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponsePaths(Vec<ValuePath>);

/// The place of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ValuePath {
    value: ResponseValue,
    steps: Vec<Step>,
}

/// A value of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseValue {
    Text,
    InputTokens,
    OutputTokens,
    Finish,
}

/// A step into an object or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(Vec<u8>),
    Place(usize),
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            let dot = if at == 0 { "" } else { "." };
            match step {
                Step::Name(name) => write!(f, "{dot}{}", String::from_utf8_lossy(name))?,
                Step::Place(place) => write!(f, "{dot}{place}")?,
            }
        }
        Ok(())
    }
}

impl ResponsePaths {
    fn parse(api: &CustomApi) -> Result<Self, CustomApiError> {
        let written = [
            (ResponseValue::Text, Some(&api.text)),
            (ResponseValue::InputTokens, api.input_tokens.as_ref()),
            (ResponseValue::OutputTokens, api.output_tokens.as_ref()),
            (ResponseValue::Finish, api.finish.as_ref()),
        ];
        let parsed = written.into_iter().filter_map(|(value, text)| Some(parse_path(value, text?)));
        let paths: Vec<ValuePath> = parsed.collect::<Result<_, _>>()?;
        for (at, one) in paths.iter().enumerate() {
            let is_within = |other: &&ValuePath| other.steps.starts_with(&one.steps) || one.steps.starts_with(&other.steps);
            if let Some(other) = paths.iter().skip(at + 1).find(is_within) {
                return Err(CustomApiError::Places { one: one.to_string(), other: other.to_string() });
            }
        }
        Ok(Self(paths))
    }

    /// Returns true if responses state why they ended.
    pub fn has_finish(&self) -> bool {
        self.0.iter().any(|path| path.value == ResponseValue::Finish)
    }

    /// Parses a document of a response: an event of a stream, or a complete response. What is not at a path is validated and skipped, but an
    /// `error` of the document is one.
    pub fn parse_response<'a>(&self, document: &'a [u8], keep: &mut TextSink<'_>) -> Scan<ParsedResponse<'a>> {
        let mut response = ParsedResponse::default();
        let mut scanner = Scanner::new(document)?;
        let all: Vec<&ValuePath> = self.0.iter().collect();
        if scanner.peek()? == b'{' {
            scanner.object(|scanner, key| {
                let below = below(&all, 0, |step| matches!(step, Step::Name(name) if name == key));
                if below.is_empty() && key == b"error" {
                    return response::error(scanner, &mut response.error);
                }
                read_value(scanner, &below, 1, &mut response, keep)
            })?;
        } else {
            read_value(&mut scanner, &all, 0, &mut response, keep)?;
        }
        scanner.end()?;
        Ok(response)
    }
}

fn parse_path(value: ResponseValue, text: &str) -> Result<ValuePath, CustomApiError> {
    let steps: Vec<Step> =
        text.split('.').map(|step| step.parse().map_or_else(|_| Step::Name(step.as_bytes().to_vec()), Step::Place)).collect();
    let is_path = steps.len() <= MAX_STEPS && text.split('.').all(|step| !step.is_empty());
    let refused = || CustomApiError::Path(text.chars().flat_map(char::escape_debug).take(80).collect());
    if is_path { Ok(ValuePath { value, steps }) } else { Err(refused()) }
}

/// Returns the paths that go on below a step at this depth.
fn below<'p>(paths: &[&'p ValuePath], depth: usize, is_step: impl Fn(&Step) -> bool) -> Vec<&'p ValuePath> {
    paths.iter().copied().filter(|path| path.steps.get(depth).is_some_and(&is_step)).collect()
}

/// Reads what is at the paths, whose first `depth` steps lead here.
fn read_value<'a>(
    scanner: &mut Scanner<'a>,
    paths: &[&ValuePath],
    depth: usize,
    response: &mut ParsedResponse<'a>,
    keep: &mut TextSink<'_>,
) -> Scan<()> {
    let Some(first) = paths.first() else { return scanner.skip() };
    if first.steps.len() == depth {
        return read_target(scanner, first.value, response, keep);
    }
    match scanner.peek()? {
        b'{' => scanner.object(|scanner, key| {
            let below = below(paths, depth, |step| matches!(step, Step::Name(name) if name == key));
            read_value(scanner, &below, depth + 1, response, keep)
        }),
        b'[' => {
            let mut place = 0;
            scanner.array(|scanner| {
                let below = below(paths, depth, |step| *step == Step::Place(place));
                place += 1;
                read_value(scanner, &below, depth + 1, response, keep)
            })
        }
        _ => scanner.skip(),
    }
}

fn read_target<'a>(
    scanner: &mut Scanner<'a>,
    value: ResponseValue,
    response: &mut ParsedResponse<'a>,
    keep: &mut TextSink<'_>,
) -> Scan<()> {
    match value {
        ResponseValue::Text => {
            let text: Text<'a> = response::text(scanner)?;
            response.add_text(TextKind::Content, text, keep);
        }
        ResponseValue::InputTokens => response.usage.prompt = response.usage.read(scanner, InvalidCount::Input)?,
        ResponseValue::OutputTokens => response.usage.completion = response.usage.read(scanner, InvalidCount::Output)?,
        ResponseValue::Finish => response.finish = response::optional_string(scanner)?,
    }
    Ok(())
}

/// The API of a simulated endpoint: that of completions.
pub(crate) struct Custom;

impl ApiFormat for Custom {
    const CAPABILITIES: Capabilities = Capabilities {
        path: "/custom",
        responses: "responses",
        added_tokens: Some("the endpoint may put tokens of its own around a prompt"),
        ..Completions::CAPABILITIES
    };

    fn insert_inputs(query: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        Completions::insert_inputs(query, inputs, body);
    }

    #[inline]
    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        keep: &mut TextSink<'_>,
    ) -> Scan<()> {
        Completions::read_member(scanner, key, response, keep)
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        Completions::read_inputs(request, reader)
    }

    fn object_names(is_streamed: bool) -> (&'static str, &'static str) {
        Completions::object_names(is_streamed)
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        Completions::write_unstreamed(response, content, fault, body);
    }

    fn write_tokens(response: &SimulatedResponse, content: &impl Content, run: TokenRun, garble: &[u8], events: &mut Vec<u8>) {
        Completions::write_tokens(response, content, run, garble, events);
    }
}

#[cfg(test)]
mod tests;
