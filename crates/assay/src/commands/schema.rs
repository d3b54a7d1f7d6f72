//! `assay schema`: prints the JSON Schema of every kind of document that Assay reads or writes.

use assay_manifest::Kind;
use assay_spec::DefinitionKind;
use assay_stage::{ErrorCode, Exit, Failure};

use crate::output;

/// Print the JSON Schema of a kind.
#[derive(clap::Args)]
pub(crate) struct Schema {
    /// The kind: a definition such as `Pipeline`, or a manifest such as `plan` [default: list all kinds]
    #[arg(value_name = "KIND")]
    kind: Option<String>,
}

/// Returns every kind with its schema.
pub(crate) fn schemas() -> Vec<(String, serde_json::Value)> {
    let definitions = DefinitionKind::ALL.iter().map(|kind| (kind.as_str().to_owned(), assay_spec::json_schema(*kind)));
    let manifests = Kind::ALL.iter().map(|kind| (kind.to_string(), assay_manifest::schema(*kind)));
    definitions.chain(manifests).collect()
}

impl Schema {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let schemas = schemas();
        let names = || schemas.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        match &self.kind {
            None => names().into_iter().for_each(output::line),
            Some(kind) => {
                let found = schemas.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind));
                let (_, schema) = found.ok_or_else(|| {
                    Failure::new(ErrorCode::UnknownKind, format!("there is no kind `{kind}`"))
                        .hint(format!("the kinds are {}", names().join(", ")))
                })?;
                output::json(schema)?;
            }
        }
        Ok(Exit::Done)
    }
}
