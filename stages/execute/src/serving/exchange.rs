//! Measures the offset of another host's wall clock from shard 0's: a few pings over TCP, of which the one with the shortest
//! round trip counts.
//!
//! Each ping is an NTP exchange (RFC 5905, section 8): sent at t0 by the client's clock, received at t1 and its response sent at
//! t2 by the server's, received at t3 by the client's. The error of the estimate is at most half of the round trip, for any asymmetry of the path.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pings of one shard: the shortest round trip of this many is near the shortest possible one.
const PINGS: usize = 16;

/// The timeout of connecting, and then of the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The interval at which the listener checks for connections, and for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The connections that are accepted for each shard: includes retries after a fault, and strangers.
const CONNECTIONS_PER_SHARD: u32 = 8;

/// The first bytes of each message: a peer that sends other bytes speaks another protocol.
const MAGIC: [u8; 8] = *b"assayclk";

/// The variable with the address at which other shards' hosts reach this host.
const ADDRESS_VARIABLE: &str = "ASSAY_SHARD_ADDRESS";

/// One ping, in nanoseconds since the epoch, each by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    /// Sent, by the client's clock.
    pub(crate) t0: i64,
    /// Received, by the server's clock.
    pub(crate) t1: i64,
    /// The response sent, by the server's clock.
    pub(crate) t2: i64,
    /// Received, by the client's clock.
    pub(crate) t3: i64,
}

/// The result of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    /// The server's clock minus the client's, in nanoseconds.
    pub(crate) ns: i64,
    /// The maximum error of it, in nanoseconds.
    pub(crate) bound_ns: u64,
}

impl Ping {
    /// Returns the round trip time without the time at the peer; none if the instants contradict each other.
    fn round_trip_ns(&self) -> Option<u64> {
        let there_and_back = i128::from(self.t3) - i128::from(self.t0);
        let at_server = i128::from(self.t2) - i128::from(self.t1);
        u64::try_from(there_and_back - at_server).ok().filter(|_| at_server >= 0)
    }

    fn offset(&self) -> Option<Offset> {
        let sum = (i128::from(self.t1) - i128::from(self.t0)) + (i128::from(self.t2) - i128::from(self.t3));
        // Rounded down, by half a nanosecond at most, which the bound's rounding up covers.
        Some(Offset { ns: i64::try_from(sum.div_euclid(2)).ok()?, bound_ns: self.round_trip_ns()?.div_ceil(2) })
    }
}

/// Estimates the offset from several pings: the one with the shortest round trip is the most precise.
pub(crate) fn estimate(pings: &[Ping]) -> Option<Offset> {
    pings.iter().min_by_key(|ping| ping.round_trip_ns().unwrap_or(u64::MAX))?.offset()
}

/// A clock, in nanoseconds since the epoch.
pub(crate) type ClockFn = fn() -> i64;

/// Serves this host's clock to other shards' hosts.
pub(crate) struct Listener {
    socket: TcpListener,
    /// The address at which they reach it.
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Listens on a free port of the address that the environment names, or else of this host's primary one.
    pub(crate) fn open() -> Result<Self, String> {
        let address = match std::env::var(ADDRESS_VARIABLE) {
            Ok(text) => text.parse().map_err(|_| format!("`{text}` in `{ADDRESS_VARIABLE}` is no IP address"))?,
            Err(_) => primary_address().map_err(|error| format!("this host has no address of its own: {error}"))?,
        };
        Self::at(address).map_err(|error| format!("cannot listen at {address}: {error}"))
    }

