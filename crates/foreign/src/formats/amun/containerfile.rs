//! The recipe of the image that Amun would have built, in the order of its steps.
//!
//! It has neither the script nor Amun's entrypoint: Assay puts the script beside the pinned files, and starts it itself.

use std::fmt::Write as _;

use super::image::ImageFile;
use super::variables::Variable;

/// The program that installs a locked stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageManager {
    Micropipenv,
    Pipenv,
}

/// The steps of an image.
#[derive(Default)]
pub(super) struct Recipe {
    /// Update the packages of the base first.
    pub(super) update: bool,
    /// Packages of the distribution.
    pub(super) packages: Vec<String>,
    pub(super) upgrade_pip: bool,
    /// Packages of Python, which are installed before the stack.
    pub(super) python_packages: Vec<String>,
    pub(super) files: Vec<ImageFile>,
    /// The program that installs `Pipfile.lock`, if there is a stack.
    pub(super) stack: Option<PackageManager>,
}

impl Recipe {
    /// Returns true if there is nothing to build.
    pub(super) fn is_empty(&self) -> bool {
        let Self { update, packages, upgrade_pip, python_packages, files, stack } = self;
        !update && packages.is_empty() && !upgrade_pip && python_packages.is_empty() && files.is_empty() && stack.is_none()
    }
}

/// Returns the text of the recipe.
pub(super) fn write(base: &str, variables: &[Variable], recipe: &Recipe) -> String {
    let mut text = "# The steps of the Amun inspection specification. The script is not in the image: Assay puts it into the folder in which it runs.\n".to_owned();
    let mut line = |instruction: String| {
        let _ = writeln!(text, "{instruction}");
    };
    line(format!("FROM {base}"));
    line("USER root".to_owned());
    for Variable { name, value } in variables {
        line(format!("ENV {name}={}", quoted(value)));
    }
    if recipe.update {
        line(format!("RUN {}", by_distribution("update -y", "upgrade -y")));
    }
    if !recipe.packages.is_empty() {
        let install = format!("install -y {}", shell_words(&recipe.packages));
        line(format!("RUN {}", by_distribution(&install, &install)));
    }
    if recipe.upgrade_pip {
        line("RUN pip3 install --upgrade pip".to_owned());
    }
    if !recipe.python_packages.is_empty() {
        line(format!("RUN pip3 install --force-reinstall --upgrade {}", shell_words(&recipe.python_packages)));
    }
    for ImageFile { beside, path } in &recipe.files {
        line(format!("COPY [\"{beside}\", \"{path}\"]"));
    }
    line("RUN mkdir -p /home/amun && chmod 777 /home/amun".to_owned());
    line("WORKDIR /home/amun".to_owned());
    if let Some(manager) = recipe.stack {
        for instruction in stack(manager) {
            line(instruction.to_owned());
        }
    }
    line("USER 1042".to_owned());
    text
}

fn stack(manager: PackageManager) -> [&'static str; 3] {
    match manager {
        PackageManager::Micropipenv => [
            "COPY [\"Pipfile\", \"Pipfile.lock\", \"/home/amun/\"]",
            "RUN python3 -m venv venv && . venv/bin/activate && pip3 install 'micropipenv[toml]' && micropipenv install --deploy",
            "ENV PATH=\"/home/amun/venv/bin:$PATH\"",
        ],
        PackageManager::Pipenv => [
            "COPY [\"Pipfile\", \"Pipfile.lock\", \"/home/amun/\"]",
            "RUN pip3 install pipenv && PIPENV_VENV_IN_PROJECT=1 pipenv install --deploy",
            "ENV PATH=\"/home/amun/.venv/bin:$PATH\"",
        ],
    }
}

/// Returns a command of the first package manager that the base has, as Amun looked for it.
fn by_distribution(of_fedora: &str, of_debian: &str) -> String {
    format!(
        "if command -v dnf >/dev/null; then dnf {of_fedora}; elif command -v yum >/dev/null; then yum {of_fedora}; \
         else apt-get update && apt-get {of_debian}; fi"
    )
}

/// Returns words in quotes of the shell. They are of one line.
fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ")
}

/// Returns a text in quotes of an instruction. It is of one line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$"))
}
