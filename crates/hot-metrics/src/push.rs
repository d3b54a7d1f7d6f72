//! The push: a batch to each receiver, within limits on time, size and tries.

use std::time::Duration;

use assay_manifest::Instant;
use assay_probe::{Client, Headers, Limits, WriteRequest};
use assay_spec::{HotMetrics, Receiver, ReceiverProtocol};

use crate::active::{query_url, read_count};
use crate::batch::Batch;
use crate::budget::check_budget;
use crate::error::{Error, Result, clean};
use crate::otlp::Otlp;
use crate::protocol::{Protocol, Request};
use crate::pushgateway::Pushgateway;
use crate::receipt::{Outcome, Receipt};
use crate::remote_write::RemoteWrite;

/// The limits of one request.
const LIMITS: Limits = Limits { time: Duration::from_secs(30), bytes: 64 << 10 };
/// The most tries of one request, if the failure may pass.
const MAX_TRIES: u32 = 3;
/// The pause before the second try, which doubles for each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a receiver may ask for. One that asks for more gets no further try.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Waits for a time; returns true if the push was cancelled meanwhile.
pub type Pause<'a> = &'a dyn Fn(Duration) -> bool;

/// The results of a push to all receivers.
#[derive(Debug, Default)]
pub struct Pushed {
    /// A receipt for each receiver that something was sent to or that failed, in their order.
    pub receipts: Vec<Receipt>,
    /// The receivers that have accepted the same series before, by those receipts; nothing was sent to them.
    pub before: Vec<Receipt>,
    /// The failures, each with its receiver.
    pub failures: Vec<(String, Error)>,
}

/// Pushes a batch to each receiver, one after the other. The series are counted before: a batch over the budget is sent to no receiver.
/// Receivers that one of the `earlier` receipts covers are skipped. A receiver that fails does not keep the others from their series.
pub fn push(batch: &Batch, to: &HotMetrics, earlier: &[Receipt], now: Instant, pause: Pause<'_>) -> Pushed {
    let mut pushed = Pushed::default();
    for receiver in &to.receivers {
        let mut receipt = new_receipt(batch, receiver, now);
        if let Some(covered) = earlier.iter().find(|earlier| earlier.covers(&receipt)) {
            pushed.before.push(covered.clone());
            continue;
        }
        let sent = push_to(batch, receiver, to.max_active_series, &mut receipt.accepted, pause);
        if let Err(error) = sent {
            receipt.outcome = Outcome::Failed;
            receipt.reason = Some(error.to_string());
            pushed.failures.push((receiver.name.to_string(), error));
        }
        pushed.receipts.push(receipt);
    }
    pushed
}

/// Refuses headers whose secrets cannot be read, or that cannot be sent.
pub fn check_headers(to: &HotMetrics) -> Result<()> {
    to.receivers.iter().try_for_each(|receiver| Ok(Headers::read(&receiver.headers).map(|_| ())?))
}

fn new_receipt(batch: &Batch, receiver: &Receiver, now: Instant) -> Receipt {
    Receipt {
        run_id: batch.run_id.clone(),
        receiver: receiver.name.clone(),
        protocol: receiver.protocol.to_string(),
        address: receiver.url.clone(),
        pushed_at: now,
        samples_at: batch.at,
        series_digest: batch.digest(),
        series: batch.series(),
        accepted: 0,
        points_left_out: batch.points_left_out,
        numbers_left_out: batch.numbers_left_out,
        outcome: Outcome::Accepted,
        reason: None,
    }
}

/// Pushes a batch to one receiver, and counts the series that it accepts.
fn push_to(batch: &Batch, receiver: &Receiver, max: u64, accepted: &mut u64, pause: Pause<'_>) -> Result<()> {
    check_budget(batch, None, max)?;
    let client = Client::new(Headers::read(&receiver.headers)?);
    if let Some(url) = &receiver.query {
        let active = with_retries(pause, || count_active(&client, url, batch)).map_err(|error| Error::Query(Box::new(error)))?;
        check_budget(batch, Some(active), max)?;
    }
    let protocol = protocol(receiver.protocol);
    for request in protocol.requests(&receiver.url, batch)? {
        with_retries(pause, || protocol.check_response(&send(&client, &request)?))?;
        *accepted += request.series;
    }
    Ok(())
}

