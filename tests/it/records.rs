//! Request records that the key of execute falsifies: each column, and all of them together.

use std::collections::BTreeMap;

use assay_manifest::Instant;
use assay_record::{Chunk, Outcome, Phase, Record, TokenSource, UsageFault};
use assay_warehouse::records::{RecordColumn as Column, RecordFile, RecordWriter};
use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::replace_artifact;
use crate::pipeline::{list, text};

/// An hour in nanoseconds.
const HOUR: i64 = 3_600_000_000_000;

/// A falsification of the records of one attempt.
pub(crate) type RecordsFalsification = Box<dyn Fn(&mut AttemptRecords)>;

/// The records of one attempt, and the attempt and shard that their file names.
pub(crate) struct AttemptRecords {
    records: Vec<Record>,
    attempt: u32,
    shard: u32,
}

impl AttemptRecords {
    fn read(bytes: Vec<u8>) -> Self {
        let file = RecordFile::open(bytes).expect("a file of records");
        let records = file.records().expect("records").map(|record| record.expect("a record")).collect();
        Self { records, attempt: 0, shard: 0 }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = RecordWriter::new(&mut bytes, self.attempt, self.shard).expect("a writer");
        self.records.iter().for_each(|record| writer.write(record).expect("a record is written"));
        writer.finish().expect("a whole file");
        bytes
    }

    /// Returns a successful request from the middle.
    fn middle_record(&mut self) -> &mut Record {
        let place = self.records.len() / 2;
        &mut self.records[place]
    }

    /// Changes every time of every request.
    fn change_times(&mut self, change: impl Fn(i64) -> i64) {
        for record in &mut self.records {
            for time in times_of(record) {
                *time = time.map(&change);
            }
            record.chunks.iter_mut().for_each(|chunk| chunk.at_ns = change(chunk.at_ns));
        }
    }
}

fn times_of(record: &mut Record) -> [&mut Option<i64>; 11] {
    [
        &mut record.intended_ns,
        &mut record.dequeued_ns,
        &mut record.connect_start_ns,
        &mut record.connect_end_ns,
        &mut record.sent_ns,
        &mut record.write_done_ns,
        &mut record.first_byte_ns,
        &mut record.first_token_ns,
        &mut record.last_token_ns,
        &mut record.end_ns,
        &mut record.first_content_ns,
    ]
}

/// Replaces the records of the first attempt at a load, and updates the totals that execute derives from them.
pub(crate) fn falsify_records(manifest: &mut Value, bench: &Bench, lie: &RecordsFalsification) {
    let is_load = |attempt: &&mut Value| attempt["serving"].is_object();
    let attempts = manifest["body"]["attempts"].as_array_mut().expect("attempts");
    let attempt = attempts.iter_mut().find(is_load).expect("an attempt at a load");
    let name = text(&attempt["serving"]["records"]["name"]).to_owned();
    let mut kept = None;
    replace_artifact(bench, manifest, &name, |bytes| {
        let mut written = AttemptRecords::read(bytes);
        lie(&mut written);
        let bytes = written.bytes();
        kept = Some(written.records);
        bytes
    });
    let attempts = manifest["body"]["attempts"].as_array_mut().expect("attempts");
    let attempt = attempts.iter_mut().find(is_load).expect("an attempt at a load");
    update_totals(&mut attempt["serving"], &kept.expect("records"));
}

/// Lets every attempt at a load begin this much earlier and its last response take as much longer, so that a trial of a second is one whose window
/// ends after a time that no test waits for.
pub(crate) fn last_longer(manifest: &mut Value, bench: &Bench, by_ns: i64) {
    for place in 0..list(&manifest["body"]["attempts"]).len() {
        let attempt = &mut manifest["body"]["attempts"][place];
        let number = attempt["attempt"].as_u64().and_then(|number| u32::try_from(number).ok()).expect("a number");
        begin_earlier(&mut attempt["window"]["start"], by_ns);
        begin_earlier(&mut attempt["serving"]["start"], by_ns);
        let lasted: i64 = text(&attempt["window"]["duration_ns"]).parse().expect("a number");
        attempt["window"]["duration_ns"] = json!((lasted + by_ns).to_string());
        let ended: i64 = text(&attempt["serving"]["measured_to_ns"]).parse().expect("a number");
        attempt["serving"]["measured_to_ns"] = json!((ended + by_ns).to_string());
        let name = text(&attempt["serving"]["records"]["name"]).to_owned();
        replace_artifact(bench, manifest, &name, |bytes| {
            let mut written = AttemptRecords { attempt: number, ..AttemptRecords::read(bytes) };
            let last = written.records.iter_mut().max_by_key(|record| record.end_ns).expect("a record");
            let response = [
                &mut last.first_byte_ns,
                &mut last.first_token_ns,
                &mut last.first_content_ns,
                &mut last.last_token_ns,
                &mut last.end_ns,
            ];
            response.into_iter().flatten().for_each(|time| *time += by_ns);
            last.chunks.iter_mut().for_each(|chunk| chunk.at_ns += by_ns);
            written.bytes()
        });
    }
}

