//! The energy of CPU packages, by RAPL: counters of the powercap framework of Linux, which a process without privileges may not read
//! since Linux 5.10.

use std::collections::BTreeMap;

use crate::Root;

/// The folder of the domains.
const POWERCAP: &str = "/sys/class/powercap";

/// The beginning of the name of a top domain, before its number. `intel-rapl-mmio` shows the same packages again. AMD's processors have
/// the same names.
const DOMAIN: &str = "intel-rapl:";

/// The beginning of the name of a package among the top domains: `package-0`, `package-0-die-1`. Another one is `psys`.
const PACKAGE: &str = "package-";

/// The energy of all packages since the first reading.
#[derive(Debug, Default)]
pub(crate) struct PackageEnergy {
    last_uj: BTreeMap<String, u64>,
    total_uj: u64,
}

/// A reading of the energy of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackageReading {
    /// The energy of all packages since the first reading, in microjoules.
    pub(crate) total_uj: u64,
    /// The number of packages.
    pub(crate) packages: u64,
}

impl PackageEnergy {
    /// Reads all packages; `None` if there is none, or if one of them cannot be read.
    ///
    /// A counter that reached its largest value has gone on from 0. If it fell and its largest value is not known, or if the packages are
    /// others than before, the energy between two readings is not known, and the sum begins at 0 again: its readers take that for a reset.
    pub(crate) fn read(&mut self, root: &Root) -> Option<PackageReading> {
        let file = |domain: &str, name: &str| format!("{POWERCAP}/{domain}/{name}");
        let is_package = |domain: &String| root.word(&file(domain, "name")).is_ok_and(|name| name.starts_with(PACKAGE));
        let domains = root.numbered(POWERCAP, DOMAIN).into_iter().filter(is_package);
        let read = |domain: String| Some((domain.clone(), root.number(&file(&domain, "energy_uj")).ok()?));
        let now_uj: BTreeMap<String, u64> = domains.map(read).collect::<Option<_>>()?;
        if now_uj.is_empty() {
            return None;
        }
        let grown = |(domain, now): (&String, &u64)| {
            let before = *self.last_uj.get(domain)?;
            let largest = || root.number::<u64>(&file(domain, "max_energy_range_uj")).ok();
            if *now >= before { Some(now - before) } else { Some(largest()?.checked_sub(before)?.saturating_add(*now)) }
        };
        let grown: Option<u64> = now_uj.iter().map(grown).try_fold(0_u64, |sum, one| Some(sum.saturating_add(one?)));
        let is_same = now_uj.len() == self.last_uj.len();
        self.total_uj = grown.filter(|_| is_same).map_or(0, |grown| self.total_uj.saturating_add(grown));
        let packages = now_uj.len() as u64;
        self.last_uj = now_uj;
        Some(PackageReading { total_uj: self.total_uj, packages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    /// A machine with these values of its two packages, and with domains that are none.
    fn machine(first: &str, second: &str) -> Tree {
        Tree::new(&[
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", first),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000\n"),
            ("sys/class/powercap/intel-rapl:0:0/name", "core\n"),
            ("sys/class/powercap/intel-rapl:0:0/energy_uj", "7\n"),
            ("sys/class/powercap/intel-rapl:1/name", "package-1\n"),
            ("sys/class/powercap/intel-rapl:1/energy_uj", second),
            ("sys/class/powercap/intel-rapl:2/name", "psys\n"),
            ("sys/class/powercap/intel-rapl:2/energy_uj", "9\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/energy_uj", first),
        ])
    }

    /// Returns the sums after readings of these values.
    fn sums(readings: &[(&str, &str)]) -> Vec<Option<(u64, u64)>> {
        let mut energy = PackageEnergy::default();
        let mut read = |(first, second): &(&str, &str)| {
            energy.read(&machine(first, second).root()).map(|reading| (reading.total_uj, reading.packages))
        };
        readings.iter().map(&mut read).collect()
    }

    #[test]
    fn packages_are_added_up_from_the_first_reading_on() {
        assert_eq!(sums(&[("100", "5"), ("150", "6"), ("151", "16")]), [Some((0, 2)), Some((51, 2)), Some((62, 2))]);
    }

    #[test]
    fn a_counter_goes_on_from_zero_after_its_largest_value() {
        assert_eq!(sums(&[("990", "5"), ("20", "5"), ("30", "5")]), [Some((0, 2)), Some((30, 2)), Some((40, 2))]);
    }

    #[test]
    fn a_fall_that_is_not_explained_is_a_reset() {
        assert_eq!(
            sums(&[("1", "50"), ("11", "60"), ("21", "7"), ("31", "8")]),
            [Some((0, 2)), Some((20, 2)), Some((0, 2)), Some((11, 2))]
        );
        let beyond = sums(&[("2000", "5"), ("3000", "5"), ("1", "5")]);
        assert_eq!(beyond, [Some((0, 2)), Some((1000, 2)), Some((0, 2))], "it was above its stated largest value");
    }

    #[test]
    fn what_cannot_be_read_has_no_sum() {
        assert_eq!(sums(&[("1", "2"), ("", "3"), ("5", "4")]), [Some((0, 2)), None, Some((6, 2))]);
        assert_eq!(PackageEnergy::default().read(&Tree::new(&[]).root()), None);
        let mut energy = PackageEnergy::default();
        assert!(energy.read(&machine("1", "2").root()).is_some());
        let one = Tree::new(&[
            ("sys/class/powercap/intel-rapl:0/name", "package-0"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "9"),
        ]);
        assert_eq!(energy.read(&one.root()), Some(PackageReading { total_uj: 0, packages: 1 }), "a package is gone");
    }
}
