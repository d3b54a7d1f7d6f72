//! The better direction of the metrics of other tools: a reviewed table. A metric that is not in it has no direction, so no gate judges it.

use std::collections::BTreeMap;

use assay_manifest::BetterDirection;

use super::registry::RESULT_FORMATS;

/// The metrics of which less is better: the time or the cost of something.
const LOWER: &[&str] = &[
    "aiperf.e2e",
    "aiperf.effective_latency",
    "aiperf.error_rate",
    "aiperf.http_duration",
    "aiperf.http_total",
    "aiperf.http_waiting",
    "aiperf.itl",
    "aiperf.ttfo",
    "aiperf.ttft",
    "benchmark-report.itl",
    "benchmark-report.ntpot",
    "benchmark-report.request_latency",
    "benchmark-report.tpot",
    "benchmark-report.ttft",
    "criterion.iteration_time",
    "criterion.slope",
    "criterion.time",
    "genai-bench.e2e",
    "genai-bench.output_latency",
    "genai-bench.tpot",
    "genai-bench.ttft",
    "google-benchmark.cpu_time",
    "google-benchmark.real_time",
    "guidellm.e2e",
    "guidellm.itl",
    "guidellm.time_per_output_token",
    "guidellm.ttfo",
    "guidellm.ttft",
    "hyperfine.system_time",
    "hyperfine.user_time",
    "hyperfine.wall_time",
    "icl_ms",
    "inference-perf.itl",
    "inference-perf.ntpot",
    "inference-perf.request_latency",
    "inference-perf.tpot",
    "inference-perf.ttft",
    "k6.failed_fraction",
    "k6.http_duration",
    "k6.http_waiting",
    "loadgen.latency",
    "loadgen.tpot",
    "loadgen.ttft",
    "pytest-benchmark.time",
    "sglang.e2e",
    "sglang.itl",
    "sglang.tpot",
    "sglang.ttft",
    "ttst_ms",
    "vllm.e2e",
    "vllm.itl",
    "vllm.tpot",
    "vllm.ttft",
];

/// The metrics of which more is better: work per time. The rate at which requests are sent is none: a load that is given decides it.
const HIGHER: &[&str] = &[
    "aiperf.e2e_output_tokens_per_s",
    "aiperf.good_fraction",
    "aiperf.goodput",
    "aiperf.output_tokens_per_s",
    "aiperf.output_tokens_per_user_per_s",
    "aiperf.prefill_tokens_per_user_per_s",
    "aiperf.request_throughput",
    "aiperf.total_tokens_per_s",
    "benchmark-report.output_tokens_per_s",
    "benchmark-report.request_throughput",
    "benchmark-report.total_tokens_per_s",
    "genai-bench.output_tokens_per_s",
    "genai-bench.output_tokens_per_user_per_s",
    "genai-bench.prefill_tokens_per_s",
    "genai-bench.request_throughput",
    "genai-bench.total_tokens_per_s",
    "google-benchmark.bytes_per_s",
    "google-benchmark.items_per_s",
    "guidellm.output_tokens_per_s",
    "guidellm.request_throughput",
    "guidellm.total_tokens_per_s",
    "inference-perf.output_tokens_per_s",
    "inference-perf.request_throughput",
    "inference-perf.total_tokens_per_s",
    "k6.iterations_per_s",
    "k6.request_throughput",
    "loadgen.additional_completed_tokens_per_s",
    "loadgen.completed_samples_per_s",
    "loadgen.completed_tokens_per_s",
    "loadgen.samples_per_s",
    "loadgen.tokens_per_s",
    "pytest-benchmark.calls_per_s",
    "sglang.output_tokens_per_s",
    "sglang.request_throughput",
    "sglang.total_tokens_per_s",
    "vllm.goodput",
    "vllm.output_tokens_per_s",
    "vllm.request_throughput",
    "vllm.total_tokens_per_s",
];

/// The score of JMH, whose direction is that of its unit: operations per time, or the time of an operation.
const JMH_SCORE: &str = "jmh.score";

/// The label of an aggregate over repetitions of Google Benchmark, and the aggregates that are levels of the metric. A benchmark may define others, of
/// which nothing is known.
const AGGREGATE: (&str, [&str; 4]) = ("aggregate", ["max", "mean", "median", "min"]);

/// Returns true for a statistic whose better direction is that of its metric. A count, a sum and a spread are none.
pub fn is_level(statistic: &str) -> bool {
    let is_percentile = || statistic.strip_prefix('p').is_some_and(|rest| rest.parse::<f64>().is_ok());
    ["mean", "value", "min", "max"].contains(&statistic) || is_percentile()
}

/// Returns the better direction of a number of a metric with these labels; `None` if it has none: an aggregate over repetitions may be a spread.
pub fn better_direction_of(metric: &str, unit: &str, labels: &BTreeMap<String, String>) -> Option<BetterDirection> {
    let (label, levels) = AGGREGATE;
    let is_spread = labels.get(label).is_some_and(|aggregate| !levels.contains(&aggregate.as_str()));
    better_direction(metric, unit).filter(|_| !is_spread)
}

