//! Reading of a machine's files, with limits: the only I/O of facts, states and counters.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The largest file that is read. `/proc/cpuinfo` of a machine with 1,024 CPUs has about 2 MiB; nothing read here is larger.
pub const MAX_FILE_BYTES: u64 = 8 << 20;
/// The most entries of a folder that are read: more than any machine has CPUs, nodes, disks or cards.
pub const MAX_ENTRIES: usize = 8192;

/// The root of the machine's files: `/`, or a folder that stands for it.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    live: bool,
}

impl Root {
    /// Returns the root of this machine.
    pub fn host() -> Self {
        Self { path: "/".into(), live: true }
    }

    /// Returns the root of a folder with `proc`, `sys` and `etc` below it. No program is run for it, because programs would
    /// report this machine.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), live: false }
    }

    /// Returns true if this is the machine itself, so that programs may be run.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    fn resolve(&self, path: &str) -> PathBuf {
        self.path.join(path.trim_start_matches('/'))
    }

    /// Returns the text of a file, or why there is none. Bytes that are not UTF-8 become replacement characters.
    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        let mut bytes = Vec::new();
        let file = File::open(self.resolve(path)).map_err(|error| reason(path, &error))?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| reason(path, &error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(format!("`{path}` is larger than {MAX_FILE_BYTES} bytes"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the beginning of a file, at most this many bytes; empty if it cannot be read.
    pub(crate) fn beginning(&self, path: &str, limit: u64) -> String {
        let mut bytes = Vec::new();
        let read = File::open(self.resolve(path)).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        if read.is_ok() { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }
    }

    /// Returns the text of a file without surrounding white space; an empty file is an error.
    pub(crate) fn word(&self, path: &str) -> Result<String, String> {
        let text = self.text(path)?;
        let word = text.trim();
        if word.is_empty() { Err(format!("`{path}` is empty")) } else { Ok(word.to_owned()) }
    }

    /// Parses a file that holds one whole number.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: &str) -> Result<T, String> {
        let word = self.word(path)?;
        word.parse().map_err(|_| format!("`{path}` holds `{}`, which is not a number in range", clip(&word)))
    }

    /// Returns the names in a folder that start with `prefix`, numbers in numeric order.
    pub(crate) fn names(&self, folder: &str, prefix: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.resolve(folder)) else { return Vec::new() };
        let names = entries.take(MAX_ENTRIES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort_by_key(|name| (trailing_number(name), name.clone()));
        names
    }

    /// Returns the names in a folder that are `prefix` and a number, such as `cpu12`.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Vec<String> {
        let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        self.names(folder, prefix).into_iter().filter(|name| name.strip_prefix(prefix).is_some_and(is_number)).collect()
    }

    /// Returns true if the path exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.resolve(path).exists()
    }

    /// Returns the last part of a symbolic link's target.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.resolve(path)).ok()?;
        Path::new(&target).file_name().and_then(|name| name.to_str()).map(str::to_owned)
    }
}

fn trailing_number(name: &str) -> u64 {
    name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

fn reason(path: &str, error: &std::io::Error) -> String {
    format!("cannot read `{path}`: {error}")
}

/// Returns the start of a text, for messages.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn odd_files_are_reasons() {
        let tree = Tree::new(&[("a/empty", " \n"), ("a/word", " x y\n"), ("a/number", "-12\n")]);
        let root = tree.root();
        assert_eq!(root.word("a/word"), Ok("x y".to_owned()));
        assert_eq!(root.number::<i32>("a/number"), Ok(-12));
        insta::assert_snapshot!(root.word("/a/empty").expect_err("empty"), @"`/a/empty` is empty");
        insta::assert_snapshot!(root.number::<u32>("/a/number").expect_err("negative"), @"`/a/number` holds `-12`, which is not a number in range");
        insta::assert_snapshot!(root.text("/a/none").expect_err("absent"), @"cannot read `/a/none`: No such file or directory (os error 2)");
        assert!(root.text("/a").is_err(), "a folder is no file");
    }

    #[test]
    fn a_file_has_a_limit() {
        let tree = Tree::new(&[]);
        let write = |size: u64| {
            let file = File::create(tree.path().join("large")).expect("a file");
            file.set_len(size).expect("grown");
        };
        write(MAX_FILE_BYTES);
        assert!(tree.root().text("large").is_ok());
        write(MAX_FILE_BYTES + 1);
        insta::assert_snapshot!(tree.root().text("large").expect_err("too large"), @"`large` is larger than 8388608 bytes");
    }

    #[test]
    fn numbered_entries_come_in_numeric_order() {
        let tree = Tree::new(&[("s/cpu10/x", ""), ("s/cpu2/x", ""), ("s/cpufreq/x", ""), ("s/cpu0/x", "")]);
        assert_eq!(tree.root().numbered("s", "cpu"), ["cpu0", "cpu2", "cpu10"]);
        assert_eq!(tree.root().numbered("none", "cpu"), Vec::<String>::new());
    }
}
