//! Writes HTML that is well formed and escaped by construction: names of tags are constants, everything else passes [`escape`].

use std::collections::BTreeSet;

/// Attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A piece of HTML under construction.
#[derive(Default)]
pub(crate) struct Writer {
    out: String,
    links: BTreeSet<String>,
}

impl Writer {
    /// An element with what `inside` writes.
    pub(crate) fn element(&mut self, tag: &'static str, attributes: Attributes<'_>, inside: impl FnOnce(&mut Self)) {
        self.open(tag, attributes, ">");
        inside(self);
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
    }

    /// An element that holds text only.
    pub(crate) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(tag, attributes, |inside| inside.text(text));
    }

    /// An element that HTML gives no end tag: `meta` and the like.
    pub(crate) fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, ">");
    }

    /// A shape of SVG, which closes itself.
    pub(crate) fn shape(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, "/>");
    }

    /// Text from anywhere.
    pub(crate) fn text(&mut self, text: &str) {
        escape(&mut self.out, text);
    }

    /// Text from anywhere, in which backticks mark code.
    pub(crate) fn prose(&mut self, text: &str) {
        let parts: Vec<&str> = text.split('`').collect();
        // An even number of parts is an odd number of backticks: then one of them is not a mark, and none is taken for one.
        if parts.len().is_multiple_of(2) {
            return self.text(text);
        }
        for (index, part) in parts.into_iter().enumerate() {
            if index % 2 == 1 { self.leaf("code", &[], part) } else { self.text(part) }
        }
    }

    /// The page's own style sheet, the only text that is not escaped: browsers read it raw.
    pub(crate) fn style(&mut self, css: &'static str) {
        self.element("style", &[], |inside| inside.out.push_str(css));
    }

    /// A line break of the source, for people who read it.
    pub(crate) fn newline(&mut self) {
        self.out.push('\n');
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Adds a piece that was written apart.
    pub(crate) fn append(&mut self, piece: Self) {
        self.out.push_str(&piece.out);
        self.links.extend(piece.links);
    }

    /// Remembers that the page links to the lineage of a row.
    pub(crate) fn links_to(&mut self, row: &str) {
        self.links.insert(row.to_owned());
    }

    /// The rows whose lineage the page links to.
    pub(crate) fn links(&self) -> &BTreeSet<String> {
        &self.links
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// The first thing of a document of XML.
    pub(crate) fn xml() -> Self {
        Self { out: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(), links: BTreeSet::new() }
    }

    /// The first thing of a document.
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
