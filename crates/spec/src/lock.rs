//! Lock files of Python packages: requirements with exact versions and the digests of their files, as `uv pip compile
//! --generate-hashes` and `pip-compile --generate-hashes` write them. The format is the requirements file of pip, of which only
//! the part is accepted that names the same bytes for everyone.

use std::collections::BTreeSet;

use assay_manifest::{PinnedPackage, normalised_package_name};

use crate::define::decode_text;
use crate::problem::{Problem, quote};

/// The largest lock file, in bytes: a thousand packages with twenty digests each.
pub const MAX_LOCK_BYTES: usize = 4 << 20;

/// The most packages of one lock file.
pub const MAX_LOCKED_PACKAGES: usize = 1_000;

/// The options of a requirements file that say where files are found. A digest decides which file is taken.
const OPTIONS: [&str; 6] = ["-i", "--index-url", "--extra-index-url", "--no-index", "-f", "--find-links"];

/// The option of a requirement that states the digest of one of its files.
const HASH: &str = "--hash=sha256:";

/// The number of hexadecimal digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// The remedy for a file that is not locked.
const LOCK_HINT: &str = "write the file with `uv pip compile --generate-hashes`, or with `assay stacks`";

/// A package of a lock file, with the digests of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedPackage {
    /// Its name, version and marker.
    pub package: PinnedPackage,
    /// The SHA-256 of each file that may be installed, in hexadecimal digits, sorted.
    pub hashes: Vec<String>,
}

/// Parses a lock file; `file` is its name in problems.
pub fn parse_lock(file: &str, bytes: &[u8]) -> Result<Vec<LockedPackage>, Vec<Problem>> {
    if bytes.len() > MAX_LOCK_BYTES {
        let message = format!("the file has more than {MAX_LOCK_BYTES} bytes, the most of a lock file");
        return Err(vec![Problem::for_file(file, message)]);
    }
    let text = decode_text(file, bytes)?;
    let (mut packages, mut problems, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut refuse = |line: usize, message: String| {
        problems.push(Problem::for_file(file, format!("line {line}: {message}")).with_hint(LOCK_HINT));
    };
    for (line, requirement) in logical_lines(text) {
        match parse_requirement(&requirement) {
            Ok(None) => {}
            Ok(Some(locked)) if !names.insert(locked.package.name.clone()) => {
                refuse(line, format!("the package {} is listed twice", quote(&locked.package.name)));
            }
            Ok(Some(locked)) => packages.push(locked),
            Err(message) => refuse(line, message),
        }
    }
    if packages.len() > MAX_LOCKED_PACKAGES {
        problems.push(Problem::for_file(file, format!("the file locks more than {MAX_LOCKED_PACKAGES} packages")));
    }
    if packages.is_empty() && problems.is_empty() {
        problems.push(Problem::for_file(file, "the file locks no package").with_hint(LOCK_HINT));
    }
    if problems.is_empty() { Ok(packages) } else { Err(problems) }
}

/// Returns the lines of a requirements file with the number of the first line of each: a `\` at the end of a line continues it, and
/// a `#` at its start or after a blank begins a comment.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line);
        let (part, is_continued) = match line.trim_end().strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        let (_, joined) = open.get_or_insert_with(|| (number, String::new()));
        joined.push_str(part);
        joined.push(' ');
        if !is_continued {
            lines.extend(open.take());
        }
    }
    lines.extend(open);
    lines.into_iter().map(|(number, line)| (number, line.trim().to_owned())).filter(|(_, line)| !line.is_empty()).collect()
}

fn without_comment(line: &str) -> &str {
    if line.starts_with('#') {
        return "";
    }
    [" #", "\t#"].iter().filter_map(|begin| line.find(begin)).min().and_then(|at| line.get(..at)).unwrap_or(line)
}

