//! The kernel's lists of CPUs, such as `0-3,8`.

/// The most CPUs that a list may name; the kernel itself stops at 8,192.
const MAX_CPUS: u64 = 65_536;

/// Returns the number of CPUs in a list; `None` if the text is no such list.
pub(crate) fn count_cpus(list: &str) -> Option<u32> {
    let mut total = 0_u64;
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        total = total.checked_add(last.checked_sub(first)?.checked_add(1)?).filter(|total| *total <= MAX_CPUS)?;
    }
    u32::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        for (list, expected) in [("0", 1), ("0-3", 4), ("0-3,8,10-11\n", 7), ("", 0)] {
            assert_eq!(count_cpus(list), Some(expected), "{list}");
        }
        for bad in ["x", "3-1", "0-", "-1", "0-99999999999", "1,,x"] {
            assert_eq!(count_cpus(bad), None, "{bad}");
        }
    }
}
