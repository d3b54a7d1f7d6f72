//! The objects of a run in the cluster, kept current by watches.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// The number of changes that the last call of [`RunWatch::next`] has returned.
    returned: AtomicU64,
    tasks: Vec<JoinHandle<()>>,
}

/// Makes [`RunWatch::next`] return, because something else has changed, such as a log.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    /// Shared, because a change is reported more often than an object changes.
    objects: Arc<RunObjects>,
    changes: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut RunObjects)) {
        let mut seen = self.lock();
        change(Arc::make_mut(&mut seen.objects));
        seen.changes += 1;
        drop(seen);
        self.changed.notify_all();
    }
}

impl Waker {
    /// Wakes the watch.
    pub fn wake(&self) {
        self.0.lock().changes += 1;
        self.0.changed.notify_all();
    }
}

impl RunWatch {
    /// Returns the objects after the next change, or after `limit`: at once if there was a change since the last call.
    pub fn next(&self, limit: Duration) -> Arc<RunObjects> {
        let returned = self.returned.load(Ordering::Relaxed);
        let is_same = |seen: &mut Seen| seen.changes == returned;
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), limit, is_same);
        let (seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.returned.store(seen.changes, Ordering::Relaxed);
        Arc::clone(&seen.objects)
    }

    /// Returns a handle that wakes the watch.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Calls `look` with the objects, without copying them.
    pub fn inspect<T>(&self, look: impl FnOnce(&RunObjects) -> T) -> T {
        look(&self.shared.lock().objects)
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
        RunWatch { shared, returned: AtomicU64::new(0), tasks }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> RunWatch {
        RunWatch { shared: Arc::default(), returned: AtomicU64::new(0), tasks: Vec::new() }
    }

    #[test]
    fn a_change_before_the_call_is_not_missed_and_returned_once() {
        let watched = watch();
        watched.shared.change(|seen| {
            seen.maps.insert("root".to_owned(), ConfigMap::default());
        });
        // A call that missed it would wait for an hour.
        let seen = watched.next(Duration::from_hours(1));
        assert!(seen.maps.contains_key("root"));
        watched.shared.change(|seen| seen.maps.clear());
        assert!(seen.maps.contains_key("root"), "what was returned does not change");
        assert!(watched.next(Duration::from_hours(1)).maps.is_empty());
        assert!(watched.next(Duration::ZERO).maps.is_empty(), "without a change it returns after the limit");
    }

    #[test]
    fn a_log_line_wakes_a_watch_that_waits() {
        let watched = watch();
        let waker = watched.waker();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| watched.next(Duration::from_hours(1)));
            waker.wake();
            waits.join().expect("it returns");
        });
    }
}
