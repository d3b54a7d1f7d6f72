//! Chat templates: the text that a template puts around the message of a user, or around those of a conversation.
//!
//! A template is a small program from elsewhere, so it runs with limits, and what it may call is listed here. It is rendered as Hugging
//! Face's `apply_chat_template` does: messages, no tools, and the beginning of a response. It is rendered around placeholders only: what
//! precedes and follows them is put around every prompt, so no prompt costs a rendering.
//!
//! Steps are counted between the operations of a template, and one operation can do anything: so time and memory have limits of their own, and
//! what could use up the stack is refused before.

use assay_manifest::MessageRole as Role;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::TokenizerError;
use crate::file::{catch_panic, quote};

/// The largest file of a template. The `tokenizer_config.json` of some models lists a thousand tokens.
pub const MAX_TEMPLATE_BYTES: usize = 8 << 20;

/// The most that a rendering may do: so many steps, or 64 times as many bytes of text. Published templates take some hundred.
const MAX_STEPS: u64 = 200_000;

/// The depth to which macros and blocks of a template may call each other.
const MAX_DEPTH: usize = 100;

/// The most tokens of a template, by Jinja's own lexer. Long published ones have some thousand.
const MAX_TOKENS: usize = 16_384;

/// The longest text around a message.
pub const MAX_TEMPLATE_TEXT: usize = 64 << 10;

/// Two messages that no template has in its own text.
const PLACEHOLDERS: [&str; 2] = ["placeholder qzx", "another placeholder qzy"];

/// The special tokens of a configuration that a template can name.
const SPECIAL_TOKENS: [&str; 4] = ["bos_token", "eos_token", "unk_token", "pad_token"];

/// The files of a chat template, as Hugging Face publishes them with a model.
#[derive(Clone, Copy, Debug)]
pub struct TemplateFiles<'a> {
    /// `tokenizer_config.json`: the names of special tokens, and in older folders the template. It may be absent if the template names none.
    pub config: Option<&'a [u8]>,
    /// `chat_template.jinja`, which precedes the template of the configuration.
    pub template: Option<&'a [u8]>,
}

/// The text that a template puts around the message of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) before: String,
    pub(crate) after: String,
}

/// The members of a `tokenizer_config.json` that a template can see.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Config {
    #[serde(default)]
    chat_template: Json,
    #[serde(default)]
    bos_token: Json,
    #[serde(default)]
    eos_token: Json,
    #[serde(default)]
    unk_token: Json,
    #[serde(default)]
    pad_token: Json,
}

impl ConversationTemplate {
    /// Renders the template of these files.
    pub(crate) fn render(files: &TemplateFiles<'_>) -> Result<Self, TokenizerError> {
        for bytes in [files.config, files.template].into_iter().flatten() {
            if bytes.len() > MAX_TEMPLATE_BYTES {
                return Err(TokenizerError::FileTooLarge(bytes.len()));
            }
        }
        let config: Config = serde_json::from_slice(files.config.unwrap_or(b"{}"))
            .map_err(|error| TokenizerError::Template(format!("`tokenizer_config.json`: {}", quote(&error))))?;
        let source = match files.template {
            Some(bytes) => std::str::from_utf8(bytes).map_err(|error| TokenizerError::Template(error.to_string()))?,
            None => config.own_template().ok_or_else(|| {
                let missing = "there is no `chat_template.jinja`, and `tokenizer_config.json` has no `chat_template`";
                TokenizerError::Template(missing.to_owned())
            })?,
        };
        if let (None, Some(name)) = (files.config, SPECIAL_TOKENS.iter().find(|name| source.contains(**name))) {
            let problem = format!("it names `{name}`, whose text a `tokenizer_config.json` has, and there is none");
            return Err(TokenizerError::Template(problem));
        }
        let source = source.to_owned();
        watch::bounded(&watch::RENDERING, move || {
            let [one, other] = PLACEHOLDERS.map(|message| catch_panic(|| around(&source, &config, message)));
            let (one, other) = (one?, other?);
            if one != other {
                return Err(TokenizerError::Template("what it puts around a message depends on the message".to_owned()));
            }
            catch_panic(|| Self::find(TemplateSource { text: source, config }, one).map_err(TokenizerError::Template))
        })
    }

