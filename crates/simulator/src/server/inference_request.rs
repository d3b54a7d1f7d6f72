//! Decides what an inference request asks for, and whether it can be served.

use std::hash::{DefaultHasher, Hasher as _};

use assay_api::{InputCounts, InputReader, OutputTokens, ReceivedRequest, ServingApi};
use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::draw::RequestKey;

/// An inference request that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InferenceRequest {
    pub(crate) api: ServingApi,
    /// The adapter that it asks for, by its place in the configuration; absent if it asks for the model.
    pub(crate) adapter: Option<usize>,
    pub(crate) stream: bool,
    /// True if a stream ends with its usage.
    pub(crate) include_usage: bool,
    /// True if each chunk has the usage so far.
    pub(crate) continuous_usage: bool,
    pub(crate) prompt: Prompt,
    pub(crate) counts: InputCounts,
    max_tokens: Option<u32>,
    min_tokens: u32,
    ignore_eos: bool,
}

/// The retained data of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// The number of words, or of token ids if the prompt consists of them.
    pub(crate) tokens: u32,
    /// The number of images.
    pub(crate) images: u32,
    /// A hash of every full block, each including all tokens before it.
    pub(crate) blocks: Vec<u64>,
    /// A digest of the API and the complete prompt.
    pub(crate) digest: [u8; 32],
}

/// The refusal of a request: its status and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// Parses the body of an inference request.
pub(crate) fn parse_request(api: ServingApi, body: &[u8], config: &Config) -> Result<InferenceRequest, Refusal> {
    let bad_request = |reason: String| Refusal::new(400, reason);
    let body = ReceivedRequest::parse(body).map_err(bad_request)?;
    let unknown = |model: &String| {
        let model: String = model.chars().take(200).collect();
        Refusal::new(404, format!("the model `{model}` does not exist"))
    };
    let adapter = match &body.model {
        None if api.capabilities().names_model => return Err(Refusal::new(400, "`model` is missing")),
        Some(model) if *model != config.model => {
            let place = config.adapters.iter().position(|adapter| adapter == model);
            Some(place.ok_or_else(|| unknown(model))?)
        }
        _ => None,
    };
    if body.n.is_some_and(|n| n != 1) {
        return Err(Refusal::new(400, "`n` other than 1 is not supported"));
    }
    let mut prompt = PromptReader::new(api, adapter, body.cache_salt.as_deref(), config.engine.block_tokens());
    let counts = api.read_inputs(&body, &mut prompt).map_err(bad_request)?;
    let ask = InferenceRequest {
        api,
        adapter,
        stream: body.is_streamed() && api.capabilities().streams,
        include_usage: body.includes_usage(),
        continuous_usage: body.has_continuous_usage(),
        prompt: prompt.finish(),
        counts,
        max_tokens: api.limit(&body),
        min_tokens: body.min_tokens.unwrap_or(0),
        ignore_eos: body.ignores_eos(),
    };
    check_lengths(&ask, config)?;
    Ok(ask)
}

fn check_lengths(ask: &InferenceRequest, config: &Config) -> Result<(), Refusal> {
    let (prompt, most) = (ask.prompt.tokens, config.max_model_len);
    let least = u32::from(ask.api.capabilities().has_output_tokens);
    if ask.max_tokens == Some(0) {
        return Err(Refusal::new(400, "`max_tokens` has to be at least 1"));
    }
    if ask.max_tokens.is_some_and(|max_tokens| ask.min_tokens > max_tokens) {
        return Err(Refusal::new(400, "`min_tokens` has to be at most `max_tokens`"));
    }
    let asked = ask.max_tokens.unwrap_or(least).max(ask.min_tokens);
    if prompt.saturating_add(asked) > most {
        let what = format!("{prompt} tokens of the prompt and {asked} of the response");
        return Err(Refusal::new(400, format!("the maximum context length is {most} tokens; the request has {what}")));
    }
    Ok(())
}

