//! Files of records: written records are read back unchanged, equal records give equal bytes, and bad bytes are refused with an
//! error.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, Int64Array, ListArray, RecordBatch};
use assay_manifest::Digest;
use assay_record::{Chunk, Outcome, Phase, Record, TokenSource, UsageFault};
use assay_warehouse::records::{MAX_CHUNKS, RecordColumn, RecordError, RecordFile, RecordKind, RecordWriter, record_schema};
use proptest::prelude::*;

fn file(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, 2, 1).expect("a writer");
    for record in records {
        writer.write(record).expect("a record");
    }
    let written = writer.finish().expect("a file");
    assert_eq!((written.rows, written.bytes), (records.len() as u64, bytes.len() as u64));
    assert_eq!(written.digest, Digest::compute(&bytes));
    bytes
}

fn read(bytes: Vec<u8>) -> Result<Vec<Record>, RecordError> {
    RecordFile::open(bytes)?.records()?.collect()
}

/// A record in which everything has a value.
fn full_record() -> Record {
    Record {
        global_index: 7,
        session: Some(20),
        turn: Some(21),
        stream: Some(26),
        session_turns: Some(22),
        session_done: Some(27),
        session_start_ns: Some(-23),
        session_pauses_ns: Some(24),
        planned_ns: Some(25),
        phase: Phase::Measured,
        request_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
        intended_ns: Some(-5),
        ready_ns: Some(-4),
        dequeued_ns: Some(1),
        connect_start_ns: Some(2),
        connect_end_ns: Some(3),
        sent_ns: Some(4),
        write_done_ns: Some(5),
        first_byte_ns: Some(6),
        first_token_ns: Some(7),
        first_content_ns: Some(8),
        last_token_ns: Some(9),
        end_ns: Some(10),
        outcome: Outcome::Ok,
        http_status: Some(200),
        finish_reason: Some("stop".to_owned()),
        error: Some("none ü".to_owned()),
        request_bytes: 11,
        response_bytes: 12,
        input_tokens_requested: Some(19),
        input_tokens: u32::MAX,
        input_tokens_endpoint: Some(13),
        cached_tokens: Some(14),
        output_tokens_requested: Some(15),
        output_tokens: Some(16),
        output_source: TokenSource::Usage,
        output_tokens_claimed: Some(-21),
        usage_fault: UsageFault::OutputNotACount,
        reasoning_tokens: Some(17),
        accepted_prediction_tokens: Some(20),
        first_event_tokens: Some(18),
        token_events: 3,
        prompt_sha256: Some([0xab; 32]),
        response_sha256: Some([0x01; 32]),
        chunks: vec![
            Chunk { at_ns: 7, bytes: 3, tokens: Some(1) },
            Chunk { at_ns: 8, bytes: u32::MAX, tokens: None },
            Chunk { at_ns: i64::MAX, bytes: 0, tokens: Some(0) },
        ],
    }
}

#[test]
fn a_record_comes_back_whole() {
    let all = vec![
        full_record(),
        Record::default(),
        Record { chunks: vec![Chunk { at_ns: 1, bytes: 2, tokens: None }], ..full_record() },
    ];
    assert_eq!(read(file(&all)).expect("read"), all);
    let has_gaps = |records: &[Record]| RecordFile::open(file(records)).expect("opened").has_gaps(0..1);
    assert!(has_gaps(&all) && !has_gaps(&[Record::default()]) && !has_gaps(&all[2..]), "one event has no gap");
    assert_eq!(read(file(&[])).expect("read"), []);
}

