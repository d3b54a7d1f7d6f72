//! The push of hot metrics: by `assay run` after the Publication, and again by hand.

use std::time::Duration;

use assay_hot_metrics::{Batch, Error, PublishedRun, Pushed, Receipt, case_places};
use assay_manifest::{Plan, Publication, RunId};
use assay_process::Cancel;
use assay_runner::{MetricsPush, Pushes};
use assay_runs::VerifiedRun;
use assay_spec::HotMetrics;
use assay_stage::{Clock, ErrorCode, Exit, Failure, Layout};
use assay_store::{CreateOutcome, Store};
use assay_verify::{read_tables, verify_rows};
use assay_warehouse::{BENCHMARK_RUN_FACT, CLUSTER_REGION_DIM, HARDWARE_TOPOLOGY_DIM};

use crate::commands::removed::resume_hint;
use crate::commands::verify::publish_binary;

/// The most receipts of one run that are kept.
const MAX_RECEIPTS: u32 = 1000;
/// The largest receipt, in bytes.
const MAX_RECEIPT_BYTES: u64 = 64 << 10;

/// The results of a push.
#[derive(Debug, Default)]
pub(crate) struct PushedMetrics {
    /// The receipts, also those of earlier pushes that made this one needless.
    pub(crate) receipts: Vec<Receipt>,
    /// The failure, if a receiver did not accept all series.
    pub(crate) failure: Option<Failure>,
}

impl PushedMetrics {
    /// Returns the results of a push that failed before anything could be sent.
    pub(crate) fn from_failure(failure: Failure) -> Self {
        Self { receipts: Vec::new(), failure: Some(failure) }
    }

    /// Describes the push, a line for each receiver.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.receipts.iter().map(Receipt::line)
    }
}

/// Fails unless every header of a receiver can be read: before anything is measured, because a push comes last.
pub(crate) fn check_secrets(pushes: &Pushes) -> Result<(), Failure> {
    let MetricsPush::Automatic(to) = &pushes.metrics else { return Ok(()) };
    Ok(assay_hot_metrics::check_headers(to)?)
}

/// Pushes the headline numbers of a verified run, and keeps a receipt for each receiver in its store. A receiver that has accepted the same
/// series before is skipped, unless the push is to be made `again`.
pub(crate) fn push(
    opened: &VerifiedRun,
    to: &HotMetrics,
    store: Option<&Store>,
    again: bool,
    cancel: &Cancel,
) -> Result<PushedMetrics, Failure> {
    let batch = batch(opened, to)?;
    let run_id = &opened.chain.run_id;
    let earlier = store.filter(|_| !again).map(|store| read_receipts(store, run_id)).transpose()?.unwrap_or_default();
    let pause = |time: Duration| cancel.wait_timeout(time);
    let Pushed { receipts, before, failures } = assay_hot_metrics::push(&batch, to, &earlier, Clock.now(), &pause);
    for (store, receipt) in store.into_iter().flat_map(|store| receipts.iter().map(move |receipt| (store, receipt))) {
        // What was sent is stated all the same; without its receipt, the same is sent once more the next time.
        if let Err(failure) = store_receipt(store, receipt) {
            tracing::warn!(run = %run_id, receiver = %receipt.receiver, %failure, "no receipt of hot metrics was kept");
        }
    }
    let failure = failure(run_id, to.receivers.len(), failures);
    Ok(PushedMetrics { receipts: before.into_iter().chain(receipts).collect(), failure })
}

