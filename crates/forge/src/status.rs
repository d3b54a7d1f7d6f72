//! The statuses of commits, on forges that have no checks.
//!
//! A status is a state, a name, one line and an address. Statuses are never changed: another of the same name replaces the
//! previous one. The part of a check that exceeds a line belongs into a comment.

use serde_json::{Value, json};

use crate::author::{Account, Author};
use crate::check::kind;
use crate::client::{Call, Forge, RequestContext};
use crate::comment::check_length;
use crate::dialect::{Parsed, RepositoryPath};
use crate::idempotent_write::Decision;
use crate::{Check, CommitSha, Conclusion, ForgeError, PostOutcome, text};

/// The longest line of a status, in characters: GitLab's limit.
pub const MAX_DESCRIPTION_CHARS: usize = 255;

/// The API of a forge's statuses.
pub(crate) trait Statuses: Sync {
    /// Returns the path of the list of a commit's statuses, including replaced ones; those of `name` at least.
    fn list(&self, place: &RepositoryPath<'_>, commit: &CommitSha, name: &str) -> String;

    /// Parses the statuses of a page of that list.
    fn parse(&self, page: &[u8]) -> Parsed<Vec<Status>>;

    /// Returns the field of a new status that holds its name.
    fn name_field(&self) -> &'static str;

    /// Returns the state for the result of a check.
    fn state(&self, conclusion: Conclusion) -> &'static str;
}

/// A status as the forge lists it.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) description: String,
    pub(crate) target_url: String,
    pub(crate) account: Option<Account>,
}

/// A status to be posted.
struct WantedStatus<'a> {
    check: &'a Check,
    state: &'static str,
    description: String,
}

impl Forge {
    /// Posts the result of a check as a status, unless the newest one of its name already states it.
    pub(crate) fn status(&self, check: &Check, statuses: &dyn Statuses) -> Result<PostOutcome, ForgeError> {
        let wanted = WantedStatus { check, state: statuses.state(check.conclusion), description: description(check)? };
        let place = self.repository_path(&check.repository)?;
        let about = check.request_context(self);
        let look = || decide(&self.list_statuses(check, statuses, &place, &about)?, self.author()?, &wanted);
        let post = || {
            let path = format!("{}/statuses/{}", place.path, check.commit);
            self.write(Call::Post(wanted.body(statuses.name_field())), &path, &about)?;
            Ok(check.details_url.clone().unwrap_or_default())
        };
        self.write_idempotently(look, post, |()| post())
    }

    /// Returns all statuses of that name, by all accounts.
    fn list_statuses(
        &self,
        check: &Check,
        statuses: &dyn Statuses,
        place: &RepositoryPath<'_>,
        about: &RequestContext,
    ) -> Result<Vec<Status>, ForgeError> {
        let mut found = Vec::new();
        let path = statuses.list(place, &check.commit, &check.name);
        self.search(
            &path,
            about,
            |page| statuses.parse(page),
            |page: Vec<Status>| {
                found.extend(page.into_iter().filter(|status| status.name == check.name));
                None::<()>
            },
        )?;
        Ok(found)
    }
}

impl WantedStatus<'_> {
    fn body(&self, name_field: &str) -> Value {
        let mut body = json!({ "state": self.state, "description": self.description, name_field: self.check.name });
        if let Some(url) = &self.check.details_url {
            body["target_url"] = json!(url);
        }
        body
    }

    fn is_stated_by(&self, status: &Status) -> bool {
        status.state == self.state
            && text::is_same_text(&status.description, &self.description)
            && self.check.details_url.as_deref().is_none_or(|url| text::is_same_text(&status.target_url, url))
    }
}

/// Returns the line of a status: the check's title, and its subject, by which it is found again.
fn description(check: &Check) -> Result<String, ForgeError> {
    if let found @ 1.. = check.annotations.len() {
        return Err(ForgeError::TooManyAnnotations { found, most: 0 });
    }
    let line = format!("{} [{}]", check.title, check.external_id);
    check_length(&line, MAX_DESCRIPTION_CHARS, "line of the status")?;
    Ok(line)
}

/// Returns the subject in a status of Assay.
fn subject(description: &str) -> Option<&str> {
    Some(description.trim_end().strip_suffix(']')?.rsplit_once(" [")?.1)
}

/// Decides on the newest status of a name, which is the one that the forge shows, by any account. Therefore one of another
/// account after the token's own is followed by another one.
fn decide(all: &[Status], author: &Author, wanted: &WantedStatus<'_>) -> Result<Decision<()>, ForgeError> {
    let check = wanted.check;
    let is_ours = |status: &&Status| {
        author.is_account(status.account.as_ref(), None)
            && subject(&status.description).is_some_and(|id| kind(id) == kind(&check.external_id))
    };
    let newest = all.iter().map(|status| status.id).max();
    let Some(ours) = all.iter().filter(is_ours).max_by_key(|status| status.id) else { return Ok(Decision::Create) };
    if let Some(of) = subject(&ours.description).filter(|of| *of != check.external_id) {
        let (name, commit) = (check.name.clone(), check.commit.to_string());
        return Err(ForgeError::CheckOfAnother { name, commit, of: text::sanitise(of) });
    }
    if newest == Some(ours.id) && wanted.is_stated_by(ours) {
        return Ok(Decision::Keep { url: ours.target_url.clone() });
    }
    Ok(Decision::Update(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_status_is_about_stands_at_its_end() {
        assert_eq!(subject("Regressed: 1 of 2 metrics [pull:17]"), Some("pull:17"));
        assert_eq!(subject("a [b] c [pull:17] "), Some("pull:17"));
        for other in ["", "Passed", "pull:17]", "[pull:17]", "Passed [pull:17"] {
            assert_eq!(subject(other), None, "{other}");
        }
    }
}
