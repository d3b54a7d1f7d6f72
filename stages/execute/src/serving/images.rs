//! The images of requests, as data URLs: synthetic ones, which are drawn and encoded where requests are prepared, ahead of time, and files, which are
//! encoded once.

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_manifest::{Digest, ImageFiles, ImageFormat, Images, MAX_IMAGE_FILE_BYTES};
use assay_picture::Picture;
use assay_schedule::ScheduledRequest;
use assay_stage::{Context, ErrorCode, Failure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The images of a request, in their order: their data URLs, and the digests of their files.
pub(super) struct SentImages {
    /// The data URLs (RFC 2397).
    pub(super) urls: Vec<String>,
    /// The digests of the files, as texts.
    pub(super) digests: Vec<String>,
}

/// An image as it is sent.
pub(crate) struct SentImage {
    url: String,
    digest: Digest,
}

/// The image files that were read, by their digests.
pub(crate) type KnownImages = BTreeMap<Digest, Arc<SentImage>>;

/// Returns the synthetic images of a request, in their order. A salt changes them, as it changes prompts: servers cache what they computed of an image.
pub(super) fn images_of(request: &ScheduledRequest, images: &Images, salt: Option<u64>) -> SentImages {
    let sent = (0..images.count).map(|number| drawn_image(request.image_seed(number, salt), images));
    let (urls, digests) = sent.map(|image| (image.url, image.digest.to_string())).unzip();
    SentImages { urls, digests }
}

/// Returns the image files of a request, in their order. They are the same in every execution, as rows of a dataset are.
pub(super) fn files_of(request: &ScheduledRequest, count: u32, files: &[Arc<SentImage>]) -> SentImages {
    let sent = (0..count).filter_map(|number| files.get(request.image_file(number, files.len())));
    let (urls, digests) = sent.map(|image| (image.url.clone(), image.digest.to_string())).unzip();
    SentImages { urls, digests }
}

/// Reads the image files of a workload, each once for a block.
pub(crate) fn read_files(ctx: &Context, images: &ImageFiles, known: &mut KnownImages) -> Result<Arc<[Arc<SentImage>]>, Failure> {
    let read = images.files.iter().map(|file| {
        if let Some(image) = known.get(&file.artifact.digest) {
            return Ok(Arc::clone(image));
        }
        let bytes = ctx.get(&file.artifact, MAX_IMAGE_FILE_BYTES)?;
        let format = ImageFormat::by_first_bytes(&bytes).ok_or_else(|| {
            Failure::new(ErrorCode::ImageFile, format!("`{}` is neither a PNG nor a JPEG file by its first bytes", file.origin))
        })?;
        let image = Arc::new(sent_image(&bytes, format));
        known.insert(file.artifact.digest, Arc::clone(&image));
        Ok(image)
    });
    read.collect()
}

fn drawn_image(seed: u64, images: &Images) -> SentImage {
    let picture = Picture::draw(seed, images.width, images.height);
    let file = match images.format {
        ImageFormat::Png => picture.png(),
        ImageFormat::Jpeg => picture.jpeg(),
    };
    sent_image(&file, images.format)
}

fn sent_image(file: &[u8], format: ImageFormat) -> SentImage {
    SentImage { url: format!("data:image/{format};base64,{}", STANDARD.encode(file)), digest: Digest::compute(file) }
}