/// Returns the protocol that a receiver speaks.
fn protocol(of: ReceiverProtocol) -> &'static dyn Protocol {
    match of {
        ReceiverProtocol::RemoteWrite => &RemoteWrite,
        ReceiverProtocol::Pushgateway => &Pushgateway,
        ReceiverProtocol::Otlp => &Otlp,
    }
}

fn count_active(client: &Client, url: &str, batch: &Batch) -> Result<u64> {
    let response = client.get(&query_url(url, &batch.run_id), LIMITS)?;
    if response.is_success() {
        return read_count(&response.body);
    }
    Err(status_error(response.status, None, &response.body))
}

/// Sends one request and returns the body of its successful response.
fn send(client: &Client, request: &Request) -> Result<Vec<u8>> {
    let wanted = WriteRequest { replaces: request.replaces, headers: request.headers, body: &request.body };
    let response = client.write(&request.url, &wanted, LIMITS)?;
    match response.status {
        200..=299 => Ok(response.body),
        300..=399 => Err(Error::Redirected(clean(&response.location.unwrap_or_default()))),
        429 => Err(Error::RateLimited(response.retry_after_s.map(Duration::from_secs))),
        status => Err(status_error(status, response.retry_after_s, &response.body)),
    }
}

fn status_error(status: u16, retry_after_s: Option<u64>, body: &[u8]) -> Error {
    let text = clean(&String::from_utf8_lossy(body));
    Error::Status {
        status: Client::status_text(status),
        passes: status >= 500,
        wait: retry_after_s.map(Duration::from_secs),
        text,
    }
}

