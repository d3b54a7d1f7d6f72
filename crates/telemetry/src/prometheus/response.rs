//! The responses of the HTTP API of Prometheus. Any body is a value or a reason; the caller bounds its size.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::MAX_SERIES;

/// The longest text of a server that a message quotes, in characters.
const MAX_QUOTED: usize = 300;

/// The latest time that is read, in milliseconds: the end of what an instant of nanoseconds holds.
const MAX_MS: f64 = 9.2e15;

/// A series with its raw samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledSeries {
    /// The labels, without the name of the metric.
    pub labels: BTreeMap<String, String>,
    /// Times in milliseconds since 1970, and values, in the order of the response.
    pub samples: Vec<(i64, f64)>,
    /// True if samples are native histograms, which have no single value.
    pub has_histograms: bool,
}

/// The series of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesResponse {
    /// The series.
    pub series: Vec<SampledSeries>,
    /// The warnings of the server, such as that it did not reach a store.
    pub warnings: Vec<String>,
}

/// Parses a response with series: raw samples, or one value each.
pub fn parse_series(body: &str) -> Result<SeriesResponse, String> {
    let Envelope { data, warnings } = parse_envelope::<SeriesData<'_>>(body)?;
    if !matches!(data.result_type.as_ref(), "matrix" | "vector") {
        return Err(format!("the result is of the type `{}`, and series were asked for", shortened(&data.result_type)));
    }
    let series = data.result.into_iter().map(|item| SampledSeries {
        samples: item.values.into_iter().chain(item.value).map(|Sample(ms, value)| (ms, value)).collect(),
        labels: item.metric.into_iter().filter(|(label, _)| label != "__name__").collect(),
        has_histograms: item.histograms.is_some() || item.histogram.is_some(),
    });
    let warnings = warnings.unwrap_or_default().iter().map(|warning| shortened(warning)).collect();
    Ok(SeriesResponse { series: series.collect(), warnings })
}

/// Parses the response to `time()`: the server's time in nanoseconds since 1970.
pub fn parse_time(body: &str) -> Result<i64, String> {
    let Envelope { data, .. } = parse_envelope::<ScalarData<'_>>(body)?;
    if data.result_type != "scalar" {
        return Err(format!("the result is of the type `{}`, and a time was asked for", shortened(&data.result_type)));
    }
    let Sample(_, seconds) = data.result;
    let is_time = (0.0..MAX_MS / 1e3).contains(&seconds);
    if is_time { Ok((seconds * 1e3).round() as i64 * 1_000_000) } else { Err("the server's time is no time".to_owned()) }
}

/// Returns the body of a successful response as text, else the reason why it cannot be used: the status for people, and what the
/// server says if it is a Prometheus. Text with characters that no JSON has would take six times its size on a line of the evidence.
pub fn read_body(is_success: bool, status: &str, body: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(body);
    if is_success {
        let text = text.map_err(|_| "the response is not UTF-8".to_owned())?;
        let is_control = |byte: u8| byte.is_ascii_control() && !b"\t\n\r".contains(&byte);
        return if text.bytes().any(is_control) { Err("the response has control characters".to_owned()) } else { Ok(text) };
    }
    let message = text.ok().and_then(|text| error_message(&text));
    Err(message.map_or_else(|| status.to_owned(), |message| format!("{status}: {message}")))
}

/// Returns the message of a response with an error, if it is one of Prometheus.
fn error_message(body: &str) -> Option<String> {
    serde_json::from_str::<ErrorBody<'_>>(body).ok()?.error.map(|error| shortened(&error))
}

#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
}

struct Envelope<T> {
    data: T,
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Body<'a, T> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    data: Option<T>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    warnings: Option<Vec<String>>,
}

fn parse_envelope<'a, T: Deserialize<'a>>(body: &'a str) -> Result<Envelope<T>, String> {
    let parsed: Result<Body<'a, T>, _> = serde_json::from_str(body);
    let Body { status, data, error, warnings } =
        parsed.map_err(|error| format!("the response is none of Prometheus: {}", shortened(&error.to_string())))?;
    match (data, error) {
        (Some(data), None) if status == "success" => Ok(Envelope { data, warnings }),
        (_, Some(error)) => Err(format!("the server says: {}", shortened(&error))),
        _ => Err("the response states neither a result nor an error".to_owned()),
    }
}

#[derive(Deserialize)]
struct SeriesData<'a> {
    #[serde(rename = "resultType", borrow)]
    result_type: Cow<'a, str>,
    #[serde(deserialize_with = "items")]
    result: Vec<Item>,
}

/// Reads the series of a response, up to the limit.
fn items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Item>, D::Error> {
    struct Items;

    impl<'de> Visitor<'de> for Items {
        type Value = Vec<Item>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of series")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Item>, A::Error> {
            let mut read = Vec::new();
            while let Some(item) = items.next_element()? {
                if read.len() == MAX_SERIES {
                    return Err(serde::de::Error::custom(format_args!("it has more than {MAX_SERIES} series")));
                }
                read.push(item);
            }
            Ok(read)
        }
    }

    deserializer.deserialize_seq(Items)
}

