//! The bodies of requests, in the format of OpenAI's API and of compatible servers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::ServingApi;
use crate::custom::CustomApi;
use crate::images::illustrated_message;

/// The content of a request's body.
#[derive(Clone, Copy, Debug)]
pub struct RequestBody<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The inputs.
    pub input: RequestInput<'a>,
    /// The requested number of output tokens; `None` if responses of the API have none, or if the endpoint decides.
    pub output_tokens: Option<u32>,
    /// The most output tokens, if `output_tokens` is absent. A lower limit of a whole body stays.
    pub max_output_tokens: Option<u32>,
    /// True if the response has to have exactly that number of tokens (`ignore_eos`, `min_tokens`).
    pub exact_output: bool,
    /// True if the response is streamed.
    pub streamed: bool,
    /// True if each chunk has to report the tokens so far (`continuous_usage_stats`).
    pub continuous_usage: bool,
    /// Further members of the body by name: a text that is a number or a boolean becomes one, any other a string. They replace members of
    /// the same name.
    pub extra_body: &'a BTreeMap<String, String>,
    /// Further members of the body by name, which replace members of the same name; `null` removes the member.
    pub extra_members: &'a Map<String, Value>,
}

/// The inputs of a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestInput<'a> {
    /// Texts.
    Texts {
        /// The query that the documents are scored for, if the API takes one.
        query: Option<&'a str>,
        /// The prompt, or the documents.
        inputs: &'a [String],
    },
    /// A prompt with images, for an API that [takes them](ServingApi::takes_images).
    Illustrated {
        /// The prompt.
        text: &'a str,
        /// The URLs of the images.
        images: &'a [String],
    },
    /// A prompt as the ids of its tokens, for an API that [takes them](ServingApi::takes_token_ids).
    TokenIds(&'a [u32]),
    /// The messages of a chat.
    Messages(&'a [Value]),
    /// A whole body, of which the members that state what is measured are replaced.
    Body(&'a Map<String, Value>),
}

impl RequestBody<'_> {
    /// Returns the whole number in a member that the workload adds to the body, or that the row has if `of_row` is true.
    fn number(&self, member: &str, of_row: bool) -> Option<u64> {
        match (self.extra_members.get(member), self.extra_body.get(member), self.input) {
            (Some(value), ..) => value.as_u64(),
            (None, Some(text), _) => text.parse().ok(),
            (None, None, RequestInput::Body(row)) if of_row => row.get(member)?.as_u64(),
            (None, None, _) => None,
        }
    }

    /// Returns the number in a member that limits the response. That of a row is at most the workload's.
    fn limit(&self, member: &str, of_row: bool) -> Option<u64> {
        let is_added = self.extra_members.contains_key(member) || self.extra_body.contains_key(member);
        let most = self.max_output_tokens.filter(|_| !is_added).map_or(u64::MAX, u64::from);
        Some(self.number(member, of_row)?.min(most))
    }
}

/// Lowers the limits of a whole body to this many tokens. A value that is no number, or is negative, means no limit to some endpoints.
fn lower_limits(body: &mut Map<String, Value>, limits: &[&str], most: u32) {
    for limit in limits {
        if let Some(value) = body.get_mut(*limit)
            && !value.as_f64().is_some_and(|tokens| (0.0..=f64::from(most)).contains(&tokens))
        {
            *value = json!(most);
        }
    }
}

impl ServingApi {
    /// Returns true if a prompt may be a list of the ids of its tokens.
    pub const fn takes_token_ids(self) -> bool {
        matches!(self, Self::Completions)
    }

    /// Builds the body of a request.
    pub fn request_body(self, request: &RequestBody<'_>) -> Vec<u8> {
        let mut body = Map::new();
        let limits = self.rules().limits;
        if let RequestInput::Body(row) = request.input {
            body.extend(row.clone());
            // Otherwise a stream, or a limit under another name, would be the row's and not the workload's.
            let replaced: &[&str] = if request.output_tokens.is_some() { limits } else { &[] };
            for member in ["stream", "stream_options"].iter().chain(replaced) {
                body.remove(*member);
            }
            if let Some(most) = request.max_output_tokens {
                lower_limits(&mut body, limits, most);
            }
        }
        let stated = self.stated_members(request);
        let has_limit = limits.iter().any(|member| body.contains_key(*member) || stated.contains_key(*member));
        if let Some(most) = request.max_output_tokens.filter(|_| !has_limit && self.capabilities().has_output_tokens) {
            body.insert(limits[0].to_owned(), json!(most));
        }
        body.extend(stated);
        // A whole body is sent as its row has it: a row without a temperature leaves it to the server.
        let is_whole = matches!(request.input, RequestInput::Body(_));
        if self.capabilities().has_output_tokens && !is_whole {
            // Greedy decoding: the measurement should not depend on a server's random numbers.
            body.insert("temperature".to_owned(), json!(0));
            // Responses that no later request refers to would only fill the endpoint's memory while it is measured.
            if self.rules().stores_responses {
                body.insert("store".to_owned(), json!(false));
            }
        }
        with_further_members(body, request)
    }

    /// Returns the most output tokens that the body of a request allows, over all choices that it asks for; `None` if it states no limit.
    pub fn output_limit(self, request: &RequestBody<'_>) -> Option<u64> {
        let stated = request.output_tokens.map(u64::from);
        // A stated number replaces the limits of a row.
        let of_members = self.rules().limits.iter().filter_map(|limit| request.limit(limit, stated.is_none()));
        let limit = stated.into_iter().chain(of_members).max().or(request.max_output_tokens.map(u64::from))?;
        // `best_of` choices are generated and counted, of which `n` are returned (OpenAI, completions).
        let choices = ["n", "best_of"].iter().filter_map(|choices| request.number(choices, true)).max();
        Some(limit.saturating_mul(choices.unwrap_or(1).max(1)))
    }

    /// Returns true if a member of the body states what is measured: the model, the inputs, their lengths or streaming. Settings of
    /// the workload decide it, and a member of the same name in `extra_body` would make what they state false.
    pub fn is_stated(self, member: &str) -> bool {
        let request = RequestBody {
            model: "",
            input: RequestInput::Texts { query: None, inputs: &[] },
            output_tokens: Some(1),
            max_output_tokens: None,
            exact_output: true,
            streamed: true,
            continuous_usage: true,
            extra_body: &BTreeMap::new(),
            extra_members: &Map::new(),
        };
        // An API that names no model has none to add either: results name the target's.
        member == "model" || self.stated_members(&request).contains_key(member)
    }

    /// Returns the members that state what is measured.
    fn stated_members(self, request: &RequestBody<'_>) -> Map<String, Value> {
        let mut body = Map::new();
        if self.capabilities().names_model {
            body.insert("model".to_owned(), json!(request.model));
        }
        match request.input {
            RequestInput::Texts { query, inputs } => self.insert_inputs(query, inputs, &mut body),
            RequestInput::Illustrated { text, images } => {
                body.insert("messages".to_owned(), Value::Array(vec![illustrated_message(text, images)]));
            }
            RequestInput::TokenIds(ids) => drop(body.insert(self.rules().prompt_member.to_owned(), json!(ids))),
            RequestInput::Messages(messages) => self.insert_messages(messages, &mut body),
            RequestInput::Body(_) => {}
        }
        if let Some(tokens) = request.output_tokens {
            body.insert(self.rules().limits[0].to_owned(), json!(tokens));
            if request.exact_output {
                body.insert("ignore_eos".to_owned(), json!(true));
                body.insert("min_tokens".to_owned(), json!(tokens));
            }
        }
        if request.streamed {
            body.insert("stream".to_owned(), json!(true));
        }
        if request.streamed && self.rules().has_stream_options {
            let mut options = json!({"include_usage": true});
            if request.continuous_usage {
                options["continuous_usage_stats"] = json!(true);
            }
            body.insert("stream_options".to_owned(), options);
        }
        body
    }
}

impl CustomApi {
    /// Returns the most output tokens that the body of a request allows; `None` if it states no limit.
    pub fn output_limit(&self, request: &RequestBody<'_>) -> Option<u64> {
        let limit = request.output_tokens.or(request.max_output_tokens).map(u64::from);
        limit.filter(|_| self.takes_output_tokens())
    }

    /// Builds the body of a request.
    pub fn request_body(&self, request: &RequestBody<'_>) -> Vec<u8> {
        with_further_members(self.fill(request), request)
    }
}

/// Returns the bytes of a body after the workload's own members have been added to it.
fn with_further_members(mut body: Map<String, Value>, request: &RequestBody<'_>) -> Vec<u8> {
    for (name, text) in request.extra_body {
        body.insert(name.clone(), parse_member_value(text));
    }
    for (name, value) in request.extra_members {
        match value {
            Value::Null => drop(body.remove(name)),
            value => drop(body.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(body).to_string().into_bytes()
}

/// Returns the value of a member of `extra_body`: the number or boolean that the text holds, or else the text as a string.
fn parse_member_value(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

/// Returns the body of a streamed request with this input for 32 tokens.
#[cfg(test)]
pub(crate) fn body_of(api: ServingApi, input: RequestInput<'_>, exact_output: bool) -> Value {
    let bytes = api.request_body(&RequestBody {
        model: "m",
        input,
        output_tokens: Some(32),
        max_output_tokens: None,
        exact_output,
        streamed: true,
        continuous_usage: true,
        extra_body: &BTreeMap::new(),
        extra_members: &Map::new(),
    });
    serde_json::from_slice(&bytes).expect("JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the body of a chat request of this input, with these further members.
    fn body(input: RequestInput<'_>, extra_members: Value) -> Value {
        let bytes = ServingApi::Chat.request_body(&RequestBody {
            model: "m",
            input,
            output_tokens: None,
            max_output_tokens: None,
            exact_output: false,
            streamed: false,
            continuous_usage: false,
            extra_body: &BTreeMap::new(),
            extra_members: extra_members.as_object().expect("an object"),
        });
        serde_json::from_slice(&bytes).expect("JSON")
    }

    #[test]
    fn decoding_is_greedy_unless_the_row_is_a_whole_body() {
        let messages = RequestInput::Messages(&[]);
        assert_eq!(body(messages, json!({})), json!({"model": "m", "messages": [], "temperature": 0}));
        for row in [json!({"messages": []}), json!({"messages": [], "temperature": 0.5})] {
            let sent = body(RequestInput::Body(row.as_object().expect("an object")), json!({}));
            assert_eq!(sent.get("temperature"), row.get("temperature"));
        }
    }

    #[test]
    fn the_limits_of_a_whole_body_are_at_most_the_workloads() {
        let limits = |row: Value, max_output_tokens, members: Value| {
            let request = RequestBody {
                model: "m",
                input: RequestInput::Body(row.as_object().expect("an object")),
                output_tokens: None,
                max_output_tokens,
                exact_output: true,
                streamed: false,
                continuous_usage: false,
                extra_body: &BTreeMap::new(),
                extra_members: members.as_object().expect("an object"),
            };
            let sent: Value = serde_json::from_slice(&ServingApi::Chat.request_body(&request)).expect("JSON");
            let sent = ["max_tokens", "max_completion_tokens"].map(|limit| sent.get(limit).cloned().unwrap_or_default());
            (sent, ServingApi::Chat.output_limit(&request))
        };
        let limited = |row: Value| limits(row, Some(4), json!({}));
        assert_eq!(limits(json!({"max_tokens": 6}), None, json!({})), ([json!(6), json!(null)], Some(6)), "as the row has it");
        assert_eq!(limited(json!({"max_tokens": 6})), ([json!(4), json!(null)], Some(4)));
        assert_eq!(limited(json!({"max_tokens": 3})), ([json!(3), json!(null)], Some(3)), "a lower one stays");
        assert_eq!(limited(json!({"max_tokens": 2, "max_completion_tokens": 9})), ([json!(2), json!(4)], Some(4)));
        assert_eq!(limited(json!({})), ([json!(4), json!(null)], Some(4)));
        for unlimited in [json!(null), json!(-1), json!("9"), json!(4.5), json!(1e300)] {
            assert_eq!(limited(json!({"max_tokens": unlimited})), ([json!(4), json!(null)], Some(4)), "{unlimited}");
        }
        let added = limits(json!({"max_tokens": 3}), Some(4), json!({"max_completion_tokens": 9}));
        assert_eq!(added, ([json!(3), json!(9)], Some(9)), "a member of the workload is the workload's");
    }

    #[test]
    fn a_prompt_may_be_the_ids_of_its_tokens() {
        let body = body_of(ServingApi::Completions, RequestInput::TokenIds(&[7, 0, 31_999]), false);
        assert_eq!(body["prompt"], json!([7, 0, 31_999]));
        assert!(ServingApi::ALL.iter().all(|api| api.takes_token_ids() == (*api == ServingApi::Completions)));
    }

    #[test]
    fn a_body_allows_as_many_tokens_as_its_limits_and_choices_say() {
        let limit = |api: ServingApi, row: Option<Value>, output_tokens, extra: &[(&str, &str)], members: Value| {
            let row = row.map(|row| row.as_object().expect("an object").clone());
            api.output_limit(&RequestBody {
                model: "m",
                input: row.as_ref().map_or(RequestInput::Messages(&[]), RequestInput::Body),
                output_tokens,
                max_output_tokens: Some(500),
                exact_output: false,
                streamed: false,
                continuous_usage: false,
                extra_body: &extra.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
                extra_members: members.as_object().expect("an object"),
            })
        };
        let chat = |output_tokens, extra: &[(&str, &str)], members| limit(ServingApi::Chat, None, output_tokens, extra, members);
        assert_eq!([chat(Some(32), &[], json!({})), chat(None, &[], json!({}))], [Some(32), Some(500)]);
        assert_eq!(chat(Some(32), &[], json!({"max_completion_tokens": 64})), Some(64), "either may hold");
        assert_eq!(chat(Some(32), &[("n", "4")], json!({})), Some(128), "usage counts the tokens of all choices");
        assert_eq!(chat(Some(32), &[("best_of", "8"), ("n", "2")], json!({})), Some(256));
        assert_eq!(chat(Some(32), &[("n", "4")], json!({"n": null})), Some(32));
        let row = json!({"messages": [], "max_tokens": 70, "n": 2});
        let of_row = |output_tokens| limit(ServingApi::Chat, Some(row.clone()), output_tokens, &[], json!({}));
        assert_eq!((of_row(None), of_row(Some(32))), (Some(140), Some(64)));
    }

    #[test]
    fn a_member_that_is_null_removes_one() {
        let messages = RequestInput::Messages(&[]);
        assert_eq!(body(messages, json!({"temperature": null})), json!({"model": "m", "messages": []}));
        assert_eq!(body(messages, json!({"absent": null, "top_k": 4}))["top_k"], json!(4));
        let row = json!({"messages": [], "seed": 1});
        let sent = body(RequestInput::Body(row.as_object().expect("an object")), json!({"seed": null}));
        assert_eq!(sent, json!({"model": "m", "messages": []}));
    }
}
