//! Markdown from any text: escaped prose, code spans and fenced blocks.

/// Breaks a word invisibly. Forges look for mentions and references in the rendered text, after entities and backslashes are gone
/// (github/cmark-gfm, issue 181), so only a character in between keeps `@` and a name apart.
const BREAK: &str = "&#8203;";

/// Returns `text` as plain text of Markdown: every character that could begin markup is escaped.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // A forge would notify mentioned people, and link text that looks like an issue or an address.
            '@' => escaped.extend(["&#64;", BREAK]),
            '#' => escaped.extend(["&#35;", BREAK]),
            '-' if escaped.ends_with("GH") => escaped.extend(["-", BREAK]),
            ':' if rest.peek().is_some_and(|next| *next == '/') => escaped.extend(["&#58;", BREAK]),
            ':' if rest.peek().is_some_and(|next| next.is_alphabetic()) => escaped.push_str("&#58;"),
            '.' if escaped.ends_with("www") || escaped.ends_with("WWW") => escaped.extend(["&#46;", BREAK]),
            // Text between two dollar signs is a formula on a forge.
            '$' => escaped.push_str("&#36;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => escaped.extend(['\\', character]),
            '\n' | '\r' => escaped.push(' '),
            plain => escaped.push(plain),
        }
    }
    escaped
}

/// Escapes like [`escape`], but keeps paired backticks as marks of code.
pub(crate) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // Empty code is no code; if the text begins or ends with code, the parts before or after it may be empty.
    if parts.len().is_multiple_of(2) || parts.iter().skip(1).step_by(2).any(|part| part.is_empty()) {
        return escape(text);
    }
    parts.iter().enumerate().map(|(index, part)| if index % 2 == 1 { code(part) } else { escape(part) }).collect()
}

/// Returns `text` as code. A code span has no escapes, so the fence is longer than any run of backticks in it; a bar would end a
/// table's cell.
pub(crate) fn code(text: &str) -> String {
    let text = text.replace('|', "¦").replace(['\n', '\r'], " ");
    let fence = "`".repeat(longest_run(&text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// Returns `text` as a fenced block that no part of it can close.
pub(crate) fn block(language: &str, text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_stays_text() {
        assert_eq!(escape("<img> | *x* [a](b) @all #1"), "&lt;img&gt; \\| \\*x\\* \\[a\\](b) &#64;&#8203;all &#35;&#8203;1");
        assert_eq!(escape("https://x.y, a: b, www.x.y"), "https&#58;&#8203;//x.y, a: b, www&#46;&#8203;x.y");
        assert_eq!(escape("GH-12 $x$"), "GH-&#8203;12 &#36;x&#36;");
        assert_eq!(prose("run `a|b` now"), "run `a¦b` now");
        assert_eq!(prose("one ` mark"), "one \\` mark");
        assert_eq!(prose("`a` then `b`"), "`a` then `b`");
        assert_eq!(prose("no `` code"), "no \\`\\` code");
        assert_eq!(code("a`b|c"), "``a`b¦c``");
        assert_eq!(block("", "```\nrm"), "````\n```\nrm\n````\n");
    }
}
