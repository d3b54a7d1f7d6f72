//! Freezing: turns a workload, with everything mutable in it pinned, into the bytes whose digest decides comparability.

use std::collections::BTreeMap;

use assay_manifest::{CanonicalError, Digest, canonical_value};
use serde_json::{Map, Value as Json, json};

use crate::images::WorkloadImageFiles;
use crate::problem::{Problem, quote};
use crate::tokenizer::{WorkloadTemplate, WorkloadTokenizer};
use crate::workload::{Dataset, PinnableFile, Prompts, Script, Work, Workload};

/// The resolved digests of a workload's mutable parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Digests of contents: by path, as the workload writes it (relative to its folder, normalised), or by URL.
    pub contents: BTreeMap<String, Digest>,
    /// Resolved digests of container images, by the reference as the workload writes it.
    pub images: BTreeMap<String, Digest>,
}

/// A workload's `spec` in its canonical form.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenSpec {
    /// The `spec` with defaults left out and contents pinned.
    pub json: Json,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// Their digest: `workload_spec_digest`.
    pub digest: Digest,
    /// The seed of all randomness, 64 hexadecimal digits: the declared seed, or one derived from the digest.
    pub seed: String,
    /// The parts that could not be pinned, as the workload writes them. They bar publication grade.
    pub unpinned: Vec<String>,
}

/// The reason why a workload cannot be frozen.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// The content differs from the one that the workload declares.
    #[error("{what} has sha256 {found}, and the workload declares {declared}")]
    ContentMismatch {
        /// The path or URL.
        what: String,
        /// The SHA-256 that the workload declares.
        declared: String,
        /// The SHA-256 of the content.
        found: String,
    },
    /// The `spec` has no canonical form.
    #[error("the workload has no canonical form")]
    Canonical(#[source] CanonicalError),
}

impl Workload {
    /// Returns the `spec` in its canonical form, with the digests of `pins` put in. Metadata, key order, comments, formatting and
    /// explicit defaults do not affect it; every change of meaning or of a pinned content does.
    pub fn freeze(&self, pins: &Pins) -> Result<FrozenSpec, FreezeError> {
        let mut unpinned = Vec::new();
        let mut spec = self.normal_spec.as_object().cloned().unwrap_or_default();
        if let Some(script) = self.script() {
            spec.insert("script".to_owned(), pin_script(script, pins, &mut unpinned)?);
        }
        if !self.spec.files.is_empty() {
            spec.insert("files".to_owned(), pin_files(&self.spec.files, pins, &mut unpinned));
        }
        if let Some(tokenizer) = self.tokenizer() {
            let mut file = pin_files(std::slice::from_ref(&tokenizer.path), pins, &mut unpinned)[0].take();
            if let Some(pattern) = &tokenizer.pattern {
                file["pattern"] = json!(pattern);
            }
            if let Some(WorkloadTemplate { usage, config, file: template }) = &tokenizer.template {
                let there = [config, template].into_iter().filter(|path| pins.contents.contains_key(*path));
                let mut files: Vec<String> = there.cloned().collect();
                if files.is_empty() {
                    files.push(config.clone());
                }
                file["template"] = json!({"files": pin_files(&files, pins, &mut unpinned), "usage": usage});
            }
            spec.insert("tokenizer".to_owned(), file);
        }
        if let Some(images) = self.image_files() {
            let files = pin_files(&images.paths, pins, &mut unpinned);
            spec.insert("image_files".to_owned(), json!({"count": images.count, "files": files}));
        }
        if let Some(dataset) = self.dataset() {
            let member = dataset.member();
            let mut pinned = spec.get(member).and_then(Json::as_object).cloned().unwrap_or_default();
            pinned.extend(pin_script(&dataset.file, pins, &mut unpinned)?.as_object().cloned().unwrap_or_default());
            spec.insert(member.to_owned(), Json::Object(pinned));
        }
        if let Some(image) = &self.spec.image {
            spec.insert("image".to_owned(), pin_image(image, pins, &mut unpinned));
        }
        let json = Json::Object(spec);
        let bytes = canonical_value(&json).map_err(FreezeError::Canonical)?;
        let digest = Digest::compute(&bytes);
        let seed = self.spec.seed.clone().unwrap_or_else(|| derive_seed(&digest));
        Ok(FrozenSpec { json, bytes, digest, seed, unpinned })
    }

    pub(crate) fn script(&self) -> Option<&Script> {
        self.spec.work.executable().and_then(|executable| executable.program.script())
    }

    /// Returns the dataset or trace.
    pub fn dataset(&self) -> Option<&Dataset> {
        match &self.spec.work {
            Work::Serving(serving) => match &serving.prompts {
                Prompts::Dataset(dataset) => Some(dataset),
                Prompts::Synthetic(_) => None,
            },
            Work::Indicator(_) | Work::Training(_) => None,
        }
    }

