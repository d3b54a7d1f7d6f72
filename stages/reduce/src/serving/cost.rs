//! The cost of a second of the measured system: the price of a GPU for an hour, times the GPUs that it runs on.

use assay_manifest::Plan;
use assay_metric::GpuCounts;

/// The price of the measured system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Price {
    /// One GPU for one hour.
    pub(super) gpu_hour: f64,
    /// The number of GPUs.
    pub(super) gpus: u64,
    /// ISO 4217 code.
    pub(super) currency: String,
}

impl Price {
    /// Returns the price of one second.
    pub(super) fn per_second(&self) -> f64 {
        self.gpu_hour * self.gpus as f64 / 3600.0
    }
}

/// Returns the price of a case's target, or the reason why there is none.
pub(super) fn price(plan: &Plan, gpus: &Result<GpuCounts, String>) -> Result<Price, String> {
    let pricing = plan.pricing.as_ref().ok_or("the pipeline states no price")?;
    match gpus.clone()?.all {
        0 => Err("the price is that of a GPU, and the target has none".to_owned()),
        gpus => Ok(Price { gpu_hour: pricing.gpu_hour, gpus, currency: pricing.currency.clone() }),
    }
}
