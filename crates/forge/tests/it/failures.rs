//! Every failure has its own error, and no error contains the token.

use std::time::Duration;

use assay_forge::{Api, Forge, ForgeError, Kind, MAX_REPEATS, MAX_WAIT, MAX_WAITS, PostOutcome, Token};
use serde_json::json;

use super::{PULL, STRANGER, StandIn, TOKEN, comment, forge, forge_and_pauses, tagged};
use crate::stand_in::{Fault, Identity};

/// Returns the error of posting a comment to a failing forge; it does not hold the token, and has a hint.
fn refused(arrange: impl Fn(&StandIn)) -> ForgeError {
    let stand_in = StandIn::start(Identity::Workflow);
    arrange(&stand_in);
    guarded(forge(&stand_in).comment(&comment("one")).expect_err("something is wrong"))
}

fn guarded(error: ForgeError) -> ForgeError {
    let mut said = format!("{error} {error:?} {error:#?} {}", error.hint());
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        said = format!("{said} {error} {error:?}");
        cause = error.source();
    }
    assert!(!said.contains("hunter22"), "{said}");
    assert!(!error.hint().is_empty());
    error
}

/// Like [`refused`], with each listing of comments failing.
fn refused_by(fault: Fault) -> ForgeError {
    refused(|stand_in| stand_in.fail(usize::MAX, "GET", "/comments", fault.clone()))
}

fn refused_writing(fault: Fault) -> ForgeError {
    refused(|stand_in| stand_in.fail(usize::MAX, "POST", "/comments", fault.clone()))
}

#[test]
fn a_bad_token_is_told_without_the_token() {
    let error = refused(|stand_in| stand_in.accept_only("another"));
    assert!(matches!(error, ForgeError::BadToken));
    insta::assert_snapshot!(error, @"the forge does not accept the token");
}

#[test]
fn a_missing_permission_is_named() {
    let error = refused_writing(Fault::status(403, "Resource not accessible by integration"));
    insta::assert_snapshot!(error, @"the token may not do this, which needs `pull-requests: write`: Resource not accessible by integration");
    insta::assert_snapshot!(error.hint(), @"in GitHub Actions, name it under `permissions:` of the job; a pull request from a fork has a token that only reads");
}

#[test]
fn what_is_not_there_is_named() {
    let stand_in = StandIn::start(Identity::Workflow);
    let mut elsewhere = comment("one");
    elsewhere.repository = "example/another".parse().expect("a repository");
    let error = guarded(forge(&stand_in).comment(&elsewhere).expect_err("not there"));
    insta::assert_snapshot!(error, @"pull request 7 of `example/another` cannot be found, or the token may not see it");
}

#[test]
fn what_the_forge_does_not_take_is_told_in_its_words() {
    let body = json!({ "message": "Validation Failed\u{1b}[2J", "errors": [{ "field": "body", "code": "custom", "message": "is too long" }] });
    let error = refused_writing(Fault::Status(422, Vec::new(), body.to_string()));
    insta::assert_snapshot!(error, @"the forge refuses what was posted: Validation Failed�[2J; is too long");
    let error = refused_writing(Fault::status(410, "Issues are disabled for this repo"));
    insta::assert_snapshot!(error, @"the forge refuses with status 410: Issues are disabled for this repo");
    let long = refused_writing(Fault::status(422, &"x".repeat(100_000)));
    assert!(long.to_string().len() < 1000);
}

#[test]
fn a_token_that_comes_back_is_masked_wherever_it_stands() {
    let echo = |status| Fault::status(status, &format!("{}{TOKEN} is no good", "x".repeat(295)));
    for status in [403, 410, 422] {
        refused_writing(echo(status));
    }
    refused_writing(Fault::with_line(302, &format!("location: https://evil.example/{TOKEN}")));
    refused_by(Fault::Status(200, Vec::new(), json!(TOKEN).to_string()));
    refused_by(Fault::Status(200, vec![format!("link: <https://{TOKEN}@evil.example/{TOKEN}>; rel=\"next\"")], "[]".to_owned()));
    refused_by(Fault::Raw(format!("HTTP/1.1 {TOKEN}\r\n\r\n").into_bytes()));
    let stand_in = StandIn::start(Identity::Workflow);
    let body = json!({ "html_url": format!("https://x/{TOKEN}\u{1b}") }).to_string();
    stand_in.fail(1, "POST", "/comments", Fault::Status(201, Vec::new(), body));
    assert_eq!(forge(&stand_in).comment(&comment("one")).expect("posted").url(), Some("https://x/[secret]\u{fffd}"));
    assert!(!format!("{:?}", forge(&stand_in)).contains(TOKEN));
}

