//! The tokenizer of a workload.

use assay_manifest::{MessageRole, TokenIds};
use assay_planning::{DrawnPrompts, TokenizerSource};
use assay_stage::{ErrorCode, Failure};
use assay_tokens::{TemplateFiles, Tokenizer, TokenizerError};

/// The most tokens of a sample prompt: a template that cuts longer ones only is rare, and each sample has to be made and counted.
const MAX_SAMPLE_TOKENS: u32 = 32_768;

/// The most turns of a sample conversation.
const MAX_SAMPLE_TURNS: u32 = 32;

/// Loads the tokenizer that a workload names.
pub(crate) fn load_tokenizer(source: &TokenizerSource<'_>) -> Result<Tokenizer, Failure> {
    let TokenizerSource { workload, path, bytes, pattern, template, makes_ids, makes_turns, drawn } = source;
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
    if let Some(why) = tokenizer.why_no_later_turn().filter(|_| *makes_turns) {
        let error = TokenizerError::Messages(format!("a single one of `user` only, and sessions have more: {why}"));
        return Err(unusable(&error));
    }
    drawn.iter().try_for_each(|drawn| check_samples(&tokenizer, drawn)).map_err(|error| unusable(&error))?;
    Ok(tokenizer)
}

/// Refuses a chat template that makes another text of a drawn prompt than is put together from what it puts around placeholders, which are short
/// and few. It is rendered for prompts of the shortest and of the longest length, and for a conversation of the most turns.
fn check_samples(tokenizer: &Tokenizer, drawn: &DrawnPrompts) -> Result<(), TokenizerError> {
    let tokenizer = tokenizer.clone().with_text(drawn.text).of_messages();
    let [shortest, longest] = [drawn.shortest, drawn.longest].map(|tokens| tokens.clamp(1, MAX_SAMPLE_TOKENS));
    let mut samples = Vec::new();
    for tokens in [shortest, longest] {
        let prompt = tokenizer.prompt(0, None, tokens)?.text;
        samples.push((format!("a drawn prompt of {tokens} tokens"), vec![(MessageRole::User, prompt)]));
    }
    if drawn.turns > 1 {
        let turns = drawn.turns.min(MAX_SAMPLE_TURNS);
        let conversation = sample_conversation(&tokenizer, turns, shortest, longest)?;
        samples.push((format!("a conversation of {turns} turns"), conversation));
    }
    let (described, prompts): (Vec<String>, Vec<_>) = samples.into_iter().unzip();
    match tokenizer.first_other_in_template(prompts)?.and_then(|place| described.into_iter().nth(place)) {
        Some(sample) => Err(TokenizerError::Template(format!(
            "of {sample} it makes another text than of a short message: it looks at what messages say, how long they are or how many there are"
        ))),
        None => Ok(()),
    }
}

/// Returns a conversation whose first message is the longest and whose later ones are the shortest.
fn sample_conversation(
    tokenizer: &Tokenizer,
    turns: u32,
    shortest: u32,
    longest: u32,
) -> Result<Vec<(MessageRole, String)>, TokenizerError> {
    let mut messages = vec![(MessageRole::User, tokenizer.prompt(0, None, longest)?.text)];
    for seed in (1..turns).map(u64::from) {
        messages.push((MessageRole::Assistant, tokenizer.unframed(seed, shortest)?.text));
        messages.push((MessageRole::User, tokenizer.later_message(seed, shortest)?.text));
    }
    Ok(messages)
}
