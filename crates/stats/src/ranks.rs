//! The joint order of two samples, and the number of ways to draw one of them from it.

use std::cmp::Ordering;

use crate::samples::Samples;

/// A group of equal values in the joint order of two samples, with its size in each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

impl Group {
    pub(crate) fn size(self) -> usize {
        self.first + self.second
    }
}

/// The groups of equal values, ascending.
pub(crate) fn groups(first: &Samples, second: &Samples) -> Vec<Group> {
    let (mut left, mut right) = (first.sorted(), second.sorted());
    let mut found = Vec::with_capacity(left.len() + right.len());
    while let Some(value) = smaller_head(left, right) {
        let group = Group { first: take(&mut left, value), second: take(&mut right, value) };
        found.push(group);
    }
    found
}

fn smaller_head(left: &[f64], right: &[f64]) -> Option<f64> {
    match (left.first(), right.first()) {
        (Some(&a), Some(&b)) => Some(if a.total_cmp(&b) == Ordering::Greater { b } else { a }),
        (a, b) => a.or(b).copied(),
    }
}

/// Removes the values equal to `value` from the front, and counts them.
fn take(values: &mut &[f64], value: f64) -> usize {
    let count = values.iter().take_while(|x| x.total_cmp(&value).is_eq()).count();
    *values = values.get(count..).unwrap_or_default();
    count
}

/// Twice the midrank of every group: ranks count from 1, and equal values share the mean of their ranks. Doubled, midranks are
/// whole.
pub(crate) fn doubled_midranks(groups: &[Group]) -> impl Iterator<Item = (Group, u64)> {
    groups.iter().scan(0_u64, |before, &group| {
        let size = group.size() as u64;
        let doubled = 2 * *before + size + 1;
        *before += size;
        Some((group, doubled))
    })
}

/// Twice the Mann-Whitney U of the first sample, which is whole: twice the rank sum of the first sample, less its smallest
/// possible value.
pub(crate) fn doubled_u(groups: &[Group]) -> u64 {
    let (n, doubled) = doubled_midranks(groups)
        .fold((0, 0), |(n, sum), (group, rank)| (n + group.first as u64, sum + group.first as u64 * rank));
    doubled - n * (n + 1)
}

/// The number of ways to choose `n` of the ascending `scores`, for each excess of their sum over the smallest possible sum.
///
/// Built one score after the other (the shift algorithm of Streitberg and Röhmel, Statistical Software Newsletter 12, 1986):
/// whole numbers, so nothing is rounded. The caller keeps the number of choices within 128 bits.
pub(crate) fn count_choices(scores: &[u64], n: usize) -> Vec<u128> {
    let mut ways: Vec<Vec<u128>> = vec![vec![1]];
    for (seen, &score) in scores.iter().enumerate() {
        if ways.len() <= n {
            ways.push(Vec::new());
        }
        for chosen in (1..ways.len().min(seen + 2)).rev() {
            // The excess is counted from the sum of the smallest `chosen` scores, of which this is the last.
            let Some(&smallest) = scores.get(chosen - 1) else { continue };
            let shift = score.saturating_sub(smallest) as usize;
            let (fewer, rest) = ways.split_at_mut(chosen);
            if let (Some(from), Some(to)) = (fewer.last(), rest.first_mut()) {
                add_shifted(from, to, shift);
            }
        }
    }
    ways.pop().unwrap_or_default()
}

fn add_shifted(from: &[u128], to: &mut Vec<u128>, shift: usize) {
    let needed = from.len() + shift;
    if to.len() < needed {
        to.resize(needed, 0);
    }
    for (cell, ways) in to.iter_mut().skip(shift).zip(from) {
        *cell += ways;
    }
}

/// Lists every way to redistribute the values of both samples, sizes kept: the cases that exact tests count.
#[cfg(test)]
pub(crate) fn redistribute(first: &[f64], second: &[f64]) -> impl Iterator<Item = (Vec<f64>, Vec<f64>)> {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let chosen = first.len();
    let masks = (0_u32..1 << all.len()).filter(move |mask| mask.count_ones() as usize == chosen);
    masks.map(move |mask| {
        let side = |wanted: u32| {
            let on_side = |(place, value): (usize, &f64)| ((mask >> place) & 1 == wanted).then_some(*value);
            all.iter().enumerate().filter_map(on_side).collect::<Vec<_>>()
        };
        (side(1), side(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(first: &[f64], second: &[f64]) -> Vec<Group> {
        groups(&Samples::new(first).expect("samples"), &Samples::new(second).expect("samples"))
    }

    #[test]
    fn equal_values_stand_together_whosever_they_are() {
        let found = grouped(&[3.0, 1.0, 1.0], &[1.0, 2.0, 3.0, 4.0]);
        let counts: Vec<(usize, usize)> = found.iter().map(|group| (group.first, group.second)).collect();
        assert_eq!(counts, [(2, 1), (0, 1), (1, 1), (0, 1)]);
        let ranks: Vec<u64> = doubled_midranks(&found).map(|(_, rank)| rank).collect();
        assert_eq!(ranks, [4, 8, 11, 14]);
    }

    #[test]
    fn choices_are_counted_by_their_excess() {
        // The choices of two of 1, 2, 3, 4 have the sums 3, 4, 5 (twice), 6, 7.
        assert_eq!(count_choices(&[1, 2, 3, 4], 2), [1, 1, 2, 1, 1]);
        assert_eq!(count_choices(&[4, 4, 7], 2), [1, 0, 0, 2]);
        assert_eq!(count_choices(&[1, 2, 3], 3), [1]);
    }

    #[test]
    fn the_largest_count_is_whole() {
        let scores: Vec<u64> = (1..=100).collect();
        let all: u128 = count_choices(&scores, 50).iter().sum();
        assert_eq!(all, 100_891_344_545_564_193_334_812_497_256);
    }
}
