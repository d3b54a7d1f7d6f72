//! The value of a signal's quantity in one attempt.

use std::collections::{BTreeMap, BTreeSet};

use crate::evidence::{ClusterEvent, Reading, Window};
use crate::rule::{By, COUNT, Combine, EventSelector, Formula, Signal, SourceClass, Statistic};

/// The fewest samples of a metric in an attempt: one reading says nothing of the time before and after it.
const MIN_SAMPLES: u64 = 2;

/// The largest share of an attempt without samples.
const MAX_GAP: f64 = 0.5;

/// The beginning of the source of samples that a Prometheus had.
const PROMETHEUS: &str = "prometheus/";

/// The reason why an attempt has no value of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Absent {
    /// No reading of such a source lies in the attempt.
    NoReading,
    /// The sources were read, and none has the metric.
    NoMetric,
    /// Fewer objects have the metric than one of them could stand out among.
    TooFewObjects,
    /// The readings are too far apart for the attempt.
    TooCoarse,
    /// The divisor is zero: nothing was counted.
    NothingCounted,
    /// A part is larger than the whole that it is subtracted from.
    BelowZero,
}

/// The way in which readings came: a Prometheus may have scraped what the recorder read, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The recorder read the source.
    Recorder,
    /// The readings are samples of a Prometheus.
    Prometheus,
}

impl Origin {
    /// The origins, in the order in which they are taken: what was read twice would be added up, and a quotient of both would be of two times.
    const ALL: [Self; 2] = [Self::Recorder, Self::Prometheus];

    fn of(reading: &Reading) -> Self {
        if is_of_prometheus(reading) { Self::Prometheus } else { Self::Recorder }
    }
}

/// Returns true for samples of a Prometheus.
pub(crate) fn is_of_prometheus(reading: &Reading) -> bool {
    reading.source.starts_with(PROMETHEUS)
}

/// Returns the value of a signal's quantity in an attempt, in the signal's unit.
pub(crate) fn value(signal: &Signal, window: &Window) -> Result<f64, Absent> {
    let mut absent = Absent::NoReading;
    for formula in &signal.is {
        match of_formula(signal, formula, window) {
            Ok(value) => return Ok(value),
            Err(why) => absent = absent.max(why),
        }
    }
    Err(absent)
}

/// Returns the values of a signal's quantity in an attempt, by the object that its labels tell apart.
pub(crate) fn values_among(signal: &Signal, labels: &[String], window: &Window) -> Result<BTreeMap<String, f64>, Absent> {
    let mut absent = no_metric(signal, window);
    for (formula, origin) in signal.is.iter().flat_map(|formula| Origin::ALL.map(|origin| (formula, origin))) {
        let object = |reading: &Reading| {
            let values = labels.iter().map(|label| reading.series.label(label)).filter(|value| !value.is_empty());
            values.collect::<Vec<_>>().join(" ")
        };
        let named =
            window.readings.iter().filter(|reading| reading.series.name == formula.metric && Origin::of(reading) == origin);
        let found: BTreeMap<String, Result<f64, Absent>> = named
            .map(object)
            .map(|name| (name.clone(), of_origin(signal, formula, window, origin, &|other| object(other) == name)))
            .collect();
        let values: BTreeMap<String, f64> = found.iter().filter_map(|(name, value)| Some((name.clone(), value.ok()?))).collect();
        if !values.is_empty() {
            return Ok(values);
        }
        absent = found.values().filter_map(|value| value.err()).fold(absent, Absent::max);
    }
    Err(absent)
}

/// Returns the value of a formula, by the readings of the recorder if they have its metrics, else by those of a Prometheus.
fn of_formula(signal: &Signal, formula: &Formula, window: &Window) -> Result<f64, Absent> {
    if signal.of == SourceClass::Outcome {
        return window.outcomes.get(&formula.metric).map(|found| found.value * signal.times).ok_or(Absent::NoMetric);
    }
    if let Some(selector) = &formula.event {
        return of_object(formula, selector, window).map(|value| value * signal.times);
    }
    let mut absent = Absent::NoReading;
    for origin in Origin::ALL {
        match of_origin(signal, formula, window, origin, &|_| true) {
            Err(why @ (Absent::NoReading | Absent::NoMetric)) => absent = absent.max(why),
            found => return found,
        }
    }
    Err(absent)
}

