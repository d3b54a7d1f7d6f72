//! Container images: from a tag to the digest that a registry has for it (the OCI distribution protocol).

use assay_manifest::Digest;
use ureq::http::StatusCode;

use crate::fetch::{FetchError, Fetcher, is_this_machine, read};

/// Every form in which a registry may hold an image; an index is taken as it is, because its digest pins all platforms.
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                      application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// The longest reference: twice what registries allow for a repository's name.
const MAX_REFERENCE_BYTES: usize = 512;

/// The longest part of a token response that is repeated in an error.
const MAX_QUOTED_CHARS: usize = 200;

/// An image reference, with omitted parts filled in as Docker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Parses `[registry/]repository[:tag][@sha256:...]`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_REFERENCE_BYTES {
            return Err("it is too long");
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.parse().map_err(|_| "its digest is not a sha256")?)),
            None => (text, None),
        };
        let (first, rest) = name.split_once('/').unwrap_or(("", name));
        let has_registry = first.contains(['.', ':']) || first == "localhost";
        let (registry, path) = if has_registry { (first, rest) } else { ("registry-1.docker.io", name) };
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag.to_owned())),
            None => (path, None),
        };
        let official = !has_registry && !repository.contains('/');
        let repository = if official { format!("library/{repository}") } else { repository.to_owned() };
        if !is_registry(registry) || !repository.split('/').all(is_component) || !tag.as_deref().is_none_or(is_tag) {
            return Err("expected `[registry/]repository[:tag][@sha256:digest]`");
        }
        Ok(Self { registry: registry.to_owned(), repository, tag, digest })
    }

    /// Returns the digest in the reference itself.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    fn url(&self) -> String {
        let host = self.registry.rsplit_once(':').map_or(self.registry.as_str(), |(host, _)| host);
        let scheme = if is_this_machine(host) { "http" } else { "https" };
        let tag = self.tag.as_deref().unwrap_or("latest");
        format!("{scheme}://{}/v2/{}/manifests/{tag}", self.registry, self.repository)
    }
}

/// Returns true for a host name or address with an optional port, without characters of another part of an address.
fn is_registry(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}

/// Returns true for a part of a repository's name: lower-case letters and digits, with separators between them.
fn is_component(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.iter().all(|end| end.is_some_and(is_plain)) && text.bytes().all(|byte| is_plain(byte) || b"._-".contains(&byte))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = text.bytes().next().is_some_and(is_word);
    starts_well && text.len() <= 128 && text.bytes().all(|byte| is_word(byte) || b".-".contains(&byte))
}

/// Returns the tag's present digest from the registry. The response's bytes are hashed here: the registry's own digest is only
/// compared.
pub(crate) fn resolve(fetcher: &Fetcher, reference: &Reference) -> Result<Digest, FetchError> {
    let url = reference.url();
    let mut response = fetcher.request(&url, &[("accept", ACCEPT)])?;
    if response.status() == StatusCode::UNAUTHORIZED {
        let challenge = response.headers().get("www-authenticate").map(|value| String::from_utf8_lossy(value.as_bytes()));
        let token = anonymous_token(fetcher, &challenge.unwrap_or("it does not say which".into()))?;
        response = fetcher.request(&url, &[("accept", ACCEPT), ("authorization", &format!("Bearer {token}"))])?;
    }
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status { url, status: response.status() });
    }
    let said = response.headers().get("docker-content-digest");
    let said = said.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let found = Digest::compute(&read(&url, response)?);
    match said {
        Some(said) if said != found.to_string() => Err(FetchError::OtherImage { said, found: found.to_string() }),
        _ => Ok(found),
    }
}

/// Requests a token for reading without a login, as public registries give it.
fn anonymous_token(fetcher: &Fetcher, challenge: &str) -> Result<String, FetchError> {
    let refuse = || FetchError::Login(challenge.chars().take(MAX_QUOTED_CHARS).collect());
    let address = token_address(challenge).ok_or_else(refuse)?;
    let response: serde_json::Value = serde_json::from_slice(&fetcher.get(&address)?).map_err(|_| refuse())?;
    let token = ["token", "access_token"].iter().find_map(|name| response.get(name)?.as_str());
    token.map(str::to_owned).ok_or_else(refuse)
}

/// Returns the address of the token service in a `Bearer` challenge (RFC 6750).
fn token_address(challenge: &str) -> Option<String> {
    let (scheme, fields) = challenge.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let fields = parse_fields(fields);
    let realm = fields.iter().find(|(name, _)| name == "realm").map(|(_, value)| value)?;
    let asked = fields.iter().filter(|(name, _)| name == "service" || name == "scope");
    let query: Vec<_> = asked.map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
    let joint = if realm.contains('?') { '&' } else { '?' };
    Some(format!("{realm}{joint}{}", query.join("&")))
}

/// Returns the `name="value"` pairs of a challenge. A value may hold commas, as a scope does.
fn parse_fields(text: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let Some((value, after)) = after.split_once('"') else { break };
        fields.push((name.trim_start_matches([',', ' ']).to_ascii_lowercase(), value.to_owned()));
        rest = after;
    }
    fields
}

/// Encodes a value for a query (RFC 3986).
fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/,".contains(&byte);
    text.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests;
