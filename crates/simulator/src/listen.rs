//! The address that the endpoint listens on: of TCP, or a Unix socket.

use std::fmt;
use std::io;
use std::net::{AddrParseError, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error as _};

/// The scheme of the address of a Unix socket.
const UNIX: &str = "unix:";

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Of TCP; port 0 selects a free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket, which is made, and removed at the end.
    Unix(PathBuf),
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for ListenAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        match text.strip_prefix(UNIX) {
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => text.parse().map(Self::Tcp),
        }
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl ListenAddress {
    /// Returns the URL of a server at it.
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}"),
            Self::Unix(_) => self.to_string(),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// A listener. That of a Unix socket removes its file when it is dropped.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

impl Listener {
    /// Listens with a queue of so many connections, without blocking. Returns the address with the port that was selected.
    pub(crate) fn bind(address: &ListenAddress, backlog: i32) -> io::Result<(Self, ListenAddress)> {
        match address {
            ListenAddress::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                rustix::net::listen(&listener, backlog)?;
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                Ok((Self::Tcp(listener), address.into()))
            }
            ListenAddress::Unix(path) => {
                let socket = UnixSocket { listener: UnixListener::bind(path)?, path: path.clone() };
                rustix::net::listen(&socket.listener, backlog)?;
                socket.listener.set_nonblocking(true)?;
                Ok((Self::Unix(socket), address.clone()))
            }
        }
    }

    /// Accepts a connection, as a stream that does not block. The methods of `TcpStream` that are used make no difference between stream sockets.
    pub(crate) fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            Self::Unix(socket) => {
                let (stream, _) = socket.listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(TcpStream::from(OwnedFd::from(stream)))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(socket) => socket.listener.as_fd(),
        }
    }
}

/// A Unix socket, whose file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
