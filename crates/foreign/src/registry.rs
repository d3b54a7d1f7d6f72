//! The formats that can be imported. Help, pages and tables derive from this list.

use crate::format::Format;
use crate::formats::{aiperf, benchmark_job, genai_bench, guidellm, guidellm_scenario, inference_perf, sglang, vllm};

/// All formats.
pub static FORMATS: [&Format; 8] = [
    &benchmark_job::FORMAT,
    &genai_bench::FORMAT,
    &aiperf::FORMAT,
    &vllm::FORMAT,
    &guidellm::FORMAT,
    &guidellm_scenario::FORMAT,
    &inference_perf::FORMAT,
    &sglang::FORMAT,
];
