//! The common parts of the commands that use a Kubernetes cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assay_cluster::{
    Cluster, ConfigMap, ConnectOptions, INSTALLATION, Installation, Namespace, ObjectPath, RUN, RunRoot, TEMPORARY, root_name,
};
use assay_manifest::RunId;
use assay_stage::{ErrorCode, Failure};

/// The cluster and the namespace.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClusterOptions {
    /// The kubeconfig [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace that Assay is installed in
    #[arg(long, value_name = "NAME", default_value = "assay")]
    pub(crate) namespace: String,
}

impl ClusterOptions {
    /// Connects to the cluster.
    pub(crate) fn connect(&self) -> Result<Cluster, Failure> {
        let options = ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        Cluster::from_kubeconfig(&options).map_err(|error| {
            let failure = Failure::from(error);
            let local = "this command is about a cluster: `assay show RUN` shows a run on this machine, and `assay logs RUN --trial TRIAL` \
                         what its scripts printed";
            match failure.hint.clone() {
                _ if failure.code != ErrorCode::Kubeconfig => failure,
                Some(hint) => failure.hint(format!("{hint}\n{local}")),
                None => failure.hint(local),
            }
        })
    }

    /// Returns the installation of the namespace.
    pub(crate) fn installation(&self, cluster: &Cluster) -> Result<Installation, Failure> {
        installation(cluster, &self.namespace)
    }

    /// Returns the options that are not the defaults, as typed on a command line.
    pub(crate) fn options(&self) -> String {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        let namespace = Some(&self.namespace).filter(|namespace| *namespace != "assay");
        let named = [("kubeconfig", kubeconfig.as_ref()), ("context", self.context.as_ref()), ("namespace", namespace)];
        let given =
            named.iter().filter_map(|(name, value)| Some(format!(" --{name} {}", assay_report::shell_word(value.as_ref()?))));
        given.collect()
    }
}

/// Returns the run of a root, if it is another run than this.
fn other_run(root: &ConfigMap, run_id: Option<&RunId>) -> Option<String> {
    let run = root.metadata.labels.as_ref()?.get(RUN)?;
    (run_id.map(RunId::as_str) != Some(run.as_str())).then(|| run.clone())
}

/// Returns a command that starts this program with the same arguments, in another environment.
pub(crate) fn restart_command() -> std::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1));
    command
}

/// Replaces this process with the command; returns only if that fails.
pub(crate) fn exec_command(command: &mut std::process::Command) -> Failure {
    let error = std::os::unix::process::CommandExt::exec(command);
    Failure::new(ErrorCode::Binaries, "this program cannot be started anew").because(&error)
}

/// Returns the installation of a namespace.
pub(crate) fn installation(cluster: &Cluster, namespace: &str) -> Result<Installation, Failure> {
    let map: Option<ConfigMap> = cluster.get(&ObjectPath::named("ConfigMap", namespace, INSTALLATION))?;
    let map = map.ok_or_else(|| {
        Failure::new(ErrorCode::NotInstalled, format!("Assay is not installed in the namespace `{namespace}`"))
            .hint(format!(
                "an administrator installs it with `assay bootstrap --namespace {namespace}`, or from `assay render kubernetes`; `assay run --bootstrap` makes what is missing"
            ))
    })?;
    Ok(Installation::read(namespace, &map.data.unwrap_or_default())?)
}

/// A namespace that was made for one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemporaryNamespace {
    /// Its name.
    pub(crate) name: String,
    /// Its UID: a later namespace of the same name is another one.
    pub(crate) uid: String,
}

impl std::fmt::Display for TemporaryNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.uid)
    }
}

impl std::str::FromStr for TemporaryNamespace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, uid) = text.split_once('=').ok_or("it is written NAME=UID")?;
        Ok(Self { name: name.to_owned(), uid: uid.to_owned() })
    }
}

/// Returns those of these namespaces that were made for one run of the installation `own`.
pub(crate) fn find_temporary<'a>(
    cluster: &Cluster,
    own: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<TemporaryNamespace>, Failure> {
    let mut all = Vec::new();
    for name in names {
        let there: Option<Namespace> = cluster.get(&ObjectPath::in_cluster("Namespace", name))?;
        all.extend(there.as_ref().and_then(|there| parse_temporary(there, own)));
    }
    Ok(all)
}

/// Returns the namespace if it is marked as made for one run; namespaces that are terminating are ignored.
fn parse_temporary(namespace: &Namespace, own: &str) -> Option<TemporaryNamespace> {
    let metadata = &namespace.metadata;
    let is_marked = metadata.labels.as_ref().and_then(|labels| labels.get(TEMPORARY)).is_some_and(|value| value == own);
    let is_there = metadata.deletion_timestamp.is_none();
    let (name, uid) = (metadata.name.clone()?, metadata.uid.clone()?);
    (is_marked && is_there).then_some(TemporaryNamespace { name, uid })
}

