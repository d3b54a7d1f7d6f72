//! Spans of the servers under test (`telemetry: [{name, otlp: "127.0.0.1:4318"}]`): the recorder receives them as OTLP over HTTP.
//!
//! The client sends the id of each request as the trace id of its header `traceparent` (W3C Trace Context), so a server that is
//! instrumented with OpenTelemetry says by the trace id of which request a span is. The recording keeps of each span its ids, times and
//! name, and no attributes, which may hold prompts. A span is of no single moment, so it is in no slice: [`each_span`] reads them all.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/>, field numbers by opentelemetry-proto 1.x.

use std::fmt;

use assay_manifest::{Artifact, Case, Environment, Plan};
use prost::Message;
use serde::Deserialize;

use crate::ReadError;
use crate::metric::{MetricKind, Observed, unit_by_name};
use crate::recording::{BlockSource, MergedReadings, OpenArtifact, ReadingBody, by_place};
use crate::source::{Sampled, Sampling, Source, SourceKind};
use crate::text::cut;

/// The path that spans are sent to.
pub const PATH: &str = "/v1/traces";

/// The most spans of one request.
pub const MAX_SPANS: usize = 50_000;

/// The longest name of a span that is kept, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// The beginning of a line about something that was refused.
const REFUSAL: &str = "# ";

/// The spans of the servers under test.
pub(crate) struct Traces;

impl SourceKind for Traces {
    fn word(&self) -> &'static str {
        "otlp"
    }

    fn noun(&self) -> &'static str {
        "receiver"
    }

    fn sampled(&self, plan: &Plan, _: &Environment) -> Vec<Sampled> {
        let sampled =
            |(source, address): (Source, &str)| Sampled { source, sampling: Sampling::Otlp { address: address.to_owned() } };
        receivers(plan).map(sampled).collect()
    }

    /// Returns every receiver of the plan: each is open during all attempts.
    fn observing(&self, plan: &Plan, _: Option<&Environment>, _: Option<&Case>) -> Vec<Source> {
        receivers(plan).map(|(source, _)| source).collect()
    }

    fn scope_kind(&self) -> &'static str {
        "endpoint"
    }

    /// Returns none: the spans of a reading are of other times.
    fn observed(&self, _: &ReadingBody) -> Observed {
        Observed::default()
    }

    fn unit(&self, metric: &str, kind: MetricKind) -> String {
        unit_by_name(metric, kind)
    }
}

fn receivers(plan: &Plan) -> impl Iterator<Item = (Source, &str)> {
    plan.telemetry.iter().filter_map(|source| Some((Source::traces(&source.name), source.otlp.as_deref()?)))
}

/// A span of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace: for a span of a request, the request's id.
    pub trace_id: u128,
    /// Its id.
    pub span_id: u64,
    /// The span that it is part of; 0 for none.
    pub parent_id: u64,
    /// Its start, in nanoseconds since 1970 by the server's clock.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Its name, cut, without control characters.
    pub name: String,
}

impl Span {
    /// Returns its duration in nanoseconds; `None` if it ends before it begins.
    pub fn duration_ns(&self) -> Option<u64> {
        self.end_ns.checked_sub(self.start_ns)
    }

    /// Parses a line of a recording.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        Some(Self {
            trace_id: u128::from_str_radix(words.next()?, 16).ok()?,
            span_id: u64::from_str_radix(words.next()?, 16).ok()?,
            parent_id: u64::from_str_radix(words.next()?, 16).ok()?,
            start_ns: words.next()?.parse().ok()?,
            end_ns: words.next()?.parse().ok()?,
            name: words.next()?.to_owned(),
        })
    }
}

/// Displays a span as a line of a recording.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace_id, span_id, parent_id, start_ns, end_ns, name } = self;
        write!(f, "{trace_id:032x} {span_id:016x} {parent_id:016x} {start_ns} {end_ns} {name}")
    }
}

/// The encoding of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Protobuf.
    Protobuf,
    /// JSON.
    Json,
}

