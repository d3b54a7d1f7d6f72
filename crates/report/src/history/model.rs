//! The content of a report of histories, before it is rendered.

use std::collections::BTreeMap;

use assay_manifest::{Address, BetterDirection, Digest, Instant};

use super::phrases;
use crate::render::command::trace_command;
use crate::render::text::clean;

/// All data that a report of histories shows. The caller has read it from verified runs and searched it for changes.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The histories.
    pub series: &'a [Series],
    /// The probability that an unchanged history raises any change, as a share.
    pub level: f64,
    /// The URI of the store that holds the runs; `None` if `assay` finds the store by itself.
    pub store: Option<&'a str>,
    /// The origin of the values in a sentence, with which every rendering begins; `None` if Assay measured them.
    pub origin: Option<&'a str>,
}

/// The subject of a history: that of which its values are.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A point of a case, which runs of a pipeline measured.
    Point {
        /// The pipeline.
        pipeline: String,
        /// The case.
        case: String,
        /// The point.
        point: String,
    },
    /// Results of another tool with the same labels. Each piece of evidence counts as one run of the tool.
    Foreign {
        /// The tool.
        tool: String,
        /// The statistic of each value.
        statistic: String,
        /// The load and other circumstances.
        labels: BTreeMap<String, String>,
    },
}

/// A metric of one subject, from run to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The subject.
    pub subject: Subject,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The better direction; `None` if it is not declared.
    pub better: Option<BetterDirection>,
    /// The runs with the same work, oldest first. Only their values are comparable.
    pub runs: Vec<Run>,
    /// The changes of level, oldest first; or the reason why the history was not searched.
    pub changes: Result<Vec<Change>, String>,
    /// The stretches in which no further changes can be distinguished, oldest first.
    pub ambiguous: Vec<AmbiguousStretch>,
    /// The change that only the newest runs show, as it was when they first showed it.
    pub newest_change: Option<Change>,
    /// Number of runs that are left out: those with other work, or those of another tool without this statistic.
    pub other_work: u64,
}

/// One run's data on a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// The median over its counted trials, in the metric's unit; of foreign evidence, the number that the tool states.
    pub value: f64,
    /// The start of its first attempt, or the import of foreign evidence; `None` if unknown.
    pub started: Option<Instant>,
    /// The commit that it measured; `None` if unknown.
    pub commit: Option<String>,
    /// True if its hardware differs from that of the run before.
    pub hardware_changed: bool,
    /// True if its software differs from that of the run before.
    pub software_changed: bool,
    /// True if the file of its pipeline differs from that of the run before: targets and variants may be set up differently.
    pub pipeline_changed: bool,
    /// True if the version of the tool, of foreign evidence, differs from that of the run before, or if only one of the two is known.
    pub tool_changed: bool,
    /// The address of the value; `None` if unknown.
    pub address: Option<Address>,
    /// The digest of the foreign evidence; `None` for a run of Assay.
    pub evidence: Option<Digest>,
}

/// A stretch of runs in which a change of level cannot be distinguished from a slow wave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AmbiguousStretch {
    /// The index of its first run in [`Series::runs`].
    pub from: usize,
    /// The index of the run after its last.
    pub to: usize,
    /// The lag-1 autocorrelation of its values, assuming that there is no change.
    pub autocorrelation: f64,
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The index, in [`Series::runs`], of the first run of the new level.
    pub index: usize,
    /// The level before, in the metric's unit.
    pub before: f64,
    /// The level after.
    pub after: f64,
    /// `after / before - 1`, a share; `None` if `before` is 0.
    pub change: Option<f64>,
    /// The lower and the upper end of its interval, as shares; `None` if it has no interval.
    pub interval: Option<(f64, f64)>,
    /// The probability of so clear a split if nothing changed, corrected for the search.
    pub p: f64,
}

/// Histories, ready to be rendered. Made by [`Report::build`].
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The given histories, with texts cleaned for display.
    pub(crate) series: Vec<Series>,
    pub(crate) level: f64,
    pub(crate) store: Option<String>,
    pub(crate) origin: Option<String>,
}

/// The accuracy of a change's location, in runs (docs/statistics.md).
pub(crate) const LOCATION_TOLERANCE: usize = 5;

/// A stretch of runs between two changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// The index of its first run.
    pub(crate) from: usize,
    /// The index of the run after its last.
    pub(crate) to: usize,
    /// The median of its values.
    pub(crate) value: f64,
}

impl Report {
    /// Builds the report of some histories.
    pub fn build(inputs: &Inputs<'_>) -> Self {
        Self {
            series: inputs.series.iter().map(Series::cleaned).collect(),
            level: inputs.level,
            store: inputs.store.map(str::to_owned),
            origin: inputs.origin.map(clean),
        }
    }

    /// Returns the number of histories that changed with their newest runs.
    pub fn count_newly_changed(&self) -> usize {
        self.series.iter().filter(|series| series.newest_change.is_some()).count()
    }

    /// Returns the command that traces a run's value back to its evidence.
    pub(crate) fn trace_command(&self, address: &Address) -> String {
        trace_command(address, self.store.as_deref())
    }
}

impl Series {
    fn cleaned(&self) -> Self {
        Self {
            subject: self.subject.cleaned(),
            metric: clean(&self.metric),
            unit: clean(&self.unit),
            runs: self.runs.iter().map(Run::cleaned).collect(),
            changes: self.changes.clone().map_err(|why| clean(&why)),
            ..self.clone()
        }
    }

    /// Returns its full name for a sentence: `` `ttft_ms_p99` of chat.vllm.default at c64 by nightly ``.
    pub fn name(&self) -> String {
        let metric = &self.metric;
        match &self.subject {
            Subject::Point { pipeline, case, point } => format!("`{metric}` of {case} at {point} by {pipeline}"),
            Subject::Foreign { tool, statistic, labels } => {
                format!("`{metric}` ({statistic}){} by {tool}", phrases::of_labels(labels))
            }
        }
    }

    /// Returns the changes, including that of the newest runs; empty if the history was not searched. A change that both searches
    /// found, at most [`LOCATION_TOLERANCE`] runs apart, is listed once.
    pub(crate) fn all_changes(&self) -> Vec<Change> {
        let mut all = self.changes.clone().unwrap_or_default();
        if let Some(news) =
            self.newest_change.filter(|news| !all.iter().any(|change| change.index.abs_diff(news.index) <= LOCATION_TOLERANCE))
        {
            all.push(news);
            all.sort_by_key(|change| change.index);
        }
        all
    }

    /// Returns the level of each stretch between changes.
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

impl Subject {
    fn cleaned(&self) -> Self {
        match self {
            Self::Point { pipeline, case, point } => {
                Self::Point { pipeline: clean(pipeline), case: clean(case), point: clean(point) }
            }
            Self::Foreign { tool, statistic, labels } => Self::Foreign {
                tool: clean(tool),
                statistic: clean(statistic),
                labels: labels.iter().map(|(name, value)| (clean(name), clean(value))).collect(),
            },
        }
    }
}

impl Run {
    fn cleaned(&self) -> Self {
        Self { id: clean(&self.id), commit: self.commit.as_deref().map(clean), ..self.clone() }
    }

    /// Returns true if its environment, its pipeline's file or the version of its tool differs from that of the run before.
    pub(crate) fn environment_changed(&self) -> bool {
        self.hardware_changed || self.software_changed || self.pipeline_changed || self.tool_changed
    }
}

/// Returns the median; `None` if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let lower = if values.len().is_multiple_of(2) { *values.get(middle - 1)? } else { upper };
    Some(f64::midpoint(lower, upper))
}
