//! The GPUs of the recorder's machine as `nvidia-smi` reports them (`telemetry: [{name, nvidia_smi: true}]`).
//!
//! The program runs as long as the recorder and prints a line for each GPU about once a second: the values of the queried fields,
//! separated by commas (`nvidia-smi --help-query-gpu` lists all fields). A reading is the lines of all GPUs, headed by the fields,
//! because a driver that is older than a field refuses the whole query, and is then asked for fewer ([`Query::without`]).
//!
//! Each value is a sample of a moment, or of a time that the driver chooses: `power.draw` is the mean of the last second on recent
//! GPUs, and a utilisation is of the last 1/6 s to 1 s. What happens between two samples is in no row, so that energy and the time
//! of throttling are approximated. XIDs are in no field of `nvidia-smi`.

use assay_manifest::{Case, Environment, Plan, TelemetrySource};

use crate::metric::{MetricKey, MetricKind, MetricSample, Observed, UNKNOWN_UNIT, labels};
use crate::recording::ReadingBody;
use crate::source::{Sampled, Sampling, Source, SourceKind};

/// The program, which is looked up in PATH.
pub const PROGRAM: &str = "nvidia-smi";

/// The longest line that is read, in bytes: one of all fields is a tenth of it.
pub const MAX_LINE_BYTES: usize = 4096;

/// The most GPUs of a reading: no machine has as many.
pub const MAX_GPUS: usize = 128;

/// The longest UUID of a GPU, in bytes: those of Nvidia have 40.
const MAX_UUID_BYTES: usize = 96;

/// The fields that identify a line: the time by the machine's clock, which is only for people, the number and the UUID of the GPU.
const IDENTITY: [&str; 3] = ["timestamp", "index", "uuid"];

/// The places of the number and of the UUID in [`IDENTITY`].
const INDEX: usize = 1;
const UUID: usize = 2;

/// The fields that are metrics, each a gauge, with the unit of the rows.
const FIELDS: [(&str, &str); 25] = [
    ("utilization.gpu", "%"),
    ("utilization.memory", "%"),
    ("memory.used", "MiB"),
    ("memory.total", "MiB"),
    ("clocks.current.sm", "MHz"),
    ("clocks.current.memory", "MHz"),
    ("clocks.max.sm", "MHz"),
    ("power.draw", "W"),
    ("power.limit", "W"),
    ("temperature.gpu", "celsius"),
    ("temperature.memory", "celsius"),
    ("pcie.link.gen.current", "generation"),
    ("pcie.link.gen.max", "generation"),
    ("pcie.link.width.current", "lanes"),
    ("pcie.link.width.max", "lanes"),
    ("ecc.errors.corrected.volatile.total", "errors"),
    ("ecc.errors.uncorrected.volatile.total", "errors"),
    ("clocks_event_reasons.gpu_idle", "ratio"),
    ("clocks_event_reasons.applications_clocks_setting", "ratio"),
    ("clocks_event_reasons.sw_power_cap", "ratio"),
    ("clocks_event_reasons.hw_slowdown", "ratio"),
    ("clocks_event_reasons.hw_thermal_slowdown", "ratio"),
    ("clocks_event_reasons.hw_power_brake_slowdown", "ratio"),
    ("clocks_event_reasons.sw_thermal_slowdown", "ratio"),
    ("clocks_event_reasons.sync_boost", "ratio"),
];

/// The beginning of the fields with the reasons why a clock is low, and its spelling before driver 535.
const EVENT_REASONS: (&str, &str) = ("clocks_event_reasons.", "clocks_throttle_reasons.");

/// The values that mean that a GPU has no such quantity, or does not state it.
const WITHOUT_VALUE: [&str; 6] =
    ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[Insufficient Permissions]", "[GPU requires reset]"];

/// The GPUs of the recorder's machine.
pub(crate) struct NvidiaSmi;

impl SourceKind for NvidiaSmi {
    fn word(&self) -> &'static str {
        PROGRAM
    }

    fn noun(&self) -> &'static str {
        PROGRAM
    }

    fn sampled(&self, plan: &Plan, _: &Environment) -> Vec<Sampled> {
        sources(plan).map(|source| Sampled { source, sampling: Sampling::NvidiaSmi }).collect()
    }

    /// Returns every such source of the plan: each observes all attempts.
    fn observing(&self, plan: &Plan, _: Option<&Environment>, _: Option<&Case>) -> Vec<Source> {
        sources(plan).collect()
    }

    fn scope_kind(&self) -> &'static str {
        "gpu"
    }

    /// Returns the metrics of each GPU. A field without a value is in none, and counted; so is a line that has not as many values as
    /// there are fields.
    fn observed(&self, body: &ReadingBody) -> Observed {
        let ReadingBody::Text(text) = body else { return Observed::default() };
        let mut lines = text.lines();
        let fields: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
        let mut observed = Observed::default();
        for line in lines.take(MAX_GPUS) {
            add_line(&mut observed, &fields, line);
        }
        if !observed.samples.is_empty() {
            // A driver that is older than a field was not asked for it.
            let asked: Vec<String> = fields.iter().map(|field| present_spelling(field)).collect();
            observed
                .without_value
                .extend(FIELDS.iter().map(|(field, _)| *field).filter(|field| !asked.iter().any(|asked| asked == field)));
        }
        observed
    }

    fn unit(&self, metric: &str, _: MetricKind) -> String {
        FIELDS.iter().find(|(field, _)| *field == metric).map_or(UNKNOWN_UNIT, |(_, unit)| unit).to_owned()
    }
}

