//! Checks that a text is a query that may run: one statement that only reads.

use std::collections::BTreeSet;

use assay_query::{LimitedResource, MAX_SQL_BYTES, MAX_SQL_TOKENS, QueryError, VIEWS, panic_text, view};
use assay_warehouse::{TABLES, foreign_table, table};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::Volatility;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::thread_error;

/// Stack size of a thread that parses or plans a query: both recurse, and [`MAX_SQL_TOKENS`] bounds how deep.
pub(crate) const STACK_BYTES: usize = 512 << 20;
/// The schema of the tables that describe the tables.
const INFORMATION_SCHEMA: &str = "information_schema";

/// The tables that a query reads.
#[derive(Debug, Default)]
pub(crate) struct QueryTables {
    /// The tables, including those behind views.
    pub(crate) tables: BTreeSet<String>,
    /// The views.
    pub(crate) views: BTreeSet<&'static str>,
    /// True if the query reads the tables that describe the tables.
    pub(crate) catalog: bool,
}

/// Returns the tables that a query reads. Fails for anything but one statement that only reads and whose result depends on the
/// rows alone.
pub(crate) fn check_query(sql: &str) -> Result<QueryTables, QueryError> {
    check_words(sql)?;
    on_deep_stack(|| {
        let statement = parse_statement(sql)?;
        check_kind(&statement)?;
        collect_tables(&statement)
    })
}

/// Runs work that recurses as deep as a query is nested, on a thread with a large enough stack.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, QueryError> + Send) -> Result<T, QueryError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).map_err(thread_error)?;
        thread.join().unwrap_or_else(|panic| Err(QueryError::engine_failed(panic_text(&*panic))))
    })
}

/// Converts the engine's error about an invalid query, without the backtrace, which is for its authors, and without the list of
/// all column names.
pub(crate) fn invalid_query(error: &DataFusionError) -> QueryError {
    let said = match error.find_root() {
        DataFusionError::SQL(error, _) => error.to_string(),
        error => error.strip_backtrace(),
    };
    QueryError::invalid(said.split(" Valid fields are").next().unwrap_or_default())
}

/// Parses a text that holds one statement. The caller needs a stack of [`STACK_BYTES`].
pub(crate) fn parse_statement(sql: &str) -> Result<Statement, QueryError> {
    let mut statements = DFParser::parse_sql(sql).map_err(|error| invalid_query(&error))?;
    match (statements.pop_front(), statements.pop_front()) {
        (Some(statement), None) => Ok(statement),
        (None, _) => Err(QueryError::refused("there is no statement in it")),
        (Some(_), Some(_)) => Err(QueryError::refused("it is more than one statement")),
    }
}

