//! Anthropic's messages: `/v1/messages`, which vLLM, SGLang, llama.cpp and Ollama serve too.
//!
//! A response is a list of content blocks: thinking, text, uses of tools. The system prompt is no message, and a request without `max_tokens` is
//! refused. `usage` counts the input in three parts that add up to it: what the prefix cache held, what was written into it, and the rest.
//!
//! Sources: Anthropic API `POST /v1/messages` (version 2023-06-01) and its streaming events; vLLM `AnthropicMessagesRequest` and
//! `AnthropicStreamEvent`; SGLang `AnthropicMessagesRequest`.

use serde_json::{Map, Value, json};

use crate::api_format::{ApiFormat, CallRules, Capabilities, InputKind};
use crate::json::{Scan, Scanner, Text};
use crate::received::{InputCounts, InputReader, ReceivedRequest, missing, read_parts};
use crate::response::{self, InvalidCount, ParsedResponse, TextKind, TextSink, Usage, optional_string, text};
use crate::simulated::{Content, ContentFault, SimulatedResponse, TokenRun, push, push_event, push_padding};

pub(crate) struct Messages;

impl ApiFormat for Messages {
    const CAPABILITIES: Capabilities = Capabilities {
        path: "/v1/messages",
        responses: "messages",
        input: InputKind::Prompt,
        names_model: true,
        streams: true,
        has_output_tokens: true,
        has_reasoning: true,
        takes_messages: true,
        added_tokens: Some("the endpoint's chat template may add tokens"),
    };

    const RULES: CallRules = CallRules {
        prompt_member: "messages",
        limits: &["max_tokens"],
        needs_limit: true,
        has_stream_options: false,
        headers: &[("anthropic-version", "2023-06-01")],
        key_header: "x-api-key",
        key_scheme: None,
        last_event: "message_stop",
        ..CallRules::OPENAI
    };

    fn insert_inputs(_: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        let messages: Vec<Value> = inputs.iter().map(|prompt| json!({"role": "user", "content": prompt})).collect();
        body.insert("messages".to_owned(), Value::Array(messages));
    }

    /// Inserts the messages of a chat, and as the system prompt those of its system.
    fn insert_messages(messages: &[Value], body: &mut Map<String, Value>) {
        let is_system = |message: &&Value| matches!(message["role"].as_str(), Some("system" | "developer"));
        let (system, others): (Vec<&Value>, Vec<&Value>) = messages.iter().partition(is_system);
        let system: Vec<Value> = system.into_iter().flat_map(|message| to_blocks(&message["content"])).collect();
        match system.as_slice() {
            [] => {}
            [only] if only["text"].is_string() => drop(body.insert("system".to_owned(), only["text"].clone())),
            _ => drop(body.insert("system".to_owned(), Value::Array(system))),
        }
        body.insert("messages".to_owned(), others.into_iter().map(to_message).collect());
    }

