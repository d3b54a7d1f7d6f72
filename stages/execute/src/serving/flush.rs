//! Requests that an endpoint empties its prefix cache, outside of any timing.
//!
//! There is no standard for it. vLLM accepts `POST /reset_prefix_cache` if it was started with `VLLM_SERVER_DEV_MODE=1`, and
//! newer versions report success in the response; the simulator accepts the same. SGLang accepts `POST /flush_cache`, and refuses
//! with 400 as long as it has requests in flight.

use std::collections::BTreeSet;
use std::time::Duration;

use assay_probe::{Client, EndpointResponse, Limits, endpoint_url};
use assay_process::Cancel;
use assay_stage::{Clock, ErrorCode, Failure};
use serde::{Deserialize, Serialize};

/// The servers' own paths, in the order in which they are tried.
const PATHS: [&str; 2] = ["/reset_prefix_cache", "/flush_cache"];

/// The limits of one request: a large cache is emptied in far less.
const LIMITS: Limits = Limits { time: Duration::from_secs(10), bytes: 64 << 10 };

/// The retry time for an endpoint that has the path and failed: its requests in flight may end.
const RETRY_TIME: Duration = Duration::from_secs(10);

/// The pause between two rounds of requests.
const PAUSE: Duration = Duration::from_millis(200);

/// The reason why a cache was not emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FlushError {
    /// The endpoint does not support it, or not for this client.
    Never(String),
    /// It supports it, and it failed this time.
    Failed(String),
}

impl FlushError {
    /// Names the server that did not do it, where there are several.
    fn at(self, server: &str) -> Self {
        match self {
            Self::Never(said) => Self::Never(format!("at {server}, {said}")),
            Self::Failed(why) => Self::Failed(format!("at {server}, {why}")),
        }
    }
}

/// Empties the cache of each server, one after another, and returns the paths that did it, each once.
pub(crate) fn flush_all(client: &Client, servers: &[String], clock: Clock, cancel: &Cancel) -> Result<String, FlushError> {
    let mut paths = BTreeSet::new();
    for server in servers {
        let path = flush(client, server, clock, cancel);
        paths.insert(path.map_err(|error| if servers.len() > 1 { error.at(server) } else { error })?);
    }
    Ok(Vec::from_iter(paths).join(", "))
}

/// Retries until the endpoint has emptied its cache, and returns the path that did it.
pub(crate) fn flush(client: &Client, address: &str, clock: Clock, cancel: &Cancel) -> Result<&'static str, FlushError> {
    let watch = clock.start();
    loop {
        let why = match try_paths(client, address) {
            Err(FlushError::Failed(why)) => why,
            settled => return settled,
        };
        let is_over = watch.elapsed_ns() >= RETRY_TIME.as_nanos() as u64;
        if is_over || cancel.wait_timeout(PAUSE) {
            return Err(FlushError::Failed(why));
        }
    }
}

/// Sends one request to each path.
fn try_paths(client: &Client, address: &str) -> Result<&'static str, FlushError> {
    let (mut said, mut is_there) = (Vec::new(), false);
    for path in PATHS {
        match client.post(&endpoint_url(address, path), LIMITS) {
            Ok(response) if reports_success(&response) => return Ok(path),
            Ok(response) => {
                is_there |= !is_unsupported(response.status);
                said.push(format!(
                    "`POST {path}` returned `{}`{}",
                    response.status_text(),
                    if response.is_success() { ", and that it failed" } else { "" }
                ));
            }
            Err(error) => {
                is_there = true;
                said.push(format!("`POST {path}`: {error}"));
            }
        }
    }
    let said = said.join("; ");
    Err(if is_there { FlushError::Failed(said) } else { FlushError::Never(said) })
}

/// Returns true if the response has a success status and does not deny it, as newer vLLM does with `{"success": false}`.
fn reports_success(response: &EndpointResponse) -> bool {
    let said: Option<serde_json::Value> = serde_json::from_slice(&response.body).ok();
    let refused = said.is_some_and(|said| said.get("success") == Some(&serde_json::Value::Bool(false)));
    response.is_success() && !refused
}

/// Returns true if a status means that no retry can succeed.
fn is_unsupported(status: u16) -> bool {
    matches!(status, 401 | 403 | 404 | 405 | 501)
}

