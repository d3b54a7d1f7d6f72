//! Histories as one HTML page: no scripts, no requests, readable from a phone to a wall display and on paper.

mod chart;
mod table;

use crate::history::model::{Report, Series, Subject};
use crate::history::phrases;
use crate::render::command::{shell_word, store_option};
use crate::render::html::writer::Writer;
use crate::render::html::{MAX_PAGE, command_line, head, section, strip_item, theme};
use crate::render::number::level;
use crate::render::strip::StripItem;
use crate::render::text::counted;

use chart::chart;

/// The style of all pages, and the additions for a history.
const STYLE: &str = concat!(include_str!("../../render/html/style.css"), include_str!("style.css"));

/// Maximum number of sentences at the top; the sections have the rest.
const MAX_SENTENCES: usize = 12;

/// Maximum size of what follows the histories, in bytes: the histories leave room for it.
const FOOTER_BYTES: usize = 20_000;

/// A history with its place among all histories of the report, which gives its section's id.
type PlacedSeries<'a> = (usize, &'a Series);

impl Report {
    /// Returns the histories as a self-contained HTML page below two megabytes: first those that changed with their newest runs, then
    /// those that changed before, were not searched, and did not change. Omissions are counted on the page.
    pub fn html(&self) -> String {
        let mut page = Writer::doctype();
        page.element("html", &[("lang", "en")], |page| {
            page.element("head", &[], |page| head(page, &format!("History: {}", self.summary_text()), STYLE));
            page.element("body", &[], |page| page.element("main", &[], |page| self.main(page)));
        });
        page.newline();
        page.finish()
    }

    fn main(&self, page: &mut Writer) {
        let all = self.most_interesting_first();
        self.header(page, &all);
        section(page, "state", "State", |page| {
            page.element("dl", &[("class", "strip-items")], |page| self.strip().iter().for_each(|item| strip_item(page, item)));
        });
        sections(page, &all);
        section(page, "check", "How to check", |page| self.check(page, &all));
        section(page, "fine-print", "Fine print", |page| self.fine_print(page));
    }

    /// Returns the number of histories whose level moved: `2 of 5 metrics moved`.
    fn summary_text(&self) -> String {
        let moved = self.series.iter().filter(|series| !series.all_changes().is_empty()).count();
        format!("{moved} of {} moved", counted(self.series.len() as u64, "metric"))
    }