/// Makes namespaces that were made for one run permanent, with all objects in them.
pub(crate) fn keep(cluster: &Cluster, namespaces: &[TemporaryNamespace]) -> Result<(), Failure> {
    let forgotten = serde_json::json!({"metadata": {"labels": {TEMPORARY: null}}});
    for made in namespaces {
        cluster.merge(&ObjectPath::in_cluster("Namespace", &made.name), &forgotten)?;
    }
    Ok(())
}

/// Removes namespaces that were made for one run of the installation `own`, if they are unchanged; one that has gone is no error.
/// If another run has its root there, or has kept one of them, all of them stay.
pub(crate) fn remove(
    cluster: &Cluster,
    own: &str,
    run_id: Option<&RunId>,
    namespaces: &[TemporaryNamespace],
) -> Result<(), Failure> {
    let roots: Vec<ConfigMap> = cluster.list("ConfigMap", own, RUN)?;
    if let Some(other) = roots.iter().find_map(|root| other_run(root, run_id)) {
        return Err(Failure::new(ErrorCode::InUse, format!("the run `{other}` has its root in namespace `{own}`"))
            .hint("once it may go too: kubectl delete namespace"));
    }
    for made in namespaces {
        if find_temporary(cluster, own, std::iter::once(made.name.as_str()))?.contains(made) {
            cluster.delete(&ObjectPath::in_cluster("Namespace", &made.name), Some(&made.uid))?;
        }
    }
    Ok(())
}

/// A root and its annotations.
pub(crate) type AnnotatedRoot = (RunRoot, BTreeMap<String, String>);

/// Returns the root of a run, with its annotations; `None` if the cluster has no such run.
pub(crate) fn find_root(cluster: &Cluster, namespace: &str, run_id: &RunId) -> Result<Option<AnnotatedRoot>, Failure> {
    let name = root_name(run_id);
    let map: Option<ConfigMap> = cluster.get(&ObjectPath::named("ConfigMap", namespace, &name))?;
    // A root that is being deleted must not be depended on.
    let map = map.filter(|map| map.metadata.deletion_timestamp.is_none());
    Ok(map.map(|map| {
        let root = RunRoot { name, uid: map.metadata.uid.unwrap_or_default() };
        (root, map.metadata.annotations.unwrap_or_default())
    }))
}

/// Returns the root of a run; fails if there is none.
pub(crate) fn require_root(cluster: &Cluster, namespace: &str, run_id: &RunId) -> Result<AnnotatedRoot, Failure> {
    find_root(cluster, namespace, run_id)?.ok_or_else(|| {
        Failure::new(ErrorCode::NoSuchRun, format!("the namespace `{namespace}` has no run `{run_id}`")).hint(format!(
            "`assay status --namespace {namespace}` lists those that it has; a finished run is in its store ({RUN})"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_namespace_that_was_made_for_a_run_is_removed() {
        let of = |metadata: serde_json::Value| {
            let namespace = serde_json::from_value(serde_json::json!({"metadata": metadata})).expect("a namespace");
            parse_temporary(&namespace, "trial").map(|made| made.to_string())
        };
        let marked = serde_json::json!({"name": "a", "uid": "u", "labels": {TEMPORARY: "trial"}});
        let of_another = serde_json::json!({"name": "a", "uid": "u", "labels": {TEMPORARY: "other"}});
        assert_eq!(of(of_another), None, "another installation's");
        assert_eq!(of(marked.clone()), Some("a=u".to_owned()));
        assert_eq!("a=u".parse(), Ok(TemporaryNamespace { name: "a".to_owned(), uid: "u".to_owned() }));
        assert_eq!(of(serde_json::json!({"name": "a", "uid": "u"})), None, "somebody else's");
        let mut going = marked;
        going["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(of(going), None);
    }

    #[test]
    fn another_run_s_root_is_known_by_its_label() {
        let root = |labels: serde_json::Value| -> ConfigMap {
            serde_json::from_value(serde_json::json!({"metadata": {"name": "assay-a", "labels": labels}})).expect("a root")
        };
        let (own, none) = ("a".parse().expect("a run id"), serde_json::json!({}));
        let of_a = serde_json::json!({RUN: "a"});
        assert_eq!(other_run(&root(of_a.clone()), Some(&own)), None);
        assert_eq!(other_run(&root(of_a.clone()), None), Some("a".to_owned()), "whoever has no run yet has none of its own");
        assert_eq!(other_run(&root(serde_json::json!({RUN: "b"})), Some(&own)), Some("b".to_owned()));
        assert_eq!(other_run(&root(none), Some(&own)), None);
    }
}
