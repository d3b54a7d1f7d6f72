//! The names of the gauges: one registry for metrics of serving, of indicators and of the run itself.
//!
//! Names follow Prometheus: a prefix, base units and the unit at the end, and after it `_ci_low` or `_ci_high` for an end of the interval,
//! as `_sum` follows the unit of a histogram.

use assay_manifest::{MAX_LOAD, MetricSummary};
use assay_metric::{Metric, MetricName, Statistic, Unit};

/// The prefix of all names.
pub(crate) const PREFIX: &str = "assay_";

/// A gauge of the run itself, once for each case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunGauge {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
}

macro_rules! run_gauges {
    ($($constant:ident = $name:literal: $help:literal;)+) => {
        $(pub(crate) const $constant: RunGauge = RunGauge { name: $name, help: $help };)+
        /// The gauges of the run itself.
        pub(crate) const RUN_GAUGES: &[RunGauge] = &[$($constant),+];
    };
}

run_gauges! {
    END = "assay_run_end_timestamp_seconds": "End of the last attempt of the case, in seconds since 1970.";
    SUCCEEDED = "assay_run_succeeded": "1 if every planned trial of the case counts, else 0.";
    GRADE = "assay_run_grade": "Grade of the run: 0 exploratory, 1 realism, 2 publication.";
    TRIALS_PLANNED = "assay_run_trials_planned": "Planned trials of the case.";
    TRIALS_COUNTED = "assay_run_trials_counted": "Trials of the case that count.";
    ATTEMPTS_EXCLUDED = "assay_run_attempts_excluded": "Attempts of the case that do not count.";
    UNSTABLE = "assay_run_unstable_metrics": "Primary metrics of the case, over all points, whose trials do not agree.";
    POINTS = "assay_run_points": "Points of the case.";
    POINTS_LEFT_OUT = "assay_run_points_left_out": "Points of the case whose numbers were not pushed, because no label tells them from another point.";
}

/// The name of a gauge, with the divisor and the factor that convert a value of the metric to its unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GaugeName {
    pub(crate) text: String,
    pub(crate) help: String,
    scale: Scale,
}

/// A conversion to the base unit. It divides or multiplies by a whole number, so that 1500 ms is 1.5 s and nothing near it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    By(f64),
    Over(f64),
}

impl GaugeName {
    /// Converts a value of the metric to the unit of the gauge.
    pub(crate) fn convert(&self, value: f64) -> f64 {
        match self.scale {
            Scale::By(factor) => value * factor,
            Scale::Over(divisor) => value / divisor,
        }
    }
}

/// Returns true if a metric of a Summary is a headline number: gates judge it, or it is one of serving.
pub(crate) fn is_headline(metric: &MetricSummary) -> bool {
    metric.primary || metric.metric == MAX_LOAD || MetricName::find(&metric.metric).is_some_and(is_headline_of_serving)
}

/// Returns true if a metric of serving is a headline number: gates judge it by default, reports have a column of it, or it is the error rate,
/// which no alert can do without.
pub(crate) fn is_headline_of_serving(name: &MetricName) -> bool {
    name.is_primary || name.rank.is_some() || name.metric == Metric::ErrorRate
}

/// Returns the name of the gauge of a metric's median across trials.
pub(crate) fn gauge_name(metric: &MetricSummary) -> GaugeName {
    match MetricName::find(&metric.metric) {
        Some(name) => serving_name(name, &metric.unit),
        None if metric.metric == MAX_LOAD => {
            let (unit, scale) = base_unit(&metric.unit);
            let help = "Most load within the SLOs, over all loads of the case: median across trials.".to_owned();
            GaugeName { text: join(&format!("{PREFIX}{MAX_LOAD}"), &unit), help, scale }
        }
        None => {
            let (unit, scale) = base_unit(&metric.unit);
            let help = format!("{}, of an indicator: median across trials.", metric.metric);
            GaugeName { text: join(&format!("{PREFIX}indicator_{}", words(&metric.metric)), &unit), help, scale }
        }
    }
}

/// Returns the name of the gauge of a metric of serving. `unit` is that of the Summary, which states the currency of costs.
pub(crate) fn serving_name(name: &MetricName, unit: &str) -> GaugeName {
    let definition = name.definition();
    let (unit, scale) = match definition.unit {
        Unit::Milliseconds => ("seconds".to_owned(), Scale::Over(1e3)),
        Unit::RequestsPerSecond => ("requests_per_second".to_owned(), Scale::By(1.0)),
        Unit::TokensPerSecond => ("tokens_per_second".to_owned(), Scale::By(1.0)),
        Unit::DocumentsPerSecond => ("documents_per_second".to_owned(), Scale::By(1.0)),
        Unit::Ratio => ("ratio".to_owned(), Scale::By(1.0)),
        Unit::Tokens | Unit::TokenCount => ("tokens".to_owned(), Scale::By(1.0)),
        Unit::Currency | Unit::CurrencyPerMillion => (words(unit), Scale::By(1.0)),
    };
    let stem = format!("{PREFIX}{}{}", definition.key, name.statistic.suffix());
    // Two halves of a name may share a word: `output_tokens` in `tokens_per_second`.
    let merged = (name.statistic == Statistic::Value).then(|| merge(&stem, &unit)).flatten();
    let phrase = name.statistic.phrase();
    let meaning = if phrase.is_empty() { capitalized(definition.meaning) } else { format!("{phrase}{}", definition.meaning) };
    GaugeName { text: merged.unwrap_or_else(|| join(&stem, &unit)), help: format!("{meaning}: median across trials."), scale }
}

