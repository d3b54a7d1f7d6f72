//! The examples under `manifests/examples/`: an example of every kind of manifest, in every version ever signed.
//!
//! The output of this build is compared byte for byte with the files there, so that no format changes unnoticed; all files there
//! must load and verify, so that no old version is forgotten. [`UPDATE`] writes the current version again.

// The bodies are large `json!` values.
#![recursion_limit = "256"]

mod bodies;
mod fields;
mod keys;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use assay_envelope::{ExpectedManifest, PublicKey, Trust, TrustPolicy, TrustedSigner, Verified, VerifyError, verify};
use assay_manifest::{Document, InputRef, Kind, VERSION};

use bodies::{Example, examples};

/// The command that writes the examples of the current version.
const UPDATE: &str = "ASSAY_UPDATE_EXAMPLES=1 cargo test -p assay-envelope --test examples what_this_build_writes";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/examples")
}

/// Every file that this build makes, by its path in the folder.
fn make_files() -> BTreeMap<String, Vec<u8>> {
    let examples = examples();
    let mut files = BTreeMap::from([
        ("README.md".to_owned(), readme(&examples).into_bytes()),
        ("trust.yaml".to_owned(), keys::trust_yaml().into_bytes()),
    ]);
    files.extend(keys::public_files());
    for Example { name, signed } in examples {
        files.insert(format!("{VERSION}/{name}.json"), signed.manifest);
        files.insert(format!("{VERSION}/{name}.sigstore.json"), signed.bundle);
    }
    files
}

fn readme(examples: &[Example]) -> String {
    let mut page = format!(
        "# Examples of signed manifests\n\nWritten by `{UPDATE}`; do not edit.\n\nOne run of an imagined pipeline, from its Source to \
         its Publication, in which every field of every manifest occurs. The artifacts that it names do not exist.\n\n**The keys \
         under `keys/` are no secret**: their private halves are derived from a text in the test. Trust them with nothing.\n",
    );
    let _ = write!(page, "\n## {VERSION}\n\n| example | manifest | bundle |\n| --- | --- | --- |\n");
    for Example { name, signed } in examples {
        let _ = writeln!(page, "| `{name}.json` | `{}` | `{}` |", signed.manifest_digest, signed.bundle_digest);
    }
    page
}

#[test]
fn the_examples_are_what_this_build_writes() {
    let update = std::env::var_os("ASSAY_UPDATE_EXAMPLES").is_some_and(|value| value == "1");
    for (name, bytes) in make_files() {
        let path = folder().join(&name);
        if update {
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(&path, &bytes).expect("written");
        }
        let there = fs::read(&path).unwrap_or_default();
        assert!(there == bytes, "manifests/examples/{name} is stale; if that is meant: {UPDATE}");
    }
}

/// A manifest in a version's folder, with the bundle beside it.
struct Pair {
    name: String,
    manifest: Vec<u8>,
    bundle: Vec<u8>,
}

impl Pair {
    fn verify(&self, trust: &Trust) -> Result<Verified<Document>, VerifyError> {
        verify(&self.manifest, &self.bundle, trust, &ExpectedManifest { kind: self.kind(), ..ExpectedManifest::default() })
    }

    /// The kind in the file's name, such as `environment` for `environment-first.json`.
    fn kind(&self) -> Option<Kind> {
        self.name.split('-').next().and_then(|kind| kind.parse().ok())
    }
}

/// The pairs of a version's folder, or its problem.
fn pairs(version: &Path) -> Result<Vec<Pair>, String> {
    let entries = fs::read_dir(version).map_err(|error| format!("{}: {error}", version.display()))?;
    let mut names: BTreeSet<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    let mut pairs = Vec::new();
    for file in names.clone() {
        let Some(name) = file.strip_suffix(".json").filter(|name| !name.ends_with(".sigstore")) else { continue };
        let bundle = format!("{name}.sigstore.json");
        if !names.remove(&bundle) {
            return Err(format!("`{file}` has no bundle"));
        }
        names.remove(&file);
        let read = |file: &str| fs::read(version.join(file)).expect("read");
        pairs.push(Pair { name: name.to_owned(), manifest: read(&file), bundle: read(&bundle) });
    }
    if let Some(stray) = names.first() {
        return Err(format!("`{stray}` belongs to no manifest"));
    }
    match Kind::ALL.iter().find(|kind| !pairs.iter().any(|pair| pair.kind() == Some(**kind))) {
        Some(missing) => Err(format!("there is no example of a {missing}")),
        None => Ok(pairs),
    }
}

