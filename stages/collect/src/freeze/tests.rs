use assay_manifest::{Attempt, AttemptStatus, Digest, Instant, Reason, Shard, Validity, Window};
use serde_json::json;

use super::*;

const TRIAL: &str = "w.t.default.one.t0";

fn trial() -> PlannedTrial {
    let trial = json!({"trial_id": TRIAL, "case_id": "w.t.default", "point_id": "one", "index": 0, "block": 0});
    serde_json::from_value(trial).expect("a trial")
}

fn artifact(name: &str) -> Artifact {
    let digest = Digest::compute(name.as_bytes());
    Artifact { name: name.to_owned(), digest, size: Count(3), media_type: "text/plain".to_owned() }
}

fn attempt(number: u32, valid: bool) -> Attempt {
    let start = Instant::from_unix_ns(0);
    Attempt {
        trial_id: TRIAL.parse().expect("a trial id"),
        case_id: "w.t.default".parse().expect("a case id"),
        point_id: "one".parse().expect("a point id"),
        attempt: number,
        window: Window { start, end: start, duration_ns: Count(0) },
        place: None,
        allowed_cpus: None,
        status: if valid { AttemptStatus::Completed } else { AttemptStatus::Failed },
        validity: Validity::from_reasons(if valid { vec![] } else { vec![Reason::new("exit_code", "1")] }),
        indicator: None,
        serving: None,
        host_before: None,
        host_after: None,
        evidence: vec![artifact(&format!("trials/{number}/stdout"))],
    }
}

fn part(incarnation: u32, attempts: Vec<Attempt>) -> ExecutionPart {
    ExecutionPart {
        plan_digest: Digest::compute(b""),
        block: Block { index: 0, incarnation },
        shard: Shard::ONLY,
        schedule_digests: BTreeMap::new(),
        prepared: Vec::new(),
        stacks: Vec::new(),
        attempts,
        resumed: Vec::new(),
    }
}

/// Returns the trial as collected from parts.
fn collected(parts: &[ExecutionPart]) -> Result<CollectedTrial, Failure> {
    let mut found = AttemptsByTrial::new();
    let (trial, plan) = (trial(), plan());
    for (index, body) in parts.iter().enumerate() {
        let part = Digest::compute(&[index as u8]);
        found.entry(&trial.trial_id).or_default().extend(body.attempts.iter().map(|attempt| ShardAttempt {
            part,
            body,
            attempt,
        }));
    }
    let evidence = Evidence { plan: &plan, environments: &[], coverage: Coverage::none() };
    let collected = evidence.collect_trial(&trial, &mut found);
    assert!(found.is_empty(), "what was taken is accounted for");
    collected
}

/// Returns whether the trial counts, and its attempts: incarnation, number and whether it is the one that counts.
fn collect(parts: &[ExecutionPart]) -> (bool, Vec<(u32, u32, bool)>) {
    let collected = collected(parts).expect("collected");
    let attempts = collected.attempts.iter().map(|found| (found.block.incarnation, found.attempt, found.counted));
    (collected.counted, attempts.collect())
}

#[test]
fn the_first_valid_attempt_counts() {
    assert_eq!(collect(&[part(0, vec![attempt(0, true)])]), (true, vec![(0, 0, true)]));
    assert_eq!(
        collect(&[part(0, vec![attempt(2, true), attempt(0, false), attempt(1, true)])]),
        (true, vec![(0, 0, false), (0, 1, true), (0, 2, false)]),
        "in the order of their numbers, however they are listed"
    );
    assert_eq!(
        collect(&[part(1, vec![attempt(0, true)]), part(0, vec![attempt(5, true)])]),
        (true, vec![(0, 5, true), (1, 0, false)]),
        "an earlier incarnation comes first"
    );
}

#[test]
fn a_trial_without_a_valid_attempt_does_not_count() {
    assert_eq!(collect(&[]), (false, vec![]));
    assert_eq!(collect(&[part(0, vec![attempt(0, false)])]), (false, vec![(0, 0, false)]));
}

/// A part of one of two shards.
fn shard(index: u32, attempts: Vec<Attempt>) -> ExecutionPart {
    ExecutionPart { shard: Shard { index, count: 2 }, ..part(0, attempts) }
}

#[test]
fn an_attempt_counts_when_it_is_valid_in_every_shard() {
    let both = |one, other| collect(&[shard(0, vec![attempt(0, one)]), shard(1, vec![attempt(0, other)])]);
    assert_eq!(both(true, false), (false, vec![(0, 0, false), (0, 0, false)]));
    assert_eq!(both(true, true), (true, vec![(0, 0, true), (0, 0, true)]));
}

#[test]
fn a_lost_shard_makes_its_attempt_count_for_nothing() {
    assert_eq!(collect(&[shard(0, vec![attempt(0, true)])]), (false, vec![(0, 0, false)]), "the other has no part at all");
    let parts = [shard(0, vec![attempt(0, true), attempt(1, true)]), shard(1, vec![attempt(1, true)])];
    assert_eq!(collect(&parts), (true, vec![(0, 0, false), (0, 1, true), (0, 1, true)]), "the other has lost its first attempt");
}

