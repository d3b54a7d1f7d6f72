//! The series of one run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assay_manifest::{
    CaseId, Digest, Grade, Instant, Intent, MetricSummary, Plan, Point, PointKind, PointSummary, RunId, Stability, Summary,
};
use assay_spec::HotLabel;

use crate::error::Result;
use crate::name::{self, GaugeName, RunGauge, gauge_name, is_headline};
use crate::place::{CasePlace, concurrency_bucket, load};

/// A published run, as far as its series need it.
#[derive(Clone, Copy, Debug)]
pub struct PublishedRun<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// Its Plan.
    pub plan: &'a Plan,
    /// Its Summary.
    pub summary: &'a Summary,
    /// Its grade.
    pub grade: &'a Grade,
    /// The time of its Publication, for cases without an attempt.
    pub published_at: Instant,
    /// The place of each case.
    pub places: &'a BTreeMap<String, CasePlace>,
}

/// The series of one run: every gauge has one sample for each set of labels, all of one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The run.
    pub run_id: RunId,
    /// The end of the measurement, which is the time of all samples.
    pub at: Instant,
    /// The gauges, by name.
    pub gauges: BTreeMap<String, Gauge>,
    /// Points whose numbers are left out, because no label tells them from another point.
    pub points_left_out: u64,
    /// Numbers that are left out: not finite, or of two metrics whose gauges would have one name.
    pub numbers_left_out: u64,
}

/// A gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// Its meaning.
    pub help: String,
    /// Its samples.
    pub samples: Vec<Sample>,
}

/// One sample of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The labels.
    pub labels: BTreeMap<HotLabel, String>,
    /// The value.
    pub value: f64,
}

impl Batch {
    /// Returns the series of a run, with these labels. Labels without a value are left out of a series.
    pub fn of_run(run: &PublishedRun<'_>, labels: &[HotLabel]) -> Result<Self> {
        let ended = run.places.values().filter_map(|place| place.ended).max();
        let mut found = Found { labels, values: BTreeMap::new(), numbers_left_out: 0 };
        let mut points_left_out = 0;
        for case in &run.plan.cases {
            let own = found.case_labels(run, &case.case_id);
            let points: Vec<_> = run.summary.points.iter().filter(|point| point.case_id == case.case_id).collect();
            let pushed = told_apart(&case.points, labels.contains(&HotLabel::ConcurrencyBucket));
            let left_out = case.points.len() - pushed.len();
            points_left_out += left_out as u64;
            found.add_run_gauges(run, &case.case_id, &own, &points, left_out);
            for point in pushed {
                let Some(summary) = points.iter().find(|summary| summary.point_id == point.point_id) else { continue };
                let mut labels = own.clone();
                if let Some(bucket) = concurrency_bucket(point).filter(|_| found.labels.contains(&HotLabel::ConcurrencyBucket)) {
                    labels.insert(HotLabel::ConcurrencyBucket, bucket);
                }
                found.add_metrics(&summary.metrics, &labels);
            }
            if let Some(all) = run.summary.all_loads_of(&case.case_id) {
                found.add_metrics(&all.metrics, &own);
            }
        }
        let mut batch = Self {
            run_id: run.run_id.clone(),
            at: ended.unwrap_or(run.published_at),
            gauges: BTreeMap::new(),
            points_left_out,
            numbers_left_out: found.numbers_left_out,
        };
        batch.take(found.values);
        Ok(batch)
    }

    /// Returns the number of series.
    pub fn series(&self) -> u64 {
        self.gauges.values().map(|gauge| gauge.samples.len() as u64).sum()
    }

    /// Returns the time of the samples in milliseconds since 1970.
    pub fn unix_ms(&self) -> i64 {
        self.at.unix_ns().div_euclid(1_000_000)
    }

    /// Returns the digest of the series with their time and values.
    pub fn digest(&self) -> Digest {
        let mut text = format!("{}\n", self.at);
        for (name, gauge) in &self.gauges {
            for sample in &gauge.samples {
                let _ = writeln!(text, "{name} {:?} {:?}", sample.labels, sample.value);
            }
        }
        Digest::compute(text.as_bytes())
    }

