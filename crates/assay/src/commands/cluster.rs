//! What the commands that ask a Kubernetes cluster have in common.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assay_cluster::{Cluster, ConfigMap, Connect, Place, RUN, Root, SITE, Site, root_name};
use assay_manifest::RunId;
use assay_stage::Failure;

/// Which cluster, and where in it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct InCluster {
    /// The kubeconfig; KUBECONFIG or the usual one if left out
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one if left out
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace that Assay is installed in
    #[arg(long, value_name = "NAME", default_value = "assay")]
    pub(crate) namespace: String,
}

impl InCluster {
    /// The cluster.
    pub(crate) fn connect(&self) -> Result<Cluster, Failure> {
        Cluster::of_person(&Connect { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() })
    }

    /// What is installed in the namespace.
    pub(crate) fn site(&self, cluster: &Cluster) -> Result<Site, Failure> {
        site(cluster, &self.namespace)
    }

    /// The options as a person types them, where they are not the usual ones.
    pub(crate) fn options(&self) -> String {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        let namespace = Some(&self.namespace).filter(|namespace| *namespace != "assay");
        let named = [("kubeconfig", kubeconfig.as_ref()), ("context", self.context.as_ref()), ("namespace", namespace)];
        let given =
            named.iter().filter_map(|(name, value)| Some(format!(" --{name} {}", assay_report::shell_word(value.as_ref()?))));
        given.collect()
    }
}

/// What is installed in a namespace.
pub(crate) fn site(cluster: &Cluster, namespace: &str) -> Result<Site, Failure> {
    let map: Option<ConfigMap> = cluster.get(&Place::named("ConfigMap", namespace, SITE))?;
    let map = map.ok_or_else(|| {
        Failure::environment("not_installed", format!("Assay is not installed in the namespace `{namespace}`"))
            .hint("an administrator installs it with `assay bootstrap`, or from `assay render kubernetes`")
            .lasting()
    })?;
    Site::read(namespace, &map.data.unwrap_or_default())
}

/// A root that was found, and its annotations.
pub(crate) type Found = (Root, BTreeMap<String, String>);

/// The root of a run, with its annotations; none where the cluster has no such run.
pub(crate) fn find_root(cluster: &Cluster, namespace: &str, run_id: &RunId) -> Result<Option<Found>, Failure> {
    let name = root_name(run_id);
    let map: Option<ConfigMap> = cluster.get(&Place::named("ConfigMap", namespace, &name))?;
    // One that is going away is no root to depend on.
    let map = map.filter(|map| map.metadata.deletion_timestamp.is_none());
    Ok(map.map(|map| {
        let root = Root { name, uid: map.metadata.uid.unwrap_or_default() };
        (root, map.metadata.annotations.unwrap_or_default())
    }))
}

/// The root of a run, or a failure that names what is missing.
pub(crate) fn root_of(cluster: &Cluster, namespace: &str, run_id: &RunId) -> Result<Found, Failure> {
    find_root(cluster, namespace, run_id)?.ok_or_else(|| {
        Failure::usage("no_such_run", format!("the namespace `{namespace}` has no run `{run_id}`")).hint(format!(
            "`assay status --namespace {namespace}` lists those that it has; a finished run is in its store ({RUN})"
        ))
    })
}