#[test]
fn shards_of_an_attempt_follow_one_schedule() {
    let following = |index: u32, schedule: &str| {
        let digests = BTreeMap::from([(trial().trial_id, Digest::compute(schedule.as_bytes()))]);
        ExecutionPart { schedule_digests: digests, ..shard(index, vec![attempt(0, true)]) }
    };
    assert!(collected(&[following(0, "a"), following(1, "a")]).is_ok());
    let failure = collected(&[following(0, "a"), following(1, "b")]).expect_err("two schedules");
    assert_eq!(failure.code.as_str(), "schedule_differs");
    let message = ["a", "b"]
        .iter()
        .fold(failure.message, |text, name| text.replace(&Digest::compute(name.as_bytes()).to_string(), &format!("<{name}>")));
    insta::assert_snapshot!(message, @"in attempt 1 of trial `w.t.default.one.t0`, shard 0 followed schedule <a> and shard 1 followed <b>");
    let later = ExecutionPart { attempts: vec![attempt(1, true)], ..following(1, "b") };
    assert!(collected(&[following(0, "a"), later]).is_ok(), "they made no attempt together");
}

#[test]
fn the_parts_of_a_block_are_those_of_one_execution() {
    let refused = |parts: &[ExecutionPart]| check_parts(parts).expect_err("refused").to_string();
    assert_eq!(
        check_parts(&[shard(0, vec![]), shard(1, vec![]), part(1, vec![])]),
        Ok(()),
        "incarnations are blocks of their own"
    );
    insta::assert_snapshot!(refused(&[shard(0, vec![]), part(0, vec![])]), @"error[shard_count_differs]: block 0.0 has parts of 2 and of 1 shards");
    insta::assert_snapshot!(refused(&[shard(1, vec![]), shard(1, vec![])]), @"error[shard_twice]: block 0.0 has two parts of shard 1");
}

#[test]
fn what_ran_has_as_many_shards_as_were_counted() {
    let environment = |shards: Option<u32>| -> Environment {
        let mut environment = json!({
            "plan_digest": Digest::compute(b""), "block": {"index": 0, "incarnation": 0}, "observed_at": "1970-01-01T00:00:00.000000000Z",
            "hosts": [], "software": [], "targets": [], "controls": [], "placement": {}, "readings": [],
        });
        if let Some(shards) = shards {
            environment["shards"] = json!({"shards": shards, "formula": "a test", "requested": []});
        }
        serde_json::from_value(environment).expect("an environment")
    };
    let (two, uncounted) = (environment(Some(2)), environment(None));
    let parts = [shard(0, vec![]), shard(1, vec![])];
    assert_eq!(check_shard_count(&[&two, &uncounted], &parts), Ok(()));
    assert_eq!(check_shard_count(&[&uncounted], &[part(0, vec![])]), Ok(()), "its pipeline names a number");
    let refused = check_shard_count(&[&two], &[part(1, vec![])]).expect_err("refused").to_string();
    insta::assert_snapshot!(refused, @"error[shard_count_differs]: block 0.1 has a part of 1 shards where the Environment counted 2");
}

#[test]
fn every_block_has_been_executed() {
    let parts = [0, 2].map(|index| {
        let mut part = part(0, vec![]);
        part.block.index = index;
        let run_id = "nightly".parse().expect("a run id");
        Manifest::new(run_id, vec![], part)
    });
    let reference =
        InputRef { kind: assay_manifest::Kind::ExecutionPart, manifest: Digest::compute(b""), bundle: Digest::compute(b"") };
    let parts: Vec<_> = parts.iter().map(|part| (reference, part)).collect();
    let of_blocks = |blocks: u32| {
        let trials = (0..blocks).map(|block| PlannedTrial { block, ..trial() }).collect();
        check_blocks(&Plan { trials, ..plan() }, &parts)
    };
    assert_eq!(of_blocks(1), Ok(()));
    insta::assert_snapshot!(of_blocks(3).expect_err("the second is missing"), @"error[missing_block]: no execution part is of block 1");
}

fn plan() -> Plan {
    let digest = Digest::compute(b"");
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": digest},
        "source": {"kind": "adhoc", "dirty": true, "files_digest": digest},
        "intent": "exploratory", "controls": [], "workloads": [], "targets": [], "variants": [], "cases": [],
        "trial_policy": {"count": 1, "retry_budget": 0}, "isolation": "none", "placement": "coexist",
        "order": {"seed": "00", "digest": digest}, "trials": [], "unpinned": [], "queries": [],
    });
    serde_json::from_value(plan).expect("a plan")
}

#[test]
fn evidence_is_everything_raw_once_and_in_order() {
    let run_id: assay_manifest::RunId = "nightly".parse().expect("a run id");
    let part = Manifest::new(run_id, vec![], part(0, vec![attempt(1, true), attempt(0, true), attempt(1, true)]));
    let reference =
        InputRef { kind: assay_manifest::Kind::ExecutionPart, manifest: Digest::compute(b""), bundle: Digest::compute(b"") };
    let all = evidence(&[(reference, &part)], &[], &[]);
    let names: Vec<_> = all.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(names, ["trials/0/stdout", "trials/1/stdout"]);
}
