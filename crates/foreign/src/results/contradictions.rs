//! Figures of a file that do not agree: a count and the list that it counts, parts and their total, a part and its whole, a rate with its time and
//! its count, and percentiles that do not ascend. Both figures are stated in a remark, because nothing tells which is right, and the file is read all
//! the same.

use std::collections::BTreeMap;

use assay_manifest::ForeignRow;
use serde_json::Value;

use super::path::{at, for_each};
use super::rows::{Found, Labels, Origin, PlacedRow, Spot, folder};

/// The most remarks; further ones are counted.
const MAX_REMARKS: usize = 50;
/// The share of a figure by which another may miss it or exceed it, because tools round.
const ROUNDED: f64 = 0.01;
/// The share of a percentile by which a lower one may exceed it, because tools interpolate.
const INTERPOLATED: f64 = 1e-9;

/// A figure of a document, by its path in the place of a [`Check`].
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// A number.
    At(&'static str),
    /// The number of elements of a list.
    Elements(&'static str),
    /// The number of elements of a list that are texts with content.
    Texts(&'static str),
    /// The number of elements of a list without this member.
    Without(&'static str, &'static str),
}
use Figure::{At, Elements, Texts, Without};

/// Two figures that agree, unless the file contradicts itself.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// Both sums are equal.
    Sums(&'static [Figure], &'static [Figure]),
    /// A sum of counts is the product of a rate and a time.
    Rate { counts: &'static [Figure], rate: Figure, time: Figure },
    /// The first figure is at most the second.
    AtMost(Figure, Figure),
}
use Check::{AtMost, Rate, Sums};

/// The checks of a part of a format: the format, the part, the place in its documents, and the checks at this place.
type PartChecks = (&'static str, &'static str, &'static str, &'static [Check]);

const CHECKS: &[PartChecks] = &[
    (
        "aiperf",
        "summary",
        "",
        &[
            Sums(&[At("completed_request_count/avg")], &[At("request_count/avg"), At("error_request_count/avg")]),
            AtMost(At("goodput/avg"), At("request_throughput/avg")),
            AtMost(At("good_request_count/avg"), At("request_count/avg")),
            AtMost(At("time_to_first_token/avg"), At("request_latency/avg")),
        ],
    ),
    (
        "vllm",
        "result",
        "",
        &[
            Sums(&[At("num_prompts")], &[At("completed"), At("failed")]),
            Sums(&[Elements("ttfts")], &[At("completed"), At("failed")]),
            Rate { counts: &[At("completed")], rate: At("request_throughput"), time: At("duration") },
            Rate { counts: &[At("total_output_tokens")], rate: At("output_throughput"), time: At("duration") },
            Rate {
                counts: &[At("total_input_tokens"), At("total_output_tokens")],
                rate: At("total_token_throughput"),
                time: At("duration"),
            },
            AtMost(At("request_goodput"), At("request_throughput")),
            AtMost(At("mean_ttft_ms"), At("mean_e2el_ms")),
        ],
    ),
    (
        "sglang",
        "result",
        "",
        &[
            Sums(&[Elements("ttfts")], &[At("completed"), Texts("errors")]),
            Rate { counts: &[At("completed")], rate: At("request_throughput"), time: At("duration") },
            Rate { counts: &[At("total_input_tokens")], rate: At("input_throughput"), time: At("duration") },
            Rate { counts: &[At("total_output_tokens")], rate: At("output_throughput"), time: At("duration") },
            Rate {
                counts: &[At("total_input_tokens"), At("total_output_tokens")],
                rate: At("total_throughput"),
                time: At("duration"),
            },
            AtMost(At("mean_ttft_ms"), At("mean_e2e_latency_ms")),
        ],
    ),
    (
        "genai-bench",
        "run",
        "",
        &[
            Sums(&[At("aggregated_metrics/num_completed_requests")], &[Without("individual_request_metrics", "error_code")]),
            Sums(
                &[At("aggregated_metrics/num_requests")],
                &[At("aggregated_metrics/num_completed_requests"), At("aggregated_metrics/num_error_requests")],
            ),
            Rate {
                counts: &[At("aggregated_metrics/num_completed_requests")],
                rate: At("aggregated_metrics/requests_per_second"),
                time: At("aggregated_metrics/run_duration"),
            },
            Rate {
                counts: &[At("aggregated_metrics/stats/num_output_tokens/sum")],
                rate: At("aggregated_metrics/mean_output_throughput_tokens_per_s"),
                time: At("aggregated_metrics/run_duration"),
            },
            AtMost(At("aggregated_metrics/stats/ttft/mean"), At("aggregated_metrics/stats/e2e_latency/mean")),
        ],
    ),
    (
        "guidellm",
        "report",
        "benchmarks[]",
        &[
            Sums(
                &[At("metrics/request_totals/total")],
                &[
                    At("metrics/request_totals/successful"),
                    At("metrics/request_totals/errored"),
                    At("metrics/request_totals/incomplete"),
                ],
            ),
            Sums(&[At("metrics/request_totals/successful")], &[Elements("requests/successful")]),
        ],
    ),
    (
        "inference-perf",
        "lifecycle",
        "",
        &[
            Sums(&[At("load_summary/count")], &[At("successes/count"), At("failures/count")]),
            Rate {
                counts: &[At("load_summary/count")],
                rate: At("load_summary/achieved_rate"),
                time: At("load_summary/send_duration"),
            },
            AtMost(At("successes/latency/time_to_first_token/mean"), At("successes/latency/request_latency/mean")),
        ],
    ),
    (
        "benchmark-report",
        "report",
        "",
        &[AtMost(
            At("results/request_performance/aggregate/requests/failures"),
            At("results/request_performance/aggregate/requests/total"),
        )],
    ),
    ("pytest-benchmark", "benchmarks", "benchmarks[]", &[Sums(&[At("stats/rounds")], &[Elements("stats/data")])]),
    ("hyperfine", "results", "results[]", &[Sums(&[Elements("times")], &[Elements("exit_codes")])]),
];

/// The contradictions that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Contradictions {
    remarks: Vec<String>,
    more: usize,
}

impl Contradictions {
    fn add(&mut self, remark: String) {
        if self.remarks.len() < MAX_REMARKS {
            self.remarks.push(remark);
        } else {
            self.more += 1;
        }
    }

    /// Checks the figures of a document, before anything is taken out of it.
    pub(crate) fn check_document(&mut self, spot: Spot<'_>, format: &str, part: &str, document: &Value) {
        for (_, _, place, checks) in CHECKS.iter().filter(|(of, name, ..)| (*of, *name) == (format, part)) {
            let mut entry = 0;
            let visited: Result<(), std::convert::Infallible> = for_each(place, &mut vec![document], &mut |values| {
                entry += 1;
                let found = values.last().map(|value| checks.iter().filter_map(move |check| check.contradiction(value)));
                for contradiction in found.into_iter().flatten() {
                    self.add(describe(spot.path, spot.document, place, entry, &contradiction));
                }
                Ok(())
            });
            let Ok(()) = visited;
        }
    }

    /// Checks the percentiles of each metric, and the single requests that are in another file than their number.
    pub(crate) fn check_rows(&mut self, found: &Found, paths: &[&str]) {
        for ((origin, metric, _), rows) in by_metric(&found.rows) {
            let path = paths.get(origin.file).copied().unwrap_or_default();
            if let Some(contradiction) = descent(metric, &rows) {
                self.add(describe(path, origin.document, "[]", origin.entry, &contradiction));
            }
        }
        for remark in missing_requests(found, paths) {
            self.add(remark);
        }
    }

    /// Returns the remarks, without those that are only counted.
    pub(crate) fn into_remarks(self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more remarks of this kind", self.more));
        self.remarks.into_iter().chain(more).collect()
    }
}

/// Returns the remark about two figures, with their place: the file, its document if it is not the first, and the entry of a list.
fn describe(path: &str, document: u64, place: &str, entry: usize, figures: &str) -> String {
    let document = if document > 1 { format!(", document {document}") } else { String::new() };
    let entry = if place.ends_with("[]") && entry > 0 { format!(", entry {entry}") } else { String::new() };
    format!("figures of `{}`{document}{entry} do not agree: {figures}", path.escape_debug())
}

impl Figure {
    fn value(self, document: &Value) -> Option<f64> {
        let list = |path| at(document, path).and_then(Value::as_array);
        let count = |items: usize| items as f64;
        match self {
            At(path) => at(document, path)?.as_f64(),
            Elements(path) => list(path).map(|items| count(items.len())),
            Texts(path) => {
                let has_text = |item: &&Value| item.as_str().is_some_and(|text| !text.is_empty());
                list(path).map(|items| count(items.iter().filter(has_text).count()))
            }
            Without(path, member) => {
                let is_without = |item: &&Value| item.get(member).is_none_or(Value::is_null);
                list(path).map(|items| count(items.iter().filter(is_without).count()))
            }
        }
    }

    fn describe(self) -> String {
        let shown = |path: &str| format!("`{}`", path.replace('/', "."));
        match self {
            At(path) => shown(path),
            Elements(path) => format!("the number of elements of {}", shown(path)),
            Texts(path) => format!("the number of texts of {}", shown(path)),
            Without(path, member) => format!("the number of elements of {} without `{member}`", shown(path)),
        }
    }
}

impl Check {
    /// Returns both figures if they do not agree; `None` if they agree, or if the document does not have both.
    fn contradiction(self, document: &Value) -> Option<String> {
        let sum = |figures: &[Figure]| figures.iter().map(|figure| figure.value(document)).sum::<Option<f64>>();
        let name = |figures: &[Figure]| figures.iter().map(|figure| figure.describe()).collect::<Vec<_>>().join(" + ");
        let (one, first, other, second) = match self {
            Sums(one, other) => {
                let (first, second) = (sum(one)?, sum(other)?);
                let agree = (first - second).abs() < 0.5;
                (!agree).then(|| (name(one), first, name(other), second))?
            }
            Rate { counts, rate, time } => {
                let (first, second) = (sum(counts)?, rate.value(document)? * time.value(document)?);
                let agree = (first - second).abs() <= 0.5_f64.max(ROUNDED * first.abs());
                (!agree).then(|| (name(counts), first, format!("{} x {}", rate.describe(), time.describe()), second))?
            }
            AtMost(part, whole) => {
                let (first, second) = (part.value(document)?, whole.value(document)?);
                (first > second + ROUNDED * second.abs()).then(|| (part.describe(), first, whole.describe(), second))?
            }
        };
        Some(format!("{one} is {first}, and {other} is {}", (second * 1_000.0).round() / 1_000.0))
    }
}

type Metric<'a> = (Origin, &'a str, &'a Labels);

fn by_metric(rows: &[PlacedRow]) -> BTreeMap<Metric<'_>, Vec<&ForeignRow>> {
    let mut groups: BTreeMap<Metric<'_>, Vec<&ForeignRow>> = BTreeMap::new();
    for PlacedRow { row, origin } in rows {
        groups.entry((*origin, &row.metric, &row.labels)).or_default().push(row);
    }
    groups
}

