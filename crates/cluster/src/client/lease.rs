//! One driver at a time: a Lease that is held while a run is driven.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use assay_failure::Failure;
use assay_manifest::RunId;
use assay_process::Cancel;
use assay_stage::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Cluster, ObjectPath};
use crate::{Error, MANAGED_BY, Object, RUN, Refusal, Result, RunRoot, root_name};

/// The duration of the Lease: a holder that has not renewed it for this long has gone.
const DURATION: Duration = Duration::from_secs(20);
/// The longest wait for an API server that is away. It is longer than the Lease holds, because no other driver can take the Lease
/// meanwhile either.
const GIVEN_UP: Duration = Duration::from_mins(3);
/// The interval between renewals.
const RENEW: Duration = Duration::from_secs(5);
/// The longest wait for another driver: one that was killed leaves its Lease behind.
const WAIT: Duration = Duration::from_secs(30);
/// The interval of polling.
const LOOK: Duration = Duration::from_secs(1);

/// The Lease of a run, held while the run is driven.
pub struct Lease {
    stop: Arc<AtomicBool>,
    renewer: Option<JoinHandle<()>>,
}

impl Lease {
    /// Takes the run's Lease, or fails with the name of its holder. It is renewed while it is held; if renewal fails, `lost` is
    /// cancelled: another driver may be driving the run by then, and this driver must stop touching it.
    pub fn take(cluster: &Cluster, namespace: &str, run_id: &RunId, holder: &str, root: &RunRoot, lost: &Cancel) -> Result<Self> {
        let begun = Instant::now();
        let (mut lease, mut seen) = (None, None);
        while lease.is_none() {
            lease = try_take(cluster, namespace, run_id, holder, root, &mut seen)?;
            if lease.is_none() && begun.elapsed() > WAIT {
                return Err(Error::RunLocked(run_id.clone()));
            }
            if lease.is_none() && lost.wait_timeout(LOOK) {
                return Err(Error::Cancelled(lost.reason().unwrap_or("stopped").to_owned()));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        // This thread retries a late renewal itself, because it knows for how long the Lease still holds.
        let (stopped, cluster, lost) = (Arc::clone(&stop), cluster.without_retries(), lost.clone());
        let (namespace, name, holder) = (namespace.to_owned(), root_name(run_id), holder.to_owned());
        let mut lease = lease.unwrap_or_default();
        let renew = move || {
            let mut renewed = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(RENEW);
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                lease["spec"]["renewTime"] = json!(now());
                match cluster.replace(&lease) {
                    Ok(there) => {
                        lease = there;
                        renewed = Instant::now();
                    }
                    // If a response was lost, our own change looks like another driver's.
                    Err(error) if error.refusal() == Some(Refusal::Conflict) => {
                        match cluster.get::<Value>(&ObjectPath::named("Lease", &namespace, &name)) {
                            Ok(Some(there)) if is_held_by(&there, &holder) => lease = there,
                            Ok(_) => return lost.cancel("another driver has taken the run over"),
                            Err(error) => {
                                tracing::warn!(failure = %Failure::from(error), "who holds the run's Lease is not known");
                            }
                        }
                    }
                    Err(error) if renewed.elapsed() > GIVEN_UP => {
                        return lost.cancel(format!("the run's Lease could not be renewed: {error}"));
                    }
                    Err(error) => tracing::warn!(failure = %Failure::from(error), "the run's Lease was not renewed"),
                }
            }
            // The next driver need not wait.
            lease["spec"]["holderIdentity"] = Value::Null;
            if let Err(error) = cluster.replace(&lease) {
                tracing::debug!(failure = %Failure::from(error), "the run's Lease was not given back");
            }
        };
        let renewer = std::thread::Builder::new().name("lease".to_owned()).spawn(renew).map_err(Error::Threads)?;
        Ok(Self { stop, renewer: Some(renewer) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(renewer) = self.renewer.take() {
            renewer.thread().unpark();
            let _ = renewer.join();
        }
    }
}

/// The version of another driver's Lease, and when it was first seen by this process's own clock: clocks of two machines are not
/// compared.
type LastSeen = Option<(String, Instant)>;

fn try_take(
    cluster: &Cluster,
    namespace: &str,
    run_id: &RunId,
    holder: &str,
    root: &RunRoot,
    seen: &mut LastSeen,
) -> Result<Option<Object>> {
    let name = root_name(run_id);
    let place = ObjectPath::named("Lease", namespace, &name);
    let Some(mut there) = cluster.get::<Value>(&place)? else {
        cluster.create(&lease(namespace, run_id, holder, root))?;
        let there = cluster.get::<Value>(&place)?;
        return Ok(there.filter(|lease| is_held_by(lease, holder)));
    };
    let is_free = there["spec"]["holderIdentity"].as_str().is_none_or(str::is_empty);
    if !is_free && !is_held_by(&there, holder) {
        let version = there["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        match seen {
            Some((known, since)) if *known == version => {
                if since.elapsed() <= DURATION {
                    return Ok(None);
                }
            }
            _ => {
                *seen = Some((version, Instant::now()));
                return Ok(None);
            }
        }
    }
    there["spec"]["holderIdentity"] = json!(holder);
    there["spec"]["renewTime"] = json!(now());
    match cluster.replace(&there) {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.refusal() == Some(Refusal::Conflict) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_held_by(lease: &Value, holder: &str) -> bool {
    lease["spec"]["holderIdentity"] == holder
}

/// Returns the time as Kubernetes writes it, with six digits.
fn now() -> String {
    let ns = Clock.now().unix_ns();
    let at = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn lease(namespace: &str, run_id: &RunId, holder: &str, root: &RunRoot) -> Object {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": root_name(run_id),
            "namespace": namespace,
            "labels": {MANAGED_BY.0: MANAGED_BY.1, RUN: run_id},
            "ownerReferences": [root.reference()],
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION.as_secs(),
            "acquireTime": now(),
            "renewTime": now(),
        },
    })
}
