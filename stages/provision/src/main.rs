//! The `assay-provision` binary.

fn main() -> std::process::ExitCode {
    assay_stage::main(&assay_provision::Provision)
}
