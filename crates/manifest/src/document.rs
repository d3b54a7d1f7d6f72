//! The parts that all manifests share: header, version, canonical bytes, and the parsing of hostile bytes into a typed document.

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    Artifact, Calibration, CanonicalError, Checkpoint, Collection, Digest, Environment, ExecutionPart, ForeignEvidence,
    ForeignVerdict, Plan, Publication, Recording, RunEnd, RunId, SearchResult, Source, Summary, Tombstone, Verdict,
    canonical_json,
};

/// The version of every manifest that this build writes.
pub const VERSION: &str = "v1alpha1";

/// The largest manifest that is read: a million attempts fit, an endless file does not.
pub const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// The number of characters that an error quotes of a text.
pub(crate) const QUOTED: usize = 80;

macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $type {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $type {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the value as it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    let text: String = text.chars().take(crate::document::QUOTED).collect();
                    format!(concat!("`{}` is not a ", $what, ": expected one of {}"), text, known.join(", "))
                })
            }
        }
    };
}
pub(crate) use words;

words!(
    /// The roles that sign: the stages, and the others that may sign a document.
    Role, "role",
    /// The person who starts the run: the program signs the Source, the RunEnd of a run that is cancelled or fails, the
    /// Tombstone of what is removed, and the SearchResult of a search.
    Source = "source",
    /// The plan stage.
    Plan = "plan",
    /// The provision stage.
    Provision = "provision",
    /// The execute stage.
    Execute = "execute",
    /// The collect stage and its recorder.
    Collect = "collect",
    /// The reduce stage.
    Reduce = "reduce",
    /// The publish stage.
    Publish = "publish",
    /// The gate.
    Gate = "gate",
    /// The calibration of a client.
    Calibrate = "calibrate",
    /// The hardware probe on a target's node.
    Probe = "probe",
    /// An importer of another tool's results.
    Import = "import",
);

impl Role {
    /// The six stages, in the order of the chain.
    pub const STAGES: [Self; 6] = [Self::Plan, Self::Provision, Self::Execute, Self::Collect, Self::Reduce, Self::Publish];

    /// The roles that a run on one machine needs a key for: the source and the six stages.
    pub const RUN: [Self; 7] =
        [Self::Source, Self::Plan, Self::Provision, Self::Execute, Self::Collect, Self::Reduce, Self::Publish];

    /// The roles that a person's machine has a key for: those of a run, the gate, the calibration of its client, and the
    /// import of results of other tools.
    pub const LOCAL: [Self; 10] = [
        Self::Source,
        Self::Plan,
        Self::Provision,
        Self::Execute,
        Self::Collect,
        Self::Reduce,
        Self::Publish,
        Self::Gate,
        Self::Calibrate,
        Self::Import,
    ];
}

words!(
    /// The kinds of manifest.
    Kind, "kind of manifest",
    /// The files and commit that the run was started from.
    Source = "source",
    /// Frozen workloads and ordered trials.
    Plan = "plan",
    /// Hosts, software and targets of one block.
    Environment = "environment",
    /// The work of one shard in one block.
    ExecutionPart = "execution_part",
    /// The readings that were recorded while execute ran.
    Recording = "recording",
    /// The frozen raw evidence.
    Collection = "collection",
    /// Statistics and curated rows.
    Summary = "summary",
    /// Published numbers with their lineage.
    Publication = "publication",
    /// A run that was cancelled or failed.
    RunEnd = "run_end",
    /// One finished attempt, kept for resume.
    Checkpoint = "checkpoint",
    /// The decision of a gate.
    Verdict = "verdict",
    /// The removal of a run's evidence.
    Tombstone = "tombstone",
    /// The load that a client makes on a machine, and how exactly it measures.
    Calibration = "calibration",
    /// Results of another tool.
    ForeignEvidence = "foreign_evidence",
    /// The rounds of a search for a load, and the loads that they led to.
    SearchResult = "search_result",
    /// The decision of a gate about results of another tool.
    ForeignVerdict = "foreign_verdict",
);

