//! The targets.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use assay_api::{ReceivedRequest, ServingApi, TextSink};
use assay_cluster::read_service;
use assay_dataset::{
    Fields, ImportRules, Index, RecordedOutput, RowWriter, TextTokens, TimeRules, import, import_parquet_row, parquet_columns,
};
use assay_envelope::{Bundle, PublicKey, Statement, check_bundle, check_timestamp};
use assay_foreign::{ImportOptions, ResultFile, Source, read_results};
use assay_git::parse_commit;
use assay_load::sse::{MAX_EVENT_BYTES, Stream};
use assay_load::{Arrivals, Capture, ChunkLists, Connections, Endpoint, EndpointPaths, MeasuredLimits, Trial};
use assay_manifest::{
    Address, CaseId, CpuList, DatasetFormat, Digest, Document, HarnessFormat, Instant, MessageRole, Name, OverLongPrompt,
    PointId, RunId, TemplateUse, TrialId,
};
use assay_simulator::Fault;
use assay_spec::{Definition, Pack, Scenario, parse_objects};
use assay_stage::AcceptedResult;
use assay_telemetry::counters;
use assay_telemetry::prometheus::{evaluate, parse_series, parse_time};
use assay_tokens::{TemplateFiles, Tokenizer};
use assay_warehouse::records::RecordFile;
use assay_warehouse::{ObjectError, ObjectLimits, TABLES, for_each_object};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::simple::{SimpleDocument, SimpleEvent, SimpleStream, SimpleUsage, read_document, read_stream};

/// A parser, as a function of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Parses the bytes. It returns for every input; a panic is a fault.
    pub run: fn(&[u8]),
}

