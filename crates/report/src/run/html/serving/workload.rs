//! The workloads whose cases share pictures, and the size of the pictures of a section.

use crate::render::html::writer::Writer;
use crate::render::svg::plot::MAX_LINES;
use crate::render::text::counted;
use crate::run::model::Report;
use crate::run::model::section::CaseSection;
use crate::run::model::work::SloLine;

/// Maximum number of loads in a row of small pictures: more cannot be compared by eye.
pub(super) const MAX_PANELS: usize = 12;

/// An SLO this many times above all values would flatten them: it is named instead of drawn.
pub(super) const MAX_SLO_RATIO: f64 = 10.0;

/// Maximum size of the pictures of one section, in bytes, so that the page stays within its limit; omissions are counted.
const MAX_BYTES: usize = 220_000;

/// Cases of one workload: they share axes, and each is a line.
pub(super) struct Workload<'a> {
    pub(super) name: &'a str,
    pub(super) cases: Vec<&'a CaseSection>,
    pub(super) left_out: usize,
}

pub(super) fn workloads(report: &Report) -> Vec<Workload<'_>> {
    let mut found: Vec<Workload<'_>> = Vec::new();
    for case in report.cases.iter().filter(|case| case.serving.is_some()) {
        let place = found.iter().position(|known| known.name == case.workload);
        match place.and_then(|place| found.get_mut(place)) {
            Some(known) if known.cases.len() < MAX_LINES => known.cases.push(case),
            Some(known) => known.left_out += 1,
            None => found.push(Workload { name: &case.workload, cases: vec![case], left_out: 0 }),
        }
    }
    found
}

impl Workload<'_> {
    pub(super) fn names(&self) -> Vec<&str> {
        self.cases.iter().map(|case| case.side.as_str()).collect()
    }

    pub(super) fn slos(&self) -> &[SloLine] {
        self.cases.first().and_then(|case| case.serving.as_ref()).map_or(&[], |work| &work.slos)
    }

    pub(super) fn omission_note(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} in the table only.", counted(self.left_out as u64, "more case")))
    }
}

/// Writes pieces within a byte budget, and counts those that do not fit.
pub(super) struct PieceWriter<'a> {
    page: &'a mut Writer,
    end: usize,
    left_out: u64,
}

impl<'a> PieceWriter<'a> {
    pub(super) fn new(page: &'a mut Writer) -> Self {
        let end = page.len() + MAX_BYTES;
        Self { page, end, left_out: 0 }
    }

    pub(super) fn add(&mut self, write: impl FnOnce(&mut Writer)) {
        let mut piece = Writer::default();
        write(&mut piece);
        if self.page.len() + piece.len() > self.end {
            self.left_out += 1;
        } else {
            self.page.append(piece);
        }
    }

    pub(super) fn finish(self) {
        if self.left_out > 0 {
            let text =
                format!("{} left out to keep this page small; the table has the numbers.", counted(self.left_out, "figure"));
            self.page.leaf("p", &[("class", "quiet")], &text);
        }
    }
}
