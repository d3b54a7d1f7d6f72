//! A list of CPUs in the kernel's notation, such as `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The highest CPU number plus one; the kernel's own limit is 8,192.
const MAX_CPUS: u32 = 8192;

/// A set of CPUs by their numbers; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(BTreeSet<u32>);

/// The error of parsing a [`CpuList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be CPU numbers below {MAX_CPUS} and ranges of them, separated by commas, such as `0-3,8`")]
pub struct CpuListError;

impl CpuList {
    /// The numbers of the CPUs, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// Returns the CPUs that both lists have, or `None` if they are disjoint.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> Option<Self> {
        let shared: BTreeSet<u32> = self.0.intersection(&other.0).copied().collect();
        (!shared.is_empty()).then_some(Self(shared))
    }

    /// Returns true if the other list has all CPUs of this one.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Returns the CPUs of either list.
    #[must_use]
    pub fn joined_with(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < MAX_CPUS).ok_or(CpuListError);
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(CpuListError);
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

/// Writes the kernel's notation.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in self.numbers() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        for (index, (first, last)) in ranges.into_iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            if first == last { write!(f, "{first}")? } else { write!(f, "{first}-{last}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> CpuList {
        text.parse().expect("a list")
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, expected) in [("0", "0"), ("0-3", "0-3"), ("8,0-1,2,3", "0-3,8"), (" 1,3-4\n", "1,3-4"), ("2,2", "2")] {
            assert_eq!(list(text).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", " ", ",", "0,", "a", "3-1", "-1", "0-", "1--2", "8192", "0-99999999999", "1 2"] {
            assert_eq!(text.parse::<CpuList>(), Err(CpuListError), "{text}");
        }
    }

    #[test]
    fn lists_are_compared() {
        let shared = |one: &str, other: &str| list(one).shared_with(&list(other)).map(|shared| shared.to_string());
        assert_eq!(shared("0-1", "2-3"), None);
        assert_eq!(shared("0-2", "2-3"), Some("2".to_owned()));
        assert!(list("1").is_within(&list("0-1")) && !list("0-2").is_within(&list("0-1")));
        assert_eq!(list("0").joined_with(&list("1,4")).to_string(), "0-1,4");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(cpus in proptest::collection::btree_set(0_u32..200, 1..20)) {
            let list = CpuList(cpus);
            prop_assert_eq!(list.to_string().parse(), Ok(list));
        }
    }
}