    /// Reads a member of an event of a stream, or of a complete response. The members of both have different names, so that none depends on the
    /// event's type.
    #[inline]
    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        keep: &mut TextSink<'_>,
    ) -> Scan<()> {
        match key {
            b"delta" | b"content_block" if scanner.peek()? == b'{' => read_block(scanner, response, keep),
            b"content" if scanner.peek()? == b'[' => scanner.array(|scanner| read_block(scanner, response, keep)),
            b"message" if scanner.peek()? == b'{' => scanner.object(|scanner, key| match key {
                b"usage" => response::usage::<Self>(scanner, &mut response.usage),
                _ => scanner.skip(),
            }),
            b"stop_reason" => read_reason(scanner, response),
            b"type" => {
                let kind = optional_string(scanner)?.unwrap_or_default();
                response.is_last = &*kind.decoded() == b"message_stop";
                response.is_error = &*kind.decoded() == b"error";
                Ok(())
            }
            _ => scanner.skip(),
        }
    }

    fn read_usage_member(scanner: &mut Scanner<'_>, key: &[u8], usage: &mut Usage) -> Scan<()> {
        match key {
            b"input_tokens" => usage.parts.uncached = usage.read(scanner, InvalidCount::Input)?,
            b"cache_creation_input_tokens" => usage.parts.written = usage.read(scanner, InvalidCount::Input)?,
            b"cache_read_input_tokens" => {
                usage.parts.read = usage.read(scanner, InvalidCount::Input)?;
                usage.cached = usage.parts.read;
            }
            b"output_tokens" => usage.completion = usage.read(scanner, InvalidCount::Output)?,
            _ => scanner.skip()?,
        }
        Ok(())
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        request.max_tokens.ok_or_else(|| missing("max_tokens"))?;
        if let Some(system) = &request.system {
            reader.role("system");
            read_parts(system, "system", reader)?;
        }
        let messages = request.messages.as_deref().ok_or_else(|| missing("messages"))?;
        if messages.is_empty() {
            return Err("`messages` is empty".to_owned());
        }
        for message in messages {
            if !matches!(message.role.as_str(), "user" | "assistant") {
                return Err("the `role` of a message is `user` or `assistant`; the system prompt is `system`".to_owned());
            }
            reader.role(&message.role);
            read_parts(&message.content, "content", reader)?;
        }
        Ok(InputCounts::one_each(1))
    }

    fn limit(request: &ReceivedRequest) -> Option<u32> {
        request.max_tokens
    }

    fn object_names(_: bool) -> (&'static str, &'static str) {
        ("msg", "message")
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        push(body, format_args!(r#"{{"id":{},"type":"message","role":"assistant","#, response.id));
        push(body, format_args!(r#""model":{},"content":["#, response.model));
        let [has_thinking, has_text] = [true, false].map(|is_reasoning| !response.channel(is_reasoning).is_empty());
        if has_thinking {
            body.extend_from_slice(br#"{"type":"thinking","thinking":""#);
            response.push_channel(content, true, body);
            body.extend_from_slice(br#"","signature":""}"#);
        }
        if has_text {
            push(body, format_args!(r#"{}{{"type":"text","text":""#, if has_thinking { "," } else { "" }));
            body.extend_from_slice(fault.garble);
            response.push_channel(content, false, body);
            body.extend_from_slice(br#""}"#);
        }
        push(body, format_args!(r#"],"stop_reason":"{}","stop_sequence":null"#, stop_reason(response)));
        push_padding(fault.padding, body);
        push(body, format_args!(r#","usage":{}}}"#, usage(response, response.plan.output.tokens)));
    }

    fn write_first_events(response: &SimulatedResponse, events: &mut Vec<u8>) {
        write_event("message_start", events, |event| {
            push(event, format_args!(r#","message":{{"id":{},"type":"message","role":"assistant","#, response.id));
            push(event, format_args!(r#""model":{},"content":[],"stop_reason":null,"stop_sequence":null,"#, response.model));
            push(event, format_args!(r#""usage":{}}}"#, usage(response, 0)));
        });
        write_event("ping", events, |_| ());
    }

    fn write_tokens(response: &SimulatedResponse, content: &impl Content, run: TokenRun, garble: &[u8], events: &mut Vec<u8>) {
        let channel = response.channel(run.is_reasoning);
        let index = usize::from(!run.is_reasoning && !response.channel(true).is_empty());
        let (block, member) = if run.is_reasoning { ("thinking", "thinking") } else { ("text", "text") };
        if run.from == channel.start {
            let signature = if run.is_reasoning { r#","signature":"""# } else { "" };
            write_event("content_block_start", events, |event| {
                let block = format!(r#"{{"type":"{block}","{member}":""{signature}}}"#);
                push(event, format_args!(r#","index":{index},"content_block":{block}"#));
            });
        }
        write_event("content_block_delta", events, |event| {
            push(event, format_args!(r#","index":{index},"delta":{{"type":"{block}_delta","{member}":""#));
            response.push_text(content, run, garble, event);
            event.extend_from_slice(br#""}"#);
        });
        if run.from.saturating_add(run.tokens) >= channel.end {
            write_event("content_block_stop", events, |event| push(event, format_args!(r#","index":{index}"#)));
        }
    }

    fn write_last_events(response: &SimulatedResponse, _: &impl Content, _: bool, events: &mut Vec<u8>) {
        write_event("message_delta", events, |event| {
            push(event, format_args!(r#","delta":{{"stop_reason":"{}","stop_sequence":null}}"#, stop_reason(response)));
            push(event, format_args!(r#","usage":{{"output_tokens":{}}}"#, response.plan.output.tokens));
        });
        write_event("message_stop", events, |_| ());
    }

    fn write_error_events(message: &str, events: &mut Vec<u8>) {
        let error = json!({"type": "error", "error": {"type": "api_error", "message": message}});
        push_event(Some("error"), events, |data| push(data, format_args!("{error}")));
    }
}

/// Reads a content block or the delta of one: text, thinking, or the name and the input of a tool. The delta of the message has the stop reason.
fn read_block<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
    scanner.object(|scanner, key| {
        let (kind, text) = match key {
            b"text" => (TextKind::Content, text(scanner)?),
            b"thinking" => (TextKind::Reasoning, text(scanner)?),
            b"name" | b"partial_json" => (TextKind::Tool, text(scanner)?),
            b"input" => (TextKind::Tool, read_input(scanner)?),
            b"stop_reason" => return read_reason(scanner, response),
            _ => return scanner.skip(),
        };
        response.add_text(kind, text, keep);
        Ok(())
    })
}

/// Reads the input of a tool. A stream begins it as an empty object, which deltas then complete.
fn read_input<'a>(scanner: &mut Scanner<'a>) -> Scan<Text<'a>> {
    let raw = scanner.raw()?;
    let is_empty = raw.strip_prefix(b"{").is_none_or(|rest| rest.trim_ascii_start() == b"}");
    Ok(if is_empty { Text::default() } else { Text::verbatim(raw) })
}

fn read_reason<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>) -> Scan<()> {
    response.finish = optional_string(scanner)?.filter(|reason| !reason.is_empty()).or(response.finish);
    Ok(())
}

/// Returns the blocks of the content of a message of a chat.
fn to_blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) if !text.is_empty() => vec![json!({"type": "text", "text": text})],
        Value::Array(parts) => parts.iter().map(to_block).collect(),
        _ => Vec::new(),
    }
}

/// Returns a part of a message as a block. An image by its address becomes one of this API; data URLs state their type.
fn to_block(part: &Value) -> Value {
    let image = &part["image_url"];
    let Some(url) = image.get("url").unwrap_or(image).as_str() else { return part.clone() };
    let source = match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
        Some((media_type, data)) => json!({"type": "base64", "media_type": media_type, "data": data}),
        None => json!({"type": "url", "url": url}),
    };
    json!({"type": "image", "source": source})
}

/// Returns a message of a chat as one of this API. A tool's result is a message of the user.
fn to_message(message: &Value) -> Value {
    let content = &message["content"];
    let role = message["role"].as_str().unwrap_or_default();
    if role == "tool" {
        let result = json!({"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content});
        return json!({"role": "user", "content": [result]});
    }
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    match content {
        Value::String(text) if calls.is_empty() => json!({"role": role, "content": text}),
        content => {
            let blocks: Vec<Value> = to_blocks(content).into_iter().chain(calls.iter().map(to_tool_use)).collect();
            json!({"role": role, "content": blocks})
        }
    }
}

/// Returns a call of a tool as a block. Arguments that are no JSON object stand in one.
fn to_tool_use(call: &Value) -> Value {
    let function = &call["function"];
    let input = match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!({"arguments": text})),
        arguments => arguments.clone(),
    };
    let input = if input.is_object() { input } else { json!({"arguments": input}) };
    json!({"type": "tool_use", "id": call["id"], "name": function["name"], "input": input})
}

/// Writes an event, whose type stands in its data too.
fn write_event(kind: &str, events: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    push_event(Some(kind), events, |event| {
        push(event, format_args!(r#"{{"type":"{kind}""#));
        members(event);
        event.push(b'}');
    });
}

fn stop_reason(response: &SimulatedResponse) -> &'static str {
    if response.plan.output.finish_reason == "length" { "max_tokens" } else { "end_turn" }
}

/// Returns the usage after this many tokens of the response.
fn usage(response: &SimulatedResponse, output_tokens: u32) -> Value {
    json!({
        "input_tokens": response.plan.prompt_tokens.saturating_sub(response.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": response.cached_tokens,
        "output_tokens": output_tokens,
    })
}

#[cfg(test)]
mod tests;
