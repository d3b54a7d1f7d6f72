//! Git's objects as bytes: their ids, and the content of commits and trees.
//!
//! The formats are those of git's own documentation (`gitformat-pack`, "Git Objects" of the Pro Git book): an id is the SHA-1 of
//! `<kind> <size>\0` and the content; a tree is a list of `<octal mode> <name>\0<20 bytes of id>`; a commit is header lines, an
//! empty line, and a message. Parsing is strict if two readers could interpret the bytes differently: a hostile object is one
//! that another tool shows differently from Assay.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use assay_manifest::Instant;
use sha1_checked::{CollisionResult, Digest, Sha1};

/// The largest commit object: far above any message that a person writes, and enough for large signatures.
pub const MAX_COMMIT_BYTES: usize = 1 << 20;
/// The largest tree object: some 300,000 files in one folder.
pub const MAX_TREE_BYTES: usize = 16 << 20;
/// The most parents of a commit. Git's own merge strategy gives up long before.
const MAX_PARENTS: usize = 256;

const MODE_FOLDER: u32 = 0o040_000;
const MODE_SYMLINK: u32 = 0o120_000;
const MODE_SUBMODULE: u32 = 0o160_000;
const MODE_FILE: u32 = 0o100_644;
/// Written by early versions of git; equivalent to `MODE_FILE`.
const MODE_GROUP_WRITABLE_FILE: u32 = 0o100_664;
const MODE_EXECUTABLE: u32 = 0o100_755;

/// The id of a Git object: a SHA-1. Written as 40 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

/// The reason why an object id is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidError {
    /// The text is not an id.
    #[error("`{0}` is not an object id: expected 40 lower-case hexadecimal digits")]
    NotAnId(String),
    /// The id belongs to a repository with SHA-256 objects.
    #[error("`{0}` is the id of a SHA-256 object, and only SHA-1 repositories are supported")]
    Sha256(String),
    /// The bytes carry the marks of an attack on SHA-1.
    #[error("the object {0} was made to collide with another")]
    Collision(Oid),
}

/// The reason why bytes are not a commit or a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedObject(&'static str);

impl Oid {
    /// Computes the id of an object of a kind (`commit`, `tree`, `blob`) with this content.
    pub fn for_content(kind: &str, content: &[u8]) -> Result<Self, OidError> {
        let mut hasher = Sha1::new();
        Digest::update(&mut hasher, format!("{kind} {}\0", content.len()));
        Digest::update(&mut hasher, content);
        match hasher.try_finalize() {
            CollisionResult::Ok(hash) => Ok(Self(hash.into())),
            CollisionResult::Mitigated(hash) | CollisionResult::Collision(hash) => Err(OidError::Collision(Self(hash.into()))),
        }
    }

    /// Returns the raw 20 bytes.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match text.len() {
            40 if is_hex => parse_hex(text).ok_or_else(|| OidError::NotAnId(text.to_owned())),
            64 if is_hex => Err(OidError::Sha256(text.to_owned())),
            _ => Err(OidError::NotAnId(text.chars().take(80).collect())),
        }
    }
}

fn parse_hex(text: &str) -> Option<Oid> {
    let mut bytes = [0; 20];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(Oid(bytes))
}

/// The kind of an entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File { executable: bool },
    Symlink,
    Submodule,
}

/// One line of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) name: Vec<u8>,
    pub(crate) oid: Oid,
}

/// Parses a tree. Refuses one with two entries of one name, or out of git's order: readers would disagree about its content.
pub(crate) fn parse_tree(bytes: &[u8]) -> Result<Vec<Entry>, MalformedObject> {
    if bytes.len() > MAX_TREE_BYTES {
        return Err(MalformedObject("a tree is larger than 16 MiB"));
    }
    let mut entries: Vec<Entry> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (entry, after) = parse_entry(rest)?;
        if entries.last().is_some_and(|last| sort_key(last) >= sort_key(&entry)) {
            return Err(MalformedObject("a tree's entries are out of order"));
        }
        entries.push(entry);
        rest = after;
    }
    let mut names = BTreeSet::new();
    if entries.iter().all(|entry| names.insert(&entry.name)) {
        Ok(entries)
    } else {
        Err(MalformedObject("a tree has two entries of one name"))
    }
}

/// Returns the key by which git sorts: a folder as if its name ended with a slash.
fn sort_key(entry: &Entry) -> Vec<u8> {
    let mut key = entry.name.clone();
    if entry.kind == EntryKind::Folder {
        key.push(b'/');
    }
    key
}

