//! The report before it is rendered: the content of every rendering, in the order of the renderings.

pub(crate) mod across_loads;
pub(crate) mod breakdown;
mod build;
mod cache_hits;
mod course;
pub(crate) mod environment;
pub(crate) mod exclusions;
pub(crate) mod fine_print;
pub(crate) mod fold;
pub(crate) mod headline;
pub(crate) mod lineage;
pub(crate) mod load;
pub(crate) mod outcome;
pub(crate) mod overview;
pub(crate) mod remark;
pub(crate) mod section;
pub(crate) mod sentence;
pub(crate) mod serving;
pub(crate) mod serving_remarks;
pub(crate) mod stacks;
pub(crate) mod strip;
pub(crate) mod time_slices;
pub(crate) mod views;
pub(crate) mod work;

use assay_manifest::{Address, RunId};

use crate::render::command::{shell_word, store_option};
use crate::render::fine_print::FinePrint;
use crate::render::strip::StripItem;
use crate::render::text::clean;
use crate::run::inputs::Inputs;

use build::Builder;
use environment::Facts;
use lineage::Lineage;
use overview::Overview;
use section::{CaseSection, PointSection, Row};
use sentence::Sentence;
use stacks::StacksSection;

/// A run's results, ready to be rendered. Made by [`Report::build`].
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub(crate) run_id: RunId,
    pub(crate) pipeline: String,
    pub(crate) overview: Overview,
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) strip: Vec<StripItem>,
    pub(crate) cases: Vec<CaseSection>,
    /// The software stacks of the variants; `None` if no variant states packages.
    pub(crate) stacks: Option<StacksSection>,
    pub(crate) facts: Vec<Facts>,
    pub(crate) lineage: Lineage,
    pub(crate) fine_print: Vec<FinePrint>,
    pub(crate) location: RunLocation,
    /// A sentence for each removal of the run's evidence.
    pub(crate) removals: Vec<String>,
}

/// The location of the run for the commands of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunLocation {
    /// The folder that contains the report, as its recipient has it.
    OwnFolder,
    /// A published folder of this name.
    Folder(String),
    /// A store; without a name, commands find it by themselves.
    Store(Option<String>),
}

impl Report {
    /// Builds the whole content; the renderings only lay it out.
    pub fn build(inputs: &Inputs<'_>) -> Self {
        let cases = Builder::new(inputs.run_id, inputs.plan, inputs.summary, Some(inputs.collection), inputs.views).cases();
        let requests = strip::requests(inputs);
        Self {
            run_id: inputs.run_id.clone(),
            pipeline: inputs.plan.pipeline.name.to_string(),
            overview: Overview::new(inputs, &cases, requests.as_ref()),
            sentences: sentence::sentences(&cases, inputs.grade),
            strip: strip::items(inputs, requests),
            facts: Facts::for_targets(inputs.environments),
            stacks: StacksSection::new(inputs.plan, inputs.summary),
            lineage: Lineage::build(inputs),
            fine_print: fine_print::items(inputs),
            location: RunLocation::OwnFolder,
            removals: Vec::new(),
            cases,
        }
    }

    /// Returns the report of a run in a store: its commands name the store, unless they find it by themselves.
    #[must_use]
    pub fn in_store(self, uri: Option<&str>) -> Self {
        Self { location: RunLocation::Store(uri.map(str::to_owned)), ..self }
    }

    /// Returns the report of a run of which evidence was removed, with a line for each removal: what a manifest counts is not all there.
    #[must_use]
    pub fn with_removals(mut self, removals: &[String]) -> Self {
        self.removals = removals.iter().map(|removal| clean(&format!("Evidence was {removal}."))).collect();
        for item in self.strip.iter_mut().filter(|item| item.label == strip::EVIDENCE && !removals.is_empty()) {
            (item.headline, item.caution) = (format!("{}, before a removal", item.headline), true);
            item.details.splice(0..0, self.removals.iter().cloned());
        }
        self
    }