impl Kind {
    /// Returns the role whose key signs this kind.
    pub fn signer(self) -> Role {
        match self {
            Self::Source | Self::RunEnd | Self::Tombstone | Self::SearchResult => Role::Source,
            Self::Plan => Role::Plan,
            Self::Environment => Role::Provision,
            Self::ExecutionPart | Self::Checkpoint => Role::Execute,
            Self::Recording | Self::Collection => Role::Collect,
            Self::Summary => Role::Reduce,
            Self::Publication => Role::Publish,
            Self::Verdict | Self::ForeignVerdict => Role::Gate,
            Self::Calibration => Role::Calibrate,
            Self::ForeignEvidence => Role::Import,
        }
    }

    /// Returns the kinds that a manifest of this kind may take as inputs.
    pub fn allowed_inputs(self) -> &'static [Self] {
        match self {
            Self::Source | Self::ForeignEvidence => &[],
            Self::Plan => &[Self::Source],
            Self::Environment => &[Self::Plan],
            Self::ExecutionPart | Self::Recording | Self::Checkpoint => &[Self::Plan, Self::Environment],
            Self::Collection => &[Self::Plan, Self::Environment, Self::ExecutionPart, Self::Recording],
            Self::Summary => &[Self::Plan, Self::Environment, Self::Collection],
            Self::Publication => &[
                Self::Source,
                Self::Plan,
                Self::Environment,
                Self::ExecutionPart,
                Self::Recording,
                Self::Collection,
                Self::Summary,
            ],
            Self::RunEnd | Self::Tombstone => Self::ALL,
            Self::Verdict => &[Self::Summary, Self::Verdict],
            Self::Calibration => &[Self::ExecutionPart],
            Self::SearchResult => &[Self::Publication],
            Self::ForeignVerdict => &[Self::ForeignEvidence],
        }
    }
}

/// A reference to an input manifest: both its bytes and the signature over them are pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputRef {
    /// The kind of the input manifest.
    pub kind: Kind,
    /// The digest of the manifest's bytes.
    pub manifest: Digest,
    /// The digest of the bundle that was verified.
    pub bundle: Digest,
}

/// The fields that precede the body of every manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The kind of this manifest.
    pub kind: Kind,
    /// The version of the format.
    pub version: String,
    /// The run that this manifest belongs to.
    pub run_id: RunId,
    /// The role that made and signed it.
    pub stage: Role,
    /// The manifests that this one was made from, sorted.
    pub inputs: Vec<InputRef>,
}

/// The typed part of a manifest.
pub trait Body: Serialize + DeserializeOwned + JsonSchema + Clone + fmt::Debug + PartialEq {
    /// The kind that the header names.
    const KIND: Kind;

    /// Returns the artifacts that this manifest outputs; together with the manifest they are the subjects of its bundle.
    fn artifacts(&self) -> Vec<&Artifact>;

    /// Returns the typed manifest inside a document, if it is of this kind.
    fn from_document(document: &Document) -> Option<&Manifest<Self>>;

    /// Returns the digest of the body alone: for a Plan this is the `plan_digest`, equal for equal plans of different runs.
    fn digest(&self) -> Result<Digest, CanonicalError> {
        Ok(Digest::compute(&canonical_json(self)?))
    }
}

/// A header and a typed body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(bound(serialize = "B: Body", deserialize = "B: Body"))]
pub struct Manifest<B: Body> {
    /// The fields that every manifest has.
    pub header: Header,
    /// The fields of this kind.
    pub body: B,
}

impl<B: Body> Manifest<B> {
    /// Creates a manifest of `run_id` made from `inputs`. The inputs are sorted, so that their order never changes the bytes.
    pub fn new(run_id: RunId, mut inputs: Vec<InputRef>, body: B) -> Self {
        inputs.sort_unstable();
        inputs.dedup();
        let header = Header { kind: B::KIND, version: VERSION.to_owned(), run_id, stage: B::KIND.signer(), inputs };
        Self { header, body }
    }

