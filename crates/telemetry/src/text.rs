//! Texts from outside, which are shown to people.

/// Returns the start of a text, of at most this many bytes, without control characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let mut kept = String::new();
    for character in text.chars().map(|character| if character.is_control() { ' ' } else { character }) {
        if kept.len() + character.len_utf8() > most {
            break;
        }
        kept.push(character);
    }
    kept
}
