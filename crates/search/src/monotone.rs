//! Shares that fall with load.

/// Returns the likeliest shares that fall with load, for shares and their weights in the order of their loads: where they rise, neighbours
/// get their weighted mean (Ayer, Brunk, Ewing, Reid and Silverman, "An empirical distribution function for sampling with incomplete
/// information", Annals of Mathematical Statistics 26, 1955).
pub(crate) fn fall(shares: &[(f64, f64)]) -> Vec<f64> {
    // Blocks of neighbours with one share: how many they are, their weight, and their share.
    let mut blocks: Vec<(usize, f64, f64)> = Vec::new();
    for (share, weight) in shares {
        let mut block = (1, weight.max(f64::MIN_POSITIVE), *share);
        while let Some(before) = blocks.pop_if(|before| before.2 < block.2) {
            let weight = before.1 + block.1;
            block = (before.0 + block.0, weight, (before.1 * before.2 + block.1 * block.2) / weight);
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(count, _, share)| std::iter::repeat_n(share, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::fall;

    #[test]
    fn shares_that_rise_with_load_are_taken_together() {
        let text = |shares: &[(f64, f64)]| fall(shares).iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(text(&[(1.0, 1.0), (0.5, 1.0), (0.25, 1.0)]), "1 0.5 0.25");
        // 0.5 and 1.0 of three times as many requests: 0.875, which is more than 0.75, so that all three have (0.75 + 0.5 + 3) / 5.
        assert_eq!(text(&[(0.75, 1.0), (0.5, 1.0), (1.0, 3.0), (0.0, 1.0)]), "0.85 0.85 0.85 0");
        assert_eq!(text(&[]), "");
    }
}
