//! The requests of one shard: its stripe of the schedule, with prompts and bodies.

use std::sync::Arc;

use super::images::SentImage;
use super::row_requests::RowRequests;
use super::sessions::{Conversation, Conversations, is_of_trace, read_turn};
use assay_api::RequestInput;
use assay_dataset::RowReader;
use assay_load::{Cause, PlannedRequest};
use assay_manifest::{PromptSource, ServingWork, SharedPrefix};
use assay_record::Phase;
use assay_schedule::{Beginning, Requests as Scheduled, ScheduledRequest, SessionCursor, Stripe, TrialSchedule};
use assay_tokens::{Prompt, Tokenizer};

/// A generator of the requests of one shard, in order, ahead of time.
#[derive(Clone)]
pub(crate) struct Prompts<'a> {
    warmup: Scheduled,
    measured: Scheduled,
    of_rows: RowRequests<'a>,
    work: &'a ServingWork,
    is_silent: bool,
    /// The sessions of which first turns were prepared, if requests are turns of sessions.
    conversations: Conversations,
}

impl<'a> Prompts<'a> {
    pub(crate) fn new(
        schedule: &TrialSchedule,
        stripe: Stripe,
        tokenizer: Arc<Tokenizer>,
        rows: Option<Arc<RowReader>>,
        work: &'a ServingWork,
    ) -> Self {
        let of = |phase| schedule.shard_requests(phase, stripe);
        Self {
            warmup: of(assay_schedule::Phase::WarmUp),
            measured: of(assay_schedule::Phase::Measure),
            of_rows: RowRequests::new(schedule, tokenizer, rows, work),
            work,
            is_silent: false,
            conversations: Conversations::default(),
        }
    }

    /// Returns the generator of requests with images among these files.
    pub(crate) fn with_image_files(self, files: Option<Arc<[Arc<SentImage>]>>) -> Self {
        Self { of_rows: self.of_rows.with_image_files(files), ..self }
    }

    /// Returns the sessions of which first turns were prepared; all copies are the same.
    pub(crate) fn conversations(&self) -> Conversations {
        self.conversations.clone()
    }

    /// Returns a copy of the requests of the measured phase, by which the later turns of sessions are drawn.
    pub(crate) fn scheduled(&self) -> Scheduled {
        self.measured.clone()
    }

    /// Returns a copy of the generator of the requests of rows.
    pub(crate) fn of_rows(&self) -> RowRequests<'a> {
        self.of_rows.clone()
    }

    /// Returns no more requests: the shard has no user.
    pub(crate) fn disable(&mut self) {
        self.is_silent = true;
    }

    fn planned(&self, request: &ScheduledRequest, output_tokens: Option<u32>) -> Result<PlannedRequest, Cause> {
        if let Some(row) = request.row {
            return self.of_rows.of_row(request, row, output_tokens);
        }
        if let Some(ids) = self.token_ids(request)? {
            return Ok(self.of_rows.of_token_ids(request, &ids, output_tokens));
        }
        if let (Some(group), PromptSource::Synthetic { prefix: Some(prefix), .. }) = (request.group, &self.work.prompts) {
            return self.of_group(request, group, prefix, output_tokens);
        }
        let documents = self.work.documents();
        let prompt = |number, tokens| self.of_rows.tokenizer().prompt(request.document_seed(number), self.of_rows.salt(), tokens);
        let prompts = (0..documents).map(|number| prompt(number, request.input_tokens)).collect::<Result<Vec<_>, _>>()?;
        let query = request.query_tokens.map(|tokens| prompt(documents, tokens)).transpose()?;
        // A model reads each document together with the query.
        let of_query = query.as_ref().map_or(0, |query| query.tokens);
        let input_tokens = prompts.iter().fold(0_u32, |sum, prompt| sum.saturating_add(prompt.tokens).saturating_add(of_query));
        let query = query.map(|query| query.text);
        let prompts: Vec<String> = prompts.into_iter().map(|prompt| prompt.text).collect();
        if let (Some(images), [text]) = (self.of_rows.images(request), prompts.as_slice()) {
            return Ok(self.of_rows.illustrated(request, text, &images, input_tokens, output_tokens));
        }
        let input = RequestInput::Texts { query: query.as_deref(), inputs: &prompts };
        Ok(self.of_rows.request(request, input, query.iter().chain(&prompts).map(String::as_str), input_tokens, output_tokens))
    }
}

