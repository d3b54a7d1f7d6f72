//! The programs of the shipped workloads, each compiled as its `prepare` does and run by hand.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// `workloads/memory-bandwidth`, on a machine whose caches a folder describes.
struct MemoryBandwidth {
    scratch: TempDir,
}

impl MemoryBandwidth {
    fn compile() -> Self {
        let scratch = TempDir::new().expect("a folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/memory-bandwidth/bandwidth.c");
        let folder = format!("-DCACHE_FOLDER=\"{}\"", scratch.path().join("cache").display());
        let mut compiler = Command::new("cc");
        compiler.args(["-O3", "-std=c11", "-pthread", "-fno-tree-loop-distribute-patterns", "-Wall", "-Wextra", "-Werror"]);
        let compiled = compiler.arg(folder).arg("-o").arg(scratch.path().join("bandwidth")).arg(source).output();
        let compiled = compiled.expect("the tests need a C compiler as `cc`");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Self { scratch }
    }

    fn cache(&self, index: u32, size: &str, processors: &str) {
        let folder: PathBuf = self.scratch.path().join(format!("cache/index{index}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("size"), format!("{size}\n")).expect("a file");
        std::fs::write(folder.join("shared_cpu_map"), format!("{processors}\n")).expect("a file");
    }

    fn run(&self, size_mib: &str, threads: u32) -> Output {
        let mut program = Command::new(self.scratch.path().join("bandwidth"));
        program.env("SIZE_MIB", size_mib).env("REPS", "1").env("THREADS", threads.to_string());
        program.output().expect("the program runs")
    }

    /// Returns the size of an array in MiB, and the sizes in bytes that a run states.
    fn sizes(&self, size_mib: &str) -> [u64; 3] {
        let ran = self.run(size_mib, 1);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let document: Value = serde_json::from_slice(&ran.stdout).expect("one JSON document");
        let result = &document["@result"];
        [&document["@parameters"]["size_mib"], &result["working_set_bytes"], &result["last_level_cache_bytes"]]
            .map(|number| number.as_u64().expect("a number"))
    }

    fn refusal(&self, size_mib: &str, threads: u32) -> String {
        let ran = self.run(size_mib, threads);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "no number of the cache becomes a result");
        String::from_utf8(ran.stderr).expect("text")
    }
}

const MIB: u64 = 1024 * 1024;

#[test]
fn memory_bandwidth_chooses_its_arrays_by_the_last_level_cache_of_the_processor() {
    let program = MemoryBandwidth::compile();
    program.cache(0, "32K", "1");
    program.cache(3, "8192K", "1");
    assert_eq!(program.sizes("auto"), [64, 192 * MIB, 8 * MIB], "as large as the clock needs");
    program.cache(3, "36864K", "1");
    assert_eq!(program.sizes("auto"), [72, 216 * MIB, 36 * MIB], "twice the cache each");
    assert_eq!(program.sizes("48"), [48, 144 * MIB, 36 * MIB], "four times the cache in all");
}

#[test]
fn memory_bandwidth_refuses_arrays_of_which_the_cache_could_hold_a_good_part() {
    let program = MemoryBandwidth::compile();
    program.cache(2, "33M", "ffffffff,ffffffff");
    let refused = program.refusal("43", 1);
    let expected = "three arrays of 43 MiB are less than 4 times the last-level cache of 33.0 MiB, so this would be a bandwidth of the \
                    cache: set SIZE_MIB to 44 or more\n";
    assert_eq!(refused, expected);
    assert_eq!(program.sizes("44")[0], 44, "the size that it names is enough");
    program.cache(2, "769M", "1");
    assert!(program.refusal("auto", 1).contains("set SIZE_MIB to"), "`auto` has a limit");
}

#[test]
fn memory_bandwidth_counts_the_caches_of_its_threads() {
    let program = MemoryBandwidth::compile();
    program.cache(3, "32768K", "1");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let caches = if processors > 1 { "64.0 MiB" } else { "32.0 MiB" };
    assert!(program.refusal("1", 2).contains(caches), "one cache for each of two processors");
    program.cache(3, "32768K", "ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff");
    assert!(program.refusal("1", 2).contains("32.0 MiB"), "one cache for all processors");
}
