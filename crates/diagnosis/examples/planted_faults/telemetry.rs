//! The recordings of a trial as files, and the readings that the parsers of telemetry take from them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{Cursor, Read};

use assay_diagnosis::{Reading, Series};
use assay_manifest::{Artifact, Block, CaseId, Count, Digest, Instant, Name, PlannedTrial, PointId, TrialId};
use assay_telemetry::{AttemptWindow, BlockSource, CounterLine, LineFormat, ScrapeLine, Slices, Source};
use serde::Serialize;

use crate::conditions::{Conditions, Deployment};
use crate::exporters::{AdmittedJob, ContainerSeries, GpuSeries, kueue};
use crate::machines::{MachineSeries, node_exporter};
use crate::random::Draws;
use crate::recording::CASE;
use crate::trial::{SECOND_NS, Second, Trial};

/// The start of every trial, in seconds since the Unix epoch.
const START_S: i64 = 1_790_000_000;

/// The only block of a recording.
const BLOCK: Block = Block { index: 0, incarnation: 0 };

/// The exporters that a pipeline names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exporters {
    pub(crate) node: bool,
    pub(crate) gpus: bool,
    /// True if dcgm-exporter serves the counters that it leaves out by default.
    pub(crate) all_gpu_counters: bool,
    pub(crate) containers: bool,
    pub(crate) kueue: bool,
}

/// The source of a trial's endpoint and exporters.
pub(crate) struct Recorder<'a> {
    pub(crate) conditions: &'a Conditions,
    pub(crate) exporters: Exporters,
    /// The name of the endpoint's target; `None` without an endpoint.
    pub(crate) target: Option<&'a str>,
    pub(crate) draws: &'a Draws,
}

/// A file of readings.
struct Recorded {
    source: Source,
    scope: String,
    lines: Vec<u8>,
}

fn name(text: &str) -> Name {
    text.parse().expect("a name of this program")
}

fn instant(at_ns: i64) -> Instant {
    Instant::from_unix_ns(START_S * SECOND_NS + at_ns)
}

fn push_line(lines: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *lines, line).expect("texts and numbers");
    lines.push(b'\n');
}

fn push_page(lines: &mut Vec<u8>, at_ns: i64, page: String) {
    let line = ScrapeLine { at: instant(at_ns), took_ns: 2_000_000, status: Some(200), body: Some(page), error: None };
    push_line(lines, &line);
}

/// The purposes of the draws of each source.
fn of(draws: &Draws, purpose: &str) -> Draws {
    draws.fork(purpose)
}

impl Recorder<'_> {
    /// Returns the readings of all sources during a trial.
    pub(crate) fn readings(&self, trial: &Trial, jobs: &[AdmittedJob]) -> Vec<Reading> {
        let mut files = vec![self.host(&trial.seconds)];
        if let Some(target) = self.target {
            let mut lines = Vec::new();
            trial.pages.iter().for_each(|(at_ns, page)| push_page(&mut lines, *at_ns, page.clone()));
            files.push(Recorded { source: Source::endpoint(&name(target)), scope: target.to_owned(), lines });
        }
        let exporters = self.exporters;
        let of_exporters = [
            (exporters.node, "node", self.node(&trial.seconds)),
            (exporters.gpus, "dcgm", self.gpus(&trial.seconds)),
            (exporters.containers, "cadvisor", self.containers(&trial.seconds)),
            (exporters.kueue, "kueue", self.kueue(&trial.seconds, jobs)),
        ];
        for (_, exporter, pages) in of_exporters.into_iter().filter(|(is_there, ..)| *is_there) {
            let mut lines = Vec::new();
            for (place, page) in (1..).zip(pages) {
                push_page(&mut lines, place * SECOND_NS + 10_000_000, page);
            }
            files.push(Recorded { source: Source::exporter(&name(exporter)), scope: exporter.to_owned(), lines });
        }
        read(&files, trial.end_ns)
    }

    fn host(&self, seconds: &[Second]) -> Recorded {
        let mut series = MachineSeries::new(&self.conditions.client_machine, of(self.draws, "host"));
        let mut lines = Vec::new();
        for (place, second) in (1..).zip(seconds) {
            let values = series.next_second(second, second.lost_up);
            push_line(&mut lines, &CounterLine { at: instant(place * SECOND_NS), values });
        }
        Recorded { source: Source::host(), scope: "client-1".to_owned(), lines }
    }

    fn node(&self, seconds: &[Second]) -> Vec<String> {
        if !self.exporters.node || self.conditions.deployment == Deployment::OneMachine {
            return Vec::new();
        }
        let machine = &self.conditions.server_machine;
        let mut series = MachineSeries::new(machine, of(self.draws, "node"));
        let page = |second: &Second| node_exporter(&series.next_second(second, second.lost_down), machine);
        seconds.iter().map(page).collect()
    }

    fn gpus(&self, seconds: &[Second]) -> Vec<String> {
        if !self.exporters.gpus {
            return Vec::new();
        }
        let Conditions { gpus, .. } = self.conditions;
        let (has_all, share) = (self.exporters.all_gpu_counters, self.conditions.gpu_share());
        let mut series = GpuSeries::new(gpus, has_all, share, of(self.draws, "gpus"));
        seconds.iter().map(|second| series.next_second(second)).collect()
    }

    fn containers(&self, seconds: &[Second]) -> Vec<String> {
        if !self.exporters.containers {
            return Vec::new();
        }
        let mut series = ContainerSeries::new(&self.conditions.container, of(self.draws, "containers"));
        seconds.iter().map(|_| series.next_second()).collect()
    }

    fn kueue(&self, seconds: &[Second], jobs: &[AdmittedJob]) -> Vec<String> {
        if !self.exporters.kueue {
            return Vec::new();
        }
        let mut draws = of(self.draws, "kueue");
        let before = (u64::from(draws.below(500)), draws.between(10.0, 5_000.0));
        let pending = |at_s: f64| jobs.iter().filter(|job| job.admitted_s > at_s && job.admitted_s - job.wait_s <= at_s).count();
        (1..=seconds.len()).map(|second| kueue(jobs, second as f64, pending(second as f64) as u32, before)).collect()
    }
}