/// All targets, in the order of their names.
pub const TARGETS: &[Target] = &[
    Target { name: "bundle", run: bundle },
    Target { name: "commit", run: commit },
    Target { name: "curated", run: curated },
    Target { name: "dataset", run: dataset },
    Target { name: "definition", run: definition },
    Target { name: "document", run: document },
    Target { name: "events", run: events },
    Target { name: "exposition", run: exposition },
    Target { name: "foreign", run: foreign },
    Target { name: "indicator", run: indicator },
    Target { name: "key", run: key },
    Target { name: "manifest", run: manifest },
    Target { name: "objects", run: objects },
    Target { name: "parquet", run: parquet },
    Target { name: "pointer", run: pointer },
    Target { name: "prometheus", run: prometheus },
    Target { name: "query_pack", run: query_pack },
    Target { name: "records", run: records },
    Target { name: "request", run: request },
    Target { name: "response", run: response },
    Target { name: "results", run: results },
    Target { name: "service", run: service },
    Target { name: "stream", run: stream },
    Target { name: "timestamp", run: timestamp },
    Target { name: "tokenizer", run: tokenizer },
    Target { name: "words", run: words },
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// A Sigstore bundle, as Assay's own and as a foreign one, and the statement in it.
fn bundle(bytes: &[u8]) {
    if let Ok(bundle) = Bundle::parse(bytes) {
        let _ = Statement::parse(&bundle.envelope.payload);
    }
    let _ = Statement::parse(bytes);
    let _ = check_bundle(bytes, &KEY, Digest::compute(b"file"));
}

/// A commit of Git.
fn commit(bytes: &[u8]) {
    let _ = parse_commit(bytes);
}

/// A curated Parquet file. The first byte chooses the table.
fn curated(bytes: &[u8]) {
    let Some((first, file)) = bytes.split_first() else { return };
    let Some(table) = TABLES.get(usize::from(*first) % TABLES.len()) else { return };
    let _ = assay_warehouse::read(table, file.to_vec());
}

/// A dataset or trace, and an index. The first byte chooses the format and the rules. What is written has an index that can be read.
fn dataset(bytes: &[u8]) {
    let _ = Index::parse(bytes);
    let Some((first, file)) = bytes.split_first() else { return };
    let place = usize::from(*first);
    let times = TimeRules {
        from_ns: if place >= 64 { 1_000_000 } else { 0 },
        to_ns: (place >= 96).then_some(2_000_000_000),
        max_gap_ns: (place >= 160).then_some(1_000),
        max_tool_ns: (place >= 224).then_some(500),
        sample: (place >= 192).then_some(0.5),
    };
    let formats: Vec<_> = DatasetFormat::ALL.iter().filter(|format| **format != DatasetFormat::Parquet).collect();
    let Some(format) = formats.get(place % formats.len()).copied() else { return };
    let over = [OverLongPrompt::Refuse, OverLongPrompt::Truncate, OverLongPrompt::Skip][place / 8 % 3];
    let rules = |sessions| ImportRules {
        api: ServingApi::Chat,
        max_input: (place >= 32).then_some(3),
        over,
        output: RecordedOutput::Used { at_most: (place >= 128).then_some(2) },
        times: format.has_times().then_some(times),
        sessions,
        template: None,
    };
    for sessions in [false, true] {
        import_rows(*format, &rules(sessions), &Words(&WORDS), file);
        if !format.has_times() {
            let template = Some(TemplateUse::Apply);
            let rules = ImportRules { api: ServingApi::Completions, template, ..rules(sessions) };
            import_rows(*format, &rules, &Words(&FRAMED_WORDS), file);
        }
    }
}

/// Imports a file, and checks what is written.
fn import_rows(format: DatasetFormat, rules: &ImportRules, tokens: &Words, file: &[u8]) {
    let Ok(mut writer) = RowWriter::new(*rules, tokens, Vec::new(), Vec::new()) else { return };
    let imported = import(format, &Fields::default(), rules, file, &mut |row, content| writer.write(row, content));
    if imported.is_err() {
        return;
    }
    let Ok((rows, index, summary)) = writer.finish() else { return };
    let index = Index::parse(&index).expect("a written index is read");
    assert_eq!(index.len(), summary.rows.0);
    assert_eq!(index.rows().map(|row| u64::from(row.bytes) + 1).sum::<u64>(), rows.len() as u64);
    if rules.sessions {
        assert_eq!(summary.sessions.map(|sessions| sessions.0), Some(index.sessions().count() as u64));
    } else {
        assert_eq!(index.sessions().count() as u64, index.len(), "without sessions, no row continues another");
    }
    assert!(index.rows().all(|row| row.reused_tokens <= row.input_tokens), "no prompt has more of an earlier one than itself");
    if let (Some(max), true) = (rules.max_input, rules.over != OverLongPrompt::Refuse) {
        assert!(index.rows().all(|row| row.input_tokens <= max), "no prompt is longer than allowed");
    }
}

static WORDS: LazyLock<Tokenizer> = LazyLock::new(Tokenizer::built_in);

/// The built-in tokenizer with a chat template.
static FRAMED_WORDS: LazyLock<Tokenizer> = LazyLock::new(|| {
    let files = TemplateFiles { config: None, template: Some(TEMPLATE.as_bytes()) };
    Tokenizer::built_in().with_template(&files, TemplateUse::Apply).expect("a template")
});

/// A chat template that takes whole conversations.
const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}> {{ m.content | trim }} <end> {% endfor %}{% if add_generation_prompt %}<assistant> {% endif %}";

