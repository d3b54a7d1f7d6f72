//! The hot metrics of a pipeline.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use assay_manifest::{EnvVar, Name};

use crate::checked_value::{CheckedValue, Read, read_from_text};
use crate::header_source::HeaderSource;
use crate::problem::Problems;
use crate::tables::HOT_LABELS;

/// The time-series stores that get the headline numbers of each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotMetrics {
    /// The receivers, in their order.
    pub receivers: Vec<Receiver>,
    /// The labels of the series.
    pub labels: Vec<HotLabel>,
    /// The most active series.
    pub max_active_series: u64,
    /// True if the runs of an exploratory pipeline are pushed, too.
    pub exploratory: bool,
}

/// A time-series store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Its name.
    pub name: Name,
    /// Its protocol.
    pub protocol: ReceiverProtocol,
    /// Its address, without credentials.
    pub url: String,
    /// Headers sent with each request: credentials by reference only.
    pub headers: Vec<EnvVar>,
    /// The address of the query API that counts the active series.
    pub query: Option<String>,
}

/// The protocol of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceiverProtocol {
    /// Prometheus remote write 1.0.
    RemoteWrite,
    /// The text format of Prometheus, for a Pushgateway.
    Pushgateway,
    /// OTLP metrics over HTTP.
    Otlp,
}

/// A label of hot metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HotLabel {
    /// The run.
    RunId,
    /// The case.
    BenchmarkCaseId,
    /// The cluster of the case's target.
    Cluster,
    /// Its region.
    Region,
    /// Its node pool.
    NodePool,
    /// The model of its GPUs.
    GpuModel,
    /// Its scheduling path.
    SchedulerPath,
    /// The load of the point, as a power of two.
    ConcurrencyBucket,
}

impl ReceiverProtocol {
    /// All protocols.
    pub const ALL: [Self; 3] = [Self::RemoteWrite, Self::Pushgateway, Self::Otlp];

    /// Returns the key of the protocol in pipelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RemoteWrite => "remote_write",
            Self::Pushgateway => "pushgateway",
            Self::Otlp => "otlp",
        }
    }
}

impl fmt::Display for ReceiverProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl HotLabel {
    /// All labels.
    pub const ALL: [Self; 8] = [
        Self::RunId,
        Self::BenchmarkCaseId,
        Self::Cluster,
        Self::Region,
        Self::NodePool,
        Self::GpuModel,
        Self::SchedulerPath,
        Self::ConcurrencyBucket,
    ];

    /// Returns the name of the label.
    pub const fn as_str(self) -> &'static str {
        HOT_LABELS[self as usize].word
    }
}

impl fmt::Display for HotLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for HotLabel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|label| label.as_str() == text).ok_or(())
    }
}

read_from_text!(HotLabel);

impl Read for HotMetrics {
    fn read(hot: &CheckedValue) -> Option<Self> {
        Some(Self {
            receivers: hot.get("receivers")?,
            labels: hot.get("labels")?,
            max_active_series: hot.get("max_active_series")?,
            exploratory: hot.get("exploratory")?,
        })
    }
}

impl Read for Receiver {
    fn read(receiver: &CheckedValue) -> Option<Self> {
        let given = |protocol: ReceiverProtocol| Some((protocol, receiver.text_of(protocol.as_str())?.to_owned()));
        let (protocol, url) = ReceiverProtocol::ALL.into_iter().find_map(given)?;
        let headers: BTreeMap<String, HeaderSource> = receiver.get("headers")?;
        Some(Self {
            name: receiver.get("name")?,
            protocol,
            url,
            headers: headers.iter().map(|(name, source)| source.to_env_var(name)).collect(),
            query: receiver.get("query")?,
        })
    }
}

/// Checks that every series has the label of its case: without it, the numbers of two cases would be one series. It has that of its run if the active
/// series of other runs are counted.
pub(crate) fn check_hot_metrics(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(labels) = spec.at(&["publish", "hot_metrics", "labels"]) else { return };
    let lacks = |wanted: HotLabel| {
        !labels.items().is_empty() && !labels.items().iter().any(|label| label.text() == Some(wanted.as_str()))
    };
    if lacks(HotLabel::BenchmarkCaseId) {
        let message = format!("`spec.publish.hot_metrics.labels` lacks `{}`", HotLabel::BenchmarkCaseId);
        problems.add_hinted(labels.anchor, message, "add it: without it, the numbers of all cases would be one series");
    }
    let receivers = spec.at(&["publish", "hot_metrics", "receivers"]);
    let has_query = receivers.is_some_and(|all| all.items().iter().any(|receiver| receiver.text_of("query").is_some()));
    if has_query && lacks(HotLabel::RunId) {
        let message = format!("`spec.publish.hot_metrics.labels` lacks `{}`, and a receiver has a `query`", HotLabel::RunId);
        let hint = "add it, or remove `query`: without it, the series that a run replaces are counted as those of other runs";
        problems.add_hinted(labels.anchor, message, hint);
    }
}
