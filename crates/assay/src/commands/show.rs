//! `assay show`: prints the result of a run, verified before it is shown.

use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::store_options::StoreOptions;
use crate::output;

/// Show a run's result as a report.
#[derive(clap::Args)]
pub(crate) struct Show {
    /// The run's name or published folder
    #[arg(value_name = "RUN|PATH")]
    run: String,
    #[command(flatten)]
    place: StoreOptions,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let opened = self.place.runs().open(&self.run)?;
        let report = opened.report("assay show")?.ok_or_else(|| {
            Failure::new(ErrorCode::NotPublished, format!("the run `{}` has no result yet", opened.chain.run_id))
                .hint("`assay run` with the same run id resumes it; `assay verify` says how far it came")
        })?;
        output::report(if self.markdown { report.markdown() } else { report.terminal(output::width(), output::has_color()) });
        Ok(if opened.chain.is_established() { Exit::Done } else { Exit::Unestablished })
    }
}
