//! Serving workloads: the requests of execute, and the recipe of each point's load.

use std::time::Duration;

use assay_dataset::{Fields, ImportRules, Index, RecordedOutput, TimeRules};
use assay_failure::{ErrorCode, Failure};
use assay_manifest::{
    ArrivalLaw, Artifact, Case, ChatTemplate, Count, Dataset, DatasetFormat, DatasetSummary, Digest, FrozenWorkload, LengthLaw,
    Name, PauseLaw, PinnedFile, Plan, Point, PromptSource, RateProfile, ServingWork, Slo, SyntheticText, TemplateUse, TokenIds,
    Tokenizer, WeightedTokens, template_digest, tiktoken_digest,
};
use assay_schedule::{
    Nonce, OfferedLoad, PointKey, ScheduleError, Seed, TrialKey, TrialSchedule, check_replay, length_range, load_recipe_digest,
};
use assay_spec::{
    ArrivalMode, ArrivalProcess, Distribution, LengthPair, Lengths, OfferedRate, Pause, PinnableFile, Prompts, ResponseLength,
    Scenario, Serving, Sessions, TraceTimes, Workload, WorkloadTokenizer,
};

use crate::image_files::image_files;
use crate::{Pins, SourceFiles, nanoseconds};

/// The smallest lengths of prompt and response in genai-bench, in tokens.
const SCENARIO_FLOORS: (u32, u32) = (1, 2);

/// The tokens of the prompts of genai-bench's `I`, which takes them from a dataset of images with questions.
const IMAGE_PROMPT_TOKENS: u32 = 32;

/// The serving stacks that count tokens chunk by chunk on request.
const CONTINUOUS_USAGE: [&str; 2] = ["vllm", "assay-simulator"];

/// A dataset to import.
#[derive(Clone, Copy, Debug)]
pub struct DatasetRequest<'a> {
    /// The workload.
    pub workload: &'a Name,
    /// The file.
    pub file: DatasetFile<'a>,
    /// Its format.
    pub format: DatasetFormat,
    /// The names of its members or columns.
    pub fields: &'a Fields,
    /// The rules by which rows are kept.
    pub rules: ImportRules,
    /// The tokenizer of the workload; `None` for the built-in tokenizer.
    pub tokenizer: Option<TokenizerSource<'a>>,
    /// The most tokens of a response if neither the row nor a distribution says how many.
    pub max_output_tokens: Option<u32>,
}

/// The file of a dataset.
#[derive(Clone, Copy, Debug)]
pub enum DatasetFile<'a> {
    /// A file of the Source.
    InSource {
        /// The file.
        file: &'a PinnedFile,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// An address.
    Url(&'a str),
}

/// The tokenizer that a workload names.
#[derive(Clone, Copy, Debug)]
pub struct TokenizerSource<'a> {
    /// The workload.
    pub workload: &'a Name,
    /// Its path, relative to the workload's folder.
    pub path: &'a str,
    /// The bytes of its file.
    pub bytes: &'a [u8],
    /// Of a vocabulary of tiktoken, the pattern that splits texts.
    pub pattern: Option<&'a str>,
    /// Its chat template.
    pub template: Option<TemplateSource<'a>>,
    /// True if prompts are the ids of its words.
    pub makes_ids: bool,
    /// True if it makes the later turns of sessions.
    pub makes_turns: bool,
    /// The prompts that it makes; `None` if they are rows of a dataset.
    pub drawn: Option<DrawnPrompts>,
}

/// The prompts that a workload draws.
#[derive(Clone, Copy, Debug)]
pub struct DrawnPrompts {
    /// The tokens of the shortest.
    pub shortest: u32,
    /// The tokens of the longest.
    pub longest: u32,
    /// The most turns of a session; 1 without sessions.
    pub turns: u32,
    /// The kind of text.
    pub text: SyntheticText,
}

/// The chat template of a tokenizer.
#[derive(Clone, Copy, Debug)]
pub struct TemplateSource<'a> {
    /// The side that applies it.
    pub usage: TemplateUse,
    /// The bytes of `tokenizer_config.json`, if there is one.
    pub config: Option<&'a [u8]>,
    /// The bytes of `chat_template.jinja`, if there is one.
    pub file: Option<&'a [u8]>,
}

