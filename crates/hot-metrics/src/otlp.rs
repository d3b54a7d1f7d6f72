//! OTLP metrics over HTTP: an `ExportMetricsServiceRequest` in protobuf, in a POST request.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/>, field numbers by opentelemetry-proto 1.x. The messages have the fields that gauges
//! need. Names are those of Prometheus, which state their unit; the field `unit` stays empty, because receivers that translate to Prometheus
//! would append it to the name once more.

use prost::Message;

use crate::batch::Batch;
use crate::error::{Error, Result, clean};
use crate::protocol::{Protocol, Request};

/// The most gauges of one request.
const MAX_GAUGES: usize = 100;

const HEADERS: &[(&str, &str)] = &[("content-type", "application/x-protobuf")];

pub(crate) struct Otlp;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceMetrics {
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    /// The only kind of data that is sent: of the message's `oneof`, a message like any other on the wire.
    #[prost(message, optional, tag = "5")]
    pub(crate) gauge: Option<Gauge>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<DataPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DataPoint {
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    /// Optional, so that a value of 0 is on the wire: it is one of a `oneof`.
    #[prost(double, optional, tag = "4")]
    pub(crate) as_double: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub(crate) string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_data_points: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

impl Protocol for Otlp {
    fn requests(&self, url: &str, batch: &Batch) -> Result<Vec<Request>> {
        let request = |metrics: &[Metric]| {
            let points = |metric: &Metric| metric.gauge.as_ref().map_or(0, |gauge| gauge.data_points.len() as u64);
            let scope = Some(Scope { name: "assay".to_owned() });
            let scope_metrics = vec![ScopeMetrics { scope, metrics: metrics.to_vec() }];
            let message = ExportRequest { resource_metrics: vec![ResourceMetrics { scope_metrics }] };
            Request {
                url: url.to_owned(),
                replaces: false,
                headers: HEADERS,
                body: message.encode_to_vec(),
                series: metrics.iter().map(points).sum(),
            }
        };
        Ok(metrics(batch).chunks(MAX_GAUGES).map(request).collect())
    }

    fn check_response(&self, body: &[u8]) -> Result<()> {
        // A server may respond with an empty message, and some respond with a text.
        let Ok(response) = ExportResponse::decode(body) else { return Ok(()) };
        match response.partial_success {
            Some(partial) if partial.rejected_data_points > 0 => Err(Error::Rejected {
                rejected: partial.rejected_data_points.unsigned_abs(),
                text: clean(&partial.error_message),
            }),
            _ => Ok(()),
        }
    }
}

fn metrics(batch: &Batch) -> Vec<Metric> {
    let time_unix_nano = u64::try_from(batch.at.unix_ns()).unwrap_or(0);
    let text = |value: &str| Some(AnyValue { string_value: Some(value.to_owned()) });
    let metric = |(name, gauge): (&String, &crate::batch::Gauge)| {
        let data_points = gauge.samples.iter().map(|sample| DataPoint {
            time_unix_nano,
            as_double: Some(sample.value),
            attributes: sample
                .labels
                .iter()
                .map(|(label, value)| KeyValue { key: label.as_str().to_owned(), value: text(value) })
                .collect(),
        });
        Metric { name: name.clone(), description: gauge.help.clone(), gauge: Some(Gauge { data_points: data_points.collect() }) }
    };
    batch.gauges.iter().map(metric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use assay_spec::HotLabel::{BenchmarkCaseId, RunId};
    use proptest::prelude::*;

    use crate::batch::tests::batch;

    #[test]
    fn a_gauge_has_its_points_with_their_attributes() {
        let some = batch(&[
            ("assay_x_seconds", &[(RunId, "one"), (BenchmarkCaseId, "a.b.c")], 1.5),
            ("assay_x_seconds", &[(RunId, "one"), (BenchmarkCaseId, "d.e.f")], 0.0),
        ]);
        let [request] = <[Request; 1]>::try_from(Otlp.requests("http://c/v1/metrics", &some).expect("encoded")).expect("one");
        assert_eq!(request.series, 2);
        let message = ExportRequest::decode(request.body.as_slice()).expect("a message");
        let metric = &message.resource_metrics[0].scope_metrics[0].metrics[0];
        assert_eq!((metric.name.as_str(), metric.description.as_str()), ("assay_x_seconds", "The assay_x_seconds."));
        let points = &metric.gauge.as_ref().expect("a gauge").data_points;
        assert_eq!(points.iter().map(|point| point.as_double).collect::<Vec<_>>(), [Some(1.5), Some(0.0)]);
        assert_eq!(points[0].time_unix_nano, 1_767_225_600_123_456_789);
        let keys: Vec<_> = points[0].attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        assert_eq!(keys, ["run_id", "benchmark_case_id"]);
    }

    #[test]
    fn rejected_points_of_an_accepted_request_are_a_failure() {
        let response = |rejected_data_points, error_message: &str| {
            let partial_success = Some(PartialSuccess { rejected_data_points, error_message: error_message.to_owned() });
            Otlp.check_response(&ExportResponse { partial_success }.encode_to_vec())
        };
        assert_eq!(response(3, "too\nold").expect_err("refused").to_string(), "it rejected 3 series: too old");
        response(0, "a warning").expect("nothing was rejected");
        Otlp.check_response(b"").expect("an empty message");
        Otlp.check_response(b"{}").expect("a text");
    }

    proptest! {
        #[test]
        fn any_response_is_survived(body: Vec<u8>) {
            let _ = Otlp.check_response(&body);
        }
    }
}
