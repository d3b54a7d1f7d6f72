//! The identity of an endpoint: the version and the models that it reports, the start of its process, and its pods.
//!
//! There is no standard for the version. Models are read from OpenAI's API; the version from the paths of vLLM, SGLang and TGI,
//! in this order, and last from the `Server` header. What no response contains is unknown, with the reason. The start of the
//! process is the metric `process_start_time_seconds` of Prometheus client libraries, which most servers have at `/metrics`; there vLLM also
//! states the size of the blocks of its cache. Pods are reported by the API server of a cluster, and are added by the caller.

mod pods;

use std::time::Duration;

use assay_manifest::{Count, Fact, Instant, PodFacts, ProvisionedReplica, ProvisionedTarget, TargetKind};
use serde_json::Value;

pub use self::pods::describe_pod_change;
use crate::{Client, EndpointResponse, Limits, RequestError, endpoint_url};

/// The limits of each request.
const LIMITS: Limits = Limits { time: Duration::from_secs(5), bytes: 1 << 20 };

/// The limits of the request for metrics: a server with many models has many.
const METRIC_LIMITS: Limits = Limits { time: Duration::from_secs(5), bytes: 8 << 20 };

/// The metric of Prometheus client libraries with the start of the process, in seconds since the Unix epoch.
const PROCESS_START: &str = "process_start_time_seconds";

/// The metric of vLLM whose labels describe its cache, and the label with the tokens of a block.
const CACHE_CONFIG: &str = "vllm:cache_config_info";
const CACHE_BLOCK: &str = "block_size=\"";

/// The most models of a list.
const MAX_MODELS: usize = 1000;

/// The longest name of a model, and the longest version, in bytes.
const MAX_NAME_BYTES: usize = 300;

/// Paths that may report a version, with the field that holds it.
const VERSION_PATHS: [(&str, &str); 3] = [("/version", "version"), ("/get_server_info", "version"), ("/info", "version")];

/// Server software by the owner of its models.
const SERVERS_BY_OWNER: [(&str, &str); 4] =
    [("vllm", "vllm"), ("sglang", "sglang"), ("llamacpp", "llama.cpp"), ("assay", "assay-simulator")];

/// Server software by the path at which its version was read. Many servers have a `/version`.
const SERVERS_BY_PATH: [(&str, &str); 2] = [("GET /get_server_info", "sglang"), ("GET /info", "tgi")];

/// The way in which an endpoint reacted to the first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It responded, with whatever status.
    Responded,
    /// It accepted the connection or not, and sent nothing in time: it may be busy.
    Silent,
    /// The connection could not be made, or broke, for this reason.
    Gone(String),
    /// The connection was refused, for this reason: no process listens at the address. No load makes a server do that.
    Refused(String),
}

/// The facts for which an endpoint has no place: it responds that there is nothing (404, 405, 410, 501), which no load makes it do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingFacts {
    /// Every path at which servers report a version.
    pub version: bool,
    /// The list of models.
    pub models: bool,
}

/// Returns true if there is nothing at the path of a request.
fn is_nothing(response: &EndpointResponse) -> bool {
    matches!(response.status, 404 | 405 | 410 | 501)
}

/// The identity of an endpoint, as it and its cluster report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its reaction to the first request.
    pub presence: Presence,
    /// The facts that it has no place for.
    pub missing: MissingFacts,
    /// Its version, and where it was read.
    pub version: Fact<String>,
    /// The server software, and how it was identified.
    pub server: Fact<String>,
    /// The models that it lists, sorted, each once; or the reason why there is no list.
    pub models: Result<Vec<String>, String>,
    /// The start of the process that responded, in seconds since the Unix epoch; `None` if it has no such metric.
    pub process_start_s: Option<u64>,
    /// Tokens of a block of its prefix cache; `None` if it has no metric with them.
    pub cache_block_tokens: Option<u32>,
    /// Its running pods; `None` if it is no object of a cluster.
    pub pods: Option<Vec<PodFacts>>,
}

