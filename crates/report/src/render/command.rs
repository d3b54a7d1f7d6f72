//! Command lines that readers copy from a report.

use assay_manifest::Address;

use crate::render::text::clean;

/// Quotes `text` as one word of a POSIX shell: a command that people copy must not execute a name.
pub fn shell_word(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@%+,=".contains(character);
    let text = clean(text);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns the option that names a store on a command line; empty if `assay` finds the store by itself.
pub(crate) fn store_option(uri: Option<&str>) -> String {
    uri.map(|uri| format!(" --store {}", shell_word(uri))).unwrap_or_default()
}

/// Returns the command that traces a number back to its evidence.
pub(crate) fn trace_command(address: &Address, store: Option<&str>) -> String {
    format!("assay trace {address}{}", store_option(store))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_command_runs_only_what_it_says() {
        assert_eq!(shell_word("chain/plan.json"), "chain/plan.json");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("$(reboot)"), "'$(reboot)'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word("-rf"), "'-rf'");
        assert_eq!(shell_word("x\ny"), "'x y'");
        assert_eq!(shell_word(""), "''");
    }
}
