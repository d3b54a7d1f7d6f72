//! The wait for the mark after which a stage may begin.

use std::time::{Duration, Instant};

use assay_process::Cancel;
use assay_store::{MAX_POINTER_BYTES, Store};

use crate::{ErrorCode, Failure};

/// The limit of the wait. It is longer than a driver waits for what the mark stands for.
pub(crate) const BEGIN_LIMIT: Duration = Duration::from_mins(10);
/// The shortest and the longest pause between two looks, each of which is a request to the store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Waits until the store has the mark. The longer it waits, the less often it looks.
pub(crate) fn wait_for_mark(store: &Store, path: &str, limit: Duration, cancel: &Cancel) -> Result<(), Failure> {
    let begun = Instant::now();
    while store.read(path, MAX_POINTER_BYTES)?.is_none() {
        if begun.elapsed() >= limit {
            let message = format!("the stage begins once the store has `{path}`, which was not there after {limit:?}");
            let hint = "the driver of the run creates it once the recorder records: read the driver's log, and resume the run";
            return Err(Failure::new(ErrorCode::Recorder, message).hint(hint));
        }
        if cancel.wait_timeout((begun.elapsed() / 8).clamp(PAUSES.0, PAUSES.1)) {
            return Err(Failure::cancelled(cancel.reason().unwrap_or("stopped")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_begins_once_the_mark_is_there_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        let (path, cancel) = ("runs/r/execute/0/may-begin", Cancel::new().expect("a cancel"));
        let failure = wait_for_mark(&store, path, Duration::ZERO, &cancel).expect_err("no mark");
        assert_eq!(failure.code, ErrorCode::Recorder);
        assert!(failure.message.contains(path), "{failure}");

        let wait = || wait_for_mark(&store, path, BEGIN_LIMIT, &cancel);
        std::thread::scope(|scope| {
            let waits = scope.spawn(wait);
            assert!(!waits.is_finished(), "nothing has created the mark");
            store.create(path, b"{}").expect("created");
            waits.join().expect("no panic").expect("it is there");
        });
        wait().expect("it is still there");
    }

    #[test]
    fn a_stage_that_waits_can_be_cancelled() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        let cancel = Cancel::new().expect("a cancel");
        cancel.cancel("no longer of interest");
        let failure = wait_for_mark(&store, "runs/r/execute/0/may-begin", BEGIN_LIMIT, &cancel).expect_err("cancelled");
        assert_eq!(failure.code, ErrorCode::Cancelled);
    }
}
