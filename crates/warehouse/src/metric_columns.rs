//! The columns of serving metrics, from the table of `assay-metric`.

use assay_metric::{Metric, MetricName, Section, SloMetric};

use crate::schema::Column;

/// A choice of metric names.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    /// The section of the metrics.
    pub(crate) section: Section,
    /// True for the statistics that count failed requests as the slowest; false for the others.
    pub(crate) with_failures: bool,
}

impl Choice {
    const fn has(self, name: &MetricName) -> bool {
        name.definition().section as u8 == self.section as u8 && name.statistic.counts_failures() == self.with_failures
    }
}

/// Calls `$visit` with each metric name, in the order of reports, in a const function, which knows no iterators.
macro_rules! for_each_name {
    ($name:ident => $visit:block) => {
        let mut metric = 0;
        while metric < Metric::ALL.len() {
            let names = Metric::ALL[metric].definition().names;
            let mut place = 0;
            while place < names.len() {
                let $name = &names[place];
                $visit
                place += 1;
            }
            metric += 1;
        }
    };
}

/// Returns the number of columns of a choice.
pub(crate) const fn count(choice: Choice) -> usize {
    let mut count = 0;
    for_each_name!(name => {
        if choice.has(name) {
            count += 1;
        }
    });
    count
}

/// Returns the columns of a choice, in the order of reports; `N` is their [`count`].
pub(crate) const fn columns<const N: usize>(choice: Choice) -> [Column; N] {
    let mut columns = [Column::float("", ""); N];
    let mut at = 0;
    for_each_name!(name => {
        if choice.has(name) {
            columns[at] = in_unit_of(name.metric, name.column, name.doc);
            at += 1;
        }
    });
    columns
}

const fn with_unit(column: Column, metric: Metric) -> Column {
    match metric.definition().unit.column_unit() {
        Some(unit) => column.unit(unit),
        None => column,
    }
}

/// The columns of the limits of SLOs.
pub(crate) const SLO_LIMITS: &[Column] = &slo_columns();

const fn slo_columns() -> [Column; SloMetric::ALL.len()] {
    let mut columns = [Column::float("", ""); SloMetric::ALL.len()];
    let mut at = 0;
    while at < columns.len() {
        let slo = SloMetric::ALL[at];
        columns[at] = in_unit_of(slo.metric(), slo.column(), slo.column_doc());
        at += 1;
    }
    columns
}

/// Returns a column in the unit of a metric's column.
const fn in_unit_of(metric: Metric, name: &'static str, doc: &'static str) -> Column {
    let unit = metric.definition().unit;
    let column = if unit.has_whole_column() { Column::int(name, doc) } else { Column::float(name, doc) };
    with_unit(column, metric)
}

/// The columns of the variation of primary metrics across trials.
pub(crate) const SPREADS: &[Column] = &spread_columns();

const SPREAD_COUNT: usize = {
    let mut count = 0;
    for_each_name!(name => {
        if name.has_spread {
            count += 3;
        }
    });
    count
};

const fn spread_columns() -> [Column; SPREAD_COUNT] {
    let mut columns = [Column::float("", ""); SPREAD_COUNT];
    let mut at = 0;
    for_each_name!(name => {
        if name.has_spread {
            let [[cv_pct, cv_doc], [low, low_doc], [high, high_doc]] = [name.spread.cv_pct, name.spread.ci_low, name.spread.ci_high];
            columns[at] = Column::float(cv_pct, cv_doc).unit("%");
            columns[at + 1] = with_unit(Column::float(low, low_doc), name.metric);
            columns[at + 2] = with_unit(Column::float(high, high_doc), name.metric);
            at += 3;
        }
    });
    columns
}

/// The columns of a section: those that do not count failures as the slowest or, `with failures`, those that do.
macro_rules! metric_columns {
    ($section:expr) => {
        metric_columns!(@ $section, false)
    };
    ($section:expr, with failures) => {
        metric_columns!(@ $section, true)
    };
    (@ $section:expr, $with_failures:literal) => {{
        const CHOICE: $crate::metric_columns::Choice =
            $crate::metric_columns::Choice { section: $section, with_failures: $with_failures };
        const COLUMNS: [$crate::schema::Column; $crate::metric_columns::count(CHOICE)] = $crate::metric_columns::columns(CHOICE);
        &COLUMNS
    }};
}
pub(crate) use metric_columns;
