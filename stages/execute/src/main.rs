//! The `assay-execute` binary.

fn main() -> std::process::ExitCode {
    assay_stage::main(&assay_execute::Execute)
}
