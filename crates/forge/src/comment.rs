//! The comment of a pull request that is edited in place.

use serde_json::json;

use crate::author::{Account, App, Author};
use crate::client::{Call, Forge, RequestContext};
use crate::dialect::{Permission, RepositoryPath, Thread};
use crate::idempotent_write::Decision;
use crate::{ForgeError, PostOutcome, Repository, Tag, text};

/// The longest text of a comment or an issue, in characters, with the line of its tag: GitHub's limit.
pub const MAX_BODY_CHARS: usize = 65_536;

/// A comment of a pull request. There is one for each tag, edited in place.
#[derive(Clone, Debug)]
pub struct Comment {
    /// The repository of the pull request.
    pub repository: Repository,
    /// The number of the pull request.
    pub pull: u64,
    /// The tag that distinguishes it from other comments of the account there.
    pub tag: Tag,
    /// Its text, in Markdown. It is posted as it is: the caller escapes it.
    pub text: String,
    /// The action if there is no such comment yet.
    pub if_absent: AbsentAction,
}

/// The action if there is no comment yet. An existing one is updated in any case, so that it does not keep an outdated statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentAction {
    /// Create one.
    Create,
    /// Create none: there is nothing to report.
    Skip,
}

/// A comment, or an issue with its head, as the forge lists it.
#[derive(Debug)]
pub(crate) struct ForgePost {
    pub(crate) id: u64,
    /// An issue's number, or 0 for a comment.
    pub(crate) number: u64,
    /// Its page.
    pub(crate) url: String,
    pub(crate) body: Option<String>,
    /// The author, unless the account is gone.
    pub(crate) account: Option<Account>,
    /// The app through which it was written, if the forge states it.
    pub(crate) app: Option<App>,
    /// True for a pull request: some forges list them among the issues.
    pub(crate) is_pull_request: bool,
}

impl ForgePost {
    /// Returns true if this carries the tag and the token's account wrote it. The tag alone proves nothing: every author can copy
    /// it.
    pub(crate) fn is_ours(&self, tag: &Tag, author: &Author) -> bool {
        tag.is_tag_of(self.text()) && author.is_account(self.account.as_ref(), self.app.as_ref())
    }

    pub(crate) fn text(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }
}

impl Forge {
    /// Creates or edits the account's comment. One that carries the tag and is by another account is ignored.
    pub fn comment(&self, comment: &Comment) -> Result<PostOutcome, ForgeError> {
        let body = self.dialect().without_commands(with_tag(&comment.tag, &comment.text, "comment")?);
        let (about, place, thread) =
            (comment.request_context(self), self.repository_path(&comment.repository)?, Thread::Pull(comment.pull));
        let look = || {
            let ours = self.find_comment(comment, &place, &about)?;
            Ok(decide(ours, &body, comment.if_absent))
        };
        let create = || self.write_comment(&place, thread, &body, &about);
        let update = |id: &u64| {
            let (call, path) = self.dialect().edit_comment(&place, thread, *id, &body);
            self.write_and_parse(call, &path, &place, thread, &about)
        };
        self.write_idempotently(look, create, update)
    }

    /// Finds the account's comment. Comments are listed from the oldest: the first one by the account is taken if there are
    /// several.
    fn find_comment(
        &self,
        comment: &Comment,
        place: &RepositoryPath<'_>,
        about: &RequestContext,
    ) -> Result<Option<ForgePost>, ForgeError> {
        let author = self.author()?;
        self.search_comments(place, Thread::Pull(comment.pull), about, |page| {
            page.into_iter().find(|entry| entry.is_ours(&comment.tag, author))
        })
    }

    /// Calls `see` with one page of comments after another, from the oldest.
    pub(crate) fn search_comments<T>(
        &self,
        place: &RepositoryPath<'_>,
        thread: Thread,
        about: &RequestContext,
        see: impl FnMut(Vec<ForgePost>) -> Option<T>,
    ) -> Result<Option<T>, ForgeError> {
        let dialect = self.dialect();
        self.search(&dialect.comments(place, thread), about, |page| dialect.parse_comments(place, thread, page), see)
    }

