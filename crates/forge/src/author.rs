//! The account of the token: nothing of another account is edited.

use serde::Deserialize;

/// The login under which GitHub posts with a workflow's own token.
const ACTIONS: &str = "github-actions[bot]";

/// The end of the login of an app's account. No person's login holds a bracket.
const BOT: &str = "[bot]";

/// The account of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author(String);

/// An account as a forge describes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Account {
    pub(crate) login: String,
    /// `User` or `Bot`, if the forge states it.
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The app through which something was written.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct App {
    slug: Option<String>,
}

impl Account {
    /// Returns an account of a forge that does not state the kind of accounts.
    pub(crate) fn from_login(login: String) -> Self {
        Self { login, kind: None }
    }
}

impl Author {
    pub(crate) fn from_login(login: &str) -> Self {
        Self(login.to_owned())
    }

    /// Returns the account to assume if the forge does not name the token's account, as with the token of a workflow.
    pub(crate) fn for_workflow() -> Self {
        Self(ACTIONS.to_owned())
    }

    /// Returns true if an account, writing through an app or not, is this one.
    pub(crate) fn is_account(&self, account: Option<&Account>, by: Option<&App>) -> bool {
        let is_named = account.is_some_and(|account| account.login.eq_ignore_ascii_case(&self.0));
        is_named
            && account.and_then(|account| account.kind.as_deref()).is_none_or(|kind| self.is_kind(kind))
            && self.may_write_by(by)
    }

    /// Returns true if a check is by this account. Checks have an app and no person.
    pub(crate) fn is_app(&self, app: Option<&App>) -> bool {
        match (self.slug(), app.and_then(|app| app.slug.as_deref())) {
            (Some(ours), Some(slug)) => slug.eq_ignore_ascii_case(ours),
            (ours, slug) => ours.is_none() && slug.is_none(),
        }
    }

    fn slug(&self) -> Option<&str> {
        self.0.strip_suffix(BOT)
    }

    fn is_kind(&self, kind: &str) -> bool {
        (kind == "Bot") == self.slug().is_some()
    }

    /// Returns true if the account may write through this app: an app's account writes through its own app, a person through any.
    fn may_write_by(&self, app: Option<&App>) -> bool {
        match (self.slug(), app.and_then(|app| app.slug.as_deref())) {
            (Some(ours), Some(slug)) => slug.eq_ignore_ascii_case(ours),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(login: &str, kind: &str) -> Account {
        Account { login: login.to_owned(), kind: Some(kind.to_owned()) }
    }

    fn app(slug: &str) -> App {
        App { slug: Some(slug.to_owned()) }
    }

    #[test]
    fn only_the_account_itself_is_the_author() {
        let author = Author::from_login("Example");
        assert!(author.is_account(Some(&account("example", "User")), None));
        assert!(author.is_account(Some(&account("example", "User")), Some(&app("a-mobile-app"))));
        assert!(
            author.is_account(Some(&Account { login: "example".to_owned(), kind: None }), None),
            "not every forge says the kind"
        );
        assert!(!author.is_account(Some(&account("example", "Bot")), None));
        assert!(!author.is_account(Some(&account("example2", "User")), None));
        assert!(!author.is_account(None, None), "an account that is gone");
    }

    #[test]
    fn a_workflow_is_an_app_and_no_person_who_is_called_so() {
        let author = Author::for_workflow();
        assert!(author.is_account(Some(&account("github-actions[bot]", "Bot")), Some(&app("github-actions"))));
        assert!(author.is_account(Some(&account("github-actions[bot]", "Bot")), None), "older comments do not name the app");
        assert!(!author.is_account(Some(&account("github-actions[bot]", "User")), None));
        assert!(!author.is_account(Some(&account("github-actions", "User")), None));
        assert!(!author.is_account(Some(&account("github-actions[bot]", "Bot")), Some(&app("another"))));
    }

    #[test]
    fn a_check_is_ours_by_its_app() {
        assert!(Author::for_workflow().is_app(Some(&app("github-actions"))));
        assert!(!Author::for_workflow().is_app(Some(&app("another"))));
        assert!(!Author::for_workflow().is_app(None));
        assert!(Author::from_login("example").is_app(None), "a forge whose checks have no apps");
        assert!(!Author::from_login("example").is_app(Some(&app("another"))));
    }
}
