//! The session of a query: one partition in, one partition out, and access to the opened files only.
//!
//! With more partitions, the order in which sums are added up, and with it their last bits, would differ from run to run.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use assay_query::wire::File;
use assay_query::{LimitedResource, Limits, QueryError, ResultTable, VIEWS, panic_text, plain_schema};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::common::config::TableParquetOptions;
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

use crate::cells::{columns, from_batches};
use crate::check::{QueryTables, STACK_BYTES, collect_tables, invalid_query, parse_statement};
use crate::checked_arithmetic::{check_overflow, describe};
use crate::origin::table_column;
use crate::thread_error;

/// Rows per batch. Fixed, because sums are added up batch by batch.
const BATCH_ROWS: usize = 8 * 1024;

/// The schema of the tables and views.
pub(crate) const SCHEMA: &str = "warehouse";

/// The files of every table that was opened.
pub(crate) type Tables = BTreeMap<String, Vec<File>>;

/// Runs a query on a thread of its own.
///
/// A query that exceeds its time limit is stopped when it waits for rows; one that never waits ends with this process.
pub(crate) fn run_query(sql: String, tables: Tables, limits: Limits) -> Result<ResultTable, QueryError> {
    let (send, receive) = mpsc::sync_channel(1);
    let work = move || {
        let done = catch_unwind(AssertUnwindSafe(|| run_with_timeout(&sql, &tables, limits)));
        // After the timeout, the receiver is gone.
        let _ = send.send(done.unwrap_or_else(|panic| Err(QueryError::engine_failed(panic_text(&*panic)))));
    };
    std::thread::Builder::new().name("query".to_owned()).stack_size(STACK_BYTES).spawn(work).map_err(thread_error)?;
    match receive.recv_timeout(limits.time) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => Err(QueryError::over_time(limits)),
        Err(RecvTimeoutError::Disconnected) => Err(QueryError::engine_failed("its thread ended without a word")),
    }
}

fn run_with_timeout(sql: &str, tables: &Tables, limits: Limits) -> Result<ResultTable, QueryError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(thread_error)?;
    let done = runtime.block_on(async { tokio::time::timeout(limits.time, execute(sql, tables, limits)).await });
    done.unwrap_or_else(|_| Err(QueryError::over_time(limits)))
}

async fn execute(sql: &str, tables: &Tables, limits: Limits) -> Result<ResultTable, QueryError> {
    let wrong = |error: DataFusionError| invalid_query(&error);
    let failed = |error: DataFusionError| failure(error, limits);
    let statement = parse_statement(sql)?;
    let context = context(&collect_tables(&statement)?, tables, limits).await?;
    let plan = context.state().statement_to_plan(statement).await.map_err(wrong)?;
    check_plan(&plan)?;
    let columns = columns(plan.schema().as_arrow(), |index| table_column(&plan, index));
    if columns.is_empty() {
        return Err(QueryError::refused("it gives no columns"));
    }
    let frame = context.execute_logical_plan(plan).await.map_err(failed)?;
    let mut stream = frame.execute_stream().await.map_err(failed)?;
    let (mut batches, mut rows, mut bytes) = (Vec::<RecordBatch>::new(), 0, 0);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(failed)?;
        rows += batch.num_rows() as u64;
        bytes += batch.get_array_memory_size() as u64;
        if rows > limits.rows {
            return Err(QueryError::OverLimit { what: LimitedResource::Rows, limit: limits.rows });
        }
        if bytes > limits.memory_bytes {
            return Err(QueryError::OverLimit { what: LimitedResource::Memory, limit: limits.memory_bytes });
        }
        batches.push(batch);
    }
    from_batches(columns, &batches)
}

fn failure(error: DataFusionError, limits: Limits) -> QueryError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => {
            QueryError::OverLimit { what: LimitedResource::Memory, limit: limits.memory_bytes }
        }
        _ => QueryError::failed(describe(&error)),
    }
}

/// Returns the context of a query. It holds the tables and views that the query reads: to plan all views takes longer than most
/// queries. A query of `information_schema` sees them all.
async fn context(reads: &QueryTables, tables: &Tables, limits: Limits) -> Result<SessionContext, QueryError> {
    let start = |error: DataFusionError| QueryError::failed(error.strip_backtrace());
    let memory = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime =
        RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).with_disk_manager_builder(disk).build_arc().map_err(start)?;
    let mut context = SessionContext::new_with_config_rt(config(), runtime);
    check_overflow(&mut context).map_err(start)?;
    // The catalog describes the tables of the warehouse; those of foreign evidence are there if the query reads them.
    let own = assay_warehouse::TABLES.iter().filter(|table| reads.catalog || reads.tables.contains(table.name));
    let foreign = assay_warehouse::FOREIGN_TABLES.iter().filter(|table| reads.tables.contains(table.name));
    for table in own.chain(foreign) {
        let files = tables.get(table.name).map(|files| files.iter().map(partitioned_file).collect());
        let provider = CuratedTable { name: table.name, schema: plain_schema(table), files };
        context.register_table(table.name, Arc::new(provider)).map_err(start)?;
    }
    for view in VIEWS.iter().filter(|view| reads.catalog || reads.views.contains(view.name)) {
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
        .with_default_catalog_and_schema("assay", SCHEMA)
        .with_repartition_file_scans(false)
        .with_repartition_aggregations(false)
        .with_repartition_joins(false)
        .with_repartition_sorts(false)
        .with_repartition_windows(false)
        .with_collect_statistics(false)
        .set_bool("datafusion.optimizer.enable_dynamic_filter_pushdown", false)
        // A physical plan would show the names of scratch files, which differ from run to run.
        .set_bool("datafusion.explain.logical_plan_only", true)
}

fn partitioned_file(file: &File) -> PartitionedFile {
    PartitionedFile::new(file.path.to_string_lossy(), file.bytes)
}

/// Checks that a plan only reads, and that its result depends on the rows alone.
fn check_plan(plan: &LogicalPlan) -> Result<(), QueryError> {
    let reads_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads_only.verify_plan(plan).map_err(|error| QueryError::refused(error.strip_backtrace()))?;
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
    walked.map_err(|error| QueryError::invalid(error.strip_backtrace()))?;
    match moving {
        Some(name) => Err(QueryError::refused(format!("`{name}` gives another value each time"))),
        None => Ok(()),
    }
}

/// Returns the options that make the Parquet reader rely on values alone. A file's own metadata (statistics, page indexes, Bloom
/// filters) decides which values an engine skips, and the writer of the file may have put anything there. The readers that
/// compare rows with their manifests ignore it, so a query must ignore it too.
fn values_only_options() -> TableParquetOptions {
    let mut options = TableParquetOptions::default();
    options.global.pruning = false;
    options.global.enable_page_index = false;
    options.global.bloom_filter_on_read = false;
    options
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
        let source = Arc::new(ParquetSource::new(Arc::clone(&self.schema)).with_table_parquet_options(values_only_options()));
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_group(FileGroup::new(files.clone()))
            .with_preserve_order(true)
            .with_limit(limit)
            .with_projection_indices(projection.cloned())?;
        Ok(DataSourceExec::from_data_source(scan.build()))
    }
}
