//! Recognizes servers that speak HTTP/2 and not HTTP/1.1, to name the reason why they cannot be measured.

/// The length of the header of a frame (RFC 9113, 4.1).
const FRAME_HEADER_BYTES: usize = 9;
/// The largest frame that a peer may send unless it was allowed larger ones (RFC 9113, 4.2).
const MAX_FRAME_BYTES: usize = 1 << 14;
/// The type of a frame with settings: the first frame of every server (RFC 9113, 3.4).
const SETTINGS: u8 = 4;
/// The type of a frame that ends a connection: what a server may send in reply to bytes that are not HTTP/2 (RFC 9113, 3.4).
const GOAWAY: u8 = 7;
/// The beginning of the preface of a client, which a server that reads it as a request may repeat (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// The reason of a response with frames of HTTP/2.
pub(crate) const FRAMES: &str = "the response is HTTP/2, and requests are HTTP/1.1";
/// The reason of a TLS handshake that the server ended because it speaks another protocol than HTTP/1.1.
pub(crate) const REFUSED_IN_TLS: &str = "the server does not speak HTTP/1.1 over TLS (it refused it by ALPN)";

/// Returns true if the first bytes from a server are those of HTTP/2: a first frame that is SETTINGS or GOAWAY, or the preface.
pub fn is_http2(bytes: &[u8]) -> bool {
    recognize(bytes) == Some(true)
}

/// Returns whether the first bytes from a server are those of HTTP/2; `None` if the bytes after them decide it.
pub(crate) fn recognize(bytes: &[u8]) -> Option<bool> {
    if bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes) {
        return None;
    }
    if bytes.starts_with(PREFACE) {
        return Some(true);
    }
    // Bytes that are not there yet are 0, which every part may be but the type.
    let mut header = [0; FRAME_HEADER_BYTES];
    let there = bytes.len().min(FRAME_HEADER_BYTES);
    header.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let [a, b, c, kind, flags, stream @ ..] = header;
    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    let of_connection = stream == [0; 4] && flags == 0 && length <= MAX_FRAME_BYTES;
    let is_first = match kind {
        _ if there < 4 => true,
        SETTINGS => length % 6 == 0,
        GOAWAY => length >= 8,
        _ => false,
    };
    let may_be = of_connection && is_first;
    (there == FRAME_HEADER_BYTES || !may_be).then_some(may_be)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_frame_of_a_server_is_recognized_and_nothing_else() {
        // The settings of a server that speaks HTTP/2 only, and its GOAWAY with the error PROTOCOL_ERROR.
        assert!(is_http2(&[0, 0, 0, 4, 0, 0, 0, 0, 0]));
        assert!(is_http2(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]));
        assert!(is_http2(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
        assert!(is_http2(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        let others: [&[u8]; 7] = [
            b"",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/2 200\r\n\r\n",
            &[0, 0, 0, 4, 0, 0, 0, 0],
            &[0, 0, 5, 4, 0, 0, 0, 0, 0],
            &[0, 0, 0, 4, 0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        for bytes in others {
            assert!(!is_http2(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn a_beginning_is_open_until_the_bytes_after_it_decide() {
        let frame: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0];
        assert!((0..9).all(|end| recognize(&frame[..end]).is_none()) && recognize(frame) == Some(true));
        assert!((0..PREFACE.len()).all(|end| recognize(&PREFACE[..end]).is_none()));
        let decided: [&[u8]; 5] = [b"S", b"PRI x", &[0, 0x41], &[0, 0, 5, 4], &[0, 0, 6, 4, 1]];
        assert!(decided.iter().all(|bytes| recognize(bytes) == Some(false)));
    }
}
