//! Whether a text is a query that may be asked: one statement that only reads.

use std::collections::BTreeSet;

use assay_lake::{Limited, MAX_SQL_BYTES, MAX_SQL_TOKENS, QueryError, view};
use assay_warehouse::table;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::{no_thread, panic_text};

/// What a thread that parses or plans a query may use of its stack: both recurse, and [`MAX_SQL_TOKENS`] bounds how deep.
pub(crate) const STACK_BYTES: usize = 512 << 20;
/// The schema of the tables that describe the tables.
const INFORMATION_SCHEMA: &str = "information_schema";

/// The tables that a query reads, those behind views included. Fails for anything but one statement that only reads.
pub(crate) fn tables(sql: &str) -> Result<BTreeSet<String>, QueryError> {
    check_size(sql)?;
    on_deep_stack(|| {
        let statement = statement(sql)?;
        check_kind(&statement)?;
        tables_of(&statement)
    })
}

/// Does work that goes as deep as a query is nested, on a thread that has the stack for it.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, QueryError> + Send) -> Result<T, QueryError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).map_err(no_thread)?;
        thread.join().unwrap_or_else(|panic| Err(QueryError::gave_up(panic_text(&*panic))))
    })
}

/// The one statement of a text. To be called with a stack of [`STACK_BYTES`].
pub(crate) fn statement(sql: &str) -> Result<Statement, QueryError> {
    let mut statements = DFParser::parse_sql(sql).map_err(|error| QueryError::wrong(error.strip_backtrace()))?;
    match (statements.pop_front(), statements.pop_front()) {
        (Some(statement), None) => Ok(statement),
        _ => Err(QueryError::refused("it is not one statement")),
    }
}

fn check_size(sql: &str) -> Result<(), QueryError> {
    if sql.len() > MAX_SQL_BYTES {
        return Err(QueryError::OverLimit { what: Limited::SqlBytes, limit: MAX_SQL_BYTES as u64 });
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().map_err(|error| QueryError::wrong(error.to_string()))?;
    let words = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).count();
    if words > MAX_SQL_TOKENS {
        return Err(QueryError::OverLimit { what: Limited::SqlTokens, limit: MAX_SQL_TOKENS as u64 });
    }
    Ok(())
}

fn check_kind(statement: &Statement) -> Result<(), QueryError> {
    match statement {
        Statement::Statement(inner) if matches!(**inner, SqlStatement::Query(_)) => Ok(()),
        Statement::Explain(explain) if explain.to_string().to_uppercase().starts_with("EXPLAIN ANALYZE") => {
            Err(QueryError::refused("`EXPLAIN ANALYZE` tells times, which differ from run to run"))
        }
        Statement::Explain(explain) => check_kind(&explain.statement),
        other => Err(QueryError::refused(format!("`{}` does more than read", kind_of(other)))),
    }
}

/// The first word of a statement, which says what it does.
fn kind_of(statement: &Statement) -> String {
    let text = statement.to_string();
    text.split_whitespace().next().unwrap_or("an empty statement").chars().take(40).collect::<String>().to_uppercase()
}

fn tables_of(statement: &Statement) -> Result<BTreeSet<String>, QueryError> {
    let (references, _) =
        resolve_table_references(statement, true).map_err(|error| QueryError::wrong(error.strip_backtrace()))?;
    let mut tables = BTreeSet::new();
    for reference in references {
        if reference.schema() == Some(INFORMATION_SCHEMA) {
            continue;
        }
        let name = reference.table();
        if reference.schema().is_some() {
            return Err(QueryError::wrong(format!("there is no table `{reference}`")));
        } else if let Some(view) = view(name) {
            tables.extend(view.tables.iter().map(|table| (*table).to_owned()));
        } else if let Some(table) = table(name) {
            tables.insert(table.name.to_owned());
        } else if !is_function(name) {
            return Err(QueryError::wrong(format!("there is no table or view `{}`", name.chars().take(80).collect::<String>())));
        }
    }
    Ok(tables)
}

