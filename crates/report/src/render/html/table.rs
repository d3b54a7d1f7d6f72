//! Tables of HTML pages.

use super::writer::Writer;
use super::{FIGURE_SPACE, PUNCTUATION_SPACE};
use crate::render::text::align_points;

/// Writes a table that scrolls sideways: its columns, each with a mark for numbers, and the rows that `rows` writes.
pub(crate) fn scrolling_table(page: &mut Writer, class: &str, columns: &[(&str, bool)], rows: impl FnOnce(&mut Writer)) {
    page.element("div", &[("class", "scroll"), ("tabindex", "0")], |page| {
        page.element("table", &[("class", class)], |page| {
            page.element("thead", &[], |page| {
                page.element("tr", &[], |page| {
                    for (title, is_number) in columns {
                        page.leaf("th", &[("scope", "col"), ("class", if *is_number { "n" } else { "" })], title);
                    }
                });
            });
            page.element("tbody", &[], rows);
        });
    });
}

/// Writes a picture's data, folded: the alternative for readers who cannot or do not want to see the picture.
pub(crate) fn data_table(page: &mut Writer, titles: &[(String, &'static str)], rows: &[Vec<String>]) {
    let mut columns: Vec<Vec<String>> =
        (0..titles.len()).map(|place| rows.iter().filter_map(|row| row.get(place).cloned()).collect()).collect();
    for (column, (_, class)) in columns.iter_mut().zip(titles) {
        if *class == "n" {
            *column = align_points(column, FIGURE_SPACE, PUNCTUATION_SPACE);
        }
    }
    page.element("details", &[], |page| {
        page.leaf("summary", &[], "Data as a table");
        page.element(
            "div",
            &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", "Data of the figure")],
            |page| {
                page.element("table", &[], |page| {
                    page.element("thead", &[], |page| {
                        page.element("tr", &[], |page| {
                            for (title, class) in titles {
                                page.leaf("th", &[("scope", "col"), ("class", class)], title);
                            }
                        });
                    });
                    page.element("tbody", &[], |page| {
                        for row in 0..rows.len() {
                            page.element("tr", &[], |page| {
                                for (column, (_, class)) in columns.iter().zip(titles) {
                                    let text = column.get(row).map_or("", String::as_str);
                                    if class.is_empty() {
                                        page.leaf("td", &[], text);
                                    } else {
                                        page.leaf("td", &[("class", class)], text);
                                    }
                                }
                            });
                        }
                    });
                });
            },
        );
    });
}