/// Returns the first percentile of a metric that is below a lower one, or the mean that is beyond the smallest or the largest value.
fn descent(metric: &str, rows: &[&ForeignRow]) -> Option<String> {
    let of = |statistic: &str| rows.iter().copied().find(|row| row.statistic == statistic);
    let mut ordered: Vec<(f64, &ForeignRow)> =
        rows.iter().copied().filter_map(|row| Some((rank(&row.statistic)?, row))).collect();
    ordered.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let steps = ordered.windows(2).filter_map(|pair| match pair {
        [(_, lower), (_, higher)] => Some((*lower, *higher)),
        _ => None,
    });
    let around = [(of("min"), of("mean")), (of("mean"), of("max"))].into_iter().filter_map(|(one, other)| Some((one?, other?)));
    let mut pairs = steps.chain(around);
    let (lower, higher) = pairs.find(|(lower, higher)| lower.value > higher.value + INTERPOLATED * higher.value.abs())?;
    let figure = |row: &ForeignRow| format!("its {} is {} {}", row.statistic, row.value, row.unit).trim_end().to_owned();
    Some(format!("of `{metric}`, {}, and {}", figure(lower), figure(higher)))
}

/// Returns the place of a statistic among percentiles.
fn rank(statistic: &str) -> Option<f64> {
    match statistic {
        "min" => Some(-1.0),
        "max" => Some(101.0),
        _ => statistic.strip_prefix('p')?.parse().ok(),
    }
}

