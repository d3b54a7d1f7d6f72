//! Exact quantiles of any number of integers in bounded memory, by as many passes over them as needed.
//!
//! A few samples are held and selected from at once. If there are more than fit, the first pass counts them in classes of about a
//! thousandth of their magnitude; each further pass considers only the classes that contain a wanted rank, and either holds their
//! samples or counts them in finer classes (Munro and Paterson, "Selection and sorting with limited storage", Theoretical
//! Computer Science 12, 1980). Nothing is approximated: the result is the same as by sorting.

use std::collections::BTreeMap;

use crate::quantile::{QuantilePosition, select};

/// The bits of magnitude that a class of the first pass distinguishes.
const CLASS_BITS: u32 = 10;
/// The number of classes of non-negative numbers.
const HALF: usize = (64 - CLASS_BITS as usize) << CLASS_BITS;
/// The most classes that one span is divided into.
const PARTS: u64 = 8192;

/// A wanted order statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WantedQuantile {
    /// The type 7 quantile.
    Quantile(f64),
    /// The type 7 quantile of `of` values; those that are not added count as larger than all others.
    QuantileWithMissing {
        /// The probability.
        q: f64,
        /// The number of all values, including those that are not added, such as failures.
        of: u64,
    },
}

/// The value of a wanted order statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SelectedQuantile {
    /// The statistic is a fraction of the way from one sample to the next.
    Between {
        /// The lower sample.
        below: i64,
        /// The upper sample.
        above: i64,
        /// The fraction of the way from the lower to the upper sample, 0 to 1.
        fraction: f64,
    },
    /// The statistic is a value that was not added, or between a sample and such a value.
    Beyond,
    /// There are no samples, or the probability is outside 0 to 1.
    Absent,
}

impl SelectedQuantile {
    /// The statistic if samples are the numbers themselves; `None` for [`SelectedQuantile::Beyond`] and [`SelectedQuantile::Absent`].
    pub fn value(self) -> Option<f64> {
        let Self::Between { below, above, fraction } = self else { return None };
        // Subtracted as integers: two large instants a few nanoseconds apart keep their difference.
        let gap = (i128::from(above) - i128::from(below)) as f64;
        Some((below as f64 + gap * fraction).min(above as f64))
    }

    /// The statistic if samples encode other numbers in the same order.
    pub fn decoded_value(self, decode: impl Fn(i64) -> f64) -> Option<f64> {
        let Self::Between { below, above, fraction } = self else { return None };
        let (below, above) = (decode(below), decode(above));
        Some((below + (above - below) * fraction).min(above))
    }
}

/// The key of a double, for samples that are quotients: an integer in the same order. Lossless, except that NaN loses its
/// meaning.
pub fn encode_key(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    bits ^ (((bits >> 63).cast_unsigned()) >> 1).cast_signed()
}

/// The double that a key encodes.
pub fn decode_key(key: i64) -> f64 {
    f64::from_bits((key ^ (((key >> 63).cast_unsigned()) >> 1).cast_signed()).cast_unsigned())
}

/// A selection in progress: add every sample, [settle](Selection::settle), and repeat both until it is settled.
#[derive(Debug)]
pub struct Selection {
    wants: Vec<WantedQuantile>,
    room: usize,
    state: State,
    n: u64,
    found: BTreeMap<u64, i64>,
}

#[derive(Debug)]
enum State {
    Held(Vec<i64>),
    Counted(Vec<u64>),
    Narrowed(Spans),
    Settled,
}

impl Selection {
    /// Creates a selection that holds at most `room` samples, besides a few MiB of counters.
    pub fn new(wants: Vec<WantedQuantile>, room: usize) -> Self {
        Self { wants, room, state: State::Held(Vec::new()), n: 0, found: BTreeMap::new() }
    }