fn parse_entry(bytes: &[u8]) -> Result<(Entry, &[u8]), MalformedObject> {
    let (mode, rest) = split_at_byte(bytes, b' ').ok_or(MalformedObject("a tree's entry has no mode"))?;
    let (name, rest) = split_at_byte(rest, 0).ok_or(MalformedObject("a tree's entry has no name"))?;
    let (id, rest) = rest.split_at_checked(20).ok_or(MalformedObject("a tree's entry has no object id"))?;
    let oid = Oid::from_bytes(id).ok_or(MalformedObject("a tree's entry has no object id"))?;
    if name.is_empty() || name.contains(&b'/') || name == b"." || name == b".." || name.eq_ignore_ascii_case(b".git") {
        return Err(MalformedObject("a tree's entry has a forbidden name"));
    }
    Ok((Entry { kind: parse_mode(mode)?, name: name.to_vec(), oid }, rest))
}

fn parse_mode(digits: &[u8]) -> Result<EntryKind, MalformedObject> {
    let unknown = MalformedObject("a tree's entry has an unknown mode");
    if digits.len() > 6 || !digits.iter().all(|digit| matches!(digit, b'0'..=b'7')) {
        return Err(unknown);
    }
    match digits.iter().fold(0, |mode, digit| mode << 3 | u32::from(digit - b'0')) {
        MODE_FOLDER => Ok(EntryKind::Folder),
        MODE_FILE | MODE_GROUP_WRITABLE_FILE => Ok(EntryKind::File { executable: false }),
        MODE_EXECUTABLE => Ok(EntryKind::File { executable: true }),
        MODE_SYMLINK => Ok(EntryKind::Symlink),
        MODE_SUBMODULE => Ok(EntryKind::Submodule),
        _ => Err(unknown),
    }
}

fn split_at_byte(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == separator)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// The content of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// The root folder.
    pub tree: Oid,
    /// The parent commits: none for a first one, several for a merge.
    pub parents: Vec<Oid>,
    /// The author of the change.
    pub author: Person,
    /// The creator of the commit.
    pub committer: Person,
    /// The message, with replacement characters for bytes that are not UTF-8.
    pub message: String,
    /// The time of the commit, as its committer asserts.
    pub time: Instant,
}

/// A person as named in a commit, with the time of the action. Nothing of it is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name, which may be empty.
    pub name: String,
    /// The address, which may be empty.
    pub email: String,
    /// Seconds since the Unix epoch.
    pub unix_seconds: i64,
    /// The offset from UTC as git writes it, such as `+0200`.
    pub utc_offset: String,
}

/// Parses a commit. Headers beyond the known ones (signatures, encodings, merged tags) are skipped, including their continuation
/// lines.
pub fn parse_commit(bytes: &[u8]) -> Result<CommitInfo, MalformedObject> {
    if bytes.len() > MAX_COMMIT_BYTES {
        return Err(MalformedObject("a commit is larger than 1 MiB"));
    }
    let (tree, rest) = header(bytes, "tree").ok_or(MalformedObject("a commit does not begin with its tree"))?;
    let tree = oid_in(tree)?;
    let (parents, rest) = parents(rest)?;
    let (author, rest) = header(rest, "author").ok_or(MalformedObject("a commit has no author after its parents"))?;
    let (committer, rest) = header(rest, "committer").ok_or(MalformedObject("a commit has no committer after its author"))?;
    let (author, committer) = (person(author)?, person(committer)?);
    let message = String::from_utf8_lossy(message(rest)?).into_owned();
    let time = Instant::from_unix_ns(committer.unix_seconds.saturating_mul(1_000_000_000));
    Ok(CommitInfo { tree, parents, author, committer, message, time })
}

/// Returns the value of the header line `name` at the beginning of `bytes`, and the bytes after the line.
fn header<'a>(bytes: &'a [u8], name: &str) -> Option<(&'a [u8], &'a [u8])> {
    let value = bytes.strip_prefix(name.as_bytes())?.strip_prefix(b" ")?;
    split_at_byte(value, b'\n')
}

fn parents(mut rest: &[u8]) -> Result<(Vec<Oid>, &[u8]), MalformedObject> {
    let mut parents = Vec::new();
    while let Some((parent, after)) = header(rest, "parent") {
        if parents.len() == MAX_PARENTS {
            return Err(MalformedObject("a commit has more than 256 parents"));
        }
        parents.push(oid_in(parent)?);
        rest = after;
    }
    Ok((parents, rest))
}

