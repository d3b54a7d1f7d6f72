//! Waiting for descriptors without a busy loop.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

/// Waits until one of `fds` is readable, or until the deadline. Returns the index of the first readable one, `None` at the
/// deadline.
pub(crate) fn wait_readable(fds: &[BorrowedFd<'_>], deadline: Option<Instant>) -> io::Result<Option<usize>> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match rustix::event::poll(&mut polled, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the instant `limit` after `start`; `None` if there is no limit, or one beyond the range of the clock.
pub(crate) fn deadline(start: Instant, limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| start.checked_add(limit))
}
