//! The objects of a run in the cluster, kept current by watches.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::Cluster;

/// The objects of a run, by name.
#[derive(Clone, Debug, Default)]
pub struct RunObjects {
    /// Jobs of the run.
    pub jobs: BTreeMap<String, Job>,
    /// Pods of the run.
    pub pods: BTreeMap<String, Pod>,
    /// Its root, and all other ConfigMaps that carry the run's label.
    pub maps: BTreeMap<String, ConfigMap>,
    /// True if all of them have been listed once.
    pub is_whole: bool,
    listed: [bool; 3],
}

impl RunObjects {
    /// Returns the pods of a Job. As soon as the Job's UID is known, pods of an earlier Job of the same name are left out.
    pub fn job_pods(&self, job: &str) -> Vec<&Pod> {
        let uid = self.jobs.get(job).and_then(|job| job.metadata.uid.as_deref());
        let is_its = |pod: &&Pod| {
            let labels = pod.metadata.labels.as_ref();
            let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
            label("batch.kubernetes.io/job-name") == Some(job) && (uid.is_none() || label(assay_stage::pod::JOB_UID_LABEL) == uid)
        };
        self.pods.values().filter(is_its).collect()
    }

    fn mark_listed(&mut self, which: usize) {
        if let Some(listed) = self.listed.get_mut(which) {
            *listed = true;
        }
        self.is_whole = self.listed.iter().all(|listed| *listed);
    }
}

/// A watch over the objects of a run, which ends when it is dropped.
pub struct RunWatch {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<RunObjects>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, RunObjects> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut RunObjects)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl RunWatch {
    /// Returns the objects after the next change, or after `limit`.
    pub fn next(&self, limit: Duration) -> RunObjects {
        let seen = self.shared.lock();
        let waited = self.shared.changed.wait_timeout(seen, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Calls `look` with the objects, without copying them.
    pub fn inspect<T>(&self, look: impl FnOnce(&RunObjects) -> T) -> T {
        look(&self.shared.lock())
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Cluster {
    /// Watches all objects of a namespace that match a label selector. A watch that breaks off is restarted, any number of times.
    pub fn watch(&self, namespace: &str, selector: &str) -> RunWatch {
        let shared = Arc::new(Shared::default());
        let tasks = vec![
            self.watch_kind(namespace, selector, &shared, 0, |seen: &mut RunObjects| &mut seen.jobs),
            self.watch_kind(namespace, selector, &shared, 1, |seen: &mut RunObjects| &mut seen.pods),
            self.watch_kind(namespace, selector, &shared, 2, |seen: &mut RunObjects| &mut seen.maps),
        ];
        RunWatch { shared, tasks }
    }

    fn watch_kind<K>(
        &self,
        namespace: &str,
        selector: &str,
        shared: &Arc<Shared>,
        which: usize,
        all: fn(&mut RunObjects) -> &mut BTreeMap<String, K>,
    ) -> JoinHandle<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let config = watcher::Config::default().labels(selector);
        let (shared, cluster) = (Arc::clone(shared), self.clone());
        self.runtime.spawn(async move {
            let mut events = watcher(api, config).default_backoff().boxed();
            let mut listing = BTreeMap::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => {
                        cluster.count_request();
                        listing.clear();
                    }
                    Ok(Event::InitApply(object)) => {
                        listing.insert(object.name_any(), object);
                    }
                    Ok(Event::InitDone) => shared.change(|seen| {
                        *all(seen) = std::mem::take(&mut listing);
                        seen.mark_listed(which);
                    }),
                    Ok(Event::Apply(object)) => shared.change(|seen| {
                        all(seen).insert(object.name_any(), object);
                    }),
                    Ok(Event::Delete(object)) => shared.change(|seen| {
                        all(seen).remove(&object.name_any());
                    }),
                    Err(error) => tracing::debug!(%error, "a watch broke off"),
                }
            }
        })
    }
}
