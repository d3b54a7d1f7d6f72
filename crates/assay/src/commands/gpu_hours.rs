//! The GPU-hours of a plan: the time of its trials, times the GPUs of the targets that are up meanwhile.

use std::time::Duration;

use assay_manifest::{Case, Name, Placement, TargetKind};
use assay_runner::SourceSpec;
use assay_spec::{PipelineSpec, Target};
use assay_stage::{ErrorCode, Failure};

use crate::commands::estimate::Length;
use crate::commands::plan::read_duration;

const HOUR_S: f64 = 3600.0;

/// The limit on GPU-hours.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct GpuHoursLimit {
    /// Measure nothing if the trials may take more GPU-hours than these: their longest time, times the declared GPUs of their targets
    #[arg(long, value_name = "HOURS", value_parser = parse_hours)]
    max_gpu_hours: Option<f64>,
}

/// The GPU-hours of all trials, each in its first attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GpuHours {
    /// The upper limit.
    pub(crate) at_most: f64,
    /// The upper limit of their time.
    longest: Duration,
}

/// The remedy of GPU-hours that are not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remedy {
    /// The field or option that declares the GPUs of a target.
    pub(crate) declare: &'static str,
}

/// The remedy in a pipeline.
pub(crate) const IN_PIPELINE: Remedy = Remedy { declare: "declare `hardware: {gpu_count: 8}` of the target" };

impl GpuHours {
    /// Adds up the time of cases; `Err` names the first target whose GPUs are not known before it is provisioned.
    ///
    /// Targets that are up together use their GPUs while any of them is measured; with `placement: alternate`, only the measured one is up.
    pub(crate) fn new(spec: &PipelineSpec, cases: &[(&Case, Length)]) -> Result<Self, Name> {
        let of_target =
            |name: &Name| spec.targets.iter().find(|target| target.name == *name).and_then(gpus).ok_or_else(|| name.clone());
        let longest = cases.iter().fold(Duration::ZERO, |sum, (_, length)| sum.saturating_add(length.at_most));
        let mut names: Vec<&Name> = cases.iter().map(|(case, _)| &case.target).collect();
        names.sort_unstable();
        names.dedup();
        let together = names.into_iter().map(of_target).sum::<Result<u64, Name>>()?;
        let at_most = match spec.placement {
            Placement::Alternate => {
                let of_case = |(case, length): &(&Case, Length)| Ok(hours(length.at_most) * of_target(&case.target)? as f64);
                cases.iter().map(of_case).sum::<Result<f64, Name>>()?
            }
            Placement::Coexist => hours(longest) * together as f64,
        };
        Ok(Self { at_most, longest })
    }

    /// Returns the GPU-hours of trials that take this long instead of the longest time.
    pub(crate) fn of(self, time: Duration) -> f64 {
        if self.longest.is_zero() { 0.0 } else { self.at_most * (time.as_secs_f64() / self.longest.as_secs_f64()) }
    }
}

fn hours(time: Duration) -> f64 {
    time.as_secs_f64() / HOUR_S
}

/// Returns the GPUs of a target, as far as they are known before it is provisioned. A simulator uses none.
fn gpus(target: &Target) -> Option<u64> {
    let declared = |name: &str| target.hardware.get(name)?.parse::<u64>().ok();
    if target.kind == TargetKind::Simulator {
        return Some(0);
    }
    declared("gpu_count").or_else(|| declared("prefill_gpu_count")?.checked_add(declared("decode_gpu_count")?))
}

/// Formats GPU-hours with as many digits as they deserve.
pub(crate) fn format(hours: f64) -> String {
    let places = if hours >= 10.0 { 0 } else { 2 };
    format!("{hours:.places$}")
}

/// Formats GPU-hours that are a bound, rounded up to what is shown.
pub(crate) fn format_bound(hours: f64) -> String {
    let unit = if hours >= 10.0 { 1.0 } else { 0.01 };
    format((hours / unit).ceil() * unit)
}

fn parse_hours(text: &str) -> Result<f64, String> {
    let hours = text.parse::<f64>().map_err(|error| error.to_string())?;
    if hours.is_finite() && hours > 0.0 { Ok(hours) } else { Err("a number of hours above 0".to_owned()) }
}

/// The rest of a limit on GPU-hours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuBudget {
    most: Option<f64>,
    spent: f64,
    remedy: Remedy,
}

impl GpuHoursLimit {
    /// Returns the whole limit.
    pub(crate) fn budget(self, remedy: Remedy) -> GpuBudget {
        GpuBudget { most: self.max_gpu_hours, spent: 0.0, remedy }
    }
}

impl GpuBudget {
    /// Takes the GPU-hours of what a source defines. Refuses more than are left, and those that are not known.
    pub(crate) fn take_source(&mut self, source: &SourceSpec) -> Result<(), Failure> {
        if self.most.is_none() { Ok(()) } else { self.take(read_duration(source)?.gpu_hours()) }
    }

    /// Takes GPU-hours, or the target of which they are not known.
    pub(crate) fn take(&mut self, found: Result<GpuHours, Name>) -> Result<(), Failure> {
        let Some(most) = self.most else { return Ok(()) };
        let found = found.map_err(|target| {
            let message = format!(
                "the GPUs of target `{target}` are not known before it is provisioned, so that its GPU-hours are not either"
            );
            Failure::new(ErrorCode::GpuHours, message).hint(self.remedy.declare)
        })?;
        let before = self.spent;
        self.spent += found.at_most;
        if self.spent <= most {
            return Ok(());
        }
        let taken = if before > 0.0 { format!(", and those before {}", format_bound(before)) } else { String::new() };
        let message =
            format!("the trials may take {} GPU-hours{taken}; `--max-gpu-hours` allows {most}", format_bound(found.at_most));
        Err(Failure::new(ErrorCode::GpuHours, message).hint(
            "measure fewer loads or trials, or for a shorter `duration`; a trial without one may take its whole `time_limit`",
        ))
    }
}

