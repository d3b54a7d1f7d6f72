//! The image files of `assay bench`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assay_manifest::{ImageFormat, MAX_IMAGE_FILES};
use assay_stage::{ErrorCode, Failure};
use serde_json::{Value, json};

use super::read_source_file;

/// The hint beside an unusable `--image-files`.
const HINT: &str = "`--image-files` takes PNG and JPEG files, and folders of them";

/// The options of image files.
#[derive(clap::Args)]
pub(super) struct ImageFileOptions {
    /// PNG and JPEG files, or folders of them, of which each request or turn has one, drawn by its seed
    #[arg(long, value_name = "FILE|FOLDER,..", value_delimiter = ',', conflicts_with = "images")]
    image_files: Vec<PathBuf>,
    /// The image files of each request or turn
    #[arg(long, value_name = "N", default_value_t = 1, requires = "image_files")]
    image_count: u32,
}

impl ImageFileOptions {
    /// Adds the files to those of the workload in `folder`, within the limit of files of a Source.
    pub(super) fn add_files(&self, folder: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
        for (name, path) in self.copies()? {
            files.insert(format!("{folder}/{name}"), read_source_file(&path, HINT, HINT)?);
        }
        Ok(())
    }

    /// Returns the image files of the workload; `None` if there are none.
    pub(super) fn written(&self) -> Result<Option<Value>, Failure> {
        let paths: Vec<String> = self.copies()?.into_iter().map(|(name, _)| name).collect();
        Ok((!paths.is_empty()).then(|| json!({"paths": paths, "count": self.image_count})))
    }

    /// Returns the names of the files in the workload's folder, with the paths of the user: of a folder, its files by their names, without those of
    /// another kind, and without hidden ones.
    pub(super) fn copies(&self) -> Result<Vec<(String, PathBuf)>, Failure> {
        let mut paths = Vec::new();
        for path in &self.image_files {
            if path.is_dir() { paths.extend(images_in(path)?) } else { paths.push(path.clone()) }
        }
        if paths.len() > MAX_IMAGE_FILES {
            let message = format!("`--image-files` names {} files, and a workload has at most {MAX_IMAGE_FILES}", paths.len());
            return Err(Failure::new(ErrorCode::Option, message).hint("name fewer files, or a folder with fewer of them"));
        }
        Ok((1..)
            .zip(paths)
            .map(|(number, path): (u32, PathBuf)| (format!("images/{number:03}.{}", ending(&path)), path))
            .collect())
    }
}

/// Returns the image files of a folder, by their names.
fn images_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", folder.display())).because(&error).hint(HINT)
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() && ImageFormat::ALL.iter().any(|format| is_named(&path, *format)) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let message = format!("`{}` has no file whose name ends in .png, .jpg or .jpeg", folder.display());
        return Err(Failure::new(ErrorCode::Option, message).hint(HINT));
    }
    paths.sort();
    Ok(paths)
}

fn ending(path: &Path) -> String {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    if !ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_alphanumeric()) { ending } else { "image".to_owned() }
}

fn is_named(path: &Path, format: ImageFormat) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let endings: &[&str] = match format {
        ImageFormat::Png => &["png"],
        ImageFormat::Jpeg => &["jpg", "jpeg"],
    };
    !is_hidden && endings.contains(&ending(path).as_str())
}
