//! Where finished records go: a Parquet file, and the answers' texts beside it where the workload keeps them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use assay_load::{Cause, Sink};
use assay_record::{Phase, Record};
use assay_warehouse::WrittenFile;
use assay_warehouse::records::RecordWriter;

/// Tokens that went in and out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Of the measured phase's prompts that were sent.
    pub(crate) input: u64,
    /// Of the answers of all phases.
    pub(crate) output: u64,
}

/// Keeps records as they come.
pub(crate) struct RecordSink<W: Write + Send> {
    writer: RecordWriter<W>,
    answers: Option<BufWriter<File>>,
    tokens: Tokens,
}

impl<W: Write + Send> RecordSink<W> {
    pub(crate) fn new(writer: RecordWriter<W>, answers: Option<&Path>) -> std::io::Result<Self> {
        let answers = answers.map(File::create).transpose()?.map(BufWriter::new);
        Ok(Self { writer, answers, tokens: Tokens::default() })
    }

    /// Ends the files.
    pub(crate) fn finish(self) -> Result<(Tokens, WrittenFile), Cause> {
        if let Some(mut answers) = self.answers {
            answers.flush()?;
        }
        Ok((self.tokens, self.writer.finish()?))
    }
}

impl<W: Write + Send> Sink for RecordSink<W> {
    fn record(&mut self, record: &Record, answer: Option<&[u8]>) -> Result<(), Cause> {
        if record.phase == Phase::Measured && record.sent_ns.is_some() {
            self.tokens.input += u64::from(record.input_tokens);
        }
        self.tokens.output += u64::from(record.output_tokens.unwrap_or(0));
        if let (Some(out), Some(answer)) = (&mut self.answers, answer) {
            let line = serde_json::json!({
                "phase": record.phase.as_str(), "global_index": record.global_index,
                "request_id": format!("{:032x}", record.request_id), "answer": String::from_utf8_lossy(answer),
            });
            writeln!(out, "{line}")?;
        }
        Ok(self.writer.write(record)?)
    }
}

/// Keeps nothing.
pub(crate) struct Nothing;

impl Sink for Nothing {
    fn record(&mut self, _: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
        Ok(())
    }
}
