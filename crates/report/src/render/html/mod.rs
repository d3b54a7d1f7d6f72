//! The parts of an HTML page that all reports share: head, theme, sections, strip, commands and lists of pairs.

pub(crate) mod table;
pub(crate) mod writer;

use crate::render::strip::StripItem;

use writer::Writer;

/// A space as wide as a tabular digit.
pub(crate) const FIGURE_SPACE: char = '\u{2007}';

/// A space as wide as a decimal point.
pub(crate) const PUNCTUATION_SPACE: char = '\u{2008}';

/// The target size of the page, in bytes: it opens at once, and the last row, however long, does not take it over two megabytes.
pub(crate) const MAX_PAGE: usize = 1_900_000;

/// The style sheet of all pages.
pub(crate) const STYLE: &str = include_str!("style.css");

/// The page's content security policy: nothing may be fetched, nothing may run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Writes the page's head: title, style sheet, and the policy that forbids fetching and running anything.
pub(crate) fn head(page: &mut Writer, title: &str, css: &'static str) {
    page.void("meta", &[("charset", "utf-8")]);
    page.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
    page.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    page.leaf("title", &[], title);
    page.style(css);
}

/// Writes the choice of the light or dark theme: the system's, or the reader's by radio buttons, which need no script.
pub(crate) fn theme(page: &mut Writer) {
    page.element("fieldset", &[("class", "theme")], |page| {
        page.leaf("legend", &[], "Theme");
        for (id, name) in [("theme-auto", "Auto"), ("theme-light", "Light"), ("theme-dark", "Dark")] {
            page.element("label", &[("for", id)], |page| {
                let attributes = [("type", "radio"), ("name", "theme"), ("id", id)];
                match id {
                    "theme-auto" => page.void("input", &[attributes[0], attributes[1], attributes[2], ("checked", "")]),
                    _ => page.void("input", &attributes),
                }
                page.text(name);
            });
        }
    });
}

/// Writes a section: its heading, then what `inside` writes.
pub(crate) fn section(page: &mut Writer, id: &str, title: &str, inside: impl FnOnce(&mut Writer)) {
    page.newline();
    page.element("section", &[("id", id)], |page| {
        page.leaf("h2", &[], title);
        inside(page);
    });
}

/// Writes content that is folded until the reader opens it: a summary, then what `inside` writes.
pub(crate) fn folded(page: &mut Writer, summary: &str, inside: impl FnOnce(&mut Writer)) {
    page.element("details", &[], |page| {
        page.leaf("summary", &[], summary);
        inside(page);
    });
}

/// Writes an item of the strip. A caution has a mark and its own words; the colour only repeats them.
pub(crate) fn strip_item(page: &mut Writer, item: &StripItem) {
    let class = if item.caution { "item caution" } else { "item" };
    page.element("div", &[("class", class)], |page| {
        page.leaf("dt", &[], item.label);
        page.element("dd", &[], |page| {
            page.element("p", &[("class", "headline")], |page| {
                if item.caution {
                    page.leaf("span", &[("class", "mark"), ("role", "img"), ("aria-label", "caution")], "!");
                }
                page.prose(&item.headline);
            });
            for detail in item.first_details() {
                page.element("p", &[("class", "quiet")], |page| page.prose(&detail));
            }
        });
    });
}

/// Writes a command to copy: one click selects all of it.
pub(crate) fn command_line(page: &mut Writer, command: &str) {
    page.element("pre", &[("class", "command"), ("tabindex", "0")], |page| page.leaf("code", &[], command));
}

/// The typography of a value: words, or characters to compare one by one.
#[derive(Clone, Copy)]
pub(crate) enum Typeface {
    Text,
    Code,
}

/// Writes labels with their values.
pub(crate) fn pairs<'a>(page: &mut Writer, pairs: impl IntoIterator<Item = (&'a str, &'a str, Typeface)>) {
    page.element("dl", &[("class", "pairs")], |page| {
        for (label, text, face) in pairs {
            page.leaf("dt", &[], label);
            match face {
                Typeface::Text => page.element("dd", &[], |page| page.prose(text)),
                Typeface::Code => page.element("dd", &[], |page| page.leaf("code", &[], text)),
            }
        }
    });
}
