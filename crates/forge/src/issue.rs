//! The issue that is open as long as there is something to review.

use crate::check::MAX_TITLE_CHARS;
use crate::client::{Call, Forge, RequestContext};
use crate::comment::{ForgePost, check_length, with_tag};
use crate::dialect::{Permission, RepositoryPath, Thread};
use crate::idempotent_write::Decision;
use crate::{ForgeError, PostOutcome, Repository, Tag, text};

/// The label by which Assay's issues are listed.
pub const LABEL: &str = "assay";

/// An issue. There is one open for each tag.
///
/// Its head keeps the text with which it was opened; each later change of the text is a comment below it, which also notifies the
/// issue's followers.
#[derive(Clone, Debug)]
pub struct Issue {
    /// The repository in which it is opened.
    pub repository: Repository,
    /// The tag that distinguishes it from other issues of the account there.
    pub tag: Tag,
    /// Its title, which is set when it is opened and then left to people.
    pub title: String,
    /// Its text, in Markdown. It is posted as it is: the caller escapes it.
    pub text: String,
}

/// An issue that was just opened.
#[derive(Debug)]
pub(crate) struct OpenedIssue {
    pub(crate) url: String,
    /// True if it has the label.
    pub(crate) is_labelled: bool,
}

impl Forge {
    /// Opens the issue, or adds a comment below the open one if the text has changed.
    pub fn issue(&self, issue: &Issue) -> Result<PostOutcome, ForgeError> {
        let body = self.dialect().without_commands(with_tag(&issue.tag, &issue.text, "issue")?);
        check_length(&issue.title, MAX_TITLE_CHARS, "title of the issue")?;
        let (about, place) = (issue.about(self), self.repository_path(&issue.repository)?);
        let look = || match self.find_issue(issue, &place, &about)? {
            Some(open) => Ok(decide(&open, self.last_comment(issue, &place, open.number, &about)?.as_ref(), &body)),
            None => Ok(Decision::Create),
        };
        let create = || self.open(issue, &place, &body, &about);
        let update = |number: &u64| self.write_comment(&place, Thread::Issue(*number), &body, &about);
        self.write_idempotently(look, create, update)
    }

    fn find_issue(
        &self,
        issue: &Issue,
        place: &RepositoryPath<'_>,
        about: &RequestContext,
    ) -> Result<Option<ForgePost>, ForgeError> {
        let (author, dialect) = (self.author()?, self.dialect());
        let is_wanted = |entry: &ForgePost| !entry.is_pull_request && entry.is_ours(&issue.tag, author);
        let see = |page: Vec<ForgePost>| page.into_iter().find(is_wanted);
        self.search(&dialect.issues(place), about, |page| dialect.parse_issues(page), see)
    }

    /// Returns the account's last comment below the issue, if there is one.
    fn last_comment(
        &self,
        issue: &Issue,
        place: &RepositoryPath<'_>,
        number: u64,
        about: &RequestContext,
    ) -> Result<Option<ForgePost>, ForgeError> {
        let author = self.author()?;
        let mut last = None;
        self.search_comments(place, Thread::Issue(number), about, |page| {
            last = page.into_iter().rfind(|entry| entry.is_ours(&issue.tag, author)).or(last.take());
            None::<()>
        })?;
        Ok(last)
    }

    fn open(&self, issue: &Issue, place: &RepositoryPath<'_>, body: &str, about: &RequestContext) -> Result<String, ForgeError> {
        let wanted = self.dialect().new_issue(self, place, issue, body)?;
        let response = self.write(Call::Post(wanted), &format!("{}/issues", place.path), about)?;
        let opened = self.parse_with(&response, about, |bytes| self.dialect().parse_opened(bytes))?;
        // GitHub silently drops labels that the token may not set; the next call would not find the issue.
        if opened.is_labelled { Ok(opened.url) } else { Err(ForgeError::Unlabelled { url: self.sanitise(&opened.url) }) }
    }
}

impl Issue {
    fn about(&self, forge: &Forge) -> RequestContext {
        forge.request_context(format!("the list of issues of `{}`", self.repository), Permission::Issues)
    }
}

/// Compares with the last text: the issue's head, if there is no comment by the account.
fn decide(open: &ForgePost, last: Option<&ForgePost>, body: &str) -> Decision<u64> {
    let said = last.unwrap_or(open);
    if text::is_same_text(said.text(), body) { Decision::Keep { url: said.url.clone() } } else { Decision::Update(open.number) }
}
