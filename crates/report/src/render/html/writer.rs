//! Writes HTML that is well formed and escaped by construction: tag names are constants, all other text passes through [`escape`].

use std::collections::BTreeSet;

/// The attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A piece of HTML under construction.
#[derive(Default)]
pub(crate) struct Writer {
    out: String,
    links: BTreeSet<String>,
}

impl Writer {
    /// Writes an element whose content is written by `inside`.
    pub(crate) fn element(&mut self, tag: &'static str, attributes: Attributes<'_>, inside: impl FnOnce(&mut Self)) {
        self.open(tag, attributes, ">");
        inside(self);
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
    }

    /// Writes an element that holds only text.
    pub(crate) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(tag, attributes, |inside| inside.text(text));
    }

    /// Writes an HTML element without an end tag, such as `meta`.
    pub(crate) fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, ">");
    }

    /// Writes an SVG shape as a self-closing element.
    pub(crate) fn shape(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, "/>");
    }

    /// Writes text from any source, escaped.
    pub(crate) fn text(&mut self, text: &str) {
        escape(&mut self.out, text);
    }

    /// Writes text from any source, escaped, in which backticks mark code.
    pub(crate) fn prose(&mut self, text: &str) {
        let parts: Vec<&str> = text.split('`').collect();
        // An even number of parts means an odd number of backticks: one of them is not a mark, so none is treated as one.
        if parts.len().is_multiple_of(2) {
            return self.text(text);
        }
        for (index, part) in parts.into_iter().enumerate() {
            if index % 2 == 1 { self.leaf("code", &[], part) } else { self.text(part) }
        }
    }

    /// Writes the page's own style sheet, the only text that is not escaped: browsers read it raw.
    pub(crate) fn style(&mut self, css: &'static str) {
        self.element("style", &[], |inside| inside.out.push_str(css));
    }

    /// Writes a line break into the source, for people who read it.
    pub(crate) fn newline(&mut self) {
        self.out.push('\n');
    }

    /// Returns the number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Appends a piece that was written separately.
    pub(crate) fn append(&mut self, piece: Self) {
        self.out.push_str(&piece.out);
        self.links.extend(piece.links);
    }

    /// Records that the page links to the lineage of a row.
    pub(crate) fn links_to(&mut self, row: &str) {
        self.links.insert(row.to_owned());
    }

    /// Returns the rows whose lineage the page links to.
    pub(crate) fn links(&self) -> &BTreeSet<String> {
        &self.links
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// Begins an XML document.
    pub(crate) fn xml() -> Self {
        Self { out: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(), links: BTreeSet::new() }
    }

    /// Begins an HTML document.
    pub(crate) fn doctype() -> Self {
        Self { out: "<!doctype html>\n".to_owned(), links: BTreeSet::new() }
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>, end: &'static str) {
        self.out.push('<');
        self.out.push_str(tag);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(&mut self.out, value);
            self.out.push('"');
        }
        self.out.push_str(end);
    }
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            plain => out.push(plain),
        }
    }
}
