//! The statistics that metrics are reported with.

/// The computation of a statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimator {
    /// The only value of the trial.
    Value,
    /// The arithmetic mean of the samples.
    Mean,
    /// The type 7 quantile of the samples.
    Quantile(f64),
    /// The type 7 quantile over all requests, with those that have no sample ranked above all others.
    WithFailures(f64),
}

/// Defines [`Statistic`] from rows of variant, suffix of names, phrase before the metric's meaning, and estimator; and the macros
/// by which the table of metrics makes names and docs.
macro_rules! statistics {
    ($($variant:ident, $suffix:literal, $phrase:literal, $estimator:expr;)+) => {
        /// A statistic of a metric. Names of metrics end in it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Statistic {
            $(#[doc = concat!("`", $suffix, "`.")] $variant,)+
        }

        impl Statistic {
            /// All statistics.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the end of the names of metrics, such as `_p99`; empty for the only value of a trial.
            pub const fn suffix(self) -> &'static str {
                match self { $(Self::$variant => $suffix,)+ }
            }

            /// Returns the phrase before the meaning of a metric, such as `99th percentile of `.
            pub const fn phrase(self) -> &'static str {
                match self { $(Self::$variant => $phrase,)+ }
            }

            /// Returns the computation.
            pub const fn estimator(self) -> Estimator {
                match self { $(Self::$variant => $estimator,)+ }
            }
        }

        macro_rules! suffix { $(($variant) => { $suffix };)+ }
        macro_rules! phrase { $(($variant) => { $phrase };)+ }
        pub(crate) use {phrase, suffix};
    };
}

statistics! {
    Value, "", "", Estimator::Value;
    Mean, "_mean", "Mean of ", Estimator::Mean;
    P10, "_p10", "10th percentile of ", Estimator::Quantile(0.1);
    P50, "_p50", "Median of ", Estimator::Quantile(0.5);
    P90, "_p90", "90th percentile of ", Estimator::Quantile(0.9);
    P95, "_p95", "95th percentile of ", Estimator::Quantile(0.95);
    P99, "_p99", "99th percentile of ", Estimator::Quantile(0.99);
    P50WithFailures, "_p50_with_failures", "Median, failures counted as slowest, of ", Estimator::WithFailures(0.5);
    P95WithFailures, "_p95_with_failures", "95th percentile, failures counted as slowest, of ", Estimator::WithFailures(0.95);
    P99WithFailures, "_p99_with_failures", "99th percentile, failures counted as slowest, of ", Estimator::WithFailures(0.99);
}

impl Statistic {
    /// Returns the statistic for people, such as `p99 with failures`; empty for the only value of a trial.
    pub fn title(self) -> String {
        self.suffix().trim_start_matches('_').replace('_', " ")
    }

    /// Returns true if failed requests are counted as the slowest.
    pub const fn counts_failures(self) -> bool {
        matches!(self.estimator(), Estimator::WithFailures(_))
    }
}
