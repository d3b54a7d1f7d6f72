//! Thinning of long lists.

/// Returns at most `limit` of `items`, evenly chosen, including the first and the last.
pub(crate) fn evenly_spaced<T>(items: &[T], limit: usize) -> impl Iterator<Item = &T> {
    let shown = items.len().min(limit);
    let steps = shown.saturating_sub(1).max(1);
    (0..shown).filter_map(move |index| items.get(index * (items.len() - 1) / steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenly_keeps_both_ends() {
        assert_eq!(evenly_spaced(&[1, 2, 3, 4, 5], 3).collect::<Vec<_>>(), [&1, &3, &5]);
        assert_eq!(evenly_spaced(&[1, 2], 3).collect::<Vec<_>>(), [&1, &2]);
        assert_eq!(evenly_spaced(&[1, 2], 1).collect::<Vec<_>>(), [&1]);
        assert!(evenly_spaced::<u8>(&[], 3).next().is_none());
    }
}
