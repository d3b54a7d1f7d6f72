//! Logs of pods, line by line.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::task::JoinHandle;

use super::{Cluster, Waker};
use crate::{Result, phase};

/// The pause before a stream that broke off is reopened.
const PAUSE: Duration = Duration::from_millis(300);
/// The longest line that is passed on: the rest of a longer one is read and dropped.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The most bytes of a log that are read at once.
const MAX_LOG_BYTES: i64 = 64 << 20;
/// The most bytes of the tail of a log.
const MAX_TAIL_BYTES: i64 = 16 << 10;

/// A line of a pod's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The pod.
    pub pod: String,
    /// The time of the line, by the node's clock.
    pub at: String,
    /// The text of the line.
    pub text: String,
}

impl Cluster {
    /// Follows a pod's log from its beginning to its end. A stream that breaks off is reopened after the last line, so no line is
    /// sent twice. It ends when the pod has gone, when its log is complete, or when the receiver has been dropped. Each line wakes
    /// the watch of the receiver, so that it needs no interval at which it looks for lines.
    pub fn follow(&self, namespace: &str, pod: &str, to: SyncSender<LogLine>, wakes: Waker) -> JoinHandle<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pod = pod.to_owned();
        self.runtime.spawn(async move {
            let mut last = String::new();
            loop {
                // The phase is read before the stream, so everything that the pod wrote until then is in the stream.
                let ended = match pods.get_opt(&pod).await {
                    Ok(None) => return,
                    Ok(Some(found)) => has_ended(&found),
                    Err(_) => false,
                };
                let parameters = LogParams { follow: true, timestamps: true, ..LogParams::default() };
                if let Ok(stream) = pods.log_stream(&pod, &parameters).await {
                    let mut stream = std::pin::pin!(stream);
                    while let Some(line) = next_line(&mut stream).await {
                        let Some((at, text)) = line.split_once(' ') else { continue };
                        if at <= last.as_str() {
                            continue;
                        }
                        at.clone_into(&mut last);
                        let line = LogLine { pod: pod.clone(), at: at.to_owned(), text: text.to_owned() };
                        let to = to.clone();
                        // A slow receiver delays its own stream alone.
                        let sent = tokio::task::spawn_blocking(move || to.send(line)).await;
                        if !matches!(sent, Ok(Ok(()))) {
                            return;
                        }
                        wakes.wake();
                    }
                }
                if ended {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    /// Returns a pod's whole log, or its last lines.
    pub fn log(&self, namespace: &str, pod: &str, tail: Option<i64>) -> Result<String> {
        let limit = if tail.is_some() { MAX_TAIL_BYTES } else { MAX_LOG_BYTES };
        self.log_limited(namespace, pod, tail, limit)
    }

    /// Returns the first `bytes` bytes of a pod's log, or of its last lines.
    pub fn log_limited(&self, namespace: &str, pod: &str, tail: Option<i64>, bytes: i64) -> Result<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let parameters = LogParams { tail_lines: tail, limit_bytes: Some(bytes), ..LogParams::default() };
        self.runtime.block_on(pods.logs(pod, &parameters)).map_err(|error| super::to_error(&error))
    }
}

/// Reads the next line, which need not be UTF-8; `None` at the end of the stream.
async fn next_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let chunk = stream.fill_buf().await.ok()?;
        if chunk.is_empty() {
            return (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned());
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let said = end.unwrap_or(chunk.len());
        let room = MAX_LINE_BYTES.saturating_sub(line.len()).min(said);
        line.extend_from_slice(chunk.get(..room).unwrap_or_default());
        stream.consume_unpin(said + usize::from(end.is_some()));
        if end.is_some() {
            return Some(String::from_utf8_lossy(&line).into_owned());
        }
    }
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}
