//! The sources and what each of them states. A new source is a module with its [`SourceKind`], and a [`Kind`].

use std::fmt;

use assay_manifest::{Case, CaseId, EnvVar, Environment, Name, Plan, ProvisionedTarget, TargetTls};

use crate::endpoint::Endpoint;
use crate::exporter::Exporter;
use crate::gpus::LabelledGpu;
use crate::host::Host;
use crate::keys::ObjectKeys;
use crate::line::LineFormat;
use crate::metric::{MetricKind, Observed};
use crate::nvidia_smi::NvidiaSmi;
use crate::recording::ReadingBody;
use crate::slice::MAX_METRICS;
use crate::traces::Traces;

/// The kinds of sources, in the order in which their slices are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Host,
    Endpoint,
    Exporter,
    NvidiaSmi,
    Traces,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Host, Self::Endpoint, Self::Exporter, Self::NvidiaSmi, Self::Traces];

    fn definition(self) -> &'static dyn SourceKind {
        match self {
            Self::Host => &Host,
            Self::Endpoint => &Endpoint,
            Self::Exporter => &Exporter,
            Self::NvidiaSmi => &NvidiaSmi,
            Self::Traces => &Traces,
        }
    }
}

/// The properties of a kind of source.
pub(crate) trait SourceKind: Sync {
    /// Returns the word that begins the names of its sources and files.
    fn word(&self) -> &'static str;

    /// Returns the noun with which messages introduce the name of a source.
    fn noun(&self) -> &'static str;

    /// Returns true if its sources have names; otherwise there is only one.
    fn is_named(&self) -> bool {
        true
    }

    /// Returns its sources in a block, and how each is sampled.
    fn sampled(&self, plan: &Plan, environment: &Environment) -> Vec<Sampled>;

    /// Returns its sources that observe the attempts of a case in the block of an environment; `None` stands for a case that the plan does
    /// not have, and for a block whose environment is missing.
    fn observing(&self, plan: &Plan, environment: Option<&Environment>, case: Option<&Case>) -> Vec<Source>;

    /// Returns the format of its files.
    fn format(&self) -> LineFormat {
        LineFormat::Scrapes
    }

    /// Returns true if every recording covers its sources, and false if only a recording with a series of a source covers it.
    fn is_in_every_recording(&self) -> bool {
        false
    }

    /// Returns the kind of the observed object: `scope_kind` of the tables.
    fn scope_kind(&self) -> &'static str;

    /// Refuses a successful response that is no reading, with the reason.
    fn check_response(&self, _text: &str) -> Result<(), &'static str> {
        Ok(())
    }

    /// Returns the metrics in a reading.
    fn observed(&self, body: &ReadingBody) -> Observed;

    /// Returns the keys of the object of a metric, by the labels as they appear in its name; `None` if they name no object.
    fn keys(&self, _metric: &str, _labels: &str) -> Option<ObjectKeys> {
        None
    }

    /// Returns the GPU that the labels of a metric describe, as they appear in its name; `None` if they describe none.
    fn gpu(&self, _metric: &str, _labels: &str) -> Option<LabelledGpu> {
        None
    }

    /// Returns the unit of the rows of a metric. A counter's rows hold its increase per second.
    fn unit(&self, metric: &str, kind: MetricKind) -> String;
}

/// A source of readings: the host, an endpoint, an exporter, the GPUs of a machine or the spans of servers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub(crate) kind: Kind,
    /// The target or the exporter; `None` if there is only one source of the kind.
    pub(crate) name: Option<SourceName>,
}

/// The name of a source among those of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceName {
    /// The target or the exporter, and with a replica its number: `vllm`, `vllm.2`. A name has no dot.
    text: String,
}

impl SourceName {
    fn of(name: &Name) -> Self {
        Self { text: name.to_string() }
    }

    fn of_replica(name: &Name, number: u32) -> Self {
        Self { text: format!("{name}.{number}") }
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, number) = text.split_once('.').map_or((text, None), |(name, number)| (name, Some(number)));
        let name = Name::new(name).ok()?;
        let Some(number) = number else { return Some(Self::of(&name)) };
        let parsed = Self::of_replica(&name, number.parse().ok()?);
        // One spelling each: `vllm.02` names no replica.
        (parsed.text == text).then_some(parsed)
    }
}

/// A source of a block, and how it is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The source.
    pub source: Source,
    /// The way in which it is sampled.
    pub sampling: Sampling,
}

/// The way in which a source is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The recorder reads the counters of the machine that it runs on.
    Counters,
    /// The recorder runs `nvidia-smi`, and reads the lines that it prints.
    NvidiaSmi,
    /// The recorder receives spans as OTLP over HTTP.
    Otlp {
        /// The loopback address that it listens at.
        address: String,
    },
    /// The recorder sends a GET request, whose response is a text of Prometheus.
    Scrape {
        /// The address.
        address: ScrapeAddress,
        /// Headers of the request; a secret is a reference.
        headers: Vec<EnvVar>,
        /// True if any certificate is accepted over TLS.
        insecure_skip_tls_verify: bool,
        /// The certificates of the connection.
        tls: Option<Box<TargetTls>>,
    },
}

/// The address of a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScrapeAddress {
    /// A path of an endpoint, whose own address may end in the version of its API.
    Endpoint {
        /// The endpoint.
        address: String,
        /// The path.
        path: &'static str,
    },
    /// A whole URL.
    Url(String),
}

/// Displays the part of the address that names it beside its source.
impl fmt::Display for ScrapeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint { path, .. } => f.write_str(path),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// The object that a source observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// The kind of the object: `scope_kind` of the tables.
    pub kind: &'static str,
    /// The object; `None` for the machine of the recorder, which only the run knows.
    pub id: Option<&'a str>,
}

