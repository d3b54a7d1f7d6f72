use std::fs::File;

use assay_manifest::{Count, Series};
use assay_probe::testing::{Reply, Server};
use assay_stage::Clock;
use assay_telemetry::{Error, LineFormat, each_reading};
use tempfile::TempDir;

use super::*;
use crate::reading_file::{ClockReading, Gaps, MAX_GAPS};
use crate::source_threads::Message;

/// Long enough for any response of a test, so that nothing depends on speed.
const LONG: Limits = Limits { time: Duration::from_mins(10), bytes: 1000 };
const SHORT: Limits = Limits { time: Duration::from_millis(50), bytes: 1000 };

fn scraper(url: &str, folder: &TempDir, limits: Limits) -> Scraper {
    let source = Source::endpoint(&"vllm".parse().expect("a name"));
    let address = ScrapeAddress::Endpoint { address: url.to_owned(), path: "/metrics" };
    let path = folder.path().join("endpoint.jsonl.zst");
    let client = Client::new(Headers::default());
    let scraper = Scraper::new(client, &source, &address, &path, Clock.start()).expect("a scraper");
    Scraper { limits, ..scraper }
}

/// Returns the lines of a recording, in short: status, then the body or the reason.
fn lines(scrapes: &RecordedSource) -> Vec<String> {
    let artifact = serde_json::json!({
        "name": "e", "digest": assay_manifest::Digest::compute(b""), "size": "0", "media_type": "application/jsonl+zstd",
    });
    let artifact = serde_json::from_value(artifact).expect("an artifact");
    let series = Series { source: "endpoint/vllm".to_owned(), samples: Count(scrapes.samples), artifact };
    let file = File::open(&scrapes.path).expect("there");
    let mut found = Vec::new();
    each_reading(&series, LineFormat::Scrapes, file, |line: ScrapeLine| {
        let ScrapeLine { status, body, error, .. } = line;
        let status = status.map_or_else(|| "-".to_owned(), |status| status.to_string());
        found.push(format!("{status} {}{}", body.unwrap_or_default().trim_end(), error.unwrap_or_default()));
        Ok::<_, Error>(())
    })
    .expect("readable");
    found
}

fn reasons(scrapes: &RecordedSource) -> Vec<&str> {
    scrapes.gaps.iter().map(|gap| gap.reason.as_str()).collect()
}

/// Records an endpoint that returns these responses, one after the other.
fn recorded(replies: Vec<Reply>, limits: Limits) -> (Vec<Step>, RecordedSource, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let count = replies.len();
    let server = Server::start(move |request| replies.get(request.number).cloned().expect("no more requests than responses"));
    let mut scraper = scraper(&server.url(), &folder, limits);
    let steps = (0..count).map(|_| scraper.scrape().expect("written")).collect();
    assert!(server.paths().iter().all(|path| path == "/metrics"));
    (steps, scraper.finish().expect("written"), folder)
}

#[test]
fn good_responses_are_kept_as_they_came() {
    let (steps, scrapes, _folder) = recorded(vec![Reply::ok("a 1\n"), Reply::ok("a 2\n\"\u{1}ü")], LONG);
    assert_eq!(steps, [Step::Next, Step::Next]);
    assert_eq!(lines(&scrapes), ["200 a 1", "200 a 2\n\"\u{1}ü"]);
    assert_eq!(scrapes.gaps, []);
}

#[test]
fn an_endpoint_without_counters_is_asked_once() {
    let (steps, scrapes, _folder) = recorded(vec![Reply::status("404 Not Found")], LONG);
    let [Step::Over(note)] = steps.as_slice() else { panic!("one step: {steps:?}") };
    insta::assert_snapshot!(note, @"target `vllm` has no `/metrics` (404 Not Found): its own counters are not recorded");
    assert_eq!(lines(&scrapes), ["404 404 Not Found"]);
    assert_eq!(reasons(&scrapes), ["a request failed: 404 Not Found"]);
}

#[test]
fn an_exporter_is_named_with_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::with_replies(vec![]);
    let source = Source::exporter(&"node".parse().expect("a name"));
    let path = folder.path().join(source.file_name());
    let address = ScrapeAddress::Url(server.at("/node?collect[]=cpu"));
    let mut scraper = Scraper::new(Client::new(Headers::default()), &source, &address, &path, Clock.start()).expect("a scraper");
    let Ok(Step::Over(note)) = scraper.scrape() else { panic!("it has no counters") };
    let expected = format!("exporter `node` has no `{}` (404 Not Found): its own counters are not recorded", scraper.url);
    assert_eq!(note, expected);
    assert_eq!(server.paths(), ["/node?collect[]=cpu"]);
}

#[test]
fn one_that_had_counters_is_asked_on() {
    let replies =
        vec![Reply::ok("a 1"), Reply::status("404 Not Found"), Reply::status("503 Service Unavailable"), Reply::ok("a 0")];
    let (steps, scrapes, _folder) = recorded(replies, LONG);
    assert!(steps.iter().all(|step| *step == Step::Next), "it starts again");
    assert_eq!(lines(&scrapes), ["200 a 1", "404 404 Not Found", "503 503 Service Unavailable", "200 a 0"]);
    assert_eq!(reasons(&scrapes), ["2 requests failed, the first one: 404 Not Found"]);
}

