//! The headline sentences of a report: the result first, with its uncertainty.

use std::collections::BTreeMap;
use std::fmt;

use assay_manifest::{Address, Grade, Stability};

use super::load::{CANCELLED_AT_END, Load};
use super::section::{CaseSection, MetricStatistics, PointSection, Row};
use super::serving::{self, Column, headlines, throughput, throughput_unit};
use super::work::RequestedWork;
use crate::render::number::{grouped, percent};
use crate::render::text::counted;

/// One sentence: the metric, its value with interval and n, the case, and the grade.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sentence {
    pub(crate) metric: String,
    /// The number with its unit; `None` if no trial counts.
    pub(crate) number: Option<String>,
    /// The interval, or a note that there is none.
    pub(crate) interval: String,
    pub(crate) rest: String,
    /// The address of the number.
    pub(crate) address: Option<Address>,
    /// True if it is about a serving case.
    pub(crate) is_serving: bool,
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.number {
            Some(number) => write!(f, "{} {number} {}, {}", self.metric, self.interval, self.rest),
            None => write!(f, "{}: no number, {}", self.metric, self.rest),
        }
    }
}

pub(super) fn sentences(cases: &[CaseSection], grade: &Grade) -> Vec<Sentence> {
    // A sentence mentions declared controls beside the grade that depends on them.
    let declared = if grade.declared.is_empty() { "" } else { " by declaration" };
    let grade = format!("{} grade{declared}", grade.given);
    sentences_with_grade(cases, &grade)
}

/// Returns one sentence for each serving case, whose points are one curve, and one for each primary metric of each point of the others.
pub(super) fn sentences_with_grade(cases: &[CaseSection], grade: &str) -> Vec<Sentence> {
    let is_only = cases.iter().filter(|case| case.serving.is_some()).count() == 1;
    let of_case = |case: &CaseSection| match &case.serving {
        Some(work) => vec![serving_sentence(case, work, is_only, grade)],
        None => {
            case.points.iter().flat_map(|point| point.headline_rows().map(move |row| sentence(case, point, row, grade))).collect()
        }
    };
    cases.iter().flat_map(of_case).collect()
}

fn sentence(case: &CaseSection, point: &PointSection, row: &Row, grade: &str) -> Sentence {
    let place = format!("{} on {}, {}", case.workload, case.side, point.label);
    let Ok(measured) = &row.measured else {
        let reason = row.measured.as_ref().err().cloned().unwrap_or_default();
        let rest = format!("{reason}; {place}");
        return Sentence {
            metric: row.metric.clone(),
            number: None,
            interval: String::new(),
            rest,
            address: None,
            is_serving: false,
        };
    };
    let stability = match measured.stability {
        Stability::Unknown => "stability unknown",
        known => known.as_str(),
    };
    Sentence {
        metric: row.metric.clone(),
        number: Some(format!("{} {}", measured.median_text, row.unit)),
        interval: measured.interval.as_ref().map_or_else(|_| "(no interval)".to_owned(), |ends| ends.text.clone()),
        rest: format!("{}, {place}; {grade}; {stability}", trial_count_text(measured.n, point.planned)),
        address: Some(measured.address.clone()),
        is_serving: false,
    }
}

/// Returns the sentence of a serving case: the tail latency at the load with the highest throughput, among those that met their SLOs.
/// `is_only_case` is true if no other case of the run has loads, so that its loads are all loads of the run.
fn serving_sentence(case: &CaseSection, work: &RequestedWork, is_only_case: bool, grade: &str) -> Sentence {
    let place = format!("{} on {}, {}", work.model, case.side, case.workload);
    let Some((point, metric, measured, why)) = headline(case, work, is_only_case) else {
        let headline = |point: &'_ PointSection| {
            headlines().iter().find_map(|column| point.row(column.text)?.measured.as_ref().err().cloned())
        };
        let reason = all_failed(case).or_else(|| case.points.iter().find_map(headline));
        let reason = reason.unwrap_or_else(|| "nothing was measured".to_owned());
        let rest = format!("{reason}; {place}");
        return Sentence {
            metric: "Latency".to_owned(),
            number: None,
            interval: String::new(),
            rest,
            address: None,
            is_serving: true,
        };
    };
    let at = throughput(point).map(|(metric, found)| {
        let interval = found.interval.as_ref().map_or(String::new(), |ends| format!(" {}", ends.text));
        let unit = throughput_unit(metric);
        format!("{} {unit}{interval} and ", found.median_text)
    });
    let failed = point.serving.as_ref().filter(|load| load.failed() > 0);
    let failed = failed.map(|load| format!("; {} of {} failed", percent(load.failed_share()), load.requests_text()));
    let stability = match measured.stability {
        Stability::Unknown => "stability unknown",
        known => known.as_str(),
    };
    let together = case.across_loads.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
    let rest = format!(
        "at {}{}, {}: {place}; {why}{together}{}; {grade}; {stability}",
        at.unwrap_or_default(),
        point.label,
        trial_count_text(measured.n, point.planned),
        failed.unwrap_or_default(),
    );
    Sentence {
        metric: metric.title(),
        number: Some(format!("{} ms", measured.median_text)),
        interval: measured.interval.as_ref().map_or_else(|_| "(no interval)".to_owned(), |ends| ends.text.clone()),
        rest,
        address: Some(measured.address.clone()),
        is_serving: true,
    }
}

