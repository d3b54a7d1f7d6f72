//! The software stacks of a run's variants: the digest of each lock file, and the rankings.

use crate::ranking::{METHOD, Pair, Ranking};
use crate::render::html::table::scrolling_table;
use crate::render::html::writer::Writer;
use crate::render::text::{counted, first_names};
use crate::run::model::stacks::StacksSection;

/// The most variants that a table lists.
const MAX_VARIANTS: usize = 200;

/// The most rankings of a page.
const MAX_RANKINGS: usize = 40;

/// The text for an absent value.
const ABSENT: &str = "—";

/// Writes the stacks and the rankings.
pub(super) fn stacks(page: &mut Writer, section: &StacksSection) {
    let columns = [("variant", false), ("packages", false), ("lock file", false), ("digest of the lock file", false)];
    scrolling_table(page, "stacks", &columns, |page| {
        for stack in section.stacks.iter().take(MAX_VARIANTS) {
            page.element("tr", &[], |page| {
                page.leaf("th", &[("scope", "row")], &stack.variant);
                page.leaf("td", &[], &stack.packages);
                let (path, digest) =
                    stack.lock.as_ref().map_or((ABSENT, ABSENT.to_owned()), |(path, digest)| (path.as_str(), digest.to_string()));
                page.leaf("td", &[], path);
                page.element("td", &[], |page| page.leaf("code", &[("class", "digest")], &digest));
            });
        }
    });
    omitted(page, section.stacks.len(), MAX_VARIANTS, "variant");
    for ranking in section.rankings.iter().take(MAX_RANKINGS) {
        write_ranking(page, ranking);
    }
    omitted(page, section.rankings.len(), MAX_RANKINGS, "ranking");
    if section.rankings.iter().flat_map(|ranking| &ranking.pairs).any(|pair| pair.test.is_ok()) {
        page.leaf("p", &[("class", "quiet")], METHOD);
    }
}

fn write_ranking(page: &mut Writer, ranking: &Ranking) {
    let measured = &ranking.measured;
    page.element("h3", &[], |page| {
        page.prose(&format!("{}: `{}`", measured.place, measured.metric));
    });
    page.element("p", &[], |page| page.prose(&format!("{}.", ranking.headline())));
    let columns = [
        ("", true),
        ("variant", false),
        ("median", false),
        ("trials", true),
        ("best is better by", false),
        ("not told apart from", false),
    ];
    if !measured.candidates.is_empty() {
        scrolling_table(page, "ranking", &columns, |page| {
            for (place, candidate) in measured.candidates.iter().enumerate().take(MAX_VARIANTS) {
                page.element("tr", &[], |page| {
                    page.leaf("td", &[("class", "n")], &(place + 1).to_string());
                    page.leaf("th", &[("scope", "row")], &candidate.variant);
                    page.leaf("td", &[], &candidate.median_with_interval(&measured.unit));
                    page.leaf("td", &[("class", "n")], &format!("{}/{}", candidate.values.len(), candidate.planned));
                    page.leaf("td", &[], &ranking.against_best(place).map(Pair::ratio_with_interval).unwrap_or_default());
                    page.leaf("td", &[], &first_names(&ranking.not_told_apart(place)));
                });
            }
        });
        omitted(page, measured.candidates.len(), MAX_VARIANTS, "variant");
    }
    for (variant, why) in measured.left_out.iter().take(MAX_VARIANTS) {
        page.element("p", &[("class", "quiet")], |page| page.prose(&format!("`{variant}` is not ranked: {why}.")));
    }
    omitted(page, measured.left_out.len(), MAX_VARIANTS, "variant");
}

fn omitted(page: &mut Writer, all: usize, shown: usize, what: &str) {
    if let Some(more) = all.checked_sub(shown).filter(|more| *more > 0) {
        page.leaf("p", &[("class", "quiet")], &format!("And {}.", counted(more as u64, &format!("more {what}"))));
    }
}
