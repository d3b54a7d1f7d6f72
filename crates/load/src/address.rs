//! Addresses of connections: of TCP, and of sockets in the file system (Unix domain).

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The scheme of the address of a Unix socket.
const UNIX: &str = "unix:";
/// The most bytes of the path of a Unix socket (`sun_path` of unix(7), without its end).
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// An address that a connection is made to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointAddress {
    /// Of TCP.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Splits `unix:/run/server.sock` or `unix:/run/server.sock:/base` (the form of nginx) into the path of the socket and the base path, which may
/// be empty; `None` for an address that is not of a Unix socket.
pub fn split_unix_url(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix(UNIX)?;
    Some(rest.split_once(':').unwrap_or((rest, "")))
}

/// Returns the problem with the parts of an address of a Unix socket, if there is one.
pub(crate) fn unix_problem(socket: &str, base: &str) -> Option<&'static str> {
    if !socket.starts_with('/') || socket.ends_with('/') {
        return Some("the path of a socket is absolute, as in `unix:/run/server.sock`");
    }
    if socket.len() > MAX_SOCKET_PATH_BYTES {
        return Some("the path of a socket has at most 107 bytes");
    }
    if socket.bytes().any(|byte| byte.is_ascii_control()) {
        return Some("the path of a socket has no control characters");
    }
    let is_base = base.is_empty() || (base.starts_with('/') && base.bytes().all(|byte| byte.is_ascii_graphic()));
    (!is_base || base.contains('#')).then_some("after the second `:` comes a path, as in `unix:/run/server.sock:/v1`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_and_its_base_path_are_told_apart() {
        assert_eq!(split_unix_url("unix:/run/a.sock"), Some(("/run/a.sock", "")));
        assert_eq!(split_unix_url("unix:/run/a.sock:/openai/v1"), Some(("/run/a.sock", "/openai/v1")));
        assert_eq!(split_unix_url("http://unix/a"), None);
        let long = format!("/{}", "a".repeat(MAX_SOCKET_PATH_BYTES));
        for (socket, base) in [
            ("a.sock", ""),
            ("", ""),
            ("/run/", ""),
            (long.as_str(), ""),
            ("/a\nb", ""),
            ("/a", "v1"),
            ("/a", "/v1 x"),
            ("/a", "/#"),
        ] {
            assert!(unix_problem(socket, base).is_some(), "{socket} {base}");
        }
        assert_eq!((unix_problem("/a", ""), unix_problem(&long[..MAX_SOCKET_PATH_BYTES], "/v1?x=1")), (None, None));
    }
}
