//! Test requests: before anything is measured, an endpoint gets one request of each kind that the run will send.
//!
//! A request that an endpoint refuses once, it refuses always: a wrong key, path or field is a failure of the run, with the remedy.
//! An endpoint that is overloaded or fails may still be measured, because its failures are a result: this is tried again a few
//! times, and reported.

use std::collections::BTreeSet;
use std::time::Duration;

use assay_api::{CustomApi, InputKind, RequestInput, TextSink};
use assay_manifest::{Count, Plan, Probe, ServingApi, ServingWork, Target, TokenIds};
use assay_probe::{Client, FirstEvent, Identity, JsonRequest, PartialResponse, RequestError, endpoint_url};
use assay_stage::{Context, ErrorCode, Event, Failure};
use serde_json::Value;

use crate::client_certificate::client_certificate_failure;
use crate::models::list_models;

/// The `x-request-id` of a test request, by which an endpoint's log tells it from the load: `assay test req.` in ASCII.
const REQUEST_ID: u128 = u128::from_be_bytes(*b"assay test req. ");

/// The input of a test request.
const INPUT: &str = "Hello";

/// The longest wait for a response; a shorter request timeout of the workload is kept.
const TIME: Duration = Duration::from_secs(30);

/// The pauses before a request is sent again. An endpoint may ask for another one, up to [`MAX_PAUSE`].
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

/// The longest pause that an endpoint may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The characters of an endpoint's text in a message.
const MAX_TEXT: usize = 200;

/// The token id of a test request whose ids are those of a tokenizer, which has at least as many words.
const TEST_ID: u32 = 63;

/// The places of the model in a response: of OpenAI's APIs, of Anthropic's first event, and of the Open Inference Protocol.
const MODEL_PLACES: [&str; 3] = ["/model", "/message/model", "/model_name"];

/// One kind of request: its path, its body, and the format of its response.
struct TestRequest<'a> {
    target: &'a Target,
    api: ServingApi,
    /// The path of requests, as the workload has it.
    path: String,
    /// The requested model.
    model: String,
    is_streamed: bool,
    /// The description of the API, if the workload has one.
    custom: Option<CustomApi>,
    url: String,
    body: Vec<u8>,
    time: Duration,
}

/// The result of a test request.
#[derive(Debug)]
enum Verdict {
    /// The endpoint responds as the run needs it.
    Accepted(String),
    /// The endpoint refuses all such requests.
    Refused(Failure),
    /// The endpoint fails now, for this reason, and may not fail later.
    Unavailable(String),
}

/// Sends one request of each kind that the plan's workloads send to the target. It fails if the endpoint refuses one.
pub(crate) fn send_all(
    ctx: &Context,
    plan: &Plan,
    target: &Target,
    client: &Client,
    address: &str,
    identity: &Identity,
) -> Result<Vec<Probe>, Failure> {
    let cases = plan.cases.iter().filter(|case| case.target == target.name);
    let works = cases.filter_map(|case| plan.workload(&case.workload)?.serving.as_ref());
    let (mut sent, mut probes) = (BTreeSet::new(), Vec::new());
    for work in works {
        let work = work.for_server(identity.server.value.as_deref());
        for model in work.requested_models() {
            let request = TestRequest::new(target, &work, model, address);
            if sent.insert((request.url.clone(), request.body.clone())) {
                probes.push(request.send(ctx, client, identity)?);
            }
        }
    }
    Ok(probes)
}

/// Returns the work without what no request of the run may have, because an endpoint that refuses a member would refuse a test request
/// that has it: the members of an exact length, and the temperature of Assay's own, which whole bodies do not get.
fn without_absent_members(work: &ServingWork) -> ServingWork {
    const TEMPERATURE: &str = "temperature";
    let mut work = work.clone();
    work.exact_output &= has_stated_lengths(&work);
    let has_whole_bodies = work.prompts.dataset().is_some_and(|dataset| dataset.summary.whole_bodies.is_some());
    if has_whole_bodies && !work.body.contains_key(TEMPERATURE) && !work.extra_body.contains_key(TEMPERATURE) {
        work.extra_body.insert(TEMPERATURE.to_owned(), Value::Null);
    }
    work
}

