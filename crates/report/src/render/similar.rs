//! Texts that differ only in their numbers, merged into one text with the range of each number.

use std::collections::BTreeMap;

/// A text split at its numbers: the words, which begin and end it, and the numbers between them.
struct Split<'a> {
    words: Vec<&'a str>,
    numbers: Vec<&'a str>,
}

/// Returns one text for all texts that differ only in their numbers, in the order of the first of each: `60 to 812 ms`.
pub(crate) fn merge_similar<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut places: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    let mut merged: Vec<(Vec<&str>, Vec<Range<'_>>)> = Vec::new();
    for Split { words, numbers } in texts.into_iter().map(split) {
        let place = *places.entry(words.clone()).or_insert(merged.len());
        match merged.get_mut(place) {
            Some((_, ranges)) => ranges.iter_mut().zip(numbers).for_each(|(range, number)| range.add(number)),
            None => merged.push((words, numbers.into_iter().map(Range::new).collect())),
        }
    }
    merged.into_iter().map(|(words, ranges)| join(&words, &ranges)).collect()
}

/// The smallest and the largest of some numbers, as they are written.
struct Range<'a> {
    least: &'a str,
    most: &'a str,
}

impl<'a> Range<'a> {
    fn new(number: &'a str) -> Self {
        Self { least: number, most: number }
    }

    fn add(&mut self, number: &'a str) {
        if value(number) < value(self.least) {
            self.least = number;
        }
        if value(number) > value(self.most) {
            self.most = number;
        }
    }

    fn text(&self) -> String {
        if self.least == self.most { self.least.to_owned() } else { format!("{} to {}", self.least, self.most) }
    }
}

fn value(number: &str) -> f64 {
    number.replace(',', "").parse().unwrap_or(0.0)
}

fn join(words: &[&str], ranges: &[Range<'_>]) -> String {
    let mut text = String::new();
    for (place, words) in words.iter().enumerate() {
        text.push_str(words);
        text.push_str(&ranges.get(place).map(Range::text).unwrap_or_default());
    }
    text
}

/// Splits a text at its numbers, such as `812`, `10,400` and `1.25`. Digits within a name, a version, a date or an address are words.
fn split(text: &str) -> Split<'_> {
    let mut split = Split { words: Vec::new(), numbers: Vec::new() };
    let (mut word_start, mut at) = (0, 0);
    while let Some(length) = text.get(at..).and_then(|rest| rest.find(|character: char| character.is_ascii_digit())) {
        let start = at + length;
        let end = end_of_number(text, start);
        if is_apart(text, start, end) {
            split.words.push(text.get(word_start..start).unwrap_or_default());
            split.numbers.push(text.get(start..end).unwrap_or_default());
            word_start = end;
        }
        at = end;
    }
    split.words.push(text.get(word_start..).unwrap_or_default());
    split
}

/// Returns the end of the number that begins at `start`: digits, and points and commas that have digits on both sides.
fn end_of_number(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let is_digit = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_digit);
    let is_mark = |place: usize| matches!(bytes.get(place), Some(b'.' | b',')) && is_digit(place + 1);
    (start..text.len()).find(|place| !is_digit(*place) && !is_mark(*place)).unwrap_or(text.len())
}

/// Returns true if neither neighbour of a number belongs to it.
fn is_apart(text: &str, start: usize, end: usize) -> bool {
    let belongs = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '/' | ':');
    let (before, after) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    // A point or colon may end a sentence or a clause.
    let mut rest = after.chars();
    let follows = match rest.next() {
        Some('.' | ':') => rest.next().is_some_and(belongs),
        next => next.is_some_and(belongs),
    };
    let is_one = text.get(start..end).is_some_and(|number| number.matches('.').count() < 2);
    is_one && !before.chars().next_back().is_some_and(belongs) && !follows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_numbers_are_one_with_their_ranges() {
        let merged = |texts: &[&str]| merge_similar(texts.iter().copied());
        assert_eq!(merged(&["stopped after 20.0 s", "stopped after 20.0 s"]), ["stopped after 20.0 s"]);
        assert_eq!(
            merged(&["9.6 % of 1,200 requests", "12 % of 80 requests", "10.1 % of 900 requests"]),
            ["9.6 to 12 % of 80 to 1,200 requests"]
        );
        assert_eq!(merged(&["late by 3 ms.", "early by 3 ms.", "late by 1 ms."]), ["late by 1 to 3 ms.", "early by 3 ms."]);
        assert_eq!(merged(&["", ""]), [""]);
        assert_eq!(merged(&[]), [""; 0]);
    }

    #[test]
    fn digits_of_names_are_no_numbers() {
        for (one, other) in [
            ("`t1` failed", "`t2` failed"),
            ("at 10.0.0.1:80", "at 10.0.0.2:80"),
            ("on 2026-11-20", "on 2026-11-21"),
            ("v1.2.3", "v1.2.4"),
            ("shard-1", "shard-2"),
            ("60s", "61s"),
        ] {
            assert_eq!(merge_similar([one, other]), [one, other]);
        }
        assert_eq!(merge_similar(["expected 5: 3 found", "expected 5: 4 found"]), ["expected 5: 3 to 4 found"]);
        assert_eq!(merge_similar(["ä 1 ö", "ä 22 ö"]), ["ä 1 to 22 ö"]);
    }
}