    fn most_interesting_first(&self) -> Vec<PlacedSeries<'_>> {
        let mut all: Vec<PlacedSeries<'_>> = self.series.iter().enumerate().collect();
        all.sort_by_key(|(_, series)| sort_key(series));
        all
    }

    fn header(&self, page: &mut Writer, all: &[PlacedSeries<'_>]) {
        page.element("header", &[], |page| {
            theme(page);
            match &self.origin {
                None => page.leaf("p", &[("class", "eyebrow")], "History"),
                Some(origin) => page.element("p", &[("class", "eyebrow")], |page| page.leaf("strong", &[], origin)),
            }
            page.leaf("h1", &[], &self.summary_text());
            let moved = all.iter().filter(|(_, series)| !series.all_changes().is_empty());
            page.element("ul", &[("class", "sentences")], |page| {
                moved.clone().take(MAX_SENTENCES).for_each(|placed| first_line(page, *placed));
                if moved.clone().count() == 0 {
                    page.leaf("li", &[], "No change of level was found.");
                }
            });
            if let Some(more) = moved.count().checked_sub(MAX_SENTENCES).filter(|more| *more > 0) {
                page.leaf("p", &[("class", "quiet")], &format!("And {more} more below."));
            }
        });
    }

    fn strip(&self) -> Vec<StripItem> {
        let count = |of: &dyn Fn(&Series) -> bool| self.series.iter().filter(|series| of(series)).count() as u64;
        let news = count(&|series| series.newest_change.is_some());
        let environment = self
            .series
            .iter()
            .map(|series| series.all_changes().iter().filter(|at| phrases::environment_note(series, at).is_some()).count());
        let environment = environment.sum::<usize>() as u64;
        let unsearched = count(&|series| series.changes.is_err());
        let other_work: u64 = self.series.iter().map(|series| series.other_work).sum();
        let is_foreign = self.origin.is_some();
        let or_none = |count: u64, some: String| if count == 0 { "none".to_owned() } else { some };
        vec![
            StripItem::new(
                "Newest runs",
                news > 0,
                if news == 0 { "as the runs before".to_owned() } else { format!("changed {}", counted(news, "metric")) },
                Vec::new(),
            ),
            StripItem::new(
                "Environment",
                environment > 0,
                if environment == 0 {
                    "moved no level".to_owned()
                } else {
                    format!("{} moved with it", counted(environment, "level"))
                },
                vec![
                    if is_foreign {
                        "a change with another version of the tool may be that of the tool; a change of the machine is not known"
                    } else {
                        "a change with other hardware or software may be none of what is measured"
                    }
                    .to_owned(),
                ],
            ),
            StripItem::new(
                "Not searched",
                unsearched > 0,
                or_none(unsearched, counted(unsearched, "metric")),
                (unsearched > 0).then(|| "each says why".to_owned()).into_iter().collect(),
            ),
            StripItem::new(
                "Left out",
                false,
                or_none(
                    other_work,
                    if is_foreign {
                        format!("{} of another statistic", counted(other_work, "value"))
                    } else {
                        format!("{} of other work", counted(other_work, "value"))
                    },
                ),
                vec![
                    if is_foreign {
                        "only values of one statistic are comparable"
                    } else {
                        "only runs of the newest workload are comparable"
                    }
                    .to_owned(),
                ],
            ),
            StripItem::new(
                "Decides",
                false,
                "nothing".to_owned(),
                vec!["between two days the machine may have changed: a paired run tells".to_owned()],
            ),
        ]
    }

    fn check(&self, page: &mut Writer, all: &[PlacedSeries<'_>]) {
        let how = match self.origin {
            None => {
                "Every value walks back by digest and signature to the bytes that it came from; the tables of runs have its row."
            }
            Some(_) => {
                "Every value is in the signed import of a file of the tool. To verify one reads the file again; nothing shows that the measurement was right."
            }
        };
        page.leaf("p", &[], how);
        let moved = all.iter().filter_map(|(_, series)| {
            let first = series.all_changes().last().map_or(series.runs.len().saturating_sub(1), |change| change.index);
            Some((*series, series.runs.get(first)?))
        });
        let Some((series, run)) = moved.clone().next() else { return };
        let store = store_option(self.store.as_deref());
        if let Some(address) = &run.address {
            command_line(page, &self.trace_command(address));
        }
        let verified = run.evidence.map_or_else(|| run.id.clone(), |evidence| evidence.to_string());
        command_line(page, &format!("assay verify {}{store}", shell_word(&verified)));
        let metric = shell_word(&series.metric);
        command_line(
            page,
            &match &series.subject {
                Subject::Point { case, point, .. } => {
                    format!("assay history {metric} --case {} --point {}{store}", shell_word(case), shell_word(point))
                }
                Subject::Foreign { .. } => format!("assay history --foreign {metric}{store}"),
            },
        );
    }

    fn fine_print(&self, page: &mut Writer) {
        let search = format!(
            "E-divisive means with a permutation test, corrected for the search and for the memory of a machine: an unchanged history raises any \
             change with a probability of {}. A change needs three runs on either side. Only the level is watched, not the spread.",
            level(self.level)
        );
        let is_foreign = self.origin.is_some();
        let of = |own: &'static str, foreign: &'static str| if is_foreign { foreign } else { own };
        let items = [
            (
                "Value",
                of(
                    "The median over a run's counted trials, as its signed Summary has it.",
                    "The number that the tool states. Each piece of evidence counts as one run of the tool, and their order is that of the imports.",
                ),
            ),
            (
                "Level",
                "The median of the runs between two changes. The levels in the table of changes are the search's own, which looks at a hundred runs at a time.",
            ),
            ("Search", search.as_str()),
            (
                "Interval",
                "An approximate 95 % interval of the change. It takes the place as known, and is too narrow right after a change was found.",
            ),
            ("p", "The probability of so clear a split where nothing changed, corrected for the search over all places."),
            (
                "Environment",
                of(
                    "The digests of hardware and software that a run's rows name; a diamond stands where they differ from those of the run before.",
                    "The version of the tool, if its files state one; a diamond stands where it differs from that of the run before. The files do not show a change of the machine.",
                ),
            ),
            (
                "What it represents",
                of(
                    "These runs on their machines at their times. Times are asserted by the signers; no independent clock has stamped them.",
                    "The files that importers chose. Days are those of the imports, by the clocks of the importers.",
                ),
            ),
        ];
        page.element("dl", &[("class", "fine")], |page| {
            for (label, text) in items {
                page.leaf("dt", &[], label);
                page.leaf("dd", &[], text);
            }
        });
    }
}

/// The level of detail of a history on a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Full,
    /// Without the table of runs.
    Picture,
    /// Without the picture and the table.
    Sentence,
}

