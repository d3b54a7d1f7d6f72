//! Queries: the data that they read, the operations that are refused, and the repeatability of their bytes.

use std::time::Duration;

use assay_lake::{Error, Reading};
use assay_query::{Error as Failed, LimitedResource, Limits, MAX_SQL_TOKENS, Query, QueryError, ResultTable, VIEWS};
use assay_warehouse::{OUTCOME_FACT, TABLES};

use crate::support::{TestStore, put, row, run_files};

fn ask_with(place: &TestStore, sql: &str, limits: Limits) -> Result<ResultTable, Error> {
    let query = Query::parse(sql)?;
    let files = run_files(&place.store, 1);
    Reading::from_files(&place.store, &files, &query, &place.scratch)?.run_query(&query, limits)
}

fn ask(place: &TestStore, sql: &str) -> Result<ResultTable, Error> {
    ask_with(place, sql, Limits::default())
}

fn csv(sql: &str) -> String {
    ask(&TestStore::new(), sql).expect("a result").csv()
}

fn refusal(sql: &str) -> String {
    ask(&TestStore::new(), sql).expect_err("refused").to_string()
}

#[test]
fn values_come_back_as_they_were_written() {
    let sql = "SELECT run_id, point_id, attempt, value, valid FROM outcome_fact WHERE attempt >= 1003 ORDER BY attempt LIMIT 3";
    insta::assert_snapshot!(csv(sql), @r"
    run_id,point_id,attempt,value,valid
    run-1,point-3,1003,100.3,false
    run-1,point-4,1004,,true
    run-1,point-5,1005,100.5,false
    ");
}

#[test]
fn rows_stand_in_the_order_of_the_file() {
    let rows = csv("SELECT attempt FROM outcome_fact");
    let expected: Vec<_> =
        std::iter::once("attempt".to_owned()).chain((1000..1040).map(|number: i64| number.to_string())).collect();
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn views_join_what_belongs_together() {
    let sql = "SELECT benchmark_case_id, workload, cpu_model, \"cluster\", status FROM runs ORDER BY benchmark_case_id";
    insta::assert_snapshot!(csv(sql), @r"
    benchmark_case_id,workload,cpu_model,cluster,status
    case-0.local.default,workload 0 ü,cpu_model 0 ü,cluster 0 ü,status 0 ü
    case-1.local.default,workload 1 ü,cpu_model 0 ü,cluster 0 ü,status 1 ü
    ");
    for view in VIEWS {
        let place = TestStore::new();
        assert!(ask(&place, &format!("SELECT * FROM {}", view.name)).is_ok(), "{}", view.name);
        let mut tables: Vec<_> = Query::parse(view.sql).expect("a query").tables().map(|table| table.name).collect();
        let mut named = view.tables.to_vec();
        tables.sort_unstable();
        named.sort_unstable();
        assert_eq!(tables, named, "{}", view.name);
    }
}

#[test]
fn the_tables_describe_themselves() {
    let names = csv("SELECT table_name FROM information_schema.tables WHERE table_schema = 'warehouse' ORDER BY table_name");
    let mut expected: Vec<_> = TABLES.iter().map(|table| table.name).chain(VIEWS.iter().map(|view| view.name)).collect();
    expected.sort_unstable();
    assert_eq!(names.lines().skip(1).collect::<Vec<_>>(), expected);
    let columns = csv("SELECT count(*) FROM information_schema.columns WHERE table_name = 'outcome_fact'");
    assert_eq!(columns, format!("count(*)\n{}\n", OUTCOME_FACT.columns().count()));
}

#[test]
fn a_plan_can_be_seen_and_names_no_place() {
    let plan = ask(&TestStore::new(), "EXPLAIN SELECT count(*) FROM outcome_fact WHERE value > 1").expect("a plan").text();
    assert!(plan.contains("TableScan: outcome_fact"), "{plan}");
    assert!(!plan.contains("scratch"), "{plan}");
}

#[test]
fn what_hides_in_a_query_is_refused_too() {
    let place = TestStore::new();
    for sql in [
        "SELECT * INTO other FROM outcome_fact",
        "WITH x AS (INSERT INTO outcome_fact SELECT * FROM outcome_fact RETURNING *) SELECT * FROM x",
        "SELECT * FROM outcome_fact; DROP TABLE outcome_fact",
        "SHOW TABLES",
        "DESCRIBE outcome_fact",
        "BEGIN",
        "PREPARE x AS SELECT 1",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM \"/etc/passwd\"",
    ] {
        let error = ask(&place, sql).expect_err(sql);
        assert!(
            matches!(error, Error::Query(Failed::Query(QueryError::Refused { .. } | QueryError::Invalid { .. }))),
            "{sql}: {error:?}"
        );
    }
}

#[test]
fn what_differs_each_time_is_refused_by_name() {
    insta::assert_snapshot!(refusal("SELECT random()"), @"the query is refused: `random` gives another value each time");
    insta::assert_snapshot!(refusal("SELECT count(*) FROM outcome_fact WHERE value > random()"), @"the query is refused: `random` gives another value each time");
    insta::assert_snapshot!(refusal("SELECT (SELECT max(uuid()) FROM outcome_fact)"), @"the query is refused: `uuid` gives another value each time");
    insta::assert_snapshot!(refusal("SELECT now()"), @"the query is refused: `now` gives another value each time");
}

#[test]
fn errors_name_what_is_wrong() {
    let error = refusal("SELECT median_ns FROM outcome_fact");
    assert!(error.starts_with("the query is invalid: ") && error.contains("median_ns"), "{error}");
    let error = refusal("SELECT nonsense(1)");
    assert!(error.starts_with("the query is invalid: ") && error.contains("nonsense"), "{error}");
    let error = refusal("SELECT 1 / (attempt - attempt) FROM outcome_fact");
    assert!(error.starts_with("the query failed: "), "{error}");
}

#[test]
fn a_query_has_limits() {
    let place = TestStore::new();
    let few = Limits { rows: 39, ..Limits::default() };
    let error = ask_with(&place, "SELECT * FROM outcome_fact", few).expect_err("one too many");
    insta::assert_snapshot!(error, @"the query goes over its limit of 39 rows");
    let enough = Limits { rows: 40, ..Limits::default() };
    assert!(ask_with(&place, "SELECT * FROM outcome_fact", enough).is_ok());

    let little = Limits { memory_bytes: 1 << 20, ..Limits::default() };
    let sql = "SELECT count(*) FROM (SELECT DISTINCT a.value AS x, b.value AS y FROM generate_series(1, 2000) AS a, generate_series(1, 2000) AS b)";
    let error = ask_with(&place, sql, little).expect_err("too much memory");
    insta::assert_snapshot!(error, @"the query goes over its limit of 1 MiB of memory");

    let short = Limits { time: Duration::from_millis(1), ..Limits::default() };
    let long = "SELECT count(*) FROM generate_series(1, 30000) AS a, generate_series(1, 30000) AS b WHERE a.value + b.value < 0";
    let error = ask_with(&place, long, short).expect_err("too long");
    insta::assert_snapshot!(error, @"the query goes over its limit of 1 ms");
}

#[test]
fn a_column_says_which_column_of_a_table_it_is() {
    let place = TestStore::new();
    let of = |sql: &str| {
        let columns = ask(&place, sql).expect(sql).columns;
        columns
            .into_iter()
            .map(|column| column.table_column.map_or("-".to_owned(), |from| from.column))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let all = OUTCOME_FACT.columns().map(|column| column.name).collect::<Vec<_>>().join(" ");
    assert_eq!(of("SELECT * FROM outcome_fact"), all);
    assert_eq!(of("SELECT row_id, value AS x, value * 1 AS value, abs(value) FROM outcome_fact"), "row_id value - -");
    assert_eq!(of("SELECT o.value, r.status FROM outcomes o JOIN runs r ON o.run_id = r.run_id ORDER BY o.unit"), "value status");
    assert_eq!(of("SELECT x FROM (SELECT value + 1 AS x FROM outcome_fact) WHERE x > 2"), "-");
    assert_eq!(of("WITH a AS (SELECT DISTINCT row_id AS id FROM outcome_fact) SELECT id FROM a LIMIT 3"), "row_id");
    assert_eq!(of("SELECT metric, max(value) AS value FROM outcome_fact GROUP BY metric"), "metric -");
    assert_eq!(of("SELECT value, row_number() OVER (ORDER BY row_id) FROM outcome_fact"), "value -");
    assert_eq!(of("SELECT value FROM outcome_fact UNION ALL SELECT value FROM outcomes"), "value");
    assert_eq!(of("SELECT value FROM outcome_fact UNION ALL SELECT 1.0"), "-");
    assert_eq!(of("SELECT attempt AS value FROM outcome_fact"), "attempt");
    assert_eq!(of("SELECT value FROM outcome_fact WHERE row_id IN (SELECT row_id FROM outcomes)"), "value");
    assert_eq!(
        of(
            "SELECT CASE WHEN true THEN value END AS value, coalesce(value, 0.0), CAST(value AS DOUBLE) FROM outcome_fact LIMIT 1"
        ),
        "- - -"
    );
}

/// Allocations outside of the engine's own accounting are bounded by the process that the query runs in.
#[test]
fn a_query_that_makes_a_huge_text_is_ended() {
    let place = TestStore::new();
    let doubled = (0..40).fold("SELECT 'x' AS s".to_owned(), |inner, _| format!("SELECT s||s AS s FROM ({inner}) LIMIT 1"));
    for sql in [
        "SELECT length(repeat('x', 2147483647)) + length(repeat('y', 2147483646))",
        &format!("SELECT length(s) FROM ({doubled})"),
    ] {
        let error = ask(&place, sql).expect_err(sql);
        let is_named = matches!(
            &error,
            Error::Query(Failed::Query(
                QueryError::OverLimit { what: LimitedResource::Memory, .. }
                    | QueryError::Failed { .. }
                    | QueryError::Invalid { .. }
            ))
        );
        assert!(is_named, "{sql}: {error:?}");
    }
}

#[test]
fn the_deepest_query_gives_a_result_or_an_error() {
    let place = TestStore::new();
    // The engine is not optimised for tests, and the machine may be busy.
    let patient = Limits { time: Duration::from_mins(10), ..Limits::default() };
    let ask = |place: &TestStore, sql: &str| ask_with(place, sql, patient);
    let chain = |operator: &str| format!("SELECT {}", vec!["1"; MAX_SQL_TOKENS / 2 - 2].join(operator));
    assert_eq!(ask(&place, &chain("+")).expect("a sum").rows.len(), 1);
    let columns = format!("SELECT count(*) FROM outcome_fact WHERE {}", vec!["attempt=1"; MAX_SQL_TOKENS / 4 - 4].join(" OR "));
    assert!(ask(&place, &columns).is_ok());
    let unions = vec!["SELECT 1"; MAX_SQL_TOKENS / 3 - 1].join(" UNION ");
    let _ = ask(&place, &unions);
    let nested = format!("SELECT {}1{}", "abs(".repeat(40), ")".repeat(40));
    let _ = ask(&place, &nested);
}

#[test]
fn a_table_that_was_not_opened_is_named() {
    let place = TestStore::new();
    let narrow = Query::parse("SELECT 1 FROM workload_dim").expect("a query");
    let reading = Reading::from_files(&place.store, &run_files(&place.store, 1), &narrow, &place.scratch).expect("a reading");
    let wide = Query::parse("SELECT count(*) FROM outcome_fact").expect("a query");
    let error = reading.run_query(&wide, Limits::default()).expect_err("not opened");
    insta::assert_snapshot!(error, @"the query reads table `outcome_fact`, which was not opened for it");
}

/// Sums of doubles depend on the order in which they are added up, so equal bytes show that there is one order.
#[test]
fn a_result_is_the_same_bytes_each_time() {
    let place = TestStore::new();
    let sql = "SELECT metric, statistic, sum(value), avg(value), stddev(value), median(value), count(DISTINCT point_id), \
               corr(value, attempt) FROM outcomes GROUP BY metric, statistic";
    let rows = |run: u64| (0..9_000).map(move |seed| row(&OUTCOME_FACT, run, seed));
    let query = Query::parse(sql).expect("a query");
    let mut results = Vec::new();
    let mut files: Vec<_> =
        (1..=3).flat_map(|run| run_files(&place.store, run)).filter(|file| file.table != "outcome_fact").collect();
    files.extend((1..=3).map(|run| put(&place.store, &OUTCOME_FACT, rows(run))));
    for turn in 0..4 {
        files.rotate_left(turn);
        let reading = Reading::from_files(&place.store, &files, &query, &place.scratch).expect("a reading");
        let table = reading.run_query(&query, Limits::default()).expect("a result");
        results.push((table.csv(), table.json_lines(), table.text(), table.parquet().expect("written")));
    }
    assert_eq!(results[0].0.lines().count(), 9_001);
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "the order in which files are named changes nothing");
}