    /// Returns a problem with the file of the dataset or trace, at the field that names it; `None` if there is no such file.
    pub fn dataset_problem(&self, message: impl Into<String>) -> Option<Problem> {
        let dataset = self.dataset()?;
        Some(self.places.problem(&format!("spec.{}.path", dataset.member()), message.into()))
    }

    pub(crate) fn image_files(&self) -> Option<&WorkloadImageFiles> {
        match &self.spec.work {
            Work::Serving(serving) => serving.image_files.as_ref(),
            Work::Indicator(_) | Work::Training(_) => None,
        }
    }

    fn tokenizer(&self) -> Option<&WorkloadTokenizer> {
        match &self.spec.work {
            Work::Serving(serving) => serving.tokenizer.as_ref(),
            Work::Indicator(_) | Work::Training(_) => None,
        }
    }

    /// Returns the parts that have to be looked up before the workload is wholly pinned: paths relative to its folder, URLs,
    /// image references.
    pub fn mutable_parts(&self) -> MutableParts {
        let (path, url) = match self.script() {
            Some(Script::Path { path, .. }) => (Some(path.clone()), None),
            Some(Script::Url { url, .. }) => (None, Some(url.clone())),
            None => (None, None),
        };
        let (dataset, dataset_url) = match self.dataset().map(|dataset| &dataset.file) {
            Some(PinnableFile::Path { path, .. }) => (Some(path.clone()), None),
            Some(PinnableFile::Url { url, .. }) => (None, Some(url.clone())),
            None => (None, None),
        };
        let files = path.into_iter().chain(self.spec.files.iter().cloned());
        let template = self.tokenizer().and_then(|tokenizer| tokenizer.template.as_ref());
        let tokenizer = self.tokenizer().map(|tokenizer| tokenizer.path.clone());
        let images = self.image_files().into_iter().flat_map(|images| images.paths.iter().cloned());
        MutableParts {
            paths: files.chain(tokenizer).chain(dataset).chain(images).collect(),
            one_of: template.map_or_else(Vec::new, |template| vec![template.config.clone(), template.file.clone()]),
            url,
            dataset_url,
            image: self.spec.image.clone(),
        }
    }
}

/// The parts of a workload that can change without a change of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutableParts {
    /// Files, relative to the workload's folder, the script first.
    pub paths: Vec<String>,
    /// Files of which at least one has to be there, and each is used if it is: those of a chat template.
    pub one_of: Vec<String>,
    /// The script's address, if it has one.
    pub url: Option<String>,
    /// The dataset's address, if it has one.
    pub dataset_url: Option<String>,
    /// The container image, if it has one.
    pub image: Option<String>,
}

/// Returns the seed of a workload that declares none: a digest of its own, so that it is not the spec's digest under another
/// name.
pub fn derive_seed(workload_spec_digest: &Digest) -> String {
    Digest::compute(format!("assay.dev/v1alpha1 seed {workload_spec_digest}").as_bytes()).hex()
}

fn pin_script(script: &Script, pins: &Pins, unpinned: &mut Vec<String>) -> Result<Json, FreezeError> {
    let location = script.location();
    let key = if matches!(script, Script::Path { .. }) { "path" } else { "url" };
    let found = pins.contents.get(location).map(Digest::hex);
    if let (Some(declared), Some(found)) = (script.declared_sha256(), &found)
        && declared != found
    {
        return Err(FreezeError::ContentMismatch { what: quote(location), declared: declared.to_owned(), found: found.clone() });
    }
    if found.is_none() {
        unpinned.push(location.to_owned());
    }
    // A declared digest fixes the bytes, so with it the digest of the spec is already the final one.
    let sha256 = found.as_deref().or(script.declared_sha256());
    let mut pinned = Map::from_iter([(key.to_owned(), Json::from(location))]);
    pinned.extend(sha256.map(|sha256| ("sha256".to_owned(), Json::from(sha256))));
    Ok(Json::Object(pinned))
}

/// Pins files as a set: the order in which they are listed has no meaning.
fn pin_files(files: &[String], pins: &Pins, unpinned: &mut Vec<String>) -> Json {
    let mut files: Vec<&String> = files.iter().collect();
    files.sort();
    unpinned.extend(files.iter().filter(|path| !pins.contents.contains_key(**path)).map(|path| (*path).clone()));
    let pin = |path: &String| match pins.contents.get(path) {
        Some(digest) => json!({"path": path, "sha256": digest.hex()}),
        None => json!({"path": path}),
    };
    files.into_iter().map(pin).collect()
}

fn pin_image(image: &str, pins: &Pins, unpinned: &mut Vec<String>) -> Json {
    let written = image.split_once('@').and_then(|(_, digest)| digest.parse().ok());
    let digest: Option<Digest> = written.or_else(|| pins.images.get(image).copied());
    if digest.is_none() {
        unpinned.push(image.to_owned());
    }
    let mut pinned = Map::from_iter([("reference".to_owned(), Json::from(image))]);
    pinned.extend(digest.map(|digest| ("digest".to_owned(), Json::from(digest.to_string()))));
    Json::Object(pinned)
}
