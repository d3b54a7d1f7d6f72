//! GitLab and Gitea: the same posts, with their own APIs and the same guarantees.

use assay_forge::{
    Annotation, Check, Comment, Conclusion, ForgeError, HeadBranch, Issue, Level, MAX_PAGES, MAX_REPEATS, PostOutcome,
    PullCriteria,
};
use serde_json::json;

use super::{AUTHOR, PULL, REPOSITORY, STRANGER, StandIn, TOKEN, comment, forge, tagged};
use crate::stand_in::{Fault, Flavor, Identity};

const OTHERS: [Flavor; 2] = [Flavor::GitLab, Flavor::Gitea];

const US: Identity = Identity::User("assay-bot");

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

fn start(flavor: Flavor) -> StandIn {
    let stand_in = StandIn::start_as(flavor, US);
    stand_in.accept_only(TOKEN);
    stand_in
}

fn check(conclusion: Conclusion) -> Check {
    Check {
        repository: REPOSITORY.parse().expect("a repository"),
        commit: SHA.parse().expect("a commit"),
        name: "assay gate: latency".to_owned(),
        external_id: "pull:17".to_owned(),
        conclusion,
        title: "Regressed: 1 of 2 metrics".to_owned(),
        summary: "| case | change |".to_owned(),
        text: None,
        details_url: None,
        annotations: Vec::new(),
    }
}

fn issue(text: &str) -> Issue {
    Issue {
        repository: REPOSITORY.parse().expect("a repository"),
        tag: "nightly".parse().expect("a tag"),
        title: "The history shows a change".to_owned(),
        text: text.to_owned(),
    }
}

fn post_comment(stand_in: &StandIn, text: &str) -> PostOutcome {
    forge(stand_in).comment(&comment(text)).expect("posted")
}

fn post_check(stand_in: &StandIn, check: &Check) -> PostOutcome {
    forge(stand_in).check(check).expect("posted")
}

fn texts(stand_in: &StandIn, number: u64) -> Vec<String> {
    stand_in.comments(number).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_comment_is_written_then_edited_in_place() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        stand_in.comment_by(STRANGER, PULL, &tagged("click here"));
        let PostOutcome::Created { url } = post_comment(&stand_in, "one") else { panic!("{flavor:?}") };
        assert_eq!(post_comment(&stand_in, "two"), PostOutcome::Updated { url: url.clone() });
        assert_eq!(post_comment(&stand_in, "two"), PostOutcome::Unchanged { url });
        assert_eq!(texts(&stand_in, PULL), [tagged("click here"), tagged("two")], "{flavor:?}: somebody else's is left alone");
    }
}

#[test]
fn what_is_sent_is_what_each_forge_asks_for() {
    let gitlab = start(Flavor::GitLab);
    let url = post_comment(&gitlab, "one").url().expect("a page").to_owned();
    assert_eq!(url, format!("{}/example/project/-/merge_requests/7#note_1", gitlab.web()));
    post_comment(&gitlab, "two");
    let project = "/api/v4/projects/example%2Fproject";
    assert_eq!(
        gitlab.writes(),
        [format!("POST {project}/merge_requests/7/notes"), format!("PUT {project}/merge_requests/7/notes/1")]
    );
    let gitea = start(Flavor::Gitea);
    let url = post_comment(&gitea, "one").url().expect("a page").to_owned();
    assert_eq!(url, format!("{}/example/project/issues/7#issuecomment-1", gitea.web()));
    post_comment(&gitea, "two");
    let repository = "/api/v1/repos/example/project";
    assert_eq!(gitea.writes(), [format!("POST {repository}/issues/7/comments"), format!("PATCH {repository}/issues/comments/1")]);
    for (stand_in, header, value) in
        [(&gitlab, "private-token", TOKEN.to_owned()), (&gitea, "authorization", format!("token {TOKEN}"))]
    {
        for asked in stand_in.requests() {
            assert_eq!(asked.header(header), Some(value.as_str()));
            let holding = asked.headers.iter().filter(|(_, value)| value.contains(TOKEN)).count();
            assert_eq!((holding, asked.path.contains(TOKEN)), (1, false), "the token is in one place");
            assert_eq!(asked.header("x-github-api-version"), None);
        }
    }
}

