//! The text of `go test -bench`: the Go benchmark data format (golang.org/design/14313-benchmark-format).
//!
//! Each line of a result has a name, a number of iterations, and pairs of a value and a unit. The lines of `-count` are samples of one benchmark. If the output
//! has benchmarks of several packages, the path of the package is a part of the name.

use super::error::shortened;
use super::json::failed;
use super::{HarnessError, Measurements};

/// A line of a result.
struct Line<'a> {
    package: &'a str,
    name: &'a str,
    /// The values with their units.
    values: Vec<(f64, &'a str)>,
}

pub(super) fn read(text: &str, measurements: &mut Measurements) -> Result<(), HarnessError> {
    let (mut package, mut lines) = ("", Vec::new());
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("pkg: ") {
            package = path.trim();
        } else if let Some(name) = line.trim_start().strip_prefix("--- FAIL: ") {
            return Err(failed(name.split_whitespace().next().unwrap_or_default(), "`go test` reports it as FAIL"));
        } else if line == "FAIL" || line.starts_with("FAIL\t") {
            return Err(failed(package, "`go test` reports its package as FAIL"));
        } else if line.starts_with("Benchmark") {
            lines.extend(result(line, package)?);
        }
    }
    let first = lines.first().map(|line| line.package);
    let has_several = lines.iter().any(|line| Some(line.package) != first);
    for Line { package, name, values } in &lines {
        let name = if has_several { format!("{package}.{name}") } else { (*name).to_owned() };
        for (value, unit) in values {
            measurements.add(&name, quantity(unit), unit, &[*value])?;
        }
    }
    Ok(())
}

/// Returns the result of a line; `None` for a line that begins like one and is none, such as a log.
fn result<'a>(line: &'a str, package: &'a str) -> Result<Option<Line<'a>>, HarnessError> {
    let mut fields = line.split_whitespace();
    let (Some(name), Some(Ok(_))) = (fields.next(), fields.next().map(str::parse::<u64>)) else { return Ok(None) };
    let mut values = Vec::new();
    while let Some(value) = fields.next() {
        let (Ok(value), Some(unit)) = (value.parse::<f64>(), fields.next()) else {
            return Err(failed(name, &format!("its line has no pairs of a value and a unit: {}", shortened(line))));
        };
        values.push((value, unit));
    }
    Ok(Some(Line { package, name, values }))
}

/// Returns the quantity of a unit of the `testing` package; a unit of `ReportMetric` is its own.
fn quantity(unit: &str) -> &'static str {
    match unit {
        "ns/op" => "time",
        "B/op" => "allocated",
        _ => "",
    }
}
