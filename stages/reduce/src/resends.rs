//! The issue that an endpoint closed the kept-alive connections of many requests.

use assay_manifest::{Attempt, Reason, ServingOutcome};

/// The share of a run's requests above which their resends are an issue: an endpoint that closes connections this often is near a
/// limit of its own, and the requests paid for new connections.
const MAX_RESEND_SHARE: f64 = 0.01;

/// Returns an issue about the resends of the counted attempts, if they are many.
pub(crate) fn issue<'a>(counted: impl Iterator<Item = &'a Attempt>) -> Option<Reason> {
    let (mut resends, mut requests) = (0_u64, 0_u64);
    for outcome in counted.filter_map(|attempt| attempt.serving.as_ref()) {
        resends = resends.saturating_add(outcome.client.resends.map_or(0, |count| count.0));
        requests = requests.saturating_add(count_requests(outcome));
    }
    let share = resends as f64 / requests.max(1) as f64;
    (share > MAX_RESEND_SHARE).then(|| {
        let detail = format!(
            "the endpoint had closed the kept-alive connections of {resends} of {requests} requests ({:.1} %), which were sent on others",
            share * 100.0
        );
        Reason::new("resends", detail)
    })
}

/// Returns the number of requests of both phases.
fn count_requests(outcome: &ServingOutcome) -> u64 {
    outcome.outcomes.values().chain(outcome.warmup_outcomes.values()).fold(0, |sum, count| sum.saturating_add(count.0))
}

#[cfg(test)]
mod tests {
    use assay_manifest::Count;
    use serde_json::json;

    use super::*;

    fn attempt(resends: Option<u64>) -> Attempt {
        let digest = assay_manifest::Digest::compute(b"x");
        let mut outcome: ServingOutcome = serde_json::from_value(json!({
            "schedule_digest": digest, "start": "2026-01-01T00:00:00.000000000Z", "measured_from_ns": "0", "measured_to_ns": "1",
            "outcomes": {"ok": "150", "timeout": "50"}, "warmup_outcomes": {"ok": "22"}, "input_tokens": "0", "output_tokens": "0",
            "chunk_lists": "all", "clock": {"source": "same_host"},
            "client": {"loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0", "cpu_system_us": "0", "full_reads": "0",
                       "starved": "0", "sent_rate_per_s": 1.0, "connections": "1", "events": "1"},
            "records": {"name": "records", "media_type": "x", "digest": digest, "size": "1"},
        }))
        .expect("an outcome");
        outcome.client.resends = resends.map(Count);
        let plan = crate::fixture::plan(1);
        Attempt { serving: Some(outcome), ..crate::fixture::attempt(&plan.trials[0], 0, true) }
    }

    fn issue_text(attempts: &[Attempt]) -> String {
        issue(attempts.iter()).map_or_else(|| "none".to_owned(), |issue| format!("{}: {}", issue.code, issue.detail))
    }

    #[test]
    fn many_resends_are_an_issue_and_a_few_are_none() {
        assert_eq!(issue_text(&[]), "none");
        assert_eq!(issue_text(&[attempt(None), attempt(Some(2))]), "none");
        assert_eq!(
            issue_text(&[attempt(Some(22)), attempt(Some(0))]),
            "resends: the endpoint had closed the kept-alive connections of 22 of 444 requests (5.0 %), which were sent on others"
        );
    }
}
