use assay_forge::{ForgeError, Issue, PostOutcome};
use serde_json::json;

use super::{REPOSITORY, STRANGER, StandIn, forge, tagged};
use crate::stand_in::{Fault, Identity};

fn issue(text: &str) -> Issue {
    Issue {
        repository: REPOSITORY.parse().expect("a repository"),
        tag: "nightly".parse().expect("a tag"),
        title: "nightly: the history shows a change".to_owned(),
        text: text.to_owned(),
    }
}

fn post_issue(stand_in: &StandIn, text: &str) -> PostOutcome {
    forge(stand_in).issue(&issue(text)).expect("posted")
}

fn texts(stand_in: &StandIn, number: u64) -> Vec<String> {
    stand_in.comments(number).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn an_issue_is_opened_and_each_change_is_a_comment_below_it() {
    let stand_in = StandIn::start(Identity::Workflow);
    let url = format!("{}/example/project/issues/100", stand_in.url());
    assert_eq!(post_issue(&stand_in, "one"), PostOutcome::Created { url: url.clone() });
    assert_eq!(post_issue(&stand_in, "one"), PostOutcome::Unchanged { url: url.clone() });
    let PostOutcome::Updated { url: below } = post_issue(&stand_in, "two") else { panic!("a comment") };
    assert_eq!(post_issue(&stand_in, "two"), PostOutcome::Unchanged { url: below.clone() });
    assert!(below.starts_with(&url));
    // The first text is news again.
    assert!(matches!(post_issue(&stand_in, "one"), PostOutcome::Updated { .. }));
    assert_eq!(texts(&stand_in, 100), [tagged("two"), tagged("one")]);
    let issues = stand_in.issues();
    assert_eq!(
        (issues.len(), &issues[0]["body"], &issues[0]["labels"]),
        (1, &json!(tagged("one")), &json!([{ "name": "assay" }]))
    );
}

#[test]
fn a_closed_issue_is_over_and_the_next_change_opens_another() {
    let stand_in = StandIn::start(Identity::Workflow);
    post_issue(&stand_in, "one");
    stand_in.close(100);
    assert!(matches!(post_issue(&stand_in, "one"), PostOutcome::Created { .. }));
    assert_eq!(stand_in.issues().len(), 2);
}

#[test]
fn somebody_else_s_issue_and_comments_with_our_tag_are_not_ours() {
    let stand_in = StandIn::start(Identity::Workflow);
    let theirs = stand_in.issue_by(STRANGER, "click here", &tagged("one"));
    assert!(matches!(post_issue(&stand_in, "one"), PostOutcome::Created { .. }));
    stand_in.comment_by(STRANGER, 101, &tagged("two"));
    assert!(matches!(post_issue(&stand_in, "two"), PostOutcome::Updated { .. }), "who says it for us has not said it");
    assert_eq!(texts(&stand_in, theirs), Vec::<String>::new());
    assert_eq!(texts(&stand_in, 101), [tagged("two"), tagged("two")]);
}

#[test]
fn a_pull_request_that_we_made_is_no_issue() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.pull_by(Identity::Workflow, &tagged("one"));
    assert!(matches!(post_issue(&stand_in, "one"), PostOutcome::Created { .. }));
}

#[test]
fn what_we_said_last_may_be_on_a_later_page() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.paginate(1);
    stand_in.issue_by(STRANGER, "another", "issue");
    for text in ["one", "two", "three"] {
        post_issue(&stand_in, text);
    }
    stand_in.comment_by(STRANGER, 101, "talk");
    assert!(matches!(post_issue(&stand_in, "three"), PostOutcome::Unchanged { .. }));
    assert_eq!(texts(&stand_in, 101), [tagged("two"), tagged("three"), "talk".to_owned()]);
}

#[test]
fn a_lost_response_doubles_neither_issue_nor_comment() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.fail(1, "POST", "/issues", Fault::Lost);
    assert!(matches!(post_issue(&stand_in, "one"), PostOutcome::Created { .. }));
    stand_in.fail(1, "POST", "/comments", Fault::Lost);
    assert!(matches!(post_issue(&stand_in, "two"), PostOutcome::Updated { .. }));
    assert_eq!((stand_in.issues().len(), texts(&stand_in, 100)), (1, vec![tagged("two")]));
}

#[test]
fn an_issue_without_its_label_is_told() {
    let stand_in = StandIn::start(Identity::User("someone"));
    stand_in.drop_labels();
    let error = forge(&stand_in).issue(&issue("one")).expect_err("no label");
    assert!(matches!(&error, ForgeError::Unlabelled { url } if url.ends_with("/issues/100")), "{error:?}");
}

#[test]
fn a_title_beyond_the_limit_is_refused() {
    let stand_in = StandIn::start(Identity::Workflow);
    let error = forge(&stand_in).issue(&Issue { title: "x".repeat(256), ..issue("one") }).expect_err("too long");
    insta::assert_snapshot!(error, @"the title of the issue has 256 characters, and the forge takes 255");
    assert!(stand_in.requests().is_empty());
}
