//! `assay generate`: the files of this repository that are made from the code, so that code and pages never disagree.

use std::path::{Path, PathBuf};

use assay_spec::DefinitionKind;
use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::schema::schemas;
use crate::output;

/// Write generated files, or report stale ones with `--check`.
#[derive(clap::Args)]
pub(crate) struct Generate {
    /// The repository's root
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    root: PathBuf,
    /// Write nothing; fail if a file is stale
    #[arg(long)]
    check: bool,
}

impl Generate {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let mut stale = Vec::new();
        for (path, text) in files()? {
            let path = self.root.join(path);
            if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
                continue;
            }
            if self.check {
                stale.push(path.display().to_string());
            } else {
                write(&path, &text)?;
                output::diagnostic(format!("wrote {}", path.display()));
            }
        }
        if stale.is_empty() {
            return Ok(Exit::Done);
        }
        Err(Failure::new(ErrorCode::Stale, format!("generated files are stale: {}", stale.join(", ")))
            .hint("run `assay generate` and commit what it writes"))
    }
}

fn files() -> Result<Vec<(PathBuf, String)>, Failure> {
    let mut files = Vec::new();
    for (name, schema) in schemas() {
        let text = serde_json::to_string_pretty(&schema).map_err(|error| {
            Failure::new(ErrorCode::Internal, format!("the schema of `{name}` cannot be written")).because(&error)
        })?;
        files.push((PathBuf::from(format!("manifests/schema/{}.json", name.to_ascii_lowercase())), format!("{text}\n")));
    }
    for kind in DefinitionKind::ALL {
        files.push((
            PathBuf::from(format!("docs/reference/{}.md", kind.as_str().to_ascii_lowercase())),
            assay_spec::reference_page(kind),
        ));
    }
    files.push((PathBuf::from("docs/reference/errors.md"), assay_failure::reference_page()));
    files.push((PathBuf::from("docs/reference/import.md"), assay_foreign::reference_page()));
    files.push((PathBuf::from("docs/reference/foreign.md"), assay_foreign::results_page()));
    files.push((PathBuf::from("docs/reference/exports.md"), assay_export::exports_page()));
    files.push((PathBuf::from("docs/reference/diagnosis.md"), assay_diagnosis::reference_page()));
    files.push((PathBuf::from("docs/reference/metrics.md"), assay_metric::reference_page()));
    files.push((PathBuf::from("docs/reference/hot-metrics.md"), assay_hot_metrics::reference_page()));
    files.push((PathBuf::from("docs/tables.md"), assay_warehouse::reference()));
    files.push((PathBuf::from("deploy/base/assay.yaml"), crate::commands::render::base()?));
    Ok(files)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let unwritable =
        |error: std::io::Error| Failure::new(ErrorCode::Generate, format!("cannot write `{}`", path.display())).because(&error);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(unwritable)?;
    }
    std::fs::write(path, text).map_err(unwritable)
}
