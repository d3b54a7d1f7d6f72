//! One row of a dataset: a request, or a turn of a conversation.

use crate::body;
use assay_api::{InputKind, ServingApi};
use assay_manifest::{MessageRole, SubagentTimes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{BlockMessage, Conversation, Turn};

/// The member of a chat message that holds its text.
const CONTENT: &str = "content";

/// The member that names its author.
const ROLE: &str = "role";

/// A row of the file that is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason.
    pub reason: LeftOutReason,
    /// Its time; absent if the format has none.
    pub time: Option<RowTime>,
}

/// The reason why a row of the file is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// It has no prompt.
    NoPrompt,
    /// It records no token of a response: the recorded request failed.
    NoResponse,
    /// It is a conversation of more than [`assay_manifest::MAX_SESSION_TURNS`] turns.
    TooManyTurns,
}

impl LeftOut {
    /// A row without a prompt and without a time.
    pub const NO_PROMPT: Self = Self { reason: LeftOutReason::NoPrompt, time: None };

    /// A conversation of more turns than a session has.
    pub(crate) const TOO_MANY_TURNS: Self = Self { reason: LeftOutReason::TooManyTurns, time: None };
}

/// The time of a row of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTime {
    /// The time, in nanoseconds since any origin that all rows share.
    pub at_ns: i64,
    /// The session that the row belongs to, if the trace names it. Only equality counts.
    pub session: Option<u64>,
}

/// A row of the file that has a prompt, as an importer reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum FileRow {
    /// One request.
    Request(Row),
    /// A whole conversation, of which each turn becomes a row of its own. Its turns stay together because the rules apply to all of it.
    Conversation(Conversation),
    /// A whole session of a trace, of which each turn becomes a row of its own.
    Session(TraceSession),
}

/// A session of a trace whose format has one in each row. Its times count from its first request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSession {
    /// The session, by a number of which only equality counts.
    pub session: u64,
    /// Its streams: its own first, and then those of its subagents, each after the stream that spawned it.
    pub streams: Vec<TraceStream>,
    /// Its requests that are no turns, with the reasons.
    pub left_out: Vec<LeftOutReason>,
    /// Subagents that are left out because the session has them twice.
    pub duplicates: u64,
    /// Their requests.
    pub duplicate_requests: u64,
    /// The origin of the times of the requests of subagents, if the file has shown it so far.
    pub times: Option<SubagentTimes>,
    /// The names of members of the session, its requests and its subagents that the format does not have, without those that look like texts;
    /// absent if it has all of them.
    pub unread: Option<Vec<String>>,
}

/// A stream of a session: turns of which each follows the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceStream {
    /// The stream that spawned it, by its place among those of the session; absent for the session's own.
    pub parent: Option<usize>,
    /// True if no turn waits for its end.
    pub is_background: bool,
    /// Its turns, in the order of their times; each has a time.
    pub turns: Vec<Row>,
    /// Its requests that are no turns.
    pub left_out: u64,
}

/// The course of a session up to a turn and after it, as a trace records it beside the times of turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCourse {
    /// The time from the request to the end of its response, in nanoseconds.
    pub service_ns: Option<u64>,
    /// The pause before the turn, in nanoseconds, if the trace states it itself.
    pub pause_ns: Option<u64>,
    /// True if the response called a tool, so that the pause after it is the tool's time.
    pub calls_tool: bool,
    /// True if the turn continues an earlier turn of its session than the one before.
    pub is_branch: bool,
    /// True if the prompt does not begin with all whole blocks of the prompt before it in its stream, so that messages were dropped or replaced.
    pub is_cut: bool,
}

/// One request of a dataset, as an importer reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The content of the request.
    pub content: RowContent,
    /// The text of the recorded response, of which only the length is used.
    pub output: Option<String>,
    /// The recorded number of tokens of the response.
    pub output_tokens: Option<u32>,
    /// The time; absent if the format has none.
    pub time: Option<RowTime>,
    /// The course of its session; empty if the format records none.
    pub course: TurnCourse,
    /// The names of members that the format of a trace does not have, without those that look like texts; absent if it has all of them.
    pub unread: Option<Vec<String>>,
}

impl Row {
    /// Creates a row without a time and without a recorded response.
    pub fn new(content: RowContent) -> Self {
        Self { content, output: None, output_tokens: None, time: None, course: TurnCourse::default(), unread: None }
    }
}

