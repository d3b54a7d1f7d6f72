//! Statistics of performance: what a handful of trials can say about a number, and what it cannot.
//!
//! Everything here is a pure function of its arguments and gives the same bytes on every machine, so that whoever doubts a number can
//! compute it again and compare exactly. That rests on four habits:
//!
//! - Sums run in one fixed order, pairwise, over the ascending samples: the order in which trials finished cannot change a digit.
//! - Only operations that IEEE 754 rounds exactly are used (`+ - * /`, square root, rounding), never a fused multiply-add; logarithm and
//!   error function come from the portable `libm` crate, not from the platform.
//! - Randomness is ChaCha8 under a seed that the caller derives from the digests of its inputs.
//! - What cannot be said is a value of its own: a missing interval carries its [reason](NoInterval), a missing verdict is
//!   [unknown](Verdict::Unknown).
//!
//! The unit of inference is the caller's business and the most common mistake: requests or repetitions inside one trial are not
//! independent, so intervals are made over one value per trial.
//!
//! [`estimate()`] and [`stability()`] are what most callers want; the modules hold the parts.

pub mod bootstrap;
pub mod change_point;
pub mod estimate;
pub mod interval;
pub mod normal;
pub mod order_statistic;
mod pelt;
pub mod quantile;
pub mod robust;
pub mod samples;
pub mod selection;
pub mod stability;
pub mod steady;
mod sum;
pub mod trend;

pub use bootstrap::{Bootstrap, Statistic, bootstrap};
pub use change_point::{ChangePoint, change_points, newly_changed};
pub use estimate::{Estimate, estimate};
pub use interval::{CONFIDENCE_LEVEL, Interval, Method, NoInterval};
pub use order_statistic::median_interval;
pub use quantile::{nearest_rank, nearest_rank_ns, quantile, quantiles_ns};
pub use samples::{MAX_MAGNITUDE, SampleError, Samples};
pub use selection::{Answer, Selection, Want};
pub use stability::{DEFAULT_NOISE_LIMIT, MIN_TRIALS, Reason, Stability, Verdict, stability};
pub use steady::steady;
pub use trend::{Trend, trend};