/// Returns the better direction of a metric in a unit; `None` if it has none.
fn better_direction(metric: &str, unit: &str) -> Option<BetterDirection> {
    if metric == JMH_SCORE {
        return match unit {
            "1/s" | "1/ms" | "1/us" | "1/ns" => Some(BetterDirection::Higher),
            "s" | "ms" | "us" | "ns" => Some(BetterDirection::Lower),
            _ => None,
        };
    }
    if LOWER.contains(&metric) {
        Some(BetterDirection::Lower)
    } else if HIGHER.contains(&metric) {
        Some(BetterDirection::Higher)
    } else {
        None
    }
}

/// Returns the better direction of a metric, for people.
pub(crate) fn describe_direction(metric: &str) -> &'static str {
    match better_direction(metric, "") {
        _ if metric == JMH_SCORE => "by the unit",
        Some(BetterDirection::Lower) => "lower",
        Some(BetterDirection::Higher) => "higher",
        None => "-",
    }
}

/// Returns true if a file that is this part of a format holds numbers. Two imports of one such file hold one observation; a part without numbers,
/// such as a configuration, may be the same file in all of them. An unknown part counts as one with numbers.
pub fn part_holds_numbers(format: &str, part: &str) -> bool {
    let parts = RESULT_FORMATS.iter().filter(|known| known.name == format).flat_map(|known| known.parts);
    let mut same = parts.filter(|known| known.name == part).peekable();
    same.peek().is_none() || same.any(|known| known.scopes.iter().any(|scope| !scope.fields.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::format::Relation;

    fn fields() -> BTreeMap<&'static str, Relation> {
        let scopes = RESULT_FORMATS.iter().flat_map(|format| format.parts).flat_map(|part| part.scopes);
        scopes.flat_map(|scope| scope.fields).map(|field| (field.metric, field.relation)).collect()
    }

    #[test]
    fn each_metric_of_the_table_is_one_of_a_format_and_there_once() {
        let known = fields();
        let all: Vec<&str> = LOWER.iter().chain(HIGHER).copied().collect();
        for metric in &all {
            assert!(known.contains_key(metric), "{metric}");
            assert_eq!(all.iter().filter(|other| *other == metric).count(), 1, "{metric}");
        }
        assert!(LOWER.is_sorted() && HIGHER.is_sorted());
    }

    /// A metric that is near one of Assay has its direction or none: a name alone may mislead.
    #[test]
    fn a_direction_is_that_of_the_metric_of_assay_that_is_near() {
        let mut compared = 0;
        for (metric, relation) in fields() {
            let near = match relation {
                Relation::Equal => metric,
                Relation::Differs(near, _) => near,
                Relation::Unlike => continue,
            };
            let found = ["", "_mean", "_p50"].iter().find_map(|end| assay_metric::MetricName::find(&format!("{near}{end}")));
            let (Some(ours), Some(theirs)) = (found.and_then(|name| name.definition().better), better_direction(metric, "ms"))
            else {
                continue;
            };
            let is_lower = ours == assay_metric::Direction::Lower;
            assert_eq!(is_lower, theirs == BetterDirection::Lower, "{metric} and {near}");
            compared += 1;
        }
        assert!(compared > 60, "{compared}");
    }

    #[test]
    fn a_metric_without_a_row_has_no_direction() {
        for metric in ["vllm.duration", "aiperf.output_tokens", "perf-stat.counter", "vllm.peak_concurrency", "unknown"] {
            assert_eq!(better_direction(metric, "s"), None, "{metric}");
        }
        assert_eq!(
            ["1/ms", "ns", "1"].map(|unit| better_direction(JMH_SCORE, unit)),
            [Some(BetterDirection::Higher), Some(BetterDirection::Lower), None]
        );
    }

    /// Every metric of every format with its direction. A further one is reviewed here: if it is not known which direction is better, it has none.
    #[test]
    fn each_metric_of_each_format_has_a_reviewed_direction_or_none() {
        let line = |(metric, _): (&&str, &Relation)| format!("{metric} {}", describe_direction(metric));
        insta::assert_snapshot!(fields().iter().map(line).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn a_spread_over_repetitions_has_no_direction() {
        let of = |aggregate: Option<&str>| {
            let labels = aggregate.map(|name| ("aggregate".to_owned(), name.to_owned())).into_iter().collect();
            better_direction_of("google-benchmark.real_time", "ns", &labels)
        };
        let lower = Some(BetterDirection::Lower);
        assert_eq!([None, Some("mean"), Some("median"), Some("min"), Some("max")].map(of), [lower; 5]);
        assert_eq!([Some("stddev"), Some("cv"), Some("own_statistic")].map(of), [None; 3]);
        assert_eq!(["mean", "p99", "p99.9", "value", "max"].map(is_level), [true; 5]);
        assert_eq!(["std", "count", "sum", "mad", "iqr", "p", "pi"].map(is_level), [false; 7]);
    }

    #[test]
    fn a_part_without_numbers_is_known() {
        assert!(part_holds_numbers("hyperfine", "results"));
        assert!(part_holds_numbers("hyperfine", "unknown"), "an unknown part is taken for one with numbers");
        let without: Vec<_> = RESULT_FORMATS
            .iter()
            .flat_map(|format| format.parts.iter().map(move |part| (format.name, part.name)))
            .filter(|(format, part)| !part_holds_numbers(format, part))
            .collect();
        assert!(!without.contains(&("vllm", "result")), "{without:?}");
    }
}
