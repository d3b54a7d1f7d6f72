//! The harness around every stage: verify, run, sign, accept.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use assay_chain::StageName;
use assay_envelope::{
    ExpectedManifest, Predicate, PublicKey, SecretKey, Signer, Trust, TrustPolicy, Verified, Zeroizing, verify,
};
use assay_manifest::{Body, Digest, Document, Header, InputRef, Instant, Kind, MAX_MANIFEST_BYTES, Role, RunId, canonical_json};
use assay_process::Cancel;
use assay_store::{CreateOutcome, Scratch, Store};
use clap::Parser as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::{Arguments, ManifestRef};
use crate::event::emit;
use crate::may_begin::{BEGIN_LIMIT, wait_for_mark};
use crate::seal::dependencies;
use crate::secret::key_password;
use crate::trust::read_named_trust;
use crate::{
    AcceptedResult, Clock, Context, ErrorCode, Event, Exit, Failure, Inputs, Layout, Seal, begin_binary_digest, binary_digest,
    input_digest, load_trust, seal,
};

/// The limit of a stage's scratch files, in bytes.
const SCRATCH_BYTES: u64 = 64 << 30;

/// The largest private key that is read from a pipe or file, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// One stage: a function from verified inputs to a body.
pub trait Stage {
    /// The parameters that decide, besides the inputs, what the stage does.
    type Parameters: Serialize + DeserializeOwned + Default;
    /// The body of its result.
    type Output: Body;
    /// Its name.
    const NAME: StageName;
    /// True if SIGTERM tells the stage that its work is done. For other stages SIGTERM means that the run is cancelled.
    const ENDS_BY_SIGNAL: bool = false;

    /// Runs the stage.
    fn run(&self, inputs: &Inputs, parameters: &Self::Parameters, ctx: &Context) -> Result<Self::Output, Failure>;
}

/// The body of a stage's `main`: runs the stage under the harness and reports the result by its exit code.
pub fn main<S: Stage>(stage: &S) -> ExitCode {
    init_tracing();
    let arguments = match Arguments::try_parse_from(stage_arguments(S::NAME, std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(error) => {
            let shown = error.print();
            return if error.use_stderr() || shown.is_err() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    match run(stage, &arguments) {
        Ok(event) => {
            emit(&event);
            Exit::Done.into()
        }
        Err(failure) => {
            tracing::error!("{failure}");
            let exit = failure.exit;
            if let Some(file) = &arguments.failure_file {
                // Cancelling a run in a cluster deletes the stage's Job. A container that gets SIGTERM for any other reason, such
                // as a drained node, has not failed: it is replaced.
                if exit == Exit::Cancelled {
                    let told = Failure::new(ErrorCode::ToldToEnd, "the container was told to end").because(&failure);
                    write_failure(file, &told);
                    emit(&Event::Failed(told));
                    return ExitCode::from(SIGTERM_EXIT);
                }
                write_failure(file, &failure);
            }
            emit(&Event::Failed(failure));
            exit.into()
        }
    }
}

/// The exit code that a shell returns for a program that SIGTERM ended.
const SIGTERM_EXIT: u8 = 143;

/// The most bytes that Kubernetes keeps of a container's termination message.
const MAX_FAILURE_BYTES: usize = 4096;

/// Writes the failure of a process to a file, as a container's termination message. A failure that is too long loses its details
/// first.
pub fn write_failure(file: &Path, failure: &Failure) {
    let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let short = Failure { causes: Vec::new(), hint: None, message: cut(&failure.message, 800), ..failure.clone() };
    let longer = Failure {
        causes: failure.causes.iter().take(3).map(|cause| cut(cause, 200)).collect(),
        hint: failure.hint.as_deref().map(|hint| cut(hint, 300)),
        ..short.clone()
    };
    let texts = [failure, &longer, &short].map(|failure| serde_json::to_vec(failure).unwrap_or_default());
    let fitting = texts.iter().find(|text| text.len() <= MAX_FAILURE_BYTES);
    if let Err(error) = std::fs::write(file, fitting.map(Vec::as_slice).unwrap_or_default()) {
        tracing::warn!(file = %file.display(), %error, "the failure was not written down");
    }
}

/// Returns the command line of the stage; the recorder's begins with the word that selects it.
fn stage_arguments(stage: StageName, arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let chosen_by = |index: usize| stage == StageName::Record && index == 1;
    arguments.enumerate().filter(|(index, _)| !chosen_by(*index)).map(|(_, argument)| argument).collect()
}

/// Sends diagnostics to stderr: `ASSAY_LOG` sets the level.
pub fn init_tracing() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ASSAY_LOG").unwrap_or_else(|_| "info".into());
    // A second subscriber is refused, which happens only if a test has set one.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_ansi(false)
        .try_init();
}

fn run<S: Stage>(stage: &S, arguments: &Arguments) -> Result<Event, Failure> {
    let cancel = assay_process::cancel_on_signals(&assay_process::END_SIGNALS)
        .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))?;
    begin_binary_digest();
    assay_process::become_reaper().map_err(|error| Failure::from_error(ErrorCode::Process, &error))?;
    let prepared = PreparedCall::<S>::new(arguments)?;
    if let Some(result) = prepared.find_accepted()? {
        return Ok(Event::Accepted { result, earlier: true });
    }
    prepared.run(stage, arguments, cancel)
}