#[test]
fn bad_responses_are_reasons() {
    let replies = vec![
        Reply::ok(b"a \xff"),
        Reply::ok("x".repeat(1001)),
        Reply::endless(),
        Reply::with_body("302 Found", &["location: /other"], ""),
        Reply::raw("SSH-2.0\r\n\r\n"),
        Reply::status("401 Unauthorized"),
    ];
    let (_, scrapes, _folder) = recorded(replies, LONG);
    let lines = lines(&scrapes);
    assert_eq!(lines[0], "200 the response is not UTF-8");
    assert_eq!(lines[1..3], ["- the response is larger than the limit of 1000 bytes"; 2]);
    assert_eq!(lines[3], "302 302 Found");
    assert_eq!(lines[5], "401 401 Unauthorized");
    assert_eq!(reasons(&scrapes), ["6 requests failed, the first one: the response is not UTF-8"]);
}

#[test]
fn one_that_hangs_is_given_up_until_the_next_question() {
    let (_, scrapes, _folder) = recorded(vec![Reply::hang(), Reply::drip()], SHORT);
    assert_eq!(lines(&scrapes), ["- no response within 50ms"; 2]);
    assert_eq!(reasons(&scrapes), ["2 requests failed, the first one: no response within 50ms"]);
}

#[test]
fn one_that_has_gone_is_asked_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(|_| Reply::ok("a 1"));
    let mut scraper = scraper(&server.url(), &folder, LONG);
    scraper.scrape().expect("written");
    drop(server);
    assert_eq!(scraper.scrape(), Ok(Step::Next));
    let scrapes = scraper.finish().expect("written");
    assert_eq!(lines(&scrapes), ["200 a 1", "- Connection refused (os error 111)"]);
    assert_eq!(scrapes.gaps.len(), 1, "to the end");
}

#[test]
fn it_asks_once_more_when_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(|request| Reply::ok(format!("a {}", request.number)));
    let (stop, stopped) = channel();
    let (say, said) = Messages::channel();
    // Stopped before it begins: the first request and the last one.
    drop(stop);
    let scrapes = run(scraper(&server.url(), &folder, LONG), &stopped, &say).expect("written");
    assert_eq!(lines(&scrapes), ["200 a 0", "200 a 1"]);
    assert_eq!(said.try_iter().collect::<Vec<_>>(), [Message::First]);
}

#[test]
fn one_without_counters_waits_to_be_stopped_and_is_asked_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::with_replies(vec![]);
    let (stop, stopped) = channel();
    let (say, said) = Messages::channel();
    let scraper = scraper(&server.url(), &folder, LONG);
    let thread = std::thread::spawn(move || run(scraper, &stopped, &say));
    assert!(matches!(said.recv(), Ok(Message::Note(_))), "the note comes before the first response is reported");
    assert_eq!(said.recv(), Ok(Message::First));
    drop(stop);
    assert_eq!(thread.join().expect("no panic").expect("written").samples, 1);
    assert_eq!(server.paths(), ["/metrics"]);
}

const SECOND: u64 = 1_000_000_000;

fn point(seconds: u64) -> ClockReading {
    let ns = seconds * SECOND;
    ClockReading { at: Instant::from_unix_ns(i64::try_from(ns).expect("it fits")), ns }
}

/// Returns the gaps that these responses leave until second 100: the second of each, and whether it was successful.
fn gaps(responses: &[(u64, bool)]) -> Vec<(u64, u64, String)> {
    let mut gaps = Gaps::new("endpoint/a".to_owned(), Reading::REQUEST, point(0));
    for (second, good) in responses {
        if *good { gaps.record_success(point(*second)) } else { gaps.record_failure("why") }
    }
    let seconds = |instant: Instant| u64::try_from(instant.unix_ns()).expect("not before 1970") / SECOND;
    let list = gaps.finish(point(100));
    assert!(list.iter().all(|gap| gap.window.duration_ns.0 == gap.window.end.ns_since(gap.window.start)));
    list.into_iter().map(|gap| (seconds(gap.window.start), seconds(gap.window.end), gap.reason)).collect()
}

#[test]
fn a_gap_reaches_from_one_good_response_to_the_next() {
    let failed = |count: u64| {
        if count == 1 { "a request failed: why".to_owned() } else { format!("{count} requests failed, the first one: why") }
    };
    assert_eq!(gaps(&[(0, true), (1, true), (4, true)]), [], "three intervals are no gap");
    assert_eq!(gaps(&[(0, true), (1, false), (2, true)]), [(0, 2, failed(1))]);
    assert_eq!(gaps(&[(0, true), (1, false), (2, false), (3, true), (4, false)]), [(0, 3, failed(2)), (3, 100, failed(1))]);
    assert_eq!(gaps(&[(0, false), (1, false)]), [(0, 100, failed(2))], "it never responded");
    assert_eq!(gaps(&[(0, true), (5, true)]), [(0, 5, "the recorder was not scheduled".to_owned())]);
}

#[test]
fn gaps_without_end_are_listed_up_to_a_limit() {
    let responses: Vec<_> = (0..2 * MAX_GAPS as u64 + 20).map(|second| (second, second % 2 == 0)).collect();
    let mut gaps = Gaps::new("endpoint/a".to_owned(), Reading::REQUEST, point(0));
    for (second, good) in responses {
        if good { gaps.record_success(point(second)) } else { gaps.record_failure("why") }
    }
    let list = gaps.finish(point(9999));
    assert_eq!(list.len(), MAX_GAPS);
    let last = list.last().expect("the last");
    assert_eq!(last.window.end, point(9999).at);
    insta::assert_snapshot!(last.reason, @"there are more gaps than 1000; this one holds all others, with the successful responses between them");
}

#[test]
fn only_an_absence_ends_the_questions() {
    let ends: Vec<u16> = (100..600).filter(|status| is_absence(*status)).collect();
    assert_eq!(ends, [404, 405, 410, 501]);
}