/// Returns true if any request of the run states how long its response is to be: a drawn length, or the recorded one of a row.
fn has_stated_lengths(work: &ServingWork) -> bool {
    work.output.is_some() || work.prompts.dataset().is_some_and(|dataset| dataset.summary.recorded_outputs.0 > 0)
}

impl<'a> TestRequest<'a> {
    fn new(target: &'a Target, work: &ServingWork, model: &str, address: &str) -> Self {
        let capabilities = work.api.capabilities();
        let query = (capabilities.input == InputKind::QueryAndDocuments).then_some(INPUT);
        let inputs = vec![INPUT.to_owned(); work.documents() as usize];
        let output_tokens = capabilities.has_output_tokens.then_some(work.api.rules().least_limit);
        let ids = work.token_ids.map(|ids| match ids {
            TokenIds::Range { least, .. } => [least],
            TokenIds::Tokenizer => [TEST_ID],
        });
        let input = ids.as_ref().map_or(RequestInput::Texts { query, inputs: &inputs }, |ids| RequestInput::TokenIds(ids));
        Self {
            target,
            api: work.api,
            path: work.path().to_owned(),
            model: model.to_owned(),
            is_streamed: work.is_streamed(),
            custom: work.custom.clone(),
            url: endpoint_url(address, work.path()),
            body: without_absent_members(work).request_body(model, input, output_tokens),
            time: Duration::from_nanos(work.timeout_ns.0).min(TIME),
        }
    }

    /// Sends the request until the endpoint accepts or refuses it; if it is unavailable, a few times.
    fn send(&self, ctx: &Context, client: &Client, identity: &Identity) -> Result<Probe, Failure> {
        let watch = ctx.clock().start();
        let headers = self.api.rules().headers;
        let request = JsonRequest { is_streamed: self.is_streamed, request_id: REQUEST_ID, headers, body: &self.body };
        let mut pauses = PAUSES.into_iter();
        loop {
            ctx.check_cancelled()?;
            let response = client.post_json(&self.url, &request, self.time);
            let asked = response.as_ref().ok().and_then(|response| response.retry_after_s).map(Duration::from_secs);
            let probe = |ready: bool, response: String| Probe {
                request: format!("POST {} (test request)", self.url),
                ready,
                response,
                waited_ns: Count(watch.elapsed_ns()),
            };
            let notes = response.as_ref().map_or_else(|_| Vec::new(), |response| self.notes(response));
            match self.judge(response, identity) {
                Verdict::Accepted(response) => {
                    for message in notes {
                        ctx.emit(Event::Note { message });
                    }
                    return Ok(probe(true, response));
                }
                Verdict::Refused(failure) => return Err(failure),
                Verdict::Unavailable(why) => {
                    let pause = pauses.next().filter(|_| Duration::from_nanos(watch.elapsed_ns()) < TIME);
                    let Some(pause) = pause else {
                        ctx.emit(Event::Note { message: self.warning(&why) });
                        return Ok(probe(false, why));
                    };
                    ctx.cancel().wait_timeout(asked.unwrap_or(pause).min(MAX_PAUSE));
                }
            }
        }
    }

    /// Returns what is worth knowing of a response that is accepted.
    fn notes(&self, response: &PartialResponse) -> Vec<String> {
        let silence = self.silent_place(response).map(|place| self.silence(place));
        let other_model = self.other_model(response).map(|model| {
            format!(
                "target `{}` was asked for the model `{}`, and its response names `{model}`: is one another name of the other?",
                self.target.name,
                clean(&self.model)
            )
        });
        silence.into_iter().chain(other_model).collect()
    }

