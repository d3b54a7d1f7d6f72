//! Moves inputs between a corpus, which is one file, and a folder, which libFuzzer reads and writes:
//!
//!     corpus list
//!     corpus unpack TARGET FOLDER
//!     corpus pack TARGET FOLDER      replaces the corpus by the files of the folder; longer ones than 16 KiB are left out
use std::io::Write as _;
use std::path::Path;

use assay_fuzz::{Corpus, TARGETS};

/// A longer input is rarely worth what it costs every clone.
const MAX_INPUT_BYTES: usize = 16 << 10;

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
    let mut corpus = Corpus::default();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let input = std::fs::read(entry.expect("an entry").path()).expect("an input");
        if input.len() <= MAX_INPUT_BYTES {
            corpus.insert(input);
        }
    }
    std::fs::write(Corpus::path(target), corpus.to_text()).expect("written");
}
