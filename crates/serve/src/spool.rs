//! A bridge between connections, which are asynchronous, and the store, which is not.

use std::io::{self, Read};
use std::ops::Range;
use std::time::Duration;

use assay_manifest::Digest;
use assay_store::{Error, ObjectPath, Objects, Scratch, ScratchFile};
use bytes::{Buf as _, Bytes};
use futures::StreamExt as _;
use s3s::dto::StreamingBlob;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The capacity of the channel between the two sides, in chunks.
const WAITING: usize = 4;
/// The longest pause of a client in the middle of an object.
const STALL_TIME: Duration = Duration::from_mins(1);

/// Runs blocking work off the event loop.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    join_task(tokio::task::spawn_blocking(work)).await
}

/// Returns the result of blocking work. It is never cancelled, so it can only have panicked.
async fn join_task<T>(work: JoinHandle<T>) -> T {
    work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Writes a body to a private scratch file, hashing it on the way.
pub(crate) async fn spool(body: Option<StreamingBlob>, scratch: &Scratch) -> assay_store::Result<(Digest, ScratchFile)> {
    let (send, chunks) = mpsc::channel(WAITING);
    let scratch = scratch.clone();
    let written = tokio::task::spawn_blocking(move || {
        Objects::spool(&mut Chunks { chunks, current: Bytes::new() }, "the body of the request", &scratch)
    });
    if let Some(mut body) = body {
        loop {
            let chunk = match tokio::time::timeout(STALL_TIME, body.next()).await {
                Ok(None) => break,
                Ok(Some(Ok(chunk))) => Ok(chunk),
                Ok(Some(Err(error))) => Err(io::Error::other(error.to_string())),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            let ends = chunk.is_err();
            // A closed channel means that the writer has failed, and returns its own error.
            if send.send(chunk).await.is_err() || ends {
                break;
            }
        }
    }
    drop(send);
    join_task(written).await
}

/// The writer's end of the channel: a reader of the received chunks.
struct Chunks {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.current = chunk?,
                None => return Ok(0),
            }
        }
        let count = self.current.len().min(buffer.len());
        if let Some(buffer) = buffer.get_mut(..count) {
            self.current.copy_to_slice(buffer);
        }
        Ok(count)
    }
}

/// Streams a range of an object's bytes, read as fast as the client takes them.
pub(crate) fn stream(objects: &Objects, place: ObjectPath, range: Range<u64>) -> StreamingBlob {
    let (send, chunks) = mpsc::channel(WAITING);
    let objects = objects.clone();
    tokio::task::spawn_blocking(move || {
        // A client that disconnected ends the read by an error of this code, which is not reported.
        let gone = || Error::Read { what: "for a client that went away".to_owned(), source: io::ErrorKind::BrokenPipe.into() };
        let sent = objects.read(&place, range, |chunk| send.blocking_send(Ok(Bytes::copy_from_slice(chunk))).map_err(|_| gone()));
        if let Err(error) = sent {
            // The connection is cut in the middle of the body, so that the client does not take a part for the whole.
            let _ = send.blocking_send(Err(io::Error::other(error.to_string())));
        }
    });
    StreamingBlob::wrap(futures::stream::unfold(chunks, |mut chunks| async move {
        chunks.recv().await.map(|chunk: io::Result<Bytes>| (chunk, chunks))
    }))
}
