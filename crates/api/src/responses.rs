//! OpenAI's responses: `/v1/responses`, which vLLM, SGLang, llama.cpp and Ollama serve too.
//!
//! A response is a list of items: reasoning, messages, calls of tools. A stream has an event of its own for each change of it, and repeats in later
//! events what the earlier ones brought: only deltas, and the names of calls as they begin, are tokens.
//!
//! Sources: OpenAI API `POST /v1/responses` and its streaming events; vLLM `ResponsesRequest` and `ResponsesResponse`; SGLang, which ends streams
//! with `[DONE]` as well.

use serde_json::{Map, Value, json};

use crate::api_format::{ApiFormat, CallRules, Capabilities, InputKind};
use crate::json::{Scan, Scanner, Text};
use crate::received::{InputCounts, InputReader, ReceivedRequest, missing, read_parts};
use crate::response::{
    self, InvalidCount, ParsedResponse, TextKind, TextSink, Usage, array_or_null, optional_string, output_details, to_text,
};
use crate::simulated::{Content, ContentFault, SimulatedResponse, TokenRun, push, push_event, push_padding};

pub(crate) struct Responses;

impl ApiFormat for Responses {
    const CAPABILITIES: Capabilities = Capabilities {
        path: "/v1/responses",
        responses: "responses",
        input: InputKind::Prompt,
        names_model: true,
        streams: true,
        has_output_tokens: true,
        has_reasoning: true,
        takes_messages: true,
        added_tokens: Some("the endpoint's chat template may add tokens"),
    };

    const RULES: CallRules = CallRules {
        prompt_member: "input",
        limits: &["max_output_tokens"],
        // OpenAI refuses fewer.
        least_limit: 16,
        has_stream_options: false,
        stores_responses: true,
        last_event: "response.completed",
        ..CallRules::OPENAI
    };

    fn insert_inputs(_: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        body.insert("input".to_owned(), json!(inputs.first()));
    }

    fn insert_messages(messages: &[Value], body: &mut Map<String, Value>) {
        body.insert("input".to_owned(), Value::Array(messages.iter().flat_map(to_items).collect()));
    }

