//! The engine of the Delta kernel: the store's area for files, Arrow for JSON, Parquet and expressions.
//!
//! The kernel's own default engine brings a second implementation of every object store; this one goes through `assay-store`, so
//! that a commit is created once and on disk like every other object there.

use std::sync::Arc;

use assay_store::Area;
use assay_warehouse::check_pages;
use bytes::Bytes;
use delta_kernel::arrow::array::RecordBatch;
use delta_kernel::arrow::json::ReaderBuilder;
use delta_kernel::engine::arrow_conversion::TryFromArrow as _;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::engine::arrow_expression::ArrowEvaluationHandler;
use delta_kernel::engine::arrow_utils::{
    RowIndexBuilder, build_json_reorder_indices, fixup_json_read, fixup_parquet_read, json_arrow_schema,
    ordering_needs_row_indexes, parquet_read_plan,
};
use delta_kernel::engine::{parse_json, reader_options, to_json_bytes, writer_options};
use delta_kernel::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use delta_kernel::parquet::arrow::arrow_writer::ArrowWriter;
use delta_kernel::schema::{SchemaRef, StructType};
use delta_kernel::{
    Engine, EngineData, EvaluationHandler, FileDataReadResultIterator, FileMeta, FileSize, FileSlice, FilteredEngineData,
    JsonHandler, KernelError, KernelResult, KernelResultIterator, KernelResultIteratorStatic, ParquetFooter, ParquetHandler,
    PredicateRef, StorageHandler,
};
use url::Url;

/// The scheme under which the kernel sees the area. It only joins and compares these URLs.
const ROOT: &str = "assay:///";
/// The largest file of a log, in bytes. A commit names a run's files, and a checkpoint all files of a table in about 200 bytes each.
const MAX_LOG_FILE_BYTES: u64 = 512 << 20;
/// The most rows of a checkpoint that are unpacked at a time.
const CHECKPOINT_BATCH_ROWS: usize = 1024;

/// Returns the URL under which the kernel sees a table.
pub(crate) fn table_url(table: &str) -> String {
    format!("{ROOT}{table}/")
}

/// The kernel's engine over one area.
pub(crate) struct AreaEngine {
    files: Arc<AreaFiles>,
    evaluation: Arc<ArrowEvaluationHandler>,
}

impl AreaEngine {
    pub(crate) fn new(area: Area) -> Self {
        Self { files: Arc::new(AreaFiles(area)), evaluation: Arc::new(ArrowEvaluationHandler {}) }
    }
}

impl Engine for AreaEngine {
    fn evaluation_handler(&self) -> Arc<dyn EvaluationHandler> {
        self.evaluation.clone()
    }

    fn storage_handler(&self) -> Arc<dyn StorageHandler> {
        self.files.clone()
    }

    fn json_handler(&self) -> Arc<dyn JsonHandler> {
        self.files.clone()
    }

    fn parquet_handler(&self) -> Arc<dyn ParquetHandler> {
        self.files.clone()
    }
}

/// The kernel's file handlers over the area.
struct AreaFiles(Area);

fn failed(source: assay_store::Error) -> KernelError {
    KernelError::generic_err(source)
}

/// Returns the path in the area that a URL of the kernel names.
fn area_path(url: &Url) -> KernelResult<&str> {
    let path = url.as_str().strip_prefix(ROOT).map(|path| path.trim_end_matches('/'));
    path.ok_or_else(|| KernelError::generic(format!("`{url}` is outside of the warehouse")))
}

impl AreaFiles {
    fn get(&self, url: &Url) -> KernelResult<Bytes> {
        let bytes = self.0.read(area_path(url)?, MAX_LOG_FILE_BYTES).map_err(failed)?;
        bytes.map(Bytes::from).ok_or_else(|| KernelError::file_not_found(url))
    }

    /// Reads files one after the other, each when its rows are requested.
    fn read_each<F, I>(&self, files: &[FileMeta], mut parse: F) -> FileDataReadResultIterator
    where
        F: FnMut(Bytes, &FileMeta) -> KernelResult<I> + Send + 'static,
        I: Iterator<Item = KernelResult<ArrowEngineData>> + Send + 'static,
    {
        let area = Self(self.0.clone());
        let files: Vec<_> = files.to_vec();
        let rows = files.into_iter().flat_map(move |file| -> FileDataReadResultIterator {
            match area.get(&file.location).and_then(|bytes| parse(bytes, &file)) {
                Ok(batches) => Box::new(batches.map(|batch| batch.map(|batch| Box::new(batch) as Box<dyn EngineData>))),
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        });
        Box::new(rows)
    }
}

impl StorageHandler for AreaFiles {
    fn list_from(&self, url: &Url) -> KernelResult<KernelResultIteratorStatic<FileMeta>> {
        let path = area_path(url)?;
        let listed = if url.path().ends_with('/') {
            self.0.list(path, None)
        } else {
            let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
            self.0.list(folder, Some(path))
        };
        let objects = listed.map_err(failed)?.into_iter().map(|object| {
            let location = Url::parse(&format!("{ROOT}{}", object.path)).map_err(KernelError::generic_err)?;
            Ok(FileMeta { location, last_modified: object.modified_unix_ms, size: object.size })
        });
        Ok(Box::new(objects))
    }