impl Prompts<'_> {
    /// Returns the turn with which the next session begins.
    fn first_turn(&mut self) -> Result<Option<PlannedRequest>, Cause> {
        self.measured.next_session().map_or(Ok(None), |cursor| self.begin_session(cursor))
    }

    /// Returns the turn with which a session begins.
    pub(crate) fn begin_session(&mut self, cursor: SessionCursor) -> Result<Option<PlannedRequest>, Cause> {
        let mut beginnings = self.measured.beginnings(&cursor).into_iter();
        let Some(Beginning { turn, after_ns }) = beginnings.next() else { return Ok(None) };
        let mut cursor = cursor.at(turn);
        let Some(first) = self.measured.next_turn(&mut cursor) else { return Ok(None) };
        let begun = Conversation::begin(cursor, first, self.measured.followers(&cursor, turn))
            .with_successor(&mut self.measured, &self.conversations);
        if let Some(row) = first.row {
            if is_of_trace(&first) {
                let beside = beginnings.map(|Beginning { turn, after_ns }| assay_load::Beginning { turn, after_ns }).collect();
                let request = self.of_rows.of_row(&first, row, first.output_tokens)?;
                let request = PlannedRequest { after_ns, beside, ..request };
                return begun.keep_of_trace(&self.conversations, request).map(Some);
            }
            let marker = self.of_rows.marker()?;
            let turn = read_turn(self.of_rows.rows(), row, marker)?;
            let marker_tokens = marker.map_or(0, |marker| marker.tokens);
            return self.begin(begun.with_turn(turn, marker_tokens), &first).map(Some);
        }
        let prompt = match (first.group, &self.work.prompts) {
            (Some(group), PromptSource::Synthetic { prefix: Some(prefix), .. }) => self.group_prompt(&first, group, prefix)?,
            _ => self.of_rows.tokenizer().prompt(first.prompt_seed, self.of_rows.salt(), first.input_tokens)?,
        };
        self.begin(begun.with_prompt(&prompt), &first).map(Some)
    }

    /// Returns the request of a session that begins, and keeps what was said.
    fn begin(&self, mut conversation: Conversation, first: &ScheduledRequest) -> Result<PlannedRequest, Cause> {
        conversation.illustrate(0, self.of_rows.images(first));
        let request = conversation.request(self.work, self.of_rows.tokenizer())?;
        conversation.keep(&self.conversations, &request)?;
        Ok(request)
    }

    /// Returns the request of a prompt that begins like others: block 0 is the beginning of all, and block `k` that of group `k`, from 1. A salt
    /// changes these words in every execution, and takes no tokens.
    fn of_group(
        &self,
        request: &ScheduledRequest,
        group: u32,
        prefix: &SharedPrefix,
        output_tokens: Option<u32>,
    ) -> Result<PlannedRequest, Cause> {
        let prompt = self.group_prompt(request, group, prefix)?;
        if let Some(images) = self.of_rows.images(request) {
            return Ok(self.of_rows.illustrated(request, &prompt.text, &images, prompt.tokens, output_tokens));
        }
        let inputs = [prompt.text];
        let input = RequestInput::Texts { query: None, inputs: &inputs };
        Ok(self.of_rows.request(request, input, inputs.iter().map(String::as_str), prompt.tokens, output_tokens))
    }

    fn group_prompt(&self, request: &ScheduledRequest, group: u32, prefix: &SharedPrefix) -> Result<Prompt, Cause> {
        Ok(self.of_rows.tokenizer().pieces(&self.group_pieces(request, group, prefix))?)
    }

    /// Returns the pieces of a prompt that begins like others, each with its seed and its tokens.
    fn group_pieces(&self, request: &ScheduledRequest, group: u32, prefix: &SharedPrefix) -> [(u64, u32); 3] {
        let texts = self.of_rows.block_texts();
        let own = request.input_tokens.saturating_sub(prefix.tokens());
        [(texts.block_seed(0), prefix.system), (texts.block_seed(u64::from(group) + 1), prefix.group), (request.prompt_seed, own)]
    }

    /// Returns the ids of a drawn prompt; `None` if prompts are texts.
    fn token_ids(&self, request: &ScheduledRequest) -> Result<Option<Vec<u32>>, Cause> {
        let tokenizer = self.of_rows.tokenizer();
        Ok(match (request.group, &self.work.prompts) {
            (Some(group), PromptSource::Synthetic { prefix: Some(prefix), .. }) => {
                tokenizer.id_pieces(&self.group_pieces(request, group, prefix))?
            }
            _ => tokenizer.id_prompt(request.prompt_seed, self.of_rows.salt(), request.input_tokens)?,
        })
    }
}

