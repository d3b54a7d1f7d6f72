//! Publish: lets the claim rules decide the grade, and writes the numbers with their lineage, the reports, and all that a reader
//! needs to check them.

mod listing;
mod numbers;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use assay_claim::Evidence;
use assay_envelope::{PublicKey, TrustPolicy, Verified};
use assay_lake::{Lake, Snapshot, commit_run};
use assay_manifest::{
    Artifact, Collection, Document, Environment, FrozenWorkload, Grade, Kind, ListedRun, Name, Numbers, Plan, Publication, Role,
    Summary, Views, canonical_json,
};
use assay_report::{Report, SignedBy};
use assay_stage::{Context, Exit, Failure, Inputs, Stage, StageName};
use assay_store::Scratch;
use assay_verify::lake_failure;
use serde::{Deserialize, Serialize};

use crate::queries::Asked;

/// The largest trust policy.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// What publish may hold on disk beside the store, in bytes: the curated files of one run.
const MAX_SCRATCH_BYTES: u64 = 8 << 30;

/// The largest frozen workload.
const MAX_SPEC_BYTES: u64 = 16 << 20;

/// Publish has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

/// The publish stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Publish;

impl Stage for Publish {
    type Parameters = Parameters;
    type Output = Publication;
    const NAME: StageName = StageName::Publish;

    fn run(&self, inputs: &Inputs, _: &Parameters, ctx: &Context) -> Result<Publication, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let collection = &inputs.one::<Collection>()?.body;
        let summary = &inputs.one::<Summary>()?.body;
        let mut environments: Vec<_> = inputs.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        environments.sort_by_key(|environment| environment.block);
        check_whole_chain(inputs, ctx)?;

        let summary_digest = inputs
            .reference(Kind::Summary)
            .ok_or_else(|| Failure::unexpected("contract", "publish was given no summary"))?
            .manifest;
        let grade = assay_claim::grade(&Evidence::of(plan, &environments, collection, summary));
        let scratch = Scratch::within(ctx.scratch(), MAX_SCRATCH_BYTES)?;
        let rows = numbers::rows(ctx, summary)?;
        let asked = queries::ask_all(ctx, plan, summary, &rows, &scratch)?;
        let from_summary = numbers::numbers(ctx.run_id(), summary)?;
        let numbers = Numbers {
            run_id: ctx.run_id().clone(),
            grade: grade.clone(),
            summary: summary_digest,
            numbers: assay_verify::with_queries(from_summary, asked.numbers.clone()),
        };
        assay_verify::check_numbers(ctx.run_id(), &numbers, &rows)?;
        let runs = listing::runs_of_cases(ctx, plan)?;
        let numbers = canonical_json(&numbers)
            .map_err(|error| Failure::unexpected("numbers", "the numbers have no canonical form").because(&error))?;
        // All that can be refused has been, by now: what is committed is never taken back.
        let warehouse_snapshot = commit(ctx, summary, &scratch)?;
        Ok(Publication {
            plan_digest,
            summary: summary_digest,
            trust_policy: ctx.trust_policy(),
            published_at: ctx.clock().now(),
            numbers: ctx.put("numbers.json", "application/json", &numbers)?,
            reports: reports(
                ctx,
                inputs,
                &environments,
                &Decided { grade: &grade, runs: &runs, asked: &asked, snapshot: &warehouse_snapshot },
            )?,
            keys: keys(ctx, inputs)?,
            warehouse_snapshot,
            queries: asked.published,
            grade,
            runs,
        })
    }
}

/// Adds the run's curated files to the warehouse and gives the versions that hold them. Done again, it adds nothing twice.
fn commit(ctx: &Context, summary: &Summary, scratch: &Scratch) -> Result<Snapshot, Failure> {
    let failed = |error| lake_failure(error, Exit::Unexpected);
    let lake = Lake::open(ctx.store()).map_err(failed)?;
    let mut watch = |_| if ctx.cancel().is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let committed = commit_run(&lake, ctx.run_id(), &summary.files, scratch, &mut watch);
    // A commit that was stopped goes on where it ended when the run is resumed.
    ctx.check_cancelled()?;
    committed.map_err(failed)
}

/// What publish has found out before it writes reports.
struct Decided<'a> {
    grade: &'a Grade,
    runs: &'a [ListedRun],
    asked: &'a Asked,
    snapshot: &'a Snapshot,
}

/// Nothing is published of a chain that a reader would find incomplete.
fn check_whole_chain(inputs: &Inputs, ctx: &Context) -> Result<(), Failure> {
    let members: Vec<_> = inputs
        .verified()
        .iter()
        .map(|input| assay_chain::Member { document: input.value(), reference: input.as_input() })
        .collect();
    assay_chain::check_publishable(ctx.run_id(), &members)
        .map_err(|broken| Failure::of(assay_stage::Exit::Verification, broken.code(), &broken))
}