impl InferenceRequest {
    /// Determines the length of the response. `ignore_eos` gives exactly the requested length; otherwise the response may end by
    /// itself, by the distribution of the configuration, and never before `min_tokens`.
    pub(crate) fn response_length(&self, key: RequestKey, config: &Config) -> OutputTokens {
        let capabilities = self.api.capabilities();
        if !capabilities.has_output_tokens {
            return OutputTokens { tokens: 0, reasoning_tokens: 0, finish_reason: "stop" };
        }
        let room = config.max_model_len.saturating_sub(self.prompt.tokens).max(1);
        let most = self.max_tokens.unwrap_or(room).min(room);
        let by_itself = config.output.draw(key).max(self.min_tokens);
        let (tokens, finish_reason) = if self.ignore_eos || by_itself >= most { (most, "length") } else { (by_itself, "stop") };
        let share = if capabilities.has_reasoning { config.reasoning_share } else { 0.0 };
        OutputTokens { tokens, reasoning_tokens: (f64::from(tokens) * share) as u32, finish_reason }
    }
}

/// Counts, hashes and digests the tokens of a prompt.
struct PromptReader {
    tokens: u32,
    images: u32,
    block_tokens: u32,
    blocks: Vec<u64>,
    chain: DefaultHasher,
    digest: Sha256,
}

impl PromptReader {
    /// Creates a reader. Equal prompts have equal blocks if they have the same adapter and the same salt.
    fn new(api: ServingApi, adapter: Option<usize>, salt: Option<&str>, block_tokens: u32) -> Self {
        // These hashes are only compared for equality, so any hasher will do that is the same for every request.
        let mut chain = DefaultHasher::new();
        if let Some(place) = adapter {
            chain.write_usize(place);
        }
        chain.write(salt.unwrap_or_default().as_bytes());
        let digest = Sha256::new_with_prefix([api as u8]);
        Self { tokens: 0, images: 0, block_tokens: block_tokens.max(1), blocks: Vec::new(), chain, digest }
    }

    fn take(&mut self, token: &[u8]) {
        // The length separates tokens, for any bytes in them.
        let length = (token.len() as u64).to_le_bytes();
        self.digest.update(length);
        self.digest.update(token);
        self.chain.write(&length);
        self.chain.write(token);
        self.tokens = self.tokens.saturating_add(1);
        if self.tokens.is_multiple_of(self.block_tokens) {
            self.blocks.push(self.chain.clone().finish());
        }
    }

    fn finish(self) -> Prompt {
        Prompt { tokens: self.tokens, images: self.images, blocks: self.blocks, digest: self.digest.finalize().into() }
    }
}

impl InputReader for PromptReader {
    fn role(&mut self, role: &str) {
        self.digest.update(role.as_bytes());
        self.digest.update([0]);
    }

    fn text(&mut self, text: &str) {
        text.split_whitespace().for_each(|word| self.take(word.as_bytes()));
    }

    fn token(&mut self, id: u64) {
        self.take(&id.to_le_bytes());
    }

