//! Objects as YAML, for people and for tools that apply files.

use crate::{Error, Object, Result};

/// Renders one document for each object, in their order.
pub fn to_yaml(objects: &[Object]) -> Result<String> {
    let mut all = String::new();
    for object in objects {
        let yaml = serde_saphyr::to_string(object).map_err(|error| Error::Yaml(error.into()))?;
        all.push_str("---\n");
        all.push_str(yaml.trim_end());
        all.push('\n');
    }
    Ok(all)
}
