//! The thirteen tables. This is the only place where a column is named.

use assay_metric::Section;

use crate::metric_columns::{SLO_LIMITS, SPREADS, metric_columns};
use crate::schema::{AS_UNIT_SAYS, Column, ColumnPlaces, ROW_ID, Table};

/// The tables whose rows hold numbers that can be published.
pub const NUMBER_TABLES: [&Table; 3] = [&OUTCOME_FACT, &SERVING_OUTCOME_FACT, &TRAINING_OUTCOME_FACT];

/// Every table: dimensions first, then outcomes, and the run last, which is the order in which a run is published.
pub const TABLES: [&Table; 13] = [
    &SOFTWARE_VERSION_DIM,
    &HARDWARE_TOPOLOGY_DIM,
    &CLUSTER_REGION_DIM,
    &WORKLOAD_DIM,
    &ARTIFACT_LINEAGE_DIM,
    &OUTCOME_FACT,
    &SERVING_OUTCOME_FACT,
    &TRAINING_OUTCOME_FACT,
    &TELEMETRY_SLICE_FACT,
    &ATTEMPT_FACT,
    &CLUSTER_POD_FACT,
    &CLUSTER_EVENT_FACT,
    &BENCHMARK_RUN_FACT,
];

/// Returns the table of this name.
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.into_iter().find(|table| table.name == name)
}

const fn bool(name: &'static str, doc: &'static str) -> Column {
    Column::bool(name, doc)
}
const fn int(name: &'static str, doc: &'static str) -> Column {
    Column::int(name, doc)
}
const fn float(name: &'static str, doc: &'static str) -> Column {
    Column::float(name, doc)
}
const fn text(name: &'static str, doc: &'static str) -> Column {
    Column::text(name, doc)
}
const fn instant(name: &'static str, doc: &'static str) -> Column {
    Column::instant(name, doc)
}

/// The identity of every fact of a case.
const IDENTITY: &[Column] = &[
    text("run_id", "The run.").required().key(),
    text("benchmark_case_id", "The case, `workload.target.variant`.").required().key(),
    text("workload_spec_digest", "The digest of the frozen workload, which decides comparability.").required(),
    text("artifact_manifest_digest", "The digest of the Collection's manifest: the raw evidence that the row came from.")
        .required(),
];

/// The place where a fact was measured. Null if the grain is wider, or there is no scheduler.
const PLACE: &[Column] = &[
    text("scheduler_run_id", "The scheduler's own id of the run.").reserved("Slurm's and Kueue's accounting"),
    text("job_uid", "The UID of the Job."),
    text("pod_uid", "The UID of the pod."),
    text("node_name", "The node."),
];

/// The GPU of a fact that no source has one for.
const NO_GPU: &[Column] = &[text("gpu_uuid", "The vendor's unique id of the GPU.").reserved("facts of one GPU")];

/// A fact's dimensions: each is the row id of a row of that table.
const DIMENSIONS: &[Column] = &[
    text("software_version_key", "The row of `software_version_dim`.").required(),
    text("hardware_topology_key", "The row of `hardware_topology_dim`.").required(),
    text("cluster_region_key", "The row of `cluster_region_dim`.").required(),
    text("workload_key", "The row of `workload_dim`: the digits of the `workload_spec_digest`.").required(),
    text("artifact_lineage_key", "The row of `artifact_lineage_dim`.").required(),
];

/// The last column of every table.
const ID: &[Column] =
    &[text(ROW_ID, "The digest of the key columns, 64 hexadecimal digits; part of a number's address.").required()];

/// Statistics of a latency over all requests that have it: the median across counted trials of each trial's statistic.
macro_rules! latency {
    ($name:literal, $what:literal, $($suffix:literal: $statistic:literal),+) => {
        &[$(int(concat!($name, "_", $suffix), concat!($statistic, " of ", $what, ".")).unit("ns")),+]
    };
}

/// The variation of a headline figure across the counted trials.
macro_rules! across_trials {
    ($name:literal, $unit:literal) => {
        &[
            float(concat!($name, "_cv_pct"), concat!("Coefficient of variation of `", $name, "` across trials, ddof 1."))
                .unit("%"),
            float(concat!($name, "_ci_low"), concat!("Lower end of the interval of `", $name, "`.")).unit($unit),
            float(concat!($name, "_ci_high"), concat!("Upper end of the interval of `", $name, "`.")).unit($unit),
        ]
    };
}

