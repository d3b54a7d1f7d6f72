//! The paths that may name a file of a repository.

/// The longest path: most systems accept this length in one call.
pub const MAX_PATH_BYTES: usize = 1024;
/// The deepest path. Every level is one more tree to store and to check.
pub const MAX_PATH_DEPTH: usize = 64;

/// The reason why a text is not the path of a file in a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a path in a repository: {rule}")]
pub struct PathError {
    path: String,
    rule: &'static str,
}

/// Refuses every path that does not name exactly one place below a repository's root.
///
/// One file has one spelling, no path leads out, and none leads into `.git`. Control characters are refused, so that a path
/// can be on a line of its own.
pub fn check_path(path: &str) -> Result<(), PathError> {
    match broken_rule(path) {
        None => Ok(()),
        Some(rule) => Err(PathError { path: path.chars().take(120).flat_map(char::escape_default).collect(), rule }),
    }
}

fn broken_rule(path: &str) -> Option<&'static str> {
    let has = |wanted: fn(&str) -> bool| path.split('/').any(wanted);
    if path.len() > MAX_PATH_BYTES {
        Some("it is longer than 1024 bytes")
    } else if path.split('/').count() > MAX_PATH_DEPTH {
        Some("it is deeper than 64 folders")
    } else if path.chars().any(char::is_control) {
        Some("it holds a control character")
    } else if has(str::is_empty) {
        Some("it begins or ends with `/`, holds `//`, or is empty")
    } else if has(|part| part == "." || part == "..") {
        Some("it holds `.` or `..`")
    } else if has(leads_into_git) {
        Some("it leads into `.git`")
    } else {
        None
    }
}

/// Returns true if some system takes the name for `.git`: others ignore case, dots and blanks at its end, or shorten it.
fn leads_into_git(part: &str) -> bool {
    let name = part.trim_end_matches(['.', ' ']);
    [".git", "git~1"].iter().any(|git| name.eq_ignore_ascii_case(git))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_spelling() {
        for good in ["a", "a/b.yaml", "workloads/größe/run.sh", ".github/x", "a/...", "a b", "-x"] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "a/./b",
            "..",
            "a/../b",
            ".git",
            "a/.GIT/hooks",
            "git~1",
            "a/.git. .",
            "a\nb",
            "a\0",
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
        assert!(check_path(&"a".repeat(MAX_PATH_BYTES + 1)).is_err());
        assert!(check_path(&vec!["a"; MAX_PATH_DEPTH].join("/")).is_ok());
        assert!(check_path(&vec!["a"; MAX_PATH_DEPTH + 1].join("/")).is_err());
    }

    #[test]
    fn a_refusal_names_the_path_on_one_line() {
        let refused = check_path("a\nb").expect_err("refused").to_string();
        assert_eq!(refused, r"`a\nb` is not a path in a repository: it holds a control character");
    }
}
