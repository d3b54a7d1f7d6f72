//! The sources of secrets, and of the values of headers.

use assay_manifest::EnvVar;

use crate::checked_value::{CheckedValue, Read};

/// The location of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRef {
    /// A variable of the runner's environment.
    Env(String),
    /// A file on the runner.
    File(String),
}

/// The source of a header's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderSource {
    /// The value, which is no secret.
    Plain(String),
    /// A secret.
    Secret {
        /// The location of the secret.
        place: SecretRef,
        /// The authentication scheme that is put before it, such as `Bearer`.
        scheme: Option<String>,
    },
}

impl SecretRef {
    /// Returns the variable or header of that name whose value it refers to.
    pub fn to_env_var(&self, name: &str) -> EnvVar {
        let (from_env, from_file) = match self {
            Self::Env(name) => (Some(name.clone()), None),
            Self::File(path) => (None, Some(path.clone())),
        };
        EnvVar { name: name.to_owned(), value: None, from_env, from_file, scheme: None }
    }
}

impl HeaderSource {
    /// Returns the header of that name with its value, or with the location of it.
    pub fn to_env_var(&self, name: &str) -> EnvVar {
        match self {
            Self::Plain(value) => plain_variable(name, value),
            Self::Secret { place, scheme } => EnvVar { scheme: scheme.clone(), ..place.to_env_var(name) },
        }
    }
}

/// Returns a variable or header with a value that is no secret.
pub(crate) fn plain_variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), from_env: None, from_file: None, scheme: None }
}

impl Read for HeaderSource {
    fn read(value: &CheckedValue) -> Option<Self> {
        Some(match value.text_of("value") {
            Some(plain) => Self::Plain(plain.to_owned()),
            None => Self::Secret { place: SecretRef::read(value)?, scheme: value.get("scheme")? },
        })
    }
}

impl Read for SecretRef {
    fn read(value: &CheckedValue) -> Option<Self> {
        match value.get::<Option<String>>("from_env")? {
            Some(name) => Some(Self::Env(name)),
            None => Some(Self::File(value.get("from_file")?)),
        }
    }
}