#[cfg(test)]
mod tests {
    use assay_spec::{Pipeline, Workload, expand};

    use super::*;

    const WORKLOAD: &str = "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: chat}
spec:
  type: serving
  model: m
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  batching_policy: continuous
  stack: vllm
  load: {mode: closed, concurrency: [4, 8], duration: 60s}
  lengths: D(20,10)
";

    /// Returns the GPU-hours of half an hour for each case of a pipeline of two targets.
    fn found(targets: [&str; 2], more: &str) -> Result<GpuHours, Name> {
        let [one, other] = targets;
        let text = format!(
            "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: nightly}}
spec:
  intent: exploratory
  workloads: [chat]
  targets:
    - {{name: one, {one}}}
    - {{name: other, {other}}}
  trials: {{count: 2}}
{more}"
        );
        let pipeline =
            Pipeline::parse("pipelines/nightly.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}"));
        let workload = Workload::parse("workloads/chat/workload.yaml", WORKLOAD.as_bytes()).expect("a workload");
        let cases = expand(&pipeline, &[workload]).expect("cases");
        let half = Length::up_to(Duration::from_mins(30));
        GpuHours::new(&pipeline.spec, &cases.iter().map(|case| (case, half)).collect::<Vec<_>>())
    }

    const ENDPOINT: &str = "kind: endpoint, url: 'http://127.0.0.1:8000'";

    fn with(hardware: &str) -> String {
        format!("{ENDPOINT}, hardware: {{{hardware}}}")
    }

    #[test]
    fn targets_that_are_up_together_use_all_their_gpus() {
        let [two, four] = [with("gpu_count: '2'"), with("prefill_gpu_count: '1', decode_gpu_count: '3'")];
        let hours = found([&two, &four], "").expect("known");
        let shown = [hours.at_most, hours.of(Duration::from_mins(30))].map(format);
        assert_eq!(shown, ["6.00", "3.00"], "an hour of six GPUs");
        let none = found([&two, "kind: simulator"], "").expect("known");
        assert_eq!(format(none.at_most), "2.00", "a simulator uses none");
    }

    #[test]
    fn of_sides_that_alternate_only_one_is_up() {
        let process = |gpus: u32| {
            format!(
                "kind: process, url: 'http://127.0.0.1:800{gpus}', command: [server], ready: {{http: /health}}, hardware: {{gpu_count: '{gpus}'}}"
            )
        };
        let comparison = "  placement: alternate\n  comparison: {baseline: {target: one}, candidate: {target: other}, variable_under_test: runtime_version}\n";
        let [one, other] = [2, 4].map(process);
        let alternate = found([&one, &other], comparison).expect("known");
        assert_eq!(format(alternate.at_most), "3.00", "half an hour each");
    }

    #[test]
    fn gpus_that_nobody_declares_are_not_known() {
        assert_eq!(found([&with("gpu_count: '2'"), ENDPOINT], "").expect_err("unknown").as_str(), "other");
        assert_eq!(found([&with("prefill_gpu_count: '1'"), ENDPOINT], "").expect_err("unknown").as_str(), "one", "half of them");
    }

    #[test]
    fn a_budget_refuses_what_is_beyond_it_and_what_is_not_known() {
        let hours = |at_most: f64| Ok(GpuHours { at_most, longest: Duration::from_hours(1) });
        let budget = |most: Option<f64>| GpuHoursLimit { max_gpu_hours: most }.budget(IN_PIPELINE);
        let refused = |result: Result<(), Failure>| result.expect_err("refused");
        assert!(budget(None).take(hours(1e6)).is_ok(), "no limit");
        assert!(budget(Some(2.0)).take(hours(2.0)).is_ok(), "as much as is allowed");
        let failure = refused(budget(Some(2.0)).take(hours(2.001)));
        assert_eq!((failure.code, failure.exit.code()), (ErrorCode::GpuHours, 2));
        assert_eq!(failure.message, "the trials may take 2.01 GPU-hours; `--max-gpu-hours` allows 2");
        let mut left = budget(Some(2.0));
        assert!(left.take(hours(1.5)).is_ok());
        assert_eq!(
            refused(left.take(hours(1.0))).message,
            "the trials may take 1.00 GPU-hours, and those before 1.50; `--max-gpu-hours` allows 2"
        );
        let unknown = refused(budget(Some(2.0)).take(Err("vllm".parse().expect("a name"))));
        assert!(unknown.message.starts_with("the GPUs of target `vllm` are not known"), "{}", unknown.message);
        assert!(unknown.hint.as_deref().is_some_and(|hint| hint.contains("gpu_count")), "{unknown:?}");
    }

    #[test]
    fn a_limit_is_a_number_of_hours() {
        assert_eq!(parse_hours("0.5"), Ok(0.5));
        for text in ["0", "-1", "inf", "NaN", "much"] {
            assert!(parse_hours(text).is_err(), "{text}");
        }
        assert_eq!([format_bound(0.001), format_bound(9.995), format_bound(12.1)], ["0.01", "10", "13"]);
    }
}
