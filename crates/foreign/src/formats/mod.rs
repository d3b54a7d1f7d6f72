//! The formats, one module each.

pub(crate) mod aiperf;
pub(crate) mod benchmark_job;
pub(crate) mod genai_bench;
pub(crate) mod guidellm;
pub(crate) mod guidellm_scenario;
pub(crate) mod inference_perf;
pub(crate) mod sglang;
pub(crate) mod vllm;

#[cfg(test)]
mod tests;