impl Identity {
    /// Queries the endpoint at `url`. If it does not respond to the first request, no others are sent.
    pub fn query(client: &Client, url: &str) -> Self {
        let list_url = endpoint_url(url, "/v1/models");
        let listed = client.get(&list_url, LIMITS);
        let presence = match &listed {
            Err(RequestError::Connection(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                Presence::Refused(error.to_string())
            }
            Err(RequestError::Connection(error)) => Presence::Gone(error.to_string()),
            Err(RequestError::Timeout(_) | RequestError::ConnectTimeout(_)) => Presence::Silent,
            _ => Presence::Responded,
        };
        let (version, has_no_version) = match &listed {
            Err(error) if error.is_unreachable() => (Fact::unknown(format!("GET /v1/models: {error}")), false),
            listed => version(client, url, listed.as_ref().ok()),
        };
        let missing = MissingFacts { version: has_no_version, models: listed.as_ref().is_ok_and(is_nothing) };
        let server = server(listed.as_ref().ok(), &version);
        let models = listed.map_err(|error| error.to_string()).and_then(|response| models(&response));
        let metrics = if presence == Presence::Responded { metrics(client, url) } else { String::new() };
        let (process_start_s, cache_block_tokens) = (parse_process_start(&metrics), parse_cache_block(&metrics));
        // The whole URL: the path depends on the version that the endpoint's URL ends in.
        let models = models.map_err(|why| client.mask(format!("GET {list_url}: {why}")));
        // The responses were masked before they were decoded; what is published is masked once more.
        let version = Fact { value: version.value.map(|version| client.mask(version)), ..version };
        let models = models.map(|models| models.into_iter().map(|model| client.mask(model)).collect());
        Self { presence, missing, version, server, models, process_start_s, cache_block_tokens, pods: None }
    }

    /// Adds the running pods of the endpoint, as the API server of its cluster reports them.
    #[must_use]
    pub fn with_pods(self, pods: Option<Vec<PodFacts>>) -> Self {
        Self { pods, ..self }
    }

    /// Describes the change of a target since it was provisioned, which ended at `provisioned`; `None` if there is none. Other pods
    /// are a change in any case. A simulator or process, which Assay started, has changed if it is gone or another; any other
    /// endpoint if it reports another version, other models or a later start of its process, or has no place for the version or models that
    /// it reported. If that is gone or overloaded, this is measured.
    pub fn change_since(&self, recorded: &ProvisionedTarget, provisioned: Instant) -> Option<String> {
        let is_held = matches!(recorded.kind, TargetKind::Simulator | TargetKind::Process);
        let is_telling = if is_held { self.presence != Presence::Silent } else { self.contradicts(recorded) };
        let pods = self.pods.as_ref().and_then(|pods| describe_pod_change(&recorded.pods, pods));
        let of_endpoint = || self.differs_from(recorded).filter(|_| is_telling);
        pods.or_else(of_endpoint).or_else(|| self.restart_since(recorded, provisioned))
    }

    /// Describes a restart since the target was provisioned, which ended at `provisioned`; `None` if there was none, or if the server
    /// does not say when it started. A later start alone is not enough: several servers may share an address.
    fn restart_since(&self, recorded: &ProvisionedTarget, provisioned: Instant) -> Option<String> {
        let (then, now) = (recorded.process_start_s?.0, self.process_start_s?);
        let provisioned_s = u64::try_from(provisioned.unix_ns()).ok()? / 1_000_000_000;
        let at = |seconds: u64| {
            Instant::from_unix_ns(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)).to_seconds()
        };
        (now > then && now > provisioned_s)
            .then(|| format!("its process started at {}, when it was provisioned at {}", at(now), at(then)))
    }

    /// Returns what is recorded of a server behind the address of an endpoint.
    pub fn to_replica(&self, address: &str) -> ProvisionedReplica {
        ProvisionedReplica {
            address: address.to_owned(),
            pod: None,
            version: self.version.clone(),
            models: self.listed_models().to_vec(),
            process_start_s: self.process_start_s.map(Count),
        }
    }

