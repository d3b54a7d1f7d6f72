//! Small files that would unpack to gigabytes: each is refused with its error, and its reader stays small.

use std::process::Command;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use assay_warehouse::records::{RecordColumn, RecordFile, RecordKind, record_schema};
use assay_warehouse::{Error, OUTCOME_FACT, ObjectError, ObjectLimits, ROW_ID, Row, Type, for_each_object, read, row_id};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

/// The most memory that a reader may use for a file of some KiB.
const MAX_PEAK_KIB: u64 = 400 << 10;

/// The variables that tell a child process the file to read, and the reader to use.
const FILE: &str = "BOMB_FILE";
const READER: &str = "BOMB_READER";

/// Returns the most memory that this process had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The child: reads the file, prints the refusal and its memory use.
#[test]
fn child() {
    let Ok(path) = std::env::var(FILE) else { return };
    let open = || std::fs::File::open(&path).expect("the file");
    let refusal = match std::env::var(READER).as_deref() {
        Ok("rows") => match read(&OUTCOME_FACT, open()) {
            Err(error @ (Error::TooMany { .. } | Error::TextTooLong { .. })) => format!("{}: {error}", error.code().as_str()),
            other => format!("unexpected: {:?}", other.map(|rows| rows.len())),
        },
        Ok("objects") => {
            let limits = ObjectLimits { bytes: 16 << 20, values: 200_000 };
            match for_each_object(open(), &["prompt", "messages"], limits, &mut |_, _| Ok::<(), ObjectError>(())) {
                Err(error) => error.to_string(),
                Ok(()) => "none".to_owned(),
            }
        }
        _ => match RecordFile::open(open()).and_then(|file| file.records()?.last().transpose()) {
            Err(error) => error.to_string(),
            Ok(_) => "unexpected".to_owned(),
        },
    };
    println!("refusal={refusal}\npeak={}", peak_kib());
}

/// Returns the error with which the reader of a file refuses it, in a process whose peak of memory is checked.
fn refusal(bytes: &[u8], reader: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let ran = command.args(["--exact", "child", "--nocapture"]).env(FILE, file.path()).env(READER, reader).output().expect("ran");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let told = |name: &str| text.lines().find_map(|line| line.split_once(name)).map(|(_, told)| told.to_owned());
    let peak: u64 =
        told("peak=").unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&ran.stderr))).parse().expect("KiB");
    assert!(peak < MAX_PEAK_KIB, "{peak} KiB for a file of {} bytes: {text}", bytes.len());
    told("refusal=").expect("a refusal")
}

fn properties() -> parquet::file::properties::WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(9).expect("a level")))
        .set_dictionary_page_size_limit(1 << 30)
        .set_data_page_size_limit(1 << 30)
}

fn file(schema: &Arc<Schema>, batches: impl IntoIterator<Item = RecordBatch>, properties: WriterProperties) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).expect("a writer");
    for batch in batches {
        writer.write(&batch).expect("written");
    }
    writer.close().expect("closed");
    bytes
}

/// The same text in every row, written once.
fn repeated(text: &str, rows: usize) -> ArrayRef {
    let values: ArrayRef = Arc::new(StringArray::from(vec![text]));
    Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; rows]), values))
}

fn texts() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// A batch of `rows` rows of the table, all the same and each with its own id, in which the column `reason` is `text`.
fn curated(rows: usize, text: &str) -> (Arc<Schema>, RecordBatch) {
    let mut row = Row::new(&OUTCOME_FACT);
    for column in OUTCOME_FACT.columns().filter(|column| !column.nullable && column.name != ROW_ID) {
        match column.kind {
            Type::Bool => row.set(column.name, true),
            Type::Int | Type::Instant => row.set(column.name, 1_i64),
            Type::Float => row.set(column.name, 1.0),
            Type::Text => row.set(column.name, "x"),
        }
        .or_else(|_| row.set(column.name, assay_manifest::Instant::from_unix_ns(1)))
        .expect("of the right type");
    }
    let id = row_id(&row).expect("an id").hex();
    let last = OUTCOME_FACT.columns().filter(|column| column.nullable && !column.key && column.kind == Type::Text).last();
    let last = last.expect("a text that is no key").name;
    let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
    for column in OUTCOME_FACT.columns() {
        let (kind, array): (_, ArrayRef) = match column.kind {
            Type::Bool => (DataType::Boolean, Arc::new(BooleanArray::from(vec![(!column.nullable).then_some(true); rows]))),
            Type::Int | Type::Instant => {
                (DataType::Int64, Arc::new(Int64Array::from(vec![(!column.nullable).then_some(1); rows])))
            }
            Type::Float => (DataType::Float64, Arc::new(Float64Array::from(vec![(!column.nullable).then_some(1.0); rows]))),
            Type::Text if column.name == last => (texts(), repeated(text, rows)),
            Type::Text if column.name == ROW_ID => (texts(), repeated(&id, rows)),
            Type::Text if column.nullable => (DataType::Utf8, Arc::new(StringArray::from(vec![None::<&str>; rows]))),
            Type::Text => (texts(), repeated("x", rows)),
        };
        fields.push(Field::new(column.name, kind, column.nullable));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    (schema.clone(), RecordBatch::try_new(schema, arrays).expect("a batch"))
}

#[test]
fn a_huge_text_in_many_rows_of_a_curated_file_is_refused() {
    let text = "a".repeat(200 << 10);
    let (schema, batch) = curated(8 << 10, &text);
    let bytes = file(&schema, [batch], properties().build());
    assert!(bytes.len() < 100 << 10, "{}", bytes.len());
    let refused = refusal(&bytes, "rows");
    assert!(refused.starts_with("parquet_too_large: a file of table `outcome_fact` gives more than "), "{refused}");
    let (schema, batch) = curated(1, &"a".repeat(2 << 20));
    let refused = refusal(&file(&schema, [batch], properties().build()), "rows");
    assert!(refused.starts_with("parquet_too_large: column `outcome_fact.") && refused.contains("2097152 bytes"), "{refused}");
}

#[test]
fn a_page_that_unpacks_to_much_is_refused() {
    let text = "a".repeat(300 << 20);
    let (schema, batch) = curated(1, &text);
    let bytes = file(&schema, [batch], properties().build());
    assert!(bytes.len() < 100 << 10, "{}", bytes.len());
    insta::assert_snapshot!(refusal(&bytes, "rows"), @"parquet_too_large: a file of table `outcome_fact` gives more than 268435456 bytes of pages at a time");
}

#[test]
fn more_equal_rows_than_their_file_can_have_are_refused() {
    let (schema, batch) = curated(100_000, "x");
    let bytes = file(&schema, std::iter::repeat_n(batch, 9), properties().set_max_row_group_row_count(Some(100_000)).build());
    assert!(bytes.len() < 200 << 10, "{}", bytes.len());
    let refused = refusal(&bytes, "rows");
    assert!(refused.starts_with("parquet_too_large: ") && refused.ends_with(" bytes of rows"), "{refused}");
}

#[test]
fn texts_that_repeat_the_one_before_are_refused() {
    let (schema, batch) = curated(4, "x");
    let column = OUTCOME_FACT.columns().find(|column| column.kind == Type::Text && !column.nullable).expect("a text").name;
    let path = ColumnPath::from(column);
    let properties =
        properties().set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, Encoding::DELTA_BYTE_ARRAY);
    let error = read(&OUTCOME_FACT, file(&schema, [batch], properties.build())).expect_err("refused");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    insta::assert_snapshot!(cause, @"its pages cannot be read: a page is encoded as differences between texts");
}

