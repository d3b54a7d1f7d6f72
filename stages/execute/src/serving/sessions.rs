//! The turns of sessions: what was said before, and what comes next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use assay_api::{RequestInput, add_images};
use assay_dataset::{RowContent, RowReader, Turn, message_texts, plain_messages};
use assay_load::{Cause, NextTurn, PlannedRequest, PlannedTurn, ResponseText, Successor};
use assay_manifest::{CaptureMode, History, ReasoningHistory, ServingWork, Sessions};
use assay_schedule::{Follower, Requests as Scheduled, ScheduledRequest, SessionCursor};
use assay_tokens::{Prompt, Tokenizer};
use serde_json::{Value, json};

use super::images::SentImages;
use super::requests::Prompts;
use super::row_requests::{NO_DATASET, RowRequests, applied, digest_prompts};

/// The document of a request whose seed the recorded response is drawn from.
const RESPONSE: u32 = 1;

/// The most bytes of all conversations of a shard that are under way, by the bodies of their last requests: as many as its responses may
/// hold. An endpoint may say more than was requested, and live history repeats all of it.
const MAX_HELD_BYTES: usize = 1 << 30;

/// The sessions that have begun or are prepared, by their number. The thread that prepares first turns puts them in, and that of later
/// turns takes them.
#[derive(Clone, Default)]
pub(crate) struct Conversations(Arc<Mutex<Held>>);

/// The conversations under way, and the sum of their bytes.
#[derive(Default)]
struct Held {
    conversations: BTreeMap<u64, Conversation>,
    bytes: usize,
    /// The sessions that users play after those that have begun, by their number: one of each user at most.
    successors: BTreeMap<u64, SessionCursor>,
}

/// A session, and all that was said in it.
pub(crate) struct Conversation {
    cursor: SessionCursor,
    messages: Vec<Value>,
    tokens: u32,
    /// Tokens that the first message has beside those of the dataset.
    marker_tokens: u32,
    /// The digests of the images of its messages, in their order.
    image_digests: Vec<String>,
    /// The recorded response to the last turn.
    recorded: Option<Value>,
    /// The id of its first request, which no other session has.
    id: u128,
    /// The bytes of the last request.
    bytes: usize,
    /// The last turn, whose response is not among the messages yet.
    last: ScheduledRequest,
    /// The turns that wait for it.
    followers: Vec<Follower>,
    /// The session that its user plays next.
    successor: Option<Successor>,
}

impl Conversations {
    /// Keeps the session that a user plays next.
    fn put_successor(&self, cursor: SessionCursor) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).successors.insert(cursor.session(), cursor);
    }

    fn take_successor(&self, session: u64) -> Option<SessionCursor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).successors.remove(&session)
    }

    fn put(&self, session: u64, conversation: Conversation) -> Result<(), Cause> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.bytes = held.bytes.saturating_add(conversation.bytes);
        if held.bytes > MAX_HELD_BYTES {
            let limit = MAX_HELD_BYTES >> 30;
            return Err(format!(
                "the conversations under way have more than {limit} GiB: fewer sessions at a time or fewer turns have less"
            )
            .into());
        }
        held.conversations.insert(session, conversation);
        Ok(())
    }

    fn take(&self, session: u64) -> Option<Conversation> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = held.conversations.remove(&session)?;
        held.bytes = held.bytes.saturating_sub(conversation.bytes);
        Some(conversation)
    }
}

/// Reads the turn of a row, with a marker in front of its first message if there is one.
pub(crate) fn read_turn(rows: Option<&RowReader>, row: u64, marker: Option<&Prompt>) -> Result<Turn, Cause> {
    let content = rows.ok_or(NO_DATASET)?.read(row)?;
    match marker.iter().fold(content, |content, marker| content.with_marker(&marker.text)) {
        RowContent::Turn(turn) => Ok(turn),
        other => Err(format!("row {row} of the dataset is {}, and not a turn of a conversation", other.kind()).into()),
    }
}

/// Returns true if a request is a turn of the session of a trace, whose row has all that it sends.
pub(crate) fn is_of_trace(request: &ScheduledRequest) -> bool {
    request.turn.is_some_and(|place| place.planned_ns.is_some())
}

/// A message of a chat.
fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

