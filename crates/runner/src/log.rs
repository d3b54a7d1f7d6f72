//! The log files of a run: the stages' stderr, and the output of held targets.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

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

/// The largest log of a held target, in bytes, beyond what it writes between two looks.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// The bytes of a log's end that are kept if it is larger.
const KEPT_BYTES: u64 = 1 << 20;

/// The interval between two looks at a log's size.
const SIZE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Limits a log that a process appends to until `ended` is disconnected: a server that logs every request would fill the disk of a
/// long run.
pub(crate) fn limit_size(log: &Path, ended: &Receiver<()>) {
    while ended.recv_timeout(SIZE_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if let Err(error) = drop_start(log, MAX_LOG_BYTES) {
            tracing::debug!(log = %log.display(), %error, "the size of a log cannot be limited");
        }
    }
}

/// Drops the start of a log that is larger than `limit`, and states that in its first line. What the process appends meanwhile may be
/// lost with it.
fn drop_start(log: &Path, limit: u64) -> std::io::Result<()> {
    let size = std::fs::metadata(log)?.len();
    if size <= limit {
        return Ok(());
    }
    let mut kept = Vec::new();
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(size.saturating_sub(KEPT_BYTES)))?;
    file.take(KEPT_BYTES).read_to_end(&mut kept)?;
    let dropped = size - kept.len() as u64;
    let mut file = assay_process::open_plain(log)?;
    file.set_len(0)?;
    file.write_all(
        format!("... the first {dropped} bytes were dropped, because the log is limited to {limit} bytes\n").as_bytes(),
    )?;
    file.write_all(&kept)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_log_that_is_too_large_keeps_its_end_and_what_is_appended() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut writer = OpenOptions::new().append(true).open(file.path()).expect("opened");
        writer.write_all(&vec![b'a'; 3 << 20]).expect("written");
        drop_start(file.path(), 3 << 20).expect("looked at");
        assert_eq!(file.as_file().metadata().expect("a size").len(), 3 << 20, "not more than the limit");
        writer.write_all(b"last\n").expect("written");
        drop_start(file.path(), 3 << 20).expect("dropped");
        writer.write_all(b"more\n").expect("the process writes on");
        let text = std::fs::read_to_string(file.path()).expect("text");
        let first = text.lines().next().expect("a line");
        assert_eq!(first, "... the first 2097157 bytes were dropped, because the log is limited to 3145728 bytes");
        assert_eq!(text.len(), first.len() + 1 + (1 << 20) + 5);
        assert!(text.ends_with("aaalast\nmore\n"));
    }

    #[test]
    fn the_limit_ends_with_the_process() {
        let (process, ended) = std::sync::mpsc::channel::<()>();
        drop(process);
        limit_size(Path::new("/nonexistent/log"), &ended);
    }

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
