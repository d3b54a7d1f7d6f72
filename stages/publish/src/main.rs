//! The `assay-publish` binary.

fn main() -> std::process::ExitCode {
    assay_stage::main(&assay_publish::Publish)
}
