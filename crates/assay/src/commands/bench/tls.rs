//! The options of `assay bench` for TLS. The names are those of curl.

use std::path::Path;

use assay_spec::looks_secret;
use assay_stage::{ErrorCode, Failure};
use serde_json::{Map, Value, json};

/// The certificates that are accepted, and the one that is shown.
#[derive(clap::Args)]
pub(super) struct TlsOptions {
    /// Accept any TLS certificate, which the result states
    #[arg(long)]
    insecure: bool,
    /// Certificate authorities to trust besides those of the machine: a PEM file, or an environment variable with its text
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["insecure", "simulator"])]
    cacert: Option<String>,
    /// The client certificate for an endpoint that demands one (mutual TLS): a PEM file, or an environment variable with its text
    #[arg(long, value_name = "PLACE", conflicts_with = "simulator")]
    cert: Option<String>,
    /// The private key of `--cert`, likewise and without a password [default: in the text of the certificate]
    #[arg(long, value_name = "PLACE", requires = "cert")]
    key: Option<String>,
}

impl TlsOptions {
    /// Returns true if a client certificate is given.
    pub(super) fn has_certificate(&self) -> bool {
        self.cert.is_some()
    }

    /// Adds the members of a target at this address. No text of a certificate or key gets into them: only its place, which is checked
    /// unless `is_printed` only.
    pub(super) fn add_to(&self, target: &mut Value, url: &str, is_printed: bool) -> Result<(), Failure> {
        if self.insecure {
            target["insecure_skip_tls_verify"] = json!(true);
        }
        let first = self.cacert.as_ref().map(|_| "--cacert").or_else(|| self.cert.as_ref().map(|_| "--cert"));
        let Some(first) = first else { return Ok(()) };
        if !url.starts_with("https:") {
            return Err(Failure::new(
                ErrorCode::Option,
                format!("`{first}` is for an endpoint at `https`, which `--url` does not name"),
            )
            .hint("write `https` in `--url`, or leave the option out"));
        }
        let place = |option: &str, place: &str| source(option, place, is_printed);
        let mut tls = Map::new();
        if let Some(ca) = &self.cacert {
            tls.insert("ca".to_owned(), place("--cacert", ca)?);
        }
        if let Some(cert) = &self.cert {
            let key = self.key.as_deref().map_or_else(|| place("--cert", cert), |key| place("--key", key))?;
            tls.insert("client".to_owned(), json!({"cert": place("--cert", cert)?, "key": key}));
        }
        target["tls"] = Value::Object(tls);
        Ok(())
    }
}

/// Returns the reference to a text: to a file of this name, else to a variable if the place has the form of one.
fn source(option: &str, place: &str, is_printed: bool) -> Result<Value, Failure> {
    let refuse = |what: &str| {
        Err(Failure::new(ErrorCode::Option, format!("`{option}` {what}"))
            .hint("it names a file in PEM, or an environment variable that holds such a text"))
    };
    if looks_secret("", place) {
        return refuse("holds a secret, which every user of this machine can read in the list of processes");
    }
    let is_file = Path::new(place).is_file();
    let is_name = place.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && place.starts_with(|first: char| !first.is_ascii_digit());
    if is_name && !is_file {
        let is_set = is_printed || std::env::var_os(place).is_some();
        return if is_set {
            Ok(json!({"from_env": place}))
        } else {
            refuse(&format!("names neither a file nor a variable: `{place}`"))
        };
    }
    if !is_file && !is_printed {
        return refuse(&format!("names no file: `{place}`"));
    }
    // Each stage has a folder of its own, so the path has to be absolute.
    match std::path::absolute(place) {
        Ok(path) => Ok(json!({"from_file": path})),
        Err(_) => refuse(&format!("names no file: `{place}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cacert: Option<&str>, cert: Option<&str>, key: Option<&str>) -> TlsOptions {
        let text = |text: Option<&str>| text.map(str::to_owned);
        TlsOptions { insecure: false, cacert: text(cacert), cert: text(cert), key: text(key) }
    }

    #[test]
    fn options_become_references() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("client.pem");
        std::fs::write(&path, "text").expect("written");
        let file = path.to_str().expect("UTF-8");
        let mut target = json!({});
        options(Some("CA"), Some(file), None).add_to(&mut target, "https://h", true).expect("usable");
        let reference = json!({"from_file": file});
        assert_eq!(target, json!({"tls": {"ca": {"from_env": "CA"}, "client": {"cert": reference, "key": reference}}}));
        options(None, Some(file), Some("KEY")).add_to(&mut target, "https://h", true).expect("usable");
        assert_eq!(target["tls"], json!({"client": {"cert": reference, "key": {"from_env": "KEY"}}}));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let refused =
            |options: TlsOptions, url: &str| options.add_to(&mut json!({}), url, false).expect_err("refused").to_string();
        let message = refused(options(Some("x"), None, None), "http://h");
        assert!(message.contains("`--cacert` is for an endpoint at `https`, which `--url` does not name"), "{message}");
        let message = refused(options(None, Some("/nonexistent/client.pem"), None), "https://h");
        assert!(message.contains("`--cert` names no file: `/nonexistent/client.pem`"), "{message}");
        let message = refused(options(None, Some("ASSAY_TEST_NO_SUCH_VARIABLE"), None), "https://h");
        assert!(message.contains("`--cert` names neither a file nor a variable: `ASSAY_TEST_NO_SUCH_VARIABLE`"), "{message}");
        let pem = "-----BEGIN PRIVATE KEY-----";
        let message = refused(options(None, Some("Cargo.toml"), Some(pem)), "https://h");
        assert!(message.contains("`--key` holds a secret") && !message.contains("BEGIN"), "{message}");
    }
}
