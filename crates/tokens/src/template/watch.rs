//! Limits of time and memory for work that cannot be stopped.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::TokenizerError;

/// The limits of a piece of work.
pub(super) struct Limits {
    time: Duration,
    /// Bytes by which the memory of this process may grow meanwhile.
    memory: u64,
}

/// The limits of the rendering of a template. Published ones take a few milliseconds and next to no memory.
pub(super) const RENDERING: Limits = Limits { time: Duration::from_secs(20), memory: 256 << 20 };

/// The time between two looks at the memory.
const LOOK: Duration = Duration::from_millis(5);

/// The stack of the work: 16 KiB for each token of the longest template, because operators nest as deep as they are many. What is not used takes
/// no memory.
const STACK_BYTES: usize = 256 << 20;

/// Does the work in a thread of its own, and waits until it is done or has taken more than it may. In that case the thread goes on: the caller
/// has to end this process, as a stage does whose tokenizer cannot be read.
pub(super) fn bounded<T: Send + 'static>(
    limits: &Limits,
    work: impl FnOnce() -> Result<T, TokenizerError> + Send + 'static,
) -> Result<T, TokenizerError> {
    let refused = |why: String| Err(TokenizerError::Template(why));
    let (sender, receiver) = channel();
    let before = resident_bytes();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).name("template".to_owned());
    // A result that comes too late has no receiver any more.
    if let Err(error) = thread.spawn(move || drop(sender.send(work()))) {
        return refused(format!("no thread can be started for it: {error}"));
    }
    let begun = Instant::now();
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Disconnected) => return Err(TokenizerError::Panicked),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let grown = resident_bytes().zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        if grown > limits.memory {
            return refused(format!("it takes more than {} MiB of memory", limits.memory >> 20));
        }
        if begun.elapsed() > limits.time {
            return refused(format!("it takes more than {} s", limits.time.as_secs()));
        }
    }
}

/// Returns the bytes of this process in memory, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMPLE: Limits = Limits { time: Duration::from_hours(1), memory: u64::MAX };

    #[test]
    fn work_that_ends_is_done_and_its_error_is_kept() {
        assert_eq!(bounded(&AMPLE, || Ok(7)).ok(), Some(7));
        let failed = bounded(&AMPLE, || Err::<(), _>(TokenizerError::Template("its own".to_owned())));
        assert_eq!(failed.expect_err("failed").to_string(), "the chat template cannot be used: its own");
        let panicked: Result<(), _> = bounded(&AMPLE, || panic!("in the thread"));
        assert!(matches!(panicked, Err(TokenizerError::Panicked)), "{panicked:?}");
    }

    #[test]
    fn work_that_does_not_end_is_left() {
        let (stop, stopped) = channel::<()>();
        let limits = Limits { time: Duration::ZERO, ..AMPLE };
        let left = bounded(&limits, move || {
            let _ = stopped.recv();
            Ok(())
        });
        assert_eq!(left.expect_err("left").to_string(), "the chat template cannot be used: it takes more than 0 s");
        drop(stop);
    }

    #[test]
    fn work_that_takes_more_memory_than_it_may_is_left() {
        let (stop, stopped) = channel::<()>();
        let limits = Limits { memory: 64 << 20, ..AMPLE };
        let left = bounded(&limits, move || {
            let taken = vec![1_u8; 256 << 20];
            let _ = stopped.recv();
            Ok(taken)
        });
        assert_eq!(left.expect_err("left").to_string(), "the chat template cannot be used: it takes more than 64 MiB of memory");
        drop(stop);
    }
}
