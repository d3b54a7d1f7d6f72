//! The energy that observed objects used while an attempt ran, by the meters that sources have: counters of energy, and samples of power.
//!
//! A value is of all objects of a boundary that the source observes, over the part of the attempt that the readings of all of them cover.
//! A gap, a reset, an object that is missing for a part of the attempt, and readings that are too far apart give no value: what is
//! missing is never filled in. Between two readings of a counter, its increase is taken to be even in time; this matters at the two
//! ends of the covered time alone, where the readings of several objects are apart.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{EnergyBoundary, EnergyMethod, Instant};

/// The fewest intervals between different readings in the covered time: one interval at an end is then at most a tenth of it.
const MIN_INTERVALS: usize = 10;

/// A time without readings that is longer than this many intervals is a gap, as in a recording.
const GAP_INTERVALS: u64 = 3;

/// A metric that is a meter of energy.
#[derive(Debug, PartialEq)]
pub(crate) struct EnergyMeter {
    metric: &'static str,
    boundary: EnergyBoundary,
    method: EnergyMethod,
    /// The joules of a unit of a counter, the watts of a unit of power.
    scale: f64,
}

/// The meters: of the host, of dcgm-exporter, of node_exporter and of `nvidia-smi`. Of a package, RAPL's domains `core` and `uncore` are parts, and
/// `dram` is beside it.
static METERS: [EnergyMeter; 5] = {
    use EnergyBoundary::{CpuPackage, Gpu};
    use EnergyMethod::{Approximated, Counter};
    [
        EnergyMeter { metric: "cpu_package_energy_uj", boundary: CpuPackage, method: Counter, scale: 1e-6 },
        EnergyMeter { metric: "node_rapl_package_joules_total", boundary: CpuPackage, method: Counter, scale: 1.0 },
        EnergyMeter { metric: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", boundary: Gpu, method: Counter, scale: 1e-3 },
        EnergyMeter { metric: "DCGM_FI_DEV_POWER_USAGE", boundary: Gpu, method: Approximated, scale: 1.0 },
        EnergyMeter { metric: "power.draw", boundary: Gpu, method: Approximated, scale: 1.0 },
    ]
};

/// The metric of the host with the number of packages that its counter adds up.
pub(crate) const HOST_PACKAGES: &str = "cpu_packages";

/// Returns the meter that a metric is.
pub(crate) fn meter(metric: &str) -> Option<&'static EnergyMeter> {
    METERS.iter().find(|meter| meter.metric == metric)
}

/// The readings of a meter of one object.
#[derive(Clone, Debug)]
pub(crate) struct MeteredObject {
    /// The object, as its labels identify it.
    pub(crate) object: String,
    /// The readings, in the meter's unit.
    pub(crate) readings: Vec<(Instant, f64)>,
}

/// The energy of all objects of one meter in one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct MeteredEnergy {
    /// The part of a machine that the meter is of.
    pub boundary: EnergyBoundary,
    /// The way in which joules follow from the readings.
    pub method: EnergyMethod,
    /// The objects.
    pub objects: BTreeSet<String>,
    /// The number of objects, if one reading adds up several.
    pub added_up: Option<u64>,
    /// The energy; the reason if it is not known.
    pub used: Result<EnergyUse, EnergyFault>,
}

/// Energy over a time.
#[derive(Clone, Debug, PartialEq)]
pub struct EnergyUse {
    /// The energy in joules.
    pub joules: f64,
    /// The start of the time that the readings of all objects cover.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// The readings of the object that has the fewest.
    pub readings: u64,
}

/// The reason why the energy of an attempt is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnergyFault {
    /// Two series of one object were read at the same time.
    Ambiguous,
    /// There are too few different readings.
    TooCoarse,
    /// A counter fell.
    Reset,
    /// A time between readings is too long.
    Gap,
    /// An object has no readings for a part of the attempt, or for all of it.
    ObjectMissing,
    /// No request ended in the covered time.
    NoRequest,
}

impl EnergyFault {
    /// Returns the reason in words, behind a number of attempts.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ambiguous => "with two series of one object at the same time",
            Self::TooCoarse => "with fewer than ten intervals between different readings of an object",
            Self::Reset => "in which a counter fell",
            Self::Gap => "with a gap in the readings of an object",
            Self::ObjectMissing => "in which an object is missing for a part of the time",
            Self::NoRequest => "in which no request succeeded while energy was read",
        }
    }
}

/// Returns the energy of the objects of a meter in an attempt.
pub(crate) fn energy(meter: &EnergyMeter, window: (Instant, Instant), objects: Vec<MeteredObject>) -> MeteredEnergy {
    let mut of_object: BTreeMap<String, Vec<(Instant, f64)>> = BTreeMap::new();
    for MeteredObject { object, readings } in objects {
        of_object.entry(object).or_default().extend(readings);
    }
    let names = of_object.keys().cloned().collect();
    let used = of_object.into_values().map(|readings| MeterCurve::new(meter, window, readings)).collect::<Result<Vec<_>, _>>();
    let used = used.and_then(|curves| add_up(&curves));
    MeteredEnergy { boundary: meter.boundary, method: meter.method, objects: names, added_up: None, used }
}