impl Encoding {
    /// Returns the encoding of a `content-type`; `None` if it is another one.
    pub fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/x-protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The reason why a request has no spans that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// It is no protobuf of spans.
    #[error("the request is no `ExportTraceServiceRequest`")]
    Protobuf(#[source] prost::DecodeError),
    /// It is no JSON of spans.
    #[error("the request is no `ExportTraceServiceRequest` in JSON")]
    Json(#[source] serde_json::Error),
    /// It has too many spans.
    #[error("the request has {0} spans; at most {MAX_SPANS} are read")]
    TooMany(usize),
}

/// The spans of a request, and the number of those that have no usable ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReceivedSpans {
    /// The spans.
    pub spans: Vec<Span>,
    /// Those whose ids are none.
    pub refused: u64,
}

/// Reads the spans of a request.
///
/// # Errors
/// If the body is not of its encoding, or has more spans than the limit.
pub fn parse_spans(encoding: Encoding, body: &[u8]) -> Result<ReceivedSpans, SpanError> {
    let request = match encoding {
        Encoding::Protobuf => ExportRequest::decode(body).map_err(SpanError::Protobuf)?,
        Encoding::Json => serde_json::from_slice::<JsonRequest>(body).map_err(SpanError::Json)?.into_message(),
    };
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    let sent: Vec<SpanMessage> = scopes.flat_map(|scope| scope.spans).collect();
    if sent.len() > MAX_SPANS {
        return Err(SpanError::TooMany(sent.len()));
    }
    let count = sent.len();
    let spans: Vec<Span> = sent.into_iter().filter_map(SpanMessage::into_span).collect();
    Ok(ReceivedSpans { refused: (count - spans.len()) as u64, spans })
}

#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
}

impl SpanMessage {
    /// Returns `None` if its ids are none: an id of zeros is invalid (W3C Trace Context, 3.2.2).
    fn into_span(self) -> Option<Span> {
        let id = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).ok().map(u64::from_be_bytes);
        let trace_id = <[u8; 16]>::try_from(self.trace_id.as_slice()).ok().map(u128::from_be_bytes)?;
        let span_id = id(&self.span_id)?;
        (trace_id != 0 && span_id != 0).then(|| Span {
            trace_id,
            span_id,
            parent_id: id(&self.parent_span_id).unwrap_or(0),
            start_ns: self.start_time_unix_nano,
            end_ns: self.end_time_unix_nano,
            name: cut(&self.name, MAX_NAME_BYTES),
        })
    }
}

/// The same in JSON, in which ids are hexadecimal, and 64-bit numbers are texts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonRequest {
    #[serde(default)]
    resource_spans: Vec<JsonResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonResource {
    #[serde(default)]
    scope_spans: Vec<JsonScope>,
}

#[derive(Deserialize)]
struct JsonScope {
    #[serde(default)]
    spans: Vec<JsonSpan>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct JsonSpan {
    trace_id: String,
    span_id: String,
    parent_span_id: String,
    name: String,
    start_time_unix_nano: serde_json::Value,
    end_time_unix_nano: serde_json::Value,
}

impl JsonRequest {
    fn into_message(self) -> ExportRequest {
        let spans = |scope: JsonScope| ScopeSpans { spans: scope.spans.into_iter().map(JsonSpan::into_message).collect() };
        let scopes =
            |resource: JsonResource| ResourceSpans { scope_spans: resource.scope_spans.into_iter().map(spans).collect() };
        ExportRequest { resource_spans: self.resource_spans.into_iter().map(scopes).collect() }
    }
}

impl JsonSpan {
    fn into_message(self) -> SpanMessage {
        let number = |value: &serde_json::Value| value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0);
        SpanMessage {
            trace_id: bytes(&self.trace_id),
            span_id: bytes(&self.span_id),
            parent_span_id: bytes(&self.parent_span_id),
            start_time_unix_nano: number(&self.start_time_unix_nano),
            end_time_unix_nano: number(&self.end_time_unix_nano),
            name: self.name,
        }
    }
}

/// Returns the bytes of hexadecimal digits; none if there are other characters, or more than an id has.
fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    if hex.len() > 32 { Vec::new() } else { hex.as_bytes().chunks(2).map(pair).collect::<Option<_>>().unwrap_or_default() }
}

/// Returns the line of a recording that stands in the place of something that was refused.
pub fn refusal_line(why: &str) -> String {
    format!("{REFUSAL}{}", why.lines().collect::<Vec<_>>().join(" "))
}

/// The refusals of a receiver in a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The number of lines about it.
    pub count: u64,
    /// The first reason.
    pub first: Option<String>,
}