impl assay_load::Requests for Prompts<'_> {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        if self.is_silent {
            return Ok(None);
        }
        if self.work.sessions.is_some() {
            return self.first_turn();
        }
        let request = match phase {
            Phase::Warmup => self.warmup.next(),
            Phase::Measured => self.measured.next(),
        };
        request.map(|request| self.planned(&request, request.output_tokens)).transpose()
    }
}

/// The measured prompts, each for as few tokens as the API allows and without an intended time: they fill the cache before a warm trial.
pub(crate) struct WarmPrompts<'a>(Prompts<'a>);

impl<'a> WarmPrompts<'a> {
    pub(crate) fn new(prompts: Prompts<'a>) -> Self {
        Self(prompts)
    }
}

impl assay_load::Requests for WarmPrompts<'_> {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        if phase == Phase::Warmup {
            return Ok(None);
        }
        let Some(request) = self.0.measured.next() else { return Ok(None) };
        let api = self.0.work.api;
        let limit = api.capabilities().has_output_tokens.then_some(api.rules().least_limit);
        let mut planned = self.0.planned(&request, limit)?;
        planned.intended_offset_ns = None;
        // The trial itself sends the same request again, under its own id.
        planned.request_id = !planned.request_id;
        Ok(Some(planned))
    }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{CacheMode, Digest, ImageFormat, Images, ServingApi};
    use assay_schedule::{Nonce, OfferedLoad, PointKey, Seed, TrialKey};
    use serde_json::{Value, json};

    use super::*;

    /// Returns a small chat workload of five requests.
    fn work() -> ServingWork {
        let json = serde_json::json!({
            "api": "chat", "model": "m", "arrival": {"law": "constant"}, "prompts": {"from": "synthetic", "input": {"law": "uniform", "min": 2, "max": 9}},
            "output": {"law": "fixed", "tokens": 3}, "exact_output": true, "batch": 1, "body": {}, "requests": "5",
            "warmup_ns": "0", "timeout_ns": "1000000000", "time_limit_ns": "1000000000", "cache": "cold_salt",
            "streaming": true, "continuous_usage": false, "capture": "digest", "slos": [],
            "tokenizer": {"name": "common-words", "digest": Digest::compute(b"")},
        });
        serde_json::from_value(json).expect("a workload")
    }

    fn schedule(work: &ServingWork, nonce: u128) -> TrialSchedule {
        let (seed, workload, point) = (Seed::new([1; 32]), Digest::compute(b"w"), "rate-10".parse().expect("a point"));
        let key =
            TrialKey { point: PointKey { seed: &seed, workload: &workload, point: &point }, trial: 0, nonce: Nonce::new(nonce) };
        TrialSchedule::new(work, OfferedLoad::Rate { per_s: 10.0 }, &key, None).expect("a schedule")
    }

    fn all(mut requests: impl assay_load::Requests) -> Vec<PlannedRequest> {
        std::iter::from_fn(|| requests.next(Phase::Measured).expect("prepared")).collect()
    }

    fn prompts(work: &ServingWork, nonce: u128, shard: u32, shards: u32) -> Vec<PlannedRequest> {
        let stripe = Stripe::new(shard, shards).expect("a stripe");
        all(Prompts::new(&schedule(work, nonce), stripe, Arc::new(Tokenizer::built_in()), None, work))
    }

    #[test]
    fn shards_send_together_what_one_sends() {
        let work = work();
        let one = prompts(&work, 1, 0, 1);
        let mut three: Vec<_> = (0..3).flat_map(|shard| prompts(&work, 1, shard, 3)).collect();
        three.sort_by_key(|planned| planned.global_index);
        assert_eq!(one.len(), 5);
        assert_eq!(one, three);
    }

    #[test]
    fn a_request_names_its_adapter_as_its_model_and_nothing_else_changes() {
        let adapters = ["sql", "chat"].map(|name| assay_manifest::Adapter { name: name.to_owned(), weight: 1.0 });
        let mixed = ServingWork { adapters: adapters.into(), requests: Some(assay_manifest::Count(40)), ..work() };
        let plain = ServingWork { adapters: Vec::new(), ..mixed.clone() };
        let body = |planned: &PlannedRequest| serde_json::from_slice::<Value>(&planned.body).expect("JSON");
        let drawn: Vec<_> = schedule(&mixed, 1).requests(assay_schedule::Phase::Measure).collect();
        let mut named = std::collections::BTreeSet::new();
        for ((of_mix, of_plain), due) in prompts(&mixed, 1, 0, 1).iter().zip(prompts(&plain, 1, 0, 1)).zip(&drawn) {
            let (mut of_mix, of_plain) = (body(of_mix), body(&of_plain));
            let model = of_mix["model"].as_str().expect("a name").to_owned();
            assert_eq!(model, mixed.model_of(due.adapter));
            of_mix["model"] = json!("m");
            assert_eq!(of_mix, of_plain);
            named.insert(model);
        }
        assert_eq!(named.into_iter().collect::<Vec<_>>(), ["chat", "sql"]);
    }

    #[test]
    fn a_salt_parts_the_prompts_of_two_attempts_and_nothing_else_does() {
        let salted = work();
        let shared = ServingWork { cache: CacheMode::Shared, ..work() };
        let texts =
            |work: &ServingWork, nonce| prompts(work, nonce, 0, 1).into_iter().map(|planned| planned.body).collect::<Vec<_>>();
        assert_ne!(texts(&salted, 1), texts(&salted, 2));
        assert_eq!(texts(&shared, 1), texts(&shared, 2));
        let offsets = |nonce| prompts(&salted, nonce, 0, 1).iter().map(|planned| planned.intended_offset_ns).collect::<Vec<_>>();
        assert_eq!(offsets(1), offsets(2));
    }

    #[test]
    fn what_warms_the_cache_is_what_the_trial_sends_for_one_token() {
        let work = ServingWork { cache: CacheMode::Warm, ..work() };
        let schedule = schedule(&work, 1);
        let make = || Prompts::new(&schedule, Stripe::WHOLE, Arc::new(Tokenizer::built_in()), None, &work);
        let (warm, measured) = (all(WarmPrompts::new(make())), all(make()));
        assert_eq!(warm.len(), measured.len());
        for (warm, measured) in warm.iter().zip(&measured) {
            assert_eq!(warm.prompt_sha256, measured.prompt_sha256);
            assert_ne!(warm.request_id, measured.request_id);
            assert_eq!((warm.output_tokens_requested, warm.intended_offset_ns), (Some(1), None));
        }
    }

    #[test]
    fn a_prompt_has_exactly_its_tokens() {
        let tokenizer = Tokenizer::built_in();
        for planned in prompts(&work(), 1, 0, 1) {
            let body: serde_json::Value = serde_json::from_slice(&planned.body).expect("JSON");
            let prompt = body["messages"][0]["content"].as_str().expect("a prompt");
            assert_eq!(tokenizer.count(prompt).expect("counted"), u64::from(planned.input_tokens));
        }
    }

    #[test]
    fn a_request_has_its_images_and_only_a_salt_changes_them() {
        let images = Images { width: 20, height: 10, count: 2, format: ImageFormat::Png };
        let salted = ServingWork { images: Some(images), ..work() };
        let shared = ServingWork { cache: CacheMode::Shared, ..salted.clone() };
        let parts = |work: &ServingWork, nonce| -> Vec<Value> {
            let body = |planned: PlannedRequest| serde_json::from_slice::<Value>(&planned.body).expect("JSON");
            prompts(work, nonce, 0, 1).into_iter().map(body).map(|body| body["messages"][0]["content"].clone()).collect()
        };
        let (first, again) = (parts(&shared, 1), parts(&shared, 2));
        assert_eq!(first, again);
        assert_ne!(parts(&salted, 1), parts(&salted, 2));
        let url = |part: &Value| part["image_url"]["url"].as_str().expect("a URL").to_owned();
        let mut urls: Vec<String> = first.iter().flat_map(|parts| [url(&parts[1]), url(&parts[2])]).collect();
        // A PNG file of 20 x 10 pixels has 10 lines of 61 bytes in one stored block.
        let of_file = 8 + (12 + 13) + (12 + 2 + 5 + 610 + 4) + 12;
        assert!(urls.iter().all(|url| url.len() == "data:image/png;base64,".len() + of_file_in_base64(of_file)));
        assert_eq!(urls.len(), 10);
        urls.sort();
        urls.dedup();
        assert_eq!(urls.len(), 10, "each image is another");
        let sha = |work: &ServingWork| prompts(work, 1, 0, 1).iter().map(|planned| planned.prompt_sha256).collect::<Vec<_>>();
        assert_ne!(sha(&shared), sha(&ServingWork { images: None, ..shared.clone() }));
        let mut three: Vec<_> = (0..3).flat_map(|shard| prompts(&salted, 1, shard, 3)).collect();
        three.sort_by_key(|planned| planned.global_index);
        assert_eq!(prompts(&salted, 1, 0, 1), three);
    }

    fn of_file_in_base64(bytes: usize) -> usize {
        bytes.div_ceil(3) * 4
    }

    fn build_body(work: &ServingWork, tokens: Option<u32>) -> Value {
        serde_json::from_slice(&work.request_body(
            "m",
            RequestInput::Texts { query: None, inputs: &["a \"b\"".to_owned()] },
            tokens,
        ))
        .expect("JSON")
    }

    #[test]
    fn a_chat_asks_for_exactly_so_many_tokens() {
        assert_eq!(
            build_body(&work(), Some(7)),
            json!({
                "model": "m", "messages": [{"role": "user", "content": "a \"b\""}], "max_tokens": 7, "min_tokens": 7,
                "ignore_eos": true, "temperature": 0, "stream": true, "stream_options": {"include_usage": true},
            })
        );
        let plain = ServingWork { exact_output: false, streaming: false, ..work() };
        let expected =
            json!({"model": "m", "messages": [{"role": "user", "content": "a \"b\""}], "max_tokens": 7, "temperature": 0});
        assert_eq!(build_body(&plain, Some(7)), expected);
    }

    #[test]
    fn the_other_interfaces_have_members_of_their_own() {
        let completions = ServingWork { api: ServingApi::Completions, continuous_usage: true, ..work() };
        let body = build_body(&completions, Some(2));
        assert_eq!((&body["prompt"], &body["stream_options"]["continuous_usage_stats"]), (&json!("a \"b\""), &json!(true)));
        let embeddings = ServingWork { api: ServingApi::Embeddings, ..work() };
        assert_eq!(build_body(&embeddings, None), json!({"model": "m", "input": ["a \"b\""]}));
    }

    #[test]
    fn what_the_workload_adds_stands() {
        let added = [("temperature", "0.5"), ("user", "x"), ("logprobs", "true"), ("odd", "[1]")];
        let added = added.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let body = build_body(&ServingWork { body: added, ..work() }, Some(1));
        let found = [&body["temperature"], &body["user"], &body["logprobs"], &body["odd"]];
        assert_eq!(found, [&json!(0.5), &json!("x"), &json!(true), &json!("[1]")]);
    }
}
