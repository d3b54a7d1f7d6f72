//! The readings of one source over the window of one attempt.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use assay_manifest::{Gap, Instant, PlannedTrial, Reason};
use assay_stats::{MAX_MAGNITUDE, Samples};
use serde::{Deserialize, Serialize};

use crate::energy::{EnergyMeter, HOST_PACKAGES, MeteredEnergy, MeteredObject, energy, meter};
use crate::gpus::{LabelledGpu, describes_gpu};
use crate::keys::ObjectKeys;
use crate::metric::{MetricKey, MetricKind, MetricSample, Observed};
use crate::recording::MAX_RECORDINGS;
use crate::source::Source;

/// The maximum number of metrics of one source in one window. A host has about fifty, a serving program a few hundred.
pub const MAX_METRICS: usize = 1000;

/// The longest name of a metric with its labels, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// The maximum number of values of one source in one window, 128 MiB: at a reading a second, two hundred metrics for 23 hours.
pub(crate) const MAX_VALUES: usize = 1 << 24;

/// One attempt over all its shards, with the gaps in the readings of one source.
pub struct AttemptWindow<'a> {
    /// The trial.
    pub trial: &'a PlannedTrial,
    /// The number of the attempt.
    pub attempt: u32,
    /// True if it is the attempt that counts for its trial.
    pub counts: bool,
    /// The start of the first shard.
    pub start: Instant,
    /// The end of the last shard.
    pub end: Instant,
    /// The gaps of all shards.
    pub gaps: Vec<&'a Gap>,
}

/// The values of each metric of one source in one window.
pub struct Slice<'a> {
    /// The attempt.
    pub window: AttemptWindow<'a>,
    metrics: BTreeMap<MetricKey, Series>,
    values: usize,
    max_values: usize,
    /// The time from which no more values are taken.
    full_from: Option<Instant>,
    /// The largest number of metrics beyond the limits in any one reading.
    metrics_left_out: u64,
    readings_left_out: u64,
    /// The quantities that an object stated without a value.
    without_value: BTreeSet<&'static str>,
}

/// One metric, reading by reading.
struct Series {
    kind: MetricKind,
    /// The number of samples in the window.
    n: u64,
    last: Option<LastSample>,
    /// A gauge's samples; a counter's increases per second from each sample to the next.
    values: Vec<f64>,
    /// A counter's increase over the window, from its first sample to its last.
    increase: f64,
    /// The meter of energy that it is, with its samples.
    meter: Option<(&'static EnergyMeter, Vec<(Instant, f64)>)>,
}

/// The previous sample of a metric.
#[derive(Clone, Copy)]
struct LastSample {
    at: Instant,
    value: f64,
    /// The number of series that the value was computed from.
    series: usize,
}

/// The statistics of one metric over a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The observed object; `None` if it is the one that the source observes.
    pub object: Option<String>,
    /// The metric, with its labels if the window has several series of its name.
    pub metric: String,
    /// The kind of its values.
    pub kind: MetricKind,
    /// The unit of its values.
    pub unit: String,
    /// The number of samples in the window.
    pub n: u64,
    /// The keys of its object, if its labels name it; `None` if they do not, and nothing is known but the place of the recorder.
    pub keys: Option<ObjectKeys>,
    /// The values; `None` if a counter was read once: one sample has no increase.
    pub values: Option<ValueStatistics>,
}

/// The statistics of the values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueStatistics {
    /// The smallest value.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The largest value.
    pub max: f64,
    /// The 95th percentile.
    pub p95: f64,
}

impl ValueStatistics {
    /// Returns the statistics of values; `None` if there are none, or if one is beyond the range that statistics accept.
    pub fn of(values: &[f64]) -> Option<Self> {
        let values = Samples::new(values).ok()?;
        Some(Self { min: values.min(), mean: values.mean(), max: values.max(), p95: values.quantile(0.95) })
    }
}

impl<'a> Slice<'a> {
    pub(crate) fn new(window: AttemptWindow<'a>) -> Self {
        Self::with_room(window, MAX_VALUES)
    }

    pub(crate) fn with_room(window: AttemptWindow<'a>, max_values: usize) -> Self {
        let metrics = BTreeMap::new();
        Self {
            window,
            metrics,
            values: 0,
            max_values,
            full_from: None,
            metrics_left_out: 0,
            readings_left_out: 0,
            without_value: BTreeSet::new(),
        }
    }

