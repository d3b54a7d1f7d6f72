//! Cleans untrusted text for display: names, units and reasons come from pull requests and measured programs.

use crate::render::number::grouped;

/// Maximum length of a text in a report, in characters; a longer one is cut and ends with an ellipsis.
pub(crate) const MAX_TEXT: usize = 400;

/// Maximum length of a frozen spec in a report, in characters.
pub(crate) const MAX_SPEC: usize = 40_000;

/// Returns one line of at most [`MAX_TEXT`] characters without invisible ones: characters that control a terminal or change the
/// direction of reading are written as their code points.
pub(crate) fn clean(text: &str) -> String {
    clip(&visible(text, false), MAX_TEXT)
}

/// Cleans a text of several lines as [`clean`] does.
pub(crate) fn clean_lines(text: &str) -> String {
    clip(&visible(text, true), MAX_SPEC)
}

fn visible(text: &str, lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    // Bounded before the work, not after it: characters that are cut later need not be escaped now.
    for character in text.chars().take(MAX_SPEC + 1) {
        match character {
            '\n' if lines => shown.push('\n'),
            '\n' | '\t' => shown.push(' '),
            hidden if is_hidden(hidden) => shown.extend(hidden.escape_unicode()),
            plain => shown.push(plain),
        }
    }
    shown
}

/// Returns true for control characters, marks that reorder text, and characters without a shape.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(character, '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns `text`, cut to `limit` characters with an ellipsis as the last.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

/// Returns the first twelve characters of a commit: enough to find it and to tell it from other commits.
pub fn short_commit(commit: &str) -> String {
    clean(commit).chars().take(12).collect()
}

/// Returns the number of terminal columns of `text`: two for East Asian wide characters and pictographs, none for combining marks.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(character_columns).sum()
}

fn character_columns(character: char) -> usize {
    match character {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' | '\u{20d0}'..='\u{20ff}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Returns `text`, cut to `limit` terminal columns with an ellipsis as the last.
pub(crate) fn fit(text: &str, limit: usize) -> String {
    if columns(text) <= limit {
        return text.to_owned();
    }
    let mut room = limit.saturating_sub(1);
    let kept = text.chars().take_while(|character| {
        let fits = character_columns(*character) <= room;
        room = room.saturating_sub(character_columns(*character));
        fits
    });
    kept.chain(['…']).collect()
}

/// Breaks `text` at spaces into lines of at most `limit` terminal columns. A longer word gets a line of its own.
pub(crate) fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    // A number and its percent sign stay together.
    let glued = text.replace(" %", "\u{a0}%");
    for word in glued.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > limit {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word.replace('\u{a0}', " "));
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Returns the numbers of a column, padded so that their decimal points align. `digit` and `point` are the characters that replace a
/// missing digit and a missing point.
pub(crate) fn align_points(numbers: &[String], digit: char, point: char) -> Vec<String> {
    // Only numbers are padded: an absence is text, and stays at the right edge.
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '<'));
    let fraction = |text: &str| text.find('.').filter(|_| is_number(text)).map_or(0, |dot| text.len() - dot - 1);
    let widest = numbers.iter().map(|text| fraction(text)).max().unwrap_or(0);
    let pad = |text: &String| {
        if widest == 0 || !is_number(text) {
            return text.clone();
        }
        let missing = widest - fraction(text);
        let dot = if text.contains('.') { String::new() } else { point.to_string() };
        format!("{text}{dot}{}", digit.to_string().repeat(missing))
    };
    numbers.iter().map(pad).collect()
}

/// Returns relative deviations as a row of bars: the lowest for `-swing`, the middle for 0 and the highest for `+swing`. If there are
/// more than `limit`, evenly spaced ones are shown.
pub(crate) fn trials_glyphs(deviations: &[f64], swing: f64, limit: usize) -> String {
    const BARS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
    let bar = |deviation: &f64| {
        let height = f64::midpoint((deviation / swing).clamp(-1.0, 1.0), 1.0) * (BARS.len() - 1) as f64;
        BARS.get(height.round() as usize).copied().unwrap_or('?')
    };
    let shown = deviations.len().min(limit);
    let spread = |index: usize| deviations.get(index * deviations.len() / shown.max(1));
    (0..shown).filter_map(spread).map(bar).collect()
}

/// Maximum number of names in a sentence.
const MAX_NAMES: usize = 3;

/// Returns the first few names of a list, and the number of further ones: `a, b, c and 2 more`.
pub(crate) fn first_names<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns `count` with its noun: `1 trial`, `5 trials`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// Returns a phrase for all of `count`: `the only trial`, `all 5 trials`.
pub(crate) fn all_of(count: impl Into<u64>, noun: &str) -> String {
    match count.into() {
        1 => format!("the only {noun}"),
        count => format!("all {}", counted(count, noun)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out() {
        assert_eq!(clean("a\u{1b}[31mb\r\n\tc"), "a\\u{1b}[31mb\\u{d}  c");
        assert_eq!(clean("abc\u{202e}fed\u{200b}"), "abc\\u{202e}fed\\u{200b}");
        assert_eq!(clean_lines("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn a_long_text_says_that_it_was_cut() {
        let long = clean(&"x".repeat(MAX_TEXT + 1));
        assert_eq!(long.chars().count(), MAX_TEXT);
        assert!(long.ends_with('…'));
        assert_eq!(clean(&"x".repeat(MAX_TEXT)), "x".repeat(MAX_TEXT));
    }

    #[test]
    fn columns_count_what_a_terminal_shows() {
        assert_eq!([columns("abc"), columns("日本"), columns("e\u{301}")], [3, 4, 1]);
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("abcd", 4), "abcd");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("unbreakable a", 4), ["unbreakable", "a"]);
        assert_eq!(wrap("about 5 % of it", 8), ["about", "5 % of", "it"]);
        assert!(wrap("", 4).is_empty());
    }

    #[test]
    fn bars_are_level_where_trials_agree() {
        assert_eq!(trials_glyphs(&[0.0, 0.001, -0.001], 0.05, 12), "▄▄▄");
        assert_eq!(trials_glyphs(&[-0.1, 0.0, 0.1, 0.5], 0.1, 12), "▁▄▇▇");
        assert_eq!(trials_glyphs(&[0.0; 100], 0.1, 12).chars().count(), 12);
        assert_eq!(trials_glyphs(&[f64::NAN], 0.1, 12), "▁");
        assert_eq!(trials_glyphs(&[], 0.1, 12), "");
    }

    #[test]
    fn one_of_a_kind_is_no_plural() {
        assert_eq!(
            [0_u64, 1, 2, 10_400].map(|count| counted(count, "trial")),
            ["0 trials", "1 trial", "2 trials", "10,400 trials"]
        );
        assert_eq!([1_u64, 5].map(|count| all_of(count, "trial")), ["the only trial", "all 5 trials"]);
    }

    #[test]
    fn points_stand_under_each_other() {
        let column = ["12.3", "4", "-0.125", "absent"].map(str::to_owned);
        assert_eq!(align_points(&column, '_', '~'), ["12.3__", "4~___", "-0.125", "absent"]);
        assert_eq!(align_points(&["1".to_owned(), "no. 1.25".to_owned()], '_', '~')[0], "1");
    }
}
