//! Chats: `/v1/chat/completions`.

use serde_json::{Map, Value, json};

use crate::api_format::{ApiFormat, CallRules, Capabilities, InputKind};
use crate::generation;
use crate::images::image_url;
use crate::json::{Scan, Scanner};
use crate::received::{InputCounts, InputReader, Message, ReceivedRequest, missing};
use crate::response::{ParsedResponse, TextSink};
use crate::simulated::{Content, ContentFault, SimulatedResponse, push, push_event};

pub(crate) struct Chat;

impl ApiFormat for Chat {
    const CAPABILITIES: Capabilities = Capabilities {
        path: "/v1/chat/completions",
        responses: "chat completions",
        input: InputKind::Prompt,
        names_model: true,
        streams: true,
        has_output_tokens: true,
        has_reasoning: true,
        takes_messages: true,
        added_tokens: Some("the endpoint's chat template may add tokens"),
    };

    const RULES: CallRules = CallRules { prompt_member: "messages", takes_reasoning: true, ..CallRules::OPENAI };

    fn insert_inputs(_: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        let messages: Vec<Value> = inputs.iter().map(|prompt| json!({"role": "user", "content": prompt})).collect();
        body.insert("messages".to_owned(), Value::Array(messages));
    }

    #[inline]
    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        keep: &mut TextSink<'_>,
    ) -> Scan<()> {
        generation::read_member(scanner, key, response, keep)
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        let messages = request.messages.as_deref().ok_or_else(|| missing("messages"))?;
        if messages.is_empty() {
            return Err("`messages` is empty".to_owned());
        }
        messages.iter().try_for_each(|message| read_message(message, reader))?;
        Ok(InputCounts::one_each(1))
    }

    fn object_names(is_streamed: bool) -> (&'static str, &'static str) {
        ("chatcmpl", if is_streamed { "chat.completion.chunk" } else { "chat.completion" })
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        let (tokens, thought) = (response.plan.output.tokens, response.plan.output.reasoning_tokens);
        response.open(body);
        body.extend_from_slice(br#""choices":[{"index":0,"message":{"role":"assistant""#);
        if thought > 0 {
            push(body, format_args!(r#","{}":""#, response.reasoning_field));
            content.push_words(0, 0, thought, body);
            body.push(b'"');
        }
        body.extend_from_slice(br#","content":""#);
        body.extend_from_slice(fault.garble);
        content.push_words(thought, thought, tokens.saturating_sub(thought), body);
        body.extend_from_slice(br#""}"#);
        response.close_choice(body);
        response.close(fault, body);
    }

    /// Writes the role, which servers send before any token.
    fn write_first_events(response: &SimulatedResponse, events: &mut Vec<u8>) {
        push_event(None, events, |event| {
            let delta = r#"{"role":"assistant","content":""}"#;
            response.open(event);
            push(event, format_args!(r#""choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]"#));
            response.close_event(0, event);
        });
    }

    fn write_delta(field: Option<&str>, event: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
        match field {
            Some(field) => push(event, format_args!(r#""delta":{{"{field}":""#)),
            None => event.extend_from_slice(br#""delta":{"content":""#),
        }
        text(event);
        event.extend_from_slice(br#""}"#);
    }
}

fn read_message(message: &Message, reader: &mut impl InputReader) -> Result<(), String> {
    reader.role(&message.role);
    match &message.content {
        Value::Null => {}
        Value::String(text) => reader.text(text),
        Value::Array(parts) => {
            for part in parts {
                match image_url(part) {
                    Some(url) => reader.image(url),
                    None => part.get("text").and_then(Value::as_str).into_iter().for_each(|text| reader.text(text)),
                }
            }
        }
        _ => return Err("the `content` of a message is a text or a list of parts".to_owned()),
    }
    Ok(())
}
