//! Text for a terminal: lines and paragraphs that fit its width, the state strip, and tables.

pub(crate) mod table;

use crate::render::strip::StripItem;
use crate::render::text::{columns, wrap};

/// The smallest width of the layout: below it nothing useful fits, so the terminal wraps the text.
const MIN_WIDTH: usize = 40;

/// The emphasis of a text. Colour only repeats what the words say.
#[derive(Clone, Copy)]
pub(crate) enum Paint {
    Plain,
    Strong,
    Faint,
    Caution,
}

/// The text written so far, with the width and colour of the terminal.
pub(crate) struct Screen {
    pub(crate) out: String,
    pub(crate) width: usize,
    color: bool,
}

impl Screen {
    /// Returns an empty screen of `width` columns, at least [`MIN_WIDTH`].
    pub(crate) fn new(width: usize, color: bool) -> Self {
        Self { out: String::new(), width: width.max(MIN_WIDTH), color }
    }

    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Caution => "33",
            Paint::Plain => return text.to_owned(),
        };
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Writes `text` in the given paint, wrapped; `first` begins its first line, and as many spaces begin the other lines.
    pub(crate) fn paragraph(&mut self, first: &str, text: &str, paint: Paint) {
        let indent = " ".repeat(columns(first));
        for (index, line) in wrap(text, self.width.saturating_sub(columns(first))).iter().enumerate() {
            let start = if index == 0 { first } else { &indent };
            let painted = self.paint(paint, line);
            self.line(&format!("{start}{painted}"));
        }
    }

    /// Writes the state strip: the first details of each item, or all of them.
    pub(crate) fn strip(&mut self, items: &[StripItem], has_all_details: bool) {
        self.line("");
        let label_width = items.iter().map(|item| columns(item.label)).max().unwrap_or(0);
        for item in items {
            let paint = if item.caution { Paint::Caution } else { Paint::Plain };
            let mark = if item.caution { "!" } else { " " };
            let label = format!("{mark} {:<label_width$}  ", item.label);
            self.paragraph(&label, &item.headline, paint);
            let details = if has_all_details { item.details.clone() } else { item.first_details().collect() };
            self.paragraph(&" ".repeat(columns(&label)), &details.join(" · "), Paint::Faint);
        }
    }
}
