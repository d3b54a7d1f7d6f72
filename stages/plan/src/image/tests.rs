use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use proptest::prelude::*;

use super::*;
use assay_probe::testing::{Reply, Request, Server};

const MANIFEST: &str = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}"#;

fn parse(text: &str) -> Reference {
    Reference::parse(text).expect(text)
}

fn fetcher() -> Fetcher {
    Fetcher::new(Vec::new())
}

fn manifest_with_digest(digest: Digest) -> Reply {
    Reply::with_body("200 OK", &[&format!("docker-content-digest: {digest}")], MANIFEST)
}

fn challenged(challenge: &str) -> Reply {
    Reply::with_body("401 Unauthorized", &[&format!("www-authenticate: {challenge}")], "")
}

/// Returns the requested port, from the request's head.
fn port(request: &Request) -> &str {
    request.header("host").and_then(|host| host.rsplit(':').next()).expect("a host with a port")
}

fn resolved(server: &Server, repository_and_tag: &str) -> Result<Digest, String> {
    resolve(&fetcher(), &parse(&format!("{}/{repository_and_tag}", server.authority()))).map_err(|error| error.to_string())
}

#[test]
fn what_a_reference_leaves_out_is_filled_in() {
    let url = |text| parse(text).url();
    assert_eq!(url("alpine"), "https://registry-1.docker.io/v2/library/alpine/manifests/latest");
    assert_eq!(url("vllm/vllm-openai:v1"), "https://registry-1.docker.io/v2/vllm/vllm-openai/manifests/v1");
    assert_eq!(url("ghcr.io/a/b/c:1.2"), "https://ghcr.io/v2/a/b/c/manifests/1.2");
    assert_eq!(url("localhost:5000/a"), "http://localhost:5000/v2/a/manifests/latest");
    assert_eq!(url("127.0.0.1:5000/a:x"), "http://127.0.0.1:5000/v2/a/manifests/x");
    assert_eq!(url("[::1]:5000/a"), "http://[::1]:5000/v2/a/manifests/latest");
}

#[test]
fn a_digest_needs_no_registry() {
    let digest = Digest::compute(b"image");
    assert_eq!(parse(&format!("ghcr.io/a/b@{digest}")).digest(), Some(digest));
    assert_eq!(parse(&format!("ghcr.io/a/b:tag@{digest}")).digest(), Some(digest), "the digest decides");
}

#[test]
fn what_is_no_reference_is_refused() {
    let bad = [
        "",
        "a b",
        "a:",
        "a@sha512:00",
        "a@",
        "ghcr.io/",
        "a:b/c d",
        "../../x?y",
        "a#b",
        "ghcr.io/../../x",
        "ghcr.io/a/./b",
        "A",
        "ghcr.io/a//b",
        "ghcr.io#x/a",
        "ghcr.io?x/a.b",
        "-a",
        "a:-b",
        "user:password@ghcr.io/a",
        "ü",
    ];
    for bad in bad {
        assert!(Reference::parse(bad).is_err(), "{bad}");
    }
    assert!(Reference::parse(&"a".repeat(513)).is_err());
    assert!(Reference::parse(&format!("a:{}", "b".repeat(129))).is_err());
}

proptest! {
    #[test]
    fn whatever_a_reference_is_its_address_is_the_registry_s(text in "[a-zA-Z0-9./:@_\\[\\]?#% -]{0,40}") {
        if let Ok(reference) = Reference::parse(&text) {
            let url = reference.url();
            prop_assert!(url.contains(&format!("://{}/v2/", reference.registry)), "{}", url);
            prop_assert!(!url.contains("..") || reference.repository.contains(".."), "{}", url);
            prop_assert!(!url.contains(['?', '#', ' ', '%', '@']), "{}", url);
        }
    }

    #[test]
    fn whatever_a_challenge_is_it_is_read_or_refused(text in "(Bearer )?\\PC{0,80}") {
        let _ = token_address(&text);
    }
}

#[test]
fn a_tag_becomes_the_digest_of_what_the_registry_has() {
    let server = Server::start(|request| match (request.path.as_str(), request.header("accept")) {
        ("/v2/a/b/manifests/v1", Some(accept)) if accept.contains("image.index.v1+json") => {
            manifest_with_digest(Digest::compute(MANIFEST.as_bytes()))
        }
        ("/v2/silent/manifests/latest", _) => Reply::ok(MANIFEST),
        _ => Reply::status("404 Not Found"),
    });
    let digest = Digest::compute(MANIFEST.as_bytes());
    assert_eq!(resolved(&server, "a/b:v1"), Ok(digest));
    assert_eq!(resolved(&server, "silent"), Ok(digest), "a registry need not say the digest");
    let missing = resolved(&server, "a/b:v2").expect_err("not there");
    assert_eq!(missing, format!("`{}` returned 404 Not Found", server.at("/v2/a/b/manifests/v2")));
}

#[test]
fn a_registry_that_says_another_digest_is_not_believed() {
    let said = Digest::compute(b"another");
    let server = Server::start(move |_| manifest_with_digest(said));
    let found = Digest::compute(MANIFEST.as_bytes());
    let refused = resolved(&server, "a").expect_err("a lie");
    assert_eq!(refused, format!("the registry gave an image whose digest is {found}, but said {said}"));
}

