//! The metrics of serving: their names, units and directions, in the order in which they are reported.

use assay_manifest::BetterDirection;

/// A statistic of a distribution of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Statistic {
    /// The arithmetic mean.
    Mean,
    /// The type 7 quantile.
    Quantile(f64),
    /// The type 7 quantile over all requests, with failed ones beyond all others.
    WithFailures(f64),
}

/// A metric that is one statistic of a distribution.
pub(super) type NamedStatistic = (&'static str, Statistic);

use Statistic::{Mean, Quantile, WithFailures};

pub(super) const TTFT: &[NamedStatistic] = &[
    ("ttft_ms_mean", Mean),
    ("ttft_ms_p50", Quantile(0.5)),
    ("ttft_ms_p90", Quantile(0.9)),
    ("ttft_ms_p95", Quantile(0.95)),
    ("ttft_ms_p99", Quantile(0.99)),
    ("ttft_ms_p50_with_failures", WithFailures(0.5)),
    ("ttft_ms_p95_with_failures", WithFailures(0.95)),
    ("ttft_ms_p99_with_failures", WithFailures(0.99)),
];
pub(super) const TTFT_SENT: &[NamedStatistic] = &[("ttft_sent_ms_p50", Quantile(0.5)), ("ttft_sent_ms_p99", Quantile(0.99))];
pub(super) const TTFO: &[NamedStatistic] = &[("ttfo_ms_p50", Quantile(0.5)), ("ttfo_ms_p99", Quantile(0.99))];
pub(super) const TPOT: &[NamedStatistic] = &[
    ("tpot_ms_mean", Mean),
    ("tpot_ms_p50", Quantile(0.5)),
    ("tpot_ms_p90", Quantile(0.9)),
    ("tpot_ms_p95", Quantile(0.95)),
    ("tpot_ms_p99", Quantile(0.99)),
];
pub(super) const ITL: &[NamedStatistic] = &[("itl_ms_mean", Mean), ("itl_ms_p50", Quantile(0.5)), ("itl_ms_p99", Quantile(0.99))];
pub(super) const ICL: &[NamedStatistic] = &[("icl_ms_mean", Mean), ("icl_ms_p50", Quantile(0.5)), ("icl_ms_p99", Quantile(0.99))];
pub(super) const E2E: &[NamedStatistic] = &[
    ("e2e_ms_mean", Mean),
    ("e2e_ms_p50", Quantile(0.5)),
    ("e2e_ms_p90", Quantile(0.9)),
    ("e2e_ms_p95", Quantile(0.95)),
    ("e2e_ms_p99", Quantile(0.99)),
    ("e2e_ms_p50_with_failures", WithFailures(0.5)),
    ("e2e_ms_p95_with_failures", WithFailures(0.95)),
    ("e2e_ms_p99_with_failures", WithFailures(0.99)),
];
pub(super) const E2E_SENT: &[NamedStatistic] = &[("e2e_sent_ms_p50", Quantile(0.5)), ("e2e_sent_ms_p99", Quantile(0.99))];
pub(super) const LATENESS: &[NamedStatistic] =
    &[("send_lateness_ms_p50", Quantile(0.5)), ("send_lateness_ms_p99", Quantile(0.99))];

/// A metric that reduce can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownMetric {
    pub(super) name: &'static str,
    /// Its unit; `currency` stands for the currency of the price.
    pub(super) unit: &'static str,
    pub(super) better: Option<BetterDirection>,
}

/// The placeholder for the currency of the price in [`KnownMetric::unit`].
pub(super) const CURRENCY: &str = "currency";

const RATES: &[KnownMetric] = &[
    higher("request_throughput_per_s", "requests/s"),
    higher("request_throughput_steady_per_s", "requests/s"),
    higher("output_tokens_per_s", "tokens/s"),
    higher("output_tokens_steady_per_s", "tokens/s"),
    neither("steady_fraction", "ratio"),
    higher("total_tokens_per_s", "tokens/s"),
    higher("goodput_requests_per_s", "requests/s"),
    higher("goodput_tokens_per_s", "tokens/s"),
    higher("good_fraction", "ratio"),
    lower("error_rate", "ratio"),
    neither("isl_tokens_asked_mean", "tokens"),
    neither("isl_tokens_mean", "tokens"),
    neither("isl_tokens_endpoint_mean", "tokens"),
    neither("isl_endpoint_difference", "ratio"),
    neither("osl_tokens_mean", "tokens"),
    lower("osl_mismatch_rate", "ratio"),
    neither("offered_rate_per_s", "requests/s"),
    neither("cached_tokens", "tokens"),
    lower("cost_per_request", CURRENCY),
    lower("cost_per_million_output_tokens", CURRENCY),
    higher("documents_per_s", "documents/s"),
];

const fn higher(name: &'static str, unit: &'static str) -> KnownMetric {
    KnownMetric { name, unit, better: Some(BetterDirection::Higher) }
}

const fn lower(name: &'static str, unit: &'static str) -> KnownMetric {
    KnownMetric { name, unit, better: Some(BetterDirection::Lower) }
}

const fn neither(name: &'static str, unit: &'static str) -> KnownMetric {
    KnownMetric { name, unit, better: None }
}

/// Returns every metric, in the order in which they are reported if none is declared.
pub(super) fn known_metrics() -> impl Iterator<Item = KnownMetric> {
    let latencies = [TTFT, TTFT_SENT, TTFO, TPOT, ITL, ICL, E2E, E2E_SENT].into_iter().flatten();
    let jitter = [lower("jitter_ms", "ms")];
    let latencies = latencies.chain(LATENESS).map(|(name, _)| lower(name, "ms"));
    latencies.chain(jitter).chain(RATES.iter().copied())
}
