//! The value of a signal's quantity in one attempt.

use std::collections::BTreeMap;

use crate::evidence::{Reading, Window};
use crate::rule::{Combine, Formula, Signal, SourceClass, Statistic};

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
    /// The readings are too far apart for the attempt.
    TooCoarse,
    /// The divisor is zero: nothing was counted.
    NothingCounted,
}

/// Returns the value of a signal's quantity in an attempt, in the signal's unit.
pub(crate) fn value(signal: &Signal, window: &Window) -> Result<f64, Absent> {
    let mut absent = Absent::NoReading;
    for formula in &signal.is {
        match of_formula(signal, formula, window, &|_| true) {
            Ok(value) => return Ok(value),
            Err(why) => absent = absent.max(why),
        }
    }
    Err(absent)
}

/// Returns the values of a signal's quantity in an attempt, by the object that its labels tell apart.
pub(crate) fn values_among(signal: &Signal, labels: &[String], window: &Window) -> Result<BTreeMap<String, f64>, Absent> {
    let mut absent = no_metric(signal, window);
    for formula in &signal.is {
        let object = |reading: &Reading| {
            let values = labels.iter().map(|label| reading.series.label(label)).filter(|value| !value.is_empty());
            values.collect::<Vec<_>>().join(" ")
        };
        let objects = window.readings.iter().filter(|reading| reading.series.name == formula.metric).map(object);
        let found: BTreeMap<String, Result<f64, Absent>> =
            objects.map(|name| (name.clone(), of_formula(signal, formula, window, &|other| object(other) == name))).collect();
        let values: BTreeMap<String, f64> = found.iter().filter_map(|(name, value)| Some((name.clone(), value.ok()?))).collect();
        if !values.is_empty() {
            return Ok(values);
        }
        absent = found.values().filter_map(|value| value.err()).fold(absent, Absent::max);
    }
    Err(absent)
}

fn of_formula(signal: &Signal, formula: &Formula, window: &Window, is_of: &dyn Fn(&Reading) -> bool) -> Result<f64, Absent> {
    if signal.of == SourceClass::Outcome {
        return window.outcomes.get(&formula.metric).map(|found| found.value * signal.times).ok_or(Absent::NoMetric);
    }
    let has_labels =
        |reading: &Reading| is_of(reading) && formula.labels.iter().all(|(label, value)| reading.series.label(label) == value);
    let metric = |name: &str| combined(signal, formula.statistic, name, window, &has_labels);
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
        Some(outcome) => window.outcomes.get(outcome).map(|found| found.value - value).ok_or(Absent::NoMetric),
    }
}

/// Returns the reason why a metric of telemetry is absent.
fn no_metric(signal: &Signal, window: &Window) -> Absent {
    let is_read = window.readings.iter().any(|reading| signal.of.matches(&reading.source));
    if is_read { Absent::NoMetric } else { Absent::NoReading }
}

/// Puts the series of one name together.
fn combined(
    signal: &Signal,
    statistic: Statistic,
    name: &str,
    window: &Window,
    is_of: &dyn Fn(&Reading) -> bool,
) -> Result<f64, Absent> {
    let named = window.readings.iter().filter(|reading| reading.series.name == name && signal.of.matches(&reading.source));
    let mut all: Vec<&Reading> = named.filter(|reading| is_of(reading)).collect();
    // A Prometheus may scrape an exporter that the recorder read, too: what was read twice would be added up.
    let is_direct = |reading: &&Reading| !reading.source.starts_with(PROMETHEUS);
    if all.iter().any(is_direct) {
        all.retain(is_direct);
    }
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

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        let of = |values: &[f64]| median(values.to_vec());
        assert!((of(&[3.0, 1.0, 2.0]), of(&[4.0, 1.0, 3.0, 2.0]), of(&[5.0]), of(&[])) == (2.0, 2.5, 5.0, 0.0));
    }
}
