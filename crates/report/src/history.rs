//! A metric from run to run and where its level moved, as people and machines read it: one [`Report`], rendered for the terminal, as an
//! issue and as a page, and each [`Series`] as a document.
//!
//! The answer comes first: that the level moved, by how much and with which run, or that it did not, or why nobody looked. A history
//! decides nothing, because between two days the machine may have changed: where it did, every rendering says so beside the change.
//! Names come from pull requests, so that every rendering escapes them. Nothing here searches for changes, reads a file or looks at a
//! clock: a rendering of equal inputs has equal bytes.

mod chart;
mod document;
mod html;
mod markdown;
mod table;
mod terminal;
mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use assay_manifest::{Address, Better, Instant};

use crate::lineage::store_option;
use crate::text::clean;

/// Everything that a report of histories shows. The caller has read it from verified runs and searched it: a report renders.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The histories.
    pub series: &'a [Series],
    /// The probability with which an unchanged history raises any change, as a share.
    pub level: f64,
    /// The URI of the store that holds the runs; absent where `assay` finds it by itself.
    pub store: Option<&'a str>,
}

/// A metric at a point of a case, from run to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The pipeline that measured it.
    pub pipeline: String,
    /// The case.
    pub case: String,
    /// The point.
    pub point: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better; absent where it is not declared.
    pub better: Option<Better>,
    /// The runs that did the same work, oldest first. Their values alone are comparable.
    pub runs: Vec<Run>,
    /// Where the level moved, oldest first; or why it was not searched.
    pub changes: Result<Vec<Change>, String>,
    /// The stretches in which nothing can be told beside the changes, oldest first.
    pub untold: Vec<Untold>,
    /// The change that the newest runs show and those before did not, as it was when they did.
    pub news: Option<Change>,
    /// Runs of other work, which are left out.
    pub other_work: u64,
}

/// What a run has of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// The median over its counted trials, in the metric's unit.
    pub value: f64,
    /// When its first attempt began; absent where that is not known.
    pub started: Option<Instant>,
    /// The commit that it measured; absent where none is known.
    pub commit: Option<String>,
    /// Whether its hardware is other than that of the run before.
    pub hardware_changed: bool,
    /// Whether its software is other than that of the run before.
    pub software_changed: bool,
    /// Whether the file of its pipeline is other than that of the run before: targets and variants may be set up otherwise.
    pub pipeline_changed: bool,
    /// The address of the value; absent where it is not known.
    pub address: Option<Address>,
}

/// A stretch of runs in which a change of level cannot be told from a slow wave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Untold {
    /// Its first run, by its place in [`Series::runs`].
    pub from: usize,
    /// The run after its last.
    pub to: usize,
    /// The lag-1 autocorrelation of its values, if there is no change.
    pub autocorrelation: f64,
}

/// A place where the level moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The first run of the new level, by its place in [`Series::runs`].
    pub index: usize,
    /// The level before, in the metric's unit.
    pub before: f64,
    /// The level after.
    pub after: f64,
    /// `after / before - 1`, a share; absent where `before` is 0.
    pub change: Option<f64>,
    /// The lower and the upper end of its interval, as shares; absent where there is none.
    pub interval: Option<(f64, f64)>,
    /// The probability of so clear a split where nothing changed, corrected for the search.
    pub p: f64,
}

/// Histories, ready to be rendered. Made by [`Report::build`].
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// As they were given, their texts made fit to be shown.
    pub(crate) series: Vec<Series>,
    pub(crate) level: f64,
    pub(crate) store: Option<String>,
}

/// A change counts as located within so many runs of where it is (docs/statistics.md).
pub(crate) const NEAR: usize = 5;

/// A stretch of runs between two changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// Its first run.
    pub(crate) from: usize,
    /// The run after its last.
    pub(crate) to: usize,
    /// The median of its values.
    pub(crate) value: f64,
}

impl Report {
    /// The report of some histories.
    pub fn build(inputs: &Inputs<'_>) -> Self {
        Self {
            series: inputs.series.iter().map(Series::cleaned).collect(),
            level: inputs.level,
            store: inputs.store.map(str::to_owned),
        }
    }

    /// How many of the histories changed with their newest runs.
    pub fn news(&self) -> usize {
        self.series.iter().filter(|series| series.news.is_some()).count()
    }

    /// The command that walks a run's value back.
    pub(crate) fn trace_command(&self, address: &Address) -> String {
        format!("assay trace {address}{}", store_option(self.store.as_deref()))
    }
}

impl Series {
    fn cleaned(&self) -> Self {
        Self {
            pipeline: clean(&self.pipeline),
            case: clean(&self.case),
            point: clean(&self.point),
            metric: clean(&self.metric),
            unit: clean(&self.unit),
            runs: self.runs.iter().map(Run::cleaned).collect(),
            changes: self.changes.clone().map_err(|why| clean(&why)),
            ..self.clone()
        }
    }

    /// What it is, in a sentence: `` `ttft_ms_p99` of chat.vllm.default at c64 by nightly ``.
    pub fn name(&self) -> String {
        format!("`{}` of {} at {} by {}", self.metric, self.case, self.point, self.pipeline)
    }

    /// The changes, that of the newest runs among them; none where nobody looked. Both searches may find the same one, a few runs apart.
    pub(crate) fn all_changes(&self) -> Vec<Change> {
        let mut all = self.changes.clone().unwrap_or_default();
        if let Some(news) = self.news.filter(|news| !all.iter().any(|change| change.index.abs_diff(news.index) <= NEAR)) {
            all.push(news);
            all.sort_by_key(|change| change.index);
        }
        all
    }

    /// The level of each stretch between changes.
    pub(crate) fn levels(&self) -> Vec<Level> {
        let places = self.all_changes().into_iter().map(|change| change.index.min(self.runs.len()));
        let mut from = 0;
        let mut levels = Vec::new();
        for to in places.chain([self.runs.len()]) {
            let values = self.runs.get(from..to).into_iter().flatten().map(|run| run.value);
            levels.extend(median(values.collect()).map(|value| Level { from, to, value }));
            from = to;
        }
        levels
    }
}

impl Run {
    fn cleaned(&self) -> Self {
        Self { id: clean(&self.id), commit: self.commit.as_deref().map(clean), ..self.clone() }
    }

    /// Whether its environment is another than that of the run before.
    pub(crate) fn environment_changed(&self) -> bool {
        self.hardware_changed || self.software_changed || self.pipeline_changed
    }
}

/// The median; none of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let lower = if values.len().is_multiple_of(2) { *values.get(middle - 1)? } else { upper };
    Some(f64::midpoint(lower, upper))
}
