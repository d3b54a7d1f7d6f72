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
    /// The repetition of the prompts, if the dataset has fewer rows than a trial and its warm-up have requests.
    repeats: Option<Repeats>,
}

/// The repetition of a dataset's prompts in a trial and its warm-up.
#[derive(Debug, Clone, PartialEq)]
struct Repeats {
    prompts: u64,
    /// The mean number of requests of a trial, without its warm-up.
    requests: f64,
    /// True if a trial has a warm-up, whose prompts are of the same dataset.
    is_warmed_up: bool,
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
        let serving = found.serving.as_ref()?;
        let requests = serving.requests.0 as f64 / f64::from(found.trials_counted);
        // The Summary does not count the requests of warm-ups: their number is estimated, and not stated, by the rate of the trials.
        let rate_per_ns = serving.requests.0 as f64 / serving.duration_ns.0.max(1) as f64;
        let of_warmup = if work.rate_profile.is_some() { 0.0 } else { rate_per_ns * work.warmup_ns.0 as f64 };
        let is_warmed_up = work.warmup_ns.0 > 0;
        (requests.is_finite() && prompts > 0 && requests + of_warmup > prompts as f64).then_some(Self {
            prompts,
            requests,
            is_warmed_up,
        })
    }

    fn describe(&self) -> String {
        let sends = self.requests / self.prompts as f64;
        if sends <= 1.0 {
            return self.describe_warmup();
        }
        let which = match self.prompts {
            1 => "the only prompt".to_owned(),
            prompts => format!("each of the {}", counted(prompts, "prompt")),
        };
        let digits = usize::from(sends < 10.0);
        let more = if self.is_warmed_up { ", and prompts of it in the warm-up before" } else { "" };
        format!("; {which} of the dataset was sent about {sends:.digits$} times in a trial{more}")
    }

    /// States that the prompts are too few for the warm-up and the trial, which sends each of them once at most.
    fn describe_warmup(&self) -> String {
        let the = if self.requests.fract() == 0.0 { "the" } else { "about" };
        let requests = counted(self.requests.round() as u64, "request");
        let prompts = match self.prompts {
            1 => "the only prompt".to_owned(),
            prompts => format!("the {}", counted(prompts, "prompt")),
        };
        format!("; the warm-up and {the} {requests} of a trial share {prompts} of the dataset")
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
        remarks_after(0, cache, share, rows)
    }

    /// Returns the remarks of such a load after a warm-up of this many seconds; a trial lasts 60.
    fn remarks_after(warmup_s: u64, cache: CacheMode, share: f64, rows: Option<u64>) -> Vec<String> {
        let mut model = fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        let work = model.plan.workloads[0].serving.as_mut().expect("it serves");
        work.cache = cache;
        work.warmup_ns = Count(warmup_s * 1_000_000_000);
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
    fn a_warm_up_that_sends_the_same_prompts_is_named() {
        let remark = |warmup_s, rows| remarks_after(warmup_s, CacheMode::ColdSalt, 0.9, Some(rows)).join("\n");
        let stated = "although each trial begins with a cold one; the warm-up and the 160 requests of a trial share the 160 prompts of the dataset";
        assert!(remark(1, 160).ends_with(stated), "{}", remark(1, 160));
        // 160 requests in 60 s are about 53 in a warm-up of 20 s.
        assert!(remark(20, 200).ends_with("share the 200 prompts of the dataset"), "{}", remark(20, 200));
        for (warmup_s, rows) in [(0, 160), (0, 200), (1, 200), (20, 300)] {
            assert!(
                remark(warmup_s, rows).ends_with("begins with a cold one"),
                "no prompt was sent twice: {}",
                remark(warmup_s, rows)
            );
        }
        let both = "was sent about 16 times in a trial, and prompts of it in the warm-up before";
        assert!(remark(1, 10).ends_with(both), "{}", remark(1, 10));
        let one = Repeats { prompts: 1, requests: 0.6, is_warmed_up: true };
        assert_eq!(one.describe(), "; the warm-up and about 1 request of a trial share the only prompt of the dataset");
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
