//! The names under which metrics are reported: one for each statistic.

use crate::{Definition, Metric, Requirement, Section, Statistic};

/// A name under which values are reported: a metric with a statistic of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricName {
    /// The metric.
    pub metric: Metric,
    /// The statistic.
    pub statistic: Statistic,
    /// The name, such as `ttft_ms_p99`.
    pub text: &'static str,
    /// The column of the wide table, such as `ttft_ns_p99`.
    pub column: &'static str,
    /// The meaning of the column, a sentence.
    pub doc: &'static str,
    /// True if gates judge it by default.
    pub is_primary: bool,
    /// True if the wide table states its variation across trials, in the columns of `spread`.
    pub has_spread: bool,
    /// The columns of its variation across trials.
    pub spread: SpreadColumns,
    /// The rank of its column in reports: narrow screens drop the lowest first, and terminals never show 0. `None` if it has no
    /// column there.
    pub rank: Option<u8>,
    /// The key of the metric whose column takes the place of this one in reports, for the same statistic.
    pub fallback_for: Option<&'static str>,
}

/// The columns of a metric's variation across trials: the name and the meaning of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadColumns {
    /// The coefficient of variation, in percent.
    pub cv_pct: [&'static str; 2],
    /// The lower end of the interval, in the unit of the metric's column.
    pub ci_low: [&'static str; 2],
    /// The upper end of the interval, in the unit of the metric's column.
    pub ci_high: [&'static str; 2],
}

/// A value in the form of its column of the wide table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnValue {
    /// A whole number, rounded.
    Int(i64),
    /// A double.
    Float(f64),
}

impl MetricName {
    pub(crate) const fn new(
        metric: Metric,
        statistic: Statistic,
        text: &'static str,
        column: &'static str,
        doc: &'static str,
        spread: SpreadColumns,
    ) -> Self {
        Self {
            metric,
            statistic,
            text,
            column,
            doc,
            is_primary: false,
            has_spread: false,
            spread,
            rank: None,
            fallback_for: None,
        }
    }

    /// Marks the name as primary.
    pub(crate) const fn primary(mut self) -> Self {
        self.is_primary = true;
        self
    }

    /// Gives the name columns of its variation across trials.
    pub(crate) const fn spread(mut self) -> Self {
        self.has_spread = true;
        self
    }

    /// Gives the column a meaning of its own: its unit is not that of the metric's name.
    pub(crate) const fn column_doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Gives the name a column in reports.
    pub(crate) const fn shown(mut self, rank: u8) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Gives the name a column in reports only if the metric of this key has none.
    pub(crate) const fn fallback_for(mut self, key: &'static str) -> Self {
        self.fallback_for = Some(key);
        self
    }

    /// Returns all names, in the order in which they are reported.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        Metric::ALL.iter().flat_map(|metric| metric.definition().names)
    }

    /// Returns the name that is written as `text`; `None` if no metric has it.
    pub fn find(text: &str) -> Option<&'static Self> {
        Self::all().find(|name| name.text == text)
    }

    /// Returns the name whose values a column of the wide table holds.
    pub fn find_column(column: &str) -> Option<&'static Self> {
        Self::all().find(|name| name.column == column)
    }

    /// Returns the names that gates judge if the workload declares none.
    pub fn default_primary(has_slos: bool) -> impl Iterator<Item = &'static Self> {
        Self::all().filter(move |name| name.is_primary && (has_slos || !name.metric.requires(Requirement::Slos)))
    }

    /// Returns the primary names of a section with this statistic, the highest rank first. Reports lead with the first of them that
    /// was measured: the tail of latency, its median, and the throughput.
    pub fn leading(section: Section, statistic: Statistic) -> Vec<&'static Self> {
        let is_leading = |name: &&Self| name.is_primary && name.statistic == statistic && name.definition().section == section;
        let mut names: Vec<_> = Self::all().filter(is_leading).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.rank));
        names
    }

    /// Returns the names that gates may judge: those with a better direction. Which of them a point reports depends on its
    /// requests and SLOs.
    pub fn judged() -> impl Iterator<Item = &'static Self> {
        Self::all().filter(|name| name.definition().better.is_some())
    }

    /// Returns the name whose column in reports takes the place of this one's; `None` if none does.
    pub fn fallback(&self) -> Option<&'static Self> {
        Metric::find(self.fallback_for?)?.name(self.statistic)
    }

    /// Returns the definition of the metric.
    pub const fn definition(&self) -> &'static Definition {
        self.metric.definition()
    }

    /// Returns the title for people, such as `TTFT p99`.
    pub fn title(&self) -> String {
        let (title, statistic) = (self.definition().title, self.statistic.title());
        if statistic.is_empty() { title.to_owned() } else { format!("{title} {statistic}") }
    }

    /// Converts a value to the form of the column of the wide table.
    pub fn to_column(&self, value: f64) -> ColumnValue {
        let unit = self.definition().unit;
        let value = unit.to_column_unit(value);
        if unit.has_whole_column() { ColumnValue::Int(value.round() as i64) } else { ColumnValue::Float(value) }
    }
}
