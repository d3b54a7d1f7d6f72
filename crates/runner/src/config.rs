//! Where one user's keys and trust lie on this machine.

use std::path::{Path, PathBuf};

use assay_manifest::Role;
use assay_stage::Failure;

/// The user's configuration folder: `$ASSAY_CONFIG`, else `$XDG_CONFIG_HOME/assay`, else `~/.config/assay`.
#[derive(Clone, Debug)]
pub struct Config(PathBuf);

impl Config {
    /// Finds the folder; it need not exist yet.
    pub fn find() -> Result<Self, Failure> {
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        from("ASSAY_CONFIG")
            .or_else(|| from("XDG_CONFIG_HOME").map(|folder| folder.join("assay")))
            .or_else(|| from("HOME").map(|home| home.join(".config/assay")))
            .map(Self)
            .ok_or_else(|| {
                Failure::environment("no_config_folder", "there is no place for keys: neither ASSAY_CONFIG nor HOME is set")
                    .hint("set ASSAY_CONFIG to a folder that only you can read")
            })
    }

    /// A folder of the caller's choosing.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The encrypted private key of a role, in cosign's format.
    pub fn private_key(&self, role: Role) -> PathBuf {
        self.0.join("keys").join(format!("{role}.key"))
    }

    /// The public key of a role.
    pub fn public_key(&self, role: Role) -> PathBuf {
        self.0.join("keys").join(format!("{role}.pub"))
    }

    /// The local trust root: a TrustPolicy that names the local keys.
    pub fn trust(&self) -> PathBuf {
        self.0.join("trust.yaml")
    }
}
