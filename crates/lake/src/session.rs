//! Where a query runs: one partition in, one partition out, and nothing but the reading's files in sight.
//!
//! With more partitions the order in which sums are added up, and with it their last bits, would differ from run to run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::StreamExt as _;

use crate::error::panic_text;
use crate::format::plain_schema;
use crate::query::{STACK_BYTES, statement};
use crate::reading::OpenedFiles;
use crate::views::VIEWS;
use crate::{Error, Query, Reading, Result, ResultTable, result};

/// Rows that are worked on at a time. Fixed: sums are added up batch by batch.
const BATCH_ROWS: usize = 8 * 1024;

/// What a query may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory for sorting, joining and grouping, and for the result, in bytes each. Nothing is spilled to disk.
    pub memory_bytes: u64,
    /// Rows of the result. More are an error, never cut off.
    pub rows: u64,
    /// Time from start to end.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 512 << 20, rows: 100_000, time: Duration::from_secs(60) }
    }
}

/// Runs a query over a reading's files on a thread of its own.
///
/// A query that is over its time is ended where it waits for rows; one that does not even come to wait is left behind, and ends with
/// the process: threads cannot be stopped.
pub(crate) fn ask(reading: &Reading, query: &Query, limits: Limits) -> Result<ResultTable> {
    if let Some(table) = query.tables().find(|table| !reading.tables.contains_key(table.name)) {
        return Err(Error::NotOpened(table.name.to_owned()));
    }
    let (files, query) = (reading.tables.clone(), query.clone());
    let (send, receive) = mpsc::sync_channel(1);
    let work = move || {
        let done = catch_unwind(AssertUnwindSafe(|| run(&files, &query, limits)));
        // Nobody listens any more when the time is over.
        let _ = send.send(done.unwrap_or_else(|panic| Err(Error::GaveUp(panic_text(&*panic)))));
    };
    let builder = std::thread::Builder::new().name("assay-query".to_owned()).stack_size(STACK_BYTES);
    builder.spawn(work).map_err(Error::Start)?;
    match receive.recv_timeout(limits.time) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => Err(over_time(limits)),
        Err(RecvTimeoutError::Disconnected) => Err(Error::GaveUp("the query's thread ended without a word".to_owned())),
    }
}

fn over_time(limits: Limits) -> Error {
    Error::OverLimit { what: "milliseconds", limit: limits.time.as_millis() as u64 }
}

fn run(files: &OpenedFiles, query: &Query, limits: Limits) -> Result<ResultTable> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(Error::Start)?;
    let done = runtime.block_on(async { tokio::time::timeout(limits.time, answer(files, query, limits)).await });
    done.unwrap_or(Err(over_time(limits)))
}

async fn answer(files: &OpenedFiles, query: &Query, limits: Limits) -> Result<ResultTable> {
    let wrong = |error: DataFusionError| Error::BadQuery(error.strip_backtrace());
    let failed = |error: DataFusionError| failure(error, limits);
    let context = context(files, limits).await?;
    let plan = context.state().statement_to_plan(statement(query.sql())?).await.map_err(wrong)?;
    check_plan(&plan)?;
    let frame = context.execute_logical_plan(plan).await.map_err(failed)?;
    let schema: SchemaRef = Arc::clone(frame.schema().inner());
    let mut stream = frame.execute_stream().await.map_err(failed)?;
    let (mut batches, mut rows, mut bytes) = (Vec::<RecordBatch>::new(), 0, 0);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(failed)?;
        rows += batch.num_rows() as u64;
        bytes += batch.get_array_memory_size() as u64;
        if rows > limits.rows {
            return Err(Error::OverLimit { what: "rows", limit: limits.rows });
        }
        if bytes > limits.memory_bytes {
            return Err(Error::OverLimit { what: "bytes of memory", limit: limits.memory_bytes });
        }
        batches.push(batch);
    }
    result::of_batches(&schema, &batches)
}

fn failure(error: DataFusionError, limits: Limits) -> Error {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => Error::OverLimit { what: "bytes of memory", limit: limits.memory_bytes },
        _ => Error::Failed(error.strip_backtrace()),
    }
}

async fn context(files: &OpenedFiles, limits: Limits) -> Result<SessionContext> {
    let start = |error: DataFusionError| Error::Failed(error.strip_backtrace());
    let memory = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime =
        RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).with_disk_manager_builder(disk).build_arc().map_err(start)?;
    let context = SessionContext::new_with_config_rt(config(), runtime);
    for table in assay_warehouse::TABLES {
        let files = files.get(table.name).map(|files| files.iter().map(|(_, file)| part(file)).collect());
        let provider = CuratedTable { name: table.name, schema: plain_schema(table), files };
        context.register_table(table.name, Arc::new(provider)).map_err(start)?;
    }
    for view in VIEWS {
        let frame = context.sql(view.sql).await.map_err(start)?;
        context.register_table(view.name, frame.into_view()).map_err(start)?;
    }
    Ok(context)
}

fn config() -> SessionConfig {
    SessionConfig::new()
        .with_target_partitions(1)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(true)
        .with_default_catalog_and_schema("assay", "warehouse")
        .with_repartition_file_scans(false)
        .with_repartition_aggregations(false)
        .with_repartition_joins(false)
        .with_repartition_sorts(false)
        .with_repartition_windows(false)
        .with_collect_statistics(false)
        // A physical plan would tell the names of scratch files, which no two runs share.
        .set_bool("datafusion.explain.logical_plan_only", true)
}

fn part(file: &assay_store::ScratchFile) -> PartitionedFile {
    PartitionedFile::new(file.path().to_string_lossy(), file.size())
}

/// Whether a plan only reads, and whether the rows alone decide what it gives.
fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let reads_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads_only.verify_plan(plan).map_err(|error| Error::Refused(error.strip_backtrace()))?;
    let mut moving = None;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::ScalarFunction(call) = part
                    && call.func.signature().volatility != Volatility::Immutable
                {
                    moving = Some(call.func.name().to_owned());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.map_err(|error| Error::BadQuery(error.strip_backtrace()))?;
    match moving {
        Some(name) => Err(Error::Refused(format!("`{name}` gives another value each time"))),
        None => Ok(()),
    }
}

/// A curated table as DataFusion sees it: its files in their order, as one partition.
#[derive(Debug)]
struct CuratedTable {
    name: &'static str,
    schema: SchemaRef,
    files: Option<Vec<PartitionedFile>>,
}

#[async_trait]
impl TableProvider for CuratedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let not_opened = || DataFusionError::Plan(format!("table `{}` was not opened for this query", self.name));
        let files = self.files.as_ref().ok_or_else(not_opened)?;
        if files.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(self.schema.project(columns)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let source = Arc::new(ParquetSource::new(Arc::clone(&self.schema)));
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_group(FileGroup::new(files.clone()))
            .with_preserve_order(true)
            .with_limit(limit)
            .with_projection_indices(projection.cloned())?;
        Ok(DataSourceExec::from_data_source(scan.build()))
    }
}
