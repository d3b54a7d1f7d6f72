//! The shipped views: rows of visible runs with their most used columns.

/// A shipped view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub name: &'static str,
    /// Its content.
    pub doc: &'static str,
    /// The query behind it.
    pub sql: &'static str,
    /// The tables that it reads.
    pub tables: &'static [&'static str],
}

/// Every view. All but `runs` join on `benchmark_run_fact`, which is committed last: rows of an incomplete run are in the tables,
/// and in no view. Two files of a dimension may hold the same row, so dimensions are taken once per row id.
pub const VIEWS: [View; 8] = [
    View {
        name: "runs",
        doc: "One row for each case of a visible run, with the software, hardware, place and workload that it was measured on.",
        sql: include_str!("views/runs.sql"),
        tables: &["benchmark_run_fact", "workload_dim", "hardware_topology_dim", "software_version_dim", "cluster_region_dim"],
    },
    View {
        name: "outcomes",
        doc: "The rows of `outcome_fact` of visible runs.",
        sql: include_str!("views/outcomes.sql"),
        tables: &["outcome_fact", "benchmark_run_fact"],
    },
    View {
        name: "serving",
        doc: "The rows of `serving_outcome_fact` of visible runs.",
        sql: include_str!("views/serving.sql"),
        tables: &["serving_outcome_fact", "benchmark_run_fact"],
    },
    View {
        name: "training",
        doc: "The rows of `training_outcome_fact` of visible runs.",
        sql: include_str!("views/training.sql"),
        tables: &["training_outcome_fact", "benchmark_run_fact"],
    },
    View {
        name: "telemetry",
        doc: "The rows of `telemetry_slice_fact` of visible runs.",
        sql: include_str!("views/telemetry.sql"),
        tables: &["telemetry_slice_fact", "benchmark_run_fact"],
    },
    View {
        name: "attempts",
        doc: "The rows of `attempt_fact` of visible runs.",
        sql: include_str!("views/attempts.sql"),
        tables: &["attempt_fact", "benchmark_run_fact"],
    },
    View {
        name: "pods",
        doc: "The rows of `cluster_pod_fact` of visible runs.",
        sql: include_str!("views/pods.sql"),
        tables: &["cluster_pod_fact", "benchmark_run_fact"],
    },
    View {
        name: "cluster_events",
        doc: "The rows of `cluster_event_fact` of visible runs.",
        sql: include_str!("views/cluster_events.sql"),
        tables: &["cluster_event_fact", "benchmark_run_fact"],
    },
];

/// Returns the view of this name.
pub fn view(name: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.name == name)
}
