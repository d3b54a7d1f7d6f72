//! What holds of all renderings of a verdict together.

use assay_manifest::{MetricVerdict, Outcome, Reason};
use proptest::prelude::*;

use super::fixture::{self, Model};
use super::row::Standing;
use crate::html::tests::{check_balance, ids};
use crate::text::columns;

/// What a forge takes in a comment.
const LIMIT: usize = 65_535;

#[test]
fn a_terminal_says_it_all() {
    insta::assert_snapshot!(fixture::model().report().terminal(120, false), @"");
}

#[test]
fn a_comment_says_what_changed_and_where_the_evidence_is() {
    insta::assert_snapshot!(fixture::model().report().markdown(LIMIT), @"");
}

#[test]
fn junit_has_a_test_case_for_each_metric() {
    insta::assert_snapshot!(fixture::model().report().junit(), @"");
}