#[test]
fn a_huge_text_in_many_records_is_unpacked_a_few_rows_at_a_time() {
    let rows = 8 << 10;
    let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
    for column in RecordColumn::ALL {
        let (kind, array): (_, ArrayRef) = match column.kind() {
            RecordKind::Int if column.nullable() => (DataType::Int64, Arc::new(Int64Array::from(vec![None; rows]))),
            RecordKind::Int => (DataType::Int64, Arc::new(Int64Array::from(vec![1; rows]))),
            RecordKind::Word | RecordKind::Text if *column == RecordColumn::Error => {
                (texts(), repeated(&"a".repeat(200 << 10), rows))
            }
            RecordKind::Word | RecordKind::Text => (texts(), repeated("x", rows)),
            RecordKind::Ints => {
                let kind = record_schema().field(*column as usize).data_type().clone();
                let DataType::List(item) = &kind else { panic!("a list") };
                let mut lists = ListBuilder::new(Int64Builder::new()).with_field(item.clone());
                (0..rows).for_each(|_| lists.append(true));
                (kind.clone(), Arc::new(lists.finish()))
            }
        };
        fields.push(Field::new(column.name(), kind, column.nullable()));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).expect("a batch");
    // Its words are not in the list, which is detected once a batch is unpacked: that batch is small.
    insta::assert_snapshot!(refusal(&file(&schema, [batch], properties().build()), "records"), @"record 0 of the file is not valid");
}

/// A file of one column.
fn column(name: &str, column: ArrayRef, properties: WriterProperties) -> Vec<u8> {
    let schema = Arc::new(Schema::new(vec![Field::new(name, column.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![column]).expect("a batch");
    file(&schema, [batch], properties)
}

/// Lists of numbers, each of so many.
fn lists(items: usize, rows: usize) -> ArrayRef {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for _ in 0..rows {
        lists.values().append_slice(&vec![7; items]);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

#[test]
fn a_huge_text_in_many_rows_of_a_dataset_takes_the_memory_of_one() {
    // More than this process may have, if each row had its own: with views, a row is as large as its text, and is dropped before the next.
    let bytes = column("prompt", repeated(&"a".repeat(1 << 20), 450), properties().build());
    assert!(bytes.len() < 100 << 10, "{}", bytes.len());
    assert_eq!(refusal(&bytes, "objects"), "none");
    let bytes = column("prompt", repeated(&"a".repeat(17 << 20), 130), properties().build());
    insta::assert_snapshot!(refusal(&bytes, "objects"), @"row 1 has more than 16777216 bytes of text");
    let bytes = column("prompt", repeated(&"a".repeat(300 << 20), 1), properties().build());
    insta::assert_snapshot!(refusal(&bytes, "objects"), @"the file unpacks to more than 268435456 bytes of pages at a time");
}

#[test]
fn a_row_of_very_many_values_is_refused_before_they_are_in_memory() {
    let properties = || properties().set_data_page_row_count_limit(usize::MAX);
    let bytes = column("messages", lists(300_000, 3), properties().build());
    assert!(bytes.len() < 100 << 10, "{}", bytes.len());
    insta::assert_snapshot!(refusal(&bytes, "objects"), @"row 1 has more than 200000 values");
    let bytes = column("messages", lists(16 << 20, 1), properties().build());
    insta::assert_snapshot!(refusal(&bytes, "objects"), @"the file unpacks to more than 8388608 values of pages at a time");
}
