//! Pinning: the present content of a tag or an address, kept so that it stays the same.

use std::collections::BTreeMap;

use assay_manifest::{Dataset, Digest, Image, Name, PinnedFile, PinnedSearch, QueryPack, UnpinnedInput};
use assay_planning::{DatasetFile, DatasetRequest, Pins, TokenizerSource};
use assay_stage::{ErrorCode, Failure, with_causes};

use crate::artifact_sink::ArtifactSink;
use crate::dataset::{FetchedDataset, import_dataset};
use crate::fetch::{FetchError, Fetcher};
use crate::image::Reference;
use crate::search_result::FoundSearch;
use crate::tokenizer::load_tokenizer;

/// Resolves mutable references of a pipeline, each once.
pub(crate) struct Pinner<'a> {
    keep: &'a dyn ArtifactSink,
    fetcher: Option<Fetcher>,
    datasets: BTreeMap<Name, Digest>,
    images: BTreeMap<String, Image>,
    searches: BTreeMap<Name, PinnedSearch>,
    unpinned: Vec<UnpinnedInput>,
}

impl<'a> Pinner<'a> {
    /// Returns a pinner without network access unless `fetch` is set, and with only the hosts in `allow` if there are any.
    pub(crate) fn new(keep: &'a dyn ArtifactSink, fetch: bool, allow: &[String]) -> Self {
        let fetcher = fetch.then(|| Fetcher::new(allow.to_vec()));
        Self {
            keep,
            fetcher,
            datasets: BTreeMap::new(),
            images: BTreeMap::new(),
            searches: BTreeMap::new(),
            unpinned: Vec::new(),
        }
    }

    /// Takes the files of these workloads' datasets from the store instead of from their addresses.
    pub(crate) fn with_datasets(self, datasets: &BTreeMap<Name, Digest>) -> Self {
        Self { datasets: datasets.clone(), ..self }
    }

    /// Takes the search results of these workloads, which were found and verified.
    pub(crate) fn with_searches(self, found: &BTreeMap<Name, FoundSearch>) -> Self {
        let searches = found.iter().map(|(workload, search)| (workload.clone(), search.pinned.clone())).collect();
        Self { searches, ..self }
    }

    /// Returns the bytes at a script's address. A failure is reported, and bars all workloads that need the script.
    pub(crate) fn script(&mut self, workload: &Name, url: &str) -> Result<Option<PinnedFile>, Failure> {
        match self.fetch(url) {
            Ok(bytes) => {
                let artifact =
                    self.keep.keep(format!("workloads/{workload}/files/script"), "application/octet-stream", &bytes)?;
                Ok(Some(PinnedFile { path: "script".to_owned(), origin: url.to_owned(), executable: true, artifact }))
            }
            Err(error) if error.is_refusal() => {
                self.unpinned.push(UnpinnedInput { what: url.to_owned(), reason: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error.into_failure(&format!("the script of workload `{workload}`"))),
        }
    }

    fn fetch(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        self.fetcher.as_ref().ok_or(FetchError::Disabled)?.get(url)
    }

    /// Returns an image with the digest of its reference. If a registry does not respond, the image stays unpinned, with the
    /// reason.
    pub(crate) fn image(&mut self, reference: &str) -> Result<Image, Failure> {
        if let Some(known) = self.images.get(reference) {
            return Ok(known.clone());
        }
        let parsed = Reference::parse(reference)
            .map_err(|why| Failure::new(ErrorCode::Image, format!("`{reference}` is not an image reference: {why}")))?;
        let digest = match (parsed.digest(), &self.fetcher) {
            (Some(digest), _) => Ok(digest),
            (None, Some(fetcher)) => crate::image::resolve(fetcher, &parsed),
            (None, None) => Err(FetchError::Disabled),
        };
        if let Err(error) = &digest {
            self.unpinned.push(UnpinnedInput { what: reference.to_owned(), reason: with_causes(error) });
        }
        let image = Image { reference: reference.to_owned(), digest: digest.ok() };
        self.images.insert(reference.to_owned(), image.clone());
        Ok(image)
    }
}

impl Pinner<'_> {
    /// Imports a dataset. A failure to fetch it is reported, and bars the workload.
    fn import(&mut self, request: &DatasetRequest<'_>) -> Result<Option<Dataset>, Failure> {
        let scratch = self.keep.folder().join(format!("dataset-{}", request.workload));
        let unusable = |error: std::io::Error| {
            Failure::new(ErrorCode::Scratch, format!("cannot use `{}`", scratch.display())).because(&error)
        };
        std::fs::create_dir_all(&scratch).map_err(unusable)?;
        let path = scratch.join("file");
        let fetched = match request.file {
            DatasetFile::InSource { .. } => None,
            DatasetFile::Url(url) => {
                let saved = match self.datasets.get(request.workload) {
                    Some(held) => {
                        self.keep.write_held(held, &path)?;
                        Ok(())
                    }
                    None => self.fetcher.as_ref().ok_or(FetchError::Disabled).and_then(|fetcher| fetcher.save(url, &path)),
                };
                match saved {
                    Ok(()) => Some(FetchedDataset { url, path: &path }),
                    Err(error) if error.is_refusal() => {
                        self.unpinned.push(UnpinnedInput { what: url.to_owned(), reason: error.to_string() });
                        return Ok(None);
                    }
                    Err(error) => return Err(error.into_failure(&format!("the dataset of workload `{}`", request.workload))),
                }
            }
        };
        let imported = import_dataset(self.keep, request, fetched.as_ref(), &scratch)?;
        std::fs::remove_dir_all(&scratch).map_err(unusable)?;
        Ok(Some(imported))
    }
}

impl Pins for Pinner<'_> {
    fn dataset(&mut self, request: &DatasetRequest<'_>) -> Result<Option<Dataset>, Failure> {
        self.import(request)
    }