/// Returns the quantity of an object of a cluster. What was not recorded is absent, and 0 only beside a fact that shows that it would have been.
fn of_object(formula: &Formula, selector: &EventSelector, window: &Window) -> Result<f64, Absent> {
    if !window.events.iter().any(|event| selector.is_about(event)) {
        return Err(Absent::NoReading);
    }
    let quantity = |event: &ClusterEvent| if formula.metric == COUNT { event.count } else { event.after_creation_ns };
    let found = window.events.iter().filter(|event| selector.matches(event)).filter_map(quantity);
    // An event has a row for each type, and a condition for each reason, of which the last transition is its time.
    let value = if formula.metric == COUNT { found.reduce(u64::saturating_add) } else { found.max() };
    let is_zero = || formula.zero_beside.as_ref().is_some_and(|beside| window.events.iter().any(|event| beside.matches(event)));
    match value {
        Some(value) => Ok(value as f64),
        None if is_zero() => Ok(0.0),
        None => Err(Absent::NoMetric),
    }
}

/// Returns the facts of an object that a signal reads.
pub(crate) fn facts<'a>(signal: &'a Signal, window: &'a Window) -> impl Iterator<Item = &'a ClusterEvent> {
    let selectors = || signal.is.iter().filter_map(|formula| formula.event.as_ref());
    window.events.iter().filter(move |event| selectors().any(|selector| selector.matches(event)))
}

fn of_origin(
    signal: &Signal,
    formula: &Formula,
    window: &Window,
    origin: Origin,
    is_of: &dyn Fn(&Reading) -> bool,
) -> Result<f64, Absent> {
    let is_used = |reading: &Reading| {
        let has_labels = formula.labels.iter().all(|(label, value)| reading.series.label(label) == value);
        Origin::of(reading) == origin && has_labels && is_of(reading)
    };
    let combine = |name: &str, is_part: &dyn Fn(&Reading) -> bool| {
        combined(signal, formula.statistic, name, window, &|reading| is_used(reading) && is_part(reading))
    };
    let value = match (&formula.over, &formula.by) {
        (None, _) => combine(&formula.metric, &|_| true)?,
        (Some(over), None) => quotient(&formula.metric, over, &|name| combine(name, &|_| true))?,
        (Some(over), Some(by)) => {
            let (label, join): (_, fn(f64, f64) -> f64) = match by {
                By::Sum(label) => (label, |sum, part| sum + part),
                By::Max(label) => (label, f64::max),
            };
            let named = window.readings.iter().filter(|reading| reading.series.name == formula.metric && is_used(reading));
            let parts: BTreeSet<&str> = named.map(|reading| reading.series.label(label)).collect();
            let of_part = |part: &str| {
                let of_metric = |name: &str| combine(name, &|reading| reading.series.label(label) == part);
                quotient(&formula.metric, over, &of_metric)
            };
            join_counted(parts.into_iter().map(of_part), join).unwrap_or_else(|| Err(no_metric(signal, window)))?
        }
    };
    let value = value * formula.times.unwrap_or(signal.times);
    let outcome = |name: &String| window.outcomes.get(name).map(|found| found.value).ok_or(Absent::NoMetric);
    let value = match formula.over_outcome.as_ref().map(outcome).transpose()? {
        Some(divisor) if divisor <= 0.0 => return Err(Absent::NothingCounted),
        Some(divisor) => value / divisor,
        None => value,
    };
    Ok(formula.less_from.as_ref().map(outcome).transpose()?.map_or(value, |whole| whole - value))
}

/// Returns the quotient of two metrics.
fn quotient(metric: &str, over: &str, of: &dyn Fn(&str) -> Result<f64, Absent>) -> Result<f64, Absent> {
    let (value, count) = (of(metric)?, of(over)?);
    if count <= 0.0 { Err(Absent::NothingCounted) } else { Ok(value / count) }
}

