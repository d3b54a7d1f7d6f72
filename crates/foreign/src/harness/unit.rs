//! The units of a harness against those that a workload declares: a number in another unit would be off by a factor that no reader sees.

use assay_indicator::OutputError;
use assay_manifest::Metric;

use super::Measurement;
use super::error::shortened;

/// Checks that the harness states each declared metric in its declared unit. A counter without a unit has the one that is declared.
pub(super) fn check(metrics: &[Metric], measurements: &[Measurement]) -> Result<(), OutputError> {
    let differing = |metric: &Metric| {
        let stated = measurements.iter().find(|measurement| measurement.path() == metric.path)?.unit.as_str();
        (!stated.is_empty() && plain(stated) != plain(&metric.unit)).then(|| OutputError::Unit {
            metric: shortened(&metric.path),
            stated: shortened(stated),
            declared: shortened(&metric.unit),
        })
    };
    metrics.iter().find_map(differing).map_or(Ok(()), Err)
}

/// Returns the plain spelling of a unit: `ns/op` is `ns`, since each number is that of one operation.
pub(super) fn plain(unit: &str) -> String {
    let of_one = unit.strip_suffix("/op").unwrap_or(unit);
    match of_one.replace(['µ', 'μ'], "u").as_str() {
        "nanoseconds" => "ns",
        "microseconds" => "us",
        "milliseconds" => "ms",
        "seconds" | "sec" => "s",
        "bytes" => "B",
        other => return other.to_owned(),
    }
    .to_owned()
}
