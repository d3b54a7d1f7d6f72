//! The tokenizer of a workload.

use assay_manifest::TokenIds;
use assay_planning::TokenizerSource;
use assay_stage::{ErrorCode, Failure};
use assay_tokens::{TemplateFiles, Tokenizer, TokenizerError};

/// Loads the tokenizer that a workload names.
pub(crate) fn load_tokenizer(source: &TokenizerSource<'_>) -> Result<Tokenizer, Failure> {
    let TokenizerSource { workload, path, bytes, pattern, template, makes_ids, makes_turns } = source;
    let tokenizer = Tokenizer::load(bytes, *pattern).map_err(|error| {
        let what = if pattern.is_some() { "vocabulary of tiktoken" } else { "`tokenizer.json`" };
        let hint = match &error {
            TokenizerError::Pattern(_) => {
                "correct `pattern` (`--tokenizer-pattern`): the name of an encoding, such as `o200k_base`, or a regular expression".to_owned()
            }
            _ => format!("`workloads/{workload}/{path}` must be a {what} that can be read"),
        };
        Failure::from_error(ErrorCode::Tokenizer, &error).hint(hint)
    })?;
    if *makes_ids {
        return tokenizer.with_token_ids(TokenIds::Tokenizer).map_err(|error| {
            Failure::from_error(ErrorCode::Tokenizer, &error)
                .hint("name a range of the model's ids instead of a tokenizer: `token_ids: {least: 1000, most: 31999}`")
        });
    }
    let Some(template) = template else { return Ok(tokenizer) };
    let files = TemplateFiles { config: template.config, template: template.file };
    let unusable = |error: &TokenizerError| {
        Failure::from_error(ErrorCode::Tokenizer, error)
            .hint("remove `template` (`--template`): the endpoint may still apply it, and its own count of input tokens says what it adds")
    };
    let tokenizer = tokenizer.with_template(&files, template.usage).map_err(|error| unusable(&error))?;
    match tokenizer.why_no_later_turn().filter(|_| *makes_turns) {
        Some(why) => {
            Err(unusable(&TokenizerError::Messages(format!("a single one of `user` only, and sessions have more: {why}"))))
        }
        None => Ok(tokenizer),
    }
}