/// GitLab would execute the line with the rights of the token's account.
#[test]
fn no_line_of_a_note_is_a_command() {
    let stand_in = start(Flavor::GitLab);
    post_comment(&stand_in, "one\n/merge");
    assert!(matches!(post_comment(&stand_in, "one\n/merge"), PostOutcome::Unchanged { .. }));
    assert_eq!(texts(&stand_in, PULL), [tagged("one\n\\/merge")]);
}

/// The user who moves a repository to Gitea gets all its comments under their own name.
#[test]
fn a_comment_that_came_with_the_repository_is_not_ours() {
    let stand_in = start(Flavor::Gitea);
    stand_in.moved_comment(US, PULL, &tagged("click here"));
    assert!(matches!(post_comment(&stand_in, "one"), PostOutcome::Created { .. }));
    assert_eq!(texts(&stand_in, PULL), [tagged("click here"), tagged("one")]);
}

#[test]
fn our_note_is_found_on_a_later_page() {
    let stand_in = start(Flavor::GitLab);
    stand_in.paginate(1);
    for text in ["talk", "more talk"] {
        stand_in.comment_by(STRANGER, PULL, text);
    }
    post_comment(&stand_in, "one");
    assert!(matches!(post_comment(&stand_in, "two"), PostOutcome::Updated { .. }));
    for _ in 0..MAX_PAGES {
        stand_in.comment_by(STRANGER, PULL, "talk");
    }
    let elsewhere = Comment { tag: "other".parse().expect("a tag"), ..comment("one") };
    let error = forge(&stand_in).comment(&elsewhere).expect_err("too long");
    assert!(matches!(error, ForgeError::TooManyPages { .. }), "{error:?}");
}

#[test]
fn a_check_is_a_status_of_one_line() {
    for (flavor, state, name) in [(Flavor::GitLab, "failed", "name"), (Flavor::Gitea, "failure", "context")] {
        let stand_in = start(flavor);
        let details_url = Some("https://ci.example/jobs/1".to_owned());
        let failed = Check { details_url: details_url.clone(), ..check(Conclusion::Failure) };
        assert_eq!(post_check(&stand_in, &failed), PostOutcome::Created { url: "https://ci.example/jobs/1".to_owned() });
        assert!(matches!(post_check(&stand_in, &failed), PostOutcome::Unchanged { .. }));
        let [status] = stand_in.statuses().try_into().expect("one status");
        assert_eq!(status["status"], state);
        assert_eq!(status[name], "assay gate: latency");
        assert_eq!(status["description"], "Regressed: 1 of 2 metrics [pull:17]");
        assert_eq!(status["target_url"], "https://ci.example/jobs/1");
        let passed = Check { details_url, ..check(Conclusion::Success) };
        assert!(matches!(post_check(&stand_in, &passed), PostOutcome::Updated { .. }));
        assert_eq!(stand_in.statuses().len(), 2, "{flavor:?}: another takes its place");
        assert!(stand_in.writes().iter().all(|write| write.ends_with(&format!("/statuses/{SHA}"))), "{:?}", stand_in.writes());
    }
}

/// As in the table of `docs/forges.md`.
#[test]
fn each_conclusion_has_its_state() {
    let conclusions = [
        Conclusion::Success,
        Conclusion::Failure,
        Conclusion::Neutral,
        Conclusion::ActionRequired,
        Conclusion::Cancelled,
        Conclusion::Skipped,
        Conclusion::TimedOut,
    ];
    let states = |flavor| {
        let stand_in = start(flavor);
        for conclusion in conclusions {
            post_check(&stand_in, &check(conclusion));
        }
        stand_in.statuses().iter().map(|status| status["status"].as_str().expect("a state").to_owned()).collect::<Vec<_>>()
    };
    // Two in a row that have one state and one line are one status.
    assert_eq!(states(Flavor::GitLab), ["success", "failed", "skipped", "failed", "canceled", "skipped", "failed"]);
    assert_eq!(states(Flavor::Gitea), ["success", "failure", "warning", "failure", "error", "warning", "error"]);
}