impl Conversation {
    /// Begins a session, for whose first turn `followers` wait. Nothing is said in one of a trace: its rows have whole prompts.
    pub(crate) fn begin(cursor: SessionCursor, first: ScheduledRequest, followers: Vec<Follower>) -> Self {
        Self {
            cursor,
            messages: Vec::new(),
            tokens: 0,
            marker_tokens: 0,
            image_digests: Vec::new(),
            recorded: None,
            id: first.request_id,
            bytes: 0,
            last: first,
            followers,
            successor: None,
        }
    }

    /// Names the session that its user plays next, and keeps that until its first turn is requested.
    pub(crate) fn with_successor(self, scheduled: &mut Scheduled, conversations: &Conversations) -> Self {
        let Some(cursor) = scheduled.successor(&self.cursor) else { return self };
        conversations.put_successor(cursor);
        let planned_ns = scheduled.planned_ns(&cursor);
        Self { successor: planned_ns.map(|planned_ns| Successor { session: cursor.session(), planned_ns }), ..self }
    }

    /// Begins it with a prompt.
    pub(crate) fn with_prompt(self, prompt: &Prompt) -> Self {
        Self { messages: vec![message("user", &prompt.text)], tokens: prompt.tokens, ..self }
    }

    /// Begins it with the first turn of a conversation of the dataset, in front of which a marker of `marker_tokens` stands.
    pub(crate) fn with_turn(self, turn: Turn, marker_tokens: u32) -> Self {
        let tokens = self.last.input_tokens.saturating_add(marker_tokens);
        Self { messages: turn.messages, tokens, marker_tokens, recorded: turn.response, ..self }
    }

    /// Adds the images of a turn, whose messages are those from `from` on. A turn without a message of a person has none.
    pub(crate) fn illustrate(&mut self, from: usize, images: Option<SentImages>) {
        let added = self.messages.get_mut(from..).unwrap_or_default();
        if let Some(images) = images.filter(|images| add_images(added, &images.urls)) {
            self.image_digests.extend(images.digests);
        }
    }

    /// Keeps a session of a trace until it ends, and returns the request of the last turn with its place in the session.
    pub(crate) fn keep_of_trace(self, conversations: &Conversations, request: PlannedRequest) -> Result<PlannedRequest, Cause> {
        let request = PlannedRequest { turn: self.place(), next: self.next(), ..request };
        conversations.put(self.cursor.session(), self)?;
        Ok(request)
    }

    /// Keeps a session whose first turn is prepared, until its next turn.
    ///
    /// Fails if all conversations under way hold too many bytes.
    pub(crate) fn keep(self, conversations: &Conversations, last_request: &PlannedRequest) -> Result<(), Cause> {
        let session = self.cursor.session();
        if self.cursor.next_turn() < self.cursor.turns() {
            conversations.put(session, Self { bytes: last_request.body.len(), ..self })
        } else {
            Ok(())
        }
    }

    /// Returns the request of the last turn, which sends everything: messages, or the text that the client's chat template makes of them.
    pub(crate) fn request(&self, work: &ServingWork, tokenizer: &Tokenizer) -> Result<PlannedRequest, Cause> {
        let scheduled = &self.last;
        let applied = applied(work, tokenizer, || plain_messages(&self.messages, 0))?;
        let (input, texts) = match &applied {
            Some(text) => (RequestInput::Texts { query: None, inputs: std::slice::from_ref(text) }, vec![text.as_str()]),
            None => (RequestInput::Messages(&self.messages), self.messages.iter().flat_map(message_texts).collect()),
        };
        let prompt_sha256 = (work.capture != CaptureMode::None)
            .then(|| digest_prompts(texts.into_iter().chain(self.image_digests.iter().map(String::as_str))));
        Ok(PlannedRequest {
            global_index: scheduled.global_index,
            intended_offset_ns: scheduled.offset_ns,
            body: work.request_body(work.model_of(scheduled.adapter), input, scheduled.output_tokens),
            input_tokens_requested: Some(scheduled.input_tokens),
            input_tokens: self.tokens,
            output_tokens_requested: scheduled.output_tokens,
            output_limit: work.output_limit(None, scheduled.output_tokens),
            request_id: scheduled.request_id,
            prompt_sha256,
            turn: self.place(),
            next: self.next(),
            successor: self.successor,
            after_ns: 0,
            beside: Vec::new(),
            cancel_after_ns: scheduled.cancel_after_ns,
        })
    }

