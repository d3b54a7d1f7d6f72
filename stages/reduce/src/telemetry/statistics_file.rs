//! The statistics of a run's telemetry in a file of the scratch folder, between the one reading of the evidence and the writing of rows: rows name
//! dimensions, which labels in the evidence fill, and memory holds the statistics of one source in one attempt.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Lines, Write as _};
use std::path::{Path, PathBuf};

use assay_stage::{ErrorCode, Failure};
use assay_telemetry::Statistics;
use assay_telemetry::prometheus::AttemptKey;
use serde::{Deserialize, Serialize};

/// The statistics of one source in one attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SourceStatistics {
    pub(super) attempt: AttemptKey,
    pub(super) source: String,
    pub(super) objects: Vec<ObjectStatistics>,
}

/// The statistics of one metric of one object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ObjectStatistics {
    pub(super) scope_kind: String,
    pub(super) scope_id: String,
    pub(super) gap_ns: u64,
    pub(super) statistics: Statistics,
}

/// The file while it is written: one line for each source in each attempt, packed.
pub(super) struct StatisticsWriter {
    path: PathBuf,
    out: zstd::Encoder<'static, BufWriter<File>>,
}

impl StatisticsWriter {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let out = File::create(path).and_then(|file| zstd::Encoder::new(BufWriter::new(file), 1));
        Ok(Self { path: path.to_owned(), out: out.map_err(|error| unusable(path, &error))? })
    }

    pub(super) fn write(&mut self, found: &SourceStatistics) -> Result<(), Failure> {
        if found.objects.is_empty() {
            return Ok(());
        }
        let written = serde_json::to_writer(&mut self.out, found).map_err(io::Error::from);
        written.and_then(|()| self.out.write_all(b"\n")).map_err(|error| unusable(&self.path, &error))
    }

    /// Ends the file, and opens it to be read.
    pub(super) fn finish(self) -> Result<StatisticsFile, Failure> {
        let Self { path, out } = self;
        let written = out.finish().and_then(|mut out| out.flush());
        let opened = written.and_then(|()| File::open(&path)).and_then(zstd::Decoder::new);
        let lines = opened.map_err(|error| unusable(&path, &error)).map(|file| BufReader::new(file).lines())?;
        Ok(StatisticsFile { path, lines })
    }
}

/// The file while it is read, in the order in which it was written.
pub(super) struct StatisticsFile {
    path: PathBuf,
    lines: Lines<BufReader<zstd::Decoder<'static, BufReader<File>>>>,
}

impl StatisticsFile {
    /// Returns the statistics of the next source in an attempt; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<SourceStatistics>, Failure> {
        let line = self.lines.next().transpose();
        let parsed = line.and_then(|line| line.map(|line| serde_json::from_str(&line).map_err(io::Error::from)).transpose());
        parsed.map_err(|error| unusable(&self.path, &error))
    }
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(ErrorCode::Scratch, format!("cannot write or read back `{}`", path.display())).because(error)
}
