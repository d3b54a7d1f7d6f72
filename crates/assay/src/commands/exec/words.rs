//! Splits one text into the words of a command, as a POSIX shell does, and refuses all that only a shell can do.

use std::iter::Peekable;
use std::str::Chars;

/// The reason why a text is no command without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SplitError {
    /// There is no word.
    Empty,
    /// A quote has no end.
    Unterminated(char),
    /// A backslash has nothing after it.
    Backslash,
    /// A character that has a meaning to a shell, and is not quoted.
    ShellSyntax(char),
    /// A variable is set in front of the command.
    Assignment(String),
}

impl SplitError {
    /// Returns the reason in words, as it follows the text itself.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Empty => "names no program".to_owned(),
            Self::Unterminated(quote) => format!("has a quote {quote} without its end"),
            Self::Backslash => "ends with a backslash".to_owned(),
            Self::ShellSyntax(character) => {
                format!("has {character:?} outside of single quotes, which only a shell understands: no shell runs the command")
            }
            Self::Assignment(name) => {
                format!("sets the variable `{name}`, which only a shell understands: no shell runs the command")
            }
        }
    }

    /// Returns the remedy.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "write a program and its arguments in one text, such as `--baseline './old --fast'`",
            Self::Unterminated(_) | Self::Backslash => "close the quote, or put a backslash in front of what is meant literally",
            Self::ShellSyntax(_) => "quote it if it is a part of a word; to have a shell run a line, write `sh -c 'LINE'`",
            Self::Assignment(_) => {
                "`--env NAME=VALUE` sets a variable for both commands; `env NAME=VALUE PROGRAM` sets it for one"
            }
        }
    }
}

/// Splits a text into words: blanks separate them; quotes and backslashes have the meaning that they have in a POSIX shell (XCU 2.2).
/// Expansions, pipes, lists, redirections, patterns, comments and assignments are refused.
pub(super) fn split(text: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        skip_blanks(&mut rest);
        if rest.peek().is_none() {
            break;
        }
        let word = read_word(&mut rest)?;
        if words.is_empty()
            && let Some(name) = word.assigned
        {
            return Err(SplitError::Assignment(name));
        }
        words.push(word.text);
    }
    if words.is_empty() { Err(SplitError::Empty) } else { Ok(words) }
}

/// Skips blanks, and line ends with a backslash in front of them.
fn skip_blanks(rest: &mut Peekable<Chars<'_>>) {
    loop {
        if rest.next_if(|next| matches!(next, ' ' | '\t')).is_some() {
            continue;
        }
        let mut ahead = rest.clone();
        if (ahead.next(), ahead.next()) != (Some('\\'), Some('\n')) {
            return;
        }
        *rest = ahead;
    }
}

/// A word of a command.
struct Word {
    text: String,
    /// The name of a variable, if the word sets one.
    assigned: Option<String>,
}

fn read_word(rest: &mut Peekable<Chars<'_>>) -> Result<Word, SplitError> {
    let (mut text, mut assigned, mut is_plain) = (String::new(), None, true);
    if let Some(first) = rest.peek().copied().filter(|first| matches!(first, '~' | '#')) {
        return Err(SplitError::ShellSyntax(first));
    }
    while let Some(next) = rest.next_if(|next| !matches!(next, ' ' | '\t')) {
        match next {
            '\'' => {
                is_plain = false;
                read_single_quoted(rest, &mut text)?;
            }
            '"' => {
                is_plain = false;
                read_double_quoted(rest, &mut text)?;
            }
            '\\' => {
                is_plain = false;
                // A shell joins the lines at a backslash in front of a line's end.
                text.extend(Some(rest.next().ok_or(SplitError::Backslash)?).filter(|escaped| *escaped != '\n'));
            }
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' | '\n' => {
                return Err(SplitError::ShellSyntax(next));
            }
            '=' if is_plain && is_name(&text) => {
                assigned = Some(text.clone());
                is_plain = false;
                text.push(next);
            }
            _ => text.push(next),
        }
    }
    Ok(Word { text, assigned })
}

fn read_single_quoted(rest: &mut Peekable<Chars<'_>>, text: &mut String) -> Result<(), SplitError> {
    loop {
        match rest.next() {
            Some('\'') => return Ok(()),
            Some(literal) => text.push(literal),
            None => return Err(SplitError::Unterminated('\'')),
        }
    }
}

fn read_double_quoted(rest: &mut Peekable<Chars<'_>>, text: &mut String) -> Result<(), SplitError> {
    loop {
        match rest.next() {
            Some('"') => return Ok(()),
            Some('\\') => match rest.next_if(|next| matches!(next, '$' | '`' | '"' | '\\')) {
                Some(literal) => text.push(literal),
                None if rest.next_if_eq(&'\n').is_some() => {}
                None => text.push('\\'),
            },
            Some(expansion @ ('$' | '`')) => return Err(SplitError::ShellSyntax(expansion)),
            Some(literal) => text.push(literal),
            None => return Err(SplitError::Unterminated('"')),
        }
    }
}

/// Returns true if a text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(is_part) && !text.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        split(text).map_or_else(|error| format!("{} ({})", error.describe(), error.hint()), |words| format!("{words:?}"))
    }

    #[test]
    fn words_are_those_of_a_posix_shell() {
        assert_eq!(words("./old  --fast\tinput"), r#"["./old", "--fast", "input"]"#);
        assert_eq!(words(r#"  sh -c 'a | b' "c d"e\ f "" "#), r#"["sh", "-c", "a | b", "c de f", ""]"#);
        assert_eq!(words(r#"echo "\$A \"x\" \n" '\n' \$A \\"#), r#"["echo", "$A \"x\" \\n", "\\n", "$A", "\\"]"#);
        assert_eq!(words("cc \\\n  -O2 a\\\nb \"c\\\nd\" \\\n"), r#"["cc", "-O2", "ab", "cd"]"#, "lines that are joined");
        assert_eq!(words("cc -DX=1 a=b x#y a~"), r#"["cc", "-DX=1", "a=b", "x#y", "a~"]"#);
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused() {
        for character in ['|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '[', '\n'] {
            assert_eq!(split(&format!("a {character}b")), Err(SplitError::ShellSyntax(character)));
            assert_eq!(split(&format!("a '{character}b'")), Ok(vec!["a".to_owned(), format!("{character}b")]));
        }
        for text in ["~/a", "a #b", "a ~"] {
            assert!(matches!(split(text), Err(SplitError::ShellSyntax('~' | '#'))), "{text}");
        }
        assert_eq!(
            words("a | b"),
            "has '|' outside of single quotes, which only a shell understands: no shell runs the command (quote it if it is a part of a word; \
             to have a shell run a line, write `sh -c 'LINE'`)"
        );
        assert_eq!(split(r#"a "$HOME""#), Err(SplitError::ShellSyntax('$')));
        assert!(words("A=1 ./b").starts_with("sets the variable `A`, which only a shell understands"));
        assert_eq!(split("'A'=1"), Ok(vec!["A=1".to_owned()]), "a quoted name is a program's");
    }

    #[test]
    fn what_has_no_end_or_no_word_is_refused() {
        assert_eq!(split("a 'b"), Err(SplitError::Unterminated('\'')));
        assert_eq!(split("a \"b"), Err(SplitError::Unterminated('"')));
        assert_eq!(split("a \\"), Err(SplitError::Backslash));
        assert_eq!(split(" \t"), Err(SplitError::Empty));
        assert_eq!(split("''"), Ok(vec![String::new()]));
    }
}