/// Returns all sources of a block, and how each is sampled.
pub fn sampled(plan: &Plan, environment: &Environment) -> Vec<Sampled> {
    Kind::ALL.into_iter().flat_map(|kind| kind.definition().sampled(plan, environment)).collect()
}

/// Returns the sources that observe the attempts of a case in the block of an environment.
pub fn observing(plan: &Plan, environment: Option<&Environment>, case: &CaseId) -> Vec<Source> {
    let case = plan.case(case);
    Kind::ALL.into_iter().flat_map(|kind| kind.definition().observing(plan, environment, case)).collect()
}

impl Source {
    fn new(kind: Kind, name: Option<SourceName>) -> Self {
        Self { kind, name }
    }

    /// Returns the counters of the host that the recorder runs on.
    pub fn host() -> Self {
        Self::new(Kind::Host, None)
    }

    /// Returns the counters of the endpoint of a target.
    pub fn endpoint(target: &Name) -> Self {
        Self::new(Kind::Endpoint, Some(SourceName::of(target)))
    }

    /// Returns the counters of a replica of the endpoint of a target, by its number from 1 among those of the environment.
    pub fn replica(target: &Name, number: u32) -> Self {
        Self::new(Kind::Endpoint, Some(SourceName::of_replica(target, number)))
    }

    /// Returns the counters of an endpoint's servers: of its replicas if provision found any, else of the endpoint itself.
    pub fn servers(target: &ProvisionedTarget) -> Vec<Self> {
        if target.replicas.is_empty() {
            return vec![Self::endpoint(&target.id)];
        }
        (1..).zip(&target.replicas).map(|(number, _)| Self::replica(&target.id, number)).collect()
    }

    /// Returns the counters of an exporter that the pipeline names.
    pub fn exporter(name: &Name) -> Self {
        Self::new(Kind::Exporter, Some(SourceName::of(name)))
    }

    /// Returns the GPUs of the machine that the recorder runs on, as `nvidia-smi` reports them.
    pub fn nvidia_smi(name: &Name) -> Self {
        Self::new(Kind::NvidiaSmi, Some(SourceName::of(name)))
    }

    /// Returns the spans that the recorder receives from the servers under test.
    pub fn traces(name: &Name) -> Self {
        Self::new(Kind::Traces, Some(SourceName::of(name)))
    }

    /// Returns the source for messages, such as ``target `vllm` ``.
    pub fn description(&self) -> String {
        let noun = self.definition().noun();
        self.name.as_ref().map_or_else(|| noun.to_owned(), |name| format!("{noun} `{}`", name.text))
    }

    /// Returns the format of its files.
    pub fn format(&self) -> LineFormat {
        self.definition().format()
    }

    /// Returns the name of its file in the folder of a recording.
    pub fn file_name(&self) -> String {
        let (word, suffix) = (self.definition().word(), self.format().suffix());
        self.name.as_ref().map_or_else(|| format!("{word}{suffix}"), |name| format!("{word}-{}{suffix}", name.text))
    }

    /// Parses the name of a file in the folder of a recording.
    pub(crate) fn parse_file_name(file: &str) -> Option<Self> {
        Kind::ALL.into_iter().find_map(|kind| {
            let of_kind = kind.definition();
            let rest = file.strip_prefix(of_kind.word())?.strip_suffix(of_kind.format().suffix())?;
            let name = if rest.is_empty() { None } else { Some(SourceName::parse(rest.strip_prefix('-')?)?) };
            (name.is_some() == of_kind.is_named()).then(|| Self::new(kind, name))
        })
    }

    /// Refuses a successful response that is no reading of the source, with the reason.
    pub fn check_response(&self, text: &str) -> Result<(), &'static str> {
        self.definition().check_response(text)
    }

    /// Returns the number of metrics in a response that have rows, and of those beyond the limits.
    pub fn count_metrics(&self, text: &str) -> (usize, u64) {
        let Observed { samples, left_out, .. } = self.definition().observed(&ReadingBody::Text(text.to_owned()));
        let kept = samples.len().min(MAX_METRICS);
        (kept, left_out + (samples.len() - kept) as u64)
    }

    /// Returns the quantities that a response states without a value.
    pub fn without_value(&self, text: &str) -> Vec<String> {
        let Observed { without_value, .. } = self.definition().observed(&ReadingBody::Text(text.to_owned()));
        without_value.into_iter().map(str::to_owned).collect()
    }

    /// Returns the observed object.
    pub fn scope(&self) -> Scope<'_> {
        Scope { kind: self.definition().scope_kind(), id: self.name.as_ref().map(|name| name.text.as_str()) }
    }

    pub(crate) fn definition(&self) -> &'static dyn SourceKind {
        self.kind.definition()
    }
}

/// Displays a source by its name in a Recording: `host`, `endpoint/TARGET`, `endpoint/TARGET.REPLICA`, `exporter/NAME`,
/// `nvidia-smi/NAME`, `otlp/NAME`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.definition().word())?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, "/{}", name.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_found_again_by_the_name_of_its_file() {
        let name: Name = "vllm-2".parse().expect("a name");
        for source in [
            Source::host(),
            Source::endpoint(&name),
            Source::replica(&name, 12),
            Source::exporter(&name),
            Source::nvidia_smi(&name),
            Source::traces(&name),
        ] {
            assert_eq!(Source::parse_file_name(&source.file_name()), Some(source));
        }
        let file = Source::replica(&name, 12).file_name();
        for other in [file.replace(".12.", ".012."), file.replace(".12.", ".x."), file.replace(".12.", "..")] {
            assert_eq!(Source::parse_file_name(&other), None, "{other}");
        }
        assert_eq!(Source::replica(&name, 12).to_string(), "endpoint/vllm-2.12");
    }
}