    /// Adds the values of one reading. Readings come in the order of time.
    pub(crate) fn add(&mut self, at: Instant, observed: &Observed) {
        let Observed { samples, left_out, without_value } = observed;
        self.without_value.extend(without_value);
        // No more than the metrics of a window are kept of a reading, however many series it has.
        let kept = samples.len().min(MAX_METRICS);
        if self.full_from.is_some() || self.values + kept > self.max_values {
            self.full_from.get_or_insert(at);
            self.readings_left_out += 1;
            return;
        }
        self.values += kept;
        let mut beyond = *left_out;
        for sample in samples {
            let MetricSample { key, kind, .. } = sample;
            let is_beyond = self.metrics.len() >= MAX_METRICS || key.name.len() + key.labels.len() > MAX_NAME_BYTES;
            match self.metrics.entry(key.clone()) {
                Entry::Occupied(mut series) => series.get_mut().add(at, sample),
                Entry::Vacant(_) if is_beyond => beyond += 1,
                Entry::Vacant(place) => place.insert(Series::new(&key.name, *kind)).add(at, sample),
            }
        }
        self.metrics_left_out = self.metrics_left_out.max(beyond);
    }

    /// Returns the statistics of every metric, by name and labels. The labels are part of a metric's name if the window has
    /// several series of that name.
    pub fn statistics(&self, source: &Source) -> impl Iterator<Item = Statistics> {
        let mut of_name: BTreeMap<&str, usize> = BTreeMap::new();
        for key in self.metrics.keys() {
            *of_name.entry(&key.name).or_default() += 1;
        }
        let seen = self.metrics.iter().filter(|(_, series)| series.n > 0);
        seen.map(move |(key, series)| Statistics {
            object: key.object.clone(),
            metric: match of_name.get(key.name.as_str()) {
                Some(1) => key.name.clone(),
                _ => format!("{}{}", key.name, key.labels),
            },
            kind: series.kind,
            unit: source.definition().unit(&key.name, series.kind),
            n: series.n,
            keys: source.definition().keys(&key.name, &key.labels),
            // Rates beyond the range that statistics accept are no measurement.
            values: ValueStatistics::of(&series.values),
        })
    }

    /// Returns the GPUs that the labels of its metrics describe.
    pub fn gpus(&self, source: &Source) -> impl Iterator<Item = LabelledGpu> {
        let described = self.metrics.iter().filter(|(key, series)| series.n > 0 && describes_gpu(&key.name));
        described.filter_map(move |(key, _)| source.definition().gpu(&key.name, &key.labels))
    }

    /// Returns the increase of a counter over the window, the sum over all its labels; `None` if it was not read twice.
    pub(crate) fn increase(&self, name: &str) -> Option<f64> {
        let of_name = self.metrics.iter().filter(|(key, series)| key.name == name && !series.values.is_empty());
        of_name.map(|(_, series)| series.increase).reduce(|sum, increase| sum + increase)
    }

    /// Returns the energy of each meter among its metrics.
    pub fn energy(&self, source: &Source) -> Vec<MeteredEnergy> {
        let mut meters: BTreeMap<&str, (&EnergyMeter, Vec<MeteredObject>)> = BTreeMap::new();
        for (key, series) in &self.metrics {
            let Some((meter, readings)) = &series.meter else { continue };
            let of_labels = || source.definition().keys(&key.name, &key.labels).and_then(|keys| keys.gpu_uuid);
            let uuid = key.object.clone().or_else(of_labels);
            let object = MeteredObject { object: uuid.unwrap_or_else(|| key.labels.clone()), readings: readings.clone() };
            meters.entry(&key.name).or_insert_with(|| (meter, Vec::new())).1.push(object);
        }
        let window = (self.window.start, self.window.end);
        let of_meter =
            |(meter, objects)| MeteredEnergy { added_up: self.host_packages(source), ..energy(meter, window, objects) };
        meters.into_values().map(of_meter).collect()
    }

    /// Returns the number of packages whose energy the host's counter adds up.
    fn host_packages(&self, source: &Source) -> Option<u64> {
        let mut named = self.metrics.iter().filter(|(key, _)| *source == Source::host() && key.name == HOST_PACKAGES);
        named.next()?.1.values.last().map(|packages| *packages as u64)
    }

