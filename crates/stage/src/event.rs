//! Events that a stage emits while it runs: one JSON document per line on stdout.

use std::collections::BTreeMap;
use std::io::Write as _;

use assay_manifest::{AttemptStatus, InputRef, Reason, TrialId};
use serde::{Deserialize, Serialize};

use crate::{Failure, StageName};

/// A request to the runner to hold a process after the stage has ended: the target of the following stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldRequest {
    /// The target's name.
    pub target: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Plain environment variables.
    pub env: BTreeMap<String, String>,
    /// Environment variables whose values the runner reads from its own environment, by name.
    pub env_from: BTreeMap<String, String>,
    /// Environment variables whose values the runner reads from files, by name.
    pub env_files: BTreeMap<String, String>,
    /// The file in which the runner describes, for people, how the process ended, if it ends before it is released. It appears
    /// whole.
    pub end_file: String,
    /// The file in which the runner writes the id of the process that supervises this one, once it runs. It appears whole.
    pub pid_file: String,
    /// The address at which the process will listen, and nothing else may when it is started: `HOST:PORT`, or the path of a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// The CPUs that the process is pinned to, such as `0-1`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpus: Option<String>,
}

/// Quantiles of a latency so far: approximate, for people who watch a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySoFar {
    /// The 50th percentile, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
}

/// An event that a stage emits while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The inputs were verified and the stage begins.
    Started {
        /// The stage.
        stage: StageName,
    },
    /// A trial begins.
    TrialStarted {
        /// The trial.
        trial: TrialId,
        /// The attempt, from 0.
        attempt: u32,
        /// Its place in the block, from 1.
        number: u32,
        /// The number of trials in the block.
        of: u32,
    },
    /// A trial has ended.
    TrialFinished {
        /// The trial.
        trial: TrialId,
        /// The attempt, from 0.
        attempt: u32,
        /// Its result.
        status: AttemptStatus,
        /// True if it counts.
        valid: bool,
        /// Its duration, in nanoseconds.
        duration_ns: u64,
        /// The reasons why it does not count.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reasons: Vec<Reason>,
    },
    /// The progress of a trial's load.
    Load {
        /// The trial.
        trial: TrialId,
        /// The attempt, from 0.
        attempt: u32,
        /// Requests sent.
        sent: u64,
        /// Requests in flight.
        in_flight: u64,
        /// Requests that succeeded.
        ok: u64,
        /// Requests that failed, or could not be sent.
        failed: u64,
        /// Token events so far.
        token_events: u64,
        /// Output tokens of the requests that have ended.
        output_tokens: u64,
        /// Time since the trial's start, in nanoseconds.
        elapsed_ns: u64,
        /// The duration of the warm-up, which comes first, in nanoseconds.
        warmup_ns: u64,
        /// The duration of the measured phase, in nanoseconds; absent if only the number of requests ends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ns: Option<u64>,
        /// TTFT of the measured requests so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttft: Option<LatencySoFar>,
        /// TPOT of the measured requests so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tpot: Option<LatencySoFar>,
    },
    /// The recorder has taken its first reading: measurements from now on are recorded.
    Recording,
    /// A note for people.
    Note {
        /// The text.
        message: String,
    },
    /// A signal has stopped the stage. The runner reports it.
    Stopped {
        /// The process id.
        process: i32,
    },
    /// All of the stage's pods have a node. The runner reports it.
    Scheduled,
    /// The images of the stage's pods are on their nodes. The runner reports it.
    Pulled {
        /// The time that the slowest pod's pull took, in nanoseconds: zero if its node had them.
        duration_ns: u64,
    },
    /// A process has to be held for the following stages.
    Hold(HoldRequest),
    /// The result was accepted.
    Accepted {
        /// The accepted result.
        result: InputRef,
        /// True if an earlier or concurrent process of the same stage and inputs had its result accepted first.
        earlier: bool,
    },
    /// A result that was computed again, unsigned and not accepted.
    Recomputed {
        /// The digest of the manifest.
        manifest: assay_manifest::Digest,
    },
    /// The stage failed.
    Failed(Failure),
}