/// Adds up the energy of objects over the time that all of them cover.
fn add_up(curves: &[MeterCurve]) -> Result<EnergyUse, EnergyFault> {
    let start = curves.iter().map(|curve| curve.start).max().ok_or(EnergyFault::ObjectMissing)?;
    let end = curves.iter().map(|curve| curve.end).min().ok_or(EnergyFault::ObjectMissing)?;
    if start >= end {
        return Err(EnergyFault::ObjectMissing);
    }
    let joules = curves.iter().map(|curve| curve.joules(start, end)).sum();
    let readings = curves.iter().map(|curve| curve.readings.len() as u64).min().unwrap_or(0);
    Ok(EnergyUse { joules, start, end, readings })
}

/// The readings of one object, which allow to state its energy between any two instants of the covered time.
struct MeterCurve {
    method: EnergyMethod,
    /// Joules since some beginning, or watts.
    readings: Vec<(Instant, f64)>,
    start: Instant,
    end: Instant,
}

impl MeterCurve {
    fn new(meter: &EnergyMeter, window: (Instant, Instant), mut readings: Vec<(Instant, f64)>) -> Result<Self, EnergyFault> {
        readings.sort_by_key(|(at, _)| *at);
        if pairs(&readings).any(|((before, _), (after, _))| before == after) {
            return Err(EnergyFault::Ambiguous);
        }
        let is_counter = meter.method == EnergyMethod::Counter;
        if is_counter && pairs(&readings).any(|((_, before), (_, after))| after < before) {
            return Err(EnergyFault::Reset);
        }
        let changes: Vec<(Instant, f64)> =
            pairs(&readings).filter(|(before, after)| before.1.total_cmp(&after.1).is_ne()).map(|(_, after)| after).collect();
        // An exporter that reads its device less often than it is scraped repeats a value. A counter is known at the times at which it has
        // changed alone, and the first reading of an attempt may be old. Samples of power that are all equal are a constant power.
        let (kept, intervals) = match meter.method {
            EnergyMethod::Counter => (changes.clone(), changes.len().saturating_sub(1)),
            EnergyMethod::Approximated if changes.is_empty() => (readings.clone(), readings.len().saturating_sub(1)),
            EnergyMethod::Approximated => (readings.clone(), changes.len()),
        };
        let (Some((start, _)), Some((end, _))) = (kept.first().copied(), kept.last().copied()) else {
            return Err(EnergyFault::TooCoarse);
        };
        if intervals < MIN_INTERVALS {
            return Err(EnergyFault::TooCoarse);
        }
        let limit = median_interval_ns(&kept).saturating_mul(GAP_INTERVALS);
        if pairs(&kept).any(|((before, _), (after, _))| after.ns_since(before) > limit) {
            return Err(EnergyFault::Gap);
        }
        if start.ns_since(window.0) > limit || window.1.ns_since(end) > limit {
            return Err(EnergyFault::ObjectMissing);
        }
        let scaled = kept.into_iter().map(|(at, value)| (at, value * meter.scale)).collect();
        Ok(Self { method: meter.method, readings: scaled, start, end })
    }

    /// Returns the joules between two instants of the covered time.
    fn joules(&self, start: Instant, end: Instant) -> f64 {
        if self.method == EnergyMethod::Counter {
            return self.counted_at(end) - self.counted_at(start);
        }
        let within: Vec<f64> =
            self.readings.iter().filter(|(at, _)| (start..=end).contains(at)).map(|(_, watts)| *watts).collect();
        let mean = within.iter().sum::<f64>() / within.len().max(1) as f64;
        mean * (end.ns_since(start) as f64 / 1e9)
    }

    /// Returns the value of a counter at an instant, on the line between the readings before and after it.
    fn counted_at(&self, at: Instant) -> f64 {
        let after = self.readings.partition_point(|(read_at, _)| *read_at < at);
        let value = |place: usize| self.readings.get(place).copied();
        match (after.checked_sub(1).and_then(value), value(after)) {
            (Some((before_at, before)), Some((after_at, after))) => {
                let share = at.ns_since(before_at) as f64 / after_at.ns_since(before_at).max(1) as f64;
                before + share * (after - before)
            }
            (Some((_, only)), None) | (None, Some((_, only))) => only,
            (None, None) => 0.0,
        }
    }
}

/// Returns the median time between readings, in nanoseconds.
fn median_interval_ns(readings: &[(Instant, f64)]) -> u64 {
    let mut intervals: Vec<u64> = pairs(readings).map(|((before, _), (after, _))| after.ns_since(before)).collect();
    intervals.sort_unstable();
    intervals.get(intervals.len() / 2).copied().unwrap_or(0)
}

/// Returns each value with its successor.
fn pairs<T: Copy>(values: &[T]) -> impl Iterator<Item = (T, T)> {
    values.iter().copied().zip(values.iter().copied().skip(1))
}

#[cfg(test)]
mod tests;