/// Checks that the sessions of an imported trace can have the connections of the workload.
pub fn check_imported_connections(serving: &Serving, summary: &DatasetSummary) -> Result<(), Failure> {
    assay_schedule::check_connections(serving.load.connections, summary)
        .map_err(|error| Failure::from_error(ErrorCode::Schedule, &error))
}

/// Passes the dataset or trace of a workload to `import`; `None` if it has none.
pub fn with_dataset_request<T>(
    files: &SourceFiles<'_>,
    workload: &Name,
    serving: &Serving,
    import: impl FnOnce(&DatasetRequest<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Prompts::Dataset(dataset) = &serving.prompts else { return Ok(None) };
    let pinned = match &dataset.file {
        PinnableFile::Path { path, .. } => Some(files.pin_file(workload, path)?),
        PinnableFile::Url { .. } => None,
    };
    let file = match &pinned {
        Some(file) => DatasetFile::InSource { file, bytes: files.bytes(&file.origin) },
        None => DatasetFile::Url(dataset.file.location()),
    };
    let tokenizer = serving.tokenizer.as_ref().map(|written| {
        let PinnedTokenizer { file, template } = PinnedTokenizer::of(files, workload, written)?;
        Ok::<_, Failure>(tokenizer_source(files, workload, serving, written, &file, template.as_ref()))
    });
    let named = |purpose: &str| dataset.fields.get(purpose).cloned();
    let fields = Fields {
        prompt: named("prompt"),
        messages: named("messages"),
        system: named("system"),
        output: named("output"),
        output_tokens: named("output_tokens"),
    };
    let max_output_tokens = dataset.max_output.map(tokens);
    let output = match &dataset.output {
        ResponseLength::Recorded => RecordedOutput::Used { at_most: max_output_tokens },
        ResponseLength::Server | ResponseLength::Drawn(_) => RecordedOutput::Unused,
    };
    let rules = ImportRules {
        api: serving.api,
        max_input: dataset.max_input.map(tokens),
        over: dataset.over,
        output,
        times: dataset.times.map(time_rules),
        sessions: serving.sessions.is_some(),
        template: serving.template().map(|template| template.usage),
    };
    let request = DatasetRequest {
        workload,
        file,
        format: dataset.format,
        fields: &fields,
        rules,
        tokenizer: tokenizer.transpose()?,
        max_output_tokens,
    };
    import(&request).map(Some)
}

/// Builds the requests that execute sends to the endpoint; `None` if the dataset that they need is unavailable.
pub(crate) fn build_work(
    files: &SourceFiles<'_>,
    pins: &mut dyn Pins,
    workload: &Workload,
    serving: &Serving,
    dataset: Option<Dataset>,
) -> Result<Option<ServingWork>, Failure> {
    let (prompts, output) = match (&serving.prompts, dataset) {
        (Prompts::Synthetic(written), _) => {
            let (input, output) = lengths(written);
            (PromptSource::Synthetic { input, query: query_length(written), prefix: serving.prefix }, output)
        }
        (Prompts::Dataset(written), Some(dataset)) => {
            let output = match &written.output {
                ResponseLength::Drawn(drawn) => Some(distribution(drawn)),
                ResponseLength::Recorded | ResponseLength::Server => None,
            };
            (PromptSource::Dataset(Box::new(dataset)), output)
        }
        (Prompts::Dataset(_), None) => return Ok(None),
    };
    let load = &serving.load;
    Ok(Some(ServingWork {
        api: serving.api,
        custom: serving.custom.clone(),
        model: workload.spec.dimensions.model.clone().unwrap_or_default(),
        adapters: serving.adapters.clone(),
        arrival: arrival(&load.arrivals),
        rate_profile: rate_profile(&load.arrivals).cloned(),
        max_concurrency: load.max_concurrency.map(Count),
        connections: load.connections,
        cancel: load.cancel,
        over_saturation: load.over_saturation,
        stop_on_errors: load.stop_on_errors,
        prompts,
        sessions: serving.sessions.as_ref().map(|written| sessions(written, load.sessions, serving.plays_trace())),
        scenario: serving.scenario,
        session_header: serving.sessions.as_ref().and_then(|written| written.header.clone()),
        output,
        text: Some(serving.text).filter(|text| *text != SyntheticText::Words),
        token_ids: serving.token_ids,
        images: serving.images,
        image_files: serving.image_files.as_ref().map(|written| image_files(files, workload, written)).transpose()?,
        exact_output: serving.exact_output,
        continuous_usage: workload.spec.dimensions.stack.as_deref().is_some_and(|stack| CONTINUOUS_USAGE.contains(&stack)),
        batch: serving.batch,
        body: serving.body.clone(),
        extra_body: serving.extra_body.clone(),
        requests: load.requests.map(Count),
        duration_ns: load.duration.map(nanoseconds),
        warmup_ns: nanoseconds(load.warmup),
        timeout_ns: nanoseconds(load.timeout),
        time_limit_ns: nanoseconds(workload.spec.time_limit),
        cache: serving.cache,
        streaming: serving.streaming,
        capture: serving.capture,
        slos: serving.slos.iter().map(slo).collect(),
        tokenizer: tokenizer(files, pins, workload, serving)?,
    }))
}

/// Sets the load recipe digest of every serving point.
pub(crate) fn pin_load(cases: &mut [Case], workloads: &[FrozenWorkload]) -> Result<(), Failure> {
    for case in cases {
        let Some(workload) = workloads.iter().find(|workload| workload.name == case.workload) else { continue };
        let Some(work) = &workload.serving else { continue };
        for point in &mut case.points {
            let digest = recipe_digest(workload, work, point)?;
            point.load_recipe_digest = Some(digest);
        }
    }
    Ok(())
}

/// Refuses replays that have nothing to measure or no time for it. `read` returns the bytes of an artifact, here of the indices of traces.
pub fn check_replays(plan: &Plan, read: impl Fn(&Artifact) -> Result<Vec<u8>, Failure>) -> Result<(), Failure> {
    for workload in &plan.workloads {
        let Some(work) = workload.serving.as_ref().filter(|work| work.arrival == ArrivalLaw::Recorded) else { continue };
        let Some(trace) = work.prompts.dataset() else { continue };
        let index = Index::parse(&read(&trace.index)?).map_err(|error| Failure::from_error(ErrorCode::Dataset, &error))?;
        let cases = plan.cases.iter().filter(|case| case.workload == workload.name);
        for point in cases.flat_map(|case| &case.points) {
            let Ok(OfferedLoad::Replay { speed }) = OfferedLoad::from_point(point) else { continue };
            check_replay(work, speed, &index).map_err(|error| unusable(workload, work, &error))?;
        }
    }
    Ok(())
}

fn unusable(workload: &FrozenWorkload, work: &ServingWork, error: &ScheduleError) -> Failure {
    let fields = match &work.prompts {
        PromptSource::Dataset(dataset) if dataset.summary.times.is_some() => "`spec.load`, `spec.trace` and `spec.time_limit`",
        PromptSource::Dataset(_) => "`spec.load` and `spec.dataset`",
        PromptSource::Synthetic { .. } => "`spec.load` and `spec.lengths`",
    };
    Failure::from_error(ErrorCode::Schedule, error).hint(format!("see {fields} of the workload `{}`", workload.name))
}

/// Refuses a load without a possible schedule here, long before anything is measured.
fn recipe_digest(workload: &FrozenWorkload, work: &ServingWork, point: &Point) -> Result<Digest, Failure> {
    let seed: Seed = workload.seed.parse().map_err(|error| Failure::from_error(ErrorCode::Seed, &error))?;
    let key = PointKey { seed: &seed, workload: &workload.workload_spec_digest, point: &point.point_id };
    let unusable = |error: &ScheduleError| unusable(workload, work, error);
    let offered = OfferedLoad::from_point(point).map_err(|error| unusable(&error))?;
    TrialSchedule::check(work, offered, &TrialKey { point: key, trial: 0, nonce: Nonce::new(0) })
        .map_err(|error| unusable(&error))?;
    load_recipe_digest(work, offered, &key).map_err(|error| Failure::from_error(ErrorCode::LoadRecipe, &error))
}

fn time_rules(times: TraceTimes) -> TimeRules {
    let ns = |duration: Duration| nanoseconds(duration).0;
    TimeRules {
        from_ns: ns(times.from),
        to_ns: times.to.map(ns),
        max_gap_ns: times.max_gap.map(ns),
        max_tool_ns: times.max_tool_time.map(ns),
        sample: times.sample,
    }
}

fn sessions(written: &Sessions, count: Option<u64>, of_trace: bool) -> assay_manifest::Sessions {
    let think_time = match written.think_time {
        _ if of_trace => PauseLaw::Recorded,
        Pause::Fixed(pause) => PauseLaw::Fixed { ns: nanoseconds(pause) },
        Pause::Uniform { min, max } => PauseLaw::Uniform { min_ns: nanoseconds(min), max_ns: nanoseconds(max) },
        Pause::Exponential { mean } => PauseLaw::Exponential { mean_ns: nanoseconds(mean) },
        Pause::LogNormal { mean, stddev } => PauseLaw::Lognormal { mean_ns: nanoseconds(mean), stddev_ns: nanoseconds(stddev) },
    };
    assay_manifest::Sessions {
        turns: written.turns.as_ref().map(distribution),
        think_time,
        history: written.history,
        reasoning: written.reasoning,
        count: count.map(Count),
        play: written.play,
    }
}

fn arrival(arrivals: &ArrivalMode) -> ArrivalLaw {
    match arrivals {
        ArrivalMode::Closed { .. } => ArrivalLaw::Closed,
        ArrivalMode::Users { .. } => ArrivalLaw::Users,
        ArrivalMode::Replay { .. } => ArrivalLaw::Recorded,
        ArrivalMode::Open { process: ArrivalProcess::Constant, .. } => ArrivalLaw::Constant,
        ArrivalMode::Open { process: ArrivalProcess::Poisson, .. } => ArrivalLaw::Poisson,
        ArrivalMode::Open { process: ArrivalProcess::Gamma { smoothness }, .. } => ArrivalLaw::Gamma { smoothness: *smoothness },
    }
}

fn rate_profile(arrivals: &ArrivalMode) -> Option<&RateProfile> {
    match arrivals {
        ArrivalMode::Open { rate: OfferedRate::Profile(profile), .. } => Some(profile),
        _ => None,
    }
}

/// Converts a token count. Its limit was checked when the definition was read, so it fits.
fn tokens(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn lengths(lengths: &Lengths) -> (LengthLaw, Option<LengthLaw>) {
    let (floor_in, floor_out) = SCENARIO_FLOORS;
    let normal =
        |(mean, stddev): (u64, u64), floor| LengthLaw::TruncatedNormal { mean: mean as f64, stddev: stddev as f64, floor };
    let uniform = |(low, high): (u64, u64), floor| LengthLaw::TruncatedUniform { low: tokens(low), high: tokens(high), floor };
    match lengths {
        Lengths::Scenario(Scenario::Deterministic { input, output }) => {
            (LengthLaw::Fixed { tokens: tokens(*input) }, Some(LengthLaw::Fixed { tokens: tokens(*output) }))
        }
        Lengths::Scenario(Scenario::Normal { input, output }) => (normal(*input, floor_in), Some(normal(*output, floor_out))),
        Lengths::Scenario(Scenario::Uniform { input, output }) => (uniform(*input, floor_in), Some(uniform(*output, floor_out))),
        Lengths::Scenario(Scenario::Embedding { tokens: count } | Scenario::Rerank { document: count, .. }) => {
            (LengthLaw::Fixed { tokens: tokens(*count) }, None)
        }
        Lengths::Scenario(Scenario::Image(_)) => (LengthLaw::Fixed { tokens: IMAGE_PROMPT_TOKENS }, None),
        Lengths::Explicit { input, output } => (distribution(input), Some(distribution(output))),
        Lengths::Pairs(pairs) => {
            let side = |of: fn(&LengthPair) -> u64| LengthLaw::Paired {
                values: pairs.iter().map(|pair| WeightedTokens { tokens: tokens(of(pair)), weight: pair.weight }).collect(),
            };
            (side(|pair| pair.input), Some(side(|pair| pair.output)))
        }
    }
}

fn query_length(lengths: &Lengths) -> Option<LengthLaw> {
    match lengths {
        Lengths::Scenario(Scenario::Rerank { query, .. }) => Some(LengthLaw::Fixed { tokens: tokens(*query) }),
        _ => None,
    }
}

fn distribution(distribution: &Distribution) -> LengthLaw {
    match distribution {
        Distribution::Fixed(count) => LengthLaw::Fixed { tokens: tokens(*count) },
        Distribution::Uniform { min, max } => LengthLaw::Uniform { min: tokens(*min), max: tokens(*max) },
        Distribution::Normal { mean, stddev } => LengthLaw::Normal { mean: *mean, stddev: *stddev },
        Distribution::LogNormal { mean, stddev } => LengthLaw::Lognormal { mean: *mean, stddev: *stddev },
        Distribution::Histogram { edges, weights } => {
            LengthLaw::Histogram { edges: edges.iter().copied().map(tokens).collect(), weights: weights.clone() }
        }
    }
}

fn slo(slo: &assay_spec::Slo) -> Slo {
    Slo { metric: slo.metric, at_most_ns: Count(slo.at_most_ns) }
}

/// The built-in words, or the workload's own tokenizer, which execute must be able to read.
fn tokenizer(files: &SourceFiles<'_>, pins: &mut dyn Pins, workload: &Workload, serving: &Serving) -> Result<Tokenizer, Failure> {
    let Some(written) = &serving.tokenizer else {
        let (name, digest) = pins.built_in_tokenizer();
        return Ok(Tokenizer { name, digest, file: None, pattern: None, template: None });
    };
    let PinnedTokenizer { file, template } = PinnedTokenizer::of(files, &workload.name, written)?;
    let source = tokenizer_source(files, &workload.name, serving, written, &file, template.as_ref());
    let tokens = pins.check_tokenizer(&source)?;
    let pattern = written.pattern.clone();
    let own = pattern.as_ref().map_or(file.artifact.digest, |pattern| tiktoken_digest(&file.artifact.digest, pattern));
    let template = template.map(|template| ChatTemplate { tokens, ..template });
    let digest = template.as_ref().map_or(own, |template| {
        let digest = |file: &Option<PinnedFile>| file.as_ref().map(|file| file.artifact.digest);
        template_digest(&own, template.usage, digest(&template.config).as_ref(), digest(&template.file).as_ref())
    });
    Ok(Tokenizer { name: written.path.clone(), digest, file: Some(file), pattern, template })
}

/// The files of a workload's tokenizer; the tokens of its template are not known yet.
struct PinnedTokenizer {
    file: PinnedFile,
    template: Option<ChatTemplate>,
}

impl PinnedTokenizer {
    fn of(files: &SourceFiles<'_>, workload: &Name, written: &WorkloadTokenizer) -> Result<Self, Failure> {
        let file = files.pin_file(workload, &written.path)?;
        // The closure has one of the two files, at least.
        let template = written.template.as_ref().map(|template| {
            let pinned = |path: &str| files.pin_file(workload, path).ok();
            ChatTemplate { usage: template.usage, config: pinned(&template.config), file: pinned(&template.file), tokens: 0 }
        });
        Ok(Self { file, template })
    }
}

fn tokenizer_source<'a>(
    files: &'a SourceFiles<'_>,
    workload: &'a Name,
    serving: &Serving,
    written: &'a WorkloadTokenizer,
    file: &PinnedFile,
    template: Option<&ChatTemplate>,
) -> TokenizerSource<'a> {
    let bytes = |file: &Option<PinnedFile>| file.as_ref().map(|file| files.bytes(&file.origin));
    let template = template.map(|template| TemplateSource {
        usage: template.usage,
        config: bytes(&template.config),
        file: bytes(&template.file),
    });
    TokenizerSource {
        workload,
        path: &written.path,
        bytes: files.bytes(&file.origin),
        pattern: written.pattern.as_deref(),
        template,
        makes_ids: serving.token_ids == Some(TokenIds::Tokenizer),
        makes_turns: serving.sessions.is_some() && !matches!(serving.prompts, Prompts::Dataset(_)),
        drawn: drawn_prompts(serving),
    }
}

fn drawn_prompts(serving: &Serving) -> Option<DrawnPrompts> {
    let Prompts::Synthetic(written) = &serving.prompts else { return None };
    let (shortest, longest) = length_range(&lengths(written).0);
    let common = serving.prefix.map_or(0, |prefix| prefix.tokens());
    let turns = serving.sessions.as_ref().and_then(|sessions| sessions.turns.as_ref());
    Some(DrawnPrompts {
        shortest: shortest.saturating_add(common),
        longest: longest.saturating_add(common),
        turns: turns.map_or(1, |turns| length_range(&distribution(turns)).1),
        text: serving.text,
    })
}
