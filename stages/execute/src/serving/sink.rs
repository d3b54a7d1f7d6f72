//! The sink of finished records: a Parquet file, and the texts of responses beside it if the workload keeps them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use assay_load::{Cause, Sink};
use assay_record::{Phase, Record};
use assay_stage::Secrets;
use assay_warehouse::WrittenFile;
use assay_warehouse::records::RecordWriter;

use super::live::LiveLatencies;

/// The maximum different errors that are counted; an endpoint that words each of them differently has no most frequent one.
const MAX_ERRORS: usize = 32;

/// Input and output tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Input tokens: of the measured phase's prompts that were sent.
    pub(crate) input: u64,
    /// Output tokens: of the responses of all phases.
    pub(crate) output: u64,
}

/// The summary of a shard's records and responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordSummary {
    pub(crate) tokens: Tokens,
    /// Errors of failed requests in the measured phase, each with whether the client ended the request, and their counts.
    errors: BTreeMap<(bool, String), u64>,
    /// True if a response of the endpoint held a secret of the target's headers, which was masked.
    pub(crate) held_secret: bool,
}

impl RecordSummary {
    /// Returns the most frequent error of failed requests: `401: no such key`.
    pub(crate) fn commonest_error(&self) -> Option<&str> {
        // Among equally frequent ones, the first in the alphabet, so that the same load gives the same words. What the client cut itself follows
        // from its end, and is no cause if there is another.
        let commonest = self.errors.iter().rev().max_by_key(|((is_of_client, _), count)| (!is_of_client, **count))?;
        Some(&commonest.0.1)
    }

    fn add_error(&mut self, record: &Record) {
        if record.phase != Phase::Measured || !record.outcome.is_failure() {
            return;
        }
        let said = match (record.http_status, record.error.as_deref()) {
            (Some(status), Some(error)) => format!("{status}: {error}"),
            (None, Some(error)) => error.to_owned(),
            // A response without a text still has its status.
            (Some(status @ 400..), None) => format!("HTTP status {status}"),
            (_, None) => return,
        };
        let said = (record.outcome.is_of_client(), said);
        if self.errors.len() < MAX_ERRORS || self.errors.contains_key(&said) {
            *self.errors.entry(said).or_default() += 1;
        }
    }
}

/// Writes records as they come.
pub(crate) struct RecordSink<W: Write + Send> {
    writer: RecordWriter<W>,
    responses: Option<BufWriter<File>>,
    secrets: Secrets,
    told: RecordSummary,
    live: Arc<LiveLatencies>,
}

impl<W: Write + Send> RecordSink<W> {
    /// Writes to `writer`, and the texts of responses to a file if there is one; `secrets` are masked in both. Latencies are added
    /// to `live`.
    pub(crate) fn new(
        writer: RecordWriter<W>,
        responses: Option<&Path>,
        secrets: Secrets,
        live: Arc<LiveLatencies>,
    ) -> std::io::Result<Self> {
        let responses = responses.map(File::create).transpose()?.map(BufWriter::new);
        Ok(Self { writer, responses, secrets, told: RecordSummary::default(), live })
    }

    /// Completes the files.
    pub(crate) fn finish(self) -> Result<(RecordSummary, WrittenFile), Cause> {
        if let Some(mut responses) = self.responses {
            responses.flush()?;
        }
        Ok((self.told, self.writer.finish()?))
    }
}

impl<W: Write + Send> Sink for RecordSink<W> {
    fn record(&mut self, record: &Record, response: Option<&[u8]>) -> Result<(), Cause> {
        let tokens = &mut self.told.tokens;
        if record.phase == Phase::Measured && record.sent_ns.is_some() {
            tokens.input += u64::from(record.input_tokens);
        }
        tokens.output += u64::from(record.output_tokens.unwrap_or(0));
        self.live.add(record);
        let masked_response = response.and_then(|response| self.secrets.mask(response));
        let masked_record = mask_record(record, masked_response.is_some(), &self.secrets);
        self.told.held_secret |= masked_response.is_some() || masked_record.is_some();
        if let (Some(out), Some(response)) = (&mut self.responses, masked_response.as_deref().or(response)) {
            let line = serde_json::json!({
                "phase": record.phase.as_str(), "global_index": record.global_index,
                "request_id": format!("{:032x}", record.request_id), "response": String::from_utf8_lossy(response),
            });
            writeln!(out, "{line}")?;
        }
        let record = masked_record.as_ref().unwrap_or(record);
        self.told.add_error(record);
        Ok(self.writer.write(record)?)
    }
}

/// Returns the record without the secrets in the endpoint's texts; none if it has none. The digest of a response that held one is
/// removed as well: it would be of a text that is not kept.
pub(super) fn mask_record(record: &Record, response_held_one: bool, secrets: &Secrets) -> Option<Record> {
    let mask = |text: &Option<String>| text.as_deref().and_then(|text| secrets.mask_shortened(text));
    let (error, reason) = (mask(&record.error), mask(&record.finish_reason));
    if error.is_none() && reason.is_none() && !response_held_one {
        return None;
    }
    let mut masked = record.clone();
    masked.error = error.or(masked.error);
    masked.finish_reason = reason.or(masked.finish_reason);
    masked.response_sha256 = masked.response_sha256.filter(|_| !response_held_one);
    Some(masked)
}

/// Discards all records.
pub(crate) struct NullSink;