    /// Returns the model that a response names, if it is not the requested one. APIs without such a member, and those that a workload
    /// describes, name none.
    fn other_model(&self, response: &PartialResponse) -> Option<String> {
        let document = response.body.event.as_ref().map_or(response.body.bytes.as_slice(), |event| event.data.as_slice());
        let document: Value = serde_json::from_slice(document).ok().filter(|_| self.custom.is_none())?;
        let named = MODEL_PLACES.iter().find_map(|place| document.pointer(place)?.as_str())?;
        (named != self.model).then(|| clean(named))
    }

    /// Returns the place of the texts of a stream whose first event has none there. That may be so, and later events have them.
    fn silent_place(&self, response: &PartialResponse) -> Option<&str> {
        let (custom, event) = (self.custom.as_ref()?, response.body.event.as_ref()?);
        (!custom.has_text(&event.data)).then_some(custom.text.as_str())
    }

    fn silence(&self, place: &str) -> String {
        format!(
            "target `{}`: the first event of a stream has no text at `{}`; if no other has, each request fails: is the place right (`custom.response.text`, \
             `--api-response text=PLACE`)?",
            self.target.name,
            clean(place)
        )
    }

    fn warning(&self, why: &str) -> String {
        format!("target `{}` fails a test request, and is measured all the same: {why}", self.target.name)
    }

    fn judge(&self, response: Result<PartialResponse, RequestError>, identity: &Identity) -> Verdict {
        let response = match response {
            Ok(response) => response,
            Err(RequestError::Tls(why)) => {
                let message = format!("target `{}` cannot be reached over TLS: {}", self.target.name, clean(&why));
                return Verdict::Refused(Failure::new(ErrorCode::EndpointProtocol, message).hint(
                    "does the address need `http`? The target's `tls.ca`, or `SSL_CERT_FILE`, names certificate authorities to trust; `insecure_skip_tls_verify: true` accepts any certificate",
                ));
            }
            Err(RequestError::ClientCertificate(problem)) => {
                return Verdict::Refused(client_certificate_failure(self.target, problem));
            }
            Err(RequestError::Http2(why)) => return Verdict::Refused(self.http2_failure(why)),
            Err(error) => return Verdict::Unavailable(format!("POST {}: {}", self.url, clean(&error.to_string()))),
        };
        let text = self.describe_body(&response);
        match response.status {
            200..=299 => self.judge_body(&response, &text),
            300..=399 => Verdict::Refused(self.redirect_failure(&response)),
            401 | 403 | 407 => {
                Verdict::Refused(self.failure(ErrorCode::EndpointUnauthorized, &response, &text).hint(self.credential_hint()))
            }
            // A server that does not implement the method is no endpoint, whatever its load is.
            404 | 405 | 410 | 501 => Verdict::Refused(self.path_failure(&response, &text, identity)),
            408 | 425 | 429 => Verdict::Unavailable(self.describe(&response, &text)),
            400..=499 => Verdict::Refused(self.rejection(&response, &text)),
            _ => Verdict::Unavailable(self.describe(&response, &text)),
        }
    }

    /// Returns the hint to the header of a credential, as the API has it.
    fn credential_hint(&self) -> String {
        let rules = self.api.rules();
        let scheme = rules.key_scheme.map_or_else(String::new, |scheme| format!(", scheme: {scheme}"));
        format!(
            "with `assay bench`: `--api-key` or `--header`; in a pipeline: the target's `headers`, such as \
             `{}: {{from_env: NAME{scheme}}}`",
            rules.key_header
        )
    }