/// The folders of the versions, `v1alpha1` and its successors.
fn versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).expect("the folder of the examples").map(|entry| entry.expect("an entry").path());
    let mut versions: Vec<_> = entries.filter(|path| path.is_dir() && !path.ends_with("keys")).collect();
    versions.sort();
    versions
}

/// The trust policy beside the examples, read like any trust policy.
fn trust() -> Trust {
    let bytes = fs::read(folder().join("trust.yaml")).expect("trust.yaml");
    let policy = assay_spec::TrustPolicy::parse("trust.yaml", &bytes).expect("a valid trust policy");
    let signers = policy
        .signers
        .into_iter()
        .map(|signer| TrustedSigner::new(signer.name.as_str(), PublicKey::from_pem(&signer.key).expect("a key"), signer.signs));
    Trust::Policy(TrustPolicy::from_signers(policy.name.to_string(), signers.collect()))
}

#[test]
fn every_version_ever_signed_loads_and_verifies() {
    let (trust, versions) = (trust(), versions());
    assert!(versions.iter().any(|version| version.ends_with(VERSION)), "the version of this build, {VERSION}, has no examples");
    for version in versions {
        let pairs = pairs(&version).unwrap_or_else(|wrong| panic!("{}: {wrong}", version.display()));
        let mut known: BTreeSet<InputRef> = BTreeSet::new();
        let mut wanted: BTreeSet<InputRef> = BTreeSet::new();
        for pair in pairs {
            let verified = pair.verify(&trust).unwrap_or_else(|error| panic!("{}/{}: {error}", version.display(), pair.name));
            assert!(verified.signer().established, "{}", pair.name);
            known.insert(verified.input_ref());
            wanted.extend(&verified.value().header().inputs);
        }
        // The examples are one chain: the inputs of each are beside it.
        assert!(wanted.is_subset(&known), "inputs without an example: {:?}", wanted.difference(&known));
    }
}

#[test]
fn a_changed_example_is_refused() {
    let trust = trust();
    for mut pair in pairs(&folder().join(VERSION)).expect("complete") {
        let place = pair.manifest.len() / 2;
        pair.manifest[place] ^= 1;
        let refusal = pair.verify(&trust).expect_err("a changed byte");
        assert_eq!(refusal.code().as_str(), "subject_digest_mismatch", "{}", pair.name);
    }
}

#[test]
fn an_incomplete_version_is_refused() {
    let without = |file: &str, also: Option<&str>| {
        let copy = tempfile::tempdir().expect("a folder");
        for pair in pairs(&folder().join(VERSION)).expect("complete") {
            fs::write(copy.path().join(format!("{}.json", pair.name)), &pair.manifest).expect("written");
            fs::write(copy.path().join(format!("{}.sigstore.json", pair.name)), &pair.bundle).expect("written");
        }
        for file in [Some(file), also].into_iter().flatten() {
            fs::remove_file(copy.path().join(file)).expect("removed");
        }
        pairs(copy.path()).err().expect("refused")
    };
    assert_eq!(without("plan.json", Some("plan.sigstore.json")), "there is no example of a plan");
    assert_eq!(without("plan.sigstore.json", None), "`plan.json` has no bundle");
    assert_eq!(without("plan.json", None), "`plan.sigstore.json` belongs to no manifest");
}

#[test]
fn every_field_is_in_an_example() {
    let mut fields = fields::Fields::default();
    for pair in pairs(&folder().join(VERSION)).expect("complete") {
        let document = serde_json::from_slice(&pair.manifest).expect("JSON");
        fields.visit(&assay_manifest::schema(pair.kind().expect("a kind")), &document);
    }
    assert_eq!(fields.unseen(), Vec::<String>::new(), "give each a value in an example");
}
