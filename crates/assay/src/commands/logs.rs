//! `assay logs`: shows the logs of a run's pods, and the outputs of its trials.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use assay_cluster::{Pod, RUN, STAGE, has_begun, has_ended, phase};
use assay_manifest::RunId;
use assay_stage::{Exit, Failure};

use crate::commands::cluster::{ClusterOptions, require_root};
use crate::commands::store_options::StoreOptions;
use crate::commands::trial_output;
use crate::output;

/// The interval at which new pods are looked for.
const LOOK: Duration = Duration::from_millis(300);
/// Lines that may wait to be printed.
const WAITING_LINES: usize = 4096;

/// Print the logs of the pods of a run in a cluster, each line with its pod; or what the script of a trial wrote, wherever it ran.
#[derive(clap::Args)]
pub(crate) struct Logs {
    /// The run's name
    #[arg(value_name = "RUN")]
    run: RunId,
    /// Only this stage, or `driver`
    #[arg(value_name = "STAGE")]
    stage: Option<String>,
    /// Follow the logs until the run has ended
    #[arg(long, short)]
    follow: bool,
    /// Print the stdout and stderr of this trial's attempts instead, from the evidence in the store: CASE.POINT.tN, or the end of it if no other trial's
    /// is the same, such as t0
    #[arg(long, value_name = "TRIAL", conflicts_with_all = ["stage", "follow"])]
    trial: Option<String>,
    /// Only this attempt, counted from 1
    #[arg(long, value_name = "N", requires = "trial")]
    attempt: Option<u32>,
    #[command(flatten)]
    place: StoreOptions,
    #[command(flatten)]
    at: ClusterOptions,
}

impl Logs {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if let Some(trial) = &self.trial {
            let run = self.place.runs().open(self.run.as_str())?;
            trial_output::print(&run, trial, self.attempt)?;
            return Ok(if run.chain.is_established() { Exit::Done } else { Exit::Unestablished });
        }
        let cluster = self.at.connect()?;
        let namespace = &self.at.namespace;
        require_root(&cluster, namespace, &self.run)?;
        let of_stage = self.stage.as_ref().map(|stage| format!(",{STAGE}={stage}")).unwrap_or_default();
        let selector = format!("{RUN}={}{of_stage}", self.run);
        if !self.follow {
            let mut pods: Vec<Pod> = cluster.list("Pod", namespace, &selector)?;
            pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0));
            for pod in pods {
                let name = pod.metadata.name.clone().unwrap_or_default();
                if phase(&pod) == "Pending" {
                    continue;
                }
                match cluster.log(namespace, &name, None) {
                    Ok(said) => said.lines().for_each(|line| output::line(format!("{name}  {line}"))),
                    Err(error) => output::diagnostic(format!("{name}: {error}")),
                }
            }
            return Ok(Exit::Done);
        }
        let watched = cluster.watch(namespace, &format!("{RUN}={}", self.run));
        let (sender, lines) = sync_channel(WAITING_LINES);
        let mut followed = BTreeSet::new();
        loop {
            let seen = watched.next(LOOK);
            for (name, pod) in &seen.pods {
                let labels = pod.metadata.labels.as_ref();
                let stage = labels.and_then(|labels| labels.get(STAGE));
                let is_asked = self.stage.is_none() || self.stage.as_ref() == stage;
                if is_asked && has_begun(pod) && followed.insert(name.clone()) {
                    cluster.follow(namespace, name, sender.clone(), watched.waker());
                }
            }
            while let Ok(line) = lines.try_recv() {
                output::line(format!("{}  {}", line.pod, line.text));
            }
            let is_live = |pod: &Pod| !matches!(phase(pod), "Succeeded" | "Failed");
            if output::has_no_reader() {
                return Ok(Exit::Done);
            }
            if seen.is_whole && !seen.pods.values().any(is_live) && seen.jobs.values().all(has_ended) {
                while let Ok(line) = lines.recv_timeout(LOOK) {
                    output::line(format!("{}  {}", line.pod, line.text));
                }
                return Ok(Exit::Done);
            }
        }
    }
}
