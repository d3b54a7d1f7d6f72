//! Entries of other tools' results that failed, were skipped or were cancelled: their numbers are no results. Both readers, of results and
//! of harnesses, decide by these functions. Each returns the reason, or `None` for an entry that counts.

use serde_json::Value;

/// Returns the reason why a result of hyperfine failed: an execution that did not end with exit code 0.
pub(crate) fn hyperfine(result: &Value) -> Option<String> {
    let codes = result.get("exit_codes").and_then(Value::as_array)?;
    let code = codes.iter().find(|code| code.as_i64() != Some(0))?;
    Some(if code.is_null() { "it was ended by a signal".to_owned() } else { format!("a run ended with exit code {code}") })
}

/// Returns the reason why a benchmark of Google Benchmark failed or was skipped, as the benchmark gives it.
pub(crate) fn google_benchmark(benchmark: &Value) -> Option<&str> {
    let members = [("error_occurred", "error_message"), ("skipped", "skip_message")];
    let (_, message) = members.iter().find(|(flag, _)| is_true(benchmark, flag))?;
    Some(benchmark.get(message).and_then(Value::as_str).unwrap_or("no reason is given"))
}

/// Returns the reason why the summary of a run of AIPerf does not count.
pub(crate) fn aiperf_summary(summary: &Value) -> Option<&'static str> {
    if is_true(summary, "was_cancelled") {
        return Some("the run was cancelled");
    }
    (summary.get("is_complete") == Some(&Value::Bool(false))).then_some("the run is not complete")
}

/// Returns the reason why a request of AIPerf does not count.
pub(crate) fn aiperf_request(request: &Value) -> Option<&'static str> {
    let metadata = request.get("metadata").unwrap_or(&Value::Null);
    if is_true(metadata, "was_cancelled") {
        return Some("the request was cancelled");
    }
    if is_true(metadata, "context_overflow_skip") {
        return Some("the request was skipped");
    }
    is_given(request, "error").then_some("the request failed")
}

/// Returns the reason why a request of genai-bench does not count.
pub(crate) fn genai_bench_request(request: &Value) -> Option<&'static str> {
    is_given(request, "error_code").then_some("the request failed")
}

fn is_true(value: &Value, member: &str) -> bool {
    value.get(member) == Some(&Value::Bool(true))
}

fn is_given(value: &Value, member: &str) -> bool {
    value.get(member).is_some_and(|given| !given.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_that_failed_were_skipped_or_were_cancelled_have_a_reason() {
        assert_eq!(hyperfine(&json!({"exit_codes": [0, 3]})).as_deref(), Some("a run ended with exit code 3"));
        assert_eq!(hyperfine(&json!({"exit_codes": [null]})).as_deref(), Some("it was ended by a signal"));
        assert_eq!(google_benchmark(&json!({"error_occurred": true, "error_message": "no data"})), Some("no data"));
        assert_eq!(google_benchmark(&json!({"skipped": true, "skip_message": "no GPU"})), Some("no GPU"));
        assert_eq!(google_benchmark(&json!({"skipped": true})), Some("no reason is given"));
        assert_eq!(aiperf_summary(&json!({"was_cancelled": true})), Some("the run was cancelled"));
        assert_eq!(aiperf_summary(&json!({"is_complete": false})), Some("the run is not complete"));
        assert_eq!(aiperf_request(&json!({"metadata": {"was_cancelled": true}})), Some("the request was cancelled"));
        assert_eq!(aiperf_request(&json!({"metadata": {"context_overflow_skip": true}})), Some("the request was skipped"));
        assert_eq!(aiperf_request(&json!({"metadata": {}, "error": {"code": 500}})), Some("the request failed"));
        assert_eq!(genai_bench_request(&json!({"error_code": 500})), Some("the request failed"));
    }

    #[test]
    fn entries_that_count_have_no_reason() {
        for result in [json!({"exit_codes": [0, 0]}), json!({})] {
            assert_eq!(hyperfine(&result), None, "{result}");
        }
        for benchmark in [json!({"error_occurred": false, "skipped": false, "error_message": "none"}), json!({})] {
            assert_eq!(google_benchmark(&benchmark), None, "{benchmark}");
        }
        assert_eq!(aiperf_summary(&json!({"was_cancelled": false, "is_complete": true})), None);
        assert_eq!(aiperf_request(&json!({"metadata": {"was_cancelled": false}, "error": null})), None);
        assert_eq!(genai_bench_request(&json!({"error_code": null})), None);
    }
}
