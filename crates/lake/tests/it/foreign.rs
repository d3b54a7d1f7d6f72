//! Other projects' readers read the rows that were written.
//!
//! They are installed by `tests/foreign/install.sh FOLDER`, and used if `ASSAY_TEST_FOREIGN=FOLDER` is set. Otherwise, only the
//! expectation is computed.

use std::path::PathBuf;
use std::process::Command;

use assay_lake::CHECKPOINT_INTERVAL;
use assay_warehouse::{Row, TABLES, Table, Type, Value};
use serde_json::{Value as Json, json};

use crate::support::{OWN, SHARED, TestStore, row};

/// More runs than a checkpoint holds, so that readers read one and the commits after it.
const RUNS: u64 = CHECKPOINT_INTERVAL + 3;

fn rows(table: &'static Table) -> Vec<Row> {
    let shared =
        SHARED.iter().filter(|(shared, _)| *shared == table).flat_map(|(_, rows)| (0..*rows).map(|seed| row(table, 0, seed)));
    let own = OWN.iter().filter(|(own, _)| *own == table).flat_map(|(_, rows)| {
        let rows = *rows;
        (1..=RUNS).flat_map(move |run| (0..rows).map(move |seed| row(table, run, seed)))
    });
    shared.chain(own).collect()
}

fn sum(kind: Type, values: &[&Value]) -> Json {
    let whole = |value: &&Value| match value {
        Value::Bool(value) => i64::from(*value),
        Value::Int(value) => *value,
        Value::Instant(value) => value.unix_ns(),
        _ => 0,
    };
    match kind {
        Type::Text => Json::Null,
        Type::Float => values.iter().map(|value| if let Value::Float(value) = value { *value } else { 0.0 }).sum::<f64>().into(),
        // Instants of many rows add up to more than 64 bits hold.
        Type::Bool | Type::Int | Type::Instant => {
            let sum: i128 = values.iter().map(whole).map(i128::from).sum();
            serde_json::from_str(&sum.to_string()).expect("a number")
        }
    }
}

fn expected(place: &TestStore) -> Json {
    let versions = place.lake.latest().expect("versions");
    let tables = TABLES.iter().map(|table| {
        let rows = rows(table);
        let columns = table.columns().map(|column| {
            let values: Vec<_> = rows.iter().filter_map(|row| row.get(column.name)).collect();
            let kind = match column.kind {
                Type::Bool => "bool",
                Type::Int | Type::Instant => "int64",
                Type::Float => "float64",
                Type::Text => "text",
            };
            let nulls = values.iter().filter(|value| ***value == Value::Null).count();
            json!({ "name": column.name, "type": kind, "nullable": column.nullable, "nulls": nulls, "sum": sum(column.kind, &values) })
        });
        let version = versions.get(table.name).expect("a version").0;
        (table.name.to_owned(), json!({ "rows": rows.len(), "version": version, "columns": columns.collect::<Vec<_>>() }))
    });
    json!({ "tables": tables.collect::<serde_json::Map<_, _>>() })
}

#[test]
fn foreign_readers_see_what_was_written() {
    let place = TestStore::new();
    for run in 1..=RUNS {
        place.commit(run);
    }
    let expected = expected(&place);
    assert_eq!(expected["tables"]["outcome_fact"]["rows"], 40 * RUNS);
    let Some(folder) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: nothing foreign was asked");
        return;
    };
    let file = place.root().join("expected.json");
    std::fs::write(&file, expected.to_string()).expect("written");
    let ran = Command::new(folder.join("venv/bin/python"))
        .arg(folder.join("lake.py"))
        .args([&place.root().join("warehouse"), &file])
        .output()
        .expect("python");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    println!("{said}");
    assert!(ran.status.success(), "{said}");
}
