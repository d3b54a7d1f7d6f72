//! The offered load: users, schedules, phases, ends.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use assay_load::{
    Capture, Cause, ChunkLists, Connections, Error, ErrorLimit, History, MeasuredLimits, OverSaturation, PlannedRequest,
    Progress, RecentErrors, Requests, Sessions, Sink, Trial, run,
};
use assay_record::{Outcome, Phase, Record};

use crate::server::{AfterResponse, Gate, Request, Server, good, good_stream, header};
use crate::support::{CLOSED_URL, LONG, MS, capped, closed, every, indices, numbered, open, run_into, run_trial, trial};

#[test]
fn a_request_says_who_it_is_and_its_record_what_became_of_it() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let server = Server::start(move |request, stream| {
        seen.lock().expect("a lock").push((request.head.clone(), request.body.clone()));
        good(request, stream)
    });
    let mut trial = trial(&server.url());
    trial.endpoint = trial.endpoint.with_header("authorization", "Bearer key").expect("a header");
    let (finished, kept) = run_trial(&trial, &mut numbered(1));
    let (head, body) = heads.lock().expect("a lock").remove(0);
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "host"), Some(server.address.to_string().as_str()));
    assert_eq!(header(&head, "x-request-id"), Some("0000000000000000000000000000abc0"));
    assert_eq!(header(&head, "traceparent"), Some("00-0000000000000000000000000000abc0-000000000000abc0-01"));
    assert_eq!(header(&head, "authorization"), Some("Bearer key"));
    assert_eq!(header(&head, "user-agent"), Some("assay-test"));
    assert_eq!(body, b"{\"index\":0}");

    let record = &kept.records[0];
    assert_eq!((record.outcome, record.request_id, record.http_status), (Outcome::Ok, 0xabc0, Some(200)));
    assert_eq!((record.request_bytes, record.response_bytes), ((head.len() + body.len()) as u64, good_stream().len() as u64));
    assert_eq!((record.input_tokens, record.output_tokens_requested, record.token_events), (3, Some(2), 2));
    assert_eq!(kept.responses, [Some("ab".to_owned())]);
    let instants = [
        record.dequeued_ns,
        record.connect_start_ns,
        record.connect_end_ns,
        record.sent_ns,
        record.write_done_ns,
        record.first_byte_ns,
        record.first_token_ns,
        record.last_token_ns,
        record.end_ns,
    ];
    assert!(instants.iter().all(Option::is_some) && instants.is_sorted(), "{instants:?}");
    assert_eq!(record.intended_ns, None);
    assert_eq!((finished.client.connections_opened, finished.client.events), (1, 4));
}

#[test]
fn a_connection_is_kept_alive() {
    let server = Server::start(good);
    let (finished, kept) = run_trial(&trial(&server.url()), &mut numbered(20));
    assert_eq!(indices(&kept, Outcome::Ok), (0..20).collect::<Vec<_>>());
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    assert_eq!(finished.client.connections_opened, 1);
    assert!(kept.records[1..].iter().all(|record| record.connect_start_ns.is_none() && record.connect_end_ns.is_none()));
}

#[test]
fn a_server_that_closes_after_each_response_gets_a_connection_for_each_request() {
    let server = Server::start(|_, stream| {
        let announced = String::from_utf8(good_stream()).expect("UTF-8").replacen("\r\n", "\r\nconnection: close\r\n", 1);
        let _ = stream.write_all(announced.as_bytes());
        AfterResponse::Close
    });
    let (finished, kept) = run_trial(&trial(&server.url()), &mut numbered(10));
    assert_eq!((indices(&kept, Outcome::Ok).len(), finished.client.resends), (10, 0));
    assert_eq!(server.connections.load(Ordering::SeqCst), 10);
}

