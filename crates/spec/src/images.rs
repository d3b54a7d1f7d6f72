//! Checks of the images of requests.

use assay_api::ServingApi;
use assay_manifest::{DatasetFormat, ImageFormat, Images};

use crate::checked_value::{CheckedValue, Read, read_from_text};
use crate::lengths::Scenario;
use crate::problem::Problems;

read_from_text!(ImageFormat);

impl Read for Images {
    fn read(images: &CheckedValue) -> Option<Self> {
        Some(Self {
            width: images.get("width")?,
            height: images.get("height")?,
            count: images.get("count")?,
            format: images.get("format")?,
        })
    }
}

/// Image files of a workload, of which each request has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadImageFiles {
    /// The files, relative to the workload's folder.
    pub paths: Vec<String>,
    /// Images of each request.
    pub count: u32,
}

impl Read for WorkloadImageFiles {
    fn read(images: &CheckedValue) -> Option<Self> {
        Some(Self { paths: images.get("paths")?, count: images.get("count")? })
    }
}

/// Returns the images of a scenario `I`, which are JPEG files as genai-bench makes them; `None` if the lengths are none.
pub(crate) fn scenario_images(spec: &CheckedValue) -> Option<Images> {
    match spec.member("lengths").and_then(Scenario::read)? {
        Scenario::Image(images) => Some(images),
        _ => None,
    }
}

/// Returns true if the rows of a file are whole bodies by its format.
fn has_whole_bodies(spec: &CheckedValue, name: &str) -> bool {
    let format = spec.member(name).and_then(|file| file.text_of("format"));
    format.is_some_and(|format| format == DatasetFormat::OpenaiBatch.as_str())
}

/// Checks that images stand beside prompts or turns of an API that takes them, and that a request can have them.
pub(crate) fn check_images(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let scenario = spec.member("lengths").filter(|_| scenario_images(spec).is_some());
    let files = spec.member("image_files");
    let Some(images) = spec.member("images").or(files).or(scenario) else { return };
    let field = match (spec.member("images"), files) {
        (Some(_), _) => "spec.images",
        (None, Some(_)) => "spec.image_files",
        (None, None) => "spec.lengths",
    };
    if let Some(files) = files.filter(|files| files.anchor != images.anchor || scenario.is_some()) {
        let message = "`spec.image_files` stands beside synthetic images, and the images of a request are of one kind";
        problems.add_hinted(files.anchor, message, "remove one of them");
    }
    if spec.member("images").is_some() && scenario.is_some() {
        problems.add_hinted(
            images.anchor,
            "`spec.images` stands beside a scenario that has images of its own",
            "remove one of them",
        );
    }
    if let Some(file) = ["dataset", "trace"].into_iter().find(|name| has_whole_bodies(spec, name)) {
        let message = format!("`{field}` cannot be added to the rows of this {file}, which are whole bodies of requests");
        problems.add_hinted(images.anchor, message, "remove it; the messages of a body may have images of their own");
    }
    if scenario.is_some() && spec.member("sessions").is_some() {
        let message =
            "`spec.lengths` of images cannot be sent as turns of `spec.sessions`, whose responses have lengths of their own";
        problems.add_hinted(images.anchor, message, "write `images` beside the lengths of a turn, such as `lengths: D(64,128)`");
    }
    if let Some(api) = spec.member("api").and_then(ServingApi::read).filter(|api| !api.takes_images()) {
        let takers = ServingApi::ALL.iter().filter(|api| api.takes_images()).map(|api| format!("`api: {api}`"));
        let hint = format!("write {}, or remove it", takers.collect::<Vec<_>>().join(" or "));
        problems.add_hinted(images.anchor, format!("requests of `api: {api}` have no images"), hint);
    }
    let written = spec.member("images").and_then(Images::read);
    if let Some(reason) = written.and_then(|images| images.refusal()) {
        problems.add_hinted(images.anchor, format!("`spec.images` asks for {reason}"), "write fewer or smaller images");
    }
}
