//! Names of images in pods.

use assay_manifest::Image;

/// Returns the name of an image by its digest alone: a tag adds nothing to a digest, and not every node takes a name with both.
/// An image that could not be pinned keeps its tag.
pub fn by_digest(image: &Image) -> String {
    let Some(digest) = image.digest else { return image.reference.clone() };
    let tagged = image.reference.split('@').next().unwrap_or_default();
    let repository = match tagged.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => tagged,
    };
    format!("{repository}@{digest}")
}

/// Returns the name by digest of an image reference; one without a digest stays as it is.
pub fn named_by_digest(reference: &str) -> String {
    let digest = reference.rsplit_once('@').and_then(|(_, digest)| digest.parse().ok());
    by_digest(&Image { reference: reference.to_owned(), digest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::Digest;

    #[test]
    fn a_pinned_image_is_named_by_its_digest_alone() {
        let digest = Digest::compute(b"");
        let named = |reference: &str, digest| by_digest(&Image { reference: reference.to_owned(), digest });
        for reference in
            ["localhost:5000/a/b:1.2".to_owned(), "localhost:5000/a/b".to_owned(), format!("localhost:5000/a/b@{digest}")]
        {
            assert_eq!(named(&reference, Some(digest)), format!("localhost:5000/a/b@{digest}"));
        }
        assert_eq!(named("a:1", None), "a:1");
        assert_eq!(named_by_digest(&format!("localhost:5000/a/b:1.2@{digest}")), format!("localhost:5000/a/b@{digest}"));
        for other in ["a:1", "a@b", ""] {
            assert_eq!(named_by_digest(other), other);
        }
    }
}