/// The checked parts of a call, before the stage runs.
struct PreparedCall<S: Stage> {
    store: Store,
    trust: Trust,
    policy: Digest,
    inputs: Inputs,
    parameters: S::Parameters,
    parameters_json: Value,
    key: Option<Signer>,
    run_id: RunId,
    pointer: String,
    input_digest: Digest,
    started: Instant,
}

impl<S: Stage> PreparedCall<S> {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let started = Clock.now();
        let store = Store::reopen(&arguments.store)?;
        let read_policy = if arguments.recompute.is_some() { read_named_trust } else { load_trust };
        let (policy, policy_digest) = read_policy(&store, &arguments.trust)?;
        let key = match &arguments.recompute {
            None => Some(read_signer(arguments, &policy, S::NAME.role(), started)?),
            Some(_) => None,
        };
        let trust = Trust::Policy(policy);
        let documents = arguments.inputs.iter().map(|pair| load(&store, &trust, *pair)).collect::<Result<_, _>>()?;
        let inputs = Inputs::check(S::NAME, &arguments.run, documents, &trust)?;
        let (parameters, parameters_json) = read_parameters::<S>(&arguments.parameters)?;
        let input_digest = input_digest(S::NAME, &inputs.references(), &parameters_json, policy_digest)?;
        let run_id = arguments.run.clone();
        let pointer = Layout::for_run(&run_id).accepted(S::NAME, input_digest, arguments.shard);
        Ok(Self {
            store,
            trust,
            policy: policy_digest,
            inputs,
            parameters,
            parameters_json,
            key,
            run_id,
            pointer,
            input_digest,
            started,
        })
    }

    /// Returns the result that was accepted before, verified like any other.
    fn find_accepted(&self) -> Result<Option<InputRef>, Failure> {
        if self.key.is_none() {
            return Ok(None);
        }
        let pointer = self.store.read(&self.pointer, AcceptedResult::MAX_BYTES)?;
        pointer.map(|bytes| self.verify_accepted(&bytes)).transpose()
    }

    fn verify_accepted(&self, pointer: &[u8]) -> Result<InputRef, Failure> {
        let call = ExpectedResult::new(&self.run_id, S::Output::KIND, self.inputs.references(), &self.parameters_json);
        call.verify_result(&self.store, &self.trust, &self.pointer, pointer)
    }

    fn run(self, stage: &S, arguments: &Arguments, cancel: Cancel) -> Result<Event, Failure> {
        let output = match &arguments.recompute {
            Some(uri) => Store::open(uri)?,
            None => self.store.clone(),
        };
        let scratch = match &arguments.scratch {
            Some(folder) => Scratch::new_in(folder, SCRATCH_BYTES)?,
            None => Scratch::new(SCRATCH_BYTES)?,
        };
        let binary = binary_digest()?;
        let seal = self.key.map(|signer| Seal {
            signer,
            binary,
            invocation_id: format!("{}-{}", self.input_digest.short(), std::process::id()),
            started: self.started,
            parameters: self.parameters_json.clone(),
            stage: Some(S::NAME),
            shard: arguments.shard,
            trust_policy: Some(self.policy),
            dependencies: dependencies(self.inputs.verified().iter().map(Verified::value)),
        });
        let ctx = Context {
            run_id: self.run_id,
            store: self.store,
            output,
            scratch,
            cancel,
            shard: arguments.shard,
            place: crate::pod::read_place(|name| std::env::var(name).ok()),
            stage: S::NAME,
            input_digest: self.input_digest,
            input_references: self.inputs.references(),
            trust: self.trust,
            trust_policy: self.policy,
            binary,
            seal,
        };
        if let Some(path) = &arguments.begin_after {
            wait_for_mark(&ctx.store, path, BEGIN_LIMIT, &ctx.cancel)?;
        }
        ctx.emit(Event::Started { stage: S::NAME });
        let body = stage.run(&self.inputs, &self.parameters, &ctx)?;
        if !S::ENDS_BY_SIGNAL {
            ctx.check_cancelled()?;
        }
        match &ctx.seal {
            Some(_) => accept(&ctx, &self.pointer, self.inputs.references(), body),
            None => store_recomputed(&ctx, self.inputs.references(), body),
        }
    }
}

