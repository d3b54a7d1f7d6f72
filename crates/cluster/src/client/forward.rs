//! A local port that leads to a pod through the API server, for clients that cannot reach a store in another way.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::ListParams;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Cluster, ObjectPath};
use crate::{Error, Result, phase};

/// A local port that leads to a Service, until it is dropped.
pub struct PortForward {
    /// Its address.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for PortForward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// Opens a local port that leads to a pod behind `service`, written `namespace/name:port`.
    pub fn forward(&self, service: &str) -> Result<PortForward> {
        let unread = || Error::ServiceName(service.to_owned());
        let (namespace, rest) = service.split_once('/').ok_or_else(unread)?;
        let (name, port) = rest.split_once(':').ok_or_else(unread)?;
        let port: u16 = port.parse().map_err(|_| unread())?;
        let found: Option<Service> = self.get(&ObjectPath::named("Service", namespace, name))?;
        let found = found.ok_or_else(|| Error::NoService { namespace: namespace.to_owned(), name: name.to_owned() })?;
        let selector = found.spec.and_then(|spec| spec.selector).unwrap_or_default();
        let selector: Vec<String> = selector.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let selector = selector.join(",");
        // A missing pod is reported here, before a client relies on the port.
        let listed: Vec<Pod> = self.list("Pod", namespace, &selector)?;
        if !listed.iter().any(is_running) {
            return Err(Error::NoServicePod(service.to_owned()));
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(Error::LocalPort)?;
        let address = listener.local_addr().map_err(Error::LocalPort)?;
        let task = self.runtime.spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (pods, selector) = (pods.clone(), selector.clone());
                tokio::spawn(async move {
                    // The client sees a broken connection and retries: by then another pod may have taken over.
                    let Ok(listed) = pods.list(&ListParams::default().labels(&selector)).await else { return };
                    let Some(pod) = listed.items.iter().find(|pod| is_running(pod)).and_then(|pod| pod.metadata.name.clone())
                    else {
                        return;
                    };
                    let Ok(mut forwarder) = pods.portforward(&pod, &[port]).await else { return };
                    if let Some(mut far) = forwarder.take_stream(port) {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Ok(PortForward { address, task })
    }
}

fn is_running(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && phase(pod) == "Running"
}
