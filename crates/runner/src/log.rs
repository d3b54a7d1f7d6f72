//! The log files of a run: the stages' stderr, and the output of held targets.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use assay_stage::Secrets;

/// The most bytes of a log's end that are shown.
const TAIL_BYTES: u64 = 16 << 10;

/// Returns the last `lines` lines of a log; empty if it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    masked_tail(path, lines, &Secrets::default())
}

/// Returns the last `lines` lines of a log with these secrets masked; empty if it cannot be read. The bytes before the tail are read as
/// well, so that a secret is found whole if the tail begins in the middle of it.
pub fn masked_tail(path: &Path, lines: usize, secrets: &Secrets) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let tail_at = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        let from = tail_at.saturating_sub(secrets.reach() as u64);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(tail_at - from + TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(secrets.mask_from(&bytes, (tail_at - from) as usize))
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
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

    #[test]
    fn a_tail_begins_and_ends_in_no_part_of_a_secret() {
        const KEY: &str = "hunter/22-hunter/22-hunter/22";
        const LINES: &str = "hunter\n22-\nhunter22";
        let file = tempfile::NamedTempFile::new().expect("a file");
        let masked = |text: &str, lines| {
            std::fs::write(file.path(), text).expect("written");
            masked_tail(file.path(), lines, &Secrets::new([KEY, LINES]))
        };
        for printed in [KEY, LINES, &KEY.replace('/', r"\/"), &KEY.replace('/', r"\u002f")] {
            for inside in 1..printed.len() {
                let tail = masked(&format!("{printed}{}", ".".repeat(TAIL_BYTES as usize - inside)), 1000);
                assert!(tail.starts_with("[secret]..."), "{inside} of {printed}: {}", tail.get(..60).unwrap_or(&tail));
            }
        }
        // Masks are shorter than secrets, and what was read before the tail does not take the place.
        let tail = masked(&format!("{KEY}\n").repeat(5000), 5000);
        assert!(tail.lines().all(|line| line == "[secret]") && tail.lines().count() > 500, "{tail}");
        assert_eq!(masked(&format!("one\n{KEY}\nit is hunter/22-hun"), 2), "[secret]\nit is [secret]");
        assert_eq!(masked("", 2), "");
        assert_eq!(masked_tail(Path::new("/nonexistent/log"), 2, &Secrets::new([KEY])), "");
    }
}
