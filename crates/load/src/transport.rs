//! A socket, plain or with TLS. It never blocks.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;

use assay_reactor::now_ns;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustls::{AlertDescription, ClientConnection};

use crate::EndpointAddress;
use crate::http2;
use crate::tls::Tls;

/// One connection.
#[derive(Debug)]
pub(crate) struct Transport {
    /// Of TCP, or a Unix socket: the methods that are used here make no difference between stream sockets.
    pub(crate) socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// The number of bytes; `more` is true if the same read brought more than fitted.
    Bytes { count: usize, more: bool },
    /// No bytes yet.
    Nothing,
    /// The peer closed.
    Closed,
}

impl Transport {
    /// Begins to connect. Returns true if it is already connected, which happens on one host.
    pub(crate) fn connect(address: &EndpointAddress, source: Option<IpAddr>, tls: Option<&Tls>) -> io::Result<(Self, bool)> {
        let (socket, connected) = match address {
            EndpointAddress::Tcp(address) => connect_tcp(*address, source)?,
            EndpointAddress::Unix(path) => connect_unix(path)?,
        };
        let stands = match connected {
            Ok(()) => true,
            Err(rustix::io::Errno::INPROGRESS) => false,
            Err(error) => return Err(error.into()),
        };
        let tls = match tls {
            None => None,
            Some(tls) => Some(Box::new(ClientConnection::new(tls.config.clone(), tls.name.clone()).map_err(io::Error::other)?)),
        };
        Ok((Self { socket: TcpStream::from(socket), tls }, stands))
    }

    /// Returns the result of a connect that did not complete at once.
    pub(crate) fn connect_result(&self) -> io::Result<()> {
        self.socket.take_error()?.map_or(Ok(()), Err)
    }

    /// Continues the handshake without blocking. Returns true if it is complete.
    pub(crate) fn shake_hands(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.is_handshaking() {
            if tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed in the handshake")),
                Ok(_) => tls.process_new_packets().map(drop).map_err(handshake_error)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns true if accepted bytes are still to be written.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes as much as possible without blocking; `WouldBlock` if it can write nothing.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.write(bytes) };
        flush(tls, &mut self.socket)?;
        let taken = tls.writer().write(bytes)?;
        match flush(tls, &mut self.socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes the bytes that were accepted and are not yet written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| flush(tls, &mut self.socket))
    }

    /// Returns true if a kept-alive connection is still open and has nothing to read. Anything to read would be its end, because
    /// there is no request on it.
    pub(crate) fn is_silent(&self) -> bool {
        self.socket.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Returns true if a write that fails has put nothing on the wire. TLS may have written a part before.
    pub(crate) fn writes_all_or_nothing(&self) -> bool {
        self.tls.is_none()
    }

    /// Reads once, and returns the time at which that read returned.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> (io::Result<ReadResult>, i64) {
        let Some(tls) = &mut self.tls else {
            let count = self.socket.read(buffer);
            return (read_result(count), now_ns());
        };
        let count = tls.read_tls(&mut self.socket);
        let at = now_ns();
        let got = match count {
            Ok(_) => match tls.process_new_packets() {
                Ok(_) => self.read_rest(buffer),
                Err(error) => Err(io::Error::other(error)),
            },
            error => read_result(error),
        };
        (got, at)
    }

    /// Returns the bytes of the last read that did not fit.
    pub(crate) fn read_rest(&mut self, buffer: &mut [u8]) -> io::Result<ReadResult> {
        let Some(tls) = &mut self.tls else { return Ok(ReadResult::Nothing) };
        let mut count = 0;
        while count < buffer.len() {
            match tls.reader().read(&mut buffer[count..]) {
                // Bytes that came before the end are returned first; the end is found again.
                Ok(0) if count == 0 => return Ok(ReadResult::Closed),
                Ok(0) => return Ok(ReadResult::Bytes { count, more: true }),
                Ok(read) => count += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && count == 0 => return Ok(ReadResult::Nothing),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadResult::Bytes { count, more: false }),
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(ReadResult::Bytes { count, more: true }),
            }
        }
        Ok(ReadResult::Bytes { count, more: true })
    }
}

/// A socket, and the immediate result of its connect.
type Connecting = (OwnedFd, rustix::io::Result<()>);

fn connect_tcp(address: SocketAddr, source: Option<IpAddr>) -> io::Result<Connecting> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = stream_socket(family)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = source {
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    let connected = rustix::net::connect(&socket, &address);
    Ok((socket, connected))
}

/// Connects to a Unix socket, at once or not at all: if the queue of the listener is full, the error is `WouldBlock` (connect(2)).
fn connect_unix(path: &Path) -> io::Result<Connecting> {
    let socket = stream_socket(AddressFamily::UNIX)?;
    let connected = rustix::net::connect(&socket, &SocketAddrUnix::new(path)?);
    Ok((socket, connected))
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?)
}

/// Returns the error of a handshake, which names HTTP/2 if the server speaks nothing that the client offers.
fn handshake_error(error: rustls::Error) -> io::Error {
    match error {
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => io::Error::other(http2::REFUSED_IN_TLS),
        error => io::Error::other(error),
    }
}

fn read_result(count: io::Result<usize>) -> io::Result<ReadResult> {
    match count {
        Ok(0) => Ok(ReadResult::Closed),
        Ok(count) => Ok(ReadResult::Bytes { count, more: false }),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(ReadResult::Nothing),
        Err(error) => Err(error),
    }
}

fn flush(tls: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(socket)?;
    }
    Ok(())
}