/// Signs the result and registers it as the accepted one. If another process was first, returns that process's result.
fn accept<B: Body>(ctx: &Context, pointer: &str, inputs: Vec<InputRef>, body: B) -> Result<Event, Failure> {
    let Some(own) = &ctx.seal else { return Err(Failure::new(ErrorCode::Internal, "a result cannot be accepted without a key")) };
    let call = ExpectedResult::new(&ctx.run_id, B::KIND, inputs.clone(), &own.parameters);
    let reference = seal(own, &ctx.store, &ctx.run_id, inputs, body)?.reference;
    let accepted = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle };
    match ctx.store.create(pointer, &accepted.to_bytes()?)? {
        CreateOutcome::New => Ok(Event::Accepted { result: reference, earlier: false }),
        CreateOutcome::Existing { existing } => {
            let result = call.verify_result(&ctx.store, &ctx.trust, pointer, &existing)?;
            Ok(Event::Accepted { result, earlier: true })
        }
    }
}

/// The properties that a manifest must have to be the result of this call, because any writer may have named it under the call's
/// pointer.
struct ExpectedResult<'a> {
    run_id: &'a RunId,
    kind: Kind,
    inputs: Vec<InputRef>,
    parameters: &'a Value,
}

impl<'a> ExpectedResult<'a> {
    fn new(run_id: &'a RunId, kind: Kind, mut inputs: Vec<InputRef>, parameters: &'a Value) -> Self {
        inputs.sort_unstable();
        inputs.dedup();
        Self { run_id, kind, inputs, parameters }
    }

    /// Returns the result that a pointer names, verified like any other.
    fn verify_result(&self, store: &Store, trust: &Trust, path: &str, pointer: &[u8]) -> Result<InputRef, Failure> {
        let AcceptedResult { manifest, bundle } = AcceptedResult::parse(path, pointer)?;
        let verified = load(store, trust, ManifestRef { manifest, bundle })?;
        if self.matches_call(verified.value().header(), verified.predicate()) {
            return Ok(verified.input_ref());
        }
        let message = format!("the pointer `{path}` names a manifest that is not the result of this call");
        Err(Failure::new(ErrorCode::OtherResult, message))
    }

    fn matches_call(&self, header: &Header, predicate: &Predicate) -> bool {
        let of_inputs = header.kind == self.kind && header.run_id == *self.run_id && header.inputs == self.inputs;
        // A Publication has no provenance; publish has no parameters that could differ.
        let of_parameters = match predicate {
            Predicate::Provenance(provenance) => provenance.external_parameters.get("parameters") == Some(self.parameters),
            Predicate::VerificationSummary(_) | Predicate::TestResult(_) => true,
        };
        of_inputs && of_parameters
    }
}

/// Stores the unsigned manifest in the output store.
fn store_recomputed<B: Body>(ctx: &Context, inputs: Vec<InputRef>, body: B) -> Result<Event, Failure> {
    let manifest = assay_manifest::Manifest::new(ctx.run_id.clone(), inputs, body);
    let bytes = manifest
        .to_bytes()
        .map_err(|error| Failure::new(ErrorCode::Internal, "the manifest has no canonical form").because(&error))?;
    Ok(Event::Recomputed { manifest: ctx.output.put(&bytes)? })
}

