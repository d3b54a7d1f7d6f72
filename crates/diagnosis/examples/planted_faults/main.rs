//! The error rates of diagnosis on planted faults, in virtual time.
//!
//!     cargo run --release -p assay-diagnosis --example planted_faults -- [--trials TRIALS] [SET [SEEDS [CLEAN [PAIRS [FAULT...]]]]]
//!
//! SET is `development` (default) or `held-back`: other seeds, and with them other engines, loads, noise, strengths and pairs. Seeds that were used are not
//! held back any more: after a change of the rules, the set has new ones ([`score::SeedSet`]). SEEDS is the number
//! of recordings of each fault (20), CLEAN that of recordings without one (200), PAIRS that of recordings with two (100), and FAULT is a fault's rule.
//! TRIALS is the number of trials of each side (5).
//! The same arguments print the same bytes.
//!
//! The faults are planted by what they do to the parts of a system ([`conditions`], [`fault`]), and nothing here knows a rule but by its name.
//!
//! **What runs.** The engine is the simulator's, under an open or a closed loop in virtual time; outcomes are computed from its records by the table
//! of metrics; the endpoint's `/metrics` is the simulator's own, scraped each second of virtual time; all readings go through the parsers and the slices of
//! telemetry, from files in the formats of the recorder.
//!
//! **What is scripted.** The path between client and server and the client's own delays are added to the records. The counters of machines, GPUs,
//! containers and queues are drawn around the state that noise and faults give them, and written in the formats of the recorder, node_exporter, dcgm-exporter,
//! cAdvisor and Kueue. Jobs that wait for admission are a list of waits, without an engine.
//!
//! **Waits of a run's own objects** ([`scheduler`]) are those of a queue in virtual time, which the rules read from the facts that a cluster reports.

mod conditions;
mod exporters;
mod fault;
mod machines;
mod outcomes;
mod random;
mod recording;
mod report;
mod scheduler;
mod score;
mod telemetry;
mod trial;

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fault::Fault;
use crate::random::Draws;
use crate::recording::{Setup, TRIALS};
use crate::scheduler::Waiting;
use crate::score::{Scored, SeedSet, record};

/// The threads that recordings are computed on.
const THREADS: usize = 2;

/// The arguments.
struct Arguments {
    trials: usize,
    set: SeedSet,
    seeds: u32,
    clean: u32,
    pairs: u32,
    faults: Vec<Fault>,
    waits: Vec<Waiting>,
}

/// One recording to compute.
struct Job {
    kind: String,
    number: u32,
    faults: Vec<Fault>,
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let text = match parse(&words) {
        Ok(arguments) => tables(&arguments),
        Err(error) => return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, error)),
    };
    std::io::stdout().lock().write_all(text.as_bytes())
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let (trials, words) = match words {
        [option, trials, words @ ..] if option == "--trials" => {
            let trials = trials.parse().ok().filter(|trials| (2..=100).contains(trials));
            (trials.ok_or("--trials takes the number of trials of each side, 2 to 100")?, words)
        }
        _ => (TRIALS, words),
    };
    let set = match words.first().map(String::as_str) {
        None | Some("development") => SeedSet::Development,
        Some("held-back") => SeedSet::HeldBack,
        Some(other) => return Err(format!("`{other}` is no set of seeds: `development` or `held-back`")),
    };
    let number = |place: usize, default: u32| {
        words.get(place).map_or(Ok(default), |word| word.parse().map_err(|_| format!("`{word}` is no number of recordings")))
    };
    let chosen = words.get(4..).unwrap_or_default();
    let is_chosen = |rule: &str| chosen.is_empty() || chosen.iter().any(|word| word == rule);
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| is_chosen(fault.description().rule)).collect();
    let waits: Vec<Waiting> = Waiting::ALL.into_iter().filter(|waiting| is_chosen(waiting.description().1)).collect();
    let planted = |word: &&String| {
        faults.iter().any(|fault| fault.description().rule == **word)
            || waits.iter().any(|waiting| waiting.description().1 == **word)
    };
    match chosen.iter().find(|word| !planted(word)) {
        Some(word) => Err(format!("no fault is planted for the rule `{word}`")),
        None => {
            Ok(Arguments { trials, set, seeds: number(1, 20)?, clean: number(2, 200)?, pairs: number(3, 100)?, faults, waits })
        }
    }
}

/// Computes all recordings and writes their tables.
fn tables(arguments: &Arguments) -> String {
    let Arguments { trials, set, seeds, clean, pairs, faults, waits } = arguments;
    let single = faults
        .iter()
        .flat_map(|fault| (0..*seeds).map(move |number| Job { kind: format!("{fault:?}"), number, faults: vec![*fault] }));
    let without = (0..*clean).map(|number| Job { kind: "clean".to_owned(), number, faults: Vec::new() });
    let both = (0..*pairs).map(|number| Job { kind: "pair".to_owned(), number, faults: draw_pair(*set, number) });
    let jobs: Vec<Job> = single.chain(without).chain(both).collect();
    let scored = compute(*set, *trials, &jobs);
    let of = |count: usize| scored.iter().filter(move |scored| scored.faults.len() == count).cloned().collect::<Vec<Scored>>();
    format!(
        "Seeds: {}. {trials} trials of 20 s a side, {seeds} recordings of each fault.\n\n### One fault\n\n{}\n### No fault\n\n{}\n### Two faults\n\n{}\n\
         ### Waits of a run's own objects\n\n{}",
        set.name(),
        report::of_faults(&of(1)),
        report::of_clean(&of(0)),
        report::of_pairs(&of(2)),
        scheduler::table(*set, waits),
    )
}

/// Draws two faults of different rules that go together; jobs that wait have no endpoint, and so no second fault.
fn draw_pair(set: SeedSet, number: u32) -> Vec<Fault> {
    let seed = set.seed("pair", number);
    let mut draws = Draws::new(&seed, "pair");
    loop {
        let pair = [draws.one_of(&Fault::ALL), draws.one_of(&Fault::ALL)];
        let [one, other] = pair.map(|fault| fault.description().rule);
        let go_together = one != other && !pair.contains(&Fault::AdmissionWaits);
        if go_together && Setup::draw(seed, &pair).is_some() {
            return pair.to_vec();
        }
    }
}

/// Computes recordings on several threads, and returns them in the order of the jobs.
fn compute(set: SeedSet, trials: usize, jobs: &[Job]) -> Vec<Scored> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((place, job)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|place| Some((place, jobs.get(place)?)))
                {
                    let scored = record(set.seed(&job.kind, job.number), trials, &job.faults).expect("faults that go together");
                    results.lock().expect("no thread panics while it holds the results").push((place, scored));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics while it holds the results");
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, scored)| scored).collect()
}
