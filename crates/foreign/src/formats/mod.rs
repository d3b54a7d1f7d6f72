//! The formats, one module each.

pub(crate) mod aiperf;
pub(crate) mod amun;
pub(crate) mod benchmark_job;
pub(crate) mod benchmark_run;
pub(crate) mod genai_bench;
pub(crate) mod guidellm;
pub(crate) mod guidellm_run;
pub(crate) mod guidellm_scenario;
pub(crate) mod inference_perf;
pub(crate) mod inferencex;
pub(crate) mod llm_d_profile;
pub(crate) mod mlperf_conf;
pub(crate) mod sglang;
pub(crate) mod vllm;
pub(crate) mod workload_specification;

#[cfg(test)]
mod tests;
