//! The names of things on a forge, checked once: none of them needs escaping in an address or in a comment.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ureq::http::Uri;

use crate::ForgeError;
use crate::text;

/// The longest owner or name of a repository: GitHub allows 39 and 100 characters, others a little more for owners.
const MAX_REPOSITORY_PART: usize = 100;

/// The longest tag, which is a name as Assay's definitions have them.
const MAX_TAG: usize = 40;

/// The most nested groups: GitLab's limit is twenty below the first.
const MAX_OWNERS: usize = 21;

/// A repository by its owner and name, such as `example/project`; on GitLab, the owner may be several nested groups, such as
/// `example/tools/project`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    owners: Vec<String>,
    name: String,
}

impl Repository {
    pub(crate) fn has_one_owner(&self) -> bool {
        self.owners.len() == 1
    }
}

impl FromStr for Repository {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        let refused = || ForgeError::Repository(text::sanitise(text));
        let (owners, name) = text.rsplit_once('/').ok_or_else(refused)?;
        let owners: Vec<String> = owners.split('/').map(ToOwned::to_owned).collect();
        if owners.len() > MAX_OWNERS || !owners.iter().all(|owner| is_owner(owner)) || !is_repository_name(name) {
            return Err(refused());
        }
        Ok(Self { owners, name: name.to_owned() })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owners.join("/"), self.name)
    }
}

fn is_owner(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && is_repository_name(text)
}

fn is_repository_name(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    // A part of dots alone would climb in the address.
    is_plain && (1..=MAX_REPOSITORY_PART).contains(&text.len()) && text != "." && text != ".."
}

/// The tag that distinguishes comments and issues of one account, such as `nightly`: `[a-z0-9]([a-z0-9-]*[a-z0-9])?`, at most 40
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// Returns the first line of a tagged text, which a forge does not show.
    pub(crate) fn line(&self) -> String {
        format!("<!-- assay:{} -->", self.0)
    }

    /// Returns `text` below the tag's line.
    pub(crate) fn prepend_to(&self, text: &str) -> String {
        format!("{}\n{text}", self.line())
    }

    /// Returns true if a text begins with the tag's line.
    pub(crate) fn is_tag_of(&self, body: &str) -> bool {
        body.lines().next().is_some_and(|first| first.trim_end() == self.line())
    }
}

impl FromStr for Tag {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        let is_inner = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let has_ends = !text.starts_with('-') && !text.ends_with('-');
        if is_inner && has_ends && (1..=MAX_TAG).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ForgeError::Tag(text::sanitise(text)))
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A commit by its whole SHA-1: 40 hexadecimal digits, kept in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitSha(String);

impl FromStr for CommitSha {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        if text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(ForgeError::Commit(text::sanitise(text)))
        }
    }
}

impl fmt::Display for CommitSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The base address of a forge's REST API, such as `https://api.github.com` or `https://forge.example/api/v3`.
///
/// It is https, because every request carries the token; http is for this machine alone, on which the connection cannot be
/// intercepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api(String);

impl Api {
    /// Returns the address of a path, which begins with a slash.
    pub(crate) fn url_for(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Returns GitLab's own server.
    pub(crate) fn gitlab() -> Self {
        Self("https://gitlab.com/api/v4".to_owned())
    }

    /// Returns the base address of the pages for people, on a server of GitLab.
    pub(crate) fn web(&self) -> &str {
        self.0.strip_suffix("/api/v4").unwrap_or(&self.0)
    }

    /// Returns the address of the GraphQL API: a server of an enterprise has it beside `/api/v3`, not below.
    pub(crate) fn graphql(&self) -> String {
        match self.0.strip_suffix("/api/v3") {
            Some(host) => format!("{host}/api/graphql"),
            None => self.url_for("/graphql"),
        }
    }

    /// Returns true if an address is on the same host, by the same scheme and port.
    pub(crate) fn is_same_origin(&self, url: &str) -> bool {
        origin(url).is_some_and(|there| origin(&self.0) == Some(there))
    }

    /// Returns true if the connection stays on this machine and is not encrypted.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.starts_with("http://")
    }
}

impl Default for Api {
    fn default() -> Self {
        Self("https://api.github.com".to_owned())
    }
}

