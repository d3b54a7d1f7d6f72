//! A text with a size limit: sections in reading order, of which the least important are left out first, with a note about it.

use crate::render::text::counted;

/// Maximum size of the note on what is left out, in bytes.
const NOTE: usize = 400;

/// A part of a text. Its opening and closing text is written only if at least one row is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// Sections with a higher rank are left out first.
    pub(crate) rank: u8,
    /// The noun for rows that are left out: `unchanged metric`.
    pub(crate) noun: &'static str,
    pub(crate) open: String,
    pub(crate) rows: Vec<String>,
    pub(crate) close: String,
}

impl Section {
    fn size(&self, rows: usize) -> usize {
        let rows: usize = self.rows.iter().take(rows).map(String::len).sum();
        self.open.len() + rows + self.close.len()
    }

    /// Returns the number of rows that fit into `room` bytes.
    fn count_fitting(&self, room: usize) -> usize {
        let mut used = self.open.len() + self.close.len();
        let fits = |row: &&String| {
            used += row.len();
            used <= room
        };
        self.rows.iter().take_while(fits).count()
    }

    fn write(&self, out: &mut String, rows: usize) {
        if rows > 0 {
            out.push_str(&self.open);
            self.rows.iter().take(rows).for_each(|row| out.push_str(row));
            out.push_str(&self.close);
        }
    }
}

/// Returns the sections within `limit` bytes, with a note at the end on what is left out; `None` if not even the most important one
/// fits.
pub(crate) fn join_within(sections: &[Section], limit: usize) -> Option<String> {
    let whole: usize = sections.iter().map(|section| section.size(section.rows.len())).sum();
    let room = if whole <= limit { limit } else { limit.checked_sub(NOTE)? };
    let shown = shown_rows(sections, room);
    let mut out = String::with_capacity(room);
    for (section, rows) in sections.iter().zip(&shown) {
        section.write(&mut out, *rows);
    }
    let note = omission_note(sections, &shown);
    (!out.is_empty()).then(|| out + &note)
}

/// Returns the number of rows of each section to show within `room` bytes. All sections ranked after the first cut are left out, so
/// that the reader knows that the more important ones are complete.
fn shown_rows(sections: &[Section], room: usize) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..sections.len()).collect();
    by_rank.sort_by_key(|place| sections.get(*place).map(|section| section.rank));
    let mut shown = vec![0; sections.len()];
    let mut left = room;
    for place in by_rank {
        let Some((section, shown)) = sections.get(place).zip(shown.get_mut(place)) else { continue };
        *shown = section.count_fitting(left);
        if *shown > 0 {
            left = left.saturating_sub(section.size(*shown));
        }
        if *shown < section.rows.len() {
            break;
        }
    }
    shown
}

/// `Left out here: 940 unchanged metrics, 12 other metrics.`
fn omission_note(sections: &[Section], shown: &[usize]) -> String {
    let missing = sections.iter().zip(shown).filter_map(|(section, shown)| {
        let missing = section.rows.len() - shown;
        (missing > 0).then(|| counted(missing as u64, section.noun))
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return String::new();
    }
    let mut note = format!("\nLeft out to keep this small: {}. The page has all of it.\n", missing.join(", "));
    // The nouns are constants of this crate and short; the limit holds regardless of their length.
    note.truncate(NOTE);
    note
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn section(rank: u8, noun: &'static str, rows: usize) -> Section {
        let rows = (0..rows).map(|row| format!("{noun} {row}\n")).collect();
        Section { rank, noun, open: format!("<{noun}>\n"), rows, close: format!("</{noun}>\n") }
    }

    #[test]
    fn the_least_important_gives_way_and_is_counted() {
        let sections = [section(0, "verdict", 1), section(2, "unchanged metric", 100), section(1, "regression", 3)];
        let whole = join_within(&sections, 100_000).expect("it fits");
        assert!(whole.ends_with("</regression>\n"), "in reading order, and without a note");
        let text = join_within(&sections, 600).expect("some of it fits");
        assert!(text.contains("regression 2"));
        insta::assert_snapshot!(text.lines().last().unwrap_or_default(), @"Left out to keep this small: 97 unchanged metrics. The page has all of it.");
        assert_eq!(join_within(&sections, 10), None);
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_whatever_opens_is_closed(limit in 0..3_000usize, sizes in prop::collection::vec(0..40usize, 1..6)) {
            let sections: Vec<Section> = (0_u8..).zip(&sizes).map(|(rank, rows)| section(rank % 3, "row", *rows)).collect();
            let text = join_within(&sections, limit).unwrap_or_default();
            prop_assert!(text.len() <= limit);
            prop_assert_eq!(text.matches("<row>").count(), text.matches("</row>").count());
        }
    }
}