    /// Takes the values that are the only one of their series.
    fn take(&mut self, values: BTreeMap<Series, Vec<(f64, String)>>) {
        for ((name, labels), values) in values {
            let [(value, help)] = values.as_slice() else {
                self.numbers_left_out += values.len() as u64;
                continue;
            };
            let gauge = self.gauges.entry(name).or_insert_with(|| Gauge { help: help.clone(), samples: Vec::new() });
            gauge.samples.push(Sample { labels, value: *value });
        }
    }
}

/// The name and the labels of a series.
type Series = (String, BTreeMap<HotLabel, String>);

/// The values that were found so far, with the meaning of their gauges. A series with several has none that can be pushed.
struct Found<'a> {
    labels: &'a [HotLabel],
    values: BTreeMap<Series, Vec<(f64, String)>>,
    numbers_left_out: u64,
}

impl Found<'_> {
    fn case_labels(&self, run: &PublishedRun<'_>, case: &CaseId) -> BTreeMap<HotLabel, String> {
        let place = run.places.get(case.as_str()).map(|place| place.labels.clone()).unwrap_or_default();
        let own = [(HotLabel::RunId, run.run_id.to_string()), (HotLabel::BenchmarkCaseId, case.to_string())];
        place.into_iter().chain(own).filter(|(label, _)| self.labels.contains(label)).collect()
    }

    fn add(&mut self, name: String, help: &str, labels: &BTreeMap<HotLabel, String>, value: f64) {
        if value.is_finite() {
            self.values.entry((name, labels.clone())).or_default().push((value, help.to_owned()));
        } else {
            self.numbers_left_out += 1;
        }
    }

    fn add_run_gauges(
        &mut self,
        run: &PublishedRun<'_>,
        case: &CaseId,
        labels: &BTreeMap<HotLabel, String>,
        points: &[&PointSummary],
        left_out: usize,
    ) {
        let sum = |of: fn(&PointSummary) -> u64| points.iter().map(|point| of(point)).sum::<u64>();
        let planned = sum(|point| point.trials_planned.into());
        let counted = sum(|point| point.trials_counted.into());
        let unstable = sum(|point| {
            let is_unstable = |metric: &&MetricSummary| metric.primary && metric.stability == Stability::Unstable;
            point.metrics.iter().filter(is_unstable).count() as u64
        });
        let grade = match run.grade.given {
            Intent::Exploratory => 0,
            Intent::Realism => 1,
            Intent::Publication => 2,
        };
        let counts = [
            (name::SUCCEEDED, u64::from(planned == counted)),
            (name::GRADE, grade),
            (name::TRIALS_PLANNED, planned),
            (name::TRIALS_COUNTED, counted),
            (name::ATTEMPTS_EXCLUDED, sum(|point| point.excluded.len() as u64)),
            (name::UNSTABLE, unstable),
            (name::POINTS, points.len() as u64),
            (name::POINTS_LEFT_OUT, left_out as u64),
        ];
        for (RunGauge { name, help }, count) in counts {
            self.add(name.to_owned(), help, labels, count as f64);
        }
        if let Some(ended) = run.places.get(case.as_str()).and_then(|place| place.ended) {
            self.add(name::END.name.to_owned(), name::END.help, labels, ended.unix_ns() as f64 / 1e9);
        }
    }

    fn add_metrics(&mut self, metrics: &[MetricSummary], labels: &BTreeMap<HotLabel, String>) {
        for metric in metrics.iter().filter(|metric| is_headline(metric)) {
            let name = gauge_name(metric);
            self.add_number(&name, "", &name.help, labels, metric.median);
            if let Some(interval) = &metric.interval {
                let end = |which: &str| format!("{which} end of the interval of `{}`.", name.text);
                self.add_number(&name, "_ci_low", &end("Lower"), labels, interval.low);
                self.add_number(&name, "_ci_high", &end("Upper"), labels, interval.high);
            }
        }
    }

    fn add_number(&mut self, name: &GaugeName, end: &str, help: &str, labels: &BTreeMap<HotLabel, String>, value: f64) {
        self.add(format!("{}{end}", name.text), help, labels, name.convert(value));
    }
}

/// Returns the points whose numbers are pushed. Of several points in one bucket, that of the highest load stands for all of them; points that
/// no load tells apart are left out, because their numbers would be samples of one series.
fn told_apart(points: &[Point], with_bucket: bool) -> Vec<&Point> {
    let mut groups: BTreeMap<Option<String>, Vec<&Point>> = BTreeMap::new();
    for point in points {
        groups.entry(concurrency_bucket(point).filter(|_| with_bucket)).or_default().push(point);
    }
    groups.into_values().filter_map(|group| highest(&group)).collect()
}

