//! The telemetry sources that a pipeline names: exporters, and Prometheus servers with the queries of query packs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Count, Digest, EnvVar, Name, PinnedFile, TargetTls};

words!(
    /// The interpretation of a query's samples.
    QueryKind, "kind of a query",
    /// A state at the moment of the sample.
    Gauge = "gauge",
    /// A count since some beginning, of which only the increase per second is meaningful.
    Counter = "counter",
    /// A counter whose increase per second is a share of at most 1.
    Share = "share",
);

words!(
    /// The value that is made of several series of one object at one time.
    SeriesFold, "fold of a query",
    /// Their sum.
    Sum = "sum",
    /// The largest of them.
    Max = "max",
    /// The smallest of them.
    Min = "min",
);

words!(
    /// The kind of object that a query observes.
    ScopeKind, "kind of scope",
    /// A machine.
    Node = "node",
    /// A GPU.
    Gpu = "gpu",
    /// A pod.
    Pod = "pod",
    /// A process of a distributed program.
    Rank = "rank",
    /// A server under load.
    Endpoint = "endpoint",
    /// A queue of a scheduler.
    Queue = "queue",
);

/// A telemetry source: an exporter, whose counters are recorded while trials run; the GPUs of the recorder's machine, or spans that it
/// receives, which are recorded as well; a Prometheus, from which collect reads the samples of each attempt afterwards; or the accounting of
/// a Slurm job, which collect reads once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySource {
    /// Its name, which is part of the source `exporter/NAME`, `nvidia-smi/NAME`, `otlp/NAME` or `prometheus/NAME` of its rows.
    pub name: Name,
    /// The address of an exporter's counters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scrape: Option<String>,
    /// The Prometheus with its queries.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prometheus: Option<PrometheusSource>,
    /// True for the GPUs of the recorder's machine, as `nvidia-smi` reports them.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub nvidia_smi: bool,
    /// The loopback address at which the recorder receives spans of the servers under test.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub otlp: Option<String>,
    /// The accounting of the Slurm job that the run is in: `command`, or the path of a file of `sacct --json`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sacct: Option<String>,
}

/// A Prometheus, or another server with its HTTP API, and the queries that it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusSource {
    /// The address, before the path `/api/v1/query`.
    pub url: String,
    /// Headers of each request. A secret is a reference.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub headers: Vec<EnvVar>,
    /// True if any certificate is accepted over TLS.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub insecure_skip_tls_verify: bool,
    /// The certificates of connections to it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tls: Option<TargetTls>,
    /// The values of labels that the series of every query must have: one of those listed.
    #[serde(rename = "match", skip_serializing_if = "BTreeMap::is_empty", default)]
    pub matchers: BTreeMap<String, Vec<String>>,
    /// The query packs, in the order of the pipeline.
    pub packs: Vec<QueryPack>,
}

/// A query pack, as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryPack {
    /// Its name.
    pub name: Name,
    /// The digest of its file.
    pub digest: Digest,
    /// The file of the repository; absent for a pack of Assay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<PinnedFile>,
    /// The exporter whose metrics it selects, for people.
    pub exporter: String,
    /// The interval at which the exporter reads its values, in nanoseconds: samples that are closer repeat a value.
    pub resolution_ns: Count,
    /// Its queries.
    pub queries: Vec<PackQuery>,
}

/// A query of a pack: a selector of series, and what they mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PackQuery {
    /// The name of the metric in rows.
    pub name: String,
    /// The selector of its series, as PromQL: a metric's name, and matchers of labels in braces.
    pub query: String,
    /// The interpretation of its samples.
    pub kind: QueryKind,
    /// The unit of the rows. A counter's rows hold its increase per second.
    pub unit: String,
    /// The value that is made of several series of one object; absent if an object has one series.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fold: Option<SeriesFold>,
    /// The label whose number of values the folded value is divided by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per: Option<String>,
    /// The kind of the observed object.
    pub scope_kind: ScopeKind,
    /// The labels that identify the object.
    pub scope_labels: Vec<String>,
    /// The labels that tell apart several metrics of one object, or name it as other sources do: part of the metric's name in rows.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub labels: Vec<String>,
    /// The labels that hold the keys by which its rows are joined with other tables.
    #[serde(skip_serializing_if = "JoinLabels::is_empty", default)]
    pub joins: JoinLabels,
    /// The meaning of the absence of such series, and what to do about it.
    pub missing: String,
}

/// The labels of series that hold the keys of the warehouse; absent for a key that no label holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinLabels {
    /// The label with the vendor's unique id of the GPU.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpu_uuid: Option<String>,
    /// The label with the name of the node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_name: Option<String>,
    /// The label with the UID of the pod.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod_uid: Option<String>,
}

impl JoinLabels {
    /// Returns true if no label holds a key.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl PrometheusSource {
    /// Returns all queries with their packs, in order: the number of a query in evidence is its place here.
    pub fn queries(&self) -> impl Iterator<Item = (&QueryPack, &PackQuery)> {
        self.packs.iter().flat_map(|pack| pack.queries.iter().map(move |query| (pack, query)))
    }

    /// Returns the selector of a query with the matchers of this source.
    pub fn selector(&self, query: &PackQuery) -> String {
        let own: Vec<String> = self.matchers.iter().map(|(label, values)| matcher(label, values)).collect();
        if own.is_empty() {
            return query.query.clone();
        }
        let own = own.join(",");
        match query.query.strip_suffix('}') {
            Some(begun) => format!("{begun},{own}}}"),
            None => format!("{}{{{own}}}", query.query),
        }
    }
}

/// Returns the matcher of a label that has one of these values exactly.
fn matcher(label: &str, values: &[String]) -> String {
    match values {
        [value] => format!("{label}={}", quoted(value)),
        // Regular expressions of Prometheus match whole values only.
        values => format!("{label}=~{}", quoted(&values.iter().map(|value| literal(value)).collect::<Vec<_>>().join("|"))),
    }
}

/// Returns a text as a string of PromQL.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"))
}

/// Returns a regular expression that matches this text alone.
fn literal(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            found.push('\\');
        }
        found.push(character);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(query: &str, matchers: &[(&str, &[&str])]) -> String {
        let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let source = PrometheusSource {
            url: String::new(),
            headers: Vec::new(),
            insecure_skip_tls_verify: false,
            tls: None,
            matchers: matchers.iter().map(|(label, values)| ((*label).to_owned(), texts(values))).collect(),
            packs: Vec::new(),
        };
        let query = serde_json::json!({
            "name": "n", "query": query, "kind": "gauge", "unit": "s", "scope_kind": "node", "scope_labels": ["instance"], "missing": "m",
        });
        source.selector(&serde_json::from_value(query).expect("a query"))
    }

    #[test]
    fn the_matchers_of_a_source_narrow_each_selector() {
        assert_eq!(selector("up", &[]), "up");
        assert_eq!(selector("up", &[("cluster", &["a"])]), r#"up{cluster="a"}"#);
        assert_eq!(selector(r#"up{job!="x"}"#, &[("b", &["2"]), ("a", &["1"])]), r#"up{job!="x",a="1",b="2"}"#);
        assert_eq!(selector("up", &[("node", &["n.1", "n|2"])]), r#"up{node=~"n\\.1|n\\|2"}"#);
    }

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        assert_eq!(selector("up", &[("a", &["\"} or up{\n\\"])]), r#"up{a="\"} or up{\n\\"}"#);
    }
}