    fn read_files(&self, files: Vec<FileSlice>) -> KernelResult<KernelResultIteratorStatic<Bytes>> {
        let area = Self(self.0.clone());
        let slices = files.into_iter().map(move |(url, range)| {
            let bytes = area.get(&url)?;
            let Some(range) = range else { return Ok(bytes) };
            let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
            match (start, end) {
                (Ok(start), Ok(end)) if start <= end && end <= bytes.len() => Ok(bytes.slice(start..end)),
                _ => Err(KernelError::generic(format!("`{url}` ends before what was asked of it"))),
            }
        });
        Ok(Box::new(slices))
    }

    fn copy_atomic(&self, src: &Url, dest: &Url) -> KernelResult<()> {
        let bytes = self.get(src)?;
        self.put(dest, bytes, false)
    }

    fn put(&self, url: &Url, data: Bytes, overwrite: bool) -> KernelResult<()> {
        let path = area_path(url)?;
        if overwrite {
            return self.0.replace(path, &data).map_err(failed);
        }
        let created = self.0.create(path, &data).map_err(failed)?;
        if created { Ok(()) } else { Err(KernelError::FileAlreadyExists(url.to_string())) }
    }

    fn head(&self, url: &Url) -> KernelResult<FileMeta> {
        let path = area_path(url)?;
        let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
        let found = self.0.list(folder, None).map_err(failed)?.into_iter().find(|object| object.path == path);
        let found = found.ok_or_else(|| KernelError::file_not_found(url))?;
        Ok(FileMeta { location: url.clone(), last_modified: found.modified_unix_ms, size: found.size })
    }

    fn delete(&self, url: &Url) -> KernelResult<()> {
        // The kernel deletes only to clean up logs, which this crate never requests: pinned versions are to stay.
        Err(KernelError::generic(format!("nothing in a store is deleted, `{url}` neither")))
    }
}

impl JsonHandler for AreaFiles {
    fn parse_json(&self, text: Box<dyn EngineData>, schema: SchemaRef) -> KernelResult<Box<dyn EngineData>> {
        parse_json(text, schema)
    }

    fn read_json_files(
        &self,
        files: &[FileMeta],
        schema: SchemaRef,
        _predicate: Option<PredicateRef>,
    ) -> KernelResult<FileDataReadResultIterator> {
        let columns = Arc::new(json_arrow_schema(&schema)?);
        Ok(self.read_each(files, move |bytes, file| {
            let order = build_json_reorder_indices(&schema)?;
            let location = file.location.to_string();
            let reader =
                ReaderBuilder::new(Arc::clone(&columns)).with_coerce_primitive(true).build(std::io::Cursor::new(bytes))?;
            Ok(reader.map(move |batch| fixup_json_read(batch?, &order, &location)))
        }))
    }

    fn write_json_file(
        &self,
        url: &Url,
        data: KernelResultIterator<'_, FilteredEngineData>,
        overwrite: bool,
    ) -> KernelResult<FileSize> {
        let bytes = to_json_bytes(data)?;
        let size = bytes.len() as FileSize;
        self.put(url, bytes.into(), overwrite).map(|()| size)
    }
}

impl ParquetHandler for AreaFiles {
    fn read_parquet_files(
        &self,
        files: &[FileMeta],
        schema: SchemaRef,
        // A predicate may be ignored; a checkpoint is small enough to be read whole.
        _predicate: Option<PredicateRef>,
    ) -> KernelResult<FileDataReadResultIterator> {
        Ok(self.read_each(files, move |bytes, file| {
            let metadata = ArrowReaderMetadata::load(&bytes, reader_options())?;
            let sizes = check_pages(&bytes, metadata.metadata()).map_err(KernelError::generic_err)?;
            let (order, mask) = parquet_read_plan(&schema, &metadata)?;
            let needs_indexes = ordering_needs_row_indexes(&order);
            let indexes = needs_indexes.then(|| RowIndexBuilder::new(metadata.metadata().row_groups()).build());
            let mut indexes = indexes.transpose()?;
            let rows = sizes.batch_rows(CHECKPOINT_BATCH_ROWS);
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata).with_batch_size(rows);
            if let Some(mask) = mask {
                builder = builder.with_projection(mask);
            }
            let (schema, location) = (Arc::clone(&schema), file.location.to_string());
            Ok(builder
                .build()?
                .map(move |batch| fixup_parquet_read(batch?, &order, indexes.as_mut(), Some(&location), Some(&schema))))
        }))
    }

    fn write_parquet_file(&self, url: Url, data: KernelResultIteratorStatic<Box<dyn EngineData>>) -> KernelResult<FileSize> {
        let mut batches =
            data.map(|batch| -> KernelResult<RecordBatch> { Ok((*ArrowEngineData::try_from_engine_data(batch?)?).into()) });
        let first = batches.next().ok_or_else(|| KernelError::generic("there is nothing to write"))??;
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new_with_options(&mut bytes, first.schema(), writer_options())?;
        writer.write(&first)?;
        for batch in batches {
            writer.write(&batch?)?;
        }
        writer.close()?;
        let size = bytes.len() as FileSize;
        self.0.replace(area_path(&url)?, &bytes).map_err(failed)?;
        Ok(size)
    }

    fn read_parquet_footer(&self, file: &FileMeta) -> KernelResult<ParquetFooter> {
        let metadata = ArrowReaderMetadata::load(&self.get(&file.location)?, reader_options())?;
        Ok(ParquetFooter { schema: Arc::new(StructType::try_from_arrow(metadata.schema().as_ref())?) })
    }
}
