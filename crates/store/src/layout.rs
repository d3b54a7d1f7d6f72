//! The layout of a store: the paths of its objects.

use assay_manifest::Digest;
use object_store::path::Path;

use crate::{Error, Result};

/// The longest path of a pointer, in bytes. Object stores allow 1,024; this leaves room for the store's own prefix.
pub const MAX_PATH_BYTES: usize = 700;
/// The longest part between two slashes. Local file systems allow 255; this leaves room for a suffix while writing.
const MAX_PART_BYTES: usize = 200;
/// The folder of the blobs.
pub(crate) const BLOBS: &str = "blobs";
/// The folder of a local store's objects until they are complete.
pub(crate) const STAGING: &str = "staging";

/// Returns the path of a blob. The two digits keep folders small enough to list by hand: 256 of them share all blobs.
pub(crate) fn blob_path(digest: &Digest) -> Path {
    let hex = digest.hex();
    let (fan, _) = hex.split_at(2);
    Path::from_iter([BLOBS, "sha256", fan, &hex])
}

/// Returns a path for an object that is not complete yet.
pub(crate) fn staging_path(random: u64) -> Path {
    Path::from_iter([STAGING, &format!("{random:016x}")])
}

/// Checks the path of a pointer, or a prefix of such paths.
pub(crate) fn pointer_path(path: &str) -> Result<Path> {
    match find_problem(path) {
        Some(problem) => Err(Error::BadPath { path: path.chars().take(120).collect(), problem }),
        None => Ok(path.split('/').collect()),
    }
}

pub(crate) fn find_problem(path: &str) -> Option<&'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-=+@".contains(&byte);
    let parts = || path.split('/');
    if path.is_empty() {
        Some("it is empty")
    } else if path.len() > MAX_PATH_BYTES {
        Some("it is longer than 700 bytes")
    } else if parts().any(str::is_empty) {
        Some("a part between slashes is empty")
    } else if parts().any(|part| part == "." || part == "..") {
        Some("`.` and `..` are not allowed as parts")
    } else if parts().any(|part| part.len() > MAX_PART_BYTES) {
        Some("a part between slashes is longer than 200 bytes")
    } else if !path.bytes().all(|byte| byte == b'/' || plain(byte)) {
        Some("only ASCII letters, digits, `/` and `._-=+@` are allowed")
    } else if parts().next().is_some_and(|first| first == BLOBS || first == STAGING) {
        Some("`blobs` and `staging` belong to the store itself")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &str) -> String {
        pointer_path(path).expect_err("a path that is refused").to_string()
    }

    #[test]
    fn a_blob_lies_under_its_first_two_digits() {
        insta::assert_snapshot!(
            blob_path(&Digest::compute(b"")),
            @"blobs/sha256/e3/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn pointers_keep_their_paths() {
        for path in ["a", "runs/nightly-1/plan/0f/accepted/0", "runs/r/execute/trials/w.t.default.p0.t1/0/0", "a/b=c/d+e@f"] {
            assert_eq!(pointer_path(path).expect("a path").as_ref(), path);
        }
    }

    #[test]
    fn paths_that_could_lead_elsewhere_are_refused() {
        insta::assert_snapshot!(refusal(""), @"`` is not a pointer's path: it is empty");
        insta::assert_snapshot!(refusal("/a"), @"`/a` is not a pointer's path: a part between slashes is empty");
        insta::assert_snapshot!(refusal("a/"), @"`a/` is not a pointer's path: a part between slashes is empty");
        insta::assert_snapshot!(refusal("a//b"), @"`a//b` is not a pointer's path: a part between slashes is empty");
        insta::assert_snapshot!(refusal("runs/../x"), @"`runs/../x` is not a pointer's path: `.` and `..` are not allowed as parts");
        insta::assert_snapshot!(refusal("."), @"`.` is not a pointer's path: `.` and `..` are not allowed as parts");
        insta::assert_snapshot!(refusal("rüns"), @"`rüns` is not a pointer's path: only ASCII letters, digits, `/` and `._-=+@` are allowed");
        insta::assert_snapshot!(refusal("a#1"), @"`a#1` is not a pointer's path: only ASCII letters, digits, `/` and `._-=+@` are allowed");
        insta::assert_snapshot!(refusal("a\0b").replace('\0', "<nul>"), @"`a<nul>b` is not a pointer's path: only ASCII letters, digits, `/` and `._-=+@` are allowed");
        insta::assert_snapshot!(refusal("blobs/x"), @"`blobs/x` is not a pointer's path: `blobs` and `staging` belong to the store itself");
        assert!(refusal(&"x".repeat(201)).ends_with("longer than 200 bytes"));
        assert!(refusal(&"x/".repeat(351)).ends_with("longer than 700 bytes"));
    }
}
