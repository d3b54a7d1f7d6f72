//! The image files of a workload.

use assay_failure::{ErrorCode, Failure};
use assay_manifest::{ImageFiles, ImageFormat, MAX_IMAGE_FILE_BYTES, MAX_IMAGE_FILES_BYTES};
use assay_spec::{Workload, WorkloadImageFiles};

use crate::SourceFiles;

/// Pins the image files of a workload, in the order of their paths. Refuses a file that is neither PNG nor JPEG, and files that are too large.
pub(crate) fn image_files(
    files: &SourceFiles<'_>,
    workload: &Workload,
    written: &WorkloadImageFiles,
) -> Result<ImageFiles, Failure> {
    let mut paths = written.paths.clone();
    paths.sort();
    let refused = |message: String, hint: &str| Failure::new(ErrorCode::ImageFile, message).hint(hint);
    let (mut pinned, mut sum) = (Vec::new(), 0_u64);
    for path in &paths {
        let file = files.pin_file(&workload.name, path)?;
        let bytes = files.bytes(&file.origin);
        if ImageFormat::by_first_bytes(bytes).is_none() {
            let message = format!("`{}` is neither a PNG nor a JPEG file by its first bytes", file.origin);
            return Err(refused(message, "convert it to PNG or JPEG, or leave it out"));
        }
        let length = bytes.len() as u64;
        if length > MAX_IMAGE_FILE_BYTES {
            let message = format!("`{}` has {length} bytes, and an image file has at most {MAX_IMAGE_FILE_BYTES}", file.origin);
            return Err(refused(message, "make the image smaller, or leave it out"));
        }
        sum = sum.saturating_add(length);
        pinned.push(file);
    }
    if sum > MAX_IMAGE_FILES_BYTES {
        let message = format!(
            "the image files of the workload `{}` have {sum} bytes together, and at most {MAX_IMAGE_FILES_BYTES} are held in memory",
            workload.name
        );
        return Err(refused(message, "make the images smaller, or take fewer of them"));
    }
    Ok(ImageFiles { files: pinned, count: written.count })
}
