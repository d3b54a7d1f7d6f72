//! The image of a specification: its base, and the steps that build an image from it.

use serde_json::{Value, json};

use super::containerfile::{self, PackageManager, Recipe};
use super::pipfile::pipfile;
use super::script::{further_files, is_own_file};
use super::variables::Variable;
use super::{accepts, lines};
use crate::draft::{IndicatorDraft, member};
use crate::mapping::Mapping;
use crate::results::find_credential;
use crate::value::at;

/// The folder in which Amun ran the script.
const HOME: &str = "/home/amun/";
/// The most files of a specification.
const MAX_FILES: usize = 100;
const CONTAINERFILE: &str = "Containerfile";
/// The folder of files that the image has elsewhere.
const IMAGE_FILES: &str = "image-files";
/// The reason why a step refuses a definition that runs as it is.
const NOT_BUILT: &str = "it is a step of an image that has to be built before the script runs: `assay import` writes the `Containerfile`, and with \
                         `--build-image REPOSITORY` builds the image";
const ON_ONE_MACHINE: &str =
    "On one machine the script runs with the programs of the machine: nothing of the image or of the stack is there";
const MAY_BE_CREDENTIAL: &str = "it may hold a credential: remove it";

/// A file that only the image has: its path beside the workload, and its path in the image.
pub(super) struct ImageFile {
    pub(super) beside: String,
    pub(super) path: String,
}

/// Maps the files. Those in the folder of the script lie beside it; the others are returned.
pub(super) fn map_files(document: &Value, work: &mut IndicatorDraft, mapping: &mut Mapping<'_>) -> Vec<ImageFile> {
    const FIELD: &str = "files";
    let Some(given) = document.get(FIELD).filter(|given| !given.is_null()) else { return Vec::new() };
    let Some(items) = given.as_array().filter(|items| items.len() <= MAX_FILES) else {
        mapping.refused(FIELD, "write a list of at most 100 files, each with `path` and `content`");
        return Vec::new();
    };
    let mut of_image = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let (Some(path), Some(content)) = (text("path").filter(|path| is_plain(path)), text("content")) else {
            mapping.refused(&field, "write a `path` of at most 200 characters without quotes, and a `content` that is a text");
            continue;
        };
        if find_credential(item).is_some() {
            mapping.has_credential(&field, content);
            mapping.refused(&field, MAY_BE_CREDENTIAL);
            continue;
        }
        match path.strip_prefix(HOME).or_else(|| (!path.starts_with('/')).then_some(path)) {
            Some(name) if !is_free(name, work) => {
                mapping.refused(&field, "this name is taken, or leads out of the folder: give it another");
            }
            Some(name) => {
                work.files.push((name.to_owned(), content.to_owned()));
                if path.starts_with('/') {
                    mapping.mapped(&field, "workload spec.files");
                } else {
                    let how = "the path is relative: the file lies beside the script, and not in the first working directory of the image";
                    mapping.approximated(&field, "workload spec.files", how);
                }
            }
            None if mapping.options.runs_as_it_is => mapping.refused(&field, NOT_BUILT),
            None => {
                let beside = format!("{IMAGE_FILES}/{index}");
                work.files.push((beside.clone(), content.to_owned()));
                of_image.push(ImageFile { beside, path: path.to_owned() });
                mapping.mapped(&field, CONTAINERFILE);
            }
        }
    }
    of_image
}

fn is_plain(path: &str) -> bool {
    !path.is_empty() && path.len() <= 200 && !path.contains(['"', '\\', '\'']) && !path.chars().any(char::is_control)
}

/// Returns true if a file may lie beside the script under a name.
fn is_free(name: &str, work: &IndicatorDraft) -> bool {
    let leads_out = name.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    let is_taken = work.files.iter().any(|(path, _)| {
        let is_below = |path: &str, folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        path == name || is_below(path, name) || is_below(name, path)
    });
    !leads_out && !is_taken && !is_own_file(name) && !name.starts_with(IMAGE_FILES) && accepts(&member("files", json!([name])))
}

/// Maps the base and the steps. Without a step, the script runs in the base; else a recipe of the image lies beside the script.
pub(super) fn map(
    document: &Value,
    files: Vec<ImageFile>,
    variables: &[Variable],
    work: &mut IndicatorDraft,
    mapping: &mut Mapping<'_>,
) {
    let base = document.get("base").and_then(Value::as_str).unwrap_or_default();
    let mut recipe = Recipe { files, ..Recipe::default() };
    steps(document, &mut recipe, mapping);
    stack(document, &mut recipe, work, mapping);
    if !accepts(&member("image", base)) {
        mapping
            .refused("base", "write the name of an image: a repository in lower case, then `:tag` or `@sha256:` and its digest");
    } else if recipe.is_empty() {
        work.members.push(member("image", base));
        let how = "a plan pins the digest of the image, and in a cluster the script runs in it. On one machine it runs with the programs of the \
                   machine: nothing of the image is there";
        mapping.approximated("base", "workload spec.image", how);
    } else {
        work.files.push((CONTAINERFILE.to_owned(), containerfile::write(base, variables, &recipe)));
        match &mapping.options.image {
            Some(image) => {
                work.members.push(member("image", image.as_str()));
                let how = format!("it is the base of the image that was built from `{CONTAINERFILE}`. {ON_ONE_MACHINE}");
                mapping.approximated("base", "workload spec.image", &how);
            }
            None => mapping.approximated("base", "workload spec.files", &build_it(&mapping.draft.workload_folder())),
        }
    }
    let files: Vec<Value> = further_files(work).into_iter().map(Value::from).collect();
    if !files.is_empty() {
        work.members.push(member("files", Value::Array(files)));
    }
}