    /// Describes the change of a server behind the address of an endpoint; `None` if there is none. It has changed if it is gone, which
    /// leaves its load to the others, or reports another version, other models or another start of its process. One that does not respond
    /// in time may be busy.
    pub fn change_of_replica(&self, recorded: &ProvisionedReplica) -> Option<String> {
        let now = self.to_replica(&recorded.address);
        let change = match &self.presence {
            Presence::Gone(why) | Presence::Refused(why) => format!("does not respond any more ({why})"),
            Presence::Responded if self.has_other_version(&recorded.version) => {
                "reports another version than when it was provisioned".to_owned()
            }
            Presence::Responded if self.has_other_models(&recorded.models) => {
                "lists other models than when it was provisioned".to_owned()
            }
            Presence::Responded if now.process_start_s.is_some() && now.process_start_s != recorded.process_start_s => {
                "started again since it was provisioned".to_owned()
            }
            Presence::Responded | Presence::Silent => return None,
        };
        Some(format!("the replica {} {change}", recorded.address))
    }

    /// Returns the models that it lists; empty if it gives no list.
    pub fn listed_models(&self) -> &[String] {
        self.models.as_deref().unwrap_or_default()
    }

    /// Returns true if it reports a version or a list of models, and the recorded state of the same target has another, or if it has no place
    /// for what it reported then. What it does not report for another reason, for instance because it is overloaded, contradicts nothing.
    fn contradicts(&self, recorded: &ProvisionedTarget) -> bool {
        self.has_other_version(&recorded.version) || self.has_other_models(&recorded.models)
    }

    /// Returns why connections are refused; `None` if they are not.
    pub fn refusal(&self) -> Option<&str> {
        match &self.presence {
            Presence::Refused(why) => Some(why),
            _ => None,
        }
    }

    fn has_other_version(&self, recorded: &Fact<String>) -> bool {
        let is_known = self.version.value.is_some() || self.missing.version;
        is_known && self.version.value != recorded.value
    }

    fn has_other_models(&self, recorded: &[String]) -> bool {
        let is_known = self.models.is_ok() || self.missing.models;
        is_known && self.listed_models() != recorded
    }

    /// Describes the difference to the recorded state of the same target, for people; `None` if there is none.
    fn differs_from(&self, recorded: &ProvisionedTarget) -> Option<String> {
        if let Presence::Gone(why) | Presence::Refused(why) = &self.presence {
            return Some(format!("it responded when it was provisioned, and does not now ({why})"));
        }
        let version = |fact: &Fact<String>| fact.value.clone().unwrap_or_else(|| format!("unknown ({})", fact.how));
        if self.version.value != recorded.version.value {
            let (before, now) = (version(&recorded.version), version(&self.version));
            return Some(format!("version {before} when it was provisioned, {now} now"));
        }
        if self.listed_models() != recorded.models {
            let list = |models: &[String]| format!("[{}]", models.join(", "));
            let now = self.models.as_ref().map_or_else(|why| format!("none ({why})"), |models| list(models));
            return Some(format!("models {} when it was provisioned, {now} now", list(&recorded.models)));
        }
        None
    }
}

/// Identifies the server software: by the owner of all of its models, else by a version path that only one server has.
fn server(listed: Option<&EndpointResponse>, version: &Fact<String>) -> Fact<String> {
    if let Some(name) = listed.and_then(|response| owner(&json(response).ok()?)) {
        return Fact::observed(name.to_owned(), "`owned_by` of GET /v1/models");
    }
    match SERVERS_BY_PATH.iter().find(|(how, _)| *how == version.how) {
        Some((how, name)) => Fact::observed((*name).to_owned(), *how),
        None => Fact::unknown("the models have no owner that tells a server, and no version was at a path that does"),
    }
}

/// Returns the server software that owns all listed models.
fn owner(list: &Value) -> Option<&'static str> {
    let owners = list.get("data")?.as_array()?.iter().map(|model| model.get("owned_by").and_then(Value::as_str));
    let mut owners = owners.collect::<Option<Vec<_>>>()?;
    owners.dedup();
    let [owner] = owners[..] else { return None };
    SERVERS_BY_OWNER.iter().find(|(name, _)| *name == owner).map(|(_, server)| *server)
}

