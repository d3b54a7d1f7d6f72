//! The formats that can be imported. Help, pages and tables derive from this list.

use crate::format::Format;
use crate::formats::{
    aiperf, amun, benchmark_job, benchmark_run, genai_bench, guidellm, guidellm_run, guidellm_scenario, inference_perf,
    inferencex, llm_d_profile, mlperf_conf, sglang, vllm, workload_specification,
};

/// All formats.
pub static FORMATS: [&Format; 15] = [
    &benchmark_job::FORMAT,
    &benchmark_run::FORMAT,
    &workload_specification::FORMAT,
    &amun::FORMAT,
    &genai_bench::FORMAT,
    &aiperf::FORMAT,
    &vllm::FORMAT,
    &guidellm::FORMAT,
    &guidellm_run::FORMAT,
    &guidellm_scenario::FORMAT,
    &inference_perf::FORMAT,
    &mlperf_conf::FORMAT,
    &inferencex::FORMAT,
    &llm_d_profile::FORMAT,
    &sglang::FORMAT,
];