#[test]
fn a_request_that_the_server_may_have_read_is_not_sent_again() {
    // A worker that crashes on every tenth request, which it has read.
    let server =
        Server::start(|request, stream| if request.number % 10 == 9 { AfterResponse::Close } else { good(request, stream) });
    let (finished, kept) = run_trial(&closed(&server.url(), 2), &mut numbered(100));
    assert_eq!(indices(&kept, Outcome::Ok).len(), 90);
    let closed: Vec<_> = kept.records.iter().filter(|record| record.outcome == Outcome::ConnectionClosed).collect();
    assert_eq!((closed.len(), finished.client.resends), (10, 0));
    for record in closed {
        assert_eq!(record.error.as_deref(), Some("the connection was closed before a response began"));
        assert!(record.sent_ns.is_some() && record.first_byte_ns.is_none(), "{record:?}");
    }
}

#[test]
fn a_connection_that_was_closed_before_a_request_is_left_and_the_request_counted() {
    // Every response is the last of its connection, without saying so: the server closes at once.
    let server = Server::start(|_, stream| {
        let _ = stream.write_all(&good_stream());
        AfterResponse::Close
    });
    // Pauses between the requests, so that the close arrives before the next request.
    let (finished, kept) = run_trial(&open(&server.url(), 4), &mut every(20 * MS, 20));
    let lost = indices(&kept, Outcome::ConnectionClosed).len();
    assert_eq!(indices(&kept, Outcome::Ok).len() + lost, 20, "{:?}", kept.records);
    assert!(finished.client.resends <= 20);
    assert_eq!(server.connections.load(Ordering::SeqCst), 20 - lost);
}

#[test]
fn users_are_all_there_and_never_more_than_there_are() {
    const USERS: usize = 8;
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (all, seen) = (Barrier::new(USERS), most.clone());
    let server = Server::start(move |request, stream| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if request.number < USERS {
            // No request gets a response before all users have sent.
            all.wait();
        }
        now.fetch_sub(1, Ordering::SeqCst);
        good(request, stream)
    });
    let (finished, kept) = run_trial(&closed(&server.url(), USERS as u32), &mut numbered(200));
    assert_eq!(indices(&kept, Outcome::Ok), (0..200).collect::<Vec<_>>());
    assert_eq!((most.load(Ordering::SeqCst), finished.client.most_in_flight), (USERS, USERS as u64));
    assert!(server.connections.load(Ordering::SeqCst) <= USERS);
}

#[test]
fn a_count_ends_the_measured_phase() {
    let server = Server::start(good);
    let trial = Trial { measured: MeasuredLimits { duration_ns: Some(LONG), requests: Some(7) }, ..closed(&server.url(), 3) };
    let (finished, kept) = run_trial(&trial, &mut numbered(1000));
    assert_eq!(indices(&kept, Outcome::Ok), (0..7).collect::<Vec<_>>());
    assert!(finished.measured_to_ns < LONG);
}

#[test]
fn by_count_the_window_ends_with_the_last_response() {
    let server = Server::start(good);
    let seven = MeasuredLimits { duration_ns: Some(LONG), requests: Some(7) };
    let last_end =
        |kept: &crate::support::RecordingSink| kept.records.iter().map(|record| record.end_ns.expect("every request ends")).max();
    let (finished, kept) = run_trial(&Trial { measured: seven, ..closed(&server.url(), 7) }, &mut numbered(1000));
    assert_eq!((kept.records.len(), Some(finished.measured_to_ns)), (7, last_end(&kept)), "as many requests as users");
    let (finished, kept) = run_trial(&Trial { measured: seven, ..open(&server.url(), 64) }, &mut every(5 * MS, 1000));
    assert_eq!((kept.records.len(), Some(finished.measured_to_ns)), (7, last_end(&kept)));
    assert!(finished.measured_to_ns < LONG);
    // Six gaps in 30 ms, independent of the duration, which was not reached.
    assert_eq!((finished.client.requested_per_s, finished.client.sent_per_s), (Some(200.0), Some(200.0)));
}