fn reports(
    ctx: &Context,
    inputs: &Inputs,
    environments: &[&Environment],
    decided: &Decided<'_>,
) -> Result<Vec<Artifact>, Failure> {
    let plan = &inputs.one::<Plan>()?.body;
    let policy = ctx.policy();
    let summary = &inputs.one::<Summary>()?.body;
    let views = views(ctx, summary)?;
    let report = Report::build(&assay_report::Inputs {
        run_id: ctx.run_id(),
        plan,
        environments,
        collection: &inputs.one::<Collection>()?.body,
        summary,
        views: views.as_ref(),
        verified: None,
        grade: decided.grade,
        runs: decided.runs,
        signers: &signers(inputs),
        trust_policy: policy.map(|policy| (policy.name.clone(), ctx.trust_policy())),
        workload_specs: workload_specs(ctx, plan)?,
        queries: &decided.asked.published,
        query_texts: decided.asked.texts.clone(),
        warehouse_snapshot: decided.snapshot,
    });
    Ok(vec![
        ctx.put("report.md", "text/markdown", report.markdown().as_bytes())?,
        ctx.put("report.html", "text/html", report.html().as_bytes())?,
    ])
}

/// What the pictures of serving are drawn from.
fn views(ctx: &Context, summary: &Summary) -> Result<Option<Views>, Failure> {
    let Some(artifact) = &summary.views else { return Ok(None) };
    let bytes = ctx.get(artifact, Views::MAX_BYTES)?;
    let views = Views::parse(&bytes)
        .map_err(|error| Failure::verification("views", "the summary's views are damaged").because(&error))?;
    Ok(Some(views))
}

/// The frozen workloads, readable.
fn workload_specs(ctx: &Context, plan: &Plan) -> Result<BTreeMap<Name, String>, Failure> {
    let readable = |workload: &FrozenWorkload| {
        let bytes = ctx.get(&workload.spec, MAX_SPEC_BYTES)?;
        let json: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::verification("spec", format!("the frozen workload `{}` is damaged", workload.name)).because(&error)
        })?;
        let text = serde_json::to_string_pretty(&json)
            .map_err(|error| Failure::unexpected("spec", "a frozen workload cannot be written").because(&error))?;
        Ok((workload.name.clone(), text))
    };
    plan.workloads.iter().map(readable).collect()
}

/// Who signed what, as it was verified.
fn signers(inputs: &Inputs) -> Vec<SignedBy> {
    let signed = |input: &Verified<Document>| SignedBy {
        stage: input.value().kind().signer(),
        name: assay_stage::chain_name(input.value()),
        signer: input.signer().name.clone(),
        key_fingerprint: input.signer().fingerprint.to_string(),
        manifest: input.manifest_digest(),
        bundle: input.bundle_digest(),
    };
    inputs.verified().iter().map(signed).collect()
}

/// The trust policy and the public keys that it names, so that a published folder is checked without anything else at hand.
fn keys(ctx: &Context, inputs: &Inputs) -> Result<Vec<Artifact>, Failure> {
    let policy_bytes = ctx.store().get(&ctx.trust_policy(), MAX_POLICY_BYTES)?;
    let mut files = vec![ctx.put("trust.yaml", "application/yaml", &policy_bytes)?];
    let used = inputs.verified().iter().map(|input| input.value().kind().signer()).chain([StageName::Publish.role()]).collect();
    for (name, key) in ctx.policy().map(|policy| key_files(policy, &used)).unwrap_or_default() {
        files.push(ctx.put(name, "application/x-pem-file", key.to_pem().as_bytes())?);
    }
    Ok(files)
}

/// The public keys of the roles that signed something of the run, by file name. A policy may list one key several times, for
/// windows of time, and several keys for one role: then all but the first are named by their fingerprints as well.
fn key_files<'a>(policy: &'a TrustPolicy, used: &BTreeSet<Role>) -> BTreeMap<String, &'a PublicKey> {
    let mut files: BTreeMap<String, &PublicKey> = BTreeMap::new();
    for signer in &policy.signers {
        for role in signer.signs.iter().filter(|role| used.contains(role)) {
            let plain = format!("keys/{role}.pub");
            let name = match files.get(&plain) {
                Some(first) if **first != signer.key => format!("keys/{role}-{}.pub", signer.key.fingerprint().short()),
                _ => plain,
            };
            files.insert(name, &signer.key);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use assay_envelope::{SecretKey, TrustedSigner};

    use super::*;

    fn key() -> PublicKey {
        SecretKey::generate().expect("a key").public_key()
    }

    fn names(signers: Vec<TrustedSigner>, used: &[Role]) -> Vec<String> {
        let policy = TrustPolicy { name: "team".to_owned(), digest: None, signers };
        key_files(&policy, &used.iter().copied().collect()).into_keys().collect()
    }

    #[test]
    fn each_role_that_signed_has_its_key() {
        let all = vec![TrustedSigner::new("a", key(), [Role::Plan, Role::Gate]), TrustedSigner::new("b", key(), [Role::Reduce])];
        assert_eq!(names(all.clone(), &[Role::Plan, Role::Reduce]), ["keys/plan.pub", "keys/reduce.pub"]);
        assert_eq!(names(all, &[]), Vec::<String>::new());
    }

    #[test]
    fn keys_of_one_role_stand_beside_each_other() {
        let [first, second] = [key(), key()];
        let other = format!("keys/plan-{}.pub", second.fingerprint().short());
        let sign = |name, key: &PublicKey| TrustedSigner::new(name, key.clone(), [Role::Plan]);
        // The last two are the second key and the first, each once more for another window of time.
        let all = vec![sign("a", &first), sign("b", &second), sign("b-later", &second), sign("a-later", &first)];
        assert_eq!(names(all, &[Role::Plan]), [other, "keys/plan.pub".to_owned()]);
    }
}
