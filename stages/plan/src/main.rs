//! The `assay-plan` binary: `assay-plan check-import` imports a file before there is a run, `assay-plan` plans one.

use assay_planning::CHECK_IMPORT;

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|argument| argument == CHECK_IMPORT).is_some() {
        assay_plan::check_import_main(arguments)
    } else {
        assay_stage::main(&assay_plan::Planner)
    }
}