#[test]
fn warm_up_hands_over_without_a_break() {
    let server = Server::start(good);
    let trial = Trial { warmup_ns: 30 * MS, ..closed(&server.url(), 2) };
    let mut requests = numbered(50);
    requests.warmup = u64::MAX;
    let (finished, kept) = run_trial(&trial, &mut requests);
    let of = |phase| kept.records.iter().filter(move |record: &&Record| record.phase == phase);
    assert_eq!(of(Phase::Measured).count(), 50);
    assert_eq!(finished.counts.due(Phase::Measured), 50);
    assert!(of(Phase::Warmup).count() > 0);
    assert!(of(Phase::Warmup).all(|record| record.dequeued_ns < Some(30 * MS)));
    assert!(of(Phase::Measured).all(|record| record.dequeued_ns >= Some(30 * MS)));
    assert_eq!(finished.measured_from_ns, 30 * MS);
}

#[test]
fn a_schedule_has_its_phases_and_its_lateness() {
    let server = Server::start(good);
    let mut requests = every(MS, 20);
    requests.warmup = 10;
    requests.from_ns = 0;
    // Warm-up requests at 0..9 ms; the measured ones' own times begin at 0 as well, so they are all due once the warm-up is over.
    let trial = Trial { warmup_ns: 10 * MS, ..open(&server.url(), 64) };
    let (finished, kept) = run_trial(&trial, &mut requests);
    assert_eq!((finished.counts.due(Phase::Warmup), finished.counts.due(Phase::Measured)), (10, 20));
    assert!(kept.records.iter().all(|record| record.outcome == Outcome::Ok && record.lateness_ns() >= Some(0)));
    let lateness = finished.client.lateness.expect("an open loop");
    assert_eq!(lateness.n, 20);
    let latest = kept.records.iter().filter(|record| record.phase == Phase::Measured).filter_map(Record::lateness_ns).max();
    assert_eq!(Some(lateness.ns_max), latest);
}

/// The server stalls from request 10 until request 30 has arrived, which is 2 s later only because of the schedule.
#[test]
fn a_stall_shows_at_its_full_weight() {
    const GAP: i64 = 100 * MS;
    let gate = Gate::default();
    let server = Server::start(move |request, stream| {
        let index: i64 = String::from_utf8_lossy(&request.body)
            .trim_start_matches("{\"index\":")
            .trim_end_matches('}')
            .parse()
            .expect("an index");
        if index == 30 {
            gate.open();
        }
        if (10..30).contains(&index) {
            gate.pass();
        }
        good(request, stream)
    });
    let (_, kept) = run_trial(&open(&server.url(), 64), &mut every(GAP, 31));
    assert_eq!(indices(&kept, Outcome::Ok).len(), 31);
    for record in &kept.records {
        let index = record.global_index.cast_signed();
        assert_eq!(record.intended_ns, Some(index * GAP));
        if (10..30).contains(&index) {
            assert!(record.ttft_ns() >= Some((30 - index) * GAP), "{index}: {:?}", record.ttft_ns());
            assert!(record.lateness_ns() < record.ttft_ns());
        }
    }
}

/// Opens its gate when it has seen this many dropped requests.
struct GateOpener {
    drops: usize,
    gate: Gate,
    records: Vec<Record>,
}

impl Sink for GateOpener {
    fn record(&mut self, record: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
        self.records.push(record.clone());
        if self.records.iter().filter(|record| record.outcome == Outcome::Dropped).count() == self.drops {
            self.gate.open();
        }
        Ok(())
    }
}