/// Reads the metrics of the endpoint; empty if it has none.
fn metrics(client: &Client, url: &str) -> String {
    let response = client.get(&endpoint_url(url, "/metrics"), METRIC_LIMITS).ok().filter(EndpointResponse::is_success);
    response.map(|response| String::from_utf8_lossy(&response.body).into_owned()).unwrap_or_default()
}

/// Parses the tokens of a block of the prefix cache from metrics in the text format of Prometheus; `None` if engines have different ones.
fn parse_cache_block(metrics: &str) -> Option<u32> {
    let labels = metrics.lines().filter_map(|line| line.strip_prefix(CACHE_CONFIG)?.strip_prefix('{'));
    let size = |labels: &str| labels.split_once(CACHE_BLOCK).and_then(|(_, rest)| rest.split_once('"')?.0.parse::<u32>().ok());
    let mut sizes: Vec<Option<u32>> = labels.map(size).collect();
    sizes.dedup();
    let [size] = sizes[..] else { return None };
    size.filter(|tokens| *tokens > 0)
}

/// Parses the start of the process from metrics in the text format of Prometheus; `None` if several processes have one.
fn parse_process_start(metrics: &str) -> Option<u64> {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(PROCESS_START)?.trim_start().split(' ').next());
    let mut starts: Vec<f64> = samples.filter_map(|value| value.parse().ok()).collect();
    starts.dedup();
    let [start] = starts[..] else { return None };
    (start.is_finite() && (1.0..1e12).contains(&start)).then_some(start as u64)
}

/// Reads the version, and returns true beside it if every path that servers have for it is missing.
fn version(client: &Client, url: &str, listed: Option<&EndpointResponse>) -> (Fact<String>, bool) {
    let (mut said, mut has_none) = (Vec::new(), true);
    for (path, member) in VERSION_PATHS {
        let response = client.get(&endpoint_url(url, path), LIMITS);
        has_none &= response.as_ref().is_ok_and(is_nothing);
        match response.map_err(|error| error.to_string()).and_then(|response| text_at(&response, member)) {
            Ok(version) => return (Fact::observed(version, format!("GET {path}")), false),
            Err(why) => said.push(format!("GET {path}: {why}")),
        }
    }
    match listed.and_then(|response| response.server.as_deref()) {
        Some(server) if is_versioned(server) => (Fact::observed(server.to_owned(), "`Server` header of GET /v1/models"), false),
        Some(_) => (Fact::unknown(format!("{}; the `Server` header names no version", said.join("; "))), has_none),
        None => (Fact::unknown(format!("{}; no `Server` header", said.join("; "))), has_none),
    }
}

/// Returns true if a `Server` header names more than the web framework: a product and, after a slash, its version.
fn is_versioned(server: &str) -> bool {
    let after_slash = server.split_once('/').and_then(|(_, rest)| rest.bytes().next());
    is_name(server) && after_slash.is_some_and(|byte| byte.is_ascii_digit())
}

fn json(response: &EndpointResponse) -> Result<Value, String> {
    if !response.is_success() {
        return Err(response.status_text());
    }
    serde_json::from_slice(&response.body).map_err(|_| "the response is not JSON".to_owned())
}

fn text_at(response: &EndpointResponse, member: &str) -> Result<String, String> {
    let value = json(response)?;
    let text = value.get(member).and_then(Value::as_str).ok_or_else(|| format!("the response has no text `{member}`"))?;
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("the `{member}` in the response is empty, too long or not printable"))
    }
}

fn models(response: &EndpointResponse) -> Result<Vec<String>, String> {
    let value = json(response)?;
    let list = value.get("data").and_then(Value::as_array).ok_or("the response has no list `data`")?;
    if list.len() > MAX_MODELS {
        return Err(format!("the list has {} models, more than {MAX_MODELS}", list.len()));
    }
    let id = |model: &Value| model.get("id").and_then(Value::as_str).filter(|id| is_name(id)).map(str::to_owned);
    let models: Option<Vec<_>> = list.iter().map(id).collect();
    let mut models = models.ok_or("a model in the list has no usable `id`")?;
    models.sort_unstable();
    models.dedup();
    Ok(models)
}

/// Returns true if the text may be shown in a report.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
