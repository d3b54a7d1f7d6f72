//! The formats that can be imported. Help, pages and tables derive from this list.

use crate::format::Format;
use crate::formats::{benchmark_job, genai_bench, vllm};

/// All formats.
pub static FORMATS: [&Format; 3] = [&benchmark_job::FORMAT, &genai_bench::FORMAT, &vllm::FORMAT];
