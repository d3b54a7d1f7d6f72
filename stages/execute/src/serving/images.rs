//! The synthetic images of requests, as data URLs. They are drawn and encoded where requests are prepared, ahead of time.

use assay_manifest::{Digest, ImageFormat, Images};
use assay_picture::Picture;
use assay_schedule::ScheduledRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An image as it is sent.
struct SentImage {
    url: String,
    digest: Digest,
}

/// The images of a request, in their order: their data URLs, and the digests of their files.
pub(super) struct SentImages {
    /// The data URLs (RFC 2397).
    pub(super) urls: Vec<String>,
    /// The digests of the files, as texts.
    pub(super) digests: Vec<String>,
}

/// Returns the images of a request, in their order. A salt changes them, as it changes prompts: servers cache what they computed of an image.
pub(super) fn images_of(request: &ScheduledRequest, images: &Images, salt: Option<u64>) -> SentImages {
    let sent = (0..images.count).map(|number| sent_image(request.image_seed(number, salt), images));
    let (urls, digests) = sent.map(|image| (image.url, image.digest.to_string())).unzip();
    SentImages { urls, digests }
}

fn sent_image(seed: u64, images: &Images) -> SentImage {
    let picture = Picture::draw(seed, images.width, images.height);
    let (file, kind) = match images.format {
        ImageFormat::Png => (picture.png(), "png"),
        ImageFormat::Jpeg => (picture.jpeg(), "jpeg"),
    };
    SentImage { url: format!("data:image/{kind};base64,{}", STANDARD.encode(&file)), digest: Digest::compute(&file) }
}
