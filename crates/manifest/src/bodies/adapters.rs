//! The LoRA adapters that requests ask for.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A LoRA adapter that requests name in place of the model, with its weight among others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// The name by which the endpoint serves it. The name of the model itself stands for no adapter.
    pub name: String,
    /// The weight: a request, or a session with all of its turns, has the adapter with a probability in proportion to it.
    pub weight: f64,
}

impl Adapter {
    /// The most adapters of a workload.
    pub const MAX: usize = 1000;

    /// Returns the reason why requests cannot be dealt to these adapters; `None` if they can.
    pub fn refusal(adapters: &[Self]) -> Option<&'static str> {
        let names: BTreeSet<&str> = adapters.iter().map(|adapter| adapter.name.as_str()).collect();
        let is_weight = |adapter: &Self| adapter.weight >= 0.0 && adapter.weight.is_finite();
        if adapters.len() > Self::MAX {
            Some("there are more than 1000")
        } else if names.len() < adapters.len() {
            Some("one is named twice")
        } else if !adapters.iter().all(is_weight) {
            Some("a weight is negative, or no number")
        } else if !adapters.is_empty() && adapters.iter().map(|adapter| adapter.weight).sum::<f64>() <= 0.0 {
            Some("no weight is above 0")
        } else {
            None
        }
    }
}
