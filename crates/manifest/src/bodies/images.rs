//! Synthetic images in requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PinnedFile;
use crate::document::words;

/// The largest width and the largest height of an image, in pixels.
pub const MAX_IMAGE_SIDE: u32 = 8_192;

/// The most images of a request.
pub const MAX_IMAGES: u32 = 100;

/// The most pixels of all images of a request: 2^24, of which a PNG file and its data URL have 64 MiB. The requests that wait to be sent are held in
/// memory.
pub const MAX_IMAGE_PIXELS: u64 = 1 << 24;

words!(
    /// The file format of an image.
    ImageFormat, "image format",
    /// PNG, stored without compression.
    Png = "png",
    /// JPEG, baseline, of quality 75.
    Jpeg = "jpeg",
);

/// The most bytes of an image file. Its data URL has a third more.
pub const MAX_IMAGE_FILE_BYTES: u64 = 8 << 20;

/// The most bytes of all image files of a workload, which each shard holds in memory.
pub const MAX_IMAGE_FILES_BYTES: u64 = 64 << 20;

/// The most image files of a workload.
pub const MAX_IMAGE_FILES: usize = 500;

impl ImageFormat {
    /// Returns the format that the first bytes of a file tell; `None` for any other.
    ///
    /// Source: the signature of PNG (ISO/IEC 15948, 5.2), and the markers SOI and the beginning of the next one of JPEG (ITU-T T.81, B.1.1).
    pub fn by_first_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Some(Self::Png);
        }
        bytes.starts_with(&[0xff, 0xd8, 0xff]).then_some(Self::Jpeg)
    }
}

/// Image files of the workload, of which each request has some, drawn by its seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageFiles {
    /// The files, in the order of their paths. Each is PNG or JPEG.
    pub files: Vec<PinnedFile>,
    /// Images of each request.
    pub count: u32,
}

impl ImageFiles {
    /// Returns the reason why no request can have these images; `None` if requests can.
    pub fn refusal(&self) -> Option<String> {
        let (files, count) = (self.files.len(), self.count);
        if !(1..=MAX_IMAGE_FILES).contains(&files) {
            return Some(format!("{files} image files: there are 1 to {MAX_IMAGE_FILES}"));
        }
        (!(1..=MAX_IMAGES).contains(&count)).then(|| format!("{count} images: a request has 1 to {MAX_IMAGES}"))
    }
}

/// The images of each request: synthetic ones of one size, which a seed decides to the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Images {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Images of each request.
    pub count: u32,
    /// Their file format.
    pub format: ImageFormat,
}

impl Images {
    /// Returns the pixels of all images of a request.
    pub fn pixels(&self) -> u64 {
        u64::from(self.width).saturating_mul(u64::from(self.height)).saturating_mul(u64::from(self.count))
    }

    /// Returns the reason why no request can have these images; `None` if requests can.
    pub fn refusal(&self) -> Option<String> {
        let Self { width, height, count, .. } = *self;
        let has_side = |side: u32| (1..=MAX_IMAGE_SIDE).contains(&side);
        if !has_side(width) || !has_side(height) {
            return Some(format!("images of {width} x {height} pixels: each side has 1 to {MAX_IMAGE_SIDE} pixels"));
        }
        if !(1..=MAX_IMAGES).contains(&count) {
            return Some(format!("{count} images: a request has 1 to {MAX_IMAGES}"));
        }
        let (pixels, noun) = (self.pixels(), if count == 1 { "image" } else { "images" });
        (pixels > MAX_IMAGE_PIXELS).then(|| {
            format!(
                "{count} {noun} of {width} x {height} pixels: those of a request have at most {MAX_IMAGE_PIXELS}, not {pixels}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_a_file_tell_its_format() {
        let format = ImageFormat::by_first_bytes;
        assert_eq!(format(b"\x89PNG\r\n\x1a\n\0\0"), Some(ImageFormat::Png));
        assert_eq!(format(&[0xff, 0xd8, 0xff, 0xe0, 0]), Some(ImageFormat::Jpeg));
        for other in [&b""[..], b"\x89PNG\r\n", b"GIF89a", b"RIFF\0\0\0\0WEBP", &[0xff, 0xd8], b"<svg/>"] {
            assert_eq!(format(other), None, "{other:?}");
        }
    }

    #[test]
    fn images_have_limits() {
        let refusal = |width, height, count| Images { width, height, count, format: ImageFormat::Jpeg }.refusal();
        assert_eq!(refusal(1, 8_192, 1), None);
        assert_eq!(refusal(4_096, 4_096, 1), None);
        assert_eq!(refusal(0, 1, 1).as_deref(), Some("images of 0 x 1 pixels: each side has 1 to 8192 pixels"));
        assert_eq!(refusal(1, 8_193, 1).as_deref(), Some("images of 1 x 8193 pixels: each side has 1 to 8192 pixels"));
        assert_eq!(refusal(1, 1, 0).as_deref(), Some("0 images: a request has 1 to 100"));
        assert_eq!(refusal(1, 1, 101).as_deref(), Some("101 images: a request has 1 to 100"));
        let many = "2 images of 4096 x 4096 pixels: those of a request have at most 16777216, not 33554432";
        assert_eq!(refusal(4_096, 4_096, 2).as_deref(), Some(many));
    }
}
