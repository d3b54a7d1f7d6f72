//! Predicates in their serialised form, with the member names of their specifications, and the conversions from and to ours.

use std::collections::BTreeMap;

use assay_manifest::{Digest, InputRef, Instant, Kind, Role, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::descriptor::ResourceDescriptor;
use crate::predicate::{Provenance, VerificationResult, VerificationSummary, build_type};
use crate::statement_error::StatementError;
use crate::subjects::bundle_name;
use crate::text::quote;

const ASSAY: &str = "assay";
const BINARY: &str = "binary";
const MANIFEST: &str = "manifest";
const IMAGE: &str = "image";
/// The longest identifier of an invocation, version or address.
const MAX_TEXT: usize = 4096;
/// The largest number of levels of a verification summary; there are four.
const MAX_LEVELS: usize = 16;

fn builder_id(role: Role) -> String {
    format!("https://assay.dev/builder/{role}")
}

/// SLSA provenance v1.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WireProvenance {
    build_definition: BuildDefinition,
    run_details: RunDetails,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BuildDefinition {
    build_type: String,
    external_parameters: Map<String, Value>,
    internal_parameters: Map<String, Value>,
    resolved_dependencies: Vec<ResourceDescriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RunDetails {
    builder: Builder,
    metadata: Metadata,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Builder {
    id: String,
    version: BTreeMap<String, String>,
    #[serde(rename = "builderDependencies")]
    dependencies: Vec<ResourceDescriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Metadata {
    /// The run and the invocation, joined by `/`, so that the statement alone says which run it belongs to.
    invocation_id: String,
    started_on: Instant,
    finished_on: Instant,
}

impl WireProvenance {
    pub(crate) fn from_provenance(kind: Kind, provenance: &Provenance) -> Result<Self, StatementError> {
        let Provenance { role, run_id, invocation_id, .. } = provenance;
        let build_type = build_type(kind).ok_or(StatementError::Field("predicate.buildDefinition.buildType"))?;
        let builder = Builder {
            id: builder_id(*role),
            version: BTreeMap::from([(ASSAY.to_owned(), provenance.builder_version.clone())]),
            dependencies: vec![ResourceDescriptor::from_name(role.as_str(), provenance.builder_binary)],
        };
        Ok(Self {
            build_definition: BuildDefinition {
                build_type,
                external_parameters: object("externalParameters", &provenance.external_parameters)?,
                internal_parameters: object("internalParameters", &provenance.internal_parameters)?,
                resolved_dependencies: provenance.resolved_dependencies.clone(),
            },
            run_details: RunDetails {
                builder,
                metadata: Metadata {
                    invocation_id: format!("{run_id}/{invocation_id}"),
                    started_on: provenance.started_on,
                    finished_on: provenance.finished_on,
                },
            },
        })
    }

    /// Returns the kind of manifest that it claims to be about, and its provenance.
    pub(crate) fn read(self) -> Result<(Kind, Provenance), StatementError> {
        let Self { build_definition: definition, run_details: RunDetails { builder, metadata } } = self;
        let kind = kind_of(&definition.build_type)?;
        let role = kind.signer();
        if builder.id != builder_id(role) {
            return Err(StatementError::Field("predicate.runDetails.builder.id"));
        }
        let (run_id, invocation_id) = read_invocation(&metadata.invocation_id)?;
        let provenance = Provenance {
            role,
            run_id,
            external_parameters: Value::Object(definition.external_parameters),
            internal_parameters: Value::Object(definition.internal_parameters),
            resolved_dependencies: definition.resolved_dependencies,
            builder_binary: read_binary(role, &builder.dependencies)?,
            builder_version: take_only(builder.version, ASSAY, "predicate.runDetails.builder.version")?,
            invocation_id,
            started_on: metadata.started_on,
            finished_on: metadata.finished_on,
        };
        Ok((kind, provenance))
    }
}

fn object(name: &'static str, value: &Value) -> Result<Map<String, Value>, StatementError> {
    value.as_object().cloned().ok_or(StatementError::Field(name))
}

fn kind_of(found: &str) -> Result<Kind, StatementError> {
    let mut kinds = Kind::ALL.iter().copied();
    kinds.find(|kind| build_type(*kind).as_deref() == Some(found)).ok_or_else(|| StatementError::UnknownBuildType(quote(found)))
}

fn read_invocation(text: &str) -> Result<(RunId, String), StatementError> {
    let field = StatementError::Field("predicate.runDetails.metadata.invocationId");
    match text.split_once('/') {
        Some((run, rest)) if !rest.is_empty() && text.len() <= MAX_TEXT => match RunId::new(run) {
            Ok(run) => Ok((run, rest.to_owned())),
            Err(_) => Err(field),
        },
        _ => Err(field),
    }
}

fn read_binary(role: Role, dependencies: &[ResourceDescriptor]) -> Result<Digest, StatementError> {
    let binary = match dependencies {
        [binary] => binary.sha256().filter(|digest| *binary == ResourceDescriptor::from_name(role.as_str(), *digest)),
        _ => None,
    };
    binary.ok_or(StatementError::Field("predicate.runDetails.builder.builderDependencies"))
}

/// Returns the value of the one member that a map of versions must have.
fn take_only(mut map: BTreeMap<String, String>, key: &str, field: &'static str) -> Result<String, StatementError> {
    let value = map.remove(key).filter(|value| !value.is_empty() && value.len() <= MAX_TEXT);
    value.filter(|_| map.is_empty()).ok_or(StatementError::Field(field))
}

/// SLSA verification summary v1.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WireSummary {
    verifier: Verifier,
    time_verified: Instant,
    resource_uri: String,
    policy: ResourceDescriptor,
    input_attestations: Vec<ResourceDescriptor>,
    verification_result: VerificationResult,
    verified_levels: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verifier {
    id: String,
    version: BTreeMap<String, String>,
}

impl WireSummary {
    pub(crate) fn from_summary(summary: &VerificationSummary) -> Self {
        let (policy, digest) = &summary.policy;
        let image = summary.verifier_image.map(|image| (IMAGE.to_owned(), image.to_string()));
        let version = [(BINARY.to_owned(), summary.verifier_binary.to_string())].into_iter().chain(image).collect();
        Self {
            verifier: Verifier { id: builder_id(Role::Publish), version },
            time_verified: summary.time_verified,
            resource_uri: summary.resource_uri.clone(),
            policy: ResourceDescriptor::from_uri(policy, *digest),
            input_attestations: summary.input_attestations.iter().map(attestation).collect(),
            verification_result: summary.result,
            verified_levels: summary.levels.clone(),
        }
    }

    pub(crate) fn read(self) -> Result<VerificationSummary, StatementError> {
        if self.verifier.id != builder_id(Role::Publish) {
            return Err(StatementError::Field("predicate.verifier.id"));
        }
        if self.resource_uri.is_empty() || self.resource_uri.len() > MAX_TEXT {
            return Err(StatementError::Field("predicate.resourceUri"));
        }
        let unread = |_| StatementError::Field("predicate.verifier.version");
        let mut version = self.verifier.version;
        let image = version.remove(IMAGE).map(|image| image.parse()).transpose().map_err(unread)?;
        let binary = take_only(version, BINARY, "predicate.verifier.version")?;
        Ok(VerificationSummary {
            verifier_binary: binary.parse().map_err(unread)?,
            verifier_image: image,
            time_verified: self.time_verified,
            resource_uri: self.resource_uri,
            policy: read_policy(self.policy)?,
            input_attestations: self.input_attestations.iter().map(read_attestation).collect::<Result<_, _>>()?,
            result: self.verification_result,
            levels: read_levels(self.verified_levels)?,
        })
    }
}

fn read_policy(policy: ResourceDescriptor) -> Result<(String, Digest), StatementError> {
    let field = StatementError::Field("predicate.policy");
    match (policy.sha256(), policy.uri) {
        (Some(digest), Some(uri)) if policy.name.is_none() => Ok((uri, digest)),
        _ => Err(field),
    }
}

/// Checks levels: the specification reserves names that begin with `SLSA_` for its own levels, which we do not claim.
fn read_levels(levels: Vec<String>) -> Result<Vec<String>, StatementError> {
    let own = |level: &String| !level.is_empty() && level.len() <= MAX_TEXT && !level.starts_with("SLSA_");
    if levels.len() <= MAX_LEVELS && levels.iter().all(own) {
        Ok(levels)
    } else {
        Err(StatementError::Field("predicate.verifiedLevels"))
    }
}

/// Describes an input: the attestation is the bundle, and an annotation names the manifest that it is about.
fn attestation(input: &InputRef) -> ResourceDescriptor {
    let annotations = BTreeMap::from([(MANIFEST.to_owned(), input.manifest.to_string())]);
    ResourceDescriptor { annotations, ..ResourceDescriptor::from_name(bundle_name(input.kind), input.bundle) }
}

fn read_attestation(found: &ResourceDescriptor) -> Result<InputRef, StatementError> {
    let kind = Kind::ALL.iter().copied().find(|kind| found.name.as_deref() == Some(&bundle_name(*kind)));
    let manifest = found.annotations.get(MANIFEST).and_then(|text| text.parse().ok());
    let input = match (kind, manifest, found.sha256()) {
        (Some(kind), Some(manifest), Some(bundle)) => Some(InputRef { kind, manifest, bundle }),
        _ => None,
    };
    input.filter(|input| attestation(input) == *found).ok_or(StatementError::Field("predicate.inputAttestations"))
}
