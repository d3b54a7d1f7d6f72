//! The simulator that a client is calibrated against: a process of its own, which reports the true times of each request.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use assay_manifest::CalibrationEndpoint;
use assay_process::{Child, Command, Output, Spawner};
use assay_stage::{ErrorCode, Failure, file_digest};
use serde::Deserialize;

use crate::truth::{TrueRequest, Truth};

/// Its options: first tokens spread over tens of milliseconds, 50 events per second of each stream, and no queue. All requests of a
/// step are remembered.
const SETTINGS: [&str; 9] = [
    "--profile=instant",
    "--ttft-ms=20",
    "--ttft-jitter-ms=20",
    "--ttft-jitter-sigma=0.5",
    "--itl-ms=20",
    "--max-num-seqs=1000000",
    "--seed=1",
    "--truth-requests=1000000",
    "--truth-chunks=16000000",
];

/// The longest wait for a part of its report.
const REPORT_LIMIT: Duration = Duration::from_mins(1);

/// A simulator that runs for a calibration. It is killed when it is dropped.
pub struct RunningSimulator {
    child: Child,
    address: String,
    program: assay_manifest::Digest,
    /// The number of the last request of its report that was read.
    read_until: u64,
}

/// A line of its report, as far as it is used.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ReportLine {
    Request { request_id: String, arrived_ns: i64, chunks: Vec<(i64, Option<i64>, u32, String)> },
    End { last: u64, more: bool },
}

impl RunningSimulator {
    /// Starts the program at a free port of the loopback interface, and waits until it listens.
    ///
    /// # Errors
    /// Fails if the program is missing, cannot be started, or does not listen.
    pub fn start(program: &Path) -> Result<Self, Failure> {
        let missing =
            || Failure::new(ErrorCode::BinaryMissing, format!("the simulator's binary `{}` is missing", program.display()));
        let digest = file_digest(program).map_err(|error| missing().because(&error))?;
        let not_started = || Failure::new(ErrorCode::SimulatorNotStarted, "the simulator of the calibration did not listen");
        let spawner = Spawner::start().map_err(|error| not_started().because(&error))?;
        let args = SETTINGS.into_iter().chain(["--listen=127.0.0.1:0"]);
        let command = Command { stdout: Output::Pipe, ..Command::new(program).args(args) };
        let mut child = spawner.spawn(command).map_err(|error| not_started().because(&error))?;
        let mut line = String::new();
        let output = child.take_stdout().ok_or_else(not_started)?;
        BufReader::new(output).read_line(&mut line).map_err(|error| not_started().because(&error))?;
        let address = line.trim_end().strip_prefix("listening on http://").ok_or_else(not_started)?.to_owned();
        Ok(Self { child, address, program: digest, read_until: 0 })
    }

    /// Returns its address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Describes it for the document.
    pub fn describe(&self) -> CalibrationEndpoint {
        let pid = u32::try_from(self.child.pid()).ok();
        CalibrationEndpoint {
            program: self.program,
            settings: SETTINGS.map(str::to_owned).to_vec(),
            allowed_cpus: pid.and_then(assay_host::allowed_cpus_of).map_or_else(String::new, |cpus| cpus.to_string()),
        }
    }

    /// Returns the true times of all requests that ended since the last call.
    ///
    /// # Errors
    /// Fails if the simulator does not respond with its report.
    pub fn take_truth(&mut self) -> Result<Truth, Failure> {
        let mut truth = Truth::default();
        while self.read_part(&mut truth)? {}
        Ok(truth)
    }

    /// Reads a part of the report. Returns true if there is more.
    fn read_part(&mut self, truth: &mut Truth) -> Result<bool, Failure> {
        let text = self.get(&format!("/truth?since={}", self.read_until)).map_err(|error| unreadable().because(&error))?;
        let (_, lines) = text.split_once("\r\n\r\n").ok_or_else(unreadable)?;
        let mut end = None;
        for line in lines.lines() {
            match serde_json::from_str(line).map_err(|error| unreadable().because(&error))? {
                ReportLine::End { last, more } => end = Some((last, more)),
                ReportLine::Request { request_id, arrived_ns, chunks } => {
                    let written: Option<Vec<i64>> = chunks.into_iter().map(|(_, actual, ..)| actual).collect();
                    // A request whose client left before its end is no successful one.
                    if let Some(written_ns) = written {
                        truth.add(TrueRequest { request_id, arrived_ns, written_ns });
                    }
                }
            }
        }
        let (last, more) = end.ok_or_else(unreadable)?;
        self.read_until = last;
        Ok(more)
    }

    fn get(&self, path: &str) -> std::io::Result<String> {
        let mut socket = TcpStream::connect(&self.address)?;
        socket.set_read_timeout(Some(REPORT_LIMIT))?;
        write!(socket, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        socket.read_to_string(&mut text)?;
        Ok(text)
    }
}

fn unreadable() -> Failure {
    Failure::new(ErrorCode::Calibration, "the simulator's report of its requests cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_report_is_read_as_the_simulator_writes_it() {
        let line = r#"{"kind":"request","number":1,"request_id":"a","path":"/v1/completions","stream":true,"fault":null,"ending":"finished",
            "arrived_ns":5,"chunks":[[7,8,1,"content"],[9,null,1,"content"]],"end_ns":10}"#;
        let ReportLine::Request { request_id, arrived_ns, chunks } = serde_json::from_str(line).expect("a line") else {
            panic!("it is a request")
        };
        assert_eq!((request_id.as_str(), arrived_ns, chunks.len(), chunks[1].1), ("a", 5, 2, None));
        let end = serde_json::from_str(r#"{"kind":"end","last":3,"ended":3,"dropped":0,"more":true}"#).expect("the end");
        assert!(matches!(end, ReportLine::End { last: 3, more: true }));
    }
}