/// Puts the parts together of which anything was counted; `None` if there are no parts.
fn join_counted(parts: impl Iterator<Item = Result<f64, Absent>>, join: fn(f64, f64) -> f64) -> Option<Result<f64, Absent>> {
    parts.reduce(|joined, part| match (joined, part) {
        (Ok(joined), Ok(part)) => Ok(join(joined, part)),
        (Err(Absent::NothingCounted), counted) | (counted, Err(Absent::NothingCounted)) => counted,
        (Err(why), _) | (_, Err(why)) => Err(why),
    })
}

/// Returns the reason why a metric of telemetry is absent.
fn no_metric(signal: &Signal, window: &Window) -> Absent {
    let is_read = window.readings.iter().any(|reading| signal.of.matches(reading));
    if is_read { Absent::NoMetric } else { Absent::NoReading }
}

/// Puts the series of one name together.
fn combined(
    signal: &Signal,
    statistic: Statistic,
    name: &str,
    window: &Window,
    is_used: &dyn Fn(&Reading) -> bool,
) -> Result<f64, Absent> {
    let named = window.readings.iter().filter(|reading| reading.series.name == name && signal.of.matches(reading));
    let all: Vec<&Reading> = named.filter(|reading| is_used(reading)).collect();
    if all.is_empty() {
        return Err(no_metric(signal, window));
    }
    if all.iter().any(|reading| reading.samples < MIN_SAMPLES || reading.gap > MAX_GAP) {
        return Err(Absent::TooCoarse);
    }
    let values = all.iter().map(|reading| match statistic {
        Statistic::Mean => reading.mean,
        Statistic::Max => reading.max,
    });
    Ok(match signal.combine {
        Combine::Sum => values.sum(),
        Combine::Mean => values.sum::<f64>() / all.len() as f64,
        Combine::Median => median(values.collect()),
        Combine::Max => values.fold(f64::MIN, f64::max),
    })
}

