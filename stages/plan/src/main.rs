//! The `assay-plan` binary.

fn main() -> std::process::ExitCode {
    assay_stage::main(&assay_plan::Planner)
}