fn build_it(folder: &str) -> String {
    format!(
        "it needs an image, which is not built yet: `--build-image REPOSITORY` builds and pushes it, and writes its digest. By hand: `buildah build \
         -t NAME {folder}` or `docker build -t NAME -f {folder}/{CONTAINERFILE} {folder}` builds it from the recipe that Amun would have written. \
         Push it, and write `image: NAME@sha256:DIGEST` into the workload. {ON_ONE_MACHINE}"
    )
}

/// Maps the steps that install programs. A step that is switched off or empty is none.
fn steps(document: &Value, recipe: &mut Recipe, mapping: &mut Mapping<'_>) {
    for (field, flag) in [("update", &mut recipe.update), ("upgrade_pip", &mut recipe.upgrade_pip)] {
        match document.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Bool(false)) => mapping.mapped(field, "(no step)"),
            Some(Value::Bool(true)) => *flag = is_step(field, mapping),
            Some(_) => mapping.refused(field, "write `true` or `false`"),
        }
    }
    for (field, list) in [("packages", &mut recipe.packages), ("python_packages", &mut recipe.python_packages)] {
        match document.get(field).filter(|given| !given.is_null()).map(lines) {
            Some(None) => mapping.refused(field, "write a list of names, each a text of one line"),
            Some(Some(names)) if names.is_empty() => mapping.mapped(field, "(no step)"),
            Some(Some(names)) if find_credential(&json!(names)).is_some() => {
                mapping.has_credential(field, &names.join(" "));
                mapping.refused(field, MAY_BE_CREDENTIAL);
            }
            Some(Some(names)) if is_step(field, mapping) => *list = names,
            None | Some(Some(_)) => {}
        }
    }
}

/// Records a step of the recipe. Returns false if the definition runs as it is, and has no recipe.
fn is_step(field: &str, mapping: &mut Mapping<'_>) -> bool {
    if mapping.options.runs_as_it_is {
        mapping.refused(field, NOT_BUILT);
    } else {
        mapping.mapped(field, CONTAINERFILE);
    }
    !mapping.options.runs_as_it_is
}

/// Maps the Python stack. Its requirements and their locked versions lie beside the script, so that the digest of the workload covers them.
fn stack(document: &Value, recipe: &mut Recipe, work: &mut IndicatorDraft, mapping: &mut Mapping<'_>) {
    const FIELDS: [&str; 2] = ["python.requirements", "python.requirements_locked"];
    let manager = package_manager(document, mapping);
    let parts = FIELDS.map(|field| at(document, field).filter(|part| !part.as_object().is_some_and(serde_json::Map::is_empty)));
    let [Some(requirements), Some(locked)] = parts else {
        for (field, part) in FIELDS.iter().zip(parts) {
            match (part, parts.iter().all(Option::is_none)) {
                (None, true) if at(document, field).is_some() => mapping.ignored(field, "there is no stack to install"),
                (None, false) => mapping
                    .refused(&format!("{field}(absent)"), "a stack has its requirements and their locked versions: write both"),
                _ => {}
            }
        }
        return if document.get("package_manager").is_some() && manager.is_some() {
            mapping.ignored("package_manager", "there is no stack to install");
        };
    };
    let Some(pipfile) = pipfile(requirements) else {
        return mapping.refused(FIELDS[0], "write a Pipfile as a JSON object");
    };
    if !locked.is_object() {
        return mapping.refused(FIELDS[1], "write a Pipfile.lock as a JSON object");
    }
    for (field, part) in FIELDS.iter().zip([requirements, locked]) {
        if find_credential(part).is_some() {
            mapping.has_credential(field, "(stack)");
            return mapping.refused(
                field,
                "it may hold a credential: name a variable in its place, such as `https://${USER}:${PASS}@HOST`",
            );
        }
    }
    if mapping.options.runs_as_it_is {
        return mapping.refused(FIELDS[1], NOT_BUILT);
    }
    let Some(manager) = manager else { return };
    recipe.stack = Some(manager);
    work.files.push(("Pipfile".to_owned(), pipfile));
    work.files.push(("Pipfile.lock".to_owned(), format!("{locked:#}\n")));
    mapping.mapped(FIELDS[0], "Pipfile");
    mapping.mapped(FIELDS[1], "Pipfile.lock");
    let field = if document.get("package_manager").is_some() { "package_manager" } else { "package_manager(absent)" };
    mapping.mapped(field, CONTAINERFILE);
}

fn package_manager(document: &Value, mapping: &mut Mapping<'_>) -> Option<PackageManager> {
    match document.get("package_manager").filter(|given| !given.is_null()).map(Value::as_str) {
        None | Some(Some("micropipenv")) => Some(PackageManager::Micropipenv),
        Some(Some("pipenv")) => Some(PackageManager::Pipenv),
        Some(_) => {
            mapping.refused("package_manager", "write `micropipenv` or `pipenv`");
            None
        }
    }
}