    /// Returns the time of the window without samples: the gaps of all shards, overlaps counted once, and the time after the
    /// limit of values was reached.
    pub fn gap_ns(&self) -> u64 {
        let window = (self.window.start, self.window.end);
        let full = self.full_from.map(|from| (from, window.1));
        let gaps = self.window.gaps.iter().map(|gap| (gap.window.start, gap.window.end)).chain(full);
        let mut gaps: Vec<_> = gaps.map(|(start, end)| (start.max(window.0), end.min(window.1))).collect();
        gaps.sort_unstable();
        let (mut covered_to, mut sum) = (window.0, 0_u64);
        for (start, end) in gaps {
            // Zero if the gap ends before it begins, or before the part that was counted already.
            sum = sum.saturating_add(end.ns_since(start.max(covered_to)));
            covered_to = covered_to.max(end);
        }
        sum
    }
}

impl Series {
    fn new(metric: &str, kind: MetricKind) -> Self {
        let meter = meter(metric).map(|meter| (meter, Vec::new()));
        Self { kind, n: 0, last: None, values: Vec::new(), increase: 0.0, meter }
    }

    fn add(&mut self, at: Instant, sample: &MetricSample) {
        let MetricSample { value, series, .. } = *sample;
        let is_sample = match self.kind {
            MetricKind::Gauge => value.abs() <= MAX_MAGNITUDE,
            // A value that is no count is ignored.
            MetricKind::Counter | MetricKind::Share => (0.0..=MAX_MAGNITUDE).contains(&value),
        };
        // A reading has each value once.
        if !is_sample || self.last.is_some_and(|before| before.at >= at) {
            return;
        }
        self.n += 1;
        if let Some((_, readings)) = &mut self.meter {
            readings.push((at, value));
        }
        let before = self.last.replace(LastSample { at, value, series });
        match (self.kind, before.filter(|before| before.series == series)) {
            (MetricKind::Gauge, _) => self.values.push(value),
            (kind, Some(before)) => {
                self.increase += increase(before.value, value);
                let per_second = increase_per_second((before.at, before.value), (at, value));
                self.values.push(if kind == MetricKind::Share { per_second.min(1.0) } else { per_second });
            }
            (_, None) => {}
        }
    }
}

/// Returns the rate at which a counter grew from one sample to the next. A counter that fell was reset to 0 between them, as by a
/// restart of its program, and has grown to its present value: `rate` of Prometheus does the same ("breaks in monotonicity (such
/// as counter resets due to target restarts) are automatically adjusted for", Prometheus documentation, query functions). Unlike
/// `rate`, it does not extrapolate to the window's edges.
fn increase_per_second((before_at, before): (Instant, f64), (at, value): (Instant, f64)) -> f64 {
    increase(before, value) / (at.ns_since(before_at) as f64 / 1e9)
}

/// Returns the increase of a counter, which counts from 0 again if it fell.
pub(crate) fn increase(before: f64, value: f64) -> f64 {
    if value < before { value } else { value - before }
}

/// The parts of the recordings that are in no row.
#[derive(Default)]
pub(crate) struct OmittedReadings {
    /// Recordings beyond the limit, of one source in one block.
    pub(crate) recordings: u64,
    /// Readings that are older than their predecessor.
    pub(crate) out_of_order: u64,
    metrics: u64,
    readings: u64,
    without_value: BTreeSet<&'static str>,
}

impl OmittedReadings {
    pub(crate) fn add(&mut self, slice: &Slice<'_>) {
        self.metrics += slice.metrics_left_out;
        self.readings += slice.readings_left_out;
        self.without_value.extend(&slice.without_value);
    }

    /// Returns the reason why rows are missing, for people; `None` if none is missing.
    pub(crate) fn reason(&self) -> Option<Reason> {
        let counts = [
            (
                self.metrics,
                format!("metrics beyond {MAX_METRICS} of one source in one attempt, or with names beyond {MAX_NAME_BYTES} bytes"),
            ),
            (self.readings, format!("readings beyond {MAX_VALUES} values of one source in one attempt")),
            (self.recordings, format!("recordings beyond {MAX_RECORDINGS} of one source in one block")),
            (self.out_of_order, "readings that are older than the reading before them".to_owned()),
        ];
        let counted = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let names = self.without_value.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let without = (!names.is_empty()).then(|| format!("quantities that a GPU states without a value ({names})"));
        let said: Vec<_> = counted.chain(without).collect();
        (!said.is_empty()).then(|| Reason::new("telemetry_left_out", format!("no rows have {}", said.join(", "))))
    }
}

#[cfg(test)]
mod tests;
