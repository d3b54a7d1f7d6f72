//! The servers behind the address of a target: those that the pipeline lists, else its ready pods in a cluster, each at its own address.

use assay_cluster::{Pod, PodServer, ServiceUrl, inference_servers, service_servers};
use assay_manifest::{CacheMode, InferenceApi, Isolation, Plan, ProvisionedReplica, Target};
use assay_probe::{Client, Identity, Presence};
use assay_stage::{Context, ErrorCode, Event, Failure};
use serde_json::Value;

use crate::pods::RunningTarget;
use crate::ready::parse_address;
use crate::target_client;

/// The way in which the address of a target leads to its pods.
#[derive(Clone)]
pub(crate) enum PodReach {
    /// It is the address of its one pod.
    Pod,
    /// It is that of a Service, which is reached at this URL.
    Service { service: Value, url: String },
    /// It is the one that an InferenceService reports, which may be that of a gateway.
    Inference(InferenceApi),
}

impl PodReach {
    /// Returns the servers in the pods, or the reason, as a clause, why their addresses are not known.
    pub(crate) fn servers(&self, pods: &[Pod]) -> Result<Vec<PodServer>, String> {
        match self {
            Self::Pod => Err("it is one pod".to_owned()),
            Self::Inference(api) => inference_servers(*api, pods),
            Self::Service { service, url } => {
                let parts = service_url(url).ok_or_else(|| format!("`{url}` is no address"))?;
                service_servers(service, parts, pods)
            }
        }
    }
}

/// Parses the URL of a Service.
fn service_url(url: &str) -> Option<ServiceUrl<'_>> {
    let port = parse_address(url)?.port;
    let (scheme, rest) = url.split_once("://")?;
    let path = rest.find('/').map_or("", |start| rest[start..].trim_end_matches('/'));
    Some(ServiceUrl { scheme, port, path })
}

/// Asks each server behind the address of a target what it is. A list of the pipeline is asked as it is written. The pods of a target that
/// runs as several are found; if one of them cannot be asked, a note says why, and the target is measured as one.
pub(crate) fn find(ctx: &Context, target: &Target, up: Option<&RunningTarget>) -> Result<Vec<ProvisionedReplica>, Failure> {
    let client = target_client(target)?;
    if !target.replicas.is_empty() {
        let listed = target.replicas.iter();
        return listed.map(|address| ask(&client, address).map_err(|why| no_replica(target, address, &why))).collect();
    }
    let Some(up) = up.filter(|up| up.pods.len() > 1) else { return Ok(Vec::new()) };
    found_replicas(&client, target, &up.address, up.servers.clone()).or_else(|why| {
        ctx.emit(Event::Note { message: unread_pods(target, &why) });
        Ok(Vec::new())
    })
}

/// Asks the servers in the pods of a target, whose own address is `address`.
fn found_replicas(
    client: &Client,
    target: &Target,
    address: &str,
    servers: Result<Vec<PodServer>, String>,
) -> Result<Vec<ProvisionedReplica>, String> {
    let servers = servers?;
    if let Some(server) = servers.iter().find(|server| exposes_headers(target, address, &server.address)) {
        return Err(format!("its headers would be sent to `{}` without TLS", server.address));
    }
    let replica = |server: &PodServer| {
        let found = ask(client, &server.address);
        let found = found.map_err(|why| format!("its pod `{}` does not respond at {}: {why}", server.pod, server.address))?;
        Ok(ProvisionedReplica { pod: Some(server.pod.clone()), ..found })
    };
    servers.iter().map(replica).collect()
}

/// Returns true if the headers of a target, which may be secrets, travel under TLS to its address and would not to a server's own.
fn exposes_headers(target: &Target, address: &str, server: &str) -> bool {
    !target.headers.is_empty() && address.starts_with("https:") && !server.starts_with("https:")
}

fn ask(client: &Client, address: &str) -> Result<ProvisionedReplica, String> {
    let identity = Identity::query(client, address);
    match &identity.presence {
        Presence::Responded => Ok(identity.to_replica(address)),
        Presence::Silent => Err("it did not respond in time".to_owned()),
        Presence::Gone(why) | Presence::Refused(why) => Err(why.clone()),
    }
}

/// Returns the failure of a listed server that does not respond: it takes no load, and its counters are missing.
fn no_replica(target: &Target, address: &str, why: &str) -> Failure {
    Failure::new(ErrorCode::TargetNotReady, format!("the replica {address} of target `{}` does not respond: {why}", target.name))
        .hint("`replicas` lists the servers behind `url`: correct the address, or remove it from the list")
}

fn unread_pods(target: &Target, why: &str) -> String {
    format!("the pods of target `{}` are measured as one server, and their counters are not compared: {why}", target.name)
}

/// Refuses what would reach the cache of one pod of several: an order to empty it that is sent to an address which the pods share, and
/// prompts that warm it.
pub(crate) fn check_caches(plan: &Plan, target: &Target, pods: usize, replicas: &[ProvisionedReplica]) -> Result<(), Failure> {
    let workloads = plan.cases.iter().filter(|case| case.target == target.name).filter_map(|case| plan.workload(&case.workload));
    let with = |mode: CacheMode| {
        let mut of_mode = workloads.clone().filter(|workload| workload.serving.as_ref().is_some_and(|work| work.cache == mode));
        of_mode.next().map(|workload| format!("`cache: {mode}` of the workload `{}`", workload.name))
    };
    let name = &target.name;
    let by_isolation = (plan.isolation == Isolation::Flush).then(|| "`isolation: flush`".to_owned());
    if let Some(flush) = by_isolation.or_else(|| with(CacheMode::ColdFlush)).filter(|_| pods > 1 && replicas.is_empty()) {
        let message =
            format!("{flush} empties the cache of one pod, and target `{name}` has {pods}, which cannot be reached one by one");
        return Err(Failure::new(ErrorCode::TargetIsolation, message).hint(
            "a note of provision says why they cannot; list the servers of an endpoint in `replicas`, write `cache: cold_salt`, or have \
             objects brought up anew for each trial with `isolation: restart_target`",
        ));
    }
    if let Some(warm) = with(CacheMode::Warm).filter(|_| pods > 1 && replicas.len() > 1) {
        let message = format!("{warm} would warm one of the {} servers of target `{name}` with each prompt", replicas.len());
        return Err(Failure::new(ErrorCode::TargetIsolation, message)
            .hint("write `cache: cold_flush`, `cold_salt` or `shared`, or give the target one pod"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
