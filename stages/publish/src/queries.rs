//! The pipeline's queries, run over the run's curated files.
//!
//! They read this run alone: a reader who has the published folder can run them again. `assay query` reads all runs.

use std::collections::BTreeMap;

use assay_manifest::{Count, Number, Plan, PublishedQuery, Summary};
use assay_planning::run_query;
use assay_stage::{Context, Failure};
use assay_store::Scratch;
use assay_verify::{NumberRows, query_numbers, query_result_file};

/// The largest query.
const MAX_QUERY_BYTES: u64 = 1 << 20;

/// The results of all queries.
pub(crate) struct QueryResults {
    pub(crate) published: Vec<PublishedQuery>,
    pub(crate) numbers: Vec<Number>,
    /// The queries' texts, by path.
    pub(crate) texts: BTreeMap<String, String>,
}

/// Runs every query of the plan, in the pipeline's order.
pub(crate) fn run_all(
    ctx: &Context,
    plan: &Plan,
    summary: &Summary,
    rows: &NumberRows,
    scratch: &Scratch,
) -> Result<QueryResults, Failure> {
    let mut asked = QueryResults { published: Vec::new(), numbers: Vec::new(), texts: BTreeMap::new() };
    for query in &plan.queries {
        ctx.check_cancelled()?;
        let text = ctx.get(&query.artifact, MAX_QUERY_BYTES)?;
        let result = run_query(&query.path, &text, &summary.files, ctx.store(), scratch)?;
        asked.numbers.extend(query_numbers(ctx.run_id(), query, &result, rows)?);
        asked.texts.insert(query.path.clone(), String::from_utf8_lossy(&text).into_owned());
        let file = query_result_file(query, &result);
        asked.published.push(PublishedQuery {
            path: query.path.clone(),
            digest: query.artifact.digest,
            rows: Count(result.rows.len() as u64),
            result: ctx.put(file.name, file.media_type, &file.bytes)?,
        });
    }
    Ok(asked)
}