    /// Reads an event of a stream, or a complete response. An event is known by its `type`, which may follow its other members.
    #[inline]
    fn read_document<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
        let (mut event, mut state) = (Event::default(), State::default());
        scanner.object(|scanner, key| {
            match key {
                b"type" => event.kind = optional_string(scanner)?.unwrap_or_default(),
                b"delta" => event.delta = if scanner.peek()? == b'"' { Some(scanner.string()?) } else { other(scanner)? },
                b"item" => read_added_item(scanner, &mut event.name)?,
                b"response" => read_response(scanner, response, &mut state)?,
                b"output" => array_or_null(scanner, |scanner| read_item(scanner, response, keep))?,
                b"status" | b"incomplete_details" => state.read_member(scanner, key)?,
                _ => response::read_member::<Self>(scanner, key, response, keep)?,
            }
            Ok(())
        })?;
        event.apply(response, keep)?;
        state.apply(response);
        Ok(())
    }

    fn read_member<'a>(scanner: &mut Scanner<'a>, _: &[u8], _: &mut ParsedResponse<'a>, _: &mut TextSink<'_>) -> Scan<()> {
        scanner.skip()
    }

    fn read_usage_member(scanner: &mut Scanner<'_>, key: &[u8], usage: &mut Usage) -> Scan<()> {
        match key {
            b"input_tokens" => usage.prompt = usage.read(scanner, InvalidCount::Input)?,
            b"output_tokens" => usage.completion = usage.read(scanner, InvalidCount::Output)?,
            b"input_tokens_details" => usage.cached = usage.read_detail(scanner, b"cached_tokens", InvalidCount::Part)?,
            b"output_tokens_details" => output_details(scanner, usage)?,
            _ => scanner.skip()?,
        }
        Ok(())
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        if let Some(instructions) = &request.instructions {
            reader.role("system");
            read_parts(instructions, "instructions", reader)?;
        }
        match request.input.as_ref().ok_or_else(|| missing("input"))? {
            Value::String(text) => reader.text(text),
            Value::Array(items) if !items.is_empty() => items.iter().try_for_each(|item| read_input_item(item, reader))?,
            Value::Array(_) => return Err("`input` is empty".to_owned()),
            _ => return Err("`input` is a text or a list of items".to_owned()),
        }
        Ok(InputCounts::one_each(1))
    }

    fn limit(request: &ReceivedRequest) -> Option<u32> {
        request.max_output_tokens
    }

    fn object_names(_: bool) -> (&'static str, &'static str) {
        ("resp", "response")
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        write_response(response, Some((content, fault)), body);
    }

    fn write_first_events(response: &SimulatedResponse, events: &mut Vec<u8>) {
        for kind in ["response.created", "response.in_progress"] {
            write_event(response, kind, events, |event| {
                event.extend_from_slice(br#","response":"#);
                write_response(response, None::<(&Never, _)>, event);
            });
        }
    }

    fn write_tokens(response: &SimulatedResponse, content: &impl Content, run: TokenRun, garble: &[u8], events: &mut Vec<u8>) {
        let item = Item::new(response, run.is_reasoning);
        let channel = response.channel(run.is_reasoning);
        if run.from == channel.start {
            item.write_first_events(response, events);
        }
        item.write_event(response, "delta", events, |event| {
            event.extend_from_slice(br#","delta":""#);
            response.push_text(content, run, garble, event);
            event.push(b'"');
        });
        if run.from.saturating_add(run.tokens) >= channel.end {
            item.write_last_events(response, content, events);
        }
    }

    /// Writes the event with the complete response, which always has its usage.
    fn write_last_events(response: &SimulatedResponse, content: &impl Content, _: bool, events: &mut Vec<u8>) {
        let kind = if is_cut(response) { "response.incomplete" } else { "response.completed" };
        write_event(response, kind, events, |event| {
            event.extend_from_slice(br#","response":"#);
            write_response(response, Some((content, ContentFault::default())), event);
        });
    }

    fn write_error_events(message: &str, events: &mut Vec<u8>) {
        let error = json!({"type": "error", "code": "server_error", "message": message, "param": null});
        push_event(Some("error"), events, |data| push(data, format_args!("{error}")));
    }
}

/// The members of an event that are read by its type.
#[derive(Default)]
struct Event<'a> {
    kind: Text<'a>,
    /// The text of a delta.
    delta: Option<Text<'a>>,
    /// The name of the call that begins.
    name: Text<'a>,
}

impl<'a> Event<'a> {
    fn apply(&self, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
        let kind = match &*self.kind.decoded() {
            b"response.output_text.delta" | b"response.refusal.delta" => TextKind::Content,
            b"response.reasoning_text.delta"
            | b"response.reasoning_summary_text.delta"
            | b"response.reasoning.delta"
            | b"response.reasoning_summary.delta" => TextKind::Reasoning,
            b"response.function_call_arguments.delta"
            | b"response.mcp_call_arguments.delta"
            | b"response.custom_tool_call_input.delta"
            | b"response.code_interpreter_call_code.delta" => TextKind::Tool,
            b"response.output_item.added" => {
                response.add_text(TextKind::Tool, self.name, keep);
                return Ok(());
            }
            b"response.completed" | b"response.incomplete" | b"response.failed" | b"response.cancelled" => {
                response.is_last = true;
                return Ok(());
            }
            b"error" => {
                response.is_error = true;
                return Ok(());
            }
            _ => return Ok(()),
        };
        response.add_text(kind, self.delta.ok_or("the text of the response is not a string")?, keep);
        Ok(())
    }
}

/// The state of a response: as it is complete, the reason for its end.
#[derive(Default)]
struct State<'a> {
    status: Option<Text<'a>>,
    /// The reason for which it is not complete.
    reason: Option<Text<'a>>,
}

