//! One request of a dataset.

use assay_api::{InputKind, ServingApi};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The member of a chat message that holds its text.
const CONTENT: &str = "content";

/// One request of a dataset, as an importer reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The content of the request.
    pub content: RowContent,
    /// The text of the recorded response, of which only the length is used.
    pub output: Option<String>,
    /// The recorded number of tokens of the response.
    pub output_tokens: Option<u32>,
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
}

impl RowContent {
    /// Returns the name of the kind of content.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Prompt(_) => "a prompt",
            Self::Messages(_) => "messages",
            Self::Body(_) => "a body",
        }
    }

    /// Returns true if requests of the API can have this content. Messages need an API of chats, because only the endpoint knows the
    /// template that turns them into a prompt.
    pub fn fits(&self, api: ServingApi) -> bool {
        let input = api.capabilities().input;
        match self {
            Self::Prompt(_) => input != InputKind::QueryAndDocuments,
            Self::Messages(_) => api.takes_messages(),
            Self::Body(_) => input == InputKind::Prompt,
        }
    }

    /// Returns all texts that an endpoint reads as the prompt, in order.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Prompt(text) => vec![text],
            Self::Messages(messages) => messages.iter().flat_map(message_texts).collect(),
            Self::Body(body) => match (body.get("messages"), body.get("prompt")) {
                (Some(Value::Array(messages)), _) => messages.iter().flat_map(message_texts).collect(),
                (_, Some(Value::String(prompt))) => vec![prompt],
                _ => Vec::new(),
            },
        }
    }

    /// Returns the last text of the prompt for a change: the part of a conversation that is new.
    pub(crate) fn last_text(&mut self) -> Option<&mut String> {
        match self {
            Self::Prompt(text) => Some(text),
            Self::Messages(messages) => messages.iter_mut().rev().find_map(message_text_mut),
            Self::Body(body) => {
                let member = if body.contains_key("messages") { "messages" } else { "prompt" };
                match body.get_mut(member)? {
                    Value::String(prompt) => Some(prompt),
                    Value::Array(messages) => messages.iter_mut().rev().find_map(message_text_mut),
                    _ => None,
                }
            }
        }
    }

    /// Puts a text in front of the prompt, followed by a line break: of the first message, if there are messages.
    #[must_use]
    pub fn with_marker(mut self, marker: &str) -> Self {
        match &mut self {
            Self::Prompt(text) => text.insert_str(0, &format!("{marker}\n")),
            Self::Messages(messages) => mark_first(messages, marker),
            Self::Body(body) => {
                if let Some(Value::Array(messages)) = body.get_mut("messages") {
                    mark_first(messages, marker);
                } else if let Some(Value::String(prompt)) = body.get_mut("prompt") {
                    prompt.insert_str(0, &format!("{marker}\n"));
                }
            }
        }
        self
    }
}

/// Puts a marker in front of the first message.
fn mark_first(messages: &mut [Value], marker: &str) {
    let Some(content) = messages.first_mut().and_then(|first| first.get_mut(CONTENT)) else { return };
    match content {
        Value::String(text) => text.insert_str(0, &format!("{marker}\n")),
        Value::Array(parts) => parts.insert(0, json!({"type": "text", "text": format!("{marker}\n")})),
        _ => {}
    }
}

/// Returns the texts of a chat message: its content, or the text parts of it.
fn message_texts(message: &Value) -> Vec<&str> {
    match message.get(CONTENT) {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => Vec::new(),
    }
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
    fn a_marker_stands_in_front_of_everything_else() {
        assert_eq!(RowContent::Prompt("x".to_owned()).with_marker("m").texts(), ["m\nx"]);
        assert_eq!(messages().with_marker("m").texts(), ["m\nbe brief", "a b"]);
        let parts = RowContent::Messages(vec![json!({"role": "user", "content": [{"type": "text", "text": "a"}]})]);
        assert_eq!(parts.with_marker("m").texts(), ["m\n", "a"]);
        let body = RowContent::Body(Map::from_iter([("prompt".to_owned(), json!("p"))]));
        assert_eq!(body.with_marker("m").texts(), ["m\np"]);
    }

    #[test]
    fn only_a_chat_takes_messages_and_only_generation_takes_a_body() {
        let body = RowContent::Body(Map::new());
        for api in ServingApi::ALL {
            let (chats, generates) = (*api == ServingApi::Chat, api.capabilities().has_output_tokens);
            assert_eq!((messages().fits(*api), body.fits(*api)), (chats, generates), "{api}");
        }
        assert!(!RowContent::Prompt(String::new()).fits(ServingApi::Rerank));
        assert!(RowContent::Prompt(String::new()).fits(ServingApi::Embeddings));
    }
}