/// Otherwise a second pull request of the same commit would be a second chance.
#[test]
fn a_status_about_another_pull_request_is_left_as_it_is() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        post_check(&stand_in, &check(Conclusion::Failure));
        let other = Check { external_id: "pull:18".to_owned(), ..check(Conclusion::Success) };
        let refused = forge(&stand_in).check(&other).expect_err("the first stands");
        assert!(matches!(&refused, ForgeError::CheckOfAnother { of, .. } if of == "pull:17"), "{refused}");
        assert_eq!(stand_in.statuses().len(), 1);
        post_check(&stand_in, &Check { commit: "f".repeat(40).parse().expect("a commit"), ..other });
        assert_eq!(stand_in.statuses().len(), 2, "another commit has its own");
    }
}

/// The newest status of a name is the one that counts, by any account.
#[test]
fn a_status_that_another_user_put_over_ours_is_replaced() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        stand_in.paginate(1);
        post_check(&stand_in, &check(Conclusion::Failure));
        let theirs = json!({
            "state": "success", "name": "assay gate: latency", "context": "assay gate: latency",
            "description": "Passed [pull:17]",
        });
        stand_in.status_by(STRANGER, SHA, &theirs);
        assert!(matches!(post_check(&stand_in, &check(Conclusion::Failure)), PostOutcome::Updated { .. }));
        assert!(matches!(post_check(&stand_in, &check(Conclusion::Failure)), PostOutcome::Unchanged { .. }));
        assert_eq!(stand_in.statuses().len(), 3, "{flavor:?}");
    }
}

#[test]
fn what_a_status_cannot_hold_is_refused_before_anything_is_asked() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        let long = Check { title: "x".repeat(250), ..check(Conclusion::Success) };
        let error = forge(&stand_in).check(&long).expect_err("too long");
        assert!(matches!(error, ForgeError::TooLong { found: 260, most: 255, .. }) && error.is_usage(), "{error:?}");
        let note = Annotation {
            path: "a".to_owned(),
            start_line: 1,
            end_line: 1,
            level: Level::Notice,
            message: "x".to_owned(),
            title: None,
        };
        let noted = Check { annotations: vec![note], ..check(Conclusion::Success) };
        let error = forge(&stand_in).check(&noted).expect_err("no place for notes");
        assert!(matches!(error, ForgeError::TooManyAnnotations { found: 1, most: 0 }), "{error:?}");
        assert!(stand_in.requests().is_empty());
    }
}

#[test]
fn an_issue_is_opened_and_each_change_is_a_comment_below_it() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        stand_in.issue_by(STRANGER, "click here", &tagged("one"));
        let posted = |text: &str| forge(&stand_in).issue(&issue(text)).expect("posted");
        let PostOutcome::Created { url } = posted("one") else { panic!("{flavor:?}") };
        assert!(url.ends_with("/example/project/issues/101"), "{url}");
        assert_eq!(posted("one"), PostOutcome::Unchanged { url });
        assert!(matches!(posted("two"), PostOutcome::Updated { .. }));
        assert!(matches!(posted("two"), PostOutcome::Unchanged { .. }));
        assert_eq!(texts(&stand_in, 101), [tagged("two")], "{flavor:?}");
        stand_in.close(101);
        assert!(matches!(posted("two"), PostOutcome::Created { .. }));
        assert_eq!(stand_in.issues().len(), 3);
    }
}

#[test]
fn gitea_s_label_is_made_once() {
    let stand_in = start(Flavor::Gitea);
    for text in ["one", "two"] {
        forge(&stand_in).issue(&issue(text)).expect("posted");
        stand_in.close(100);
    }
    let made = stand_in.writes().iter().filter(|write| write.ends_with("/labels")).count();
    assert_eq!((made, stand_in.issues().len()), (1, 2));
}

