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
    // What has begun, a package or a result, and was not said to have passed.
    let mut begun = None;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("pkg: ") {
            package = path.trim();
            check_passed(begun.replace(package))?;
        } else if let Some(name) = line.trim_start().strip_prefix("--- FAIL: ") {
            return Err(failed(name.split_whitespace().next().unwrap_or_default(), "`go test` reports it as FAIL"));
        } else if matches!(first_word(line), "FAIL" | "FAIL:") {
            return Err(failed(package, "`go test` reports its package as FAIL"));
        } else if line.starts_with("panic:") || line.starts_with("fatal error:") {
            return Err(failed(package, "its program ended with a panic"));
        } else if matches!(first_word(line), "ok" | "PASS") {
            begun = None;
        } else if line.starts_with("Benchmark")
            && let Some(found) = result(line, package)?
        {
            begun = Some(found.name);
            lines.push(found);
        }
    }
    check_passed(begun)?;
    let first = lines.first().map(|line| line.package);
    let has_several = lines.iter().any(|line| Some(line.package) != first);
    for Line { package, name, values } in &lines {
        let name = if has_several { format!("{package}.{name}") } else { (*name).to_owned() };
        for (value, unit) in values {
            match quantity(unit) {
                Some(quantity) => measurements.add(&name, quantity, unit, &[*value])?,
                None => measurements.add_counter(&name, "", unit, &[*value])?,
            }
        }
    }
    Ok(())
}

/// Checks that nothing has begun that was not said to have passed: an output may be cut at the end of a line.
fn check_passed(begun: Option<&str>) -> Result<(), HarnessError> {
    begun.map_or(Ok(()), |begun| Err(HarnessError::Cut(format!("`{}`", shortened(begun)))))
}

/// Returns the first word of a line that begins with one.
fn first_word(line: &str) -> &str {
    line.split(char::is_whitespace).next().unwrap_or_default()
}

/// Returns the result of a line; `None` for a line that begins like one and is none, such as a log.
fn result<'a>(line: &'a str, package: &'a str) -> Result<Option<Line<'a>>, HarnessError> {
    let mut fields = line.split_whitespace();
    let (Some(name), Some(Ok(_))) = (fields.next(), fields.next().map(str::parse::<u64>)) else { return Ok(None) };
    let mut values: Vec<(f64, &str)> = Vec::new();
    while let Some(value) = fields.next() {
        let (Ok(value), Some(unit)) = (value.parse::<f64>(), fields.next()) else {
            return Err(failed(name, &format!("its line has no pairs of a value and a unit: {}", shortened(line))));
        };
        if values.iter().any(|(_, known)| *known == unit) {
            return Err(HarnessError::TwiceOnALine { benchmark: shortened(name), unit: shortened(unit) });
        }
        values.push((value, unit));
    }
    Ok(Some(Line { package, name, values }))
}

/// Returns the quantity of a unit of the `testing` package, if the unit does not say it itself; `None` for one of `ReportMetric`.
fn quantity(unit: &str) -> Option<&'static str> {
    match unit {
        "ns/op" => Some("time"),
        "B/op" => Some("allocated"),
        "allocs/op" | "MB/s" => Some(""),
        _ => None,
    }
}
