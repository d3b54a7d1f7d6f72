//! Models on GPUs, and the step times that follow from public data sheets and model configurations by a roofline.
//!
//! Nothing here is measured. Reading memory and computing do not overlap, which makes steps longer than those of a real engine, and
//! the memory has its full bandwidth, which makes them shorter.

use crate::model::{BatchingConfig, CoTenant, StepTime};

/// A GPU, by its data sheet.
struct Gpu {
    memory_bytes: f64,
    memory_bytes_per_s: f64,
    /// Dense operations in bf16.
    flops_per_s: f64,
    /// The bandwidth to the other GPUs, in one direction.
    link_bytes_per_s: f64,
}

/// NVIDIA's data sheet of the H100 SXM: 80 GB, 3.35 TB/s, 1,979 teraFLOPS of bf16 with sparsity, which are half of that without, and
/// NVLink with 900 GB/s in both directions together.
const H100_SXM: Gpu = Gpu { memory_bytes: 80e9, memory_bytes_per_s: 3.35e12, flops_per_s: 989.5e12, link_bytes_per_s: 450e9 };

/// The share of the operations of the data sheet that a step reaches; an assumption.
const COMPUTE_EFFICIENCY: f64 = 0.6;

/// The time of an all-reduce by itself, without its bytes; an assumption.
const ALL_REDUCE_NS: f64 = 10_000.0;

/// The share of a GPU's memory that the engine uses: `gpu_memory_utilization`, by vLLM's default.
const MEMORY_SHARE: f64 = 0.9;

/// The bytes of a number in bf16.
const BF16_BYTES: f64 = 2.0;

/// The tokens of a block of the KV cache, by vLLM's default.
const BLOCK_TOKENS: u32 = 16;

/// A model in bf16 on GPUs of one kind, each of which has an equal share of it (tensor parallelism).
pub(crate) struct Deployment {
    gpu: Gpu,
    gpus: f64,
    parameters: f64,
    layers: f64,
    hidden_size: f64,
    kv_heads: f64,
    head_dim: f64,
}

/// Llama 3.1 8B on one H100. Its weights are files of 16.06 GB. Its `config.json` has 32 layers, a hidden size of 4,096, and 8 heads of
/// keys and values of 128 numbers.
pub(crate) const LLAMA_3_1_8B: Deployment = Deployment {
    gpu: H100_SXM,
    gpus: 1.0,
    parameters: 8.03e9,
    layers: 32.0,
    hidden_size: 4_096.0,
    kv_heads: 8.0,
    head_dim: 128.0,
};

/// Llama 3.1 70B on eight H100. Its weights are files of 141.1 GB. Its `config.json` has 80 layers, a hidden size of 8,192, and 8 heads
/// of keys and values of 128 numbers.
pub(crate) const LLAMA_3_1_70B_TP8: Deployment = Deployment {
    gpu: H100_SXM,
    gpus: 8.0,
    parameters: 70.55e9,
    layers: 80.0,
    hidden_size: 8_192.0,
    kv_heads: 8.0,
    head_dim: 128.0,
};

impl Deployment {
    /// Returns its engine, with the defaults of vLLM's server for GPUs of this size.
    pub(crate) fn batching(&self) -> BatchingConfig {
        BatchingConfig {
            step: self.step(),
            max_num_batched_tokens: 8_192,
            chunked_prefill: true,
            max_num_seqs: 1_024,
            speculative_tokens: 0,
            speculative_acceptance: 0.0,
            prefix_cache: true,
            block_tokens: BLOCK_TOKENS,
            kv_blocks: self.kv_blocks(),
            slow_factor: 1.0,
            cotenant: CoTenant::none(),
        }
    }

    /// Every step reads all weights, and each layer of several GPUs has two all-reduces. Every token takes two operations for each
    /// parameter, and the bytes of its all-reduces. Every token of context is read with its keys and values.
    fn step(&self) -> StepTime {
        let bytes_per_ns = self.gpus * self.gpu.memory_bytes_per_s / 1e9;
        let flops_per_ns = self.gpus * self.gpu.flops_per_s * COMPUTE_EFFICIENCY / 1e9;
        let token_ns = 2.0 * self.parameters / flops_per_ns + self.all_reduces() * self.all_reduce_token_ns();
        StepTime {
            base_ns: self.weight_bytes() / bytes_per_ns + self.all_reduces() * ALL_REDUCE_NS,
            prefill_token_ns: token_ns,
            decode_token_ns: token_ns,
            context_token_ns: self.kv_token_bytes() / bytes_per_ns,
            jitter_sigma: 0.0,
        }
    }

    /// Returns the blocks that fit beside the weights. Activations are neglected.
    fn kv_blocks(&self) -> u32 {
        let free_bytes = self.gpus * self.gpu.memory_bytes * MEMORY_SHARE - self.weight_bytes();
        (free_bytes / (self.kv_token_bytes() * f64::from(BLOCK_TOKENS))) as u32
    }

    fn weight_bytes(&self) -> f64 {
        self.parameters * BF16_BYTES
    }

    /// Returns the bytes of the keys and values of a token.
    fn kv_token_bytes(&self) -> f64 {
        2.0 * self.layers * self.kv_heads * self.head_dim * BF16_BYTES
    }

    fn all_reduces(&self) -> f64 {
        if self.gpus > 1.0 { 2.0 * self.layers } else { 0.0 }
    }

    /// Returns the time for a token in one all-reduce as a ring: each GPU sends 2 (n - 1) / n of its bytes.
    fn all_reduce_token_ns(&self) -> f64 {
        let sent_bytes = 2.0 * (self.gpus - 1.0) / self.gpus * self.hidden_size * BF16_BYTES;
        sent_bytes / (self.gpu.link_bytes_per_s / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of the page about the profiles.
    #[test]
    fn the_profiles_are_what_the_data_sheets_give() {
        let figures = |deployment: Deployment| {
            let step = deployment.step();
            let rounded = |ns: f64| (ns * 100.0).round() / 100.0;
            (
                [step.base_ns, step.prefill_token_ns, step.decode_token_ns, step.context_token_ns].map(rounded),
                deployment.kv_blocks(),
            )
        };
        // 16.06 GB / 3.35 TB/s; 2 x 8.03e9 / (0.6 x 989.5e12); 128 KiB / 3.35 TB/s; (72 - 16.06) GB / 2 MiB.
        assert_eq!(figures(LLAMA_3_1_8B), ([4_794_029.85, 27_050.7, 27_050.7, 39.13], 26_674));
        // 141.1 GB / 26.8 TB/s + 160 x 10 us; 2 x 70.55e9 / (0.6 x 7,916e12) + 160 x 28,672 / 450e9; 320 KiB / 26.8 TB/s; (576 - 141.1)
        // GB / 5 MiB.
        assert_eq!(figures(LLAMA_3_1_70B_TP8), ([6_864_925.37, 39_902.25, 39_902.25, 12.23], 82_950));
    }
}