    /// Returns the canonical bytes, which are stored, signed and named by digest.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical_json(self)
    }
}

/// An error of parsing or writing a manifest.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The bytes are more than [`MAX_MANIFEST_BYTES`].
    #[error("the manifest has {0} bytes, more than the limit of {MAX_MANIFEST_BYTES}")]
    TooLarge(u64),
    /// The bytes are not JSON, or lack the fields of a header.
    #[error("the {what} does not parse")]
    Parse {
        /// The part that was parsed.
        what: String,
        /// The position and reason of the parse error.
        #[source]
        source: serde_json::Error,
    },
    /// The header parses, but the body does not have the fields of its kind in this build.
    #[error("the {kind} does not have the fields of its kind")]
    Fields {
        /// The kind in the header.
        kind: Kind,
        /// The position and reason of the parse error.
        #[source]
        source: serde_json::Error,
    },
    /// The version is unknown to this build.
    #[error("the manifest has version `{0}`; this build reads `{VERSION}`")]
    UnknownVersion(String),
    /// The role in the header does not make this kind.
    #[error("a {kind} is made by `{expected}`, but the header says `{found}`")]
    WrongStage {
        /// The kind in the header.
        kind: Kind,
        /// The role that makes it.
        expected: Role,
        /// The role in the header.
        found: Role,
    },
    /// An input is of a kind that this kind is never made from.
    #[error("a {kind} is not made from a {input}")]
    WrongInput {
        /// The kind in the header.
        kind: Kind,
        /// The input's kind.
        input: Kind,
    },
    /// The bytes are not in canonical form.
    #[error("the {0} is not in canonical form")]
    NotCanonical(Kind),
    /// Canonicalisation refused a value.
    #[error("the manifest has no canonical form")]
    Canonical(#[from] CanonicalError),
    /// Two outputs share a name.
    #[error("two outputs of the {kind} are called `{name}`")]
    DuplicateOutput {
        /// The kind in the header.
        kind: Kind,
        /// The name.
        name: String,
    },
    /// An output name cannot be a file name inside a folder.
    #[error("the {kind} names an output `{name}`, which is not a plain relative path")]
    BadOutputName {
        /// The kind in the header.
        kind: Kind,
        /// The name.
        name: String,
    },
}

macro_rules! documents {
    ($($variant:ident),+) => {
        /// A manifest of any kind.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "a run has few documents, and most of each is on the heap")]
        pub enum Document {
            $(#[doc = concat!("A ", stringify!($variant), ".")] $variant(Manifest<$variant>)),+
        }

        impl Document {
            /// The header.
            pub fn header(&self) -> &Header {
                match self { $(Self::$variant(manifest) => &manifest.header),+ }
            }

            /// The artifacts that it outputs.
            pub fn artifacts(&self) -> Vec<&Artifact> {
                match self { $(Self::$variant(manifest) => manifest.body.artifacts()),+ }
            }

            /// The canonical bytes.
            pub fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
                match self { $(Self::$variant(manifest) => manifest.to_bytes()),+ }
            }

            fn read(kind: Kind, bytes: &[u8]) -> Result<Self, serde_json::Error> {
                match kind { $(Kind::$variant => serde_json::from_slice(bytes).map(Self::$variant)),+ }
            }
        }

        $(impl From<Manifest<$variant>> for Document {
            fn from(manifest: Manifest<$variant>) -> Self {
                Self::$variant(manifest)
            }
        })+

        fn generated_schema(kind: Kind) -> serde_json::Value {
            match kind { $(Kind::$variant => schemars::schema_for!(Manifest<$variant>).to_value()),+ }
        }
    };
}
documents!(
    Source,
    Plan,
    Environment,
    ExecutionPart,
    Recording,
    Collection,
    Summary,
    Publication,
    RunEnd,
    Checkpoint,
    Verdict,
    Tombstone,
    Calibration,
    ForeignEvidence,
    SearchResult,
    ForeignVerdict
);