    /// Returns the turns that wait for the last turn.
    fn next(&self) -> Vec<NextTurn> {
        let next = |follower: &Follower| {
            let Follower { turn, pause_ns, waits, planned_ns } = *follower;
            NextTurn { turn, pause_ns, waits, planned_ns }
        };
        self.followers.iter().map(next).collect()
    }

    /// Returns the place of the last turn in the session.
    fn place(&self) -> Option<PlannedTurn> {
        self.last.turn.map(|place| PlannedTurn {
            session: place.session,
            session_id: self.id,
            turn: place.turn,
            turns: place.turns,
            stream: place.stream,
            planned_ns: place.planned_ns,
        })
    }
}

/// A generator of the later turns of sessions, and of the first turns of those that follow others.
pub(crate) struct LaterTurns<'a> {
    conversations: Conversations,
    prompts: Prompts<'a>,
    scheduled: Scheduled,
    of_rows: RowRequests<'a>,
    work: &'a ServingWork,
    sessions: &'a Sessions,
}

impl<'a> LaterTurns<'a> {
    /// Creates the generator; `prompts` is a copy of the generator of the shard's first turns.
    pub(crate) fn new(prompts: Prompts<'a>, work: &'a ServingWork, sessions: &'a Sessions) -> Self {
        let (conversations, scheduled, of_rows) = (prompts.conversations(), prompts.scheduled(), prompts.of_rows());
        Self { conversations, prompts, scheduled, of_rows, work, sessions }
    }

    /// Draws the next turn of a session.
    fn draw(&mut self, conversation: &mut Conversation) -> Option<ScheduledRequest> {
        let turn = conversation.cursor.next_turn();
        conversation.last = self.scheduled.next_turn(&mut conversation.cursor)?;
        conversation.followers = self.scheduled.followers(&conversation.cursor, turn);
        Some(conversation.last)
    }

    /// Adds the response of the last turn to what was said.
    fn add_response(&self, conversation: &mut Conversation, previous: Option<&ResponseText>) -> Result<(), Cause> {
        let response = match (self.sessions.history, previous) {
            (History::Live, Some(previous)) => {
                let mut response = message("assistant", &previous.content);
                let said = self.of_rows.tokenizer().response_in_template(&previous.content);
                conversation.tokens = conversation.tokens.saturating_add(self.count(said)?);
                if self.sessions.reasoning == ReasoningHistory::Keep && !previous.reasoning.is_empty() {
                    response["reasoning_content"] = json!(previous.reasoning);
                    conversation.tokens = conversation.tokens.saturating_add(self.count(&previous.reasoning)?);
                }
                response
            }
            (History::Live, None) => return Err("the response to the turn before is not at hand".into()),
            (History::Recorded, _) if conversation.last.row.is_some() => {
                // The count of the next turn has its tokens.
                conversation.messages.extend(conversation.recorded.take());
                return Ok(());
            }
            (History::Recorded, _) => {
                let last = &conversation.last;
                let drawn = self.of_rows.tokenizer().unframed(last.document_seed(RESPONSE), last.output_tokens.unwrap_or(0))?;
                conversation.tokens = conversation.tokens.saturating_add(drawn.tokens);
                message("assistant", &drawn.text)
            }
        };
        conversation.messages.push(response);
        Ok(())
    }

    /// Adds the words of a turn: those of its row, or drawn ones.
    fn add_turn(&self, conversation: &mut Conversation, turn: &ScheduledRequest) -> Result<(), Cause> {
        let own = turn.turn.map_or(0, |place| place.own_tokens);
        let Some(row) = turn.row else {
            let prompt = self.of_rows.tokenizer().later_message(turn.prompt_seed, own)?;
            conversation.messages.push(message("user", &prompt.text));
            conversation.tokens = conversation.tokens.saturating_add(prompt.tokens);
            return Ok(());
        };
        let turn_of_row = read_turn(self.of_rows.rows(), row, None)?;
        conversation.messages.extend(turn_of_row.messages);
        conversation.recorded = turn_of_row.response;
        conversation.tokens = match self.sessions.history {
            History::Recorded => turn.input_tokens.saturating_add(conversation.marker_tokens),
            History::Live => conversation.tokens.saturating_add(own),
        };
        Ok(())
    }

    fn count(&self, text: &str) -> Result<u32, Cause> {
        Ok(u32::try_from(self.of_rows.tokenizer().count(text)?).unwrap_or(u32::MAX))
    }
}