    fn at(address: IpAddr) -> io::Result<Self> {
        let socket = TcpListener::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Responds to pings by the clock `now` until `is_over`, each connection in its own thread; at most the connections that `shards`
    /// need.
    pub(crate) fn serve(&self, now: ClockFn, shards: u32, is_over: &AtomicBool) {
        let mut left = shards.saturating_mul(CONNECTIONS_PER_SHARD);
        while left > 0 && !is_over.load(Ordering::Acquire) {
            match self.socket.accept() {
                Ok((stream, _)) => {
                    left -= 1;
                    // The thread is not joined: it ends at its timeout, and its error is ignored, because the peer may speak
                    // another protocol. Without a thread the connection closes, which the peer reports.
                    let _ = std::thread::Builder::new().spawn(move || drop(serve_connection(&stream, now)));
                }
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }
}

/// Returns the address of this host towards others. No packet is sent: a datagram socket is only connected, to an address that is
/// assigned to no host (RFC 5737).
fn primary_address() -> io::Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect("192.0.2.1:9")?;
    Ok(socket.local_addr()?.ip())
}

/// Responds to the pings of one connection.
fn serve_connection(mut stream: &TcpStream, now: ClockFn) -> io::Result<()> {
    let deadline = prepare(stream)?;
    let mut question = [0; 16];
    for _ in 0..PINGS {
        read_before(stream, &mut question, deadline)?;
        let received = now();
        let [magic, number] = halves(question);
        if magic != MAGIC {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut response = [0; 32];
        response[..8].copy_from_slice(&MAGIC);
        response[8..16].copy_from_slice(&number);
        response[16..24].copy_from_slice(&received.to_be_bytes());
        response[24..].copy_from_slice(&now().to_be_bytes());
        stream.write_all(&response)?;
    }
    Ok(())
}

/// Pings the listener at `address` by the clock `now`.
pub(crate) fn measure_offset(address: SocketAddr, now: ClockFn) -> Result<Offset, String> {
    let pings = questions(address, now).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no response from {address} within {TIMEOUT:?}"),
        ErrorKind::InvalidData => format!("{address} sent another response"),
        _ => format!("{address}: {error}"),
    })?;
    estimate(&pings).ok_or_else(|| format!("the instants that {address} gave contradict each other"))
}

fn questions(address: SocketAddr, now: ClockFn) -> io::Result<Vec<Ping>> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    let deadline = prepare(&stream)?;
    (0..PINGS as u64).map(|number| question(&stream, number, now, deadline)).collect()
}

fn question(mut stream: &TcpStream, number: u64, now: ClockFn, deadline: Instant) -> io::Result<Ping> {
    let mut question = [0; 16];
    question[..8].copy_from_slice(&MAGIC);
    question[8..].copy_from_slice(&number.to_be_bytes());
    // The wall clock may be set meanwhile, so the time span comes from the monotonic clock.
    let (t0, began) = (now(), Instant::now());
    stream.write_all(&question)?;
    let mut response = [0; 32];
    read_before(stream, &mut response, deadline)?;
    let t3 = t0.saturating_add(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
    let (said, instants) = response.split_at(16);
    if said != question {
        return Err(ErrorKind::InvalidData.into());
    }
    let [t1, t2] = halves(<[u8; 16]>::try_from(instants).map_err(|_| ErrorKind::InvalidData)?).map(i64::from_be_bytes);
    Ok(Ping { t0, t1, t2, t3 })
}

/// Prepares a connection, and returns its deadline.
fn prepare(stream: &TcpStream) -> io::Result<Instant> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(Instant::now() + TIMEOUT)
}

