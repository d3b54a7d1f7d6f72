//! `assay-serve`: a store over the S3 protocol, for clusters that have no object store.
//!
//! Clients authenticate by signature, and may create the objects of their stage: the server enforces rules that an object store
//! cannot express. It serves a store's folder unchanged, so every other command can read the folder too. People start it as
//! `assay serve`.

mod bucket;
mod credentials;
mod identity;
mod signature;
mod spool;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use assay_failure::{ErrorCode, Exit, Failure};
use assay_store::{Objects, Scratch, Store};
use bucket::Bucket;
use clap::Parser;
use credentials::Credentials;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;

/// The idle timeout of a connection, within a request and between two. Clients close idle connections before that.
const SILENCE: Duration = Duration::from_mins(2);
/// The age at which incomplete objects are removed, and the interval of the cleanup.
const STALE: Duration = Duration::from_hours(24);
const TIDY_EVERY: Duration = Duration::from_hours(1);
/// The most concurrent connections. More wait in the system's queue.
const MAX_CONNECTIONS: usize = 512;
/// The timeout of a request's head.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The grace period of open requests when the server shuts down.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// The path of the readiness probe. No bucket can have such a name.
const READY: &str = "/-/ready";

/// Serve a store over the S3 protocol: each stage may create only its own objects, once.
#[derive(Debug, Parser)]
#[command(name = "assay serve", bin_name = "assay serve", version)]
struct Arguments {
    /// The store: a folder, created if there is none.
    #[arg(long, value_name = "FOLDER")]
    store: String,
    /// The address to listen on. Port 0 selects a free port, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8420")]
    listen: SocketAddr,
    /// A folder with one file per client identity, which holds its secret: `read`, `run`, `source`, and each stage's name.
    #[arg(long, value_name = "FOLDER")]
    credentials: PathBuf,
    /// Create the folder of credentials, with a random secret for each identity that has none.
    #[arg(long)]
    make_credentials: bool,
    /// The bucket's name.
    #[arg(long, value_name = "NAME", default_value = "assay")]
    bucket: String,
    /// The folder for uploads in progress [default: the system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// The maximum bytes of all uploads in progress.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 30)]
    scratch_bytes: u64,
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ASSAY_LOG").unwrap_or_else(|_| "info,s3s=off".into());
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_ansi(false)
        .try_init();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let shown = error.print();
            return if error.use_stderr() || shown.is_err() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    match serve(&arguments) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            // If stderr is closed, nothing is left to do.
            let _ = writeln!(std::io::stderr(), "{failure}");
            failure.exit.into()
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.make_credentials {
        Credentials::make(&arguments.credentials)?;
    }
    let (credentials, known) = Credentials::open(&arguments.credentials)?;
    if arguments.store.starts_with("s3:") {
        return Err(
            Failure::new(ErrorCode::StoreUri, format!("`{}` is served already", arguments.store)).hint("--store takes a folder")
        );
    }
    let store = Store::open(&arguments.store)?;
    let scratch = match &arguments.scratch {
        Some(folder) => Scratch::new_in(folder, arguments.scratch_bytes)?,
        None => Scratch::new(arguments.scratch_bytes)?,
    };
    let objects = Objects::new(&store);
    let mut service = S3ServiceBuilder::new(Bucket { name: arguments.bucket.clone(), objects: objects.clone(), scratch });
    service.set_auth(credentials);
    let service = service.build();
    // The library panics if it cannot start its threads.
    let probed = std::thread::Builder::new().spawn(|| ()).map(|probe| drop(probe.join()));
    let runtime = probed
        .and_then(|()| tokio::runtime::Runtime::new())
        .map_err(|error| Failure::new(ErrorCode::Runtime, "cannot start the server's threads").because(&error))?;
    let done = runtime.block_on(async {
        let listening = TcpListener::bind(arguments.listen).await;
        let cannot = |error: &std::io::Error| {
            Failure::new(ErrorCode::Listen, format!("cannot listen on {}", arguments.listen))
                .because(error)
                .hint("--listen takes another address, and port 0 a free one")
        };
        let listener = listening.map_err(|error| cannot(&error))?;
        let address = listener.local_addr().map_err(|error| cannot(&error))?;
        let names: Vec<_> = known.iter().map(ToString::to_string).collect();
        // If stdout is closed the server runs all the same: stdout is only informative.
        let _ = writeln!(
            std::io::stdout(),
            "serves  {}\nas      s3://{}?endpoint=http://{address}\nfor     {}",
            store.uri(),
            arguments.bucket,
            names.join(", ")
        );
        tokio::spawn(tidy(objects));
        accept(listener, &service).await
    });
    // Blocking work may still wait for a slow disk; its result is not needed any more.
    runtime.shutdown_timeout(DRAIN_TIME);
    done
}

/// Removes objects that killed clients have left, at the start and at intervals.
async fn tidy(objects: Objects) {
    loop {
        let objects = objects.clone();
        if let Err(error) = spool::run_blocking(move || objects.remove_stale(STALE)).await {
            tracing::warn!(%error, "what was staged long ago stays");
        }
        tokio::time::sleep(TIDY_EVERY).await;
    }
}

/// Serves connections until the server is stopped.
async fn accept(listener: TcpListener, service: &S3Service) -> Result<(), Failure> {
    let signals = |error: std::io::Error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error);
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(signals)?;
    let mut interrupted = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map_err(signals)?;
    let (places, open) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), GracefulShutdown::new());
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let accepted = async {
            // The semaphore is never closed.
            let place = place.await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The connection was reset, or file descriptors are exhausted for a moment: either passes.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Without this, Nagle's algorithm delays small responses by 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_read_timeout(Some(SILENCE));
        stream.set_write_timeout(Some(SILENCE));
        let service = service.clone();
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(Box::pin(stream)), service_fn(move |request| respond(service.clone(), request)));
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
    if tokio::time::timeout(DRAIN_TIME, open.shutdown()).await.is_err() {
        tracing::warn!("requests that took too long were cut");
    }
    Ok(())
}

async fn respond(
    service: S3Service,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<s3s::Body>, s3s::HttpError> {
    if request.uri().path() == READY {
        return Ok(hyper::Response::new(s3s::Body::from("ready\n".to_owned())));
    }
    // This comes before the body is read: an unauthenticated client gets no more than an error response.
    if let Err(why) = signature::check_signature(&request) {
        return Ok(signature::forbidden_response(why));
    }
    let asked = format!("{} {}", request.method(), request.uri().path());
    let response = service.call(request.map(s3s::Body::from)).await?;
    let status = response.status();
    // An absent or existing object is an ordinary response; a missing right or a full disk is logged.
    if status == hyper::StatusCode::FORBIDDEN || status.is_server_error() {
        tracing::warn!(asked, %status, "not served");
    }
    Ok(response)
}
