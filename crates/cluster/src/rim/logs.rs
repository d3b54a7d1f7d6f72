//! What a pod says, line by line.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, AsyncReadExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::task::JoinHandle;

use super::Cluster;

/// The pause before a stream that broke off is taken up again.
const PAUSE: Duration = Duration::from_millis(300);
/// The longest stream that is read at once: beyond it, it is taken up again where it was.
const MAX_STREAM_BYTES: u64 = 1 << 30;

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
                    let mut lines = stream.take(MAX_STREAM_BYTES).lines();
                    while let Some(Ok(line)) = lines.next().await {
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
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let parameters = LogParams { tail_lines: tail, ..LogParams::default() };
        self.runtime.block_on(pods.logs(pod, &parameters)).map_err(|error| super::failure_of(&error))
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