/// Functions that stand where a table does. They are refused or planned by name later on.
fn is_function(name: &str) -> bool {
    matches!(name, "range" | "generate_series" | "unnest")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(sql: &str) -> String {
        super::tables(sql).expect_err("a query that is refused").to_string()
    }

    fn tables(sql: &str) -> Vec<String> {
        super::tables(sql).expect("a query").into_iter().collect()
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
    }

    #[test]
    fn what_does_more_than_read_is_refused_by_name() {
        insta::assert_snapshot!(refusal("DROP TABLE outcome_fact"), @"the query is refused: `DROP` does more than read");
        insta::assert_snapshot!(refusal("CREATE TABLE x AS SELECT 1"), @"the query is refused: `CREATE` does more than read");
        insta::assert_snapshot!(refusal("INSERT INTO outcome_fact SELECT * FROM outcome_fact"), @"the query is refused: `INSERT` does more than read");
        insta::assert_snapshot!(refusal("UPDATE outcome_fact SET value = 1"), @"the query is refused: `UPDATE` does more than read");
        insta::assert_snapshot!(refusal("DELETE FROM outcome_fact"), @"the query is refused: `DELETE` does more than read");
        insta::assert_snapshot!(refusal("COPY outcome_fact TO '/tmp/x.csv'"), @"the query is refused: `COPY` does more than read");
        insta::assert_snapshot!(refusal("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'"), @"the query is refused: `CREATE` does more than read");
        insta::assert_snapshot!(refusal("SET datafusion.execution.target_partitions = 8"), @"the query is refused: `SET` does more than read");
        insta::assert_snapshot!(refusal("EXPLAIN DELETE FROM outcome_fact"), @"the query is refused: `DELETE` does more than read");
        insta::assert_snapshot!(refusal("EXPLAIN ANALYZE SELECT 1"), @"the query is refused: `EXPLAIN ANALYZE` tells times, which differ from run to run");
        insta::assert_snapshot!(refusal("SELECT 1; SELECT 2"), @"the query is refused: it is not one statement");
        insta::assert_snapshot!(refusal(""), @"the query is refused: it is not one statement");
    }

    #[test]
    fn what_is_not_there_is_named() {
        insta::assert_snapshot!(refusal("SELECT * FROM outcome_facts"), @"the query is wrong: there is no table or view `outcome_facts`");
        insta::assert_snapshot!(refusal("SELECT * FROM '/etc/passwd'"), @"the query is wrong: there is no table or view `/etc/passwd`");
        insta::assert_snapshot!(refusal("SELECT * FROM other.outcome_fact"), @"the query is wrong: there is no table `other.outcome_fact`");
        assert!(refusal("SELEC 1").starts_with("the query is wrong: "));
    }

    #[test]
    fn a_query_has_limits() {
        assert!(matches!(
            super::tables(&"x".repeat(MAX_SQL_BYTES + 1)),
            Err(QueryError::OverLimit { what: Limited::SqlBytes, .. })
        ));
        let long = |terms: usize| format!("SELECT {}", vec!["1"; terms].join("+"));
        assert!(super::tables(&long(MAX_SQL_TOKENS / 2)).is_ok());
        assert!(matches!(super::tables(&long(MAX_SQL_TOKENS)), Err(QueryError::OverLimit { what: Limited::SqlTokens, .. })));
        assert!(super::tables(&format!("SELECT {}1{}", "(".repeat(950), ")".repeat(950))).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_check_panic(sql in "\\PC{0,200}") {
            let _ = super::tables(&sql);
        }

        #[test]
        fn no_row_of_words_makes_the_check_panic(words in proptest::collection::vec("(SELECT|FROM|WITH|a|1|\\(|\\)|,|\\*|'|AS|JOIN|EXPLAIN|;)", 0..40)) {
            let _ = super::tables(&words.join(" "));
        }
    }
}
