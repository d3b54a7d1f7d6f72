//! The link from a Plan to its Source, as far as the two manifests decide it. A caller that has the files checks that the Plan
//! follows from their contents.

use assay_manifest::{Intent, Manifest, OriginKind, PinnedFile, Plan, Source};

use crate::BrokenLink;

/// The media type of all files of a repository: their contents are not inspected.
const BYTES: &str = "application/octet-stream";

/// Checks that a Source is consistent, and that the Plan names this Source and pins its files. A manifest that is absent is not
/// checked.
pub(crate) fn check_source(source: Option<&Manifest<Source>>, plan: Option<&Manifest<Plan>>) -> Result<(), BrokenLink> {
    let Some(source) = source.map(|manifest| &manifest.body) else { return Ok(()) };
    check_origin(source)?;
    let Some(plan) = plan.map(|manifest| &manifest.body) else { return Ok(()) };
    let named = &plan.source;
    let comparisons = [
        ("kind", named.kind == source.kind),
        ("repository", named.repository == source.repository),
        ("commit", named.commit == source.commit),
        ("cleanliness", named.dirty == source.dirty),
        ("digest of all files", named.files_digest == source.files_digest),
        ("pipeline", plan.pipeline.path == source.pipeline),
        ("digest of the pipeline", source.file(&source.pipeline).map(|file| file.artifact.digest) == Some(plan.pipeline.digest)),
    ];
    if let Some((what, _)) = comparisons.into_iter().find(|(_, is_same)| !is_same) {
        return Err(BrokenLink::PlanSource(format!("the plan names another {what}")));
    }
    // An import of another version may give other definitions, and no commit holds them.
    if source.import.is_some() && plan.intent != Intent::Exploratory {
        return Err(BrokenLink::PlanSource(format!("imported definitions are `exploratory`, and the plan is `{}`", plan.intent)));
    }
    pinned_files(plan).try_for_each(|file| check_pinned(source, file))
}

/// Checks the origin: a commit is named and clean, a run without a repository names no commit, and the files have the digest over
/// them.
fn check_origin(source: &Source) -> Result<(), BrokenLink> {
    let is_whole = match source.kind {
        OriginKind::Git => source.commit.is_some() && !source.dirty,
        // A work tree that equals its commit is read as that commit, whose objects then prove it.
        OriginKind::Worktree => source.dirty && source.objects.is_empty(),
        OriginKind::Adhoc => source.commit.is_none() && source.repository.is_none() && source.objects.is_empty() && !source.dirty,
    };
    if !is_whole {
        return Err(BrokenLink::Source(format!(
            "its kind is `{}`, and its commit and cleanliness are not of that kind",
            source.kind
        )));
    }
    if Source::digest_of_files(&source.files) != source.files_digest {
        return Err(BrokenLink::Source("its files are not those of its digest over them".to_owned()));
    }
    if let Some(import) = &source.import
        && (source.original().is_none() || import.file == source.pipeline)
    {
        return Err(BrokenLink::Source("it names no file of its own that its definitions were imported from".to_owned()));
    }
    let files = source.files.iter().map(|file| (format!("files/{}", file.path), &file.artifact));
    let objects = source.objects.iter().map(|object| (format!("objects/{}", object.oid), &object.artifact));
    match files.chain(objects).find(|(name, artifact)| artifact.name != *name || artifact.media_type != BYTES) {
        Some((name, _)) => Err(BrokenLink::Source(format!("`{name}` has another name or media type"))),
        None => Ok(()),
    }
}

/// Returns the files that a Plan pins.
fn pinned_files(plan: &Plan) -> impl Iterator<Item = &PinnedFile> {
    let of_workloads = plan.workloads.iter().flat_map(|workload| {
        let indicator = workload.indicator.iter().flat_map(|work| work.script.iter().chain(&work.files));
        let serving =
            workload.serving.iter().flat_map(|work| work.files().chain(work.prompts.dataset().map(|dataset| &dataset.file)));
        indicator.chain(serving)
    });
    let locks = plan.variants.iter().filter_map(|variant| variant.python.as_ref()).map(|python| &python.lock);
    of_workloads
        .chain(plan.targets.iter().flat_map(|target| &target.objects))
        .chain(locks)
        .chain(plan.pack_files())
        .chain(&plan.queries)
}

fn check_pinned(source: &Source, pinned: &PinnedFile) -> Result<(), BrokenLink> {
    // A file that was fetched from a URL is not in the repository.
    let is_fetched = pinned.origin.contains("://");
    let is_same = source
        .file(&pinned.origin)
        .is_some_and(|file| (file.artifact.digest, file.artifact.size) == (pinned.artifact.digest, pinned.artifact.size));
    if is_fetched || is_same {
        return Ok(());
    }
    Err(BrokenLink::PlanSource(format!("the plan pins other bytes as `{}` than the source holds there", pinned.origin)))
}
