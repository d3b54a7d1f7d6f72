use super::*;

const LONG: Duration = Duration::from_mins(10);

fn read_event(wire: impl Read) -> PartialBody {
    PartialBody::read(wire, NeededPart::FirstEvent, LONG)
}

fn data_of(wire: &[u8]) -> Option<String> {
    read_event(wire).event.map(|event| String::from_utf8_lossy(&event.data).into_owned())
}

/// A source that never ends: the same bytes again and again.
struct Endless(&'static [u8]);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        Ok(count)
    }
}

#[test]
fn a_stream_is_read_to_its_first_event_with_data() {
    assert_eq!(data_of(b": ping\n\nevent: x\n\ndata:\n\ndata: a\ndata: b\r\n\r\ndata: c\n\n").as_deref(), Some("a\nb"));
    assert_eq!(data_of(b"data: cut\n"), None, "an event without its blank line is none");
    assert_eq!(data_of(&[": ping\n\n".repeat(100_000).as_bytes(), b"data: a\n\n"].concat()).as_deref(), Some("a"));
    let event = read_event(b"event: error\ndata: a\n\n".as_slice()).event;
    assert_eq!(event, Some(FirstEvent { data: b"a".to_vec(), is_error: true }));
}

#[test]
fn an_event_may_be_as_large_as_for_the_load_generator() {
    let large = "x".repeat(900_000);
    assert_eq!(data_of(format!("data: {large}\n\n").as_bytes()).as_deref(), Some(large.as_str()));
    let body = read_event(Endless(b"data: x"));
    assert!(matches!(body.cut, Some(RequestError::EventTooLarge(limit)) if limit == 1 << 20), "{:?}", body.cut);
    assert!(body.bytes.len() <= BEGINNING_BYTES);
}

#[test]
fn a_stream_of_comments_ends_with_its_time() {
    let body = PartialBody::read(Endless(b": ping\n\n"), NeededPart::FirstEvent, Duration::from_millis(20));
    assert!(matches!(body.cut, Some(RequestError::Timeout(_))), "{:?}", body.cut);
    assert!(body.received > body.bytes.len() as u64 && body.bytes.len() == BEGINNING_BYTES);
}

#[test]
fn a_document_is_read_to_its_end_and_anything_else_in_part() {
    let long = vec![b'a'; 200_000];
    let body = PartialBody::read(long.as_slice(), NeededPart::Document, LONG);
    assert_eq!((body.bytes.len(), body.received), (200_000, 200_000));
    assert!(body.cut.is_none());
    let body = PartialBody::read(Endless(b"{}"), NeededPart::Document, LONG);
    assert!(matches!(body.cut, Some(RequestError::TooLarge(limit)) if limit == MAX_DOCUMENT_BYTES as u64), "{:?}", body.cut);
    let body = PartialBody::read(long.as_slice(), NeededPart::Beginning, LONG);
    assert_eq!(body.bytes.len(), BEGINNING_BYTES);
    assert!(PartialBody::read(long.as_slice(), NeededPart::None, LONG).bytes.is_empty());
}

#[test]
fn the_needed_part_follows_from_the_head() {
    let needed = |status, kind, is_streamed| NeededPart::of(status, kind, false, is_streamed);
    assert_eq!(needed(200, Some("text/event-stream"), true), NeededPart::FirstEvent);
    assert_eq!(needed(200, None, true), NeededPart::FirstEvent);
    assert_eq!(needed(200, Some("application/json"), true), NeededPart::Document);
    assert_eq!(needed(200, Some("application/problem+json"), false), NeededPart::Document);
    assert_eq!(needed(200, None, false), NeededPart::Document);
    assert_eq!(needed(200, Some("text/event-stream"), false), NeededPart::Beginning);
    assert_eq!(needed(200, Some("text/html"), true), NeededPart::Beginning);
    assert_eq!(needed(500, Some("text/event-stream"), true), NeededPart::Beginning);
    assert_eq!(NeededPart::of(200, None, true, true), NeededPart::None);
}

#[test]
fn a_body_that_is_cut_ends_in_no_part_of_a_secret() {
    let secrets = Secrets::new(["hunter22"]);
    let body = [vec![b'\n'; BEGINNING_BYTES - 7], b"hunter22".to_vec()].concat();
    let body = PartialBody::read(body.as_slice(), NeededPart::Beginning, LONG).masked(&secrets);
    assert!(body.bytes.ends_with(b"\n[secret]"), "{:?}", String::from_utf8_lossy(&body.bytes).trim());
    let body = read_event(b"data: hunter\\u00322\n\n".as_slice()).masked(&secrets);
    assert_eq!(body.event.expect("an event").data, b"[secret]");
}
