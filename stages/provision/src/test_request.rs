//! Test requests: before anything is measured, an endpoint gets one request of each kind that the run will send.
//!
//! A request that an endpoint refuses once, it refuses always: a wrong key, path or field is a failure of the run, with the remedy.
//! An endpoint that is overloaded or fails may still be measured, because its failures are a result: this is tried again a few
//! times, and reported.

use std::collections::BTreeSet;
use std::time::Duration;

use assay_api::InputKind;
use assay_manifest::{Count, Plan, Probe, ServingApi, ServingWork, Target};
use assay_probe::{Client, Identity, JsonRequest, Limits, PartialResponse, RequestError, endpoint_url};
use assay_stage::{Context, ErrorCode, Event, Failure};

use crate::models::list_models;

/// The `x-request-id` of a test request, by which an endpoint's log tells it from the load: `assay test req.` in ASCII.
const REQUEST_ID: u128 = u128::from_be_bytes(*b"assay test req. ");

/// The input of a test request.
const INPUT: &str = "Hello";

/// The output tokens of a test request.
const OUTPUT_TOKENS: u32 = 1;

/// The longest wait for a response; a shorter request timeout of the workload is kept.
const TIME: Duration = Duration::from_secs(30);

/// The bytes of a response that are read.
const BYTES: u64 = 64 << 10;

/// The pauses before a request is sent again. An endpoint may ask for another one, up to [`MAX_PAUSE`].
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

/// The longest pause that an endpoint may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The characters of an endpoint's text in a message.
const MAX_TEXT: usize = 200;

/// One kind of request: its path, its body, and the format of its response.
struct TestRequest<'a> {
    target: &'a Target,
    api: ServingApi,
    is_streamed: bool,
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
        let request = TestRequest::new(target, &work.for_server(identity.server.value.as_deref()), address);
        if sent.insert((request.url.clone(), request.body.clone())) {
            probes.push(request.send(ctx, client, identity)?);
        }
    }
    Ok(probes)
}

impl<'a> TestRequest<'a> {
    fn new(target: &'a Target, work: &ServingWork, address: &str) -> Self {
        let capabilities = work.api.capabilities();
        let query = (capabilities.input == InputKind::QueryAndDocuments).then_some(INPUT);
        let inputs = vec![INPUT.to_owned(); work.documents() as usize];
        let output_tokens = capabilities.has_output_tokens.then_some(OUTPUT_TOKENS);
        Self {
            target,
            api: work.api,
            is_streamed: work.is_streamed(),
            url: endpoint_url(address, work.api.path()),
            body: work.request_body(query, &inputs, output_tokens),
            time: Duration::from_nanos(work.timeout_ns.0).min(TIME),
        }
    }