/// One row for each case of a run. Published last: a run is visible when these rows are.
pub static BENCHMARK_RUN_FACT: Table = Table {
    name: "benchmark_run_fact",
    grain: "run x case",
    doc: "The cases of a run: their purpose, their targets, and how far their numbers may be trusted.",
    reserved: None,
    groups: &[
        IDENTITY,
        PLACE,
        NO_GPU,
        DIMENSIONS,
        &[
            text("benchmark_class", "The intent: `exploratory`, `realism` or `publication`.").required(),
            text("workload_type", "`serving`, `indicator` or `training`.").required(),
            text("pipeline", "The pipeline's name.").required(),
            text("pipeline_digest", "The digest of the pipeline's bytes.").required(),
            text(
                "plan_digest",
                "The digest of the Plan's body. It contains the order of the trials, so other runs of the commit have other digests.",
            )
            .required(),
            text("cadence", "The frequency of the pipeline's runs, such as `nightly`: the label `cadence` of the pipeline."),
            text("scheduler_path", "The scheduling path, such as `local`."),
            text(
                "layer",
                "The layer that is measured, such as `micro` or `end_to_end`: the label `layer` of the workload, else of the pipeline.",
            ),
            text("variable_under_test", "The one variable that differs between the sides of a comparison."),
            text("baseline_ref", "The side that is compared against, `target.variant`."),
            text("candidate_ref", "The side that is judged, `target.variant`."),
            text("use_case", "The use that the numbers are for: the label `use_case` of the workload, else of the pipeline."),
            text("owner", "The team or person responsible for the workload, else for the pipeline."),
            text("status", "`succeeded`, `partial` or `failed`.").required(),
            bool("success", "True if every planned trial counts.").required(),
            float("completeness", "Counted trials over planned trials, 0 to 1.").required(),
            text("issues", "Problems of the run as a whole: a JSON list of codes with details."),
            instant("started_unix_ns", "The start of the first attempt."),
            instant("finished_unix_ns", "The end of the last attempt."),
            text("source_kind", "`git`, `worktree` or `adhoc`.").required(),
            text("git_repository", "The repository's address, without credentials."),
            text("git_commit", "The commit."),
            bool("git_dirty", "True if the files that were read differ from the commit."),
            int("trials_planned", "Planned trials of the case.").unit("trials").required(),
            int("trials_counted", "Trials that count.").unit("trials").required(),
            int("attempts", "All attempts, of any status.").unit("attempts").required(),
            text("isolation", "The isolation between trials: `none`, `flush` or `restart_target`.").required(),
            text("placement", "The way in which the sides of a comparison share the machine: `coexist` or `alternate`.").required(),
            float("confidence_level", "The level of the intervals, such as 0.95."),
            text("outlier_method", "The method that finds outliers, such as `mad`."),
            text("outlier_action", "The treatment of outliers, such as `flag_and_keep`."),
            bool("stable", "True if the trials of every primary metric agree; null if there are too few to decide."),
            text("instability_reason", "The reason if the trials do not agree."),
            bool("representative", "True if the claim says that the numbers are representative."),
            bool("publication_safe", "True if every claim rule that can be checked when rows are made holds.").required(),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// The long form that gates, history and indicators read.
pub static OUTCOME_FACT: Table = Table {
    name: "outcome_fact",
    grain: "run x case x point x trial x attempt x metric x statistic",
    doc: "Every statistic as a row of its own. Trial and attempt are null for a statistic across counted trials; the ends of an interval are the statistics `ci_low` and `ci_high`.",
    reserved: None,
    groups: &[
        IDENTITY,
        PLACE,
        NO_GPU,
        DIMENSIONS,
        &[
            text("point_id", "The point; `all-loads` of a number over all loads of a case.").required().key(),
            text("trial_id", "The trial; null for a statistic across counted trials. Of all loads, it is the trial of that number at each load.").key(),
            int("attempt", "The attempt, from 0; null for a statistic across counted trials, and for a trial of all loads.").key(),
            text("metric", "The metric: the path of its value in the result.").required().key(),
            text("statistic", "The statistic: `median`, `mean`, `sd`, `cv`, `min`, `max`, `ci_low`, `ci_high`; `value` for a trial's value of a metric that names its statistic.")
                .required()
                .key(),
            float("value", "The number, in `unit`; null if it cannot be computed from the samples.").unit(AS_UNIT_SAYS),
            text("unit", "The unit of the metric. If the workload does not declare the metric: that of the last word of its name, such as `bytes`; `unknown` if the word is no unit.").required(),
            int("n", "The number of samples, or trials, that `value` was computed from.").unit("samples").required(),
            bool("valid", "True if the row counts; false for a statistic of an attempt that does not count.").required(),
            text("better", "`higher` or `lower`; null if the workload does not declare it."),
            bool("primary", "True if gates judge the metric.").required(),
            text("interval_kind", "The kind of the interval of an end (`ci_low`, `ci_high`): `between_trials`, or `within_run` for one trial, which does not hold the variation from run to run."),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each point of a serving case.
pub static SERVING_OUTCOME_FACT: Table = Table {
    name: "serving_outcome_fact",
    grain: "run x case x point",
    doc: "The performance of an inference endpoint under load, across the counted trials of a point. Under open loop, latencies count from the intended send time; `_sent` ones count from the actual send.",
    reserved: None,
    groups: &[
        IDENTITY,
        PLACE,
        NO_GPU,
        DIMENSIONS,
        &[
            text("point_id", "The point.").required().key(),
            text("point_kind", "`concurrency`, `rate`, `users`, `speed`, `scale` or `parameters`.").required(),
            int("concurrency", "Requests in flight at a time, if the point sets it.").unit("requests"),
            int("session_concurrency", "Sessions at a time, if the point sets it: of users, their number.").unit("sessions"),
            float("request_rate_per_s", "Configured arrival rate of requests, if the point sets it.").unit("requests/s"),
            float("session_rate_per_s", "Configured arrival rate of sessions, if the point sets it.").unit("sessions/s"),
            float("replay_speed", "Speed at which a trace is replayed, if the point sets it; 1 is the trace's own."),
            int("max_concurrency", "Most requests in flight of an open loop, in which due requests wait beyond it; null if none waits."),
        ],
        metric_columns!(Section::OfferedLoad),
        metric_columns!(Section::Lengths),
        &[
            int("tensor_parallel", "Devices that one replica of the model is spread over: as the server's command says, else as the target declares it.").unit("devices"),
            int("trials_counted", "Trials that count.").unit("trials").required(),
            int("requests", "Requests that were due in the measured phase.").unit("requests").required(),
            int("completed", "Requests that succeeded.").unit("requests").required(),
            int("failed", "Requests that failed, timed out or were cut short.").unit("requests").required(),
            int("dropped", "Requests that were due and could not be sent.").unit("requests").required(),
            int("cancelled", "Requests that the client cancelled, as the workload plans it. They are no failures.").unit("requests").required(),
            float("error_rate", "Failed and dropped over due without cancelled, of all counted trials together, 0 to 1; null if there are none."),
        ],
        metric_columns!(Section::Failures),
        &[
            int("duration_ns", "Length of the window that rates are over, summed over trials.").unit("ns").required(),
        ],
        metric_columns!(Section::Latency),
        metric_columns!(Section::Latency, with failures),
        metric_columns!(Section::Regularity),
        &[
            int("queue_delay_ns_mean", "Mean time in the server's queue of the requests that left it during counted trials, from the server's own histogram; null if it has none.").unit("ns"),
        ],
        metric_columns!(Section::Throughput),
        metric_columns!(Section::Cache),
        metric_columns!(Section::Goodput),
        &[
            bool("slo_met", "True if the point as a whole met its SLOs; null if it has none."),
        ],
        SLO_LIMITS,
        &[
            float("gpu_hour_cost", "The price of one GPU for one hour, in `currency`.").unit("as `currency` says"),
            text("currency", "ISO 4217 code of all costs of the row."),
        ],
        metric_columns!(Section::Cost),
        &[
            text("cost_absent_reason", "The reason if there are no costs."),
        ],
        &[
            text("interval_kind", "The kind of the intervals of the row: `between_trials`, or `within_run` for one trial, which does not hold the variation from run to run; null without an interval."),
        ],
        SPREADS,
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each phase and scale point of a training case.
pub static TRAINING_OUTCOME_FACT: Table = Table {
    name: "training_outcome_fact",
    grain: "run x case x point x phase x rank",
    doc: "The performance of a training job, phase by phase. The rank is null for the job as a whole.",
    reserved: Some("training workloads"),
    groups: &[
        IDENTITY,
        PLACE,
        NO_GPU,
        DIMENSIONS,
        &[
            text("point_id", "The point.").required().key(),
            text("phase", "The phase, such as `steady`.").required().key(),
            int("rank_id", "The rank; null for the job as a whole.").key(),
            int("world_size", "Ranks of the job.").unit("ranks").required(),
            int("nodes", "Nodes of the job.").unit("nodes"),
            int("trials_counted", "Trials that count.").unit("trials").required(),
            int("steps", "Observed steps.").unit("steps").required(),
        ],
        latency!(
            "step_time_ns", "the time of a step",
            "mean": "Mean", "p50": "Median", "p95": "95th percentile", "p99": "99th percentile"
        ),
        &[
            float("tokens_per_s", "Trained tokens per second.").unit("tokens/s"),
            float("samples_per_s", "Trained samples per second.").unit("samples/s"),
            int("time_to_train_ns", "Time until the target quality was reached.").unit("ns"),
            float("model_flops_per_step", "Model FLOPs of a step by the stated formula.").unit("FLOP"),
            float("peak_flops_per_s", "Peak FLOPs of all devices that MFU is taken against.").unit("FLOP/s"),
            float("mfu_pct", "Model FLOPs over peak FLOPs times time.").unit("%"),
            text("mfu_formula", "The formula of the model FLOPs."),
            float("scaling_efficiency_pct", "Throughput at N over N/N0 times throughput at N0.").unit("%"),
            int("scaling_reference_world_size", "N0 of the scaling efficiency.").unit("ranks"),
            int("productive_ns", "Time in steps that were kept.").unit("ns"),
            float("training_reliability_pct", "Productive time over wall time.").unit("%"),
            int("restarts", "Restarts of the job.").unit("restarts"),
        ],
        across_trials!("step_time_ns_p50", "ns"),
        across_trials!("tokens_per_s", "tokens/s"),
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each metric in a window of time on one thing.
pub static TELEMETRY_SLICE_FACT: Table = Table {
    name: "telemetry_slice_fact",
    grain: "run x case x trial x attempt x window x scope x metric",
    doc: "Recorded counters of hosts, devices, networks and schedulers while a trial ran, in windows. Node, pod and GPU are those of the observed object if its labels name them (of a Prometheus, and of dcgm-exporter); otherwise node, pod and Job are the recorder's.",
    reserved: None,
    groups: &[
        IDENTITY,
        PLACE,
        &[text("gpu_uuid", "The vendor's unique id of the GPU.")],
        DIMENSIONS,
        &[
            text("trial_id", "The trial; null for a window outside of any.").key(),
            int("attempt", "The attempt, from 0.").key(),
            instant("window_start_unix_ns", "Start of the window.").required().key(),
            instant("window_end_unix_ns", "End of the window.").required().key(),
            text(
                "scope_kind",
                "The kind of the observed object: `host`, `endpoint` and `exporter`, `gpu` of `nvidia-smi`, and of a Prometheus `node`, `gpu`, `pod`, `rank`, `endpoint` or `queue`; of energy `gpu` or `cpu package`.",
            )
            .required()
            .key(),
            text("scope_id", "The observed object.").required().key(),
            text("source", "The source of the values: `host`, `endpoint/TARGET`, `exporter/NAME`, `nvidia-smi/NAME`, `otlp/NAME` or `prometheus/NAME`.")
                .required()
                .key(),
            text("metric", "The metric.").required().key(),
            text("unit", "The unit of the values.").required(),
            text(
                "metric_kind",
                "`gauge`; `counter`, whose values are increases per second; or `derived`, whose one value is in `mean`.",
            )
            .required(),
            int("n", "Samples in the window.").unit("samples").required(),
            float("min", "The smallest.").unit(AS_UNIT_SAYS),
            float("mean", "The mean.").unit(AS_UNIT_SAYS),
            float("max", "The largest.").unit(AS_UNIT_SAYS),
            float("p95", "95th percentile.").unit(AS_UNIT_SAYS),
            int("gap_ns", "Time of the window without samples.").unit("ns").required(),
            text("method", "Of a derived value, the way in which it was computed: `counter` or `approximated`."),
            int("objects", "Of a derived value, the objects that were added up.").unit("objects"),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each shard's part of an attempt.
pub static ATTEMPT_FACT: Table = Table {
    name: "attempt_fact",
    grain: "run x case x point x trial x block x attempt x shard",
    doc: "Every attempt of any status, shard by shard: its time, its place, and whether it counts. Node, pod and Job are null on one machine.",
    reserved: None,
    groups: &[
        IDENTITY,
        PLACE,
        NO_GPU,
        DIMENSIONS,
        &[
            text("point_id", "The point.").required().key(),
            text("trial_id", "The trial.").required().key(),
            int("block", "The block that it ran in.").required().key(),
            int("incarnation", "The number of times that the block had been provisioned again.").required().key(),
            int("attempt", "The attempt, from 0.").required().key(),
            int("shard", "The shard, from 0.").required().key(),
            int("shards", "Shards that together made the attempt.").unit("shards").required(),
            text("pod_name", "The name of the pod."),
            text("attempt_status", "The status of the attempt, such as `completed` or `interrupted`.").required(),
            bool("valid", "True if there are no `reasons` against this shard's part.").required(),
            bool("counted", "True if it is the attempt that counts for its trial.").required(),
            text("reasons", "The reasons against it: a JSON list of codes with details."),
            instant("window_start_unix_ns", "Its start.").required(),
            instant("window_end_unix_ns", "Its end.").required(),
            int("duration_ns", "Its length by the monotonic clock.").unit("ns").required(),
            int("cpu_throttled_ns", "Time for which its control group was throttled.").unit("ns"),
            text("indicator_name", "For indicators: the name in the document that it printed."),
            text("indicator_component", "For indicators: the component in that document."),
            text(
                "indicator_parameters",
                "For indicators: the parameters in that document (`@parameters`) by path, a canonical JSON object.",
            ),
            int("exit_code", "For indicators: the exit code; null if a signal ended it."),
            int("cpu_user_ns", "For indicators: CPU time in user mode of all its processes (`getrusage`).").unit("ns"),
            int("cpu_system_ns", "For indicators: CPU time in system mode of all its processes.").unit("ns"),
            int("max_rss_bytes", "For indicators: the largest resident set of any one of its processes.").unit("bytes"),
            int("major_page_faults", "For indicators: page faults that required input.").unit("faults"),
            int("voluntary_context_switches", "For indicators: the times that its processes gave up the CPU.").unit("switches"),
            int("involuntary_context_switches", "For indicators: the times that its processes lost the CPU.").unit("switches"),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each pod of a run in a cluster.
pub static CLUSTER_POD_FACT: Table = Table {
    name: "cluster_pod_fact",
    grain: "run x pod",
    doc: "The run's pods as the cluster reported them when the evidence was collected. Pods that were removed earlier, such as the recorder's, are missing; null if not reported.",
    reserved: None,
    groups: &[
        &[
            text("run_id", "The run.").required().key(),
            text("artifact_manifest_digest", "The digest of the Collection's manifest: the raw evidence that the row came from.")
                .required(),
            text("cluster_region_key", "The row of `cluster_region_dim`.").required(),
            text("job_uid", "The UID of the Job that made the pod."),
            text("pod_uid", "The UID of the pod.").required().key(),
            text("node_name", "The node."),
            text("stage", "The stage that it ran, or `driver`."),
            int("shard", "Its place among the pods of an Indexed Job: the shard, from 0."),
            text("job_name", "The name of the Job."),
            text("pod_name", "The name of the pod."),
            text("queue", "The Kueue queue that the Job waited in."),
            instant("created_unix_ns", "The creation of the pod, to the second, as all instants of the row."),
            instant("scheduled_unix_ns", "The time at which a node was found for it."),
            instant("started_unix_ns", "The last start of its container."),
            instant("ended_unix_ns", "The end of its container after that start."),
            int("queueing_ns", "Time from the creation of its Job until the Job was last allowed to start.").unit("ns"),
            int("scheduling_ns", "Time from its creation until a node was found.").unit("ns"),
            text("phase", "The phase of the pod, such as `Succeeded`."),
            text("reason", "The reason for its end, as the cluster reports it, such as `Completed`, `OOMKilled` or `Evicted`."),
            int("exit_code", "The exit code of its container."),
            int("restarts", "Restarts of its container.").unit("restarts"),
            text("image", "The requested image."),
            text("image_id", "The image that ran, as the node reports it."),
            int("attempts", "Attempts that it recorded, of any status.").unit("attempts").required(),
            int("cpu_throttled_ns", "Time for which it was throttled during them, if all of them report it.").unit("ns"),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each event and condition of a run's objects in a cluster.
pub static CLUSTER_EVENT_FACT: Table = Table {
    name: "cluster_event_fact",
    grain: "run x object x type x reason",
    doc: "The events of the run's Jobs, pods and Kueue Workloads, the conditions of its Workloads and nodes, and the life of a Slurm job that it was in, as the cluster reported them when the evidence was collected. A cluster keeps events for an hour or so; null if not reported.",
    reserved: None,
    groups: &[
        &[
            text("run_id", "The run.").required().key(),
            text("artifact_manifest_digest", "The digest of the Collection's manifest: the raw evidence that the row came from.")
                .required(),
            text("cluster_region_key", "The row of `cluster_region_dim`.").required(),
            text("object_kind", "The kind of the object: `Pod`, `Job`, `Workload`, `Node` or `SlurmJob`.").required().key(),
            text("object_uid", "The UID of the object, or the id of a Slurm job.").required().key(),
            text("object_name", "The name of the object."),
            text("job_uid", "The UID of the Job that a Workload is of."),
            text("queue", "The Kueue queue of a Workload, or the partition of a Slurm job."),
            text("event_kind", "`event`, or `condition`, whose times are those of its last transition.").required().key(),
            text("event_type", "Of an event `Normal` or `Warning`; of a condition its type, such as `QuotaReserved`, `Admitted` or `Evicted`, and of a Slurm job `Submitted`, `Eligible`, `Started` or `Ended`.")
                .key(),
            text("status", "The status of a condition: `True`, `False` or `Unknown`."),
            text("reason", "The reason in one word, such as `FailedScheduling`; of a Slurm job that ended its state, such as `COMPLETED`.").key(),
            int("count", "The times that the event happened.").unit("events"),
            instant("first_unix_ns", "The first time of the event."),
            instant("last_unix_ns", "The last time of the event, or of the condition's transition."),
            int("after_creation_ns", "Time from the creation of a Workload or node, or the submission of a Slurm job, until the transition: of `Admitted` and `Started`, the time that it waited.")
                .unit("ns"),
            text("message", "The message of the last time, its first 512 bytes."),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each bundle of software versions.
pub static SOFTWARE_VERSION_DIM: Table = Table {
    name: "software_version_dim",
    grain: "bundle of software versions",
    doc: "The software of a target. Null if it is not known.",
    reserved: None,
    groups: &[
        &[
            text("image_digest", "The container image that ran.").key(),
            text("operating_system", "Name and version of the operating system.").key(),
            text("kernel_version", "The kernel.").key(),
            text("driver_version", "The GPU driver.").key(),
            text("driver_source", "The origin of `driver_version`, as in `hardware_topology_dim.gpu_source`.").key(),
            text("cuda_version", "CUDA.").key(),
            text("nccl_version", "NCCL.").key(),
            text("framework_version", "The framework, such as PyTorch, as the pipeline declares it.").key(),
            text("runtime_version", "The runtime, such as the C library of a program or a container runtime.").key(),
            text("server_version", "The version of the inference server, as it reports it; else as the pipeline declares it.")
                .key(),
            text("compiler_version", "The compiler that `prepare` used.").key(),
            text("other_versions", "All other software: a canonical JSON object from name to version.").key(),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each bundle of hardware.
pub static HARDWARE_TOPOLOGY_DIM: Table = Table {
    name: "hardware_topology_dim",
    grain: "bundle of hardware",
    doc: "The hardware of a target's hosts, and of no other host. Null if it is not known.",
    reserved: None,
    groups: &[
        &[
            text("gpu_model", "The model of the GPUs of one host; several models are separated by ` + `.").key(),
            int("gpu_count", "GPUs of all hosts; in a cluster, those that the target's pods may use.").unit("devices").key(),
            int("gpu_memory_bytes", "Memory of one GPU.").unit("bytes").key(),
            text("gpu_source", "The origin of `gpu_model`, and of `gpu_count` unless the target's pods state a limit: `host` (the driver on the target's hosts), `node_labels`, `scrape_labels` (dcgm-exporter's series as the run scraped them), `exporter_labels` (those in a Prometheus) or `declared`.").key(),
            text("pcie_layout", "The attachment of devices to PCIe.").reserved("the hardware probe"),
            text("nvlink_topology", "The NVLink links between GPUs.").reserved("the hardware probe"),
            text("gpu_nic_affinity", "The network cards that are near each GPU.").reserved("the hardware probe"),
            text("numa_layout", "NUMA nodes and their CPUs: a JSON list.").key(),
            text("nic", "The network cards: a JSON list.").key(),
            text("storage_fabric", "The storage.").reserved("the hardware probe"),
            text("cpu_vendor", "The CPU's vendor.").key(),
            text("cpu_model", "The CPU's model.").key(),
            text("cpu_signature", "Family, model and stepping.").key(),
            text("microcode", "Revision of the microcode.").key(),
            int("sockets", "Sockets.").unit("sockets").key(),
            int("cores", "Physical cores.").unit("cores").key(),
            int("logical_cpus", "CPUs that the kernel schedules on.").unit("CPUs").key(),
            bool("smt", "True if a core has several threads.").key(),
            int("memory_bytes", "Memory.").unit("bytes").key(),
            int("max_frequency_khz", "Highest CPU frequency.").unit("kHz").key(),
            text("caches", "Data and unified caches: a JSON list.").key(),
            text("architecture", "Machine architecture.").key(),
            text("virtualization", "Hypervisor or container.").key(),
            int("hosts", "Hosts of the target.").unit("hosts").key(),
            text("other_hosts", "Facts of the hosts that differ from the first in name order: a JSON list without duplicates. Null if all are alike.").key(),
            text("other_facts", "Declared facts that have no column of their own: a canonical JSON object from name to value.").key(),
            text("facts_source", "`declared` if a person declared any of the row's facts, else `observed`; `unknown` if there is none.").required().key(),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each place in a cluster.
pub static CLUSTER_REGION_DIM: Table = Table {
    name: "cluster_region_dim",
    grain: "slice of a scheduler",
    doc: "The place of a target, and of the run's own pods. Null if it is not known; `local` runs have a cluster of that name.",
    reserved: None,
    groups: &[
        &[
            text("cluster", "The cluster; `local` without one.").required().key(),
            text("region", "The region.").key(),
            text("availability_zone", "The availability zone.").key(),
            text("node_pool", "The node pool.").key(),
            text("queue", "The queue.").key(),
            text("scheduler_path", "The scheduling path, such as `local`.").key(),
            text("resource_flavor", "The resource flavor.").key(),
            text("tenant_mode", "`dedicated` or `shared`.").key(),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each frozen workload.
pub static WORKLOAD_DIM: Table = Table {
    name: "workload_dim",
    grain: "frozen workload",
    doc: "The work. Its key is the workload's digest, independent of the workload's name.",
    reserved: None,
    groups: &[
        &[
            text("workload_spec_digest", "The digest of the frozen workload.").required().key(),
            text("workload", "Its name.").required(),
            text("workload_type", "`serving`, `indicator` or `training`.").required(),
            text("seed", "The seed of all random draws, 64 hexadecimal digits.").required(),
            text("script_digest", "For indicators: the digest of the script's bytes."),
            text("parameters", "For indicators: a canonical JSON object."),
            text("model", "The model."),
            text("model_weights_source", "The address of the model's weights.").reserved("models that are pinned by digest"),
            text("precision", "The numeric precision."),
            text("protocol", "The serving protocol."),
            text("deployment_model", "The deployment of the server."),
            text("stack_under_test", "The kind of inference server."),
            text("batching_policy", "The batching policy."),
            text("concurrency_points", "The points: a JSON list."),
            text("prompt_distribution", "Distribution of input lengths: canonical JSON."),
            text("completion_distribution", "Distribution of output lengths: canonical JSON."),
            text("cache", "The treatment of the prefix cache."),
            text("dataset_digest", "The digest of the dataset's file; null if prompts are synthetic."),
            text("tokenizer_digest", "The digest of the tokenizer."),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

/// One row for each run, which leads from its rows back to raw evidence and signatures.
pub static ARTIFACT_LINEAGE_DIM: Table = Table {
    name: "artifact_lineage_dim",
    grain: "run x frozen workload",
    doc: "The links from a row back to the evidence and its signers.",
    reserved: None,
    groups: &[
        &[
            text("run_id", "The run.").required().key(),
            text("artifact_manifest_digest", "The digest of the Collection's manifest.").required().key(),
            text("workload_spec_digest", "The digest of the frozen workload.").required().key(),
            text("source_manifest_digest", "The digest of the Source's manifest, as the Plan names it."),
            text("plan_manifest_digest", "The digest of the Plan's manifest.").required(),
            text("plan_digest", "The digest of the Plan's body.").required(),
            text("environment_manifest_digests", "The digests of the Environments' manifests: a JSON list."),
            text("execution_manifest_digests", "The digests of the ExecutionParts' manifests: a JSON list."),
            text("reduce_binary_digest", "The digest of the program that made the rows.").required(),
            text("query_spec_digests", "The digests of the queries that the plan pins for publish: a JSON list."),
            text("signing_state", "`signed` or `unsigned`: the state of the rows' inputs.").required(),
            text(
                "signers",
                "The signers of reduce's inputs: a JSON object from the kind of manifest to a sorted list of key fingerprints.",
            ),
            text("retention_tier", "The retention of the raw evidence: `hot`, `warm` or `cold`.")
                .reserved("retention rules of a store"),
            int("raw_bytes", "Size of the raw evidence.").unit("bytes"),
            int("raw_artifacts", "The number of raw artifacts.").unit("artifacts"),
        ],
        ID,
    ],
    places: ColumnPlaces::new(),
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{FOREIGN_TABLES, Type};

    /// All tables, with those of foreign evidence.
    fn all_tables() -> impl Iterator<Item = &'static Table> {
        TABLES.into_iter().chain(FOREIGN_TABLES)
    }

    #[test]
    fn names_are_unique_and_plain() {
        for table in all_tables() {
            let names: Vec<_> = table.columns().map(|column| column.name).collect();
            let distinct: BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), distinct.len(), "{}", table.name);
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(names.iter().all(|name| name.bytes().all(plain)), "{}", table.name);
            assert!(names.iter().all(|name| table.column(name).is_some()));
        }
    }

    #[test]
    fn every_row_has_an_id_and_a_key_that_identifies_it() {
        for table in all_tables() {
            assert_eq!(
                table.columns().last().map(|column| (column.name, column.nullable, column.key)),
                Some((ROW_ID, false, false))
            );
            assert!(table.keys().next().is_some(), "{}", table.name);
            assert!(table.keys().all(|column| column.kind != Type::Float), "{}: a float is no key", table.name);
        }
    }

    #[test]
    fn a_reserved_column_is_null_and_in_no_key() {
        for column in TABLES.iter().flat_map(|table| table.columns()).filter(|column| column.reserved.is_some()) {
            assert!(column.nullable && !column.key, "{}", column.name);
        }
    }

    #[test]
    fn units_follow_names() {
        for column in all_tables().flat_map(Table::columns) {
            let parts: Vec<_> = column.name.split('_').collect();
            let is_ns = parts.contains(&"ns") && !column.name.ends_with("_pct");
            assert_eq!(is_ns, column.unit == Some("ns"), "{}", column.name);
            assert!(
                !is_ns || matches!(column.kind, Type::Int | Type::Instant) || column.name.contains("_ci_"),
                "{}: ns are whole",
                column.name
            );
            assert!(!parts.contains(&"ms"), "{}: milliseconds are for people", column.name);
            assert_eq!(column.name.ends_with("_pct"), column.unit == Some("%"), "{}", column.name);
            assert!(column.doc.ends_with('.'), "{}", column.name);
        }
    }

    #[test]
    fn every_fact_of_a_case_carries_keys_and_dimensions() {
        let of_run = [&CLUSTER_POD_FACT, &CLUSTER_EVENT_FACT];
        let of_case = |table: &&Table| table.name.ends_with("_fact") && !of_run.contains(table);
        for table in TABLES.into_iter().filter(of_case) {
            for column in IDENTITY.iter().chain(PLACE).chain(NO_GPU).chain(DIMENSIONS) {
                assert!(table.column(column.name).is_some(), "{}.{}", table.name, column.name);
            }
        }
        assert_eq!(TABLES.last().map(|table| table.name), Some("benchmark_run_fact"), "the run is published last");
    }
}
