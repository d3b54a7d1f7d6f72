//! The process that listens at an address of this machine: whether the run started it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _, UdpSocket};

use crate::Root;
use crate::own_processes::{self, Processes};

/// The most bytes of a list of sockets that are read. Those that listen come first.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// The state of a TCP socket that listens, in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The flag of a Unix socket that listens, in `/proc/net/unix` (`__SO_ACCEPTCON`).
const ACCEPTS: u32 = 1 << 16;

/// Programs that listen for a container: the server behind them is a process of that container, and was started by the container's engine.
const FORWARDERS: [&str; 8] =
    ["conmon", "containerd-shim", "docker-proxy", "gvproxy", "pasta", "rootlesskit", "rootlessport", "slirp4netns"];

/// A process that listens at an address, and that the run did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherListener {
    /// Its process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

impl fmt::Display for OtherListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} (`{}`)", self.pid, self.name)
    }
}

/// Returns a process that listens at an address of this machine, and is no process of the run: not below the topmost program of Assay that this one
/// is below. The address is `HOST:PORT`, or the path of a Unix socket.
///
/// `None` if all that listen there are of the run, and if that cannot be told: at an address of another machine, for a process whose files this user
/// may not see, and for one in a container, which an engine has started. `None` too if no program of Assay started this one, because then a person
/// has started the server.
pub fn other_listener(address: &str) -> Option<OtherListener> {
    let root = Root::host();
    let inodes = if address.starts_with('/') {
        unix_inodes(&root.beginning("/proc/net/unix", MAX_LIST_BYTES), address)
    } else {
        tcp_inodes(&root, address)
    };
    if inodes.is_empty() { None } else { other_owner(&root, inodes) }
}

fn tcp_inodes(root: &Root, address: &str) -> BTreeSet<u64> {
    let addresses = address.to_socket_addrs().into_iter().flatten();
    let local: Vec<_> = addresses.filter(|address| UdpSocket::bind((address.ip(), 0)).is_ok()).collect();
    let lists = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| root.beginning(path, MAX_LIST_BYTES));
    let sockets = || lists.iter().flat_map(|list| list.lines().filter_map(parse_tcp));
    let accepts = |at: IpAddr, port: u16| local.iter().any(|wanted| wanted.port() == port && takes(at, wanted.ip()));
    sockets().filter(|socket| accepts(socket.at, socket.port)).map(|socket| socket.inode).collect()
}

/// Returns true if a socket that listens at one address gets the connections to another.
fn takes(at: IpAddr, wanted: IpAddr) -> bool {
    at.to_canonical() == wanted.to_canonical()
        || at == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        || (at.is_unspecified() && wanted.is_ipv4())
}

/// A TCP socket that listens.
struct TcpSocket {
    at: IpAddr,
    port: u16,
    inode: u64,
}

/// Parses a line of `/proc/net/tcp` or `/proc/net/tcp6` (proc(5)); `None` for one that does not listen.
fn parse_tcp(line: &str) -> Option<TcpSocket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (at, port) = fields.get(1)?.split_once(':')?;
    let is_listening = *fields.get(3)? == LISTENING;
    let socket =
        TcpSocket { at: parse_address(at)?, port: u16::from_str_radix(port, 16).ok()?, inode: fields.get(9)?.parse().ok()? };
    is_listening.then_some(socket)
}

/// Parses an address: each four bytes are a number in the order of this machine.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(hex.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words: Vec<u8> = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?)))
        }
        _ => None,
    }
}

/// Returns the inodes of the Unix sockets that listen at a path, from `/proc/net/unix`: number, references, protocol, flags, type, state, inode, path.
fn unix_inodes(list: &str, path: &str) -> BTreeSet<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let accepts = u32::from_str_radix(fields.get(3)?, 16).ok()? & ACCEPTS != 0;
        (accepts && line.ends_with(&format!(" {path}"))).then(|| fields.get(6)?.parse().ok()).flatten()
    };
    list.lines().filter_map(inode).collect()
}

/// Returns the owner of one of these sockets that is no process of the run.
fn other_owner(root: &Root, inodes: BTreeSet<u64>) -> Option<OtherListener> {
    let Processes { own, others } = own_processes::own_and_others(root)?;
    let mut unknown = inodes;
    for pid in own {
        for inode in sockets_of(root, pid) {
            unknown.remove(&inode);
        }
    }
    if unknown.is_empty() {
        return None;
    }
    let is_owner = |pid: &u32| sockets_of(root, *pid).iter().any(|inode| unknown.contains(inode));
    let found = others.into_iter().find(|(pid, name)| is_owner(pid) && !is_of_container(root, *pid, name));
    found.map(|(pid, name)| OtherListener { pid, name })
}

