//! The `assay-provision` binary.

fn main() -> std::process::ExitCode {
    // A probe on another node needs neither key nor inputs.
    match std::env::args().nth(1).as_deref() {
        Some("facts") => assay_provision::facts(),
        Some("ceiling") => assay_provision::ceiling(std::env::args().skip(2)),
        _ => assay_stage::main(&assay_provision::Provision),
    }
}