/// The number of requests of a summary of AIPerf. Another file of its folder has the requests.
const SUMMARY_COUNT: &str = "aiperf.valid_requests";
/// The phase of these requests.
const PHASE: (&str, &str) = ("phase", "profiling");

/// Returns a remark for each folder with one such number, and with another number of requests.
fn missing_requests(found: &Found, paths: &[&str]) -> Vec<String> {
    let folder_of = |origin: &Origin| paths.get(origin.file).map(|path| folder(path));
    let mut counts: BTreeMap<Option<&str>, Vec<&PlacedRow>> = BTreeMap::new();
    for placed in found.rows.iter().filter(|placed| placed.row.metric == SUMMARY_COUNT) {
        counts.entry(folder_of(&placed.origin)).or_default().push(placed);
    }
    let mut requests: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for ((origin, labels), lines) in &found.samples {
        let is_measured = labels.get(PHASE.0).is_none_or(|phase| phase == PHASE.1);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| is_measured && !line.is_empty());
        *requests.entry(folder_of(origin)).or_default() += lines.count();
    }
    let contradiction = |(folder, counts): (Option<&str>, Vec<&PlacedRow>)| {
        let ([count], Some(&requests)) = (counts.as_slice(), requests.get(&folder)) else { return None };
        let path = paths.get(count.origin.file).copied().unwrap_or_default();
        let stated = count.row.value;
        let agree = (stated - requests as f64).abs() < 0.5;
        let figures =
            format!("`request_count` is {stated}, and the number of requests that are read of its folder is {requests}");
        (!agree).then(|| describe(path, 1, "", 0, &figures))
    };
    counts.into_iter().filter_map(contradiction).collect()
}
