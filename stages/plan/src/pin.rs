//! Pinning: what a tag or an address means today, kept so that it means the same tomorrow.

use std::collections::BTreeMap;

use assay_manifest::{Image, Name, PinnedFile, Unpinned};
use assay_stage::{Context, Failure};

use crate::fetch::{FetchError, Fetcher};
use crate::image::Reference;

/// Looks up what is mutable in a pipeline, each thing once.
pub(crate) struct Pinner<'a> {
    ctx: &'a Context,
    fetcher: Option<Fetcher>,
    images: BTreeMap<String, Image>,
    unpinned: Vec<Unpinned>,
}

impl<'a> Pinner<'a> {
    /// Reaches nothing unless `fetch`, and only the hosts in `allow` where there are any.
    pub(crate) fn new(ctx: &'a Context, fetch: bool, allow: &[String]) -> Self {
        let fetcher = fetch.then(|| Fetcher::new(allow.to_vec()));
        Self { ctx, fetcher, images: BTreeMap::new(), unpinned: Vec::new() }
    }

    /// Everything that could not be pinned.
    pub(crate) fn into_unpinned(self) -> Vec<Unpinned> {
        self.unpinned
    }

    /// The bytes behind a script's address. What cannot be had is said, and bars whatever needs it.
    pub(crate) fn script(&mut self, workload: &Name, url: &str) -> Result<Option<PinnedFile>, Failure> {
        match self.fetch(url) {
            Ok(bytes) => {
                let artifact = self.ctx.put(format!("workloads/{workload}/files/script"), "application/octet-stream", &bytes)?;
                Ok(Some(PinnedFile { path: "script".to_owned(), origin: url.to_owned(), executable: true, artifact }))
            }
            Err(error) if error.is_refusal() => {
                self.unpinned.push(Unpinned { what: url.to_owned(), reason: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error.into_failure(&format!("the script of workload `{workload}`"))),
        }
    }

    fn fetch(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        self.fetcher.as_ref().ok_or(FetchError::Off)?.get(url)
    }

    /// An image with the digest that its reference stands for. A registry that does not answer leaves it unpinned, and says so.
    pub(crate) fn image(&mut self, reference: &str) -> Result<Image, Failure> {
        if let Some(known) = self.images.get(reference) {
            return Ok(known.clone());
        }
        let parsed = Reference::parse(reference)
            .map_err(|why| Failure::definition("image", format!("`{reference}` is not an image reference: {why}")))?;
        let digest = match (parsed.digest(), &self.fetcher) {
            (Some(digest), _) => Ok(digest),
            (None, Some(fetcher)) => crate::image::resolve(fetcher, &parsed),
            (None, None) => Err(FetchError::Off),
        };
        if let Err(error) = &digest {
            let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
            self.unpinned.push(Unpinned { what: reference.to_owned(), reason });
        }
        let image = Image { reference: reference.to_owned(), digest: digest.ok() };
        self.images.insert(reference.to_owned(), image.clone());
        Ok(image)
    }
}
