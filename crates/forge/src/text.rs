//! Texts of a forge: made fit to be shown, and compared.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The maximum number of characters that are repeated of an untrusted text.
const MAX_SHOWN: usize = 300;

/// Returns one line of bounded length without invisible characters: those that control a terminal or change the direction of
/// reading are replaced.
pub(crate) fn sanitise(text: &str) -> String {
    text.chars().take(MAX_SHOWN).map(|character| if is_hidden(character) { '\u{fffd}' } else { character }).collect()
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns an address for an error: the part before an `@` may be a password.
pub(crate) fn without_user(url: &str) -> String {
    sanitise(url.rsplit('@').next().unwrap_or_default())
}

/// Returns true if two texts are equal except for line ends and trailing blanks, which a forge may have changed.
pub(crate) fn is_same_text(one: &str, other: &str) -> bool {
    let lines = |text: &str| text.replace("\r\n", "\n").trim_end().to_owned();
    lines(one) == lines(other)
}

/// Encodes `text` as one part of a query.
pub(crate) fn encode_query(text: &str) -> String {
    /// All but the unreserved characters of RFC 3986.
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_replaced_and_what_is_long_is_cut() {
        assert_eq!(sanitise("a\n\u{1b}[31mb\u{202e}c"), "a��[31mb�c");
        assert_eq!(sanitise(&"ü".repeat(1000)).chars().count(), MAX_SHOWN);
    }

    #[test]
    fn line_ends_are_no_difference() {
        assert!(is_same_text("a\r\nb\n", "a\nb"));
        assert!(!is_same_text("a\nb", "a b"));
        assert!(!is_same_text(" a", "a"));
    }

    #[test]
    fn a_query_holds_nothing_that_ends_it() {
        assert_eq!(encode_query("assay / nightly&x=ü"), "assay%20%2F%20nightly%26x%3D%C3%BC");
    }
}