impl<'a> State<'a> {
    fn read_member(&mut self, scanner: &mut Scanner<'a>, key: &[u8]) -> Scan<()> {
        match key {
            b"status" => self.status = optional_string(scanner)?,
            b"incomplete_details" if scanner.peek()? == b'{' => scanner.object(|scanner, key| {
                match key {
                    b"reason" => self.reason = optional_string(scanner)?,
                    _ => scanner.skip()?,
                }
                Ok(())
            })?,
            _ => scanner.skip()?,
        }
        Ok(())
    }

    fn apply(self, response: &mut ParsedResponse<'a>) {
        let Some(status) = self.status else { return };
        match &*status.decoded() {
            b"completed" => response.finish = Some(status),
            b"incomplete" => response.finish = self.reason.filter(|reason| !reason.is_empty()).or(Some(status)),
            b"failed" | b"cancelled" if response.error.is_none() => {
                response.error = Some(format!("the response has the status `{}`", to_text(status)));
            }
            _ => {}
        }
    }
}

/// Skips a value.
fn other<T>(scanner: &mut Scanner<'_>) -> Scan<Option<T>> {
    scanner.skip().map(|()| None)
}

/// Reads the item that an event adds: only the name of a call is text of the model.
fn read_added_item<'a>(scanner: &mut Scanner<'a>, name: &mut Text<'a>) -> Scan<()> {
    if scanner.peek()? != b'{' {
        return scanner.skip();
    }
    scanner.object(|scanner, key| {
        if key == b"name" {
            *name = optional_string(scanner)?.unwrap_or_default();
            return Ok(());
        }
        scanner.skip()
    })
}

/// Reads the response of an event. Its output repeats what earlier events brought.
fn read_response<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, state: &mut State<'a>) -> Scan<()> {
    if scanner.peek()? != b'{' {
        return scanner.skip();
    }
    scanner.object(|scanner, key| match key {
        b"usage" => response::usage::<Responses>(scanner, &mut response.usage),
        b"error" => response::error(scanner, &mut response.error),
        _ => state.read_member(scanner, key),
    })
}

/// Reads an item of a complete response.
fn read_item<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
    scanner.object(|scanner, key| match key {
        b"content" | b"summary" if scanner.peek()? == b'[' => {
            let is_summary = key == b"summary";
            scanner.array(|scanner| read_part(scanner, is_summary, response, keep))
        }
        b"name" | b"arguments" | b"input" | b"code" => {
            let text = optional_string(scanner)?.unwrap_or_default();
            response.add_text(TextKind::Tool, text, keep);
            Ok(())
        }
        _ => scanner.skip(),
    })
}

/// Reads a part of an item: a text of the kind that its `type` says, or a refusal.
fn read_part<'a>(
    scanner: &mut Scanner<'a>,
    is_summary: bool,
    response: &mut ParsedResponse<'a>,
    keep: &mut TextSink<'_>,
) -> Scan<()> {
    let (mut is_reasoning, mut text, mut refusal) = (is_summary, Text::default(), Text::default());
    scanner.object(|scanner, key| {
        match key {
            b"type" => {
                let kind = optional_string(scanner)?.unwrap_or_default();
                is_reasoning |= matches!(&*kind.decoded(), b"reasoning_text" | b"summary_text");
            }
            b"text" => text = response::text(scanner)?,
            b"refusal" => refusal = response::text(scanner)?,
            _ => scanner.skip()?,
        }
        Ok(())
    })?;
    response.add_text(if is_reasoning { TextKind::Reasoning } else { TextKind::Content }, text, keep);
    response.add_text(TextKind::Content, refusal, keep);
    Ok(())
}

