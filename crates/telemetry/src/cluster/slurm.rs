//! The accounting of a Slurm job: the times at which it was submitted, eligible, started and ended, from `sacct --json`.
//!
//! Source: the output of the data parser plugins of Slurm 21.08 and later (`sacct --json`, `--helpformat`). A number is plain in older
//! versions, and an object with `set`, `infinite` and `number` in newer ones; a state is a word or a list of words.

use assay_manifest::Instant;
use serde_json::{Value as Json, json};

use super::events::{ClusterEvent, EventObject, UNKNOWN, cut};
use super::{list, text};

/// The kind of the object of a job's rows.
const KIND: &str = "SlurmJob";

/// The most jobs of one document: the tasks of an array.
const MAX_JOBS: usize = 1_000;

/// Returns the name of the file of a job's accounting in the evidence.
pub fn sacct_file_name(source: &assay_manifest::Name) -> String {
    format!("slurm/{source}.json")
}

/// The fields of a job that are kept.
const FIELDS: [&str; 9] = ["job_id", "name", "partition", "cluster", "nodes", "state", "exit_code", "time", "tres"];

/// Returns the jobs of a document of `sacct --json` with the fields that rows are made of.
pub fn kept_fields(document: &Json) -> Json {
    let job = |job: &Json| {
        let mut kept: serde_json::Map<String, Json> =
            FIELDS.into_iter().filter_map(|name| Some((name.to_owned(), job.get(name)?.clone()))).collect();
        let step = |step: &Json| json!({"statistics": {"energy": step["statistics"]["energy"]}});
        kept.insert("steps".to_owned(), list(&job["steps"]).iter().map(step).collect());
        Json::Object(kept)
    };
    json!({"jobs": list(&document["jobs"]).iter().map(job).collect::<Vec<_>>()})
}

/// Reads the jobs of a document of `sacct --json`: what happened to each, and the parts that were not read.
pub fn read_sacct(name: &str, document: &[u8]) -> (Vec<ClusterEvent>, Vec<String>) {
    let document: Json = match serde_json::from_slice(document) {
        Ok(document) => document,
        Err(error) => return (Vec::new(), vec![format!("`{name}` is no JSON: {error}")]),
    };
    if let Some(why) = document[UNKNOWN].as_str() {
        return (Vec::new(), vec![format!("`{name}` is incomplete: {}", cut(why))]);
    }
    let jobs = list(&document["jobs"]);
    let mut left_out = Vec::new();
    if jobs.is_empty() {
        left_out.push(format!("`{name}` has no job"));
    }
    if jobs.len() > MAX_JOBS {
        left_out.push(format!("{} jobs of `{name}` are beyond the limit of {MAX_JOBS}", jobs.len() - MAX_JOBS));
    }
    (jobs.iter().take(MAX_JOBS).flat_map(job_events).collect(), left_out)
}