/// Returns the JSON Schema of a manifest kind, generated from the types and narrowed to that kind and version.
pub fn schema(kind: Kind) -> serde_json::Value {
    let mut schema = generated_schema(kind);
    schema["$id"] = format!("https://assay.dev/schema/{VERSION}/{kind}.json").into();
    schema["title"] = format!("A manifest of kind {kind}").into();
    schema["description"] = "A header and a typed body, in canonical JSON (RFC 8785).".into();
    if let Some(header) = schema.pointer_mut("/$defs/Header/properties") {
        header["kind"] = serde_json::json!({"const": kind, "description": "What kind of manifest this is."});
        header["version"] = serde_json::json!({"const": VERSION, "description": "The version of the format."});
        header["stage"] = serde_json::json!({"const": kind.signer(), "description": "The role that made and signed it."});
    }
    schema
}

macro_rules! body {
    ($type:ident, |$body:ident| $artifacts:expr) => {
        impl crate::Body for $type {
            const KIND: crate::Kind = crate::Kind::$type;

            fn artifacts(&self) -> Vec<&crate::Artifact> {
                let $body = self;
                $artifacts
            }

            fn from_document(document: &crate::Document) -> Option<&crate::Manifest<Self>> {
                match document {
                    crate::Document::$type(manifest) => Some(manifest),
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use body;

/// The fields of a manifest that are needed to parse the rest.
#[derive(Deserialize)]
struct PartialManifest {
    header: PartialHeader,
}

#[derive(Deserialize)]
struct PartialHeader {
    kind: Kind,
    version: String,
}

impl Document {
    /// Parses a manifest from bytes that may be hostile.
    ///
    /// Accepts only the canonical form: the parsed document must write the very same bytes. This one rule refuses duplicate keys,
    /// unknown fields, other spellings of numbers and trailing bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(DocumentError::TooLarge(bytes.len() as u64));
        }
        let peek: PartialManifest =
            serde_json::from_slice(bytes).map_err(|source| DocumentError::Parse { what: "manifest's header".into(), source })?;
        if peek.header.version != VERSION {
            return Err(DocumentError::UnknownVersion(peek.header.version.chars().take(QUOTED).collect()));
        }
        let kind = peek.header.kind;
        let document = Self::read(kind, bytes).map_err(|source| DocumentError::Fields { kind, source })?;
        document.check()?;
        if document.to_bytes()? != bytes {
            return Err(DocumentError::NotCanonical(kind));
        }
        Ok(document)
    }

    /// The kind of manifest.
    pub fn kind(&self) -> Kind {
        self.header().kind
    }

    fn check(&self) -> Result<(), DocumentError> {
        let Header { kind, stage, ref inputs, .. } = *self.header();
        if stage != kind.signer() {
            return Err(DocumentError::WrongStage { kind, expected: kind.signer(), found: stage });
        }
        if let Some(input) = inputs.iter().find(|input| !kind.allowed_inputs().contains(&input.kind)) {
            return Err(DocumentError::WrongInput { kind, input: input.kind });
        }
        check_output_names(kind, &self.artifacts())
    }
}

/// Checks that outputs have distinct names that stay inside a folder, because they become file names when a run is published.
fn check_output_names(kind: Kind, artifacts: &[&Artifact]) -> Result<(), DocumentError> {
    let mut names: Vec<_> = artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(DocumentError::DuplicateOutput { kind, name: pair[0].to_owned() });
    }
    match names.into_iter().find(|name| !is_plain_path(name)) {
        Some(name) => Err(DocumentError::BadOutputName { kind, name: name.chars().take(QUOTED).collect() }),
        None => Ok(()),
    }
}

/// Returns true if a path can be the name of an output in a manifest: relative, of at most 512 letters, digits and `._-/=@+`, without `.` and `..`.
pub fn is_plain_path(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/=@+".contains(&byte);
    name.len() <= 512 && name.bytes().all(plain) && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}
