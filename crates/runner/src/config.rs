//! The folder of a user's keys and trust root on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use assay_manifest::{Digest, Role};

use crate::{Error, Result, UserFolder};

/// The user's configuration folder: `$ASSAY_CONFIG`, else `$XDG_CONFIG_HOME/assay`, else `~/.config/assay`. Only `ASSAY_CONFIG`, which
/// is Assay's own, may be relative.
#[derive(Clone, Debug)]
pub struct Config(PathBuf);

impl Config {
    /// Finds the folder; it need not exist yet.
    pub fn find() -> Result<Self> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        if let Some(folder) = variable("ASSAY_CONFIG").filter(|value| !value.is_empty()) {
            return Ok(Self(folder.into()));
        }
        find_user_folder(&variable, UserFolder::Config, [("XDG_CONFIG_HOME", "assay"), ("HOME", ".config/assay")]).map(Self)
    }

    /// Uses a folder that the caller chooses.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the encrypted private key of a role, in cosign's format.
    pub fn private_key(&self, role: Role) -> PathBuf {
        self.0.join("keys").join(format!("{role}.key"))
    }

    /// Returns the path of the public key of a role.
    pub fn public_key(&self, role: Role) -> PathBuf {
        self.0.join("keys").join(format!("{role}.pub"))
    }

    /// Returns the path of the public key of a role that was replaced by another.
    pub fn old_public_key(&self, role: Role, fingerprint: Digest) -> PathBuf {
        self.0.join("keys").join(format!("{role}-{}.pub", fingerprint.short()))
    }

    /// Returns the path of the local trust root: a TrustPolicy that names the local keys.
    pub fn trust(&self) -> PathBuf {
        self.0.join("trust.yaml")
    }
}

/// Finds a folder of the user: below the folder that the first of these variables names that is set and not empty.
pub(crate) fn find_user_folder(
    variable: impl Fn(&str) -> Option<OsString>,
    folder: UserFolder,
    places: [(&'static str, &str); 2],
) -> Result<PathBuf> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let first = places.into_iter().find_map(|(name, below)| Some((name, value(name)?, below)));
    let (variable, path, below) = first.ok_or(Error::NoFolder(folder))?;
    if path.is_absolute() { Ok(path.join(below)) } else { Err(Error::RelativeFolder { variable, path, folder }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        Config::from_variables(variable)
            .map_or_else(|error| assay_failure::Failure::from(error).to_string(), |config| config.0.display().to_string())
    }

    #[test]
    fn the_nearest_choice_wins() {
        let [assay, xdg, home] = [("ASSAY_CONFIG", "/a"), ("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(found(&[assay, xdg, home]), "/a");
        assert_eq!(found(&[xdg, home]), "/x/assay");
        assert_eq!(found(&[home]), "/h/.config/assay");
        assert_eq!(found(&[("ASSAY_CONFIG", ""), ("XDG_CONFIG_HOME", ""), home]), "/h/.config/assay", "empty is unset");
        insta::assert_snapshot!(found(&[]), @r"
        error[no_config_folder]: there is no place for keys: neither ASSAY_CONFIG nor HOME is set

        hint: set ASSAY_CONFIG to a folder that only you can read
        ");
    }

    #[test]
    fn a_relative_folder_of_the_user_is_refused() {
        insta::assert_snapshot!(found(&[("HOME", "h")]), @r"
        error[no_config_folder]: `HOME` is `h`, which is no absolute path

        hint: set HOME to an absolute path, or ASSAY_CONFIG to a folder that only you can read
        ");
        assert!(found(&[("XDG_CONFIG_HOME", "x"), ("HOME", "/h")]).contains("`XDG_CONFIG_HOME` is `x`"));
        assert_eq!(found(&[("ASSAY_CONFIG", "keys"), ("HOME", "h")]), "keys", "the user's own choice");
    }

    #[test]
    fn everything_lies_in_the_folder() {
        let config = Config::new("/c");
        assert_eq!(config.folder(), Path::new("/c"));
        assert_eq!(config.private_key(Role::Plan), Path::new("/c/keys/plan.key"));
        assert_eq!(config.public_key(Role::Plan), Path::new("/c/keys/plan.pub"));
        assert_eq!(config.trust(), Path::new("/c/trust.yaml"));
    }
}
