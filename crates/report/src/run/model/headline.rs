//! The headline figure of a run, for lists of runs: the number of the report's first sentence.

use assay_manifest::{Address, IntervalKind, MetricSummary, Plan, RunId, Summary};

use super::build::Builder;
use super::section::{CaseSection, MetricStatistics, Row};
use super::sentence::sentences_with_grade;
use super::serving::metric_name;
use crate::render::text::clean;

/// The headline figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// The metric, such as `ttft_ms_p99`.
    pub metric: String,
    /// The metric for people, such as `TTFT p99`.
    pub title: String,
    /// The median over the counted trials, as the Summary states it.
    pub value: f64,
    /// The unit of value and interval.
    pub unit: String,
    /// The ends of its interval, if it has one.
    pub interval: Option<[f64; 2]>,
    /// The variation that its interval holds.
    pub interval_kind: Option<IntervalKind>,
    /// The value for people, in a unit that suits it: `412 ms`.
    pub text: String,
    /// The place where it was measured, such as `chat on vllm, concurrency 64`.
    pub place: String,
    /// The side of a comparison that it is of, the candidate; `None` if the run compares nothing.
    pub side: Option<String>,
    /// The address of the number.
    pub address: Address,
}

impl Headline {
    /// Returns the headline figure of a run, that of the report's headline sentence, or of a comparison that of its candidate; `None` if that has no number.
    pub fn new(run_id: &RunId, plan: &Plan, summary: &Summary) -> Option<Self> {
        let mut cases = Builder::new(run_id, plan, summary, None, None).cases();
        // Of a comparison, the candidate is what the run was made for.
        let is_candidate = |case: &CaseSection| {
            let (comparison, case) = (plan.comparison.as_ref(), plan.case(&case.case_id));
            comparison.zip(case).is_some_and(|(comparison, case)| {
                (&case.target, &case.variant) == (&comparison.candidate.target, &comparison.candidate.variant)
            })
        };
        cases.sort_by_key(|case| !is_candidate(case));
        let sentences = sentences_with_grade(&cases, "").into_iter();
        let first_numbers: Vec<_> = sentences.map(|sentence| (sentence.is_serving, sentence.address)).collect();
        let address = first_numbers.iter().find(|(is_serving, _)| *is_serving).or(first_numbers.first())?.1.as_ref()?;
        let found = cases.iter().find_map(|case| Some((case, Self::of_case(case, address, summary)?)));
        found.map(|(case, headline)| Self { side: is_candidate(case).then(|| case.side.clone()), ..headline })
    }

    fn of_case(case: &CaseSection, address: &Address, summary: &Summary) -> Option<Self> {
        let rows = case.points.iter().flat_map(|point| point.rows.iter().map(move |row| (point, row)));
        let measured = rows.filter_map(|(point, row)| Some((point, row, row.measured.as_ref().ok()?)));
        let (point, row, found): (_, &Row, &MetricStatistics) =
            measured.into_iter().find(|(.., found)| found.address == *address)?;
        let metrics = summary.points.iter().flat_map(|point| &point.metrics);
        let is_it = |metric: &&MetricSummary| metric.rows.get("median").is_some_and(|row| row.to_string() == found.row_id);
        let stored = metrics.into_iter().find(is_it)?;
        Some(Self {
            metric: row.metric.clone(),
            title: metric_name(&row.metric),
            value: stored.median,
            unit: clean(&stored.unit),
            interval: stored.interval.as_ref().map(|interval| [interval.low, interval.high]),
            interval_kind: stored.interval.as_ref().map(|interval| interval.kind),
            text: format!("{} {}", found.median_text, row.unit),
            place: format!("{} on {}, {}", case.workload, case.side, point.label),
            side: None,
            address: address.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fixture;

    #[test]
    fn the_headline_is_the_number_of_the_first_sentence() {
        let model = fixture::serving::whole();
        let headline = Headline::new(&model.run_id, &model.plan, &model.summary).expect("a number");
        let sentence = model.report().sentences().next().expect("a sentence");
        assert!(sentence.starts_with(&format!("{} {} ", headline.title, headline.text)), "{sentence}\n{headline:?}");
        assert_eq!((headline.metric.as_str(), headline.unit.as_str()), ("ttft_ms_p99", "ms"));
        assert_eq!(Some(&headline.address), model.report().example_address());
        let low = headline.interval.expect("an interval")[0];
        assert!(low <= headline.value, "{headline:?}");
    }

    #[test]
    fn a_run_without_a_counted_trial_has_none() {
        let model = fixture::serving::refused();
        assert_eq!(Headline::new(&model.run_id, &model.plan, &model.summary), None);
    }
}
