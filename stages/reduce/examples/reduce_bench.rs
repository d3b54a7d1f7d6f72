//! The cost of reduce on records that a small generator writes: `cargo run --release -p assay-reduce --example reduce_bench --
//! FOLDER [RECORDS [STREAMS]]`.
//!
//! Writes `requests.parquet` (10 million records without chunk lists) and `streams.parquet` (200,000 records of 128 chunks), then
//! times the check against the schedule and both passes over each. `reduce_duckdb.py` beside it computes the same quantiles of
//! the same files with DuckDB.

#![expect(clippy::print_stdout, reason = "an example that reports figures")]

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};

use assay_manifest::{Count, Digest, Point, ServingWork};
use assay_record::{Chunk, Outcome, Phase, Record, TokenSource};
use assay_reduce::TrialRecords;
use assay_schedule::{Nonce, OfferedLoad, PointKey, ScheduledRequest, Seed, TrialKey, TrialSchedule};
use assay_warehouse::records::{RecordFile, RecordWriter};

const CHUNKS: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: reduce_bench FOLDER [RECORDS [STREAMS]]")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (requests, streams) = (number(10_000_000)?, number(200_000)?);
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    for (name, records, chunks) in [("requests.parquet", requests, 0), ("streams.parquet", streams, CHUNKS)] {
        let path = folder.join(name);
        write(&path, records, chunks)?;
        reduce(&path, records)?;
    }
    Ok(())
}

/// SplitMix64: good enough for numbers that only have to resemble a load.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns an exponentially distributed time with the given mean, in nanoseconds.
    fn wait(&mut self, mean_ns: f64) -> i64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (-mean_ns * (1.0 - share).ln()) as i64
    }
}

fn record(random: &mut Random, due: &ScheduledRequest, chunks: &mut Vec<Chunk>, count: usize) -> Record {
    let begun = due.global_index.cast_signed() * 1_000_000;
    let sent = begun + 20_000 + random.wait(30_000.0);
    let first = sent + 20_000_000 + random.wait(60_000_000.0);
    let tokens = if count > 0 { count as u32 } else { 64 + (random.next() % 256) as u32 };
    let mut last = first;
    chunks.clear();
    for place in 0..count {
        last += if place > 0 { 8_000_000 + random.wait(2_000_000.0) } else { 0 };
        chunks.push(Chunk { at_ns: last, bytes: 3 + (random.next() % 5) as u32, tokens: Some(1) });
    }
    if count == 0 {
        last += i64::from(tokens) * 9_000_000 + random.wait(50_000_000.0);
    }
    let failed = random.next().is_multiple_of(200);
    let if_ok = |at: i64| (!failed).then_some(at);
    Record {
        global_index: due.global_index,
        phase: Phase::Measured,
        request_id: due.request_id,
        dequeued_ns: Some(begun + 15_000),
        sent_ns: Some(sent),
        write_done_ns: Some(sent + 20_000),
        first_byte_ns: if_ok(first - 100_000),
        first_token_ns: if_ok(first),
        first_content_ns: if_ok(first),
        last_token_ns: if_ok(last),
        end_ns: Some(last + 50_000),
        outcome: if failed { Outcome::HttpError } else { Outcome::Ok },
        http_status: Some(if failed { 503 } else { 200 }),
        finish_reason: (!failed).then(|| "length".to_owned()),
        request_bytes: 4_000 + random.next() % 64,
        response_bytes: 20_000 + random.next() % 4_096,
        input_tokens_requested: Some(1_000),
        input_tokens: 1_000,
        input_tokens_endpoint: (!failed).then_some(1_003),
        output_tokens_requested: due.output_tokens,
        output_tokens: (!failed).then_some(tokens),
        output_source: TokenSource::Usage,
        first_event_tokens: (!failed && count > 0).then_some(1),
        token_events: if failed { 0 } else { tokens },
        chunks: if failed { Vec::new() } else { chunks.clone() },
        ..Record::default()
    }
}

/// A load by count.
fn work(records: u64) -> Result<ServingWork, Box<dyn Error>> {
    let work: ServingWork = serde_json::from_str(WORK)?;
    Ok(ServingWork { requests: Some(Count(records)), ..work })
}

