//! Values that are taken out of a document before its table is read, because they are no results. They are counted with the reason.

use std::collections::BTreeMap;

use assay_manifest::{Count, NotRead};
use serde_json::Value;

/// The numbers of values that were taken out, by field and reason.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(BTreeMap<(&'static str, &'static str), u64>);

/// Two lists whose elements belong together, and that are not of one length or hold no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uneven(pub(crate) &'static str, pub(crate) &'static str);

/// The reason for a request of `ttfts` and `itls` that failed.
const FAILED: &str = "the request failed";
/// The reason for all of them if the failed ones are not known.
const NOT_TOLD: &str = "some requests failed, and the file does not tell which";

impl LeftOut {
    /// Counts the values of a field.
    pub(crate) fn add(&mut self, field: &'static str, why: &'static str, value: &Value) {
        let count = count(value);
        if count > 0 {
            *self.0.entry((field, why)).or_default() += count;
        }
    }

    /// Takes the elements of a list out for which `why` has a reason.
    pub(crate) fn take_out(
        &mut self,
        document: &mut Value,
        list: &'static str,
        field: &'static str,
        why: impl Fn(&Value) -> Option<&'static str>,
    ) {
        if let Some(items) = document.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| {
                let reason = why(item);
                if let Some(why) = reason {
                    self.add(field, why, item);
                }
                reason.is_none()
            });
        }
    }

    /// Takes the samples of failed requests out of `ttfts` and `itls`. Each of their elements is of one request, as is each of `errors`.
    /// vLLM and SGLang write 0 as the TTFT of a failed request. If the failed ones are not known, all samples are taken out.
    pub(crate) fn take_out_failed_requests(&mut self, document: &mut Value) {
        let failed = failed_requests(document);
        for list in ["ttfts", "itls"] {
            let Some(items) = document.get_mut(list).and_then(Value::as_array_mut) else { continue };
            let known = failed.as_deref().filter(|failed| failed.len() == items.len());
            let why = if known.is_some() { FAILED } else { NOT_TOLD };
            let mut is_failed = known.into_iter().flatten();
            items.retain(|item| {
                let is_kept = is_failed.next() == Some(&false);
                if !is_kept {
                    self.add(list, why, item);
                }
                is_kept
            });
        }
    }

    /// Returns the first reason, if there is one.
    pub(crate) fn first_reason(&self) -> Option<&'static str> {
        self.0.keys().map(|(_, why)| *why).next()
    }

    /// Returns the fields with their reasons.
    pub(crate) fn not_read(&self) -> impl Iterator<Item = NotRead> {
        self.0.iter().map(|((field, why), count)| NotRead {
            field: (*field).to_owned(),
            why: (*why).to_owned(),
            count: Count(*count),
        })
    }
}

/// Returns for each request if it failed; `None` if the file does not say.
fn failed_requests(document: &Value) -> Option<Vec<bool>> {
    let list = |name: &str| document.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (times, errors) = (list("ttfts"), list("errors"));
    let zeros: Vec<bool> = times.iter().map(|time| time.as_f64() == Some(0.0)).collect();
    if errors.len() == times.len() {
        let is_error = |error: &Value| !error.is_null() && error.as_str() != Some("");
        return Some(errors.iter().zip(&zeros).map(|(error, is_zero)| *is_zero || is_error(error)).collect());
    }
    let completed = usize::try_from(document.get("completed")?.as_u64()?).ok()?;
    let failed = times.len().checked_sub(completed)?;
    (zeros.iter().filter(|is_zero| **is_zero).count() == failed).then_some(zeros)
}

/// Returns the number of values in a document.
fn count(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the samples that are left, and the reasons with the numbers of values.
    fn left(mut document: Value) -> (Value, Vec<(String, u64)>) {
        let mut left_out = LeftOut::default();
        left_out.take_out_failed_requests(&mut document);
        let reasons = left_out.not_read().map(|field| (format!("{}: {}", field.field, field.why), field.count.0)).collect();
        (json!([document["ttfts"], document["itls"]]), reasons)
    }

    #[test]
    fn samples_of_failed_requests_are_taken_out() {
        let (samples, why) =
            left(json!({"completed": 2, "ttfts": [0.5, 0, 0.7], "itls": [[1], [], [2]], "errors": ["", "timeout", ""]}));
        assert_eq!((samples, why), (json!([[0.5, 0.7], [[1], [2]]]), vec![("ttfts: the request failed".to_owned(), 1)]));
        // A request that failed after its first token has a TTFT.
        let (samples, why) = left(json!({"completed": 1, "ttfts": [0.5, 0.6], "itls": [[1], [2, 3]], "errors": ["", "reset"]}));
        assert_eq!(samples, json!([[0.5], [[1]]]));
        assert_eq!(why, [("itls: the request failed".to_owned(), 2), ("ttfts: the request failed".to_owned(), 1)]);
        let (samples, _) = left(json!({"completed": 1, "ttfts": [0.5, 0.0], "itls": [[1], []]}));
        assert_eq!(samples, json!([[0.5], [[1]]]), "without `errors`, as many are 0 as failed");
    }

    #[test]
    fn without_failures_nothing_is_taken_out() {
        for errors in [json!(["", null]), Value::Null] {
            let (samples, why) = left(json!({"completed": 2, "ttfts": [0.5, 0.6], "itls": [[1], []], "errors": errors}));
            assert_eq!((samples, why), (json!([[0.5, 0.6], [[1], []]]), Vec::new()));
        }
    }

    #[test]
    fn no_sample_is_left_if_the_failed_requests_are_not_known() {
        let (samples, why) = left(json!({"completed": 1, "ttfts": [0.5, 0.6], "itls": [[1], [2]]}));
        assert_eq!(samples, json!([[], []]));
        let expected =
            ["itls", "ttfts"].map(|list| (format!("{list}: some requests failed, and the file does not tell which"), 2));
        assert_eq!(why, expected);
        let (samples, _) = left(json!({"completed": 2, "ttfts": [0.5, 0.6], "itls": [[1]]}));
        assert_eq!(samples, json!([[0.5, 0.6], []]), "the lists are not of one length");
    }
}
