//! The output of a measured program, captured in a file without a name, so that the program cannot replace it.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use assay_manifest::Artifact;
use assay_process::{Child, ChildExit, Output};
use assay_stage::{Context, ErrorCode, Failure, Secrets};

/// The maximum bytes of a program's stdout or stderr. A program that writes more is stopped, and these are kept.
pub(crate) const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// The interval at which the size of an output is compared with the limit. The program writes into a file and not into a pipe,
/// which this process would have to empty beside the measurement; so it may exceed the limit for this long.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The bytes at the end of a program's stderr that are searched for its last lines.
pub(crate) const MAX_STDERR_BYTES: u64 = 64 << 10;

/// The maximum number of those lines.
const MAX_LAST_LINES: usize = 3;

/// The maximum characters of one of them that are shown.
const MAX_LINE_CHARS: usize = 160;

/// One output of one program.
pub(crate) struct Capture(File);

/// A kept output.
pub(crate) struct KeptOutput {
    /// The output, byte for byte up to the limit; secrets in it are masked.
    pub(crate) artifact: Artifact,
    /// The requested excerpt.
    pub(crate) excerpt: Vec<u8>,
    /// True if it held a secret.
    pub(crate) held_secret: bool,
}

/// The part of an output that the caller reads, in bytes.
#[derive(Clone, Copy)]
pub(crate) enum Excerpt {
    First(u64),
    Last(u64),
}

impl Excerpt {
    /// Returns the place and the size of the excerpt of an output of `size` bytes.
    fn range(self, size: u64) -> (u64, u64) {
        match self {
            Self::First(limit) => (0, limit.min(size)),
            Self::Last(limit) => (size.saturating_sub(limit), limit.min(size)),
        }
    }

    /// Returns the excerpt of these bytes.
    fn take(self, bytes: Vec<u8>) -> Vec<u8> {
        let (start, size) = self.range(bytes.len() as u64);
        bytes.into_iter().skip(start as usize).take(size as usize).collect()
    }
}

impl Capture {
    /// Creates an empty file that only this process can access.
    pub(crate) fn new(ctx: &Context) -> Result<Self, Failure> {
        tempfile::tempfile_in(ctx.scratch()).map(Self).map_err(|error| unusable(&error))
    }

    /// Returns true if the program has written more than the limit, or has reserved more space.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.0.metadata().is_ok_and(|found| found.len().max(found.blocks().saturating_mul(512)) > MAX_OUTPUT_BYTES)
    }

    /// Returns the destination for the program's output.
    pub(crate) fn output(&self) -> Output {
        Output::File(PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd())))
    }

    /// Keeps the output as an artifact, and returns an excerpt of what is kept.
    pub(crate) fn keep(
        mut self,
        ctx: &Context,
        name: String,
        secrets: &Secrets,
        excerpt: Excerpt,
    ) -> Result<KeptOutput, Failure> {
        let media_type = "application/octet-stream";
        if !secrets.is_empty() {
            let (kept, held_secret) = self.read_masked(secrets)?;
            let artifact = ctx.put(name, media_type, &kept)?;
            return Ok(KeptOutput { artifact, excerpt: excerpt.take(kept), held_secret });
        }
        let excerpt = self.read_plain(excerpt)?;
        self.0.seek(SeekFrom::Start(0)).map_err(|error| unusable(&error))?;
        let artifact = ctx.put_reader(name, media_type, self.0.take(MAX_OUTPUT_BYTES))?;
        Ok(KeptOutput { artifact, excerpt, held_secret: false })
    }

    /// Returns an excerpt of the output, which is not kept; secrets in it are masked.
    pub(crate) fn excerpt(mut self, secrets: &Secrets, excerpt: Excerpt) -> Result<Vec<u8>, Failure> {
        if secrets.is_empty() { self.read_plain(excerpt) } else { Ok(excerpt.take(self.read_masked(secrets)?.0)) }
    }

    fn read_plain(&mut self, excerpt: Excerpt) -> Result<Vec<u8>, Failure> {
        let size = self.0.metadata().map_err(|error| unusable(&error))?.len().min(MAX_OUTPUT_BYTES);
        let (start, size) = excerpt.range(size);
        self.read(start, size)
    }

    /// Reads the output up to the limit, without the secrets in it. Returns true beside it if it held one.
    fn read_masked(&mut self, secrets: &Secrets) -> Result<(Vec<u8>, bool), Failure> {
        // The limit, or the end of a program that was stopped, may be in the middle of a secret.
        let bytes = self.read(0, MAX_OUTPUT_BYTES)?;
        let masked = secrets.mask_cut(&bytes);
        let held_secret = masked.is_some();
        Ok((masked.unwrap_or(bytes), held_secret))
    }

    fn read(&mut self, start: u64, limit: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(start)).map_err(|error| unusable(&error))?;
        Read::by_ref(&mut self.0).take(limit).read_to_end(&mut bytes).map_err(|error| unusable(&error))?;
        Ok(bytes)
    }
}

/// Returns the failure of the system to start a program or to wait for it.
pub(crate) fn system(error: &assay_process::Error) -> Failure {
    Failure::from_error(ErrorCode::Process, error)
}

/// Waits for a program that writes these outputs, and kills it if one of them exceeds the limit.
pub(crate) fn wait(child: Child, limit: Duration, ctx: &Context, outputs: [&Capture; 2]) -> Result<ChildExit, Failure> {
    let is_exceeded = || outputs.iter().any(|output| output.is_exceeded());
    child.wait_within(Some(limit), ctx.cancel(), CHECK_INTERVAL, is_exceeded).map_err(|error| system(&error))
}

/// Returns the last non-empty lines of an output, if there are any, shortened to fit in a sentence.
pub(crate) fn last_lines(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut last: Vec<String> =
        lines.rev().take(MAX_LAST_LINES).map(|line| line.escape_debug().take(MAX_LINE_CHARS).collect()).collect();
    last.reverse();
    (!last.is_empty()).then(|| last.join(" / "))
}

/// Returns the sentence that a program was stopped because of what it printed.
pub(crate) fn describe_excess(what: &str) -> String {
    format!("the {what} printed more than {} MiB to its stdout or stderr, and was stopped", MAX_OUTPUT_BYTES >> 20)
}

fn unusable(error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Scratch, "cannot use a scratch file for a program's output").because(error)
}
