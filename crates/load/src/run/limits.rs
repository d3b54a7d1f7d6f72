//! Limits of the system: open files, and exact timers.

use std::num::NonZeroU64;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{EndpointAddress, Error};

/// The files that the process of a client needs beside its connections, half of which it has open before a trial: its streams, pipes and
/// store; and the poller, the sink's and name services.
pub const SPARE_FILES: u64 = 64;

/// Returns the limit of open files to which a process may raise its own.
pub fn most_files() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Returns the number of connections that the limit of open files allows one client.
pub fn most_connections() -> u32 {
    u32::try_from(most_files().saturating_sub(SPARE_FILES)).unwrap_or(u32::MAX).max(1)
}

/// Ensures that the process may open this many connections besides its open files. The soft limit is raised if the hard one
/// allows it.
pub(super) fn ensure_files(connections: u64) -> Result<(), Error> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    let needed = connections + SPARE_FILES.max(open + SPARE_FILES / 2);
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

/// The range of ports that the kernel gives to connections.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Returns the number of ports that connections to one address may have; `None` if the kernel does not say.
pub(super) fn local_ports() -> Option<u64> {
    parse_port_range(&std::fs::read_to_string(PORT_RANGE).ok()?)
}

fn parse_port_range(text: &str) -> Option<u64> {
    let mut bounds = text.split_whitespace().map(|bound| bound.parse::<u16>().ok());
    let (first, last) = (bounds.next()??, bounds.next()??);
    u64::from(last).checked_sub(u64::from(first)).map(|more| more + 1)
}

/// Checks that there is a port for every connection: they differ by their own port alone if they lead to the same address. Sockets of
/// the file system have none.
pub(super) fn check_ports(connections: u64, addresses: &[EndpointAddress], of_one: Option<u64>) -> Result<(), Error> {
    let tcp = addresses.iter().filter(|address| matches!(address, EndpointAddress::Tcp(_))).count() as u64;
    let ports = of_one.map_or(u64::MAX, |ports| ports.saturating_mul(tcp));
    if tcp == 0 || connections <= ports { Ok(()) } else { Err(Error::TooFewPorts { needed: connections, ports }) }
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
    use std::slice;

    use super::*;

    #[test]
    fn what_the_limit_is_said_to_allow_is_allowed() {
        assert!(ensure_files(u64::from(most_connections())).is_ok(), "a test has few files open");
        let more = u64::from(most_connections()) + 1;
        assert!(most_files() - SPARE_FILES >= u64::from(u32::MAX) || ensure_files(more).is_err(), "and no more");
    }

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
    fn connections_need_a_port_each_for_one_address() {
        assert_eq!(parse_port_range("32768\t60999\n"), Some(28_232));
        for odd in ["", "1", "9 1", "x y", "1 65536"] {
            assert_eq!(parse_port_range(odd), None, "{odd}");
        }
        let tcp = EndpointAddress::Tcp("127.0.0.1:80".parse().expect("an address"));
        let unix = EndpointAddress::Unix("/run/a.sock".into());
        assert!(
            check_ports(100, slice::from_ref(&tcp), Some(100)).is_ok()
                && check_ports(200, &[tcp.clone(), tcp.clone()], Some(100)).is_ok()
        );
        let few = check_ports(101, slice::from_ref(&tcp), Some(100));
        assert!(matches!(few, Err(Error::TooFewPorts { needed: 101, ports: 100 })), "{few:?}");
        assert!(check_ports(101, &[unix], Some(100)).is_ok(), "a socket of the file system has no port");
        assert!(check_ports(101, &[tcp], None).is_ok(), "what the kernel does not say refuses nothing");
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
