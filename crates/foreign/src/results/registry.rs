//! The formats of results that can be imported. Help, pages and tables derive from this list.

use super::format::{ResultField, ResultFormat};
use super::formats::{
    aiperf, benchmark_report, criterion, genai_bench, google_benchmark, guidellm, hyperfine, inference_perf, jmh, k6, loadgen,
    perf_stat, pytest_benchmark, sglang, vllm,
};

/// All formats.
pub static RESULT_FORMATS: [&ResultFormat; 15] = [
    &aiperf::FORMAT,
    &vllm::FORMAT,
    &sglang::FORMAT,
    &genai_bench::FORMAT,
    &guidellm::FORMAT,
    &hyperfine::FORMAT,
    &criterion::FORMAT,
    &pytest_benchmark::FORMAT,
    &google_benchmark::FORMAT,
    &jmh::FORMAT,
    &perf_stat::FORMAT,
    &k6::FORMAT,
    &loadgen::FORMAT,
    &inference_perf::FORMAT,
    &benchmark_report::FORMAT,
];

/// Returns the definition of a metric of a format.
pub fn field_of_metric(format: &str, metric: &str) -> Option<&'static ResultField> {
    let format = RESULT_FORMATS.iter().find(|known| known.name == format)?;
    let fields = format.parts.iter().flat_map(|part| part.scopes).flat_map(|scope| scope.fields);
    fields.into_iter().find(|field| field.metric == metric)
}