/// Returns the only point of a group, or that of the highest load if all have loads of one kind and no other is as high.
fn highest<'a>(group: &[&'a Point]) -> Option<&'a Point> {
    let [first, others @ ..] = group else { return None };
    if others.is_empty() {
        return Some(first);
    }
    let kind: PointKind = first.kind;
    let mut loads =
        group.iter().map(|point| Some((load(point).filter(|_| point.kind == kind)?, *point))).collect::<Option<Vec<_>>>()?;
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    match loads.as_slice() {
        [.., (before, _), (highest, point)] if before < highest => Some(point),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use proptest::prelude::*;

    /// The name, the labels and the value of a sample.
    type NamedSample<'a> = (&'a str, &'a [(HotLabel, &'a str)], f64);

    /// Returns a batch of these samples.
    pub(crate) fn batch(samples: &[NamedSample<'_>]) -> Batch {
        let mut gauges: BTreeMap<String, Gauge> = BTreeMap::new();
        for (name, labels, value) in samples {
            let labels = labels.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
            let gauge =
                gauges.entry((*name).to_owned()).or_insert_with(|| Gauge { help: format!("The {name}."), samples: Vec::new() });
            gauge.samples.push(Sample { labels, value: *value });
        }
        let at = Instant::from_unix_ns(1_767_225_600_123_456_789);
        Batch { run_id: "nightly-1".parse().expect("a run"), at, gauges, points_left_out: 0, numbers_left_out: 0 }
    }

    fn points(loads: &[(PointKind, &str)]) -> Vec<Point> {
        let point = |(index, (kind, load)): (usize, &(PointKind, &str))| Point {
            point_id: format!("p{index}").parse().expect("an id"),
            kind: *kind,
            value: [(kind.as_str().to_owned(), (*load).to_owned())].into(),
            load_recipe_digest: None,
        };
        loads.iter().enumerate().map(point).collect()
    }

    fn pushed(loads: &[(PointKind, &str)], with_bucket: bool) -> Vec<String> {
        let points = points(loads);
        let mut ids: Vec<_> = told_apart(&points, with_bucket).into_iter().map(|point| point.point_id.to_string()).collect();
        ids.sort();
        ids
    }

    #[test]
    fn the_highest_load_stands_for_its_bucket() {
        use PointKind::{Concurrency, Parameters, Rate};
        assert_eq!(pushed(&[(Concurrency, "1"), (Concurrency, "8"), (Concurrency, "64")], true), ["p0", "p1", "p2"]);
        assert_eq!(pushed(&[(Concurrency, "6"), (Concurrency, "8"), (Concurrency, "9")], true), ["p1", "p2"]);
        assert_eq!(pushed(&[(Concurrency, "1"), (Concurrency, "8")], false), ["p1"], "without the label they are one series");
        assert_eq!(pushed(&[(Concurrency, "8"), (Rate, "8")], true), ["p0", "p1"], "a rate is no concurrency");
        assert_eq!(pushed(&[(Concurrency, "8"), (Rate, "9")], false), Vec::<String>::new());
        assert_eq!(pushed(&[(Concurrency, "8"), (Concurrency, "8")], true), Vec::<String>::new());
        assert_eq!(pushed(&[(Parameters, "1"), (Parameters, "2")], true), Vec::<String>::new());
        assert_eq!(pushed(&[(Parameters, "1")], true), ["p0"]);
    }

    proptest! {
        #[test]
        fn no_two_pushed_points_share_a_series(loads in proptest::collection::vec((0usize..6, 1u32..40), 1..12), with_bucket: bool) {
            let loads: Vec<_> = loads.into_iter().map(|(kind, load)| (PointKind::ALL[kind], load.to_string())).collect();
            let loads: Vec<_> = loads.iter().map(|(kind, load)| (*kind, load.as_str())).collect();
            let points = points(&loads);
            let pushed = told_apart(&points, with_bucket);
            let mut keys: Vec<_> = pushed.iter().map(|point| concurrency_bucket(point).filter(|_| with_bucket)).collect();
            keys.sort();
            let all = keys.len();
            keys.dedup();
            prop_assert_eq!(keys.len(), all);
        }
    }
}
