//! Names of statistics, as tools spell them.

/// Returns the name of a statistic that a tool spells so: `mean`, `std`, `min`, `max`, `sum`, `count`, or a percentile such as `p50` and
/// `p99.9`; `None` for anything else.
pub(crate) fn statistic(name: &str) -> Option<String> {
    let fixed = match name {
        "avg" | "mean" | "average" => "mean",
        "median" | "med" => "p50",
        "std" | "stddev" | "std_dev" | "stdev" => "std",
        "min" => "min",
        "max" => "max",
        "sum" | "total_sum" | "total" => "sum",
        "count" => "count",
        "q1" => "p25",
        "q3" => "p75",
        _ => return percentile(name),
    };
    Some(fixed.to_owned())
}

/// Reads `p99`, `p99.9`, `p(95)`, `99.9`, and `p99p9` of the Benchmark Report, and the spelling of guidellm, whose third digit is a tenth: `p001` is 0.1 %, `p999` 99.9 %.
fn percentile(name: &str) -> Option<String> {
    let digits = name.strip_prefix('p').unwrap_or(name);
    let digits = digits.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(digits);
    let digits = &digits.replace('p', ".");
    let is_plain = digits.len() <= 8 && digits.starts_with(|first: char| first.is_ascii_digit());
    if !is_plain || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') || digits.ends_with('.') {
        return None;
    }
    let has_tenths = digits.len() == 3 && digits != "100" && !digits.contains('.') && name.starts_with('p');
    let percent: f64 = digits.parse().ok()?;
    let percent = if has_tenths { percent / 10.0 } else { percent };
    (percent <= 100.0).then(|| format!("p{percent}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_have_one_spelling() {
        let cases = [
            ("avg", "mean"),
            ("median", "p50"),
            ("stdev", "std"),
            ("p50", "p50"),
            ("p99.9", "p99.9"),
            ("p(95)", "p95"),
            ("p01", "p1"),
            ("p001", "p0.1"),
            ("p999", "p99.9"),
            ("99.99", "p99.99"),
            ("100.0", "p100"),
            ("p100", "p100"),
            ("p99p9", "p99.9"),
            ("p0p1", "p0.1"),
            ("count", "count"),
        ];
        for (name, expected) in cases {
            assert_eq!(statistic(name).as_deref(), Some(expected), "{name}");
        }
        for name in ["", "p", "p(", "unit", "pdf", "p101.0", "p1.", "p-1", "1e9", "variance", "p1.2.3", "999"] {
            assert_eq!(statistic(name), None, "{name}");
        }
    }
}