/// Returns the items that a message of a chat becomes.
fn to_items(message: &Value) -> Vec<Value> {
    let member = |name: &str| message.get(name).cloned();
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    if role == "tool" {
        let output = member("content").unwrap_or_else(|| json!(""));
        return vec![json!({"type": "function_call_output", "call_id": member("tool_call_id"), "output": output})];
    }
    let mut items = Vec::new();
    match message.get("content") {
        Some(Value::String(text)) if !text.is_empty() => items.push(json!({"role": role, "content": text})),
        Some(Value::Array(parts)) => {
            let parts: Vec<Value> = parts.iter().map(|part| to_part(role, part)).collect();
            items.push(json!({"role": role, "content": parts}));
        }
        _ => {}
    }
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = &call["function"];
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            arguments => arguments.to_string(),
        };
        items.push(json!({"type": "function_call", "call_id": call["id"], "name": function["name"], "arguments": arguments}));
    }
    items
}

/// Returns the part of a message with its type in this API.
fn to_part(role: &str, part: &Value) -> Value {
    match (part["type"].as_str(), part.get("text"), &part["image_url"]) {
        (Some("text"), Some(text), _) => {
            json!({"type": if role == "assistant" { "output_text" } else { "input_text" }, "text": text})
        }
        (Some("image_url"), _, image) => json!({"type": "input_image", "image_url": image.get("url").unwrap_or(image)}),
        _ => part.clone(),
    }
}

/// Reads the texts of an item of the input.
fn read_input_item(item: &Value, reader: &mut impl InputReader) -> Result<(), String> {
    let member = |name: &str| item.get(name).filter(|value| !value.is_null());
    reader.role(item["role"].as_str().or_else(|| item["type"].as_str()).unwrap_or_default());
    for name in ["content", "summary", "output"] {
        member(name).map_or(Ok(()), |value| read_parts(value, name, reader))?;
    }
    for name in ["name", "arguments"] {
        member(name).and_then(Value::as_str).into_iter().for_each(|text| reader.text(text));
    }
    Ok(())
}

/// Returns true if the simulated response ends at its limit.
fn is_cut(response: &SimulatedResponse) -> bool {
    response.plan.output.finish_reason == "length"
}