/// Moves an instant of a manifest this much earlier.
pub(crate) fn begin_earlier(instant: &mut Value, by_ns: i64) {
    let at: Instant = text(instant).parse().expect("an instant");
    *instant = json!(Instant::from_unix_ns(at.unix_ns() - by_ns));
}

/// Recomputes the totals that execute states about records.
fn update_totals(serving: &mut Value, records: &[Record]) {
    let outcomes = |phase: Phase| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for record in records.iter().filter(|record| record.phase == phase) {
            *counts.entry(record.outcome.to_string()).or_default() += 1;
        }
        counts.into_iter().map(|(word, count)| (word, json!(count.to_string()))).collect::<serde_json::Map<_, _>>()
    };
    let measured = || records.iter().filter(|record| record.phase == Phase::Measured);
    let input: u64 = measured().filter(|record| record.sent_ns.is_some()).map(|record| u64::from(record.input_tokens)).sum();
    let output: u64 = records.iter().filter_map(|record| record.output_tokens).map(u64::from).sum();
    let events: u64 = records.iter().map(|record| u64::from(record.token_events)).sum();
    let last = measured().filter_map(|record| record.end_ns.or(record.last_token_ns)).max().unwrap_or(0).max(0);
    serving["outcomes"] = Value::Object(outcomes(Phase::Measured));
    serving["warmup_outcomes"] = Value::Object(outcomes(Phase::Warmup));
    serving["input_tokens"] = json!(input.to_string());
    serving["output_tokens"] = json!(output.to_string());
    serving["client"]["events"] = json!(events.to_string());
    serving["measured_to_ns"] = json!(last.to_string());
}

