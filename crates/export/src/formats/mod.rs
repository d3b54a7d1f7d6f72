//! One module for each format.

pub(crate) mod aiperf;
pub(crate) mod amun;
pub(crate) mod benchmark_report;
pub(crate) mod genai_bench;
pub(crate) mod guidellm;
pub(crate) mod loadgen;
pub(crate) mod mlflow;
pub(crate) mod openlineage;
pub(crate) mod vllm;