/// Writes an event with the members that all have.
fn write_event(response: &SimulatedResponse, kind: &str, events: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    push_event(Some(kind), events, |event| {
        push(event, format_args!(r#"{{"type":"{kind}","sequence_number":{}"#, response.next_number()));
        members(event);
        event.push(b'}');
    });
}

/// No content, of a response that has not begun.
enum Never {}

impl Content for Never {
    fn push_words(&self, _: u32, _: u32, _: u32, _: &mut Vec<u8>) {
        match *self {}
    }

    fn number(&self, _: u64) -> f64 {
        match *self {}
    }
}

/// Writes a response: complete if its content is given, else as it begins.
fn write_response(response: &SimulatedResponse, content: Option<(&impl Content, ContentFault<'_>)>, body: &mut Vec<u8>) {
    let (id, model, created_s) = (&response.id, &response.model, response.plan.created_s);
    push(body, format_args!(r#"{{"id":{id},"object":"response","created_at":{created_s},"model":{model},"error":null"#));
    let Some((content, fault)) = content else {
        body.extend_from_slice(br#","status":"in_progress","incomplete_details":null,"output":[],"usage":null}"#);
        return;
    };
    body.extend_from_slice(if is_cut(response) {
        br#","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#
    } else {
        br#","status":"completed","incomplete_details":null"#
    });
    body.extend_from_slice(br#","output":["#);
    for is_reasoning in [true, false].into_iter().filter(|is_reasoning| !response.channel(*is_reasoning).is_empty()) {
        let item = Item::new(response, is_reasoning);
        body.extend_from_slice(if item.index > 0 { b"," } else { b"" });
        item.write(response, Some((content, if is_reasoning { b"" } else { fault.garble })), body);
    }
    body.push(b']');
    push_padding(fault.padding, body);
    let (input, output, cached) = (response.plan.prompt_tokens, response.plan.output.tokens, response.cached_tokens);
    let usage = json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": response.plan.output.reasoning_tokens},
        "total_tokens": input.saturating_add(output),
    });
    push(body, format_args!(r#","usage":{usage}}}"#));
}

/// An item of a simulated response: its reasoning, or its message.
struct Item {
    is_reasoning: bool,
    /// Its place in the output.
    index: usize,
}

impl Item {
    fn new(response: &SimulatedResponse, is_reasoning: bool) -> Self {
        Self { is_reasoning, index: usize::from(!is_reasoning && !response.channel(true).is_empty()) }
    }

    fn id(&self, response: &SimulatedResponse) -> String {
        let prefix = if self.is_reasoning { "rs" } else { "msg" };
        // The id is JSON, and begins with a quote.
        format!("\"{prefix}_{}", response.id.trim_start_matches('"'))
    }

    fn part_type(&self) -> &'static str {
        if self.is_reasoning { "reasoning_text" } else { "output_text" }
    }

    /// Writes its only part: empty as it begins, else with its text.
    fn write_part(&self, response: &SimulatedResponse, content: Option<(&impl Content, &[u8])>, body: &mut Vec<u8>) {
        push(body, format_args!(r#"{{"type":"{}","text":""#, self.part_type()));
        if let Some((content, garble)) = content {
            body.extend_from_slice(garble);
            response.push_channel(content, self.is_reasoning, body);
        }
        body.extend_from_slice(if self.is_reasoning { br#""}"# } else { br#"","annotations":[]}"# });
    }

    /// Writes it: empty as it begins, else complete.
    fn write(&self, response: &SimulatedResponse, content: Option<(&impl Content, &[u8])>, body: &mut Vec<u8>) {
        let id = self.id(response);
        let status = if content.is_some() { "completed" } else { "in_progress" };
        if self.is_reasoning {
            push(body, format_args!(r#"{{"id":{id},"type":"reasoning","status":"{status}","summary":[],"content":["#));
        } else {
            push(body, format_args!(r#"{{"id":{id},"type":"message","role":"assistant","status":"{status}","content":["#));
        }
        if content.is_some() {
            self.write_part(response, content, body);
        }
        body.extend_from_slice(b"]}");
    }

    /// Writes an event of its only part, such as `response.output_text.delta`.
    fn write_event(&self, response: &SimulatedResponse, event: &str, events: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
        let kind = match event {
            "added" | "done" => format!("response.content_part.{event}"),
            "text" => format!("response.{}.done", self.part_type()),
            event => format!("response.{}.{event}", self.part_type()),
        };
        write_event(response, &kind, events, |data| {
            let (id, index) = (self.id(response), self.index);
            push(data, format_args!(r#","item_id":{id},"output_index":{index},"content_index":0"#));
            members(data);
        });
    }

    fn write_first_events(&self, response: &SimulatedResponse, events: &mut Vec<u8>) {
        write_event(response, "response.output_item.added", events, |event| {
            push(event, format_args!(r#","output_index":{},"item":"#, self.index));
            self.write(response, None::<(&Never, &[u8])>, event);
        });
        self.write_event(response, "added", events, |event| {
            event.extend_from_slice(br#","part":"#);
            self.write_part(response, None::<(&Never, &[u8])>, event);
        });
    }

    fn write_last_events(&self, response: &SimulatedResponse, content: &impl Content, events: &mut Vec<u8>) {
        self.write_event(response, "text", events, |event| {
            event.extend_from_slice(br#","text":""#);
            response.push_channel(content, self.is_reasoning, event);
            event.push(b'"');
        });
        self.write_event(response, "done", events, |event| {
            event.extend_from_slice(br#","part":"#);
            self.write_part(response, Some((content, b"".as_slice())), event);
        });
        write_event(response, "response.output_item.done", events, |event| {
            push(event, format_args!(r#","output_index":{},"item":"#, self.index));
            self.write(response, Some((content, b"".as_slice())), event);
        });
    }
}

#[cfg(test)]
mod tests;
