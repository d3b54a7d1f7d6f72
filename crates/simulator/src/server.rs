//! The endpoint: one thread, one poller, and a model whose plan it follows.
//!
//! Every chunk is written separately, at its planned instant or as soon as possible after it, and stamped immediately before.
//! Delays never add up: the next instant comes from the plan, not from the time at which the last chunk was sent.

mod connection;
mod event_loop;
mod http;
mod inference_request;
mod log;
mod response;

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;

use assay_reactor::{Interest, Poller, ReadySocket, now_ns};
use thiserror::Error;

use crate::config::Config;
use crate::engine::Engine;
use crate::listen::{ListenAddress, Listener};
use crate::model::Model;
use event_loop::EventLoop;

/// The token of the listener; connections have lower tokens.
const LISTENER: u64 = u64::MAX;

/// The token of the socket that stops the server.
const STOP: u64 = u64::MAX - 1;

/// The backlog of the listener. The standard library's backlog makes a thousand simultaneous clients wait a second.
const ACCEPT_QUEUE: i32 = 4_096;

/// The maximum sockets that are served before the plan is checked again.
const SOCKETS_AT_A_TIME: usize = 256;

/// The reason why an endpoint cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It cannot listen on the address.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address.
        address: ListenAddress,
        /// The cause.
        source: io::Error,
    },
    /// The file for the truth cannot be written.
    #[error("cannot write the truth to `{}`", path.display())]
    Truth {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The system refuses a resource of the server: sockets, threads, readiness.
    #[error("cannot serve")]
    System(#[from] io::Error),
}

/// An endpoint that listens and does not serve yet.
pub struct Server {
    listener: Listener,
    address: ListenAddress,
    stop: UnixStream,
    stopper: UnixStream,
    lane: EventLoop,
}

impl Server {
    /// Listens, with the model of the configuration.
    pub fn bind(config: Config) -> Result<Self, ServeError> {
        let model = config.engine.model(&config.seed);
        Self::with_model(config, model)
    }

    /// Listens, with another model; the engine of the configuration then only states the blocks of the cache.
    pub fn with_model(config: Config, model: Box<dyn Model>) -> Result<Self, ServeError> {
        let refused = |source| ServeError::Listen { address: config.listen.clone(), source };
        let (listener, address) = Listener::bind(&config.listen, ACCEPT_QUEUE).map_err(refused)?;
        let (stop, stopper) = UnixStream::pair()?;
        stop.set_nonblocking(true)?;
        Ok(Self { listener, address, stop, stopper, lane: EventLoop::new(config, Engine::new(model))? })
    }

    /// Returns the address that it listens on.
    pub fn listen_address(&self) -> &ListenAddress {
        &self.address
    }

    /// Returns its address of TCP; that of a server on a Unix socket is unspecified.
    pub fn address(&self) -> SocketAddr {
        tcp_address(&self.address)
    }

    /// Returns a handle that stops it, from any thread.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper(self.stopper.try_clone()?))
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> Result<(), ServeError> {
        // By default the kernel lets a thread sleep 50 us longer than requested. If that cannot be changed, chunks are late by
        // this much, which the truth shows.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut poller = Poller::new(SOCKETS_AT_A_TIME)?;
        poller.add(&self.listener, LISTENER, Interest::Read)?;
        poller.add(&self.stop, STOP, Interest::Read)?;
        self.lane.start(now_ns())?;
        let mut ready = Vec::with_capacity(SOCKETS_AT_A_TIME);
        loop {
            if self.wait_for_stall_end() {
                break;
            }
            self.lane.do_due_work(&poller);
            self.lane.listen_again(&self.listener, &poller);
            let deadline_ns = self.lane.next_ns();
            let asleep_until_ns = deadline_ns.map(|at_ns| at_ns.saturating_sub(self.lane.spin_ns()));
            ready.extend(poller.wait(asleep_until_ns)?);
            if ready.is_empty() {
                spin_until(deadline_ns);
            }
            if self.serve(&mut ready, &poller) {
                break;
            }
        }
        self.lane.finish(now_ns())
    }

    /// Serves on a thread of its own.
    pub fn spawn(self) -> Result<RunningServer, ServeError> {
        let (address, stopper) = (self.address(), self.stopper()?);
        let thread = std::thread::Builder::new().name("simulator".to_owned()).spawn(move || self.run())?;
        Ok(RunningServer { address, stopper, thread: Some(thread) })
    }

    /// Serves the ready sockets and checks the plan between them; returns true if it is to stop.
    fn serve(&mut self, ready: &mut Vec<ReadySocket>, poller: &Poller) -> bool {
        for socket in ready.drain(..) {
            match socket.token {
                STOP => return true,
                LISTENER => self.lane.accept(&self.listener, poller),
                _ => self.lane.serve(socket, poller),
            }
            if self.lane.is_due(now_ns()) {
                self.lane.do_due_work(poller);
            }
        }
        false
    }

    /// Sleeps while the endpoint stalls. Returns true if it is to stop.
    fn wait_for_stall_end(&mut self) -> bool {
        while let Some(until_ns) = self.lane.stalled_until_ns(now_ns()) {
            let left_ns = until_ns.saturating_sub(now_ns()).max(0);
            let asked = self.stop.set_nonblocking(false).is_ok()
                && self.stop.set_read_timeout(Some(std::time::Duration::from_nanos(left_ns.max(1) as u64))).is_ok()
                && self.stop.read(&mut [0]).is_ok_and(|bytes| bytes > 0);
            let _ = self.stop.set_nonblocking(true);
            if asked {
                return true;
            }
        }
        false
    }
}

fn spin_until(deadline_ns: Option<i64>) {
    while deadline_ns.is_some_and(|deadline_ns| now_ns() < deadline_ns) {
        std::hint::spin_loop();
    }
}

/// A handle that stops a server.
pub struct Stopper(UnixStream);

impl Stopper {
    /// Stops the server as soon as it notices. Requests in flight are cut off.
    pub fn stop(&self) {
        // A full or closed socket means that it was stopped before.
        let _ = (&self.0).write(&[1]);
    }

    /// Returns the socket: a byte written to it stops the server, for use in a signal handler.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.0
    }
}

fn tcp_address(address: &ListenAddress) -> SocketAddr {
    match address {
        ListenAddress::Tcp(address) => *address,
        ListenAddress::Unix(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    }
}

/// A server on its own thread. It ends when this is dropped.
pub struct RunningServer {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl RunningServer {
    /// Returns its address of TCP; that of a server on a Unix socket is unspecified.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and waits until the truth is written.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        self.stopper.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread of the server has panicked").into()),
            None => Ok(()),
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // A caller that needs the result has called `stop`.
        let _ = self.end();
    }
}