#[test]
fn a_lost_response_doubles_nothing() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        for part in ["notes", "comments", "/statuses/", "/labels", "/issues"] {
            stand_in.fail(1, "POST", part, Fault::Lost);
        }
        assert!(matches!(post_comment(&stand_in, "one"), PostOutcome::Created { .. }));
        assert!(matches!(post_check(&stand_in, &check(Conclusion::Failure)), PostOutcome::Created { .. }));
        assert!(matches!(forge(&stand_in).issue(&issue("one")).expect("posted"), PostOutcome::Created { .. }));
        assert_eq!((texts(&stand_in, PULL).len(), stand_in.statuses().len(), stand_in.issues().len()), (1, 1, 1), "{flavor:?}");
        let method = if flavor == Flavor::GitLab { "PUT" } else { "PATCH" };
        stand_in.fail(1, method, "/", Fault::Half);
        assert!(matches!(post_comment(&stand_in, "two"), PostOutcome::Updated { .. }));
        assert_eq!(texts(&stand_in, PULL), [tagged("two")]);
    }
}

#[test]
fn the_pull_request_of_a_commit_is_found_by_its_branches() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        stand_in.paginate(1);
        let copy = stand_in.pull_at(STRANGER, SHA);
        let ours = stand_in.pull_at(AUTHOR, SHA);
        let sought = |head: Option<(&str, &str)>, base: Option<&str>| {
            let head = head.map(|(repository, branch)| HeadBranch {
                repository: repository.parse().expect("a repository"),
                branch: branch.to_owned(),
            });
            let sought = PullCriteria { commit: SHA.parse().expect("a commit"), head, base: base.map(str::to_owned) };
            forge(&stand_in).find_pull(&REPOSITORY.parse().expect("a repository"), &sought)
        };
        assert!(matches!(sought(None, None), Err(ForgeError::SeveralPulls { count: 2, .. })), "{flavor:?}");
        assert_eq!(sought(Some(("Somebody/Project", "change")), None).expect("found"), ours);
        assert_eq!(sought(Some(("stranger/project", "change")), Some("main")).expect("found"), copy);
        for (head, base) in [(("another/project", "change"), None), (("somebody/project", "change"), Some("old"))] {
            assert!(matches!(sought(Some(head), base), Err(ForgeError::NoPull { .. })));
        }
        stand_in.delete_fork(copy);
        assert!(matches!(sought(Some(("stranger/project", "change")), None), Err(ForgeError::NoPull { .. })));
        stand_in.close(ours);
        assert_eq!(sought(None, None).expect("the one that is open"), copy);
    }
}

/// Returns the error of posting a comment, which holds no token and has a hint.
fn refused(flavor: Flavor, arrange: impl Fn(&StandIn)) -> ForgeError {
    let stand_in = StandIn::start_as(flavor, US);
    arrange(&stand_in);
    let error = forge(&stand_in).comment(&comment("one")).expect_err("something is wrong");
    assert!(!format!("{error} {error:?} {}", error.hint()).contains(TOKEN), "{error:?}");
    assert!(!error.hint().is_empty());
    error
}