#[test]
fn a_redirect_is_followed_nowhere() {
    let elsewhere = StandIn::start(Identity::Workflow);
    for method in ["GET", "POST"] {
        for status in [301, 302, 307, 308] {
            let line = format!("location: {}/repos/example/project/issues/7/comments", elsewhere.url());
            let error = refused(|stand_in| stand_in.fail(usize::MAX, method, "/comments", Fault::with_line(status, &line)));
            assert!(matches!(error, ForgeError::Redirected { .. }), "{error:?}");
        }
    }
    assert!(elsewhere.requests().is_empty(), "the token went elsewhere");
}

#[test]
fn a_next_page_elsewhere_is_not_asked_for() {
    let elsewhere = StandIn::start(Identity::Workflow);
    let line = format!("link: <{}/repos/example/project/issues/7/comments?page=2>; rel=\"next\"", elsewhere.url());
    let error = refused_by(Fault::Status(200, vec![line], "[]".to_owned()));
    assert!(matches!(error, ForgeError::BadResponse { .. }), "{error:?}");
    assert!(elsewhere.requests().is_empty(), "the token went elsewhere");
}

#[test]
fn a_failure_that_passes_is_asked_about_again() {
    for fault in [Fault::status(500, "no"), Fault::status(503, "no"), Fault::Lost, Fault::Half] {
        let stand_in = StandIn::start(Identity::Workflow);
        stand_in.fail(MAX_REPEATS as usize, "GET", "/comments", fault);
        let (forge, pauses) = forge_and_pauses(&stand_in);
        assert!(matches!(forge.comment(&comment("one")), Ok(PostOutcome::Created { .. })));
        assert_eq!(*pauses.lock().expect("no panic"), [500, 1000, 2000].map(Duration::from_millis));
    }
}

#[test]
fn a_failure_that_stays_is_told_after_a_bounded_number_of_questions() {
    let asked = |method, fault| {
        let stand_in = StandIn::start(Identity::Workflow);
        stand_in.fail(usize::MAX, method, "/comments", fault);
        let error = guarded(forge(&stand_in).comment(&comment("one")).expect_err("it stays"));
        (error, stand_in.requests().iter().filter(|asked| asked.path.contains("/comments") && asked.method == method).count())
    };
    let (error, questions) = asked("GET", Fault::status(500, "no"));
    assert!(
        matches!(error, ForgeError::Failed { status: 500 }) && questions == 1 + MAX_REPEATS as usize,
        "{error:?} {questions}"
    );
    let (error, questions) = asked("POST", Fault::status(502, "no"));
    assert!(
        matches!(error, ForgeError::Failed { status: 502 }) && questions == 1 + MAX_REPEATS as usize,
        "{error:?} {questions}"
    );
    let (error, questions) = asked("GET", Fault::Lost);
    assert!(matches!(error, ForgeError::Unreachable { .. }) && questions == 1 + MAX_REPEATS as usize, "{error:?} {questions}");
}