/// The built-in tokenizer, with or without a template.
struct Words(&'static Tokenizer);

impl TextTokens for Words {
    fn count(&self, text: &str) -> Result<u64, String> {
        self.0.count(text).map_err(|error| error.to_string())
    }

    fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, String> {
        self.0.truncate(text, tokens).map_err(|error| error.to_string())
    }

    fn in_template(&self, before: Option<MessageRole>, messages: &[(MessageRole, &str)]) -> Option<Result<String, String>> {
        Some(self.0.in_template(before, messages)?.map_err(|error| error.to_string()))
    }

    fn end_of_prompts(&self) -> &str {
        self.0.end_of_prompts()
    }
}

/// A workload, pipeline, trust policy or other definition in YAML.
fn definition(bytes: &[u8]) {
    let _ = Definition::parse("file.yaml", bytes);
}

/// The document of a response to a chat or a completion, which the first byte chooses. Its fields are those that a simple reader finds.
fn document(bytes: &[u8]) {
    let Some((first, document)) = bytes.split_first() else { return };
    let api = if first % 2 == 0 { ServingApi::Chat } else { ServingApi::Completions };
    let (mut content, mut reasoning, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut keep = TextSink::Apart { content: &mut content, reasoning: &mut reasoning, all: &mut TextSink::Text(&mut all) };
    let parsed = api.parse_response(document, &mut keep);
    if let Ok(response) = &parsed {
        let sizes = [content.len(), reasoning.len(), all.len()];
        assert_eq!(sizes, [response.content, response.reasoning, response.bytes()], "each text is passed on once");
        assert!(std::str::from_utf8(&all).is_ok(), "text is UTF-8");
    }
    let expected = match read_document(document) {
        SimpleDocument::Refused => return assert!(parsed.is_err(), "it is not a response"),
        SimpleDocument::Ambiguous => return,
        SimpleDocument::Response(expected) => expected,
    };
    let response = parsed.unwrap_or_else(|reason| panic!("a response is refused: {reason}"));
    assert_eq!([&*content, &reasoning], [expected.content.as_bytes(), expected.reasoning.as_bytes()]);
    assert!(expected.tool.is_none_or(|tool| tool == response.tool), "the text of tool calls");
    assert_eq!(response.finish.map(|finish| finish.decoded().into_owned()), expected.finish.map(String::into_bytes));
    assert_eq!(response.error.is_some(), expected.has_error);
    let usage = response.usage;
    let usage = SimpleUsage {
        prompt: usage.prompt,
        completion: usage.completion,
        cached: usage.cached,
        reasoning: usage.reasoning,
        accepted: usage.accepted,
        invalid: usage.invalid,
        claimed: usage.claimed,
    };
    assert_eq!(usage, expected.usage);
}

/// A stream of server-sent events. The first byte chooses how it is cut into pieces. Its events are those that a simple reader of the whole stream
/// finds, however it is cut.
fn events(bytes: &[u8]) {
    let Some((cuts, stream)) = bytes.split_first() else { return };
    compare_events(stream, *cuts);
}

fn compare_events(stream: &[u8], cuts: u8) {
    let expected = read_stream(stream, MAX_EVENT_BYTES);
    assert_eq!(read_pieces([stream]), expected, "in one piece");
    for cuts in [cuts, cuts.wrapping_mul(31).wrapping_add(7)] {
        assert_eq!(read_pieces(pieces(stream, cuts)), expected, "cut by {cuts}");
    }
}

/// Reads a stream in pieces, up to its end or to what is too long.
fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> SimpleStream {
    let (mut stream, mut events) = (Stream::default(), Vec::new());
    let is_too_long = pieces.into_iter().any(|piece| {
        let taken = stream.take(piece, |event| {
            events.push(SimpleEvent { data: event.data.to_vec(), is_error: event.is_error });
            ControlFlow::<()>::Continue(())
        });
        taken.is_err()
    });
    SimpleStream { events, is_too_long }
}

/// Returns the bytes in pieces of different lengths, drawn by a number: each is as likely to have about as many bytes as any power of two, up to
/// one that the number chooses. The number 0 cuts into single bytes.
fn pieces(bytes: &[u8], number: u8) -> Vec<&[u8]> {
    let (mut pieces, mut rest, mut state) = (Vec::new(), bytes, u64::from(number));
    while !rest.is_empty() {
        // The generator of Knuth's MMIX, whose high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let longest = 1 << ((state >> 60) % (u64::from(number) % 16 + 1));
        let length = 1 + (state >> 33) as usize % longest;
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// A page of metrics in Prometheus' text format.
fn exposition(bytes: &[u8]) {
    let _ = counters(&String::from_utf8_lossy(bytes));
}

/// A response of the HTTP API of Prometheus, and the rows of its series.
fn prometheus(bytes: &[u8]) {
    let body = String::from_utf8_lossy(bytes);
    let _ = parse_time(&body);
    let Ok(response) = parse_series(&body) else { return };
    let window = (Instant::from_unix_ns(0), Instant::from_unix_ns(i64::MAX));
    for query in Pack::built_in("node").iter().flat_map(|pack| &pack.queries) {
        let evaluated = evaluate(query, window, response.series.clone());
        assert!(
            evaluated.rows.iter().all(|row| row.statistics.values.is_none() || row.statistics.n > 1),
            "one sample is no value"
        );
    }
}

/// A query pack.
fn query_pack(bytes: &[u8]) {
    let _ = Pack::parse("packs/own.yaml", bytes);
}

/// The output of an indicator, or of a harness that it runs.
fn indicator(bytes: &[u8]) {
    let _ = assay_indicator::parse(bytes);
    for format in HarnessFormat::ALL {
        let _ = assay_foreign::harness::read(*format, bytes);
    }
}

/// A public key in PEM.
fn key(bytes: &[u8]) {
    let _ = PublicKey::from_pem(&String::from_utf8_lossy(bytes));
}

/// A manifest. What is accepted is its own canonical form.
fn manifest(bytes: &[u8]) {
    if let Ok(document) = Document::parse(bytes) {
        assert_eq!(document.to_bytes().ok().as_deref(), Some(bytes), "an accepted manifest is canonical");
    }
}

/// A definition of another tool: a file, and a command line of one word a line. What is written is valid.
fn foreign(bytes: &[u8]) {
    let options = ImportOptions::default();
    let _ = assay_foreign::import(&Source::File { name: "file.yaml", bytes }, &options);
    let words: Vec<String> = String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    let _ = assay_foreign::import(&Source::Command(&words), &options);
}

/// Results of another tool: a file, and each of the first parts of it that an empty line separates. What is read has finite numbers, and is
/// read again alike.
fn results(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parts: Vec<&str> = text.split("\n\n").take(4).collect();
    let files: Vec<ResultFile<'_>> =
        parts.iter().map(|part| ResultFile { path: "folder/file", bytes: part.as_bytes() }).collect();
    for files in [&[ResultFile { path: "file", bytes }][..], &files] {
        let Ok(results) = read_results(files) else { continue };
        assert!(results.rows.iter().all(|row| row.value.is_finite()), "a number is finite");
        let again = read_results(files).expect("it was read before");
        assert!(again.rows == results.rows && again.samples == results.samples, "the same files state the same");
    }
}

/// Kubernetes objects in YAML.
fn objects(bytes: &[u8]) {
    let _ = parse_objects("file.yaml", bytes);
}

/// A dataset in Parquet, with small limits of its rows.
fn parquet(bytes: &[u8]) {
    let limits = ObjectLimits { bytes: 4_096, values: 64 };
    let fields = Fields { output_tokens: Some("usage.tokens".to_owned()), ..Fields::default() };
    for sessions in [false, true] {
        let rules = ImportRules { sessions, ..ImportRules::UNLIMITED };
        let tokens = Words(&WORDS);
        let Ok(mut writer) = RowWriter::new(rules, &tokens, Vec::new(), Vec::new()) else { return };
        let mut visit = |row, object: serde_json::Map<_, _>| {
            assert!(object.len() <= parquet_columns(&fields).len() + 8, "only wanted columns, and the names of some others");
            // What is not a prompt for one reading may be one for the other: no row ends the file.
            for fields in [&fields, &Fields::default()] {
                if let Ok(content) = import_parquet_row(fields, &rules, row, object.clone()) {
                    let _ = writer.write(row, content);
                }
            }
            Ok::<(), ObjectError>(())
        };
        let _ = for_each_object(bytes.to_vec(), &parquet_columns(&fields), limits, &mut visit);
    }
}

/// A pointer of a store.
fn pointer(bytes: &[u8]) {
    let _ = AcceptedResult::parse("runs/r/plan.json", bytes);
}

/// A file of raw records.
fn records(bytes: &[u8]) {
    let Ok(file) = RecordFile::open(bytes.to_vec()) else { return };
    let Ok(records) = file.records() else { return };
    records.take_while(Result::is_ok).for_each(drop);
}

/// The body of a request that an endpoint receives. The first byte chooses the API.
fn request(bytes: &[u8]) {
    struct Unread;
    impl assay_api::InputReader for Unread {
        fn role(&mut self, _: &str) {}
        fn text(&mut self, _: &str) {}
        fn token(&mut self, _: u64) {}
    }
    let Some((api, body)) = with_api(bytes) else { return };
    if let Ok(request) = ReceivedRequest::parse(body) {
        let _ = api.read_inputs(&request, &mut Unread);
    }
}

/// The body of a whole response, or the data of one event of a stream. The first byte chooses the API.
fn response(bytes: &[u8]) {
    let Some((api, body)) = with_api(bytes) else { return };
    let mut text = Vec::new();
    let _ = api.parse_response(body, &mut TextSink::Text(&mut text));
    let _ = api.parse_response(body, &mut TextSink::Discard);
}

/// The state of an inference service, as a cluster tells it.
fn service(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice(bytes) {
        let _ = read_service(&value);
    }
}

/// A streamed response with its head, in pieces. The first byte chooses the API, the second the lengths of the pieces. What is found does not
/// depend on the pieces.
fn stream(bytes: &[u8]) {
    let Some((api, rest)) = with_api(bytes) else { return };
    let Some((piece, wire)) = rest.split_first() else { return };
    let trial = Trial { api, ..TRIAL.clone() };
    let whole = assay_load::parse::record_of(&trial, wire, wire.len());
    let pieces = assay_load::parse::record_of(&trial, wire, usize::from(*piece));
    assert_eq!(whole, pieces, "what is found depends on the pieces");
    let cut = assay_load::parse::record_of_pieces(&trial, self::pieces(wire, *piece));
    assert_eq!(whole, cut, "what is found depends on the pieces");
}

/// The response of a time-stamping authority (RFC 3161).
fn timestamp(bytes: &[u8]) {
    let _ = check_timestamp(bytes, b"signature", &[]);
}

/// A `tokenizer.json`, a vocabulary of tiktoken, a pattern and a chat template, and a text with each.
fn tokenizer(bytes: &[u8]) {
    let texts = |tokenizer: &Tokenizer| {
        let _ = tokenizer.count("The text of a prompt, with 3 numbers and a sign: é.");
        let _ = tokenizer.truncate("The text of a prompt, with 3 numbers and a sign: é.", 5);
        let _ = tokenizer.prompt(1, Some(2), 8);
    };
    if let Ok(tokenizer) = Tokenizer::from_file(bytes) {
        texts(&tokenizer);
    }
    if let Ok(tokenizer) = Tokenizer::from_tiktoken(bytes, "o200k_base") {
        texts(&tokenizer);
    }
    if let Some(pattern) = std::str::from_utf8(bytes).ok().filter(|pattern| pattern.len() <= MAX_PATTERN_BYTES)
        && let Ok(tokenizer) = Tokenizer::from_tiktoken(BYTE_TOKENS.as_bytes(), pattern)
    {
        let _ = tokenizer.count("The text of a prompt, with 3 numbers and a sign: é.");
    }
    for files in [
        TemplateFiles { config: Some(bytes), template: None },
        TemplateFiles { config: Some(b"{\"bos_token\": \"<s>\"}"), template: Some(bytes) },
    ] {
        if let Ok(tokenizer) = Tokenizer::built_in().with_template(&files, TemplateUse::Apply) {
            texts(&tokenizer);
            conversation(&tokenizer);
        }
    }
}

/// Puts the template around a conversation, at once and turn by turn.
fn conversation(tokenizer: &Tokenizer) {
    use MessageRole::{Assistant, System, User};
    let _ = tokenizer.later_message(1, 8);
    let whole =
        [(System, "be brief"), (User, " a question\n"), (Assistant, "<think>why</think>\n\nan answer"), (User, "another")];
    for messages in [&whole[..], &whole[1..], &whole[1..2]] {
        let Some(Ok(applied)) = tokenizer.applied(messages) else { continue };
        let (said, added) = messages.split_at(messages.len() / 2);
        let parts = [(None, said), (said.last().map(|(role, _)| *role), added)];
        let parts =
            parts.map(|(before, messages)| tokenizer.in_template(before, messages).expect("a template").expect("a part of it"));
        assert_eq!(applied, parts.concat() + tokenizer.end_of_prompts(), "turns are parts of the whole");
    }
}

/// The longest pattern that a workload may have.
const MAX_PATTERN_BYTES: usize = 2_000;

/// A vocabulary of tiktoken: the bytes.
static BYTE_TOKENS: LazyLock<String> =
    LazyLock::new(|| (0..=u8::MAX).map(|byte| format!("{} {byte}\n", STANDARD.encode([byte]))).collect::<Vec<_>>().concat());

/// Every short text that stands for something: names, addresses, digests, times, lists. What is accepted is read again from what it
/// writes.
fn words(bytes: &[u8]) {
    fn read<T: std::str::FromStr + ToString + PartialEq>(text: &str) {
        let Ok(value) = text.parse::<T>() else { return };
        assert!(value.to_string().parse::<T>().is_ok_and(|again| again == value), "`{text}` is read otherwise again");
    }
    let text = &*String::from_utf8_lossy(bytes);
    read::<Address>(text);
    read::<CaseId>(text);
    read::<CpuList>(text);
    read::<Digest>(text);
    read::<Instant>(text);
    read::<Name>(text);
    read::<PointId>(text);
    read::<RunId>(text);
    read::<Scenario>(text);
    read::<TrialId>(text);
    let _ = text.parse::<Fault>();
    let _ = Endpoint::parse(text);
    let _ = EndpointPaths::parse(text);
    let _ = assay_probe::endpoint_url(text, "/v1/models");
}

/// Returns the API that the first byte chooses, and the rest.
fn with_api(bytes: &[u8]) -> Option<(ServingApi, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    Some((*ServingApi::ALL.get(usize::from(*first) % ServingApi::ALL.len())?, rest))
}

static KEY: LazyLock<PublicKey> = LazyLock::new(|| {
    let pem = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
";
    PublicKey::from_pem(pem).expect("the generator of the curve is a key")
});

static TRIAL: LazyLock<Trial> = LazyLock::new(|| Trial {
    endpoint: Endpoint::parse("http://127.0.0.1:9").and_then(Endpoint::resolve).expect("an endpoint"),
    api: ServingApi::Chat,
    custom: None,
    streaming: true,
    arrivals: Arrivals::Closed { users: 1 },
    start_at_ns: 0,
    warmup_ns: 0,
    measured: MeasuredLimits::default(),
    late_read_ns: 25_000_000,
    over_saturation: None,
    stop_on_errors: None,
    sessions: None,
    connections: Connections::Pooled,
    timeout_ns: i64::MAX,
    drain_ns: i64::MAX,
    chunk_lists: ChunkLists::All,
    capture: Capture::Full,
    user_agent: "assay".to_owned(),
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Corpus;

    #[test]
    fn every_kept_input_is_survived() {
        for target in TARGETS {
            let text =
                std::fs::read_to_string(Corpus::path(target.name)).unwrap_or_else(|error| panic!("{}: {error}", target.name));
            let corpus = Corpus::parse(&text).unwrap_or_else(|error| panic!("{}: {error:?}", target.name));
            assert_eq!(corpus.to_text(), text, "{}: each input once, in order", target.name);
            assert!(corpus.inputs().count() > 1, "{}: nothing is replayed", target.name);
            corpus.inputs().for_each(target.run);
        }
    }

    /// The inputs of a target are too short for the limit.
    #[test]
    fn a_stream_is_too_long_at_the_same_place_however_it_is_cut() {
        let line = |bytes: usize| [b"data:a\n\ndata:".as_slice(), &vec![b'x'; bytes - 5], b"\n\ndata:b\n\n"].concat();
        let lines = |count: usize| [b"data:a\n\n".to_vec(), line(MAX_EVENT_BYTES / 2).repeat(count), b"\n\n".to_vec()].concat();
        let parts = |count: usize| {
            let part = [b"data:".as_slice(), &[b'x'; 1_000], b"\n"].concat();
            [b"data:a\n\n".to_vec(), part.repeat(count), b"\n".to_vec()].concat()
        };
        let whole = [line(MAX_EVENT_BYTES), lines(3), parts(MAX_EVENT_BYTES / 1_001)];
        let too_long = [line(MAX_EVENT_BYTES + 1), parts(MAX_EVENT_BYTES / 1_001 + 1), vec![b'x'; MAX_EVENT_BYTES + 1]];
        for (streams, is_too_long) in [(whole, false), (too_long, true)] {
            for stream in streams {
                assert_eq!(read_stream(&stream, MAX_EVENT_BYTES).is_too_long, is_too_long);
                for cuts in [13, 14, 15] {
                    compare_events(&stream, cuts);
                }
            }
        }
    }

    #[test]
    fn targets_are_in_the_order_of_their_names_and_every_corpus_has_one() {
        assert!(TARGETS.is_sorted_by(|one, next| one.name < next.name));
        let folder = Corpus::path("any").parent().expect("a folder").read_dir().expect("the corpora");
        for file in folder.map(|entry| entry.expect("an entry").file_name()) {
            let name = file.to_string_lossy().trim_end_matches(".jsonl").to_owned();
            assert!(target(&name).is_some(), "`{name}` is a corpus without a target");
        }
    }
}