/// Returns a falsification of a column of one request: a plausible value, or an impossible one if `far` is true.
pub(crate) fn column_falsification(column: Column, far: bool) -> RecordsFalsification {
    // A small change, away from the neighbouring time, which may be the same instant.
    let by = match column {
        _ if far => HOUR,
        // The next request of a user begins when the last one ends.
        Column::Dequeued => -1_000_000,
        Column::End => 1_000_000,
        Column::FirstByte | Column::LastToken => -1_000,
        _ => 1_000,
    };
    let tokens = if far { 1_000_000 } else { 1 };
    let time = |place: usize| -> RecordsFalsification {
        Box::new(move |written| {
            let time = &mut *times_of(written.middle_record())[place];
            *time = Some(time.unwrap_or(0) + by);
        })
    };
    let of =
        |change: Box<dyn Fn(&mut Record)>| -> RecordsFalsification { Box::new(move |written| change(written.middle_record())) };
    let more = move |count: &mut Option<u32>| *count = Some(count.unwrap_or(0) + tokens);
    match column {
        Column::GlobalIndex => of(Box::new(move |record| record.global_index += u64::from(tokens))),
        Column::Session => of(Box::new(|record| record.session = Some(record.session.map_or(0, |session| session + 1)))),
        Column::Turn => of(Box::new(move |record| more(&mut record.turn))),
        Column::Stream => of(Box::new(move |record| more(&mut record.stream))),
        Column::SessionTurns => of(Box::new(move |record| more(&mut record.session_turns))),
        Column::SessionDone => of(Box::new(move |record| more(&mut record.session_done))),
        Column::SessionStart => of(Box::new(|record| record.session_start_ns = Some(record.session_start_ns.unwrap_or(0) + 1))),
        Column::SessionPauses => {
            of(Box::new(|record| record.session_pauses_ns = Some(record.session_pauses_ns.unwrap_or(0) + 1)))
        }
        Column::Planned => of(Box::new(|record| record.planned_ns = Some(record.planned_ns.unwrap_or(0) + 1))),
        Column::Attempt => Box::new(|written| written.attempt += 1),
        Column::Shard => Box::new(|written| written.shard += 1),
        Column::Phase => of(Box::new(|record| record.phase = Phase::Warmup)),
        Column::Outcome => of(Box::new(move |record| record.outcome = if far { Outcome::Dropped } else { Outcome::Timeout })),
        Column::RequestId => of(Box::new(|record| record.request_id ^= 1)),
        Column::Intended => time(0),
        Column::Ready => of(Box::new(|record| record.ready_ns = Some(record.ready_ns.unwrap_or(0) + 1))),
        Column::Dequeued => time(1),
        Column::ConnectStart => time(2),
        Column::ConnectEnd => time(3),
        Column::Sent => time(4),
        Column::WriteDone => time(5),
        Column::FirstByte => time(6),
        Column::FirstToken => time(7),
        Column::FirstContent => time(10),
        Column::LastToken => time(8),
        Column::End => time(9),
        Column::HttpStatus => of(Box::new(move |record| record.http_status = Some(if far { 500 } else { 201 }))),
        Column::FinishReason => of(Box::new(|record| record.finish_reason = Some("other".to_owned()))),
        Column::Error => of(Box::new(|record| record.error = Some("no error".to_owned()))),
        Column::RequestBytes => of(Box::new(|record| record.request_bytes += 1)),
        Column::ResponseBytes => of(Box::new(|record| record.response_bytes += 1)),
        Column::InputTokensRequested => of(Box::new(move |record| more(&mut record.input_tokens_requested))),
        Column::InputTokens => of(Box::new(move |record| record.input_tokens += tokens)),
        Column::InputTokensEndpoint => of(Box::new(move |record| more(&mut record.input_tokens_endpoint))),
        Column::CachedTokens => of(Box::new(move |record| more(&mut record.cached_tokens))),
        Column::OutputTokensRequested => of(Box::new(move |record| more(&mut record.output_tokens_requested))),
        Column::OutputTokens => of(Box::new(move |record| more(&mut record.output_tokens))),
        Column::OutputSource => of(Box::new(|record| record.output_source = TokenSource::Unknown)),
        Column::OutputTokensClaimed => of(Box::new(move |record| {
            record.output_tokens_claimed = Some(record.output_tokens_claimed.unwrap_or(0) + i64::from(tokens));
        })),
        Column::UsageFault => of(Box::new(|record| record.usage_fault = UsageFault::OutputIsZero)),
        Column::ReasoningTokens => of(Box::new(move |record| more(&mut record.reasoning_tokens))),
        Column::AcceptedPredictionTokens => of(Box::new(move |record| more(&mut record.accepted_prediction_tokens))),
        Column::FirstEventTokens => of(Box::new(move |record| more(&mut record.first_event_tokens))),
        Column::TokenEvents => of(Box::new(move |record| record.token_events += tokens)),
        Column::PromptSha256 => of(Box::new(|record| record.prompt_sha256 = Some([7; 32]))),
        Column::ResponseSha256 => of(Box::new(|record| record.response_sha256 = Some([7; 32]))),
        Column::ChunkAt => of(Box::new(move |record| {
            let waits = |pair: &[Chunk]| pair[0].at_ns + 2_000 < pair[1].at_ns;
            let place = record.chunks[1..].windows(2).position(waits).expect("a pause between token events");
            record.chunks[place + 1].at_ns += by;
        })),
        Column::ChunkBytes => of(Box::new(|record| record.chunks[0].bytes += 1)),
        Column::ChunkTokens => of(Box::new(move |record| more(&mut record.chunks[0].tokens))),
    }
}

/// Returns falsifications of all records of an attempt together.
pub(crate) fn attempt_falsifications() -> Vec<(&'static str, RecordsFalsification)> {
    let slowest = |written: &mut AttemptRecords| {
        let took = |record: &Record| record.end_ns.unwrap_or(0) - record.sent_ns.unwrap_or(0);
        let limit = written.records.iter().map(took).max().unwrap_or(0);
        written.records.retain(|record| took(record) < limit);
    };
    vec![
        ("every time a thousandth", Box::new(|written| written.change_times(|at| at / 1_000))),
        ("every time ten times as long", Box::new(|written| written.change_times(|at| at * 10))),
        ("every time an hour earlier", Box::new(|written| written.change_times(|at| at - HOUR))),
        ("every time an hour later", Box::new(|written| written.change_times(|at| at + HOUR))),
        ("the slowest request left out", Box::new(slowest)),
        ("a request twice", Box::new(|written| written.records.push(written.records[0].clone()))),
        ("no request", Box::new(|written| written.records.clear())),
        (
            "every second request in the warm-up",
            Box::new(|written| written.records.iter_mut().step_by(2).for_each(|record| record.phase = Phase::Warmup)),
        ),
        (
            "every request the first one",
            Box::new(|written| written.records.iter_mut().for_each(|record| record.global_index = 0)),
        ),
    ]
}