/// Calls `attempt` again after a pause if its failure may pass. To send a sample twice changes nothing.
fn with_retries<T>(pause: Pause<'_>, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut tries = 1;
    loop {
        let error = match attempt() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let wait = match &error {
            Error::RateLimited(Some(wait)) | Error::Status { wait: Some(wait), .. } => *wait,
            _ => FIRST_PAUSE.saturating_mul(1 << (tries - 1)),
        };
        if tries >= MAX_TRIES || !error.may_pass() || wait > MAX_PAUSE {
            return Err(error);
        }
        if pause(wait) {
            return Err(Error::Cancelled);
        }
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::RefCell;

    use assay_failure::ErrorCode;
    use assay_manifest::EnvVar;
    use assay_probe::testing::{Reply, Server};
    use assay_spec::HotLabel::{BenchmarkCaseId, RunId};

    use crate::batch::tests::batch;

    fn receiver(protocol: ReceiverProtocol, url: String) -> Receiver {
        Receiver { name: "prom".parse().expect("a name"), protocol, url, headers: Vec::new(), query: None }
    }

    fn to(receiver: Receiver, max_active_series: u64) -> HotMetrics {
        HotMetrics {
            receivers: vec![receiver],
            labels: assay_spec::HotLabel::ALL.to_vec(),
            max_active_series,
            exploratory: false,
        }
    }

    fn one() -> Batch {
        batch(&[("assay_x_seconds", &[(RunId, "nightly-1"), (BenchmarkCaseId, "a.b.c")], 1.5)])
    }

    /// Pushes one series to a receiver of a server, and returns the results and the pauses in seconds.
    fn pushed(receiver: Receiver, max: u64) -> (Pushed, Vec<u64>) {
        let pauses = RefCell::new(Vec::new());
        let pause = |time: Duration| {
            pauses.borrow_mut().push(time.as_secs());
            false
        };
        let pushed = push(&one(), &to(receiver, max), &[], Instant::from_unix_ns(7), &pause);
        (pushed, pauses.into_inner())
    }

    /// Pushes to a server that gives these responses in turn, the last one to all further requests.
    fn responses(replies: Vec<Reply>) -> (Option<String>, Vec<u64>, usize) {
        let server = Server::start(move |request| replies.get(request.number).or(replies.last()).cloned().expect("a reply"));
        let (pushed, pauses) = pushed(receiver(ReceiverProtocol::RemoteWrite, server.at("/api/v1/write")), 10);
        let failure = pushed.failures.first().map(|(_, error)| {
            assert_eq!((error.code(), pushed.receipts[0].outcome), (ErrorCode::HotMetrics, Outcome::Failed));
            error.to_string()
        });
        assert_eq!(pushed.receipts[0].accepted, u64::from(failure.is_none()));
        (failure, pauses, server.requests().len())
    }

    #[test]
    fn a_request_is_that_of_its_protocol() {
        let server = Server::start(|_| Reply::status("204 No Content"));
        let (done, _) = pushed(receiver(ReceiverProtocol::RemoteWrite, server.at("/api/v1/write")), 10);
        assert!(done.failures.is_empty(), "{done:?}");
        let (done, _) = pushed(receiver(ReceiverProtocol::Pushgateway, server.url()), 10);
        assert!(done.failures.is_empty(), "{done:?}");
        let (done, _) = pushed(receiver(ReceiverProtocol::Otlp, server.at("/v1/metrics")), 10);
        assert!(done.failures.is_empty(), "{done:?}");
        let requests = server.requests();
        let shown: Vec<_> = requests.iter().map(|request| format!("{} {}", request.method, request.path)).collect();
        assert_eq!(shown, ["POST /api/v1/write", "PUT /metrics/job/assay/benchmark_case_id/a.b.c", "POST /v1/metrics"]);
        assert_eq!(requests[0].header("x-prometheus-remote-write-version"), Some("0.1.0"));
        assert_eq!(requests[0].header("content-encoding"), Some("snappy"));
        assert!(String::from_utf8_lossy(&requests[1].body).contains("# TYPE assay_x_seconds gauge\nassay_x_seconds{"));
    }

    #[test]
    fn what_may_pass_is_tried_again_and_nothing_else() {
        let error = || Reply::with_body("500 Internal Server Error", &[], "boom\n\u{1b}[31m");
        assert_eq!(responses(vec![error(), Reply::status("204 No Content")]), (None, vec![1], 2));
        let (failure, pauses, requests) = responses(vec![error()]);
        assert_eq!(failure.as_deref(), Some("it responded with 500 Internal Server Error: boom \u{fffd}[31m"));
        assert_eq!((pauses, requests), (vec![1, 2], 3));
        let (failure, pauses, requests) = responses(vec![Reply::with_body("400 Bad Request", &[], "out of bounds")]);
        assert_eq!((failure.as_deref(), pauses, requests), (Some("it responded with 400 Bad Request: out of bounds"), vec![], 1));
    }

    #[test]
    fn a_receiver_says_how_long_to_wait_within_a_limit() {
        let limited = |after: &str| Reply::with_body("429 Too Many Requests", &[after], "");
        assert_eq!(responses(vec![limited("retry-after: 7"), Reply::ok("")]), (None, vec![7], 2));
        assert_eq!(responses(vec![limited("x: y"), Reply::ok("")]), (None, vec![1], 2));
        let starting = Reply::with_body("503 Service Unavailable", &["retry-after: 20"], "");
        assert_eq!(responses(vec![starting, Reply::ok("")]), (None, vec![20], 2));
        let (failure, pauses, requests) = responses(vec![limited("retry-after: 86400")]);
        assert_eq!((pauses, requests), (vec![], 1));
        assert!(failure.expect("refused").contains("asks to wait for 86400s"));
    }

    #[test]
    fn a_hostile_receiver_is_named() {
        let to = Reply::with_body("302 Found", &["location: http://elsewhere.example/"], "");
        let (failure, _, requests) = responses(vec![to]);
        assert_eq!(
            (failure.as_deref(), requests),
            (Some("it redirects to `http://elsewhere.example/`, which is not followed"), 1)
        );
        let (failure, _, requests) = responses(vec![Reply::endless()]);
        assert_eq!((failure.as_deref(), requests), (Some("the response is larger than the limit of 65536 bytes"), 1));
        let (failure, pauses, requests) = responses(vec![Reply::raw("")]);
        assert_eq!((pauses, requests), (vec![1, 2], 3), "{failure:?}");
        assert!(failure.is_some());
        let (failure, _, _) = responses(vec![Reply::raw("no HTTP\r\n\r\n")]);
        assert!(failure.is_some());
    }

    #[test]
    fn a_server_without_tls_gets_no_series_over_https() {
        let server = Server::start(|_| Reply::ok(""));
        let url = server.at("/api/v1/write").replace("http://", "https://");
        let (pushed, _) = pushed(receiver(ReceiverProtocol::RemoteWrite, url), 10);
        assert_eq!((pushed.failures[0].1.code(), pushed.receipts[0].accepted), (ErrorCode::HotMetrics, 0));
    }

    #[test]
    fn the_series_are_counted_before_anything_is_sent() {
        let counted = |count: &'static str| {
            Server::start(move |request| {
                let vector =
                    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"value":[1,"{count}"]}}]}}}}"#);
                if request.path.starts_with("/api/v1/query?") { Reply::ok(vector) } else { Reply::status("204 No Content") }
            })
        };
        let pushed_to = |server: &Server, max: u64| {
            let query = Some(server.at("/api/v1/query"));
            pushed(Receiver { query, ..receiver(ReceiverProtocol::RemoteWrite, server.at("/w")) }, max).0
        };
        let server = counted("9");
        assert!(pushed_to(&server, 10).failures.is_empty());
        assert_eq!(server.requests().len(), 2);
        let server = counted("10");
        let refused = pushed_to(&server, 10);
        assert_eq!(refused.failures[0].1.code(), ErrorCode::SeriesBudget);
        assert_eq!(server.requests().iter().filter(|request| request.method == "POST").count(), 0);
        let server = counted("NaN");
        let refused = pushed_to(&server, 10);
        assert_eq!(
            refused.failures[0].1.to_string(),
            "its active series cannot be counted: its response cannot be read: its value is no count"
        );
        let server = counted("0");
        let refused = pushed_to(&server, 0);
        assert_eq!(
            (refused.failures[0].1.code(), server.requests().len()),
            (ErrorCode::SeriesBudget, 0),
            "not even the query is sent"
        );
    }

    #[test]
    fn an_accepted_push_is_not_repeated_and_a_failed_one_is() {
        let server = Server::start(|_| Reply::status("204 No Content"));
        let to = to(receiver(ReceiverProtocol::RemoteWrite, server.at("/w")), 10);
        let push = |batch: &Batch, earlier: &[Receipt]| push(batch, &to, earlier, Instant::from_unix_ns(7), &|_| false);
        let first = push(&one(), &[]);
        let second = push(&one(), &first.receipts);
        assert_eq!((second.receipts.len(), second.before.len(), server.requests().len()), (0, 1, 1));
        let failed = Receipt { outcome: Outcome::Failed, ..first.receipts[0].clone() };
        assert_eq!(push(&one(), &[failed]).receipts.len(), 1);
        let other = batch(&[("assay_x_seconds", &[(RunId, "nightly-1")], 2.5)]);
        assert_eq!(push(&other, &first.receipts).receipts.len(), 1, "other values are another push");
    }

    #[test]
    fn a_cancelled_push_ends_at_its_pause() {
        let server = Server::start(|_| Reply::status("503 Service Unavailable"));
        let to = to(receiver(ReceiverProtocol::Otlp, server.at("/v1/metrics")), 10);
        let pushed = push(&one(), &to, &[], Instant::from_unix_ns(7), &|_| true);
        assert_eq!((pushed.failures[0].1.code(), server.requests().len()), (ErrorCode::Cancelled, 1));
    }

    #[test]
    fn a_secret_that_a_receiver_repeats_is_masked() {
        // PATH is the one variable that exists on every machine.
        let secret = std::env::var("PATH").expect("a path");
        let server = Server::start(|request| {
            Reply::with_body("400 Bad Request", &[], format!("you sent {}", request.header("authorization").unwrap_or_default()))
        });
        let header = EnvVar {
            name: "authorization".to_owned(),
            value: None,
            from_env: Some("PATH".to_owned()),
            from_file: None,
            scheme: Some("Bearer".to_owned()),
        };
        let with_header = Receiver { headers: vec![header], ..receiver(ReceiverProtocol::RemoteWrite, server.at("/w")) };
        let (pushed, _) = pushed(with_header, 10);
        assert_eq!(server.requests()[0].header("authorization"), Some(format!("Bearer {secret}").as_str()));
        let shown = format!("{pushed:?} {:?}", serde_json::to_string(&pushed.receipts));
        assert!(shown.contains("you sent Bearer [secret]") && !shown.contains(&secret), "{shown}");
    }
}
