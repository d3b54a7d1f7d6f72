//! Whole conversations, divided into turns.

use assay_manifest::MAX_SESSION_TURNS;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::LeftOut;
use crate::row::message_texts;

/// The role of the messages that an endpoint writes.
pub(crate) const ASSISTANT: &str = "assistant";

/// The roles of messages that are instructions to the endpoint: `developer` is the newer name.
const INSTRUCTIONS: [&str; 2] = ["system", "developer"];

/// One turn of a conversation. The prompt of its request is the messages and responses of all earlier turns, and then its own messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The messages that this turn adds. The first turn has the system message too, if there is one.
    pub messages: Vec<Value>,
    /// The recorded response, as a whole message of the assistant; absent if the file has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response: Option<Value>,
}

impl Turn {
    /// Returns the texts of the messages that this turn adds, in order.
    pub fn texts(&self) -> Vec<&str> {
        self.messages.iter().flat_map(message_texts).collect()
    }

    /// Returns the texts of the recorded response, in order; none without one.
    pub fn response_texts(&self) -> Vec<&str> {
        self.response.iter().flat_map(message_texts).collect()
    }

    /// Returns true if the messages are the beginning of a conversation: after instructions comes a person's text.
    fn begins_conversation(&self) -> bool {
        let mut prompt = self.messages.iter().skip_while(|message| is_instruction(message)).peekable();
        prompt.peek().is_some_and(|message| message.get("role").and_then(Value::as_str) == Some("user"))
            && prompt.flat_map(message_texts).any(|text| !text.trim().is_empty())
    }
}

/// A conversation of a dataset: at least one turn, and at most [`MAX_SESSION_TURNS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    turns: Vec<Turn>,
    /// The recorded number of tokens of the last response, if the file has it as a number.
    last_output_tokens: Option<u32>,
}

impl Conversation {
    /// Divides the messages of a row into turns. One that does not begin with a text for the endpoint is no conversation, and one of more
    /// turns than a session has is left out.
    pub(crate) fn divide(messages: Vec<Value>) -> Result<Self, LeftOut> {
        let turns = divide(messages);
        if !turns.first().is_some_and(Turn::begins_conversation) {
            return Err(LeftOut::NO_PROMPT);
        }
        if turns.len() > MAX_SESSION_TURNS as usize {
            return Err(LeftOut::TOO_MANY_TURNS);
        }
        Ok(Self { turns, last_output_tokens: None })
    }

    /// Adds what a row records of the last response apart from the messages: its text, which stands for a last message of the assistant, as in
    /// rows that are single requests, and its number of tokens.
    pub(crate) fn with_last_response(mut self, text: Option<String>, tokens: Option<u32>) -> Self {
        if let (Some(last), Some(text)) = (self.turns.last_mut(), text) {
            last.response = Some(json!({"role": ASSISTANT, "content": text}));
        }
        self.last_output_tokens = tokens;
        self
    }

    /// Returns the turns, in order.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Returns the turns, in order, without copying them.
    pub fn into_turns(self) -> Vec<Turn> {
        self.turns
    }

    /// Returns the recorded number of tokens of the response of a turn, if the file has it as a number.
    pub(crate) fn output_tokens(&self, turn: usize) -> Option<u32> {
        self.last_output_tokens.filter(|_| turn + 1 == self.turns.len())
    }
}

/// Divides messages into turns: those that are not the assistant's, and the assistant's message after them.
///
/// If several messages of the assistant follow one another, the first is the response. The others stand before the messages of the next
/// turn, because joined they would be a message that the file does not have; after the last turn, no request has them.
fn divide(messages: Vec<Value>) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut added: Vec<Value> = Vec::new();
    // The assistant's messages are always the first ones of `added`, so its last one shows whether anything awaits a response.
    let awaits_response = |added: &[Value]| added.last().is_some_and(|message| !is_assistant(message));
    for message in messages {
        if is_assistant(&message) && awaits_response(&added) {
            turns.push(Turn { messages: std::mem::take(&mut added), response: Some(message) });
        } else {
            added.push(message);
        }
    }
    if awaits_response(&added) {
        turns.push(Turn { messages: added, response: None });
    }
    turns
}

fn is_assistant(message: &Value) -> bool {
    message["role"] == ASSISTANT
}

