//! Checks of rendered text, for the tests of all reports.

/// HTML elements without an end tag.
const VOID: [&str; 2] = ["meta", "input"];

/// Returns the number of tags, if every element is closed in the right order.
pub(crate) fn check_balance(html: &str) -> Result<usize, String> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = 0;
    // The style sheet is raw text and the only part of the page that is not markup.
    let (before, rest) = html.split_once("<style>").ok_or("no style sheet")?;
    let (css, after) = rest.split_once("</style>").ok_or("an open style sheet")?;
    if css.contains('<') {
        return Err("markup in the style sheet".to_owned());
    }
    for piece in before.split('<').chain(after.split('<')).filter(|piece| !piece.is_empty()) {
        let (tag, text) = piece.split_once('>').unwrap_or(("", piece));
        if text.contains('>') {
            return Err(format!("a bare > after `{tag}`"));
        }
        let name = tag.split(' ').next().unwrap_or_default();
        seen += 1;
        if let Some(closed) = name.strip_prefix('/') {
            match open.pop() {
                Some(expected) if expected == closed => {}
                other => return Err(format!("`{closed}` closes {other:?}")),
            }
        } else if !name.is_empty() && name != "!doctype" && !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(seen) } else { Err(format!("left open: {open:?}")) }
}

/// Returns the values of an attribute, in the order of the page.
pub(crate) fn ids<'a>(html: &'a str, attribute: &'a str) -> Vec<&'a str> {
    html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns Markdown without its code spans and blocks, in which a forge finds neither markup nor names.
pub(crate) fn outside_code(markdown: &str) -> String {
    let fence = |text: &str| text.chars().take_while(|character| *character == '`').count();
    let mut outside = String::new();
    let mut rest = markdown;
    while let Some(next) = rest.chars().next() {
        if next == '\\' {
            // An escaped character is text and does not delimit code.
            let two: String = rest.chars().take(2).collect();
            rest = rest.get(two.len()..).unwrap_or_default();
            outside.push('·');
            continue;
        }
        let length = fence(rest);
        if length == 0 {
            outside.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (mark, after) = rest.split_at(length);
        let closing = after.match_indices(mark).find(|(at, _)| {
            let before = after.get(..*at).unwrap_or_default();
            !before.ends_with('`') && fence(after.get(*at..).unwrap_or_default()) == length
        });
        match closing {
            // Code that is left out still stands between its neighbours.
            Some((at, _)) => {
                outside.push('·');
                rest = after.get(at + length..).unwrap_or_default();
            }
            None => rest = after,
        }
    }
    outside
}
