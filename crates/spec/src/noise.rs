//! The noise of a comparison, learned from its earlier runs, as a reviewed file.

use std::collections::{BTreeMap, BTreeSet};

use assay_gate::rule::{Launches, LearnedNoise};
use assay_gate::{History, MetricKey};
use assay_manifest::{Digest, Name, PairUnit, PointId, RunId};
use assay_stats::{BaseNoise, Noise as Spread, Spikes};

use crate::checked_value::{CheckedValue, Read};
use crate::define::{Define, DefinitionKind, SourcePlaces, parse_as};
use crate::problem::{Problem, Problems};

/// The folder of noise files, from the repository's root. Each file has the name of its pipeline.
pub const NOISE: &str = "pipelines/noise";

/// A noise file.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// The pipeline's name.
    pub name: Name,
    /// A description for people.
    pub description: Option<String>,
    /// The person or team that is responsible for it.
    pub owner: Option<String>,
    /// Free-form labels, by name.
    pub labels: BTreeMap<String, String>,
    /// The runs that it was learned from.
    pub runs: Vec<NoiseRun>,
    /// The learned noise of each metric at each point.
    pub metrics: Vec<MetricNoise>,
}

/// A run that noise was learned from.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseRun {
    /// Its id.
    pub run: RunId,
    /// The digest of its Summary.
    pub summary: Digest,
}

/// The learned noise of a metric at a point. Spreads are standard deviations of logarithms of ratios: 0.02 is about 2 %.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricNoise {
    /// The workload.
    pub workload: Name,
    /// Its `workload_spec_digest`: nothing is known of other work.
    pub work: Digest,
    /// The point.
    pub point: PointId,
    /// The metric.
    pub metric: String,
    /// The unit that is drawn anew for each pair.
    pub unit: PairUnit,
    /// The spread of one pair's difference.
    pub pair: f64,
    /// The degrees of freedom: the number of independent normal differences that tell as much about the spread.
    pub freedom: f64,
    /// The information of one difference, relative to a normal one.
    pub worth: f64,
    /// The spread without its spikes, if there are some.
    pub usual: Option<BaseNoise>,
    /// The spread of a launch.
    pub launch: f64,
    /// The number of launches in which that spread was observed.
    pub launches: u32,
    /// The largest shift of a whole run.
    pub largest_shift: f64,
    /// The autocorrelation of successive pairs, if there is one.
    pub autocorrelation: Option<f64>,
}

impl Noise {
    /// Parses a noise file; `file` is its name in problems.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        parse_as(file, bytes)
    }

    /// Parses the noise file of the pipeline of that name. Fails for the file of another pipeline.
    pub fn parse_for_pipeline(pipeline: &Name, file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let noise = Self::parse(file, bytes)?;
        if noise.name == *pipeline {
            return Ok(noise);
        }
        let message = format!("this is the noise of `{}`, and `{pipeline}` was looked for", noise.name);
        Err(vec![Problem::for_file(file, message).with_hint("learn it anew with `assay noise`")])
    }

    /// Returns the noise as gates use it. `digest` is that of the file.
    pub fn history(&self, digest: Digest) -> History {
        let metrics = self.metrics.iter().map(|metric| (metric.key(), metric.to_learned_noise())).collect();
        History { digest, metrics }
    }

    /// Returns the path of this pipeline's noise file, from the repository's root.
    pub fn path_of(pipeline: &Name) -> String {
        format!("{NOISE}/{pipeline}.yaml")
    }
}

impl MetricNoise {
    fn key(&self) -> MetricKey {
        MetricKey {
            workload: self.workload.clone(),
            work: self.work,
            point: self.point.clone(),
            metric: self.metric.clone(),
            unit: self.unit,
        }
    }

    fn to_learned_noise(&self) -> LearnedNoise {
        LearnedNoise {
            noise: Spread { sd: self.pair, freedom: self.freedom.max(1.0), worth: self.worth, base: self.usual },
            launches: Some(Launches { sd: self.launch, n: self.launches, largest: self.largest_shift }),
            autocorrelation: self.autocorrelation,
        }
    }
}

impl Define for Noise {
    const KIND: DefinitionKind = DefinitionKind::Noise;

    fn cross_check(checked: &CheckedValue, problems: &mut Problems<'_>) {
        let mut known = BTreeSet::new();
        for metric in checked.at(&["spec", "metrics"]).map_or(&[][..], CheckedValue::items) {
            let Some(noise) = MetricNoise::read(metric) else { continue };
            if noise.usual.is_some_and(|usual| usual.spikes.seen > usual.spikes.among) {
                problems.add(metric.span, "more of its differences are spikes than there are");
            }
            if !known.insert(noise.key()) {
                problems.add(metric.span, "this metric of that work at that point stands here twice");
            }
        }
    }

    fn read(checked: &CheckedValue, _: SourcePlaces) -> Option<Self> {
        let metadata = checked.member("metadata")?;
        let spec = checked.member("spec")?;
        Some(Self {
            name: metadata.get("name")?,
            description: metadata.get("description")?,
            owner: metadata.get("owner")?,
            labels: metadata.get("labels")?,
            runs: spec.get("learned_from")?,
            metrics: spec.get("metrics")?,
        })
    }
}

impl Read for NoiseRun {
    fn read(run: &CheckedValue) -> Option<Self> {
        Some(Self { run: run.get("run")?, summary: digest(run, "summary")? })
    }
}

impl Read for MetricNoise {
    fn read(metric: &CheckedValue) -> Option<Self> {
        Some(Self {
            workload: metric.get("workload")?,
            work: digest(metric, "work")?,
            point: metric.get("point")?,
            metric: metric.get("metric")?,
            unit: metric.get("unit")?,
            pair: metric.get("pair")?,
            freedom: metric.get("freedom")?,
            worth: metric.get("worth")?,
            usual: metric.get("usual")?,
            launch: metric.get("launch")?,
            launches: metric.get("launches")?,
            largest_shift: metric.get("largest_shift")?,
            autocorrelation: metric.get("autocorrelation")?,
        })
    }
}

impl Read for BaseNoise {
    fn read(usual: &CheckedValue) -> Option<Self> {
        Some(Self {
            sd: usual.get("pair")?,
            freedom: usual.get::<f64>("freedom")?.max(1.0),
            worth: usual.get("worth")?,
            spikes: Spikes { seen: usual.get("spikes")?, among: usual.get("differences")? },
        })
    }
}

fn digest(of: &CheckedValue, field: &str) -> Option<Digest> {
    Digest::from_hex(&of.get::<String>(field)?).ok()
}