/// Checks the tokens before anything is parsed: table functions are evaluated while a query is planned, so their arguments cannot
/// be seen in the plan.
fn check_words(sql: &str) -> Result<(), QueryError> {
    if sql.len() > MAX_SQL_BYTES {
        return Err(QueryError::OverLimit { what: LimitedResource::SqlBytes, limit: MAX_SQL_BYTES as u64 });
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().map_err(|error| QueryError::invalid(error.to_string()))?;
    let tokens: Vec<_> = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    if tokens.len() > MAX_SQL_TOKENS {
        return Err(QueryError::OverLimit { what: LimitedResource::SqlTokens, limit: MAX_SQL_TOKENS as u64 });
    }
    let moving = volatile_functions();
    for (index, token) in tokens.iter().enumerate() {
        let Token::Word(word) = token else { continue };
        let name = word.value.to_lowercase();
        let is_plain = word.quote_style.is_none();
        let is_called = matches!(tokens.get(index + 1), Some(Token::LParen)) || (is_plain && CLOCKS.contains(&name.as_str()));
        if is_called && moving.contains(&name) {
            return Err(QueryError::refused(format!("`{name}` gives another value each time")));
        }
        if is_plain && name == "tablesample" {
            return Err(QueryError::refused("`TABLESAMPLE` takes rows by chance"));
        }
    }
    Ok(())
}

/// Names that return the time without being called.
const CLOCKS: [&str; 5] = ["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"];

/// Returns all names of the functions whose result depends on more than their arguments. The engine's version is one of them: it
/// does not depend on the rows either.
fn volatile_functions() -> BTreeSet<String> {
    let all = datafusion::functions::all_default_functions();
    let moving = all.iter().filter(|function| function.signature().volatility != Volatility::Immutable);
    let names = moving.flat_map(|function| std::iter::once(function.name().to_owned()).chain(function.aliases().to_vec()));
    names.chain(CLOCKS.map(str::to_owned)).chain(["version".to_owned()]).collect()
}

fn check_kind(statement: &Statement) -> Result<(), QueryError> {
    match statement {
        Statement::Statement(inner) if matches!(**inner, SqlStatement::Query(_)) => Ok(()),
        Statement::Explain(explain) if explain.to_string().to_uppercase().starts_with("EXPLAIN ANALYZE") => {
            Err(QueryError::refused("`EXPLAIN ANALYZE` tells times, which differ from run to run"))
        }
        Statement::Explain(explain) => check_kind(&explain.statement),
        other => Err(QueryError::refused(format!("`{}` is not a `SELECT`", first_word(other)))),
    }
}

/// Returns the first word of a statement, which says what it does.
fn first_word(statement: &Statement) -> String {
    let text = statement.to_string();
    text.split_whitespace().next().unwrap_or("an empty statement").chars().take(40).collect::<String>().to_uppercase()
}

/// Returns the tables and views that a statement names. Fails if one does not exist.
pub(crate) fn collect_tables(statement: &Statement) -> Result<QueryTables, QueryError> {
    let (references, _) = resolve_table_references(statement, true).map_err(|error| invalid_query(&error))?;
    let mut reads = QueryTables::default();
    for reference in references {
        if reference.schema() == Some(INFORMATION_SCHEMA) {
            reads.catalog = true;
            continue;
        }
        let name = reference.table();
        if reference.schema().is_some() {
            return Err(QueryError::invalid(format!("there is no table `{reference}`")));
        } else if let Some(view) = view(name) {
            reads.views.insert(view.name);
            reads.tables.extend(view.tables.iter().map(|table| (*table).to_owned()));
        } else if let Some(table) = table(name).or_else(|| foreign_table(name)) {
            reads.tables.insert(table.name.to_owned());
        } else if !is_function(name) {
            return Err(QueryError::invalid(format!(
                "there is no table or view `{}`; there are {}",
                name.chars().take(80).collect::<String>(),
                all_names()
            )));
        }
    }
    Ok(reads)
}

/// Returns the names of all views and tables, the views first: they are what most queries are about.
fn all_names() -> String {
    let names: Vec<&str> = VIEWS.iter().map(|view| view.name).chain(TABLES.iter().map(|table| table.name)).collect();
    names.join(", ")
}

/// Returns true for functions that are used in place of a table. They are refused or planned by name later on.
fn is_function(name: &str) -> bool {
    matches!(name, "range" | "generate_series" | "unnest")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(sql: &str) -> String {
        super::check_query(sql).expect_err("a query that is refused").to_string()
    }

    fn tables(sql: &str) -> Vec<String> {
        super::check_query(sql).expect("a query").tables.into_iter().collect()
    }

    #[test]
    fn a_query_knows_its_tables() {
        assert_eq!(tables("SELECT 1"), [""; 0]);
        assert_eq!(tables("SELECT value FROM outcome_fact"), ["outcome_fact"]);
        assert_eq!(
            tables("WITH o AS (SELECT * FROM outcomes) SELECT * FROM o JOIN workload_dim ON true"),
            ["benchmark_run_fact", "outcome_fact", "workload_dim"]
        );
        assert_eq!(tables("SELECT * FROM information_schema.columns"), [""; 0]);
        assert_eq!(tables("EXPLAIN SELECT * FROM Outcome_Fact"), ["outcome_fact"]);
        assert_eq!(tables("SELECT (SELECT max(value) FROM outcome_fact)"), ["outcome_fact"]);
        assert_eq!(tables("SELECT 1 -- a comment\n;"), [""; 0]);
        assert_eq!(tables("SELECT * FROM foreign_outcome_fact, outcome_fact"), ["foreign_outcome_fact", "outcome_fact"]);
    }

    #[test]
    fn what_does_more_than_read_is_refused_by_name() {
        insta::assert_snapshot!(refusal("DROP TABLE outcome_fact"), @"the query is refused: `DROP` is not a `SELECT`");
        insta::assert_snapshot!(refusal("CREATE TABLE x AS SELECT 1"), @"the query is refused: `CREATE` is not a `SELECT`");
        insta::assert_snapshot!(refusal("INSERT INTO outcome_fact SELECT * FROM outcome_fact"), @"the query is refused: `INSERT` is not a `SELECT`");
        insta::assert_snapshot!(refusal("UPDATE outcome_fact SET value = 1"), @"the query is refused: `UPDATE` is not a `SELECT`");
        insta::assert_snapshot!(refusal("DELETE FROM outcome_fact"), @"the query is refused: `DELETE` is not a `SELECT`");
        insta::assert_snapshot!(refusal("COPY outcome_fact TO '/tmp/x.csv'"), @"the query is refused: `COPY` is not a `SELECT`");
        insta::assert_snapshot!(refusal("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'"), @"the query is refused: `CREATE` is not a `SELECT`");
        insta::assert_snapshot!(refusal("SET datafusion.execution.target_partitions = 8"), @"the query is refused: `SET` is not a `SELECT`");
        insta::assert_snapshot!(refusal("EXPLAIN DELETE FROM outcome_fact"), @"the query is refused: `DELETE` is not a `SELECT`");
        insta::assert_snapshot!(refusal("EXPLAIN ANALYZE SELECT 1"), @"the query is refused: `EXPLAIN ANALYZE` tells times, which differ from run to run");
        insta::assert_snapshot!(refusal("SELECT 1; SELECT 2"), @"the query is refused: it is more than one statement");
        insta::assert_snapshot!(refusal(""), @"the query is refused: there is no statement in it");
    }

    #[test]
    fn what_moves_is_refused_wherever_it_hides() {
        insta::assert_snapshot!(refusal("SELECT * FROM generate_series(now(), NOW ( ), interval '1 day')"), @"the query is refused: `now` gives another value each time");
        insta::assert_snapshot!(refusal("SELECT * FROM range(0, length(CAST(current_date AS TEXT)))"), @"the query is refused: `current_date` gives another value each time");
        insta::assert_snapshot!(refusal("SELECT \"version\"()"), @"the query is refused: `version` gives another value each time");
        insta::assert_snapshot!(refusal("SELECT * FROM runs TABLESAMPLE (3 ROWS)"), @"the query is refused: `TABLESAMPLE` takes rows by chance");
        assert!(
            check_query("SELECT run_id AS version, 'now()' AS \"current_date\" FROM runs").is_ok(),
            "names and texts are neither"
        );
        assert!(check_query("SELECT * FROM information_schema.tables").expect("a query").catalog);
    }

    #[test]
    fn what_is_not_there_is_named() {
        insta::assert_snapshot!(refusal("SELECT * FROM outcome_facts"), @"the query is invalid: there is no table or view `outcome_facts`; there are runs, outcomes, serving, training, telemetry, attempts, pods, cluster_events, software_version_dim, hardware_topology_dim, cluster_region_dim, workload_dim, artifact_lineage_dim, outcome_fact, serving_outcome_fact, training_outcome_fact, telemetry_slice_fact, attempt_fact, cluster_pod_fact, cluster_event_fact, benchmark_run_fact");
        insta::assert_snapshot!(refusal("SELECT * FROM '/etc/passwd'"), @"the query is invalid: there is no table or view `/etc/passwd`; there are runs, outcomes, serving, training, telemetry, attempts, pods, cluster_events, software_version_dim, hardware_topology_dim, cluster_region_dim, workload_dim, artifact_lineage_dim, outcome_fact, serving_outcome_fact, training_outcome_fact, telemetry_slice_fact, attempt_fact, cluster_pod_fact, cluster_event_fact, benchmark_run_fact");
        insta::assert_snapshot!(refusal("SELECT * FROM other.outcome_fact"), @"the query is invalid: there is no table `other.outcome_fact`");
        assert!(refusal("SELEC 1").starts_with("the query is invalid: "));
    }

    #[test]
    fn a_query_has_limits() {
        assert!(matches!(
            super::check_query(&"x".repeat(MAX_SQL_BYTES + 1)),
            Err(QueryError::OverLimit { what: LimitedResource::SqlBytes, .. })
        ));
        let long = |terms: usize| format!("SELECT {}", vec!["1"; terms].join("+"));
        assert!(super::check_query(&long(MAX_SQL_TOKENS / 2)).is_ok());
        assert!(matches!(
            super::check_query(&long(MAX_SQL_TOKENS)),
            Err(QueryError::OverLimit { what: LimitedResource::SqlTokens, .. })
        ));
        assert!(super::check_query(&format!("SELECT {}1{}", "(".repeat(950), ")".repeat(950))).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_check_panic(sql in "\\PC{0,200}") {
            let _ = super::check_query(&sql);
        }

        #[test]
        fn no_row_of_words_makes_the_check_panic(words in proptest::collection::vec("(SELECT|FROM|WITH|a|1|\\(|\\)|,|\\*|'|AS|JOIN|EXPLAIN|;)", 0..40)) {
            let _ = super::check_query(&words.join(" "));
        }
    }
}