#[test]
fn nobody_there_is_unreachable() {
    let gone = StandIn::start(Identity::Workflow).url();
    let forge =
        Forge::new(Kind::GitHub, gone.parse().expect("an address"), Token::new(TOKEN).expect("a token")).with_pause(|_| ());
    let error = guarded(forge.comment(&comment("one")).expect_err("nobody is there"));
    assert!(matches!(error, ForgeError::Unreachable { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("`{gone}` sent no response"));
}

#[test]
fn a_limit_of_the_forge_is_waited_for() {
    for (method, status) in [("GET", 429), ("GET", 403), ("POST", 429), ("POST", 403)] {
        for (line, waited) in [("retry-after: 0", 0), ("retry-after: 60", 60)] {
            let stand_in = StandIn::start(Identity::Workflow);
            stand_in.fail(MAX_WAITS as usize, method, "/comments", Fault::with_line(status, line));
            let (forge, pauses) = forge_and_pauses(&stand_in);
            assert!(matches!(forge.comment(&comment("one")), Ok(PostOutcome::Created { .. })));
            assert_eq!(*pauses.lock().expect("no panic"), [Duration::from_secs(waited); MAX_WAITS as usize]);
            assert_eq!(stand_in.comments(PULL).len(), 1);
        }
    }
}

#[test]
fn a_limit_that_stays_or_is_far_away_is_told() {
    let stays = refused(|stand_in| {
        stand_in.fail(MAX_WAITS as usize + 1, "GET", "/comments", Fault::with_line(429, "retry-after: 0"));
    });
    insta::assert_snapshot!(stays, @"the forge limits how often it is asked and says to wait 0 s");
    let far = refused_by(Fault::with_line(403, &format!("retry-after: {}", MAX_WAIT.as_secs() + 1)));
    insta::assert_snapshot!(far, @"the forge limits how often it is asked and says to wait 61 s");
    let reset = Fault::Status(
        403,
        vec!["x-ratelimit-remaining: 0".to_owned(), format!("x-ratelimit-reset: {}", u64::MAX)],
        "{}".to_owned(),
    );
    assert!(matches!(refused_by(reset), ForgeError::RateLimited { wait: Some(wait) } if wait > MAX_WAIT));
    let secondary = refused_by(Fault::status(403, "You have exceeded a secondary rate limit"));
    insta::assert_snapshot!(secondary, @"the forge limits how often it is asked");
}

#[test]
fn a_response_without_an_end_is_cut_off() {
    let error = refused_by(Fault::Endless);
    assert!(matches!(error, ForgeError::TooLarge), "{error:?}");
}

#[test]
fn a_response_of_no_forge_api_is_a_named_error() {
    let deep = "[".repeat(100_000);
    let wrong =
        ["", "<html>", "null", "{}", "[{}]", "[null]", "[1", r#"[{"id": -1, "html_url": "x"}]"#, r#"[{"id": 1e400}]"#, &deep];
    for body in wrong {
        let error = refused_by(Fault::Status(200, Vec::new(), body.to_owned()));
        assert!(matches!(error, ForgeError::BadResponse { .. }), "{body}: {error:?}");
    }
    for bytes in ["SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 999999 x\r\n\r\n", "\0", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[]"]
    {
        let error = refused_by(Fault::Raw(bytes.as_bytes().to_vec()));
        assert!(matches!(error, ForgeError::Unreachable { .. } | ForgeError::BadResponse { .. }), "{bytes}: {error:?}");
    }
    // A deleted account has left its comments.
    let stand_in = StandIn::start(Identity::Workflow);
    let ghost = json!([{ "id": 1, "html_url": "https://x", "body": tagged("one"), "user": null }]).to_string();
    stand_in.fail(1, "GET", "/comments", Fault::Status(200, Vec::new(), ghost));
    assert!(matches!(forge(&stand_in).comment(&comment("one")), Ok(PostOutcome::Created { .. })));
}

#[test]
fn a_forge_that_does_not_say_who_we_are_is_told_from_one_that_fails() {
    let error = refused(|stand_in| stand_in.fail(usize::MAX, "GET", "/user", Fault::status(500, "no")));
    assert!(matches!(error, ForgeError::Failed { .. }), "{error:?}");
    let error = refused(|stand_in| stand_in.fail(usize::MAX, "GET", "/user", Fault::Status(200, Vec::new(), "{}".to_owned())));
    assert!(matches!(error, ForgeError::BadResponse { .. }), "{error:?}");
    // A guess of the account after a mere failure of the forge could edit another account's comment, or duplicate the own one.
    let stand_in = StandIn::start(Identity::App("my-app"));
    stand_in.comment_by(STRANGER, PULL, &tagged("click here"));
    stand_in.fail(usize::MAX, "POST", "/graphql", Fault::status(502, "no"));
    assert!(forge(&stand_in).comment(&comment("one")).is_err());
    assert_eq!(stand_in.writes(), Vec::<String>::new());
}

#[test]
fn a_token_is_sent_to_no_plain_address_of_another_machine() {
    let error = guarded("http://api.github.com".parse::<Api>().expect_err("plain"));
    insta::assert_snapshot!(error, @"`http://api.github.com` is no address of an API that a token may be sent to");
    guarded(format!("https://{TOKEN}@api.github.com").parse::<Api>().expect_err("a password"));
    guarded(Token::new(&format!("{TOKEN} {TOKEN}")).expect_err("no token"));
}