    fn script(&mut self, workload: &Name, url: &str) -> Result<Option<PinnedFile>, Failure> {
        Self::script(self, workload, url)
    }

    fn image(&mut self, reference: &str) -> Result<Image, Failure> {
        Self::image(self, reference)
    }

    fn leave_unpinned(&mut self, image: &str, reason: String) {
        if !self.unpinned.iter().any(|unpinned| unpinned.what == image) {
            self.unpinned.push(UnpinnedInput { what: image.to_owned(), reason });
        }
    }

    fn query_pack(&mut self, _: &Name, pack: &Name) -> Result<QueryPack, Failure> {
        let unknown = || Failure::new(ErrorCode::Plan, format!("there is no query pack `{pack}`"));
        assay_planning::built_in_pack(pack.as_str()).ok_or_else(unknown)
    }

    fn built_in_tokenizer(&mut self) -> (String, Digest) {
        (assay_tokens::BUILT_IN.to_owned(), assay_tokens::Tokenizer::built_in().digest())
    }

    fn check_tokenizer(&mut self, tokenizer: &TokenizerSource<'_>) -> Result<u32, Failure> {
        Ok(load_tokenizer(tokenizer)?.template_tokens().unwrap_or(0))
    }

    fn search_result(&mut self, workload: &Name, digest: &Digest) -> Result<PinnedSearch, Failure> {
        let found = self.searches.get(workload).filter(|found| found.manifest.digest == *digest);
        found.cloned().ok_or_else(|| Failure::new(ErrorCode::Internal, format!("the search result {digest} was not looked up")))
    }

