//! The batches of one row group, each of which may unpack so many pages and no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

use super::{ObjectError, malformed};

/// The rows of a batch. Each may have 16 MiB of texts, so that more of them would need more memory than this is worth.
const BATCH_ROWS: usize = 8;

/// The most bytes of pages that a batch unpacks: the first page of each column, which the headers limit to 256 MiB, and what its rows need.
const MAX_BATCH_BYTES: u64 = (256 << 20) + ((BATCH_ROWS as u64) << 24);

/// The most values of these pages: those of the first pages, which the headers limit to 8 Mi, and what the rows need.
const MAX_BATCH_VALUES: u64 = 10 << 20;

/// The pages that the current batch has unpacked.
#[derive(Debug, Default)]
struct Unpacked {
    bytes: AtomicU64,
    values: AtomicU64,
}

impl Unpacked {
    fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.values.store(0, Ordering::Relaxed);
    }

    /// Counts a page. Returns the limit that it exceeds.
    fn add(&self, page: &Page) -> ParquetResult<()> {
        let bytes = page.buffer().len() as u64;
        let is_dictionary = matches!(page, Page::DictionaryPage { .. });
        let values = if is_dictionary { 0 } else { u64::from(page.num_values()) };
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.values.fetch_add(values, Ordering::Relaxed);
        self.exceeded().map_or(Ok(()), |error| Err(ParquetError::External(Box::new(error))))
    }

    fn exceeded(&self) -> Option<ObjectError> {
        let limits = [
            ("bytes of pages for a few rows", &self.bytes, MAX_BATCH_BYTES),
            ("values of pages for a few rows", &self.values, MAX_BATCH_VALUES),
        ];
        let (what, _, limit) = limits.into_iter().find(|(_, unpacked, limit)| unpacked.load(Ordering::Relaxed) > *limit)?;
        Some(ObjectError::TooLarge { what, limit })
    }
}

/// The batches of a row group.
pub(super) struct Batches {
    reader: ParquetRecordBatchReader,
    unpacked: Arc<Unpacked>,
}

impl Batches {
    pub(super) fn of_group<R: ChunkReader + 'static>(
        source: &Arc<R>,
        metadata: &Arc<ParquetMetaData>,
        group: usize,
        levels: &FieldLevels,
    ) -> Result<Self, ObjectError> {
        let unpacked = Arc::new(Unpacked::default());
        let group = OneGroup { source: source.clone(), metadata: metadata.clone(), group, unpacked: unpacked.clone() };
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(levels, &group, BATCH_ROWS, None).map_err(malformed)?;
        Ok(Self { reader, unpacked })
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ObjectError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.unpacked.reset();
        let batch = self.reader.next()?;
        Some(batch.map_err(|error| self.unpacked.exceeded().unwrap_or_else(|| malformed(error))))
    }
}

/// A row group whose pages are counted.
struct OneGroup<R> {
    source: Arc<R>,
    metadata: Arc<ParquetMetaData>,
    group: usize,
    unpacked: Arc<Unpacked>,
}

impl<R: ChunkReader + 'static> RowGroups for OneGroup<R> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let group = self.metadata.row_group(self.group);
        let pages = SerializedPageReader::new(self.source.clone(), group.column(column), self.num_rows(), None)?;
        Ok(Box::new(OneChunk(Some(CountedPages { pages, unpacked: self.unpacked.clone() }))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of one column, as the library wants them: one reader for each chunk.
struct OneChunk<R: ChunkReader>(Option<CountedPages<R>>);

impl<R: ChunkReader + 'static> Iterator for OneChunk<R> {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl<R: ChunkReader + 'static> PageIterator for OneChunk<R> {}

/// Pages that are counted as they are unpacked.
struct CountedPages<R: ChunkReader> {
    pages: SerializedPageReader<R>,
    unpacked: Arc<Unpacked>,
}

impl<R: ChunkReader> Iterator for CountedPages<R> {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for CountedPages<R> {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.unpacked.add(&page).map(|()| page)).transpose()
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}
