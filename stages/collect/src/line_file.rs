//! A file of lines of JSON, packed, whose size is known while it is written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use assay_stage::{ErrorCode, Failure};
use serde::Serialize;

/// A file of lines, packed.
pub(crate) struct LineFile {
    path: PathBuf,
    out: zstd::Encoder<'static, CountingWriter<BufWriter<File>>>,
}

impl LineFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let unwritable = |error: io::Error| unwritable(path, &error);
        let out = CountingWriter { inner: BufWriter::new(File::create(path).map_err(unwritable)?), written: 0 };
        let out = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(unwritable)?;
        Ok(Self { path: path.to_owned(), out })
    }

    /// Returns the number of packed bytes so far.
    pub(crate) fn written(&self) -> u64 {
        self.out.get_ref().written
    }

    pub(crate) fn write(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let written = serde_json::to_writer(&mut self.out, line).map_err(io::Error::from);
        written.and_then(|()| self.out.write_all(b"\n")).map_err(|error| unwritable(&self.path, &error))
    }

    /// Ends the file and returns its path.
    pub(crate) fn finish(self) -> Result<PathBuf, Failure> {
        let Self { path, out } = self;
        out.finish().and_then(|mut out| out.flush()).map_err(|error| unwritable(&path, &error))?;
        Ok(path)
    }
}

/// Returns the failure of a file that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(ErrorCode::Scratch, format!("cannot write `{}`", path.display())).because(error)
}

/// Counts the bytes that are written through it.
struct CountingWriter<W> {
    inner: W,
    written: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
