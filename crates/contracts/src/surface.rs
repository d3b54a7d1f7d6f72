//! The documents that the contract consists of.

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurfaceKind {
    /// A page.
    Doc,
    /// A YAML file.
    Yaml,
}

/// A document of the contract.
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// Its name.
    pub name: &'static str,
    /// Its path in Assay's repository.
    pub path: &'static str,
    /// Its form.
    pub kind: SurfaceKind,
    /// Its content, in one sentence.
    pub description: &'static str,
    /// The text of a YAML file; a page has none here.
    pub text: Option<&'static str>,
}

/// The template of a BenchmarkRun.
pub(crate) const RUN_TEMPLATE: &str = include_str!("../templates/benchmark_run.yaml");

const fn page(name: &'static str, path: &'static str, description: &'static str) -> Surface {
    Surface { name, path, kind: SurfaceKind::Doc, description, text: None }
}

const fn yaml(name: &'static str, path: &'static str, text: &'static str, description: &'static str) -> Surface {
    Surface { name, path, kind: SurfaceKind::Yaml, description, text: Some(text) }
}

/// All documents, in the order of the contract.
pub const SURFACES: [Surface; 7] = [
    page("methodology", "docs/statistics.md", "Estimators, intervals, stability and the rules of a claim."),
    page("warehouse", "docs/warehouse.md", "The curated tables, their queries and their lineage."),
    yaml(
        "workload_spec",
        "crates/contracts/templates/benchmark_workload_spec.yaml",
        include_str!("../templates/benchmark_workload_spec.yaml"),
        "A workload specification, whose digest identifies the workload.",
    ),
    yaml(
        "benchmark_run",
        "crates/contracts/templates/benchmark_run.yaml",
        RUN_TEMPLATE,
        "The template of a BenchmarkRun, with observability and sinks.",
    ),
    yaml(
        "warehouse_contract",
        "crates/contracts/templates/performance_warehouse_contract.yaml",
        include_str!("../templates/performance_warehouse_contract.yaml"),
        "Raw evidence, curated tables, hot metrics, telemetry sources and retention.",
    ),
    page("kubernetes_service", "docs/kubernetes.md", "Runs in a Kubernetes cluster."),
    yaml(
        "benchmark_run_crd",
        "crates/contracts/templates/benchmarkrun_crd.yaml",
        include_str!("../templates/benchmarkrun_crd.yaml"),
        "The schema of BenchmarkRun objects.",
    ),
];