    /// Announces the number of samples that may come, so that memory is allocated once.
    pub fn reserve(&mut self, samples: usize) {
        if let State::Held(values) = &mut self.state {
            values.reserve_exact(samples.min(self.room).saturating_sub(values.len()));
        }
    }

    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, value: i64) {
        match &mut self.state {
            State::Held(values) if values.len() < self.room => values.push(value),
            _ => self.add_slowly(value, 1),
        }
    }

    /// Adds a sample `times` times.
    #[inline]
    pub fn add_times(&mut self, value: i64, times: u64) {
        match times {
            1 => self.add(value),
            _ => self.add_slowly(value, times),
        }
    }

    fn add_slowly(&mut self, value: i64, times: u64) {
        match &mut self.state {
            State::Held(values) if values.len() as u64 + times <= self.room as u64 => {
                values.extend(std::iter::repeat_n(value, times as usize));
            }
            State::Held(values) => {
                let mut counts = vec![0; 2 * HALF];
                for value in values {
                    count(&mut counts, *value, 1);
                }
                count(&mut counts, value, times);
                self.state = State::Counted(counts);
            }
            State::Counted(counts) => count(counts, value, times),
            State::Narrowed(spans) => spans.add(value, times),
            State::Settled => {}
        }
    }

    /// Ends a pass over the samples. Returns true if every wanted statistic is known; if not, every sample must be added again.
    pub fn settle(&mut self) -> bool {
        let open = match std::mem::replace(&mut self.state, State::Settled) {
            State::Settled => Vec::new(),
            State::Held(mut values) => {
                self.n = values.len() as u64;
                let ranks: Vec<usize> = self.ranks().iter().map(|rank| *rank as usize).collect();
                select(&mut values, 0, &ranks);
                self.found = ranks.iter().filter_map(|rank| Some((*rank as u64, *values.get(*rank)?))).collect();
                Vec::new()
            }
            State::Counted(counts) => {
                self.n = counts.iter().sum();
                spans_of_classes(&counts, &self.ranks())
            }
            State::Narrowed(spans) => spans.settle(&mut self.found),
        };
        if open.is_empty() {
            return true;
        }
        self.state = State::Narrowed(Spans::new(open, self.room));
        false
    }

    /// Returns true if every wanted statistic is known.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Settled)
    }

    /// The number of samples. Known after the first pass.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The wanted statistics, in their order; [`SelectedQuantile::Absent`] before the selection is settled.
    pub fn quantiles(&self) -> Vec<SelectedQuantile> {
        self.wants.iter().map(|want| self.select_quantile(*want)).collect()
    }

    fn select_quantile(&self, want: WantedQuantile) -> SelectedQuantile {
        match want {
            WantedQuantile::Quantile(q) => self.quantile(q).unwrap_or(SelectedQuantile::Absent),
            WantedQuantile::QuantileWithMissing { q, of } => match QuantilePosition::linear(of.max(self.n) as usize, q) {
                Some(place) if place.last_rank() as u64 >= self.n => SelectedQuantile::Beyond,
                Some(place) => self.interpolate(&place).unwrap_or(SelectedQuantile::Absent),
                None => SelectedQuantile::Absent,
            },
        }
    }

    fn quantile(&self, q: f64) -> Option<SelectedQuantile> {
        self.interpolate(&QuantilePosition::linear(self.n as usize, q)?)
    }

    fn interpolate(&self, place: &QuantilePosition) -> Option<SelectedQuantile> {
        let below = *self.found.get(&(place.rank as u64))?;
        let above = self.found.get(&(place.rank as u64 + 1)).copied().unwrap_or(below);
        Some(SelectedQuantile::Between { below, above, fraction: place.fraction })
    }

    /// The ranks that the wanted statistics depend on, ascending.
    fn ranks(&self) -> Vec<u64> {
        let mut ranks = Vec::new();
        for want in &self.wants {
            let place = match *want {
                WantedQuantile::Quantile(q) => QuantilePosition::linear(self.n as usize, q),
                WantedQuantile::QuantileWithMissing { q, of } => QuantilePosition::linear(of.max(self.n) as usize, q),
            };
            ranks.extend(place.into_iter().flat_map(|place| [place.rank, place.rank + 1]));
        }
        let mut ranks: Vec<u64> = ranks.into_iter().map(|rank| rank as u64).filter(|rank| *rank < self.n).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }
}

fn count(counts: &mut [u64], value: i64, times: u64) {
    if let Some(counter) = counts.get_mut(class(value)) {
        *counter += times;
    }
}

/// The class of a number: its highest bits, in the numbers' order.
fn class(value: i64) -> usize {
    if value >= 0 { HALF + magnitude_class(value.cast_unsigned()) } else { HALF - 1 - magnitude_class((!value).cast_unsigned()) }
}