fn is_instruction(message: &Value) -> bool {
    message["role"].as_str().is_some_and(|role| INSTRUCTIONS.contains(&role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns messages of the roles of a text's letters: `s`ystem, `u`ser, `t`ool and `a`ssistant.
    fn messages(roles: &str) -> Vec<Value> {
        let role = |letter| match letter {
            's' => "system",
            'u' => "user",
            't' => "tool",
            _ => ASSISTANT,
        };
        (0..)
            .zip(roles.chars())
            .map(|(place, letter): (u32, _)| json!({"role": role(letter), "content": place.to_string()}))
            .collect()
    }

    /// Returns the roles of the turns: `su>a u>` are two, the second without a response.
    fn turns(roles: &str) -> Option<String> {
        let letter = |message: &Value| message["role"].as_str().expect("a role")[..1].to_owned();
        let turn = |turn: &Turn| {
            let added: String = turn.messages.iter().map(letter).collect();
            format!("{added}>{}", turn.response.as_ref().map(letter).unwrap_or_default())
        };
        let divided = Conversation::divide(messages(roles)).ok()?;
        Some(divided.turns().iter().map(turn).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_turn_is_what_the_assistant_responds_to_and_its_response() {
        let divided = |roles| turns(roles).expect("a conversation");
        assert_eq!(divided("sua"), "su>a");
        assert_eq!(divided("uauau"), "u>a u>a u>");
        assert_eq!(divided("suatta"), "su>a tt>a");
        assert_eq!(divided("uuasu"), "uu>a su>");
        assert_eq!(divided("u"), "u>");
    }

    #[test]
    fn of_several_messages_of_the_assistant_the_first_is_the_response() {
        assert_eq!(turns("uaaua").as_deref(), Some("u>a au>a"));
        assert_eq!(turns("uaa").as_deref(), Some("u>a"), "no request follows the second one");
    }

    #[test]
    fn a_conversation_that_does_not_begin_with_a_text_for_the_endpoint_is_none() {
        for roles in ["", "s", "a", "aua", "saua", "ss"] {
            assert_eq!(turns(roles), None, "{roles}");
        }
        let blank = |content: Value| {
            let first = json!({"role": "user", "content": content});
            let rest = messages("aua");
            Conversation::divide([vec![first], rest].concat()) == Err(LeftOut::NO_PROMPT)
        };
        assert!(blank(json!(" \n")) && blank(Value::Null) && blank(json!([{"type": "image_url"}])));
        assert!(!blank(json!([{"type": "text", "text": "a"}])));
    }

    #[test]
    fn a_conversation_of_more_turns_than_a_session_has_is_left_out() {
        let most = "ua".repeat(1_000);
        assert_eq!(Conversation::divide(messages(&most)).map(|read| read.turns().len()), Ok(1_000));
        assert_eq!(Conversation::divide(messages(&format!("{most}u"))), Err(LeftOut::TOO_MANY_TURNS));
    }

    #[test]
    fn a_response_beside_the_messages_is_that_of_the_last_turn() {
        let recorded = |roles| {
            let conversation = Conversation::divide(messages(roles)).expect("a conversation");
            conversation.with_last_response(Some("x y".to_owned()), Some(9))
        };
        for roles in ["uau", "uaua"] {
            let conversation = recorded(roles);
            assert_eq!(conversation.turns().iter().map(Turn::response_texts).collect::<Vec<_>>(), [["1"], ["x y"]]);
            assert_eq!([0, 1].map(|turn| conversation.output_tokens(turn)), [None, Some(9)]);
        }
    }

    proptest! {
        #[test]
        fn turns_have_every_message_once_and_in_order(roles in "u[suta]{0,20}") {
            let conversation = Conversation::divide(messages(&roles)).expect("a conversation");
            let all: Vec<Value> =
                conversation.into_turns().into_iter().flat_map(|turn| turn.messages.into_iter().chain(turn.response)).collect();
            // Only messages of the assistant after the last response are in no turn.
            let without_end = roles.trim_end_matches('a').len();
            prop_assert!(all.len() >= without_end && all.len() <= without_end + 1);
            prop_assert_eq!(&all[..], &messages(&roles)[..all.len()]);
        }
    }
}
