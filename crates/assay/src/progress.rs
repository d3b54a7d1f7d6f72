//! Progress of a run on standard error: one moving line on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use assay_manifest::InputRef;
use assay_runner::{Observer, Run, StageCall};
use assay_stage::{Event, Failure, StageName};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Shows how far a run is.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    as_json: bool,
    /// Which trial of how many is running.
    trial: String,
    started: BTreeMap<(StageName, String), Instant>,
}

impl Progress {
    /// For a person at a terminal, a log file, or a machine.
    pub(crate) fn new(_run: &Run, as_json: bool, is_terminal: bool) -> Self {
        let bar = (is_terminal && !as_json).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, as_json, trial: String::new(), started: BTreeMap::new() }
    }

    /// Says what begins.
    pub(crate) fn begin(&self, run: &Run) {
        let commit = match (&run.source.commit, run.source.dirty) {
            (Some(commit), false) => format!("commit {}", output::short(commit)),
            (Some(commit), true) => format!("the work tree above commit {}", output::short(commit)),
            (None, _) => "files outside of any commit".to_owned(),
        };
        self.say(&format!("run {} of {} from {commit}", run.run_id, run.pipeline));
    }

    fn say(&self, text: &str) {
        match &self.bar {
            _ if self.as_json => {}
            Some(bar) => bar.println(text),
            None => output::talk(text),
        }
    }

    fn show(&self, text: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn name(call: &StageCall) -> String {
    if call.label.is_empty() { call.stage.to_string() } else { format!("{} {}", call.stage, call.label) }
}

impl Observer for Progress {
    fn stage_started(&mut self, call: &StageCall) {
        self.started.insert((call.stage, call.label.clone()), Instant::now());
        self.show(name(call));
    }

    fn event(&mut self, call: &StageCall, event: &Event) {
        if self.as_json {
            if let Ok(text) = serde_json::to_string(event) {
                output::talk(text);
            }
            return;
        }
        match event {
            Event::TrialStarted { trial, attempt, number, of } => {
                let again = if *attempt > 0 { format!(", attempt {}", attempt + 1) } else { String::new() };
                self.trial = format!("{number}/{of}");
                self.show(format!("{} {number}/{of}: {trial}{again}", call.stage));
            }
            Event::Load { trial, sent, in_flight, failed, token_events, .. } => {
                let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
                let (trials, under_way) = (self.trial.clone(), format!("{sent} sent, {in_flight} in flight{failed}"));
                self.show(format!("{} {trials}: {trial} · {under_way}, {token_events} token events", call.stage));
            }
            Event::TrialFinished { trial, attempt, status, valid: false, .. } => {
                self.say(&format!("  {trial}: attempt {} does not count ({status})", attempt + 1));
            }
            Event::Note { message } if call.stage != StageName::Record => self.say(&format!("  {message}")),
            _ => {}
        }
    }

    fn stage_finished(&mut self, call: &StageCall, result: Result<InputRef, &Failure>) {
        let began = self.started.remove(&(call.stage, call.label.clone()));
        let took = began.map(|began| assay_report::duration(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)));
        let took = took.unwrap_or_default();
        match result {
            Ok(reference) => self.say(&format!("  {:<14} {:>8}  {}", name(call), took, reference.manifest.short())),
            Err(failure) => self.say(&format!("  {:<14} {:>8}  failed: {}", name(call), took, failure.code)),
        }
    }
}
