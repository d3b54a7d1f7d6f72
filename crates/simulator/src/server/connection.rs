//! One client's connection: bytes received and not parsed yet, and bytes to send that the client has not read yet.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use assay_reactor::{Interest, now_ns};

use crate::server::http::{BadRequest, Body, Head, read_head};

/// Reads of one connection before others are served.
const READS_AT_A_TIME: usize = 16;

/// The maximum bytes that a client may send ahead while its response is in progress.
const MAX_PIPELINED: usize = 1 << 20;

/// The maximum bytes that are read and discarded of a request that was refused before its end, so that its client reads the
/// refusal.
const MAX_DRAINED: usize = 64 << 20;

/// The index of a chunk, and the instant immediately before it was passed to the kernel, in nanoseconds.
pub(super) type Stamp = (u32, i64);

/// A client's connection.
pub(super) struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    partial: Option<(Head, Body)>,
    backlog: VecDeque<Piece>,
    backlog_bytes: usize,
    drip: Option<Drip>,
    /// The interest that is registered with the poller.
    pub(super) interest: Interest,
    /// The request in progress.
    pub(super) request: Option<u64>,
    /// True if the complete response has been passed to `send`.
    pub(super) is_complete: bool,
    /// True if another request may follow.
    pub(super) keep_alive: bool,
    /// Bytes discarded since it was refused; none while it is served.
    drained: Option<usize>,
    /// The instant of the last read or write.
    pub(super) last_activity_ns: i64,
}

struct Piece {
    bytes: Vec<u8>,
    written: usize,
    chunk: Option<u32>,
}

struct Drip {
    every_ns: i64,
    next_ns: i64,
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Bytes that may complete a request.
    Data,
    /// The client has left, or sends more than it may.
    Closed,
}

impl Connection {
    pub(super) fn new(socket: TcpStream, now: i64) -> Self {
        Self {
            socket,
            input: Vec::new(),
            partial: None,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            drip: None,
            interest: Interest::Read,
            request: None,
            is_complete: false,
            keep_alive: true,
            drained: None,
            last_activity_ns: now,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads the available bytes. `stirred_ns` is the end of the last read that returned some.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Input {
        for _ in 0..READS_AT_A_TIME {
            match self.socket.read(buffer) {
                Ok(0) => return Input::Closed,
                Ok(count) => {
                    self.last_activity_ns = now_ns();
                    if !self.take(&buffer[..count]) {
                        return Input::Closed;
                    }
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Input::Closed,
            }
        }
        Input::Data
    }

    /// Buffers the bytes and returns true if there is room for them.
    fn take(&mut self, bytes: &[u8]) -> bool {
        if let Some(drained) = &mut self.drained {
            *drained += bytes.len();
            return *drained <= MAX_DRAINED;
        }
        self.input.extend_from_slice(bytes);
        self.request.is_none() || self.input.len() <= MAX_PIPELINED
    }

    /// Returns the next request, once it is complete. `max` is the maximum bytes of head and body.
    pub(super) fn next_request(&mut self, max: (usize, usize)) -> Result<Option<(Head, Vec<u8>)>, BadRequest> {
        let (max_head, max_body) = max;
        if self.drained.is_some() || self.input.is_empty() && self.partial.is_none() {
            return Ok(None);
        }
        if self.partial.is_none() {
            let Some((head, length)) = read_head(&self.input, max_head)? else { return Ok(None) };
            self.input.drain(..length);
            let body = Body::new(head.length, max_body)?;
            self.partial = Some((head, body));
        }
        let Some((head, mut body)) = self.partial.take() else { return Ok(None) };
        if let Some(body) = body.read(&mut self.input)? {
            return Ok(Some((head, body)));
        }
        self.partial = Some((head, body));
        Ok(None)
    }

    /// Returns true, once, if the client waits for permission to send the body.
    pub(super) fn expects_continue(&mut self) -> bool {
        self.partial.as_mut().is_some_and(|(head, _)| std::mem::take(&mut head.expects_continue))
    }

    /// Sends the response byte by byte from now on.
    pub(super) fn drip_every(&mut self, every_ns: i64) {
        self.drip = Some(Drip { every_ns, next_ns: now_ns() });
    }

    /// Returns the due time of the next byte of a slow drip, if one is pending.
    pub(super) fn next_drip_ns(&self) -> Option<i64> {
        self.drip.as_ref().filter(|_| !self.backlog.is_empty()).map(|drip| drip.next_ns)
    }

    /// Passes bytes to the kernel, at once and by themselves, unless earlier ones are still queued.
    pub(super) fn send(&mut self, bytes: &[u8], chunk: Option<u32>, stamps: &mut Vec<Stamp>) -> io::Result<()> {
        let (mut written, mut chunk) = (0, chunk);
        if self.backlog.is_empty() && self.drip.is_none() {
            let at_ns = now_ns();
            written = write(&self.socket, bytes)?;
            if written > 0 {
                stamps.extend(chunk.take().map(|chunk| (chunk, at_ns)));
            }
        }
        if written < bytes.len() {
            self.backlog_bytes += bytes.len() - written;
            self.backlog.push_back(Piece { bytes: bytes[written..].to_vec(), written: 0, chunk });
        }
        Ok(())
    }

    /// Passes queued bytes on, as far as the kernel accepts them and a slow drip allows.
    pub(super) fn flush(&mut self, stamps: &mut Vec<Stamp>) -> io::Result<()> {
        while let Some(piece) = self.backlog.front_mut() {
            let at_ns = now_ns();
            let mut end = piece.bytes.len();
            if let Some(drip) = &mut self.drip {
                if at_ns < drip.next_ns {
                    break;
                }
                drip.next_ns = drip.next_ns.saturating_add(drip.every_ns);
                end = piece.written + 1;
            }
            let written = write(&self.socket, &piece.bytes[piece.written..end])?;
            if written == 0 {
                break;
            }
            stamps.extend(piece.chunk.take().map(|chunk| (chunk, at_ns)));
            piece.written += written;
            self.backlog_bytes -= written;
            self.last_activity_ns = at_ns;
            if piece.written == piece.bytes.len() {
                self.backlog.pop_front();
            }
        }
        Ok(())
    }

    /// Returns the number of bytes that wait for the client.
    pub(super) fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Returns true if no request is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.request.is_none() && !self.is_complete
    }

    /// Returns true if all bytes have been passed to the kernel.
    pub(super) fn is_flushed(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Returns the interest to watch for: room to write only if bytes wait for nothing but that.
    pub(super) fn wanted_interest(&self) -> Interest {
        if self.backlog.is_empty() || self.drip.is_some() { Interest::Read } else { Interest::ReadWrite }
    }

    /// Ends the response; the connection is idle again.
    pub(super) fn end_response(&mut self) {
        self.request = None;
        self.is_complete = false;
        self.drip = None;
    }

    /// Sends nothing more, and lets the client finish: closing at once would make the kernel discard the last bytes sent.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        self.drained = Some(0);
        self.input = Vec::new();
        self.partial = None;
        self.socket.shutdown(Shutdown::Write)
    }

    /// Returns true if it only waits for its client to leave.
    pub(super) fn is_draining(&self) -> bool {
        self.drained.is_some()
    }
}

fn write(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match socket.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
