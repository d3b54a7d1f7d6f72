//! Gates: whether a candidate got worse, with known error rates.
pub mod rule;
