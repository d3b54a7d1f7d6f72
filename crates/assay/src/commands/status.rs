//! `assay status`: lists the runs of a cluster and their states.

use assay_cluster::{ConfigMap, Job, JobState, MANAGED_BY, Pod, RUN, STAGE, job_state, phase};
use assay_manifest::RunId;
use assay_stage::{Exit, Failure};
use serde_json::json;

use crate::commands::cluster::ClusterOptions;
use crate::output;

/// Show the runs of a cluster, or the stages of one.
#[derive(clap::Args)]
pub(crate) struct Status {
    /// The run's name [default: all runs of the namespace]
    #[arg(value_name = "RUN")]
    run: Option<RunId>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: ClusterOptions,
}

/// A Job and its state.
struct JobEntry {
    run: String,
    stage: String,
    pods: String,
    state: String,
    why: String,
    created: Option<String>,
}

impl Status {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let cluster = self.at.connect()?;
        let namespace = &self.at.namespace;
        let selector = match &self.run {
            Some(run) => format!("{}={},{RUN}={run}", MANAGED_BY.0, MANAGED_BY.1),
            None => format!("{}={},{STAGE}=driver", MANAGED_BY.0, MANAGED_BY.1),
        };
        let jobs: Vec<Job> = cluster.list("Job", namespace, &selector)?;
        let pods: Vec<Pod> = cluster.list("Pod", namespace, &selector)?;
        let mut lines: Vec<JobEntry> = jobs.iter().map(|job| job_entry(job, &pods)).collect();
        lines.sort_by(|one, other| one.created.cmp(&other.created));
        if self.json {
            let all: Vec<_> = lines
                .iter()
                .map(
                    |line| json!({"run": line.run, "stage": line.stage, "pods": line.pods, "state": line.state, "why": line.why}),
                )
                .collect();
            output::json(&json!({"namespace": namespace, "jobs": all}))?;
            return Ok(Exit::Done);
        }
        if let Some(run) = &self.run {
            let roots: Vec<ConfigMap> = cluster.list("ConfigMap", namespace, &format!("{RUN}={run}"))?;
            for (key, value) in roots.iter().flat_map(|root| root.data.iter().flatten()) {
                output::line(format!("{key:<12} {value}"));
            }
        }
        if lines.is_empty() {
            output::line(format!("the namespace `{namespace}` has no {}", if self.run.is_some() { "such run" } else { "runs" }));
        }
        for line in lines {
            let name = if self.run.is_some() { line.stage } else { line.run };
            output::line(format!("{name:<40} {:>6}  {:<10} {}", line.pods, line.state, line.why).trim_end());
        }
        Ok(Exit::Done)
    }
}

fn job_entry(job: &Job, pods: &[Pod]) -> JobEntry {
    let name = job.metadata.name.clone().unwrap_or_default();
    let label = |key: &str| job.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    let is_its = |pod: &&Pod| {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("batch.kubernetes.io/job-name")) == Some(&name)
    };
    let pods: Vec<&Pod> = pods.iter().filter(is_its).collect();
    let wanted = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1);
    let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
    let (state, why) = match job_state(Some(job), &pods, &[], u32::try_from(wanted).unwrap_or(1)) {
        JobState::Waiting(trouble) => ("waiting", trouble.map(|trouble| trouble.obstacle.to_string())),
        JobState::Running => ("running", None),
        JobState::Succeeded => ("done", None),
        JobState::Failed(failure) => {
            let failure = Failure::from(failure);
            ("failed", Some(format!("{}: {}", failure.code, failure.message)))
        }
    };
    JobEntry {
        // A schedule's Job has the run's name.
        run: Some(label(RUN)).filter(|run| !run.is_empty()).unwrap_or(name),
        stage: label(STAGE),
        pods: format!("{running}/{wanted}"),
        state: state.to_owned(),
        why: why.unwrap_or_default().lines().next().unwrap_or_default().to_owned(),
        created: job.metadata.creation_timestamp.as_ref().map(|at| at.0.to_string()),
    }
}