/// Returns the base unit of a declared unit as the end of a name, and the conversion to it. A unit of no known family stays.
fn base_unit(unit: &str) -> (String, Scale) {
    let scale = |base: &str, factor: f64| (base.to_owned(), Scale::By(factor));
    let over = |base: &str, divisor: f64| (base.to_owned(), Scale::Over(divisor));
    match unit {
        "s" => scale("seconds", 1.0),
        "ms" => over("seconds", 1e3),
        "us" | "µs" => over("seconds", 1e6),
        "ns" => over("seconds", 1e9),
        "B" | "byte" | "bytes" => scale("bytes", 1.0),
        "KiB" => scale("bytes", 1024.0),
        "MiB" => scale("bytes", 1_048_576.0),
        "GiB" => scale("bytes", 1_073_741_824.0),
        "TiB" => scale("bytes", 1_099_511_627_776.0),
        "B/s" | "bytes/s" => scale("bytes_per_second", 1.0),
        "kB/s" => scale("bytes_per_second", 1e3),
        "MB/s" => scale("bytes_per_second", 1e6),
        "GB/s" => scale("bytes_per_second", 1e9),
        "TB/s" => scale("bytes_per_second", 1e12),
        "ratio" => scale("ratio", 1.0),
        "%" | "percent" => over("ratio", 100.0),
        "unknown" | "count" => (String::new(), Scale::By(1.0)),
        other => {
            let by_second = other.strip_suffix("/s").map(|of| format!("{of}_per_second"));
            (words(&by_second.unwrap_or_else(|| other.to_owned()).replace('/', "_per_")), Scale::By(1.0))
        }
    }
}

/// Joins a stem and a unit with an underscore, unless one of them is empty.
fn join(stem: &str, unit: &str) -> String {
    if unit.is_empty() { stem.to_owned() } else { format!("{stem}_{unit}") }
}

/// Joins a stem and a unit that share a word; `None` if they share none.
fn merge(stem: &str, unit: &str) -> Option<String> {
    let (before, last) = stem.rsplit_once('_')?;
    let first = unit.split('_').next()?;
    (first == last).then(|| format!("{before}_{unit}"))
}

/// Returns a text as words of a name: lower-case letters, digits and single underscores.
fn words(text: &str) -> String {
    let mut words = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() {
            words.push(character.to_ascii_lowercase());
        } else if !words.is_empty() && !words.ends_with('_') {
            words.push('_');
        }
    }
    words.trim_end_matches('_').to_owned()
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_base_units() {
        let converted = |unit: &str, value: f64| {
            let (text, scale) = base_unit(unit);
            (text.clone(), GaugeName { text, help: String::new(), scale }.convert(value))
        };
        assert_eq!(converted("ms", 1500.0), ("seconds".to_owned(), 1.5));
        assert_eq!(converted("ns", 3.0), ("seconds".to_owned(), 3e-9));
        assert_eq!(converted("GB/s", 12.3), ("bytes_per_second".to_owned(), 12.3e9));
        assert_eq!(converted("MiB", 2.0), ("bytes".to_owned(), 2_097_152.0));
        assert_eq!(converted("%", 25.0), ("ratio".to_owned(), 0.25));
        assert_eq!(converted("GFLOP/s", 7.0), ("gflop_per_second".to_owned(), 7.0));
        assert_eq!(converted("tokens/step", 7.0), ("tokens_per_step".to_owned(), 7.0));
        assert_eq!(converted("J/sample", 7.0), ("j_per_sample".to_owned(), 7.0));
        assert_eq!(converted("tokens/s/W", 7.0), ("tokens_per_s_per_w".to_owned(), 7.0));
        assert_eq!(converted("unknown", 7.0), (String::new(), 7.0));
    }

    #[test]
    fn names_have_one_form() {
        for name in MetricName::all() {
            let text = serving_name(name, "EUR").text;
            assert!(
                text.starts_with(PREFIX) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{text}"
            );
            assert!(!text.contains("__") && !text.contains("_ms"), "{text}");
        }
        let found = |text: &str| serving_name(MetricName::find(text).expect("a metric"), "EUR").text;
        assert_eq!(found("ttft_ms_p99"), "assay_ttft_p99_seconds");
        assert_eq!(found("output_tokens_per_s"), "assay_output_tokens_per_second");
        assert_eq!(found("request_throughput_per_s"), "assay_request_throughput_requests_per_second");
        assert_eq!(found("cost_per_request"), "assay_cost_per_request_eur");
        assert_eq!(found("isl_tokens_mean"), "assay_isl_tokens");
        assert_eq!(found("error_rate"), "assay_error_rate_ratio");
    }

    #[test]
    fn no_two_metrics_of_serving_have_one_name() {
        let mut names: Vec<_> = MetricName::all().map(|name| serving_name(name, "EUR").text).collect();
        let all = names.len();
        names.extend(RUN_GAUGES.iter().map(|gauge| gauge.name.to_owned()));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all + RUN_GAUGES.len());
    }

    #[test]
    fn any_path_becomes_words() {
        assert_eq!(words("copy.rate"), "copy_rate");
        assert_eq!(words("..A[0]--b.."), "a_0_b");
        assert_eq!(words("é"), "");
    }
}
