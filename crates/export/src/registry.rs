//! The formats that runs are exported in. Help, reference page and tests derive from this list.

use crate::format::ExportFormat;
use crate::formats::{aiperf, amun, benchmark_report, genai_bench, guidellm, loadgen, mlflow, openlineage, vllm};

/// All formats.
pub static EXPORT_FORMATS: [&ExportFormat; 9] = [
    &vllm::FORMAT,
    &benchmark_report::FORMAT,
    &aiperf::FORMAT,
    &genai_bench::FORMAT,
    &guidellm::FORMAT,
    &loadgen::FORMAT,
    &openlineage::FORMAT,
    &mlflow::FORMAT,
    &amun::FORMAT,
];