#[test]
fn what_goes_wrong_has_a_name() {
    for flavor in OTHERS {
        let part = if flavor == Flavor::GitLab { "/notes" } else { "/comments" };
        let by = |fault: Fault| refused(flavor, |stand_in| stand_in.fail(usize::MAX, "GET", part, fault.clone()));
        assert!(matches!(refused(flavor, |stand_in| stand_in.accept_only("another")), ForgeError::BadToken));
        assert!(matches!(by(Fault::status(404, "404 Not Found")), ForgeError::NotFound { .. }));
        assert!(matches!(by(Fault::with_line(429, "retry-after: 3600")), ForgeError::RateLimited { wait: Some(_) }));
        assert!(matches!(by(Fault::status(503, "no")), ForgeError::Failed { status: 503 }));
        assert!(matches!(by(Fault::with_line(302, "location: https://evil.example/")), ForgeError::Redirected { .. }));
        assert!(matches!(by(Fault::Lost), ForgeError::Unreachable { .. }));
        for body in ["<html>", "{}", "[{}]", r#"[{"id": -1, "body": "x"}]"#] {
            let error = by(Fault::Status(200, Vec::new(), body.to_owned()));
            assert!(matches!(error, ForgeError::BadResponse { .. }), "{body}: {error:?}");
        }
        let elsewhere = "link: <https://evil.example/api/v4/x?page=2>; rel=\"next\"".to_owned();
        assert!(matches!(by(Fault::Status(200, vec![elsewhere], "[]".to_owned())), ForgeError::BadResponse { .. }));
        let echo = Fault::status(400, &format!("{TOKEN} is no good"));
        assert!(matches!(by(echo), ForgeError::Invalid { said } if said == "[secret] is no good"));
    }
}

#[test]
fn a_response_without_an_end_is_cut_off() {
    let error = refused(Flavor::GitLab, |stand_in| stand_in.fail(usize::MAX, "GET", "/notes", Fault::Endless));
    assert!(matches!(error, ForgeError::TooLarge), "{error:?}");
}

#[test]
fn a_failure_that_passes_is_asked_about_again() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        stand_in.fail(MAX_REPEATS as usize, "GET", "/user", Fault::status(502, "no"));
        assert!(matches!(post_comment(&stand_in, "one"), PostOutcome::Created { .. }), "{flavor:?}");
    }
}

#[test]
fn a_missing_permission_is_named_as_the_forge_calls_it() {
    let gitlab = refused(Flavor::GitLab, |stand_in| {
        let body = json!({ "error": "insufficient_scope", "error_description": "The request requires higher privileges." });
        stand_in.fail(usize::MAX, "POST", "/notes", Fault::Status(403, Vec::new(), body.to_string()));
    });
    insta::assert_snapshot!(gitlab, @"the token may not do this, which needs the scope `api` and the role Reporter: insufficient_scope; The request requires higher privileges.");
    insta::assert_snapshot!(gitlab.hint(), @"make an access token of the project with that scope and role; the token of a job (`CI_JOB_TOKEN`) may write neither notes nor statuses");
    let gitea = refused(Flavor::Gitea, |stand_in| {
        stand_in.fail(usize::MAX, "GET", "/user", Fault::status(403, "token does not have at least one of required scope(s)"));
    });
    insta::assert_snapshot!(gitea, @"the token may not do this, which needs `read:user`: token does not have at least one of required scope(s)");
}

/// The account is not guessed if the forge does not state it: another account's comment could be edited.
#[test]
fn nothing_is_written_where_nobody_knows_whose_the_token_is() {
    for flavor in OTHERS {
        let stand_in = start(flavor);
        stand_in.fail(usize::MAX, "GET", "/user", Fault::status(404, "no"));
        assert!(forge(&stand_in).comment(&comment("one")).is_err());
        assert_eq!(stand_in.writes(), Vec::<String>::new(), "{flavor:?}");
    }
}

#[test]
fn only_gitlab_has_groups_within_groups() {
    let nested = Comment { repository: "group/tools/project".parse().expect("a repository"), ..comment("one") };
    for flavor in [Flavor::GitHub, Flavor::Gitea] {
        let stand_in = StandIn::start_as(flavor, US);
        let error = forge(&stand_in).comment(&nested).expect_err("no such repository");
        assert!(matches!(error, ForgeError::Repository(_)) && error.is_usage(), "{error:?}");
        assert!(stand_in.requests().is_empty());
    }
    let stand_in = start(Flavor::GitLab);
    assert!(matches!(forge(&stand_in).comment(&nested), Err(ForgeError::NotFound { .. })));
    assert!(stand_in.requests().iter().any(|asked| asked.path.starts_with("/api/v4/projects/group%2Ftools%2Fproject/")));
}