    /// Creates another comment below a pull request or an issue.
    pub(crate) fn write_comment(
        &self,
        place: &RepositoryPath<'_>,
        thread: Thread,
        body: &str,
        about: &RequestContext,
    ) -> Result<String, ForgeError> {
        let path = self.dialect().new_comment(place, thread);
        self.write_and_parse(Call::Post(json!({ "body": body })), &path, place, thread, about)
    }

    /// Creates or edits a comment, and returns its page.
    fn write_and_parse(
        &self,
        call: Call,
        path: &str,
        place: &RepositoryPath<'_>,
        thread: Thread,
        about: &RequestContext,
    ) -> Result<String, ForgeError> {
        let response = self.write(call, path, about)?;
        self.parse_with(&response, about, |bytes| self.dialect().parse_written(place, thread, bytes))
    }
}

impl Comment {
    fn request_context(&self, forge: &Forge) -> RequestContext {
        forge.request_context(format!("pull request {} of `{}`", self.pull, self.repository), Permission::Comments)
    }
}

/// Returns a text with its tag. Refuses one beyond the forge's limit: nothing is cut silently.
pub(crate) fn with_tag(tag: &Tag, text: &str, what: &'static str) -> Result<String, ForgeError> {
    let body = tag.prepend_to(text);
    check_length(&body, MAX_BODY_CHARS, what)?;
    Ok(body)
}

/// Refuses a text of more than `most` characters.
pub(crate) fn check_length(text: &str, most: usize, what: &'static str) -> Result<(), ForgeError> {
    let found = text.chars().count();
    if found > most { Err(ForgeError::TooLong { what, found, most }) } else { Ok(()) }
}

fn decide(ours: Option<ForgePost>, body: &str, if_absent: AbsentAction) -> Decision<u64> {
    match ours {
        Some(entry) if text::is_same_text(entry.text(), body) => Decision::Keep { url: entry.url },
        Some(entry) => Decision::Update(entry.id),
        None if if_absent == AbsentAction::Skip => Decision::Skip,
        None => Decision::Create,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag() -> Tag {
        "nightly".parse().expect("a tag")
    }

    fn entry(body: &str) -> ForgePost {
        let (url, account) = ("https://x/3".to_owned(), Some(Account::from_login("me".to_owned())));
        ForgePost { id: 3, number: 0, url, body: Some(body.to_owned()), account, app: None, is_pull_request: false }
    }

    #[test]
    fn what_is_written_depends_on_what_is_there() {
        let decided = |there: Option<&str>, if_absent| decide(there.map(entry), "a\nb", if_absent);
        assert_eq!(decided(None, AbsentAction::Create), Decision::Create);
        assert_eq!(decided(None, AbsentAction::Skip), Decision::Skip);
        for if_absent in [AbsentAction::Create, AbsentAction::Skip] {
            assert_eq!(decided(Some("a\r\nb"), if_absent), Decision::Keep { url: "https://x/3".to_owned() });
            assert_eq!(decided(Some("a\nc"), if_absent), Decision::Update(3));
        }
    }

    #[test]
    fn a_tag_that_somebody_else_wrote_is_not_ours() {
        let entry = entry("<!-- assay:nightly -->\ntext");
        assert!(entry.is_ours(&tag(), &Author::from_login("me")));
        assert!(!entry.is_ours(&tag(), &Author::from_login("you")));
        assert!(!entry.is_ours(&"daily".parse().expect("a tag"), &Author::from_login("me")));
    }

    #[test]
    fn a_text_counts_with_its_tag() {
        let most = MAX_BODY_CHARS - tag().prepend_to("").chars().count();
        assert!(with_tag(&tag(), &"ü".repeat(most), "comment").is_ok());
        let error = with_tag(&tag(), &"ü".repeat(most + 1), "comment").expect_err("too long");
        insta::assert_snapshot!(error, @"the comment has 65537 characters, and the forge takes 65536");
        assert!(error.is_usage());
    }
}
