//! The end of a load whose requests fail.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Count;

/// The code of the reason against an attempt that ended early because of failed requests.
pub const TOO_MANY_ERRORS: &str = "too_many_errors";

/// The failed requests at which a trial ends early. At least one of its fields is present; the first that is met ends the trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorLimit {
    /// The number of failed requests, of all shards together and of the warm-up too, with which a trial ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<Count>,
    /// The share of recent requests with which a trial ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recent: Option<RecentErrors>,
}

/// A share of failed requests among those that ended last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecentErrors {
    /// The share of failed requests with which a trial ends, above 0 and at most 1. A share of 1 stands for that many failures in a row.
    pub share: f64,
    /// The number of requests of one shard that ended last. Fewer have no share.
    pub of_last: Count,
}

impl ErrorLimit {
    /// Returns the number of failed requests of one of so many shards with which a trial ends; `None` if no number ends it.
    pub fn count_of_shard(&self, shards: u32) -> Option<u64> {
        self.count.map(|count| count.0.div_ceil(u64::from(shards.max(1))))
    }
}

impl RecentErrors {
    /// Returns the fewest failures among the requests that ended last that are such a share.
    pub fn failures(&self) -> u64 {
        // A product such as 0.07 x 100 is a little more than 7.
        (self.share * self.of_last.0 as f64 - 1e-9).ceil().max(1.0) as u64
    }
}

impl fmt::Display for ErrorLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count.map(|count| if count.0 == 1 { "1 failure".to_owned() } else { format!("{} failures", count.0) });
        let recent = self.recent.map(|recent| match (recent.failures(), recent.of_last.0) {
            (failures, of_last) if failures == of_last => format!("{of_last} failures in a row"),
            (failures, of_last) => format!("{failures} failures among the last {of_last}"),
        });
        f.write_str(&[count, recent].into_iter().flatten().collect::<Vec<_>>().join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_met_by_the_fewest_failures_that_are_one() {
        let failures = |share, of_last| RecentErrors { share, of_last: Count(of_last) }.failures();
        assert_eq!(
            [failures(0.5, 20), failures(0.5, 21), failures(1.0, 20), failures(0.001, 20), failures(0.07, 100)],
            [10, 11, 20, 1, 7]
        );
    }

    #[test]
    fn each_shard_has_its_part_of_the_number() {
        let limit = ErrorLimit { count: Some(Count(10)), recent: None };
        assert_eq!([1, 3, 20].map(|shards| limit.count_of_shard(shards)), [Some(10), Some(4), Some(1)]);
        assert_eq!(ErrorLimit { count: None, recent: None }.count_of_shard(3), None);
    }

    #[test]
    fn a_limit_says_what_ends_a_trial() {
        let said = |count: Option<u64>, recent: Option<(f64, u64)>| {
            let recent = recent.map(|(share, of_last)| RecentErrors { share, of_last: Count(of_last) });
            ErrorLimit { count: count.map(Count), recent }.to_string()
        };
        assert_eq!(said(Some(1), None), "1 failure");
        assert_eq!(said(Some(50), Some((0.5, 20))), "50 failures or 10 failures among the last 20");
        assert_eq!(said(None, Some((1.0, 20))), "20 failures in a row");
    }
}
