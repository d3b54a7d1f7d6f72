//! Statistics of performance: conclusions about a number from a handful of trials, and their limits.
//!
//! Everything here is a pure function of its arguments and gives the same bytes on every machine, so that a reader can compute a
//! number again and compare exactly. This rests on four rules:
//!
//! - Sums run in one fixed order, pairwise, over the ascending samples: the order in which trials finished cannot change a digit.
//! - Only operations that IEEE 754 rounds exactly are used (`+ - * /`, square root, rounding), never a fused multiply-add;
//!   logarithm and error function come from the portable `libm` crate; Clippy rejects the platform's (`clippy.toml`).
//! - Randomness is ChaCha8 under a seed that the caller derives from the digests of its inputs.
//! - A missing result is a value of its own: a missing interval carries its [reason](NoInterval), a missing verdict is
//!   [unknown](Verdict::Unknown).
//!
//! The caller chooses the unit of inference, and this is the most common mistake: requests or repetitions inside one trial are
//! not independent, so intervals are computed over one value per trial. Within one long trial, [`cluster`] takes sessions as the unit; such an
//! interval says nothing about the next trial.
//!
//! Most callers need [`estimate()`] and [`stability()`]; the modules hold the parts.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_methods, reason = "the platform's libm differs in the last bit: use the crate `libm`")
)]

pub mod bootstrap;
pub mod change_point;
pub mod chi_squared;
pub mod cluster;
pub mod correlation;
pub mod dependence;
pub mod estimate;
pub mod family;
pub mod hodges_lehmann;
pub mod hypothesis;
pub mod interval;
pub mod kolmogorov_smirnov;
pub mod mann_whitney;
pub mod normal;
pub mod order_statistic;
pub mod paired;
pub mod paired_mean;
mod pelt;
pub mod power;
pub mod quantile;
mod ranks;
pub mod robust;
pub mod samples;
pub mod selection;
pub mod signed_rank;
mod special;
pub mod stability;
pub mod steady;
pub mod student;
mod sum;
pub mod trend;
pub mod welch;

pub use bootstrap::{Bootstrap, Statistic, bootstrap};
pub use change_point::{ChangePoint, change_points, find_new_change};
pub use chi_squared::sd_upper_bound;
pub use cluster::{Cluster, MIN_CLUSTERS, clusters_for_quantile};
pub use correlation::{batch_means, effective_sample_size};
pub use dependence::{Dependence, dependence, family_order_p, order_p};
pub use estimate::{Estimate, estimate};
pub use family::{benjamini_hochberg, fewest_pairs, holm, lone_threshold};
pub use hodges_lehmann::{NoShift, Shift, cliffs_delta};
pub use hypothesis::{Alternative, NoTest};
pub use interval::{CONFIDENCE_LEVEL, Interval, Method, NoInterval};
pub use kolmogorov_smirnov::{KolmogorovSmirnov, kolmogorov_smirnov};
pub use mann_whitney::{Computation, MannWhitney, mann_whitney};
pub use order_statistic::{median_interval, quantile_interval};
pub use paired::{Averages, Differences, PairError, Side, sign_flip};
pub use paired_mean::PairedMean;
pub use power::{BaseNoise, Curve, Limits, Noise, NoiseView, Spikes};
pub use quantile::{Definition, nearest_rank, nearest_rank_ns, quantile, quantile_by, quantiles_ns};
pub use samples::{MAX_MAGNITUDE, SampleError, Samples};
pub use selection::{SelectedQuantile, Selection, WantedQuantile};
pub use signed_rank::{SignedRank, signed_rank};
pub use stability::{DEFAULT_NOISE_LIMIT, MIN_TRIALS, Reason, Stability, Verdict, stability};
pub use steady::steady;
pub use trend::{Trend, trend};
pub use welch::{Welch, welch};
