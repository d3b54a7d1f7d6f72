//! Reasons and remedies that several formats give.

/// The reason why an option for results is ignored.
pub(crate) const ALL_METRICS: &str = "Assay keeps all records and reports all metrics and percentiles";

/// The reason why an option for reports is ignored.
pub(crate) const OWN_REPORTS: &str = "Assay keeps all records and writes its own reports";

/// The reason why a seed is ignored.
pub(crate) const OWN_SEED: &str = "the seed of another generator gives other draws; `seed` of a workload repeats Assay's own";

/// The remedy of a dataset.
pub(crate) const DATASET_FILE: &str = "put the file beside the workload, and write `dataset: {path: FILE}` instead of `lengths`";

/// The remedy of a trace.
pub(crate) const TRACE_FILE: &str = "write `trace: {path: FILE, format: FORMAT}` and `load: {mode: replay}`";

/// The remedy of adapters of a model.
pub(crate) const ADAPTERS: &str = "write `adapters: [{name: NAME}]` into the workload";

/// The remedy of a warm-up that is a number of requests.
pub(crate) const WARMUP: &str = "Assay's warm-up is a time that comes before: write `load.warmup: TIME` into the workload";

/// The remedy of a part of the end that is not measured.
pub(crate) const COOLDOWN: &str = "Assay measures up to the end, and drains the requests that are open: remove it";

/// The remedy of an endpoint without an address.
pub(crate) const NO_ADDRESS: &str = "add the address of the endpoint, or name it with `--url URL`";