/// Returns the events of a job; none if it has no id.
fn job_events(job: &Json) -> Vec<ClusterEvent> {
    let Some(id) = number(&job["job_id"]) else { return Vec::new() };
    let time = |name: &str| number(&job["time"][name]).filter(|seconds| *seconds > 0).and_then(at);
    let submitted = time("submission");
    let object = EventObject {
        kind: KIND.to_owned(),
        uid: id.to_string(),
        name: text(&job["name"]),
        queue: text(&job["partition"]),
        created: submitted,
        ..EventObject::default()
    };
    let event = |event_type: &str, last: Option<Instant>, message: Vec<String>| {
        last.map(|last| ClusterEvent {
            object: object.clone(),
            event_kind: "condition",
            event_type: Some(event_type.to_owned()),
            status: Some("True".to_owned()),
            last: Some(last),
            message: Some(cut(&message.join("; "))).filter(|message| !message.is_empty()),
            ..ClusterEvent::default()
        })
    };
    let nodes = text(&job["nodes"]).map(|nodes| format!("nodes {nodes}"));
    let allocated = tres(&job["tres"]["allocated"]).map(|tres| format!("allocated {tres}"));
    let requested = tres(&job["tres"]["requested"]).map(|tres| format!("requested {tres}"));
    let exit = number(&job["exit_code"]["return_code"]).map(|code| format!("exit code {code}"));
    let energy = energy_joules(job).map(|joules| format!("consumed energy {joules} J"));
    let ended = event("Ended", time("end"), exit.into_iter().chain(energy).collect());
    let state = state(job);
    let ended = ended.map(|ended| ClusterEvent { reason: state, ..ended });
    [
        event("Submitted", submitted, requested.into_iter().collect()),
        event("Eligible", time("eligible"), Vec::new()),
        event("Started", time("start"), nodes.into_iter().chain(allocated).collect()),
        ended,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the state of a job, such as `COMPLETED`.
fn state(job: &Json) -> Option<String> {
    let current = &job["state"]["current"];
    text(current).or_else(|| list(current).first().and_then(text))
}

/// Returns the energy of all steps, if any states one.
fn energy_joules(job: &Json) -> Option<u64> {
    let steps = list(&job["steps"]).iter().filter_map(|step| number(&step["statistics"]["energy"]["consumed"]));
    // Slurm states 0 if it has no plugin that measures energy.
    steps.filter(|joules| *joules > 0).reduce(u64::saturating_add)
}

/// Returns trackable resources in Slurm's own notation, such as `cpu=4,gres/gpu=1`.
fn tres(resources: &Json) -> Option<String> {
    let one = |resource: &Json| {
        let kind = text(&resource["type"])?;
        let name = text(&resource["name"]).map(|name| format!("/{name}")).unwrap_or_default();
        Some(format!("{kind}{name}={}", number(&resource["count"])?))
    };
    let all: Vec<String> = list(resources).iter().filter_map(one).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// Returns a number in either spelling; `None` if it is not set, infinite or negative.
fn number(value: &Json) -> Option<u64> {
    match value {
        Json::Object(fields) => {
            let is = |name: &str, default: bool| fields.get(name).and_then(Json::as_bool).unwrap_or(default);
            (is("set", true) && !is("infinite", false)).then(|| fields.get("number")?.as_u64()).flatten()
        }
        value => value.as_u64(),
    }
}

/// Returns an instant of whole seconds since 1970.
fn at(seconds: u64) -> Option<Instant> {
    i64::try_from(seconds).ok()?.checked_mul(1_000_000_000).map(Instant::from_unix_ns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(document: &Json) -> String {
        let (events, left_out) = read_sacct("slurm/s.json", document.to_string().as_bytes());
        let line = |event: &ClusterEvent| {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            let seconds = event.last.map_or(0, |last| last.unix_ns() / 1_000_000_000);
            let after = event.after_creation_ns().map(|ns| ns / 1_000_000_000);
            let (object, queue) = (&event.object.uid, text(&event.object.queue));
            format!(
                "{object} {queue} {} {} {seconds} {after:?} {}",
                text(&event.event_type),
                text(&event.reason),
                text(&event.message)
            )
        };
        events.iter().map(line).chain(left_out).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_job_has_the_times_of_its_life() {
        // As Slurm 23.11 prints it, without the fields that are not read.
        let job = json!({
            "job_id": 4711, "name": "bench", "partition": "gpu", "cluster": "c", "nodes": "node[1-2]",
            "state": {"current": ["COMPLETED"], "reason": "None"},
            "exit_code": {"status": ["SUCCESS"], "return_code": {"set": true, "infinite": false, "number": 0}},
            "time": {"elapsed": 120, "submission": 1_700_000_000, "eligible": 1_700_000_005, "start": 1_700_000_300, "end": 1_700_000_420},
            "tres": {
                "requested": [{"type": "cpu", "name": "", "id": 1, "count": 8}],
                "allocated": [{"type": "cpu", "name": "", "id": 1, "count": 16}, {"type": "gres", "name": "gpu", "id": 1001, "count": 2}],
            },
            "steps": [
                {"statistics": {"energy": {"consumed": {"set": true, "infinite": false, "number": 1200}}}},
                {"statistics": {"energy": {"consumed": {"set": false, "infinite": false, "number": 0}}}},
            ],
        });
        assert_eq!(shown(&kept_fields(&json!({"jobs": [job]}))), shown(&json!({"jobs": [job]})), "all that is read is kept");
        insta::assert_snapshot!(shown(&json!({"jobs": [job]})), @r"
        4711 gpu Submitted - 1700000000 Some(0) requested cpu=8
        4711 gpu Eligible - 1700000005 Some(5) -
        4711 gpu Started - 1700000300 Some(300) nodes node[1-2]; allocated cpu=16,gres/gpu=2
        4711 gpu Ended COMPLETED 1700000420 Some(420) exit code 0; consumed energy 1200 J
        ");
    }

    #[test]
    fn an_older_slurm_has_plain_numbers_and_a_running_job_no_end() {
        let job = json!({
            "job_id": {"set": true, "infinite": false, "number": 7}, "state": {"current": "RUNNING"}, "exit_code": {"return_code": 0},
            "time": {"submission": 1_700_000_000, "start": 1_700_000_060, "end": 0},
        });
        insta::assert_snapshot!(shown(&json!({"jobs": [job]})), @r"
        7 - Submitted - 1700000000 Some(0) -
        7 - Started - 1700000060 Some(60) -
        ");
    }

    #[test]
    fn what_is_no_accounting_is_named() {
        insta::assert_snapshot!(shown(&json!({"unknown": "there is no program `sacct` in PATH"})), @"`slurm/s.json` is incomplete: there is no program `sacct` in PATH");
        insta::assert_snapshot!(shown(&json!([])), @"`slurm/s.json` has no job");
        let odd = json!({"jobs": [null, 1, {}, {"job_id": "x"}, {"job_id": 1, "time": [], "steps": {}, "tres": 5}, {"job_id": 2, "time": {"end": 1e300, "start": -5}}]});
        assert_eq!(shown(&odd), "");
        assert!(read_sacct("n", b"no json").1[0].starts_with("`n` is no JSON: "));
    }

    proptest! {
        #[test]
        fn whatever_was_kept_is_read_or_told(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_sacct("n", &bytes);
        }
    }
}
