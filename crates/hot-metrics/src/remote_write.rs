//! Prometheus remote write 1.0: a `WriteRequest` in protobuf, compressed as one block of Snappy, in a POST request.
//!
//! Source: <https://prometheus.io/docs/specs/prw/remote_write_spec/>. Labels are sorted by name, and the name of the metric is one of them.

use prost::Message;

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::protocol::{Protocol, Request};

/// The most series of one request. Receivers limit the size of requests, and Prometheus itself sends no more by default.
const MAX_SERIES: usize = 500;

const HEADERS: &[(&str, &str)] =
    &[("content-type", "application/x-protobuf"), ("content-encoding", "snappy"), ("x-prometheus-remote-write-version", "0.1.0")];

pub(crate) struct RemoteWrite;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    pub(crate) labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Label {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sample {
    #[prost(double, tag = "1")]
    pub(crate) value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    pub(crate) timestamp: i64,
}

impl Protocol for RemoteWrite {
    fn requests(&self, url: &str, batch: &Batch) -> Result<Vec<Request>> {
        let all = series(batch);
        let request = |part: &[TimeSeries]| {
            let encoded = WriteRequest { timeseries: part.to_vec() }.encode_to_vec();
            let body = snap::raw::Encoder::new().compress_vec(&encoded).map_err(|error| Error::Encode(error.to_string()))?;
            Ok(Request { url: url.to_owned(), replaces: false, headers: HEADERS, body, series: part.len() as u64 })
        };
        all.chunks(MAX_SERIES).map(request).collect()
    }
}

fn series(batch: &Batch) -> Vec<TimeSeries> {
    let timestamp = batch.unix_ms();
    let mut all = Vec::new();
    for (name, gauge) in &batch.gauges {
        for sample in &gauge.samples {
            let mut labels = vec![Label { name: "__name__".to_owned(), value: name.clone() }];
            labels.extend(
                sample.labels.iter().map(|(label, value)| Label { name: label.as_str().to_owned(), value: value.clone() }),
            );
            labels.sort_by(|a, b| a.name.cmp(&b.name));
            all.push(TimeSeries { labels, samples: vec![Sample { value: sample.value, timestamp }] });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    use assay_spec::HotLabel::{BenchmarkCaseId, RunId};

    use crate::batch::tests::batch;

    fn decoded(request: &Request) -> WriteRequest {
        let bytes = snap::raw::Decoder::new().decompress_vec(&request.body).expect("one block of Snappy");
        WriteRequest::decode(bytes.as_slice()).expect("a message")
    }

    #[test]
    fn a_series_has_sorted_labels_and_one_sample() {
        let one = batch(&[("assay_x_seconds", &[(RunId, "one"), (BenchmarkCaseId, "a.b.c")], 1.5)]);
        let requests = RemoteWrite.requests("http://p/api/v1/write", &one).expect("encoded");
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!((request.replaces, request.series, request.url.as_str()), (false, 1, "http://p/api/v1/write"));
        let decoded = decoded(request);
        let labels: Vec<_> =
            decoded.timeseries[0].labels.iter().map(|label| (label.name.as_str(), label.value.as_str())).collect();
        assert_eq!(labels, [("__name__", "assay_x_seconds"), ("benchmark_case_id", "a.b.c"), ("run_id", "one")]);
        assert_eq!(decoded.timeseries[0].samples, [Sample { value: 1.5, timestamp: 1_767_225_600_123 }]);
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        // Written by hand from the field numbers of the specification: 1.1.{1,2} labels, 1.2.{1,2} sample.
        let one = batch(&[("a", &[], 1.0)]);
        let [request] = <[Request; 1]>::try_from(RemoteWrite.requests("http://p", &one).expect("encoded")).expect("one");
        let bytes = snap::raw::Decoder::new().decompress_vec(&request.body).expect("Snappy");
        let mut expected = vec![0x0a, 0x21, 0x0a, 0x0d, 0x0a, 0x08];
        expected.extend(b"__name__");
        expected.extend([0x12, 0x01, b'a', 0x12, 0x10, 0x09]);
        expected.extend(1f64.to_le_bytes());
        expected.push(0x10);
        let mut rest = 1_767_225_600_123u64;
        while rest >= 0x80 {
            expected.push((rest as u8 & 0x7f) | 0x80);
            rest >>= 7;
        }
        expected.push(rest as u8);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn many_series_are_several_requests() {
        let names: Vec<_> = (0..1201).map(|index| format!("assay_{index:04}")).collect();
        let many = batch(&names.iter().map(|name| (name.as_str(), &[][..], 0.0)).collect::<Vec<_>>());
        let requests = RemoteWrite.requests("http://p", &many).expect("encoded");
        assert_eq!(requests.iter().map(|request| request.series).collect::<Vec<_>>(), [500, 500, 201]);
        assert_eq!(requests.iter().map(|request| decoded(request).timeseries.len()).sum::<usize>(), 1201);
    }
}
