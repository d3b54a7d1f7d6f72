//! The log files of a run: the stages' stderr.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The most bytes of a log's end that are shown.
const TAIL_BYTES: u64 = 16 << 10;

/// Returns the last `lines` lines of a log; empty if it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let all: Vec<_> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(bytes: &[u8], lines: usize) -> String {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        tail(file.path(), lines)
    }

    #[test]
    fn a_tail_is_the_last_lines() {
        assert_eq!(tail_of(b"one\ntwo\nthree\n", 2), "two\nthree");
        assert_eq!(tail_of(b"one\ntwo", 9), "one\ntwo");
        assert_eq!(tail_of(b"", 2), "");
        assert_eq!(tail_of(b"\xff\n", 1), "\u{fffd}");
        assert_eq!(tail(Path::new("/nonexistent/log"), 2), "");
    }

    #[test]
    fn a_tail_has_a_limit() {
        assert_eq!(tail_of(&vec![b'x'; 1 << 20], 1).len() as u64, TAIL_BYTES);
    }
}