/// Returns the failure of a run whose trials are to begin with an empty cache, on an endpoint that cannot empty it.
pub(crate) fn flush_failure(target: &str, said: &str) -> Failure {
    Failure::new(ErrorCode::CannotFlush, format!("the prefix cache of target `{target}` cannot be emptied: {said}"))
        .hint(
            "vLLM takes the order where it was started with `VLLM_SERVER_DEV_MODE=1`, SGLang always (with its admin key); for any other \
             endpoint write `cache: cold_salt` in the workload and `isolation: none`, which need no order",
        )
}

#[cfg(test)]
mod tests {
    use assay_probe::Headers;
    use assay_probe::testing::{Reply, Server};

    use super::*;

    fn flushed(server: &Server) -> Result<&'static str, FlushError> {
        let client = Client::new(Headers::default());
        flush(&client, &format!("{}/v1", server.url()), Clock, &Cancel::new().expect("an eventfd"))
    }

    fn once(server: &Server) -> Result<&'static str, FlushError> {
        try_paths(&Client::new(Headers::default()), &server.url())
    }

    #[test]
    fn each_server_is_asked_in_its_own_words() {
        let vllm = Server::with_replies(vec![("/reset_prefix_cache", Reply::ok(""))]);
        assert_eq!(flushed(&vllm), Ok("/reset_prefix_cache"), "beside the version, not below it");
        let sglang = Server::with_replies(vec![("/flush_cache", Reply::ok("Cache flushed.\n"))]);
        assert_eq!(flushed(&sglang), Ok("/flush_cache"));
        assert_eq!(sglang.paths(), ["/reset_prefix_cache", "/flush_cache"]);
    }

    #[test]
    fn an_endpoint_without_the_order_is_found_out_at_once() {
        let neither = Server::with_replies(Vec::new());
        let said = "`POST /reset_prefix_cache` returned `404 Not Found`; `POST /flush_cache` returned `404 Not Found`";
        assert_eq!(flushed(&neither), Err(FlushError::Never(said.to_owned())));
        assert_eq!(neither.paths().len(), 2, "each path once");
        let closed = Server::start(|_| Reply::status("403 Forbidden"));
        assert!(matches!(once(&closed), Err(FlushError::Never(_))));
        insta::assert_snapshot!(flush_failure("vllm", said), @r"
        error[cannot_flush]: the prefix cache of target `vllm` cannot be emptied: `POST /reset_prefix_cache` returned `404 Not Found`; `POST /flush_cache` returned `404 Not Found`

        hint: vLLM takes the order where it was started with `VLLM_SERVER_DEV_MODE=1`, SGLang always (with its admin key); for any other endpoint write `cache: cold_salt` in the workload and `isolation: none`, which need no order
        ");
    }

    #[test]
    fn one_that_is_busy_is_asked_again() {
        let busy = Server::start(|request| match (request.path.as_str(), request.number) {
            ("/flush_cache", 0..4) => Reply::status("400 Bad Request"),
            ("/flush_cache", _) => Reply::ok(""),
            _ => Reply::status("404 Not Found"),
        });
        assert_eq!(flushed(&busy), Ok("/flush_cache"));
        assert_eq!(busy.paths().len(), 6, "three rounds");
    }

    #[test]
    fn a_success_that_says_it_failed_is_none() {
        let vllm = |body: &'static str| Server::with_replies(vec![("/reset_prefix_cache", Reply::ok(body))]);
        assert_eq!(once(&vllm(r#"{"success": true}"#)), Ok("/reset_prefix_cache"));
        let failed = once(&vllm(r#"{"success": false}"#)).expect_err("blocks in use");
        assert_eq!(
            failed,
            FlushError::Failed(
                "`POST /reset_prefix_cache` returned `200 OK`, and that it failed; `POST /flush_cache` returned `404 Not Found`"
                    .to_owned()
            )
        );
        let broken = Server::start(|_| Reply::raw(""));
        assert!(matches!(once(&broken), Err(FlushError::Failed(_))), "a broken connection says nothing of what there is");
    }

    #[test]
    fn whoever_stops_the_run_stops_the_asking() {
        let cancel = Cancel::new().expect("an eventfd");
        cancel.cancel("SIGINT");
        let busy = Server::start(|_| Reply::status("400 Bad Request"));
        assert!(flush(&Client::new(Headers::default()), &busy.url(), Clock, &cancel).is_err());
        assert_eq!(busy.paths().len(), 2);
    }
}
