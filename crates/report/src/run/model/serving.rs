//! The metrics of a serving case: the columns of its tables, their names, and its throughput.

use std::collections::BTreeSet;

use assay_manifest::{MetricSummary, ServingPoint, Stability};
use assay_metric::{Metric, MetricName, Requirement, Section, Statistic};

use super::section::{CaseSection, MetricStatistics, PointSection, Row};
use crate::render::text::clean;

/// Maximum number of absent metrics that a point explains.
const MAX_ABSENT: usize = 100;

/// A column of the serving table.
pub(crate) type Column = MetricName;

/// Returns the metrics that a case may be headed with, best first: not all responses are streamed.
pub(crate) fn headlines() -> Vec<&'static Column> {
    Column::leading(Section::Latency, Statistic::P99)
}

/// Returns the metrics of throughput, best first: not every API has output tokens.
fn throughputs() -> Vec<&'static Column> {
    Column::leading(Section::Throughput, Statistic::Value)
}

/// Returns the metrics whose spread across trials is drawn: tail latency, decoding and throughput, for each the first that the case
/// has.
pub(crate) fn spreads(case: &CaseSection) -> Vec<&'static Column> {
    let choices = [headlines(), Column::leading(Section::Latency, Statistic::P50), throughputs()];
    choices.into_iter().filter_map(|choices| choices.into_iter().find(|column| case.has_measured(column))).collect()
}

/// Returns the latencies that are drawn over throughput: the tail of each that gates judge by default.
pub(crate) fn drawn_latencies() -> impl Iterator<Item = &'static Column> {
    let is_judged = |metric: &Metric| {
        let row = metric.definition();
        row.section == Section::Latency && row.names.iter().any(|name| name.is_primary)
    };
    Metric::ALL.iter().copied().filter(is_judged).filter_map(|metric| metric.name(Statistic::P99))
}

/// Returns the metric that heads a case; `None` if none was measured.
pub(crate) fn headline(case: &CaseSection) -> Option<&'static Column> {
    headlines().into_iter().find(|column| case.has_measured(column))
}

/// Returns the columns of a case: those of [`explained_columns`] that some point has measured; all of them if none has any.
pub(crate) fn columns(case: &CaseSection) -> Vec<&'static Column> {
    let explained = explained_columns(case);
    let measured: Vec<_> = explained.iter().copied().filter(|column| case.has_measured(column)).collect();
    if measured.is_empty() { explained } else { measured }
}

/// Returns the columns whose values, or the reasons for whose absence, a reader of a case looks for: those that some point has,
/// without those whose content another column shows better.
pub(crate) fn explained_columns(case: &CaseSection) -> Vec<&'static Column> {
    let known: BTreeSet<&str> = case.points.iter().flat_map(|point| &point.rows).map(|row| row.metric.as_str()).collect();
    let has_slos = case.serving.as_ref().is_some_and(|work| !work.slos.is_empty());
    let wanted = |column: &&Column| {
        let is_unneeded = column.fallback().is_some_and(|better| case.has_measured(better));
        // The work says nothing of documents, sessions and GPUs: if no point has any, there are none, or they are not known.
        let is_of_some = [Requirement::Documents, Requirement::Sessions, Requirement::TraceSessions, Requirement::Gpus]
            .into_iter()
            .any(|of| column.metric.requires(of));
        let is_foreign = is_of_some || (column.metric.requires(Requirement::Slos) && !has_slos);
        // A tail that is shown only because an SLO limits it.
        let is_slo_tail = column.rank == Some(0) && column.definition().slo.is_some();
        !is_unneeded && (!is_foreign || case.has_measured(column)) && (!is_slo_tail || has_slos)
    };
    let shown = MetricName::all().filter(|name| name.rank.is_some());
    shown.filter(|column| known.contains(column.text)).filter(wanted).collect()
}

/// Explains the abbreviations in the tables of the serving cases, each once: `TTFT: time to first token; ITL: ..`. Empty if there are
/// none.
pub(crate) fn abbreviations(cases: &[CaseSection]) -> String {
    let mut explained: Vec<String> = Vec::new();
    let columns = cases.iter().filter(|case| case.serving.is_some()).flat_map(columns);
    for definition in columns.map(Column::definition).filter(|definition| !definition.long_title.is_empty()) {
        let text = format!("{}: {}", definition.title, definition.long_title.to_lowercase());
        if !explained.contains(&text) {
            explained.push(text);
        }
    }
    explained.join("; ")
}

/// Returns the title of a column with its unit: `TTFT p99, ms`, `tokens/s`.
pub(crate) fn title_with_unit(column: &Column) -> String {
    match column.statistic {
        _ if names_unit(column) => column.title(),
        _ => format!("{}, {}", column.title(), column.definition().unit.as_str()),
    }
}

/// Returns true if the title of a column names its unit, so that it is not stated again.
pub(crate) fn names_unit(column: &Column) -> bool {
    column.statistic == Statistic::Value || column.definition().title.contains(column.definition().unit.as_str())
}

