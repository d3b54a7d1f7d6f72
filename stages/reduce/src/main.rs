//! The `assay-reduce` binary.

fn main() -> std::process::ExitCode {
    assay_stage::main(&assay_reduce::Reduce)
}
