//! Container images: from a tag to the digest that a registry has for it (the OCI distribution protocol).

use assay_manifest::Digest;
use ureq::http::StatusCode;

use crate::fetch::{FetchError, Fetcher, is_this_machine, read};

/// Every form in which a registry may hold an image; an index is taken as it is, because its digest pins all platforms.
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                      application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// An image reference, with what it leaves out filled in as Docker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Reads `[registry/]repository[:tag][@sha256:...]`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
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
        let plain =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
        if !plain(&repository) || tag.as_deref().is_some_and(|tag| !plain(tag) || tag.contains('/')) {
            return Err("expected `[registry/]repository[:tag][@sha256:digest]`");
        }
        Ok(Self { registry: registry.to_owned(), repository, tag, digest })
    }

    /// The digest that it names itself.
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

/// Asks the registry what the tag stands for now. The answer's bytes are hashed here: what the registry says is only compared.
pub(crate) fn resolve(fetcher: &Fetcher, reference: &Reference) -> Result<Digest, FetchError> {
    let url = reference.url();
    let mut response = fetcher.request(&url, &[("accept", ACCEPT)])?;
    if response.status() == StatusCode::UNAUTHORIZED {
        let challenge = response.headers().get("www-authenticate").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = anonymous_token(fetcher, challenge)?;
        response = fetcher.request(&url, &[("accept", ACCEPT), ("authorization", &format!("Bearer {token}"))])?;
    }
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status { url, status: response.status() });
    }
    let said = response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let found = Digest::of(&read(&url, response)?);
    match said {
        Some(said) if said != found.to_string() => Err(FetchError::OtherImage { said, found: found.to_string() }),
        _ => Ok(found),
    }
}

/// A token for reading without a login, as public registries give it.
fn anonymous_token(fetcher: &Fetcher, challenge: &str) -> Result<String, FetchError> {
    let refuse = || FetchError::Login(challenge.chars().take(200).collect());
    let fields = challenge.strip_prefix("Bearer ").ok_or_else(refuse)?;
    let field = |name: &str| {
        let start = fields.find(&format!("{name}=\""))? + name.len() + 2;
        fields[start..].split('"').next()
    };
    let realm = field("realm").ok_or_else(refuse)?;
    let query: Vec<_> =
        ["service", "scope"].iter().filter_map(|name| Some(format!("{name}={}", field(name)?.replace(' ', "%20")))).collect();
    let answer = fetcher.get(&format!("{realm}?{}", query.join("&")))?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).map_err(|_| refuse())?;
    let token = answer["token"].as_str().or(answer["access_token"].as_str());
    token.map(str::to_owned).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> String {
        Reference::parse(text).map_or_else(str::to_owned, |reference| reference.url())
    }

    #[test]
    fn what_a_reference_leaves_out_is_filled_in() {
        assert_eq!(url("alpine"), "https://registry-1.docker.io/v2/library/alpine/manifests/latest");
        assert_eq!(url("vllm/vllm-openai:v1"), "https://registry-1.docker.io/v2/vllm/vllm-openai/manifests/v1");
        assert_eq!(url("ghcr.io/a/b/c:1.2"), "https://ghcr.io/v2/a/b/c/manifests/1.2");
        assert_eq!(url("localhost:5000/a"), "http://localhost:5000/v2/a/manifests/latest");
        assert_eq!(url("127.0.0.1:5000/a:x"), "http://127.0.0.1:5000/v2/a/manifests/x");
    }

    #[test]
    fn a_digest_needs_no_registry() {
        let digest = Digest::of(b"image");
        let reference = Reference::parse(&format!("ghcr.io/a/b@{digest}")).expect("a reference");
        assert_eq!(reference.digest(), Some(digest));
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for bad in ["", "a b", "a:", "a@sha512:00", "a@", "ghcr.io/", "a:b/c d", "../../x?y", "a#b"] {
            assert!(Reference::parse(bad).is_err(), "{bad}");
        }
    }
}