    /// Renders the template for conversations, and returns the place of the first one that it makes another text of than is [put
    /// together](Self::text) from what stands around placeholders; `None` if there is none.
    pub(crate) fn first_other(&self, conversations: Vec<Vec<(Role, String)>>) -> Result<Option<usize>, TokenizerError> {
        let template = self.clone();
        watch::bounded(&watch::RENDERING, move || catch_panic(|| Ok(template.find_other(&conversations))))
    }

    fn find_other(&self, conversations: &[Vec<(Role, String)>]) -> Option<usize> {
        let environment = environment().ok()?;
        let compiled = environment.template_from_named_str(NAME, &self.source.text).ok()?;
        conversations.iter().position(|messages| {
            let messages: Vec<(Role, &str)> = messages.iter().map(|(role, text)| (*role, text.as_str())).collect();
            let made = self.text(None, &messages).map(|text| text + self.end());
            made.ok() != compiled.render(context(&self.source.config, &messages)).ok()
        })
    }
}

/// The text of a template, and what it can see.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TemplateSource {
    text: String,
    config: Config,
}

impl Frame {
    /// Returns a message with the text of the template around it.
    pub(crate) fn around(&self, message: &str) -> String {
        [self.before.as_str(), message, self.after.as_str()].concat()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

impl Config {
    /// Returns the template of the configuration: its text, or of a list the one named `default`.
    fn own_template(&self) -> Option<&str> {
        match &self.chat_template {
            Json::Array(named) => {
                let default = named.iter().find(|template| template.get("name").and_then(Json::as_str) == Some("default"))?;
                default.get("template")?.as_str()
            }
            template => template.as_str(),
        }
    }

    /// Returns the special tokens by their names in a template.
    fn special_tokens(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let tokens = [&self.bos_token, &self.eos_token, &self.unk_token, &self.pad_token];
        // A token is its text, or an object with it.
        SPECIAL_TOKENS.into_iter().zip(tokens).filter_map(|(name, token)| {
            let text = token.as_str().or_else(|| token.get("content")?.as_str())?;
            Some((name, Value::from(text)))
        })
    }
}

/// Returns what the template puts around this message.
fn around(source: &str, config: &Config, message: &str) -> Result<Frame, TokenizerError> {
    let rendered = render(source, config, &[(Role::User, message)]).map_err(|error| TokenizerError::Template(quote(&error)))?;
    let mut parts = rendered.split(message);
    let (Some(before), Some(after), None) = (parts.next(), parts.next(), parts.next()) else {
        let times = rendered.matches(message).count();
        return Err(TokenizerError::Template(format!("a message is in its text {times} times, not once")));
    };
    let frame = Frame { before: before.to_owned(), after: after.to_owned() };
    match frame.bytes() {
        bytes if bytes > MAX_TEMPLATE_TEXT => {
            Err(TokenizerError::Template(format!("it puts {bytes} bytes around a message, more than {MAX_TEMPLATE_TEXT}")))
        }
        _ => Ok(frame),
    }
}

/// The name of the template in messages.
const NAME: &str = "chat_template";

/// The method and the filter that make a text of any width in one step.
const FORMAT: &str = "format";

/// Renders the template of a conversation, up to the beginning of the next response.
fn render(source: &str, config: &Config, messages: &[(Role, &str)]) -> Result<String, Error> {
    nesting::check(source, syntax()?)?;
    environment()?.template_from_named_str(NAME, source)?.render(context(config, messages))
}

fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_syntax(syntax()?);
    environment.remove_filter(FORMAT);
    environment.set_unknown_method_callback(|state, value, method, arguments| match method {
        FORMAT => Err(Error::new(ErrorKind::UnknownMethod, "`format` is not defined, because its result has no limit")),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments),
    });
    environment.add_function("raise_exception", |reason: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, format!("it refuses the message: {reason}")))
    });
    Ok(environment)
}

/// Returns what a template sees.
fn context(config: &Config, messages: &[(Role, &str)]) -> Value {
    let message = |(role, content): &(Role, &str)| {
        Value::from_pairs([("role", Value::from(role.as_str())), ("content", Value::from(*content))])
    };
    let variables = [
        ("messages", messages.iter().map(message).collect::<Value>()),
        ("add_generation_prompt", Value::from(true)),
        ("tools", Value::from(())),
        ("documents", Value::from(())),
    ];
    Value::from_pairs(variables.into_iter().chain(config.special_tokens()))
}

mod conversation;
mod nesting;
mod watch;

pub(crate) use conversation::ConversationTemplate;

#[cfg(test)]
mod tests;
