//! The `assay-collect` binary: `assay-collect record` observes while execute runs, `assay-collect` freezes the evidence after it.

fn main() -> std::process::ExitCode {
    if std::env::args().nth(1).as_deref() == Some("record") {
        assay_stage::main(&assay_collect::Record)
    } else {
        assay_stage::main(&assay_collect::Collect)
    }
}
