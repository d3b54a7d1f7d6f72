use assay_forge::{Annotation, Check, Conclusion, ForgeError, Level, PostOutcome};
use serde_json::json;

use super::{REPOSITORY, StandIn, forge};
use crate::stand_in::{Fault, Identity};

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

fn check(conclusion: Conclusion) -> Check {
    Check {
        repository: REPOSITORY.parse().expect("a repository"),
        commit: SHA.parse().expect("a commit"),
        name: "assay / nightly".to_owned(),
        external_id: "assay:nightly".to_owned(),
        conclusion,
        title: "2 regressions".to_owned(),
        summary: "| case | change |".to_owned(),
        text: None,
        details_url: None,
        annotations: Vec::new(),
    }
}

fn note(line: u32) -> Annotation {
    let (path, message) = ("workloads/chat.yaml".to_owned(), "slower by 12 %".to_owned());
    Annotation { path, start_line: line, end_line: line, level: Level::Failure, message, title: Some("ttft".to_owned()) }
}

fn post_check(stand_in: &StandIn, check: &Check) -> PostOutcome {
    forge(stand_in).check(check).expect("posted")
}

#[test]
fn a_check_is_made_then_changed_in_place() {
    let stand_in = StandIn::start(Identity::Workflow);
    let PostOutcome::Created { url } = post_check(&stand_in, &check(Conclusion::Failure)) else { panic!("a check") };
    assert_eq!(post_check(&stand_in, &check(Conclusion::Failure)), PostOutcome::Unchanged { url: url.clone() });
    assert_eq!(post_check(&stand_in, &check(Conclusion::Success)), PostOutcome::Updated { url });
    let checks = stand_in.checks();
    assert_eq!(checks.len(), 1);
    let said = ["name", "head_sha", "external_id", "status", "conclusion"].map(|field| &checks[0][field]);
    assert_eq!(said, ["assay / nightly", SHA, "assay:nightly", "completed", "success"]);
    assert_eq!(checks[0]["output"]["title"], "2 regressions");
    assert_eq!(stand_in.writes(), ["POST /repos/example/project/check-runs", "PATCH /repos/example/project/check-runs/1"]);
}

#[test]
fn only_the_newest_check_of_our_app_and_kind_is_changed() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.paginate(1);
    let wanted = json!({ "name": "assay / nightly", "head_sha": SHA, "external_id": "assay:nightly", "conclusion": "success" });
    let mut another_id = wanted.clone();
    another_id["external_id"] = json!("a-job");
    stand_in.check_by(Identity::Workflow, &wanted);
    stand_in.check_by(Identity::Workflow, &wanted);
    stand_in.check_by(Identity::App("another"), &wanted);
    stand_in.check_by(Identity::Workflow, &another_id);
    assert!(matches!(post_check(&stand_in, &check(Conclusion::Failure)), PostOutcome::Updated { .. }));
    assert_eq!(stand_in.writes(), ["PATCH /repos/example/project/check-runs/2"]);
}

#[test]
fn another_commit_or_kind_is_another_check() {
    let stand_in = StandIn::start(Identity::App("my-app"));
    post_check(&stand_in, &check(Conclusion::Failure));
    post_check(&stand_in, &Check { external_id: "tests".to_owned(), ..check(Conclusion::Failure) });
    post_check(&stand_in, &Check { commit: "f".repeat(40).parse().expect("a commit"), ..check(Conclusion::Failure) });
    assert_eq!(stand_in.checks().len(), 3);
}

/// Otherwise a second pull request of the same commit would be a second chance.
#[test]
fn a_check_of_the_same_kind_about_something_else_is_left_as_it_is() {
    let stand_in = StandIn::start(Identity::Workflow);
    post_check(&stand_in, &check(Conclusion::Failure));
    let other = Check { external_id: "assay:weekly".to_owned(), ..check(Conclusion::Success) };
    let refused = forge(&stand_in).check(&other).expect_err("the first stands");
    assert!(matches!(&refused, ForgeError::CheckOfAnother { of, .. } if of == "assay:nightly"), "{refused}");
    assert_eq!((stand_in.checks().len(), &stand_in.checks()[0]["conclusion"]), (1, &json!("failure")));
}

#[test]
fn annotations_are_added_once_and_a_stale_one_takes_a_new_check() {
    let stand_in = StandIn::start(Identity::Workflow);
    let noted = |lines: &[u32]| Check { annotations: lines.iter().copied().map(note).collect(), ..check(Conclusion::Failure) };
    post_check(&stand_in, &noted(&[1]));
    post_check(&stand_in, &noted(&[1, 2]));
    assert!(matches!(post_check(&stand_in, &noted(&[2, 1])), PostOutcome::Unchanged { .. }));
    assert_eq!((stand_in.checks().len(), stand_in.annotations().len()), (1, 2));
    assert!(matches!(post_check(&stand_in, &noted(&[2])), PostOutcome::Created { .. }));
    assert!(matches!(post_check(&stand_in, &noted(&[2])), PostOutcome::Unchanged { .. }));
    assert_eq!((stand_in.checks().len(), stand_in.annotations().len()), (2, 3));
}

#[test]
fn a_lost_response_doubles_neither_check_nor_annotation() {
    let stand_in = StandIn::start(Identity::Workflow);
    let noted = |count| Check { annotations: (1..=count).map(note).collect(), ..check(Conclusion::Failure) };
    stand_in.fail(1, "POST", "/check-runs", Fault::Lost);
    assert!(matches!(post_check(&stand_in, &noted(1)), PostOutcome::Created { .. }));
    stand_in.fail(1, "PATCH", "/check-runs", Fault::Lost);
    assert!(matches!(post_check(&stand_in, &noted(50)), PostOutcome::Updated { .. }));
    assert_eq!((stand_in.checks().len(), stand_in.annotations().len()), (1, 50));
}

#[test]
fn a_check_beyond_the_limits_is_refused_before_anything_is_asked() {
    let stand_in = StandIn::start(Identity::Workflow);
    let long = Check { summary: "x".repeat(65_536), ..check(Conclusion::Neutral) };
    let many = Check { annotations: vec![note(1); 51], ..check(Conclusion::Neutral) };
    for check in [long, many] {
        assert!(forge(&stand_in).check(&check).expect_err("too much").is_usage());
    }
    assert!(stand_in.requests().is_empty());
}

#[test]
fn text_and_address_are_posted_and_taken_back() {
    let stand_in = StandIn::start(Identity::Workflow);
    let details_url = Some("https://results.example/run".to_owned());
    post_check(&stand_in, &Check { text: Some("more".to_owned()), details_url, ..check(Conclusion::Neutral) });
    let first = &stand_in.checks()[0];
    assert_eq!((&first["output"]["text"], &first["details_url"]), (&json!("more"), &json!("https://results.example/run")));
    assert!(matches!(post_check(&stand_in, &check(Conclusion::Neutral)), PostOutcome::Updated { .. }));
    assert_eq!(stand_in.checks()[0]["output"]["text"], "");
}