impl assay_load::Turns for LaterTurns<'_> {
    fn next(&mut self, session: u64, turn: u32, previous: Option<&ResponseText>) -> Result<PlannedRequest, Cause> {
        let lost = || format!("turn {turn} of session {session} is not the next one");
        if turn == 0 {
            let cursor = self.conversations.take_successor(session).ok_or_else(lost)?;
            return self.prompts.begin_session(cursor)?.ok_or_else(|| lost().into());
        }
        let mut conversation = self.conversations.take(session).ok_or_else(lost)?;
        if is_of_trace(&conversation.last) {
            conversation.cursor = conversation.cursor.at(turn);
            let next = self.draw(&mut conversation).ok_or_else(lost)?;
            let request = self.of_rows.of_row(&next, next.row.ok_or_else(lost)?, next.output_tokens)?;
            return conversation.keep_of_trace(&self.conversations, request);
        }
        if conversation.cursor.next_turn() != turn {
            return Err(lost().into());
        }
        self.add_response(&mut conversation, previous)?;
        let next = self.draw(&mut conversation).ok_or_else(lost)?;
        let said = conversation.messages.len();
        self.add_turn(&mut conversation, &next)?;
        conversation.illustrate(said, self.of_rows.images(&next));
        let request = conversation.request(self.work, self.of_rows.tokenizer())?;
        conversation.keep(&self.conversations, &request)?;
        Ok(request)
    }

    fn end(&mut self, session: u64) {
        drop(self.conversations.take(session));
        self.conversations.take_successor(session);
    }
}

#[cfg(test)]
mod tests {
    use assay_load::{Requests as _, Turns as _};
    use assay_manifest::{Count, Digest, ImageFormat, Images, LengthLaw, PauseLaw, PromptSource, SyntheticText};
    use assay_record::Phase;
    use assay_schedule::{Nonce, OfferedLoad, PointKey, Seed, Stripe, TrialKey, TrialSchedule};

    use super::*;
    use crate::serving::requests::Prompts;

    fn work(history: History, reasoning: ReasoningHistory) -> ServingWork {
        let json = json!({
            "api": "chat", "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "uniform", "min": 4, "max": 9}},
            "output": {"law": "fixed", "tokens": 3}, "exact_output": true, "batch": 1, "body": {}, "duration_ns": "1000000000",
            "warmup_ns": "0", "timeout_ns": "1000000000", "time_limit_ns": "2000000000", "cache": "cold_salt",
            "streaming": true, "continuous_usage": false, "capture": "digest", "slos": [],
            "tokenizer": {"name": "common-words", "digest": Digest::compute(b"")},
        });
        let work: ServingWork = serde_json::from_value(json).expect("a workload");
        let think_time = PauseLaw::Uniform { min_ns: Count(5), max_ns: Count(9) };
        let sessions = Sessions {
            turns: Some(LengthLaw::Fixed { tokens: 3 }),
            think_time,
            history,
            reasoning,
            count: None,
            play: assay_manifest::SessionPlay::default(),
        };
        ServingWork { sessions: Some(sessions), ..work }
    }

    fn schedule(work: &ServingWork) -> TrialSchedule {
        let (seed, workload, point) = (Seed::new([1; 32]), Digest::compute(b"w"), "concurrency-2".parse().expect("a point"));
        let key =
            TrialKey { point: PointKey { seed: &seed, workload: &workload, point: &point }, trial: 0, nonce: Nonce::new(7) };
        TrialSchedule::new(work, OfferedLoad::Concurrency { users: 2 }, &key, None).expect("a schedule")
    }

    /// The generators of the first and of the later turns of the whole trial.
    fn turns(work: &ServingWork) -> (Prompts<'_>, LaterTurns<'_>) {
        turns_by(work, Arc::new(Tokenizer::built_in()))
    }

    fn turns_by(work: &ServingWork, tokenizer: Arc<Tokenizer>) -> (Prompts<'_>, LaterTurns<'_>) {
        let prompts = Prompts::new(&schedule(work), Stripe::WHOLE, tokenizer, None, work);
        let sessions = work.sessions.as_ref().expect("sessions");
        let later = LaterTurns::new(prompts.clone(), work, sessions);
        (prompts, later)
    }

