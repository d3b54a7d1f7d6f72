//! The requested work of a serving case: model, arrivals, lengths and SLOs.

use assay_manifest::{
    ArrivalLaw, CacheMode, ConnectionPolicy, Count, Dataset, DatasetFormat, DatasetSummary, History, ImageFiles, Images,
    LengthLaw, MAX_SESSION_TURNS, PauseLaw, PromptSource, RateProfile, ReasoningHistory, SALT_WORDS, ServingWork, SessionPlay,
    SessionStart, Sessions, SharedPrefix, Slo, SyntheticText, TemplateUse, TokenIds, TokenRange, TracePauses, TraceTimes,
    WeightedTokens,
};
use assay_metric::Metric;

use crate::render::number::percent;
use crate::render::text::{clean, counted};

/// The requested work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestedWork {
    pub(crate) model: String,
    /// The adapters that requests name in place of the model: ` with 2 adapters`; empty if there are none.
    pub(crate) adapters: String,
    pub(crate) api: &'static str,
    pub(crate) streaming: bool,
    /// True if requests are sent at a set request rate, independent of responses.
    pub(crate) open_loop: bool,
    pub(crate) arrivals: String,
    pub(crate) lengths: String,
    /// The treatment of the prefix cache. Its effect is not known: an endpoint may ignore a salt, and prompts may repeat.
    pub(crate) cache: &'static str,
    /// The temperature of requests: `temperature 0`; `None` if responses have no output tokens.
    pub(crate) temperature: Option<String>,
    pub(crate) slos: Vec<SloLine>,
}

/// A limit that each request must keep.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SloLine {
    /// `TTFT`.
    pub(crate) name: &'static str,
    pub(crate) metric: Metric,
    pub(crate) limit_ms: f64,
    /// `TTFT 500 ms`.
    pub(crate) text: String,
}

impl RequestedWork {
    pub(crate) fn new(work: &ServingWork) -> Self {
        Self {
            model: clean(&work.model),
            adapters: match work.adapters.len() as u64 {
                0 => String::new(),
                count => format!(" with {}", counted(count, "adapter")),
            },
            api: work.api.as_str(),
            streaming: work.is_streamed(),
            open_loop: !matches!(work.arrival, ArrivalLaw::Closed),
            arrivals: arrivals(work),
            lengths: lengths(work),
            cache: match work.cache {
                CacheMode::ColdSalt => "a salt of its own for each trial's prompts",
                CacheMode::ColdFlush => "to be flushed before each trial",
                CacheMode::Warm => "each trial's prompts are sent once before it",
                CacheMode::Shared => "as earlier trials left it",
            },
            temperature: work.api.capabilities().has_output_tokens.then(|| temperature(work)),
            slos: work.slos.iter().map(SloLine::new).collect(),
        }
    }