/// States the outcomes of the requests of a case without a counted attempt; `None` if an attempt counts, or nothing failed.
fn all_failed(case: &CaseSection) -> Option<String> {
    let loads: Vec<&Load> = case.points.iter().filter_map(|point| point.serving.as_ref()).collect();
    if loads.iter().any(|load| !load.are_excluded) {
        return None;
    }
    let (failed, due) =
        loads.iter().fold((0_u64, 0_u64), |(failed, due), load| (failed + load.failed(), due.saturating_add(load.judged())));
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for failure in loads.iter().flat_map(|load| &load.failures) {
        *causes.entry(&failure.kind).or_default() += failure.count;
    }
    // What the client cut at the end of a trial did not fail by itself, if something else did.
    let cut = if causes.len() > 1 { causes.remove(CANCELLED_AT_END).unwrap_or(0) } else { 0 };
    let failed = failed.saturating_sub(cut);
    let (outcome, count) = causes.into_iter().max_by_key(|(_, count)| *count)?;
    Some(format!("{} of {} failed, most often with {outcome} ({})", grouped(failed), counted(due, "request"), grouped(count)))
}

type Headline<'a> = (&'a PointSection, &'static Column, &'a MetricStatistics, String);

fn headline<'a>(case: &'a CaseSection, work: &RequestedWork, is_only_case: bool) -> Option<Headline<'a>> {
    let metric = serving::headline(case)?;
    let measured: Vec<(&PointSection, &MetricStatistics)> =
        case.points.iter().filter_map(|point| Some((point, point.measured(metric.text)?))).collect();
    let met = |point: &PointSection| point.serving.as_ref().is_some_and(|load| load.slo_met == Some(true));
    // The loads of other cases are in sentences of their own.
    let of_case = if is_only_case { "" } else { " of the case" };
    let loads = format!("{}{of_case}", counted(case.points.len() as u64, "load"));
    let is_only = case.points.len() == 1;
    let only_load = format!("the only load{of_case}");
    let best = |candidates: &[(&'a PointSection, &'a MetricStatistics)]| {
        let speed = |point: &PointSection| throughput(point).map_or(f64::NEG_INFINITY, |(_, found)| found.median);
        candidates.iter().copied().max_by(|(one, _), (other, _)| speed(one).total_cmp(&speed(other)))
    };
    if work.slos.is_empty() {
        let (point, found) = best(&measured)?;
        let why = if is_only { only_load } else { format!("the highest throughput of {loads}") };
        return Some((point, metric, found, why));
    }
    let meeting: Vec<_> = measured.iter().copied().filter(|(point, _)| met(point)).collect();
    if let Some((point, found)) = best(&meeting) {
        let slos = work.slo_text();
        let text = match meeting.len() {
            _ if is_only => format!("{only_load}, which met the SLOs ({slos})"),
            all if all == case.points.len() => format!("the highest throughput of {loads}, which all met the SLOs ({slos})"),
            1 => format!("the only one of {loads} that met the SLOs ({slos})"),
            some => format!("the highest throughput of the {some} among {loads} that met the SLOs ({slos})"),
        };
        return Some((point, metric, found, text));
    }
    let (point, found) = measured.iter().copied().min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))?;
    let slos = work.slo_text();
    let why = if is_only {
        format!("{only_load}, which did not meet the SLOs ({slos})")
    } else {
        format!("the lowest latency; none of {loads} met the SLOs ({slos})")
    };
    Some((point, metric, found, why))
}