/// Returns the common name of a metric: `TTFT p99` for `ttft_ms_p99`; the metric's own name if it is not one of serving.
pub(crate) fn metric_name(metric: &str) -> String {
    MetricName::find(metric).map_or_else(|| metric.to_owned(), MetricName::title)
}

/// The suffix of a metric's twin that counts failed requests as the slowest.
pub(crate) const WITH_FAILURES: &str = "_with_failures";

/// Returns the twin of a column that counts failed requests as the slowest; `None` if no requests of the load failed.
pub(crate) fn twin<'a>(point: &'a PointSection, column: &Column) -> Option<&'a Row> {
    let failed = point.serving.as_ref().is_some_and(|load| load.failed() > 0);
    let row = || point.rows.iter().find(|row| row.metric.strip_suffix(WITH_FAILURES) == Some(column.text));
    failed.then(row).flatten()
}

/// Returns a row for each metric that the Summary lists as not computable, with its reason.
pub(crate) fn absent_rows(serving: &ServingPoint, metrics: &[MetricSummary]) -> Vec<Row> {
    let missing = serving.absent.iter().filter(|(name, _)| !metrics.iter().any(|metric| metric.metric == **name));
    let row = |(name, reason): (&String, &String)| Row {
        metric: clean(name),
        unit: MetricName::find(name).map_or("unknown", |name| name.definition().unit.as_str()).to_owned(),
        better: None,
        primary: false,
        measured: Err(clean(reason)),
    };
    missing.take(MAX_ABSENT).map(row).collect()
}

/// Returns the largest distance of an interval's ends from its median, as a share of the median; `None` if there is no interval.
pub(crate) fn reach(measured: &MetricStatistics) -> Option<f64> {
    let ends = measured.interval.as_ref().ok()?;
    let reach = (ends.high - measured.median).max(measured.median - ends.low) / measured.median.abs();
    reach.is_finite().then_some(reach)
}

/// Returns true if every headline metric of a point is stable and all its planned trials count; otherwise the point is drawn hollow.
pub(crate) fn is_solid(point: &PointSection) -> bool {
    let headlines = throughputs().into_iter().chain(headlines());
    let stable = headlines.filter_map(|column| point.measured(column.text)).all(|found| found.stability == Stability::Stable);
    stable && point.counted == point.planned
}

/// Returns true if every number in these columns of a point is stable and has an interval, and all its planned trials count; otherwise
/// its row is marked.
pub(crate) fn is_certain(point: &PointSection, columns: &[&Column]) -> bool {
    let mut numbers = columns.iter().filter_map(|column| point.measured(column.text));
    numbers.all(|found| found.stability == Stability::Stable && found.interval.is_ok()) && point.counted == point.planned
}

/// Returns the throughput of a point, in the best available unit.
pub(crate) fn throughput(point: &PointSection) -> Option<(&'static Column, &MetricStatistics)> {
    throughputs().into_iter().find_map(|column| Some((column, point.measured(column.text)?)))
}

/// Returns the unit of a throughput metric with its subject: `output tokens/s`, `requests/s`.
pub(crate) fn throughput_unit(column: &Column) -> String {
    match column.definition() {
        row if row.long_title.is_empty() => row.unit.as_str().to_owned(),
        row => row.long_title.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fixture;

    #[test]
    fn columns_without_any_value_are_left_out() {
        let whole = fixture::serving::small();
        let mut case = whole.report().cases.remove(0);
        let texts = |columns: Vec<&'static Column>| columns.iter().map(|column| column.text).collect::<Vec<_>>();
        assert!(texts(columns(&case)).contains(&"ttft_ms_p99"));
        // The responses of rerank are whole, and have no output tokens.
        for row in case.points.iter_mut().flat_map(|point| &mut point.rows) {
            match row.metric.as_str() {
                "e2e_ms_p50" | "e2e_ms_p99" | "request_throughput_per_s" => {}
                "output_tokens_per_s" => row.metric = "documents_per_s".to_owned(),
                _ => row.measured = Err("its responses are not streamed".to_owned()),
            }
        }
        assert_eq!(texts(columns(&case)), ["e2e_ms_p50", "e2e_ms_p99", "request_throughput_per_s", "documents_per_s"]);
        assert!(texts(explained_columns(&case)).contains(&"ttft_ms_p99"), "its reason is stated");
        for row in case.points.iter_mut().flat_map(|point| &mut point.rows) {
            row.measured = Err("no request succeeded".to_owned());
        }
        assert_eq!(columns(&case), explained_columns(&case));
    }

    #[test]
    fn metrics_have_the_names_that_people_use() {
        let table = [
            ("ttft_ms_p99", "TTFT p99"),
            ("output_tokens_per_s", "tokens/s"),
            ("e2e_ms_p99_with_failures", "E2E p99 with failures"),
            ("something_else", "something_else"),
        ];
        for (metric, name) in table {
            assert_eq!(metric_name(metric), name);
        }
    }
}
