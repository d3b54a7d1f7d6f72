//! Files of every table: their schemas, their bytes, their rows, and the handling of bad ones.

use assay_manifest::{Digest, Instant};
use assay_warehouse::{
    CLUSTER_REGION_DIM, Error, OUTCOME_FACT, ROW_ID, Row, TABLES, Table, Type, Value, arrow_schema, find, for_each_row, read,
    write,
};
use proptest::prelude::*;

/// A sealed row in which every column has a value that depends on `seed`; nullable ones are null in every third.
fn row(table: &'static Table, seed: i64) -> Row {
    let mut row = Row::new(table);
    for (index, column) in (0_i64..).zip(table.columns()) {
        let value = match column.kind {
            _ if column.nullable && (seed + index) % 3 == 0 => Value::Null,
            Type::Bool => Value::Bool((seed + index) % 2 == 0),
            Type::Int => Value::Int(seed * 1_000 + index),
            Type::Float => Value::Float(seed as f64 + index as f64 / 7.0),
            Type::Text if column.name.ends_with("_digest") => Value::from(Digest::compute(&(seed + index).to_le_bytes())),
            Type::Text => Value::Text(format!("{} {seed} ü", column.name)),
            Type::Instant => Value::Instant(Instant::from_unix_ns(1_700_000_000_123_456_789 + seed)),
        };
        row.set(column.name, value).expect("of the right type");
    }
    row.seal().expect("complete")
}

fn rows(table: &'static Table, count: i64) -> Vec<Row> {
    (0..count).map(|seed| row(table, seed)).collect()
}

fn file(table: &'static Table, rows: Vec<Row>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = write(table, rows, &mut bytes).expect("written");
    assert_eq!((written.bytes, written.digest), (bytes.len() as u64, Digest::compute(&bytes)));
    bytes
}

#[test]
fn schemas_are_as_agreed() {
    let schema = |table: &&'static Table| {
        let field = |field: &arrow_schema::FieldRef| {
            let metadata = field.metadata();
            let mark = |name: &str| metadata.get(name).map(|value| format!(" [{name} {value}]")).unwrap_or_default();
            let null = if field.is_nullable() { "null" } else { "not null" };
            format!("  {} {} {null}{}{}\n", field.name(), field.data_type(), mark("unit"), mark("key"))
        };
        format!("{} ({})\n{}", table.name, table.grain, arrow_schema(table).fields().iter().map(field).collect::<String>())
    };
    insta::assert_snapshot!(TABLES.iter().map(schema).collect::<String>());
}

#[test]
fn every_table_comes_back_as_it_was_written() {
    for table in TABLES {
        let rows = rows(table, 20);
        assert_eq!(read(table, file(table, rows.clone())).expect("read"), rows, "{}", table.name);
    }
}

#[test]
fn an_empty_file_is_a_file() {
    assert_eq!(read(&OUTCOME_FACT, file(&OUTCOME_FACT, Vec::new())).expect("read"), Vec::new());
}

#[test]
fn equal_rows_give_equal_bytes() {
    for table in TABLES {
        assert_eq!(file(table, rows(table, 50)), file(table, rows(table, 50)), "{}", table.name);
    }
    let reversed = rows(&OUTCOME_FACT, 50).into_iter().rev().collect();
    assert_ne!(file(&OUTCOME_FACT, rows(&OUTCOME_FACT, 50)), file(&OUTCOME_FACT, reversed), "the order is the caller's");
}

/// A change here changes the digest of every curated file: state it in the change, and regenerate the files that depend on it.
#[test]
fn the_bytes_are_golden() {
    let digest = Digest::compute(&file(&CLUSTER_REGION_DIM, rows(&CLUSTER_REGION_DIM, 3)));
    insta::assert_snapshot!(digest, @"sha256:b30effb44c9f737a3240b84cbdc8bea9bd694ccb193a0b9da633220f20a0813c");
}

#[test]
fn many_rows_stream_in_bounded_row_groups() {
    let count = 140_000;
    let mut bytes = Vec::new();
    let written = write(&CLUSTER_REGION_DIM, (0..count).map(|seed| row(&CLUSTER_REGION_DIM, seed)), &mut bytes).expect("written");
    assert_eq!(written.rows, 140_000);
    let mut seen = 0;
    for_each_row(&CLUSTER_REGION_DIM, bytes, |found| {
        assert_eq!(found, row(&CLUSTER_REGION_DIM, seen));
        seen += 1;
        Ok(())
    })
    .expect("read");
    assert_eq!(seen, count);
}

#[test]
fn a_row_is_found_by_the_beginning_of_its_id() {
    let rows = rows(&OUTCOME_FACT, 100);
    let bytes = file(&OUTCOME_FACT, rows.clone());
    let id = rows[42].text(ROW_ID).expect("an id").to_owned();
    for prefix in [&id[..], &id[..12]] {
        assert_eq!(find(&OUTCOME_FACT, bytes.clone(), prefix).expect("found"), [rows[42].clone()]);
    }
    let with_that_digit = rows.iter().filter(|row| row.text(ROW_ID).is_some_and(|other| other.starts_with(&id[..1]))).count();
    assert_eq!(find(&OUTCOME_FACT, bytes.clone(), &id[..1]).expect("found").len(), with_that_digit);
    for bad in ["", "xyz", "AB", &"0".repeat(65)] {
        assert!(matches!(find(&OUTCOME_FACT, bytes.clone(), bad), Err(Error::BadPrefix(_))), "{bad}");
    }
}