fn magnitude_class(magnitude: u64) -> usize {
    let exponent = 63_u32.saturating_sub(magnitude.leading_zeros());
    match exponent.checked_sub(CLASS_BITS) {
        None => magnitude as usize,
        Some(above) => (((above as usize) + 1) << CLASS_BITS) | ((magnitude >> above) as usize & ((1 << CLASS_BITS) - 1)),
    }
}

/// The smallest and the largest number of a class.
fn bounds(class: usize) -> (i64, i64) {
    if let Some(magnitude) = class.checked_sub(HALF) {
        return magnitude_bounds(magnitude);
    }
    let (low, high) = magnitude_bounds(HALF - 1 - class);
    (!high, !low)
}

fn magnitude_bounds(class: usize) -> (i64, i64) {
    match (class >> CLASS_BITS).checked_sub(1) {
        None => ((class as u64).cast_signed(), (class as u64).cast_signed()),
        Some(above) => {
            let leading = (1_u64 << CLASS_BITS) | (class as u64 & ((1 << CLASS_BITS) - 1));
            let low = leading << above;
            (low.cast_signed(), (low + ((1_u64 << above) - 1)).cast_signed())
        }
    }
}

/// A range of numbers that contains wanted ranks.
#[derive(Debug)]
struct Span {
    low: i64,
    high: i64,
    /// The number of samples below it.
    below: u64,
    /// The number of samples in it.
    count: u64,
    ranks: Vec<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Values(Vec<i64>),
    Counts(u32, Vec<u64>),
}

impl Span {
    fn new((low, high): (i64, i64), below: u64, count: u64) -> Self {
        Self { low, high, below, count, ranks: Vec::new(), content: Content::Values(Vec::new()) }
    }

    fn width(&self) -> u64 {
        self.high.wrapping_sub(self.low).cast_unsigned()
    }

    fn add(&mut self, value: i64, times: u64) {
        match &mut self.content {
            // The pass before has counted their number.
            Content::Values(values) => {
                let room = self.count.saturating_sub(values.len() as u64);
                values.extend(std::iter::repeat_n(value, times.min(room) as usize));
            }
            Content::Counts(shift, counts) => {
                let part = value.wrapping_sub(self.low).cast_unsigned() >> *shift;
                if let Some(counter) = counts.get_mut(part as usize) {
                    *counter += times;
                }
            }
        }
    }

    /// Records the ranks that are known now, and returns the spans of the others.
    fn settle(self, found: &mut BTreeMap<u64, i64>) -> Vec<Self> {
        match self.content {
            Content::Values(mut values) => {
                let ranks: Vec<usize> = self.ranks.iter().map(|rank| (rank - self.below) as usize).collect();
                select(&mut values, 0, &ranks);
                found.extend(ranks.iter().filter_map(|rank| Some((*rank as u64 + self.below, *values.get(*rank)?))));
                Vec::new()
            }
            Content::Counts(shift, counts) => {
                let part = |place: usize| {
                    let low = self.low.wrapping_add(((place as u64) << shift).cast_signed());
                    let room = self.high.wrapping_sub(low).cast_unsigned();
                    (low, low.wrapping_add(((1_u64 << shift) - 1).min(room).cast_signed()))
                };
                let spans = divide(&counts, self.below, &self.ranks, part);
                let (known, open): (Vec<_>, Vec<_>) = spans.into_iter().partition(|span| span.low == span.high);
                found.extend(known.iter().flat_map(|span| span.ranks.iter().map(|rank| (*rank, span.low))));
                open
            }
        }
    }
}

fn spans_of_classes(counts: &[u64], ranks: &[u64]) -> Vec<Span> {
    divide(counts, 0, ranks, bounds)
}

/// Returns the spans of those parts that contain a wanted rank.
fn divide(counts: &[u64], below: u64, ranks: &[u64], bounds: impl Fn(usize) -> (i64, i64)) -> Vec<Span> {
    let mut spans = Vec::new();
    let (mut below, mut ranks) = (below, ranks.iter().copied().peekable());
    for (place, count) in counts.iter().enumerate() {
        let end = below + count;
        if ranks.peek().is_some_and(|rank| *rank < end) {
            let mut span = Span::new(bounds(place), below, *count);
            while let Some(rank) = ranks.next_if(|rank| *rank < end) {
                span.ranks.push(rank);
            }
            spans.push(span);
        }
        below = end;
    }
    spans
}