    /// Plays the first two sessions, in which every response is `previous`, and returns their requests.
    fn play(work: &ServingWork, previous: &ResponseText) -> Vec<PlannedRequest> {
        let (mut prompts, mut later) = turns(work);
        let mut requests = Vec::new();
        for _ in 0..2 {
            let first = prompts.next(Phase::Measured).expect("prepared").expect("a session");
            let place = first.turn.expect("a turn");
            requests.push(first);
            for turn in 1..place.turns {
                requests.push(later.next(place.session, turn, Some(previous)).expect("a turn"));
            }
            assert!(later.next(place.session, place.turns, Some(previous)).is_err(), "there is no further turn");
            later.end(place.session);
        }
        requests
    }

    fn messages(request: &PlannedRequest) -> Vec<Value> {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        body["messages"].as_array().expect("messages").clone()
    }

    fn said(content: &str, reasoning: &str) -> ResponseText {
        ResponseText { content: content.to_owned(), reasoning: reasoning.to_owned() }
    }

    #[test]
    fn a_turn_sends_all_that_was_said_before_and_its_own_words() {
        let work = work(History::Recorded, ReasoningHistory::Drop);
        let tokenizer = Tokenizer::built_in();
        let requests = play(&work, &said("ignored", ""));
        assert_eq!(requests.len(), 6);
        for session in requests.chunks(3) {
            for (turn, request) in session.iter().enumerate() {
                let messages = messages(request);
                let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().expect("a role")).collect();
                assert_eq!(roles, ["user", "assistant"].repeat(turn).into_iter().chain(["user"]).collect::<Vec<_>>());
                assert!(turn == 0 || messages.starts_with(&self::messages(&session[turn - 1])), "what was said stands");
                let contents = messages.iter().map(|message| message["content"].as_str().expect("a content"));
                let tokens: u64 = contents.map(|content| tokenizer.count(content).expect("counted")).sum();
                assert_eq!(
                    (u64::from(request.input_tokens), request.input_tokens_requested),
                    (tokens, Some(request.input_tokens))
                );
                let place = request.turn.expect("a turn");
                assert_eq!((place.turn as usize, place.turns), (turn, 3));
                let next: Vec<_> = request.next.iter().map(|next| (next.turn, next.waits)).collect();
                assert_eq!(next, (place.turn + 1..3).take(1).map(|turn| (turn, 1)).collect::<Vec<_>>());
                assert!(request.next.iter().all(|next| (5..=9).contains(&next.pause_ns)), "{next:?}");
            }
        }
        assert_ne!(messages(&requests[0]), messages(&requests[3]), "sessions differ");
    }

    #[test]
    fn all_turns_of_a_session_have_one_adapter() {
        let adapters = (0..20).map(|number| assay_manifest::Adapter { name: format!("a{number}"), weight: 1.0 });
        let work = ServingWork { adapters: adapters.collect(), ..work(History::Recorded, ReasoningHistory::Drop) };
        let requests = play(&work, &said("some words", ""));
        let model = |request: &PlannedRequest| {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            body["model"].as_str().expect("a name").to_owned()
        };
        let models: Vec<String> = requests.iter().map(model).collect();
        for session in models.chunks(3) {
            assert_eq!(session, [&session[0]; 3].map(String::clone));
        }
        assert_ne!(models[0], models[3], "the seed gives these two sessions different ones");
    }

    #[test]
    fn recorded_history_does_not_depend_on_responses_and_live_history_repeats_them() {
        let bodies = |work: &ServingWork, previous: &ResponseText| {
            play(work, previous).into_iter().map(|request| request.body).collect::<Vec<_>>()
        };
        let (one, other) = (said("some words", "a thought"), said("others", ""));
        let recorded = work(History::Recorded, ReasoningHistory::Drop);
        assert_eq!(bodies(&recorded, &one), bodies(&recorded, &other));
        let live = work(History::Live, ReasoningHistory::Drop);
        assert_ne!(bodies(&live, &one), bodies(&live, &other));
        let last = |reasoning| messages(&play(&work(History::Live, reasoning), &one)[2]);
        let dropped = last(ReasoningHistory::Drop);
        assert_eq!([&dropped[1], &dropped[3]], [&json!({"role": "assistant", "content": "some words"}); 2]);
        let kept = last(ReasoningHistory::Keep);
        assert_eq!(kept[1], json!({"role": "assistant", "content": "some words", "reasoning_content": "a thought"}));
    }

    #[test]
    fn each_turn_adds_its_images_and_repeats_the_earlier_ones() {
        let images = Images { width: 8, height: 8, count: 2, format: ImageFormat::Png };
        let work = ServingWork { images: Some(images), ..work(History::Recorded, ReasoningHistory::Drop) };
        let requests = play(&work, &said("ignored", ""));
        let mut urls = Vec::new();
        for session in requests.chunks(3) {
            let last = messages(&session[2]);
            for (turn, request) in session.iter().enumerate() {
                let sent = messages(request);
                assert_eq!(sent[..], last[..=2 * turn], "what was said stands, images included");
                let parts = sent[2 * turn]["content"].as_array().expect("parts");
                assert_eq!((parts.len(), &parts[0]["type"]), (3, &json!("text")));
                urls.extend(parts[1..].iter().map(|part| part["image_url"]["url"].as_str().expect("a URL").to_owned()));
            }
            assert!(last[1]["content"].is_string(), "a response has no image");
        }
        assert_eq!((urls.len(), urls.iter().collect::<std::collections::BTreeSet<_>>().len()), (12, 12), "each is another");
        let digests: Vec<_> = requests.iter().map(|request| request.prompt_sha256).collect();
        let plain = ServingWork { images: None, ..work };
        let without: Vec<_> = play(&plain, &said("ignored", "")).iter().map(|request| request.prompt_sha256).collect();
        assert!(digests.iter().zip(&without).all(|(one, other)| one.is_some() && one != other), "a digest has the images");
    }

    #[test]
    fn drawn_turns_and_responses_may_be_prose() {
        let lengths = LengthLaw::Fixed { tokens: 60 };
        let work = ServingWork {
            text: Some(SyntheticText::Natural),
            prompts: PromptSource::Synthetic { input: lengths.clone(), query: None, prefix: None },
            output: Some(lengths),
            ..work(History::Recorded, ReasoningHistory::Drop)
        };
        let tokenizer = Arc::new(Tokenizer::built_in().with_text(SyntheticText::Natural));
        let (mut prompts, mut later) = turns_by(&work, tokenizer);
        let first = prompts.next(Phase::Measured).expect("prepared").expect("a session");
        let second = later.next(first.turn.expect("a turn").session, 1, None).expect("a turn");
        let common: std::collections::BTreeSet<&str> = assay_tokens::COMMON_WORDS.lines().collect();
        let sent = messages(&second);
        assert_eq!(sent.len(), 3);
        let contents: Vec<&str> = sent.iter().map(|message| message["content"].as_str().expect("a text")).collect();
        let words: usize = contents.iter().map(|content| content.split(' ').count()).sum();
        assert_eq!((second.input_tokens as usize, second.input_tokens_requested), (words, Some(second.input_tokens)));
        // Prose has words that are not in the list, such as those of one letter or two.
        assert!(contents.iter().all(|content| content.split(' ').any(|word| !common.contains(word))), "{contents:?}");
    }

    #[test]
    fn what_was_said_is_dropped_with_its_session() {
        let work = work(History::Recorded, ReasoningHistory::Drop);
        let (mut prompts, mut later) = turns(&work);
        let first = prompts.next(Phase::Measured).expect("prepared").expect("a session");
        let session = first.turn.expect("a turn").session;
        let held = |prompts: &Prompts<'_>| {
            let conversations = prompts.conversations();
            let held = conversations.0.lock().expect("no panic");
            (held.conversations.len(), held.bytes)
        };
        assert_eq!(held(&prompts), (1, first.body.len()));
        later.end(session);
        assert_eq!(held(&prompts), (0, 0));
        assert!(later.next(session, 1, None).is_err(), "it has ended");
    }

    #[test]
    fn conversations_that_hold_too_much_are_refused() {
        let work = work(History::Live, ReasoningHistory::Drop);
        let (mut prompts, mut later) = turns(&work);
        let first = prompts.next(Phase::Measured).expect("prepared").expect("a session");
        let session = first.turn.expect("a turn").session;
        prompts.conversations().0.lock().expect("no panic").bytes = MAX_HELD_BYTES;
        let refused = later.next(session, 1, Some(&said("short", ""))).expect_err("too much");
        assert!(refused.to_string().contains("more than 1 GiB"), "{refused}");
    }
}
