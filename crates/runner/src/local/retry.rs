//! Concurrent calls, each retried after a failure that a retry may fix.

use std::sync::mpsc::sync_channel;
use std::thread::ScopedJoinHandle;

use assay_failure::{ErrorCode, Failure};
use assay_manifest::InputRef;
use assay_stage::Event;

use super::WAITING_EVENTS;
use crate::StageCall;

type Outcome = Result<InputRef, Failure>;

/// Makes all calls at once, and returns their results in order.
pub(super) fn run_concurrently(
    calls: &[StageCall],
    observe: &mut dyn FnMut(&StageCall, &Event),
    run: impl Fn(&StageCall, &mut dyn FnMut(&Event)) -> Outcome + Sync,
) -> Vec<Outcome> {
    if let [call] = calls {
        return vec![run_with_retries(&run, call, &mut |event| observe(call, event))];
    }
    let (sender, events) = sync_channel::<(usize, Event)>(WAITING_EVENTS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = calls
            .iter()
            .enumerate()
            .map(|(index, call)| {
                let (sender, run) = (sender.clone(), &run);
                // The receiver may have gone with its thread; the stage goes on all the same.
                let work = move || run_with_retries(run, call, &mut |event| drop(sender.send((index, event.clone()))));
                std::thread::Builder::new().name("shard".to_owned()).spawn_scoped(scope, work)
            })
            .collect();
        drop(sender);
        for (index, event) in events {
            if let Some(call) = calls.get(index) {
                observe(call, &event);
            }
        }
        let panicked = || Failure::new(ErrorCode::Internal, "the thread that waits for a shard panicked");
        let unstarted = |error| Failure::new(ErrorCode::Threads, "cannot start a thread").because(&error);
        let join = |thread: std::io::Result<ScopedJoinHandle<'_, Outcome>>| {
            thread.map_err(unstarted)?.join().unwrap_or_else(|_| Err(panicked()))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Runs a call, and retries it after a failure that a retry may fix.
fn run_with_retries(
    run: &impl Fn(&StageCall, &mut dyn FnMut(&Event)) -> Outcome,
    call: &StageCall,
    observe: &mut dyn FnMut(&Event),
) -> Outcome {
    let mut tries = 0;
    loop {
        match run(call, observe) {
            Err(failure) if failure.is_worth_a_retry() && tries < call.policy.retries => {
                tries += 1;
                observe(&Event::Note { message: format!("retry {tries} of {}: {}", call.policy.retries, failure.message) });
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use assay_manifest::{Digest, Kind, Shard};
    use assay_stage::StageName;
    use assay_stage::parameters::StageParameters;

    use super::*;
    use crate::StagePolicy;

    fn call(shard: Shard) -> StageCall {
        StageCall {
            stage: StageName::Provision,
            run_id: "nightly".parse().expect("a run id"),
            inputs: Vec::new(),
            parameters: StageParameters::default_for(StageName::Provision),
            shard,
            policy: StagePolicy { timeout: None, retries: 2 },
            label: String::new(),
        }
    }

    fn result() -> InputRef {
        let digest = Digest::compute(b"");
        InputRef { kind: Kind::Plan, manifest: digest, bundle: digest }
    }

    /// Returns the outcome and the number of retries, of two, if the first tries fail with these failures.
    fn run_failing(failures: &[Failure]) -> (Result<(), String>, usize) {
        let (retries, failures) = (RefCell::new(0), RefCell::new(failures.iter().rev().cloned().collect::<Vec<_>>()));
        let run = |_: &StageCall, _: &mut dyn FnMut(&Event)| failures.borrow_mut().pop().map_or_else(|| Ok(result()), Err);
        let outcome = run_with_retries(&run, &call(Shard::ONLY), &mut |_| *retries.borrow_mut() += 1);
        (outcome.map(|_| ()).map_err(|failure| failure.code.to_string()), retries.into_inner())
    }

    #[test]
    fn what_a_retry_may_mend_is_tried_again_and_nothing_else() {
        let passing = Failure::new(ErrorCode::Busy, "m");
        let lasting = Failure::new(ErrorCode::ModelNotServed, "m");
        assert_eq!(run_failing(&[]), (Ok(()), 0));
        assert_eq!(run_failing(&[passing.clone(), passing.clone()]), (Ok(()), 2));
        assert_eq!(run_failing(&[passing.clone(), passing.clone(), passing.clone()]), (Err("busy".to_owned()), 2));
        assert_eq!(run_failing(std::slice::from_ref(&lasting)), (Err("model_not_served".to_owned()), 0));
        assert_eq!(run_failing(&[passing, lasting]), (Err("model_not_served".to_owned()), 1));
        assert_eq!(run_failing(&[Failure::new(ErrorCode::DefinitionInvalid, "m")]), (Err("definition_invalid".to_owned()), 0));
    }

    #[test]
    fn each_shard_has_its_own_result_and_events() {
        let calls: Vec<_> = (0..3).map(|index| call(Shard { index, count: 3 })).collect();
        let mut heard = Vec::new();
        let results = run_concurrently(&calls, &mut |call, _| heard.push(call.shard.index), |call, observe| {
            observe(&Event::Recording);
            if call.shard.index == 1 { Err(Failure::new(ErrorCode::DefinitionInvalid, "m")) } else { Ok(result()) }
        });
        heard.sort_unstable();
        assert_eq!(heard, [0, 1, 2]);
        assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }
}