/// Spans in ascending order, found by the class of a number.
#[derive(Debug)]
struct Spans {
    spans: Vec<Span>,
    first: Vec<u32>,
}

impl Spans {
    fn new(mut spans: Vec<Span>, room: usize) -> Self {
        let mut by_count: Vec<usize> = (0..spans.len()).collect();
        by_count.sort_by_key(|place| spans.get(*place).map(|span| span.count));
        let mut left = room as u64;
        for place in by_count {
            let Some(span) = spans.get_mut(place) else { continue };
            if let Some(rest) = left.checked_sub(span.count) {
                left = rest;
                span.content = Content::Values(Vec::with_capacity(span.count as usize));
            } else {
                let bits = 64 - span.width().leading_zeros();
                let shift = bits.saturating_sub(PARTS.trailing_zeros());
                span.content = Content::Counts(shift, vec![0; (span.width() >> shift) as usize + 1]);
            }
        }
        let mut first = vec![u32::MAX; 2 * HALF];
        for (place, span) in spans.iter().enumerate().rev() {
            if let Some(slot) = first.get_mut(class(span.low)) {
                *slot = place as u32;
            }
        }
        Self { spans, first }
    }

    fn add(&mut self, value: i64, times: u64) {
        let Some(first) = self.first.get(class(value)).filter(|first| **first != u32::MAX) else { return };
        let candidates = self.spans.get_mut(*first as usize..).unwrap_or_default().iter_mut();
        let span = candidates.take_while(|span| span.low <= value).find(|span| value <= span.high);
        if let Some(span) = span {
            span.add(value, times);
        }
    }

