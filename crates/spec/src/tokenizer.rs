//! The tokenizer of a serving workload.

use assay_api::ServingApi;
use assay_manifest::{TemplateUse, TiktokenEncoding};

use crate::checked_value::{CheckedValue, Read, read_from_text};
use crate::problem::{Problems, quote};

/// The ending of the name of a tiktoken vocabulary.
const TIKTOKEN: &str = ".tiktoken";

/// The tokenizer of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadTokenizer {
    /// Its file, relative to the workload's folder.
    pub path: String,
    /// Of a vocabulary of tiktoken, the pattern that splits texts: the name of an encoding, or a regular expression.
    pub pattern: Option<String>,
    /// The chat template whose tokens are a part of each prompt.
    pub template: Option<WorkloadTemplate>,
}

/// The chat template of a workload's tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadTemplate {
    /// The side that applies it.
    pub usage: TemplateUse,
    /// `tokenizer_config.json`, relative to the workload's folder.
    pub config: String,
    /// `chat_template.jinja`, which not every folder has.
    pub file: String,
}

read_from_text!(TemplateUse);

impl Read for WorkloadTokenizer {
    fn read(tokenizer: &CheckedValue) -> Option<Self> {
        if let Some(folder) = tokenizer.text_of("folder") {
            let beside = |name: &str| format!("{folder}/{name}");
            let template = tokenizer.get::<Option<TemplateUse>>("template")?.map(|usage| WorkloadTemplate {
                usage,
                config: beside("tokenizer_config.json"),
                file: beside("chat_template.jinja"),
            });
            return Some(Self { path: beside("tokenizer.json"), pattern: None, template });
        }
        let (path, written) = written(tokenizer)?;
        let pattern = written.map(str::to_owned).or_else(|| encoding_by_name(path).map(|encoding| encoding.to_string()));
        Some(Self { path: path.to_owned(), pattern, template: None })
    }
}

/// Returns the path and the pattern as they are written.
fn written(tokenizer: &CheckedValue) -> Option<(&str, Option<&str>)> {
    match tokenizer.text() {
        Some(path) => Some((path, None)),
        None => Some((tokenizer.text_of("path")?, tokenizer.text_of("pattern"))),
    }
}

/// Returns the encoding that the name of a vocabulary tells, such as `o200k_base.tiktoken`.
fn encoding_by_name(path: &str) -> Option<TiktokenEncoding> {
    let name = path.rsplit('/').next()?;
    name.strip_suffix(TIKTOKEN)?.parse().ok()
}

/// Checks that a vocabulary of tiktoken has a pattern, and that no other tokenizer has one.
pub(crate) fn check_tokenizer(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(tokenizer) = spec.member("tokenizer") else { return };
    check_template(spec, tokenizer, problems);
    let Some((path, pattern)) = written(tokenizer) else {
        if let Some(pattern) = tokenizer.member("pattern") {
            problems.add_hinted(pattern.anchor, "`spec.tokenizer.pattern` belongs to a vocabulary of tiktoken", "remove it");
        }
        return;
    };
    if pattern.is_some() && path.rsplit_once('.').is_some_and(|(_, ending)| ending == "json") {
        let message = format!("`spec.tokenizer.pattern` belongs to a vocabulary of tiktoken, and {} is none", quote(path));
        problems.add_hinted(tokenizer.anchor, message, "remove it");
    }
    if tokenizer.member("pattern").is_none() && path.ends_with(TIKTOKEN) && encoding_by_name(path).is_none() {
        let message = format!("`spec.tokenizer` lacks `pattern`, and the name {} does not tell it", quote(path));
        let known: Vec<&str> = TiktokenEncoding::ALL.iter().map(|encoding| encoding.as_str()).collect();
        let hint = format!("`pattern` (`--tokenizer-pattern`) is {}, or the model's own regular expression", known.join(", "));
        problems.add_hinted(tokenizer.anchor, message, hint);
    }
}

/// Checks that what is sent has a place for a template, and that the right side applies it.
fn check_template(spec: &CheckedValue, tokenizer: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(template) = tokenizer.member("template") else { return };
    if tokenizer.member("folder").is_none() {
        let message = "`spec.tokenizer.template` belongs to a `folder`, whose files have a template";
        problems.add_hinted(template.anchor, message, "name the folder instead of the file, or remove it");
    }
    if spec.member("trace").is_some() {
        let message =
            "`spec.tokenizer.template` would move the blocks of `spec.trace`, whose lengths have no chat template in them";
        problems.add_hinted(
            template.anchor,
            message,
            "remove it: the recorded tokens of prompts are counted then, and nothing beside them",
        );
    }
    if spec.at(&["sessions", "reasoning"]).is_some_and(|reasoning| reasoning.text() == Some("keep")) {
        let message = "`spec.sessions.reasoning: keep` and `spec.tokenizer.template` exclude each other: a template takes reasoning in its own way";
        problems.add_hinted(template.anchor, message, "remove one of them");
    }
    let (Some(usage), Some(api)) = (TemplateUse::read(template), spec.member("api").and_then(ServingApi::read)) else { return };
    let right = match usage {
        TemplateUse::Apply => ServingApi::Completions,
        TemplateUse::Count => ServingApi::Chat,
    };
    if api != right {
        let message = format!("`spec.tokenizer.template: {usage}` belongs to `api: {right}`, and `spec.api` is `{api}`");
        let hint = "`apply` sends the template's text by `completions`; `count` counts the template that `chat` applies";
        problems.add_hinted(template.anchor, message, hint);
    }
}