/// Parses a line; `None` for an option. The error is the reason why it locks nothing.
fn parse_requirement(line: &str) -> Result<Option<LockedPackage>, String> {
    if line.starts_with('-') {
        let option = line.split([' ', '=']).next().unwrap_or_default();
        return if OPTIONS.contains(&option) { Ok(None) } else { Err(format!("the option {} is not accepted", quote(option))) };
    }
    let (requirement, options) = line
        .split_once(" --")
        .map_or((line, ""), |(requirement, _)| (requirement, line.get(requirement.len()..).unwrap_or_default()));
    let (pinned, marker) = match requirement.split_once(';') {
        Some((pinned, marker)) => (pinned.trim(), Some(marker.trim().to_owned())),
        None => (requirement.trim(), None),
    };
    let (name, version) =
        pinned.split_once("==").ok_or_else(|| format!("{} has no exact version `NAME==VERSION`", quote(pinned)))?;
    let (name, version) = (name.split('[').next().unwrap_or_default().trim(), version.trim());
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(format!("{} is no name of a package", quote(name)));
    }
    if version.is_empty() || !version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+!-_".contains(&byte)) {
        return Err(format!("{} is no exact version of {}", quote(version), quote(name)));
    }
    let package = PinnedPackage { name: normalised_package_name(name), version: version.to_owned(), marker };
    Ok(Some(LockedPackage { hashes: parse_hashes(name, options)?, package }))
}

fn parse_hashes(name: &str, options: &str) -> Result<Vec<String>, String> {
    let mut hashes = BTreeSet::new();
    for option in options.split_whitespace() {
        let digits = option.strip_prefix(HASH).filter(|digits| digits.len() == HASH_DIGITS);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        hashes.insert(
            digits.ok_or_else(|| format!("{} of {} is no `{HASH}...`", quote(option), quote(name)))?.to_ascii_lowercase(),
        );
    }
    if hashes.is_empty() {
        return Err(format!("{} has no digest `{HASH}...`, so its bytes are not locked", quote(name)));
    }
    Ok(hashes.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::problem::render;

    fn hash(digit: char) -> String {
        format!("--hash=sha256:{}", digit.to_string().repeat(HASH_DIGITS))
    }

    fn parsed(text: &str) -> String {
        match parse_lock("lock.txt", text.as_bytes()) {
            Ok(packages) => {
                let line = |locked: &LockedPackage| {
                    let PinnedPackage { name, version, marker } = &locked.package;
                    let marker = marker.as_ref().map(|marker| format!("; {marker}")).unwrap_or_default();
                    format!("{name} {version}{marker} ({})", locked.hashes.len())
                };
                packages.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Err(problems) => render(&problems),
        }
    }

    #[test]
    fn a_lock_file_of_a_resolver_is_read() {
        let (one, two) = (hash('1'), hash('2'));
        let text = format!(
            "# made by uv\n--index-url https://pypi.org/simple\nNumPy==2.1.0 \\\n    {one} \\\n    {two}\n    # via -r in.txt\n\
             zope.interface[test]==6.0 ; python_version >= \"3.9\" {one}\n"
        );
        assert_snapshot!(parsed(&text), @r#"
        numpy 2.1.0 (2)
        zope-interface 6.0; python_version >= "3.9" (1)
        "#);
    }

    #[test]
    fn what_does_not_lock_bytes_is_refused_line_by_line() {
        let one = hash('1');
        let text = format!(
            "six\nsix>=1 {one}\nsix==1.* {one}\nsix==1.0\nsix @ https://example.org/six.whl {one}\n-e .\n-r other.txt\nsix==1.0 --hash=md5:00\n"
        );
        let problems = parse_lock("lock.txt", text.as_bytes()).expect_err("refused");
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_snapshot!(messages.join("\n"), @"
        line 1: `six` has no exact version `NAME==VERSION`
        line 2: `six>=1` has no exact version `NAME==VERSION`
        line 3: `1.*` is no exact version of `six`
        line 4: `six` has no digest `--hash=sha256:...`, so its bytes are not locked
        line 5: `six @ https://example.org/six.whl` has no exact version `NAME==VERSION`
        line 6: the option `-e` is not accepted
        line 7: the option `-r` is not accepted
        line 8: `--hash=md5:00` of `six` is no `--hash=sha256:...`
        ");
        assert!(parsed(&format!("a==1 {one}\nA==2 {one}\n")).contains("line 2: the package `a` is listed twice"));
        assert!(parsed("# nothing\n").contains("the file locks no package"));
        let large = "#".repeat(MAX_LOCK_BYTES + 1);
        assert!(parsed(&large).contains("the most of a lock file"));
    }
}
