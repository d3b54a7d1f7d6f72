//! Software stacks of Python packages: the lock file of a variant, as planned, and the packages that were installed from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Artifact, Digest, Name, PinnedFile, Reason};

/// The most packages that a difference names.
const SHOWN_DIFFERENCES: usize = 3;

words!(
    /// The program that installs the packages of a lock file.
    PythonInstaller, "installer of Python packages",
    /// pip, as a module of the interpreter.
    Pip = "pip",
    /// uv, found in PATH.
    Uv = "uv",
);

/// The Python packages of a variant, as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PythonStack {
    /// The lock file.
    pub lock: PinnedFile,
    /// The packages of the lock file, in its order.
    pub packages: Vec<PinnedPackage>,
    /// The program that installs them.
    pub installer: PythonInstaller,
    /// The interpreter of the virtual environment: a path, or a name that is found in PATH.
    pub interpreter: String,
}

/// A package of a lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedPackage {
    /// Its normalised name (PEP 503).
    pub name: String,
    /// Its version.
    pub version: String,
    /// The environment marker (PEP 508) under which it is installed; absent if it always is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub marker: Option<String>,
}

/// A package that was found in a virtual environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstalledPackage {
    /// Its normalised name (PEP 503).
    pub name: String,
    /// Its version, from its own metadata.
    pub version: String,
}

/// The result of installing the packages of a variant in a virtual environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstalledStack {
    /// The variant.
    pub variant: Name,
    /// The digest of the lock file that they were installed from.
    pub lock: Digest,
    /// The reason why the variant cannot be measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Reason>,
    /// The installer and its version, such as `pip 23.2.1`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub installer: Option<String>,
    /// The implementation of Python and its version, such as `CPython 3.11.7`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub python: Option<String>,
    /// All packages of the virtual environment, by name.
    pub packages: Vec<InstalledPackage>,
    /// The outputs of the installer.
    pub outputs: Vec<Artifact>,
}

impl PythonStack {
    /// Returns the differences between the lock file and the packages of a virtual environment; `None` if there are none. A package with
    /// a marker may be absent.
    pub fn difference(&self, installed: &[InstalledPackage]) -> Option<String> {
        let find = |name: &str| installed.iter().find(|found| found.name == name);
        let of_lock = self.packages.iter().filter_map(|pinned| match find(&pinned.name) {
            None if pinned.marker.is_some() => None,
            None => Some(format!("`{}` {} is not installed", pinned.name, pinned.version)),
            Some(found) if is_same_version(&found.version, &pinned.version) => None,
            Some(found) => Some(format!("`{}` is {} and not {}", pinned.name, found.version, pinned.version)),
        });
        let is_unpinned = |found: &&InstalledPackage| !self.packages.iter().any(|pinned| pinned.name == found.name);
        let unpinned = installed.iter().filter(is_unpinned);
        let unpinned = unpinned.map(|found| format!("`{}` {} is not in the lock file", found.name, found.version));
        let all: Vec<String> = of_lock.chain(unpinned).collect();
        let more = all.len().saturating_sub(SHOWN_DIFFERENCES);
        let shown = all.iter().take(SHOWN_DIFFERENCES).cloned().collect::<Vec<_>>().join(", ");
        match (all.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(shown),
            (false, more) => Some(format!("{shown} and {more} more")),
        }
    }
}

/// Returns the normalised name of a package (PEP 503): lower case, with one `-` for each run of `-`, `_` and `.`.
pub fn normalised_package_name(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// Returns true if two texts are the same version: PEP 440 ignores case, a `v` before the number, and zeros at the end of a release.
fn is_same_version(one: &str, other: &str) -> bool {
    let canonical = |version: &str| {
        let lower = version.to_ascii_lowercase();
        let text = lower.strip_prefix('v').unwrap_or(&lower).to_owned();
        let is_release = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let mut short = text.as_str();
        while let Some(rest) = short.strip_suffix(".0").filter(|_| is_release) {
            short = rest;
        }
        short.to_owned()
    };
    canonical(one) == canonical(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(pins: &[(&str, &str, Option<&str>)]) -> PythonStack {
        let packages = pins.iter().map(|(name, version, marker)| PinnedPackage {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            marker: marker.map(str::to_owned),
        });
        let lock = serde_json::json!({
            "path": "lock.txt", "origin": "lock.txt", "executable": false,
            "artifact": {"name": "lock.txt", "digest": Digest::compute(b""), "size": "0", "media_type": "text/plain"},
        });
        PythonStack {
            lock: serde_json::from_value(lock).expect("a file"),
            packages: packages.collect(),
            installer: PythonInstaller::Pip,
            interpreter: "python3".to_owned(),
        }
    }

    fn installed(packages: &[(&str, &str)]) -> Vec<InstalledPackage> {
        let package =
            |(name, version): &(&str, &str)| InstalledPackage { name: (*name).to_owned(), version: (*version).to_owned() };
        packages.iter().map(package).collect()
    }

    #[test]
    fn installed_packages_are_those_of_the_lock_or_differ_by_name() {
        let planned =
            stack(&[("numpy", "2.1.0", None), ("six", "1.16", None), ("colorama", "0.4.6", Some("sys_platform == 'win32'"))]);
        let differs = |packages: &[(&str, &str)]| planned.difference(&installed(packages));
        assert_eq!(differs(&[("numpy", "2.1.0"), ("six", "1.16.0")]), None);
        assert_eq!(differs(&[("numpy", "2.1"), ("six", "1.16"), ("colorama", "0.4.6")]), None);
        assert_eq!(differs(&[("numpy", "2.1.1"), ("six", "1.16")]).as_deref(), Some("`numpy` is 2.1.1 and not 2.1.0"));
        assert_eq!(differs(&[("numpy", "2.1.0")]).as_deref(), Some("`six` 1.16 is not installed"));
        assert_eq!(
            differs(&[("numpy", "2.1.0"), ("six", "1.16"), ("pip", "23.2")]).as_deref(),
            Some("`pip` 23.2 is not in the lock file")
        );
        let many = differs(&[("a", "1"), ("b", "1"), ("colorama", "0.4.5")]).expect("differs");
        assert_eq!(
            many,
            "`numpy` 2.1.0 is not installed, `six` 1.16 is not installed, `colorama` is 0.4.5 and not 0.4.6 and 2 more"
        );
    }

    #[test]
    fn names_are_normalised() {
        assert_eq!(
            ["Zope.Interface", "ruamel__yaml-clib", "six"].map(normalised_package_name),
            ["zope-interface", "ruamel-yaml-clib", "six"]
        );
    }

    #[test]
    fn a_version_with_a_label_keeps_its_zeros() {
        assert!(is_same_version("V1.0.0", "1") && !is_same_version("1.0rc1", "1.0") && !is_same_version("2.1.0+cpu", "2.1.0"));
    }
}
