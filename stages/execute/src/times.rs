//! The times of a command, measured by the process that starts it.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::{CPU_TIME, INSTRUCTIONS, MAX_RSS, WALL_TIME};
use assay_process::{ChildExit, Command, Usage};
use assay_stage::{Context, Failure};
use serde_json::{Value, json};

use crate::capture::{self, Capture, system};
use crate::workspace::spawner;

/// The times of some invocations.
#[derive(Debug)]
pub(crate) struct TimedInvocations {
    /// The combined end: the end of the last one, with the resource use and the wall time of all.
    pub(crate) ended: ChildExit,
    /// Those that succeeded, in order.
    pub(crate) times: Vec<InvocationTimes>,
}

/// The times of one invocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InvocationTimes {
    /// From just before the fork until the end was observed.
    wall_ns: u64,
    usage: Usage,
    /// The peak resident set of this process itself.
    floor_kib: u64,
}

/// Runs a command this many times in a row, all within one limit; each is given its own by `next`, which prepares it outside of
/// all times. The first one that fails is the last. One whose outputs exceed their limit is killed.
pub(crate) fn run_timed(
    ctx: &Context,
    next: &dyn Fn(u32) -> Result<Command, Failure>,
    count: u32,
    limit: Duration,
    outputs: [&Capture; 2],
) -> Result<TimedInvocations, Failure> {
    let mut left = limit;
    let mut times = Vec::new();
    let (mut usage, mut wall_ns, mut leftovers) = (Usage::default(), 0_u64, 0_u32);
    loop {
        // All earlier ones succeeded, so that there is one entry for each.
        let command = next(times.len() as u32)?;
        let floor_kib = own_peak_kib();
        let child = spawner()?.spawn(command).map_err(|error| system(&error))?;
        let ended = capture::wait(child, left, ctx, outputs)?;
        left = left.saturating_sub(Duration::from_nanos(ended.wall_ns));
        usage += ended.usage;
        wall_ns = wall_ns.saturating_add(ended.wall_ns);
        leftovers = leftovers.saturating_add(ended.leftovers);
        let is_exceeded = outputs.iter().any(|output| output.is_exceeded());
        let went_well = ended.status.is_success() && !ended.timed_out && !ended.cancelled && !is_exceeded;
        if went_well {
            times.push(InvocationTimes { wall_ns: ended.wall_ns, usage: ended.usage, floor_kib });
        }
        if !went_well || times.len() >= count as usize {
            return Ok(TimedInvocations { ended: ChildExit { usage, wall_ns, leftovers, ..ended }, times });
        }
    }
}

/// Returns the peak resident set of this process. The kernel also counts it for a child, as the memory that the child had before
/// it executed another program; so a smaller peak of a child is unknown. If it cannot be read, every peak is unknown.
fn own_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
}

/// Returns the document that holds the times: in the format of a script's output, so that every reader of results can read it.
pub(crate) fn document(
    name: &str,
    parameters: &BTreeMap<String, String>,
    times: &[InvocationTimes],
    instructions: Option<u64>,
) -> Vec<u8> {
    let each = |value: fn(&InvocationTimes) -> f64| -> Value { times.iter().map(value).collect() };
    let mut result = json!({
        CPU_TIME: each(|times| (times.usage.ru_utime_ns + times.usage.ru_stime_ns) as f64 / 1e6),
        WALL_TIME: each(|times| times.wall_ns as f64 / 1e6),
    });
    if times.iter().all(|times| times.usage.ru_maxrss_kib > times.floor_kib) {
        result[MAX_RSS] = each(|times| times.usage.ru_maxrss_kib as f64);
    }
    if let Some(instructions) = instructions {
        result[INSTRUCTIONS] = json!(instructions);
    }
    json!({"name": name, "@parameters": parameters, "@result": result}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_a_result() {
        let usage = Usage { ru_utime_ns: 1_500_000, ru_stime_ns: 500_000, ru_maxrss_kib: 7, ..Usage::default() };
        let times = [
            InvocationTimes { wall_ns: 3_000_000, usage, floor_kib: 6 },
            InvocationTimes { wall_ns: 4_000_000, usage, floor_kib: 6 },
        ];
        let bytes = document("words", &BTreeMap::from([("LINES".to_owned(), "9".to_owned())]), &times, Some(12));
        let output = assay_indicator::parse(&bytes).expect("a result");
        let value = |path: &str| output.result.iter().find(|(name, _)| name == path).map(|(_, value)| value.clone());
        let samples = |samples: [f64; 2]| Some(assay_indicator::Value::Samples(samples.to_vec()));
        assert_eq!(output.name, "words");
        assert_eq!(value("cpu_time_ms"), samples([2.0, 2.0]));
        assert_eq!(value("wall_time_ms"), samples([3.0, 4.0]));
        assert_eq!(value("max_rss_kib"), samples([7.0, 7.0]));
        assert_eq!(value("instructions"), Some(assay_indicator::Value::Number(12.0)));
    }

    #[test]
    fn a_resident_set_below_that_of_the_one_who_measures_is_not_known() {
        let usage = Usage { ru_maxrss_kib: 7, ..Usage::default() };
        let times = [InvocationTimes { wall_ns: 1, usage, floor_kib: 6 }, InvocationTimes { wall_ns: 1, usage, floor_kib: 7 }];
        let output = assay_indicator::parse(&document("words", &BTreeMap::new(), &times, None)).expect("a result");
        assert!(output.result.iter().all(|(path, _)| path != "max_rss_kib"), "{output:?}");
        assert!(own_peak_kib() > 100 && own_peak_kib() < u64::MAX, "it is read");
    }

    #[test]
    fn times_of_nothing_are_no_numbers() {
        let output = assay_indicator::parse(&document("words", &BTreeMap::new(), &[], None)).expect("a result");
        assert_eq!(output.result, [], "a command that failed at once has no time");
    }
}
