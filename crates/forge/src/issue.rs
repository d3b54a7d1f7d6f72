//! The issue that is open as long as there is something to look at.

use serde::Deserialize;
use serde_json::json;

use crate::check::MAX_TITLE_CHARS;
use crate::client::{About, Forge};
use crate::comment::{Entry, comments_of, tagged, within};
use crate::settle::Decision;
use crate::{ForgeError, Posted, Repository, Tag, text};

/// The label by which our issues are listed.
pub const LABEL: &str = "assay";

/// An issue. There is one open for each tag.
///
/// Its head keeps what it was opened with; each change of the text after that is a comment below it, which also tells those who
/// follow it.
#[derive(Clone, Debug)]
pub struct Issue {
    /// Where it is opened.
    pub repository: Repository,
    /// What tells it from our other issues there.
    pub tag: Tag,
    /// Its title, which is set when it is opened and then left to people.
    pub title: String,
    /// What it says, in Markdown. It is posted as it is: escaping is the caller's.
    pub text: String,
}

/// An issue that was just opened.
#[derive(Debug, Deserialize)]
struct Opened {
    html_url: String,
    #[serde(default)]
    labels: Vec<Label>,
}

#[derive(Debug, Deserialize)]
struct Label {
    name: String,
}

impl Forge {
    /// Opens the issue, or writes a comment below the open one where what it says has changed.
    pub fn issue(&self, issue: &Issue) -> Result<Posted, ForgeError> {
        let body = tagged(&issue.tag, &issue.text, "issue")?;
        within(&issue.title, MAX_TITLE_CHARS, "title of the issue")?;
        let about = issue.about();
        let look = || match self.find_issue(issue, &about)? {
            Some(open) => Ok(decide(&open, self.last_comment(issue, open.number, &about)?.as_ref(), &body)),
            None => Ok(Decision::Create),
        };
        let create = || self.open(issue, &body, &about);
        let update = |number: &u64| self.write_comment(&issue.repository, *number, &body, &about);
        self.settle(look, create, update)
    }

    fn find_issue(&self, issue: &Issue, about: &About) -> Result<Option<Entry>, ForgeError> {
        let author = self.author()?;
        let path = format!("/repos/{}/issues?state=open&labels={LABEL}&per_page=100", issue.repository);
        let is_wanted = |entry: &Entry| !entry.is_pull_request() && entry.is_ours(&issue.tag, author);
        self.search(&path, about, |page: Vec<Entry>| page.into_iter().find(is_wanted))
    }

    /// What we said last below the issue, where we have said more than its head.
    fn last_comment(&self, issue: &Issue, number: u64, about: &About) -> Result<Option<Entry>, ForgeError> {
        let author = self.author()?;
        let mut last = None;
        self.search(&comments_of(&issue.repository, number), about, |page: Vec<Entry>| {
            last = page.into_iter().rfind(|entry| entry.is_ours(&issue.tag, author)).or(last.take());
            None::<()>
        })?;
        Ok(last)
    }

    fn open(&self, issue: &Issue, body: &str, about: &About) -> Result<String, ForgeError> {
        let path = format!("/repos/{}/issues", issue.repository);
        let opened: Opened = self.post(&path, &json!({ "title": issue.title, "body": body, "labels": [LABEL] }), about)?;
        // GitHub leaves labels away without a word where the token may not set them; the next call would not find the issue.
        if opened.labels.iter().any(|label| label.name == LABEL) {
            Ok(opened.html_url)
        } else {
            Err(ForgeError::Unlabelled { url: self.shown(&opened.html_url) })
        }
    }
}

impl Issue {
    fn about(&self) -> About {
        About { what: format!("the list of issues of `{}`", self.repository), permission: "issues: write" }
    }
}

/// Compares with what we said last: the issue's head, where there is no comment of ours.
fn decide(open: &Entry, last: Option<&Entry>, body: &str) -> Decision<u64> {
    let said = last.unwrap_or(open);
    if text::same(said.text(), body) { Decision::Keep { url: said.html_url.clone() } } else { Decision::Update(open.number) }
}