    /// Sends the request until the endpoint accepts or refuses it; if it is unavailable, a few times.
    fn send(&self, ctx: &Context, client: &Client, identity: &Identity) -> Result<Probe, Failure> {
        let watch = ctx.clock().start();
        let limits = Limits { time: self.time, bytes: BYTES };
        let accept = if self.is_streamed { "text/event-stream" } else { "application/json" };
        let request = JsonRequest { accept, request_id: REQUEST_ID, body: &self.body };
        let mut pauses = PAUSES.into_iter();
        loop {
            ctx.check_cancelled()?;
            let response = client.post_json(&self.url, &request, limits, |body| self.is_streamed && has_data(body));
            let asked = response.as_ref().ok().and_then(|response| response.retry_after_s).map(Duration::from_secs);
            let probe = |ready: bool, response: String| Probe {
                request: format!("POST {} (test request)", self.url),
                ready,
                response,
                waited_ns: Count(watch.elapsed_ns()),
            };
            match self.judge(response, identity) {
                Verdict::Accepted(response) => return Ok(probe(true, response)),
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

    fn warning(&self, why: &str) -> String {
        format!("target `{}` fails a test request, and is measured all the same: {why}", self.target.name)
    }

    fn judge(&self, response: Result<PartialResponse, RequestError>, identity: &Identity) -> Verdict {
        let response = match response {
            Ok(response) => response,
            Err(RequestError::Tls(why)) => {
                let message = format!("target `{}` cannot be reached over TLS: {}", self.target.name, clean(&why));
                return Verdict::Refused(Failure::new(ErrorCode::EndpointProtocol, message).hint(
                    "does the address need `http`? `SSL_CERT_FILE` names certificate authorities to trust; `insecure_skip_tls_verify: true` accepts any certificate",
                ));
            }
            Err(error) => return Verdict::Unavailable(format!("POST {}: {}", self.url, clean(&error.to_string()))),
        };
        let text = self.describe_body(&response.body);
        match response.status {
            200..=299 => self.judge_body(&response, &text),
            300..=399 => Verdict::Refused(self.redirect_failure(&response)),
            401 | 403 | 407 => Verdict::Refused(self.failure(ErrorCode::EndpointUnauthorized, &response, &text).hint(
                "with `assay bench`: `--api-key` or `--header`; in a pipeline: the target's `headers`, such as \
                 `authorization: {from_env: NAME, scheme: Bearer}`",
            )),
            404 | 405 | 410 => Verdict::Refused(self.path_failure(&response, &text, identity)),
            408 | 425 | 429 => Verdict::Unavailable(self.describe(&response, &text)),
            400..=499 => Verdict::Refused(self.rejection(&response, &text)),
            _ => Verdict::Unavailable(self.describe(&response, &text)),
        }
    }

    /// Judges a response of success by its body.
    fn judge_body(&self, response: &PartialResponse, text: &str) -> Verdict {
        let status = Client::status_text(response.status);
        if response.body.is_empty() {
            return Verdict::Unavailable(format!("POST {} returned `{status}` with an empty body", self.url));
        }
        let content_type = response.content_type.as_deref();
        let is_expected = match (self.is_streamed, content_type) {
            (true, Some("text/event-stream") | None) => has_data(&response.body),
            (false, Some(kind)) if kind == "application/json" || kind.ends_with("+json") => starts_document(&response.body),
            (false, None) => starts_document(&response.body),
            _ => false,
        };
        let expected = if self.is_streamed { "event stream" } else { "JSON document" };
        let document = if self.is_streamed { first_data(&response.body) } else { &response.body };
        if let Some(error) = self.api.error_message(document).filter(|_| is_expected) {
            return Verdict::Unavailable(format!("POST {} returned `{status}` with an error: {}", self.url, clean(&error)));
        }
        if is_expected {
            return Verdict::Accepted(format!(
                "{status}, {}",
                if self.is_streamed { "an event stream" } else { "a JSON document" }
            ));
        }
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
        Verdict::Refused(Failure::new(ErrorCode::EndpointProtocol, message).hint(hint))
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
            self.api.path()
        ))
    }

    fn rejection(&self, response: &PartialResponse, text: &str) -> Failure {
        let failure = self.failure(ErrorCode::EndpointRejects, response, text);
        let body = String::from_utf8_lossy(&response.body);
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
    fn describe_body(&self, body: &[u8]) -> String {
        if let Some(message) = self.api.error_message(body) {
            return clean(&message);
        }
        let text = String::from_utf8_lossy(body);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.map_or_else(|| "an empty body".to_owned(), clean)
    }
}

/// Returns the text on one line, without control characters, and cut.
fn clean(text: &str) -> String {
    let is_unsafe =
        |character: char| character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain: String = text.chars().map(|character| if is_unsafe(character) { ' ' } else { character }).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut cut: String = plain.chars().take(MAX_TEXT).collect();
    if cut.len() < plain.len() {
        cut.push('…');
    }
    cut
}

/// Returns true if the beginning of a stream has a complete line of data.
fn has_data(body: &[u8]) -> bool {
    complete_lines(body).any(|line| line.starts_with(b"data:"))
}

/// Returns the first line of data; empty if there is none.
fn first_data(body: &[u8]) -> &[u8] {
    complete_lines(body).find_map(|line| line.strip_prefix(b"data:")).unwrap_or_default()
}

fn complete_lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let complete = body.iter().rposition(is_end).and_then(|end| body.get(..end)).unwrap_or_default();
    complete.split(move |byte| is_end(byte))
}

fn starts_document(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[cfg(test)]
mod tests;
