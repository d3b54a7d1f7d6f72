//! The errors, for the person who can act on them.

use std::time::Duration;

use crate::issue::LABEL;
use crate::{Kind, MAX_PAGES, MAX_RESPONSE_BYTES};

/// The reason why something was not posted. Texts of a forge are cut, without control characters and without the token.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// The kind of the forge is not known.
    #[error("`{0}` is no kind of forge whose API is known")]
    Kind(String),
    /// The name of the repository is not valid.
    #[error("`{0}` is no repository")]
    Repository(String),
    /// The tag is not a name.
    #[error("`{0}` is no tag")]
    Tag(String),
    /// The commit is not a whole SHA-1.
    #[error("`{0}` is no commit")]
    Commit(String),
    /// A token may not be sent to this address.
    #[error("`{0}` is no address of an API that a token may be sent to")]
    Api(String),
    /// The token is not valid.
    #[error("the token is empty or holds what no token holds, such as a blank")]
    Token,
    /// A text is longer than the forge accepts.
    #[error("the {what} has {found} characters, and the forge takes {most}")]
    TooLong {
        /// The kind of the text.
        what: &'static str,
        /// Its length in characters.
        found: usize,
        /// The forge's limit in characters.
        most: usize,
    },
    /// A check has more annotations than the forge accepts at once.
    #[error("the check has {found} annotations, and the forge takes {most}")]
    TooManyAnnotations {
        /// The number of annotations.
        found: usize,
        /// The number that the forge accepts: 0 if it has commit statuses in place of checks.
        most: usize,
    },
    /// 401: the forge does not know the token.
    #[error("the forge does not accept the token")]
    BadToken,
    /// 403: the token may not do this.
    #[error("the token may not do this, which needs {}: {said}", quoted(.permission))]
    Forbidden {
        /// The permission that is needed, by the forge's name.
        permission: &'static str,
        /// The forge's kind, which decides where permissions are given.
        kind: Kind,
        /// The forge's message.
        said: String,
    },
    /// 404: missing, or not visible to this token.
    #[error("{what} cannot be found, or the token may not see it")]
    NotFound {
        /// The requested thing.
        what: String,
    },
    /// 400 or 422: the forge does not accept the posted data.
    #[error("the forge refuses what was posted: {said}")]
    Invalid {
        /// The forge's message.
        said: String,
    },
    /// Another refusal.
    #[error("the forge refuses with status {status}: {said}")]
    Refused {
        /// The status code.
        status: u16,
        /// The forge's message.
        said: String,
    },
    /// 403 or 429 with a time to wait that is longer than the limit, or too many times in a row.
    #[error("the forge limits how often it is asked{}", waiting(*.wait))]
    RateLimited {
        /// The time to wait, if the forge stated it.
        wait: Option<Duration>,
    },
    /// A redirect, which is not followed.
    #[error("the forge points to another address, `{to}`")]
    Redirected {
        /// The address.
        to: String,
    },
    /// The forge failed, even after retries.
    #[error("the forge failed with status {status}")]
    Failed {
        /// The status code.
        status: u16,
    },
    /// No complete response came, even after retries.
    #[error("`{api}` sent no response")]
    Unreachable {
        /// The address of the API.
        api: String,
        /// The failure of the last request.
        #[source]
        source: Box<ureq::Error>,
    },
    /// A response larger than the limit.
    #[error("the forge's response is larger than {MAX_RESPONSE_BYTES} bytes")]
    TooLarge,
    /// A response that differs from the API's documentation.
    #[error("the forge's response about {what} is not what its API promises: {why}")]
    BadResponse {
        /// The requested thing.
        what: String,
        /// The problem.
        why: String,
    },
    /// A list so long that the wanted entry may be beyond the part that was read.
    #[error("{what} has more than {MAX_PAGES} pages")]
    TooManyPages {
        /// The list.
        what: String,
    },
    /// No open pull request has that commit as its head, or it is of another branch.
    #[error("no open pull request of these branches has `{commit}` as its head")]
    NoPull {
        /// The commit.
        commit: String,
    },
    /// More than one pull request matches, and it is not known which one is meant.
    #[error("{count} open pull requests have `{commit}` as their head")]
    SeveralPulls {
        /// The commit.
        commit: String,
        /// The number of pull requests.
        count: usize,
    },
    /// The commit has that check, and its subject is another one. A second check would replace it.
    #[error("the check `{name}` of `{commit}` is there, and is that of `{of}`")]
    CheckOfAnother {
        /// The check's name.
        name: String,
        /// The commit.
        commit: String,
        /// The subject of the existing check.
        of: String,
    },
    /// The issue was opened, and the forge dropped the label by which it is found again.
    #[error("the issue `{url}` was opened, but without the label `{LABEL}`")]
    Unlabelled {
        /// The issue's page.
        url: String,
    },
}