#[test]
fn what_finds_no_free_place_is_dropped_and_counted() {
    let gate = Gate::default();
    let held = gate.clone();
    let server = Server::start(move |request, stream| {
        held.pass();
        good(request, stream)
    });
    let mut sink = GateOpener { drops: 3, gate, records: Vec::new() };
    let finished = run_into(&open(&server.url(), 2), &mut every(MS, 5), &mut sink).expect("a trial");
    assert_eq!(finished.counts.count(Phase::Measured, Outcome::Ok), 2);
    assert_eq!(finished.counts.count(Phase::Measured, Outcome::Dropped), 3);
    assert_eq!((finished.client.most_in_flight, server.connections.load(Ordering::SeqCst)), (2, 2));
    for record in sink.records.iter().filter(|record| record.outcome == Outcome::Dropped) {
        assert!(record.intended_ns.is_some() && record.sent_ns.is_none() && record.error.is_some(), "{record:?}");
    }
}

#[test]
fn under_a_cap_what_finds_no_free_place_waits_for_one_in_its_order() {
    let gate = Gate::default();
    let held = gate.clone();
    let server = Server::start(move |request, stream| {
        held.pass();
        good(request, stream)
    });
    let trial = capped(&server.url(), 2);
    let start = trial.start_at_ns;
    let opening = std::thread::spawn(move || {
        // All five are due by now.
        while assay_reactor::now_ns() < start + 20 * MS {
            std::thread::yield_now();
        }
        gate.open();
    });
    let (finished, kept) = run_trial(&trial, &mut every(MS, 5));
    opening.join().expect("no panic");
    assert_eq!(indices(&kept, Outcome::Ok), [0, 1, 2, 3, 4]);
    assert_eq!((finished.client.most_in_flight, server.connections.load(Ordering::SeqCst)), (2, 2));
    let mut records = kept.records;
    let ends: Vec<Option<i64>> = records.iter().map(|record| record.end_ns).collect();
    records.sort_by_key(|record| record.global_index);
    assert!(records.is_sorted_by_key(|record| record.dequeued_ns), "{records:?}");
    for record in &records {
        assert_eq!(record.intended_ns, Some(record.global_index.cast_signed() * MS));
        assert!(record.ready_ns <= record.dequeued_ns && record.dequeued_ns <= record.sent_ns, "{record:?}");
        if record.global_index < 2 {
            assert_eq!(record.ready_ns, record.intended_ns, "there was a place for it");
        } else {
            assert!(record.ready_ns >= Some(20 * MS) && ends.contains(&record.ready_ns), "{record:?}");
            // The wait is a part of its latency, and none of the client's lateness.
            assert!(record.ttft_ns() > record.ready_ns.map(|ready| ready - record.intended_ns.expect("due")));
            assert_eq!(record.client_lateness_ns(), record.sent_ns.map(|sent| sent - record.ready_ns.expect("a place")));
        }
    }
}

#[test]
fn what_still_waits_for_a_place_at_the_end_is_dropped_and_counted() {
    let gate = Gate::default();
    let held = gate.clone();
    let server = Server::start(move |request, stream| {
        held.pass();
        good(request, stream)
    });
    let trial = Trial {
        measured: MeasuredLimits { duration_ns: Some(5 * MS), requests: None },
        drain_ns: 10 * MS,
        ..capped(&server.url(), 1)
    };
    let (finished, kept) = run_trial(&trial, &mut every(MS, 1000));
    gate.open();
    assert_eq!((indices(&kept, Outcome::CancelledAtEnd), indices(&kept, Outcome::Dropped)), (vec![0], vec![1, 2, 3, 4]));
    assert_eq!(finished.counts.due(Phase::Measured), 5);
    let dropped = kept.records.iter().filter(|record| record.outcome == Outcome::Dropped);
    assert!(dropped.clone().all(|record| record.ready_ns.is_none() && record.sent_ns.is_none()));
}

/// Requests of which some are cancelled: their indices and the time after which each is.
struct CancelledRequests {
    requests: crate::support::NumberedRequests,
    cancelled: &'static [u64],
    after_ns: u64,
}

