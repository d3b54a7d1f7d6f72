//! Parquet files of other writers as objects: what is read of them, and what is refused.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BinaryArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Schema};
use assay_warehouse::{ObjectError, ObjectLimits, for_each_object};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use serde_json::{Map, Value, json};

const LIMITS: ObjectLimits = ObjectLimits { bytes: 1_000, values: 100 };

const WANTED: [&str; 5] = ["prompt", "messages", "conversations", "output_tokens", "question"];

/// Returns the rows of a file, or the reason why it is refused, with its causes.
fn read(bytes: &[u8], limits: ObjectLimits) -> Result<Vec<Value>, String> {
    let mut rows = Vec::new();
    let visit = &mut |row: u64, object: Map<String, Value>| {
        rows.push(Value::Object(object));
        assert_eq!(row, rows.len() as u64);
        Ok(())
    };
    let read: Result<(), ObjectError> = for_each_object(bytes.to_vec(), &WANTED, limits, visit);
    read.map(|()| rows).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    })
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes, LIMITS).expect_err("refused")
}

fn file(columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) -> Vec<u8> {
    let fields: Vec<_> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, column)| column).collect()).expect("a batch");
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    bytes
}

fn plain(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    file(columns, WriterProperties::default())
}

fn texts(rows: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(rows.to_vec()))
}

#[test]
fn files_of_other_writers_are_read() {
    let pyarrow = read(include_bytes!("data/pyarrow.parquet"), LIMITS).expect("rows");
    let messages = json!([{"content": "be brief", "role": "system"}, {"content": "hello there", "role": "user"},
        {"content": "a b c", "role": "assistant"}]);
    assert_eq!(
        pyarrow,
        [
            json!({"messages": messages, "output_tokens": 7, "id": null, "image": null}),
            json!({"messages": [{"content": "again", "role": "user"}], "id": null, "image": null})
        ],
        "members that are null, and those that JSON has no form for, are left out"
    );
    let sharegpt = read(include_bytes!("data/sharegpt.parquet"), LIMITS).expect("rows");
    let turn = |from, value| json!({"from": from, "value": value});
    assert_eq!(
        sharegpt,
        [json!({"conversations": [turn("human", "hi"), turn("gpt", "x y")]}), json!({"conversations": [turn("gpt", "no")]})]
    );
    let duckdb = read(include_bytes!("data/duckdb.parquet"), LIMITS).expect("rows");
    assert_eq!(duckdb.len(), 3);
    assert_eq!(duckdb[2], json!({"question": "row 2", "messages": [{"role": "user", "content": "q2"}], "n": null}));
    let polars = read(include_bytes!("data/polars.parquet"), LIMITS).expect("rows");
    assert_eq!(
        polars,
        [
            json!({"prompt": "p", "output_tokens": 1, "messages": [{"role": "user", "content": "é"}]}),
            json!({"prompt": "q", "output_tokens": 2, "messages": []})
        ]
    );
}

#[test]
fn other_compressions_are_refused_by_name() {
    insta::assert_snapshot!(refusal(include_bytes!("data/pyarrow-gzip.parquet")), @"the file is compressed by GZIP: pages that are not compressed, or are by SNAPPY or ZSTD, can be read");
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_writer_version(version)
                // Version 2 would encode texts as differences between them.
                .set_dictionary_page_size_limit(1 << 20)
                .build();
            let rows = read(&file(vec![("prompt", texts(&["a", "b", "a"]))], properties), LIMITS).expect("rows");
            assert_eq!(rows, [json!({"prompt": "a"}), json!({"prompt": "b"}), json!({"prompt": "a"})]);
        }
    }
}

#[test]
fn columns_that_are_not_wanted_may_be_of_any_type() {
    let date: ArrayRef = Arc::new(Date32Array::from(vec![1]));
    let rows = read(&plain(vec![("day", date.clone()), ("prompt", texts(&["a"]))]), LIMITS).expect("rows");
    assert_eq!(rows, [json!({"prompt": "a", "day": null})]);
    insta::assert_snapshot!(refusal(&plain(vec![("prompt", date)])), @"the column `prompt` is of the type Date32: texts, numbers, booleans, and lists and structs of them can be read");
    insta::assert_snapshot!(refusal(&plain(vec![("prompt", texts(&["a"])), ("prompt", texts(&["b"]))])), @"the column `prompt` is there twice");
}