    /// Judges a response of success by its body.
    fn judge_body(&self, response: &PartialResponse, text: &str) -> Verdict {
        if let Some(encoding) = &response.content_encoding {
            return Verdict::Refused(self.encoding_failure(encoding));
        }
        let status = Client::status_text(response.status);
        let returned = format!("POST {} returned `{status}`", self.url);
        if let Some(error) = self.error_in(response) {
            return Verdict::Unavailable(format!("{returned} with an error: {}", clean(&error)));
        }
        if let Some(cut) = &response.body.cut {
            return self.judge_cut(response, cut, &returned);
        }
        if response.body.received == 0 {
            return Verdict::Unavailable(format!("{returned} with an empty body"));
        }
        let named = self.other_model(response).map_or_else(String::new, |model| format!(", which names the model `{model}`"));
        match (self.is_streamed, response.content_type.as_deref()) {
            (true, _) if response.body.event.is_some() => Verdict::Accepted(format!("{status}, an event stream{named}")),
            (true, Some("text/event-stream")) => {
                Verdict::Unavailable(format!("{returned} with an event stream that ended before an event with data was complete"))
            }
            (false, kind) if kind.is_none_or(is_json) && starts_document(&response.body.bytes) => match &self.custom {
                Some(custom) if !custom.has_text(&response.body.bytes) => Verdict::Refused(self.place_failure(custom, text)),
                _ => Verdict::Accepted(format!("{status}, a JSON document{named}")),
            },
            (_, kind) => Verdict::Refused(self.format_failure(kind, text)),
        }
    }

    /// Returns the error that a response of success holds, as the load generator finds it: in the first event of a stream, or in a
    /// document.
    fn error_in(&self, response: &PartialResponse) -> Option<String> {
        let error = |document: &[u8]| self.api.parse_response(document, &mut TextSink::Discard).ok()?.error;
        match &response.body.event {
            Some(FirstEvent { data, is_error: true }) => {
                Some(self.api.error_message(data).unwrap_or_else(|| String::from_utf8_lossy(data).into_owned()))
            }
            Some(FirstEvent { data, .. }) => error(data),
            None => error(&response.body.bytes),
        }
    }

    /// Judges a response of success whose body was not read as far as needed. A body that is too large for the load generator always
    /// is; one that was late or broke off may not be the next time.
    fn judge_cut(&self, response: &PartialResponse, cut: &RequestError, returned: &str) -> Verdict {
        let received = response.body.received;
        match cut {
            RequestError::TooLarge(_) | RequestError::EventTooLarge(_) => {
                let message = format!("target `{}` cannot be measured: {returned}, and {cut}", self.target.name);
                Verdict::Refused(Failure::new(ErrorCode::EndpointProtocol, message).hint(
                    "it is a limit of the load generator, which records such a response as `event_too_large`; does the endpoint return more than was requested?",
                ))
            }
            RequestError::Timeout(limit) => {
                let awaited = if self.is_streamed { "event with data" } else { "complete document" };
                Verdict::Unavailable(format!("{returned} and no {awaited} within {limit:?}; {received} bytes of the body came"))
            }
            cut => Verdict::Unavailable(format!(
                "{returned}, and its body broke off after {received} bytes: {}",
                clean(&cut.to_string())
            )),
        }
    }

    fn encoding_failure(&self, encoding: &str) -> Failure {
        let message = format!(
            "target `{}` responds to POST {} with a body of the content encoding `{}`, which was not requested",
            self.target.name,
            self.url,
            clean(encoding)
        );
        Failure::new(ErrorCode::EndpointProtocol, message).hint(
            "requests carry `accept-encoding: identity`, because decoding would be part of the measured times: does a proxy in front of the endpoint compress all the same?",
        )
    }

    fn format_failure(&self, content_type: Option<&str>, text: &str) -> Failure {
        let expected = if self.is_streamed { "event stream" } else { "JSON document" };
        let kind = content_type.map_or_else(String::new, |kind| format!(" of the type `{}`", clean(kind)));
        let message = format!(
            "target `{}` responds to POST {} with a body{kind} that is no {expected}: {text}",
            self.target.name, self.url
        );
        let hint = if self.is_streamed && content_type == Some("application/json") {
            "if the endpoint cannot stream: `streaming: false` in the workload, or `assay bench --no-streaming`"
        } else {
            "is this the address of the API, and not of a web page or a gateway? A path prefix belongs to it, such as `/openai/v1`"
        };
        Failure::new(ErrorCode::EndpointProtocol, message).hint(hint)
    }

