//! Progress of a run on stderr: a panel that is redrawn in place on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use assay_manifest::{AttemptStatus, InputRef, Reason, ordinal};
use assay_runner::{DriverTimes, Observer, Run, StageCall};
use assay_stage::{Event, Failure, StageName};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::commands::times;
use crate::load_panel::{LoadPanel, TrialRef};
use crate::output;

/// The redraws of the panel per second, at most.
const REDRAWS_PER_S: u8 = 4;

/// The longest reason that is shown, in characters: the report has all of it.
const MAX_WHY: usize = 160;

/// The parts of a run that are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The run, its stages and its attempts that do not count.
    Stages,
    /// Its attempts that do not count: it is one of several for a purpose. On a terminal, these lines stand above its panel.
    Exclusions(Vec<String>),
}

/// Shows the progress of a run.
pub(crate) struct Progress {
    detail: Detail,
    bar: Option<ProgressBar>,
    as_json: bool,
    panel: LoadPanel,
    started: BTreeMap<(StageName, String), Instant>,
    /// The number of attempts that do not count for each reason, in the running stage.
    exclusions: BTreeMap<String, u64>,
}

impl Progress {
    /// Makes a display for a terminal, a log file, or a machine.
    pub(crate) fn new(as_json: bool, is_terminal: bool, detail: Detail) -> Self {
        let bar = (is_terminal && !as_json).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_S));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(1000 / u64::from(REDRAWS_PER_S)));
            bar
        });
        Self { detail, bar, as_json, panel: LoadPanel::default(), started: BTreeMap::new(), exclusions: BTreeMap::new() }
    }

    /// Shows the run that begins.
    pub(crate) fn begin(&self, run: &Run) {
        let commit = match (&run.source.commit, run.source.dirty) {
            (Some(commit), false) => format!("commit {}", assay_report::short_commit(commit)),
            (Some(commit), true) => format!("the work tree above commit {}", assay_report::short_commit(commit)),
            (None, _) => "files outside of any commit".to_owned(),
        };
        self.say_stage(&format!("run {} of {} from {commit}", run.run_id, run.pipeline));
    }

    /// Says what is of the run as a whole, or of a stage.
    fn say_stage(&self, text: &str) {
        if self.detail == Detail::Stages {
            self.say(text);
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            _ if self.as_json => {}
            // The bar writes to the terminal itself, and the text may be untrusted.
            Some(bar) => bar.println(output::escape_controls(text)),
            None => output::diagnostic(text),
        }
    }

    /// Shows how many attempts do not count for a reason that was shown once.
    fn say_repeats(&mut self) {
        for (why, repeats) in std::mem::take(&mut self.exclusions) {
            if let Some(more) = repeats.checked_sub(1).filter(|more| *more > 0) {
                self.say(&format!("  {} not count for the same reason: {why}", describe_count(more)));
            }
        }
    }

    /// Shows these lines instead of the last ones.
    fn show(&self, lines: &[String]) {
        if let Some(bar) = &self.bar {
            let above = match &self.detail {
                Detail::Stages => &[][..],
                Detail::Exclusions(above) => above,
            };
            // Names of targets and labels may be untrusted.
            let lines: Vec<_> = above.iter().chain(lines).map(|line| output::escape_controls(line).replace('\n', " ")).collect();
            bar.set_message(lines.join("\n"));
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

/// Returns the reason why an attempt does not count, on one line: the first reason, and the number of others. Its status if there
/// is no reason.
fn describe_exclusion(status: AttemptStatus, reasons: &[Reason]) -> String {
    let Some((first, others)) = reasons.split_first() else { return status.to_string() };
    let text = if first.detail.is_empty() { &first.code } else { &first.detail };
    let mut shown: String = text.chars().take(MAX_WHY).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    match others.len() {
        0 => shown,
        1 => format!("{shown}, and another reason"),
        more => format!("{shown}, and {more} more reasons"),
    }
}

fn describe_count(more: u64) -> String {
    if more == 1 { "1 more attempt does".to_owned() } else { format!("{more} more attempts do") }
}

fn name(call: &StageCall) -> String {
    if call.label.is_empty() { call.stage.to_string() } else { format!("{} {}", call.stage, call.label) }
}

impl Observer for Progress {
    fn stage_started(&mut self, call: &StageCall) {
        self.started.insert((call.stage, call.label.clone()), Instant::now());
        self.show(&[name(call)]);
    }

    fn event(&mut self, call: &StageCall, event: &Event) {
        if self.as_json {
            if let Ok(text) = output::one_line(event) {
                output::diagnostic(text);
            }
            return;
        }
        match event {
            Event::TrialStarted { trial, attempt, number, of } => {
                let trial = TrialRef { trial: trial.to_string(), attempt: *attempt, number: *number, of: *of };
                // Each shard reports the start of its part of the same trial.
                self.panel.start(trial);
                self.show(&self.panel.lines());
            }
            Event::Load { .. } if self.bar.is_some() => {
                self.panel.update(call.shard.index, event, Instant::now());
                self.show(&self.panel.lines());
            }
            Event::TrialFinished { duration_ns, valid: true, .. } => self.panel.finish(*duration_ns),
            Event::TrialFinished { trial, attempt, status, valid: false, reasons, .. } => {
                let why = describe_exclusion(*status, reasons);
                let repeats = self.exclusions.entry(why.clone()).or_default();
                *repeats += 1;
                if *repeats == 1 {
                    self.say(&format!("  {trial}: attempt {} does not count: {why}", ordinal(*attempt)));
                }
            }
            Event::Stopped { process } => self.say(&format!(
                "  a signal has stopped {} (process {process}): `kill -CONT {process}` continues it, and Ctrl-C ends the run",
                name(call)
            )),
            Event::Note { message } if call.stage != StageName::Record => self.say_stage(&format!("  {message}")),
            _ => {}
        }
    }

    fn stage_finished(&mut self, call: &StageCall, result: Result<InputRef, &Failure>) {
        let began = self.started.remove(&(call.stage, call.label.clone()));
        let took = began.map(|began| assay_report::duration(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)));
        let took = took.unwrap_or_default();
        self.say_repeats();
        match result {
            Ok(reference) => self.say_stage(&format!("  {:<14} {:>8}  {}", name(call), took, reference.manifest.short())),
            Err(failure) => self.say(&format!("  {:<14} {:>8}  failed: {}", name(call), took, failure.code)),
        }
    }

    fn driver_ended(&mut self, times: &DriverTimes) {
        // A run that could not begin needs no account of its time.
        if times.stages.iter().any(|stage| stage.working_ns > 0) {
            self.say_stage(&format!("  {}", times::summary(std::slice::from_ref(times))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_does_not_count_says_why() {
        let late = Reason::new("client_late", "1 % of the requests were sent more than 26 ms later than intended");
        let other = Reason::new("x", "y");
        let said = |reasons: &[&Reason]| {
            describe_exclusion(AttemptStatus::Completed, &reasons.iter().map(|reason| (*reason).clone()).collect::<Vec<_>>())
        };
        assert_eq!(said(&[]), "completed");
        assert_eq!(said(&[&late]), "1 % of the requests were sent more than 26 ms later than intended");
        assert_eq!(said(&[&other, &late]), "y, and another reason");
        assert_eq!(said(&[&other, &late, &late]), "y, and 2 more reasons");
        assert_eq!(said(&[&Reason::new("interrupted", "")]), "interrupted");
        assert_eq!(said(&[&Reason::new("x", "é".repeat(300))]), "é".repeat(160) + "…");
    }
}