impl Requests for CancelledRequests {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        let Some(request) = self.requests.next(phase)? else { return Ok(None) };
        let cancel_after_ns = self.cancelled.contains(&request.global_index).then_some(self.after_ns);
        Ok(Some(PlannedRequest { cancel_after_ns, ..request }))
    }
}

#[test]
fn a_request_is_cancelled_so_long_after_it_was_sent_and_its_connection_is_closed() {
    // The endpoint sends a part of its response and then nothing, to requests that are to be cancelled.
    let closed_by_client = Gate::default();
    let noted = closed_by_client.clone();
    let server = Server::start(move |request, stream| {
        let body: serde_json::Value = serde_json::from_slice(&request.body).expect("a body");
        if body["index"] != 1 {
            return good(request, stream);
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
        let _ = stream.flush();
        // Only a connection that the other side has closed ends the writing of comments.
        while stream.write_all(b"2\r\n:\n\r\n").is_ok() {
            std::thread::yield_now();
        }
        noted.open();
        AfterResponse::Close
    });
    let after_ns = 20 * MS.unsigned_abs();
    let mut requests = CancelledRequests { requests: numbered(4), cancelled: &[1], after_ns };
    let (finished, kept) = run_trial(&closed(&server.url(), 1), &mut requests);
    closed_by_client.pass();
    assert_eq!((indices(&kept, Outcome::Ok), indices(&kept, Outcome::Cancelled)), (vec![0, 2, 3], vec![1]));
    let cancelled = kept.records.iter().find(|record| record.outcome == Outcome::Cancelled).expect("one");
    assert!(cancelled.end_ns >= cancelled.write_done_ns.map(|done| done + 20 * MS), "{cancelled:?}");
    assert!(cancelled.first_byte_ns.is_some());
    // The user goes on with another connection.
    assert_eq!((server.connections.load(Ordering::SeqCst), finished.counts.due(Phase::Measured)), (2, 4));
}

#[test]
fn what_ends_before_its_cancellation_is_not_cancelled() {
    let server = Server::start(good);
    let mut requests = CancelledRequests { requests: numbered(5), cancelled: &[0, 1, 2, 3, 4], after_ns: LONG.unsigned_abs() };
    let (_, kept) = run_trial(&closed(&server.url(), 2), &mut requests);
    assert_eq!(indices(&kept, Outcome::Ok), [0, 1, 2, 3, 4]);
    // Without a server, a request is never sent, and so it is not cancelled.
    let mut requests = CancelledRequests { requests: numbered(2), cancelled: &[0, 1], after_ns: 0 };
    let (_, kept) = run_trial(&trial(CLOSED_URL), &mut requests);
    assert_eq!(indices(&kept, Outcome::ConnectError), [0, 1]);
}

#[test]
fn a_request_may_be_cancelled_as_soon_as_it_is_sent() {
    let gate = Gate::default();
    let held = gate.clone();
    let server = Server::start(move |_, _| {
        held.pass();
        AfterResponse::Close
    });
    let mut requests = CancelledRequests {
        requests: every(MS, 20),
        cancelled: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
        after_ns: 0,
    };
    let (_, kept) = run_trial(&open(&server.url(), 64), &mut requests);
    gate.open();
    assert_eq!(indices(&kept, Outcome::Cancelled), (0..20).collect::<Vec<_>>());
}

#[test]
fn each_request_may_have_a_connection_of_its_own_and_its_latency_counts_from_before_it() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let server = Server::start(move |request, stream| {
        seen.lock().expect("a lock").push(header(&request.head, "connection").map(str::to_owned));
        good(request, stream)
    });
    let trial = Trial { connections: Connections::Never, ..closed(&server.url(), 2) };
    let (finished, kept) = run_trial(&trial, &mut numbered(10));
    assert_eq!((indices(&kept, Outcome::Ok).len(), server.connections.load(Ordering::SeqCst)), (10, 10));
    assert_eq!((finished.client.connections_opened, finished.client.resends), (10, 0));
    assert_eq!(heads.lock().expect("a lock").as_slice(), vec![Some("close".to_owned()); 10]);
    for record in &kept.records {
        assert_eq!(record.intended_ns, record.dequeued_ns, "a user takes it up");
        let times = [record.dequeued_ns, record.connect_start_ns, record.connect_end_ns, record.sent_ns, record.first_token_ns];
        assert!(times.is_sorted() && times.iter().all(Option::is_some), "{record:?}");
        assert_eq!(record.ttft_ns(), record.first_token_ns.zip(record.dequeued_ns).map(|(first, begun)| first - begun));
    }
    let (_, pooled) = run_trial(&closed(&server.url(), 2), &mut numbered(10));
    assert!(pooled.records.iter().all(|record| record.intended_ns.is_none()));
}

