//! Readiness of sockets and the monotonic clock, in nanoseconds: the event loop of load generator and simulator.
//!
//! One thread, one [`Poller`], no timers except the caller's next deadline: a wait ends when a socket is ready or at that
//! instant, whichever is first. The kernel waits with nanosecond deadlines (`epoll_pwait2`, Linux 5.11).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};

/// Returns the current time of the host's monotonic clock: the same clock for every process on it.
pub fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// The readiness that a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable.
    Read,
    /// Writable.
    Write,
    /// Readable or writable.
    ReadWrite,
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadySocket {
    /// The token that the socket was added with.
    pub token: u64,
    /// The socket can be read, or has failed or been closed, which a read reports.
    pub readable: bool,
    /// The socket can be written, or has failed, which a write reports.
    pub writable: bool,
}

/// Waits for sockets. Level-triggered: a socket that was not drained is reported again.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    interrupted: bool,
}

impl Poller {
    /// Creates a poller that reports at most `batch` ready sockets at a time.
    pub fn new(batch: usize) -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(batch.max(1)),
            interrupted: false,
        })
    }

    /// Watches a socket under a token.
    pub fn add(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Changes the readiness that a socket is watched for.
    pub fn modify(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Stops watching a socket. Closing it has the same effect.
    pub fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits until a socket is ready or [`now_ns`] reaches `deadline_ns`; without a deadline, indefinitely. A signal ends the
    /// wait with no socket ready.
    pub fn wait(&mut self, deadline_ns: Option<i64>) -> io::Result<impl Iterator<Item = ReadySocket> + '_> {
        let left = deadline_ns.map(|deadline| deadline.saturating_sub(now_ns()).max(0));
        let timeout = left.map(|left| Timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 });
        self.events.clear();
        let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref());
        self.interrupted = waited == Err(rustix::io::Errno::INTR);
        if let Err(error) = waited
            && !self.interrupted
        {
            return Err(error.into());
        }
        Ok(self.events.iter().map(|event| {
            // The field is read by value: the kernel's structure is packed.
            let flags = event.flags;
            let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            ReadySocket {
                token: event.data.u64(),
                readable: failed || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
                writable: failed || flags.contains(epoll::EventFlags::OUT),
            }
        }))
    }

    /// Returns true if the last wait ended because of a signal and reported no socket. A process that was stopped and continued
    /// sees this too, even if it handles no signal (signal(7)).
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::Write => epoll::EventFlags::OUT,
        Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let mut poller = Poller::new(4).expect("a poller");
        let deadline = now_ns() + 2_000_000;
        assert_eq!(poller.wait(Some(deadline)).expect("a wait").count(), 0);
        assert!(now_ns() >= deadline);
        assert_eq!(poller.wait(Some(deadline)).expect("a deadline that has passed").count(), 0);
    }

    #[test]
    fn a_ready_socket_is_told_until_it_is_drained() {
        let (mut near, far) = UnixStream::pair().expect("a pair");
        let mut poller = Poller::new(4).expect("a poller");
        poller.add(&far, 7, Interest::Read).expect("added");
        near.write_all(b"x").expect("written");
        for _ in 0..2 {
            let ready: Vec<_> = poller.wait(None).expect("a wait").collect();
            assert_eq!(ready, [ReadySocket { token: 7, readable: true, writable: false }]);
        }
        poller.modify(&far, 8, Interest::ReadWrite).expect("modified");
        let ready: Vec<_> = poller.wait(None).expect("a wait").collect();
        assert_eq!(ready, [ReadySocket { token: 8, readable: true, writable: true }]);
        poller.remove(&far).expect("removed");
        assert_eq!(poller.wait(Some(now_ns())).expect("a wait").count(), 0);
    }

    #[test]
    fn a_closed_peer_is_readable() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let mut poller = Poller::new(4).expect("a poller");
        poller.add(&far, 1, Interest::Read).expect("added");
        drop(near);
        let ready: Vec<_> = poller.wait(None).expect("a wait").collect();
        assert_eq!(ready.len(), 1);
        assert!(ready[0].readable);
    }
}