/// Makes the series of a run that is complete, established and verified up to level 2.
fn batch(opened: &VerifiedRun, to: &HotMetrics) -> Result<Batch, Failure> {
    let chain = &opened.chain;
    let run = chain.one::<Plan>().zip(chain.one::<Publication>()).filter(|_| chain.is_complete);
    let Some((plan, publication)) = run else {
        let message = format!("the run `{}` has no publication whose numbers could be pushed", chain.run_id);
        return Err(Failure::new(ErrorCode::MissingStage, message).hint(resume_hint(opened)));
    };
    if !chain.is_established() {
        let message = "who signed the run is not established, and what is pushed stays";
        return Err(Failure::new(ErrorCode::SignerNotEstablished, message)
            .hint("name whom you trust with `--trust POLICY` or `--trust FINGERPRINT`"));
    }
    verify_rows(opened.blobs.as_ref(), chain, &publish_binary)?;
    let summary = opened.summary()?;
    let of_labels = [BENCHMARK_RUN_FACT.name, CLUSTER_REGION_DIM.name, HARDWARE_TOPOLOGY_DIM.name];
    let files = summary.files.iter().filter(|file| of_labels.contains(&file.table.as_str()));
    let places = case_places(&read_tables(opened.blobs.as_ref(), files)?)?;
    let run = PublishedRun {
        run_id: &chain.run_id,
        plan: &plan.body,
        summary,
        grade: &publication.body.grade,
        published_at: publication.body.published_at,
        places: &places,
    };
    Ok(Batch::of_run(&run, &to.labels)?)
}

/// Returns the failure of a push, if one of its receivers failed. The code is that of the first.
fn failure(run_id: &RunId, receivers: usize, failures: Vec<(String, Error)>) -> Option<Failure> {
    let code = failures.first()?.1.code();
    let hint = failures.iter().find_map(|(_, error)| error.hint());
    let told: Vec<_> = failures.iter().map(|(receiver, error)| format!("`{receiver}`: {error}")).collect();
    let message = format!(
        "the hot metrics of the run `{run_id}` were not accepted by {} of {receivers} receivers: {}",
        failures.len(),
        told.join("; ")
    );
    Some(Failure::new(code, message).hint_if(hint))
}

/// Adds to the failure of a push what to type to repeat it: the run itself is finished.
pub(crate) fn push_failure(run_id: &RunId, elsewhere: &str, failure: Failure) -> Failure {
    let again = format!("the run is finished and published; to push again: assay push {run_id} --hot-metrics{elsewhere}");
    let hint = failure.hint.as_ref().map_or_else(|| again.clone(), |hint| format!("{hint}\n{again}"));
    let exit = if failure.exit == Exit::Usage { Exit::Environment } else { failure.exit };
    Failure { exit, ..failure }.hint(hint)
}

/// Returns the receipts of a run's pushes, in their order.
pub(crate) fn read_receipts(store: &Store, run_id: &RunId) -> Result<Vec<Receipt>, Failure> {
    let mut receipts = Vec::new();
    for path in store.list(&Layout::for_run(run_id).hot_metrics())? {
        let bytes = store.read(&path, MAX_RECEIPT_BYTES)?.unwrap_or_default();
        match serde_json::from_slice(&bytes) {
            Ok(receipt) => receipts.push(receipt),
            Err(error) => tracing::warn!(%error, path, "a receipt of hot metrics cannot be read, and counts as none"),
        }
    }
    Ok(receipts)
}

/// Returns the pushes of a run, a line each; empty if there were none.
pub(crate) fn table(receipts: &[Receipt]) -> Vec<String> {
    if receipts.is_empty() {
        return Vec::new();
    }
    let note = "Pushes of hot metrics, by the word of the program that pushed. They are not signed, and no evidence.";
    let line = |receipt: &Receipt| {
        let reason = receipt.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("  {}  {}{reason}", receipt.pushed_at.to_seconds(), receipt.line())
    };
    [String::new(), note.to_owned(), String::new()].into_iter().chain(receipts.iter().map(line)).collect()
}

/// Keeps a receipt in the store, beside the earlier ones of the run.
fn store_receipt(store: &Store, receipt: &Receipt) -> Result<(), Failure> {
    let bytes =
        serde_json::to_vec(receipt).map_err(|error| Failure::new(ErrorCode::Internal, "a receipt is no JSON").because(&error))?;
    for sequence in 0..MAX_RECEIPTS {
        match store.create(&Layout::for_run(&receipt.run_id).hot_metrics_receipt(sequence), &bytes)? {
            CreateOutcome::New => return Ok(()),
            CreateOutcome::Existing { existing } if existing == bytes => return Ok(()),
            CreateOutcome::Existing { .. } => {}
        }
    }
    tracing::warn!(run = %receipt.run_id, "the run has {MAX_RECEIPTS} receipts of hot metrics, and no further one is kept");
    Ok(())
}
