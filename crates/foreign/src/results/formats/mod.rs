//! The formats, one module each.

pub(crate) mod aiperf;
pub(crate) mod benchmark_report;
pub(crate) mod criterion;
pub(crate) mod genai_bench;
pub(crate) mod google_benchmark;
pub(crate) mod guidellm;
pub(crate) mod hyperfine;
pub(crate) mod inference_perf;
pub(crate) mod jmh;
pub(crate) mod k6;
pub(crate) mod loadgen;
pub(crate) mod perf_stat;
pub(crate) mod pytest_benchmark;
pub(crate) mod sglang;
pub(crate) mod vllm;