#[test]
fn a_trial_without_a_success_ends_with_all_its_rows() {
    // Room for all at once: a slow machine may find many due together.
    let (finished, kept) = run_trial(&open(CLOSED_URL, 128), &mut every(MS / 4, 100));
    assert_eq!(indices(&kept, Outcome::ConnectError), (0..100).collect::<Vec<_>>());
    assert_eq!(finished.counts.due(Phase::Measured), 100);
}

/// The loop reads what is ready before it looks at time limits, and on a busy machine much later than it came.
#[test]
fn a_response_that_is_read_after_its_time_limit_is_late() {
    let server = Server::start(|request, stream| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        good(request, stream)
    });
    let trial = Trial { timeout_ns: 2 * MS, ..closed(&server.url(), 8) };
    let (_, kept) = run_trial(&trial, &mut numbered(200));
    let took = |record: &Record| record.end_ns.expect("an end") - record.dequeued_ns.expect("a beginning");
    let late = kept.records.iter().filter(|record| record.outcome == Outcome::Ok && took(record) > trial.timeout_ns);
    assert_eq!(late.count(), 0);
    assert!(!indices(&kept, Outcome::Timeout).is_empty());
}

#[test]
fn a_queue_that_grows_ends_the_trial_with_a_row_for_each_request() {
    let gate = Gate::default();
    let held = gate.clone();
    let server = Server::start(move |request, stream| {
        held.pass();
        good(request, stream)
    });
    let most = OverSaturation { in_flight: 20, for_ns: 30 * MS };
    let trial = Trial { over_saturation: Some(most), ..open(&server.url(), 64) };
    let (finished, kept) = run_trial(&trial, &mut every(MS, 10_000));
    gate.open();
    assert!(finished.over_saturated && !finished.cancelled);
    // More than 20 were in flight for 30 ms, and all that had become due until then has a row.
    let due = kept.records.len();
    assert!((50..10_000).contains(&due), "{due} requests");
    assert_eq!(indices(&kept, Outcome::CancelledAtEnd).len() + indices(&kept, Outcome::Dropped).len(), due);
    assert!(finished.measured_to_ns >= 50 * MS, "{finished:?}");
}

#[test]
fn a_queue_that_empties_in_between_does_not_end_the_trial() {
    let server = Server::start(good);
    let most = OverSaturation { in_flight: 1, for_ns: LONG };
    // As many may be in flight as there are requests, so that none is dropped on a machine that is busy.
    let trial = Trial { over_saturation: Some(most), ..open(&server.url(), 100) };
    let (finished, kept) = run_trial(&trial, &mut every(MS / 4, 100));
    assert!(!finished.over_saturated);
    assert_eq!(indices(&kept, Outcome::Ok).len(), 100);
}

/// Responds to each request with an error.
fn failing(_: &Request, stream: &mut dyn Write) -> AfterResponse {
    let _ = stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}");
    AfterResponse::KeepAlive
}

