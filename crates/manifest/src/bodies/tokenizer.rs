//! The tokenizer of a serving workload.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::document::words;
use crate::{Digest, PinnedFile, canonical_value};

words!(
    /// An encoding of tiktoken, which names the pattern that splits texts.
    TiktokenEncoding, "tiktoken encoding",
    /// GPT-3.
    R50kBase = "r50k_base",
    /// Codex: the pattern of `r50k_base`.
    P50kBase = "p50k_base",
    /// GPT-4.
    Cl100kBase = "cl100k_base",
    /// GPT-4o, and gpt-oss.
    O200kBase = "o200k_base",
);

words!(
    /// The side that applies the chat template whose tokens are a part of each prompt.
    TemplateUse, "use of a chat template",
    /// The client, which sends the text.
    Apply = "apply",
    /// The endpoint, and the client only counts its tokens.
    Count = "count",
);

words!(
    /// The author of a message of a conversation, as APIs and chat templates name it.
    MessageRole, "role of a message",
    /// The operator: instructions and the descriptions of tools.
    System = "system",
    /// The user, and the tools whose results the user's side sends.
    User = "user",
    /// The model.
    Assistant = "assistant",
);

/// A chat template whose tokens are a part of each prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatTemplate {
    /// The side that applies it.
    pub usage: TemplateUse,
    /// `tokenizer_config.json`, pinned; absent if the folder has none, and `file` names no token of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub config: Option<PinnedFile>,
    /// `chat_template.jinja`, pinned; absent if the template is a member of `config`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<PinnedFile>,
    /// The tokens that it puts around a message.
    pub tokens: u32,
}

/// The tokenizer that counts tokens and makes prompts of an exact length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tokenizer {
    /// `common-words` for the built-in list, else the name of the file.
    pub name: String,
    /// The digest of its vocabulary and rules.
    pub digest: Digest,
    /// A tokenizer file (`tokenizer.json`, or a vocabulary of tiktoken), pinned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<PinnedFile>,
    /// Of a vocabulary of tiktoken, the encoding whose pattern splits texts, or the pattern itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pattern: Option<String>,
    /// The chat template whose tokens are a part of each prompt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub template: Option<ChatTemplate>,
}

impl Tokenizer {
    /// Returns the files that it consists of.
    pub fn files(&self) -> impl Iterator<Item = &PinnedFile> {
        let of_template = self.template.iter().flat_map(|template| [template.config.as_ref(), template.file.as_ref()]);
        self.file.iter().chain(of_template.flatten())
    }
}

/// Returns the digest of a vocabulary of tiktoken with a pattern: SHA-256 over both in canonical JSON.
pub fn tiktoken_digest(vocabulary: &Digest, pattern: &str) -> Digest {
    // An object of two texts always has a canonical form.
    let rules = json!({"pattern": pattern, "vocabulary": vocabulary});
    Digest::compute(&canonical_value(&rules).unwrap_or_default())
}

/// Returns the digest of a tokenizer with a chat template: SHA-256 over the digests of its parts in canonical JSON.
pub fn template_digest(tokenizer: &Digest, usage: TemplateUse, config: Option<&Digest>, file: Option<&Digest>) -> Digest {
    let rules = json!({"config": config, "template": file, "tokenizer": tokenizer, "usage": usage});
    Digest::compute(&canonical_value(&rules).unwrap_or_default())
}