#[derive(Deserialize)]
struct ScalarData<'a> {
    #[serde(rename = "resultType", borrow)]
    result_type: Cow<'a, str>,
    result: Sample,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<Sample>,
    value: Option<Sample>,
    histograms: Option<IgnoredAny>,
    histogram: Option<IgnoredAny>,
}

/// A time in milliseconds and a value: `[1435781451.781, "1"]`.
struct Sample(i64, f64);

impl<'de> Deserialize<'de> for Sample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, SampleVisitor)
    }
}

struct SampleVisitor;

impl<'de> Visitor<'de> for SampleVisitor {
    type Value = Sample;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time and a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Sample, A::Error> {
        let missing = || serde::de::Error::custom("a sample has no time or no value");
        let ms = items.next_element::<f64>()?.ok_or_else(missing)? * 1e3;
        let NumberText(value) = items.next_element()?.ok_or_else(missing)?;
        if ms.abs() > MAX_MS {
            return Err(serde::de::Error::custom("the time of a sample is no time"));
        }
        Ok(Sample(ms.round() as i64, value))
    }
}

/// A number that is written as text, so that it may be NaN or infinite.
struct NumberText(f64);

impl<'de> Deserialize<'de> for NumberText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = NumberText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number as text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<NumberText, E> {
        text.parse().map(NumberText).map_err(|_| E::custom("the value of a sample is no number"))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_QUOTED).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A response of Prometheus 2.42 to `up[3s]`.
    const MATRIX: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up","instance":"127.0.0.1:9100","job":"node"},"values":[[1700000000.123,"1"],[1700000001.124,"NaN"],[1700000002.1235,"+Inf"]]}]}}"#;

    #[test]
    fn raw_samples_have_their_own_times() {
        let SeriesResponse { series, warnings } = parse_series(MATRIX).expect("a response");
        let [up] = series.as_slice() else { panic!("{series:?}") };
        assert_eq!(up.labels.keys().collect::<Vec<_>>(), ["instance", "job"]);
        assert_eq!(up.samples[0], (1_700_000_000_123, 1.0));
        assert!(up.samples[1].1.is_nan() && up.samples[2].1.is_infinite());
        assert!(warnings.is_empty());
    }

    #[test]
    fn instant_values_warnings_and_histograms_are_read() {
        let vector = r#"{"status":"success","warnings":["a store is down"],"data":{"result":[{"metric":{},"value":[1.5,"4"]}],"resultType":"vector"}}"#;
        let read = parse_series(vector).expect("a response");
        assert_eq!(
            (read.series[0].samples.as_slice(), read.warnings.as_slice()),
            (&[(1500, 4.0)][..], &["a store is down".to_owned()][..])
        );
        let histogram =
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"histograms":[[1,{"count":"1"}]]}]}}"#;
        assert!(parse_series(histogram).expect("a response").series[0].has_histograms);
    }

    #[test]
    fn the_time_of_the_server_has_milliseconds() {
        let time =
            |result: &str| parse_time(&format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":{result}}}}}"#));
        assert_eq!(time(r#"[1700000000.25,"1700000000.25"]"#), Ok(1_700_000_000_250_000_000));
        for text in ["NaN", "-1", "1e300"] {
            assert_eq!(time(&format!("[1,\"{text}\"]")), Err("the server's time is no time".to_owned()));
        }
    }

    #[test]
    fn what_is_no_response_of_prometheus_is_refused_by_its_reason() {
        let refused = |body: &str| {
            let why = parse_series(body).expect_err("refused");
            why.split(" at line ").next().unwrap_or_default().to_owned()
        };
        insta::assert_snapshot!(refused("<html>sign in</html>"), @"the response is none of Prometheus: expected value");
        insta::assert_snapshot!(refused(r#"{"status":"error","errorType":"execution","error":"query timed out"}"#), @"the server says: query timed out");
        insta::assert_snapshot!(refused(r#"{"status":"success"}"#), @"the response states neither a result nor an error");
        insta::assert_snapshot!(refused(&MATRIX.replace("matrix", "streams")), @"the result is of the type `streams`, and series were asked for");
        insta::assert_snapshot!(refused(&MATRIX.replace("\"1\"", "1")), @"the response is none of Prometheus: invalid type: integer `1`, expected a number as text");
        insta::assert_snapshot!(refused(&MATRIX.replace("1700000000.123", "1e300")), @"the response is none of Prometheus: the time of a sample is no time");
        let many = vec![r#"{"metric":{}}"#; MAX_SERIES + 1].join(",");
        let many = format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{many}]}}}}"#);
        insta::assert_snapshot!(refused(&many), @"the response is none of Prometheus: it has more than 100000 series");
        assert_eq!(read_body(true, "200 OK", vec![b'a', 1]), Err("the response has control characters".to_owned()));
        assert_eq!(read_body(true, "200 OK", b"{\r\n\t}".to_vec()), Ok("{\r\n\t}".to_owned()));
        insta::assert_snapshot!(refused(&"[".repeat(100_000)), @"the response is none of Prometheus: invalid type: sequence, expected a string");
        assert_eq!(error_message(r#"{"status":"error","error":"no"}"#).as_deref(), Some("no"));
        assert_eq!(error_message("502 Bad Gateway"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_response_or_refused(text in ".{0,200}") {
            let _ = (parse_series(&text), parse_time(&text), error_message(&text));
        }
    }
}
