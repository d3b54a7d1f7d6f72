//! Records into a Parquet file, as they come.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{Schema, SchemaRef};
use assay_record::{Outcome, Phase, Record, TokenSource, UsageFault};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::column::{RecordColumn, RecordKind};
use super::{MAX_CHUNKS, MAX_ERROR_BYTES, MAX_FINISH_REASON_BYTES, ROW_GROUP_CHUNKS, ROW_GROUP_ROWS, RecordError, Result};
use crate::WrittenFile;
use crate::write::{CREATED_BY, HashingWriter};

/// The number of rows that are encoded at a time.
const BATCH_ROWS: usize = 4 * 1024;
/// The number of chunks beyond which fewer rows are encoded.
const BATCH_CHUNKS: usize = 256 * 1024;
/// The lowest level: delta-encoded numbers are near their entropy already, and the writer is the load generator, which needs the
/// CPU.
const ZSTD_LEVEL: i32 = 1;

/// Writes the records of one shard of one attempt, in the order given, holding one row group of them in memory.
pub struct RecordWriter<W: Write + Send> {
    writer: ArrowWriter<HashingWriter<W>>,
    schema: SchemaRef,
    attempt: u32,
    shard: u32,
    rows: Rows,
    written: u64,
    chunks_in_group: usize,
}

impl<W: Write + Send> RecordWriter<W> {
    /// Returns a writer of the records of `shard` of `attempt`, both from 0, to `out`.
    pub fn new(out: W, attempt: u32, shard: u32) -> Result<Self> {
        let schema: SchemaRef =
            Arc::new(Schema::new(RecordColumn::ALL.iter().map(|column| column.read_field()).collect::<Vec<_>>()));
        let options = ArrowWriterOptions::new().with_properties(properties()?).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(HashingWriter::new(out), schema.clone(), options).map_err(failed)?;
        Ok(Self { writer, schema, attempt, shard, rows: Rows::new(), written: 0, chunks_in_group: 0 })
    }

    /// Adds a record.
    ///
    /// Fails if a number is beyond its column, there are more than [`MAX_CHUNKS`] token events, or the file cannot be written.
    /// Nothing of a refused record is written.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        let index = self.written + self.rows.count as u64;
        self.rows.add(record, self.attempt, self.shard, index)?;
        if self.rows.count >= BATCH_ROWS || self.rows.chunks >= BATCH_CHUNKS {
            self.encode()?;
        }
        Ok(())
    }

    /// Returns the number of records that were added.
    pub fn records(&self) -> u64 {
        self.written + self.rows.count as u64
    }

    /// Writes the remaining rows and the file's footer.
    pub fn finish(mut self) -> Result<WrittenFile> {
        self.encode()?;
        // `into_inner` would keep the last bytes in buffers, and lose the error of the system if they cannot be written.
        self.writer.finish().map_err(failed)?;
        Ok(self.writer.inner_mut().finish(self.written))
    }

    fn encode(&mut self) -> Result<()> {
        self.written += self.rows.count as u64;
        self.chunks_in_group += self.rows.chunks;
        let arrays = self.rows.take();
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(|error| RecordError::Write(error.into()))?;
        self.writer.write(&batch).map_err(failed)?;
        // By the number of chunks and not by their encoded size, so that equal records give equal bytes, independent of buffers.
        if self.chunks_in_group >= ROW_GROUP_CHUNKS {
            self.writer.flush().map_err(failed)?;
        }
        if self.chunks_in_group >= ROW_GROUP_CHUNKS || self.writer.in_progress_rows() == 0 {
            self.chunks_in_group = 0;
        }
        Ok(())
    }
}

fn failed(error: parquet::errors::ParquetError) -> RecordError {
    RecordError::Write(error.into())
}

