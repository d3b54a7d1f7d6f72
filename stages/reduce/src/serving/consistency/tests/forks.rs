//! Sessions that fork: turns overlap only where the trace forks, and a turn that joins subagents waits for all of them.

use assay_dataset::{Fields, ImportRules, RowWriter, TextTokens, TimeRules};
use assay_manifest::{Artifact, DatasetFormat};

use super::*;

/// A token for each character.
struct Letters;

impl TextTokens for Letters {
    fn count(&self, text: &str) -> Result<u64, String> {
        Ok(text.len() as u64)
    }

    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
        Ok(text.get(..tokens as usize).unwrap_or(text))
    }
}

/// A request at a time in seconds, whose response took 5 ms.
fn request(t: f64) -> Value {
    json!({"t": t, "type": "n", "in": 64, "out": 4, "hash_ids": [0], "stop": "tool_use", "api_time": 0.005})
}

fn subagent(t: f64, agent: &str, requests: &[Value]) -> Value {
    json!({"t": t, "type": "subagent", "agent_id": agent, "status": "completed", "requests": requests})
}

/// Sessions of seven turns: the first spawns two subagents of two turns each, one of them with a subagent of its own, and the sixth joins them.
/// Turns: 0 of the session, 1 and 3 of the first subagent, 2 of its own one, 4 of the second subagent, 5 and 6 of the session.
fn forked(sessions: u32, users: u64, shards: u32) -> Load {
    forked_and_played(sessions, users, shards, &json!({"sessions": {"count": sessions.to_string()}}))
}

/// The same, played in another way; `changes` are those of the work, and of its sessions.
pub(super) fn forked_and_played(sessions: u32, users: u64, shards: u32, changes: &Value) -> Load {
    let inner = subagent(0.041, "c", &[request(0.041)]);
    let first = subagent(0.012, "a", &[request(0.012), inner, request(0.093)]);
    let second = subagent(0.117, "b", &[request(0.117)]);
    let requests = [request(0.0), first, second, request(0.2), request(0.3)];
    let line = |number: u32| {
        json!({"id": number.to_string(), "block_size": 64, "hash_id_scope": "local", "requests": requests}).to_string() + "\n"
    };
    let rules = ImportRules { times: Some(TimeRules::default()), sessions: true, ..ImportRules::UNLIMITED };
    let mut writer = RowWriter::new(rules, &Letters, Vec::new(), Vec::new()).expect("a writer");
    let text: String = (0..sessions).map(line).collect();
    assay_dataset::import(DatasetFormat::Weka, &Fields::default(), &rules, text.as_bytes(), &mut |row, content| {
        writer.write(row, content)
    })
    .expect("sessions");
    let (rows, index, summary) = writer.finish().expect("rows");
    let artifact = |bytes: &[u8]| Artifact {
        name: "x".to_owned(),
        digest: Digest::compute(bytes),
        size: Count(bytes.len() as u64),
        media_type: "x".to_owned(),
    };
    let prompts = json!({
        "from": "dataset", "file": {"path": "a", "origin": "a", "executable": false, "artifact": artifact(b"")}, "format": "weka",
        "rows": artifact(&rows), "index": artifact(&index), "summary": summary,
    });
    let mut work = json!({"prompts": prompts, "output": Value::Null});
    for (name, value) in changes.as_object().expect("an object") {
        work[name] = value.clone();
    }
    let always = json!({"think_time": {"law": "recorded"}, "history": "recorded", "reasoning": "drop"});
    for (name, value) in always.as_object().expect("an object") {
        work["sessions"][name] = value.clone();
    }
    let index = Arc::new(Index::parse(&index).expect("an index"));
    load_of(&work, Some(users), shards, Some(&index))
}

/// Returns a turn of the last session, none of which failed.
fn turn(all: &mut [Record], number: u32) -> &mut Record {
    let session = all.iter().filter_map(|one| one.session).max();
    all.iter_mut().find(|one| one.session == session && one.turn == Some(number)).expect("a turn")
}

#[test]
fn the_turns_of_forks_that_an_honest_client_writes_are_taken() {
    for (users, shards) in [(1, 1), (3, 1), (3, 3), (2, 4)] {
        let load = forked(12, users, shards);
        let all: Vec<&Record> = load.shards.iter().flatten().collect();
        assert!(all.iter().any(|one| !one.outcome.is_ok()));
        assert!(all.iter().filter(|one| one.session_done == one.session_turns).count() >= 3);
        assert!(all.iter().any(|one| one.session_done.is_none()), "a turn was in flight when another one failed");
        assert_eq!(load.check(), Ok(()), "{users} users, {shards} shards");
    }
}

#[test]
fn turns_that_overlap_where_the_trace_does_not_fork_are_refused() {
    let lies: [RecordChange; 9] = [
        ("a turn of a stream before the end of the one before", |all| move_to(all, 6, 5, -1), "another time than its pause"),
        ("a subagent before the end of what spawned it", |all| move_to(all, 1, 0, -1), "another time than its pause"),
        ("a join before the end of a subagent", |all| move_to(all, 5, 4, -1), "another time than its pause"),
        ("a join after the wrong subagent", |all| move_to(all, 5, 3, 100 * MS), "another time than its pause"),
        ("another stream", |all| turn(all, 4).stream = Some(1), "another stream"),
        ("the stream of no trace", |all| turn(all, 0).stream = None, "another stream"),
        ("fewer pauses", |all| *turn(all, 6).session_pauses_ns.as_mut().expect("pauses") -= 1, "other pauses"),
        (
            "a subagent left out",
            |all| {
                let session = all.iter().filter_map(|one| one.session).max();
                all.retain(|one| one.session != session || one.turn != Some(4));
            },
            "another number of turns of its session that had succeeded",
        ),
        (
            "a subagent left out, and what its end shows",
            |all| {
                let session = all.iter().filter_map(|one| one.session).max();
                all.retain(|one| one.session != session || one.turn != Some(4));
                let of_session = all.iter_mut().filter(|one| one.session == session);
                of_session.zip(1..).for_each(|(one, done)| one.session_done = Some(done));
            },
            "turns before it are missing",
        ),
    ];
    for (what, lie, found_text) in lies {
        let mut load = forked(9, 2, 1);
        lie(&mut load.shards[0]);
        let found = load.check().expect_err(what);
        assert!(found.contains(found_text), "{what}: {found}");
    }
}

/// Moves the due time of a turn to a time after the end of another one of its session.
fn move_to(all: &mut [Record], moved: u32, other: u32, after_ns: i64) {
    let end_ns = turn(all, other).end_ns;
    turn(all, moved).intended_ns = end_ns.map(|end_ns| end_ns + after_ns);
}