impl FromStr for Api {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        let refused = || ForgeError::Api(text::without_user(text));
        let uri: Uri = text.parse().map_err(|_| refused())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(refused)?;
        let is_guarded = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => is_this_machine(host),
            _ => false,
        };
        if is_guarded && !text.contains(['?', '#', '@']) {
            Ok(Self(text.trim_end_matches('/').to_owned()))
        } else {
            Err(refused())
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns scheme, host and port, each in the form in which it can be compared.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual_port = if scheme == "https" { 443 } else { 80 };
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    Some((scheme, authority.host().to_ascii_lowercase(), authority.port_u16().unwrap_or(usual_port)))
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is<T: FromStr>(text: &str) -> bool {
        text.parse::<T>().is_ok()
    }

    #[test]
    fn a_repository_is_an_owner_and_a_name() {
        for good in ["example/project", "a/b", "A-1/x.y_z-", "a/.github", "a/...", "a/b/c"] {
            assert_eq!(good.parse::<Repository>().expect(good).to_string(), good);
        }
        for bad in [
            "", "a", "a/", "/b", "a/../c", "a//c", "a/.b/c", "a/..", "a/.", "../b", "a b/c", "a/b?c", "a/b#c", "a/b%2f", "ä/b",
            "a//b", "a/b\n",
        ] {
            assert!(!is::<Repository>(bad), "{bad}");
        }
        assert!(is::<Repository>(&format!("a/{}", "b".repeat(100))));
        assert!(!is::<Repository>(&format!("a/{}", "b".repeat(101))));
        assert!(is::<Repository>(&("a/".repeat(MAX_OWNERS) + "b")) && !is::<Repository>(&("a/".repeat(MAX_OWNERS + 1) + "b")));
    }

    #[test]
    fn a_tag_is_a_name() {
        for good in ["a", "0", "nightly", "a-b", "a--b", &"x".repeat(40)] {
            assert!(is::<Tag>(good), "{good}");
        }
        for bad in ["", "-", "-a", "a-", "A", "a b", "a_b", "-->", "a\n", "ü", &"x".repeat(41)] {
            assert!(!is::<Tag>(bad), "{bad}");
        }
    }

    #[test]
    fn only_a_first_line_that_is_the_whole_tag_carries_it() {
        let tag: Tag = "a".parse().expect("a tag");
        let written = tag.prepend_to("text");
        assert_eq!(written, "<!-- assay:a -->\ntext");
        for good in [written.as_str(), "<!-- assay:a -->", "<!-- assay:a -->\r\ntext", "<!-- assay:a --> \n"] {
            assert!(tag.is_tag_of(good), "{good}");
        }
        for bad in ["", "text", "<!-- assay:ab -->\n", "<!-- assay:a -->x\n", " <!-- assay:a -->", "> \n<!-- assay:a -->"] {
            assert!(!tag.is_tag_of(bad), "{bad}");
        }
    }

    #[test]
    fn a_commit_is_forty_digits() {
        let sha = "0123456789ABCDEF0123456789abcdef01234567";
        assert_eq!(sha.parse::<CommitSha>().expect("a commit").to_string(), sha.to_ascii_lowercase());
        for bad in ["", "main", &sha[1..], &format!("{sha}0"), &sha.replace('0', "g")] {
            assert!(!is::<CommitSha>(bad), "{bad}");
        }
    }

    #[test]
    fn an_api_is_encrypted_or_here() {
        for good in [
            "https://api.github.com",
            "https://forge.example/api/v3/",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost:1",
        ] {
            assert_eq!(good.parse::<Api>().expect(good).to_string(), good.trim_end_matches('/'));
        }
        for bad in [
            "",
            "api.github.com",
            "http://api.github.com",
            "http://127.0.0.1.example",
            "ftp://127.0.0.1",
            "https://",
            "https://user:hidden@host",
            "https://host?x=1",
            "https://host#x",
            "/a",
        ] {
            let error = bad.parse::<Api>().expect_err(bad);
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
        }
    }

    #[test]
    fn pages_for_people_are_beside_the_api() {
        assert_eq!(Api::gitlab().web(), "https://gitlab.com");
        assert_eq!("https://x.example/git/api/v4/".parse::<Api>().expect("an address").web(), "https://x.example/git");
    }

    #[test]
    fn questions_in_graphql_go_beside_version_three() {
        let at = |text: &str| text.parse::<Api>().expect(text).graphql();
        assert_eq!(at("https://api.github.com"), "https://api.github.com/graphql");
        assert_eq!(at("https://forge.example/api/v3"), "https://forge.example/api/graphql");
    }

    #[test]
    fn another_scheme_port_or_host_is_elsewhere() {
        let api = Api::default();
        for here in ["https://api.github.com/x?page=2", "https://API.github.com:443/", "HTTPS://api.github.com/"] {
            assert!(api.is_same_origin(here), "{here}");
        }
        for there in [
            "http://api.github.com/",
            "https://api.github.com:444/",
            "https://api.github.com.example/",
            "https://api.github.com@evil.example/",
            "https://evil.example/https://api.github.com/",
            "//api.github.com/",
            "/x",
            "",
        ] {
            assert!(!api.is_same_origin(there), "{there}");
        }
    }
}