fn sources(plan: &Plan) -> impl Iterator<Item = Source> {
    plan.telemetry.iter().filter(|source: &&TelemetrySource| source.nvidia_smi).map(|source| Source::nvidia_smi(&source.name))
}

fn add_line(observed: &mut Observed, fields: &[&str], line: &str) {
    let values: Vec<&str> = line.split(',').map(str::trim).collect();
    let place = |wanted: &str| fields.iter().position(|field| *field == wanted).and_then(|at| values.get(at)).copied();
    let (Some(index), Some(uuid)) = (place(IDENTITY[INDEX]), place(IDENTITY[UUID])) else { return };
    if values.len() != fields.len() || uuid.is_empty() || uuid.len() > MAX_UUID_BYTES {
        return;
    }
    for (field, value) in fields.iter().zip(&values) {
        let name = present_spelling(field);
        let Some((known, _)) = FIELDS.iter().find(|(known, _)| **known == name) else { continue };
        match parse_value(value) {
            Some(value) => observed.samples.push(MetricSample {
                key: MetricKey { name, labels: labels(&[("gpu", index)]), object: Some(uuid.to_owned()) },
                kind: MetricKind::Gauge,
                value,
                series: 1,
            }),
            None => {
                observed.without_value.insert(known);
            }
        }
    }
}

/// Parses a value: a number, or a state that is on (1) or off (0).
fn parse_value(value: &str) -> Option<f64> {
    match value {
        "Active" => Some(1.0),
        "Not Active" => Some(0.0),
        value if WITHOUT_VALUE.contains(&value) => None,
        value => value.parse().ok().filter(|value: &f64| value.is_finite()),
    }
}

/// Returns the present spelling of a field: the metric's name in rows.
fn present_spelling(field: &str) -> String {
    match field.strip_prefix(EVENT_REASONS.1) {
        Some(reason) => format!("{}{reason}", EVENT_REASONS.0),
        None => field.to_owned(),
    }
}

/// A query of `nvidia-smi`: the fields that it requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query(Vec<String>);

impl Default for Query {
    /// Returns all fields that Assay reads.
    fn default() -> Self {
        let metrics = FIELDS.iter().map(|(field, _)| *field);
        Self(IDENTITY.into_iter().chain(metrics).map(str::to_owned).collect())
    }
}

impl Query {
    /// Returns the arguments that make the program print a line for each GPU: every `interval_ms` milliseconds, or once.
    pub fn arguments(&self, interval_ms: Option<u64>) -> Vec<String> {
        let mut arguments = vec![format!("--query-gpu={}", self.0.join(",")), "--format=csv,noheader,nounits".to_owned()];
        arguments.extend(interval_ms.map(|interval| format!("--loop-ms={interval}")));
        arguments
    }

    /// Returns the fields as the first line of a reading.
    pub fn header(&self) -> String {
        self.0.join(",")
    }

    /// Returns the UUID of the GPU that a line of the program is of; `None` if it is no line of values.
    pub fn gpu_of<'a>(&self, line: &'a str) -> Option<&'a str> {
        let values = line.split(',');
        let uuid = values.clone().nth(UUID).map(str::trim).filter(|uuid| !uuid.is_empty() && uuid.len() <= MAX_UUID_BYTES)?;
        (values.count() == self.0.len()).then_some(uuid)
    }

    /// Returns the query without a field that the program does not know: the reasons of low clocks by their older spelling first. `None`
    /// if it has no such field, or if the field identifies a line.
    #[must_use]
    pub fn without(&self, field: &str) -> Option<Self> {
        if !self.0.iter().any(|known| known == field) || IDENTITY.contains(&field) {
            return None;
        }
        if field.starts_with(EVENT_REASONS.0) {
            let older = |field: &String| field.replace(EVENT_REASONS.0, EVENT_REASONS.1);
            return Some(Self(self.0.iter().map(older).collect()));
        }
        Some(Self(self.0.iter().filter(|known| *known != field).cloned().collect()))
    }
}