impl Detail {
    fn reduced(self) -> Self {
        match self {
            Self::Full => Self::Picture,
            Self::Picture | Self::Sentence => Self::Sentence,
        }
    }
}

/// Writes one section for each history, in full while there is room, then without the runs, then only the sentence, for which room is
/// reserved.
fn sections(page: &mut Writer, all: &[PlacedSeries<'_>]) {
    let end = MAX_PAGE - FOOTER_BYTES;
    let sentences: Vec<Writer> = all.iter().map(|placed| piece(*placed, Detail::Sentence)).collect();
    let mut reserved: usize = sentences.iter().map(Writer::len).sum();
    let (mut detail, mut shortened, mut left_out) = (Detail::Full, 0_u64, 0_u64);
    for (placed, sentence) in all.iter().zip(sentences) {
        reserved -= sentence.len();
        // If the sentences alone would fill the page, the first histories still have their pictures.
        let room = end - reserved.min(end / 2);
        while detail != Detail::Sentence {
            let piece = piece(*placed, detail);
            if page.len() + piece.len() <= room {
                page.append(piece);
                break;
            }
            // Later histories are less interesting: they get no more detail than this.
            detail = detail.reduced();
        }
        if detail == Detail::Sentence && page.len() + sentence.len() <= end {
            page.append(sentence);
            shortened += 1;
        } else if detail == Detail::Sentence {
            left_out += 1;
        } else {
            shortened += u64::from(detail != Detail::Full);
        }
    }
    if shortened + left_out > 0 {
        let text = format!(
            "To keep this page small, {} without a picture or the table of runs, and {} left out. `assay history --json` has all.",
            counted(shortened, "metric"),
            counted(left_out, "metric")
        );
        page.element("p", &[("class", "quiet note")], |page| page.prose(&text));
    }
}

fn piece(placed: PlacedSeries<'_>, detail: Detail) -> Writer {
    let mut piece = Writer::default();
    write_section(&mut piece, placed, detail);
    piece
}

/// Writes a history: its result, its picture, its changes, and its runs.
fn write_section(page: &mut Writer, (place, series): PlacedSeries<'_>, detail: Detail) {
    page.newline();
    page.element("section", &[("id", &format!("s-{place}")), ("class", "history")], |page| {
        page.element("h2", &[], |page| {
            page.prose(&phrases::sentence(series));
            page.element("span", &[("class", "quiet")], |page| page.prose(&series.name()));
        });
        if detail == Detail::Sentence {
            return;
        }
        page.element("figure", &[], |page| chart(page, series));
        table::changes(page, series);
        for text in phrases::ambiguous_lines(series) {
            page.element("p", &[("class", "note")], |page| page.prose(&format!("{}.", capitalized(&text))));
        }
        if let Some(text) = phrases::omission_note(series) {
            page.leaf("p", &[("class", "note quiet")], &format!("{text}."));
        }
        if detail == Detail::Full {
            table::runs(page, series);
        }
    });
}

/// Returns the sort key of a history: the most interesting first.
fn sort_key(series: &Series) -> u8 {
    match (&series.newest_change, &series.changes) {
        (Some(_), _) => 0,
        (None, Ok(changes)) if !changes.is_empty() => 1,
        (None, Err(_)) => 2,
        (None, Ok(_)) => 3,
    }
}

/// Writes the sentence of a history whose level moved, with a link to its section.
fn first_line(page: &mut Writer, (place, series): PlacedSeries<'_>) {
    page.element("li", &[], |page| {
        let name = series.name().replace('`', "");
        page.leaf("a", &[("class", "number followed-metric"), ("href", &format!("#s-{place}"))], &name);
        page.text(": ");
        page.prose(&uncapitalized(&phrases::sentence(series)));
        page.text(".");
    });
}

/// Returns the sentence with a capital first letter, for use by itself.
fn capitalized(sentence: &str) -> String {
    with_first_letter(sentence, |letter| letter.to_uppercase().collect())
}

/// Returns the sentence with a small first letter, for use after a colon.
fn uncapitalized(sentence: &str) -> String {
    with_first_letter(sentence, |letter| letter.to_lowercase().collect())
}

fn with_first_letter(sentence: &str, change: impl Fn(char) -> String) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| change(first) + letters.as_str()).unwrap_or_default()
}