    /// Returns the report of a run in a published folder, whose commands name the folder.
    #[must_use]
    pub fn in_folder(self, path: &str) -> Self {
        Self { location: RunLocation::Folder(path.to_owned()), ..self }
    }

    /// Returns the command that verifies the run.
    pub(crate) fn verify_command(&self) -> String {
        match &self.location {
            RunLocation::OwnFolder => "assay verify .".to_owned(),
            RunLocation::Folder(path) => format!("assay verify {}", shell_word(path)),
            RunLocation::Store(uri) => format!("assay verify {}{}", self.run_id, store_option(uri.as_deref())),
        }
    }

    /// Returns the command that traces a number back to its evidence.
    pub(crate) fn trace_command(&self, address: &Address) -> String {
        let place = match &self.location {
            RunLocation::OwnFolder => String::new(),
            RunLocation::Folder(path) => format!(" --from {}", shell_word(path)),
            RunLocation::Store(uri) => store_option(uri.as_deref()),
        };
        format!("assay trace {address}{place}")
    }

    /// Returns a note on where to run the commands, and what they can show there.
    pub(crate) fn location_note(&self) -> &'static str {
        match self.location {
            RunLocation::Store(_) => "The commands of `cosign` are run in the published folder.",
            RunLocation::OwnFolder | RunLocation::Folder(_) => {
                "These commands are run in the published folder. It holds no raw bytes, so level 2 is the highest level that it \
                 reaches: levels 3 and 4 need the run's store."
            }
        }
    }

    /// Returns the headline sentences in the plan's order: one for each serving case, and one for each primary metric of every other
    /// point.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.sentences.iter().map(Sentence::to_string)
    }

    /// Returns the sentence that stands for the run: that of the first serving case; without one, the first.
    pub(crate) fn headline(&self) -> Option<&Sentence> {
        self.sentences.iter().find(|sentence| sentence.is_serving).or(self.sentences.first())
    }

    /// Returns the address of the first sentence's number, as an example to trace; if no sentence has one, that of the first number.
    pub fn example_address(&self) -> Option<&Address> {
        let of_sentences = self.sentences.iter().find_map(|sentence| sentence.address.as_ref());
        of_sentences.or_else(|| self.rows().find_map(|(_, _, row)| row.measured.as_ref().ok()).map(|measured| &measured.address))
    }

    /// Returns every row with its case and point, in the plan's order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&CaseSection, &PointSection, &Row)> {
        let points = self.cases.iter().flat_map(|case| case.points.iter().map(move |point| (case, point)));
        points.flat_map(|(case, point)| point.rows.iter().map(move |row| (case, point, row)))
    }
}

#[cfg(test)]
mod tests {
    use crate::run::fixture;

    #[test]
    fn commands_name_a_store_that_they_would_not_find() {
        let hint = "level 2 is the highest level that it reaches";
        let published = fixture::report();
        for text in [published.markdown(), published.html()] {
            assert!(text.contains("assay verify .") && text.contains(hint) && !text.contains("--store"), "{text}");
        }
        let found = fixture::report().in_store(None);
        assert!(!found.markdown().contains(hint) && !found.markdown().contains("--store"));
        let received = fixture::report().in_folder("./a folder").markdown();
        assert!(
            received.contains("assay verify './a folder'\n") && received.contains("/value --from './a folder'\n"),
            "{received}"
        );
        let elsewhere = fixture::report().in_store(Some("s3://a bucket"));
        for text in [elsewhere.terminal(100, false), elsewhere.markdown()] {
            assert!(text.contains("assay verify quickstart-2026-11-20 --store 's3://a bucket'\n"), "{text}");
            assert!(text.contains("/value --store 's3://a bucket'\n"), "{text}");
            assert!(!text.contains(hint));
        }
        assert!(elsewhere.html().contains("/value --store &#39;s3://a bucket&#39;</code>"));
    }
}
