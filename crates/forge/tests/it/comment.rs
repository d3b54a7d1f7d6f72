use assay_forge::{AbsentAction, Comment, Forge, ForgeError, MAX_BODY_CHARS, MAX_PAGES, PostOutcome};

use super::{PULL, STRANGER, StandIn, comment, forge, tagged};
use crate::stand_in::{Fault, Identity};

const ALL: [Identity; 3] = [Identity::User("someone"), Identity::App("my-app"), Identity::Workflow];

fn post_comment(forge: &Forge, text: &str) -> PostOutcome {
    forge.comment(&comment(text)).expect("posted")
}

fn texts(stand_in: &StandIn) -> Vec<String> {
    stand_in.comments(PULL).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_comment_is_written_then_edited_in_place_whoever_we_are() {
    for identity in ALL {
        let stand_in = StandIn::start(identity);
        stand_in.comment_by(STRANGER, PULL, "first!");
        let first = post_comment(&forge(&stand_in), "one");
        let PostOutcome::Created { url } = first.clone() else { panic!("{first:?}") };
        assert_eq!(url, format!("{}/example/project/issues/7#issuecomment-2", stand_in.url()));
        assert_eq!(post_comment(&forge(&stand_in), "two"), PostOutcome::Updated { url: url.clone() });
        assert_eq!(post_comment(&forge(&stand_in), "two"), PostOutcome::Unchanged { url });
        assert_eq!(texts(&stand_in), ["first!", &tagged("two")], "{identity:?}");
    }
}

#[test]
fn an_equal_text_is_not_written_again() {
    let stand_in = StandIn::start(Identity::Workflow);
    post_comment(&forge(&stand_in), "one\n");
    post_comment(&forge(&stand_in), "one\n");
    assert_eq!(stand_in.writes(), ["POST /repos/example/project/issues/7/comments"]);
}

#[test]
fn what_is_sent_is_what_the_forge_asks_for() {
    let stand_in = StandIn::start(Identity::Workflow);
    post_comment(&forge(&stand_in), "one");
    for asked in stand_in.requests() {
        assert_eq!(asked.header("authorization"), Some("Bearer hunter22-is-secret"));
        assert_eq!(asked.header("accept"), Some("application/vnd.github+json"));
        assert_eq!(asked.header("x-github-api-version"), Some("2022-11-28"));
        assert_eq!(asked.header("user-agent"), Some(concat!("assay/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(asked.header("content-type"), asked.body.is_object().then_some("application/json"));
    }
}

#[test]
fn somebody_else_s_comment_with_our_tag_is_not_touched() {
    for identity in ALL {
        let stand_in = StandIn::start(identity);
        for other in [STRANGER, Identity::User("github-actions"), Identity::App("another")] {
            stand_in.comment_by(other, PULL, &tagged("click here"));
        }
        post_comment(&forge(&stand_in), "one");
        post_comment(&forge(&stand_in), "two");
        stand_in.comment_by(STRANGER, PULL, &tagged("and here"));
        post_comment(&forge(&stand_in), "three");
        let here = tagged("click here");
        assert_eq!(texts(&stand_in), [here.clone(), here.clone(), here, tagged("three"), tagged("and here")], "{identity:?}");
    }
}

#[test]
fn who_we_are_can_be_told_instead_of_asked() {
    let stand_in = StandIn::start(Identity::App("my-app"));
    let told = || forge(&stand_in).with_login("my-app[bot]");
    post_comment(&told(), "one");
    post_comment(&told(), "two");
    assert_eq!(texts(&stand_in), [tagged("two")]);
    assert!(stand_in.requests().iter().all(|asked| asked.path.starts_with("/repos/")));
}

#[test]
fn whose_token_it_is_is_asked_once() {
    let stand_in = StandIn::start(Identity::User("someone"));
    let forge = forge(&stand_in);
    post_comment(&forge, "one");
    post_comment(&forge, "two");
    assert_eq!(stand_in.requests().iter().filter(|asked| asked.path == "/user").count(), 1);
}

#[test]
fn another_tag_is_another_comment() {
    let stand_in = StandIn::start(Identity::Workflow);
    let weekly = Comment { tag: "weekly".parse().expect("a tag"), ..comment("two") };
    post_comment(&forge(&stand_in), "one");
    forge(&stand_in).comment(&weekly).expect("posted");
    post_comment(&forge(&stand_in), "three");
    assert_eq!(texts(&stand_in), [tagged("three"), "<!-- assay:weekly -->\ntwo".to_owned()]);
}

#[test]
fn our_comment_is_found_on_a_later_page() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.paginate(2);
    for _ in 0..5 {
        stand_in.comment_by(STRANGER, PULL, "talk");
    }
    post_comment(&forge(&stand_in), "one");
    for _ in 0..5 {
        stand_in.comment_by(STRANGER, PULL, "more talk");
    }
    assert!(matches!(post_comment(&forge(&stand_in), "two"), PostOutcome::Updated { .. }));
    assert_eq!(texts(&stand_in)[5], tagged("two"));
    assert_eq!(stand_in.writes().len(), 2);
}

#[test]
fn a_thread_without_an_end_is_not_read_to_its_end() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.paginate(1);
    for _ in 0..=MAX_PAGES {
        stand_in.comment_by(STRANGER, PULL, "talk");
    }
    let error = forge(&stand_in).comment(&comment("one")).expect_err("too long");
    insta::assert_snapshot!(error, @"pull request 7 of `example/project` has more than 30 pages");
    assert_eq!(stand_in.writes(), Vec::<String>::new(), "ours may stand behind what was read");
}

#[test]
fn nothing_to_say_makes_no_comment_but_updates_one() {
    let stand_in = StandIn::start(Identity::Workflow);
    let quiet = |text: &str| Comment { if_absent: AbsentAction::Skip, ..comment(text) };
    assert_eq!(forge(&stand_in).comment(&quiet("fine")).expect("skipped"), PostOutcome::Skipped);
    assert_eq!(stand_in.writes(), Vec::<String>::new());
    post_comment(&forge(&stand_in), "worse");
    assert!(matches!(forge(&stand_in).comment(&quiet("fine")).expect("posted"), PostOutcome::Updated { .. }));
    assert_eq!(texts(&stand_in), [tagged("fine")]);
}

#[test]
fn a_text_beyond_the_limit_is_refused_before_anything_is_asked() {
    let stand_in = StandIn::start(Identity::Workflow);
    let tag = tagged("").chars().count();
    post_comment(&forge(&stand_in), &"ü".repeat(MAX_BODY_CHARS - tag));
    let before = stand_in.requests().len();
    let error = forge(&stand_in).comment(&comment(&"ü".repeat(MAX_BODY_CHARS - tag + 1))).expect_err("too long");
    assert!(matches!(error, ForgeError::TooLong { found: 65_537, most: MAX_BODY_CHARS, .. }), "{error:?}");
    assert_eq!(stand_in.requests().len(), before);
}

#[test]
fn a_lost_response_doubles_no_comment() {
    for fault in [Fault::Lost, Fault::Half] {
        let stand_in = StandIn::start(Identity::Workflow);
        stand_in.fail(1, "POST", "/comments", fault.clone());
        assert!(matches!(post_comment(&forge(&stand_in), "one"), PostOutcome::Created { .. }));
        stand_in.fail(1, "PATCH", "/comments", fault.clone());
        assert!(matches!(post_comment(&forge(&stand_in), "two"), PostOutcome::Updated { .. }));
        assert_eq!(texts(&stand_in), [tagged("two")], "{fault:?}");
        assert_eq!(stand_in.writes().len(), 2, "looked at again, and not written again");
    }
}

#[test]
fn a_writing_that_failed_is_written_again_after_a_look() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.fail(1, "POST", "/comments", Fault::status(502, "Bad Gateway"));
    assert!(matches!(post_comment(&forge(&stand_in), "one"), PostOutcome::Created { .. }));
    let asked: Vec<_> =
        stand_in.requests().into_iter().filter(|asked| asked.path.contains("/comments")).map(|asked| asked.method).collect();
    assert_eq!(asked, ["GET", "POST", "GET", "POST"]);
    assert_eq!(texts(&stand_in), [tagged("one")]);
}

#[test]
fn two_who_post_in_turn_keep_one_comment() {
    let stand_in = StandIn::start(Identity::Workflow);
    let (one, other) = (forge(&stand_in), forge(&stand_in));
    for text in ["a", "b", "c"] {
        post_comment(&one, text);
        post_comment(&other, text);
    }
    assert_eq!(texts(&stand_in), [tagged("c")]);
    assert_eq!(stand_in.writes().len(), 3);
}