/// Loads and verifies a manifest.
pub(crate) fn load(store: &Store, trust: &Trust, pair: ManifestRef) -> Result<Verified<Document>, Failure> {
    let manifest = store.get(&pair.manifest, MAX_MANIFEST_BYTES)?;
    let bundle = store.get(&pair.bundle, assay_envelope::MAX_BUNDLE_BYTES as u64)?;
    Ok(verify(&manifest, &bundle, trust, &ExpectedManifest::default())?)
}

fn read_parameters<S: Stage>(text: &str) -> Result<(S::Parameters, Value), Failure> {
    let refuse = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::Parameters, format!("the parameters of {} cannot be read", S::NAME)).because(error)
    };
    // Parsing goes through a map, because serde reads a list of values as the fields of a struct in their order.
    let members: serde_json::Map<String, Value> = serde_json::from_str(text).map_err(|error| refuse(&error))?;
    let parameters: S::Parameters = serde_json::from_value(members.into()).map_err(|error| refuse(&error))?;
    let canonical = canonical_json(&parameters).map_err(|error| refuse(&error))?;
    let json = serde_json::from_slice(&canonical).map_err(|error| refuse(&error))?;
    Ok((parameters, json))
}

/// Reads the stage's key. A key that the policy does not allow for this stage is refused before any work is done.
fn read_signer(arguments: &Arguments, policy: &TrustPolicy, role: Role, now: Instant) -> Result<Signer, Failure> {
    let key = match (&arguments.key, arguments.key_fd) {
        (Some(path), _) => decrypt(path)?,
        (None, Some(fd)) => from_descriptor(fd)?,
        (None, None) => {
            return Err(Failure::new(ErrorCode::NoKey, format!("{role} was given no key to sign with"))
                .hint("give the stage's key with `--key FILE` (cosign's format) or `--key-fd N`"));
        }
    };
    let signer = Signer::new(key);
    check_may_sign(policy, signer.public_key(), role, now)?;
    Ok(signer)
}

fn check_may_sign(policy: &TrustPolicy, key: &PublicKey, role: Role, now: Instant) -> Result<(), Failure> {
    let fingerprint = key.fingerprint();
    let known: Vec<_> = policy.signers.iter().filter(|signer| signer.key.fingerprint() == fingerprint).collect();
    let mut allowed = known.iter().filter(|signer| signer.signs.contains(&role));
    if allowed.clone().any(|signer| signer.is_valid_at(now)) {
        return Ok(());
    }
    if let Some(signer) = allowed.next() {
        let message = format!("the key of `{}` is not valid at {now}", signer.name);
        return Err(Failure::new(ErrorCode::KeyOutsideValidity, message)
            .hint("see `not_before` and `not_after` of the signer in the trust policy; `assay keys rotate` makes a new key"));
    }
    let who = known.first().map_or_else(|| "an unlisted key".to_owned(), |signer| format!("the key of `{}`", signer.name));
    Err(Failure::new(ErrorCode::WrongSigner, format!("the trust policy `{}` does not let {who} sign for {role}", policy.name)))
}

fn decrypt(path: &Path) -> Result<SecretKey, Failure> {
    let unreadable = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::Key, format!("cannot read the key `{}`", path.display())).because(error)
    };
    let text = String::from_utf8(read_limited(path).map_err(|error| unreadable(&error))?).map_err(|error| unreadable(&error))?;
    SecretKey::decrypt(&text, key_password().as_encoded_bytes()).map_err(|error| error.into_failure(path))
}

fn from_descriptor(fd: u32) -> Result<SecretKey, Failure> {
    let unreadable = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::KeyFd, format!("no key can be read from file descriptor {fd}")).because(error)
    };
    let der = read_limited(Path::new(&format!("/proc/self/fd/{fd}"))).map_err(|error| unreadable(&error)).map(Zeroizing::new)?;
    SecretKey::from_pkcs8_der(&der).map_err(|error| unreadable(&error))
}

fn read_limited(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_KEY_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
