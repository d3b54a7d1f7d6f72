//! The installation of Assay in a namespace, read from its ConfigMap.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{Error, INSTALLATION, MANAGED_BY, Object, Result, named_by_digest};

/// The installation in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The namespace that holds drivers, stages and their keys.
    pub namespace: String,
    /// The namespace that targets are brought up in, which holds nothing of Assay's.
    pub targets_namespace: String,
    /// The address of the artifact store from within pods.
    pub store: String,
    /// The image of all stages, by digest.
    pub image: String,
    /// The trust policy of the runs, as YAML.
    pub trust: String,
    /// Images, by digest, that a pipeline may name for a stage and a workload for itself: they get the stage's key.
    pub images: Vec<String>,
    /// The Service of the store, `namespace/name:port`, if a person's machine reaches the store only through the API server.
    pub forward: Option<String>,
}

impl Installation {
    /// Builds the ConfigMap.
    pub fn config_map(&self) -> Object {
        let mut data = BTreeMap::from([
            ("targets_namespace", self.targets_namespace.as_str()),
            ("store", &self.store),
            ("image", &self.image),
            ("trust.yaml", &self.trust),
        ]);
        if let Some(forward) = &self.forward {
            data.insert("forward", forward);
        }
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": INSTALLATION, "namespace": self.namespace, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
            "data": data,
        })
    }

    /// Parses the ConfigMap's data.
    pub fn read(namespace: &str, data: &BTreeMap<String, String>) -> Result<Self> {
        let asked = |key: &'static str| {
            let value = data.get(key).map(|value| value.trim()).filter(|value| !value.is_empty());
            value.map(str::to_owned).ok_or_else(|| Error::InstallationValue { namespace: namespace.to_owned(), key })
        };
        let installation = Self {
            namespace: namespace.to_owned(),
            targets_namespace: asked("targets_namespace")?,
            store: asked("store")?,
            image: asked("image")?,
            trust: asked("trust.yaml")?,
            images: asked("images").unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            forward: asked("forward").ok(),
        };
        check_image(&installation.image)?;
        if installation.targets_namespace == installation.namespace {
            return Err(Error::TargetsBesideKeys { namespace: installation.namespace });
        }
        Ok(installation)
    }
}

impl Installation {
    /// Refuses an image that the administrator has not listed: everything that runs as a stage has the stage's key.
    pub fn check_stage_image(&self, image: &str) -> Result<()> {
        check_image(image)?;
        let asked = named_by_digest(image);
        if std::iter::once(&self.image).chain(&self.images).any(|known| named_by_digest(known) == asked) {
            return Ok(());
        }
        Err(Error::StageImage { image: image.to_owned(), namespace: self.namespace.clone() })
    }
}

/// Refuses an image that is not named by digest: the software that ran could not be proved.
pub(crate) fn check_image(image: &str) -> Result<()> {
    let hex = image.rsplit_once("@sha256:").map(|(_, hex)| hex);
    if hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return Ok(());
    }
    Err(Error::ImageNotPinned(image.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::installation;

    fn data(installation: &Installation) -> BTreeMap<String, String> {
        serde_json::from_value(installation.config_map()["data"].clone()).expect("texts")
    }

    #[test]
    fn what_is_written_is_read() {
        let forwarded = Installation { forward: Some("assay-store/assay-store:8420".to_owned()), ..installation() };
        let trimmed = Installation { trust: "kind: TrustPolicy".to_owned(), ..forwarded.clone() };
        assert_eq!(Installation::read("assay", &data(&forwarded)).expect("an installation"), trimmed);
        let without = Installation { trust: "t".to_owned(), ..installation() };
        assert_eq!(Installation::read("assay", &data(&without)).expect("an installation"), without);
    }

    #[test]
    fn only_reviewed_images_are_given_a_key() {
        let other = format!("example.org/other@sha256:{}", "1".repeat(64));
        let listed = Installation { images: vec![other.clone()], ..installation() };
        assert!(installation().check_stage_image(&installation().image).is_ok() && listed.check_stage_image(&other).is_ok());
        assert!(listed.check_stage_image(&other.replace('@', ":1@")).is_ok(), "a tag says nothing");
        assert_eq!(installation().check_stage_image(&other).expect_err("nobody reviewed it").code().as_str(), "stage_image");
        assert_eq!(listed.check_stage_image("example.org/other:latest").expect_err("a tag").code().as_str(), "image_not_pinned");
    }

    #[test]
    fn what_is_missing_or_unsafe_is_named() {
        let refused = |change: &dyn Fn(&mut Installation)| {
            let mut installation = installation();
            change(&mut installation);
            Installation::read("assay", &data(&installation)).expect_err("refused").to_string()
        };
        insta::assert_snapshot!(refused(&|installation| installation.store = " ".to_owned()), @"the ConfigMap `assay` of namespace `assay` has no value for `store`");
        insta::assert_snapshot!(refused(&|installation| installation.image = "assay:latest".to_owned()), @"the image `assay:latest` is not named by its digest");
        insta::assert_snapshot!(refused(&|installation| installation.targets_namespace = "assay".to_owned()), @"the namespace of targets is `assay`, which holds Assay's keys");
    }
}
