//! A cancellation flag that wakes all waiters.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::process::Signal;

use crate::poll;

/// A cancellation token: tells all holders of a clone, once, to stop their work. Cheap to clone; never reset.
///
/// The flag is an eventfd that is written once and never read, so its descriptor stays readable and a poll on it wakes at once.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: OwnedFd,
    reason: OnceLock<Reason>,
}

#[derive(Debug)]
struct Reason {
    text: String,
    signal: Option<Signal>,
}

impl Cancel {
    /// Creates a token that is not cancelled. Fails if no descriptor is left.
    pub fn new() -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Inner { event, reason: OnceLock::new() })))
    }

    /// Sets the flag. The first reason stays.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.raise(Reason { text: reason.into(), signal: None });
    }

    fn raise(&self, reason: Reason) {
        if self.0.reason.set(reason).is_ok() {
            // Writing 1 into a counter that is 0 cannot fail.
            let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
        }
    }

    /// Returns true if the flag is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.reason.get().is_some()
    }

    /// Returns the reason of the cancellation, if there was one.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(|reason| reason.text.as_str())
    }

    /// Returns the signal that set the flag, if one did.
    pub(crate) fn signal(&self) -> Option<Signal> {
        self.0.reason.get().and_then(|reason| reason.signal)
    }

    /// Returns a descriptor that is readable as soon as the flag is set. It is for polling only: reading it would reset the flag
    /// for other holders.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    /// Waits until the flag is set, but no longer than `limit`; returns true if it is set. A replacement for sleep.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        // A poll on one open eventfd fails only for lack of kernel memory; then the flag itself is still checked below.
        let _ = poll::wait_readable(&[self.fd()], poll::deadline(Instant::now(), Some(limit)));
        self.is_cancelled()
    }
}

/// The signals that ask a process to end: from a keyboard, from another process, and from a terminal that was closed.
pub const END_SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with an error, instead of ending the process without a message. Programs
/// that this process starts are ended by it as ever: a handler is not inherited.
pub fn survive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(Signal::XFSZ.as_raw(), Arc::default()).map(drop)
}

/// Set when this process is continued after a signal had stopped it.
static CONTINUED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Returns true if a signal has stopped this process, and another one continued it, since the last call. Only a process that handles signals
/// ([`cancel_on_signals`]) knows.
pub fn was_stopped() -> bool {
    CONTINUED.swap(false, Ordering::SeqCst)
}

/// Returns a token that these signals cancel, from now on and for the life of the process. The signals no longer end the
/// process; a repeated one changes nothing. SIGHUP stays ignored if the process was started to ignore it, as `nohup` does.
pub fn cancel_on_signals(signals: &[Signal]) -> io::Result<Cancel> {
    let cancel = Cancel::new()?;
    let raised = cancel.clone();
    let outlives_terminal = is_in_mask(ignored_signals()?, Signal::HUP.as_raw());
    let is_handled = |signal: &&Signal| **signal != Signal::HUP || !outlives_terminal;
    let handled = signals.iter().filter(is_handled).map(|signal| signal.as_raw());
    survive_file_size_limit()?;
    signal_hook::flag::register(Signal::CONT.as_raw(), Arc::clone(&CONTINUED))?;
    let mut arriving = signal_hook::iterator::Signals::new(handled)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for number in arriving.forever() {
            raised.raise(Reason { text: signal_name(number), signal: Signal::from_named_raw(number) });
        }
    })?;
    Ok(cancel)
}

/// Returns the mask of the signals that this process ignores.
fn ignored_signals() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let parsed = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    parsed.ok_or_else(|| io::Error::other("/proc/self/status has no mask of ignored signals"))
}

/// Returns true if a mask of `/proc` has that signal: signal 1 is its lowest bit.
fn is_in_mask(mask: u64, number: i32) -> bool {
    u32::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1))
        .is_some_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

fn signal_name(number: i32) -> String {
    signal_hook::low_level::signal_name(number).map_or_else(|| format!("signal {number}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_a_bit_for_each_signal() {
        assert!(is_in_mask(0b1, 1) && !is_in_mask(0b1, 2) && is_in_mask(0b10, 2));
        assert!(!is_in_mask(u64::MAX, 0) && !is_in_mask(u64::MAX, 65) && !is_in_mask(u64::MAX, -1));
    }

    #[test]
    fn the_first_reason_stays_and_every_clone_sees_it() {
        let cancel = Cancel::new().expect("an eventfd");
        let clone = cancel.clone();
        assert!(!clone.is_cancelled());
        assert_eq!(clone.reason(), None);
        cancel.cancel("enough");
        cancel.cancel("again");
        assert_eq!(clone.reason(), Some("enough"));
        assert!(clone.wait_timeout(Duration::MAX), "the descriptor stays readable");
        assert!(clone.wait_timeout(Duration::MAX), "a wait does not lower the flag");
    }

    #[test]
    fn a_wait_ends_without_a_cancel() {
        let cancel = Cancel::new().expect("an eventfd");
        assert!(!cancel.wait_timeout(Duration::from_millis(1)));
    }

    #[test]
    fn a_cancel_wakes_a_waiter_in_another_thread() {
        let cancel = Cancel::new().expect("an eventfd");
        let waiter = std::thread::spawn({
            let cancel = cancel.clone();
            move || cancel.wait_timeout(Duration::from_hours(1))
        });
        cancel.cancel("enough");
        assert!(waiter.join().expect("the waiter ends"));
    }
}