    /// Returns `TTFT 500 ms, TPOT 50 ms`.
    pub(crate) fn slo_text(&self) -> String {
        self.slos.iter().map(|slo| slo.text.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the arrivals without their explanation: `closed loop`.
    pub(crate) fn arrival_name(&self) -> &str {
        self.arrivals.split_once(": ").map_or(&self.arrivals, |(name, _)| name)
    }

    /// Returns the model and the requested work: `llama-8b, chat, streamed`.
    pub(crate) fn summary(&self) -> String {
        let streamed = if self.streaming { ", streamed" } else { "" };
        format!("{}{}, {}{streamed}", self.model, self.adapters, self.api)
    }
}

impl SloLine {
    fn new(slo: &Slo) -> Self {
        let metric = slo.metric.metric();
        let name = metric.definition().title;
        let limit_ms = slo.at_most_ns.0 as f64 / 1e6;
        // A limit is exact: it was declared, not measured.
        Self { name, metric, limit_ms, text: format!("{name} {limit_ms} ms") }
    }
}

fn arrivals(work: &ServingWork) -> String {
    let changing = work.rate_profile.as_ref().map(rate_course).unwrap_or_default();
    let arrivals = format!("{}{changing}", arrival_law(work));
    let cap = work.max_concurrency.map(|cap| format!("at most {cap} in flight, others wait"));
    let connections = match work.connections {
        ConnectionPolicy::Pooled => None,
        ConnectionPolicy::Never => Some("a new connection for each request".to_owned()),
        ConnectionPolicy::Sticky => Some("a connection for each session".to_owned()),
    };
    let cancel = work
        .cancel
        .map(|cancel| format!("{} cancelled {} after they were sent", percent(cancel.share), seconds(cancel.after_ns)));
    let more: Vec<String> = cap.into_iter().chain(connections).chain(cancel).collect();
    if more.is_empty() {
        return arrivals;
    }
    // They are a part of the name, which ends at the first colon.
    format!("{}; {}", arrivals.split(": ").next().unwrap_or_default(), more.join("; "))
}

/// The most segments of a rate series that are named one by one.
const MAX_SEGMENTS: usize = 6;

/// Returns `, at 1 to 50 per second in a straight line`.
fn rate_course(profile: &RateProfile) -> String {
    match profile {
        RateProfile::Linear { from_per_s, to_per_s } => {
            format!(", from {from_per_s} to {to_per_s} per second in a straight line")
        }
        RateProfile::Exponential { from_per_s, to_per_s } => {
            format!(", from {from_per_s} to {to_per_s} per second, by the same factor in equal times")
        }
        RateProfile::Steps { from_per_s, to_per_s, steps } => {
            format!(", from {from_per_s} to {to_per_s} per second in {steps} equal steps")
        }
        RateProfile::Series { segments } => {
            let named = segments.iter().take(MAX_SEGMENTS);
            let named: Vec<String> =
                named.map(|segment| format!("{} per second for {}", segment.per_s, seconds(segment.duration_ns))).collect();
            let more = segments.len().saturating_sub(MAX_SEGMENTS);
            let rest = if more > 0 { format!(", and {}", counted(more as u64, "more segment")) } else { String::new() };
            format!(", {}{rest}", named.join(", then "))
        }
    }
}

fn arrival_law(work: &ServingWork) -> String {
    match work.arrival {
        ArrivalLaw::Closed if work.sessions.is_some() => {
            "closed loop: each user plays one session to its end, pauses included, and then the next".to_owned()
        }
        ArrivalLaw::Recorded if work.sessions.is_some() => {
            "replay of a trace: sessions begin at their recorded times, and turns follow the response before".to_owned()
        }
        ArrivalLaw::Users => {
            "users: each plays one session after the other, with a gap of users / rate between its turns, which no response moves"
                .to_owned()
        }
        ArrivalLaw::Closed => "closed loop: each response is followed by the next request".to_owned(),
        ArrivalLaw::Constant => "open loop, equal gaps".to_owned(),
        ArrivalLaw::Poisson => "open loop, Poisson".to_owned(),
        ArrivalLaw::Gamma { smoothness } => format!("open loop, Gamma with smoothness {smoothness}"),
        ArrivalLaw::Recorded => "replay of a trace: requests come at their recorded times".to_owned(),
    }
}

/// Returns the temperature of requests, which is 0 by default.
fn temperature(work: &ServingWork) -> String {
    const NAME: &str = "temperature";
    let bodies = work.prompts.dataset().map_or(0, |dataset| dataset.summary.whole_bodies.map_or(0, |count| count.0));
    let all = work.prompts.dataset().is_some_and(|dataset| dataset.summary.rows.0 == bodies);
    match (work.extra_body.get(NAME), work.body.get(NAME)) {
        (Some(value), _) if value.is_null() => "temperature of the endpoint".to_owned(),
        (Some(value), _) => clean(&format!("temperature {value}")),
        (None, Some(text)) => clean(&format!("temperature {text}")),
        (None, None) if work.custom.is_some() => "temperature as the workload's own body has it".to_owned(),
        (None, None) if bodies > 0 && all => "temperature as each row has it".to_owned(),
        (None, None) if bodies > 0 => "temperature 0, or as each whole body has it".to_owned(),
        (None, None) => "temperature 0".to_owned(),
    }
}

/// Returns the numbers of tokens: `tokens 128 in, 64 out`, or those of the dataset with its name.
fn lengths(work: &ServingWork) -> String {
    // Without an exact length, the model may end a response before its limit.
    let at_most = if work.exact_output { "" } else { "at most " };
    let drawn = work.output.as_ref().map(|law| format!(", {at_most}{} out", length(law)));
    let images = work.images.as_ref().map(images).or_else(|| work.image_files.as_ref().map(image_files)).unwrap_or_default();
    match &work.prompts {
        PromptSource::Synthetic { input, query, prefix } => {
            let query = query.as_ref().map(|law| format!(", {} query", length(law))).unwrap_or_default();
            let shared = prefix.as_ref().map(shared).unwrap_or_default();
            let pairs = work.output.as_ref().and_then(|output| pairs(input, output));
            let (input, drawn) = match pairs {
                Some(pairs) if work.exact_output => (pairs, String::new()),
                Some(pairs) => (pairs, ", outputs at most".to_owned()),
                None => (format!("{} in", sent_length(work, input)), drawn.unwrap_or_else(|| undecided(work))),
            };
            let template = template(work);
            let input = format!("{input}{}", kind_of_text(work));
            match &work.sessions {
                None => format!("tokens {input}{template}{shared}{query}{drawn}{images}"),
                Some(of) if shared.is_empty() => format!("tokens {input}{template}{drawn}{images}{}", turns(work, of)),
                Some(of) => format!("tokens {input}{template}{drawn}{images}{}; first turns{shared}", turns(work, of)),
            }
        }
        PromptSource::Dataset(dataset) => {
            let input_tokens = &dataset.summary.input_tokens;
            let output = drawn.unwrap_or_else(|| recorded_lengths(work, dataset));
            let turns = work.sessions.as_ref().map(|sessions| turns(work, sessions)).unwrap_or_default()
                + &recorded_pauses(&dataset.summary);
            let reused = reused(&dataset.summary);
            let rows = describe_rows(&dataset.file.origin, &dataset.summary);
            let fields = dataset.field_notes().iter().fold(String::new(), |text, note| text + "; " + &clean(note));
            let input = format!(
                "{} in{}{}{}{}",
                range(input_tokens),
                kind_of_text(work),
                template(work),
                salt(work, dataset.format),
                of_recorded(work)
            );
            let part = measured_part(work, &dataset.summary);
            format!("{rows}{part}, tokens {input}{output}{images}{reused}{fields}{turns}")
        }
    }
}

/// Returns `, 2 to 21 out as recorded`, or the number of rows for which that holds, each with the limit that the workload sets.
fn recorded_lengths(work: &ServingWork, dataset: &Dataset) -> String {
    let DatasetSummary { rows, recorded_outputs, output_tokens, .. } = &dataset.summary;
    let most = dataset.max_output_tokens;
    let at_most = most.map(|most| format!(", but at most {most}")).unwrap_or_default();
    let Some(recorded) = output_tokens else {
        let undecided = undecided(work);
        return if undecided.is_empty() { undecided } else { undecided + &at_most };
    };
    // Recorded lengths are limited when they are imported: below the limit, none was longer.
    let is_limited = most.is_some_and(|most| recorded.most >= most);
    let (out, comma) = if is_limited {
        (format!(", {} out: as recorded{at_most}", range(recorded)), ",")
    } else {
        (format!(", {} out as recorded", range(recorded)), "")
    };
    if recorded_outputs == rows {
        return out;
    }
    format!("{out}{comma} for {} of them, else as the endpoint decides{at_most}", recorded_outputs.0)
}

/// Returns the mark of lengths that are not those of the prompts sent, which have the endpoint's own responses; empty if they are.
fn of_recorded(work: &ServingWork) -> &'static str {
    let is_live = work.sessions.as_ref().is_some_and(|sessions| sessions.history == History::Live);
    if is_live { " with the recorded responses (live ones were sent)" } else { "" }
}

/// Returns ` of natural text`, or ` as token ids` with their range if they have one; empty if prompts are words.
fn kind_of_text(work: &ServingWork) -> String {
    match work.token_ids {
        None if work.text == Some(SyntheticText::Natural) => " of natural text".to_owned(),
        None => String::new(),
        Some(TokenIds::Tokenizer) => " as token ids of the tokenizer's words".to_owned(),
        Some(TokenIds::Range { least, most }) => format!(" as token ids from {least} to {most}"),
    }
}

/// Returns ` and 4 of the salt`, which stands in front of the rows of a dataset with texts; empty if nothing does.
fn salt(work: &ServingWork, format: DatasetFormat) -> String {
    let is_salted = work.cache == CacheMode::ColdSalt && format.has_texts();
    if is_salted { format!(" and {SALT_WORDS} of the salt") } else { String::new() }
}

/// Returns what a result says of responses whose length no one requests; empty if responses have no tokens.
fn undecided(work: &ServingWork) -> String {
    if work.api.capabilities().has_output_tokens { ", out as the endpoint decides".to_owned() } else { String::new() }
}

/// Returns `, with 2 images of 512 x 256 pixels (jpeg)`.
fn images(images: &Images) -> String {
    let Images { width, height, count, format } = images;
    format!(", with {} of {width} x {height} pixels ({format})", counted(u64::from(*count), "image"))
}

/// Returns `, with 2 images drawn from 30 files`.
fn image_files(images: &ImageFiles) -> String {
    let (count, files) = (counted(u64::from(images.count), "image"), counted(images.files.len() as u64, "file"));
    format!(", with {count} drawn from {files}")
}

/// Returns ` a turn; 2 to 8 turns, 2 s apart, drawn history`.
fn turns(work: &ServingWork, sessions: &Sessions) -> String {
    let pause = match sessions.think_time {
        _ if work.arrival == ArrivalLaw::Users => "at the gap of their user".to_owned(),
        PauseLaw::Recorded => "at their recorded pauses".to_owned(),
        PauseLaw::Fixed { ns: Count(0) } => "without pauses".to_owned(),
        PauseLaw::Fixed { ns } => format!("{} apart", seconds(ns)),
        PauseLaw::Uniform { min_ns, max_ns } => format!("{} to {} apart", seconds(min_ns), seconds(max_ns)),
        PauseLaw::Exponential { mean_ns } => format!("{} apart on average (exponential)", seconds(mean_ns)),
        PauseLaw::Lognormal { mean_ns, stddev_ns } => {
            format!("{} apart on average (log-normal, standard deviation {})", seconds(mean_ns), seconds(stddev_ns))
        }
    };
    let history = match (sessions.history, sessions.reasoning) {
        (History::Recorded, _) if sessions.turns.is_none() => "recorded history",
        (History::Recorded, _) => "drawn history",
        (History::Live, ReasoningHistory::Drop) => "live history",
        (History::Live, ReasoningHistory::Keep) => "live history with reasoning",
    };
    let play = played(sessions.play);
    match &sessions.turns {
        None => format!("; turns {pause}, {history}{play}"),
        Some(LengthLaw::Fixed { tokens: 1 }) => format!(" a turn; 1 turn, {pause}, {history}"),
        Some(law) => format!(" a turn; {} turns, {pause}, {history}", length(law)),
    }
}

/// Returns `; sessions are recycled`, and the other ways in which users do not play a trace's sessions once and as recorded; empty if they do.
fn played(play: SessionPlay) -> String {
    let start = play.start.map(|SessionStart { from, to }| {
        let warmed = if play.warm_history { ", whose turn before was sent before the trial" } else { "" };
        format!("users begin at {} to {} of a session{warmed}", percent(from), percent(to))
    });
    let parts = [
        play.recycle.then(|| "sessions are recycled".to_owned()),
        start,
        play.idle_cap_ns.map(|cap| format!("idle time is cut to {}", seconds(cap))),
        play.marker.then(|| format!("{SALT_WORDS} tokens of a marker more for each prompt")),
    ];
    parts.into_iter().flatten().fold(String::new(), |text, part| text + "; " + &part)
}

/// Returns ` (14 of the chat template, which the client applies)`, or ` with the chat template, ...`; empty if only the text of a prompt is counted.
fn template(work: &ServingWork) -> String {
    let Some(template) = &work.tokenizer.template else { return String::new() };
    let applied = match template.usage {
        TemplateUse::Apply => "client",
        TemplateUse::Count => "endpoint",
    };
    match (least_prompt(work), &work.prompts) {
        (Some(least), PromptSource::Synthetic { input, .. }) => {
            let longer = match input {
                law if least_drawn(law) >= least => String::new(),
                LengthLaw::Fixed { tokens } => format!("{tokens} were requested; "),
                _ => format!("at least {least}; "),
            };
            format!(" ({longer}{} of the chat template, which the {applied} applies)", template.tokens)
        }
        // They differ from turn to turn, and from row to row.
        _ => format!(" with the chat template, which the {applied} applies"),
    }
}

/// Returns the tokens of the shortest prompt, the chat template and a word; `None` if there is no template, or if its tokens differ between turns.
fn least_prompt(work: &ServingWork) -> Option<u32> {
    let template = work.tokenizer.template.as_ref().filter(|_| work.sessions.is_none())?;
    Some(template.tokens.saturating_add(1))
}

/// Returns the tokens that were sent: of a fixed length that is shorter than the chat template, those of the shortest prompt.
fn sent_length(work: &ServingWork, law: &LengthLaw) -> String {
    match (law, least_prompt(work)) {
        (LengthLaw::Fixed { tokens }, Some(least)) => tokens.max(&least).to_string(),
        _ => length(law),
    }
}

/// Returns the smallest number of tokens that a law draws.
fn least_drawn(law: &LengthLaw) -> u32 {
    match law {
        LengthLaw::Fixed { tokens } => *tokens,
        LengthLaw::Uniform { min, .. } => *min,
        LengthLaw::Normal { .. } | LengthLaw::Lognormal { .. } => 1,
        LengthLaw::TruncatedNormal { floor, .. } => *floor,
        LengthLaw::TruncatedUniform { low, floor, .. } => *low.max(floor),
        LengthLaw::Histogram { edges, .. } => edges.first().copied().unwrap_or_default(),
        LengthLaw::Paired { values } => values.iter().map(|value| value.tokens).min().unwrap_or_default(),
    }
}

/// States the recorded pauses of the turns of a trace, and what of its sessions is not as recorded; empty for anything else.
fn recorded_pauses(summary: &DatasetSummary) -> String {
    let Some(turns) = summary.times.as_ref().and_then(|times| times.turns.as_ref()) else { return String::new() };
    let pauses = |pauses: &TracePauses, name: &str| {
        let cut = |cut: u64| format!(" ({cut} cut, by {} s together)", pauses.cut_ns.0 as f64 / 1e9);
        let cut = Some(pauses.cut.0).filter(|cut| *cut > 0).map(cut).unwrap_or_default();
        let mean_s = pauses.sum_ns.0 as f64 / 1e9 / pauses.turns.0.max(1) as f64;
        let digits = if mean_s < 1.0 { 3 } else { 1 };
        (pauses.turns.0 > 0)
            .then(|| format!("{} with {mean_s:.digits$} s of {name} on average{cut}", counted(pauses.turns.0, "turn")))
    };
    let count = |count: Count, what: &str| (count.0 > 0).then(|| format!("{} {what}", counted(count.0, "turn")));
    let subagents = (turns.subagents.0 > 0).then(|| {
        let requests = counted(turns.subagent_requests.0, "request");
        format!("{} with {requests} left out", counted(turns.subagents.0, "subagent"))
    });
    let forks = turns.forks.as_ref().filter(|forks| forks.subagents.0 > 0).map(|forks| {
        let (subagents, turns) = (counted(forks.subagents.0, "subagent"), counted(forks.turns.0, "turn"));
        format!("{subagents} ({} joined) with {turns}", forks.joined.0)
    });
    let roles = turns.roles.as_ref().map(|roles| {
        let [system, user, assistant] = [roles.system_tokens, roles.user_tokens, roles.assistant_tokens].map(|tokens| tokens.0);
        format!(
            "{} ({system} tokens of the system, {user} of the user, {assistant} of the assistant)",
            counted(roles.messages.0, "message")
        )
    });
    let cut = turns.roles.as_ref().map_or(Count(0), |roles| roles.cut);
    let parts = [
        pauses(&turns.think_time, "think time"),
        pauses(&turns.tool_time, "tool time"),
        count(turns.without_end, "whose pause includes the service of the turn before, which the trace does not record"),
        count(turns.overlapping, "that began before the response before had ended"),
        count(turns.branches, "that continue an earlier turn than the one before"),
        forks,
        subagents,
        roles,
        count(cut, "that drop or replace messages of the turn before"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}

pub(super) fn seconds(ns: Count) -> String {
    format!("{} s", ns.0 as f64 / 1e9)
}

/// Returns ` after 1000 of all requests and 200 of one of 8 groups`, with the law of unequal groups.
fn shared(prefix: &SharedPrefix) -> String {
    let SharedPrefix { system, groups, group, zipf } = prefix;
    let of_group = match groups {
        1 => "of one group".to_owned(),
        groups if *zipf > 0.0 => format!("of one of {groups} groups (Zipf {zipf})"),
        groups => format!("of one of {groups} groups"),
    };
    match (system, group) {
        (system, 0) => format!(" after {system} of all requests"),
        (0, group) => format!(" after {group} {of_group}"),
        (system, group) => format!(" after {system} of all requests and {group} {of_group}"),
    }
}

/// Returns `, 61.2 % of the prompt tokens in blocks of 512 that an earlier request begins with`; empty without blocks.
fn reused(summary: &DatasetSummary) -> String {
    let Some(blocks) = &summary.blocks else { return String::new() };
    let share = percent(blocks.reused_tokens.0 as f64 / summary.input_tokens.sum.0.max(1) as f64);
    // Sessions of a trace may have blocks of different sizes.
    let size = if blocks.tokens == 0 { String::new() } else { format!(" of {}", blocks.tokens) };
    format!(", {share} of the prompt tokens in blocks{size} that an earlier request begins with")
}

/// Returns `, of which a trial measures 5; of all of them` if a trial ends before the rows do, because the numbers that follow are those of all
/// rows; empty if it does not.
fn measured_part(work: &ServingWork, summary: &DatasetSummary) -> String {
    let count = work.sessions.as_ref().and_then(|sessions| sessions.count);
    let part = match (count, summary.sessions, work.requests) {
        (Some(count), Some(all), _) if count < all => format!("plays {}", counted(count.0, session_word(summary))),
        (None, _, Some(requests)) if requests < summary.rows && work.duration_ns.is_some() => {
            format!("measures at most {}", requests.0)
        }
        (None, _, Some(requests)) if requests < summary.rows => format!("measures {}", requests.0),
        (None, ..) if work.arrival == ArrivalLaw::Recorded => match work.duration_ns {
            Some(duration) => format!("measures what is due within its {}", seconds(duration)),
            None => return String::new(),
        },
        _ => return String::new(),
    };
    format!(", of which a trial {part}; of all of them")
}

/// Returns the noun of what the turns of a dataset or trace belong to.
fn session_word(summary: &DatasetSummary) -> &'static str {
    if summary.times.is_some() { "session" } else { "conversation" }
}

/// States the rows of a dataset or trace that are sent, and those of its file that are not:
/// `8 prompts of prompts.jsonl (2 of 10 rows left out: 2 without a prompt)`.
pub fn describe_rows(file: &str, summary: &DatasetSummary) -> String {
    let noun = match (summary.sessions, &summary.times) {
        (Some(_), _) => "turn",
        (None, Some(_)) => "request",
        (None, None) => "prompt",
    };
    let of_sessions =
        summary.sessions.map(|count| format!("{} of ", counted(count.0, session_word(summary)))).unwrap_or_default();
    format!("{} of {of_sessions}{}{}", counted(summary.rows.0, noun), clean(file), changed_rows(summary))
}

/// States the rows of a dataset that were left out or cut, with the reasons: ` (10 of 20 rows left out: 10 longer than `max_input`)`;
/// empty if there are none.
fn changed_rows(summary: &DatasetSummary) -> String {
    let DatasetSummary { read, without_prompt, without_response, too_many_turns, too_long, truncated, times, sessions, .. } =
        summary;
    // A row of a trace is a turn or a whole session.
    let of_trace = sessions.is_some() && times.is_some();
    let row = if sessions.is_some() { "conversation" } else { "row" };
    let of_times = |count: fn(&TraceTimes) -> Count| times.as_ref().map_or(0, |times| count(times).0);
    let too_many = format!("of more than {MAX_SESSION_TURNS} turns");
    let reasons = [
        (without_prompt.0, "without a prompt"),
        (without_response.map_or(0, |count| count.0), "without a recorded response"),
        (too_many_turns.map_or(0, |count| count.0), &too_many),
        (if of_trace { 0 } else { too_long.0 }, "longer than `max_input`"),
        (of_times(|times| times.outside_window), "outside of the window"),
        (of_times(|times| times.not_sampled), "not in the sample"),
    ];
    let left_out: u64 = reasons.iter().map(|(rows, _)| rows).sum();
    let reasons: Vec<String> = reasons.iter().filter(|(rows, _)| *rows > 0).map(|(rows, why)| format!("{rows} {why}")).collect();
    let of = if of_trace { String::new() } else { format!("{left_out} of {} ", counted(read.0, row)) };
    let left_out = (left_out > 0).then(|| format!("{of}left out: {}", reasons.join(", ")));
    let whole = (of_trace && too_long.0 > 0)
        .then(|| format!("{} left out, with a turn longer than `max_input`", counted(too_long.0, "session")));
    let cut = (truncated.0 > 0).then(|| match sessions {
        Some(_) if of_trace => format!("{} ended before a turn longer than `max_input`", counted(truncated.0, "session")),
        Some(_) => format!("{} ended before a turn longer than `max_input`", counted(truncated.0, "conversation")),
        None => format!("{} cut to `max_input`", counted(truncated.0, "prompt")),
    });
    let gaps = of_times(|times| times.gaps_cut);
    let gaps = (gaps > 0).then(|| format!("{} cut to `max_gap`", counted(gaps, "gap")));
    let changes: Vec<String> = left_out.into_iter().chain(whole).chain(cut).chain(gaps).collect();
    if changes.is_empty() { String::new() } else { format!(" ({})", changes.join("; ")) }
}

/// Returns `5 to 1023`.
fn range(tokens: &TokenRange) -> String {
    if tokens.least == tokens.most { tokens.least.to_string() } else { format!("{} to {}", tokens.least, tokens.most) }
}

fn length(law: &LengthLaw) -> String {
    match law {
        LengthLaw::Fixed { tokens } => format!("{tokens}"),
        LengthLaw::Uniform { min, max } => format!("{min} to {max}"),
        LengthLaw::Normal { mean, stddev } => format!("N({mean}, {stddev})"),
        LengthLaw::Lognormal { mean, stddev } => format!("log-normal ({mean}, {stddev})"),
        LengthLaw::TruncatedNormal { mean, stddev, floor } => format!("N({mean}, {stddev}) from {floor}"),
        LengthLaw::TruncatedUniform { low, high, floor } => format!("U[{low}, {high}) from {floor}"),
        LengthLaw::Histogram { edges, weights } => {
            let (low, high) = (edges.first().copied().unwrap_or_default(), edges.last().copied().unwrap_or_default());
            format!("{low} to {high} (histogram of {}, mean {:.1})", counted(weights.len() as u64, "bin"), law.mean())
        }
        LengthLaw::Paired { values } => format!("one of {} (mean {:.1})", counted(values.len() as u64, "value"), law.mean()),
    }
}

/// The most pairs that are stated one by one.
const STATED_PAIRS: usize = 4;

/// Returns `256 in and 128 out (60 %), 512 in and 256 out (40 %)` or, of many pairs, their number and means; `None` unless both sides are of pairs.
fn pairs(input: &LengthLaw, output: &LengthLaw) -> Option<String> {
    let (LengthLaw::Paired { values: inputs }, LengthLaw::Paired { values: outputs }) = (input, output) else { return None };
    if inputs.len() > STATED_PAIRS {
        return Some(format!("in {} pairs, {:.1} in and {:.1} out on average", inputs.len(), input.mean(), output.mean()));
    }
    let all: f64 = inputs.iter().map(|value| value.weight).sum();
    let pair = |(input, output): (&WeightedTokens, &WeightedTokens)| {
        format!("{} in and {} out ({})", input.tokens, output.tokens, percent(input.weight / all))
    };
    Some(inputs.iter().zip(outputs).map(pair).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Artifact, ChatTemplate, Count, Digest, PinnedFile, TraceForks, TraceTurns, UnreadMembers};

    use super::*;

    #[test]
    fn shared_beginnings_are_stated() {
        let stated = |system, groups, group, zipf| shared(&SharedPrefix { system, groups, group, zipf });
        assert_eq!(stated(90, 1, 0, 0.0), " after 90 of all requests");
        assert_eq!(stated(0, 1, 60, 0.0), " after 60 of one group");
        assert_eq!(stated(90, 1, 60, 1.0), " after 90 of all requests and 60 of one group");
        assert_eq!(stated(90, 8, 60, 1.0), " after 90 of all requests and 60 of one of 8 groups (Zipf 1)");
        assert_eq!(stated(0, 8, 60, 0.0), " after 60 of one of 8 groups");
    }

    #[test]
    fn lengths_by_weights_are_stated() {
        let side = |values: &[(u32, f64)]| LengthLaw::Paired {
            values: values.iter().map(|(tokens, weight)| WeightedTokens { tokens: *tokens, weight: *weight }).collect(),
        };
        let (input, output) = (side(&[(256, 3.0), (512, 1.0)]), side(&[(128, 3.0), (64, 1.0)]));
        assert_eq!(pairs(&input, &output).as_deref(), Some("256 in and 128 out (75 %), 512 in and 64 out (25 %)"));
        assert_eq!(pairs(&input, &LengthLaw::Fixed { tokens: 1 }), None);
        let many = side(&[(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (10, 0.0)]);
        assert_eq!(pairs(&many, &many).as_deref(), Some("in 5 pairs, 2.5 in and 2.5 out on average"));
        // (128 x 3 + 640 x 1) / 4
        let law = LengthLaw::Histogram { edges: vec![1, 256, 1_024], weights: vec![3.0, 1.0] };
        assert_eq!(length(&law), "1 to 1024 (histogram of 2 bins, mean 256.0)");
    }

    #[test]
    fn images_are_stated() {
        let of = |count| Images { width: 512, height: 256, count, format: assay_manifest::ImageFormat::Jpeg };
        assert_eq!(images(&of(2)), ", with 2 images of 512 x 256 pixels (jpeg)");
        assert_eq!(images(&of(1)), ", with 1 image of 512 x 256 pixels (jpeg)");
        assert_eq!(image_files(&ImageFiles { files: Vec::new(), count: 2 }), ", with 2 images drawn from 0 files");
    }

    #[test]
    fn rows_that_were_left_out_or_cut_are_stated() {
        let text = |read: u64, without_prompt: u64, too_long: u64, truncated: u64| {
            let [read, without_prompt, too_long, truncated] = [read, without_prompt, too_long, truncated].map(Count);
            changed_rows(&DatasetSummary { read, without_prompt, too_long, truncated, ..DatasetSummary::default() })
        };
        assert_eq!(text(20, 0, 0, 0), "");
        assert_eq!(text(20, 0, 10, 0), " (10 of 20 rows left out: 10 longer than `max_input`)");
        assert_eq!(text(20, 1, 2, 0), " (3 of 20 rows left out: 1 without a prompt, 2 longer than `max_input`)");
        assert_eq!(text(20, 1, 0, 4), " (1 of 20 rows left out: 1 without a prompt; 4 prompts cut to `max_input`)");
        assert_eq!(text(20, 0, 0, 1), " (1 prompt cut to `max_input`)");
        let (sessions, too_many_turns) = (Some(Count(3)), Some(Count(2)));
        let summary = DatasetSummary { read: Count(5), sessions, too_many_turns, ..DatasetSummary::default() };
        assert_eq!(changed_rows(&summary), " (2 of 5 conversations left out: 2 of more than 1000 turns)");
    }

    #[test]
    fn what_a_trace_records_of_its_sessions_and_what_was_changed_is_stated() {
        let pauses = |turns, sum_s: u64, cut, cut_s: u64| TracePauses {
            turns: Count(turns),
            sum_ns: Count(sum_s * 1_000_000_000),
            cut: Count(cut),
            cut_ns: Count(cut_s * 1_000_000_000),
        };
        let turns = TraceTurns {
            think_time: pauses(4, 10, 1, 60),
            tool_time: pauses(1, 3, 0, 0),
            without_end: Count(2),
            overlapping: Count(1),
            branches: Count(0),
            subagents: Count(1),
            subagent_requests: Count(9),
            forks: Some(TraceForks { subagents: Count(4), turns: Count(1), joined: Count(3), ..TraceForks::default() }),
            ..TraceTurns::default()
        };
        let times = Some(TraceTimes { not_sampled: Count(7), turns: Some(turns), ..TraceTimes::default() });
        let summary = DatasetSummary {
            read: Count(20),
            sessions: Some(Count(3)),
            too_long: Count(2),
            truncated: Count(1),
            times,
            ..DatasetSummary::default()
        };
        assert_eq!(
            recorded_pauses(&summary),
            "; 4 turns with 2.5 s of think time on average (1 cut, by 60 s together), 1 turn with 3.0 s of tool time on average, 2 turns \
             whose pause includes the service of the turn before, which the trace does not record, 1 turn that began before the response \
             before had ended, 4 subagents (3 joined) with 1 turn, 1 subagent with 9 requests left out"
        );
        assert_eq!(
            changed_rows(&summary),
            " (left out: 7 not in the sample; 2 sessions left out, with a turn longer than `max_input`; 1 session ended before a turn longer \
             than `max_input`)"
        );
        assert_eq!(recorded_pauses(&DatasetSummary::default()), "");
    }

    #[test]
    fn the_temperature_of_requests_is_stated() {
        let model = crate::run::fixture::serving::small();
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        let text = |work: &ServingWork| RequestedWork::new(work).temperature.expect("it has output tokens");
        assert_eq!(text(&work), "temperature 0");
        work.body.insert("temperature".to_owned(), "0.7".to_owned());
        assert_eq!(text(&work), "temperature 0.7");
        work.extra_body.insert("temperature".to_owned(), serde_json::Value::Null);
        assert_eq!(text(&work), "temperature of the endpoint");
    }

    #[test]
    fn a_length_that_the_model_may_not_reach_is_a_limit() {
        let model = crate::run::fixture::serving::small();
        let work = model.plan.workloads[0].serving.clone().expect("it serves");
        let inexact = ServingWork { exact_output: false, ..work.clone() };
        assert_eq!(lengths(&work), "tokens log-normal (480, 240) in, 128 out");
        assert_eq!(lengths(&inexact), "tokens log-normal (480, 240) in, at most 128 out");
    }

    #[test]
    fn the_tokens_of_a_chat_template_are_stated() {
        let model = crate::run::fixture::serving::small();
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        let artifact = Artifact {
            name: "workloads/chat/files/m/tokenizer_config.json".to_owned(),
            digest: Digest::compute(b"config"),
            size: Count(6),
            media_type: "application/octet-stream".to_owned(),
        };
        let path = "m/tokenizer_config.json".to_owned();
        let config = PinnedFile { origin: format!("workloads/chat/{path}"), path, executable: false, artifact };
        let template = ChatTemplate { usage: TemplateUse::Apply, config: Some(config), file: None, tokens: 14 };
        work.tokenizer.template = Some(template.clone());
        let text = |work: &ServingWork| RequestedWork::new(work).lengths;
        let drawn = "tokens log-normal (480, 240) in (at least 15; 14 of the chat template, which the client applies), 128 out";
        assert_eq!(text(&work), drawn);
        work.tokenizer.template = Some(ChatTemplate { usage: TemplateUse::Count, ..template });
        assert_eq!(text(&work), drawn.replace("client", "endpoint"));
        let of =
            |input| text(&ServingWork { prompts: PromptSource::Synthetic { input, query: None, prefix: None }, ..work.clone() });
        let stated = "of the chat template, which the endpoint applies), 128 out";
        assert_eq!(of(LengthLaw::Fixed { tokens: 15 }), format!("tokens 15 in (14 {stated}"));
        assert_eq!(of(LengthLaw::Fixed { tokens: 5 }), format!("tokens 15 in (5 were requested; 14 {stated}"), "what was sent");
        assert_eq!(of(LengthLaw::Uniform { min: 15, max: 20 }), format!("tokens 15 to 20 in (14 {stated}"));
        assert_eq!(of(LengthLaw::Uniform { min: 14, max: 20 }), format!("tokens 14 to 20 in (at least 15; 14 {stated}"));
        let think_time = PauseLaw::Fixed { ns: Count(0) };
        let (history, reasoning) = (History::Recorded, ReasoningHistory::Drop);
        let turns = Some(LengthLaw::Fixed { tokens: 3 });
        work.sessions = Some(Sessions { turns, think_time, history, reasoning, count: None, play: SessionPlay::default() });
        let expected = "tokens log-normal (480, 240) in with the chat template, which the endpoint applies, 128 out a turn; 3 turns, without pauses, drawn history";
        assert_eq!(text(&work), expected);
    }

    #[test]
    fn sessions_are_stated_with_their_turns_pauses_and_history() {
        let model = crate::run::fixture::serving::small();
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        let sessions = crate::run::fixture::serving::sessions();
        work.sessions = Some(sessions.clone());
        let lengths = |work: &ServingWork| RequestedWork::new(work).lengths;
        assert_eq!(lengths(&work), "tokens log-normal (480, 240) in, 128 out a turn; 2 to 8 turns, 2 s apart, drawn history");
        let (mean_ns, stddev_ns) = (Count(1_500_000_000), Count(500_000_000));
        let think_time = PauseLaw::Lognormal { mean_ns, stddev_ns };
        work.sessions = Some(Sessions {
            think_time,
            history: History::Live,
            turns: Some(LengthLaw::Fixed { tokens: 1 }),
            ..sessions.clone()
        });
        assert_eq!(
            lengths(&work),
            "tokens log-normal (480, 240) in, 128 out a turn; 1 turn, 1.5 s apart on average (log-normal, standard deviation 0.5 s), live history"
        );
        let summary = DatasetSummary {
            read: Count(6),
            without_prompt: Count(2),
            truncated: Count(1),
            rows: Count(10),
            sessions: Some(Count(4)),
            ..DatasetSummary::default()
        };
        work.prompts = crate::run::fixture::serving::dataset(summary);
        work.sessions = Some(Sessions { turns: None, ..sessions });
        assert_eq!(
            lengths(&work),
            "10 turns of 4 conversations of data/prompts.jsonl (2 of 6 conversations left out: 2 without a prompt; 1 conversation ended before a turn longer than `max_input`), tokens 0 in and 4 of the salt, 128 out; turns 2 s apart, recorded history"
        );
        work.sessions.as_mut().expect("sessions").history = History::Live;
        let live = lengths(&work);
        let stated = "tokens 0 in and 4 of the salt with the recorded responses (live ones were sent), 128 out; turns 2 s apart, live history";
        assert!(live.ends_with(stated), "{live}");
    }

    #[test]
    fn a_trace_without_blocks_is_stated_with_the_members_that_are_not_read() {
        let mut work = crate::run::fixture::serving::small().plan.workloads[0].serving.clone().expect("it serves");
        let mut lengths = |format, summary: DatasetSummary| {
            work.prompts = crate::run::fixture::serving::dataset(DatasetSummary { rows: Count(10), ..summary });
            if let PromptSource::Dataset(dataset) = &mut work.prompts {
                dataset.format = format;
            }
            RequestedWork::new(&work).lengths
        };
        let unread =
            |names: &[&str]| Some(UnreadMembers { rows: Count(9), names: names.iter().map(|name| (*name).to_owned()).collect() });
        let misspelt = DatasetSummary { unread: unread(&["hash_id"]), ..DatasetSummary::default() };
        insta::assert_snapshot!(lengths(DatasetFormat::Mooncake, misspelt.clone()), @"10 prompts of data/prompts.jsonl, tokens 0 in, 128 out; no row has `hash_ids`, so that no prompts begin alike; 9 of its rows have members that are not read: `hash_id`");
        let with_blocks = DatasetSummary { blocks: Some(assay_manifest::BlockSummary::default()), ..DatasetSummary::default() };
        assert!(!lengths(DatasetFormat::Mooncake, with_blocks).contains("hash_ids"));
        assert!(!lengths(DatasetFormat::Azure, DatasetSummary::default()).contains("hash_ids"), "a format without blocks");
        let texts = DatasetSummary { unread: unread(&[]), ..DatasetSummary::default() };
        assert!(lengths(DatasetFormat::Azure, texts).ends_with("members that are not read: names that look like texts"));
        let hostile = DatasetSummary { unread: unread(&["\u{1b}[31m"]), ..DatasetSummary::default() };
        assert!(!lengths(DatasetFormat::Azure, hostile).contains('\u{1b}'));
    }

    #[test]
    fn the_part_of_a_file_that_a_trial_sends_is_stated_beside_the_numbers_of_all() {
        let mut work = crate::run::fixture::serving::small().plan.workloads[0].serving.clone().expect("it serves");
        let mut lengths = |summary: DatasetSummary, requests: Option<u64>, sessions: Option<u64>, duration_ns| {
            work.prompts = crate::run::fixture::serving::dataset(DatasetSummary { rows: Count(12), ..summary });
            (work.requests, work.duration_ns, work.cache) = (requests.map(Count), duration_ns, CacheMode::Warm);
            let is_replay = work.prompts.dataset().is_some_and(|dataset| dataset.summary.times.is_some()) && sessions.is_none();
            work.arrival = if is_replay { ArrivalLaw::Recorded } else { ArrivalLaw::Closed };
            work.sessions = sessions.map(|count| Sessions {
                turns: None,
                count: Some(Count(count)),
                ..crate::run::fixture::serving::sessions()
            });
            RequestedWork::new(&work).lengths.split(" in, ").next().expect("text").to_owned()
        };
        let trace = || DatasetSummary { times: Some(TraceTimes::default()), ..DatasetSummary::default() };
        let of_sessions = || DatasetSummary { sessions: Some(Count(3)), ..trace() };
        let file = "data/prompts.jsonl";
        let part = format!("12 requests of {file}, of which a trial measures 5; of all of them, tokens 0");
        assert_eq!(lengths(trace(), Some(5), None, None), part);
        let at_most = format!("12 prompts of {file}, of which a trial measures at most 5; of all of them, tokens 0");
        assert_eq!(lengths(DatasetSummary::default(), Some(5), None, Some(Count(1))), at_most);
        assert_eq!(lengths(trace(), Some(12), None, None), format!("12 requests of {file}, tokens 0"));
        assert_eq!(lengths(trace(), None, None, None), format!("12 requests of {file}, tokens 0"));
        let due =
            format!("12 requests of {file}, of which a trial measures what is due within its 0.5 s; of all of them, tokens 0");
        assert_eq!(lengths(trace(), None, None, Some(Count(500_000_000))), due);
        let played = format!("12 turns of 3 sessions of {file}, of which a trial plays 2 sessions; of all of them, tokens 0");
        assert_eq!(lengths(of_sessions(), None, Some(2), None), played);
        let conversations = DatasetSummary { sessions: Some(Count(3)), ..DatasetSummary::default() };
        assert!(lengths(conversations, None, Some(1), None).contains("plays 1 conversation; of all"));
        assert_eq!(lengths(of_sessions(), None, Some(3), None), format!("12 turns of 3 sessions of {file}, tokens 0"));
    }

    #[test]
    fn lengths_that_are_recorded_are_stated_with_their_limit() {
        let mut work = crate::run::fixture::serving::small().plan.workloads[0].serving.clone().expect("it serves");
        (work.output, work.cache) = (None, CacheMode::Warm);
        // The lengths are those of an import with this limit.
        let mut out = |recorded: Option<(u64, u32, u32)>, most: Option<u32>| {
            let (recorded_outputs, range) =
                recorded.map_or((0, None), |(rows, least, most)| (rows, Some(TokenRange { least, most, sum: Count(0) })));
            let (recorded_outputs, output_tokens) = (Count(recorded_outputs), range);
            let summary = DatasetSummary { rows: Count(2), recorded_outputs, output_tokens, ..DatasetSummary::default() };
            work.prompts = crate::run::fixture::serving::dataset(summary);
            if let PromptSource::Dataset(dataset) = &mut work.prompts {
                dataset.max_output_tokens = most;
            }
            RequestedWork::new(&work).lengths.split_once("tokens 0 in, ").expect("output").1.to_owned()
        };
        assert_eq!(out(Some((2, 4, 5)), None), "4 to 5 out as recorded");
        assert_eq!(out(Some((2, 4, 5)), Some(6)), "4 to 5 out as recorded", "no row records more");
        assert_eq!(out(Some((2, 3, 3)), Some(3)), "3 out: as recorded, but at most 3");
        assert_eq!(out(Some((2, 1, 3)), Some(3)), "1 to 3 out: as recorded, but at most 3");
        assert_eq!(out(Some((1, 5, 5)), None), "5 out as recorded for 1 of them, else as the endpoint decides");
        assert_eq!(out(Some((1, 5, 5)), Some(9)), "5 out as recorded for 1 of them, else as the endpoint decides, but at most 9");
        let limited = "5 out: as recorded, but at most 5, for 1 of them, else as the endpoint decides, but at most 5";
        assert_eq!(out(Some((1, 5, 5)), Some(5)), limited);
        assert_eq!(out(None, None), "out as the endpoint decides");
        assert_eq!(out(None, Some(4)), "out as the endpoint decides, but at most 4");
        work.api = assay_manifest::ServingApi::Embeddings;
        assert_eq!(recorded_lengths(&work, work.prompts.dataset().expect("a dataset")), "", "it has no output tokens");
    }

    #[test]
    fn the_prompts_of_a_dataset_are_stated_with_the_rows_that_are_not_sent() {
        let model = crate::run::fixture::serving::small();
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        let summary = DatasetSummary { read: Count(20), rows: Count(10), too_long: Count(10), ..DatasetSummary::default() };
        work.prompts = crate::run::fixture::serving::dataset(summary);
        assert_eq!(
            RequestedWork::new(&work).lengths,
            "10 prompts of data/prompts.jsonl (10 of 20 rows left out: 10 longer than `max_input`), tokens 0 in and 4 of the salt, 128 out"
        );
        let ids = ServingWork { token_ids: Some(TokenIds::Range { least: 100, most: 31_999 }), ..work.clone() };
        assert!(RequestedWork::new(&ids).lengths.contains("tokens 0 in as token ids from 100 to 31999"));
        assert_eq!(
            kind_of_text(&ServingWork { token_ids: Some(TokenIds::Tokenizer), ..work.clone() }),
            " as token ids of the tokenizer's words"
        );
        // Words of blocks are others with another salt, and a cache that is not salted leaves rows as they are.
        assert_eq!(salt(&work, DatasetFormat::Mooncake), "");
        assert_eq!(salt(&ServingWork { cache: CacheMode::Warm, ..work }, DatasetFormat::Jsonl), "");
    }
}
