//! The remarks on a serving table.

use assay_manifest::Stability;
use assay_metric::{Formula, Metric, Requirement, Statistic};

use super::load::Load;
use super::remark::{Remark, RemarkKind, stability_kind, stability_text, within_run};
use super::section::{MetricStatistics, PointSection};
use super::serving::{Column, twin};
use crate::render::number::{grouped, percent};

/// Minimum number of samples of a trial for a meaningful 99th percentile: with fewer, it lies between the two largest.
const MIN_FOR_P99: u64 = 100;

/// Returns the remarks on a row of a serving table: the reason why a value is absent or unstable, the
/// outcomes of failed requests, and input tokens from a cache that was to be cold.
/// Metrics with the same remark are named together; `columns` are those that the table explains.
pub(crate) fn remarks(point: &PointSection, columns: &[&'static Column]) -> Vec<Remark> {
    let mut remarks_on_metrics: Vec<Remark> = Vec::new();
    let mut add = |kind: RemarkKind, text: String, name: String, spread: f64| match remarks_on_metrics
        .iter_mut()
        .find(|known| known.text == text)
    {
        Some(known) => {
            known.metrics.push(name);
            known.spread = known.spread.max(spread);
        }
        None => remarks_on_metrics.push(Remark {
            metrics: vec![name],
            table_metrics: Some(columns.len()),
            spread,
            ..Remark::for_point(kind, &point.label, text)
        }),
    };
    for (column, row) in columns.iter().filter_map(|column| Some((column, point.row(column.text)?))) {
        match &row.measured {
            Err(reason) => add(RemarkKind::Absent, why_absent(point, column, reason), column.title(), 0.0),
            Ok(measured) => {
                if let Err(reason) = &measured.interval {
                    add(RemarkKind::NoInterval, format!("no interval, {reason}"), column.title(), 0.0);
                }
                if measured.stability != Stability::Stable {
                    add(stability_kind(measured), stability_text(measured), column.title(), measured.spread);
                }
                for caveat in [p99_caveat(column, measured), zero_gap_caveat(column, measured)].into_iter().flatten() {
                    add(RemarkKind::Caveat, caveat, column.title(), 0.0);
                }
            }
        }
    }
    let mut remarks: Vec<Remark> = Vec::new();
    if let Some(load) = point.serving.as_ref().filter(|load| load.failed() > 0) {
        remarks.push(Remark::for_point(RemarkKind::FailedRequests, &point.label, failed_requests(point, load, columns)));
    }
    let differences = point.serving.iter().flat_map(|load| &load.token_differences);
    remarks.extend(differences.map(|text| Remark::for_point(RemarkKind::TokenCounts, &point.label, text.clone())));
    let faults = point.serving.as_ref().and_then(|load| load.usage_faults.clone());
    remarks.extend(faults.map(|text| Remark::for_point(RemarkKind::TokenCounts, &point.label, text)));
    let left_out = point.serving.as_ref().and_then(|load| load.sessions_left_out.clone());
    remarks.extend(left_out.map(|text| Remark::for_point(RemarkKind::Caveat, &point.label, text)));
    let course = point.serving.iter().flat_map(|load| &load.course);
    remarks.extend(course.map(|text| Remark::for_point(RemarkKind::Caveat, &point.label, text.clone())));
    let agentx = point.serving.as_ref().and_then(|load| load.agentx.clone());
    remarks.extend(agentx.map(|text| Remark::for_point(RemarkKind::Scenario, &point.label, text)));
    let cache_hits = point.serving.as_ref().and_then(|load| load.cache_hits.as_ref());
    remarks.extend(cache_hits.map(|hits| Remark::for_point(RemarkKind::Caveat, &point.label, hits.describe())));
    remarks.extend(within_run(point));
    remarks.extend(remarks_on_metrics);
    remarks
}

/// Returns true if there is a remark on a row, on an attempt of its load that does not count included.
pub(crate) fn has_remark(point: &PointSection, columns: &[&'static Column]) -> bool {
    !point.exclusions.is_empty() || !remarks(point, columns).is_empty()
}

/// States the failed requests of a load, what matters most first: a short list of remarks leaves out the last clauses.
fn failed_requests(point: &PointSection, load: &Load, columns: &[&'static Column]) -> String {
    if load.are_excluded {
        return format!("{} ({}), in attempts that do not count", load.excluded.describe(), load.failure_text());
    }
    let (slowest, reasons) = describe_as_slowest(point, columns);
    let message = load.failure_message().map(|message| format!("; {message}")).unwrap_or_default();
    format!(
        "{} of {} failed ({}){slowest}{message}{}{}{reasons}",
        grouped(load.failed()),
        load.requests_text(),
        load.failure_text(),
        error_rates(point, load),
        load.excluded.clause()
    )
}

/// States the share of failed requests of all counted trials, beside the median of the trials' own shares, which may be 0 if one trial
/// failed.
fn error_rates(point: &PointSection, load: &Load) -> String {
    let of_all = percent(load.failed_share());
    let rate = Metric::ErrorRate.name(Statistic::Value);
    let several = rate.and_then(|rate| point.measured(rate.text)).filter(|found| found.trials.len() > 1);
    let median = several.map(|found| percent(found.median));
    let which = match (load.has_uncounted(), load.cancelled) {
        (true, _) => "the counted",
        (false, 0) => "all",
        (false, _) => "all uncancelled",
    };
    median.map_or_else(String::new, |median| format!("; {of_all} of {which} requests, {median} in the median of the trials"))
}

/// Explains an absent value. Where no response is streamed, one reason holds for all times of tokens; the report has each metric's own.
fn why_absent(point: &PointSection, column: &Column, reason: &str) -> String {
    let is_streamed = point.serving.as_ref().is_none_or(|load| load.is_streamed);
    if !is_streamed && column.metric.requires(Requirement::Streaming) {
        return "absent, its responses are not streamed, so no token has a time".to_owned();
    }
    format!("absent, {reason}")
}

/// Returns a caveat if a p99 has so few samples that it is nearly their maximum.
fn p99_caveat(column: &Column, measured: &MetricStatistics) -> Option<String> {
    let fewest = measured.trials.iter().map(|trial| trial.samples).min().filter(|_| column.statistic == Statistic::P99)?;
    let samples = if matches!(column.definition().formula, Formula::Gaps) { "gaps" } else { "requests" };
    (fewest < MIN_FOR_P99).then(|| {
        format!(
            "p99 of fewer than {MIN_FOR_P99} {samples} is close to their maximum, so ask for at least {MIN_FOR_P99} requests a trial; \
             the smallest trial has {}",
            grouped(fewest)
        )
    })
}

/// Returns a caveat if a time between tokens is 0: tokens of one packet have the same timestamp.
fn zero_gap_caveat(column: &Column, measured: &MetricStatistics) -> Option<String> {
    let is_between_tokens = matches!(column.definition().formula, Formula::Gaps | Formula::TokenEvents | Formula::Quotient(_));
    (is_between_tokens && measured.median == 0.0)
        .then(|| "0, since tokens came together and no gap between them could be measured".to_owned())
}

/// States the latencies with failed requests as the slowest: those that then have a value, and those that have none. Returns the reasons
/// for the latter as well, which are the last to be said.
fn describe_as_slowest(point: &PointSection, columns: &[&'static Column]) -> (String, String) {
    let mut said: Vec<String> = Vec::new();
    let mut absent: Vec<(&str, Vec<String>)> = Vec::new();
    for (row, name) in columns.iter().filter_map(|column| Some((twin(point, column)?, column.title()))) {
        match &row.measured {
            Ok(found) => said.push(format!("{name} is {} {}", found.median_text, row.unit)),
            Err(reason) => match absent.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => absent.push((reason, vec![name])),
            },
        }
    }
    let names: Vec<&str> = absent.iter().flat_map(|(_, names)| names).map(String::as_str).collect();
    said.extend((!names.is_empty()).then(|| format!("there is no {}", names.join(" and no "))));
    if said.is_empty() {
        return (String::new(), String::new());
    }
    let reason = |(reason, names): &(&str, Vec<String>)| format!("; no {}, because {reason}", names.join(" and no "));
    (format!("; with failures as slowest, {}", said.join(", and ")), absent.iter().map(reason).collect())
}

#[cfg(test)]
mod tests {
    use assay_manifest::Count;

    use super::super::serving::explained_columns;
    use super::*;
    use crate::run::fixture;

    /// Returns the remarks on all loads of the first case, in full.
    fn all_remarks(model: &fixture::Model) -> Vec<String> {
        let report = model.report();
        let columns = explained_columns(&report.cases[0]);
        report.cases[0].points.iter().flat_map(|point| remarks(point, &columns)).map(|remark| remark.full_text()).collect()
    }

    #[test]
    fn times_of_tokens_that_no_response_has_share_one_reason() {
        let mut model = fixture::serving::small();
        model.summary.points.iter_mut().for_each(|point| {
            point.metrics.retain(|metric| !metric.metric.contains("ttft") && !metric.metric.contains("tpot"));
            if let Some(serving) = point.serving.as_mut() {
                serving.absent.insert("ttft_ms_p99".to_owned(), "none of 40 responses has a token event".to_owned());
                serving.absent.insert("tpot_ms_p50".to_owned(), "none of 40 responses has two token events".to_owned());
            }
        });
        let reasons = |model: &fixture::Model| -> Vec<String> {
            all_remarks(model).into_iter().filter(|text| text.contains("TTFT p99: absent") || text.contains("TPOT p50")).collect()
        };
        assert!(reasons(&model).iter().any(|text| text.contains("none of 40 responses has two token events")));
        model.plan.workloads.iter_mut().filter_map(|workload| workload.serving.as_mut()).for_each(|work| work.streaming = false);
        let whole = reasons(&model);
        assert!(
            !whole.is_empty() && whole.iter().all(|text| text.contains("its responses are not streamed, so no token has a time")),
            "{whole:#?}"
        );
    }

    /// Returns the remarks on a case with one load, whose trials have `samples` samples of each metric and these medians.
    fn remarks_text(samples: u64, medians: &[(&str, f64)]) -> String {
        let mut model = fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        for metric in &mut model.summary.points[0].metrics {
            metric.trials.iter_mut().for_each(|trial| trial.n = Count(samples));
            if let Some((_, median)) = medians.iter().find(|(name, _)| *name == metric.metric) {
                metric.median = *median;
            }
        }
        all_remarks(&model).join("\n")
    }

    #[test]
    fn a_p99_of_few_requests_says_that_it_is_a_maximum() {
        assert_eq!(remarks_text(100, &[]), "", "a hundred are enough");
        insta::assert_snapshot!(remarks_text(99, &[]), @r"
        concurrency 1, TTFT p99, TPOT p99, E2E p99: p99 of fewer than 100 requests is close to their maximum, so ask for at least 100 requests a trial; the smallest trial has 99
        concurrency 1, ITL p99: p99 of fewer than 100 gaps is close to their maximum, so ask for at least 100 requests a trial; the smallest trial has 99
        ");
        assert!(remarks_text(1, &[]).ends_with("the smallest trial has 1"));
    }

    #[test]
    fn tokens_that_came_together_have_no_gaps() {
        insta::assert_snapshot!(remarks_text(160, &[("tpot_ms_p50", 0.0), ("itl_ms_p99", 0.0), ("ttft_ms_p50", 0.0)]), @"concurrency 1, TPOT p50, ITL p99: 0, since tokens came together and no gap between them could be measured");
        assert_eq!(remarks_text(160, &[("tpot_ms_p50", 0.001)]), "");
    }

    /// Returns the remark on the failed requests of a load with these twins.
    fn with_twins(twins: &[(&str, Result<f64, &str>)]) -> String {
        let mut model = fixture::serving::small();
        let point = &mut model.summary.points[1];
        let serving = point.serving.as_mut().expect("it serves");
        serving.absent.clear();
        for (name, twin) in twins {
            match twin {
                Ok(value) => {
                    let mut metric = point.metrics[0].clone();
                    (metric.metric, metric.median) = ((*name).to_owned(), *value);
                    point.metrics.push(metric);
                }
                Err(reason) => drop(serving.absent.insert((*name).to_owned(), (*reason).to_owned())),
            }
        }
        all_remarks(&model).into_iter().find(|remark| remark.contains("failed (")).expect("it is said")
    }

    #[test]
    fn failed_requests_of_attempts_that_do_not_count_are_counted_beside() {
        let mut model = fixture::serving::small();
        let serving = model.summary.points[1].serving.as_mut().expect("it serves");
        serving.excluded_outcomes = [("ok", 480), ("timeout", 20)].map(|(name, count)| (name.to_owned(), Count(count))).into();
        let report = model.report();
        let remarks = all_remarks(&model);
        let remark = remarks.iter().find(|remark| remark.contains("failed (")).expect("it is said");
        insta::assert_snapshot!(remark, @"concurrency 64: 13 of 800 counted requests failed (timeout × 11, http_error 503 × 2); with failures as slowest, there is no TTFT p99; the first http_error 503: `the engine is overloaded`; 1.6 % of the counted requests, 1.9 % in the median of the trials; 20 of 500 failed in attempts that do not count; no TTFT p99, because more than 1 % of requests failed, so the 99th percentile is a failed request");
        let requests = report.strip.iter().find(|item| item.label == "Requests").expect("it is there");
        insta::assert_snapshot!(requests.headline, @"13 of 1600 counted requests failed (0.81 %); 20 of 500 failed in attempts that do not count");
    }

    #[test]
    fn failures_as_slowest_are_told_in_plain_words() {
        assert_eq!(
            with_twins(&[]),
            "concurrency 64: 13 of 800 requests failed (timeout × 11, http_error 503 × 2); the first http_error 503: `the engine is overloaded`; 1.6 % of all requests, 1.9 % in the median of the trials"
        );
        let why = "the 99 % rank lies beyond those that have a value, 3 of 4";
        let twins = [
            ("ttft_ms_p50_with_failures", Ok(130.0)),
            ("ttft_ms_p99_with_failures", Err(why)),
            ("e2e_ms_p99_with_failures", Err(why)),
        ];
        insta::assert_snapshot!(with_twins(&twins), @"concurrency 64: 13 of 800 requests failed (timeout × 11, http_error 503 × 2); with failures as slowest, TTFT p50 is 130 ms, and there is no TTFT p99 and no E2E p99; the first http_error 503: `the engine is overloaded`; 1.6 % of all requests, 1.9 % in the median of the trials; no TTFT p99 and no E2E p99, because the 99 % rank lies beyond those that have a value, 3 of 4");
    }
}
