//! The entry point of libFuzzer, for the target that ASSAY_FUZZ_TARGET names. `ci/fuzz` builds it with coverage; built otherwise, it
//! only says so.
#![allow(unexpected_cfgs, reason = "ci/fuzz sets `fuzzing`")]
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod driver {
    use std::panic::{catch_unwind, set_hook};
    use std::sync::{LazyLock, Mutex, PoisonError};

    static TARGET: LazyLock<&assay_fuzz::Target> = LazyLock::new(|| {
        let name = std::env::var("ASSAY_FUZZ_TARGET").expect("ASSAY_FUZZ_TARGET names a target");
        assay_fuzz::target(&name).expect("a known target")
    });
    static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

    /// Parsers that use Parquet's reader catch its panics, as they promise, so that only a panic that escapes is a finding.
    fn keep_panics() {
        set_hook(Box::new(|panic| *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string()));
    }

    fn run(bytes: &[u8]) {
        if catch_unwind(|| (TARGET.run)(bytes)).is_err() {
            eprintln!("{}", LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner));
            std::process::abort();
        }
    }

    libfuzzer_sys::fuzz_target!(init: keep_panics(), |bytes: &[u8]| run(bytes));
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "error: built without coverage\n\nhint: run ci/fuzz");
    std::process::ExitCode::from(2)
}