    fn take_unpinned(&mut self) -> Vec<UnpinnedInput> {
        std::mem::take(&mut self.unpinned)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use assay_manifest::{Artifact, Count};
    use assay_stage::Exit;

    use super::*;
    use assay_probe::testing::{Reply, Server};

    struct NullSink;

    impl ArtifactSink for NullSink {
        fn keep(&self, name: String, media_type: &str, bytes: &[u8]) -> Result<Artifact, Failure> {
            let size = Count(bytes.len() as u64);
            Ok(Artifact { name, digest: Digest::compute(bytes), size, media_type: media_type.to_owned() })
        }

        fn keep_file(&self, name: String, media_type: &str, path: &Path) -> Result<Artifact, Failure> {
            self.keep(name, media_type, &std::fs::read(path).expect("a file"))
        }

        fn write_held(&self, _: &Digest, _: &Path) -> Result<(), Failure> {
            Err(Failure::new(ErrorCode::Internal, "nothing is held"))
        }

        fn folder(&self) -> &Path {
            Path::new("/nonexistent")
        }

        fn check_cancelled(&self) -> Result<(), Failure> {
            Ok(())
        }
    }

    fn pinner(fetch: bool, allow: &[&str]) -> Pinner<'static> {
        Pinner::new(&NullSink, fetch, &allow.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn images_of_objects_are_pinned_by_their_digest_or_by_nobody() {
        let mut pinner = pinner(false, &[]);
        let digest = format!("r/a@sha256:{}", "0".repeat(64));
        let container = |image: &str| serde_json::json!({"name": "c", "image": image});
        pinner.record_images(
            "a.yaml",
            &serde_json::json!({"spec": {"template": {"spec": {
                "initContainers": [container("r/init:1")], "containers": [container(&digest), container("r/b"), container("r/b")],
            }}}}),
        );
        let unpinned = pinner.take_unpinned();
        assert_eq!(unpinned.iter().map(|unpinned| unpinned.what.as_str()).collect::<Vec<_>>(), ["r/b", "r/init:1"]);
    }

    fn workload() -> Name {
        "w".parse().expect("a name")
    }

    fn unpinned(mut pinner: Pinner<'_>) -> Vec<(String, String)> {
        Pins::take_unpinned(&mut pinner).into_iter().map(|unpinned| (unpinned.what, unpinned.reason)).collect()
    }

    #[test]
    fn a_script_is_kept_as_it_is_today() {
        let server = Server::start(|_| Reply::ok("#!/bin/sh\n"));
        let url = server.at("/run.sh");
        let mut pinner = pinner(true, &[]);
        let file = pinner.script(&workload(), &url).expect("fetched").expect("pinned");
        assert_eq!((file.path.as_str(), file.origin.as_str(), file.executable), ("script", url.as_str(), true));
        assert_eq!(
            (file.artifact.name.as_str(), file.artifact.digest),
            ("workloads/w/files/script", Digest::compute(b"#!/bin/sh\n"))
        );
        assert_eq!(unpinned(pinner), []);
    }

    #[test]
    fn a_script_that_may_not_be_fetched_is_left_unpinned() {
        let server = Server::start(|_| Reply::ok("#!/bin/sh\n"));
        let url = server.at("/run.sh");
        for (fetch, allow, reason) in [
            (false, [].as_slice(), "fetching is off"),
            (true, &["example.org"], "the host `127.0.0.1` is not among those that the pipeline allows"),
        ] {
            let mut pinner = pinner(fetch, allow);
            assert_eq!(pinner.script(&workload(), &url), Ok(None));
            assert_eq!(unpinned(pinner), [(url.clone(), reason.to_owned())]);
        }
        assert_eq!(server.requests().len(), 0);
    }

    #[test]
    fn a_script_that_is_not_there_ends_the_stage() {
        let server = Server::start(|_| Reply::status("404 Not Found"));
        let failure = pinner(true, &[]).script(&workload(), &server.at("/run.sh")).expect_err("not there");
        assert_eq!(failure.exit, Exit::Environment);
        assert_eq!(failure.message, "the script of workload `w` could not be fetched");
    }

    #[test]
    fn an_image_is_looked_up_once() {
        let server = Server::start(|_| Reply::ok("{}"));
        let reference = format!("{}/a:v1", server.authority());
        let mut pinner = pinner(true, &[]);
        for _ in 0..2 {
            let image = pinner.image(&reference).expect("looked up");
            assert_eq!((image.reference, image.digest), (reference.clone(), Some(Digest::compute(b"{}"))));
        }
        assert_eq!(server.requests().len(), 1);
    }

    #[test]
    fn an_image_that_no_registry_has_is_left_unpinned_once() {
        let server = Server::start(|_| Reply::status("404 Not Found"));
        let reference = format!("{}/a:v1", server.authority());
        let mut pinner = pinner(true, &[]);
        for _ in 0..2 {
            assert_eq!(pinner.image(&reference).expect("no failure of the stage").digest, None);
        }
        let reason = format!("`{}` returned 404 Not Found", server.at("/v2/a/manifests/v1"));
        assert_eq!(unpinned(pinner), [(reference, reason)]);
    }

    #[test]
    fn a_digest_is_pinned_without_asking_anybody() {
        let digest = Digest::compute(b"image");
        let mut pinner = pinner(false, &[]);
        let image = pinner.image(&format!("registry.invalid/a@{digest}")).expect("a reference");
        assert_eq!(image.digest, Some(digest));
        assert_eq!(unpinned(pinner), []);
    }

    #[test]
    fn what_is_no_image_reference_is_a_mistake_of_the_definition() {
        let failure = pinner(true, &[]).image("a b").expect_err("no reference");
        insta::assert_snapshot!(failure, @"error[image]: `a b` is not an image reference: expected `[registry/]repository[:tag][@sha256:digest]`");
        assert_eq!(failure.exit, Exit::Definition);
    }
}