#[test]
fn columns_are_as_agreed() {
    let shown: Vec<_> = record_schema()
        .fields()
        .iter()
        .map(|field| {
            format!(
                "{} {}{}",
                field.name(),
                match field.data_type() {
                    arrow_schema::DataType::List(_) => "int64 list".to_owned(),
                    kind => kind.to_string().to_lowercase(),
                },
                if field.is_nullable() { "" } else { " !" }
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join(", "), @"global_index int64 !, session int64, turn int64, stream int64, session_turns int64, session_done int64, session_start_ns int64, session_pauses_ns int64, planned_ns int64, attempt int64 !, shard int64 !, phase utf8 !, outcome utf8 !, request_id utf8 !, intended_ns int64, ready_ns int64, dequeued_ns int64, connect_start_ns int64, connect_end_ns int64, sent_ns int64, write_done_ns int64, first_byte_ns int64, first_token_ns int64, first_content_ns int64, last_token_ns int64, end_ns int64, http_status int64, finish_reason utf8, error utf8, request_bytes int64 !, response_bytes int64 !, input_tokens_requested int64, input_tokens int64 !, input_tokens_endpoint int64, cached_tokens int64, output_tokens_requested int64, output_tokens int64, output_source utf8 !, output_tokens_claimed int64, usage_fault utf8 !, reasoning_tokens int64, accepted_prediction_tokens int64, first_event_tokens int64, token_events int64 !, prompt_sha256 utf8, response_sha256 utf8, chunk_at_ns int64 list !, chunk_bytes int64 list !, chunk_tokens int64 list");
}

/// A change here changes the digest of every record file: state it in the change.
#[test]
fn equal_records_give_equal_bytes_and_those_are_golden() {
    assert_eq!(file(&[full_record(), Record::default()]), file(&[full_record(), Record::default()]));
    insta::assert_snapshot!(Digest::compute(&file(&[full_record()])), @"sha256:83836aeb4fcb0e1b288e1ac3b965547450e6703c2ffdd3773aa0e3dd1192abce");
}

#[test]
fn a_few_columns_are_read_alone() {
    let records: Vec<_> = (0..100_000)
        .map(|index| Record { global_index: index, sent_ns: (index % 3 != 0).then_some(5), ..Record::default() })
        .collect();
    let file = RecordFile::open(file(&records)).expect("opened");
    assert_eq!((file.rows(), file.rows_in(0..file.row_groups())), (100_000, 100_000));
    let mut next = 0;
    for batch in file
        .batches(&[RecordColumn::Outcome, RecordColumn::Sent, RecordColumn::GlobalIndex, RecordColumn::Shard], 0..1)
        .expect("batches")
    {
        let batch = batch.expect("a batch");
        assert_eq!(batch.first_row(), next);
        let (indices, sent) =
            (batch.ints(RecordColumn::GlobalIndex).expect("read"), batch.ints(RecordColumn::Sent).expect("read"));
        assert_eq!(batch.words::<Outcome>(RecordColumn::Outcome).expect("read"), vec![Outcome::Dropped; batch.rows()]);
        assert_eq!(batch.ints(RecordColumn::Shard).expect("read").complete().map(|shards| shards[0]), Some(1));
        for row in 0..batch.rows() {
            assert_eq!(indices.get(row), Some(next.cast_signed()));
            assert_eq!(sent.get(row), (next % 3 != 0).then_some(5));
            next += 1;
        }
        assert_eq!(sent.get(batch.rows()), None, "there is no such row");
        assert!(matches!(batch.ints(RecordColumn::End), Err(RecordError::NotRead("end_ns"))));
        assert!(matches!(batch.chunk_lists(), Err(RecordError::NotRead("chunk_at_ns"))));
    }
    assert_eq!(next, 100_000);
}

#[test]
fn many_chunks_make_more_row_groups() {
    let chunks: Vec<_> = (0..50_000).map(|at_ns| Chunk { at_ns, bytes: 4, tokens: Some(1) }).collect();
    let records: Vec<_> =
        (0..200).map(|global_index| Record { global_index, chunks: chunks.clone(), ..Record::default() }).collect();
    let file = RecordFile::open(file(&records)).expect("opened");
    assert_eq!((file.row_groups(), file.rows()), (3, 200), "four million chunks each");
    assert!(file.has_gaps(0..1) && !file.has_gaps(3..3));
    let rows: Vec<_> = (0..3).map(|group| file.rows_in(group..group + 1)).collect();
    assert_eq!(rows.iter().sum::<u64>(), 200);
    let first = file.batches(&[RecordColumn::GlobalIndex], 1..2).expect("batches").next().expect("one").expect("a batch");
    assert_eq!(first.first_row(), rows[0]);
    assert!(file.records().expect("records").zip(&records).all(|(read, written)| read.expect("a record") == *written));
}

#[test]
fn what_does_not_fit_is_refused_and_long_texts_are_cut() {
    let mut writer = RecordWriter::new(Vec::new(), 0, 0).expect("a writer");
    let large = writer.write(&Record { global_index: u64::MAX, ..Record::default() }).expect_err("refused");
    insta::assert_snapshot!(large, @"`global_index` of record 0 is 18446744073709551615, beyond what its column holds");
    let chunks = vec![Chunk { at_ns: 0, bytes: 0, tokens: None }; MAX_CHUNKS + 1];
    let many = writer.write(&Record { chunks, ..Record::default() }).expect_err("refused");
    insta::assert_snapshot!(many, @"record 0 has 1048577 token events, more than 1048576");
    assert_eq!(writer.finish().expect("a file").rows, 0, "what was refused is not written");

    let long = Record { error: Some(format!("{}ü", "x".repeat(199))), finish_reason: Some("y".repeat(99)), ..Record::default() };
    let read = read(file(&[long])).expect("read");
    assert_eq!(read[0].error, Some("x".repeat(199)), "no half letter");
    assert_eq!(read[0].finish_reason, Some("y".repeat(32)));
}

#[test]
fn what_is_no_file_of_records_is_refused() {
    for bytes in [&b""[..], b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", &[0; 100]] {
        assert!(matches!(RecordFile::open(bytes.to_vec()), Err(RecordError::Malformed(_))));
    }
    let mut other = Vec::new();
    assay_warehouse::write(&assay_warehouse::OUTCOME_FACT, Vec::new(), &mut other).expect("written");
    let error = RecordFile::open(other).expect_err("refused");
    insta::assert_snapshot!(error, @"the file is not one of records: column `run_id` stands where `global_index` should");
}

/// Replaces every number of a column, which the writer would refuse to write.
fn with_number(bytes: Vec<u8>, column: RecordColumn, number: i64) -> Vec<u8> {
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
    use parquet::arrow::arrow_writer::ArrowWriterOptions;

    let mut batches = ParquetRecordBatchReader::try_new(bytes::Bytes::from(bytes), 1024).expect("a file");
    let batch = batches.next().expect("a batch").expect("readable");
    let of_length = |length: usize| Arc::new(Int64Array::from(vec![number; length])) as ArrayRef;
    let schema = batch.schema();
    let arrays = schema.fields().iter().zip(batch.columns()).map(|(field, array)| match field.data_type() {
        _ if field.name() != column.name() => array.clone(),
        arrow_schema::DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let values = of_length(lists.values().as_primitive::<Int64Type>().len());
            Arc::new(ListArray::new(item.clone(), lists.offsets().clone(), values, lists.nulls().cloned()))
        }
        _ => of_length(array.len()),
    });
    let changed = RecordBatch::try_new(schema.clone(), arrays.collect()).expect("a batch");
    let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let mut written = Vec::new();
    let mut writer = ArrowWriter::try_new_with_options(&mut written, changed.schema(), options).expect("a writer");
    writer.write(&changed).expect("written");
    writer.close().expect("closed");
    written
}

#[test]
fn a_count_is_never_negative() {
    let whole = file(&[full_record(), full_record()]);
    let columns = [
        RecordColumn::RequestBytes,
        RecordColumn::ResponseBytes,
        RecordColumn::ReasoningTokens,
        RecordColumn::AcceptedPredictionTokens,
        RecordColumn::ChunkBytes,
    ];
    let check = |column, number| RecordFile::open(with_number(whole.clone(), column, number)).expect("a file").check_counts();
    for column in columns {
        check(column, 0).expect("a count");
        let refused = check(column, -1).expect_err("negative");
        assert!(matches!(refused, RecordError::Value { column: named, index: 0, .. } if named == column.name()), "{refused}");
        assert!(read(with_number(whole.clone(), column, -1)).is_err(), "{column:?}, as a record");
    }
    let tokens = |number| {
        let file = RecordFile::open(with_number(whole.clone(), RecordColumn::ChunkTokens, number)).expect("a file");
        let batches = file.batches(&[RecordColumn::ChunkAt, RecordColumn::ChunkTokens], 0..file.row_groups()).expect("batches");
        batches.into_iter().try_for_each(|batch| batch?.chunk_lists().map(drop))
    };
    tokens(1).expect("a count");
    assert!(matches!(tokens(-1), Err(RecordError::Value { column: "chunk_tokens", .. })));
}

#[test]
fn every_column_says_what_it_holds() {
    for column in RecordColumn::ALL {
        assert!(column.doc().trim().ends_with('.'), "{}", column.name());
        assert_eq!(column.kind() == RecordKind::Ints, column.name().starts_with("chunk_"), "{}", column.name());
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let times = prop::array::uniform11(any::<Option<i64>>());
    let small = prop::array::uniform9(any::<Option<u32>>());
    let chunk =
        (any::<i64>(), any::<u32>(), any::<Option<u32>>()).prop_map(|(at_ns, bytes, tokens)| Chunk { at_ns, bytes, tokens });
    let words = (
        prop::sample::select(Phase::ALL),
        prop::sample::select(Outcome::ALL),
        prop::sample::select(TokenSource::ALL),
        prop::sample::select(UsageFault::ALL),
    );
    let texts = (prop::option::of("[a-zü]{0,15}"), prop::option::of("[a-zü]{0,90}"));
    let digests = (any::<Option<[u8; 32]>>(), any::<Option<[u8; 32]>>());
    let session = prop::option::of(0..=i64::MAX as u64);
    let sizes = (
        any::<u128>(),
        0..=i64::MAX as u64,
        0..=i64::MAX as u64,
        any::<u32>(),
        any::<Option<u16>>(),
        any::<u32>(),
        session,
        any::<[Option<i64>; 2]>(),
    );
    (times, small, prop::collection::vec(chunk, 0..5), words, texts, digests, sizes).prop_map(
        |(times, small, chunks, words, texts, digests, sizes)| {
            let [
                intended_ns,
                dequeued_ns,
                connect_start_ns,
                connect_end_ns,
                sent_ns,
                write_done_ns,
                first_byte_ns,
                first_token_ns,
                first_content_ns,
                last_token_ns,
                end_ns,
            ] = times;
            let [
                input_tokens_requested,
                input_tokens_endpoint,
                cached_tokens,
                output_tokens_requested,
                output_tokens,
                reasoning_tokens,
                accepted_prediction_tokens,
                first_event_tokens,
                turn,
            ] = small;
            let [session_start_ns, session_pauses_ns] = sizes.7;
            Record {
                global_index: sizes.1,
                session: sizes.6,
                turn,
                stream: turn,
                session_turns: turn,
                session_done: turn,
                session_start_ns,
                session_pauses_ns,
                planned_ns: session_start_ns,
                phase: words.0,
                request_id: sizes.0,
                intended_ns,
                ready_ns: session_start_ns,
                dequeued_ns,
                connect_start_ns,
                connect_end_ns,
                sent_ns,
                write_done_ns,
                first_byte_ns,
                first_token_ns,
                first_content_ns,
                last_token_ns,
                end_ns,
                outcome: words.1,
                http_status: sizes.4,
                finish_reason: texts.0,
                error: texts.1,
                request_bytes: sizes.2,
                response_bytes: sizes.1,
                input_tokens_requested,
                input_tokens: sizes.3,
                input_tokens_endpoint,
                cached_tokens,
                output_tokens_requested,
                output_tokens,
                output_source: words.2,
                output_tokens_claimed: session_pauses_ns,
                usage_fault: words.3,
                reasoning_tokens,
                accepted_prediction_tokens,
                first_event_tokens,
                token_events: sizes.5,
                prompt_sha256: digests.0,
                response_sha256: digests.1,
                chunks,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_records_come_back(records in prop::collection::vec(any_record(), 0..20)) {
        prop_assert_eq!(read(file(&records)).expect("read"), records);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn changed_bytes_never_end_the_process(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static FILE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| file(&vec![full_record(); 30]));
        let mut bytes = FILE.clone();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // Either refused with an error, or records that keep the limits.
        if let Ok(records) = read(bytes) {
            prop_assert!(records.iter().all(|record| record.chunks.len() <= MAX_CHUNKS));
        }
    }
}
