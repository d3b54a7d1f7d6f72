//! Posting to a stand-in of a forge, over real connections of this machine.

mod check;
mod comment;
mod failures;
mod issue;
mod others;
mod pull;
mod stand_in;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_forge::{AbsentAction, Comment, Forge, Kind, Token};
use stand_in::{Flavor, Identity, REPOSITORY, StandIn};

const TOKEN: &str = "hunter22-is-secret";
const PULL: u64 = 7;

/// The author of the pull request.
const AUTHOR: Identity = Identity::User("somebody");

/// An account that tries to mislead the client.
const STRANGER: Identity = Identity::User("stranger");

/// The pauses that were requested, instead of waiting.
type Pauses = Arc<Mutex<Vec<Duration>>>;

/// Returns a client of a forge that does not wait.
fn forge(stand_in: &StandIn) -> Forge {
    forge_and_pauses(stand_in).0
}

fn forge_and_pauses(stand_in: &StandIn) -> (Forge, Pauses) {
    let pauses = Pauses::default();
    let kept = Arc::clone(&pauses);
    let kind = match stand_in.flavor() {
        Flavor::GitHub => Kind::GitHub,
        Flavor::GitLab => Kind::GitLab,
        Flavor::Gitea => Kind::Gitea,
    };
    let forge = Forge::new(kind, stand_in.url().parse().expect("an address"), Token::new(TOKEN).expect("a token"));
    (forge.with_pause(move |time| kept.lock().expect("no panic").push(time)), pauses)
}

fn comment(text: &str) -> Comment {
    Comment {
        repository: REPOSITORY.parse().expect("a repository"),
        pull: PULL,
        tag: "nightly".parse().expect("a tag"),
        text: text.to_owned(),
        if_absent: AbsentAction::Create,
    }
}

/// Returns the text as it is on the forge.
fn tagged(text: &str) -> String {
    format!("<!-- assay:nightly -->\n{text}")
}
