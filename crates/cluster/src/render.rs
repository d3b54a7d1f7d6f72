//! Objects as YAML, for people and for tools that apply files.

use assay_stage::{ErrorCode, Failure};

use crate::Object;

/// Renders one document for each object, in their order.
pub fn to_yaml(objects: &[Object]) -> Result<String, Failure> {
    let mut all = String::new();
    for object in objects {
        let yaml = serde_saphyr::to_string(object)
            .map_err(|error| Failure::new(ErrorCode::Internal, "an object cannot be written as YAML").because(&error))?;
        all.push_str("---\n");
        all.push_str(yaml.trim_end());
        all.push('\n');
    }
    Ok(all)
}