/// Returns `5 trials`, or `4 of 5 trials` if some do not count.
pub(crate) fn trial_count_text(n: u64, planned: u32) -> String {
    if n == u64::from(planned) { counted(n, "trial") } else { format!("{n} of {}", counted(planned, "trial")) }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{CaseId, Count};

    use crate::run::fixture;

    #[test]
    fn the_sentence_of_a_case_is_its_best_load() {
        let mut model = fixture::serving::small();
        let sentence = |model: &fixture::Model| model.report().sentences().collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(sentence(&model), @"TTFT p99 75.0 ms [72.1, 81.9], at 102 output tokens/s [101, 103] and concurrency 1, 5 trials: llama-3.1-8b on vllm, chat; the only one of 3 loads that met the SLOs (TTFT 500 ms, TPOT 50 ms); realism grade; stable");
        for work in model.plan.workloads.iter_mut().filter_map(|workload| workload.serving.as_mut()) {
            work.slos.clear();
        }
        insta::assert_snapshot!(sentence(&model), @"TTFT p99 330 ms [230, 380], at 3330 output tokens/s [3270, 3360] and concurrency 64, 5 trials: llama-3.1-8b on vllm, chat; the highest throughput of 3 loads; 1.6 % of 800 requests failed; realism grade; stable");
        let planned = |model: &mut fixture::Model| {
            let outcomes = &mut model.summary.points[1].serving.as_mut().expect("it serves").outcomes;
            outcomes.insert("ok".to_owned(), Count(387));
            outcomes.insert("cancelled".to_owned(), Count(400));
        };
        planned(&mut model);
        let cancelled = sentence(&model);
        assert!(cancelled.contains("; 3.2 % of 400 uncancelled requests failed;"), "of those that could: {cancelled}");
        for point in &mut model.summary.points {
            point.metrics.clear();
        }
        insta::assert_snapshot!(sentence(&model), @"Latency: no number, no counted trial's result has it; llama-3.1-8b on vllm, chat");
    }

    #[test]
    fn a_run_that_only_failed_says_how() {
        let report = fixture::serving::refused().report();
        insta::assert_snapshot!(report.sentences().collect::<Vec<_>>().join("\n"), @"Latency: no number, 480 of 480 requests failed, most often with http_error (459); llama-3.1-8b on vllm, chat");
        let requests = report.strip.iter().find(|item| item.label == "Requests").expect("it is there");
        insta::assert_snapshot!(format!("{}\n{}", requests.headline, requests.details.join("\n")), @r"
        480 of 480 requests failed, in attempts that do not count
        http_error: 459
        connect_error: 21
        none of 160 requests succeeded: 160 http_error; most often `401: no such key`
        ");
        let screen = report.terminal(100, false);
        let table = screen.lines().skip_while(|line| !line.contains("chat.vllm.default")).take(14).collect::<Vec<_>>();
        insta::assert_snapshot!(table.join("\n"), @r"
        chat.vllm.default
          llama-3.1-8b, chat, streamed; closed loop: each response is followed by the next request;
          latencies from the send time; SLOs TTFT 500 ms, TPOT 50 ms
                                     requests          TTFT  TPOT
          load               trials        ok  failed   p99   p50  tok/s  SLOs
          ! concurrency 1       0/5         0     160     —     —      —  —
          ! concurrency 64      0/5         0     160     —     —      —  —
          ! concurrency 128     0/5         0     160     —     —      —  —
          latencies in ms; ± is the reach of the interval; rows with ! or — have a remark below
          · every load: 160 of 160 requests failed (http_error × 153, connect_error × 7), in attempts that
            do not count
          · every load, every metric: absent, none of 5 trials counts (all_failed)
          · every load: 3 attempts do not count (all_failed: none of 160 requests succeeded: 160 http_error;
            most often `401: no such key`)
        ");
        assert!(!screen.contains("0 of 0"), "{screen}");
        assert!(!report.markdown().contains("0 of 0"));
        assert!(!report.html().contains("0 of 0"));
    }

    #[test]
    fn the_only_load_is_no_plural() {
        let mut model = fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        let why = |model: &fixture::Model| {
            let sentence = model.report().sentences().next().expect("a sentence");
            sentence.split("; ").nth(1).expect("the reason").to_owned()
        };
        assert_eq!(why(&model), "the only load, which met the SLOs (TTFT 500 ms, TPOT 50 ms)");
        model.summary.points[0].serving.as_mut().expect("it serves").slo_met = Some(false);
        assert_eq!(why(&model), "the only load, which did not meet the SLOs (TTFT 500 ms, TPOT 50 ms)");
        for work in model.plan.workloads.iter_mut().filter_map(|workload| workload.serving.as_mut()) {
            work.slos.clear();
        }
        assert_eq!(why(&model), "the only load");
    }

    #[test]
    fn loads_are_those_of_the_case_if_the_run_has_others() {
        let mut model = fixture::serving::small();
        let mut other = model.plan.cases[0].clone();
        other.target = "other".parse().expect("a name");
        other.case_id = CaseId::from_names(&other.workload, &other.target, &other.variant);
        model.plan.cases.push(other);
        let why = |model: &fixture::Model| {
            let sentence = model.report().sentences().next().expect("a sentence");
            sentence.split("; ").nth(1).expect("the reason").to_owned()
        };
        assert_eq!(why(&model), "the only one of 3 loads of the case that met the SLOs (TTFT 500 ms, TPOT 50 ms)");
        model.plan.cases[0].points.truncate(1);
        assert_eq!(why(&model), "the only load of the case, which met the SLOs (TTFT 500 ms, TPOT 50 ms)");
    }
}