/// Fills the buffer before the deadline: a peer that sends a byte now and then does not extend it.
fn read_before(mut stream: &TcpStream, into: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(rest) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn halves(bytes: [u8; 16]) -> [[u8; 8]; 2] {
    let mut halves = [[0; 8]; 2];
    for (half, part) in halves.iter_mut().zip(bytes.chunks_exact(8)) {
        half.copy_from_slice(part);
    }
    halves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ping(t0: i64, t1: i64, t2: i64, t3: i64) -> Ping {
        Ping { t0, t1, t2, t3 }
    }

    fn found(pings: &[Ping]) -> Option<(i64, u64)> {
        estimate(pings).map(|offset| (offset.ns, offset.bound_ns))
    }

    #[test]
    fn an_even_way_gives_the_very_offset() {
        // The other clock is 1000 ahead; 10 there, 5 at the server, 10 back.
        assert_eq!(found(&[ping(0, 1010, 1015, 25)]), Some((1000, 10)));
        // 300 behind.
        assert_eq!(found(&[ping(1000, 710, 710, 1020)]), Some((-300, 10)));
    }

    #[test]
    fn an_uneven_way_is_wrong_by_half_of_it_at_most() {
        // All 20 of the round trip are there, or back: the estimate is wrong by 10.
        assert_eq!(found(&[ping(0, 1020, 1020, 20)]), Some((1010, 10)));
        assert_eq!(found(&[ping(0, 1000, 1000, 20)]), Some((990, 10)));
        // 5 there and 2 back: 1001.5, rounded down, and half of 7 rounded up.
        assert_eq!(found(&[ping(0, 1005, 1005, 7)]), Some((1001, 4)));
    }

    #[test]
    fn the_shortest_way_of_several_counts() {
        let (long, short) = (ping(0, 1090, 1090, 100), ping(200, 1203, 1203, 206));
        assert_eq!(found(&[long, short, long]), Some((1000, 3)));
        assert_eq!(found(&[long]), Some((1040, 50)));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn instants_that_contradict_each_other_tell_nothing() {
        assert_eq!(found(&[ping(10, 5, 5, 0)]), None, "a response before its request");
        assert_eq!(found(&[ping(0, 5, 4, 10)]), None, "sent before the request was received");
        assert_eq!(found(&[ping(0, 5, 20, 10)]), None, "the time at the server is longer than all of it");
        assert_eq!(found(&[ping(i64::MIN, i64::MAX, i64::MAX, i64::MIN)]), None, "farther than can be said");
        assert_eq!(found(&[ping(10, 5, 5, 0), ping(0, 1010, 1010, 20)]), Some((1000, 10)), "one that is good is enough");
    }

    proptest! {
        #[test]
        fn the_bound_holds_however_the_way_is_split(
            offset in -1_000_000_000_i64..1_000_000_000,
            pings in prop::collection::vec((0_i64..1_000_000, 0_i64..1000, 0_i64..1_000_000, any::<i32>()), 1..20),
        ) {
            let pings: Vec<Ping> = pings.iter().map(|(there, at_server, back, at)| {
                let t0 = i64::from(*at);
                let t1 = t0 + there + offset;
                Ping { t0, t1, t2: t1 + at_server, t3: t0 + there + at_server + back }
            }).collect();
            let found = estimate(&pings).expect("an estimate");
            prop_assert!((found.ns - offset).unsigned_abs() <= found.bound_ns, "{found:?} of {offset}");
        }

        #[test]
        fn every_response_is_an_estimate_or_none(t0: i64, t1: i64, t2: i64, t3: i64) {
            let _ = estimate(&[Ping { t0, t1, t2, t3 }]);
        }
    }

    fn wall_ns() -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        i64::try_from(since.as_nanos()).expect("it fits")
    }

    const AHEAD_NS: i64 = 3_600_000_000_000;

    fn an_hour_ahead() -> i64 {
        wall_ns() + AHEAD_NS
    }

    /// Checks the offset that a client finds at a listener whose clock is an hour ahead, after strangers have connected.
    #[test]
    fn a_clock_that_is_ahead_is_found_over_a_real_connection() {
        let listener = Listener::at("127.0.0.1".parse().expect("an address")).expect("a listener");
        let (address, is_over) = (listener.address, AtomicBool::new(false));
        let found = std::thread::scope(|scope| {
            scope.spawn(|| listener.serve(an_hour_ahead, 2, &is_over));
            let mut stranger = TcpStream::connect(address).expect("a connection");
            stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
            assert_eq!(stranger.read(&mut [0; 64]).unwrap_or(0), 0, "it is not spoken to");
            let found = [measure_offset(address, wall_ns), measure_offset(address, an_hour_ahead)];
            is_over.store(true, Ordering::Release);
            found
        });
        let [ahead, same] = found.map(|found| found.expect("an estimate"));
        assert!((ahead.ns - AHEAD_NS).unsigned_abs() <= ahead.bound_ns, "{ahead:?}");
        assert!(same.ns.unsigned_abs() <= same.bound_ns, "{same:?}");
    }

    #[test]
    fn a_peer_that_sends_another_response_or_none_is_reported() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = socket.accept().expect("a connection");
            let _ = stream.write_all(&[b'x'; 32]);
            let _ = stream.read(&mut [0; 16]);
        });
        assert_eq!(measure_offset(address, wall_ns), Err(format!("{address} sent another response")));
        peer.join().expect("no panic");
        let gone = measure_offset(address, wall_ns).expect_err("nobody listens");
        assert!(gone.contains("refused"), "{gone}");
    }
}
