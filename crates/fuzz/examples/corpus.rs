//! Moves inputs between a corpus, which is one file, and a folder, which libFuzzer reads and writes:
//!
//!     corpus list
//!     corpus unpack TARGET FOLDER
//!     corpus pack TARGET FOLDER      adds the shortest files of the folder to the corpus, 96 KiB at most; longer ones than 16 KiB are left out
use std::io::Write as _;
use std::path::Path;

use assay_fuzz::{Corpus, TARGETS};

/// A longer input is rarely worth what it costs every clone.
const MAX_INPUT_BYTES: usize = 16 << 10;

/// The most bytes that one run adds to a corpus, which every clone has.
const MAX_ADDED_BYTES: usize = 96 << 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["list"] => {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            writeln!(std::io::stdout(), "{}", names.join("\n")).expect("written");
        }
        ["unpack", target, folder] => unpack(target, Path::new(folder)),
        ["pack", target, folder] => pack(target, Path::new(folder)),
        _ => panic!("usage: corpus list | unpack TARGET FOLDER | pack TARGET FOLDER"),
    }
}

fn unpack(target: &str, folder: &Path) {
    let text = std::fs::read_to_string(Corpus::path(target)).unwrap_or_default();
    for (index, input) in Corpus::parse(&text).expect("a corpus").inputs().enumerate() {
        std::fs::write(folder.join(format!("kept-{index:05}")), input).expect("written");
    }
}

fn pack(target: &str, folder: &Path) {
    let text = std::fs::read_to_string(Corpus::path(target)).unwrap_or_default();
    let mut corpus = Corpus::parse(&text).expect("a corpus");
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut inputs: Vec<_> = files.map(|path| std::fs::read(path).expect("an input")).collect();
    inputs.retain(|input| input.len() <= MAX_INPUT_BYTES && corpus.inputs().all(|kept| kept != input.as_slice()));
    inputs.sort_by_key(Vec::len);
    let mut left = MAX_ADDED_BYTES;
    for input in inputs {
        let Some(rest) = left.checked_sub(input.len()) else { break };
        left = rest;
        corpus.insert(input);
    }
    std::fs::write(Corpus::path(target), corpus.to_text()).expect("written");
}