/// Returns the inodes of the sockets that a process has open; none if this user may not see them.
fn sockets_of(root: &Root, pid: u32) -> Vec<u64> {
    let folder = format!("/proc/{pid}/fd");
    let inode = |fd: String| {
        let link = root.link_name(&format!("{folder}/{fd}"))?;
        link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    root.names(&folder, "").into_iter().filter_map(inode).collect()
}

/// Returns true for a process of a container, and for one that forwards connections to a container.
fn is_of_container(root: &Root, pid: u32, name: &str) -> bool {
    let namespace = |pid: &str| root.link_name(&format!("/proc/{pid}/ns/pid"));
    FORWARDERS.iter().any(|forwarder| name.starts_with(forwarder)) || namespace(&pid.to_string()) != namespace("self")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;
    use crate::tree::Tree;

    #[test]
    fn addresses_are_those_of_the_kernel() {
        assert_eq!(parse_address("0100007F"), Some("127.0.0.1".parse().expect("an address")));
        assert_eq!(parse_address("00000000000000000000000001000000"), Some("::1".parse().expect("an address")));
        assert_eq!(parse_address("0000000000000000FFFF00000100007F"), Some("::ffff:127.0.0.1".parse().expect("an address")));
        for odd in ["", "7F", "0100007G", "é100007"] {
            assert_eq!(parse_address(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_socket_of_all_addresses_takes_one() {
        let takes = |at: &str, wanted: &str| takes(at.parse().expect("an address"), wanted.parse().expect("an address"));
        assert!(takes("0.0.0.0", "127.0.0.1") && takes("::", "127.0.0.1") && takes("::", "::1") && takes("::1", "::1"));
        assert!(takes("::ffff:127.0.0.1", "127.0.0.1"));
        assert!(!takes("0.0.0.0", "::1") && !takes("127.0.0.2", "127.0.0.1") && !takes("::1", "127.0.0.1"));
    }

    #[test]
    fn a_unix_socket_has_its_whole_path() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 71 /run/server.sock\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 72 /run/server.sock\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 73 /var/run/server.sock\n";
        assert_eq!(unix_inodes(list, "/run/server.sock"), BTreeSet::from([71]));
        assert_eq!(unix_inodes(list, "/run/other"), BTreeSet::new());
    }

    fn stat(pid: u32, name: &str, parent: u32) -> String {
        format!("{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 6 7\n")
    }

    /// Below `assay` are the stage with its supervisor, and a server with the socket 71. Others have the sockets 72 to 75.
    fn machine(stage_parent: u32) -> Tree {
        let of_process = |pid: u32, name: &str, parent: u32, socket: u32, namespace: &str| {
            let folder = format!("proc/{pid}");
            [
                (format!("{folder}/stat"), stat(pid, name, parent)),
                (format!("{folder}/fd/3"), format!("->socket:[{socket}]")),
                (format!("{folder}/ns/pid"), format!("->pid:[{namespace}]")),
            ]
        };
        let files = [
            of_process(1, "init", 0, 1, "7"),
            of_process(10, "assay", 1, 2, "7"),
            of_process(11, "assay", 10, 3, "7"),
            of_process(12, "assay-execute", stage_parent, 4, "7"),
            of_process(13, "server", 11, 71, "7"),
            of_process(20, "rival", 1, 72, "7"),
            of_process(21, "contained", 1, 73, "8"),
            of_process(22, "docker-proxy", 1, 74, "7"),
        ];
        let own = [
            ("proc/self/stat".to_owned(), stat(12, "assay-execute", stage_parent)),
            ("proc/self/ns/pid".to_owned(), "->pid:[7]".to_owned()),
        ];
        let files: Vec<(String, String)> = files.into_iter().flatten().chain(own).collect();
        Tree::new(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
    }

    #[test]
    fn only_a_process_of_the_run_is_measured() {
        let tree = machine(11);
        let owner = |inodes: &[u64]| other_owner(&tree.root(), inodes.iter().copied().collect());
        let rival = OtherListener { pid: 20, name: "rival".to_owned() };
        assert_eq!(owner(&[71]), None, "the target of the run");
        assert_eq!(owner(&[72]), Some(rival.clone()));
        assert_eq!(owner(&[71, 72]), Some(rival), "the kernel divides the connections among both");
        assert_eq!(
            [owner(&[73]), owner(&[74]), owner(&[99])],
            [None, None, None],
            "a container, its forwarder, and nothing known"
        );
        let by_hand = machine(1);
        assert_eq!(other_owner(&by_hand.root(), BTreeSet::from([72])), None, "a person has started the stage and the server");
    }

    #[test]
    fn a_listener_of_this_test_is_found_in_the_lists() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let inodes = tcp_inodes(&Root::host(), &address);
        assert_eq!(inodes.len(), 1);
        assert!(sockets_of(&Root::host(), std::process::id()).iter().any(|inode| inodes.contains(inode)));
        drop(listener);
        assert_eq!(tcp_inodes(&Root::host(), &address).len(), 0);
        assert_eq!(tcp_inodes(&Root::host(), "192.0.2.1:80").len(), 0, "an address of another machine");
    }

    proptest! {
        #[test]
        fn odd_lists_never_make_it_panic(line in "([0-9A-F]{0,33}:?[0-9A-F]{0,5} |é|0A |7 ){0,14}") {
            let _ = parse_tcp(&line);
            let _ = unix_inodes(&line, "/x");
            let _ = parse_address(&line);
        }
    }
}