    fn place_failure(&self, custom: &CustomApi, text: &str) -> Failure {
        let message = format!(
            "target `{}` responds to POST {} with a document that has no text at `{}`: {text}",
            self.target.name,
            self.url,
            clean(&custom.text)
        );
        Failure::new(ErrorCode::EndpointProtocol, message).hint(
            "correct the place of the text, with `assay bench`: `--api-response text=PLACE`; in a workload: `custom.response.text`. It is names, and places of lists from 0, joined by dots",
        )
    }

    fn http2_failure(&self, why: &str) -> Failure {
        let message = format!(
            "target `{}` speaks HTTP/2 and not HTTP/1.1, over which load is sent: POST {}: {why}",
            self.target.name, self.url
        );
        Failure::new(ErrorCode::EndpointProtocol, message).hint(
            "use an address of the server that speaks HTTP/1.1: most servers have one, or a setting for it. A proxy in front of it that speaks HTTP/1.1 is measured together with it",
        )
    }

    fn redirect_failure(&self, response: &PartialResponse) -> Failure {
        let to = response
            .location
            .as_deref()
            .map_or_else(|| "an address that it does not name".to_owned(), |to| format!("`{}`", clean(to)));
        let status = Client::status_text(response.status);
        let message = format!("target `{}` redirects POST {} to {to} (`{status}`)", self.target.name, self.url);
        Failure::new(ErrorCode::EndpointRedirects, message).hint(
            "if that address is the endpoint's, use it as `url`; redirects are not followed, because headers may hold secrets",
        )
    }

    fn path_failure(&self, response: &PartialResponse, text: &str, identity: &Identity) -> Failure {
        let models = match &identity.models {
            Ok(models) => format!("; it lists {}", list_models(models)),
            Err(why) => format!("; it lists no models ({})", clean(why)),
        };
        let failure = self.failure(ErrorCode::EndpointPath, response, text);
        let message = failure.message + &models;
        Failure::new(ErrorCode::EndpointPath, message).hint(format!(
            "does the endpoint serve `{}` below another path, or another model? The path is that of `url`, and `/v1` if it names no version",
            self.path
        ))
    }

    fn rejection(&self, response: &PartialResponse, text: &str) -> Failure {
        let failure = self.failure(ErrorCode::EndpointRejects, response, text);
        let body = String::from_utf8_lossy(&response.body.bytes);
        if body.contains("ignore_eos") || body.contains("min_tokens") {
            return failure.hint(
                "the endpoint does not know `ignore_eos` or `min_tokens`: `exact_output: false` in the workload, or `assay bench \
                 --no-exact-output`, leaves them out",
            );
        }
        failure.hint("the message is the endpoint's own; a setting of the workload makes the request invalid for it")
    }

    fn failure(&self, code: ErrorCode, response: &PartialResponse, text: &str) -> Failure {
        Failure::new(code, format!("target `{}` refuses a test request: {}", self.target.name, self.describe(response, text)))
    }

    fn describe(&self, response: &PartialResponse, text: &str) -> String {
        format!("POST {} returned `{}`: {text}", self.url, Client::status_text(response.status))
    }

    /// Returns the endpoint's error message, or the first line of the body.
    fn describe_body(&self, response: &PartialResponse) -> String {
        if let Some(encoding) = &response.content_encoding {
            return format!("a body of the content encoding `{}`", clean(encoding));
        }
        if let Some(message) = self.api.error_message(&response.body.bytes) {
            return clean(&message);
        }
        let text = String::from_utf8_lossy(&response.body.bytes);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.map_or_else(|| "an empty body".to_owned(), clean)
    }
}

/// Returns the text on one line, without control characters and directional marks, and cut.
fn clean(text: &str) -> String {
    let is_mark =
        |character| matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_unsafe = |character: char| character.is_control() || is_mark(character);
    let plain: String = text.chars().map(|character| if is_unsafe(character) { ' ' } else { character }).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut cut: String = plain.chars().take(MAX_TEXT).collect();
    if cut.len() < plain.len() {
        cut.push('…');
    }
    cut
}

fn is_json(content_type: &str) -> bool {
    content_type == "application/json" || content_type.ends_with("+json")
}

fn starts_document(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[cfg(test)]
mod tests;