/// Returns the median, of an even number of values the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(below), Some(above)) if values.len().is_multiple_of(2) => f64::midpoint(*below, *above),
        (_, Some(middle)) => *middle,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Series;
    use crate::parse_rules;

    fn signal(combine: &str) -> Signal {
        let text = format!(
            "rule: a\ntitle: b\nclass: compute\nplaybook: low_gpu_utilization\nslower: [any]\nsignals: [{{name: clock, of: exporter, combine: \
             {combine}, is: [{{metric: clock}}], unit: MHz, moved: down, ratio: 1.1, reason: r}}]\ninstead: c\nconfirm: d\nneeds: e\n"
        );
        parse_rules("r.yaml", &text).expect("a rule").remove(0).signals.remove(0)
    }

    fn window(readings: &[(&str, &str, f64)]) -> Window {
        let reading = |(source, metric, mean): &(&str, &str, f64)| Reading {
            source: (*source).to_owned(),
            scope_kind: "gpu".to_owned(),
            scope: "GPU-0".to_owned(),
            series: Series::parse(metric),
            samples: 3,
            gap: 0.0,
            mean: *mean,
            max: *mean,
        };
        Window { readings: readings.iter().map(reading).collect(), ..Window::default() }
    }

    #[test]
    fn samples_of_a_prometheus_are_those_of_exporters() {
        let fleet = [("prometheus/fleet", "clock{gpu=\"0\"}", 1900.0), ("prometheus/fleet", "clock{gpu=\"1\"}", 1700.0)];
        assert_eq!(value(&signal("mean"), &window(&fleet)), Ok(1800.0));
        let among = values_among(&signal("mean"), &["gpu".to_owned()], &window(&fleet)).expect("two GPUs");
        assert_eq!(among, BTreeMap::from([("0".to_owned(), 1900.0), ("1".to_owned(), 1700.0)]));
    }

    #[test]
    fn what_an_exporter_and_a_prometheus_both_have_is_taken_once() {
        let both = [("prometheus/fleet", "clock{gpu=\"0\"}", 1900.0), ("exporter/gpu", "clock", 1000.0)];
        assert_eq!(value(&signal("sum"), &window(&both)), Ok(1000.0));
        assert_eq!(value(&signal("sum"), &window(&[])), Err(Absent::NoReading));
    }

    /// A quotient of a reading of the recorder and one of a Prometheus would be of two times.
    #[test]
    fn both_parts_of_a_quotient_are_of_one_origin() {
        let mut quotient = signal("sum");
        quotient.is[0].over = Some("count".to_owned());
        let fleet = [("prometheus/fleet", "clock", 8.0), ("prometheus/fleet", "count", 2.0)];
        let mut all = vec![("exporter/gpu", "clock", 100.0)];
        assert_eq!(value(&quotient, &window(&all)), Err(Absent::NoMetric));
        all.extend(fleet);
        assert_eq!(value(&quotient, &window(&all)), Ok(4.0));
        all.push(("exporter/gpu", "count", 10.0));
        assert_eq!(value(&quotient, &window(&all)), Ok(10.0));
    }

    #[test]
    fn quotients_by_the_values_of_a_label_are_put_together() {
        let mut by_model = signal("sum");
        (by_model.is[0].over, by_model.is[0].by) = (Some("count".to_owned()), Some(By::Sum("model".to_owned())));
        let source = "prometheus/fleet";
        let mut all = vec![
            // Two versions and two servers of one model.
            (source, "clock{model=\"a\",version=\"1\"}", 6.0),
            (source, "clock{model=\"a\",version=\"2\"}", 2.0),
            (source, "count{model=\"a\",version=\"1\"}", 1.0),
            (source, "count{model=\"a\",version=\"2\"}", 3.0),
            (source, "clock{model=\"b\"}", 5.0),
            (source, "count{model=\"b\"}", 10.0),
            (source, "clock{model=\"idle\"}", 0.0),
            (source, "count{model=\"idle\"}", 0.0),
        ];
        assert_eq!(value(&by_model, &window(&all)), Ok(8.0 / 4.0 + 0.5));
        let largest =
            Signal { is: vec![Formula { by: Some(By::Max("model".to_owned())), ..by_model.is[0].clone() }], ..by_model.clone() };
        assert_eq!(value(&largest, &window(&all)), Ok(8.0 / 4.0));
        assert_eq!(value(&by_model, &window(&all[6..])), Err(Absent::NothingCounted));
        assert_eq!(
            value(&by_model, &window(&[(source, "clock", 6.0), (source, "count", 3.0)])),
            Ok(2.0),
            "a server of one model"
        );
        assert_eq!(value(&by_model, &window(&[(source, "other", 6.0)])), Err(Absent::NoMetric));
        all.push((source, "clock{model=\"c\"}", 1.0));
        assert_eq!(value(&by_model, &window(&all)), Err(Absent::NoMetric), "a model whose requests are not counted");
    }

    #[test]
    fn a_formula_has_a_factor_of_its_own_to_the_signals_unit() {
        let mut of_two_units = signal("sum");
        of_two_units.times = 1000.0;
        of_two_units.is[0].times = Some(0.001);
        assert_eq!(value(&of_two_units, &window(&[("exporter/gpu", "clock", 2000.0)])), Ok(2.0));
    }

    #[test]
    fn objects_among_which_one_is_looked_for_are_of_one_origin() {
        let both = [("prometheus/fleet", "clock{gpu=\"0\"}", 1900.0), ("exporter/gpu", "clock{gpu=\"1\"}", 1000.0)];
        let among = values_among(&signal("mean"), &["gpu".to_owned()], &window(&both)).expect("one GPU");
        assert_eq!(among, BTreeMap::from([("1".to_owned(), 1000.0)]));
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        let of = |values: &[f64]| median(values.to_vec());
        assert!((of(&[3.0, 1.0, 2.0]), of(&[4.0, 1.0, 3.0, 2.0]), of(&[5.0]), of(&[])) == (2.0, 2.5, 5.0, 0.0));
    }
}