#[test]
fn a_public_registry_s_token_is_fetched_without_a_login() {
    let server = Server::start(|request| {
        let challenge = format!(
            r#"Bearer realm="http://127.0.0.1:{}/token",service="registry.test",scope="repository:a/b:pull,push""#,
            port(request)
        );
        match (request.path.as_str(), request.header("authorization")) {
            ("/token?service=registry.test&scope=repository:a/b:pull,push", None) => Reply::ok(r#"{"token":"t0"}"#),
            ("/v2/a/b/manifests/latest", Some("Bearer t0")) => Reply::ok(MANIFEST),
            ("/v2/a/b/manifests/latest", None) => challenged(&challenge),
            _ => Reply::status("403 Forbidden"),
        }
    });
    assert_eq!(resolved(&server, "a/b"), Ok(Digest::compute(MANIFEST.as_bytes())));
}

#[test]
fn a_login_that_cannot_be_given_is_said() {
    let asking = |challenge: &'static str| {
        let server = Server::start(move |request| match request.path.as_str() {
            "/v2/a/manifests/latest" => challenged(challenge),
            _ => Reply::ok(r#"{"nothing":1}"#),
        });
        resolved(&server, "a").expect_err("no login")
    };
    insta::assert_snapshot!(asking(r#"Basic realm="r""#), @r#"the registry asks for a login that this build does not have: Basic realm="r""#);
    insta::assert_snapshot!(asking(""), @"the registry asks for a login that this build does not have:");
    insta::assert_snapshot!(asking(r#"Bearer service="s""#), @r#"the registry asks for a login that this build does not have: Bearer service="s""#);
    insta::assert_snapshot!(asking(r#"Bearer realm="http://registry.example.org/token""#), @"`http://registry.example.org/token?` is not an address that can be fetched: https, or http on this machine, without a password");
}

#[test]
fn a_token_is_asked_for_as_the_challenge_says() {
    let address = |challenge| token_address(challenge);
    assert_eq!(address(r#"bearer realm="https://a/t""#).as_deref(), Some("https://a/t?"));
    assert_eq!(
        address(r#"Bearer realm="https://a/t?x=1", service="a b&c""#).as_deref(),
        Some("https://a/t?x=1&service=a%20b%26c")
    );
    assert_eq!(address(r#"Bearer realm="https://a/t"#), None, "a quote that never ends");
    assert_eq!(address("Bearer"), None);
}

#[test]
fn the_token_s_host_must_be_allowed_as_well() {
    let server = Server::start(|request| {
        let realm = format!(r#"Bearer realm="http://localhost:{}/token""#, port(request));
        challenged(&realm)
    });
    let fetcher = Fetcher::new(vec!["127.0.0.1".to_owned()]);
    let refused = resolve(&fetcher, &parse(&format!("{}/a", server.authority()))).expect_err("another host");
    assert!(refused.is_refusal(), "{refused}");
}

/// A registry as it is deployed, with its storage in a scratch folder.
struct RealRegistry {
    process: Child,
    authority: String,
    _storage: tempfile::TempDir,
}

impl RealRegistry {
    fn start(program: &str) -> Self {
        let storage = tempfile::tempdir().expect("a folder");
        let config = storage.path().join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}/data}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n",
            storage.path().display()
        );
        std::fs::write(&config, text).expect("written");
        let mut command = Command::new(program);
        let mut process =
            command.arg("serve").arg(config).stderr(Stdio::piped()).spawn().expect("ASSAY_TEST_REGISTRY is a program");
        let log = BufReader::new(process.stderr.take().expect("piped"));
        let mut lines = log.lines().map_while(Result::ok);
        let listening = lines.find_map(|line| {
            let (_, rest) = line.split_once("listening on ")?;
            Some(rest.split(['"', ' ', ',']).next()?.to_owned())
        });
        // A writer to a pipe stops if its reader stops.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, authority: listening.expect("it says where it listens"), _storage: storage }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority)
    }

    /// Pushes an image of one empty layer, as every client does, and returns the digest of its manifest.
    fn push(&self, repository: &str, tag: &str) -> Digest {
        let config =
            self.push_blob(repository, br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#);
        let layer = self.push_blob(repository, b"");
        let part = |kind: &str, (digest, size): (Digest, usize)| serde_json::json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest, "size": size});
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": part("config.v1+json", config), "layers": [part("layer.v1.tar", layer)],
        });
        let manifest = manifest.to_string();
        let response = ureq::put(self.url(&format!("/v2/{repository}/manifests/{tag}")))
            .header("content-type", "application/vnd.oci.image.manifest.v1+json")
            .send(manifest.as_bytes());
        assert_eq!(response.expect("pushed").status(), StatusCode::CREATED);
        Digest::compute(manifest.as_bytes())
    }

    fn push_blob(&self, repository: &str, bytes: &[u8]) -> (Digest, usize) {
        let begun = ureq::post(self.url(&format!("/v2/{repository}/blobs/uploads/"))).send_empty().expect("an upload begins");
        let location = begun.headers().get("location").expect("a location").to_str().expect("text").to_owned();
        let digest = Digest::compute(bytes);
        let done = ureq::put(format!("{location}&digest={digest}")).content_type("application/octet-stream").send(bytes);
        assert_eq!(done.expect("the upload ends").status(), StatusCode::CREATED);
        (digest, bytes.len())
    }
}

impl Drop for RealRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs if `ASSAY_TEST_REGISTRY=<path of docker-registry>` is set; if the registry is absent then, it fails. The servers above
/// cover the same parts of the protocol.
#[test]
fn a_real_registry_is_understood() {
    let Some(program) = std::env::var_os("ASSAY_TEST_REGISTRY") else { return };
    let registry = RealRegistry::start(program.to_str().expect("a path"));
    let of =
        |text: &str| resolve(&fetcher(), &parse(&format!("{}/{text}", registry.authority))).map_err(|error| error.to_string());
    let first = registry.push("team/model", "v1");
    assert_eq!(of("team/model:v1"), Ok(first));
    let missing = of("team/model:v2").expect_err("never pushed");
    assert!(missing.ends_with("returned 404 Not Found"), "{missing}");
}
