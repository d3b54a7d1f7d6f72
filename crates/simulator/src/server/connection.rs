//! One client's connection: what has come in and is not read yet, and what goes out and is not taken yet.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use assay_reactor::{Interest, now_ns};

use crate::server::http::{BadRequest, Body, Head, read_head};

/// Reads of one connection before others have their turn.
const READS_AT_A_TIME: usize = 16;

/// What a client may send ahead while its answer is under way.
const MAX_PIPELINED: usize = 1 << 20;

/// What is read and thrown away of a request that was refused before its end, so that its client reads the refusal.
const MAX_DRAINED: usize = 64 << 20;

/// Which chunk of its answer was handed to the kernel, and immediately before that, in nanoseconds.
pub(super) type Stamp = (u32, i64);

/// A client's connection.
pub(super) struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    partial: Option<(Head, Body)>,
    backlog: VecDeque<Piece>,
    backlog_bytes: usize,
    drip: Option<Drip>,
    /// What the poller was told to watch for.
    pub(super) interest: Interest,
    /// The request that is being answered.
    pub(super) request: Option<u64>,
    /// Whether all of the answer has been handed over.
    pub(super) said_all: bool,
    /// Whether another request may follow.
    pub(super) keep_alive: bool,
    /// Bytes thrown away since it was refused; none while it is served.
    drained: Option<usize>,
    /// When something came or went last.
    pub(super) stirred_ns: i64,
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

/// What reading has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Perhaps a request.
    Some,
    /// The client has left, or sends what nobody asked for.
    Gone,
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
            said_all: false,
            keep_alive: true,
            drained: None,
            stirred_ns: now,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads what is there. `stirred_ns` is the end of the last read that brought something.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Input {
        for _ in 0..READS_AT_A_TIME {
            match self.socket.read(buffer) {
                Ok(0) => return Input::Gone,
                Ok(count) => {
                    self.stirred_ns = now_ns();
                    if !self.take(&buffer[..count]) {
                        return Input::Gone;
                    }
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Input::Gone,
            }
        }
        Input::Some
    }

    /// Whether there is room for it.
    fn take(&mut self, bytes: &[u8]) -> bool {
        if let Some(drained) = &mut self.drained {
            *drained += bytes.len();
            return *drained <= MAX_DRAINED;
        }
        self.input.extend_from_slice(bytes);
        self.request.is_none() || self.input.len() <= MAX_PIPELINED
    }

    /// The next request, once it is whole. `max` bytes of head and body.
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

    /// Whether the client waits to be told to send the body; asked once.
    pub(super) fn expects_continue(&mut self) -> bool {
        self.partial.as_mut().is_some_and(|(head, _)| std::mem::take(&mut head.expects_continue))
    }

    /// From now on the answer goes out byte by byte.
    pub(super) fn drip_every(&mut self, every_ns: i64) {
        self.drip = Some(Drip { every_ns, next_ns: now_ns() });
    }

    /// When the next byte of a slow drip is due, if there is one to go.
    pub(super) fn next_drip_ns(&self) -> Option<i64> {
        self.drip.as_ref().filter(|_| !self.backlog.is_empty()).map(|drip| drip.next_ns)
    }

    /// Hands bytes to the kernel, at once and by themselves, unless earlier ones still wait.
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

    /// Hands over what waits, as far as the kernel takes it and a slow drip allows.
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
            self.stirred_ns = at_ns;
            if piece.written == piece.bytes.len() {
                self.backlog.pop_front();
            }
        }
        Ok(())
    }

    /// Bytes that wait for the client.
    pub(super) fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Whether nothing is being said.
    pub(super) fn is_free(&self) -> bool {
        self.request.is_none() && !self.said_all
    }

    /// Whether all that was said has gone out.
    pub(super) fn is_flushed(&self) -> bool {
        self.backlog.is_empty()
    }

    /// What is to be watched for: room to write only where something waits for nothing but that.
    pub(super) fn wanted(&self) -> Interest {
        if self.backlog.is_empty() || self.drip.is_some() { Interest::Read } else { Interest::ReadWrite }
    }

    /// The answer is over; the connection is as it was before.
    pub(super) fn rest(&mut self) {
        self.request = None;
        self.said_all = false;
        self.drip = None;
    }

    /// Says nothing more, and lets the client finish: closing at once would make the kernel take back what was said last.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        self.drained = Some(0);
        self.input = Vec::new();
        self.partial = None;
        self.socket.shutdown(Shutdown::Write)
    }

    /// Whether it only waits for its client to leave.
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
