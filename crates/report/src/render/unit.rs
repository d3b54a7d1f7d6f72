//! The unit in which a metric is shown: the declared one, or a related unit of a more readable size.

/// A family of units that are easy to convert, smallest first: name and size in the family's smallest unit.
type Family = &'static [(&'static str, f64)];

const TIME: Family = &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
const SIZE: Family =
    &[("B", 1.0), ("KiB", 1_024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("TiB", 1_099_511_627_776.0)];
const RATE: Family = &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12)];

/// The shown unit of a declared unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DisplayUnit {
    /// The unit.
    pub(crate) unit: String,
    /// The factor by which a declared value is multiplied.
    pub(crate) factor: f64,
}

impl DisplayUnit {
    /// Returns the largest unit of the same family as `declared` in which `smallest`, the smallest value to show, is at least 1;
    /// `declared` itself if it has no family.
    pub(crate) fn choose(declared: &str, smallest: f64) -> Self {
        let unchanged = || Self { unit: declared.to_owned(), factor: 1.0 };
        let Some((family, size)) = family(declared) else { return unchanged() };
        let base = smallest.abs() * size;
        if base == 0.0 || !base.is_finite() {
            return unchanged();
        }
        let fits = family.iter().rev().find(|(_, unit)| base >= *unit).or(family.first());
        fits.map_or_else(unchanged, |(unit, sibling)| Self { unit: (*unit).to_owned(), factor: size / sibling })
    }

    /// Converts a declared value to the shown unit. Divides if that is exact, so that 1500 us is 1.5 ms and not 1.5000000000000002.
    pub(crate) fn convert(&self, value: f64) -> f64 {
        if self.factor < 1.0 { value / (1.0 / self.factor).round() } else { value * self.factor }
    }
}

fn family(declared: &str) -> Option<(Family, f64)> {
    let name = match declared {
        "us" => "µs",
        "byte" | "bytes" => "B",
        "bytes/s" => "B/s",
        other => other,
    };
    [TIME, SIZE, RATE].into_iter().find_map(|family| {
        let (_, size) = family.iter().find(|(unit, _)| *unit == name)?;
        Some((family, *size))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_moves_within_its_family_only() {
        let table = [
            ("ns", 123_456_789.0, "ms", 123.456_789),
            ("us", 1_500.0, "ms", 1.5),
            ("s", 0.000_25, "µs", 250.0),
            ("s", 12.0, "s", 12.0),
            ("ns", 0.5, "ns", 0.5),
            ("ns", 0.0, "ns", 0.0),
            ("bytes", 4_194_304.0, "MiB", 4.0),
            ("B/s", 12_300_000_000.0, "GB/s", 12.3),
            ("GFLOPS", 123_456.0, "GFLOPS", 123_456.0),
            ("unknown", 5e9, "unknown", 5e9),
            ("", 5e9, "", 5e9),
        ];
        for (declared, value, unit, expected) in table {
            let shown = DisplayUnit::choose(declared, value);
            assert_eq!(shown.unit, unit, "{declared} {value}");
            assert!((shown.convert(value) - expected).abs() <= expected.abs() * 1e-12, "{declared} {value}");
        }
    }
}