#[test]
fn failures_end_the_trial_with_a_row_for_each_request() {
    let server = Server::start(failing);
    for (limit, least) in [
        (ErrorLimit { count: Some(5), recent: None }, 5),
        (ErrorLimit { count: None, recent: Some(RecentErrors { failures: 8, of_last: 8 }) }, 8),
    ] {
        let trial = Trial { stop_on_errors: Some(limit), ..closed(&server.url(), 2) };
        let (finished, kept) = run_trial(&trial, &mut numbered(10_000));
        assert!(finished.too_many_errors && !finished.cancelled && !finished.over_saturated);
        // Each user had at most one more in flight.
        let failed = indices(&kept, Outcome::HttpError).len();
        assert!((least..least + 2).contains(&failed), "{failed} failed with {limit:?}");
        let others = indices(&kept, Outcome::CancelledAtEnd).len() + indices(&kept, Outcome::Dropped).len();
        assert_eq!(failed + others, kept.records.len());
    }
}

#[test]
fn fewer_failures_than_the_limit_change_nothing() {
    let server = Server::start(failing);
    let limit = ErrorLimit { count: Some(21), recent: Some(RecentErrors { failures: 21, of_last: 21 }) };
    let trial = Trial { stop_on_errors: Some(limit), ..closed(&server.url(), 2) };
    let (finished, kept) = run_trial(&trial, &mut numbered(20));
    assert!(!finished.too_many_errors);
    assert_eq!(indices(&kept, Outcome::HttpError).len(), 20);
    let met = Trial { stop_on_errors: Some(ErrorLimit { count: Some(20), recent: None }), ..closed(&server.url(), 2) };
    assert!(run_trial(&met, &mut numbered(20)).0.too_many_errors, "also by the last one");
}

#[test]
fn only_what_is_due_before_the_end_is_sent() {
    let server = Server::start(good);
    let trial = Trial { measured: MeasuredLimits { duration_ns: Some(20 * MS), requests: None }, ..open(&server.url(), 64) };
    let (finished, kept) = run_trial(&trial, &mut every(MS, 1000));
    assert_eq!(kept.records.len(), 20);
    assert_eq!(finished.measured_to_ns, 20 * MS);
    assert_eq!(finished.client.requested_per_s, Some(1000.0));
}

#[test]
fn requests_that_are_prepared_too_late_for_the_trial_are_dropped() {
    /// Returns its requests only when the trial, including its drain, is over.
    struct LateRequests(Gate, u64);
    impl Requests for LateRequests {
        fn next(&mut self, _: Phase) -> Result<Option<PlannedRequest>, Cause> {
            self.0.pass();
            self.1 += 1;
            Ok((self.1 <= 5).then(|| PlannedRequest {
                global_index: self.1 - 1,
                intended_offset_ns: Some(0),
                ..PlannedRequest::default()
            }))
        }
    }
    let server = Server::start(good);
    let trial = Trial {
        measured: MeasuredLimits { duration_ns: Some(10 * MS), requests: None },
        drain_ns: 10 * MS,
        ..open(&server.url(), 4)
    };
    let gate = Gate::default();
    let opener = gate.clone();
    let start = trial.start_at_ns;
    let opening = std::thread::spawn(move || {
        while assay_reactor::now_ns() < start + 40 * MS {
            std::thread::yield_now();
        }
        opener.open();
    });
    let (finished, kept) = run_trial(&trial, &mut LateRequests(gate, 0));
    opening.join().expect("no panic");
    assert_eq!(indices(&kept, Outcome::Dropped), [0, 1, 2, 3, 4]);
    assert_eq!(finished.counts.due(Phase::Measured), 5);
}

