//! Limits of the system: open files, and exact timers.

use std::num::NonZeroU64;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Files beside the connections that a trial may need: the poller, the sink's, name services.
const RESERVE: u64 = 32;

/// Ensures that the process may open this many connections besides its open files. The soft limit is raised if the hard one
/// allows it.
pub(super) fn ensure_files(connections: u64) -> Result<(), Error> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    let needed = open + connections + RESERVE;
    let limit = getrlimit(Resource::Nofile);
    let allows = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    if allows(limit.current) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if allows(limit.maximum) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    Err(Error::TooFewFiles { needed, limit: limit.maximum.or(limit.current).unwrap_or(u64::MAX) })
}

/// Makes this thread's timers as exact as possible until the guard is dropped: otherwise the kernel may be 50 us late.
pub(super) fn set_precise_timers() -> PreciseTimers {
    PreciseTimers {
        before: rustix::thread::current_timer_slack().ok().and_then(NonZeroU64::new).filter(|_| set(NonZeroU64::MIN)),
    }
}

/// A guard: timers are exact while it exists.
pub(super) struct PreciseTimers {
    before: Option<NonZeroU64>,
}

impl Drop for PreciseTimers {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
    }
}

fn set(slack_ns: NonZeroU64) -> bool {
    rustix::thread::set_current_timer_slack(Some(slack_ns)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_named_with_what_is_needed() {
        assert!(ensure_files(1).is_ok());
        match (getrlimit(Resource::Nofile).maximum, ensure_files(1 << 40)) {
            (Some(most), Err(Error::TooFewFiles { needed, limit })) => {
                assert!(needed > 1 << 40);
                assert_eq!(limit, most);
            }
            (None, Ok(())) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn timers_are_set_back() {
        let before = rustix::thread::current_timer_slack().expect("a slack");
        let precise = set_precise_timers();
        assert_eq!(rustix::thread::current_timer_slack().expect("a slack"), 1);
        drop(precise);
        assert_eq!(rustix::thread::current_timer_slack().expect("a slack"), before);
    }
}
