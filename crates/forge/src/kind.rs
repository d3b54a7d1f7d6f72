//! The kinds of forges whose APIs are known.

use std::fmt;
use std::str::FromStr;

use crate::dialect::{Dialect, GitHub, GitLab, Gitea};
use crate::{Api, ForgeError, text};

/// The API that a forge speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// GitHub's REST API, also that of GitHub Enterprise Server.
    #[default]
    GitHub,
    /// GitLab's REST API, version 4.
    GitLab,
    /// The REST API of Gitea, version 1, which Forgejo speaks as well.
    Gitea,
}

impl Kind {
    /// The names of all kinds, as [`FromStr`] takes them.
    pub const NAMES: [&'static str; 3] = ["github", "gitlab", "gitea"];

    /// Returns the API of this kind's public forge. There is none for Gitea, which is self-hosted.
    pub fn api(self) -> Option<Api> {
        match self {
            Self::GitHub => Some(Api::default()),
            Self::GitLab => Some(Api::gitlab()),
            Self::Gitea => None,
        }
    }

    pub(crate) fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::GitHub => &GitHub,
            Self::GitLab => &GitLab,
            Self::Gitea => &Gitea,
        }
    }
}

impl FromStr for Kind {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        let all = [Self::GitHub, Self::GitLab, Self::Gitea];
        let known = all.into_iter().find(|kind| kind.to_string() == text);
        known.ok_or_else(|| ForgeError::Kind(text::sanitise(text)))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Gitea => "gitea",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_as_it_is_shown() {
        for name in Kind::NAMES {
            assert_eq!(name.parse::<Kind>().expect(name).to_string(), name);
        }
        insta::assert_snapshot!("bitbucket".parse::<Kind>().expect_err("unknown"), @"`bitbucket` is no kind of forge whose API is known");
    }
}