/// A prompt of which only the length is recorded, and which parts it has in common with others. Its text is made when the request is: equal
/// blocks are equal texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBlocks {
    /// Tokens of the whole prompt.
    pub tokens: u32,
    /// Tokens of a block. The last one has what is left of the prompt, if that is less.
    pub size: u32,
    /// The blocks that the prompt begins with. What they leave of it is like no other prompt.
    pub ids: Vec<u64>,
    /// The scope of the ids: equal ids of different scopes are different blocks. Absent if all rows share one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<u64>,
    /// The messages that the blocks belong to, in order; empty if the prompt is one text.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub messages: Vec<BlockMessage>,
}

impl TokenBlocks {
    /// Returns the blocks with their numbers of tokens, in order, without what follows them.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u32)> {
        let mut left = self.tokens;
        self.ids.iter().map_while(move |id| {
            let tokens = left.min(self.size);
            left -= tokens;
            (tokens > 0).then_some((*id, tokens))
        })
    }

    /// Returns the tokens after the blocks.
    pub fn rest(&self) -> u32 {
        let in_blocks = u64::from(self.size).saturating_mul(self.ids.len() as u64);
        u64::from(self.tokens).saturating_sub(in_blocks) as u32
    }

    /// Cuts the end off. A block that is cut is no longer that block.
    pub(crate) fn truncate(&mut self, tokens: u32) {
        if tokens < self.tokens {
            self.tokens = tokens;
            self.ids.truncate((tokens / self.size.max(1)) as usize);
            self.cut_messages();
        }
    }
}

/// The content of a request. The imported file holds one in each line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowContent {
    /// One text: the prompt, or a document.
    Prompt(String),
    /// The messages of a chat.
    Messages(Vec<Value>),
    /// A whole body. Members that state what is measured are replaced when the request is made.
    Body(Map<String, Value>),
    /// Lengths and blocks, from which a prompt is made.
    Blocks(TokenBlocks),
    /// The messages that a turn adds to the conversation of the rows before it, and its response.
    Turn(Turn),
}

impl RowContent {
    /// Returns the name of the kind of content.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Prompt(_) => "a prompt",
            Self::Messages(_) => "messages",
            Self::Body(_) => "a body",
            Self::Blocks(_) => "a length",
            Self::Turn(_) => "a turn of a conversation",
        }
    }

    /// Returns true if requests of the API can have this content. Messages need an API of chats, because only the endpoint knows the
    /// template that turns them into a prompt.
    pub fn fits(&self, api: ServingApi) -> bool {
        let input = api.capabilities().input;
        match self {
            Self::Prompt(_) | Self::Blocks(_) => input != InputKind::QueryAndDocuments,
            Self::Messages(_) | Self::Turn(_) => api.takes_messages(),
            Self::Body(_) => input == InputKind::Prompt && api.takes_whole_bodies(),
        }
    }

    /// Returns all texts that an endpoint reads as the prompt, in order; none for blocks, whose text is not made yet. Those of a turn are what
    /// it adds to the prompt, without its response.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Prompt(text) => vec![text],
            Self::Messages(messages) => messages.iter().flat_map(message_texts).collect(),
            Self::Body(body) => body::texts(body),
            Self::Blocks(_) => Vec::new(),
            Self::Turn(turn) => turn.texts(),
        }
    }

    /// Returns its messages for a chat template, each with its author and its text. Fails for content that a template of plain messages cannot
    /// take, with the reason.
    pub fn messages(&self) -> Result<Vec<(MessageRole, &str)>, String> {
        match self {
            Self::Prompt(text) => Ok(vec![(MessageRole::User, text)]),
            Self::Messages(messages) => plain_messages(messages, 0),
            Self::Body(_) | Self::Blocks(_) | Self::Turn(_) => {
                Err(format!("is {}, which a chat template cannot be put around: only prompts and messages can", self.kind()))
            }
        }
    }

    /// Returns true if an endpoint reads no word of it.
    pub(crate) fn is_blank(&self) -> bool {
        !matches!(self, Self::Blocks(_)) && self.texts().iter().all(|text| text.trim().is_empty())
    }

    /// Returns the last text of the prompt for a change: the part of a conversation that is new.
    pub(crate) fn last_text(&mut self) -> Option<&mut String> {
        match self {
            Self::Prompt(text) => Some(text),
            Self::Messages(messages) | Self::Turn(Turn { messages, .. }) => messages.iter_mut().rev().find_map(message_text_mut),
            Self::Body(body) => body::last_text(body, message_text_mut),
            Self::Blocks(_) => None,
        }
    }

    /// Puts a text in front of the prompt, followed by a line break: of the first message, if there are messages. Blocks stay as they are.
    #[must_use]
    pub fn with_marker(mut self, marker: &str) -> Self {
        match &mut self {
            Self::Prompt(text) => text.insert_str(0, &format!("{marker}\n")),
            Self::Messages(messages) | Self::Turn(Turn { messages, .. }) => mark_first(messages, marker),
            Self::Body(body) => body::mark(body, marker, mark_first),
            Self::Blocks(_) => {}
        }
        self
    }

    /// Puts a text in front of what the user says first, followed by a line break: of the first message of the user, or of the prompt. A whole body has
    /// it in front of everything, and blocks stay as they are.
    #[must_use]
    pub fn with_user_marker(mut self, marker: &str) -> Self {
        match &mut self {
            Self::Messages(messages) | Self::Turn(Turn { messages, .. }) => mark_user(messages, marker),
            Self::Prompt(_) | Self::Body(_) | Self::Blocks(_) => return self.with_marker(marker),
        }
        self
    }
}