fn oid_in(value: &[u8]) -> Result<Oid, MalformedObject> {
    let text = std::str::from_utf8(value).ok();
    text.and_then(|text| text.parse().ok()).ok_or(MalformedObject("a commit names something that is not an object id"))
}

/// Returns the bytes after the first empty line. A second tree or parent before it is refused: another reader might take that
/// one.
fn message(mut rest: &[u8]) -> Result<&[u8], MalformedObject> {
    while !rest.is_empty() {
        let (line, after) = split_at_byte(rest, b'\n').ok_or(MalformedObject("a commit's headers do not end"))?;
        if line.is_empty() {
            return Ok(after);
        }
        if ["tree ", "parent ", "author ", "committer "].iter().any(|name| line.starts_with(name.as_bytes())) {
            return Err(MalformedObject("a commit repeats a header"));
        }
        rest = after;
    }
    Ok(rest)
}

/// Parses `Name <email> seconds offset`.
fn person(value: &[u8]) -> Result<Person, MalformedObject> {
    let text = String::from_utf8_lossy(value);
    let read = || {
        let (name, rest) = text.split_once('<')?;
        let (email, when) = rest.rsplit_once('>')?;
        let (seconds, offset) = when.strip_prefix(' ')?.split_once(' ')?;
        let unix_seconds = seconds.parse().ok()?;
        let is_offset = offset.starts_with(['+', '-']) && (2..=8).contains(&offset.len());
        let is_offset = is_offset && offset.bytes().skip(1).all(|digit| digit.is_ascii_digit());
        let utc_offset = is_offset.then(|| offset.to_owned())?;
        Some(Person { name: name.trim_end().to_owned(), email: email.to_owned(), unix_seconds, utc_offset })
    };
    read().ok_or(MalformedObject("a commit names a person without name, address and time"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const WHO: &str = "A. Person <a@example.org> 1700000000 +0200";

    fn refused(result: Result<impl fmt::Debug, MalformedObject>) -> &'static str {
        result.expect_err("refused").0
    }

    fn entry(mode: &str, name: &str) -> Vec<u8> {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[7; 20]].concat()
    }

    fn tree(entries: &[(&str, &str)]) -> Vec<u8> {
        entries.iter().flat_map(|(mode, name)| entry(mode, name)).collect()
    }

    #[test]
    fn ids_are_gits() {
        assert_eq!(Oid::for_content("tree", b"").expect("an id").to_string(), TREE);
        assert_eq!(Oid::for_content("blob", b"hello\n").expect("an id").to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(TREE.parse::<Oid>().expect("an id").to_string(), TREE);
    }

    #[test]
    fn other_spellings_of_an_id_are_refused() {
        for bad in ["", "4b825d", &TREE.to_uppercase(), &format!("{TREE}0"), &format!("+{}", &TREE[1..])] {
            assert!(matches!(bad.parse::<Oid>(), Err(OidError::NotAnId(_))), "{bad}");
        }
        assert!(matches!("0".repeat(64).parse::<Oid>(), Err(OidError::Sha256(_))));
    }

    #[test]
    fn a_tree_says_what_its_entries_are() {
        let modes = ["100644", "100755", "120000", "160000", "100664", "040000", "40000"];
        let kinds: Vec<_> = modes.iter().map(|mode| parse_tree(&entry(mode, "x")).expect("a tree")[0].kind).collect();
        let file = |executable| EntryKind::File { executable };
        let folder = EntryKind::Folder;
        assert_eq!(kinds, [file(false), file(true), EntryKind::Symlink, EntryKind::Submodule, file(false), folder, folder]);
    }

    #[test]
    fn a_folder_sorts_as_if_it_ended_with_a_slash() {
        assert!(parse_tree(&tree(&[("100644", "a.c"), ("40000", "a"), ("100644", "a0")])).is_ok());
        let unsorted = tree(&[("40000", "a"), ("100644", "a.c")]);
        assert_eq!(refused(parse_tree(&unsorted)), "a tree's entries are out of order");
    }

    #[test]
    fn malformed_trees_are_refused() {
        assert_eq!(refused(parse_tree(b"100644")), "a tree's entry has no mode");
        assert_eq!(refused(parse_tree(b"100644 a")), "a tree's entry has no name");
        assert_eq!(refused(parse_tree(b"100644 a\0short")), "a tree's entry has no object id");
        for mode in ["", "100600", "1006440", "10064x", "0"] {
            assert_eq!(refused(parse_tree(&entry(mode, "a"))), "a tree's entry has an unknown mode", "{mode}");
        }
        for name in ["", ".", "..", ".git", ".GiT", "a/b"] {
            assert_eq!(refused(parse_tree(&entry("100644", name))), "a tree's entry has a forbidden name", "{name}");
        }
        let twice = tree(&[("100644", "a"), ("100644", "a")]);
        assert_eq!(refused(parse_tree(&twice)), "a tree's entries are out of order");
        let file_and_folder = tree(&[("100644", "a"), ("100644", "a.c"), ("40000", "a")]);
        assert_eq!(refused(parse_tree(&file_and_folder)), "a tree has two entries of one name");
        assert_eq!(refused(parse_tree(&vec![0; MAX_TREE_BYTES + 1])), "a tree is larger than 16 MiB");
    }

    #[test]
    fn a_commit_says_who_and_when() {
        let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n tree 0\n -----END PGP SIGNATURE-----\n";
        let text =
            format!("tree {TREE}\nparent {TREE}\nparent {TREE}\nauthor {WHO}\ncommitter {WHO}\n{signature}\nTitle\n\nBody\n");
        let commit = parse_commit(text.as_bytes()).expect("a commit");
        assert_eq!(commit.tree.to_string(), TREE);
        assert_eq!(commit.parents.len(), 2);
        assert_eq!((commit.author.name.as_str(), commit.author.email.as_str()), ("A. Person", "a@example.org"));
        assert_eq!((commit.committer.unix_seconds, commit.committer.utc_offset.as_str()), (1_700_000_000, "+0200"));
        assert_eq!(commit.message, "Title\n\nBody\n");
        assert_eq!(commit.time.to_string(), "2023-11-14T22:13:20.000000000Z");
    }

    #[test]
    fn malformed_commits_are_refused() {
        let who = format!("author {WHO}\ncommitter {WHO}\n");
        let check = |text: &str| refused(parse_commit(text.as_bytes()));
        assert_eq!(check(""), "a commit does not begin with its tree");
        assert_eq!(check(&format!("parent {TREE}\ntree {TREE}\n{who}\n")), "a commit does not begin with its tree");
        assert_eq!(check(&format!("tree 12\n{who}\n")), "a commit names something that is not an object id");
        assert_eq!(check(&format!("tree {TREE}\n\n")), "a commit has no author after its parents");
        assert_eq!(check(&format!("tree {TREE}\nauthor {WHO}\n\n")), "a commit has no committer after its author");
        assert_eq!(check(&format!("tree {TREE}\n{who}tree {TREE}\n\n")), "a commit repeats a header");
        assert_eq!(check(&format!("tree {TREE}\n{who}gpgsig x")), "a commit's headers do not end");
        for person in
            ["", "x", "x <y>", "x <y> 1", "x <y> z +0000", "x <y> 1 0000", "x y> 1 +0000", "x <y> 99999999999999999999 +0000"]
        {
            let text = format!("tree {TREE}\nauthor {person}\ncommitter {WHO}\n\n");
            assert_eq!(check(&text), "a commit names a person without name, address and time", "{person}");
        }
        let parents = format!("parent {TREE}\n").repeat(MAX_PARENTS + 1);
        assert_eq!(check(&format!("tree {TREE}\n{parents}{who}\n")), "a commit has more than 256 parents");
        assert_eq!(check(&" ".repeat(MAX_COMMIT_BYTES + 1)), "a commit is larger than 1 MiB");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_tree_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_tree(&bytes);
        }

        #[test]
        fn no_damage_makes_the_tree_reader_panic(at in 0_usize..81, byte: u8, cut in 0_usize..81) {
            let mut bytes = tree(&[("100644", "a"), ("100755", "b"), ("40000", "c")]);
            if let Some(place) = bytes.get_mut(at) { *place = byte }
            bytes.truncate(cut.min(bytes.len()));
            let _ = parse_tree(&bytes);
        }

        #[test]
        fn no_damage_makes_the_commit_reader_panic(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
            let mut bytes = format!("tree {TREE}\nparent {TREE}\nauthor {WHO}\ncommitter {WHO}\ngpgsig x\n y\n\nTitle\n").into_bytes();
            if let Some(place) = bytes.get_mut(at) { *place = byte }
            bytes.truncate(cut.min(bytes.len()));
            let _ = parse_commit(&bytes);
        }

        #[test]
        fn a_tree_reads_what_was_written(names in proptest::collection::btree_set("[a-z]{1,8}", 0..20)) {
            let bytes: Vec<u8> = names.iter().flat_map(|name| entry("100644", name)).collect();
            let read: Vec<_> = parse_tree(&bytes).expect("a tree").into_iter().map(|entry| entry.name).collect();
            prop_assert_eq!(read, names.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        }
    }
}