#[test]
fn files_are_read_from_disk() {
    let mut file = tempfile::tempfile().expect("a file");
    write(&OUTCOME_FACT, rows(&OUTCOME_FACT, 3), &mut file).expect("written");
    assert_eq!(read(&OUTCOME_FACT, file).expect("read"), rows(&OUTCOME_FACT, 3));
}

#[test]
fn rows_that_may_not_stand_in_a_file_are_refused() {
    let refused = |row: Row| write(&OUTCOME_FACT, [row], Vec::new()).expect_err("refused").to_string();
    insta::assert_snapshot!(
        refused(row(&CLUSTER_REGION_DIM, 1)),
        @"a row of table `cluster_region_dim` was given to table `outcome_fact`"
    );
    insta::assert_snapshot!(
        refused(Row::new(&OUTCOME_FACT)),
        @"column `outcome_fact.run_id` has no value and may not be null"
    );
    let changed = row(&OUTCOME_FACT, 1).with("run_id", "another").expect("set");
    assert!(matches!(write(&OUTCOME_FACT, [changed], Vec::new()), Err(Error::WrongRowId { .. })));
}

#[test]
fn another_table_s_file_is_refused() {
    let error = read(&OUTCOME_FACT, file(&CLUSTER_REGION_DIM, rows(&CLUSTER_REGION_DIM, 1))).expect_err("refused");
    insta::assert_snapshot!(
        error,
        @"the file is not one of table `outcome_fact`: column `cluster` stands where `run_id` should"
    );
}

#[test]
fn what_is_no_parquet_is_refused() {
    for bytes in [&b""[..], b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", &[0; 100]] {
        let error = read(&OUTCOME_FACT, bytes.to_vec()).expect_err("refused");
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
    }
}

fn any_value(kind: Type) -> BoxedStrategy<Value> {
    match kind {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Int => any::<i64>().prop_map(Value::Int).boxed(),
        Type::Float => any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Value::Float).boxed(),
        Type::Text => any::<String>().prop_map(Value::Text).boxed(),
        Type::Instant => any::<i64>().prop_map(|ns| Value::Instant(Instant::from_unix_ns(ns))).boxed(),
    }
}

fn any_row(table: &'static Table) -> impl Strategy<Value = Row> {
    let column = |column: &'static assay_warehouse::Column| {
        let value = any_value(column.kind);
        if column.nullable { prop_oneof![Just(Value::Null), value].boxed() } else { value }
    };
    table.columns().map(column).collect::<Vec<_>>().prop_map(move |values| {
        let mut row = Row::new(table);
        for (column, value) in table.columns().zip(values) {
            row.set(column.name, value).expect("of the right type");
        }
        row.seal().expect("complete")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_rows_come_back(rows in prop::collection::vec(any_row(&OUTCOME_FACT), 0..6)) {
        prop_assert_eq!(read(&OUTCOME_FACT, file(&OUTCOME_FACT, rows.clone())).expect("read"), rows);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn changed_bytes_never_end_the_process(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static FILE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| file(&CLUSTER_REGION_DIM, rows(&CLUSTER_REGION_DIM, 30)));
        let mut bytes = FILE.clone();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // Either refused with an error, or rows that are complete and have their own ids.
        if let Ok(rows) = read(&CLUSTER_REGION_DIM, bytes) {
            prop_assert!(rows.iter().all(|row| row.text(ROW_ID).is_some()));
        }
    }
}

/// Returns the file as an older Assay would have written it before the column was added to the table.
fn without_column(bytes: Vec<u8>, column: &str) -> Vec<u8> {
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(bytes::Bytes::from(bytes), 1024).expect("a file");
    let mut batches: Vec<_> = reader.map(|batch| batch.expect("a batch")).collect();
    for batch in &mut batches {
        let place = batch.schema().index_of(column).expect("the column");
        batch.remove_column(place);
    }
    let mut older = Vec::new();
    let schema = batches.first().expect("some rows").schema();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut older, schema, None).expect("a writer");
    for batch in &batches {
        writer.write(batch).expect("written");
    }
    writer.close().expect("closed");
    older
}

#[test]
fn a_file_from_before_a_nullable_column_was_added_is_read() {
    let column = OUTCOME_FACT.columns().find(|column| column.nullable && !column.key && column.name != ROW_ID).expect("one");
    let older = without_column(file(&OUTCOME_FACT, rows(&OUTCOME_FACT, 5)), column.name);
    let expected: Vec<_> =
        rows(&OUTCOME_FACT, 5).into_iter().map(|row| row.with(column.name, Value::Null).expect("nullable")).collect();
    assert_eq!(read(&OUTCOME_FACT, older).expect("read"), expected);
    let required = OUTCOME_FACT.columns().find(|column| !column.nullable).expect("one");
    let refused =
        read(&OUTCOME_FACT, without_column(file(&OUTCOME_FACT, rows(&OUTCOME_FACT, 5)), required.name)).expect_err("refused");
    assert!(matches!(refused, Error::WrongSchema { .. }), "{refused}");
    let key = OUTCOME_FACT.columns().find(|column| column.key && column.nullable).expect("one");
    let refused =
        read(&OUTCOME_FACT, without_column(file(&OUTCOME_FACT, rows(&OUTCOME_FACT, 5)), key.name)).expect_err("refused");
    assert!(matches!(refused, Error::WrongSchema { .. }), "a key decides the ids: {refused}");
}
