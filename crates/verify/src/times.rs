//! Checks that the times of a run can have followed each other. Every time is asserted by its signer; a time before the evidence
//! that it rests on is false.

use std::collections::BTreeMap;

use assay_envelope::Verified;
use assay_manifest::{Block, Digest, Document, Instant, Window};

use crate::walk::Chain;
use crate::{Error, Result};

/// The allowed difference between the clocks of the machines of one run, in nanoseconds: one minute.
const CLOCK_ALLOWANCE_NS: i64 = 60_000_000_000;

/// Checks that no manifest was signed before what it was made from, that nothing was measured before its environment was observed
/// or after it was signed, and that nothing was published before it was measured.
pub fn check_times(chain: &Chain) -> Result<()> {
    let signed: BTreeMap<Digest, (&Verified<Document>, Option<Instant>)> =
        chain.documents.iter().map(|verified| (verified.manifest_digest(), (verified, verified.asserted_time()))).collect();
    let observed: BTreeMap<Block, Instant> = chain
        .all::<assay_manifest::Environment>()
        .map(|(_, manifest)| (manifest.body.block, manifest.body.observed_at))
        .collect();
    let last = measured_windows(chain).map(|(_, end)| end).max();
    for verified in &chain.documents {
        let name = assay_stage::chain_name(verified.value());
        let Some(time) = verified.asserted_time() else { continue };
        let at = format!("the {name} was signed");
        for input in &verified.value().header().inputs {
            let Some((earlier, Some(before))) = signed.get(&input.manifest) else { continue };
            check_order((&format!("the {} was signed", assay_stage::chain_name(earlier.value())), *before), (&at, time))?;
        }
        match verified.value() {
            Document::Environment(manifest) => check_order(("its target was observed", manifest.body.observed_at), (&at, time))?,
            Document::ExecutionPart(manifest) => {
                for attempt in &manifest.body.attempts {
                    let (window, trial) = (attempt.window, &attempt.trial_id);
                    let began = format!("trial `{trial}` began");
                    if let Some(observed) = observed.get(&manifest.body.block) {
                        check_order(("its target was observed", *observed), (&began, window.start))?;
                    }
                    check_order((&began, window.start), (&format!("trial `{trial}` ended"), window.end))?;
                    check_duration(&format!("an attempt of trial `{trial}`"), window)?;
                    check_order((&format!("trial `{trial}` ended"), window.end), (&at, time))?;
                }
            }
            Document::Recording(manifest) => {
                let window = manifest.body.window;
                check_order(("the recording began", window.start), ("the recording ended", window.end))?;
                check_duration("a recording", window)?;
                check_order(("the recording ended", window.end), (&at, time))?;
            }
            Document::Publication(manifest) => {
                let published = ("the run was published", manifest.body.published_at);
                if let Some(last) = last {
                    check_order(("the last trial ended", last), published)?;
                }
                for input in &manifest.header.inputs {
                    let Some((earlier, Some(before))) = signed.get(&input.manifest) else { continue };
                    check_order((&format!("the {} was signed", assay_stage::chain_name(earlier.value())), *before), published)?;
                }
                check_order(published, (&at, time))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn measured_windows(chain: &Chain) -> impl Iterator<Item = (Instant, Instant)> + '_ {
    let parts = chain.all::<assay_manifest::ExecutionPart>();
    parts.flat_map(|(_, part)| part.body.attempts.iter().map(|attempt| (attempt.window.start, attempt.window.end)))
}

/// Refuses a duration that start and end rule out: the wall clock may be set meanwhile, by as much as clocks may differ.
fn check_duration(what: &str, window: Window) -> Result<()> {
    let between = window.end.unix_ns().saturating_sub(window.start.unix_ns());
    let lasted = i64::try_from(window.duration_ns.0).unwrap_or(i64::MAX);
    if lasted.abs_diff(between) <= CLOCK_ALLOWANCE_NS.unsigned_abs() {
        return Ok(());
    }
    Err(Error::Duration { window: what.to_owned(), lasted_ns: lasted, between_ns: between })
}

type Event<'a> = (&'a str, Instant);

/// Refuses a time that is before a time on which it rests.
fn check_order((earlier, before): Event<'_>, (later, after): Event<'_>) -> Result<()> {
    if after.unix_ns().saturating_add(CLOCK_ALLOWANCE_NS) >= before.unix_ns() {
        return Ok(());
    }
    Err(Error::TimeOrder {
        later: later.to_owned(),
        later_at: after.to_seconds(),
        earlier: earlier.to_owned(),
        earlier_at: before.to_seconds(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rests_on_something_follows_it() {
        let at = |seconds: i64| Instant::from_unix_ns(seconds * 1_000_000_000);
        let said = |before, after| {
            check_order(("the last trial ended", at(before)), ("the run was published", at(after)))
                .map_or_else(|error| assay_failure::Failure::from(error).to_string(), |()| "in order".to_owned())
        };
        assert_eq!(said(100, 100), "in order");
        assert_eq!(said(100, 40), "in order", "two machines' clocks may differ by a minute");
        insta::assert_snapshot!(said(100, 39), @"error[time_order]: the run was published at 1970-01-01T00:00:39Z, which is before the last trial ended at 1970-01-01T00:01:40Z");
    }
}