/// Returns the field that the program refuses by this line, such as `Field "a" is not a valid field to query.`.
pub fn refused_field(line: &str) -> Option<&str> {
    let (field, rest) = line.trim().strip_prefix("Field \"")?.split_once('"')?;
    rest.contains("not a valid field").then_some(field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the metrics of a text, one a line, and the fields without a value.
    fn read(text: &str) -> String {
        let Observed { samples, without_value, .. } = NvidiaSmi.observed(&ReadingBody::Text(text.to_owned()));
        let line = |sample: &MetricSample| {
            let MetricKey { name, labels, object } = &sample.key;
            format!("{} {name}{labels} {}", object.as_deref().unwrap_or("-"), sample.value)
        };
        // Most of the fields are not in these texts.
        let header = text.lines().next().unwrap_or_default();
        let without = without_value.iter().filter(|field| header.contains(**field)).map(|field| format!("no {field}"));
        samples.iter().map(line).chain(without).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_reading_has_the_metrics_of_each_gpu() {
        let text = "timestamp,index,uuid,utilization.gpu,power.draw,clocks_throttle_reasons.sw_power_cap,temperature.memory,name\n\
                    2026/11/20 12:00:00.123, 0, GPU-a, 97, 301.52, Active, [N/A], x\n\
                    2026/11/20 12:00:00.131, 1, GPU-b, 0, 61.00, Not Active, 40, x\n";
        insta::assert_snapshot!(read(text), @r#"
        GPU-a utilization.gpu{gpu="0"} 97
        GPU-a power.draw{gpu="0"} 301.52
        GPU-a clocks_event_reasons.sw_power_cap{gpu="0"} 1
        GPU-b utilization.gpu{gpu="1"} 0
        GPU-b power.draw{gpu="1"} 61
        GPU-b clocks_event_reasons.sw_power_cap{gpu="1"} 0
        GPU-b temperature.memory{gpu="1"} 40
        no temperature.memory
        "#);
    }

    #[test]
    fn a_field_that_was_not_asked_for_has_no_value() {
        let text = "index,uuid,power.draw\n0, GPU-a, 12\n".to_owned();
        let Observed { without_value, .. } = NvidiaSmi.observed(&ReadingBody::Text(text));
        assert_eq!(without_value.len(), FIELDS.len() - 1);
        assert!(!without_value.contains("power.draw") && without_value.contains("temperature.gpu"));
    }

    #[test]
    fn what_is_no_value_is_in_no_row() {
        let of = |value: &str| read(&format!("timestamp,index,uuid,power.draw\nt, 0, GPU-a, {value}\n"));
        for absent in ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "", "NaN", "inf", "12 W", "ERR!"] {
            assert_eq!(of(absent), "no power.draw", "{absent}");
        }
        assert_eq!(of("12.5"), "GPU-a power.draw{gpu=\"0\"} 12.5");
        assert_eq!(of("12, 5"), "", "a value more than there are fields");
        assert_eq!(read("Unable to determine the device handle\n"), "");
        assert_eq!(read("index,uuid,power.draw\n0, , 5\n"), "", "a GPU without a name");
    }

    #[test]
    fn a_driver_without_a_field_is_asked_for_the_others() {
        let query = Query::default();
        let line = "Field \"clocks_event_reasons.gpu_idle\" is not a valid field to query.";
        let older = query.without(refused_field(line).expect("a field")).expect("an older spelling");
        assert!(older.header().contains("clocks_throttle_reasons.sync_boost") && !older.header().contains("clocks_event"));
        let fewer = older.without("clocks_throttle_reasons.gpu_idle").expect("the others");
        assert_eq!(fewer.0.len(), query.0.len() - 1);
        assert_eq!(query.without("uuid"), None, "a line of it is of no GPU");
        assert_eq!(query.without("other"), None);
        assert_eq!(refused_field("No devices were found"), None);
        insta::assert_snapshot!(Query(vec!["index".to_owned(), "uuid".to_owned()]).arguments(Some(1000)).join(" "), @"--query-gpu=index,uuid --format=csv,noheader,nounits --loop-ms=1000");
        assert_eq!(query.arguments(None).len(), 2);
    }

    #[test]
    fn a_line_of_values_has_a_gpu() {
        let query = Query(["timestamp", "index", "uuid", "power.draw"].map(str::to_owned).to_vec());
        assert_eq!(query.gpu_of("2026/11/20 12:00:00.123, 0, GPU-a, 12"), Some("GPU-a"));
        for other in ["", "No devices were found", "t, 0, GPU-a", "t, 0, , 12", "t, 0, GPU-a, 12, 13"] {
            assert_eq!(query.gpu_of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[a-z.,\\[\\]/ 0-9\n]{0,200}") {
            let _ = read(&text);
            let _ = read(&format!("{}\n{text}", Query::default().header()));
            let _ = (refused_field(&text), Query::default().gpu_of(&text));
        }
    }
}
