//! The `assay-simulator` binary.

fn main() -> std::process::ExitCode {
    assay_simulator::main()
}
