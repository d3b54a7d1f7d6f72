//! The synthetic images of requests, as data URLs. They are drawn and encoded where requests are prepared, ahead of time.

use assay_manifest::{Digest, ImageFormat, Images};
use assay_picture::Picture;
use assay_schedule::ScheduledRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An image as it is sent.
pub(super) struct SentImage {
    /// Its data URL (RFC 2397).
    pub(super) url: String,
    /// The digest of its file.
    pub(super) digest: Digest,
}

/// Returns the images of a request, in their order. A salt changes them, as it changes prompts: servers cache what they computed of an image.
pub(super) fn images_of(request: &ScheduledRequest, images: &Images, salt: Option<u64>) -> Vec<SentImage> {
    (0..images.count).map(|number| sent_image(request.image_seed(number, salt), images)).collect()
}

fn sent_image(seed: u64, images: &Images) -> SentImage {
    let picture = Picture::draw(seed, images.width, images.height);
    let (file, kind) = match images.format {
        ImageFormat::Png => (picture.png(), "png"),
        ImageFormat::Jpeg => (picture.jpeg(), "jpeg"),
    };
    SentImage { url: format!("data:image/{kind};base64,{}", STANDARD.encode(&file)), digest: Digest::compute(&file) }
}