impl Sink for NullSink {
    fn record(&mut self, _: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use assay_stage::{ErrorCode, Failure};
    use assay_warehouse::records::RecordFile;

    use super::*;

    /// Returns the kept record and response, and true if either held a secret.
    fn kept(record: &Record, response: &str) -> (Record, String, bool) {
        let responses = tempfile::NamedTempFile::new().expect("a file");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let writer = RecordWriter::new(file.reopen().expect("the file"), 0, 0).expect("a writer");
        let mut sink = RecordSink::new(writer, Some(responses.path()), Secrets::new(["hunter22", "hunter/22"]), Arc::default())
            .expect("a sink");
        sink.record(record, Some(response.as_bytes())).expect("kept");
        let (told, _) = sink.finish().expect("finished");
        let records = RecordFile::open(std::fs::read(file.path()).expect("the records")).expect("a file of records");
        let record = records.records().expect("rows").next().expect("one").expect("a record");
        let line: serde_json::Value =
            serde_json::from_slice(&std::fs::read(responses.path()).expect("the responses")).expect("one line");
        (record, line["response"].as_str().expect("a text").to_owned(), told.held_secret)
    }

    fn said(error: &str, reason: &str) -> Record {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Record { error: text(error), finish_reason: text(reason), response_sha256: Some([7; 32]), ..Record::default() }
    }

    #[test]
    fn records_for_which_the_disk_has_no_space_are_a_failure_that_says_so() {
        let full = File::options().write(true).open("/dev/full").expect("a device without space");
        let writer = RecordWriter::new(BufWriter::new(full), 0, 0).expect("a writer");
        let mut sink = RecordSink::new(writer, None, Secrets::new(["hunter22"]), Arc::default()).expect("a sink");
        sink.record(&Record::default(), None).expect("held in memory");
        let error = sink.finish().expect_err("nothing is written");
        let failure = Failure::from_write(ErrorCode::Scratch, Path::new("/scratch/serving-0-0"), &*error);
        assert_eq!(failure.code, ErrorCode::DiskFull, "{failure}");
        assert!(failure.to_string().contains("no space is left on the disk of `/scratch/serving-0-0`"), "{failure}");
    }

    #[test]
    fn what_holds_no_secret_is_kept_as_it_came() {
        let record = said("overloaded", "stop");
        assert_eq!(kept(&record, "hunters"), (record, "hunters".to_owned(), false));
    }

    #[test]
    fn a_secret_is_masked_in_every_word_of_the_endpoint() {
        let of = |record: &Record, response: &str| kept(record, response);
        let (record, response, held) = of(&said("no such key: hunter22, nor hunter2", "stop"), "good");
        assert_eq!(record.error.as_deref(), Some("no such key: [secret], nor [secret]"), "the second one was cut");
        assert_eq!((response.as_str(), record.response_sha256, held), ("good", Some([7; 32]), true));
        let (record, _, held) = of(&said("", "hunter22"), "good");
        assert_eq!((record.finish_reason.as_deref(), held), (Some("[secret]"), true));
        let (record, response, held) = of(&said("", "stop"), "it is hunter22");
        assert_eq!(
            (response.as_str(), record.response_sha256, held),
            ("it is [secret]", None, true),
            "no digest of what is not kept"
        );
        assert_eq!(record.finish_reason.as_deref(), Some("stop"));
    }

    #[test]
    fn a_secret_is_masked_however_the_endpoint_escapes_it() {
        for error in [
            r#"{"detail": "no key hunter\/22"}"#,
            r"b'no key \x68unter/22'",
            "<p>no key hunter&#x2F;22</p>",
            "see /keys?key=hunter%2f22",
            r#"{"error": "upstream: {\"key\": \"hunter\\/22\"}"}"#,
            "the response's content type is not text/event-stream: `no key hunter/`",
        ] {
            let (record, _, held) = kept(&said(error, "stop"), "good");
            let error = record.error.expect("an error");
            assert!(held && error.contains("[secret]") && !error.contains("unter"), "{error}");
        }
        let (_, response, held) = kept(&said("", "stop"), r"it is \u0068unter\/22, which is aHVudGVyLzIy");
        assert_eq!((response.as_str(), held), ("it is [secret], which is [secret]", true));
    }

    #[test]
    fn an_error_without_a_text_is_its_status() {
        let mut told = RecordSummary::default();
        let silent = |status| Record { http_status: Some(status), error: None, phase: Phase::Measured, ..said("", "") };
        told.add_error(&silent(200));
        assert_eq!(told.commonest_error(), None);
        told.add_error(&silent(503));
        assert_eq!(told.commonest_error(), Some("HTTP status 503"));
    }

    #[test]
    fn the_commonest_error_is_told() {
        let mut told = RecordSummary::default();
        assert_eq!(told.commonest_error(), None);
        let said = |error: &str, status| Record {
            outcome: assay_record::Outcome::HttpError,
            http_status: status,
            phase: Phase::Measured,
            ..said(error, "")
        };
        for (error, status, times) in [("busy", Some(429), 2), ("refused", None, 2), ("lost", None, 1)] {
            (0..times).for_each(|_| told.add_error(&said(error, status)));
        }
        assert_eq!(told.commonest_error(), Some("429: busy"), "the first of two that were said equally often");
        told.add_error(&said("refused", None));
        assert_eq!(told.commonest_error(), Some("refused"));
        let cut =
            |_| Record { outcome: assay_record::Outcome::CancelledAtEnd, ..said("no response before the trial's end", None) };
        (0..9).map(cut).for_each(|record| told.add_error(&record));
        assert_eq!(told.commonest_error(), Some("refused"), "what the client cut is no cause");
        (0..9).for_each(|_| told.add_error(&Record { phase: Phase::Warmup, ..said("lost", None) }));
        assert_eq!(told.commonest_error(), Some("refused"), "the warm-up is not what was measured");
        (0..1000).for_each(|number| told.add_error(&said(&number.to_string(), None)));
        assert_eq!(told.errors.len(), MAX_ERRORS);
    }
}