    /// Counts an image. It has no tokens, and what follows it is in the cache only after the same image.
    fn image(&mut self, url: &str) {
        self.images = self.images.saturating_add(1);
        let digest = Sha256::digest(url);
        self.digest.update([1]);
        self.digest.update(digest);
        self.chain.write(&digest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{LengthDistribution, Profile};
    use crate::draw::Seed;

    fn config() -> Config {
        Config { model: "m".to_owned(), max_model_len: 100, ..Config::from_profile(Profile::Fast) }
    }

    fn chat(body: &str) -> Result<InferenceRequest, Refusal> {
        parse_request(ServingApi::Chat, body.as_bytes(), &config())
    }

    fn refused(api: ServingApi, body: &str) -> (u16, String) {
        let refusal = parse_request(api, body.as_bytes(), &config()).expect_err(body);
        (refusal.status, refusal.message)
    }

    fn tokens(api: ServingApi, body: &str) -> u32 {
        parse_request(api, body.as_bytes(), &config()).expect(body).prompt.tokens
    }

    #[test]
    fn the_tokens_of_a_prompt_are_its_words() {
        let body = r#"{"model": "m", "messages": [{"role": "system", "content": " be  kind "},
            {"role": "user", "content": [{"type": "text", "text": "a b c"}, {"type": "image_url"}]},
            {"role": "assistant", "content": null}]}"#;
        assert_eq!(tokens(ServingApi::Chat, body), 5);
        assert_eq!(tokens(ServingApi::Completions, r#"{"model": "m", "prompt": "a b"}"#), 2);
        assert_eq!(tokens(ServingApi::Completions, r#"{"model": "m", "prompt": ["a b"]}"#), 2);
        assert_eq!(tokens(ServingApi::Completions, r#"{"model": "m", "prompt": [7, 8, 9]}"#), 3);
        assert_eq!(tokens(ServingApi::Completions, r#"{"model": "m", "prompt": [[7, 8]]}"#), 2);
        assert_eq!(tokens(ServingApi::Embeddings, r#"{"model": "m", "input": ["a b", "c"]}"#), 3);
        // Each document is read together with the query.
        let pairs = r#"{"model": "m", "query": "q r", "documents": ["a b", {"text": "c"}], "texts": ["a"]}"#;
        assert_eq!((tokens(ServingApi::Rerank, pairs), tokens(ServingApi::RerankTei, pairs)), (7, 3));
    }

    #[test]
    fn images_are_counted_and_tell_prompts_apart() {
        let words = "w ".repeat(20);
        let prompt = |url: &str| {
            let parts = format!(
                r#"[{{"type": "text", "text": "a"}}, {{"type": "image_url", "image_url": {{"url": "{url}"}}}}, {{"type": "text", "text": "{words}"}}]"#
            );
            chat(&format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": {parts}}}]}}"#)).expect("a request").prompt
        };
        let (one, same, other) =
            (prompt("data:image/png;base64,AAAA"), prompt("data:image/png;base64,AAAA"), prompt("data:image/png;base64,AAAB"));
        assert_eq!((one.tokens, one.images), (21, 1));
        assert_eq!(one, same);
        assert!(one.digest != other.digest && one.blocks[0] != other.blocks[0]);
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_the_reason() {
        let cases = [
            (ServingApi::Chat, "{", 400, "not a request"),
            (ServingApi::Chat, "[]", 400, "not a request"),
            (ServingApi::Chat, r#"{"messages": []}"#, 400, "`model` is missing"),
            (ServingApi::Chat, r#"{"model": "x", "messages": []}"#, 404, "the model `x` does not exist"),
            (ServingApi::Chat, r#"{"model": "m"}"#, 400, "`messages` is missing"),
            (ServingApi::Chat, r#"{"model": "m", "messages": []}"#, 400, "`messages` is empty"),
            (ServingApi::Chat, r#"{"model": "m", "messages": [{"content": "a"}]}"#, 400, "missing field `role`"),
            (ServingApi::Chat, r#"{"model": "m", "messages": [{"role": "user", "content": 5}]}"#, 400, "a text or a list"),
            (ServingApi::Completions, r#"{"model": "m"}"#, 400, "`prompt` is missing"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": ["a", "b"]}"#, 400, "has 2 prompts"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": [-1]}"#, 400, "list of token ids"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": []}"#, 400, "`prompt` is empty"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": "a", "max_tokens": 0}"#, 400, "at least 1"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": "a", "max_tokens": -1}"#, 400, "not a request"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": "a", "max_tokens": 100}"#, 400, "context length is 100"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": "a", "max_tokens": 3, "min_tokens": 4}"#, 400, "`min_tokens`"),
            (ServingApi::Completions, r#"{"model": "m", "prompt": "a", "n": 2}"#, 400, "`n` other than 1"),
            (ServingApi::Embeddings, r#"{"model": "m", "input": {}}"#, 400, "`input` is a text"),
            (ServingApi::Rerank, r#"{"query": "q", "documents": ["a"]}"#, 400, "`model` is missing"),
            (ServingApi::Rerank, r#"{"model": "m", "documents": ["a"]}"#, 400, "`query` is missing"),
            (ServingApi::Rerank, r#"{"model": "m", "query": "q"}"#, 400, "`documents` is missing"),
            (ServingApi::Rerank, r#"{"model": "m", "query": "q", "documents": []}"#, 400, "`documents` is empty"),
            (ServingApi::Rerank, r#"{"model": "m", "query": "q", "documents": [5]}"#, 400, "an element of `documents`"),
            (ServingApi::Rerank, r#"{"model": "m", "query": 5, "documents": ["a"]}"#, 400, "not a request"),
            (ServingApi::RerankTei, r#"{"query": "q", "documents": ["a"]}"#, 400, "`texts` is missing"),
        ];
        for (endpoint, body, status, reason) in cases {
            let (found, message) = refused(endpoint, body);
            assert!(found == status && message.contains(reason), "{body}: {found} {message}");
        }
    }

    fn response(fields: &str) -> (u32, &'static str) {
        let ask = chat(&format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "a"}}]{fields}}}"#)).expect(fields);
        let law = LengthDistribution { median_tokens: 20, sigma: 0.0, max_tokens: 50 };
        let length = ask.response_length(RequestKey::from_id(&Seed::default(), "a"), &Config { output: law, ..config() });
        (length.tokens, length.finish_reason)
    }

    #[test]
    fn a_response_has_the_requested_length() {
        assert_eq!(response(""), (20, "stop"));
        assert_eq!(response(r#", "max_tokens": 10"#), (10, "length"));
        assert_eq!(response(r#", "max_tokens": 20"#), (20, "length"));
        assert_eq!(response(r#", "max_tokens": 30"#), (20, "stop"));
        assert_eq!(response(r#", "max_tokens": 9, "max_completion_tokens": 8"#), (8, "length"));
        assert_eq!(response(r#", "max_tokens": 30, "ignore_eos": true"#), (30, "length"));
        assert_eq!(response(r#", "max_tokens": 30, "min_tokens": 30"#), (30, "length"));
        assert_eq!(response(r#", "max_tokens": 30, "min_tokens": 25"#), (25, "stop"));
        assert_eq!(response(r#", "ignore_eos": true"#), (99, "length"));
    }

    #[test]
    fn reasoning_comes_first_and_is_a_share_of_a_chat_response() {
        let config = Config { reasoning_share: 0.3, ..config() };
        let key = RequestKey::from_id(&Seed::default(), "a");
        let reasoning = |api, body: &str| {
            parse_request(api, body.as_bytes(), &config).expect(body).response_length(key, &config).reasoning_tokens
        };
        let ends = r#""max_tokens": 11, "ignore_eos": true}"#;
        let message = r#"{"model": "m", "messages": [{"role": "user", "content": "a"}], "#;
        assert_eq!(reasoning(ServingApi::Chat, &format!("{message}{ends}")), 3);
        assert_eq!(reasoning(ServingApi::Completions, &format!(r#"{{"model": "m", "prompt": "a", {ends}"#)), 0);
    }

    #[test]
    fn blocks_agree_as_far_as_prompts_and_salts_do() {
        let blocks = |prompt: &str, salt: &str| {
            let body = format!(r#"{{"model": "m", "prompt": "{prompt}"{salt}}}"#);
            parse_request(ServingApi::Completions, body.as_bytes(), &config()).expect(&body).prompt.blocks
        };
        let (shared, end) = ("w ".repeat(16), "x ".repeat(16));
        let first = blocks(&format!("{shared}{end}"), "");
        let second = blocks(&format!("{shared}y {end}"), "");
        assert_eq!((first.len(), second.len()), (2, 2));
        assert_eq!(first[0], second[0]);
        assert_ne!(first[1], second[1]);
        assert_ne!(first[0], blocks(&shared, r#", "cache_salt": "s""#)[0]);
        assert_eq!(blocks(&shared, r#", "cache_salt": "s""#), blocks(&shared, r#", "cache_salt": "s""#));
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            for api in ServingApi::ALL.iter().copied() {
                if let Err(refusal) = parse_request(api, &body, &config()) {
                    prop_assert!(refusal.status == 400 || refusal.status == 404);
                }
            }
        }
    }
}
