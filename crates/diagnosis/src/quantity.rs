//! The value of a signal's quantity in one attempt.

use std::collections::BTreeMap;

use crate::evidence::{ClusterEvent, Reading, Window};
use crate::rule::{COUNT, Combine, EventSelector, Formula, Signal, SourceClass, Statistic};

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
    let metric = |name: &str| combined(signal, formula.statistic, name, window, &is_used);
    let value = match &formula.over {
        None => metric(&formula.metric)?,
        Some(over) => {
            let (value, count) = (metric(&formula.metric)?, metric(over)?);
            if count <= 0.0 {
                return Err(Absent::NothingCounted);
            }
            value / count
        }
    };
    let value = value * signal.times;
    match &formula.less_from {
        None => Ok(value),
        Some(outcome) => {
            let left = window.outcomes.get(outcome).map(|found| found.value - value).ok_or(Absent::NoMetric)?;
            if left < 0.0 { Err(Absent::BelowZero) } else { Ok(left) }
        }
    }
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
