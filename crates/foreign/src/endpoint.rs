//! The address of an endpoint, and its credentials.

use serde_json::{Value, json};

use crate::command::Arguments;
use crate::draft::member;
use crate::mapping::{Mapping, NAMED_BY_OPTION};
use crate::value::{is_credential, text};
use crate::yaml::Node;

/// Ends of addresses that Assay adds itself.
const API_PATHS: [&str; 8] =
    ["/chat/completions", "/completions", "/embeddings", "/rerank", "/responses", "/messages", "/models", "/generate"];

/// The variable of the key of an endpoint, unless the definition names another.
pub(crate) const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The place of a credential that a definition refers to.
const PLACE: &str = "set this variable where `assay run` runs; in a cluster, it is a member of the Secret `assay-endpoints`";

impl Mapping<'_> {
    /// Sets the address of the endpoint, unless `--url` names it.
    pub(crate) fn endpoint(&mut self, field: &str, address: &str) {
        if self.options.url.is_some() {
            return self.ignored(field, NAMED_BY_OPTION);
        }
        self.address(field, address);
    }

    /// Sets the address of the endpoint.
    pub(crate) fn address(&mut self, field: &str, address: &str) {
        let (scheme, rest) = match address.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some(_) => return self.refused(field, "an endpoint has an address that begins with `http://` or `https://`"),
            None => ("http", address),
        };
        if rest.is_empty() || rest.contains(['?', '#']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return self
                .refused(field, "write the address without spaces and without what follows a `?`; send a key in a header");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('%') {
            return self.refused(
                field,
                "write the host without `%`; a user and a password belong into a header of the target, and not into the address",
            );
        }
        let host = authority.rsplit_once('@').map(|(_, host)| host);
        if path.split('/').any(|part| is_credential("", part)) {
            return self.refused(field, "its path holds a key: leave the key out, and send it in a header of the target");
        }
        let path = path.trim_end_matches('/');
        let kept = API_PATHS.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let url = format!("{scheme}://{}{kept}", host.unwrap_or(authority));
        self.draft.target.push(member("kind", "endpoint"));
        self.draft.target.push(member("url", url));
        let to = &format!("pipeline spec.targets[{}].url", self.draft.sides.len());
        if kept != path {
            self.approximated(field, to, "the path of the API is left out: Assay adds that of `spec.api`");
        } else if !address.contains("://") {
            self.approximated(field, to, "it states no scheme, which is taken to be `http`");
        } else {
            self.mapped(field, to);
        }
        if host.is_some() {
            let (user, _) = authority.rsplit_once('@').unwrap_or_default();
            self.has_credential(field, user);
            self.header_reference(&format!("{field}(user)"), "Authorization", "ENDPOINT_BASIC_CREDENTIALS", Some("Basic"));
        }
    }

    /// Sends the key of the endpoint, which a variable holds.
    pub(crate) fn api_key(&mut self, field: &str) {
        self.header_reference(field, "Authorization", KEY_VARIABLE, Some("Bearer"));
    }

    /// Sends a header whose value is not copied, because it may be a credential. `text` is `name: value`, `name=value` or `name:value`.
    pub(crate) fn header(&mut self, field: &str, text: &str) {
        let name = text.split([':', '=']).next().unwrap_or_default().trim();
        let is_name =
            !name.is_empty() && name.len() <= 50 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name || name.len() == text.len() || is_credential("", name) {
            return self.refused(
                field,
                "a header is a name of letters, digits and hyphens, and a value: add it to `headers` of the target",
            );
        }
        let variable = format!("HEADER_{}", name.to_ascii_uppercase().replace('-', "_"));
        self.header_reference(&format!("{field}({})", name.to_ascii_lowercase()), name, &variable, None);
    }

    /// Sends the headers of a map, by [`header`](Self::header).
    pub(crate) fn headers(&mut self, arguments: &Arguments, field: &str) {
        let Some(given) = arguments.one(field) else { return };
        let Ok(Value::Object(headers)) = serde_json::from_str::<Value>(given) else {
            return self.refused(field, "write a map of names and values");
        };
        for (name, value) in &headers {
            let value = text(value).unwrap_or_default();
            if is_credential(name, &value) {
                self.has_credential(field, &value);
            }
            self.header(field, &format!("{name}: {value}"));
        }
    }

    fn header_reference(&mut self, field: &str, name: &str, variable: &str, scheme: Option<&str>) {
        let source = match scheme {
            Some(scheme) => json!({"from_env": variable, "scheme": scheme}),
            None => json!({"from_env": variable}),
        };
        let name = name.to_ascii_lowercase();
        let to = format!("pipeline spec.targets[{}].headers.{name}", self.draft.sides.len());
        if self.draft.headers.iter().any(|(known, _)| *known == name) {
            return self.refused(field, "two fields give this header: keep one of them");
        }
        self.draft.headers.push((name, Node::Value(source)));
        self.secret(field, &to, &format!("`{variable}`: {PLACE}"));
    }
}