/// Reads files as reduce does, and returns the rows that an explanation is made from.
fn read(files: &[Recorded], end_ns: i64) -> Vec<Reading> {
    let packed: Vec<(String, Vec<u8>)> = files.iter().map(packed).collect();
    let artifact = |(name, bytes): &(String, Vec<u8>)| Artifact {
        name: name.clone(),
        digest: Digest::compute(bytes),
        size: Count(bytes.len() as u64),
        media_type: "application/jsonl".to_owned(),
    };
    let evidence: Vec<Artifact> = packed.iter().map(artifact).collect();
    let open = |artifact: &Artifact| -> Result<Box<dyn Read>, Infallible> {
        let found = packed.iter().find(|(name, _)| *name == artifact.name);
        Ok(Box::new(Cursor::new(found.map(|(_, bytes)| bytes.clone()).unwrap_or_default())))
    };
    let planned = PlannedTrial {
        trial_id: TrialId::new(format!("{CASE}.point.t0")).expect("an id"),
        case_id: CaseId::new(CASE).expect("an id"),
        point_id: PointId::new("point").expect("an id"),
        index: 0,
        block: 0,
    };
    let window =
        || AttemptWindow { trial: &planned, attempt: 0, counts: true, start: instant(0), end: instant(end_ns), gaps: Vec::new() };
    let windows: BTreeMap<_, _> =
        files.iter().map(|file| (BlockSource { block: BLOCK, source: file.source.clone() }, vec![window()])).collect();
    let mut slices = Slices::new(windows, &evidence, &open);
    let mut readings = Vec::new();
    while let Some((place, slice)) = slices.next_slice().expect("lines that this program wrote") {
        let scope = files.iter().find(|file| file.source == place.source).map(|file| file.scope.clone()).unwrap_or_default();
        readings.extend(slice.statistics(&place.source).map(|statistics| {
            let values = statistics.values;
            Reading {
                source: place.source.to_string(),
                scope_kind: place.source.scope().kind.to_owned(),
                scope: scope.clone(),
                series: Series::parse(&statistics.metric),
                samples: statistics.n,
                gap: 0.0,
                mean: values.map_or(0.0, |values| values.mean),
                max: values.map_or(0.0, |values| values.max),
            }
        }));
    }
    readings
}

fn packed(file: &Recorded) -> (String, Vec<u8>) {
    let bytes = match file.source.format() {
        LineFormat::Counters => file.lines.clone(),
        LineFormat::Scrapes => zstd::encode_all(file.lines.as_slice(), 1).expect("bytes in memory"),
    };
    (format!("recordings/0-0-0/{}", file.source.file_name()), bytes)
}
