//! Schedules: a CronJob whose Jobs each drive a run of the head of a branch at that time.

use std::time::Duration;

use assay_manifest::Name;
use serde_json::json;

use crate::job::driver_spec;
use crate::own_source::{JOB, add_label_variable, mount_git_credentials};
use crate::{Installation, MANAGED_BY, Object, STAGE};

/// Characters that a Job's name needs after the CronJob's: a dash and the slot, in minutes since 1970. The Job's name is the
/// run's.
const MAX_NAME: usize = 40 - 9;

/// A schedule of a pipeline.
pub struct CronSchedule<'a> {
    /// The installation.
    pub installation: &'a Installation,
    /// The pipeline's name.
    pub name: &'a Name,
    /// Its file, from the repository's root.
    pub path: &'a str,
    /// The repository's address.
    pub repository: &'a str,
    /// The branch, whose commit is looked up when the slot comes.
    pub branch: &'a str,
    /// The schedule in cron's format: minute, hour, day of month, month, day of week.
    pub schedule: &'a str,
    /// The time zone of `schedule`.
    pub time_zone: &'a str,
    /// The starting deadline: a run that could not start this long after its slot is skipped.
    pub deadline: Duration,
}

/// Builds the CronJob.
pub fn cron_job(cron: &CronSchedule<'_>) -> Object {
    let CronSchedule { installation, .. } = cron;
    let name: String = cron.name.as_str().chars().take(MAX_NAME).collect();
    let name = name.trim_end_matches('-');
    let labels = json!({MANAGED_BY.0: MANAGED_BY.1, STAGE: "driver"});
    let words = [
        "/assay/assay",
        "drive",
        "--run-id",
        "$(ASSAY_JOB)",
        "--pipeline",
        cron.path,
        "--repo",
        cron.repository,
        "--commit",
        cron.branch,
    ];
    let labels = labels.as_object().cloned().unwrap_or_default();
    let mut spec = driver_spec(installation, labels.clone(), words.map(str::to_owned).into());
    let pod = &mut spec["template"]["spec"];
    add_label_variable(pod, JOB, "batch.kubernetes.io/job-name");
    mount_git_credentials(pod);
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": installation.namespace, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
        "spec": {
            "schedule": cron.schedule,
            "timeZone": cron.time_zone,
            // Two runs at once would measure each other.
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": cron.deadline.as_secs(),
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}
