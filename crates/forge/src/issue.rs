//! The issue that is open as long as there is something to review.

use crate::check::MAX_TITLE_CHARS;
use crate::client::{About, Call, Forge};
use crate::comment::{Entry, tagged, within};
use crate::dialect::{Place, Right, Thread};
use crate::settle::Decision;
use crate::{ForgeError, Posted, Repository, Tag, text};

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
pub(crate) struct Opened {
    pub(crate) url: String,
    /// True if it has the label.
    pub(crate) is_labelled: bool,
}

impl Forge {
    /// Opens the issue, or adds a comment below the open one if the text has changed.
    pub fn issue(&self, issue: &Issue) -> Result<Posted, ForgeError> {
        let body = self.dialect().without_commands(tagged(&issue.tag, &issue.text, "issue")?);
        within(&issue.title, MAX_TITLE_CHARS, "title of the issue")?;
        let (about, place) = (issue.about(self), self.place(&issue.repository)?);
        let look = || match self.find_issue(issue, &place, &about)? {
            Some(open) => Ok(decide(&open, self.last_comment(issue, &place, open.number, &about)?.as_ref(), &body)),
            None => Ok(Decision::Create),
        };
        let create = || self.open(issue, &place, &body, &about);
        let update = |number: &u64| self.write_comment(&place, Thread::Issue(*number), &body, &about);
        self.settle(look, create, update)
    }

    fn find_issue(&self, issue: &Issue, place: &Place<'_>, about: &About) -> Result<Option<Entry>, ForgeError> {
        let (author, dialect) = (self.author()?, self.dialect());
        let is_wanted = |entry: &Entry| !entry.is_pull_request && entry.is_ours(&issue.tag, author);
        let see = |page: Vec<Entry>| page.into_iter().find(is_wanted);
        self.search(&dialect.issues(place), about, |page| dialect.parse_issues(page), see)
    }

    /// Returns the account's last comment below the issue, if there is one.
    fn last_comment(&self, issue: &Issue, place: &Place<'_>, number: u64, about: &About) -> Result<Option<Entry>, ForgeError> {
        let author = self.author()?;
        let mut last = None;
        self.search_comments(place, Thread::Issue(number), about, |page| {
            last = page.into_iter().rfind(|entry| entry.is_ours(&issue.tag, author)).or(last.take());
            None::<()>
        })?;
        Ok(last)
    }

    fn open(&self, issue: &Issue, place: &Place<'_>, body: &str, about: &About) -> Result<String, ForgeError> {
        let wanted = self.dialect().new_issue(self, place, issue, body)?;
        let response = self.write(Call::Post(wanted), &format!("{}/issues", place.path), about)?;
        let opened = self.parsed_by(&response, about, |bytes| self.dialect().parse_opened(bytes))?;
        // GitHub silently drops labels that the token may not set; the next call would not find the issue.
        if opened.is_labelled { Ok(opened.url) } else { Err(ForgeError::Unlabelled { url: self.shown(&opened.url) }) }
    }
}

impl Issue {
    fn about(&self, forge: &Forge) -> About {
        forge.about(format!("the list of issues of `{}`", self.repository), Right::Issues)
    }
}

/// Compares with the last text: the issue's head, if there is no comment by the account.
fn decide(open: &Entry, last: Option<&Entry>, body: &str) -> Decision<u64> {
    let said = last.unwrap_or(open);
    if text::same(said.text(), body) { Decision::Keep { url: said.url.clone() } } else { Decision::Update(open.number) }
}
