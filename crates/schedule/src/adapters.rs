//! The LoRA adapter of each request, or of each session.

use std::sync::Arc;

use assay_manifest::Adapter;

use crate::Generator;

/// The draws of adapters: the value of the concern `adapter` at the index of a request, or at the number of a session, whose turns have one
/// adapter for as long as it lasts.
#[derive(Clone)]
pub(crate) struct Adapters {
    /// The sums of the weights of the adapters up to each.
    sums: Arc<[f64]>,
    values: Generator,
}

impl Adapters {
    /// Creates the draws; `None` if there are no adapters.
    pub(crate) fn new(adapters: &[Adapter], values: Generator) -> Option<Self> {
        let mut sum = 0.0;
        let sums = adapters.iter().map(|adapter| {
            sum += adapter.weight;
            sum
        });
        (!adapters.is_empty()).then(|| Self { sums: sums.collect(), values })
    }

    /// Returns the place of the adapter in the list, from 0: the first one whose sum of weights exceeds that share of all.
    pub(crate) fn at(&mut self, index: u64) -> u32 {
        let unit = self.values.unit_f64(index);
        self.of_unit(unit)
    }

    fn of_unit(&self, unit: f64) -> u32 {
        let all = self.sums.last().copied().unwrap_or_default();
        let before = self.sums.partition_point(|sum| *sum <= unit * all);
        before.min(self.sums.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_drawn_in_proportion_to_their_weights() {
        let adapters = |weights: &[f64]| -> Vec<Adapter> {
            let adapter = |(place, weight): (usize, &f64)| Adapter { name: place.to_string(), weight: *weight };
            weights.iter().enumerate().map(adapter).collect()
        };
        let values = || Generator::new(&crate::Seed::new([1; 32]), &["adapter"]);
        let draws = Adapters::new(&adapters(&[3.0, 0.0, 1.0]), values()).expect("adapters");
        // The second one has no weight: 3/4 of all values are the first one's.
        assert_eq!([0.0, 0.749, 0.75, 0.999].map(|unit| draws.of_unit(unit)), [0, 0, 2, 2]);
        assert!(Adapters::new(&[], values()).is_none());
    }
}
