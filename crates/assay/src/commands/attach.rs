//! `assay attach`: follows a run that a driver drives, wherever it was started.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use assay_cluster::{CANCEL, Cluster, JobState, ObjectPath, Pod, RUN, STAGE, has_begun, job_state, root_name};
use assay_manifest::RunId;
use assay_process::{Cancel, Signal};
use assay_runner::Observer;
use assay_stage::{ErrorCode, Exit, Failure};
use serde_json::json;

use crate::commands::cluster::{ClusterOptions, require_root};
use crate::output;
use crate::progress::{Detail, Progress};
use crate::run_event::{RunOutcome, dispatch_event};

/// The interval at which the driver is checked if no change is reported.
const LOOK: Duration = Duration::from_millis(200);
/// The interval at which the connection to the cluster is checked.
const TRY_EVERY: Duration = Duration::from_secs(10);
/// The time after which a cluster that does not respond counts as lost.
const LOST_AFTER: Duration = Duration::from_mins(1);
/// Log lines that may wait to be shown.
const WAITING_LINES: usize = 4096;

/// Follow a run in a cluster to its end. An interrupt ends only this command; `assay cancel` stops the run.
#[derive(clap::Args)]
pub(crate) struct Attach {
    /// The run's name
    #[arg(value_name = "RUN")]
    run: RunId,
    #[command(flatten)]
    at: ClusterOptions,
}

impl Attach {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        use std::io::IsTerminal as _;
        let cancel = assay_process::cancel_on_signals(&[Signal::INT, Signal::TERM])
            .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))?;
        let cluster = self.at.connect()?;
        require_root(&cluster, &self.at.namespace, &self.run)?;
        let mut progress = Progress::new(false, std::io::stderr().is_terminal(), Detail::Stages);
        let ended = follow(&cluster, &self.at, &self.run, &mut progress, &cancel, Interrupt::Leaves)?;
        drop(progress);
        if !ended {
            output::line(format!("the run `{}` goes on; to stop it: assay cancel {}{}", self.run, self.run, self.at.options()));
            return Ok(Exit::Done);
        }
        output::line(format!("the run `{}` is finished; its store has the result", self.run));
        Ok(Exit::Done)
    }
}

/// The effect of an interrupt on the command that follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Stops the run: this command started it, as on this machine.
    Stops,
    /// Stops following; the run goes on.
    Leaves,
}

/// Shows the driver's events until it has ended. Returns its failure if it has one, and false if the run was left to itself.
pub(crate) fn follow(
    cluster: &Cluster,
    at: &ClusterOptions,
    run_id: &RunId,
    observer: &mut dyn Observer,
    cancel: &Cancel,
    interrupt: Interrupt,
) -> Result<bool, Failure> {
    let namespace = &at.namespace;
    let watched = cluster.watch(namespace, &format!("{RUN}={run_id},{STAGE}=driver"));
    let (sender, lines) = sync_channel(WAITING_LINES);
    let (mut followed, mut told, mut asked) = (BTreeSet::new(), String::new(), false);
    let (mut last_try, mut last_response) = (Instant::now(), Instant::now());
    let mut ended = None;
    loop {
        let seen = watched.next(LOOK);
        // The pods of a driver that was replaced have nothing more to report.
        let driver = seen.jobs.keys().next().cloned().unwrap_or_default();
        let pods: Vec<&Pod> = seen.job_pods(&driver);
        for pod in &pods {
            let name = pod.metadata.name.clone().unwrap_or_default();
            if has_begun(pod) && followed.insert(name.clone()) {
                cluster.follow(namespace, &name, sender.clone(), watched.waker());
            }
        }
        while let Ok(line) = lines.try_recv() {
            ended = dispatch_event(&line.text, run_id, observer).or(ended);
        }
        if ended.as_ref().is_some_and(RunOutcome::is_complete) {
            return Ok(true);
        }
        if cancel.is_cancelled() && interrupt == Interrupt::Leaves {
            return Ok(false);
        }
        if cancel.is_cancelled() && !asked {
            asked = true;
            mark_cancelled(cluster, namespace, run_id, cancel.reason().unwrap_or("stopped"))?;
            output::diagnostic("stopping the run: its driver ends what is under way and says so, signed");
        }
        match seen.jobs.values().next() {
            Some(job) => match job_state(Some(job), &pods, &[], 1) {
                JobState::Succeeded => {
                    drain(&lines, run_id, observer);
                    return Ok(true);
                }
                JobState::Failed(failure) => {
                    // A driver that removes its own namespace does not live to end in order.
                    let ended = drain(&lines, run_id, observer).or(ended);
                    return ended.map_or_else(|| Err(failure.into()), |ended| ended.result).map(|()| true);
                }
                JobState::Waiting(Some(trouble)) => {
                    let obstacle = trouble.obstacle.to_string();
                    if obstacle != told {
                        output::diagnostic(format!("  waiting for the driver: {obstacle}"));
                        told = obstacle;
                    }
                }
                JobState::Waiting(None) | JobState::Running => {}
            },
            None if seen.is_whole => {
                if let Some(ended) = drain(&lines, run_id, observer).or(ended) {
                    return ended.result.map(|()| true);
                }
                return Err(Failure::new(ErrorCode::DriverGone, format!("the run `{run_id}` has no driver any more"))
                    .hint("run it again with the same `--run-id` to take it up"));
            }
            None => {}
        }
        if last_try.elapsed() > TRY_EVERY {
            last_try = Instant::now();
            match cluster.get::<serde_json::Value>(&ObjectPath::named("ConfigMap", namespace, &root_name(run_id))) {
                Ok(_) => last_response = Instant::now(),
                Err(error) if last_response.elapsed() > LOST_AFTER => {
                    let again = format!("the run goes on; `assay attach {run_id}{}` follows it again", at.options());
                    return Err(Failure { code: ErrorCode::ConnectionLost, ..Failure::from(error) }.hint(again));
                }
                Err(error) => tracing::debug!(failure = %Failure::from(error), "the cluster does not respond"),
            }
        }
    }
}

/// Reads the last events, which arrive a moment after the end is seen.
fn drain(
    lines: &std::sync::mpsc::Receiver<assay_cluster::LogLine>,
    run_id: &RunId,
    observer: &mut dyn Observer,
) -> Option<RunOutcome> {
    let mut ended = None;
    while let Ok(line) = lines.recv_timeout(Duration::from_millis(500)) {
        ended = dispatch_event(&line.text, run_id, observer).or(ended);
    }
    ended
}

/// Asks the driver of a run to stop it.
pub(crate) fn mark_cancelled(cluster: &Cluster, namespace: &str, run_id: &RunId, reason: &str) -> Result<(), Failure> {
    let name = root_name(run_id);
    let place = ObjectPath::named("ConfigMap", namespace, &name);
    cluster.merge(&place, &json!({"metadata": {"annotations": {CANCEL: reason}}}))?;
    Ok(())
}