/// Sets every property that shapes the bytes, so that a new default of the library changes nothing unnoticed.
fn properties() -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(failed)?;
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_dictionary_page_size_limit(256 * 1024)
        .set_data_page_size_limit(1024 * 1024)
        .set_data_page_row_count_limit(ROW_GROUP_ROWS)
        .set_write_batch_size(BATCH_ROWS)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_bloom_filter_enabled(false);
    for column in RecordColumn::ALL {
        let path = match column.kind() {
            RecordKind::Ints => ColumnPath::new(vec![column.name().into(), "list".into(), "item".into()]),
            _ => ColumnPath::from(column.name()),
        };
        properties = match column {
            RecordColumn::RequestId | RecordColumn::PromptSha256 | RecordColumn::ResponseSha256 => properties,
            column if matches!(column.kind(), RecordKind::Word | RecordKind::Text) => {
                properties.set_column_dictionary_enabled(path, true)
            }
            _ => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    Ok(properties.build())
}

/// The number of columns of whole numbers.
const INTS: usize = 37;

/// Rows that wait to be encoded, column by column; each kind of column in the order of [`RecordColumn::ALL`].
#[derive(Debug)]
struct Rows {
    ints: [Int64Builder; INTS],
    words: [Vec<i32>; 4],
    texts: [StringBuilder; 5],
    lists: [ListBuilder<Int64Builder>; 3],
    count: usize,
    chunks: usize,
}

impl Rows {
    fn new() -> Self {
        let list = |column: RecordColumn| ListBuilder::new(Int64Builder::new()).with_field(column.item());
        Self {
            ints: std::array::from_fn(|_| Int64Builder::with_capacity(BATCH_ROWS)),
            words: std::array::from_fn(|_| Vec::with_capacity(BATCH_ROWS)),
            texts: std::array::from_fn(|_| StringBuilder::new()),
            lists: [list(RecordColumn::ChunkAt), list(RecordColumn::ChunkBytes), list(RecordColumn::ChunkTokens)],
            count: 0,
            chunks: 0,
        }
    }

    fn add(&mut self, record: &Record, attempt: u32, shard: u32, index: u64) -> Result<()> {
        if record.chunks.len() > MAX_CHUNKS {
            return Err(RecordError::TooManyChunks { index, found: record.chunks.len() });
        }
        let ints = ints(record, attempt, shard, index)?;
        self.ints.iter_mut().zip(ints).for_each(|(column, value)| column.append_option(value));
        let words = [
            position(Phase::ALL, &record.phase),
            position(Outcome::ALL, &record.outcome),
            position(TokenSource::ALL, &record.output_source),
            position(UsageFault::ALL, &record.usage_fault),
        ];
        self.words.iter_mut().zip(words).for_each(|(column, word)| column.push(word));
        self.add_texts(record);
        self.add_chunks(record);
        self.count += 1;
        self.chunks += record.chunks.len();
        Ok(())
    }

    fn add_texts(&mut self, record: &Record) {
        let [request_id, finish_reason, error, prompt, response] = &mut self.texts;
        let mut digits = [0; 32];
        request_id.append_value(hex(&record.request_id.to_be_bytes(), &mut digits));
        finish_reason.append_option(record.finish_reason.as_deref().map(|text| truncate(text, MAX_FINISH_REASON_BYTES)));
        error.append_option(record.error.as_deref().map(|text| truncate(text, MAX_ERROR_BYTES)));
        let mut digits = [0; 64];
        prompt.append_option(record.prompt_sha256.map(|digest| hex(&digest, &mut digits).to_owned()));
        response.append_option(record.response_sha256.map(|digest| hex(&digest, &mut digits).to_owned()));
    }

    fn add_chunks(&mut self, record: &Record) {
        let [at, bytes, tokens] = &mut self.lists;
        let chunks = &record.chunks;
        for chunk in chunks {
            at.values().append_value(chunk.at_ns);
            bytes.values().append_value(chunk.bytes.into());
        }
        at.append(true);
        bytes.append(true);
        let said = chunks.iter().any(|chunk| chunk.tokens.is_some());
        if said {
            for chunk in chunks {
                tokens.values().append_option(chunk.tokens.map(i64::from));
            }
        }
        tokens.append(said);
    }

    /// Takes the rows as arrays, in the order of the file; none are left.
    fn take(&mut self) -> Vec<ArrayRef> {
        let [phase, outcome, source, fault] = &mut self.words;
        let words = [
            dictionary(phase, Phase::ALL),
            dictionary(outcome, Outcome::ALL),
            dictionary(source, TokenSource::ALL),
            dictionary(fault, UsageFault::ALL),
        ];
        let mut words = words.into_iter();
        let mut ints = self.ints.iter_mut().map(Int64Builder::finish);
        let mut texts = self.texts.iter_mut().map(StringBuilder::finish);
        let mut lists = self.lists.iter_mut().map(ListBuilder::finish);
        (self.count, self.chunks) = (0, 0);
        let next = |column: &RecordColumn| -> Option<ArrayRef> {
            Some(match column.kind() {
                RecordKind::Int => Arc::new(ints.next()?),
                RecordKind::Word => words.next()?,
                RecordKind::Text => Arc::new(texts.next()?),
                RecordKind::Ints => Arc::new(lists.next()?),
            })
        };
        RecordColumn::ALL.iter().filter_map(next).collect()
    }
}

/// Returns the columns of whole numbers, in the order of the file.
fn ints(record: &Record, attempt: u32, shard: u32, index: u64) -> Result<[Option<i64>; INTS]> {
    let large = |column: RecordColumn, value: u64| {
        i64::try_from(value).map(Some).map_err(|_| RecordError::TooLarge { column: column.name(), index, value: value.into() })
    };
    let small = |value: Option<u32>| value.map(i64::from);
    Ok([
        large(RecordColumn::GlobalIndex, record.global_index)?,
        record.session.map_or(Ok(None), |session| large(RecordColumn::Session, session))?,
        small(record.turn),
        small(record.stream),
        small(record.session_turns),
        small(record.session_done),
        record.session_start_ns,
        record.session_pauses_ns,
        record.planned_ns,
        Some(attempt.into()),
        Some(shard.into()),
        record.intended_ns,
        record.ready_ns,
        record.dequeued_ns,
        record.connect_start_ns,
        record.connect_end_ns,
        record.sent_ns,
        record.write_done_ns,
        record.first_byte_ns,
        record.first_token_ns,
        record.first_content_ns,
        record.last_token_ns,
        record.end_ns,
        record.http_status.map(i64::from),
        large(RecordColumn::RequestBytes, record.request_bytes)?,
        large(RecordColumn::ResponseBytes, record.response_bytes)?,
        small(record.input_tokens_requested),
        Some(record.input_tokens.into()),
        small(record.input_tokens_endpoint),
        small(record.cached_tokens),
        small(record.output_tokens_requested),
        small(record.output_tokens),
        record.output_tokens_claimed,
        small(record.reasoning_tokens),
        small(record.accepted_prediction_tokens),
        small(record.first_event_tokens),
        Some(record.token_events.into()),
    ])
}

fn position<W: PartialEq>(all: &[W], word: &W) -> i32 {
    all.iter().position(|known| known == word).and_then(|place| i32::try_from(place).ok()).unwrap_or(0)
}

fn dictionary<W: std::fmt::Display>(places: &mut Vec<i32>, all: &[W]) -> ArrayRef {
    let words: StringArray = all.iter().map(|word| Some(word.to_string())).collect();
    let keys = Int32Array::from(std::mem::replace(places, Vec::with_capacity(BATCH_ROWS)));
    // Every place is one of a word's, so this is never refused; if it were, the batch would be, because a column would be
    // missing.
    match DictionaryArray::<Int32Type>::try_new(keys, Arc::new(words)) {
        Ok(array) => Arc::new(array),
        Err(_) => Arc::new(StringArray::new_null(0)),
    }
}

/// Returns the text up to the last character that ends within `limit` bytes.
fn truncate(text: &str, limit: usize) -> &str {
    (0..=limit.min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or_default()
}

/// Returns lower-case hexadecimal digits.
fn hex<'a>(bytes: &[u8], digits: &'a mut [u8]) -> &'a str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    std::str::from_utf8(digits).unwrap_or_default()
}
