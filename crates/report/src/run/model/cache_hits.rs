//! The input tokens of a load that came from the endpoint's prefix cache although its workload keeps the cache cold.

use assay_manifest::{CacheMode, PointSummary, PromptSource, ServingWork};
use assay_metric::{Metric, Statistic};

use crate::render::text::counted;

/// Smallest share of cached input tokens that is remarked: a chat template alone is cached as well, and is no more than a small
/// share of most prompts.
const LEAST_SHARE: f64 = 0.1;

/// The cached input tokens of the counted trials of a load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CacheHits {
    /// The share of all input tokens, from 0 to 1.
    share: f64,
    /// The prompts of the dataset and the number of times that each was sent in a trial, if the dataset has fewer rows than a trial
    /// has requests.
    repeats: Option<Repeats>,
}

/// The repetition of a dataset's prompts in a trial.
#[derive(Debug, Clone, PartialEq)]
struct Repeats {
    prompts: u64,
    /// The mean number of requests with the same prompt in a trial.
    sends: f64,
}

impl CacheHits {
    /// Returns the cached share of a load whose workload keeps the cache cold, if it is large and the endpoint reports it.
    pub(crate) fn new(work: &ServingWork, found: &PointSummary) -> Option<Self> {
        if !matches!(work.cache, CacheMode::ColdSalt | CacheMode::ColdFlush) || shares_prefixes(work) {
            return None;
        }
        let name = Metric::CachedShare.name(Statistic::Value)?;
        let metric = found.metrics.iter().find(|metric| metric.metric == name.text)?;
        let share = Some(metric.median).filter(|share| *share > LEAST_SHARE)?;
        Some(Self { share, repeats: Repeats::new(work, found) })
    }

    /// States the share, and why prompts may have been cached.
    pub(crate) fn describe(&self) -> String {
        let repeats = self.repeats.as_ref().map(Repeats::describe).unwrap_or_default();
        format!(
            "{:.0} % of the input tokens came from the prefix cache, although each trial begins with a cold one{repeats}",
            self.share * 100.0
        )
    }
}

/// Returns true if prompts of one trial begin alike on purpose: a cache that is cold for each trial finds these beginnings.
fn shares_prefixes(work: &ServingWork) -> bool {
    let begin_alike = match &work.prompts {
        PromptSource::Synthetic { prefix, .. } => prefix.is_some(),
        PromptSource::Dataset(dataset) => dataset.summary.blocks.is_some() || dataset.summary.times.is_some(),
    };
    // A turn repeats what was said before.
    begin_alike || work.sessions.is_some()
}

impl Repeats {
    fn new(work: &ServingWork, found: &PointSummary) -> Option<Self> {
        let prompts = work.prompts.dataset()?.summary.rows.0;
        let requests = found.serving.as_ref()?.requests.0;
        let sends = requests as f64 / f64::from(found.trials_counted) / prompts as f64;
        (sends.is_finite() && sends > 1.0).then_some(Self { prompts, sends })
    }

    fn describe(&self) -> String {
        let which = match self.prompts {
            1 => "the only prompt".to_owned(),
            prompts => format!("each of the {}", counted(prompts, "prompt")),
        };
        let digits = usize::from(self.sends < 10.0);
        format!("; {which} of the dataset was sent about {:.digits$} times in a trial", self.sends)
    }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Count, DatasetSummary, SharedPrefix};

    use super::*;
    use crate::run::fixture::{self, Model};

    /// Returns the remarks of a load of 5 trials with 160 requests each, of 100 input tokens each, of which the endpoint reports this
    /// share as cached.
    fn remarks(cache: CacheMode, share: f64, rows: Option<u64>) -> Vec<String> {
        let mut model = fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        let work = model.plan.workloads[0].serving.as_mut().expect("it serves");
        work.cache = cache;
        if let Some(rows) = rows {
            work.prompts = fixture::serving::dataset(DatasetSummary { rows: Count(rows), ..DatasetSummary::default() });
        }
        add(&mut model, "cached_share", share);
        let report = model.report();
        let point = &report.cases[0].points[0];
        super::super::serving_remarks::remarks(point, &[]).into_iter().map(|remark| remark.full_text()).collect()
    }

    /// Adds a metric with this value of each trial.
    fn add(model: &mut Model, name: &str, value: f64) {
        let metrics = &mut model.summary.points[0].metrics;
        let mut metric = metrics[0].clone();
        (metric.metric, metric.unit, metric.median) = (name.to_owned(), "ratio".to_owned(), value);
        metric.trials.iter_mut().for_each(|trial| (trial.value, trial.n) = (value, Count(160)));
        metrics.push(metric);
    }

    #[test]
    fn a_cold_cache_that_was_warm_is_remarked() {
        insta::assert_snapshot!(remarks(CacheMode::ColdSalt, 0.953, None).join("\n"), @"concurrency 1: 95 % of the input tokens came from the prefix cache, although each trial begins with a cold one");
        insta::assert_snapshot!(remarks(CacheMode::ColdFlush, 0.953, Some(10)).join("\n"), @"concurrency 1: 95 % of the input tokens came from the prefix cache, although each trial begins with a cold one; each of the 10 prompts of the dataset was sent about 16 times in a trial");
        insta::assert_snapshot!(remarks(CacheMode::ColdSalt, 0.3, Some(100)).join("\n"), @"concurrency 1: 30 % of the input tokens came from the prefix cache, although each trial begins with a cold one; each of the 100 prompts of the dataset was sent about 1.6 times in a trial");
    }

    #[test]
    fn beginnings_that_are_shared_on_purpose_are_not_remarked() {
        let mut model = fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        add(&mut model, "cached_share", 0.9);
        let remarked = |model: &Model| super::super::serving_remarks::remarks(&model.report().cases[0].points[0], &[]).len();
        assert_eq!(remarked(&model), 1);
        let work = model.plan.workloads[0].serving.as_mut().expect("it serves");
        let PromptSource::Synthetic { prefix, .. } = &mut work.prompts else { panic!("synthetic prompts") };
        *prefix = Some(SharedPrefix { system: 90, groups: 1, group: 0, zipf: 0.0 });
        assert_eq!(remarked(&model), 0);
        let work = model.plan.workloads[0].serving.as_mut().expect("it serves");
        work.prompts = fixture::serving::dataset(DatasetSummary::default());
        assert_eq!(remarked(&model), 1);
        let work = model.plan.workloads[0].serving.as_mut().expect("it serves");
        work.sessions = Some(fixture::serving::sessions());
        assert_eq!(remarked(&model), 0, "a turn repeats what was said before");
    }

    #[test]
    fn a_small_share_or_a_cache_that_may_be_warm_is_not_remarked() {
        assert_eq!(remarks(CacheMode::ColdSalt, 0.1, Some(10)), [""; 0]);
        assert_eq!(remarks(CacheMode::Warm, 0.9, Some(10)), [""; 0]);
        assert_eq!(remarks(CacheMode::Shared, 0.9, None), [""; 0]);
        assert!(!remarks(CacheMode::ColdSalt, 0.9, Some(160))[0].contains("dataset"), "each prompt was sent once");
    }
}