    fn settle(self, found: &mut BTreeMap<u64, i64>) -> Vec<Span> {
        self.spans.into_iter().flat_map(|span| span.settle(found)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::quantiles_ns;
    use proptest::prelude::*;

    const QS: [f64; 9] = [0.0, 0.01, 0.3, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

    fn selected(values: &[i64], wants: Vec<WantedQuantile>, room: usize) -> (Vec<SelectedQuantile>, u32) {
        let mut selection = Selection::new(wants, room);
        let mut passes = 0;
        loop {
            for value in values {
                selection.add(*value);
            }
            passes += 1;
            if selection.settle() {
                assert_eq!(selection.n(), values.len() as u64);
                return (selection.quantiles(), passes);
            }
            assert!(passes < 20, "it ends");
        }
    }

    fn quantiles() -> Vec<WantedQuantile> {
        QS.into_iter().map(WantedQuantile::Quantile).collect()
    }

    #[test]
    fn what_fits_is_selected_in_one_pass() {
        let values = [40, 10, 20, 30];
        let (quantiles, passes) = selected(&values, vec![WantedQuantile::Quantile(0.5), WantedQuantile::Quantile(1.0)], 4);
        assert_eq!((quantiles[0].value(), quantiles[1].value(), passes), (Some(25.0), Some(40.0), 1));
        assert!(selected(&values, vec![WantedQuantile::Quantile(0.5)], 3).1 > 1);
    }

    #[test]
    fn ranks_that_fall_beyond_say_so() {
        let wants = |of| [0.5, 0.75, 1.0].map(|q| WantedQuantile::QuantileWithMissing { q, of }).to_vec();
        let values = [1, 2, 3];
        let (quantiles, _) = selected(&values, wants(3), 10);
        assert_eq!(quantiles.iter().map(|quantile| quantile.value()).collect::<Vec<_>>(), [Some(2.0), Some(2.5), Some(3.0)]);
        // With one failure among four: half-way between the second and the third, a quarter of the way from the third to the
        // failure.
        let (quantiles, _) = selected(&values, wants(4), 10);
        assert_eq!(
            (quantiles[0].value(), quantiles[1], quantiles[2]),
            (Some(2.5), SelectedQuantile::Beyond, SelectedQuantile::Beyond)
        );
        // With two failures among five: the third of five is the last success, and nothing of the way to the next is needed.
        assert_eq!(selected(&values, wants(5), 10).0[0].value(), Some(3.0));
        // 0.07 x 100 is above 7 in binary; the eighth of 101 is meant, without any part of the ninth.
        let seventh =
            |n| selected(&(0..n).collect::<Vec<i64>>(), vec![WantedQuantile::QuantileWithMissing { q: 0.07, of: 101 }], 200).0[0];
        assert_eq!((seventh(8).value(), seventh(7)), (Some(7.0), SelectedQuantile::Beyond));
        assert_eq!(selected(&[], wants(2), 10).0, [SelectedQuantile::Beyond; 3]);
        assert_eq!(selected(&[], wants(0), 10).0, [SelectedQuantile::Absent; 3]);
        assert_eq!(selected(&[1], vec![WantedQuantile::Quantile(1.5)], 10).0, [SelectedQuantile::Absent]);
    }

    #[test]
    fn classes_are_in_order_and_cover_everything() {
        let edges = [i64::MIN, i64::MIN + 1, -4096, -1025, -1024, -1, 0, 1, 1023, 1024, 1025, 2048, 1 << 40, i64::MAX];
        for value in edges {
            let (low, high) = bounds(class(value));
            assert!(low <= value && value <= high, "{value}");
            assert_eq!((class(low), class(high)), (class(value), class(value)));
        }
        assert!(edges.map(class).is_sorted() && class(i64::MAX) < 2 * HALF);
    }

    #[test]
    fn equal_samples_settle_however_many_they_are() {
        let (quantiles, passes) = selected(&vec![1_000_000_007; 5_000], quantiles(), 10);
        assert!(quantiles.iter().all(|quantile| quantile.value() == Some(1_000_000_007.0)));
        assert!(passes <= 4, "{passes}");
    }

    #[test]
    fn keys_keep_order_and_value() {
        let values = [f64::NEG_INFINITY, -1e9, -0.5, 0.0, 1e-300, 0.1, 33.333_333_333_333_336, 1e9, f64::INFINITY];
        assert!(values.map(encode_key).is_sorted());
        assert_eq!(values.map(|value| decode_key(encode_key(value)).to_bits()), values.map(f64::to_bits));
    }

    fn any_values() -> impl Strategy<Value = Vec<i64>> {
        let value = prop_oneof![any::<i64>(), -50_i64..50, 10_000_000_i64..10_050_000, Just(i64::MIN), Just(i64::MAX)];
        prop::collection::vec(value, 1..400)
    }

    proptest! {
        #[test]
        fn little_room_gives_what_sorting_gives(values in any_values(), room in 0_usize..500, beyond in 0_u64..50) {
            let of = values.len() as u64 + beyond;
            let with_failures = QS.into_iter().map(|q| WantedQuantile::QuantileWithMissing { q, of });
            let (quantiles, _) = selected(&values, quantiles().into_iter().chain(with_failures).collect(), room);
            let mut with_largest = values.clone();
            with_largest.extend(std::iter::repeat_n(i64::MAX, beyond as usize));
            let with_largest = quantiles_ns(&mut with_largest, &QS).expect("quantiles");
            let expected = quantiles_ns(&mut values.clone(), &QS).expect("quantiles");
            let found: Vec<f64> = quantiles.iter().take(QS.len()).filter_map(|quantile| quantile.value()).collect();
            prop_assert_eq!(found, expected);
            for (((quantile, twin), q), with_largest) in quantiles.iter().skip(QS.len()).zip(&quantiles).zip(QS).zip(with_largest) {
                // If no failure is needed, the values of failures do not matter.
                let needs_failure = (of - 1) as f64 * q > (values.len() - 1) as f64 + 1e-9;
                prop_assert_eq!(quantile.value().is_none(), needs_failure);
                if let (Some(value), Some(twin)) = (quantile.value(), twin.value()) {
                    prop_assert!(value >= twin, "{q}: {value} is below {twin}");
                    prop_assert!(value.total_cmp(&with_largest).is_eq() || (of - 1) as f64 * q % 1.0 > 0.0, "{q}");
                }
            }
        }

        #[test]
        fn a_weight_is_so_many_samples(weighted in prop::collection::vec((0_i64..100, 0_u64..6), 1..60), room in 0_usize..40) {
            let mut selection = Selection::new(quantiles(), room);
            let plain: Vec<i64> = weighted.iter().flat_map(|(value, times)| std::iter::repeat_n(*value, *times as usize)).collect();
            loop {
                for (value, times) in &weighted {
                    selection.add_times(*value, *times);
                }
                if selection.settle() {
                    break;
                }
            }
            prop_assert_eq!(selection.quantiles(), selected(&plain, quantiles(), 1_000).0);
        }
    }
}
