//! Posts results to a forge: GitHub, GitLab, and Gitea or Forgejo ([`Kind`]).
//!
//! Three things are posted: a [`Comment`] of a pull request that is edited in place, a [`Check`] of a commit, and an [`Issue`]
//! that stays open while there is something to review. Each is found again by a hidden tag or by its names, so that posting is
//! idempotent; [`PostOutcome`] tells whether something was changed.
//!
//! Every commenter can copy the tag. Therefore only posts by the token's own account are ever edited ([`Forge::comment`]).
//!
//! Every call reads, decides and writes. The decisions are pure functions over the forge's lists; only `client` sends requests,
//! and only `dialect` contains the differences between forges. A forge without checks gets a commit status in their place.

mod author;
mod check;
mod client;
mod comment;
mod dialect;
mod error;
mod idempotent_write;
mod issue;
mod kind;
mod names;
mod page;
mod pull;
mod status;
mod text;
mod token;

pub use check::{Annotation, Check, Conclusion, Level, MAX_ANNOTATIONS, MAX_OUTPUT_CHARS, MAX_TITLE_CHARS};
pub use client::{Forge, MAX_REPEATS, MAX_RESPONSE_BYTES, MAX_WAIT, MAX_WAITS, REQUEST_TIME};
pub use comment::{AbsentAction, Comment, MAX_BODY_CHARS};
pub use error::ForgeError;
pub use idempotent_write::PostOutcome;
pub use issue::{Issue, LABEL};
pub use kind::Kind;
pub use names::{Api, CommitSha, Repository, Tag};
pub use page::MAX_PAGES;
pub use pull::{HeadBranch, PullCriteria};
pub use status::MAX_DESCRIPTION_CHARS;
pub use token::Token;
