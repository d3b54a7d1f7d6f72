//! `assay cancel`: stops a run in a cluster.

use std::time::{Duration, Instant};

use assay_cluster::{Job, RUN, STAGE, has_ended};
use assay_manifest::RunId;
use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::attach::mark_cancelled;
use crate::commands::cluster::{ClusterOptions, require_root};
use crate::output;

/// The time limit for the driver: longer than the pods' grace period.
const LIMIT: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(500);

/// Stop a run in a cluster: its driver ends the work in progress and signs that the run was cancelled.
#[derive(clap::Args)]
pub(crate) struct Cancel {
    /// The run's name
    #[arg(value_name = "RUN")]
    run: RunId,
    /// The reason in the signed end of the run
    #[arg(long, value_name = "TEXT", default_value = "assay cancel")]
    reason: String,
    /// Do not wait for the run to end
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    at: ClusterOptions,
}

impl Cancel {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let cluster = self.at.connect()?;
        let namespace = &self.at.namespace;
        require_root(&cluster, namespace, &self.run)?;
        let selector = format!("{RUN}={},{STAGE}=driver", self.run);
        let is_over = || -> Result<bool, Failure> {
            let jobs: Vec<Job> = cluster.list("Job", namespace, &selector)?;
            Ok(jobs.iter().all(has_ended))
        };
        if is_over()? {
            output::line(format!("the run `{}` has ended already", self.run));
            return Ok(Exit::Done);
        }
        mark_cancelled(&cluster, namespace, &self.run, &self.reason)?;
        let begun = Instant::now();
        while !self.no_wait && !is_over()? {
            if begun.elapsed() > LIMIT {
                return Err(Failure::new(ErrorCode::NotEnded, format!("the run `{}` has not ended within {LIMIT:?}", self.run))
                    .hint("its driver may be gone: `assay status` shows it"));
            }
            std::thread::sleep(LOOK);
        }
        output::line(format!("the run `{}` {}", self.run, if self.no_wait { "will be stopped" } else { "was stopped" }));
        Ok(Exit::Done)
    }
}