/// Puts a marker in front of the first message of the user; if there is none, of the first message.
fn mark_user(messages: &mut [Value], marker: &str) {
    let is_user = |message: &Value| message.get(ROLE).and_then(Value::as_str) == Some(MessageRole::User.as_str());
    let first = messages.iter().position(is_user).unwrap_or(0);
    mark_first(messages.get_mut(first..).unwrap_or_default(), marker);
}

/// Puts a marker in front of the first message; one without content gets it as its content.
fn mark_first(messages: &mut [Value], marker: &str) {
    let Some(first) = messages.first_mut().and_then(Value::as_object_mut) else { return };
    let marker = format!("{marker}\n");
    match first.get_mut(CONTENT) {
        Some(Value::String(text)) => text.insert_str(0, &marker),
        Some(Value::Array(parts)) => parts.insert(0, json!({"type": "text", "text": marker})),
        _ => {
            first.insert(CONTENT.to_owned(), Value::String(marker));
        }
    }
}

/// Returns the texts of a chat message: its content, or the text parts of it.
pub fn message_texts(message: &Value) -> Vec<&str> {
    match message.get(CONTENT) {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Returns messages as a chat template takes them: their authors and their texts. Fails if one is more than that, with the reason, which numbers
/// messages from the one after the first `before` of their conversation.
pub fn plain_messages(messages: &[Value], before: usize) -> Result<Vec<(MessageRole, &str)>, String> {
    let problem = |place: usize, message: &Value| {
        let role = message.get(ROLE).and_then(Value::as_str).unwrap_or("none");
        format!(
            "has a message that no chat template is put around, number {}, of `{}`: only those of `system`, `user` and `assistant` with a text as \
             `content` and no other member are",
            before + place + 1,
            role.escape_debug()
        )
    };
    messages.iter().enumerate().map(|(place, message)| plain_message(message).ok_or_else(|| problem(place, message))).collect()
}

fn plain_message(message: &Value) -> Option<(MessageRole, &str)> {
    let members = message.as_object()?;
    let is_plain = members.keys().all(|name| [ROLE, CONTENT].contains(&name.as_str()));
    let role = members.get(ROLE)?.as_str()?.parse().ok()?;
    Some((role, members.get(CONTENT)?.as_str()?)).filter(|_| is_plain)
}

fn message_text_mut(message: &mut Value) -> Option<&mut String> {
    match message.get_mut(CONTENT)? {
        Value::String(text) => Some(text),
        Value::Array(parts) => parts.iter_mut().rev().find_map(|part| match part.get_mut("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> RowContent {
        RowContent::Messages(vec![
            json!({"role": "system", "content": "be brief"}),
            json!({"role": "user", "content": [{"type": "text", "text": "a b"}, {"type": "image_url", "image_url": {}}]}),
            json!({"role": "assistant", "tool_calls": []}),
        ])
    }

    fn turn() -> Turn {
        let messages =
            vec![json!({"role": "system", "content": "be brief"}), json!({"role": "user", "content": "a b", "name": "n"})];
        Turn { messages, response: Some(json!({"role": "assistant", "content": "c d"})) }
    }

    #[test]
    fn the_texts_of_a_prompt_are_those_that_an_endpoint_reads() {
        assert_eq!(messages().texts(), ["be brief", "a b"]);
        assert_eq!(RowContent::Prompt("x".to_owned()).texts(), ["x"]);
        let body = |body: Value| RowContent::Body(body.as_object().cloned().expect("an object"));
        assert_eq!(body(json!({"prompt": "p", "model": "m"})).texts(), ["p"]);
        assert_eq!(body(json!({"messages": [{"content": "c"}]})).texts(), ["c"]);
        assert_eq!(body(json!({"input": 1})).texts(), [""; 0]);
    }

    #[test]
    fn a_turn_has_the_texts_that_it_adds_and_those_of_its_response() {
        let turn = turn();
        assert_eq!((turn.texts(), turn.response_texts()), (vec!["be brief", "a b"], vec!["c d"]));
        let row = RowContent::Turn(turn);
        assert_eq!((row.texts(), row.is_blank()), (vec!["be brief", "a b"], false));
        let line = serde_json::to_string(&row).expect("JSON");
        insta::assert_snapshot!(line, @r#"{"turn":{"messages":[{"content":"be brief","role":"system"},{"content":"a b","name":"n","role":"user"}],"response":{"content":"c d","role":"assistant"}}}"#);
        assert_eq!(serde_json::from_str::<RowContent>(&line).expect("a row"), row);
        let silent = RowContent::Turn(Turn { response: None, messages: Vec::new() });
        assert_eq!(serde_json::to_string(&silent).expect("JSON"), r#"{"turn":{"messages":[]}}"#);
    }

    #[test]
    fn a_marker_stands_in_front_of_everything_else() {
        assert_eq!(RowContent::Prompt("x".to_owned()).with_marker("m").texts(), ["m\nx"]);
        assert_eq!(messages().with_marker("m").texts(), ["m\nbe brief", "a b"]);
        assert_eq!(messages().with_user_marker("m").texts(), ["be brief", "m\n", "a b"]);
        assert_eq!(RowContent::Turn(turn()).with_user_marker("m").texts(), ["be brief", "m\na b"]);
        assert_eq!(RowContent::Prompt("x".to_owned()).with_user_marker("m").texts(), ["m\nx"]);
        let system = || RowContent::Messages(vec![json!({"role": "system", "content": "be brief"})]);
        assert_eq!(system().with_user_marker("m").texts(), ["m\nbe brief"], "a chat without a user");
        let marked = RowContent::Turn(turn()).with_marker("m");
        assert_eq!(marked.texts(), ["m\nbe brief", "a b"]);
        let parts = RowContent::Messages(vec![json!({"role": "user", "content": [{"type": "text", "text": "a"}]})]);
        assert_eq!(parts.with_marker("m").texts(), ["m\n", "a"]);
        let body = RowContent::Body(Map::from_iter([("prompt".to_owned(), json!("p"))]));
        assert_eq!(body.with_marker("m").texts(), ["m\np"]);
        for first in [json!({"role": "user", "content": null}), json!({"role": "assistant", "tool_calls": []})] {
            let silent = RowContent::Messages(vec![first, json!({"role": "user", "content": "a"})]);
            assert_eq!(silent.with_marker("m").texts(), ["m\n", "a"]);
        }
    }

    #[test]
    fn blocks_and_the_rest_make_up_the_whole_prompt() {
        let blocks =
            |tokens, ids: &[u64]| TokenBlocks { tokens, size: 512, ids: ids.to_vec(), scope: None, messages: Vec::new() };
        let parts = |blocks: &TokenBlocks| (blocks.blocks().collect::<Vec<_>>(), blocks.rest());
        assert_eq!(parts(&blocks(700, &[4, 7])), (vec![(4, 512), (7, 188)], 0));
        assert_eq!(parts(&blocks(700, &[4])), (vec![(4, 512)], 188));
        assert_eq!(parts(&blocks(700, &[])), (vec![], 700));
        let mut cut = blocks(1_200, &[4, 7, 9]);
        cut.truncate(600);
        assert_eq!(parts(&cut), (vec![(4, 512)], 88));
    }

    #[test]
    fn only_apis_of_chats_take_messages_and_only_generation_takes_a_body() {
        let body = RowContent::Body(Map::new());
        for api in ServingApi::ALL {
            let chats = [ServingApi::Chat, ServingApi::Responses, ServingApi::Messages].contains(api);
            let generates = api.capabilities().has_output_tokens && *api != ServingApi::Custom;
            assert_eq!((messages().fits(*api), body.fits(*api)), (chats, generates), "{api}");
            assert_eq!(RowContent::Turn(turn()).fits(*api), chats, "{api}");
        }
        assert!(!RowContent::Prompt(String::new()).fits(ServingApi::Rerank));
        assert!(RowContent::Prompt(String::new()).fits(ServingApi::Embeddings));
    }
}