/// Writes an event to stdout. A closed stdout is no failure of the stage.
pub(crate) fn emit(event: &Event) {
    let line = match line_of(event) {
        Ok(line) => line,
        Err(error) => return tracing::error!(%error, ?event, "an event cannot be written"),
    };
    let mut out = std::io::stdout().lock();
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        tracing::debug!("nobody reads the events any more");
    }
}

fn line_of(event: &Event) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;
    use assay_manifest::{Digest, Kind};
    use proptest::prelude::*;

    fn line(event: &Event) -> String {
        String::from_utf8(line_of(event).expect("a line")).expect("UTF-8")
    }

    fn every_kind() -> [Event; 13] {
        let trial: TrialId = "w.t.default.one.t0".parse().expect("a trial id");
        let digest = Digest::compute(b"");
        let env = BTreeMap::from([("KEY".to_owned(), "value".to_owned())]);
        [
            Event::Started { stage: StageName::Execute },
            Event::Stopped { process: 7 },
            Event::TrialStarted { trial: trial.clone(), attempt: 1, number: 2, of: 3 },
            Event::Load {
                trial: trial.clone(),
                attempt: 1,
                sent: 5,
                in_flight: 2,
                ok: 1,
                failed: 2,
                token_events: u64::MAX,
                output_tokens: 7,
                elapsed_ns: 3,
                warmup_ns: 1,
                duration_ns: Some(9),
                ttft: Some(LatencySoFar { p50_ns: 1, p99_ns: 2 }),
                tpot: None,
            },
            Event::TrialFinished {
                trial,
                attempt: 1,
                status: AttemptStatus::TimedOut,
                valid: false,
                duration_ns: u64::MAX,
                reasons: vec![Reason::new("time_limit", "it ran into its limit")],
            },
            Event::Recording,
            Event::Note { message: "two\nlines".to_owned() },
            Event::Scheduled,
            Event::Pulled { duration_ns: u64::MAX },
            Event::Hold(HoldRequest {
                target: "t".to_owned(),
                command: vec!["sh".to_owned()],
                env: env.clone(),
                env_from: env.clone(),
                env_files: env,
                end_file: "/scratch/end-of-t".to_owned(),
                pid_file: "/scratch/pid-of-t".to_owned(),
                address: Some("127.0.0.1:8000".to_owned()),
                cpus: Some("0-1".to_owned()),
            }),
            Event::Accepted { result: InputRef { kind: Kind::Plan, manifest: digest, bundle: digest }, earlier: true },
            Event::Recomputed { manifest: digest },
            Event::Failed(Failure::new(ErrorCode::NoKey, "none").hint("give one")),
        ]
    }

    #[test]
    fn an_event_is_one_line_and_reads_back() {
        for event in every_kind() {
            let line = line(&event);
            assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
            assert_eq!(serde_json::from_str::<Event>(&line).expect(&line), event);
        }
    }

    #[test]
    fn machines_may_rely_on_the_words() {
        let words = every_kind().map(|event| line(&event).split('"').nth(3).unwrap_or_default().to_owned());
        let expected = [
            "started",
            "stopped",
            "trial_started",
            "load",
            "trial_finished",
            "recording",
            "note",
            "scheduled",
            "pulled",
            "hold",
            "accepted",
            "recomputed",
            "failed",
        ];
        assert_eq!(words, expected);
    }

    proptest! {
        #[test]
        fn whatever_is_printed_is_an_event_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = serde_json::from_slice::<Event>(&bytes);
        }

        #[test]
        fn a_damaged_event_is_an_event_or_refused(index in 0_usize..12, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut line = line_of(&every_kind()[index]).expect("a line");
            let at = at.index(line.len());
            line[at] = byte;
            let _ = serde_json::from_slice::<Event>(&line);
        }
    }
}