#[test]
fn numbers_and_bytes_are_read_as_they_are_meant() {
    let number: ArrayRef = Arc::new(Float64Array::from(vec![0.5, f64::NAN]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![b"a".as_slice(), "é".as_bytes()]));
    let rows = read(&plain(vec![("prompt", bytes), ("output_tokens", number)]), LIMITS).expect("rows");
    assert_eq!(rows, [json!({"prompt": "a", "output_tokens": 0.5}), json!({"prompt": "é"})]);
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![b"a".as_slice(), &[0xff]]));
    insta::assert_snapshot!(refusal(&plain(vec![("prompt", bytes)])), @"row 2 has a text that is not UTF-8");
}

#[test]
fn a_row_has_limits() {
    let long = "a".repeat(1_001);
    insta::assert_snapshot!(refusal(&plain(vec![("prompt", texts(&["a", &long]))])), @"row 2 has more than 1000 bytes of text");
    let mut lists = ListBuilder::new(StringBuilder::new());
    (0..100).for_each(|_| lists.values().append_value("a"));
    lists.append(true);
    let many: ArrayRef = Arc::new(lists.finish());
    insta::assert_snapshot!(refusal(&plain(vec![("messages", many)])), @"row 1 has more than 100 values");
}

#[test]
fn what_is_not_parquet_is_refused() {
    insta::assert_snapshot!(refusal(b"{\"prompt\": \"a row of JSON Lines\"}\n"), @"the file is not a Parquet file that can be read: it does not begin and end with the bytes `PAR1`");
    insta::assert_snapshot!(refusal(b"PAR1"), @"the file is not a Parquet file that can be read: its pages cannot be read: the file is too short");
    let mut bytes = plain(vec![("prompt", texts(&["a"]))]);
    bytes.truncate(bytes.len() / 2);
    insta::assert_snapshot!(refusal(&bytes), @"the file is not a Parquet file that can be read: it does not begin and end with the bytes `PAR1`");
    insta::assert_snapshot!(refusal(b"PAR1\0\0\x10\0\0\0PAR1"), @"the file is not a Parquet file that can be read: its pages cannot be read: its footer is longer than the file");
    insta::assert_snapshot!(refusal(&[b"PAR1".as_slice(), &vec![0; 32 << 20], &[0, 0, 0, 2], b"PAR1"].concat()), @"the file unpacks to more than 16777216 bytes of its footer");
}

#[test]
fn a_footer_whose_row_groups_have_other_rows_is_refused() {
    // 864 bytes, without a column that is read: eight thousand million empty rows.
    let refused = refusal(include_bytes!("data/other-rows-in-groups.parquet"));
    insta::assert_snapshot!(refused, @"the file is not a Parquet file that can be read: its footer states 2 rows, and 8835233402 in its row groups");
}

/// Returns a file with a footer, of which only the beginning is valid: a version and a list of elements, each with so many within it.
fn with_schema(elements: u32, children: u8) -> Vec<u8> {
    let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
    let mut rest = elements;
    while rest >= 0x80 {
        footer.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    footer.push(rest as u8);
    // The field 4, a name of one byte, and the field 5, the number of elements within it.
    (0..elements).for_each(|_| footer.extend([0x48, 0x01, b'x', 0x15, children << 1, 0x00]));
    let length = u32::try_from(footer.len()).expect("short").to_le_bytes();
    [b"PAR1".as_slice(), &footer, &length, b"PAR1"].concat()
}

#[test]
fn a_schema_without_an_end_is_refused_before_it_is_descended() {
    insta::assert_snapshot!(refusal(&with_schema(30_000, 1)), @"the file unpacks to more than 64 levels of lists and structs");
    insta::assert_snapshot!(refusal(&with_schema(50_000, 0)), @"the file unpacks to more than 40000 columns, lists and structs");
    assert!(refusal(&with_schema(10, 1)).starts_with("the file is not a Parquet file that can be read: "));
}

#[test]
fn structs_with_very_many_members_are_refused() {
    let fields: Vec<_> = (0..300).map(|place| Arc::new(Field::new(format!("m{place}"), DataType::Int64, true))).collect();
    let columns = fields.iter().map(|field| (field.clone(), Arc::new(Int64Array::from(vec![1])) as ArrayRef)).collect::<Vec<_>>();
    let wide: ArrayRef = Arc::new(StructArray::from(columns));
    insta::assert_snapshot!(refusal(&plain(vec![("messages", wide)])), @"the columns that are read have 300 members, more than 256");
}

#[test]
fn no_changed_byte_ends_the_reader() {
    let bytes = include_bytes!("data/pyarrow.parquet");
    for place in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = bytes.to_vec();
            changed[place] ^= change;
            let _ = read(&changed, LIMITS);
        }
    }
}
