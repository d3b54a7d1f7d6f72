//! The commands, one a file.

mod attach;
mod bench;
mod bootstrap;
mod build_image;
mod calibrate;
mod cancel;
mod cluster;
mod compare;
mod contracts;
mod definitions;
mod documents;
mod drive;
mod du;
mod estimate;
mod exec;
mod explain;
mod export;
mod exported_run;
mod fetch;
mod foreign_comparison;
mod foreign_evidence;
mod foreign_history;
mod foreign_tables;
mod foreign_verdict;
mod forge;
mod gate;
mod gc;
mod generate;
mod gpu_hours;
mod history;
mod hot_metrics;
mod import;
mod import_again;
mod import_results;
mod imports;
mod init;
mod install_programs;
mod keys;
mod logs;
mod noise;
mod on_kubernetes;
mod plan;
mod push;
mod query;
mod rank;
mod recompute;
mod remove;
mod removed;
mod render;
mod repository_root;
mod results;
mod run;
mod runs;
mod schema;
mod search_result;
mod serve;
mod show;
mod signed_evidence;
mod sources;
mod stacks;
mod status;
mod store_options;
mod supervise;
mod tidy;
pub(crate) mod times;
mod trace;
mod trial_output;
mod validate;
mod verify;
mod verify_bundle;

use assay_stage::{Exit, Failure};

/// The commands of `assay`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Run a pipeline in six signed stages, on this machine or in a Kubernetes cluster
    Run(Box<run::Run>),
    /// Benchmark an OpenAI-compatible endpoint with one command: exploratory, and measured like any run
    Bench(Box<bench::Bench>),
    /// Measure a command, or compare two, without any file: exploratory, and measured like any run
    Exec(Box<exec::Exec>),
    /// Measure how much load this machine's client makes and how exactly it measures, and sign the result
    Calibrate(calibrate::Calibrate),
    /// Verify a run: signatures, trust, digests, links, rows and raw bytes
    Verify(verify::Verify),
    /// Verify a Sigstore bundle of any signer over one file, with a key
    VerifyBundle(verify_bundle::VerifyBundle),
    /// Decide whether the candidate of a run regressed
    Gate(gate::Gate),
    /// Compare two runs, or two pieces of foreign evidence, metric by metric
    Compare(compare::Compare),
    /// Explain why a run is worse than another, from what was recorded while both were measured
    Explain(explain::Explain),
    /// Write lock files of software stacks, and a pipeline that measures a workload with each
    Stacks(Box<stacks::Stacks>),
    /// Order the variants of a run by a metric, and say which cannot be told apart
    Rank(rank::Rank),
    /// Show a metric over all runs with its change points
    History(history::History),
    /// Learn the noise of a comparison from its earlier runs, for gates and plans
    Noise(noise::LearnNoise),
    /// Post results to a forge: a pull request's comment, a commit's check, an issue
    Forge(forge::Forge),
    /// Trace a number to its raw samples, workload and commit
    Trace(trace::Trace),
    /// Query the warehouse with SQL, over all runs of a store
    Query(query::Query),
    /// Write the rows of a run as CSV, JSON or Parquet, or its results as the files of another tool
    Export(export::Export),
    /// Copy a run and everything that it refers to from one store to another
    Fetch(fetch::Fetch),
    /// Serve a store over the S3 protocol, for clusters that have no object store
    Serve(serve::Serve),
    /// Show the runs of a cluster, or the stages of one
    Status(status::Status),
    /// Print the logs of the pods of a run in a cluster
    Logs(logs::Logs),
    /// Follow a run in a cluster to its end
    Attach(attach::Attach),
    /// Stop a run in a cluster
    Cancel(cancel::Cancel),
    /// Print the Kubernetes objects of an installation and of scheduled pipelines
    Render(render::Render),
    /// Install Assay in a cluster: namespaces, identities, keys, permissions, and a store if there is none
    Bootstrap(bootstrap::Bootstrap),
    /// Commit a run's published folder to a branch, without force-pushing
    Push(push::Push),
    /// Write the workflows that gate pull requests into a repository
    Init(init::Init),
    /// Write workloads and a pipeline from a definition or a command line of another tool
    Import(import::Import),
    /// Show the contract of BenchmarkRuns, check documents by its rules, or render one
    Contracts(contracts::Contracts),
    /// Check definitions: report all problems of all files at once
    Validate(validate::Validate),
    /// Show what a pipeline would run: cases, points, trials and duration
    Plan(plan::Plan),
    /// Ask every telemetry source of a pipeline now, and show what a run would record of it
    Sources(sources::Sources),
    /// List the runs of a store, or remove their evidence
    Runs(runs::Runs),
    /// Show the bytes of a store by run and by kind
    Du(du::Du),
    /// Remove what nothing in a store needs any more
    Gc(gc::Gc),
    /// Show the result of a run
    Show(show::Show),
    /// Print the JSON Schema of a definition or manifest kind
    Schema(schema::Schema),
    /// Create, replace and list the local keys
    Keys(keys::Keys),
    /// Write the generated schemas and reference pages of this repository
    #[command(hide = true)]
    Generate(generate::Generate),
    /// Drive a run from a pod of its cluster
    #[command(hide = true)]
    Drive(drive::Drive),
    /// Install programs into a folder, for a container whose image lacks them
    #[command(hide = true)]
    InstallPrograms(install_programs::InstallPrograms),
    /// Run one program for a runner, and leave no process of it behind
    #[command(hide = true)]
    Supervise(supervise::Supervise),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self {
            Self::Run(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Exec(command) => command.run(),
            Self::Calibrate(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::VerifyBundle(command) => command.run(),
            Self::Gate(command) => command.run(),
            Self::Compare(command) => command.run(),
            Self::Explain(command) => command.run(),
            Self::Stacks(command) => command.run(),
            Self::Rank(command) => command.run(),
            Self::History(command) => command.run(),
            Self::Noise(command) => command.run(),
            Self::Forge(command) => command.run(),
            Self::Trace(command) => command.run(),
            Self::Query(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Fetch(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Logs(command) => command.run(),
            Self::Attach(command) => command.run(),
            Self::Cancel(command) => command.run(),
            Self::Render(command) => command.run(),
            Self::Bootstrap(command) => command.run(),
            Self::Push(command) => command.run(),
            Self::Init(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Contracts(command) => command.run(),
            Self::Validate(command) => command.run(),
            Self::Plan(command) => command.run(),
            Self::Sources(command) => command.run(),
            Self::Runs(command) => command.run(),
            Self::Du(command) => command.run(),
            Self::Gc(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Schema(command) => command.run(),
            Self::Keys(command) => command.run(),
            Self::Generate(command) => command.run(),
            Self::Drive(command) => command.run(),
            Self::InstallPrograms(command) => command.run(),
            Self::Supervise(command) => command.run(),
        }
    }
}