/// Calls `visit` with every span that a receiver got in a block, in the order in which they were received.
///
/// # Errors
/// If a recording cannot be opened or read.
pub fn each_span<E>(
    evidence: &[Artifact],
    place: &BlockSource,
    open: &OpenArtifact<'_, E>,
    mut visit: impl FnMut(Span),
) -> Result<Refusals, ReadError<E>> {
    let mut refusals = Refusals::default();
    let Some(recorded) = by_place(evidence).remove(place) else { return Ok(refusals) };
    let mut readings = MergedReadings::open(&place.source, &recorded, open)?;
    while let Some(reading) = readings.next()? {
        let ReadingBody::Text(text) = &reading.body else { continue };
        for line in text.lines() {
            if let Some(why) = line.strip_prefix(REFUSAL) {
                refusals.count += 1;
                refusals.first.get_or_insert_with(|| why.to_owned());
            } else if let Some(span) = Span::parse(line) {
                visit(span);
            }
        }
    }
    Ok(refusals)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn span(name: &str) -> Span {
        Span { trace_id: 0xab, span_id: 1, parent_id: 2, start_ns: 1_000, end_ns: 3_500, name: name.to_owned() }
    }

    fn request(span: &Span) -> ExportRequest {
        let message = SpanMessage {
            trace_id: span.trace_id.to_be_bytes().to_vec(),
            span_id: span.span_id.to_be_bytes().to_vec(),
            parent_span_id: span.parent_id.to_be_bytes().to_vec(),
            name: span.name.clone(),
            start_time_unix_nano: span.start_ns,
            end_time_unix_nano: span.end_ns,
        };
        ExportRequest { resource_spans: vec![ResourceSpans { scope_spans: vec![ScopeSpans { spans: vec![message] }] }] }
    }

    #[test]
    fn both_encodings_have_the_same_spans() {
        let sent = span("llm request");
        let protobuf = parse_spans(Encoding::Protobuf, &request(&sent).encode_to_vec()).expect("spans");
        let json = json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "s"}, "spans": [{
            "traceId": "000000000000000000000000000000AB", "spanId": "0000000000000001", "parentSpanId": "0000000000000002", "kind": 2,
            "name": "llm request", "startTimeUnixNano": "1000", "endTimeUnixNano": 3500, "attributes": [{"key": "prompt", "value": {"stringValue": "secret"}}],
        }]}]}]});
        let json = parse_spans(Encoding::Json, json.to_string().as_bytes()).expect("spans");
        assert_eq!(protobuf, ReceivedSpans { spans: vec![sent], refused: 0 });
        assert_eq!(json, protobuf);
    }

    #[test]
    fn a_span_without_usable_ids_is_counted() {
        let of = |trace_id: &str, span_id: &str| {
            let json = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": trace_id, "spanId": span_id}]}]}]});
            parse_spans(Encoding::Json, json.to_string().as_bytes()).expect("spans").refused
        };
        let (trace, id) = ("000000000000000000000000000000ab", "0000000000000001");
        assert_eq!(of(trace, id), 0);
        for (trace_id, span_id) in
            [("", id), (trace, ""), ("xyz", id), (&"0".repeat(32), id), (trace, "0000000000000000"), (&"a".repeat(64), id)]
        {
            assert_eq!(of(trace_id, span_id), 1, "{trace_id} {span_id}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let refused = |encoding, body: &[u8]| parse_spans(encoding, body).expect_err("refused").to_string();
        insta::assert_snapshot!(refused(Encoding::Protobuf, b"\xff\xff"), @"the request is no `ExportTraceServiceRequest`");
        insta::assert_snapshot!(refused(Encoding::Json, b"1"), @"the request is no `ExportTraceServiceRequest` in JSON");
        let many = vec![json!({}); MAX_SPANS + 1];
        let many = json!({"resourceSpans": [{"scopeSpans": [{"spans": many}]}]}).to_string();
        insta::assert_snapshot!(refused(Encoding::Json, many.as_bytes()), @"the request has 50001 spans; at most 50000 are read");
        let of = |content_type: &str| Encoding::of(content_type);
        assert_eq!((of("application/json; charset=utf-8"), of("text/plain")), (Some(Encoding::Json), None));
        assert_eq!(of("application/x-protobuf"), Some(Encoding::Protobuf));
    }

    #[test]
    fn a_line_of_a_recording_is_a_span() {
        for name in ["llm request", "", "a  b "] {
            assert_eq!(Span::parse(&span(name).to_string()), Some(span(name)));
        }
        assert_eq!(span("a").duration_ns(), Some(2_500));
        assert_eq!(Span { end_ns: 0, ..span("a") }.duration_ns(), None);
        assert_eq!(cut("a\nb\u{7}", MAX_NAME_BYTES), "a b ");
        assert_eq!(cut(&"é".repeat(100), MAX_NAME_BYTES).len(), MAX_NAME_BYTES);
        for other in ["", "x", "ab 1 2 3 4", "ab 1 2 x 4 n"] {
            assert_eq!(Span::parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_spans(Encoding::Protobuf, &bytes);
            let _ = parse_spans(Encoding::Json, &bytes);
            let _ = Span::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