impl ForgeError {
    /// Returns advice on the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kind(_) => "known are `github`, `gitlab` and `gitea`, which Forgejo speaks as well",
            Self::Repository(_) => "give the owner and the name, such as `example/project`; only GitLab has groups within groups",
            Self::Tag(_) => "a tag has lower-case letters, digits and inner hyphens, at most 40 characters",
            Self::Commit(_) => "give the whole commit: 40 hexadecimal digits",
            Self::Api(_) => "give https://HOST/PATH without a password; http is for this machine alone",
            Self::Token => "give the token alone, as the forge made it",
            Self::TooLong { .. } => "post a shorter text that links to the whole report",
            Self::TooManyAnnotations { .. } => "annotate the worst, and say in the summary how many there are",
            Self::BadToken => "the token may have expired, or be one of another forge: make a new one",
            Self::Forbidden { kind, .. } => kind.dialect().hint(),
            Self::NotFound { .. } => "check the names and the number, and that the token is for this repository",
            Self::Invalid { .. } | Self::Refused { .. } => "the forge's own words say what it does not take",
            Self::RateLimited { .. } => "wait as long as the forge says, then post again: what is there already is not repeated",
            Self::Redirected { .. } => "the repository may have been renamed: give its name of today, and the API's own address",
            Self::Failed { .. } | Self::Unreachable { .. } => "post again later: what is there already is not repeated",
            Self::TooLarge | Self::BadResponse { .. } => {
                "is this the address of a forge's API, or does a proxy respond in its place?"
            }
            Self::TooManyPages { .. } => {
                "use another tag on a shorter thread, or close what is long: without the whole list, ours might be doubled"
            }
            Self::NoPull { .. } => "it may have been closed, or have a newer commit: then there is nothing to say about this one",
            Self::SeveralPulls { .. } => "name both branches, with the repository of the one that is to be merged",
            Self::CheckOfAnother { .. } => {
                "checks belong to commits, so the first verdict about a commit stands: push another commit to be judged anew"
            }
            Self::Unlabelled { .. } => {
                "close it, and give the token the right to set labels: otherwise the next call opens another"
            }
        }
    }

    /// Returns true if the data to be posted, or its destination, is not valid: no request was sent to the forge.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Kind(_)
                | Self::Repository(_)
                | Self::Tag(_)
                | Self::Commit(_)
                | Self::Api(_)
                | Self::Token
                | Self::TooLong { .. }
                | Self::TooManyAnnotations { .. }
        )
    }

    /// Returns true if the forge does not allow the request for this token, or for any.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::NotFound { .. } | Self::Invalid { .. } | Self::Refused { .. })
    }

    /// Returns true if a retry may succeed, and the forge may have executed the request nevertheless.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Failed { .. })
    }
}

/// Returns a permission's name in quotes, unless it is a phrase that already contains quotes.
fn quoted(permission: &str) -> String {
    if permission.contains('`') { permission.to_owned() } else { format!("`{permission}`") }
}

fn waiting(wait: Option<Duration>) -> String {
    wait.map_or_else(String::new, |wait| format!(" and says to wait {} s", wait.as_secs()))
}
