//! The addresses of remotes: the allowed ones, and the form in which they are recorded.

use crate::RemoteError;

/// The longest address or revision.
pub(crate) const MAX_TEXT: usize = 2_048;
/// The allowed protocols. `ext` and other helpers run programs that the address names, and `http` proves nothing.
pub(crate) const PROTOCOLS: [&str; 4] = ["https", "ssh", "git", "file"];

/// Refuses every address that could make git do more than reach a remote, and returns the address to record.
pub(crate) fn check_url(url: &str) -> Result<String, RemoteError> {
    let address = parse_url(url)?;
    if address.has_secret() { Err(RemoteError::SecretInUrl { url: address.redacted() }) } else { Ok(address.redacted()) }
}

/// Parses an address that git may be given. It may still hold a secret.
pub(crate) fn parse_url(url: &str) -> Result<Address<'_>, RemoteError> {
    let refuse = |rule| {
        let shown = redact_url(url).unwrap_or_else(|| "(not shown)".to_owned());
        Err(RemoteError::Url { url: shown.chars().take(200).collect(), rule })
    };
    if url.len() > MAX_TEXT {
        return refuse("it is longer than 2,048 bytes");
    }
    if url.starts_with('-') {
        return refuse("it begins with `-`");
    }
    if url.chars().any(|character| character.is_control() || character == ' ') {
        return refuse("it holds a space or a control character");
    }
    let Some(address) = Address::parse(url) else { return refuse("expected https, ssh, git or file") };
    // Git passes the host and the path to `ssh` and to the remote's shell.
    if address.host.starts_with('-') || address.path.starts_with('-') || address.user.is_some_and(|user| user.starts_with('-')) {
        return refuse("a part of it begins with `-`");
    }
    Ok(address)
}

/// An address by git's rules.
pub(crate) struct Address<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    pub(crate) host: &'a str,
    path: &'a str,
    /// True for `host:path` instead of `ssh://host/path`.
    short: bool,
}

impl<'a> Address<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        match url.split_once("://") {
            Some((scheme, rest)) if PROTOCOLS.contains(&scheme) => Some(Self::parse_long(scheme, rest)),
            Some(_) => None,
            None => Self::parse_short(url),
        }
    }

    fn parse_long(scheme: &'a str, rest: &'a str) -> Self {
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // A query or a fragment can contain a token, and no git remote needs one.
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let (credentials, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let password = credentials.and_then(|both| both.split_once(':')).map(|(_, password)| password);
        let user = credentials.map(|both| both.split(':').next().unwrap_or_default());
        Self { scheme, user, password, host, path, short: false }
    }

    /// Parses `user@host:path`, which is ssh. A path of this machine has a slash before any colon; `helper::address` runs a
    /// helper.
    fn parse_short(url: &'a str) -> Option<Self> {
        let (authority, path) = url.split_once(':')?;
        if authority.contains('/') || path.starts_with(':') || path.is_empty() {
            return None;
        }
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        (!host.is_empty()).then_some(Self { scheme: "ssh", user, password: None, host, path, short: true })
    }

    /// Returns true if it contains a secret. A user is a name for ssh; elsewhere it may be a token.
    fn has_secret(&self) -> bool {
        self.password.is_some() || (self.scheme != "ssh" && self.user.is_some())
    }

    pub(crate) fn redacted(&self) -> String {
        let user = self.user.filter(|_| self.scheme == "ssh").map(|user| format!("{user}@")).unwrap_or_default();
        if self.short {
            format!("{user}{}:{}", self.host, self.path)
        } else {
            format!("{}://{user}{}{}", self.scheme, self.host, self.path)
        }
    }
}

/// Returns the address of a remote as it may be recorded: without password, query and fragment, and without a user unless it is
/// ssh. `None` for a text that is no address, such as a path of this machine.
pub fn redact_url(url: &str) -> Option<String> {
    // An address that is refused elsewhere (http) is still worth recording.
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if scheme == "http" {
        Some(Address::parse_long(scheme, rest).redacted())
    } else {
        Address::parse(url).map(|url| url.redacted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        check_url(url).expect_err("refused").to_string()
    }

    #[test]
    fn credentials_are_never_recorded() {
        let redacted = |url| redact_url(url).expect("an address");
        assert_eq!(redacted("https://token@example.org/a/b.git"), "https://example.org/a/b.git");
        assert_eq!(redacted("https://user:pass@example.org:8443/a?token=x#y"), "https://example.org:8443/a");
        assert_eq!(redacted("https://user:p@ss@example.org/a"), "https://example.org/a");
        assert_eq!(redacted("http://user:pass@example.org"), "http://example.org");
        assert_eq!(redacted("ssh://git:pass@example.org/a"), "ssh://git@example.org/a");
        assert_eq!(redacted("git@example.org:a/b.git"), "git@example.org:a/b.git");
        assert_eq!(redacted("file:///srv/a.git"), "file:///srv/a.git");
        for path in ["/srv/a.git", "../a", "./a:b", "", "ext::sh -c x"] {
            assert_eq!(redact_url(path), None, "{path}");
        }
    }

    #[test]
    fn addresses_that_could_do_more_than_fetch_are_refused() {
        let no_protocol = "expected https, ssh, git or file";
        assert_eq!(refused("--upload-pack=touch /x"), "`(not shown)` is not the address of a remote: it begins with `-`");
        for bad in ["ext::sh -c x", "http://example.org/a", "ftp://example.org/a", "/srv/a", "a/b:c", "fd::3", "", ":a"] {
            let text = refused(bad);
            assert!(text.contains(no_protocol) || text.contains("space"), "{bad}: {text}");
        }
        assert!(refused("https://example.org/\na").ends_with("it holds a space or a control character"));
        assert!(refused("ssh://-oProxyCommand=x/a").ends_with("a part of it begins with `-`"));
        assert!(refused("-oProxyCommand=x@example.org:a").ends_with("it begins with `-`"));
        assert!(refused("git@example.org:-x").ends_with("a part of it begins with `-`"));
    }

    #[test]
    fn an_address_with_a_secret_is_refused_without_showing_it() {
        for secret in ["https://hunter2@example.org/a", "https://user:hunter2@example.org/a", "ssh://git:hunter2@example.org/a"] {
            let text = refused(secret);
            assert!(text.ends_with("holds a user or a password") && !text.contains("hunter2"), "{text}");
        }
        assert!(!refused("ftp://user:hunter2@example.org/a").contains("hunter2"));
    }
}
