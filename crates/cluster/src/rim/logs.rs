//! What a pod says, line by line.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::task::JoinHandle;

use super::Cluster;
use crate::phase;

/// The pause before a stream that broke off is taken up again.
const PAUSE: Duration = Duration::from_millis(300);
/// The longest line that is passed on: what it has beyond that is read and dropped.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The most of a log that is read at once.
const MAX_LOG_BYTES: i64 = 64 << 20;
/// The most of the end of a log.
const MAX_TAIL_BYTES: i64 = 16 << 10;

/// A line that a pod said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The pod.
    pub pod: String,
    /// When it was said, as the node's clock has it.
    pub at: String,
    /// What was said.
    pub text: String,
}

impl Cluster {
    /// Follows what a pod says, from its beginning to its end. A stream that breaks off is taken up again after the last line: nobody
    /// hears a line twice. It ends when the pod has gone, when it has said all, or when nobody listens any more.
    pub fn follow(&self, namespace: &str, pod: &str, to: SyncSender<LogLine>) -> JoinHandle<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pod = pod.to_owned();
        self.runtime.spawn(async move {
            let mut last = String::new();
            loop {
                // The phase is read before the stream: whatever the pod said until then is in the stream.
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
                        // A listener that is slow holds up its own stream alone.
                        let sent = tokio::task::spawn_blocking(move || to.send(line)).await;
                        if !matches!(sent, Ok(Ok(()))) {
                            return;
                        }
                    }
                }
                if ended {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    /// All that a pod has said, or its last lines.
    pub fn log(&self, namespace: &str, pod: &str, tail: Option<i64>) -> Result<String, assay_stage::Failure> {
        let limit = if tail.is_some() { MAX_TAIL_BYTES } else { MAX_LOG_BYTES };
        self.log_within(namespace, pod, tail, limit)
    }

    /// The beginning of what a pod has said, or of its last lines: so many bytes.
    pub fn log_within(&self, namespace: &str, pod: &str, tail: Option<i64>, bytes: i64) -> Result<String, assay_stage::Failure> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let parameters = LogParams { tail_lines: tail, limit_bytes: Some(bytes), ..LogParams::default() };
        self.runtime.block_on(pods.logs(pod, &parameters)).map_err(|error| super::failure_of(&error))
    }
}

/// The next line, whatever bytes are in it; none at the end of the stream.
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