#[test]
fn a_cancelled_trial_ends_with_its_rows() {
    struct CancellingSink<'a>(&'a AtomicBool, Vec<Outcome>);
    impl Sink for CancellingSink<'_> {
        fn record(&mut self, record: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
            self.0.store(true, Ordering::SeqCst);
            self.1.push(record.outcome);
            Ok(())
        }
    }
    let hung = Gate::default();
    let gate = hung.clone();
    let server = Server::start(move |request, stream| {
        if request.number > 0 {
            gate.pass();
        }
        good(request, stream)
    });
    let cancel = AtomicBool::new(false);
    let mut sink = CancellingSink(&cancel, Vec::new());
    let finished = run(&trial(&server.url()), &mut numbered(1000), &mut sink, &cancel, &Progress::new()).expect("a trial");
    assert!(finished.cancelled);
    assert_eq!(sink.1, [Outcome::Ok, Outcome::CancelledAtEnd]);
    hung.open();
}

#[test]
fn failures_of_the_caller_end_the_trial_and_are_told() {
    struct RefusingSink;
    impl Sink for RefusingSink {
        fn record(&mut self, _: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
            Err("the disk is full".into())
        }
    }
    struct FailingRequests;
    impl Requests for FailingRequests {
        fn next(&mut self, _: Phase) -> Result<Option<PlannedRequest>, Cause> {
            Err("no prompts".into())
        }
    }
    let server = Server::start(good);
    let refused = run_into(&trial(&server.url()), &mut numbered(u64::MAX), &mut RefusingSink);
    assert!(matches!(&refused, Err(Error::Sink(cause)) if cause.to_string() == "the disk is full"), "{refused:?}");
    let failed = run_into(&trial(&server.url()), &mut FailingRequests, &mut crate::support::RecordingSink::default());
    assert!(matches!(&failed, Err(Error::Requests(cause)) if cause.to_string() == "no prompts"), "{failed:?}");
}

#[test]
fn trials_that_make_no_sense_are_refused() {
    let url = "http://127.0.0.1:1";
    let refused = |trial: Trial| {
        matches!(run_into(&trial, &mut numbered(1), &mut crate::support::RecordingSink::default()), Err(Error::Trial { .. }))
    };
    assert!(refused(closed(url, 0)));
    assert!(refused(Trial { timeout_ns: 0, ..trial(url) }));
    assert!(refused(Trial { drain_ns: -1, ..trial(url) }));
    assert!(refused(Trial { connections: Connections::Sticky, ..trial(url) }), "there is no session");
    let of_sessions = Some(Sessions { history: History::Recorded, most_streams: 1, idle_cap_ns: None });
    assert!(refused(Trial { sessions: of_sessions, ..capped(url, 2) }), "later turns cannot wait for other sessions");
    let files = run_into(&open(url, u32::MAX), &mut numbered(1), &mut crate::support::RecordingSink::default());
    assert!(matches!(files, Err(Error::TooFewFiles { needed, .. }) if needed > u64::from(u32::MAX)), "{files:?}");
}

#[test]
fn lists_may_be_sampled_and_nothing_is_kept_that_was_not_asked_for() {
    let server = Server::start(good);
    let trial = Trial { chunk_lists: ChunkLists::SampledEvery(4), capture: Capture::None, ..trial(&server.url()) };
    let (_, kept) = run_trial(&trial, &mut numbered(8));
    for record in &kept.records {
        assert_eq!(record.chunks.len(), if record.global_index.is_multiple_of(4) { 2 } else { 0 });
        assert_eq!((record.token_events, record.response_sha256), (2, None));
        assert!(record.first_token_ns.is_some());
    }
    assert!(kept.responses.iter().all(Option::is_none));
}

#[test]
fn progress_adds_up() {
    let server = Server::start(good);
    let progress = Progress::new();
    run(
        &trial(&server.url()),
        &mut numbered(5),
        &mut crate::support::RecordingSink::default(),
        &AtomicBool::new(false),
        &progress,
    )
    .expect("a trial");
    let reading = progress.read();
    assert_eq!((reading.sent, reading.ok, reading.failed, reading.in_flight, reading.token_events), (5, 5, 0, 0, 10));
}