/// The schedule that the records follow.
fn schedule(work: &ServingWork) -> Result<TrialSchedule, Box<dyn Error>> {
    let point: Point = serde_json::from_str(POINT)?;
    let (seed, workload) = (Seed::new([7; 32]), Digest::compute(b"workload"));
    let key =
        TrialKey { point: PointKey { seed: &seed, workload: &workload, point: &point.point_id }, trial: 0, nonce: Nonce::new(7) };
    Ok(TrialSchedule::new(work, OfferedLoad::from_point(&point)?, &key, None)?)
}

fn write(path: &Path, records: u64, chunks: usize) -> Result<(), Box<dyn Error>> {
    let schedule = schedule(&work(records)?)?;
    let requests = || schedule.requests(assay_schedule::Phase::Measure);
    let mut random = Random(7);
    let mut list = Vec::new();
    let begun = cpu();
    requests().for_each(|due| drop(std::hint::black_box(record(&mut random, &due, &mut list, chunks))));
    let generating = cpu().saturating_sub(begun);

    let mut random = Random(7);
    let begun = cpu();
    let mut writer = RecordWriter::new(BufWriter::new(File::create(path)?), 0, 0)?;
    for due in requests() {
        writer.write(&record(&mut random, &due, &mut list, chunks))?;
    }
    let written = writer.finish()?;
    let writing = cpu().saturating_sub(begun).saturating_sub(generating);
    let per_record = writing.as_nanos() as f64 / records as f64;
    let per_chunk = if chunks > 0 { format!(", {:.1} ns a chunk", per_record / chunks as f64) } else { String::new() };
    let size = written.bytes as f64 / records as f64;
    println!(
        "{}: {records} records, {size:.1} bytes each, written in {per_record:.0} ns of CPU each{per_chunk}; peak {} MiB",
        path.display(),
        peak_mib()
    );
    Ok(())
}

fn reduce(path: &Path, records: u64) -> Result<(), Box<dyn Error>> {
    let work = work(records)?;
    let schedule = schedule(&work)?;
    let point: Point = serde_json::from_str(POINT)?;
    let (begun, before) = (Instant::now(), cpu());
    let file = RecordFile::open(File::open(path)?)?;
    let trial = TrialRecords::new("w.t.default.one.t0".parse()?, vec![file], &work, &point);
    trial.check(&work, &schedule)?;
    let (check, check_cpu) = (begun.elapsed(), cpu().saturating_sub(before));
    let first = trial.first_pass(&work)?;
    let rates = first.rates(&work);
    let (first_pass, first_cpu) = (begun.elapsed(), cpu().saturating_sub(before));
    let quantiles = first.quantiles(&work)?;
    let (whole, whole_cpu) = (begun.elapsed(), cpu().saturating_sub(before));
    let shown = |wall: Duration, cpu: Duration| format!("{:.2} s (CPU {:.2} s)", wall.as_secs_f64(), cpu.as_secs_f64());
    println!(
        "  check {}, first pass {}, quantile pass {}, whole {}; peak {} MiB",
        shown(check, check_cpu),
        shown(first_pass.saturating_sub(check), first_cpu.saturating_sub(check_cpu)),
        shown(whole.saturating_sub(first_pass), whole_cpu.saturating_sub(first_cpu)),
        shown(whole, whole_cpu),
        peak_mib()
    );
    for (name, value) in quantiles.iter().chain(&rates) {
        match value {
            Ok((value, n)) => println!("    {name} {value} (n {n})"),
            Err(why) => println!("    {name} absent: {why}"),
        }
    }
    Ok(())
}

/// Returns the CPU time of this process so far, all threads, in steps of 10 ms: on a busy machine it says more than the wall
/// clock.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the largest resident set of this process so far.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
}

/// Load by count from many users: the pass for the window and for the time in which all users were busy is needed first.
const POINT: &str = r#"{"point_id": "one", "kind": "concurrency", "value": {"concurrency": "8192"}}"#;

const WORK: &str = r#"{
    "api": "chat", "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 1000}},
    "output": {"law": "uniform", "min": 64, "max": 319}, "exact_output": true, "continuous_usage": false, "batch": 1, "body": {}, "requests": "1",
    "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt", "streaming": true, "capture": "none",
    "slos": [{"metric": "ttft", "at_most_ns": "200000000"}, {"metric": "tpot", "at_most_ns": "12000000"}],
    "tokenizer": {"name": "common-words", "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
}"#;
